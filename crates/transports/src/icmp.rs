//! ICMP echo (RFC 792, RFC 4443): the far host's kernel answers, so a round trip includes no far process and is the
//! floor for every other transport on the path.
//!
//! The message is the payload. The socket is a ping socket (icmp(7)), for which the kernel sets identifier and
//! checksum, or a raw socket (raw(7)), for which this file sets both.
//!
//! Linux does not limit the rate of echo replies by default: `icmp_ratelimit` and `icmp_msgs_per_sec` hold only for the
//! types in `icmp_ratemask`, which by default leaves bit 0 (echo reply) out, and over IPv6 `icmp/ratemask` is
//! `0-1,3-127`, errors only (Documentation/networking/ip-sysctl.rst). Other systems, firewalls and routers may limit
//! them.

use deadheat_base::spec::Key;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Guarantees, Inbox, Lane, Patience, PeerFacts, Sink, Source};
use deadheat_contract::measurements::ConnStats;
use deadheat_datapath::datapath::stamps::Stamps;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Socket};

use echo::{Access, Echo, Family, HEADER};

use crate::udp::RCVBUF;
use deadheat_base::error::{Error, Result};
use deadheat_base::units::Bytes;
use deadheat_datapath::datapath::datagram::{
    DatagramSocket, is_full, is_network_error, past_network_errors,
};
use deadheat_datapath::datapath::option::{self, Buffer};
use deadheat_datapath::datapath::origin;
use deadheat_datapath::transport::header::HeaderTerms;
use deadheat_datapath::transport::hello::{self, Hello};
use deadheat_datapath::transport::udp_handshake::{self, HelloFailure, send_hello};
use deadheat_datapath::transport::*;

mod echo;

/// Largest payload: an IPv4 packet of 65,535 bytes less 20 for its header and 8 for ICMP's.
const LARGEST: u64 = 65_535 - 20 - 8;

/// Longest IPv4 header, which a raw socket returns, too.
const LONGEST_IP_HEADER: usize = 60;

/// Echo requests sent before a path counts as blocked, few enough for a rate limit.
const PROBES: u32 = 5;

const KEYS: &[Key] = &[SOCKET.key(), RCVBUF.key()];

const SOCKET: Preset<Option<Access>> = Optional::choice(
    "socket",
    &["auto", "dgram", "raw"],
    &[None, Some(Access::Ping), Some(Access::Raw)],
)
.or("auto")
.doc("the kind of socket: a ping socket (dgram), or a raw one, which needs CAP_NET_RAW");

/// ICMP echo.
pub(super) struct Icmp;

static INFO: Info = Info {
    id: "icmp",
    label: "ICMP echo",
    colour: "#8a8d91",
    summary: "ping: the far kernel answers, the floor for a round trip",
    guarantees: Guarantees { largest_message: Some(LARGEST), ..Guarantees::DATAGRAMS },
    peer: PeerFacts { is_kernel: true, ..PeerFacts::ECHO },
    keys: KEYS,
    ..Info::KERNEL
};

impl Transport for Icmp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        open(Domain::IPV4, None)
            .or_else(|error| open(Domain::IPV6, None).map_err(|_| error))
            .map(|_| ())
    }

    fn check_knob(&self, key: &str, value: &str, _: Place) -> Result<()> {
        if key != SOCKET.name() {
            return Ok(());
        }
        let asked = SOCKET.read(value).flatten();
        open(Domain::IPV4, asked)
            .or_else(|error| open(Domain::IPV6, asked).map_err(|_| error))
            .map(|_| ())
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let mut to = dial.to.ip(INFO.id)?;
        let ip = to.ip().to_canonical();
        if ip.is_ipv4() {
            to = SocketAddr::new(ip, 0);
        }
        to.set_port(0);
        let asked = dial.knobs.get(&SOCKET);
        let (socket, access) = open(Domain::for_address(to), asked)?;
        let failed = |source| Error::setup(format!("open an ICMP socket to {ip}"), source);
        let rcvbuf = dial.knobs.find(&RCVBUF);
        Buffer::Receive.request(&socket, rcvbuf)?;
        let echo = Echo { family: Family::of(ip), access, id: identifier(&dial.hello) };
        echo.keep_out_others(&socket).map_err(failed)?;
        origin::bind(&socket, to)?;
        let header = HeaderTerms::of(dial.knobs);
        header.set(&socket)?;
        socket.connect(&to.into()).map_err(failed)?;
        let conn = IcmpConn::new(socket, echo, dial.hello, rcvbuf, dial.largest_message)
            .map_err(failed)?;
        let mut conn = IcmpConn { header, ..conn };
        conn.prove(ip, dial.timeout)?;
        Ok(Box::new(conn))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        Ok(Box::new(KernelListener(listen.at.ip(INFO.id)?)))
    }
}

