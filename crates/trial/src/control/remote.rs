//! Client's side of a server's control connection: it greets, proves the secret, and reads the host's facts.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::de::DeserializeOwned;

use deadheat_base::error::{Error, Result};
use deadheat_base::foreign::{short, visible};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::origin::Origin;
use deadheat_datapath::transport::step::STEP;

use super::key::Pin;
use super::patient::{Patient, sleep};
use super::reach::{self, ReachedServer, Route};
use super::stream::{ControlStream, Stream};
use super::{FromServer, Greeting, Limits, MAGIC, OLDEST_PROTOCOL, PROTOCOL, Secret, heartbeat};
use crate::control;
use deadheat_datapath::transport::handover::readable;
use deadheat_datapath::transport::hello::Token;
use deadheat_records::connect::{AttemptEnd, ConnectAttempt};
use deadheat_records::host::HostFacts;
use deadheat_records::path::ReachFacts;

mod knock;

/// Longest time from the greeting until a server admits this client.
const LET_IN: Nanos = STEP;

/// Pause before the next request to a server without capacity.
const RETRY: Nanos = Nanos::from_secs(1);

/// Number of attempts at a server that closes the connection without a message, as a server without free descriptors
/// does.
const TRIES: u32 = 3;

/// Longest wait for capacity.
const LONGEST_WAIT: Nanos = Nanos::from_secs(3_600);

/// Credentials of a client for a server, and the key that the client expects of it.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// Secret that both share.
    pub secret: Option<Secret>,
    /// Hash of the server's key. Control is encrypted if there is a pin or a secret; only a pin proves the server's
    /// identity.
    pub pin: Option<Pin>,
}

impl Credentials {
    /// Reads them from `DEADHEAT_SECRET` and `DEADHEAT_PIN`.
    ///
    /// # Errors
    /// Fails like [`Secret::new`] and [`Pin::parse`].
    pub fn from_environment() -> Result<Credentials> {
        Ok(Credentials { secret: Secret::from_environment()?, pin: Pin::from_environment()? })
    }
}

/// Control of the wait for a server: a flag that ends it, and a callback that reports it.
pub struct ServerWait<'a> {
    /// Flag that Ctrl-C sets.
    pub stop: &'a AtomicBool,
    /// Callback for the reason, each time that a server has no capacity.
    pub on_full: &'a mut dyn FnMut(&str),
}

/// Server that admitted this client.
#[derive(Debug)]
pub struct RemoteServer {
    /// Address of the server.
    pub address: SocketAddr,
    /// Address of this host on the control connection.
    pub own_address: SocketAddr,
    /// Attempts that led to the control connection, in their order.
    pub attempts: Vec<ConnectAttempt>,
    /// Control connection.
    pub control: Arc<ControlStream>,
    /// Facts about the server's host.
    pub facts: HostFacts,
    /// Limits that the server sets.
    pub limits: Limits,
    /// Protocol that both speak, and the server's version.
    pub spoken: SpokenProtocol,
    /// Name and credentials by which it was reached.
    dialled: Dialled,
    /// Control connections beside the first, for the further far ends of a trial; open from one trial to the next.
    beside: Vec<Arc<ControlStream>>,
}

/// Protocol that a client and a server speak, and the version of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokenProtocol {
    /// Number of the protocol.
    pub protocol: u32,
    /// Version of the server.
    pub version: String,
    /// True if the server answers echoes for the comparison of clocks.
    pub echoes: bool,
    /// True if the server answers probes of the path.
    pub answers_probes: bool,
    /// True if the server knows relays between its port and another server.
    pub relays: bool,
    /// True if the server knows commands as far ends.
    pub commands: bool,
}

/// Name and credentials by which a server is reached.
#[derive(Debug, Clone)]
struct Dialled {
    host: String,
    route: Route,
    credentials: Credentials,
    /// Number of this client, which all its connections give.
    client: Token,
}

/// Outcome of one attempt to reach a server again.
pub(crate) enum Redial {
    /// Back: the server has admitted this client.
    Back(Box<RemoteServer>),
    /// Away: no server answers there now; with the evidence.
    Away(String),
}

