//! The keys of a bulk transfer, and the settings from them.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset, Text};
use deadheat_base::spec::{Key, Settings};
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{CountSource, Direction, Framing, PeerFacts, Side};

use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    ELSEWHERE, EndMemory, NamedFile, ProgramWork, Purpose, Setting, header,
};

/// Value of [`CONNECT`] that includes connection set-up in the span of the goodput.
pub(super) const TIMED: &str = "timed";

/// Directions of the words `up`, `down` and `both`.
pub(crate) const WAYS: [&[Direction]; 3] =
    [&[Direction::Up], &[Direction::Down], &[Direction::Up, Direction::Down]];

/// Time to send for.
pub(crate) const TIME: Optional<Nanos> = Optional::span("time", (10_000_000, 86_400 * 1_000_000_000))
    .doc("time of sending after the warm-up, instead of bytes (without either 300ms, or 40 round trips of the path up to \
     2.6s)");

/// Time to send before the measured time.
pub(crate) const WARMUP: Optional<Nanos> = Optional::span("warmup", (0, 60 * 1_000_000_000)).doc(
    "time of sending before that, left out of the goodput: start-up (with time 50ms, or \
     20 round trips of the path up to 1.3s; with bytes nothing)",
);

/// Message size.
pub(crate) const SIZE: Preset<usize> = Optional::length("size", (header::LEN as u64, 65_507))
    .or("1400")
    .doc("message size, for transports that keep boundaries; 1400 bytes fit an Ethernet frame");

pub(super) const KEYS: &[Key] = deadheat_base::keys![
    BYTES, TIME, WARMUP, DIRECTION, STREAMS, SIZE, CALL, FILE, SINK, VERIFY, ALLOC, CONNECT
];

pub(super) const BYTES: Optional<Bytes> =
    Optional::size("bytes", (1, 1 << 50)).doc("bytes in each direction, all streams together");

const DIRECTION: Preset<&'static [Direction]> =
    Optional::choice("direction", &["up", "down", "both"], &WAYS)
        .or("up")
        .doc("near to far, far to near, or both");

const STREAMS: Preset<u64> =
    Optional::count("streams", (1, 128)).or("1").doc("connections in each direction");

const CALL: Preset<usize> = Optional::length("call", (64, 16 << 20)).or("128KiB").doc(
    "bytes the application hands over per call; datagram transports make of it what one call takes",
);

const FILE: Text = Text::path("file")
    .doc("send this file, or its first `bytes`; with several streams each carries a part of it");

const SINK: Text = Text::path("sink")
    .doc("write the received data to this file, and check it afterwards; takes `file` or `bytes`");

const VERIFY: Preset<bool> = Optional::switch("verify").or("off").doc(
    "check the content while receiving, which costs CPU time; `sink` has it checked afterwards",
);

const ALLOC: Preset<Memory> =
    Optional::choice("alloc", &["ready", "fresh"], &[Memory::Ready, Memory::Fresh])
        .or("ready")
        .doc(
            "fresh: after the first bytes the receiver allocates memory for all, within the \
             time that counts",
        );

pub(super) const CONNECT: Preset<SetUp> =
    Optional::choice("connect", &["apart", "timed"], &[SetUp::Apart, SetUp::Timed])
        .or("apart")
        .doc("timed: the span of goodput has the longest connection set-up in it");

/// Maximum memory of `alloc=fresh` at the receiving end, all streams together. An end also refuses if its host has less
/// than twice the memory needed.
const MOST_MEMORY: u64 = 16 << 30;

/// Extent of a transfer, all streams of a direction together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Number of bytes.
    Bytes(u64),
    /// A whole file of unknown length.
    WholeFile,
    /// Time to send for.
    Time(Nanos),
}

/// Content of a transfer, and its use at the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cargo {
    /// File to send; `None` for the pattern.
    pub(super) source: Option<String>,
    /// File for the received content.
    pub(super) sink: Option<String>,
    pub(super) check: Check,
    pub(super) memory: Memory,
}

/// Check of the received content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Off,
    WhileReceiving,
}

/// Memory for the received content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Buffers from before the trial, used again and again.
    Ready,
    /// Memory for all of it, allocated once the first bytes have arrived.
    Fresh,
}

/// Place of connection set-up: before the span of the rates, or part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetUp {
    Apart,
    Timed,
}

