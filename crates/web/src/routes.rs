//! Requests of a page, and the answer to each.

use serde_json::{Value, json};

use crate::carrier::PageSignal;
use crate::exchange::Exchanges;
use crate::http::{Answer, BadRequest, RequestHead, Requests};
use crate::server::WebServer;
use crate::{carriers, names, page, websocket};
use deadheat_datapath::transport::responder::NoGrant;
use deadheat_import::browser::MOST_BLOCKS;

/// Bytes of the longest bodies: a race that is asked for, a message to a carrier, the figures of a trial.
const LONGEST_RACE: usize = 4 << 10;
const LONGEST_SIGNAL: usize = 64 << 10;
const LONGEST_FIGURES: usize = 512 << 10;

/// Answers the requests of a connection until it ends.
pub(crate) fn serve(server: &WebServer<'_>, mut requests: Requests<'_>) {
    let mut exchanges = Exchanges::default();
    let since = requests.channel.since;
    loop {
        let head = match requests.next(|| exchanges.is_kept(server, since)) {
            Ok(Some(head)) => head,
            Ok(None) => return,
            Err(bad) => {
                // It may be gone, or speak no HTTP.
                let _ = requests.answer(&bad.into());
                return;
            }
        };
        if !server.names.has(&head.host) {
            let _ = requests.answer(&Answer::refusal(421, names::UNKNOWN));
            return;
        }
        if !head.is_of_page() {
            let _ = requests.answer(&Answer::refusal(403, "only this server's page may ask that"));
            return;
        }
        match (head.method.as_str(), head.path.as_str()) {
            ("GET", "/websocket") => return websocket::work(server, requests, &head),
            ("GET", "/clock") => return websocket::clock(server, requests, &head),
            ("POST", path) if path.starts_with("/fetch/") => {
                match exchanges.answer(server, &mut requests, &head) {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return,
                }
            }
            _ => {
                let answer = beside(server, &mut requests, &head);
                // What came counts, and not what was announced.
                let bytes = [answer.body.len() + 1_000, requests.take_received() + 1_000];
                let answer = match server.beside(&requests.channel, bytes) {
                    Ok(()) => answer,
                    Err(why) => Answer::refusal(429, why),
                };
                let _ = requests.answer(&answer);
                return;
            }
        }
    }
}

/// Returns the answer to a request beside trials. The connection ends with it, so that none is left over for a trial.
fn beside(server: &WebServer<'_>, requests: &mut Requests<'_>, head: &RequestHead) -> Answer {
    let most = match head.path.as_str() {
        "/trial" => LONGEST_FIGURES,
        path if path.starts_with("/signal/") => LONGEST_SIGNAL,
        _ => LONGEST_RACE,
    };
    let body = match requests.body(head, most) {
        Ok(body) => body,
        Err(BadRequest(status, why)) => return Answer::refusal(status, why),
    };
    match (head.method.as_str(), head.path.as_str()) {
        ("GET", "/") => {
            server.host().greet(requests.channel.peer, "the page");
            page::answer(&head.host, server.reports.style)
        }
        ("GET", "/facts") => Answer::json(&facts(server)),
        ("GET", path) if path.starts_with("/result/") => result(server, path),
        ("POST", "/plan") => said(server.races.plan(requests.channel.peer.ip(), &body), 400),
        ("POST", "/begin") => begin(server, requests, head),
        ("POST", "/trial") => trial(server, head, &body),
        ("POST", "/leave") => leave(server, head),
        ("POST", path) if path.starts_with("/signal/") => signal(server, requests, path, &body),
        ("GET" | "POST", _) => Answer::refusal(404, "there is no such page"),
        _ => Answer::refusal(405, "the page asks with GET and POST"),
    }
}

/// Returns the facts that the page's script needs.
fn facts(server: &WebServer<'_>) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "tls": server.is_secure(),
        "contenders": carriers::listed(),
        "carriers": server.carriers.facts(),
    })
}

/// Returns a value, or the refusal with its status.
fn said(answer: Result<Value, String>, status: u16) -> Answer {
    match answer {
        Ok(value) => Answer::json(&value),
        Err(why) => Answer::refusal(status, &why),
    }
}

/// Returns the number of a trial that a request names.
fn number(head: &RequestHead) -> usize {
    head.asked("n").and_then(|n| n.parse().ok()).unwrap_or(usize::MAX)
}

fn begin(server: &WebServer<'_>, requests: &Requests<'_>, head: &RequestHead) -> Answer {
    let race = head.asked("race").unwrap_or_default();
    let next = match server.races.next(race, number(head)) {
        Ok(next) => next,
        Err(why) => return Answer::refusal(400, &why),
    };
    if let Some(stale) = &next.stale {
        server.end(stale, Some("its page asked for the turn again"));
    }
    match server.begin(requests.channel.peer, next) {
        Ok(ticket) => {
            server.races.begun(race, &ticket);
            Answer::json(&json!({ "ticket": ticket }))
        }
        Err(NoGrant::Busy | NoGrant::Soon) => {
            Answer::refusal(503, "another trial runs at this server")
        }
        Err(NoGrant::Refused(why)) => Answer::refusal(403, &why),
    }
}

fn trial(server: &WebServer<'_>, head: &RequestHead, body: &[u8]) -> Answer {
    let race = head.asked("race").unwrap_or_default();
    let after = match server.races.enter(race, number(head), body) {
        Ok(after) => after,
        Err(why) => return Answer::refusal(400, &why),
    };
    if let Some(ticket) = &after.ticket {
        server.end(ticket, after.why_invalid.as_deref());
    }
    let answer = after.outcome.as_ref().map(|one| (server.reports.answer)(one, MOST_BLOCKS));
    if let Some(outcome) = after.outcome {
        server.store.put(race, outcome);
    }
    Answer::json(&json!({
        "left": after.left,
        "why_invalid": after.why_invalid,
        "answer": answer,
    }))
}

/// Gives the turn of a page that is closed back.
fn leave(server: &WebServer<'_>, head: &RequestHead) -> Answer {
    if let Some(ticket) = server.races.leave(head.asked("race").unwrap_or_default()) {
        server.end(&ticket, Some("its page was closed"));
    }
    Answer::json(&json!({}))
}

fn signal(server: &WebServer<'_>, requests: &Requests<'_>, path: &str, body: &[u8]) -> Answer {
    let id = path.trim_start_matches("/signal/");
    let Ok(text) = std::str::from_utf8(body) else {
        return Answer::refusal(400, "a message to a carrier is text");
    };
    let Ok(reached) = requests.channel.reached() else {
        return Answer::refusal(503, "the connection has no address");
    };
    let from = requests.channel.peer.ip();
    match server.carriers.signal(id, &PageSignal { text, from, reached }) {
        None => Answer::refusal(404, "there is no such carrier here"),
        Some(Ok(answer)) => Answer::new(200, "text/plain; charset=utf-8", answer),
        Some(Err(why)) => Answer::refusal(503, &why),
    }
}

fn result(server: &WebServer<'_>, path: &str) -> Answer {
    let name = path.trim_start_matches("/result/");
    let found = match name.split_once('.') {
        Some((race, "html")) => server
            .store
            .with(race, server.reports.page)
            .map(|page| Answer::new(200, "text/html; charset=utf-8", page)),
        Some((race, "json")) => {
            server.store.json(race).map(|json| Answer::new(200, "application/json", json))
        }
        _ => None,
    };
    found.unwrap_or_else(|| Answer::refusal(404, "there is no such result, or it is forgotten"))
}
