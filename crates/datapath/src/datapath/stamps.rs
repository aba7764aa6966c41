//! Kernel timestamps of packets: software timestamps of sockets (Documentation/networking/timestamping.rst), for an
//! instrumented pass only. They cost one more receiving call per stamped message and a little for each packet of
//! the host, so no headline figure is taken with them.
//!
//! Every stamp is `CLOCK_REALTIME`. Arriving packets are stamped while stamps are on, sends only if
//! [`Stamps::want`] requests it. Stamps of sends arrive on the socket's error queue, with a key that counts stamped
//! datagrams, or all bytes, since stamps were switched on.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use deadheat_base::cmsg::{self, Room};
use socket2::Socket;

use super::call;
use super::control::extended_error;
use super::option::set_words;

/// Unit that a key counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUnit {
    /// Datagrams with a stamp requested, from 0.
    Datagrams,
    /// Bytes of a stream: the key of a send is the number of its last byte.
    Bytes,
}

/// Point in the kernel that sent data passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampPoint {
    /// Handed to the queueing discipline (`TX_SCHED`).
    Scheduled,
    /// Taken by the driver (`TX_SOFTWARE`).
    Left,
    /// Acknowledged by the peer, with every byte up to it (`TX_ACK`). Requested for one stamped send in four.
    Acknowledged,
}

/// Stamp of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Key of the send: see [`KeyUnit`].
    pub key: u32,
    /// Point that the send passed.
    pub point: StampPoint,
    /// Time of the stamp, in nanoseconds of `CLOCK_REALTIME`.
    pub at_ns: u64,
}

/// Number of stamps that one call fetches: the two of a send and the acknowledgements of others.
const FETCHED: usize = 4;

/// Interval of the stamped sends that request a stamp of their acknowledgement, too: the kernel makes it while the
/// answer is on its way up, which would delay every answer.
const ACKNOWLEDGED: u32 = 4;

/// Size for a stamp (48 bytes of data) and for the error that carries its key with the address that it concerns (16
/// bytes and up to 28).
const CONTROL: usize = 192;

type StampRoom = Room<CONTROL>;

/// Timestamps of one socket, switched on.
pub struct Stamps {
    socket: OwnedFd,
    counts: KeyUnit,
    /// True if the next send requests a stamp.
    wanted: bool,
    stamped: u32,
    /// Number of stamps that were requested and have not arrived.
    due: u32,
    gone: u32,
    received_ns: Option<u64>,
    controls: Box<[StampRoom; FETCHED]>,
}

impl Stamps {
    /// Switches the stamps of a connected socket on. The first few packets may arrive without a stamp, as the
    /// kernel begins to stamp only after the first request.
    ///
    /// # Errors
    /// The error of setsockopt(2): `EINVAL` where the kernel has no such stamps.
    pub fn switch_on(socket: &Socket, counts: KeyUnit) -> io::Result<Stamps> {
        let common = libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_RX_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        let set =
            |flags| set_words(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &[flags]);
        match counts {
            KeyUnit::Datagrams => set(common)?,
            // Before Linux 6.2 the count begins at the first byte that is not acknowledged, which on an idle
            // connection is the same.
            KeyUnit::Bytes => {
                set(common | libc::SOF_TIMESTAMPING_OPT_ID_TCP).or_else(|_| set(common))?;
            }
        }
        Ok(Stamps {
            socket: socket.as_fd().try_clone_to_owned()?,
            counts,
            wanted: false,
            stamped: 0,
            due: 0,
            gone: 0,
            received_ns: None,
            controls: Box::default(),
        })
    }

    /// Requests a stamp of the next send.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// Returns true if requested stamps have not arrived yet.
    pub fn are_due(&self) -> bool {
        self.due > 0
    }

    /// Sends with one send(2), or sendmsg(2) if a stamp is wanted; its stamps arrive with [`Stamps::last_key`].
    ///
    /// # Errors
    /// The error of the call.
    pub(super) fn send(&mut self, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
        if !std::mem::take(&mut self.wanted) {
            let sent = call::send(self.socket.as_fd(), bytes, flags)?;
            if self.counts == KeyUnit::Bytes {
                self.gone = self.gone.wrapping_add(sent as u32);
            }
            return Ok(sent);
        }
        self.stamped = self.stamped.wrapping_add(1);
        let acknowledged =
            self.counts == KeyUnit::Bytes && self.stamped.is_multiple_of(ACKNOWLEDGED);
        let (extra, stamps) =
            if acknowledged { (libc::SOF_TIMESTAMPING_TX_ACK, 3) } else { (0, 2) };
        let sent = self.send_stamped(bytes, flags, SENT | extra)?;
        self.due = self.due.saturating_add(stamps);
        let units = match self.counts {
            KeyUnit::Datagrams => 1,
            KeyUnit::Bytes => sent as u32,
        };
        self.gone = self.gone.wrapping_add(units);
        Ok(sent)
    }

