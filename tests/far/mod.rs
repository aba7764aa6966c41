//! A server on loopback with fake agents: threads that speak control and say what they see.

// Clippy's leave for tests ends at functions that are no tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use deadheat::contract::{Inbox, Lane, Patience, Side, WaitMode};
use deadheat::datapath::account::Account;
use deadheat::datapath::origin::Origin;
use deadheat::measurements::Tally;
use deadheat::server::{Agent, AgentStarter, Bind, Config, Server, Stop};
use deadheat::time::Nanos;
use deadheat::transport::handover::{ConnectionSource, HandOver, HandedConnection};
use deadheat::transport::hello::Token;
use deadheat::transport::{Address, Conn, Contender, Listen, Progress};
use deadheat::trial::control::{
    self, AgentPlan, AgentReport, FromAgent, FromServer, Greeting, MAGIC, PROTOCOL, RelayPlan,
    ToAgent,
};
use deadheat::workload::EndpointReport;

/// Longer than anything here takes; only a failing test waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of packets that each fake agent sends and receives, whatever becomes of it.
pub(crate) const SENDS: [u64; 2] = [30_000, 1_200_000];

/// How the fake agents behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As an agent should.
    Right,
    /// As an agent should, and takes a connection from its door first.
    Receives,
    /// As an agent should, over the real transport: echoes one message of each flow.
    Echoes,
    /// Ends without a word.
    Crashes,
    /// Says what is no message.
    Babbles,
    /// Says nothing, ever.
    Mute,
    /// Says more, once started, than a client takes that does not listen.
    Floods,
}

/// What a fake agent saw.
#[derive(Debug)]
pub(crate) enum Seen {
    Plan(Box<AgentPlan>),
    /// Plan of the keeper of a server command.
    Command(Box<serde_json::Value>),
    /// The CPUs that the server lets it run on, if it chooses them.
    Held(Vec<usize>),
    Relay(RelayPlan),
    Handed(HandedConnection),
    /// Nobody takes what a flooding one says.
    Stuffed,
    Killed,
}

struct Starter {
    manner: Manner,
    seen: Sender<Seen>,
}

struct FakeAgent {
    control: UnixStream,
    /// Hung up when the thread has ended.
    lives: Receiver<()>,
    seen: Sender<Seen>,
}

impl Starter {
    /// Starts a thread that lives as an agent.
    fn agent(
        &self,
        live: impl FnOnce(Manner, UnixStream, &Sender<Seen>) + Send + 'static,
    ) -> Box<dyn Agent> {
        let (control, inside) = UnixStream::pair().unwrap();
        let (manner, seen) = (self.manner, self.seen.clone());
        let (life, lives) = channel();
        std::thread::spawn(move || {
            live(manner, inside, &seen);
            drop(life);
        });
        Box::new(FakeAgent { control, lives, seen: self.seen.clone() })
    }
}

impl AgentStarter for Starter {
    fn start(&self, door: Option<HandOver>, account: &Account) -> deadheat::Result<Box<dyn Agent>> {
        // What it sends beyond what its work has: repairs, headers.
        account.add(SENDS);
        Ok(self.agent(move |manner, inside, seen| live(manner, inside, door, seen)))
    }

    fn start_keeper(&self) -> deadheat::Result<Box<dyn Agent>> {
        Ok(self.agent(keep))
    }
}

impl Agent for FakeAgent {
    fn control(&self) -> &UnixStream {
        &self.control
    }

    fn ended(&mut self, timeout: Nanos) -> bool {
        self.lives.recv_timeout(timeout.into()) == Err(RecvTimeoutError::Disconnected)
    }

    fn hold_on(&mut self, cpus: &[usize]) -> deadheat::Result<()> {
        self.seen.send(Seen::Held(cpus.to_vec())).unwrap();
        Ok(())
    }

    fn kill(&mut self) {
        if !self.ended(Nanos::ZERO) {
            let _ = self.control.shutdown(std::net::Shutdown::Both);
            assert!(self.ended(PATIENCE.into()));
            let _ = self.seen.send(Seen::Killed);
        }
    }

    fn last_words(&mut self) -> Option<String> {
        Some("thread 'main' panicked at 'boo'".into())
    }
}

