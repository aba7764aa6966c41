//! A run of iperf3, and the trial that it becomes.

use crate::ImportedTrial;
use crate::rates::{GOODPUT, IperfSide, SENT, metric, rate, time};
use crate::samples::{MessageCounts, loss_metric};
use crate::stalls::stalls;
use deadheat_contract::measurements::series::Series;
use deadheat_contract::measurements::{Account, Cost, Ledger, Metric, Role, Unit};
use deadheat_records::trial::Record;

/// A run, as far as its text has it: an absent figure is not known.
#[derive(Debug, Default)]
pub(super) struct Iperf3Run {
    pub version: Option<String>,
    /// Cookie, which both ends of a run write, and no other run.
    pub cookie: Option<String>,
    /// Start, in milliseconds since the Unix epoch.
    pub started_ms: Option<u64>,
    pub protocol: Option<String>,
    pub streams: u64,
    pub congestion: Option<String>,
    pub writer: IperfSide,
    /// Duration asked for, in seconds.
    pub asked_s: Option<f64>,
    /// Time omitted at the start, in seconds.
    pub omitted_s: f64,
    /// Sums of client to server, and of server to client; absent if nothing was sent that way.
    pub ways: [Option<WaySums>; 2],
    /// CPU time of the writer's end and of the other one.
    pub cpu: [Option<EndCpu>; 2],
    /// Series of the writer's end, by stream.
    pub series: Vec<Series>,
    /// iperf3's own words about an error.
    pub error: Option<String>,
    /// True if its text ends in the middle.
    pub is_cut: bool,
}

/// Sums of one direction, as the sender and the receiver counted it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct WaySums {
    pub sent: Option<EndSums>,
    pub received: Option<EndSums>,
    /// The one sum of a UDP run before 3.7: the sender's bytes, and the receiver's losses.
    pub joint: Option<EndSums>,
}

/// Sums of one end. All numbers are finite.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct EndSums {
    pub seconds: Option<f64>,
    pub bytes: Option<f64>,
    pub bps: Option<f64>,
    pub retransmits: Option<f64>,
    pub packets: Option<f64>,
    pub lost: Option<f64>,
    pub jitter_ms: Option<f64>,
}

impl WaySums {
    /// Removes the sums that a server, as the sender over UDP, writes of the receiver: its own count, with no loss and no
    /// jitter, as the receiver's comes to the client alone.
    fn without_receiver(&mut self) {
        let is_own = |sums: &EndSums| {
            sums.jitter_ms.unwrap_or(0.0) == 0.0 && sums.lost.unwrap_or(0.0) == 0.0
        };
        if let Some(own) = self.joint.filter(is_own) {
            (self.sent, self.joint) = (Some(self.sent.unwrap_or(own)), None);
        }
        self.received = self.received.filter(|own| !is_own(own));
    }
}

impl EndSums {
    /// Returns the sums of two streams, which run at the same time.
    pub(super) fn and(self, other: EndSums) -> EndSums {
        let plus = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        let larger = |a: Option<f64>, b: Option<f64>| Some(a?.max(b?));
        EndSums {
            seconds: larger(self.seconds, other.seconds),
            bytes: plus(self.bytes, other.bytes),
            bps: plus(self.bps, other.bps),
            retransmits: plus(self.retransmits, other.retransmits),
            packets: plus(self.packets, other.packets),
            lost: plus(self.lost, other.lost),
            jitter_ms: larger(self.jitter_ms, other.jitter_ms),
        }
    }

    /// Returns the rate in bits per second: as given, or of bytes and seconds.
    pub(super) fn rate(&self) -> Option<f64> {
        self.bps.or_else(|| {
            let seconds = self.seconds.filter(|seconds| *seconds > 0.0)?;
            Some(self.bytes? * 8.0 / seconds)
        })
    }
}

/// CPU time of one end, in percent of one CPU over the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EndCpu {
    pub total: f64,
    pub user: f64,
    pub system: f64,
}

/// Largest count of bytes that may lie in buffers of a sender without an acknowledgement. Linux' limit for a socket is
/// 4 MiB unless it is raised (tcp(7), `tcp_wmem`).
const LARGEST_BUFFER: f64 = (64 << 20) as f64;
/// Excess of received over sent bytes that is possible if the start was omitted: bytes under way at that time.
const UNDER_WAY: f64 = 0.05;
/// Share of the duration asked for from which a run that ended with an error has its figures.
const ALMOST: f64 = 0.9;

