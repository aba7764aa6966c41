//! A browser in tests: a server at loopback on a thread, and requests to it.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deadheat_base::units::BitRate;
use deadheat_datapath::datapath::answering;
use rcgen::{CertificateParams, KeyPair};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

use crate::carrier::PemPair;
use crate::channel::Security;
use crate::names::HostNames;
use crate::results::ResultStore;
use crate::server::{PageGround, WebServer};
use crate::{PageReports, connections};
use deadheat_base::time::Nanos;
use deadheat_datapath::transport::responder::{
    Charged, NoGrant, ResponderHost, TestGrant, TestLimits,
};

/// Host of responders that has one turn.
#[derive(Default)]
pub(crate) struct FakeHost {
    turns: AtomicUsize,
    /// Bytes that were charged beside trials, sent and received.
    pub charged: Mutex<[u64; 2]>,
}

struct FakeGrant<'a>(&'a FakeHost);

const LIMITS: TestLimits = TestLimits {
    duration: Nanos::from_secs(10),
    bytes: 10_000_000,
    rate: BitRate(10_000_000_000),
    begin: Nanos::from_secs(5),
};

impl ResponderHost for FakeHost {
    fn limits(&self) -> TestLimits {
        LIMITS
    }

    fn beside(&self, _peer: IpAddr, bytes: [u64; 2]) -> Result<(), Option<Nanos>> {
        let mut charged = self.charged.lock().unwrap();
        charged.iter_mut().zip(bytes).for_each(|(sum, more)| *sum += more);
        Ok(())
    }

    fn greet(&self, _peer: SocketAddr, _what: &str) {}

    fn note(&self, _peer: SocketAddr, _what: &str) {}

    fn is_own_port(&self, _port: u16) -> bool {
        false
    }

    fn knock(&self, _peer: SocketAddr) -> NoGrant {
        NoGrant::Busy
    }

    fn begin(&self, _peer: SocketAddr) -> Result<Box<dyn TestGrant + '_>, NoGrant> {
        match self.turns.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(Box::new(FakeGrant(self))),
            _ => {
                self.turns.fetch_sub(1, Ordering::SeqCst);
                Err(NoGrant::Busy)
            }
        }
    }
}

impl Drop for FakeGrant<'_> {
    fn drop(&mut self) {
        self.0.turns.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TestGrant for FakeGrant<'_> {
    fn limits(&self) -> TestLimits {
        LIMITS
    }

    fn begun(&self, _title: &str) {}

    fn hold(&self) {}

    fn charge(&self, _last: Nanos, _bytes: [u64; 2]) -> Charged {
        Charged { is_within_sum: true, due: [Nanos::ZERO; 2] }
    }

    fn fail(&self, _why: &str) {}
}

/// Reports without a word.
const REPORTS: PageReports = PageReports {
    style: "",
    page: |outcome| outcome.contenders.iter().map(|one| one.label.as_str()).collect(),
    answer: |outcome, _| json!({ "verdicts": outcome.verdicts.len() }),
};

/// Runs `test` against a server without TLS.
pub(crate) fn with_server(test: impl FnOnce(SocketAddr)) {
    with_host(|to, _| test(to));
}

/// Runs `test` against a server without TLS, and the host that it runs in.
pub(crate) fn with_host(test: impl FnOnce(SocketAddr, &FakeHost)) {
    let listener = answering::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let local = listener.local_addr().unwrap();
    let (stop, stopper) = UnixStream::pair().unwrap();
    let host = FakeHost::default();
    let page = PageGround { at: local, names: HostNames::here(&[]), reports: REPORTS };
    let server = WebServer::new(&host, ResultStore::default(), Security::Plain, page);
    std::thread::scope(|scope| {
        scope.spawn(|| connections::serve(&server, &listener, stop.as_fd()).unwrap());
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(local, &host)));
        drop(stopper);
        if let Err(panic) = ran {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Sends a request on a connection of its own, and returns the status and the body of the answer.
pub(crate) fn ask(to: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Returns the answer in JSON to a request that must succeed.
pub(crate) fn ask_json(to: SocketAddr, path: &str, body: &str) -> Value {
    let (status, answer) = ask(to, "POST", path, body);
    assert_eq!(status, 200, "{path}: {answer}");
    serde_json::from_str(&answer).unwrap()
}

fn pem(kind: &str, der: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).flat_map(std::str::from_utf8).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n")).into_bytes()
}

/// Returns the certificate of a host called far, in PEM, and a client's settings that trust it.
pub(crate) fn pair() -> (PemPair, ClientConfig) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["far".to_owned()]).unwrap();
    let own = params.self_signed(&key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(own.der().clone()).unwrap();
    let (_, provider) = deadheat_datapath::transport::identity::provider(None);
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let chain = pem("CERTIFICATE", own.der());
    (PemPair { chain, key: pem("PRIVATE KEY", &key.serialize_der()) }, client)
}
