//! A study with each key there is, and its results.

use std::collections::BTreeMap;

use deadheat::result::outcome::Program;
use deadheat::result::study::outcome::{RaceRun, Setting, StudyRun};
use deadheat::study::judge::{Extent, judge};
use deadheat::study::read;

use super::varied;

const STUDY: &str = r#"
title = "Echoes"
question = "Which one is quicker?"
over = "size, bytes"
about = "What was done, and what was wrong with it."

[source]
author = "N. N."
title = "On echoes"
year = 2020
at = "example.org/echoes"
host = "a laptop"

[history]
designed_anew = 2
runs = 3
note = "The claim was restated after the second."

[[race]]
id = "echoes"
variant = "done_right"
about = "Echoes under conditions that are known."
flaws = ["Where the ends run is fixed."]
contenders = ["tcp", "udp"]
workload = "ping:count=200"
blocks = 12
margin = "5%"
[race.vary]
placement = ["same-core", "busy"]
size = ["64", "1kB", "60kB"]

[[race]]
id = "slowly"
variant = "as_published"
about = "An echo now and then."
flaws = ["One run of each."]
contenders = ["tcp", "udp"]
workload = "ping:count=200"
path = "delay=5ms"
placement = "busy"
budget = "5m"
every = "1s"
as_deployed = true
explain = true
[race.quick]
workload = "ping:count=50,interval=2ms"
path = "delay=1ms"
blocks = 8
budget = "1m"
every = "500ms"
[race.quick.vary]
size = ["64", "512"]

[[published]]
race = "echoes"
metric = "rtt_p50_ns"
cell = { contender = "tcp", where = { size = "64", placement = "same-core" } }
value = "310us"
stddev = "12us"
range = "300us..320us"
at = 64
line = "tcp"
note = "the mean"

[[published]]
race = "echoes"
metric = "rtt_p50_ns"
cell = { contender = "udp", where = { size = "64", placement = "same-core" } }
value = "290us"

[[published]]
race = "slowly"
metric = "rtt_p50_ns"
cell = { contender = "udp" }
value = "11ms"

[[claim]]
id = "udp-quicker"
says = "UDP is quicker."
by = "its author"
depends_on = "whether somebody has to be woken"
[[claim.test]]
race = "echoes"
metric = "rtt_p50_ns"
given = "on one core"
of = { contender = "udp", where = { size = "64", placement = "same-core" } }
against = { contender = "tcp", where = { size = "64", placement = "same-core" } }
expect = "below 0.99"
[[claim.test]]
race = "echoes"
metric = "rtt_p50_ns"
given = "with both ends awake"
of = { contender = "udp", where = { size = "1kB", placement = "busy" } }
against = { contender = "tcp", where = { size = "64", placement = "busy" } }
expect = "below 0.99"

[[claim.test]]
race = "echoes"
metric = "rtt_p50_ns"
look = "spread"
given = "in its consistency"
of = { contender = "udp", where = { size = "64", placement = "busy" } }
against = { contender = "tcp", where = { size = "64", placement = "busy" } }
expect = "below 0.4"

[[claim]]
id = "far"
says = "An echo over a path of 10 ms takes 10 ms."
[[claim.test]]
race = "slowly"
metric = "rtt_p50_ns"
needs = "full"
of = { contender = "udp" }
expect = "10ms..12ms"

[[claim]]
id = "why"
says = "It is the checksum."
open_because = "no checksum is switched off here."

[[claim]]
id = "as-published"
says = "The figures are those of the author."
agree = { within = "10%", at_least = 1, races = ["echoes"] }

[[claim]]
id = "in-order"
says = "They are in the same order."
agree = { within = "1%", in_order = "95%" }
"#;

/// Returns a study that was run: the result of one race, judged, and another that could not run.
pub(crate) fn run() -> StudyRun {
    let checked = read::study(STUDY, "echoes.toml").unwrap();
    let results = BTreeMap::from([("echoes".to_owned(), varied())]);
    let full = ["slowly".to_owned()];
    let extent = Extent { setting: Setting::Quick, full: &full };
    let judged = judge(&checked, &results, extent);
    let race = |id: &str, file: Option<&str>, why_not: Option<&str>| RaceRun {
        id: id.into(),
        file: file.map(Into::into),
        why_not: why_not.map(Into::into),
        trusted: file.is_some(),
    };
    StudyRun {
        study_format: 1,
        deadheat: Program { version: "0.1.0".into() },
        name: "echoes".into(),
        study: checked.study,
        setting: Setting::Quick,
        full: full.to_vec(),
        started: "2026-01-01T00:00:00Z".into(),
        host: "quiet".into(),
        races: vec![
            race("echoes", Some("echoes.json"), None),
            race("slowly", None, Some("make a network namespace: not permitted")),
        ],
        beside: judged.beside,
        rulings: judged.rulings,
    }
}
