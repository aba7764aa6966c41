//! Receiving bulk bytes from a byte stream: one engine for each way the kernel has.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;

use super::buffer::prefaulted;
use super::call::{self, End};
use super::channel::{Channel, no_sigpipe};
use super::pipe::Pipe;
use super::uring::{Parts, ReceiveOutcome, RingReceiver};
use deadheat_contract::contract::{FileAt, Patience, Sink};

/// Buffer size of one reading call, in bytes. On loopback 512 KiB moved 15 % more than 128 KiB, and larger buffers
/// no more: fewer calls, while the copied bytes still fit a core's second-level cache.
const READ_ROOM: usize = 512 * 1024;

/// Largest number of bytes of one call that copies nothing. On loopback 1 MiB moved 8 % less: a receiver that
/// empties the socket in one call sleeps more often, and each wake-up costs the sender time.
const UNCOPIED_ROOM: usize = 128 * 1024;

/// Method by which an end receives bulk bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveBy {
    /// recv(2) on a socket, read(2) on a pipe.
    Read,
    /// recv(2) with `MSG_TRUNC`: TCP drops the bytes without a copy (tcp(7)).
    Trunc,
    /// splice(2): into the sink's file, or to /dev/null, through a pipe if it reads from a socket.
    Splice,
    /// Multishot request of io_uring(7) that fills buffer after buffer, handed over without a further copy.
    Uring,
}

/// Receiver of bulk bytes by one method.
#[derive(Debug)]
pub struct Drain {
    engine: DrainEngine,
}

#[derive(Debug)]
enum DrainEngine {
    Read(Box<[u8]>),
    Trunc,
    Splice(File),
    SpliceThrough(File, Pipe),
    Uring(Box<RingReceiver>),
}

impl Drain {
    /// Creates a drain for channels of one kind.
    ///
    /// # Errors
    /// The error of the kernel where it gives no pipe, or no /dev/null.
    pub fn new<C: Channel>(by: ReceiveBy) -> io::Result<Drain> {
        no_sigpipe();
        let nowhere = || OpenOptions::new().write(true).open("/dev/null");
        let engine = match (by, C::IS_PIPE) {
            (ReceiveBy::Read, _) => DrainEngine::Read(prefaulted(READ_ROOM)),
            (ReceiveBy::Trunc, _) => DrainEngine::Trunc,
            (ReceiveBy::Splice, true) => DrainEngine::Splice(nowhere()?),
            (ReceiveBy::Splice, false) => DrainEngine::SpliceThrough(nowhere()?, Pipe::largest()?),
            (ReceiveBy::Uring, _) => {
                DrainEngine::Uring(Box::new(RingReceiver::new(Parts::Stream)?))
            }
        };
        Ok(Drain { engine })
    }

    /// Makes one receiving call and hands over, or counts, the bytes received. Returns their number, zero if the
    /// peer has ended its direction, `None` if there was nothing to receive.
    ///
    /// # Errors
    /// The error of the system calls; `Unsupported` where the sink needs the bytes and this method does not show
    /// them.
    #[inline]
    pub fn step<C: Channel>(
        &mut self,
        channel: &mut C,
        patience: Patience,
        sink: &mut dyn Sink,
    ) -> io::Result<Option<usize>> {
        match &mut self.engine {
            DrainEngine::Read(own) => {
                if let Some(room) = sink.room() {
                    let got = channel.receive(room, patience)?;
                    return Ok(counted(got, sink));
                }
                let got = channel.receive(own, patience)?;
                if let Some(got @ 1..) = got {
                    sink.take(&own[..got]);
                }
                Ok(got)
            }
            DrainEngine::Trunc => {
                if sink.file().is_some() {
                    return Err(unsuited("rx=trunc", "writes a file"));
                }
                uncopied(sink, "rx=trunc")?;
                let got = channel.discard(UNCOPIED_ROOM, patience)?;
                Ok(counted(got, sink))
            }
            DrainEngine::Splice(nowhere) => {
                uncopied(sink, "rx=splice")?;
                let to = place(sink, nowhere, 0);
                let now = libc::SPLICE_F_NONBLOCK;
                let got = channel.pull(patience, |from| {
                    call::splice(End::Stream(from), to, UNCOPIED_ROOM, now)
                })?;
                Ok(counted(got, sink))
            }
            DrainEngine::SpliceThrough(nowhere, pipe) => {
                uncopied(sink, "rx=splice")?;
                let into = End::Stream(pipe.writer.as_fd());
                let got = channel.pull(patience, |from| {
                    call::splice(End::Stream(from), into, UNCOPIED_ROOM, 0)
                })?;
                let mut left = got.unwrap_or(0);
                while left > 0 {
                    let to = place(sink, nowhere, got.unwrap_or(0) - left);
                    channel.count().receive += 1;
                    left -= pass_on(pipe, to, left)?;
                }
                Ok(counted(got, sink))
            }
            DrainEngine::Uring(receiver) => through_ring(receiver, channel, patience, sink),
        }
    }
}

