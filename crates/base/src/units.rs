//! Sizes, rates, durations and shares: parsed from text into newtypes, and formatted.
//!
//! `kB MB GB` are powers of ten, `KiB MiB GiB` powers of two, rates are bits per second. A bare
//! number is refused wherever it could mean two things.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::time::Nanos;

pub mod hex;
pub mod range;

/// A size in bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A rate in bits per second.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BitRate(pub u64);

/// A rate in packets per second.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PacketRate(pub u64);

/// Rate that a sender offers to the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferedRate {
    /// Bits of application data per second.
    Bits(BitRate),
    /// Messages per second, whatever their size.
    Packets(PacketRate),
    /// As much as the transport takes.
    Max,
}

const SIZES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

const RATES: &[(&str, f64)] =
    &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("tbit", 1e12)];

const PACKET_RATES: &[(&str, f64)] = &[("pps", 1.0), ("kpps", 1e3), ("Mpps", 1e6)];

const SPANS: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3_600e9),
    ("d", 86_400e9),
];

/// Parses a size such as `64kB`. A bare number is bytes only if `bare` allows it.
pub fn parse_bytes(typed: &str, bare: Bare) -> Result<Bytes> {
    let (value, unit) = split(typed, "size", "64, 1400B, 64kB, 1MiB")?;
    if unit.is_empty() && bare == Bare::Refused {
        return Err(Error::usage(format!(
            "size `{typed}` has no unit; write {value}B, {value}kB or {value}KiB"
        )));
    }
    let unit = if unit.is_empty() { "B" } else { unit };
    Ok(Bytes(scaled(typed, "size", value, unit, SIZES)?))
}

/// Formats a size as typed, to the byte, in the unit with the shortest text: `4KiB`, `1500B`, `100GB`.
pub fn exact_bytes(bytes: u64) -> String {
    let in_unit = |(unit, factor): &(&str, f64)| {
        let factor = *factor as u64;
        bytes.is_multiple_of(factor).then(|| format!("{}{unit}", bytes / factor))
    };
    let all = SIZES.iter().filter_map(in_unit);
    all.min_by_key(String::len).unwrap_or_else(|| format!("{bytes}B"))
}

/// Parses a rate such as `20mbit`, in bits per second.
pub fn parse_rate(typed: &str) -> Result<BitRate> {
    let (value, unit) = split(typed, "rate", "100kbit, 20mbit, 10gbit")?;
    if unit.is_empty() {
        return Err(Error::usage(format!(
            "rate `{typed}` has no unit; write {value}bit, {value}kbit, {value}mbit or {value}gbit"
        )));
    }
    Ok(BitRate(scaled(typed, "rate", value, unit, RATES)?))
}

/// Parses a rate to offer: bits (`20mbit`) or packets (`500pps`, `10kpps`) per second, or `max`.
pub fn parse_offered(typed: &str) -> Result<OfferedRate> {
    if typed == "max" {
        return Ok(OfferedRate::Max);
    }
    let (value, unit) = split(typed, "rate", "20mbit, 500pps, 10kpps, or the word max")?;
    if unit.is_empty() {
        return Err(Error::usage(format!(
            "rate `{typed}` has no unit; write {value}mbit for bits or {value}pps for packets per second"
        )));
    }
    if PACKET_RATES.iter().any(|(name, _)| *name == unit) {
        let rate = scaled(typed, "rate", value, unit, PACKET_RATES)?;
        return Ok(OfferedRate::Packets(PacketRate(rate)));
    }
    let all: Vec<(&str, f64)> = RATES.iter().chain(PACKET_RATES).copied().collect();
    Ok(OfferedRate::Bits(BitRate(scaled(typed, "rate", value, unit, &all)?)))
}

/// Parses a duration such as `10ms`.
pub fn parse_span(typed: &str) -> Result<Nanos> {
    let (value, unit) = split(typed, "duration", "500us, 10ms, 5s, 1h")?;
    if unit.is_empty() && value != 0.0 {
        return Err(Error::usage(format!(
            "duration `{typed}` has no unit; write {value}us, {value}ms or {value}s"
        )));
    }
    let unit = if unit.is_empty() { "ns" } else { unit };
    Ok(Nanos(scaled(typed, "duration", value, unit, SPANS)?))
}

/// Parses a share such as `5%`, as a fraction: 0.05.
pub fn parse_share(typed: &str) -> Result<f64> {
    let number = typed
        .strip_suffix('%')
        .ok_or_else(|| Error::usage(format!("share `{typed}` needs a percent sign, such as 5%")))?;
    let number = number.trim();
    // Parsed as a decimal fraction instead of divided by 100, a share is the nearest float, which `percent` writes
    // back.
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let share: Result<f64, _> = if plain {
        format!("{number}e-2").parse()
    } else {
        number.parse::<f64>().map(|value| value / 100.0)
    };
    let share = share
        .map_err(|_| Error::usage(format!("share `{typed}` is not a number with %, such as 5%")))?;
    if !(0.0..=1.0).contains(&share) {
        return Err(Error::usage(format!("share `{typed}` must lie between 0% and 100%")));
    }
    // -0% is 0%.
    Ok(share + 0.0)
}

