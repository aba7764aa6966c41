//! Raw figures of a trial, as a page posts them: checked, and summed up as the figures of every trial are.

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::super::ImportedTrial;
use super::super::samples::{MessageCounts, MetricNaming, SampleBuffer, loss_metric};
use super::checks::TrialSpan;
use super::{BrowserWork, PROTOCOL};
use deadheat_contract::measurements::name::{GOODPUT, RTT_MEAN};
use deadheat_contract::measurements::{Account, ClockEstimate, Ledger, Role};
use deadheat_records::trial::Record;
use deadheat_stats::quantile::printable_rank;

/// Metrics of the page itself, in each trial.
pub(super) const PAGE_LAG: &str = "page_lag_max_ns";
pub(super) const TIMER_LATE: &str = "timer_late_max_ns";

/// Figures of a trial, as posted.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PostedFigures {
    /// Reason why the trial is invalid, in the words of the page; absent if it went well.
    pub why_invalid: Option<String>,
    /// Time from the start of each connection until it could carry a message, in milliseconds.
    pub connects_ms: Vec<f64>,
    /// Round trip of each ping in milliseconds; `null` for a lost one.
    pub trips_ms: Vec<Option<f64>>,
    /// Messages that arrived from the server: time at which each was due, and time of its arrival, in milliseconds after the
    /// start of the work by the server's clock; its number in front.
    pub arrivals: Vec<(u32, f64, f64)>,
    /// Messages that the server says it sent: it skips an update that cannot leave on time. Absent for all of the work.
    pub sent: Option<u32>,
    /// Bytes that arrived at the receiver, and their time in milliseconds.
    pub bulk: Option<(u64, f64)>,
    /// Bound on the error of the server's clock as the page knows it, and the least round trip of its echoes, in
    /// milliseconds.
    pub clock_ms: Option<(f64, f64)>,
    /// Greatest time for which the page's event loop did not answer, in milliseconds.
    pub lag_max_ms: f64,
    /// Greatest lateness of any timer of the page, a sender's too, in milliseconds.
    pub late_max_ms: f64,
    /// Protocol that the browser reports, such as `http/1.1`; empty if it reports none.
    pub protocol: String,
}

/// Trial of a page, summed up.
#[derive(Debug, Clone)]
pub struct BrowserTrial {
    pub(super) record: Record,
    pub(super) lag_max_ms: f64,
    pub(super) late_max_ms: f64,
    /// SHA-256 of the figures as posted.
    pub(super) digest: [u8; 32],
}

impl BrowserTrial {
    /// Reads and sums up the figures that a page posted about a trial of `work` that ran within `span`.
    ///
    /// # Errors
    /// A sentence with the impossible figure.
    pub fn read(work: BrowserWork, text: &[u8], span: TrialSpan) -> Result<BrowserTrial, String> {
        let posted: PostedFigures = deadheat_base::json::read(text)
            .map_err(|e| format!("the figures cannot be read: {e}"))?;
        posted.check(work, span)?;
        let mut record = match (&posted.why_invalid, posted.sound_record(work)) {
            (Some(why), _) => Record::without_figures(deadheat_base::foreign::short(why)),
            (None, Ok(record)) => record,
            (None, Err(why)) => Record::without_figures(why),
        };
        record.started_ms = span.started_ms;
        if !posted.protocol.is_empty() {
            record
                .effective
                .insert(PROTOCOL.to_owned(), deadheat_base::foreign::short(&posted.protocol));
        }
        let (lag_max_ms, late_max_ms) = (posted.lag_max_ms, posted.late_max_ms);
        let digest = Sha256::digest(text).into();
        Ok(BrowserTrial { record, lag_max_ms, late_max_ms, digest })
    }

    /// Creates the trial of a page that posted `text`, which is in no figure.
    pub fn failed(why: &str, text: &[u8], span: TrialSpan) -> BrowserTrial {
        let without = Record::without_figures(deadheat_base::foreign::short(why));
        let record = Record { started_ms: span.started_ms, ..without };
        let digest = Sha256::digest(text).into();
        BrowserTrial { record, lag_max_ms: 0.0, late_max_ms: 0.0, digest }
    }

