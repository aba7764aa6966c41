//! Forms of values that only paths have.

use std::sync::Arc;

use crate::files::Files;
use crate::network::{Limit, Nic};
use crate::trace::content;
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::{Kind, Reference};
use deadheat_base::time::Nanos;
use deadheat_base::units::{
    Bare, Bytes, bytes_text, parse_bytes, parse_count, parse_rate, parse_share, parse_span,
    percent, span_text,
};

/// Longest time in a path, in nanoseconds.
pub(super) const HOUR: u64 = 3_600_000_000_000;

/// Checks a share; the error for a value with netem's correlation names the alternative.
pub(super) fn share(typed: &str) -> Result<()> {
    let correlated = typed.matches('%').count() > 1
        || typed.trim().contains(|c: char| c == '/' || c.is_whitespace());
    if correlated {
        return Err(Error::usage(format!(
            "netem's correlation is not taken: there `1% 25%` loses 0.0001 % in effect, without longer bursts; \
             write the share alone, and for loss in bursts `loss=1%,burst=4` (`{typed}` was given)"
        )));
    }
    seen(typed).map(drop)
}

/// Least share that is not 0.
const LEAST_SHARE: f64 = 1e-12;

/// Parses a share that is 0, or large enough to occur.
fn seen(typed: &str) -> Result<f64> {
    match parse_share(typed)? {
        share if share > 0.0 && share < LEAST_SHARE => Err(Error::usage(format!(
            "`{typed}` is less than one packet in 10^12; write 0% or more than {}",
            percent(LEAST_SHARE)
        ))),
        share => Ok(share),
    }
}

fn below_all(typed: &str, why: &str) -> Result<()> {
    share(typed)?;
    if parse_share(typed)? < 1.0 { Ok(()) } else { Err(Error::usage(why)) }
}

pub(super) fn corrupt(typed: &str) -> Result<()> {
    below_all(typed, "every packet would be damaged and none accepted; write less than 100%")
}

pub(super) fn reorder(typed: &str) -> Result<()> {
    below_all(typed, "with every packet held back there is none to overtake; write less than 100%")
}

pub(super) fn loss(typed: &str) -> Result<()> {
    if typed.starts_with(EVERY) {
        return Err(Error::usage(format!("packets in particular are dropped; write drop={typed}")));
    }
    below_all(
        typed,
        "nothing would arrive; write less than 100%, or drop=N-N for packets in particular",
    )
}

/// Parses a network card: its rate, or `none`.
pub(super) fn nic(typed: &str) -> Result<Nic> {
    if typed == "none" {
        return Ok(Nic::None);
    }
    let rate = parse_rate(typed)
        .map_err(|e| Error::usage(format!("{e}; a network card is a rate (1gbit) or `none`")))?;
    match rate.0 {
        1_000..=1_000_000_000_000 => Ok(Nic::Rate(rate)),
        _ => Err(Error::usage(format!(
            "a network card of {typed}; its rate lies between 1kbit and 1000gbit"
        ))),
    }
}

pub(super) fn block(typed: &str) -> Result<()> {
    crate::block::Block::parse_all(typed).map(drop)
}

/// Mean length of a burst of losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Burst {
    Packets(f64),
    Time(Nanos),
}

pub(super) fn burst(typed: &str) -> Result<Burst> {
    if typed.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        let packets: f64 = typed.parse().map_err(|_| {
            Error::usage(format!("burst `{typed}` is not a number of packets such as 4 or 2.5"))
        })?;
        return match packets {
            1.0..=1e6 => Ok(Burst::Packets(packets)),
            _ => Err(Error::usage(format!(
                "a mean burst of {typed} packets; it lies between 1 and 1000000"
            ))),
        };
    }
    let span = parse_span(typed).map_err(|e| {
        Error::usage(format!("{e}; a burst is a number of packets (4) or a duration (20ms)"))
    })?;
    if (1_000..=HOUR).contains(&span.0) {
        return Ok(Burst::Time(span));
    }
    Err(Error::usage(format!("a mean burst of {typed}; in time it lies between 1us and 1h")))
}

