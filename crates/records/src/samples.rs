//! Storage of round trips as they are measured: in histograms of fixed size, the first of them also exactly, and, if
//! samples are requested, compactly in a file. A day of pings takes no more memory than a minute of them.
//!
//! The file, version 1: the magic `DHSAMP1\n`, then one chunk per trial, all little-endian:
//!
//! ```text
//! u32 payload length | u64 block | u32 order | u32 contender | u8 flags (bit 0: control)
//! u64 samples | u64 timeout in ns | payload
//! ```
//! The payload holds four LEB128 varints per sample: the sequence number less the one before, the intended time less
//! the one before (zigzag), the lateness, and the round trip plus one, where 0 stands for no answer within the timeout.
//! Times are in nanoseconds.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use deadheat_base::error::{Error, Result};
use deadheat_base::foreign;
use deadheat_contract::measurements::moments::{Delays, Moments};
use deadheat_contract::measurements::{
    Distribution, OneWayDelays, Recorder, RoundTripSummary, SEGMENTS, Sample, SendSummary,
};
use deadheat_stats::quantile::quantile_sorted;

/// First bytes of a samples file.
pub const MAGIC: &[u8; 8] = b"DHSAMP1\n";

const CHUNK_HEADER: usize = 4 + 8 + 4 + 4 + 1 + 8 + 8;
const SPILL_AT: usize = 64 << 10;
/// Significant decimal digits of histograms: a round trip's quantile is right to one part in ten thousand; a send's
/// lateness, which needs less precision, to one in a thousand.
const RTT_DIGITS: u8 = 4;
const LATENESS_DIGITS: u8 = 3;

/// Most round trips that are stored exactly: 1 MiB. Percentiles of up to this many are ranks of the measured values;
/// percentiles of more come from the histogram.
const MOST_KEPT: u64 = 1 << 16;

/// Round trip as measured, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct RawRoundTrip {
    /// Round-trip time from the intended time; [`LOST`] if no answer arrived.
    rtt: u64,
    late: u64,
}

/// Value above any round trip, so that lost messages are sorted last.
const LOST: u64 = u64::MAX;

/// Samples of one trial.
pub struct Samples {
    rtt: Moments,
    /// First samples; no more than were expected.
    first: Vec<RawRoundTrip>,
    lateness: Moments,
    gap_error: Moments,
    delays: Delays,
    censored: u64,
    last_rtt: Option<u64>,
    /// Jitter of RFC 3550, section 6.4.1, scaled by 16 as its appendix A.8 does.
    jitter_16: u64,
    encoder: Encoder,
    keep: Option<File>,
    /// First error while writing samples to the file; the trial goes on without the file.
    keep_error: Option<io::Error>,
    timeout_ns: u64,
}

impl Samples {
    /// Creates storage that sums samples up, and writes them to a chunk at `keep` if given.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn new(keep: Option<&Path>, timeout_ns: u64) -> Result<Samples> {
        let keep = keep.map(|path| {
            let op = || format!("write samples to {}", path.display());
            let mut file = File::create(path).map_err(|e| Error::setup(op(), e))?;
            file.write_all(&[0; CHUNK_HEADER]).map_err(|e| Error::setup(op(), e))?;
            Ok::<File, Error>(file)
        });
        Ok(Samples {
            rtt: Moments::new(RTT_DIGITS)?,
            first: Vec::new(),
            lateness: Moments::new(LATENESS_DIGITS)?,
            gap_error: Moments::new(LATENESS_DIGITS)?,
            delays: Delays::new()?,
            censored: 0,
            last_rtt: None,
            jitter_16: 0,
            encoder: Encoder::default(),
            keep: keep.transpose()?,
            keep_error: None,
            timeout_ns,
        })
    }

    /// Returns the first samples sorted by a value; lost ones are last.
    fn sorted(&self, of: impl Fn(&RawRoundTrip) -> u64) -> Vec<u64> {
        let mut sorted: Vec<u64> = self.first.iter().map(of).collect();
        sorted.sort_unstable();
        sorted
    }

    /// Returns true if all samples are stored exactly.
    fn is_whole(&self) -> bool {
        self.first.len() as u64 == self.rtt.len() + self.censored
    }

    fn spill(&mut self) {
        if let Some(file) = &mut self.keep
            && let Err(error) = file.write_all(&self.encoder.bytes)
        {
            self.keep_error = Some(error);
            self.keep = None;
        }
        self.encoder.spilled += self.encoder.bytes.len() as u64;
        self.encoder.bytes.clear();
    }

    /// Writes the remaining samples and the chunk's header, which leaves its place in the race blank.
    fn finish(&mut self) -> io::Result<()> {
        self.spill();
        if let Some(error) = self.keep_error.take() {
            return Err(error);
        }
        let Some(file) = &mut self.keep else {
            return Ok(());
        };
        let payload = u32::try_from(self.encoder.spilled)
            .map_err(|_| io::Error::other("more than 4 GiB of samples in one trial"))?;
        let n = self.rtt.len() + self.censored;
        let mut head = Vec::with_capacity(CHUNK_HEADER);
        head.extend(payload.to_le_bytes());
        head.extend([0; 17]);
        head.extend(n.to_le_bytes());
        head.extend(self.timeout_ns.to_le_bytes());
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&head)
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        // A chunk without its header is refused by `append`, which reports it.
        let _ = self.finish();
    }
}

