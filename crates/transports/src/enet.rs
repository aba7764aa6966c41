//! ENet (github.com/lsalzman/enet) by the crate `rusty_enet`, a translation of the C library to Rust: messages over UDP
//! for games, reliable and in order or at best effort, on up to 255 channels of one connection, which are its lanes.
//!
//! Two facts bound its speed. At most 64 KiB of reliable messages are under way, so a round trip of 50 ms allows 1.3
//! MB/s on any path. And it has no congestion control: loss does not slow it down. All its times are in milliseconds.
//!
//! Its packet throttle looks at round trips only. While they are slower than the fastest of the five seconds before, it
//! narrows the window, down to one packet, and drops messages of best effort before they are sent; only round trips as
//! fast as that widen it again. If an idle peer answers within a millisecond, a peer that takes four to read the data
//! under way counts as slow. `throttle=off` is a command of ENet.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::time::Duration;

use rusty_enet::consts::{
    PEER_PACKET_THROTTLE_ACCELERATION, PEER_PACKET_THROTTLE_INTERVAL, PROTOCOL_MAXIMUM_WINDOW_SIZE,
};
use rusty_enet::{Event, Host, HostSettings, MTU_MAX, Packet, PeerID};

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{
    Congestion, Delivery, Ending, Framing, Guarantees, Lane, Offer, Offers, Service, Side,
};
use deadheat_contract::measurements::TcpView;
use deadheat_datapath::transport::equal::OwnDefault;
use deadheat_datapath::transport::userspace::{
    LimitTimes, MTU, Opening, Protocol, ProtocolStats, Received, Rest, SendLimit, State, Transmit,
    Userspace,
};
use deadheat_datapath::transport::{Effective, Info, effective_options};

mod wire;

use wire::EnetSocket;

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct Enet;

/// Largest reliable message in bytes. ENet cuts it into packets, each with one of the 32,768 numbers that may be under
/// way; this size takes 1,914 of them at the smallest mtu.
const LARGEST: u64 = 1 << 20;

/// Largest message of best effort in bytes, which fits into one packet of 1,500. In smaller packets it is fragmented,
/// and ENet delivers fragmented messages in order only: an overtaken message is lost.
const LARGEST_UNRELIABLE: u64 = 1_400;

/// Most lanes of a connection, each a channel.
const MOST_LANES: u16 = 255;

/// Bytes of the header in front of a packet (4) and of a reliable message (6).
const HEADER: u64 = 10;

/// Most bytes of reliable messages under way.
const WINDOW: usize = PROTOCOL_MAXIMUM_WINDOW_SIZE as usize;

/// Most bytes accepted before the first is acknowledged: the bytes under way, and as many that wait.
const ROOM: usize = 2 * WINDOW;

/// The only peer of an end.
const PEER: PeerID = PeerID(0);

static INFO: Info = Info {
    id: "enet",
    label: "ENet",
    colour: "#4d9a94",
    implementation: env!("DEADHEAT_RUSTY_ENET"),
    summary: "messages over UDP for games, on up to 255 channels",
    guarantees: Guarantees {
        service: Service::ORDERED,
        others: Offers::of(&[Offer {
            service: Service::BEST_EFFORT,
            largest_message: Some(LARGEST_UNRELIABLE),
        }]),
        lanes: MOST_LANES,
        framing: Framing::Messages,
        ending: Ending::Silent,
        congestion: Congestion::Uncontrolled,
        encrypted: false,
        largest_message: Some(LARGEST),
    },
    keys: &[THROTTLE.key(), MTU.key()],
    // With the headers of IPv4 and UDP.
    deployed: &[OwnDefault {
        knob: MTU.name(),
        value: "1420",
        source: "HOST_DEFAULT_MTU: datagrams of 1392 bytes",
    }],
    ..Info::IN_USER_SPACE
};

const THROTTLE: Preset<bool> = Optional::switch("throttle").or("on").doc(
    "the packet throttle, by which slower round trips narrow the window, and drop \
     messages of best effort unsent",
);

