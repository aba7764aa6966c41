//! Several races, or one race under several conditions: who is ahead in how many of them, the widest lead, how far to
//! trust it, and all figures side by side. Nothing is computed here but counts.

use super::{Opening, OpeningFigure, beside, figure};
use crate::document::{Cell, Column, Line, Table, Tone};
use crate::results::{Bound, figure};
use crate::standing::Standing;
use crate::totals::blocks_done;
use crate::words::{self, Scale};
use crate::{factors, names};
use deadheat_base::figures::percent;
use deadheat_contract::measurements::Metric;
use deadheat_result::analysis::claims;
use deadheat_result::outcome::{Outcome, Ratio, Summary, Verdict};

/// Most settings that a sentence names.
const MOST_NAMED: usize = 4;

/// Most settings that a table has; a folder may have hundreds of nightly races.
const MOST_ROWS: usize = 60;

/// Settings in which the same contenders may have been compared.
pub(crate) struct RaceSet<'a> {
    settings: Vec<RaceSetting<'a>>,
    /// Races with their names.
    races: Vec<(&'a str, &'a Outcome)>,
    noun: &'static str,
    /// True if the settings are loads beside the work (`alone`, `beside a load of tcp`), and not names after `in`.
    are_loads: bool,
}

/// Contenders that were compared with one another: in a race, or under one combination of its conditions.
struct RaceSetting<'a> {
    name: String,
    outcome: &'a Outcome,
    metric: &'a Metric,
    /// Contenders with a name that they have in all settings.
    entered: Vec<(usize, String)>,
    /// Contenders with a verdict.
    compared: usize,
    answer: SettingAnswer,
    /// Verdict on the leader and the next.
    lead: Option<&'a Verdict>,
}

/// Answer in a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SettingAnswer {
    /// A contender is ahead of all others.
    Ahead(String),
    /// The best contenders are in a dead heat.
    Shared,
    /// Anything else: no contender is shown to be the best.
    Open,
    /// The race cannot be trusted.
    Untrusted,
}

impl<'a> RaceSetting<'a> {
    /// Returns a setting; `None` without verdicts.
    fn of(
        name: String,
        outcome: &'a Outcome,
        entered: Vec<(usize, String)>,
    ) -> Option<RaceSetting<'a>> {
        let ids: Vec<usize> = entered.iter().map(|(id, _)| *id).collect();
        let mut claims = outcome.metrics.iter();
        let standing = claims.find_map(|metric| Standing::among(outcome, metric, &ids))?;
        let label = |id: usize| entered.iter().find(|(other, _)| *other == id).map(|(_, l)| l);
        let (answer, lead) = match standing.best().as_deref() {
            Some([leader]) => {
                let next = standing.ids.iter().find(|id| *id != leader);
                let lead = next.and_then(|next| standing.between(*leader, *next));
                (SettingAnswer::Ahead(label(*leader).cloned().unwrap_or_default()), lead)
            }
            Some(_) => (SettingAnswer::Shared, None),
            None => (SettingAnswer::Open, None),
        };
        let (metric, compared) = (standing.metric, standing.ids.len());
        Some(RaceSetting { name, outcome, metric, entered, compared, answer, lead })
    }

    /// Returns the settings of a race: one, or one for each combination of its conditions.
    fn all_of(outcome: &'a Outcome) -> Vec<RaceSetting<'a>> {
        if claims::is_for_figures(outcome) {
            return Vec::new();
        }
        if names::vary(outcome) {
            let all = factors::combined_names(outcome).into_iter();
            return all.filter_map(|(name, ids)| RaceSetting::of(name, outcome, ids)).collect();
        }
        let ids = outcome.contenders.iter().map(|one| (one.id, one.label.clone())).collect();
        RaceSetting::of(String::new(), outcome, ids).into_iter().collect()
    }

    /// Returns the answer in a word or two, with its meaning.
    fn in_short(&self) -> (String, Tone) {
        match &self.answer {
            SettingAnswer::Ahead(name) => (format!("{name} ahead"), Tone::Good),
            SettingAnswer::Shared if self.compared == 2 => ("dead heat".to_owned(), Tone::Tie),
            SettingAnswer::Shared => ("dead heat of the best".to_owned(), Tone::Tie),
            SettingAnswer::Open => ("undecided".to_owned(), Tone::Open),
            SettingAnswer::Untrusted => ("not trusted".to_owned(), Tone::Bad),
        }
    }

    fn summary(&self, contender: &str) -> Option<&'a Summary> {
        let (id, _) = self.entered.iter().find(|(_, label)| label == contender)?;
        let mut all = self.outcome.summary.iter();
        all.find(|one| one.contender == *id && one.metric == self.metric.name)
    }
}

