//! Both ends of a connection in one place, messages that show every change, and bulk that counts.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::thread;

use deadheat::Error;
use deadheat::contract::{
    Delivery, Ending, Framing, Inbox, Lane, Ordering, Patience, Reach, Service, Sink, Source,
};
use deadheat::datapath::buffer::{PERIOD, pattern};
use deadheat::spec::Kind;
use deadheat::time::{Clock, Monotonic, Nanos};
use deadheat::transport::handover::ConnectionSource;
use deadheat::transport::hello::{Hello, Token};
use deadheat::transport::{Address, Conn, Contender, Dial, Info, Listen, Listener, Progress};
use deadheat::trial::suited;

/// Token of the trial.
pub const RIGHT: Token = Token::from_bytes([0x11; 16]);
/// Token of a stranger.
pub const WRONG: Token = Token::from_bytes([0x22; 16]);

/// Long enough for a busy machine; nothing that works comes near it.
pub const LONG: Nanos = Nanos::from_secs(60);

/// How long a dial that must fail is given.
pub const SHORT: Nanos = Nanos::from_millis(200);

/// The largest message in these tests.
pub const LARGEST: usize = 60_000;

/// Contenders under test where it is set, separated by semicolons: in a kernel that was booted for them.
pub const ONLY: &str = "DEADHEAT_TEST_ONLY";

/// Contenders under test, as typed.
pub struct Subjects {
    typed: Vec<String>,
    /// True if contenders that are made of others are under test, too.
    has_mixes: bool,
}

impl Subjects {
    /// Returns these contenders, by themselves.
    pub fn of(typed: &[&str]) -> Subjects {
        Subjects { typed: typed.iter().map(|one| (*one).to_owned()).collect(), has_mixes: false }
    }

    /// Returns every transport that was handed in, with mixes of them, or what [`ONLY`] names.
    pub fn all() -> Subjects {
        if let Ok(only) = std::env::var(ONLY) {
            return Subjects::of(&only.split(';').collect::<Vec<_>>());
        }
        let infos = deadheat::transport::ALL.iter().map(|transport| transport.info());
        // Models have no socket to open; tests/program/sim.rs has them.
        let open = infos.filter(|info| info.reach != Reach::Process);
        Subjects { typed: open.map(|info| info.id.to_owned()).collect(), has_mixes: true }
    }

    /// Returns each contender that works here, with each kind of address it reaches.
    pub fn everyone(&self) -> Vec<(Contender, Address)> {
        let mut all = Vec::new();
        for typed in &self.typed {
            let contender = Contender::parse(typed).unwrap();
            match contender.check() {
                Ok(()) => {}
                Err(why @ Error::Unsupported { .. }) => {
                    println!("skipped: {why}");
                    continue;
                }
                Err(other) => panic!("{typed}: {other}"),
            }
            // Nothing comes back from a group: `transport/multicast/tests` has these promises for one direction.
            if contender.transport.info().peer.is_group {
                continue;
            }
            let any: &[Address] = &match contender.transport.info().reach {
                Reach::Network | Reach::OwnPort | Reach::Path => vec![
                    Address::Ip((Ipv4Addr::LOCALHOST, 0).into()),
                    Address::Ip((Ipv6Addr::LOCALHOST, 0).into()),
                ],
                Reach::Machine => vec![Address::Unix(String::new())],
                Reach::Process => vec![Address::Process(0)],
            };
            all.extend(any.iter().map(|at| (contender.clone(), at.clone())));
        }
        all
    }

    /// Returns those of [`Subjects::everyone`] whose far end is one process of ours.
    pub fn ours(&self) -> impl Iterator<Item = (Contender, Address)> + use<> {
        let is_it = |one: &(Contender, Address)| one.0.transport.info().peer.is_process_of_ours();
        self.everyone().into_iter().filter(is_it)
    }

