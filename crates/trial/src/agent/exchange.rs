//! Exchange among the flows of one agent that hand on to each other what they receive.
//!
//! Each flow has a bounded queue of each class, allocated before the trial starts, and a waker that wakes it when a queue is
//! no longer empty: a bell for its thread, a flag in virtual time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deadheat_base::bell::Bell;
use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::Exchange;

/// Bytes in front of each message in a queue: its length.
const PREFIX: usize = size_of::<u32>();

/// Bounded queue of messages.
struct BoundedQueue {
    bytes: VecDeque<u8>,
    most: usize,
}

impl BoundedQueue {
    fn new(most: usize) -> BoundedQueue {
        BoundedQueue { bytes: VecDeque::with_capacity(most), most }
    }

    /// Adds a message, and drops the oldest ones if there is no room. Returns the number of dropped messages, the new one
    /// among them if it never fits.
    fn push(&mut self, message: &[u8]) -> u64 {
        let needed = PREFIX + message.len();
        if needed > self.most {
            return 1;
        }
        let mut dropped = 0;
        while self.bytes.len() + needed > self.most {
            let oldest = self.first_len();
            self.bytes.drain(..(PREFIX + oldest).min(self.bytes.len()));
            dropped += 1;
        }
        self.bytes.extend((message.len() as u32).to_ne_bytes());
        self.bytes.extend(message);
        dropped
    }

    /// Returns the length of the oldest message; 0 if there is none.
    fn first_len(&self) -> usize {
        let mut prefix = [0; PREFIX];
        for (byte, queued) in prefix.iter_mut().zip(&self.bytes) {
            *byte = *queued;
        }
        u32::from_ne_bytes(prefix) as usize
    }

    /// Moves the oldest message into `out`, and returns its length; `None` if there is none, or if it is longer.
    fn pop(&mut self, out: &mut [u8]) -> Option<usize> {
        let len = self.first_len();
        if self.bytes.is_empty() || len > out.len() {
            return None;
        }
        self.bytes.drain(..PREFIX);
        for (byte, queued) in out.iter_mut().zip(self.bytes.drain(..len)) {
            *byte = queued;
        }
        Some(len)
    }
}

/// Means to wake a flow.
pub(crate) trait Waker: Send + Sync {
    /// Wakes the flow, now or as soon as it would wait.
    fn wake(&self);
}

impl Waker for Bell {
    fn wake(&self) {
        self.ring();
    }
}

/// Flag for a flow in virtual time: its world wakes it, and clears the flag.
impl Waker for AtomicBool {
    fn wake(&self) {
        self.store(true, Ordering::Relaxed);
    }
}

/// Queues of one flow, and what wakes it.
struct FlowQueues<W> {
    queues: Vec<Mutex<BoundedQueue>>,
    waker: Arc<W>,
    has_left: AtomicBool,
}

/// Membership of one flow in an exchange.
pub(crate) struct Member<W> {
    all: Arc<Vec<FlowQueues<W>>>,
    own: usize,
}

/// Creates an exchange among this number of flows that bells wake, each with queues of these bytes by class; a member for
/// each flow.
///
/// # Errors
/// [`Error::Setup`] if the kernel refuses a descriptor.
pub(super) fn among_threads(flows: usize, queues: &[usize]) -> Result<Vec<Member<Bell>>> {
    let bell = |_| Bell::new().map_err(|e| Error::setup("make a bell to wake a flow", e));
    Ok(among((0..flows).map(bell).collect::<Result<_>>()?, queues))
}

/// Creates an exchange among the flows of these wakers, each with queues of these bytes by class; a member for each flow.
pub(crate) fn among<W>(wakers: Vec<W>, queues: &[usize]) -> Vec<Member<W>> {
    let one = |waker| FlowQueues {
        queues: queues.iter().map(|most| Mutex::new(BoundedQueue::new(*most))).collect(),
        waker: Arc::new(waker),
        has_left: AtomicBool::new(false),
    };
    let all: Arc<Vec<_>> = Arc::new(wakers.into_iter().map(one).collect());
    (0..all.len()).map(|own| Member { all: Arc::clone(&all), own }).collect()
}

