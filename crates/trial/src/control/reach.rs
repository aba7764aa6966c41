//! Connection to a server whose host is given as typed: its addresses, over both IP versions, from the source address and
//! interface that the user gave.

use std::ffi::{CStr, CString};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use deadheat_base::descriptor::ready;
use socket2::{Domain, Protocol, Socket, Type};

use super::DEFAULT_PORT;
use super::eyeballs::{self, DialEvent, DialNet, PendingLookups};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::origin::{Origin, needs_zone, zoned};
use deadheat_datapath::transport::step::StepBudget;
use deadheat_path::Family;
use deadheat_records::connect::ConnectAttempt;

/// Longest time until Ctrl-C is noticed.
const GLANCE: Nanos = Nanos::from_millis(100);

/// Largest segment of a control connection in either direction, in bytes: every path carries it (RFC 9293, 3.7.1), also
/// one on which larger packets vanish without a message. Control has to work there to name the fault.
const SEGMENT: u32 = 536;

/// Forms of a host.
const FORMS: &str = "write NAME, NAME:PORT, ADDRESS or [ADDRESS]:PORT";

/// Limits of the way to a host: the IP version, and the origin of connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Route {
    /// IP version.
    pub family: Family,
    /// Local address and interface.
    pub origin: Origin,
}

impl Route {
    /// Creates a route of one IP version, from anywhere.
    pub fn over(family: Family) -> Route {
        Route { family, origin: Origin::default() }
    }

    fn has(&self, address: &SocketAddr) -> bool {
        self.family.has(address) && self.origin.reaches(address)
    }

    /// Returns the IP versions that it allows: IPv6, and IPv4.
    fn lookups(&self) -> PendingLookups {
        let has = |ip: IpAddr| self.has(&SocketAddr::new(ip, 0));
        PendingLookups { v6: has(Ipv6Addr::LOCALHOST.into()), v4: has(Ipv4Addr::LOCALHOST.into()) }
    }

    /// Returns the error for a host without an address that this route allows.
    fn misses(&self, host: &str) -> Error {
        let (version, remedy) = match (self.family, &self.origin.source) {
            (Family::V4, _) => ("IPv4", "leave out -4"),
            (Family::V6, _) => ("IPv6", "leave out -6"),
            (Family::Any, Some(SocketAddr::V4(_))) => {
                ("IPv4", "give a --source of the other version")
            }
            (Family::Any, Some(SocketAddr::V6(_))) => {
                ("IPv6", "give a --source of the other version")
            }
            (Family::Any, None) => ("IP", "give its address"),
        };
        Error::usage(format!("{host} has no {version} address; {remedy}"))
    }
}

/// Characters that no name of a host has.
const NOT_IN_NAMES: [char; 5] = [':', '%', '/', '@', ' '];

/// Host as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// Address and port.
    Address(SocketAddr),
    /// Name to look up, and port.
    Name(String, u16),
}

impl Target {
    /// Reads `NAME`, `NAME:PORT`, `ADDRESS` or `[ADDRESS]:PORT`; an IPv6 address may have a zone.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the forms, or the missing zone.
    pub(super) fn parse(host: &str) -> Result<Target> {
        Target::parse_with(host, DEFAULT_PORT)
    }

    /// Reads a host like [`Target::parse`], with another port where none is typed.
    ///
    /// # Errors
    /// As of [`Target::parse`].
    fn parse_with(host: &str, usual: u16) -> Result<Target> {
        let wrong = || Error::usage(format!("`{host}` is no host; {FORMS}"));
        let (name, port) = if let Some(rest) = host.strip_prefix('[') {
            let (address, port) = rest.split_once(']').ok_or_else(wrong)?;
            (address, port.strip_prefix(':').or((port.is_empty()).then_some("")).ok_or_else(wrong)?)
        } else if host.matches(':').count() == 1 {
            let (name, port) = host.split_once(':').unwrap_or((host, ""));
            (name, if port.is_empty() { return Err(wrong()) } else { port })
        } else {
            (host, "")
        };
        let port = match port {
            "" => usual,
            port => port.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                Error::usage(format!("`{host}`: `{port}` is no port; ports are 1 to 65535"))
            })?,
        };
        let address = zoned(name)?.map(|mut address| {
            address.set_port(port);
            address
        });
        match address {
            Some(SocketAddr::V6(address)) if needs_zone(&address) => Err(Error::usage(format!(
                "{host}: an address of link scope is one of an interface; write {name}%eth0, say"
            ))),
            Some(address) => Ok(Target::Address(address)),
            None if host.starts_with('[') || name.is_empty() || name.contains(NOT_IN_NAMES) => {
                Err(wrong())
            }
            None => Ok(Target::Name(name.to_owned(), port)),
        }
    }
}

