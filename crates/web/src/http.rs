//! Requests and answers of HTTP/1.1 (RFC 9112), as far as a page needs them: a head of bounded size, a body of a known and
//! bounded length, and an answer at once or piece by piece.

use std::io;

use crate::channel::Channel;
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Bytes of the longest head of a request, and its number of fields.
const LONGEST_HEAD: usize = 16 << 10;
const MOST_FIELDS: usize = 64;

/// Bytes that are read at once.
const READ_AT_ONCE: usize = 16 << 10;

/// Time for a request that has begun, and for taking an answer.
pub(crate) const PATIENCE: Nanos = Nanos::from_secs(10);

/// Head of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RequestHead {
    pub method: String,
    /// Path without its query.
    pub path: String,
    /// Query without its question mark; empty if there is none.
    pub query: String,
    pub host: String,
    /// Origin of the page that asks, if the browser names one.
    pub origin: Option<String>,
    /// Key of a handshake of WebSocket, if it is one (RFC 6455, section 4.2.1).
    pub websocket_key: Option<String>,
    /// Bytes of the body.
    pub length: u64,
    /// True if the connection ends with the answer.
    pub closes: bool,
}

/// Request that cannot be answered as one: the status, and a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadRequest(pub u16, pub &'static str);

impl RequestHead {
    /// Reads a head from the bytes so far; `None` if it is not whole. Returns its length, too.
    ///
    /// # Errors
    /// The answer to bytes that are no head, or too long a one.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, BadRequest> {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let len = match request.parse(bytes) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Ok(None),
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Err(BadRequest(431, "the head of the request is too long"));
            }
            Err(_) => return Err(BadRequest(400, "this is no request of HTTP/1.1")),
        };
        let target = request.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut head = RequestHead {
            method: request.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            closes: request.version == Some(0),
            ..RequestHead::default()
        };
        let mut lengths = Vec::new();
        for field in request.headers.iter() {
            let Ok(value) = std::str::from_utf8(field.value) else { continue };
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("host") {
                head.host = value.trim().to_owned();
            } else if is("origin") {
                head.origin = Some(value.trim().to_owned());
            } else if is("sec-websocket-key") {
                head.websocket_key = Some(value.trim().to_owned());
            } else if is("connection") {
                head.closes |= value.to_ascii_lowercase().contains("close");
            } else if is("content-length") {
                lengths.push(value.trim());
            } else if is("transfer-encoding") {
                return Err(BadRequest(411, "a body has a length here"));
            }
        }
        head.length = match lengths[..] {
            [] => 0,
            [one] if !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_digit()) => {
                one.parse().map_err(|_| BadRequest(413, "the body is too long"))?
            }
            _ => return Err(BadRequest(400, "the length of the body is no number")),
        };
        Ok(Some((head, len)))
    }

    /// Returns a value of the query: letters, digits, dots and hyphens, which are not encoded.
    pub(crate) fn asked(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Returns true if it is of the page itself: a page of someone else that has a browser ask here names its own origin.
    pub(crate) fn is_of_page(&self) -> bool {
        let of_page = |origin: &str| {
            let bare = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            bare == Some(self.host.as_str())
        };
        self.origin.as_deref().is_none_or(of_page)
    }
}

/// Requests of a connection, one after the other.
pub(crate) struct Requests<'a> {
    pub channel: Channel<'a>,
    /// Bytes that were read and not used yet.
    rest: Vec<u8>,
    /// Number of bytes that arrived and were not charged yet.
    received: usize,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(channel: Channel<'a>) -> Requests<'a> {
        Requests { channel, rest: Vec::new(), received: 0 }
    }

    /// Reads the head of the next request. `is_kept` says after each silence of a moment whether the connection waits on;
    /// `None` if it ends instead.
    ///
    /// # Errors
    /// The answer to a request that is none, if the connection still takes one.
    pub(crate) fn next(
        &mut self,
        mut is_kept: impl FnMut() -> bool,
    ) -> Result<Option<RequestHead>, BadRequest> {
        let mut begun = (!self.rest.is_empty()).then(|| Monotonic.now());
        loop {
            if let Some((head, len)) = RequestHead::parse(&self.rest)? {
                self.rest.drain(..len);
                return Ok(Some(head));
            }
            let now = Monotonic.now();
            if begun.is_some_and(|begun| now > begun + PATIENCE) {
                return Err(BadRequest(408, "the request was not whole in time"));
            }
            match self.read_more(now + MOMENT) {
                Ok(()) => begun = begun.or(Some(now)),
                Err(e) if e.kind() == io::ErrorKind::TimedOut && (begun.is_some() || is_kept()) => {
                }
                Err(_) => return Ok(None),
            }
        }
    }

    fn read_more(&mut self, deadline: Nanos) -> io::Result<()> {
        let mut piece = [0; READ_AT_ONCE];
        let len = self.channel.read_until(&mut piece, deadline)?;
        self.rest.extend_from_slice(&piece[..len]);
        self.received += len;
        Ok(())
    }

    /// Reads a body of at most `most` bytes.
    ///
    /// # Errors
    /// The answer to a longer body, or to a late one.
    pub(crate) fn body(&mut self, head: &RequestHead, most: usize) -> Result<Vec<u8>, BadRequest> {
        if head.length > most as u64 {
            return Err(BadRequest(413, "the body is too long"));
        }
        let (len, deadline) = (head.length as usize, Monotonic.now() + PATIENCE);
        while self.rest.len() < len {
            let late = BadRequest(408, "the body was not whole in time");
            self.read_more(deadline).map_err(|_| late)?;
        }
        Ok(self.rest.drain(..len).collect())
    }

    /// Reads the next piece of a body of which `left` bytes are to come.
    ///
    /// # Errors
    /// `TimedOut` after the deadline; otherwise the error of a read.
    pub(crate) fn piece(&mut self, left: u64, deadline: Nanos) -> io::Result<Vec<u8>> {
        if self.rest.is_empty() {
            self.read_more(deadline)?;
        }
        let len = (self.rest.len() as u64).min(left) as usize;
        Ok(self.rest.drain(..len).collect())
    }

    /// Returns the number of bytes that arrived since the last call.
    pub(crate) fn take_received(&mut self) -> usize {
        std::mem::take(&mut self.received)
    }

    /// Sends a whole answer, and parts if the connection ends with it.
    ///
    /// # Errors
    /// The error of a write.
    pub(crate) fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        self.channel.write_until(&answer.to_bytes(), Monotonic.now() + PATIENCE)?;
        if answer.closes { self.channel.part() } else { Ok(()) }
    }

    /// Returns the connection, and the bytes that were read beyond the last request.
    pub(crate) fn into_parts(self) -> (Channel<'a>, Vec<u8>) {
        (self.channel, self.rest)
    }
}

