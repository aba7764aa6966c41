//! Pings from the probes of public platforms: RIPE Atlas, and Globalping. Each probe is a contender.

use super::echo::{self, EchoTime, RoundTripRun};
use super::foreign_file::ForeignFile;
use super::loose_json::{LooseValue, documents};
use super::stamp::{LineStamp, StampBasis};
use super::text::MILLIS;
use super::{Arm, FileContent, Format, NONE, ReaderContext, ping};

/// Results of RIPE Atlas.
pub(super) static ATLAS: Format = Format {
    id: "ripe-atlas",
    summary: "results of ping from RIPE Atlas, JSON; each probe is a contender",
    signs: &[&["\"prb_id\"", "\"msm_id\""]],
    read: Some(read_atlas),
    program: "RIPE Atlas",
    unit: "ms",
    trial: "a result of a probe",
    nothing: "there is no result in it",
    ..NONE
};

/// Measurements of Globalping.
pub(super) static GLOBALPING: Format = Format {
    id: "globalping",
    summary: "measurements of ping from Globalping, JSON; each probe is a contender",
    signs: &[&["\"probe\"", "\"rawOutput\""]],
    read: Some(read_globalping),
    program: "Globalping",
    unit: "ms",
    trial: "a ping of a probe",
    nothing: "there is no output of ping in its results",
    ..NONE
};

/// Refuses a document that is not of ping.
fn check(document: &LooseValue<'_>, usual: &str, whose: &str) -> Result<(), String> {
    match document.text_at("type").unwrap_or(usual) {
        "ping" => Ok(()),
        kind => Err(format!(
            "{whose} of `{}`, and only ping is read",
            deadheat_base::foreign::short(kind)
        )),
    }
}

fn read_atlas(
    file: &mut ForeignFile,
    context: &mut ReaderContext<'_>,
) -> Result<FileContent, String> {
    let text = file.whole()?;
    let mut runs = Vec::new();
    for document in documents(&text).documents {
        check(&document.value, "", "a result is")?;
        runs.push((probed(&document.value), None));
    }
    echo::content(runs, context)
}

/// Reads a result of ping: `{"result": [{"rtt": 24.1}, {"x": "*"}], "sent": 2, "rcvd": 1, …}`, where -1 stands for sums that
/// do not exist.
fn probed(value: &LooseValue<'_>) -> RoundTripRun {
    let number = |key: &str| value.number_at(key).filter(|own| *own >= 0.0);
    let probe = number("prb_id").unwrap_or(0.0);
    let target = value.text_at("dst_name").or(value.text_at("dst_addr")).unwrap_or_default();
    let mut run =
        RoundTripRun::to(&deadheat_base::foreign::short(&format!("{target} from probe {probe}")));
    run.started =
        number("timestamp").map(|seconds| LineStamp { seconds, basis: StampBasis::Absolute });
    let results = value.list_at("result");
    for (result, at) in results.iter().zip(0..) {
        match result.number_at("rtt").and_then(|ms| MILLIS.whole(ms).ok()) {
            Some(ns) => run.answer(Some(at), EchoTime::Exact(ns), None),
            None if result.get("error").is_some() => run.error(Some(at)),
            None => run.unanswered(Some(at)),
        }
    }
    let doubles = number("dup").unwrap_or(0.0).min(results.len() as f64);
    run.duplicates += doubles as u64;
    let counted = number("sent").zip(number("rcvd"));
    run.counted = counted.map(|(sent, received)| (sent as u64, received as u64));
    run
}

fn read_globalping(
    file: &mut ForeignFile,
    context: &mut ReaderContext<'_>,
) -> Result<FileContent, String> {
    let text = file.whole()?;
    let mut content = FileContent::default();
    for document in &documents(&text).documents {
        check(&document.value, "ping", "it is")?;
        for result in document.value.list_at("results") {
            // The probe's ping printed more than the numbers made of it.
            let printed = result.text_at("result/rawOutput").filter(|own| !own.trim().is_empty());
            let Some(printed) = printed else { continue };
            let printed = Box::new(std::io::Cursor::new(printed.as_bytes().to_vec()));
            let mut printed = ForeignFile::of("rawOutput", printed).map_err(|e| e.to_string())?;
            let read = ping::read(&mut printed, context)?;
            for arm in read.arms {
                add(&mut content.arms, Arm { name: place(result), ..arm });
            }
            read.unknown.iter().for_each(|own| content.lacks(own));
        }
    }
    Ok(content.unnamed_alone())
}

/// Returns the name of a result's probe: `Berlin AS64500`.
fn place(result: &LooseValue<'_>) -> String {
    let city = result.text_at("probe/city").unwrap_or("probe");
    let network = result.number_at("probe/asn").unwrap_or(0.0);
    deadheat_base::foreign::short(&format!("{city} AS{network}"))
}

/// Adds a contender under a name that no other has.
fn add(arms: &mut Vec<Arm>, arm: Arm) {
    let is_free = |name: &String| !arms.iter().any(|own| own.name == *name);
    let numbered = (2..).map(|number| format!("{} #{number}", arm.name));
    let name = std::iter::once(arm.name.clone()).chain(numbered).find(is_free);
    arms.push(Arm { name: name.unwrap_or_default(), ..arm });
}
