//! Contenders and far ends of a result, as far as a reader of the result needs them: plain data, so that reading opens no
//! socket. The program hands in the functions that read them ([`READERS`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contract::{Guarantees, PeerFacts};
use crate::handed_in::HandedIn;
use crate::measurements::Effective;
use crate::workload::AnswerSource;
use deadheat_base::error::Result;
use deadheat_base::spec::Spec;

/// Readers of this program, at most one.
pub static READERS: HandedIn<Readers> = HandedIn::new();

/// Functions that read what a result has of contenders and far ends.
#[derive(Debug)]
pub struct Readers {
    /// Reads a contender as typed, with the knobs that the result recorded.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] naming the mistake, and for a contender that this program does not have.
    pub contender: fn(&str, &BTreeMap<String, String>) -> Result<RecordedContender>,
    /// Finds a far end by its name; `None` if this program does not have it.
    pub far_end: fn(&str) -> Option<RecordedFarEnd>,
}

/// Reads a contender as typed, with the knobs that the result recorded.
///
/// # Errors
/// As [`Readers::contender`], and if the program handed in no reader.
pub fn contender(typed: &str, asked: &BTreeMap<String, String>) -> Result<RecordedContender> {
    match READERS.first() {
        Some(readers) => (readers.contender)(typed, asked),
        None => Err(READERS.unknown("contender", typed, &[])),
    }
}

/// Finds a far end by its name; `None` if this program does not have it.
pub fn far_end(id: &str) -> Option<RecordedFarEnd> {
    READERS.first().and_then(|readers| (readers.far_end)(id))
}

/// Contender of a result.
#[derive(Debug, Clone)]
pub struct RecordedContender {
    /// Name of its transport.
    pub id: &'static str,
    /// Contender as typed.
    pub spec: Spec,
    /// Colour in plots, as `#rrggbb`.
    pub colour: &'static str,
    /// Transport with its implementation, before anything is read back: `tcp/linux`.
    pub named: String,
    /// Implementer of the protocol: `linux`.
    pub implementation: &'static str,
    /// Protocol, if other transports are implementations of it, too.
    pub protocol: Option<&'static str>,
    /// Knobs, as a result has them.
    pub asked: BTreeMap<String, String>,
    /// Guarantees of its transport.
    pub guarantees: Guarantees,
    /// Guarantees with the services that it prefers.
    pub promised: Guarantees,
    /// Facts of its peer.
    pub peer: PeerFacts,
    /// Number of bytes in front of each message.
    pub framing_bytes: usize,
    /// True if each of its packets is a UDP datagram.
    pub is_over_udp: bool,
    /// True if knobs that are not typed are the implementation's own.
    pub is_deployed: bool,
    /// Relay on its way, in words; `None` without one.
    pub relay: Option<String>,
    /// Commands that carry it, near and far, as typed; `None` without them.
    pub carriers: Option<[String; 2]>,
    /// True if commands do its work.
    pub is_commands: bool,
    /// Contenders that it consists of; empty for a single one.
    pub parts: Vec<RecordedPart>,
    /// Meanings of its options.
    pub options: Vec<Meaning>,
}

/// Contender that is a part of another.
#[derive(Debug, Clone)]
pub struct RecordedPart {
    /// Name within the whole.
    pub name: String,
    /// Host of its far end as typed after `--to`; `None` for the first.
    pub host: Option<String>,
    /// The contender.
    pub contender: RecordedContender,
}

/// Name of the part that carries all lanes that no part is named for.
pub const OTHER_LANES: &str = "others";

impl RecordedContender {
    /// Returns the meaning of an option, its own or that of a part, for a comparison; `None` if it has none.
    pub fn meaning(&self, option: &str) -> Option<&Meaning> {
        let of_part = || {
            let (name, rest) = option.split_once('.')?;
            self.part(name)?.contender.meaning(rest)
        };
        self.options.iter().find(|meaning| meaning.name == option).or_else(of_part)
    }

    /// Returns the host of the far end of the part that carries the lane with this name; `None` for the first.
    pub fn host_of_lane(&self, lane: &str) -> Option<&str> {
        self.part(lane).or_else(|| self.part(OTHER_LANES))?.host.as_deref()
    }

    fn part(&self, name: &str) -> Option<&RecordedPart> {
        self.parts.iter().find(|part| part.name == name)
    }
}

/// Far end of others, of a result.
#[derive(Debug, Clone, Copy)]
pub struct RecordedFarEnd {
    /// Source of the answers of work that asks it.
    pub answers: AnswerSource,
    /// Remarks on a race's trials against it.
    pub remarks: Option<Remark>,
}

/// Function that makes remarks on trials against a far end.
pub type Remark = fn(&[SeenTrial<'_>]) -> Vec<FarEndRemark>;

/// Trial of a race, with what its contender read back.
#[derive(Debug, Clone, Copy)]
pub struct SeenTrial<'a> {
    /// Label of the contender.
    pub label: &'a str,
    /// Options in effect.
    pub effective: &'a Effective,
}

/// Remark of a far end on a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarEndRemark {
    /// Finding of its trials, as a sentence.
    pub message: String,
    /// Meaning of the finding, or advice.
    pub advice: &'static str,
}

/// Facts of a far end in a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarEndFacts {
    /// Name before `://`.
    pub id: String,
    /// Name for people.
    pub label: String,
    /// Numbers that it reports, in words; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<String>,
    /// Facts that cannot be known from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// Option that is set by a knob, or read back from a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// Name, as a knob and as read back.
    pub name: &'static str,
    /// Reason why it matters when contenders differ in it.
    pub matters: &'static str,
    /// True if it must not change in any trial or flow; otherwise the host may change it unless it was set.
    pub is_fixed: bool,
    /// Separators, each of which begins a remark behind the value in force, as in `on, validated`.
    pub remarks: &'static [&'static str],
}

/// Start of a remark in brackets, which every option may have: `zerocopy (the kernel copied some calls)`.
const IN_BRACKETS: &[&str] = &[" ("];

/// Returns the value in force out of an option that was read back, without remarks. An option without a meaning can
/// have only remarks in brackets.
pub fn in_force<'a>(meaning: Option<&Meaning>, value: &'a str) -> &'a str {
    let remarks = meaning.map_or(IN_BRACKETS, |meaning| meaning.remarks);
    let ends = remarks.iter().filter_map(|remark| value.find(remark));
    &value[..ends.min().unwrap_or(value.len())]
}

impl Meaning {
    /// Creates the meaning of an option that must not change in any trial.
    pub const fn always(name: &'static str, matters: &'static str) -> Meaning {
        Meaning { name, matters, is_fixed: true, remarks: IN_BRACKETS }
    }

    /// Creates the meaning of an option that must not change where it was set.
    pub const fn where_asked(name: &'static str, matters: &'static str) -> Meaning {
        Meaning { name, matters, is_fixed: false, remarks: IN_BRACKETS }
    }
}
