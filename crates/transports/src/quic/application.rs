//! Connection to a program of others: an application protocol on the streams of QUIC, such as HTTP/3.

use std::cell::RefCell;
use std::io;
use std::time::Instant;

use super::connection::{QuicConnection, StreamWays};
use super::end_of;
use super::layer::Layer;
use super::machine::QuicLibrary;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Lane;
use deadheat_datapath::transport::application::{Application, ApplicationTerms, Streams, Takes};
use deadheat_datapath::transport::identity::{
    NO_EARLY_DATA, Resume, Tickets, TrustedName, UNTRUSTED,
};
use deadheat_datapath::transport::userspace::{Opening, Protocol, State, dial_others};
use deadheat_datapath::transport::{Conn, Dial, Effective, Info};

/// Code of a connection that this end closes: H3_NO_ERROR (RFC 9114, 8.1), which other protocols take as any other.
const CLOSED: u32 = 0x100;

/// Alert of a far end that speaks none of the protocols inside: no_application_protocol (RFC 7301, 3.2), as the library
/// writes it.
const NO_COMMON_PROTOCOL: &str = "error 120";

/// Opens a connection to a program of others by the library of `M`; `info` has the facts of a connection whose messages the
/// application protocol makes and takes.
///
/// # Errors
/// [`Error::Blocked`] if nothing answers there; [`Error::Peer`] if the far end refuses, or cannot prove its name.
pub(crate) fn dial<M: QuicLibrary + 'static>(
    info: &'static Info,
    dial: &Dial<'_>,
    terms: ApplicationTerms,
) -> Result<Box<dyn Conn>> {
    let ApplicationTerms { name, pin, protocols, application } = terms;
    let trusted = TrustedName::with_pin(&name, pin.as_deref(), protocols)?;
    let application = RefCell::new(Some(application));
    let make = |opening: &Opening<'_>| -> Result<Box<dyn Protocol>> {
        let own = end_of::<M>(info.id, &Layer::NONE, opening, Some(&trusted))?;
        let Some(application) = application.borrow_mut().take() else { return Ok(Box::new(own)) };
        let tickets = opening.tickets.clone();
        Ok(Box::new(own.asking(Asking::new(name.clone(), application, tickets))))
    };
    dial_others(info, dial, &make).map_err(|error| match error {
        // As quinn and noq word CONNECTION_REFUSED (RFC 9000, 20.1).
        Error::Peer { who, what } if what.contains("refused to accept") => Error::blocked(format!(
            "{who}: it refuses connections; it may serve others now ({what})"
        )),
        Error::Peer { who, what } if what.contains("certificate") => {
            Error::peer(who, format!("{what}; {UNTRUSTED}"))
        }
        Error::Peer { who, what } if what.contains(NO_COMMON_PROTOCOL) => Error::peer(
            who,
            format!("{what}; it speaks QUIC, but not {} inside", protocols.join(", ")),
        ),
        error => error,
    })
}

/// Application protocol on a connection.
pub(super) struct Asking {
    /// Name of the far end.
    pub(super) name: String,
    application: Box<dyn Application>,
    /// True if it sends bulk data on its one stream.
    gives: bool,
    tickets: Tickets,
    closing: Closing,
    /// True once the connection was open.
    has_begun: bool,
}

/// Progress of this end's close of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    /// The work goes on.
    NotYet,
    /// The work has ended, and the connection closes once the far end has confirmed all.
    Wanted,
    /// The connection is closed, and the packet that says so has not left.
    Begun,
    /// The packet has left.
    Done,
}

impl Asking {
    fn new(name: String, mut application: Box<dyn Application>, tickets: Tickets) -> Asking {
        let gives = matches!(application.takes(), Takes::Bulk(_));
        Asking { name, application, gives, tickets, closing: Closing::NotYet, has_begun: false }
    }

    /// Begins on a connection that takes data.
    pub(super) fn begin(
        &mut self,
        connection: &mut impl QuicConnection,
    ) -> std::result::Result<(), String> {
        // Early data is of the protocol of the connection before.
        let protocol = connection.protocol().or_else(|| self.tickets.noted_protocol());
        self.tickets.note_protocol(protocol.as_deref());
        self.has_begun = true;
        let begun = self.application.begin(protocol.as_deref(), &mut QuicStreams(connection));
        begun.map_err(|why| self.at_its_step(&why))
    }

    /// Takes a message of the work; returns its length, or 0 if there is no room for it.
    pub(super) fn ask(
        &mut self,
        connection: &mut impl QuicConnection,
        message: &[u8],
    ) -> io::Result<usize> {
        let taken = self.application.ask(message, &mut QuicStreams(connection));
        let taken = taken.map_err(|why| self.broken(&why))?;
        Ok(if taken { message.len() } else { 0 })
    }

