//! The header at the front of each message of a workload, and the window that detects copies.
//!
//! ```text
//! 0        4                12               20               28
//! +--------+----------------+----------------+----------------+----
//! | tag    | sequence       | far received   | far sent       | fill
//! +--------+----------------+----------------+----------------+----
//! ```
//! All fields are big-endian. The far end's two stamps (nanoseconds on its own monotonic clock) exist only if the
//! message has room for them. The tag identifies the trial, so that messages of other trials are recognized.
//!
//! Messages that a far end of others sent back are made anew here. What it says of them is in the two highest bits of
//! each stamp, which are never set otherwise, and in the first 8 bytes of the fill.

use crate::measurements::{Account, ConnStats, Tally};

use crate::workload::EndpointReport;
use deadheat_base::time::Nanos;

/// Minimum bytes of a message.
pub const LEN: usize = 12;

/// Minimum bytes of a message with far stamps.
pub const STAMPED_LEN: usize = 28;

/// Minimum bytes of a message with what a far end of others says.
pub const REFLECTED_LEN: usize = STAMPED_LEN + 8;

/// Minimum bytes of a message with its due time.
pub const DUE_LEN: usize = LEN + 8;

/// Messages that a connection to a far end with documents ([`PeerFacts`](crate::contract::PeerFacts)) makes of the document
/// that answers a request: one as it begins, and one when all of it is here. Both begin with the header of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentPart {
    /// The document begins to arrive.
    Begins,
    /// All of it has arrived: so many bytes.
    Ends {
        /// Bytes of the document.
        bytes: u64,
    },
}

impl DocumentPart {
    /// Writes the message for a request with this header; returns its length.
    pub fn write(self, request: Header, message: &mut [u8; DUE_LEN]) -> usize {
        request.write(message);
        match self {
            DocumentPart::Begins => LEN,
            DocumentPart::Ends { bytes } => {
                write_due(message, Nanos(bytes));
                DUE_LEN
            }
        }
    }

    /// Reads a message; `None` if it is none of a document.
    pub fn read(message: &[u8]) -> Option<(Header, DocumentPart)> {
        let header = Header::read(message)?;
        match message.len() {
            LEN => Some((header, DocumentPart::Begins)),
            DUE_LEN => Some((header, DocumentPart::Ends { bytes: read_due(message)?.0 })),
            _ => None,
        }
    }
}

/// The front of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Tag of the trial.
    pub tag: u32,
    /// Sequence number, from 0.
    pub seq: u64,
}

impl Header {
    /// Writes the header; `message` has at least [`LEN`] bytes.
    pub fn write(self, message: &mut [u8]) {
        message[..4].copy_from_slice(&self.tag.to_be_bytes());
        message[4..LEN].copy_from_slice(&self.seq.to_be_bytes());
    }

    /// Reads the header of a message; `None` if it is too short.
    pub fn read(message: &[u8]) -> Option<Header> {
        let (tag, rest) = message.split_first_chunk::<4>()?;
        let (seq, _) = rest.split_first_chunk::<8>()?;
        Some(Header { tag: u32::from_be_bytes(*tag), seq: u64::from_be_bytes(*seq) })
    }
}

/// Times of the far end's receive and send, on its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FarStamps {
    /// Time of the receive, in nanoseconds.
    pub received_ns: u64,
    /// Time of the send, in nanoseconds.
    pub sent_ns: u64,
    /// Statements of a far end of others, whose replies are made anew here; `None` of a far end of ours.
    pub reflected: Option<Reflected>,
}

/// Statements of a far end of others on a message that it sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reflected {
    /// Messages that it had received, this one included, from any start; `None` if it does not count them.
    pub count: Option<u32>,
    /// State of its clock.
    pub clock: ReflectorClock,
}

/// State of the clock of a far end of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReflectorClock {
    /// It is steady: monotonic, or disciplined by a daemon without a statement on its error.
    Steady,
    /// Its time of day is right within this error, in microseconds.
    Synchronised {
        /// Error as the far end estimates it.
        error_us: u32,
    },
    /// It is not synchronised, and may be set at any time: only differences between its times of one message count.
    Unsynchronised,
    /// It writes no times.
    Unsaid,
}

