//! Sending bulk bytes into a byte stream: one engine for each way the kernel has.
//!
//! The content is the source's file or, where it has none, [`super::buffer::pattern`] again and again, continued
//! where the last call left off.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use super::buffer::PERIOD;
use super::call::{self, End};
use super::channel::{Channel, no_sigpipe};
use super::file::read_counted;
use super::memory::{PatternFile, Region, patterned};
use super::pipe::Pipe;
use super::uring::{self, RingStream};
use super::zerocopy::Completions;
use deadheat_contract::contract::{FileAt, Patience, Source};
use deadheat_contract::measurements::ZeroCopy;

/// Number of pieces that [`SendBy::Writev`] hands over per call.
pub const PIECES: usize = 16;

/// Largest number of bytes of a file that zero-copy calls may have under way; their buffer is that large.
const FILE_UNDER_WAY: usize = 16 << 20;

/// Usual call size that a pump is made for; the first larger call allocates more.
const USUAL_CALL: usize = 128 * 1024;

/// Method by which an end sends bulk bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendBy {
    /// send(2) on a socket, write(2) on a pipe: the kernel copies the call's bytes.
    Write,
    /// writev(2): the same with the call in [`PIECES`] pieces.
    Writev,
    /// sendfile(2): from a file's pages, not copied. The kernel passes 64 KiB at a time to the socket, and each may
    /// wait for room: on a slow path a call sleeps that many times as long.
    Sendfile,
    /// splice(2): from a file's pages into a pipe and, to a socket, out of it with a second call, which sleeps as
    /// often as [`SendBy::Sendfile`].
    Splice,
    /// vmsplice(2), into a pipe: the application's pages, not copied.
    Vmsplice,
    /// send(2) with `MSG_ZEROCOPY`: the application's pages, not copied where the device allows.
    Zerocopy,
    /// Several calls at a time through io_uring(7), linked; the kernel copies their bytes.
    Uring,
    /// Several calls at a time through io_uring(7), without a copy where the device allows (`IORING_OP_SEND_ZC`).
    UringZerocopy,
}

/// Result of one call of a pump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All bytes of the call left; their number.
    All(usize),
    /// This many bytes of the call left, and then there was no room.
    Part(usize),
    /// Nothing left: no room, or a signal interrupted the call.
    Nothing,
}

/// Sender of bulk bytes by one method.
#[derive(Debug)]
pub struct Pump {
    engine: PumpEngine,
    /// Offset of the next byte in the pattern.
    at: usize,
    /// Bytes left of a call that was sent in part or not at all. The next call takes these and no more, as an
    /// application does that has to empty a buffer.
    rest: usize,
}

#[derive(Debug)]
enum PumpEngine {
    Copied(SendMemory, Pieces),
    Vmsplice(SendMemory),
    Zerocopy(SendMemory, Completions),
    Sendfile(PatternFile),
    Splice(PatternFile),
    /// Splice through a pipe, with the number of bytes in it.
    SpliceThrough(PatternFile, Pipe, usize),
    Uring(Box<RingStream>),
}

#[derive(Debug, Clone, Copy)]
enum Pieces {
    One,
    Many,
}

impl Pump {
    /// Creates a pump for `channel`.
    ///
    /// # Errors
    /// The error of the kernel where it does not support this method, or has no memory for it.
    pub fn new<C: Channel>(by: SendBy, channel: &C) -> io::Result<Pump> {
        no_sigpipe();
        let file = || PatternFile::new(PERIOD + USUAL_CALL);
        let engine = match (by, C::IS_PIPE) {
            (SendBy::Write, _) => PumpEngine::Copied(SendMemory::new(0)?, Pieces::One),
            (SendBy::Writev, _) => PumpEngine::Copied(SendMemory::new(0)?, Pieces::Many),
            // Bytes in the pipe are still this memory.
            (SendBy::Vmsplice, _) => PumpEngine::Vmsplice(SendMemory::new(channel.holds())?),
            (SendBy::Zerocopy, _) => {
                super::zerocopy::enable(channel.inlet())?;
                PumpEngine::Zerocopy(SendMemory::new(FILE_UNDER_WAY)?, Completions::new())
            }
            (SendBy::Sendfile, _) => PumpEngine::Sendfile(file()?),
            (SendBy::Splice, true) => PumpEngine::Splice(file()?),
            (SendBy::Uring, _) => PumpEngine::Uring(Box::new(RingStream::copied()?)),
            (SendBy::UringZerocopy, _) => PumpEngine::Uring(Box::new(RingStream::lent()?)),
            (SendBy::Splice, false) => PumpEngine::SpliceThrough(file()?, Pipe::largest()?, 0),
        };
        Ok(Pump { engine, at: 0, rest: 0 })
    }

