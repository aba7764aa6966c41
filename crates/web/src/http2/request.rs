//! Headers of requests of works on streams of HTTP/2, and of the answers.

use std::sync::Arc;

use deadheat_far_ends::hpack::{self, HeaderField};

use crate::requests::{CONNECTION, Reply, WorkRequest};
use crate::work::Tickets;
use deadheat_base::time::Nanos;

/// Terms on which requests are answered.
pub(super) struct Terms {
    pub tickets: Arc<dyn Tickets>,
    /// Port of the page, which alone may ask.
    pub page: u16,
}

/// Reads the header of a request; returns the origin of the page, and the request.
pub(super) fn read(now: Nanos, fields: &[HeaderField], terms: &Terms) -> (String, WorkRequest) {
    let field = |name: &str| {
        let found = fields.iter().find(|(own, _)| own == name.as_bytes());
        found.and_then(|(_, value)| std::str::from_utf8(value).ok()).unwrap_or_default()
    };
    let (origin, path) = (field("origin"), field(":path"));
    let request = if !is_of_page(origin, field(":authority"), terms.page) {
        WorkRequest::refused(403, "only this server's page may ask that")
    } else if field(":method") != "POST" {
        WorkRequest::refused(405, "the page asks with POST")
    } else {
        let target = path.split_once('?').unwrap_or((path, ""));
        WorkRequest::new(now, target, field("content-length").parse().ok(), &terms.tickets)
    };
    (origin.to_owned(), request)
}

/// Returns the header of an answer, with the number of the request on its connection and the time before it.
pub(super) fn header(reply: &Reply, origin: &str, connection: &str) -> Vec<u8> {
    hpack::header(&[
        (":status", &reply.status.to_string()),
        ("content-type", "application/octet-stream"),
        ("cache-control", "no-store"),
        (CONNECTION, connection),
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", CONNECTION),
        ("timing-allow-origin", origin),
        ("cross-origin-resource-policy", "same-site"),
        ("vary", "origin"),
    ])
}

/// Returns true for the origin of the page: this host by the same name, at the page's port.
fn is_of_page(origin: &str, authority: &str, page: u16) -> bool {
    let port_and_name = |text: &str| -> Option<(String, u16)> {
        match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => {
                Some((name.to_owned(), port.parse().ok()?))
            }
            _ => Some((text.to_owned(), 443)),
        }
    };
    let own = origin.strip_prefix("https://").and_then(port_and_name);
    let reached = port_and_name(authority);
    matches!((own, reached), (Some((own, port)), Some((name, _))) if own == name && port == page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_alone_may_ask() {
        assert!(is_of_page("https://far:5280", "far:5282", 5_280));
        assert!(is_of_page("https://far", "far:445", 443));
        assert!(is_of_page("https://[::1]:5280", "[::1]:5282", 5_280));
        for (origin, authority) in [
            ("https://far:5281", "far:5282"),
            ("http://far:5280", "far:5282"),
            ("https://evil:5280", "far:5282"),
            ("https://far", "far:5282"),
            ("null", "far:5282"),
            ("", ""),
        ] {
            assert!(!is_of_page(origin, authority, 5_280), "{origin}");
        }
    }
}
