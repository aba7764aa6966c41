//! The documentation agrees with the program: the reference is generated, commands parse.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use deadheat::Error;
use deadheat::cli::exit;
use deadheat::contract::{Guarantees, Offer};
use deadheat::label;
use deadheat::path::{PathSpec, grammar, profile};
use deadheat::race::Race;
use deadheat::spec::Key;
use deadheat::transport::{
    self, Contender, Transport, equal, header, optional, prefers, several, via,
};
use deadheat::workload::{self, load};

/// Compares the generated parts of the reference; `UPDATE_GOLDEN=1` writes them.
pub(crate) fn reference(root: &Path) {
    let mut before = Described::new();
    let mut parts = vec![
        ("transports", transports(&mut before)),
        ("workloads", workloads()),
        ("paths", paths()),
    ];
    if is_whole() {
        parts.push(("optional", described(behind_features(), &mut before)));
    }
    if has_those_apart() {
        parts.push(("apart", described(apart(), &mut before)));
    }
    generated(root, "docs/reference.md", &parts);
}

/// Compares the tables of formats that `import` knows; `UPDATE_GOLDEN=1` writes them.
pub(crate) fn imports(root: &Path) {
    let mut summaries = "| format | what is read | what it becomes | what can no longer be known |\n|---|---|---|---|\n".to_owned();
    for (format, becomes, lacks) in deadheat::import::described() {
        let (id, read) = (format.id(), format.summary());
        let becomes = by_quantity(&becomes);
        writeln!(summaries, "| `{id}` | {read} | {becomes} | {lacks} |").unwrap();
    }
    let mut unread = String::new();
    for format in deadheat::import::unread::UNREAD.iter() {
        write!(unread, "- {}: {}.", format.name, format.why).unwrap();
        if !format.figures.is_empty() {
            write!(unread, " *Imported*: {}.", format.figures).unwrap();
        }
        unread.push('\n');
    }
    generated(root, "docs/import.md", &[("summaries", summaries), ("unread", unread)]);
}

/// Returns a list of figures with the name of each quantity once: `request mean, p50, lost`.
fn by_quantity(figures: &str) -> String {
    const STATISTICS: &[&str] = &["mean", "min", "p50", "p90", "p99", "p99.9"];
    let mut out = String::new();
    let mut before = None;
    for figure in figures.split(", ") {
        let quantity = figure.rsplit_once(' ').filter(|(_, word)| STATISTICS.contains(word));
        let comma = if out.is_empty() { "" } else { ", " };
        match quantity {
            Some((name, statistic)) if before == Some(name) => {
                write!(out, "{comma}{statistic}").unwrap();
            }
            _ => write!(out, "{comma}{figure}").unwrap(),
        }
        before = quantity.map(|(name, _)| name);
    }
    out
}

#[test]
fn a_quantity_of_several_figures_is_named_once() {
    let list = "transactions/s, request mean, request p50, connect p50, lost";
    assert_eq!(by_quantity(list), "transactions/s, request mean, p50, connect p50, lost");
}

/// Returns true if this build has all contenders of `all-contenders`. Only such a build compares the text generated of
/// contenders behind features; the rest is the same in each.
pub(crate) fn is_whole() -> bool {
    optional::left_out().all(|one| one.takes.is_some())
}

/// Returns true if this build has all contenders that `all-contenders` leaves out.
pub(crate) fn has_those_apart() -> bool {
    optional::left_out().all(|one| one.takes.is_none())
}

/// Returns the transports that `all-contenders` leaves out.
pub(crate) fn apart() -> impl Iterator<Item = &'static dyn Transport> {
    transport::ALL.iter().copied().filter(|transport| optional::is_apart(transport.info().id))
}

/// Returns the transports that each build has.
pub(crate) fn everywhere() -> impl Iterator<Item = &'static dyn Transport> {
    let all = transport::ALL.iter().copied();
    all.filter(|transport| !optional::is_one(transport.info().id))
}

/// Returns the transports behind features that `all-contenders` has.
pub(crate) fn behind_features() -> impl Iterator<Item = &'static dyn Transport> {
    let optional = |id| optional::is_one(id) && !optional::is_apart(id);
    transport::ALL.iter().copied().filter(move |transport| optional(transport.info().id))
}

