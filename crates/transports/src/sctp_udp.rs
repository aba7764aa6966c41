//! SCTP (RFC 9260) in UDP datagrams (RFC 6951) by sctp-proto: reliable, ordered messages with congestion control, like
//! WebRTC's data channels, but without their encryption. A lane is a stream, which may be unordered, and may give up
//! messages after a lifetime or at their first loss (RFC 3758).

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig,
    Error as SctpError, Event, Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig,
    TransportConfig,
};

use crate::sctp::{CC, LARGEST, PROMISED};
use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_base::units;
use deadheat_contract::contract::{Delivery, Lane, Ordering, Service, Side};
use deadheat_contract::measurements::TcpView;
use deadheat_datapath::transport::equal::OwnDefault;
use deadheat_datapath::transport::userspace::{
    Epoch, MTU, Opening, Protocol, ProtocolStats, Received, Rest, RoundTrip, Segments, State,
    Transmit, Userspace, nowhere,
};
use deadheat_datapath::transport::{Effective, Info, effective_options};

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct SctpUdp;

/// Bytes of the common header (RFC 9260, 3) and of a DATA chunk's (3.3.1).
const COMMON_HEADER: u32 = 12;
const DATA_HEADER: u32 = 16;

/// Address of the peer. The state machine only compares it; the socket below has the real one.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 9_899);

/// Timeout before a round trip was measured (RFC 9260, 16).
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

static INFO: Info = Info {
    id: "sctp-udp",
    label: "SCTP over UDP",
    colour: "#8c6d1f",
    implementation: env!("DEADHEAT_SCTP_PROTO"),
    summary: "SCTP in UDP datagrams (RFC 6951): reliable messages",
    guarantees: PROMISED,
    keys: &[WINDOW.key(), MIN_RTO.key(), MTU.key()],
    // With the headers of IPv4 and UDP.
    deployed: &[OwnDefault {
        knob: MTU.name(),
        value: "1256",
        source: "INITIAL_MTU: packets of 1228 bytes",
    }],
    ..Info::IN_USER_SPACE
};

const WINDOW: Preset<units::Bytes> = Optional::size("window", (65_536, 1 << 30))
    .or("1MiB")
    .doc("the receiver's buffer, and the most unacknowledged bytes of a sender");

const MIN_RTO: Preset<Nanos> = Optional::span("min-rto", (1_000_000, 60_000_000_000))
    .or("1s")
    .doc("the shortest retransmission timeout, in milliseconds; 1s is RFC 9260's");

impl Userspace for SctpUdp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        const HEADERS: u32 = COMMON_HEADER + DATA_HEADER;
        // Fragments of whole words, so that no padding makes a packet too long.
        let payload = (opening.payload(INFO.id, HEADERS + 4)? - HEADERS) / 4 * 4;
        let window = opening.knobs.get(&WINDOW).0;
        let min_rto = (opening.knobs.get(&MIN_RTO).0 / 1_000_000).max(1);
        let transport = TransportConfig::default()
            .with_max_receive_buffer_size(u32::try_from(window).unwrap_or(u32::MAX))
            .with_max_send_message_size(LARGEST as u32)
            .with_max_receive_message_size(LARGEST as u32)
            .with_rto_initial_ms(FIRST_TIMEOUT.as_millis() as u64)
            .with_rto_min_ms(min_rto);
        let mut endpoint = EndpointConfig::new();
        endpoint.max_payload_size(payload);
        let mut server = ServerConfig::new();
        server.transport = Arc::new(transport);
        let mut client = ClientConfig::new();
        client.transport = Arc::clone(&server.transport);
        let server = (opening.side == Side::Far).then(|| Arc::new(server));
        Ok(Box::new(SctpUdpEnd {
            endpoint: Endpoint::new(Arc::new(endpoint), server),
            client: (opening.side == Side::Near).then_some(client),
            association: None,
            lanes: opening.lanes.to_vec(),
            epoch: Epoch::default(),
            state: State::Handshaking,
            packets: VecDeque::new(),
            message: Vec::new(),
            buffered: 0,
            due: (opening.side == Side::Near).then_some(Nanos::ZERO),
            sent: Segments::default(),
            probe: RoundTripProbe::default(),
            window,
            min_rto,
            mtu: opening.mtu,
        }))
    }
}

