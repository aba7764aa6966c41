use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tungstenite::Message;

use crate::testing::{ask, ask_json, with_host, with_server};
use crate::udp::testing::{is_answer, ping};

const RACE: &str = r#"{"contenders":["websocket","fetch"],"work":{"ping":{"size":64,"count":20,"interval_ms":1}},"blocks":2,
    "seed":7,"page":{"browser":"a test","step_ms":0.1,"loopback_ms":0.05,"isolated":true}}"#;

/// Sends pings over WebSocket, and returns the number that came back.
fn ping_websocket(to: SocketAddr, ticket: &str) -> usize {
    let stream = TcpStream::connect(to).unwrap();
    let (mut socket, _) = tungstenite::client(format!("ws://{to}/websocket"), stream).unwrap();
    socket.send(Message::text(json!({ "ticket": ticket }).to_string())).unwrap();
    let ready: Value = serde_json::from_slice(&socket.read().unwrap().into_data()).unwrap();
    assert_eq!(ready["ready"], true, "{ready}");
    let mut back = 0;
    for number in 0..20 {
        let ping = ping(number, 64);
        socket.send(Message::binary(ping.clone())).unwrap();
        back += usize::from(is_answer(&socket.read().unwrap().into_data(), &ping));
    }
    back
}

/// Sends two pings by requests on one connection, and returns the answers.
fn ping_fetch(to: SocketAddr, ticket: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    for (path, body) in
        [("ping", "\0\0\0\0\0\0\0\0\0\0\0a"), ("ping", "\0\0\0\0\0\0\0\0\0\0\0b"), ("end", "")]
    {
        let request = format!(
            "POST /fetch/{path}?ticket={ticket} HTTP/1.1\r\nHost: {to}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
    }
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    answers
}

#[test]
fn a_race_goes_from_plan_to_result() {
    with_server(|to| {
        let plan = ask_json(to, "/plan", RACE);
        let race = plan["race"].as_str().unwrap();
        let trials = plan["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 6);
        let trips = vec!["2.5"; 20].join(",");
        for (n, contender) in trials.iter().enumerate() {
            let lost = ask_json(to, &format!("/begin?race={race}&n={n}"), "");
            let begun = ask_json(to, &format!("/begin?race={race}&n={n}"), "");
            let ticket = begun["ticket"].as_str().unwrap();
            let lost = ping_fetch(to, lost["ticket"].as_str().unwrap());
            assert!(lost.contains("403 Forbidden"), "a turn that is asked for again: {lost}");
            let (status, early) = ask(to, "POST", &format!("/begin?race={race}&n={}", n + 1), "");
            assert_eq!(status, 400, "{early}");
            match contender.as_str().unwrap() {
                "websocket" => assert_eq!(ping_websocket(to, ticket), 20),
                _ => {
                    let answers = ping_fetch(to, ticket);
                    assert!(answers.contains("\0a") && answers.contains("\0b"), "{answers}");
                    assert!(answers.contains("deadheat-connection: 2 "), "{answers}");
                }
            }
            let figures = format!("{{\"trips_ms\":[{trips}]}}");
            let after = ask_json(to, &format!("/trial?race={race}&n={n}"), &figures);
            // Of a page that did not receive the answer.
            assert_eq!(ask_json(to, &format!("/trial?race={race}&n={n}"), &figures), after);
            assert_eq!(after["left"], trials.len() - n - 1, "{after}");
            assert_eq!(after["why_invalid"], Value::Null, "{after}");
            assert_eq!(after["answer"].is_null(), n % 3 != 2);
        }
        let (status, result) = ask(to, "GET", &format!("/result/{race}.json"), "");
        let result: Value = serde_json::from_str(&result).unwrap();
        assert_eq!((status, result["trials"].as_array().unwrap().len()), (200, 6));
        assert_eq!(result["imported"]["pairing"]["by"], "plan");
        let (status, page) = ask(to, "GET", &format!("/result/{race}.html"), "");
        assert!(status == 200 && page.contains("WebSocket"), "{status}");
    });
}

#[test]
fn a_page_that_is_closed_gives_its_turn_back_and_one_that_lies_about_times_is_refused() {
    with_server(|to| {
        let plan = ask_json(to, "/plan", RACE);
        let race = plan["race"].as_str().unwrap();
        let begin =
            |race: &str, n: usize| ask(to, "POST", &format!("/begin?race={race}&n={n}"), "");
        assert_eq!(begin(race, 0).0, 200);
        let other = ask_json(to, "/plan", RACE);
        let other = other["race"].as_str().unwrap();
        assert_eq!(begin(other, 0).0, 503);
        ask_json(to, &format!("/leave?race={race}"), "");
        assert_eq!(begin(other, 0).0, 200);
        let trips = vec!["90000"; 20].join(",");
        let figures = format!("{{\"trips_ms\":[{trips}]}}");
        let after = ask_json(to, &format!("/trial?race={other}&n=0"), &figures);
        let why = after["why_invalid"].as_str().unwrap();
        assert!(why.contains("90000 ms is longer than the trial"), "{why}");
        assert_eq!(ask(to, "POST", "/leave?race=guessed", ""), (200, "{}".to_owned()));
    });
}

#[test]
fn strangers_without_a_ticket_get_nothing() {
    with_server(|to| {
        assert!(ping_fetch(to, "guessed").contains("403 Forbidden"));
        let stream = TcpStream::connect(to).unwrap();
        let (mut socket, _) = tungstenite::client(format!("ws://{to}/websocket"), stream).unwrap();
        socket.send(Message::text("{\"ticket\":\"guessed\"}")).unwrap();
        let said = socket.read().unwrap().into_text().unwrap().to_string();
        assert!(said.contains("refused") && socket.read().unwrap().is_close(), "{said}");
        for (path, body, status) in [
            ("/plan", "{}", 400),
            ("/plan", &"{".repeat(5_000), 413),
            ("/begin?race=guessed&n=0", "", 400),
            ("/trial?race=guessed&n=0", "{}", 400),
            ("/signal/none", "offer", 404),
            ("/nothing", "", 404),
        ] {
            let (said, body) = ask(to, "POST", path, body);
            assert_eq!(said, status, "{path}: {body}");
        }
        assert_eq!(ask(to, "DELETE", "/", "").0, 405);
        assert_eq!(ask(to, "GET", "/result/../../etc/passwd.json", "").0, 404);
    });
}

/// A close with bytes unread would reset the connection, and the browser would show an error of its own.
#[test]
fn a_refusal_arrives_before_its_body_was_read() {
    with_server(|to| {
        let body = vec![b'a'; 1 << 20];
        for (path, host, status) in [
            ("/plan", to.to_string(), "413 Content Too Large"),
            ("/plan", "elsewhere".to_owned(), "421 Misdirected Request"),
            ("/fetch/up?ticket=guessed", to.to_string(), "403 Forbidden"),
            ("/fetch/nothing", to.to_string(), "404 Not Found"),
        ] {
            let mut stream = TcpStream::connect(to).unwrap();
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(request.as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
        }
    });
}

/// Bytes that are announced and never come cost nothing, whatever is asked for.
#[test]
fn what_came_is_charged_and_not_what_was_announced() {
    with_host(|to, host| {
        for path in ["/plan", "/begin", "/trial", "/leave", "/signal/datachannel", "/nothing"] {
            let mut stream = TcpStream::connect(to).unwrap();
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: {to}\r\nContent-Length: 2000000000000\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
            let charged = std::mem::take(&mut *host.charged.lock().unwrap());
            assert!(charged.iter().all(|bytes| *bytes < 4_000), "{path}: {charged:?}");
        }
        ask_json(to, "/plan", RACE);
        let [_, received] = *host.charged.lock().unwrap();
        assert!(received >= RACE.len() as u64, "what came counts");
    });
}

#[test]
fn a_page_by_a_name_of_someone_else_is_not_given() {
    with_server(|to| {
        for (host, status) in [("evil.example:5280", "421"), ("localhost:5280", "200")] {
            let mut stream = TcpStream::connect(to).unwrap();
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer:.200}");
        }
    });
}

#[test]
fn a_page_of_someone_else_may_not_ask() {
    with_server(|to| {
        let mut stream = TcpStream::connect(to).unwrap();
        let request = format!(
            "POST /plan HTTP/1.1\r\nHost: {to}\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    });
}
