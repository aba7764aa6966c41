//! Messages inside one process, for tests. [`Mem`] and [`LossyMem`] are ordinary transports, between threads; [`pair`]
//! makes a connection in virtual time, in which a test decides the fate of each message and moves the clock to
//! [`MemConn::next_arrival`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub use conn::MemConn;
use conn::{Full, Time, connect};

use super::hello::{Hello, Token};
use super::*;
use deadheat_base::error::Error;
use deadheat_base::rng::{STEP, first};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::time::Manual;
use deadheat_contract::contract::{Congestion, Delivery, Framing, Ordering, Service};

mod conn;

/// Largest message in bytes, as long as the largest datagram.
const LARGEST: u64 = 65_507;

/// Most messages under way in one direction.
const ROOM: usize = 256;

/// Fate of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Lost.
    Lost,
    /// Delivered after this delay.
    After(Nanos),
    /// Delivered twice, after these delays.
    Twice(Nanos, Nanos),
}

/// Function that decides the fate of each message by its number, from 0. Without delays nothing is reordered.
pub type Fates = Box<dyn FnMut(u64) -> Fate + Send>;

/// Returns fates that lose each message with a probability of `per_mille` thousandths, the same messages for the same
/// seed.
pub fn losing(per_mille: u64, seed: u64) -> Fates {
    Box::new(move |number| {
        let drawn = first(seed ^ number.wrapping_mul(STEP));
        if drawn % 1000 < per_mille { Fate::Lost } else { Fate::After(Nanos::ZERO) }
    })
}

/// Creates a connection in virtual time, near end and far end, with the fates of messages towards the far end and
/// towards the near end. No call waits; a receive returns the messages that are due at `clock`.
pub fn pair(clock: &Manual, up: Fates, down: Fates) -> (MemConn, MemConn) {
    connect(Time::Virtual(clock.clone()), Full::Waits, up, down)
}

/// Reliable, ordered messages between threads.
pub struct Mem;

/// Messages between threads of which some are lost, and more if the receiver is slow.
pub struct LossyMem;

static MEM: Info = Info {
    id: "mem",
    label: "memory",
    colour: "#5b6770",
    implementation: "deadheat",
    summary: "reliable messages between threads, for tests",
    guarantees: Guarantees {
        framing: Framing::Messages,
        congestion: Congestion::Backpressure,
        largest_message: Some(LARGEST),
        ..Guarantees::BYTE_STREAM
    },
    reach: Reach::Process,
    ..Info::KERNEL
};

static LOSSY: Info = Info {
    id: "mem-lossy",
    label: "lossy memory",
    summary: "messages between threads that may get lost, for tests",
    guarantees: Guarantees {
        service: Service { delivery: Delivery::BestEffort, ordering: Ordering::Ordered },
        framing: Framing::Messages,
        congestion: Congestion::Uncontrolled,
        largest_message: Some(LARGEST),
        ..Guarantees::BYTE_STREAM
    },
    keys: &[LOSS.key(), SEED.key()],
    ..MEM
};

const LOSS: Preset<u64> =
    Optional::count("loss", (0, 1000)).or("100").doc("messages lost in a thousand, each way");

const SEED: Preset<u64> =
    Optional::count("seed", (0, u64::MAX)).or("1").doc("decides which messages are lost");

impl Transport for Mem {
    fn info(&self) -> &'static Info {
        &MEM
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let fates = || losing(0, 0);
        send_hello(dial, connect(Time::Real, Full::Waits, fates(), fates()))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        Ok(Box::new(MemListener::open(&listen)?))
    }
}

impl Transport for LossyMem {
    fn info(&self) -> &'static Info {
        &LOSSY
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let loss = dial.knobs.get(&LOSS);
        let seed = dial.knobs.get(&SEED);
        let (up, down) = (losing(loss, seed), losing(loss, !seed));
        send_hello(dial, connect(Time::Real, Full::Drops, up, down))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        Ok(Box::new(MemListener::open(&listen)?))
    }
}

/// Next slot for a listener without a slot of its own; no slot is used twice, so no dial reaches a later listener by
/// mistake.
static NEXT: AtomicU64 = AtomicU64::new(1 << 32);

/// Listeners in this process, by slot.
static SLOTS: Mutex<BTreeMap<u64, Arc<Slot>>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Slot {
    token: Token,
    queue: Mutex<Queue>,
    queued: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    guests: VecDeque<(u16, MemConn)>,
    strangers: u64,
}

