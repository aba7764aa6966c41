//! irtt: isochronous round trips over UDP, from `irtt client -o FILE.json` (irtt's doc/irtt-client.md, section
//! OUTPUT; JSON format 1).

use serde::Deserialize;

use super::foreign::ForeignFile;
use super::gather::{EchoCounts, MetricNaming, SampleBuffer, loss_metric};
use super::{Arm, FileContent, FormatReader, ImportedTrial, ReaderContext};
use crate::measurements::{Account, Role};
use crate::result::date;

/// Supported JSON format.
const FORMAT: u64 = 1;

/// The format.
pub(super) struct Irtt;

#[derive(Deserialize)]
struct IrttFile {
    version: IrttVersion,
    #[serde(default)]
    stats: IrttStats,
    #[serde(default)]
    round_trips: Vec<IrttRoundTrip>,
}

#[derive(Deserialize)]
struct IrttVersion {
    irtt: String,
    json_format: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct IrttStats {
    start_time: String,
    packets_sent: u64,
    packets_received: u64,
    server_packets_received: u64,
    duplicates: u64,
    late_packets: u64,
}

#[derive(Deserialize)]
struct IrttRoundTrip {
    lost: String,
    #[serde(default)]
    delay: IrttDelay,
    #[serde(default)]
    timestamps: IrttStamps,
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

impl FormatReader for Irtt {
    fn id(&self) -> &'static str {
        "irtt"
    }

    fn summary(&self) -> &'static str {
        "irtt client -o FILE.json: round trips over UDP, one-way delays"
    }

    fn sniff(&self, head: &str) -> bool {
        head.starts_with('{') && head.contains("\"irtt\"") && head.contains("\"json_format\"")
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        means: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let [read] = <[IrttFile; 1]>::try_from(file.json::<IrttFile>()?)
            .map_err(|all| format!("{} results of irtt in one file; give one each", all.len()))?;
        let format = read.version.json_format;
        if format > FORMAT {
            return Err(format!(
                "JSON format {format} of irtt is newer than {FORMAT}, which is read"
            ));
        }
        if read.round_trips.is_empty() {
            return Err("there is no round trip in it (`irtt client` writes them with -o)".into());
        }
        let mut unknown = vec![
            "Round trips count from when a packet was sent, not from when it was due: a sender that \
             was held up hides its delay."
                .to_owned(),
        ];
        let rtt = MetricNaming::rtt();
        let mut trial = round_trips(&read)?.trial(&rtt, means)?;
        let mut metrics = rtt.metrics(Role::Claim);
        one_way(&read, &mut trial, &mut metrics, &mut unknown)?;
        account(&read.stats, &mut trial);
        metrics.push(loss_metric());
        let program = format!("irtt {}", read.version.irtt);
        Ok(FileContent {
            began: date::parse_rfc3339(&read.stats.start_time),
            unit: "ns".into(),
            trial: "a run of irtt".into(),
            arms: vec![Arm {
                implementation: program.clone(),
                metrics,
                trials: vec![trial],
                ..Arm::default()
            }],
            program: Some(program),
            unknown,
            ..FileContent::default()
        })
    }
}

fn round_trips(read: &IrttFile) -> Result<SampleBuffer, String> {
    let sent = |trip: &IrttRoundTrip| trip.timestamps.client.send.monotonic;
    let first = read.round_trips.first().map_or(0, sent);
    let mut values = SampleBuffer::default();
    for (at, trip) in read.round_trips.iter().enumerate() {
        let at_ns = sent(trip).saturating_sub(first);
        match (trip.lost.as_str(), trip.delay.rtt) {
            ("false", Some(rtt)) => {
                let rtt = u64::try_from(rtt)
                    .map_err(|_| format!("round_trips[{at}].delay.rtt is negative: {rtt}"))?;
                values.push_at(rtt, at_ns)?;
            }
            ("false", None) => return Err(format!("round_trips[{at}] has no delay.rtt")),
            _ => values.lost_at(at_ns)?,
        }
    }
    Ok(values)
}

/// Accessor for the delay of one direction.
type DelayOf = fn(&IrttDelay) -> Option<i64>;

/// Adds the delays of each direction, if the server sent its time and the clocks allow it.
fn one_way(
    read: &IrttFile,
    trial: &mut ImportedTrial,
    metrics: &mut Vec<crate::measurements::Metric>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let ways: [(&str, &str, DelayOf); 2] = [
        ("delay_up", "delay up", |delay| delay.send),
        ("delay_down", "delay down", |delay| delay.receive),
    ];
    let mut any = false;
    for (stem, label, of) in ways {
        let delays: Vec<i64> = read.round_trips.iter().filter_map(|trip| of(&trip.delay)).collect();
        if delays.is_empty() {
            continue;
        }
        let mut values = SampleBuffer::default();
        for delay in &delays {
            let Ok(delay) = u64::try_from(*delay) else {
                unknown.push(format!(
                    "The two clocks disagree by more than a delay: {label} is negative and left out."
                ));
                return Ok(());
            };
            values.push(delay)?;
        }
        any = true;
        let naming = MetricNaming::time(stem, label);
        let summed = values.sum();
        naming.enter(&summed, &mut trial.record);
        trial.spreads.push(summed.five(label, naming.unit));
        metrics.extend(naming.metrics(Role::Descriptive));
    }
    if any {
        unknown.push(
            "One-way delays are differences of two clocks, and hold whatever these differed by."
                .to_owned(),
        );
    }
    Ok(())
}

/// Adds the accounts. The direction of losses is known if the server counted packets.
fn account(stats: &IrttStats, trial: &mut ImportedTrial) {
    let fate = |sent, received| EchoCounts { sent, received, ..EchoCounts::default() };
    let whole = EchoCounts {
        duplicates: stats.duplicates,
        reordered: stats.late_packets,
        ..fate(stats.packets_sent, stats.packets_received)
    };
    whole.enter(trial);
    let there = stats.server_packets_received;
    if there >= stats.packets_received && there > 0 {
        let way = |sent: u64, received: u64| {
            let lost = sent.saturating_sub(received);
            Some(Account { lost_on_path: lost, ..fate(sent, received).account() })
        };
        trial.record.ledger.up = way(stats.packets_sent, there);
        trial.record.ledger.down = way(there, stats.packets_received);
    }
}
