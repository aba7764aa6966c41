//! NATs and firewalls in virtual time: the machine of emulated networks, on simulated packets.

use super::{ended, trial, up};
use deadheat::measurements::path::DirectionFigures;
use deadheat::records::trial::Record;
use deadheat::trial::TrialOutcome;

fn links(record: &Record) -> impl Iterator<Item = &DirectionFigures> {
    let links = record.path.as_ref().unwrap().links.iter();
    links.flat_map(|link| [&link.up, &link.down])
}

fn blocked(record: &Record) -> u64 {
    links(record).map(|way| way.fates.blocked).sum()
}

#[test]
fn transports_pass_nats_and_firewalls_and_nothing_of_them_is_blocked() {
    for path in [
        "delay=5ms,nat=symmetric",
        "delay=5ms,firewall=stateful",
        "near--cpe:delay=1ms + cpe--carrier:delay=1ms,nat=port-restricted + \
         carrier--cloud:delay=1ms,nat=symmetric",
    ] {
        for contender in ["quic", "sim-datagram"] {
            // Messages of several fragments, too.
            for work in [
                "ping:count=50",
                "ping:count=50,size=4000",
                "cbr:time=1s,direction=down,rate=1mbit",
            ] {
                let record = trial(path, contender, work);
                assert_eq!(blocked(&record), 0, "{contender}, {work}, {path}");
                let account = record.ledger.up.as_ref().or(record.ledger.down.as_ref()).unwrap();
                assert_eq!(account.sent, account.delivered, "{contender}, {work}, {path}");
            }
        }
    }
}

/// A NAT changes no delay: a trial behind it is that without, to the last bit.
#[test]
fn a_trial_behind_a_nat_has_the_figures_of_one_without() {
    let figures = |path: &str| {
        let record = trial(path, "quic", "ping:count=100");
        (record.metrics, record.rtt_ns)
    };
    let path = "delay=5ms,jitter=1ms,loss=2%,rate=5mbit,queue=20ms";
    assert_eq!(figures(path), figures(&format!("{path},nat=full-cone")));
}

/// Answers come while the binding lives. After its end nothing of the far end comes in, until the near end opens a new binding.
#[test]
fn a_binding_that_times_out_lets_nothing_in_until_the_host_inside_sends() {
    let path = "delay=5ms,nat=symmetric,nat-timeout=1s";
    let record = trial(path, "sim-datagram", "ping:interval=3s,count=20,warmup=0");
    assert_eq!((blocked(&record), up(&record).delivered), (0, 20));
    // The first answer uses the binding that the hello opened; the others come each 1.6 s.
    let work = "cbr:size=200,rate=1kbit,count=12,direction=down";
    let TrialOutcome::Ran(silent) = ended(path, "sim-datagram", work, 7) else { panic!("{work}") };
    let down = silent.ledger.down.as_ref().unwrap();
    assert_eq!((down.sent, down.delivered, blocked(&silent)), (12, 1, 11));
}
