//! `docs/answer.md` says what the kept runs say: its figures, its pictures, its tables and its counts are theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use deadheat::analysis::derived;
use deadheat::report::figure::Figure;
use deadheat::report::plot::{self, palette, style};
use deadheat::report::study::ruling_word;
use deadheat::study::model::Claim;
use deadheat::study::outcome::{ClaimRuling, Ruling, StudyRun};
use deadheat::study::save;

const PAGE: &str = "docs/answer.md";
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
}

impl ClaimHistory {
    /// Returns the newest ruling that is not open.
    fn settled(&self) -> Option<Ruling> {
        self.said.iter().rev().map(|said| said.ruling).find(|ruling| *ruling != Ruling::Open)
    }

    /// Returns true if runs settled it differently.
    fn differs(&self) -> bool {
        let settled: Vec<Ruling> =
            self.said.iter().map(|said| said.ruling).filter(|one| *one != Ruling::Open).collect();
        settled.windows(2).any(|pair| pair[0] != pair[1])
    }
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

    /// Returns the claims of a study. A run of some of its races has only the claims that ask one of them.
    fn claims(&self, study: &str) -> Vec<ClaimHistory> {
        let runs = &self.studies[study];
        let (_, whole) = runs.iter().max_by_key(|(_, run)| run.study.claims.len()).unwrap();
        let judged = |claim: &Claim| {
            let of_run = |(folder, run): &(String, StudyRun)| {
                let ruling = run.rulings.iter().find(|ruling| ruling.id == claim.id)?;
                let ruling = asked(run, ruling).then_some(ruling.ruling)?;
                Some(RunRuling { folder: folder.clone(), ruling })
            };
            ClaimHistory { claim: claim.clone(), said: runs.iter().filter_map(of_run).collect() }
        };
        whole.study.claims.iter().map(judged).collect()
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
    tables
}

/// Returns a column's heading: the run's day and machine, with a link to its report on the study.
fn heading(folder: &str, study: &str) -> String {
    let (day, machine) = folder.split_at(10);
    let machine = match machine.trim_start_matches('-') {
        "epyc" => "EPYC",
        "xeon" => "Xeon",
        "uml" => "Xeon, Linux in user mode",
        "virtual" => "virtual time",
        other => other,
    };
    format!("[{machine}, {day}](../{RUNS}/{folder}/{study}/README.md)")
}

/// Returns each claim of a study with its ruling in each run.
fn of_study(kept: &KeptRuns, study: &str) -> String {
    let folders: Vec<&str> =
        kept.studies[study].iter().map(|(folder, _)| folder.as_str()).collect();
    let headings: Vec<String> = folders.iter().map(|folder| heading(folder, study)).collect();
    let mut out = format!(
        "\n| claim | {} | depends on |\n|---|{}---|\n",
        headings.join(" | "),
        "---|".repeat(folders.len())
    );
    for ClaimHistory { claim, said } in kept.claims(study) {
        let cell = |folder: &&str| {
            let found = said.iter().find(|said| said.folder == **folder);
            found.map_or("not asked", |said| ruling_word(said.ruling))
        };
        let cells: Vec<&str> = folders.iter().map(cell).collect();
        let does = said.iter().any(|said| said.ruling == Ruling::Depends);
        let on = claim.depends_on.as_deref().filter(|_| does).unwrap_or("–");
        writeln!(out, "| {} | {} | {on} |", claim.says, cells.join(" | ")).unwrap();
    }
    out
}

/// Returns the other studies with the number of their claims by ruling.
fn others(kept: &KeptRuns) -> String {
    let mut out =
        String::from("\n| study | what it asks | claims | newest run |\n|---|---|---|---|\n");
    for (study, runs) in kept.studies.iter().filter(|(name, _)| !ARTICLES.contains(&name.as_str()))
    {
        let (folder, newest) = runs.last().unwrap();
        let claims = kept.claims(study);
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for claim in &claims {
            let word = ruling_word(claim.settled().unwrap_or(Ruling::Open));
            match counts.iter_mut().find(|(other, _)| *other == word) {
                Some((_, count)) => *count += 1,
                None => counts.push((word, 1)),
            }
        }
        let counts: Vec<String> =
            counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let (question, newest) = (&newest.study.question, heading(folder, study));
        writeln!(out, "| `{study}` | {question} | {} | {newest} |", counts.join(", ")).unwrap();
    }
    out
}

/// Returns the claims that runs settled differently.
fn differ(kept: &KeptRuns) -> String {
    let mut out = String::from("\n| claim | study | rulings |\n|---|---|---|\n");
    for (study, claim) in kept.everything().filter(|(_, claim)| claim.differs()) {
        let ruling = |said: &RunRuling| {
            format!("{}: {}", heading(&said.folder, study), ruling_word(said.ruling))
        };
        let rulings: Vec<String> = claim.said.iter().map(ruling).collect();
        writeln!(out, "| {} | `{study}` | {} |", claim.claim.says, rulings.join("; ")).unwrap();
    }
    out
}

/// Finds figures with an interval that are not in a run which the same paragraph links to.
pub(crate) fn figures(root: &Path) -> Vec<String> {
    let read = |target: &str| {
        let text = fs::read_to_string(root.join("docs").join(target)).unwrap_or_default();
        text.replace("\\[", "[").replace("\\]", "]")
    };
    strangers(&fs::read_to_string(root.join(PAGE)).unwrap(), &read)
}

/// Figure with its interval.
#[derive(Debug, PartialEq, Eq)]
struct QuotedFigure<'a> {
    figure: String,
    low: &'a str,
    high: &'a str,
}