/// Compares the methodology's tables of equal terms; `UPDATE_GOLDEN=1` writes them.
pub(crate) fn terms(root: &Path) {
    let mut rules =
        String::from("\n| condition | knob | for every contender | why |\n|---|---|---|---|\n");
    for rule in equal::RULES {
        let knob = if rule.knob.is_empty() { "–".to_owned() } else { format!("`{}`", rule.knob) };
        writeln!(rules, "| {} | {knob} | {} | {} |", rule.what, rule.value, rule.why).unwrap();
    }
    let mut cannot = String::from("\n| cannot be equal | why |\n|---|---|\n");
    for unequal in equal::CANNOT {
        writeln!(cannot, "| {} | {} |", unequal.what, unequal.why).unwrap();
    }
    let parts = [("equal", rules), ("cannot", cannot), ("deployed", deployed())];
    generated(root, "docs/methodology.md", &parts);
}

/// Returns the table of defaults that implementations have by themselves; contenders with the same row share it.
fn deployed() -> String {
    let said = |value: &str| match value {
        "" => "not set".to_owned(),
        value => format!("`{value}`"),
    };
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for info in everywhere().map(|transport| transport.info()) {
        for each in info.deployed {
            let key = info.keys.iter().find(|key| key.name == each.knob);
            let equal = said(key.map_or("", |key| key.default));
            let own = said(each.value);
            let row = format!("`{}` | {equal} | {own} | {}", each.knob, each.source);
            let contender = format!("`{}`", info.id);
            match rows.iter_mut().find(|(known, _)| *known == row) {
                Some((_, contenders)) => contenders.push(contender),
                None => rows.push((row, vec![contender])),
            }
        }
    }
    let mut table =
        String::from("\n| contender | knob | equal | deployed | from |\n|---|---|---|---|---|\n");
    for (row, contenders) in rows {
        writeln!(table, "| {} | {row} |", contenders.join(", ")).unwrap();
    }
    table
}

/// Compares the generated parts of a page, each by its name; `UPDATE_GOLDEN=1` writes them.
pub(crate) fn generated(root: &Path, page: &str, parts: &[(&str, String)]) {
    let path = root.join(page);
    let text = fs::read_to_string(&path).unwrap();
    let put = |text: String, (name, body): &(&str, String)| between(page, &text, name, body);
    let wanted = parts.iter().try_fold(text.clone(), put).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &wanted).unwrap();
        return;
    }
    let differs = text.lines().zip(wanted.lines()).position(|(a, b)| a != b);
    assert!(
        text == wanted,
        "{page} is not what the program knows, from line {}; UPDATE_GOLDEN=1 cargo test --test tidy writes it",
        differs.unwrap_or(text.lines().count().min(wanted.lines().count())) + 1
    );
}

/// Returns the text of a page with `body` between the markers of that name.
fn between(page: &str, text: &str, name: &str, body: &str) -> Result<String, String> {
    let open = format!("<!-- generated: {name} -->\n");
    let close = format!("<!-- end: {name} -->");
    let missing = || format!("{page} lacks the markers of `{name}`");
    let start = text.find(&open).ok_or_else(missing)? + open.len();
    let end = start + text[start..].find(&close).ok_or_else(missing)?;
    Ok(format!("{}\n{body}\n{}", &text[..start], &text[end..]))
}

/// Rows of keys that the page has already, each with the transport or workload that it stands under.
type Described = BTreeMap<String, &'static str>;

fn described(
    transports: impl Iterator<Item = &'static dyn Transport>,
    before: &mut Described,
) -> String {
    let mut out = String::new();
    for info in transports.map(|transport| transport.info()) {
        section(&mut out, info.id, info.label, info.summary);
        new_keys(&mut out, info.id, info.keys, before);
    }
    out
}

