use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use deadheat_base::rng::SplitMix64;
use deadheat_contract::workload::header::{Header, read_due};

use super::*;
use crate::udp::testing::{is_answer, ping};

/// Tickets of tests: one is good, for a work and a number of bytes.
struct OneTicket(BrowserWork);

/// Bytes of the good ticket.
const MOST: u64 = 1 << 20;

struct OneAccount {
    work: BrowserWork,
    left: AtomicU64,
    /// Time from which more may be sent, in nanoseconds.
    due: AtomicU64,
}

impl Tickets for OneTicket {
    fn admit(&self, ticket: &str, _now: Nanos) -> Result<Arc<dyn TrialAccount>, String> {
        match ticket {
            "good" => Ok(Arc::new(OneAccount { work: self.0, left: MOST.into(), due: 0.into() })),
            _ => Err("no such ticket".to_owned()),
        }
    }
}

impl TrialAccount for OneAccount {
    fn work(&self) -> SeededWork {
        (self.work, 7)
    }

    fn charge(&self, now: Nanos, bytes: [u64; 2]) -> Charged {
        let all = bytes[0] + bytes[1];
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(all), Relaxed);
        // A millisecond for each message out.
        if bytes[0] > 0 {
            self.due.store((now + Nanos::from_millis(1)).0, Relaxed);
        }
        Charged { is_within_sum: all <= left, due: [Nanos(self.due.load(Relaxed)), Nanos::ZERO] }
    }

    fn ends(&self) -> Nanos {
        Nanos::from_secs(60)
    }
}

const NOW: Nanos = Nanos::from_secs(1);

const SETUP: &[u8] = b"{\"ticket\":\"good\"}";

const PING: BrowserWork = BrowserWork::Ping { size: 64, count: 20, interval_ms: 1 };

/// Returns a time of the trial.
fn at(ms: u64) -> Nanos {
    NOW + Nanos::from_millis(ms)
}

/// Returns the far end of a work whose setup was answered, and the time of its start.
fn begun(of: BrowserWork) -> (Work, Nanos) {
    let mut work = Work::new(Arc::new(OneTicket(of)));
    work.received(NOW, SETUP);
    let ready: serde_json::Value = serde_json::from_slice(&work.next(NOW).unwrap()).unwrap();
    assert_eq!(ready["ready"], true);
    (work, Nanos(ready["began_ns"].as_u64().unwrap()))
}

#[test]
fn a_bad_setup_is_refused_by_name() {
    for (setup, why) in [
        ("{\"ticket\":\"bad\"}", "no such ticket"),
        ("hello", "no setup"),
        ("{", "cannot be read"),
        ("{\"ticket\":\"good\",\"more\":1}", "unknown field"),
    ] {
        let mut work = Work::new(Arc::new(OneTicket(PING)));
        work.received(NOW, setup.as_bytes());
        let said = String::from_utf8(work.next(NOW).unwrap()).unwrap();
        assert!(said.contains("refused") && said.contains(why), "{setup}: {said}");
        assert!(work.is_over());
    }
}

#[test]
fn pings_come_back_at_the_rate_and_strangers_do_not() {
    let (mut work, began) = begun(PING);
    assert_eq!(began, NOW);
    work.received(NOW, &ping(1, 60));
    assert_eq!(work.next(NOW), None, "the account allows the next one in a millisecond");
    let due = work.due().unwrap();
    assert_eq!(due, at(1));
    assert!(is_answer(&work.next(due).unwrap(), &ping(1, 60)));
    assert_eq!((work.next(due + due), work.due()), (None, None));
    // A setup that comes again has the same answer.
    work.received(due, SETUP);
    assert!(work.next(due + due).unwrap().starts_with(b"{\"began_ns\":1000000000"));
    work.received(due, b"\x02\x01");
    assert_eq!(work.next(due + due), None);
}

#[test]
fn updates_leave_at_their_times_and_have_an_end() {
    let (mut work, began) = begun(BrowserWork::State { hz: 100, size: 20, count: 20 });
    assert!(began >= NOW && began < at(10), "the phase is random");
    for seq in 0..20 {
        let due = began + Nanos::from_millis(10 * seq);
        assert_eq!((work.next(due - Nanos(1)), work.due()), (None, Some(due)));
        let update = work.next(due).unwrap();
        assert_eq!(Header::read(&update), Some(Header { tag: 0, seq }));
        assert_eq!((read_due(&update), update.len()), (Some(due), 20));
    }
    assert_eq!(work.next(at(400)).unwrap(), b"{\"sent\":20}");
    assert_eq!((work.next(at(401)), work.due()), (None, None));
}

#[test]
fn an_update_that_cannot_leave_on_time_is_skipped_and_an_event_is_not() {
    let sent = |work| {
        let (mut work, began) = begun(work);
        let late = began + Nanos::from_millis(300);
        (0..).filter_map(|ms| work.next(late + Nanos::from_millis(ms))).find(|own| own[0] == b'{')
    };
    let state = sent(BrowserWork::State { hz: 100, size: 20, count: 50 }).unwrap();
    assert_ne!(state, b"{\"sent\":50}", "{}", String::from_utf8_lossy(&state));
    let events = sent(BrowserWork::Events { hz: 1_000, size: 20, count: 50 }).unwrap();
    assert_eq!(events, b"{\"sent\":50}");
}

#[test]
fn bulk_data_is_counted_both_ways_and_ends_with_the_ticket() {
    let (mut down, _) = begun(BrowserWork::Down { bytes: 20_000 });
    let lens = [1, 2].map(|ms| down.next(at(ms)).unwrap().len());
    assert_eq!(lens, [CHUNK, 20_000 - CHUNK]);
    assert_eq!(down.next(at(4)).unwrap(), b"{\"sent\":20000}");
    let (mut up, _) = begun(BrowserWork::Up { bytes: 1_006 });
    up.received(at(1), &[7; 1_003]);
    assert_eq!(up.next(at(2)), None);
    up.received(at(5), &[7; 3]);
    assert_eq!(up.next(at(6)).unwrap(), b"{\"received\":1006}");
    let (mut long, _) = begun(BrowserWork::Down { bytes: 2_000_000 });
    let last = (1..200).map_while(|ms| long.next(at(ms))).last().unwrap();
    assert!(String::from_utf8(last).unwrap().contains("most bytes") && long.is_over());
}

#[test]
fn hostile_messages_never_panic() {
    let mut draws = SplitMix64::new(1);
    let events = BrowserWork::Events { hz: 1_000, size: 20, count: 5_000 };
    for of in [PING, BrowserWork::Connect { count: 1 }, BrowserWork::Up { bytes: 900 }, events] {
        for _ in 0..200 {
            let (mut work, _) = begun(of);
            for step in 0..20_u64 {
                let len = draws.below(40) as usize;
                let message: Vec<u8> = (0..len).map(|_| draws.below(256) as u8).collect();
                work.received(NOW + Nanos(step), &message);
                let _ = (work.next(NOW + Nanos::from_secs(step)), work.due(), work.is_over());
            }
        }
    }
}
