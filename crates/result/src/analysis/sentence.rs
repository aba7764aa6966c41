//! Verdicts in words. People read a verdict before they compute with it, so it is a sentence that is complete
//! without context, in a chat or a commit message.

use crate::outcome::{Effect, Ratio, TimeDifference, Verdict};
use deadheat_base::figures::{IN_TIMES, change_range, percent, percent_range, times, wait};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{Better, Metric, Unit};
use deadheat_stats::{Disagreement, Outcome};

/// A pair of contenders under one metric.
pub(crate) struct ContenderPair<'a> {
    pub a: &'a str,
    pub b: &'a str,
    pub metric: &'a Metric,
}

/// Losses behind a pair's figures.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PairLosses {
    pub censored: bool,
    /// Number of blocks in which both figures are censored.
    pub both_censored: u64,
    /// Figure that disagrees with the ranks, which alone would have decided the claim.
    pub disagreement: Option<Disagreement>,
    /// True if the missing blocks may decide the claim here, and do not in most races.
    pub is_doubtful: bool,
    /// Bound on the clocks' part in the difference, in nanoseconds, if the two are at far hosts of their own.
    pub clocks_apart: Option<u64>,
}

/// State of the plan: it has blocks left, so the sentence can give how many would decide, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlanState {
    Blocks,
    Nothing,
}

impl Verdict {
    /// Returns true for `ahead` with an interval that reaches into the margin: whether the lead exceeds it is open.
    pub fn leaves_margin_open(&self) -> bool {
        let reaches = match (self.difference, self.ratio) {
            (Some(by), _) => by.low <= by.margin && by.high >= -by.margin,
            (None, Some(ratio)) => {
                ratio.low <= 1.0 + self.margin && ratio.high >= 1.0 / (1.0 + self.margin)
            }
            // Ranks alone have no size.
            (None, None) => false,
        };
        self.outcome == Outcome::Ahead && reaches
    }

    /// Returns true if the interval is at most twice as wide as the margin on both sides, so that it shows where the truth lies.
    pub fn is_narrow(&self) -> bool {
        match (self.difference, self.ratio) {
            (Some(by), _) => by.high - by.low <= 4.0 * by.margin,
            (None, Some(ratio)) => (ratio.high / ratio.low).ln() <= 4.0 * self.margin.ln_1p(),
            (None, None) => false,
        }
    }

    /// Returns true if the estimate lies beyond the margin.
    pub fn is_estimate_beyond_margin(&self) -> bool {
        match self.difference {
            Some(by) => by.point.abs() > by.margin,
            None => self.ratio.is_some_and(|r| r.point.ln().abs() > self.margin.ln_1p()),
        }
    }
}

