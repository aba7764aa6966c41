//! Upgrade and frames of a connection to a program of others, without a socket.

use std::io;

use bytes::Bytes;
use tungstenite::client::{ClientRequestBuilder, client_with_config};
use tungstenite::error::{Error as WsError, ProtocolError};
use tungstenite::http::Uri;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};

use super::super::conn::failed;
use crate::transport::application::{DataWay, MessageApplication, MessageTerms};

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

/// Returns the message that a call of the library has read, to which `sent` bytes of data were sent so far.
///
/// # Errors
/// A violation of the protocol, with its step.
pub(super) fn arrived(
    read: tungstenite::Result<Message>,
    application: &mut dyn MessageApplication,
    way: DataWay,
    sent: u64,
) -> io::Result<ArrivedMessage> {
    let (kind, what) = match read {
        Ok(Message::Binary(_)) if way == DataWay::Out => {
            (io::ErrorKind::InvalidData, "it sent data amid an upload".to_owned())
        }
        Ok(Message::Binary(bytes)) => return Ok(ArrivedMessage::Data(bytes)),
        Ok(Message::Text(text)) => match application.text(text.as_str(), sent) {
            Ok(()) => return Ok(ArrivedMessage::Read),
            Err(why) => (io::ErrorKind::InvalidData, why),
        },
        Ok(Message::Close(_)) => return Ok(ArrivedMessage::Close),
        Ok(_) => return Ok(ArrivedMessage::Read),
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
    WebSocketConfig::default().max_message_size(Some(largest)).max_frame_size(Some(largest))
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
    loop {
        match arrived(socket.read(), &mut **application, *way, 1 << 20) {
            Ok(ArrivedMessage::Data(bytes)) => {
                assert!(bytes.len() <= *largest, "a message of {} bytes", bytes.len())
            }
            Ok(ArrivedMessage::Read) => {}
            Ok(ArrivedMessage::Close) => drop(socket.flush()),
            Ok(ArrivedMessage::NotYet | ArrivedMessage::Over) | Err(_) => return,
        }
    }
}