/// Doubt about sums of a sender alone.
const NO_RECEIVER: &str = "The receiver's count is not in the file: the goodput is not known.";

/// Metric of each direction.
const WAY_METRICS: [(&str, &str); 2] =
    [("goodput_up_bps", "goodput up"), ("goodput_down_bps", "goodput down")];

impl Iperf3Run {
    pub(super) fn is_udp(&self) -> bool {
        self.protocol.as_deref() == Some("UDP")
    }

    /// Returns true if there are sums of any direction.
    pub(super) fn has_sums(&self) -> bool {
        let has = |way: &WaySums| way.sent.or(way.received).or(way.joint).is_some();
        self.ways.iter().flatten().any(has)
    }

    /// Returns the implementation: `iperf 3.12, TCP, cubic, 2 streams`.
    pub(super) fn implementation(&self) -> String {
        let mut parts = vec![self.version.clone().unwrap_or_else(|| "iperf3".into())];
        parts.extend(self.protocol.clone());
        parts.extend(self.congestion.clone());
        if self.streams > 1 {
            parts.push(format!("{} streams", self.streams));
        }
        parts.join(", ")
    }

    fn metrics(&self) -> Vec<Metric> {
        let bits = |(name, label), role| metric(name, label, Unit::BitRate, role);
        let mut metrics = vec![rate(GOODPUT, Role::Claim)];
        if self.ways.iter().all(Option::is_some) {
            metrics.extend(WAY_METRICS.map(|way| bits(way, Role::Descriptive)));
        }
        metrics.push(rate(SENT, Role::Descriptive));
        if self.is_udp() {
            let label = "jitter (RFC 3550)";
            metrics.extend([loss_metric(), time("jitter_rfc3550", label, Role::Descriptive)]);
        }
        metrics
    }

