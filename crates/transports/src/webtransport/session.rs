//! End of a WebTransport session: the streams of HTTP/3 beside the lanes' streams.
//!
//! Both ends send SETTINGS on a control stream as soon as they may, the far end with its part of the handshake. The
//! near end's first request asks for the session; its number is that request's stream, 0. Other content on the streams
//! of HTTP/3 (RFC 9114), such as QPACK instructions, is read and dropped: neither end has a dynamic table.

use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};
use url::Url;
use web_transport_proto::{
    ConnectError, ConnectRequest, ConnectResponse, Settings, SettingsError, StreamUni,
    VarInt as Number,
};

use crate::quic::connection::QuicData;
use crate::quic::lanes::Lanes;
use crate::quic::layer::Session;
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::identity::NAME;
use deadheat_datapath::transport::userspace::State;

/// First bytes of a lane's stream: the type 0x54, as a number of two bytes, and the session's number
/// (draft-ietf-webtrans-http3, 4.2).
pub(super) const STREAM_HEAD: &[u8] = &[0x40, 0x54, SESSION];

/// First byte of a datagram: a quarter of the session's number (RFC 9297, 2.1).
pub(super) const DATAGRAM_HEAD: &[u8] = &[SESSION / 4];

/// Unidirectional streams that a peer may have for HTTP/3: control, QPACK's two (RFC 9204, 4.2), and one of an unknown
/// type (RFC 9114, 6.2.3).
pub(super) const OWN_STREAMS: u32 = 4;

/// Number of the session: that of the first request's stream.
const SESSION: u8 = 0;

/// Most bytes of SETTINGS, or of a request or its answer, that are stored until they are complete.
const MOST: usize = 64 * 1024;

/// Codes that refuse streams: H3_REQUEST_REJECTED and H3_STREAM_CREATION_ERROR (RFC 9114, 8.1).
const REJECTED: VarInt = VarInt::from_u32(0x10b);
const UNWANTED: VarInt = VarInt::from_u32(0x103);

/// End of a session.
pub(super) struct Http3 {
    side: Side,
    state: State,
    /// True once SETTINGS were sent.
    has_sent_settings: bool,
    /// Control stream of the peer, and its SETTINGS so far.
    control: Option<StreamId>,
    settings: PeerFrame,
    /// Stream of the request, and the peer's message on it so far.
    request: Option<StreamId>,
    message: PeerFrame,
    /// Streams of the peer of yet unknown type.
    unknown: Vec<UntypedStream>,
    /// Streams of the peer that are read and dropped.
    dropped: Vec<StreamId>,
    /// Number of the peer's streams assigned to lanes.
    handed: usize,
}

/// Message that a peer sends once.
enum PeerFrame {
    /// Bytes so far.
    Bytes(Vec<u8>),
    /// Understood; bytes after it are dropped.
    Here,
}

/// Stream of yet unknown type.
struct UntypedStream {
    stream: StreamId,
    head: Vec<u8>,
}

/// Type of a stream.
#[derive(Debug, PartialEq, Eq)]
enum StreamType {
    Control,
    /// Stream of a lane.
    OfSession,
    /// Stream of QPACK.
    Instructions,
    /// Stream that is not needed.
    Unwanted,
    /// Stream that ended before its type, which has to be tolerated (RFC 9114, 6.2).
    Gone,
}

impl Http3 {
    pub(super) fn new(side: Side) -> Http3 {
        Http3 {
            side,
            state: State::Handshaking,
            has_sent_settings: false,
            control: None,
            settings: PeerFrame::Bytes(Vec::new()),
            request: None,
            message: PeerFrame::Bytes(Vec::new()),
            unknown: Vec::new(),
            dropped: Vec::new(),
            handed: 0,
        }
    }

    fn advance(&mut self, connection: &mut Connection, lanes: &mut Lanes) -> Result<(), String> {
        self.send_settings(connection)?;
        self.accept(connection);
        self.sort(connection, lanes)?;
        self.read_settings(connection)?;
        self.dropped.retain(|stream| {
            // An unneeded stream may also be reset.
            connection.read((*stream).into(), &mut |_| true) == Ok(false)
        });
        self.read_message(connection)
    }

    /// Sends SETTINGS, as soon as the peer allows streams.
    fn send_settings(&mut self, connection: &mut Connection) -> Result<(), String> {
        if !self.has_sent_settings
            && let Some(stream) = connection.streams().open(Dir::Uni)
        {
            let mut settings = Settings::default();
            settings.enable_webtransport(1);
            let mut bytes = Vec::new();
            settings.encode(&mut bytes);
            send_bytes(connection, stream, &bytes)?;
            self.has_sent_settings = true;
        }
        Ok(())
    }

