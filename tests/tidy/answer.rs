//! `docs/answer.md` says what the kept runs say: its figures, its pictures, its tables and its counts are theirs. A claim
//! is settled by all of its runs together, and `figures` ties each figure to all runs that asked for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use deadheat::analysis::derived;
use deadheat::report::figure::Figure;
use deadheat::report::plot::{self, palette, style};
use deadheat::report::study::ruling_word;
use deadheat::result::study::model::Claim;
use deadheat::result::study::outcome::{AnswerKind, ClaimRuling, Ruling, StudyRun, TestAnswer};
use deadheat::study::{bundled, judge, save};

pub(crate) mod figures;

const PAGE: &str = "docs/answer.md";
/// Pages whose pictures are made from runs.
const PAGES: [&str; 2] = [PAGE, "docs/congestion-control.md"];
const RUNS: &str = "studies/runs";

/// Studies of the four articles, in the order of the page.
const ARTICLES: [&str; 8] = [
    "kreylos-echo-local",
    "kreylos-echo-internet",
    "kreylos-upload",
    "kreylos-bulk-local",
    "perlten-1gb",
    "snkzt-pingpong",
    "hpnpl-file-transfer",
    "week-long",
];

/// Ruling on a claim in one run.
struct RunRuling {
    /// Folder of the run: `2026-11-22-epyc`.
    folder: String,
    ruling: Ruling,
}

/// Claim with its rulings, the oldest first.
struct ClaimHistory {
    claim: Claim,
    said: Vec<RunRuling>,
    /// Ruling of all runs together.
    together: Ruling,
}

impl ClaimHistory {
    /// Returns true if runs settled it differently.
    fn differs(&self) -> bool {
        let settled: Vec<Ruling> =
            self.said.iter().map(|said| said.ruling).filter(|one| *one != Ruling::Open).collect();
        settled.windows(2).any(|pair| pair[0] != pair[1])
    }
}

/// Answer to a test in one run that asked it.
struct RunAnswer<'a> {
    folder: &'a str,
    is_trusted: bool,
    answer: &'a TestAnswer,
    /// Sentence of the ruling that the answer is part of.
    note: &'a str,
}

/// Returns the answers that count for a test: that of the newest trusted run, and the newest one that contradicts it.
/// Without a trusted run there is none.
fn counted<'a>(asked: &'a [RunAnswer<'a>]) -> Vec<&'a RunAnswer<'a>> {
    let mut trusted = asked.iter().rev().filter(|one| one.is_trusted);
    let Some(newest) = trusted.next() else { return Vec::new() };
    let is_yes = |kind: AnswerKind| match kind {
        AnswerKind::Yes | AnswerKind::More => Some(true),
        AnswerKind::No => Some(false),
        AnswerKind::Open | AnswerKind::LeftOut => None,
    };
    let says = is_yes(newest.answer.answer);
    let contradicts = |one: &&RunAnswer<'_>| {
        let other = is_yes(one.answer.answer);
        says.is_some() && other.is_some() && other != says
    };
    std::iter::once(newest).chain(trusted.find(contradicts)).collect()
}

/// Runs that are kept.
pub(crate) struct KeptRuns {
    /// The runs of each study, the oldest first, with their folders.
    studies: BTreeMap<String, Vec<(String, StudyRun)>>,
}

impl KeptRuns {
    pub(crate) fn read(root: &Path) -> KeptRuns {
        let entries = fs::read_dir(root.join(RUNS)).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
        folders.sort();
        let mut studies: BTreeMap<String, Vec<(String, StudyRun)>> = BTreeMap::new();
        for folder in folders {
            let name = folder.file_name().unwrap().to_str().unwrap();
            for place in save::within(&folder) {
                let run = save::load(&place).unwrap();
                studies.entry(run.name.clone()).or_default().push((name.to_owned(), run));
            }
        }
        KeptRuns { studies }
    }