/// Writes the keys of a section. A key that is the same to the letter as one of a section before is only named, with that
/// section.
fn new_keys(out: &mut String, id: &'static str, keys: &[Key], before: &mut Described) {
    let (shared, own): (Vec<&Key>, Vec<&Key>) =
        keys.iter().partition(|key| before.contains_key(&row(key)));
    if !own.is_empty() || shared.is_empty() {
        table(out, &own);
    }
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for key in shared {
        groups.entry(before[&row(key)]).or_default().push(format!("`{}`", key.name));
    }
    for (from, names) in groups {
        writeln!(out, "As `{from}`: {}.\n", names.join(", ")).unwrap();
    }
    before.extend(own.into_iter().map(|key| (row(key), id)));
}

fn transports(before: &mut Described) -> String {
    let mut out = described(everywhere(), before);
    out.push_str("### In between, for any over IP that a process answers\n\n");
    keys(&mut out, via::KEYS);

    out.push_str("### In the header of IP, for any over IP\n\n");
    keys(&mut out, header::KEYS);

    out.push_str("### For any\n\n");
    keys(&mut out, &[equal::KEYS, prefers::KEYS, label::KEYS].concat());

    out.push_str("### Made of several\n\n");
    for (form, what) in several::FORMS {
        writeln!(out, "**`{form}`**: {what}.\n").unwrap();
    }
    out.trim_end().to_owned() + "\n"
}

fn workloads() -> String {
    let mut out = String::new();
    let mut before = Described::new();
    for info in workload::ALL.iter().map(|workload| workload.info()) {
        section(&mut out, info.id, info.label, info.summary);
        new_keys(&mut out, info.id, info.keys, &mut before);
    }
    out.push_str("### A load beside any of them\n\n");
    keys(&mut out, load::KEYS);
    out.trim_end().to_owned() + "\n"
}

fn paths() -> String {
    let mut out = String::from("### Keys of a link\n\n");
    keys(&mut out, grammar::LINK);
    out.push_str("### Keys of the whole path\n\n");
    keys(&mut out, grammar::WHOLE);
    out.push_str("### Short forms\n\n| form | values | what it is |\n|---|---|---|\n");
    for form in grammar::FORMS {
        let key = &form.keys[0];
        let values = key.kind.describe();
        let (name, default, doc) = (form.name, key.default, form.doc.replace('|', "\\|"));
        writeln!(out, "| `{name}:{}={default}` | {values} | {doc} |", key.name).unwrap();
    }
    out.push_str("\n### Profiles\n\n");
    for profile in profile::ALL {
        writeln!(out, "**`{}`**: {}.\n", profile.name, profile.summary).unwrap();
        writeln!(out, "```text\n{}\n```\n", profile.text.replace(" + ", " +\n")).unwrap();
        writeln!(out, "{}\n", profile.source).unwrap();
    }
    out.trim_end().to_owned() + "\n"
}

fn section(out: &mut String, id: &str, label: &str, summary: &str) {
    writeln!(out, "### `{id}`: {label}\n\n{summary}\n").unwrap();
}

/// Returns the other services of a lane, in a line of words. A largest message that all of them have stands once.
pub(crate) fn offers(guarantees: &Guarantees) -> String {
    let others: Vec<&Offer> = guarantees.others.iter().collect();
    let largest = others.first().and_then(|offer| offer.largest_message);
    let is_shared = others.len() > 1 && others.iter().all(|offer| offer.largest_message == largest);
    let Some(most) = largest.filter(|_| is_shared) else {
        return others.into_iter().map(offer).collect::<Vec<String>>().join("; ");
    };
    let services: Vec<String> = others.iter().map(|offer| offer.service.to_string()).collect();
    format!("{} (each at most {most} bytes)", services.join("; "))
}

fn offer(offer: &Offer) -> String {
    let largest = offer.largest_message;
    let largest = largest.map_or(String::new(), |most| format!(" (at most {most} bytes)"));
    format!("{}{largest}", offer.service)
}

fn keys(out: &mut String, keys: &[Key]) {
    table(out, &keys.iter().collect::<Vec<_>>());
}

fn table(out: &mut String, keys: &[&Key]) {
    if keys.is_empty() {
        out.push_str("No keys.\n\n");
        return;
    }
    out.push_str("| key | values | what it does |\n|---|---|---|\n");
    for key in keys {
        out.push_str(&row(key));
    }
    out.push('\n');
}

