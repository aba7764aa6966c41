//! Threads that move packets: from each port to the port at the other end of its link, through a channel in each
//! direction.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::lag::{SenderCpus, least_wake_up};
use super::port::Port;
use super::slab::Slab;
use super::wait::{Sleeper, WakeReason, go_first, plan};
use crate::addresses::public_address;
use crate::emulated::pipeline::Pipeline;
use crate::impair::packet::Place;
use crate::measurements::{Captured, DirectionFigures, LinkFigures, PathFigures};
use crate::nat::Translator;
use crate::network::{Grouping, Impairments, Network, ReleaseWait};
use crate::observe::log::PacketLog;
use crate::observe::pcapng::{self, Section};
use crate::observe::{Capture, Observation, Observer};
use deadheat_base::bell::Bell;
use deadheat_base::cpu::{allowed_cpus, pin};
use deadheat_base::ends::Direction;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos, Realtime};
use deadheat_base::units::BitRate;
use deadheat_base::waiting::Plan;

/// Highest rate of strict grouping: up to it packets of 1500 bytes leave so far apart (6 µs) that each can be
/// written alone.
const STRICT_UP_TO: BitRate = BitRate(2_000_000_000);

/// Time for which a thread continues to poll after an event, before it sleeps. A wake-up takes 20 to 60 µs, and an
/// event that follows closely must be on time.
const LINGER: Nanos = Nanos::from_micros(60);

/// Number of frames that are read before due packets are released again.
const FRAMES: usize = 8;
/// Number of rounds of releases in a row before frames are read again, however many are due.
const RELEASES: usize = 8;

/// Largest number of frames discarded at the start of a trial: more than a device's queue holds, and a bound for a
/// host that sends without end.
const STALE: usize = 1 << 16;

/// Memory for the frames under way on one direction of one link, in bytes: 100 ms at 20 Gbit/s.
const BUDGET: usize = 768 << 20;
/// Part of that memory, one in so many, that is touched before the first frame.
const PLACED_PART: usize = 8;
/// Assumed rate of a link without a rate limit, in bits per second.
const FASTEST: u64 = 10_000_000_000;

/// Returns the grouping of packets that leave close to each other: as requested, or else together where a link is
/// so fast that they could not be written one by one. Without a rate limit, the packets of a frame depart at one
/// time anyway.
pub fn grouping_for(network: &Network) -> Grouping {
    let ways = network.links.iter().flat_map(|link| [&link.up, &link.down]);
    let fast = ways.filter_map(|way| way.rate.highest()).any(|rate| rate.0 > STRICT_UP_TO.0);
    network.grouping.unwrap_or(if fast { Grouping::Aggregate } else { Grouping::Strict })
}

/// Handle of the threads, which run until it is dropped.
pub struct Forwarder {
    crew: Vec<ThreadHandle>,
    links: usize,
    observation: Observation,
    /// Time of the last beginning, in nanoseconds since 1970.
    began_ns: u64,
}