    /// Sends with one sendmsg(2) that requests the `wanted` stamps of this send.
    fn send_stamped(&mut self, bytes: &[u8], flags: libc::c_int, wanted: u32) -> io::Result<usize> {
        let mut iovec =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut header = cmsg::header();
        header.msg_iov = &mut iovec;
        header.msg_iovlen = 1;
        let control = &mut self.controls[0];
        let len = control.put(0, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &wanted.to_ne_bytes());
        control.beside(&mut header, len);
        // SAFETY: the kernel only reads the bytes that the iovec names and the control buffer of `self`.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &header, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Returns the key of the last stamped send.
    pub fn last_key(&self) -> u32 {
        self.gone.wrapping_sub(1)
    }

    /// Returns the time at which the data of the last receiving call arrived at this host; for several segments of
    /// a stream, the last segment counts. `None` if the call returned no data or no stamp.
    pub fn received_ns(&self) -> Option<u64> {
        self.received_ns
    }

    /// Receives with one recvmsg(2) in place of recv(2).
    ///
    /// # Errors
    /// The error of recvmsg(2).
    pub(super) fn recv(&mut self, room: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        self.received_ns = None;
        let mut iovec = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let mut header = header(&mut self.controls[0]);
        header.msg_iov = &mut iovec;
        header.msg_iovlen = 1;
        // SAFETY: the header names one iovec over a live slice and a control buffer of `self`.
        let got = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &mut header, flags) };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        self.received_ns = stamp(&header).0;
        Ok(got)
    }

    /// Hands over the stamps that are queued, without waiting for more; mostly one call.
    ///
    /// # Errors
    /// Any other error of recvmmsg(2).
    pub fn fetch(&mut self, mut take: impl FnMut(Stamp)) -> io::Result<()> {
        loop {
            // SAFETY: an all-zero mmsghdr is valid.
            let mut headers: [libc::mmsghdr; FETCHED] = unsafe { std::mem::zeroed() };
            for (slot, control) in headers.iter_mut().zip(self.controls.iter_mut()) {
                slot.msg_hdr = header(control);
            }
            let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
            // SAFETY: the headers have no iovecs, and their control buffers live in `self`.
            let got = unsafe {
                libc::recvmmsg(
                    self.socket.as_raw_fd(),
                    headers.as_mut_ptr(),
                    FETCHED as libc::c_uint,
                    flags as _,
                    std::ptr::null_mut(),
                )
            };
            let got = match usize::try_from(got) {
                Ok(got) => got,
                Err(_) => match io::Error::last_os_error() {
                    e if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) =>
                    {
                        return Ok(());
                    }
                    e => return Err(e),
                },
            };
            for slot in headers.iter().take(got) {
                if let (Some(at_ns), Some((point, key))) = stamp(&slot.msg_hdr) {
                    self.due = self.due.saturating_sub(1);
                    take(Stamp { key, point, at_ns });
                }
            }
            if got < FETCHED {
                return Ok(());
            }
        }
    }
}

impl std::fmt::Debug for Stamps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stamps({} gone)", self.gone)
    }
}

fn header(control: &mut StampRoom) -> libc::msghdr {
    let mut header = cmsg::header();
    control.offer(&mut header);
    header
}

/// Flags of the stamps that every stamped send requests.
const SENT: u32 = libc::SOF_TIMESTAMPING_TX_SCHED | libc::SOF_TIMESTAMPING_TX_SOFTWARE;

/// Values `SCM_TSTAMP_*` of linux/errqueue.h.
const SND: u32 = 0;
const SCHED: u32 = 1;
const ACK: u32 = 2;

/// Returns the software stamp in a message's control data and, if it is from the error queue, its point and key.
fn stamp(header: &libc::msghdr) -> (Option<u64>, Option<(StampPoint, u32)>) {
    let (mut at_ns, mut of) = (None, None);
    // SAFETY: the kernel filled in the control buffer that `header` describes, which lives in `Stamps`.
    for message in unsafe { cmsg::messages(header) } {
        if (message.level, message.kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
            // The first of three is the software stamp; zero if there is none.
            at_ns = message.read().and_then(nanos).filter(|ns| *ns > 0);
        } else if let Some(error) = extended_error(&message) {
            of = point(error);
        }
    }
    (at_ns, of)
}

fn point(error: libc::sock_extended_err) -> Option<(StampPoint, u32)> {
    if error.ee_origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
        return None;
    }
    let point = match error.ee_info {
        SND => StampPoint::Left,
        SCHED => StampPoint::Scheduled,
        ACK => StampPoint::Acknowledged,
        _ => return None,
    };
    Some((point, error.ee_data))
}

