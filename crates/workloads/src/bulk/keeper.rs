//! Content at the receiving half: written to a file or to memory, checked, and counted.

use sha2::{Digest, Sha256};

use deadheat_base::error::Error;
use deadheat_base::units::hex::hex;
use deadheat_contract::buffer::{first_wrong, pattern};
use deadheat_contract::contract::{FileAt, Store};

use deadheat_contract::workload::ContentReport;

/// Receiver of the content of one flow.
pub(super) struct Keeper {
    /// Offset of its first byte in the whole content.
    start: u64,
    /// Length in bytes; `u64::MAX` if time decides.
    bytes: u64,
    into: Destination,
    check: Reference,
    /// Messages of the content, if the transport keeps boundaries.
    messages: Option<Messages>,
    arrived: u64,
    checked: u64,
    differs_at: Option<u64>,
    failure: Option<Error>,
}

/// Destination of content.
enum Destination {
    /// None: content is checked or counted, and dropped.
    Nothing,
    /// A file, each byte at its offset in the whole content.
    Store(Box<dyn Store>),
    /// Memory that is allocated once the first bytes have arrived; `early` buffers these.
    Memory { early: Vec<u8>, room: Option<Box<[u8]>> },
}

/// Reference for the check of content.
enum Reference {
    Nothing,
    /// The pattern.
    Pattern(Box<[u8]>),
    /// A hash, which the lead compares with the hash of the file.
    Hash(Box<Sha256>),
}

/// Messages that have arrived.
struct Messages {
    /// Content bytes in each message but the last.
    payload: u64,
    /// A bit for each message; empty if their number is not known before.
    there: Vec<u64>,
}

/// Relation of a message to the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// Part of the content.
    Part,
    /// Beyond the end of the content, by its number.
    Beyond,
}

/// Bytes of a page of memory, at most.
const PAGE: usize = 4096;

impl Keeper {
    pub(super) fn new(start: u64, bytes: u64) -> Keeper {
        Keeper {
            start,
            bytes,
            into: Destination::Nothing,
            check: Reference::Nothing,
            messages: None,
            arrived: 0,
            checked: 0,
            differs_at: None,
            failure: None,
        }
    }

    /// Sets that content arrives in messages, `payload` bytes in each.
    pub(super) fn in_messages(self, payload: u64) -> Keeper {
        let payload = payload.max(1);
        let count = if self.bytes == u64::MAX { 0 } else { self.bytes.div_ceil(payload) };
        let there = vec![0; count.div_ceil(64) as usize];
        Keeper { messages: Some(Messages { payload, there }), ..self }
    }

    pub(super) fn into_store(self, store: Box<dyn Store>) -> Keeper {
        Keeper { into: Destination::Store(store), ..self }
    }

    pub(super) fn into_memory(self) -> Keeper {
        Keeper { into: Destination::Memory { early: Vec::new(), room: None }, ..self }
    }

    pub(super) fn against_pattern(self) -> Keeper {
        Keeper { check: Reference::Pattern(pattern()), ..self }
    }

    pub(super) fn hashed(self) -> Keeper {
        Keeper { check: Reference::Hash(Box::new(Sha256::new())), ..self }
    }

    /// Adds the next bytes of a byte stream.
    pub(super) fn stream(&mut self, bytes: &[u8]) {
        let left = self.bytes - self.arrived;
        let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        let at = self.arrived;
        self.look(at, bytes);
        self.keep(at, bytes);
        self.arrived += bytes.len() as u64;
    }

    /// Adds the bytes after the header of message `seq`. Each message is passed once; copies may be passed, too.
    pub(super) fn message(&mut self, seq: u64, body: &[u8]) -> Fit {
        let Some(messages) = &mut self.messages else { return Fit::Beyond };
        let Some(at) = seq.checked_mul(messages.payload).filter(|at| *at < self.bytes) else {
            return Fit::Beyond;
        };
        if !messages.there.is_empty() {
            let bit = 1 << (seq % 64);
            match messages.there.get_mut((seq / 64) as usize) {
                Some(word) if *word & bit == 0 => *word |= bit,
                // A copy: the first arrival counts.
                _ => return Fit::Part,
            }
        }
        let len = messages.payload.min(self.bytes - at).min(body.len() as u64);
        let body = &body[..len as usize];
        self.look(at, body);
        self.keep(at, body);
        self.arrived += len;
        Fit::Part
    }

