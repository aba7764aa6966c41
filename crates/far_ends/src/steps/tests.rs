//! The table of all far ends, run to the end of each step.

use super::{PeerFault, StepEnd, StepRow};
use crate::exchange::tests::{garbage, greeted};
use crate::{echo, https, iperf3, irtt, ndt7, quicperf, stamp};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::plain::Greeting;
use deadheat_datapath::transport::step::{STEP, STEP_BYTES};

/// Rows of a question in datagrams, whose answer does not come.
fn greetings() -> Vec<StepRow> {
    type Make = fn() -> Box<Greeting<'static>>;
    let all: [(&str, Make); 3] =
        [("irtt", irtt::greeting), ("STAMP", stamp::greeting), ("echo over UDP", echo::greeting)];
    let row = |(protocol, make): (&'static str, Make), fault| StepRow {
        protocol,
        step: "the first answer",
        fault,
        run: Box::new(move || {
            let said: Vec<Vec<u8>> = match fault {
                PeerFault::Silent => Vec::new(),
                _ => garbage().collect(),
            };
            let began = Monotonic.now();
            let why = greeted(&*make(), Some(&said)).unwrap_err().to_string();
            let took = Monotonic.now() - began;
            assert!(took >= Nanos::from_millis(50), "{protocol}: given up after {took}");
            StepEnd { why, took: Nanos::ZERO, bytes: said.iter().map(Vec::len).sum() }
        }),
    };
    let faults = [PeerFault::Silent, PeerFault::Garbage];
    all.into_iter().flat_map(|one| faults.map(|fault| row(one, fault))).collect()
}

#[test]
fn every_step_of_every_far_end_ends_within_its_bytes_and_its_time() {
    let rows: Vec<StepRow> = [https::steps(), quicperf::steps(), ndt7::steps(), iperf3::steps()]
        .into_iter()
        .flatten()
        .chain(greetings())
        .collect();
    let faults =
        [PeerFault::Silent, PeerFault::Endless, PeerFault::LyingLength, PeerFault::Garbage];
    for fault in faults {
        assert!(rows.iter().filter(|row| row.fault == fault).count() >= 6, "{fault:?}");
    }
    for StepRow { protocol, step, fault, run } in &rows {
        let what = format!("{protocol}, {step}, {fault:?}");
        let end = run();
        assert!(!end.why.is_empty(), "{what}");
        assert!(end.took <= STEP + Nanos::from_secs(2), "{what}: {end:?}");
        // Documents and frames may have begun before the bound, and a document has bounds of its own.
        assert!(end.bytes as u64 <= 5 * STEP_BYTES, "{what}: {end:?}");
        if *fault == PeerFault::Silent && end.took > Nanos::ZERO {
            let is_named = ["did not go on", "acknowledged nothing"];
            assert!(is_named.iter().any(|word| end.why.contains(word)), "{what}: {}", end.why);
        }
    }
}