fn live(manner: Manner, mut control: UnixStream, mut door: Option<HandOver>, seen: &Sender<Seen>) {
    while let Ok(message) = control::read::<ToAgent>(&mut control) {
        let done = match message {
            ToAgent::Open(plan) => {
                seen.send(Seen::Plan(plan.clone())).unwrap();
                match door.take() {
                    Some(door) if manner == Manner::Echoes => echo(&plan, &mut control, door),
                    Some(door) => answer(manner, &mut control, &door, seen),
                    // Behind a relay it listens by itself.
                    None => listens(&mut control),
                }
            }
            ToAgent::Start if manner == Manner::Mute => false,
            ToAgent::Start if manner == Manner::Floods => {
                flood(&mut control);
                let _ = seen.send(Seen::Stuffed);
                false
            }
            ToAgent::Start => {
                let sent = vec![Tally::default()];
                control::write(&mut control, &FromAgent::Finished { sent }).is_err()
            }
            ToAgent::PeerFinished { .. } | ToAgent::Stop => {
                let _ = control::write(&mut control, &FromAgent::Done(Box::new(report())));
                true
            }
            ToAgent::Relay(plan) => {
                seen.send(Seen::Relay(plan)).unwrap();
                // A relay forwards until it is killed.
                std::mem::forget(door.take());
                listens(&mut control)
            }
            ToAgent::Probe { .. } => panic!("the server answers probes itself"),
            ToAgent::Command(_) | ToAgent::Pairs { .. } => panic!("these are for the server"),
            ToAgent::Onward => control::write(&mut control, &FromAgent::Connected).is_err(),
            ToAgent::CallOff => panic!("the server ends agents itself"),
            ToAgent::Echo { .. } => panic!("the server answers echoes itself"),
        };
        if done {
            return;
        }
    }
}

/// Address at which the command of a fake keeper listens, as the keeper sees it.
pub(crate) const KEPT: &str = "10.255.0.9:5300";

/// Lives as the keeper of a server command.
fn keep(manner: Manner, mut control: UnixStream, seen: &Sender<Seen>) {
    let Ok(plan) = control::read::<serde_json::Value>(&mut control) else { return };
    seen.send(Seen::Command(Box::new(plan))).unwrap();
    if manner == Manner::Right {
        let endpoint = Address::Ip(KEPT.parse().unwrap());
        for word in [FromAgent::Ready { endpoint }, FromAgent::Connected] {
            control::write(&mut control, &word).unwrap();
        }
    }
    live(manner, control, None, seen);
}

/// Where the agent behind a relay listens.
pub(crate) const BEHIND: &str = "127.0.0.1:40000";

/// Whether the agent ends here.
fn listens(control: &mut UnixStream) -> bool {
    let endpoint = Address::Ip(BEHIND.parse().unwrap());
    control::write(control, &FromAgent::Ready { endpoint }).is_err()
}

/// Whether the agent ends here.
fn answer(manner: Manner, control: &mut UnixStream, door: &HandOver, seen: &Sender<Seen>) -> bool {
    // Not where the server is: it must put its own address there.
    let endpoint = Address::Ip("192.0.2.1:1".parse().unwrap());
    match manner {
        Manner::Crashes => return true,
        Manner::Babbles => return control::write_frame(control, b"[1,2").is_err(),
        Manner::Mute => return false,
        Manner::Right | Manner::Receives | Manner::Echoes | Manner::Floods => {}
    }
    if control::write(control, &FromAgent::Ready { endpoint }).is_err() {
        return true;
    }
    if manner == Manner::Receives {
        match door.take(PATIENCE.into()) {
            Ok(Some(handed)) => seen.send(Seen::Handed(handed)).unwrap(),
            _ => return true,
        }
        return control::write(control, &FromAgent::Connected).is_err();
    }
    false
}

/// Says the same until nobody takes it any more.
fn flood(control: &mut UnixStream) {
    control.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let word = FromAgent::Finished { sent: vec![Tally::default(); 1_000] };
    while control::write(control, &word).is_ok() {}
}

/// Whether the agent ends here.
fn echo(plan: &AgentPlan, control: &mut UnixStream, door: HandOver) -> bool {
    let contender = Contender::parse(&plan.contender).unwrap();
    let listen = Listen {
        at: &plan.endpoint,
        token: plan.token,
        knobs: &contender.knobs,
        lanes: contender.transport.info().guarantees.one_lane(),
        largest_message: 64,
        door: ConnectionSource::Handed(door),
        tickets: deadheat::transport::Tickets::default(),
    };
    let mut listener = contender.transport.listen(listen).unwrap();
    control::write(control, &FromAgent::Ready { endpoint: listener.endpoint() }).unwrap();
    let (_, mut conn) = listener.accept(PATIENCE.into()).unwrap();
    let message = next_message(conn.as_mut());
    assert_eq!(conn.send(Lane(0), &message).unwrap(), Progress::Moved);
    control::write(control, &FromAgent::Connected).is_err()
}

