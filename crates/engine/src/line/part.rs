//! Kinds of trials of a survey, and the work of each.

use serde::{Deserialize, Serialize};

use crate::contract::Direction;
use crate::time::Nanos;

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
    /// Small messages with answers.
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

/// Shortest time for which a load runs before the small messages beside it begin.
const LEAST_LEAD: Nanos = Nanos::from_millis(300);

/// Longest time for which a load runs before the small messages beside it begin.
const MOST_LEAD: Nanos = Nanos::from_millis(1_300);

/// Round trips after which a load counts as settled: slow start doubles the window with each of the first seven.
const ROUND_TRIPS_OF_LEAD: u64 = 12;

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

    /// Returns the work of a trial on a line with this round trip, as typed.
    pub fn work(self, works: &LineWorks, round_trip: Nanos) -> String {
        let Some((direction, flows)) = self.load() else {
            return match self {
                LinePart::Paced => works.paced.clone(),
                _ => works.small.clone(),
            };
        };
        let direction = match direction {
            Some(Direction::Up) => "up",
            Some(Direction::Down) => "down",
            None => "both",
        };
        let lead = Nanos(round_trip.0.saturating_mul(ROUND_TRIPS_OF_LEAD));
        let lead = lead.clamp(LEAST_LEAD, MOST_LEAD).0 / 1_000_000;
        format!(
            "{},load={},load-direction={direction},load-flows={flows},load-lead={lead}ms",
            works.small, works.load
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Setting, SharedTask};

    fn works() -> LineWorks {
        LineWorks {
            small: "ping:count=60,interval=10ms".into(),
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
            let work = part.work(&works(), Nanos::from_millis(40));
            let task = SharedTask::parse_on(&work, &Setting::LOOPBACK);
            let task = task.unwrap_or_else(|error| panic!("{work}: {error}"));
            assert_eq!(task.info().load.is_some(), part.load().is_some(), "{work}");
        }
        assert!(
            LinePart::Up8.work(&works(), Nanos::ZERO).ends_with("load-flows=8,load-lead=300ms")
        );
        assert!(
            LinePart::Both8.work(&works(), Nanos::from_millis(50)).ends_with("load-lead=600ms")
        );
        assert!(LinePart::Down1.work(&works(), Nanos::from_secs(9)).ends_with("load-lead=1300ms"));
    }
}
