//! The page: one file, with its style and its script in it, and a policy that admits only these, by their hashes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::carriers::KINDS;
use crate::http::Answer;

const BODY: &str = include_str!("page/body.html");
const STYLE: &str = include_str!("page/page.css");

/// Scripts in their order: what all share, the carriers of the page's own port, trials, the address, and the race. The scripts
/// of other carriers stand before the last.
const SHARED: &[&str] = &[
    include_str!("page/shared.js"),
    include_str!("page/websocket.js"),
    include_str!("page/fetch.js"),
    include_str!("page/trial.js"),
    include_str!("page/address.js"),
];
const RACE: &str = include_str!("page/race.js");

/// Returns the page for a browser that reached this server by this name, with the style of reports before its own.
pub(crate) fn answer(host: &str, of_reports: &str) -> Answer {
    let style = format!("{of_reports}{STYLE}");
    let script = script();
    let policy = policy(&style, &script, host);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>deadheat: race transports from this browser</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <style>{style}</style></head>\n<body>\n{BODY}<script>{script}</script></body></html>\n"
    );
    let mut answer = Answer::new(200, "text/html; charset=utf-8", page);
    answer.fields.push(("content-security-policy", policy));
    answer
}

fn script() -> String {
    let others = KINDS.iter().map(|kind| kind.script);
    SHARED.iter().copied().chain(others).chain([RACE]).collect()
}

/// Returns the policy: this style, this script, and connections to this host alone.
fn policy(style: &str, script: &str, host: &str) -> String {
    // A host in brackets (IPv6) cannot stand in a policy (CSP Level 3, section 2.3.1).
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let others = if !name.is_empty() && name.chars().all(is_plain) {
        format!("ws://{name}:* wss://{name}:* https://{name}:*")
    } else {
        "ws: wss: https:".to_owned()
    };
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; \
         connect-src 'self' {others}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(style),
        hash(script)
    )
}

/// Returns the hash of an element's text, in the syntax of a policy.
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_one_file_that_asks_nobody_else() {
        let page = String::from_utf8(answer("localhost:5280", "").body).unwrap();
        for absent in
            ["http:", "https:", "src=", "@import", "url(", "eval(", "innerHTML", " onclick"]
        {
            let found = page.find(absent).map(|at| &page[at.saturating_sub(60)..at + 20]);
            assert_eq!(found, None, "{absent}");
        }
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("</script").count(), 1);
        assert_eq!(page.matches("<style").count(), 1);
    }

    #[test]
    fn the_policy_names_this_host_alone() {
        let of = |host: &str| policy("", "", host);
        assert!(
            of("192.0.2.1:5280").contains("connect-src 'self' ws://192.0.2.1:* wss://192.0.2.1:*")
        );
        assert!(of("[::1]:5280").contains("connect-src 'self' ws: wss: https:;"));
        assert!(!of("a; script-src *").contains("script-src *"));
    }
}
