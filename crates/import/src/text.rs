//! Numbers in the text that programs print for people: with their key, sign and unit, in any language.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::unit::Scale;
use deadheat_contract::measurements::Unit;

/// Number with the key before it and the unit behind it: `time=0.045 ms`, `Zeit<1ms`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair<'a> {
    /// Last word before the sign.
    pub key: &'a str,
    /// `=` or `<`.
    pub sign: char,
    /// Digits, with a point or a comma.
    pub number: &'a str,
    /// Letters right behind the number, or behind a space; empty if there are none.
    pub unit: &'a str,
    /// Position of the number in the line, in bytes.
    pub at: usize,
}

impl Pair<'_> {
    /// Returns the number.
    pub(super) fn value(&self) -> Option<f64> {
        decimal(self.number)
    }

    /// Returns the number if it is whole.
    pub(super) fn whole(&self) -> Option<u64> {
        self.number.parse().ok()
    }

    /// Returns true for this key, in capital letters or not.
    pub(super) fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key)
    }

    /// Returns the time in nanoseconds, if the unit is one of time.
    pub(super) fn time_ns(&self) -> Option<u64> {
        self.time_in(time_unit(self.unit)?)
    }

    /// Returns the time in nanoseconds, in milliseconds if the unit is not known.
    pub(super) fn time_or_ms(&self) -> Option<u64> {
        self.time_in(time_unit(self.unit).unwrap_or(MILLIS))
    }

    fn time_in(&self, scale: Scale) -> Option<u64> {
        scale.whole(self.value()?).ok()
    }
}

/// Milliseconds.
pub(super) const MILLIS: Scale = Scale { name: "ms", unit: Unit::Nanos, factor: 1e6 };

/// Microseconds.
pub(super) const MICROS: Scale = Scale { name: "us", unit: Unit::Nanos, factor: 1e3 };

/// Seconds.
pub(super) const SECONDS: Scale = Scale { name: "s", unit: Unit::Nanos, factor: 1e9 };

/// Names of units of time beside the names of a [`Scale`]: in translations of ping the millisecond in Ukrainian and Russian, Chinese,
/// Japanese, Korean and Georgian, and English words.
const TIMES: [(&str, Scale); 3] = [
    ("мс мсек 毫秒 ミリ秒 밀리초 მწმ millisecond milliseconds", MILLIS),
    ("microsecond microseconds", MICROS),
    ("secs second", SECONDS),
];

/// Returns the unit of time with this name, in some languages.
pub(super) fn time_unit(name: &str) -> Option<Scale> {
    let own = TIMES.iter().find(|(names, _)| is_among(name, names)).map(|(_, scale)| *scale);
    own.or_else(|| Scale::named(name)).filter(|scale| scale.unit == Unit::Nanos)
}

/// Returns the words of a line with their places, in bytes.
pub(super) fn placed_words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let place = |word: &str| word.as_ptr() as usize - line.as_ptr() as usize;
    line.split_whitespace().map(move |word| (place(word), word))
}

/// Returns true if a word is among others, which have spaces between them.
pub(super) fn is_among(word: &str, others: &str) -> bool {
    others.split(' ').any(|own| own == word)
}

/// Parses durations such as `1m2.5s` and `12ms238us`, into nanoseconds.
pub(super) fn duration(text: &str) -> Option<f64> {
    let (mut rest, mut sum) = (text, 0.0);
    loop {
        let number = number_at(rest)?;
        let unit = &rest[number.len()..];
        let end = unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len());
        sum += decimal(number)? * time_unit(&unit[..end])?.factor;
        rest = &unit[end..];
        if rest.is_empty() {
            return Some(sum);
        }
    }
}

/// Parses a number with a point or a comma before its decimals.
pub(super) fn decimal(number: &str) -> Option<f64> {
    number.replace(',', ".").parse().ok().filter(|value: &f64| value.is_finite())
}

/// Returns the numbers behind `=` or `<`, with the word before the sign. An address (`ip=127.0.0.1`) is none.
pub(super) fn pairs(line: &str) -> Vec<Pair<'_>> {
    let signs = line.char_indices().filter(|(_, c)| matches!(c, '=' | '<'));
    signs.filter_map(|(at, sign)| pair(line, at, sign)).collect()
}

fn pair(line: &str, sign_at: usize, sign: char) -> Option<Pair<'_>> {
    let before = line[..sign_at].trim_end();
    let starts = before.char_indices().rev().take_while(|(_, c)| is_key(*c));
    let key = &before[starts.last().map_or(before.len(), |(at, _)| at)..];
    let behind = line[sign_at + 1..].trim_start_matches(is_space);
    let at = line.len() - behind.len();
    let number = number_at(behind)?;
    let rest = &behind[number.len()..];
    let is_address = rest.starts_with(['.', ':', '-', '_'])
        && rest[1..].starts_with(|c: char| c.is_alphanumeric());
    (!is_address).then_some(())?;
    Some(Pair { key, sign, number, unit: unit_at(rest), at })
}