/// Connection to a server, and the attempts that led to it.
#[derive(Debug)]
pub(super) struct ReachedServer {
    /// Connection.
    pub(super) stream: TcpStream,
    /// Address that connected.
    pub(super) address: SocketAddr,
    /// Attempts, in their order.
    pub(super) attempts: Vec<ConnectAttempt>,
}

/// Returns the address of a host with a far end of others, to which nothing is sent yet; `port` counts where none is
/// typed. Of several addresses it is the one that this host prefers (RFC 6724).
///
/// # Errors
/// [`Error::Usage`] if the host cannot be read, or has no address that the route allows; [`Error::Setup`] if it cannot be
/// looked up.
pub fn find(host: &str, port: u16, route: &Route) -> Result<SocketAddr> {
    let address = match Target::parse_with(host, port)? {
        Target::Address(address) => Some(address).filter(|address| route.has(address)),
        Target::Name(name, port) => {
            let failed = |e| Error::setup_advice(format!("look up {name}"), e, FORMS);
            let wanted = name.clone();
            let ask = move || Ok((wanted.as_str(), port).to_socket_addrs()?.collect());
            let found = in_time(ask, StepBudget::default()).map_err(failed)?;
            found.into_iter().find(|address| route.has(address))
        }
    };
    address.ok_or_else(|| route.misses(host))
}

/// Looks up in a thread, for no longer than a step may take: getaddrinfo(3) has no bound of its own.
fn in_time(
    ask: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    step: StepBudget,
) -> io::Result<Vec<SocketAddr>> {
    let (giver, answer) = channel();
    // After that time the receiver is gone.
    let ask = move || drop(giver.send(ask()));
    std::thread::Builder::new().name("lookup".into()).spawn(ask)?;
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, step.late());
    answer.recv_timeout(step.time().into()).map_err(late)?
}

/// Checks the form of a host, and looks nothing up.
///
/// # Errors
/// [`Error::Usage`] naming the forms.
pub fn check(host: &str) -> Result<()> {
    Target::parse(host).map(drop)
}

/// Connects to the first address of a host that answers.
///
/// # Errors
/// The failed attempts with a remedy; [`Error::Interrupted`] on Ctrl-C.
pub(super) fn connect(host: &str, route: &Route, stop: &AtomicBool) -> Result<ReachedServer> {
    reach(host, &Target::parse(host)?, route, stop)
}

/// Connects to this address.
///
/// # Errors
/// As of [`connect`].
pub(super) fn connect_to(
    address: SocketAddr,
    route: &Route,
    stop: &AtomicBool,
) -> Result<ReachedServer> {
    reach(&address.to_string(), &Target::Address(address), route, stop)
}

fn reach(host: &str, target: &Target, route: &Route, stop: &AtomicBool) -> Result<ReachedServer> {
    let mut net = SocketNet::new(&route.origin, stop)?;
    let nothing = PendingLookups { v6: false, v4: false };
    let (known, lookups) = match target {
        Target::Address(address) if !route.has(address) => return Err(route.misses(host)),
        Target::Address(address) => (vec![*address], nothing),
        Target::Name(name, port) => {
            let lookups = route.lookups();
            net.look_up(name, *port, lookups)?;
            (Vec::new(), lookups)
        }
    };
    let (attempts, winner) = eyeballs::dial(&mut net, known, lookups)?;
    match winner.and_then(|number| Some((number, net.attempts.remove(number)?))) {
        Some((number, socket)) => {
            let failed = |e| Error::setup(format!("connect to {host}"), e);
            socket.set_nonblocking(false).map_err(failed)?;
            let address = attempts[number].address;
            Ok(ReachedServer { stream: socket.into(), address, attempts })
        }
        None => Err(net.unreached(host, route, &attempts)),
    }
}

