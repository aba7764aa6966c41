use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::*;

/// Tickets of tests: one is good, for a number of bytes.
struct OneTicket(u64);

struct OneAccount {
    left: AtomicU64,
    /// Time from which more may be sent, in nanoseconds.
    due: AtomicU64,
}

impl Tickets for OneTicket {
    fn admit(&self, ticket: &str, _now: Nanos) -> Result<Arc<dyn TrialAccount>, String> {
        match ticket {
            "good" => Ok(Arc::new(OneAccount { left: self.0.into(), due: 0.into() })),
            _ => Err("no such ticket".to_owned()),
        }
    }
}

impl TrialAccount for OneAccount {
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

fn work(setup: &str) -> Work {
    let mut work = Work::new(Arc::new(OneTicket(1 << 20)));
    work.received(NOW, setup.as_bytes());
    work
}

/// Returns what a work answers to its setup.
fn answer(setup: &str) -> String {
    let mut work = work(setup);
    let said = String::from_utf8(work.next(NOW).unwrap()).unwrap();
    assert_eq!(work.is_over(), said.contains("refused"), "{said}");
    said
}

#[test]
fn a_setup_is_answered_and_a_bad_one_refused_by_name() {
    let ready = "{\"began_ns\":1000000000,\"ready\":true}";
    assert_eq!(answer("{\"ticket\":\"good\",\"work\":\"ping\"}"), ready);
    assert_eq!(
        answer("{\"ticket\":\"good\",\"work\":{\"state\":{\"hz\":60,\"size\":200,\"count\":2}}}"),
        ready
    );
    for (setup, why) in [
        ("{\"ticket\":\"bad\",\"work\":\"ping\"}", "no such ticket"),
        ("hello", "no setup"),
        ("{", "cannot be read"),
        ("{\"ticket\":\"good\",\"work\":\"ping\",\"more\":1}", "unknown field"),
        (
            "{\"ticket\":\"good\",\"work\":{\"state\":{\"hz\":0,\"size\":200,\"count\":2}}}",
            "hz is 0",
        ),
        (
            "{\"ticket\":\"good\",\"work\":{\"state\":{\"hz\":1,\"size\":5,\"count\":2}}}",
            "size is 5",
        ),
        ("{\"ticket\":\"good\",\"work\":{\"down\":{\"bytes\":0}}}", "bytes is 0"),
    ] {
        let said = answer(setup);
        assert!(said.contains("refused") && said.contains(why), "{setup}: {said}");
    }
}

#[test]
fn pings_come_back_as_they_are_and_at_the_rate() {
    let setup = "{\"ticket\":\"good\",\"work\":\"ping\"}";
    let mut work = work(setup);
    assert!(work.next(NOW).is_some());
    work.received(NOW, &[PING, 0, 0, 0, 1, 77]);
    assert_eq!(work.next(NOW), None, "the account allows the next one in a millisecond");
    let due = work.due().unwrap();
    assert_eq!(due, NOW + Nanos::from_millis(1));
    assert_eq!(work.next(due), Some(vec![PING, 0, 0, 0, 1, 77]));
    assert_eq!((work.next(due + due), work.due()), (None, None));
    // A setup that comes again has the same answer.
    work.received(due, setup.as_bytes());
    assert!(work.next(due + due).unwrap().starts_with(b"{\"began_ns\":1000000000"));
    work.received(due, &[UPDATE, 1]);
    assert!(work.next(due).unwrap().starts_with(b"{\"refused\"") && work.is_over());
}

#[test]
fn updates_leave_at_their_times_and_have_an_end() {
    let setup = "{\"ticket\":\"good\",\"work\":{\"state\":{\"hz\":100,\"size\":20,\"count\":2}}}";
    let mut work = work(setup);
    assert!(work.next(NOW).is_some());
    let at = |ms: u64| NOW + Nanos::from_millis(ms);
    let first = work.next(at(1)).unwrap();
    assert_eq!((first.len(), &first[..5]), (20, &[UPDATE, 0, 0, 0, 0][..]));
    assert_eq!((work.next(at(5)), work.due()), (None, Some(at(10))));
    let second = work.next(at(10)).unwrap();
    assert_eq!(&second[5..13], &10_000_000_u64.to_be_bytes());
    assert_eq!(work.next(at(20)).unwrap(), b"{\"sent\":2}");
    assert_eq!(work.next(at(30)), None);
}

#[test]
fn bulk_data_is_counted_both_ways_and_ends_with_the_ticket() {
    let mut down = work("{\"ticket\":\"good\",\"work\":{\"down\":{\"bytes\":20000}}}");
    let at = |ms: u64| NOW + Nanos::from_millis(ms);
    let lens: Vec<usize> = (0..3).map(|ms| down.next(at(ms)).unwrap().len()).collect();
    assert_eq!(lens[1..], [CHUNK, 20_000 - CHUNK]);
    assert_eq!(down.next(at(4)).unwrap(), b"{\"sent\":20000}");
    let mut up = work("{\"ticket\":\"good\",\"work\":{\"up\":{\"bytes\":6}}}");
    assert!(up.next(at(0)).is_some());
    up.received(at(1), &[BULK; 3]);
    assert_eq!(up.next(at(2)), None);
    up.received(at(5), &[BULK; 3]);
    assert_eq!(up.next(at(6)).unwrap(), b"{\"received\":6,\"span_ns\":4000000}");
    let mut long = work("{\"ticket\":\"good\",\"work\":{\"down\":{\"bytes\":2000000}}}");
    let mut last = Vec::new();
    for ms in 0..200 {
        match long.next(at(ms)) {
            Some(message) => last = message,
            None => break,
        }
    }
    assert!(String::from_utf8(last).unwrap().contains("most bytes") && long.is_over());
}

#[test]
fn hostile_messages_never_panic() {
    let mut draws = SplitMix64::new(1);
    for setup in [
        "{\"ticket\":\"good\",\"work\":\"ping\"}",
        "{\"ticket\":\"good\",\"work\":\"connect\"}",
        "{\"ticket\":\"good\",\"work\":{\"up\":{\"bytes\":9}}}",
        "{\"ticket\":\"good\",\"work\":{\"events\":{\"hz\":1000,\"size\":13,\"count\":100000,\"seed\":4294967295}}}",
        "\u{0}",
    ] {
        for _ in 0..200 {
            let mut work = work(setup);
            for step in 0..20_u64 {
                let len = draws.below(40) as usize;
                let message: Vec<u8> = (0..len).map(|_| draws.below(256) as u8).collect();
                work.received(NOW + Nanos(step), &message);
                let _ = (work.next(NOW + Nanos::from_secs(step)), work.due(), work.is_over());
            }
        }
    }
}
