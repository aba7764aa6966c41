//! laminar (github.com/amethyst/laminar) by its own crate, last released in 2021: messages over UDP for games, reliable
//! and in order on streams, which are its lanes, or at best effort.
//!
//! It has no retransmission timer. A packet counts as lost once the peer has acknowledged a packet that is 33 or more
//! later, and only reliable packets of the peer carry acknowledgements. So while an application sends nothing, nothing
//! is acknowledged, and the last message before a silence is never retransmitted. Here both ends send an empty reliable
//! packet in each `tick` without a message, as a game would; with these, the guarantees hold. A lost message then takes
//! 33 ticks without other traffic.
//!
//! An acknowledgement covers 33 packets, so with more messages under way some are retransmitted needlessly. There is no
//! congestion control. 512 unacknowledged packets, or 5 seconds of silence, end the connection.
//!
//! Three of its services are left out, because they are broken: fragmented messages, which are assembled in the order
//! of arrival; reliable unordered messages, which arrive twice if an acknowledgement is lost; and sequenced messages,
//! which are ordered messages at best effort.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Instant;

use laminar::{Config, Connection, ConnectionMessenger, Packet, SocketEvent, VirtualConnection};

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{
    Congestion, Delivery, Ending, Framing, Guarantees, Lane, Offer, Offers, Service, Side,
};
use deadheat_contract::recorded::Meaning;
use deadheat_datapath::transport::userspace::{
    Epoch, Opening, Protocol, ProtocolStats, Received, Rest, State, Transmit, Userspace,
};
use deadheat_datapath::transport::{Effective, Info, effective_options};

#[cfg(test)]
mod alone;
mod ledger;

use ledger::{FRAMING, HEADER, Headers, MessageLedger};

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct Laminar;

/// Largest message in bytes, which fits into one packet of 1,500.
const LARGEST: usize = 1_400;

/// Most lanes of a connection, each a stream.
const MOST_LANES: u16 = 255;

/// Most messages accepted before the first is acknowledged: with the packets in between, as many as one acknowledgement
/// covers.
const WINDOW: usize = 30;

/// Messages after which an end acknowledges before its tick: half of the most that may be under way.
const SOON: u32 = 15;

/// Most datagrams of best effort that wait to leave.
const ROOM: usize = 64;

/// Most numbers ahead of the next message of a lane that are accepted, more than the packets under way.
const AHEAD: u16 = 1_024;

/// Time between packets of an end that has received nothing from its peer.
const KNOCK: Nanos = Nanos::from_millis(100);

/// Address of the peer. The library only repeats it; the socket below has the real one.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 9);

const TICK: Meaning = Meaning::always(
    "tick",
    "it decides how soon messages are acknowledged, and after how long a loss is found",
);

static INFO: Info = Info {
    id: "laminar",
    label: "laminar",
    colour: "#a0785a",
    implementation: env!("DEADHEAT_LAMINAR"),
    summary: "messages over UDP for games; last release 2021",
    guarantees: Guarantees {
        service: Service::ORDERED,
        others: Offers::of(&[Offer {
            service: Service::BEST_EFFORT,
            largest_message: Some(LARGEST as u64),
        }]),
        lanes: MOST_LANES,
        framing: Framing::Messages,
        ending: Ending::Silent,
        congestion: Congestion::Uncontrolled,
        encrypted: false,
        largest_message: Some(LARGEST as u64),
    },
    framing_bytes: FRAMING,
    options: &[TICK],
    keys: &[TICK_KEY.key()],
    ..Info::IN_USER_SPACE
};

const TICK_KEY: Preset<Nanos> =
    Optional::span(TICK.name, (1_000_000, 1_000_000_000)).or("10ms").doc(
        "the time after which an end that sent no reliable message sends an empty packet, \
     which acknowledges; a loss is found 33 packets later",
    );

