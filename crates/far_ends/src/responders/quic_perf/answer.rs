//! Answer to one stream.

use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt, WriteError};

/// Bytes that ask for the length of the answer.
const WISH_LEN: usize = 8;

/// Bytes of answers: every client drops them.
static CONTENT: [u8; 64 * 1024] = [0; 64 * 1024];

/// Code of a stream that breaks the protocol.
const BROKEN: VarInt = VarInt::from_u32(1);

/// Answer to one stream.
pub(super) struct PerfAnswer {
    from: StreamId,
    wish: [u8; WISH_LEN],
    have: usize,
    state: AnswerState,
}

/// Progress of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerState {
    /// The client sends.
    Reads,
    /// All was read, and the stream for the answer is not open yet.
    Opens,
    /// So many bytes are left to send on this stream.
    Sends(StreamId, u64),
}

impl PerfAnswer {
    pub(super) fn new(from: StreamId) -> PerfAnswer {
        PerfAnswer { from, wish: [0; WISH_LEN], have: 0, state: AnswerState::Reads }
    }

    /// Reads what arrived and sends what there is room for; returns true once the answer is over.
    pub(super) fn step(&mut self, connection: &mut Connection) -> bool {
        if self.state == AnswerState::Reads {
            match self.read(connection) {
                Some(false) => return false,
                Some(true) if self.have == WISH_LEN => self.state = AnswerState::Opens,
                Some(true) | None => {
                    if self.from.dir() == Dir::Bi {
                        let _ = connection.send_stream(self.from).reset(BROKEN);
                    }
                    return true;
                }
            }
        }
        if self.state == AnswerState::Opens {
            let onto = match self.from.dir() {
                Dir::Bi => Some(self.from),
                Dir::Uni => connection.streams().open(Dir::Uni),
            };
            let Some(onto) = onto else { return false };
            self.state = AnswerState::Sends(onto, u64::from_be_bytes(self.wish));
        }
        self.send(connection)
    }

    /// Reads to the end of the stream; returns true there, and `None` if the client gave it up.
    fn read(&mut self, connection: &mut Connection) -> Option<bool> {
        let mut stream = connection.recv_stream(self.from);
        let mut chunks = stream.read(true).ok()?;
        let ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    let len = chunk.bytes.len().min(WISH_LEN - self.have);
                    self.wish[self.have..self.have + len].copy_from_slice(&chunk.bytes[..len]);
                    self.have += len;
                }
                Ok(None) => break Some(true),
                Err(ReadError::Blocked) => break Some(false),
                Err(ReadError::Reset(_)) => break None,
            }
        };
        // The freed window is announced with the next packet.
        let _ = chunks.finalize();
        ended
    }

    fn send(&mut self, connection: &mut Connection) -> bool {
        let AnswerState::Sends(onto, left) = &mut self.state else { return false };
        let mut stream = connection.send_stream(*onto);
        while *left > 0 {
            let len = usize::try_from(*left).unwrap_or(usize::MAX).min(CONTENT.len());
            match stream.write(&CONTENT[..len]) {
                Ok(taken) => *left -= taken as u64,
                Err(WriteError::Blocked) => return false,
                // The client wants no more, or has it all.
                Err(_) => {
                    let _ = stream.reset(VarInt::from_u32(0));
                    return true;
                }
            }
        }
        let _ = stream.finish();
        true
    }
}
