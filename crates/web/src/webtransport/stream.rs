//! Streams of a connection of QUIC: their bytes are read or dropped, and one may be refused.

use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};

/// Bytes of a request that are read at once.
pub(super) const PIECE: usize = 4_096;

/// State of a stream after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamState {
    Open,
    Ended,
    Reset,
}

/// Reads at most `most` bytes that arrived on a stream.
pub(super) fn read(
    connection: &mut Connection,
    stream: StreamId,
    most: usize,
    into: &mut Vec<u8>,
) -> StreamState {
    let mut incoming = connection.recv_stream(stream);
    let Ok(mut chunks) = incoming.read(true) else { return StreamState::Ended };
    let end = into.len() + most;
    let state = loop {
        if into.len() >= end {
            break StreamState::Open;
        }
        match chunks.next(end - into.len()) {
            Ok(Some(chunk)) => into.extend_from_slice(&chunk.bytes),
            Ok(None) => break StreamState::Ended,
            Err(ReadError::Blocked) => break StreamState::Open,
            Err(ReadError::Reset(_)) => break StreamState::Reset,
        }
    };
    // The freed window is announced with the next packet.
    let _ = chunks.finalize();
    state
}

/// Reads and drops all that arrived on a stream.
pub(super) fn drain(connection: &mut Connection, stream: StreamId) -> StreamState {
    loop {
        let mut bytes = Vec::new();
        let state = read(connection, stream, PIECE, &mut bytes);
        if state != StreamState::Open || bytes.is_empty() {
            return state;
        }
    }
}

/// Refuses a stream of the browser. Both calls fail only for a direction that is gone.
pub(super) fn refuse(connection: &mut Connection, stream: StreamId, code: VarInt) {
    let _ = connection.recv_stream(stream).stop(code);
    if stream.dir() == Dir::Bi {
        let _ = connection.send_stream(stream).reset(code);
    }
}