/// Lookups in threads, and sockets that connect without blocking.
struct SocketNet<'a> {
    origin: &'a Origin,
    stop: &'a AtomicBool,
    /// Sockets by the number of the attempt; none once the attempt is over.
    attempts: Vec<Option<Socket>>,
    /// Attempts that failed before they waited, with their errors.
    failed: Vec<(usize, io::Error)>,
    /// Last error of an attempt.
    last: Option<io::ErrorKind>,
    /// Errors of lookups.
    unknown: Vec<io::Error>,
    answers: Receiver<LookupAnswer>,
    giver: Sender<LookupAnswer>,
    /// End that becomes readable with each answer, and the other one for the threads.
    bell: (UnixStream, UnixStream),
}

/// Answer of a lookup of one IP version.
struct LookupAnswer {
    is_v6: bool,
    addresses: io::Result<Vec<SocketAddr>>,
}

impl<'a> SocketNet<'a> {
    fn new(origin: &'a Origin, stop: &'a AtomicBool) -> Result<SocketNet<'a>> {
        let failed = |e| Error::setup("prepare to connect", e);
        let bell = UnixStream::pair().map_err(failed)?;
        bell.0.set_nonblocking(true).map_err(failed)?;
        let (giver, answers) = channel();
        Ok(SocketNet {
            origin,
            stop,
            attempts: Vec::new(),
            failed: Vec::new(),
            last: None,
            unknown: Vec::new(),
            answers,
            giver,
            bell,
        })
    }

    /// Starts a lookup for each IP version; a resolver may answer one of them late (RFC 8305, section 3).
    fn look_up(&self, name: &str, port: u16, lookups: PendingLookups) -> Result<()> {
        let failed = |e| Error::setup(format!("look up {name}"), e);
        for is_v6 in
            [true, false].into_iter().filter(|v6| if *v6 { lookups.v6 } else { lookups.v4 })
        {
            let (name, giver) = (name.to_owned(), self.giver.clone());
            let mut bell = self.bell.1.try_clone().map_err(failed)?;
            let ask = move || {
                let addresses = resolve(&name, port, is_v6);
                // After Ctrl-C the receiver is gone.
                let _ = giver.send(LookupAnswer { is_v6, addresses });
                let _ = bell.write(&[0]);
            };
            std::thread::Builder::new().name("lookup".into()).spawn(ask).map_err(failed)?;
        }
        Ok(())
    }

    fn answered(&mut self) -> Option<DialEvent> {
        let LookupAnswer { is_v6, addresses } = self.answers.try_recv().ok()?;
        let addresses = addresses.unwrap_or_else(|error| {
            self.unknown.push(error);
            Vec::new()
        });
        Some(DialEvent::Resolved { is_v6, addresses })
    }

    /// Returns the event of an attempt that poll(2) has found ready.
    fn ready(&mut self, number: usize) -> Option<DialEvent> {
        let slot = self.attempts.get_mut(number)?;
        let error = slot.as_ref()?.take_error();
        match error {
            Ok(None) => Some(DialEvent::Connected(number)),
            Ok(Some(error)) | Err(error) => {
                *slot = None;
                self.last = Some(error.kind());
                Some(DialEvent::Failed(number, error))
            }
        }
    }

    /// Polls the sockets under way and the bell of lookups; returns the ready attempts.
    fn poll(&self, timeout: Nanos) -> io::Result<Vec<usize>> {
        let under_way = || {
            let all = self.attempts.iter().enumerate();
            all.filter_map(|(number, socket)| Some((number, socket.as_ref()?.as_fd())))
        };
        let bell = (self.bell.0.as_fd(), libc::POLLIN);
        let sockets = under_way().map(|(_, fd)| (fd, libc::POLLOUT));
        let ready = ready([bell].into_iter().chain(sockets), Some(timeout))?;
        let numbers = under_way().map(|(number, _)| number).zip(&ready[1..]);
        Ok(numbers.filter(|(_, is_ready)| **is_ready).map(|(number, _)| number).collect())
    }

    /// Returns the error of a host of which no address connected.
    fn unreached(&mut self, host: &str, route: &Route, attempts: &[ConnectAttempt]) -> Error {
        if attempts.is_empty() {
            return match self.unknown.pop() {
                Some(_) if route.family != Family::Any => route.misses(host),
                Some(error) => Error::setup_advice(format!("look up {host}"), error, FORMS),
                None => route.misses(host),
            };
        }
        let kind = self.last.unwrap_or(io::ErrorKind::TimedOut);
        let advice = match kind {
            io::ErrorKind::ConnectionRefused => {
                "nothing listens there; start `deadheat serve` on that host, or give its port as HOST:PORT; a program of others \
                 that runs there takes its name in front, such as iperf3://HOST (`deadheat list far-ends`)"
            }
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                "no answer at all: a firewall, or the wrong address; TCP port 5210 must be open"
            }
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                "there is no route to it from here"
            }
            _ => "",
        };
        let (what, words) = match attempts {
            [only] => (only.address.to_string(), only.words()),
            all => {
                let each = all.iter().map(|one| format!("{} {}", one.address, one.words()));
                (host.to_owned(), each.collect::<Vec<_>>().join("; "))
            }
        };
        Error::setup_advice(format!("connect to {what}"), io::Error::new(kind, words), advice)
    }
}