    /// Returns contenders that are made of others, of the kernel's and in user space: what rides on their first lane
    /// finds them like any other.
    pub fn mixes(&self) -> Vec<(Contender, Address)> {
        if !self.has_mixes {
            return Vec::new();
        }
        let task = deadheat::workload::parse("streams:streams=2").unwrap();
        let typed =
            ["mix:0=tcp,1=udp", "mix:0=quic,1=kcp:mode=fast+mtu=1400B", "mix:1=tcp,others=arq"];
        let of = |typed: &str| {
            let contender = suited(Contender::parse(typed).unwrap(), &*task).unwrap();
            (contender, Address::Ip((Ipv4Addr::LOCALHOST, 0).into()))
        };
        typed.map(of).into()
    }
}

/// Returns the size of the largest message to try.
pub fn largest(info: &Info) -> usize {
    info.guarantees.largest_message.map_or(LARGEST, |most| LARGEST.min(most as usize))
}

/// Values to try for a knob. Words mean something on their host only, so their own file tests them.
pub fn values(kind: &Kind) -> Vec<String> {
    match *kind {
        Kind::Switch => vec!["on".into(), "off".into()],
        Kind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        Kind::Word | Kind::Path | Kind::Command | Kind::Narrow(..) | Kind::Own { .. } => Vec::new(),
        Kind::Count(low, high) => vec![16.clamp(low, high).to_string()],
        Kind::Size(low, high) => vec![40_000.clamp(low, high).to_string()],
        Kind::Rate(low, high) => vec![format!("{}bit", 1_000_000_000.clamp(low, high))],
        Kind::Offered(bits, packets) => vec![format!("{bits}bit"), format!("{packets}pps")],
        Kind::Span(low, high) => vec![format!("{}ns", 1_000_000.clamp(low, high))],
        Kind::Share => vec!["5%".into()],
    }
}

/// Listens as a trial does, for one lane.
pub fn listen(
    contender: &Contender,
    at: &Address,
    door: ConnectionSource,
) -> deadheat::Result<Box<dyn Listener>> {
    let info = contender.transport.info();
    contender.transport.listen(Listen {
        at,
        token: RIGHT,
        knobs: &contender.knobs,
        lanes: info.guarantees.one_lane(),
        largest_message: largest(info),
        door,
        tickets: deadheat::transport::Tickets::default(),
    })
}

/// Dials as a trial does, for messages of the largest size.
pub fn dial(
    contender: &Contender,
    to: &Address,
    hello: Hello,
    timeout: Nanos,
) -> deadheat::Result<Box<dyn Conn>> {
    dial_for(contender, to, hello, timeout, largest(contender.transport.info()))
}

/// Dials as a trial does, for messages up to a size.
pub fn dial_for(
    contender: &Contender,
    to: &Address,
    hello: Hello,
    timeout: Nanos,
    largest_message: usize,
) -> deadheat::Result<Box<dyn Conn>> {
    let lanes = contender.transport.info().guarantees.one_lane();
    let knobs = &contender.knobs;
    contender.transport.dial(&Dial {
        to,
        hello,
        knobs,
        lanes,
        largest_message,
        timeout,
        tickets: &deadheat::transport::Tickets::default(),
    })
}

/// Both ends of a connection; the far one is absent where the kernel answers.
pub struct Ends {
    /// End that dialled.
    pub near: Box<dyn Conn>,
    /// End that listened.
    pub far: Option<Box<dyn Conn>>,
}

/// Returns both ends of a connection.
pub fn connect(contender: &Contender, at: &Address) -> Ends {
    connect_with(contender, at, largest(contender.transport.info()))
}

/// Returns both ends of a connection for messages up to a size.
pub fn connect_with(contender: &Contender, at: &Address, largest: usize) -> Ends {
    let hello = Hello { token: RIGHT, flow: 0 };
    if contender.transport.info().peer.is_floor() {
        let near = dial_for(contender, at, hello, LONG, largest).unwrap();
        return Ends { near, far: None };
    }
    let lanes = contender.transport.info().guarantees.one_lane();
    connect_lanes(contender, at, lanes, largest)
}

