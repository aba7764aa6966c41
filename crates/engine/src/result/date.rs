//! Date and time of day in UTC, as in results and file names.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;

/// Formats a time as `2026-07-26T09:05:03Z` (RFC 3339, whole seconds). A time before 1970 counts as 1970.
pub fn rfc3339(at: SystemTime) -> String {
    let [year, month, day, hour, minute, second] = civil(at);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Formats a time as `20260726-090503`, for file names that sort by time.
pub fn compact(at: SystemTime) -> String {
    let [year, month, day, hour, minute, second] = civil(at);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Parses RFC 3339 text in UTC, to the second: `2026-07-26T09:05:03.25Z`. `None` for anything else, and
/// for times before 1970.
pub fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    let text = text.strip_suffix('Z')?;
    let (day, time) = text.split_once('T')?;
    let mut date = day.splitn(3, '-').map(|part| part.parse::<u64>());
    let mut next = || date.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let mut time = time.split('.').next()?.splitn(3, ':').map(|part| part.parse::<u64>());
    let mut next = || time.next()?.ok();
    let (hour, minute, second) = (next()?, next()?, next()?);
    let sound = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    if !sound {
        return None;
    }
    // The inverse of `civil`, from the same source.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    let seconds = days.checked_sub(719_468)? * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Formats a time in milliseconds since 1970 as `2026-07-26 09:05`.
pub fn minute(ms: u64) -> String {
    let [year, month, day, hour, minute, _] = civil(from_ms(ms));
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

/// Formats the time of day of a time in milliseconds since 1970 as `12:38:38 UTC`.
pub fn time_of_day(ms: u64) -> String {
    let [_, _, _, hour, minute, second] = civil(from_ms(ms));
    format!("{hour:02}:{minute:02}:{second:02} UTC")
}

/// Formats a day counted from 1970-01-01 as `2026-07-26`.
pub fn day(number: u64) -> String {
    let [year, month, day, ..] = civil(from_ms(number.saturating_mul(SECONDS_PER_DAY * 1_000)));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Converts milliseconds since 1970. A number in a file may be no valid time; a larger one counts as the end of
/// year 9999.
fn from_ms(ms: u64) -> SystemTime {
    const LAST_MS: u64 = 253_402_300_799_000;
    UNIX_EPOCH + Duration::from_millis(ms.min(LAST_MS))
}

/// Returns year, month, day, hour, minute, second.
///
/// The Gregorian calendar repeats every 400 years of 146,097 days. A year that begins in March has
/// its leap day at its end, and its months then have 153 days in every five (Hinnant, "chrono-
/// compatible low-level date algorithms", `civil_from_days`).
fn civil(at: SystemTime) -> [u64; 6] {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, of_day) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    // Count from 0000-03-01, so that eras and years begin in March.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    [year, month, day, hour, minute, second]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values from `date -u -d @N`.
    #[test]
    fn known_moments() {
        for (seconds, want) in [
            (0, "1970-01-01T00:00:00Z"),
            (68_169_599, "1972-02-28T23:59:59Z"),
            (68_169_600, "1972-02-29T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            let at = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(rfc3339(at), want);
            assert_eq!(parse_rfc3339(want), Some(at));
        }
        let at = UNIX_EPOCH + Duration::from_secs(1_735_689_599);
        assert_eq!(compact(at), "20241231-235959");
        assert_eq!(minute(1_735_689_599_999), "2024-12-31 23:59");
        assert_eq!((day(0), day(20_454)), ("1970-01-01".into(), "2026-01-01".into()));
        assert_eq!(minute(u64::MAX), "9999-12-31 23:59");
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(9)), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn what_is_no_time_is_none() {
        let fraction = parse_rfc3339("2000-03-01T00:00:00.999999Z");
        assert_eq!(fraction, parse_rfc3339("2000-03-01T00:00:00Z"));
        for text in ["", "Z", "2000-03-01", "2000-13-01T00:00:00Z", "1969-01-01T00:00:00Z", "-TZ"] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
