//! Traffic of an application in its developers' terms: size, frequency and greatest age of messages. Each workload
//! declares the traffic that it models, and the settings for it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{ALL, Setting};
use crate::contract::Direction;
use deadheat_base::error::{Error, Result, nearest};
use deadheat_base::spec::Spec;
use deadheat_base::time::Nanos;
use deadheat_base::units::{Bare, parse_bytes, parse_span};

/// A part of an application's traffic.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Traffic {
    /// Name, unique in its application, and also of its result file: lower case, digits and dashes.
    pub name: String,
    /// Kind of the traffic.
    pub kind: Kind,
    /// Size of a message, or of a file: `200B`.
    pub size: Option<String>,
    /// Messages per second of each sender.
    pub per_second: Option<u64>,
    /// Time between two messages of each sender, instead of a rate: `10s`.
    pub every: Option<String>,
    /// Number of senders that share the connection; 1 if absent.
    pub senders: Option<u64>,
    /// Direction: `up`, from near to far, such as from a client, or `down`.
    pub direction: Option<Direction>,
    /// True if every message must arrive.
    pub must_arrive: Option<bool>,
    /// True if messages of a sender must arrive in order.
    pub in_order: Option<bool>,
    /// Age beyond which a state is useless.
    pub stale_after: Option<String>,
    /// Time within which a message must arrive, a request must be answered, or a frame must be shown.
    pub deadline: Option<String>,
    /// Size of a request.
    pub request: Option<String>,
    /// Size of a response, or the range of sizes: `1kB..10kB`.
    pub response: Option<String>,
    /// Mean rate of a video: `2mbit`.
    pub rate: Option<String>,
}

/// Kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A state that each message carries in full, so that only the newest counts.
    State,
    /// Messages that must all arrive.
    Events,
    /// Requests with responses, on an open connection.
    Request,
    /// A connection for each request.
    Connect,
    /// Files, or an endless stream of bytes.
    Bulk,
    /// Voice.
    Voice,
    /// Live video.
    Video,
    /// Inputs of players in lockstep.
    Inputs,
}

/// Work that models traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// The workload with its settings.
    pub spec: Spec,
    /// Largest value of the claimed figure that the application accepts, if the figure is a time.
    pub limit: Option<Nanos>,
    /// Path that bounds the figure from below.
    pub least: Least,
    /// Application bits per second and direction, if the traffic gives them.
    pub offered_bps: Option<f64>,
    /// Claimed quantile; `None` if the claim is a mean or a share.
    pub rare: Option<Rare>,
}

/// Claimed quantile, which needs many items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rare {
    /// Share of the items up to it: 0.99.
    pub quantile: f64,
    /// Setting that claims the mean instead, which needs fewer items; `None` if the work has none.
    pub otherwise: Option<(&'static str, &'static str)>,
}

/// Path that bounds a time from below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Least {
    /// A single way, in this direction.
    Way(Direction),
    /// There and back.
    RoundTrip,
    /// No bound: the claim is not a time.
    Nothing,
}

impl Kind {
    /// Returns the keys that apply to traffic of this kind.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Kind::State => {
                &["size", "per-second", "every", "direction", "must-arrive", "stale-after"]
            }
            Kind::Events => &[
                "size",
                "per-second",
                "every",
                "senders",
                "direction",
                "must-arrive",
                "in-order",
                "deadline",
            ],
            Kind::Request => &["request", "response", "per-second", "every", "senders", "deadline"],
            Kind::Connect => &["request", "response", "deadline"],
            Kind::Bulk => &["size", "direction"],
            Kind::Voice => &["size", "every", "direction", "deadline"],
            Kind::Video => &["rate", "per-second", "direction", "deadline"],
            Kind::Inputs => &["size", "per-second", "deadline"],
        }
    }

    /// Returns true if all traffic of this kind must arrive.
    fn arrives(self) -> bool {
        matches!(self, Kind::Events | Kind::Request | Kind::Bulk)
    }
}

impl fmt::Display for Kind {
    /// Writes it as typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl Traffic {
    /// Returns the work that models this traffic, beside `others` of the same application.
    ///
    /// # Errors
    /// [`Error::Usage`] with the traffic, the mistake, and a correction.
    pub fn work(&self, others: &[Traffic], setting: &Setting) -> Result<Work> {
        let named = |error: Error| Error::usage(format!("traffic `{}`: {error}", self.name));
        self.check().map_err(named)?;
        let found = ALL.iter().find_map(|workload| workload.stands_for(self, others));
        let none = || Err(Error::usage(format!("no workload stands for `{}`", self.kind)));
        let work = found.unwrap_or_else(none).map_err(named)?;
        self.check_limit(&work, setting).map_err(named)?;
        Ok(work)
    }

