//! Time that a shell or a program put in front of a line: `date`, `ts`, `ping -D`, PowerShell's `Get-Date`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::{Date, Month};

use super::text::{is_among, placed_words};

/// Time in front of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LineStamp {
    /// Seconds since 1970; without a date, since any midnight.
    pub seconds: f64,
    /// Knowledge of the date and the time zone.
    pub basis: StampBasis,
}

/// Knowledge of the date and the time zone of a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StampBasis {
    /// Both are known.
    Absolute,
    /// The date is known, and the time is taken as UTC.
    Zoneless,
    /// The date is not known: only differences mean something.
    Undated,
}

/// Doubt about stamps without a time zone.
pub(super) const ZONELESS: &str = "Its times name no time zone, and are taken as UTC.";

impl LineStamp {
    /// Returns the point in time, if the date is known.
    pub(super) fn at(&self) -> Option<SystemTime> {
        let since = Duration::try_from_secs_f64(self.seconds).ok()?;
        (self.basis != StampBasis::Undated).then(|| UNIX_EPOCH.checked_add(since)).flatten()
    }
}

/// Largest number of words of a stamp: `Wed Jun 26 01:09:00 PM CEST 2024:`.
const MOST_WORDS: usize = 8;

/// Largest number of words before the time of day that are no date: the name of a day, of a month in any language.
const MOST_NAMES: usize = 2;

/// Returns the time in front of a line, and the rest of the line.
pub(super) fn split(line: &str) -> (Option<LineStamp>, &str) {
    let mut parts = StampParts::default();
    let mut end = None;
    for (start, word) in placed_words(line).take(MOST_WORDS) {
        let step = if parts.seconds.is_none() { parts.before(word) } else { parts.after(word) };
        match step {
            StampStep::Part => {}
            StampStep::End => break,
            StampStep::None if parts.seconds.is_none() => return (None, line),
            StampStep::None => break,
        }
        if parts.seconds.is_some() {
            end = Some(start + word.len());
        }
        if parts.seconds.is_some() && (parts.is_epoch || word.ends_with([':', ']', ')', '|'])) {
            break;
        }
    }
    match (parts.stamp(), end) {
        (Some(stamp), Some(end)) => (Some(stamp), behind(&line[end..])),
        _ => (None, line),
    }
}

/// Returns the text behind a stamp and its separator. Dashes of a rule (`--- host ping statistics ---`) stay.
fn behind(rest: &str) -> &str {
    let rest = rest.trim_start_matches([':', ',', ';', '|', ']', ')', '>', ' ', '\t']);
    let dash = ["- ", "– ", "— "].iter().find_map(|dash| rest.strip_prefix(dash));
    dash.unwrap_or(rest).trim_start()
}

/// Outcome of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StampStep {
    Part,
    /// The stamp ended before this word.
    End,
    /// No part of a stamp.
    None,
}

/// Parts of a stamp read so far.
#[derive(Default)]
struct StampParts {
    date: Option<Date>,
    year: Option<i32>,
    month: Option<Month>,
    day: Option<u8>,
    /// Seconds since midnight, or since 1970.
    seconds: Option<f64>,
    is_epoch: bool,
    /// Minutes that the zone is ahead of UTC.
    zone_min: Option<i64>,
    has_half: bool,
    names: usize,
}