impl DialNet for SocketNet<'_> {
    fn now(&self) -> Nanos {
        Monotonic.now()
    }

    fn start(&mut self, number: usize, to: SocketAddr) -> Result<()> {
        let failed = |e| Error::setup(format!("open a socket to {to}"), e);
        let opened = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP));
        self.attempts.resize_with(number + 1, || None);
        let socket = match opened {
            Ok(socket) => socket,
            // A host without this IP version.
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
                self.failed.push((number, error));
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        self.origin.bind(&socket, to)?;
        // The peer is sent this size before its first segment, so it limits both directions.
        socket.set_tcp_mss(SEGMENT).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        match socket.connect(&to.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => {
                self.failed.push((number, error));
                return Ok(());
            }
        }
        self.attempts[number] = Some(socket);
        Ok(())
    }

    fn wait(&mut self, until: Nanos) -> Result<Option<DialEvent>> {
        let failed = |e| Error::setup("wait for a connection", e);
        loop {
            if self.stop.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            if let Some((number, error)) = self.failed.pop() {
                self.last = Some(error.kind());
                return Ok(Some(DialEvent::Failed(number, error)));
            }
            if let Some(event) = self.answered() {
                return Ok(Some(event));
            }
            let left = until - Monotonic.now();
            for number in self.poll(left.min(GLANCE)).map_err(failed)? {
                if let Some(event) = self.ready(number) {
                    return Ok(Some(event));
                }
            }
            let _ = self.bell.0.read(&mut [0; 2]);
            if left == Nanos::ZERO {
                return Ok(self.answered());
            }
        }
    }
}

