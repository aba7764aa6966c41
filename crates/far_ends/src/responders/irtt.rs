//! Server of irtt, for clients from 0.9.0 on: connections that are opened with parameters, each within the limits that the
//! reply says, and requests that come back with times and counts (facts of the protocol from irtt's source, 0.9.2).
//!
//! The reply to an open request has the bytes of a token more than the request. So a host that has not shown that it
//! receives gets it once it has sent as many bytes, which is at the second request: clients send that after a second.
//! A request with the token shows it for ten minutes.

use std::net::{IpAddr, SocketAddr};

use deadheat_base::rng::SplitMix64;

use super::arrivals::{self, Answerer};
use super::table::{Table, TableLimits};
use crate::irtt::KEY_VARIABLE;
use crate::irtt::parameters::{IrttParameters, ServerFill};
use crate::irtt::wire::{CLOSE, IrttSeal, OPEN, REPLY};
use connection::IrttConnection;
use deadheat_base::error::Result;
use deadheat_base::time::{Clock, Monotonic, Nanos, Realtime};
use deadheat_datapath::datapath::answering::{AnswerSocket, Arrived};
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::responder::{
    Answered, OpenResponder, Responder, ResponderHost, ResponderInfo, ResponderKey, ResponderLoad,
};
use parameters::IrttLimits;
use request::IrttStamps;

mod connection;
mod parameters;
mod request;

/// Server of irtt.
pub(super) struct IrttResponder;

static INFO: ResponderInfo = ResponderInfo {
    id: "irtt",
    clients: "irtt clients",
    summary: "Answer irtt clients",
    port: 2112,
    answers: &[Answered {
        over: "UDP",
        what: "each request back with times and counts, every 10 ms at most",
        load: ResponderLoad::Beside,
    }],
    key: Some(ResponderKey {
        option: "irtt-key-file",
        variable: KEY_VARIABLE,
        what: "HMAC-MD5 of each packet",
    }),
};

/// Connections, which end after a minute of silence.
const CONNECTIONS: TableLimits =
    TableLimits { in_all: 512, of_one: 16, silence: Nanos::from_secs(65) };

/// Hosts that have opened connections, and the time for which one has shown that it receives.
const HOSTS: TableLimits =
    TableLimits { in_all: 4_096, of_one: 256, silence: Nanos::from_secs(600) };

impl Responder for IrttResponder {
    fn info(&self) -> &'static ResponderInfo {
        &INFO
    }

    fn open(&self, at: SocketAddr, key: Option<&[u8]>) -> Result<Box<dyn OpenResponder>> {
        arrivals::open(at, INFO.clients, IrttServer::new(key))
    }
}

impl Answerer for IrttServer {
    fn answer(
        &mut self,
        udp: &AnswerSocket,
        host: &dyn ResponderHost,
        arrived: &Arrived,
        packet: &mut [u8],
    ) {
        let now = Monotonic.now();
        let arrival = connection::arrival(arrived.at_ns, now, Realtime.now());
        let request = IrttRequest { arrived, arrival, now };
        let packet = &mut packet[..arrived.len];
        let Some(mut reply) = self.take(packet, &request, host) else { return };
        let bytes = [reply.bytes.len(), arrived.len].map(|len| arrived.packet(len));
        if host.beside(arrived.peer.ip(), bytes).is_err() {
            return;
        }
        let stamps = || IrttStamps::now(arrived.at_ns, Monotonic.now(), Realtime.now());
        self.finish(&mut reply, &stamps);
        // No room at the socket, or no way back: the reply is lost, as datagrams are.
        let _ = udp.answer(&reply.bytes, arrived, reply.field);
    }
}

/// Packet of a client, beside its bytes.
struct IrttRequest<'a> {
    arrived: &'a Arrived,
    /// Time at which it arrived at the host.
    arrival: Nanos,
    now: Nanos,
}

/// Reply that has its times and its code to come.
struct IrttReply {
    bytes: Vec<u8>,
    /// TOS byte or traffic class.
    field: Option<u8>,
    /// Parameters, if times are to be filled in.
    stamped: Option<IrttParameters>,
}

/// Host that opens connections.
#[derive(Debug, Default)]
struct OpeningHost {
    /// Bytes of packets that it has sent, less those that it was sent.
    credit: u64,
    /// True once it has shown that it receives.
    receives: bool,
}

/// Server without socket and clock.
struct IrttServer {
    seal: IrttSeal,
    connections: Table<u64, IrttConnection>,
    hosts: Table<IpAddr, OpeningHost>,
    random: SplitMix64,
}

