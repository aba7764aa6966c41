//! Requests of the work, and the answers to them: the part that the versions of HTTP share.

use super::document::{Documents, HTTP};
use super::http1::Http1;
use super::http2::Http2;
use super::http3::Http3;
use super::request::Request;
use super::version::{AnswerPart, Version};
use deadheat_base::time::Nanos;
use deadheat_contract::workload::header::{DUE_LEN, DocumentPart, Header};
use deadheat_datapath::transport::application::{
    Application, ApplicationFacts, ApplicationState, Streams, Takes, TakesRequests,
};
use deadheat_datapath::transport::plain::PlainProtocol;
use deadheat_datapath::transport::step::{StepBudget, StepLooks};

/// Largest document that is asked for again and again, in bytes.
pub(super) const MOST_EACH: u64 = 4 << 20;

/// Use of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Each answers a message of the work.
    Messages,
    /// Their bytes are bulk data: so many, or any number.
    Bulk(Option<u64>),
}

/// Requests on one connection.
pub(super) struct Exchange {
    request: Request,
    over: PlainProtocol,
    purpose: Use,
    version: Option<Box<dyn Version>>,
    open: Vec<Asked>,
    documents: Documents,
    /// Bytes of bulk data so far.
    bulk: u64,
    has_ended: bool,
    /// Bytes of the connection that are part of no answer.
    beside: StepBudget,
    looks: StepLooks,
    /// Parts of answers so far.
    parts: u64,
}

/// Request that is not answered.
struct Asked {
    number: u64,
    header: Header,
    /// Bytes of the body that have arrived, and those that its header announced.
    bytes: u64,
    announced: Option<u64>,
    /// Time until the next part of it.
    step: StepBudget,
}

impl Exchange {
    pub(super) fn new(request: Request, over: PlainProtocol, purpose: Use) -> Exchange {
        Exchange {
            request,
            over,
            purpose,
            version: None,
            open: Vec::new(),
            documents: Documents::default(),
            bulk: 0,
            has_ended: false,
            beside: StepBudget::default(),
            looks: StepLooks::default(),
            parts: 0,
        }
    }

    /// Sends a request with this header of the work; returns false if there is no room.
    fn send(&mut self, header: Header, streams: &mut dyn Streams) -> Result<bool, String> {
        let Some(version) = &mut self.version else { return Ok(false) };
        let number = version.request(streams).map_err(|why| self.request.fault(&why))?;
        let Some(number) = number else { return Ok(false) };
        let step = StepBudget::default();
        self.open.push(Asked { number, header, bytes: 0, announced: None, step });
        Ok(true)
    }

    /// Takes a part of the answer to the request `number`.
    fn take(
        &mut self,
        number: u64,
        part: AnswerPart<'_>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), String> {
        let Some(at) = self.open.iter().position(|asked| asked.number == number) else {
            return Err("it answered a request that is answered already".to_owned());
        };
        let asked = &mut self.open[at];
        asked.step.renew();
        self.parts += 1;
        let mut message = [0; DUE_LEN];
        match part {
            AnswerPart::Head(head) => {
                if let Some(why) = head.refusal() {
                    return Err(why);
                }
                asked.announced = head.length;
                if self.purpose == Use::Messages && head.length > Some(MOST_EACH) {
                    return Err(too_long());
                }
                self.documents.head(&head);
                if self.purpose == Use::Messages {
                    let len = DocumentPart::Begins.write(asked.header, &mut message);
                    take(&message[..len]);
                }
            }
            AnswerPart::Body(bytes) => {
                asked.bytes += bytes.len() as u64;
                if asked.announced.is_some_and(|announced| asked.bytes > announced) {
                    return Err(asked.longer());
                }
                match self.purpose {
                    Use::Messages if asked.bytes > MOST_EACH => return Err(too_long()),
                    Use::Messages => self.documents.body(number == 1, bytes),
                    Use::Bulk(most) => {
                        let left = most.map_or(u64::MAX, |most| most - self.bulk);
                        let len =
                            usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                        self.bulk += len as u64;
                        self.has_ended = most == Some(self.bulk);
                        take(&bytes[..len]);
                    }
                }
            }
            AnswerPart::End => {
                let asked = self.open.swap_remove(at);
                if asked.announced.is_some_and(|announced| asked.bytes < announced) {
                    return Err(asked.shorter());
                }
                let bytes = asked.bytes;
                self.documents.end(number == 1 && self.purpose == Use::Messages, bytes);
                match self.purpose {
                    Use::Messages => {
                        let part = DocumentPart::Ends { bytes };
                        let len = part.write(asked.header, &mut message);
                        take(&message[..len]);
                    }
                    Use::Bulk(_) if bytes == 0 => {
                        return Err(
                            "its document has no bytes, so there is no bulk data".to_owned()
                        );
                    }
                    Use::Bulk(_) => {}
                }
            }
        }
        Ok(())
    }
}