/// Handle of one thread.
struct ThreadHandle {
    orders: Option<Sender<ThreadOrder>>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Order for a thread.
enum ThreadOrder {
    /// Empties the channels and resets the figures; now is time 0.
    Begin { seed: u64, origin: Nanos, observation: Observation, done: Sender<Result<()>> },
    /// Requests the packets that were observed since then.
    TakeLogs { done: Sender<Vec<(usize, Direction, PacketLog)>> },
    /// Requests the figures since then.
    Tell { done: Sender<Vec<(usize, Direction, DirectionFigures)>> },
}

impl Forwarder {
    /// Starts to move packets between the near and the far port of each link, with the network's seed or 0.
    ///
    /// # Errors
    /// [`Error::Usage`] where the number of pairs of ports differs from the number of links, [`Error::Setup`] where
    /// memory or a thread is refused.
    pub fn start(
        network: &Network,
        ports: Vec<[Box<dyn Port>; 2]>,
        senders: SenderCpus,
    ) -> Result<Forwarder> {
        if ports.len() != network.links.len() {
            let (ports, links) = (ports.len(), network.links.len());
            return Err(Error::usage(format!(
                "{links} links need as many pairs of ports: {ports}"
            )));
        }
        let grouping = grouping_for(network);
        let budget = budget(2 * ports.len());
        let mut ways = Vec::new();
        for (at, (link, pair)) in network.links.iter().zip(ports).enumerate() {
            let [near, far] = pair.map(Arc::<dyn Port>::from);
            let middlebox = link.middlebox.map(|middlebox| {
                let (public, mtu) = (public_address(at), network.mtu());
                Arc::new(Mutex::new(Translator::new(&middlebox, public, mtu)))
            });
            for direction in [Direction::Up, Direction::Down] {
                let model = link.toward(direction);
                let slab = Slab::new(budget, expected(model).min(budget / PLACED_PART))
                    .map_err(|e| Error::setup("take memory for the packets of a path", e))?;
                let place = Place { seed: network.seed.unwrap_or(0), link: at as u16, direction };
                let lane = Pipeline::new(model, place, grouping, slab, middlebox.clone())?;
                let (from, to) = match direction {
                    Direction::Up => (&near, &far),
                    Direction::Down => (&far, &near),
                };
                let (from, to, missed) = (Arc::clone(from), Arc::clone(to), from.drops());
                ways.push(LinkDirection {
                    link: at,
                    direction,
                    lane,
                    from,
                    to,
                    missed,
                    since: None,
                });
            }
        }
        let cpus = cpus(&allowed_cpus());
        let each = ways.len().div_ceil(cpus.len().max(1)).max(1);
        let mut crew = Vec::new();
        while !ways.is_empty() {
            let rest = ways.split_off(each.min(ways.len()));
            let cpu = cpus.get(crew.len()).copied();
            let lag = match (network.wait, cpu) {
                (ReleaseWait::Hybrid | ReleaseWait::Sleep, Some(cpu)) => {
                    least_wake_up(cpu, senders)
                }
                _ => Nanos::ZERO,
            };
            let own = std::mem::replace(&mut ways, rest);
            // A thread that sleeps shares its CPU with threads of other paths, so the scheduler places it.
            let cpu = cpu.filter(|_| network.wait != ReleaseWait::Sleep);
            crew.push(ThreadHandle::start(own, network.wait, 2 * network.links.len(), cpu, lag)?);
        }
        let (links, observation) = (network.links.len(), Observation::default());
        Ok(Forwarder { crew, links, observation, began_ns: 0 })
    }

    /// Observes the packets from the next beginning on.
    pub fn observe(&mut self, observation: Observation) {
        self.observation = observation;
    }

    /// Empties all channels and begins anew, with this seed and all counters at 0. Time 0 is now. Frames that hosts
    /// have sent and that were not read are discarded.
    ///
    /// # Errors
    /// [`Error::Setup`] where a thread has failed before, with its reason.
    pub fn begin(&mut self, seed: u64) -> Result<()> {
        let origin = Monotonic.now();
        self.began_ns = Realtime::when(origin).0;
        let observation = self.observation.clone();
        let order =
            |done| ThreadOrder::Begin { seed, origin, observation: observation.clone(), done };
        for answer in self.ask(order)? {
            answer?;
        }
        Ok(())
    }

    /// Appends the packets since the beginning to the capture, if they are captured, and forgets them.
    ///
    /// # Errors
    /// As [`Forwarder::end`].
    pub fn capture(&mut self, network: &Network) -> Result<Option<Captured>> {
        let Some(Capture { file, title }) = self.observation.capture.clone() else {
            return Ok(None);
        };
        let logs = self.ask(|done| ThreadOrder::TakeLogs { done })?.into_iter().flatten();
        let ways = logs.map(|(link, direction, log)| (network.way_name(link, direction), log));
        let section = Section { title: &title, began_ns: self.began_ns, ways: ways.collect() };
        Ok(Some(pcapng::append(&file, &section)))
    }

    /// Returns the figures from the beginning until now. The threads continue to move packets.
    ///
    /// # Errors
    /// [`Error::Setup`] where a thread has failed since, with its reason.
    pub fn end(&mut self) -> Result<PathFigures> {
        let mut links = vec![LinkFigures::default(); self.links];
        for (link, direction, mut figures) in
            self.ask(|done| ThreadOrder::Tell { done })?.into_iter().flatten()
        {
            if let Some(course) = &mut figures.queue_course {
                course.began_ns = Some(self.began_ns);
            }
            match direction {
                Direction::Up => links[link].up = figures,
                Direction::Down => links[link].down = figures,
            }
        }
        Ok(PathFigures { links })
    }

