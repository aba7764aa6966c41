//! Outages in order of time: stretches of trials in which nothing arrived, absences of the far end, and failed trials.
//! Stretches that fall into one outage are joined. A table says what each contender did about them.

use super::document::{Block, Cell, Column, Line, Section, Table, Tone};
use super::names::label;
use super::{results, words};
use deadheat_contract::measurements::Unit;
use deadheat_path::PathKind;
use deadheat_result::analysis::reconnection::{self, OutageCounts};
use deadheat_result::date;
use deadheat_result::outcome::{Absence, Outcome, Trial};

/// Maximum time between two stretches of one outage: a trial takes so long to begin.
const APART_MS: u64 = 3_000;

/// Maximum number of outages on the first screen, the longest of all.
const MOST: usize = 2;

/// Stretch of an outage.
#[derive(Debug, Clone, Copy)]
struct Stretch<'a> {
    /// Trial that it is of; `None` before the first block, whose trials are not listed.
    trial: Option<&'a Trial>,
    from_ms: u64,
    to_ms: u64,
    /// Length, in nanoseconds.
    length_ns: u64,
    /// True if an arrival ended it; `None` if unknown.
    ended: Option<bool>,
    kind: StretchKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StretchKind {
    /// Nothing arrived.
    Silence,
    /// The far end was away.
    Absence,
    /// The trial failed, at an unknown time within an outage.
    Failure,
}

/// Stretches of consecutive trials, which one outage explains.
struct Episode<'a>(Vec<Stretch<'a>>);

/// Returns a line for each of the longest outages, in order of time.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let mut all = episodes(outcome);
    let more = all.len().saturating_sub(MOST);
    if more > 0 {
        all.sort_by_key(|outage| std::cmp::Reverse(outage.length_ms()));
        all.truncate(MOST);
        all.sort_by_key(|outage| outage.start_ms());
    }
    let mut lines: Vec<String> = all.iter().map(|outage| outage.sentence(outcome)).collect();
    if let (Some(last), 1..) = (lines.last_mut(), more) {
        last.push_str(&format!(" {} in --details.", words::count(more as u64, "shorter one")));
    }
    lines.into_iter().map(|text| Line::new(text, Tone::Open)).collect()
}

/// Returns all outages; where none was seen, the trials that ended without figures.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let all = episodes(outcome);
    let lines = all.iter().map(|outage| Line::new(outage.sentence(outcome), Tone::Open)).collect();
    let is_outage = |stretch: &Stretch<'_>| stretch.kind != StretchKind::Failure;
    if all.iter().any(|outage| outage.0.iter().any(is_outage)) {
        return Section::new(
            "Outages",
            vec![Block::Table(table(outcome)), Block::Sentences(lines)],
        );
    }
    Section::new("Trials that ended early", vec![Block::Sentences(lines)])
}

/// Returns what each contender did about its outages, in the order of the table of results.
fn table(outcome: &Outcome) -> Table {
    let order = results::rows(outcome);
    let mut rows = reconnection::counts(outcome);
    rows.sort_by_key(|row| order.iter().position(|id| *id == row.contender));
    let column = |heading: &str, cell: &dyn Fn(&OutageCounts) -> Cell| {
        Column::new(heading, rows.iter().map(cell).collect())
    };
    let time = |ns| words::figure(ns, Unit::Nanos);
    let mut columns = vec![
        column("contender", &|row| Cell::text(label(outcome, row.contender))),
        column("trials with one", &|row| Cell::text(format!("{} of {}", row.with, row.trials))),
        column("next arrival after", &|row| {
            row.longest_ns.map_or_else(Cell::default, |ns| Cell::text(time(ns.median)))
        }),
        column("range", &|row| match row.longest_ns {
            Some(ns) if ns.n > 1 => Cell::text(words::interval(&time(ns.min), &time(ns.max))),
            _ => Cell::default(),
        }),
        column("connection", &|row| Cell::text(connection(row))),
    ];
    columns.retain(Column::has_content);
    let legend = "Next arrival: median over trials of the longest outage. Where a trial has one connection, messages that \
                  arrive again say that it was kept."
        .to_owned();
    // Files of before do not say how an outage ended.
    let says_how = rows.iter().any(|row| row.kept + row.silent + row.lost > 0);
    if says_how { Table { columns, legend } } else { Table::default() }
}

/// Says whether the connection was kept: `kept`; `kept in 2, lost in 1`.
fn connection(row: &OutageCounts) -> String {
    let parts = [(row.kept, "kept"), (row.silent, "silent to the end"), (row.lost, "lost")];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| if n == row.with { what.to_owned() } else { format!("{what} in {n}") })
        .collect();
    parts.join(", ")
}

