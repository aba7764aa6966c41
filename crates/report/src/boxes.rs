//! Box plots of the trials of each contender, in lines of text, on one axis.

use deadheat_result::analysis::spread::FiveNumbers;

/// Minimum ratio of the greatest figure to the least at which the axis is logarithmic.
const WIDE: f64 = 10.0;

/// Box plots on one axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Boxes {
    /// Rows, one for each contender that has figures, in the order of the table of results.
    pub rows: Vec<BoxRow>,
    /// Legend needed to read them; a line below.
    pub legend: String,
    pub(super) axis: BoxAxis,
    /// Figures at the ends of the axis.
    pub(super) ends: (String, String),
}

/// Box plot of one contender.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BoxRow {
    /// Label of the contender.
    pub name: String,
    pub(super) five: FiveNumbers,
    /// Outliers: figures beyond the whiskers.
    pub(super) far: Vec<f64>,
    /// Censored figures, which are only known to be greater.
    pub(super) censored: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BoxAxis {
    least: f64,
    greatest: f64,
    pub(super) steps: Steps,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Steps {
    Even,
    Logarithmic,
}

impl Boxes {
    /// Draws a row in `width` columns.
    pub(super) fn draw(&self, row: &BoxRow, width: usize) -> String {
        let mut line = vec![' '; width.max(1)];
        let at = |value: f64| self.axis.column(value, line.len());
        let five = &row.five;
        let [low, q1, middle, q3, high] =
            [five.low, five.q1, five.median, five.q3, five.high].map(at);
        let far: Vec<usize> = row.far.iter().map(|value| at(*value)).collect();
        let censored: Vec<usize> = row.censored.iter().map(|value| at(*value)).collect();
        line[low..=high].fill('─');
        (line[low], line[high]) = ('├', '┤');
        line[q1..=q3].fill('▒');
        line[middle] = '┃';
        // Outliers replace whiskers, never the box or the median.
        let over = |c: char| matches!(c, ' ' | '─' | '├' | '┤' | '·');
        for (columns, mark) in [(far, '·'), (censored, '›')] {
            for column in columns {
                if over(line[column]) {
                    line[column] = mark;
                }
            }
        }
        line.into_iter().collect::<String>().trim_end().to_owned()
    }

    /// Draws the ends of the axis, in `width` columns: if all figures are the same, that figure below the
    /// middle.
    pub(super) fn scale(&self, width: usize) -> String {
        let (least, greatest) = &self.ends;
        if self.axis.least == self.axis.greatest {
            let before = (width / 2).saturating_sub(least.chars().count() / 2);
            return format!("{:before$}{least}", "");
        }
        let taken = least.chars().count() + greatest.chars().count();
        format!("{least}{:1$}{greatest}", "", width.saturating_sub(taken).max(1))
    }
}

impl BoxAxis {
    pub(super) fn new(least: f64, greatest: f64) -> BoxAxis {
        let is_wide = least > 0.0 && greatest > WIDE * least;
        let steps = if is_wide { Steps::Logarithmic } else { Steps::Even };
        BoxAxis { least, greatest, steps }
    }

    /// Returns the column of `value` among `width`, from 0.
    pub(super) fn column(&self, value: f64, width: usize) -> usize {
        let share = match self.steps {
            Steps::Even => (value - self.least) / (self.greatest - self.least),
            Steps::Logarithmic => (value / self.least).ln() / (self.greatest / self.least).ln(),
        };
        let last = width.saturating_sub(1);
        // Equal figures, or figures too far apart for a number, are in the middle.
        if !share.is_finite() {
            return last / 2;
        }
        ((share * last as f64).round() as usize).min(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_result::analysis::spread;

    fn boxes(figures: &[&[f64]]) -> Boxes {
        let rows = figures.iter().map(|figures| {
            let mut sorted = figures.to_vec();
            let five = spread::five_numbers(&mut sorted).unwrap();
            let is_far = |value: &f64| *value < five.low || *value > five.high;
            let far = sorted.iter().copied().filter(is_far).collect();
            BoxRow { name: "x".into(), five, far, censored: Vec::new() }
        });
        let rows: Vec<BoxRow> = rows.collect();
        let all = || figures.iter().flat_map(|figures| figures.iter().copied());
        let (least, greatest) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        let ends = (least.to_string(), greatest.to_string());
        Boxes { rows, legend: String::new(), axis: BoxAxis::new(least, greatest), ends }
    }

    #[test]
    fn a_box_stands_between_its_whiskers() {
        let drawn = boxes(&[&[0.0, 10.0, 20.0, 30.0, 40.0], &[20.0]]);
        assert_eq!(drawn.draw(&drawn.rows[0], 21), "├────▒▒▒▒▒┃▒▒▒▒▒────┤");
        assert_eq!(drawn.draw(&drawn.rows[1], 21), "          ┃");
        assert_eq!(drawn.scale(21), "0                  40");
    }

    #[test]
    fn figures_that_are_all_the_same_are_one_mark_in_the_middle() {
        let drawn = boxes(&[&[5.0; 8]]);
        assert_eq!(drawn.draw(&drawn.rows[0], 21), "          ┃");
        assert_eq!(drawn.scale(21), "          5");
    }

    #[test]
    fn far_trials_are_seen_and_a_wide_spread_is_logarithmic() {
        let drawn = boxes(&[&[10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 1000.0], &[100.0]]);
        assert_eq!(drawn.axis.steps, Steps::Logarithmic);
        assert_eq!(drawn.draw(&drawn.rows[0], 21), "┃                   ·");
        assert_eq!(drawn.draw(&drawn.rows[1], 21), "          ┃");
    }

    #[test]
    fn no_width_and_no_number_is_too_much() {
        let drawn = boxes(&[&[1.0, 2.0, 3.0], &[f64::MAX, f64::MIN_POSITIVE]]);
        for width in [0, 1, 2, 3, 500] {
            for row in &drawn.rows {
                assert!(drawn.draw(row, width).chars().count() <= width.max(1));
            }
        }
    }
}
