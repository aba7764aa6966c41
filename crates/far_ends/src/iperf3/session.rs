//! Course of a test: it is opened, started and ended on its control connection.

use std::os::fd::BorrowedFd;

use super::control::{Control, Refused};
use super::cookie;
use super::login::Login;
use super::parameters::{call_len, parameters};
use super::results::{self, StreamResult, TestResults};
use super::states::State;
use super::stream_counts::StreamCounts;
use deadheat_base::error::Result;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::Tally;
use deadheat_contract::workload::EndpointReport;
use deadheat_datapath::transport::far_end::{FarCounts, FarOpening, FarSession, SessionOrder};
use deadheat_datapath::transport::options;

/// Time beside a round trip after the last datagram was sent, before those under way count as lost.
const QUIET: Nanos = Nanos::from_millis(200);

/// Time beside a round trip in which the server's program reads the bytes that its kernel has acknowledged: it never counts
/// those that it has not read when the test ends.
const READS_WITHIN: Nanos = Nanos::from_millis(50);

/// Longest of these times: iperf3's server ends a test by itself some seconds after its time.
const LONGEST_TO_SETTLE: Nanos = Nanos::from_secs(3);

/// Time in which a server opens its port anew after a test, and the pause between two attempts.
const ANEW: Nanos = Nanos::from_secs(2);
const PAUSE: Nanos = Nanos::from_millis(50);

/// Opens a test, up to where the server takes the streams.
///
/// # Errors
/// As of [`deadheat_datapath::transport::far_end::FarEnd::session`].
pub(super) fn open(order: &SessionOrder<'_>) -> Result<FarOpening> {
    let login = Login::of_environment()?;
    match admitted(order)? {
        Some(control) => Ok(FarOpening::Open(Box::new(begun(control, order, login.as_ref())?))),
        None => Ok(FarOpening::Busy),
    }
}

