//! Upkeep of connections while no flow runs on them: before the start message, and after the last report. A protocol in
//! user space retransmits only when it is driven, and its peer may still wait for the last packet of a handshake or of
//! a transfer.

use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use deadheat_base::descriptor::ready;

use deadheat_base::error::Result;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::Conn;
use deadheat_datapath::transport::at_once::{OpenAttempts, OpenTask, at_once};

/// Longest sleep, if no connection sets a deadline.
const LONGEST: Nanos = Nanos::from_secs(1);

/// Time within which a connection notices that all others are open, too.
const SOON: Nanos = Nanos::from_millis(10);

/// Pause while a descriptor stays readable because no flow reads from it.
const PAUSE: Nanos = Nanos::from_millis(1);

/// Event of control to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlEvent {
    /// A message, or the end of control.
    Word,
    /// End of control.
    End,
}

/// Keeps `conns` up until the awaited event of control.
pub(super) fn attend(control: &UnixStream, until: ControlEvent, conns: &mut [&mut dyn Conn]) {
    let events = match until {
        ControlEvent::Word => libc::POLLIN,
        // A hang-up is reported unasked (poll(2)).
        ControlEvent::End => 0,
    };
    while !keep_up(Some((control.as_fd(), events)), LONGEST, conns) {}
}

/// Sleeps until an event, at most for `longest`, and drives `conns` unless the event was on `line`. Returns true if it
/// was.
fn keep_up(
    line: Option<(BorrowedFd<'_>, libc::c_short)>,
    longest: Nanos,
    conns: &mut [&mut dyn Conn],
) -> bool {
    let line = line.map_or((None, 0), |(fd, events)| (Some(fd), events));
    let due = conns.iter().filter_map(|conn| conn.next_deadline()).min();
    let span = due.map_or(longest, |due| (due - Monotonic.now()).min(longest));
    // A wait that fails is one without an event: the connections are driven all the same.
    let is_spoken =
        ready(iter::once(line).chain(readable_of(conns)), Some(span)).is_ok_and(|ready| ready[0]);
    if is_spoken {
        return true;
    }
    let now = Monotonic.now();
    for conn in conns.iter_mut() {
        // An error here occurs again in the flow, which reports it; after the last report it has no effect.
        let _ = conn.on_deadline(now);
    }
    // Data that arrived at a kernel connection, beside one in user space, stays there until a flow reads it, and keeps
    // the descriptor readable.
    let stays =
        ready(readable_of(conns), Some(Nanos::ZERO)).is_ok_and(|ready| ready.contains(&true));
    stays && ready([line], Some(PAUSE)).is_ok_and(|ready| ready[0])
}

/// Returns the descriptors of `conns` that become readable.
fn readable_of<'a>(
    conns: &'a [&mut dyn Conn],
) -> impl Iterator<Item = (Option<BorrowedFd<'a>>, libc::c_short)> {
    conns.iter().map(|conn| (conn.readiness().fd, libc::POLLIN))
}

