//! Host of responders in tests: it allows what it is told to, and remembers what was charged and said.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;
use deadheat_datapath::transport::responder::{
    Charged, NoGrant, ResponderHost, TestGrant, TestLimits,
};

/// Limits that nothing in a test reaches unless it sets others.
pub(super) const WIDE: TestLimits = TestLimits {
    duration: Nanos::from_secs(60),
    bytes: 100_000_000_000,
    rate: BitRate(10_000_000_000),
    begin: Nanos::from_secs(5),
};

/// Port of the host's own.
pub(super) const OWN_PORT: u16 = 50_001;

/// Host of a responder in a test.
pub(super) struct TestHost {
    pub(super) limits: TestLimits,
    /// Number of exchanges that it allows.
    pub(super) exchanges: AtomicU64,
    /// True if trials run, so that no test may.
    pub(super) is_busy: bool,
    pub(super) said: Mutex<Vec<String>>,
    pub(super) charged: Mutex<[u64; 2]>,
}

impl TestHost {
    pub(super) fn new() -> TestHost {
        TestHost {
            limits: WIDE,
            exchanges: AtomicU64::new(u64::MAX),
            is_busy: false,
            said: Mutex::default(),
            charged: Mutex::default(),
        }
    }

    pub(super) fn has_said(&self, what: &str) -> bool {
        self.said.lock().unwrap().iter().any(|line| line.contains(what))
    }

    fn add(&self, bytes: [u64; 2]) -> [u64; 2] {
        let mut charged = self.charged.lock().unwrap();
        for (sum, more) in charged.iter_mut().zip(bytes) {
            *sum += more;
        }
        *charged
    }
}

impl ResponderHost for TestHost {
    fn limits(&self) -> TestLimits {
        self.limits
    }

    fn beside(&self, _peer: IpAddr, bytes: [u64; 2]) -> Result<(), Option<Nanos>> {
        let step = |left: u64| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if self.exchanges.fetch_update(order, order, step).is_err() {
            return Err(Some(Nanos::from_secs(1)));
        }
        self.add(bytes);
        Ok(())
    }

    fn greet(&self, peer: SocketAddr, what: &str) {
        self.note(peer, what);
    }

    fn note(&self, _peer: SocketAddr, what: &str) {
        self.said.lock().unwrap().push(what.to_owned());
    }

    fn is_own_port(&self, port: u16) -> bool {
        port == OWN_PORT
    }

    fn knock(&self, _peer: SocketAddr) -> NoGrant {
        NoGrant::Busy
    }

    fn begin(&self, _peer: SocketAddr) -> Result<Box<dyn TestGrant + '_>, NoGrant> {
        if self.is_busy { Err(NoGrant::Busy) } else { Ok(Box::new(Turn(self))) }
    }
}

/// Turn of a test.
struct Turn<'a>(&'a TestHost);

impl TestGrant for Turn<'_> {
    fn limits(&self) -> TestLimits {
        self.0.limits
    }

    fn begun(&self, title: &str) {
        self.0.said.lock().unwrap().push(format!("{title} started"));
    }

    fn hold(&self) {}

    fn charge(&self, last: Nanos, bytes: [u64; 2]) -> Charged {
        let sums = self.0.add(bytes);
        let is_within_sum = sums.into_iter().all(|sum| sum <= self.0.limits.bytes);
        Charged { is_within_sum, due: [last; 2] }
    }

    fn fail(&self, why: &str) {
        self.0.said.lock().unwrap().push(format!("failed: {why}"));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.said.lock().unwrap().push("turn returned".to_owned());
    }
}
