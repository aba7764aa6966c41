//! Frames on the streams of HTTP/3 (RFC 9114, 7.1), and the numbers of QUIC that they begin with.

use super::version::MOST_HEADER;

/// Use of a frame's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// Passed on as it comes.
    Streamed,
    /// Passed on when it is whole.
    Whole,
    /// Dropped.
    Skipped,
}

/// Event of a frame.
#[derive(Debug)]
pub enum FrameEvent<'a> {
    /// It begins.
    Begins,
    /// Bytes of its payload, or all of them.
    Payload(&'a [u8]),
}

/// Reader of frames.
#[derive(Debug, Default)]
pub struct Frames {
    /// Start of a frame whose type and length have not arrived, or a payload that is not whole.
    held: Vec<u8>,
    /// Frame whose payload arrives: its type, its use, and the bytes that are left.
    current: Option<(u64, Frame, u64)>,
}

/// Receiver of frames: returns the use of a frame that begins, which is ignored for a payload.
pub type OnFrame<'a> = &'a mut dyn FnMut(u64, FrameEvent<'_>) -> Result<Frame, String>;

impl Frames {
    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// The violation, as a sentence, or the error of `on`.
    pub fn feed(&mut self, mut bytes: &[u8], on: OnFrame<'_>) -> Result<(), String> {
        loop {
            let Some((kind, frame, left)) = self.current else {
                if bytes.is_empty() {
                    return Ok(());
                }
                bytes = self.begin(bytes, on)?;
                continue;
            };
            let len = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
            let (own, rest) = bytes.split_at(len);
            let left = left - own.len() as u64;
            match frame {
                Frame::Streamed if !own.is_empty() => drop(on(kind, FrameEvent::Payload(own))?),
                Frame::Whole => {
                    self.held.extend_from_slice(own);
                    if left == 0 {
                        let whole = std::mem::take(&mut self.held);
                        on(kind, FrameEvent::Payload(&whole))?;
                    }
                }
                Frame::Streamed | Frame::Skipped => {}
            }
            self.current = (left > 0).then_some((kind, frame, left));
            bytes = rest;
            if left > 0 {
                return Ok(());
            }
        }
    }

    /// Reads type and length of a frame; returns the bytes behind them.
    fn begin<'a>(&mut self, bytes: &'a [u8], on: OnFrame<'_>) -> Result<&'a [u8], String> {
        let before = self.held.len();
        // Two numbers of at most 8 bytes.
        let (own, _) = bytes.split_at(bytes.len().min(16_usize.saturating_sub(before)));
        self.held.extend_from_slice(own);
        let found = varint(&self.held).and_then(|(kind, first)| {
            let (length, second) = varint(&self.held[first..])?;
            Some((kind, length, first + second))
        });
        let Some((kind, length, len)) = found else { return Ok(&[]) };
        self.held.clear();
        let frame = on(kind, FrameEvent::Begins)?;
        if frame == Frame::Whole && length > MOST_HEADER as u64 {
            return Err(format!("its header is longer than {MOST_HEADER} bytes"));
        }
        self.current = Some((kind, frame, length));
        Ok(&bytes[len - before..])
    }

    /// Returns true between two frames.
    pub fn is_between(&self) -> bool {
        self.current.is_none() && self.held.is_empty()
    }
}

/// Reads a number of 1, 2, 4 or 8 bytes (RFC 9000, 16), and returns it with its length; `None` if its end is missing.
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let len = 1_usize << (first >> 6);
    let own = bytes.get(..len)?;
    let rest =
        own[1..].iter().fold(u64::from(first & 0x3f), |sum, byte| sum << 8 | u64::from(*byte));
    Some((rest, len))
}

/// Writes a number below 2^30.
pub fn put_varint(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x40 => out.push(number as u8),
        0x40..0x4000 => out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        _ => out.extend_from_slice(&(number as u32 | 0x8000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_lengths_of_quic() {
        // RFC 9000, A.1.
        for (bytes, number) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(varint(bytes), Some((number, bytes.len())));
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None);
            if number < 1 << 30 {
                let mut out = Vec::new();
                put_varint(&mut out, number);
                assert_eq!(out, bytes);
            }
        }
    }
}
