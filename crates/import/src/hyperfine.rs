//! hyperfine: run times of commands, from `--export-json`.

use serde::Deserialize;

use super::foreign_file::ForeignFile;
use super::rates::time;
use super::text::SECONDS;
use super::{Arm, FileContent, Format, ImportedTrial, NONE, ReaderContext};
use deadheat_contract::measurements::Role;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "hyperfine",
    summary: "hyperfine --export-json FILE: each run of a command is a trial",
    sniff: |head| {
        head.trim_start().starts_with('{')
            && head.contains("\"results\"")
            && head.contains("\"command\"")
    },
    read: Some(read),
    program: "hyperfine",
    unit: "s",
    trial: "a run of the command",
    says: &[
        "hyperfine runs all of one command before the next: drift counts as difference.",
        "When it was measured is not in the file, nor on which host.",
    ],
    nothing: "there is no command in its results",
    ..NONE
};

fn read(file: &mut ForeignFile, _: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let mut content = FileContent::default();
    for command in file.json::<HyperfineFile>()?.into_iter().flat_map(|file| file.results) {
        content.arms.push(command.arm()?);
    }
    Ok(content)
}

#[derive(Deserialize)]
struct HyperfineFile {
    results: Vec<HyperfineCommand>,
}

#[derive(Deserialize)]
struct HyperfineCommand {
    command: String,
    #[serde(default)]
    times: Vec<f64>,
    #[serde(default)]
    exit_codes: Vec<Option<i64>>,
}

impl HyperfineCommand {
    fn arm(self) -> Result<Arm, String> {
        if self.times.is_empty() {
            return Err(format!("`{}` has no times, only what was made of them", self.command));
        }
        let metric = time("time", "time", Role::Claim);
        let mut trials = Vec::new();
        for (at, time) in self.times.iter().enumerate() {
            let wrong = |why| format!("times[{at}] of `{}` is {time}: {why}", self.command);
            let ns = SECONDS.whole(*time).map_err(wrong)?;
            let mut trial = ImportedTrial::complete();
            trial.record.metrics.insert(metric.name.clone(), ns as f64);
            trial.record.took_ns = ns;
            if let Some(Some(code)) = self.exit_codes.get(at).filter(|code| **code != Some(0)) {
                trial.record.valid = false;
                trial.record.why_invalid = Some(format!("the command ended with exit code {code}"));
            }
            trials.push(trial);
        }
        Ok(Arm { name: self.command, metrics: vec![metric], trials, ..Arm::default() })
    }
}
