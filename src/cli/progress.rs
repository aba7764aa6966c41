//! A race's progress: a small table that is rewritten on a terminal, nothing elsewhere.

use std::cell::RefCell;
use std::rc::Rc;

use deadheat_base::figures;
use deadheat_base::foreign::visible;
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::measurements::Unit;
use deadheat_contract::measurements::series::RoundTrips;
use deadheat_race::race::context::{Observer, RaceEvent};
use deadheat_report::columns;
use deadheat_report::words::{self, Scale};
use deadheat_result::outcome::{Outcome, Verdict};
use deadheat_trial::lead::live::{LiveRate, LiveRow, LiveWay};

use super::screen::Screen;
use super::standing::MetricStanding;

/// Shows a race as it runs.
pub(super) struct Progress {
    screen: Screen,
    running: RunningTrial,
    /// Name of the whole that the race is part of, in front of the first line.
    before: String,
    blocks: u64,
    blocks_max: u64,
    remaining: Option<Nanos>,
    table: Vec<String>,
    /// True while the far end does not answer.
    is_waiting: bool,
}

impl Progress {
    pub(super) fn new(screen: Screen) -> Progress {
        Progress {
            screen,
            running: RunningTrial::default(),
            before: String::new(),
            blocks: 0,
            blocks_max: 0,
            remaining: None,
            table: Vec::new(),
            is_waiting: false,
        }
    }

    /// Sets the name of the whole that the race is part of, in front of everything shown.
    pub(super) fn within(mut self, what: &str) -> Progress {
        self.before = if what.is_empty() { String::new() } else { format!("{what} · ") };
        self
    }

    /// Sets the place where it notes which trial runs.
    pub(super) fn noting(mut self, running: &RunningTrial) -> Progress {
        self.running = running.clone();
        self
    }

    fn say(&self, doing: &str) {
        let first = format!("{}{doing}", self.before);
        self.screen.show(std::iter::once(first).chain(self.table.iter().cloned()).collect());
    }

    /// Shows that the race waits for its far end, and leaves a line of it when that begins.
    fn wait(&mut self, doing: &str, left: &str, why: &str) {
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.screen.above(&format!("{}{doing}, up to {left}: {why}", self.before));
        }
        self.say(&format!("{doing} · {left} left at most · {why}"));
    }

    fn show(&self, doing: &str) {
        let mut text = format!("block {} of {}", self.blocks + 1, self.blocks_max);
        if let Some(remaining) = self.remaining {
            text += &format!(" · {} left at most", words::span(remaining));
        }
        self.say(&format!("{text} · {doing}"));
    }
}

impl Observer for Progress {
    fn on(&mut self, event: RaceEvent<'_>) {
        match event {
            RaceEvent::Pilot { trial, of } => {
                self.running.set(format!("pilot {trial}"), "");
                self.say(&format!("measuring how much trials vary: trial {trial} of {of}"));
            }
            RaceEvent::Settling { why } => {
                self.say(&format!("waiting for the host to settle: {}", why.words()));
            }
            RaceEvent::Expected { takes } => {
                let takes = words::span(takes);
                let text = format!("{}a verdict takes about {takes} over this line", self.before);
                self.screen.above(&text);
            }
            RaceEvent::Planned { outcome, takes } => {
                self.blocks_max = outcome.plan.blocks_max;
                self.remaining = takes;
                self.table = table(outcome);
                if let Some(text) = takes.and_then(|takes| long(outcome, takes)) {
                    self.screen.above(&format!("{}{text}", self.before));
                }
            }
            RaceEvent::TimeIsShort { room, fewest, takes } => {
                let room = words::count(room, "block");
                self.screen.above(&format!(
                    "{}The budget has room for {room}, and verdicts take {fewest}: about {} in all.",
                    self.before,
                    words::span(takes)
                ));
            }
            RaceEvent::Waiting { left } => {
                self.blocks = self.blocks.min(self.blocks_max.saturating_sub(1));
                self.show(&format!("the block begins in {}", words::span(left)));
            }
            RaceEvent::FarEndAway { host, since, why, left } => {
                let host = visible(host);
                let left = words::span(left);
                self.wait(&format!("waiting for {host} since {since}"), &left, &visible(why));
            }
            RaceEvent::FarEndBack { host, waited } => {
                self.is_waiting = false;
                let (before, host) = (&self.before, visible(host));
                let waited = words::span(waited);
                let text = format!("{before}{host} answers again after {waited}; the race goes on");
                self.screen.above(&text);
            }
            RaceEvent::TrialStarted(place) => {
                self.blocks = place.block;
                let mark = if place.control { COPY } else { "" };
                self.running.set(format!("block {}", place.block + 1), mark);
                self.show(&format!("{}{mark}", place.label));
            }
            RaceEvent::BlockDone { outcome, blocks, remaining } => {
                self.blocks = blocks;
                self.blocks_max = outcome.plan.blocks_max;
                self.remaining = Some(remaining);
                self.table = table(outcome);
            }
            RaceEvent::Explaining { trial, of, label } => {
                self.running.set(format!("explain {trial}"), "");
                self.say(&format!(
                    "measuring where the time goes: trial {trial} of {of} · {label}"
                ));
            }
            RaceEvent::Ended { .. } => self.screen.clear(),
            _ => {}
        }
    }
}

