//! Three people at hosts of their own in an emulated network: what each sees of each other takes the ways between them.
//!
//! Needs what tests/network/emulated.rs needs.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use serde_json::{Value, json};

use crate::emulated::{can, count, race};
use crate::net::ran;

/// The server stands behind the third person's router: it is 10 ms from there, 40 from the first and 30 from the second.
const PATH: &str = "a--i,people=a/b/c,far=s + b--j + c--k + i--j:delay=20ms + i--k:delay=30ms + j--k:delay=20ms + k--s:delay=10ms";

fn trials(way: &str) -> Vec<Value> {
    let work = format!("session:count=50,picture=20kB,via={way}");
    let outcome = race(&["tcp"], PATH, &work);
    assert_eq!(outcome["path"]["built"]["roles"]["people"], json!(["a", "b", "c"]));
    ran(&outcome).into_iter().cloned().collect()
}

/// Returns the least mean of a pair's figure over trials, in milliseconds.
fn least(trials: &[Value], figure: &str) -> f64 {
    let figures = trials.iter().filter_map(|trial| trial["metrics"][figure].as_f64());
    figures.fold(f64::INFINITY, f64::min) / 1e6
}

#[test]
fn people_meet_over_a_server_among_themselves_or_both() {
    if !can() {
        return;
    }
    for (way, pen, pose, at_server) in
        [("server", 70.0, 70.0, true), ("peers", 20.0, 20.0, false), ("mix", 70.0, 20.0, true)]
    {
        let trials = trials(way);
        // From the first person to the second, 20 ms directly, and 40 and 30 over the server.
        let seen = least(&trials, "pen_1_to_2_mean_ns");
        assert!(seen >= pen, "{way}: {seen} ms");
        let young = least(&trials, "pose_1_to_2_age_mean_ns");
        assert!(young >= pose, "{way}: {young} ms");
        assert!(at_server || seen < 70.0 + 40.0, "{way}: {seen} ms");
        for trial in &trials {
            let to_server = count(&trial["path"]["links"][6]["up"]["fates"]["arrived_bytes"]);
            assert_eq!(to_server > 0, at_server, "{way}: {to_server} bytes");
            let direct = count(&trial["path"]["links"][3]["up"]["fates"]["arrived_bytes"]);
            assert_eq!(direct > 0, way != "server", "{way}: {direct} bytes");
            let ledger = &trial["ledger"];
            assert_eq!(ledger["down"]["sent"], ledger["down"]["delivered"], "{way}: {ledger}");
        }
    }
}