/// End of an association.
struct SctpUdpEnd {
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    association: Option<(AssociationHandle, Association)>,
    /// Services of the lanes; a lane's number is its stream's.
    lanes: Vec<Service>,
    epoch: Epoch,
    state: State,
    /// Packets that wait to leave.
    packets: VecDeque<Bytes>,
    /// Buffer in which a message is assembled.
    message: Vec<u8>,
    /// Bytes that were written and not acknowledged.
    buffered: usize,
    due: Option<Nanos>,
    sent: Segments,
    probe: RoundTripProbe,
    window: u64,
    min_rto: u64,
    mtu: u32,
}

/// Measurement of round trips as in RFC 9260, 6.3.1: of one DATA chunk at a time that was sent once. It reads packets,
/// because the library does not show round trips (its `rtt` is the timeout).
#[derive(Debug, Default)]
struct RoundTripProbe {
    /// TSN of the chunk, and the time at which it left.
    chunk: Option<(u32, Nanos)>,
    round_trip: RoundTrip,
    least: Option<Nanos>,
}

impl RoundTripProbe {
    /// Notes DATA chunks that leave.
    fn on_send(&mut self, now: Nanos, numbers: impl Iterator<Item = u32>, is_again: bool) {
        for number in numbers {
            match self.chunk {
                None if !is_again => self.chunk = Some((number, now)),
                Some((timed, _)) if timed == number => self.chunk = None,
                _ => {}
            }
        }
    }

    /// Notes a packet that arrived.
    fn on_arrival(&mut self, now: Nanos, packet: &[u8]) {
        const SACK: u8 = 3;
        for header in chunks(packet).filter(|header| header[0] == SACK) {
            if let Some((timed, at)) = self.chunk
                && number(header).wrapping_sub(timed) as i32 >= 0
            {
                let took = now - at;
                self.round_trip.note(took);
                self.least = Some(self.least.map_or(took, |least| least.min(took)));
                self.chunk = None;
            }
        }
    }
}

/// Returns the numbers of a packet's DATA chunks, their TSN (RFC 9260, 3.3.1).
fn data_numbers(packet: &[u8]) -> impl Iterator<Item = u32> {
    const DATA: u8 = 0;
    chunks(packet).filter(|header| header[0] == DATA).map(number)
}

/// Returns the first number of a chunk: the TSN of a DATA chunk, the cumulative TSN of a SACK.
fn number(header: [u8; 8]) -> u32 {
    u32::from_be_bytes([header[4], header[5], header[6], header[7]])
}

/// Returns the first eight bytes of each chunk in a packet.
fn chunks(packet: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    let mut rest = packet.get(COMMON_HEADER as usize..).unwrap_or_default();
    std::iter::from_fn(move || {
        let header = *rest.first_chunk::<8>()?;
        let len = usize::from(u16::from_be_bytes([header[2], header[3]])).max(4);
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(header)
    })
}

impl SctpUdpEnd {
    /// Begins the handshake.
    fn connect(&mut self, now: Nanos, client: ClientConfig) {
        match self.endpoint.connect(client, PEER) {
            Ok((handle, association)) => {
                // The library reads the clock here, and nowhere else. Its first timer shows the time that it read, so
                // that equal calls at equal times have equal results.
                let read =
                    association.poll_timeout().and_then(|due| due.checked_sub(FIRST_TIMEOUT));
                self.epoch = Epoch::at(now, read.unwrap_or_else(Instant::now));
                self.association = Some((handle, association));
            }
            Err(error) => self.state = State::Closed(error.to_string()),
        }
        self.attend();
    }

    /// Exchanges events between endpoint and association, handles them, and plans the next deadline.
    fn attend(&mut self) {
        let Some((handle, association)) = &mut self.association else { return };
        while let Some(event) = association.poll_endpoint_event() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                association.handle_event(event);
            }
        }
        while let Some(event) = association.poll() {
            match event {
                Event::Connected => {
                    self.state = State::Open;
                    for (stream, service) in (0..).zip(&self.lanes) {
                        open_stream(association, stream, *service);
                    }
                }
                Event::HandshakeFailed { reason } | Event::AssociationLost { reason } => {
                    self.state = State::Closed(reason.to_string());
                }
                _ => {}
            }
        }
        let streams = 0..self.lanes.len() as u16;
        let mut waiting = |stream| association.stream(stream).and_then(|s| s.buffered_amount());
        self.buffered = streams.filter_map(|stream| waiting(stream).ok()).sum();
        let due = association.poll_timeout();
        self.due = due.and_then(|due| self.epoch.nanos(due));
    }
}

