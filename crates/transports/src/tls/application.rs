//! Connection to a program of others: an application protocol on the one byte stream of TLS.

use std::io;
use std::os::fd::BorrowedFd;

use socket2::Socket;

use super::channel::TlsChannel;
use super::{INFO, TlsFlavour};
use crate::stream::Flavour;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Inbox, Lane, Patience, Side, Sink, Source};
use deadheat_datapath::datapath::channel::Channel;
use deadheat_datapath::datapath::stamps::Stamps;
use deadheat_datapath::transport::application::{Application, Streams};
use deadheat_datapath::transport::identity::UNTRUSTED;
use deadheat_datapath::transport::step::StepBudget;
use deadheat_datapath::transport::{
    Address, Conn, ConnInfo, Effective, Progress, Readiness, lane_0_only, unstamped,
};

/// Bytes received at once.
const ROOM: usize = 256 * 1024;

/// Shakes hands on a socket that took `connect_ns` to connect to `to`, and begins the application's protocol.
///
/// # Errors
/// [`Error::Peer`] if the far end fails the handshake, or speaks none of the application's protocols.
pub(super) fn open(
    socket: Socket,
    flavour: TlsFlavour,
    application: Box<dyn Application>,
    (to, connect_ns): (&Address, u64),
) -> Result<Box<dyn Conn>> {
    let channel = flavour.open(socket, Side::Near).map_err(|error| refused(to, error))?;
    let protocol = if channel.is_early() {
        flavour.tickets.noted_protocol()
    } else {
        channel.protocol().map(<[u8]>::to_vec)
    };
    flavour.tickets.note_protocol(protocol.as_deref());
    let mut conn = ApplicationConn {
        channel,
        flavour,
        application,
        connect_ns,
        outgoing: Vec::new(),
        room: vec![0; ROOM].into(),
        is_over: false,
    };
    let mut streams = OneStream { outgoing: &mut conn.outgoing, arrived: &[], is_over: false };
    let begun = conn.application.begin(protocol.as_deref(), &mut streams);
    begun.map_err(|why| Error::peer(format!("{} at {to}", INFO.label), why))?;
    conn.offer().map_err(|e| Error::setup(format!("send to {to}"), e))?;
    Ok(Box::new(conn))
}

/// Returns the error of a handshake that failed.
pub(crate) fn refused(to: &Address, error: io::Error) -> Error {
    let who = format!("{} at {to}", INFO.label);
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            Error::peer(who, "it closed the connection during the handshake")
        }
        io::ErrorKind::InvalidData if error.to_string().contains("certificate") => {
            Error::peer(who, format!("{error}; {UNTRUSTED}"))
        }
        io::ErrorKind::InvalidData if error.to_string().contains("ProtocolVersion") => Error::peer(
            who,
            "it speaks no TLS 1.3, and this end nothing older; its operator can allow it",
        ),
        io::ErrorKind::InvalidData => Error::peer(who, error.to_string()),
        _ => Error::setup(format!("shake hands with {who}"), error),
    }
}

/// Connection with an application protocol on it.
struct ApplicationConn {
    channel: TlsChannel,
    flavour: TlsFlavour,
    application: Box<dyn Application>,
    connect_ns: u64,
    /// Bytes of the application that the channel has not taken.
    outgoing: Vec<u8>,
    room: Box<[u8]>,
    /// True once the peer has ended its direction.
    is_over: bool,
}

/// The byte stream of a connection, as the streams of an application.
struct OneStream<'a> {
    outgoing: &'a mut Vec<u8>,
    /// Bytes that arrived and were not read.
    arrived: &'a [u8],
    is_over: bool,
}

impl Streams for OneStream<'_> {
    fn open(&mut self) -> Option<u64> {
        None
    }

    fn open_one_way(&mut self) -> Option<u64> {
        None
    }

    fn accept_one_way(&mut self) -> Option<u64> {
        None
    }

    fn write(&mut self, _stream: u64, bytes: &[u8]) -> std::result::Result<usize, String> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Does nothing: the stream ends with the connection.
    fn finish(&mut self, _stream: u64) {}

    fn read(
        &mut self,
        _stream: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> std::result::Result<bool, String> {
        let arrived = std::mem::take(&mut self.arrived);
        if !arrived.is_empty() {
            take(arrived);
        }
        Ok(self.is_over)
    }

    fn stop(&mut self, _stream: u64, _code: u32) {}
}

