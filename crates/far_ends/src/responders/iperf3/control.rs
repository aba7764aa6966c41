//! Control connection of a test: states, numbers and JSON, each with a deadline.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use deadheat_base::descriptor::ready;
use serde_json::Value;
use socket2::{SockRef, TcpKeepalive};

use crate::iperf3::states::State;
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Longest time for a message to leave, and for a client to close.
const TO_SEND: Nanos = Nanos::from_secs(5);
const TO_CLOSE: Nanos = Nanos::from_secs(2);

/// Silence after which the kernel asks whether the client is there, the pause between its questions, and their number.
const ASK_AFTER: Duration = Duration::from_secs(2);
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_TIMES: u32 = 3;

/// Failure of a test.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TestFailure {
    /// Refused by a limit or by the protocol: a number of iperf3's (`iperf_api.h`), and the reason in words.
    Refused(u32, String),
    /// Late: the client did not go on, or did not end, in time.
    Late(String),
    /// Gone: the client closed or broke its connection, or ended the test.
    Gone(String),
    /// Stopped by the operator of this server.
    Stopped,
}

impl fmt::Display for TestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TestFailure::Refused(number, why) => write!(f, "{why} (iperf3's error {number})"),
            TestFailure::Late(why) | TestFailure::Gone(why) => f.write_str(why),
            TestFailure::Stopped => f.write_str("told to stop"),
        }
    }
}

impl TestFailure {
    fn gone(error: &io::Error) -> TestFailure {
        TestFailure::Gone(format!("the client left: {error}"))
    }
}

/// Control connection.
pub(super) struct ControlLine<'a> {
    stream: TcpStream,
    stop: BorrowedFd<'a>,
}

impl<'a> ControlLine<'a> {
    /// Sets up a nonblocking connection, so that a client that vanishes is noticed within five seconds.
    pub(super) fn new(stream: TcpStream, stop: BorrowedFd<'a>) -> ControlLine<'a> {
        let socket = SockRef::from(&stream);
        let keepalive = TcpKeepalive::new()
            .with_time(ASK_AFTER)
            .with_interval(ASK_EVERY)
            .with_retries(ASK_TIMES);
        // A connection that takes no options is gone, which the next message shows.
        let _ = socket.set_tcp_nodelay(true);
        let _ = socket.set_tcp_keepalive(&keepalive);
        let _ = socket.set_tcp_user_timeout(Some(TO_SEND.into()));
        ControlLine { stream, stop }
    }

    /// Returns the descriptor, readable when the client speaks.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Returns the descriptor that is readable once the server stops.
    pub(super) fn stop(&self) -> BorrowedFd<'a> {
        self.stop
    }

    /// Sends a state.
    pub(super) fn say(&self, state: State) -> Result<(), TestFailure> {
        self.send(&state.0.to_be_bytes())
    }

    /// Receives a state before `deadline`.
    pub(super) fn state(&self, deadline: Nanos) -> Result<State, TestFailure> {
        let mut byte = [0];
        self.fill(&mut byte, deadline)?;
        Ok(State(byte[0] as i8))
    }

    /// Receives JSON of at most `most` bytes, with its length in front.
    pub(super) fn json(&self, most: u32, deadline: Nanos) -> Result<Value, TestFailure> {
        let mut len = [0; 4];
        self.fill(&mut len, deadline)?;
        let len = u32::from_be_bytes(len);
        if len == 0 || len > most {
            return Err(TestFailure::Gone(format!(
                "the client sent JSON of {len} bytes (1 to {most} expected)"
            )));
        }
        let mut text = vec![0; len as usize];
        self.fill(&mut text, deadline)?;
        serde_json::from_slice(&text).map_err(|e| {
            TestFailure::Gone(format!("the client sent JSON that cannot be read: {e}"))
        })
    }

    /// Sends JSON with its length in front.
    pub(super) fn send_json(&self, value: &Value) -> Result<(), TestFailure> {
        let text = value.to_string();
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.send(&[&len.to_be_bytes()[..], text.as_bytes()].concat())
    }

    /// Tells the client why the test ends, as far as its protocol has a way to; then closes.
    pub(super) fn close(self, failure: &TestFailure) {
        let told = match failure {
            TestFailure::Refused(number, _) => {
                let state = State::SERVER_ERROR.0.to_be_bytes();
                self.send(&[&state[..], &number.to_be_bytes(), &[0; 4]].concat())
            }
            TestFailure::Late(_) | TestFailure::Stopped => self.say(State::SERVER_TERMINATE),
            TestFailure::Gone(_) => return,
        };
        if told.is_ok() && self.stream.shutdown(Shutdown::Write).is_ok() {
            self.see_off(TO_CLOSE);
        }
    }

    /// Reads and drops what the client still sends until it closes: closing with unread bytes would be a reset, which can
    /// overtake the last message (tcp(7)).
    pub(super) fn see_off(&self, patience: Nanos) {
        let deadline = Monotonic.now() + patience;
        let mut rest = [0; 4_096];
        while self.fill(&mut rest, deadline).is_ok() {}
    }

    fn fill(&self, into: &mut [u8], deadline: Nanos) -> Result<(), TestFailure> {
        let mut have = 0;
        while have < into.len() {
            match (&self.stream).read(&mut into[have..]) {
                Ok(0) => return Err(TestFailure::Gone("the client closed its connection".into())),
                Ok(len) => have += len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(libc::POLLIN, deadline)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(TestFailure::gone(&e)),
            }
        }
        Ok(())
    }

    fn send(&self, mut bytes: &[u8]) -> Result<(), TestFailure> {
        let deadline = Monotonic.now() + TO_SEND;
        while !bytes.is_empty() {
            match (&self.stream).write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(libc::POLLOUT, deadline)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(TestFailure::gone(&e)),
            }
        }
        Ok(())
    }

    fn wait(&self, events: libc::c_short, deadline: Nanos) -> Result<(), TestFailure> {
        let left = deadline - Monotonic.now();
        if left == Nanos::ZERO {
            return Err(TestFailure::Late("the client did not go on in time".into()));
        }
        let fds = [(self.stream.as_fd(), events), (self.stop, libc::POLLIN)];
        match ready(fds, Some(left)) {
            // A stop counts only where the client has nothing to say.
            Ok(found) if found[1] && !found[0] => Err(TestFailure::Stopped),
            Ok(_) => Ok(()),
            Err(e) => Err(TestFailure::gone(&e)),
        }
    }
}
