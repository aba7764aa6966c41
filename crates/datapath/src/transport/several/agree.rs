//! Agreement of both ends on the connection that carries a flow: the near end names it, on that connection itself,
//! and the far end confirms. Other connections that were opened for the flow are closed.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use super::note::{Note, NoteKind};
use super::preferring::Bulk;
use crate::transport::handover::readable;
use crate::transport::hello::{Hello, Token};
use crate::transport::{Address, Conn, Effective, Listener, Progress};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{Inbox, Lane, Patience};

/// Lane that notes travel on.
const LANE: Lane = Lane(0);

/// Time after which the near end repeats a note without an answer; doubled each time.
const AGAIN: Nanos = Nanos::from_millis(50);
/// Longest such time.
const AGAIN_AT_MOST: Nanos = Nanos::from_millis(400);
/// Interval at which the far end checks its connections while none is named.
const LOOK: Nanos = Nanos::from_micros(200);
/// Time for which a listener waits in one call.
const TURN: Nanos = Nanos::from_secs(60);
/// Number of failures of a listener that are tolerated: a peer that gives up during a handshake is one.
const MOST_FAILURES: u32 = 64;

/// Terms of an order of preference that both ends know.
#[derive(Debug, Clone)]
pub(super) struct PreferenceTerms {
    /// Names of the first and the second.
    pub(super) names: [String; 2],
    /// Time of silence after which the second takes over; `None` if it does not.
    pub(super) silence: Option<Nanos>,
    /// Options as typed.
    pub(super) asked: Effective,
    /// Carriage of bulk data.
    pub(super) bulk: Bulk,
}

/// Names this connection to the far end as the carrier, and waits until the far end agrees.
///
/// # Errors
/// [`Error::Blocked`] where no answer arrived in time; the failed operation.
pub(super) fn agree(
    conn: &mut dyn Conn,
    note: &Note,
    kind: NoteKind,
    timeout: Nanos,
) -> Result<()> {
    let failed = |e| Error::setup("agree on the connection that carries", e);
    let began = Monotonic.now();
    let (mut next, mut pause, mut sent) = (began, AGAIN, 0);
    let mut inbox = LastNote { note, last: None };
    loop {
        let now = Monotonic.now();
        if now - began >= timeout {
            return Err(Error::blocked(format!(
                "connected, and said {sent} times in {timeout} that this connection is to carry; no answer came back"
            )));
        }
        if now >= next {
            if conn.send(LANE, &note.encode(kind)).map_err(failed)? == Progress::Moved {
                sent += 1;
            }
            (next, pause) = (now + pause, (pause + pause).min(AGAIN_AT_MOST));
        }
        turn(conn, &mut inbox).map_err(failed)?;
        if inbox.last == Some(NoteKind::Agreed) {
            return Ok(());
        }
        let until = conn.next_deadline().map_or(next, |due| due.min(next));
        rest(conn, until - Monotonic.now());
    }
}

/// Runs a connection's timers, and receives its messages.
fn turn(conn: &mut dyn Conn, inbox: &mut LastNote<'_>) -> std::io::Result<()> {
    conn.on_deadline(Monotonic.now())?;
    if conn.readiness().has_backlog {
        conn.flush()?;
    }
    match conn.receive(Patience::None, inbox)? {
        Progress::Closed => Err(std::io::ErrorKind::ConnectionAborted.into()),
        Progress::Moved | Progress::Idle => Ok(()),
    }
}

/// Sleeps until something arrives, at most `span`.
fn rest(conn: &dyn Conn, span: Nanos) {
    match conn.readiness().fd.map(|fd| readable(fd.as_fd(), span)) {
        Some(Ok(_)) => {}
        Some(Err(_)) | None => thread::sleep(span.min(LOOK).into()),
    }
}

/// Inbox that stores the last note that arrived.
struct LastNote<'a> {
    note: &'a Note,
    last: Option<NoteKind>,
}

impl Inbox for LastNote<'_> {
    fn message(&mut self, _lane: Lane, bytes: &[u8]) {
        self.last = self.note.decode(bytes).or(self.last);
    }
}

/// Connection that arrived at one of the listeners.
type Incoming = (usize, Result<(u16, Box<dyn Conn>)>);

/// Open connections of a flow, and the note of the near end that names one.
#[derive(Default)]
struct FlowCandidates {
    conns: [Option<Box<dyn Conn>>; 2],
    named: Option<(usize, NoteKind)>,
}

/// Listener for the connections of both contenders.
pub(super) struct PreferenceListener {
    endpoint: Address,
    token: Token,
    terms: PreferenceTerms,
    incoming: Receiver<Incoming>,
    waiting: BTreeMap<u16, FlowCandidates>,
    /// Last failure of each listener.
    failures: [Option<String>; 2],
    is_over: Arc<AtomicBool>,
    stays: bool,
}

