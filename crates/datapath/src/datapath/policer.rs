//! Policer: limits the rate and the sum of the bytes that this process sends and receives, at its sockets, so that
//! all bytes of the protocols above count (repairs, parity, retransmissions, acknowledgements). Processes with one
//! [`Account`] are limited together.
//!
//! Bytes are the bytes of IP packets. Datagrams are counted at each call, with their headers. For a byte stream of
//! the kernel the bytes of each call count at once, and the bytes that TCP adds (headers, retransmissions,
//! acknowledgements) when `TCP_INFO` is read next (`LOOK`, 10 ms). Other streams of the kernel (SCTP, DCCP) count a
//! least header for each call, and the kernel's retransmissions are left to its congestion control.
//!
//! The bucket is checked after each call that moves data, so the excess over a limit is at most one burst
//! ([`BURST`]) and one call; from then on all sending calls of the process fail. As in the generic cell rate
//! algorithm (ITU-T I.371), the bucket stores no tokens but the time at which all bytes so far would have passed at
//! the allowed rate.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use socket2::{Protocol, Socket};

use super::account::Account;
use super::option;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::{BitRate, Bytes};

/// Time by which a direction may be ahead of its rate: as many bytes as take this time at the rate may pass at
/// once.
pub const BURST: Nanos = Nanos::from_millis(100);

/// Interval of the reads of `TCP_INFO`, for the bytes that the kernel's TCP added to a stream.
const LOOK: Nanos = Nanos::from_millis(10);

/// Least header of a transport in bytes: SCTP's common header (RFC 9260, section 3.1), DCCP's generic one (RFC
/// 4340, section 5.1).
const LEAST_HEADER: u64 = 12;

/// Header of UDP in bytes (RFC 768).
const UDP_HEADER: u64 = 8;

/// Direction of bytes, as the index into a pair of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From this host.
    Sent,
    /// To this host.
    Received,
}

/// Limit that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overrun {
    /// The rate, per direction.
    Rate(BitRate),
    /// The sum of bytes, per direction.
    Sum(u64),
    /// The sum of bytes per direction that the person who races allows a sender that nothing slows down.
    Blast(u64),
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Overrun::Rate(rate) => write!(
                f,
                "a trial may run at {rate} per direction (--max-rate), and this one went beyond it; headers, \
                 repairs and retransmissions count"
            ),
            Overrun::Sum(bytes) => write!(
                f,
                "a trial may carry {} per direction (--max-bytes, or what --max-total and --max-per-client leave), \
                 and this one went beyond it; headers, repairs and retransmissions count",
                Bytes(*bytes)
            ),
            Overrun::Blast(bytes) => write!(
                f,
                "--blast allows {} per direction and trial, and this one went beyond it; make the trial shorter \
                 (time=), or allow more (--blast=SIZE)",
                Bytes(*bytes)
            ),
        }
    }
}

impl std::error::Error for Overrun {}

/// Policer of one process.
#[derive(Debug)]
pub struct Policer {
    rate: BitRate,
    bytes: u64,
    /// Error for the sum of bytes.
    sum: fn(u64) -> Overrun,
    account: Arc<Account>,
    overrun: OnceLock<Overrun>,
}

/// Returns the time that `bytes` take at `rate`.
pub fn time_at(rate: BitRate, bytes: u64) -> Nanos {
    Nanos((bytes as f64 * 8e9 / rate.0.max(1) as f64) as u64)
}

impl Policer {
    /// Creates a policer from `now` on, which allows `rate` and `bytes` in each direction to all processes that add to
    /// `account`.
    pub fn new(rate: BitRate, bytes: u64, account: Arc<Account>, now: Nanos) -> Policer {
        account.begin(now);
        let sum = Overrun::Sum as fn(u64) -> Overrun;
        Policer { rate, bytes, sum, account, overrun: OnceLock::new() }
    }

    /// Lowers the sum of bytes to the sum that the person who races allows a blast, if that is less.
    pub fn blast(self, bytes: Option<u64>) -> Policer {
        match bytes.filter(|bytes| *bytes < self.bytes) {
            Some(bytes) => Policer { bytes, sum: Overrun::Blast, ..self },
            None => self,
        }
    }

