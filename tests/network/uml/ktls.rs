//! The kernel's TLS, in a kernel that has it: with the library's own at the other end, with what comes after a
//! handshake, and in whole races. What every transport promises is in tests/conformance, which boots for it, too.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use deadheat::contract::{Inbox, Lane, Patience, Service};
use deadheat::time::Nanos;
use deadheat::transport::handover::ConnectionSource;
use deadheat::transport::hello::{Hello, LEN, Token};
use deadheat::transport::{Address, Conn, Contender, Dial, Listen, Listener, Progress, Tickets};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

use super::booted::{KTLS, boots};
use super::transports::race;
use super::{INSIDE, again_inside};

const HELLO: Hello = Hello { token: Token::from_bytes([9; 16]), flow: 3 };
const LONG: Nanos = Nanos::from_secs(60);
const LARGEST: usize = 100_000;
const LANES: &[Service] = &[Service::ORDERED];

#[test]
fn the_kernels_tls_speaks_with_the_librarys_and_races() {
    if std::env::var_os(INSIDE).is_some() {
        mixed();
        tickets();
        key_changes();
        races();
        return;
    }
    if !boots() {
        return;
    }
    let name = "ktls::the_kernels_tls_speaks_with_the_librarys_and_races";
    again_inside(KTLS, name, &["mixed ends", "tickets", "key changes", "races"]);
}

#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Inbox for Kept {
    fn message(&mut self, _: Lane, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
}

fn listen(typed: &str, tickets: &Tickets) -> Box<dyn Listener> {
    let contender = Contender::parse(typed).unwrap();
    contender.check().unwrap();
    let at = &Address::Ip((IpAddr::V4(Ipv4Addr::LOCALHOST), 0).into());
    let (token, knobs) = (HELLO.token, &contender.knobs);
    let (door, tickets) = (ConnectionSource::Own, tickets.clone());
    let largest_message = LARGEST;
    let listen = Listen { at, token, knobs, lanes: LANES, largest_message, door, tickets };
    contender.transport.listen(listen).unwrap()
}

fn dial(typed: &str, to: &Address, tickets: &Tickets) -> Box<dyn Conn> {
    let contender = Contender::parse(typed).unwrap();
    let (knobs, hello, timeout) = (&contender.knobs, HELLO, LONG);
    let largest_message = LARGEST;
    let dial = Dial { to, hello, knobs, lanes: LANES, largest_message, timeout, tickets };
    contender.transport.dial(&dial).unwrap()
}

/// Both ends of a connection, each with knobs of its own.
fn open(near: &str, far: &str) -> [Box<dyn Conn>; 2] {
    let mut listener = listen(far, &Tickets::default());
    let to = &listener.endpoint();
    thread::scope(|scope| {
        let far = scope.spawn(move || listener.accept(LONG).unwrap().1);
        let near = dial(near, to, &Tickets::default());
        [near, far.join().unwrap()]
    })
}

/// The next message, or that the peer's direction has ended.
fn hear(conn: &mut dyn Conn) -> std::io::Result<Option<Vec<u8>>> {
    let (mut kept, began) = (Kept::default(), Instant::now());
    while kept.0.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing came");
        conn.flush()?;
        if conn.receive(Patience::Block, &mut kept)? == Progress::Closed {
            return Ok(None);
        }
    }
    assert_eq!(kept.0.len(), 1);
    Ok(kept.0.pop())
}

/// Carries a message from one end to the other.
fn pass(from: &mut dyn Conn, to: &mut dyn Conn, message: &[u8]) {
    thread::scope(|scope| {
        let heard = scope.spawn(|| hear(to).unwrap());
        assert_eq!(from.send(Lane(0), message).unwrap(), Progress::Moved);
        while from.readiness().has_backlog {
            from.flush().unwrap();
        }
        assert!(heard.join().unwrap().as_deref() == Some(message), "{} bytes", message.len());
    });
}

/// The wire is the same whoever encrypts, with every cipher, and so is the end of a direction.
fn mixed() {
    for cipher in ["aes128", "aes256", "chacha20"] {
        let kernel = format!("tls:offload=kernel,cipher={cipher}");
        let library = format!("tls:cipher={cipher}");
        for (near, far) in [(&kernel, &library), (&library, &kernel), (&kernel, &kernel)] {
            let [mut near_end, mut far_end] = open(near, far);
            for (typed, end) in [(near, &near_end), (far, &far_end)] {
                let effective = end.effective();
                let is_kernel = typed.contains("kernel");
                assert_eq!(effective["offload"], if is_kernel { "kernel" } else { "off" });
                assert_eq!(effective["cipher"], cipher);
            }
            for len in [1, 100, 16_384, 16_385, LARGEST] {
                let message: Vec<u8> = (0..len).map(|i| (i * 31 + (i >> 8)) as u8).collect();
                pass(&mut *near_end, &mut *far_end, &message);
                pass(&mut *far_end, &mut *near_end, &message);
            }
            near_end.finish().unwrap();
            assert_eq!(hear(&mut *far_end).unwrap(), None, "{near} {far}");
            // The other direction goes on.
            assert_eq!(far_end.send(Lane(0), b"after").unwrap(), Progress::Moved);
            assert_eq!(hear(&mut *near_end).unwrap().as_deref(), Some(&b"after"[..]));
            println!("{near} with {far}: {:?}", near_end.effective());
        }
    }
    println!("mixed ends hold");
}