    /// Returns the outcome of zero-copy calls; `None` for any other method.
    pub fn zerocopy(&self) -> Option<ZeroCopy> {
        match &self.engine {
            PumpEngine::Zerocopy(_, calls) => Some(calls.outcome()),
            PumpEngine::Uring(outgoing) => outgoing.outcome(),
            _ => None,
        }
    }

    /// Describes the pages of the file that it makes up to send from; `None` for any other method or content.
    pub fn pages(&self) -> Option<&str> {
        match &self.engine {
            PumpEngine::Sendfile(file)
            | PumpEngine::Splice(file)
            | PumpEngine::SpliceThrough(file, ..) => file.pages(),
            _ => None,
        }
    }

    /// Sends the bytes that `source` has for one call, at most `len`, and reports the accepted ones to it. Through
    /// io_uring it makes several such calls at a time, as far as the budget allows.
    ///
    /// # Errors
    /// The error of the system calls; `UnexpectedEof` where the source's file ends before its budget.
    #[inline]
    pub fn step<C: Channel>(
        &mut self,
        channel: &mut C,
        source: &mut dyn Source,
        len: usize,
    ) -> io::Result<Step> {
        let begins = self.rest == 0;
        if begins {
            self.rest = len;
        }
        let asked = len.min(self.rest);
        let (at, call) = (self.at, self.rest);
        let part = StepPart { source: &*source, at, call, len: asked, size: len, begins };
        let (moved, whole) = match self.engine.step(channel, &part) {
            Ok((Some(moved), whole)) => (moved, whole),
            Ok((None, _)) => return Ok(Step::Nothing),
            Err(e) => return Err(e),
        };
        self.at = (self.at + moved) % PERIOD;
        self.rest = rest(self.rest, len, moved, whole);
        source.accepted(moved as u64);
        Ok(if moved < whole { Step::Part(moved) } else { Step::All(moved) })
    }

    /// Waits for all completions that the kernel will report.
    ///
    /// # Errors
    /// The error of recvmsg(2).
    pub fn finish<C: Channel>(&mut self, channel: &mut C) -> io::Result<()> {
        match &mut self.engine {
            PumpEngine::Zerocopy(_, calls) => calls.finish(channel),
            PumpEngine::Uring(outgoing) => outgoing.finish(channel),
            _ => Ok(()),
        }
    }
}

/// Returns the bytes left of a call that had `rest` bytes left. If several calls of `len` bytes should move `whole`
/// bytes, returns the rest of the call in which the `moved` bytes ended.
#[inline]
fn rest(rest: usize, len: usize, moved: usize, whole: usize) -> usize {
    match moved.checked_sub(rest) {
        None => rest - moved,
        Some(_) if moved == whole => 0,
        Some(beyond) => beyond.next_multiple_of(len.max(1)) - beyond,
    }
}

/// Bytes that one step is to send.
struct StepPart<'a> {
    source: &'a dyn Source,
    /// Offset of the first of them in the pattern.
    at: usize,
    /// Number of bytes that the application's call has left, these included.
    call: usize,
    len: usize,
    /// Number of bytes in a whole call, for engines that make several.
    size: usize,
    begins: bool,
}

impl StepPart<'_> {
    /// Returns the file position of the next byte, for a call that reads from a file.
    fn file<'a>(&'a self, made_up: &'a mut PatternFile) -> io::Result<FileAt<'a>> {
        if let Some(own) = self.source.file() {
            return Ok(own);
        }
        if made_up.len() < PERIOD + self.call {
            *made_up = PatternFile::new(PERIOD + self.call)?;
        }
        Ok(FileAt { file: made_up.lend(), offset: self.at as u64 })
    }
}