fn episodes(outcome: &Outcome) -> Vec<Episode<'_>> {
    let of_trials = outcome.trials.iter().flat_map(|trial| stretches(outcome, trial));
    let absences = outcome.absences.iter().map(|absence| away(outcome, absence));
    let mut stretches: Vec<Stretch<'_>> = of_trials.chain(absences).collect();
    // The sort is stable: in virtual time all trials start at 0.
    stretches.sort_by_key(|stretch| stretch.from_ms);
    // A path of our own begins anew with each trial, and so does what happens on it.
    let begins_anew = matches!(outcome.path.kind, PathKind::Emulated | PathKind::Simulated);
    let mut all: Vec<Episode<'_>> = Vec::new();
    for stretch in stretches {
        let has_date = stretch.trial.is_none_or(|trial| trial.record.started_ms > 0);
        let follows = |outage: &&mut Episode<'_>| {
            // Stretches of one trial have arrivals between them.
            let is_own = |own: &Stretch<'_>| {
                own.trial.zip(stretch.trial).is_some_and(|(a, b)| std::ptr::eq(a, b))
            };
            has_date
                && !begins_anew
                && !outage.0.iter().any(is_own)
                && stretch.from_ms <= outage.last_ms().saturating_add(APART_MS)
        };
        match all.last_mut().filter(follows) {
            Some(outage) => outage.0.push(stretch),
            None => all.push(Episode(vec![stretch])),
        }
    }
    all
}

/// Returns the stretch of an absence, with the trial in which the far end was lost: the last marked one in older files.
fn away<'a>(outcome: &'a Outcome, absence: &'a Absence) -> Stretch<'a> {
    let is_lost_in = |trial: &&Trial| trial.record.lost_ms == Some(absence.from_ms);
    Stretch {
        trial: outcome.trials.iter().rfind(is_lost_in),
        from_ms: absence.from_ms,
        to_ms: absence.to_ms,
        length_ns: absence.length().0,
        ended: None,
        kind: StretchKind::Absence,
    }
}

/// Returns the stretches of one trial. Failures of a contender that dropped out are reported with the reason for that,
/// and trials in which the far end was lost with its absence.
fn stretches<'a>(outcome: &Outcome, trial: &'a Trial) -> Vec<Stretch<'a>> {
    let record = &trial.record;
    let entrant = outcome.contenders.get(trial.contender);
    let is_absence = |lost_ms| outcome.absences.iter().any(|one| Some(one.from_ms) == lost_ms);
    let has_figures = !record.metrics.is_empty() || record.ledger.accounts().next().is_some();
    if !has_figures && record.started_ms > 0 && entrant.is_some_and(|one| one.out().is_none()) {
        if record.lost_ms.is_some() && is_absence(record.lost_ms) {
            return Vec::new();
        }
        let to_ms = record.started_ms.saturating_add(record.took_ns / 1_000_000);
        let (from_ms, length_ns) = (record.started_ms, record.took_ns);
        let trial = Some(trial);
        return vec![Stretch {
            trial,
            from_ms,
            to_ms,
            length_ns,
            ended: None,
            kind: StretchKind::Failure,
        }];
    }
    let at = |ns: u64| record.started_ms.saturating_add(ns / 1_000_000);
    let stretch = |outage: &deadheat_contract::measurements::Outage| Stretch {
        trial: Some(trial),
        from_ms: at(outage.from_ns),
        to_ms: at(outage.end_ns()),
        length_ns: outage.length_ns,
        ended: outage.ended,
        kind: StretchKind::Silence,
    };
    record.outages.iter().map(stretch).collect()
}

