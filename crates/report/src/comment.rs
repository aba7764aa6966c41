//! A comment on a pull request: the second contender of one race or several against the first, in Markdown. The answer
//! and one table are on a screen; the rest is folded.

use std::collections::{BTreeMap, BTreeSet};

use crate::against::{self, Differing, comparison};
use crate::document::{Cell, Column, Section, Table, Tone};
use crate::html::markup;
use crate::markdown::{escape, render_section, render_table};
use crate::names::entrant;
use crate::results::Bound;
use crate::words::Scale;
use crate::{Report, ReportInput, Style, brief, commands, evidence, words};
use deadheat_base::error::Result;
use deadheat_contract::measurements::{Better, Metric, Unit};
use deadheat_result::analysis::against::{AgainstClaim, against};
use deadheat_result::analysis::compare::Change;
use deadheat_result::analysis::gate::first::{FirstJudgement, JudgedRace, RaceFinding};
use deadheat_result::outcome::{Entrant, Outcome};

/// Name of the format.
pub const ID: &str = "comment";

/// Begin of the first line of each comment, which no reader sees: by it a script finds the comment to replace.
const MARK: &str = "<!-- deadheat";

/// Most rows of the table on the screen; the rest is folded.
const MOST_ROWS: usize = 20;

/// Most characters of a comment; the details of further races are left out. GitHub takes 65,536 of them.
const MOST_CHARACTERS: usize = 60_000;

/// Format of comments.
pub(super) struct Comment;

impl Report for Comment {
    fn id(&self) -> &'static str {
        ID
    }

    fn summary(&self) -> &'static str {
        "the second contender against the first, for a pull request"
    }

    fn render(&self, shown: &ReportInput<'_>, _style: &Style) -> Result<Vec<u8>> {
        Ok(render(&FirstJudgement::of(&[shown.outcome])).into_bytes())
    }
}

/// Renders a comment on races, with a newline at its end.
pub fn render(judgement: &FirstJudgement<'_>) -> String {
    let (shown, folded) = tables(judgement);
    let answers = against::answers(judgement).into_iter().map(|line| {
        let text = escape(&(words::capital(&line.text) + "."));
        if line.tone == Tone::Bad { format!("- **{text}**") } else { format!("- {text}") }
    });
    let mut parts = vec![
        mark(judgement),
        format!("### {}", escape(&title(judgement))),
        answers.collect::<Vec<_>>().join("\n"),
        shown.map_or_else(String::new, |table| render_table(&table)),
        escape(&legend(judgement)),
    ];
    if let Some(table) = folded {
        parts.push(fold("The other rows", &render_table(&table)));
    }
    parts.push(fold("What changed between the two", &changes(judgement)));
    parts.retain(|part| !part.is_empty());
    let mut text = parts.join("\n\n");
    let says = Differing::of(judgement.races.iter().map(|judged| judged.race));
    let mut left_out = 0;
    for judged in &judgement.races {
        let name = format!("Evidence and conditions{}", says.on(judged.race));
        let more = fold(&name, &evidence_of(judged.race));
        if text.len() + more.len() > MOST_CHARACTERS {
            left_out += 1
        } else {
            text.push_str(&format!("\n\n{more}"))
        }
    }
    if left_out > 0 {
        let races = words::count(left_out, "race");
        text.push_str(&format!("\n\nThe conditions of {races} are in the result files alone."));
    }
    text + "\n"
}

