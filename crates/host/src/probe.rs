//! Probes: quick measurements of the machine itself, with bare sockets and without transports. They give the cost of a
//! round trip before any protocol, and its variation.
//!
//! Each probe is bounded in messages and in time, and uses only the loopback interface.

use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use serde::{Deserialize, Serialize};

use super::placement::{CpuAssignment, Ends, assign};
use super::topology::Topology;
use deadheat_base::error::{Error, Result};
use deadheat_base::process::no_thread;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::WaitMode;
use deadheat_datapath::datapath::cpu::pin;
use deadheat_datapath::datapath::wait::{Interest, Waiter, WakeReason};
use deadheat_records::placement::Placement;
use deadheat_stats::quantile::quantile_sorted;

/// Time after which an echo counts as unanswered.
const PATIENCE: Nanos = Nanos::from_millis(100);

/// Unanswered echoes after which a run gives up, so that it ends within half a second.
const GIVE_UP: u64 = 4;

/// Size of an echo in bytes.
const SIZE: usize = 64;

/// Round trips of a 64 byte datagram through the loopback interface, under one placement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Echo {
    /// Placement of the two ends.
    pub placement: Placement,
    /// Number of answers.
    pub n: u64,
    /// Echoes without an answer within 100 ms.
    pub unanswered: u64,
    /// 10th percentile of the round trips, in nanoseconds.
    pub p10_ns: u64,
    /// Median of the round trips, in nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile of the round trips, in nanoseconds.
    pub p90_ns: u64,
}

impl Echo {
    fn of(placement: Placement, run: &EchoRun) -> Option<Echo> {
        let at = |q| quantile_sorted(&run.rtt_ns, q);
        Some(Echo {
            placement,
            n: run.rtt_ns.len() as u64,
            unanswered: run.unanswered,
            p10_ns: at(0.1)?,
            p50_ns: at(0.5)?,
            p90_ns: at(0.9)?,
        })
    }

    /// Returns the difference between the 90th and the 10th percentile, as a share of the median; `None` if the median
    /// is 0.
    pub fn spread(&self) -> Option<f64> {
        let width = self.p90_ns.saturating_sub(self.p10_ns) as f64;
        (self.p50_ns > 0).then(|| width / self.p50_ns as f64)
    }
}

/// Measures an echo without pauses, each sent when the last one has returned: the floor of every protocol.
///
/// # Errors
/// Fails if the host cannot do the placement, or loopback does not work.
pub fn floor(placement: Placement, topology: &Topology) -> Result<Echo> {
    let course = EchoPlan {
        at: assign(placement, Ends::OneMachine, topology)?,
        over: EchoSockets::Loopback,
        rhythm: Rhythm::BackToBack,
        warmup: 200,
        count: 2000,
    };
    Echo::of(placement, &course.run()?).ok_or_else(no_answers)
}

/// Pause that lets an idle CPU go to sleep (haltpoll gives up after 200 µs), as in paced work.
pub(crate) const PAUSE: Nanos = Nanos::from_micros(500);

/// Schedule of the echoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rhythm {
    /// Back to back: each is sent once the last one has returned.
    BackToBack,
    /// Scheduled, with the trial driver's waiting.
    Every(Nanos),
}

/// Sockets that echoes travel over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EchoSockets {
    /// UDP through the loopback interface.
    Loopback,
    /// A pair of Unix datagram sockets: no network, no protocol.
    Pair,
}

impl EchoSockets {
    fn open(self) -> io::Result<(UdpSocket, UdpSocket)> {
        match self {
            EchoSockets::Loopback => {
                let near = UdpSocket::bind("127.0.0.1:0")?;
                let far = UdpSocket::bind("127.0.0.1:0")?;
                near.connect(far.local_addr()?)?;
                far.connect(near.local_addr()?)?;
                Ok((near, far))
            }
            EchoSockets::Pair => {
                // An echo uses only calls that all connected datagram sockets share.
                let (near, far) = UnixDatagram::pair()?;
                Ok((OwnedFd::from(near).into(), OwnedFd::from(far).into()))
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            EchoSockets::Loopback => "UDP echo over 127.0.0.1",
            EchoSockets::Pair => "echo over a pair of sockets",
        }
    }

    fn broken(self, source: io::Error) -> Error {
        match self {
            EchoSockets::Loopback => {
                Error::setup_advice(self.name(), source, "loopback must be up: ip link set lo up")
            }
            EchoSockets::Pair => Error::setup(self.name(), source),
        }
    }
}

/// Parameters of one run of echoes between two fresh threads over fresh sockets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EchoPlan {
    /// CPUs of both ends, and their mode of waiting.
    pub(crate) at: CpuAssignment,
    /// Sockets that echoes travel over.
    pub(crate) over: EchoSockets,
    /// Schedule of the echoes.
    pub(crate) rhythm: Rhythm,
    /// First echoes, which are not counted.
    pub(crate) warmup: usize,
    /// Echoes that are counted.
    pub(crate) count: usize,
}