/// Both ends of a connection with these lanes.
pub fn connect_lanes(
    contender: &Contender,
    at: &Address,
    lanes: &[Service],
    largest_message: usize,
) -> Ends {
    let hello = Hello { token: RIGHT, flow: 0 };
    let (transport, knobs) = (&contender.transport, &contender.knobs);
    let door = ConnectionSource::Own;
    let listen = Listen {
        at,
        token: RIGHT,
        knobs,
        lanes,
        largest_message,
        door,
        tickets: deadheat::transport::Tickets::default(),
    };
    let mut listener = transport.listen(listen).unwrap();
    let to = &listener.endpoint();
    thread::scope(|scope| {
        let far = scope.spawn(move || listener.accept(LONG).unwrap().1);
        let dial = Dial {
            to,
            hello,
            knobs,
            lanes,
            largest_message,
            timeout: LONG,
            tickets: &deadheat::transport::Tickets::default(),
        };
        let near = transport.dial(&dial).unwrap();
        Ends { near, far: Some(far.join().unwrap()) }
    })
}

impl Ends {
    /// The far end sends back what has arrived so far.
    pub fn answer(&mut self) {
        let Some(far) = &mut self.far else { return };
        for message in receive(&mut **far, Patience::None) {
            let progress = send(&mut **far, &message);
            assert_eq!(progress, Progress::Moved, "no room within a small window");
        }
    }

    /// Sends a message to the far end and back; returns what came back.
    pub fn echo(&mut self, message: &[u8]) -> Vec<u8> {
        assert_eq!(send(&mut *self.near, message), Progress::Moved);
        let began = Monotonic.now();
        if let Some(far) = &mut self.far {
            let heard = loop {
                assert!(Monotonic.now() - began < LONG, "the far end heard nothing");
                tend(&mut *self.near);
                if let Some(heard) = receive(&mut **far, Patience::Block).pop() {
                    break heard;
                }
            };
            assert_eq!(send(&mut **far, &heard), Progress::Moved);
        }
        self.hear()
    }

    /// The next message at the near end.
    pub fn hear(&mut self) -> Vec<u8> {
        let began = Monotonic.now();
        loop {
            assert!(Monotonic.now() - began < LONG, "the near end heard nothing");
            if let Some(far) = &mut self.far {
                tend(&mut **far);
            }
            if let Some(heard) = receive(&mut *self.near, Patience::None).pop() {
                return heard;
            }
        }
    }
}

/// Lets a connection do what is due: backlog, and the timers of protocols in user space.
pub fn tend(conn: &mut dyn Conn) {
    if conn.readiness().has_backlog {
        conn.flush().unwrap();
    }
    conn.on_deadline(Monotonic.now()).unwrap();
}

/// Sends a message on the first lane.
pub fn send(conn: &mut dyn Conn, message: &[u8]) -> Progress {
    tend(conn);
    conn.send(Lane(0), message).unwrap()
}

/// How to wait for what arrives: nobody sleeps past a protocol's deadline.
pub fn patience(conn: &dyn Conn) -> Patience {
    if conn.next_deadline().is_some() { Patience::None } else { Patience::Block }
}

/// Returns the messages that have arrived.
pub fn receive(conn: &mut dyn Conn, wanted: Patience) -> Vec<Vec<u8>> {
    tend(conn);
    let patience = if wanted == Patience::Block { patience(conn) } else { wanted };
    let mut inbox = Kept::default();
    conn.receive(patience, &mut inbox).unwrap();
    inbox.0
}

/// Messages in the order in which they arrived.
#[derive(Default)]
pub struct Kept(pub Vec<Vec<u8>>);

impl Inbox for Kept {
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        assert_eq!(lane, Lane(0));
        self.0.push(bytes.to_vec());
    }
}

/// `len` bytes that no other number has; the number itself stands in front where there is room.
pub fn content(number: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len as u64)
        .map(|i| (i.wrapping_mul(31) ^ number.wrapping_mul(197) ^ (i >> 8)) as u8)
        .collect();
    if len >= 8 {
        bytes[..8].copy_from_slice(&number.to_be_bytes());
    }
    bytes
}