impl RemoteServer {
    /// Connects to `host`, which is `NAME`, `NAME:PORT`, `ADDRESS` or `[ADDRESS]:PORT`, over the IP version that answers
    /// first. A server without capacity is asked again every second for an hour.
    ///
    /// # Errors
    /// Fails with the address and a remedy if the server cannot be reached, speaks another protocol, or wants a secret
    /// that is missing or wrong. [`Error::Interrupted`] on Ctrl-C.
    pub fn connect(
        host: &str,
        route: &Route,
        credentials: &Credentials,
        waiting: &mut ServerWait<'_>,
    ) -> Result<RemoteServer> {
        let (client, credentials) = (Token::fresh()?, credentials.clone());
        let dialled = Dialled { host: host.into(), route: route.clone(), credentials, client };
        RemoteServer::wait(&dialled, None, waiting)
    }

    /// Returns the control connection for the far end `node` of a trial at this server; opens it where it is missing, or
    /// where the server has closed it since the last trial.
    ///
    /// # Errors
    /// As of [`RemoteServer::connect`].
    pub fn connection(
        &mut self,
        node: u16,
        waiting: &mut ServerWait<'_>,
    ) -> Result<Arc<ControlStream>> {
        self.beside.retain(|stream| is_open(stream) && !stream.is_lost());
        let Some(at) = usize::from(node).checked_sub(1) else {
            return Ok(Arc::clone(&self.control));
        };
        while self.beside.len() <= at {
            let more = RemoteServer::wait(&self.dialled, Some(self.address), waiting)?;
            self.beside.push(more.control);
        }
        Ok(Arc::clone(&self.beside[at]))
    }

    /// Checks that the server can run a trial with several far ends, a load or a relay.
    ///
    /// # Errors
    /// [`Error::Peer`] with both versions if it cannot.
    pub fn check_cast(&self) -> Result<()> {
        if self.spoken.protocol >= PROTOCOL {
            return Ok(());
        }
        let SpokenProtocol { protocol, version, .. } = &self.spoken;
        Err(Error::peer(
            format!("server {}", self.address),
            format!(
                "it is deadheat {} (protocol {protocol}), which runs one far end in a trial, no load beside it and no relay; update \
                 it: this is deadheat {} (protocol {PROTOCOL})",
                short(version),
                env!("CARGO_PKG_VERSION")
            ),
        ))
    }

    /// Checks that the server knows relays at a third host.
    ///
    /// # Errors
    /// [`Error::Peer`] with both versions if it does not.
    pub fn check_relays(&self) -> Result<()> {
        if self.spoken.relays {
            return Ok(());
        }
        Err(Error::peer(
            format!("server {}", self.address),
            format!(
                "it is deadheat {}, which knows no relay at a third host; update it: this is deadheat {}",
                short(&self.spoken.version),
                env!("CARGO_PKG_VERSION")
            ),
        ))
    }

    /// Connects to another host as to this one: from the same address, with the same credentials.
    ///
    /// # Errors
    /// As of [`RemoteServer::connect`].
    pub fn beside(&self, host: &str, waiting: &mut ServerWait<'_>) -> Result<RemoteServer> {
        let Dialled { route, credentials, .. } = &self.dialled;
        RemoteServer::connect(host, route, credentials, waiting)
    }

    fn wait(
        dialled: &Dialled,
        at: Option<SocketAddr>,
        waiting: &mut ServerWait<'_>,
    ) -> Result<RemoteServer> {
        let give_up = Monotonic.now() + LONGEST_WAIT;
        let mut closed = 0;
        loop {
            match RemoteServer::ask(dialled.clone(), at, waiting.stop)? {
                Answer::Welcome(server) => return Ok(*server),
                Answer::Silent(error) => return Err(error),
                Answer::Closed(error) => {
                    closed += 1;
                    if closed == TRIES {
                        return Err(error);
                    }
                    (waiting.on_full)(&error.to_string());
                    sleep(RETRY, waiting.stop).map_err(|_| Error::Interrupted)?;
                }
                Answer::Full(error) if Monotonic.now() >= give_up => return Err(error),
                Answer::Full(error) => {
                    (waiting.on_full)(&error.to_string());
                    sleep(RETRY, waiting.stop).map_err(|_| Error::Interrupted)?;
                }
            }
        }
    }

