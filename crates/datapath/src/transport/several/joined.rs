//! Several connections as one: each carries lanes of its own, and the caller waits for all of them together.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::datapath::epoll::Epoll;
use crate::datapath::stamps::Stamps;
use crate::datapath::wait::Interest;
use crate::transport::{Conn, ConnInfo, Effective, Progress, Readiness, unstamped};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Inbox, Lane, Patience, Sink, Source};

/// Largest number of joined connections: a bit for each.
pub const MOST: usize = 16;

/// Route of a lane that goes to another far host: a lane that no connection has.
const NOWHERE: (usize, Lane) = (0, Lane(u16::MAX));

/// Connection that is joined with others.
pub struct Strand<C: ?Sized = dyn Conn> {
    /// Prefix of the names of its options, before a dot; empty for none.
    pub name: String,
    /// The connection.
    pub conn: Box<C>,
    /// Lanes that it carries, by their numbers in the joined connection.
    pub lanes: Vec<Lane>,
    /// True if it shows the end of the peer's direction.
    pub tells_end: bool,
}

/// Events that the epoll set watches on a strand's descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchedEvents {
    /// Arrivals.
    Arrivals,
    /// Arrivals and room.
    Room,
    /// None.
    No,
}

struct StrandState<C: ?Sized> {
    strand: Strand<C>,
    watched: WatchedEvents,
    has_ended: bool,
}

/// Connection that consists of several.
pub struct JoinedConn<C: Conn + ?Sized = dyn Conn> {
    held: Vec<StrandState<C>>,
    /// Strand, and lane within it, by lane.
    routes: Box<[(usize, Lane)]>,
    /// Set of all descriptors, where there are any.
    ready: Option<Epoll>,
    /// Strand that had no room for the last message.
    full: Option<usize>,
    /// True if some strands may hold messages that no descriptor shows any more.
    may_hold: bool,
    /// System calls made to wait for all of them together.
    calls: u64,
}

impl<C: Conn + ?Sized> JoinedConn<C> {
    /// Joins connections. Their lanes together must be the numbers from 0 on, each once.
    ///
    /// # Errors
    /// `InvalidInput` if a lane is missing, or if there are too many; otherwise the error of epoll(7).
    pub fn new(strands: Vec<Strand<C>>) -> io::Result<JoinedConn<C>> {
        let lanes = strands.iter().map(|strand| strand.lanes.len()).sum();
        let routes = routes(&strands, lanes)?;
        if routes.iter().all(Option::is_some) {
            JoinedConn::over(strands, routes)
        } else {
            Err(wrong(strands.len(), lanes))
        }
    }

    /// Joins the connections to one far host out of several: the lanes that are missing go to others, and this end sends
    /// nothing on them.
    ///
    /// # Errors
    /// `InvalidInput` if there are too many; otherwise the error of epoll(7).
    pub fn of_some_lanes(strands: Vec<Strand<C>>) -> io::Result<JoinedConn<C>> {
        let lanes = strands.iter().flat_map(|strand| &strand.lanes);
        let lanes = lanes.map(|lane| usize::from(lane.0) + 1).max().unwrap_or(0);
        let routes = routes(&strands, lanes)?;
        JoinedConn::over(strands, routes)
    }

    fn over(
        strands: Vec<Strand<C>>,
        routes: Vec<Option<(usize, Lane)>>,
    ) -> io::Result<JoinedConn<C>> {
        let routes: Vec<_> = routes.into_iter().map(|route| route.unwrap_or(NOWHERE)).collect();
        let has_fds = strands.iter().any(|strand| strand.conn.readiness().fd.is_some());
        // A single connection needs no epoll set.
        let ready = (has_fds && strands.len() > 1).then(Epoll::new).transpose()?;
        let held = strands.into_iter().map(|strand| StrandState {
            strand,
            watched: WatchedEvents::No,
            has_ended: false,
        });
        let (held, routes) = (held.collect(), routes.into());
        let mut joined = JoinedConn { held, routes, ready, full: None, may_hold: true, calls: 0 };
        joined.each(|joined, at| joined.watch(at, WatchedEvents::Arrivals))?;
        Ok(joined)
    }

    /// Returns the connections, in their order.
    pub fn conns(&mut self) -> impl Iterator<Item = &mut C> {
        self.held.iter_mut().map(|held| &mut *held.strand.conn)
    }

    fn each(&mut self, mut act: impl FnMut(&mut Self, usize) -> io::Result<()>) -> io::Result<()> {
        (0..self.held.len()).try_for_each(|at| act(self, at))
    }

