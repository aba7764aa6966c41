//! Session: the control connection of one client, trial after trial.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::admit::{AdmittedTrial, admit};
use super::paid::{AllowanceShare, Ways};
use super::pulse::Pulse;
use super::queue::{QueuePlace, Turn};
use super::relay::{FrameRelay, TrialEnd};
use super::stop::Stop;
use super::token_table::TrialDoor;
use super::wait::until;
use super::{Agent, Client, Shared};
use crate::datapath::account::Account;
use crate::datapath::destination::canonical;
use crate::datapath::policer::{BURST, time_at};
use crate::error::{Error, Fault, FaultKind};
use crate::foreign;
use crate::host::facts::HostFacts;
use crate::server::framed_stream::{FrameEvent, FramedStream, SendBounds};
use crate::server::pre_auth::{close_with, refuse};
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::handover::HandOver;
use crate::trial::control::heartbeat;
use crate::trial::control::stream::ControlStream;
use crate::trial::control::{self, AgentPlan, FromAgent, FromServer, LARGEST, Limits, ToAgent};
use crate::units::Bytes;

/// Time that an agent that has reported may take to end, unless the client goes on before.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Number of messages of an ended trial that may still arrive before the next one is opened: a failing trial and the
/// client's start message can cross.
const MOST_STRAYS: u32 = 16;

/// Marker that the session has ended; the client and the log have the reason.
struct SessionEnd;

/// Control connection of one client.
struct ClientSession<'a> {
    shared: &'a Shared,
    stop: &'a Stop,
    peer: SocketAddr,
    /// Address of the server as this client reaches it.
    here: SocketAddr,
    client: FramedStream<ControlStream>,
}

/// Serves one client until it leaves or must leave.
pub(super) fn run(shared: &Shared, stop: &Stop, client: Client) {
    let Client { stream, peer } = client;
    let here = match prepare(stream.tcp()) {
        Ok(here) => here,
        Err(e) => {
            return shared.scribe.stranger_now(peer, &format!("left at once: {e}"));
        }
    };
    let client = FramedStream::new(stream, LARGEST as usize);
    let mut session = ClientSession { shared, stop, peer, here, client };
    let facts = HostFacts { reached_at: Some(here.ip()), ..shared.facts.clone() };
    if session.send(&FromServer::Facts(Box::new(facts))).is_ok() {
        while session.next_trial().is_ok() {}
    }
}

/// Sets the connection up so that a dead peer is detected.
fn prepare(stream: &std::net::TcpStream) -> std::io::Result<SocketAddr> {
    stream.set_nodelay(true)?;
    heartbeat::beat(stream)?;
    stream.local_addr().map(canonical)
}

