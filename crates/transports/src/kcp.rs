//! KCP (github.com/skywind3000/kcp) by the crate `kcp`: reliable, ordered messages over UDP, with timers
//! and fast retransmission set for latency and, in most of its modes, no congestion control.
//!
//! The protocol counts in milliseconds and by default sends only every `interval`, 10 ms or more. Here, new data and
//! acknowledgements leave at once (`flush=on`), as programs configure it for low latency; `flush=off` shows the
//! default.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use kcp::Kcp as Machine;

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Congestion, Ending, Framing, Guarantees, Lane};
use deadheat_contract::measurements::TcpView;
use deadheat_contract::recorded::Meaning;
use deadheat_datapath::transport::equal::OwnDefault;
use deadheat_datapath::transport::userspace::{
    MTU, Opening, Protocol, ProtocolStats, Received, Rest, RoundTrip, Segments, State, Transmit,
    Userspace,
};
use deadheat_datapath::transport::{Effective, Info, effective_options};

mod fec;
mod segments;
mod tuning;

use fec::{DecodedSegments, Decoder, Encoder, Shape};
use segments::{is_sound, round_trips, segments, unmeasured};
use tuning::{Mode, Tuning};

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct Kcp;

/// Most segments of one message, by the machine's limit.
const MOST_SEGMENTS: u64 = 127;

/// Largest message in bytes: 127 segments in packets of 576 bytes over IPv6.
const LARGEST: u64 = MOST_SEGMENTS * (576 - 40 - 8 - HEADER);

/// Smallest datagram that the library accepts (`Kcp::set_mtu`).
const LEAST_PAYLOAD: u32 = 50;

/// Shortest datagram in which 127 segments hold the largest message.
const LEAST_DATAGRAM: usize = 576 - 40 - 8;

/// Bytes of the header in front of each segment.
const HEADER: u64 = 24;

static INFO: Info = Info {
    id: "kcp",
    label: "KCP",
    colour: "#b5417c",
    implementation: env!("DEADHEAT_KCP"),
    summary: "reliable messages over UDP, tuned for latency",
    guarantees: Guarantees {
        framing: Framing::Messages,
        ending: Ending::Silent,
        congestion: Congestion::Uncontrolled,
        largest_message: Some(LARGEST),
        ..Guarantees::BYTE_STREAM
    },
    options: &[Meaning::always(
        "nodelay",
        "it decides how soon a lost message is sent again, and how that grows",
    )],
    keys: deadheat_base::keys![
        MODE, CONTROL, NODELAY, INTERVAL, RESEND, MIN_RTO, WINDOW, FLUSH, FEC, MTU
    ],
    deployed: DEPLOYED,
    ..Info::IN_USER_SPACE
};

const MODE: Preset<Mode> = Optional::choice("mode", &["default", "normal", "fast", "turbo"], &[Mode::Default, Mode::Normal, Mode::Fast, Mode::Turbo])
    .or("turbo")
    .doc("settings of KCP's own test (default, normal, fast) or manual (turbo: nodelay=on,interval=10ms,resend=2,cc=none); \
     single keys come on top");

const CONTROL: Optional<bool> = Optional::choice("cc", &["kcp", "none"], &[true, false]).doc(
    "congestion control: KCP's own, or the window alone; not set: none, and kcp in \
     mode=default",
);

const NODELAY: Optional<bool> = Optional::switch("nodelay").doc(
    "on: timeouts from 30 ms and grow by half; off: from 100 ms and double; not set: as \
     the mode",
);

const INTERVAL: Preset<Nanos> = Optional::span("interval", (10_000_000, 5_000_000_000))
    .or("10ms")
    .doc("period at which the protocol looks for data to send again");

const RESEND: Optional<u64> = Optional::count("resend", (0, 100)).doc(
    "later acknowledgements after which a segment is sent again; 0: after its timeout \
     only; not set: as the mode",
);

const MIN_RTO: Optional<Nanos> = Optional::span("min-rto", (1_000_000, 60_000_000_000)).doc(
    "the shortest retransmission timeout, in milliseconds; not set: as nodelay, and \
     10ms in mode=fast",
);