/// Returns the fault of a document that is not asked for again and again.
fn too_long() -> String {
    format!(
        "its document has more than {MOST_EACH} bytes, which are not asked for again and again; bulk fits it, or race a \
         shorter one"
    )
}

/// Streams whose bytes are counted as they arrive.
struct CountedStreams<'a> {
    inside: &'a mut dyn Streams,
    arrived: usize,
}

impl Streams for CountedStreams<'_> {
    fn open(&mut self) -> Option<u64> {
        self.inside.open()
    }

    fn open_one_way(&mut self) -> Option<u64> {
        self.inside.open_one_way()
    }

    fn accept_one_way(&mut self) -> Option<u64> {
        self.inside.accept_one_way()
    }

    fn write(&mut self, stream: u64, bytes: &[u8]) -> Result<usize, String> {
        self.inside.write(stream, bytes)
    }

    fn finish(&mut self, stream: u64) {
        self.inside.finish(stream);
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let arrived = &mut self.arrived;
        self.inside.read(stream, &mut |bytes| {
            *arrived += bytes.len();
            take(bytes);
        })
    }

    fn acknowledged(&mut self) -> u64 {
        self.inside.acknowledged()
    }

    fn stop(&mut self, stream: u64, code: u32) {
        self.inside.stop(stream, code);
    }
}

impl Asked {
    fn longer(&self) -> String {
        let announced = self.announced.unwrap_or_default();
        format!("its document is longer than the {announced} bytes that its header announced")
    }

    fn shorter(&self) -> String {
        let (bytes, announced) = (self.bytes, self.announced.unwrap_or_default());
        format!(
            "its document ended after {bytes} of the {announced} bytes that its header announced"
        )
    }
}

impl Request {
    /// Returns a fault of the far end, with the URL.
    fn fault(&self, why: &str) -> String {
        format!("{}: {why}", self.url())
    }
}

impl Application for Exchange {
    fn begin(&mut self, protocol: Option<&[u8]>, streams: &mut dyn Streams) -> Result<(), String> {
        let mut version: Box<dyn Version> = match (self.over.has_streams, protocol) {
            (true, Some(b"h3")) => Box::new(Http3::new(&self.request)),
            (false, Some(b"h2")) => Box::new(Http2::new(&self.request)),
            // A server that agrees on nothing has HTTP/1.1 (RFC 7301, 3.2).
            (false, Some(b"http/1.1") | None) => Box::new(Http1::new(&self.request)),
            _ => {
                let why = format!("it speaks no HTTP over {}", self.over);
                return Err(self.request.fault(&why));
            }
        };
        let begun = version.begin(streams);
        self.version = Some(version);
        begun.map_err(|why| self.request.fault(&why))
    }

    fn read(
        &mut self,
        streams: &mut dyn Streams,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), String> {
        let Some(mut version) = self.version.take() else { return Ok(()) };
        let (before, mut counted) = (self.parts, CountedStreams { inside: streams, arrived: 0 });
        let read = version.read(&mut counted, &mut |number, part| self.take(number, part, take));
        let arrived = counted.arrived;
        self.version = Some(version);
        let goes_on = self.parts > before;
        let read = read.and_then(|()| {
            if goes_on {
                self.beside.renew();
                Ok(())
            } else {
                self.beside.take(arrived)
            }
        });
        read.map_err(|why| self.request.fault(&why))?;
        // Bulk data goes on with the next request.
        if matches!(self.purpose, Use::Bulk(_))
            && self.open.is_empty()
            && self.bulk > 0
            && !self.has_ended
        {
            self.send(Header { tag: 0, seq: 0 }, streams)?;
        }
        Ok(())
    }

    /// Returns the time of the next look at what is asked; for bulk data over TLS none, whose receiving calls then need no
    /// timer: `Around` looks between them.
    fn next_deadline(&self) -> Option<Nanos> {
        let has_timer = self.over.has_streams || self.purpose == Use::Messages;
        self.looks.next(has_timer && !self.open.is_empty())
    }

    fn on_deadline(&mut self, now: Nanos, _streams: &mut dyn Streams) -> Result<(), String> {
        if !self.looks.is_due(now) {
            return Ok(());
        }
        let late = self.open.iter_mut().find_map(|asked| asked.step.look().err());
        late.map_or(Ok(()), |why| Err(self.request.fault(&format!("{why} with its answer"))))
    }

