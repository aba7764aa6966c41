//! Sparkline of a series, or of the distribution of values, in one short line of bars.

/// Bars of eight heights: from the least value of the line to its greatest.
pub(super) const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Legend needed to read such a line.
pub(super) const LEGEND: &str =
    "Bars: each line from its own least figure (▁) to its greatest (█).";

/// Draws `values` in order as at most `most` bars: of more values, each bar is the median of its
/// neighbours. Equal values are bars of one middle height. Values that are not finite are
/// left out; without any value the line is empty.
pub fn line(values: &[f64], most: usize) -> String {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let values = deadheat_result::analysis::spread::resampled(&finite, most);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let span = greatest - least;
    let bar = |value: &f64| {
        // The span is not finite, or zero: all bars are equal.
        if !(span > 0.0 && span.is_finite()) {
            return BARS[3];
        }
        let step = ((value - least) / span * BARS.len() as f64) as usize;
        BARS[step.min(BARS.len() - 1)]
    };
    values.iter().map(bar).collect()
}

/// Draws a histogram of `bars` bins, which `at` numbers from 0: a bar for each bin, the fullest one
/// whole, a space for an empty one.
pub(super) fn strip(at: &[usize], bars: usize) -> String {
    let mut counts = vec![0_usize; bars];
    at.iter().filter(|at| **at < bars).for_each(|at| counts[*at] += 1);
    let most = counts.iter().copied().max().unwrap_or(0);
    let bar = |count: &usize| match count {
        0 => ' ',
        count => BARS[(count * BARS.len()).div_ceil(most.max(1)).clamp(1, BARS.len()) - 1],
    };
    counts.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_span_from_the_least_to_the_greatest() {
        let values: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(line(&values, 16), "▁▂▃▄▅▆▇█");
        assert_eq!(line(&[62.3, 51.2], 16), "█▁");
    }

    #[test]
    fn long_series_are_medians_of_neighbours() {
        let values: Vec<f64> = (0..160).map(|at| f64::from(at / 10)).collect();
        assert_eq!(line(&values, 16), "▁▁▂▂▃▃▄▄▅▅▆▆▇▇██");
        let mut spiked = vec![1.0; 90];
        spiked[44] = 1e9;
        assert_eq!(line(&spiked, 9), "▄".repeat(9), "one of ten is not the median");
        assert_eq!(line(&spiked, 1_000).chars().count(), 90);
    }

    #[test]
    fn a_strip_has_its_fullest_place_whole_and_empty_ones_blank() {
        assert_eq!(strip(&[1, 1, 1, 1, 3, 2, 2], 5), " █▄▂ ");
        assert_eq!(strip(&[9], 3), "   ");
        assert_eq!(strip(&[], 0), "");
    }

    #[test]
    fn edges() {
        assert_eq!(line(&[], 16), "");
        assert_eq!(line(&[f64::NAN, f64::INFINITY], 16), "");
        assert_eq!(line(&[5.0], 16), "▄");
        assert_eq!(line(&[5.0; 4], 16), "▄▄▄▄");
        assert_eq!(line(&[-f64::MAX, f64::MAX], 16), "▄▄");
        assert_eq!(line(&[1.0, 2.0], 0), "");
    }
}