    /// Sends the same order to all threads, and returns the answer of each.
    fn ask<T>(&mut self, order: impl Fn(Sender<T>) -> ThreadOrder) -> Result<Vec<T>> {
        let answers: Vec<Receiver<T>> = self
            .crew
            .iter()
            .map(|hand| {
                let (done, answer) = mpsc::channel();
                hand.tell(order(done));
                answer
            })
            .collect();
        let answered = |(hand, answer): (&mut ThreadHandle, Receiver<T>)| {
            answer.recv().map_err(|_| hand.failure())
        };
        self.crew.iter_mut().zip(answers).map(answered).collect()
    }
}

/// Chooses the CPUs that move packets, out of the CPUs that this process may use: the lower half, because hosts
/// need some too, and processes that must not be disturbed run on the upper ones. Each CPU has one thread, whatever
/// the number of directions: two on one CPU would take turns with the hosts' work. Empty where there is only one
/// CPU.
pub fn cpus(allowed: &[usize]) -> Vec<usize> {
    let mut cpus = allowed.to_vec();
    cpus.sort_unstable();
    cpus.truncate(allowed.len() / 2);
    cpus
}

/// Returns the bytes that each of this number of directions may store: a quarter of the machine's memory for all of
/// them.
fn budget(ways: usize) -> usize {
    // SAFETY: takes an integer and touches no memory of ours.
    let (pages, bytes) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let memory =
        usize::try_from(pages).unwrap_or(0).saturating_mul(usize::try_from(bytes).unwrap_or(0));
    BUDGET.min(memory / 4 / ways.max(1))
}

/// Estimates the bytes under way at once: those during the delay, at least of 100 ms or 4 MiB, whichever is less, and at
/// most 64 MiB. A slow link of many takes little memory so.
fn expected(model: &Impairments) -> usize {
    let rate = model.rate.highest().map_or(FASTEST, |rate| rate.0.min(FASTEST));
    let bytes = u128::from(rate) * u128::from(model.delay.0) / 8_000_000_000;
    let least = (rate / 80).clamp(256 << 10, 4 << 20);
    (bytes as usize).clamp(least as usize, 64 << 20)
}

impl ThreadHandle {
    fn start(
        ways: Vec<LinkDirection>,
        wait: ReleaseWait,
        all: usize,
        cpu: Option<usize>,
        lag: Nanos,
    ) -> Result<ThreadHandle> {
        let op = "start a thread that moves packets";
        let bell = Arc::new(Bell::new().map_err(|e| Error::setup(op, e))?);
        let (orders, taken) = mpsc::channel();
        let name = ways
            .first()
            .map_or_else(String::new, |way| format!("link{} {}", way.link, way.direction));
        let origin = Monotonic.now();
        let worker =
            Worker { ways, all, orders: taken, bell: Arc::clone(&bell), wait, lag, origin };
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                // If the kernel refuses, the scheduler places the thread.
                let _ = cpu.map(pin);
                worker.run()
            })
            .map_err(|e| Error::setup(op, e))?;
        Ok(ThreadHandle { orders: Some(orders), bell, thread: Some(thread) })
    }

    /// Sends an order; a thread that is gone is noticed because it does not answer.
    fn tell(&self, order: ThreadOrder) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
        self.bell.ring();
    }

    /// Returns the error with which the thread has ended.
    fn failure(&mut self) -> Error {
        let ended = self.thread.take().map(JoinHandle::join);
        let source = match ended {
            Some(Ok(Err(error))) => error,
            Some(Ok(Ok(())) | Err(_)) | None => io::Error::other("the thread has ended"),
        };
        Error::setup_advice(
            "move packets between the hosts",
            source,
            "a device of the emulated path may have been deleted; start the path again",
        )
    }
}

impl Drop for ThreadHandle {
    fn drop(&mut self) {
        drop(self.orders.take());
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // Its failure was reported, or no caller needed it.
            let _ = thread.join();
        }
    }
}

/// Direction of a link, with its ports.
struct LinkDirection {
    link: usize,
    direction: Direction,
    lane: Pipeline,
    from: Arc<dyn Port>,
    to: Arc<dyn Port>,
    /// Number of packets that the device had lost when this trial began.
    missed: u64,
    /// Arrival time of the frame that woke the thread, until it is read.
    since: Option<Nanos>,
}

/// `CLOCK_MONOTONIC` relative to the start of a trial.
#[derive(Clone, Copy)]
struct ClockSince(Nanos);