    /// Adds `more` bytes, sent and received between `last` and `now`.
    ///
    /// # Errors
    /// The limit that was exceeded, from then on for good.
    pub fn add(&self, last: Nanos, now: Nanos, more: [u64; 2]) -> Result<(), Overrun> {
        let sums = self.account.add(more);
        // A long call carried its bytes all the while, and not at its end.
        let due = self.account.charge(last, more.map(|more| time_at(self.rate, more)));
        if sums.into_iter().any(|sum| sum > self.bytes) {
            self.overrun.get_or_init(|| (self.sum)(self.bytes));
        } else if due.into_iter().any(|due| due > now + BURST) {
            self.overrun.get_or_init(|| Overrun::Rate(self.rate));
        }
        self.check()
    }

    /// Checks that no limit is exceeded.
    fn check(&self) -> Result<(), Overrun> {
        self.overrun.get().map_or(Ok(()), |overrun| Err(*overrun))
    }
}

/// Policer of this process, where it has one.
static POLICER: OnceLock<Policer> = OnceLock::new();

thread_local! {
    /// Time of this thread's last call that moved data.
    static LAST: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
}

/// Puts this process under `policer`, for good. A second one changes nothing.
pub fn install(policer: Policer) {
    POLICER.get_or_init(|| policer);
}

/// Returns the limit that this process has exceeded, if any.
#[inline]
pub fn overrun() -> Option<Overrun> {
    POLICER.get()?.overrun.get().copied()
}

/// Makes a sending call, unless a limit is exceeded, and counts the bytes that `cost` computes from its result.
///
/// # Errors
/// The error of the call; the [`Overrun`] as an [`io::ErrorKind::Other`].
#[inline]
pub(super) fn send<T>(
    call: impl FnOnce() -> io::Result<T>,
    cost: impl FnOnce(&T) -> u64,
) -> io::Result<T> {
    let Some(policer) = POLICER.get() else { return call() };
    policer.check().map_err(io::Error::other)?;
    let done = call()?;
    pass(policer, [cost(&done), 0])?;
    Ok(done)
}

/// Counts bytes that have been received.
///
/// # Errors
/// The [`Overrun`] as an [`io::ErrorKind::Other`].
#[inline]
pub(super) fn received(bytes: impl FnOnce() -> u64) -> io::Result<()> {
    POLICER.get().map_or(Ok(()), |policer| pass(policer, [0, bytes()]))
}

fn pass(policer: &Policer, more: [u64; 2]) -> io::Result<()> {
    let now = Monotonic.now();
    policer.add(LAST.replace(now), now, more).map_err(io::Error::other)
}

/// Counter of the bytes that a stream of the kernel adds to those its calls move.
#[derive(Debug)]
pub struct StreamMeter {
    /// Bytes of the calls so far, in both directions.
    moved: [u64; 2],
    /// Added bytes that have been counted.
    added: [u64; 2],
    kind: StreamKind,
    next: Nanos,
}

/// Kind of a stream, by the known facts about its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamKind {
    /// TCP: the kernel counts its segments, each with this many bytes of headers.
    Tcp { headers: u64 },
    /// Another protocol over IP: each call makes one packet or more, each with at least this many bytes of headers.
    Packets { headers: u64 },
    /// No network.
    Local,
}

impl StreamMeter {
    /// Creates a meter for `socket`.
    pub(super) fn new(socket: &Socket) -> StreamMeter {
        let ip = option::ip_header_bytes(socket);
        let kind = match (POLICER.get(), socket.protocol()) {
            (None, _) => StreamKind::Local,
            (_, Ok(Some(Protocol::TCP | Protocol::MPTCP))) => StreamKind::Tcp { headers: ip },
            (_, Ok(Some(Protocol::UDP))) => StreamKind::Packets { headers: ip + UDP_HEADER },
            (_, Ok(Some(_))) => StreamKind::Packets { headers: ip + LEAST_HEADER },
            _ => StreamKind::Local,
        };
        StreamMeter { moved: [0; 2], added: [0; 2], kind, next: Nanos::ZERO }
    }

