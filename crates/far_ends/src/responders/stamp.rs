//! Reflector of STAMP (RFC 8762, extended by RFC 8972), which senders of TWAMP Light (RFC 5357, appendix I) can use as well:
//! each packet comes back with the times of its arrival and of the reply, and with a number of its own, so that a sender
//! knows on which way a packet was lost.
//!
//! A reply is never longer than its packet. A packet that returns one of the last times of sending from here is a reply to a
//! reply, and gets none; what else ends loops of two services is in `loops.rs`.

use std::net::SocketAddr;

use deadheat_base::clocks::HostClock;

use super::arrivals::{self, Answerer};
use super::table::{Table, TableLimits};
use crate::stamp::KEY_VARIABLE;
use crate::stamp::layout::{Layout, StampKey, read_bytes};
use deadheat_base::error::Result;
use deadheat_base::time::{Clock, Monotonic, Nanos, Realtime};
use deadheat_datapath::datapath::answering::{AnswerSocket, Arrived};
use deadheat_datapath::transport::responder::{
    Answered, OpenResponder, Responder, ResponderHost, ResponderInfo, ResponderKey, ResponderLoad,
};
use packet::ClockError;
use tlvs::{SessionCounts, TlvFacts};

mod packet;
mod tlvs;

/// Reflector of STAMP.
pub(super) struct StampResponder;

static INFO: ResponderInfo = ResponderInfo {
    id: "stamp",
    clients: "STAMP senders",
    summary: "Answer STAMP senders (RFC 8762)",
    port: 862,
    answers: &[Answered {
        over: "UDP",
        what: "each packet back with the times of its arrival and of the reply",
        load: ResponderLoad::Beside,
    }],
    key: Some(ResponderKey {
        option: "stamp-key-file",
        variable: KEY_VARIABLE,
        what: "authenticated mode, HMAC-SHA-256",
    }),
};

/// Limits of sessions. A sender without a session gets replies with its own numbers, as those of a stateless reflector.
const SESSIONS: TableLimits =
    TableLimits { in_all: 4_096, of_one: 64, silence: Nanos::from_secs(120) };

/// Number of the last times of sending that are recognised when they return.
const LAST_TIMES: usize = 256;

/// Interval of looks at the state of this host's clock.
const CLOCK_LOOK: Nanos = Nanos::from_secs(1);

impl Responder for StampResponder {
    fn info(&self) -> &'static ResponderInfo {
        &INFO
    }

    fn open(&self, at: SocketAddr, key: Option<&[u8]>) -> Result<Box<dyn OpenResponder>> {
        arrivals::open(at, INFO.clients, Reflector::new(key))
    }
}

impl Answerer for Reflector {
    fn answer(
        &mut self,
        udp: &AnswerSocket,
        host: &dyn ResponderHost,
        arrived: &Arrived,
        packet: &mut [u8],
    ) {
        let (now, len) = (Monotonic.now(), arrived.len);
        let bytes = arrived.packet(len);
        let is_own = self.is_packet(&packet[..len]);
        if !is_own || host.beside(arrived.peer.ip(), [bytes; 2]).is_err() {
            return;
        }
        self.look_at_the_clock(now);
        let reply = self.reflect(&mut packet[..len], arrived, now, &|| Realtime.now().0);
        if reply.is_new {
            host.greet(arrived.peer, "a session");
        }
        // No room at the socket, or no way back: the reply is lost, as datagrams are.
        let _ = udp.answer(&packet[..len], arrived, reply.field);
    }
}

/// Reflector without socket and clock.
struct Reflector {
    layout: &'static Layout,
    key: Option<StampKey>,
    sessions: Table<(SocketAddr, u16), SessionCounts>,
    clock: ClockError,
    looked: Option<Nanos>,
    /// Times of the last replies, as they were written, and the place of the next.
    last_times: [u64; LAST_TIMES],
    next: usize,
}

/// Reply, beside its bytes.
#[derive(Debug, PartialEq, Eq)]
struct Reflected {
    /// True if it is the first of its session.
    is_new: bool,
    /// TOS byte or traffic class that the sender asks for.
    field: Option<u8>,
}

impl Reflector {
    fn new(key: Option<&[u8]>) -> Reflector {
        let key = key.and_then(StampKey::new);
        Reflector {
            layout: Layout::of(key.as_ref()),
            key,
            sessions: Table::new(SESSIONS),
            clock: ClockError::Unknown,
            looked: None,
            last_times: [0; LAST_TIMES],
            next: 0,
        }
    }

    fn look_at_the_clock(&mut self, now: Nanos) {
        if self.looked.is_none_or(|looked| now - looked >= CLOCK_LOOK) {
            self.looked = Some(now);
            self.clock =
                HostClock::read().kernel_error_ns.map_or(ClockError::Unknown, ClockError::AtMost);
        }
    }