/// Returns the first line, for scripts: `<!-- deadheat verdict=worse ratio=1.1237 bound=0.1530 -->`. The ratio is that of the claim
/// that is furthest to the worse side, of the worse ones if there are any. There is none where the verdict does not rest on a
/// ratio: it would be that of another path.
fn mark(judgement: &FirstJudgement<'_>) -> String {
    let any = |change| judgement.claims(change).next().is_some();
    let verdict = match (judgement.is_worse(), judgement.is_doubtful()) {
        (true, _) => "worse",
        (false, true) => "doubtful",
        _ if any(Change::Undecided) => "undecided",
        _ if any(Change::ChangedBetter) => "better",
        _ => "same",
    };
    let worst = |claim: &AgainstClaim<'_>| -> Option<(f64, f64)> {
        let point = claim.ratio?.point;
        let sign = if claim.metric.better == Better::Lower { 1.0 } else { -1.0 };
        Some((sign * point.ln(), point)).filter(|(log, _)| log.is_finite())
    };
    let claims = judgement.races.iter().flat_map(|judged| &judged.claims);
    let counts = |claim: &&AgainstClaim<'_>| match verdict {
        "worse" => claim.change == Change::ChangedWorse,
        "doubtful" => false,
        _ => true,
    };
    let worst = claims.filter(counts).filter_map(worst).max_by(|a, b| a.0.total_cmp(&b.0));
    let ratio = worst.map_or_else(String::new, |(_, ratio)| format!(" ratio={ratio:.4}"));
    let bound = if verdict == "doubtful" { None } else { bound(judgement) };
    let bound = bound.map_or_else(String::new, |bound| format!(" bound={bound:.4}"));
    format!("{MARK} verdict={verdict}{ratio}{bound} -->")
}

/// Returns the share by which the judged contender may be worse at most, over all claims: 0.061 for 6.1 %, 0 if no interval has a
/// worse side. `None` if a claim has no interval, so that there is no bound.
fn bound(judgement: &FirstJudgement<'_>) -> Option<f64> {
    let claims: Vec<&AgainstClaim<'_>> =
        judgement.races.iter().flat_map(|judged| &judged.claims).collect();
    let open = claims.iter().any(|claim| claim.ratio.is_none());
    let worst = claims.iter().filter_map(|claim| Some((claim.worst()? - 1.0).abs()));
    (!claims.is_empty() && !open).then(|| worst.fold(0.0, f64::max))
}

/// Returns the verdict in a few words.
fn title(judgement: &FirstJudgement<'_>) -> String {
    let Some(first) = judgement.races.first() else { return "No race".to_owned() };
    let (base, own) = (first.label(0), first.label(1));
    let any = |change| judgement.claims(change).next().is_some();
    if judgement.is_worse() {
        let is_worse = |judged: &&JudgedRace<'_>| {
            let is_silent = matches!(judged.finding, RaceFinding::Silent(_));
            is_silent || judged.claims.iter().any(|claim| claim.change == Change::ChangedWorse)
        };
        let (worse, all) = (judgement.races.iter().filter(is_worse).count(), judgement.races.len());
        let of = if all > 1 { format!(" in {worse} of {all} races") } else { String::new() };
        return format!("{own} is worse than {base}{of}");
    }
    match (judgement.is_doubtful(), any(Change::Undecided), any(Change::ChangedBetter)) {
        (true, ..) => format!("No judgement on {own} against {base}"),
        (_, true, _) => format!("{own} is not shown to be worse than {base}"),
        (_, _, true) => format!("{own} is better than {base}"),
        _ => format!("{own} is as good as {base}"),
    }
}

/// Returns the line below the table, which says how to read it.
fn legend(judgement: &FirstJudgement<'_>) -> String {
    let verdict = judgement.races.iter().flat_map(|judged| &judged.claims).next();
    let read = verdict.map_or_else(String::new, |claim| {
        format!(
            "Ratio: to {}, with its {} interval; below or above 1 by more than the margin of {} it is a change. ",
            claim.base.label,
            words::level(claim.verdict.confidence),
            words::verdict_margin(claim.verdict)
        )
    });
    let version = judgement.races.first().map_or("", |judged| &judged.race.deadheat.version);
    let promise = words::capital(&against::promise(judgement));
    let blocks = against::blocks(&judgement.races);
    format!("{read}{promise}. deadheat {version}, {blocks} a race.")
}

/// Row of the table.
struct CommentRow {
    path: String,
    work: String,
    contender: String,
    metric: String,
    base: String,
    own: String,
    ratio: String,
    verdict: Cell,
    is_judged: bool,
}