/// Result of a run of echoes. Both lists are sorted.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct EchoRun {
    /// Round trips in nanoseconds: from the scheduled send, or from the call if there is no schedule.
    pub(crate) rtt_ns: Vec<u64>,
    /// Lateness of each send, in nanoseconds; empty without a schedule.
    pub(crate) lateness_ns: Vec<u64>,
    /// Echoes without an answer.
    pub(crate) unanswered: u64,
}

impl EchoPlan {
    /// Runs the echoes.
    ///
    /// # Errors
    /// Fails with the failed operation: no loopback interface, a CPU that cannot be pinned to.
    pub(crate) fn run(&self) -> Result<EchoRun> {
        let (near, far) = self.over.open().map_err(|source| self.over.broken(source))?;
        let over = AtomicBool::new(false);
        let broken = |source| Error::setup(self.over.name(), source);
        let (measured, answered) = thread::scope(|scope| {
            let answer = || -> Result<()> {
                placed(self.at.far)?;
                answer(&far, self.at.wait, &over).map_err(broken)
            };
            let measure = || -> Result<EchoRun> {
                let _end = AnswererGuard { over: &over, socket: &near };
                placed(self.at.near)?;
                match self.rhythm {
                    Rhythm::BackToBack => self.back_to_back(&near),
                    Rhythm::Every(pause) => self.paced(&near, pause),
                }
                .map_err(broken)
            };
            let answering =
                thread::Builder::new().spawn_scoped(scope, answer).map_err(no_thread)?;
            let measuring = thread::Builder::new().spawn_scoped(scope, measure).map_err(|e| {
                drop(AnswererGuard { over: &over, socket: &near });
                no_thread(e)
            })?;
            Ok((measuring.join(), answering.join()))
        })?;
        answered.map_err(|_| thread_died())??;
        let mut run = measured.map_err(|_| thread_died())??;
        run.rtt_ns.sort_unstable();
        run.lateness_ns.sort_unstable();
        Ok(run)
    }

    fn back_to_back(&self, socket: &UdpSocket) -> io::Result<EchoRun> {
        prepare(socket, self.at.wait)?;
        let mut run = EchoRun { rtt_ns: Vec::with_capacity(self.count), ..EchoRun::default() };
        let mut message = [0; SIZE];
        for seq in 0..(self.warmup + self.count) as u64 {
            let sent = Monotonic.now();
            message[..8].copy_from_slice(&seq.to_be_bytes());
            socket.send(&message)?;
            let back = loop {
                let got = receive(socket)?;
                let now = Monotonic.now();
                match got {
                    Some(answer) if answer == seq => break Some(now),
                    _ if now - sent >= PATIENCE => break None,
                    _ => {}
                }
            };
            match back {
                Some(_) if seq < self.warmup as u64 => {}
                Some(now) => run.rtt_ns.push((now - sent).0),
                None => run.unanswered += 1,
            }
            if run.unanswered >= GIVE_UP {
                break;
            }
        }
        Ok(run)
    }

    fn paced(&self, socket: &UdpSocket, pause: Nanos) -> io::Result<EchoRun> {
        socket.set_nonblocking(true)?;
        let waiter = Waiter::new(self.at.wait);
        let total = self.warmup + self.count;
        let mut back: Vec<Option<u64>> = vec![None; total];
        let mut lateness: Vec<u64> = Vec::with_capacity(total);
        let start = Monotonic.now() + Nanos::from_millis(1);
        let due = |seq: usize| start + Nanos(pause.0 * seq as u64);
        let mut message = [0; SIZE];
        let mut answers = 0;
        loop {
            let sent = lateness.len();
            let until = if sent < total { due(sent) } else { due(total) + PATIENCE };
            match waiter.wait(&Monotonic, Some(socket.as_fd()), Some(until), Interest::Read)? {
                WakeReason::Due if sent == total => break,
                WakeReason::Due => {
                    message[..8].copy_from_slice(&(sent as u64).to_be_bytes());
                    lateness.push((Monotonic.now() - until).0);
                    socket.send(&message)?;
                }
                _ => {
                    let Some(seq) = receive(socket)? else {
                        continue;
                    };
                    let seq = usize::try_from(seq).unwrap_or(usize::MAX);
                    if let Some(slot @ None) = back.get_mut(seq) {
                        *slot = Some((Monotonic.now() - due(seq)).0);
                        answers += 1;
                    }
                }
            }
            if answers == total {
                break;
            }
        }
        let counted = back.get(self.warmup..).unwrap_or_default();
        Ok(EchoRun {
            rtt_ns: counted.iter().flatten().copied().collect(),
            unanswered: counted.iter().filter(|rtt| rtt.is_none()).count() as u64,
            lateness_ns: lateness.split_off(self.warmup.min(lateness.len())),
        })
    }
}