impl IrttServer {
    fn new(key: Option<&[u8]>) -> IrttServer {
        IrttServer {
            seal: IrttSeal::new(key),
            connections: Table::new(CONNECTIONS),
            hosts: Table::new(HOSTS),
            random: SplitMix64::new(7),
        }
    }

    /// Takes a packet; returns the reply to it, if it gets one.
    fn take(
        &mut self,
        packet: &[u8],
        request: &IrttRequest<'_>,
        host: &dyn ResponderHost,
    ) -> Option<IrttReply> {
        let (flags, rest) = self.seal.read(packet)?;
        if flags & REPLY != 0 {
            return None;
        }
        if flags & OPEN != 0 {
            return self.open(flags, rest, request, host);
        }
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let token = u64::from_le_bytes(*token);
        let now = request.now;
        let connection = self.connections.get(token, now)?;
        if connection.peer != request.arrived.peer {
            return None;
        }
        let own = request.arrived.peer.ip();
        if let Some(known) = self.hosts.get(own, now) {
            known.receives = true;
        }
        if flags & CLOSE != 0 {
            self.connections.remove(token);
            return None;
        }
        let (number, _) = rest.split_first_chunk::<4>()?;
        let verdict = connection.request(u32::from_le_bytes(*number), request.arrival)?;
        let parameters = connection.parameters.clone();
        let len = self.seal.header_len() + 8 + 4 + parameters.fields_len();
        // The client leaves room for the fields; a reply has no byte more than its request.
        if packet.len() < len {
            return None;
        }
        let mut bytes = packet[..packet.len().min(len.max(parameters.len()))].to_vec();
        let close = if verdict.is_last { CLOSE } else { 0 };
        self.seal.begin(REPLY | close, &mut bytes);
        let head = self.seal.header_len() + 8 + 4;
        parameters.write_counts(&verdict, &mut bytes[head..]);
        if parameters.fill == ServerFill::Random {
            bytes[len..].iter_mut().for_each(|byte| *byte = self.random.next_u64() as u8);
        }
        if verdict.is_last {
            self.connections.remove(token);
        }
        let field = parameters.field();
        Some(IrttReply { bytes, field, stamped: Some(parameters) })
    }

    fn open(
        &mut self,
        flags: u8,
        rest: &[u8],
        request: &IrttRequest<'_>,
        host: &dyn ResponderHost,
    ) -> Option<IrttReply> {
        let (arrived, now) = (request.arrived, request.now);
        let limits = IrttLimits { duration: host.limits().duration };
        let asked = IrttParameters::sound(rest)?;
        let is_understood = asked.is_understood();
        let parameters = asked.within(&limits);
        let is_kept = is_understood && flags & CLOSE == 0;
        // A token of 0 is none, and so is one that a guess could find.
        let token = if is_kept { fresh_token()? } else { 0 };
        let mut bytes = vec![0; self.seal.header_len()];
        let close = if is_kept { 0 } else { CLOSE };
        self.seal.begin(OPEN | REPLY | close, &mut bytes);
        bytes.extend(token.to_le_bytes());
        parameters.write(&mut bytes);
        let own = arrived.peer.ip();
        if self.hosts.get(own, now).is_none() {
            self.hosts.add(own, own, now, OpeningHost::default())?;
        }
        let known = self.hosts.get(own, now)?;
        if !known.receives {
            known.credit += arrived.packet(arrived.len);
            // Without enough it gets the reply to its next request, a second later.
            known.credit = known.credit.checked_sub(arrived.packet(bytes.len()))?;
        }
        let field = parameters.field();
        if is_kept {
            let connection = IrttConnection::new(arrived.peer, parameters, &limits);
            if self.connections.add(token, own, now, connection).is_none() {
                host.note(arrived.peer, "no room for its connection");
                return None;
            }
            host.greet(arrived.peer, "a connection");
        }
        Some(IrttReply { bytes, field, stamped: None })
    }

    /// Writes the times and the code into a reply.
    fn finish(&self, reply: &mut IrttReply, stamps: &dyn Fn() -> IrttStamps) {
        if let Some(parameters) = &reply.stamped {
            let head = self.seal.header_len() + 8 + 4;
            parameters.write_times(&stamps(), &mut reply.bytes[head..]);
        }
        self.seal.close(&mut reply.bytes);
    }
}

/// Returns 64 fresh random bits.
fn fresh_token() -> Option<u64> {
    let token = Token::fresh().ok()?;
    let bits = token.bytes().first_chunk().copied()?;
    Some(u64::from_le_bytes(bits).max(1))
}

#[cfg(test)]
mod tests {
    use super::super::testing::TestHost;
    use super::*;

