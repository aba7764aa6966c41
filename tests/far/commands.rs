//! Server commands of pairs that an operator allows: nothing runs without a file of theirs, and with it that command alone,
//! whatever a client asks for.

// Clippy's leave for tests ends at functions that are no tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use deadheat::records::commands::ProgramCopy;
use deadheat::server::AllowedPairs;
use deadheat::time::Nanos;
use deadheat::transport::Address;
use deadheat::transport::commands::CopySet;
use deadheat::trial::control::pairs::{CommandAsk, PairList, PairOffer};
use deadheat::trial::control::{FromAgent, FromServer, ToAgent};
use serde_json::Value;
use tempfile::TempDir;

use super::far::{Client, Far, KEPT, Manner, Seen, open, plan};

/// A server whose operator allows the pair of a file in `folder`.
fn allowing(manner: Manner, folder: &Path, ports: Option<&str>) -> Far {
    let file = folder.join("pair.toml");
    let text = "server = 'sh {pair}/serve {port} {bytes}'\nclient = 'sh {port}'\ntimeout = '2s'";
    std::fs::write(&file, text).unwrap();
    std::fs::write(folder.join("serve"), "exit 0\n").unwrap();
    let pairs = AllowedPairs::parse(&[file.display().to_string()], ports).unwrap();
    Far::with(manner, |config| config.pairs = pairs)
}

/// A server that allows the pair of a file in a fresh folder, a client of it, and what the client is offered.
fn offered() -> (TempDir, Far, Client, PairOffer) {
    let folder = tempfile::tempdir().unwrap();
    let far = allowing(Manner::Right, folder.path(), None);
    let mut client = far.client();
    let offer = listed(&mut client, "pair").offers.remove(0);
    (folder, far, client, offer)
}

fn listed(client: &mut Client, name: &str) -> PairList {
    client.say(&ToAgent::Pairs { name: name.to_owned() });
    match client.hear() {
        FromServer::Pairs(list) => *list,
        other => panic!("{other:?}"),
    }
}

fn ask(offer: &PairOffer) -> CommandAsk {
    CommandAsk {
        name: offer.terms.name.clone(),
        offer: offer.digest.clone(),
        is_transfer: true,
        bytes: Some(1_000),
        time_ns: None,
        seed: 7,
        set: CopySet::Contenders,
    }
}

fn command(ask: &CommandAsk) -> ToAgent {
    ToAgent::Command(Box::new(ask.clone()))
}

