//! UDP port of a carrier: it answers each datagram from the address to which it was sent, and the thread that waits for it
//! can be woken.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use crate::channel::{poll_entry, poll_until};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::answering::{AnswerSocket, Arrived};

/// Room for datagrams that arrive while others are answered, in bytes.
const ROOM: usize = 4 << 20;

/// Number of datagrams that are taken before answers to them leave.
const AT_ONCE: usize = 64;

/// Longest wait, so that a fault in a time costs no more than that.
const LONGEST_WAIT: Nanos = Nanos::from_secs(10);

/// UDP port of a carrier, in the hands of its thread.
pub(crate) struct CarrierPort {
    socket: AnswerSocket,
    local: SocketAddr,
    wakes: PipeReader,
    datagram: Vec<u8>,
}

/// Means to wake the thread of a carrier; once it is dropped, the thread ends.
pub(crate) struct Waker(PipeWriter);

/// One moment on our clock and on the clock of the libraries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Nanos,
    pub(crate) instant: Instant,
}

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment { now: Monotonic.now(), instant: Instant::now() }
    }

    /// Returns a time of a library on our clock.
    pub(crate) fn nanos(&self, at: Instant) -> Nanos {
        let later = at.saturating_duration_since(self.instant).as_nanos();
        self.now + Nanos(u64::try_from(later).unwrap_or(u64::MAX / 2))
    }

    /// Returns the moment that comes `span` later.
    #[cfg(test)]
    pub(crate) fn after(&self, span: Nanos) -> Moment {
        Moment { now: self.now + span, instant: self.instant + std::time::Duration::from(span) }
    }
}

impl CarrierPort {
    /// Opens the port that is `above` that of the page, so that a firewall can know it; one of the system's choice if that is
    /// in use.
    ///
    /// # Errors
    /// With a sentence that names the address.
    pub(crate) fn open(page: SocketAddr, above: u16) -> Result<(CarrierPort, Waker), String> {
        let at = |port| AnswerSocket::bind(SocketAddr::new(page.ip(), port));
        let own = page.port().checked_add(above).and_then(|port| at(port).ok());
        let socket = own.map_or_else(|| at(0), Ok).map_err(|e| e.to_string())?;
        socket.make_room(ROOM);
        let local = socket.local_addr().map_err(|e| format!("its port has no address: {e}"))?;
        let (wakes, waker) = io::pipe().map_err(|e| format!("there is no pipe for it: {e}"))?;
        Ok((CarrierPort { socket, local, wakes, datagram: vec![0; 1 << 16] }, Waker(waker)))
    }

    /// Returns its number.
    pub(crate) fn number(&self) -> u16 {
        self.local.port()
    }

    /// Waits for a datagram, for a wake or for a time; returns false once the carrier was dropped.
    pub(crate) fn wait(&mut self, until: Option<Nanos>) -> bool {
        let latest = Monotonic.now() + LONGEST_WAIT;
        let own = [self.socket.as_fd().as_raw_fd(), self.wakes.as_fd().as_raw_fd()];
        let mut entries = own.map(|fd| poll_entry(fd, libc::POLLIN));
        let found = poll_until(&mut entries, Some(until.map_or(latest, |until| until.min(latest))));
        if found.is_ok() && entries[1].revents != 0 {
            let ended = self.wakes.read(&mut [0; 64]);
            return !matches!(ended, Ok(0));
        }
        true
    }

