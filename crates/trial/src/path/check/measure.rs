//! Packets from one socket to another, counted and timed by the kernel's stamps.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, thread};

use socket2::Socket;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Patience, WaitMode};
use deadheat_datapath::datapath::cpu::{allowed_cpus, pin};
use deadheat_datapath::datapath::option::{Buffer, drops};
use deadheat_datapath::datapath::stamps::{KeyUnit, StampPoint};
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::datapath::wait::{Interest, Waiter, WakeReason};
use deadheat_path::emulated::forward::cpus;

/// Requested size of receive buffers, so that they drop no packet.
const ROOM: Bytes = Bytes(16 << 20);

/// Time to wait for another packet after the last one should have arrived.
const TAIL: Nanos = Nanos::from_millis(250);

/// Plan of a stream of datagrams to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendPlan {
    /// Number of datagrams.
    pub packets: usize,
    /// UDP payload of each, at least 8 bytes.
    pub size: usize,
    /// Time between two datagrams; 0 sends as fast as possible.
    pub every: Nanos,
    /// Delay after which a datagram should have arrived.
    pub delay: Nanos,
    /// True if the kernel is to report the time at which each packet left its host's stack; else they are only counted.
    pub is_stamped: bool,
}

/// Result of sending by a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SendOutcome {
    /// Packets that were sent.
    pub sent: u64,
    /// Time from the first to the last send, in nanoseconds.
    pub sending_ns: u64,
    /// Distinct packets that arrived.
    pub got: u64,
    /// Packets that arrived at a full socket.
    pub full: u64,
    /// Times of departure and arrival of each, in nanoseconds of `CLOCK_REALTIME`; 0 if unknown.
    pub times: Vec<[u64; 2]>,
}

impl SendOutcome {
    /// Returns the time between the first and the last arrival, and the number of packets that arrived after the first.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let came = || self.times.iter().map(|[_, came]| *came).filter(|at| *at > 0);
        let (first, last) = (came().min()?, came().max()?);
        Some((last - first, came().count() as u64 - 1))
    }

    /// Returns the delays of the packets that have both stamps, less `expected`, sorted; without the first tenth, of
    /// which some may have met cold caches.
    pub(super) fn excess(&self, expected: Nanos) -> Vec<i64> {
        let settled = self.times.get(self.times.len() / 10..).unwrap_or_default();
        let both = settled.iter().filter(|[left, came]| *left > 0 && *came > 0);
        let mut excess: Vec<i64> =
            both.map(|[left, came]| Nanos(*came).signed_since(Nanos(*left) + expected)).collect();
        excess.sort_unstable();
        excess
    }
}

