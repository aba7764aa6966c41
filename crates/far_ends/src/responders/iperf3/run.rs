//! Run of one test, from the turn to the last state.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use deadheat_base::descriptor::ready;

use super::asked::{AskedTest, StreamProtocol, TOTAL_RATE};
use super::control::{ControlLine, TestFailure};
use super::course::{Course, CourseEnd};
use super::datagrams::DatagramStreams;
use super::outcome::{CpuTime, Outcome};
use super::streams;
use super::threads::OpenStreams;
use crate::iperf3::states::State;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::answering::AnswerSocket;
use deadheat_datapath::transport::responder::{ResponderHost, TestGrant};

/// Largest JSON of a client: its parameters, and its results.
const MOST_PARAMETERS: u32 = 64 << 10;
const MOST_RESULTS: u32 = 1 << 20;

/// Time for each further stream to open.
const TO_OPEN: Nanos = Nanos::from_millis(250);

/// Time for the end of a test beyond its own, and for each message after it.
const GRACE: Nanos = Nanos::from_secs(5);
const STEP: Nanos = Nanos::from_secs(10);

/// Interval of looks at streams that are still missing, and at the server's stop.
const LOOK: Nanos = Nanos::from_millis(20);

/// Stream of a test, with its place among all connections.
pub(super) struct StreamArrival {
    pub(super) stream: TcpStream,
    pub(super) order: u64,
}

/// Test of one client.
pub(super) struct TestRun<'a> {
    pub(super) control: ControlLine<'a>,
    pub(super) peer: SocketAddr,
    /// Address of the port.
    pub(super) here: SocketAddr,
    pub(super) host: &'a dyn ResponderHost,
    pub(super) udp: &'a AnswerSocket,
    pub(super) arrivals: Receiver<StreamArrival>,
}