impl ContenderPair<'_> {
    /// Returns the verdict in a sentence or two.
    pub(crate) fn note(&self, verdict: &Verdict, seen: &PairLosses) -> String {
        self.compose(verdict, seen, PlanState::Blocks)
    }

    /// Returns the verdict on independent samples, without a number of further blocks.
    pub(crate) fn of_independent(&self, verdict: &Verdict, seen: &PairLosses) -> String {
        self.compose(verdict, seen, PlanState::Nothing)
    }

    /// Returns the verdict of ranks, where a figure of 0 leaves no ratio, with the difference `by`.
    pub(crate) fn by_rank(&self, verdict: &Verdict, by: &Effect) -> String {
        let ContenderPair { a, b, metric } = self;
        let amount = |value: f64| {
            let (sign, size) = (if value < 0.0 { "−" } else { "" }, value.abs());
            let bare = || format!("{sign}{size}");
            self.amount(&Effect { point: size, low: size, high: size })
                .map_or_else(bare, |amount| format!("{sign}{amount}"))
        };
        if verdict.outcome == Outcome::Ahead {
            let a_wins = verdict.ahead == Some(verdict.a);
            let (winner, loser) = if a_wins { (a, b) } else { (b, a) };
            let way = if metric.better == Better::Lower { "lower" } else { "higher" };
            let ends = [by.low, by.high];
            let [low, high] = if by.point < 0.0 { [-ends[1], -ends[0]] } else { ends };
            return format!(
                "{winner} is ahead of {loser}: {} is {} {way} ({} to {}).",
                metric.label,
                amount(by.point.abs()),
                amount(low),
                amount(high)
            );
        }
        let what = if verdict.outcome == Outcome::DeadHeat { "dead heat" } else { "undecided" };
        format!(
            "{a} and {b}: {what}, {} differs by {} ({} to {}).",
            metric.label,
            amount(by.point),
            amount(by.low),
            amount(by.high)
        )
    }

    fn compose(&self, verdict: &Verdict, seen: &PairLosses, planned: PlanState) -> String {
        if let Some(difference) = verdict.difference {
            return self.on_difference(&difference, verdict, seen, planned);
        }
        let Some(range) = verdict.ratio else {
            return self.without_ratio(seen);
        };
        match (verdict.outcome, verdict.direction) {
            (Outcome::Ahead, _) if !verdict.leaves_margin_open() => {
                format!("{}.", self.lead(range, verdict, seen))
            }
            (Outcome::DeadHeat, _) => self.dead_heat(range, verdict),
            (Outcome::Ahead, _) | (Outcome::Undecided, Some(_)) => {
                let margin = percent(verdict.margin);
                let open = format!(
                    "{}; whether by more than the {margin} that matter is open",
                    self.lead(range, verdict, seen)
                );
                format!("{open}.{}", self.outlook(verdict, seen, planned))
            }
            (Outcome::Undecided, None) => format!(
                "{} and {}: undecided, {} {}.{}",
                self.a,
                self.b,
                self.metric.label,
                range.bare(seen),
                self.outlook(verdict, seen, planned)
            ),
        }
    }

    /// Returns a verdict on a difference in time.
    fn on_difference(
        &self,
        by: &TimeDifference,
        verdict: &Verdict,
        seen: &PairLosses,
        planned: PlanState,
    ) -> String {
        let ContenderPair { a, b, metric } = self;
        let (label, margin) = (&metric.label, time(by.margin));
        let lead = || {
            let a_wins = (by.point < 0.0) == (metric.better == Better::Lower);
            let (winner, loser) = if a_wins { (a, b) } else { (b, a) };
            let way = if metric.better == Better::Lower { "lower" } else { "higher" };
            let least = if seen.censored { "at least " } else { "" };
            let ends = [by.low.abs(), by.high.abs()];
            let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            let at_least = if verdict.leaves_margin_open() {
                format!(" by at least {}", time(low))
            } else {
                String::new()
            };
            format!(
                "{winner} is ahead of {loser}{at_least}: {label} is {least}{} {way} ({} to {})",
                time(by.point.abs()),
                time(low),
                time(high)
            )
        };
        let plain = format!("difference {}, {} to {}", time(by.point), time(by.low), time(by.high));
        let said = match (verdict.outcome, verdict.direction) {
            (Outcome::Ahead, _) if !verdict.leaves_margin_open() => format!("{}.", lead()),
            (Outcome::DeadHeat, _) => {
                format!("{a} and {b}: dead heat, {label} within {margin} ({plain}).")
            }
            (Outcome::Ahead, _) | (Outcome::Undecided, Some(_)) => format!(
                "{}; whether by more than the {margin} that matter is open.{}",
                lead(),
                self.outlook(verdict, seen, planned)
            ),
            (Outcome::Undecided, None) => format!(
                "{a} and {b}: undecided, {label} {plain}.{}",
                self.outlook(verdict, seen, planned)
            ),
        };
        // The bound on clocks that are the same for all stands with the metric.
        let clocks = seen.clocks_apart.map(|apart| {
            let apart = Nanos(apart);
            format!(
                " They are at far hosts of their own: of the interval, ±{apart} is their clocks'."
            )
        });
        said + &clocks.unwrap_or_default()
    }

    /// Returns the verdict on contenders without a decision, because one stays in a state of its own; `state`
    /// describes it.
    pub(crate) fn of_state(&self, verdict: &Verdict, seen: &PairLosses, state: &str) -> String {
        let ContenderPair { a, b, metric } = self;
        let ratio =
            verdict.ratio.map_or_else(String::new, |ratio| format!(" ({})", ratio.bare(seen)));
        format!(
            "{a} and {b}: undecided, {}{ratio}: {state}, so its blocks are no independent repeats. No time will \
             decide it.",
            metric.label
        )
    }

    fn without_ratio(&self, seen: &PairLosses) -> String {
        let ContenderPair { a, b, metric } = self;
        if let Some(apart) = seen.clocks_apart {
            return format!(
                "{a} and {b}: undecided, they are at far hosts of their own, and their clocks, ±{}, enter the {}.",
                Nanos(apart),
                metric.label
            );
        }
        match seen.both_censored {
            0 => format!(
                "{a} and {b}: undecided, too few blocks have a valid {} of both.",
                metric.label
            ),
            1 => format!(
                "{a} and {b}: undecided, the {} of both falls among lost messages.",
                metric.label
            ),
            n => format!(
                "{a} and {b}: undecided, the {} of both falls among lost messages in {n} blocks.",
                metric.label
            ),
        }
    }

    /// Returns the lead: `udp is ahead of tcp: RTT p50 is 20 % lower (17 to 23 %), by 12.3 µs`.
    fn lead(&self, ratio: Ratio, verdict: &Verdict, seen: &PairLosses) -> String {
        let a_wins = (ratio.point < 1.0) == (self.metric.better == Better::Lower);
        let (winner, loser, r) =
            if a_wins { (self.a, self.b, ratio) } else { (self.b, self.a, ratio.inverse()) };
        let by = verdict.effect.and_then(|effect| self.amount(&effect));
        let by = by.map_or_else(String::new, |by| format!(", by {by}"));
        let least = if seen.censored { "at least " } else { "" };
        let at_least = if verdict.leaves_margin_open() {
            format!(" by at least {}", r.least())
        } else {
            String::new()
        };
        format!(
            "{winner} is ahead of {loser}{at_least}: {} is {least}{}{by}",
            self.metric.label,
            r.in_words()
        )
    }

    fn dead_heat(&self, ratio: Ratio, verdict: &Verdict) -> String {
        let ContenderPair { a, b, metric } = self;
        let (label, within) = (&metric.label, percent(verdict.margin));
        let is_measurable = ratio.low > 1.0 || ratio.high < 1.0;
        if !is_measurable {
            return format!("{a} and {b}: dead heat, {label} within {within} ({}).", ratio.plain());
        }
        // The same from the lower contender's side, so that the difference is positive.
        let (lower, higher, r) =
            if ratio.point < 1.0 { (a, b, ratio) } else { (b, a, ratio.inverse()) };
        format!(
            "{a} and {b}: dead heat, {label} within {within}: that of {lower} is {} than that of {higher}, \
             which is too little to matter.",
            r.in_words()
        )
    }

    /// Returns a sentence on what would decide the claim, with a leading space; empty if that is not known.
    fn outlook(&self, verdict: &Verdict, seen: &PairLosses, planned: PlanState) -> String {
        if planned == PlanState::Nothing {
            return String::new();
        }
        let should = if seen.is_doubtful { "may" } else { "should" };
        if let Some(disagreement) = seen.disagreement {
            return format!(
                " The ranks alone would decide it, but {disagreement}: one scatters unlike the other, and nobody is \
                 ahead."
            );
        }
        let outlook = match (verdict.more_blocks, verdict.more_ns) {
            _ if seen.censored => {
                "No time will decide it: the figure falls among lost messages, which cannot show a tie".into()
            }
            (None, _) if !verdict.is_narrow() => {
                "What would decide it cannot be told yet: the interval is far wider than the margin".into()
            }
            (None, _) => "No time will decide it: the estimate lies on the margin".into(),
            (Some(1), None) => format!("About 1 more block {should} decide it"),
            (Some(blocks), None) => format!("About {blocks} more blocks {should} decide it"),
            (Some(_), Some(ns)) => {
                format!("About {} more {should} decide it on this machine", wait(Nanos(ns)))
            }
        };
        format!(" {outlook}.")
    }

    /// Formats a difference without its sign, in the metric's unit.
    fn amount(&self, effect: &Effect) -> Option<String> {
        let size = effect.point.abs();
        match self.metric.unit {
            Unit::Nanos => Some(Nanos(size as u64).to_string()),
            Unit::BitRate => Some(rate_in_words(size)),
            Unit::Share | Unit::Count => None,
        }
    }
}