impl ClientSession<'_> {
    /// Waits for a trial and leads it to its end.
    fn next_trial(&mut self) -> Result<(), SessionEnd> {
        for _ in 0..=MOST_STRAYS {
            let frame = self.receive(self.shared.config.patience.idle)?;
            match control::parse::<ToAgent>(&frame) {
                Ok(ToAgent::Open(plan)) => return self.open(*plan),
                Ok(
                    ToAgent::Relay(_)
                    | ToAgent::Start
                    | ToAgent::PeerFinished { .. }
                    | ToAgent::Stop
                    | ToAgent::CallOff,
                ) => {}
                Err(e) => return Err(self.close(&Error::peer("server", format!("you sent {e}")))),
            }
        }
        Err(self.close(&Error::peer("server", "you started trials that are not open")))
    }

    fn open(&mut self, plan: AgentPlan) -> Result<(), SessionEnd> {
        let title = format!("{} {}", short(&plan.contender), short(&plan.workload));
        let limits = self.shared.config.limits;
        let cpus = &self.shared.facts.cpus;
        if let Err(e) = self.shared.cpu_shares.check(plan.cpu) {
            return self.refuse_trial(&title, &e);
        }
        match admit(plan, &limits, cpus, &self.shared.config.also, self.here) {
            Ok(admitted) => {
                let title = format!("trial {} {title}", self.shared.next_trial());
                let turn = self.queue(&title)?;
                match turn {
                    Some(turn) => self.run_trial(&title, admitted, turn),
                    None => Ok(()),
                }
            }
            Err(e) => self.refuse_trial(&title, &e),
        }
    }

    /// Waits for a turn and sends the client its place; `None` if the queue is full.
    fn queue(&mut self, title: &str) -> Result<Option<Turn>, SessionEnd> {
        let ticket = match self.shared.queue.enter(self.peer.ip()) {
            Ok(ticket) => ticket,
            Err(why) => {
                self.no_room(title, why)?;
                return Ok(None);
            }
        };
        let mut announced = None;
        loop {
            let (ahead, until) = match ticket.place(Monotonic.now()) {
                QueuePlace::Now(turn) => return Ok(Some(turn)),
                QueuePlace::At(at) => (0, Some(at)),
                QueuePlace::Behind(ahead) => (ahead, None),
                QueuePlace::PushedOut => {
                    self.no_room(title, "others wait who have fewer trials waiting".into())?;
                    return Ok(None);
                }
            };
            if ahead > 0 && announced != Some(ahead) {
                if announced.is_none() {
                    let line = format!("{title} waits, {ahead} before it");
                    self.shared.scribe.stranger_now(self.peer, &line);
                }
                announced = Some(ahead);
                self.send(&FromServer::Queued { ahead })?;
            }
            let patience = &self.shared.config.patience;
            let other = Some(ticket.as_fd());
            match self.client.receive(self.stop, until, patience, other) {
                FrameEvent::Other | FrameEvent::Silence => {}
                FrameEvent::Frame(_) => {
                    let what = "you sent a message while your trial waits for its turn";
                    return Err(self.close(&Error::peer("server", what)));
                }
                event => return Err(self.close_after(event)),
            }
        }
    }

    fn run_trial(
        &mut self,
        title: &str,
        mut admitted: AdmittedTrial,
        mut turn: Turn,
    ) -> Result<(), SessionEnd> {
        let began = Monotonic.now();
        let share = match self.share(&mut admitted) {
            Ok(share) => share,
            Err(why) => return self.refuse_trial(title, &Error::peer("server", why)),
        };
        let doors = HandOver::pair().map_err(|e| Error::setup("make a hand-over channel", e));
        let (ours, theirs) = match doors {
            Ok(doors) => doors,
            Err(e) => return self.refuse_trial(title, &e),
        };
        let token = admitted.plan.token;
        let token_table = &self.shared.token_table;
        let trial = TrialDoor { door: ours, client: self.peer.ip(), planned: admitted.connections };
        let registered = match token_table.register(token, trial) {
            Ok(registered) => registered,
            Err(why) => return self.refuse_trial(title, &Error::peer("server", why)),
        };
        let span = admitted.span;
        let mut running = match self.start(theirs, admitted.plan, share.account(), turn.place()) {
            Ok(running) => running,
            Err(e) => return self.refuse_trial(title, &e),
        };
        self.log(&format!("{title} started"));
        let (end, has_begun) = match running.line.take() {
            Some(agent) => {
                let pulse = Pulse::new(share.account(), began);
                let mut relay = self.relay(agent, pulse, began, span);
                (relay.run(), relay.has_begun)
            }
            None => (TrialEnd::Astray("it has no control line".into()), false),
        };
        let dropped = registered.dropped();
        drop(registered);
        // A connection that takes no options any more is gone, which the next message shows.
        drop(heartbeat::beat(self.client.stream().tcp()));
        if matches!(end, TrialEnd::Stopped) {
            // Before its data ends, which the client would take for a failure of the contender.
            close_with(self.client.stream(), &FromServer::Stopped(stopping()));
        }
        if matches!(end, TrialEnd::Done | TrialEnd::Fault(_) | TrialEnd::Crashed(_)) {
            self.see_off(&mut running);
        }
        running.agent.kill();
        let carried = share.account().read();
        drop(share);
        let most = carried.into_iter().max().unwrap_or(0);
        // So the bursts of successive trials do not add up to more than the rate.
        turn.rest(time_at(self.shared.config.limits.rate_bps, most).min(BURST));
        match has_begun {
            true => self.shared.has_served.store(true, Ordering::Relaxed),
            false => turn.waste(),
        }
        // The remaining messages need no turn.
        drop(turn);
        let took = Monotonic.now() - began;
        let ended = EndedTrial { title, took, carried, dropped };
        self.conclude(&ended, running, end)
    }

    /// Takes the trial's share of the remaining allowance, at most a trial's limit.
    fn share(&self, admitted: &mut AdmittedTrial) -> Result<AllowanceShare, String> {
        let config = &self.shared.config;
        let share = self.shared.paid.share(self.peer.ip(), config.limits.bytes)?;
        match admitted.most_bytes {
            Some(most) if most > share.bytes => Err(format!(
                "this trial carries up to {}, and only {} are left of what this server's operator allows \
                 (--max-total, --max-per-client)",
                Bytes(most),
                Bytes(share.bytes)
            )),
            _ => {
                let limits = Limits { bytes: share.bytes, ..config.limits };
                admitted.plan.limits = Some(limits);
                Ok(share)
            }
        }
    }

    fn start(
        &self,
        door: HandOver,
        plan: AgentPlan,
        account: &Account,
        place: u32,
    ) -> Result<RunningAgent, Error> {
        let mut running =
            RunningAgent { agent: self.shared.starter.start(door, account)?, line: None };
        if let Some(cpus) = self.shared.cpu_shares.of_place(place) {
            running.agent.hold_on(cpus)?;
        }
        let with = |e| Error::setup("speak to a new agent", e);
        let stream = running.agent.control().try_clone().map_err(with)?;
        stream.set_nonblocking(true).map_err(with)?;
        let line = FramedStream::new(stream, LARGEST as usize);
        line.send(&ToAgent::Open(Box::new(plan)), self.until()).map_err(with)?;
        running.line = Some(line);
        Ok(running)
    }

    fn relay<'a>(
        &'a mut self,
        agent: FramedStream<std::os::unix::net::UnixStream>,
        pulse: Pulse<'a>,
        began: Nanos,
        span: Nanos,
    ) -> FrameRelay<'a> {
        let config = &self.shared.config;
        FrameRelay {
            client: &mut self.client,
            agent,
            stop: self.stop,
            patience: &config.patience,
            queue: &self.shared.queue,
            began,
            deadline: began + config.patience.grace,
            span,
            peer: self.peer,
            here: self.here,
            messages: 0,
            has_begun: false,
            pulse,
        }
    }

    /// Writes the log line of a trial that has ended, and informs the client if it does not know yet.
    fn conclude(
        &mut self,
        ended: &EndedTrial<'_>,
        mut running: RunningAgent,
        end: TrialEnd,
    ) -> Result<(), SessionEnd> {
        match end {
            TrialEnd::Done => {
                self.log(&ended.line("done in", ""));
                Ok(())
            }
            TrialEnd::Fault(fault) => {
                self.log(&ended.line("failed after", &fault.to_string()));
                Ok(())
            }
            TrialEnd::Crashed(how) => {
                let words = running.agent.last_words();
                let words = words.map_or_else(String::new, |w| format!("; its last words: {w}"));
                self.fail_trial(ended, format!("the agent crashed: {how}{words}"))
            }
            TrialEnd::Astray(how) => {
                self.fail_trial(ended, format!("the agent went astray: {how}"))
            }
            TrialEnd::Late(what) => self.fail_trial(ended, what),
            TrialEnd::CalledOff => self.fail_trial(ended, "the client called it off".into()),
            TrialEnd::Vanished(how) => {
                self.log(&ended.line("abandoned after", &format!("the client {how}")));
                Err(SessionEnd)
            }
            TrialEnd::Nonsense(what) => {
                self.log(&ended.line("abandoned after", ""));
                Err(self.close(&Error::peer("server", format!("you sent {what}"))))
            }
            TrialEnd::Stopped => {
                self.log(&ended.line("abandoned after", "told to stop"));
                Err(SessionEnd)
            }
        }
    }

    /// Lets an agent that has sent its last message end. An agent with a protocol in user space stays to answer its
    /// peer, and is not needed any more once the client goes on.
    fn see_off(&self, running: &mut RunningAgent) {
        let fds =
            [running.agent.control().as_fd(), self.client.stream().as_fd(), self.stop.as_fd()];
        let ready = until(&fds, Some(Monotonic.now() + FAREWELL));
        if ready.is_ok_and(|ready| ready[0]) {
            running.agent.ended(FAREWELL);
        }
    }

    fn fail_trial(&mut self, ended: &EndedTrial<'_>, what: String) -> Result<(), SessionEnd> {
        self.log(&ended.line("failed after", &what));
        let fault = Error::peer("far end", foreign::short(&what)).to_fault();
        self.send(&FromAgent::Fault(fault))
    }

    /// Reports that there is no capacity for a trial now; the client may ask again.
    fn no_room(&mut self, title: &str, why: String) -> Result<(), SessionEnd> {
        self.shared.scribe.stranger_now(self.peer, &format!("{title}: no room: {why}"));
        self.send(&FromServer::Full(Error::peer("server", why).to_fault()))
    }

    /// Refuses a trial; the client may ask for another.
    fn refuse_trial(&mut self, title: &str, why: &Error) -> Result<(), SessionEnd> {
        self.shared.scribe.stranger_now(self.peer, &format!("{title} refused: {why}"));
        self.send(&FromServer::Refused(why.to_fault()))
    }

    /// Waits at most `patience` for a frame.
    fn receive(&mut self, patience: Nanos) -> Result<Vec<u8>, SessionEnd> {
        let deadline = Some(Monotonic.now() + patience);
        let event = self.client.receive(self.stop, deadline, &self.shared.config.patience, None);
        match event {
            FrameEvent::Frame(frame) => Ok(frame),
            event => Err(self.close_after(event)),
        }
    }

    /// Sends the client the reason why no frame arrived from it.
    fn close_after(&self, event: FrameEvent) -> SessionEnd {
        let why = match event {
            FrameEvent::Gone(how) => {
                self.shared.scribe.stranger_now(self.peer, &how);
                return SessionEnd;
            }
            FrameEvent::Stopped => {
                close_with(self.client.stream(), &FromServer::Stopped(stopping()));
                return SessionEnd;
            }
            FrameEvent::Nonsense(what) => format!("you sent {what}"),
            FrameEvent::Stuck => "your message stopped in the middle".to_owned(),
            FrameEvent::Silence | FrameEvent::Other | FrameEvent::Frame(_) => {
                "you said nothing for too long".into()
            }
        };
        self.close(&Error::peer("server", why))
    }

    /// Sends the peer the reason why this connection ends.
    fn close(&self, why: &Error) -> SessionEnd {
        self.shared.scribe.stranger_now(self.peer, &format!("refused: {why}"));
        refuse(self.client.stream(), &why.to_fault());
        SessionEnd
    }

    fn send(&self, message: &impl serde::Serialize) -> Result<(), SessionEnd> {
        self.client.send(message, self.until()).map_err(|e| {
            if self.stop.is_pulled() {
                close_with(self.client.stream(), &FromServer::Stopped(stopping()));
            }
            self.shared.scribe.stranger_now(self.peer, &format!("does not take its messages: {e}"));
            SessionEnd
        })
    }

    /// Returns the deadline of a peer for a message outside a trial.
    fn until(&self) -> SendBounds<'_> {
        let deadline = Monotonic.now() + self.shared.config.patience.partial;
        SendBounds { deadline, stop: self.stop }
    }

    fn log(&self, what: &str) {
        self.shared.scribe.line(Some(self.peer), what);
    }
}

