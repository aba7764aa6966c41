//! renet (github.com/lucaspoffo/renet) by its own crate, without its transport: messages over UDP for games, reliable
//! with or without order, or at best effort, on channels, which are its lanes.
//!
//! Unacknowledged messages are sent again after 300 ms (`resend`), and each 300 ms after that: nothing measures the
//! path's round trip. There is no congestion control: a flush sends up to 60,000 bytes, as a game does in a tick, which
//! is the only limit of a sender besides its memory. Each packet is acknowledged, and each flush that sends packets
//! also sends an acknowledgement, in a datagram of its own.
//!
//! A message leaves at once, with all others that wait; acknowledgements, and messages without room, wait until a
//! `tick` after the last flush. Messages of best effort without room within a flush are dropped before they are sent.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use renet::{ChannelConfig, ConnectionConfig, RenetClient, SendType};

use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_base::units;
use deadheat_contract::contract::{
    Congestion, Delivery, Ending, Framing, Guarantees, Lane, Offer, Offers, Ordering, Service,
};
use deadheat_contract::recorded::Meaning;
use deadheat_datapath::transport::equal::OwnDefault;
use deadheat_datapath::transport::userspace::{
    Opening, Protocol, ProtocolStats, Received, Rest, State, Transmit, Userspace,
};
use deadheat_datapath::transport::{Effective, Info, effective_options};

mod guard;

use guard::{Content, Guard};

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct Renet;

/// Largest reliable message in bytes. renet cuts it into slices.
const LARGEST: usize = 1 << 18;

/// Bytes of a slice, and the most of messages that share a packet.
const SLICE: usize = 1_200;

/// Largest unordered message in bytes: one without slices. The library accepts slices of a delivered message again if
/// the order does not rule them out, and never frees their memory.
const LARGEST_WHOLE: u64 = SLICE as u64;

/// Most lanes of a connection, each a channel.
const MOST_LANES: u16 = 255;

/// Bytes that one flush may send.
const BUDGET: usize = 60_000;

/// Longest datagram, which is the library's buffer.
const LONGEST_DATAGRAM: u32 = 1_400;

/// Bytes of the header of a packet with a small message: kind, number, channel, count, number and length of the
/// message.
const HEADER: u64 = 10;

const TICK: Meaning = Meaning::always(
    "tick",
    "it bounds how much leaves at a time, and how soon data is acknowledged",
);

const AGAIN: Meaning = Meaning::always(
    "resend",
    "it is the whole of what a loss costs, and below the round trip everything is sent twice",
);

static INFO: Info = Info {
    id: "renet",
    label: "renet",
    colour: "#5f7fbf",
    implementation: env!("DEADHEAT_RENET"),
    summary: "messages over UDP for games, sent again every 300 ms",
    guarantees: Guarantees {
        service: Service::ORDERED,
        others: Offers::of(&[
            Offer { service: Service::UNORDERED, largest_message: Some(LARGEST_WHOLE) },
            Offer { service: Service::BEST_EFFORT, largest_message: Some(LARGEST_WHOLE) },
        ]),
        lanes: MOST_LANES,
        framing: Framing::Messages,
        ending: Ending::Silent,
        congestion: Congestion::Uncontrolled,
        encrypted: false,
        largest_message: Some(LARGEST as u64),
    },
    options: &[TICK, AGAIN],
    keys: &[WINDOW.key(), TICK_KEY.key(), AGAIN_KEY.key()],
    deployed: &[
        OwnDefault {
            knob: WINDOW.name(),
            value: "5MiB",
            source: "DefaultChannel: max_memory_usage_bytes",
        },
        OwnDefault {
            knob: TICK.name,
            value: "16667us",
            source: "ConnectionConfig: 60,000 bytes a tick at 60 Hz",
        },
    ],
    ..Info::IN_USER_SPACE
};

const WINDOW: Preset<units::Bytes> = Optional::size("window", (16_384, 1 << 30))
    .or("256kB")
    .doc("the most unacknowledged bytes of reliable messages");

const TICK_KEY: Preset<Nanos> =
    Optional::span(TICK.name, (1_000_000, 1_000_000_000)).or("1ms").doc(
        "the time after which data is acknowledged, and waiting data leaves: 60,000 bytes \
         at a time",
    );

const AGAIN_KEY: Preset<Nanos> =
    Optional::span(AGAIN.name, (1_000_000, 60_000_000_000)).or("300ms").doc(
        "the time after which unacknowledged data is sent again; the library's own is \
         300ms",
    );