/// Bits of the stamps of a reflected message: in the time of the receive, and in that of the send.
const IS_UNSYNCHRONISED: u64 = 1 << 63;
const IS_SYNCHRONISED: u64 = 1 << 62;
const IS_COUNTED: u64 = 1 << 63;
const IS_REFLECTED: u64 = 1 << 62;
/// Bits of a time.
const TIME: u64 = (1 << 62) - 1;

impl FarStamps {
    /// Creates the stamps of a far end of ours.
    pub fn of_ours(received_ns: u64, sent_ns: u64) -> FarStamps {
        FarStamps { received_ns, sent_ns, reflected: None }
    }

    /// Writes the stamps if `message` has room for them.
    pub fn write(self, message: &mut [u8]) {
        let (mut received, mut sent) = (self.received_ns & TIME, self.sent_ns & TIME);
        if let Some(Reflected { count, clock }) = self.reflected {
            sent |= IS_REFLECTED;
            let (bit, error_us) = match clock {
                ReflectorClock::Steady => (0, 0),
                ReflectorClock::Synchronised { error_us } => (IS_SYNCHRONISED, error_us),
                ReflectorClock::Unsynchronised => (IS_UNSYNCHRONISED, 0),
                ReflectorClock::Unsaid => (IS_UNSYNCHRONISED | IS_SYNCHRONISED, 0),
            };
            // A message without a time of receiving has no stamps.
            received = received.max(1) | bit;
            sent |= if count.is_some() { IS_COUNTED } else { 0 };
            if let Some(room) = message.get_mut(STAMPED_LEN..REFLECTED_LEN) {
                room[..4].copy_from_slice(&count.unwrap_or(0).to_be_bytes());
                room[4..].copy_from_slice(&error_us.to_be_bytes());
            }
        }
        if let Some(room) = message.get_mut(LEN..STAMPED_LEN) {
            room[..8].copy_from_slice(&received.to_be_bytes());
            room[8..].copy_from_slice(&sent.to_be_bytes());
        }
    }

    /// Reads the stamps of a message; `None` if they are not set.
    pub fn read(message: &[u8]) -> Option<FarStamps> {
        let room = message.get(LEN..STAMPED_LEN)?;
        let (received, sent) = room.split_first_chunk::<8>()?;
        let (sent, _) = sent.split_first_chunk::<8>()?;
        let (received, sent) = (u64::from_be_bytes(*received), u64::from_be_bytes(*sent));
        if received == 0 {
            return None;
        }
        let is_reflected = sent & IS_REFLECTED != 0;
        let reflected = is_reflected.then(|| Reflected::read(received, sent, message)).flatten();
        Some(FarStamps { received_ns: received & TIME, sent_ns: sent & TIME, reflected })
    }
}

impl Reflected {
    fn read(received: u64, sent: u64, message: &[u8]) -> Option<Reflected> {
        let room = message.get(STAMPED_LEN..REFLECTED_LEN)?;
        let (count, error_us) = room.split_first_chunk::<4>()?;
        let (error_us, _) = error_us.split_first_chunk::<4>()?;
        let clock = match (received & IS_UNSYNCHRONISED, received & IS_SYNCHRONISED) {
            (0, 0) => ReflectorClock::Steady,
            (0, _) => ReflectorClock::Synchronised { error_us: u32::from_be_bytes(*error_us) },
            (_, 0) => ReflectorClock::Unsynchronised,
            _ => ReflectorClock::Unsaid,
        };
        let count = (sent & IS_COUNTED != 0).then(|| u32::from_be_bytes(*count));
        Some(Reflected { count, clock })
    }
}

/// Order of a message that arrived, relative to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The first of its number, after all lower ones or with gaps before it.
    InOrder,
    /// The first of its number, after a higher one (RFC 4737, type-P-reordered).
    Reordered,
    /// Copy: its number arrived before.
    Duplicate,
    /// Older than the window; counted as reordered.
    Ancient,
}

/// Window of the last 65,536 sequence numbers.
#[derive(Debug)]
pub struct SeqWindow {
    seen: Box<[u64; Self::WORDS]>,
    next: u64,
}

