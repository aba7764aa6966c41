//! Causes with everything in them.

use super::{TCP, UDP};
use deadheat::contract::Direction;
use deadheat::result::causes::{
    Cause, CauseTest, ContenderCauses, Evidence, Finding, SignSource, TestOutcome,
};

fn finding(cause: Cause, share: f64, evidence: Evidence) -> Finding {
    let (trials, of, source) = (7, 8, SignSource::Trials);
    Finding { cause, direction: None, source, trials, of, share, evidence, test: None }
}

/// Returns evidence with every figure.
fn window() -> Evidence {
    Evidence {
        bytes: Some(65_536),
        rtt_ns: Some(16_200_000),
        round_trips: Some(12.5),
        rate_bps: Some(32.4e6),
        lost_share: Some(0.012),
        other_ran: Some(0.4),
        interrupts: Some(0.2),
        time_ns: Some(41_000_000),
        beside_load: true,
    }
}

fn confirmed() -> Option<CauseTest> {
    let result = TestOutcome::Confirmed;
    Some(CauseTest { change: "window=16MB".into(), result, ratio: Some(7.5) })
}

/// Returns the causes of the race.
pub(crate) fn of_race() -> Vec<ContenderCauses> {
    let (way, test) = (Some(Direction::Up), confirmed());
    let of_tcp = vec![
        Finding { direction: way, test, ..finding(Cause::PeerWindow, 0.98, window()) },
        Finding { source: SignSource::Pass, ..finding(Cause::WakeUp, 0.54, Evidence::default()) },
    ];
    let delay = Evidence { time_ns: Some(50_000_000), ..Evidence::default() };
    let of_udp = vec![finding(Cause::PathDelay, 0.91, delay)];
    vec![
        ContenderCauses { contender: TCP, findings: of_tcp },
        ContenderCauses { contender: UDP, findings: of_udp },
    ]
}

/// Returns the causes of a transfer in the instrumented pass.
pub(crate) fn of_pass() -> Vec<Finding> {
    vec![Finding {
        direction: Some(Direction::Up),
        source: SignSource::Pass,
        trials: 1,
        of: 1,
        test: confirmed(),
        ..finding(Cause::ReceiverCpu, 0.97, window())
    }]
}