    /// Watches the descriptor of a strand for these events from now on.
    #[inline]
    fn watch(&mut self, at: usize, wanted: WatchedEvents) -> io::Result<()> {
        let held = &mut self.held[at];
        let wanted = if held.has_ended { WatchedEvents::No } else { wanted };
        if held.watched == wanted {
            return Ok(());
        }
        let (Some(ready), Some(fd)) = (&self.ready, held.strand.conn.readiness().fd) else {
            return Ok(());
        };
        self.calls += 1;
        if held.watched == WatchedEvents::No {
            ready.add(fd, at)?;
        }
        match wanted {
            WatchedEvents::No => ready.remove(fd)?,
            WatchedEvents::Room => ready.change(fd, Interest::ReadWrite, at)?,
            WatchedEvents::Arrivals if held.watched == WatchedEvents::No => {}
            WatchedEvents::Arrivals => ready.change(fd, Interest::Read, at)?,
        }
        held.watched = wanted;
        Ok(())
    }

    /// Watches a strand for room while part of a message waits for it.
    #[inline]
    fn watch_for_room(&mut self, at: usize) -> io::Result<()> {
        let waits = self.held[at].strand.conn.readiness().has_backlog;
        self.watch(at, if waits { WatchedEvents::Room } else { WatchedEvents::Arrivals })
    }

    /// Watches the strand that had no room for arrivals only: a caller that receives no longer waits for room.
    #[inline]
    fn settle(&mut self) -> io::Result<()> {
        match self.full.take() {
            Some(at) => self.watch_for_room(at),
            None => Ok(()),
        }
    }

    /// Returns the strands that may have messages, a bit for each, after waiting as `patience` allows.
    #[inline]
    fn await_arrivals(&mut self, patience: Patience) -> io::Result<u32> {
        let mut found = 0;
        match (&self.ready, patience) {
            (Some(ready), Patience::Block | Patience::UntilNudged) => {
                self.calls += 1;
                ready.wait(patience, |at| found |= 1 << at)?;
            }
            (None, _) | (_, Patience::None) => found = u32::MAX,
        }
        Ok(found)
    }

    /// Makes one receiving call on each of these strands.
    #[inline]
    fn receive_from(
        &mut self,
        strands: u32,
        patience: Patience,
        inbox: &mut dyn Inbox,
    ) -> io::Result<Progress> {
        let mut progress = Progress::Idle;
        for at in 0..self.held.len() {
            let held = &mut self.held[at];
            if strands & (1 << at) == 0 || (held.has_ended && self.ready.is_some()) {
                continue;
            }
            let mut inbox = RenumberedInbox { inbox: &mut *inbox, lanes: &held.strand.lanes };
            match held.strand.conn.receive(patience, &mut inbox)? {
                Progress::Moved => progress = Progress::Moved,
                Progress::Idle => {}
                Progress::Closed => {
                    self.watch(at, WatchedEvents::No)?;
                    self.held[at].has_ended = true;
                }
            }
        }
        // Messages that other strands still hold are handed over before the end.
        let is_over = progress == Progress::Idle && self.has_ended();
        Ok(if is_over { Progress::Closed } else { progress })
    }

    fn has_backlog(&self) -> bool {
        self.held.iter().any(|held| held.strand.conn.readiness().has_backlog)
    }

    /// Returns the event that shows room.
    fn room(&self) -> Interest {
        let waits = self.held.iter().any(|held| held.watched == WatchedEvents::Room);
        match self.full {
            Some(at) if !waits => self.held[at].strand.conn.readiness().room,
            None if self.held.len() == 1 => self.held[0].strand.conn.readiness().room,
            _ => Interest::ReadWrite,
        }
    }

    fn has_ended(&self) -> bool {
        let mut told = self.held.iter().filter(|held| held.strand.tells_end).peekable();
        told.peek().is_some() && told.all(|held| held.has_ended)
    }

    fn first(&mut self) -> &mut C {
        let at = self.routes.first().map_or(0, |(at, _)| *at);
        &mut self.held[at].strand.conn
    }

    /// Returns the patience for a receiving call of a strand: none where the epoll set waits for all.
    fn left(&self, patience: Patience) -> Patience {
        if self.ready.is_some() { Patience::None } else { patience }
    }
}

/// Returns the strand of each lane, and the lane within it.
fn routes<C: ?Sized>(
    strands: &[Strand<C>],
    lanes: usize,
) -> io::Result<Vec<Option<(usize, Lane)>>> {
    if !(1..=MOST).contains(&strands.len()) {
        return Err(wrong(strands.len(), lanes));
    }
    let mut routes = vec![None; lanes];
    for (at, strand) in strands.iter().enumerate() {
        for (inner, lane) in (0..).map(Lane).zip(&strand.lanes) {
            if let Some(route) = routes.get_mut(usize::from(lane.0)) {
                *route = Some((at, inner));
            }
        }
    }
    Ok(routes)
}

