//! Kinds of trials of a survey, and the work of each.

use serde::{Deserialize, Serialize};

use deadheat_base::time::Nanos;
use deadheat_contract::contract::Direction;

/// Kind of trial. Each round of a survey has one trial of each kind, in random order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinePart {
    /// Small messages, and nothing beside them.
    Idle,
    /// Small messages beside one connection that fills the line up.
    #[serde(rename = "up_1")]
    Up1,
    /// The same, down.
    #[serde(rename = "down_1")]
    Down1,
    /// Small messages beside eight connections that fill the line up.
    #[serde(rename = "up_8")]
    Up8,
    /// The same, down.
    #[serde(rename = "down_8")]
    Down8,
    /// Small messages beside eight connections each way.
    #[serde(rename = "both_8")]
    Both8,
    /// Datagrams at a fixed rate, both ways at once.
    Paced,
}

/// Number of connections of a load that fills a line.
pub const MANY: u64 = 8;

/// Works of a survey and the contender of its load, as typed; the program names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineWorks {
    /// Small messages with answers, without the interval between them.
    pub small: String,
    /// Datagrams at a fixed rate, both ways at once.
    pub paced: String,
    /// Contender of the paced datagrams.
    pub paced_over: String,
    /// Contender whose connections fill the line.
    pub load: String,
    /// Work by which a transport shows that it gets through.
    pub knock: String,
}

/// Number of small messages of a trial, warm-up included.
const MESSAGES: u64 = 70;

/// Shortest time between two small messages.
const LEAST_INTERVAL: Nanos = Nanos::from_millis(10);

/// Time of the paced datagrams of a trial.
const PACED: Nanos = Nanos::from_millis(800);

/// Shortest time for which a load runs before the small messages beside it begin.
const LEAST_LEAD: Nanos = Nanos::from_millis(300);

/// Longest time for which a load runs before the small messages beside it begin.
const MOST_LEAD: Nanos = Nanos::from_secs(60);

/// Round trips after which a load counts as settled: slow start doubles the window with each of the first ten.
const ROUND_TRIPS_OF_LEAD: u64 = 12;

/// Least number of round trips in which the goodput of a load counts. A window of one or two would show how fast the
/// packets of one burst follow each other: the rate of the link, and not of the connection.
const ROUND_TRIPS_OF_WINDOW: u64 = 6;

/// Times of a trial on a line with a given round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTimes {
    /// Round trip of the idle line.
    pub round_trip: Nanos,
    /// Time for which a load runs before its goodput counts.
    pub lead: Nanos,
    /// Time between two small messages beside a load.
    pub interval: Nanos,
}

impl LineTimes {
    /// Returns the times for a line with this round trip.
    pub fn on(round_trip: Nanos) -> LineTimes {
        let times = |n: u64| Nanos(round_trip.0.saturating_mul(n));
        let whole_ms = |time: Nanos| Nanos::from_millis(time.0.div_ceil(1_000_000));
        let lead = times(ROUND_TRIPS_OF_LEAD).clamp(LEAST_LEAD, MOST_LEAD);
        let interval = Nanos(times(ROUND_TRIPS_OF_WINDOW).0 / MESSAGES).max(LEAST_INTERVAL);
        LineTimes { round_trip, lead: whole_ms(lead), interval: whole_ms(interval) }
    }

    /// Returns the time in which the goodput of a load counts: that of the small messages beside it.
    pub fn window(&self) -> Nanos {
        Nanos(self.interval.0.saturating_mul(MESSAGES))
    }
}

impl LinePart {
    /// All kinds, in the order of a report.
    pub const ALL: [LinePart; 7] = [
        LinePart::Idle,
        LinePart::Up1,
        LinePart::Down1,
        LinePart::Up8,
        LinePart::Down8,
        LinePart::Both8,
        LinePart::Paced,
    ];

