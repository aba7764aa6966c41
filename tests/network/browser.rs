//! A page of `deadheat serve --web` in Chromium, on the near host of an emulated path.
//!
//! Needs Chromium and rights for namespaces; says so and passes where they are missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::chromium::{Browser, find};
use crate::net::check_schema;
use crate::path::{DEADHEAT, can};

/// Round trip of the path, in nanoseconds.
const PATH: &str = "delay=10ms";
const ROUND_TRIP_NS: f64 = 20e6;

/// Form with the contenders that have UDP ports of their own.
const OVER_UDP: &str = "contenders=webtransport,webtransport-datagrams,datachannel,\
     datachannel-unreliable&work=ping&count=20&interval_ms=5&blocks=1";

/// Starts a browser on the near host of a path, at the far end of which a server gives the page.
fn browser(results: &Path) -> Option<Browser> {
    let chromium = find().filter(|_| can("tun", &[]))?;
    let far = format!("{DEADHEAT} serve -q --web --web-results {}", results.display());
    let mut command = Command::new(DEADHEAT);
    command.args(["path", "run", "-q", PATH, "--far", &far, "--far-ready", "5280", "--"]);
    // As of a page at https or localhost, so that it has all that browsers have.
    command.arg(chromium).arg("--unsafely-treat-insecure-origin-as-secure=http://far:5280");
    Browser::start_by(command)
}

/// Opens the page with what is in its form, and returns the result of the race that it runs.
fn race(browser: &mut Browser, form: &str) -> Value {
    browser.visit("about:blank");
    browser.visit(&format!("http://far:5280/#{form}&run"));
    let race = browser.text(
        "new Promise((done) => {
            const look = () => {
                const { done: race, failed } = document.body.dataset;
                if (race || failed) done(race ?? `failed: ${failed}`); else setTimeout(look, 50);
            };
            look();
        })",
    );
    assert!(!race.starts_with("failed"), "{race}");
    let result =
        browser.eval(&format!("fetch('/result/{race}.json').then((answer) => answer.json())"));
    check_schema(&result);
    result
}

#[test]
fn a_page_races_over_an_emulated_path_and_the_server_judges() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut browser) = browser(dir.path()) else { return };
    let form = "contenders=websocket,fetch&work=ping&count=20&interval_ms=5&blocks=6";
    let result = race(&mut browser, form);
    let trials = result["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 18);
    for trial in trials {
        assert_eq!(trial["valid"], true, "{trial}");
        let rtt = trial["metrics"]["rtt_p50_ns"].as_f64().unwrap();
        assert!(rtt >= ROUND_TRIP_NS, "{trial}");
    }
    assert_eq!(trials.iter().filter(|trial| trial["control"] == true).count(), 6);
    assert!(result["control"]["note"].as_str().unwrap().contains("WebSocket"), "{result}");
    assert_eq!(result["verdicts"].as_array().unwrap().len(), 1);
    assert_eq!(result["imported"]["pairing"]["by"], "plan");
    // The page shows the verdict, fits on a phone, and sent requests to this server alone.
    let shown = browser.text("document.getElementById('answer').textContent");
    assert!(shown.contains("WebSocket") && shown.contains("Control"), "{shown}");
    browser.resize(400);
    assert_eq!(browser.count("document.documentElement.scrollWidth"), 400);
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
    let elsewhere =
        |url: &String| !url.starts_with("http://far:5280/") && !url.starts_with("data:");
    let foreign: Vec<String> = browser.requests().into_iter().filter(elsewhere).collect();
    assert!(foreign.iter().all(|url| url == "about:blank"), "{foreign:?}");
    let over_udp = race(&mut browser, OVER_UDP);
    let trials = over_udp["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 5);
    for trial in trials {
        assert_eq!(trial["valid"], true, "{trial}");
        assert!(trial["metrics"]["rtt_p50_ns"].as_f64().unwrap() >= ROUND_TRIP_NS, "{trial}");
    }
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
    drop(browser);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the results are in the folder");
}