impl Recorder for Samples {
    fn expect(&mut self, samples: u64) {
        // Every page is written once, so that none is allocated later.
        self.first = vec![RawRoundTrip { rtt: LOST, late: 0 }; samples.min(MOST_KEPT) as usize];
        self.first.clear();
    }

    fn record(&mut self, sample: Sample) {
        self.lateness.add(sample.lateness_ns);
        if self.first.len() < self.first.capacity() {
            let rtt = sample.rtt_ns.unwrap_or(LOST);
            self.first.push(RawRoundTrip { rtt, late: sample.lateness_ns });
        }
        match sample.rtt_ns {
            Some(rtt) => {
                self.rtt.add(rtt);
                if let Some(last) = self.last_rtt.replace(rtt) {
                    let jitter = self.jitter_16;
                    self.jitter_16 = jitter + rtt.abs_diff(last) - ((jitter + 8) >> 4).min(jitter);
                }
            }
            None => self.censored += 1,
        }
        if self.keep.is_some() {
            self.encoder.push(&sample);
            if self.encoder.bytes.len() >= SPILL_AT {
                self.spill();
            }
        }
    }

    fn record_send(&mut self, lateness_ns: u64, gap_error_ns: Option<u64>) {
        self.lateness.add(lateness_ns);
        if let Some(error) = gap_error_ns {
            self.gap_error.add(error);
        }
    }

    fn record_delay(&mut self, ns: i64) {
        self.delays.add(ns);
    }

    fn round_trips(&self, timeout_ns: u64, per_mille: u64) -> RoundTripSummary {
        RoundTripSummary {
            rtt: self.rtt(timeout_ns),
            late_effect: self.late_effect(per_mille),
            segments: self.segments(per_mille),
            jitter_rfc3550_ns: (self.rtt.len() >= 2).then_some(self.jitter_16 >> 4),
        }
    }

    fn sends(&self) -> SendSummary {
        SendSummary {
            lateness: self.lateness.distribution(0, 0),
            gap_error: self.gap_error.distribution(0, 0),
        }
    }

    fn delays(&self) -> OneWayDelays {
        OneWayDelays { variation: self.delays.above_least(), least_ns: self.delays.least() }
    }
}

impl Samples {
    fn rtt(&self, timeout_ns: u64) -> Distribution {
        if !self.is_whole() {
            return self.rtt.distribution(self.censored, timeout_ns);
        }
        let sorted = self.sorted(|trip| trip.rtt);
        let at_rank = |rank: u64| sorted.get(rank as usize - 1).copied().unwrap_or(LOST);
        self.rtt.distribution_by(self.censored, timeout_ns, at_rank)
    }

    fn late_effect(&self, per_mille: u64) -> Option<f64> {
        let intended = known_at(&self.sorted(|trip| trip.rtt), per_mille)?;
        let sending = |trip: &RawRoundTrip| match trip.rtt {
            LOST => LOST,
            rtt => rtt.saturating_sub(trip.late),
        };
        let sending = known_at(&self.sorted(sending), per_mille)?;
        Some((intended as f64 / sending as f64).ln().max(0.0))
    }

