//! Control connection of a test: parameters, states, results.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::results::{self, StreamResult, TestResults};
use super::states::State;
use super::{Iperf3, cookie};
use crate::contract::Direction;
use crate::datapath::origin;
use crate::error::{Error, Result};
use crate::measurements::Tally;
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::far_end::{FarCounts, FarEnd, FarOpening, FarSession, SessionOrder};
use crate::transport::handover::fill;
use crate::transport::options;
use crate::transport::plain::PlainProtocol;
use crate::workload::EndpointReport;
use serde_json::{Map, Value, json};

/// Version of the client, which servers look at since 3.17.
const CLIENT_VERSION: &str = "3.12";

/// Largest results that are read.
const LARGEST_RESULTS: u32 = 1 << 20;

/// Time after the near end has sent all before datagrams under way count as lost.
const QUIET: Nanos = Nanos::from_millis(200);

/// Time in which the server's program reads what its kernel has acknowledged: the bytes that it has not read when the
/// test ends, it never counts.
const READS_WITHIN: Nanos = Nanos::from_millis(50);

/// Time in which a server opens its port anew after a test, and the pause between two attempts.
const ANEW: Nanos = Nanos::from_secs(2);
const PAUSE: Nanos = Nanos::from_millis(50);

/// Bytes per call of a server that sends a byte stream, as iperf3 has them by default.
const STREAM_LEN: usize = 128 << 10;

/// Opens a test, up to where the server takes the streams.
///
/// # Errors
/// As of [`FarEnd::session`].
pub(super) fn open(order: &SessionOrder<'_>) -> Result<FarOpening> {
    let mut control = match admitted(order)? {
        Some(control) => control,
        None => return Ok(FarOpening::Busy),
    };
    let parameters = parameters(order);
    control.write_json(&parameters, "the parameters")?;
    control.expect(State::CREATE_STREAMS)?;
    Ok(FarOpening::Open(Box::new(Test {
        control,
        flows: order.task.flows.clone(),
        over: order.over,
        payload: order.task.largest_message as u64,
        framing: order.transport.framing_bytes as u64,
        is_numbered: order.task.is_paced || order.over == PlainProtocol::Udp,
    })))
}

/// Returns a control connection whose cookie was taken; `None` if the server tests with another client.
///
/// A server opens its port anew after each test (3.12: `cleanup_server`), and meanwhile refuses connections, or resets
/// those that it did not accept.
fn admitted(order: &SessionOrder<'_>) -> Result<Option<Control>> {
    let give_up = Monotonic.now() + ANEW.min(order.patience);
    let mut first = None;
    loop {
        let error = match Control::connect(order.to, order.patience)
            .and_then(|control| control.admit(order))
        {
            Ok(admitted) => return Ok(admitted),
            Err(Refused::Anew(error)) if Monotonic.now() < give_up => error,
            Err(Refused::Anew(error)) => return Err(first.unwrap_or(error)),
            Err(Refused::Wrong(error)) => return Err(first.unwrap_or(error)),
        };
        first.get_or_insert(error);
        std::thread::sleep(PAUSE.into());
    }
}

/// Reason why a server did not take a client.
enum Refused {
    /// It may open its port anew just now.
    Anew(Error),
    /// It does otherwise than its protocol says, or this host fails.
    Wrong(Error),
}

/// Returns the parameters of the test.
fn parameters(order: &SessionOrder<'_>) -> Value {
    let task = order.task;
    let (key, len) = match order.over {
        PlainProtocol::Udp => ("udp", task.largest_message),
        PlainProtocol::Tcp | PlainProtocol::Mptcp => ("tcp", STREAM_LEN),
    };
    let is_down = task.flows.first() == Some(&Some(Direction::Down));
    let streams = task.flows.len().max(1) as u64;
    // The near end decides when a test ends. With a time the server ends a test of a client that vanished, too.
    let secs = task.planned.map_or(0, |planned| planned.0.div_ceil(1_000_000_000) + 1);
    let bytes = match task.planned {
        Some(_) => 0,
        None => task.most_bytes.unwrap_or(0),
    };
    let rate = task.offered().map_or(0, |rate| rate.0 / streams);
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
    put(key, json!(true));
    if order.over == PlainProtocol::Mptcp {
        put("mptcp", json!(1));
    }
    put("omit", json!(0));
    put("time", json!(secs));
    put("num", json!(bytes));
    put("blockcount", json!(0));
    put("parallel", json!(streams));
    put("len", json!(len));
    put("bandwidth", json!(rate));
    put("pacing_timer", json!(1000));
    if is_down {
        put("reverse", json!(true));
        let asked = order.knobs.text(options::CC.name);
        if let Some(control) = asked.filter(|cc| *cc != HOSTS_OWN && !cc.is_empty()) {
            put("congestion", json!(control));
        }
        if order.knobs.text(options::NODELAY.name) == Some(SWITCHED_ON) {
            put("nodelay", json!(true));
        }
    }
    put("client_version", json!(CLIENT_VERSION));
    Value::Object(all)
}

