//! Data channels of WebRTC (RFC 8831) by str0m: SCTP (RFC 9260) inside DTLS 1.2 (RFC 8261) over the UDP flow that ICE
//! (RFC 8445) agrees on. Each lane is a channel, which may be unordered, and may give up messages after a lifetime or
//! at their first loss (RFC 3758).
//!
//! The near end checks the path and begins each handshake; the far end answers, as a server with ICE lite does. There
//! is no signalling: both ends derive the credentials of ICE from the trial's token and know the channels (RFC 8831,
//! 6.6, negotiated by the application). Each end makes a certificate of its own, as browsers do, and accepts any: it
//! cannot derive the peer's, and the credentials of ICE prove the peer's identity.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use sha2::{Digest, Sha256};
use str0m::change::DirectApi;
use str0m::channel::{ChannelConfig, ChannelId, Reliability};
use str0m::config::Fingerprint;
use str0m::net::{Protocol as Carrier, Receive};
use str0m::{Candidate, Event, IceCreds, Input, Output, Rtc, RtcConfig, RtcError};

use crate::sctp::{CC, LARGEST, PROMISED};
use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Delivery, Guarantees, Lane, Ordering, Service, Side};
use deadheat_datapath::transport::equal::OwnDefault;
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::userspace::{
    Epoch, MTU, Opening, Protocol, ProtocolStats, Received, Rest, State, Transmit, Userspace,
    nowhere,
};
use deadheat_datapath::transport::{Effective, Info, effective_options};

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct DataChannel;

/// Bytes around an SCTP packet: a record's header (RFC 6347, 4.1), the explicit part of the nonce (RFC 5288, 3) and
/// the authentication tag.
const RECORD: u64 = 13 + 8 + 16;

/// The bytes of SCTP's common header (RFC 9260, 3) and of a DATA chunk's (3.3.1).
const SCTP: u64 = 12 + 16;

/// The content type of a record with data (RFC 6347, 4.1).
const APPLICATION_DATA: u8 = 23;

static INFO: Info = Info {
    id: "datachannel",
    label: "WebRTC data channel",
    colour: "#5b8c3e",
    implementation: env!("DEADHEAT_STR0M"),
    summary: "WebRTC's messages, as in browsers: SCTP in DTLS over UDP",
    guarantees: Guarantees { encrypted: true, ..PROMISED },
    keys: &[WINDOW.key(), MTU.key()],
    deployed: &[
        OwnDefault {
            knob: WINDOW.name(),
            value: "128KiB",
            source: "`DEFAULT_MAX_BUFFERED_AMOUNT`: what a sender keeps; a receiver's is 1 MiB",
        },
        // With the headers of IPv4 and UDP.
        OwnDefault {
            knob: MTU.name(),
            value: "1178",
            source: "`DATAGRAM_MTU_TARGET`: datagrams of 1150 bytes",
        },
    ],
    real_time: Some(
        "its certificates, signatures and timers come from random numbers that the library draws by itself, so no \
         trial in virtual time would repeat another; race it without `sim:`",
    ),
    ..Info::IN_USER_SPACE
};

const WINDOW: Preset<Bytes> = Optional::size("window", (LARGEST, 1 << 30))
    .or("1MiB")
    .doc("the receiver's buffer, at least 1 MiB, and the most unacknowledged bytes of a sender");

impl Userspace for DataChannel {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        let (least, most) = (str0m::DATAGRAM_MTU_TARGET_MIN, str0m::DATAGRAM_MTU_TARGET_MAX);
        let payload = (opening.payload(INFO.id, least as u32)? as usize).min(most);
        Ok(Box::new(DataChannelEnd {
            rtc: None,
            side: opening.side,
            token: opening.token,
            services: opening.lanes.to_vec(),
            channels: Vec::new(),
            epoch: Epoch::default(),
            state: State::Handshaking,
            packets: VecDeque::new(),
            arrived: VecDeque::new(),
            buffered: 0,
            unpolled: 0,
            due: (opening.side == Side::Near).then_some(Nanos::ZERO),
            sent: 0,
            window: opening.knobs.get(&WINDOW).0,
            payload,
            mtu: payload as u32 + opening.headers(),
        }))
    }
}