/// Opens `flows` connections at once, and keeps each up until all of them are open: the peer accepts them one after the
/// other, and completes the handshake of one before it starts the next.
///
/// # Errors
/// Fails with the error of the first connection that could not be opened, or if a thread cannot be started.
pub(super) fn dial_at_once<D>(flows: &[u16], dial: &D) -> Result<Vec<Box<dyn Conn>>>
where
    D: Fn(u16) -> Result<Box<dyn Conn>> + Sync,
{
    let open = |flow| OpenTask { name: format!("flow {flow}"), open: Box::new(move || dial(flow)) };
    let keep_up = |conn: &mut Box<dyn Conn>, missing: &OpenAttempts| {
        while missing.any() {
            keep_up(None, SOON, &mut [&mut **conn]);
        }
    };
    at_once(flows.iter().copied().map(open).collect(), &keep_up).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use deadheat_base::error::Error;
    use deadheat_contract::contract::{Inbox, Lane, Patience, Sink, Source};
    use deadheat_datapath::datapath::stamps::Stamps;
    use deadheat_datapath::datapath::wait::Interest;
    use deadheat_datapath::transport::{ConnInfo, Effective, Progress, Readiness};

    /// Connection that counts how often it was driven: it is always due, or has unread data that only a flow reads.
    struct Driven(Arc<AtomicUsize>, Option<UnixStream>);

    impl Conn for Driven {
        fn readiness(&self) -> Readiness<'_> {
            let due = Readiness { fd: None, room: Interest::ReadWrite, has_backlog: false };
            self.1.as_ref().map_or(due, |unread| Readiness::of(unread.as_fd()))
        }
        fn sockets(&self) -> Vec<BorrowedFd<'_>> {
            self.1.iter().map(AsFd::as_fd).collect()
        }
        fn flush(&mut self) -> io::Result<Progress> {
            Ok(Progress::Moved)
        }
        fn is_drained(&self) -> bool {
            true
        }
        fn stamps(&mut self) -> io::Result<&mut Stamps> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn send(&mut self, _: Lane, _: &[u8]) -> io::Result<Progress> {
            Ok(Progress::Idle)
        }
        fn receive(&mut self, _: Patience, _: &mut dyn Inbox) -> io::Result<Progress> {
            Ok(Progress::Idle)
        }
        fn pump(&mut self, _: &mut dyn Source) -> io::Result<Progress> {
            Ok(Progress::Idle)
        }
        fn drain(&mut self, _: Patience, _: &mut dyn Sink) -> io::Result<Progress> {
            Ok(Progress::Idle)
        }
        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn next_deadline(&self) -> Option<Nanos> {
            self.1.is_none().then(|| Monotonic.now())
        }
        fn on_deadline(&mut self, _: Nanos) -> io::Result<()> {
            self.0.fetch_add(1, Ordering::AcqRel);
            Ok(())
        }
        fn effective(&self) -> Effective {
            Effective::new()
        }
        fn info(&self) -> ConnInfo {
            ConnInfo::default()
        }
    }

    #[test]
    fn connections_are_kept_up_until_the_word_comes() {
        let (control, mut race) = UnixStream::pair().unwrap();
        let acted = Arc::new(AtomicUsize::new(0));
        let mut conn = Driven(Arc::clone(&acted), None);
        thread::scope(|scope| {
            scope.spawn(|| {
                while acted.load(Ordering::Acquire) < 10 {
                    thread::yield_now();
                }
                race.write_all(b"x").unwrap();
            });
            attend(&control, ControlEvent::Word, &mut [&mut conn]);
        });
        // A message is not the end of control, which follows only now.
        let more = acted.load(Ordering::Acquire) + 10;
        thread::scope(|scope| {
            let acted = &acted;
            scope.spawn(move || {
                while acted.load(Ordering::Acquire) < more {
                    thread::yield_now();
                }
                drop(race);
            });
            attend(&control, ControlEvent::End, &mut [&mut conn]);
        });
        assert!(acted.load(Ordering::Acquire) >= more);
    }

    #[test]
    fn what_only_a_flow_takes_is_not_looked_at_all_the_time() {
        const TIMES: usize = 20;
        let (control, mut race) = UnixStream::pair().unwrap();
        let (end, mut peer) = UnixStream::pair().unwrap();
        peer.write_all(b"early").unwrap();
        let acted = Arc::new(AtomicUsize::new(0));
        let mut conn = Driven(Arc::clone(&acted), Some(end));
        let began = Monotonic.now();
        thread::scope(|scope| {
            scope.spawn(|| {
                while acted.load(Ordering::Acquire) < TIMES {
                    thread::yield_now();
                }
                race.write_all(b"x").unwrap();
            });
            attend(&control, ControlEvent::Word, &mut [&mut conn]);
        });
        let pauses = Nanos::from_millis(TIMES as u64 - 1);
        assert!(Monotonic.now() - began >= pauses, "it spun");
    }

    /// The far end accepts the second connection only once the first has been driven again.
    #[test]
    fn one_that_is_open_is_kept_up_while_others_are_being_opened() {
        let acted: Vec<Arc<AtomicUsize>> = (0..3).map(|_| Arc::default()).collect();
        let dial = |flow: u16| {
            let before = flow.checked_sub(1).map(|before| &acted[usize::from(before)]);
            while before.is_some_and(|acted| acted.load(Ordering::Acquire) == 0) {
                thread::yield_now();
            }
            Ok(Box::new(Driven(Arc::clone(&acted[usize::from(flow)]), None)) as Box<dyn Conn>)
        };
        assert_eq!(dial_at_once(&[0, 1, 2], &dial).unwrap().len(), 3);
        let refused = dial_at_once(&[0, 1, 2], &|flow| match flow {
            1 => Err(Error::blocked("nobody answers")),
            _ => Ok(Box::new(Driven(Arc::default(), None)) as Box<dyn Conn>),
        });
        assert!(refused.err().unwrap().to_string().contains("nobody answers"));
        // A library that panics while it opens a connection breaks its own contender, and delays no other connection.
        let broken = dial_at_once(&[0, 1, 2], &|flow| match flow {
            1 => panic!("asked to"),
            _ => Ok(Box::new(Driven(Arc::default(), None)) as Box<dyn Conn>),
        });
        let broken = broken.err().unwrap();
        assert!(matches!(broken, Error::Broken { .. }), "{broken}");
    }
}
