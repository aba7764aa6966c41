//! Toy: TCP without any knob but its congestion control, to show what a kernel transport takes.

use std::io;

use socket2::Socket;

use super::stream::{Engines, Flavour};
use super::tcp::{self, Variant};
use super::{Conn, Dial, Effective, Info, Listen, Listener, Transport, frame, options};
use crate::contract::{Guarantees, PeerKind, Reach, Side};
use crate::datapath::stream::Counted;
use crate::error::Result;

/// TCP, plain.
pub(super) struct ToyStream;

static INFO: Info = Info {
    id: "toy-stream",
    label: "toy stream",
    colour: "#556b2f",
    implementation: "linux",
    summary: "TCP as it comes",
    guarantees: Guarantees::BYTE_STREAM,
    peer: PeerKind::Process,
    reach: Reach::Network,
    framing_bytes: frame::PREFIX,
    options: &[options::CC],
    keys: &[tcp::CC],
};

const TOY: Variant = Variant { id: "toy-stream", ..tcp::TCP };

impl Transport for ToyStream {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        tcp::dial(TOY, dial, Plain(tcp::Options::from(dial.knobs)))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let options = tcp::Options::from(listen.knobs);
        tcp::listen(TOY, listen, Plain(options))
    }
}

#[derive(Debug, Clone)]
struct Plain(tcp::Options);

impl Flavour for Plain {
    type Channel = Counted;

    fn engines(&self) -> Engines {
        self.0.engines()
    }

    fn apply(&self, socket: &Socket) -> Result<()> {
        self.0.apply(socket)
    }

    fn open(&self, socket: Socket, side: Side) -> io::Result<Counted> {
        self.0.open(socket, side)
    }

    fn effective(&self, channel: &Counted) -> Effective {
        let mut read = self.0.effective(channel);
        read.retain(|key, _| key == "cc");
        read
    }
}
