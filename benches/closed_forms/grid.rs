//! Closed forms of delay and age under loss, and what trials in virtual time come to beside them.
//!
//! A message is sent each `T`, takes `d`, and is lost with probability `p` on its own. Where a lost one is never sent again and
//! the newest counts, the gaps between arrivals are geometric. Where it is there again `R` later and all keep one order, it
//! and those behind it wait for it: `R - kT` for the k-th, which is `W` together with `p` before the sum. Messages at random
//! times of the same rate would wait `p (R + R²/2T)` (M/G/∞), and for large `R/T` it comes to the same.

use std::fmt;

use deadheat::path::{self, Family};
use deadheat::records::placement::Placement;
use deadheat::time::Nanos;
use deadheat::trial::explain::Pass;
use deadheat::trial::sim::Simulation;
use deadheat::trial::{Order, Pairing, Runner, TrialOutcome};

/// A figure with a closed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The mean age of a state whose updates are never sent again: `d + T (1 + p) / (2 (1 - p))`.
    LatestAge,
    /// The mean age of a state whose updates all arrive in order: `d + T/2 + W`.
    OrderedAge,
    /// The mean time that messages wait for lost ones before them, or for their own repair: `W`.
    HeadOfLine,
}

/// Conditions of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) form: Form,
    /// Delay of the path in milliseconds.
    pub(crate) delay_ms: u32,
    /// Messages a second.
    pub(crate) hz: u32,
    /// Packets lost of a thousand, each on its own, on the way to the receiver only.
    pub(crate) lost_per_mille: u32,
}

/// Messages of a point that are lost, all trials together: their number scatters by 2 % then.
const LOSSES: u32 = 2_000;

/// The fewest messages of a trial.
const LEAST_MESSAGES: u32 = 1_000;

/// Segments that tell a sender of the loss of one before them (RFC 5681, 3.2).
const TELLING: f64 = 3.0;

/// The most messages that are lost within one repair for which repairs count as apart.
const APART: f64 = 0.1;

impl Form {
    pub(crate) const ALL: [Form; 3] = [Form::LatestAge, Form::OrderedAge, Form::HeadOfLine];

    /// Returns the share by which a figure may differ from it.
    pub(crate) fn bound(self) -> f64 {
        match self {
            Form::LatestAge => 0.03,
            Form::OrderedAge | Form::HeadOfLine => 0.12,
        }
    }

    /// Returns the contender, workload and metric; the first is told how long a timeout has to be.
    fn asked(self, patience_ms: u32) -> (String, &'static str, &'static str) {
        // Nothing but the rule of three repeated acknowledgements: no window in the way, and a timeout for repairs that
        // are lost themselves.
        let ordered = format!("arq:cc=none,window=1MB,min-rto={patience_ms}ms");
        match self {
            Form::LatestAge => ("sim-datagram".into(), "state:direction=up,hz=", "age_mean_ns"),
            Form::OrderedAge => (ordered, "state:direction=up,hz=", "age_mean_ns"),
            Form::HeadOfLine => (ordered, "streams:direction=up,streams=1,rate=", "delay_mean_ns"),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::LatestAge => "age, newest counts",
            Form::OrderedAge => "age, in order",
            Form::HeadOfLine => "wait, in order",
        })
    }
}

impl Point {
    fn loss(&self) -> f64 {
        f64::from(self.lost_per_mille) / 1e3
    }

    fn period_ms(&self) -> f64 {
        1e3 / f64::from(self.hz)
    }

    /// Returns the time from sending a message to sending it again, in milliseconds: a round trip after the third behind it.
    pub(crate) fn repair_ms(&self) -> f64 {
        2.0 * f64::from(self.delay_ms) + TELLING * self.period_ms()
    }

    /// Returns the messages that are lost within one repair, on average.
    pub(crate) fn lost_within_repair(&self) -> f64 {
        self.loss() * self.repair_ms() / self.period_ms()
    }

    /// Returns true where the closed form is to hold.
    pub(crate) fn is_in_range(&self) -> bool {
        self.form == Form::LatestAge || self.lost_within_repair() <= APART
    }

    /// Returns the closed form in milliseconds.
    pub(crate) fn predicted_ms(&self) -> f64 {
        let (p, period, repair) = (self.loss(), self.period_ms(), self.repair_ms());
        let behind = (0..).map(|k| repair - f64::from(k) * period).take_while(|wait| *wait > 0.0);
        let waits = p * behind.sum::<f64>();
        let delay = f64::from(self.delay_ms);
        match self.form {
            Form::LatestAge => delay + period * (1.0 + p) / (2.0 * (1.0 - p)),
            Form::OrderedAge => delay + period / 2.0 + waits,
            Form::HeadOfLine => waits,
        }
    }

    /// Returns the mean over as many trials as there are seeds, in milliseconds.
    ///
    /// # Errors
    /// The error of a trial that failed, or the reason why it does not count.
    pub(crate) fn measured_ms(&self, seeds: u64) -> Result<f64, String> {
        let sum = (0..seeds).try_fold(0.0, |sum, seed| Ok::<_, String>(sum + self.trial(seed)?))?;
        let mean = sum / seeds as f64 / 1e6;
        Ok(if self.form == Form::HeadOfLine { mean - f64::from(self.delay_ms) } else { mean })
    }

    /// Runs a trial; returns its figure in nanoseconds.
    fn trial(&self, seed: u64) -> Result<f64, String> {
        let Point { form, delay_ms, hz, lost_per_mille } = *self;
        let typed = format!(
            "sim:delay={delay_ms}ms,up.loss={}.{}%",
            lost_per_mille / 10,
            lost_per_mille % 10
        );
        let path::PathSpec::Simulated(network) =
            path::PathSpec::parse(&typed).map_err(|e| e.to_string())?
        else {
            return Err(format!("{typed} is not simulated"));
        };
        let mut simulation =
            Simulation::new(&typed, network, Family::Any).map_err(|e| e.to_string())?;
        let (contender, work, metric) = form.asked(2 * delay_ms + 5_000 / hz);
        let unit = if form == Form::HeadOfLine { "pps" } else { "" };
        let messages = (LOSSES * 10 / lost_per_mille.max(1)).max(LEAST_MESSAGES);
        let order = Order {
            pairing: Pairing::parse(&contender, &format!("{work}{hz}{unit},count={messages}"))
                .map_err(|e| e.to_string())?,
            placement: Placement::Virtual,
            seed,
            samples: None,
            interval: Nanos::from_secs(10),
            pass: Pass::Figures,
        };
        match simulation.run(&order) {
            TrialOutcome::Ran(record) if record.valid => {
                record.metrics.get(metric).copied().ok_or_else(|| format!("no {metric}"))
            }
            TrialOutcome::Ran(record) => Err(format!("{order:?}: {:?}", record.why_invalid)),
            TrialOutcome::Blocked(why)
            | TrialOutcome::Limited(why)
            | TrialOutcome::Lost(why)
            | TrialOutcome::Broke(why)
            | TrialOutcome::Disconnected(why) => Err(why),
            TrialOutcome::Failed(error) => Err(error.to_string()),
        }
    }
}