impl<'a> RaceSet<'a> {
    /// Returns the set of several races with their names.
    pub(crate) fn of_races(races: Vec<(&'a str, &'a Outcome)>) -> RaceSet<'a> {
        let settings = |(name, outcome): &(&'a str, &'a Outcome)| {
            let mut all = RaceSetting::all_of(outcome);
            for one in &mut all {
                let conditions = std::mem::take(&mut one.name);
                one.name = if conditions.is_empty() {
                    (*name).to_owned()
                } else {
                    format!("{name} with {conditions}")
                };
                if !outcome.trusted() {
                    (one.answer, one.lead) = (SettingAnswer::Untrusted, None);
                }
            }
            all
        };
        let settings: Vec<RaceSetting<'a>> = races.iter().flat_map(settings).collect();
        let is_varied = races.iter().any(|(_, outcome)| names::vary(outcome));
        let noun = if is_varied { "comparison" } else { "race" };
        RaceSet { settings, races, noun, are_loads: false }
    }

    /// Returns the set of the combinations of a race; `None` if it has not two with verdicts.
    pub(crate) fn of_conditions(outcome: &'a Outcome) -> Option<RaceSet<'a>> {
        let mut settings =
            if names::vary(outcome) { RaceSetting::all_of(outcome) } else { Vec::new() };
        let loads = beside::names(outcome);
        if let Some(loads) = &loads {
            for setting in &mut settings {
                setting.name = loads.get(&setting.name).cloned().unwrap_or_default();
            }
        }
        let set = RaceSet {
            settings,
            races: Vec::new(),
            noun: "combination",
            are_loads: loads.is_some(),
        };
        set.is_worth_a_summary().then_some(set)
    }

    /// Returns true if there is more than one answer, so that a summary makes sense.
    pub(crate) fn is_worth_a_summary(&self) -> bool {
        self.settings.len() > 1
    }

    /// Returns the first screen of several races.
    pub(crate) fn opening(&self) -> Opening {
        let headlines = if self.is_worth_a_summary() {
            self.headlines()
        } else {
            vec![Line::new("Each result has an answer of its own, below.", Tone::Plain)]
        };
        Opening { headlines, figure: self.widest(), trust: self.trust() }
    }

    /// Returns the answer in words, and the settings that it is about.
    pub(crate) fn headlines(&self) -> Vec<Line> {
        let leaders = self.leaders();
        if self.are_loads {
            let first = self.beside_loads(&leaders);
            return std::iter::once(first).chain(self.without_leader()).collect();
        }
        let mut lines = vec![self.headline(&leaders)];
        if leaders.iter().map(|(_, led)| led.len()).sum::<usize>() < self.settings.len()
            || leaders.len() > 1
        {
            let led = leaders.iter().map(|(name, led)| format!("{name} leads in {}", named(led)));
            let led: Vec<String> = led.collect();
            if !led.is_empty() {
                lines.push(Line::new(format!("{}.", led.join("; ")), Tone::Plain));
            }
        }
        lines.extend(self.without_leader());
        lines
    }

    /// Returns the line on the settings without a leader.
    fn without_leader(&self) -> Option<Line> {
        let kinds = [
            (SettingAnswer::Shared, "a dead heat of the best"),
            (SettingAnswer::Open, "no best contender is shown yet"),
        ];
        let says = |(answer, says): &(SettingAnswer, &str)| {
            let those = self.with(answer);
            let text = if self.are_loads {
                format!("{}: {says}.", named(&those))
            } else {
                format!("{says} in {}: {}.", self.count(those.len()), named(&those))
            };
            (!those.is_empty()).then(|| words::capital(&text))
        };
        let tone = if self.with(&SettingAnswer::Open).is_empty() { Tone::Tie } else { Tone::Open };
        let texts: Vec<String> = kinds.iter().filter_map(says).collect();
        (!texts.is_empty()).then(|| Line::new(texts.join(" "), tone))
    }

    fn headline(&self, leaders: &[(&str, Vec<&RaceSetting<'a>>)]) -> Line {
        let all = self.settings.len();
        let of = |n: usize| match (n == all, all) {
            (true, 2) => format!("both {}s", self.noun),
            (true, _) => format!("all {}", self.count(all)),
            (false, _) => format!("{n} of {}", self.count(all)),
        };
        let ahead = self.ahead();
        let text = match leaders {
            [] if self.with(&SettingAnswer::Shared).len() == all => {
                let text =
                    format!("No contender is {ahead}: a dead heat of the best in {}.", of(all));
                return Line::new(text, Tone::Tie);
            }
            [] => {
                let text = format!("No contender is {ahead} in any of {}.", self.count(all));
                return Line::new(text, Tone::Open);
            }
            [(name, led)] if led.len() == all => format!("{name} is {ahead} in {}.", of(all)),
            [(name, led)] => {
                format!("{name} is {ahead} in {}, and no other contender in any.", of(led.len()))
            }
            [(name, led), others @ ..] => {
                let mut parts = vec![format!("{name} is {ahead} in {}", of(led.len()))];
                parts.extend(others.iter().map(|(name, led)| format!("{name} in {}", led.len())));
                format!("It depends: {}.", words::list(&parts))
            }
        };
        Line::new(text, Tone::Good)
    }

    fn ahead(&self) -> &'static str {
        if self.settings.iter().any(|setting| setting.compared > 2) {
            "ahead of all others"
        } else {
            "ahead"
        }
    }

    /// Returns the headline of a race beside several loads: who leads beside which.
    fn beside_loads(&self, leaders: &[(&str, Vec<&RaceSetting<'a>>)]) -> Line {
        let (ahead, all) = (self.ahead(), self.settings.len());
        let every: Vec<&RaceSetting<'a>> = self.settings.iter().collect();
        let text = match leaders {
            [] => {
                let is_tie = self.with(&SettingAnswer::Shared).len() == all;
                let tone = if is_tie { Tone::Tie } else { Tone::Open };
                return Line::new(format!("No contender is {ahead} {}.", named(&every)), tone);
            }
            [(name, led)] if led.len() == all => format!("{name} is {ahead} {}.", named(led)),
            [(name, led)] => {
                format!("{name} is {ahead} {}, and no other contender anywhere.", named(led))
            }
            [(name, led), others @ ..] => {
                let others = others.iter().map(|(name, led)| format!("; {name} {}", named(led)));
                let others: String = others.collect();
                format!("It depends on the load: {name} is {ahead} {}{others}.", named(led))
            }
        };
        Line::new(text, Tone::Good)
    }

    /// Returns the contenders that are ahead anywhere with the settings in which they are, the most frequent leader first.
    fn leaders(&self) -> Vec<(&str, Vec<&RaceSetting<'a>>)> {
        let mut leaders: Vec<(&str, Vec<&RaceSetting<'a>>)> = Vec::new();
        for setting in &self.settings {
            let SettingAnswer::Ahead(name) = &setting.answer else { continue };
            match leaders.iter_mut().find(|(other, _)| other == name) {
                Some((_, led)) => led.push(setting),
                None => leaders.push((name, vec![setting])),
            }
        }
        leaders.sort_by_key(|(_, led)| std::cmp::Reverse(led.len()));
        leaders
    }

    fn with(&self, answer: &SettingAnswer) -> Vec<&RaceSetting<'a>> {
        self.settings.iter().filter(|setting| setting.answer == *answer).collect()
    }

    fn count(&self, n: usize) -> String {
        words::count(n as u64, self.noun)
    }

    /// Returns the widest lead of a contender over the next.
    pub(crate) fn widest(&self) -> Option<OpeningFigure> {
        let lead = |setting: &RaceSetting<'a>| -> Option<(f64, OpeningFigure)> {
            let verdict = setting.lead?;
            let shown = figure::of_verdict(setting.outcome, setting.metric, verdict)?;
            let place = if self.are_loads { "" } else { "in " };
            let about = format!("{}; the widest lead, {place}{}", shown.about, setting.name);
            Some((verdict.ratio?.point.ln().abs(), OpeningFigure { about, ..shown }))
        };
        let leads = self.settings.iter().filter_map(lead);
        leads.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, shown)| shown)
    }

    /// Returns the sentences on how far to trust several races.
    fn trust(&self) -> Vec<Line> {
        let all = words::count(self.races.len() as u64, "race");
        let bad = self.races.iter().filter(|(_, outcome)| !outcome.trusted());
        let bad: Vec<&str> = bad.map(|(name, _)| *name).collect();
        let mut lines = vec![match bad.len() {
            0 => Line::new(format!("No check of these {all} failed."), Tone::Good),
            n if n == self.races.len() => {
                Line::new("None of these races can be trusted.", Tone::Bad)
            }
            n => {
                let text = format!("{n} of {all} cannot be trusted: {}.", words::list(&bad));
                Line::new(text, Tone::Bad)
            }
        }];
        let imported = self.races.iter().filter(|(_, outcome)| outcome.imported.is_some()).count();
        if imported > 0 {
            let text = format!(
                "{imported} of {all} come from other programs; deadheat cannot check how they were measured."
            );
            lines.push(Line::new(text, Tone::Open));
        }
        if let Some(copies) = self.noise() {
            let text =
                format!("Control: identical copies differed by at most {copies} in any race.");
            lines.push(Line::new(text, Tone::Plain));
        }
        let blocks = self.races.iter().map(|(_, outcome)| blocks_done(outcome));
        if let (Some(least), Some(most)) = (blocks.clone().min(), blocks.max()) {
            let from = if least == most { String::new() } else { format!("{least} to ") };
            let text = format!(
                "Each is a race of its own, of {from}{}. They ran at different times, so verdicts compare the contenders of \
                 one race only.",
                words::count(most, "block")
            );
            lines.push(Line::new(text, Tone::Plain));
        }
        lines
    }

    /// Returns the largest difference of a contender and its hidden copy.
    fn noise(&self) -> Option<String> {
        let ratio = |outcome: &Outcome| -> Option<Ratio> {
            outcome.control.as_ref()?.verdicts.first()?.ratio.filter(|ratio| ratio.point > 0.0)
        };
        let sizes = self.races.iter().filter_map(|(_, outcome)| ratio(outcome));
        let largest = sizes.map(|ratio| ratio.point.ln().abs()).max_by(f64::total_cmp)?;
        Some(percent(largest.exp_m1()))
    }

    /// Returns, for each claimed figure that several settings have, a row for each setting and a column for each
    /// contender.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let mut claims: Vec<&Metric> = Vec::new();
        for setting in &self.settings {
            if !claims.iter().any(|metric| metric.label == setting.metric.label) {
                claims.push(setting.metric);
            }
        }
        let of = |metric: &&Metric| -> Option<Table> {
            let alike = self.settings.iter().filter(|one| one.metric.label == metric.label);
            let alike: Vec<&RaceSetting<'a>> = alike.collect();
            (2..=MOST_ROWS).contains(&alike.len()).then(|| side_by_side(&alike, self.noun))
        };
        claims.iter().filter_map(of).collect()
    }
}

