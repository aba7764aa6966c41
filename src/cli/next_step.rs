//! End of a race: where it is saved, and the next step after a first race, by what the race found.

use std::io::IsTerminal;
use std::path::Path;

use deadheat_base::figures::wait;
use deadheat_base::time::Nanos;
use deadheat_path::PathKind;
use deadheat_result::analysis::derived;
use deadheat_result::outcome::{Outcome, Status, Verdict};
use deadheat_stats::Outcome as VerdictOutcome;

/// Returns true if the last state of a race could be saved.
pub(super) fn is_saved(outcome: &Outcome) -> bool {
    outcome.warnings.iter().all(|warning| warning.code != "save_failed")
}

/// Says where the races of a folder are saved, and how many could not be.
pub(super) fn tell_folder(folder: &Path, unsaved: usize) {
    match unsaved {
        0 => tell!("saved: {}", folder.display()),
        1 => tell!("saved in part: {}, without the end of one race", folder.display()),
        of => tell!("saved in part: {}, without the ends of {of} races", folder.display()),
    }
}

/// Says where a race is saved; if its last state could not be saved, whether an earlier one is there.
pub(super) fn tell_saved(outcome: &Outcome, file: &Path) {
    match (is_saved(outcome), derived::load(file)) {
        (true, _) => tell!("saved: {}", file.display()),
        (false, Ok(there)) if there.started == outcome.started => {
            tell!("saved in part: {}, without what came last", file.display());
        }
        (false, _) => tell!("not saved: {}", file.display()),
    }
}

/// A next step for a reader whose first race has just ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Examine the machine, since the race is not trusted.
    Examine,
    /// Continue the race, which was interrupted.
    Resume,
    /// Race again for this time, since a claim is undecided.
    Longer(Nanos),
    /// Race again with another margin: the difference is as large as this one, and no time decides.
    OtherMargin,
    /// Race over an emulated network: on one machine the contenders are equal.
    Network,
    /// Show all figures.
    Details,
}

/// Time of a longer race where none is known.
const LONGER: Nanos = Nanos::from_secs(300);

/// Share of the estimated time that is added to it: it decides four of five such races.
const RESERVE: f64 = 0.25;

/// Prints the next step after a first race, for a person who reads the answer on a terminal.
pub(super) fn offer(outcome: &Outcome, file: &Path) {
    let is_read = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
    if is_read && let Some(step) = NextStep::after(outcome) {
        tell!("{}", step.line(outcome, file));
    }
}

impl NextStep {
    /// Returns the next step after a race; `None` if it failed, or if nothing was claimed.
    pub(super) fn after(outcome: &Outcome) -> Option<NextStep> {
        if outcome.why_failed().is_some() || outcome.verdicts.is_empty() {
            return None;
        }
        let is_open = |verdict: &&Verdict| verdict.outcome == VerdictOutcome::Undecided;
        let open: Vec<&Verdict> = outcome.verdicts.iter().filter(is_open).collect();
        let is_tie = |verdict: &Verdict| verdict.outcome == VerdictOutcome::DeadHeat;
        Some(if outcome.status == Status::Interrupted {
            NextStep::Resume
        } else if !outcome.trusted() {
            NextStep::Examine
        } else if !open.is_empty() {
            let times: Vec<Nanos> = open.iter().filter_map(|verdict| budget(verdict)).collect();
            times.into_iter().max().map_or(NextStep::OtherMargin, NextStep::Longer)
        } else if outcome.verdicts.iter().all(is_tie) && outcome.path.kind == PathKind::Loopback {
            NextStep::Network
        } else {
            NextStep::Details
        })
    }

