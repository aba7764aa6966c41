//! Connection that prefers one transport and falls back on another: messages go over one of two connections, and
//! both ends know which.
//!
//! While the first carries, each end sends over it at least four times in the allowed time of silence, a beacon if
//! there is nothing else. An end that has received nothing over it for that time falls back: from then on it sends
//! over the second, and sends a note of it there. An end that receives anything over the second follows. No end
//! goes back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::note::{Note, NoteKind};
use crate::datapath::epoll::Epoll;
use crate::datapath::stamps::Stamps;
use crate::datapath::wait::Interest;
use crate::transport::bulk_message::BulkMessage;
use crate::transport::{Conn, ConnInfo, Effective, Progress, Readiness, unstamped};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{Inbox, Lane, Patience, Sink, Source};
use deadheat_contract::measurements::{Fallback, FallbackCause};

/// Number of sends, or beacons, of an end within the allowed time of silence.
const BEACONS: u64 = 4;

/// Receiving calls before an end concludes that nothing has arrived.
const LOOKS: usize = 64;

/// First or second connection.
pub(super) struct PreferenceStrand {
    /// Name of its transport.
    pub(super) name: String,
    /// The connection.
    pub(super) conn: Box<dyn Conn>,
    /// True if it has failed or ended.
    pub(super) is_over: bool,
}

/// State of the watch over the first connection.
#[derive(Debug, Clone, Copy)]
struct Watch {
    silence: Nanos,
    received_at: Nanos,
    sent_at: Nanos,
    /// Messages sent since the peer was last received.
    unheard: u64,
}

/// Carriage of bulk data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bulk {
    /// By the connection's own engines.
    Own,
    /// Message by message, so that it is the same over either connection.
    Messages,
}

/// Connection over the preferred of two open ones, or over the only one.
pub(super) struct PreferringConn {
    /// First and second connection, or the only one.
    strands: Vec<PreferenceStrand>,
    /// Index of the carrier.
    at: usize,
    note: Note,
    watch: Option<Watch>,
    /// Set of both descriptors, where there are two.
    ready: Option<Epoll>,
    /// True if the carrier is watched for room.
    wants_room: bool,
    /// True if some may hold messages that no descriptor shows any more.
    may_hold: bool,
    /// Messages that were received while checking whether the first connection is silent.
    kept: VecDeque<(Lane, Vec<u8>)>,
    fallback: Option<Fallback>,
    /// Options of the preference itself, as typed.
    asked: Effective,
    opened: Nanos,
    bulk: Bulk,
    /// Bulk data in messages.
    message: BulkMessage,
    calls: u64,
}

impl PreferringConn {
    /// Makes one out of the only open connection.
    pub(super) fn alone(
        strand: PreferenceStrand,
        note: Note,
        asked: Effective,
        bulk: Bulk,
    ) -> PreferringConn {
        PreferringConn {
            strands: vec![strand],
            at: 0,
            note,
            watch: None,
            ready: None,
            wants_room: false,
            may_hold: false,
            kept: VecDeque::new(),
            fallback: None,
            asked,
            opened: Monotonic.now(),
            bulk,
            message: BulkMessage::default(),
            calls: 0,
        }
    }

    /// Notes that the first could not be opened.
    pub(super) fn fell_back(mut self, after: Nanos) -> PreferringConn {
        let cause = FallbackCause::Start;
        self.fallback = Some(Fallback { cause, at_ns: 0, after_ns: after.0, unheard: 0 });
        self
    }

    /// Adds the second connection, for falling back after this time of silence.
    ///
    /// # Errors
    /// The error of epoll(7).
    pub(super) fn with(
        mut self,
        second: PreferenceStrand,
        silence: Nanos,
    ) -> io::Result<PreferringConn> {
        self.strands.push(second);
        let ready = Epoll::new()?;
        for (at, strand) in self.strands.iter().enumerate() {
            if let Some(fd) = strand.conn.readiness().fd {
                ready.add(fd, at)?;
            }
        }
        let now = Monotonic.now();
        self.watch = Some(Watch { silence, received_at: now, sent_at: now, unheard: 0 });
        (self.ready, self.may_hold) = (Some(ready), true);
        Ok(self)
    }

