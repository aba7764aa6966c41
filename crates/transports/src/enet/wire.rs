//! Link between ENet and the socket: queues of datagrams in both directions, and a ledger of the commands in them. The
//! library shows neither its next deadline nor acknowledgements, so both are read from its packets.

use std::collections::VecDeque;
use std::convert::Infallible;

use rusty_enet::{MTU_MAX, PacketReceived, Socket};

/// Time without an acknowledgement after which the library pings the peer, in milliseconds.
const PING_INTERVAL: u64 = rusty_enet::consts::PEER_PING_INTERVAL as u64;

/// Queue of datagrams that reuses its memory.
#[derive(Debug, Default)]
struct DatagramQueue {
    bytes: Vec<u8>,
    lengths: VecDeque<usize>,
    taken: usize,
}

impl DatagramQueue {
    fn put(&mut self, datagram: &[u8]) {
        self.bytes.extend_from_slice(datagram);
        self.lengths.push_back(datagram.len());
    }

    /// Passes the next datagram to `to`.
    fn take<T>(&mut self, to: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let len = self.lengths.pop_front()?;
        let result = to(&self.bytes[self.taken..self.taken + len]);
        self.taken += len;
        if self.lengths.is_empty() {
            self.bytes.clear();
            self.taken = 0;
        }
        Some(result)
    }

    fn waiting(&self) -> usize {
        self.bytes.len() - self.taken
    }
}

/// Socket that the library uses.
#[derive(Debug)]
pub(super) struct EnetSocket {
    incoming: DatagramQueue,
    outgoing: DatagramQueue,
    /// Number of channels of the connection.
    channels: usize,
    /// Ledger of the commands that left and arrived.
    pub(super) ledger: CommandLedger,
}

impl EnetSocket {
    pub(super) fn new(channels: usize) -> EnetSocket {
        EnetSocket {
            channels,
            incoming: DatagramQueue::default(),
            outgoing: DatagramQueue::default(),
            ledger: CommandLedger::new(),
        }
    }

    /// Stores a datagram for the library. Ignores a datagram longer than any of the library's own, and a datagram that
    /// grants another number of channels than was requested: lanes would be missing, and the library frees memory by
    /// that number, whatever it allocated.
    pub(super) fn arrived(&mut self, datagram: &[u8]) {
        let grants = commands(datagram).filter(|command| command.kind == VERIFY_CONNECT);
        let is_ours = |grant: Command<'_>| {
            let count = grant.fields.get(CHANNELS_AT..CHANNELS_AT + 4);
            count.is_some_and(|count| count == (self.channels as u32).to_be_bytes())
        };
        if datagram.len() <= MTU_MAX && { grants }.all(is_ours) {
            self.ledger.arrived(datagram);
            self.incoming.put(datagram);
        }
    }

    /// Returns true if the library has not read all datagrams that arrived.
    pub(super) fn has_arrivals(&self) -> bool {
        !self.incoming.lengths.is_empty()
    }

    /// Appends the next datagram to `batch`; returns its length.
    pub(super) fn leave(&mut self, batch: &mut Vec<u8>) -> Option<usize> {
        self.outgoing.take(|datagram| {
            batch.extend_from_slice(datagram);
            datagram.len()
        })
    }

    /// Returns the number of bytes that wait to leave.
    pub(super) fn waiting(&self) -> usize {
        self.outgoing.waiting()
    }
}

impl Socket for EnetSocket {
    type Address = ();
    type Error = Infallible;

    fn send(&mut self, (): (), datagram: &[u8]) -> Result<usize, Infallible> {
        self.ledger.on_send(datagram);
        self.outgoing.put(datagram);
        Ok(datagram.len())
    }

    fn receive(
        &mut self,
        room: &mut [u8; MTU_MAX],
    ) -> Result<Option<((), PacketReceived)>, Infallible> {
        Ok(self.incoming.take(|datagram| {
            room[..datagram.len()].copy_from_slice(datagram);
            ((), PacketReceived::Complete(datagram.len()))
        }))
    }
}

/// Command in a datagram: <https://github.com/lsalzman/enet>, protocol.h.
#[derive(Debug, Clone, Copy)]
struct Command<'a> {
    kind: u8,
    wants_acknowledgement: bool,
    channel: u8,
    number: u16,
    /// Bytes after these fields, up to the data.
    fields: &'a [u8],
    /// Length of the data behind it.
    data: usize,
}

const ACKNOWLEDGE: u8 = 1;
const VERIFY_CONNECT: u8 = 3;

/// Offset of the number of channels in the command that accepts a connection.
const CHANNELS_AT: usize = 12;

/// Bytes of each kind of command without its data.
const SIZES: [usize; 13] = [0, 8, 48, 44, 8, 4, 6, 8, 24, 8, 12, 16, 24];