    /// Creates a meter for a TCP socket of a process without a policer, whose caller charges the bytes itself.
    pub fn of_tcp(socket: &Socket) -> StreamMeter {
        let kind = StreamKind::Tcp { headers: option::ip_header_bytes(socket) };
        StreamMeter { moved: [0; 2], added: [0; 2], kind, next: Nanos::ZERO }
    }

    /// Makes a call that moves bytes, and counts them.
    ///
    /// # Errors
    /// The error of the call; the [`Overrun`] as an [`io::ErrorKind::Other`].
    #[inline]
    pub(super) fn around(
        &mut self,
        way: Way,
        socket: &Socket,
        call: impl FnOnce() -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        let Some(policer) = POLICER.get() else { return call() };
        policer.check().map_err(io::Error::other)?;
        let done = call()?;
        pass(policer, self.count(way, done.unwrap_or(0) as u64, socket))?;
        Ok(done)
    }

    /// Returns the bytes of packets for a call and for the time since the last read of `TCP_INFO`.
    pub fn count(&mut self, way: Way, bytes: u64, socket: &Socket) -> [u64; 2] {
        let mut more = [0; 2];
        more[way as usize] = bytes;
        self.moved[way as usize] += bytes;
        match self.kind {
            StreamKind::Local => {}
            StreamKind::Packets { headers } => {
                more[way as usize] += if bytes > 0 { headers } else { 0 };
            }
            StreamKind::Tcp { headers } => {
                let now = Monotonic.now();
                if now >= self.next {
                    self.next = now + LOOK;
                    let on_wire = tcp_bytes(socket, headers).unwrap_or_default();
                    for (at, more) in more.iter_mut().enumerate() {
                        let beside = on_wire[at].saturating_sub(self.moved[at]);
                        *more += beside.saturating_sub(self.added[at]);
                        self.added[at] = self.added[at].max(beside);
                    }
                }
            }
        }
        more
    }
}

