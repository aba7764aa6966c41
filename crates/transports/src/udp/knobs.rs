//! Knobs of UDP, and their effective values.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Settings};
use deadheat_base::units::Bytes;
use deadheat_datapath::datapath::datagram::{
    Binding, ReceiveEngine, SendEngine, probe_coalescing, probe_segmentation,
};
use deadheat_datapath::datapath::option::{Buffer, Fragmenting, cover};
use deadheat_datapath::transport::header::HeaderTerms;
use deadheat_datapath::transport::udp_handshake::Variant;

/// Default of the messages per call.
const MESSAGES: usize = 64;

/// Default of the coalesced buffers per call: half a megabyte stays within a core's cache.
const COALESCED: usize = 8;

pub(super) const KEYS: &[Key] =
    &[IO.key(), RX.key(), BATCH.key(), CONNECTED.key(), DF.key(), RCVBUF.key(), SNDBUF.key()];

pub(crate) const IO: Preset<SendEngine> = Optional::choice("io", SendEngine::WORDS, SendEngine::ALL)
    .or("gso")
    .doc("how bulk data is sent: a datagram a call (send), many a call (sendmmsg), a buffer that the kernel cuts into \
     datagrams (gso, UDP_SEGMENT), or many such buffers a call; uring: io_uring, up to 16 linked datagrams a call");

pub(crate) const RX: Preset<ReceiveEngine> = Optional::choice("rx", ReceiveEngine::WORDS, ReceiveEngine::ALL)
    .or("gro+recvmmsg")
    .doc("how bulk data is received: a datagram a call (recv), many a call (recvmmsg), a buffer of datagrams that the \
     kernel put together (gro, UDP_GRO), or many such buffers a call; uring: io_uring, one request fills up to 16 \
     buffers");

/// Datagrams or buffers per call.
pub(crate) const BATCH: Optional<u64> = Optional::count("batch", (1, 1024))
    .doc("most datagrams, or buffers with gso and gro, per sendmmsg or recvmmsg, within the workload's call size; not set: \
     64, and 8 for gro");

/// Way in which calls address the peer.
pub(crate) const CONNECTED: Preset<bool> = Optional::switch("connected").or("on").doc(
    "on: the socket is connected to its peer; off: each call carries the address, and \
     the kernel looks up the route each time",
);

/// Fragmentation.
pub(crate) const DF: Optional<Fragmenting> = Optional::choice("df", &["on", "off", "probe"], &[Fragmenting::Refused, Fragmenting::Allowed, Fragmenting::Probed])
    .doc("the don't-fragment bit (IP_MTU_DISCOVER): on refuses messages over the path MTU, off lets hosts and routers cut, probe sets the bit and ignores the \
     path MTU; not set: the host's way, which cuts packets over the path MTU here");

/// Receive buffer. By default it is the host's (`net.core.rmem_default`).
pub(crate) const RCVBUF: Optional<Bytes> = Optional::size("rcvbuf", (4_096, 1 << 29))
    .doc("receive buffer (SO_RCVBUF; the kernel doubles it for its own overhead)");

/// Send buffer.
pub(crate) const SNDBUF: Optional<Bytes> = Optional::size("sndbuf", (4_096, 1 << 29))
    .doc("send buffer (SO_SNDBUF; the kernel doubles it for its own overhead)");

/// Part of a datagram that UDP-Lite's checksum covers; UDP has no such key.
pub(crate) const COVERAGE: Optional<Bytes> = Optional::size("coverage", (8, 65_535))
    .doc("bytes that the checksum covers, header of 8 included, and must cover of what arrives (UDPLITE_SEND_CSCOV, \
     UDPLITE_RECV_CSCOV); not set: all");

/// Origin of a value: typed by the user, or a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueOrigin {
    /// Typed: refused if it is unavailable.
    Named,
    /// Default: replaced if it is unavailable, with a remark.
    Default,
}

/// Knobs as values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Knobs {
    pub(super) variant: Variant,
    /// Bytes that the checksum covers; `None` for all, and for UDP.
    pub(super) coverage: Option<Bytes>,
    pub(super) rcvbuf: Option<Bytes>,
    pub(super) sndbuf: Option<Bytes>,
    pub(super) io: (SendEngine, ValueOrigin),
    pub(super) rx: (ReceiveEngine, ValueOrigin),
    pub(super) batch: Option<usize>,
    pub(super) binding: Binding,
    pub(super) df: Option<Fragmenting>,
    pub(super) header: HeaderTerms,
}

impl Knobs {
    pub(super) fn new(variant: Variant, settings: &Settings) -> Knobs {
        let wish =
            |key| if settings.given(key) { ValueOrigin::Named } else { ValueOrigin::Default };
        Knobs {
            variant,
            coverage: settings.find(&COVERAGE),
            rcvbuf: settings.find(&RCVBUF),
            sndbuf: settings.find(&SNDBUF),
            io: (settings.get(&IO), wish(IO.name())),
            rx: (settings.get(&RX), wish(RX.name())),
            batch: settings.find(&BATCH).map(|n| n as usize),
            binding: if settings.get(&CONNECTED) { Binding::Connected } else { Binding::Loose },
            df: settings.find(&DF),
            header: HeaderTerms::of(settings),
        }
    }

