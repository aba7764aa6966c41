//! irtt: isochronous round trips over UDP, from `irtt client -o FILE.json` (irtt's doc/irtt-client.md, section
//! OUTPUT; JSON format 1), or from the text that it prints.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::echo::{DUE, many};
use super::foreign_file::ForeignFile;
use super::samples::{MessageCounts, MetricNaming, SampleBuffer};
use super::{FileContent, Format, ImportedTrial, NONE, ReaderContext};
use deadheat_base::time::epoch_ms;
use deadheat_contract::measurements::Role;
use deadheat_result::date;

mod text;

/// Supported JSON format.
const FORMAT_NUMBER: u64 = 1;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "irtt",
    summary: "irtt client, its text or -o FILE.json: round trips over UDP, one-way delays",
    signs: &[&["{", "\"irtt\"", "\"json_format\""]],
    sniff: text::is_text,
    read: Some(read),
    program: "irtt",
    implementation: "irtt",
    unit: "ns",
    trial: "a run of irtt",
    unknown: &[DUE],
    ..NONE
};

#[derive(Deserialize, Default)]
struct IrttFile {
    version: IrttVersion,
    #[serde(default, deserialize_with = "or_default")]
    stats: IrttStats,
    /// `null` in a run that ended before the first.
    #[serde(default, deserialize_with = "or_default")]
    round_trips: Vec<IrttRoundTrip>,
    /// Error that ended the run, as text or as an object of Go.
    #[serde(default)]
    send_err: Option<Value>,
    #[serde(default)]
    receive_err: Option<Value>,
    /// True if each round trip has the time of its request.
    #[serde(skip, default = "yes")]
    is_timed: bool,
}

fn yes() -> bool {
    true
}

/// Reads a value, and `null` as the default.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[derive(Deserialize, Default)]
struct IrttVersion {
    irtt: String,
    json_format: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct IrttStats {
    start_time: Value,
    server_packets_received: u64,
    duplicates: u64,
    late_packets: u64,
}

impl IrttStats {
    fn counts(&self, sent: u64, received: u64) -> MessageCounts {
        let (duplicates, reordered) = (Some(self.duplicates), Some(self.late_packets));
        MessageCounts { sent, received, duplicates, reordered }
    }

    /// Returns the server's count of arrivals, if it can be: a second answer to one hides a loss in it.
    fn there(&self, sent: u64, received: u64) -> Option<u64> {
        let there = Some(self.server_packets_received).filter(|_| self.duplicates == 0);
        there.filter(|there| *there > 0 && (received..=sent).contains(there))
    }

    /// Returns the start: text up to 0.9.0, and stamps since.
    fn start(&self) -> Option<SystemTime> {
        if let Some(text) = self.start_time.as_str() {
            return date::parse_rfc3339(text);
        }
        UNIX_EPOCH.checked_add(Duration::from_nanos(self.start_time["wall"].as_u64()?))
    }
}

#[derive(Deserialize, Default)]
struct IrttRoundTrip {
    #[serde(default)]
    lost: LostWay,
    #[serde(default, deserialize_with = "or_default")]
    delay: IrttDelay,
    #[serde(default, deserialize_with = "or_default")]
    timestamps: IrttStamps,
}

/// Direction in which a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LostWay {
    #[default]
    Not,
    Up,
    Down,
    Unknown,
}

