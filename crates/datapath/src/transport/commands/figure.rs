//! Figures in the output of a command: a member of a JSON document by its pointer, a named group of a regular expression, or
//! the time that the command took.

use regex_lite::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;

/// Largest memory of a compiled expression in bytes.
const LARGEST_EXPRESSION: usize = 1 << 20;

/// Way to read a figure from a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureSource {
    /// Time from the start of the command to its end.
    Time,
    /// Bytes of the work over that time.
    Goodput,
    /// CPU time of both commands, with all that they start. The race counts it, as no command knows the other's.
    Cpu,
    /// Member of a JSON document (RFC 6901).
    Pointer(String),
    /// Named group of a regular expression, at its only match.
    Pattern {
        /// Expression.
        regex: String,
        /// Name of the group.
        group: String,
    },
}

/// Text in which figures are looked up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureText {
    /// Standard output of the client command.
    Stdout,
    /// Its standard error.
    Stderr,
    /// File in its folder.
    File(String),
}

impl FigureText {
    /// Reads a name as typed.
    ///
    /// # Errors
    /// [`Error::Usage`] for a file elsewhere.
    pub(super) fn parse(typed: &str) -> Result<FigureText> {
        match typed {
            "stdout" => Ok(FigureText::Stdout),
            "stderr" => Ok(FigureText::Stderr),
            file => own_file(file).map(FigureText::File),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        match self {
            FigureText::Stdout => "stdout",
            FigureText::Stderr => "stderr",
            FigureText::File(name) => name,
        }
    }
}

/// Checks that a file lies in a command's own folder.
///
/// # Errors
/// [`Error::Usage`] with the correct form.
pub(super) fn own_file(typed: &str) -> Result<String> {
    let name = typed.strip_prefix("{dir}/").unwrap_or(typed);
    if name.is_empty() || name.starts_with('/') || name.split('/').any(|part| part == "..") {
        Err(Error::usage(format!(
            "`{typed}` is no file in the folder of the command; write its name without a / in front, as the command writes it \
         to {{dir}}"
        )))
    } else {
        Ok(name.to_owned())
    }
}

impl FigureSource {
    /// Creates the pointer to a member.
    ///
    /// # Errors
    /// [`Error::Usage`] if it has not the form of RFC 6901.
    pub(super) fn pointer(typed: &str) -> Result<FigureSource> {
        if typed.is_empty() || typed.starts_with('/') {
            Ok(FigureSource::Pointer(typed.to_owned()))
        } else {
            Err(Error::usage(format!(
                "`{typed}` is no JSON pointer; it begins with /, as in /end/sum_received/bits_per_second"
            )))
        }
    }

    /// Creates the pattern of a figure with this name.
    ///
    /// # Errors
    /// [`Error::Usage`] if the expression is wrong, or has no group of the figure's name, nor one group alone.
    pub(super) fn pattern(typed: &str, figure: &str) -> Result<FigureSource> {
        let compiled = compiled(typed)?;
        let names: Vec<&str> = compiled.capture_names().flatten().collect();
        let group = match names[..] {
            _ if names.contains(&figure) => figure,
            [only] => only,
            [] => {
                return Err(Error::usage(format!(
                    "the expression `{typed}` has no named group; write (?<{figure}>…) around the number"
                )));
            }
            _ => {
                return Err(Error::usage(format!(
                    "the expression `{typed}` has the groups {}, and none called `{figure}`",
                    names.join(", ")
                )));
            }
        };
        Ok(FigureSource::Pattern { regex: typed.to_owned(), group: group.to_owned() })
    }