    fn segments(&self, per_mille: u64) -> Vec<f64> {
        let len = self.first.len() / SEGMENTS;
        if len == 0 || !self.is_whole() {
            return Vec::new();
        }
        let part = |part: &[RawRoundTrip]| {
            let mut sorted: Vec<u64> = part.iter().map(|trip| trip.rtt).collect();
            sorted.sort_unstable();
            known_at(&sorted, per_mille).map(|ns| ns as f64)
        };
        let parts = self.first.chunks_exact(len).take(SEGMENTS).map(part);
        parts.collect::<Option<Vec<f64>>>().unwrap_or_default()
    }
}

/// Returns the value at the nearest rank; `None` if it is lost, or if there are no samples. Never 0.
fn known_at(sorted: &[u64], per_mille: u64) -> Option<u64> {
    let found = quantile_sorted(sorted, per_mille as f64 / 1000.0);
    found.filter(|ns| *ns != LOST).map(|ns| ns.max(1))
}

#[derive(Default)]
struct Encoder {
    bytes: Vec<u8>,
    spilled: u64,
    seq: u64,
    intended_ns: u64,
}

impl Encoder {
    fn push(&mut self, sample: &Sample) {
        let step = sample.intended_ns.wrapping_sub(self.intended_ns) as i64;
        for value in [
            sample.seq.wrapping_sub(self.seq),
            ((step << 1) ^ (step >> 63)) as u64,
            sample.lateness_ns,
            sample.rtt_ns.map_or(0, |rtt| rtt.saturating_add(1)),
        ] {
            self.varint(value);
        }
        (self.seq, self.intended_ns) = (sample.seq, sample.intended_ns);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// Trial of a race to which a chunk belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the block.
    pub block: u64,
    /// Position of the trial in the block.
    pub order: u32,
    /// Id of the contender.
    pub contender: u32,
    /// True if it is the hidden copy.
    pub control: bool,
}

/// Samples of one trial, as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Trial that the samples are of.
    pub place: Place,
    /// Time in nanoseconds after which a sample counts as lost.
    pub timeout_ns: u64,
    /// Samples in order of sequence number.
    pub samples: Vec<Sample>,
    /// Length in the file, in bytes.
    pub len: u64,
}

/// Moves the chunk that an agent wrote to `part` to the end of the race's file at `main`.
///
/// # Errors
/// Fails if a file cannot be read or written, or if the chunk is incomplete.
pub fn append(main: &Path, part: &Path, place: Place) -> Result<()> {
    let read = |e| Error::setup(format!("read samples from {}", part.display()), e);
    let mut chunk = std::fs::read(part).map_err(read)?;
    let _ = std::fs::remove_file(part);
    let whole = chunk
        .first_chunk::<4>()
        .is_some_and(|len| chunk.len() == CHUNK_HEADER + u32::from_le_bytes(*len) as usize);
    if !whole {
        return Err(Error::data(
            part.display().to_string(),
            "a trial's samples are not whole; if the disk is full, free space (without \
             --samples less is needed); the blocks saved before are intact",
        ));
    }
    chunk[4..12].copy_from_slice(&place.block.to_le_bytes());
    chunk[12..16].copy_from_slice(&place.order.to_le_bytes());
    chunk[16..20].copy_from_slice(&place.contender.to_le_bytes());
    chunk[20] = u8::from(place.control);
    let write = |e| Error::setup(format!("write samples to {}", main.display()), e);
    let mut file = File::options().create(true).append(true).open(main).map_err(write)?;
    if file.metadata().map_err(write)?.len() == 0 {
        file.write_all(MAGIC).map_err(write)?;
    }
    file.write_all(&chunk).map_err(write)
}

/// Cuts off the chunks of block `first` and later ones, and an incomplete chunk that a killed process left.
///
/// # Errors
/// Fails if the file cannot be read or truncated, or is not a samples file.
pub fn cut(main: &Path, first: u64) -> Result<()> {
    let mut kept = MAGIC.len() as u64;
    for chunk in open(main)? {
        match chunk {
            Ok(chunk) if chunk.place.block < first => kept += chunk.len,
            _ => break,
        }
    }
    let cut = File::options().write(true).open(main).and_then(|file| file.set_len(kept));
    cut.map_err(|e| Error::setup(format!("cut samples in {}", main.display()), e))
}

