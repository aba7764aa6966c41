//! TLS 1.3 (RFC 8446) by rustls over the kernel's TCP: what QUIC is compared with. Cipher and key exchange are those of
//! `quic` unless asked otherwise, the certificate is the trial's own.

use std::io;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};
use socket2::Socket;

use super::hello::Token;
use super::identity::{self, Failure, NAME, Resume, Terms, Tickets};
use super::options;
use super::stream::{Engines, Flavour};
use super::tcp::{self, Variant};
use super::{Conn, Dial, Effective, Info, Listen, Listener, Place, Transport, frame};
use crate::contract::{Guarantees, PeerKind, Reach, Side};
use crate::datapath::stream::Counted;
use crate::error::Result;
use crate::figures::{Headers, TcpView};
use crate::spec::{Key, Kind, Settings};
use channel::TlsChannel;

mod channel;

/// TLS over TCP over IPv4 and IPv6.
pub(super) struct Tls;

/// Bytes that a record takes around its data: its header (5), the type within (1) and the
/// authentication tag (16; RFC 8446, 5.2). A message is a record, and bulk data makes records of
/// 16 KiB.
pub(super) const RECORD: usize = 5 + 1 + 16;

static INFO: Info = Info {
    id: "tls",
    label: "TLS",
    colour: "#3b8f5a",
    implementation: env!("DEADHEAT_RUSTLS"),
    summary: "TLS 1.3 over the kernel's TCP: one reliable, encrypted byte stream",
    guarantees: Guarantees { encrypted: true, ..Guarantees::BYTE_STREAM },
    peer: PeerKind::Process,
    reach: Reach::Network,
    framing_bytes: frame::PREFIX + RECORD,
    options: &[
        options::CC,
        options::NODELAY,
        options::SNDBUF,
        options::RCVBUF,
        options::MSS,
        options::QUICKACK,
        options::NOTSENT_LOWAT,
        options::FASTOPEN,
        options::THIN,
        options::ECN,
        options::RECOVERY,
        options::CIPHER,
        options::KEY_EXCHANGE,
        options::RESUME,
        options::IO,
        options::RX,
    ],
    keys: KEYS,
};

const KEYS: &[Key] = &[
    tcp::CC,
    tcp::NODELAY,
    tcp::SNDBUF,
    tcp::RCVBUF,
    tcp::FASTOPEN,
    tcp::THIN,
    identity::CIPHER,
    identity::RESUME,
    Key {
        name: "io",
        kind: Kind::Choice(&["write"]),
        default: "write",
        doc: "how bulk data is sent: encrypted a call at a time, and handed over by sendmsg(2)",
    },
    Key {
        name: "rx",
        kind: Kind::Choice(&["read"]),
        default: "read",
        doc: "how bulk data is received: recv(2) of up to 256 KiB, decrypted",
    },
];

const TLS: Variant = Variant { id: "tls", ..tcp::TCP };

impl Transport for Tls {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn check(&self) -> Result<()> {
        tcp::check(TLS)
    }

    fn check_settings(&self, key: &str, value: &str, place: Place) -> Result<()> {
        tcp::check_settings(TLS, key, value, place)
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        tcp::dial(TLS, dial, Encrypted::new(dial.knobs, dial.hello.token, dial.tickets))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let encrypted = Encrypted::new(listen.knobs, listen.token, &listen.tickets);
        tcp::listen(TLS, listen, encrypted)
    }
}

/// Properties of TLS that TCP does not have.
#[derive(Clone)]
pub(super) struct Encrypted {
    options: tcp::Options,
    cipher: &'static str,
    /// The library's part, with that cipher alone.
    provider: Arc<CryptoProvider>,
    token: Token,
    resume: Resume,
    tickets: Tickets,
}

impl Encrypted {
    pub(super) fn new(knobs: &Settings, token: Token, tickets: &Tickets) -> Encrypted {
        let (cipher, provider) = identity::provider(knobs.text("cipher"));
        let (resume, tickets) = (Resume::of(knobs), tickets.clone());
        Encrypted { options: tcp::Options::from(knobs), cipher, provider, token, resume, tickets }
    }

    fn connection(&self, side: Side) -> std::result::Result<Connection, Failure> {
        let terms = Terms { token: &self.token, provider: &self.provider, resume: self.resume };
        Ok(match side {
            Side::Near => {
                let name = ServerName::try_from(NAME)?;
                ClientConnection::new(self.tickets.client(&terms)?, name)?.into()
            }
            Side::Far => ServerConnection::new(self.tickets.server(&terms)?)?.into(),
        })
    }
}

impl Flavour for Encrypted {
    type Channel = TlsChannel;

    fn engines(&self) -> Engines {
        self.options.engines()
    }

    fn apply(&self, socket: &Socket) -> Result<()> {
        self.options.apply(socket)
    }

    fn opens_fast(&self) -> bool {
        self.options.opens_fast()
    }

    fn instrument(&self, _channel: &mut TlsChannel) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the kernel stamps encrypted records, which are not the messages",
        ))
    }

    fn open(&self, socket: Socket, side: Side) -> io::Result<TlsChannel> {
        let tls = self.connection(side).map_err(|e| io::Error::other(e.to_string()))?;
        TlsChannel::open(Counted::new(socket)?, tls)
    }

    fn set_up_ns(&self, channel: &TlsChannel) -> u64 {
        channel.handshake().0
    }

    fn effective(&self, channel: &TlsChannel) -> Effective {
        let mut read = self.options.effective(channel.wire());
        read.insert("cipher".to_owned(), self.cipher.to_owned());
        read.insert("key_exchange".to_owned(), identity::KEY_EXCHANGE.to_owned());
        read.insert("resume".to_owned(), channel.resumed().to_owned());
        read
    }

    fn told(&self, channel: &TlsChannel) -> Option<(TcpView, Headers)> {
        let (view, headers) = self.options.told(channel.wire())?;
        Some((view, Headers { framing_bytes: INFO.framing_bytes as u64, ..headers }))
    }
}
