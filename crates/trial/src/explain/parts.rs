//! Splitting of round trips into parts, from the moments in their rows. Pure arithmetic on rows.
//!
//! ```text
//! near  call ── scheduled ── left ╮                                    ╭ arrived ── got
//! far                             ╰ arrived ── got ── call ── scheduled ── left ╯
//! ```
//! Each end notes times on its own clock. A part inside one end uses one clock only. The path there and back together
//! is the wait of the near end less the time of the far end, so an offset between the clocks cancels out. Each way by
//! itself is known if both ends share a kernel.

use std::collections::BTreeMap;

use deadheat_records::parts::{Clocks, Part, PartTime, RoundTrip};

use super::{EndNotes, Row, STAMPED};
use deadheat_stats as stats;

/// Scheme by which a contender's round trips are split, depending on the known times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Stamps of both kernels.
    Stamped(Clocks),
    /// Stamps of the near kernel; the far kernel is the peer.
    KernelPeer,
    /// Times of the applications only.
    Applications(Clocks),
}

impl Scheme {
    /// Returns true if it splits only stamped messages.
    fn needs_stamps(self) -> bool {
        !matches!(self, Scheme::Applications(_))
    }
}

/// Compares the names of the running kernels.
pub fn clocks(near: &EndNotes, far: &EndNotes) -> Clocks {
    if near.boot == far.boot && !near.boot.is_empty() { Clocks::Same } else { Clocks::Apart }
}

/// Parts of one round trip, which add up to `total` exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Parts in order, with their times.
    pub parts: Vec<(Part, u64)>,
    /// Time from the near application's call until it has the answer.
    pub total: u64,
}

/// Reason why a row cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// No answer, or no row with the same number at the far end.
    Partner,
    /// No stamp of this kind at the near end.
    Near(Moment),
    /// No stamp of this kind at the far end.
    Far(Moment),
    /// Moments in an impossible order, for example because a clock was set.
    Order,
}

/// Moment that a row may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Sending call.
    Call,
    /// Packet handed to the queueing discipline.
    Scheduled,
    /// Packet taken by the driver.
    Left,
    /// Packet received from the driver.
    Arrived,
    /// Message received by the application.
    Got,
}

impl Moment {
    fn of(self, row: &Row) -> Option<u64> {
        match self {
            Moment::Call => row.call,
            Moment::Scheduled => row.scheduled,
            Moment::Left => row.left,
            Moment::Arrived => row.arrived,
            Moment::Got => row.got,
        }
    }

    /// Returns its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Moment::Call => "sending call",
            Moment::Scheduled => "TX_SCHED stamp",
            Moment::Left => "TX_SOFTWARE stamp",
            Moment::Arrived => "RX_SOFTWARE stamp",
            Moment::Got => "receiving call",
        }
    }
}