    fn state(&self) -> ApplicationState {
        ApplicationState { has_ended: self.has_ended, is_settled: true }
    }

    fn facts(&self) -> ApplicationFacts {
        let mut effective = self.documents.effective();
        if let Some(version) = &self.version {
            effective.insert(HTTP.to_owned(), version.name().to_owned());
        }
        ApplicationFacts { awaits: None, effective }
    }

    fn takes(&mut self) -> Takes<'_> {
        Takes::Requests(self)
    }
}

impl TakesRequests for Exchange {
    fn ask(&mut self, message: &[u8], streams: &mut dyn Streams) -> Result<bool, String> {
        match Header::read(message) {
            Some(header) => self.send(header, streams),
            None => Err("a request of the work has no header (a defect)".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeStreams, request};
    use super::*;

    const HEADER: Header = Header { tag: 7, seq: 3 };

    /// Asks once over HTTP/1.1, and returns the messages, or the bytes, of the answer.
    fn asked(purpose: Use, answer: &str) -> (Vec<Vec<u8>>, Result<(), String>, Exchange) {
        let mut exchange = Exchange::new(request(), PlainProtocol::TLS, purpose);
        let mut streams = FakeStreams::byte_stream();
        exchange.begin(None, &mut streams).unwrap();
        let mut message = [0; DUE_LEN];
        HEADER.write(&mut message);
        assert_eq!(exchange.ask(&message, &mut streams), Ok(true));
        streams.arrive(0, answer.as_bytes());
        let mut got = Vec::new();
        let outcome = exchange.read(&mut streams, &mut |bytes| got.push(bytes.to_vec()));
        (got, outcome, exchange)
    }

    #[test]
    fn a_document_becomes_two_messages_and_its_facts_are_known() {
        let answer = "HTTP/1.1 200 OK\r\nAlt-Svc: h3=\":443\"\r\nContent-Length: 5\r\n\r\nhello";
        let (got, outcome, exchange) = asked(Use::Messages, answer);
        assert_eq!(outcome, Ok(()));
        let parts: Vec<_> =
            got.iter().map(|message| DocumentPart::read(message).unwrap()).collect();
        assert_eq!(
            parts,
            [(HEADER, DocumentPart::Begins), (HEADER, DocumentPart::Ends { bytes: 5 })]
        );
        let effective = exchange.facts().effective;
        assert_eq!(effective["http"], "HTTP/1.1");
        assert_eq!(effective["alt_svc"], "h3=\":443\"");
        assert_eq!(effective["document"], "200, 5 B, SHA-256 2cf24dba5fb0a30e…");
    }

    #[test]
    fn what_is_no_document_names_itself_with_its_url_and_the_remedy() {
        for (answer, why) in [
            (
                "HTTP/1.1 301 Moved\r\nLocation: https://example/\r\nContent-Length: 0\r\n\r\n",
                "https://www.example:8443/a?b=1: it is answered with the status 301, to https://example/; race that URL",
            ),
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "no such document"),
            ("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n", "too many requests"),
            ("HTTP/1.1 503 Away\r\nContent-Length: 0\r\n\r\n", "the status 503: it has a fault"),
        ] {
            let (_, outcome, _) = asked(Use::Messages, answer);
            let said = outcome.unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn bulk_data_ends_after_its_bytes_and_goes_on_with_another_request() {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let (got, _, exchange) = asked(Use::Bulk(Some(3)), answer);
        assert_eq!((got.concat(), exchange.state().has_ended), (b"hel".to_vec(), true));
        let (got, _, exchange) = asked(Use::Bulk(Some(8)), answer);
        assert_eq!(
            (got.concat(), exchange.state().has_ended, exchange.open.len()),
            (b"hello".to_vec(), false, 1)
        );
        let empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert!(asked(Use::Bulk(None), empty).1.unwrap_err().contains("no bytes"));
    }

    #[test]
    fn a_protocol_that_is_not_spoken_is_refused() {
        let mut streams = FakeStreams::default();
        for (over, protocol) in [
            (PlainProtocol::QUIC, None),
            (PlainProtocol::QUIC, Some(&b"hq"[..])),
            (PlainProtocol::TLS, Some(b"ftp")),
        ] {
            let mut exchange = Exchange::new(request(), over, Use::Messages);
            let said = exchange.begin(protocol, &mut streams).unwrap_err();
            assert!(said.contains("speaks no HTTP over"), "{said}");
        }
    }
}
