//! Tests of `analysis/differences.rs` of deadheat-result, on results of whole races.

use crate::race::Request;
use deadheat_contract::contract::Side;
use deadheat_contract::recorded::RecordedContender;
use deadheat_datapath::transport::Contender;
use deadheat_records::commands::{ProgramCopy, ProgramFile};
use deadheat_result::analysis::differences::*;
use deadheat_result::outcome::{Difference, Entrant, EntrantCommands};

fn between(specs: &[&str], change: impl FnOnce(&mut [Entrant])) -> Vec<Difference> {
    let mut checked = Request::new(specs.to_vec()).check().unwrap();
    change(&mut checked.entrants);
    differences(&checked.entrants, &recorded(&checked.contenders))
}

fn recorded(contenders: &[Contender]) -> Vec<RecordedContender> {
    contenders.iter().map(RecordedContender::from).collect()
}

fn what(found: &[Difference]) -> Vec<&str> {
    found.iter().map(|difference| difference.what.as_str()).collect()
}

#[test]
fn equals_have_no_differences() {
    assert_eq!(between(&["udp", "udp"], |_| ()), []);
    assert_eq!(between(&["tcp"], |_| ()), []);
}

#[test]
fn transports_differ_by_their_promises() {
    let found = between(&["tcp", "udp"], |_| ());
    for expected in ["delivery", "ordering", "framing", "congestion"] {
        assert!(what(&found).contains(&expected), "{found:?}");
    }
    assert!(!what(&found).contains(&"far end"));
    assert_eq!(found[0].values["udp"], "lost messages are gone");
    assert!(found.iter().all(|difference| !difference.matters.is_empty()));
}

#[test]
fn what_the_parts_of_a_mix_promise_is_told_of_each_where_it_differs() {
    let request = Request::new(["mix:events=tcp,state=udp", "quic"]).workload("events");
    let checked = request.check().unwrap();
    let found = differences(&checked.entrants, &recorded(&checked.contenders));
    let of = |what: &str| {
        let found = found.iter().find(|difference| difference.what == what);
        found.map(|found| found.values["mix:events=tcp,state=udp"].as_str())
    };
    let delivery = "events: lost messages are sent again; state: lost messages are gone";
    assert_eq!(of("delivery"), Some(delivery));
    assert_eq!(of("encryption"), Some("plain"));
    assert_eq!(of("far end"), None);
}

#[test]
fn an_implementation_is_one_of_several_where_there_are_others() {
    let found = between(&["tcp", "quic", "kcp"], |_| ());
    let by = found.iter().find(|difference| difference.what == "implementation").unwrap();
    assert_eq!(by.values["tcp"], "the kernel's");
    let [of_quic, of_kcp] = ["quic", "kcp"].map(|label| by.values[label].as_str());
    assert!(of_quic.starts_with("quinn-proto ") && of_quic.ends_with(", one of several of QUIC"));
    assert!(of_kcp.starts_with("kcp ") && !of_kcp.contains("several"), "{of_kcp}");
    assert!(!what(&between(&["tcp", "udp"], |_| ())).contains(&"implementation"));
}

#[test]
fn a_kernel_that_answers_is_told() {
    let found = between(&["udp", "icmp"], |_| ());
    assert!(what(&found).contains(&"far end"), "{found:?}");
}

#[test]
fn what_is_in_force_is_told_once_and_before_what_was_asked() {
    let found = between(&["tcp:cc=cubic", "tcp:cc=reno"], |entrants| {
        entrants[0].effective.insert("cc".into(), "cubic".into());
        entrants[1].effective.insert("cc".into(), "reno".into());
    });
    assert_eq!(what(&found), ["cc (effective)"]);
    let found = between(&["tcp:cc=cubic", "tcp:cc=reno"], |_| ());
    assert_eq!(what(&found), ["cc (asked)"]);
    let found = between(&["udp", "udp"], |entrants| {
        entrants[0].effective.insert("rcvbuf".into(), "212992".into());
        entrants[1].effective.insert("rcvbuf".into(), "425984".into());
    });
    assert_eq!(what(&found), ["rcvbuf (effective)"]);
    assert!(found[0].matters.contains("buffer"));
}

#[test]
fn every_knob_says_why_it_matters() {
    for info in deadheat_datapath::transport::ALL.iter().map(|transport| transport.info()) {
        let meanings = info.meanings();
        for key in info.keys {
            let meaning = meanings.iter().find(|meaning| meaning.name == key.name);
            assert!(meaning.is_some(), "{}: {} does not say why it matters", info.id, key.name);
        }
    }
}

#[test]
fn programs_that_are_copied_differ_from_others() {
    let found = |copies: [Option<ProgramCopy>; 2]| {
        let found = between(&["udp", "udp"], |entrants| {
            for (entrant, copy) in entrants.iter_mut().zip(copies) {
                let (side, path, sha256) = (Side::Near, "/x".into(), "0".repeat(64));
                let files = vec![ProgramFile { side, path, bytes: 1, sha256, copy }];
                entrant.commands =
                    Some(Box::new(EntrantCommands { files, ..EntrantCommands::default() }));
            }
        });
        what(&found).contains(&"programs")
    };
    assert!(found([Some(ProgramCopy::Made), Some(ProgramCopy::Large)]));
    assert!(!found([Some(ProgramCopy::Made); 2]) && !found([None, Some(ProgramCopy::Off)]));
}

#[test]
fn who_dropped_out_does_not_differ() {
    let found = between(&["tcp", "udp"], |entrants| {
        entrants[1].blocked = Some("no answer".into());
    });
    assert_eq!(found, []);
}
