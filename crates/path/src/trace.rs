//! Traces: recordings of a link's capacity over time.
//!
//! There are three formats, which their first line distinguishes. mahimahi's has a whole number of milliseconds per
//! line: at that time one packet of 1504 bytes may leave (1500 and the 4 that a TUN device adds in front,
//! `PACKET_SIZE` in its `link_queue.hh`), and after the last one the trace repeats. Pensieve's has lines of two numbers,
//! seconds and Mbit/s, of which a rate holds from the time of the line before (`sim/fixed_env.py`). Our own begins with
//! `deadheat-trace 1`, has lines `TIME RATE [DELAY [LOSS]]`, and ends with `end TIME`.

use sha2::{Digest, Sha256};

use deadheat_base::error::{Error, Result};
use deadheat_base::foreign;
use deadheat_base::time::Nanos;
use deadheat_base::units::hex::hex;
use deadheat_base::units::{BitRate, parse_rate, parse_share, parse_span};

/// Recording of a link's capacity, which repeats after its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Name of the file that it was read from, as typed.
    pub file: String,
    /// SHA-256 (FIPS 180-4) of the file's bytes, in hexadecimal.
    pub sha256: String,
    /// Length, after which it repeats.
    pub length: Nanos,
    /// Content of the recording.
    pub content: Content,
}

/// Content of a trace.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Steps: each one holds from its time to the next one's.
    Steps(Vec<Step>),
    /// Opportunities: at each of these times, sorted, this many bytes may leave, and unused ones are lost
    /// (mahimahi).
    Opportunities {
        /// Bytes of one opportunity, of IP packets and overhead.
        bytes: u32,
        /// Times of the opportunities; several may be the same.
        at: Vec<Nanos>,
    },
}

/// State of a link from a time on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Start time, since the start of the trace; the first is 0.
    pub from: Nanos,
    /// Rate; 0 for nothing.
    pub rate: BitRate,
    /// Delay, which replaces the model's.
    pub delay: Option<Nanos>,
    /// Probability that a packet is lost, 0 to 1, besides the losses of the model.
    pub loss: Option<f64>,
}

/// Interpretation of mahimahi's opportunities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Spread: the opportunities of a millisecond are a rate that holds for this millisecond.
    Spread,
    /// Burst: each opportunity is an instant, as in mahimahi.
    Burst,
}

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Ours,
    Mahimahi,
    /// Two columns, seconds and Mbit/s (Pensieve).
    Columns,
}

impl Format {
    /// Returns the format of a file that begins with this line.
    pub(super) fn of(first: &str) -> Format {
        if first.starts_with("deadheat-trace") {
            Format::Ours
        } else if columns(first).is_some() {
            Format::Columns
        } else {
            Format::Mahimahi
        }
    }
}

/// First line of our own format.
const OURS: &str = "deadheat-trace 1";

/// Bytes that leave at one of mahimahi's opportunities.
pub const OPPORTUNITY: u32 = 1504;

/// Bytes of an opportunity that each IP packet takes besides its own.
pub const OPPORTUNITY_OVERHEAD: u32 = 4;

/// Largest number of lines that are neither empty nor a comment.
const MOST_LINES: usize = 10_000_000;

/// Longest trace.
const LONGEST: Nanos = Nanos::from_secs(30 * 86_400);

/// Longest delay of a step.
const LONGEST_DELAY: Nanos = Nanos::from_secs(3_600);

/// Highest rate of a step.
const HIGHEST: BitRate = BitRate(1_000_000_000_000);

impl Trace {
    /// Reads a trace in any format; `mode` is for mahimahi's only, and `None` spreads.
    ///
    /// # Errors
    /// [`Error::Data`] with the line, its mistake and a correct form; [`Error::Usage`] for a mode where the format
    /// has none.
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
            Format::Ours | Format::Columns if mode.is_some() => {
                return Err(Error::usage(format!(
                    "path: trace-mode is for mahimahi's format; {file} itself says what holds when"
                )));
            }
            Format::Ours => ours(text),
            Format::Columns => pensieve(text),
            Format::Mahimahi => mahimahi(text, mode.unwrap_or(Mode::Spread)),
        };
        let (length, content) =
            read.map_err(|(line, what)| Error::data(file, format!("line {line}: {what}")))?;
        let sha256 = hex(&Sha256::digest(bytes));
        Ok(Trace { file: file.to_owned(), sha256, length, content })
    }

    /// Returns the bits that it carries in one round.
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