/// Looks a name up (getaddrinfo(3)), for the addresses of one IP version, the most wanted first (RFC 6724).
fn resolve(name: &str, port: u16, is_v6: bool) -> io::Result<Vec<SocketAddr>> {
    let name = CString::new(name).map_err(io::Error::from)?;
    // SAFETY: an all-zero addrinfo is valid.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut list = std::ptr::null_mut();
    // SAFETY: the name ends with a NUL, and the kernel's resolver writes a list that is freed below.
    let failed = unsafe { libc::getaddrinfo(name.as_ptr(), std::ptr::null(), &hints, &mut list) };
    if failed != 0 {
        let error = if failed == libc::EAI_SYSTEM {
            io::Error::last_os_error()
        } else {
            // SAFETY: gai_strerror returns a static text.
            let text = unsafe { CStr::from_ptr(libc::gai_strerror(failed)) };
            io::Error::other(text.to_string_lossy().into_owned())
        };
        return Err(error);
    }
    let mut addresses = Vec::new();
    let mut next = list;
    // SAFETY: each entry of the list is valid until it is freed, and its address has the length beside it.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        let found = unsafe {
            socket2::SockAddr::try_init(|storage, len| {
                std::ptr::copy_nonoverlapping(
                    entry.ai_addr.cast::<u8>(),
                    storage.cast::<u8>(),
                    entry.ai_addrlen as usize,
                );
                *len = entry.ai_addrlen;
                Ok(())
            })
        };
        if let Some(mut address) = found.ok().and_then(|((), address)| address.as_socket()) {
            address.set_port(port);
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        next = entry.ai_next;
    }
    // SAFETY: the list is getaddrinfo's own, and is not used any more.
    unsafe { libc::freeaddrinfo(list) };
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_in_every_form() {
        let at = |host: &str| match Target::parse(host).unwrap() {
            Target::Address(address) => address.to_string(),
            Target::Name(name, port) => format!("{name} {port}"),
        };
        assert_eq!(at("127.0.0.1"), "127.0.0.1:5210");
        assert_eq!(at("127.0.0.1:99"), "127.0.0.1:99");
        assert_eq!(at("::1"), "[::1]:5210");
        assert_eq!(at("[::1]"), "[::1]:5210");
        assert_eq!(at("[::1]:99"), "[::1]:99");
        assert_eq!(at("far.example"), "far.example 5210");
        assert_eq!(at("far.example:99"), "far.example 99");
        let zoned = at("fe80::1%lo");
        assert!(zoned.starts_with("[fe80::1%") && zoned.ends_with("]:5210"), "{zoned}");
        assert_eq!(at("[fe80::1%lo]:99"), zoned.replace("5210", "99"));
        for (host, said) in [
            ("127.0.0.1:port", "`port` is no port; ports are 1 to 65535"),
            ("[::1]:99999", "`99999` is no port"),
            ("far.example:0", "`0` is no port"),
            ("far.example/path", "NAME:PORT"),
            ("me@far.example", "NAME:PORT"),
            ("far.example:", "NAME:PORT"),
            ("[far.example]:99", "NAME:PORT"),
            ("1::2::3", "NAME:PORT"),
            ("fe80::1", "write fe80::1%eth0"),
            ("fe80::1%nosuch0", "no interface `nosuch0`"),
        ] {
            let error = Target::parse(host).unwrap_err().to_string();
            assert!(error.contains(said), "{host}: {error}");
        }
    }

    #[test]
    fn a_route_names_the_option_that_leaves_no_address() {
        let say = |host, family, source: Option<&str>| {
            let origin = Origin::parse(source, None).unwrap();
            let route = Route { family, origin };
            connect(host, &route, &AtomicBool::new(false)).unwrap_err().to_string()
        };
        assert!(say("127.0.0.1", Family::V6, None).contains("no IPv6 address; leave out -6"));
        let error = say("::1", Family::Any, Some("127.0.0.1"));
        assert!(error.contains("no IPv4 address; give a --source"), "{error}");
    }

    /// The name has both addresses, and only the server of IPv4 is there.
    #[test]
    fn the_address_that_answers_is_used_and_the_source_is_bound() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let host = format!("localhost:{}", server.local_addr().unwrap().port());
        let origin = Origin::parse(Some("127.0.0.9"), None).unwrap();
        let route = Route { family: Family::Any, origin };
        let reached = connect(&host, &route, &AtomicBool::new(false)).unwrap();
        assert_eq!(reached.address, server.local_addr().unwrap());
        assert_eq!(server.accept().unwrap().1.ip().to_string(), "127.0.0.9");
        assert_eq!(
            reached.attempts.last().unwrap().end,
            deadheat_records::connect::AttemptEnd::Connected
        );
    }

    #[test]
    fn a_name_that_nobody_knows_is_named() {
        let route = Route::default();
        let error = connect("no-such-host.invalid", &route, &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("look up no-such-host.invalid"), "{error}");
    }

    #[test]
    fn a_lookup_that_is_not_answered_ends_in_time() {
        let short = StepBudget::of(Nanos::from_millis(50));
        let (held, hold) = channel::<()>();
        let never = move || {
            // Until the test is over.
            let _ = hold.recv();
            Ok(Vec::new())
        };
        let error = in_time(never, short).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(held);
        assert_eq!(in_time(|| Ok(Vec::new()), StepBudget::default()).unwrap(), []);
    }
}
