//! STAMP (RFC 8762, with the session number of RFC 8972), in the open and authenticated: reflectors in routers and probes. A
//! reflector of TWAMP Light (RFC 5357, appendix I) answers the same packets.
//!
//! There is no handshake: the first packets are sent until one comes back. Their numbers do not begin at 0, so that the
//! first reply shows whether the reflector counts: one without state copies the number, and one with state answers with
//! the number of its own reply. Its counts tell losses of the way up from those of the way down.

use std::cell::Cell;
use std::net::SocketAddr;

use socket2::Socket;

use crate::around::{Around, HEADERS};
use crate::codec::Codec;
use crate::exchange::Question;
use crate::reflected::SentMessages;
use deadheat_base::error::Result;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::PeerFacts;
use deadheat_contract::workload::TaskInfo;
use deadheat_datapath::transport::far_end::{FarEnd, FarEndInfo, FarEndVariables, Locator};
use deadheat_datapath::transport::plain::{PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{Conn, Dial};
use packets::StampForm;

pub(crate) mod layout;
mod packets;

/// Reflector of STAMP.
pub(super) static FAR_END: FarEnd = FarEnd {
    info: FarEndInfo {
        id: "stamp",
        label: "a STAMP reflector",
        summary: "a STAMP or TWAMP Light reflector (RFC 8762), as in routers and probes; sends messages back with its times",
        port: 862,
        takes_path: false,
        over: &[PlainProtocol::UDP],
        peer: PeerFacts::ECHO,
        counts: Some(
            "its times of receiving and sending of each message; if it has state, messages received, by which losses are of the way up or down",
        ),
        unknown: &[
            "delays one way, if its clock is not synchronised by its own word",
            "on which of the two ways a message was lost, if it has no state",
            "whether the payload arrived as it was sent: the reflector need not return it",
            "whether the reflector limits the rate of its answers: those are then lost, too",
            "cost and options of the far end",
        ],
        variables: Some(FarEndVariables {
            names: &[KEY_VARIABLE],
            purpose: "The key that a STAMP reflector asks for, with --to stamp://HOST.",
        }),
    },
    misfit: Some(misfit),
    dial,
    remarks: None,
    session: None,
};

/// Environment variable with the key of a reflector in authenticated mode.
pub(crate) const KEY_VARIABLE: &str = "DEADHEAT_STAMP_HMAC";

/// Number of the first packet: more than a reflector may have counted by the first reply.
const FIRST_NUMBER: u32 = 16;

/// First packets sent before a path counts as blocked, few enough for a rate limit.
const PROBES: u32 = 10;

/// Returns the form of packets that the environment asks for.
fn asked_form() -> StampForm {
    let key = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
    StampForm::new(key.as_deref())
}

fn misfit(_over: PlainProtocol, task: &TaskInfo) -> Option<String> {
    let least = asked_form().base_len();
    (task.largest_message < least).then(|| {
        format!("a packet of STAMP has {least} bytes at least; give size={least}, or more")
    })
}

fn dial(
    inside: &PlainTransport,
    dial: &Dial<'_>,
    _task: &TaskInfo,
    _locator: &Locator,
) -> Result<Box<dyn Conn>> {
    // Number 0 stands for no session.
    let session = (dial.hello.token.tag() as u16).max(1);
    let largest = dial.largest_message;
    let dial = Dial { largest_message: largest + HEADERS, ..*dial };
    let probe = Probe::new(session, asked_form());
    let conn = inside.open(&dial, &|socket, to, deadline| probe.greet(socket, to, deadline))?;
    Ok(Around::datagrams(conn, Box::new(probe.packets(largest)), largest))
}

/// First packets of a session.
struct Probe {
    session: u16,
    form: StampForm,
    /// Number of the next packet.
    next: Cell<u32>,
    /// True once a reply has a number of its own.
    counts: Cell<bool>,
}

impl Probe {
    fn new(session: u16, form: StampForm) -> Probe {
        Probe { session, form, next: Cell::new(FIRST_NUMBER), counts: Cell::new(false) }
    }

    /// Returns the packets of the session that it began, for messages of up to `largest` bytes.
    fn packets(self, largest: usize) -> StampPackets {
        let sent = SentMessages::new(largest, self.next.into_inner());
        let counts = self.counts.into_inner();
        StampPackets { session: self.session, form: self.form, counts, sent }
    }
}

impl Probe {
    /// Sends the first packets, until one comes back.
    fn greet(&self, socket: &Socket, to: SocketAddr, deadline: Nanos) -> Result<()> {
        let len = self.form.base_len();
        let what = format!("STAMP packets of {len} B");
        let question = Question { what: &what, bytes: &[], most: PROBES };
        let next = || {
            let number = self.next.replace(self.next.get() + 1);
            let mut packet = vec![0; len];
            self.form.write(number, self.session, len, &mut packet);
            packet
        };
        question.ask_anew(socket, to, deadline, next, |got| {
            let Some(reply) = self.form.read(self.session, got) else { return false };
            self.counts.set(reply.own_number != reply.number);
            true
        })
    }
}

/// Packets of a session.
struct StampPackets {
    session: u16,
    form: StampForm,
    /// True if the reflector has state: the numbers of its replies are counts.
    counts: bool,
    sent: SentMessages,
}

impl Codec for StampPackets {
    fn encode(&mut self, message: &[u8], packet: &mut [u8]) -> usize {
        self.sent.keep(message);
        self.form.write(self.sent.next(), self.session, message.len(), packet)
    }

    fn has_room(&mut self) -> bool {
        true
    }

    fn sent(&mut self) {
        self.sent.sent();
    }

    fn stamp(&mut self, _message: &mut [u8]) {}

    fn decode(&mut self, packet: &[u8], message: &mut [u8]) -> Option<usize> {
        let reply = self.form.read(self.session, packet)?;
        let stamps = reply.stamps(self.counts.then_some(reply.own_number));
        self.sent.answer(reply.number, stamps, message)
    }

    /// Returns `None`: a session has no end on the wire.
    fn farewell(&mut self, _packet: &mut [u8]) -> Option<usize> {
        None
    }
}

/// Returns the first packets of a session, for tests.
#[cfg(test)]
pub(crate) fn greeting() -> Box<deadheat_datapath::transport::plain::Greeting<'static>> {
    let probe = Probe::new(7, StampForm::new(None));
    Box::new(move |socket, to, deadline| probe.greet(socket, to, deadline))
}

