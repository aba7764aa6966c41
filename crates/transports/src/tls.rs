//! TLS 1.3 (RFC 8446) by rustls over the kernel's TCP, for comparison with QUIC. Cipher and key exchange are the same
//! as in `quic` by default, the certificate is the trial's own.

use std::io;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::{ClientConnection, Connection, ServerConnection};
use socket2::Socket;

use crate::stream::{self, Flavour, FlavourFacts};
use crate::tcp::{self, Variant};
use channel::TlsChannel;
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Kind, Settings};
use deadheat_contract::contract::{Guarantees, Side};
use deadheat_datapath::datapath::stamps::Stamps;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::application::ApplicationTerms;
use deadheat_datapath::transport::equal::OwnDefault;
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::identity::{
    self, CERTIFICATE, Failure, HandshakeTerms, NAME, Resume, Tickets, TrustedName,
};
use deadheat_datapath::transport::plain::{PlainOpening, PlainProtocol, PlainTransport};
use deadheat_datapath::transport::step::StepBudget;
use deadheat_datapath::transport::{
    Conn, ConnInfo, Dial, Effective, Info, Listen, Listener, Place, Transport, frame, options,
};
use kernel::KernelTls;
use process::ProcessTls;
use unbuffered::Unbuffered;

mod application;
mod channel;
mod kernel;
mod process;
mod unbuffered;

pub(super) use application::refused;

/// TLS over TCP over IPv4 and IPv6.
pub(super) struct Tls;

/// The kernel's name for TLS on a TCP socket (`TCP_ULP`).
const ULP: &[u8] = b"tls";

/// Bytes of a record's header (RFC 8446, 5.1).
const RECORD_HEADER: usize = 5;

/// Bytes of a record around its data: its header (5), the type within (1) and the authentication tag (16; RFC 8446,
/// 5.2). A message is a record, and bulk data is cut into records of 16 KiB.
pub(super) const RECORD: usize = RECORD_HEADER + 1 + 16;

static INFO: Info = Info {
    id: "tls",
    label: "TLS",
    colour: "#3b8f5a",
    implementation: env!("DEADHEAT_RUSTLS"),
    summary: "TLS 1.3 over the kernel's TCP: one encrypted byte stream",
    guarantees: Guarantees { encrypted: true, ..Guarantees::BYTE_STREAM },
    framing_bytes: frame::PREFIX + RECORD,
    options: &[options::NODELAY],
    keys: KEYS,
    deployed: DEPLOYED,
    ..Info::KERNEL
};

const KEYS: &[Key] = &[
    tcp::CC.key(),
    tcp::NODELAY.key(),
    tcp::SNDBUF.key(),
    tcp::RCVBUF.key(),
    tcp::FASTOPEN.key(),
    tcp::THIN.key(),
    identity::CIPHER.key(),
    CERTIFICATE.key(),
    identity::RESUME.key(),
    OFFLOAD.key(),
    Key {
        kind: Kind::Choice(&["write"]),
        doc: "how bulk data is sent: encrypted a call at a time, and handed over by sendmsg(2); \
              by the kernel, within send(2)",
        ..stream::IO.key()
    },
    Key {
        kind: Kind::Choice(&["read"]),
        doc: "how bulk data is received: recv(2) of up to 256 KiB, decrypted",
        ..stream::RX.key()
    },
];

/// Party that encrypts: the library or the kernel.
pub(super) const OFFLOAD: Preset<Offload> =
    Optional::choice("offload", &["off", "kernel"], &[Offload::Off, Offload::Kernel])
        .or("off")
        .doc(
            "kernel: once the handshake is through, the kernel encrypts and decrypts (TCP_ULP \
     \"tls\"); off: this process does",
        );

const DEPLOYED: &[OwnDefault] =
    &[tcp::OWN_CC, tcp::OWN_NODELAY, identity::OWN_CIPHER, identity::OWN_RESUME];

const TLS: Variant = Variant { id: "tls", ..tcp::TCP };