/// Returns the table on the screen, and the table of further rows; `None` for a table without rows.
fn tables(judgement: &FirstJudgement<'_>) -> (Option<Table>, Option<Table>) {
    let says = Differing::of(judgement.races.iter().map(|judged| judged.race));
    let units = Units::of(judgement);
    let mut rows: Vec<CommentRow> =
        judgement.races.iter().flat_map(|judged| rows(judged, &units)).collect();
    // Rows that are judged come first; others are beside them for comparison.
    rows.sort_by_key(|row| !row.is_judged);
    let base = judgement.races.first().map_or_else(String::new, |judged| judged.label(0));
    let rest = rows.split_off(rows.len().min(MOST_ROWS));
    let table = |rows: Vec<CommentRow>| {
        let column = |heading: &str, cell: &dyn Fn(&CommentRow) -> Cell| {
            Column::new(heading, rows.iter().map(cell).collect())
        };
        let text = |of: fn(&CommentRow) -> &str| move |row: &CommentRow| Cell::text(of(row));
        let mut columns = vec![column("path", &text(|row| &row.path))];
        if says.works {
            columns.push(column("work", &text(|row| &row.work)));
        }
        columns.extend([
            column("contender", &text(|row| &row.contender)),
            column("figure", &text(|row| &row.metric)),
            column(&base, &text(|row| &row.base)),
            column("its own", &text(|row| &row.own)),
            column("ratio", &text(|row| &row.ratio)),
            column("verdict", &|row| row.verdict.clone()),
        ]);
        (!rows.is_empty()).then(|| Table { columns, legend: String::new() })
    };
    (table(rows), table(rest))
}

/// Returns the rows of a race: the second contender first, then the others that have claims against the first.
fn rows(judged: &JudgedRace<'_>, units: &Units) -> Vec<CommentRow> {
    let race = judged.race;
    let row = |claim: &AgainstClaim<'_>, verdict: &str| row(race, claim, verdict, units);
    let claims = |place| against(race, 0, place);
    let mut rows: Vec<CommentRow> =
        claims(1).iter().map(|claim| row(claim, verdict_of(judged, claim))).collect();
    let row_without = |verdict: &str| CommentRow {
        path: brief::place(race),
        work: against::work(race),
        contender: judged.label(1),
        metric: String::new(),
        base: String::new(),
        own: String::new(),
        ratio: String::new(),
        verdict: Cell::text(verdict),
        is_judged: true,
    };
    match &judged.finding {
        RaceFinding::Silent(_) => rows = vec![row_without("worse: no figures")],
        RaceFinding::NoJudgement(_) if rows.is_empty() => rows.push(row_without("no judgement")),
        RaceFinding::Judged | RaceFinding::NoJudgement(_) => {}
    }
    for place in 2..race.asked.contenders.len() {
        rows.extend(claims(place).iter().map(|claim| {
            let word = match claim.change {
                Change::ChangedWorse => "behind",
                Change::ChangedBetter => "ahead",
                Change::Same => "dead heat",
                Change::Undecided => "undecided",
            };
            CommentRow { is_judged: false, ..row(claim, word) }
        }));
    }
    rows
}

fn verdict_of(judged: &JudgedRace<'_>, claim: &AgainstClaim<'_>) -> &'static str {
    match (&judged.finding, claim.change) {
        (RaceFinding::NoJudgement(_), _) => "not trusted",
        (_, Change::ChangedWorse) => "worse",
        (_, Change::ChangedBetter) => "better",
        (_, Change::Same) => "the same",
        (_, Change::Undecided) => "undecided",
    }
}

/// Units of the table's figures: one for each metric, whatever the path, so that a column can be read down.
struct Units(BTreeMap<String, Scale>);

impl Units {
    fn of(judgement: &FirstJudgement<'_>) -> Units {
        let mut values: BTreeMap<String, (Unit, Vec<f64>)> = BTreeMap::new();
        for race in judgement.races.iter().map(|judged| judged.race) {
            for metric in &race.metrics {
                let own = race.summary.iter().filter(|summary| {
                    let is_exact = !Bound::of(race, summary).holds(summary.estimate);
                    is_exact && summary.metric == metric.name
                });
                let all = values.entry(metric.label.clone()).or_insert((metric.unit, Vec::new()));
                all.1.extend(own.map(|summary| summary.estimate));
            }
        }
        let scaled = values.into_iter().map(|(label, (unit, all))| (label, Scale::of(all, unit)));
        Units(scaled.collect())
    }

    /// Formats a figure with its unit.
    fn figure(&self, value: f64, metric: &Metric) -> String {
        match self.0.get(&metric.label) {
            Some(scale) => scale.with_unit(value),
            None => words::figure(value, metric.unit),
        }
    }
}