    /// Hands over the messages, or the bytes, that the application makes of arrived bytes.
    pub(super) fn read(
        &mut self,
        connection: &mut impl QuicConnection,
        take: &mut dyn FnMut(Lane, &[u8]) -> usize,
    ) -> std::result::Result<(), String> {
        let read = self.application.read(&mut QuicStreams(connection), &mut |message| {
            take(Lane(0), message);
        });
        read.map_err(|why| self.at_its_step(&why))
    }

    /// Returns the error of a far end that violates the application's protocol.
    fn broken(&self, why: &str) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, self.at_its_step(why))
    }

    /// Returns the sentence with the step of the protocol in front, if there is one.
    fn at_its_step(&self, why: &str) -> String {
        match self.application.facts().awaits.filter(|_| self.has_begun) {
            Some(awaited) => format!("{awaited}: {why}"),
            None => why.to_owned(),
        }
    }

    /// Returns true if it sends bulk data on its one stream.
    pub(super) fn gives(&self) -> bool {
        self.gives
    }

    pub(super) fn has_ended(&self) -> bool {
        self.application.state().has_ended
    }

    pub(super) fn effective(&self) -> Effective {
        self.application.facts().effective
    }

    /// Returns the resumption in effect of a connection with or without an application. A far end of others need not allow
    /// early data.
    pub(super) fn resumed(asking: Option<&Asking>, asked: Resume, is_early: bool) -> &'static str {
        match (asked, asking) {
            (Resume::Early, Some(_)) if !is_early => NO_EARLY_DATA,
            _ => asked.word(),
        }
    }

    /// Lets the application act on arrivals.
    pub(super) fn attend(
        &mut self,
        connection: &mut impl QuicConnection,
    ) -> std::result::Result<(), String> {
        if matches!(self.closing, Closing::Begun | Closing::Done) {
            return Ok(());
        }
        let attended = self.application.attend(&mut QuicStreams(connection));
        attended.map_err(|why| self.at_its_step(&why))
    }

    /// Takes bulk data; returns how many of the bytes there was room for.
    pub(super) fn give(
        &mut self,
        connection: &mut impl QuicConnection,
        bytes: &[u8],
    ) -> io::Result<usize> {
        let given = self.application.give(bytes, &mut QuicStreams(connection));
        given.map_err(|why| self.broken(&why))
    }

    /// Ends what this end sends.
    pub(super) fn finish(&mut self, connection: &mut impl QuicConnection) {
        if self.closing == Closing::NotYet {
            self.application.finish(&mut QuicStreams(connection));
            self.closing = Closing::Wanted;
        }
    }

    /// Returns true, once, if the connection is to be closed now.
    pub(super) fn closes_now(&mut self) -> bool {
        let is_over = self.closing == Closing::Wanted && self.application.state().is_settled;
        if is_over {
            self.closing = Closing::Begun;
        }
        is_over
    }

    /// Notes that nothing is left to be sent.
    pub(super) fn all_left(&mut self) {
        if self.closing == Closing::Begun {
            self.closing = Closing::Done;
        }
    }

    /// Returns true if the far end has all, and the end of a connection that the work has ended.
    pub(super) fn is_drained(&self) -> bool {
        match self.closing {
            Closing::NotYet => self.application.state().is_settled,
            Closing::Wanted | Closing::Begun => false,
            Closing::Done => true,
        }
    }

    /// Returns the state of a connection that was lost for the reason `why`: open, if this end has closed it.
    pub(super) fn lost(&self, why: &str) -> State {
        match self.closing {
            Closing::Begun | Closing::Done => State::Open,
            Closing::NotYet | Closing::Wanted => State::Closed(self.at_its_step(why)),
        }
    }

    /// Returns the time at which the application acts by itself.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let is_open = matches!(self.closing, Closing::NotYet | Closing::Wanted);
        self.application.next_deadline().filter(|_| is_open)
    }

    /// Lets the application act, if its time has come.
    pub(super) fn on_deadline(
        &mut self,
        connection: &mut impl QuicConnection,
        now: Nanos,
    ) -> std::result::Result<(), String> {
        match self.next_deadline() {
            Some(due) if due <= now => {
                let acted = self.application.on_deadline(now, &mut QuicStreams(connection));
                acted.map_err(|why| self.at_its_step(&why))
            }
            _ => Ok(()),
        }
    }

    /// Closes the connection, so that the far end need not wait for its idle timeout.
    pub(super) fn close(connection: &mut impl QuicConnection, now: Instant) {
        connection.close(now, CLOSED);
    }
}

