//! `docs/result.schema.json` and `docs/output.md`, `docs/study.schema.json` and `docs/studies.md`,
//! `docs/map.schema.json` and `docs/output.md` against
//! what is really written: none may say more or less than the code.

use crate::common;
use std::collections::{BTreeMap, BTreeSet};

use deadheat::contract::Side;
use deadheat::measurements::path_mtu::{LargerPackets, PathMtu, WayMtu};
use deadheat::measurements::series::Series;
use deadheat::measurements::{ClockNeed, ClockSource};
use deadheat::recorded::FarEndFacts;
use deadheat::records::commands::{CommandReport, ProgramCopy, ProgramFile, ReceivedContent};
use deadheat::records::connect::{AttemptEnd, ConnectAttempt};
use deadheat::records::path::ReachFacts;
use deadheat::records::probed::{ProbedPath, UnknownMtu};
use deadheat::result::map::file::Map;
use deadheat::result::outcome::{Absence, EntrantCommands, Outcome, TimeDifference};
use deadheat::result::study::outcome::StudyRun;
use serde_json::Value;

/// A kind of file, its schema and its manual.
struct Format {
    schema: &'static str,
    manual: &'static str,
    manual_file: &'static str,
    /// One with everything in it.
    full: fn() -> Value,
    is_readable: fn(Value) -> bool,
    /// How many objects and required properties the schema has at least.
    sizes: (usize, usize),
}

const RESULT: Format = Format {
    schema: include_str!("../../docs/result.schema.json"),
    manual: include_str!("../../docs/output.md"),
    manual_file: "docs/output.md",
    full: || {
        let mut outcome = common::everything();
        (outcome.asked.as_deployed, outcome.asked.gate_races) = (true, Some(4));
        (outcome.asked.all_blocks, outcome.asked.first) = (true, true);
        outcome.why_not_trusted = vec!["its control is no tie".to_owned()];
        outcome.asked.first = true;
        outcome.contenders[0].not_applicable = Some("it has no lanes".to_owned());
        outcome.plan.any_time = 0.01;
        outcome.contenders[0].unlabelled = Some("tcp".to_owned());
        outcome.contenders[1].failed = Some("a panic".to_owned());
        outcome.contenders[2].limited = Some("a trial may last 5 s".to_owned());
        outcome.contenders[3].overload = Some("62 % was lost".to_owned());
        with_commands(&mut outcome);
        outcome.contenders[3].protocol = Some("QUIC".to_owned());
        outcome.trials[0].record.lost_ms = Some(1_767_225_600_000);
        outcome.trials[0].record.disconnected = true;
        let from_ms = 1_767_225_600_000;
        let (to_ms, block, why) = (from_ms + 10_000, Some(0), "it no longer answers".to_owned());
        outcome.absences = vec![Absence { from_ms, to_ms, block, why }];
        over_a_way(&mut outcome);
        over_probed_paths(&mut outcome);
        beside_a_load(&mut outcome);
        on_two_clocks(&mut outcome);
        json(&outcome)
    },
    is_readable: |value| serde_json::from_value::<Outcome>(value).is_ok(),
    sizes: (20, 100),
};

/// Adds what probes find: a black hole on the way there, an announced size on the way back, and a server that is too old.
fn over_probed_paths(outcome: &mut Outcome) {
    let way = |beyond| WayMtu { bytes: 1_280, beyond };
    let (up, down) = (way(LargerPackets::Vanish), way(LargerPackets::Announced));
    let mtu = Some(PathMtu { kernel_bytes: 1_500, up, down });
    let probed = ProbedPath { host: "far.example".into(), mtu, unknown: None };
    let unknown = Some(UnknownMtu::OldServer);
    let old = ProbedPath { host: "old.example".into(), mtu: None, unknown };
    outcome.trials[0].record.path_mtu = vec![probed, old];
}