fn nanos(ts: libc::timespec) -> Option<u64> {
    let secs = u64::try_from(ts.tv_sec).ok()?;
    secs.checked_mul(1_000_000_000)?.checked_add(u64::try_from(ts.tv_nsec).ok()?)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;
    use deadheat_base::time::{Clock, Realtime};

    fn fetched(stamps: &mut Stamps) -> Vec<(u32, StampPoint)> {
        let mut all = Vec::new();
        stamps.fetch(|passed| all.push((passed.key, passed.point))).unwrap();
        all
    }

    /// Socket that keeps kernel timestamps of arrivals switched on while it exists. The first such socket switches
    /// them on for the whole machine, and closing the last switches them off, both some time later
    /// (`net_enable_timestamp` leaves it to a worker).
    struct Stamping(#[allow(dead_code, reason = "held open")] Socket);

    impl Stamping {
        fn begin() -> Stamping {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(socket.local_addr().unwrap()).unwrap();
            let socket = Socket::from(socket);
            let mut stamps = Stamps::switch_on(&socket, KeyUnit::Datagrams).unwrap();
            let deadline = Realtime.now().0 + 10_000_000_000;
            while stamps.received_ns().is_none() {
                assert!(Realtime.now().0 < deadline, "the kernel never stamps what arrives");
                socket.send(b"?").unwrap();
                stamps.recv(&mut [0; 8], 0).unwrap();
            }
            Stamping(socket)
        }
    }

    #[test]
    fn datagrams_are_counted_and_stamped_on_both_sides_in_order() {
        let _stamping = Stamping::begin();
        let a = UdpSocket::bind("127.0.0.1:0").unwrap();
        let b = UdpSocket::bind("127.0.0.1:0").unwrap();
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        let (a, b) = (Socket::from(a), Socket::from(b));
        let mut sender = Stamps::switch_on(&a, KeyUnit::Datagrams).unwrap();
        let mut receiver = Stamps::switch_on(&b, KeyUnit::Datagrams).unwrap();
        for key in 0..3 {
            // A send without a requested stamp does not count.
            assert_eq!(sender.send(b"-", 0).unwrap(), 1);
            assert_eq!(receiver.recv(&mut [0; 8], 0).unwrap(), 1);
            assert_eq!((fetched(&mut sender), sender.are_due()), (vec![], false));
            let before = Realtime.now().0;
            sender.want();
            assert_eq!(sender.send(b"abc", 0).unwrap(), 3);
            assert!(sender.are_due());
            assert_eq!(sender.last_key(), key);
            let mut left = Vec::new();
            sender.fetch(|passed| left.push(passed)).unwrap();
            let kinds: Vec<_> = left.iter().map(|passed| (passed.key, passed.point)).collect();
            assert_eq!(kinds, [(key, StampPoint::Scheduled), (key, StampPoint::Left)]);
            let mut room = [0; 8];
            assert_eq!(receiver.recv(&mut room, 0).unwrap(), 3);
            let arrived = receiver.received_ns().unwrap();
            let times = [before, left[0].at_ns, left[1].at_ns, arrived, Realtime.now().0];
            assert!(times.is_sorted(), "{times:?}");
        }
        assert!(receiver.recv(&mut [0; 8], libc::MSG_DONTWAIT).is_err());
        assert_eq!((receiver.received_ns(), fetched(&mut sender)), (None, vec![]));
    }

    #[test]
    fn bytes_of_a_stream_are_counted_to_the_last_of_each_send() {
        let _stamping = Stamping::begin();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (b, _) = listener.accept().unwrap();
        a.set_nodelay(true).unwrap();
        // Earlier bytes do not count.
        let (a, b) = (Socket::from(a), Socket::from(b));
        a.send(b"hello").unwrap();
        let mut receiver = Stamps::switch_on(&b, KeyUnit::Bytes).unwrap();
        assert_eq!(receiver.recv(&mut [0; 8], 0).unwrap(), 5);
        let mut sender = Stamps::switch_on(&a, KeyUnit::Bytes).unwrap();
        let mut key = u32::MAX;
        for n in 1..=16 {
            let len = 10 * n;
            sender.want();
            assert_eq!(sender.send(&vec![1; len], 0).unwrap(), len);
            key = key.wrapping_add(len as u32);
            assert_eq!(sender.last_key(), key);
            let mut room = [0; 256];
            assert_eq!(receiver.recv(&mut room, 0).unwrap(), len);
            assert!(receiver.received_ns().is_some());
            // The answer acknowledges, where the receiver's kernel has not done so by itself.
            b.send(b"y").unwrap();
            assert_eq!(sender.recv(&mut room, 0).unwrap(), 1);
            let left = fetched(&mut sender);
            assert!(left.contains(&(key, StampPoint::Scheduled)), "{left:?}");
            assert!(left.contains(&(key, StampPoint::Left)), "{left:?}");
            let acknowledged = left.contains(&(key, StampPoint::Acknowledged));
            assert_eq!(acknowledged, n.is_multiple_of(4), "{n}: {left:?}");
        }
    }
}