const WINDOW: Preset<u64> = Optional::count("window", (1, 65_535))
    .or("128")
    .doc("segments that may be under way; the receiver has room for 128 at least");

const FLUSH: Preset<bool> = Optional::switch("flush")
    .or("on")
    .doc("on: data leaves as soon as it is written; off: at the next interval");

const FEC: Preset<Option<Shape>> =
    Optional::form("fec", fec::KIND, Shape::parse, None).or("off").doc(
        "10+3 (10:3 within a mix): behind each 10 datagrams go 3 more that make up for any \
         3 lost, as in kcp-go",
    );

/// Defaults of the library by itself, from constants of its `src/kcp.rs`.
const DEPLOYED: &[OwnDefault] = &[
    OwnDefault { knob: MODE.name(), value: "default", source: "`Kcp::new`" },
    OwnDefault { knob: INTERVAL.name(), value: "100ms", source: "KCP_INTERVAL" },
    OwnDefault { knob: WINDOW.name(), value: "32", source: "KCP_WND_SND" },
    OwnDefault { knob: FLUSH.name(), value: "off", source: "`update` flushes at the interval" },
    // KCP_MTU_DEF, and the headers of IPv4 and UDP.
    OwnDefault { knob: MTU.name(), value: "1428", source: "KCP_MTU_DEF" },
];

impl Userspace for Kcp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        let tuning = Tuning::new(opening.knobs);
        let shape = opening.knobs.get(&FEC);
        let packets = Packets::new(shape)?;
        // Each flow has a socket of its own, so all may have the same number.
        let mut machine = Machine::new(1, packets.clone());
        let room = opening.payload(INFO.id, LEAST_PAYLOAD)? as usize;
        let around = shape.map_or(0, |_| fec::HEADER);
        let datagram = room.saturating_sub(around);
        if shape.is_some() && datagram < LEAST_DATAGRAM {
            return Err(Error::usage(format!(
                "`{}:fec` takes {around} bytes of each packet, and a mtu of {} bytes or more; this one is {}",
                INFO.id,
                LEAST_DATAGRAM + around + opening.headers() as usize,
                opening.mtu
            )));
        }
        let refused = |e| Error::usage(format!("`{}`: packets of {datagram} bytes: {e}", INFO.id));
        machine.set_mtu(datagram).map_err(refused)?;
        machine.set_nodelay(
            tuning.nodelay,
            tuning.interval as i32,
            tuning.resend as i32,
            !tuning.is_controlled,
        );
        machine.set_wndsize(tuning.window, tuning.window);
        if let Some(least) = tuning.min_rto {
            machine.set_rx_minrto(least);
        }
        Ok(Box::new(KcpEnd {
            machine,
            packets,
            fec: shape.map(|shape| Decoder::new(shape, room)).transpose()?,
            shape,
            tuning,
            mode: MODE.word(opening.knobs.get(&MODE)),
            message: Vec::new(),
            round_trip: RoundTrip::default(),
            least_ms: None,
            due: None,
            is_fresh: false,
            mtu: opening.mtu,
        }))
    }
}

/// Datagrams that the machine has written and that wait to leave. Each write is one datagram.
#[derive(Debug, Clone, Default)]
struct Packets(Arc<Mutex<PacketQueue>>);

#[derive(Debug, Default)]
struct PacketQueue {
    bytes: Vec<u8>,
    /// Lengths of the datagrams in `bytes`, and the number of datagrams and bytes that have left.
    lengths: Vec<usize>,
    taken: usize,
    taken_bytes: usize,
    sent: Segments,
    fec: Option<Encoder>,
    now: Nanos,
}

impl Packets {
    fn new(shape: Option<Shape>) -> Result<Packets> {
        let fec = shape.map(Encoder::new).transpose()?;
        Ok(Packets(Arc::new(Mutex::new(PacketQueue { fec, ..PacketQueue::default() }))))
    }