    /// Accepts the peer's streams. One request opens the session; other bidirectional streams are refused.
    fn accept(&mut self, connection: &mut Connection) {
        while let Some(stream) = connection.streams().accept(Dir::Uni) {
            self.unknown.push(UntypedStream { stream, head: Vec::new() });
        }
        while let Some(stream) = connection.streams().accept(Dir::Bi) {
            if self.side == Side::Far && u64::from(stream) == u64::from(SESSION) {
                self.request = Some(stream);
                continue;
            }
            // Both fail only for a stream that is gone.
            let _ = connection.recv_stream(stream).stop(REJECTED);
            let _ = connection.send_stream(stream).reset(REJECTED);
        }
    }

    /// Sorts the peer's streams by type. A lane's stream is identified by the order in which the peer opened the
    /// streams; a stream after all of these holds one message, and need not wait for the type of another.
    fn sort(&mut self, connection: &mut Connection, lanes: &mut Lanes) -> Result<(), String> {
        let mut at = 0;
        while at < self.unknown.len() {
            let UntypedStream { stream, head } = &mut self.unknown[at];
            let stream = *stream;
            let Some(kind) = read_type(connection, stream, head) else {
                if self.handed < lanes.streams.len() {
                    break;
                }
                at += 1;
                continue;
            };
            let head = self.unknown.remove(at).head;
            match kind {
                StreamType::Control if self.control.is_some() => {
                    return Err("the peer has two control streams".to_owned());
                }
                StreamType::Control => {
                    self.control = Some(stream);
                    self.settings = PeerFrame::Bytes(head);
                }
                StreamType::OfSession => {
                    lanes.take(stream.into(), self.handed);
                    self.handed += 1;
                }
                StreamType::Instructions => self.dropped.push(stream),
                StreamType::Unwanted => {
                    let _ = connection.recv_stream(stream).stop(UNWANTED);
                }
                StreamType::Gone => {}
            }
        }
        Ok(())
    }

    fn read_settings(&mut self, connection: &mut Connection) -> Result<(), String> {
        let Some(control) = self.control else { return Ok(()) };
        self.settings.read(connection, control)?;
        let PeerFrame::Bytes(bytes) = &self.settings else { return Ok(()) };
        match Settings::decode(&mut &bytes[..]) {
            Ok(settings) if settings.supports_webtransport() > 0 => self.settings = PeerFrame::Here,
            Ok(_) => return Err("the peer speaks HTTP/3 without WebTransport".to_owned()),
            Err(SettingsError::UnexpectedEnd) => {}
            Err(error) => return Err(format!("the peer's SETTINGS make no sense: {error}")),
        }
        Ok(())
    }

    /// Sends the request for the session, or the answer; the peer's SETTINGS come first in both cases
    /// (draft-ietf-webtrans-http3, 3.1).
    fn read_message(&mut self, connection: &mut Connection) -> Result<(), String> {
        if matches!(self.settings, PeerFrame::Bytes(_)) {
            return Ok(());
        }
        if self.side == Side::Near && self.request.is_none() {
            self.request = connection.streams().open(Dir::Bi);
            if let Some(stream) = self.request {
                send_bytes(connection, stream, &session_request()?)?;
            }
        }
        let Some(stream) = self.request else { return Ok(()) };
        self.message.read(connection, stream)?;
        let PeerFrame::Bytes(bytes) = &self.message else { return Ok(()) };
        let understood = match self.side {
            Side::Near => ConnectResponse::decode(&mut &bytes[..]).map(|_| ()),
            Side::Far => ConnectRequest::decode(&mut &bytes[..]).map(|_| ()),
        };
        match understood {
            Ok(()) => {}
            Err(ConnectError::UnexpectedEnd) => return Ok(()),
            Err(error) => return Err(format!("no session: {error}")),
        }
        if self.side == Side::Far {
            let mut bytes = Vec::new();
            ConnectResponse::OK.encode(&mut bytes).map_err(|e| e.to_string())?;
            send_bytes(connection, stream, &bytes)?;
        }
        self.message = PeerFrame::Here;
        self.state = State::Open;
        Ok(())
    }
}

impl Session<Connection> for Http3 {
    fn reads(&self, stream: u64) -> bool {
        let stream = VarInt::from_u64(stream).map_or(StreamId::from(VarInt::MAX), StreamId::from);
        self.control == Some(stream)
            || self.request == Some(stream)
            || self.unknown.iter().any(|unknown| unknown.stream == stream)
            || self.dropped.contains(&stream)
    }