/// Word of the knob for congestion control that leaves it to the host.
const HOSTS_OWN: &str = "host";
const SWITCHED_ON: &str = "on";

/// Test under way.
struct Test {
    control: Control,
    flows: Vec<Option<Direction>>,
    over: PlainProtocol,
    /// Bytes of a message, and of what marks its boundaries on a byte stream.
    payload: u64,
    framing: u64,
    /// True if the work counts messages, and not only bytes.
    is_numbered: bool,
}

impl Test {
    fn is_down(&self) -> bool {
        self.flows.first() == Some(&Some(Direction::Down))
    }

    fn report(&self, results: &TestResults) -> Result<FarCounts> {
        let flows = self.flows.len();
        if results.streams.len() != flows {
            let count = results.streams.len();
            return Err(self.control.wrong(format!("its results have {count} streams of {flows}")));
        }
        // A message is whole, so the bytes are the more exact count: iperf3's number of datagrams is the highest that
        // arrived, from which it takes the missing ones.
        let tally = |stream: &StreamResult| match self.is_numbered {
            false => Tally { bytes: stream.bytes, ..Tally::default() },
            true => {
                let messages = stream.bytes / (self.payload + self.framing).max(1);
                Tally { messages, bytes: messages * self.payload, ..Tally::default() }
            }
        };
        let half = |stream| match self.is_down() {
            true => EndpointReport { sent: tally(stream), ..EndpointReport::default() },
            false => EndpointReport { received: tally(stream), ..EndpointReport::default() },
        };
        // What controls congestion matters at the sender.
        let control = results.congestion.clone().filter(|_| self.is_down());
        Ok(FarCounts {
            halves: results.streams.iter().map(half).collect(),
            effective: control.map(|cc| (options::CC.name.to_owned(), cc)).into_iter().collect(),
        })
    }
}

impl FarSession for Test {
    fn fd(&self) -> BorrowedFd<'_> {
        self.control.socket.as_fd()
    }

    fn start(&mut self) -> Result<()> {
        self.control.expect(State::TEST_START)?;
        self.control.expect(State::TEST_RUNNING)
    }

    fn look(&mut self) -> Result<()> {
        let state = self.control.state(State::TEST_END)?;
        Err(self.control.unexpected(state))
    }

    fn end(&mut self, sent: &[Tally]) -> Result<FarCounts> {
        if !self.is_down() {
            let quiet = if self.over == PlainProtocol::Udp { QUIET } else { READS_WITHIN };
            std::thread::sleep(quiet.into());
        }
        self.control.write(&State::TEST_END.0.to_be_bytes(), "TEST_END")?;
        self.control.expect(State::EXCHANGE_RESULTS)?;
        let own = results::of_client(sent, self.flows.len(), self.is_down());
        self.control.write_json(&own, "the results")?;
        let text = self.control.read_json(LARGEST_RESULTS)?;
        let results = TestResults::parse(&text).map_err(|what| self.control.wrong(what))?;
        self.control.expect(State::DISPLAY_RESULTS)?;
        // The server has all that it needs; an error here changes no figure.
        let _ = self.control.write(&State::IPERF_DONE.0.to_be_bytes(), "IPERF_DONE");
        self.report(&results)
    }
}

/// Control connection, and the state that is awaited on it.
struct Control {
    socket: Socket,
    to: SocketAddr,
    /// Longest time for one step.
    patience: Nanos,
    awaited: State,
}