/// Reads the chunks of a samples file one by one; stops after the first error.
///
/// # Errors
/// Fails if the file cannot be opened or does not start with [`MAGIC`].
pub fn open(path: &Path) -> Result<Chunks<BufReader<File>>> {
    let file = foreign::file::open(path)?;
    Chunks::new(BufReader::new(file), &path.display().to_string())
}

/// Iterator over the chunks of a samples file.
pub struct Chunks<R> {
    reader: R,
    name: String,
    number: u64,
    ended: bool,
}

impl<R: Read> Chunks<R> {
    /// Reads the chunks from any reader; `name` is used in error messages.
    ///
    /// # Errors
    /// Fails if the first bytes are not [`MAGIC`].
    pub fn new(mut reader: R, name: &str) -> Result<Chunks<R>> {
        let mut magic = [0; 8];
        let got = reader.read_exact(&mut magic);
        if got.is_err() || magic != *MAGIC {
            return Err(Error::data(
                name,
                "not a samples file of format 1 (it does not start with DHSAMP1)",
            ));
        }
        Ok(Chunks { reader, name: name.to_owned(), number: 0, ended: false })
    }

    fn chunk(&mut self) -> Result<Option<Chunk>, String> {
        let mut head = Vec::with_capacity(CHUNK_HEADER);
        let got = (&mut self.reader).take(CHUNK_HEADER as u64).read_to_end(&mut head);
        got.map_err(|e| e.to_string())?;
        if head.is_empty() {
            return Ok(None);
        }
        let mut head = Fields(&head);
        let cut = "the file ends in the middle of a chunk's header";
        let len = head.u32().ok_or(cut)?;
        let block = head.u64().ok_or(cut)?;
        let (order, contender) = head.u32().zip(head.u32()).ok_or(cut)?;
        let control = head.u8().ok_or(cut)? & 1 == 1;
        let (n, timeout_ns) = head.u64().zip(head.u64()).ok_or(cut)?;
        let mut payload = Vec::new();
        let got = (&mut self.reader).take(u64::from(len)).read_to_end(&mut payload);
        got.map_err(|e| e.to_string())?;
        if payload.len() < len as usize {
            return Err(format!("the file ends after {} of {len} bytes of samples", payload.len()));
        }
        let samples = decode(&payload, n)?;
        let place = Place { block, order, contender, control };
        let len = CHUNK_HEADER as u64 + u64::from(len);
        Ok(Some(Chunk { place, timeout_ns, samples, len }))
    }
}

impl<R: Read> Iterator for Chunks<R> {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Result<Chunk>> {
        if self.ended {
            return None;
        }
        self.number += 1;
        let chunk = self.chunk();
        self.ended = !matches!(chunk, Ok(Some(_)));
        chunk
            .map_err(|what| Error::data(&self.name, format!("chunk {}: {what}", self.number)))
            .transpose()
    }
}

fn decode(payload: &[u8], n: u64) -> Result<Vec<Sample>, String> {
    let mut fields = Fields(payload);
    // A sample has at least four bytes, so a forged count cannot request more memory than the payload has.
    let mut samples = Vec::with_capacity((payload.len() / 4).min(n as usize));
    let (mut seq, mut intended_ns) = (0u64, 0u64);
    while !fields.0.is_empty() {
        let mut next = || fields.varint().ok_or("a number is cut off or too long".to_owned());
        let (seq_step, step, lateness_ns, rtt) = (next()?, next()?, next()?, next()?);
        seq = seq.wrapping_add(seq_step);
        intended_ns = intended_ns.wrapping_add(((step >> 1) as i64 ^ -((step & 1) as i64)) as u64);
        samples.push(Sample { seq, intended_ns, lateness_ns, rtt_ns: rtt.checked_sub(1) });
    }
    if samples.len() as u64 != n {
        return Err(format!("{} samples where the header says {n}", samples.len()));
    }
    Ok(samples)
}

