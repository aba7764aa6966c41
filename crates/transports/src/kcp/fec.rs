//! Forward error correction of kcp-go (github.com/xtaci/kcp-go, `fec.go`) and so of kcptun: each group of datagrams is
//! followed by parity datagrams, each of which replaces any lost datagram, by a Reed-Solomon code over GF(2^8).
//!
//! ```text
//! data     number (4) │ f1 00 │ length (2), itself included │ segments
//! parity   number (4) │ f2 00 │ parity of all from the length on, shorter ones padded with zeros
//! ```
//! All fields are little-endian. The numbers of a group, data first, begin at a multiple of its size, and wrap at the
//! last such multiple below 2^32 - 1. The code is the systematic one of a Vandermonde matrix, with the polynomial
//! 0x11d.

use std::collections::VecDeque;

use reed_solomon_erasure::galois_8::ReedSolomon;

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::{Kind, plain};
use deadheat_base::time::Nanos;

/// Bytes added to each datagram with data.
pub(super) const HEADER: usize = 8;
/// Length of number and kind.
const FRONT: usize = 6;
const DATA: u16 = 0xf1;
const PARITY: u16 = 0xf2;

/// Number of stored groups: the most recently begun ones.
const GROUPS: usize = 8;

/// Longest time from the first datagram of a group to its last for which parity is sent: lost data has been
/// retransmitted by then, and the library would measure long round trips from acknowledgements that old. kcp-go, too,
/// sends none for groups with a gap in time, and continues counting.
const LATE: Nanos = Nanos::from_millis(200);

/// Form of the knob.
const FORM: &str = "off|DATA+PARITY";

/// Kind of the knob.
pub(super) const KIND: Kind =
    Kind::Own { form: FORM, check: |typed| Shape::parse(typed).map(drop), refers: plain };

/// Sizes of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    data: usize,
    parity: usize,
}

impl Shape {
    /// Reads `10+3`, or `10:3` where a plus separates knobs; `None` for `off`.
    pub(super) fn parse(typed: &str) -> Result<Option<Shape>> {
        if typed == "off" {
            return Ok(None);
        }
        let number = |text: &str| text.parse().ok().filter(|number| (1..=128).contains(number));
        let numbers = typed.split_once(['+', ':']);
        match numbers.map(|(data, parity)| (number(data), number(parity))) {
            Some((Some(data), Some(parity))) => Ok(Some(Shape { data, parity })),
            _ => Err(Error::usage(format!(
                "`{typed}` is not {FORM}; write how many datagrams with data make a group and how many of parity \
                 follow, each 1 to 128, as 10+3 (10:3 within a mix)"
            ))),
        }
    }

    fn whole(self) -> usize {
        self.data + self.parity
    }

    /// Returns the number at which counting restarts.
    fn wrap(self) -> u32 {
        let whole = self.whole() as u32;
        u32::MAX / whole * whole
    }

