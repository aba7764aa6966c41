//! Pre-authentication: connections that are not yet identified, a data connection by its hello, a client by its
//! greeting and, if there is a secret, by its proof. A stranger here costs a descriptor and at most a kilobyte; no
//! thread, and no answer unless it uses the control protocol.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use deadheat_base::origins::origin;

use super::config::Config;
use super::let_in::LetIn;
use super::log::Scribe;
use super::wait::earlier;
use deadheat_base::error::{Error, Fault};
use deadheat_base::time::Nanos;
use deadheat_datapath::datapath::destination::canonical;
use deadheat_datapath::transport::hello::{self, Hello, Token};
use deadheat_trial::control::announcement::{self, Announcement};
use deadheat_trial::control::stream::ControlStream;
use deadheat_trial::control::{self, FromServer};

/// Largest message, in bytes, from a client that is not yet admitted. A greeting has about 60.
pub(super) const LARGEST_FROM_STRANGER: usize = 1024;

/// First byte of a TLS record that carries a handshake (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Number of connections accepted per call, so that a flood of them leaves time for the existing ones.
const AT_ONCE: usize = 512;

/// Pause of the listener when the host has no descriptors left.
const PAUSE: Nanos = Nanos::from_millis(100);

/// Connections with an incomplete first message, oldest first.
pub(super) struct PreAuth {
    room: usize,
    patience: Nanos,
    let_in: LetIn,
    closed_until: Option<Nanos>,
    strangers: Vec<Stranger>,
    /// Number of connections by origin.
    crowd: HashMap<IpAddr, usize>,
}

struct Stranger {
    stream: ControlStream,
    peer: SocketAddr,
    since: Nanos,
    got: Vec<u8>,
    /// Nonce for the proof of the secret, once it was requested.
    nonce: Option<String>,
    /// Number that it gave in its greeting.
    client: Option<Token>,
}

/// Connection that has been identified; nothing beyond its first messages has been read.
pub(super) enum Arrival {
    /// Data connection, which presents a token.
    Data { stream: ControlStream, peer: SocketAddr, hello: Hello },
    /// Connection of a relay, which announces itself; it is nonblocking.
    Announced { stream: ControlStream, peer: SocketAddr, announcement: Announcement },
    /// Control connection of an admitted client; it is nonblocking.
    Control { stream: ControlStream, peer: SocketAddr, client: Option<Token> },
}

impl PreAuth {
    pub(super) fn new(config: &Config) -> PreAuth {
        PreAuth {
            room: config.room.unauthenticated.max(1),
            patience: config.patience.first,
            let_in: LetIn::new(config),
            closed_until: None,
            strangers: Vec::new(),
            crowd: HashMap::new(),
        }
    }

    /// Returns true if new connections are accepted at `now`.
    pub(super) fn is_open(&self, now: Nanos) -> bool {
        self.closed_until.is_none_or(|until| now >= until)
    }

    /// Returns the number of its connections.
    pub(super) fn len(&self) -> usize {
        self.strangers.len()
    }