impl Control {
    fn connect(to: SocketAddr, patience: Nanos) -> Result<Control, Refused> {
        let failed = |e| {
            let label = Iperf3.info().label;
            Error::setup_advice(
                format!("connect to {label} at {to}"),
                e,
                "is `iperf3 -s` running there, and is its TCP port open?",
            )
        };
        let wrong = |e| Refused::Wrong(failed(e));
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))
            .map_err(wrong)?;
        origin::bind(&socket, to).map_err(Refused::Wrong)?;
        socket.connect_timeout(&SockAddr::from(to), patience.into()).map_err(|e| {
            match e.kind() {
                io::ErrorKind::ConnectionRefused => Refused::Anew(failed(e)),
                _ => wrong(e),
            }
        })?;
        socket.set_tcp_nodelay(true).map_err(wrong)?;
        socket.set_write_timeout(Some(patience.into())).map_err(wrong)?;
        Ok(Control { socket, to, patience, awaited: State::PARAM_EXCHANGE })
    }

    /// Presents the cookie; returns `None` if the server tests with another client.
    fn admit(self, order: &SessionOrder<'_>) -> Result<Option<Control>, Refused> {
        let mut byte = [0];
        let answered = (&self.socket)
            .write_all(&cookie(&order.token))
            .and_then(|()| fill(&self.socket, &mut byte, Monotonic.now() + self.patience));
        match answered {
            Err(e) if is_closed(&e) => {
                return Err(Refused::Anew(self.wrong("it closed the control connection")));
            }
            Err(e) => {
                let what = format!("the control connection failed ({e})");
                return Err(Refused::Wrong(self.wrong(what)));
            }
            Ok(0) => {
                let what = format!("it sent nothing for {}", self.patience);
                return Err(Refused::Wrong(self.wrong(what)));
            }
            Ok(_) => {}
        }
        match self.taken(byte).map_err(Refused::Wrong)? {
            State::PARAM_EXCHANGE => Ok(Some(self)),
            State::ACCESS_DENIED => Ok(None),
            other => Err(Refused::Wrong(self.unexpected(other))),
        }
    }

    /// Returns the error of a server that does otherwise than its protocol says.
    fn wrong(&self, what: impl Into<String>) -> Error {
        Error::broken(format!("iperf3 at {}, before {}", self.to, self.awaited), what)
    }

    fn write(&self, bytes: &[u8], what: &str) -> Result<()> {
        (&self.socket)
            .write_all(bytes)
            .map_err(|e| self.wrong(format!("it does not take {what} ({e})")))
    }

    fn write_json(&self, value: &Value, what: &str) -> Result<()> {
        let text = value.to_string();
        let mut frame = (text.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(text.as_bytes());
        self.write(&frame, what)
    }

    fn read(&self, into: &mut [u8]) -> Result<()> {
        let (wanted, patience) = (into.len(), self.patience);
        let deadline = Monotonic.now() + patience;
        match fill(&self.socket, into, deadline) {
            Ok(have) if have == wanted => Ok(()),
            Ok(0) => Err(self.wrong(format!("it sent nothing for {patience}"))),
            Ok(have) => Err(self.wrong(format!("it sent {have} of {wanted} bytes in {patience}"))),
            Err(e) if is_closed(&e) => Err(self.wrong("it closed the control connection")),
            Err(e) => Err(self.wrong(format!("the control connection failed ({e})"))),
        }
    }

    /// Reads the next state, while `awaited` is due; errors of the server are errors here.
    fn state(&mut self, awaited: State) -> Result<State> {
        self.awaited = awaited;
        let mut byte = [0];
        self.read(&mut byte)?;
        self.taken(byte)
    }

    fn taken(&self, byte: [u8; 1]) -> Result<State> {
        match State(i8::from_be_bytes(byte)) {
            State::SERVER_ERROR => Err(self.server_error()),
            State::SERVER_TERMINATE => Err(self.wrong("its operator stopped it")),
            state => Ok(state),
        }
    }

    fn expect(&mut self, awaited: State) -> Result<()> {
        match self.state(awaited)? {
            state if state == awaited => Ok(()),
            state => Err(self.unexpected(state)),
        }
    }

    fn unexpected(&self, state: State) -> Error {
        self.wrong(match state {
            State::ACCESS_DENIED => "it turned the test away in the middle".to_owned(),
            state => format!("it sent {state}, which has no place here; is it an iperf3 server?"),
        })
    }

    /// Reads the numbers that follow a server's error: iperf3's own, and the system's.
    fn server_error(&self) -> Error {
        let mut numbers = [0; 8];
        let have = fill(&self.socket, &mut numbers, Monotonic.now() + self.patience).unwrap_or(0);
        let (own, system) = numbers.split_at(4);
        let number =
            |bytes: &[u8]| bytes.iter().fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
        let system = match (have, number(system)) {
            (8, errno @ 1..) => format!(", {}", io::Error::from_raw_os_error(errno as i32)),
            _ => String::new(),
        };
        match have {
            0..4 => self.wrong(
                "it refused the test and gave no reason; a server with --rsa-private-key-path wants a user name and a \
                 password, which deadheat does not send",
            ),
            _ => self.wrong(format!(
                "it refused the test with its error {}{system}; its own output says more",
                number(own)
            )),
        }
    }

    fn read_json(&self, largest: u32) -> Result<Vec<u8>> {
        let mut len = [0; 4];
        self.read(&mut len)?;
        let len = u32::from_be_bytes(len);
        if len > largest {
            return Err(self.wrong(format!("its results have {len} bytes; {largest} are the most")));
        }
        let mut text = vec![0; len as usize];
        self.read(&mut text)?;
        Ok(text)
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;
    use crate::spec::{Settings, Spec};
    use crate::transport::Info;
    use crate::transport::hello::Token;
    use crate::workload::TaskInfo;

    /// Step of a server.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Step {
        /// Reads this many bytes.
        Takes(usize),
        /// Reads a length and as many bytes.
        TakesJson,
        /// Sends a state, for which a client waits.
        Sends(State),
        /// Sends results.
        SendsResults,
    }

    /// A test as it should be.
    const SOUND: [Step; 12] = [
        Step::Takes(37),
        Step::Sends(State::PARAM_EXCHANGE),
        Step::TakesJson,
        Step::Sends(State::CREATE_STREAMS),
        Step::Sends(State::TEST_START),
        Step::Sends(State::TEST_RUNNING),
        Step::Takes(1),
        Step::Sends(State::EXCHANGE_RESULTS),
        Step::TakesJson,
        Step::SendsResults,
        Step::Sends(State::DISPLAY_RESULTS),
        Step::Takes(1),
    ];

    /// What a server does in place of a step.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Fault {
        Closes,
        Hangs,
        Babbles,
        Refuses,
        IsStopped,
    }

    const RESULTS: &str = r#"{"congestion_used":"cubic","streams":[{"id":1,"bytes":1000}]}"#;

    fn frame(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
    }

    fn serve(mut stream: TcpStream, fault: Option<(usize, Fault)>, results: &str) -> Option<Value> {
        let mut parameters = None;
        for (at, step) in SOUND.into_iter().enumerate() {
            if let Some((_, fault)) = fault.filter(|(place, _)| *place == at) {
                match fault {
                    Fault::Closes => return parameters,
                    // Until the client gives up.
                    Fault::Hangs => drop(stream.read(&mut [0])),
                    Fault::Babbles => drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n")),
                    Fault::Refuses => {
                        let error = [&[254_u8][..], &[0, 0, 0, 27, 0, 0, 0, 22]].concat();
                        drop(stream.write_all(&error));
                    }
                    Fault::IsStopped => drop(stream.write_all(&[11])),
                }
                drop(stream.read(&mut [0]));
                return parameters;
            }
            match step {
                Step::Takes(len) => stream.read_exact(&mut vec![0; len]).ok()?,
                Step::TakesJson => {
                    let mut len = [0; 4];
                    stream.read_exact(&mut len).ok()?;
                    let mut text = vec![0; u32::from_be_bytes(len) as usize];
                    stream.read_exact(&mut text).ok()?;
                    parameters.get_or_insert(serde_json::from_slice(&text).unwrap());
                }
                Step::Sends(state) => stream.write_all(&state.0.to_be_bytes()).ok()?,
                Step::SendsResults => stream.write_all(&frame(results)).ok()?,
            }
        }
        parameters
    }

    fn upload() -> TaskInfo {
        TaskInfo {
            flows: vec![Some(Direction::Up)],
            planned: Some(Nanos::from_millis(1_500)),
            largest_message: 100,
            ..TaskInfo::default()
        }
    }

    /// Runs a whole test against a server with a fault; returns the reports, and the parameters that the server got.
    fn run(
        task: &TaskInfo,
        fault: Option<(usize, Fault)>,
        results: &'static str,
    ) -> (Result<Option<FarCounts>>, Option<Value>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let server = thread::spawn(move || serve(listener.accept().unwrap().0, fault, results));
        let order = SessionOrder {
            to,
            token: Token::from_bytes([3; 16]),
            over: PlainProtocol::Tcp,
            transport: &Info::KERNEL,
            knobs: &Settings::check(&Spec::parse("x").unwrap(), &[]).unwrap(),
            task,
            // A busy host may be slow, and only a server that hangs is waited for in vain.
            patience: match fault {
                Some((_, Fault::Hangs)) => Nanos::from_millis(300),
                _ => Nanos::from_secs(10),
            },
        };
        let whole = || {
            let FarOpening::Open(mut session) = open(&order)? else { return Ok(None) };
            session.start()?;
            session.end(&[Tally { bytes: 1_000, ..Tally::default() }]).map(Some)
        };
        let ended = whole();
        (ended, server.join().unwrap())
    }

    #[test]
    fn a_whole_test_yields_the_counts_of_the_server() {
        let (ended, parameters) = run(&upload(), None, RESULTS);
        let halves = ended.unwrap().unwrap().halves;
        assert_eq!((halves.len(), halves[0].received.bytes), (1, 1_000));
        let parameters = parameters.unwrap();
        assert_eq!(parameters["tcp"], true);
        assert_eq!((&parameters["time"], &parameters["parallel"]), (&json!(3), &json!(1)));
        assert_eq!(parameters.get("reverse"), None);
    }

    #[test]
    fn a_download_is_asked_for_and_counts_what_the_server_sent() {
        let task = TaskInfo { flows: vec![Some(Direction::Down)], ..upload() };
        let (ended, parameters) = run(&task, None, RESULTS);
        let counts = ended.unwrap().unwrap();
        assert_eq!(counts.halves[0].sent.bytes, 1_000);
        assert_eq!(counts.effective["cc"], "cubic");
        assert_eq!(parameters.unwrap()["reverse"], true);
    }

    #[test]
    fn a_server_that_fails_in_any_state_is_named_with_the_state() {
        let faults =
            [Fault::Closes, Fault::Hangs, Fault::Babbles, Fault::Refuses, Fault::IsStopped];
        for (at, step) in SOUND.into_iter().enumerate() {
            let (Step::Sends(_) | Step::SendsResults) = step else { continue };
            let due = match step {
                Step::Sends(state) => state.to_string(),
                _ => State::EXCHANGE_RESULTS.to_string(),
            };
            for fault in faults {
                if step == Step::SendsResults && matches!(fault, Fault::Refuses | Fault::IsStopped)
                {
                    continue;
                }
                let said = match run(&upload(), Some((at, fault)), RESULTS).0 {
                    Err(error @ Error::Broken { .. }) => error.to_string(),
                    other => panic!("{due}, {fault:?}: {other:?}"),
                };
                assert!(said.contains(&format!("before {due}")), "{fault:?}: {said}");
                let what = match fault {
                    Fault::Closes => "closed the control connection",
                    Fault::Hangs => "it sent nothing for 300 ms",
                    Fault::Babbles if step == Step::SendsResults => "results have 1213486160 bytes",
                    Fault::Babbles => "it sent the unknown state 72",
                    Fault::Refuses => "its error 27, Invalid argument",
                    Fault::IsStopped => "its operator stopped it",
                };
                assert!(said.contains(what), "before {due}, {fault:?}: {said}");
            }
        }
    }

    #[test]
    fn results_of_another_test_are_refused() {
        let two = r#"{"streams":[{"id":1,"bytes":1},{"id":3,"bytes":1}]}"#;
        let said = run(&upload(), None, two).0.unwrap_err().to_string();
        assert!(said.contains("2 streams of 1"), "{said}");
    }

    #[test]
    fn a_busy_server_is_asked_again_and_is_no_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 37]).unwrap();
            stream.write_all(&[255]).unwrap();
        });
        let order = SessionOrder {
            to,
            token: Token::from_bytes([3; 16]),
            over: PlainProtocol::Tcp,
            transport: &Info::KERNEL,
            knobs: &Settings::check(&Spec::parse("x").unwrap(), &[]).unwrap(),
            task: &upload(),
            patience: Nanos::from_secs(10),
        };
        assert!(matches!(open(&order), Ok(FarOpening::Busy)));
        server.join().unwrap();
    }
}