/// Returns the error of a far end that violates the application's protocol.
fn broken(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl ApplicationConn {
    /// Sends the application's bytes, as far as there is room.
    fn offer(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.channel.send(&self.outgoing, Patience::None)? {
                Some(sent) => drop(self.outgoing.drain(..sent)),
                None => return Ok(()),
            }
        }
        if self.channel.has_backlog() { self.channel.flush(Patience::None) } else { Ok(()) }
    }

    fn has_backlog(&self) -> bool {
        !self.outgoing.is_empty() || self.channel.has_backlog()
    }

    /// Makes one receiving call, and passes to `take` what the application makes of it.
    fn take_in(&mut self, patience: Patience, take: &mut dyn FnMut(&[u8])) -> io::Result<Progress> {
        if self.application.state().has_ended {
            return Ok(Progress::Closed);
        }
        let mut progress = Progress::Idle;
        let mut patience = patience;
        while !self.is_over {
            let Some(got) = self.channel.receive(&mut self.room, patience)? else { break };
            self.is_over = got == 0;
            let (arrived, is_over) = (&self.room[..got], self.is_over);
            let mut streams = OneStream { outgoing: &mut self.outgoing, arrived, is_over };
            self.application.read(&mut streams, take).map_err(broken)?;
            StepBudget::default().owe(self.outgoing.len()).map_err(broken)?;
            progress = Progress::Moved;
            if !self.channel.holds_more() {
                break;
            }
            patience = Patience::None;
        }
        if !self.outgoing.is_empty() {
            self.offer()?;
        }
        match progress {
            Progress::Idle if self.is_over => Ok(Progress::Closed),
            progress => Ok(progress),
        }
    }
}

impl Conn for ApplicationConn {
    fn readiness(&self) -> Readiness<'_> {
        let has_backlog = self.has_backlog();
        Readiness { has_backlog, ..Readiness::of(self.channel.inlet()) }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.channel.inlet()]
    }

    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        lane_0_only(lane)?;
        if self.has_backlog() {
            self.offer()?;
        }
        let mut streams = OneStream { outgoing: &mut self.outgoing, arrived: &[], is_over: false };
        let is_taken = self.application.ask(message, &mut streams).map_err(broken)?;
        self.offer()?;
        Ok(if is_taken { Progress::Moved } else { Progress::Idle })
    }

    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        self.take_in(patience, &mut |message| inbox.message(Lane(0), message))
    }

    fn flush(&mut self) -> io::Result<Progress> {
        self.offer()?;
        Ok(if self.has_backlog() { Progress::Idle } else { Progress::Moved })
    }

    fn pump(&mut self, _source: &mut dyn Source) -> io::Result<Progress> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the far end takes requests, and no bulk data",
        ))
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        self.take_in(patience, &mut |bytes| sink.take(bytes))
    }

    /// Ends the connection, after the application's last bytes.
    fn finish(&mut self) -> io::Result<()> {
        self.offer()?;
        self.channel.finish()
    }

    fn is_drained(&self) -> bool {
        !self.has_backlog() && self.flavour.facts().all_acknowledged(&self.channel)
    }

    /// Returns an immediate time if data waits that no descriptor shows, because it arrived with the end of a handshake; else
    /// that of the application.
    fn next_deadline(&self) -> Option<Nanos> {
        if self.channel.holds_more() { Some(Nanos::ZERO) } else { self.application.next_deadline() }
    }

    fn on_deadline(&mut self, now: Nanos) -> io::Result<()> {
        let is_over = self.is_over;
        let mut streams = OneStream { outgoing: &mut self.outgoing, arrived: &[], is_over };
        self.application.on_deadline(now, &mut streams).map_err(broken)?;
        self.offer()
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        let mut all = self.flavour.effective(&self.channel);
        self.flavour.facts().header.report(self.channel.inlet(), &mut all);
        all.extend(self.application.facts().effective);
        all
    }

    fn info(&self) -> ConnInfo {
        self.flavour.info(&self.channel, self.connect_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::thread;

    use super::super::KEYS;
    use super::*;
    use crate::testing::{Kept, knobs, pair};
    use deadheat_datapath::transport::Tickets;
    use deadheat_datapath::transport::application::{ApplicationState, Takes};
    use deadheat_datapath::transport::hello::Token;

    /// Application that answers each byte with eight.
    struct Parrot;

    impl Application for Parrot {
        fn read(
            &mut self,
            streams: &mut dyn Streams,
            _take: &mut dyn FnMut(&[u8]),
        ) -> std::result::Result<(), String> {
            let mut asked = 0;
            streams.read(0, &mut |bytes| asked += bytes.len())?;
            streams.write(0, &vec![7; 8 * asked]).map(drop)
        }

        fn state(&self) -> ApplicationState {
            ApplicationState { has_ended: false, is_settled: true }
        }
        fn takes(&mut self) -> Takes<'_> {
            Takes::Nothing
        }
    }

    /// As a flood of SETTINGS or pings of HTTP/2, whose answers wait here.
    #[test]
    fn a_far_end_that_asks_for_more_than_it_reads_ends_the_connection() {
        let encrypted = || {
            let (token, tickets) = (Token::from_bytes([7; 16]), Tickets::default());
            TlsFlavour::new("tls", &knobs("tls", KEYS), token, &tickets).unwrap()
        };
        let [near, far] = pair();
        let flooding = thread::spawn(move || {
            let mut far = encrypted().open(far.into(), Side::Far).unwrap();
            while far.send(&[1; 16_384], Patience::Block).is_ok() {}
        });
        let to = Address::Ip(SocketAddr::from(([127, 0, 0, 1], 1)));
        let mut conn = open(near.into(), encrypted(), Box::new(Parrot), (&to, 0)).unwrap();
        let mut nothing = Kept::default();
        let error = loop {
            if let Err(error) = conn.receive(Patience::Block, &mut nothing) {
                break error;
            }
        };
        assert!(error.to_string().contains("asks for more than it reads"), "{error}");
        drop(conn);
        flooding.join().unwrap();
    }
}
