//! Paired figures and the table they go into.

use std::fmt;

/// The head of the Markdown table.
pub(crate) const HEADER: &str = "| figure | ours | theirs | ratio, median [least … greatest] | target | met |\n|---|---|---|---|---|---|";

/// Which end of the scale is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    /// As for latency.
    Lower,
    /// As for goodput.
    Higher,
}

/// What a figure is held to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// The median ratio of ours over theirs.
    Ratio(Better, f64),
    /// The median of ours.
    Value(Better, f64),
}

impl Target {
    fn met(self, figure: f64) -> bool {
        match self {
            Target::Ratio(Better::Lower, bound) | Target::Value(Better::Lower, bound) => {
                figure <= bound
            }
            Target::Ratio(Better::Higher, bound) | Target::Value(Better::Higher, bound) => {
                figure >= bound
            }
        }
    }

    fn words(self, show: impl Fn(f64) -> String) -> String {
        let (better, bound) = match self {
            Target::Ratio(better, bound) => (better, format!("{bound:.2}")),
            Target::Value(better, bound) => (better, show(bound)),
        };
        match better {
            Better::Lower => format!("at most {bound}"),
            Better::Higher => format!("at least {bound}"),
        }
    }
}

/// Figures taken in turns.
#[derive(Debug, Default)]
pub(crate) struct Paired {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Paired {
    /// One round.
    pub(crate) fn add(&mut self, ours: f64, theirs: f64) {
        self.ours.push(ours);
        self.theirs.push(theirs);
    }

    fn ratios(&self) -> Vec<f64> {
        self.ours.iter().zip(&self.theirs).map(|(a, b)| a / b).collect()
    }
}

/// One line of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// What was measured, with its unit.
    pub(crate) figure: String,
    /// deadheat's median.
    pub(crate) ours: String,
    /// The other's median, or why there is none.
    pub(crate) theirs: String,
    /// The paired ratios.
    pub(crate) ratio: String,
    /// What it is held to.
    pub(crate) target: String,
    /// Whether it holds; `None` where it was not measured.
    pub(crate) met: Option<bool>,
}

impl Row {
    /// A figure beside another.
    pub(crate) fn paired(
        figure: &str,
        pairs: &Paired,
        show: impl Fn(f64) -> String,
        target: Target,
    ) -> Row {
        let ratios = pairs.ratios();
        let middle = median(&ratios);
        Row {
            figure: figure.to_owned(),
            ours: show(median(&pairs.ours)),
            theirs: show(median(&pairs.theirs)),
            ratio: range(&ratios, |ratio| format!("{ratio:.2}")),
            target: target.words(show),
            met: Some(target.met(middle)),
        }
    }

    /// A figure beside a peer that may be missing.
    pub(crate) fn paired_or(
        figure: &str,
        pairs: &Paired,
        show: impl Fn(f64) -> String,
        target: Target,
        missing: Option<String>,
    ) -> Row {
        match missing {
            None => Row::paired(figure, pairs, show, target),
            Some(why) => Row {
                figure: figure.to_owned(),
                ours: String::new(),
                theirs: format!("skipped: {why}"),
                ratio: String::new(),
                target: target.words(show),
                met: None,
            },
        }
    }

    /// Makes a row with the number of pairs that reach a ratio; the target is `least`.
    pub(crate) fn held(figure: &str, pairs: &Paired, ratio: f64, least: usize) -> Row {
        let ratios = pairs.ratios();
        let held = ratios.iter().filter(|pair| **pair >= ratio).count();
        Row {
            figure: figure.to_owned(),
            ours: format!("{held} of {}", ratios.len()),
            theirs: String::new(),
            ratio: String::new(),
            target: format!("at least {least}"),
            met: (!ratios.is_empty()).then_some(held >= least),
        }
    }

    /// A figure by itself.
    pub(crate) fn alone(
        figure: &str,
        ours: &[f64],
        show: impl Fn(f64) -> String,
        target: Target,
    ) -> Row {
        Row {
            figure: figure.to_owned(),
            ours: range(ours, &show),
            theirs: String::new(),
            ratio: String::new(),
            target: target.words(show),
            met: Some(target.met(median(ours))),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = match self.met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not measured",
        };
        write!(
            f,
            "| {} | {} | {} | {} | {} | {met} |",
            self.figure, self.ours, self.theirs, self.ratio, self.target
        )
    }
}

/// The median; NaN of nothing.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

fn range(figures: &[f64], show: impl Fn(f64) -> String) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} [{} … {}]", show(median(figures)), show(least), show(most))
}
