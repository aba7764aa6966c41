//! iperf3: `iperf3 -J`, TCP and UDP, in either or both directions, with parallel streams. Several results in one
//! file (`>> runs.json`) are trials of one contender.

use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;

use super::foreign::ForeignFile;
use super::gather::{blank, loss_metric};
use super::{Arm, FileContent, FormatReader, ImportedTrial, ReaderContext};
use crate::measurements::series::Series;
use crate::measurements::{Account, Better, ClockNeed, Cost, Ledger, Metric, Role, Unit};
use crate::trial::Record;

/// The format.
pub(super) struct Iperf3;

#[derive(Deserialize)]
struct Iperf3File {
    start: Iperf3Start,
    #[serde(default)]
    intervals: Vec<Iperf3Interval>,
    #[serde(default)]
    end: Iperf3End,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Iperf3Start {
    version: Option<String>,
    timestamp: Option<Timestamp>,
    test_start: Option<TestStart>,
}

#[derive(Deserialize)]
struct Timestamp {
    timesecs: u64,
}

#[derive(Deserialize)]
struct TestStart {
    protocol: String,
    num_streams: u64,
    #[serde(default)]
    reverse: u64,
    #[serde(default)]
    omit: u64,
}

#[derive(Deserialize)]
struct Iperf3Interval {
    #[serde(default)]
    streams: Vec<StreamInterval>,
}

#[derive(Deserialize)]
struct StreamInterval {
    socket: i64,
    end: f64,
    #[serde(default)]
    seconds: f64,
    bytes: u64,
    #[serde(default)]
    omitted: bool,
    sender: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Iperf3End {
    sum: Option<Iperf3Sum>,
    sum_sent: Option<Iperf3Sum>,
    sum_received: Option<Iperf3Sum>,
    sum_sent_bidir_reverse: Option<Iperf3Sum>,
    sum_received_bidir_reverse: Option<Iperf3Sum>,
    cpu_utilization_percent: Option<Iperf3Cpu>,
    sender_tcp_congestion: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
struct Iperf3Sum {
    #[serde(default)]
    seconds: f64,
    bytes: f64,
    bits_per_second: f64,
    retransmits: Option<u64>,
    packets: Option<u64>,
    lost_packets: Option<i64>,
}

#[derive(Deserialize, Clone, Copy)]
struct Iperf3Cpu {
    host_total: f64,
    host_user: f64,
    host_system: f64,
    remote_total: f64,
    remote_user: f64,
    remote_system: f64,
}

impl FormatReader for Iperf3 {
    fn id(&self) -> &'static str {
        "iperf3"
    }

    fn summary(&self) -> &'static str {
        "iperf3 -J: TCP and UDP, either way or both; several results in one file are trials"
    }

    fn sniff(&self, head: &str) -> bool {
        let head = head.trim_start();
        head.starts_with('{')
            && head.contains("\"start\"")
            && (head.contains("\"iperf 3") || head.contains("\"intervals\""))
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        _: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        if file.head().contains("\"event\"") {
            return Err(
                "this is iperf3's --json-stream, one event a line; run it with -J alone".into()
            );
        }
        let runs: Vec<Iperf3File> = file.json()?;
        let first = runs.first().ok_or("there is no result in it")?;
        let mut reading = FileContent {
            program: first.start.version.clone(),
            began: first
                .start
                .timestamp
                .as_ref()
                .and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at.timesecs))),
            unit: "bit/s".into(),
            trial: "a run of iperf3".into(),
            ..FileContent::default()
        };
        let mut arm = Arm { implementation: first.implementation(), ..Arm::default() };
        for (at, run) in runs.iter().enumerate() {
            let trial = run.trial(&mut reading.unknown).map_err(|what| match runs.len() {
                1 => what,
                _ => format!("result {}: {what}", at + 1),
            })?;
            for metric in run.metrics() {
                if !arm.metrics.contains(&metric) {
                    arm.metrics.push(metric);
                }
            }
            arm.trials.push(trial);
        }
        reading.unknown.dedup();
        reading.arms.push(arm);
        Ok(reading)
    }
}

/// Sums of one direction, as the sender and the receiver counted it.
#[derive(Clone, Copy)]
struct DirectionSums {
    sent: Option<Iperf3Sum>,
    received: Option<Iperf3Sum>,
}

impl Iperf3File {
    fn is_udp(&self) -> bool {
        self.start.test_start.as_ref().is_some_and(|test| test.protocol == "UDP")
    }