/// Returns a note to show before a race that will take far longer than races do by default; `None` for other races.
fn long(outcome: &Outcome, takes: Nanos) -> Option<String> {
    let is_long = outcome.asked.budget_ns.is_some_and(|budget| takes.0 > 2 * budget);
    is_long.then(|| {
        format!(
            "This takes up to {}: {} blocks for verdicts on all claims. Ctrl-C keeps the blocks done; --budget sets a limit.",
            words::span(takes),
            outcome.plan.blocks_max
        )
    })
}

/// Text behind the name of a contender's hidden copy.
const COPY: &str = " (copy)";

/// Maximum number of columns of a name.
const WIDEST_NAME: usize = 28;

/// Returns the contenders of the first claimed metric, how they compare, and the difference resolved so far.
fn table(outcome: &Outcome) -> Vec<String> {
    let Some(metric) = outcome.metrics.first() else { return Vec::new() };
    let standing = MetricStanding::of(outcome, metric);
    let racing = standing.rows.iter().filter(|row| row.out.is_none());
    let mut rows: Vec<[String; 3]> = racing.map(|row| standing.texts(row)).collect();
    let pairs = standing.pairs.iter();
    rows.extend(pairs.map(|pair| [&pair.name, &pair.point, &pair.interval].map(String::clone)));
    let name = rows.iter().map(|[name, ..]| columns(name)).max().unwrap_or(0).min(WIDEST_NAME);
    let figure = rows.iter().map(|[_, figure, _]| figure.chars().count()).max().unwrap_or(0);
    let mut lines = vec![format!("  {}", standing.heading())];
    lines.extend(rows.iter().map(|[label, value, interval]| {
        let gap = " ".repeat(name.saturating_sub(columns(label)));
        format!("  {label}{gap}  {value:>figure$}  {interval}").trim_end().to_owned()
    }));
    let claims = outcome.verdicts.iter().filter(|verdict| verdict.metric == metric.name);
    let resolved = claims.filter_map(resolution).reduce(f64::max);
    lines.extend(resolved.map(|one| format!("  resolution so far {}", figures::resolution(one))));
    lines
}

/// Returns the smallest difference resolved so far, as a fraction: half of the ratio's interval.
fn resolution(verdict: &Verdict) -> Option<f64> {
    let ratio = verdict.ratio.as_ref()?;
    let half = (ratio.high / ratio.low).sqrt() - 1.0;
    half.is_finite().then_some(half)
}

/// Trial that runs, as it is named in the lines of its intervals. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningTrial(Rc<RefCell<TrialName>>);

#[derive(Debug, Default)]
struct TrialName {
    /// Place in the race: `block 3`.
    place: String,
    /// Text behind the contender's name.
    mark: &'static str,
}

