//! A page of `deadheat serve --web` in Chromium, on the near host of an emulated path.
//!
//! Needs Chromium and rights for namespaces; says so and passes where they are missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

use crate::chromium::{Browser, find};
use crate::net::check_schema;
use crate::path::{DEADHEAT, can};
use crate::pem::pem;
use crate::runs_all;

/// Round trip of the path, in nanoseconds.
const PATH: &str = "delay=10ms";
const ROUND_TRIP_NS: f64 = 20e6;

/// Form with the contenders that have UDP ports of their own.
const OVER_UDP: &str = "contenders=webtransport,webtransport-datagrams,datachannel,\
     datachannel-unreliable&work=ping&count=20&interval_ms=5&blocks=1";

/// Page at the far host, and with TLS.
const PLAIN: &str = "http://far:5280";
const SECURE: &str = "https://far:5280";

/// Starts a browser on the near host of a path, at the far end of which a command gives the page.
fn browser(far: &str) -> Option<Browser> {
    let chromium = find().filter(|_| can("tun", &[]))?;
    let mut command = Command::new(DEADHEAT);
    command.args(["path", "run", "-q", PATH, "--far", far, "--far-ready", "5280", "--"]);
    // As of a page at https or localhost, so that it has all that browsers have.
    command.arg(chromium).arg(format!("--unsafely-treat-insecure-origin-as-secure={PLAIN}"));
    // No authority has signed the certificate of a test.
    command.arg("--ignore-certificate-errors");
    Browser::start_by(command)
}

/// Opens the page with a race that it runs, and does not wait.
fn begin(browser: &mut Browser, page: &str, form: &str) {
    browser.visit("about:blank");
    browser.visit(&format!("{page}/#{form}&run"));
}

/// Opens the page with what is in its form, and returns the result of the race that it runs.
fn race(browser: &mut Browser, page: &str, form: &str) -> Value {
    begin(browser, page, form);
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

/// Returns true if a trial is valid. An invalid trial may have one fault here: a busy host held the page up for a second.
fn is_valid(trial: &Value) -> bool {
    let why = trial["why_invalid"].as_str();
    assert!(why.is_none_or(|why| why.contains("page was")), "{trial}");
    why.is_none()
}

#[test]
fn a_page_races_over_an_emulated_path_and_the_server_judges() {
    let dir = tempfile::tempdir().unwrap();
    let far =
        format!("{DEADHEAT} serve -q --web --web-name far --web-results {}", dir.path().display());
    let Some(mut browser) = browser(&far) else { return };
    // By default there is one contender of each protocol that works here, and never one protocol alone.
    browser.visit(PLAIN);
    let chosen = browser.text(
        "new Promise((done) => {
            const look = () => {
                const boxes = [...document.querySelectorAll('input[name=contender]')];
                const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
                if (boxes.length) done(chosen.join()); else setTimeout(look, 50);
            };
            look();
        })",
    );
    assert!(chosen.starts_with("websocket,") && chosen.split(',').count() > 1, "{chosen}");
    assert!(!chosen.contains("fetch") || chosen == "websocket,fetch", "{chosen}");
    // As on the command line.
    let form = "contenders=websocket,fetch&work=ping:count=20,interval=5ms&blocks=6";
    let result = race(&mut browser, PLAIN, form);
    let trials = result["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 18);
    for trial in trials.iter().filter(|trial| is_valid(trial)) {
        let rtt = trial["metrics"]["rtt_p50_ns"].as_f64().unwrap();
        assert!(rtt >= ROUND_TRIP_NS, "{trial}");
        assert!(trial["metrics"]["page_lag_max_ns"].as_f64().unwrap() > 0.0, "{trial}");
        assert!(trial["metrics"]["timer_late_max_ns"].is_number(), "{trial}");
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
    let over_udp = race(&mut browser, PLAIN, OVER_UDP);
    let trials = over_udp["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 5);
    for trial in trials.iter().filter(|trial| is_valid(trial)) {
        assert!(trial["metrics"]["rtt_p50_ns"].as_f64().unwrap() >= ROUND_TRIP_NS, "{trial}");
    }
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
    begin(&mut browser, PLAIN, "work=ping:count=19,window=1");
    for wrong in ["count is 19, and may be 20 to 2000", "\"window\" is no setting of ping"] {
        says(&mut browser, wrong, 5);
    }
    drop(browser);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the results are in the folder");
}

#[test]
fn a_page_over_tls_races_http_2_with_the_operators_certificate() {
    if !runs_all() {
        println!("skipped: DEADHEAT_ALL_CELLS runs it");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["far".to_owned()]).unwrap().self_signed(&key).unwrap();
    fs::write(dir.path().join("chain.pem"), pem("CERTIFICATE", own.der())).unwrap();
    fs::write(dir.path().join("key.pem"), pem("PRIVATE KEY", &key.serialize_der())).unwrap();
    let at = dir.path().display();
    let far = format!("{DEADHEAT} serve -q --web --web-cert {at}/chain.pem --web-key {at}/key.pem");
    let Some(mut browser) = browser(&far) else { return };
    for work in ["ping:count=20,interval=5ms", "connect", "state:count=60", "down", "up"] {
        let form = format!("contenders=fetch,fetch-h2&blocks=1&work={work}");
        let result = race(&mut browser, SECURE, &form);
        for trial in result["trials"].as_array().unwrap().iter().filter(|trial| is_valid(trial)) {
            let protocol = ["http/1.1", "h2"][trial["contender"].as_u64().unwrap() as usize];
            assert_eq!(trial["effective"]["protocol"], protocol, "{work}: {trial}");
        }
    }
    // The browser checks the operator's certificate by its name.
    let facts = browser.eval("getJson('/facts').then((facts) => facts.carriers)");
    assert!(
        facts["http2"]["port"].is_u64() && facts["webtransport"]["sha256"].is_null(),
        "{facts}"
    );
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
}

/// Race of a page whose trials are long enough for a fault amid one.
const LONG: &str = "work=state:hz=60,count=240&blocks=2";

/// Far host whose server a test can take away, and whose firewall it can change.
struct FarHost<'a> {
    dir: &'a Path,
    orders: u32,
}

impl FarHost<'_> {
    /// Shell command of the far host: it serves, and runs every order.
    fn command(dir: &Path) -> String {
        let script = dir.join("far.sh");
        let text = format!(
            "serve() {{ {DEADHEAT} serve -q --web --web-name far --web-results {dir} & server=$!; }}\n\
             serve\nn=0\nwhile kill -0 $PPID; do\n\
             if [ -e {dir}/order-$n.sh ]; then . {dir}/order-$n.sh; n=$((n+1)); else sleep 0.05; fi\ndone\n",
            dir = dir.display()
        );
        fs::write(&script, text).unwrap();
        format!("sh {}", script.display())
    }

    /// Lets the far host run a command.
    fn order(&mut self, command: &str) {
        let file = self.dir.join(format!("order-{}.sh", self.orders));
        let draft = self.dir.join("draft");
        fs::write(&draft, command).unwrap();
        fs::rename(draft, file).unwrap();
        self.orders += 1;
    }

    /// Drops packets to it from now on.
    fn drop_packets(&mut self, rule: &str) {
        self.order(&format!(
            "nft add table inet t; nft 'add chain inet t c {{ type filter hook input priority 0; }}'; nft add rule inet t c {rule} drop"
        ));
    }

    fn drop_nothing(&mut self) {
        self.order("nft delete table inet t");
    }
}