/// Silence after which a connection is asked whether it waits on.
const MOMENT: Nanos = Nanos::from_millis(50);

/// Answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
    /// Further fields: name and value.
    pub fields: Vec<(&'static str, String)>,
    /// True if the connection ends with it.
    pub closes: bool,
}

impl Answer {
    /// Creates an answer after which the connection ends.
    pub(crate) fn new(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status, kind, body: body.into(), fields: Vec::new(), closes: true }
    }

    /// Creates an answer in JSON.
    pub(crate) fn json(value: &serde_json::Value) -> Answer {
        Answer::new(200, "application/json", value.to_string())
    }

    /// Creates a refusal in JSON, with its reason for people.
    pub(crate) fn refusal(status: u16, why: &str) -> Answer {
        let value = serde_json::json!({ "error": why });
        Answer { status, ..Answer::json(&value) }
    }

    /// Returns its head; `length` is that of the body, or `None` if it comes in chunks.
    pub(crate) fn head(&self, length: Option<usize>) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        let mut field = |name: &str, value: &str| {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        };
        field("content-type", self.kind);
        field("cache-control", "no-store");
        field("x-content-type-options", "nosniff");
        field("referrer-policy", "no-referrer");
        field("cross-origin-opener-policy", "same-origin");
        field("cross-origin-embedder-policy", "require-corp");
        field("cross-origin-resource-policy", "same-origin");
        for (name, value) in &self.fields {
            field(name, value);
        }
        field("connection", if self.closes { "close" } else { "keep-alive" });
        match length {
            Some(length) => field("content-length", &length.to_string()),
            None => field("transfer-encoding", "chunked"),
        }
        head.push_str("\r\n");
        head
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head(Some(self.body.len())).into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

impl From<BadRequest> for Answer {
    fn from(BadRequest(status, why): BadRequest) -> Answer {
        Answer::refusal(status, why)
    }
}

/// Returns the words of a status (RFC 9110, section 15).
fn reason(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> RequestHead {
        let (head, len) = RequestHead::parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(len, text.len());
        head
    }

    #[test]
    fn a_head_is_read_with_what_a_page_needs() {
        let head = parsed(
            "POST /trial?race=ab&n=3 HTTP/1.1\r\nHost: a:1\r\nOrigin: http://a:1\r\nContent-Length: 12\r\n\r\n",
        );
        assert_eq!((head.method.as_str(), head.path.as_str()), ("POST", "/trial"));
        assert_eq!(
            (head.asked("n"), head.asked("race"), head.asked("x")),
            (Some("3"), Some("ab"), None)
        );
        assert_eq!((head.length, head.closes), (12, false));
        assert!(head.is_of_page());
        assert!(!parsed("GET / HTTP/1.1\r\nHost: a:1\r\nOrigin: http://evil\r\n\r\n").is_of_page());
        assert!(!parsed("GET / HTTP/1.1\r\nHost: a:1\r\nOrigin: null\r\n\r\n").is_of_page());
        assert!(parsed("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").closes);
    }

    #[test]
    fn hostile_heads_are_refused_without_waiting_for_more() {
        let refused = |text: &str| RequestHead::parse(text.as_bytes()).unwrap_err().0;
        assert_eq!(refused("\x16\x03\x01 hello"), 400);
        assert_eq!(
            refused("GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
            400
        );
        assert_eq!(refused("GET / HTTP/1.1\r\nContent-Length: +5\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n"), 400);
        let huge = "9".repeat(30);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\nContent-Length: {huge}\r\n\r\n")), 413);
        assert_eq!(refused("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 411);
        assert_eq!(refused(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(LONGEST_HEAD))), 431);
        let many = "a: b\r\n".repeat(MOST_FIELDS + 1);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{many}\r\n")), 431);
        assert_eq!(RequestHead::parse(b"GET / HT"), Ok(None));
        // Every beginning of a request, and every byte in place of each of its bytes: an answer, never a panic.
        let whole = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
        for at in 0..whole.len() {
            let _ = RequestHead::parse(&whole[..at]);
            for byte in 0..=255 {
                let mut other = whole.to_vec();
                other[at] = byte;
                let _ = RequestHead::parse(&other);
            }
        }
    }

    #[test]
    fn an_answer_isolates_the_page_and_says_how_long_it_is() {
        let bytes = Answer::refusal(404, "there is no such page").to_bytes();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
        assert!(head.contains("cross-origin-opener-policy: same-origin\r\n"));
        assert!(head.contains(&format!("content-length: {}", body.len())));
        assert_eq!(body, "{\"error\":\"there is no such page\"}");
    }
}
