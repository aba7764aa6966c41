//! The documentation agrees with the program: the reference is generated, commands parse.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use deadheat::Error;
use deadheat::contract::{Congestion, Ending, Framing, Guarantees, Offer, PeerKind, Reach};
use deadheat::path::{PathSpec, grammar, profile};
use deadheat::race::Race;
use deadheat::spec::Key;
use deadheat::transport::{
    self, Contender, Transport, equal, header, label, optional, prefers, several, via,
};
use deadheat::workload::{self, load};

/// Compares the generated parts of the reference; `UPDATE_GOLDEN=1` writes them.
pub(crate) fn reference(root: &Path) {
    let mut parts =
        vec![("transports", transports()), ("workloads", workloads()), ("paths", paths())];
    if is_whole() {
        parts.push(("optional", described(behind_features())));
    }
    if has_those_apart() {
        parts.push(("apart", described(apart())));
    }
    generated(root, "docs/reference.md", &parts);
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
    let mut own =
        String::from("\n| contender | knob | equal | deployed | from |\n|---|---|---|---|---|\n");
    for transport in everywhere() {
        let info = transport.info();
        let said = |value: &str| match value {
            "" => "not set".to_owned(),
            value => format!("`{value}`"),
        };
        for each in transport.info().deployed {
            let key = info.keys.iter().find(|key| key.name == each.knob);
            let equal = said(key.map_or("", |key| key.default));
            let deployed = said(each.value);
            writeln!(
                own,
                "| `{}` | `{}` | {equal} | {deployed} | {} |",
                info.id, each.knob, each.source
            )
            .unwrap();
        }
    }
    let parts = [("equal", rules), ("cannot", cannot), ("deployed", own)];
    generated(root, "docs/methodology.md", &parts);
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

fn described(transports: impl Iterator<Item = &'static dyn Transport>) -> String {
    let mut out = String::new();
    for info in transports.map(|transport| transport.info()) {
        section(&mut out, info.id, info.label, info.summary);
        writeln!(out, "{}\n", promises(&info.guarantees, info.peer, info.reach)).unwrap();
        keys(&mut out, info.keys);
    }
    out
}

fn transports() -> String {
    let mut out = described(everywhere());
    out.push_str("### In between, for any over IP that a process answers\n\n");
    keys(&mut out, via::KEYS);

    out.push_str("### In the header of IP, for any over IP\n\n");
    keys(&mut out, header::KEYS);

    out.push_str("### On which terms, for any\n\n");
    keys(&mut out, equal::KEYS);

    out.push_str("### The service of lanes, for any\n\n");
    keys(&mut out, prefers::KEYS);

    out.push_str("### A name of its own, for any\n\n");
    keys(&mut out, label::KEYS);

    out.push_str("### Made of several\n\n");
    for (form, what) in several::FORMS {
        writeln!(out, "**`{form}`**: {what}.\n").unwrap();
    }
    out.trim_end().to_owned() + "\n"
}

fn workloads() -> String {
    let mut out = String::new();
    for info in workload::ALL.iter().map(|workload| workload.info()) {
        section(&mut out, info.id, info.label, info.summary);
        keys(&mut out, info.keys);
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
    out.push_str("### Profiles\n\n");
    for profile in profile::ALL {
        writeln!(out, "**`{}`**: {}.\n", profile.name, profile.summary).unwrap();
        writeln!(out, "```text\n{}\n```\n", profile.text).unwrap();
        writeln!(out, "{}\n", profile.source).unwrap();
    }
    out.trim_end().to_owned() + "\n"
}

fn section(out: &mut String, id: &str, label: &str, summary: &str) {
    writeln!(out, "### `{id}`: {label}\n\n{summary}\n").unwrap();
}

/// Returns the guarantees in a line of words.
fn promises(guarantees: &Guarantees, peer: PeerKind, reach: Reach) -> String {
    let service = guarantees.service.to_string();
    let mut words = vec![
        service.as_str(),
        match guarantees.framing {
            Framing::ByteStream => "a byte stream",
            Framing::Messages => "messages",
        },
        match guarantees.congestion {
            Congestion::Controlled => "congestion-controlled",
            Congestion::Backpressure => "held back by the receiver's buffer only",
            Congestion::Uncontrolled => "not congestion-controlled",
        },
        if guarantees.encrypted { "encrypted" } else { "not encrypted" },
    ];
    if guarantees.ending == Ending::Silent {
        words.push("no signal at the end of the data");
    }
    match peer {
        PeerKind::Process
        | PeerKind::Echo
        | PeerKind::Sink
        | PeerKind::Meter
        | PeerKind::DuplexMeter
        | PeerKind::Origin
        | PeerKind::Responder
        | PeerKind::Command => {}
        PeerKind::Kernel | PeerKind::Opener => words.push("answered by the far kernel"),
        PeerKind::Group => words.push("one connection for all receivers, which send nothing"),
    }
    match reach {
        Reach::Network => {}
        Reach::OwnPort => words.push("to a server that opens its port (`--also`)"),
        Reach::Path => words.push("not to a server"),
        Reach::Machine => words.push("on one machine only"),
        Reach::Process => words.push("on simulated paths only"),
    }
    let largest = guarantees
        .largest_message
        .map_or(String::new(), |bytes| format!("; messages of at most {bytes} bytes"));
    let others = match offers(guarantees) {
        none if none.is_empty() => none,
        others => format!(" A lane may also be: {others}."),
    };
    let lanes = match guarantees.lanes {
        1 => String::new(),
        most => format!(
            " Up to {most} lanes in a connection, none of which waits for another's losses."
        ),
    };
    format!("Promises: {}{largest}.{lanes}{others}", words.join(", "))
}

/// Returns the other services of a lane, in a line of words.
pub(crate) fn offers(guarantees: &Guarantees) -> String {
    let others: Vec<String> = guarantees.others.iter().map(offer).collect();
    others.join("; ")
}

fn offer(offer: &Offer) -> String {
    let largest = offer.largest_message;
    let largest = largest.map_or(String::new(), |most| format!(" (at most {most} bytes)"));
    format!("{}{largest}", offer.service)
}

fn keys(out: &mut String, keys: &[Key]) {
    if keys.is_empty() {
        out.push_str("No keys.\n\n");
        return;
    }
    out.push_str("| key | values | default | what it does |\n|---|---|---|---|\n");
    for key in keys {
        let values = key.kind.describe().replace('|', "\\|");
        let default = match key.default {
            "" => "not set".to_owned(),
            default => format!("`{default}`"),
        };
        writeln!(out, "| `{}` | {values} | {default} | {} |", key.name, key.doc).unwrap();
    }
    out.push('\n');
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
    assert!(out.ends_with("| `nodelay` | on\\|off | `on` | Sends at once. |\n\n"));
}

#[test]
fn a_command_that_does_not_parse_is_found() {
    let page = "deadheat race nonsense\n```sh\ndeadheat race nonsense --blocks 3 -q -w nothing # why\ndeadheat race CONTENDER...\n```\n";
    let findings = wrong_commands("README.md", page);
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert!(findings[0].starts_with("README.md:3: unknown contender `nonsense`"));
    assert!(findings[1].contains("unknown workload `nothing`"));
}
