//! Probes of the path from an admitted client: packets of some sizes, each answered by a packet of the size that it asks
//! for, so that the client knows which sizes pass in either direction. They need no turn and no agent, as they are few.
//!
//! They go the way of a trial's datagrams: the port hands over the address of a hello with the client's token if it is
//! the address of the control connection, and the answers leave from a socket that is connected to it. So strangers get
//! none, and no other address is sent any.

use std::net::{IpAddr, SocketAddr};

use super::Shared;
use super::config::Patience;
use super::framed_stream::{FrameEvent, FramedStream};
use super::paid::ByteAccount;
use super::stop::Stop;
use super::token_table::{DataSource, Registration, TrialDoor};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::handover::{ConnectionSource, HandOver};
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::path_mtu::{AnswerLimits, ProbeResponder};
use deadheat_datapath::transport::udp_handshake::{DatagramListener, UDP};
use deadheat_trial::control::Share;
use deadheat_trial::control::stream::ControlStream;

/// Longest time that probes are answered.
const LONGEST: Nanos = Nanos::from_secs(25);

/// Time for which a step waits for a hello.
const STEP: Nanos = Nanos::from_millis(20);

/// Limits of the answers to one request. The searches for a path MTU take some twenty, and a few hundred where most sizes
/// vanish; up to jumbo frames that is 1 MB.
const MOST_ANSWERS: AnswerLimits = AnswerLimits { count: 1_000, bytes: 4_000_000 };

/// Shortest time between two requests of a client, so that probes carry no more than a trickle beside the trials of
/// others.
const PAUSE: Nanos = Nanos::from_secs(1);

/// Probes of one client.
pub(super) struct ProbeSession<'a> {
    listener: DatagramListener,
    responder: Option<ProbeResponder>,
    deadline: Nanos,
    client: IpAddr,
    paid: &'a ByteAccount,
    _registered: Registration<'a>,
}

impl<'a> ProbeSession<'a> {
    /// Awaits probes of `client` that present `token`, at the address `here` of this host; `last` is the time of the
    /// client's last request.
    ///
    /// # Errors
    /// A request too soon after the last, a token that is in use, or an operator's allowance that is used up; the failed
    /// operation.
    pub(super) fn open(
        shared: &'a Shared,
        here: SocketAddr,
        client: IpAddr,
        token: Token,
        last: Option<Nanos>,
    ) -> Result<ProbeSession<'a>> {
        if last.is_some_and(|last| Monotonic.now() - last < PAUSE) {
            return Err(Error::peer("server", format!("probe the path once in {PAUSE} at most")));
        }
        shared.paid.check(client).map_err(|why| Error::peer("server", why))?;
        let pair = HandOver::pair().map_err(|e| Error::setup("make a hand-over channel", e))?;
        let registered = shared
            .token_table
            .register(
                token,
                TrialDoor {
                    door: pair.0,
                    client,
                    source: DataSource::Client,
                    planned: 1,
                    parts: 1,
                    flows: 1,
                    share: Share::WHOLE,
                },
            )
            .map_err(|why| Error::peer("server", why))?;
        let door = ConnectionSource::Handed(pair.1);
        Ok(ProbeSession {
            listener: DatagramListener::open(UDP, here, token, door)?,
            responder: None,
            deadline: Monotonic.now() + LONGEST,
            client,
            paid: &shared.paid,
            _registered: registered,
        })
    }

    /// Answers probes until the client's next message or the end of the time for them; any other event is returned.
    pub(super) fn run(
        &mut self,
        client: &mut FramedStream<ControlStream>,
        stop: &Stop,
        patience: &Patience,
    ) -> Option<FrameEvent> {
        while Monotonic.now() < self.deadline {
            self.answer();
            let fd = self.responder.as_ref().map(ProbeResponder::as_fd);
            // Without a hello, `answer` itself has waited.
            let until = if fd.is_some() { self.deadline } else { Nanos::ZERO };
            match client.receive(stop, Some(until), patience, fd) {
                FrameEvent::Other | FrameEvent::Silence => {}
                FrameEvent::Frame(_) => return None,
                event => return Some(event),
            }
        }
        None
    }

    /// Returns true if a hello arrived over UDP.
    pub(super) fn arrived(&self) -> bool {
        self.responder.is_some()
    }

    /// Answers the probes that have arrived. A failure of the socket ends the answers, and the client sees silence.
    fn answer(&mut self) {
        if let Some(responder) = &mut self.responder {
            if responder.answer(MOST_ANSWERS).is_err() {
                self.deadline = Nanos::ZERO;
            }
            return;
        }
        if let Ok(flow) = self.listener.accept(STEP, &|_| Ok(())) {
            self.responder = ProbeResponder::new(flow.socket, flow.hello).ok();
        }
    }
}

impl Drop for ProbeSession<'_> {
    fn drop(&mut self) {
        if let Some(responder) = &self.responder {
            self.paid.add_beside(self.client, responder.carried());
        }
    }
}
