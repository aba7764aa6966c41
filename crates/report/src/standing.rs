//! Places of the contenders by the pairwise verdicts, in which a tie shows as a tie.
//!
//! A dead heat is not transitive, so contenders form a group only where each pair of them is a dead heat.

use super::document::{Line, Tone};
use super::names::{entrant, label};
use super::words;
use deadheat_base::figures;
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::{Better, Metric, Role};
use deadheat_result::analysis::lost_shares;
use deadheat_result::outcome::{Outcome, Verdict};
use deadheat_stats as stats;

/// Returns the verdict in a word or two: `udp ahead`, `dead heat`, `undecided`, `undecided, udp leads`.
pub(super) fn result(outcome: &Outcome, verdict: &Verdict) -> String {
    match (verdict.outcome, verdict.ahead) {
        (stats::Outcome::Ahead, Some(id)) => format!("{} ahead", label(outcome, id)),
        (stats::Outcome::Ahead, None) => "ahead".into(),
        (stats::Outcome::DeadHeat, _) => "dead heat".into(),
        (stats::Outcome::Undecided, _) => match verdict.direction {
            Some(id) => format!("undecided, {} leads", label(outcome, id)),
            None => "undecided".into(),
        },
    }
}

/// Returns the tone in which a verdict is shown.
pub(super) fn tone(verdict: stats::Outcome) -> Tone {
    match verdict {
        stats::Outcome::Ahead => Tone::Good,
        stats::Outcome::DeadHeat => Tone::Tie,
        stats::Outcome::Undecided => Tone::Open,
    }
}

/// Returns contender ids in the order of their estimates for `metric`, best first; contenders without an estimate, such
/// as
/// blocked ones, are last, in the order in which they were asked for.
pub(super) fn best_first(outcome: &Outcome, metric: &Metric) -> Vec<usize> {
    let estimate = |id: usize| {
        outcome
            .summary
            .iter()
            .find(|summary| summary.contender == id && summary.metric == metric.name)
            .map(|summary| match metric.better {
                Better::Lower => summary.estimate,
                Better::Higher => -summary.estimate,
            })
            .unwrap_or(f64::INFINITY)
    };
    let mut ids: Vec<usize> = outcome.contenders.iter().map(|contender| contender.id).collect();
    ids.sort_by(|a, b| estimate(*a).total_cmp(&estimate(*b)));
    ids
}

/// Places of the contenders under one claimed metric, as the pairwise verdicts allow.
pub(super) struct Standing<'a> {
    pub outcome: &'a Outcome,
    pub metric: &'a Metric,
    pub verdicts: Vec<&'a Verdict>,
    /// Contenders that have a verdict, best estimate first.
    pub ids: Vec<usize>,
}

