//! Figures of the page, each a link whose title names what it is of. `"CLAIM 2"` is the second test of a claim in the
//! newest trusted run that asked it, `"CLAIM 2 2026-11-22-epyc"` the same in another run, `"CLAIM"` the ruling of all
//! runs together, and `"= RACE METRIC CONTENDER"` what a contender had in the trusted runs of a race. Texts and targets
//! of these links are generated, and the paragraph around them has to fit all runs.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use deadheat::measurements::MetricName;
use deadheat::report::study::ruling_word;
use deadheat::result::study::outcome::{AnswerKind, TestAnswer};
use deadheat::result::study::sentence;
use deadheat::study::{bundled, save};

use super::{KeptRuns, PAGE, RUNS, RunAnswer, counted, run_name};

/// Generated link, as it stands on the page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FigureLink<'a> {
    text: &'a str,
    folder: &'a str,
    study: &'a str,
    title: &'a str,
}

/// Returns the figure of an answer with its interval, as the page writes it: `1.29 times (1.28 to 1.30)`, `67 % (65 to 72 %)`.
pub(super) fn words(answer: &TestAnswer) -> Option<String> {
    let unit = MetricName::parse(&answer.test.metric).suffix.unit()?;
    let short = sentence::short(answer, unit)?;
    let Some((figure, ends)) = short.split_once(" [") else { return Some(short) };
    let ends = ends.trim_end_matches(']');
    let times = if figure.ends_with(" times") { " times" } else { "" };
    Some(match ends.split_once(", ") {
        Some((low, high)) => format!("{figure} ({} to {high})", without_unit(low, high)),
        None => format!("{ends}{times}"),
    })
}

/// Returns the low end of an interval, without its unit where the high end has the same one.
fn without_unit<'a>(low: &'a str, high: &str) -> &'a str {
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => number,
        _ => low,
    }
}

/// Compares the links with the runs, and their paragraphs with all runs; `UPDATE_GOLDEN=1` writes the links.
pub(crate) fn check(root: &Path, kept: &KeptRuns) -> Vec<String> {
    let path = root.join(PAGE);
    let text = fs::read_to_string(&path).unwrap();
    let mut findings = Vec::new();
    let wanted = rewritten(&text, &mut |link| match written(link, root, kept) {
        Ok(new) => new,
        Err(why) => {
            findings.push(format!("{PAGE}: \"{}\" of {}: {why}", link.title, link.study));
            String::new()
        }
    });
    if !findings.is_empty() {
        return findings;
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &wanted).unwrap();
    } else if text != wanted {
        let mut lines = text.lines().zip(wanted.lines()).filter(|(is, should)| is != should);
        let (is, should) = lines.next().unwrap_or_default();
        return vec![format!(
            "{PAGE}: UPDATE_GOLDEN=1 writes it\n  has    {is}\n  wanted {should}"
        )];
    }
    for paragraph in paragraphs(&wanted) {
        findings.extend(untied(&paragraph));
        findings.extend(one_sided(&paragraph, kept));
    }
    findings
}

/// Returns the rows of the tests on the page that several runs asked, with what each run found: a table for each set of
/// runs.
pub(crate) fn all_runs(root: &Path, kept: &KeptRuns) -> String {
    let text = fs::read_to_string(root.join(PAGE)).unwrap();
    let mut seen = BTreeSet::new();
    let mut tables: Vec<(Vec<String>, String)> = Vec::new();
    for link in links(&text) {
        let Some((claim, number, _)) = test_of(link.title) else { continue };
        if !seen.insert((link.study.to_owned(), claim.to_owned(), number)) {
            continue;
        }
        let asked = kept.answers(link.study, claim, number);
        let [first, _, ..] = &asked[..] else { continue };
        let test = &first.answer.test;
        let cells: Vec<String> = asked.iter().map(in_run).collect();
        let against = test.against.as_ref().map_or_else(String::new, |cell| cell.text());
        let runs: Vec<String> = asked.iter().map(|one| run_name(one.folder)).collect();
        let at = tables.iter().position(|(same, _)| *same == runs).unwrap_or_else(|| {
            tables.push((runs, String::new()));
            tables.len() - 1
        });
        writeln!(
            tables[at].1,
            "| {}, {}: {}, `{}` | {} | {} |",
            link.study,
            if test.given.is_empty() { claim } else { &test.given },
            ratio(&test.of.text(), &against),
            test.metric,
            test.expect,
            cells.join(" | ")
        )
        .unwrap();
    }
    let table = |(runs, rows): &(Vec<String>, String)| {
        let rule = "---|".repeat(runs.len() + 2);
        format!("\n| figure | asked | {} |\n|{rule}\n{rows}", runs.join(" | "))
    };
    tables.iter().map(table).collect()
}

/// Returns `a / b`, with conditions that both have behind b alone; a where there is no b.
fn ratio(of: &str, against: &str) -> String {
    let conditions = |cell: &str| cell.find(" (").map(|at| cell[at..].to_owned());
    match conditions(of).filter(|own| Some(own) == conditions(against).as_ref()) {
        _ if against.is_empty() => of.to_owned(),
        Some(shared) => format!("{} / {against}", of.trim_end_matches(&shared)),
        None => format!("{of} / {against}"),
    }
}