impl TestRun<'_> {
    /// Runs the test in its turn, or refuses it for a reason; the client and the log have the reason where it fails.
    pub(super) fn run(self, grant: Result<Box<dyn TestGrant + '_>, String>) {
        let grant = match grant {
            Ok(grant) => grant,
            Err(why) => {
                self.host.note(self.peer, &format!("refused: {why}"));
                return self.control.close(&TestFailure::Refused(TOTAL_RATE, why));
            }
        };
        grant.hold();
        if let Err(failure) = self.test(&*grant) {
            grant.fail(&failure.to_string());
            // The turn is free while the client is seen off.
            drop(grant);
            self.control.close(&failure);
        }
    }

    fn test(&self, grant: &dyn TestGrant) -> Result<(), TestFailure> {
        let limits = grant.limits();
        let deadline = Monotonic.now() + limits.begin;
        self.control.say(State::PARAM_EXCHANGE)?;
        let asked = AskedTest::read(&self.control.json(MOST_PARAMETERS, deadline)?, &limits)?;
        let open = match asked.over {
            StreamProtocol::Tcp => {
                self.control.say(State::CREATE_STREAMS)?;
                OpenStreams::Tcp(self.tcp_streams(&asked, limits.begin)?)
            }
            StreamProtocol::Udp => {
                let mut open = DatagramStreams::expect(self.udp, self.peer.ip());
                self.control.say(State::CREATE_STREAMS)?;
                self.udp_streams(&asked, &mut open, limits.begin)?;
                OpenStreams::Udp(open, self.here)
            }
        };
        self.exchange(&self.course(grant, &asked, &open)?)
    }

    /// Waits for the TCP streams; they are in the order of their connections then.
    fn tcp_streams(&self, asked: &AskedTest, begin: Nanos) -> Result<Vec<TcpStream>, TestFailure> {
        let wanted: usize = asked.receiving_and_sending().iter().sum();
        let mut arrived = Vec::with_capacity(wanted);
        self.await_streams(wanted, begin, &mut || {
            match self.arrivals.recv_timeout(LOOK.into()) {
                Ok(arrival) => arrived.push(arrival),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            arrived.len()
        })?;
        arrived.sort_by_key(|arrival: &StreamArrival| arrival.order);
        let streams = arrived.into_iter().map(|arrival| {
            streams::set_up(&arrival.stream, asked)?;
            Ok(arrival.stream)
        });
        streams
            .collect::<std::io::Result<_>>()
            .map_err(|e| TestFailure::Gone(format!("a stream cannot be set up: {e}")))
    }

    fn udp_streams(
        &self,
        asked: &AskedTest,
        open: &mut DatagramStreams<'_>,
        begin: Nanos,
    ) -> Result<(), TestFailure> {
        let wanted = asked.receiving_and_sending().iter().sum();
        self.await_streams(wanted, begin, &mut || {
            // The look at control notices what goes wrong.
            let _ = ready([(self.udp.as_fd(), libc::POLLIN)], Some(LOOK));
            open.accept(wanted);
            open.streams.len()
        })
    }

    /// Calls `more`, which waits a little and returns the number of streams, until there are as many as wanted.
    fn await_streams(
        &self,
        wanted: usize,
        begin: Nanos,
        more: &mut dyn FnMut() -> usize,
    ) -> Result<(), TestFailure> {
        let deadline = Monotonic.now() + begin + Nanos(TO_OPEN.0 * wanted as u64);
        loop {
            let have = more();
            if have >= wanted {
                return Ok(());
            }
            if Monotonic.now() >= deadline {
                return Err(TestFailure::Late(format!("{have} of {wanted} streams opened")));
            }
            let fds = [self.control.as_fd(), self.control.stop()].map(|fd| (fd, libc::POLLIN));
            match ready(fds, Some(Nanos::ZERO)) {
                Ok(found) if found[1] => return Err(TestFailure::Stopped),
                // The client has nothing to say before its streams are open.
                Ok(found) if found[0] => {
                    let said = self.control.state(deadline)?;
                    self.ended(said)?;
                    let why = "the client ended the test before its streams were open";
                    return Err(TestFailure::Gone(why.into()));
                }
                _ => {}
            }
        }
    }

    /// Runs the threads of the streams until the client ends the test, or it has to end.
    fn course(
        &self,
        grant: &dyn TestGrant,
        asked: &AskedTest,
        open: &OpenStreams<'_>,
    ) -> Result<Outcome, TestFailure> {
        self.control.say(State::TEST_START)?;
        self.control.say(State::TEST_RUNNING)?;
        grant.begun(&asked.to_string());
        let fault = |e| TestFailure::Gone(format!("the threads of the test cannot start: {e}"));
        let (course, end) = Course::begin(grant, asked.omit).map_err(fault)?;
        let mut cpu = CpuTime::of_thread();
        let mut all = Vec::new();
        let (ended, took) = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut ended = Ok(());
            for started in open.start(scope, asked, &course) {
                match started {
                    Ok(thread) => threads.push(thread),
                    Err(e) => ended = Err(fault(e)),
                }
            }
            let ended = ended.and_then(|()| self.watch(grant, asked, &course, &end));
            let took = Monotonic.now() - course.begin;
            course.end(end);
            for thread in threads {
                // A thread that panicked has no counts, and its stream is missing below.
                if let Ok((tallies, used)) = thread.join() {
                    all.extend(tallies);
                    cpu = cpu.beside(used);
                }
            }
            (ended, took)
        });
        ended?;
        if let Some(failure) = course.failure() {
            return Err(failure);
        }
        all.sort_by_key(|(at, _)| *at);
        let streams = all.into_iter().map(|(_, tally)| tally).collect();
        let counted = took - (course.counts_from - course.begin);
        let (asked, congestion) = (asked.clone(), open.congestion(asked));
        Ok(Outcome { asked, streams, cpu, took, counted, congestion })
    }

    /// Waits until the client ends the test.
    fn watch(
        &self,
        grant: &dyn TestGrant,
        asked: &AskedTest,
        course: &Course<'_>,
        end: &CourseEnd,
    ) -> Result<(), TestFailure> {
        let longest = grant.limits().duration;
        let planned = asked.time.map_or(longest, |time| time + asked.omit);
        let deadline =
            course.begin + planned + if asked.time.is_some() { GRACE } else { Nanos::ZERO };
        loop {
            let left = deadline - Monotonic.now();
            if left == Nanos::ZERO {
                return Err(TestFailure::Late(format!("the test did not end within {longest}")));
            }
            let fds = [self.control.as_fd(), self.control.stop(), end.alarm()];
            let found = ready(fds.map(|fd| (fd, libc::POLLIN)), Some(left));
            let found =
                found.map_err(|e| TestFailure::Gone(format!("it cannot be waited for: {e}")))?;
            if found[0] {
                return self.ended(self.control.state(deadline)?);
            }
            if found[1] {
                return Err(TestFailure::Stopped);
            }
            if let Some(failure) = found[2].then(|| course.failure()).flatten() {
                return Err(failure);
            }
        }
    }

    /// Judges a state that a client sends unasked.
    fn ended(&self, state: State) -> Result<(), TestFailure> {
        match state {
            State::TEST_END => Ok(()),
            State::CLIENT_TERMINATE => Err(TestFailure::Gone("the client ended the test".into())),
            other => Err(TestFailure::Gone(format!("the client sent {other} amid the test"))),
        }
    }

    /// Exchanges results, and waits for the client's last word.
    fn exchange(&self, outcome: &Outcome) -> Result<(), TestFailure> {
        let deadline = || Monotonic.now() + STEP;
        self.control.say(State::EXCHANGE_RESULTS)?;
        self.control.json(MOST_RESULTS, deadline())?;
        let (ip, port) = (self.peer.ip(), self.peer.port());
        let heading = format!("Accepted connection from {ip}, port {port}");
        self.control.send_json(&outcome.to_json(&heading))?;
        self.control.say(State::DISPLAY_RESULTS)?;
        // The client has all; one that closes without its last state has, too.
        let _ = self.control.state(deadline());
        Ok(())
    }
}