/// Reads a message of `length` bytes into `buffer`, by `read`; returns the bytes read.
///
/// # Errors
/// The error of `read`, or `UnexpectedEof` if it returns fewer bytes: the message is lost.
fn message(
    length: usize,
    buffer: &mut Vec<u8>,
    read: impl FnOnce(&mut [u8]) -> Result<usize, SctpError>,
) -> Result<usize, SctpError> {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    match read(buffer)? {
        read if read == length => Ok(length),
        _ => Err(SctpError::ErrShortBuffer),
    }
}

/// Opens a stream for messages of `service`.
fn open_stream(association: &mut Association, stream: u16, service: Service) {
    // The peer's first message may have opened it already.
    let _ = association.open_stream(stream, PayloadProtocolIdentifier::Binary);
    let Ok(mut stream) = association.stream(stream) else { return };
    let (kind, value) = match service.delivery {
        Delivery::Reliable => (ReliabilityType::Reliable, 0),
        Delivery::Within(life) => (ReliabilityType::Timed, life.0.div_ceil(1_000_000)),
        Delivery::BestEffort => (ReliabilityType::Rexmit, 0),
    };
    let is_unordered = service.ordering == Ordering::Unordered;
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    // It fails only for a stream that does not exist.
    let _ = stream.set_reliability_params(is_unordered, kind, value);
}

impl Protocol for SctpUdpEnd {
    fn state(&self) -> State {
        self.state.clone()
    }

    fn handle(&mut self, Received { at: now, bytes: datagram, .. }: Received<'_>) {
        self.probe.on_arrival(now, datagram);
        let now = self.epoch.instant(now);
        let data = Bytes::copy_from_slice(datagram);
        match self.endpoint.handle(now, PEER, None, None, data) {
            Some((_, DatagramEvent::AssociationEvent(event))) => {
                if let Some((_, association)) = &mut self.association {
                    association.handle_event(event);
                }
            }
            // A flow has one association.
            Some((handle, DatagramEvent::NewAssociation(association))) => {
                self.association.get_or_insert((handle, association));
            }
            None => {}
        }
        self.attend();
    }

    fn transmit(&mut self, now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        if self.packets.is_empty() {
            let at = now;
            let now = self.epoch.instant(now);
            let own = self.association.as_mut().and_then(|(_, own)| own.poll_transmit(now));
            let transmits = self.endpoint.poll_transmit().into_iter().chain(own);
            for transmit in transmits {
                if let Payload::RawEncode(packets) = transmit.payload {
                    for packet in &packets {
                        let before = self.sent.resent;
                        self.sent.count(data_numbers(packet));
                        let is_again = self.sent.resent > before;
                        self.probe.on_send(at, data_numbers(packet), is_again);
                    }
                    self.packets.extend(packets);
                }
            }
            self.attend();
        }
        let packet = self.packets.pop_front()?;
        batch.extend_from_slice(&packet);
        Some(Transmit::plain(packet.len()))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.due
    }

