//! Times at which a link is down: it takes no packet, keeps none in its queue and lets none leave.

use std::fmt;

use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::{parse_span, span_text};

/// Latest end of a time, since the path began.
const LATEST: Nanos = Nanos::from_secs(86_400);

/// Times at which a link is down, in order and apart from each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DownTimes(Vec<DownTime>);

/// Time at which a link is down, since the path began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownTime {
    /// First moment at which it is down.
    pub from: Nanos,
    /// First moment at which it is up again.
    pub to: Nanos,
}

impl DownTimes {
    /// Returns true if the link is never down.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the times in order.
    pub fn iter(&self) -> impl Iterator<Item = DownTime> + '_ {
        self.0.iter().copied()
    }

    /// Returns true if the link is down at this moment.
    #[inline]
    pub fn includes(&self, at: Nanos) -> bool {
        self.meets(at, at)
    }

    /// Returns true if the link is down at any moment from the first to the second, both included.
    #[inline]
    pub fn meets(&self, from: Nanos, to: Nanos) -> bool {
        self.next(from).is_some_and(|time| time.from <= to)
    }

    /// Returns the first time that ends after this moment.
    #[inline]
    pub fn next(&self, at: Nanos) -> Option<DownTime> {
        self.0.get(self.0.partition_point(|time| time.to <= at)).copied()
    }

    /// Returns the sum of all times.
    pub fn total(&self) -> Nanos {
        self.iter().fold(Nanos::ZERO, |sum, time| sum + (time.to - time.from))
    }

    /// Adds other times.
    pub fn add(&mut self, other: &DownTimes) {
        let mut all = [&self.0[..], &other.0].concat();
        all.sort_by_key(|time| time.from);
        self.0.clear();
        for time in all {
            match self.0.last_mut() {
                Some(last) if time.from <= last.to => last.to = last.to.max(time.to),
                _ => self.0.push(time),
            }
        }
    }

    /// Parses times such as `10s-13s` or `10s-13s/20s-20500ms`.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the mistake and a correct form.
    pub fn parse(typed: &str) -> Result<DownTimes> {
        let mut all: Vec<DownTime> = Vec::new();
        for part in typed.split('/') {
            let Some((from, to)) = part.split_once('-') else {
                return Err(Error::usage(format!(
                    "`{part}` is no time from and to; write 10s-13s, and several as 10s-13s/20s-21s"
                )));
            };
            let time = DownTime { from: parse_span(from)?, to: parse_span(to)? };
            if time.from >= time.to {
                return Err(Error::usage(format!(
                    "`{part}` ends before it begins; write {to}-{from}"
                )));
            }
            if time.to > LATEST {
                return Err(Error::usage(format!(
                    "`{part}` ends later than a day after the path began"
                )));
            }
            if let Some(last) = all.last().filter(|last| time.from <= last.to) {
                return Err(Error::usage(format!(
                    "`{part}` begins before a moment after {}; write the times in order and apart from each other",
                    span_text(last.to)
                )));
            }
            all.push(time);
        }
        Ok(DownTimes(all))
    }
}

impl fmt::Display for DownTimes {
    /// Writes them as [`DownTimes::parse`] reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, time) in self.iter().enumerate() {
            let sign = if at > 0 { "/" } else { "" };
            write!(f, "{sign}{}-{}", span_text(time.from), span_text(time.to))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(typed: &str) -> DownTimes {
        DownTimes::parse(typed).unwrap()
    }

    #[test]
    fn times_are_read_and_written_back() {
        for typed in ["10s-13s", "0ns-1ms/2ms-3s/4s-4500ms"] {
            assert_eq!(times(typed).to_string().replace("0ms-1ms", "0ns-1ms"), typed);
        }
        let said = |typed: &str| DownTimes::parse(typed).unwrap_err().to_string();
        assert!(said("10s").contains("write 10s-13s"), "{}", said("10s"));
        assert!(said("13s-10s").contains("write 10s-13s"), "{}", said("13s-10s"));
        assert!(said("1s-2s/2s-3s").contains("apart"), "{}", said("1s-2s/2s-3s"));
        assert!(said("1s-25h").contains("a day"));
        assert!(said("1-2s").contains("no unit"));
        assert!(said("").contains("from and to"));
    }

    #[test]
    fn a_time_has_its_first_moment_and_not_its_last() {
        let times = times("10ns-13ns/20ns-21ns");
        let down: Vec<u64> = (0..30).filter(|at| times.includes(Nanos(*at))).collect();
        assert_eq!(down, [10, 11, 12, 20]);
        assert!(times.meets(Nanos(5), Nanos(10)) && !times.meets(Nanos(13), Nanos(19)));
        assert!(times.meets(Nanos(0), Nanos(30)) && !DownTimes::default().includes(Nanos(0)));
        assert_eq!(times.total(), Nanos(4));
    }

    #[test]
    fn times_of_a_link_and_of_its_hosts_are_joined() {
        let mut all = times("10ns-13ns/20ns-21ns");
        all.add(&times("5ns-6ns/12ns-20ns"));
        assert_eq!(all, times("5ns-6ns/10ns-21ns"));
    }
}