impl Transport for Tls {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        tcp::check(TLS)
    }

    fn check_knob(&self, key: &str, value: &str, place: Place) -> Result<()> {
        check_knob(INFO.id, key, value)?;
        tcp::check_settings(TLS, key, value, place)
    }

    fn plain(&self) -> Option<&'static PlainTransport> {
        Some(&PLAIN)
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let (token, tickets) = (dial.hello.token, dial.tickets);
        tcp::dial(TLS, dial, TlsFlavour::new(INFO.id, dial.knobs, token, tickets)?)
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let encrypted = TlsFlavour::new(INFO.id, listen.knobs, listen.token, &listen.tickets)?;
        tcp::listen(TLS, listen, encrypted)
    }
}

/// Connections to programs of others.
static PLAIN: PlainTransport =
    PlainTransport { protocol: PlainProtocol::TLS, opening: PlainOpening::Encrypted(open_plain) };

fn open_plain(dial: &Dial<'_>, terms: ApplicationTerms) -> Result<Box<dyn Conn>> {
    let (token, tickets) = (dial.hello.token, dial.tickets);
    let own = TlsFlavour::new(INFO.id, dial.knobs, token, tickets)?;
    let flavour = own.against_others(&terms.name, terms.pin.as_deref(), terms.protocols)?;
    let (socket, connect_ns) = tcp::connect(TLS, dial, |socket| flavour.apply(socket))?;
    flavour.connected(&socket)?;
    application::open(socket, flavour, terms.application, (dial.to, connect_ns))
}

/// Checks that this host has the feature that a knob's value names.
///
/// # Errors
/// As [`Transport::check_knob`].
pub(super) fn check_knob(id: &str, key: &str, value: &str) -> Result<()> {
    if (key, value) == (OFFLOAD.name(), "kernel") { kernel::check(id) } else { Ok(()) }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}

/// Properties of TLS that TCP does not have.
#[derive(Clone)]
pub(super) struct TlsFlavour {
    options: tcp::TcpOptions,
    cipher: &'static str,
    /// The library's provider, with that cipher alone.
    provider: Arc<CryptoProvider>,
    token: Token,
    certificate: Option<String>,
    resume: Resume,
    offload: Offload,
    tickets: Tickets,
    /// Program of others at the far end, if it is none of ours.
    others: Option<TrustedName>,
    /// Bounds of the handshake.
    step: StepBudget,
}

/// Party that encrypts once the handshake is through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offload {
    Off,
    Kernel,
}

impl TlsFlavour {
    /// Reads the knobs of the transport `id`.
    ///
    /// # Errors
    /// [`Error::Usage`] if they contradict each other.
    pub(super) fn new(
        id: &str,
        knobs: &Settings,
        token: Token,
        tickets: &Tickets,
    ) -> Result<TlsFlavour> {
        let (cipher, provider) = identity::provider(knobs.find(&identity::CIPHER));
        let (resume, tickets) = (knobs.get(&identity::RESUME), tickets.clone());
        let offload = knobs.get(&OFFLOAD);
        if (offload, resume) == (Offload::Kernel, Resume::Early) {
            return Err(Error::usage(format!(
                "`{id}:offload=kernel,resume=0rtt`: the kernel takes over once the handshake is through, and early data \
                 goes before; choose resume=on, or offload=off"
            )));
        }
        let options = tcp::TcpOptions::from(knobs);
        let certificate = knobs.text_of(&CERTIFICATE).map(str::to_owned);
        let others = None;
        Ok(TlsFlavour {
            options,
            cipher,
            provider,
            token,
            certificate,
            resume,
            offload,
            tickets,
            others,
            step: StepBudget::default(),
        })
    }

