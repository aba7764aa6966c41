//! HTTP/3 on the connection of a browser, as far as a session of WebTransport needs it: SETTINGS on a control stream, one
//! request that opens the session, and streams and datagrams of it.

use std::sync::Arc;

use deadheat_far_ends::http3::{Frame, FrameEvent, Frames, put_varint, varint};
use quinn_proto::{Connection, Dir, StreamId, VarInt};

use super::datagram_lane::DatagramLane;
use super::request::{BrowserAnswer, HEADERS, is_for_session};
use super::stream::{PIECE, StreamState, drain, read, refuse};
use super::stream_lane::StreamLane;
use crate::work::{Tickets, Work};
use deadheat_base::time::Nanos;

/// Types of frames (RFC 9114, 7.2).
const DATA: u64 = 0x0;
const SETTINGS: u64 = 0x4;

/// Types of streams: control (RFC 9114, 6.2.1), QPACK (RFC 9204, 4.2), and streams of a session in both directions
/// (draft-ietf-webtrans-http3, 4.3).
const CONTROL: u64 = 0x0;
const QPACK: [u64; 2] = [0x2, 0x3];
const OF_SESSION: u64 = 0x41;

/// Settings: extended CONNECT (RFC 9220), datagrams (RFC 9297; before its publication), and WebTransport by the numbers of its
/// drafts: 2, which Chromium and Firefox read, 7, 13 and 15. The value of all is 1.
const OWN_SETTINGS: [u64; 7] =
    [0x08, 0x33, 0xff_d277, 0x2b60_3742, 0xc671_706a, 0x14e9_cd29, 0x2c7c_f000];

/// Codes of streams and connections (RFC 9114, 8.1): H3_GENERAL_PROTOCOL_ERROR, H3_STREAM_CREATION_ERROR,
/// H3_REQUEST_REJECTED and H3_NO_ERROR.
pub(super) const BROKEN: VarInt = VarInt::from_u32(0x101);
const UNKNOWN_STREAM: VarInt = VarInt::from_u32(0x103);
const REJECTED: VarInt = VarInt::from_u32(0x10b);
pub(super) const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// Bytes that begin a stream of a session: two numbers.
const LONGEST_HEAD: usize = 16;

/// HTTP/3 on one connection.
#[derive(Default)]
pub(super) struct Http3Session {
    has_sent_settings: bool,
    /// Streams of the browser whose types have not arrived, or that wait for the session.
    begun: Vec<BegunStream>,
    control: Option<ControlStream>,
    /// Streams that are read and dropped.
    dropped: Vec<StreamId>,
    requests: Vec<RequestStream>,
    /// Stream of the request that opened the session.
    opened: Option<StreamId>,
    streams: Vec<StreamLane>,
    datagrams: Option<DatagramLane>,
    is_over: bool,
}

/// Stream with its first bytes.
struct BegunStream {
    stream: StreamId,
    head: Vec<u8>,
}

/// Control stream of the browser.
struct ControlStream {
    stream: StreamId,
    frames: Frames,
    has_settings: bool,
}

/// Stream of a request.
struct RequestStream {
    stream: StreamId,
    frames: Frames,
    /// True once the request was answered.
    is_answered: bool,
}

/// Type of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamKind {
    Control,
    Qpack,
    Request,
    /// Stream of the session with this number; so many bytes say so.
    OfSession(u64, usize),
    Unknown,
}