fn through_ring<C: Channel>(
    receiver: &mut RingReceiver,
    channel: &mut C,
    patience: Patience,
    sink: &mut dyn Sink,
) -> io::Result<Option<usize>> {
    if sink.room().is_some() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the workload receives into memory of its own, and rx=uring into the buffers of its ring; \
             use rx=read",
        ));
    }
    let before = receiver.calls();
    let received = receiver.receive(channel.inlet(), patience);
    channel.count().receive += receiver.calls() - before;
    Ok(match received? {
        ReceiveOutcome::Nothing => None,
        ReceiveOutcome::Closed => Some(0),
        ReceiveOutcome::Some(_) => {
            let mut got = 0;
            receiver.take(|bytes| {
                got += bytes.len();
                sink.take(bytes);
            });
            Some(got)
        }
    })
}

fn counted(got: Option<usize>, sink: &mut dyn Sink) -> Option<usize> {
    if let Some(got @ 1..) = got {
        sink.pass(got as u64);
    }
    got
}

/// Refuses a sink that must have the bytes in memory.
fn uncopied(sink: &mut dyn Sink, way: &str) -> io::Result<()> {
    match sink.room() {
        None => Ok(()),
        Some(_) => Err(unsuited(way, "receives into memory of its own")),
    }
}

fn unsuited(way: &str, wants: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("the workload {wants}, and {way} brings it no bytes; use rx=read"),
    )
}

/// Returns the destination of the byte that is `ahead` bytes after the next one.
fn place<'a>(sink: &'a dyn Sink, nowhere: &'a File, ahead: usize) -> End<'a> {
    match sink.file() {
        Some(at) => End::File(FileAt { offset: at.offset + ahead as u64, ..at }),
        None => End::Stream(nowhere.as_fd()),
    }
}