/// The number of a message, all of whose bytes are checked.
pub fn number(message: &[u8], len: usize) -> u64 {
    let number = u64::from_be_bytes(message[..8].try_into().unwrap());
    assert!(message == content(number, len), "message {number} changed on its way");
    number
}

/// Panics where a loop goes on for longer than anything that works.
pub struct Deadline(Nanos, String);

impl Deadline {
    /// Starts the time of a loop.
    pub fn new(contender: &Contender) -> Deadline {
        Deadline(Monotonic.now() + LONG, format!("{contender:?}"))
    }

    /// Panics if the time is over.
    pub fn check(&self) {
        assert!(Monotonic.now() < self.0, "{} hangs", self.1);
    }
}

/// Every way to say how a contender's two ends move bulk data: each word of its knob for sending with
/// each of that for receiving.
pub fn engines(plain: &Contender) -> Vec<Contender> {
    let info = plain.transport.info();
    let choices = |name: &str| -> Vec<String> {
        let key = info.keys.iter().find(|key| key.name == name);
        match key.map(|key| key.kind) {
            Some(Kind::Choice(words)) => words.iter().map(|w| format!("{name}={w}")).collect(),
            _ => vec![String::new()],
        }
    };
    let mut all = Vec::new();
    for io in choices("io") {
        for rx in choices("rx") {
            let knobs: Vec<&str> =
                [io.as_str(), rx.as_str()].into_iter().filter(|knob| !knob.is_empty()).collect();
            if !knobs.is_empty() {
                all.push(Contender::parse(&format!("{}:{}", info.id, knobs.join(","))).unwrap());
            }
        }
    }
    all
}

/// Why this host does not have what a contender asks for; `None` where it does.
pub fn lacking(contender: &Contender, at: &Address) -> Option<Error> {
    let listens = || listen(contender, at, ConnectionSource::Own).map(|_| ());
    match contender.check().and_then(|()| listens()).err()? {
        why @ Error::Unsupported { .. } => Some(why),
        other => panic!("{contender:?}: {other}"),
    }
}

/// Bulk data all of whose bytes can be checked: a byte stream is the pattern that everyone makes up
/// content from, a message has its number in front and from there on a stretch of the pattern that
/// the number chooses.
struct Content(Vec<u8>);

impl Content {
    fn new() -> Content {
        let mut twice = pattern().to_vec();
        twice.extend(pattern());
        Content(twice)
    }

    /// What message `number` has after its number.
    fn fill(&self, number: u64, len: usize) -> &[u8] {
        &self.0[(number as usize).wrapping_mul(251) % PERIOD..][..len]
    }

    /// Panics where `bytes` are not those of the stream from byte `at` on.
    fn check_stream(&self, at: u64, bytes: &[u8], who: &str) {
        let mut at = at as usize % PERIOD;
        for part in bytes.chunks(PERIOD) {
            assert!(part == &self.0[at..][..part.len()], "{who}: the stream changed on its way");
            at = (at + part.len()) % PERIOD;
        }
    }

    /// The number of a message, all of whose bytes are checked.
    fn check_message(&self, message: &[u8], who: &str) -> u64 {
        assert_eq!(message.len(), BULK_MESSAGE, "{who}");
        let number = u64::from_be_bytes(message[..8].try_into().unwrap());
        let want = self.fill(number, BULK_MESSAGE - 8);
        assert!(message[8..] == *want, "{who}: message {number} changed on its way");
        number
    }
}

/// Bulk data that numbers its messages.
struct Feed {
    left: u64,
    stamped: u64,
    content: Content,
}

/// Bulk data in bytes for one connection and direction, more than any window: less where a kernel in user mode carries it,
/// and 20 MB in `make soak`.
pub fn a_lot() -> u64 {
    let is_soak = std::env::var_os("DEADHEAT_ALL_CELLS").is_some();
    match (std::env::var_os(ONLY), is_soak) {
        (Some(_), _) => 1_000_000,
        (None, true) => 20_000_000,
        (None, false) => 5_000_000,
    }
}