/// Returns the bytes of the packets that a TCP connection sent and received, by `TCP_INFO` (Linux 4.19; the fields
/// are 32-bit words of `struct tcp_info`, include/uapi/linux/tcp.h), with `ip` bytes of IP header each.
fn tcp_bytes(socket: &Socket, ip: u64) -> Option<[u64; 2]> {
    const LONGEST: usize = 64;
    const OPTIONS: usize = 1;
    const BYTES_RECEIVED: usize = 32;
    const SEGS_OUT: usize = 34;
    const SEGS_IN: usize = 35;
    const BYTES_SENT: usize = 50;
    let mut info = [0u32; LONGEST];
    let words = option::get(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    if words < BYTES_SENT + 2 {
        return None;
    }
    let wide = |at: usize| {
        let [a, b, c, d] = info[at].to_ne_bytes();
        let [e, f, g, h] = info[at + 1].to_ne_bytes();
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    };
    // `TCPI_OPT_TIMESTAMPS` in the byte of options: RFC 7323 adds 12 bytes to each header of 20 (RFC 9293).
    let has_timestamps = info[OPTIONS].to_ne_bytes()[1] & 1 != 0;
    let headers = ip + 20 + if has_timestamps { 12 } else { 0 };
    let bytes = |payload: u64, segments: u32| payload + u64::from(segments) * headers;
    Some([bytes(wide(BYTES_SENT), info[SEGS_OUT]), bytes(wide(BYTES_RECEIVED), info[SEGS_IN])])
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// 10 Mbit/s: 125 kB are a burst, 1.25 MB a second.
    fn policer(bytes: u64) -> Policer {
        Policer::new(BitRate(10_000_000), bytes, Arc::new(Account::new().unwrap()), Nanos::ZERO)
    }

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn a_burst_takes_its_time() {
        assert_eq!(time_at(BitRate(10_000_000), 125_000), BURST);
        assert_eq!(time_at(BitRate(0), 1), Nanos::from_secs(8));
    }

    #[test]
    fn a_burst_passes_and_not_a_byte_more() {
        let policer = policer(1 << 40);
        policer.add(ms(0), ms(0), [125_000, 0]).unwrap();
        let over = policer.add(ms(0), ms(0), [1_000, 0]).unwrap_err();
        assert_eq!(over, Overrun::Rate(BitRate(10_000_000)));
        let why = over.to_string();
        assert!(why.contains("10.0 Mbit/s") && why.contains("--max-rate"), "{why}");
        assert!(policer.add(ms(900_000), ms(900_000), [0, 0]).is_err(), "it stays passed");
        assert_eq!(policer.account.read(), [126_000, 0], "what passed beyond it counts");
    }

    #[test]
    fn processes_with_one_account_have_one_rate_and_one_sum() {
        let ours = Arc::new(Account::new().unwrap());
        let theirs = Account::shared(ours.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let make = |account, sum| Policer::new(BitRate(10_000_000), sum, account, Nanos::ZERO);
        let (one, other) = (make(ours, 200_000), make(Arc::new(theirs), 200_000));
        one.add(ms(0), ms(0), [80_000, 0]).unwrap();
        let over = other.add(ms(0), ms(0), [80_000, 0]).unwrap_err();
        assert_eq!(over, Overrun::Rate(BitRate(10_000_000)));
        let over = one.add(ms(0), ms(500), [40_001, 0]).unwrap_err();
        assert_eq!(over, Overrun::Sum(200_000));
    }

    #[test]
    fn directions_have_a_bucket_each() {
        let policer = policer(1 << 40);
        policer.add(ms(0), ms(0), [125_000, 125_000]).unwrap();
        assert!(policer.add(ms(0), ms(50), [0, 125_000]).is_err());
    }

    #[test]
    fn the_allowed_rate_runs_for_ever_in_calls_of_any_length() {
        for call in [1, 40, 400] {
            let policer = policer(1 << 40);
            for at in (0..4_000).step_by(call) {
                let (from, to) = (ms(at as u64), ms((at + call) as u64));
                policer.add(from, to, [call as u64 * 1_250, 0]).unwrap();
            }
        }
    }

    /// Idle time saves no more than a burst.
    #[test]
    fn who_waits_gets_no_credit() {
        let policer = policer(1 << 40);
        for at in 0..100 {
            policer.add(ms(10 * at), ms(10 * at + 10), [0; 2]).unwrap();
        }
        assert!(policer.add(ms(1_000), ms(1_000), [126_000, 0]).is_err());
    }

    #[test]
    fn a_sum_of_bytes_ends_it_too() {
        let policer = policer(20_000);
        policer.add(ms(0), ms(1), [20_000, 0]).unwrap();
        let why = policer.add(ms(1), ms(2), [1, 0]).unwrap_err().to_string();
        assert!(why.contains("20.0 kB") && why.contains("--max-bytes"), "{why}");
    }

    /// 1,000 messages of a byte, each a segment of its own: 52 bytes of headers each, and acknowledgements back.
    #[test]
    fn the_headers_of_tcp_count_with_its_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        near.set_nodelay(true).unwrap();
        for _ in 0..1_000 {
            near.write_all(&[1]).unwrap();
            far.read_exact(&mut [0]).unwrap();
        }
        let near = Socket::from(near);
        let Some([sent, received]) = tcp_bytes(&near, 20) else {
            return; // Linux before 4.19.
        };
        assert!((1_000 * 41..1_100 * 60).contains(&sent), "{sent}");
        assert!(received < 1_100 * 60, "{received}");
        let kind = StreamKind::Tcp { headers: 20 };
        let mut meter = StreamMeter { moved: [0; 2], added: [0; 2], kind, next: Nanos::ZERO };
        let [first, _] = meter.count(Way::Sent, 1_000, &near);
        assert_eq!(first, sent, "the bytes of the call are among them");
        let [again, _] = meter.count(Way::Sent, 0, &near);
        assert_eq!(again, 0, "nothing counts twice");
    }
}