/// Readers for fuzz targets.
#[cfg(any(test, feature = "testing"))]
pub(crate) mod reading {
    use super::*;
    use crate::readers::datagrams::{MESSAGE, decode};

    /// Reads replies to packets.
    pub(crate) fn replies(bytes: &[u8]) {
        for (key, counts) in [(None, false), (None, true), (Some("key"), true)] {
            let (form, sent) = (StampForm::new(key), SentMessages::new(MESSAGE, 1));
            decode(&mut StampPackets { session: 9, form, counts, sent }, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::layout::{IS_PTP, IS_SYNCHRONISED};
    use super::packets::tests::reflect;
    use super::*;
    use crate::exchange::tests::greeted;
    use deadheat_contract::workload::header::{FarStamps, Header, Reflected, ReflectorClock};

    #[test]
    fn a_reply_is_the_message_of_its_number_with_what_the_reflector_says() {
        for (key, size) in [(None, 64), (Some("secret"), 120)] {
            let form = StampForm::new(key);
            for (has_state, count) in [(false, None), (true, Some(33))] {
                let probe = Probe::new(9, form.clone());
                probe.counts.set(has_state);
                let mut own = probe.packets(size);
                let (mut message, mut packet) = ([7; 120], [0; 120 + HEADERS]);
                Header { tag: 1, seq: 5 }.write(&mut message);
                let len = own.encode(&message[..size], &mut packet);
                own.sent();
                assert_eq!(len, size);
                let error = IS_SYNCHRONISED | IS_PTP | 1;
                let reply =
                    reflect(&form, &packet[..len], (33, error), [1_000_000_005, 2_000_000_006]);
                let mut into = [0; 200];
                assert_eq!(own.decode(&reply, &mut into), Some(size));
                assert_eq!(Header::read(&into), Some(Header { tag: 1, seq: 5 }));
                let clock = ReflectorClock::Synchronised { error_us: 1 };
                let (received_ns, sent_ns) = (1_000_000_005, 2_000_000_006);
                let reflected = Some(Reflected { count, clock });
                assert_eq!(
                    FarStamps::read(&into),
                    Some(FarStamps { received_ns, sent_ns, reflected })
                );
                let unsaid = reflect(&form, &packet[..len], (33, IS_PTP | 1), [1, 2]);
                own.decode(&unsaid, &mut into);
                let clock = FarStamps::read(&into).unwrap().reflected.unwrap().clock;
                assert_eq!(clock, ReflectorClock::Unsynchronised);
            }
        }
    }

    #[test]
    fn a_reflector_that_is_silent_babbles_or_is_gone_is_named() {
        for key in [None, Some("secret")] {
            let form = StampForm::new(key);
            let reply = |session: u16, form: &StampForm, own_number| {
                let mut packet = vec![0; form.base_len()];
                form.write(FIRST_NUMBER, session, 0, &mut packet);
                reflect(form, &packet, (own_number, IS_PTP | 1), [1, 2])
            };
            let greet = |said: Option<&[Vec<u8>]>| {
                let probe = Probe::new(9, form.clone());
                let greeting = |socket: &Socket, to, deadline| probe.greet(socket, to, deadline);
                greeted(&greeting, said).map(|()| probe.packets(64)).map_err(|e| e.to_string())
            };
            let wrong = [reply(8, &form, 0), reply(9, &StampForm::new(Some("other")), 0)];
            let wrong = &wrong[..if key.is_some() { 2 } else { 1 }];
            let short: Vec<Vec<u8>> =
                (0..40).map(|len| vec![1; len]).chain(wrong.to_vec()).collect();
            let silent = greet(Some(&short)).err().unwrap();
            assert!(silent.contains("no answer came back"), "{silent}");
            for (own_number, counts) in [(0, true), (FIRST_NUMBER, false)] {
                let said: Vec<Vec<u8>> =
                    short.iter().cloned().chain([reply(9, &form, own_number)]).collect();
                let opened = greet(Some(&said)).unwrap();
                assert_eq!(opened.counts, counts);
                assert!(opened.sent.next() > FIRST_NUMBER, "the probe had the first number");
            }
            let gone = greet(None).err().unwrap();
            assert!(gone.contains("network errors"), "{gone}");
        }
    }
}
