//! A server that keeps to the protocol until a trial is under way, and then says what has no meaning.
// Clippy's leave for tests ends at functions that are no tests themselves.
#![allow(clippy::unwrap_used)]

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use deadheat::server::DEFAULT_LIMITS;
use deadheat::transport::Address;
use deadheat::trial::control::{
    AgentReport, FromAgent, FromServer, Greeting, PROTOCOL, ToAgent, read, write, write_frame,
};

/// Lets a client in, says `body` in its first trial, and answers nothing from then on. Returns the number of further trials that
/// the client asks for.
fn serve(mut client: TcpStream, body: &str) -> usize {
    read::<Greeting>(&mut client).unwrap();
    let (version, limits) = ("0.1.0".to_owned(), DEFAULT_LIMITS);
    let welcome = FromServer::Welcome {
        protocol: PROTOCOL,
        version,
        nonce: None,
        limits,
        echoes: false,
        answers_probes: false,
        relays: false,
        commands: false,
    };
    write(&mut client, &welcome).unwrap();
    write(&mut client, &FromServer::Facts(Box::new(deadheat::host::facts::gather()))).unwrap();
    assert!(matches!(read(&mut client).unwrap(), ToAgent::Open(_)));
    let endpoint = Address::Ip(client.local_addr().unwrap());
    write(&mut client, &FromAgent::Ready { endpoint }).unwrap();
    write_frame(&mut client, body.as_bytes()).unwrap();
    // Until the client hangs up.
    let words = std::iter::from_fn(|| read::<ToAgent>(&mut client).ok());
    words.filter(|word| matches!(word, ToAgent::Open(_))).count()
}

/// Returns the words of a race against such a server; the race asks for no second trial.
fn race_against(body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(listener.accept().unwrap().0, body));
        let ran = Command::new(env!("CARGO_BIN_EXE_deadheat"))
            .args([
                "race",
                "--idle",
                "host",
                "udp",
                "-w",
                "ping:count=30",
                "--blocks",
                "1",
                "-q",
                "--to",
                &address,
            ])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(1));
        assert_eq!(server.join().unwrap(), 0, "it went on");
        String::from_utf8(ran.stderr).unwrap()
    })
}

/// It was once told after two trials that hung, and then that `done` is no word of a server.
#[test]
fn a_figure_that_is_no_number_ends_the_race_at_once_and_is_shown() {
    let report = AgentReport { steal_share: Some(0.0), ..AgentReport::default() };
    let report = FromAgent::Done(Box::new(report));
    let done = serde_json::to_string(&report).unwrap();
    let against = |figure: &str, why: &str| {
        let body = done.replace("\"steal_share\":0.0", &format!("\"steal_share\":{figure}"));
        assert_ne!(body, done);
        let said = race_against(&body);
        assert!(said.contains(why) && said.contains("127.0.0.1"), "{said}");
        assert!(said.contains(&format!("\"steal_share\":{figure}")), "{said}");
        assert!(!said.contains("unknown variant"), "{said}");
    };
    std::thread::scope(|scope| {
        for (figure, why) in [
            ("NaN", "expected value"),
            ("-Infinity", "invalid number"),
            ("1e999", "number out of range"),
            ("\"0\"", "invalid type: string \"0\", expected f64"),
        ] {
            let against = &against;
            scope.spawn(move || against(figure, why));
        }
    });
}

#[test]
fn a_word_that_is_none_ends_the_race_at_once_and_is_named() {
    let said = race_against(r#"{"dane":{}}"#);
    assert!(said.contains("unknown variant `dane`") && said.contains("`done`"), "{said}");
    let said = race_against(r#"{"queued":{"ahead":"two"}}"#);
    assert!(said.contains("expected u32") && said.contains(r#""ahead":"two""#), "{said}");
}