/// Listener that does nothing: the far host's kernel answers.
struct KernelListener(SocketAddr);

impl Listener for KernelListener {
    fn endpoint(&self) -> Address {
        Address::Ip(self.0)
    }

    fn accept(&mut self, _timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        Err(Error::unsupported(
            "icmp",
            "the kernel answers echo requests, so there is no flow to accept; only the near end \
             has a connection",
        ))
    }
}

/// Opens the kind of socket that the knob asks for, or the first kind that this host allows.
fn open(domain: Domain, asked: Option<Access>) -> Result<(Socket, Access)> {
    let all = [Access::Ping, Access::Raw];
    let mut refusals = Vec::new();
    for access in all.into_iter().filter(|access| asked.is_none_or(|asked| asked == *access)) {
        match access.open(domain) {
            Ok(socket) => return Ok((socket, access)),
            Err(error) => refusals.push((access, error)),
        }
    }
    Err(refused(&refusals))
}

fn refused(refusals: &[(Access, io::Error)]) -> Error {
    let reasons: Vec<String> = refusals
        .iter()
        .map(|(access, error)| {
            let name = access.name();
            format!("a {name} socket is refused ({error}); {}", access.remedy())
        })
        .collect();
    Error::unsupported("icmp", reasons.join("; "))
}

/// Returns an identifier for a raw socket, which differs between trials and flows.
fn identifier(hello: &Hello) -> u16 {
    let tag = hello.token.tag();
    (tag as u16) ^ ((tag >> 16) as u16) ^ hello.flow
}

struct IcmpConn {
    socket: DatagramSocket,
    echo: Echo,
    seq: u16,
    hello: [u8; hello::LEN],
    request: Box<[u8]>,
    reply: Box<[u8]>,
    rcvbuf: Option<Bytes>,
    header: HeaderTerms,
    network_errors: u64,
}

impl IcmpConn {
    fn new(
        socket: Socket,
        echo: Echo,
        hello: Hello,
        rcvbuf: Option<Bytes>,
        largest_message: usize,
    ) -> io::Result<IcmpConn> {
        let largest = HEADER + largest_message.max(hello::LEN);
        Ok(IcmpConn {
            socket: DatagramSocket::new(socket)?,
            echo,
            seq: 0,
            hello: hello.encode(),
            request: vec![0xA5; largest].into(),
            // One byte more than any reply, so that the length shows a longer stray packet.
            reply: vec![0xA5; LONGEST_IP_HEADER + largest + 1].into(),
            rcvbuf,
            header: HeaderTerms::default(),
            network_errors: 0,
        })
    }

    /// Sends the hello until its echo arrives.
    fn prove(&mut self, ip: IpAddr, timeout: Nanos) -> Result<()> {
        let Self { socket, echo, seq, hello, request, reply, .. } = self;
        let fd = socket.socket().try_clone();
        let fd = fd.map_err(|e| Error::setup(format!("watch the ICMP socket to {ip}"), e))?;
        let socket = std::cell::RefCell::new(socket);
        let proved = send_hello(
            &fd,
            PROBES,
            timeout,
            || send_echo(&mut socket.borrow_mut(), echo, seq, request, hello),
            || {
                let len = socket.borrow_mut().receive(Patience::None, reply)?;
                Ok(echo.payload(&reply[..len]) == Some(&hello[..]))
            },
        );
        match proved {
            Ok(()) => Ok(()),
            Err(HelloFailure::Failed(source)) => Err(Error::setup(format!("ping {ip}"), source)),
            Err(HelloFailure::Silent(silence)) => Err(Error::blocked(format!(
                "{}; control over TCP works, so a firewall drops ICMP, or the far host ignores \
                 echo requests (sysctl net.ipv4.icmp_echo_ignore_all)",
                silence.describe(
                    &format!("ICMP echo requests of {} B", HEADER + hello::LEN),
                    &ip.to_string()
                )
            ))),
        }
    }
}

fn send_echo(
    socket: &mut DatagramSocket,
    echo: &Echo,
    seq: &mut u16,
    request: &mut [u8],
    message: &[u8],
) -> io::Result<()> {
    let Some(request) = request.get_mut(..HEADER + message.len()) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a message of {} B on a connection set up for {} B",
                message.len(),
                request.len() - HEADER
            ),
        ));
    };
    request[HEADER..].copy_from_slice(message);
    echo.address(request, *seq);
    socket.send(request)?;
    *seq = seq.wrapping_add(1);
    Ok(())
}