/// Reader of numbers from the front of a slice.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::Quantile;

    fn sample(seq: u64, rtt_ns: Option<u64>) -> Sample {
        Sample { seq, intended_ns: 1_000_000 * seq + 77, lateness_ns: seq % 3, rtt_ns }
    }

    fn filled(rtts: impl IntoIterator<Item = Option<u64>>) -> Samples {
        let mut samples = Samples::new(None, 3_000_000_000).unwrap();
        for (seq, rtt) in rtts.into_iter().enumerate() {
            samples.record(sample(seq as u64, rtt));
        }
        samples
    }

    #[test]
    fn quantiles_are_nearest_rank_and_need_ten_samples_beyond() {
        let rtt = filled((1..=1000).map(Some)).rtt(3_000_000_000);
        assert_eq!(
            (rtt.p50, rtt.p90, rtt.p99),
            (Some(Quantile::Ns(500)), Some(Quantile::Ns(900)), Some(Quantile::Ns(990)))
        );
        assert_eq!(rtt.p999, None, "one sample beyond");
        assert_eq!((rtt.n, rtt.min, rtt.max, rtt.mean), (1000, Some(1), Some(1000), Some(500.5)));
        assert!((rtt.stddev.unwrap() - 288.8194).abs() < 1e-3);
        assert_eq!(filled((1..=19).map(Some)).rtt(1).p50, None);
        assert_eq!(filled((1..=20).map(Some)).rtt(1).p50, Some(Quantile::Ns(10)));
    }

    #[test]
    fn percentiles_are_ranks_of_what_was_measured_where_all_of_it_is_kept() {
        // Above 20 µs the histogram resolves only 2 ns, and further up less.
        let rtts = || (0..1000u64).map(|i| Some(7_000_001 + 1_000_003 * i));
        let p50 = |expected| {
            let mut samples = Samples::new(None, 9).unwrap();
            samples.expect(expected);
            for (seq, rtt) in rtts().enumerate() {
                samples.record(sample(seq as u64, rtt));
            }
            samples.rtt(9).p50.map(|quantile| quantile.at_least_ns())
        };
        let exact = 7_000_001 + 1_000_003 * 499;
        assert_eq!(p50(1000), Some(exact));
        let binned = p50(999).unwrap();
        assert!(binned != exact && binned.abs_diff(exact) < exact / 10_000, "{binned}");
    }

    #[test]
    fn what_lateness_does_to_a_percentile_is_the_ratio_from_both_times() {
        let run = |late: fn(u64) -> u64| {
            let mut samples = Samples::new(None, 9).unwrap();
            samples.expect(100);
            for seq in 0..100 {
                let lateness_ns = late(seq);
                let rtt_ns = (seq != 7).then_some(1_000 + seq + lateness_ns);
                samples.record(Sample { seq, intended_ns: 0, lateness_ns, rtt_ns });
            }
            samples
        };
        assert_eq!(run(|_| 0).late_effect(500), Some(0.0));
        // All are late by a tenth: so is the median.
        let all = run(|_| 105).late_effect(500).unwrap();
        assert!((all - (1_155.0f64 / 1_050.0).ln()).abs() < 1e-3, "{all}");
        // Ten of a hundred are late by ten times the round trip: almost no effect on the median.
        let some = run(|seq| if seq % 10 == 3 { 10_000 } else { 0 });
        assert!(some.late_effect(500).unwrap() < 0.006);
        assert!(some.late_effect(950).unwrap() > 2.0);
        assert_eq!(some.late_effect(999), None, "lost");
    }

    #[test]
    fn the_parts_of_a_trial_have_their_own_percentiles() {
        let run = |expected, lost: Option<u64>| {
            let mut samples = Samples::new(None, 9).unwrap();
            samples.expect(expected);
            for seq in 0..101 {
                samples.record(sample(seq, (lost != Some(seq)).then_some(100 * (seq / 25 + 1))));
            }
            samples.segments(500)
        };
        assert_eq!(run(101, None), [100.0, 200.0, 300.0, 400.0]);
        assert_eq!(run(101, Some(3)).len(), 4, "one lost of 25 is not the median");
        assert!(run(100, None).is_empty(), "not all is kept");
        assert!(filled([Some(1); 3]).segments(500).is_empty());
    }

    #[test]
    fn lost_samples_push_percentiles_beyond_the_timeout() {
        let rtt = filled((0..1000).map(|i| (i >= 20).then_some(100))).rtt(5);
        assert_eq!((rtt.n, rtt.censored), (1000, 20));
        assert_eq!(rtt.p90, Some(Quantile::Ns(100)));
        assert_eq!(rtt.p99, Some(Quantile::Beyond(5)));
        assert_eq!(
            (rtt.mean, rtt.stddev),
            (None, None),
            "a mean without the lost ones would flatter"
        );
    }

    #[test]
    fn jitter_follows_rfc_3550() {
        // A.8: J += |D| - ((J + 8) >> 4), reported >> 4; here D alternates between 0 and 1600.
        let mut jitter = 0u64;
        let rtts = [1000, 2600, 2600, 1000, 1000u64];
        for pair in rtts.windows(2) {
            jitter = jitter + pair[0].abs_diff(pair[1]) - ((jitter + 8) >> 4);
        }
        assert_eq!(filled(rtts.map(Some)).round_trips(9, 500).jitter_rfc3550_ns, Some(jitter >> 4));
        assert_eq!(filled([Some(1)]).round_trips(9, 500).jitter_rfc3550_ns, None);
    }

    #[test]
    fn what_is_kept_comes_back_trial_by_trial() {
        let dir = tempfile::tempdir().unwrap();
        let (main, part) = (dir.path().join("r.samples"), dir.path().join("part"));
        let want: Vec<Sample> =
            (0..50_000).map(|i| sample(i, (i % 10 != 0).then_some(i * 1_000_003))).collect();
        for block in 0..2 {
            let mut samples = Samples::new(Some(&part), 9).unwrap();
            want.iter().for_each(|sample| samples.record(*sample));
            drop(samples);
            let place = Place { block, order: 1, contender: 2, control: block == 1 };
            append(&main, &part, place).unwrap();
            assert!(!part.exists());
        }
        let chunks: Vec<Chunk> = open(&main).unwrap().collect::<Result<_>>().unwrap();
        assert_eq!(chunks.len(), 2);
        assert_eq!(chunks[1].place, Place { block: 1, order: 1, contender: 2, control: true });
        assert!(chunks.iter().all(|chunk| chunk.samples == want && chunk.timeout_ns == 9));
    }

    #[test]
    fn what_a_broken_off_block_left_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let (main, part) = (dir.path().join("r.samples"), dir.path().join("part"));
        for block in 0..3 {
            let mut samples = Samples::new(Some(&part), 9).unwrap();
            samples.record(sample(block, Some(1)));
            drop(samples);
            append(&main, &part, Place { block, order: 0, contender: 0, control: false }).unwrap();
        }
        let mut file = File::options().append(true).open(&main).unwrap();
        file.write_all(b"half a chu").unwrap();
        cut(&main, 2).unwrap();
        let blocks: Vec<u64> =
            open(&main).unwrap().map(|chunk| chunk.unwrap().place.block).collect();
        assert_eq!(blocks, [0, 1]);
    }

    #[test]
    fn broken_files_say_where() {
        let say = |bytes: &[u8]| match Chunks::new(bytes, "x.samples") {
            Err(e) => e.to_string(),
            Ok(mut chunks) => {
                chunks.find_map(|chunk| chunk.err()).map(|e| e.to_string()).unwrap_or_default()
            }
        };
        assert!(say(b"{}").contains("does not start with DHSAMP1"));
        let mut cut = MAGIC.to_vec();
        cut.extend([5, 0, 0]);
        assert!(say(&cut).contains("chunk 1: the file ends in the middle"));
        let mut short = MAGIC.to_vec();
        short.extend(9u32.to_le_bytes());
        short.extend([0; CHUNK_HEADER - 4]);
        assert!(say(&short).contains("ends after 0 of 9 bytes"));
        let mut long_number = MAGIC.to_vec();
        long_number.extend(10u32.to_le_bytes());
        long_number.extend([0; CHUNK_HEADER - 4]);
        long_number.extend([0xff; 10]);
        assert!(say(&long_number).contains("cut off or too long"));
        let mut forged = MAGIC.to_vec();
        forged.extend(4u32.to_le_bytes());
        forged.extend([0; 17]);
        forged.extend(u64::MAX.to_le_bytes());
        forged.extend([0; 12]);
        assert!(say(&forged).contains("1 samples where the header says"));
    }
}