    fn is_reverse(&self) -> bool {
        self.start.test_start.as_ref().is_some_and(|test| test.reverse != 0)
    }

    /// Returns the directions: from near to far, and back.
    fn ways(&self) -> [Option<DirectionSums>; 2] {
        let end = &self.end;
        let main = DirectionSums { sent: end.sum_sent, received: end.sum_received };
        let back = DirectionSums {
            sent: end.sum_sent_bidir_reverse,
            received: end.sum_received_bidir_reverse,
        };
        match (back.received, self.is_reverse()) {
            (Some(_), _) => [Some(main), Some(back)],
            (None, true) => [None, Some(main)],
            (None, false) => [Some(main), None],
        }
    }

    /// Returns the implementation: `iperf 3.12, TCP, cubic, 2 streams`.
    fn implementation(&self) -> String {
        let mut parts = vec![self.start.version.clone().unwrap_or_else(|| "iperf3".into())];
        if let Some(test) = &self.start.test_start {
            parts.push(test.protocol.clone());
            parts.extend(self.end.sender_tcp_congestion.clone());
            if test.num_streams > 1 {
                parts.push(format!("{} streams", test.num_streams));
            }
        }
        parts.join(", ")
    }

    fn metrics(&self) -> Vec<Metric> {
        let rate = |name: &str, label: &str, role| Metric {
            name: name.to_owned(),
            label: label.to_owned(),
            unit: Unit::BitRate,
            better: Better::Higher,
            role,
            clock: ClockNeed::None,
        };
        let mut metrics = vec![rate("goodput_bps", "goodput", Role::Claim)];
        if self.ways().iter().all(Option::is_some) {
            metrics.push(rate("goodput_up_bps", "goodput up", Role::Descriptive));
            metrics.push(rate("goodput_down_bps", "goodput down", Role::Descriptive));
        }
        metrics.push(rate("sent_bps", "sent", Role::Descriptive));
        if self.is_udp() {
            metrics.push(loss_metric());
        }
        metrics
    }

    fn trial(&self, unknown: &mut Vec<String>) -> Result<ImportedTrial, String> {
        if let Some(error) = &self.error {
            let end = &self.end;
            if end.sum_received.is_none() && end.sum_sent.is_none() {
                return Err(format!("iperf3 measured nothing; it said: {error}"));
            }
            unknown.push(format!("iperf3 ended with an error: {error}"));
        }
        let mut record = blank();
        self.rates(&mut record, unknown)?;
        self.accounts(&mut record, unknown);
        self.costs(&mut record);
        record.intervals = self.series();
        if self.start.test_start.as_ref().is_some_and(|test| test.omit > 0) {
            unknown.push("What iperf3 was told to omit at the start is not in the figures.".into());
        }
        Ok(ImportedTrial { record, ..ImportedTrial::default() })
    }

    fn rates(&self, record: &mut Record, unknown: &mut Vec<String>) -> Result<(), String> {
        let mut goodput = Vec::new();
        let mut sent = Vec::new();
        for (way, name) in self.ways().iter().zip(["goodput_up_bps", "goodput_down_bps"]) {
            let Some(way) = way else { continue };
            sent.extend(way.sent.map(|sum| sum.bits_per_second));
            let Some(received) = way.received.or_else(|| self.counted_by_sender(unknown)) else {
                continue;
            };
            goodput.push(received.bits_per_second);
            record.metrics.insert(name.to_owned(), received.bits_per_second);
            let bytes = received.bytes.max(0.0) as u64;
            record.delivered_bytes = Some(record.delivered_bytes.unwrap_or(0) + bytes);
            record.took_ns = record.took_ns.max((received.seconds.max(0.0) * 1e9) as u64);
        }
        if goodput.is_empty() && sent.is_empty() {
            return Err("its `end` has no sums: the run did not come to its end".into());
        }
        if goodput.is_empty() {
            unknown.push(
                "What the receiver had is not in the file, so there is no goodput, only what was sent."
                    .into(),
            );
        } else {
            record.metrics.insert("goodput_bps".into(), goodput.iter().sum());
        }
        if goodput.len() < 2 {
            record.metrics.remove("goodput_up_bps");
            record.metrics.remove("goodput_down_bps");
        }
        if !sent.is_empty() {
            record.metrics.insert("sent_bps".into(), sent.iter().sum());
        }
        if record.metrics.values().any(|value| !value.is_finite() || *value < 0.0) {
            return Err("a rate in its sums is negative or no number".into());
        }
        Ok(())
    }