/// End of a connection.
struct DataChannelEnd {
    /// State of str0m, once the connection has begun.
    rtc: Option<Box<Rtc>>,
    side: Side,
    token: Token,
    services: Vec<Service>,
    /// The channels of lanes by their numbers.
    channels: Vec<ChannelId>,
    epoch: Epoch,
    state: State,
    /// Datagrams that wait to leave.
    packets: VecDeque<Vec<u8>>,
    /// Messages that the application has not read.
    arrived: VecDeque<(Lane, Vec<u8>)>,
    /// Bytes that were written and not acknowledged.
    buffered: usize,
    /// Messages written since the last call for datagrams.
    unpolled: usize,
    due: Option<Nanos>,
    /// Datagrams with data sent.
    sent: u64,
    window: u64,
    payload: usize,
    mtu: u32,
}

impl DataChannelEnd {
    /// Returns the library's end; creates it at the first use.
    fn begun(&mut self, now: Nanos) -> std::result::Result<&mut Rtc, String> {
        let now = self.epoch.instant(now);
        if self.rtc.is_none() {
            let window = u32::try_from(self.window).unwrap_or(u32::MAX);
            // The receiver's buffer is as large as the largest message that it accepts, or 1 MiB.
            let mut rtc = RtcConfig::new()
                .clear_codecs()
                .set_ice_lite(self.side == Side::Far)
                .set_local_ice_credentials(credentials(&self.token, self.side))
                .set_fingerprint_verification(false)
                .set_sctp_max_buffered_amount(self.window as usize)
                .set_sctp_max_message_size(window)
                .set_mtu(self.payload..=usize::MAX)
                .build(now);
            self.channels = set_up(&mut rtc, self.side, &self.token, &self.services)
                .map_err(|error| error.to_string())?;
            rtc.handle_input(Input::Timeout(now)).map_err(|error| error.to_string())?;
            self.rtc = Some(Box::new(rtc));
        }
        self.rtc.as_deref_mut().ok_or_else(|| "the library has no end".to_owned())
    }

    /// Passes the time, and a datagram that arrived, to the library.
    fn act(&mut self, now: Nanos, datagram: Option<&[u8]>) {
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        let at = self.epoch.instant(now);
        let (from, to) = (address(self.side.other()), address(self.side));
        let acted = self.begun(now).and_then(|rtc| {
            let received = datagram.map(|bytes| Receive::new(Carrier::Udp, from, to, bytes));
            if let Some(Ok(received)) = received
                && rtc.handle_input(Input::Receive(at, received)).is_ok()
            {
                return Ok(());
            }
            // Needed also after a refused datagram, which does not end the connection.
            rtc.handle_input(Input::Timeout(at)).map_err(|error| error.to_string())
        });
        if let Err(why) = acted {
            self.state = State::Closed(why);
        }
        self.handle_outputs();
    }

    /// Handles the library's outputs until only a timeout is left.
    fn handle_outputs(&mut self) {
        self.unpolled = 0;
        let Some(rtc) = &mut self.rtc else { return };
        self.due = loop {
            match rtc.poll_output() {
                Ok(Output::Transmit(transmit)) => {
                    let packet = Vec::from(transmit.contents);
                    self.sent += u64::from(has_data(&packet));
                    self.packets.push_back(packet);
                }
                Ok(Output::Event(Event::ChannelData(message))) => {
                    let lane = self.channels.iter().position(|channel| *channel == message.id);
                    if let Some(lane) = lane {
                        self.arrived.push_back((Lane(lane as u16), message.data));
                    }
                }
                Ok(Output::Event(Event::Closed | Event::ChannelClose(_))) => {
                    self.state = State::Closed("the peer closed the connection".to_owned());
                }
                Ok(Output::Event(_)) => {}
                Ok(Output::Timeout(due)) => break self.epoch.nanos(due),
                Err(error) => {
                    self.state = State::Closed(error.to_string());
                    break None;
                }
            }
        };
        if self.state == State::Handshaking
            && self.channels.iter().all(|channel| rtc.channel(*channel).is_some())
        {
            self.state = State::Open;
        }
        let channels = self.channels.iter();
        let waiting = channels.map(|id| rtc.channel(*id).map_or(0, |mut it| it.buffered_amount()));
        self.buffered = waiting.sum();
    }
}

