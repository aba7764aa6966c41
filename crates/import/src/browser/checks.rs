//! Checks of the figures that a page posts: of figures that no trial can have, and of a page that was too busy to measure.

use super::{BrowserWork, PostedFigures};

/// Longest time in milliseconds that a page may post: a day.
const LONGEST_MS: f64 = 86_400_000.0;

/// Room for the steps and the rate of the page's clock against the server's: milliseconds, and a share.
const ROOM: (f64, f64) = (100.0, 0.01);

/// Longest time in milliseconds for which the page may stand still in a trial: beyond that it measures itself.
const LONGEST_LAG_MS: f64 = 1_000.0;

/// Time of a long task of a page, in milliseconds (W3C, Long Tasks API).
pub(super) const LONG_TASK_MS: f64 = 50.0;

/// Span of a trial, by the clock of the server.
#[derive(Debug, Clone, Copy)]
pub struct TrialSpan {
    /// Its start in Unix time, in milliseconds.
    pub started_ms: u64,
    /// Time from its turn to its figures, in milliseconds.
    pub lasted_ms: f64,
}

impl TrialSpan {
    /// Returns the largest time that a page may have seen within the trial, in milliseconds.
    fn longest_ms(&self) -> f64 {
        (self.lasted_ms * (1.0 + ROOM.1) + ROOM.0).min(LONGEST_MS)
    }

    /// Refuses a time that cannot be one of the trial.
    fn check(&self, what: &str, ms: f64) -> Result<(), String> {
        if !(0.0..=LONGEST_MS).contains(&ms) {
            return Err(format!("{what} of {} cannot be", in_words(ms)));
        }
        if ms > self.longest_ms() {
            let lasted = self.lasted_ms;
            return Err(format!(
                "{what} of {} is longer than the trial, which lasted {lasted:.0} ms",
                in_words(ms)
            ));
        }
        Ok(())
    }
}

impl PostedFigures {
    /// Refuses more values than the work has, and times that the trial cannot have seen.
    pub(super) fn check(&self, work: BrowserWork, span: TrialSpan) -> Result<(), String> {
        let most = work.count() as usize;
        for (len, what) in [
            (self.connects_ms.len(), "connections"),
            (self.trips_ms.len(), "round trips"),
            (self.arrivals.len(), "messages from the server"),
        ] {
            if len > most {
                return Err(format!("figures of {len} {what}, of {most} that the trial has"));
            }
        }
        for (what, ms) in [
            ("an error of the clock", self.clock_ms.map_or(0.0, |(bound, _)| bound)),
            ("a round trip of the clock", self.clock_ms.map_or(0.0, |(_, trip)| trip)),
        ] {
            // The clocks are compared before the trial.
            TrialSpan { lasted_ms: LONGEST_MS, ..span }.check(what, ms)?;
        }
        for ms in &self.connects_ms {
            span.check("a connection", *ms)?;
        }
        span.check("one connection after the other", self.connects_ms.iter().sum())?;
        for ms in self.trips_ms.iter().flatten() {
            span.check("a round trip", *ms)?;
        }
        span.check("bulk data", self.bulk.map_or(0.0, |(_, ms)| ms))?;
        span.check("a busy page", self.lag_max_ms)?;
        span.check("a late timer", self.late_max_ms)?;
        self.check_arrivals(span)
    }

    /// Refuses messages of the server that arrived before they left, or after the trial.
    fn check_arrivals(&self, span: TrialSpan) -> Result<(), String> {
        let bound = self.clock_ms.map_or(0.0, |(bound, _)| bound);
        let span = TrialSpan { lasted_ms: span.lasted_ms + bound, ..span };
        for (number, due, at) in &self.arrivals {
            span.check("an arrival time", *at)?;
            span.check("a send time", *due)?;
            if at < due {
                return Err(format!(
                    "message {number} arrived {} before it left",
                    in_words(due - at)
                ));
            }
        }
        Ok(())
    }

    /// Refuses a trial during which the page stood still.
    pub(super) fn check_page(&self) -> Result<(), String> {
        let most = in_words(LONGEST_LAG_MS);
        if self.lag_max_ms > LONGEST_LAG_MS {
            let lag = in_words(self.lag_max_ms);
            return Err(format!("the page was busy for {lag} at a time, and {most} is the most"));
        }
        if self.late_max_ms > LONGEST_LAG_MS {
            let late = in_words(self.late_max_ms);
            return Err(format!("a timer of the page was {late} late, and {most} is the most"));
        }
        Ok(())
    }
}

/// Formats milliseconds, however many a page has posted.
fn in_words(ms: f64) -> String {
    match ms.abs() {
        0.0..1e9 => format!("{ms} ms"),
        _ => format!("{ms:e} ms"),
    }
}