    /// Returns the sender's sum. Before 3.7 a UDP test has one sum, with the sender's bytes and the receiver's
    /// losses.
    fn counted_by_sender(&self, unknown: &mut Vec<String>) -> Option<Iperf3Sum> {
        let sum = self.end.sum.filter(|_| self.is_udp())?;
        let lost = sum.lost_packets.unwrap_or(0).max(0) as f64;
        let share = lost / (sum.packets.unwrap_or(0) as f64).max(1.0);
        unknown.push(
            "The goodput is what was sent less what the receiver missed, as the file has one sum only."
                .into(),
        );
        let arrived = (1.0 - share).max(0.0);
        Some(Iperf3Sum {
            bytes: sum.bytes * arrived,
            bits_per_second: sum.bits_per_second * arrived,
            ..sum
        })
    }

    fn accounts(&self, record: &mut Record, unknown: &mut Vec<String>) {
        let [up, down] = self.ways();
        let account = |way: &DirectionSums| {
            let sum = way.received.or(self.end.sum)?;
            let sent = sum.packets?;
            let lost = (sum.lost_packets?.max(0) as u64).min(sent);
            Some(Account {
                unit: "messages".into(),
                sent,
                delivered: sent - lost,
                lost_on_path: lost,
                ..Account::default()
            })
        };
        if self.is_udp() {
            let ledger = Ledger {
                up: up.as_ref().and_then(account),
                down: down.as_ref().and_then(account),
                round_trip: None,
            };
            let all =
                |of: fn(&Account) -> u64| ledger.accounts().map(|(_, own)| of(own)).sum::<u64>();
            let (sent, lost) = (all(|own| own.sent), all(|own| own.lost_on_path));
            if sent > 0 {
                record.metrics.insert(loss_metric().name, lost as f64 / sent as f64);
            }
            record.ledger = ledger;
            unknown.push(
                "iperf3 sees a loss by the gap before the next datagram: those at the end, drops at the \
                 receiver's socket, and duplicates cannot be told from it."
                    .into(),
            );
        }
        let retransmits = |way: Option<DirectionSums>| way.and_then(|way| way.sent?.retransmits);
        record.retransmits = match (retransmits(up), retransmits(down)) {
            (None, None) => None,
            (up, down) => Some(up.unwrap_or(0) + down.unwrap_or(0)),
        };
    }

    /// Adds the CPU time of both ends: shares of one CPU over the run.
    fn costs(&self, record: &mut Record) {
        let Some(cpu) = self.end.cpu_utilization_percent else { return };
        let ns = |percent: f64| (percent.clamp(0.0, 1e5) / 100.0 * record.took_ns as f64) as u64;
        let cost = |total, user, system| Cost {
            cpu_ns: ns(total),
            user_ns: ns(user),
            system_ns: ns(system),
            ..Cost::default()
        };
        let far = cost(cpu.remote_total, cpu.remote_user, cpu.remote_system);
        let near = cost(cpu.host_total, cpu.host_user, cpu.host_system);
        record.cost = near;
        record.far_cost = Some(far);
    }

    /// Returns the near end's series over time, one flow per stream.
    fn series(&self) -> Vec<Series> {
        let mut flows: Vec<(i64, Series)> = Vec::new();
        for interval in &self.intervals {
            for stream in interval.streams.iter().filter(|stream| !stream.omitted) {
                let at = flows.iter().position(|(socket, _)| *socket == stream.socket);
                let at = at.unwrap_or_else(|| {
                    let interval_ns = (stream.seconds.max(0.0) * 1e9) as u64;
                    flows.push((stream.socket, Series { interval_ns, ..Series::default() }));
                    flows.len() - 1
                });
                let series = &mut flows[at].1;
                let sends = stream.sender.unwrap_or(!self.is_reverse());
                let (own, other) = if sends {
                    (&mut series.sent_bytes, &mut series.received_bytes)
                } else {
                    (&mut series.received_bytes, &mut series.sent_bytes)
                };
                own.push(own.last().copied().unwrap_or(0).saturating_add(stream.bytes));
                other.push(0);
                series.at_ns.push((stream.end.max(0.0) * 1e9) as u64);
            }
        }
        flows.into_iter().map(|(_, series)| series).collect()
    }
}
