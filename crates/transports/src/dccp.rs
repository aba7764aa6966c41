//! DCCP (RFC 4340) of the kernel: datagrams that may be lost and may arrive in any order, in a connection with
//! congestion control. Options follow Documentation/networking/dccp.rst and include/uapi/linux/dccp.h of Linux 6.1;
//! Linux 6.16 removed the protocol.
//!
//! The protocol connects by itself. The packets that carry the token after that may be lost as any datagram, so hello
//! and welcome are repeated as over UDP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use socket2::{Protocol, Socket, Type};

use crate::messages::{self, MessageConn, Messenger, Reception};
use crate::tcp::{self, Variant};
use crate::udp::{RCVBUF, SNDBUF};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Settings;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Congestion, GUARD, Guarantees, Lane, Patience, Reach};
use deadheat_contract::measurements::{ConnStats, Headers};
use deadheat_datapath::datapath::option::{Buffer, get, ip_header_bytes, path_mtu, set_words};
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::equal::OwnDefault;
use deadheat_datapath::transport::header::HeaderTerms;
use deadheat_datapath::transport::hello::{self, Hello};
use deadheat_datapath::transport::own_port::OwnPort;
use deadheat_datapath::transport::udp_handshake::{
    self, HelloFailure, LateDatagram, send_hello, settle,
};
use deadheat_datapath::transport::{
    Conn, Dial, Effective, Info, Listen, Listener, Place, Transport, effective_options, lane_0_only,
};

/// DCCP of the kernel.
pub(super) struct Dccp;

const DCCP: Variant =
    Variant { id: "dccp", kind: Type::DCCP, protocol: Protocol::DCCP, request: "Request" };

/// Largest message in bytes: a packet of 1,500 bytes less 40 for IPv6, 16 for its own header, and 20 that the kernel
/// reserves for options (`dccp_sync_mss` in net/dccp/output.c).
const LARGEST: u64 = 1_500 - 40 - 16 - 20;

/// Bytes of a DCCP-Data packet's header with long sequence numbers (RFC 4340, 5.1).
const HEADER: u64 = 16;

/// Service that both ends name (RFC 4340, 8.1.2): `DHRC`.
const SERVICE: u32 = u32::from_be_bytes(*b"DHRC").to_be();

const LEVEL: libc::c_int = 269;

/// Pause of a sender while the queue has its maximum number of packets: poll(2) does not show when that ends.
const NAP: Nanos = Nanos::from_micros(100);

static INFO: Info = Info {
    id: DCCP.id,
    label: "DCCP",
    colour: "#5f7f3f",
    summary: "datagrams with congestion control: no order, no repair",
    guarantees: Guarantees {
        congestion: Congestion::Controlled,
        largest_message: Some(LARGEST),
        ..Guarantees::DATAGRAMS
    },
    reach: Reach::OwnPort,
    keys: &[CONTROL.key(), TXQLEN.key(), SNDBUF.key(), RCVBUF.key()],
    // Without this, its congestion control is ccid2, too (`net.dccp.default.tx_ccid`).
    deployed: &[OwnDefault {
        knob: TXQLEN.name(),
        value: "5",
        source: "sysctl net.dccp.default.tx_qlen",
    }],
    own_port: Some(own_port),
    ..Info::KERNEL
};

const CONTROL: Preset<u8> = Optional::choice("cc", &["ccid2", "ccid3"], &[2, 3]).or("ccid2").doc(
    "congestion control of both directions (DCCP_SOCKOPT_CCID): ccid2 is like TCP's \
     (RFC 4341), ccid3 is TFRC, an equation (RFC 4342)",
);

const TXQLEN: Preset<u64> = Optional::count("txqlen", (0, 10_000))
    .or("0")
    .doc("packets that may wait to be sent (DCCP_SOCKOPT_QPOLICY_TXQLEN); 0: what the send buffer holds. A host's default \
     is 5 (`net.dccp.default.tx_qlen`)");