/// Guard that ends the answering thread, however the measuring one ends.
struct AnswererGuard<'a> {
    over: &'a AtomicBool,
    socket: &'a UdpSocket,
}

impl Drop for AnswererGuard<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // This only speeds it up: the thread reads the flag after each timeout anyway.
        let _ = self.socket.send(&[]);
    }
}

fn answer(socket: &UdpSocket, wait: WaitMode, over: &AtomicBool) -> io::Result<()> {
    prepare(socket, wait)?;
    let mut message = [0; SIZE];
    while !over.load(Ordering::Acquire) {
        match socket.recv(&mut message) {
            Ok(SIZE) => match socket.send(&message) {
                Err(e) if !passing(&e) => return Err(e),
                _ => {}
            },
            Err(e) if !passing(&e) => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Receives the number of one answer; `None` if there is none.
fn receive(socket: &UdpSocket) -> io::Result<Option<u64>> {
    let mut message = [0; SIZE];
    match socket.recv(&mut message) {
        Ok(_) => {
            let [a, b, c, d, e, f, g, h, ..] = message;
            Ok(Some(u64::from_be_bytes([a, b, c, d, e, f, g, h])))
        }
        Err(e) if passing(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns true if an error only means "nothing yet", or is an ICMP report about a peer that is gone.
fn passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionRefused)
}

fn prepare(socket: &UdpSocket, wait: WaitMode) -> io::Result<()> {
    match wait {
        WaitMode::Spin => socket.set_nonblocking(true),
        WaitMode::Hybrid => socket.set_read_timeout(Some(Duration::from(PATIENCE))),
    }
}

fn placed(cpu: Option<usize>) -> Result<()> {
    cpu.map_or(Ok(()), pin)
}

fn no_answers() -> Error {
    Error::setup_advice(
        "UDP echo over 127.0.0.1",
        io::Error::from(io::ErrorKind::TimedOut),
        "a firewall on the loopback interface?",
    )
}

fn thread_died() -> Error {
    Error::setup("UDP echo over 127.0.0.1", io::Error::other("a thread died"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(rhythm: Rhythm, wait: WaitMode) -> EchoPlan {
        let anywhere = CpuAssignment { near: None, far: None, wait };
        EchoPlan { at: anywhere, over: EchoSockets::Loopback, rhythm, warmup: 3, count: 20 }
    }

    #[test]
    fn every_echo_is_accounted_for() {
        for rhythm in [Rhythm::BackToBack, Rhythm::Every(PAUSE)] {
            for wait in [WaitMode::Hybrid, WaitMode::Spin] {
                let run = course(rhythm, wait).run().unwrap();
                let answers = run.rtt_ns.len() as u64;
                assert!(answers > 0);
                assert!(answers + run.unanswered <= 20 + GIVE_UP);
                assert!(run.rtt_ns.is_sorted() && run.rtt_ns[0] > 0);
                let scheduled = if rhythm == Rhythm::BackToBack { 0 } else { 20 };
                assert_eq!(run.lateness_ns.len(), scheduled);
            }
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_ends_the_run_with_its_name() {
        let mut course = course(Rhythm::BackToBack, WaitMode::Hybrid);
        course.at.far = Some(8000);
        let error = course.run().unwrap_err().to_string();
        assert!(error.contains("pin to CPU 8000"), "{error}");
    }

    #[test]
    fn spread_is_relative_and_needs_a_median() {
        let mut echo = Echo {
            placement: Placement::Busy,
            n: 9,
            unanswered: 0,
            p10_ns: 9,
            p50_ns: 10,
            p90_ns: 14,
        };
        assert_eq!(echo.spread(), Some(0.5));
        echo.p50_ns = 0;
        assert_eq!(echo.spread(), None);
    }
}