    fn code(self) -> Result<ReedSolomon> {
        ReedSolomon::new(self.data, self.parity)
            .map_err(|why| Error::usage(format!("fec={self}: there is no such code: {why}")))
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

fn front(number: u32, kind: u16) -> [u8; FRONT] {
    let ([a, b, c, d], [e, f]) = (number.to_le_bytes(), kind.to_le_bytes());
    [a, b, c, d, e, f]
}

/// Encoder of one direction.
#[derive(Debug)]
pub(super) struct Encoder {
    shape: Shape,
    code: ReedSolomon,
    next: u32,
    /// Data of the group so far, and room for its parity.
    shards: Vec<Vec<u8>>,
    gathered: usize,
    /// Time of the first datagram of the group.
    began: Nanos,
    datagram: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(shape: Shape) -> Result<Encoder> {
        Ok(Encoder {
            shape,
            code: shape.code()?,
            next: 0,
            shards: vec![Vec::new(); shape.whole()],
            gathered: 0,
            began: Nanos::ZERO,
            datagram: Vec::new(),
        })
    }

    /// Passes a datagram with its header to `send`, and after the last of a group its parity.
    pub(super) fn encode(&mut self, now: Nanos, segments: &[u8], mut send: impl FnMut(&[u8])) {
        let Ok(length) = u16::try_from(segments.len() + 2) else { return };
        if self.gathered == 0 {
            self.began = now;
        }
        let shard = &mut self.shards[self.gathered];
        shard.clear();
        shard.extend(length.to_le_bytes());
        shard.extend(segments);
        self.gathered += 1;
        self.send(self.gathered - 1, DATA, &mut send);
        if self.gathered < self.shape.data {
            return;
        }
        self.gathered = 0;
        if now - self.began > LATE {
            self.next = (self.next + self.shape.parity as u32) % self.shape.wrap();
            return;
        }
        let longest = self.shards[..self.shape.data].iter().map(Vec::len).max().unwrap_or(0);
        self.shards.iter_mut().for_each(|shard| shard.resize(longest, 0));
        // All shards have one length and the number that the code needs, so this does not fail.
        if self.code.encode(&mut self.shards).is_ok() {
            (self.shape.data..self.shape.whole()).for_each(|at| self.send(at, PARITY, &mut send));
        }
    }

    fn send(&mut self, at: usize, kind: u16, send: &mut impl FnMut(&[u8])) {
        self.datagram.clear();
        self.datagram.extend(front(self.next, kind));
        self.datagram.extend(&self.shards[at]);
        self.next = (self.next + 1) % self.shape.wrap();
        send(&self.datagram);
    }
}

/// Segments that a decoder returns.
#[derive(Debug)]
pub(super) enum DecodedSegments<'a> {
    /// Segments as they arrived.
    Sent(&'a [u8]),
    /// Segments that were reconstructed, and so are late.
    MadeUp(&'a mut [u8]),
}

/// Decoder of one direction.
#[derive(Debug)]
pub(super) struct Decoder {
    shape: Shape,
    code: ReedSolomon,
    /// Groups with at least one datagram, the newest last.
    groups: VecDeque<Group>,
    /// Longest datagram that is stored.
    longest: usize,
    recovered: u64,
}

/// Incomplete group.
#[derive(Debug, Default)]
struct Group {
    number: u32,
    /// Bytes of each shard, and true if it has arrived.
    shards: Vec<(Vec<u8>, bool)>,
    there: usize,
    /// True once the group is complete or beyond repair.
    is_done: bool,
}

impl Decoder {
    pub(super) fn new(shape: Shape, longest: usize) -> Result<Decoder> {
        let groups = VecDeque::with_capacity(GROUPS);
        Ok(Decoder { shape, code: shape.code()?, groups, longest, recovered: 0 })
    }

    /// Returns the number of reconstructed datagrams.
    pub(super) fn recovered(&self) -> u64 {
        self.recovered
    }

    /// Passes the segments of a datagram, and segments that it completes, to `take`. Ignores malformed datagrams.
    pub(super) fn decode(&mut self, datagram: &[u8], mut take: impl FnMut(DecodedSegments<'_>)) {
        let Some((front, shard)) = datagram.split_first_chunk::<FRONT>() else { return };
        let [a, b, c, d, e, f] = *front;
        let (number, kind) = (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]));
        let whole = self.shape.whole() as u32;
        let (group, at) = (number / whole, (number % whole) as usize);
        let fits = match kind {
            DATA => at < self.shape.data,
            PARITY => at >= self.shape.data,
            _ => return,
        };
        // Data is passed on also if the peer's groups have another size.
        if kind == DATA && shard.len() > 2 {
            take(DecodedSegments::Sent(&shard[2..]));
        }
        if fits && number < self.shape.wrap() && shard.len() > 2 && datagram.len() <= self.longest {
            self.store(group, at, shard, &mut take);
        }
    }

    fn store(
        &mut self,
        number: u32,
        at: usize,
        shard: &[u8],
        take: &mut impl FnMut(DecodedSegments<'_>),
    ) {
        let known = self.groups.iter().position(|group| group.number == number);
        let place = known.unwrap_or_else(|| {
            // The oldest group gives its memory to the newest.
            let oldest = self.groups.len() == GROUPS;
            let mut group = oldest.then(|| self.groups.pop_front()).flatten().unwrap_or_default();
            group.begin(number, self.shape.whole());
            self.groups.push_back(group);
            self.groups.len() - 1
        });
        let group = &mut self.groups[place];
        let (bytes, is_there) = &mut group.shards[at];
        if group.is_done || *is_there {
            return;
        }
        bytes.clear();
        bytes.extend(shard);
        *is_there = true;
        group.there += 1;
        if group.there < self.shape.data {
            return;
        }
        group.is_done = true;
        let missing: Vec<usize> = group.missing(self.shape.data).collect();
        if missing.is_empty() {
            return;
        }
        let there = group.shards.iter().filter(|(_, is_there)| *is_there);
        let longest = there.map(|(bytes, _)| bytes.len()).max().unwrap_or(0);
        group.shards.iter_mut().for_each(|(bytes, _)| bytes.resize(longest, 0));
        if self.code.reconstruct_data(&mut group.shards).is_err() {
            return;
        }
        for at in missing {
            let bytes = &mut group.shards[at].0;
            let length = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
            if (3..=bytes.len()).contains(&length) {
                self.recovered += 1;
                take(DecodedSegments::MadeUp(&mut bytes[2..length]));
            }
        }
    }
}

impl Group {
    fn begin(&mut self, number: u32, whole: usize) {
        self.shards.resize_with(whole, Default::default);
        self.shards.iter_mut().for_each(|(_, is_there)| *is_there = false);
        (self.number, self.there, self.is_done) = (number, 0, false);
    }

    fn missing(&self, data: usize) -> impl Iterator<Item = usize> {
        (0..data).filter(|at| !self.shards[*at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the datagrams of `count` pieces of content.
    fn encoded(shape: &str, count: u8) -> (Shape, Vec<Vec<u8>>) {
        let shape = Shape::parse(shape).unwrap().unwrap();
        let mut encoder = Encoder::new(shape).unwrap();
        let mut sent = Vec::new();
        (0..count).for_each(|at| {
            encoder.encode(Nanos::ZERO, &piece(at), |datagram| sent.push(datagram.to_vec()))
        });
        (shape, sent)
    }

    fn piece(at: u8) -> Vec<u8> {
        (0..20 + usize::from(at) * 7).map(|i| (i * 31) as u8 ^ at).collect()
    }

    fn decoded(decoder: &mut Decoder, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut received = Vec::new();
        decoder.decode(datagram, |segments| match segments {
            DecodedSegments::Sent(segments) => received.push(segments.to_vec()),
            DecodedSegments::MadeUp(segments) => received.push(segments.to_vec()),
        });
        received
    }

    #[test]
    fn the_header_is_kcp_go_s_and_one_and_one_is_everything_twice() {
        let (_, sent) = encoded("1+1", 2);
        assert_eq!(sent.len(), 4);
        assert_eq!(sent[0][..8], [0, 0, 0, 0, 0xf1, 0, 22, 0]);
        assert_eq!(sent[0][8..], piece(0));
        assert_eq!(sent[1][..6], [1, 0, 0, 0, 0xf2, 0]);
        assert_eq!(sent[1][6..], sent[0][6..]);
        assert_eq!(sent[2][..6], [2, 0, 0, 0, 0xf1, 0]);
    }

    #[test]
    fn any_that_are_lost_are_made_up_for_by_as_many_of_parity_and_no_more_are() {
        for lost in 0..1u32 << 7 {
            let (shape, sent) = encoded("4+3", 4);
            let mut decoder = Decoder::new(shape, 1_500).unwrap();
            let there = sent.iter().enumerate().filter(|(at, _)| lost & (1 << at) == 0);
            let mut received: Vec<Vec<u8>> =
                there.flat_map(|(_, datagram)| decoded(&mut decoder, datagram)).collect();
            received.sort_by_key(Vec::len);
            let lost_data = (lost & 0b1111).count_ones();
            let wanted: Vec<Vec<u8>> = if lost.count_ones() <= 3 {
                (0..4).map(piece).collect()
            } else {
                (0..4).filter(|at| lost & (1 << at) == 0).map(piece).collect()
            };
            assert!(received == wanted, "{lost:b}");
            let made_up = if lost.count_ones() <= 3 { lost_data } else { 0 };
            assert_eq!(decoder.recovered(), u64::from(made_up), "{lost:b}");
        }
    }

    #[test]
    fn what_comes_twice_late_or_out_of_order_makes_up_for_nothing_twice() {
        let (shape, sent) = encoded("3+2", 6);
        let mut decoder = Decoder::new(shape, 1_500).unwrap();
        let order = [4, 4, 3, 0, 0, 1, 2, 9, 8, 7, 7, 6];
        let received: Vec<Vec<u8>> =
            order.iter().flat_map(|at| decoded(&mut decoder, &sent[*at])).collect();
        assert_eq!(decoder.recovered(), 4);
        let count = |at| received.iter().filter(|one| **one == piece(at)).count();
        // Each as often as it arrived as data, plus one if it was reconstructed.
        assert_eq!([0, 1, 2, 3, 4, 5].map(count), [2, 2, 2, 1, 2, 2]);
    }

    #[test]
    fn what_makes_no_sense_is_ignored_and_forgotten() {
        let (shape, sent) = encoded("3+2", 3);
        let mut decoder = Decoder::new(shape, 1_500).unwrap();
        let mut noise = |bytes: &[u8]| decoded(&mut decoder, bytes).len();
        assert_eq!(noise(b""), 0);
        assert_eq!(noise(&[0; 6]), 0);
        assert_eq!(noise(&[&front(0, DATA)[..], &[9, 0]].concat()), 0);
        // Parity in the place of data, a number beyond the last, too long a datagram, an unknown kind.
        assert_eq!(noise(&[&front(1, PARITY)[..], &[9; 40]].concat()), 0);
        assert_eq!(noise(&[&front(u32::MAX, PARITY)[..], &[9; 40]].concat()), 0);
        assert_eq!(noise(&[&front(3, PARITY)[..], &[9; 4_000]].concat()), 0);
        assert_eq!(noise(&[&front(3, 0xf3)[..], &[9; 40]].concat()), 0);
        // Groups of strangers do not delay groups of the connection for long.
        for group in 0..100 {
            noise(&[&front(1_000_003 + group * 5, PARITY)[..], &[9; 40]].concat());
        }
        sent[1..4].iter().for_each(|datagram| {
            noise(datagram);
        });
        assert_eq!(decoder.recovered(), 1);
        // Parity of shards without a valid length.
        let wrong = [&front(8, PARITY)[..], &[0xff; 40]].concat();
        [5, 6].iter().for_each(|at| {
            decoded(&mut decoder, &[&front(*at, DATA)[..], &[1; 40]].concat());
        });
        decoded(&mut decoder, &wrong);
        assert!(decoder.groups.len() <= GROUPS);
    }

    #[test]
    fn numbers_wrap_at_the_last_whole_group() {
        let shape = Shape::parse("10:3").unwrap().unwrap();
        let mut encoder = Encoder::new(shape).unwrap();
        assert_eq!(shape.wrap() % 13, 0);
        encoder.next = shape.wrap() - 1;
        let mut fronts = Vec::new();
        (0..2).for_each(|_| {
            encoder.encode(Nanos::ZERO, b"piece", |sent| fronts.push(sent[..4].to_vec()))
        });
        assert_eq!(fronts, [(shape.wrap() - 1).to_le_bytes(), 0u32.to_le_bytes()]);
    }

    #[test]
    fn a_group_that_took_long_has_no_parity_and_its_numbers_are_left_out() {
        let mut encoder = Encoder::new(Shape { data: 2, parity: 2 }).unwrap();
        let mut sent = Vec::new();
        for ms in [0, 201, 300, 500] {
            encoder.encode(Nanos::from_millis(ms), b"piece", |datagram| {
                sent.push((datagram[0], datagram[4]))
            });
        }
        let (data, parity) = (DATA as u8, PARITY as u8);
        assert_eq!(sent, [(0, data), (1, data), (4, data), (5, data), (6, parity), (7, parity)]);
    }

    #[test]
    fn shapes_are_read_and_shown() {
        assert_eq!(Shape::parse("10+3").unwrap().unwrap().to_string(), "10+3");
        assert_eq!(Shape::parse("128:127").unwrap().unwrap().to_string(), "128+127");
        assert_eq!(Shape::parse("off").unwrap(), None);
        for wrong in ["", "10", "0+3", "10+0", "129+1", "a+b", "10+3+1", "-1+3"] {
            let said = Shape::parse(wrong).unwrap_err().to_string();
            assert!(said.contains("as 10+3"), "{said}");
        }
        assert!(Shape::parse("128+128").unwrap().unwrap().code().is_ok());
    }
}