/// Parses the shares of a Gilbert-Elliott chain: p, r, 1-h, 1-k.
pub(super) fn chain(typed: &str) -> Result<[f64; 4]> {
    let parts: Vec<&str> = typed.split('/').collect();
    if !(2..=4).contains(&parts.len()) {
        return Err(Error::usage(format!(
            "`{typed}` has {} parts; write p/r/1-h/1-k such as 1%/25%/100%/0%",
            parts.len()
        )));
    }
    let mut shares = [0.0, 0.0, 1.0, 0.0];
    for (share, part) in shares.iter_mut().zip(&parts) {
        *share = seen(part)?;
    }
    let [p, r, bad, good] = shares;
    let wrong = if p == 0.0 {
        "with p=0% the bad state is never reached; write loss= for losses on their own"
    } else if r == 0.0 {
        "with r=0% the bad state is never left; give r above 0%"
    } else if bad <= good {
        "the bad state (1-h) must lose more than the good one (1-k)"
    } else {
        return Ok(shares);
    };
    Err(Error::usage(wrong))
}

/// Largest number of packets that a list may name.
const MOST_PICKED: usize = 1_000_000;

/// Source of a list of packet numbers.
pub(super) enum PacketList<'a> {
    Here(Vec<u64>),
    In(&'a str),
    Every(u64),
}

/// Beginning of a value for each packet whose number is a multiple of the one behind it.
pub(super) const EVERY: &str = "every:";

/// Parses a list of packets as typed.
pub(super) fn picked(typed: &str) -> Result<PacketList<'_>> {
    if let Some(step) = typed.strip_prefix(EVERY) {
        return match parse_count(step)? {
            0 | 1 => Err(Error::usage("nothing would arrive; write every:2 or a larger number")),
            step => Ok(PacketList::Every(step)),
        };
    }
    match typed.strip_prefix('@') {
        Some("") => Err(Error::usage("`@` lacks its file; write drop=@FILE")),
        Some(file) => Ok(PacketList::In(file)),
        None => {
            numbers(typed.split('/')).map(PacketList::Here).map_err(|(_, what)| Error::usage(what))
        }
    }
}

/// Returns the file that a list of packets refers to.
pub(super) fn picked_refers(typed: &str) -> Reference<'_> {
    typed.strip_prefix('@').map_or(Reference::Nothing, Reference::File)
}

/// Reads the packets that a file lists.
pub(super) fn picked_in(file: &str, files: &mut Files<'_>) -> Result<Arc<[u64]>> {
    let text = files.text(file)?;
    let lines: Vec<(usize, &str)> = content(&text).collect();
    let all = numbers(lines.iter().map(|(_, line)| *line)).map_err(|(nth, what)| {
        let line = lines.get(nth).map_or(0, |(line, _)| *line);
        Error::data(file, format!("line {line}: {what}"))
    })?;
    if all.is_empty() {
        return Err(Error::data(file, "names no packet; write one number or range (40-42) a line"));
    }
    Ok(all.into())
}

/// Parses numbers and ranges in increasing order; the error has the position of the wrong part, and the reason.
fn numbers<'a>(parts: impl Iterator<Item = &'a str>) -> Result<Vec<u64>, (usize, String)> {
    let mut all: Vec<u64> = Vec::new();
    for (nth, part) in parts.enumerate() {
        let wrong = |what: String| (nth, what);
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let read = |number: &str| {
            parse_count(number).map_err(|_| {
                wrong(format!("`{part}` is not a packet's number or a range, such as 5 or 40-42"))
            })
        };
        let (first, last) = (read(first)?, read(last)?);
        if first == 0 {
            return Err(wrong("packets are counted from 1; there is no packet 0".into()));
        }
        if first > last {
            return Err(wrong(format!("the range `{part}` runs backwards; write {last}-{first}")));
        }
        if let Some(before) = all.last().filter(|before| **before >= first) {
            return Err(wrong(format!(
                "{first} comes after {before}; name each packet once, in increasing order"
            )));
        }
        if last - first >= (MOST_PICKED - all.len()) as u64 {
            return Err(wrong(format!("more than {MOST_PICKED} packets; use loss= for a share")));
        }
        all.extend(first..=last);
    }
    Ok(all)
}