/// Adds what a race to a server has whose name has two addresses, from an address and an interface that were given.
fn over_a_way(outcome: &mut Outcome) {
    (outcome.asked.source, outcome.asked.device) = (Some("10.0.0.2".into()), Some("eth0".into()));
    let seen_as = Some([203, 0, 113, 9].into());
    outcome.trials[0].record.turn_wait_ns = 11_000_000_000;
    if let Some(far) = &mut outcome.peer_host {
        far.seen_as = seen_as;
    }
    let attempts = [AttemptEnd::Failed("refused".to_owned()), AttemptEnd::Connected].map(|end| {
        let address = "192.0.2.7:5210".parse().unwrap();
        ConnectAttempt { address, after_ns: 1_000_000, took_ns: 20_000_000, end }
    });
    let own_address = [10, 0, 0, 2].into();
    let reached = ReachFacts { own_address, seen_as, attempts: attempts.to_vec() };
    outcome.path.reached = Some(Box::new(reached));
    outcome.path.far_end = Some(Box::new(FarEndFacts {
        id: "iperf3".into(),
        label: "an iperf3 server".into(),
        counts: Some("bytes".into()),
        unknown: vec!["the rest".into()],
    }));
}

/// Adds what a race between two hosts has whose clocks were compared.
fn on_two_clocks(outcome: &mut Outcome) {
    outcome.metrics[0].clock = ClockNeed::Offset;
    let trial = outcome.trials.iter_mut().find(|trial| trial.record.clock.is_some()).unwrap();
    let clock = trial.record.clock.as_mut().unwrap();
    (clock.source, clock.stepped) = (ClockSource::Kernel, true);
    outcome.asked.margin_ns = Some(2_000_000);
    outcome.summary[0].clock_bound_ns = Some(400_000);
    let difference = Some(TimeDifference {
        point: -3_200_000.0,
        low: -3_600_000.0,
        high: -2_900_000.0,
        margin: 2_000_000.0,
        resolution: Some(900_000.0),
        clock_bound: Some(400_000),
    });
    outcome.verdicts[0].difference = difference;
    outcome.control.as_mut().unwrap().verdicts[0].difference = difference;
    outcome.unfiltered[0].difference = difference;
}

/// Adds what a trial has over time whose messages are observed one by one, and the course of its load.
fn beside_a_load(outcome: &mut Outcome) {
    let kept: Vec<Series> =
        outcome.trials.iter().filter_map(|trial| trial.record.intervals.first()).cloned().collect();
    let of_tcp = kept.iter().find(|series| series.tcp.is_some()).unwrap().clone();
    let series = kept[0].clone();
    let points = series.at_ns.len();
    let (delay_n, times) = (vec![2; points], vec![Some(7_000_000); points]);
    let delays = Series { delay_n, delay_mean_ns: times.clone(), delay_max_ns: times, ..series };
    outcome.trials[0].record.load_far_intervals = vec![delays.clone(), of_tcp.clone()];
    outcome.trials[0].record.load_intervals = vec![delays, of_tcp];
}

const STUDY: Format = Format {
    schema: include_str!("../../docs/study.schema.json"),
    manual: include_str!("../../docs/studies.md"),
    manual_file: "docs/studies.md",
    full: || {
        let mut run = common::study::run();
        run.study.races[0].all_blocks = true;
        run.study.claims[0].tests[0].if_lost = Some(2);
        serde_json::to_value(run).unwrap()
    },
    is_readable: |value| serde_json::from_value::<StudyRun>(value).is_ok(),
    sizes: (14, 40),
};

const MAP: Format = Format {
    schema: include_str!("../../docs/map.schema.json"),
    manual: include_str!("../../docs/output.md"),
    manual_file: "docs/output.md",
    full: || serde_json::to_value(common::map::map()).unwrap(),
    is_readable: |value| serde_json::from_value::<Map>(value).is_ok(),
    sizes: (11, 60),
};

impl Format {
    fn schema(&self) -> Value {
        serde_json::from_str(self.schema).unwrap()
    }

    fn validator(&self) -> jsonschema::Validator {
        jsonschema::draft202012::new(&self.schema()).unwrap()
    }
}

fn json(outcome: &Outcome) -> Value {
    serde_json::to_value(outcome).unwrap()
}

#[test]
fn a_study_that_was_run_is_valid_and_comes_back_as_it_was() {
    assert!(jsonschema::meta::is_valid(&STUDY.schema()));
    let run = common::study::run();
    let value = serde_json::to_value(&run).unwrap();
    let validator = STUDY.validator();
    let errors = validator.iter_errors(&value);
    let errors: Vec<String> = errors.map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let text = serde_json::to_vec(&run).unwrap();
    assert_eq!(deadheat::study::save::parse(&text).unwrap(), run);
}