impl<W> Member<W> {
    /// Returns what wakes this flow once a queue of it is no longer empty.
    pub(crate) fn waker(&self) -> Arc<W> {
        Arc::clone(&self.all[self.own].waker)
    }

    fn others(&self) -> impl Iterator<Item = &FlowQueues<W>> {
        let own = self.own;
        self.all.iter().enumerate().filter(move |(flow, _)| *flow != own).map(|(_, one)| one)
    }
}

impl<W: Waker> Exchange for Member<W> {
    fn hand_on(&mut self, class: usize, message: &[u8]) -> u64 {
        let mut lost = 0;
        for other in self.others() {
            let Some(queue) = other.queues.get(class) else { continue };
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            let was_empty = queue.bytes.is_empty();
            lost += queue.push(message);
            drop(queue);
            // A thread takes all that is there before it sleeps, so the first message alone wakes it.
            if was_empty {
                other.waker.wake();
            }
        }
        lost
    }

    fn take(&mut self, class: usize, out: &mut [u8]) -> Option<usize> {
        let queue = self.all[self.own].queues.get(class)?;
        queue.lock().unwrap_or_else(PoisonError::into_inner).pop(out)
    }

    fn leave(&mut self) {
        self.all[self.own].has_left.store(true, Ordering::Release);
        self.others().for_each(|other| other.waker.wake());
    }

    fn is_last(&self) -> bool {
        self.others().all(|other| other.has_left.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::descriptor::ready;
    use deadheat_base::time::Nanos;

    fn is_awake(bell: &Bell) -> bool {
        use std::os::fd::AsFd;
        ready([(bell.as_fd(), libc::POLLIN)], Some(Nanos::ZERO)).unwrap()[0]
    }

    #[test]
    fn a_message_goes_to_all_others_and_wakes_them() {
        let mut members = among_threads(3, &[100, 100]).unwrap();
        let bells: Vec<Arc<Bell>> = members.iter().map(Member::waker).collect();
        assert_eq!(members[0].hand_on(1, b"pose"), 0);
        assert_eq!([0, 1, 2].map(|one| is_awake(&bells[one])), [false, true, true]);
        let mut out = [0; 16];
        assert_eq!(members[0].take(1, &mut out), None);
        assert_eq!(members[1].take(0, &mut out), None);
        assert_eq!(members[1].take(1, &mut out), Some(4));
        assert_eq!(&out[..4], b"pose");
        assert_eq!(members[1].take(1, &mut out), None);
        assert_eq!(members[2].take(1, &mut [0; 3]), None, "it does not fit");
    }

    #[test]
    fn a_full_queue_loses_its_oldest_messages_and_counts_them() {
        let mut members = among_threads(2, &[3 * (PREFIX + 10)]).unwrap();
        let lost: Vec<u64> = (0..5).map(|n| members[0].hand_on(0, &[n; 10])).collect();
        assert_eq!(lost, [0, 0, 0, 1, 1]);
        assert_eq!(members[0].hand_on(0, &[9; 20]), 2);
        assert_eq!(members[0].hand_on(0, &[9; 100]), 1, "it never fits");
        let mut out = [0; 32];
        let mut left = || members[1].take(0, &mut out).map(|len| (len, out[0]));
        assert_eq!([left(), left(), left()], [Some((10, 4)), Some((20, 9)), None]);
    }

    #[test]
    fn the_last_member_is_known_once_all_others_have_left() {
        let mut members = among_threads(3, &[]).unwrap();
        let bell = members[2].waker();
        members[0].leave();
        assert!(is_awake(&bell) && !members[2].is_last());
        members[1].leave();
        assert!(members[2].is_last() && !members[0].is_last());
    }
}
