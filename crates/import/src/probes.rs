//! Pings from the probes of public platforms: RIPE Atlas, and Globalping. Each probe is a contender.

use super::echo::{EchoTime, RoundTripRun, TargetArms};
use super::foreign::ForeignFile;
use super::loose_json::{LooseValue, documents};
use super::ping::Ping;
use super::stamp::{LineStamp, StampBasis};
use super::text::MILLIS;
use super::{Arm, FileContent, FormatReader, ReaderContext};

/// Results of RIPE Atlas.
pub(super) struct Atlas;

impl FormatReader for Atlas {
    fn id(&self) -> &'static str {
        "ripe-atlas"
    }

    fn summary(&self) -> &'static str {
        "results of ping from RIPE Atlas, JSON; each probe is a contender"
    }

    fn sniff(&self, head: &str) -> bool {
        head.contains("\"prb_id\"") && head.contains("\"msm_id\"")
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        means: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let text = file.whole()?;
        let found = documents(&text).documents;
        let mut arms = TargetArms::default();
        let mut began: Option<LineStamp> = None;
        for document in &found {
            let value = &document.value;
            let kind = value.get("type").and_then(LooseValue::text).unwrap_or_default();
            if kind != "ping" {
                return Err(format!(
                    "a result is of `{}`, and only ping is read",
                    deadheat_base::foreign::short(kind)
                ));
            }
            let run = probed(value);
            began = began.or(run.started);
            arms.add(run, None, means)?;
        }
        if found.is_empty() {
            return Err("there is no result in it".into());
        }
        Ok(FileContent {
            began: began.and_then(|at| at.at()),
            program: Some("RIPE Atlas".into()),
            unit: "ms".into(),
            trial: "a result of a probe".into(),
            unknown: std::mem::take(&mut arms.unknown),
            arms: arms.into_arms(),
            ..FileContent::default()
        })
    }
}

/// Reads a result of ping: `{"result": [{"rtt": 24.1}, {"x": "*"}], "sent": 2, "rcvd": 1, …}`, where -1 stands for sums that
/// do not exist.
fn probed(value: &LooseValue<'_>) -> RoundTripRun {
    let number = |key: &str| value.get(key).and_then(LooseValue::number).filter(|own| *own >= 0.0);
    let text = |key: &str| value.get(key).and_then(LooseValue::text);
    let probe = number("prb_id").unwrap_or(0.0);
    let target = text("dst_name").or(text("dst_addr")).unwrap_or_default();
    let mut run =
        RoundTripRun::to(&deadheat_base::foreign::short(&format!("{target} from probe {probe}")));
    run.started =
        number("timestamp").map(|seconds| LineStamp { seconds, basis: StampBasis::Absolute });
    let results = value.get("result").map_or(&[][..], LooseValue::elements);
    for (result, at) in results.iter().zip(0..) {
        let rtt = result.get("rtt").and_then(LooseValue::number);
        match rtt.and_then(|ms| MILLIS.whole(ms).ok()) {
            Some(ns) => run.answer(Some(at), EchoTime::Exact(ns), None),
            None if result.get("error").is_some() => run.error(Some(at)),
            None => run.unanswered(Some(at)),
        }
    }
    let doubles = number("dup").unwrap_or(0.0).min(results.len() as f64);
    (0..doubles as u64).for_each(|_| run.duplicate());
    if let Some((sent, received)) = number("sent").zip(number("rcvd")) {
        run.counted(sent as u64, received as u64);
    }
    run
}

/// Measurements of Globalping.
pub(super) struct Globalping;

impl FormatReader for Globalping {
    fn id(&self) -> &'static str {
        "globalping"
    }

    fn summary(&self) -> &'static str {
        "measurements of ping from Globalping, JSON; each probe is a contender"
    }

    fn sniff(&self, head: &str) -> bool {
        head.contains("\"probe\"") && head.contains("\"rawOutput\"")
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        means: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let text = file.whole()?;
        let mut content = FileContent::default();
        for document in &documents(&text).documents {
            let kind = document.value.get("type").and_then(LooseValue::text).unwrap_or("ping");
            if kind != "ping" {
                return Err(format!(
                    "it is of `{}`, and only ping is read",
                    deadheat_base::foreign::short(kind)
                ));
            }
            let results = document.value.get("results").map_or(&[][..], LooseValue::elements);
            for result in results {
                // What the probe's ping printed has more than the numbers made of it.
                let printed = result.get("result").and_then(|own| own.get("rawOutput")?.text());
                let Some(printed) = printed.filter(|own| !own.trim().is_empty()) else { continue };
                let printed = Box::new(std::io::Cursor::new(printed.as_bytes().to_vec()));
                let mut printed =
                    ForeignFile::of("rawOutput", printed).map_err(|e| e.to_string())?;
                let read = Ping.read(&mut printed, means)?;
                let name = place(result);
                for arm in read.arms {
                    add(&mut content.arms, Arm { name: name.clone(), ..arm });
                }
                let new: Vec<String> =
                    read.unknown.into_iter().filter(|own| !content.unknown.contains(own)).collect();
                content.unknown.extend(new);
            }
        }
        if let [only] = &mut content.arms[..] {
            only.name.clear();
        }
        if content.arms.is_empty() {
            return Err("there is no output of ping in its results".into());
        }
        let (unit, trial) = ("ms".to_owned(), "a ping of a probe".to_owned());
        Ok(FileContent { program: Some("Globalping".into()), unit, trial, ..content })
    }
}

/// Returns the name of a result's probe: `Berlin AS64500`.
fn place(result: &LooseValue<'_>) -> String {
    let probe = |key: &str| result.get("probe").and_then(|probe| probe.get(key));
    let city = probe("city").and_then(LooseValue::text).unwrap_or("probe");
    let network = probe("asn").and_then(LooseValue::number).unwrap_or(0.0);
    deadheat_base::foreign::short(&format!("{city} AS{network}"))
}

/// Adds a contender under a name that no other has.
fn add(arms: &mut Vec<Arm>, arm: Arm) {
    let is_free = |name: &String| !arms.iter().any(|own| own.name == *name);
    let numbered = (2..).map(|number| format!("{} #{number}", arm.name));
    let name = std::iter::once(arm.name.clone()).chain(numbered).find(is_free);
    arms.push(Arm { name: name.unwrap_or_default(), ..arm });
}
