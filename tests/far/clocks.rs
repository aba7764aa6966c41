//! Clocks of two hosts: echoes before, amid and after trials, and races against a server whose clock is hours away.

// Clippy's leave for tests ends at functions that are no tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

use deadheat::time::{Clock, Monotonic, Nanos};
use deadheat::trial::control::{FromServer, ToAgent};
use serde_json::Value;

use super::far::{Client, Far, Manner, open, plan};
use super::lies::Honest;

const PROGRAM: &str = env!("CARGO_BIN_EXE_deadheat");

/// Sends an echo, and checks that the answer is of this machine's clock.
fn echo(client: &mut Client) {
    let sent_ns = Monotonic.now();
    client.say(&ToAgent::Echo { sent_ns });
    let FromServer::Echoed(answer) = client.hear() else { panic!("no answer") };
    let echo = answer.received_at(Monotonic.now());
    assert_eq!(answer.near_sent_ns, sent_ns);
    let times = [echo.near_sent, echo.far_received, echo.far_sent, echo.near_received];
    assert!(times.is_sorted(), "one clock: {times:?}");
    assert!(echo.offset().unsigned_abs() <= echo.round_trip().div_ceil(2), "{echo:?}");
    assert!(answer.host.changed_since(&answer.host).is_none());
}

#[test]
fn a_server_answers_echoes_before_amid_and_after_a_trial_and_they_count_as_no_messages() {
    let far = Far::new(Manner::Right);
    let mut client = far.client();
    (0..40).for_each(|_| echo(&mut client));
    client.say(&open(&plan()));
    client.ready();
    far.next_plan();
    (0..40).for_each(|_| echo(&mut client));
    client.finish_trial();
    echo(&mut client);
}

#[test]
fn a_server_answers_only_so_many_echoes_and_no_clock_that_is_none() {
    let far = Far::new(Manner::Right);
    let mut client = far.client();
    let mut asked = plan();
    let clock = |gain_ppm| {
        serde_json::from_value(serde_json::json!({
            "from_ns": 1, "to_ns": u64::MAX, "gain_ppm": gain_ppm
        }))
        .unwrap()
    };
    asked.clock = Some(clock(1e6));
    client.say(&open(&asked));
    let FromServer::Refused(fault) = client.hear() else { panic!("it was taken") };
    assert!(fault.message.contains("clocks differ by 2000 at most"), "{fault}");
    asked.clock = Some(clock(-100.0));
    client.say(&open(&asked));
    client.ready();
    assert_eq!(far.next_plan().clock, asked.clock);
    let flood = |client: &mut Client| {
        for _ in 0..=4_096 {
            client.say(&ToAgent::Echo { sent_ns: Nanos(1) });
            match client.hear() {
                FromServer::Echoed(_) => {}
                FromServer::Refused(fault) => return fault.message,
                other => panic!("{other:?}"),
            }
        }
        panic!("no end of it")
    };
    let why = flood(&mut client);
    assert!(why.contains("more than 4096 echoes in one trial"), "{why}");
}

/// Returns the trials of a race of this work to a server. On a busy host some may have left late, and are invalid: their clocks
/// and ages are as true as those of others.
fn race(server: &Honest, work: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let to = server.address.to_string();
    let ran = Command::new(PROGRAM)
        .args(["race", "--idle", "host", "udp", "-w", work, "--blocks", "1", "--to", &to, "-q"])
        .args(["-o", "race.json"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    let saved = std::fs::read(dir.path().join("race.json")).unwrap_or_else(|_| panic!("{said}"));
    let outcome: Value = serde_json::from_slice(&saved).unwrap();
    outcome["trials"].as_array().unwrap().clone()
}

#[test]
fn ages_are_true_where_the_far_clock_is_five_hours_ahead_and_drifts() {
    const AHEAD: i64 = 5 * 3_600_000_000_000;
    let began = Monotonic.now();
    let servers = [Honest::on_clock("18000,100"), Honest::start()];
    let [apart, alike] = servers.each_ref().map(|server| race(server, "state:count=30"));
    // 100 ppm since the server began.
    let drifted = ((Monotonic.now() - began).0 / 10_000) as i64;
    assert!(!apart.is_empty() && !alike.is_empty(), "no trial");
    for trial in apart.iter().chain(&alike) {
        let age = trial["metrics"]["age_mean_ns"].as_f64().unwrap();
        let bound = trial["clock"]["error_bound_ns"].as_u64().unwrap();
        // Half of the time between two updates, and what a path adds, which is not negative; the other clock is hours away.
        assert!(age >= 1e9 / 120.0 - bound as f64 && age < 60e9, "{trial:#}");
    }
    for (trials, least, most) in [(apart, AHEAD, AHEAD + drifted), (alike, 0, 0)] {
        for trial in trials {
            let offset = trial["clock"]["offset_ns"].as_i64().unwrap();
            let bound = trial["clock"]["error_bound_ns"].as_i64().unwrap();
            let range = least - bound..=most + bound;
            assert!(range.contains(&offset), "{offset}, not in {range:?}");
        }
    }
}