impl QuotedFigure<'_> {
    /// Returns true if the text of a run has this interval shortly behind this figure.
    fn is_in(&self, run: &str) -> bool {
        let interval = format!("[{}, {}]", self.low, self.high);
        run.match_indices(&interval).any(|(at, _)| {
            let start = (at.saturating_sub(200)..=at).find(|at| run.is_char_boundary(*at));
            let before = &run[start.unwrap_or(at)..at];
            before.match_indices(&self.figure).any(|(at, _)| {
                let beside = before[..at].chars().next_back();
                !beside.is_some_and(|c| c.is_ascii_digit() || c == '.')
            })
        })
    }
}

fn strangers(page: &str, read: &dyn Fn(&str) -> String) -> Vec<String> {
    let mut findings = Vec::new();
    for paragraph in paragraphs(page) {
        let runs: Vec<String> = links(&paragraph).map(read).collect();
        for quoted in quoted(&paragraph) {
            let QuotedFigure { figure, low, high } = &quoted;
            let what = match runs.is_empty() {
                true => "its paragraph links to no run",
                false if runs.iter().any(|run| quoted.is_in(run)) => continue,
                false => "no run that its paragraph links to has it",
            };
            findings.push(format!("{PAGE}: {figure} ({low} to {high}): {what}"));
        }
    }
    findings
}

/// Returns paragraphs, items of lists and rows of tables.
fn paragraphs(page: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in page.lines() {
        let begins = line.is_empty() || line.starts_with('|') || line.starts_with("- ");
        if begins {
            all.push(String::new());
        }
        let last = all.last_mut().unwrap();
        last.push_str(line);
        last.push(' ');
    }
    all
}

fn links(paragraph: &str) -> impl Iterator<Item = &str> {
    let targets = paragraph.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let prefix = format!("../{RUNS}/");
    targets.map(|(target, _)| target).filter(move |target| target.starts_with(&prefix))
}

/// Returns the figures that an interval follows: `1.29 times (1.28 to 1.30)`.
fn quoted(paragraph: &str) -> Vec<QuotedFigure<'_>> {
    let starts_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let mut found = Vec::new();
    for (at, _) in paragraph.match_indices(" (") {
        let inside = paragraph[at + 2..].split(')').next().unwrap_or_default();
        let Some((low, high)) = inside.split_once(" to ") else { continue };
        if !(starts_with_digit(low) && starts_with_digit(high)) {
            continue;
        }
        let words: Vec<&str> = paragraph[..at].split_whitespace().collect();
        let first = words.iter().rev().take(2).position(|word| starts_with_digit(word));
        let figure = words[words.len() - 1 - first.unwrap_or(0)..].join(" ");
        found.push(QuotedFigure { figure, low, high });
    }
    found
}

