//! The figures a trial yields: distributions, the ledger, metrics and cost. Plain data with its
//! JSON form; integers in nanoseconds, bytes and bits per second; units last in names.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod view;

pub use view::TcpView;

/// What a metric is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Bits per second.
    BitRate,
    /// A fraction from 0 to 1.
    Share,
}

/// Which end of the scale wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// As for latency.
    Lower,
    /// As for goodput.
    Higher,
}

/// Whether a race makes claims about a metric or only describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Verdicts are given, and the race stops when they are all in.
    Claim,
    /// An estimate is given, and no verdict.
    Descriptive,
}

/// One figure per trial that contenders are compared by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// The name in results, unit last: `rtt_p50_ns`.
    pub name: String,
    /// The name for people: `RTT p50`.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// Which end wins.
    pub better: Better,
    /// Whether verdicts are given.
    pub role: Role,
}

/// The figures of one trial by metric name.
///
/// A metric is absent where the trial cannot know it. A latency percentile that falls among lost
/// samples is stored at the timeout, the least it can be, and listed in `censored`.
pub type Metrics = BTreeMap<String, f64>;

/// A quantile of a sample in which lost messages are censored at the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    /// It is this many nanoseconds.
    Ns(u64),
    /// It falls among samples that had not come back after this many nanoseconds.
    Beyond(u64),
}

impl Quantile {
    /// The value, or the least it can be.
    pub fn at_least_ns(self) -> u64 {
        match self {
            Quantile::Ns(ns) | Quantile::Beyond(ns) => ns,
        }
    }
}

impl Serialize for Quantile {
    /// An integer, or the string `>3000000000` where it lies beyond the timeout.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Quantile::Ns(ns) => serializer.serialize_u64(*ns),
            Quantile::Beyond(ns) => serializer.serialize_str(&format!(">{ns}")),
        }
    }
}

impl<'de> Deserialize<'de> for Quantile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(u64),
            Text(String),
        }
        match Raw::deserialize(deserializer)? {
            Raw::Number(ns) => Ok(Quantile::Ns(ns)),
            Raw::Text(text) => text
                .strip_prefix('>')
                .and_then(|digits| digits.parse().ok())
                .map(Quantile::Beyond)
                .ok_or_else(|| {
                    serde::de::Error::custom("a quantile is an integer or \">integer\"")
                }),
        }
    }
}

/// A sample of times in nanoseconds, summed up. Quantiles are order statistics (nearest rank), and
/// absent where fewer than ten samples lie beyond them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// Samples, lost ones included.
    pub n: u64,
    /// Samples censored at the timeout.
    pub censored: u64,
    /// The least value; absent where nothing came back.
    pub min: Option<u64>,
    /// The greatest value that came back.
    pub max: Option<u64>,
    /// The mean of what came back; absent where any sample is censored, as it would be biased.
    pub mean: Option<f64>,
    /// The standard deviation of what came back; absent where any sample is censored.
    pub stddev: Option<f64>,
    /// The median.
    pub p50: Option<Quantile>,
    /// The 90th percentile.
    pub p90: Option<Quantile>,
    /// The 99th percentile.
    pub p99: Option<Quantile>,
    /// The 99.9th percentile.
    pub p999: Option<Quantile>,
}

/// What one end counted of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Messages (or, for byte streams, 0).
    pub messages: u64,
    /// Application bytes.
    pub bytes: u64,
    /// Messages that came again.
    pub duplicates: u64,
    /// Messages that came after the timeout.
    pub late: u64,
    /// Messages that came after one with a higher sequence number (RFC 4737, type-P-reordered).
    pub reordered: u64,
    /// Messages whose content was not what was sent.
    pub corrupted: u64,
    /// Messages that belong to no trial or another one.
    pub foreign: u64,
}

/// The account of one direction: `sent = delivered + lost_on_path + dropped_at_receiver`, in
/// messages, or in bytes for byte streams, which lose nothing silently.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    /// What the account counts: `messages` or `bytes`.
    pub unit: String,
    /// What the sender handed to its transport.
    pub sent: u64,
    /// What the receiver had, each once.
    pub delivered: u64,
    /// What vanished between the two hosts' sockets.
    pub lost_on_path: u64,
    /// What the receiver's socket buffer had no room for.
    pub dropped_at_receiver: u64,
    /// What came again.
    pub duplicates: u64,
    /// What came after the timeout (part of `delivered`).
    pub late: u64,
    /// What came out of order (part of `delivered`).
    pub reordered: u64,
    /// What came damaged (part of `delivered`).
    pub corrupted: u64,
    /// Why the account does not close; absent where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_because: Option<String>,
}