impl SendPlan {
    /// Connects the two sockets, sends from one and receives at the other.
    ///
    /// # Errors
    /// Fails with the operation that failed.
    pub(super) fn run(&self, from: Socket, to: Socket) -> Result<SendOutcome> {
        let failed = |e| Error::setup("send datagrams through the path", e);
        let (source, target) = (from.local_addr(), to.local_addr());
        from.connect(&target.map_err(failed)?).map_err(failed)?;
        to.connect(&source.map_err(failed)?).map_err(failed)?;
        Buffer::Receive.request(&to, Some(ROOM))?;
        Buffer::Receive.request(&from, Some(ROOM))?;
        // Before the first send: the kernel stamps only packets that arrive after it was asked to.
        let mut to = CountedSocket::new(to).map_err(failed)?;
        to.switch_stamps_on(KeyUnit::Datagrams).map_err(failed)?;
        // The end is known once all packets are sent.
        let end = AtomicU64::new(u64::MAX);
        let (mut came, sent) = thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                self.settle();
                self.receive(&mut to, &end)
            });
            let sending = scope.spawn(|| {
                self.settle();
                self.send(from)
            });
            let died = |_| Err(io::Error::other("the sending thread died"));
            let sent = sending.join().unwrap_or_else(died);
            let until = Monotonic.now() + self.delay + self.delay + TAIL;
            end.store(until.0, Ordering::Release);
            let came = receiving.join();
            (came.unwrap_or_else(|_| Err(io::Error::other("the receiving thread died"))), sent)
        });
        let sent = sent.map_err(failed)?;
        let came = came.as_mut().map_err(|e| failed(io::Error::new(e.kind(), e.to_string())))?;
        came.sent = sent.count;
        came.sending_ns = sent.took.0;
        for (times, left) in came.times.iter_mut().zip(sent.left) {
            times[0] = left;
        }
        Ok(std::mem::take(came))
    }

    /// Pins the calling thread to the CPU of a race's round trips, away from the path's own threads. A measurement of
    /// throughput may use any CPU.
    fn settle(&self) {
        let allowed = allowed_cpus();
        let path = cpus(&allowed);
        let beside = allowed.into_iter().rfind(|cpu| !path.contains(cpu));
        if self.is_stamped {
            // If that is refused, the measurement is only less steady.
            let _ = beside.map(pin);
        }
    }

    fn send(&self, socket: Socket) -> io::Result<Departures> {
        let mut socket = CountedSocket::new(socket)?;
        let mut departed = Departures { left: vec![0; self.packets], count: 0, took: Nanos::ZERO };
        if self.is_stamped {
            socket.switch_stamps_on(KeyUnit::Datagrams)?;
        }
        let waiter = Waiter::new(WaitMode::Hybrid);
        let mut message = vec![0; self.size];
        let start = Monotonic.now() + Nanos::from_millis(1);
        for number in 0..self.packets {
            let due = start + Nanos(self.every.0 * number as u64);
            while self.every > Nanos::ZERO
                && waiter.wait(&Monotonic, None, Some(due), Interest::Read)? != WakeReason::Due
            {
            }
            message[..8].copy_from_slice(&(number as u64).to_le_bytes());
            if let Some(stamps) = socket.stamps() {
                stamps.want();
            }
            // A full queue at this host is not part of the path: the packet is sent again.
            loop {
                match socket.send(&message, Patience::Block) {
                    Ok(Some(_)) => break,
                    Ok(None) => {}
                    Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => thread::yield_now(),
                    Err(e) => return Err(e),
                }
            }
            departed.count += 1;
            fetch(&mut socket, &mut departed.left)?;
        }
        departed.took = Monotonic.now() - start;
        let until = Monotonic.now() + TAIL;
        while socket.stamps().is_some_and(|stamps| stamps.are_due()) && Monotonic.now() < until {
            fetch(&mut socket, &mut departed.left)?;
            thread::yield_now();
        }
        Ok(departed)
    }

    /// Receives packets until the end, and then the packets that are still queued.
    fn receive(&self, socket: &mut CountedSocket, end: &AtomicU64) -> io::Result<SendOutcome> {
        let mut came = SendOutcome { times: vec![[0; 2]; self.packets], ..SendOutcome::default() };
        let mut room = vec![0; self.size.max(8)];
        loop {
            // A thread that was not scheduled finds the packets of that time in its socket.
            let is_over = Monotonic.now().0 >= end.load(Ordering::Acquire);
            let Some(_) = socket.receive_datagram(&mut room, Patience::Block)? else {
                if is_over {
                    break;
                }
                continue;
            };
            let number = room.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
            let at = socket.stamps().and_then(|stamps| stamps.received_ns());
            let Some(times) =
                usize::try_from(number).ok().and_then(|number| came.times.get_mut(number))
            else {
                continue;
            };
            if times[1] == 0 {
                came.got += 1;
                // Without a stamp it still arrived.
                times[1] = at.unwrap_or(1);
            }
            if came.got == self.packets as u64 {
                break;
            }
        }
        for times in &mut came.times {
            times[1] = if times[1] == 1 { 0 } else { times[1] };
        }
        came.full = drops(socket.as_fd()).map_or(0, u64::from);
        Ok(came)
    }
}

/// Counts and times of a sender.
struct Departures {
    left: Vec<u64>,
    count: u64,
    took: Nanos,
}

fn fetch(socket: &mut CountedSocket, left: &mut [u64]) -> io::Result<()> {
    let Some(stamps) = socket.stamps() else { return Ok(()) };
    stamps.fetch(|passed| {
        if passed.point == StampPoint::Left
            && let Some(slot) = left.get_mut(passed.key as usize)
        {
            *slot = passed.at_ns;
        }
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::site::Site;
    use super::*;

    #[test]
    fn every_packet_over_loopback_is_counted_and_timed() {
        let mut site = Site::here(IpAddr::from([127, 0, 0, 1])).unwrap();
        let course = SendPlan {
            packets: 200,
            size: 100,
            every: Nanos::from_micros(200),
            delay: Nanos::ZERO,
            is_stamped: true,
        };
        let came = course.run(site.datagrams().unwrap(), site.datagrams().unwrap()).unwrap();
        assert_eq!((came.sent, came.got, came.full), (200, 200, 0));
        assert!(came.sending_ns >= 199 * 200_000);
        // Stamps may be missing for the first few packets, never for all.
        let excess = came.excess(Nanos::ZERO);
        assert!(excess.is_sorted() && excess.len() > 100, "{}", excess.len());
        assert!(excess[0] >= 0, "a packet came before it left");
        let (span, packets) = came.span().unwrap();
        assert!(packets > 100 && span >= packets * 100_000, "{span} {packets}");
    }

    #[test]
    fn the_excess_is_signed_and_leaves_out_what_has_no_stamp() {
        let times = [[10, 20], [0, 5], [10, 0], [100, 130], [200, 215]].to_vec();
        let came = SendOutcome { times, ..SendOutcome::default() };
        assert_eq!(came.excess(Nanos(20)), [-10, -5, 10]);
        assert_eq!(came.span(), Some((210, 3)));
        assert_eq!(SendOutcome::default().span(), None);
    }
}
