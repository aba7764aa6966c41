//! What people type: nothing panics, and what parses prints itself so that it parses the same.
#![no_main]

#[path = "../../tests/common/handed_in.rs"]
mod handed_in;

use deadheat::error::Error;
use deadheat::path::trace::{Mode, Trace};
use deadheat::path::{PathSpec, grammar};
use deadheat::records::placement::Placement;
use deadheat::spec::Spec;
use deadheat::transport::Contender;
use deadheat::units::{
    Bare, parse_bytes, parse_count, parse_offered, parse_rate, parse_share, parse_span, range,
};
use deadheat::workload;
use libfuzzer_sys::fuzz_target;

/// Up to here every integer has a floating-point number of its own.
const EXACT: u64 = 1 << 53;

fuzz_target!(|typed: &str| {
    specs(typed);
    units(typed);
    paths(typed);
    if let Ok(placement) = Placement::parse(typed) {
        assert_eq!(Placement::parse(&placement.to_string()).ok(), Some(placement));
    }
});

fn specs(typed: &str) {
    if let Ok(spec) = Spec::parse(typed) {
        assert_eq!(spec.to_string(), typed);
        assert_eq!(Spec::parse(&spec.to_string()).ok(), Some(spec));
    }
    let _ = Contender::outside(typed);
    if let Ok(contender) = Contender::parse(typed) {
        let again = Contender::parse(&contender.spec.to_string()).expect("parses again");
        assert_eq!(again.knobs, contender.knobs);
    }
    if let Ok(task) = workload::parse(typed) {
        let spec = &task.info().spec;
        let again = workload::parse(&spec.to_string()).expect("parses again");
        assert_eq!(&again.info().spec, spec);
    }
}

/// A path, and its files: the input is the content of each, too.
fn paths(typed: &str) {
    let mut file = |_: &str| Ok(typed.as_bytes().to_vec());
    if let Ok(path) = PathSpec::parse_with(typed, &mut file) {
        let again = PathSpec::parse_with(&path.to_string(), &mut file).expect("parses again");
        assert_eq!(again, path);
    }
    let names_none = grammar::outside(typed).is_ok_and(|named| named.is_empty());
    let mut closed = |file: &str| {
        assert!(!names_none, "a path that names no file opens {file}");
        Err(Error::usage("closed"))
    };
    let _ = PathSpec::parse_with(typed, &mut closed);
    for mode in [None, Some(Mode::Spread), Some(Mode::Burst)] {
        if let Ok(trace) = Trace::from_bytes("FILE", typed.as_bytes(), mode) {
            assert!(trace.length.0 > 0 && trace.capacity() > 0.0);
        }
    }
}

fn units(typed: &str) {
    for bare in [Bare::Allowed, Bare::Refused] {
        if let Some(bytes) = parse_bytes(typed, bare).ok().filter(|b| b.0 < EXACT) {
            assert_eq!(parse_bytes(&format!("{}B", bytes.0), bare).ok(), Some(bytes));
        }
    }
    if let Some(rate) = parse_rate(typed).ok().filter(|r| r.0 < EXACT) {
        assert_eq!(parse_rate(&format!("{}bit", rate.0)).ok(), Some(rate));
    }
    if let Some(span) = parse_span(typed).ok().filter(|s| s.0 < EXACT) {
        assert_eq!(parse_span(&format!("{}ns", span.0)).ok(), Some(span));
    }
    for rate in range::expand(typed).unwrap_or_default() {
        assert!(parse_offered(&rate).is_ok());
    }
    if let Ok(share) = parse_share(typed) {
        assert!((0.0..=1.0).contains(&share));
    }
    if let Ok(count) = parse_count(typed) {
        assert_eq!(parse_count(&count.to_string()).ok(), Some(count));
    }
}