    /// Returns the claims of a study, with the rulings of each run that asked one of their races.
    fn claims(&self, study: &str) -> Vec<ClaimHistory> {
        let runs = &self.studies[study];
        let judged = |claim: Claim| {
            let of_run = |(folder, run): &(String, StudyRun)| {
                let ruling = run.rulings.iter().find(|ruling| ruling.id == claim.id)?;
                let ruling = asked(run, ruling).then_some(ruling.ruling)?;
                Some(RunRuling { folder: folder.clone(), ruling })
            };
            let said = runs.iter().filter_map(of_run).collect();
            let together = self.together(study, &claim);
            ClaimHistory { claim, said, together }
        };
        bundled::study(study).unwrap().study.claims.into_iter().map(judged).collect()
    }

    /// Returns the answers to a test of a claim, from 1, in the runs that asked it, the oldest first.
    fn answers(&self, study: &str, claim: &str, number: usize) -> Vec<RunAnswer<'_>> {
        let mut all = Vec::new();
        for (folder, run) in self.studies.get(study).into_iter().flatten() {
            let ruling = run.rulings.iter().find(|ruling| ruling.id == claim);
            let Some(ruling) = ruling else { continue };
            let answer = number.checked_sub(1).and_then(|at| ruling.answers.get(at));
            let Some(answer) = answer.filter(|one| one.answer != AnswerKind::LeftOut) else {
                continue;
            };
            let ran = run.races.iter().find(|race| race.id == answer.test.race);
            if let Some(race) = ran.filter(|race| race.file.is_some()) {
                let (is_trusted, note) = (race.trusted, ruling.note.as_str());
                all.push(RunAnswer { folder, is_trusted, answer, note });
            }
        }
        all
    }

    /// Returns the ruling of all runs together: the rules of one run, on the answers that count.
    fn together(&self, study: &str, claim: &Claim) -> Ruling {
        if claim.agree.is_some() {
            let of_run = |(_, run): &(String, StudyRun)| {
                let found = run.rulings.iter().find(|ruling| ruling.id == claim.id);
                found.map(|ruling| ruling.ruling)
            };
            return self.studies[study].iter().rev().find_map(of_run).unwrap_or(Ruling::Open);
        }
        let of_test = |number| {
            let asked = self.answers(study, &claim.id, number);
            let counted = counted(&asked).into_iter().map(|one| one.answer.clone());
            let counted: Vec<TestAnswer> = counted.collect();
            if counted.is_empty() {
                vec![TestAnswer {
                    test: claim.tests[number - 1].clone(),
                    answer: AnswerKind::Open,
                    seen: None,
                    blocks: 0,
                    confidence: None,
                }]
            } else {
                counted
            }
        };
        let answers: Vec<TestAnswer> = (1..=claim.tests.len()).flat_map(of_test).collect();
        judge::rule(&answers)
    }

    fn everything(&self) -> impl Iterator<Item = (&str, ClaimHistory)> {
        let of_study = |study| self.claims(study).into_iter().map(move |claim| (study, claim));
        self.studies.keys().map(String::as_str).flat_map(of_study)
    }
}

/// Returns true if a race of the claim ran in this run.
fn asked(run: &StudyRun, ruling: &ClaimRuling) -> bool {
    let ran = |race: &str| run.races.iter().any(|one| one.id == race && one.file.is_some());
    ruling.answers.is_empty() || ruling.answers.iter().any(|answer| ran(&answer.test.race))
}

/// Returns the tables that are made of the runs, each by its name on the page.
pub(crate) fn tables(kept: &KeptRuns) -> Vec<(&'static str, String)> {
    let mut tables: Vec<_> = ARTICLES.iter().map(|study| (*study, of_study(kept, study))).collect();
    tables.push(("others", others(kept)));
    tables.push(("differ", differ(kept)));
    tables.push(("open", open(kept)));
    tables.push(("count", format!("{}\n", count(kept))));
    tables
}