/// Formats a share as [`parse_share`] reads it, exactly: 0.05 as `5%`.
pub fn percent(share: f64) -> String {
    let text = format!("{share}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = format!("{fraction:0<2}");
    let (shifted, rest) = fraction.split_at(2);
    let whole = format!("{whole}{shifted}");
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    if rest.is_empty() { format!("{whole}%") } else { format!("{whole}.{rest}%") }
}

/// Formats a duration as [`parse_span`] reads it, exactly: as a whole number of the largest possible unit up to
/// seconds.
pub fn span_text(span: Nanos) -> String {
    match span.0 {
        ns if ns % 1_000_000_000 == 0 && ns > 0 => format!("{}s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

/// Formats a rate as [`parse_rate`] reads it, exactly.
pub fn rate_text(rate: BitRate) -> String {
    let (unit, factor) = exact_unit(rate.0, RATES);
    format!("{}{unit}", rate.0 / factor)
}

/// Formats a size as [`parse_bytes`] reads it, exactly.
pub fn bytes_text(size: Bytes) -> String {
    let (unit, factor) = exact_unit(size.0, &SIZES[..5]);
    format!("{}{unit}", size.0 / factor)
}

/// Returns the largest unit that divides `value`, and the size of that unit.
fn exact_unit<'a>(value: u64, table: &[(&'a str, f64)]) -> (&'a str, u64) {
    let fits = |factor: u64| value > 0 && value.is_multiple_of(factor);
    let exact = table.iter().rev().map(|(unit, factor)| (*unit, *factor as u64));
    exact.into_iter().find(|(_, factor)| fits(*factor)).unwrap_or((table[0].0, 1))
}

/// Parses a whole number such as `1000`.
pub fn parse_count(typed: &str) -> Result<u64> {
    typed.parse().map_err(|_| {
        Error::usage(format!("count `{typed}` is not a whole number such as 1000, at most 2^64-1"))
    })
}

/// Treatment of a number without a unit: read in the base unit, or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bare {
    /// Allowed: it can only mean bytes here, as in `size=64`.
    Allowed,
    /// Refused: it could mean two things.
    Refused,
}

fn split<'a>(typed: &'a str, what: &str, examples: &str) -> Result<(f64, &'a str)> {
    let end = typed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(typed.len());
    let (number, unit) = typed.split_at(end);
    let value: f64 = number.parse().map_err(|_| {
        Error::usage(format!("{what} `{typed}` does not start with a number; examples: {examples}"))
    })?;
    Ok((value, unit))
}

fn scaled(typed: &str, what: &str, value: f64, unit: &str, table: &[(&str, f64)]) -> Result<u64> {
    let factor = table.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let Some(factor) = factor else {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        return Err(crate::error::unknown(&format!("{what} unit"), unit, &names));
    };
    let scaled = value * factor;
    if !scaled.is_finite() || scaled > 9e18 {
        return Err(Error::usage(format!("{what} `{typed}` is too large")));
    }
    let whole = scaled.round();
    if (whole - scaled).abs() > 1e-6 * scaled.max(1.0) {
        return Err(Error::usage(format!(
            "{what} `{typed}` is not a whole number of {}",
            table[0].0
        )));
    }
    Ok(whole as u64)
}

impl fmt::Display for Bytes {
    /// Writes three significant digits in decimal units.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
    }
}

impl fmt::Display for BitRate {
    /// Writes three significant digits in decimal units.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "Pbit/s", "Ebit/s"])
    }
}

impl fmt::Display for PacketRate {
    /// Writes three significant digits in decimal units.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, &["pps", "kpps", "Mpps", "Gpps"])
    }
}