impl Userspace for Laminar {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        let message = opening.largest_message.min(LARGEST);
        let takes = opening.headers() as usize + HEADER + FRAMING + message;
        if takes > opening.mtu as usize {
            return Err(Error::usage(format!(
                "`{}` sends each message in one packet, a message of {message} bytes takes one of {takes}, and the path takes \
                 packets of {} bytes; send smaller messages, or raise its mtu",
                INFO.id, opening.mtu
            )));
        }
        let config = Config { fragment_size: (FRAMING + LARGEST) as u16, ..Config::default() };
        Ok(Box::new(LaminarEnd {
            // No later than any time passed to it afterwards.
            connection: VirtualConnection::new(PEER, &config, Instant::now()),
            wire: LaminarOutbox { config, out: VecDeque::new(), ledger: MessageLedger::default() },
            epoch: Epoch::default(),
            delivered: vec![0; opening.lanes.len()],
            lanes: opening.lanes.to_vec(),
            state: State::Handshaking,
            arrived: VecDeque::new(),
            tick: opening.knobs.get(&TICK_KEY),
            due: (opening.side == Side::Near).then_some(Nanos::ZERO),
            unacknowledged: 0,
            is_repair_due: false,
        }))
    }
}

/// Datagrams that the library sends.
struct LaminarOutbox {
    config: Config,
    out: VecDeque<Vec<u8>>,
    ledger: MessageLedger,
}

impl ConnectionMessenger<SocketEvent> for LaminarOutbox {
    fn config(&self) -> &Config {
        &self.config
    }

    /// Does nothing: the caller acts on the library's return values.
    fn send_event(&mut self, _address: &SocketAddr, _event: SocketEvent) {}

    fn send_packet(&mut self, _address: &SocketAddr, payload: &[u8]) {
        self.ledger.on_send(payload);
        self.out.push_back(payload.to_vec());
    }
}

/// End of a connection.
struct LaminarEnd {
    connection: VirtualConnection,
    wire: LaminarOutbox,
    epoch: Epoch,
    /// Services of the lanes; a lane's number is its stream's.
    lanes: Vec<Service>,
    /// Number of messages delivered in order, by lane, modulo 65,536.
    delivered: Vec<u16>,
    state: State,
    /// Messages that the application has not read.
    arrived: VecDeque<(Lane, Box<[u8]>)>,
    tick: Nanos,
    /// Time of the next empty packet.
    due: Option<Nanos>,
    /// Reliable messages received since this end last acknowledged.
    unacknowledged: u32,
    /// True after an arrival, until losses are searched for.
    is_repair_due: bool,
}

impl LaminarEnd {
    /// Sends a packet with `payload`, and delays the next empty packet if this one acknowledges, too.
    fn send(&mut self, now: Nanos, packet: Packet) {
        let acknowledges = packet.delivery_guarantee() == laminar::DeliveryGuarantee::Reliable;
        let instant = self.epoch.instant(now);
        self.connection.process_event(&mut self.wire, packet, instant);
        if acknowledges {
            let pause = if self.state == State::Open { self.tick } else { KNOCK };
            self.due = Some(now + pause);
            self.unacknowledged = 0;
        }
    }

    /// Sends an empty packet.
    fn acknowledge(&mut self, now: Nanos) {
        self.send(now, Packet::reliable_unordered(PEER, Vec::new()));
    }

    /// Has the library retransmit packets that it considers lost.
    fn repair(&mut self, now: Nanos) {
        let instant = self.epoch.instant(now);
        self.connection.update(&mut self.wire, instant);
        self.is_repair_due = false;
        if self.state == State::Open && self.connection.should_drop(&mut self.wire, instant) {
            self.state = State::Closed(format!(
                "laminar gives up a peer that is silent for {} s, or has not acknowledged {} packets",
                self.wire.config.idle_connection_timeout.as_secs(),
                self.wire.config.max_packets_in_flight
            ));
        }
    }

    /// Returns true if the library may read a packet: its fields are consistent, and take no more memory than a peer
    /// that respects the window needs.
    fn admits(&self, headers: &Headers<'_>) -> bool {
        let Some((lane, _)) = Headers::message(headers.payload) else {
            return headers.payload.is_empty();
        };
        let Some(service) = self.lanes.get(usize::from(lane)) else { return false };
        match headers.reliable {
            None => service.delivery == Delivery::BestEffort,
            Some(reliable) => reliable.place.is_some_and(|(stream, number)| {
                let next = self.delivered[usize::from(lane)];
                let ahead = number.wrapping_sub(next);
                let makes_sense = !(AHEAD..=u16::MAX / 2).contains(&ahead);
                stream == lane && service.delivery == Delivery::Reliable && makes_sense
            }),
        }
    }