impl Conn for IcmpConn {
    fn readiness(&self) -> Readiness<'_> {
        Readiness::of(self.socket.as_fd())
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }

    #[inline]
    fn send(&mut self, _lane: Lane, message: &[u8]) -> io::Result<Progress> {
        let Self { socket, echo, seq, request, .. } = self;
        let sent = past_network_errors(&mut self.network_errors, || {
            send_echo(socket, echo, seq, request, message)
        });
        match sent {
            Ok(_) => Ok(Progress::Moved),
            Err(error) if is_full(&error) => Ok(Progress::Idle),
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                let len = message.len();
                Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("a message of {len} B; an echo carries at most {LARGEST} B"),
                ))
            }
            Err(error) => Err(error),
        }
    }

    #[inline]
    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        match self.socket.receive(patience, &mut self.reply) {
            Ok(len) => {
                if let Some(payload) = self.echo.payload(&self.reply[..len])
                    && udp_handshake::late(payload, &self.hello, &self.hello).is_none()
                {
                    inbox.message(Lane::default(), payload);
                }
                Ok(Progress::Moved)
            }
            Err(error) if is_full(&error) => Ok(Progress::Idle),
            Err(error) if is_network_error(&error) => {
                self.network_errors += 1;
                Ok(Progress::Moved)
            }
            Err(error) => Err(error),
        }
    }

    /// Does nothing: there is no backlog.
    fn flush(&mut self) -> io::Result<Progress> {
        Ok(Progress::Moved)
    }

    fn pump(&mut self, _source: &mut dyn Source) -> io::Result<Progress> {
        Err(no_bulk())
    }

    fn drain(&mut self, _patience: Patience, _sink: &mut dyn Sink) -> io::Result<Progress> {
        Err(no_bulk())
    }

    /// Does nothing: echoes have no end of stream.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns true: nothing is acknowledged.
    fn is_drained(&self) -> bool {
        true
    }

    fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    fn on_deadline(&mut self, _now: Nanos) -> io::Result<()> {
        Ok(())
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        self.socket.stamps()
    }

    fn effective(&self) -> Effective {
        let mut shown = effective_options([
            ("socket", self.echo.access.name().to_owned()),
            ("rcvbuf", Buffer::Receive.describe(self.socket.socket(), self.rcvbuf)),
        ]);
        self.header.report(self.socket.as_fd(), &mut shown);
        shown
    }

    fn info(&self) -> ConnInfo {
        ConnInfo::counted(ConnStats {
            send_calls: self.socket.send_calls(),
            receive_calls: self.socket.receive_calls(),
            socket_drops: self.socket.drops(),
            network_errors: self.network_errors,
            headers: Some(udp_handshake::headers(
                self.socket.socket(),
                option::path_mtu(self.socket.socket()).map(|mtu| mtu as u64),
            )),
            ..ConnStats::default()
        })
    }
}

fn no_bulk() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "ICMP echo carries no bulk data: the kernel sends back every byte",
    )
}

#[cfg(test)]
mod tests {
    use deadheat_base::spec::Settings;
    use deadheat_datapath::transport::handover::ConnectionSource;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::testing::{ConnRig, Kept, LONG, knobs};

    fn dial(ip: &str, spec: &str, timeout: Nanos) -> Result<Box<dyn Conn>> {
        let knobs = knobs(spec, KEYS);
        let to = Address::Ip(SocketAddr::new(ip.parse().unwrap(), 5210));
        ConnRig::best_effort(&Icmp, &knobs, LARGEST as usize).dial(&to, timeout)
    }