/// Compares the pictures of the page with the runs that the commands on it name; `UPDATE_GOLDEN=1` writes them.
pub(crate) fn pictures(root: &Path) -> Vec<String> {
    let page = fs::read_to_string(root.join(PAGE)).unwrap();
    let mut findings = Vec::new();
    let mut drawn = BTreeSet::new();
    for command in page.lines().filter(|line| line.contains(" --figure ")) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let (from, id, into) = match words.as_slice() {
            ["deadheat", "report", from, "--figure", id, "-o", into] => (from, id, into),
            ["deadheat", "study", "report", from, "--figure", id, "-o", into] => (from, id, into),
            _ => {
                findings.push(format!("{PAGE}: no picture comes from `{command}`"));
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
        findings.push(format!("{PAGE} shows {shown:?}, and has commands for {drawn:?}"));
    }
    findings
}

/// Returns a figure of a race, or of a study that ran, as a file of its own.
fn picture(from: &Path, id: &str) -> Option<String> {
    let find = |figures: Vec<Figure>| figures.into_iter().find(|figure| figure.id == id);
    if from.is_dir() {
        let run = save::load(from).unwrap();
        let figures = [plot::study_figures(&run), plot::claim_figures(&run)].concat();
        return Some(style::standalone(&find(figures)?, &[]));
    }
    let outcome = derived::load(from).unwrap();
    let found = find(plot::figures(&(&outcome).into()))?;
    Some(style::standalone(&found, &palette::tints(&outcome)))
}

/// Finds wrong counts, open claims without a reason on the page, and reasons for claims that are settled.
pub(crate) fn counts(root: &Path, kept: &KeptRuns) -> Vec<String> {
    let mut findings = Vec::new();
    let all: Vec<(&str, ClaimHistory)> = kept.everything().collect();
    let is_open = |(_, claim): &&(&str, ClaimHistory)| claim.settled().is_none();
    let open: BTreeSet<String> = all
        .iter()
        .filter(is_open)
        .map(|(study, judged)| format!("`{study}`: `{}`", judged.claim.id))
        .collect();
    let says = format!(
        "Of {} claims of {} studies {} are settled in at least one run",
        all.len(),
        kept.studies.len(),
        all.len() - open.len()
    );
    let page = fs::read_to_string(root.join(PAGE)).unwrap();
    for (name, text) in [
        (PAGE, &page),
        ("studies/runs/README.md", &fs::read_to_string(root.join(RUNS).join("README.md")).unwrap()),
    ] {
        if !text.contains(&says) {
            findings.push(format!("{name} does not say `{says}`"));
        }
    }
    let section = page.split("\n## ").find(|section| section.starts_with("What is open"));
    let rows = section.unwrap_or_default().lines().filter(|line| line.starts_with("| `"));
    let reasons: BTreeSet<String> =
        rows.map(|row| row.split('|').nth(1).unwrap().trim().to_owned()).collect();
    findings.extend(open.difference(&reasons).map(|one| format!("{PAGE} has no reason: {one}")));
    let settled = reasons.difference(&open);
    findings.extend(settled.map(|one| format!("{PAGE} says that this is open: {one}")));
    findings
}

#[test]
fn a_figure_that_no_run_has_is_found() {
    let read = |target: &str| match target {
        "../studies/runs/a/README.md" => {
            "tcp took 1.292 times udp's [1.283, 1.304]; 67 % [65 %, 72 %]".to_owned()
        }
        _ => String::new(),
    };
    let find = |page: &str| strangers(page, &read).len();
    assert_eq!(
        find("TCP took 1.292 times (1.283 to 1.304), [run](../studies/runs/a/README.md)."),
        0
    );
    assert_eq!(find("- 67 % (65 % to 72 %) of\n  it: [run](../studies/runs/a/README.md)"), 0);
    // Another figure, another interval, digits before the figure, another run, and none.
    for wrong in [
        "1.293 times (1.283 to 1.304), [run](../studies/runs/a/README.md)",
        "1.292 times (1.283 to 1.305), [run](../studies/runs/a/README.md)",
        "7 % (65 % to 72 %), [run](../studies/runs/a/README.md)",
        "67 % (65 % to 72 %), [run](../studies/runs/b/README.md)",
        "67 % (65 % to 72 %)\n\n[run](../studies/runs/a/README.md)",
    ] {
        assert_eq!(find(wrong), 1, "{wrong}");
    }
    assert_eq!(find("from one (1 of 3) to another (see the table)"), 0);
}