impl Userspace for Enet {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        let refused = |e: String| Error::usage(format!("`{}`: {e}", INFO.id));
        let clock = Arc::new(AtomicU64::new(0));
        let reads = Arc::clone(&clock);
        let token = opening.token.tag();
        let settings = HostSettings {
            peer_limit: 1,
            channel_limit: opening.lanes.len().max(1),
            time: Box::new(move || Duration::from_millis(reads.load(Memory::Relaxed))),
            seed: Some(if opening.side == Side::Near { token } else { !token }),
            ..HostSettings::default()
        };
        let wire = EnetSocket::new(opening.lanes.len().max(1));
        let mut host = Host::new(wire, settings).map_err(|e| refused(e.to_string()))?;
        let datagram = opening.payload(INFO.id, LEAST_DATAGRAM)?.min(MTU_MAX as u32);
        let limited = host.set_mtu(datagram as u16);
        let limited = limited.and_then(|()| host.peer_mut(PEER).set_mtu(datagram as u16));
        limited.map_err(|_| refused(format!("it takes no datagrams of {datagram} bytes")))?;
        Ok(Box::new(EnetEnd {
            host,
            clock,
            began: None,
            side: opening.side,
            lanes: opening.lanes.to_vec(),
            state: State::Handshaking,
            arrived: VecDeque::new(),
            unsent: 0,
            is_fresh: false,
            due: (opening.side == Side::Near).then_some(Nanos::ZERO),
            now: Nanos::ZERO,
            held: LimitTimes::default(),
            is_throttled: opening.knobs.get(&THROTTLE),
            headers: opening.headers(),
        }))
    }
}

/// The smallest datagram that ENet may be limited to, in bytes.
const LEAST_DATAGRAM: u32 = rusty_enet::consts::PROTOCOL_MINIMUM_MTU as u32;

/// End of a connection.
struct EnetEnd {
    host: Host<EnetSocket>,
    /// The library's clock, in milliseconds.
    clock: Arc<AtomicU64>,
    /// Time at which that clock was zero.
    began: Option<Nanos>,
    side: Side,
    /// Services of the lanes; a lane's number is its channel's.
    lanes: Vec<Service>,
    state: State,
    /// Messages that the library has assembled and the application has not read.
    arrived: VecDeque<(u8, Packet)>,
    /// Bytes of best effort written since the library last sent.
    unsent: usize,
    /// True if there is something new to send.
    is_fresh: bool,
    due: Option<Nanos>,
    /// Time of the last call of the library.
    now: Nanos,
    held: LimitTimes,
    is_throttled: bool,
    headers: u32,
}

impl EnetEnd {
    /// Sets the library's clock, from 1 on: the library reads zero as never.
    fn set_time(&mut self, now: Nanos) {
        self.now = now;
        let began = *self.began.get_or_insert(now);
        let time = 1 + (now - began).0 / 1_000_000;
        self.clock.store(time, Memory::Relaxed);
        let timeout = self.timeout();
        self.host.socket_mut().ledger.begin(time, timeout);
    }

    /// Returns the timeout of the commands sent now, in milliseconds.
    fn timeout(&self) -> u64 {
        let peer = self.host.peer(PEER);
        (peer.round_trip_time() + 4 * peer.round_trip_time_variance()).as_millis() as u64
    }

    /// Has the library read datagrams, run its timers, and send.
    fn service(&mut self) {
        loop {
            // The socket is memory, so this does not fail.
            let Ok(event) = self.host.service();
            let is_last = event.is_none();
            match event {
                Some(Event::Connect { peer, .. }) => {
                    stay(peer);
                    if !self.is_throttled && self.side == Side::Near {
                        // The library sends these settings to the peer, which applies them, too.
                        let (interval, faster) =
                            (PEER_PACKET_THROTTLE_INTERVAL, PEER_PACKET_THROTTLE_ACCELERATION);
                        peer.set_throttle(interval, faster, 0);
                    }
                    self.state = State::Open;
                }
                Some(Event::Disconnect { .. }) => {
                    self.state = State::Closed("the peer has ended the ENet connection".to_owned());
                }
                Some(Event::Receive { channel_id, packet, .. }) => {
                    self.arrived.push_back((channel_id, packet));
                }
                None => {}
            }
            // A call of the library reads a limited number of datagrams.
            if is_last && !self.host.socket().has_arrivals() {
                break;
            }
        }
        (self.is_fresh, self.unsent) = (false, 0);
        self.plan();
    }