/// Enough for any engine to be in the middle of its batches more than once.
pub const BULK_PER_ENGINE: u64 = 3_000_000;
const BULK_MESSAGE: usize = 1000;

impl Source for Feed {
    fn budget(&self) -> u64 {
        self.left
    }
    fn message_size(&self) -> usize {
        BULK_MESSAGE
    }
    fn call_size(&self) -> usize {
        64_000
    }
    fn stamp(&mut self, message: &mut [u8]) {
        message[..8].copy_from_slice(&self.stamped.to_be_bytes());
        message[8..].copy_from_slice(self.content.fill(self.stamped, BULK_MESSAGE - 8));
        self.stamped += 1;
    }
    fn accepted(&mut self, bytes: u64) {
        self.left = self.left.checked_sub(bytes).unwrap();
    }
}

struct Basin {
    who: String,
    framing: Framing,
    content: Content,
    bytes: u64,
    numbers: Vec<u64>,
}

impl Sink for Basin {
    fn take(&mut self, bytes: &[u8]) {
        assert!(!bytes.is_empty());
        match self.framing {
            Framing::ByteStream => self.content.check_stream(self.bytes, bytes, &self.who),
            Framing::Messages => self.numbers.push(self.content.check_message(bytes, &self.who)),
        }
        self.bytes += bytes.len() as u64;
    }
    fn pass(&mut self, bytes: u64) {
        assert_eq!(self.framing, Framing::ByteStream);
        self.bytes += bytes;
    }
}

/// Sends `total` bytes and checks every one that arrives.
pub fn bulk(contender: &Contender, from: &mut dyn Conn, to: &mut dyn Conn, total: u64) {
    let promised = contender.transport.info().guarantees;
    let deadline = Deadline::new(contender);
    let (sent_all, is_drained) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut feed = Feed { left: total, stamped: 0, content: Content::new() };
    let mut basin = Basin {
        who: format!("{contender:?}"),
        framing: promised.framing,
        content: Content::new(),
        bytes: 0,
        numbers: Vec::new(),
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while feed.left > 0 {
                deadline.check();
                tend(from);
                from.pump(&mut feed).unwrap();
            }
            sent_all.store(true, Atomic::Release);
            from.finish().unwrap();
            // What was lost on the way is sent again, and what found no room goes out as acknowledgements come.
            while !from.is_drained() {
                deadline.check();
                tend(from);
            }
            is_drained.store(true, Atomic::Release);
        });
        // A datagram flow has no end of its own: it is over when all is there or, as some may be lost,
        // when it stays quiet after the last send.
        while promised.ending == Ending::Told || basin.bytes < total {
            deadline.check();
            tend(to);
            let over = sent_all.load(Atomic::Acquire);
            match to.drain(patience(to), &mut basin).unwrap() {
                Progress::Idle if over && promised.service.delivery == Delivery::BestEffort => {
                    break;
                }
                Progress::Moved | Progress::Idle => {}
                Progress::Closed => break,
            }
        }
        // It has everything, and the sender does not know that yet.
        while !is_drained.load(Atomic::Acquire) {
            deadline.check();
            tend(to);
        }
    });
    if promised.service.delivery == Delivery::Reliable {
        assert_eq!(basin.bytes, total, "{contender:?}");
    }
    assert!(basin.bytes > 0 && basin.bytes <= total, "{contender:?}: {}", basin.bytes);
    if promised.framing == Framing::Messages {
        assert_eq!(feed.stamped * BULK_MESSAGE as u64, total, "{contender:?}");
        assert!(basin.numbers.iter().all(|n| *n < feed.stamped), "{contender:?}");
        if promised.service.ordering == Ordering::Ordered {
            assert!(basin.numbers.is_sorted_by(|a, b| a < b), "{contender:?}");
        }
    }
}