/// Returns the name of a run: `EPYC, 2026-11-22`.
fn run_name(folder: &str) -> String {
    let (day, machine) = folder.split_at(10);
    let machine = match machine.trim_start_matches('-') {
        "epyc" => "EPYC",
        "xeon" => "Xeon",
        "uml" => "Xeon, Linux in user mode",
        "virtual" => "virtual time",
        other => other,
    };
    format!("{machine}, {day}")
}

/// Returns a column's heading: the run's day and machine, with a link to its report on the study.
fn heading(folder: &str, study: &str) -> String {
    format!("[{}](../{RUNS}/{folder}/{study}/README.md)", run_name(folder))
}

/// Returns each claim of a study with its ruling in each run.
fn of_study(kept: &KeptRuns, study: &str) -> String {
    let folders: Vec<&str> =
        kept.studies[study].iter().map(|(folder, _)| folder.as_str()).collect();
    let headings: Vec<String> = folders.iter().map(|folder| heading(folder, study)).collect();
    let mut out = format!(
        "\n| claim | {} | together |\n|---|{}---|\n",
        headings.join(" | "),
        "---|".repeat(folders.len())
    );
    for ClaimHistory { claim, said, together } in kept.claims(study) {
        let cell = |folder: &&str| {
            let found = said.iter().find(|said| said.folder == **folder);
            found.map_or("not asked", |said| ruling_word(said.ruling))
        };
        let cells: Vec<&str> = folders.iter().map(cell).collect();
        let does = said.iter().any(|said| said.ruling == Ruling::Depends);
        let on = claim.depends_on.as_deref().filter(|_| does);
        let word = ruling_word(together);
        let together = match on {
            Some(on) if together == Ruling::Depends => format!("{word} on {on}"),
            Some(on) => format!("{word}; in some runs it depends on {on}"),
            None => word.to_owned(),
        };
        writeln!(out, "| {} | {} | {together} |", claim.says, cells.join(" | ")).unwrap();
    }
    out
}

/// Returns the other studies with the number of their claims by ruling.
fn others(kept: &KeptRuns) -> String {
    let mut out = String::from("\n| study | claims | newest run |\n|---|---|---|\n");
    for (study, runs) in kept.studies.iter().filter(|(name, _)| !ARTICLES.contains(&name.as_str()))
    {
        let (folder, _) = runs.last().unwrap();
        let claims = kept.claims(study);
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for claim in &claims {
            let word = ruling_word(claim.together);
            match counts.iter_mut().find(|(other, _)| *other == word) {
                Some((_, count)) => *count += 1,
                None => counts.push((word, 1)),
            }
        }
        let counts: Vec<String> =
            counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let newest = heading(folder, study);
        writeln!(out, "| `{study}` | {} | {newest} |", counts.join(", ")).unwrap();
    }
    out
}

/// Returns the claims that runs settled differently. Those of an article have their rulings in its table.
fn differ(kept: &KeptRuns) -> String {
    let mut out = String::new();
    for (study, claim) in kept.everything().filter(|(_, claim)| claim.differs()) {
        write!(out, "- {} (`{study}`)", claim.claim.says.trim_end_matches('.')).unwrap();
        if !ARTICLES.contains(&study) {
            let ruling = |said: &RunRuling| {
                format!("{}: {}", heading(&said.folder, study), ruling_word(said.ruling))
            };
            let rulings: Vec<String> = claim.said.iter().map(ruling).collect();
            write!(out, ": {}", rulings.join("; ")).unwrap();
        }
        out.push('\n');
    }
    out
}

/// Compares the pictures of the pages with the runs that the commands on them name; `UPDATE_GOLDEN=1` writes them.
pub(crate) fn pictures(root: &Path) -> Vec<String> {
    PAGES.iter().flat_map(|page| pictures_of(root, page)).collect()
}

