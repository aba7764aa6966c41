//! Client of a TURN server, a process beside the near end. It forwards datagrams of each of the near end's sockets as
//! ChannelData of that socket's allocation, and delivers the answers to that socket.
//!
//! One thread, up to 64 datagrams in two system calls, sleeping while idle. It makes the allocations that the near end
//! needs before the near end dials, so that no figure includes their time; those for later connections are made when
//! their first datagram arrives, which then waits.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use deadheat_base::descriptor::ready;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use super::allocation::{Allocation, CHANNEL, Failure, FailureKind};
use super::batch::Batch;
use super::message::{channel_data, channel_header};
use super::{OVERHEAD, TurnPlan};
use crate::agent::session::send_message;
use crate::control::FromAgent;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::Bytes;
use deadheat_datapath::datapath::option::Buffer;
use deadheat_datapath::transport::Address;

/// Buffers of each socket.
const BUFFER: Bytes = Bytes(4 << 20);
/// Most allocations at a time; if one more is needed, the least recently used is released.
const MOST: usize = 1024;
/// Most datagrams that wait for their allocation.
const HELD: usize = 64;
/// Number of other ports to try if the server has an allocation for the current one.
const TRIES: usize = 4;
/// Longest time to release the allocations.
const PARTING: Nanos = Nanos::from_secs(1);

/// Forwards until the link to the race has a message, or closes; then releases the allocations.
///
/// # Errors
/// [`Error::Blocked`] if the server does not answer, [`Error::Peer`] with the reason if it refuses.
pub(crate) fn run(plan: &TurnPlan, mut control: UnixStream) -> Result<()> {
    let mut client = TurnClient::new(plan)?;
    while !client.legs.iter().all(|leg| leg.allocation.is_bound()) {
        if client.turn(Some(&control), Nanos(u64::MAX))? {
            return Ok(());
        }
    }
    send_message(&mut control, &FromAgent::Ready { endpoint: Address::Ip(client.at()?) })?;
    while !client.turn(Some(&control), Nanos(u64::MAX))? {}
    client.part();
    Ok(())
}

/// Allocation, with the near end's socket that it serves.
struct Leg {
    /// Socket to the server.
    socket: UdpSocket,
    allocation: Allocation,
    near: Option<SocketAddr>,
    /// Datagrams that wait until the channel is bound.
    held: Vec<Vec<u8>>,
    used: Nanos,
}

struct TurnClient {
    plan: TurnPlan,
    /// Socket that the near end sends to.
    local: UdpSocket,
    legs: Vec<Leg>,
    /// Indices of legs by the near end's sockets.
    by_near: HashMap<SocketAddr, usize>,
    batch: Batch,
    tries: usize,
}