    /// Reads the number from a run that took `took` for `bytes`, and printed `text`.
    ///
    /// # Errors
    /// [`Error::Usage`] with the text in place of a number.
    pub fn read(&self, took: Nanos, bytes: Option<u64>, text: &[u8]) -> Result<f64> {
        match self {
            FigureSource::Time => Ok(took.as_secs_f64()),
            FigureSource::Goodput => {
                let bytes = bytes
                    .ok_or_else(|| Error::usage("the work has no number of bytes; give bytes"))?;
                Ok(bytes as f64 * 8e9 / took.0.max(1) as f64)
            }
            FigureSource::Cpu => Err(Error::usage("the CPU time is that of both commands")),
            FigureSource::Pointer(pointer) => at_pointer(pointer, text),
            FigureSource::Pattern { regex, group } => matched(regex, group, text),
        }
    }
}

/// Compiles an expression.
///
/// # Errors
/// [`Error::Usage`] with the mistake.
fn compiled(typed: &str) -> Result<Regex> {
    built(typed, RegexBuilder::new(typed).multi_line(true))
}

fn built(typed: &str, builder: &mut RegexBuilder) -> Result<Regex> {
    let built = builder.size_limit(LARGEST_EXPRESSION).build();
    built.map_err(|error| Error::usage(format!("`{typed}` is no regular expression: {error}")))
}

/// Expression for a line that a program prints.
#[derive(Debug, Clone)]
pub struct LineSign(Regex);

impl LineSign {
    /// Compiles it.
    ///
    /// # Errors
    /// [`Error::Usage`] with the mistake.
    pub fn new(typed: &str) -> Result<LineSign> {
        built(typed, &mut RegexBuilder::new(typed)).map(LineSign)
    }

