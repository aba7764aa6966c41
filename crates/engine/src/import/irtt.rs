//! irtt: isochronous round trips over UDP, as `irtt client -o FILE.json` writes them
//! (irtt's doc/irtt-client.md, section OUTPUT; JSON format 1).

use serde::Deserialize;

use super::foreign::Foreign;
use super::gather::{Fate, Naming, Values, loss_metric};
use super::{Arm, Means, Reader, Reading, Taken};
use crate::measurements::{Account, Role};
use crate::result::date;

/// The JSON format that is read.
const FORMAT: u64 = 1;

/// The format.
pub(super) struct Irtt;

#[derive(Deserialize)]
struct File {
    version: Version,
    #[serde(default)]
    stats: Stats,
    #[serde(default)]
    round_trips: Vec<RoundTrip>,
}

#[derive(Deserialize)]
struct Version {
    irtt: String,
    json_format: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stats {
    start_time: String,
    packets_sent: u64,
    packets_received: u64,
    server_packets_received: u64,
    duplicates: u64,
    late_packets: u64,
}

#[derive(Deserialize)]
struct RoundTrip {
    lost: String,
    #[serde(default)]
    delay: Delay,
    #[serde(default)]
    timestamps: Stamps,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Delay {
    rtt: Option<i64>,
    send: Option<i64>,
    receive: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stamps {
    client: Client,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Client {
    send: Stamp,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stamp {
    monotonic: u64,
}

impl Reader for Irtt {
    fn id(&self) -> &'static str {
        "irtt"
    }

    fn summary(&self) -> &'static str {
        "irtt client -o FILE.json: round trips over UDP, one-way delays"
    }

    fn sniff(&self, head: &str) -> bool {
        head.starts_with('{') && head.contains("\"irtt\"") && head.contains("\"json_format\"")
    }

    fn read(&self, file: &mut Foreign, means: &mut Means<'_>) -> Result<Reading, String> {
        let [read] = <[File; 1]>::try_from(file.json::<File>()?)
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
        let rtt = Naming::rtt();
        let mut trial = round_trips(&read)?.trial(&rtt, means, &mut unknown)?;
        let mut metrics = rtt.metrics(Role::Claim);
        one_way(&read, &mut trial, &mut metrics, &mut unknown)?;
        account(&read.stats, &mut trial);
        metrics.push(loss_metric());
        let program = format!("irtt {}", read.version.irtt);
        Ok(Reading {
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
        })
    }
}

fn round_trips(read: &File) -> Result<Values, String> {
    let sent = |trip: &RoundTrip| trip.timestamps.client.send.monotonic;
    let first = read.round_trips.first().map_or(0, sent);
    let mut values = Values::default();
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

/// The delay of one way.
type DelayOf = fn(&Delay) -> Option<i64>;

/// Delays of each way, where the server told its time and the clocks allow.
fn one_way(
    read: &File,
    trial: &mut Taken,
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
        let mut values = Values::default();
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
        let naming = Naming::time(stem, label);
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

/// Enters the accounts. The direction in which packets were lost is known if the server counted.
fn account(stats: &Stats, trial: &mut Taken) {
    let fate = |sent, received| Fate { sent, received, ..Fate::default() };
    let whole = Fate {
        duplicates: stats.duplicates,
        reordered: stats.late_packets,
        ..fate(stats.packets_sent, stats.packets_received)
    };
    whole.enter(&mut trial.record);
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
