//! Session: the control connection of one client, trial after trial.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::admit::{AdmittedTrial, OperatorTerms, ServerPart, admit};
use super::echo::{Echoes, MOST_ECHOES, answer};
use super::ended_trial::numbered;
use super::grants::{FarEndSize, Grant, GrantTerms};
use super::probing::ProbeSession;
use super::pulse::Pulse;
use super::queue::{QueuePlace, Turn};
use super::relay::{FrameRelay, TrialEnd};
use super::running::{AgentSetting, RunningAgent};
use super::stop::Stop;
use super::token_table::TrialDoor;
use super::{Client, Shared};
use crate::framed_stream::{FrameEvent, FramedStream, SendBounds};
use crate::pre_auth::{close_with, refuse};
use deadheat_base::error::{Error, Fault, FaultKind};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::destination::canonical;
use deadheat_datapath::transport::Address;
use deadheat_datapath::transport::handover::HandOver;
use deadheat_datapath::transport::hello::Token;
use deadheat_records::host::HostFacts;
use deadheat_trial::control::stream::ControlStream;
use deadheat_trial::control::{
    self, AgentPlan, FromAgent, FromServer, LARGEST, Share, ToAgent, heartbeat,
};

mod commands;
mod ending;

use ending::RanTrial;

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
    /// Time of the last request to probe the path.
    probed: Option<Nanos>,
    /// Number of requests for pairs of commands.
    listed: u32,
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
    let mut session = ClientSession { shared, stop, peer, here, client, probed: None, listed: 0 };
    let (reached_at, seen_as) = (Some(here.ip()), Some(canonical(peer).ip()));
    let facts = HostFacts { reached_at, seen_as, ..shared.facts.clone() };
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
                Ok(ToAgent::Command(ask)) => return self.open_command(&ask),
                Ok(ToAgent::Pairs { name }) => return self.list_pairs(&name),
                Ok(ToAgent::Probe { token }) => return self.answer_probes(token),
                // A message of the trial before.
                Ok(_) => {}
                Err(e) => return Err(self.close(&Error::peer("server", format!("you sent {e}")))),
            }
        }
        Err(self.close(&Error::peer("server", "you started trials that are not open")))
    }

    /// Answers probes of the path until the client's next message, and reports whether any arrived.
    fn answer_probes(&mut self, token: Token) -> Result<(), SessionEnd> {
        let (shared, client) = (self.shared, self.peer.ip());
        let last = self.probed.replace(Monotonic.now());
        let mut probing = match ProbeSession::open(shared, self.here, client, token, last) {
            Ok(probing) => probing,
            Err(why) => return self.refuse_trial("probes of the path", &why),
        };
        self.send(&FromServer::Probing)?;
        let patience = &shared.config.patience;
        if let Some(event) = probing.run(&mut self.client, self.stop, patience) {
            return Err(self.close_after(event));
        }
        self.send(&FromServer::Probed { arrived: probing.arrived() })
    }

    fn open(&mut self, plan: AgentPlan) -> Result<(), SessionEnd> {
        let relays = plan.onward.map_or_else(String::new, |to| format!("relay to {to}, "));
        let title = format!("{relays}{} {}", short(&plan.contender), short(&plan.workload));
        let config = &self.shared.config;
        let cpus = &self.shared.facts.cpus;
        let (limits, also, relay_to) = (&config.limits, &config.also[..], &config.relay_to);
        if let Err(e) = self.shared.cpu_shares.check(plan.cpu) {
            return self.refuse_trial(&title, &e);
        }
        let terms = OperatorTerms { limits, cpus, also, relay_to };
        let admitted = match admit(plan, terms, self.here) {
            Ok(admitted) => admitted,
            Err(e) => return self.refuse_trial(&title, &e),
        };
        let grant = match admitted.place {
            Some(place) if place.node > 0 => {
                let grants = &self.shared.grants;
                grants.join(self.peer.ip(), place, &admitted.size(), cpus)
            }
            _ => {
                let number = self.shared.next_trial();
                let Some(turn) = self.queue(&format!("trial {number} {title}"))? else {
                    return Ok(());
                };
                self.grant(number, turn, admitted.size())
            }
        };
        match grant {
            Ok(grant) => self.run_trial(&title, admitted, grant),
            Err(why) => self.refuse_trial(&title, &Error::peer("server", why)),
        }
    }

    /// Makes the grant of a trial: takes its share of the remaining allowance, at most a trial's limit.
    fn grant(&self, number: u64, turn: Turn, size: FarEndSize) -> Result<Arc<Grant>, String> {
        let (limits, client) = (self.shared.config.limits, self.peer.ip());
        let now = Monotonic.now();
        let share = self.shared.paid.share(client, limits.bytes)?;
        let terms = GrantTerms { client, number, limits, turn, share, now };
        self.shared.grants.make(terms, size)
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
        grant: Arc<Grant>,
    ) -> Result<(), SessionEnd> {
        let began = Monotonic.now();
        let title = &numbered(title, &grant, admitted.place);
        admitted.plan.limits = Some(grant.limits());
        let doors = HandOver::pair().map_err(|e| Error::setup("make a hand-over channel", e));
        let (ours, theirs) = match doors {
            Ok(doors) => doors,
            Err(e) => return self.refuse_trial(title, &e),
        };
        let token = admitted.plan.token;
        let trial = TrialDoor {
            door: ours,
            client: self.peer.ip(),
            source: admitted.source,
            planned: admitted.connections,
            parts: admitted.parts,
            flows: admitted.flows,
            share: admitted.plan.share.unwrap_or(Share::WHOLE),
        };
        let token_table = &self.shared.token_table;
        let registered = match token_table.register(token, trial) {
            Ok(registered) => registered,
            Err(why) => return self.refuse_trial(title, &Error::peer("server", why)),
        };
        let mut running = match self.start(theirs, admitted, &grant) {
            Ok(running) => running,
            Err(e) => return self.refuse_trial(title, &e),
        };
        self.log(&format!("{title} started"));
        let end = match running.line.take() {
            Some(agent) => self.relay(agent, &grant).run(),
            None => TrialEnd::Astray("it has no control line".into()),
        };
        let dropped = registered.dropped();
        drop(registered);
        let ran = RanTrial { title, began, grant, dropped, is_counted: true };
        self.end(ran, running, end)
    }

    fn start(
        &self,
        door: HandOver,
        admitted: AdmittedTrial,
        grant: &Grant,
    ) -> Result<RunningAgent, Error> {
        let setting = AgentSetting { shared: self.shared, stop: self.stop, grant };
        let running = match admitted.part {
            ServerPart::FarEnd => return setting.opened(door, admitted.plan),
            ServerPart::Relay(to) => return setting.relay(door, &admitted.plan, [self.here, to]),
            ServerPart::BehindRelay => setting.behind_relay(door, admitted.plan, self.here)?,
        };
        let ready = FromAgent::Ready { endpoint: Address::Ip(self.here) };
        let told = self.client.send(&ready, self.until());
        told.map_err(|e| Error::setup("speak to a client", e))?;
        Ok(running)
    }

    fn relay<'b>(
        &'b mut self,
        agent: FramedStream<std::os::unix::net::UnixStream>,
        grant: &'b Grant,
    ) -> FrameRelay<'b> {
        FrameRelay {
            client: &mut self.client,
            agent,
            stop: self.stop,
            patience: &self.shared.config.patience,
            queue: &self.shared.queue,
            grant,
            peer: self.peer,
            here: self.here,
            has_own_port: false,
            messages: 0,
            echoes: Echoes::new(&self.shared.config.clock),
            has_begun: false,
            pulse: Pulse::new(grant.account(), Monotonic.now()),
        }
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

    /// Waits at most `patience` for a frame, and answers echoes before it.
    fn receive(&mut self, patience: Nanos) -> Result<Vec<u8>, SessionEnd> {
        let config = &self.shared.config;
        for _ in 0..=MOST_ECHOES {
            let deadline = Some(Monotonic.now() + patience);
            match self.client.receive(self.stop, deadline, &config.patience, None) {
                FrameEvent::Frame(frame) => match answer(&frame, &config.clock) {
                    Some(answer) => self.send(&answer)?,
                    None => return Ok(frame),
                },
                event => return Err(self.close_after(event)),
            }
        }
        Err(self.close(&Error::peer("server", "you sent more echoes than clocks take")))
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