/// Streams of a connection.
struct QuicStreams<'a, C>(&'a mut C);

impl<C: QuicConnection> Streams for QuicStreams<'_, C> {
    fn open(&mut self) -> Option<u64> {
        self.0.open(StreamWays::Both)
    }

    fn open_one_way(&mut self) -> Option<u64> {
        self.0.open(StreamWays::One)
    }

    fn accept_one_way(&mut self) -> Option<u64> {
        self.0.accept(StreamWays::One)
    }

    fn write(&mut self, stream: u64, bytes: &[u8]) -> std::result::Result<usize, String> {
        self.0.write(stream, bytes)
    }

    fn finish(&mut self, stream: u64) {
        self.0.finish(stream);
    }

    fn read(
        &mut self,
        stream: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> std::result::Result<bool, String> {
        self.0.read(stream, &mut |chunk| {
            take(&chunk);
            true
        })
    }

    fn acknowledged(&mut self) -> u64 {
        // Datagrams that bring acknowledgements, and nothing else while no data arrives.
        self.0.acknowledgements()
    }

    fn stop(&mut self, stream: u64, code: u32) {
        self.0.stop(stream, code);
    }
}

#[cfg(test)]
mod tests {
    use super::super::STREAM;
    use super::super::end::QuicEnd;
    use super::super::quinn::QuinnMachine;
    use super::*;
    use deadheat_base::spec::{Settings, Spec};
    use deadheat_base::time::Nanos;
    use deadheat_contract::contract::Side;
    use deadheat_datapath::transport::application::{ApplicationState, TakesBulk};
    use deadheat_datapath::transport::hello::Token;
    use deadheat_datapath::transport::identity::NAME;
    use deadheat_datapath::transport::userspace::{Received, Rest, State};

    /// Application that sends bulk data on one stream.
    struct Giver(Option<u64>);

    impl Application for Giver {
        fn read(
            &mut self,
            _: &mut dyn Streams,
            _: &mut dyn FnMut(&[u8]),
        ) -> std::result::Result<(), String> {
            Ok(())
        }

        fn state(&self) -> ApplicationState {
            ApplicationState { has_ended: false, is_settled: true }
        }
        fn takes(&mut self) -> Takes<'_> {
            Takes::Bulk(self)
        }
    }

    impl TakesBulk for Giver {
        fn give(
            &mut self,
            bytes: &[u8],
            streams: &mut dyn Streams,
        ) -> std::result::Result<usize, String> {
            self.0 = self.0.or_else(|| streams.open_one_way());
            self.0.map_or(Ok(0), |stream| streams.write(stream, bytes))
        }
        fn finish(&mut self, _: &mut dyn Streams) {}
    }

    fn carry(from: &mut QuicEnd<QuinnMachine>, to: &mut QuicEnd<QuinnMachine>, at: Nanos) {
        let mut batch = Vec::new();
        while let Some(sent) = from.transmit(at, 1, &mut batch) {
            batch.chunks(sent.segment).for_each(|bytes| to.handle(Received::plain(at, bytes)));
            batch.clear();
        }
    }

    /// More would drain for long after the work where losses have reduced the rate.
    #[test]
    fn bulk_data_is_stored_for_two_congestion_windows_and_not_for_a_window_of_flow_control() {
        let knobs = Settings::check(&Spec::parse(STREAM.id).unwrap(), STREAM.keys).unwrap();
        let end = |side| {
            let opening = Opening {
                side,
                token: Token::from_bytes([9; 16]),
                knobs: &knobs,
                lanes: STREAM.guarantees.one_lane(),
                largest_message: 1_000,
                mtu: 1_500,
                ip_header: 20,
                tickets: &Tickets::default(),
            };
            end_of(STREAM.id, &Layer::NONE, &opening, None).unwrap()
        };
        let giver = Asking::new(NAME.to_owned(), Box::new(Giver(None)), Tickets::default());
        let (mut near, mut far) = (end(Side::Near).asking(giver), end(Side::Far));
        let mut at = Nanos::from_secs(1);
        near.on_deadline(at);
        for _ in 0..10 {
            at += Nanos::from_millis(1);
            carry(&mut near, &mut far, at);
            carry(&mut far, &mut near, at);
        }
        assert_eq!(near.state(), State::Open);
        let mut stored = 0;
        loop {
            match near.write(at, Lane(0), &[0; 1_000], Rest::Left).unwrap() {
                0 => break,
                taken => stored += taken,
            }
        }
        assert!((10_000..100_000).contains(&stored), "{stored} bytes");
    }
}