/// Parses the capacity of a queue.
pub(super) fn limit(typed: &str) -> Result<Limit> {
    let digits = typed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(typed.len());
    let (number, unit) = typed.split_at(digits);
    let form = || {
        Error::usage(format!(
            "queue `{typed}` is no size (64kB), number of packets (100pkt), time at the rate (50ms) or multiple of the \
             bandwidth-delay product (2bdp)"
        ))
    };
    let limit = match unit {
        "" if number.is_empty() => return Err(form()),
        "" => {
            return Err(Error::usage(format!(
                "queue `{typed}` has no unit; write {typed}pkt, {typed}kB or {typed}ms"
            )));
        }
        "pkt" => Limit::Packets(parse_count(number).map_err(|_| form())?),
        _ if unit.ends_with('B') => Limit::Bytes(parse_bytes(typed, Bare::Refused)?.0),
        _ => Limit::Time(parse_span(typed).map_err(|_| form())?),
    };
    let (value, least, most) = match limit {
        Limit::Packets(n) => (n, 1, 10_000_000),
        Limit::Bytes(n) => (n, 1, 100_000_000_000),
        Limit::Time(span) => (span.0, 1_000, HOUR),
    };
    match value {
        0 => Err(Error::usage(
            "a queue of zero drops whatever does not find the link idle; the least is queue=1pkt",
        )),
        _ if (least..=most).contains(&value) => Ok(limit),
        _ => Err(Error::usage(format!(
            "a queue of {typed}; a queue holds at most 10000000pkt or 100GB, or 1us to 1h at the rate"
        ))),
    }
}

/// Formats a limit as it is typed.
pub(super) fn limit_text(limit: Limit) -> String {
    match limit {
        Limit::Bytes(n) => bytes_text(Bytes(n)),
        Limit::Packets(n) => format!("{n}pkt"),
        Limit::Time(span) => span_text(span),
    }
}

/// Names of the shapes of jitter.
pub(super) const SHAPES: &[&str] = &["uniform", "normal", "pareto"];

/// Returns true if a shape of jitter is written as numbers, as in the text of a table.
pub(super) fn is_table(typed: &str) -> bool {
    typed.bytes().all(|b| b.is_ascii_digit() || b".-/".contains(&b))
        && typed.bytes().any(|b| b.is_ascii_digit())
}

/// Returns the file that a shape of jitter refers to, unless it is a name or the numbers themselves.
pub(super) fn shape_refers(typed: &str) -> Reference<'_> {
    if SHAPES.contains(&typed) || is_table(typed) {
        Reference::Nothing
    } else {
        Reference::File(typed)
    }
}

pub(super) fn shape(typed: &str) -> Result<()> {
    match typed {
        _ if is_table(typed) => {
            offsets(typed.split('/')).map(drop).map_err(|(_, e)| Error::usage(e))
        }
        _ => Kind::Path.check(typed),
    }
}

/// Largest distance of a table's mean from 0, in units of its scale.
const OFF_CENTRE: f64 = 0.01;

/// Parses the offsets of a table, sorted; the error has the position of the wrong part, and the reason.
pub(super) fn offsets<'a>(
    parts: impl Iterator<Item = &'a str>,
) -> Result<Arc<[f64]>, (usize, String)> {
    let mut all: Vec<f64> = Vec::new();
    for (nth, part) in parts.enumerate() {
        // Neither exponents nor words such as inf: a number that is read can be written in about the same length.
        let plain = part.len() <= 32 && is_table(part);
        let offset = part.parse::<f64>().ok().filter(|offset| plain && offset.abs() <= 1e6);
        let offset = offset.ok_or_else(|| {
            (nth, format!("`{part}` is not an offset in units of the jitter, such as -0.7"))
        })?;
        // This makes -0 and 0 the same table.
        all.push(offset + 0.0);
        if all.len() > 1_000_000 {
            return Err((nth, "more than 1000000 offsets; thin them out".into()));
        }
    }
    let last = all.len().saturating_sub(1);
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    if all.len() < 2 {
        return Err((last, "a table has at least two offsets".into()));
    }
    if mean.abs() > OFF_CENTRE {
        return Err((
            last,
            format!(
                "the mean of the offsets is {mean:.3}; subtract it, so that the mean delay is `delay`"
            ),
        ));
    }
    all.sort_by(f64::total_cmp);
    Ok(all.into())
}
