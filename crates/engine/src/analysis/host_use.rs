//! Use of this host by other programs, as part of the verdicts.
//!
//! Blocks cancel what a busy host does to all contenders alike, and not what it does to one trial and not to the next. The hidden
//! copy shows how much that is: while other programs use the CPUs, a lead is greater than what identical copies differ by.

use crate::figures::{percent, times};
use crate::host::quiet::CALM_SHARE;
use crate::result::outcome::{Control, Outcome, Ratio, Verdict};
use crate::stats::Outcome as Ruled;

/// Begin of the sentence about the host, by which it is found in a note.
const LEAD: &str = " Meanwhile other programs used ";

/// Returns the sentence about a host that other programs used while blocks ran; `None` for a calm host, or an unknown one.
pub fn sentence(outcome: &Outcome) -> Option<String> {
    let share = outcome.probe.as_ref()?.others_share().filter(|share| *share >= CALM_SHARE)?;
    Some(format!("{} {} of the CPUs that it ran on.", LEAD.trim(), percent(share)))
}

/// Makes the host a part of each verdict, and takes a lead back that is within what identical copies differ by on a busy host.
pub(crate) fn weigh(outcome: &mut Outcome) {
    for verdict in &mut outcome.verdicts {
        if let Some(at) = verdict.note.find(LEAD) {
            verdict.note.truncate(at);
        }
    }
    let Some(said) = sentence(outcome) else { return };
    let mut verdicts = std::mem::take(&mut outcome.verdicts);
    for verdict in &mut verdicts {
        if verdict.outcome == Ruled::Ahead {
            widen(outcome, verdict);
        }
        verdict.note = format!("{} {said}", verdict.note);
    }
    outcome.verdicts = verdicts;
}

/// Takes back that a contender is ahead, unless it is by more than the copies differ by.
fn widen(outcome: &Outcome, verdict: &mut Verdict) {
    let Some(ratio) = verdict.ratio else { return };
    let copies = outcome.control.as_ref().and_then(|control| of_copies(control, &verdict.metric));
    if copies.is_some_and(|copies| least(ratio) > most(copies)) {
        return;
    }
    let name = |id: usize| outcome.contenders.get(id).map_or("?", |entrant| &entrant.label);
    let metric = outcome.metrics.iter().find(|metric| metric.name == verdict.metric);
    let metric = metric.map_or(verdict.metric.as_str(), |metric| &metric.label);
    let differ = match copies {
        Some(copies) => format!(
            "identical copies differed by as much ({} to {})",
            times(copies.low),
            times(copies.high)
        ),
        None => "nothing shows what identical copies differ by".to_owned(),
    };
    verdict.note = format!(
        "{} and {}: undecided, {metric} ratio {}, {} to {}: on a busy host that is no lead, as {differ}.",
        name(verdict.a),
        name(verdict.b),
        times(ratio.point),
        times(ratio.low),
        times(ratio.high)
    );
    (verdict.direction, verdict.outcome) = (verdict.ahead.take(), Ruled::Undecided);
}

fn of_copies(control: &Control, metric: &str) -> Option<Ratio> {
    control.verdicts.iter().find(|verdict| verdict.metric == metric)?.ratio
}

/// Returns the logarithm of the least change in an interval; 0 or less if it has 1 in it.
fn least(ratio: Ratio) -> f64 {
    ratio.low.ln().max(-ratio.high.ln())
}

/// Returns the logarithm of the greatest change in an interval, either way.
fn most(ratio: Ratio) -> f64 {
    (-ratio.low.ln()).max(ratio.high.ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::quiet::{HostQuiet, ProbePoint};
    use crate::race::{Request, testing};

    /// A race that udp wins by a quarter, whose copies differ by `copies` either way, on a host of which others use a share.
    fn raced(share: Option<f64>, copies: f64) -> Outcome {
        let request = Request::new(["tcp", "udp"]).blocks(40).seed(3);
        let level = |name: &str| if name.starts_with("udp") { 80.0 } else { 100.0 };
        let mut outcome = testing::run(&request, testing::noisy(3, 0.02, level)).unwrap();
        let mut quiet = HostQuiet::default();
        for at_ms in 1..4 {
            let (p50_ns, high_ns, steal_share) = (9, 9, 0.0);
            let others_share = if at_ms == 1 { Some(1.0) } else { share };
            quiet.add(ProbePoint { at_ms, p50_ns, high_ns, steal_share, others_share });
        }
        outcome.probe = Some(quiet);
        for verdict in &mut outcome.control.as_mut().unwrap().verdicts {
            verdict.ratio = Some(Ratio { point: 1.0, low: 1.0 / copies, high: copies });
        }
        outcome
    }

    #[test]
    fn a_host_that_others_use_is_in_each_verdict_once() {
        let mut outcome = raced(Some(0.43), 1.05);
        for _ in 0..2 {
            weigh(&mut outcome);
            let verdict = &outcome.verdicts[0];
            assert_eq!(verdict.outcome, Ruled::Ahead, "{}", verdict.note);
            let said = "other programs used 43 % of the CPUs that it ran on.";
            assert!(verdict.note.ends_with(said), "{}", verdict.note);
            assert_eq!(verdict.note.matches(said).count(), 1, "{}", verdict.note);
        }
        for calm in [Some(0.04), None] {
            let mut outcome = raced(calm, 1.05);
            let before = outcome.verdicts.clone();
            weigh(&mut outcome);
            assert_eq!(outcome.verdicts, before, "{calm:?}");
        }
    }

    #[test]
    fn nobody_is_ahead_on_a_busy_host_by_what_copies_differ_by() {
        let mut outcome = raced(Some(0.98), 1.3);
        let winner = outcome.verdicts[0].ahead;
        weigh(&mut outcome);
        let verdict = &outcome.verdicts[0];
        assert_eq!((verdict.outcome, verdict.ahead), (Ruled::Undecided, None));
        assert_eq!(verdict.direction, winner);
        assert!(verdict.note.contains("identical copies differed by as much"), "{}", verdict.note);
        let mut calm = raced(Some(0.02), 1.3);
        weigh(&mut calm);
        assert_eq!(calm.verdicts[0].outcome, Ruled::Ahead);
        let mut alone = raced(Some(0.98), 1.05);
        alone.control = None;
        weigh(&mut alone);
        assert_eq!(alone.verdicts[0].outcome, Ruled::Undecided);
    }
}