    /// Returns true if this connection may fail without ending the flow.
    fn is_spare(&self, at: usize) -> bool {
        self.strands.len() > 1 && (at != self.at || at == 0 && !self.strands[1].is_over)
    }

    /// Gives a connection up, and falls back if it was the carrier.
    fn give_up(&mut self, at: usize) {
        let strand = &mut self.strands[at];
        if std::mem::replace(&mut strand.is_over, true) {
            return;
        }
        if let (Some(ready), Some(fd)) = (&self.ready, strand.conn.readiness().fd) {
            // The kernel removes a closed descriptor from the set by itself.
            let _ = ready.remove(fd);
        }
        match at {
            0 => self.fall_back(FallbackCause::Broken),
            _ => self.watch = None,
        }
    }

    /// Sends over the second from now on, and notifies the peer unless the peer fell back first.
    #[cold]
    fn fall_back(&mut self, cause: FallbackCause) {
        let Some(watch) = self.watch.take() else { return };
        let now = Monotonic.now();
        self.fallback = Some(Fallback {
            cause,
            at_ns: (now - self.opened).0,
            after_ns: (now - watch.received_at).0,
            unheard: watch.unheard,
        });
        (self.at, self.wants_room) = (1, false);
        if cause != FallbackCause::Peer {
            // If this note is lost, or finds no room, the next message over this connection replaces it.
            let _ = self.strands[1].conn.send(Lane(0), &self.note.encode(NoteKind::Fall));
        }
    }

    /// Falls back if the first is silent, and sends a beacon over it if nothing was sent for a while.
    fn look_after(&mut self, now: Nanos) -> io::Result<()> {
        let Some(watch) = self.watch else { return Ok(()) };
        if now >= watch.received_at + watch.silence {
            self.take_in()?;
            if self.watch.is_some_and(|watch| now >= watch.received_at + watch.silence) {
                self.fall_back(FallbackCause::Silence);
            }
        }
        let Some(watch) = &mut self.watch else { return Ok(()) };
        if now >= watch.sent_at + Nanos(watch.silence.0 / BEACONS) {
            watch.sent_at = now;
            let beacon = self.note.encode(NoteKind::Beacon);
            if self.strands[0].conn.send(Lane(0), &beacon).is_err() {
                self.give_up(0);
            }
        }
        Ok(())
    }

    /// Receives all that has arrived over the first, for an end that has not received for a long time.
    fn take_in(&mut self) -> io::Result<()> {
        let mut kept = std::mem::take(&mut self.kept);
        let mut result = Ok(Progress::Moved);
        for _ in 0..LOOKS {
            result = self.receive_at(0, Patience::None, &mut StoringInbox(&mut kept));
            if !matches!(result, Ok(Progress::Moved)) || self.strands[0].is_over {
                break;
            }
        }
        self.kept = kept;
        result.map(drop)
    }

    /// Makes one receiving call on one of the two.
    #[inline]
    fn receive_at(
        &mut self,
        at: usize,
        patience: Patience,
        inbox: &mut dyn Inbox,
    ) -> io::Result<Progress> {
        let mut sieve =
            NoteFilter { inbox, note: &self.note, has_received: false, is_asked: false };
        let result = self.strands[at].conn.receive(patience, &mut sieve);
        let NoteFilter { has_received, is_asked, .. } = sieve;
        if is_asked {
            // The earlier confirmation was lost.
            let _ = self.strands[at].conn.send(Lane(0), &self.note.encode(NoteKind::Agreed));
        }
        if has_received && at == 0 {
            if let Some(watch) = &mut self.watch {
                (watch.received_at, watch.unheard) = (Monotonic.now(), 0);
            }
        } else if has_received && self.at == 0 && at == 1 {
            self.fall_back(FallbackCause::Peer);
        }
        match result {
            Err(_) | Ok(Progress::Closed) if self.is_spare(at) => {
                self.give_up(at);
                Ok(if has_received { Progress::Moved } else { Progress::Idle })
            }
            result => result,
        }
    }