impl RunningTrial {
    fn set(&self, place: String, mark: &'static str) {
        *self.0.borrow_mut() = TrialName { place, mark };
    }

    /// Formats an interval of the trial as a line.
    pub(super) fn interval(&self, row: &LiveRow) -> String {
        let name = self.0.borrow();
        let place = if name.place.is_empty() { "" } else { "  " };
        let contender = visible(&row.contender);
        format!("{}{place}{contender}{}  {}", name.place, name.mark, interval(row))
    }
}

/// Formats an interval of a running trial: its times and its known figures.
fn interval(row: &LiveRow) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let span = format!("{:.2}–{:.2} s", seconds(row.from_ns), seconds(row.to_ns));
    let late = if row.late { "reported late: " } else { "" };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(times("RTT", &row.rtt));
    parts.extend(times(row.delay_label, &row.delay));
    parts.extend([("up", &row.up), ("down", &row.down)].iter().filter_map(|(n, way)| data(n, way)));
    if let Some(lost) = row.lost_messages {
        let of = row.settled_messages.filter(|of| *of > 0);
        let of = of.map(|of| {
            let share = words::figure(lost as f64 / of as f64, Unit::Share);
            if lost > 0 { format!(" of {of} ({share})") } else { format!(" of {of}") }
        });
        let due = row
            .missing
            .filter(|due| lost > 0 && due.from_ns < row.from_ns)
            .map(|due| format!(", due at {:.2}–{:.2} s", seconds(due.from_ns), seconds(due.to_ns)));
        parts.push(format!("lost {lost}{}{}", of.unwrap_or_default(), due.unwrap_or_default()));
    }
    let mut say = |what: &str, value: Option<String>| {
        parts.extend(value.map(|value| format!("{what} {value}")));
    };
    say("jitter", row.jitter_ns.map(|ns| words::figure(ns as f64, Unit::Nanos)));
    let drops = row.socket_drops.filter(|drops| *drops > 0);
    say("dropped at the socket", drops.map(|drops| drops.to_string()));
    say("cwnd", row.cwnd_bytes.map(|bytes| Bytes(bytes).to_string()));
    say("retransmits", row.retransmits.map(|n| n.to_string()));
    format!("{span:<13}  {late}{}", parts.join("  ")).trim_end().to_owned()
}

/// Formats the times that ended in an interval; `None` if there are none.
fn times(label: &str, times: &RoundTrips) -> Option<String> {
    let mean = times.mean_ns()? as f64;
    let scale = Scale::of([mean], Unit::Nanos);
    let max = scale.with_unit(times.max_ns as f64);
    let mean = scale.number(mean);
    // An end that stores no shortest time has 0 there.
    Some(match times.min_ns {
        0 => format!("{label} {mean}/{max} mean/max"),
        min => format!("{label} {}/{mean}/{max} min/mean/max", scale.number(min as f64)),
    })
}