fn decimal(f: &mut fmt::Formatter<'_>, value: u64, units: &[&str]) -> fmt::Result {
    if value < 1000 {
        return write!(f, "{value} {}", units[0]);
    }
    let mut scaled = value as f64;
    let mut step = 0;
    while scaled >= 999.5 && step + 1 < units.len() {
        scaled /= 1000.0;
        step += 1;
    }
    let digits = if scaled < 9.995 { 2 } else { usize::from(scaled < 99.95) };
    write!(f, "{scaled:.digits$} {}", units[step])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_both_bases() {
        assert_eq!(parse_bytes("64kB", Bare::Refused).unwrap(), Bytes(64_000));
        assert_eq!(parse_bytes("64KiB", Bare::Refused).unwrap(), Bytes(65_536));
        assert_eq!(parse_bytes("1.5MB", Bare::Refused).unwrap(), Bytes(1_500_000));
        assert_eq!(parse_bytes("64", Bare::Allowed).unwrap(), Bytes(64));
    }

    #[test]
    fn each_bad_unit_gets_its_own_answer() {
        let say = |r: Result<Bytes>| r.unwrap_err().to_string();
        assert!(say(parse_bytes("64", Bare::Refused)).contains("has no unit; write 64B"));
        assert!(say(parse_bytes("64KB", Bare::Refused)).contains("did you mean `kB`?"));
        assert!(say(parse_bytes("-1kB", Bare::Refused)).contains("does not start with a number"));
        assert!(say(parse_bytes("0.3B", Bare::Refused)).contains("not a whole number"));
        assert!(say(parse_bytes("99999999999TB", Bare::Refused)).contains("too large"));
        assert!(parse_rate("20").unwrap_err().to_string().contains("write 20bit"));
        assert!(parse_rate("20MB").is_err());
        assert!(parse_span("10").unwrap_err().to_string().contains("write 10us"));
        assert!(parse_share("5").unwrap_err().to_string().contains("percent sign"));
        assert!(parse_share("101%").unwrap_err().to_string().contains("between"));
        assert!(parse_count("1e3").is_err());
    }

    #[test]
    fn what_is_written_exactly_is_read_back() {
        for typed in ["0%", "1%", "0.1%", "12.5%", "99.999%", "100%", "0.00001%"] {
            assert_eq!(percent(parse_share(typed).unwrap()), typed);
        }
        let mut share = 1e-9;
        while share < 1.0 {
            assert_eq!(parse_share(&percent(share)).unwrap().to_bits(), f64::to_bits(share));
            share *= 1.37;
        }
        for ns in [0, 1, 999, 1_000, 1_500_000, 25_000_000, 3_600_000_000_000, 1_000_000_001] {
            assert_eq!(parse_span(&span_text(Nanos(ns))).unwrap(), Nanos(ns));
        }
        assert_eq!(span_text(Nanos::from_millis(25)), "25ms");
        for n in [0, 4, 1_500, 20_000_000, 1_234_567, 10_000_000_000] {
            assert_eq!(parse_rate(&rate_text(BitRate(n))).unwrap(), BitRate(n));
            assert_eq!(parse_bytes(&bytes_text(Bytes(n)), Bare::Refused).unwrap(), Bytes(n));
        }
        assert_eq!(rate_text(BitRate(20_000_000)), "20mbit");
        assert_eq!(bytes_text(Bytes(64_000)), "64kB");
    }

    #[test]
    fn rates_spans_and_shares() {
        assert_eq!(parse_rate("1.5mbit").unwrap(), BitRate(1_500_000));
        assert_eq!(parse_span("500us").unwrap(), Nanos(500_000));
        assert_eq!(parse_span("0").unwrap(), Nanos::ZERO);
        assert_eq!(parse_share("5%").unwrap(), 0.05);
    }

    #[test]
    fn offered_rates_are_bits_packets_or_max() {
        let bits = |n| OfferedRate::Bits(BitRate(n));
        let packets = |n| OfferedRate::Packets(PacketRate(n));
        for (typed, want) in [
            ("20mbit", bits(20_000_000)),
            ("64kbit", bits(64_000)),
            ("500pps", packets(500)),
            ("10kpps", packets(10_000)),
            ("1.5Mpps", packets(1_500_000)),
            ("max", OfferedRate::Max),
        ] {
            assert_eq!(parse_offered(typed).unwrap(), want, "{typed}");
        }
        let say = |typed: &str| parse_offered(typed).unwrap_err().to_string();
        assert!(say("20").contains("write 20mbit for bits or 20pps"));
        assert!(say("1mpps").contains("did you mean `Mpps`?"), "{}", say("1mpps"));
        assert!(say("20Mbit").contains("did you mean `mbit`?"));
        assert!(say("fast").contains("the word max"));
        assert!(say("0.3pps").contains("not a whole number of pps"));
        assert_eq!(PacketRate(50_000).to_string(), "50.0 kpps");
    }

    #[test]
    fn display_rounds_to_three_digits() {
        assert_eq!(Bytes(999).to_string(), "999 B");
        assert_eq!(Bytes(1_400).to_string(), "1.40 kB");
        assert_eq!(Bytes(999_999).to_string(), "1.00 MB");
        assert_eq!(BitRate(72_345_000_000).to_string(), "72.3 Gbit/s");
    }

    #[test]
    fn exact_sizes_can_be_typed_again() {
        let shown = [4096, 536_870_912, 1500, 64_000, 100_000_000_000, 0].map(exact_bytes);
        assert_eq!(shown, ["4KiB", "512MiB", "1500B", "64kB", "100GB", "0B"]);
        for bytes in [1, 999, 1000, 1024, 1025, 65_536, 1 << 40, 3 << 30] {
            assert_eq!(parse_bytes(&exact_bytes(bytes), Bare::Refused).unwrap().0, bytes);
        }
    }
}