impl PumpEngine {
    /// Sends one part; returns the number of bytes sent, and the number of bytes that it should send.
    #[inline]
    fn step<C: Channel>(
        &mut self,
        channel: &mut C,
        part: &StepPart<'_>,
    ) -> io::Result<(Option<usize>, usize)> {
        let len = part.len;
        let moved = match self {
            PumpEngine::Copied(memory, pieces) => {
                let bytes = memory.bytes(part, &mut channel.count().send)?;
                match pieces {
                    Pieces::One => channel.send(bytes, Patience::Block)?,
                    Pieces::Many => {
                        let (pieces, count) = in_pieces(bytes);
                        channel.push(len, |to| call::writev(to, &pieces[..count]))?
                    }
                }
            }
            PumpEngine::Vmsplice(memory) => {
                let bytes = memory.bytes(part, &mut channel.count().send)?;
                channel.push(len, |to| call::vmsplice(to, bytes))?
            }
            PumpEngine::Zerocopy(memory, calls) => {
                let most = match part.source.file() {
                    Some(_) => FILE_UNDER_WAY as u64,
                    None => u64::MAX,
                };
                let bytes = memory.bytes(part, &mut channel.count().send)?;
                calls.send(channel, bytes, most)?
            }
            PumpEngine::Sendfile(made_up) => {
                let from = part.file(made_up)?;
                some_of(channel.push(len, |to| call::sendfile(to, from, len))?, from)?
            }
            PumpEngine::Splice(made_up) => {
                let from = part.file(made_up)?;
                let moved = channel
                    .push(len, |to| call::splice(End::File(from), End::Stream(to), len, NOW))?;
                some_of(moved, from)?
            }
            PumpEngine::SpliceThrough(made_up, pipe, held) => {
                if *held == 0 {
                    let from = part.file(made_up)?;
                    channel.count().send += 1;
                    *held = fill(pipe, from, len)?;
                }
                let ready = len.min(*held);
                let out = End::Stream(pipe.reader.as_fd());
                let moved =
                    channel.push(ready, |to| call::splice(out, End::Stream(to), ready, 0))?;
                *held -= moved.unwrap_or(0);
                return Ok((moved, ready));
            }
            PumpEngine::Uring(outgoing) => {
                let calls = uring::CallSequence { at: part.at, first: len, size: part.size };
                return outgoing.send(channel, part.source, calls);
            }
        };
        Ok((moved, len))
    }
}

/// Flag for a pipe of our own, or of a channel that waits by itself.
const NOW: libc::c_uint = libc::SPLICE_F_NONBLOCK;

/// Moves up to `len` bytes of a file into an empty pipe.
fn fill(pipe: &Pipe, from: FileAt<'_>, len: usize) -> io::Result<usize> {
    let into = End::Stream(pipe.writer.as_fd());
    loop {
        match call::splice(End::File(from), into, len, NOW) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) => return Err(too_short(from)),
            other => return other,
        }
    }
}

/// Passes on a number of moved bytes; a file without further bytes has ended too early.
fn some_of(moved: Option<usize>, from: FileAt<'_>) -> io::Result<Option<usize>> {
    if moved == Some(0) { Err(too_short(from)) } else { Ok(moved) }
}

fn too_short(from: FileAt<'_>) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("the file to send ends at byte {}; it has become shorter", from.offset),
    )
}