    /// Returns true if it was made from this text.
    pub fn is_of(&self, text: &[u8]) -> bool {
        <[u8; 32]>::from(Sha256::digest(text)) == self.digest
    }

    /// Returns the reason why it is in no figure; `None` if it is.
    pub fn why_invalid(&self) -> Option<&str> {
        self.record.why_invalid.as_deref()
    }
}

impl PostedFigures {
    /// Returns the record of a trial in which the page itself was not too busy.
    fn sound_record(&self, work: BrowserWork) -> Result<Record, String> {
        self.check_page()?;
        let mut record = self.record(work)?;
        record.metrics.insert(PAGE_LAG.to_owned(), nanos(self.lag_max_ms) as f64);
        record.metrics.insert(TIMER_LATE.to_owned(), nanos(self.late_max_ms) as f64);
        Ok(record)
    }

    fn record(&self, work: BrowserWork) -> Result<Record, String> {
        let mut record = match work {
            BrowserWork::Connect { count } => self.connects(count),
            BrowserWork::Ping { count, .. } => self.trips(count),
            BrowserWork::State { hz, count, .. } => self.ages(hz, count),
            BrowserWork::Events { count, .. } => self.deliveries(count),
            BrowserWork::Down { bytes } | BrowserWork::Up { bytes } => self.goodput(work, bytes),
        }?;
        record.valid = true;
        if let Some(connect) = self.connects_ms.first() {
            record.connect_ns = nanos(*connect);
        }
        Ok(record)
    }

    fn connects(&self, count: u32) -> Result<Record, String> {
        if self.connects_ms.len() != count as usize {
            return Err(format!("{} of {count} connections came about", self.connects_ms.len()));
        }
        let mut record = Record::default();
        let mut sorted: Vec<u64> = self.connects_ms.iter().map(|ms| nanos(*ms)).collect();
        sorted.sort_unstable();
        // The median of the few connections of a trial is its figure, as a trial has one.
        let middle = sorted[sorted.len() / 2].midpoint(sorted[(sorted.len() - 1) / 2]);
        record.metrics.insert("connect_p50_ns".to_owned(), middle as f64);
        Ok(record)
    }

    fn trips(&self, count: u32) -> Result<Record, String> {
        if self.trips_ms.len() != count as usize {
            return Err(format!("{} of {count} pings were sent", self.trips_ms.len()));
        }
        let mut values = SampleBuffer::default();
        for trip in &self.trips_ms {
            values.put(trip.map(nanos), None)?;
        }
        let received = self.trips_ms.iter().flatten().count() as u64;
        let seen = values.sum().distribution();
        if received == 0 {
            return Err("no ping came back".to_owned());
        }
        let mut trial = ImportedTrial::complete();
        MetricNaming::rtt().enter_distribution(&seen, Role::Claim, &mut trial);
        if let Some(mean) = seen.mean {
            trial.record.metrics.insert(RTT_MEAN.to_owned(), mean);
        }
        trial.record.rtt_ns = Some(seen);
        MessageCounts::of(u64::from(count), received).enter(&mut trial);
        Ok(trial.record)
    }

    /// Returns the age of the newest update over time, from the first arrival to a period after the last one was due: in
    /// between it grows with time, and falls to that of a newer update as that arrives.
    fn ages(&self, hz: u32, count: u32) -> Result<Record, String> {
        let mut record = self.one_way(count)?;
        let mut arrivals = self.arrivals.clone();
        arrivals.sort_by(|a, b| a.2.total_cmp(&b.2));
        let period = 1_000.0 / f64::from(hz);
        let end = f64::from(count) * period;
        let (mut area, mut greatest) = (0.0, 0.0_f64);
        let (_, mut due, mut from) = arrivals[0];
        let start = from;
        let mut pass = |due: f64, from: f64, to: f64| {
            let to = to.max(from);
            area += (to - from) * ((from - due) + (to - due)) / 2.0;
            greatest = greatest.max(to - due);
        };
        for (_, newer, at) in &arrivals[1..] {
            if *newer > due && *at <= end {
                pass(due, from, *at);
                (due, from) = (*newer, *at);
            }
        }
        pass(due, from, end);
        let span = end - start;
        if span <= 0.0 {
            return Err("no update arrived in time".to_owned());
        }
        // Ages below zero are errors of the clock; the bound says how far they may be off.
        let mean = (area / span).max(0.0);
        record.metrics.insert("age_mean_ns".to_owned(), mean * 1e6);
        record.metrics.insert("age_max_ns".to_owned(), greatest.max(0.0) * 1e6);
        Ok(record)
    }