/// Tickets come through the kernel to the near end, and its next connection resumes.
fn tickets() {
    let typed = "tls:offload=kernel,resume=on";
    let (near_tickets, far_tickets) = (Tickets::default(), Tickets::default());
    let mut listener = listen(typed, &far_tickets);
    let to = &listener.endpoint();
    for resumed in ["off", "on", "on"] {
        thread::scope(|scope| {
            let far = scope.spawn(|| {
                let mut far = listener.accept(LONG).unwrap().1;
                assert_eq!(far.send(Lane(0), b"hello").unwrap(), Progress::Moved);
                far
            });
            let mut near = dial(typed, to, &near_tickets);
            assert_eq!(hear(&mut *near).unwrap().as_deref(), Some(&b"hello"[..]));
            assert_eq!(near.effective()["resume"], resumed);
            assert_eq!(far.join().unwrap().effective()["resume"], resumed);
        });
    }
    println!("tickets hold");
}

/// Takes whatever certificate it is shown.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// A peer that changes its key is followed where the kernel can, and otherwise it is said that it cannot.
fn key_changes() {
    let mut listener = listen("tls:offload=kernel", &Tickets::default());
    let Address::Ip(to) = listener.endpoint() else { panic!("no address") };
    thread::scope(|scope| {
        let far = scope.spawn(move || listener.accept(LONG).unwrap().1);
        let mut wire = TcpStream::connect(to).unwrap();
        wire.write_all(&HELLO.encode()).unwrap();
        wire.read_exact(&mut [0; LEN]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"deadheat".to_vec()];
        let name = ServerName::try_from("deadheat").unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let message = |text: &[u8]| [&(text.len() as u32).to_be_bytes()[..], text].concat();
        rustls::Stream::new(&mut tls, &mut wire).write_all(&message(b"before")).unwrap();
        let mut far = far.join().unwrap();
        assert_eq!(hear(&mut *far).unwrap().as_deref(), Some(&b"before"[..]));
        tls.refresh_traffic_keys().unwrap();
        rustls::Stream::new(&mut tls, &mut wire).write_all(&message(b"after")).unwrap();
        match hear(&mut *far) {
            Ok(heard) => assert_eq!(heard.as_deref(), Some(&b"after"[..])),
            Err(error) => {
                println!("{error}");
                assert!(error.to_string().contains("from Linux 6.14 on"), "{error}");
            }
        }
    });
    println!("key changes hold");
}

fn races() {
    for (words, result, contenders) in [
        (
            &["tls:offload=kernel", "tls", "wss:offload=kernel", "-w", "ping:count=200,window=1"][..],
            "ktls-ping.json",
            3,
        ),
        (&["tls:offload=kernel", "tls", "-w", "bulk:bytes=20MB"], "ktls-bulk.json", 2),
        (
            &["tls:offload=kernel,resume=on", "tls:resume=on", "-w", "connect:count=20"],
            "ktls-connect.json",
            2,
        ),
    ] {
        let raced = race(words, result);
        let trials = raced["trials"].as_array().unwrap();
        for id in 0..contenders {
            let mut own = trials.iter().filter(|trial| trial["contender"] == id).peekable();
            assert!(own.peek().is_some(), "{words:?} has no trial of contender {id}");
            for trial in own {
                let up = &trial["ledger"]["up"];
                let why = trial["why_invalid"].as_str().unwrap_or_default();
                println!("{}: {up} {why}", trial["implementation"]);
                assert!(trial["valid"] == true || why.contains("late"), "{trial:#}");
                assert_eq!(up["delivered"], up["sent"], "{trial:#}");
            }
        }
        let of = |id: usize, end: &str| raced["contenders"][id][end]["offload"].clone();
        for end in ["effective", "far_effective"] {
            assert_eq!((of(0, end), of(1, end)), ("kernel".into(), "off".into()), "{words:?}");
        }
        let differences = raced["differences"].as_array().unwrap();
        let told = differences.iter().find(|one| one["what"] == "offload (effective)");
        assert!(told.is_some_and(|one| one["matters"].as_str().unwrap().contains("encrypts")));
        if result == "ktls-connect.json" {
            assert_eq!(raced["contenders"][0]["effective"]["resume"], "on");
        }
    }
    println!("races hold");
}