    /// Returns the time of its next deadline.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let oldest = self.strangers.iter().map(|s| s.since).min();
        earlier(oldest.map(|since| since + self.patience), self.closed_until)
    }

    /// Returns the descriptors to wait for, in the order of the flags that [`PreAuth::look`] takes.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.strangers.iter().map(|stranger| stranger.stream.as_fd())
    }

    /// Accepts new connections. If there are too many, the oldest of the origin with most of them is closed: an honest
    /// client sends its message within a round trip, so it is not the oldest for long.
    pub(super) fn accept(&mut self, listener: &TcpListener, scribe: &Scribe, now: Nanos) {
        if !self.is_open(now) {
            return;
        }
        self.closed_until = None;
        // Every accepted connection is read once before newer ones can replace it.
        for _ in 0..AT_ONCE.min(self.room.div_ceil(2)) {
            match listener.accept() {
                Ok((stream, peer)) => self.take(stream, canonical(peer), scribe, now),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // If there is no stranger to close, the descriptors belong to trials and clients.
                Err(e) if is_exhausted(&e) && self.strangers.is_empty() => {
                    self.closed_until = Some(now + PAUSE);
                    return;
                }
                Err(e) if is_exhausted(&e) => self.push_out(scribe, now),
                // The connection failed before it was accepted (accept(2)); the next one may not.
                Err(_) => {}
            }
        }
    }

    fn take(&mut self, stream: TcpStream, peer: SocketAddr, scribe: &Scribe, now: Nanos) {
        if self.strangers.len() >= self.room {
            self.push_out(scribe, now);
        }
        if let Err(e) = stream.set_nonblocking(true) {
            scribe.stranger(now, peer, &format!("cannot be served: {e}"));
            return;
        }
        *self.crowd.entry(origin(peer.ip())).or_default() += 1;
        let stream = ControlStream::plain(stream);
        let (got, nonce, client) = (Vec::new(), None, None);
        self.strangers.push(Stranger { stream, peer, since: now, got, nonce, client });
    }

    /// Removes one connection from the count of its origin.
    fn uncount(crowd: &mut HashMap<IpAddr, usize>, peer: SocketAddr) {
        let origin = origin(peer.ip());
        if let Some(count) = crowd.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                crowd.remove(&origin);
            }
        }
    }

    fn push_out(&mut self, scribe: &Scribe, now: Nanos) {
        let most = self.crowd.values().copied().max();
        let oldest = self
            .strangers
            .iter()
            .position(|stranger| self.crowd.get(&origin(stranger.peer.ip())).copied() == most);
        if let Some(oldest) = oldest {
            let gone = self.strangers.remove(oldest);
            PreAuth::uncount(&mut self.crowd, gone.peer);
            let why = "pushed out: too many connections that say nothing";
            scribe.stranger(now, gone.peer, why);
        }
    }

    /// Reads from the connections in `readable`, answers greetings, closes those past their deadline, and moves
    /// identified ones to `arrivals`.
    pub(super) fn look(
        &mut self,
        readable: &[bool],
        scribe: &Scribe,
        now: Nanos,
        arrivals: &mut Vec<Arrival>,
    ) {
        let mut staying = Vec::with_capacity(self.strangers.len());
        for (i, mut stranger) in std::mem::take(&mut self.strangers).into_iter().enumerate() {
            let step = if readable.get(i).copied().unwrap_or(false) {
                stranger.advance(&self.let_in, now)
            } else {
                AuthStep::Wait
            };
            if step == AuthStep::Wait && now - stranger.since < self.patience {
                staying.push(stranger);
                continue;
            }
            PreAuth::uncount(&mut self.crowd, stranger.peer);
            match step {
                AuthStep::Wait => stranger.time_is_up(scribe, now),
                AuthStep::Gone(why) => scribe.stranger(now, stranger.peer, &why),
                AuthStep::Refuse(why) => stranger.refuse(&why, scribe, now),
                AuthStep::Hello(hello) => {
                    let Stranger { stream, peer, .. } = stranger;
                    // Its agent expects an ordinary accepted socket.
                    if stream.tcp().set_nonblocking(false).is_ok() {
                        arrivals.push(Arrival::Data { stream, peer, hello });
                    }
                }
                AuthStep::Announced(announcement) => {
                    let Stranger { stream, peer, .. } = stranger;
                    arrivals.push(Arrival::Announced { stream, peer, announcement });
                }
                AuthStep::Frame => {
                    let Stranger { stream, peer, client, .. } = stranger;
                    arrivals.push(Arrival::Control { stream, peer, client });
                }
            }
        }
        self.strangers = staying;
    }
}

/// Result of a stranger's bytes so far.
#[derive(Debug, PartialEq, Eq)]
enum AuthStep {
    Wait,
    Gone(String),
    Refuse(String),
    Hello(Hello),
    Announced(Announcement),
    /// Whole control message; once it is the last one required, the client is admitted.
    Frame,
}

impl Stranger {
    /// Reads the available bytes, and answers a greeting or checks a proof if it is complete.
    fn advance(&mut self, let_in: &LetIn, now: Nanos) -> AuthStep {
        loop {
            let step = self.listen(let_in);
            if step != AuthStep::Frame {
                return step;
            }
            let frame = self.got.split_off(4);
            self.got.clear();
            if let Some(nonce) = &self.nonce {
                let checked = self.stream.binding().map_err(|e| Error::setup("bind a proof", e));
                let checked = checked.and_then(|binding| let_in.check(&frame, nonce, binding));
                return checked.map_or_else(refused, |()| AuthStep::Frame);
            }
            let greeted = match let_in.greet(&frame, self.stream.is_encrypted()) {
                Ok(greeted) => greeted,
                Err(error) => return refused(error),
            };
            self.client = greeted.client;
            if let Err(e) = control::write(&mut { &self.stream }, &greeted.welcome) {
                return AuthStep::Gone(format!("does not take its messages: {e}"));
            }
            if greeted.nonce.is_none() {
                return AuthStep::Frame;
            }
            (self.nonce, self.since) = (greeted.nonce, now);
        }
    }