/// Number of a line, and its fault.
type Wrong = (usize, String);

fn mahimahi(text: &str, mode: Mode) -> Result<(Nanos, Content), Wrong> {
    let mut at: Vec<Nanos> = Vec::new();
    let mut last_line = 0;
    for (line, typed) in content(text) {
        let ms: u64 = typed.parse().map_err(|_| {
            (line, format!("`{}` is not a whole number of milliseconds (mahimahi's format), and the first line is neither `{OURS}` nor two \
                           numbers (seconds and Mbit/s)", short(typed)))
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

/// Converts opportunities to a rate in each millisecond. Opportunities at the very end count for the start of the
/// next round.
fn spread(at: &[Nanos], length: Nanos) -> Vec<Step> {
    const MS: Nanos = Nanos::from_millis(1);
    let wrapped = at.iter().rev().take_while(|time| **time == length).count();
    let (inside, _) = at.split_at(at.len() - wrapped);
    let at_start = inside.iter().take_while(|time| **time == Nanos::ZERO).count();
    let mut steps: Vec<Step> = Vec::new();
    // Nothing is known yet after this time.
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

/// Parses a line of two numbers, seconds and Mbit/s.
fn columns(line: &str) -> Option<(f64, f64)> {
    let mut words = line.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty());
    let mut number = || words.next()?.parse::<f64>().ok().filter(|number| number.is_finite());
    let (seconds, mbit) = (number()?, number()?);
    words.next().is_none().then_some((seconds, mbit))
}

/// Reads lines of seconds and Mbit/s. The trace begins at the time of the first line, whose rate holds for no time.
fn pensieve(text: &str) -> Result<(Nanos, Content), Wrong> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut begin, mut before, mut last_line) = (None, Nanos::ZERO, 0);
    for (line, typed) in content(text) {
        let (seconds, mbit) = columns(typed).ok_or_else(|| {
            (line, format!("`{}` is not two numbers, seconds and Mbit/s", short(typed)))
        })?;
        last_line = line;
        if !(0.0..=HIGHEST.0 as f64 / 1e6).contains(&mbit) {
            return Err((line, format!("a rate of {mbit} Mbit/s; it is 0 to {HIGHEST}")));
        }
        let Some(begin) = begin else {
            begin = Some(seconds);
            continue;
        };
        let since = Nanos(((seconds - begin).max(0.0) * 1e9).round() as u64);
        if since > LONGEST {
            return Err((
                line,
                format!("{seconds} s is over 30 days after the first; cut the trace"),
            ));
        }
        if since <= before {
            return Err((line, format!("{seconds} is not after the line before; times increase")));
        }
        let rate = BitRate((mbit * 1e6).round() as u64);
        steps.push(Step { from: before, rate, delay: None, loss: None });
        before = since;
    }
    if steps.is_empty() {
        let what = "one line is not enough: a rate holds from the time of the line before";
        return Err((last_line, what.to_owned()));
    }
    finish(steps, before, None).map_err(|what| (last_line, what))
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

/// Returns the start of a text that may be long, for a message.
fn short(typed: &str) -> String {
    let mut start: String = typed.chars().take(40).filter(|c| !c.is_control()).collect();
    if typed.chars().nth(40).is_some() {
        start.push('…');
    }
    start
}

/// Iterates over the lines of a file that are neither empty nor a comment, with their numbers from 1.
pub(super) fn content(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines =
        foreign::file::unmarked(text).lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, mode: Option<Mode>) -> Result<Trace> {
        Trace::from_bytes("a.trace", text.as_bytes(), mode)
    }

    fn steps(text: &str) -> Vec<(u64, u64)> {
        let Content::Steps(steps) = read(text, None).unwrap().content else { panic!("no steps") };
        steps.iter().map(|step| (step.from.0 / 1_000_000, step.rate.0 / 12_032)).collect()
    }

    #[test]
    fn mahimahi_spread_is_a_rate_in_each_millisecond() {
        // 12 032 bits a millisecond are one opportunity of 1504 bytes; the one at the end is the
        // first of the next round.
        assert_eq!(steps("1\n2\n2\n5\n"), [(0, 1_000), (2, 2_000), (3, 0)]);
        assert_eq!(steps("3\n7\n"), [(0, 1_000), (1, 0), (3, 1_000), (4, 0)]);
        assert_eq!(steps("0\n0\n1\n2\n2\n"), [(0, 4_000), (1, 1_000)]);
        assert_eq!(steps("1\n"), [(0, 1_000)]);
        assert_eq!(steps("# from a drive\n\n1\n2\n"), [(0, 1_000)]);
    }

    #[test]
    fn both_modes_carry_what_the_file_says() {
        let mut rng = deadheat_base::rng::SplitMix64::new(3);
        for _ in 0..500 {
            let mut at: Vec<u64> = (0..=rng.below(40)).map(|_| rng.below(60)).collect();
            at.push(rng.below(60) + 1);
            at.sort_unstable();
            let text: String = at.iter().map(|ms| format!("{ms}\n")).collect();
            let bits = at.len() as f64 * 12_032.0;
            for mode in [Mode::Spread, Mode::Burst] {
                let trace = read(&text, Some(mode)).unwrap();
                assert!((trace.capacity() - bits).abs() < 1e-3, "{at:?}: {}", trace.capacity());
            }
            let Content::Steps(steps) = read(&text, None).unwrap().content else {
                panic!("no steps")
            };
            assert_eq!(steps[0].from, Nanos::ZERO);
            assert!(steps.windows(2).all(|two| two[0].from < two[1].from), "{at:?}");
        }
    }

    #[test]
    fn mahimahi_burst_is_instants() {
        let trace = read("0\n2\n2\n5\n", Some(Mode::Burst)).unwrap();
        let at = [0, 2, 2, 5].map(Nanos::from_millis).to_vec();
        assert_eq!(trace.content, Content::Opportunities { bytes: 1504, at });
        assert_eq!(trace.length, Nanos::from_millis(5));
    }

    #[test]
    fn our_own_format_says_rate_delay_and_loss() {
        let text = "# made by hand\ndeadheat-trace 1\n0s 20mbit 25ms 0%\n\n1500ms 0bit - 2%\n2s 5mbit\nend 10s\n";
        let trace = read(text, None).unwrap();
        let step = |from, rate, delay: Option<u64>, loss| Step {
            from: Nanos::from_millis(from),
            rate: BitRate(rate),
            delay: delay.map(Nanos::from_millis),
            loss,
        };
        let want = [
            step(0, 20_000_000, Some(25), Some(0.0)),
            step(1500, 0, None, Some(0.02)),
            step(2000, 5_000_000, None, None),
        ];
        assert_eq!(trace.content, Content::Steps(want.to_vec()));
        assert_eq!(trace.length, Nanos::from_secs(10));
        assert_eq!(trace.capacity(), 30e6 + 40e6);
    }

    #[test]
    fn two_columns_are_seconds_and_mbit_of_the_time_before() {
        let trace = read("10.0\t1.5\n11.0\t2\n12.5\t0.0000\n13.0\t0.5\n", None).unwrap();
        let Content::Steps(steps) = &trace.content else { panic!("no steps") };
        let seen: Vec<(u64, u64)> =
            steps.iter().map(|step| (step.from.0 / 1_000_000, step.rate.0)).collect();
        assert_eq!(seen, [(0, 2_000_000), (1_000, 0), (2_500, 500_000)]);
        assert_eq!((trace.length, trace.capacity()), (Nanos::from_secs(3), 2_250_000.0));
        let mode = read("0 1\n1 1\n", Some(Mode::Burst)).unwrap_err();
        assert!(matches!(mode, Error::Usage(_)), "{mode:?}");
    }

    #[test]
    fn the_hash_is_of_the_bytes() {
        // printf '1\n' | sha256sum
        let want = "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865";
        assert_eq!(read("1\n", None).unwrap().sha256, want);
        assert_eq!(read("1\n", Some(Mode::Burst)).unwrap().sha256, want);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let say = |text: &str| match read(text, None) {
            Ok(trace) => panic!("{text:?} is taken: {trace:?}"),
            Err(error) => error.to_string(),
        };
        for (text, words) in [
            ("", "is empty"),
            ("\n# nothing\n", "is empty"),
            ("1\n2\nx\n", "line 3: `x` is not a whole number of milliseconds"),
            ("1.5\n", "line 1: `1.5`"),
            ("-1\n", "line 1: `-1`"),
            ("2\n1\n", "line 2: 1 is less than the line before"),
            ("0\n0\n", "line 2: the last time is 0"),
            ("99999999999999999999\n", "line 1: "),
            ("9999999999999\n", "over 30 days"),
            ("0 1\n", "line 1: one line is not enough"),
            ("0 1\n1 x\n", "line 2: `1 x` is not two numbers, seconds and Mbit/s"),
            ("0 1\n1 -1\n", "line 2: a rate of -1 Mbit/s"),
            ("0 1\n1 1e9\n", "line 2: a rate of 1000000000 Mbit/s"),
            ("0 1\n1 1\n1 1\n", "line 3: 1 is not after the line before"),
            ("0 1\n9e9 1\n", "line 2: 9000000000 s is over 30 days"),
            ("0 1\n1 0\n", "line 2: no line carries anything"),
            ("deadheat-trace 2\n", "line 1: `deadheat-trace 2` is not a version"),
            ("deadheat-trace 1\n", "line 1: the last line is not `end TIME`"),
            ("deadheat-trace 1\nend 1s\n", "line 2: nothing before `end`"),
            ("deadheat-trace 1\n1s 1mbit\nend 2s\n", "line 2: the first time is 1s"),
            ("deadheat-trace 1\n0s 1mbit\n0s 2mbit\nend 2s\n", "line 3: 0s is not after"),
            ("deadheat-trace 1\n0s 1mbit\n", "line 2: the last line is not `end TIME`"),
            ("deadheat-trace 1\n0s 1mbit\n2s 1mbit\nend 2s\n", "line 4: the trace ends at"),
            ("deadheat-trace 1\n0s 1mbit\nend 2s\n3s 1mbit\n", "line 4: a line after `end`"),
            ("deadheat-trace 1\n0s 1mbit\nend 2s now\n", "line 3: `now` after the time"),
            ("deadheat-trace 1\n0s 1mbit\nend\n", "line 3: "),
            ("deadheat-trace 1\n0s\nend 2s\n", "line 2: no rate"),
            ("deadheat-trace 1\n0s 1MBit\nend 2s\n", "line 2: unknown rate unit"),
            ("deadheat-trace 1\n0s 9tbit\nend 2s\n", "line 2: a rate of 9.00 Tbit/s"),
            ("deadheat-trace 1\n0s 1mbit 2h\nend 2s\n", "line 2: a delay of more than an hour"),
            ("deadheat-trace 1\n0s 1mbit 1ms 101%\nend 2s\n", "line 2: share `101%`"),
            ("deadheat-trace 1\n0s 1mbit 1ms 1% 5\nend 2s\n", "line 2: `5` is too much"),
            ("deadheat-trace 1\n0s 0bit\nend 2s\n", "line 3: no line carries anything"),
        ] {
            let said = say(text);
            assert!(said.starts_with("a.trace: ") && said.contains(words), "{text:?}: {said}");
        }
        let binary = Trace::from_bytes("a.trace", &[0xff, 0xfe, 0x00], None).unwrap_err();
        assert!(binary.to_string().contains("not text"), "{binary}");
        let mode = read("deadheat-trace 1\n0s 1mbit\nend 2s\n", Some(Mode::Burst)).unwrap_err();
        assert!(matches!(mode, Error::Usage(_)), "{mode:?}");
    }
}
