//! Path MTU towards a far host, found by probes before any trial, in both directions: packets of a size are sent there,
//! and asked for from there. All contenders over UDP then share one size that is known to pass, and packets that vanish
//! without a message (a black hole, RFC 2923) are found before they stop a trial.
//!
//! ```text
//! near                                   far (a socket that accepted the near end's hello)
//!   ── probe, of the size ────►
//!                           ◄──── small answer ──        the size passes on the way up
//!   ── small probe ───────────►
//!                  ◄──── answer, of the size ────        the size passes on the way down
//! ```
//! Only the holder of the token gets answers, at the address to which the socket is connected.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::Socket;

use super::handover::readable;
use super::hello::{self, Hello};
use crate::datapath::datagram::{is_full, is_network_error};
use crate::datapath::option::{self, Fragmenting};
use crate::datapath::route::{self, LearnedMtu};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::path_mtu::{LargerPackets, PathMtu, WayMtu};
use search::{MtuSearch, ProbeBounds, SearchStep, SizeBarrier};

pub mod search;

/// Kinds of datagrams, in the head that they share with hellos ([`hello`]).
const PROBE: u8 = 3;
const ECHO: u8 = 4;

/// Bytes of the smallest probe: a head and the words of [`ProbeWords`].
const LEAST_LEN: u32 = hello::LEN as u32 + 16;

/// Bytes of the UDP header (RFC 768).
const UDP_HEADER: u32 = 8;

/// Largest packet that is probed: a jumbo frame. A device with a larger MTU is a loopback, or one like it.
pub const LARGEST: u32 = 9_216;

/// Most datagrams that one end receives before it does anything else.
const AT_ONCE: usize = 64;

/// Bounds of a search: its time, and the flag that ends it.
#[derive(Debug, Clone, Copy)]
pub struct SearchLimits<'a> {
    /// Time by which it must be over.
    pub deadline: Nanos,
    /// About the round trip of the path.
    pub round_trip: Nanos,
    /// Flag that ends it.
    pub stop: &'a AtomicBool,
}

/// Searches for the path MTU on a connected socket that the far end has welcomed; `None` if the path fell silent, or
/// if the time is over.
///
/// # Errors
/// The error of a call on the socket, except errors that the network reports.
pub fn find(socket: Socket, hello: Hello, limits: SearchLimits<'_>) -> io::Result<Option<PathMtu>> {
    let Some(kernel) = option::kernel_path_mtu(&socket) else { return Ok(None) };
    let kernel_bytes = kernel as u32;
    Fragmenting::Probed.set(&socket)?;
    let end = ProbeEnd::new(socket, hello);
    // What the kernel learned some time ago may be true no more.
    let most = end.learned.map_or(kernel_bytes, |learned| learned.link_bytes);
    let bounds = ProbeBounds::of(most.min(LARGEST), option::is_ipv6(&end.socket));
    let searches = [(); 2].map(|()| MtuSearch::new(bounds, limits.round_trip));
    let mut prober = Prober { end, searches };
    while let Some(until) = prober.send_due()? {
        let now = Monotonic.now();
        if now >= limits.deadline || limits.stop.load(Ordering::Acquire) {
            return Ok(None);
        }
        if readable(prober.end.socket.as_fd(), until.min(limits.deadline) - now)? {
            prober.take_answers()?;
        }
    }
    let [up, down] = prober.searches.map(|search| search.found().map(way_mtu));
    Ok(up.zip(down).map(|(up, down)| PathMtu { kernel_bytes, up, down }))
}

fn way_mtu((bytes, beyond): (u32, SizeBarrier)) -> WayMtu {
    let beyond = match beyond {
        SizeBarrier::FirstLink => LargerPackets::Unsent,
        SizeBarrier::Announced => LargerPackets::Announced,
        SizeBarrier::Vanished => LargerPackets::Vanish,
    };
    WayMtu { bytes, beyond }
}

/// Near end of two searches, one in each direction.
struct Prober {
    end: ProbeEnd,
    /// Searches on the way up and on the way down.
    searches: [MtuSearch; 2],
}