/// Sets what signalling would have exchanged; returns the channels of the lanes.
fn set_up(
    rtc: &mut Rtc,
    side: Side,
    token: &Token,
    services: &[Service],
) -> std::result::Result<Vec<ChannelId>, RtcError> {
    rtc.add_local_candidate(Candidate::host(address(side), Carrier::Udp)?);
    rtc.add_remote_candidate(Candidate::host(address(side.other()), Carrier::Udp)?);
    let begins = side == Side::Near;
    let mut api: DirectApi<'_> = rtc.direct_api();
    // A value of the expected form, which nothing compares.
    api.set_remote_fingerprint(Fingerprint { hash_func: "sha-256".to_owned(), bytes: vec![0; 32] });
    api.set_remote_ice_credentials(credentials(token, side.other()));
    api.set_ice_controlling(begins);
    api.start_dtls(begins)?;
    api.start_sctp(begins);
    let channels = (0..).zip(services);
    Ok(channels
        .map(|(stream, service)| api.create_data_channel(channel(stream, *service)))
        .collect())
}

/// Returns the channel for messages of `service`, on the SCTP stream of number `stream`.
fn channel(stream: u16, service: Service) -> ChannelConfig {
    let reliability = match service.delivery {
        Delivery::Reliable => Reliability::Reliable,
        Delivery::Within(life) => {
            let lifetime = u16::try_from(life.0.div_ceil(1_000_000)).unwrap_or(u16::MAX);
            Reliability::MaxPacketLifetime { lifetime }
        }
        Delivery::BestEffort => Reliability::MaxRetransmits { retransmits: 0 },
    };
    let ordered = service.ordering == Ordering::Ordered;
    ChannelConfig { ordered, reliability, negotiated: Some(stream), ..ChannelConfig::default() }
}

/// Returns the address of an end (RFC 5737). The library only compares addresses; the socket below has the real ones.
fn address(side: Side) -> SocketAddr {
    let last = match side {
        Side::Near => 1,
        Side::Far => 2,
    };
    SocketAddr::from(([192, 0, 2, last], 5210))
}

/// Returns the name and password of an end in the checks of ICE (RFC 8445, 5.3).
fn credentials(token: &Token, side: Side) -> IceCreds {
    let seed = Sha256::new()
        .chain_update(b"deadheat data channel")
        .chain_update(token.bytes())
        .chain_update([side as u8])
        .finalize();
    let word = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    IceCreds { ufrag: word(&seed[..8]), pass: word(&seed[8..]) }
}

/// Returns true if a datagram has application data longer than an acknowledgement without gaps, which is as long as the
/// headers of data.
fn has_data(datagram: &[u8]) -> bool {
    datagram.first() == Some(&APPLICATION_DATA) && datagram.len() as u64 > RECORD + SCTP
}

impl Protocol for DataChannelEnd {
    fn state(&self) -> State {
        self.state.clone()
    }

    fn handle(&mut self, datagram: Received<'_>) {
        self.act(datagram.at, Some(datagram.bytes));
    }

    fn transmit(&mut self, now: Nanos, _most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        if self.packets.is_empty() && self.unpolled > 0 {
            self.act(now, None);
        }
        let packet = self.packets.pop_front()?;
        batch.extend_from_slice(&packet);
        Some(Transmit::plain(packet.len()))
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.due
    }

