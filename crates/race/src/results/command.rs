//! Tests of `command.rs` of deadheat-result, on results of whole races.

use crate::race::Request;
use deadheat_result::command::*;

#[test]
fn a_command_has_what_was_asked_and_nothing_else() {
    let request = Request::new(["tcp", "tcp:cc=bbr"]).workload("ping:count=20").blocks(8);
    let said = line(&request.asked());
    assert!(said.starts_with("deadheat race tcp tcp:cc=bbr --workload ping:"), "{said}");
    assert!(said.ends_with(" --path loopback --blocks 8 --confidence 95%"), "{said}");
    let said = line(&request.to("far.example").family(6).explain().asked());
    assert!(said.contains(" --to far.example -6 --blocks 8 "), "{said}");
    assert!(said.ends_with(" --explain") && !said.contains("--path"), "{said}");
    let said = line(&Request::new(["tcp"]).to("a").to("b").asked());
    assert!(said.contains(" --to a --to b"), "{said}");
}

#[test]
fn what_a_shell_would_obey_is_quoted() {
    assert_eq!(quoted("tcp:cc=bbr,nodelay=off"), "tcp:cc=bbr,nodelay=off");
    assert_eq!(quoted("size=64|1kB"), "'size=64|1kB'");
    assert_eq!(quoted("it's $(x) `y`"), "'it'\\''s $(x) `y`'");
    assert_eq!(quoted(""), "''");
    assert_eq!(quoted("größer"), "'größer'");
    assert_eq!(quoted("a\n\u{1b}'1\\"), "$'a\\012\\033\\'1\\\\'");
    assert_eq!(quoted("\u{202e}7"), "$'\\342\\200\\2567'");
}

#[test]
fn what_looks_like_an_option_is_none() {
    let mut asked = Request::new(["-o", "tcp"]).placement("--force").asked();
    asked.workload = "w".into();
    assert_eq!(
        line(&asked),
        "deadheat race --workload w --path loopback --placement=--force --budget 50s \
         --confidence 95% -- -o tcp"
    );
}