    fn attend(&mut self, connection: &mut Connection, lanes: &mut Lanes) -> State {
        match self.advance(connection, lanes) {
            Ok(()) => self.state.clone(),
            Err(why) => State::Closed(why),
        }
    }
}

impl PeerFrame {
    /// Reads bytes that arrived. Streams with awaited content stay open as long as the session does.
    fn read(&mut self, connection: &mut Connection, stream: StreamId) -> Result<(), String> {
        let has_ended = connection.read(stream.into(), &mut |chunk| {
            if let PeerFrame::Bytes(bytes) = self {
                bytes.extend_from_slice(&chunk);
            }
            !self.is_too_long()
        })?;
        if self.is_too_long() {
            return Err(format!("the peer's SETTINGS or request are longer than {MOST} bytes"));
        }
        if has_ended { Err("the peer ended the session".to_owned()) } else { Ok(()) }
    }

    fn is_too_long(&self) -> bool {
        matches!(self, PeerFrame::Bytes(bytes) if bytes.len() > MOST)
    }
}

/// Returns the request for a session.
fn session_request() -> Result<Vec<u8>, String> {
    let url = Url::parse(&format!("https://{NAME}/")).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    ConnectRequest::new(url).encode(&mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Sends a few bytes, for which every peer must have room.
fn send_bytes(connection: &mut Connection, stream: StreamId, bytes: &[u8]) -> Result<(), String> {
    match connection.send_stream(stream).write(bytes) {
        Ok(taken) if taken == bytes.len() => Ok(()),
        Ok(_) => Err("the peer has no room for SETTINGS and a request".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the type at the start of a stream, and no byte more; `None` while it is incomplete.
fn read_type(
    connection: &mut Connection,
    stream: StreamId,
    head: &mut Vec<u8>,
) -> Option<StreamType> {
    let mut incoming = connection.recv_stream(stream);
    let Ok(mut chunks) = incoming.read(true) else { return Some(StreamType::Gone) };
    let kind = loop {
        if let Some(kind) = type_of(head) {
            break Some(kind);
        }
        match chunks.next(1) {
            Ok(Some(chunk)) => head.extend_from_slice(&chunk.bytes),
            Ok(None) | Err(ReadError::Reset(_)) => break Some(StreamType::Gone),
            Err(ReadError::Blocked) => break None,
        }
    };
    let _ = chunks.finalize();
    kind
}

/// Returns the type of a stream that begins with `head`; `None` if more of it has to arrive.
fn type_of(head: &[u8]) -> Option<StreamType> {
    let mut rest = head;
    match StreamUni::decode(&mut rest).ok()? {
        StreamUni::CONTROL => Some(StreamType::Control),
        StreamUni::QPACK_ENCODER | StreamUni::QPACK_DECODER => Some(StreamType::Instructions),
        StreamUni::WEBTRANSPORT => {
            let session = Number::decode(&mut rest).ok()?.into_inner();
            Some(if session == u64::from(SESSION) {
                StreamType::OfSession
            } else {
                StreamType::Unwanted
            })
        }
        _ => Some(StreamType::Unwanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_say_what_they_are_in_their_first_bytes() {
        assert_eq!(type_of(STREAM_HEAD), Some(StreamType::OfSession));
        for len in 0..STREAM_HEAD.len() {
            assert_eq!(type_of(&STREAM_HEAD[..len]), None, "{len} bytes");
        }
        assert_eq!(type_of(&[0]), Some(StreamType::Control));
        assert_eq!(type_of(&[2]), Some(StreamType::Instructions));
        assert_eq!(type_of(&[3]), Some(StreamType::Instructions));
        // A push stream, a reserved type, and a stream of another session.
        for head in [&[1][..], &[0x21], &[0x40, 0x54, 4]] {
            assert_eq!(type_of(head), Some(StreamType::Unwanted), "{head:?}");
        }
    }

    #[test]
    fn the_request_is_one_for_webtransport() {
        let bytes = session_request().unwrap();
        let request = ConnectRequest::decode(&mut &bytes[..]).unwrap();
        assert_eq!(request.url.as_str(), "https://deadheat/");
        for len in 0..bytes.len() {
            let cut = ConnectRequest::decode(&mut &bytes[..len]);
            assert!(matches!(cut, Err(ConnectError::UnexpectedEnd)), "{len} bytes: {cut:?}");
        }
    }
}