impl Ratio {
    /// Formats the ratio with its interval: `ratio 0.99, 0.97 to 1.02`.
    fn plain(self) -> String {
        format!("ratio {}, {} to {}", times(self.point), times(self.low), times(self.high))
    }

    /// Formats the ratio as [`Ratio::plain`] does; a ratio of bounds is shown as a bound.
    fn bare(self, seen: &PairLosses) -> String {
        let bound = if seen.censored { "bound of the " } else { "" };
        format!("{bound}{}", self.plain())
    }

    /// Formats the least difference of an interval on one side of 1: `1.2 %`.
    fn least(self) -> String {
        percent(if self.point < 1.0 { 1.0 - self.high } else { self.low - 1.0 })
    }

    /// Formats the ratio in words: `23 % lower (19 to 27 %)`, `3.4 times as high (3.1 to 3.8)`.
    fn in_words(self) -> String {
        let (size, range) = self.size();
        format!("{size} ({range})")
    }

    /// Formats the ratio and its interval in words: `23 % lower` and `19 to 27 %`, `3.4 times as high` and `3.1 to 3.8`.
    pub fn size(self) -> (String, String) {
        let Ratio { point, low, high } = self;
        if point < 1.0 {
            return (
                format!("{} lower", percent(1.0 - point)),
                percent_range(1.0 - high, 1.0 - low),
            );
        }
        if point >= 2.0 {
            let size = format!("{} times as high", times(point));
            return (size, format!("{} to {}", times(low), times(high)));
        }
        let range = if high >= IN_TIMES {
            change_range(low, high)
        } else {
            percent_range(low - 1.0, high - 1.0)
        };
        (format!("{} higher", percent(point - 1.0)), range)
    }
}

