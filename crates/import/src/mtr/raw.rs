//! `mtr --raw` (mtr's FORMATS): a line for each event of a hop, hops counted from 0.
//!
//! ```text
//! x HOP NUMBER            a request left
//! h HOP ADDRESS           the hop has this address
//! p HOP MICROSECONDS NUMBER   it answered
//! ```

use crate::echo::{self, EchoTime, RoundTripRun};
use crate::foreign_file::ForeignFile;
use crate::text::MICROS;
use crate::{FileContent, ReaderContext};

/// Line of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RawLine<'a> {
    Request(u64, u64),
    Host(u64, &'a str),
    /// Answer with its time in microseconds; versions before 0.86 wrote no number.
    Answer(u64, u64, Option<u64>),
    /// Name, MPLS label and the like.
    Other,
}

/// Parses a line; `None` if it is of another format.
fn parse(line: &str) -> Option<RawLine<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (kind, rest) = words.split_first()?;
    let number = |at: usize| rest.get(at)?.parse::<u64>().ok();
    let hop = number(0)?;
    match (*kind, rest.len()) {
        ("x", 2) => Some(RawLine::Request(hop, number(1)?)),
        ("h", 2) => Some(RawLine::Host(hop, rest[1])),
        ("p", 2) => Some(RawLine::Answer(hop, number(1)?, None)),
        ("p", 3) => Some(RawLine::Answer(hop, number(1)?, Some(number(2)?))),
        ("d" | "t" | "m", _) => Some(RawLine::Other),
        _ => None,
    }
}

/// Returns true for the beginning of such a file.
pub(super) fn is_raw(head: &str) -> bool {
    // The last line may be cut off.
    let lines: Vec<&str> = head.lines().filter(|line| !line.trim().is_empty()).take(6).collect();
    let whole = lines.iter().take(lines.len().saturating_sub(1).max(1));
    let found: Option<Vec<RawLine<'_>>> = whole.map(|line| parse(line)).collect();
    found.is_some_and(|lines| lines.iter().any(|line| matches!(line, RawLine::Request(..))))
}

/// Hop as seen so far.
#[derive(Default)]
struct RawHop {
    host: String,
    /// Requests in order, each with its number and the time of its answer.
    requests: Vec<(u64, Option<u64>)>,
}

/// Reads a file: the far end is the last hop, and a request that was open when mtr ended is none.
pub(super) fn read(
    file: &mut ForeignFile,
    context: &mut ReaderContext<'_>,
) -> Result<FileContent, String> {
    let mut hops: Vec<RawHop> = Vec::new();
    while let Some(line) = file.next_line()? {
        take(&mut hops, line);
    }
    let Some(last) = hops.iter().rposition(|hop| !hop.host.is_empty()) else {
        return Err("no hop answered in it".into());
    };
    // mtr looks a hop further until it knows how many there are, and the same host answers there.
    let host = hops[last].host.clone();
    let far = hops.iter().position(|hop| hop.host == host).unwrap_or(last);
    let requests = &hops[far].requests;
    let ended = requests.iter().rposition(|(_, answer)| answer.is_some()).map_or(0, |at| at + 1);
    let open = requests.len() - ended;
    let mut run = RoundTripRun::to(&host);
    // Only the last request may still have been open.
    let counted = if open == 1 { ended } else { requests.len() };
    for (number, (_, answer)) in (0..).zip(&requests[..counted]) {
        match answer.map(|micros| MICROS.whole(micros as f64)) {
            Some(Ok(ns)) => run.answer(Some(number), EchoTime::Exact(ns), None),
            _ => run.unanswered(Some(number)),
        }
    }
    let received = requests[..counted].iter().filter(|(_, answer)| answer.is_some()).count();
    run.counted = Some((counted as u64, received as u64));
    let content = echo::content([(run, None)], context)?;
    Ok(FileContent { unit: "us".into(), trial: "a run of mtr".into(), ..content })
}

/// Most hops that mtr looks at.
const MOST_HOPS: u64 = 255;

fn take(hops: &mut Vec<RawHop>, line: &str) {
    let Some(line) = parse(line) else { return };
    let (RawLine::Request(at, _) | RawLine::Host(at, _) | RawLine::Answer(at, ..)) = line else {
        return;
    };
    if at > MOST_HOPS {
        return;
    }
    while hops.len() as u64 <= at {
        hops.push(RawHop::default());
    }
    let hop = &mut hops[at as usize];
    match line {
        RawLine::Request(_, number) => hop.requests.push((number, None)),
        RawLine::Host(_, host) => hop.host = host.to_owned(),
        RawLine::Answer(_, micros, number) => {
            let own = |(request, _): &&mut (u64, Option<u64>)| number.is_none_or(|n| n == *request);
            let mut requests = hop.requests.iter_mut().rev();
            match requests.find(own) {
                Some((_, answer)) => *answer = answer.or(Some(micros)),
                // Old versions write no requests.
                None => hop.requests.push((number.unwrap_or(0), Some(micros))),
            }
        }
        RawLine::Other => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_recognised() {
        assert_eq!(parse("x 0 33000"), Some(RawLine::Request(0, 33_000)));
        assert_eq!(parse("h 1 10.0.0.1"), Some(RawLine::Host(1, "10.0.0.1")));
        assert_eq!(parse("p 0 20167 33000"), Some(RawLine::Answer(0, 20_167, Some(33_000))));
        assert_eq!(parse("d 0 far.example"), Some(RawLine::Other));
        for other in ["", "x", "x 0", "p a 3", "ping 0 3", "h 0"] {
            assert_eq!(parse(other), None, "{other}");
        }
        assert!(is_raw("x 0 33000\nh 0 ::1\n") && !is_raw("h 0 ::1\nfurther words\n"));
    }
}
