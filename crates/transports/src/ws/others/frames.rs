//! Upgrade and frames of a connection to a program of others, without a socket.

use deadheat_base::ends::Direction;
use std::io;

use bytes::Bytes;
use tungstenite::client::{ClientRequestBuilder, client_with_config};
use tungstenite::error::{Error as WsError, ProtocolError};
use tungstenite::http::Uri;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};

use super::super::conn::failed;
use deadheat_datapath::transport::application::{MessageApplication, MessageTerms};
use deadheat_datapath::transport::step::StepBudget;

/// Bytes of the shortest frame of a server (RFC 6455, 5.2).
const FRAME: usize = 2;

/// Most bytes that wait until the far end reads them: a message of this end, and answers to its pings.
const MOST_WAITING: usize = 4 << 20;

/// Message of the far end.
pub(super) enum ArrivedMessage {
    Data(Bytes),
    /// The application has read it, or the library answers it.
    Read,
    Close,
    NotYet,
    /// Nothing more arrives.
    Over,
}

/// Returns the message that a call of the library has read, of a connection whose data goes one way, and to which `sent`
/// bytes of data were sent so far.
///
/// # Errors
/// A violation of the protocol, with its step, or too many bytes without data.
pub(super) fn arrived(
    read: tungstenite::Result<Message>,
    application: &mut dyn MessageApplication,
    (way, sent): (Direction, u64),
    step: &mut StepBudget,
) -> io::Result<ArrivedMessage> {
    let mut beside = |bytes, application: &dyn MessageApplication| {
        let taken = step.take(bytes).map(|()| ArrivedMessage::Read);
        taken.map_err(|why| named(application, io::Error::new(io::ErrorKind::InvalidData, why)))
    };
    let (kind, what) = match read {
        Ok(Message::Binary(_)) if way == Direction::Up => {
            (io::ErrorKind::InvalidData, "it sent data amid an upload".to_owned())
        }
        Ok(Message::Binary(bytes)) if bytes.is_empty() => return beside(FRAME, application),
        Ok(Message::Binary(bytes)) => {
            step.renew();
            return Ok(ArrivedMessage::Data(bytes));
        }
        Ok(Message::Text(text)) => match application.text(text.as_str(), sent) {
            Ok(()) => return beside(FRAME + text.len(), application),
            Err(why) => (io::ErrorKind::InvalidData, why),
        },
        Ok(Message::Close(_)) => return Ok(ArrivedMessage::Close),
        Ok(other) => return beside(FRAME + other.len(), application),
        Err(WsError::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => {
            return Ok(ArrivedMessage::NotYet);
        }
        Err(WsError::ConnectionClosed | WsError::AlreadyClosed) => return Ok(ArrivedMessage::Over),
        Err(WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {
            let what = "it closed the connection without a Close frame";
            (io::ErrorKind::ConnectionAborted, what.to_owned())
        }
        Err(e) => return Err(named(application, failed(e))),
    };
    Err(named(application, io::Error::new(kind, what)))
}

/// Returns an error with the step of the protocol in front.
pub(super) fn named(application: &dyn MessageApplication, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", application.awaits()))
}

/// Returns the request of an upgrade.
///
/// # Errors
/// If the terms make no URL.
pub(super) fn upgrade(terms: &MessageTerms) -> io::Result<ClientRequestBuilder> {
    let url = format!("wss://{}{}", terms.authority, terms.resource);
    let uri: Uri = url.parse().map_err(|e| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("`{url}` is no URL: {e}"))
    })?;
    let agent = concat!("deadheat/", env!("CARGO_PKG_VERSION"));
    Ok(ClientRequestBuilder::new(uri)
        .with_sub_protocol(terms.subprotocol)
        .with_header("User-Agent", agent))
}

/// Returns the limits of the library.
pub(super) fn config(largest: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(largest))
        .max_frame_size(Some(largest))
        .max_write_buffer_size(MOST_WAITING)
}

/// Byte stream that brings the bytes of an input, and takes everything.
struct FedWire<'a>(&'a [u8]);

impl io::Read for FedWire<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.read(room)
    }
}