impl Transport for Dccp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        tcp::any(DCCP).map(drop).map_err(|e| {
            let why = match e.raw_os_error() {
                Some(libc::ESOCKTNOSUPPORT) => "ESOCKTNOSUPPORT".to_owned(),
                Some(libc::EPROTONOSUPPORT) => "EPROTONOSUPPORT".to_owned(),
                _ => e.to_string(),
            };
            Error::unsupported(
                INFO.id,
                format!(
                    "kernel has no DCCP (socket: {why}), which Linux has had up to 6.15, as a module; udp and \
                     quic-datagram work"
                ),
            )
        })
    }

    fn check_knob(&self, key: &str, value: &str, _: Place) -> Result<()> {
        let (true, Ok(socket)) = (key == CONTROL.name(), tcp::any(DCCP)) else { return Ok(()) };
        let Some(wanted) = CONTROL.read(value) else { return Ok(()) };
        set_words(socket.as_fd(), LEVEL, libc::DCCP_SOCKOPT_SERVICE, &[SERVICE])
            .and_then(|()| control(&socket, wanted))
            .map_err(|e| {
                Error::unsupported(
                    format!("{}:{key}={value}", INFO.id),
                    format!("this kernel's DCCP does not have it ({e}); cc=ccid2 works wherever DCCP does"),
                )
            })
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let options = DccpOptions::new(dial.knobs);
        let deadline = Monotonic.now() + dial.timeout;
        let (socket, connect_ns) = tcp::connect(DCCP, dial, |socket| options.apply(socket))?;
        introduce(&socket, dial, deadline)?;
        options
            .open(socket, dial.hello, (dial.largest_message, connect_ns))
            .map_err(|e| Error::setup(format!("set up a DCCP connection to {}", dial.to), e))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let options = DccpOptions::new(listen.knobs);
        let (at, largest) = (listen.at.clone(), listen.largest_message);
        let welcome = move |socket: Socket, hello: Hello, deadline: Nanos| {
            let failed = |e| Error::setup(format!("set up a DCCP connection on {at}"), e);
            options.buffers(&socket)?;
            match settle(&socket, &hello, deadline) {
                Ok(_) => options.open(socket, hello, (largest, 0)).map(Some).map_err(failed),
                Err(e) if is_gone(&e) => Ok(None),
                Err(e) => Err(failed(e)),
            }
        };
        messages::listen(DCCP, listen, |socket| options.apply(socket), welcome)
    }
}

/// Opens the port of a server for this protocol.
fn own_port(at: SocketAddr) -> Result<Box<dyn OwnPort>> {
    Dccp.check()?;
    messages::own_port(DCCP, at, |socket| {
        set_words(socket.as_fd(), LEVEL, libc::DCCP_SOCKOPT_SERVICE, &[SERVICE])
            .map_err(|e| Error::setup("set DCCP_SOCKOPT_SERVICE on a DCCP socket", e))?;
        // Each trial's near end names one of them; a kernel may have the first only.
        controls(socket, &[2, 3])
            .or_else(|_| controls(socket, &[2]))
            .map_err(|e| Error::setup("set DCCP_SOCKOPT_CCID on a DCCP socket", e))
    })
}

/// Sends the hello on a connected socket until the welcome arrives.
fn introduce(socket: &Socket, dial: &Dial<'_>, deadline: Nanos) -> Result<()> {
    let (question, answer) = (dial.hello.encode(), dial.hello.encode_welcome());
    let send_bytes = |bytes: &[u8]| {
        socket.send_with_flags(bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL).map(|_| ())
    };
    let timeout = deadline - Monotonic.now();
    let poll_answer = || udp_handshake::is_answer(socket, &answer);
    match send_hello(socket, u32::MAX, timeout, || send_bytes(&question), poll_answer) {
        Ok(_) => {
            // The connection is open even if this answer is lost.
            let _ = send_bytes(&answer);
            Ok(())
        }
        Err(HelloFailure::Failed(e)) if is_gone(&e) => Err(Error::peer(
            dial.to.to_string(),
            "ended the connection instead of welcoming it: no trial there has this token (has its far end \
             given up?)",
        )),
        Err(HelloFailure::Failed(e)) => Err(Error::setup(format!("say hello to {}", dial.to), e)),
        Err(HelloFailure::Silent(silence)) => Err(Error::blocked(format!(
            "connected to {}; {}",
            dial.to,
            silence.describe(&format!("DCCP hellos of {} B", hello::LEN), &dial.to.to_string())
        ))),
    }
}