    /// Watches the carrier for room, or no longer.
    #[inline]
    fn watch_for_room(&mut self, wanted: bool) -> io::Result<()> {
        if self.wants_room == wanted {
            return Ok(());
        }
        self.wants_room = wanted;
        let strand = &self.strands[self.at];
        let (Some(ready), Some(fd)) = (&self.ready, strand.conn.readiness().fd) else {
            return Ok(());
        };
        self.calls += 1;
        ready.change(fd, if wanted { Interest::ReadWrite } else { Interest::Read }, self.at)
    }
}

/// Inbox that passes messages on, and filters out notes.
struct NoteFilter<'a> {
    inbox: &'a mut dyn Inbox,
    note: &'a Note,
    has_received: bool,
    is_asked: bool,
}

impl Inbox for NoteFilter<'_> {
    #[inline]
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        self.has_received = true;
        match self.note.decode(bytes) {
            None => self.inbox.message(lane, bytes),
            Some(kind) => self.is_asked |= matches!(kind, NoteKind::Alone | NoteKind::Both),
        }
    }
}

struct StoringInbox<'a>(&'a mut VecDeque<(Lane, Vec<u8>)>);

impl Inbox for StoringInbox<'_> {
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        self.0.push_back((lane, bytes.to_vec()));
    }
}

/// Inbox that hands messages over as bulk data.
struct BulkInbox<'a>(&'a mut dyn Sink);

impl Inbox for BulkInbox<'_> {
    #[inline]
    fn message(&mut self, _lane: Lane, bytes: &[u8]) {
        self.0.take(bytes);
    }
}