fn row(race: &Outcome, claim: &AgainstClaim<'_>, verdict: &str, units: &Units) -> CommentRow {
    let figure = |entrant: &Entrant| figure(race, entrant, claim.metric, units);
    CommentRow {
        path: brief::place(race),
        work: against::work(race),
        contender: claim.contender.label.clone(),
        metric: claim.metric.label.clone(),
        base: figure(claim.base),
        own: figure(claim.contender),
        ratio: comparison(claim).unwrap_or_else(|| words::NOTHING.to_owned()),
        verdict: Cell::text(verdict),
        is_judged: true,
    }
}

/// Returns the median of a contender's trials with its unit.
fn figure(race: &Outcome, entrant: &Entrant, metric: &Metric, units: &Units) -> String {
    let mut summaries = race.summary.iter();
    let own = summaries.find(|own| own.contender == entrant.id && own.metric == metric.name);
    own.map_or_else(String::new, |summary| {
        if Bound::of(race, summary).holds(summary.estimate) {
            words::beyond(summary.estimate, metric.unit)
        } else {
            units.figure(summary.estimate, metric)
        }
    })
}

/// Returns a list of what differs between the two contenders of each race; races that differ alike are listed once.
fn changes(judgement: &FirstJudgement<'_>) -> String {
    let mut seen = BTreeSet::new();
    let mut parts = Vec::new();
    for judged in &judgement.races {
        let (Some(base), Some(own)) = (entrant(judged.race, 0), entrant(judged.race, 1)) else {
            continue;
        };
        let lines: Vec<String> = differing(base, own)
            .into_iter()
            .map(|(what, old, new)| {
                format!("- {}: {} → {}", escape(&what), escape(&old), escape(&new))
            })
            .collect();
        let text = if lines.is_empty() {
            "Nothing that the race can see: the same implementation, options and files.".to_owned()
        } else {
            lines.join("\n")
        };
        if seen.insert(text.clone()) {
            parts.push(text);
        }
    }
    parts.join("\n\n")
}

/// Returns the facts in which two contenders differ: what, of the first, of the second.
fn differing(base: &Entrant, own: &Entrant) -> Vec<(String, String, String)> {
    // The specification of commands is the path of a file, of which the facts below say what differs.
    let name = |entrant: &Entrant| match &entrant.commands {
        Some(_) => entrant.unlabelled.clone().unwrap_or_else(|| entrant.label.clone()),
        None => entrant.spec.clone(),
    };
    let mut facts = vec![
        ("contender".to_owned(), name(base), name(own)),
        ("implementation".to_owned(), base.implementation.clone(), own.implementation.clone()),
    ];
    let missing = words::NOTHING;
    for (end, olds, news) in [
        ("", &base.asked, &own.asked),
        (" (in effect)", &base.effective, &own.effective),
        (" (far end, in effect)", &base.far_effective, &own.far_effective),
    ] {
        let keys: BTreeSet<&String> = olds.keys().chain(news.keys()).collect();
        facts.extend(keys.into_iter().map(|key| {
            let of = |all: &BTreeMap<String, String>| {
                all.get(key).cloned().unwrap_or_else(|| missing.to_owned())
            };
            (format!("{key}{end}"), of(olds), of(news))
        }));
    }
    facts.extend(files(base, own));
    facts.retain(|(_, old, new)| old != new);
    facts
}

/// Returns the files of two contenders that are commands: name, length and digest of each, in the order of the commands.
fn files(base: &Entrant, own: &Entrant) -> Vec<(String, String, String)> {
    let of = |entrant: &Entrant| -> Vec<(String, String)> {
        let files = entrant.commands.iter().flat_map(|commands| &commands.files);
        let shown = files.map(|file| {
            let name = file.path.rsplit('/').next().unwrap_or_default().to_owned();
            (name, format!("{} bytes, SHA-256 {}", file.bytes, file.sha256))
        });
        let mut all: Vec<(String, String)> = shown.collect();
        all.dedup();
        all
    };
    let (olds, news) = (of(base), of(own));
    let none = || words::NOTHING.to_owned();
    (0..olds.len().max(news.len()))
        .map(|at| {
            let (old, new) = (olds.get(at), news.get(at));
            let name = new.or(old).map_or_else(String::new, |(name, _)| name.clone());
            let text =
                |file: Option<&(String, String)>| file.map_or_else(none, |file| file.1.clone());
            (format!("file {name}"), text(old), text(new))
        })
        .collect()
}

