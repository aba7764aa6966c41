//! Margin of a race: the difference that does not matter.

use super::Request;
use deadheat_base::time::Nanos;

impl Request {
    /// Sets the margin of figures that are times, such as round trips, ages and delays: verdicts on them are about
    /// differences. The margin of others stays a fraction.
    pub fn margin_time(mut self, margin: Nanos) -> Request {
        self.asked.margin_ns = Some(margin.0);
        self
    }

    /// Sets the margin: the largest fraction that does not matter (0.05 for 5 %).
    pub fn margin(mut self, fraction: f64) -> Request {
        self.asked.margin = Some(fraction);
        self
    }
}