    fn on_deadline(&mut self, now: Nanos) {
        self.act(now, None);
    }

    /// Returns the largest message while the buffer has room for it.
    fn room(&self, _lane: Lane) -> usize {
        let has_room = (self.buffered as u64).saturating_add(LARGEST) <= self.window;
        if self.state == State::Open && has_room { LARGEST as usize } else { 0 }
    }

    fn write(&mut self, _now: Nanos, lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        let Some(rtc) = &mut self.rtc else { return Err(nowhere(lane)) };
        let channel = self.channels.get(usize::from(lane.0)).and_then(|id| rtc.channel(*id));
        let Some(mut channel) = channel else {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the channel is closed"));
        };
        match channel.write(true, bytes) {
            Ok(true) => {
                self.buffered += bytes.len();
                self.unpolled += 1;
                Ok(bytes.len())
            }
            Ok(false) => Err(io::Error::new(io::ErrorKind::WouldBlock, "the buffer is full")),
            Err(error) => Err(io::Error::new(io::ErrorKind::BrokenPipe, error)),
        }
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        for (lane, message) in self.arrived.drain(..) {
            take(lane, &message);
        }
    }

    /// Does nothing: closing a channel would close both directions (RFC 8831, 6.7).
    fn finish(&mut self, _now: Nanos, _lane: Lane) {}

    fn has_ended(&self, _lane: Lane) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.buffered == 0 && self.packets.is_empty()
    }

    /// Returns counters by the sizes of datagrams, since their content is encrypted: retransmissions do not show, and
    /// an acknowledgement that lists gaps counts as data.
    fn stats(&self) -> ProtocolStats {
        ProtocolStats {
            packets: Some(self.sent),
            header_bytes: RECORD + SCTP,
            ..ProtocolStats::default()
        }
    }

    fn effective(&self) -> Effective {
        effective_options([
            ("cc", CC.to_owned()),
            ("window", format!("{} B", self.window)),
            ("mtu", format!("{} B", self.mtu)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_agree_on_credentials_that_no_other_trial_has() {
        let of = |byte, side| credentials(&Token::from_bytes([byte; 16]), side);
        assert_eq!(of(1, Side::Near), of(1, Side::Near));
        assert_ne!(of(1, Side::Near), of(1, Side::Far));
        assert_ne!(of(1, Side::Near), of(2, Side::Near));
        // RFC 8839, 5.4: at least 4 and 22 characters.
        let IceCreds { ufrag, pass } = of(1, Side::Near);
        assert!(ufrag.len() >= 4 && pass.len() >= 22);
    }

    #[test]
    fn channels_have_the_services_of_lanes() {
        let plain = channel(3, Service::ORDERED);
        assert_eq!((plain.ordered, plain.negotiated), (true, Some(3)));
        assert_eq!(plain.reliability, Reliability::Reliable);
        assert!(!channel(0, Service::UNORDERED).ordered);
        let once = channel(0, Service::BEST_EFFORT);
        assert_eq!(once.reliability, Reliability::MaxRetransmits { retransmits: 0 });
        let brief = Service { delivery: Delivery::Within(Nanos(1_500_001)), ..Service::ORDERED };
        assert_eq!(channel(0, brief).reliability, Reliability::MaxPacketLifetime { lifetime: 2 });
        let long = Service { delivery: Delivery::Within(Nanos::from_secs(3_600)), ..brief };
        assert_eq!(
            channel(0, long).reliability,
            Reliability::MaxPacketLifetime { lifetime: u16::MAX }
        );
    }

    #[test]
    fn an_acknowledgement_is_no_data() {
        let record = |len: u64| {
            let mut record = vec![0; (RECORD + len) as usize];
            record[0] = APPLICATION_DATA;
            record
        };
        assert!(!has_data(&record(12 + 16)));
        assert!(has_data(&record(SCTP + 4)));
        // A datagram of the handshake.
        assert!(!has_data(&[22; 500]));
        assert!(!has_data(&[]));
    }
}