/// Sends the parameters of a test, and waits until the server takes its streams.
pub(super) fn begun(
    mut control: Control,
    order: &SessionOrder<'_>,
    login: Option<&Login>,
) -> Result<Iperf3Test> {
    if let Some(login) = login {
        control.log_in(&login.user);
    }
    control.write_json(&parameters(order, login), "the parameters")?;
    control.expect(State::CREATE_STREAMS)?;
    Ok(Iperf3Test {
        control,
        streams: StreamCounts::of(order.task),
        settles_in: if order.over.is_reliable { READS_WITHIN } else { QUIET },
        call_len: call_len(order) as u64,
        payload: order.task.largest_message as u64,
        framing: order.transport.framing_bytes as u64,
        is_numbered: order.task.is_paced || order.over.keeps_boundaries,
    })
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
            .and_then(|control| control.admit(&cookie(&order.token)))
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

/// Test under way.
pub(super) struct Iperf3Test {
    control: Control,
    streams: StreamCounts,
    /// Time beside a round trip that the server needs for what was sent last.
    pub(super) settles_in: Nanos,
    /// Bytes of a call of the server.
    call_len: u64,
    /// Bytes of a message, and of what marks its boundaries on a byte stream.
    payload: u64,
    framing: u64,
    /// True if the work counts messages, and not only bytes.
    is_numbered: bool,
}

impl Iperf3Test {
    fn report(&self, results: &TestResults) -> Result<FarCounts> {
        let flows = self.streams.up + self.streams.down;
        if results.streams.len() != flows {
            let count = results.streams.len();
            return Err(self.control.wrong(format!("its results have {count} streams of {flows}")));
        }
        let half = |(place, stream): (usize, &StreamResult)| match self.streams.way(place) {
            Direction::Down => {
                EndpointReport { sent: self.tally(stream, 0), ..EndpointReport::default() }
            }
            Direction::Up => {
                let received = self.tally(stream, self.framing);
                EndpointReport { received, ..EndpointReport::default() }
            }
        };
        // What controls congestion matters at the sender.
        let control = results.congestion.clone().filter(|_| self.streams.down > 0);
        Ok(FarCounts {
            halves: results.streams.iter().enumerate().map(half).collect(),
            effective: control.map(|cc| (options::CC.to_owned(), cc)).into_iter().collect(),
            uncounted: self.call_len,
        })
    }

    /// Returns the messages and bytes of a stream, with `framing` bytes of boundaries in each message. A message is whole,
    /// so the bytes are the more exact count: iperf3's number of datagrams is the highest that arrived, from which it takes
    /// the missing ones.
    fn tally(&self, stream: &StreamResult, framing: u64) -> Tally {
        if !self.is_numbered {
            return Tally { bytes: stream.bytes, ..Tally::default() };
        }
        let messages = stream.bytes / (self.payload + framing).max(1);
        Tally { messages, bytes: messages * self.payload, ..Tally::default() }
    }
}

impl FarSession for Iperf3Test {
    fn fd(&self) -> BorrowedFd<'_> {
        self.control.fd()
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
        if self.streams.up > 0 && self.settles_in > Nanos::ZERO {
            let settles_in = self.settles_in + self.control.round_trip();
            std::thread::sleep(settles_in.min(LONGEST_TO_SETTLE).into());
        }
        self.control.write(&State::TEST_END.0.to_be_bytes(), "TEST_END")?;
        self.control.expect(State::EXCHANGE_RESULTS)?;
        let own = results::of_client(sent, self.streams);
        self.control.write_json(&own, "the results")?;
        let text = self.control.read_results()?;
        let results = TestResults::parse(&text).map_err(|what| self.control.wrong(what))?;
        self.control.expect(State::DISPLAY_RESULTS)?;
        // The server has all that it needs; an error here changes no figure.
        let _ = self.control.write(&State::IPERF_DONE.0.to_be_bytes(), "IPERF_DONE");
        self.report(&results)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use serde_json::{Value, json};

    use super::*;
    use deadheat_base::error::Error;
    use deadheat_base::spec::{Settings, Spec};
    use deadheat_contract::workload::TaskInfo;
    use deadheat_datapath::transport::Info;
    use deadheat_datapath::transport::hello::Token;
    use deadheat_datapath::transport::plain::PlainProtocol;

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
        /// Sends a state that was due before, or is due later.
        IsAhead,
        /// Turns the client away.
        Denies,
        /// Sends a half of what is due, and closes.
        Halves,
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
                    Fault::IsAhead => drop(stream.write_all(&[16])),
                    Fault::Denies => drop(stream.write_all(&[255])),
                    Fault::Halves => {
                        let whole = frame(results);
                        let half = if step == Step::SendsResults { whole.len() / 2 } else { 0 };
                        drop(stream.write_all(&whole[..half]));
                        return parameters;
                    }
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
            over: PlainProtocol::TCP,
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
        let of_states = [Fault::Refuses, Fault::IsStopped, Fault::IsAhead, Fault::Denies];
        let of_all = [Fault::Closes, Fault::Hangs, Fault::Babbles];
        let of_results = [Fault::Halves];
        for (at, step) in SOUND.into_iter().enumerate() {
            let (Step::Sends(_) | Step::SendsResults) = step else { continue };
            let due = match step {
                Step::Sends(state) => state.to_string(),
                _ => State::EXCHANGE_RESULTS.to_string(),
            };
            let more = match step {
                Step::SendsResults => &of_results[..],
                _ => &of_states,
            };
            for fault in of_all.iter().chain(more).copied() {
                // A server that is busy when it is asked first is no fault.
                if due == "PARAM_EXCHANGE" && fault == Fault::Denies {
                    continue;
                }
                let said = match run(&upload(), Some((at, fault)), RESULTS).0 {
                    Err(error @ Error::Broken { .. }) => error.to_string(),
                    other => panic!("{due}, {fault:?}: {other:?}"),
                };
                assert!(said.contains(&format!("before {due}")), "{fault:?}: {said}");
                let what = match fault {
                    Fault::Closes | Fault::Halves => "closed the control connection",
                    Fault::Hangs => "it sent nothing for 300 ms",
                    Fault::Babbles if step == Step::SendsResults => "results have 1213486160 bytes",
                    Fault::Babbles => "it sent the unknown state 72",
                    Fault::Refuses => "its error 27, Invalid argument",
                    Fault::IsStopped => "its operator stopped it",
                    Fault::IsAhead => "it sent IPERF_DONE, which has no place here",
                    Fault::Denies => "turned the test away in the middle",
                };
                assert!(said.contains(what), "before {due}, {fault:?}: {said}");
            }
        }
    }

    #[test]
    fn both_ways_at_once_are_asked_for_and_counted_by_direction() {
        let flows = [Direction::Up, Direction::Up, Direction::Down, Direction::Down];
        let task = TaskInfo { flows: flows.map(Some).to_vec(), ..upload() };
        let four = r#"{"congestion_used":"bbr","streams":[{"id":1,"bytes":1},{"id":3,"bytes":2},
            {"id":4,"bytes":3},{"id":5,"bytes":4}]}"#;
        let (ended, parameters) = run(&task, None, four);
        let counts = ended.unwrap().unwrap();
        let by_flow = counts.halves.iter().map(|half| (half.received.bytes, half.sent.bytes));
        assert_eq!(by_flow.collect::<Vec<_>>(), [(1, 0), (2, 0), (0, 3), (0, 4)]);
        let parameters = parameters.unwrap();
        assert_eq!(parameters["bidirectional"], true);
        assert_eq!((&parameters["parallel"], parameters.get("reverse")), (&json!(2), None));
    }

    /// Where the server paces messages on a byte stream, its blocks are as long as they are.
    #[test]
    fn a_paced_download_has_blocks_as_long_as_its_messages() {
        let offered = TaskInfo {
            flows: vec![Some(Direction::Down)],
            most_bytes: Some(1_500_000),
            is_paced: true,
            ..upload()
        };
        let (ended, parameters) = run(&offered, None, RESULTS);
        assert_eq!(ended.unwrap().unwrap().halves[0].sent.messages, 10);
        let parameters = parameters.unwrap();
        assert_eq!(
            (&parameters["len"], &parameters["bandwidth"]),
            (&json!(100), &json!(8_000_000))
        );
    }

    #[test]
    fn a_message_while_the_work_runs_ends_the_test() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let mut server = TcpStream::connect(to).unwrap();
        let (near, _) = listener.accept().unwrap();
        server.write_all(&[9, 10, 1, 2, 11]).unwrap();
        let order = SessionOrder {
            to,
            token: Token::from_bytes([3; 16]),
            over: PlainProtocol::TCP,
            transport: &Info::KERNEL,
            knobs: &Settings::check(&Spec::parse("x").unwrap(), &[]).unwrap(),
            task: &upload(),
            patience: Nanos::from_secs(10),
        };
        let control = Control::over(near.into(), to, order.patience);
        let Ok(Some(control)) = control.admit(&cookie(&order.token)) else { panic!("admitted") };
        let mut test = begun(control, &order, None).unwrap();
        test.start().unwrap();
        let said = test.look().unwrap_err().to_string();
        assert!(said.contains("before TEST_END: its operator stopped it"), "{said}");
    }

    /// The server sends its number of the error alone.
    #[test]
    fn a_server_that_lets_nobody_in_says_what_it_wants() {
        for (user, said) in [(None, "wants a user name"), (Some("ann"), "does not let ann in")] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let to = listener.local_addr().unwrap();
            let mut server = TcpStream::connect(to).unwrap();
            let (near, _) = listener.accept().unwrap();
            server.write_all(&[254, 0, 0, 0, 142]).unwrap();
            server.shutdown(std::net::Shutdown::Write).unwrap();
            let mut control = Control::over(near.into(), to, Nanos::from_secs(10));
            user.into_iter().for_each(|user| control.log_in(user));
            let error = control.expect(State::CREATE_STREAMS).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
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
            over: PlainProtocol::TCP,
            transport: &Info::KERNEL,
            knobs: &Settings::check(&Spec::parse("x").unwrap(), &[]).unwrap(),
            task: &upload(),
            patience: Nanos::from_secs(10),
        };
        assert!(matches!(open(&order), Ok(FarOpening::Busy)));
        server.join().unwrap();
    }
}