    /// Reads the available bytes, and never a byte beyond the first message: later bytes belong to the session or the
    /// agent.
    fn listen(&mut self, let_in: &LetIn) -> AuthStep {
        loop {
            let is_first = self.nonce.is_none() && !self.stream.is_encrypted();
            if let Some(key) = let_in.key()
                && is_first
                && self.got.first() == Some(&TLS_HANDSHAKE)
            {
                if let Err(e) = self.stream.encrypt(key, &std::mem::take(&mut self.got)) {
                    return AuthStep::Gone(format!("cannot be encrypted: {e}"));
                }
                continue;
            }
            let missing = match judge(&self.got, is_first) {
                Ok(missing) => missing,
                Err(step) => return step,
            };
            let mut buffer = [0; LARGEST_FROM_STRANGER];
            let room = missing.min(buffer.len());
            match { &self.stream }.read(&mut buffer[..room]) {
                Ok(0) => return AuthStep::Gone(format!("left after {} bytes", self.got.len())),
                Ok(n) => self.got.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return AuthStep::Wait,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return AuthStep::Gone(format!("left: {e}")),
            }
        }
    }

    fn time_is_up(self, scribe: &Scribe, now: Nanos) {
        if self.got.len() >= 4 && self.got[0] == 0 {
            let why = format!("your first message stopped after {} bytes", self.got.len());
            self.refuse(&why, scribe, now);
        } else if self.nonce.is_some() {
            self.refuse("you said nothing for too long", scribe, now);
        } else {
            let why = format!("closed: {} bytes in {}", self.got.len(), now - self.since);
            scribe.stranger(now, self.peer, &why);
        }
    }

    fn refuse(self, why: &str, scribe: &Scribe, now: Nanos) {
        scribe.stranger(now, self.peer, &format!("refused: {why}"));
        refuse(&self.stream, &Error::peer("server", why).to_fault());
    }
}

fn refused(error: Error) -> AuthStep {
    match error {
        Error::Peer { what, .. } => AuthStep::Refuse(what),
        other => AuthStep::Refuse(other.to_string()),
    }
}

/// Returns the step for the whole first message of a connection that is no control connection.
fn presented(got: &[u8]) -> AuthStep {
    let hello = Hello::decode(got).map(AuthStep::Hello);
    let step = hello.or_else(|| Announcement::decode(got).map(AuthStep::Announced));
    step.unwrap_or_else(|| {
        AuthStep::Gone("data connection with a hello of another version: dropped".into())
    })
}

/// Returns the number of bytes that the message still lacks, or the step that follows from it. Only a first message may
/// be a hello.
fn judge(got: &[u8], is_first: bool) -> Result<usize, AuthStep> {
    let begin = &got[..got.len().min(4)];
    if begin.first() != Some(&0) && !hello::MAGIC.starts_with(begin) {
        return Err(AuthStep::Gone(format!(
            "does not speak deadheat (it began with \"{}\"): closed without an answer",
            begin.escape_ascii()
        )));
    }
    let Some(prefix) = got.first_chunk::<4>() else {
        return Ok(4 - got.len());
    };
    if *prefix == hello::MAGIC && is_first {
        let is_announced = Announcement::is_begun(got);
        let len = match (got.len(), is_announced) {
            // The kind comes first.
            (..8, _) => 8,
            (_, true) => announcement::LEN,
            (_, false) => hello::LEN,
        };
        return match len - got.len() {
            0 => Err(presented(got)),
            missing => Ok(missing),
        };
    }
    let len = u32::from_be_bytes(*prefix) as usize;
    if len == 0 || len > LARGEST_FROM_STRANGER {
        return Err(AuthStep::Refuse(format!(
            "your message has {len} bytes (1 to {LARGEST_FROM_STRANGER} expected)"
        )));
    }
    match 4 + len - got.len() {
        0 => Err(AuthStep::Frame),
        missing => Ok(missing),
    }
}

/// Sends the reason, once and without waiting, and closes: one short message, whatever arrived.
pub(super) fn refuse(stream: &ControlStream, fault: &Fault) {
    close_with(stream, &FromServer::Refused(fault.clone()));
}