impl TurnClient {
    fn new(plan: &TurnPlan) -> Result<TurnClient> {
        let here: IpAddr = match plan.to {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let legs = (0..usize::from(plan.allocations).min(MOST)).map(|_| Leg::new(plan));
        Ok(TurnClient {
            local: socket(SocketAddr::new(here, 0))?,
            legs: legs.collect::<Result<_>>()?,
            by_near: HashMap::new(),
            batch: Batch::new(),
            plan: plan.clone(),
            tries: 0,
        })
    }

    fn at(&self) -> Result<SocketAddr> {
        self.local.local_addr().map_err(|e| Error::setup("find the TURN client's port", e))
    }

    /// Sends all that is due, waits for the next event, at most until `deadline`, and handles it; returns true for one of
    /// control.
    fn turn(&mut self, control: Option<&UnixStream>, deadline: Nanos) -> Result<bool> {
        self.keep_up()?;
        let next = self.legs.iter().map(|leg| leg.allocation.next()).fold(deadline, Nanos::min);
        let sockets = self.legs.iter().map(|leg| leg.socket.as_fd());
        let fds = [self.local.as_fd()].into_iter().chain(sockets).chain(control.map(AsFd::as_fd));
        let left = next - Monotonic.now();
        let ready = ready(fds.map(|fd| (fd, libc::POLLIN)), Some(left))
            .map_err(|e| Error::setup("wait for what is to be relayed", e))?;
        if ready.get(1 + self.legs.len()) == Some(&true) {
            return Ok(true);
        }
        for leg in (0..self.legs.len()).filter(|leg| ready[1 + leg]) {
            self.back(leg)?;
        }
        if ready[0] {
            self.on()?;
        }
        Ok(false)
    }

    /// Sends the requests of each allocation that are due.
    fn keep_up(&mut self) -> Result<()> {
        let now = Monotonic.now();
        for at in 0..self.legs.len() {
            let leg = &mut self.legs[at];
            match leg.allocation.poll(now) {
                Ok(None) => {}
                Ok(Some(request)) => {
                    if let Err(error) = leg.socket.send(request) {
                        self.refused(&error)?;
                    }
                }
                Err(failure) => self.failed(at, failure)?,
            }
        }
        Ok(())
    }

    /// Returns the error if the network reports that nothing is there: final while nothing is allocated (RFC 8489,
    /// section 6.2.1).
    fn refused(&self, error: &io::Error) -> Result<()> {
        let is_settled = self.legs.iter().any(|leg| leg.allocation.is_bound());
        if is_settled || error.kind() != io::ErrorKind::ConnectionRefused {
            return Ok(());
        }
        Err(Error::blocked(format!(
            "TURN server {}: nothing listens there, the host says; is a TURN server there, over UDP?",
            self.plan.server
        )))
    }

    fn failed(&mut self, leg: usize, failure: Failure) -> Result<()> {
        let what = format!("TURN server {}: {}", self.plan.server, failure.what);
        match failure.kind {
            FailureKind::Mismatch if self.tries < TRIES => {
                self.tries += 1;
                let (near, held) = (self.legs[leg].near, std::mem::take(&mut self.legs[leg].held));
                self.legs[leg] = Leg { near, held, ..Leg::new(&self.plan)? };
                Ok(())
            }
            FailureKind::Silent => Err(Error::blocked(what)),
            FailureKind::Mismatch | FailureKind::Refused => {
                Err(Error::peer(format!("TURN server {}", self.plan.server), failure.what))
            }
        }
    }

    /// Forwards the near end's datagrams.
    fn on(&mut self) -> Result<()> {
        let count = self.batch.receive(&self.local).unwrap_or(0);
        let now = Monotonic.now();
        let mut places: Vec<Range<usize>> = Vec::with_capacity(count);
        let mut of = None;
        for number in 0..count {
            let Some(near) = self.batch.from(number) else { continue };
            let leg = match self.by_near.get(&near) {
                Some(leg) => *leg,
                None => {
                    // Legs may change their positions.
                    self.flush(of.take(), &mut places);
                    self.leg_for(near, now)?
                }
            };
            if of != Some(leg) {
                self.flush(of.replace(leg), &mut places);
            }
            self.legs[leg].used = now;
            if self.legs[leg].allocation.is_bound() {
                let len = self.batch.place(number).len() as u16;
                places.push(self.batch.put_in_front(number, channel_header(CHANNEL, len)));
            } else if self.legs[leg].held.len() < HELD {
                let content = self.batch.bytes(self.batch.place(number));
                self.legs[leg].held.push(content.to_vec());
            }
        }
        self.flush(of, &mut places);
        Ok(())
    }

    fn flush(&mut self, leg: Option<usize>, places: &mut Vec<Range<usize>>) {
        if let Some(leg) = leg {
            self.batch.send(&self.legs[leg].socket, places, None);
        }
        places.clear();
    }

    /// Returns a leg for a new socket of the near end: a free one, or an additional one.
    fn leg_for(&mut self, near: SocketAddr, now: Nanos) -> Result<usize> {
        let free = self.legs.iter().position(|leg| leg.near.is_none());
        let leg = match free {
            Some(leg) => leg,
            None => {
                if self.legs.len() >= MOST {
                    self.drop_oldest(now);
                }
                self.legs.push(Leg::new(&self.plan)?);
                self.legs.len() - 1
            }
        };
        self.legs[leg].near = Some(near);
        self.by_near.insert(near, leg);
        Ok(leg)
    }

    /// Releases the least recently used allocation, without waiting for the answer.
    fn drop_oldest(&mut self, now: Nanos) {
        let oldest = (0..self.legs.len()).min_by_key(|leg| self.legs[*leg].used);
        let Some(oldest) = oldest else { return };
        let mut leg = self.legs.swap_remove(oldest);
        leg.allocation.close();
        if let Ok(Some(request)) = leg.allocation.poll(now) {
            let _ = leg.socket.send(request);
        }
        let all = self.legs.iter().enumerate();
        self.by_near = all.filter_map(|(at, leg)| Some((leg.near?, at))).collect();
    }

    /// Delivers datagrams that arrived at a leg, and passes STUN messages to its allocation.
    fn back(&mut self, at: usize) -> Result<()> {
        let count = match self.batch.receive(&self.legs[at].socket) {
            Ok(count) => count,
            Err(error) => return self.refused(&error),
        };
        let now = Monotonic.now();
        let mut places: Vec<Range<usize>> = Vec::with_capacity(count);
        for number in 0..count {
            let place = self.batch.place(number);
            let datagram = self.batch.bytes(place.clone());
            if let Some((channel, content)) = channel_data(datagram) {
                let start = place.start + OVERHEAD;
                if channel == CHANNEL {
                    places.push(start..start + content.len());
                }
            } else if let Err(failure) = self.legs[at].allocation.on_datagram(now, datagram) {
                return self.failed(at, failure);
            }
        }
        if let Some(near) = self.legs[at].near {
            self.batch.send(&self.local, &places, Some(&SockAddr::from(near)));
        }
        self.legs[at].release();
        Ok(())
    }

    /// Releases all allocations, if the server answers soon.
    fn part(&mut self) {
        let deadline = Monotonic.now() + PARTING;
        for leg in &mut self.legs {
            leg.allocation.close();
        }
        while Monotonic.now() < deadline && self.legs.iter().any(|leg| !leg.allocation.is_closed())
        {
            if self.turn(None, deadline).is_err() {
                return;
            }
        }
    }
}

impl Leg {
    fn new(plan: &TurnPlan) -> Result<Leg> {
        let opened =
            Socket::new(Domain::for_address(plan.server), Type::DGRAM, Some(Protocol::UDP));
        let socket = opened.map_err(|e| Error::setup("open the TURN client's socket", e))?;
        plan.origin.bind(&socket, plan.server)?;
        let socket = prepared(socket.into())?;
        let connected = socket.connect(plan.server);
        connected.map_err(|e| Error::setup(format!("reach the TURN server {}", plan.server), e))?;
        let allocation = Allocation::new(plan);
        Ok(Leg { socket, allocation, near: None, held: Vec::new(), used: Nanos::ZERO })
    }

    /// Sends the datagrams that waited for the channel, once it is bound.
    fn release(&mut self) {
        if !self.allocation.is_bound() {
            return;
        }
        for content in self.held.drain(..) {
            let mut wire = channel_header(CHANNEL, content.len() as u16).to_vec();
            wire.extend(content);
            // A datagram that does not fit is lost, as on any path.
            let _ = self.socket.send(&wire);
        }
    }
}

fn socket(at: SocketAddr) -> Result<UdpSocket> {
    let failed = |e| Error::setup(format!("open the TURN client's socket at {at}"), e);
    prepared(UdpSocket::bind(at).map_err(failed)?)
}

fn prepared(socket: UdpSocket) -> Result<UdpSocket> {
    let failed = |e| Error::setup("set the TURN client's socket up", e);
    socket.set_nonblocking(true).map_err(failed)?;
    for buffer in [Buffer::Receive, Buffer::Send] {
        buffer.request(&SockRef::from(&socket), Some(BUFFER))?;
    }
    Ok(socket)
}