#[test]
fn a_map_is_valid_and_comes_back_as_it_was() {
    assert!(jsonschema::meta::is_valid(&MAP.schema()));
    let map = common::map::map();
    let value = (MAP.full)();
    let validator = MAP.validator();
    let errors = validator.iter_errors(&value);
    let errors: Vec<String> = errors.map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert_eq!(
        deadheat::result::map::file::parse(&serde_json::to_vec(&map).unwrap()).unwrap(),
        map
    );
}

#[test]
fn results_are_valid() {
    assert!(jsonschema::meta::is_valid(&RESULT.schema()));
    let validator = RESULT.validator();
    for outcome in [common::full(), common::everything(), common::minimal(), common::hostile()] {
        let errors: Vec<String> = validator
            .iter_errors(&json(&outcome))
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}

#[test]
fn results_come_back_as_they_were() {
    for outcome in [common::full(), common::everything(), common::minimal(), common::hostile()] {
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
    }
}

/// The schema node behind a `$ref`, or the one that is not null of a `oneOf`.
fn resolve<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    if let Some(reference) = node["$ref"].as_str() {
        return root.pointer(reference.trim_start_matches('#')).unwrap();
    }
    match node["oneOf"].as_array() {
        Some(choices) => resolve(root, &choices[0]),
        None => node,
    }
}

/// Calls `visit` with each object of the schema and all places of `instances` where it stands.
fn walk<'a>(
    root: &'a Value,
    node: &'a Value,
    path: &str,
    instances: &[&'a Value],
    visit: &mut dyn FnMut(&str, &'a Value, &[&'a Value]),
) {
    let node = resolve(root, node);
    if let Some(properties) = node["properties"].as_object() {
        visit(path, node, instances);
        for (name, child) in properties {
            let inner: Vec<&Value> =
                instances.iter().filter_map(|object| object.get(name)).collect();
            walk(root, child, &format!("{path}/{name}"), &inner, visit);
        }
    }
    if node["items"].is_object() {
        let inner: Vec<&Value> = instances.iter().filter_map(|v| v.as_array()).flatten().collect();
        walk(root, &node["items"], &format!("{path}/*"), &inner, visit);
    }
}

#[test]
fn the_schema_has_nothing_that_is_never_written() {
    [RESULT, STUDY, MAP].iter().for_each(has_nothing_that_is_never_written);
}

fn has_nothing_that_is_never_written(format: &Format) {
    let (schema, full) = (format.schema(), (format.full)());
    // A definition that stands in several places needs each property in one of them.
    let mut objects: BTreeMap<*const Value, (String, &Value, Vec<&Value>)> = BTreeMap::new();
    walk(&schema, &schema, "", &[&full], &mut |path, node, instances| {
        let place = || (path.to_owned(), node, Vec::new());
        let (_, _, all) = objects.entry(std::ptr::from_ref(node)).or_insert_with(place);
        all.extend(instances);
    });
    assert!(objects.len() >= format.sizes.0, "{}", objects.len());
    for (path, node, instances) in objects.values() {
        assert_eq!(node["additionalProperties"], Value::Bool(false), "{path} is not closed");
        for (name, child) in node["properties"].as_object().unwrap() {
            let is_there = |object: &&Value| object.get(name).is_some_and(|value| !value.is_null());
            assert!(instances.iter().any(is_there), "{path}/{name} is in no result");
            assert!(child["description"].is_string(), "{path}/{name} is not described");
        }
    }
}

#[test]
fn what_is_required_cannot_be_left_out_or_renamed() {
    [RESULT, STUDY, MAP].iter().for_each(requires_what_it_says);
}