impl<'a> Standing<'a> {
    /// Returns the standings for a metric; `None` if no verdict is about it.
    pub(super) fn of(outcome: &'a Outcome, metric: &'a Metric) -> Option<Standing<'a>> {
        let all: Vec<usize> = outcome.contenders.iter().map(|contender| contender.id).collect();
        Standing::among(outcome, metric, &all)
    }

    /// Returns the standings of some contenders for a metric; `None` if no verdict is about two of them.
    pub(super) fn among(
        outcome: &'a Outcome,
        metric: &'a Metric,
        some: &[usize],
    ) -> Option<Standing<'a>> {
        let is_among = |verdict: &&Verdict| some.contains(&verdict.a) && some.contains(&verdict.b);
        let verdicts: Vec<&Verdict> = outcome
            .verdicts
            .iter()
            .filter(|verdict| verdict.metric == metric.name && metric.role == Role::Claim)
            .filter(is_among)
            .collect();
        if verdicts.is_empty() {
            return None;
        }
        let takes_part = |id: &usize| verdicts.iter().any(|v| v.a == *id || v.b == *id);
        let ids = best_first(outcome, metric).into_iter().filter(takes_part).collect();
        Some(Standing { outcome, metric, verdicts, ids })
    }

    /// Returns the place: `1`, `2=` if it is shared in a dead heat, `2–4` if pairs are undecided, `2–4=`
    /// if both.
    pub(super) fn place(&self, id: usize) -> Option<String> {
        let (best, worst) = self.range(id)?;
        let place = if best == worst { best.to_string() } else { format!("{best}–{worst}") };
        let shared = self.ids.iter().any(|other| {
            self.between(id, *other).is_some_and(is_tie)
                && self.range(*other) == Some((best, worst))
        });
        Some(format!("{place}{}", if shared { "=" } else { "" }))
    }

    fn range(&self, id: usize) -> Option<(usize, usize)> {
        self.ids.contains(&id).then(|| {
            let mine = || self.verdicts.iter().filter(|v| v.a == id || v.b == id);
            let behind = mine().filter(|v| v.ahead.is_some_and(|ahead| ahead != id)).count();
            let open = mine().filter(|v| v.outcome == stats::Outcome::Undecided).count();
            (1 + behind, 1 + behind + open)
        })
    }

    pub(super) fn between(&self, a: usize, b: usize) -> Option<&'a Verdict> {
        self.verdicts.iter().find(|v| (v.a, v.b) == (a, b) || (v.a, v.b) == (b, a)).copied()
    }

    /// Returns the verdicts in one paragraph: leaders, ties, and undecided pairs.
    pub(super) fn line(&self) -> Line {
        let groups = self.groups();
        let is_chain = (0..groups.len()).all(|at| self.leads(&groups[at], &groups[at + 1..]));
        let (text, tone) = if groups.len() == 1 {
            let names = words::list(&self.labels(&groups[0]));
            let margin = self.margin();
            (format!("dead heat of all: {names}, each pair within {margin}."), Tone::Tie)
        } else if is_chain {
            (self.chain_in_words(&groups), Tone::Good)
        } else {
            (self.pairs_in_words(&groups), self.tone())
        };
        let lost = self.left_out().map_or_else(String::new, |lost| format!(" {lost}."));
        Line::new(format!("{}: {text}{lost}", self.metric.label), tone)
    }

    /// Describes the losses that the figures leave out: `Of what arrived; a lost 40 % and b nothing`.
    fn left_out(&self) -> Option<String> {
        let shares = lost_shares::left_out(self.outcome, self.metric, &self.ids);
        let labels: Vec<String> = self.ids.iter().map(|id| label(self.outcome, *id)).collect();
        let named = labels.iter().map(String::as_str).zip(shares.iter().copied());
        (!shares.is_empty()).then(|| format!("Of what arrived; {}", lost_shares::in_words(named)))
    }

    /// Returns the tone: good if any verdict is decided.
    fn tone(&self) -> Tone {
        let is_ahead = |verdict: &&Verdict| verdict.outcome == stats::Outcome::Ahead;
        if self.verdicts.iter().any(is_ahead) { Tone::Good } else { Tone::Open }
    }

    /// Groups contenders so that each pair in a group is a dead heat, best estimate first.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for id in &self.ids {
            let tied = |other: &usize| self.between(*id, *other).is_some_and(is_tie);
            match groups.iter_mut().find(|group| group.iter().all(tied)) {
                Some(group) => group.push(*id),
                None => groups.push(vec![*id]),
            }
        }
        groups
    }

    /// Returns true if each of `group` is ahead of each contender of `others`.
    fn leads(&self, group: &[usize], others: &[Vec<usize>]) -> bool {
        let is_ahead = |id: usize, other: usize| {
            self.between(id, other).is_some_and(|verdict| verdict.ahead == Some(id))
        };
        let mut others = others.iter().flatten();
        others.all(|other| group.iter().all(|id| is_ahead(*id, *other)))
    }

    /// Returns the best contenders, each of which is ahead of all others and in a dead heat with each other one; `None` if
    /// the verdicts show none.
    pub(super) fn best(&self) -> Option<Vec<usize>> {
        let groups = self.groups();
        let (first, rest) = groups.split_first()?;
        self.leads(first, rest).then(|| first.clone())
    }

    /// Describes the order:
    /// `udp first, 17.8 % lower than tcp, the next; then tcp and unix in a dead heat; then kcp.`
    fn chain_in_words(&self, groups: &[Vec<usize>]) -> String {
        let mut parts = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            let names = words::list(&self.labels(group));
            let tie = match group.len() {
                1 => String::new(),
                _ => format!(" in a dead heat (within {})", self.margin()),
            };
            parts.push(match (at, group.as_slice()) {
                (0, [leader]) => format!("{names} first{}", self.lead(*leader)),
                (0, _) => format!("{names} first{tie}"),
                _ => format!("then {names}{tie}"),
            });
        }
        parts.join("; ") + "."
    }

    /// Describes pairs of groups, ahead, tied or open, if there is no order of all.
    fn pairs_in_words(&self, groups: &[Vec<usize>]) -> String {
        let mut sentences: Vec<String> = Vec::new();
        for (winners, losers) in self.wins() {
            let is = words::is_are(winners.len());
            let (winners, losers) = (self.labels(&winners), self.labels(&losers));
            sentences.push(format!(
                "{} {is} ahead of {}.",
                words::list(&winners),
                words::list(&losers)
            ));
        }
        for group in groups.iter().filter(|group| group.len() > 1) {
            let names = words::list(&self.labels(group));
            sentences.push(format!("{names}: dead heat within {}.", self.margin()));
        }
        sentences.extend(self.open_in_words());
        sentences.join(" ")
    }

    /// Groups contenders that are ahead of the same others, with these others, best estimate first.
    fn wins(&self) -> Vec<(Vec<usize>, Vec<usize>)> {
        let mut wins: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for id in &self.ids {
            let beaten = |other: &&usize| {
                self.between(*id, **other).is_some_and(|verdict| verdict.ahead == Some(*id))
            };
            let losers: Vec<usize> = self.ids.iter().filter(beaten).copied().collect();
            if losers.is_empty() {
                continue;
            }
            match wins.iter_mut().find(|(_, others)| *others == losers) {
                Some((winners, _)) => winners.push(*id),
                None => wins.push((vec![*id], losers)),
            }
        }
        wins
    }

    /// Returns the lead over the next contender: `, 17.8 % lower than tcp, the next`.
    fn lead(&self, leader: usize) -> String {
        let next = self.ids.iter().find(|id| **id != leader);
        let verdict = next.and_then(|next| self.between(leader, *next));
        if let (Some(next), Some(difference)) = (next, verdict.and_then(|one| one.difference)) {
            let way = if self.metric.better == Better::Lower { "lower" } else { "higher" };
            let by = Nanos(difference.point.abs().round() as u64);
            return format!(", {by} {way} than {}, the next", label(self.outcome, *next));
        }
        let ratio = verdict.and_then(|verdict| verdict.ratio);
        let (Some(next), Some(ratio)) = (next, ratio) else {
            return String::new();
        };
        let is_first = self.between(leader, *next).is_some_and(|v| v.a == leader);
        let ratio = if is_first { ratio.point } else { 1.0 / ratio.point };
        let against = label(self.outcome, *next);
        if ratio >= 2.0 {
            format!(", {} that of {against}, the next", words::change(ratio))
        } else {
            format!(", {} than {against}, the next", words::change(ratio))
        }
    }

    /// Returns the undecided verdicts.
    fn open(&self) -> Vec<&'a Verdict> {
        let is_open = |verdict: &&&Verdict| verdict.outcome == stats::Outcome::Undecided;
        self.verdicts.iter().filter(is_open).copied().collect()
    }

    /// Describes open pairs:
    /// `Undecided: tcp:cc=bbr against tcp, unix and udp (about 24 more blocks would tell).`
    fn open_in_words(&self) -> Option<String> {
        let mut open = self.open();
        let more = outlook(self.outcome, &open);
        let mut parts = Vec::new();
        // The contender with most open pairs is named once, with all its opponents in these pairs.
        let pairs_of =
            |id: usize, open: &[&Verdict]| open.iter().filter(|v| v.a == id || v.b == id).count();
        while !open.is_empty() {
            let most = self.ids.iter().rev().max_by_key(|id| pairs_of(**id, &open))?;
            let (its, others): (Vec<&Verdict>, Vec<&Verdict>) =
                open.iter().partition(|v| v.a == *most || v.b == *most);
            let against = its.iter().map(|v| if v.a == *most { v.b } else { v.a });
            let against = self.labels(&against.collect::<Vec<_>>());
            let name = label(self.outcome, *most);
            parts.push(format!("{name} against {}", words::list(&against)));
            if its.is_empty() {
                break;
            }
            open = others;
        }
        (!parts.is_empty()).then(|| format!("Undecided: {}{more}.", parts.join("; ")))
    }

    fn margin(&self) -> String {
        self.verdicts.first().map_or_else(String::new, |verdict| words::verdict_margin(verdict))
    }

    fn labels(&self, ids: &[usize]) -> Vec<String> {
        let mut ids = ids.to_vec();
        // In the order asked for: an order by estimate would suggest a winner where there is none.
        ids.sort_by_key(|id| entrant(self.outcome, *id).map(|contender| contender.id));
        ids.iter().map(|id| label(self.outcome, *id)).collect()
    }
}

/// Returns the time that would decide all open verdicts: ` (about 4 min more on this machine)`; empty for an import, which
/// does not go on.
fn outlook(outcome: &Outcome, open: &[&Verdict]) -> String {
    if outcome.imported.is_some() {
        return String::new();
    }
    let most = |of: fn(&Verdict) -> Option<u64>| open.iter().filter_map(|v| of(v)).max();
    let time = most(|verdict| verdict.more_ns).map(|ns| figures::wait(Nanos(ns)));
    let blocks = most(|verdict| verdict.more_blocks);
    match (time, blocks) {
        (Some(time), _) => format!(" (about {time} more on this machine)"),
        (None, Some(n)) => format!(" (about {} would tell)", words::count(n, "more block")),
        (None, None) => " (no time will decide it: the estimates lie on the margin)".to_owned(),
    }
}

fn is_tie(verdict: &Verdict) -> bool {
    verdict.outcome == stats::Outcome::DeadHeat
}
