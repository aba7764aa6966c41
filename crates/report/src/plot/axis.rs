//! Axes: linear and logarithmic, with ticks at 1, 2 and 5 and labels in a unit that fits.

use crate::words::{self, Scale};
use deadheat_contract::measurements::Unit;

/// Minimum ratio of the greatest to the least value at which an axis is logarithmic.
const LOG_FROM: f64 = 10.0;

/// Room beyond the values, as a share of the axis.
const ROOM: f64 = 0.05;

/// Maximum number of computed ticks.
const MOST_TICKS: f64 = 40.0;

/// An axis from `low` to `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    spacing: Spacing,
}

/// Spacing of values on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spacing {
    Linear,
    Log,
}

/// Quantity on an axis, for its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// A figure in a unit.
    Of(Unit),
    /// A ratio, or a plain number.
    Number,
}

impl Axis {
    /// Creates an axis for `values`: logarithmic if all are above 0 and they spread far, else linear,
    /// with some room at both ends. `None` if no value is finite.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Axis> {
        let (low, high) = extent(values)?;
        if low > 0.0 && high / low >= LOG_FROM {
            return Some(Axis { low, high, spacing: Spacing::Log }.roomy(ROOM));
        }
        let axis = Axis { low, high, spacing: Spacing::Linear };
        let axis = axis.roomy(ROOM);
        // The axis is below 0 only if a figure is.
        Some(Axis { low: if low >= 0.0 { axis.low.max(0.0) } else { axis.low }, ..axis })
    }

    /// Creates a logarithmic axis for `values`; only values above 0 count.
    pub(super) fn log(values: impl IntoIterator<Item = f64>) -> Option<Axis> {
        let (low, high) = extent(values.into_iter().filter(|value| *value > 0.0))?;
        Some(Axis { low, high, spacing: Spacing::Log }.roomy(ROOM))
    }

    /// Creates a linear axis from 0 to a little beyond the greatest of `values`, as bars need.
    pub(super) fn from_zero(values: impl IntoIterator<Item = f64>) -> Option<Axis> {
        let (low, high) = extent(values)?;
        let high = if high > 0.0 { high } else { 1.0 };
        Some(Axis { low: low.min(0.0), high: high * (1.0 + ROOM), spacing: Spacing::Linear })
    }

    /// Creates a linear axis from one value to another, without room.
    pub(super) fn exact(low: f64, high: f64) -> Axis {
        Axis { low, high, spacing: Spacing::Linear }.apart()
    }

    /// Creates a logarithmic axis from one value above 0 to another, without room.
    pub(super) fn exact_log(low: f64, high: f64) -> Axis {
        Axis { low, high, spacing: Spacing::Log }.apart()
    }

    /// Returns true if the axis is logarithmic.
    pub(super) fn is_log(&self) -> bool {
        self.spacing == Spacing::Log
    }

    /// Returns the least value.
    pub(super) fn low(&self) -> f64 {
        self.low
    }

    /// Returns the greatest value.
    pub(super) fn high(&self) -> f64 {
        self.high
    }

    fn roomy(self, room: f64) -> Axis {
        let axis = self.apart();
        match axis.spacing {
            Spacing::Linear => {
                // The ends are halved before they are subtracted: the span of finite values may not be finite.
                let span = 2.0 * room * (axis.high / 2.0 - axis.low / 2.0);
                let (low, high) = (axis.low - span, axis.high + span);
                Axis { low: low.max(f64::MIN), high: high.min(f64::MAX), ..axis }
            }
            Spacing::Log => {
                let factor = (axis.high.ln() - axis.low.ln()).max(0.0) * room;
                let (low, high) = ((axis.low.ln() - factor).exp(), (axis.high.ln() + factor).exp());
                Axis { low: low.max(f64::MIN_POSITIVE), high: high.min(f64::MAX), ..axis }
            }
        }
    }

    /// Returns the axis with ends that differ.
    fn apart(self) -> Axis {
        if self.high > self.low {
            return self;
        }
        let (low, high) = match (self.spacing, self.low) {
            (Spacing::Log, at) => (at / 1.25, at * 1.25),
            (Spacing::Linear, 0.0) => (0.0, 1.0),
            (Spacing::Linear, at) => (at - 0.1 * at.abs(), at + 0.1 * at.abs()),
        };
        Axis { low: low.max(f64::MIN), high: high.min(f64::MAX), ..self }
    }

    /// Returns the position of `value`, from 0 to 1; values beyond an end are at the end.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = match self.spacing {
            Spacing::Linear => (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0),
            Spacing::Log if value <= 0.0 => 0.0,
            Spacing::Log => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    /// Returns about `most` ticks at most.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        let most = most.clamp(2, MOST_TICKS as usize) as f64;
        let decades = (self.high.log10() - self.low.log10()).max(0.0);
        if self.spacing == Spacing::Linear || decades < 1.0 {
            return self.even(most);
        }
        let steps: &[f64] = match decades {
            d if d * 3.0 <= most => &[1.0, 2.0, 5.0],
            d if d * 2.0 <= most => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = (decades / most).ceil().max(1.0) as i32;
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        (first..=last)
            .filter(|power| power.rem_euclid(every) == 0)
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick))
            .collect()
    }

    /// Returns ticks at even steps of 1, 2 or 5 times a power of ten.
    fn even(&self, most: f64) -> Vec<f64> {
        let rough = (self.high / most - self.low / most).abs();
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
        let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
        let (first, last) = ((self.low / step).ceil(), (self.high / step * (1.0 + 1e-12)).floor());
        if !(step.is_normal() && first.is_finite() && last - first <= 2.0 * MOST_TICKS) {
            return Vec::new();
        }
        let count = (last - first).max(0.0) as usize;
        (0..=count).map(|at| (first + at as f64) * step).collect()
    }
}