impl StampParts {
    /// Takes a word before, or with, the time of day.
    fn before(&mut self, word: &str) -> StampStep {
        let is_first = self.is_empty();
        let word = word.trim_start_matches(['[', '(', '"']);
        let word = word.trim_end_matches([']', ')', ',', ':', '"', '|']);
        if is_first && let Some(seconds) = epoch(word) {
            (self.seconds, self.is_epoch) = (Some(seconds), true);
            return StampStep::Part;
        }
        if let Some((date, time)) = word.split_once(['T', '_']).filter(|(date, _)| date.len() >= 8)
            && let Some(date) = date_of(date)
        {
            self.date = Some(date);
            return self.time_with_zone(time);
        }
        if let Some(seconds) = time_of_day(word) {
            self.seconds = Some(seconds);
            return StampStep::Part;
        }
        if let Some(date) = date_of(word) {
            self.date = Some(date);
        } else if let Some(month) = month(word) {
            self.month = Some(month);
        } else if let Ok(number) = word.trim_end_matches('.').parse::<i32>() {
            match number {
                1..=31 => self.day = u8::try_from(number).ok(),
                1970..=9999 => self.year = Some(number),
                _ => return StampStep::None,
            }
        } else if word.trim_end_matches('.').chars().all(char::is_alphabetic) {
            // The month before was the name of a day: `mar. juin 25`.
            self.month = None;
            self.names += 1;
            if self.names > MOST_NAMES {
                return StampStep::None;
            }
        } else {
            return StampStep::None;
        }
        StampStep::Part
    }

    /// Takes a word behind the time of day: a half of the day, a zone, a year.
    fn after(&mut self, word: &str) -> StampStep {
        let word = word.trim_end_matches([':', ',', ']', ')', '|', '"']);
        let half = match word {
            "AM" | "am" => Some(0.0),
            "PM" | "pm" => Some(43_200.0),
            _ => None,
        };
        if let Some(from) = half {
            // 12 o'clock is the start of its half.
            let moved = self.seconds.filter(|_| !self.has_half).map(|own| own % 43_200.0 + from);
            (self.seconds, self.has_half) = (moved.or(self.seconds), true);
            return StampStep::Part;
        }
        if self.zone_min.is_none()
            && let Some(minutes) = zone(word)
        {
            self.zone_min = minutes;
            return StampStep::Part;
        }
        match word.parse::<i32>() {
            Ok(year @ 1970..=9999)
                if self.year.is_none() && self.date.is_none() && self.day.is_some() =>
            {
                self.year = Some(year);
                StampStep::Part
            }
            _ => StampStep::End,
        }
    }

    fn is_empty(&self) -> bool {
        self.names == 0
            && self.date.is_none()
            && self.year.is_none()
            && self.month.is_none()
            && self.day.is_none()
    }

    /// Takes `13:09:01.25+02:00`, `13:09:01Z`.
    fn time_with_zone(&mut self, text: &str) -> StampStep {
        let end = text.rfind(['+', '-', 'Z']).unwrap_or(text.len());
        let Some(seconds) = time_of_day(&text[..end]) else { return StampStep::None };
        self.seconds = Some(seconds);
        if end < text.len() {
            self.zone_min = zone(&text[end..]).flatten();
        }
        StampStep::Part
    }

    fn stamp(&self) -> Option<LineStamp> {
        let seconds = self.seconds?;
        if self.is_epoch {
            return Some(LineStamp { seconds, basis: StampBasis::Absolute });
        }
        // A leap year, so that each day of a date without a year exists.
        let year = self.year.unwrap_or(2000);
        let parts = self.month.zip(self.day);
        let built = parts.and_then(|(month, day)| Date::from_calendar_date(year, month, day).ok());
        let date = self.date.or(built);
        let midnight = date.map_or(0, |date| date.midnight().assume_utc().unix_timestamp());
        let zone_s = self.zone_min.unwrap_or(0) * 60;
        let is_dated = date.is_some() && (self.date.is_some() || self.year.is_some());
        let basis = match (is_dated, self.zone_min) {
            (false, _) => StampBasis::Undated,
            (true, None) => StampBasis::Zoneless,
            (true, Some(_)) => StampBasis::Absolute,
        };
        Some(LineStamp { seconds: seconds + (midnight - zone_s) as f64, basis })
    }
}