impl<'de> Deserialize<'de> for LostWay {
    /// Reads a fate, which is text or a truth value.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LostWay, D::Error> {
        Ok(match Value::deserialize(from)? {
            Value::Null | Value::Bool(false) => LostWay::Not,
            Value::Bool(true) => LostWay::Unknown,
            Value::String(text) => match text.as_str() {
                "false" => LostWay::Not,
                "true_up" => LostWay::Up,
                "true_down" => LostWay::Down,
                _ => LostWay::Unknown,
            },
            other => return Err(D::Error::custom(format!("the fate of a packet is {other}"))),
        })
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct IrttDelay {
    rtt: Option<i64>,
    send: Option<i64>,
    receive: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct IrttStamps {
    client: IrttClient,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct IrttClient {
    send: IrttStamp,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct IrttStamp {
    monotonic: u64,
}

fn read(file: &mut ForeignFile, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    if text::is_text(file.head()) {
        return text::read(file, context);
    }
    let runs = file.json::<IrttFile>()?;
    let first = runs.first().ok_or("there is no result in it")?;
    let mut content = FileContent {
        program: format!("irtt {}", first.version.irtt),
        began: first.stats.start(),
        ..FileContent::default()
    };
    for run in &runs {
        let format = run.version.json_format;
        if format > FORMAT_NUMBER {
            return Err(format!(
                "JSON format {format} of irtt is newer than {FORMAT_NUMBER}, which is read"
            ));
        }
        content.add("", run.trial(context)?);
    }
    content.arm("").implementation = content.program.clone();
    Ok(content)
}

impl IrttFile {
    fn trial(&self, context: &mut ReaderContext<'_>) -> Result<ImportedTrial, String> {
        let error = [&self.send_err, &self.receive_err].into_iter().flatten().next();
        if self.round_trips.is_empty() {
            let words = error.map_or_else(|| "no packet was sent".to_owned(), Value::to_string);
            return Ok(ImportedTrial::failed(&words));
        }
        let mut doubts = Vec::new();
        let mut trial = self.samples(&mut doubts)?.trial(&MetricNaming::rtt(), context)?;
        trial.doubts.extend(doubts);
        self.one_way(&mut trial)?;
        self.account(&mut trial);
        trial.record.started_ms = self.stats.start().map_or(0, epoch_ms);
        if let Some(error) = error {
            trial.record.valid = false;
            trial.record.why_invalid =
                Some(deadheat_base::foreign::short(&format!("unfinished: {error}")));
        }
        Ok(trial)
    }

    fn samples(&self, doubts: &mut Vec<String>) -> Result<SampleBuffer, String> {
        let sent = |trip: &IrttRoundTrip| trip.timestamps.client.send.monotonic;
        let first = self.round_trips.first().map_or(0, sent);
        let mut values = SampleBuffer::default();
        let (mut untimed, mut negative) = (0, None);
        for trip in &self.round_trips {
            let at_ns = self.is_timed.then(|| sent(trip).saturating_sub(first));
            match trip.delay.rtt.map(|ns| u64::try_from(ns).map_err(|_| ns)) {
                _ if trip.lost != LostWay::Not => values.put(None, at_ns)?,
                Some(Ok(ns)) => values.put(Some(ns), at_ns)?,
                Some(Err(ns)) => negative = Some(ns),
                None => untimed += 1,
            }
        }
        if untimed > 0 {
            doubts.push(format!("{} without a time.", many(untimed, "answer")));
        }
        if let Some(ns) = negative {
            doubts.push(format!("Impossible, and in no figure: a round trip of {ns} ns."));
        }
        Ok(values)
    }

    /// Adds the delays of each direction, if the server sent its times. Where one of them exceeds its round trip, or is
    /// negative, the clocks are too far apart for either.
    fn one_way(&self, trial: &mut ImportedTrial) -> Result<(), String> {
        let delays: Vec<[i64; 3]> = self
            .round_trips
            .iter()
            .filter_map(|trip| Some([trip.delay.rtt?, trip.delay.send?, trip.delay.receive?]))
            .collect();
        let is_wrong = |[rtt, up, down]: &&[i64; 3]| up > rtt || down > rtt || *up < 0 || *down < 0;
        if let Some([rtt, up, down]) = delays.iter().find(is_wrong) {
            let ms = |ns: i64| ns as f64 / 1e6;
            // With equal delays each way, the clocks would be apart by half of the difference.
            let apart = ms(up.saturating_sub(*down)).abs() / 2.0;
            trial.doubts.push(format!(
                "The two clocks are about {apart:.3} ms apart, more than a delay (round trip {:.3} ms, {:.3} ms \
                 there, {:.3} ms back): no one-way delay is a figure.",
                ms(*rtt),
                ms(*up),
                ms(*down)
            ));
            return Ok(());
        }
        if delays.is_empty() {
            return Ok(());
        }
        for (stem, label, at) in [("delay_up", "delay up", 1), ("delay_down", "delay down", 2)] {
            let mut values = SampleBuffer::default();
            for delay in &delays {
                values.push(u64::try_from(delay[at]).unwrap_or(0))?;
            }
            MetricNaming::time(stem, label).enter(&values.sum(), Role::Descriptive, trial);
        }
        trial.unknown.push("by how much the two clocks differ, which one-way delays hold");
        Ok(())
    }

    /// Adds the accounts, by the fate of each packet: irtt's own sums count a second answer as one, which hides a loss.
    fn account(&self, trial: &mut ImportedTrial) {
        let sent = self.round_trips.len() as u64;
        let lost = |way| self.round_trips.iter().filter(|own| own.lost == way).count() as u64;
        let (up, down, unknown) = (lost(LostWay::Up), lost(LostWay::Down), lost(LostWay::Unknown));
        let received = sent - up - down - unknown;
        self.stats.counts(sent, received).enter(trial);
        let there = self.stats.there(sent, received);
        if let Some(there) = there.or((unknown == 0 && up + down > 0).then(|| sent - up)) {
            account_by_way(trial, sent, there, received);
        }
    }
}

/// Adds the accounts of both directions; `there` arrived at the server.
fn account_by_way(trial: &mut ImportedTrial, sent: u64, there: u64, received: u64) {
    trial.record.ledger.up = Some(MessageCounts::of(sent, there).account());
    trial.record.ledger.down = Some(MessageCounts::of(there, received).account());
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::Account;

    fn read(json: &str) -> IrttFile {
        serde_json::from_str(json).unwrap()
    }

    const HEAD: &str = r#""version":{"irtt":"0.9.2","protocol":1,"json_format":1}"#;

    #[test]
    fn the_start_is_read_as_text_and_as_stamps() {
        let at = |start: &str| {
            let run = read(&format!("{{{HEAD},\"stats\":{{\"start_time\":{start}}}}}"));
            run.stats.start()
        };
        let want = Some(UNIX_EPOCH + Duration::from_secs(1_795_197_747));
        assert_eq!(at("\"2026-11-20T18:02:27.8Z\""), want);
        assert_eq!(at("{\"wall\":1795197747000000000,\"monotonic\":5}"), want);
        assert_eq!(at("7"), None);
    }

    #[test]
    fn second_answers_hide_no_loss_and_directions_need_marks_or_counts() {
        let trips = |trips: &str, stats: &str| {
            let run = read(&format!("{{{HEAD},\"stats\":{{{stats}}},\"round_trips\":[{trips}]}}"));
            let mut trial = ImportedTrial::default();
            run.account(&mut trial);
            let lost = |own: &Option<Account>| own.as_ref().map(|own| own.lost_on_path);
            let ledger = &trial.record.ledger;
            (trial.record.metrics["loss_share"], lost(&ledger.up), lost(&ledger.down))
        };
        let two = r#"{"lost":"false","delay":{"rtt":5}},{"lost":"true_down"}"#;
        let hidden = r#""server_packets_received":2,"duplicates":1"#;
        assert_eq!(trips(two, hidden), (0.5, Some(0), Some(1)));
        let plain = r#"{"lost":false,"delay":{"rtt":5}},{"lost":true}"#;
        assert_eq!(trips(plain, r#""server_packets_received":1"#), (0.5, Some(1), Some(0)));
        assert_eq!(trips(plain, r#""server_packets_received":0"#), (0.5, None, None));
    }
}