    /// Sets the options that a socket must have before the first datagram.
    pub(super) fn prepare(&self, socket: &Socket) -> Result<()> {
        Buffer::Receive.request(socket, self.rcvbuf)?;
        Buffer::Send.request(socket, self.sndbuf)?;
        cover(socket, self.coverage)?;
        self.header.set(socket)?;
        let Some(df) = self.df else { return Ok(()) };
        let label = self.variant.label;
        df.set(socket).map_err(|e| Error::setup(format!("set df={} for {label}", df.word()), e))
    }

    /// Checks that the chosen knobs are compatible.
    ///
    /// # Errors
    /// [`Error::Unsupported`] naming the knob that has to change.
    pub(super) fn check_together(&self) -> Result<()> {
        if self.binding == Binding::Loose {
            let why = "its calls carry no address; it needs connected=on";
            for (key, ring) in [("io", self.io.0.is_ring()), ("rx", self.rx.0.is_ring())] {
                if ring {
                    return Err(unsupported(key, "uring", why));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of datagrams per sendmmsg(2).
    pub(super) fn send_batch(&self) -> usize {
        self.batch.unwrap_or(MESSAGES)
    }

    /// Returns the number of buffers per recvmmsg(2).
    pub(super) fn receive_batch(&self, engine: ReceiveEngine) -> usize {
        self.batch.unwrap_or(if engine.coalesces() { COALESCED } else { MESSAGES })
    }
}

/// Checks that this host has the engine that a knob's value names.
///
/// # Errors
/// [`Error::Unsupported`] with the missing feature and an alternative.
pub(super) fn check(key: &str, word: &str) -> Result<()> {
    if SendEngine::named(word).is_some_and(SendEngine::is_ring) {
        return deadheat_datapath::datapath::uring::check()
            .map_err(|error| unsupported(key, word, &error.to_string()));
    }
    let probe: fn(BorrowedFd<'_>) -> io::Result<()> = match key {
        "io" if SendEngine::named(word).is_some_and(SendEngine::segments) => probe_segmentation,
        "rx" if ReceiveEngine::named(word).is_some_and(ReceiveEngine::coalesces) => {
            probe_coalescing
        }
        _ => return Ok(()),
    };
    let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)
        .or_else(|_| Socket::new(socket2::Domain::IPV6, socket2::Type::DGRAM, None))
        .map_err(|e| Error::setup("open a UDP socket", e))?;
    probe(socket.as_fd()).map_err(|error| unsupported(key, word, &error.to_string()))
}

/// Returns the error for a typed engine that is unavailable.
pub(super) fn unsupported(key: &str, word: &str, why: &str) -> Error {
    let instead = match key {
        "io" => "io=send and io=sendmmsg work everywhere",
        _ => "rx=recv and rx=recvmmsg work everywhere",
    };
    Error::unsupported(format!("udp:{key}={word}"), format!("{why}; {instead}"))
}

/// Engine in use, and the reason if it is not the chosen one.
#[derive(Debug)]
pub(super) struct EngineInUse<T> {
    pub(super) engine: T,
    instead_of: Option<(&'static str, String)>,
}

impl EngineInUse<SendEngine> {
    /// Returns the chosen engine or, if it is a default that this host lacks, one without segmentation.
    pub(super) fn sending(
        (asked, wish): (SendEngine, ValueOrigin),
    ) -> Result<EngineInUse<SendEngine>> {
        let mut used = EngineInUse { engine: asked, instead_of: None };
        match (check("io", asked.word()), wish) {
            (Err(error), ValueOrigin::Default) => {
                used.fall_back(SendEngine::SendMmsg, error.to_string())
            }
            (result, _) => result?,
        }
        Ok(used)
    }

    /// Replaces the engine, for the reason `why`.
    pub(super) fn fall_back(&mut self, to: SendEngine, why: String) {
        self.instead_of = Some((self.engine.word(), why));
        self.engine = to;
    }

    /// Describes the engine, and the engine that it replaces.
    pub(super) fn describe(&self) -> String {
        describe(self.engine.word(), self.instead_of.as_ref())
    }
}

impl EngineInUse<ReceiveEngine> {
    /// Returns the chosen engine or, if it is a default that this host lacks, one without coalescing.
    pub(super) fn receiving(
        (asked, wish): (ReceiveEngine, ValueOrigin),
    ) -> Result<EngineInUse<ReceiveEngine>> {
        match (check("rx", asked.word()), wish) {
            (Err(error), ValueOrigin::Default) => Ok(EngineInUse {
                engine: ReceiveEngine::RecvMmsg,
                instead_of: Some((asked.word(), error.to_string())),
            }),
            (result, _) => result.map(|()| EngineInUse { engine: asked, instead_of: None }),
        }
    }

    /// Describes the engine, and the engine that it replaces.
    pub(super) fn describe(&self) -> String {
        describe(self.engine.word(), self.instead_of.as_ref())
    }
}

fn describe(used: &str, instead_of: Option<&(&'static str, String)>) -> String {
    match instead_of {
        Some((asked, why)) => format!("{used} ({asked}: {why})"),
        None => used.to_owned(),
    }
}