    /// Stores a message that the library delivers.
    fn store(&mut self, packet: &Packet) {
        let Some((lane, message)) = Headers::message(packet.payload()) else { return };
        if packet.delivery_guarantee() == laminar::DeliveryGuarantee::Reliable
            && let Some(delivered) = self.delivered.get_mut(usize::from(lane))
        {
            *delivered = delivered.wrapping_add(1);
        }
        self.arrived.push_back((Lane(lane.into()), message.into()));
    }
}

impl Protocol for LaminarEnd {
    fn state(&self) -> State {
        self.state.clone()
    }

    fn handle(&mut self, Received { at: now, bytes: datagram, .. }: Received<'_>) {
        let Some(headers) = Headers::read(datagram).filter(|headers| self.admits(headers)) else {
            return;
        };
        let instant = self.epoch.instant(now);
        // The library refuses packets of other versions of itself.
        let Ok(packets) = self.connection.process_incoming(datagram, instant) else { return };
        for (packet, _) in packets {
            self.store(&packet);
        }
        if let Some(reliable) = headers.reliable {
            self.wire.ledger.acknowledged(reliable.acknowledged);
        }
        self.is_repair_due = true;
        self.unacknowledged +=
            u32::from(headers.reliable.is_some_and(|reliable| reliable.place.is_some()));
        if self.unacknowledged >= SOON {
            self.acknowledge(now);
        }
        if self.state == State::Handshaking {
            self.state = State::Open;
            // The peer needs a packet of this end even if no other is due.
            self.acknowledge(now);
        }
    }

    fn transmit(&mut self, now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        if self.is_repair_due {
            self.repair(now);
        }
        let datagram = self.wire.out.pop_front()?;
        batch.extend_from_slice(&datagram);
        Some(Transmit::plain(datagram.len()))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.due
    }

    fn on_deadline(&mut self, now: Nanos) {
        if matches!(self.state, State::Closed(_)) {
            self.due = None;
        } else if self.due.is_some_and(|due| due <= now) {
            self.acknowledge(now);
            self.repair(now);
        }
    }

    fn room(&self, lane: Lane) -> usize {
        let service = self.lanes.get(usize::from(lane.0));
        let has_room = match service.map(|service| service.delivery) {
            Some(Delivery::Reliable) => self.wire.ledger.owed() < WINDOW,
            _ => self.wire.out.len() < ROOM,
        };
        if has_room && self.state == State::Open { LARGEST } else { 0 }
    }

    fn write(&mut self, now: Nanos, lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        if let State::Closed(why) = &self.state {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, why.clone()));
        }
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        let service = self.lanes.get(usize::from(lane.0)).copied();
        let (Some(service), Ok(stream)) = (service, u8::try_from(lane.0)) else {
            return Err(invalid(format!("{} lanes, and lane {}", self.lanes.len(), lane.0)));
        };
        let length = u16::try_from(bytes.len()).ok().filter(|_| bytes.len() <= LARGEST);
        let Some(length) = length else {
            return Err(invalid(format!("a message of {} bytes; at most {LARGEST}", bytes.len())));
        };
        let mut payload = Vec::with_capacity(FRAMING + bytes.len());
        payload.push(stream);
        payload.extend(length.to_be_bytes());
        payload.extend_from_slice(bytes);
        let packet = match service.delivery {
            Delivery::Reliable => Packet::reliable_ordered(PEER, payload, Some(stream)),
            Delivery::BestEffort | Delivery::Within(_) => Packet::unreliable(PEER, payload),
        };
        self.send(now, packet);
        Ok(bytes.len())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        while let Some((lane, message)) = self.arrived.pop_front() {
            take(lane, &message);
        }
    }

    /// Does nothing: laminar cannot end one direction.
    fn finish(&mut self, _now: Nanos, _lane: Lane) {}

    fn has_ended(&self, _lane: Lane) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.wire.ledger.owed() == 0 && self.wire.out.is_empty()
    }

    fn stats(&self) -> ProtocolStats {
        ProtocolStats::of(self.wire.ledger.packets, self.wire.ledger.resent, HEADER as u64)
    }

    fn effective(&self) -> Effective {
        effective_options([
            ("cc", "none".to_owned()),
            ("window", format!("{WINDOW} messages")),
            (TICK.name, self.tick.to_string()),
        ])
    }
}