impl Prober {
    /// Sends the probes that are due; returns the time of the next, or `None` at the end.
    fn send_due(&mut self) -> io::Result<Option<Nanos>> {
        self.take_announced(0);
        let mut next = None::<Nanos>;
        for (way, direction) in [Direction::Up, Direction::Down].into_iter().enumerate() {
            loop {
                match self.searches[way].poll(Monotonic.now()) {
                    SearchStep::Done => break,
                    SearchStep::Wait(until) => {
                        next = Some(next.map_or(until, |next| next.min(until)));
                        break;
                    }
                    SearchStep::Probe { number, size } => self.probe(direction, number, size)?,
                }
            }
        }
        Ok(next)
    }

    fn probe(&mut self, direction: Direction, number: u32, size: u32) -> io::Result<()> {
        let wanted = size.saturating_sub(self.end.headers).max(LEAST_LEN);
        let (len, answer_len) = match direction {
            Direction::Up => (wanted, LEAST_LEN),
            Direction::Down => (LEAST_LEN, wanted),
        };
        let words = ProbeWords { number: tag(direction, number), len, answer_len, known: 0 };
        if self.end.send(PROBE, words)? {
            self.take_announced(size.saturating_sub(1));
        }
        Ok(())
    }

    fn take_answers(&mut self) -> io::Result<()> {
        for _ in 0..AT_ONCE {
            match self.end.receive()? {
                ProbeArrival::Nothing => return Ok(()),
                ProbeArrival::Datagram(ECHO, words) => self.take_echo(words),
                // A message that a packet was too large is in what the kernel knows, too.
                ProbeArrival::Datagram(..) | ProbeArrival::Hello | ProbeArrival::Other => {}
            }
        }
        Ok(())
    }

    fn take_echo(&mut self, words: ProbeWords) {
        let (direction, number) = untag(words.number);
        let [up, down] = &mut self.searches;
        let now = Monotonic.now();
        let headers = self.end.headers;
        match direction {
            Direction::Up => up.on_echo(now, number),
            Direction::Down => {
                let asked = down.size_of(number).unwrap_or(0).saturating_sub(headers);
                // The kernel there may have refused to send as much.
                if words.len >= asked {
                    down.on_echo(now, number);
                }
            }
        }
        // The far end's kernel knows what was announced to it.
        down.on_announced(words.known.saturating_add(headers));
    }

    /// Notes what the kernel here knows of the way up; `refused` is the largest size that it sends, if it refused more.
    fn take_announced(&mut self, refused: u32) {
        let known = self.end.known();
        let most = if refused > 0 { known.min(refused) } else { known };
        self.searches[0].on_announced(most);
    }
}

/// Returns the number of a probe on the wire, which has its direction in it.
fn tag(direction: Direction, number: u32) -> u32 {
    (number << 1) | u32::from(direction == Direction::Down)
}

fn untag(tagged: u32) -> (Direction, u32) {
    (if tagged & 1 == 0 { Direction::Up } else { Direction::Down }, tagged >> 1)
}

/// Largest amount of answers of a far end.
#[derive(Debug, Clone, Copy)]
pub struct AnswerLimits {
    /// Number of answers.
    pub count: u32,
    /// Bytes of their packets.
    pub bytes: u64,
}

/// Far end of searches on one connected socket: it answers probes.
pub struct ProbeResponder {
    end: ProbeEnd,
    answered: u32,
    /// Bytes of the answers and of the probes, as IP packets.
    carried: [u64; 2],
}

impl ProbeResponder {
    /// Creates the far end on a socket that is connected to the prober, whose hello is this.
    ///
    /// # Errors
    /// The error of setsockopt(2).
    pub fn new(socket: Socket, hello: Hello) -> io::Result<ProbeResponder> {
        Fragmenting::Probed.set(&socket)?;
        Ok(ProbeResponder { end: ProbeEnd::new(socket, hello), answered: 0, carried: [0; 2] })
    }

    /// Returns the bytes sent and received, as IP packets.
    pub fn carried(&self) -> [u64; 2] {
        self.carried
    }

