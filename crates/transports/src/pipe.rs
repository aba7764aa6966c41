//! Two pipes (pipe(7)), one for each direction: the cost of moving bytes between two processes without a socket.
//!
//! The two ends meet on a Unix socket, as in `unix`. The far end makes the pipes and hands one end of each over
//! (`SCM_RIGHTS`); then the socket is not needed any more.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use socket2::{Socket, Type};

use crate::stream::{self, Flavour, FlavourFacts, StreamEngines, check_engine};
use crate::unix::{check, dial_stream, listen_stream, refuse_handed};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::Optional;
use deadheat_base::spec::{Key, Kind, Settings};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Congestion, Guarantees, Reach, Side};
use deadheat_datapath::datapath::pipe::{self, Pipe};
use deadheat_datapath::transport::handover::HandOver;
use deadheat_datapath::transport::{
    Conn, Dial, Effective, Info, Listen, Listener, Place, Transport, frame,
};

/// Pairs of pipes.
pub(super) struct Pipes;

static INFO: Info = Info {
    id: "pipe",
    label: "Pipe",
    colour: "#cc79a7",
    summary: "two pipes: a byte stream inside one machine without a socket",
    guarantees: Guarantees { congestion: Congestion::Backpressure, ..Guarantees::BYTE_STREAM },
    reach: Reach::Machine,
    framing_bytes: frame::PREFIX,
    keys: KEYS,
    ..Info::KERNEL
};

const KEYS: &[Key] = &[
    CAPACITY.key(),
    Key {
        kind: Kind::Choice(&["write", "writev", "vmsplice", "splice"]),
        doc: "how bulk data is sent: write: write(2); writev: the same in 16 pieces; vmsplice: \
              the application's pages; splice: a file's pages",
        ..stream::IO.key()
    },
    Key {
        kind: Kind::Choice(&["read", "splice"]),
        doc: "how bulk data is received: read: read(2); splice: into the sink's file or \
              /dev/null",
        ..stream::RX.key()
    },
];

const CAPACITY: Optional<Bytes> = Optional::size("capacity", (4096, 1 << 30)).doc(
    "bytes a pipe holds (F_SETPIPE_SZ, rounded up to a power of two pages); not set: 64 \
     KiB, the kernel's default",
);

/// Time that the near end waits for its pipes after the welcome.
const HAND_OVER: Nanos = Nanos::from_secs(2);

impl Transport for Pipes {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        check(INFO.id, Type::STREAM)
    }

    fn check_knob(&self, key: &str, value: &str, _: Place) -> Result<()> {
        check_engine(INFO.id, key, value, || {
            let pipe = Pipe::open()?;
            pipe::Pipes::new(pipe.reader, pipe.writer)
        })
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        dial_stream(dial, PipeOptions::from(dial.knobs))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        refuse_handed(INFO.id, &listen.door)?;
        let options = PipeOptions::from(listen.knobs);
        options.try_capacity()?;
        listen_stream(&listen, options)
    }
}

/// Knobs as pipes take them.
#[derive(Debug, Clone)]
struct PipeOptions {
    capacity: Option<usize>,
    engines: StreamEngines,
}

impl From<&Settings> for PipeOptions {
    fn from(knobs: &Settings) -> PipeOptions {
        let capacity = knobs.find(&CAPACITY).and_then(|size| usize::try_from(size.0).ok());
        PipeOptions { capacity, engines: StreamEngines::from(knobs) }
    }
}

impl PipeOptions {
    fn pipe(&self) -> io::Result<Pipe> {
        let pipe = Pipe::open()?;
        if let Some(capacity) = self.capacity {
            pipe::set_capacity(pipe.writer.as_fd(), capacity)?;
        }
        Ok(pipe)
    }

    /// Checks, before anything dials, that a pipe may have the requested capacity.
    fn try_capacity(&self) -> Result<()> {
        self.pipe().map(drop).map_err(|e| match (self.capacity, e.kind()) {
            (Some(capacity), io::ErrorKind::PermissionDenied) => Error::unsupported(
                format!("pipe:capacity={capacity}"),
                format!("above fs.pipe-max-size, which only root may pass: {e}"),
            ),
            _ => Error::setup("make a pipe", e),
        })
    }
}

