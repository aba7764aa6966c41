//! Relay of frames between a client and its agent until the trial ends in any way.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::config::Patience;
use super::echo::{Echoes, MOST_ECHOES};
use super::grants::{Grant, TrialPhase};
use super::pulse::Pulse;
use super::queue::Queue;
use super::stop::Stop;
use super::wait::{earlier, until};
use crate::framed_stream::{FrameEvent, FramedStream, SendBounds};
use deadheat_base::error::Fault;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::Address;
use deadheat_trial::control::stream::ControlStream;
use deadheat_trial::control::{self, FromAgent, ToAgent};

/// Time between two checks for waiting trials while this trial has not begun.
const GLANCE: Nanos = Nanos::from_millis(100);

/// Largest number of messages that a client may send during a trial. It needs two.
const MOST_MESSAGES: u32 = 16;

/// End of a trial.
#[derive(Debug)]
pub(super) enum TrialEnd {
    /// Done: the agent reported, and the client has its report.
    Done,
    /// Fault: the agent reported a fault, and the client knows it.
    Fault(Fault),
    /// Crashed: the agent ended without a last message; with the evidence.
    Crashed(String),
    /// Astray: the agent violates the protocol; with the violation.
    Astray(String),
    /// Late: the trial did not begin, or did not end, in time; with the description.
    Late(String),
    /// Called off: the client does not want it any more.
    CalledOff,
    /// Vanished: the client is gone; with the way it went.
    Vanished(String),
    /// Nonsense: the client violates the protocol; with the violation.
    Nonsense(String),
    /// Ended: another far end of the trial ended it for all.
    Ended,
    /// Stopped: the server must stop.
    Stopped,
}

impl TrialEnd {
    /// Returns true if it ends the trial's other far ends, too: its client, or its time, is gone.
    pub(super) fn is_for_all(&self) -> bool {
        match self {
            TrialEnd::Late(_)
            | TrialEnd::CalledOff
            | TrialEnd::Vanished(_)
            | TrialEnd::Nonsense(_)
            | TrialEnd::Ended
            | TrialEnd::Stopped => true,
            // The client knows, and goes on or calls the others off.
            TrialEnd::Done | TrialEnd::Fault(_) | TrialEnd::Crashed(_) | TrialEnd::Astray(_) => {
                false
            }
        }
    }
}

/// Control connections of one trial, to the client and to the agent.
pub(super) struct FrameRelay<'a> {
    pub(super) client: &'a mut FramedStream<ControlStream>,
    pub(super) agent: FramedStream<UnixStream>,
    pub(super) stop: &'a Stop,
    pub(super) patience: &'a Patience,
    /// Queue in which others may wait for this turn.
    pub(super) queue: &'a Queue,
    /// Grant of the trial, which has its deadlines.
    pub(super) grant: &'a Grant,
    /// Address of the client, and the address of this host that the client must dial.
    pub(super) peer: SocketAddr,
    pub(super) here: SocketAddr,
    /// True if the far end listens at a port of its own, as a command does, and not at the server's.
    pub(super) has_own_port: bool,
    /// Number of messages from the client so far.
    pub(super) messages: u32,
    /// Echoes from the client.
    pub(super) echoes: Echoes<'a>,
    /// True once the client has sent the start message to this far end.
    pub(super) has_begun: bool,
    /// Signs of life of the client.
    pub(super) pulse: Pulse<'a>,
}

