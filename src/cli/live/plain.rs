//! Progress in plain lines, one after the other: for screen readers, logs and terminals that cannot move a cursor.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::cli::progress::Progress;
use crate::cli::standing::{MetricStanding, Standing};
use deadheat_race::race::context::{Observer, RaceEvent};
use deadheat_report::words;

/// Least time between two lines of figures: a reader has to be able to follow.
const PAUSE: Duration = Duration::from_secs(5);

/// Observer that writes a line every few seconds, at planned looks, and for each event that a person waits for.
pub(super) struct PlainLines {
    notes: Progress,
    write: Box<dyn FnMut(&str)>,
    said: Option<Instant>,
    pause: Duration,
    /// Reasons why trials were not valid, without their figures, and how often each was given.
    reasons: BTreeMap<String, u64>,
}

impl PlainLines {
    /// Creates an observer that writes to standard error; notes of the race go to `notes`.
    pub(super) fn stderr(notes: Progress) -> PlainLines {
        PlainLines::to(notes, PAUSE, Box::new(|line| tell!("{line}")))
    }

    fn to(notes: Progress, pause: Duration, write: Box<dyn FnMut(&str)>) -> PlainLines {
        PlainLines { notes, write, said: None, pause, reasons: BTreeMap::new() }
    }

    /// Says that a trial is not valid: with its reason once, and after that in a short line.
    fn not_valid(&mut self, block: u64, label: &str, why: &str) {
        // Figures in it differ from trial to trial.
        let kind = why.chars().filter(|c| !c.is_ascii_digit()).collect();
        let times = self.reasons.entry(kind).or_insert(0u64);
        *times += 1;
        let text = match *times {
            1 => format!("Block {block}: {label} is not valid: {why}."),
            n => format!(
                "Block {block}: {label} is not valid, for a reason given above ({n} times so far)."
            ),
        };
        (self.write)(&deadheat_base::foreign::visible(&text));
    }

    fn standing(&mut self, standing: &Standing, is_look: bool) {
        let is_due = self.said.is_none_or(|said| said.elapsed() >= self.pause);
        if is_due || is_look || standing.is_decided {
            self.said = Some(Instant::now());
            (self.write)(&line(standing));
        }
    }
}

impl Observer for PlainLines {
    fn on(&mut self, event: RaceEvent<'_>) {
        match &event {
            RaceEvent::Pilot { trial: 1, .. } => {
                (self.write)("Measuring how much trials vary, before the first block.");
            }
            RaceEvent::Expected { takes } => {
                let takes = deadheat_report::words::span(*takes);
                (self.write)(&format!("A verdict takes about {takes} over this line."));
            }
            RaceEvent::Planned { outcome, takes } => {
                let standing = Standing::of(outcome, *takes);
                (self.write)(&format!("{}.", standing.question));
                (self.write)(&plan(&standing));
            }
            RaceEvent::BlockDone { outcome, remaining, .. } => {
                let standing = Standing::of(outcome, Some(*remaining));
                let looks = &outcome.plan.looks;
                let is_look = looks.iter().any(|look| look.blocks as u64 == standing.blocks);
                self.standing(&standing, is_look);
            }
            RaceEvent::TrialEnded { place, why_invalid: Some(why), .. } => {
                self.not_valid(place.block + 1, place.label, why);
            }
            RaceEvent::Paused => (self.write)("Paused."),
            RaceEvent::Continued { paused } => {
                (self.write)(&format!("Goes on after a pause of {paused}."));
            }
            _ => {}
        }
        self.notes.on(event);
    }
}

/// Returns the plan in a line.
fn plan(standing: &Standing) -> String {
    let takes =
        standing.left.map_or(String::new(), |left| format!(", {} at most", words::span(left)));
    let blocks = words::count(standing.blocks_max, "block");
    let terms = standing.terms.iter().take(2).map(|(name, text)| format!("{name} {text}"));
    format!("At most {blocks}{takes}; {}.", terms.collect::<Vec<_>>().join("; "))
}

/// Returns the standing in a line.
fn line(standing: &Standing) -> String {
    let left =
        standing.left.map_or(String::new(), |left| format!(", {} left at most", words::span(left)));
    let figures = standing.metrics.first().map_or(String::new(), figures);
    let decided = standing.decided.iter().map(|note| format!(" {note}")).collect::<String>();
    format!(
        "Block {} of {} done{left}.{figures} {}{decided}",
        standing.blocks,
        standing.blocks_max,
        standing.caution()
    )
}

fn figures(metric: &MetricStanding) -> String {
    let rows = metric.rows.iter().map(|row| match (row.estimate, &row.out) {
        (_, Some(out)) => format!("{} {out}", row.label),
        (None, None) => format!("{} not known yet", row.label),
        (Some(estimate), None) => {
            let number = |end| metric.scale.number(end);
            let ends = row.ends.map(|(low, high)| format!(", {} to {}", number(low), number(high)));
            let figure = metric.scale.with_unit(estimate);
            format!("{} {figure}{}", row.label, ends.unwrap_or_default())
        }
    });
    let pairs =
        metric.pairs.iter().map(|pair| format!("{} {} {}", pair.name, pair.point, pair.interval));
    let rows: Vec<String> = rows.chain(pairs).map(|text| text.trim_end().to_owned()).collect();
    format!(" {}: {}.", metric.label, rows.join("; "))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::cli::screen::Screen;
    use deadheat_race::race::context::RaceContext;
    use deadheat_race::race::{Request, testing};

    /// Returns the lines of a race; at least `pause` is between two lines of figures.
    fn lines(pause: Duration) -> Vec<String> {
        let all = Rc::new(RefCell::new(Vec::new()));
        let write = Rc::clone(&all);
        let write = Box::new(move |line: &str| write.borrow_mut().push(line.to_owned()));
        let mut observer = PlainLines::to(Progress::new(Screen::none()), pause, write);
        let mut trial = testing::noisy(1, 0.02, |name| if name == "udp" { 75e3 } else { 90e3 });
        let mut runner = deadheat_trial::sim::fake::Fake(&mut trial);
        let clock = deadheat_base::time::Manual::default();
        let request = Request::new(["tcp", "udp"]).workload(testing::WORKLOAD).blocks(40).seed(1);
        let stage = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
        request.run_with(stage).unwrap();
        drop(observer);
        all.take()
    }

    #[test]
    fn plain_lines_are_sentences_without_control_characters_and_say_that_they_are_no_verdict() {
        let all = lines(Duration::ZERO);
        assert!(all.iter().flat_map(|line| line.chars()).all(|c| !c.is_control()), "{all:#?}");
        assert!(all[0].starts_with("Measuring how much trials vary"), "{all:#?}");
        assert!(all[1].starts_with("tcp, udp · ") && all[2].starts_with("At most 40 blocks"));
        let block = all.iter().find(|line| line.starts_with("Block 6 of 40 done")).unwrap();
        for part in
            ["RTT p50: tcp ", "; udp ", "tcp / udp 1.2", "tcp / tcp (copy) ", "Not a verdict"]
        {
            assert!(block.contains(part), "{part}: {block}");
        }
        assert!(all.last().unwrap().contains("Every claim has its verdict."), "{all:#?}");
    }

    #[test]
    fn a_reader_gets_few_lines_and_every_look() {
        let all = lines(Duration::from_secs(3600));
        let figures = all.iter().filter(|line| line.starts_with("Block ")).count();
        assert!((2..=4).contains(&figures), "{all:#?}");
    }
}
