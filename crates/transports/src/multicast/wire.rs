//! Datagrams of the protocol. All numbers are big-endian.
//!
//! ```text
//! tag 8 | kind 1 | …
//!   call       port 2 | receivers 2 | segment 2             to the group: answer to this port
//!   data       flags 1 | number 8 | serial 8 | bytes        to the group
//!   status     receiver 2 | next 8 | room 8 | serial 8 | bitmap    to the sender alone
//! ```
//! The tag is the first half of the trial's token; datagrams with another tag are ignored. A **number** is a packet's
//! place in the stream, the same when it is sent again. A **serial** belongs to one transmission only, so an answer
//! shows which transmissions its receiver knows of. A status is acknowledgement and NACK in one: all packets before
//! `next` have arrived, there is room before `room`, `serial` is the highest received, and of the packets from `next`
//! on those with a set bit have arrived, the least significant bit of a byte first.

use deadheat_datapath::transport::hello::Token;

const CALL: u8 = 1;
const DATA: u8 = 2;
const STATUS: u8 = 3;

const ASKS: u8 = 1;
const ENDS: u8 = 2;

/// Bytes in front of the data of a packet.
pub(super) const HEADER: usize = 26;

/// Bytes of a status without its bitmap.
pub(super) const STATUS_LEN: usize = 35;

/// Mark of a trial's datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag([u8; 8]);

impl Tag {
    pub(super) fn of(token: &Token) -> Tag {
        let mut tag = [0; 8];
        tag.copy_from_slice(&token.bytes()[..8]);
        Tag(tag)
    }
}

/// Packet of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataPacket<'a> {
    pub(super) number: u64,
    pub(super) serial: u64,
    /// True if each receiver must answer.
    pub(super) asks: bool,
    /// True if the stream ends with this packet.
    pub(super) ends: bool,
    pub(super) bytes: &'a [u8],
}

/// State of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status<'a> {
    pub(super) receiver: u16,
    pub(super) next: u64,
    pub(super) room: u64,
    pub(super) serial: u64,
    pub(super) bitmap: &'a [u8],
}

impl Status<'_> {
    /// Returns true if the packet with this number has arrived.
    pub(super) fn has(&self, number: u64) -> bool {
        let Some(at) = number.checked_sub(self.next) else { return true };
        let byte = usize::try_from(at / 8).ok().and_then(|at| self.bitmap.get(at));
        byte.is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    }

    /// Returns the first number that the bitmap does not cover.
    pub(super) fn end(&self) -> u64 {
        self.next.saturating_add(8 * self.bitmap.len() as u64)
    }
}

/// Invitation of the sender to all receivers, which each of them answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// Port of the sender's host for answers.
    pub(super) port: u16,
    /// Number of receivers.
    pub(super) receivers: u16,
    /// Most bytes of the stream in a packet.
    pub(super) segment: u16,
}

/// Datagram of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MulticastDatagram<'a> {
    Call(Call),
    Data(DataPacket<'a>),
    Status(Status<'a>),
}

pub(super) fn write_call(tag: Tag, call: &Call, into: &mut Vec<u8>) {
    into.extend_from_slice(&tag.0);
    into.push(CALL);
    for number in [call.port, call.receivers, call.segment] {
        into.extend_from_slice(&number.to_be_bytes());
    }
}

/// Writes the header of a packet; its bytes follow.
pub(super) fn write_data(tag: Tag, data: &DataPacket<'_>, into: &mut Vec<u8>) {
    into.extend_from_slice(&tag.0);
    into.push(DATA);
    into.push(if data.asks { ASKS } else { 0 } | if data.ends { ENDS } else { 0 });
    into.extend_from_slice(&data.number.to_be_bytes());
    into.extend_from_slice(&data.serial.to_be_bytes());
    into.extend_from_slice(data.bytes);
}

pub(super) fn write_status(tag: Tag, status: &Status<'_>, into: &mut Vec<u8>) {
    into.extend_from_slice(&tag.0);
    into.push(STATUS);
    into.extend_from_slice(&status.receiver.to_be_bytes());
    for number in [status.next, status.room, status.serial] {
        into.extend_from_slice(&number.to_be_bytes());
    }
    into.extend_from_slice(status.bitmap);
}

/// Removes the first `N` bytes.
fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(first)
}