    /// What Debian's irtt 0.9.0 sends for `-d 1s -i 20ms`, without its magic and flags.
    const ASKED: [u8; 19] =
        [1, 2, 2, 0x80, 0xa8, 0xd6, 0xb9, 7, 3, 0x80, 0xb4, 0x89, 0x13, 5, 6, 6, 6, 7, 6];

    struct Near {
        server: IrttServer,
        host: TestHost,
        seal: IrttSeal,
        /// Bytes of packets in both directions.
        bytes: [u64; 2],
        /// Time for which a packet waits for the server, in milliseconds.
        waits_ms: u64,
    }

    impl Near {
        fn new(key: Option<&[u8]>) -> Near {
            let (server, seal) = (IrttServer::new(key), IrttSeal::new(key));
            Near { server, host: TestHost::new(), seal, bytes: [0; 2], waits_ms: 0 }
        }

        fn sends(&mut self, port: u16, ms: u64, flags: u8, rest: &[u8]) -> Option<Vec<u8>> {
            let mut packet = vec![0; self.seal.header_len()];
            self.seal.begin(flags, &mut packet);
            packet.extend(rest);
            self.seal.close(&mut packet);
            self.sends_bytes(port, ms, &packet)
        }

        fn sends_bytes(&mut self, port: u16, ms: u64, packet: &[u8]) -> Option<Vec<u8>> {
            let peer = SocketAddr::from(([10, 0, 0, 1], port));
            let arrived =
                Arrived { len: packet.len(), peer, to: None, ttl: None, field: None, at_ns: None };
            let now = Nanos::from_millis(ms);
            let arrival = now - Nanos::from_millis(self.waits_ms);
            let request = IrttRequest { arrived: &arrived, arrival, now };
            self.bytes[0] += arrived.packet(packet.len());
            let mut reply = self.server.take(packet, &request, &self.host)?;
            let stamps = || IrttStamps { arrived: [11, 12], left: [13, 14] };
            self.server.finish(&mut reply, &stamps);
            self.bytes[1] += arrived.packet(reply.bytes.len());
            Some(reply.bytes)
        }

        /// Opens a connection; returns its token and the parameters.
        fn opens(&mut self, port: u16, ms: u64, asked: &[u8]) -> ([u8; 8], Vec<u8>) {
            let reply = self.sends(port, ms, OPEN, asked);
            let reply = reply.or_else(|| self.sends(port, ms + 1_000, OPEN, asked)).unwrap();
            let (flags, rest) = self.seal.read(&reply).unwrap();
            assert_eq!(flags, OPEN | REPLY);
            (*rest.first_chunk().unwrap(), rest[8..].to_vec())
        }

        fn echoes(&mut self, port: u16, ms: u64, token: [u8; 8], number: u32) -> Option<Vec<u8>> {
            let mut rest = [&token[..], &number.to_le_bytes()].concat();
            rest.resize(8 + 4 + 4 + 8 + 32, 0);
            self.sends(port, ms, 0, &rest)
        }
    }

    #[test]
    fn no_byte_more_than_came_goes_to_a_host_that_has_not_shown_that_it_receives() {
        for key in [None, Some(&b"sesame"[..])] {
            let mut near = Near::new(key);
            assert!(near.sends(4000, 0, OPEN, &ASKED).is_none(), "the reply would be larger");
            for second in 1..10 {
                near.sends(4000, second * 1_000, OPEN, &ASKED);
                assert!(near.bytes[1] <= near.bytes[0], "{:?}", near.bytes);
            }
            assert!(near.bytes[1] > near.bytes[0] / 2);
            let (token, _) = near.opens(4000, 20_000, &ASKED);
            near.echoes(4000, 20_100, token, 0).unwrap();
            assert!(near.sends(4001, 20_200, OPEN, &ASKED).is_some(), "it receives");
            assert!(near.sends(4001, 700_000, OPEN, &ASKED).is_none(), "that was long ago");
        }
    }

    #[test]
    fn a_request_comes_back_with_counts_and_times() {
        for key in [None, Some(&b"sesame"[..])] {
            let mut near = Near::new(key);
            let (token, allowed) = near.opens(4000, 0, &ASKED);
            assert_eq!(allowed, ASKED, "within the limits");
            near.echoes(4000, 2_000, token, 0).unwrap();
            let reply = near.echoes(4000, 2_020, token, 2).unwrap();
            let (flags, rest) = near.seal.read(&reply).unwrap();
            assert_eq!((flags, &rest[..8], &rest[8..12]), (REPLY, &token[..], &[2, 0, 0, 0][..]));
            // Two have arrived: this one, and one two numbers before.
            assert_eq!(rest[12..24], [2, 0, 0, 0, 0b101, 0, 0, 0, 0, 0, 0, 0]);
            let times: Vec<u8> = rest[24..56].iter().step_by(8).copied().collect();
            assert_eq!(times, [11, 12, 13, 14]);
            assert_eq!(near.echoes(4001, 2_040, token, 3), None, "of another port");
            near.sends(4000, 2_050, CLOSE, &token);
            assert_eq!(near.echoes(4000, 2_060, token, 4), None, "closed");
            assert!(near.host.has_said("a connection"));
        }
    }