    /// Returns the smoothed round-trip time in nanoseconds.
    fn srtt_ns(&self) -> u64 {
        self.host.peer(PEER).round_trip_time().as_nanos() as u64
    }

    /// Notes the reason why no more is sent, after a call of the library: only its window, of 64 KiB or less by its
    /// throttle, delays reliable messages.
    fn note_wait(&mut self) {
        let ledger = &self.host.socket().ledger;
        let waits = match ledger.owed() {
            0 => SendLimit::Nothing,
            owed if owed > ledger.flying() => SendLimit::Library,
            _ => SendLimit::Path,
        };
        self.held.note(self.now, waits, Some(self.srtt_ns()));
    }

    /// Plans the next call of the library. An end without a peer waits for one.
    fn plan(&mut self) {
        self.note_wait();
        let timeout = self.timeout();
        self.host.socket_mut().ledger.end(timeout);
        let has_peer = self.host.peer(PEER).state() != rusty_enet::PeerState::Disconnected;
        let began = self.began.filter(|_| has_peer);
        let due = self.host.socket().ledger.due();
        self.due = began.map(|began| began + Nanos::from_millis(due - 1));
    }
}

/// Makes ENet wait for a silent peer as long as the trial does; by default it gives up after 5 to 30 seconds.
fn stay(peer: &mut rusty_enet::Peer<EnetSocket>) {
    peer.set_timeout(u32::MAX, u32::MAX, u32::MAX);
}

impl Protocol for EnetEnd {
    fn state(&self) -> State {
        self.state.clone()
    }

    /// Takes a datagram. The library reads it in the next call that may send, because it acknowledges all datagrams of
    /// a call at once.
    fn handle(&mut self, Received { at: now, bytes: datagram, .. }: Received<'_>) {
        self.set_time(now);
        self.host.socket_mut().arrived(datagram);
    }

    fn transmit(&mut self, now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        if self.host.socket().has_arrivals() {
            self.set_time(now);
            self.service();
        } else if self.is_fresh {
            self.set_time(now);
            self.host.flush();
            (self.is_fresh, self.unsent) = (false, 0);
            self.plan();
        }
        self.host.socket_mut().leave(batch).map(Transmit::plain)
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.due
    }

    fn on_deadline(&mut self, now: Nanos) {
        let begins = self.side == Side::Near && self.began.is_none();
        self.set_time(now);
        if begins {
            match self.host.connect((), self.lanes.len().max(1), 0) {
                Ok(peer) => stay(peer),
                Err(error) => self.state = State::Closed(error.to_string()),
            }
        }
        self.service();
    }

    fn room(&self, _lane: Lane) -> usize {
        let wire = self.host.socket();
        let waiting = wire.ledger.owed() + wire.waiting() + self.unsent;
        let has_room = self.state == State::Open && waiting < ROOM;
        if has_room { LARGEST as usize } else { 0 }
    }

    fn write(&mut self, now: Nanos, lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        self.set_time(now);
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        let service = self.lanes.get(usize::from(lane.0)).copied();
        let (Some(service), Ok(channel)) = (service, u8::try_from(lane.0)) else {
            return Err(invalid(format!("{} lanes, and lane {}", self.lanes.len(), lane.0)));
        };
        let packet = match service.delivery {
            Delivery::Reliable => Packet::reliable(bytes),
            Delivery::BestEffort | Delivery::Within(_) => {
                Packet::always_unreliable_unsequenced(bytes)
            }
        };
        let peer = self.host.peer_mut(PEER);
        peer.send(channel, &packet).map_err(|e| io::Error::new(io::ErrorKind::BrokenPipe, e))?;
        match service.delivery {
            Delivery::Reliable => self.host.socket_mut().ledger.wrote(bytes.len()),
            Delivery::BestEffort | Delivery::Within(_) => self.unsent += bytes.len(),
        }
        self.is_fresh = true;
        Ok(bytes.len())
    }

    fn read(&mut self, now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        if self.host.socket().has_arrivals() {
            self.set_time(now);
            self.service();
        }
        while let Some((channel, packet)) = self.arrived.pop_front() {
            take(Lane(u16::from(channel)), packet.data());
        }
    }