    /// Tries once to reach the same server again.
    ///
    /// # Errors
    /// Fails if a server answers that does not admit this client; [`Error::Interrupted`] on Ctrl-C.
    pub(crate) fn again(&self, stop: &AtomicBool) -> Result<Redial> {
        match RemoteServer::ask(self.dialled.clone(), None, stop) {
            Ok(Answer::Welcome(server)) => Ok(Redial::Back(server)),
            Ok(Answer::Full(error) | Answer::Closed(error) | Answer::Silent(error))
            | Err(error @ (Error::Setup { .. } | Error::Stopped { .. })) => {
                Ok(Redial::Away(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the differences to an earlier answer of this server's name, in words: another version, host or key.
    pub(crate) fn changes_since(&self, before: &RemoteServer) -> Vec<String> {
        let pins = [before, self].map(|one| one.control.shown_pin().map(|pin| pin.to_string()));
        let [pin, new_pin] = pins.map(Option::unwrap_or_default);
        let facts = [
            ("its version of deadheat", &before.facts.deadheat, &self.facts.deadheat),
            ("the host's name", &before.facts.hostname, &self.facts.hostname),
            ("the host's kernel", &before.facts.kernel, &self.facts.kernel),
            ("the host's CPU", &before.facts.cpu_model, &self.facts.cpu_model),
            ("its address", &before.address.to_string(), &self.address.to_string()),
            ("its key", &pin, &new_pin),
        ]
        .map(|(what, before, now)| {
            (before != now)
                .then(|| format!("{what} is {} and was {}", visible(now), visible(before)))
        });
        facts.into_iter().flatten().collect()
    }

    /// Returns true if no trial can be opened on this connection any more. To be asked while no trial is open, when a
    /// server has nothing to say but that it leaves.
    pub(crate) fn is_gone(&self) -> bool {
        self.control.is_lost() || !is_open(&self.control)
    }

    /// Returns true if a connection to it was lost.
    pub(crate) fn is_lost(&self) -> bool {
        [&self.control].into_iter().chain(&self.beside).any(|stream| stream.is_lost())
    }

    /// Returns the round trip to it: the time that its kernel took to accept the connection.
    pub(crate) fn round_trip(&self) -> Option<Nanos> {
        let connected = self.attempts.iter().find(|one| one.end == AttemptEnd::Connected);
        connected.map(|attempt| Nanos(attempt.took_ns))
    }

    /// Returns the way that control took.
    pub fn reached(&self) -> ReachFacts {
        ReachFacts {
            own_address: self.own_address.ip(),
            seen_as: self.facts.seen_as,
            attempts: self.attempts.clone(),
        }
    }

    /// Returns the local address and interface of all connections to it.
    pub fn origin(&self) -> &Origin {
        &self.dialled.route.origin
    }

    /// Asks the server `at` this address, or else at the first of its name's addresses that answers.
    fn ask(dialled: Dialled, at: Option<SocketAddr>, stop: &AtomicBool) -> Result<Answer> {
        let Dialled { host, route, credentials, client } = &dialled;
        let ReachedServer { stream: control, address, attempts } = match at {
            Some(address) => reach::connect_to(address, route, stop)?,
            None => reach::connect(host, route, stop)?,
        };
        let failed = |e| Error::setup(format!("set up the control connection to {address}"), e);
        control.set_nodelay(true).map_err(failed)?;
        control.set_write_timeout(Some(LET_IN.into())).map_err(failed)?;
        let own_address = control.local_addr().map_err(failed)?;
        let control = match (&credentials.secret, &credentials.pin) {
            (None, None) => ControlStream::plain(control),
            (_, pin) => ControlStream::encrypted(control, pin.as_ref())?,
        };
        let deadline = Monotonic.now() + LET_IN;
        let who = format!("server {address}");
        let mut line =
            ServerExchange { who, stream: control, deadline, stop, full: None, end: None };
        match line.be_let_in(*client, credentials.secret.as_ref()) {
            Ok((facts, limits, spoken)) => {
                heartbeat::beat(line.stream.tcp()).map_err(failed)?;
                let (control, beside) = (Arc::new(line.stream), Vec::new());
                let server = RemoteServer {
                    address,
                    own_address,
                    attempts,
                    control,
                    facts,
                    limits,
                    spoken,
                    dialled,
                    beside,
                };
                Ok(Answer::Welcome(Box::new(server)))
            }
            Err(error) => match line.full {
                Some(full) => Ok(Answer::Full(Error::peer(&line.who, full))),
                None => match line.end {
                    Some(ExchangeEnd::Closed) => Ok(Answer::Closed(error)),
                    Some(ExchangeEnd::Silent) => Ok(Answer::Silent(error)),
                    None => Err(error),
                },
            },
        }
    }
}

/// Answer of a server to a client.
enum Answer {
    Welcome(Box<RemoteServer>),
    /// No capacity now; with the server's reason.
    Full(Error),
    /// Connection closed instead of an answer.
    Closed(Error),
    /// No answer in time.
    Silent(Error),
}

/// End of an exchange without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangeEnd {
    /// The connection was closed.
    Closed,
    /// Nothing arrived in time.
    Silent,
}

struct ServerExchange<'a> {
    who: String,
    stream: ControlStream,
    deadline: Nanos,
    stop: &'a AtomicBool,
    /// Reason for the lack of capacity, if that is the only obstacle.
    full: Option<String>,
    /// End of the exchange, if there was no answer.
    end: Option<ExchangeEnd>,
}

impl ServerExchange<'_> {
    fn be_let_in(
        &mut self,
        client: Token,
        secret: Option<&Secret>,
    ) -> Result<(HostFacts, Limits, SpokenProtocol)> {
        let (nonce, limits, spoken) = self.greet(client)?;
        self.prove(nonce.as_deref(), secret)?;
        Ok((self.facts(secret.is_some())?, limits, spoken))
    }

    fn greet(&mut self, client: Token) -> Result<(Option<String>, Limits, SpokenProtocol)> {
        let greeting = Greeting {
            magic: MAGIC.into(),
            protocol: OLDEST_PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            newest: Some(PROTOCOL),
            client: Some(client),
        };
        self.write(&greeting)?;
        match self.read()? {
            FromServer::Welcome { protocol, version, .. }
                if !(OLDEST_PROTOCOL..=PROTOCOL).contains(&protocol) =>
            {
                Err(self.peer(format!(
                    "it speaks protocol {protocol} (deadheat {version}) and this speaks protocol {PROTOCOL} \
                     down to {OLDEST_PROTOCOL} (deadheat {}); use the same version on both ends",
                    env!("CARGO_PKG_VERSION")
                )))
            }
            FromServer::Welcome {
                protocol,
                version,
                nonce,
                limits,
                echoes,
                relays,
                answers_probes,
                commands,
            } => {
                let spoken = SpokenProtocol {
                    protocol,
                    version,
                    echoes,
                    relays,
                    answers_probes,
                    commands,
                };
                Ok((nonce, limits, spoken))
            }
            other => Err(self.unexpected(other)),
        }
    }

    fn prove(&mut self, nonce: Option<&str>, secret: Option<&Secret>) -> Result<()> {
        match (nonce, secret) {
            (None, _) => Ok(()),
            (Some(nonce), Some(secret)) => {
                let binding = self.stream.binding();
                let binding = binding.map_err(|e| Error::setup("prove the secret", e))?;
                self.write(&control::prove(secret.text(), nonce, binding))
            }
            (Some(_), None) => Err(Error::usage(format!(
                "{} wants a shared secret; give it with --secret-file FILE or in DEADHEAT_SECRET",
                self.who
            ))),
        }
    }

    fn facts(&mut self, gave_secret: bool) -> Result<HostFacts> {
        match self.read() {
            Ok(FromServer::Facts(facts)) => Ok(*facts),
            Ok(other) => Err(self.unexpected(other)),
            Err(error @ Error::Interrupted) => Err(error),
            Err(error) if !gave_secret => Err(error),
            Err(error) => Err(self.peer(format!("{error} (is the shared secret right?)"))),
        }
    }

    fn write<T: serde::Serialize>(&mut self, word: &T) -> Result<()> {
        control::write(&mut &self.stream, word)
            .map_err(|e| Error::setup(format!("talk to {}", self.who), e))
    }

    fn read<T: DeserializeOwned>(&mut self) -> Result<T> {
        let ServerExchange { stream, deadline, stop, .. } = self;
        let read = control::read(&mut Patient { stream, deadline: *deadline, stop });
        self.end = match &read {
            Err(e) if is_end(e) => Some(ExchangeEnd::Closed),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Some(ExchangeEnd::Silent)
            }
            _ => None,
        };
        read.map_err(|e| match e.kind() {
            _ if self.stop.load(Ordering::Acquire) => Error::Interrupted,
            // The key is not the pinned one.
            io::ErrorKind::PermissionDenied => self.peer(e.to_string()),
            io::ErrorKind::InvalidData => {
                self.peer(format!("{e}; is `deadheat serve` what listens there?"))
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.peer(format!(
                "it did not let us in within {LET_IN}; is `deadheat serve` what listens there?"
            )),
            _ if is_end(&e) => self
                .peer("it closed the connection; is `deadheat serve` what listens there?".into()),
            _ => Error::setup(format!("hear from {}", self.who), e),
        })
    }

    fn unexpected(&mut self, word: FromServer) -> Error {
        match word {
            FromServer::Full(fault) => {
                self.full = Some(fault.message.clone());
                self.peer(fault.message)
            }
            FromServer::Refused(fault) => self.peer(format!("it refused: {fault}")),
            FromServer::Stopped(fault) => Error::stopped(&self.who, fault.message),
            _ => self.peer("it answered out of turn; use the same version on both ends".into()),
        }
    }

    fn peer(&self, what: String) -> Error {
        Error::peer(&self.who, what)
    }
}

/// Returns true if a connection without a trial can have one: the server has neither closed it nor said anything.
fn is_open(stream: &ControlStream) -> bool {
    !stream.holds_more() && readable(stream.as_fd(), Nanos::ZERO).is_ok_and(|says| !says)
}

/// Returns true if the peer has closed the connection.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMITS: Limits = Limits {
        duration_ns: Nanos::from_secs(60),
        bytes: 1,
        rate_bps: deadheat_base::units::BitRate(1),
        concurrent: 1,
    };