    /// Returns the name in the names of figures: `up_8`.
    pub fn name(self) -> &'static str {
        match self {
            LinePart::Idle => "idle",
            LinePart::Up1 => "up_1",
            LinePart::Down1 => "down_1",
            LinePart::Up8 => "up_8",
            LinePart::Down8 => "down_8",
            LinePart::Both8 => "both_8",
            LinePart::Paced => "paced",
        }
    }

    /// Returns the direction and the number of the connections of the load; `None` for the direction if it is both,
    /// `None` if there is no load.
    pub fn load(self) -> Option<(Option<Direction>, u64)> {
        match self {
            LinePart::Idle | LinePart::Paced => None,
            LinePart::Up1 => Some((Some(Direction::Up), 1)),
            LinePart::Down1 => Some((Some(Direction::Down), 1)),
            LinePart::Up8 => Some((Some(Direction::Up), MANY)),
            LinePart::Down8 => Some((Some(Direction::Down), MANY)),
            LinePart::Both8 => Some((None, MANY)),
        }
    }

    /// Returns the work of a trial, as typed.
    pub fn work(self, works: &LineWorks, times: &LineTimes) -> String {
        let Some((direction, flows)) = self.load() else {
            return match self {
                LinePart::Paced => works.paced.clone(),
                _ => format!("{},interval={}ms", works.small, LEAST_INTERVAL.0 / 1_000_000),
            };
        };
        let direction = match direction {
            Some(Direction::Up) => "up",
            Some(Direction::Down) => "down",
            None => "both",
        };
        let [interval, lead] = [times.interval, times.lead].map(|time| time.0 / 1_000_000);
        format!(
            "{},interval={interval}ms,load={},load-direction={direction},load-flows={flows},load-lead={lead}ms",
            works.small, works.load
        )
    }

    /// Returns the time that the work of a trial takes, without the start and the end of its processes.
    pub fn lasts(self, times: &LineTimes) -> Nanos {
        let work = match self.load() {
            Some(_) => times.lead + times.window(),
            None if self == LinePart::Paced => PACED,
            None => Nanos(LEAST_INTERVAL.0 * MESSAGES),
        };
        work + times.round_trip
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::workload::{Setting, SharedTask};

    fn works() -> LineWorks {
        LineWorks {
            small: "ping:count=60".into(),
            paced: "cbr:rate=1mbit".into(),
            paced_over: "udp".into(),
            load: "tcp".into(),
            knock: "ping:count=20".into(),
        }
    }

    #[test]
    fn a_file_names_a_part_as_its_figures_do() {
        for part in LinePart::ALL {
            assert_eq!(serde_json::to_value(part).unwrap(), part.name());
        }
    }

    #[test]
    fn every_work_can_be_parsed_and_has_the_load_of_its_name() {
        for part in LinePart::ALL {
            let times = LineTimes::on(Nanos::from_millis(40));
            let work = part.work(&works(), &times);
            let task = SharedTask::parse_on(&work, &Setting::LOOPBACK);
            let task = task.unwrap_or_else(|error| panic!("{work}: {error}"));
            assert_eq!(task.info().load.is_some(), part.load().is_some(), "{work}");
        }
        let up_8 = LinePart::Up8.work(&works(), &LineTimes::on(Nanos::ZERO));
        assert!(up_8.ends_with("load-flows=8,load-lead=300ms"), "{up_8}");
    }

    /// A satellite has 600 ms, and a wire next door none.
    #[test]
    fn a_load_has_time_to_grow_and_a_window_of_several_round_trips_at_any_distance() {
        for round_trip in [0, 20, 100, 300, 600, 2_000].map(Nanos::from_millis) {
            let times = LineTimes::on(round_trip);
            assert!(times.lead.0 >= 12 * round_trip.0, "{times:?}");
            assert!(times.window().0 >= 6 * round_trip.0, "{times:?}");
            assert!(times.window() >= Nanos::from_millis(700), "{times:?}");
            assert!(LinePart::Up1.lasts(&times) >= times.lead + times.window());
        }
        let work = LinePart::Down1.work(&works(), &LineTimes::on(Nanos::from_millis(600)));
        assert!(work.contains("interval=52ms,") && work.ends_with("load-lead=7200ms"), "{work}");
    }
}