impl Conn for PreferringConn {
    fn readiness(&self) -> Readiness<'_> {
        let own = self.strands[self.at].conn.readiness();
        let fd = match &self.ready {
            Some(ready) => Some(ready.as_fd()),
            None => self.strands[0].conn.readiness().fd,
        };
        Readiness { fd, ..own }
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.strands.iter().flat_map(|strand| strand.conn.sockets()).collect()
    }

    #[inline]
    fn send(&mut self, lane: Lane, message: &[u8]) -> io::Result<Progress> {
        let conn = &mut self.strands[self.at].conn;
        let progress = match conn.send(lane, message) {
            Err(_) if self.is_spare(self.at) => {
                self.give_up(self.at);
                self.strands[self.at].conn.send(lane, message)?
            }
            progress => progress?,
        };
        let conn = &self.strands[self.at].conn;
        let waits = match progress {
            Progress::Idle => conn.readiness().room == Interest::ReadWrite,
            Progress::Moved | Progress::Closed => conn.readiness().has_backlog,
        };
        self.watch_for_room(waits)?;
        if let (Some(watch), Progress::Moved) = (&mut self.watch, progress) {
            (watch.sent_at, watch.unheard) = (Monotonic.now(), watch.unheard + 1);
        }
        Ok(progress)
    }

    #[inline]
    fn receive(&mut self, patience: Patience, inbox: &mut dyn Inbox) -> io::Result<Progress> {
        if !self.kept.is_empty() {
            self.kept.drain(..).for_each(|(lane, bytes)| inbox.message(lane, &bytes));
            return Ok(Progress::Moved);
        }
        if self.ready.is_none() {
            return self.receive_at(0, patience, inbox);
        }
        self.watch_for_room(self.strands[self.at].conn.readiness().has_backlog)?;
        let mut found = u32::MAX;
        if let Some(ready) = &self.ready
            && patience != Patience::None
            && !std::mem::take(&mut self.may_hold)
        {
            found = 0;
            self.calls += 1;
            ready.wait(patience, |at| found |= 1 << at)?;
        }
        let carrier = self.at;
        let mut all = Progress::Idle;
        for at in [carrier, 1 - carrier] {
            if found & (1 << at) == 0 || self.strands[at].is_over {
                continue;
            }
            match self.receive_at(at, Patience::None, inbox)? {
                Progress::Moved => all = Progress::Moved,
                Progress::Closed => return Ok(Progress::Closed),
                Progress::Idle => {}
            }
            if all == Progress::Moved && patience == Patience::None {
                break;
            }
        }
        Ok(all)
    }

    fn flush(&mut self) -> io::Result<Progress> {
        match self.strands[self.at].conn.flush() {
            Err(_) if self.is_spare(self.at) => {
                self.give_up(self.at);
                Ok(Progress::Moved)
            }
            flushed => {
                self.watch_for_room(self.readiness().has_backlog)?;
                flushed
            }
        }
    }

    fn pump(&mut self, source: &mut dyn Source) -> io::Result<Progress> {
        if self.bulk == Bulk::Own {
            return self.strands[self.at].conn.pump(source);
        }
        let mut message = std::mem::take(&mut self.message);
        let pumped = message.pump(source, |bytes| self.send(Lane(0), bytes));
        self.message = message;
        pumped
    }

    fn drain(&mut self, patience: Patience, sink: &mut dyn Sink) -> io::Result<Progress> {
        match self.bulk {
            Bulk::Own => self.strands[self.at].conn.drain(patience, sink),
            Bulk::Messages => self.receive(patience, &mut BulkInbox(sink)),
        }
    }

    /// Ends this direction, where there is one connection. With two, neither ends: the peer would take that for a
    /// failure.
    fn finish(&mut self) -> io::Result<()> {
        match &mut self.strands[..] {
            [only] => only.conn.finish(),
            _ => Ok(()),
        }
    }

    fn is_drained(&self) -> bool {
        self.strands[self.at].conn.is_drained()
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let open = self.strands.iter().filter(|strand| !strand.is_over);
        let own = self.watch.map(|watch| {
            (watch.received_at + watch.silence)
                .min(watch.sent_at + Nanos(watch.silence.0 / BEACONS))
        });
        open.filter_map(|strand| strand.conn.next_deadline()).chain(own).min()
    }

    fn on_deadline(&mut self, now: Nanos) -> io::Result<()> {
        self.may_hold = self.ready.is_some();
        for at in 0..self.strands.len() {
            if self.strands[at].is_over {
                continue;
            }
            match self.strands[at].conn.on_deadline(now) {
                Err(_) if self.is_spare(at) => self.give_up(at),
                done => done?,
            }
        }
        self.look_after(now)
    }

    fn stamps(&mut self) -> io::Result<&mut Stamps> {
        Err(unstamped())
    }

    fn effective(&self) -> Effective {
        let named = self.strands.iter().flat_map(|PreferenceStrand { name, conn, .. }| {
            conn.effective().into_iter().map(move |(key, value)| (format!("{name}.{key}"), value))
        });
        let carrier = self.strands[self.at].name.clone();
        let own = [("carried_by".to_owned(), carrier)];
        named.chain(self.asked.clone()).chain(own).collect()
    }

    /// Returns the counters of the carrier, with the calls of both.
    fn info(&self) -> ConnInfo {
        let ConnInfo { mut stats, view } = self.strands[self.at].conn.info();
        for (_, other) in self.strands.iter().enumerate().filter(|(at, _)| *at != self.at) {
            let other = other.conn.info().stats;
            stats.send_calls += other.send_calls;
            stats.receive_calls += other.receive_calls;
            stats.network_errors += other.network_errors;
            stats.socket_drops = stats.socket_drops.or(other.socket_drops);
        }
        stats.receive_calls += self.calls;
        stats.fallback = self.fallback;
        if let Some(Fallback { cause: FallbackCause::Start, after_ns, .. }) = self.fallback {
            stats.connect_ns = after_ns;
        }
        ConnInfo { stats, view }
    }
}