impl Userspace for Renet {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        opening.payload(INFO.id, LONGEST_DATAGRAM)?;
        let window = opening.knobs.get(&WINDOW).0;
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        // Messages behind a lost one wait for it, while the sender continues.
        let held = window.saturating_mul(4);
        let memory = held.saturating_add(2 * LARGEST);
        let resend = opening.knobs.get(&AGAIN_KEY);
        let channels: Vec<ChannelConfig> = (0..)
            .zip(opening.lanes)
            .map(|(channel_id, service)| ChannelConfig {
                channel_id,
                max_memory_usage_bytes: memory,
                send_type: send_type(*service, resend),
            })
            .collect();
        let mut client = RenetClient::new(ConnectionConfig {
            available_bytes_per_tick: BUDGET as u64,
            server_channels_config: channels.clone(),
            client_channels_config: channels,
        });
        client.set_connected();
        Ok(Box::new(RenetEnd {
            client,
            guard: Guard::new(opening.lanes, held),
            lanes: opening.lanes.to_vec(),
            state: State::Open,
            last_time: None,
            flushed_at: None,
            flush_reason: FlushReason::Idle,
            waiting: BTreeMap::new(),
            out: VecDeque::new(),
            arrived: VecDeque::new(),
            owed: 0,
            unsent: 0,
            window,
            memory,
            tick: opening.knobs.get(&TICK_KEY),
            resend,
            counts: ProtocolStats::of(0, 0, HEADER),
        }))
    }
}

/// Converts a service to the library's type.
fn send_type(service: Service, resend: Nanos) -> SendType {
    let resend_time = Duration::from(resend);
    match (service.delivery, service.ordering) {
        (Delivery::Reliable, Ordering::Ordered) => SendType::ReliableOrdered { resend_time },
        (Delivery::Reliable, Ordering::Unordered) => SendType::ReliableUnordered { resend_time },
        (Delivery::BestEffort | Delivery::Within(_), _) => SendType::Unreliable,
    }
}

/// Reason for the next flush, besides retransmissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FlushReason {
    /// No reason.
    Idle,
    /// Acknowledgements are due, or the last flush had no room: a tick later.
    NextTick,
    /// A message was written: at once.
    Now,
}

/// End of a connection.
struct RenetEnd {
    client: RenetClient,
    guard: Guard,
    /// Services of the lanes; a lane's number is its channel's.
    lanes: Vec<Service>,
    state: State,
    /// Time of the last call of the library.
    last_time: Option<Nanos>,
    /// Time of the last flush.
    flushed_at: Option<Nanos>,
    flush_reason: FlushReason,
    /// Unacknowledged reliable packets by number, with the time at which they left.
    waiting: BTreeMap<u64, Nanos>,
    out: VecDeque<Vec<u8>>,
    /// Messages that the application has not read.
    arrived: VecDeque<(Lane, Bytes)>,
    /// Bytes of unacknowledged reliable messages.
    owed: usize,
    /// Bytes of best effort written since the last flush.
    unsent: usize,
    window: usize,
    memory: usize,
    tick: Nanos,
    resend: Nanos,
    counts: ProtocolStats,
}

impl RenetEnd {
    /// Sets the library's clock.
    fn set_time(&mut self, now: Nanos) {
        let last = self.last_time.replace(now).unwrap_or(now);
        if now > last {
            self.client.update(Duration::from(now - last));
        }
    }

    /// Returns the time of the next flush.
    fn due(&self) -> Option<Nanos> {
        let again = self.waiting.first_key_value().map(|(_, left)| *left + self.resend);
        let next = self.flushed_at.map_or(Nanos::ZERO, |flushed_at| flushed_at + self.tick);
        let asked = match self.flush_reason {
            FlushReason::Idle => None,
            FlushReason::NextTick => Some(next),
            FlushReason::Now => Some(Nanos::ZERO),
        };
        let again = again.map(|again| again.max(next));
        asked.into_iter().chain(again).min().filter(|_| self.state == State::Open)
    }

    /// Has the library send its due packets.
    fn flush_packets(&mut self, now: Nanos) {
        self.set_time(now);
        let (resend, mut again) = (self.resend, 0);
        while let Some(oldest) = self.waiting.first_entry().filter(|one| *one.get() + resend <= now)
        {
            oldest.remove();
            again += 1;
        }
        let (mut packets, mut bytes) = (0_u64, 0);
        for packet in self.client.get_packets_to_send() {
            if let Some((number, delivery)) = guard::sent(&packet) {
                packets += 1;
                bytes += packet.len();
                if delivery == Delivery::Reliable {
                    self.waiting.insert(number, now);
                }
            }
            self.out.push_back(packet);
        }
        let resent = packets.min(again);
        self.counts.packets = self.counts.packets.map(|count| count + packets - resent);
        self.counts.resent = self.counts.resent.map(|count| count + resent);
        self.flushed_at = Some(now);
        self.unsent = 0;
        // A flush that has used up its budget may have left some packets.
        self.flush_reason =
            if bytes + SLICE > BUDGET { FlushReason::NextTick } else { FlushReason::Idle };
        self.note_end();
    }

