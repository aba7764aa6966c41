//! Verdicts in words. A verdict is read before it is computed with, so it is a sentence that can
//! stand alone in a chat or a commit message.

use super::plan::{in_percent, percent};
use crate::figures::{Better, Metric};
use crate::stats::{Outcome, Ruling};

use super::outcome::Ratio;

/// A pair of contenders under one metric.
pub(super) struct Pair<'a> {
    pub a: &'a str,
    pub b: &'a str,
    pub metric: &'a Metric,
    pub margin: f64,
}

/// What independent samples show of a pair.
pub(super) struct Seen<'a> {
    pub ratio: &'a Ratio,
    pub censored: bool,
}

/// A range of ratios: point, low, high.
#[derive(Clone, Copy)]
struct Range(f64, f64, f64);

impl Pair<'_> {
    /// The verdict in a sentence. `more_blocks` is what the verdict says, `has_ratio` whether any
    /// block has figures of both.
    pub(super) fn note(&self, ruling: &Ruling, more_blocks: Option<u64>, censored: bool) -> String {
        let ratio = Range(ruling.ratio.point, ruling.ratio.low, ruling.ratio.high);
        match ruling.outcome {
            Outcome::Ahead => self.ahead(ratio, censored),
            Outcome::DeadHeat => self.dead_heat(ratio, ruling.detectable_but_small),
            Outcome::Undecided => self.undecided(ratio, more_blocks, ruling, censored),
        }
    }

    /// The verdict on independent samples, of which no planned block tells how many more it takes.
    pub(super) fn of_independent(&self, outcome: Outcome, seen: &Seen<'_>) -> String {
        let ratio = Range(seen.ratio.point, seen.ratio.low, seen.ratio.high);
        let (a, b, label) = (self.a, self.b, &self.metric.label);
        match outcome {
            Outcome::Ahead => self.ahead(ratio, seen.censored),
            Outcome::DeadHeat => self.dead_heat(ratio, ratio.1 > 1.0 || ratio.2 < 1.0),
            Outcome::Undecided => format!("{a} and {b}: undecided: {label} {}", ratio.bare()),
        }
    }

    fn ahead(&self, ratio: Range, censored: bool) -> String {
        let a_wins = (ratio.0 < 1.0) == (self.metric.better == Better::Lower);
        let (winner, loser, r) =
            if a_wins { (self.a, self.b, ratio) } else { (self.b, self.a, ratio.inverse()) };
        let least = if censored { "at least " } else { "" };
        format!("{winner} is ahead of {loser}: {} is {least}{}", self.metric.label, r.in_words())
    }

    fn dead_heat(&self, ratio: Range, measurable: bool) -> String {
        let (a, b, label) = (self.a, self.b, &self.metric.label);
        let within = percent(self.margin);
        if !measurable {
            return format!("{a} and {b}: dead heat, {label} within {within} ({})", ratio.bare());
        }
        // The same from the side that is lower, so that the difference is positive.
        let (lower, r) = if ratio.0 < 1.0 { (a, ratio) } else { (b, ratio.inverse()) };
        let (low, high) = (in_percent((1.0 - r.2).max(0.0)), percent(1.0 - r.1));
        format!(
            "{a} and {b}: dead heat although a difference of {} ({low} to {high}) is measurable, \
             {label} within {within} and {lower} lower",
            percent(1.0 - r.0)
        )
    }

    fn undecided(
        &self,
        ratio: Range,
        more_blocks: Option<u64>,
        ruling: &Ruling,
        censored: bool,
    ) -> String {
        let (a, b, label) = (self.a, self.b, &self.metric.label);
        if ruling.ratio.confidence <= 0.0 {
            return format!("{a} and {b}: undecided: too few blocks have a {label} of both");
        }
        let more = match more_blocks {
            _ if censored => {
                "it falls among lost messages, so no number of blocks would show a tie".to_owned()
            }
            None => "no number of blocks would tell, the ratio is at the margin".to_owned(),
            Some(1) => "about 1 more block".to_owned(),
            Some(n) => format!("about {n} more blocks"),
        };
        format!("{a} and {b}: undecided: {label} {}; {more}", ratio.bare())
    }
}

