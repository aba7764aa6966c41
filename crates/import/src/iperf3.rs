//! iperf3, versions 3.0 to 3.21: `iperf3 -J` and `--json-stream` of a client or a server, and its printed output without
//! them; TCP, UDP and SCTP, in either or both directions, with parallel streams. Several runs in one file are trials of
//! one contender.

use std::time::{Duration, UNIX_EPOCH};

use super::foreign_file::ForeignFile;
use super::{FileContent, Format, NONE, ReaderContext, words_around};

mod document;
mod run;
mod text;
mod writers;

/// Number of characters of words around documents that are quoted.
const QUOTED: usize = 200;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "iperf3",
    summary: "iperf3 3.0 to 3.21: -J, --json-stream or printed text; several runs in one file are trials",
    sniff: |head| document::begins(head) || text::begins(head),
    read: Some(read),
    program: "iperf3",
    unit: "bit/s",
    trial: "a run of iperf3",
    ..NONE
};

fn read(file: &mut ForeignFile, _: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let text = file.whole()?;
    let mut content = FileContent::default();
    let (runs, words) = document::runs(&text);
    let hosts = if runs.is_empty() {
        let printed = text::runs(&text);
        if printed.iter().flat_map(|(_, runs)| runs).any(|run| run.error.is_none()) {
            content.lacks("digits beyond those that iperf3 prints");
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
    content.program = first.version.clone().unwrap_or_default();
    let started = runs().filter_map(|run| run.started_ms).min();
    content.began = started.and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
    for (host, runs) in hosts {
        let named = runs.iter().find(|run| run.has_sums()).or(runs.first());
        content.arm(&host).implementation =
            named.map_or_else(String::new, |run| run.implementation());
        runs.into_iter().for_each(|run| content.add(&host, run.trial()));
    }
    Ok(content.unnamed_alone())
}