    /// Runs `test` in a network namespace of its own, with loopback up, if this user may create one.
    fn alone(test: impl FnOnce() + Send + 'static) {
        let ran = std::thread::spawn(|| {
            // SAFETY: unshare takes no pointer; it moves only this thread.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
                println!("not run: no network namespace ({})", io::Error::last_os_error());
                return;
            }
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            // SAFETY: an all-zero ifreq is valid.
            let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
            request.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
            request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
            // SAFETY: SIOCSIFFLAGS reads the ifreq that the pointer names.
            let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request) };
            assert_eq!(done, 0, "{}", io::Error::last_os_error());
            test();
        });
        ran.join().unwrap();
    }

    fn sysctl(path: &str, value: &str) {
        std::fs::write(format!("/proc/sys/net/{path}"), value).unwrap();
    }

    #[test]
    fn messages_come_back_over_both_families_and_kinds_of_socket() {
        alone(|| {
            sysctl("ipv4/ping_group_range", "0 2147483647");
            for ip in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
                for kind in ["dgram", "raw"] {
                    let mut conn = dial(ip, &format!("icmp:socket={kind}"), LONG).unwrap();
                    assert_eq!(conn.effective()["socket"], kind);
                    for len in [0, 1, 23, 24, 25, 1_472, LARGEST as usize] {
                        let message = vec![len as u8; len];
                        let sent = conn.send(Lane::default(), &message).unwrap();
                        assert_eq!(sent, Progress::Moved);
                        let mut kept = Kept::default();
                        let got = conn.receive(Patience::Block, &mut kept).unwrap();
                        assert_eq!(got, Progress::Moved);
                        assert_eq!(kept.0, [message], "{len} B to {ip} by {kind}");
                    }
                    let stats = conn.info().stats;
                    assert_eq!((stats.socket_drops, stats.network_errors), (Some(0), 0));
                    let mut kept = Kept::default();
                    let idle = conn.receive(Patience::None, &mut kept).unwrap();
                    assert_eq!(idle, Progress::Idle);
                }
            }
        });
    }

    #[test]
    fn a_raw_socket_hears_nobody_elses_echo() {
        alone(|| {
            sysctl("ipv4/ping_group_range", "0 2147483647");
            for ip in ["127.0.0.1", "::1"] {
                let mut raw = dial(ip, "icmp:socket=raw", LONG).unwrap();
                let mut other = dial(ip, "icmp:socket=dgram", LONG).unwrap();
                other.send(Lane::default(), b"not for raw").unwrap();
                let mut kept = Kept::default();
                other.receive(Patience::Block, &mut kept).unwrap();
                assert_eq!(kept.0.len(), 1);
                assert_eq!(raw.receive(Patience::None, &mut kept).unwrap(), Progress::Idle);
            }
        });
    }

    #[test]
    fn auto_takes_what_the_host_allows_and_refusals_name_their_remedy() {
        alone(|| {
            // A new namespace allows ping sockets to no group.
            sysctl("ipv4/ping_group_range", "1 0");
            let error = dial("127.0.0.1", "icmp:socket=dgram", LONG).err().unwrap();
            assert!(error.to_string().contains("net.ipv4.ping_group_range"), "{error}");
            assert_eq!(dial("::1", "icmp", LONG).unwrap().effective()["socket"], "raw");
            sysctl("ipv4/ping_group_range", "0 2147483647");
            assert_eq!(dial("::1", "icmp", LONG).unwrap().effective()["socket"], "dgram");
            Icmp.check().unwrap();
        });
        let no = || io::Error::from_raw_os_error(libc::EACCES);
        let error = refused(&[(Access::Ping, no()), (Access::Raw, no())]).to_string();
        assert!(error.starts_with("icmp: a dgram socket is refused (Permission denied"), "{error}");
        assert!(error.contains("ping_group_range") && error.contains("CAP_NET_RAW"), "{error}");
    }

    #[test]
    fn a_host_that_ignores_echoes_is_blocked_with_evidence() {
        alone(|| {
            sysctl("ipv4/icmp_echo_ignore_all", "1");
            let error = dial("127.0.0.1", "icmp", Nanos::from_millis(120)).err().unwrap();
            assert!(matches!(error, Error::Blocked { .. }));
            let error = error.to_string();
            assert!(error.contains("ICMP echo requests of 32 B to 127.0.0.1 over "), "{error}");
            assert!(error.contains("icmp_echo_ignore_all"), "{error}");
        });
    }

    #[test]
    fn a_message_beyond_the_set_up_size_is_refused_and_bulk_is_not_for_echoes() {
        alone(|| {
            let mut conn = dial("127.0.0.1", "icmp", LONG).unwrap();
            let long = vec![0; LARGEST as usize + 1];
            let error = conn.send(Lane::default(), &long).unwrap_err();
            assert!(error.to_string().contains("65508 B on a connection"), "{error}");
            struct Nowhere;
            impl Sink for Nowhere {
                fn take(&mut self, _: &[u8]) {}
                fn pass(&mut self, _: u64) {}
            }
            let error = conn.drain(Patience::None, &mut Nowhere).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        });
    }

    #[test]
    fn the_listener_says_who_answers() {
        let at = Address::Ip("127.0.0.1:5210".parse().unwrap());
        let knobs = Settings::default();
        let rig = ConnRig::best_effort(&Icmp, &knobs, 64);
        let mut listener = rig.listen(&at, ConnectionSource::Own).unwrap();
        assert_eq!(listener.endpoint(), at);
        let error = listener.accept(LONG).err().unwrap();
        assert!(error.to_string().contains("the kernel answers echo requests"), "{error}");
    }
}