/// Formats the data in one direction; `None` if there is none.
fn data(name: &str, way: &LiveWay) -> Option<String> {
    let rate = |bps: f64| words::figure(bps, Unit::BitRate);
    let mut text = match way.rate {
        LiveRate::None => return None,
        LiveRate::Unknown => {
            let sent = way.sent_bps.map(|bps| format!(" ({} sent)", rate(bps)));
            return Some(format!("{name} not reported yet{}", sent.unwrap_or_default()));
        }
        LiveRate::Bps(bps) => format!("{name} {:>10}", rate(bps)),
    };
    if let Some(messages) = way.messages {
        text += &format!(", {}", words::count(messages, "message"));
    }
    let (n, of) = way.flows;
    if n < of {
        text += &format!(" (of {n} of {of} flows)");
    }
    if let Some(ns) = way.outage_ns {
        text += &format!(", outage: nothing for {:.2} s", ns as f64 / 1e9);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::screen::fake::{Terminal, WIDTH};
    use deadheat_contract::measurements::series::{Missing, RoundTrips};
    use deadheat_race::race::context::RaceContext;
    use deadheat_race::race::{Request, testing};

    /// Screens of a terminal, one for each trial that starts.
    struct Watched {
        progress: Progress,
        terminal: Terminal,
        seen: Vec<Vec<String>>,
    }

    impl Observer for Watched {
        fn on(&mut self, event: RaceEvent<'_>) {
            self.progress.on(event);
            self.seen.push(self.terminal.shows().0);
        }
    }

    fn watch(contenders: &[&str]) -> Watched {
        let terminal = Terminal::default();
        let progress = Progress::new(terminal.screen()).within("study 1 of 2");
        let mut watched = Watched { progress, terminal, seen: Vec::new() };
        let mut trial = testing::noisy(1, 0.02, |name| if name == "udp" { 90e3 } else { 100e3 });
        let mut runner = deadheat_trial::sim::fake::Fake(&mut trial);
        let clock = deadheat_base::time::Manual::default();
        let request = Request::new(contenders.iter().copied()).blocks(8).margin(0.05).seed(1);
        let stage = RaceContext::new(&mut runner, &mut watched).at(&clock, testing::day());
        request.run_with(stage).unwrap();
        watched
    }

    #[test]
    fn a_race_shows_its_estimates_while_it_runs_and_leaves_nothing() {
        let watched = watch(&["tcp", "udp"]);
        let last = &watched.seen[watched.seen.len() - 2];
        assert!(last[0].starts_with("study 1 of 2 · block "), "{last:#?}");
        assert!(last[0].contains(" of 8 · ") && last[0].contains(" left at most · "), "{last:#?}");
        assert_eq!(last[1], "  RTT p50, µs");
        for (line, name) in
            last[2..6].iter().zip(["tcp  ", "udp  ", "tcp / udp", "tcp / tcp (copy)"])
        {
            assert!(line.trim_start().starts_with(name), "{last:#?}");
            assert!(line.ends_with(']'), "{last:#?}");
        }
        assert!(last[6].starts_with("  resolution so far ±"), "{last:#?}");
        assert!(watched.seen.iter().any(|lines| lines.iter().any(|l| l.ends_with("· tcp (copy)"))));
        assert_eq!(watched.terminal.shows(), (Vec::new(), (0, 0)));
    }

    #[test]
    fn a_race_of_many_contenders_stays_within_a_narrow_terminal() {
        let long = "tcp:cc=reno,nodelay=off,sndbuf=100kB,rcvbuf=100kB";
        let watched = watch(&[long, "udp", "unix", "tcp", "pipe"]);
        let lines: Vec<&String> = watched.seen.iter().flatten().collect();
        assert!(lines.iter().all(|line| line.chars().count() < WIDTH), "{lines:#?}");
        assert_eq!(watched.terminal.shows(), (Vec::new(), (0, 0)));
    }

    const SECOND: u64 = 1_000_000_000;

    fn way(bps: f64, messages: Option<u64>) -> LiveWay {
        LiveWay { rate: LiveRate::Bps(bps), messages, flows: (1, 1), ..LiveWay::default() }
    }

    #[test]
    fn losses_are_told_with_the_time_at_which_they_were_due() {
        let row = LiveRow {
            contender: "udp".into(),
            from_ns: 6 * SECOND,
            to_ns: 7 * SECOND,
            up: way(975e3, Some(87)),
            lost_messages: Some(240),
            settled_messages: Some(327),
            missing: Some(Missing { from_ns: 3 * SECOND, to_ns: 6 * SECOND - SECOND / 100 }),
            jitter_ns: Some(31_000),
            ..LiveRow::default()
        };
        assert_eq!(
            interval(&row),
            "6.00–7.00 s    up 975 kbit/s, 87 messages  lost 240 of 327 (73.4 %), due at 3.00–5.99 s  jitter 31.0 µs"
        );
        let at_once = LiveRow { from_ns: 3 * SECOND, ..row };
        assert!(interval(&at_once).contains("(73.4 %)  jitter"), "{}", interval(&at_once));
    }

    #[test]
    fn an_outage_is_told_at_its_time_and_a_late_report_as_what_it_is() {
        let unknown = LiveWay {
            rate: LiveRate::Unknown,
            sent_bps: Some(1e6),
            flows: (0, 1),
            ..LiveWay::default()
        };
        let row = LiveRow {
            contender: "udp".into(),
            from_ns: 4 * SECOND,
            to_ns: 5 * SECOND,
            up: unknown,
            ..LiveRow::default()
        };
        assert_eq!(interval(&row), "4.00–5.00 s    up not reported yet (1.00 Mbit/s sent)");
        let outage_ns = Some(2 * SECOND);
        let row = LiveRow { late: true, up: LiveWay { outage_ns, ..way(0.0, Some(0)) }, ..row };
        assert_eq!(
            interval(&row),
            "4.00–5.00 s    reported late: up    0 bit/s, 0 messages, outage: nothing for 2.00 s"
        );
    }

    #[test]
    fn an_interval_says_what_is_known_and_nothing_else() {
        let row = LiveRow {
            contender: "tcp".into(),
            from_ns: SECOND / 10,
            to_ns: SECOND / 5,
            up: LiveWay { flows: (2, 3), ..way(9.41e9, None) },
            cwnd_bytes: Some(3_200_000),
            retransmits: Some(2),
            ..LiveRow::default()
        };
        assert_eq!(
            interval(&row),
            "0.10–0.20 s    up 9.41 Gbit/s (of 2 of 3 flows)  cwnd 3.20 MB  retransmits 2"
        );
        let row = LiveRow {
            contender: "u\u{1b}[2J".into(),
            rtt: RoundTrips { n: 4, sum_ns: 80_000, min_ns: 15_000, max_ns: 31_000 },
            delay: RoundTrips { n: 2, sum_ns: 8_000_000, min_ns: 0, max_ns: 5_000_000 },
            delay_label: "delay",
            lost_messages: Some(0),
            socket_drops: Some(0),
            ..LiveRow::default()
        };
        let running = RunningTrial::default();
        running.set("block 3".into(), COPY);
        assert_eq!(
            running.interval(&row),
            "block 3  u\\u{1b}[2J (copy)  0.00–0.00 s    RTT 15.0/20.0/31.0 µs min/mean/max  \
             delay 4.00/5.00 ms mean/max  lost 0"
        );
    }

    #[test]
    fn each_trial_is_named_with_its_place_in_the_race() {
        /// Names of the trials as they start.
        struct Names(Progress, RunningTrial, Vec<String>);

        impl Observer for Names {
            fn on(&mut self, event: RaceEvent<'_>) {
                let starts = matches!(event, RaceEvent::Pilot { .. } | RaceEvent::TrialStarted(_));
                self.0.on(event);
                if starts {
                    let row =
                        LiveRow { contender: "x".into(), to_ns: SECOND, ..LiveRow::default() };
                    self.2.push(self.1.interval(&row));
                }
            }
        }

        let running = RunningTrial::default();
        let progress = Progress::new(Screen::none()).noting(&running);
        let mut names = Names(progress, running, Vec::new());
        let mut trial = testing::noisy(1, 0.02, |_| 90e3);
        let mut runner = deadheat_trial::sim::fake::Fake(&mut trial);
        let clock = deadheat_base::time::Manual::default();
        let request = Request::new(["tcp", "udp"]).blocks(2).seed(1);
        let stage = RaceContext::new(&mut runner, &mut names).at(&clock, testing::day());
        request.run_with(stage).unwrap();
        let begin = |what: &str| names.2.iter().filter(|name| name.starts_with(what)).count();
        assert_eq!((begin("block 1  x  0.00–1.00 s"), begin("block 1  x (copy)  0.00")), (2, 1));
        assert_eq!(begin("block 2"), 3);
        assert_eq!(begin("pilot") + 6, names.2.len());
    }
}