fn pictures_of(root: &Path, name: &str) -> Vec<String> {
    let page = fs::read_to_string(root.join(name)).unwrap();
    let mut findings = Vec::new();
    let mut drawn = BTreeSet::new();
    for command in page.lines().filter(|line| line.contains(" --figure ")) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let (from, id, into) = match words.as_slice() {
            ["deadheat", "report", from, "--figure", id, "-o", into] => (from, id, into),
            ["deadheat", "study", "report", from, "--figure", id, "-o", into] => (from, id, into),
            _ => {
                findings.push(format!("{name}: no picture comes from `{command}`"));
                continue;
            }
        };
        let Some(picture) = picture(&root.join(from), id) else {
            findings.push(format!("{from} has no figure {id}"));
            continue;
        };
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(root.join(into), &picture).unwrap();
        }
        if fs::read_to_string(root.join(into)).unwrap_or_default() != picture {
            findings
                .push(format!("{into} is not what `{command}` draws; UPDATE_GOLDEN=1 writes it"));
        }
        drawn.insert(into.trim_start_matches("docs/").to_owned());
    }
    let shown = page.split("](").skip(1).filter_map(|rest| rest.split_once(".svg)"));
    let shown: BTreeSet<String> = shown.map(|(target, _)| format!("{target}.svg")).collect();
    if drawn != shown {
        findings.push(format!("{name} shows {shown:?}, and has commands for {drawn:?}"));
    }
    findings
}

/// Returns a figure of a race, or of a study that ran, as a file of its own.
fn picture(from: &Path, id: &str) -> Option<String> {
    let find = |figures: Vec<Figure>| figures.into_iter().find(|figure| figure.id == id);
    if from.is_dir() {
        let run = save::load(from).unwrap();
        let figures = [plot::study_figures(&run), plot::claim_figures(&run)].concat();
        let tints = if run.study.over.is_some() { palette::lines() } else { Vec::new() };
        return Some(style::standalone(&find(figures)?, &tints));
    }
    let outcome = derived::load(from).unwrap();
    let found = find(plot::figures(&(&outcome).into()))?;
    Some(style::standalone(&found, &palette::tints(&outcome)))
}

/// Returns the number of claims that their runs settle, in a sentence.
pub(crate) fn count(kept: &KeptRuns) -> String {
    let all: Vec<(&str, ClaimHistory)> = kept.everything().collect();
    let open = all.iter().filter(|(_, claim)| claim.together == Ruling::Open).count();
    format!(
        "Of {} claims of {} studies {} are settled by their runs together; the other {open} are open, {:.1} %.",
        all.len(),
        kept.studies.len(),
        all.len() - open,
        100.0 * open as f64 / all.len() as f64
    )
}

/// Returns the claims that are open by all runs together, with what leaves them open.
fn open(kept: &KeptRuns) -> String {
    let mut out = String::from("\n| study | claim | what leaves it open |\n|---|---|---|\n");
    for (study, ClaimHistory { claim, together, .. }) in kept.everything() {
        if together == Ruling::Open {
            let why = why_open(kept, study, &claim);
            writeln!(out, "| `{study}` | {} | {why} |", claim.says).unwrap();
        }
    }
    out
}