    /// Takes the complete messages from the library, which limits its memory for slow readers.
    fn collect(&mut self) {
        for lane in 0..self.lanes.len() as u16 {
            while let Some(message) = self.client.receive_message(lane as u8) {
                self.guard.delivered(usize::from(lane));
                self.arrived.push_back((Lane(lane), message));
            }
        }
    }

    /// Counts the unacknowledged bytes.
    fn reckon(&mut self) {
        let lanes = (0_u8..).zip(&self.lanes);
        let reliable = lanes.filter(|(_, service)| service.delivery == Delivery::Reliable);
        let owed = |(channel, _)| self.memory - self.client.channel_available_memory(channel);
        self.owed = reliable.map(owed).sum();
    }

    fn note_end(&mut self) {
        if let Some(reason) = self.client.disconnect_reason() {
            self.state = State::Closed(format!("renet has ended the connection: {reason}"));
        }
    }
}

impl Protocol for RenetEnd {
    fn state(&self) -> State {
        self.state.clone()
    }

    fn handle(&mut self, Received { at: now, bytes: datagram, .. }: Received<'_>) {
        let Some(content) = self.guard.admit(datagram) else { return };
        self.set_time(now);
        self.client.process_packet(datagram);
        match content {
            // The library acknowledges best effort, too, but uses that only to count losses.
            Content::Data => self.flush_reason = self.flush_reason.max(FlushReason::NextTick),
            Content::Acknowledgement(ranges) => {
                for range in ranges {
                    let found: Vec<u64> = self.waiting.range(range).map(|(n, _)| *n).collect();
                    for number in found {
                        self.waiting.remove(&number);
                    }
                }
                self.reckon();
            }
        }
        self.collect();
        self.note_end();
    }

    fn transmit(&mut self, now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        if self.due().is_some_and(|due| due <= now) {
            self.flush_packets(now);
        }
        let datagram = self.out.pop_front()?;
        batch.extend_from_slice(&datagram);
        Some(Transmit::plain(datagram.len()))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.due()
    }

    fn on_deadline(&mut self, now: Nanos) {
        if self.due().is_some_and(|due| due <= now) {
            self.flush_packets(now);
        }
    }

    fn room(&self, lane: Lane) -> usize {
        let service = self.lanes.get(usize::from(lane.0));
        let (has_room, most) = match service.map(|service| service.delivery) {
            Some(Delivery::Reliable) => (self.owed < self.window, LARGEST),
            _ => (self.unsent < BUDGET / 2, SLICE),
        };
        if has_room && self.state == State::Open { most } else { 0 }
    }

    fn write(&mut self, now: Nanos, lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        if let State::Closed(why) = &self.state {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, why.clone()));
        }
        let service = self.lanes.get(usize::from(lane.0)).copied();
        let (Some(service), Ok(channel)) = (service, u8::try_from(lane.0)) else {
            let why = format!("{} lanes, and lane {}", self.lanes.len(), lane.0);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        self.set_time(now);
        self.client.send_message(channel, Bytes::copy_from_slice(bytes));
        match service.delivery {
            Delivery::Reliable => self.owed += bytes.len(),
            Delivery::BestEffort | Delivery::Within(_) => self.unsent += bytes.len(),
        }
        self.flush_reason = FlushReason::Now;
        self.note_end();
        Ok(bytes.len())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        while let Some((lane, message)) = self.arrived.pop_front() {
            take(lane, &message);
        }
    }

    /// Does nothing: renet cannot end one direction.
    fn finish(&mut self, _now: Nanos, _lane: Lane) {}

    fn has_ended(&self, _lane: Lane) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.owed == 0 && self.unsent == 0 && self.out.is_empty()
    }

    fn stats(&self) -> ProtocolStats {
        self.counts
    }

    fn effective(&self) -> Effective {
        effective_options([
            ("cc", "none".to_owned()),
            ("window", format!("{} B", self.window)),
            (TICK.name, self.tick.to_string()),
            (AGAIN.name, self.resend.to_string()),
        ])
    }
}