/// Returns the plan of the next command that the server starts.
fn next_plan(far: &Far) -> Value {
    loop {
        match far.next_seen() {
            Seen::Command(plan) => return *plan,
            Seen::Killed => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn without_a_file_of_the_operator_no_command_runs() {
    let far = Far::new(Manner::Right);
    let mut client = far.client();
    assert_eq!(listed(&mut client, "pair"), PairList::default());
    let (name, offer) = ("pair".to_owned(), "0".repeat(64));
    let set = CopySet::Contenders;
    let any =
        CommandAsk { name, offer, is_transfer: true, bytes: Some(1), time_ns: None, seed: 1, set };
    client.say(&command(&any));
    let why = client.refusal();
    assert!(why.contains("runs no command of this name"), "{why}");
    // A contender with commands in it is refused unread.
    let mut asked = plan();
    asked.contender = "cmd:file=/etc/hostname".into();
    client.say(&open(&asked));
    let why = client.refusal();
    assert!(!why.contains("hostname:"), "{why}");
    assert!(far.seen.try_recv().is_err(), "nothing was started");
}

#[test]
fn with_one_a_client_gives_values_and_the_operators_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let far = allowing(Manner::Right, folder.path(), Some("5300-5303"));
    let mut client = far.client();
    let list = listed(&mut client, "pair");
    let offer = &list.offers[0];
    let script = folder.path().canonicalize().unwrap().join("serve").display().to_string();
    assert!(offer.files.iter().any(|file| file.path == script), "{:?}", offer.files);
    for (wrong, said) in [
        (CommandAsk { name: "other".into(), ..ask(offer) }, "runs no command of this name"),
        (CommandAsk { offer: "0".repeat(64), ..ask(offer) }, "has changed since"),
        (CommandAsk { bytes: None, ..ask(offer) }, "no number of bytes"),
        (CommandAsk { is_transfer: false, bytes: None, ..ask(offer) }, "{bytes}"),
        (CommandAsk { bytes: Some(1 << 40), ..ask(offer) }, "raise --max-bytes"),
        (CommandAsk { time_ns: Some(Nanos::from_secs(61)), ..ask(offer) }, "--max-duration"),
    ] {
        client.say(&command(&wrong));
        let why = client.refusal();
        assert!(why.contains(said), "{why}");
    }
    assert!(far.seen.try_recv().is_err(), "nothing was started");
    for trial in 7..=8 {
        client.say(&command(&ask(offer)));
        let kept: std::net::SocketAddr = KEPT.parse().unwrap();
        let at = std::net::SocketAddr::new(far.address.ip(), kept.port());
        assert_eq!(client.ready(), Address::Ip(at), "the server's address, the command's port");
        assert!(matches!(client.hear_agent(), FromAgent::Connected));
        let plan = next_plan(&far);
        assert_eq!(plan["values"]["bytes"], "1000");
        assert_eq!(plan["server"], format!("{}:0", far.address.ip()));
        assert_eq!(plan["command"]["typed"], "sh {pair}/serve {port} {bytes}");
        assert_eq!(plan["largest_file"], 100_000_000_000_u64);
        assert_eq!(plan["ports"].as_array().unwrap().len(), 4);
        client.finish_trial();
        let done = far.line_with("done");
        assert!(done.contains(&format!("trial {} command pair 1.00 kB", trial - 6)), "{done}");
        assert!(!done.contains("sent"), "nobody counted its bytes: {done}");
    }
}

#[test]
fn a_command_that_changes_is_not_run_for_who_was_offered_the_other() {
    let (folder, _far, mut client, offer) = offered();
    std::fs::write(folder.path().join("serve"), "exit 1 # and more\n").unwrap();
    client.say(&command(&ask(&offer)));
    let why = client.refusal();
    assert!(why.contains("has changed since"), "{why}");
    let list = listed(&mut client, "pair");
    client.say(&command(&ask(&list.offers[0])));
    client.ready();
}

/// A server copies a program that the operator's file names by its path, twice, and runs the copies.
#[test]
fn a_program_of_the_operator_runs_as_a_copy_and_for_the_control_as_another() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pair.toml").display().to_string();
    let text = "server = '{pair}/sh -c true {port}'\nclient = 'sh {port}'";
    std::fs::write(&file, text).unwrap();
    let program = folder.path().join("sh");
    std::fs::copy("/bin/sh", &program).unwrap();
    let pairs = AllowedPairs::parse(&[file], None).unwrap();
    let far = Far::with(Manner::Right, |config| config.pairs = pairs);
    let mut client = far.client();
    let offer = listed(&mut client, "pair").offers.remove(0);
    assert_eq!(offer.files[0].path, program.canonicalize().unwrap().display().to_string());
    assert_eq!(offer.files[0].copy, Some(ProgramCopy::Made));
    let ran = [CopySet::Contenders, CopySet::Control, CopySet::Contenders].map(|set| {
        client.say(&command(&CommandAsk { set, ..ask(&offer) }));
        client.ready();
        assert!(matches!(client.hear_agent(), FromAgent::Connected));
        let plan = next_plan(&far);
        client.finish_trial();
        plan["command"]["words"][0].as_str().unwrap().to_owned()
    });
    let content = std::fs::read(&program).unwrap();
    for copy in &ran {
        assert!(!copy.starts_with(folder.path().to_str().unwrap()), "{ran:?}");
        assert_eq!(std::fs::read(copy).unwrap(), content);
    }
    assert!(ran[0] == ran[2] && ran[0] != ran[1], "{ran:?}");
}

#[test]
fn a_second_command_beside_the_first_ends_both() {
    let (_folder, far, mut client, offer) = offered();
    client.say(&command(&ask(&offer)));
    client.ready();
    client.say(&command(&ask(&offer)));
    let rest = String::from_utf8_lossy(&client.rest()).into_owned();
    assert!(rest.contains("a new trial before the last one ended"), "{rest}");
    assert!(matches!(far.next_seen(), Seen::Command(_)));
    assert!(matches!(far.next_seen(), Seen::Killed));
}

#[test]
fn a_client_that_vanishes_takes_its_command_with_it_and_another_waits_for_the_turn() {
    let (_folder, far, mut client, offer) = offered();
    client.say(&command(&ask(&offer)));
    client.ready();
    client.say(&ToAgent::Start);
    assert!(matches!(far.next_seen(), Seen::Command(_)));
    let mut other = far.client();
    other.say(&command(&ask(&offer)));
    assert_eq!(other.hear(), FromServer::Queued { ahead: 1 }, "one turn for all");
    drop(client);
    assert!(matches!(far.next_seen(), Seen::Killed));
    other.ready();
    far.line_with("abandoned after");
}

/// A command that is never ready holds the turn for its own time and that of a trial that does not begin.
#[test]
fn a_command_that_is_never_ready_and_a_client_that_never_begins_give_the_turn_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pair.toml").display().to_string();
    let text = "server = 'sh {port}'\nclient = 'sh {port}'\ntimeout = '100ms'";
    std::fs::write(&file, text).unwrap();
    for manner in [Manner::Mute, Manner::Right] {
        let pairs = AllowedPairs::parse(std::slice::from_ref(&file), None).unwrap();
        let far = Far::with(manner, |config| {
            config.pairs = pairs;
            config.patience.grace = Nanos::from_millis(50);
        });
        let mut client = far.client();
        let list = listed(&mut client, "pair");
        client.say(&command(&ask(&list.offers[0])));
        let late = far.line_with("failed after");
        assert!(late.contains("it did not begin within"), "{late}");
    }
}