/// Reads a datagram of the trial; `None` for any other datagram.
pub(super) fn read(tag: Tag, datagram: &[u8]) -> Option<MulticastDatagram<'_>> {
    let mut rest = datagram;
    if *take::<8>(&mut rest)? != tag.0 {
        return None;
    }
    let [kind] = *take(&mut rest)?;
    let number = |rest: &mut &[u8]| take(rest).map(|bytes| u64::from_be_bytes(*bytes));
    match kind {
        CALL => {
            let mut number = || take(&mut rest).map(|bytes| u16::from_be_bytes(*bytes));
            let call = Call { port: number()?, receivers: number()?, segment: number()? };
            let is_sane =
                rest.is_empty() && call.port > 0 && call.receivers > 0 && call.segment > 0;
            is_sane.then_some(MulticastDatagram::Call(call))
        }
        DATA => {
            let [flags] = *take(&mut rest)?;
            let (asks, ends) = (flags & ASKS != 0, flags & ENDS != 0);
            let (number, serial) = (number(&mut rest)?, number(&mut rest)?);
            let is_known = flags & !(ASKS | ENDS) == 0;
            let data = DataPacket { number, serial, asks, ends, bytes: rest };
            is_known.then_some(MulticastDatagram::Data(data))
        }
        STATUS => {
            let receiver = u16::from_be_bytes(*take(&mut rest)?);
            let [next, room, serial] = [number(&mut rest)?, number(&mut rest)?, number(&mut rest)?];
            Some(MulticastDatagram::Status(Status { receiver, next, room, serial, bitmap: rest }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag([1, 2, 3, 4, 5, 6, 7, 8]);

    #[test]
    fn what_is_written_is_read_and_the_bytes_are_these() {
        let mut bytes = Vec::new();
        let call = Call { port: 0x1234, receivers: 8, segment: 1_446 };
        write_call(TAG, &call, &mut bytes);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 1, 0x12, 0x34, 0, 8, 5, 166]);
        assert_eq!(read(TAG, &bytes), Some(MulticastDatagram::Call(call)));

        let data = DataPacket { number: 5, serial: 9, asks: true, ends: false, bytes: b"abc" };
        bytes.clear();
        write_data(TAG, &data, &mut bytes);
        assert_eq!(bytes.len(), HEADER + 3);
        assert_eq!(bytes[8..10], [2, 1]);
        assert_eq!(read(TAG, &bytes), Some(MulticastDatagram::Data(data)));

        let status = Status { receiver: 3, next: 100, room: 116, serial: 140, bitmap: &[0b10, 1] };
        bytes.clear();
        write_status(TAG, &status, &mut bytes);
        assert_eq!(bytes.len(), STATUS_LEN + 2);
        assert_eq!(read(TAG, &bytes), Some(MulticastDatagram::Status(status)));
        let has = |number| status.has(number);
        assert!(has(99) && !has(100) && has(101) && !has(102) && has(108) && !has(1_000));
        assert_eq!(status.end(), 116);
    }

    #[test]
    fn what_is_cut_another_trial_s_or_unknown_is_nothing() {
        let mut whole = Vec::new();
        write_status(
            TAG,
            &Status { receiver: 1, next: 2, room: 3, serial: 4, bitmap: &[] },
            &mut whole,
        );
        for len in 0..whole.len() {
            assert_eq!(read(TAG, &whole[..len]), None, "{len}");
        }
        assert_eq!(read(Tag([9; 8]), &whole), None);
        for (at, byte) in [(8, 0), (8, 9)] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(read(TAG, &other), None);
        }
        for (port, more) in [(7, &[0][..]), (0, &[])] {
            let mut call = Vec::new();
            write_call(TAG, &Call { port, receivers: 1, segment: 1 }, &mut call);
            call.extend(more);
            assert_eq!(read(TAG, &call), None);
        }
    }
}
