//! Lines of several hosts in one log, each line behind the name of its host, as tools for clusters collect them.

use crate::stamp;

/// First lines of a run.
const FIRST: [&str; 2] = ["Connecting to host ", "Accepted connection from "];

/// Ends of a name in front of a line: `Client on 192.0.2.3:  `, `client-1  | `, `[pod/client-1] `.
const ENDS: [&str; 3] = [": ", "| ", "] "];

/// Most texts in front of first lines that are tried as names.
const MOST_NAMES: usize = 64;

/// Lines of one host.
pub(super) struct WriterLines<'a> {
    /// Name of the host, as in front of its lines; empty for lines with none.
    pub name: String,
    prefix: &'a str,
    pub lines: Vec<&'a str>,
}

/// Returns the lines by the hosts that wrote them; lines without a name are first.
pub(super) fn of(text: &str) -> Vec<WriterLines<'_>> {
    let mut writers = vec![WriterLines { name: String::new(), prefix: "", lines: Vec::new() }];
    let mut tried: Vec<&str> = Vec::new();
    for line in text.lines() {
        let rest = stamp::split(line).1;
        let new = prefix(rest).filter(|new| tried.len() < MOST_NAMES && !tried.contains(new));
        tried.extend(new);
        if let Some(prefix) = new.filter(|new| ends_a_run(text, new)) {
            let is_sign = |c: char| c.is_whitespace() || matches!(c, ':' | '|' | '[' | ']');
            let name = prefix.trim_matches(is_sign).to_owned();
            writers.push(WriterLines { name, prefix, lines: Vec::new() });
        }
        match writers[1..].iter_mut().find(|own| rest.starts_with(own.prefix)) {
            Some(own) => own.lines.push(&rest[own.prefix.len()..]),
            None => writers[0].lines.push(line),
        }
    }
    writers
}

/// Returns the text in front of the first line of a run, if it has a name in it.
fn prefix(line: &str) -> Option<&str> {
    let at = FIRST.iter().find_map(|first| line.find(first))?;
    let before = &line[..at];
    let end = ENDS.iter().filter_map(|end| Some(before.rfind(end)? + end.len())).max();
    let prefix = &before[..end.unwrap_or(at)];
    prefix.contains(char::is_alphabetic).then_some(prefix)
}

/// Returns true if a line that ends a run has this in front, too; a time of its first line has not.
fn ends_a_run(text: &str, prefix: &str) -> bool {
    text.lines().any(|line| {
        let rest = stamp::split(line).1.trim_end();
        let is_last = ["sender", "receiver", "iperf Done."].iter().any(|end| rest.ends_with(end));
        is_last && rest.starts_with(prefix)
    })
}