    /// Notes that `bytes` of a byte stream arrived that this process did not see.
    pub(super) fn passed(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes - self.arrived);
        let at = self.arrived;
        if let Destination::Memory { room: Some(room), .. } = &mut self.into {
            let room = std::mem::take(room);
            if let Some(new) = room.get(at as usize..(at + bytes) as usize) {
                self.look(at, new);
            }
            self.into = Destination::Memory { early: Vec::new(), room: Some(room) };
        }
        self.arrived += bytes;
    }

    /// Checks `bytes`, which begin at `at` in this flow's content.
    fn look(&mut self, at: u64, bytes: &[u8]) {
        match &mut self.check {
            Reference::Nothing => return,
            Reference::Hash(hash) => hash.update(bytes),
            Reference::Pattern(pattern) if self.differs_at.is_none() => {
                let wrong = first_wrong(pattern, at, bytes);
                self.differs_at = wrong.map(|place| self.start + at + place as u64);
            }
            Reference::Pattern(_) => {}
        }
        self.checked += bytes.len() as u64;
    }

    fn keep(&mut self, at: u64, bytes: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        match &mut self.into {
            Destination::Nothing => {}
            Destination::Store(store) => self.failure = store.write(self.start + at, bytes).err(),
            Destination::Memory { room: Some(room), .. } => {
                if let Some(place) = room.get_mut(at as usize..at as usize + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
            Destination::Memory { early, room: None } => early.extend_from_slice(bytes),
        }
    }

    /// Allocates memory, if content goes to memory, after the first bytes have arrived: from then on the clock runs.
    pub(super) fn begun(&mut self) {
        let Destination::Memory { early, room: room @ None } = &mut self.into else { return };
        let early = std::mem::take(early);
        match zeroed(self.bytes) {
            Ok(mut memory) => {
                memory[..early.len()].copy_from_slice(&early);
                *room = Some(memory);
            }
            Err(error) => self.failure = Some(error),
        }
    }

    /// Returns memory for the next bytes of a byte stream, if content goes to memory.
    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        match &mut self.into {
            Destination::Memory { room: Some(room), .. } => {
                room.get_mut(self.arrived as usize..).filter(|left| !left.is_empty())
            }
            _ => None,
        }
    }

    /// Returns the offset in a file for the next byte of a byte stream, if content goes to a file.
    pub(super) fn file(&self) -> Option<FileAt<'_>> {
        match (&self.into, &self.messages) {
            (Destination::Store(store), None) => Some(store.at(self.start + self.arrived)),
            _ => None,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    pub(super) fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    pub(super) fn report(&self) -> ContentReport {
        let sha256 = match &self.check {
            Reference::Hash(hash) => {
                let digest = (**hash).clone().finalize();
                Some(hex(&digest))
            }
            _ => None,
        };
        ContentReport {
            arrived: self.arrived,
            checked: self.checked,
            differs_at: self.differs_at,
            sha256,
        }
    }
}

/// Allocates `bytes` zeros and touches each page, so that no page fault happens later; neither the compiler nor the C
/// library can replace the writes by pages that the kernel maps on demand.
fn zeroed(bytes: u64) -> Result<Box<[u8]>, Error> {
    let cannot = || {
        Error::setup_advice(
            format!("allocate {bytes} bytes for what arrives"),
            std::io::ErrorKind::OutOfMemory.into(),
            "alloc=fresh takes as much memory as is sent; send less",
        )
    };
    let len = usize::try_from(bytes).map_err(|_| cannot())?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(len).map_err(|_| cannot())?;
    memory.resize(len, 0);
    for page in memory.chunks_mut(PAGE) {
        page[0] = std::hint::black_box(0);
    }
    Ok(memory.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::shelf::Shelf;
    use deadheat_contract::buffer::PERIOD;

    /// Returns `len` bytes of made-up content from `at`.
    fn made_up(at: u64, len: usize) -> Vec<u8> {
        let pattern = pattern();
        (0..len).map(|i| pattern[(at as usize + i) % PERIOD]).collect()
    }

    #[test]
    fn each_byte_of_a_stream_lands_at_its_place_in_the_whole() {
        let shelf = Shelf::default();
        let mut keeper = Keeper::new(10, 5).into_store(shelf.store());
        assert_eq!(keeper.file().unwrap().offset, 10);
        keeper.stream(b"ab");
        assert_eq!(keeper.file().unwrap().offset, 12);
        keeper.stream(b"cdefg");
        assert_eq!(shelf.written(), [(10, b"ab".to_vec()), (12, b"cde".to_vec())]);
        assert_eq!(keeper.report().arrived, 5, "what goes beyond the end is not kept");
    }

    #[test]
    fn messages_land_by_number_once_and_what_is_missing_leaves_a_hole() {
        let shelf = Shelf::default();
        let mut keeper = Keeper::new(100, 25).in_messages(10).into_store(shelf.store());
        assert_eq!(keeper.message(2, b"uvwxyz____"), Fit::Part);
        assert_eq!(keeper.message(0, b"0123456789"), Fit::Part);
        assert_eq!(keeper.message(0, b"copy......"), Fit::Part);
        assert_eq!(keeper.message(3, b"stranger.."), Fit::Beyond);
        assert_eq!(keeper.message(u64::MAX, b"stranger.."), Fit::Beyond);
        assert_eq!(
            shelf.written(),
            [(120, b"uvwxy".to_vec()), (100, b"0123456789".to_vec())],
            "the last message is cut at the end of the content"
        );
        assert_eq!(keeper.report().arrived, 15);
        assert!(keeper.file().is_none(), "messages are written one by one");
    }

    #[test]
    fn the_first_wrong_byte_of_made_up_content_is_told_across_periods() {
        let mut right = Keeper::new(0, u64::MAX).against_pattern();
        for at in [0, PERIOD as u64 - 7, 2 * PERIOD as u64 - 14] {
            right.stream(&made_up(at, PERIOD - 7));
        }
        let report = right.report();
        assert_eq!((report.checked, report.differs_at), (3 * (PERIOD as u64 - 7), None));

        let mut bytes = made_up(0, 2 * PERIOD);
        bytes[PERIOD + 3] ^= 1;
        bytes[PERIOD + 9] ^= 1;
        let mut wrong = Keeper::new(1000, u64::MAX).against_pattern();
        wrong.stream(&bytes);
        assert_eq!(wrong.report().differs_at, Some(1000 + PERIOD as u64 + 3));
    }

    #[test]
    fn made_up_content_in_messages_is_checked_by_number() {
        let mut keeper = Keeper::new(0, u64::MAX).in_messages(1388).against_pattern();
        assert_eq!(keeper.message(500, &made_up(500 * 1388, 1388)), Fit::Part);
        assert_eq!(keeper.report().differs_at, None);
        keeper.message(7, &made_up(6 * 1388, 1388));
        assert_eq!(keeper.report().differs_at, Some(7 * 1388));
    }

    #[test]
    fn a_hash_is_that_of_the_bytes_in_order() {
        let mut keeper = Keeper::new(0, 3).hashed();
        keeper.stream(b"a");
        keeper.stream(b"bc");
        // FIPS 180-4's example.
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(keeper.report().sha256.as_deref(), Some(want));
    }

    #[test]
    fn memory_comes_after_the_first_bytes_and_holds_all_of_them() {
        let len = 3 * PAGE + 5;
        let mut keeper = Keeper::new(0, len as u64).into_memory().against_pattern();
        assert!(keeper.room().is_none(), "nothing is allocated before the clock runs");
        keeper.stream(&made_up(0, 100));
        assert!(keeper.room().is_none());
        keeper.begun();
        let room = keeper.room().unwrap();
        assert_eq!(room.len(), len - 100);
        assert!(room.iter().all(|byte| *byte == 0));
        room[..200].copy_from_slice(&made_up(100, 200));
        keeper.passed(200);
        keeper.stream(&made_up(300, len - 300));
        assert!(keeper.room().is_none(), "a full one gives no room");
        let report = keeper.report();
        assert_eq!(
            (report.arrived, report.checked, report.differs_at),
            (len as u64, len as u64, None)
        );
        let Destination::Memory { room: Some(room), .. } = &keeper.into else {
            panic!("no memory")
        };
        assert_eq!(room[..], made_up(0, len));
    }

    #[test]
    fn bytes_that_are_passed_by_are_not_taken_for_checked() {
        let mut keeper = Keeper::new(0, 1000).against_pattern();
        keeper.passed(1000);
        assert_eq!((keeper.report().arrived, keeper.report().checked), (1000, 0));
    }

    #[test]
    fn the_first_error_is_kept_and_nothing_more_is_written() {
        let shelf = Shelf::full_from(4);
        let mut keeper = Keeper::new(0, 100).into_store(shelf.store());
        keeper.stream(b"abcd");
        assert!(!keeper.has_failed());
        keeper.stream(b"ef");
        keeper.stream(b"gh");
        assert!(keeper.has_failed());
        assert!(keeper.failure().unwrap().to_string().contains("no room at 4"));
        assert_eq!(shelf.written().len(), 1);
    }
}
