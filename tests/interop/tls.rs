//! `tls` with OpenSSL's own programs, `openssl s_server` and `openssl s_client`: TLS 1.3, each cipher that can be asked for, a
//! megabyte each way.
//!
//! OpenSSL knows nothing of the hello in front of the handshake, so a porter stands between the two: it exchanges that, and
//! carries bytes from there on.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use deadheat::contract::Patience;
use deadheat::time::{Clock, Monotonic};
use deadheat::transport::Conn;
use deadheat::transport::hello::{Hello, LEN};
use sha2::{Digest, Sha256};

use crate::certificate::{Files, NAME};
use crate::content;
use crate::other::has;
use crate::ours::{self, HELLO, Kept, LARGEST, LONG};

/// Ciphers by our names and by those of the standard (RFC 8446, B.4).
const CIPHERS: [(&str, &str); 3] = [
    ("aes128", "TLS_AES_128_GCM_SHA256"),
    ("aes256", "TLS_AES_256_GCM_SHA384"),
    ("chacha20", "TLS_CHACHA20_POLY1305_SHA256"),
];

/// Messages of each way, around the size of a record and up to the largest.
fn messages(first: usize) -> Vec<Vec<u8>> {
    let lengths = [1, 16_380, 16_384, 16_385, LARGEST, 7].into_iter().cycle().take(48);
    lengths.enumerate().map(|(number, len)| content(first + number, len)).collect()
}

/// Messages as the byte stream that carries them: each behind its length.
fn stream(messages: &[Vec<u8>]) -> Vec<u8> {
    let framed = |message: &Vec<u8>| [&(message.len() as u32).to_be_bytes(), &message[..]].concat();
    messages.iter().flat_map(framed).collect()
}

/// One of OpenSSL's programs, which sends what it is given and gives what it receives.
struct OpenSsl {
    child: Child,
    given: JoinHandle<ChildStdin>,
    received: JoinHandle<Vec<u8>>,
    says: JoinHandle<String>,
}