    /// Returns the information that the run lacks, as phrases.
    fn unknown(&self) -> Vec<&'static str> {
        let datagrams =
            "datagrams lost after the last that arrived, dropped at the socket, or duplicated";
        let is_udp = self.is_udp() && self.has_sums();
        let start = (self.omitted_s > 0.0).then_some("the start, which iperf3 omitted");
        is_udp.then_some(datagrams).into_iter().chain(start).collect()
    }

    /// Returns the trial.
    pub(super) fn trial(mut self) -> ImportedTrial {
        let mut trial = ImportedTrial::complete();
        (trial.metrics, trial.unknown) = (self.metrics(), self.unknown());
        for way in 0..2 {
            self.judge(way, &mut trial);
        }
        self.rates(&mut trial);
        self.accounts(&mut trial);
        self.costs(&mut trial.record);
        trial.record.intervals = std::mem::take(&mut self.series);
        trial.record.outages = stalls(&trial.record.intervals, self.is_udp());
        if !self.has_sums() {
            without_sums(&mut trial.record);
        }
        let mut trial = self.ended(trial);
        trial.record.started_ms = self.started_ms.unwrap_or(0);
        trial.identity = self.cookie.map(|cookie| format!("iperf3 {cookie}"));
        trial
    }

    /// Returns the trial by its end: complete, unfinished or failed.
    fn ended(&self, mut trial: ImportedTrial) -> ImportedTrial {
        let cut = self.is_cut.then_some("the text of the run ends in the middle");
        let error = self.error.as_deref().map(str::trim).or(cut);
        let has_intervals = !trial.record.intervals.is_empty();
        match error {
            None if self.has_sums() => trial,
            None if has_intervals => unfinished(trial, "it has no sums at its end"),
            Some(error) if self.has_sums() || has_intervals => {
                let measured = trial.record.took_ns as f64 / 1e9;
                let is_almost = self.asked_s.is_none_or(|asked| measured >= ALMOST * asked);
                if !(self.has_sums() && is_almost && trial.record.metrics.contains_key(GOODPUT)) {
                    return unfinished(trial, error);
                }
                trial.doubts.push(if self.error.is_some() {
                    format!("iperf3 ended with an error: {}.", deadheat_base::foreign::short(error))
                } else {
                    "The text of the run ends in the middle, after its sums.".to_owned()
                });
                trial
            }
            _ => {
                let words = error.unwrap_or("iperf3 wrote neither figures nor an error");
                ImportedTrial { record: ImportedTrial::failed(words).record, ..trial }
            }
        }
    }

    /// Removes sums of a direction that are not known or not possible.
    fn judge(&mut self, way: usize, trial: &mut ImportedTrial) {
        let (is_udp, writer) = (self.is_udp(), self.writer);
        let has_error = self.error.is_some();
        let omits = self.omitted_s > 0.0;
        let Some(sums) = &mut self.ways[way] else { return };
        for end in [&mut sums.sent, &mut sums.received, &mut sums.joint] {
            if let Some(own) = end
                && [own.bytes, own.bps].into_iter().flatten().any(|value| value < 0.0)
            {
                let rate = own.bps.or(own.bytes).unwrap_or_default();
                trial.impossible(&format!("a rate of {rate} bit/s"));
                *end = None;
            }
        }
        let bytes = |end: &Option<EndSums>| end.and_then(|own| own.bytes);
        let sends = (way == 0) == (writer == IperfSide::Client);
        if is_udp && sends && writer == IperfSide::Server {
            sums.without_receiver();
        }
        let (Some(sent), Some(received)) = (bytes(&sums.sent), bytes(&sums.received)) else {
            if sends && sums.received.is_none() && sums.joint.is_none() && sums.sent.is_some() {
                trial.doubts.push(NO_RECEIVER.to_owned());
            }
            return;
        };
        let (own, other) = if sends { (sent, received) } else { (received, sent) };
        // The other end's counts come to this one after the run, if at all.
        let is_unknown = other == 0.0
            && own > 0.0
            && (writer == IperfSide::Server || has_error || !is_udp && own > LARGEST_BUFFER);
        if is_unknown {
            let (end, side) =
                if sends { (&mut sums.received, "receiver") } else { (&mut sums.sent, "sender") };
            *end = None;
            if sends {
                trial.doubts.push(format!(
                    "The {side}'s count is not in the file, which says 0 beside {own} bytes sent: the \
                     goodput is not known."
                ));
            }
            return;
        }
        let allowed = if omits { sent * (1.0 + UNDER_WAY) } else { sent };
        if received > allowed {
            trial.impossible(&format!("{received} bytes received of {sent} sent"));
            sums.received = None;
        }
    }

    fn rates(&self, trial: &mut ImportedTrial) {
        let (mut goodput, mut sent) = (Vec::new(), Vec::new());
        let expected = self.ways.iter().flatten().count();
        for (way, (name, _)) in self.ways.iter().zip(WAY_METRICS) {
            let Some(way) = way else { continue };
            let sender = way.sent.or(way.joint);
            sent.extend(sender.and_then(|sums| sums.rate()));
            let arrived = way.received.or_else(|| way.joint.and_then(arrived));
            let record = &mut trial.record;
            let seconds = arrived.or(sender).and_then(|sums| sums.seconds).unwrap_or(0.0);
            record.took_ns = record.took_ns.max((seconds.max(0.0) * 1e9) as u64);
            let Some(rate) = arrived.and_then(|sums| sums.rate()) else { continue };
            goodput.push(rate);
            record.metrics.insert(name.to_owned(), rate);
            if let Some(bytes) = arrived.and_then(|sums| sums.bytes) {
                record.delivered_bytes = Some(record.delivered_bytes.unwrap_or(0) + bytes as u64);
            }
            let counted = way.received.or(way.joint).filter(|sums| sums.bytes != Some(0.0));
            let jitter = counted.and_then(|sums| sums.jitter_ms);
            if let Some(jitter) = jitter.filter(|jitter| self.is_udp() && *jitter >= 0.0) {
                let worst = record.metrics.get("jitter_rfc3550_ns").copied().unwrap_or(0.0);
                record.metrics.insert("jitter_rfc3550_ns".into(), worst.max(jitter * 1e6));
            }
        }
        let metrics = &mut trial.record.metrics;
        // A sum of which a part is not known is not known.
        if goodput.len() == expected && expected > 0 {
            metrics.insert(GOODPUT.into(), goodput.iter().sum());
        }
        if expected < 2 {
            metrics.remove("goodput_up_bps");
            metrics.remove("goodput_down_bps");
        }
        if sent.len() == expected && expected > 0 {
            metrics.insert(SENT.into(), sent.iter().sum());
        }
    }

    fn accounts(&self, trial: &mut ImportedTrial) {
        let retransmits = |way: &Option<WaySums>| {
            // -1 where the kernel does not count them; some versions write it without its sign.
            let counted = way.as_ref()?.sent?.retransmits?;
            (0.0..9e15).contains(&counted).then_some(counted as u64)
        };
        trial.record.retransmits = match self.ways.each_ref().map(retransmits) {
            [None, None] => None,
            [up, down] => Some(up.unwrap_or(0) + down.unwrap_or(0)),
        };
        if !self.is_udp() {
            return;
        }
        let [up, down] = self.ways.map(|way| account(&way?, trial));
        let ledger = Ledger { up, down, round_trip: None };
        let of = |part: fn(&Account) -> u64| -> u64 {
            ledger.accounts().map(|(_, own)| part(own)).sum()
        };
        let (sent, lost) = (of(|own| own.sent), of(|own| own.lost_on_path));
        let known = ledger.accounts().count() == self.ways.iter().flatten().count();
        if sent > 0 && known {
            trial.record.metrics.insert(loss_metric().name, lost as f64 / sent as f64);
        }
        trial.record.ledger = ledger;
    }

    /// Adds the CPU time of both ends: shares of one CPU over the run.
    fn costs(&self, record: &mut Record) {
        let took = record.took_ns as f64;
        let ns = |percent: f64| (percent.clamp(0.0, 1e5) / 100.0 * took) as u64;
        let cost = |shares: EndCpu| Cost {
            cpu_ns: ns(shares.total),
            user_ns: ns(shares.user),
            system_ns: ns(shares.system),
            ..Cost::default()
        };
        let [near, far] = self.cpu;
        record.cost = near.map(cost).unwrap_or_default();
        record.far_cost = far.map(cost);
    }
}