/// Waits until the page shows some words, and fails after so many seconds.
fn says(browser: &mut Browser, words: &str, seconds: u32) {
    let script = format!(
        "new Promise((done, fail) => {{
            const began = performance.now();
            const look = () => {{
                const text = document.body.innerText;
                const after = (performance.now() - began) / 1000;
                if (text.includes({words:?})) done(after);
                else if (after > {seconds}) fail(new Error(text));
                else setTimeout(look, 50);
            }};
            look();
        }})"
    );
    let after = browser.eval(&script).as_f64().unwrap();
    println!("{words:?} after {after:.1} s");
}

#[test]
fn faults_amid_a_race_are_named_and_the_race_goes_on() {
    if !runs_all() || !can("tun", &["nft"]) {
        println!("skipped: DEADHEAT_ALL_CELLS runs it, where there is nft");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let far = FarHost::command(dir.path());
    let Some(mut browser) = browser(&far) else { return };
    let mut far = FarHost { dir: dir.path(), orders: 0 };

    // A firewall that drops UDP.
    far.drop_packets("meta l4proto udp");
    begin(
        &mut browser,
        PLAIN,
        "contenders=websocket,webtransport,datachannel&work=ping&count=20&interval_ms=5&blocks=3",
    );
    says(&mut browser, "it needs UDP port 528", 8);
    says(&mut browser, "WebTransport, a stream is left out from here on", 60);
    says(&mut browser, "WebRTC data channel is left out from here on", 60);
    says(&mut browser, "Done.", 30);
    assert_eq!(browser.count("document.querySelectorAll('#figures tr').length > 0 ? 1 : 0"), 1);
    far.drop_nothing();

    // A line that is down for a while.
    begin(&mut browser, PLAIN, &format!("contenders=websocket,fetch&{LONG}"));
    says(&mut browser, "trial 2 of 6", 10);
    far.drop_packets("meta l4proto { tcp, udp }");
    says(&mut browser, "Nothing has arrived for", 8);
    says(&mut browser, "what was measured stays", 60);
    far.drop_nothing();
    says(&mut browser, "Done.", 90);

    // Another page has the turn, and then it closes.
    browser.visit("about:blank");
    browser.visit("http://far:5280/");
    let page = "{ browser: 'x', step_ms: 1, loopback_ms: 1, isolated: true }";
    let taken = browser.text(&format!(
        "(async () => {{
            const asked = {{ contenders: ['websocket'], work: {{ ping: {{ size: 64, count: 20, interval_ms: 1000 }} }}, blocks: 1, page: {page} }};
            const plan = await postJson('/plan', asked);
            await postJson(`/begin?race=${{plan.race}}&n=0`);
            return plan.race;
        }})()"
    ));
    browser.eval("(document.getElementById('start').click(), 1)");
    says(&mut browser, "another trial runs at this server", 5);
    browser.eval(&format!("postJson('/leave?race={taken}')"));
    says(&mut browser, "trial 3 of", 8);

    // The tab is closed: the turn is free at once.
    begin(&mut browser, PLAIN, &format!("contenders=websocket,fetch&{LONG}"));
    says(&mut browser, "trial 1 of 6", 5);

    // The server is gone, and then another is in its place.
    says(&mut browser, "trial 4 of 6", 40);
    far.order("kill $server; wait $server");
    says(&mut browser, "the server cannot be reached", 5);
    far.order("serve");
    says(&mut browser, "The race ended early: there is no such race", 10);
    says(&mut browser, "The blocks before it stay in the result below", 1);
}