    /// Returns the socket, to wait for probes.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.socket.as_fd()
    }

    /// Answers the probes that have arrived, within these limits for all of its time.
    ///
    /// # Errors
    /// The error of a call on the socket, except errors that the network reports.
    pub fn answer(&mut self, most: AnswerLimits) -> io::Result<()> {
        for _ in 0..AT_ONCE {
            let probe = match self.end.receive()? {
                ProbeArrival::Nothing => return Ok(()),
                ProbeArrival::Datagram(PROBE, words) => words,
                ProbeArrival::Hello => {
                    // The welcome was lost. If this one is lost too, another hello arrives.
                    let _ = self.end.socket.send(&self.end.hello.encode_welcome());
                    continue;
                }
                _ => continue,
            };
            self.carried[1] += u64::from(probe.len + self.end.headers);
            if self.answered < most.count && self.carried[0] < most.bytes {
                self.echo(probe)?;
            }
        }
        Ok(())
    }

    /// Answers a probe with as many bytes as it asks for, or if the kernel here refuses that, with as few as possible.
    fn echo(&mut self, probe: ProbeWords) -> io::Result<()> {
        let headers = self.end.headers;
        let known = self.end.known();
        let len = probe.answer_len.clamp(LEAST_LEN, LARGEST - headers);
        let known = known.saturating_sub(headers);
        let mut words = ProbeWords { len, known, ..probe };
        if self.end.send(ECHO, words)? {
            words = ProbeWords { len: LEAST_LEN, known: known.min(len - 1), ..probe };
            self.end.send(ECHO, words)?;
        }
        self.answered += 1;
        self.carried[0] += u64::from(words.len + headers);
        Ok(())
    }
}

/// One of the two ends.
struct ProbeEnd {
    socket: Socket,
    hello: Hello,
    /// Bytes of the IP and UDP headers of each packet.
    headers: u32,
    /// Path MTU that the kernel here had learned before.
    learned: Option<LearnedMtu>,
    /// True if a message of the network about the size of a packet of this socket came.
    is_announced: bool,
    /// Bytes that no link compresses.
    filler: Vec<u8>,
    buffer: Vec<u8>,
}

/// Words of a probe and of its echo. Lengths count the payload of UDP, so that a translator between IP versions on the
/// way, whose headers differ, does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ProbeWords {
    /// Number of the probe, with its direction.
    number: u32,
    /// Bytes of this datagram.
    len: u32,
    /// Bytes that the echo is to have.
    answer_len: u32,
    /// Largest payload that the far end's kernel knows to pass on the way down.
    known: u32,
}

impl ProbeWords {
    fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let words = [self.number, self.len, self.answer_len, self.known];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<ProbeWords> {
        let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(ProbeWords { number: word(0)?, len: word(4)?, answer_len: word(8)?, known: word(12)? })
    }
}

/// Datagram that arrived.
enum ProbeArrival {
    Nothing,
    /// Datagram of this search, of a kind.
    Datagram(u8, ProbeWords),
    /// Repeated hello.
    Hello,
    Other,
}

impl ProbeEnd {
    fn new(socket: Socket, hello: Hello) -> ProbeEnd {
        let filler = (0..LARGEST).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let headers = option::ip_header_bytes(&socket) as u32 + UDP_HEADER;
        let learned = route::learned_mtu(&socket);
        let buffer = vec![0; LARGEST as usize];
        ProbeEnd { socket, hello, headers, learned, is_announced: false, filler, buffer }
    }

    /// Returns the path MTU that the kernel here knows: the one that it had learned before only if a message has confirmed
    /// it since.
    fn known(&self) -> u32 {
        let known = option::kernel_path_mtu(&self.socket).map_or(u32::MAX, |mtu| mtu as u32);
        let is_old = self.learned.is_some_and(|learned| learned.bytes == known);
        if is_old && !self.is_announced { u32::MAX } else { known }
    }

