//! A race's progress: a small table that is rewritten on a terminal, nothing elsewhere.

use crate::figures;
use crate::foreign::visible;
use crate::measurements::{Metric, Unit};
use crate::race::context::{Observer, RaceEvent};
use crate::report::columns;
use crate::report::words::{self, Scale};
use crate::result::outcome::{Entrant, Outcome, Ratio, Verdict};
use crate::time::Nanos;
use crate::trial::lead::live::{LiveRate, LiveRow};
use crate::units::Bytes;

use super::screen::Screen;

/// Shows a race as it runs.
pub(super) struct Progress {
    screen: Screen,
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
                self.say(&format!("measuring how much trials vary: trial {trial} of {of}"));
            }
            RaceEvent::Settling { why } => {
                self.say(&format!("waiting for the host to settle: {}", why.words()));
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
                match place.control {
                    true => self.show(&copy(place.label)),
                    false => self.show(place.label),
                }
            }
            RaceEvent::BlockDone { outcome, blocks, remaining } => {
                self.blocks = blocks;
                self.blocks_max = outcome.plan.blocks_max;
                self.remaining = Some(remaining);
                self.table = table(outcome);
            }
            RaceEvent::Explaining { trial, of, label } => {
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

/// Returns the name of a contender's hidden copy.
fn copy(label: &str) -> String {
    format!("{label} (copy)")
}

/// Maximum number of columns of a name.
const WIDEST_NAME: usize = 28;

/// Returns the contenders of the first claimed metric, how they compare, and the difference resolved so far.
fn table(outcome: &Outcome) -> Vec<String> {
    let Some(metric) = outcome.metrics.first() else { return Vec::new() };
    let racing = outcome.contenders.iter().filter(|entrant| entrant.is_racing());
    let mut rows: Vec<[String; 3]> =
        racing.map(|entrant| figure(outcome, metric, entrant)).collect();
    let label = |id: usize| outcome.contenders.get(id).map_or("", |entrant| &entrant.label);
    let is_shown = |verdict: &&Verdict| verdict.metric == metric.name;
    let pairs = outcome.verdicts.iter().filter(is_shown);
    rows.extend(pairs.clone().map(|v| pair(label(v.a), label(v.b), v.ratio.as_ref())));
    let control = outcome.control.iter().flat_map(|control| &control.verdicts);
    let control = control.filter(is_shown);
    rows.extend(control.map(|v| pair(label(v.a), &copy(label(v.b)), v.ratio.as_ref())));
    let names = rows.iter().map(|[name, ..]| columns(&visible(name)));
    let name = names.max().unwrap_or(0).min(WIDEST_NAME);
    let figure = rows.iter().map(|[_, figure, _]| figure.chars().count()).max().unwrap_or(0);
    let mut lines = vec![format!("  {}", metric.label)];
    lines.extend(rows.iter().map(|[label, value, interval]| {
        let label = visible(label);
        let gap = " ".repeat(name.saturating_sub(columns(&label)));
        format!("  {label}{gap}  {value:>figure$}  {interval}").trim_end().to_owned()
    }));
    let resolved = pairs
        .filter_map(resolution)
        .fold(None, |worst: Option<f64>, each| Some(worst.map_or(each, |worst| worst.max(each))));
    if let Some(resolved) = resolved {
        lines.push(format!("  resolution so far {}", figures::resolution(resolved)));
    }
    lines
}

/// Returns a contender's estimate with its interval.
fn figure(outcome: &Outcome, metric: &Metric, entrant: &Entrant) -> [String; 3] {
    let mut summaries = outcome.summary.iter();
    let found = summaries.find(|s| s.contender == entrant.id && s.metric == metric.name);
    let Some(summary) = found else {
        return [entrant.label.clone(), words::NOTHING.to_owned(), String::new()];
    };
    let scale = Scale::of([summary.estimate], metric.unit);
    let interval = match (summary.low, summary.high) {
        (Some(low), Some(high)) => words::interval(&scale.number(low), &scale.number(high)),
        _ => String::new(),
    };
    [entrant.label.clone(), scale.with_unit(summary.estimate), interval]
}

/// Returns the ratio of the first contender's figure to the second one's.
fn pair(a: &str, b: &str, ratio: Option<&Ratio>) -> [String; 3] {
    let (point, interval) =
        ratio.map_or_else(|| (words::NOTHING.to_owned(), String::new()), words::ratio);
    [format!("{a} / {b}"), point, interval]
}

/// Returns the smallest difference resolved so far, as a fraction: half of the ratio's interval.
fn resolution(verdict: &Verdict) -> Option<f64> {
    let ratio = verdict.ratio.as_ref()?;
    let half = (ratio.high / ratio.low).sqrt() - 1.0;
    half.is_finite().then_some(half)
}

/// Formats an interval of a running trial as a line.
pub(super) fn interval(row: &LiveRow) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut text = format!(
        "{}  {:.2}–{:.2} s",
        visible(&row.contender),
        seconds(row.from_ns),
        seconds(row.to_ns)
    );
    let mut say = |what: &str, value: String| text += &format!("  {what} {value}");
    for (way, rate) in [("up", row.up), ("down", row.down)] {
        match rate {
            LiveRate::None => {}
            LiveRate::Unknown => say(way, "not told yet".to_owned()),
            LiveRate::Bps(bps) => say(way, words::figure(bps, Unit::BitRate)),
        }
    }
    if let Some(mean) = row.rtt.mean_ns() {
        let [mean, min, max] =
            [mean, row.rtt.min_ns, row.rtt.max_ns].map(|ns| words::figure(ns as f64, Unit::Nanos));
        say("RTT", format!("{mean} ({min} to {max}, {} of them)", row.rtt.n));
    }
    if let Some(jitter) = row.jitter_ns {
        say("jitter", words::figure(jitter as f64, Unit::Nanos));
    }
    if let Some(lost) = row.lost_messages {
        let due = row.missing.filter(|due| lost > 0 && due.from_ns < row.from_ns).map(|due| {
            format!(" (due at {:.2}–{:.2} s)", seconds(due.from_ns), seconds(due.to_ns))
        });
        say("lost", format!("{lost}{}", due.unwrap_or_default()));
    }
    if let Some(drops) = row.socket_drops.filter(|drops| *drops > 0) {
        say("dropped at the socket", drops.to_string());
    }
    if let Some(cwnd) = row.cwnd_bytes {
        say("cwnd", Bytes(cwnd).to_string());
    }
    if let Some(retransmits) = row.retransmits {
        say("retransmits", retransmits.to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::screen::fake::{Terminal, WIDTH};
    use crate::measurements::series::{Missing, RoundTrips};
    use crate::race::context::RaceContext;
    use crate::race::{Request, testing};

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
        let mut runner = crate::trial::sim::fake::Fake(&mut trial);
        let clock = crate::time::Manual::default();
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
        assert_eq!(last[1], "  RTT p50");
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

    #[test]
    fn losses_are_told_with_the_time_at_which_they_were_due() {
        let second = 1_000_000_000;
        let row = LiveRow {
            contender: "udp".into(),
            from_ns: 6 * second,
            to_ns: 7 * second,
            up: LiveRate::Bps(0.0),
            lost_messages: Some(240),
            missing: Some(Missing { from_ns: 3 * second, to_ns: 6 * second - second / 100 }),
            jitter_ns: Some(31_000),
            ..LiveRow::default()
        };
        assert_eq!(
            interval(&row),
            "udp  6.00–7.00 s  up 0 bit/s  jitter 31.0 µs  lost 240 (due at 3.00–5.99 s)"
        );
        let at_once = LiveRow { from_ns: 3 * second, ..row };
        assert!(interval(&at_once).ends_with("lost 240"), "{}", interval(&at_once));
    }

    #[test]
    fn an_interval_says_what_is_known_and_nothing_else() {
        let row = LiveRow {
            contender: "tcp".into(),
            from_ns: 100_000_000,
            to_ns: 200_000_000,
            up: LiveRate::Bps(9.41e9),
            cwnd_bytes: Some(3_200_000),
            retransmits: Some(2),
            ..LiveRow::default()
        };
        assert_eq!(interval(&row), "tcp  0.10–0.20 s  up 9.41 Gbit/s  cwnd 3.20 MB  retransmits 2");
        let row = LiveRow {
            contender: "u\u{1b}[2J".into(),
            rtt: RoundTrips { n: 4, sum_ns: 80_000, min_ns: 15_000, max_ns: 31_000 },
            lost_messages: Some(1),
            down: LiveRate::Unknown,
            socket_drops: Some(0),
            ..LiveRow::default()
        };
        assert_eq!(
            interval(&row),
            "u\\u{1b}[2J  0.00–0.00 s  down not told yet  RTT 20.0 µs (15.0 µs to 31.0 µs, 4 of them)  lost 1"
        );
    }
}