/// Splits the round trip that `near` and `far` noted.
///
/// # Errors
/// The reason [`Missing`] if the row cannot be split.
pub fn split(near: &Row, far: Option<&Row>, scheme: Scheme) -> Result<Split, Missing> {
    let n = |moment: Moment| moment.of(near).ok_or(Missing::Near(moment));
    let f = |moment: Moment| {
        let row = far.ok_or(Missing::Partner)?;
        moment.of(row).ok_or(Missing::Far(moment))
    };
    use Moment::{Arrived, Call, Got, Left, Scheduled};
    let start = n(Call)?;
    let end = n(Got).map_err(|_| Missing::Partner)?;
    let mut parts = Vec::with_capacity(9);
    let mut part = |name: Part, from: u64, to: u64| match to.checked_sub(from) {
        Some(span) => {
            parts.push((name, span));
            Ok(())
        }
        None => Err(Missing::Order),
    };
    match scheme {
        Scheme::Applications(clocks) => {
            let (got, call) = (f(Got)?, f(Call)?);
            if clocks == Clocks::Same {
                part(Part::ThereUnsplit, start, got)?;
            }
            part(Part::FarApplication, got, call)?;
            match clocks {
                Clocks::Same => part(Part::BackUnsplit, call, end)?,
                Clocks::Apart => part(Part::BothUnsplit, call - got, end - start.min(end))?,
            }
        }
        Scheme::KernelPeer => {
            part(Part::NearCall, start, n(Scheduled)?)?;
            part(Part::NearStack, n(Scheduled)?, n(Left)?)?;
            part(Part::FarKernel, n(Left)?, n(Arrived)?)?;
            part(Part::NearWake, n(Arrived)?, end)?;
        }
        Scheme::Stamped(clocks) => {
            let (left, back) = (n(Left)?, n(Arrived)?);
            let (arrived, answered) = (f(Arrived)?, f(Left)?);
            part(Part::NearCall, start, n(Scheduled)?)?;
            part(Part::NearStack, n(Scheduled)?, left)?;
            if clocks == Clocks::Same {
                part(Part::There, left, arrived)?;
            }
            part(Part::FarWake, arrived, f(Got)?)?;
            part(Part::FarApplication, f(Got)?, f(Call)?)?;
            part(Part::FarCall, f(Call)?, f(Scheduled)?)?;
            part(Part::FarStack, f(Scheduled)?, answered)?;
            match clocks {
                Clocks::Same => part(Part::Back, answered, back)?,
                // Spans on either clock; the far span is known to be nonnegative by now.
                Clocks::Apart => {
                    let waited = back.checked_sub(left).ok_or(Missing::Order)?;
                    part(Part::BothWays, answered - arrived, waited)?;
                }
            }
            part(Part::NearWake, back, end)?;
        }
    }
    let total = end.checked_sub(start).ok_or(Missing::Order)?;
    Ok(Split { parts, total })
}

/// Round trips of some trials, split, and the number of the others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SplitRoundTrips {
    /// Rows that could be split.
    pub splits: Vec<Split>,
    /// Number of rows that could not be split, by the missing moment.
    pub missing: BTreeMap<Missing, u64>,
    /// Times from leaving the near host until the acknowledgement, if it arrived (TCP).
    pub acknowledged: Vec<u64>,
    /// Lengths of the sending calls, near and far.
    pub calls: [Vec<u64>; 2],
    /// Round-trip times of messages that were not stamped on purpose.
    pub bare: Vec<u64>,
}

impl SplitRoundTrips {
    /// Adds the rows of one trial, matched by number. The first tenth is left out: the connection is cold then, and the
    /// kernel may not stamp yet.
    pub fn add(&mut self, near: &[Row], far: &[Row], scheme: Scheme) {
        let far: BTreeMap<u64, &Row> = far.iter().map(|row| (row.number, row)).collect();
        for row in near.iter().skip(near.len() / 10) {
            let is_bare = scheme.needs_stamps() && !row.number.is_multiple_of(STAMPED);
            if is_bare {
                self.bare.extend(row.got.and_then(|got| got.checked_sub(row.call?)));
                continue;
            }
            let partner = far.get(&row.number).copied();
            match split(row, partner, scheme) {
                Ok(split) => self.splits.push(split),
                Err(missing) => {
                    *self.missing.entry(missing).or_default() += 1;
                    continue;
                }
            }
            let span = |from: Option<u64>, to: Option<u64>| to?.checked_sub(from?);
            self.acknowledged.extend(span(row.left, row.acknowledged));
            let rows = [Some(row), partner];
            for (calls, row) in self.calls.iter_mut().zip(rows) {
                calls.extend(row.and_then(|row| span(row.call, row.returned)));
            }
        }
    }

    /// Returns true if most rows could be split.
    pub fn is_complete(&self) -> bool {
        let missing: u64 = self.missing.values().sum();
        !self.splits.is_empty() && missing <= self.splits.len() as u64
    }