    fn on_deadline(&mut self, now: Nanos) {
        if let Some(client) = self.client.take() {
            return self.connect(now, client);
        }
        let now = self.epoch.instant(now);
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(now);
        }
        self.attend();
    }

    /// Returns the largest message while less than a window is waiting.
    fn room(&self, _lane: Lane) -> usize {
        let has_room = self.state == State::Open && (self.buffered as u64) < self.window;
        if has_room { LARGEST as usize } else { 0 }
    }

    fn write(&mut self, _now: Nanos, lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        let Some((_, association)) = &mut self.association else { return Err(nowhere(lane)) };
        association
            .stream(lane.0)
            .and_then(|mut stream| stream.write_with_ppi(bytes, PayloadProtocolIdentifier::Binary))
            .map_err(|e| io::Error::new(io::ErrorKind::BrokenPipe, e))?;
        self.buffered += bytes.len();
        Ok(bytes.len())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        let Some((_, association)) = &mut self.association else { return };
        for lane in 0..self.lanes.len() as u16 {
            let Ok(mut stream) = association.stream(lane) else { continue };
            loop {
                let length = match stream.read_sctp() {
                    Ok(None) | Err(SctpError::ErrStreamClosed) => break,
                    Ok(Some(chunks)) => {
                        message(chunks.len(), &mut self.message, |into| chunks.read(into))
                    }
                    Err(error) => Err(error),
                };
                match length {
                    Ok(length) => {
                        take(Lane(lane), &self.message[..length]);
                    }
                    // The library has dropped a message that should arrive.
                    Err(error) => {
                        self.state = State::Closed(format!("a message cannot be read: {error}"));
                        return;
                    }
                }
            }
        }
    }

    /// Does nothing: SCTP cannot end one direction (RFC 9260, 9.2).
    fn finish(&mut self, _now: Nanos, _lane: Lane) {}

    fn has_ended(&self, _lane: Lane) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.buffered == 0 && self.packets.is_empty()
    }

    /// Returns the counters without the congestion window, which the library does not show.
    fn stats(&self) -> ProtocolStats {
        let Segments { packets, resent, .. } = self.sent;
        let view = TcpView {
            min_rtt_ns: self.probe.least.map(|least| least.0),
            ..self.probe.round_trip.view(packets, resent)
        };
        ProtocolStats::of(packets, resent, u64::from(COMMON_HEADER + DATA_HEADER)).seen(view)
    }

    fn effective(&self) -> Effective {
        effective_options([
            ("cc", CC.to_owned()),
            ("window", format!("{} B", self.window)),
            ("min-rto", format!("{} ms", self.min_rto)),
            ("mtu", format!("{} B", self.mtu)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_counted_once_and_again_where_they_go_again() {
        let packet = |numbers: &[u32]| {
            let mut packet = vec![0; COMMON_HEADER as usize];
            // Starts with a SACK (type 3) of 16 bytes.
            packet.extend([3, 0, 0, 16, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
            for number in numbers {
                packet.extend([0, 3, 0, 17]);
                packet.extend(number.to_be_bytes());
                packet.extend([0; 12]);
            }
            packet
        };
        let mut sent = Segments::default();
        for (numbers, counts) in
            [(&[u32::MAX, 0][..], (1, 0)), (&[1], (2, 0)), (&[0], (2, 1)), (&[1, 2], (3, 2))]
        {
            sent.count(data_numbers(&packet(numbers)));
            assert_eq!((sent.packets, sent.resent), counts);
        }
        assert_eq!(data_numbers(&[0; 5]).count() + data_numbers(&[0; 17]).count(), 0);
    }

    #[test]
    fn a_message_that_cannot_be_read_whole_is_an_error() {
        let mut buffer = Vec::new();
        assert_eq!(message(3, &mut buffer, |into| Ok(into.len())), Ok(3));
        assert_eq!(message(3, &mut buffer, |_| Ok(2)), Err(SctpError::ErrShortBuffer));
        let failed = message(3, &mut buffer, |_| Err(SctpError::ErrStreamClosed));
        assert_eq!(failed, Err(SctpError::ErrStreamClosed));
    }

    #[test]
    fn a_round_trip_is_that_of_a_chunk_that_was_sent_once() {
        let sack = |upto: u32| {
            let mut packet = vec![0; COMMON_HEADER as usize];
            packet.extend([3, 0, 0, 16]);
            packet.extend(upto.to_be_bytes());
            packet.extend([0; 8]);
            packet
        };
        let ms = Nanos::from_millis;
        let mut probe = RoundTripProbe::default();
        probe.on_send(ms(0), [u32::MAX, 0].into_iter(), false);
        probe.on_send(ms(5), [1].into_iter(), false);
        probe.on_arrival(ms(40), &sack(u32::MAX - 1));
        assert_eq!(probe.least, None);
        probe.on_arrival(ms(50), &sack(0));
        assert_eq!((probe.least, probe.round_trip.smoothed), (Some(ms(50)), Some(50_000_000)));
        // A retransmitted chunk measures nothing: the answer may be to either.
        probe.on_send(ms(60), [2].into_iter(), false);
        probe.on_send(ms(70), [2].into_iter(), true);
        probe.on_arrival(ms(90), &sack(2));
        assert_eq!(probe.least, Some(ms(50)));
        probe.on_arrival(ms(90), &[0; 15]);
    }
}