impl Default for SeqWindow {
    fn default() -> SeqWindow {
        SeqWindow::new()
    }
}

impl SeqWindow {
    const WORDS: usize = 1024;
    const SPAN: u64 = Self::WORDS as u64 * 64;

    /// Creates an empty window.
    pub fn new() -> SeqWindow {
        SeqWindow { seen: Box::new([0; Self::WORDS]), next: 0 }
    }

    /// Returns the number of sequence numbers up to the highest that arrived.
    pub fn expected(&self) -> u64 {
        self.next
    }

    /// Notes the arrival of `seq`.
    #[inline]
    pub fn note(&mut self, seq: u64) -> Arrival {
        // The next number in order replaces the oldest, so there is nothing to clear.
        if seq == self.next && seq < u64::MAX {
            self.next = seq + 1;
            self.set(seq);
            return Arrival::InOrder;
        }
        self.note_out_of_line(seq)
    }

    fn note_out_of_line(&mut self, seq: u64) -> Arrival {
        if seq >= self.next {
            self.forget(self.next, seq);
            self.next = seq.saturating_add(1);
            self.set(seq);
            return Arrival::InOrder;
        }
        if self.next - seq > Self::SPAN {
            return Arrival::Ancient;
        }
        let (word, bit) = Self::place(seq);
        if self.seen[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.set(seq);
        Arrival::Reordered
    }

    /// Clears the bits of `from..=to`, which belonged to older numbers.
    fn forget(&mut self, from: u64, to: u64) {
        if to - from >= Self::SPAN {
            self.seen.fill(0);
            return;
        }
        for seq in from..=to {
            let (word, bit) = Self::place(seq);
            self.seen[word] &= !bit;
        }
    }

    fn set(&mut self, seq: u64) {
        let (word, bit) = Self::place(seq);
        self.seen[word] |= bit;
    }

    fn place(seq: u64) -> (usize, u64) {
        ((seq / 64) as usize % Self::WORDS, 1 << (seq % 64))
    }
}

/// Counts an arrival of `bytes` bytes.
#[inline]
pub fn count(tally: &mut Tally, arrival: Arrival, bytes: usize) {
    match arrival {
        Arrival::Duplicate => {
            tally.duplicates += 1;
            return;
        }
        Arrival::Reordered | Arrival::Ancient => tally.reordered += 1,
        Arrival::InOrder => {}
    }
    tally.messages += 1;
    tally.bytes += bytes as u64;
}

/// Returns the account of one direction in messages, from the tallies of sender and receiver and the drops at the
/// receiver's socket.
pub fn account(sent: Tally, received: Tally, socket_drops: Option<u64>) -> Account {
    let missing = sent.messages.saturating_sub(received.messages);
    let dropped = match missing {
        0 => Some(0),
        _ => socket_drops.map(|drops| drops.min(missing)),
    };
    let surplus = received.messages.saturating_sub(sent.messages);
    Account {
        unit: "messages".to_owned(),
        sent: sent.messages,
        delivered: received.messages,
        lost_on_path: missing - dropped.unwrap_or(0),
        dropped_at_receiver: dropped,
        duplicates: Some(received.duplicates),
        late: Some(received.late),
        reordered: Some(received.reordered),
        corrupted: Some(received.corrupted),
        open_because: (surplus > 0)
            .then(|| format!("the receiver had {surplus} messages more than were sent")),
    }
}

/// Returns the account of several flows together.
pub fn account_of(
    senders: &[EndpointReport],
    receivers: &[EndpointReport],
    conns: &[ConnStats],
) -> Account {
    let [mut sent, mut received] = [Tally::default(); 2];
    senders.iter().for_each(|half| add(&mut sent, &half.sent));
    receivers.iter().for_each(|half| add(&mut received, &half.received));
    account(
        sent,
        received,
        conns.iter().filter_map(|conn| conn.socket_drops).reduce(u64::saturating_add),
    )
}

/// Adds `more` to `sum`, field by field, without overflow: a peer may report any number.
pub fn add(sum: &mut Tally, more: &Tally) {
    let plus = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    plus(&mut sum.messages, more.messages);
    plus(&mut sum.bytes, more.bytes);
    plus(&mut sum.duplicates, more.duplicates);
    plus(&mut sum.late, more.late);
    plus(&mut sum.reordered, more.reordered);
    plus(&mut sum.corrupted, more.corrupted);
    plus(&mut sum.foreign, more.foreign);
}

/// Writes the due time of a message, on its sender's monotonic clock, if there is room for it.
pub fn write_due(message: &mut [u8], due: Nanos) {
    if let Some(room) = message.get_mut(LEN..DUE_LEN) {
        room.copy_from_slice(&due.0.to_be_bytes());
    }
}

/// Due time of a message whose sender says none.
pub const NO_DUE: Nanos = Nanos(u64::MAX);

/// Reads the due time of a message, as [`write_due`] wrote it; `None` if the message is too short, or has [`NO_DUE`].
pub fn read_due(message: &[u8]) -> Option<Nanos> {
    let (stamp, _) = message.get(LEN..)?.split_first_chunk::<8>()?;
    Some(Nanos(u64::from_be_bytes(*stamp))).filter(|due| *due != NO_DUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mut message = [0xee; 30];
        Header { tag: 0x0102_0304, seq: 5 }.write(&mut message);
        FarStamps::of_ours(6, 7).write(&mut message);
        let want = [
            1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7,
            0xee, 0xee,
        ];
        assert_eq!(message, want);
        assert_eq!(Header::read(&message), Some(Header { tag: 0x0102_0304, seq: 5 }));
        assert_eq!(FarStamps::read(&message), Some(FarStamps::of_ours(6, 7)));
    }

    #[test]
    fn short_messages_have_no_header_or_no_stamps() {
        assert_eq!(Header::read(&[0; 11]), None);
        assert_eq!(FarStamps::read(&[1; 27]), None);
        let mut short = [9; 27];
        FarStamps::of_ours(1, 1).write(&mut short);
        assert_eq!(short, [9; 27]);
    }

    #[test]
    fn statements_of_a_reflector_are_read_as_they_were_written() {
        use ReflectorClock::*;
        for clock in [Steady, Unsynchronised, Unsaid, Synchronised { error_us: u32::MAX }] {
            for count in [None, Some(0), Some(u32::MAX)] {
                let reflected = Some(Reflected { count, clock });
                let stamps = FarStamps { received_ns: 1, sent_ns: TIME, reflected };
                let mut message = [0xff; REFLECTED_LEN];
                stamps.write(&mut message);
                assert_eq!(FarStamps::read(&message), Some(stamps));
                let short = FarStamps { reflected: None, ..stamps };
                assert_eq!(FarStamps::read(&message[..STAMPED_LEN]), Some(short));
            }
        }
    }

    #[test]
    fn the_window_tells_order_copies_and_the_distant_past_apart() {
        let mut window = SeqWindow::new();
        use Arrival::*;
        let arrivals = [0, 2, 1, 2, 1, 70_000, 2, 69_999, 69_999].map(|seq| window.note(seq));
        let want = [
            InOrder, InOrder, Reordered, Duplicate, Duplicate, InOrder, Ancient, Reordered,
            Duplicate,
        ];
        assert_eq!(arrivals, want);
    }

    #[test]
    fn a_place_in_the_window_is_clean_when_its_next_tenant_comes() {
        let mut window = SeqWindow::new();
        window.note(5);
        window.note(SeqWindow::SPAN + 4);
        assert_eq!(window.note(SeqWindow::SPAN + 5), Arrival::InOrder);
        assert_eq!(window.note(6), Arrival::Reordered, "6 never came, 5 did");
    }

    #[test]
    fn an_account_tells_path_loss_from_socket_drops() {
        let sent = Tally { messages: 10, ..Tally::default() };
        let received = Tally { messages: 6, duplicates: 1, ..Tally::default() };
        let account = account(sent, received, Some(3));
        assert!(account.closes());
        assert_eq!((account.lost_on_path, account.dropped_at_receiver), (1, Some(3)));
        let unknown = super::account(sent, received, None);
        assert_eq!((unknown.lost_on_path, unknown.dropped_at_receiver), (4, None));
        assert!(unknown.closes());
        let open = super::account(received, sent, None);
        assert!(!open.closes());
    }
}
