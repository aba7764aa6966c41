//! Bytes of foreign clients at what `deadheat serve` answers them with: nothing panics, and a client that has not shown that
//! it receives gets no more bytes of datagrams than it sent. The first byte chooses the responder; the rest is a stream, or
//! datagrams, each behind its length, or one datagram.
#![no_main]

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use deadheat::time::Nanos;
use deadheat::transport::responder::{
    Charged, NoGrant, Responder, ResponderHost, TestGrant, TestLimits,
};
use deadheat::units::BitRate;
use deadheat_far_ends::responders;
use libfuzzer_sys::fuzz_target;

/// Host that allows everything, for a short time.
struct Generous;

const LIMITS: TestLimits = TestLimits {
    duration: Nanos::from_secs(1),
    bytes: 1_000_000,
    rate: BitRate(1_000_000_000),
    begin: Nanos::from_secs(1),
};

impl ResponderHost for Generous {
    fn limits(&self) -> TestLimits {
        LIMITS
    }
    fn beside(&self, _: std::net::IpAddr, _: [u64; 2]) -> Result<(), Option<Nanos>> {
        Ok(())
    }
    fn greet(&self, _: SocketAddr, _: &str) {}
    fn note(&self, _: SocketAddr, _: &str) {}
    fn is_own_port(&self, _: u16) -> bool {
        false
    }
    fn knock(&self, _: SocketAddr) -> NoGrant {
        NoGrant::Busy
    }
    fn begin(&self, _: SocketAddr) -> Result<Box<dyn TestGrant + '_>, NoGrant> {
        Ok(Box::new(Generous))
    }
}

impl TestGrant for Generous {
    fn limits(&self) -> TestLimits {
        LIMITS
    }
    fn begun(&self, _: &str) {}
    fn hold(&self) {}
    fn charge(&self, _: Nanos, _: [u64; 2]) -> Charged {
        Charged { is_within_sum: true, due: [Nanos::ZERO; 2] }
    }
    fn fail(&self, _: &str) {}
}

/// Addresses of all responders, and whether each takes streams; each is
/// served by a thread that ends with the process.
static OPEN: LazyLock<Vec<(SocketAddr, bool)>> = LazyLock::new(|| {
    let open = |responder: &&dyn Responder| {
        let mut open =
            responder.open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).expect("sockets");
        let at = open.local_addr();
        let takes_streams = responder.info().answers.iter().any(|answer| answer.over == "TCP");
        thread::spawn(move || {
            let (stop, _keep) = UnixStream::pair().expect("a pair");
            let _ = open.serve(&Generous, stop.as_fd());
        });
        (at, takes_streams)
    };
    responders::ALL.iter().map(open).collect()
});

thread_local! {
    static NEXT: Cell<u32> = const { Cell::new(1) };
}

/// Time without an answer after which there is none.
const QUIET: Duration = Duration::from_millis(2);

/// Splits bytes into datagrams, each behind its length.
fn split(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some((len, tail)) = rest.split_first() {
        let (datagram, tail) = tail.split_at(tail.len().min(usize::from(*len)));
        all.push(datagram);
        rest = tail;
    }
    all
}

fn exchange(at: SocketAddr, datagrams: &[&[u8]]) {
    // Each client has an address of its own: what one has shown counts for no other.
    let number = NEXT.get();
    NEXT.set(number + 1);
    let own = Ipv4Addr::from(0x7f01_0000 | (number % 0xffff + 1));
    let Ok(socket) = UdpSocket::bind((own, 0)) else { return };
    if socket.connect(at).is_err() || socket.set_read_timeout(Some(QUIET)).is_err() {
        return;
    }
    let (mut sent, mut got, mut answer) = (0, 0, [0; 1 << 16]);
    for datagram in datagrams {
        sent += socket.send(datagram).unwrap_or(0);
    }
    while let Ok(len) = socket.recv(&mut answer) {
        got += len;
    }
    assert!(got <= sent, "{got} bytes for {sent}");
}

fn stream(at: SocketAddr, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(at) else { return };
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(QUIET));
    let mut answer = [0; 1 << 12];
    while matches!(stream.read(&mut answer), Ok(1..)) {}
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let (at, takes_streams) = OPEN[usize::from(*choice) % OPEN.len()];
    if takes_streams && choice & 0x80 == 0 {
        stream(at, rest);
    } else if choice & 0x40 == 0 {
        exchange(at, &split(rest));
    } else {
        exchange(at, &[rest]);
    }
});