/// Returns the least and the greatest finite value.
fn extent(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().filter(|value| value.is_finite()).fold(None, |extent, value| {
        let (low, high) = extent.unwrap_or((value, value));
        Some((f64::min(low, value), f64::max(high, value)))
    })
}

/// Returns a label for each tick. Labels of a linear axis share a unit, which the last label shows.
pub(super) fn labels(axis: &Axis, ticks: &[f64], quantity: Quantity) -> Vec<String> {
    let Quantity::Of(unit) = quantity else {
        return ticks.iter().map(|tick| plain(*tick)).collect();
    };
    let is_wide = axis.is_log() && axis.high() / axis.low() > LOG_FROM;
    if is_wide {
        return ticks
            .iter()
            .map(|tick| {
                let scale = Scale::of([*tick * 1.000_001], unit);
                format!("{} {}", plain(scale.times(*tick)), scale.unit())
            })
            .collect();
    }
    // A tick at 1000 of a unit is better than one at 1 of the next among fractions.
    let greatest = ticks.iter().fold(0.0, |most: f64, tick| most.max(tick.abs()));
    let scale = Scale::of([greatest], unit);
    ticks
        .iter()
        .enumerate()
        .map(|(at, tick)| {
            let number = plain(scale.times(*tick));
            let is_last = at + 1 == ticks.len();
            if is_last { format!("{number} {}", scale.unit()) } else { number }
        })
        .collect()
}

/// Formats a tick's number, without insignificant zeros: `0.5`, `10`, `12500`.
pub(super) fn plain(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".into();
    }
    if !(1e-6..1e9).contains(&size) {
        return if value.is_finite() { format!("{value:e}") } else { words::NOTHING.into() };
    }
    let digits = (5 - size.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(axis: Axis, most: usize, unit: Unit) -> Vec<String> {
        labels(&axis, &axis.ticks(most), Quantity::Of(unit))
    }

    #[test]
    fn ticks_are_round_and_share_a_unit() {
        let axis = Axis::of([61_234.0, 64_900.0]).unwrap();
        assert!(!axis.is_log());
        assert_eq!(show(axis, 5, Unit::Nanos), ["62", "63", "64", "65 µs"]);
        let axis = Axis::from_zero([0.0, 3.2e9]).unwrap();
        assert_eq!(show(axis, 5, Unit::BitRate), ["0", "1", "2", "3 Gbit/s"]);
    }

    #[test]
    fn far_values_stand_on_powers_of_ten() {
        let axis = Axis::of([9_000.0, 2e9]).unwrap();
        assert!(axis.is_log());
        assert_eq!(
            show(axis, 6, Unit::Nanos),
            ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]
        );
        let axis = Axis::exact_log(0.5, 2.0);
        assert_eq!(labels(&axis, &axis.ticks(5), Quantity::Number), ["0.5", "1", "1.5", "2"]);
    }

    #[test]
    fn any_figure_has_an_axis_with_few_ticks() {
        let hostile = [
            vec![0.0],
            vec![-1.0],
            vec![7.0, 7.0],
            vec![-1e308, 1e308],
            vec![f64::NAN, 3.0, f64::INFINITY],
            vec![5e-324, 1e308],
            vec![1e308, 1.7e308],
            vec![1.0, 1.0 + f64::EPSILON],
        ];
        for values in hostile {
            for axis in
                [Axis::of(values.clone()), Axis::log(values.clone()), Axis::from_zero(values)]
            {
                let Some(axis) = axis else { continue };
                assert!(axis.low < axis.high, "{axis:?}");
                for most in [0, 3, 8, 1_000_000] {
                    assert!(axis.ticks(most).len() <= 400, "{axis:?}");
                }
                for value in [f64::MIN, -1.0, 0.0, 1.0, f64::MAX, f64::NAN] {
                    assert!((0.0..=1.0).contains(&axis.share(value)), "{axis:?} {value}");
                }
            }
        }
        assert_eq!(Axis::of([f64::NAN]), None);
        assert_eq!(Axis::log([0.0, -1.0]), None);
    }

    #[test]
    fn numbers_carry_no_idle_zeros() {
        let shown = [0.0, 0.5, 10.0, 12_500.0, 61.25, -2.0, 1e300, f64::NAN].map(plain);
        assert_eq!(shown, ["0", "0.5", "10", "12500", "61.25", "-2", "1e300", "–"]);
    }
}
