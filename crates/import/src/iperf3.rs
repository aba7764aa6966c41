//! iperf3, versions 3.0 to 3.21: `iperf3 -J` and `--json-stream` of a client or a server, and what it prints without
//! them; TCP, UDP and SCTP, in either or both directions, with parallel streams. Several runs in one file are trials of
//! one contender.

use std::time::{Duration, UNIX_EPOCH};

use super::foreign::ForeignFile;
use super::{Arm, FileContent, FormatReader, ReaderContext, words_around};

mod document;
mod run;
mod text;
mod writers;

use run::Iperf3Run;

/// Number of characters of words around documents that are quoted.
const QUOTED: usize = 200;

/// The format.
pub(super) struct Iperf3;

impl FormatReader for Iperf3 {
    fn id(&self) -> &'static str {
        "iperf3"
    }

    fn summary(&self) -> &'static str {
        "iperf3 3.0 to 3.21: -J, --json-stream or printed text; several runs in one file are trials"
    }

    fn sniff(&self, head: &str) -> bool {
        document::begins(head) || text::begins(head)
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        _: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let text = file.whole()?;
        let mut content = FileContent {
            unit: "bit/s".into(),
            trial: "a run of iperf3".into(),
            ..FileContent::default()
        };
        let (runs, words) = document::runs(&text);
        let hosts = if runs.is_empty() {
            let printed = text::runs(&text);
            if printed.iter().flat_map(|(_, runs)| runs).any(|run| run.error.is_none()) {
                content.unknown.push("digits beyond those that iperf3 prints".into());
            }
            printed
        } else {
            if !words.is_empty() {
                let words: String = words.join(" / ").chars().take(QUOTED).collect();
                content.doubts.push(words_around(&words));
            }
            vec![(String::new(), runs)]
        };
        let runs = || hosts.iter().flat_map(|(_, runs)| runs);
        let first = runs().next().ok_or_else(|| {
            if text.contains("\"start\"") || text.trim_start().starts_with('{') {
                format!("the file ends in the middle, after {} bytes", text.len())
            } else {
                "there is no result of iperf3 in it".to_owned()
            }
        })?;
        content.program = Some(first.version.clone().unwrap_or_else(|| "iperf3".into()));
        let started = runs().filter_map(|run| run.started_ms).min();
        content.began = started.and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
        let is_one = hosts.len() == 1;
        for (host, runs) in hosts {
            let arm = arm(if is_one { String::new() } else { host }, runs, &mut content.unknown);
            content.arms.push(arm);
        }
        Ok(content)
    }
}

/// Returns the runs of one host.
fn arm(name: String, runs: Vec<Iperf3Run>, unknown: &mut Vec<String>) -> Arm {
    let named = runs.iter().find(|run| run.has_sums()).or(runs.first());
    let implementation = named.map_or_else(String::new, Iperf3Run::implementation);
    let mut arm = Arm { name, implementation, ..Arm::default() };
    for run in runs {
        for metric in run.metrics() {
            if !arm.metrics.contains(&metric) {
                arm.metrics.push(metric);
            }
        }
        for phrase in run.unknown() {
            if !unknown.contains(&phrase) {
                unknown.push(phrase);
            }
        }
        arm.trials.push(run.trial());
    }
    arm
}
