//! One session of WebRTC with a browser, without a socket: its channels, and the works on them.

use std::net::SocketAddr;
use std::sync::Arc;

use deadheat_datapath::datapath::answering::Arrived;
use str0m::channel::ChannelId;
use str0m::net::{Protocol, Receive};
use str0m::{Event, IceConnectionState, Input, Output, Rtc};

use super::offer::WINDOW;
use crate::places::Place;
use crate::udp::Moment;
use crate::work::{LONGEST, Tickets, Work};
use deadheat_base::time::Nanos;

/// Most channels of a session.
const MOST_CHANNELS: usize = 8;

/// Time for the handshakes and the first trial, and from one trial to the next.
const GRACE: Nanos = Nanos::from_secs(20);

/// Longest time without a datagram; browsers ask for consent every few seconds (RFC 7675).
const SILENCE: Nanos = Nanos::from_secs(30);

/// Most steps of a session before others have their turn, and the wait after them.
const MOST_STEPS: usize = 256;
const PAUSE: Nanos = Nanos::from_micros(100);

/// Sender of datagrams to the source of the given one.
pub(super) type Send<'a> = &'a mut dyn FnMut(&[u8], &Arrived);

/// Session of a browser.
pub(super) struct RtcSession {
    rtc: Rtc,
    /// Address of this end that the answer named.
    local: SocketAddr,
    /// Way back to the browser.
    way: Option<Arrived>,
    channels: Vec<ChannelLane>,
    due: Nanos,
    /// Time since which no trial runs, and since which no datagram came.
    idle_since: Nanos,
    silent_since: Nanos,
    is_over: bool,
    _place: Place,
}

/// Channel with the work on it.
struct ChannelLane {
    id: ChannelId,
    work: Work,
    /// Message that waits for room.
    leaving: Option<Vec<u8>>,
}

/// Outcome of an attempt to send on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    Nothing,
    Something,
    /// The channel is closed.
    Gone,
}

impl RtcSession {
    pub(super) fn new(rtc: Rtc, local: SocketAddr, now: Nanos, place: Place) -> RtcSession {
        RtcSession {
            rtc,
            local,
            way: None,
            channels: Vec::new(),
            due: now,
            idle_since: now,
            silent_since: now,
            is_over: false,
            _place: place,
        }
    }

    /// Returns true if the last datagram of the browser came from this address.
    pub(super) fn is_from(&self, peer: SocketAddr) -> bool {
        self.way.is_some_and(|way| way.peer == peer)
    }

    /// Returns the time of the next turn without an arrival.
    pub(super) fn due(&self) -> Nanos {
        self.due
    }

    /// Returns true once the session is to be dropped.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        self.is_over || now - self.idle_since > GRACE || now - self.silent_since > SILENCE
    }

    /// Takes a datagram if it belongs to this session.
    pub(super) fn handle(&mut self, moment: &Moment, way: &Arrived, bytes: &[u8]) -> bool {
        let received = Receive::new(Protocol::Udp, way.peer, self.local, bytes);
        let Ok(received) = received else { return false };
        let input = Input::Receive(moment.instant, received);
        if !self.rtc.accepts(&input) {
            return false;
        }
        self.way = Some(*way);
        self.silent_since = moment.now;
        // A datagram that is refused does not end the session; the next turn passes the time.
        let _ = self.rtc.handle_input(input);
        self.due = moment.now;
        true
    }

    /// Moves the session on.
    pub(super) fn turn(&mut self, moment: &Moment, tickets: &Arc<dyn Tickets>, send: Send<'_>) {
        if self.due > moment.now || self.is_over {
            return;
        }
        for _ in 0..MOST_STEPS {
            if self.rtc.handle_input(Input::Timeout(moment.instant)).is_err() {
                self.is_over = true;
                return;
            }
            let Some(timer) = self.take_outputs(moment, tickets, send) else {
                self.is_over = true;
                return;
            };
            let has_given = self.give(moment.now);
            if !has_given && timer > moment.now {
                return self.rest(moment.now, timer);
            }
        }
        self.rest(moment.now, moment.now + PAUSE);
    }

    /// Sets the time of the next turn.
    fn rest(&mut self, now: Nanos, timer: Nanos) {
        if self.channels.iter().filter_map(|lane| lane.work.ends()).any(|end| end > now) {
            self.idle_since = now;
        }
        let works = self.channels.iter().filter(|lane| lane.leaving.is_none());
        let works = works.filter_map(|lane| lane.work.due());
        let limits = [self.idle_since + GRACE, self.silent_since + SILENCE];
        // Just past the limits, so that they have passed by then.
        let limits = limits.map(|limit| limit + Nanos(1));
        let due = works.chain(limits).fold(timer, Nanos::min);
        self.due = due.max(now + Nanos(1));
    }

    /// Takes all outputs of the library; returns its next time, and `None` if the session is over.
    fn take_outputs(
        &mut self,
        moment: &Moment,
        tickets: &Arc<dyn Tickets>,
        send: Send<'_>,
    ) -> Option<Nanos> {
        loop {
            match self.rtc.poll_output().ok()? {
                Output::Timeout(at) => return Some(moment.nanos(at)),
                Output::Transmit(transmit) => {
                    if let Some(way) = self.way {
                        send(&transmit.contents, &Arrived { peer: transmit.destination, ..way });
                    }
                }
                Output::Event(event) => self.take_event(moment, tickets, event)?,
            }
        }
    }

    /// Takes an event; `None` if it ends the session.
    fn take_event(
        &mut self,
        moment: &Moment,
        tickets: &Arc<dyn Tickets>,
        event: Event,
    ) -> Option<()> {
        match event {
            Event::ChannelOpen(id, _) if self.channels.len() >= MOST_CHANNELS => {
                self.rtc.direct_api().close_data_channel(id);
            }
            Event::ChannelOpen(id, _) => {
                let work = Work::new(Arc::clone(tickets));
                self.channels.push(ChannelLane { id, work, leaving: None });
            }
            Event::ChannelData(message) if message.data.len() <= LONGEST => {
                if let Some(lane) = self.channels.iter_mut().find(|lane| lane.id == message.id) {
                    lane.work.received(moment.now, &message.data);
                }
            }
            Event::ChannelClose(id) => self.channels.retain(|lane| lane.id != id),
            Event::Closed | Event::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                return None;
            }
            _ => {}
        }
        Some(())
    }

    /// Sends messages on all channels while there is room; returns true if any left.
    fn give(&mut self, now: Nanos) -> bool {
        let (rtc, mut has_given) = (&mut self.rtc, false);
        self.channels.retain_mut(|lane| {
            let given = lane.give(rtc, now);
            has_given |= given == Given::Something;
            given != Given::Gone
        });
        has_given
    }
}

impl ChannelLane {
    fn give(&mut self, rtc: &mut Rtc, now: Nanos) -> Given {
        let mut given = Given::Nothing;
        while let Some(message) = self.leaving.take().or_else(|| self.work.next(now)) {
            let Some(mut channel) = rtc.channel(self.id) else { return Given::Gone };
            let has_room = channel.buffered_amount() + message.len() <= WINDOW;
            match if has_room { channel.write(true, &message) } else { Ok(false) } {
                Ok(true) => given = Given::Something,
                Ok(false) => {
                    self.leaving = Some(message);
                    break;
                }
                Err(_) => return Given::Gone,
            }
        }
        given
    }
}
