//! The far endpoint: sends each question back, with two stamps of its own clock, after the think time of the settings.

use std::collections::VecDeque;

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Action, Lane};
use deadheat_contract::measurements::Tally;

use super::PingTask;
use deadheat_contract::workload::header::{Arrival, FarStamps, Header, SeqWindow, count};
use deadheat_contract::workload::{Endpoint, EndpointReport, FlowEvent, Standing};

/// An answer that waits for its think time to end.
struct DelayedAnswer {
    lane: Lane,
    received: Nanos,
    due: Nanos,
    bytes: Vec<u8>,
}

pub(super) struct Reflector {
    size: usize,
    think: Nanos,
    tag: u32,
    /// Number of the first question after the warm-up; earlier ones are in no figure.
    warmup: u64,
    queue: VecDeque<DelayedAnswer>,
    /// Buffers of answers that have been sent, for use again: after the warm-up the reflector allocates nothing.
    spare: Vec<Vec<u8>>,
    seen: SeqWindow,
    sent: Tally,
    received: Tally,
    peer_finished: bool,
}

/// Maximum number of bytes that may wait. If a peer sends faster than this end answers, further questions are dropped
/// and counted, so that this process does not run out of memory.
const MOST_WAITING: usize = 64 << 20;

impl Reflector {
    pub(super) fn new(task: &PingTask, tag: u32) -> Reflector {
        let size = task.size;
        Reflector {
            size,
            think: task.think,
            tag,
            warmup: task.warmup,
            queue: VecDeque::with_capacity(64),
            spare: (0..64).map(|_| Vec::with_capacity(size)).collect(),
            seen: SeqWindow::new(),
            sent: Tally::default(),
            received: Tally::default(),
            peer_finished: false,
        }
    }
}

impl Endpoint for Reflector {
    fn poll(&mut self, now: Nanos, out: &mut [u8]) -> Action {
        match self.queue.front() {
            Some(answer) if answer.due <= now => {
                let message = &mut out[..answer.bytes.len()];
                message.copy_from_slice(&answer.bytes);
                FarStamps::of_ours(answer.received.0, now.0).write(message);
                Action::Send { lane: answer.lane, len: answer.bytes.len() }
            }
            Some(answer) => Action::Wait(Some(answer.due)),
            None if self.peer_finished => Action::Done,
            None => Action::Wait(None),
        }
    }

    fn on_sent(&mut self, _now: Nanos) {
        if let Some(mut answer) = self.queue.pop_front() {
            if Header::read(&answer.bytes).is_some_and(|header| header.seq >= self.warmup) {
                self.sent.messages += 1;
                self.sent.bytes += answer.bytes.len() as u64;
            }
            answer.bytes.clear();
            self.spare.push(answer.bytes);
        }
    }

    fn on_message(&mut self, now: Nanos, lane: Lane, bytes: &[u8]) {
        let Some(Header { tag, seq }) = Header::read(bytes) else {
            self.received.foreign += 1;
            return;
        };
        if tag != self.tag || bytes.len() > self.size {
            self.received.foreign += 1;
            return;
        }
        let arrival = self.seen.note(seq);
        if seq >= self.warmup {
            count(&mut self.received, arrival, bytes.len());
        }
        let full = self.queue.len().saturating_mul(self.size) > MOST_WAITING;
        // A copy gets no second answer: the reflector must not multiply the path's duplicates.
        if arrival == Arrival::Duplicate || full {
            return;
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(bytes);
        self.queue.push_back(DelayedAnswer {
            lane,
            received: now,
            due: now + self.think,
            bytes: kept,
        });
    }

    fn on_event(&mut self, _now: Nanos, event: FlowEvent) {
        match event {
            FlowEvent::Closed => {
                self.peer_finished = true;
                self.queue.clear();
            }
            FlowEvent::PeerFinished { .. } => self.peer_finished = true,
            FlowEvent::Opened { .. } | FlowEvent::Drained => {}
        }
    }

    fn has_sent_all(&self) -> bool {
        self.peer_finished && self.queue.is_empty()
    }

    fn standing(&mut self, _now: Nanos) -> Standing {
        Standing { sent: self.sent, received: self.received, ..Standing::default() }
    }

    fn report(&mut self, _now: Nanos) -> EndpointReport {
        EndpointReport { sent: self.sent, received: self.received, ..EndpointReport::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::spec::{Settings, Spec};
    use deadheat_contract::workload::Setting;

    fn reflector(think: u64, warmup: u64) -> Reflector {
        let spec = Spec::parse(&format!("ping:warmup={warmup}")).unwrap();
        let settings = Settings::check(&spec, super::super::KEYS).unwrap();
        let task = PingTask::new(settings, &Setting::LOOPBACK).unwrap();
        Reflector { think: Nanos(think), ..Reflector::new(&task, 7) }
    }

    #[test]
    fn the_first_questions_are_answered_and_not_counted() {
        let mut reflector = reflector(0, 2);
        let mut out = [0; 64];
        for seq in 0..5 {
            reflector.on_message(Nanos(seq), Lane(0), &question(seq));
            assert!(matches!(reflector.poll(Nanos(seq), &mut out), Action::Send { .. }));
            reflector.on_sent(Nanos(seq));
        }
        let report = reflector.report(Nanos(9));
        assert_eq!((report.received.messages, report.sent.messages), (3, 3));
    }

    fn question(seq: u64) -> [u8; 64] {
        let mut message = [0; 64];
        Header { tag: 7, seq }.write(&mut message);
        message
    }

    #[test]
    fn an_answer_carries_both_stamps_and_waits_for_its_time() {
        let mut reflector = reflector(500, 0);
        let mut out = [0; 64];
        assert_eq!(reflector.poll(Nanos(1), &mut out), Action::Wait(None));
        reflector.on_message(Nanos(100), Lane(0), &question(0));
        assert_eq!(reflector.poll(Nanos(100), &mut out), Action::Wait(Some(Nanos(600))));
        assert_eq!(reflector.poll(Nanos(601), &mut out), Action::Send { lane: Lane(0), len: 64 });
        assert_eq!(FarStamps::read(&out), Some(FarStamps::of_ours(100, 601)));
        reflector.on_sent(Nanos(601));
        assert_eq!(reflector.report(Nanos(700)).sent.messages, 1);
    }

    #[test]
    fn copies_and_strangers_get_no_answer() {
        let mut reflector = reflector(0, 0);
        for message in [&question(0)[..], &question(0), b"x", &[0; 64], &[7; 100]] {
            reflector.on_message(Nanos(1), Lane(0), message);
        }
        assert_eq!(reflector.queue.len(), 1);
        let got = reflector.report(Nanos(2)).received;
        assert_eq!((got.messages, got.duplicates, got.foreign), (1, 1, 3));
    }

    #[test]
    fn it_is_done_when_the_near_end_is_and_nothing_waits() {
        let mut reflector = reflector(10, 0);
        let mut out = [0; 64];
        reflector.on_message(Nanos(0), Lane(0), &question(0));
        reflector.on_event(Nanos(1), FlowEvent::PeerFinished { sent: Tally::default() });
        assert_eq!(reflector.poll(Nanos(1), &mut out), Action::Wait(Some(Nanos(10))));
        assert!(matches!(reflector.poll(Nanos(10), &mut out), Action::Send { .. }));
        reflector.on_sent(Nanos(10));
        assert_eq!(reflector.poll(Nanos(11), &mut out), Action::Done);
    }
}
