//! Seeds of the fuzzer parse: others teach it only inputs that are refused.

use std::fs;
use std::path::Path;

use deadheat::path::trace::Trace;
use deadheat::result::outcome::Outcome;
use deadheat::spec::Spec;
use deadheat::study::read;
use deadheat::transport::hello::Hello;
use deadheat::trial::control::{self, FromAgent, FromServer, Greeting, Proof, ToAgent};

/// Function that returns true if a seed parses.
type Parses = fn(&[u8]) -> bool;

pub(crate) fn check(root: &Path) -> Vec<String> {
    let kinds: [(&str, Parses); 5] = [
        ("control", is_control),
        ("hello", is_hello),
        ("result", |seed| serde_json::from_slice::<Outcome>(seed).is_ok()),
        ("grammar", |seed| std::str::from_utf8(seed).is_ok_and(is_typed)),
        ("study", |seed| {
            std::str::from_utf8(seed).is_ok_and(|text| read::study(text, "seed").is_ok())
        }),
    ];
    let mut findings = Vec::new();
    for (name, understood) in kinds {
        let folder = root.join("fuzz/seeds").join(name);
        let seeds: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        if seeds.is_empty() {
            findings.push(format!("{}: no seeds", folder.display()));
        }
        for path in seeds {
            if !understood(&fs::read(&path).unwrap()) {
                findings.push(format!("{}: not understood", path.display()));
            }
        }
    }
    findings
}

fn is_typed(text: &str) -> bool {
    let mut file = |_: &str| Ok(b"1\n2\n".to_vec());
    Spec::parse(text).is_ok()
        || deadheat::path::PathSpec::parse_with(text, &mut file).is_ok()
        || Trace::from_bytes("FILE", text.as_bytes(), None).is_ok()
}

fn is_control(seed: &[u8]) -> bool {
    let frame = control::read_frame(&mut &seed[..]);
    let body = frame.as_deref().unwrap_or(seed);
    control::parse::<Greeting>(body).is_ok()
        || control::parse::<Proof>(body).is_ok()
        || control::parse::<FromServer>(body).is_ok()
        || control::parse::<ToAgent>(body).is_ok()
        || control::parse::<FromAgent>(body).is_ok()
}

fn is_hello(seed: &[u8]) -> bool {
    // Half a hello is a seed too, as of a peer that was cut off.
    Hello::decode(seed).is_some() || Hello::decode_welcome(seed).is_some() || seed == b"DHT1\x01"
}

#[test]
fn a_seed_that_says_nothing_is_found() {
    assert!(!is_control(b"{}") && is_control(br#"{"mac":""}"#));
    assert!(!is_hello(b"") && is_hello(b"DHT1\x01"));
}