impl OpenSsl {
    fn start(args: &[&str], sends: Vec<u8>) -> OpenSsl {
        let mut command = Command::new("openssl");
        command.args(args).args(["-brief", "-tls1_3", "-alpn", NAME]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (has_come, first) = mpsc::channel();
        let received = thread::spawn(move || {
            let mut byte = [0];
            let count = stdout.read(&mut byte).unwrap();
            let _ = has_come.send(());
            let mut bytes = byte[..count].to_vec();
            stdout.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let given = thread::spawn(move || {
            // A server that is the first to send does so within the handshake, and then says nothing of its outcome.
            let _ = first.recv();
            let _ = stdin.write_all(&sends);
            // Its end would make the program close before all has come.
            stdin
        });
        let mut stderr = child.stderr.take().unwrap();
        let says = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        OpenSsl { child, given, received, says }
    }

    /// Waits for its end, and checks what it received and which cipher it has seen.
    fn end(mut self, cipher: &str, sent: &[u8]) {
        let status = self.child.wait().unwrap();
        let says = self.says.join().unwrap();
        assert!(status.success(), "{status}: {says}");
        let has_line = |line: String| says.lines().any(|said| said == line);
        assert!(has_line("Protocol version: TLSv1.3".to_owned()), "{says}");
        assert!(has_line(format!("Ciphersuite: {cipher}")), "{says}");
        let received = self.received.join().unwrap();
        assert_eq!(received.len(), sent.len());
        assert_eq!(Sha256::digest(received), Sha256::digest(sent));
        drop(self.given.join().unwrap());
    }
}

/// Carries bytes both ways until both have ended.
fn carry(a: &TcpStream, b: &TcpStream) {
    let way = |mut from: &TcpStream, mut to: &TcpStream| {
        // An end that is gone has ended, too.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    };
    thread::scope(|scope| {
        scope.spawn(|| way(a, b));
        way(b, a);
    });
}

/// Connects as soon as a program listens.
fn connect(port: u16) -> TcpStream {
    let deadline = Monotonic.now() + LONG;
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => return stream,
            Err(error) => assert!(Monotonic.now() < deadline, "connect to openssl: {error}"),
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn hello_of(stream: &mut TcpStream) -> [u8; LEN] {
    let mut hello = [0; LEN];
    stream.read_exact(&mut hello).unwrap();
    hello
}

/// A port of this host that nobody has.
fn free_port() -> u16 {
    let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    door.local_addr().unwrap().port()
}

/// Sends all messages, and checks those that come.
fn exchange(conn: &mut dyn Conn, sent: &[Vec<u8>], expected: &[Vec<u8>]) {
    let deadline = Monotonic.now() + LONG;
    let mut kept = Kept::default();
    for message in sent {
        ours::send(conn, message, &mut kept);
    }
    while kept.0.len() < expected.len() {
        assert!(Monotonic.now() < deadline, "{} messages came", kept.0.len());
        conn.receive(Patience::Block, &mut kept).unwrap();
    }
    assert!(kept.0 == expected);
    ours::part(conn, &mut kept);
    assert_eq!(kept.0.len(), expected.len());
}

#[test]
fn openssl_answers_us_with_each_cipher() {
    if !has("openssl", "openssl") {
        return;
    }
    let files = Files::write();
    let (certificate, key) = (files.certificate(), files.key());
    for (ours, theirs) in CIPHERS {
        let (there, back) = (messages(0), messages(100));
        let port = free_port();
        let at = format!("127.0.0.1:{port}");
        let args = ["s_server", "-accept", &at, "-naccept", "1", "-cert"];
        let args = [&args[..], &[certificate.to_str().unwrap(), "-key", key.to_str().unwrap()]];
        let server = OpenSsl::start(&args.concat(), stream(&back));
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = door.local_addr().unwrap();
        // The program starts before the handshake does, whose time is limited.
        let far = connect(port);
        let porter = thread::spawn(move || {
            let mut near = door.accept().unwrap().0;
            assert_eq!(Hello::decode(&hello_of(&mut near)), Some(HELLO));
            near.write_all(&HELLO.encode_welcome()).unwrap();
            carry(&near, &far);
        });
        let mut near = ours::dial(&format!("tls:cipher={ours}"), address.port()).unwrap();
        assert_eq!(near.effective()["cipher"], ours);
        exchange(&mut *near, &there, &back);
        drop(near);
        server.end(theirs, &stream(&there));
        porter.join().unwrap();
    }
}

#[test]
fn openssl_is_answered_by_us_with_each_cipher() {
    if !has("openssl", "openssl") {
        return;
    }
    let files = Files::write();
    let certificate = files.certificate();
    for (ours, theirs) in CIPHERS {
        let (there, back) = (messages(0), messages(100));
        let (mut listener, address) = ours::listen(&format!("tls:cipher={ours}"));
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = door.local_addr().unwrap().to_string();
        let porter = thread::spawn(move || {
            let client = door.accept().unwrap().0;
            let mut far = TcpStream::connect(address).unwrap();
            far.write_all(&HELLO.encode()).unwrap();
            assert_eq!(Hello::decode_welcome(&hello_of(&mut far)), Some(HELLO));
            carry(&client, &far);
        });
        let args = ["s_client", "-connect", &to, "-ign_eof", "-servername", NAME, "-CAfile"];
        let verify = ["-verify_return_error", "-verify_hostname", NAME];
        let args = [&args[..], &[certificate.to_str().unwrap()], &verify];
        let client = OpenSsl::start(&args.concat(), stream(&there));
        let (_, mut far) = listener.accept(LONG).unwrap();
        assert_eq!(far.effective()["cipher"], ours);
        exchange(&mut *far, &back, &there);
        drop(far);
        client.end(theirs, &stream(&back));
        porter.join().unwrap();
    }
}
