//! Session: the control connection of one client, trial after trial.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::admit::{Admitted, admit};
use super::paid::{Share, Ways};
use super::queue::{Place, Turn};
use super::relay::{End, Relay};
use super::stop::Stop;
use super::wait::until;
use super::{Agent, Client, Shared};
use crate::datapath::account::Account;
use crate::datapath::destination::canonical;
use crate::datapath::policer::{BURST, time_at};
use crate::error::{Error, Fault, FaultKind};
use crate::foreign;
use crate::host::facts::HostFacts;
use crate::server::framed_stream::{FramedStream, Heard, Until};
use crate::server::pre_auth::{close_with, refuse};
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::handover::HandOver;
use crate::trial::control::stream::ControlStream;
use crate::trial::control::{self, AgentPlan, FromAgent, FromServer, LARGEST, Limits, ToAgent};
use crate::units::Bytes;

/// Time that an agent that has reported may take to end, unless the client goes on before.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Number of messages of an ended trial that may still arrive before the next one is opened: a failing trial and the
/// client's start message can cross.
const MOST_STRAYS: u32 = 16;

/// Marker that the session has ended; the client and the log have the reason.
struct Closed;

/// Control connection of one client.
struct Session<'a> {
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
    let mut session = Session { shared, stop, peer, here, client };
    let facts = HostFacts { reached_at: Some(here.ip()), ..shared.facts.clone() };
    if session.say(&FromServer::Facts(Box::new(facts))).is_ok() {
        while session.next_trial().is_ok() {}
    }
}

/// Sets the connection up so that a dead peer is detected.
fn prepare(stream: &std::net::TcpStream) -> std::io::Result<SocketAddr> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    stream.local_addr().map(canonical)
}