/// Running agent; ended when dropped, in any case.
struct RunningAgent {
    agent: Box<dyn Agent>,
    line: Option<FramedStream<std::os::unix::net::UnixStream>>,
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.agent.kill();
    }
}

/// Trial that has ended, for the log.
struct EndedTrial<'a> {
    title: &'a str,
    took: Nanos,
    carried: Ways,
    /// Number of its connections that were dropped.
    dropped: u64,
}

impl EndedTrial<'_> {
    fn line(&self, how: &str, why: &str) -> String {
        let EndedTrial { title, took, carried, dropped } = self;
        let [sent, received] = carried.map(Bytes);
        let dropped = match dropped {
            0 => String::new(),
            some => format!(", hellos dropped: {some}"),
        };
        let colon = if why.is_empty() { "" } else { ": " };
        // The reason is last: it may be long, and be truncated.
        format!("{title} {how} {took}; {sent} sent, {received} received{dropped}{colon}{why}")
    }
}

fn stopping() -> Fault {
    Fault { kind: FaultKind::Peer, message: "its operator stopped it".into() }
}

/// Shortens typed text for a log line.
fn short(typed: &str) -> String {
    let mut short: String = typed.chars().take(80).collect();
    if short.len() < typed.len() {
        short.push('…');
    }
    short
}