impl Cargo {
    fn read(settings: &Settings) -> Cargo {
        let path = |key: &Text| settings.text_of(key).map(str::to_owned);
        Cargo {
            source: path(&FILE),
            sink: path(&SINK),
            check: if settings.get(&VERIFY) { Check::WhileReceiving } else { Check::Off },
            memory: settings.get(&ALLOC),
        }
    }

    /// Returns true if the content matters: bytes of a file, or bytes to store or check. Messages then carry it after
    /// their header, and the headers do not count as bytes of the transfer.
    pub(super) fn is_content(&self) -> bool {
        self.source.is_some() || self.sink.is_some() || self.check == Check::WhileReceiving
    }
}

/// Settings of a bulk transfer.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) directions: &'static [Direction],
    pub(super) streams: u64,
    pub(super) extent: Extent,
    /// Time to send before the measured time.
    pub(super) warmup: Nanos,
    pub(super) size: usize,
    pub(super) call: usize,
    pub(super) cargo: Cargo,
    pub(super) connect: SetUp,
}

impl Terms {
    /// Returns the direction, if there is only one.
    pub(super) fn one_way(&self) -> Option<Direction> {
        if let [direction] = self.directions[..] { Some(direction) } else { None }
    }

    /// Returns the reason why a far end that is no process of ours cannot do this work; `None` if it can.
    pub(super) fn misfit_of_others(
        &self,
        framing: Framing,
        peer: PeerFacts,
    ) -> Option<&'static str> {
        let has = |direction| self.directions.contains(&direction);
        let is_acknowledged = peer.counts == CountSource::Acknowledgements;
        if peer.is_ours {
            None
        } else if peer.only_connects {
            Some(PeerFacts::NOBODY_BEHIND)
        } else if peer.echoes {
            Some("its far end only echoes, so no end could receive or count bulk data")
        } else if self.cargo.is_content() {
            Some("its far end neither stores nor checks the received data")
        } else if has(Direction::Down) && !peer.sends_data {
            Some("its far end sends nothing; direction=up fits")
        } else if is_acknowledged && framing == Framing::Messages {
            Some("its far end counts nothing, and no end acknowledges messages of this kind")
        } else if has(Direction::Up) && !peer.takes_data {
            Some("its far end sends documents, and takes none; direction=down fits")
        } else {
            None
        }
    }

    /// Returns the part that programs of others can do.
    pub(super) fn programs(&self) -> ProgramWork {
        match (self.extent, self.one_way()) {
            (Extent::Bytes(_) | Extent::WholeFile, _) if self.cargo.is_content() => {
                ProgramWork::Refused(
                    "its commands have files of their own; leave out file, sink, verify and alloc",
                )
            }
            (Extent::Bytes(bytes), Some(direction)) if self.streams == 1 => match self.connect {
                SetUp::Timed => ProgramWork::Transfer { bytes, direction },
                SetUp::Apart => ProgramWork::Refused(
                    "the time of a command begins with its start, before it connects; leave out connect=apart",
                ),
            },
            (Extent::Bytes(_), Some(_)) => ProgramWork::Refused(
                "its commands open as many connections as they like; leave out streams",
            ),
            (Extent::Bytes(_), None) => ProgramWork::Refused(
                "its commands move bytes one way; give direction=up or direction=down",
            ),
            _ => ProgramWork::Refused(
                "a command is timed until it has moved given bytes; give bytes, as in bulk:bytes=10MB",
            ),
        }
    }

    /// Predicts the goodput under loss, for congestion controls with a known response to loss.
    pub(super) fn theory(&self, on: &Conditions<'_>) -> Vec<Prediction> {
        let (Extent::Time(_), Some(direction)) = (self.extent, self.one_way()) else {
            return Vec::new();
        };
        let one = on.response(direction, on.guarantees.framing == Framing::ByteStream);
        let streams = self.streams as f64;
        one.map(|one| Prediction { value: one.value * streams, ..one }).into_iter().collect()
    }

    pub(super) fn read(settings: &Settings, setting: &Setting) -> Result<Terms> {
        let cargo = Cargo::read(settings);
        let extent = match (settings.find(&BYTES), settings.find(&TIME), &cargo.source) {
            (Some(_), Some(_), _) => {
                return Err(Error::usage("bulk: give bytes or time, not both"));
            }
            (Some(bytes), None, _) => Extent::Bytes(bytes.0),
            (None, Some(_), Some(_)) => {
                return Err(Error::usage(
                    "bulk: a file ends where it ends; give file without time, with bytes for a part",
                ));
            }
            (None, None, Some(path)) if path == ELSEWHERE => {
                return Err(Error::usage("bulk: file=- is the other end's file and takes bytes"));
            }
            (None, None, Some(_)) => Extent::WholeFile,
            (None, time, None) => Extent::Time(time.unwrap_or_else(|| setting.steady())),
        };
        let connect = settings.get(&CONNECT);
        let start_up = match extent {
            Extent::Time(_) if connect == SetUp::Apart => setting.start_up(),
            _ => Nanos::ZERO,
        };
        let terms = Terms {
            directions: settings.get(&DIRECTION),
            streams: settings.get(&STREAMS),
            extent,
            warmup: settings.find(&WARMUP).unwrap_or(start_up),
            size: settings.get(&SIZE),
            call: settings.get(&CALL),
            connect,
            cargo,
        };
        terms.check()?;
        Ok(terms)
    }

    fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::usage(format!("bulk: {why}")));
        let Cargo { source, sink, memory, .. } = &self.cargo;
        if (source.is_some() || sink.is_some()) && self.directions.len() > 1 {
            return refuse(
                "a file goes one way; with file or sink give direction=up or direction=down".into(),
            );
        }
        if matches!((sink, self.extent), (Some(_), Extent::Time(_))) {
            return refuse(
                "sink takes file, or bytes: a file that is to be whole has a length".into(),
            );
        }
        if let Extent::Bytes(bytes) = self.extent
            && bytes < self.streams
        {
            return refuse(format!("{bytes} bytes are too few for {} streams", self.streams));
        }
        self.check_span()?;
        match (memory, self.extent) {
            (Memory::Ready, _) => Ok(()),
            (Memory::Fresh, _) if sink.is_some() => refuse(
                "alloc=fresh receives into memory and sink into a file; give one of them".into(),
            ),
            (Memory::Fresh, Extent::Time(_)) => {
                refuse("alloc=fresh takes bytes or file: it allocates as much as will come".into())
            }
            (Memory::Fresh, Extent::Bytes(bytes)) if bytes > MOST_MEMORY => refuse(format!(
                "alloc=fresh of {}; at most {} in all",
                Bytes(bytes),
                Bytes(MOST_MEMORY)
            )),
            (Memory::Fresh, _) => Ok(()),
        }
    }

    /// Refuses a transfer without a rate, before it runs.
    fn check_span(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::usage(format!("bulk: {why}")));
        let is_warm = self.warmup > Nanos::ZERO;
        if is_warm && self.connect == SetUp::Timed {
            return refuse(
                "connect=timed counts the start and warmup leaves it out; give one of them".into(),
            );
        }
        match self.extent {
            Extent::Bytes(_) | Extent::WholeFile if is_warm => refuse(
                "warmup goes with time: of so many bytes all count; leave it out, or give time"
                    .into(),
            ),
            Extent::Bytes(bytes)
                if bytes < self.streams * self.call as u64
                    && self.connect == SetUp::Apart
                    && !self.cargo.is_content() =>
            {
                refuse(format!(
                    "{} fit into one call of {} on each stream, which has no duration and so no rate; give \
                     bytes={} or more, or time",
                    Bytes(bytes),
                    Bytes(self.call as u64),
                    Bytes(self.streams * self.call as u64)
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the sending end of a transfer in one direction.
    fn sender(&self) -> Side {
        match self.directions.first() {
            Some(Direction::Down) => Side::Far,
            _ => Side::Near,
        }
    }

    pub(super) fn files(&self) -> Vec<NamedFile> {
        let file = |side, purpose, key, path: &Option<String>| {
            path.clone().map(|path| NamedFile { side, purpose, key, path })
        };
        [
            file(self.sender(), Purpose::Read, FILE.name(), &self.cargo.source),
            file(self.sender().other(), Purpose::Write, SINK.name(), &self.cargo.sink),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns the memory that the receivers allocate for the whole content.
    pub(super) fn memory(&self) -> EndMemory {
        let (Memory::Fresh, Extent::Bytes(bytes)) = (self.cargo.memory, self.extent) else {
            return EndMemory::default();
        };
        let received = |way: &Direction| match way {
            Direction::Up => EndMemory::at(Side::Far, bytes),
            Direction::Down => EndMemory::at(Side::Near, bytes),
        };
        self.directions.iter().map(received).fold(EndMemory::default(), EndMemory::plus)
    }
}