    #[test]
    fn limits_are_said_and_enforced() {
        let mut near = Near::new(None);
        // An hour, every millisecond, 9,000 bytes, midpoints, DSCP 46, a pattern as fill.
        let mut asked = Vec::new();
        let mut wide = IrttParameters::read(&ASKED).unwrap();
        (wide.duration_ns, wide.interval_ns) = (3_600_000_000_000, 1_000_000);
        (wide.len, wide.dscp, wide.fill) = (9_000, 46 << 2, ServerFill::Other);
        wide.write(&mut asked);
        let (token, allowed) = near.opens(4000, 0, &asked);
        let allowed = IrttParameters::read(&allowed).unwrap();
        assert_eq!(allowed.duration_ns, 60_000_000_000);
        assert_eq!((allowed.interval_ns, allowed.len), (10_000_000, 1_472));
        assert_eq!((allowed.dscp, allowed.fill), (46 << 2, ServerFill::None));
        let answered =
            (0..100).filter(|n| near.echoes(4000, 3_000 + n, token, *n as u32).is_some());
        // Ten milliseconds each, after a burst.
        assert_eq!(answered.count(), 5 + 9);
        let last = near.echoes(4000, 3_000 + 62_001, token, 200).unwrap();
        assert_eq!(near.seal.read(&last).unwrap().0, REPLY | CLOSE, "its time is up");
        assert_eq!(near.echoes(4000, 3_000 + 62_100, token, 201), None);
    }

    /// A host that is busy for 400 ms lets 20 requests wait, and then has them all at once.
    #[test]
    fn requests_that_waited_for_the_server_are_judged_by_their_arrival() {
        let mut near = Near::new(None);
        let (token, _) = near.opens(4000, 0, &ASKED);
        let mut all_answered = |apart_ms: u64| {
            (0..20)
                .rev()
                .filter(|left| {
                    near.waits_ms = left * apart_ms;
                    near.echoes(4000, 9_000, token, 20 - *left as u32).is_some()
                })
                .count()
        };
        assert_eq!(all_answered(20), 20);
        assert!(all_answered(1) < 20);
        let at = |at_ns| connection::arrival(at_ns, Nanos(1_000), Nanos(100));
        assert_eq!([Some(90), Some(200), None].map(at), [Nanos(990), Nanos(1_000), Nanos(1_000)]);
    }

    #[test]
    fn connections_of_a_host_are_bounded_and_a_test_of_the_way_is_none() {
        let mut near = Near::new(None);
        let (token, _) = near.opens(4000, 0, &ASKED);
        near.echoes(4000, 1_500, token, 0).unwrap();
        let opened =
            (0..40).filter(|n| near.sends(4001 + n, 2_000, OPEN, &ASKED).is_some()).count();
        assert_eq!(opened, CONNECTIONS.of_one - 1);
        let reply = near.sends(4000, 2_000, OPEN | CLOSE, &ASKED).unwrap();
        let (flags, rest) = near.seal.read(&reply).unwrap();
        assert_eq!((flags, &rest[..8]), (OPEN | REPLY | CLOSE, &[0; 8][..]));
        let of_another_version = [&[1, 4][..], &ASKED[2..]].concat();
        let reply = near.sends(4000, 2_000, OPEN, &of_another_version).unwrap();
        assert_eq!(near.seal.read(&reply).unwrap().1[8..10], [1, 2], "says its own");
    }

    #[test]
    fn a_wrong_key_and_garbage_get_no_answer() {
        let mut near = Near::new(Some(b"sesame"));
        near.seal = IrttSeal::new(Some(b"other"));
        let mut plain = Near::new(None);
        for ms in [0, 1_000, 2_000] {
            assert_eq!(near.sends(4000, ms, OPEN, &ASKED), None);
        }
        let mut random = SplitMix64::new(3);
        for len in 0..600 {
            let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            for (at, byte) in [0x14, 0xa7, 0x5b, random.next_u64() as u8 & 15].iter().enumerate() {
                if let Some(place) = bytes.get_mut(at) {
                    *place = *byte;
                }
            }
            for near in [&mut near, &mut plain] {
                near.sends_bytes(4000, 5_000 + len, &bytes);
                assert!(near.bytes[1] <= near.bytes[0], "{len}");
            }
        }
    }
}