/// Moves up to `len` bytes out of a pipe that holds them.
fn pass_on(pipe: &Pipe, to: End<'_>, len: usize) -> io::Result<usize> {
    match call::splice(End::Stream(pipe.reader.as_fd()), to, len, 0) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::channel::SystemCalls;
    use super::super::testing::{Basin, content, file, made_up, pipes, tcp, unix};
    use super::*;
    use deadheat_base::time::{Clock, Monotonic, Nanos};
    use deadheat_contract::contract::GUARD;

    /// Returns the bytes that arrived of `sent` with one method of receiving.
    fn received<C: Channel>(pair: (C, C), by: ReceiveBy, mut basin: Basin, sent: &[u8]) -> Basin {
        let (mut near, mut far) = pair;
        let mut drain = Drain::new::<C>(by).unwrap();
        assert_eq!(drain.step(&mut far, Patience::None, &mut basin).unwrap(), None);
        let began = Monotonic.now();
        assert_eq!(drain.step(&mut far, Patience::Block, &mut basin).unwrap(), None);
        let waited = Monotonic.now() - began;
        assert!(waited >= Nanos(GUARD.0 / 2), "{by:?} came back after {waited}");
        for part in sent.chunks(1001) {
            assert_eq!(near.send(part, Patience::Block).unwrap(), Some(part.len()));
            let mut got = 0;
            while got < part.len() {
                got += drain.step(&mut far, Patience::Block, &mut basin).unwrap().unwrap();
            }
        }
        near.finish().unwrap();
        for patience in [Patience::Block, Patience::None, Patience::UntilNudged] {
            assert_eq!(drain.step(&mut far, patience, &mut basin).unwrap(), Some(0), "{by:?}");
        }
        basin
    }

    #[test]
    fn bytes_that_are_read_are_shown() {
        let sent = made_up(10_000);
        let read = |basin: Basin| (basin.taken == sent, basin.passed);
        let empty = Basin::default;
        assert_eq!(read(received(tcp(), ReceiveBy::Read, empty(), &sent)), (true, 0));
        assert_eq!(read(received(unix(), ReceiveBy::Read, empty(), &sent)), (true, 0));
        assert_eq!(read(received(pipes(), ReceiveBy::Read, empty(), &sent)), (true, 0));
    }

    #[test]
    fn bytes_that_nobody_sees_are_counted() {
        let sent = made_up(10_000);
        let seen = |basin: Basin| (basin.taken.len(), basin.passed);
        let empty = Basin::default;
        assert_eq!(seen(received(tcp(), ReceiveBy::Trunc, empty(), &sent)), (0, 10_000));
        assert_eq!(seen(received(tcp(), ReceiveBy::Splice, empty(), &sent)), (0, 10_000));
        assert_eq!(seen(received(unix(), ReceiveBy::Splice, empty(), &sent)), (0, 10_000));
        assert_eq!(seen(received(pipes(), ReceiveBy::Splice, empty(), &sent)), (0, 10_000));
    }

    #[test]
    fn a_file_gets_what_is_spliced() {
        let sent = made_up(300_007);
        let holds = |basin: Basin| content(&basin.file.unwrap()) == sent;
        let to_file = || Basin { file: Some(file(b"")), ..Basin::default() };
        assert!(holds(received(tcp(), ReceiveBy::Splice, to_file(), &sent)));
        assert!(holds(received(unix(), ReceiveBy::Splice, to_file(), &sent)));
        assert!(holds(received(pipes(), ReceiveBy::Splice, to_file(), &sent)));
    }

    #[test]
    fn a_sink_with_room_gets_the_bytes_there() {
        let room = || Basin { room: Some(vec![0; 2000].into()), ..Basin::default() };
        let basin = received(tcp(), ReceiveBy::Read, room(), &made_up(1001));
        assert_eq!((basin.taken.len(), basin.passed), (0, 1001));
        assert!(basin.room.unwrap()[..1001] == made_up(1001));
    }

    #[test]
    fn a_sink_that_wants_the_bytes_is_not_given_none() {
        let refuse = |by, mut basin: Basin| {
            let (_near, mut far) = tcp();
            let mut drain = Drain::new::<super::super::stream::CountedSocket>(by).unwrap();
            let error = drain.step(&mut far, Patience::None, &mut basin).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            assert!(error.to_string().contains("use rx=read"), "{error}");
        };
        let room = || Basin { room: Some(vec![0; 2000].into()), ..Basin::default() };
        refuse(ReceiveBy::Trunc, room());
        refuse(ReceiveBy::Splice, room());
        refuse(ReceiveBy::Trunc, Basin { file: Some(file(b"")), ..Basin::default() });
    }

    #[test]
    fn a_ring_shows_what_arrives_and_has_no_room_of_the_workload() {
        if let Err(why) = super::super::uring::check() {
            println!("skipped: {why}");
            return;
        }
        let sent = made_up(10_000);
        for pair in [tcp(), unix()] {
            let basin = received(pair, ReceiveBy::Uring, Basin::default(), &sent);
            assert!(basin.taken == sent && basin.passed == 0);
        }
        let (_near, mut far) = tcp();
        let mut drain =
            Drain::new::<super::super::stream::CountedSocket>(ReceiveBy::Uring).unwrap();
        let mut basin = Basin { room: Some(vec![0; 2000].into()), ..Basin::default() };
        let error = drain.step(&mut far, Patience::None, &mut basin).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("use rx=read"), "{error}");
        assert_eq!(far.calls().receive, 0);
    }

    #[test]
    fn only_tcp_drops_bytes_without_a_copy() {
        let (mut near, mut far) = unix();
        assert_eq!(near.send(b"abc", Patience::None).unwrap(), Some(3));
        let error = far.discard(100, Patience::None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "it tries to copy: {error}");
        let error = pipes().1.discard(100, Patience::None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn calls_are_counted_as_they_are_made() {
        let calls = |by| {
            let (mut near, mut far) = tcp();
            assert_eq!(near.send(b"abc", Patience::None).unwrap(), Some(3));
            let mut drain = Drain::new::<super::super::stream::CountedSocket>(by).unwrap();
            let got = drain.step(&mut far, Patience::Block, &mut Basin::default()).unwrap();
            assert_eq!(got, Some(3));
            far.calls().receive
        };
        assert_eq!(calls(ReceiveBy::Read), 1);
        assert_eq!(calls(ReceiveBy::Trunc), 1);
        assert_eq!(calls(ReceiveBy::Splice), 2);
    }
}
