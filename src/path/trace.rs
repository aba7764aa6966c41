//! Recordings of what a link could carry over time.
//!
//! Two formats, told apart by their first line. mahimahi's has a whole number of milliseconds a line:
//! at that time one packet of 1504 bytes may leave (1500 and the 4 that a TUN device puts in front,
//! `PACKET_SIZE` in its `link_queue.hh`), and after the last one it all begins again. Our own begins
//! with `deadheat-trace 1`, has lines `TIME RATE [DELAY [LOSS]]`, and ends with `end TIME`.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::files::content;
use crate::error::{Error, Result};
use crate::time::Nanos;
use crate::units::{BitRate, parse_rate, parse_share, parse_span};

/// What a link could carry, from its start to its end, where it starts again.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The file that it was read from, as typed.
    pub file: String,
    /// SHA-256 (FIPS 180-4) of the file's bytes, in hexadecimal.
    pub sha256: String,
    /// After which time it starts again.
    pub length: Nanos,
    /// What it says.
    pub content: Content,
}

/// What a trace says.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// From each step's time to the next one's, the link is so.
    Steps(Vec<Step>),
    /// At each of these times, sorted, so many bytes may leave, and what is not used is lost (mahimahi).
    Opportunities {
        /// The bytes of one opportunity, of IP packets and overhead.
        bytes: u32,
        /// The times; several may be the same.
        at: Vec<Nanos>,
    },
}

/// How a link is from some time on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// From when, since the start of the trace; the first is 0.
    pub from: Nanos,
    /// What it carries; 0 for nothing.
    pub rate: BitRate,
    /// Its delay, in place of the model's.
    pub delay: Option<Nanos>,
    /// The probability that a packet is lost, 0 to 1, besides what the model loses.
    pub loss: Option<f64>,
}

/// What becomes of mahimahi's opportunities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Those of a millisecond are a rate that holds for this millisecond.
    Spread,
    /// Each is an instant, as for mahimahi.
    Burst,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Ours,
    Mahimahi,
}

impl Format {
    /// The format of a file that begins with this line.
    pub(super) fn of(first: &str) -> Format {
        if first.starts_with("deadheat-trace") { Format::Ours } else { Format::Mahimahi }
    }
}

/// The first line of our own format.
const OURS: &str = "deadheat-trace 1";

/// The bytes that leave at one of mahimahi's opportunities.
pub const OPPORTUNITY: u32 = 1504;

/// What each IP packet takes of an opportunity besides its own bytes.
pub const OPPORTUNITY_OVERHEAD: u32 = 4;

/// The most lines that say something.
const MOST_LINES: usize = 10_000_000;

/// The longest trace.
const LONGEST: Nanos = Nanos::from_secs(30 * 86_400);

/// The longest delay of a step.
const LONGEST_DELAY: Nanos = Nanos::from_secs(3_600);

/// The highest rate of a step.
const HIGHEST: BitRate = BitRate(1_000_000_000_000);

impl Trace {
    /// Reads a trace in either format; `mode` is mahimahi's only, and `None` spreads.
    ///
    /// # Errors
    /// [`Error::Data`] with the line, what is wrong in it and what would be right; [`Error::Usage`] for
    /// a mode where the format has none.
    pub fn from_bytes(file: &str, bytes: &[u8], mode: Option<Mode>) -> Result<Trace> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Error::data(file, "is not text (UTF-8), so it is no trace"))?;
        let first = content(text).next().ok_or_else(|| {
            Error::data(
                file,
                "is empty; a trace has a line for each time at which something changes",
            )
        })?;
        if content(text).nth(MOST_LINES).is_some() {
            return Err(Error::data(file, format!("has more than {MOST_LINES} lines; cut it")));
        }
        let read = match Format::of(first.1) {
            Format::Ours if mode.is_some() => {
                return Err(Error::usage(format!(
                    "path: trace-mode is for mahimahi's format; {file} itself says what holds when"
                )));
            }
            Format::Ours => ours(text),
            Format::Mahimahi => mahimahi(text, mode.unwrap_or(Mode::Spread)),
        };
        let (length, content) =
            read.map_err(|(line, what)| Error::data(file, format!("line {line}: {what}")))?;
        let mut sha256 = String::new();
        for byte in Sha256::digest(bytes) {
            // Writing to a String cannot fail.
            let _ = write!(sha256, "{byte:02x}");
        }
        Ok(Trace { file: file.to_owned(), sha256, length, content })
    }

    /// What it carries in one round, in bits.
    pub fn capacity(&self) -> f64 {
        match &self.content {
            Content::Opportunities { bytes, at } => at.len() as f64 * f64::from(*bytes) * 8.0,
            Content::Steps(steps) => {
                let ends = steps.iter().skip(1).map(|step| step.from).chain([self.length]);
                steps
                    .iter()
                    .zip(ends)
                    .map(|(s, end)| s.rate.0 as f64 * (end - s.from).as_secs_f64())
                    .sum()
            }
        }
    }
}

/// A line and what is wrong with it.
type Wrong = (usize, String);