impl FrameRelay<'_> {
    /// Relays until the end.
    pub(super) fn run(&mut self) -> TrialEnd {
        loop {
            match self.step() {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    /// Passes on complete frames, then waits for more.
    fn step(&mut self) -> Result<(), TrialEnd> {
        let now = Monotonic.now();
        while let Some(event) = self.agent.pending(now, self.patience) {
            self.on_agent(event)?;
        }
        while let Some(event) = self.client.pending(now, self.patience) {
            self.on_client(event)?;
        }
        let phase = self.grant.phase(self.patience);
        let mut wake = phase.deadline();
        if let TrialPhase::Connects(_) = phase {
            // Others need not wait for a trial whose near end no longer tries to connect.
            let start = self.grant.to_begin(self.patience.start);
            let soon = self.grant.waits_from() + start;
            let is_waited_for = now >= soon && self.queue.is_waited_for(self.peer.ip());
            if is_waited_for {
                return Err(TrialEnd::Late(self.late(phase, start)));
            }
            wake = if now < soon { wake.min(soon) } else { wake.min(now + GLANCE) };
        }
        if self.has_begun {
            wake = wake.min(self.pulse.look(self.client.stream().tcp(), now));
        }
        if now >= phase.deadline() {
            let grace = match phase {
                TrialPhase::Connects(_) => self.grant.to_begin(self.patience.grace),
                TrialPhase::Runs(_) => self.patience.grace,
            };
            return Err(TrialEnd::Late(self.late(phase, grace)));
        }
        let fds = [
            self.stop.as_fd(),
            self.agent.stream().as_fd(),
            self.client.stream().as_fd(),
            self.grant.end.as_fd(),
        ];
        let stuck =
            earlier(self.agent.stuck_at(self.patience), self.client.stuck_at(self.patience));
        let ready = until(&fds, earlier(stuck, Some(wake)))
            .map_err(|e| TrialEnd::Astray(format!("it cannot be waited for: {e}")))?;
        if ready[0] {
            return Err(TrialEnd::Stopped);
        }
        let now = Monotonic.now();
        // The agent first: its last message counts even if the client leaves at the same time.
        if ready[1]
            && let Err(event) = self.agent.fill(now)
        {
            self.on_agent(event)?;
        }
        if ready[2]
            && let Err(event) = self.client.fill(now)
        {
            self.on_client(event)?;
        }
        // Last: what either said before counts.
        if ready[3] { Err(TrialEnd::Ended) } else { Ok(()) }
    }

    fn late(&self, phase: TrialPhase, grace: Nanos) -> String {
        match phase {
            TrialPhase::Runs(_) => format!(
                "it takes {} at most, and did not end within {grace} more: ended here",
                self.grant.span()
            ),
            TrialPhase::Connects(_) => {
                format!("it did not begin within {grace} of its turn: ended here")
            }
        }
    }

    fn on_agent(&mut self, event: FrameEvent) -> Result<(), TrialEnd> {
        let frame = match event {
            FrameEvent::Frame(frame) => frame,
            FrameEvent::Gone(how) => {
                return Err(TrialEnd::Crashed(format!("it {how} without a report")));
            }
            FrameEvent::Nonsense(what) => return Err(TrialEnd::Astray(format!("it sent {what}"))),
            _ => return Err(TrialEnd::Astray("it stopped in the middle of a message".into())),
        };
        match control::parse(&frame) {
            Ok(FromAgent::Ready { endpoint }) => {
                let mut here = self.here;
                if self.has_own_port {
                    let Address::Ip(own) = endpoint else {
                        return Err(TrialEnd::Astray("its command has no port".into()));
                    };
                    here.set_port(own.port());
                    self.grant.be_ready(Monotonic.now());
                }
                let endpoint = Address::Ip(here);
                self.send_to_client(|client, until| {
                    client.send(&FromAgent::Ready { endpoint }, until)
                })
            }
            Ok(FromAgent::Connected | FromAgent::Interval { .. } | FromAgent::Finished { .. }) => {
                self.send_to_client(|client, until| client.forward(&frame, until))
            }
            Ok(FromAgent::Done(_)) => {
                self.send_to_client(|client, until| client.forward(&frame, until))?;
                Err(TrialEnd::Done)
            }
            Ok(FromAgent::Fault(fault)) => {
                self.send_to_client(|client, until| client.forward(&frame, until))?;
                Err(TrialEnd::Fault(fault))
            }
            Ok(FromAgent::Busy) => Err(TrialEnd::Astray("it waits for another far end".into())),
            Err(e) => Err(TrialEnd::Astray(format!("it sent {e}"))),
        }
    }

    /// Answers an echo of the client; the agent does not notice.
    fn answer_echo(&mut self, sent: Nanos) -> Result<(), TrialEnd> {
        let Some(answer) = self.echoes.next(sent) else {
            let what = format!("more than {MOST_ECHOES} echoes in one trial");
            return Err(TrialEnd::Nonsense(what));
        };
        self.send_to_client(|client, until| client.send(&answer, until))
    }

    /// Sends the client a message, which it must accept while the trial lasts.
    fn send_to_client(
        &mut self,
        send: impl FnOnce(&FramedStream<ControlStream>, SendBounds<'_>) -> io::Result<()>,
    ) -> Result<(), TrialEnd> {
        self.pulse.speak(Monotonic.now());
        send(self.client, self.until()).map_err(|e| {
            if self.stop.is_pulled() {
                TrialEnd::Stopped
            } else {
                TrialEnd::Vanished(format!("does not take its messages: {e}"))
            }
        })
    }

    fn until(&self) -> SendBounds<'_> {
        SendBounds { deadline: self.grant.phase(self.patience).deadline(), stop: self.stop }
    }

    fn on_client(&mut self, event: FrameEvent) -> Result<(), TrialEnd> {
        let frame = match event {
            FrameEvent::Frame(frame) => frame,
            FrameEvent::Gone(how) => return Err(TrialEnd::Vanished(how)),
            FrameEvent::Nonsense(what) => return Err(TrialEnd::Nonsense(what)),
            _ => return Err(TrialEnd::Nonsense("a message that stops in the middle".into())),
        };
        self.pulse.speak(Monotonic.now());
        let word = control::parse(&frame);
        if let Ok(ToAgent::Echo { sent_ns }) = word {
            return self.answer_echo(sent_ns);
        }
        self.messages += 1;
        if self.messages > MOST_MESSAGES {
            return Err(TrialEnd::Nonsense(format!(
                "more than {MOST_MESSAGES} messages in one trial"
            )));
        }
        match word {
            Ok(ToAgent::Start) if !self.has_begun => {
                self.has_begun = true;
                self.pulse.rest(self.client.stream().tcp(), Monotonic.now());
                self.grant.begin(Monotonic.now(), self.patience);
            }
            Ok(
                ToAgent::Start
                | ToAgent::Onward
                | ToAgent::PeerFinished { .. }
                | ToAgent::Stop
                | ToAgent::Echo { .. },
            ) => {}
            Ok(ToAgent::CallOff) => return Err(TrialEnd::CalledOff),
            Ok(
                ToAgent::Open(_)
                | ToAgent::Command(_)
                | ToAgent::Pairs { .. }
                | ToAgent::Relay(_)
                | ToAgent::Probe { .. },
            ) => {
                return Err(TrialEnd::Nonsense("a new trial before the last one ended".into()));
            }
            Err(e) => return Err(TrialEnd::Nonsense(e.to_string())),
        }
        match self.agent.forward(&frame, self.until()) {
            Err(_) if self.stop.is_pulled() => Err(TrialEnd::Stopped),
            // An agent that is gone may have sent a last message, which is still to be read.
            Err(e) if !is_gone(&e) => Err(TrialEnd::Astray(format!("it takes no messages: {e}"))),
            _ => Ok(()),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