impl io::Write for FedWire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads what a far end sends, as a connection does: an answer to the upgrade, and frames behind another one. For fuzz
/// targets.
pub fn read_frames(terms: &mut MessageTerms, bytes: &[u8]) {
    let config = Some(config(terms.largest));
    if let Ok(request) = upgrade(terms) {
        let _ = client_with_config(request, FedWire(bytes), config);
    }
    let mut socket = WebSocket::from_raw_socket(FedWire(bytes), Role::Client, config);
    let MessageTerms { application, way, largest, .. } = terms;
    let mut step = StepBudget::default();
    loop {
        match arrived(socket.read(), &mut **application, (*way, 1 << 20), &mut step) {
            Ok(ArrivedMessage::Data(bytes)) => {
                assert!(bytes.len() <= *largest, "a message of {} bytes", bytes.len())
            }
            Ok(ArrivedMessage::Read) => {}
            Ok(ArrivedMessage::Close) => drop(socket.flush()),
            Ok(ArrivedMessage::NotYet | ArrivedMessage::Over) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pair;
    use deadheat_base::time::{Clock, Monotonic, Nanos};
    use deadheat_datapath::transport::Effective;

    struct Measured;

    impl MessageApplication for Measured {
        fn text(&mut self, _message: &str, _sent: u64) -> Result<(), String> {
            Ok(())
        }
        fn next_len(&self, _sent: u64) -> usize {
            1
        }
        fn awaits(&self) -> String {
            "before the end".to_owned()
        }
        fn effective(&self) -> Effective {
            Effective::default()
        }
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[0x80 | kind, payload.len() as u8][..], payload].concat()
    }

    /// Peer that sends what it is given, and then the same again and again; it takes nothing.
    struct EndlessWire<'a> {
        again: &'a [u8],
        at: usize,
        sent: usize,
    }

    impl io::Read for EndlessWire<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            for byte in room.iter_mut() {
                *byte = self.again[self.at % self.again.len()];
                self.at += 1;
            }
            self.sent += room.len();
            Ok(room.len())
        }
    }

    impl io::Write for EndlessWire<'_> {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    #[test]
    fn frames_without_data_that_have_no_end_or_lie_end_the_connection_within_their_bytes() {
        let lying = [&[0x82, 127][..], &u64::MAX.to_be_bytes()].concat();
        for (what, again) in [
            ("pings", frame(9, &[7; 100])),
            ("pongs", frame(10, &[])),
            ("texts", frame(1, b"{}")),
            ("empty data", frame(2, b"")),
            ("a length of 2^64-1", lying),
            ("garbage", vec![0x7f, 0x55, 0xaa, 0x13]),
        ] {
            let wire = EndlessWire { again: &again, at: 0, sent: 0 };
            let mut socket = WebSocket::from_raw_socket(wire, Role::Client, Some(config(1 << 24)));
            let mut step = StepBudget::default();
            let error = loop {
                let read = socket.read();
                match arrived(read, &mut Measured, (Direction::Down, 0), &mut step) {
                    Ok(ArrivedMessage::Over) => panic!("{what}: it ended"),
                    Ok(_) => {}
                    Err(error) => break error.to_string(),
                }
                assert!(socket.get_ref().sent < 4 << 20, "{what}: no end");
            };
            assert!(error.starts_with("before the end: "), "{what}: {error}");
        }
    }

    #[test]
    fn an_upgrade_that_is_not_answered_ends_within_its_bytes_and_its_time() {
        use std::io::Write;

        let short = Nanos::from_millis(200);
        for (what, answer, is_endless) in [
            ("silence", "", false),
            ("half a header", "HTTP/1.1 101 Switching", false),
            ("a header without an end", "HTTP/1.1 101 Switching Protocols\r\nX: y\r\n", true),
            ("garbage", "\u{16}\u{3}\u{1}\r\n\r\n", false),
        ] {
            let [near, far] = pair();
            let channel =
                deadheat_datapath::datapath::stream::CountedSocket::new(near.into()).unwrap();
            let wire = super::super::LowerStream::new(channel);
            let sending = std::thread::spawn(move || {
                let mut sent = 0;
                while (&far).write_all(answer.as_bytes()).is_ok() && is_endless && sent < 64 << 20 {
                    sent += answer.len();
                }
                far
            });
            let began = Monotonic.now();
            let begun = tungstenite::client::client_with_config("ws://far/", wire, None);
            let step = StepBudget::of(short);
            let shaken = super::super::see_through(begun, began, step);
            let error = shaken.map(drop).unwrap_err();
            if error.kind() == io::ErrorKind::TimedOut {
                assert!(Monotonic.now() - began >= short, "{what}: {error}");
            }
            // The client's end is closed by now.
            drop(sending.join().unwrap());
        }
    }
}