    /// Makes the far end a program of others with this name, which speaks one of `protocols`.
    ///
    /// # Errors
    /// As of [`TrustedName::with_pin`].
    pub(super) fn against_others(
        self,
        name: &str,
        pin: Option<&str>,
        protocols: &'static [&'static str],
    ) -> Result<TlsFlavour> {
        let others = Some(TrustedName::with_pin(name, pin, protocols)?);
        Ok(TlsFlavour { others, ..self })
    }

    fn terms(&self) -> HandshakeTerms<'_> {
        HandshakeTerms {
            token: &self.token,
            provider: &self.provider,
            resume: self.resume,
            gives_keys: self.offload == Offload::Kernel,
            alpn: NAME,
            certificate: self.certificate.as_deref(),
            others: self.others.as_ref(),
        }
    }

    /// Returns the name of the far end for the handshake.
    fn name(&self) -> std::result::Result<ServerName<'static>, Failure> {
        match &self.others {
            Some(others) => Ok(others.name.clone()),
            None => Ok(ServerName::try_from(NAME)?),
        }
    }

    fn connection(&self, side: Side) -> std::result::Result<Connection, Failure> {
        Ok(match side {
            Side::Near => {
                let name = self.name()?;
                ClientConnection::new(self.tickets.client(&self.terms())?, name)?.into()
            }
            Side::Far => ServerConnection::new(self.tickets.server(&self.terms())?)?.into(),
        })
    }

    fn unbuffered(&self, side: Side) -> std::result::Result<Unbuffered, Failure> {
        Ok(match side {
            Side::Near => {
                let name = self.name()?;
                let config = self.tickets.client(&self.terms())?;
                Unbuffered::Near(UnbufferedClientConnection::new(config, name)?)
            }
            Side::Far => {
                let config = self.tickets.server(&self.terms())?;
                Unbuffered::Far(UnbufferedServerConnection::new(config)?)
            }
        })
    }
}

impl Flavour for TlsFlavour {
    type Channel = TlsChannel;

    fn facts(&self) -> FlavourFacts {
        FlavourFacts { rearms: false, counts_arrivals: false, ..self.options.facts() }
    }

    fn apply(&self, socket: &Socket) -> Result<()> {
        self.options.apply(socket)
    }