    /// Takes datagrams that have arrived, as many as a turn may have, each with the socket for answers to it.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(&AnswerSocket, &Arrived, &[u8])) {
        let CarrierPort { socket, datagram, .. } = self;
        for _ in 0..AT_ONCE {
            match socket.receive(datagram) {
                Ok(arrived) if arrived.is_unicast() => {
                    take(socket, &arrived, &datagram[..arrived.len]);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // A datagram to a group has no answer, and an error is an ICMP message about an earlier datagram.
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Returns the socket for datagrams that answer none.
    pub(crate) fn socket(&self) -> &AnswerSocket {
        &self.socket
    }
}

/// Sends a datagram to the source of `way`. If there is no room, it is lost, as datagrams are.
pub(crate) fn send(socket: &AnswerSocket, bytes: &[u8], way: &Arrived, field: Option<u8>) {
    let _ = socket.answer(bytes, way, field);
}

#[cfg_attr(not(feature = "datachannel"), allow(dead_code))] // One of the carriers has nothing to pass on.
impl Waker {
    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        // The thread is gone only if the process ends.
        let _ = (&self.0).write(&[1]);
    }
}

/// Ground of tests of carriers.
#[cfg(test)]
pub(crate) mod testing {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::work::{SeededWork, Tickets, TrialAccount};
    use deadheat_contract::workload::header::{Header, LEN, STAMPED_LEN};
    use deadheat_datapath::transport::responder::Charged;
    use deadheat_import::browser::BrowserWork;

    /// Address of the browser in tests without a socket.
    pub(crate) fn browser(port: u16) -> SocketAddr {
        ([198, 18, 0, 1], port).into()
    }

    /// Datagram of a browser.
    pub(crate) fn arrived(from: SocketAddr, len: usize) -> Arrived {
        Arrived { len, peer: from, to: None, ttl: None, field: None, at_ns: None }
    }

    /// Tickets that name their works (`ping`, `down:BYTES`), and the account of all their trials: bytes sent and received.
    #[derive(Default)]
    pub(crate) struct AnyTickets(Arc<Mutex<[u64; 2]>>);

    struct AnyAccount(BrowserWork, Arc<Mutex<[u64; 2]>>);

    impl AnyTickets {
        pub(crate) fn charged(&self) -> [u64; 2] {
            *self.0.lock().unwrap()
        }
    }

    impl Tickets for AnyTickets {
        fn admit(&self, ticket: &str, _now: Nanos) -> Result<Arc<dyn TrialAccount>, String> {
            let (work, bytes) = ticket.split_once(':').unwrap_or((ticket, "1"));
            let bytes = bytes.parse().unwrap();
            let work = match work {
                "ping" => BrowserWork::Ping { size: 65_000, count: 20, interval_ms: 1 },
                "connect" => BrowserWork::Connect { count: 1 },
                "down" => BrowserWork::Down { bytes },
                "up" => BrowserWork::Up { bytes },
                _ => return Err("nobody has this ticket".to_owned()),
            };
            Ok(Arc::new(AnyAccount(work, Arc::clone(&self.0))))
        }
    }

    impl TrialAccount for AnyAccount {
        fn work(&self) -> SeededWork {
            (self.0, 1)
        }

        fn charge(&self, _now: Nanos, bytes: [u64; 2]) -> Charged {
            let mut charged = self.1.lock().unwrap();
            for way in 0..2 {
                charged[way] += bytes[way];
            }
            Charged { is_within_sum: true, due: [Nanos::ZERO; 2] }
        }

        fn ends(&self) -> Nanos {
            Nanos(u64::MAX / 2)
        }
    }

    /// Returns a setup as the page sends it.
    pub(crate) fn setup(ticket: &str) -> Vec<u8> {
        format!("{{\"ticket\":\"{ticket}\"}}").into_bytes()
    }

    /// Returns true for the answer to a good setup.
    pub(crate) fn is_ready(message: &[u8]) -> bool {
        String::from_utf8_lossy(message).contains(r#""ready":true"#)
    }

    /// Returns a ping.
    pub(crate) fn ping(seq: u32, len: usize) -> Vec<u8> {
        let mut ping = vec![seq as u8; len];
        Header { tag: 0, seq: seq.into() }.write(&mut ping);
        ping
    }

    /// Returns true for the answer to a ping: the same message, with the times of this end.
    pub(crate) fn is_answer(back: &[u8], ping: &[u8]) -> bool {
        let same = |at: std::ops::Range<usize>| back.get(at.clone()) == ping.get(at);
        back.len() == ping.len()
            && same(0..LEN)
            && back.get(STAMPED_LEN..) == ping.get(STAMPED_LEN..)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn open() -> (CarrierPort, Waker) {
        CarrierPort::open(([127, 0, 0, 1], 0).into(), 0).unwrap()
    }

    #[test]
    fn a_port_is_woken_by_a_datagram_by_its_waker_and_by_the_end_of_it() {
        let (mut port, waker) = open();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.send_to(b"asked", ("127.0.0.1", port.number())).unwrap();
        assert!(port.wait(None));
        let mut taken = Vec::new();
        port.receive(|socket, way, bytes| {
            taken.push(bytes.to_vec());
            send(socket, b"answered", way, None);
        });
        assert_eq!(taken, [b"asked"]);
        let mut answer = [0; 9];
        assert_eq!(near.recv(&mut answer).unwrap(), 8);
        waker.wake();
        assert!(port.wait(None));
        assert!(port.wait(Some(Monotonic.now())));
        drop(waker);
        assert!(!port.wait(None));
    }

    #[test]
    fn a_port_is_one_of_the_page_or_another_if_that_is_in_use() {
        let (first, _) = open();
        let page: SocketAddr = ([127, 0, 0, 1], first.number() - 1).into();
        let (second, _) = CarrierPort::open(page, 1).unwrap();
        assert_ne!(second.number(), first.number());
        drop(first);
        let (third, _) = CarrierPort::open(page, 1).unwrap();
        assert_eq!(third.number(), page.port() + 1);
        let refused = CarrierPort::open(([192, 0, 2, 1], 0).into(), 0).err().unwrap();
        assert!(refused.contains("192.0.2.1"), "{refused}");
    }

    #[test]
    fn a_moment_has_the_times_of_both_clocks() {
        let moment = Moment::now();
        let later = moment.after(Nanos::from_millis(5));
        assert_eq!(moment.nanos(later.instant), later.now);
        assert_eq!(later.nanos(moment.instant), later.now);
    }
}
