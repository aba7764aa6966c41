//! Closed forms beside the measurement: the theoretical figure under the conditions of a race, and a check that the
//! mean over trials agrees with it. Pure and descriptive, without claims.

use crate::analysis::path_ways::network;
use crate::analysis::spread::figures;
use crate::outcome::{Entrant, Outcome, Warning};
use deadheat_base::figures::percent;
use deadheat_contract::workload;
use deadheat_contract::workload::theory::{Conditions, Prediction, Way};
use deadheat_path::network::{Impairments, Loss, LossPer, Network, Rate};
use deadheat_stats::quantile::median;

/// Minimum number of trials for a standard error.
const FEWEST: usize = 5;

/// Tolerated deviation from theory in standard errors of the mean, beyond the tolerance of the form: one sound
/// figure in 370 exceeds it (normal distribution).
const ERRORS: f64 = 3.0;

/// Predicted figure beside the measured one.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedFigure {
    /// The contender.
    pub contender: usize,
    /// Prediction of theory.
    pub prediction: Prediction,
    /// Mean over valid trials.
    pub mean: f64,
    /// Standard error of that mean.
    pub error: f64,
    /// Number of these trials.
    pub trials: usize,
}

impl PredictedFigure {
    /// Returns the measured over the predicted figure.
    pub fn ratio(&self) -> f64 {
        self.mean / self.prediction.value
    }

    /// Returns true if measurement and theory differ within the range of the form, by more than its tolerance and
    /// the scatter of the trials.
    pub fn differs(&self) -> bool {
        let allowed = self.prediction.tolerance * self.prediction.value + ERRORS * self.error;
        let is_known = self.trials >= FEWEST && self.prediction.outside.is_none();
        is_known && (self.mean - self.prediction.value).abs() > allowed
    }
}

/// Returns each prediction beside the measured figure, by contender.
pub fn beside(outcome: &Outcome) -> Vec<PredictedFigure> {
    let Some(network) = network(outcome) else { return Vec::new() };
    let of_entrant = |entrant: &Entrant| {
        let measured = |prediction: Prediction| {
            let values = figures(outcome, entrant.id, prediction.metric);
            let (mean, error) = mean_and_error(&values)?;
            let (contender, trials) = (entrant.id, values.len());
            Some(PredictedFigure { contender, prediction, mean, error, trials })
        };
        predictions(outcome, entrant, &network).into_iter().filter_map(measured).collect::<Vec<_>>()
    };
    outcome.contenders.iter().flat_map(of_entrant).collect()
}

/// Returns a warning for each figure that differs from its form.
pub(super) fn warnings(outcome: &Outcome) -> Vec<Warning> {
    let parting = beside(outcome).into_iter().filter(PredictedFigure::differs);
    parting.filter_map(|one| warning(outcome, &one)).collect()
}

fn warning(outcome: &Outcome, one: &PredictedFigure) -> Option<Warning> {
    let entrant = outcome.contenders.get(one.contender)?;
    let metric = outcome.metrics.iter().find(|m| m.name == one.prediction.metric)?;
    let Prediction { form, tolerance, .. } = &one.prediction;
    let message = format!(
        "{} of {} is {:.2} times the figure of theory ({form}); expected was a difference within {}",
        metric.label,
        entrant.label,
        one.ratio(),
        percent(*tolerance)
    );
    let advice = "look at the assumptions of the form: losses that are independent and found by three later messages, no \
                  queue; any difference comes from the contender or from the host";
    Some(Warning::new("theory_parts", message, advice))
}

/// Predictions of one contender by the level of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictionSeries {
    /// Index of the contender as typed, in `asked.contenders`.
    pub contender: usize,
    /// Prediction at each level; `None` outside the range of the form. It is a median if other conditions vary too.
    pub by_level: Vec<Option<f64>>,
}

/// Returns the predictions of a metric by the level of `factor`, an index into `outcome.factors`.
pub fn by_level(outcome: &Outcome, metric: &str, factor: usize) -> Vec<PredictionSeries> {
    let (Some(network), Some(named)) = (network(outcome), outcome.factors.get(factor)) else {
        return Vec::new();
    };
    let typed = 0..outcome.asked.contenders.len();
    let line = |contender: usize| {
        let at_level = |level: usize| {
            let is_here = |entrant: &&Entrant| {
                let cell = entrant.cell.as_ref();
                cell.is_some_and(|c| {
                    c.contender == contender && c.levels.get(factor) == Some(&level)
                })
            };
            let all = outcome.contenders.iter().filter(is_here);
            let all = all.flat_map(|entrant| predictions(outcome, entrant, &network));
            let holds = all.filter(|one| one.metric == metric && one.outside.is_none());
            median(&holds.map(|one| one.value).collect::<Vec<f64>>())
        };
        PredictionSeries { contender, by_level: (0..named.levels.len()).map(at_level).collect() }
    };
    typed.map(line).filter(|line| line.by_level.iter().any(Option::is_some)).collect()
}

/// Returns the predictions for an entrant; empty if no form applies to its path or work.
fn predictions(outcome: &Outcome, entrant: &Entrant, network: &Network) -> Vec<Prediction> {
    let typed = entrant.cell.as_ref().map(|cell| &cell.workload);
    let typed = typed.or(outcome.plan.workload.as_ref()).unwrap_or(&outcome.asked.workload);
    let (Ok(task), Ok(contender)) = (workload::parse(typed), entrant.recorded()) else {
        return Vec::new();
    };
    let ([link], None) = (&network.links[..], &contender.relay) else { return Vec::new() };
    let (Some(up), Some(down)) = (way(&link.up), way(&link.down)) else { return Vec::new() };
    let conditions = Conditions {
        up,
        down,
        mtu: u64::from(network.mtu()),
        ip_header: if outcome.asked.family == Some(6) { 40 } else { 20 },
        guarantees: &contender.promised,
        control: entrant.effective.get("cc").map(String::as_str),
    };
    let is_one = |one: &Prediction| one.value.is_finite() && one.value > 0.0;
    task.theory(&conditions).into_iter().filter(is_one).collect()
}

/// Returns the parameters of a direction for closed forms; `None` if it delays, loses or holds packets in a way
/// that the forms do not model.
fn way(impairments: &Impairments) -> Option<Way> {
    // Taken apart, so that a new field is not forgotten here. The forms know no queue that is full, and no network card.
    let Impairments {
        nic: _,
        block,
        down,
        loss,
        loss_per,
        duplicate,
        corrupt,
        rate,
        overhead: _,
        queue: _,
        delay,
        jitter,
        reorder,
    } = impairments;
    let loss = match (loss, loss_per) {
        (Loss::None, _) => 0.0,
        (Loss::Bernoulli(p), LossPer::Packet) => *p,
        _ => return None,
    };
    let rate = match rate {
        Rate::Unlimited => None,
        Rate::Fixed(rate) => Some(*rate),
        Rate::Trace(_) => return None,
    };
    let is_plain = jitter.is_none() && reorder.is_none() && block.is_empty() && down.is_empty();
    let is_whole = *duplicate == 0.0 && *corrupt == 0.0;
    (is_plain && is_whole && loss < 1.0).then_some(Way { delay: *delay, loss, rate })
}

fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / (n - 1.0).max(1.0) / n).sqrt()))
}
