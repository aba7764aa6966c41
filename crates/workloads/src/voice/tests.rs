//! Settings that are accepted, and those that are refused.

use super::*;
use deadheat_contract::contract::{Guarantees, PeerFacts};
use deadheat_contract::workload::{self, PathKind};

#[test]
fn any_transport_may_carry_a_voice_but_an_echo_cannot_listen() {
    let task = workload::parse("voice").unwrap();
    for promised in [&Guarantees::DATAGRAMS, &Guarantees::BYTE_STREAM] {
        assert_eq!(workload::misfit(&*task, promised, PeerFacts::OURS), None);
    }
    assert!(
        workload::misfit(&*task, &Guarantees::DATAGRAMS, PeerFacts::ECHO)
            .unwrap()
            .contains("only echoes")
    );
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
    assert!(say("voice:codec=opus").contains("g711"));
    assert!(say("voice:frame=1ms").contains("outside"));
    assert!(say("voice:size=19").contains("outside"));
    let elsewhere = Setting { kind: PathKind::Remote, ..Setting::LOOPBACK };
    assert!(workload::parse_on("voice", &elsewhere).is_ok(), "clocks of two hosts are compared");
}

#[test]
fn what_it_says_of_itself_is_the_same_work_again() {
    let task = workload::parse("voice:buffer=80ms").unwrap();
    assert_eq!(
        workload::parse(&task.info().spec.to_string()).unwrap().info().spec,
        task.info().spec
    );
    assert_eq!(task.info().planned, Some(Nanos::from_secs(4)));
}