/// Returns the next pipe end that the far end hands over.
fn take(door: &HandOver, deadline: Nanos) -> io::Result<OwnedFd> {
    loop {
        let now = Monotonic.now();
        if let Some(end) = door.take_fd(deadline - now)? {
            return Ok(end);
        }
        if now >= deadline {
            let why = format!("the far end handed no pipe over in {HAND_OVER}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
    }
}

impl Flavour for PipeOptions {
    type Channel = pipe::Pipes;

    fn facts(&self) -> FlavourFacts {
        FlavourFacts::moved_by(self.engines)
    }

    fn apply(&self, _socket: &Socket) -> Result<()> {
        Ok(())
    }

    fn open(&self, socket: Socket, side: Side) -> io::Result<pipe::Pipes> {
        let door = HandOver::from_fd(OwnedFd::from(socket));
        match side {
            Side::Far => {
                let (up, down) = (self.pipe()?, self.pipe()?);
                door.give_fd(down.reader.as_fd())?;
                door.give_fd(up.writer.as_fd())?;
                pipe::Pipes::new(up.reader, down.writer)
            }
            Side::Near => {
                let deadline = Monotonic.now() + HAND_OVER;
                let (reader, writer) = (take(&door, deadline)?, take(&door, deadline)?);
                pipe::Pipes::new(reader, writer)
            }
        }
    }

    fn effective(&self, pipes: &pipe::Pipes) -> Effective {
        [("capacity".to_owned(), pipes.capacity().to_string())].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ConnRig, knobs};
    use deadheat_contract::contract::{Inbox, Lane, Patience};
    use deadheat_datapath::transport::{Address, Progress};

    const LARGEST: usize = 200_000;

    fn ends(typed: &str) -> [Box<dyn Conn>; 2] {
        let knobs = knobs(typed, KEYS);
        ConnRig::ordered(&Pipes, &knobs, LARGEST).ends(&Address::Unix(String::new()))
    }

    #[derive(Default)]
    struct Lengths(Vec<usize>);

    impl Inbox for Lengths {
        fn message(&mut self, _lane: Lane, bytes: &[u8]) {
            self.0.push(bytes.len());
        }
    }

    #[test]
    fn both_directions_hold_what_was_asked() {
        let [near, far] = ends("pipe:capacity=100000");
        for end in [near, far] {
            assert_eq!(end.effective()["capacity"], "131072");
        }
        assert_eq!(ends("pipe")[0].effective()["capacity"], "65536");
    }

    #[test]
    fn a_message_larger_than_the_pipe_waits_and_is_looked_after() {
        let [mut near, mut far] = ends("pipe");
        assert_eq!(near.next_deadline(), None);
        assert_eq!(near.send(Lane(0), &vec![1; LARGEST]).unwrap(), Progress::Moved);
        assert!(near.readiness().has_backlog);
        let due = near.next_deadline().unwrap();
        assert!(due < Monotonic.now() + Nanos::from_millis(1), "nothing else shows room");
        let mut inbox = Lengths::default();
        while inbox.0.is_empty() {
            far.receive(Patience::None, &mut inbox).unwrap();
            near.flush().unwrap();
        }
        assert_eq!(inbox.0, [LARGEST]);
        assert_eq!((near.readiness().has_backlog, near.next_deadline()), (false, None));
    }

    #[test]
    fn a_far_end_that_hands_nothing_over_is_an_error_in_time() {
        let (near, far) = HandOver::pair().unwrap();
        let soon = Monotonic.now() + Nanos::from_millis(10);
        assert_eq!(take(&near, soon).unwrap_err().kind(), io::ErrorKind::TimedOut);
        far.give_stream(1, near.as_fd()).unwrap();
        assert_eq!(take(&near, soon).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(far);
        assert_eq!(take(&near, soon).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