/// Waits for one message.
pub(crate) fn next_message(conn: &mut dyn Conn) -> Vec<u8> {
    #[derive(Default)]
    struct One(Option<Vec<u8>>);
    impl Inbox for One {
        fn message(&mut self, _: Lane, bytes: &[u8]) {
            self.0 = Some(bytes.to_vec());
        }
    }
    let mut inbox = One::default();
    let began = Instant::now();
    while inbox.0.is_none() {
        assert!(began.elapsed() < PATIENCE, "no message");
        assert_ne!(conn.receive(Patience::Block, &mut inbox).unwrap(), Progress::Closed);
    }
    inbox.0.unwrap()
}

fn report() -> AgentReport {
    let mut half = EndpointReport::default();
    half.received.bytes = 1_200_000;
    AgentReport { halves: vec![half], ..AgentReport::default() }
}

/// A running server.
pub(crate) struct Far {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Receiver<Seen>,
    /// Addresses of its responders, by name.
    pub(crate) responders: Vec<(&'static str, SocketAddr)>,
    lines: Receiver<String>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<deadheat::Result<()>>>,
}

impl Far {
    /// At 127.0.0.1.
    pub(crate) fn new(manner: Manner) -> Far {
        Far::with(manner, |_| {})
    }

    pub(crate) fn with(manner: Manner, change: impl FnOnce(&mut Config)) -> Far {
        Far::after(manner, change, |_| {}).0
    }

    /// Serves once `before` is done, which may connect: what it says is there when the server looks for the first time,
    /// however busy the host.
    pub(crate) fn after<T>(
        manner: Manner,
        change: impl FnOnce(&mut Config),
        before: impl FnOnce(SocketAddr) -> T,
    ) -> (Far, T) {
        let mut config =
            Config { bind: Bind::At("127.0.0.1:0".parse().unwrap()), ..Config::default() };
        change(&mut config);
        let (seen_to, seen) = channel();
        let (lines_to, lines) = channel();
        let lines_to = Mutex::new(lines_to);
        let log = move |line: &str| {
            let _ = lines_to.lock().unwrap().send(line.to_owned());
        };
        let starter = Starter { manner, seen: seen_to };
        let facts = deadheat::host::facts::gather();
        let server = Server::bind(config, facts, Box::new(starter), Box::new(log)).unwrap();
        let address = server.local_addr();
        let responders = server.responder_addrs().collect();
        let stop = Arc::new(Stop::new().unwrap());
        let rope = Arc::clone(&stop);
        let done = before(address);
        let thread = Some(std::thread::spawn(move || server.run(&rope)));
        (Far { address, seen, responders, lines, stop, thread }, done)
    }

    /// A let-in client.
    pub(crate) fn client(&self) -> Client {
        Client::let_in(self.address)
    }