/// Returns the row of a key, which begins with the key and its default as they are typed: `nodelay=on`.
fn row(key: &Key) -> String {
    let values = key.kind.describe().replace('|', "\\|");
    let typed = match key.default {
        "" => key.name.to_owned(),
        default => format!("{}={default}", key.name),
    };
    format!("| `{typed}` | {values} | {} |\n", key.doc)
}

/// Finds each `deadheat race …` in a fenced block of README and docs that names contenders or workloads
/// that do not exist.
pub(crate) fn commands(root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    for path in pages(root) {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        findings.extend(wrong_commands(&name, &text));
    }
    findings
}

fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)).into();
    pages.extend(fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    pages.retain(|path| path.extension().is_some_and(|ext| ext == "md") && path.exists());
    pages.sort();
    pages
}

fn wrong_commands(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let command = line.split_once("deadheat race ").filter(|_| fenced);
        let Some((_, arguments)) = command else {
            continue;
        };
        for wrong in wrong_arguments(arguments) {
            findings.push(format!("{name}:{}: {wrong}", i + 1));
        }
    }
    findings
}

/// Options that take no value.
const SWITCHES: &[&str] = &[
    "-q",
    "-4",
    "-6",
    "--quiet",
    "--explain",
    "--as-deployed",
    "--help",
    "--quick",
    "--samples",
    "--force",
    "--details",
    "--decided",
    "-J",
    "--json",
    "--live",
    "--plain",
];

/// Stands for any file that a path names.
fn example(_: &str) -> deadheat::Result<Vec<u8>> {
    Ok(b"1\n2\n".to_vec())
}

fn wrong_arguments(arguments: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut words = arguments.split_whitespace().take_while(|word| {
        !matches!(*word, "|" | "||" | "&&" | ">" | ";" | "&" | "\\") && !word.starts_with('#')
    });
    while let Some(word) = words.next() {
        let placeholder = |word: &str| {
            word.starts_with('[') || word.chars().all(|c| c.is_uppercase() || c == '.' || c == '…')
        };
        match word {
            "--path" => {
                let value = words.next().unwrap_or("");
                // A file that it names need not exist.
                if !placeholder(value) {
                    wrong.extend(
                        PathSpec::parse_with(value, &mut example).err().map(|e| e.to_string()),
                    );
                }
            }
            "-w" | "--workload" => {
                let value = words.next().unwrap_or("");
                // A file that it names need not exist; a race reads a range of rates.
                let race = Race::new(["tcp"]).workload(value);
                let read = |value: &str| {
                    if value.contains("..") {
                        race.check().map(drop)
                    } else {
                        workload::parse(value).map(drop)
                    }
                };
                if !placeholder(value) {
                    wrong.extend(read(value).err().map(|e| e.to_string()));
                }
            }
            _ if placeholder(word) => break,
            _ if SWITCHES.contains(&word) || word.contains("=") && word.starts_with("--") => {}
            _ if word.starts_with('-') => {
                words.next();
            }
            _ => {
                let read = Contender::parse(word.trim_matches('\'')).err();
                // Another build has contenders that this one leaves out.
                let wrong_here = read.filter(|error| !matches!(error, Error::Unsupported { .. }));
                wrong.extend(wrong_here.map(|error| error.to_string()));
            }
        }
    }
    wrong
}

#[test]
fn a_stale_reference_is_rewritten_between_its_markers_only() {
    let text = "a\n<!-- generated: x -->\nold\n<!-- end: x -->\nb\n";
    let new = between("p", text, "x", "new\n").unwrap();
    assert_eq!(new, "a\n<!-- generated: x -->\n\nnew\n\n<!-- end: x -->\nb\n");
    assert_eq!(between("p", &new, "x", "new\n").unwrap(), new);
    assert!(between("p", text, "y", "").is_err());
}

#[test]
fn keys_become_a_table() {
    const KEYS: &[Key] = &[Key {
        name: "nodelay",
        kind: deadheat::spec::Kind::Switch,
        default: "on",
        doc: "Sends at once.",
    }];
    let mut out = String::new();
    keys(&mut out, KEYS);
    assert!(out.ends_with("| `nodelay=on` | on\\|off | Sends at once. |\n\n"));
}