    fn ask(host: &str) -> Result<RemoteServer> {
        let mut waiting = ServerWait { stop: &AtomicBool::new(false), on_full: &mut |_| {} };
        RemoteServer::connect(host, &Route::default(), &Credentials::default(), &mut waiting)
    }

    #[test]
    fn a_port_where_nobody_listens_is_named() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = ask(&free.to_string()).unwrap_err();
        assert!(error.to_string().contains("start `deadheat serve` on that host"), "{error}");
    }

    #[test]
    fn another_kind_of_server_is_recognised() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            use std::io::Write;
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        });
        let error = ask(&address).unwrap_err().to_string();
        assert!(error.contains("is `deadheat serve` what listens there?"), "{error}");
        server.join().unwrap();
    }

    /// A server without descriptors closes what it has just accepted; it may have some a second later.
    #[test]
    fn a_server_that_closes_is_asked_again() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let closing = std::thread::spawn(move || {
            (0..TRIES).for_each(|_| drop(listener.accept().unwrap()));
        });
        let error = ask(&address).unwrap_err().to_string();
        assert!(error.contains("it closed the connection"), "{error}");
        closing.join().unwrap();
    }

    /// Its trials run as ever; a trial that it cannot run is refused with both versions.
    #[test]
    fn a_server_of_the_last_version_runs_what_it_can() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let greeting: Greeting = control::read(&mut stream).unwrap();
            assert_eq!((greeting.protocol, greeting.newest), (OLDEST_PROTOCOL, Some(PROTOCOL)));
            let (protocol, version) = (OLDEST_PROTOCOL, "0.0.9".to_owned());
            let welcome = FromServer::Welcome {
                protocol,
                version,
                nonce: None,
                limits: LIMITS,
                echoes: false,
                answers_probes: false,
                relays: false,
                commands: false,
            };
            control::write(&mut stream, &welcome).unwrap();
            control::write(&mut stream, &FromServer::Facts(Box::default())).unwrap();
        });
        let why = ask(&address).unwrap().check_cast().unwrap_err().to_string();
        assert!(why.contains("it is deadheat 0.0.9 (protocol 3)"), "{why}");
        assert!(why.contains(&format!("(protocol {PROTOCOL})")), "{why}");
        server.join().unwrap();
    }

    /// Single bytes now and then are no answer, however long they go on; and Ctrl-C ends the wait at once.
    #[test]
    fn a_server_that_drips_is_left_on_ctrl_c() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                use std::io::Write;
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(&[0, 0, 1, 0]).unwrap();
                stop.store(true, Ordering::Release);
                while stream.write_all(b" ").is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let mut waiting = ServerWait { stop: &stop, on_full: &mut |_| {} };
            let nothing = Credentials::default();
            let left = RemoteServer::connect(&address, &Route::default(), &nothing, &mut waiting);
            assert!(matches!(left, Err(Error::Interrupted)), "{left:?}");
        });
    }
}