/// Returns the figure of a run as the table has it: `1.29 (1.28–1.30)`, open.
fn in_run(one: &RunAnswer<'_>) -> String {
    let figure = words(one.answer).map_or_else(|| "no figure".into(), |words| brief(&words));
    let doubt = match (one.is_trusted, one.answer.answer) {
        (false, _) => ", not trusted",
        (true, AnswerKind::Open) => ", open",
        (true, _) => "",
    };
    format!("{figure}{doubt}")
}

/// Returns a figure in the words of [`words`] with fewer of them; `a / b` in its row says that it is a ratio.
pub(super) fn brief(words: &str) -> String {
    words.replace(" times", "").replace(" to ", "–")
}

/// Returns the claim, the test's number and the run that a title names; `None` for other titles.
fn test_of(title: &str) -> Option<(&str, usize, Option<&str>)> {
    let mut words = title.split(' ');
    let (claim, number) = (words.next()?, words.next()?.parse().ok()?);
    Some((claim, number, words.next()))
}

/// Returns the link as it should be.
fn written(link: &FigureLink<'_>, root: &Path, kept: &KeptRuns) -> Result<String, String> {
    let (text, folder) = if let Some((claim, number, run)) = test_of(link.title) {
        let asked = kept.answers(link.study, claim, number);
        let newest = asked.iter().rev().find(|one| one.is_trusted);
        let found = match run {
            Some(folder) => asked.iter().find(|one| one.folder == folder),
            None => newest,
        };
        let found = found.ok_or("no trusted run asked it")?;
        (words(found.answer).ok_or("it has no figure there")?, found.folder.to_owned())
    } else if let Some(of) = link.title.strip_prefix("= ") {
        summary(of, link.study, root, kept)?
    } else {
        let all = bundled::study(link.study).map_err(|e| e.to_string())?.study.claims;
        let claim = all.iter().find(|claim| claim.id == link.title).ok_or("no such claim")?;
        let newest = kept.studies[link.study].last().map(|(folder, _)| folder.clone());
        (ruling_word(kept.together(link.study, claim)).to_owned(), newest.unwrap_or_default())
    };
    Ok(format!("[{text}](../{RUNS}/{folder}/{}/README.md \"{}\")", link.study, link.title))
}

/// Returns what a contender had in all trusted runs of a race, from the least to the most, and the newest of these runs.
fn summary(
    of: &str,
    study: &str,
    root: &Path,
    kept: &KeptRuns,
) -> Result<(String, String), String> {
    let [race, metric, contender] = of.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        return Err("not RACE METRIC CONTENDER".into());
    };
    let mut seen: Vec<(f64, String)> = Vec::new();
    for (folder, run) in &kept.studies[study] {
        let place = root.join(RUNS).join(folder).join(study);
        let trusted =
            run.races.iter().any(|one| one.id == race && one.file.is_some() && one.trusted);
        let Some(file) = save::result_file(run, &place, race).filter(|_| trusted) else { continue };
        let outcome = deadheat::analysis::derived::load(&file).map_err(|e| e.to_string())?;
        let entrant = outcome.contenders.iter().find(|one| one.label == contender);
        let id = entrant.ok_or_else(|| format!("{folder} has no {contender}"))?.id;
        let found = outcome.summary.iter().find(|one| one.contender == id && one.metric == metric);
        seen.push((found.ok_or("no such figure")?.estimate, folder.clone()));
    }
    let newest = seen.last().ok_or("no trusted run has it")?.1.clone();
    let ms = |value: f64| format!("{:.1}", value / 1e6);
    let least = seen.iter().map(|(value, _)| *value).fold(f64::MAX, f64::min);
    let most = seen.iter().map(|(value, _)| *value).fold(0.0, f64::max);
    let runs = if seen.len() == 1 { "1 run".into() } else { format!("{} runs", seen.len()) };
    Ok((format!("{} to {} ms in {runs}", ms(least), ms(most)), newest))
}

/// Returns a page with each generated link replaced.
fn rewritten(page: &str, new: &mut dyn FnMut(&FigureLink<'_>) -> String) -> String {
    let (mut out, mut done) = (String::new(), 0);
    for (start, end, link) in places(page) {
        out.push_str(&page[done..start]);
        out.push_str(&new(&link));
        done = end;
    }
    out + &page[done..]
}

fn links(page: &str) -> impl Iterator<Item = FigureLink<'_>> {
    places(page).into_iter().map(|(_, _, link)| link)
}

/// Returns each generated link with the bytes that it takes on a page.
fn places(page: &str) -> Vec<(usize, usize, FigureLink<'_>)> {
    let open = format!("](../{RUNS}/");
    let of = |(at, _): (usize, &str)| {
        let start = page[..at].rfind('[')?;
        let rest = &page[at + open.len()..];
        let (target, rest) = rest.split_once(" \"")?;
        let (title, _) = rest.split_once("\")")?;
        let end = at + open.len() + target.len() + 2 + title.len() + 2;
        let [folder, study, "README.md"] = target.split('/').collect::<Vec<_>>()[..] else {
            return None;
        };
        let is_one = !target.contains([')', '\n']);
        is_one.then_some((
            start,
            end,
            FigureLink { text: &page[start + 1..at], folder, study, title },
        ))
    };
    page.match_indices(&open).filter_map(of).collect()
}