    /// Returns the line that names the step, with the command to type.
    pub(super) fn line(self, outcome: &Outcome, file: &Path) -> String {
        let file = file.display();
        let (command, why) = match self {
            NextStep::Examine => {
                ("doctor".to_owned(), "it finds out what disturbs measurements here".to_owned())
            }
            NextStep::Resume => (format!("race --resume {file}"), "it goes on".to_owned()),
            NextStep::Longer(time) => (
                format!("race --budget {}", typed(time)),
                format!("a verdict takes up to {} here", wait(time)),
            ),
            NextStep::OtherMargin => {
                let margin = outcome.verdicts.first().map_or(0.0, |verdict| verdict.margin);
                let why = format!("the difference is about the margin of {:.0} %", margin * 100.0);
                (format!("race --margin {:.0}%", (margin * 50.0).ceil().max(1.0)), why)
            }
            NextStep::Network => {
                ("race --path lte".to_owned(), "the same over an emulated mobile line".to_owned())
            }
            NextStep::Details => (format!("report {file} --details"), "all figures".to_owned()),
        };
        format!("next: deadheat {command}  ({why})")
    }
}

/// Returns the length of a race that should decide an open claim; `None` if no length is known to.
fn budget(verdict: &Verdict) -> Option<Nanos> {
    let more = verdict.more_blocks?;
    let Some(more_ns) = verdict.more_ns else { return Some(LONGER) };
    let blocks = verdict.blocks.saturating_add(more) as f64;
    let ns = more_ns as f64 / more.max(1) as f64 * blocks * (1.0 + RESERVE);
    Some(Nanos(ns as u64))
}

/// Returns a time as typed, in whole minutes or hours, rounded up.
fn typed(time: Nanos) -> String {
    let minutes = (time.as_secs_f64() / 60.0).ceil().max(1.0);
    if minutes <= 120.0 {
        format!("{minutes:.0}m")
    } else {
        format!("{:.0}h", (minutes / 60.0).ceil())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_race::race::{Request, testing};

    /// Returns a race of two contenders whose figures differ by a factor.
    fn raced(factor: f64) -> Outcome {
        let request = Request::new(["tcp", "udp"]).blocks(12).margin(0.05).seed(1);
        let level = move |contender: &str| if contender == "tcp" { 100.0 } else { 100.0 * factor };
        testing::run(&request, testing::noisy(1, 0.001, level)).unwrap()
    }

    fn line(outcome: &Outcome) -> String {
        NextStep::after(outcome).unwrap().line(outcome, Path::new("r.json"))
    }

    #[test]
    fn the_next_step_follows_from_what_the_race_found() {
        let tie = line(&raced(1.0));
        assert_eq!(tie, "next: deadheat race --path lte  (the same over an emulated mobile line)");
        let ahead = line(&raced(0.5));
        assert_eq!(ahead, "next: deadheat report r.json --details  (all figures)");

        let mut open = raced(1.0);
        open.verdicts[0].outcome = VerdictOutcome::Undecided;
        (open.verdicts[0].blocks, open.verdicts[0].more_blocks) = (50, Some(150));
        open.verdicts[0].more_ns = Some(60_000_000_000);
        let longer = "next: deadheat race --budget 2m  (a verdict takes up to 2 min here)";
        assert_eq!(line(&open), longer);
        open.verdicts[0].more_ns = None;
        assert_eq!(NextStep::after(&open), Some(NextStep::Longer(LONGER)));
        open.verdicts[0].more_blocks = None;
        let margin = "next: deadheat race --margin 3%  (the difference is about the margin of 5 %)";
        assert_eq!(line(&open), margin);
        open.control.as_mut().unwrap().trusted = false;
        assert!(line(&open).starts_with("next: deadheat doctor  ("));
        open.status = Status::Interrupted;
        assert_eq!(line(&open), "next: deadheat race --resume r.json  (it goes on)");
        open.verdicts.clear();
        assert_eq!(NextStep::after(&open), None);
    }

    #[test]
    fn a_tie_over_a_network_is_shown_in_full_instead() {
        let mut tie = raced(1.0);
        tie.path = testing::built(None);
        assert_eq!(NextStep::after(&tie), Some(NextStep::Details));
    }

    #[test]
    fn a_long_budget_is_in_hours() {
        assert_eq!(typed(Nanos::from_secs(61)), "2m");
        assert_eq!(typed(Nanos::from_secs(3 * 3_600 + 1)), "4h");
    }
}
