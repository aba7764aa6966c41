//! Echo (RFC 862): a port that sends each byte, or each datagram, back. inetd and xinetd have it built in, and
//! `socat` makes one of any port.
//!
//! A connection opens with the hello that a far end of ours would answer with a welcome: an echo sends the hello itself
//! back, which proves that it is one.

use std::io;
use std::net::SocketAddr;

use socket2::Socket;

use crate::exchange::{Question, say};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::PeerFacts;
use deadheat_contract::workload::TaskInfo;
use deadheat_datapath::transport::far_end::{FarEnd, FarEndInfo, Locator};
use deadheat_datapath::transport::handover::fill;
use deadheat_datapath::transport::hello::{Hello, LEN};
use deadheat_datapath::transport::plain::{PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{Conn, Dial};

/// Echo port.
pub(super) static FAR_END: FarEnd = FarEnd {
    info: FarEndInfo {
        id: "echo",
        label: "an echo port",
        summary: "an echo port (RFC 862), as of inetd, xinetd and socat; sends back what it receives",
        port: 7,
        takes_path: false,
        over: &[PlainProtocol::TCP, PlainProtocol::MPTCP, PlainProtocol::UDP],
        peer: PeerFacts::ECHO,
        counts: None,
        unknown: &[
            "on which of the two ways a message was lost",
            "how long the far end took to answer: its process is part of the round trip",
            "options of the far end, such as Nagle's algorithm, by which its TCP may hold answers back",
            "delays one way",
        ],
        variables: None,
    },
    misfit: None,
    dial,
    remarks: None,
    session: None,
};

fn dial(
    inside: &PlainTransport,
    dial: &Dial<'_>,
    _task: &TaskInfo,
    _locator: &Locator,
) -> Result<Box<dyn Conn>> {
    let (over, hello) = (inside.protocol, dial.hello);
    inside.open(dial, &|socket, to, deadline| {
        if over.keeps_boundaries {
            ask_datagrams(hello, socket, to, deadline)
        } else {
            ask_stream(hello, socket, to, deadline)
        }
    })
}

/// Returns a hello, for tests.
#[cfg(test)]
pub(crate) fn greeting() -> Box<deadheat_datapath::transport::plain::Greeting<'static>> {
    let token = deadheat_datapath::transport::hello::Token::from_bytes([7; 16]);
    let hello = Hello { token, flow: 0 };
    Box::new(move |socket, to, deadline| ask_datagrams(hello, socket, to, deadline))
}

/// Sends a hello on a byte stream, and receives it as it was sent.
fn ask_stream(hello: Hello, socket: &Socket, to: SocketAddr, deadline: Nanos) -> Result<()> {
    let hello = hello.encode();
    say(socket, &hello).map_err(|e| Error::setup(format!("send a hello to {to}"), e))?;
    let mut back = [0; LEN];
    let have = fill(socket, &mut back, deadline).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            Error::peer(to.to_string(), "closed the connection instead of an echo")
        }
        _ => Error::setup(format!("receive an echo from {to}"), e),
    })?;
    match have {
        LEN if back == hello => Ok(()),
        LEN => Err(Error::peer(
            to.to_string(),
            "answered with other bytes than it was sent; it is no echo port",
        )),
        have => Err(Error::blocked(format!(
            "connected to {to} and sent {LEN} bytes; {have} of them came back: no echo port?"
        ))),
    }
}

/// Sends a hello in datagrams, until it comes back as it was sent.
fn ask_datagrams(hello: Hello, socket: &Socket, to: SocketAddr, deadline: Nanos) -> Result<()> {
    let hello = hello.encode();
    let what = format!("UDP hellos of {LEN} B for an echo");
    let question = Question { what: &what, bytes: &hello, most: u32::MAX };
    question.ask(socket, to, deadline, |got| got == hello)
}