    /// Returns true if it matches a line, which may have any bytes.
    pub fn is_match(&self, line: &[u8]) -> bool {
        self.0.is_match(&String::from_utf8_lossy(line))
    }
}

fn at_pointer(pointer: &str, text: &[u8]) -> Result<f64> {
    let document: Value = serde_json::from_slice(text).map_err(|error| {
        Error::usage(format!("no JSON document was found there ({error}){}", beginning(text)))
    })?;
    match document.pointer(pointer) {
        Some(Value::Number(number)) => Ok(number.as_f64().unwrap_or(f64::NAN)),
        Some(Value::String(digits)) => number(digits).ok_or_else(|| {
            Error::usage(format!(
                "the pointer {pointer} is of the text {digits:?}, and not of a number"
            ))
        }),
        Some(other) => Err(Error::usage(format!(
            "the pointer {pointer} is of {}, and not of a number",
            kind(other)
        ))),
        None => Err(Error::usage(format!(
            "the JSON document has nothing at {pointer}{}",
            near(&document, pointer)
        ))),
    }
}

/// Returns the members at the deepest part of a pointer that exists.
fn near(document: &Value, pointer: &str) -> String {
    let mut at = pointer;
    while let Some((above, _)) = at.rsplit_once('/') {
        at = above;
        if let Some(Value::Object(members)) = document.pointer(at) {
            let names: Vec<&str> = members.keys().map(String::as_str).take(20).collect();
            let place = if at.is_empty() { "its top" } else { at };
            return format!("; the members at {place} are {}", names.join(", "));
        }
    }
    String::new()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn matched(regex: &str, group: &str, text: &[u8]) -> Result<f64> {
    let text = String::from_utf8_lossy(text);
    let expression = compiled(regex)?;
    let mut all = expression.captures_iter(&text).filter_map(|found| {
        let of_group = found.name(group)?;
        Some(of_group.as_str().to_owned())
    });
    let Some(first) = all.next() else {
        return Err(Error::usage(format!(
            "the expression `{regex}` matches nothing there{}",
            beginning(text.as_bytes())
        )));
    };
    if let Some(second) = all.next() {
        return Err(Error::usage(format!(
            "the expression `{regex}` matches more than once ({first:?}, then {second:?}), and a run has one figure; write one that \
             matches the line of the sum alone"
        )));
    }
    number(&first).ok_or_else(|| {
        Error::usage(format!("the group `{group}` of `{regex}` is {first:?}, and not a number"))
    })
}

/// Reads a number as programs print it: 1234, 12.5, 1e9; thousands may have commas. A comma anywhere else is refused: 12,5
/// is a decimal fraction in some languages.
fn number(printed: &str) -> Option<f64> {
    let plain = printed.trim();
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut groups = whole.trim_start_matches(['+', '-']).split(',');
    let is_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let is_first = |first: &str| (1..=3).contains(&first.len()) && is_digits(first);
    let has_thousands = groups.next().is_some_and(is_first)
        && groups.all(|group| group.len() == 3 && is_digits(group));
    let plain = if has_thousands { whole.replace(',', "") + rest } else { plain.to_owned() };
    plain.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns the beginning of a text for messages.
fn beginning(text: &[u8]) -> String {
    const MOST: usize = 200;
    let shown: String = String::from_utf8_lossy(text).trim().chars().take(MOST).collect();
    if shown.is_empty() {
        "; it is empty".to_owned()
    } else {
        format!("; it begins with {shown:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &FigureSource, text: &str) -> std::result::Result<f64, String> {
        let read = source.read(Nanos::from_millis(500), Some(1_000), text.as_bytes());
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn times_and_rates_come_from_the_run_itself() {
        assert_eq!(read(&FigureSource::Time, ""), Ok(0.5));
        assert_eq!(read(&FigureSource::Goodput, ""), Ok(16_000.0));
        let without = FigureSource::Goodput.read(Nanos(5), None, b"");
        assert!(without.unwrap_err().to_string().contains("give bytes"));
    }

    #[test]
    fn a_pointer_finds_a_number_and_says_what_else_it_finds() {
        let at = |typed| FigureSource::pointer(typed).unwrap();
        let text =
            r#"{"end": {"rate": 12.5, "unit": "bit/s", "n": "7", "list": [1, 2], "no": null}}"#;
        assert_eq!(read(&at("/end/rate"), text), Ok(12.5));
        assert_eq!(read(&at("/end/list/1"), text), Ok(2.0));
        assert_eq!(read(&at("/end/n"), text), Ok(7.0), "some programs quote numbers");
        let said = read(&at("/end/unit"), text).unwrap_err();
        assert!(said.contains("is of the text \"bit/s\", and not of a number"), "{said}");
        assert!(read(&at("/end"), text).unwrap_err().contains("of an object"));
        assert!(read(&at("/end/no"), text).unwrap_err().contains("of null"));
        let said = read(&at("/end/rat"), text).unwrap_err();
        assert!(
            said.contains("nothing at /end/rat") && said.contains("list, n, no, rate"),
            "{said}"
        );
        let said = read(&at("/x"), "iperf3: error").unwrap_err();
        assert!(said.contains("no JSON document") && said.contains("iperf3: error"), "{said}");
        assert!(FigureSource::pointer("end/rate").is_err());
    }

    #[test]
    fn a_named_group_finds_a_number_once() {
        let of = |typed| FigureSource::pattern(typed, "rate").unwrap();
        let text = "connected\n5 Mbit/s up\n6.5 Mbit/s down\ntotal 1,234\n";
        assert_eq!(read(&of(r"(?<rate>[0-9.]+) Mbit/s down$"), text), Ok(6.5));
        assert_eq!(read(&of(r"^total (?<sum>\S+)"), text), Ok(1234.0), "one group is enough");
        let said = read(&of(r"(?<rate>[0-9.]+) Mbit/s"), text).unwrap_err();
        assert!(said.contains("more than once (\"5\", then \"6.5\")"), "{said}");
        let said = read(&of(r"(?<rate>\d+) Gbit/s"), text).unwrap_err();
        assert!(said.contains("matches nothing there; it begins with \"connected"), "{said}");
        assert!(read(&of(r"^(?<rate>conn\w+)"), text).unwrap_err().contains("not a number"));
        let all = of(r"(?<rate>\S+)");
        for (printed, value) in [("1,234,567.5", 1_234_567.5), ("-1,000", -1e3), ("1e9", 1e9)] {
            assert_eq!(read(&all, printed), Ok(value));
        }
        // A decimal fraction in other languages, which must not become ten times as much.
        for printed in ["12,5", "1,23", "1,2345", "1.5,000", ",500", "inf"] {
            assert!(read(&all, printed).unwrap_err().contains("not a number"), "{printed}");
        }
        assert!(read(&of(r"(?<rate>\d+)"), "").unwrap_err().contains("it is empty"));
    }

    #[test]
    fn expressions_are_checked_before_anything_runs() {
        let said = |typed| FigureSource::pattern(typed, "rate").unwrap_err().to_string();
        assert!(said("([0-9]+)").contains("(?<rate>…)"));
        assert!(said("(?<a>x)(?<b>y)").contains("none called `rate`"));
        assert!(said("(?<rate>").contains("no regular expression"));
        for elsewhere in ["../x", "/etc/x", "{dir}//etc/x", "{dir}/", "a/../../x"] {
            assert!(FigureText::parse(elsewhere).is_err(), "{elsewhere}");
        }
        assert_eq!(FigureText::parse("{dir}/a.json").unwrap(), FigureText::File("a.json".into()));
    }
}
