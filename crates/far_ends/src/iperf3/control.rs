//! Control connection of a test: states, one byte each, and JSON with its length in front.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use serde_json::Value;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::states::State;
use super::{FAR_END, login};
#[cfg(test)]
use crate::steps::{PeerFault, StepEnd, StepRow, byte_stream, drip, nowhere};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::{option, origin};
use deadheat_datapath::transport::handover::fill;
use deadheat_datapath::transport::step::{STEP_BYTES, StepBudget};

/// iperf3's number of the error that a user name or password was wrong, or missing (`IEAUTHTEST`).
const NOT_LET_IN: u32 = 142;

/// Reason why a server did not take a client.
pub(super) enum Refused {
    /// It may open its port anew just now.
    Anew(Error),
    /// It does otherwise than its protocol says, or this host fails.
    Wrong(Error),
}

/// Control connection, and the state that is awaited on it.
pub(super) struct Control {
    socket: Socket,
    to: SocketAddr,
    /// Bounds of each step.
    step: StepBudget,
    awaited: State,
    /// Name of the user, if the test is asked for with a password.
    user: Option<String>,
}

impl Control {
    /// Connects to a server.
    pub(super) fn connect(to: SocketAddr, patience: Nanos) -> Result<Control, Refused> {
        let failed = |e| {
            let label = FAR_END.info.label;
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
        Ok(Control::over(socket, to, patience))
    }

    /// Creates a control connection over a socket that is connected to `to`.
    pub(super) fn over(socket: Socket, to: SocketAddr, patience: Nanos) -> Control {
        let step = StepBudget::of(patience);
        Control { socket, to, step, awaited: State::PARAM_EXCHANGE, user: None }
    }

    /// Returns its descriptor.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Notes the name of the user for whom the test is asked for.
    pub(super) fn log_in(&mut self, user: &str) {
        self.user = Some(user.to_owned());
    }

    /// Returns the time in which nearly every packet of the path comes through: the smoothed round trip of this
    /// connection and four times its variation, as of a retransmission timeout (RFC 6298, 2.3); zero if the kernel does not
    /// say.
    pub(super) fn round_trip(&self) -> Nanos {
        // Words of `struct tcp_info`, in microseconds (include/uapi/linux/tcp.h).
        const RTT: usize = 17;
        const VARIATION: usize = 18;
        let mut info = [0; VARIATION + 1];
        let words = option::get(self.fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut info);
        match words {
            Some(words) if words > VARIATION => {
                Nanos::from_micros(u64::from(info[RTT]) + 4 * u64::from(info[VARIATION]))
            }
            _ => Nanos::ZERO,
        }
    }

    /// Presents the cookie; returns `None` if the server tests with another client.
    pub(super) fn admit(self, cookie: &[u8]) -> Result<Option<Control>, Refused> {
        let mut byte = [0];
        let answered = (&self.socket)
            .write_all(cookie)
            .and_then(|()| fill(&self.socket, &mut byte, self.deadline()));
        match answered {
            Err(e) if is_closed(&e) => {
                return Err(Refused::Anew(self.wrong("it closed the control connection")));
            }
            Err(e) => {
                let what = format!("the control connection failed ({e})");
                return Err(Refused::Wrong(self.wrong(what)));
            }
            Ok(0) => {
                let what = format!("it sent nothing for {}", self.step.time());
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
    pub(super) fn wrong(&self, what: impl Into<String>) -> Error {
        Error::broken(format!("iperf3 at {}, before {}", self.to, self.awaited), what)
    }

    /// Sends `bytes`, which are `what`.
    pub(super) fn write(&self, bytes: &[u8], what: &str) -> Result<()> {
        (&self.socket)
            .write_all(bytes)
            .map_err(|e| self.wrong(format!("it does not take {what} ({e})")))
    }

    /// Sends `value`, which is `what`, with its length in front.
    pub(super) fn write_json(&self, value: &Value, what: &str) -> Result<()> {
        let text = value.to_string();
        let mut frame = (text.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(text.as_bytes());
        self.write(&frame, what)
    }

    /// Returns the time at which a step that begins now is over.
    fn deadline(&self) -> Nanos {
        self.step.deadline(Monotonic.now())
    }

    fn read(&self, into: &mut [u8], deadline: Nanos) -> Result<()> {
        let (wanted, patience) = (into.len(), self.step.time());
        match fill(&self.socket, into, deadline) {
            Ok(have) if have == wanted => Ok(()),
            Ok(0) => Err(self.wrong(format!("it sent nothing for {patience}"))),
            Ok(have) => Err(self.wrong(format!("it sent {have} of {wanted} bytes in {patience}"))),
            Err(e) if is_closed(&e) => Err(self.wrong("it closed the control connection")),
            Err(e) => Err(self.wrong(format!("the control connection failed ({e})"))),
        }
    }

    /// Reads the next state, while `awaited` is due; errors of the server are errors here.
    pub(super) fn state(&mut self, awaited: State) -> Result<State> {
        self.awaited = awaited;
        let mut byte = [0];
        self.read(&mut byte, self.deadline())?;
        self.taken(byte)
    }

    fn taken(&self, byte: [u8; 1]) -> Result<State> {
        match State(i8::from_be_bytes(byte)) {
            State::SERVER_ERROR => Err(self.server_error()),
            State::SERVER_TERMINATE => Err(self.wrong("its operator stopped it")),
            state => Ok(state),
        }
    }

    /// Reads the next state, which must be `awaited`.
    pub(super) fn expect(&mut self, awaited: State) -> Result<()> {
        match self.state(awaited)? {
            state if state == awaited => Ok(()),
            state => Err(self.unexpected(state)),
        }
    }

    /// Returns the error of a state that has no place now.
    pub(super) fn unexpected(&self, state: State) -> Error {
        self.wrong(match state {
            State::ACCESS_DENIED => "it turned the test away in the middle".to_owned(),
            state => format!("it sent {state}, which has no place here; is it an iperf3 server?"),
        })
    }

    /// Reads the numbers that follow a server's error: iperf3's own, and the system's, which not every error has.
    fn server_error(&self) -> Error {
        let deadline = self.deadline();
        let number = || {
            let mut bytes = [0; 4];
            let have = fill(&self.socket, &mut bytes, deadline);
            (have.ok() == Some(bytes.len())).then(|| u32::from_be_bytes(bytes))
        };
        let Some(own) = number() else {
            return self.wrong("it refused the test and gave no reason; its own output says more");
        };
        if own == NOT_LET_IN {
            return login::refused(self.to, self.user.as_deref());
        }
        let system = match number() {
            Some(errno @ 1..) => format!(", {}", io::Error::from_raw_os_error(errno as i32)),
            _ => String::new(),
        };
        let what =
            format!("it refused the test with its error {own}{system}; its own output says more");
        self.wrong(what)
    }

    /// Reads the results, as text.
    pub(super) fn read_results(&self) -> Result<Vec<u8>> {
        let (mut len, deadline) = ([0; 4], self.deadline());
        self.read(&mut len, deadline)?;
        let len = u32::from_be_bytes(len) as usize;
        { self.step }.take(len).map_err(|_| {
            self.wrong(format!("its results have {len} bytes; {STEP_BYTES} are the most"))
        })?;
        let mut text = vec![0; len];
        self.read(&mut text, deadline)?;
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

/// Returns the rows of all steps, for the table of all far ends: each is a state, or the results.
#[cfg(test)]
pub(crate) fn steps() -> Vec<StepRow> {
    use PeerFault::{Endless, Garbage, LyingLength, Silent};
    const SHORT: Nanos = Nanos::from_millis(100);
    type Read = fn(&mut Control) -> Result<()>;
    let state: Read = |control| control.expect(State::TEST_START);
    let results: Read = |control| {
        let text = control.read_results()?;
        super::results::TestResults::parse(&text).map(drop).map_err(|why| control.wrong(why))
    };
    let row = |step, fault, read: Read, bytes: &'static [u8]| StepRow {
        protocol: "iperf3",
        step,
        fault,
        run: Box::new(move || {
            let (near, far) = byte_stream();
            let mut control = Control::over(near, nowhere(), SHORT);
            let far = match fault {
                Endless => {
                    drip(far, bytes.to_vec());
                    None
                }
                _ => {
                    far.send(bytes).unwrap();
                    Some(far)
                }
            };
            let began = Monotonic.now();
            let why = read(&mut control).unwrap_err().to_string();
            drop(far);
            if matches!(fault, Silent | Endless) {
                assert!(Monotonic.now() - began >= SHORT, "{why}");
            }
            StepEnd { why, took: Nanos::ZERO, bytes: bytes.len() }
        }),
    };
    vec![
        row("a state", Silent, state, b""),
        row("a state", Garbage, state, b"HTTP/1.1 400 Bad Request\r\n"),
        row("the reason of a refusal", Silent, state, &[254]),
        row("the results", Silent, results, b""),
        row("the results", Silent, results, &[0, 0, 1]),
        row("the results", Endless, results, &[0, 0x0f]),
        row("the results", LyingLength, results, &[0xff, 0xff, 0xff, 0xff, b'{']),
        row("the results", LyingLength, results, &[0, 0, 0, 9, b'{', b'}']),
        row("the results", Garbage, results, &[0, 0, 0, 2, b'[', b'z']),
    ]
}