/// Sends a last message, once and without waiting, and closes.
pub(super) fn close_with(mut stream: &ControlStream, word: &FromServer) {
    let tcp = stream.tcp();
    let said = tcp.set_nonblocking(true).and_then(|()| control::write(&mut stream, word));
    if said.is_ok() {
        // Closing with unread bytes would be a reset, which can overtake the answer (tcp(7)).
        let _ = tcp.shutdown(Shutdown::Write);
        let _ = { tcp }.read(&mut [0; 65_536]);
    }
}

fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use deadheat_datapath::transport::hello::Token;

    fn gone(bytes: &[u8]) -> String {
        match judge(bytes, true) {
            Err(AuthStep::Gone(why) | AuthStep::Refuse(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_first_message_is_read_to_its_last_byte_and_no_further() {
        let hello = Hello { token: Token::from_bytes([7; 16]), flow: 3 };
        let bytes = hello.encode();
        assert_eq!(judge(&[], true), Ok(4));
        assert_eq!(judge(&bytes[..3], true), Ok(1));
        assert_eq!(judge(&bytes[..4], true), Ok(4), "the kind tells its length");
        assert_eq!(judge(&bytes[..8], true), Ok(16));
        assert_eq!(judge(&bytes, true), Err(AuthStep::Hello(hello)));
        let relay = Announcement::fresh(hello.token).unwrap();
        assert_eq!(judge(&relay.encode()[..8], true), Ok(32));
        assert_eq!(judge(&relay.encode(), true), Err(AuthStep::Announced(relay)));
        let greeting = [0, 0, 0, 2, b'{', b'}'];
        assert_eq!(judge(&greeting[..1], true), Ok(3));
        assert_eq!(judge(&greeting[..4], true), Ok(2));
        assert_eq!(judge(&greeting, true), Err(AuthStep::Frame));
    }

    #[test]
    fn each_kind_of_stranger_is_named() {
        assert!(gone(b"GET ").contains("it began with \"GET \""));
        assert!(gone(b"D\n").contains("it began with \"D\\n\""));
        assert!(gone(b"\x16").contains("it began with \"\\x16\""));
        assert!(gone(&[0, 16, 0, 0]).contains("your message has 1048576 bytes"));
        assert!(gone(&[0, 0, 0, 0]).contains("has 0 bytes"));
        let mut other = Hello { token: Token::from_bytes([7; 16]), flow: 0 }.encode();
        other[4] = 9;
        assert!(gone(&other).contains("of another version"));
    }

    #[test]
    fn a_crowd_pushes_out_its_own_oldest_and_nobody_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = Config {
            room: super::super::Room { unauthenticated: 3, ..Default::default() },
            ..Config::default()
        };
        let scribe = Scribe::new(Box::new(|_: &str| {}));
        let mut pre_auth = PreAuth::new(&config);
        let mut near = Vec::new();
        let peers = ["10.0.0.9:1", "10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.2:1"];
        for (second, peer) in peers.iter().enumerate() {
            near.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let (stream, _) = listener.accept().unwrap();
            let now = Nanos::from_secs(second as u64);
            pre_auth.take(stream, peer.parse().unwrap(), &scribe, now);
        }
        let left: Vec<String> = pre_auth.strangers.iter().map(|s| s.peer.to_string()).collect();
        assert_eq!(left, ["10.0.0.9:1", "10.0.0.1:3", "10.0.0.2:1"]);
    }

    /// Tests a volley of connections behind a client that has greeted: the client is read before they replace it.
    #[test]
    fn who_is_taken_is_heard_before_newcomers_push_it_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let room = super::super::Room { unauthenticated: 4, ..Default::default() };
        let mut pre_auth = PreAuth::new(&Config { room, ..Config::default() });
        let scribe = Scribe::new(Box::new(|_: &str| {}));
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&Hello { token: Token::from_bytes([7; 16]), flow: 0 }.encode()).unwrap();
        let volley: Vec<_> = (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut arrivals = Vec::new();
        for _ in 0..volley.len() {
            pre_auth.look(
                &vec![true; pre_auth.strangers.len()],
                &scribe,
                Nanos::ZERO,
                &mut arrivals,
            );
            pre_auth.accept(&listener, &scribe, Nanos::ZERO);
        }
        assert!(matches!(arrivals[..], [Arrival::Data { .. }]), "{}", arrivals.len());
    }
}