impl Account {
    /// Whether `sent = delivered + lost_on_path + dropped_at_receiver` holds.
    pub fn closes(&self) -> bool {
        self.open_because.is_none()
            && self.sent
                == self
                    .delivered
                    .saturating_add(self.lost_on_path)
                    .saturating_add(self.dropped_at_receiver)
    }
}

/// The accounts of both directions. A direction nobody could see (the kernel's echo) is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Near end to far end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Account>,
    /// Far end to near end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Account>,
    /// There and back as one, where the directions cannot be told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<Account>,
}

impl Ledger {
    /// The accounts that exist, with their names.
    pub fn accounts(&self) -> impl Iterator<Item = (&'static str, &Account)> {
        [("up", &self.up), ("down", &self.down), ("round_trip", &self.round_trip)]
            .into_iter()
            .filter_map(|(name, account)| account.as_ref().map(|account| (name, account)))
    }
}

/// What one connection did, as its transport knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConnStats {
    /// How long the transport's own connection set-up took, in nanoseconds; 0 where it has none.
    pub connect_ns: u64,
    /// System calls that sent.
    pub send_calls: u64,
    /// System calls that received, those that found nothing included.
    pub receive_calls: u64,
    /// Datagrams that this end's socket buffer had no room for; absent where unknown.
    pub socket_drops: Option<u64>,
    /// Segments the transport sent again; absent where unknown.
    pub retransmits: Option<u64>,
    /// Errors the network reported back (ICMP unreachable and the like).
    pub network_errors: u64,
}

/// What a trial cost one end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the process, user and system, in nanoseconds.
    pub cpu_ns: u64,
    /// The part of it in user space.
    pub user_ns: u64,
    /// The part of it in the kernel.
    pub system_ns: u64,
    /// System calls the datapath made.
    pub syscalls: u64,
    /// Context switches the process chose.
    pub voluntary_switches: u64,
    /// Context switches it suffered.
    pub involuntary_switches: u64,
}

/// An estimate of the far clock against the near clock, from echoes that carry far timestamps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClockEstimate {
    /// Far minus near, in nanoseconds, at the middle of the trial.
    pub offset_ns: i64,
    /// The bound on its error at the echo it stands on: half that round trip, the smallest seen. No
    /// end host can know better.
    pub error_bound_ns: u64,
    /// How fast the far clock gains on the near one, in parts per million; absent on short trials.
    pub drift_ppm: Option<f64>,
    /// Echoes used.
    pub n: u64,
}

/// One round trip as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Its sequence number, from 0.
    pub seq: u64,
    /// When it was due, on the near clock.
    pub intended_ns: u64,
    /// How long after that it was handed to the transport.
    pub lateness_ns: u64,
    /// From the intended time to the answer; `None` where no answer came within the timeout.
    pub rtt_ns: Option<u64>,
}

/// Where a workload puts its samples as they come.
pub trait Recorder: Send {
    /// One sample. Called inside the measuring loop, so it is quick: no allocation once warm, and at
    /// most a write to a file's cache every few thousand samples.
    fn record(&mut self, sample: Sample);
    /// The round-trip times so far, summed up; `timeout_ns` is where lost ones are censored.
    fn rtt(&self, timeout_ns: u64) -> Distribution;
    /// How late the generator was, summed up.
    fn lateness(&self) -> Distribution;
    /// RFC 3550 interarrival jitter of the round trips, in nanoseconds, for familiarity.
    fn jitter_rfc3550_ns(&self) -> Option<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_censored_quantile_survives_json() {
        for quantile in [Quantile::Ns(17), Quantile::Beyond(3_000_000_000)] {
            let json = serde_json::to_string(&quantile).unwrap();
            assert_eq!(serde_json::from_str::<Quantile>(&json).unwrap(), quantile);
        }
        assert_eq!(serde_json::to_string(&Quantile::Beyond(5)).unwrap(), "\">5\"");
        assert!(serde_json::from_str::<Quantile>("\"5\"").is_err());
    }

    #[test]
    fn an_account_closes_only_when_every_message_is_accounted_for() {
        let mut account = Account {
            sent: 10,
            delivered: 7,
            lost_on_path: 2,
            dropped_at_receiver: 1,
            ..Account::default()
        };
        assert!(account.closes());
        account.delivered = 8;
        assert!(!account.closes());
    }
}