impl Session<'_> {
    /// Waits for a trial and leads it to its end.
    fn next_trial(&mut self) -> Result<(), Closed> {
        for _ in 0..=MOST_STRAYS {
            let frame = self.hear(self.shared.config.patience.idle)?;
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

    fn open(&mut self, plan: AgentPlan) -> Result<(), Closed> {
        let title = format!("{} {}", short(&plan.contender), short(&plan.workload));
        let limits = self.shared.config.limits;
        let cpus = &self.shared.facts.cpus;
        match admit(plan, &limits, cpus, self.here) {
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
    fn queue(&mut self, title: &str) -> Result<Option<Turn>, Closed> {
        let ticket = match self.shared.queue.enter(self.peer.ip()) {
            Ok(ticket) => ticket,
            Err(why) => {
                self.no_room(title, why)?;
                return Ok(None);
            }
        };
        let mut told = None;
        loop {
            let (ahead, until) = match ticket.place(Monotonic.now()) {
                Place::Now(turn) => return Ok(Some(turn)),
                Place::At(at) => (0, Some(at)),
                Place::Behind(ahead) => (ahead, None),
                Place::PushedOut => {
                    self.no_room(title, "others wait who have fewer trials waiting".into())?;
                    return Ok(None);
                }
            };
            if ahead > 0 && told != Some(ahead) {
                if told.is_none() {
                    let line = format!("{title} waits, {ahead} before it");
                    self.shared.scribe.stranger_now(self.peer, &line);
                }
                told = Some(ahead);
                self.say(&FromServer::Queued { ahead })?;
            }
            let patience = &self.shared.config.patience;
            let other = Some(ticket.as_fd());
            match self.client.hear(self.stop, until, patience, other) {
                Heard::Other | Heard::Silence => {}
                Heard::Frame(_) => {
                    let what = "you sent a message while your trial waits for its turn";
                    return Err(self.close(&Error::peer("server", what)));
                }
                heard => return Err(self.explain(heard)),
            }
        }
    }

    fn run_trial(
        &mut self,
        title: &str,
        mut admitted: Admitted,
        mut turn: Turn,
    ) -> Result<(), Closed> {
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
        let registered = token_table.register(token, ours, self.peer.ip(), admitted.flows);
        let registered = match registered {
            Ok(registered) => registered,
            Err(why) => return self.refuse_trial(title, &Error::peer("server", why)),
        };
        let span = admitted.span;
        let mut running = match self.start(theirs, admitted.plan, share.account()) {
            Ok(running) => running,
            Err(e) => return self.refuse_trial(title, &e),
        };
        self.log(&format!("{title} started"));
        let (end, has_begun) = match running.line.take() {
            Some(agent) => {
                let mut relay = self.relay(agent, began, span);
                (relay.run(), relay.has_begun)
            }
            None => (End::Astray("it has no control line".into()), false),
        };
        drop(registered);
        if matches!(end, End::Stopped) {
            // Before its data ends, which the client would take for a failure of the contender.
            close_with(self.client.stream(), &FromServer::Stopped(stopping()));
        }
        if matches!(end, End::Done | End::Fault(_) | End::Crashed(_)) {
            self.see_off(&mut running);
        }
        running.agent.kill();
        let carried = share.account().read();
        drop(share);
        let most = carried.into_iter().max().unwrap_or(0);
        // So the bursts of successive trials do not add up to more than the rate.
        turn.rest(time_at(self.shared.config.limits.rate_bps, most).min(BURST));
        if !has_begun {
            turn.waste();
        }
        // The remaining messages need no turn.
        drop(turn);
        let told = Ended { title, took: Monotonic.now() - began, carried };
        self.conclude(&told, running, end)
    }

    /// Takes the trial's share of the remaining allowance, at most a trial's limit.
    fn share(&self, admitted: &mut Admitted) -> Result<Share, String> {
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

    fn start(&self, door: HandOver, plan: AgentPlan, account: &Account) -> Result<Running, Error> {
        let mut running = Running { agent: self.shared.starter.start(door, account)?, line: None };
        let with = |e| Error::setup("speak to a new agent", e);
        let stream = running.agent.control().try_clone().map_err(with)?;
        stream.set_nonblocking(true).map_err(with)?;
        let line = FramedStream::new(stream, LARGEST as usize);
        line.say(&ToAgent::Open(Box::new(plan)), self.until()).map_err(with)?;
        running.line = Some(line);
        Ok(running)
    }

    fn relay(
        &mut self,
        agent: FramedStream<std::os::unix::net::UnixStream>,
        began: Nanos,
        span: Nanos,
    ) -> Relay<'_> {
        let config = &self.shared.config;
        Relay {
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
        }
    }

    /// Writes the log line of a trial that has ended, and informs the client if it does not know yet.
    fn conclude(
        &mut self,
        ended: &Ended<'_>,
        mut running: Running,
        end: End,
    ) -> Result<(), Closed> {
        match end {
            End::Done => {
                self.log(&ended.line("done in", ""));
                Ok(())
            }
            End::Fault(fault) => {
                self.log(&ended.line("failed after", &fault.to_string()));
                Ok(())
            }
            End::Crashed(how) => {
                let words = running.agent.last_words();
                let words = words.map_or_else(String::new, |w| format!("; its last words: {w}"));
                self.fail_trial(ended, format!("the agent crashed: {how}{words}"))
            }
            End::Astray(how) => self.fail_trial(ended, format!("the agent went astray: {how}")),
            End::Late(what) => self.fail_trial(ended, what),
            End::CalledOff => self.fail_trial(ended, "the client called it off".into()),
            End::Vanished(how) => {
                self.log(&ended.line("abandoned after", &format!("the client {how}")));
                Err(Closed)
            }
            End::Nonsense(what) => {
                self.log(&ended.line("abandoned after", ""));
                Err(self.close(&Error::peer("server", format!("you sent {what}"))))
            }
            End::Stopped => {
                self.log(&ended.line("abandoned after", "told to stop"));
                Err(Closed)
            }
        }
    }

    /// Lets an agent that has sent its last message end. An agent with a protocol in user space stays to answer its
    /// peer, and is not needed any more once the client goes on.
    fn see_off(&self, running: &mut Running) {
        let fds =
            [running.agent.control().as_fd(), self.client.stream().as_fd(), self.stop.as_fd()];
        let ready = until(&fds, Some(Monotonic.now() + FAREWELL));
        if ready.is_ok_and(|ready| ready[0]) {
            running.agent.ended(FAREWELL);
        }
    }

    fn fail_trial(&mut self, ended: &Ended<'_>, what: String) -> Result<(), Closed> {
        self.log(&ended.line("failed after", &what));
        let fault = Error::peer("far end", foreign::short(&what)).to_fault();
        self.say(&FromAgent::Fault(fault))
    }

    /// Reports that there is no capacity for a trial now; the client may ask again.
    fn no_room(&mut self, title: &str, why: String) -> Result<(), Closed> {
        self.shared.scribe.stranger_now(self.peer, &format!("{title}: no room: {why}"));
        self.say(&FromServer::Full(Error::peer("server", why).to_fault()))
    }

    /// Refuses a trial; the client may ask for another.
    fn refuse_trial(&mut self, title: &str, why: &Error) -> Result<(), Closed> {
        self.shared.scribe.stranger_now(self.peer, &format!("{title} refused: {why}"));
        self.say(&FromServer::Refused(why.to_fault()))
    }

    /// Waits at most `patience` for a frame.
    fn hear(&mut self, patience: Nanos) -> Result<Vec<u8>, Closed> {
        let deadline = Some(Monotonic.now() + patience);
        let heard = self.client.hear(self.stop, deadline, &self.shared.config.patience, None);
        match heard {
            Heard::Frame(frame) => Ok(frame),
            heard => Err(self.explain(heard)),
        }
    }

    /// Sends the client the reason why no frame arrived from it.
    fn explain(&self, heard: Heard) -> Closed {
        let why = match heard {
            Heard::Gone(how) => {
                self.shared.scribe.stranger_now(self.peer, &how);
                return Closed;
            }
            Heard::Stopped => {
                close_with(self.client.stream(), &FromServer::Stopped(stopping()));
                return Closed;
            }
            Heard::Nonsense(what) => format!("you sent {what}"),
            Heard::Stuck => "your message stopped in the middle".to_owned(),
            Heard::Silence | Heard::Other | Heard::Frame(_) => {
                "you said nothing for too long".into()
            }
        };
        self.close(&Error::peer("server", why))
    }

    /// Sends the peer the reason why this connection ends.
    fn close(&self, why: &Error) -> Closed {
        self.shared.scribe.stranger_now(self.peer, &format!("refused: {why}"));
        refuse(self.client.stream(), &why.to_fault());
        Closed
    }

    fn say(&self, message: &impl serde::Serialize) -> Result<(), Closed> {
        self.client.say(message, self.until()).map_err(|e| {
            if self.stop.is_pulled() {
                close_with(self.client.stream(), &FromServer::Stopped(stopping()));
            }
            self.shared.scribe.stranger_now(self.peer, &format!("does not take its messages: {e}"));
            Closed
        })
    }

    /// Returns the deadline of a peer for a message outside a trial.
    fn until(&self) -> Until<'_> {
        let deadline = Monotonic.now() + self.shared.config.patience.partial;
        Until { deadline, stop: self.stop }
    }

    fn log(&self, what: &str) {
        self.shared.scribe.line(Some(self.peer), what);
    }
}

/// Running agent; ended when dropped, in any case.
struct Running {
    agent: Box<dyn Agent>,
    line: Option<FramedStream<std::os::unix::net::UnixStream>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.agent.kill();
    }
}

/// Trial that has ended, for the log.
struct Ended<'a> {
    title: &'a str,
    took: Nanos,
    carried: Ways,
}

impl Ended<'_> {
    fn line(&self, how: &str, why: &str) -> String {
        let Ended { title, took, carried } = self;
        let [sent, received] = carried.map(Bytes);
        let colon = if why.is_empty() { "" } else { ": " };
        // The reason is last: it may be long, and be truncated.
        format!("{title} {how} {took}; {sent} sent, {received} received{colon}{why}")
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