/// Returns the offset of the data length in a kind of command; `None` for a kind without data.
fn length_at(kind: u8) -> Option<usize> {
    match kind {
        6 => Some(0),
        7 | 8 | 9 | 12 => Some(2),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

/// Returns the complete commands of a datagram.
fn commands(datagram: &[u8]) -> impl Iterator<Item = Command<'_>> {
    const HAS_SENT_TIME: u16 = 0x8000;
    let flags = word(datagram, 0).unwrap_or_default();
    let header = if flags & HAS_SENT_TIME == 0 { 2 } else { 4 };
    let mut rest = datagram.get(header..).unwrap_or_default();
    std::iter::from_fn(move || {
        let kind = rest.first()? & 15;
        let size = SIZES.get(usize::from(kind)).copied().filter(|size| *size > 0)?;
        let fields = rest.get(4..size)?;
        let data = length_at(kind).map_or(Some(0), |at| word(fields, at).map(usize::from))?;
        let (wants_acknowledgement, channel) = (rest[0] & 128 != 0, rest[1]);
        let number = word(rest, 2)?;
        rest = rest.get(size + data..)?;
        Some(Command { kind, wants_acknowledgement, channel, number, fields, data })
    })
}

/// A command that was sent and not acknowledged.
#[derive(Debug, Clone, Copy)]
struct SentCommand {
    channel: u8,
    number: u16,
    data: usize,
    /// Time at which it left, and its timeout, in milliseconds.
    at: u64,
    timeout: u64,
    is_first: bool,
}

/// Commands under way, in the order in which the library sent them, in which it also checks their timeouts.
#[derive(Debug)]
pub(super) struct CommandLedger {
    sent: VecDeque<SentCommand>,
    /// Next unused number of each channel.
    next: Box<[u16; 256]>,
    /// Time of the library, and the timeout of commands sent now, in milliseconds.
    now: u64,
    timeout: u64,
    last_answer: u64,
    /// Bytes of reliable data that were written and not acknowledged.
    owed: usize,
    /// Bytes of these that have left.
    flying: usize,
    /// Datagrams with data that was not sent before.
    pub(super) packets: u64,
    /// Retransmitted commands with data.
    pub(super) resent: u64,
}

impl CommandLedger {
    fn new() -> CommandLedger {
        CommandLedger {
            sent: VecDeque::new(),
            next: Box::new([1; 256]),
            now: 0,
            timeout: 0,
            last_answer: 0,
            owed: 0,
            flying: 0,
            packets: 0,
            resent: 0,
        }
    }

    /// Prepares for a call of the library.
    pub(super) fn begin(&mut self, now: u64, timeout: u64) {
        (self.now, self.timeout) = (now, timeout);
    }

    /// Ends a call of the library, during which a received datagram may have changed the timeout: the commands that
    /// left since may have either.
    pub(super) fn end(&mut self, timeout: u64) {
        let now = self.now;
        let recent = self.sent.iter_mut().rev().take_while(|sent| sent.at == now);
        for sent in recent.filter(|sent| sent.is_first) {
            sent.timeout = sent.timeout.min(timeout);
        }
    }

    /// Notes that reliable data was written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.owed += bytes;
    }

    /// Returns the number of bytes of reliable data that were written and not acknowledged.
    pub(super) fn owed(&self) -> usize {
        self.owed
    }

    /// Returns the number of bytes of these that have left.
    pub(super) fn flying(&self) -> usize {
        self.flying
    }

    fn on_send(&mut self, datagram: &[u8]) {
        let mut is_new = false;
        for command in commands(datagram) {
            let Command { channel, number, data, .. } = command;
            let has_data = length_at(command.kind).is_some();
            if !command.wants_acknowledgement {
                is_new |= has_data;
                continue;
            }
            let mut sent = SentCommand {
                channel,
                number,
                data,
                at: self.now,
                timeout: self.timeout,
                is_first: true,
            };
            let next = &mut self.next[usize::from(channel)];
            if (number.wrapping_sub(*next) as i16) < 0 {
                self.resent += u64::from(has_data);
                // The library retransmits due commands before it reads datagrams, which may acknowledge the same
                // command.
                let Some(before) = self.find(channel, number) else { continue };
                sent.timeout = before.timeout * 2;
                sent.is_first = false;
            } else {
                *next = number.wrapping_add(1);
                is_new |= has_data;
            }
            self.flying += data;
            self.sent.push_back(sent);
        }
        self.packets += u64::from(is_new);
    }

    fn arrived(&mut self, datagram: &[u8]) {
        for command in commands(datagram) {
            let number = match command.kind {
                ACKNOWLEDGE => word(command.fields, 0),
                // It acknowledges the command that requests a connection.
                VERIFY_CONNECT => Some(1),
                _ => None,
            };
            let Some(number) = number else { continue };
            if let Some(sent) = self.find(command.channel, number) {
                self.owed = self.owed.saturating_sub(sent.data);
                self.last_answer = self.now;
            }
        }
    }

    /// Removes a command.
    fn find(&mut self, channel: u8, number: u16) -> Option<SentCommand> {
        let is_it = |sent: &SentCommand| sent.channel == channel && sent.number == number;
        let at = self.sent.iter().position(is_it)?;
        let sent = self.sent.remove(at)?;
        self.flying -= sent.data;
        Some(sent)
    }

    /// Returns the time of the library's next deadline, in its milliseconds: a retransmission of its oldest command, or
    /// a ping. If the library does nothing then, it is called again every millisecond.
    pub(super) fn due(&self) -> u64 {
        let due = match self.sent.front() {
            Some(oldest) => oldest.at + oldest.timeout,
            None => self.last_answer + PING_INTERVAL,
        };
        due.max(self.now + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reliable(number: u16, data: &[u8]) -> Vec<u8> {
        let mut command = vec![128 | 6, 0];
        command.extend(number.to_be_bytes());
        command.extend((data.len() as u16).to_be_bytes());
        command.extend(data);
        command
    }

    fn datagram(commands: &[Vec<u8>]) -> Vec<u8> {
        let mut datagram = vec![0x80, 0, 0, 9];
        datagram.extend(commands.concat());
        datagram
    }

    fn acknowledgement(number: u16) -> Vec<u8> {
        let mut command = vec![ACKNOWLEDGE, 0];
        command.extend(number.to_be_bytes());
        command.extend(number.to_be_bytes());
        command.extend([0, 9]);
        command
    }

    #[test]
    fn commands_are_owed_until_they_are_acknowledged_and_counted_once() {
        let mut ledger = CommandLedger::new();
        ledger.begin(100, 20);
        ledger.wrote(6);
        ledger.on_send(&datagram(&[reliable(1, b"abc"), reliable(2, b"def")]));
        assert_eq!((ledger.packets, ledger.resent, ledger.owed()), (1, 0, 6));
        assert_eq!((ledger.due(), ledger.flying()), (120, 6));
        ledger.begin(120, 20);
        ledger.on_send(&datagram(&[reliable(1, b"abc")]));
        assert_eq!((ledger.packets, ledger.resent), (1, 1));
        // The second is the oldest now and due; the first waits twice as long.
        assert_eq!(ledger.due(), 121);
        ledger.arrived(&datagram(&[acknowledgement(2), acknowledgement(2)]));
        assert_eq!((ledger.owed(), ledger.due()), (3, 160));
        ledger.arrived(&datagram(&[acknowledgement(1)]));
        assert_eq!((ledger.owed(), ledger.due()), (0, 120 + PING_INTERVAL));
        // A retransmission that crosses its acknowledgement is not counted twice.
        ledger.wrote(3);
        ledger.on_send(&datagram(&[reliable(3, b"ghi"), reliable(1, b"abc")]));
        ledger.arrived(&datagram(&[acknowledgement(1)]));
        assert_eq!((ledger.owed(), ledger.resent), (3, 2));
    }

    #[test]
    fn a_connection_that_is_granted_is_asked_for_no_longer() {
        let mut ledger = CommandLedger::new();
        ledger.begin(1, 500);
        let connect = |kind: u8, len: usize| {
            let mut command = vec![kind, 255, 0, 1];
            command.resize(len, 0);
            datagram(&[command])
        };
        ledger.on_send(&connect(128 | 2, 48));
        assert_eq!(ledger.due(), 501);
        ledger.begin(30, 500);
        ledger.arrived(&connect(128 | VERIFY_CONNECT, 44));
        assert_eq!(ledger.due(), 30 + PING_INTERVAL);
    }

    #[test]
    fn what_is_cut_or_noise_has_no_commands() {
        let whole = datagram(&[reliable(1, b"abc")]);
        for len in 0..whole.len() {
            assert_eq!(commands(&whole[..len]).count(), 0, "{len}");
        }
        assert_eq!(commands(&whole).count(), 1);
        assert_eq!(commands(&[0x80, 0, 0, 9, 15, 0, 0, 0]).count(), 0);
    }

    #[test]
    fn datagrams_pass_in_order_and_too_long_ones_do_not() {
        let mut wire = EnetSocket::new(4);
        wire.arrived(&[7; MTU_MAX + 1]);
        let grant = |channels: u8| {
            let mut command = vec![128 | VERIFY_CONNECT, 255, 0, 1];
            command.resize(44, 0);
            command[4 + CHANNELS_AT + 3] = channels;
            datagram(&[command])
        };
        wire.arrived(&grant(3));
        assert!(!wire.has_arrivals());
        wire.arrived(&grant(4));
        assert!(wire.has_arrivals());
        for datagram in [&b"one"[..], b"", b"three"] {
            let Ok(_) = wire.send((), datagram);
        }
        let mut batch = Vec::new();
        let lengths: Vec<_> = std::iter::from_fn(|| wire.leave(&mut batch)).collect();
        assert_eq!((lengths, &batch[..], wire.waiting()), (vec![3, 0, 5], &b"onethree"[..], 0));
    }
}
