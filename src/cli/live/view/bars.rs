//! Intervals as bars over an axis that all rows share.

/// Axis of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BarAxis {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Share of an axis that bars fill at least; below it, the axis is made narrower.
const LEAST_FILLED: f64 = 0.3;

/// Part of an axis that is empty at each end when it is made.
const EDGE: f64 = 0.1;

/// Ratio of the ends from which an axis is logarithmic.
const MOST_LINEAR: f64 = 8.0;

impl BarAxis {
    /// Returns an axis for these spans: the present one while they fit and fill it, so that a reader sees them become
    /// narrower; `None` without spans.
    pub(super) fn over(
        spans: impl Iterator<Item = (f64, f64)>,
        present: Option<BarAxis>,
    ) -> Option<BarAxis> {
        let union = |(low, high): (f64, f64), (l, h): (f64, f64)| (low.min(l), high.max(h));
        let (low, high) = spans.filter(|(l, h)| l.is_finite() && h.is_finite()).reduce(union)?;
        let fits = |axis: &BarAxis| {
            let is_filled = high - low >= LEAST_FILLED * (axis.high - axis.low);
            axis.low <= low && high <= axis.high && is_filled
        };
        let edge = ((high - low) * EDGE).max(high.abs() * 0.005).max(f64::MIN_POSITIVE);
        let least = if low > 0.0 { low * 0.5 } else { f64::NEG_INFINITY };
        let fresh = BarAxis { low: (low - edge).max(least), high: high + edge };
        Some(present.filter(fits).unwrap_or(fresh))
    }

    /// Returns true if equal distances are equal ratios.
    pub(super) fn is_log(self) -> bool {
        self.low > 0.0 && self.high / self.low > MOST_LINEAR
    }

    /// Returns the place of a value, 0 to 1 on the axis.
    fn place(self, value: f64) -> f64 {
        let on = |value: f64| if self.is_log() { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (low, high) = (on(self.low), on(self.high));
        if high > low { (on(value) - low) / (high - low) } else { 0.5 }
    }

    /// Returns the column of a value out of `width`, and the end of the axis beyond which it lies.
    fn column(self, value: f64, width: usize) -> (usize, AxisEnd) {
        let last = width.saturating_sub(1);
        let at = (self.place(value) * last as f64).round();
        if at < 0.0 {
            (0, AxisEnd::Low)
        } else if at > last as f64 {
            (last, AxisEnd::High)
        } else {
            (at as usize, AxisEnd::Neither)
        }
    }
}

/// End of an axis beyond which a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AxisEnd {
    Low,
    Neither,
    High,
}

/// Marks of a bar: of the point, and of columns behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct BarMarks<'a> {
    pub(super) point: char,
    /// Values with a character behind the bar.
    pub(super) behind: &'a [(f64, char)],
}

/// Draws an interval with its point in `width` columns; without an interval the point alone.
pub(super) fn bar(
    axis: BarAxis,
    point: f64,
    ends: Option<(f64, f64)>,
    marks: BarMarks<'_>,
    width: usize,
) -> String {
    let mut cells = vec![' '; width];
    for &(value, mark) in marks.behind {
        if let (at, AxisEnd::Neither) = axis.column(value, width)
            && let Some(cell) = cells.get_mut(at)
        {
            *cell = mark;
        }
    }
    if let Some((low, high)) = ends {
        let ((from, before), (to, after)) = (axis.column(low, width), axis.column(high, width));
        for cell in cells.iter_mut().take(to + 1).skip(from) {
            *cell = '─';
        }
        for (at, mark) in [
            (from, if before == AxisEnd::Neither { '├' } else { '◂' }),
            (to, if after == AxisEnd::Neither { '┤' } else { '▸' }),
        ] {
            if let Some(cell) = cells.get_mut(at) {
                *cell = mark;
            }
        }
    }
    let (at, beyond) = axis.column(point, width);
    if let Some(cell) = cells.get_mut(at) {
        *cell = match beyond {
            AxisEnd::Low => '◂',
            AxisEnd::Neither => marks.point,
            AxisEnd::High => '▸',
        };
    }
    cells.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: BarMarks<'_> = BarMarks { point: '●', behind: &[] };

    #[test]
    fn a_bar_spans_its_interval_and_becomes_its_point_where_it_is_narrow() {
        let axis = BarAxis { low: 0.0, high: 10.0 };
        assert_eq!(bar(axis, 5.0, Some((2.0, 8.0)), PLAIN, 11), "  ├──●──┤  ");
        assert_eq!(bar(axis, 5.0, Some((4.9, 5.1)), PLAIN, 11), "     ●     ");
        assert_eq!(bar(axis, 5.0, None, PLAIN, 11), "     ●     ");
        assert_eq!(bar(axis, 9.0, Some((-3.0, 30.0)), PLAIN, 11), "◂────────●▸");
        assert_eq!(bar(axis, 99.0, None, PLAIN, 4), "   ▸");
        assert_eq!(bar(axis, 5.0, Some((2.0, 8.0)), PLAIN, 0), "");
        let behind = [(1.0, '┊'), (10.0, '┊'), (20.0, '!')];
        let marks = BarMarks { point: '○', behind: &behind };
        assert_eq!(bar(axis, 5.0, Some((4.0, 6.0)), marks, 11), " ┊  ├○┤   ┊");
    }

    #[test]
    fn an_axis_stays_while_bars_become_narrower_and_is_made_anew_when_they_are_lost_on_it() {
        let over = |spans: &[(f64, f64)], present| BarAxis::over(spans.iter().copied(), present);
        let first = over(&[(80.0, 100.0), (90.0, 120.0)], None).unwrap();
        assert_eq!((first.low, first.high), (76.0, 124.0));
        assert_eq!(over(&[(85.0, 95.0), (95.0, 105.0)], Some(first)), Some(first));
        let narrower = over(&[(95.0, 97.0)], Some(first)).unwrap();
        assert!(narrower.high - narrower.low < 4.0, "{narrower:?}");
        let wider = over(&[(50.0, 97.0)], Some(first)).unwrap();
        assert!(wider.low < 50.0 && wider.high < 110.0, "{wider:?}");
        assert_eq!(over(&[], Some(first)), None);
        assert!(over(&[(1.0, 1.0)], None).unwrap().low < 1.0, "a point has an axis");
    }

    #[test]
    fn far_values_share_a_logarithmic_axis() {
        let axis = BarAxis { low: 1.0, high: 100.0 };
        assert!(axis.is_log());
        assert_eq!(bar(axis, 10.0, None, PLAIN, 5), "  ●  ");
        assert!(!BarAxis { low: -1.0, high: 100.0 }.is_log());
    }
}
