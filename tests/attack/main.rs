//! A server, a client and their files under attack, as black boxes: only command lines and bytes on the wire,
//! so that any version can be attacked. `DEADHEAT_UNDER_ATTACK` names the program, `DEADHEAT_ATTACK_SECONDS`
//! says how long each attack lasts. Each test prints a line of a table (`--nocapture`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // The table, and a test that is skipped says why.

mod crowds;
mod datagrams;
mod ground;
#[path = "../common/handed_in.rs"]
mod handed_in;
mod honest;
mod liars;
mod long;
mod missing;
mod plans;
mod saved;
mod server;
mod siege;
mod table;
mod wire;

use std::time::Duration;

use ground::{beside_others, isolated};
use siege::{KEPT_OF_LARGE, OPEN, SECRET, Siege};

/// How long each attack lasts while honest clients race.
pub(crate) fn seconds() -> Duration {
    number("DEADHEAT_ATTACK_SECONDS").map_or(Duration::from_secs(1), Duration::from_secs_f64)
}

/// How long the longest of these tests may take, but for what is the same for all.
pub(crate) fn longest() -> Duration {
    let soak = number("DEADHEAT_SOAK_SECONDS").unwrap_or(0.0);
    let pairs = number("DEADHEAT_ATTACK_PAIRS").unwrap_or(0.0);
    seconds() + Duration::from_secs_f64(soak + 120.0 * pairs)
}

fn number(variable: &str) -> Option<f64> {
    std::env::var(variable).ok().map(|said| said.parse().unwrap())
}

#[test]
fn a_thousand_idle_connections() {
    isolated("a_thousand_idle_connections", || {
        Siege { name: "idle", ..OPEN }.run(|field| crowds::idle(field, 1_000));
    });
}

#[test]
fn a_thousand_slow_connections() {
    isolated("a_thousand_slow_connections", || {
        Siege { name: "slow", ..OPEN }.run(|field| crowds::slow(field, 1_000));
    });
}

#[test]
fn two_thousand_connections_a_second() {
    isolated("two_thousand_connections_a_second", || {
        Siege { name: "storm of 2,000", ..OPEN }.run(|field| crowds::storm(field, Some(2_000)));
    });
}

#[test]
fn four_thousand_connections_a_second() {
    isolated("four_thousand_connections_a_second", || {
        Siege { name: "storm of 4,000", ..OPEN }.run(|field| crowds::storm(field, Some(4_000)));
    });
}

#[test]
fn as_many_connections_as_there_can_be_where_a_secret_is_asked_for() {
    isolated("as_many_connections_as_there_can_be_where_a_secret_is_asked_for", || {
        Siege { name: "storm, secret", ..SECRET }.run(|field| crowds::storm(field, None));
    });
}

#[test]
fn a_crowd_without_the_secret() {
    isolated("a_crowd_without_the_secret", || {
        Siege { name: "no secret", ..SECRET }.run(|field| crowds::without_secret(field, 200));
    });
}

#[test]
fn garbage_and_replay() {
    isolated("garbage_and_replay", || {
        Siege { name: "garbage", ..OPEN }.run(crowds::garbage);
    });
}

#[test]
fn spoofed_datagrams() {
    isolated("spoofed_datagrams", || {
        Siege { name: "spoofed flood", ..OPEN }.run(datagrams::flood);
    });
}

#[test]
fn a_token_from_elsewhere() {
    isolated("a_token_from_elsewhere", || {
        Siege { name: "reflection", ..OPEN }.run(plans::reflection);
    });
}

#[test]
fn a_client_that_misses_everything() {
    isolated("a_client_that_misses_everything", || {
        Siege { name: "all missing", options: missing::LIMITS, ..OPEN }.run(missing::all);
    });
}

#[test]
fn vanishing_clients() {
    isolated("vanishing_clients", || {
        Siege { name: "vanishing", ..OPEN }.run(crowds::vanishing);
    });
}

#[test]
fn hostile_plans() {
    isolated("hostile_plans", || {
        let siege = Siege { name: "hostile plans", kept: KEPT_OF_LARGE, ..OPEN };
        siege.run(plans::hostile);
    });
}

#[test]
fn few_descriptors() {
    isolated("few_descriptors", || {
        let siege = Siege { name: "ulimit -n 64", files: Some(64), ..OPEN };
        siege.run(|field| crowds::idle(field, 500));
    });
}

#[test]
fn lying_servers() {
    beside_others("lying_servers", liars::all);
}

#[test]
fn changed_result_files() {
    beside_others("changed_result_files", saved::changed);
}

#[test]
fn killed_races() {
    beside_others("killed_races", saved::killed);
}

/// Runs where `DEADHEAT_SOAK_SECONDS` says how long (`make soak`).
#[test]
fn a_soak() {
    match number("DEADHEAT_SOAK_SECONDS") {
        Some(seconds) => isolated("a_soak", || long::soak(Duration::from_secs_f64(seconds))),
        None => println!("skipped: DEADHEAT_SOAK_SECONDS says for how long"),
    }
}

/// Runs where `DEADHEAT_ATTACK_PAIRS` says how often; the host must be quiet for figures that mean anything.
#[test]
fn figures_with_and_without_an_attack() {
    match number("DEADHEAT_ATTACK_PAIRS") {
        Some(pairs) => isolated("figures_with_and_without_an_attack", || {
            long::figures(pairs as u32, "20");
        }),
        None => println!("skipped: DEADHEAT_ATTACK_PAIRS says how often"),
    }
}
