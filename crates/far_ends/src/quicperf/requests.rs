//! Requests and their answers: a stream for each.
//!
//! A message of the work has the length of its answer after its header, and what arrives of an answer is handed over in
//! messages with the number of the request, as from a far end of ours.

use super::bulk::send_wish;
use deadheat_base::time::Nanos;
use deadheat_contract::workload::header::{DUE_LEN, Header, read_due, write_due};
use deadheat_datapath::transport::application::{
    Application, ApplicationFacts, ApplicationState, Streams, Takes, TakesRequests,
};
use deadheat_datapath::transport::step::{StepBudget, StepLooks};

/// Requests under way.
pub(super) struct Requests {
    tag: u32,
    /// Message that hands a part of an answer over: its header is written anew each time.
    message: Box<[u8]>,
    handed: u64,
    under_way: Vec<Request>,
    looks: StepLooks,
}

/// Request under way.
struct Request {
    number: u64,
    stream: u64,
    wanted: u64,
    got: u64,
    /// Bytes that the stream had no room for.
    unsent: Vec<u8>,
    /// Time until the next byte of its answer.
    step: StepBudget,
}

impl Requests {
    /// Creates the state of requests with this tag, whose answers are handed over in messages of up to `largest` bytes.
    pub(super) fn new(tag: u32, largest: usize) -> Requests {
        Requests {
            tag,
            message: vec![0; largest.max(DUE_LEN + 1)].into(),
            handed: 0,
            under_way: Vec::new(),
            looks: StepLooks::default(),
        }
    }
}

/// Hands an answer's bytes over, in messages.
struct Handing<'a> {
    tag: u32,
    message: &'a mut [u8],
    handed: &'a mut u64,
}

impl Handing<'_> {
    fn hand(&mut self, request: u64, bytes: usize, take: &mut dyn FnMut(&[u8])) {
        let room = self.message.len() - DUE_LEN;
        let mut left = bytes;
        while left > 0 {
            let part = left.min(room);
            let message = &mut self.message[..DUE_LEN + part];
            Header { tag: self.tag, seq: *self.handed }.write(message);
            write_due(message, Nanos(request));
            take(message);
            *self.handed += 1;
            left -= part;
        }
    }
}

impl Request {
    /// Sends the rest of the request, as far as there is room, and then its end.
    fn send_the_rest(&mut self, streams: &mut dyn Streams) -> Result<(), String> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let taken = streams.write(self.stream, &self.unsent)?;
        self.unsent.drain(..taken);
        if self.unsent.is_empty() {
            streams.finish(self.stream);
        }
        Ok(())
    }

    /// Returns the sentence of an error of this request.
    fn failed(&self, why: impl std::fmt::Display) -> String {
        format!("to request {} {why}", self.number)
    }
}

impl Application for Requests {
    fn attend(&mut self, streams: &mut dyn Streams) -> Result<(), String> {
        self.under_way.iter_mut().try_for_each(|request| request.send_the_rest(streams))
    }

    fn read(
        &mut self,
        streams: &mut dyn Streams,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), String> {
        let Requests { tag, message, handed, under_way, .. } = self;
        let mut handing = Handing { tag: *tag, message, handed };
        let mut at = 0;
        while let Some(request) = under_way.get_mut(at) {
            let before = request.got;
            let is_over = streams.read(request.stream, &mut |bytes| {
                request.got += bytes.len() as u64;
                if request.got <= request.wanted {
                    handing.hand(request.number, bytes.len(), take);
                }
            });
            let is_over = is_over.map_err(|why| request.failed(why))?;
            let Request { got, wanted, .. } = *request;
            if got > wanted || (is_over && got < wanted) {
                let sent = format!("it sent {got} bytes, and was asked for {wanted}");
                return Err(request.failed(sent));
            }
            if got > before {
                request.step.renew();
            }
            if is_over { drop(under_way.swap_remove(at)) } else { at += 1 }
        }
        Ok(())
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.looks.next(!self.under_way.is_empty())
    }

    fn on_deadline(&mut self, now: Nanos, _streams: &mut dyn Streams) -> Result<(), String> {
        if !self.looks.is_due(now) {
            return Ok(());
        }
        let late = self.under_way.iter_mut().find_map(|request| {
            let why = request.step.look().err()?;
            Some(request.failed(why))
        });
        late.map_or(Ok(()), Err)
    }

    fn state(&self) -> ApplicationState {
        ApplicationState { has_ended: false, is_settled: true }
    }

    fn facts(&self) -> ApplicationFacts {
        let oldest = self.under_way.iter().map(|request| request.number).min();
        let awaits =
            oldest.map(|oldest| format!("before the end of its answer to request {oldest}"));
        ApplicationFacts { awaits, ..ApplicationFacts::default() }
    }

    fn takes(&mut self) -> Takes<'_> {
        Takes::Requests(self)
    }
}

impl TakesRequests for Requests {
    fn ask(&mut self, message: &[u8], streams: &mut dyn Streams) -> Result<bool, String> {
        let (Some(header), Some(wanted)) = (Header::read(message), read_due(message)) else {
            return Err("the work asks without the length of an answer".to_owned());
        };
        let Some(stream) = streams.open() else { return Ok(false) };
        send_wish(wanted.0, stream, streams)?;
        let mut request = Request {
            number: header.seq,
            stream,
            wanted: wanted.0,
            got: 0,
            unsent: Vec::new(),
            step: StepBudget::default(),
        };
        let taken = streams.write(stream, message).map_err(|why| request.failed(why))?;
        if taken == message.len() {
            streams.finish(stream)
        } else {
            request.unsent.extend_from_slice(&message[taken..])
        }
        self.under_way.push(request);
        Ok(true)
    }
}