fn wrong(strands: usize, lanes: usize) -> io::Error {
    let what = format!("{strands} connections do not share the lanes from 0 to {lanes}");
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Inbox that replaces the lane number of a strand by that of the joined connection.
struct RenumberedInbox<'a> {
    inbox: &'a mut dyn Inbox,
    lanes: &'a [Lane],
}

impl Inbox for RenumberedInbox<'_> {
    #[inline]
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        // A connection hands over nothing on lanes that it was not opened with.
        if let Some(lane) = self.lanes.get(usize::from(lane.0)) {
            self.inbox.message(*lane, bytes);
        }
    }
}

/// Messages take the strand of their lane. Bulk data takes lane 0.
impl<C: Conn + ?Sized> Conn for JoinedConn<C> {
    fn readiness(&self) -> Readiness<'_> {
        let fd = match &self.ready {
            Some(ready) => Some(ready.as_fd()),
            None => self.held.first().and_then(|held| held.strand.conn.readiness().fd),
        };
        Readiness { fd, room: self.room(), has_backlog: self.has_backlog() }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.held.iter().flat_map(|held| held.strand.conn.sockets()).collect()
    }

    #[inline]
    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        let Some((at, inner)) = self.routes.get(usize::from(lane.0)).copied() else {
            let why = format!("{} lanes, and lane {} was asked for", self.routes.len(), lane.0);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        let conn = &mut self.held[at].strand.conn;
        let progress = conn.send(inner, message)?;
        match progress {
            Progress::Idle => {
                self.full = Some(at);
                if conn.readiness().room == Interest::ReadWrite {
                    self.watch(at, WatchedEvents::Room)?;
                }
            }
            Progress::Moved | Progress::Closed => self.watch_for_room(at)?,
        }
        Ok(progress)
    }

    #[inline]
    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        self.settle()?;
        // Messages that a strand already holds do not end the sleep.
        if std::mem::take(&mut self.may_hold) && self.ready.is_some() {
            let progress = self.receive_from(u32::MAX, Patience::None, inbox)?;
            if progress != Progress::Idle || patience == Patience::None {
                return Ok(progress);
            }
        }
        let found = self.await_arrivals(patience)?;
        self.receive_from(found, self.left(patience), inbox)
    }

    fn flush(&mut self) -> io::Result<Progress> {
        self.each(|joined, at| {
            let conn = &mut joined.held[at].strand.conn;
            if conn.readiness().has_backlog {
                conn.flush()?;
                joined.watch_for_room(at)?;
            }
            Ok(())
        })?;
        Ok(if self.has_backlog() { Progress::Idle } else { Progress::Moved })
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        self.first().pump(source)
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        self.first().drain(patience, sink)
    }

    fn finish(&mut self) -> io::Result<()> {
        let ended: Vec<io::Result<()>> = self.conns().map(|conn| conn.finish()).collect();
        ended.into_iter().collect()
    }

    fn is_drained(&self) -> bool {
        self.held.iter().all(|held| held.strand.conn.is_drained())
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.held.iter().filter_map(|held| held.strand.conn.next_deadline()).min()
    }

    /// Runs the timers of connections that are due, or of all if none is.
    fn on_deadline(&mut self, now: Nanos) -> io::Result<()> {
        self.may_hold = true;
        let is_due = |conn: &C| conn.next_deadline().is_some_and(|due| due <= now);
        let any = self.held.iter().any(|held| is_due(&held.strand.conn));
        let mut acting = self.conns().filter(|conn| !any || is_due(conn));
        acting.try_for_each(|conn| conn.on_deadline(now))
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        let named = self.held.iter().flat_map(|StrandState { strand, .. }| {
            let prefix =
                if strand.name.is_empty() { String::new() } else { format!("{}.", strand.name) };
            let own = strand.conn.effective().into_iter();
            own.map(move |(name, value)| (format!("{prefix}{name}"), value))
        });
        named.collect()
    }

    /// Returns the sums over all connections. Their handshakes were under way together, so the longest counts;
    /// headers differ, so none are reported for several.
    fn info(&self) -> ConnInfo {
        let mut all = self.held.iter().map(|held| held.strand.conn.info());
        let Some(ConnInfo { stats: mut sum, view }) = all.next() else {
            return ConnInfo::default();
        };
        let known = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (one, other) => one.or(other),
        };
        for ConnInfo { stats: one, .. } in all {
            let drops = known(sum.socket_drops, one.socket_drops);
            let again = known(sum.retransmits, one.retransmits);
            sum.add(&one);
            (sum.socket_drops, sum.retransmits, sum.headers) = (drops, again, None);
        }
        sum.receive_calls += self.calls;
        ConnInfo { stats: sum, view: view.filter(|_| self.held.len() == 1) }
    }
}