/// Passes the far end to the listener at the address of `dial`, and returns the near end.
fn send_hello(dial: &Dial<'_>, (near, far): (MemConn, MemConn)) -> Result<Box<dyn Conn>> {
    let Address::Process(number) = dial.to else {
        return Err(Error::usage(format!("a slot of this process is needed, not `{}`", dial.to)));
    };
    let slot = lock(&SLOTS).get(number).cloned();
    let Some(slot) = slot else {
        return Err(Error::blocked(format!("nobody listens at {}", dial.to)));
    };
    let Hello { token, flow } = dial.hello;
    let mut queue = lock(&slot.queue);
    if token != slot.token {
        queue.strangers += 1;
        return Err(Error::blocked(format!("{} answered nothing to 1 hello", dial.to)));
    }
    queue.guests.push_back((flow, far));
    slot.queued.notify_one();
    Ok(Box::new(near))
}

struct MemListener {
    number: u64,
    slot: Arc<Slot>,
}

impl MemListener {
    fn open(listen: &Listen<'_>) -> Result<MemListener> {
        let Address::Process(asked) = *listen.at else {
            let what = format!("a slot of this process is needed, not `{}`", listen.at);
            return Err(Error::usage(what));
        };
        let mut slots = lock(&SLOTS);
        let number = match asked {
            0 => NEXT.fetch_add(1, Relaxed),
            asked => asked,
        };
        if slots.contains_key(&number) {
            let taken = std::io::Error::from(std::io::ErrorKind::AddrInUse);
            return Err(Error::setup(format!("listen at process:{number}"), taken));
        }
        let queue = Mutex::default();
        let slot = Arc::new(Slot { token: listen.token, queue, queued: Condvar::new() });
        slots.insert(number, Arc::clone(&slot));
        Ok(MemListener { number, slot })
    }
}

impl Drop for MemListener {
    fn drop(&mut self) {
        lock(&SLOTS).remove(&self.number);
    }
}

impl Listener for MemListener {
    fn endpoint(&self) -> Address {
        Address::Process(self.number)
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let queue = lock(&self.slot.queue);
        let (mut queue, _) = self
            .slot
            .queued
            .wait_timeout_while(queue, timeout.into(), |queue| queue.guests.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        match queue.guests.pop_front() {
            Some((flow, conn)) => Ok((flow, Box::new(conn))),
            None => Err(Error::blocked(format!(
                "no hello with this trial's token reached {} within {timeout}; {} others did",
                self.endpoint(),
                queue.strangers
            ))),
        }
    }
}

/// Locks a queue. A panic in another thread leaves the queues usable: every change to them is
/// complete.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::spec::Spec;
    use deadheat_base::time::Clock;

    const HELLO: Hello = Hello { token: Token::from_bytes([8; 16]), flow: 4 };
    const SECOND: Nanos = Nanos::from_secs(1);

    #[derive(Default)]
    struct Kept(Vec<Vec<u8>>);

    impl Inbox for Kept {
        fn message(&mut self, _: Lane, bytes: &[u8]) {
            self.0.push(bytes.to_vec());
        }
    }

    impl Sink for Kept {
        fn take(&mut self, bytes: &[u8]) {
            self.0.push(bytes.to_vec());
        }
        fn pass(&mut self, _: u64) {
            panic!("messages are never passed by");
        }
    }

    struct Numbered {
        left: u64,
        next: u8,
    }

    impl Source for Numbered {
        fn budget(&self) -> u64 {
            self.left
        }
        fn message_size(&self) -> usize {
            10
        }
        fn call_size(&self) -> usize {
            10
        }
        fn stamp(&mut self, message: &mut [u8]) {
            message[0] = self.next;
            self.next = self.next.wrapping_add(1);
        }
        fn accepted(&mut self, bytes: u64) {
            self.left -= bytes;
        }
    }

    fn open(transport: &dyn Transport, spec: &str) -> (Box<dyn Conn>, Box<dyn Conn>) {
        let spec = Spec::parse(spec).unwrap();
        let knobs = Settings::check(&spec, transport.info().keys).unwrap();
        let at = Address::Process(0);
        let mut listener = transport
            .listen(Listen {
                at: &at,
                token: HELLO.token,
                knobs: &knobs,
                lanes: &[Service::ORDERED],
                largest_message: 10,
                door: ConnectionSource::Own,
                tickets: crate::transport::Tickets::default(),
            })
            .unwrap();
        let to = listener.endpoint();
        let dial = |hello| {
            let knobs = &knobs;
            transport.dial(&Dial {
                to: &to,
                hello,
                knobs,
                lanes: &[Service::ORDERED],
                largest_message: 10,
                timeout: SECOND,
                tickets: &crate::transport::Tickets::default(),
            })
        };
        let stranger = Hello { token: Token::from_bytes([9; 16]), flow: 0 };
        assert!(matches!(dial(stranger), Err(Error::Blocked { .. })));
        let near = dial(HELLO).unwrap();
        let (flow, far) = listener.accept(SECOND).unwrap();
        assert_eq!(flow, HELLO.flow);
        let nobody = listener.accept(Nanos::ZERO).err().unwrap().to_string();
        assert!(nobody.contains("1 others did"), "{nobody}");
        drop(listener);
        assert!(matches!(dial(HELLO), Err(Error::Blocked { .. })));
        (near, far)
    }