/// Returns the names of settings: `lte, cable and 3 more`.
fn named(settings: &[&RaceSetting<'_>]) -> String {
    let mut names: Vec<String> = settings.iter().map(|setting| setting.name.clone()).collect();
    if names.len() > MOST_NAMED {
        let more = names.len() - (MOST_NAMED - 1);
        names.truncate(MOST_NAMED - 1);
        names.push(format!("{more} more"));
    }
    words::list(&names)
}

/// Returns the table of settings with the same claim.
fn side_by_side(settings: &[&RaceSetting<'_>], noun: &str) -> Table {
    let metric = settings[0].metric;
    let mut contenders: Vec<&str> = Vec::new();
    for (_, label) in settings.iter().flat_map(|setting| &setting.entered) {
        let is_shown = settings.iter().any(|setting| setting.summary(label).is_some());
        if is_shown && !contenders.contains(&label.as_str()) {
            contenders.push(label);
        }
    }
    let exact = |setting: &&RaceSetting<'_>| -> Vec<f64> {
        let all = contenders.iter().filter_map(|label| setting.summary(label));
        let exact = all.filter(|one| !Bound::of(setting.outcome, one).holds(one.estimate));
        exact.map(|one| one.estimate).collect()
    };
    let scale = Scale::of(settings.iter().flat_map(exact), metric.unit);
    let text = |heading: &str, cell: &dyn Fn(&RaceSetting<'_>) -> String| {
        Column::new(heading, settings.iter().map(|one| Cell::text(cell(one))).collect())
    };
    let mut columns = vec![text(noun, &|setting| setting.name.clone())];
    let places = [
        text("workload", &|setting| setting.outcome.asked.workload.clone()),
        text("path", &|setting| setting.outcome.path.spec.clone()),
    ];
    let differs = |column: &Column| column.cells.iter().any(|cell| *cell != column.cells[0]);
    for contender in contenders {
        let cell = |setting: &&RaceSetting<'_>| match setting.summary(contender) {
            Some(summary) => figure(setting.outcome, metric, summary, &scale),
            None => Cell::text(words::NOTHING).tone(Tone::Aside),
        };
        columns.push(Column::new(contender, settings.iter().map(cell).collect()));
    }
    let verdict = |setting: &&RaceSetting<'_>| {
        let (text, tone) = setting.in_short();
        Cell::text(text).tone(tone)
    };
    columns.push(Column::new("verdict", settings.iter().map(verdict).collect()));
    // They may be long, and the figures come first.
    columns.extend(places.into_iter().filter(differs));
    let legend = format!(
        "{} in {}: median of the trials, with its {} interval.",
        metric.label,
        scale.unit(),
        words::level(settings[0].outcome.asked.confidence)
    );
    Table { columns, legend }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_race::race::{Request, testing};

    /// A race in which the figures of udp are `factor` times as large as those of tcp.
    fn raced(factor: f64) -> Outcome {
        let request = Request::new(["tcp", "udp"]).workload(testing::WORKLOAD).blocks(12).seed(1);
        let level = move |contender: &str| if contender == "tcp" { 100.0 } else { 100.0 * factor };
        testing::run(&request, testing::noisy(1, 0.001, level)).unwrap()
    }

    fn texts(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn a_leader_everywhere_is_named_alone() {
        let (one, other) = (raced(0.5), raced(0.8));
        let set = RaceSet::of_races(vec![("lte", &one), ("lan", &other)]);
        let opening = set.opening();
        assert_eq!(texts(&opening.headlines), ["udp is ahead in both races."]);
        let figure = opening.figure.unwrap();
        assert_eq!(figure.value, "50 % lower");
        assert!(figure.about.ends_with("; the widest lead, in lte"), "{}", figure.about);
        assert_eq!(opening.trust[0].text, "No check of these 2 races failed.");
    }

    #[test]
    fn where_it_depends_each_leader_has_its_races_and_what_decides_nothing_is_named() {
        let (udp, tcp, tie) = (raced(0.5), raced(2.0), raced(1.0));
        let mut bad = raced(0.5);
        bad.control.as_mut().unwrap().trusted = false;
        let races = [("lte", &udp), ("lan", &udp), ("local", &tcp), ("tie", &tie), ("bad", &bad)];
        let set = RaceSet::of_races(races.to_vec());
        let opening = set.opening();
        assert_eq!(
            texts(&opening.headlines),
            [
                "It depends: udp is ahead in 2 of 5 races and tcp in 1.",
                "udp leads in lte and lan; tcp leads in local.",
                "A dead heat of the best in 1 race: tie.",
            ]
        );
        assert_eq!(opening.trust[0].text, "1 of 5 races cannot be trusted: bad.");
        let tables = set.tables();
        let headings: Vec<&str> = tables[0].columns.iter().map(|c| c.heading.as_str()).collect();
        assert_eq!(headings, ["race", "tcp", "udp", "verdict"]);
        let verdicts: Vec<&str> =
            tables[0].columns[3].cells.iter().map(|cell| cell.rest.as_str()).collect();
        assert_eq!(verdicts, ["udp ahead", "udp ahead", "tcp ahead", "dead heat", "not trusted"]);
    }

    #[test]
    fn a_single_verdict_is_no_summary() {
        let (one, alone) = (raced(0.5), testing::outcome(1));
        let opening = RaceSet::of_races(vec![("a", &one), ("b", &alone)]).opening();
        assert_eq!(texts(&opening.headlines), ["Each result has an answer of its own, below."]);
    }
}
