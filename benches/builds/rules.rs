//! Rules by which other projects judge a change, from the same runs. The runs of a race are interleaved, which flatters rules
//! whose own runs are not; a cached baseline has the runs of the race before.

/// Times of both builds in one race, in seconds and in their order.
pub(crate) struct Times {
    pub(crate) old: Vec<f64>,
    pub(crate) new: Vec<f64>,
}

/// Judgement of a new build.
#[derive(Clone, Copy)]
pub(crate) enum Ruling {
    Slower,
    Faster,
    Same,
}

/// Rule with its source.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// Judges the runs of a race; the second argument is the race before, if there is one.
    pub(crate) judge: fn(&Times, Option<&Times>) -> Ruling,
}

/// Number of runs of a build that hyperfine and Criterion get here; hyperfine makes 10 unless told otherwise.
const RUNS: usize = 10;

pub(crate) const RULES: [Rule; 5] = [
    Rule {
        name: "one run, 5 % from the run before (msquic PR 990)",
        judge: |now, before| beyond(first(&now.new), first(cached(now, before)), 0.05),
    },
    Rule {
        name: "one run of each, 5 % (xfr diff)",
        judge: |now, _| beyond(first(&now.new), first(&now.old), 0.05),
    },
    Rule {
        name: "means of 10 runs, Welch's test at 5 % and 3 % apart (neqo PR 1771)",
        judge: |now, _| significant(&now.new, &now.old, 0.03),
    },
    Rule {
        name: "the same with the baseline cached (neqo PR 1770)",
        judge: |now, before| significant(&now.new, cached(now, before), 0.03),
    },
    Rule {
        name: "hyperfine: ratio of means of 10 runs further from 1 than its ±",
        judge: |now, _| outside_one(&now.new, &now.old),
    },
];

/// Runs of the old build in the race before.
fn cached<'a>(now: &'a Times, before: Option<&'a Times>) -> &'a [f64] {
    before.map_or(&now.old, |before| &before.old)
}

fn first(times: &[f64]) -> f64 {
    times.first().copied().unwrap_or(f64::NAN)
}

fn beyond(new: f64, old: f64, threshold: f64) -> Ruling {
    match new / old - 1.0 {
        change if change > threshold => Ruling::Slower,
        change if change < -threshold => Ruling::Faster,
        _ => Ruling::Same,
    }
}

/// Mean and variance of the first runs, with their number.
fn moments(times: &[f64]) -> (f64, f64, f64) {
    let times = &times[..times.len().min(RUNS)];
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    (mean, squares / (count - 1.0), count)
}

/// Welch's t with its degrees of freedom (Biometrika 34, 1947), beside the limit of Student's t.
fn significant(new: &[f64], old: &[f64], threshold: f64) -> Ruling {
    let ((new, new_var, n), (old, old_var, m)) = (moments(new), moments(old));
    let (new_part, old_part) = (new_var / n, old_var / m);
    let sum = new_part + old_part;
    let freedom = sum.powi(2) / (new_part.powi(2) / (n - 1.0) + old_part.powi(2) / (m - 1.0));
    if ((new - old) / sum.sqrt()).abs() > student_limit(freedom) {
        beyond(new, old, threshold)
    } else {
        Ruling::Same
    }
}

/// Limit of |t| at 5 %, two-sided: a table's, at the next lower number of degrees of freedom.
fn student_limit(freedom: f64) -> f64 {
    const LIMITS: [(f64, f64); 9] = [
        (18.0, 2.101),
        (16.0, 2.120),
        (14.0, 2.145),
        (12.0, 2.179),
        (10.0, 2.228),
        (8.0, 2.306),
        (6.0, 2.447),
        (4.0, 2.776),
        (2.0, 4.303),
    ];
    LIMITS.iter().find(|(least, _)| freedom >= *least).map_or(12.706, |(_, limit)| *limit)
}

/// "1.03 ± 0.02 times faster": ratio of the means, with its deviation by first-order propagation of both deviations.
fn outside_one(new: &[f64], old: &[f64]) -> Ruling {
    let ((new, new_var, _), (old, old_var, _)) = (moments(new), moments(old));
    let ratio = (new / old).max(old / new);
    let deviation = ratio * (new_var / new.powi(2) + old_var / old.powi(2)).sqrt();
    if ratio - deviation > 1.0 { beyond(new, old, 0.0) } else { Ruling::Same }
}