impl Episode<'_> {
    /// Returns its start. A trial that failed was under way for a while before the outage began, if what else is known
    /// began within that trial.
    fn start_ms(&self) -> u64 {
        let first = self.0.first().map_or((0, 0), |stretch| (stretch.from_ms, stretch.to_ms));
        let known = self.0.iter().filter(|stretch| stretch.kind != StretchKind::Failure);
        let known = known.map(|stretch| stretch.from_ms).min();
        known.filter(|from| *from <= first.1).unwrap_or(first.0)
    }

    /// Returns the end of its last stretch.
    fn last_ms(&self) -> u64 {
        self.0.iter().map(|stretch| stretch.to_ms).max().unwrap_or(0)
    }

    fn length_ms(&self) -> u64 {
        self.last_ms().saturating_sub(self.start_ms())
    }

    /// Returns the outage in a sentence: of one trial its course, of several the blocks that fell into it.
    fn sentence(&self, outcome: &Outcome) -> String {
        match self.0.as_slice() {
            [] => String::new(),
            [
                Stretch {
                    trial: Some(trial), length_ns, ended, kind: StretchKind::Silence, ..
                },
            ] => format!(
                "Outage: nothing came for {}{}{}, in {}.",
                words::figure(*length_ns as f64, Unit::Nanos),
                self.since(),
                if *ended == Some(false) { " to the end" } else { "" },
                place(outcome, trial)
            ),
            [Stretch { trial: Some(trial), length_ns, kind: StretchKind::Failure, .. }] => {
                let why = trial.record.why_invalid.as_deref().unwrap_or("no reason recorded");
                format!(
                    "{} ended without figures after {}{}: {}.",
                    words::capital(&place(outcome, trial)),
                    words::figure(*length_ns as f64, Unit::Nanos),
                    self.since(),
                    why.trim_end_matches('.')
                )
            }
            all => self.of_several(outcome, all),
        }
    }

    fn of_several(&self, outcome: &Outcome, all: &[Stretch<'_>]) -> String {
        let trials = || all.iter().filter_map(|stretch| stretch.trial);
        let mut labels: Vec<String> = Vec::new();
        for trial in trials() {
            let name = name(outcome, trial);
            if !labels.contains(&name) {
                labels.push(name);
            }
        }
        let blocks = trials().map(|trial| trial.block + 1);
        let place = match blocks.clone().min().zip(blocks.max()) {
            None => "before the first block".to_owned(),
            Some((first, last)) if first == last => format!("in block {first}"),
            Some((first, last)) => format!("in blocks {first} to {last}"),
        };
        let labels =
            if labels.is_empty() { String::new() } else { format!(" ({})", words::list(&labels)) };
        let is_over = |stretch: &&Stretch<'_>| {
            stretch.kind != StretchKind::Silence && stretch.trial.is_some()
        };
        let failed = match all.iter().filter(is_over).count() {
            0 => String::new(),
            n => format!("; {} ended without figures", words::count(n as u64, "trial")),
        };
        let is_away = all.iter().any(|stretch| stretch.kind == StretchKind::Absence);
        let what = if is_away { "the far end was away for" } else { "for" };
        let length = words::figure(self.length_ms() as f64 * 1e6, Unit::Nanos);
        format!("Outage: {what} {length}{}, {place}{labels}{failed}.", self.since())
    }

    /// Returns the time of day at its start: ` from 12:38:38 UTC on`; empty in virtual time.
    fn since(&self) -> String {
        let first = self.0.first();
        let is_dated =
            first.is_some_and(|stretch| stretch.trial.is_none_or(|one| one.record.started_ms > 0));
        if !is_dated {
            String::new()
        } else {
            format!(" from {} on", date::time_of_day(self.start_ms()))
        }
    }
}

/// Returns the name of a trial's contender; the hidden copy has a name of its own.
fn name(outcome: &Outcome, trial: &Trial) -> String {
    let label = label(outcome, trial.contender);
    if trial.control { format!("the copy of {label}") } else { label }
}

/// Returns the place of a trial in words: `the 3rd trial of tcp (block 3)`.
fn place(outcome: &Outcome, trial: &Trial) -> String {
    let own = |other: &&Trial| {
        (other.contender, other.control) == (trial.contender, trial.control)
            && (other.block, other.order) <= (trial.block, trial.order)
    };
    let nth = outcome.trials.iter().filter(own).count() as u64;
    format!("the {} trial of {} (block {})", ordinal(nth), name(outcome, trial), trial.block + 1)
}

