//! Course of a path while the commands run: a line for people at each interval.

use std::time::{Duration, Instant};

use crate::measurements::{DirectionFigures, PathFigures};
use deadheat_base::units::BitRate;

/// Lines on a path at equal intervals.
#[derive(Debug)]
pub(super) struct Course {
    /// Time between two lines; `None` without lines.
    every: Option<Duration>,
    /// Names of both directions of each link.
    names: Vec<[String; 2]>,
    began: Instant,
    /// Time of the last line, and the figures then.
    last: (Instant, PathFigures),
}

impl Course {
    /// Begins now, with a line at each interval if one is given.
    pub(super) fn new(every: Option<Duration>, names: Vec<[String; 2]>) -> Course {
        let now = Instant::now();
        Course { every, names, began: now, last: (now, PathFigures::default()) }
    }

    /// Returns the time until the next line is due; `None` without lines.
    pub(super) fn left(&self) -> Option<Duration> {
        let due = self.last.0 + self.every?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Returns true if a line is due.
    pub(super) fn is_due(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// Takes the figures since the beginning; returns the line of the interval that ends now.
    pub(super) fn line(&mut self, figures: PathFigures) -> String {
        let now = Instant::now();
        let (at, before) = std::mem::replace(&mut self.last, (now, figures));
        let seconds = (now - at).as_secs_f64();
        let text = interval(&self.names, &before, &self.last.1, seconds);
        format!("{:.0} s  {text}", (now - self.began).as_secs_f64())
    }

    /// Ends the lines.
    pub(super) fn end(&mut self) {
        self.every = None;
    }
}

/// Formats an interval of a path: the directions of each link, with rates over its seconds.
fn interval(
    names: &[[String; 2]],
    before: &PathFigures,
    now: &PathFigures,
    seconds: f64,
) -> String {
    let none = DirectionFigures::default();
    let mut ways = Vec::new();
    for (at, ([up_name, down_name], link)) in names.iter().zip(&now.links).enumerate() {
        let earlier = before.links.get(at);
        let up = earlier.map_or(&none, |link| &link.up);
        let down = earlier.map_or(&none, |link| &link.down);
        ways.push(format!("{up_name} {}", way(up, &link.up, seconds)));
        ways.push(format!("{down_name} {}", way(down, &link.down, seconds)));
    }
    ways.join(" | ")
}

fn way(before: &DirectionFigures, now: &DirectionFigures, seconds: f64) -> String {
    let (before, now) = (&before.fates, &now.fates);
    let rate = |before: u64, now: u64| {
        let bits = now.saturating_sub(before) as f64 * 8.0;
        BitRate(if seconds > 0.0 { (bits / seconds) as u64 } else { 0 })
    };
    let mut parts = vec![
        format!("{} in", rate(before.arrived_bytes, now.arrived_bytes)),
        format!("{} out", rate(before.delivered_bytes, now.delivered_bytes)),
    ];
    // The number under way is that of now; all others are of the interval.
    let counts = [
        (now.waiting, "under way"),
        (now.full.saturating_sub(before.full), "dropped by a full queue"),
        (now.early.saturating_sub(before.early), "dropped early"),
        (now.marked.saturating_sub(before.marked), "marked"),
        (now.lost.saturating_sub(before.lost), "lost"),
        (now.blocked.saturating_sub(before.blocked), "blocked"),
    ];
    let seen = counts.iter().filter(|(count, _)| *count > 0);
    parts.extend(seen.map(|(count, what)| format!("{count} {what}")));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::{LinkFigures, PacketOutcomes};

    fn names() -> Vec<[String; 2]> {
        vec![["up".to_owned(), "down".to_owned()]]
    }

    fn figures(arrived: u64, delivered: u64, full: u64, waiting: u64) -> PathFigures {
        let fates = PacketOutcomes {
            arrived_bytes: arrived,
            delivered_bytes: delivered,
            full,
            waiting,
            ..PacketOutcomes::default()
        };
        let up = DirectionFigures { fates, ..DirectionFigures::default() };
        PathFigures { links: vec![LinkFigures { up, down: DirectionFigures::default() }] }
    }

    #[test]
    fn an_interval_has_the_rates_and_drops_since_the_one_before_and_the_packets_under_way_now() {
        let (before, now) =
            (figures(1_000_000, 500_000, 5, 7), figures(3_500_000, 1_750_000, 17, 64));
        assert_eq!(
            interval(&names(), &before, &now, 1.0),
            "up 20.0 Mbit/s in, 10.0 Mbit/s out, 64 under way, 12 dropped by a full queue | \
             down 0 bit/s in, 0 bit/s out"
        );
        let first = interval(&names(), &PathFigures::default(), &before, 2.0);
        assert!(first.starts_with("up 4.00 Mbit/s in, 2.00 Mbit/s out, 7 under way"), "{first}");
    }

    #[test]
    fn without_an_interval_no_line_is_due() {
        let mut course = Course::new(None, names());
        assert!(course.left().is_none() && !course.is_due());
        let mut each = Course::new(Some(Duration::ZERO), Vec::new());
        assert!(each.is_due());
        assert!(each.line(PathFigures::default()).starts_with("0 s  "));
        each.end();
        assert!(!each.is_due());
        assert!(course.line(figures(1, 1, 0, 0)).contains("up "));
    }
}