fn mahimahi(text: &str, mode: Mode) -> Result<(Nanos, Content), Wrong> {
    let mut at: Vec<Nanos> = Vec::new();
    let mut last_line = 0;
    for (line, typed) in content(text) {
        let ms: u64 = typed.parse().map_err(|_| {
            (line, format!("`{}` is not a whole number of milliseconds (mahimahi's format), and the first line is not `{OURS}`", short(typed)))
        })?;
        let time = Nanos::from_millis(ms);
        if time > LONGEST {
            return Err((line, format!("{ms} ms is over 30 days; cut the trace")));
        }
        if at.last().is_some_and(|before| *before > time) {
            return Err((line, format!("{ms} is less than the line before; sort the times")));
        }
        at.push(time);
        last_line = line;
    }
    let length = at.last().copied().unwrap_or_default();
    if length == Nanos::ZERO {
        return Err((
            last_line,
            "the last time is 0; it begins again after its last time, which is above 0".into(),
        ));
    }
    let content = match mode {
        Mode::Burst => Content::Opportunities { bytes: OPPORTUNITY, at },
        Mode::Spread => Content::Steps(spread(&at, length)),
    };
    Ok((length, content))
}

/// Opportunities as a rate in each millisecond. Those at the very end are those at the beginning of the
/// next round.
fn spread(at: &[Nanos], length: Nanos) -> Vec<Step> {
    const MS: Nanos = Nanos::from_millis(1);
    let wrapped = at.iter().rev().take_while(|time| **time == length).count();
    let (inside, _) = at.split_at(at.len() - wrapped);
    let at_start = inside.iter().take_while(|time| **time == Nanos::ZERO).count();
    let mut steps: Vec<Step> = Vec::new();
    // From here on nothing is known yet.
    let mut until = Nanos::ZERO;
    let mut put = |from: Nanos, opportunities: usize| {
        let rate = BitRate(opportunities as u64 * u64::from(OPPORTUNITY) * 8 * 1_000);
        if steps.last().is_none_or(|before| before.rate != rate) {
            steps.push(Step { from, rate, delay: None, loss: None });
        }
    };
    put(Nanos::ZERO, at_start + wrapped);
    until += MS;
    for same in inside[at_start..].chunk_by(|a, b| a == b) {
        if same[0] > until {
            put(until, 0);
        }
        put(same[0], same.len());
        until = same[0] + MS;
    }
    if until < length {
        put(until, 0);
    }
    steps
}

fn ours(text: &str) -> Result<(Nanos, Content), Wrong> {
    let mut lines = content(text);
    let (line, head) = lines.next().unwrap_or((1, ""));
    if head != OURS {
        return Err((
            line,
            format!(
                "`{}` is not a version that this program reads; the first line is `{OURS}`",
                short(head)
            ),
        ));
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut last_line = line;
    while let Some((line, typed)) = lines.next() {
        last_line = line;
        let wrong = |what: String| (line, what);
        let mut words = typed.split_whitespace();
        let first = words.next().unwrap_or_default();
        if first == "end" {
            let length = time(words.next().unwrap_or_default()).map_err(wrong)?;
            if let Some((line, _)) = lines.next() {
                return Err((line, "a line after `end`; `end TIME` is the last".into()));
            }
            return finish(steps, length, words.next()).map_err(wrong);
        }
        let step = step(first, words).map_err(wrong)?;
        match steps.last() {
            None if step.from > Nanos::ZERO => {
                return Err(wrong(format!("the first time is {first}; it is 0s")));
            }
            Some(before) if before.from >= step.from => {
                return Err(wrong(format!("{first} is not after the line before; times increase")));
            }
            _ => steps.push(step),
        }
    }
    Err((
        last_line,
        "the last line is not `end TIME`, which says when the trace begins again".into(),
    ))
}

fn finish(steps: Vec<Step>, length: Nanos, more: Option<&str>) -> Result<(Nanos, Content), String> {
    if let Some(more) = more {
        return Err(format!("`{}` after the time of `end`; the line is `end TIME`", short(more)));
    }
    let Some(last) = steps.last() else {
        return Err("nothing before `end`; the first line after the head is `0s RATE`".into());
    };
    if last.from >= length {
        return Err(format!("the trace ends at {length}, not after its last line ({})", last.from));
    }
    if steps.iter().all(|step| step.rate.0 == 0) {
        return Err("no line carries anything; give at least one a rate above 0bit".into());
    }
    Ok((length, Content::Steps(steps)))
}

fn time(typed: &str) -> Result<Nanos, String> {
    let time = parse_span(typed).map_err(|e| e.to_string())?;
    if time > LONGEST { Err(format!("{typed} is over 30 days; cut the trace")) } else { Ok(time) }
}

fn step<'a>(from: &str, mut words: impl Iterator<Item = &'a str>) -> Result<Step, String> {
    let from = time(from)?;
    let rate = words.next().ok_or("no rate; a line is `TIME RATE [DELAY [LOSS]]`")?;
    let rate = parse_rate(rate).map_err(|e| e.to_string())?;
    if rate > HIGHEST {
        return Err(format!("a rate of {rate}; the highest is {HIGHEST}"));
    }
    let delay = words.next().filter(|delay| *delay != "-").map(parse_span).transpose();
    let delay = delay.map_err(|e| e.to_string())?;
    if delay.is_some_and(|delay| delay > LONGEST_DELAY) {
        return Err("a delay of more than an hour; the longest is 1h".into());
    }
    let loss = words.next().map(parse_share).transpose().map_err(|e| e.to_string())?;
    match words.next() {
        None => Ok(Step { from, rate, delay, loss }),
        Some(more) => {
            Err(format!("`{}` is too much; a line is `TIME RATE [DELAY [LOSS]]`", short(more)))
        }
    }
}

/// The start of something that may be long, for a message.
fn short(typed: &str) -> String {
    let mut start: String = typed.chars().take(40).filter(|c| !c.is_control()).collect();
    if typed.chars().nth(40).is_some() {
        start.push('…');
    }
    start
}