/// Returns what leaves a claim open: its own reason, or each test that is open with its figure in the newest trusted run.
fn why_open(kept: &KeptRuns, study: &str, claim: &Claim) -> String {
    if let Some(why) = &claim.open_because {
        return why.trim_end_matches('.').to_owned();
    }
    if claim.agree.is_some() {
        let of_run = |(_, run): &(String, StudyRun)| {
            Some(run.rulings.iter().find(|ruling| ruling.id == claim.id)?.note.clone())
        };
        let newest = kept.studies[study].iter().rev().find_map(of_run);
        return newest.unwrap_or_else(|| "no run of it".into()).trim_end_matches('.').to_owned();
    }
    let mut reasons: Vec<(String, Option<String>)> = Vec::new();
    for (number, test) in (1..).zip(&claim.tests) {
        let asked = kept.answers(study, &claim.id, number);
        let given = if test.given.is_empty() { String::new() } else { format!("{}: ", test.given) };
        let (reason, run) = match (counted(&asked).first(), asked.last()) {
            (None, None) => (
                "not asked: it takes the full setting, or a race that was added since".into(),
                None,
            ),
            (None, Some(_)) => ("no run of it is trusted".into(), None),
            (Some(one), _) if one.answer.answer != AnswerKind::Open => continue,
            (Some(one), _) => match figures::words(one.answer) {
                Some(figure) => {
                    let missed = one.note.contains(&format!("{}: ", test.given))
                        && one.note.contains("its fault hit too few");
                    let missed =
                        if missed { ", and the path's fault hit too few packets" } else { "" };
                    let figure = figures::brief(&figure);
                    let said = format!("{figure}, asked: {}{missed}", test.expect);
                    (said, Some(run_name(one.folder)))
                }
                None => ("no figure".into(), Some(run_name(one.folder))),
            },
        };
        reasons.push((format!("{given}{reason}"), run));
    }
    with_runs(&reasons)
}

/// Returns reasons in a line, each with its run; a run that is that of all stands once.
fn with_runs(reasons: &[(String, Option<String>)]) -> String {
    let one_run = match reasons {
        [(_, Some(first)), rest @ ..]
            if rest.iter().all(|(_, run)| run.as_ref() == Some(first)) =>
        {
            Some(first)
        }
        _ => None,
    };
    let each = reasons.iter().map(|(reason, run)| match run {
        Some(run) if one_run.is_none() => format!("{reason} ({run})"),
        _ => reason.clone(),
    });
    let all = each.collect::<Vec<String>>().join("; ");
    match one_run {
        Some(run) => format!("{all} ({run})"),
        None => all,
    }
}

#[test]
fn a_run_of_all_reasons_is_named_once() {
    let of = |reason: &str, run: &str| (reason.to_owned(), Some(run.to_owned()));
    assert_eq!(with_runs(&[of("a", "x"), of("b", "x")]), "a; b (x)");
    assert_eq!(with_runs(&[of("a", "x"), of("b", "y")]), "a (x); b (y)");
    assert_eq!(with_runs(&[("c".to_owned(), None), of("a", "x")]), "c; a (x)");
}

/// A test that only old runs settle is open, and one that trusted runs answer differently depends on them.
#[test]
fn the_newest_trusted_run_decides_and_one_that_contradicts_it_counts_too() {
    use AnswerKind::{No, Open, Yes};
    let study = bundled::study("kreylos-upload").unwrap().study;
    let of = |answer| TestAnswer {
        test: study.claims[0].tests[0].clone(),
        answer,
        seen: None,
        blocks: 8,
        confidence: None,
    };
    let together = |runs: &[(AnswerKind, bool)]| {
        let answers: Vec<TestAnswer> = runs.iter().map(|(answer, _)| of(*answer)).collect();
        let asked: Vec<RunAnswer<'_>> = answers
            .iter()
            .zip(runs)
            .map(|(answer, (_, is_trusted))| RunAnswer {
                folder: "",
                is_trusted: *is_trusted,
                answer,
                note: "",
            })
            .collect();
        let counted: Vec<AnswerKind> =
            counted(&asked).iter().map(|one| one.answer.answer).collect();
        counted
    };
    assert_eq!(together(&[(Yes, true), (Yes, true)]), [Yes]);
    assert_eq!(together(&[(Yes, true), (Open, true)]), [Open], "the newest leaves it open");
    assert_eq!(together(&[(Yes, true), (Open, false)]), [Yes], "the newest is not trusted");
    assert_eq!(together(&[(No, true), (Yes, true)]), [Yes, No]);
    assert_eq!(together(&[(No, false), (Yes, true)]), [Yes]);
    assert_eq!(together(&[(Yes, false)]), []);
}
