//! A contender that breaks down on purpose, to test the reaction of a race: `arq` until a given call, and then any of
//! the effects of a defect in a library.

use crate::arq::Arq;
use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Guarantees, Side};
use deadheat_contract::recorded::Meaning;
use deadheat_datapath::transport::userspace::{
    LayeredProtocol, MTU, Opening, Protocol, ProtocolLayer, Userspace,
};
use deadheat_datapath::transport::{Contender, Effective, Info, effective_options};

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct Misbehaving;

static INFO: Info = Info {
    id: "misbehaving",
    label: "Misbehaving",
    colour: "#6b6b6b",
    summary: "arq that fails on purpose, to show what a race does then",
    guarantees: Guarantees::BYTE_STREAM,
    framing_bytes: deadheat_datapath::transport::frame::PREFIX,
    options: &[HOW, AT, AFTER],
    keys: &[HOW_KEY.key(), AT_KEY.key(), AFTER_KEY.key(), MTU.key()],
    ..Info::IN_USER_SPACE
};

const HOW_KEY: Preset<BreakdownKind> = Optional::choice(
    "how",
    &["no", "panic", "allocate", "spin", "restless"],
    &[
        BreakdownKind::Nothing,
        BreakdownKind::Panic,
        BreakdownKind::Allocate,
        BreakdownKind::Spin,
        BreakdownKind::Restless,
    ],
)
.or("no")
.doc(
    "what it does: nothing wrong, panic, take memory without end, never return, or want \
     to act all the time",
);

const AT_KEY: Preset<Side> = Optional::choice("at", &["near", "far"], &[Side::Near, Side::Far])
    .or("near")
    .doc("the end that does it");

const AFTER_KEY: Preset<u64> = Optional::count("after", (0, 1_000_000_000))
    .or("50")
    .doc("calls into the protocol that go well before");

const HOW: Meaning = breaks("how", "it decides how this contender breaks down");
const AT: Meaning = breaks("at", "it decides which end breaks down");
const AFTER: Meaning = breaks("after", "it decides when this contender breaks down");

const fn breaks(name: &'static str, matters: &'static str) -> Meaning {
    Meaning::where_asked(name, matters)
}

/// Kind of breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakdownKind {
    Nothing,
    Panic,
    Allocate,
    Spin,
    Restless,
}

/// Breakdown that is due after some calls.
struct Breakdown {
    how: BreakdownKind,
    /// Calls that remain until then.
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
        let (at, asked_how, left) =
            (knobs.get(&AT_KEY), knobs.get(&HOW_KEY), knobs.get(&AFTER_KEY));
        let how = if at == opening.side { asked_how } else { BreakdownKind::Nothing };
        let asked = effective_options([
            (HOW.name, HOW_KEY.word(asked_how).to_owned()),
            (AT.name, AT_KEY.word(at).to_owned()),
            (AFTER.name, left.to_string()),
        ]);
        Ok(Box::new(LayeredProtocol { around: Breakdown { how, left, asked }, protocol }))
    }
}

impl ProtocolLayer for Breakdown {
    fn within<T>(&mut self, call: impl FnOnce() -> T) -> T {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.how.break_down();
        }
        call()
    }

    fn deadline(&self, own: Option<Nanos>) -> Option<Nanos> {
        let is_restless = self.how == BreakdownKind::Restless && self.left == 0;
        if is_restless { Some(Nanos::ZERO) } else { own }
    }

    fn effective(&self, mut own: Effective) -> Effective {
        own.extend(self.asked.clone());
        own
    }
}

impl BreakdownKind {
    #[allow(clippy::panic, reason = "it is what this is for")]
    fn break_down(self) {
        match self {
            BreakdownKind::Nothing | BreakdownKind::Restless => {}
            BreakdownKind::Panic => panic!("asked to"),
            BreakdownKind::Allocate => {
                let mut taken = Vec::new();
                loop {
                    // Never written to, so that the host does not have to provide the memory.
                    taken.push(std::hint::black_box(Vec::<u8>::with_capacity(1 << 26)));
                }
            }
            BreakdownKind::Spin => loop {
                std::hint::spin_loop();
            },
        }
    }
}
