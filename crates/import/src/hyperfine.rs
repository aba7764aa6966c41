//! hyperfine: run times of commands, from `--export-json`.

use serde::Deserialize;

use super::foreign::ForeignFile;
use super::gather::blank;
use super::unit::Scale;
use super::{Arm, FileContent, FormatReader, ImportedTrial, ReaderContext};
use crate::measurements::{Better, ClockNeed, Metric, Role, Unit};

/// The format.
pub(super) struct Hyperfine;

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

impl FormatReader for Hyperfine {
    fn id(&self) -> &'static str {
        "hyperfine"
    }

    fn summary(&self) -> &'static str {
        "hyperfine --export-json FILE: each run of a command is a trial"
    }

    fn sniff(&self, head: &str) -> bool {
        let head = head.trim_start();
        head.starts_with('{') && head.contains("\"results\"") && head.contains("\"command\"")
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        _: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let mut arms = Vec::new();
        for file in file.json::<HyperfineFile>()? {
            for command in file.results {
                arms.push(command.arm()?);
            }
        }
        if arms.is_empty() {
            return Err("there is no command in its results".into());
        }
        Ok(FileContent {
            program: Some("hyperfine".into()),
            unit: "s".into(),
            trial: "a run of the command".into(),
            arms,
            doubts: vec![
                "hyperfine runs all of one command before the next: drift counts as difference."
                    .to_owned(),
                "When it was measured is not in the file, nor on which host.".to_owned(),
            ],
            ..FileContent::default()
        })
    }
}

impl HyperfineCommand {
    fn arm(self) -> Result<Arm, String> {
        if self.times.is_empty() {
            return Err(format!("`{}` has no times, only what was made of them", self.command));
        }
        let metric = Metric {
            name: "time_ns".into(),
            label: "time".into(),
            unit: Unit::Nanos,
            better: Better::Lower,
            role: Role::Claim,
            clock: ClockNeed::None,
        };
        let seconds = Scale { name: "s", unit: Unit::Nanos, factor: 1e9 };
        let mut trials = Vec::new();
        for (at, time) in self.times.iter().enumerate() {
            let ns = seconds
                .whole(*time)
                .map_err(|why| format!("times[{at}] of `{}` is {time}: {why}", self.command))?;
            let mut record = blank();
            record.metrics.insert(metric.name.clone(), ns as f64);
            record.took_ns = ns;
            if let Some(Some(code)) = self.exit_codes.get(at)
                && *code != 0
            {
                record.valid = false;
                record.why_invalid = Some(format!("the command ended with exit code {code}"));
            }
            trials.push(ImportedTrial { record, ..ImportedTrial::default() });
        }
        Ok(Arm { name: self.command, metrics: vec![metric], trials, ..Arm::default() })
    }
}