/// Parses seconds since 1970, also in milli-, micro- or nanoseconds.
fn epoch(word: &str) -> Option<f64> {
    let whole = word.split('.').next()?;
    if !word.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let unit = match whole.len() {
        9 | 10 => 1.0,
        13 => 1e3,
        16 => 1e6,
        19 => 1e9,
        _ => return None,
    };
    Some(word.parse::<f64>().ok()? / unit)
}

/// Parses `13:09:01`, with decimals or not, in seconds since midnight.
fn time_of_day(word: &str) -> Option<f64> {
    let (clock, decimals) = match word.find(['.', ',']) {
        Some(at) => (&word[..at], format!("0.{}", &word[at + 1..]).parse::<f64>().ok()?),
        None => (word, 0.0),
    };
    let mut parts = clock.split(':').map(|part| {
        let is_number = matches!(part.len(), 1 | 2) && part.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| part.parse::<u32>().ok()).flatten()
    });
    let (Some(Some(hour)), Some(Some(minute)), Some(Some(second)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let is_time = hour < 24 && minute < 60 && second < 61;
    is_time.then(|| f64::from(hour * 3_600 + minute * 60 + second) + decimals)
}

/// Parses a date in numbers: year first, or last; with dots and slashes the day is first if it can be no month, and
/// with dots always.
fn date_of(word: &str) -> Option<Date> {
    let separator = word.chars().find(|c| !c.is_ascii_digit())?;
    if !matches!(separator, '-' | '/' | '.') {
        return None;
    }
    let mut parts = word.split(separator);
    let [a, b, c] = [parts.next()?, parts.next()?, parts.next()?];
    if parts.next().is_some() {
        return None;
    }
    let number = |text: &str| text.parse::<i32>().ok();
    let (year, month, day) = match (a.len(), c.len()) {
        (4, 1..=2) => (number(a)?, number(b)?, number(c)?),
        (1..=2, 4) if separator == '/' && number(a)? <= 12 => (number(c)?, number(a)?, number(b)?),
        (1..=2, 4) => (number(c)?, number(b)?, number(a)?),
        _ => return None,
    };
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    (1970..=9999).contains(&year).then_some(())?;
    Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()
}

/// Parses the English name of a month, or its first three letters.
fn month(word: &str) -> Option<Month> {
    const NAMES: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let lower = word.trim_end_matches('.').to_ascii_lowercase();
    if !(3..=9).contains(&lower.len()) || !lower.bytes().all(|b| b.is_ascii_lowercase()) {
        return None;
    }
    let at = NAMES.iter().position(|name| lower.starts_with(name))?;
    let month = Month::try_from(u8::try_from(at + 1).ok()?).ok()?;
    // `Mark` is no month: the name is short, or whole.
    let is_name = lower.len() <= 4 || month.to_string().to_ascii_lowercase() == lower;
    is_name.then_some(month)
}

/// Returns the minutes of a time zone ahead of UTC; inside `None` for a name that several zones have; `None` for a
/// word that is no zone.
fn zone(word: &str) -> Option<Option<i64>> {
    const NAMED: &[(&str, i64)] = &[
        ("Z UTC GMT WET", 0),
        ("WEST CET", 60),
        ("CEST EET", 120),
        ("EEST MSK", 180),
        ("JST KST", 540),
        ("AEST", 600),
        ("AEDT", 660),
        ("EST CDT", -300),
        ("EDT", -240),
        ("MST PDT", -420),
        ("MDT", -360),
        ("PST", -480),
    ];
    const SHARED: &str = "CST IST BST AST ADT SAST NZST NZDT HKT SGT";
    if let Some((_, minutes)) = NAMED.iter().find(|(names, _)| is_among(word, names)) {
        return Some(Some(*minutes));
    }
    if is_among(word, SHARED) {
        return Some(None);
    }
    let sign = match word.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let digits: String = word[1..].chars().filter(|c| *c != ':').collect();
    if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part =
        |range: std::ops::Range<usize>| digits.get(range).and_then(|d| d.parse::<i64>().ok());
    let (hours, minutes) = (part(0..2)?, part(2..4).unwrap_or(0));
    (hours <= 14 && minutes < 60).then_some(Some(sign * (hours * 60 + minutes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-06-26 13:09:01 UTC.
    const THEN: f64 = 1_719_407_341.0;

    #[test]
    fn stamps_of_many_makers_are_read() {
        use StampBasis::{Absolute, Undated, Zoneless};
        let hours = |n: f64| THEN - n * 3_600.0;
        for (stamp, seconds, basis) in [
            ("2024-06-26 13:09:01:", THEN, Zoneless),
            ("2024-06-26T13:09:01.500Z", THEN + 0.5, Absolute),
            ("2024-06-26T13:09:01+02:00", hours(2.0), Absolute),
            ("2024-06-26T13:09:01,250+0200:", hours(2.0) + 0.25, Absolute),
            ("2024-06-26_13:09:01", THEN, Zoneless),
            ("[2024-06-26 13:09:01.25]", THEN + 0.25, Zoneless),
            ("[2024/06/26 13:09:01]:", THEN, Zoneless),
            ("26.06.2024 13:09:01 |", THEN, Zoneless),
            ("26/06/2024 13:09:01 -", THEN, Zoneless),
            ("6/26/2024 1:09:01 PM -", THEN, Zoneless),
            ("6/26/2024 12:09:01 AM,", THEN - 13.0 * 3_600.0, Zoneless),
            ("Wed Jun 26 13:09:01 CEST 2024:", hours(2.0), Absolute),
            ("Wed Jun 26 01:09:01 PM UTC 2024", THEN, Absolute),
            ("Wed 26 Jun 2024 01:09:01 PM CST", THEN, Zoneless),
            ("Wed 26 Jun 13:09:01 -03 2024:", hours(-3.0), Absolute),
            ("[1719407341.000000]", THEN, Absolute),
            ("1719407341", THEN, Absolute),
            ("1719407341000", THEN, Absolute),
            ("13:09:01", 47_341.0, Undated),
            ("[13:09:01.5]", 47_341.5, Undated),
            ("mer. juin 26 13:09:01 CEST 2024:", 40_141.0, Undated),
            ("mar. juin 25 13:09:01 CEST 2024:", 40_141.0, Undated),
        ] {
            let line = format!("{stamp} 64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=1 ms");
            let (got, rest) = split(&line);
            assert!(rest.starts_with("64 bytes"), "{line}: {rest}");
            assert_eq!(got, Some(LineStamp { seconds, basis }), "{line}");
        }
    }

    #[test]
    fn a_date_without_a_year_keeps_its_days_apart() {
        let [first, second] = ["Jun 26 23:59:59 x", "Jun 27 00:00:01 x"].map(|line| split(line).0);
        assert_eq!(second.unwrap().seconds - first.unwrap().seconds, 2.0);
        assert_eq!(first.unwrap().at(), None);
    }

    #[test]
    fn lines_without_a_stamp_stay_whole() {
        for line in [
            "64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=1 ms",
            "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.",
            "--- 10.0.0.1 ping statistics ---",
            "Reply from 10.0.0.1: bytes=32 time=1ms TTL=64",
            "3 packets transmitted, 3 received",
            "2001:db8::1 is alive",
            "From 10.0.0.1 icmp_seq=1",
            "",
            " ",
            "\u{e9}",
        ] {
            assert_eq!(split(line), (None, line), "{line}");
        }
        let (stamp, rest) = split("2024-06-26 13:09:21: ");
        assert_eq!((stamp.is_some(), rest), (true, ""));
        assert_eq!(split("13:09:01 --- h ping statistics ---").1, "--- h ping statistics ---");
        assert_eq!(split("13:09:01 PING h (10.0.0.1)").1, "PING h (10.0.0.1)");
    }
}