#[test]
fn a_command_that_does_not_parse_is_found() {
    let page = "deadheat race nonsense\n```sh\ndeadheat race nonsense --blocks 3 -q -w nothing # why\ndeadheat race CONTENDER...\n```\n";
    let findings = wrong_commands("README.md", page);
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert!(findings[0].starts_with("README.md:3: unknown contender `nonsense`"));
    assert!(findings[1].contains("unknown workload `nothing`"));
}

/// Compares the table of exit codes; `UPDATE_GOLDEN=1` writes it.
pub(crate) fn exit_codes(root: &Path) {
    let mut table = String::from("\n| exit code | meaning |\n|---|---|\n");
    for (code, meaning) in exit::CODES {
        writeln!(table, "| {code} | {meaning} |").unwrap();
    }
    generated(root, "docs/every-day.md", &[("exit codes", table)]);
}

/// Finds sentences that give an exit code a meaning that is another's.
pub(crate) fn wrong_exit_codes(root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    for path in pages(root) {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        findings.extend(text.split("\n\n").flat_map(|part| misplaced_codes(&name, part)));
    }
    findings
}

/// What a clause says where it is about an exit code, with that code.
const SAYINGS: &[(&str, u8)] = &[
    ("worse", 5),
    ("undecided", 4),
    ("not trusted", 3),
    ("not to be trusted", 3),
    ("usage", 2),
    ("command line is wrong", 2),
];

fn misplaced_codes(name: &str, paragraph: &str) -> Vec<String> {
    let lines: Vec<&str> = paragraph.lines().filter(|line| !line.starts_with('|')).collect();
    let text = lines.join(" ");
    let about = |sentence: &&str| {
        ["xit code", "xits with ", "xit with "].iter().any(|words| sentence.contains(words))
    };
    let mut findings = Vec::new();
    for clause in text.split(". ").filter(about).flat_map(|sentence| sentence.split([',', ';'])) {
        let words = clause.split(|c: char| !c.is_alphanumeric());
        let codes: Vec<u8> =
            words.filter_map(|word| word.parse().ok()).filter(|code| *code < 6).collect();
        let said = SAYINGS.iter().filter(|(words, _)| clause.contains(words));
        for (words, code) in said.filter(|(_, code)| !codes.is_empty() && !codes.contains(code)) {
            findings
                .push(format!("{name}: `{words}` is exit code {code}, not {codes:?}: {clause}"));
        }
    }
    findings
}

#[test]
fn an_exit_code_with_the_meaning_of_another_is_found() {
    let wrong = |text: &str| misplaced_codes("x.md", text).len();
    assert_eq!(
        wrong(
            "Exit codes: 0 ran, 1 failed, 3 ran and is not\ntrusted (with `--gate`: something got worse)."
        ),
        1
    );
    assert_eq!(wrong("`--gate` exits with 4 if a contender got worse."), 1);
    assert_eq!(wrong("It exits with 5 if a contender got worse. 3 of 4 races got worse."), 0);
    assert_eq!(wrong("The job fails where the head is worse (exit code 5) or not trusted (3)."), 0);
}

/// Finds samples with contenders that a build may leave out, on pages that do not say so.
pub(crate) fn left_out_in_samples(root: &Path) -> Vec<String> {
    let said = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let found = left_out_in(&text).filter(|_| !text.contains("feature"))?;
        let name = path.strip_prefix(root).unwrap().display().to_string();
        Some(format!("{name}: `{found}` is in no default build, which the page does not say"))
    };
    pages(root).into_iter().filter_map(said).collect()
}

/// Returns the first contender in a fenced block that a build may leave out.
fn left_out_in(text: &str) -> Option<&str> {
    let fenced = text.split("```").skip(1).step_by(2);
    let is_part = |c: char| c.is_alphanumeric() || c == '-';
    let mut words = fenced.flat_map(|block| block.split(move |c| !is_part(c)));
    words.find(|word| optional::is_one(word))
}

#[test]
fn a_sample_with_a_contender_of_a_feature_is_found() {
    assert_eq!(left_out_in("renet\n```sh\ndeadheat race tcp renet:tick=5ms\n```\n"), Some("renet"));
    assert_eq!(left_out_in("renet\n```sh\ndeadheat race tcp quic\n```\nrenet"), None);
}