fn in_pieces(bytes: &[u8]) -> ([IoSlice<'_>; PIECES], usize) {
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let parts = bytes.chunks(bytes.len().div_ceil(PIECES).max(1));
    let count = parts.len();
    for (piece, part) in pieces.iter_mut().zip(parts) {
        *piece = IoSlice::new(part);
    }
    (pieces, count)
}

/// Memory that memory-to-socket calls send from: the pattern, long enough for a call that starts anywhere in its
/// period, or the last bytes read from the source's file.
#[derive(Debug)]
struct SendMemory {
    pattern: Region,
    /// Number of file bytes that must stay unchanged before the current position.
    keep: usize,
    read: Region,
    /// Offset in `read` of the next call's bytes; the bytes of the last call end there.
    read_to: usize,
}

impl SendMemory {
    fn new(keep: usize) -> io::Result<SendMemory> {
        let pattern = patterned(PERIOD + USUAL_CALL)?;
        // Most sources have no file; the first call of a source with a file allocates.
        Ok(SendMemory { pattern, keep, read: Region::zeroed(0)?, read_to: 0 })
    }

    #[inline]
    fn bytes(&mut self, part: &StepPart<'_>, calls: &mut u64) -> io::Result<&[u8]> {
        if let Some(from) = part.source.file() {
            return self.of_file(part, from, calls);
        }
        if self.pattern.len() < PERIOD + part.call {
            self.pattern = patterned(PERIOD + part.call)?;
        }
        Ok(&self.pattern[part.at..][..part.len])
    }

    /// Returns the bytes of a call. A new call reads them; if a call was sent in part, they are there already.
    fn of_file(
        &mut self,
        part: &StepPart<'_>,
        from: FileAt<'_>,
        calls: &mut u64,
    ) -> io::Result<&[u8]> {
        // With two calls beside the bytes that must stay, a call that does not fit at the end starts over at the
        // front, and the bytes that it overwrites have left.
        let size = if self.keep == 0 { part.call } else { self.keep + 2 * part.call };
        if self.read.len() < size {
            self.read_to = 0;
            self.read = Region::zeroed(size)?;
        }
        let read = &mut self.read;
        if part.begins {
            if self.read_to + part.call > read.len() {
                self.read_to = 0;
            }
            read_exact(from, &mut read[self.read_to..][..part.call], calls)?;
            self.read_to += part.call;
        }
        Ok(&read[self.read_to - part.call..][..part.len])
    }
}

/// Fills `room` from a file that was long enough when the transfer began; counts the calls.
///
/// # Errors
/// The error of pread(2); `UnexpectedEof` where the file has become shorter.
pub fn read_exact(from: FileAt<'_>, room: &mut [u8], calls: &mut u64) -> io::Result<()> {
    let got = read_counted(from, room, calls)?;
    if got < room.len() {
        return Err(too_short(FileAt { offset: from.offset + got as u64, ..from }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::testing::{Feed, all, made_up, pipes, some, tcp, unix};
    use super::*;
    use deadheat_base::time::{Clock, Monotonic, Nanos};

    const TCP: &[SendBy] = &[
        SendBy::Write,
        SendBy::Writev,
        SendBy::Sendfile,
        SendBy::Splice,
        SendBy::Zerocopy,
        SendBy::Uring,
        SendBy::UringZerocopy,
    ];
    const UNIX: &[SendBy] =
        &[SendBy::Write, SendBy::Writev, SendBy::Sendfile, SendBy::Splice, SendBy::Uring];
    const PIPE: &[SendBy] = &[SendBy::Write, SendBy::Writev, SendBy::Vmsplice, SendBy::Splice];

    /// Creates a pump, unless this host does not allow io_uring, or the method cannot send such a feed.
    fn pump<C: Channel>(way: SendBy, channel: &C, feed: &Feed) -> Option<Pump> {
        if matches!(way, SendBy::Uring | SendBy::UringZerocopy) {
            if let Err(why) = uring::check() {
                println!("skipped {way:?}: {why}");
                return None;
            }
            if way == SendBy::UringZerocopy && feed.file.is_some() {
                return None;
            }
        }
        let _ = feed;
        Some(Pump::new(way, channel).unwrap())
    }

    /// Sends all of `feed` in calls of `call` bytes; returns the number of steps that moved something.
    fn send<C: Channel>(pump: &mut Pump, channel: &mut C, feed: &mut Feed, call: usize) -> u64 {
        let mut steps = 0;
        while feed.left > 0 {
            let len = call.min(feed.left as usize);
            steps += u64::from(pump.step(channel, feed, len).unwrap() != Step::Nothing);
        }
        steps
    }

    fn arrives<C: Channel>(pair: fn() -> (C, C), ways: &[SendBy], feed: fn() -> Feed, want: &[u8]) {
        for (way, call) in ways.iter().flat_map(|way| [(way, 7_777), (way, 131_072)]) {
            let (mut near, mut far) = pair();
            let Some(mut pump) = pump(*way, &near, &feed()) else { continue };
            let got = thread::scope(|scope| {
                scope.spawn(move || {
                    send(&mut pump, &mut near, &mut feed(), call);
                    near.finish().unwrap();
                    pump.finish(&mut near).unwrap();
                });
                all(&mut far)
            });
            assert!(got == want, "{way:?} in calls of {call}: {} bytes", got.len());
        }
    }

    /// Returns bytes whose period is no call's length.
    fn odd() -> Vec<u8> {
        (0..1_000_003_u64).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect()
    }

    #[test]
    fn a_file_of_odd_size_arrives_by_every_way() {
        let feed = || Feed::of(&odd());
        arrives(tcp, TCP, feed, &odd());
        arrives(unix, UNIX, feed, &odd());
        arrives(pipes, PIPE, feed, &odd());
    }

    #[test]
    fn made_up_content_goes_on_across_calls_by_every_way() {
        let (feed, want) = (|| Feed::made_up(1_000_003), made_up(1_000_003));
        arrives(tcp, TCP, feed, &want);
        arrives(unix, UNIX, feed, &want);
        arrives(pipes, PIPE, feed, &want);
    }

    /// Fills the channel again and again until the source is empty, so that some calls send a part or nothing.
    fn squeezed<C: Channel>(pair: fn() -> (C, C), ways: &[SendBy], total: usize) {
        let file: Vec<u8> = odd().into_iter().cycle().take(total).collect();
        for way in ways {
            for (feed, want) in
                [(Feed::made_up(total as u64), made_up(total)), (Feed::of(&file), file.clone())]
            {
                let (mut near, mut far) = pair();
                let Some(mut pump) = pump(*way, &near, &feed) else { continue };
                let (mut feed, mut got, mut stops) = (feed, Vec::new(), 0);
                while feed.left > 0 {
                    let len = 3_000_001.min(feed.left as usize);
                    let began = Monotonic.now();
                    let step = pump.step(&mut near, &mut feed, len).unwrap();
                    assert!(Monotonic.now() - began < Nanos::from_secs(5), "{way:?}");
                    if !matches!(step, Step::All(_)) {
                        stops += 1;
                        got.extend(some(&mut far));
                    }
                }
                near.finish().unwrap();
                got.extend(all(&mut far));
                assert!(stops > 0, "{way:?} was never short of room");
                assert!(got == want, "{way:?}: {} bytes after {stops} stops", got.len());
            }
        }
    }

    #[test]
    fn calls_that_come_back_short_lose_nothing() {
        squeezed(tcp, TCP, 12_000_000);
        squeezed(unix, UNIX, 600_000);
        squeezed(pipes, PIPE, 300_000);
    }

    fn vanishes<C: Channel>(pair: fn() -> (C, C), ways: &[SendBy]) {
        for way in ways {
            let (mut near, far) = pair();
            let mut feed = Feed::made_up(1 << 30);
            let Some(mut pump) = pump(*way, &near, &feed) else { continue };
            pump.step(&mut near, &mut feed, 1000).unwrap();
            drop(far);
            let failed = (0..1000).find_map(|_| pump.step(&mut near, &mut feed, 100_000).err());
            let error = failed.unwrap_or_else(|| panic!("{way:?} noticed nothing"));
            let kind = error.kind();
            assert!(
                matches!(kind, io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
                "{way:?}: {error}"
            );
        }
    }

    #[test]
    fn a_peer_that_vanishes_is_an_error_and_no_signal() {
        vanishes(tcp, TCP);
        vanishes(unix, UNIX);
        vanishes(pipes, PIPE);
    }

    #[test]
    fn a_file_that_ends_too_early_is_told() {
        for way in TCP {
            let (mut near, _far) = tcp();
            let mut feed = Feed::of(&[7; 1000]);
            feed.left = 5000;
            let Some(mut pump) = pump(*way, &near, &feed) else { continue };
            let error = (0..3).find_map(|_| pump.step(&mut near, &mut feed, 2000).err()).unwrap();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{way:?}");
            assert!(error.to_string().contains("ends at byte 1000"), "{way:?}: {error}");
        }
    }

    #[test]
    fn every_zero_copy_call_is_told_of_and_on_loopback_copied() {
        let (mut near, mut far) = tcp();
        let mut pump = Pump::new(SendBy::Zerocopy, &near).unwrap();
        let (told, steps) = thread::scope(|scope| {
            let sender = scope.spawn(move || {
                let mut feed = Feed::made_up(10_000_000);
                let steps = send(&mut pump, &mut near, &mut feed, 50_000);
                near.finish().unwrap();
                pump.finish(&mut near).unwrap();
                (pump.zerocopy().unwrap(), steps)
            });
            assert_eq!(all(&mut far).len(), 10_000_000);
            sender.join().unwrap()
        });
        assert_eq!(told, ZeroCopy { completed: steps, copied: steps });
    }

    #[test]
    fn calls_are_counted_as_they_are_made() {
        let calls = |way| {
            let (mut near, _far) = tcp();
            let mut pump = Pump::new(way, &near).unwrap();
            send(&mut pump, &mut near, &mut Feed::made_up(3000), 1000);
            near.calls().send
        };
        assert_eq!(calls(SendBy::Write), 3);
        assert_eq!(calls(SendBy::Writev), 3);
        assert_eq!(calls(SendBy::Sendfile), 3);
        assert_eq!(calls(SendBy::Splice), 6);
        let (mut near, _far) = tcp();
        let mut pump = Pump::new(SendBy::Write, &near).unwrap();
        send(&mut pump, &mut near, &mut Feed::of(&[1; 3000]), 1000);
        assert_eq!(near.calls().send, 6, "a read and a write for each call");
    }

    #[test]
    fn what_is_left_of_a_call_is_told_for_one_and_for_several() {
        assert_eq!((rest(5, 5, 5, 5), rest(5, 5, 2, 5), rest(3, 5, 1, 3)), (0, 3, 2));
        assert_eq!((rest(5, 5, 7, 80), rest(5, 5, 10, 80), rest(3, 5, 4, 78)), (3, 0, 4));
        assert_eq!(rest(5, 5, 12, 12), 0, "the budget ended the last call");
    }

    #[test]
    fn one_call_into_the_kernel_hands_over_several_of_the_application() {
        let (mut near, mut far) = tcp();
        let mut feed = Feed::made_up(40_000);
        let Some(mut ours) = pump(SendBy::Uring, &near, &feed) else { return };
        assert_eq!(send(&mut ours, &mut near, &mut feed, 1000), 3, "steps of 16, 16 and 8 calls");
        assert_eq!(near.calls().send, 3);
        let mut file = Feed::of(&[9; 40_000]);
        assert_eq!(send(&mut ours, &mut near, &mut file, 1000), 3);
        assert_eq!(near.calls().send, 9, "a read and a send for each step");
        near.finish().unwrap();
        assert_eq!(all(&mut far).len(), 80_000);
    }

    #[test]
    fn zero_copy_through_io_uring_is_told_of_and_sends_no_file() {
        let (mut near, mut far) = tcp();
        let mut feed = Feed::made_up(1_000_000);
        let Some(mut ours) = pump(SendBy::UringZerocopy, &near, &feed) else { return };
        thread::scope(|scope| {
            let reader = scope.spawn(|| all(&mut far).len());
            send(&mut ours, &mut near, &mut feed, 50_000);
            let error = ours.step(&mut near, &mut Feed::of(&[1; 100]), 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            assert!(error.to_string().contains("use io=uring or io=zerocopy"), "{error}");
            near.finish().unwrap();
            ours.finish(&mut near).unwrap();
            assert_eq!(reader.join().unwrap(), 1_000_000);
        });
        let told = ours.zerocopy().unwrap();
        assert!(told.completed >= 20 && told.copied == told.completed, "{told:?}");
    }

    #[test]
    fn pieces_make_up_the_call() {
        for len in [1, 15, 16, 17, 64, 131_072, 131_073] {
            let bytes = made_up(len);
            let (pieces, count) = in_pieces(&bytes);
            assert!(count <= PIECES && (len < PIECES || count > PIECES / 2), "{len}: {count}");
            let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
            assert!(joined == bytes, "{len}");
            assert!(pieces[count..].iter().all(|piece| piece.is_empty()));
        }
    }
}
