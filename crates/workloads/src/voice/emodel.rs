//! The E-model of ITU-T G.107 (06/2015), with its default values, without echo: a rating from 0 to 100 of a
//! conversation under delay and lost frames.

use deadheat_base::time::Nanos;

/// Impairment by a codec, and its robustness to lost frames (ITU-T G.113, appendix I).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Codec {
    /// The equipment impairment factor at no loss, Ie.
    impairment: f64,
    /// The packet-loss robustness factor, Bpl.
    robustness: f64,
}

impl Codec {
    /// G.711 without packet loss concealment.
    pub(crate) const G711: Codec = Codec { impairment: 0.0, robustness: 4.3 };
    /// G.711 with packet loss concealment (G.711, appendix I).
    pub(crate) const G711_PLC: Codec = Codec { impairment: 0.0, robustness: 25.1 };
    /// G.729A, of 8 kbit/s.
    pub(crate) const G729A: Codec = Codec { impairment: 11.0, robustness: 19.0 };

    /// Returns Ie,eff (7.4.3): impairment by the codec and lost frames, for the share of lost frames, and the mean
    /// length of bursts over the mean length under random loss.
    fn impaired(self, lost: f64, burst_ratio: f64) -> f64 {
        let percent = 100.0 * lost;
        if percent <= 0.0 {
            return self.impairment;
        }
        let Codec { impairment, robustness } = self;
        impairment + (95.0 - impairment) * percent / (percent / burst_ratio.max(1.0) + robustness)
    }
}

/// Rating with the default values alone: Ro − Is.
const BASE: f64 = 93.2;

/// Returns Idd (7.4.2): impairment by the delay from mouth to ear alone.
fn delayed(delay: Nanos) -> f64 {
    let ms = delay.0 as f64 / 1e6;
    if ms <= 100.0 {
        return 0.0;
    }
    let x = (ms / 100.0).log2();
    let root = |value: f64| (1.0 + value.powi(6)).powf(1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// Returns the rating R, from 0 to 100.
pub(super) fn rating(codec: Codec, delay: Nanos, lost: f64, burst_ratio: f64) -> f64 {
    (BASE - delayed(delay) - codec.impaired(lost, burst_ratio)).clamp(0.0, 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(codec: Codec, ms: u64, percent: f64) -> f64 {
        rating(codec, Nanos::from_millis(ms), percent / 100.0, 1.0)
    }

    /// Values that follow from the formulas by hand.
    #[test]
    fn delay_and_loss_cost_what_the_recommendation_says() {
        assert_eq!(r(Codec::G711_PLC, 50, 0.0), 93.2);
        assert_eq!(r(Codec::G711_PLC, 100, 0.0), 93.2);
        // X = 1: 25 (2^(1/6) - 3 (1 + 3^-6)^(1/6) + 2) = 3.04.
        assert!((r(Codec::G711_PLC, 200, 0.0) - 90.16).abs() < 0.01);
        // X = 2.
        assert!(
            (r(Codec::G711_PLC, 400, 0.0) - 69.1).abs() < 0.2,
            "{}",
            r(Codec::G711_PLC, 400, 0.0)
        );
        // 95 · 1 / (1 + 25.1) = 3.64, and 95 · 1 / (1 + 4.3) = 17.92.
        assert!((r(Codec::G711_PLC, 50, 1.0) - 89.56).abs() < 0.01);
        assert!((r(Codec::G711, 50, 1.0) - 75.28).abs() < 0.01);
        assert!((r(Codec::G729A, 50, 0.0) - 82.2).abs() < 0.01);
        assert_eq!(r(Codec::G711, 2_000, 100.0), 0.0);
    }

    #[test]
    fn bursts_cost_more_than_losses_that_are_spread() {
        let codec = Codec::G711_PLC;
        let at = |burst| rating(codec, Nanos::ZERO, 0.05, burst);
        assert!(at(1.0) > at(2.0) && at(2.0) > at(4.0));
    }
}