    /// Returns the state of the same application in the same direction, which may share its connection.
    pub fn state_beside<'a>(&self, others: &'a [Traffic]) -> Option<&'a Traffic> {
        let direction = self.direction(Direction::Up);
        let shares = |other: &&Traffic| {
            other.kind == Kind::State && other.direction(Direction::Down) == direction
        };
        others.iter().find(shares)
    }

    /// Returns true if its messages must arrive.
    pub fn has_to_arrive(&self) -> bool {
        self.kind.arrives() || self.must_arrive == Some(true)
    }

    /// Refuses keys that do not apply to its kind, instead of ignoring them.
    fn check(&self) -> Result<()> {
        let given = serde_json::to_value(self).map_err(|e| Error::usage(e.to_string()))?;
        let given = given.as_object().into_iter().flat_map(|keys| keys.keys());
        let valid = self.kind.keys();
        for key in given.filter(|key| !["name", "kind"].contains(&key.as_str())) {
            if !valid.contains(&key.as_str()) {
                let near = nearest(key, valid.iter().copied())
                    .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                return Err(Error::usage(format!(
                    "`{key}` says nothing about traffic of the kind `{}`{near} (valid: {})",
                    self.kind,
                    valid.join(", ")
                )));
            }
        }
        if self.per_second.is_some() && self.every.is_some() {
            return Err(Error::usage("`per-second` and `every` are both given; one is enough"));
        }
        match self.must_arrive {
            Some(false) if self.kind.arrives() => Err(Error::usage(format!(
                "all traffic of the kind `{}` has to arrive; where the newest replaces all before it, the \
                 kind is `{}`",
                self.kind,
                Kind::State
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a time that no message can meet on this path.
    fn check_limit(&self, work: &Work, setting: &Setting) -> Result<()> {
        let (least, what) = match work.least {
            Least::Way(Direction::Up) => (setting.up.delay, "up"),
            Least::Way(Direction::Down) => (setting.down.delay, "down"),
            Least::RoundTrip => (setting.rtt, "there and back"),
            Least::Nothing => (None, ""),
        };
        match (least, work.limit) {
            (Some(least), Some(limit)) if least >= limit => Err(Error::usage(format!(
                "nothing is ever there in time: {limit} are allowed, and the path takes at least {least} \
                 {what}; allow more, or take a shorter path"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the direction, or `usual` if none is given.
    pub fn direction(&self, usual: Direction) -> Direction {
        self.direction.unwrap_or(usual)
    }

    /// Returns messages per second, all senders together, as a whole number.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is not given, or less than one.
    pub fn rate_per_second(&self) -> Result<u64> {
        let senders = self.senders.unwrap_or(1);
        let per_second = match (self.per_second, &self.every) {
            (Some(rate), _) => rate as f64,
            (None, Some(every)) => 1e9 / parse_span(every)?.0.max(1) as f64,
            (None, None) => {
                return Err(Error::usage(
                    "it does not say how often; write per-second = 30 or every = \"33ms\"",
                ));
            }
        };
        match (per_second * senders as f64).round() {
            rate if rate >= 1.0 => Ok(rate as u64),
            _ => Err(Error::usage(
                "less than one message a second, all senders together: a trial has too few to say \
                 anything; describe what opens a connection for each as `connect`",
            )),
        }
    }

    /// Returns a size in bytes, or `usual` if none is given.
    pub fn bytes(given: Option<&String>, usual: u64) -> Result<u64> {
        given.map_or(Ok(usual), |size| parse_bytes(size, Bare::Refused).map(|bytes| bytes.0))
    }

    /// Returns a time, if it is given.
    pub fn span(given: Option<&String>) -> Result<Option<Nanos>> {
        given.map(|span| parse_span(span)).transpose()
    }
}

impl Work {
    /// Creates the work of a workload with these settings.
    pub fn new(id: &str, options: impl IntoIterator<Item = (&'static str, String)>) -> Work {
        let options = options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Work {
            spec: Spec { name: id.to_owned(), options },
            limit: None,
            least: Least::Nothing,
            offered_bps: None,
            rare: None,
        }
    }

    /// Sets the claimed quantile, and the setting that claims the mean instead.
    pub fn claiming(self, quantile: f64, otherwise: Option<(&'static str, &'static str)>) -> Work {
        Work { rare: Some(Rare { quantile, otherwise }), ..self }
    }

    /// Sets the largest accepted time, and the path that bounds it from below.
    pub fn within(self, limit: Option<Nanos>, least: Least) -> Work {
        Work { limit, least, ..self }
    }

    /// Sets the offered bits, from messages per second and their bytes.
    pub fn offering(self, per_second: u64, bytes: u64) -> Work {
        Work { offered_bps: Some(per_second as f64 * bytes as f64 * 8.0), ..self }
    }
}