    /// Returns true for a packet of a sender that gets a reply: of full length, with the right code if there is a key, and no
    /// reply to one of the last replies.
    fn is_packet(&self, packet: &[u8]) -> bool {
        let layout = self.layout;
        packet.len() >= layout.least
            && self.key.as_ref().is_none_or(|key| key.is_right(packet))
            && !self.last_times.contains(&packet::returned_time(layout, packet).max(1))
    }

    /// Makes a packet its reply; `now_ns` reads the time of day.
    fn reflect(
        &mut self,
        packet: &mut [u8],
        arrived: &Arrived,
        now: Nanos,
        now_ns: &dyn Fn() -> u64,
    ) -> Reflected {
        let layout = self.layout;
        // Padding of TWAMP stands where STAMP has zeros: such a packet has neither session number nor extensions.
        let is_stamp = self.key.is_some() || packet::has_zeros(layout, packet);
        let number = if is_stamp { packet::session(layout, packet) } else { 0 };
        let id = (arrived.peer, number);
        let is_known = self.sessions.get(id, now).is_some();
        let counts = if is_known {
            self.sessions.get(id, now)
        } else {
            self.sessions.add(id, arrived.peer.ip(), now, SessionCounts::default())
        };
        let is_new = !is_known && counts.is_some();
        let counts = counts.map(|counts| {
            let before = *counts;
            counts.received = counts.received.wrapping_add(1);
            counts.sent = counts.sent.wrapping_add(1);
            SessionCounts { received: counts.received, sent: before.sent }
        });
        let own = counts.map(|counts| counts.sent);
        let sent = read_bytes(packet, 0);
        let arrived_ns = arrived.at_ns.unwrap_or_else(now_ns);
        packet::turn(layout, packet, own, (arrived.ttl.unwrap_or(0), is_stamp));
        let facts = TlvFacts { field: arrived.field.unwrap_or(0), counts };
        let asked = match (is_stamp, packet.split_at_mut_checked(layout.len)) {
            (true, Some((base, rest))) => {
                tlvs::answer(rest, [sent, read_bytes(base, 0)], &facts, self.key.as_ref())
            }
            _ => None,
        };
        let time = packet::stamp(layout, packet, [arrived_ns, now_ns()], self.clock);
        self.last_times[self.next] = time;
        self.next = (self.next + 1) % LAST_TIMES;
        if let Some(key) = &self.key {
            key.seal(packet);
        }
        Reflected { is_new, field: asked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn arrived(port: u16, len: usize) -> Arrived {
        let peer = SocketAddr::from(([10, 0, 0, 1], port));
        let at_ns = Some(5 * SECOND);
        Arrived { len, peer, to: None, ttl: Some(63), field: Some(0xb9), at_ns }
    }

    /// Returns a packet as RFC 8762 has it (section 4.2.1), with the session number of RFC 8972.
    fn packet(number: u32, session: u16, rest: &[u8]) -> Vec<u8> {
        let mut packet = number.to_be_bytes().to_vec();
        packet.extend([0xe0, 0, 0, 1, 0x80, 0, 0, 0, 0x80, 1]);
        packet.extend(session.to_be_bytes());
        packet.extend([0; 28]);
        packet.extend(rest);
        packet
    }

    fn reflect(
        reflector: &mut Reflector,
        port: u16,
        packet: &[u8],
    ) -> Option<(Vec<u8>, Reflected)> {
        let mut packet = packet.to_vec();
        let arrived = arrived(port, packet.len());
        reflector.is_packet(&packet).then(|| {
            let now_ns = || 7 * SECOND + SECOND / 2;
            let reply = reflector.reflect(&mut packet, &arrived, Nanos(1), &now_ns);
            (packet, reply)
        })
    }

    #[test]
    fn a_reply_has_the_fields_of_rfc_8762_byte_by_byte() {
        let mut reflector = Reflector::new(None);
        reflector.clock = ClockError::AtMost(1_000_000);
        let (reply, how) = reflect(&mut reflector, 4000, &packet(9, 7, &[])).unwrap();
        assert_eq!(how, Reflected { is_new: true, field: None });
        // 1900 to 1970 are 0x83aa7e80 seconds.
        let of = |secs: u64| (0x83aa_7e80 + secs).to_be_bytes()[4..].to_vec();
        let mut wanted = vec![0, 0, 0, 0];
        wanted.extend([of(7), vec![0x80, 0, 0, 0]].concat());
        // Synchronised; at least 2^-32 × 2^15 × 132 s, which is a millisecond.
        wanted.extend([0x80 | 15, 132, 0, 7]);
        wanted.extend([of(5), vec![0; 4]].concat());
        wanted.extend([0, 0, 0, 9, 0xe0, 0, 0, 1, 0x80, 0, 0, 0, 0x80, 1, 0, 0, 63, 0, 0, 0]);
        assert_eq!(reply, wanted);
    }

    #[test]
    fn replies_have_numbers_of_their_session_which_is_the_sender_and_its_number() {
        let mut reflector = Reflector::new(None);
        let mut number = |port, session, sent: u32| {
            let (reply, how) = reflect(&mut reflector, port, &packet(sent, session, &[])).unwrap();
            (u32::from_be_bytes(reply[..4].try_into().unwrap()), how.is_new)
        };
        assert_eq!(number(4000, 1, 0), (0, true));
        // Two were lost on the way here.
        assert_eq!(number(4000, 1, 3), (1, false));
        assert_eq!(number(4000, 2, 4), (0, true));
        assert_eq!(number(4001, 1, 4), (0, true));
        assert_eq!(number(4000, 1, 5), (2, false));
    }

    #[test]
    fn short_packets_of_twamp_are_answered_and_never_with_more_bytes() {
        let mut reflector = Reflector::new(None);
        for len in 0..100 {
            let mut short = packet(3, 0, &[0x55; 60]);
            short[14..].fill(0x55);
            let reply = reflect(&mut reflector, 4000, &short[..len]);
            assert_eq!(reply.is_some(), len >= 41, "{len}");
            if let Some((reply, _)) = reply {
                assert_eq!(reply.len(), len);
                assert_eq!(reply[24..28], [0, 0, 0, 3]);
                assert!(reply[44.min(len)..].iter().all(|byte| *byte == 0x55), "padding returns");
            }
        }
        assert_eq!(reflector.sessions.len(), 1, "random padding makes no sessions");
    }

    #[test]
    fn a_reply_to_a_reply_ends_a_loop_of_two_reflectors() {
        let (mut one, mut other) = (Reflector::new(None), Reflector::new(None));
        let (forged, _) = reflect(&mut one, 862, &packet(0, 7, &[])).unwrap();
        let (back, _) = reflect(&mut other, 862, &forged).unwrap();
        assert_eq!(reflect(&mut one, 862, &back), None);
        assert!(reflect(&mut one, 862, &packet(1, 7, &[])).is_some(), "a sender goes on");
    }

    #[test]
    fn without_room_for_sessions_replies_have_the_numbers_of_the_sender() {
        let mut reflector = Reflector::new(None);
        for session in 0..SESSIONS.of_one as u16 {
            reflect(&mut reflector, 4000, &packet(5, session, &[])).unwrap();
        }
        let (reply, how) = reflect(&mut reflector, 4000, &packet(5, 999, &[])).unwrap();
        assert_eq!((&reply[..4], how.is_new), (&[0, 0, 0, 5][..], false));
    }

    #[test]
    fn an_authenticated_reply_is_sealed_and_a_wrong_code_gets_none() {
        let mut reflector = Reflector::new(Some(b"sesame"));
        let key = StampKey::new(b"sesame").unwrap();
        let mut request = vec![0; 112];
        request[..4].copy_from_slice(&[0, 0, 0, 9]);
        request[16..24].copy_from_slice(&[0xe0, 0, 0, 1, 0x80, 0, 0, 0]);
        request[24..28].copy_from_slice(&[0x80, 1, 0, 7]);
        assert_eq!(reflect(&mut reflector, 4000, &request), None, "no code");
        key.seal(&mut request);
        let (reply, _) = reflect(&mut reflector, 4000, &request).unwrap();
        assert!(key.is_right(&reply) && reply.len() == 112);
        assert_eq!(reply[26..28], [0, 7]);
        assert_eq!(reply[48..52], [0, 0, 0, 9]);
        assert_eq!(reply[64..74], [0xe0, 0, 0, 1, 0x80, 0, 0, 0, 0x80, 1]);
        assert_eq!(reply[80], 63);
        for at in 0..112 {
            let mut changed = request.clone();
            changed[at] ^= 1;
            assert_eq!(reflect(&mut reflector, 4000, &changed), None, "byte {at}");
        }
        assert_eq!(reflect(&mut reflector, 4000, &packet(1, 1, &[0; 68])), None);
    }

    #[test]
    fn garbage_of_any_length_is_answered_by_as_many_bytes_at_most() {
        let mut random = deadheat_base::rng::SplitMix64::new(7);
        for key in [None, Some(&b"sesame"[..])] {
            let mut reflector = Reflector::new(key);
            for len in (0..300).chain([1_472, 65_507]) {
                let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                let reply = reflect(&mut reflector, 4000, &bytes);
                assert!(reply.is_none_or(|(reply, _)| reply.len() == len));
            }
        }
    }
}
