//! Date and time of day in UTC, as in results and file names.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::format_description::well_known::{Rfc2822, Rfc3339};
use time::macros::format_description;
use time::{OffsetDateTime, UtcDateTime};

type Format = time::format_description::StaticFormatDescription;

/// Formats a time as `2026-07-26T09:05:03Z` (RFC 3339, whole seconds). A time before 1970 counts as 1970.
pub fn rfc3339(at: SystemTime) -> String {
    written(at, format_description!(version = 2, "[year]-[month]-[day]T[hour]:[minute]:[second]Z"))
}

/// Formats a time as `20260726-090503`, for file names that sort by time.
pub fn compact(at: SystemTime) -> String {
    written(at, format_description!(version = 2, "[year][month][day]-[hour][minute][second]"))
}

/// Parses RFC 3339 text, to the second: `2026-07-26T09:05:03.25Z`, or with an offset from UTC. `None` for anything
/// else, and for times before 1970.
pub fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(at.unix_timestamp()).ok()?))
}

/// Parses a date of RFC 2822, such as `Fri, 20 Nov 2026 18:02:22 GMT`, to milliseconds since 1970. `None` for anything
/// else, and for times before 1970.
pub fn parse_rfc2822(text: &str) -> Option<u64> {
    // The RFC has no name for UTC but GMT.
    let at = OffsetDateTime::parse(&text.trim().replace("UTC", "GMT"), &Rfc2822).ok()?;
    u64::try_from(at.unix_timestamp()).ok()?.checked_mul(1_000)
}

/// Formats a time in milliseconds since 1970 as `2026-07-26 09:05`.
pub fn minute(ms: u64) -> String {
    let format = format_description!(version = 2, "[year]-[month]-[day] [hour]:[minute]");
    written(from_ms(ms), format)
}

/// Formats the time of day of a time in milliseconds since 1970 as `12:38:38 UTC`.
pub fn time_of_day(ms: u64) -> String {
    written(from_ms(ms), format_description!(version = 2, "[hour]:[minute]:[second] UTC"))
}

/// Formats a day counted from 1970-01-01 as `2026-07-26`.
pub fn day(number: u64) -> String {
    let at = from_ms(number.saturating_mul(86_400_000));
    written(at, format_description!(version = 2, "[year]-[month]-[day]"))
}

/// Converts milliseconds since 1970. A number in a file may be no valid time; a larger one counts as the end of
/// year 9999.
fn from_ms(ms: u64) -> SystemTime {
    const LAST_MS: u64 = 253_402_300_799_000;
    UNIX_EPOCH + Duration::from_millis(ms.min(LAST_MS))
}

fn written(at: SystemTime, format: Format) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let at = i64::try_from(seconds).ok().and_then(|s| UtcDateTime::from_unix_timestamp(s).ok());
    at.unwrap_or(UtcDateTime::UNIX_EPOCH).format(format).unwrap_or_default()
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
        assert_eq!(
            fraction,
            parse_rfc3339("2000-03-01T02:00:00.5+02:00"),
            "irtt writes local time"
        );
        assert!(fraction.is_some());
        for text in ["", "Z", "2000-03-01", "2000-13-01T00:00:00Z", "1969-01-01T00:00:00Z", "-TZ"] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