impl Http3Session {
    /// Moves all on that arrived, and sends what may leave.
    ///
    /// # Errors
    /// The violation of the browser, as a sentence.
    pub(super) fn attend(
        &mut self,
        connection: &mut Connection,
        now: Nanos,
        tickets: &Arc<dyn Tickets>,
    ) -> Result<(), String> {
        self.send_settings(connection)?;
        for dir in [Dir::Bi, Dir::Uni] {
            while let Some(stream) = connection.streams().accept(dir) {
                self.begun.push(BegunStream { stream, head: Vec::new() });
            }
        }
        self.sort(connection, tickets)?;
        self.read_requests(connection, tickets)?;
        // Streams that waited for the session.
        self.sort(connection, tickets)?;
        self.read_control(connection)?;
        self.dropped.retain(|stream| drain(connection, *stream) == StreamState::Open);
        self.streams.retain_mut(|lane| lane.carry(connection, now));
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.carry(connection, now);
        }
        Ok(())
    }

    /// Returns true once the browser has closed the session.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the time at which the last of its trials must be over; `None` without a trial.
    pub(super) fn ends(&self) -> Option<Nanos> {
        let datagrams = self.datagrams.as_ref().and_then(DatagramLane::ends);
        self.streams.iter().filter_map(StreamLane::ends).chain(datagrams).max()
    }

    /// Returns the time at which a work has something to send.
    pub(super) fn due(&self) -> Option<Nanos> {
        let datagrams = self.datagrams.as_ref().and_then(DatagramLane::due);
        self.streams.iter().filter_map(StreamLane::due).chain(datagrams).min()
    }

    fn send_settings(&mut self, connection: &mut Connection) -> Result<(), String> {
        if self.has_sent_settings {
            return Ok(());
        }
        let Some(stream) = connection.streams().open(Dir::Uni) else { return Ok(()) };
        self.has_sent_settings = true;
        send(connection, stream, &own_settings())
    }

    /// Sorts the streams whose types have arrived.
    fn sort(
        &mut self,
        connection: &mut Connection,
        tickets: &Arc<dyn Tickets>,
    ) -> Result<(), String> {
        let mut at = 0;
        while let Some(begun) = self.begun.get_mut(at) {
            let room = LONGEST_HEAD.saturating_sub(begun.head.len());
            let state = read(connection, begun.stream, room, &mut begun.head);
            match kind_of(begun.stream.dir(), &begun.head) {
                Some(StreamKind::OfSession(..)) if self.opened.is_none() => at += 1,
                Some(kind) => {
                    let begun = self.begun.remove(at);
                    self.place(connection, begun, kind, tickets)?;
                }
                None if state == StreamState::Open => at += 1,
                None => {
                    let begun = self.begun.remove(at);
                    refuse(connection, begun.stream, REJECTED);
                }
            }
        }
        Ok(())
    }

    fn place(
        &mut self,
        connection: &mut Connection,
        begun: BegunStream,
        kind: StreamKind,
        tickets: &Arc<dyn Tickets>,
    ) -> Result<(), String> {
        let BegunStream { stream, head } = begun;
        match kind {
            StreamKind::Control if self.control.is_some() => {
                return Err("it has two control streams".to_owned());
            }
            StreamKind::Control => {
                let mut control =
                    ControlStream { stream, frames: Frames::default(), has_settings: false };
                // Its type has one byte.
                control.feed(&head[1..])?;
                self.control = Some(control);
            }
            StreamKind::Qpack => self.dropped.push(stream),
            StreamKind::Request => {
                let request =
                    RequestStream { stream, frames: Frames::default(), is_answered: false };
                self.requests.push(request);
                self.feed_request(connection, self.requests.len() - 1, &head, tickets)?;
            }
            StreamKind::OfSession(session, len) => {
                if self.opened.is_some_and(|own| u64::from(own) == session) {
                    let work = Work::new(Arc::clone(tickets));
                    self.streams.push(StreamLane::new(stream, head[len..].to_vec(), work));
                } else {
                    refuse(connection, stream, REJECTED);
                }
            }
            StreamKind::Unknown => refuse(connection, stream, UNKNOWN_STREAM),
        }
        Ok(())
    }

    fn read_control(&mut self, connection: &mut Connection) -> Result<(), String> {
        let Some(control) = &mut self.control else { return Ok(()) };
        loop {
            let mut bytes = Vec::new();
            let state = read(connection, control.stream, PIECE, &mut bytes);
            control.feed(&bytes)?;
            match state {
                // RFC 9114, 6.2.1: it must not end.
                StreamState::Ended | StreamState::Reset => {
                    return Err("it ended its control stream".to_owned());
                }
                StreamState::Open if bytes.is_empty() => return Ok(()),
                StreamState::Open => {}
            }
        }
    }

    fn read_requests(
        &mut self,
        connection: &mut Connection,
        tickets: &Arc<dyn Tickets>,
    ) -> Result<(), String> {
        let mut at = 0;
        while let Some(request) = self.requests.get(at) {
            let (stream, mut bytes) = (request.stream, Vec::new());
            let state = read(connection, stream, PIECE, &mut bytes);
            self.feed_request(connection, at, &bytes, tickets)?;
            match state {
                StreamState::Open if bytes.is_empty() => at += 1,
                StreamState::Open => {}
                StreamState::Ended | StreamState::Reset => {
                    self.is_over |= self.opened == Some(stream);
                    if !self.requests.remove(at).is_answered {
                        refuse(connection, stream, REJECTED);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes bytes of a request, and answers it.
    fn feed_request(
        &mut self,
        connection: &mut Connection,
        at: usize,
        bytes: &[u8],
        tickets: &Arc<dyn Tickets>,
    ) -> Result<(), String> {
        let request = &mut self.requests[at];
        let mut asked = None;
        request.frames.feed(bytes, &mut |kind, event| match (kind, event) {
            (HEADERS, FrameEvent::Payload(section)) if asked.is_none() => {
                asked = Some(is_for_session(section)?);
                Ok(Frame::Whole)
            }
            (HEADERS, _) => Ok(Frame::Whole),
            (SETTINGS, _) => Err("its request has a frame with SETTINGS".to_owned()),
            // Capsules of the session (RFC 9297, 3.2): its end is the end of the stream, too.
            _ => Ok(Frame::Skipped),
        })?;
        let Some(asked) = asked.filter(|_| !request.is_answered) else { return Ok(()) };
        request.is_answered = true;
        let stream = request.stream;
        let answer = match asked {
            false => BrowserAnswer::NotFound,
            true if self.opened.is_some() => BrowserAnswer::Busy,
            true => BrowserAnswer::Opened,
        };
        send(connection, stream, &answer.frame())?;
        if answer == BrowserAnswer::Opened {
            self.opened = Some(stream);
            self.datagrams = Some(DatagramLane::new(stream, Work::new(Arc::clone(tickets))));
        } else {
            // It fails only for a stream that is gone.
            let _ = connection.send_stream(stream).finish();
        }
        Ok(())
    }
}

impl ControlStream {
    /// Takes bytes of the control stream, of which only the types of frames matter.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        let has_settings = &mut self.has_settings;
        self.frames.feed(bytes, &mut |kind, event| match (kind, event) {
            (SETTINGS, FrameEvent::Begins) if *has_settings => {
                Err("its control stream has two frames with SETTINGS".to_owned())
            }
            (DATA | HEADERS, _) => {
                Err(format!("its control stream has a frame of the type {kind:#x}"))
            }
            (SETTINGS, _) => {
                *has_settings = true;
                Ok(Frame::Skipped)
            }
            (kind, _) if !*has_settings => Err(format!(
                "its control stream begins with a frame of the type {kind:#x}, not with SETTINGS"
            )),
            _ => Ok(Frame::Skipped),
        })
    }
}

/// Returns the type of a stream that begins with `head`; `None` if more of it has to arrive.
fn kind_of(dir: Dir, head: &[u8]) -> Option<StreamKind> {
    let (kind, len) = varint(head)?;
    Some(match (dir, kind) {
        (Dir::Bi, OF_SESSION) => {
            let (session, more) = varint(&head[len..])?;
            StreamKind::OfSession(session, len + more)
        }
        (Dir::Bi, _) => StreamKind::Request,
        (Dir::Uni, CONTROL) if len == 1 => StreamKind::Control,
        (Dir::Uni, kind) if QPACK.contains(&kind) => StreamKind::Qpack,
        (Dir::Uni, _) => StreamKind::Unknown,
    })
}

/// Returns the first bytes of the control stream.
fn own_settings() -> Vec<u8> {
    let mut settings = Vec::new();
    for setting in OWN_SETTINGS {
        match setting {
            0..0x4000_0000 => put_varint(&mut settings, setting),
            // A number of 8 bytes (RFC 9000, 16).
            _ => settings.extend_from_slice(&(setting | 0xc000_0000_0000_0000).to_be_bytes()),
        }
        settings.push(1);
    }
    let mut out = Vec::new();
    put_varint(&mut out, CONTROL);
    put_varint(&mut out, SETTINGS);
    put_varint(&mut out, settings.len() as u64);
    [out, settings].concat()
}

/// Sends a few bytes, for which every browser must have room.
fn send(connection: &mut Connection, stream: StreamId, bytes: &[u8]) -> Result<(), String> {
    match connection.send_stream(stream).write(bytes) {
        Ok(taken) if taken == bytes.len() => Ok(()),
        Ok(_) => Err("it has no room for an answer".to_owned()),
        // The browser wants no answer any more.
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_say_what_they_are_in_their_first_bytes() {
        let of = |dir, head: &[u8]| kind_of(dir, head);
        for len in 0..3 {
            assert_eq!(of(Dir::Bi, &[0x40, 0x41, 4][..len]), None);
        }
        assert_eq!(of(Dir::Bi, &[0x40, 0x41, 4, 9]), Some(StreamKind::OfSession(4, 3)));
        assert_eq!(of(Dir::Bi, &[1]), Some(StreamKind::Request));
        assert_eq!(of(Dir::Uni, &[0]), Some(StreamKind::Control));
        assert_eq!(of(Dir::Uni, &[0x40, 0]), Some(StreamKind::Unknown));
        assert_eq!(of(Dir::Uni, &[2]), Some(StreamKind::Qpack));
        assert_eq!(of(Dir::Uni, &[0x40, 0x54]), Some(StreamKind::Unknown));
        assert_eq!(of(Dir::Uni, &[]), None);
    }

    #[test]
    fn settings_are_numbers_in_pairs_and_each_is_one() {
        let bytes = own_settings();
        assert_eq!((bytes[0], bytes[1], usize::from(bytes[2])), (0, 4, bytes.len() - 3));
        let mut rest = &bytes[3..];
        let mut read = Vec::new();
        while let Some((setting, len)) = varint(rest) {
            assert_eq!(rest[len], 1);
            read.push(setting);
            rest = &rest[len + 1..];
        }
        assert_eq!(read, OWN_SETTINGS);
    }
}