/// Formats an ordinal number: `1st`, `12th`, `23rd`.
fn ordinal(n: u64) -> String {
    let end = match (n % 10, n % 100) {
        (1, tens) if tens != 11 => "st",
        (2, tens) if tens != 12 => "nd",
        (3, tens) if tens != 13 => "rd",
        _ => "th",
    };
    format!("{n}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::{self, Metrics};
    use deadheat_race::race::testing;
    use deadheat_records::trial::Record;

    /// 2026-11-25, 12:38:30 UTC.
    const START: u64 = 1_795_610_310_000;

    fn outage(from_ms: u64, length_ms: u64) -> measurements::Outage {
        let ns = |ms: u64| ms * 1_000_000;
        let (from_ns, length_ns) = (ns(from_ms), ns(length_ms));
        measurements::Outage { from_ns, length_ns, messages: 100, ended: None }
    }

    /// Returns a race of two contenders and the copy of the first in five blocks, a trial each 10 s, in which `change`
    /// may spoil each trial, which it knows by its number.
    fn race(change: impl Fn(u64, &mut Record)) -> Outcome {
        let mut outcome = testing::outcome(2);
        let name = outcome.metrics[0].name.clone();
        for number in 0..15 {
            let mut record =
                deadheat_result::testing::record(Metrics::from([(name.clone(), 100.0)]));
            (record.started_ms, record.took_ns) = (START + 10_000 * number, 9_000_000_000);
            change(number, &mut record);
            let (block, order) = (number / 3, number % 3);
            let contender = usize::from(order == 1);
            outcome.trials.push(Trial { block, order, contender, control: order == 2, record });
        }
        outcome
    }

    fn said(outcome: &Outcome) -> Vec<String> {
        lines(outcome).into_iter().map(|line| line.text).collect()
    }

    /// An outage of 10.0 s wherever it falls: amid a trial, between two, and before the first block. The trials that were
    /// over before it have figures, and stay.
    #[test]
    fn an_outage_has_its_own_start_and_length_wherever_it_falls() {
        for (into_ms, lost) in [(300, Some(4)), (8_900, Some(4)), (0, Some(5)), (4_000, None)] {
            let from = START + 10_000 * lost.unwrap_or(0) + into_ms;
            let mut outcome = race(|at, record| {
                // In files of before, the trials of the block that were over were lost, too.
                if lost.is_some_and(|lost| at / 3 == lost / 3 && at < lost) {
                    (record.lost_ms, record.valid) = (Some(from), false);
                }
                if Some(at) == lost {
                    let (started_ms, took_ns) = (record.started_ms, 5_300_000_000);
                    *record =
                        Record { started_ms, took_ns, ..Record::without_figures("lost".into()) };
                    record.lost_ms = Some(from);
                }
            });
            let block = lost.map(|lost| lost / 3);
            let why = "it no longer answers".to_owned();
            outcome.absences = vec![Absence { from_ms: from, to_ms: from + 10_000, block, why }];
            let said = said(&outcome);
            assert_eq!(said.len(), 1, "{said:?}");
            let at = date::time_of_day(from);
            let start = format!("Outage: the far end was away for 10.0 s from {at} on, ");
            let end = match lost {
                Some(4) => "in block 2 (udp); 1 trial ended without figures.",
                Some(_) => "in block 2 (the copy of tcp); 1 trial ended without figures.",
                None => "before the first block.",
            };
            assert_eq!(said[0], format!("{start}{end}"));
        }
    }

    /// The outage begins at the end of a trial, and the next one finds no way to connect.
    #[test]
    fn a_failed_trial_adds_to_a_silence_and_does_not_move_its_start() {
        let outcome = race(|at, record| match at {
            3 => record.outages = vec![outage(8_500, 500)],
            4 => {
                let started_ms = record.started_ms;
                let failed = Record::without_figures("blocked: no answer".into());
                *record = Record { started_ms, took_ns: 5_000_000_000, ..failed };
            }
            _ => {}
        });
        let at = date::time_of_day(START + 38_500);
        assert!(
            said(&outcome)[0].starts_with(&format!("Outage: for 6.50 s from {at} on")),
            "{:?}",
            said(&outcome)
        );
    }

    #[test]
    fn a_race_without_outages_says_nothing() {
        assert_eq!(said(&race(|_, _| ())), [""; 0]);
        assert_eq!(section(&race(|_, _| ())), None);
    }

    #[test]
    fn an_outage_has_its_time_its_length_and_its_trial() {
        let in_trial = |number| {
            race(move |at, record| {
                if at == number {
                    record.outages = vec![outage(1_500, 3_000)];
                }
            })
        };
        assert_eq!(
            said(&in_trial(6)),
            [
                "Outage: nothing came for 3.00 s from 12:39:31 UTC on, in the 3rd trial of tcp (block 3)."
            ]
        );
        assert!(said(&in_trial(5))[0].contains("in the 2nd trial of the copy of tcp (block 2)"));
    }

    #[test]
    fn trials_that_fell_into_one_outage_are_told_together() {
        let outcome = race(|at, record| match at {
            6 => record.outages = vec![outage(5_000, 4_000)],
            7..=9 => {
                *record = Record {
                    started_ms: record.started_ms,
                    took_ns: record.took_ns,
                    ..Record::without_figures("failed: no route to host".into())
                };
            }
            10 => record.outages = vec![outage(0, 2_000)],
            _ => {}
        });
        assert_eq!(
            said(&outcome),
            [
                "Outage: for 37.0 s from 12:39:35 UTC on, in blocks 3 to 4 (tcp, udp and the copy of tcp); 3 trials \
              ended without figures."
            ]
        );
    }

    #[test]
    fn a_trial_that_failed_alone_says_when_and_why() {
        let outcome = race(|at, record| {
            if at == 4 {
                let took = record.took_ns;
                let started_ms = record.started_ms;
                *record = Record::without_figures("failed: the far end broke down.".into());
                (record.started_ms, record.took_ns) = (started_ms, took);
            }
        });
        assert_eq!(
            said(&outcome),
            [
                "The 2nd trial of udp (block 2) ended without figures after 9.00 s from 12:39:10 UTC on: failed: the far \
              end broke down."
            ]
        );
        assert_eq!(section(&outcome).unwrap().heading, "Trials that ended early");
        let mut blocked = outcome;
        blocked.contenders[1].blocked = Some("silence".into());
        assert_eq!(said(&blocked), [""; 0]);
    }

    #[test]
    fn of_many_the_longest_are_told_on_the_first_screen_and_all_in_detail() {
        let outcome = race(|at, record| {
            if at % 3 == 0 {
                record.outages = vec![outage(1_000, 600 + 100 * at)];
            }
        });
        let lines = said(&outcome);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("1.50 s") && lines[1].contains("1.80 s"), "{lines:?}");
        assert!(lines[1].ends_with(" 3 shorter ones in --details."), "{lines:?}");
        let Some(Section { blocks, .. }) = section(&outcome) else { panic!() };
        let [Block::Sentences(all)] = blocks.as_slice() else { panic!("{blocks:?}") };
        assert_eq!(all.len(), 5);
    }

    /// A link of an emulated path goes down in each trial anew.
    #[test]
    fn outages_on_a_path_of_our_own_stay_apart() {
        let mut outcome = race(|at, record| {
            if at < 2 {
                record.outages = vec![outage(1_000, 9_000 - 100 * at)];
            }
        });
        assert_eq!(said(&outcome).len(), 1);
        outcome.path.kind = PathKind::Emulated;
        let lines = said(&outcome);
        assert!(lines[0].contains("9.00 s") && lines[0].contains("of tcp"), "{lines:?}");
        assert!(lines[1].contains("8.90 s") && lines[1].contains("of udp"), "{lines:?}");
    }

    #[test]
    fn a_table_says_after_what_time_messages_came_again_and_whether_the_connection_was_kept() {
        let outcome = race(|at, record| {
            let ended =
                |ended| measurements::Outage { ended: Some(ended), ..outage(0, 2_000 + at) };
            match at {
                // Of tcp, in blocks 3 and 4.
                6 | 9 => record.outages = vec![ended(true)],
                // Of udp: one to the end, and a connection that was lost.
                1 => record.outages = vec![ended(false)],
                4 => {
                    *record = Record::without_figures("failed: receive: timed out".into());
                    record.disconnected = true;
                }
                // The copy is no contender.
                2 => record.outages = vec![ended(true)],
                _ => {}
            }
        });
        let table = table(&outcome);
        let row = |row: usize| -> Vec<String> {
            table.columns.iter().map(|column| column.cells[row].rest.clone()).collect()
        };
        assert_eq!(row(0)[..3], ["tcp", "2 of 5", "2.01 s"]);
        assert_eq!(row(0)[4], "kept");
        assert_eq!(row(1), ["udp", "2 of 5", "", "", "silent to the end in 1, lost in 1"]);
        let Some(Section { blocks, .. }) = section(&outcome) else { panic!() };
        let Some(Block::Sentences(lines)) = blocks.last() else { panic!("{blocks:?}") };
        assert!(
            lines.iter().any(|line| line.text.contains(" to the end, in the 1st trial of udp"))
        );
    }

    #[test]
    fn in_virtual_time_there_is_no_time_of_day() {
        let mut outcome = race(|at, record| {
            record.started_ms = 0;
            if at < 2 {
                record.outages = vec![outage(1_000, 600)];
            }
        });
        outcome.path.kind = PathKind::Simulated;
        assert_eq!(
            said(&outcome)[0],
            "Outage: nothing came for 600 ms, in the 1st trial of tcp (block 1)."
        );
        assert_eq!(said(&outcome).len(), 2);
    }
}