    /// Waits for a log line that contains `words`.
    pub(crate) fn line_with(&self, words: &str) -> String {
        let mut others = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => others.push(line),
                Err(_) => panic!("no line with `{words}` among {others:#?}"),
            }
        }
    }

    /// Every log line that nobody has waited for, once the server has ended.
    pub(crate) fn all_lines(&mut self) -> Vec<String> {
        self.stop();
        self.lines.try_iter().collect()
    }

    /// Waits for what an agent sees next.
    pub(crate) fn next_seen(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).unwrap()
    }

    /// Waits for the next plan that an agent gets.
    pub(crate) fn next_plan(&self) -> AgentPlan {
        loop {
            match self.next_seen() {
                Seen::Plan(plan) => return *plan,
                // The agent of the trial before may be killed before or after it ends by itself.
                Seen::Killed => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits for the CPUs that the next agent is held on.
    pub(crate) fn next_held(&self) -> Vec<usize> {
        loop {
            match self.next_seen() {
                Seen::Held(cpus) => return cpus,
                // As above.
                Seen::Killed => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Returns true if it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until it has ended by itself.
    pub(crate) fn await_end(&mut self) {
        let began = Instant::now();
        while !self.is_over() {
            assert!(began.elapsed() < PATIENCE, "it serves on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it and waits for its end.
    pub(crate) fn stop(&mut self) {
        self.stop.pull();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

/// A client, as a race would be.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    /// Connected, and nothing said.
    pub(crate) fn connect(to: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client(stream)
    }

    /// Greeted; the nonce, if the server wants a secret.
    pub(crate) fn greeted(to: SocketAddr) -> (Client, Option<String>) {
        Client::connect(to).greets(None)
    }

    /// Greeted as one of the connections of the client with this number.
    fn greets(self, number: Option<Token>) -> (Client, Option<String>) {
        let mut client = self;
        client.say(&Greeting { client: number, ..greeting(PROTOCOL) });
        match client.hear() {
            FromServer::Welcome { nonce, protocol, .. } => {
                assert_eq!(protocol, PROTOCOL);
                (client, nonce)
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn let_in(to: SocketAddr) -> Client {
        Client::connect(to).enters(None)
    }

    /// Let in as one of the connections of the client with this number.
    pub(crate) fn enters(self, number: Option<Token>) -> Client {
        let (mut client, nonce) = self.greets(number);
        assert_eq!(nonce, None);
        assert!(matches!(client.hear(), FromServer::Facts(_)));
        client
    }

    pub(crate) fn say(&mut self, message: &impl serde::Serialize) {
        control::write(&mut self.0, message).unwrap();
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// What the server itself says next.
    pub(crate) fn hear(&mut self) -> FromServer {
        control::read(&mut self.0).unwrap()
    }

    /// What the agent says next.
    pub(crate) fn hear_agent(&mut self) -> FromAgent {
        control::read(&mut self.0).unwrap()
    }

    pub(crate) fn refusal(&mut self) -> String {
        match self.hear() {
            FromServer::Refused(fault) => fault.message,
            other => panic!("{other:?}"),
        }
    }

    /// What a server without room says.
    pub(crate) fn no_room(&mut self) -> String {
        match self.hear() {
            FromServer::Full(fault) => fault.message,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn fault(&mut self) -> String {
        match self.hear_agent() {
            FromAgent::Fault(fault) => fault.message,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the turn and for the agent's listener.
    pub(crate) fn ready(&mut self) -> Address {
        loop {
            let frame = control::read_frame(&mut self.0).unwrap();
            if let Ok(FromServer::Queued { .. }) = control::parse(&frame) {
                continue;
            }
            match control::parse(&frame) {
                Ok(FromAgent::Ready { endpoint }) => return endpoint,
                _ => panic!("{}", String::from_utf8_lossy(&frame)),
            }
        }
    }

    /// Everything that still comes until the server closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset, "{e}"),
        }
        rest
    }

    /// From start to the report.
    pub(crate) fn finish_trial(&mut self) {
        self.begin_trial();
        self.end_trial();
    }

    pub(crate) fn begin_trial(&mut self) {
        self.say(&ToAgent::Start);
        assert!(matches!(self.hear_agent(), FromAgent::Finished { .. }));
    }

    /// To the report of a trial that has begun.
    pub(crate) fn end_trial(&mut self) {
        self.say(&ToAgent::PeerFinished { sent: Vec::new() });
        assert!(matches!(self.hear_agent(), FromAgent::Done(_)));
    }
}

pub(crate) fn greeting(protocol: u32) -> Greeting {
    Greeting { magic: MAGIC.into(), protocol, version: "0.1.0".into(), newest: None, client: None }
}

/// A frame with whatever in it.
pub(crate) fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    control::write_frame(&mut frame, body).unwrap();
    frame
}

/// A small trial; change what matters to the test.
pub(crate) fn plan() -> AgentPlan {
    AgentPlan {
        emulated: None,
        blast: None,
        further: Vec::new(),
        share: None,
        mtu: None,
        origin: Origin::default(),
        hole: None,
        goes_first: false,
        grant: None,
        clock: None,
        far_end: None,
        onward: None,
        far_pin: None,
        side: Side::Far,
        contender: "udp".into(),
        workload: "bulk:bytes=1MB".into(),
        endpoint: Address::Ip("0.0.0.0:0".parse().unwrap()),
        token: Token::fresh().unwrap(),
        seed: 1,
        cpu: None,
        wait: WaitMode::Hybrid,
        samples: None,
        limits: None,
        interval_ns: deadheat::trial::agent::intervals::DEFAULT,
        live: false,
        pass: Default::default(),
    }
}

pub(crate) fn open(plan: &AgentPlan) -> ToAgent {
    ToAgent::Open(Box::new(plan.clone()))
}