impl Clock for ClockSince {
    #[inline]
    fn now(&self) -> Nanos {
        Monotonic.now() - self.0
    }
}

impl LinkDirection {
    /// Releases packets that are due and reads queued frames; returns true if there were any. It ends at
    /// once where there is no frame to read and no packet is due.
    fn turn(&mut self, clock: ClockSince, may_have_frame: bool) -> io::Result<bool> {
        let (mut busy, mut now) = (false, Nanos::ZERO);
        if !may_have_frame
            && self.since.is_none()
            && self.lane.next().is_none_or(|due| due > clock.now())
        {
            return Ok(false);
        }
        if let Some(since) = self.since.take()
            && let Some(len) = self.from.read(self.lane.landing())?
        {
            busy = true;
            self.lane.arrive(since, len, &*self.from);
        }
        for _ in 0..RELEASES {
            now = clock.now();
            if self.lane.release(now, &clock, &*self.to)? == 0 {
                break;
            }
            busy = true;
        }
        for _ in 0..FRAMES {
            let Some(len) = self.from.read(self.lane.landing())? else { break };
            busy = true;
            // The frame was there before the call that read it.
            self.lane.arrive(now, len, &*self.from);
            now = clock.now();
            if self.lane.next().is_some_and(|due| due <= now) {
                break;
            }
        }
        Ok(busy)
    }

    fn begin(&mut self, seed: u64, observer: Option<Box<Observer>>) -> io::Result<Result<()>> {
        for _ in 0..STALE {
            if self.from.read(self.lane.landing())?.is_none() {
                break;
            }
        }
        self.missed = self.from.drops();
        self.lane.observe(observer);
        Ok(self.lane.begin(Place { seed, link: self.link as u16, direction: self.direction }))
    }

    fn figures(&self) -> DirectionFigures {
        let mut figures = self.lane.figures();
        figures.device_drops += self.from.drops().saturating_sub(self.missed);
        figures
    }
}

/// State of one thread.
struct Worker {
    ways: Vec<LinkDirection>,
    /// Number of directions of all threads.
    all: usize,
    orders: Receiver<ThreadOrder>,
    bell: Arc<Bell>,
    wait: ReleaseWait,
    /// Least wake-up time of the thread.
    lag: Nanos,
    origin: Nanos,
}

