//! A contender that breaks down on purpose, to see what a race does then: `arq` until some call, and then whatever a
//! defect of a library may do.

use crate::arq::Arq;
use crate::contract::{Guarantees, Side};
use crate::error::Result;
use crate::spec::{Key, Kind};
use crate::time::Nanos;
use crate::transport::options::Meaning;
use crate::transport::userspace::{Around, MTU, Opening, Protocol, Userspace, Wrapped};
use crate::transport::{Contender, Effective, Info, options, told};

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct Misbehaving;

static INFO: Info = Info {
    id: "misbehaving",
    label: "Misbehaving",
    colour: "#6b6b6b",
    summary: "arq that breaks down where it is told to: to see what a race does then",
    guarantees: Guarantees::BYTE_STREAM,
    framing_bytes: crate::transport::frame::PREFIX,
    options: &[HOW, AT, AFTER, options::CC, options::WINDOW, options::MIN_RTO, options::MTU],
    keys: &[
        Key {
            name: "how",
            kind: Kind::Choice(&["no", "panic", "allocate", "spin", "restless"]),
            default: "no",
            doc: "what it does: nothing wrong, panic, take memory without end, never return, or want to act all the time",
        },
        Key {
            name: "at",
            kind: Kind::Choice(&["near", "far"]),
            default: "near",
            doc: "the end that does it",
        },
        Key {
            name: "after",
            kind: Kind::Count(0, 1_000_000_000),
            default: "50",
            doc: "calls into the protocol that go well before",
        },
        MTU,
    ],
    ..Info::IN_USER_SPACE
};

const HOW: Meaning = breaks("how", "it decides how this contender breaks down");
const AT: Meaning = breaks("at", "it decides which end breaks down");
const AFTER: Meaning = breaks("after", "it decides when this contender breaks down");

const fn breaks(name: &'static str, matters: &'static str) -> Meaning {
    Meaning::where_asked(name, matters)
}

/// Kind of breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Nothing,
    Panic,
    Allocate,
    Spin,
    Restless,
}

/// A breakdown that is to come.
struct Breakdown {
    how: How,
    /// Calls that go well until then.
    left: u64,
    asked: Effective,
}

impl Userspace for Misbehaving {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        let knobs = opening.knobs;
        let own = Contender::parse(Userspace::info(&Arq).id)?;
        let protocol = Arq.open(&Opening { knobs: &own.knobs, ..*opening })?;
        let word = |key| knobs.text(key).unwrap_or_default();
        let at = if word("at") == "far" { Side::Far } else { Side::Near };
        let how = match word("how") {
            _ if at != opening.side => How::Nothing,
            "panic" => How::Panic,
            "allocate" => How::Allocate,
            "spin" => How::Spin,
            "restless" => How::Restless,
            _ => How::Nothing,
        };
        let left = knobs.count("after").unwrap_or_default();
        let asked = [("how", word("how")), ("at", word("at")), ("after", &left.to_string())];
        let asked = told(asked.map(|(key, value)| (key, value.to_owned())));
        Ok(Box::new(Wrapped { around: Breakdown { how, left, asked }, protocol }))
    }
}

impl Around for Breakdown {
    fn within<T>(&mut self, call: impl FnOnce() -> T) -> T {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.how.break_down();
        }
        call()
    }

    fn deadline(&self, own: Option<Nanos>) -> Option<Nanos> {
        let is_restless = self.how == How::Restless && self.left == 0;
        if is_restless { Some(Nanos::ZERO) } else { own }
    }

    fn effective(&self, mut own: Effective) -> Effective {
        own.extend(self.asked.clone());
        own
    }
}

impl How {
    #[allow(clippy::panic, reason = "it is what this is for")]
    fn break_down(self) {
        match self {
            How::Nothing | How::Restless => {}
            How::Panic => panic!("asked to"),
            How::Allocate => {
                let mut taken = Vec::new();
                loop {
                    // Never touched, so that the host has to find none of it.
                    taken.push(std::hint::black_box(Vec::<u8>::with_capacity(1 << 26)));
                }
            }
            How::Spin => loop {
                std::hint::spin_loop();
            },
        }
    }
}