fn is_key(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '%' | '/' | '-')
}

/// Returns true for a space, also for one at which no line may break.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{a0}' | '\u{202f}')
}

/// Returns the number at the start of a text: digits, and decimals behind a point or a comma.
pub(super) fn number_at(text: &str) -> Option<&str> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let whole = digits(text);
    if whole == 0 {
        return None;
    }
    let behind = &text[whole..];
    let decimals = behind.strip_prefix(['.', ',']).map_or(0, digits);
    Some(&text[..if decimals > 0 { whole + 1 + decimals } else { whole }])
}

/// Returns the letters at the start of a text, or behind a space, unless they are the next key.
fn unit_at(text: &str) -> &str {
    let text = text.strip_prefix(is_space).unwrap_or(text);
    let end = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    let next = text[end..].trim_start();
    if next.starts_with(['=', '<']) { "" } else { &text[..end] }
}

/// Returns all whole numbers of a line.
pub(super) fn whole_numbers(line: &str) -> Vec<u64> {
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// Returns the first IP address of a line: its text, and the position behind it.
pub(super) fn address(line: &str) -> Option<(&str, usize)> {
    let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
    let mut from = 0;
    while let Some(start) = line[from..].find(is_part).map(|at| from + at) {
        let length = line[start..].find(|c| !is_part(c)).unwrap_or(line.len() - start);
        // A colon behind an address belongs to the sentence, but `::` at its end to the address.
        let mut word = Some(&line[start..start + length]);
        while let Some(text) = word {
            if is_address(text) {
                return Some((text, start + text.len()));
            }
            word = text.strip_suffix([':', '.']);
        }
        from = start + length;
    }
    None
}

fn is_address(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok()
        || text.len() >= 2 && text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Vec<(&str, char, &str, &str)> {
        pairs(line).into_iter().map(|pair| (pair.key, pair.sign, pair.number, pair.unit)).collect()
    }

    #[test]
    fn pairs_have_their_key_sign_number_and_unit() {
        assert_eq!(
            shown("64 bytes from h: icmp_seq=1 ttl=64 time=0.045 ms (DUP!)"),
            [("icmp_seq", '=', "1", ""), ("ttl", '=', "64", ""), ("time", '=', "0.045", "ms")]
        );
        assert_eq!(
            shown("8.8.8.8 からの応答: バイト数 =32 時間 <1ms TTL=55"),
            [("バイト数", '=', "32", ""), ("時間", '<', "1", "ms"), ("TTL", '=', "55", "")]
        );
        assert_eq!(
            shown("64 字节，来自 h: icmp_seq=1 ttl=42 时间=182 毫秒")[2],
            ("时间", '=', "182", "毫秒")
        );
        assert_eq!(shown("temps=1,25\u{a0}ms")[0], ("temps", '=', "1,25", "ms"));
        assert_eq!(shown("len=46 ip=127.0.0.1 id=0 flags=RA rtt=7.9 ms").len(), 3);
        assert_eq!(
            shown("已发送 = 4，已接收 = 3，丢失 = 1 (25% 丢失)，"),
            [("已发送", '=', "4", ""), ("已接收", '=', "3", ""), ("丢失", '=', "1", "")]
        );
        for none in ["", "=", "<", "= ", "a=b", "seq==", "a<", "=é"] {
            assert!(pairs(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn addresses_are_found_between_words() {
        for (line, want) in [
            ("From 10.0.0.1 icmp_seq=1 Destination Host Unreachable", Some("10.0.0.1")),
            ("92 bytes from h.example (192.0.2.24): Destination", Some("192.0.2.24")),
            ("Reply from 2001:db8::1: time<1ms", Some("2001:db8::1")),
            ("Reply from ::1: time<1ms", Some("::1")),
            ("Antwort von fe80::: Zeit", Some("fe80::")),
            ("at 13:09:01 there was none", None),
            ("Request timeout for icmp_seq 0", None),
            ("bad: a.b.c.d, 1.2.3", None),
        ] {
            assert_eq!(address(line).map(|(text, _)| text), want, "{line}");
        }
        assert_eq!(address("ö 10.0.0.1: x").map(|(_, end)| &"ö 10.0.0.1: x"[end..]), Some(": x"));
    }

    #[test]
    fn times_take_the_unit_that_is_there() {
        let ns = |line| pairs(line)[0].time_ns();
        assert_eq!(ns("time=12.5 ms"), Some(12_500_000));
        assert_eq!(ns("time=12,5 мс"), Some(12_500_000));
        assert_eq!(ns("rtt=76.9µs"), Some(76_900));
        assert_eq!(ns("ttl=64 DF"), None);
        assert_eq!(pairs("akud=1.5 mts")[0].time_or_ms(), Some(1_500_000));
    }
}
