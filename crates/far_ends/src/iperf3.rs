//! iperf3's server (facts of the protocol from its source, versions 3.12 to 3.21, and from what Debian's 3.12 sends).
//!
//! ```text
//! near end               stand-in (control)                 server
//!                        cookie ─────────────────────────▶
//!                                        ◀──────── PARAM_EXCHANGE
//!                        parameters (JSON) ──────────────▶
//!                                        ◀──────── CREATE_STREAMS
//! cookie on each stream, or 4 bytes and their answer ─────▶
//!                                        ◀──── TEST_START, TEST_RUNNING
//! data ◀──────────────────────────────────────────────────▶
//!                        TEST_END ───────────────────────▶
//!                                        ◀────── EXCHANGE_RESULTS
//!                        results (JSON) ─────────────────▶
//!                                        ◀─── results (JSON), DISPLAY_RESULTS
//!                        IPERF_DONE ─────────────────────▶
//! ```
//! One control connection, and one test at a time: a further client is turned away with ACCESS_DENIED, and asks again.
//! Both processes here make the cookie of the trial's token.

use std::io;
use std::net::SocketAddr;

use socket2::Socket;

use crate::around::Around;
use crate::blocks::Blocks;
use crate::exchange::{Question, say};
use datagrams::{Datagrams, LEAST_LEN};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{CountSource, Direction, PeerFacts};
use deadheat_contract::workload::TaskInfo;
use deadheat_datapath::transport::far_end::{FarEnd, FarEndInfo, Locator};
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::plain::{PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{Conn, Dial};

mod control;
mod datagrams;
mod login;
mod parameters;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod reading;
mod results;
mod session;
pub(crate) mod states;
mod stream_counts;

#[cfg(test)]
pub(crate) use control::steps;

/// Server of iperf3.
pub(super) static FAR_END: FarEnd = FarEnd {
    info: FarEndInfo {
        id: "iperf3",
        label: "an iperf3 server",
        summary: "an iperf3 server, from 3.1 on; one test at a time, of one protocol",
        port: 5201,
        takes_path: false,
        over: &[PlainProtocol::TCP, PlainProtocol::MPTCP, PlainProtocol::UDP, PlainProtocol::SCTP],
        peer: PeerFacts {
            takes_data: true,
            sends_data: true,
            keeps_schedule: true,
            counts: CountSource::Session,
            ..PeerFacts::OTHERS
        },
        counts: Some("bytes of each stream, and datagrams received and missing"),
        unknown: &[
            "when bytes arrived there: the time of an upload is that of the far kernel's acknowledgements, or of sending",
            "whether a datagram was lost on the path or at the far socket",
            "which datagrams arrived there twice, late or out of order",
            "the pace of its sending, beyond the datagrams and bytes that it counts",
            "cost and options of the far end",
        ],
        variables: Some(login::VARIABLES),
    },
    misfit: Some(misfit),
    dial,
    remarks: None,
    session: Some(session::open),
};

/// Length of a cookie: 36 characters and a NUL.
const COOKIE_LEN: usize = 37;

/// Alphabet of a cookie.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// First datagram of a client's stream, as its bytes are on the wire.
const UDP_CONNECT: [u8; 4] = [0x39, 0x38, 0x37, 0x36];
/// Answers of servers: of today, and before 3.13.
const UDP_REPLIES: [[u8; 4]; 2] = [[0x36, 0x37, 0x38, 0x39], 987_654_321_u32.to_ne_bytes()];

/// Longest wait for the answer to the first datagram, which the protocol sends once. The trial is dialled anew then.
const UDP_REPLY: Nanos = Nanos::from_secs(3);

fn misfit(over: PlainProtocol, task: &TaskInfo) -> Option<String> {
    if task.load.is_some() {
        let why = "iperf3's server runs one test at a time, all of whose streams carry one work, so a load beside it \
                   takes a far end of ours; direction=both and streams= share one test";
        return Some(why.to_owned());
    }
    let least = LEAST_LEN;
    if !over.is_reliable && task.largest_message < least {
        return Some(format!("iperf3's own header takes {least} bytes of each datagram"));
    }
    let is_down = task.flows.contains(&Some(Direction::Down));
    if is_down && !over.is_reliable && !task.is_paced {
        let why = "iperf3's server would flood the line with datagrams, and only its operator could stop it; cbr fits";
        return Some(why.to_owned());
    }
    (is_down && task.planned.is_none())
        .then(|| "iperf3's server sends until it is stopped; give time".to_owned())
}

fn dial(
    inside: &PlainTransport,
    dial: &Dial<'_>,
    task: &TaskInfo,
    _locator: &Locator,
) -> Result<Box<dyn Conn>> {
    let (over, cookie) = (inside.protocol, cookie(&dial.hello.token));
    let conn = inside.open(dial, &|socket, to, deadline| {
        if over.is_reliable {
            send_cookie(&cookie, socket, to)
        } else {
            open_datagrams(socket, to, deadline)
        }
    })?;
    let (tag, largest) = (dial.hello.token.tag(), dial.largest_message);
    let is_down = task.flows.get(usize::from(dial.hello.flow)) == Some(&Some(Direction::Down));
    let blocks = || Blocks::new(tag, largest);
    Ok(if !over.is_reliable {
        Around::datagrams(conn, Box::new(Datagrams::new(tag)), largest)
    } else if is_down && over.keeps_boundaries {
        Around::datagrams(conn, Box::new(blocks()), largest)
    } else if is_down && task.is_paced {
        Around::blocks(conn, blocks())
    } else {
        Around::stream(conn)
    })
}

/// Returns the cookie of a trial: 36 characters, which the token decides, and a NUL.
fn cookie(token: &Token) -> [u8; COOKIE_LEN] {
    let mut cookie = [0; COOKIE_LEN];
    let bits = token.bytes();
    for (at, place) in cookie[..COOKIE_LEN - 1].iter_mut().enumerate() {
        // Five bits each; the token has 128, so the last characters repeat the first.
        let from = at * 5 % 128;
        let (byte, shift) = (from / 8, from % 8);
        let pair = u16::from_be_bytes([bits[byte], bits[(byte + 1) % bits.len()]]);
        *place = ALPHABET[usize::from((pair >> (11 - shift)) & 31)];
    }
    cookie
}

/// Sends the cookie, with which a stream begins and which the server does not answer.
fn send_cookie(cookie: &[u8], socket: &Socket, to: SocketAddr) -> Result<()> {
    say(socket, cookie).map_err(|e| match e.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            Error::peer(to.to_string(), "closed a stream of the test before its cookie")
        }
        _ => Error::setup(format!("send a stream's cookie to {to}"), e),
    })
}

/// Opens a stream of datagrams.
fn open_datagrams(socket: &Socket, to: SocketAddr, deadline: Nanos) -> Result<()> {
    let deadline =
        deadline.min(deadheat_base::time::Clock::now(&deadheat_base::time::Monotonic) + UDP_REPLY);
    let what = "datagram that opens a stream of iperf3 (sent once, by its protocol)";
    let question = Question { what, bytes: &UDP_CONNECT, most: 1 };
    question.ask(socket, to, deadline, |got| UDP_REPLIES.iter().any(|reply| got == reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_of_the_alphabet_and_differs_with_every_bit_of_the_token() {
        let zero = cookie(&Token::from_bytes([0; 16]));
        assert_eq!(zero[..36], [b'a'; 36]);
        assert_eq!(zero[36], 0);
        for bit in 0..128 {
            let mut bytes = [0; 16];
            bytes[bit / 8] = 1 << (bit % 8);
            let one = cookie(&Token::from_bytes(bytes));
            assert_ne!(one, zero, "bit {bit}");
            assert!(one[..36].iter().all(|c| ALPHABET.contains(c)) && one[36] == 0);
        }
    }
}