/// Returns the sections on which a judgement of a race rests.
fn evidence_of(race: &Outcome) -> String {
    let sections: [Option<Section>; 8] = [
        evidence::control(race),
        commands::section(race),
        evidence::regimes(race),
        evidence::differences(race),
        evidence::warnings(race),
        evidence::excluded(race),
        evidence::out(race),
        evidence::conditions(race),
    ];
    let mut parts = Vec::new();
    for section in sections.iter().flatten() {
        render_section(section, &mut parts);
    }
    parts.join("\n\n")
}

/// Folds text below a line that opens it. That line is HTML, in which no backslash escapes anything; GitHub renders Markdown
/// after an empty line.
fn fold(summary: &str, text: &str) -> String {
    let summary = markup::escape(summary).replace("&#39;", "'");
    let summary = summary.replace('#', "#&#8203;").replace('@', "@&#8203;");
    format!("<details><summary>{summary}</summary>\n\n{text}\n\n</details>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::contract::Side;
    use deadheat_race::race::testing;
    use deadheat_records::commands::ProgramFile;
    use deadheat_result::outcome::EntrantCommands;

    #[test]
    fn builds_are_told_apart_by_their_digests() {
        let mut race = testing::outcome(2);
        for (at, digest) in ["a", "b"].into_iter().enumerate() {
            let file = |name: &str, digest: &str| ProgramFile {
                side: Side::Near,
                path: format!("/tree-{at}/{name}"),
                bytes: 7,
                sha256: digest.repeat(8),
                copy: None,
            };
            let files = vec![file("client", digest), file("key.pem", "c")];
            race.contenders[at].commands =
                Some(Box::new(EntrantCommands { files, ..EntrantCommands::default() }));
        }
        let text = render(&FirstJudgement::of(&[&race]));
        let changed = "- file client: 7 bytes, SHA-256 aaaaaaaa → 7 bytes, SHA-256 bbbbbbbb";
        assert!(text.contains(changed), "{text}");
        assert!(!text.contains("file key.pem"), "{text}");
        assert!(text.starts_with("<!-- deadheat verdict=doubtful -->\n"), "{text}");
    }

    #[test]
    fn a_figure_has_one_unit_on_all_paths_and_commands_their_short_names() {
        let [mut one, mut other] = [testing::outcome(2), testing::outcome(2)];
        for (race, factor) in [(&mut one, 1.0), (&mut other, 1e3)] {
            for summary in &mut race.summary {
                summary.estimate *= factor;
            }
            for entrant in &mut race.contenders {
                entrant.commands = Some(Box::default());
                entrant.spec = format!("cmd:file=/a/long/way/{}.toml", entrant.label);
                entrant.unlabelled = Some(format!("pair {}", entrant.label));
            }
        }
        let text = render(&FirstJudgement::of(&[&one, &other]));
        assert!(!text.contains("/a/long/way") && text.contains("- contender: pair "), "{text}");
        let units = Units::of(&FirstJudgement::of(&[&one, &other]));
        let metric = &one.metrics[0];
        let shown = [2e3, 2e6].map(|value| units.figure(value, metric));
        let unit = |text: &String| text.split(' ').next_back().map(str::to_owned);
        assert_eq!(unit(&shown[0]), unit(&shown[1]), "{shown:?}");
    }

    #[test]
    fn labels_are_text_that_calls_nobody() {
        let mut race = testing::outcome(2);
        race.contenders[1].label = "@team|<b>_`".into();
        race.contenders[1].spec = "@team".into();
        let text = render(&FirstJudgement::of(&[&race]));
        assert!(text.contains("on @&#8203;team\\|&lt;b&gt;\\_\\`"), "{text}");
        assert!(!text.replace("@&#8203;", "").contains('@'), "{text}");
        assert!(fold("a_b @c #7 <d>", "").contains(">a_b @&#8203;c #&#8203;7 &lt;d&gt;<"));
    }
}