/// Finds figures with an interval in a paragraph that are no generated link.
fn untied(paragraph: &str) -> Vec<String> {
    let bare = rewritten(paragraph, &mut |_| "it".into());
    let starts_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let mut found = Vec::new();
    for (at, _) in bare.match_indices(" (").filter(|_| !bare.starts_with('|')) {
        let inside = bare[at + 2..].split(')').next().unwrap_or_default();
        let Some((low, high)) = inside.split_once(" to ") else { continue };
        if starts_with_digit(low) && starts_with_digit(high) {
            found.push(format!(
                "{PAGE}: ({inside}) is tied to no test: write it as a link with a title"
            ));
        }
    }
    found
}

/// Finds what a paragraph leaves out: the newest run beside an older one, a run that contradicts, and that a test is open.
fn one_sided(paragraph: &str, kept: &KeptRuns) -> Vec<String> {
    let cited: Vec<FigureLink<'_>> = links(paragraph).collect();
    let mut findings = Vec::new();
    let mut say = |link: &FigureLink<'_>, what: String| {
        findings.push(format!(
            "{PAGE}: beside {}'s {} ({}): {what}",
            link.study, link.title, link.text
        ));
    };
    for link in &cited {
        let Some((claim, number, _)) = test_of(link.title) else { continue };
        let asked = kept.answers(link.study, claim, number);
        let counted = counted(&asked);
        for one in &counted {
            let is_cited = |other: &FigureLink<'_>| {
                let same = test_of(other.title).is_some_and(|(c, n, _)| (c, n) == (claim, number));
                same && (other.study, other.folder) == (link.study, one.folder)
            };
            if !cited.iter().any(is_cited) {
                say(link, format!("{} has {}", one.folder, words(one.answer).unwrap_or_default()));
            }
        }
        let newest = counted.first().map(|one| one.answer.answer);
        if newest == Some(AnswerKind::Open) && !paragraph.contains("open") {
            say(link, "the newest trusted run leaves it open".into());
        }
        let here = asked.iter().find(|one| one.folder == link.folder);
        if here.is_some_and(|one| !one.is_trusted) && !paragraph.contains("not trusted") {
            say(link, "that run is not trusted".into());
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

#[test]
fn a_figure_is_a_link_whose_title_names_its_test() {
    let page = "TCP took [1.29 times (1.28 to 1.30)](../studies/runs/a/s/README.md \"faster 2\"), and [a run](../studies/runs/a/s/README.md).";
    let found: Vec<FigureLink<'_>> = links(page).collect();
    let link = FigureLink {
        text: "1.29 times (1.28 to 1.30)",
        folder: "a",
        study: "s",
        title: "faster 2",
    };
    assert_eq!(found, [link]);
    assert_eq!(test_of("faster 2"), Some(("faster", 2, None)));
    assert_eq!(test_of("faster 2 2026-11-22-epyc"), Some(("faster", 2, Some("2026-11-22-epyc"))));
    assert_eq!(test_of("faster"), None);
    let new = rewritten(page, &mut |link| format!("<{}>", link.title));
    assert_eq!(new, "TCP took <faster 2>, and [a run](../studies/runs/a/s/README.md).");
}

#[test]
fn a_table_has_a_figure_in_few_words() {
    assert_eq!(brief("1.29 times (1.28 to 1.30)"), "1.29 (1.28–1.30)");
    assert_eq!(brief("67 % (65 to 72 %)"), "67 % (65–72 %)");
    assert_eq!(ratio("tcp (call=4096)", "pipe (call=4096)"), "tcp / pipe (call=4096)");
    assert_eq!(ratio("tcp (call=64KiB)", "tcp (call=4096)"), "tcp (call=64KiB) / tcp (call=4096)");
    assert_eq!(ratio("udp (rate=8mbit)", ""), "udp (rate=8mbit)");
}

#[test]
fn an_interval_has_its_unit_once() {
    assert_eq!(without_unit("65 %", "72 %"), "65");
    assert_eq!(without_unit("900 kbit/s", "1.10 Mbit/s"), "900 kbit/s");
    assert_eq!(without_unit("1.28", "1.30"), "1.28");
}

#[test]
fn a_figure_without_a_test_is_found() {
    assert_eq!(untied("it took 1.292 times (1.283 to 1.304) as long").len(), 1);
    assert_eq!(untied("it took 67 % (65 % to 72 %) of it").len(), 1);
    let tied = "it took [67 % (65 % to 72 %)](../studies/runs/a/s/README.md \"faster 2\") of it";
    assert!(untied(tied).is_empty());
    assert!(untied("from one (1 of 3) to another (see the table)").is_empty());
}