/// Formats a difference of times: `−3.20 ms`.
fn time(ns: f64) -> String {
    let sign = if ns < 0.0 { "−" } else { "" };
    format!("{sign}{}", Nanos(ns.abs().round() as u64))
}

/// Formats a rate in bits per second: `12.3 Mbit/s`.
fn rate_in_words(bps: f64) -> String {
    let (value, unit) = match bps {
        r if r >= 1e9 => (r / 1e9, "Gbit/s"),
        r if r >= 1e6 => (r / 1e6, "Mbit/s"),
        r => (r / 1e3, "kbit/s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::{ClockNeed, Role};

    fn compose(
        better: Better,
        outcome: Outcome,
        ratio: [f64; 3],
        change: impl FnOnce(&mut Verdict),
        seen: PairLosses,
    ) -> String {
        let (name, label, unit) = match better {
            Better::Lower => ("rtt_p50_ns", "RTT p50", Unit::Nanos),
            Better::Higher => ("goodput_bps", "goodput", Unit::BitRate),
        };
        let metric = Metric {
            name: name.into(),
            label: label.into(),
            unit,
            better,
            role: Role::Claim,
            clock: ClockNeed::None,
        };
        let [point, low, high] = ratio;
        let mut verdict = Verdict {
            metric: name.into(),
            a: 0,
            b: 1,
            outcome,
            ratio: Some(Ratio { point, low, high }),
            margin: 0.05,
            confidence: 0.95,
            blocks: 40,
            ..Verdict::default()
        };
        change(&mut verdict);
        ContenderPair { a: "tcp", b: "udp", metric: &metric }.note(&verdict, &seen)
    }

    const NONE: PairLosses = PairLosses {
        censored: false,
        both_censored: 0,
        disagreement: None,
        is_doubtful: false,
        clocks_apart: None,
    };

    #[test]
    fn who_is_ahead_is_named_with_the_better_figure() {
        use Better::{Higher, Lower};
        for (better, ratio, want) in [
            (
                Lower,
                [0.77, 0.73, 0.81],
                "tcp is ahead of udp: RTT p50 is 23 % lower (19 to 27 %), by 12.3 µs.",
            ),
            (
                Lower,
                [1.25, 1.2, 1.3],
                "udp is ahead of tcp: RTT p50 is 20 % lower (17 to 23 %), by 12.3 µs.",
            ),
            (
                Higher,
                [1.25, 1.2, 1.3],
                "tcp is ahead of udp: goodput is 25 % higher (20 to 30 %), by 12.3 kbit/s.",
            ),
            (
                Higher,
                [0.25, 0.2, 0.3],
                "udp is ahead of tcp: goodput is 4.0 times as high (3.3 to 5.0), by 12.3 kbit/s.",
            ),
        ] {
            let effect = Effect { point: -12_300.0, low: -13_000.0, high: -11_000.0 };
            let said = compose(better, Outcome::Ahead, ratio, |v| v.effect = Some(effect), NONE);
            assert_eq!(said, want);
        }
    }

    #[test]
    fn a_lead_whose_bound_is_close_to_none_is_no_range_from_0() {
        let said = |ratio| compose(Better::Higher, Outcome::Ahead, ratio, |_| (), NONE);
        let close = said([1.2, 1.000_08, 1.4]);
        assert!(
            close.contains("by at least 0.008 %: goodput is 20 % higher (0.008 to 40 %);"),
            "{close}"
        );
        assert!(said([1.9, 1.2, 1_157.0]).contains("90 % higher (1.20 to 1,157 times)"));
    }

    #[test]
    fn a_tie_says_what_was_measurable() {
        let tie = |ratio| compose(Better::Lower, Outcome::DeadHeat, ratio, |_| (), NONE);
        assert_eq!(
            tie([0.99, 0.97, 1.02]),
            "tcp and udp: dead heat, RTT p50 within 5 % (ratio 0.99, 0.97 to 1.02)."
        );
        assert_eq!(
            tie([0.98, 0.97, 0.99]),
            "tcp and udp: dead heat, RTT p50 within 5 %: that of tcp is 2 % lower (1 to 3 %) than that \
             of udp, which is too little to matter."
        );
    }

    #[test]
    fn what_is_open_says_the_direction_and_what_would_decide() {
        let open = |ratio, change: fn(&mut Verdict), seen| {
            compose(Better::Lower, Outcome::Undecided, ratio, change, seen)
        };
        assert_eq!(
            open([0.91, 0.80, 1.05], |v| v.more_blocks = Some(14), NONE),
            "tcp and udp: undecided, RTT p50 ratio 0.91, 0.80 to 1.05. About 14 more blocks should \
             decide it."
        );
        let doubtful = open(
            [0.91, 0.80, 1.05],
            |v| v.more_blocks = Some(14),
            PairLosses { is_doubtful: true, ..NONE },
        );
        assert!(doubtful.ends_with("About 14 more blocks may decide it."), "{doubtful}");
        let minutes = |v: &mut Verdict| {
            (v.more_blocks, v.more_ns) = (Some(600), Some(230_000_000_000));
            v.direction = Some(1);
        };
        assert_eq!(
            open([1.05, 1.007, 1.1], minutes, NONE),
            "udp is ahead of tcp: RTT p50 is 4.8 % lower (0.7 to 9.1 %); whether by more than the 5 % \
             that matter is open. About 4 min more should decide it on this machine."
        );
        assert_eq!(
            compose(Better::Lower, Outcome::Ahead, [1.06, 1.007, 1.1], minutes, NONE),
            "udp is ahead of tcp by at least 0.7 %: RTT p50 is 5.7 % lower (0.7 to 9.1 %); whether by more than the \
             5 % that matter is open. About 4 min more should decide it on this machine."
        );
        let means = PairLosses { disagreement: Some(Disagreement::Mean), ..NONE };
        assert_eq!(
            open([1.2, 1.1, 1.3], |_| (), means),
            "tcp and udp: undecided, RTT p50 ratio 1.20, 1.10 to 1.30. The ranks alone would decide it, but the means \
             may say otherwise: one scatters unlike the other, and nobody is ahead."
        );
        assert_eq!(
            open([1.05, 0.99, 1.1], |_| (), NONE),
            "tcp and udp: undecided, RTT p50 ratio 1.05, 0.99 to 1.10. No time will decide it: the estimate lies \
             on the margin."
        );
        let lost = PairLosses { censored: true, both_censored: 3, ..NONE };
        assert!(open([1.05, 0.99, 1.1], |_| (), lost).contains("bound of the ratio 1.05"));
        let none = compose(Better::Lower, Outcome::Undecided, [1.0; 3], |v| v.ratio = None, lost);
        assert!(none.ends_with("falls among lost messages in 3 blocks."), "{none}");
    }
}