fn requires_what_it_says(format: &Format) {
    let (schema, full, validator) = (format.schema(), (format.full)(), format.validator());
    let mut required = Vec::new();
    walk(&schema, &schema, "", &[&full], &mut |path, node, _| {
        for name in node["required"].as_array().unwrap() {
            required.push((path.to_owned(), name.as_str().unwrap().to_owned()));
        }
    });
    assert!(required.len() >= format.sizes.1, "{}", required.len());
    for (path, name) in required {
        let mut without = full.clone();
        let object = first_at(&mut without, &path).unwrap();
        let value = object.as_object_mut().unwrap().remove(&name).unwrap();
        assert!(!validator.is_valid(&without), "valid without {path}/{name}");
        let mut renamed = without;
        let object = first_at(&mut renamed, &path).unwrap();
        object.as_object_mut().unwrap().insert(format!("{name}_"), value);
        assert!(!validator.is_valid(&renamed), "valid with {path}/{name} renamed");
    }
}

/// The first value at a path of the schema; `*` is the first element of an array that leads on.
fn first_at<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let Some(rest) = path.strip_prefix('/') else {
        return Some(value);
    };
    let (step, rest) = rest
        .split_once('/')
        .map_or((rest, String::new()), |(step, rest)| (step, format!("/{rest}")));
    if step == "*" {
        return value.as_array_mut()?.iter_mut().find_map(|value| first_at(value, &rest));
    }
    first_at(value.get_mut(step)?, &rest)
}

#[test]
fn what_the_schema_allows_can_be_read() {
    [RESULT, STUDY, MAP].iter().for_each(allows_what_can_be_read);
}

fn allows_what_can_be_read(format: &Format) {
    let (schema, full) = (format.schema(), (format.full)());
    let mut optional = Vec::new();
    walk(&schema, &schema, "", &[&full], &mut |path, node, _| {
        let required: BTreeSet<&str> = node["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        for name in node["properties"].as_object().unwrap().keys() {
            if !required.contains(name.as_str()) {
                optional.push(format!("{path}/{name}"));
            }
        }
    });
    let validator = format.validator();
    for path in optional {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let mut without = full.clone();
        let Some(object) = first_at(&mut without, parent) else {
            panic!("nothing at {parent}");
        };
        object.as_object_mut().unwrap().remove(name);
        assert!(validator.is_valid(&without), "{path} is optional");
        assert!((format.is_readable)(without), "unreadable without {path}");
    }
}

#[test]
fn wrong_values_are_refused() {
    let validator = RESULT.validator();
    for (pointer, wrong) in [
        ("/format", Value::from(2)),
        ("/seed", Value::from(-1)),
        ("/status", Value::from("done")),
        ("/verdicts/0/outcome", Value::from("tie")),
        ("/verdicts/0/confidence", Value::from(95)),
        ("/trials/0/rtt_ns/p50", Value::from("3 s")),
        ("/trials/0/ledger/up/unit", Value::from("packets")),
        ("/contenders/0/colour", Value::from("blue")),
        ("/asked/family", Value::from(5)),
    ] {
        let mut result = json(&common::everything());
        *result.pointer_mut(pointer).unwrap() = wrong;
        assert!(!validator.is_valid(&result), "{pointer}");
    }
}

#[test]
fn the_manual_explains_every_field() {
    for format in [RESULT, STUDY, MAP] {
        let schema = format.schema();
        let mut missing = BTreeSet::new();
        walk(&schema, &schema, "", &[], &mut |path, node, _| {
            for name in node["properties"].as_object().unwrap().keys() {
                if !format.manual.contains(&format!("`{name}`")) {
                    missing.insert(format!("{path}/{name}"));
                }
            }
        });
        assert!(missing.is_empty(), "{} lacks {missing:#?}", format.manual_file);
    }
}

/// Gives a contender and a trial the facts of commands.
fn with_commands(outcome: &mut Outcome) {
    let content = ReceivedContent { bytes: 5, sha256: "ab".repeat(32) };
    let file = ProgramFile {
        side: Side::Near,
        path: "/usr/bin/x".to_owned(),
        bytes: 7,
        sha256: "ab".repeat(32),
        copy: Some(ProgramCopy::Made),
    };
    let facts = EntrantCommands {
        files: vec![file],
        start_ns: Some(5_000_000),
        start_range_ns: Some([4_000_000, 9_000_000]),
    };
    outcome.contenders[0].commands = Some(Box::new(facts));
    let report =
        CommandReport { took_ns: Some(9_000_000), printed_bytes: 3, received: Some(content) };
    let record = &mut outcome.trials[0].record;
    (record.command, record.far_command) = (Some(Box::new(report.clone())), Some(Box::new(report)));
}