/// Returns true if the peer has ended the connection.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, UnexpectedEof};
    [BrokenPipe, ConnectionReset, NotConnected, UnexpectedEof].contains(&error.kind())
}

/// Sets the congestion control of both directions.
fn control(socket: &Socket, ccid: u8) -> io::Result<()> {
    controls(socket, &[ccid])
}

/// Sets the congestion controls of both directions of which the peer may choose, the preferred one first.
fn controls(socket: &Socket, ccids: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and length describe the bytes of `ccids`.
    let done = unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(socket),
            LEVEL,
            libc::DCCP_SOCKOPT_CCID,
            ccids.as_ptr().cast(),
            ccids.len() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Knobs as the socket takes them.
#[derive(Debug, Clone, Copy)]
struct DccpOptions {
    ccid: u8,
    txqlen: u32,
    sndbuf: Option<Bytes>,
    rcvbuf: Option<Bytes>,
    header: HeaderTerms,
}

impl DccpOptions {
    fn new(knobs: &Settings) -> DccpOptions {
        DccpOptions {
            ccid: knobs.get(&CONTROL),
            txqlen: knobs.get(&TXQLEN) as u32,
            sndbuf: knobs.find(&SNDBUF),
            rcvbuf: knobs.find(&RCVBUF),
            header: HeaderTerms::of(knobs),
        }
    }

    /// Sets the options that are needed before connecting or listening.
    fn apply(&self, socket: &Socket) -> Result<()> {
        set_words(socket.as_fd(), LEVEL, libc::DCCP_SOCKOPT_SERVICE, &[SERVICE])
            .map_err(|e| Error::setup("set DCCP_SOCKOPT_SERVICE on a DCCP socket", e))?;
        control(socket, self.ccid)
            .map_err(|e| Error::setup("set DCCP_SOCKOPT_CCID on a DCCP socket", e))?;
        self.buffers(socket)
    }

    /// Sets the buffers of a connection.
    fn buffers(&self, socket: &Socket) -> Result<()> {
        self.header.set(socket)?;
        Buffer::Send.request(socket, self.sndbuf)?;
        Buffer::Receive.request(socket, self.rcvbuf)?;
        set_words(socket.as_fd(), LEVEL, libc::DCCP_SOCKOPT_QPOLICY_TXQLEN, &[self.txqlen])
            .map_err(|e| Error::setup("set DCCP_SOCKOPT_QPOLICY_TXQLEN on a DCCP socket", e))
    }

    fn open(
        &self,
        socket: Socket,
        hello: Hello,
        (largest, connect_ns): (usize, u64),
    ) -> io::Result<Box<dyn Conn>> {
        let flow = Flow {
            socket: CountedSocket::new(socket)?,
            hello: hello.encode(),
            welcome: hello.encode_welcome(),
            options: *self,
        };
        Ok(Box::new(MessageConn::new(flow, largest, connect_ns)))
    }
}

/// End of a connection.
struct Flow {
    socket: CountedSocket,
    hello: [u8; hello::LEN],
    welcome: [u8; hello::LEN],
    options: DccpOptions,
}

impl Flow {
    fn read(&self, name: libc::c_int) -> Option<u32> {
        let mut word = [0];
        get(self.socket.as_fd(), LEVEL, name, &mut word).map(|_| word[0])
    }

    /// Returns the error of a send, with the sizes if the message was too large.
    #[cold]
    fn explain(&self, error: io::Error, len: usize) -> io::Error {
        if error.raw_os_error() != Some(libc::EMSGSIZE) {
            return error;
        }
        let most = self.read(libc::DCCP_SOCKOPT_GET_CUR_MPS).unwrap_or(0);
        let what = format!("a message of {len} B, and this path takes {most} B at most ({error})");
        io::Error::new(io::ErrorKind::InvalidInput, what)
    }
}

impl Messenger for Flow {
    fn socket(&self) -> &CountedSocket {
        &self.socket
    }

    fn largest(&self) -> (usize, &'static str) {
        (LARGEST as usize, "one packet of 1500 B; DCCP cuts none into fragments")
    }

    #[inline]
    fn send(&mut self, lane: Lane, message: &[u8], patience: Patience) -> io::Result<bool> {
        lane_0_only(lane)?;
        let mut deadline = None;
        loop {
            match self.socket.send(message, patience) {
                Ok(Some(_)) => return Ok(true),
                Ok(None) if patience == Patience::None => return Ok(false),
                Ok(None) => {
                    // The kernel has waited already if the buffer is full, but not if the queue is.
                    let now = Monotonic.now();
                    if now >= *deadline.get_or_insert(now + GUARD) || self.options.txqlen == 0 {
                        return Ok(false);
                    }
                    std::thread::sleep(NAP.into());
                }
                Err(e) => return Err(self.explain(e, message.len())),
            }
        }
    }

    #[inline]
    fn receive(&mut self, room: &mut [u8], patience: Patience) -> io::Result<Reception> {
        let Some(len) = self.socket.receive(room, patience)? else { return Ok(Reception::Nothing) };
        if len == 0 {
            return Ok(Reception::End);
        }
        match udp_handshake::late(&room[..len], &self.hello, &self.welcome) {
            None => return Ok(Reception::Message(Lane(0), len)),
            // The peer repeats its hello if this welcome is lost.
            Some(LateDatagram::Hello) => drop(self.socket.send(&self.welcome, Patience::None)),
            Some(LateDatagram::Welcome) => {}
        }
        Ok(Reception::Other)
    }

    /// Returns true: DCCP does not retransmit.
    fn is_acknowledged(&self) -> bool {
        true
    }

    fn effective(&self) -> Effective {
        let socket = self.socket.socket();
        let number = |name| self.read(name).map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        let mut shown = effective_options([
            ("cc", format!("ccid{}", number(libc::DCCP_SOCKOPT_TX_CCID))),
            (TXQLEN.name(), number(libc::DCCP_SOCKOPT_QPOLICY_TXQLEN)),
            ("sndbuf", Buffer::Send.describe(socket, self.options.sndbuf)),
            ("rcvbuf", Buffer::Receive.describe(socket, self.options.rcvbuf)),
        ]);
        if let Some(mtu) = path_mtu(socket) {
            shown.insert("path_mtu".to_owned(), mtu.to_string());
        }
        self.options.header.report(self.socket.as_fd(), &mut shown);
        shown
    }

    fn stats(&self) -> ConnStats {
        let socket = self.socket.socket();
        ConnStats {
            headers: Some(Headers {
                ip_bytes: ip_header_bytes(socket),
                transport_bytes: HEADER,
                framing_bytes: 0,
                mtu: path_mtu(socket).map(|mtu| mtu as u64),
                packets: None,
            }),
            ..ConnStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_it_is_told_apart() {
        let Err(error) = Dccp.check() else { return };
        let said = error.to_string();
        assert!(said.starts_with("dccp: kernel has no DCCP (socket: "), "{said}");
        assert!(said.contains("Linux has had up to 6.15"), "{said}");
    }

    #[test]
    fn a_congestion_control_has_its_number() {
        let read = ["ccid2", "ccid3", "reno"].map(|word| CONTROL.read(word));
        assert_eq!(read, [Some(2), Some(3), None]);
    }

    /// `DHRC` is on the wire in this order for any byte order of the host.
    #[test]
    fn the_service_is_in_network_order() {
        assert_eq!(&SERVICE.to_ne_bytes(), b"DHRC");
    }
}