    fn with<T>(&self, act: impl FnOnce(&mut PacketQueue) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Packets {
    fn write(&mut self, datagram: &[u8]) -> io::Result<usize> {
        self.with(|waiting| {
            waiting.count(datagram);
            waiting.put(datagram);
        });
        Ok(datagram.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PacketQueue {
    /// Appends the next datagram to `batch`; returns its length.
    fn take(&mut self, batch: &mut Vec<u8>) -> Option<usize> {
        let Some(len) = self.lengths.get(self.taken).copied() else {
            self.bytes.clear();
            self.lengths.clear();
            (self.taken, self.taken_bytes) = (0, 0);
            return None;
        };
        batch.extend_from_slice(&self.bytes[self.taken_bytes..self.taken_bytes + len]);
        self.taken += 1;
        self.taken_bytes += len;
        Some(len)
    }

    /// Appends a datagram, with its forward error correction.
    fn put(&mut self, datagram: &[u8]) {
        let PacketQueue { bytes, lengths, fec, now, .. } = self;
        let mut put = |datagram: &[u8]| {
            bytes.extend_from_slice(datagram);
            lengths.push(datagram.len());
        };
        match fec {
            Some(encoder) => encoder.encode(*now, datagram, put),
            None => put(datagram),
        }
    }

    /// Counts the segments of a datagram that carry data.
    fn count(&mut self, datagram: &[u8]) {
        const PUSH: u8 = 81;
        let data = segments(datagram).filter(|segment| segment.command == PUSH);
        self.sent.count(data.map(|segment| segment.number));
    }
}

/// End of a connection.
struct KcpEnd {
    machine: Machine<Packets>,
    packets: Packets,
    /// Decoder and group sizes of forward error correction, if it is on.
    fec: Option<Decoder>,
    shape: Option<Shape>,
    tuning: Tuning,
    mode: &'static str,
    /// Buffer in which a message is assembled.
    message: Vec<u8>,
    /// Round trips as the machine measures them internally, and the shortest in milliseconds.
    round_trip: RoundTrip,
    least_ms: Option<u32>,
    due: Option<Nanos>,
    /// True if there is new data or a new acknowledgement to send.
    is_fresh: bool,
    mtu: u32,
}

/// Returns the machine's clock, which wraps after 49 days as the protocol allows.
fn milliseconds(now: Nanos) -> u32 {
    (now.0 / 1_000_000) as u32
}

impl KcpEnd {
    /// Sets the machine's time; the machine sends the segments that are due.
    fn tick(&mut self, now: Nanos) {
        self.packets.with(|waiting| waiting.now = now);
        // Writing into memory does not fail.
        let _ = self.machine.update(milliseconds(now));
    }

    /// Plans the next update. Nothing is due while nothing is under way: the peer probes if it must.
    fn plan(&mut self, now: Nanos) {
        self.due = (self.is_fresh || self.machine.wait_snd() > 0).then(|| {
            let wait = self.machine.check(milliseconds(now)).max(1);
            Nanos((now.0 / 1_000_000 + u64::from(wait)) * 1_000_000)
        });
    }
}

impl Protocol for KcpEnd {
    fn state(&self) -> State {
        if self.machine.is_dead_link() {
            State::Closed("KCP sent one segment 20 times in vain (dead link)".to_owned())
        } else {
            State::Open
        }
    }

    fn handle(&mut self, Received { at: now, bytes: datagram, .. }: Received<'_>) {
        self.tick(now);
        let KcpEnd { machine, is_fresh, round_trip, least_ms, .. } = self;
        // Malformed input is ignored.
        let mut input = |segments: &[u8]| {
            let is_taken = is_sound(segments) && machine.input(segments).is_ok();
            *is_fresh |= is_taken;
            for ms in round_trips(segments, milliseconds(now)).filter(|_| is_taken) {
                round_trip.note(Nanos::from_millis(u64::from(ms)));
                *least_ms = Some(least_ms.map_or(ms, |least| least.min(ms)));
            }
        };
        match &mut self.fec {
            Some(decoder) => decoder.decode(datagram, |received| match received {
                DecodedSegments::Sent(segments) => input(segments),
                DecodedSegments::MadeUp(segments) => {
                    unmeasured(segments, milliseconds(now));
                    input(segments);
                }
            }),
            None => input(datagram),
        }
        self.plan(now);
    }

    fn transmit(&mut self, now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        if self.is_fresh && self.tuning.flushes {
            self.is_fresh = false;
            self.tick(now);
            let _ = self.machine.flush();
            self.plan(now);
        }
        self.packets.with(|waiting| waiting.take(batch)).map(Transmit::plain)
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.due
    }

    fn on_deadline(&mut self, now: Nanos) {
        self.tick(now);
        if self.tuning.flushes {
            let _ = self.machine.flush();
        }
        self.is_fresh &= !self.tuning.flushes && self.machine.wait_snd() > 0;
        self.plan(now);
    }

    fn room(&self, _lane: Lane) -> usize {
        if self.machine.wait_snd() < usize::from(self.tuning.window) { LARGEST as usize } else { 0 }
    }

    fn write(&mut self, now: Nanos, _lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        self.machine.send(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        self.is_fresh = true;
        if self.due.is_none() {
            self.tick(now);
            self.plan(now);
        }
        Ok(bytes.len())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        while let Ok(len) = self.machine.peeksize() {
            if self.message.len() < len {
                self.message.resize(len, 0);
            }
            let Ok(len) = self.machine.recv(&mut self.message) else { return };
            take(Lane(0), &self.message[..len]);
        }
    }

    /// Does nothing: KCP has no end of stream.
    fn finish(&mut self, _now: Nanos, _lane: Lane) {}

    fn has_ended(&self, _lane: Lane) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.machine.wait_snd() == 0
    }

    /// Returns the counters. The library does not show its congestion window, of `mode=default` or `cc=kcp`; without
    /// congestion control the windows of both ends are the limit.
    fn stats(&self) -> ProtocolStats {
        let Segments { packets, resent, .. } = self.packets.with(|waiting| waiting.sent);
        let window = self.machine.snd_wnd().min(self.machine.rmt_wnd());
        let mss_bytes = self.machine.mss() as u64;
        let view = TcpView {
            cwnd_bytes: if self.tuning.is_controlled { 0 } else { u64::from(window) * mss_bytes },
            mss_bytes,
            min_rtt_ns: self.least_ms.map(|ms| Nanos::from_millis(u64::from(ms)).0),
            ..self.round_trip.view(packets, resent)
        };
        let header_bytes = HEADER + self.shape.map_or(0, |_| fec::HEADER as u64);
        let recovered = self.fec.as_ref().map(Decoder::recovered);
        ProtocolStats { recovered, ..ProtocolStats::of(packets, resent, header_bytes).seen(view) }
    }

    fn effective(&self) -> Effective {
        let tuning = &self.tuning;
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        let least = tuning.min_rto.unwrap_or(if tuning.nodelay { 30 } else { 100 });
        effective_options([
            ("mode", self.mode.to_owned()),
            ("cc", if tuning.is_controlled { "kcp" } else { "none" }.to_owned()),
            ("nodelay", switch(tuning.nodelay)),
            ("interval", format!("{} ms", tuning.interval)),
            ("resend", tuning.resend.to_string()),
            ("min-rto", format!("{least} ms")),
            ("window", self.machine.snd_wnd().to_string()),
            ("flush", switch(tuning.flushes)),
            ("fec", self.shape.map_or_else(|| "off".to_owned(), |shape| shape.to_string())),
            ("mtu", format!("{} B", self.mtu)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::segments::testing::segment;
    use super::*;

    #[test]
    fn segments_are_counted_once_and_again_where_they_go_again() {
        let mut waiting = PacketQueue::default();
        for (numbers, counts) in [(&[0, 1][..], (1, 0)), (&[1, 2], (2, 1)), (&[0], (2, 2))] {
            let datagram: Vec<u8> =
                numbers.iter().flat_map(|number| segment(*number, 0, b"data")).collect();
            waiting.count(&datagram);
            assert_eq!((waiting.sent.packets, waiting.sent.resent), counts);
        }
    }
}