impl PreferenceListener {
    /// Accepts connections at both listeners, each in a thread of its own: a blocked listener returns nothing, and
    /// nothing else must wait for it.
    ///
    /// # Errors
    /// Fails where a thread cannot be started.
    pub(super) fn open(
        listeners: Vec<Box<dyn Listener>>,
        token: Token,
        terms: PreferenceTerms,
    ) -> Result<PreferenceListener> {
        let endpoint = Address::Several(listeners.iter().map(|one| one.endpoint()).collect());
        let stays = listeners.iter().any(|listener| listener.stays());
        let is_over = Arc::new(AtomicBool::new(false));
        let (come_in, incoming) = channel();
        for (at, listener) in listeners.into_iter().enumerate() {
            let (come_in, is_over) = (come_in.clone(), Arc::clone(&is_over));
            thread::Builder::new()
                .name(format!("{} entrance", terms.names[at]))
                .spawn(move || let_in(listener, at, &come_in, &is_over))
                .map_err(|e| Error::setup("start a thread for a listener", e))?;
        }
        let (waiting, failures) = (BTreeMap::new(), [None, None]);
        Ok(PreferenceListener {
            endpoint,
            token,
            terms,
            incoming,
            waiting,
            failures,
            is_over,
            stays,
        })
    }

    /// Returns a flow with an open connection that is named, and the connection's number.
    fn named(&mut self) -> Option<(u16, usize, NoteKind)> {
        for (flow, waiting) in &mut self.waiting {
            let note = Note::of(&Hello { token: self.token, flow: *flow });
            for at in 0..waiting.conns.len() {
                let Some(conn) = &mut waiting.conns[at] else { continue };
                let mut inbox = LastNote { note: &note, last: None };
                if turn(&mut **conn, &mut inbox).is_err() {
                    waiting.conns[at] = None;
                    continue;
                }
                if let Some(kind @ (NoteKind::Alone | NoteKind::Both)) = inbox.last {
                    waiting.named = Some((at, kind));
                }
            }
            if let Some((at, kind)) = waiting.named
                && waiting.conns[at].is_some()
                && (kind == NoteKind::Alone || waiting.conns.iter().all(Option::is_some))
            {
                return Some((*flow, at, kind));
            }
        }
        None
    }

    /// Takes a flow, and confirms it to the near end.
    fn take(&mut self, flow: u16, at: usize, kind: NoteKind) -> Result<Option<Box<dyn Conn>>> {
        let Some(FlowCandidates { conns: [first, second], .. }) = self.waiting.remove(&flow) else {
            return Ok(None);
        };
        let (conn, other) = if at == 0 { (first, second) } else { (second, first) };
        let Some(mut conn) = conn else { return Ok(None) };
        let note = Note::of(&Hello { token: self.token, flow });
        conn.send(LANE, &note.encode(NoteKind::Agreed))
            .map_err(|e| Error::setup("agree on the connection that carries", e))?;
        // The other connection, if it arrived late, is closed.
        let other = other.filter(|_| kind == NoteKind::Both);
        Ok(Some(Box::new(self.terms.conn(at, conn, other, note)?)))
    }

    /// Returns the error, with the evidence, if no connection arrived.
    fn nobody(&self, timeout: Nanos) -> Error {
        let of = |at: usize| {
            let failure = self.failures[at].as_deref().unwrap_or("nothing with this trial's token");
            format!("{}: {failure}", self.terms.names[at])
        };
        Error::blocked(format!("no connection was named within {timeout}; {}; {}", of(0), of(1)))
    }
}

/// Accepts connections until the receiver is gone.
fn let_in(
    mut listener: Box<dyn Listener>,
    at: usize,
    come_in: &Sender<Incoming>,
    is_over: &AtomicBool,
) {
    let mut failures = 0;
    while !is_over.load(Ordering::Acquire) && failures < MOST_FAILURES {
        let came = match listener.accept(TURN) {
            // No connection arrived, and none has to.
            Err(Error::Blocked { .. }) => continue,
            came => came,
        };
        failures += u32::from(came.is_err());
        if come_in.send((at, came)).is_err() {
            return;
        }
    }
}

impl Listener for PreferenceListener {
    fn endpoint(&self) -> Address {
        self.endpoint.clone()
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let deadline = Monotonic.now() + timeout;
        loop {
            while let Some((flow, at, kind)) = self.named() {
                if let Some(conn) = self.take(flow, at, kind)? {
                    return Ok((flow, conn));
                }
            }
            let left = deadline - Monotonic.now();
            if left == Nanos::ZERO {
                return Err(self.nobody(timeout));
            }
            let is_idle = self.waiting.is_empty();
            match self.incoming.recv_timeout(if is_idle { left } else { left.min(LOOK) }.into()) {
                Ok((at, Ok((flow, conn)))) => {
                    self.waiting.entry(flow).or_default().conns[at] = Some(conn);
                }
                Ok((at, Err(error))) => self.failures[at] = Some(error.to_string()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if is_idle => {
                    return Err(self.nobody(timeout));
                }
                Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK.into()),
            }
        }
    }

    fn stays(&self) -> bool {
        self.stays
    }
}

impl Drop for PreferenceListener {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}