    /// Does nothing: ENet cannot end one direction.
    fn finish(&mut self, _now: Nanos, _lane: Lane) {}

    fn has_ended(&self, _lane: Lane) -> bool {
        false
    }

    /// Returns true if the peer has everything that was sent. A ping may still be unanswered: it is not the
    /// application's.
    fn is_drained(&self) -> bool {
        let wire = self.host.socket();
        !self.is_fresh && wire.ledger.owed() == 0 && wire.waiting() == 0
    }

    /// Returns the counters without the window: the library shows neither its throttled size nor how full it is.
    fn stats(&self) -> ProtocolStats {
        let (peer, ledger) = (self.host.peer(PEER), &self.host.socket().ledger);
        let view = self.held.add_to(TcpView {
            mss_bytes: u64::from(peer.mtu()),
            srtt_ns: Some(self.srtt_ns()),
            rttvar_ns: Some(peer.round_trip_time_variance().as_nanos() as u64),
            retransmits: ledger.resent,
            data_segs_out: Some(ledger.packets),
            ..TcpView::default()
        });
        ProtocolStats::of(ledger.packets, ledger.resent, HEADER).seen(view)
    }

    fn effective(&self) -> Effective {
        let mtu = u32::from(self.host.peer(PEER).mtu()) + self.headers;
        effective_options([
            ("cc", "none".to_owned()),
            ("window", format!("{WINDOW} B")),
            ("throttle", if self.is_throttled { "on" } else { "off" }.to_owned()),
            ("mtu", format!("{mtu} B")),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::rng::SplitMix64;
    use deadheat_base::spec::{Settings, Spec};
    use deadheat_datapath::transport::hello::Token;

    fn open(side: Side, mtu: u32) -> Result<Box<dyn Protocol>> {
        let knobs = Settings::check(&Spec::parse("enet").unwrap(), INFO.keys).unwrap();
        Enet.open(&Opening {
            side,
            token: Token::from_bytes([9; 16]),
            knobs: &knobs,
            lanes: &[Service::ORDERED, Service::BEST_EFFORT],
            largest_message: LARGEST as usize,
            mtu,
            ip_header: 20,
            tickets: &deadheat_datapath::transport::Tickets::default(),
        })
    }

    /// Both ends, over a path without delay.
    struct Pair {
        ends: [Box<dyn Protocol>; 2],
        now: Nanos,
    }

    impl Pair {
        fn new() -> Pair {
            let mut ends = [Side::Near, Side::Far].map(|side| open(side, 1_500).unwrap());
            let now = Nanos::from_secs(1);
            ends[0].on_deadline(now);
            Pair { ends, now }
        }

        /// Moves the datagrams of both ends for a millisecond; returns the messages that arrived at the far end.
        fn step(&mut self, mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
            let mut came = Vec::new();
            self.now += Nanos::from_millis(1);
            for from in [0, 1] {
                let mut datagram = Vec::new();
                while self.ends[from].transmit(self.now, 1, &mut datagram).is_some() {
                    if let Some(changed) = change(&datagram) {
                        self.ends[1 - from].handle(Received::plain(self.now, &changed));
                    }
                    self.ends[1 - from].handle(Received::plain(self.now, &datagram));
                    datagram.clear();
                }
            }
            for end in &mut self.ends {
                if end.next_deadline().is_some_and(|due| due <= self.now) {
                    end.on_deadline(self.now);
                }
            }
            self.ends[0].read(self.now, &mut |_, bytes| bytes.len());
            self.ends[1].read(self.now, &mut |_, bytes| {
                came.push(bytes.to_vec());
                bytes.len()
            });
            came
        }

        fn is_open(&self) -> bool {
            self.ends.iter().all(|end| end.state() == State::Open)
        }
    }

    /// The library doubles its timeout for each packet of the handshake that is lost, without a bound: seven in a row take a minute.
    #[test]
    fn packets_of_the_handshake_that_are_lost_cost_their_timeouts_and_no_more() {
        let whole = time_to_open(0);
        assert!(whole < Nanos::from_millis(50), "{whole}");
        for lost in 1..64_u32 {
            let timeouts = Nanos::from_millis(500 * ((1 << lost.count_ones()) - 1) + 50);
            let took = time_to_open(lost);
            assert!(took < whole + timeouts, "{lost:06b}: {took}");
        }
    }

    /// Returns the time that a connection takes to open over a path of 12 ms that loses the packets whose bits are set.
    fn time_to_open(lost: u32) -> Nanos {
        let delay = Nanos::from_millis(12);
        let mut ends = [Side::Near, Side::Far].map(|side| open(side, 1_500).unwrap());
        let began = Nanos::from_secs(1);
        let (mut now, mut sent) = (began, 0);
        let mut flying: VecDeque<(Nanos, usize, Vec<u8>)> = VecDeque::new();
        ends[0].on_deadline(now);
        while ends.iter().any(|end| end.state() != State::Open) {
            assert!(now - began < Nanos::from_secs(90), "{lost:06b}");
            for from in [0, 1] {
                let mut datagram = Vec::new();
                while ends[from].transmit(now, 1, &mut datagram).is_some() {
                    if lost & 1_u32.unbounded_shl(sent) == 0 {
                        flying.push_back((now + delay, 1 - from, datagram.clone()));
                    }
                    sent += 1;
                    datagram.clear();
                }
            }
            now += Nanos::from_millis(1);
            while let Some((_, to, datagram)) = flying.pop_front_if(|(at, ..)| *at <= now) {
                ends[to].handle(Received::plain(now, &datagram));
            }
            for end in &mut ends {
                if end.next_deadline().is_some_and(|due| due <= now) {
                    end.on_deadline(now);
                }
            }
        }
        now - began
    }

    #[test]
    fn the_largest_message_arrives_whole_and_is_acknowledged() {
        let mut pair = Pair::new();
        while !pair.is_open() {
            pair.step(|_| None);
        }
        let message: Vec<u8> = (0..LARGEST).map(|i| (i ^ (i >> 8)) as u8).collect();
        assert!(pair.ends[0].room(Lane(0)) >= message.len());
        pair.ends[0].write(pair.now, Lane(0), &message, Rest::Kept).unwrap();
        assert_eq!(pair.ends[0].room(Lane(0)), 0);
        let mut came = Vec::new();
        for _ in 0..1_000 {
            came.extend(pair.step(|_| None));
        }
        assert!(came == [message], "{} messages", came.len());
        assert!(pair.ends[0].is_drained() && pair.ends[0].room(Lane(0)) > 0);
        // The window is exactly full in each millisecond.
        let counts = pair.ends[0].stats();
        assert_eq!((counts.packets, counts.resent), (Some(LARGEST.div_ceil(1_444)), Some(0)));
    }

    #[test]
    fn what_is_almost_a_packet_panics_nobody() {
        let mut rng = SplitMix64::new(5);
        for _ in 0..ROUNDS {
            let mut pair = Pair::new();
            for n in 0..200_usize {
                for (end, lane) in [(0, 0), (1, 0), (0, 1)] {
                    let len = 1 + n * n * 37 % 5_000;
                    let len = if lane == 1 { len.min(1_400) } else { len };
                    if pair.ends[end].room(Lane(lane)) >= len {
                        // This fails if a changed datagram has ended the connection.
                        let _ = pair.ends[end].write(
                            pair.now,
                            Lane(lane),
                            &vec![n as u8; len],
                            Rest::Kept,
                        );
                    }
                }
                pair.step(|datagram| {
                    let mut changed = datagram.to_vec();
                    for _ in 0..1 + rng.below(3) {
                        // Changes headers rather than data.
                        let at = rng.below(changed.len().min(60) as u64) as usize;
                        changed[at] = rng.below(256) as u8;
                    }
                    (rng.below(10) == 0).then_some(changed)
                });
            }
        }
    }

    /// Number of connections.
    const ROUNDS: u32 = 20;

    #[test]
    fn a_path_of_small_packets_is_refused_with_what_would_do() {
        let Err(error) = open(Side::Near, 600) else { panic!("it was taken") };
        assert!(error.to_string().contains("604 bytes and more"), "{error}");
        let jumbo = open(Side::Near, 9_000).unwrap();
        assert_eq!(jumbo.effective()["mtu"], "4124 B");
    }
}