impl Range {
    fn inverse(self) -> Range {
        Range(1.0 / self.0, 1.0 / self.2, 1.0 / self.1)
    }

    /// `ratio 0.99, 0.97 to 1.02`.
    fn bare(self) -> String {
        format!("ratio {}, {} to {}", times(self.0), times(self.1), times(self.2))
    }

    /// `23 % lower (19 to 27 %)`, `3.4 times as high (3.1 to 3.8)`.
    fn in_words(self) -> String {
        let Range(point, low, high) = self;
        if point < 1.0 {
            let from = in_percent(1.0 - high);
            return format!("{} lower ({from} to {})", percent(1.0 - point), percent(1.0 - low));
        }
        if point < 2.0 {
            let from = in_percent(low - 1.0);
            return format!("{} higher ({from} to {})", percent(point - 1.0), percent(high - 1.0));
        }
        format!("{} times as high ({} to {})", times(point), times(low), times(high))
    }
}

/// A ratio with as many digits as it deserves: `0.99`, `3.4`, `28`.
fn times(ratio: f64) -> String {
    let digits = match ratio {
        r if r < 2.0 => 2,
        r if r < 10.0 => 1,
        _ => 0,
    };
    format!("{ratio:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Role, Unit};
    use crate::stats::Estimate;

    fn say(outcome: Outcome, better: Better, ratio: [f64; 3], small: bool) -> String {
        let (name, label) = match better {
            Better::Lower => ("rtt_p50_ns", "RTT p50"),
            Better::Higher => ("goodput_bps", "goodput"),
        };
        let metric = Metric {
            name: name.into(),
            label: label.into(),
            unit: Unit::Nanos,
            better,
            role: Role::Claim,
        };
        let [point, low, high] = ratio;
        let ruling = Ruling {
            outcome,
            winner: None,
            ratio: Estimate { point, low, high, confidence: 0.95 },
            direction: None,
            resolution: None,
            missing: crate::stats::Missing::Never,
            detectable_but_small: small,
        };
        let pair = Pair { a: "tcp", b: "udp", metric: &metric, margin: 0.05 };
        pair.note(&ruling, Some(14), false)
    }

    #[test]
    fn each_verdict_is_a_sentence() {
        use Better::{Higher, Lower};
        use Outcome::{Ahead, DeadHeat, Undecided};
        for (outcome, better, ratio, small, want) in [
            (
                Ahead,
                Lower,
                [0.77, 0.73, 0.81],
                false,
                "tcp is ahead of udp: RTT p50 is 23 % lower (19 to 27 %)",
            ),
            (
                Ahead,
                Lower,
                [1.25, 1.2, 1.3],
                false,
                "udp is ahead of tcp: RTT p50 is 20 % lower (17 to 23 %)",
            ),
            (
                Ahead,
                Higher,
                [1.25, 1.2, 1.3],
                false,
                "tcp is ahead of udp: goodput is 25 % higher (20 to 30 %)",
            ),
            (
                Ahead,
                Higher,
                [0.25, 0.2, 0.3],
                false,
                "udp is ahead of tcp: goodput is 4.0 times as high (3.3 to 5.0)",
            ),
            (
                DeadHeat,
                Lower,
                [0.99, 0.97, 1.02],
                false,
                "tcp and udp: dead heat, RTT p50 within 5 % (ratio 0.99, 0.97 to 1.02)",
            ),
            (
                DeadHeat,
                Lower,
                [0.98, 0.97, 0.99],
                true,
                "tcp and udp: dead heat although a difference of 2 % (1 to 3 %) is measurable, \
                 RTT p50 within 5 % and tcp lower",
            ),
            (
                Undecided,
                Lower,
                [0.91, 0.80, 1.05],
                false,
                "tcp and udp: undecided: RTT p50 ratio 0.91, 0.80 to 1.05; about 14 more blocks",
            ),
        ] {
            assert_eq!(say(outcome, better, ratio, small), want);
        }
    }
}
