//! Data channels of WebRTC (RFC 8831) by str0m: SCTP in DTLS over the UDP flow that ICE (RFC 8445) agrees on.
//!
//! ```text
//! offer     the answer to an offer of a page
//! session   one session, without a socket, with a work on each channel
//! ```
//! The page sends its offer through the server of the page, and gets the answer there. This end has one UDP port for all
//! sessions, and is an agent of ICE lite (RFC 8445, 2.5): it sends nothing to an address that has not proved the password of its
//! session. A channel is ordered or not, and reliable or not, as the page opens it; each message of it is one of the work.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use deadheat_base::panics::contained;
use serde_json::{Value, json};

use crate::carrier::{
    Carrier, CarrierGround, CarrierKind, MessagePromise, PageContender, PageSignal,
};
use crate::places::Places;
use crate::udp::{CarrierPort, Moment, Waker, send};
use crate::work::Tickets;
use deadheat_datapath::datapath::answering::AnswerSocket;
use session::RtcSession;

mod offer;
mod session;
#[cfg(test)]
mod tests;

/// The carrier.
pub(crate) const KIND: CarrierKind = CarrierKind {
    id: "datachannel",
    open,
    contenders: &[
        PageContender {
            id: "datachannel",
            label: "WebRTC data channel",
            over: "SCTP over UDP",
            promise: MessagePromise::Ordered,
        },
        PageContender {
            id: "datachannel-unreliable",
            label: "WebRTC data channel, unordered, no retransmission",
            over: "SCTP over UDP",
            promise: MessagePromise::BestEffort,
        },
    ],
    script: include_str!("page/datachannel.js"),
};

/// Most sessions, in all and of one address.
const MOST: (usize, usize) = (64, 16);

/// Open carrier. Its thread ends with it.
struct DataChannelCarrier {
    port: u16,
    /// True if it is open at every address of this host.
    is_everywhere: bool,
    places: Places,
    new: SyncSender<RtcSession>,
    waker: Waker,
}

fn open(ground: &CarrierGround) -> Result<Box<dyn Carrier>, String> {
    let (port, waker) = CarrierPort::open(ground.page, 1)?;
    let (new, coming) = sync_channel(MOST.0);
    let places = Places::new(MOST.0, MOST.1);
    let is_everywhere = ground.page.ip().is_unspecified();
    let carrier = DataChannelCarrier { port: port.number(), is_everywhere, places, new, waker };
    let tickets = Arc::clone(&ground.tickets);
    std::thread::Builder::new()
        .name("datachannel".to_owned())
        .spawn(move || serve(port, &coming, &tickets))
        .map_err(|e| format!("there is no thread for it: {e}"))?;
    Ok(Box::new(carrier))
}

impl Carrier for DataChannelCarrier {
    fn facts(&self) -> Value {
        json!({ "port": self.port })
    }

    fn signal(&self, signal: &PageSignal<'_>) -> Result<String, String> {
        let place = self.places.take(signal.from.to_canonical(), None)?;
        let reached = signal.reached.to_canonical();
        // Firefox takes no address of the loopback interface.
        let other = outward().filter(|_| self.is_everywhere && reached.is_loopback());
        let ends: Vec<SocketAddr> =
            [Some(reached), other].into_iter().flatten().map(|ip| (ip, self.port).into()).collect();
        let moment = Moment::now();
        let answered = contained("str0m", || Ok(offer::answer(signal.text, &ends, moment.instant)));
        let (rtc, answer) = answered.map_err(|e| e.to_string())??;
        let session = RtcSession::new(rtc, ends[0], moment.now, place);
        self.new.try_send(session).map_err(|_| "its thread is gone".to_owned())?;
        self.waker.wake();
        Ok(answer)
    }
}

/// Returns the address of this host on its way to others.
fn outward() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // connect(2) chooses a route and sends nothing; no host has this address (RFC 5737).
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then_some(own)
}

/// Serves browsers until the carrier is dropped.
fn serve(mut port: CarrierPort, coming: &Receiver<RtcSession>, tickets: &Arc<dyn Tickets>) {
    let mut sessions: Vec<RtcSession> = Vec::new();
    loop {
        let due = sessions.iter().map(RtcSession::due).min();
        if !port.wait(due) {
            return;
        }
        sessions.extend(coming.try_iter());
        port.receive(|socket, way, bytes| {
            // The session of the source, or the one whose password the datagram proves.
            if let Some(at) = sessions.iter().position(|session| session.is_from(way.peer)) {
                sessions.swap(0, at);
            }
            let mut at = 0;
            while let Some(session) = sessions.get_mut(at) {
                let moment = Moment::now();
                let handled = contained("str0m", || {
                    let is_its = session.handle(&moment, way, bytes);
                    if is_its {
                        // At once: the library has no room for many datagrams.
                        turn(session, &moment, tickets, socket);
                    }
                    Ok(is_its)
                });
                match handled {
                    Ok(false) => at += 1,
                    Ok(true) => return,
                    Err(_) => {
                        sessions.remove(at);
                        return;
                    }
                }
            }
        });
        sessions.retain_mut(|session| {
            let moment = Moment::now();
            let turned = contained("str0m", || {
                turn(session, &moment, tickets, port.socket());
                Ok(())
            });
            turned.is_ok() && !session.is_over(moment.now)
        });
    }
}

/// Moves a session on.
fn turn(
    session: &mut RtcSession,
    moment: &Moment,
    tickets: &Arc<dyn Tickets>,
    socket: &AnswerSocket,
) {
    session.turn(moment, tickets, &mut |bytes, way| send(socket, bytes, way, None));
}