impl Worker {
    /// Moves packets until the other end of its orders is gone, or a port fails.
    fn run(mut self) -> io::Result<()> {
        go_first();
        let ports: Vec<Arc<dyn Port>> = self.ways.iter().map(|way| Arc::clone(&way.from)).collect();
        let fds: Vec<BorrowedFd<'_>> = ports.iter().map(|port| port.fd()).collect();
        let mut sleeper = Sleeper::new(&self.bell, &fds)?;
        let linger = if self.wait == ReleaseWait::Sleep { Nanos::ZERO } else { LINGER };
        let mut last = Nanos::ZERO;
        loop {
            match self.orders.try_recv() {
                Ok(order) => {
                    self.carry_out(order)?;
                    // The time belongs to the clock before, if the order was a beginning.
                    last = Nanos::ZERO;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
            let clock = ClockSince(self.origin);
            let mut busy = false;
            sleeper.look()?;
            for (at, way) in self.ways.iter_mut().enumerate() {
                busy |= way.turn(clock, sleeper.may_have_frame(at))?;
            }
            let now = clock.now();
            if busy {
                last = now;
                continue;
            }
            let due = self.ways.iter().filter_map(|way| way.lane.next()).min();
            match plan(now, due, self.wait) {
                Plan::Due => {}
                Plan::ClockOnly => while due.is_some_and(|due| clock.now() < due) {},
                Plan::Sleep(to) if now - last >= linger => self.sleep(&mut sleeper, now, to)?,
                _ if self.wait == ReleaseWait::Hybrid => std::thread::yield_now(),
                _ => {}
            }
        }
    }

    /// Sleeps from `now` on, at most until `to`.
    fn sleep(&mut self, sleeper: &mut Sleeper, now: Nanos, to: Nanos) -> io::Result<()> {
        if sleeper.sleep(&self.bell, to - now)? == WakeReason::Port {
            let woken = ClockSince(self.origin).now();
            for (at, way) in self.ways.iter_mut().enumerate() {
                // The frame that woke this thread arrived before the wake-up, and after the thread fell asleep.
                way.since = sleeper.has_frame(at).then(|| (woken - self.lag).max(now));
                // A frame may be left to read anyway; a port with nothing but an error would wake this thread for
                // ever.
                let clock = ClockSince(self.origin);
                if sleeper.has_failed(at) && !way.turn(clock, true)? {
                    return Err(io::Error::other(
                        "a device reported an error and had no more frames",
                    ));
                }
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, order: ThreadOrder) -> io::Result<()> {
        // The sender of the order may be gone meanwhile.
        match order {
            ThreadOrder::Begin { seed, origin, observation, done } => {
                self.origin = origin;
                for way in &mut self.ways {
                    let begun = match Observer::new(&observation, self.all) {
                        Ok(observer) => way.begin(seed, observer)?,
                        Err(error) => Err(error),
                    };
                    let _ = done.send(begun);
                }
            }
            ThreadOrder::TakeLogs { done } => {
                let taken = self
                    .ways
                    .iter_mut()
                    .filter_map(|way| Some((way.link, way.direction, way.lane.take_log()?)));
                let _ = done.send(taken.collect());
            }
            ThreadOrder::Tell { done } => {
                let told = self.ways.iter().map(|way| (way.link, way.direction, way.figures()));
                let _ = done.send(told.collect());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
    use std::sync::atomic::{AtomicI32, Ordering};

    use super::*;
    use crate::emulated::testing::datagrams;
    use crate::network::{Link, Rate};
    use crate::trace::{Content, Step, Trace};

    /// End of a pair of sockets that preserve message boundaries; the other end is a host's device.
    struct Wire {
        socket: Socket,
        failure: Arc<AtomicI32>,
    }

    struct Socket(OwnedFd);

    impl Socket {
        /// Creates a connected pair that gives up after a minute.
        fn pair() -> [Socket; 2] {
            let mut fds = [0; 2];
            // SAFETY: the pointer is to two descriptors.
            let done = unsafe {
                libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, fds.as_mut_ptr())
            };
            assert_eq!(done, 0);
            // SAFETY: the descriptors are fresh and have no other owner.
            fds.map(|fd| Socket(unsafe { OwnedFd::from_raw_fd(fd) }))
        }

        fn send(&self, bytes: &[u8]) -> io::Result<()> {
            // SAFETY: the pointer and length describe a live slice.
            let done = unsafe {
                libc::send(
                    self.0.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        }

        fn receive(&self, room: &mut [u8], flags: i32) -> io::Result<usize> {
            // SAFETY: the pointer and length describe a live slice.
            let got = unsafe {
                libc::recv(self.0.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), flags)
            };
            usize::try_from(got).map_err(|_| io::Error::last_os_error())
        }
    }

    impl Port for Wire {
        fn fd(&self) -> BorrowedFd<'_> {
            self.socket.0.as_fd()
        }

        fn read(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
            let failure = self.failure.load(Ordering::Relaxed);
            if failure != 0 {
                return Err(io::Error::from_raw_os_error(failure));
            }
            match self.socket.receive(room, libc::MSG_DONTWAIT) {
                // The end of the stream: the host is gone.
                Ok(0) => Ok(None),
                Ok(len) => Ok(Some(len)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
                Err(e) => Err(e),
            }
        }

        fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
            let frame: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            self.socket.send(&frame)
        }

        fn drops(&self) -> u64 {
            7
        }
    }

    struct Hosts {
        forwarder: Forwarder,
        near: Socket,
        far: Socket,
        failure: Arc<AtomicI32>,
    }

    fn network(model: Impairments, wait: ReleaseWait) -> Network {
        let links = vec![Link { up: model.clone(), down: model, ..Link::default() }];
        Network { wait, ..Network::between_two(links) }
    }

    fn hosts(delay: Nanos, wait: ReleaseWait) -> Hosts {
        let failure = Arc::new(AtomicI32::new(0));
        let ([near, a], [far, b]) = (Socket::pair(), Socket::pair());
        let wire =
            |socket| -> Box<dyn Port> { Box::new(Wire { socket, failure: Arc::clone(&failure) }) };
        let network = network(Impairments { delay, ..Impairments::default() }, wait);
        let forwarder =
            Forwarder::start(&network, vec![[wire(a), wire(b)]], SenderCpus::Any).unwrap();
        Hosts { forwarder, near, far, failure }
    }

    #[test]
    fn frames_cross_both_ways_no_earlier_than_the_delay() {
        let mut room = vec![0; 70_000];
        for wait in [ReleaseWait::Hybrid, ReleaseWait::Spin, ReleaseWait::Sleep] {
            let delay = Nanos::from_millis(2);
            let mut hosts = hosts(delay, wait);
            hosts.forwarder.begin(1).unwrap();
            let frame = datagrams(30, 1_000, 10);
            for (from, to) in [(&hosts.near, &hosts.far), (&hosts.far, &hosts.near)] {
                let sent = Monotonic.now();
                for _ in 0..3 {
                    from.send(&frame).unwrap();
                }
                for _ in 0..3 {
                    let len = to.receive(&mut room, 0).unwrap();
                    assert!(room[..len] == frame);
                    assert!(Monotonic.now() - sent >= delay);
                }
            }
            let figures = hosts.forwarder.end().unwrap();
            for way in [&figures.links[0].up, &figures.links[0].down] {
                let fates = &way.fates;
                assert_eq!((fates.arrived, fates.delivered, fates.waiting), (90, 90, 0));
                assert_eq!((way.writes, way.device_drops), (3, 0));
                assert_eq!(way.lateness_ns.as_ref().unwrap().n, 3);
            }
            hosts.forwarder.begin(2).unwrap();
            assert_eq!(hosts.forwarder.end().unwrap().links[0].up.fates.arrived, 0);
        }
    }

    #[test]
    fn a_beginning_throws_away_what_is_under_way() {
        let mut hosts = hosts(Nanos::from_secs(3_600), ReleaseWait::Hybrid);
        hosts.forwarder.begin(1).unwrap();
        hosts.near.send(&datagrams(3, 100, 100)).unwrap();
        while hosts.forwarder.end().unwrap().links[0].up.fates.waiting != 3 {}
        hosts.forwarder.begin(1).unwrap();
        let fates = hosts.forwarder.end().unwrap().links[0].up.fates;
        assert_eq!((fates.arrived, fates.waiting), (0, 0));
    }

    #[test]
    fn a_device_that_fails_is_reported_and_so_is_one_that_ends() {
        let mut first = hosts(Nanos::ZERO, ReleaseWait::Hybrid);
        first.failure.store(libc::EBADFD, Ordering::Relaxed);
        first.near.send(b"x").unwrap();
        let said = first.forwarder.begin(1).unwrap_err().to_string();
        assert!(said.contains("move packets") && said.contains("deleted"), "{said}");
        assert!(first.forwarder.end().is_err());

        let Hosts { mut forwarder, near, far, .. } = hosts(Nanos::ZERO, ReleaseWait::Hybrid);
        drop((near, far));
        // The thread sleeps until it notices, and answers until then.
        while forwarder.end().is_ok() {}
    }

    #[test]
    fn as_many_pairs_of_ports_as_links() {
        let network = network(Impairments::default(), ReleaseWait::Hybrid);
        let refused = Forwarder::start(&network, Vec::new(), SenderCpus::Any).err().unwrap();
        assert!(refused.to_string().contains("1 links need as many pairs of ports: 0"));
    }

    #[test]
    fn packets_go_one_by_one_unless_the_rate_is_high() {
        let step = |rate| Step { from: Nanos::ZERO, rate: BitRate(rate), delay: None, loss: None };
        let trace = |rate| {
            let content = Content::Steps(vec![step(1), step(rate)]);
            let (file, sha256) = (String::new(), String::new());
            Rate::Trace(Arc::new(Trace { file, sha256, length: Nanos::from_secs(1), content }))
        };
        for (rate, wanted) in [
            (Rate::Unlimited, Grouping::Strict),
            (Rate::Fixed(BitRate(2_000_000_000)), Grouping::Strict),
            (Rate::Fixed(BitRate(2_000_000_001)), Grouping::Aggregate),
            (trace(1_000), Grouping::Strict),
            (trace(3_000_000_000), Grouping::Aggregate),
        ] {
            let model = Impairments { rate, ..Impairments::default() };
            let mut network = network(model, ReleaseWait::Hybrid);
            assert_eq!(grouping_for(&network), wanted);
            network.grouping = Some(Grouping::Strict);
            assert_eq!(grouping_for(&network), Grouping::Strict);
        }
    }
}