    /// Summarises the splits; `None` if no row could be split.
    ///
    /// The parts are means over the round trips around the median one, so that they add up to the median round trip:
    /// medians of parts would not, as no round trip is at the median in every part.
    pub fn sum(&self) -> Option<RoundTrip> {
        let mut by_total: Vec<&Split> = self.splits.iter().collect();
        by_total.sort_by_key(|split| split.total);
        let totals: Vec<f64> = by_total.iter().map(|split| split.total as f64).collect();
        let total_ns = stats::quantile::median(&totals)?;
        let central = central(&by_total, total_ns)?;
        let names = central.first()?.parts.iter().map(|(part, _)| *part);
        let of = |split: &Split, part: Part| {
            let found = split.parts.iter().find(|(name, _)| *name == part);
            found.map_or(0.0, |(_, ns)| *ns as f64)
        };
        let parts: Vec<PartTime> = names
            .map(|part| {
                let sum: f64 = central.iter().map(|split| of(split, part)).sum();
                let mut all: Vec<f64> = by_total.iter().map(|split| of(split, part)).collect();
                all.sort_by(f64::total_cmp);
                PartTime {
                    part,
                    ns: sum / central.len() as f64,
                    low_ns: stats::quantile::quantile_sorted(&all, 0.1).unwrap_or_default(),
                    high_ns: stats::quantile::quantile_sorted(&all, 0.9).unwrap_or_default(),
                }
            })
            .collect();
        let added: f64 = parts.iter().map(|part| part.ns).sum();
        let median = |values: &[u64]| {
            let values: Vec<f64> = values.iter().map(|ns| *ns as f64).collect();
            stats::quantile::median(&values)
        };
        Some(RoundTrip {
            messages: by_total.len() as u64,
            incomplete: self.missing.values().sum(),
            total_ns,
            parts,
            residual_ns: total_ns - added,
            bare_ns: median(&self.bare),
            acknowledged_ns: median(&self.acknowledged),
            near_sending_ns: median(&self.calls[0]),
            far_sending_ns: median(&self.calls[1]),
        })
    }
}

/// Largest distance between the mean of the central round trips and the median one, in nanoseconds.
const CLOSE_NS: f64 = 500.0;

/// Returns the round trips around the median one: a twentieth of all to either side and at least ten, or fewer if their
/// mean would be too far from the median.
fn central<'a, 'b>(by_total: &'b [&'a Split], median: f64) -> Option<&'b [&'a Split]> {
    let widest = (by_total.len() / 20).max(10);
    let around = |reach: usize| {
        let (first, last) = middle(by_total.len(), reach);
        by_total.get(first..=last)
    };
    let is_close = |splits: &[&Split]| {
        let sum: f64 = splits.iter().map(|split| split.total as f64).sum();
        (sum / splits.len() as f64 - median).abs() <= CLOSE_NS
    };
    // With a reach of 0 it is the median itself.
    (0..=widest).rev().filter_map(around).find(|splits| is_close(splits))
}