    /// Sends a datagram of the length in `words`; returns true if the kernel here refuses packets of this size.
    fn send(&mut self, kind: u8, words: ProbeWords) -> io::Result<bool> {
        let len = words.len.clamp(LEAST_LEN, LARGEST) as usize;
        let bytes = &mut self.filler[..len];
        bytes[..hello::LEN].copy_from_slice(&self.hello.head(kind));
        bytes[hello::LEN..LEAST_LEN as usize].copy_from_slice(&words.encode());
        let mut is_too_large = false;
        // An error of the network concerns an earlier packet, and is returned once.
        for _ in 0..3 {
            match self.socket.send_with_flags(bytes, libc::MSG_DONTWAIT) {
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => is_too_large = true,
                Err(error) if is_network_error(&error) => {}
                Err(error) if !is_full(&error) => return Err(error),
                _ => {
                    self.is_announced |= is_too_large;
                    return Ok(false);
                }
            }
        }
        Ok(is_too_large)
    }

    /// Receives one datagram without waiting.
    fn receive(&mut self) -> io::Result<ProbeArrival> {
        // SAFETY: the pointer and length describe `buffer`.
        let got = unsafe {
            libc::recv(
                self.socket.as_raw_fd(),
                self.buffer.as_mut_ptr().cast(),
                self.buffer.len(),
                libc::MSG_DONTWAIT,
            )
        };
        let Ok(len) = usize::try_from(got) else {
            let error = io::Error::last_os_error();
            let is_announced = error.raw_os_error() == Some(libc::EMSGSIZE);
            self.is_announced |= is_announced;
            let is_passing = is_network_error(&error) || is_announced;
            return match error {
                error if is_full(&error) => Ok(ProbeArrival::Nothing),
                _ if is_passing => Ok(ProbeArrival::Other),
                error => Err(error),
            };
        };
        let bytes = &self.buffer[..len];
        if *bytes == self.hello.encode() {
            return Ok(ProbeArrival::Hello);
        }
        let found = self.hello.of_longer(bytes);
        let words = found.and_then(|(kind, rest)| Some((kind, ProbeWords::decode(rest)?)));
        Ok(match words {
            // The head of a datagram that was cut on the way proves nothing about its size.
            Some((kind, words)) if words.len as usize == len => ProbeArrival::Datagram(kind, words),
            _ => ProbeArrival::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::transport::hello::Token;
    use deadheat_contract::contract::Side;

    const HELLO: Hello = Hello { token: Token::from_bytes([5; 16]), flow: 0 };
    const MANY: AnswerLimits = AnswerLimits { count: 100, bytes: 1_000_000 };

    fn connected() -> (Socket, Socket) {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        (near.into(), far.into())
    }

    fn probe(number: u32, len: u32, answer_len: u32) -> ProbeWords {
        ProbeWords { number, len, answer_len, known: 0 }
    }

    #[test]
    fn probes_are_answered_by_as_much_as_they_ask_for_up_to_a_limit() {
        let (near, far) = connected();
        let mut responder = ProbeResponder::new(far, HELLO).unwrap();
        let mut prober = ProbeEnd::new(near, HELLO);
        for (number, len, answer_len, want) in
            [(9, 1_400, 40, 40), (10, 40, 1_400, 1_400), (11, 40, 70_000, 9_188)]
        {
            prober.send(PROBE, probe(number, len, answer_len)).unwrap();
            responder.answer(MANY).unwrap();
            let ProbeArrival::Datagram(ECHO, words) = prober.receive().unwrap() else {
                panic!("no echo of {len} B")
            };
            assert_eq!((words.number, words.len), (number, want));
            assert!(words.known >= 65_507, "{words:?}");
        }
        assert_eq!(responder.carried(), [40 + 1_400 + 9_188 + 84, 1_400 + 40 + 40 + 84]);
        for few in [AnswerLimits { count: 3, ..MANY }, AnswerLimits { bytes: 10_000, ..MANY }] {
            prober.send(PROBE, probe(12, 1_400, 40)).unwrap();
            responder.answer(few).unwrap();
            assert!(matches!(prober.receive().unwrap(), ProbeArrival::Nothing), "{few:?}");
        }
    }

    #[test]
    fn a_stranger_and_a_liar_get_no_answer() {
        let (near, far) = connected();
        let mut responder = ProbeResponder::new(far, HELLO).unwrap();
        let other = Hello { token: Token::from_bytes([6; 16]), flow: 0 };
        let mut stranger = ProbeEnd::new(near.try_clone().unwrap(), other);
        stranger.send(PROBE, probe(1, 1_400, 40)).unwrap();
        let mut prober = ProbeEnd::new(near, HELLO);
        let mut liar = [0; LEAST_LEN as usize];
        liar[..hello::LEN].copy_from_slice(&HELLO.head(PROBE));
        liar[hello::LEN..].copy_from_slice(&probe(2, 9_000, 40).encode());
        prober.socket.send(&liar).unwrap();
        responder.answer(MANY).unwrap();
        assert_eq!(responder.carried(), [0; 2]);
        assert!(matches!(prober.receive().unwrap(), ProbeArrival::Nothing));
    }

    #[test]
    fn a_repeated_hello_is_welcomed_again() {
        let (near, far) = connected();
        near.send(&HELLO.encode()).unwrap();
        ProbeResponder::new(far, HELLO).unwrap().answer(MANY).unwrap();
        let mut bytes = [0; 100];
        let len = UdpSocket::from(near).recv(&mut bytes).unwrap();
        assert_eq!(Hello::decode_welcome(&bytes[..len]), Some(HELLO));
    }

    #[test]
    fn a_search_finds_both_directions_and_ends_when_it_is_told_to() {
        let (near, far) = connected();
        let stop = AtomicBool::new(false);
        let again = near.try_clone().unwrap();
        let mut responder = ProbeResponder::new(far, HELLO).unwrap();
        let way = WayMtu { bytes: LARGEST, beyond: LargerPackets::Unsent };
        std::thread::scope(|scope| {
            let (deadline, round_trip) = (Monotonic.now() + Nanos::from_secs(60), Nanos::ZERO);
            let limits = SearchLimits { deadline, round_trip, stop: &stop };
            let searching = scope.spawn(move || find(near, HELLO, limits).unwrap());
            while !searching.is_finished() {
                if readable(responder.as_fd(), Nanos::from_millis(10)).unwrap() {
                    responder.answer(MANY).unwrap();
                }
            }
            let found = searching.join().unwrap();
            assert_eq!(found, Some(PathMtu { kernel_bytes: 65_535, up: way, down: way }));
            stop.store(true, Ordering::Release);
            assert_eq!(find(again, HELLO, limits).unwrap(), None);
        });
    }

    #[test]
    fn a_black_hole_is_told_with_its_direction() {
        let way = |bytes, beyond| WayMtu { bytes, beyond };
        let mtu = |up, down| PathMtu { kernel_bytes: 1_500, up, down };
        let [narrow, narrower] = [1_280, 1_200].map(|bytes| way(bytes, LargerPackets::Vanish));
        let [whole, announced] =
            [way(1_500, LargerPackets::Unsent), way(1_280, LargerPackets::Announced)];
        for (found, near, far, want) in [
            (
                mtu(narrow, whole),
                Some(1_280),
                None,
                "more than 1280 bytes vanish on the way to h (",
            ),
            (
                mtu(whole, narrow),
                None,
                Some(1_280),
                "more than 1280 bytes vanish on the way back from h (no ICMP): a black hole",
            ),
            (mtu(narrow, narrow), Some(1_280), Some(1_280), "vanish on the way to h and back (no"),
            (
                mtu(narrow, narrower),
                Some(1_280),
                Some(1_200),
                "on the way to h, and of more than 1200 bytes on the way back (no",
            ),
            // The messages to the far host are blocked, and those to this one are not.
            (mtu(announced, narrow), None, Some(1_280), "on the way back from h (no"),
        ] {
            let said = found.black_hole("h").unwrap();
            assert!(said.contains(want), "{said}");
            assert_eq!([Side::Near, Side::Far].map(|side| found.hole(side)), [near, far]);
            assert!(found.is_black_hole());
        }
        let calm = mtu(announced, whole);
        assert_eq!((calm.black_hole("h"), calm.is_black_hole()), (None, false));
        assert_eq!((calm.bytes(), calm.source()), (1_280, "probes, announced by ICMP"));
        assert_eq!(mtu(whole, narrow).source(), "probes, larger ones vanish");
    }
}