    fn deliveries(&self, count: u32) -> Result<Record, String> {
        let mut record = self.one_way(count)?;
        if self.arrivals.len() < count as usize {
            return Err(format!("{} of {count} events arrived", self.arrivals.len()));
        }
        let taken = |(_, due, at): &(u32, f64, f64)| nanos((at - due).max(0.0));
        let mut times: Vec<u64> = self.arrivals.iter().map(taken).collect();
        times.sort_unstable();
        let n = times.len() as u64;
        let mean = times.iter().map(|ns| *ns as f64).sum::<f64>() / n as f64;
        record.metrics.insert("delivery_mean_ns".to_owned(), mean);
        record.metrics.insert("delivery_max_ns".to_owned(), times[times.len() - 1] as f64);
        for (name, share) in [("delivery_p50_ns", 0.5), ("delivery_p90_ns", 0.9)] {
            if let Some(rank) = printable_rank(n, share) {
                record.metrics.insert(name.to_owned(), times[rank as usize - 1] as f64);
            }
        }
        Ok(record)
    }

    /// Returns a record with the account of messages from the server, and the bound of its clock.
    fn one_way(&self, count: u32) -> Result<Record, String> {
        let mut numbers: Vec<u32> = self.arrivals.iter().map(|(number, ..)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let received = numbers.len() as u64;
        let sent = self.sent.unwrap_or(count).min(count);
        if numbers.len() != self.arrivals.len() || numbers.last().is_some_and(|last| *last >= sent)
        {
            return Err("messages have numbers that the server did not send".to_owned());
        }
        let Some((bound, trip)) = self.clock_ms else {
            return Err("the page did not compare its clock with the server's".to_owned());
        };
        if received == 0 {
            return Err("nothing arrived".to_owned());
        }
        let sent = u64::from(sent);
        let account = MessageCounts::of(sent, received).account();
        let mut record = Record {
            clock: Some(ClockEstimate {
                error_bound_ns: nanos(bound),
                round_trip_ns: Some(nanos(trip)),
                ..ClockEstimate::default()
            }),
            ledger: Ledger { down: Some(account), ..Ledger::default() },
            ..Record::default()
        };
        record.metrics.insert(loss_metric().name, (sent - received) as f64 / sent as f64);
        Ok(record)
    }

    fn goodput(&self, work: BrowserWork, bytes: u64) -> Result<Record, String> {
        let (arrived, ms) = self.bulk.ok_or("the page has no figures of bulk data")?;
        if arrived != bytes || ms <= 0.0 {
            return Err(format!("{arrived} of {bytes} bytes arrived, in {ms} ms"));
        }
        let account = Account {
            unit: "bytes".to_owned(),
            sent: bytes,
            delivered: arrived,
            ..Account::default()
        };
        let ledger = match work {
            BrowserWork::Up { .. } => Ledger { up: Some(account), ..Ledger::default() },
            _ => Ledger { down: Some(account), ..Ledger::default() },
        };
        let mut record = Record { ledger, delivered_bytes: Some(arrived), ..Record::default() };
        let rate = (arrived as f64 * 8_000.0 / ms).round();
        record.metrics.insert(GOODPUT.to_owned(), rate);
        Ok(record)
    }
}

/// Returns milliseconds, which were checked, in nanoseconds.
fn nanos(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}