    fn stamps<'a>(&self, _: &'a mut TlsChannel) -> Option<io::Result<&'a mut Stamps>> {
        let why = "the kernel stamps encrypted records, which are not the messages";
        Some(Err(io::Error::new(io::ErrorKind::Unsupported, why)))
    }

    fn open(&self, socket: Socket, side: Side) -> io::Result<TlsChannel> {
        let failed = |e: Failure| io::Error::other(e.to_string());
        let wire = CountedSocket::new(socket)?;
        Ok(match self.offload {
            Offload::Off => {
                let tls =
                    ProcessTls::open(wire, self.connection(side).map_err(failed)?, self.step)?;
                TlsChannel::Process(Box::new(tls))
            }
            Offload::Kernel => {
                let tls = KernelTls::open(wire, self.unbuffered(side).map_err(failed)?, self.step)?;
                TlsChannel::Kernel(Box::new(tls))
            }
        })
    }

    fn effective(&self, channel: &TlsChannel) -> Effective {
        let mut read = self.options.effective(channel.wire());
        let cipher = channel.cipher().unwrap_or(self.cipher);
        read.insert("cipher".to_owned(), cipher.to_owned());
        read.insert("key_exchange".to_owned(), identity::KEY_EXCHANGE.to_owned());
        let certificate = match &self.others {
            Some(others) => others.certificate_word().to_owned(),
            None => identity::certificate_word(self.certificate.as_deref()),
        };
        read.insert(CERTIFICATE.name().to_owned(), certificate);
        read.insert("resume".to_owned(), channel.resumed().to_owned());
        read.insert(OFFLOAD.name().to_owned(), channel.offload().to_owned());
        read
    }

    fn info(&self, channel: &TlsChannel, connect_ns: u64) -> ConnInfo {
        let ConnInfo { mut stats, view } = self.options.info(channel.wire(), connect_ns);
        stats.connect_ns += channel.handshake().0;
        if let Some(headers) = &mut stats.headers {
            headers.framing_bytes = INFO.framing_bytes as u64;
        }
        ConnInfo { stats, view }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::thread;

    use super::*;
    use crate::testing::{HELLO, Kept, LONG, knobs};
    use deadheat_base::time::{Clock, Monotonic};
    use deadheat_contract::contract::{Lane, Patience, Service};
    use deadheat_datapath::transport::handover::ConnectionSource;
    use deadheat_datapath::transport::{Address, Progress};

    const LANES: &[Service] = &[Service::ORDERED];

    fn listen(knobs: &Settings, tickets: &Tickets) -> Result<Box<dyn Listener>> {
        let at = &Address::Ip((Ipv4Addr::LOCALHOST, 0).into());
        let (token, door, tickets) = (HELLO.token, ConnectionSource::Own, tickets.clone());
        Tls.listen(Listen { at, token, knobs, lanes: LANES, largest_message: 9, door, tickets })
    }

    fn dial(to: &Address, knobs: &Settings, tickets: &Tickets) -> Result<Box<dyn Conn>> {
        let (hello, timeout) = (HELLO, LONG);
        Tls.dial(&Dial { to, hello, knobs, lanes: LANES, largest_message: 9, timeout, tickets })
    }

    /// Waits for a message.
    fn receive_message(conn: &mut dyn Conn) -> io::Result<Vec<u8>> {
        let (began, mut kept) = (Monotonic.now(), Kept::default());
        while kept.0.is_empty() {
            assert!(Monotonic.now() - began < LONG, "nothing came");
            conn.flush()?;
            assert_ne!(conn.receive(Patience::Block, &mut kept)?, Progress::Closed);
        }
        assert_eq!(kept.0.len(), 1);
        Ok(kept.0.remove(0))
    }

    /// Runs a far end that answers one message on each of `connections` connections; returns the resumption of each.
    fn answer(listener: &mut dyn Listener, connections: usize) -> Vec<String> {
        let answered = (0..connections).map(|_| {
            let mut far = listener.accept(LONG).unwrap().1;
            assert_eq!(receive_message(&mut *far).unwrap(), b"asked");
            assert_eq!(far.send(Lane(0), b"answered").unwrap(), Progress::Moved);
            far.effective()["resume"].clone()
        });
        answered.collect()
    }

    #[test]
    fn the_first_data_goes_with_the_handshake_from_the_second_connection_on() {
        let knobs = &knobs("tls:resume=0rtt", KEYS);
        let (near_tickets, far_tickets) = (Tickets::default(), Tickets::default());
        let mut listener = listen(knobs, &far_tickets).unwrap();
        let to = &listener.endpoint();
        thread::scope(|scope| {
            let far = scope.spawn(move || answer(&mut *listener, 4));
            let ways = (0..4).map(|_| {
                let mut near = dial(to, knobs, &near_tickets).unwrap();
                assert_eq!(near.send(Lane(0), b"asked").unwrap(), Progress::Moved);
                assert_eq!(receive_message(&mut *near).unwrap(), b"answered");
                near.effective()["resume"].clone()
            });
            let ways: Vec<String> = ways.collect();
            assert_eq!(ways, ["off", "0rtt", "0rtt", "0rtt"]);
            assert_eq!(far.join().unwrap(), ways);
        });
    }

    /// A far end without the ticket refuses early data, and the near end returns an error.
    #[test]
    fn early_data_that_is_refused_is_an_error() {
        let knobs = &knobs("tls:resume=0rtt", KEYS);
        let tickets = &Tickets::default();
        let mut first = listen(knobs, &Tickets::default()).unwrap();
        let mut second = listen(knobs, &Tickets::default()).unwrap();
        let [to_first, to_second] = [first.endpoint(), second.endpoint()];
        thread::scope(|scope| {
            scope.spawn(move || answer(&mut *first, 1));
            let mut near = dial(&to_first, knobs, tickets).unwrap();
            near.send(Lane(0), b"asked").unwrap();
            assert_eq!(receive_message(&mut *near).unwrap(), b"answered");

            let far = scope.spawn(move || second.accept(LONG).map(drop));
            let mut near = dial(&to_second, knobs, tickets).unwrap();
            near.send(Lane(0), b"asked").unwrap();
            let error = receive_message(&mut *near).unwrap_err();
            assert!(error.to_string().contains("refused early data"), "{error}");
            drop(near);
            let _ = far.join().unwrap();
        });
    }

    #[test]
    fn early_data_and_the_kernels_tls_exclude_each_other() {
        let knobs = &knobs("tls:resume=0rtt,offload=kernel", KEYS);
        let error = listen(knobs, &Tickets::default()).err().unwrap();
        assert!(matches!(error, Error::Usage(_)), "{error}");
        assert!(error.to_string().contains("choose resume=on, or offload=off"), "{error}");
    }
}
