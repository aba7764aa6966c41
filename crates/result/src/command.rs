//! Command line that repeats a race, built from the request in a result or a study. It can be pasted into a shell:
//! text from a file stays one argument, and never becomes an option.

use std::fmt::Write;

use super::outcome::{Outcome, RecordedRequest};
use deadheat_base::time::Nanos;
use deadheat_base::units;

/// Returns the command that runs the race of `outcome` again with its seed, title and labels.
pub fn again(outcome: &Outcome) -> String {
    let mut words = words(&outcome.asked);
    words.option("seed", outcome.seed.to_string());
    if let Some(title) = &outcome.title {
        words.option("title", title);
    }
    for (key, value) in &outcome.labels {
        words.option("label", format!("{key}={value}"));
    }
    words.line()
}

/// Returns the command for `asked`, without a seed.
pub fn line(asked: &RecordedRequest) -> String {
    words(asked).line()
}

fn words(asked: &RecordedRequest) -> CommandWords {
    // Without `..`, so that the compiler demands a line here for each new field.
    let RecordedRequest {
        contenders,
        workload,
        path: _,
        to: _,
        family: _,
        source: _,
        device: _,
        blocks,
        budget_ns,
        every_ns,
        all_blocks,
        first,
        margin,
        margin_ns,
        resolve,
        claims_all,
        as_deployed,
        confidence,
        // The confidence follows from it.
        gate_races: _,
        placement,
        idle,
        vary,
        interval_ns,
        explain,
    } = asked;
    let mut words = CommandWords::new(contenders);
    words.option("workload", workload);
    target(&mut words, asked);
    for factor in vary {
        words.vary(&factor.name, &factor.levels);
    }
    if let Some(placement) = placement {
        words.option("placement", placement);
    }
    if let Some(idle) = idle {
        words.option("idle", idle);
    }
    if let Some(blocks) = blocks {
        words.option("blocks", blocks.to_string());
    }
    if *all_blocks {
        words.switch("--all-blocks");
    }
    if *first {
        words.switch("--first");
    }
    words.span("budget", *budget_ns);
    if let Some(margin) = margin {
        words.option("margin", units::percent(*margin));
    }
    words.span("margin", *margin_ns);
    if let Some(resolve) = resolve {
        words.option("resolve", units::percent(*resolve));
    }
    if *claims_all {
        words.option("claims", "all");
    }
    if *as_deployed {
        words.switch("--as-deployed");
    }
    words.option("confidence", units::percent(*confidence));
    words.span("every", *every_ns);
    words.span("interval", *interval_ns);
    if *explain {
        words.switch("--explain");
    }
    words
}

/// Adds the way to the far end.
fn target(words: &mut CommandWords, asked: &RecordedRequest) {
    if let Some(hosts) = &asked.to {
        hosts.names().iter().for_each(|host| words.option("to", host));
    } else if !asked.path.is_empty() {
        words.option("path", &asked.path);
    }
    match asked.family {
        Some(4) => words.switch("-4"),
        Some(6) => words.switch("-6"),
        _ => {}
    }
    for (name, value) in [("source", &asked.source), ("device", &asked.device)] {
        if let Some(value) = value {
            words.option(name, value);
        }
    }
}

/// Words of a race's command line under construction.
pub struct CommandWords {
    contenders: Vec<String>,
    options: Vec<String>,
}

impl CommandWords {
    /// Creates the command without options.
    pub fn new(contenders: &[String]) -> CommandWords {
        CommandWords { contenders: contenders.to_vec(), options: Vec::new() }
    }

    /// Adds an option that takes a duration, if one is given.
    fn span(&mut self, name: &str, span_ns: Option<u64>) {
        if let Some(ns) = span_ns {
            self.option(name, units::span_text(Nanos(ns)));
        }
    }

    /// Adds an option that takes a value.
    pub fn option(&mut self, name: &str, value: impl AsRef<str>) {
        let value = value.as_ref();
        // A value that looks like an option would be parsed as one, unless `=` joins it to its name.
        let tie = if value.starts_with('-') { '=' } else { ' ' };
        self.options.push(format!("--{name}{tie}{}", quoted(value)));
    }

    /// Adds a condition that is varied, with its levels.
    pub fn vary(&mut self, name: &str, levels: &[String]) {
        self.option("vary", format!("{name}={}", levels.join("|")));
    }

    /// Adds an option without a value, as it is typed.
    pub fn switch(&mut self, name: &str) {
        self.options.push(name.to_owned());
    }

    /// Returns the command line.
    pub fn line(&self) -> String {
        let contenders: Vec<String> = self.contenders.iter().map(|c| quoted(c)).collect();
        let options = self.options.join(" ");
        // No valid contender begins with a dash, but the text of a file may.
        if self.contenders.iter().any(|contender| contender.starts_with('-')) {
            return format!("deadheat race {options} -- {}", contenders.join(" "));
        }
        format!("deadheat race {} {options}", contenders.join(" "))
    }
}

/// Quotes `text` as one argument for a shell (POSIX.1-2024, 2.2). Control characters, which a terminal would
/// execute, are escaped (`$'…'`, 2.2.4).
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let is_shown = |c: char| !c.is_control() && (c.is_ascii() || c.is_alphanumeric());
    if text.chars().all(is_shown) {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut quoted = String::from("$'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            c if is_shown(c) => quoted.push(c),
            c => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Three octal digits, so that a following digit is not read as part of the escape.
                    let _ = write!(quoted, "\\{byte:03o}");
                }
            }
        }
    }
    quoted.push('\'');
    quoted
}