/// Returns an unfinished trial, with the time that it lasted.
fn unfinished(trial: ImportedTrial, why: &str) -> ImportedTrial {
    let seconds = trial.record.took_ns as f64 / 1e9;
    trial.unfinished(&format!("{}, after {seconds:.1} s", why.trim_end_matches('.')))
}

/// Returns the sums of the receiver from the one sum of a UDP run before 3.7.
fn arrived(joint: EndSums) -> Option<EndSums> {
    let (packets, lost) = (joint.packets?, joint.lost?);
    if packets <= 0.0 || !(0.0..=packets).contains(&lost) {
        return None;
    }
    let share = 1.0 - lost / packets;
    let part = |value: Option<f64>| value.map(|value| value * share);
    Some(EndSums { bytes: part(joint.bytes), bps: part(joint.bps), ..joint })
}

/// Returns the account of the datagrams of one direction; `None` if it is not known or not possible.
fn account(way: &WaySums, trial: &mut ImportedTrial) -> Option<Account> {
    let sums = way.received.or(way.joint)?;
    let (mut sent, mut lost) = (sums.packets?, sums.lost?);
    // A receiver counts up to the last number that it saw.
    if let (0.0, Some(0.0), Some(all)) = (sent, sums.bytes, way.sent.and_then(|own| own.packets)) {
        (sent, lost) = (all, all);
    }
    if lost < 0.0 || lost > sent {
        trial.impossible(&format!("{lost} datagrams lost of {sent}"));
        return None;
    }
    let (sent, received) = (sent as u64, (sent - lost) as u64);
    if sent > 0 && received == 0 {
        trial.doubts.push(format!("Nothing arrived of {sent} datagrams."));
    }
    (sent > 0).then(|| MessageCounts::of(sent, received).account())
}

/// Adds rates from the series of a run without sums, of which the writer's end knows its own part.
fn without_sums(record: &mut Record) {
    let ended = record.intervals.iter().filter_map(|series| series.at_ns.last()).max();
    let Some(seconds) = ended.filter(|ns| **ns > 0).map(|ns| *ns as f64 / 1e9) else { return };
    let total = |of: fn(&Series) -> &[u64]| -> u64 {
        record.intervals.iter().filter_map(|series| of(series).last()).sum()
    };
    let (sent, received) = (total(|own| &own.sent_bytes), total(|own| &own.received_bytes));
    record.took_ns = (seconds * 1e9) as u64;
    for (name, bytes) in [(SENT, sent), (GOODPUT, received)] {
        if bytes > 0 {
            record.metrics.insert(name.into(), bytes as f64 * 8.0 / seconds);
        }
    }
    record.delivered_bytes = (received > 0).then_some(received);
}