    #[test]
    fn bulk_between_threads_is_ordered_complete_and_held_back() {
        let (mut near, mut far) = open(&Mem, "mem");
        let total = 10 * (ROOM as u64 + 5_000);
        let sender = std::thread::spawn(move || {
            let mut source = Numbered { left: total, next: 0 };
            while source.left > 0 {
                near.pump(&mut source).unwrap();
            }
            near.finish().unwrap();
            near
        });
        let mut kept = Kept::default();
        while far.drain(Patience::Block, &mut kept).unwrap() != Progress::Closed {}
        assert_eq!(kept.0.len() as u64, total / 10);
        assert!(kept.0.iter().enumerate().all(|(n, message)| message[0] == n as u8));
        drop(sender.join().unwrap());
        assert_eq!(far.info().stats.socket_drops, Some(0));
    }

    #[test]
    fn a_full_wire_takes_nothing_and_a_lossy_one_drops() {
        let (mut near, mut far) = open(&Mem, "mem");
        for _ in 0..ROOM {
            assert_eq!(near.send(Lane::default(), b"x").unwrap(), Progress::Moved);
        }
        assert_eq!(near.send(Lane::default(), b"x").unwrap(), Progress::Idle);
        far.receive(Patience::None, &mut Kept::default()).unwrap();
        assert_eq!(near.send(Lane::default(), b"x").unwrap(), Progress::Moved);

        let (mut near, far) = open(&LossyMem, "mem-lossy:loss=0");
        for _ in 0..ROOM + 3 {
            assert_eq!(near.send(Lane::default(), b"x").unwrap(), Progress::Moved);
        }
        assert_eq!(far.info().stats.socket_drops, Some(3));
    }

    #[test]
    fn loss_is_as_asked_and_repeats() {
        let lost = |per_mille| -> Vec<u64> {
            let mut fates = losing(per_mille, 7);
            (0..10_000).filter(|n| fates(*n) == Fate::Lost).collect()
        };
        assert!((900..1_100).contains(&lost(100).len()), "{}", lost(100).len());
        assert_eq!(lost(100), lost(100));
        assert_eq!((lost(0).len(), lost(1_000).len()), (0, 10_000));
    }

    #[test]
    fn virtual_time_delivers_when_it_is_due_and_never_waits() {
        let clock = Manual::default();
        let ms = Nanos::from_millis;
        let up = Box::new(move |number| match number {
            0 => Fate::After(ms(30)),
            1 => Fate::After(ms(10)),
            2 => Fate::Lost,
            _ => Fate::Twice(ms(20), ms(40)),
        });
        let (mut near, mut far) = pair(&clock, up, losing(0, 0));
        for message in [b"a", b"b", b"c", b"d"] {
            near.send(Lane::default(), message).unwrap();
        }
        near.finish().unwrap();
        let mut seen = Vec::new();
        while let Some(at) = far.next_arrival() {
            let mut kept = Kept::default();
            assert_eq!(far.receive(Patience::Block, &mut kept).unwrap(), Progress::Idle);
            clock.advance_to(at);
            assert_eq!(far.receive(Patience::Block, &mut kept).unwrap(), Progress::Moved);
            seen.push((clock.now(), kept.0[0][0]));
        }
        assert_eq!(seen, [(ms(10), b'b'), (ms(20), b'd'), (ms(30), b'a'), (ms(40), b'd')]);
        let end = far.receive(Patience::Block, &mut Kept::default()).unwrap();
        assert_eq!(end, Progress::Closed);
    }

    #[test]
    fn a_dropped_end_closes_the_other() {
        let (near, mut far) = open(&Mem, "mem");
        drop(near);
        assert_eq!(far.receive(Patience::Block, &mut Kept::default()).unwrap(), Progress::Closed);
    }
}