/// Returns the first and the last index around the middle of `n`, with as many below as above: `reach`, or fewer if
/// there are not as many.
fn middle(n: usize, reach: usize) -> (usize, usize) {
    let (low, high) = (n.saturating_sub(1) / 2, n / 2);
    let reach = reach.min(low);
    (low - reach, high + reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a round trip of 1,000 ns that began at `start` on the near clock; the far clock is `ahead`.
    fn rows(number: u64, start: u64, ahead: i64) -> (Row, Row) {
        let near = |after: u64| Some(start + after);
        let far = |after: u64| (start + after).checked_add_signed(ahead);
        (
            Row {
                number,
                call: near(0),
                returned: near(190),
                scheduled: near(100),
                left: near(120),
                acknowledged: near(500),
                arrived: near(900),
                got: near(1_000),
            },
            Row {
                number,
                arrived: far(150),
                got: far(350),
                call: far(750),
                scheduled: far(800),
                left: far(810),
                returned: far(830),
                acknowledged: None,
            },
        )
    }

    const HOURS: i64 = 7 * 3_600_000_000_000;

    #[test]
    fn one_clock_splits_each_way_and_the_parts_are_the_whole() {
        let (near, far) = rows(1, 5_000, 0);
        let split = split(&near, Some(&far), Scheme::Stamped(Clocks::Same)).unwrap();
        use Part::*;
        let expected = [
            (NearCall, 100),
            (NearStack, 20),
            (There, 30),
            (FarWake, 200),
            (FarApplication, 400),
            (FarCall, 50),
            (FarStack, 10),
            (Back, 90),
            (NearWake, 100),
        ];
        assert_eq!(split.parts, expected);
        assert_eq!((split.total, expected.iter().map(|(_, ns)| ns).sum::<u64>()), (1_000, 1_000));
    }

    #[test]
    fn clocks_hours_apart_change_nothing_but_the_split_of_the_path() {
        for ahead in [0, HOURS, -HOURS] {
            let (near, far) = rows(1, 100_000_000_000_000, ahead);
            let split = split(&near, Some(&far), Scheme::Stamped(Clocks::Apart)).unwrap();
            assert_eq!(split.parts[2..4], [(Part::FarWake, 200), (Part::FarApplication, 400)]);
            assert_eq!(split.parts[6], (Part::BothWays, 120));
            assert_eq!(split.parts.iter().map(|(_, ns)| ns).sum::<u64>(), split.total);
        }
    }

    #[test]
    fn without_stamps_the_applications_moments_remain() {
        let (near, far) = rows(1, 100_000_000_000_000, HOURS);
        let apart = split(&near, Some(&far), Scheme::Applications(Clocks::Apart)).unwrap();
        assert_eq!(apart.parts, [(Part::FarApplication, 400), (Part::BothUnsplit, 600)]);
        let (near, far) = rows(1, 5_000, 0);
        let same = split(&near, Some(&far), Scheme::Applications(Clocks::Same)).unwrap();
        let expected =
            [(Part::ThereUnsplit, 350), (Part::FarApplication, 400), (Part::BackUnsplit, 250)];
        assert_eq!(same.parts, expected);
    }

    #[test]
    fn a_kernel_that_answers_has_no_rows() {
        let (near, _) = rows(1, 5_000, 0);
        let split = split(&near, None, Scheme::KernelPeer).unwrap();
        use Part::*;
        assert_eq!(
            split.parts,
            [(NearCall, 100), (NearStack, 20), (FarKernel, 780), (NearWake, 100)]
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let stamped = Scheme::Stamped(Clocks::Same);
        let said = |change: &dyn Fn(&mut Row, &mut Row)| {
            let (mut near, mut far) = rows(1, 5_000, 0);
            change(&mut near, &mut far);
            split(&near, Some(&far), stamped).unwrap_err()
        };
        // Two messages in one segment: only the last of them has stamps.
        assert_eq!(said(&|near, _| near.left = None), Missing::Near(Moment::Left));
        assert_eq!(said(&|_, far| far.arrived = None), Missing::Far(Moment::Arrived));
        assert_eq!(said(&|near, _| near.got = None), Missing::Partner);
        // A clock that was set during the round trip.
        assert_eq!(said(&|near, _| near.got = Some(1)), Missing::Order);
        assert_eq!(said(&|_, far| far.left = Some(0)), Missing::Order);
        let (near, _) = rows(1, 5_000, 0);
        assert_eq!(split(&near, None, stamped), Err(Missing::Partner));
    }

    #[test]
    fn rows_meet_by_number_and_cold_ones_are_left_out() {
        let (near, mut far): (Vec<Row>, Vec<Row>) =
            (0..100).map(|n| rows(STAMPED * n, 1_000_000 * n, 0)).unzip();
        far.reverse();
        far.truncate(60);
        let mut joined = SplitRoundTrips::default();
        joined.add(&near, &far, Scheme::Stamped(Clocks::Same));
        // The last sixty have a partner; of the others the first ten do not count.
        assert_eq!(joined.splits.len(), 60);
        assert_eq!(joined.missing, BTreeMap::from([(Missing::Partner, 30)]));
        assert!(joined.is_complete());
        let sum = joined.sum().unwrap();
        assert_eq!((sum.messages, sum.incomplete, sum.residual_ns), (60, 30, 0.0));
        assert_eq!((sum.acknowledged_ns, sum.near_sending_ns), (Some(380.0), Some(190.0)));
        assert_eq!(sum.far_sending_ns, Some(80.0));
        assert_eq!(SplitRoundTrips::default().sum(), None);
    }

    #[test]
    fn messages_without_stamps_are_not_missing_but_tell_what_stamps_cost() {
        let (near, far): (Vec<Row>, Vec<Row>) = (0..400)
            .map(|n| {
                let (mut near, far) = rows(n, 1_000_000 * n, 0);
                if !n.is_multiple_of(STAMPED) {
                    near.scheduled = None;
                    near.got = near.got.map(|got| got - 70);
                }
                (near, far)
            })
            .unzip();
        let mut joined = SplitRoundTrips::default();
        joined.add(&near, &far, Scheme::Stamped(Clocks::Same));
        let sum = joined.sum().unwrap();
        assert_eq!((sum.messages, sum.incomplete), (90, 0));
        assert_eq!((sum.total_ns, sum.bare_ns), (1_000.0, Some(930.0)));
        let mut joined = SplitRoundTrips::default();
        joined.add(&near, &far, Scheme::Applications(Clocks::Same));
        assert_eq!(joined.sum().unwrap().messages, 360, "applications note every message");
    }

    /// Wake-ups scatter by microseconds, independently at both ends; medians of parts would add up
    /// to something else than the median.
    #[test]
    fn parts_add_up_to_the_median_where_everything_scatters() {
        let mut rng = deadheat_base::rng::SplitMix64::new(4);
        let mut joined = SplitRoundTrips::default();
        let rows: Vec<(Row, Row)> = (0..1_000)
            .map(|n| {
                let (mut near, mut far) = rows(STAMPED * n, 1_000_000_000 * n, 0);
                let skew = |rng: &mut deadheat_base::rng::SplitMix64| {
                    (20_000.0 * (0.8 * rng.normal()).exp()) as u64
                };
                let (late_there, late_here) = (skew(&mut rng), skew(&mut rng));
                let shift = |moment: &mut Option<u64>, by: u64| *moment = moment.map(|ns| ns + by);
                for moment in [&mut far.got, &mut far.call, &mut far.scheduled, &mut far.left] {
                    shift(moment, late_there);
                }
                shift(&mut near.arrived, late_there);
                shift(&mut near.got, late_there + late_here);
                (near, far)
            })
            .collect();
        let (near, far): (Vec<Row>, Vec<Row>) = rows.into_iter().unzip();
        joined.add(&near, &far, Scheme::Stamped(Clocks::Same));
        let sum = joined.sum().unwrap();
        assert!(sum.residual_ns.abs() < 200.0, "{}", sum.residual_ns);
        let wake = sum.parts.iter().find(|part| part.part == Part::FarWake).unwrap();
        assert!(wake.low_ns < wake.ns && wake.ns < wake.high_ns, "{wake:?}");
    }

    #[test]
    fn two_regimes_do_not_pull_the_sum_from_the_median() {
        let split = |total| Split { parts: vec![(Part::FarKernel, total)], total };
        let splits = (0..60).map(|n| split(10_000 + n)).chain((0..55).map(|n| split(90_000 + n)));
        let joined = SplitRoundTrips { splits: splits.collect(), ..SplitRoundTrips::default() };
        let sum = joined.sum().unwrap();
        assert_eq!(sum.total_ns, 10_057.0);
        assert!(sum.residual_ns.abs() <= CLOSE_NS, "{}", sum.residual_ns);
    }

    #[test]
    fn the_middle_is_symmetric_and_inside() {
        assert_eq!(middle(1_000, 50), (449, 550));
        assert_eq!(middle(101, 10), (40, 60));
        assert_eq!(middle(4, 10), (0, 3));
        assert_eq!(middle(4, 0), (1, 2));
        assert_eq!(middle(1, 10), (0, 0));
        // An empty list has no middle.
        assert_eq!(central(&[], 0.0), None);
    }
}
