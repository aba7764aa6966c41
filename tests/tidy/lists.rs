//! A seam is a trait in the parent file, its implementations are sibling files, and one list
//! names them all.

use crate::source::Source;

/// A folder with a list, and its files that are not in it, each for a reason.
pub(crate) struct Folder {
    /// The folder, and the file of it that has the list.
    place: &'static str,
    parent: &'static str,
    /// Traits that give their implementations the seam's trait.
    through: &'static [&'static str],
    helpers: &'static [(&'static str, &'static str)],
}

pub(crate) const FOLDERS: &[Folder] = &[
    Folder {
        place: "crates/transports/src/",
        parent: "lib.rs",
        through: &["Userspace"],
        helpers: &[
            ("pending", "datagram peers that wait to be let in"),
            ("messages", "code that the kernel's protocols with connections and messages share"),
            ("optional", "contenders that a build may leave out"),
            ("stream", "code that byte streams share"),
            ("testing", "connections for the tests of transports"),
        ],
    },
    Folder {
        place: "crates/workloads/src/",
        parent: "lib.rs",
        through: &[],
        helpers: &[
            ("draw", "times and sizes by chance, the same at both ends"),
            ("paced", "messages at times that are fixed at the start"),
            ("silence", "times without an arrival"),
        ],
    },
    Folder {
        place: "crates/far_ends/src/",
        parent: "lib.rs",
        through: &[],
        helpers: &[
            ("around", "a connection with the headers of a far end"),
            ("blocks", "messages that a stream is cut into"),
            ("codec", "messages in the datagrams of a far end"),
            ("exchange", "first bytes of connections, with a deadline"),
            ("readers", "bytes of far ends, for fuzz targets"),
            ("steps", "table of steps, for tests"),
            ("reflected", "messages that a reflector sends back without their content"),
            ("responders", "answers to the clients of other programs"),
        ],
    },
    Folder {
        place: "crates/far_ends/src/responders/",
        parent: "mod.rs",
        through: &[],
        helpers: &[
            ("table", "clients of a responder, bounded in number"),
            ("arrivals", "datagrams that arrive at a responder, answered in bursts"),
            ("loops", "the end of loops of two services"),
            ("testing", "a host of responders in tests"),
        ],
    },
    Folder {
        place: "crates/import/src/",
        parent: "lib.rs",
        through: &[],
        helpers: &[
            ("collection", "from measurements to a result"),
            ("browser", "races that a page in a browser runs"),
            ("echo", "requests and answers of a run"),
            ("foreign_file", "a file of unknown content"),
            ("samples", "samples summed up"),
            ("loose_json", "JSON with the faults that programs make"),
            ("notes", "sentences about oddities and unknowns"),
            ("pairs", "blocks of runs, from their order or from a column"),
            ("rates", "metrics that several formats share"),
            ("stalls", "intervals of a transfer in which nothing moved"),
            ("request", "the options of an import"),
            ("sources", "files of folders, archives and patterns"),
            ("stamp", "times in front of lines"),
            ("summaries", "figures behind names, as data"),
            ("text", "numbers in text of any language"),
            ("duplicates", "the same run twice"),
            ("packings", "packed files"),
            ("unread", "formats that are known and not read"),
        ],
    },
    Folder {
        place: "crates/report/src/",
        parent: "lib.rs",
        through: &[],
        helpers: &[
            ("absence", "contenders without figures, with the reasons"),
            ("advise", "advice on an application"),
            ("against", "the second contender against the first, in sentences"),
            ("answer", "the verdicts in sentences"),
            ("arrived", "integrity of received content"),
            ("boxes", "box plots in text"),
            ("browser", "the answer for a page that ran the race"),
            ("way", "the way to a far end behind a server"),
            ("why", "causes of the verdicts"),
            ("wire", "trains, gaps and acknowledgements at the emulator"),
            ("far_end", "a far end of others"),
            ("commands", "programs of a pair, and what their start costs"),
            ("compare", "two saved races"),
            ("content", "the sections of a report, in order"),
            ("contests", "who shares a bottleneck with whom, and the harm"),
            ("document", "headings, tables and lists"),
            ("evidence", "control, differences, conditions"),
            ("factors", "a race over conditions"),
            ("figure", "drawings with the numbers behind them"),
            ("imported", "the files of a result that was imported"),
            ("history", "the same race over time"),
            ("highs", "the best and the worst over days"),
            ("line", "a surveyed line"),
            ("map", "the leader at each point"),
            ("names", "names of a race and of its contenders"),
            ("needs", "bytes on the wire, memory and allocations"),
            ("network", "a network of hosts, drawn"),
            ("outages", "stretches in which nothing arrived"),
            ("over_time", "trials over time"),
            ("path", "the account of an emulated path"),
            ("plot", "the figures of a result, drawn"),
            ("explain", "the breakdown of time"),
            ("resolution", "the least difference that an answer shows"),
            ("libraries", "on what the implementations of one protocol agree"),
            ("results", "the table of figures"),
            ("scatter", "box plots of the trials"),
            ("standing", "places by the verdicts"),
            ("studies", "the results of several studies"),
            ("study", "a study that was run"),
            ("spark", "a series as a line of bars"),
            ("sweeps", "the knees under rising load"),
            ("theory", "closed forms beside the measurement"),
            ("terminal", "a document as text"),
            ("text", "text on a terminal"),
            ("totals", "sums"),
            ("words", "names for people"),
        ],
    },
];

/// Returns the trait and the entries of `pub const ALL: &[&dyn Trait] = &[&file::Type, …];`, or the type and the entries of
/// `pub const ALL: &[&Type] = &[&file::VALUE, …];`.
fn list(code: &str) -> Option<(String, Vec<(String, String)>)> {
    let start = code.find("pub const ALL: &[&").or_else(|| code.find("pub static ALL: &[&"))?;
    let code = without_attributes(&code[start..]);
    let text = code.split_once("[&")?.1;
    let (name, rest) = text.trim_start_matches("dyn ").split_once(']')?;
    let (_, rest) = rest.split_once("&[")?;
    let (entries, _) = rest.split_once(']')?;
    let entries = entries
        .split(',')
        .map(|entry| entry.trim().trim_start_matches('&'))
        .filter(|entry| !entry.is_empty())
        .map(|entry| {
            let (file, name) = entry.split_once("::").unwrap_or(("", entry));
            (file.to_owned(), name.to_owned())
        })
        .collect();
    Some((name.trim().to_owned(), entries))
}

/// Returns code without its attributes: an entry may be behind a feature.
fn without_attributes(code: &str) -> String {
    let mut pieces = code.split("#[");
    let first = pieces.next().unwrap_or_default();
    let rest = pieces.map(|piece| piece.split_once(']').map_or(piece, |(_, rest)| rest));
    std::iter::once(first).chain(rest).collect()
}

pub(crate) fn check(folder: &Folder, sources: &[Source]) -> Vec<String> {
    let (prefix, list_file) = (folder.place, folder.parent);
    let parent = sources.iter().find(|s| s.path.strip_prefix(prefix) == Some(list_file));
    let Some((name, entries)) = parent.and_then(|parent| list(&parent.code)) else {
        return vec![format!(
            "{prefix}{list_file}: no `pub const ALL: &[&dyn Trait]` or `&[&Type]`"
        )];
    };
    let mut findings = Vec::new();
    let mut listed = Vec::new();
    let mut helpers = Vec::new();
    for source in sources {
        let Some(file) = source.path.strip_prefix(prefix).filter(|f| *f != list_file) else {
            continue;
        };
        let stem = file.trim_end_matches(".rs").split('/').next().unwrap_or(file);
        let types = implementors(&source.code, &name, folder.through);
        if folder.helpers.iter().any(|(helper, _)| *helper == stem) {
            helpers.push(stem);
            continue;
        }
        if types.is_empty() && !file.contains('/') {
            findings.push(format!(
                "{}: implements no {name}; list it or add it to the helpers in tests/tidy/lists.rs",
                source.path
            ));
        }
        for found in types {
            let entry = (stem.to_owned(), found);
            if !entries.contains(&entry) {
                findings.push(format!("{}: {} is not in ALL", source.path, entry.1));
            }
            listed.push(entry);
        }
    }
    findings.extend(entries.iter().filter(|entry| !listed.contains(entry)).map(|(file, name)| {
        format!("ALL names {file}::{name}, which no file of its own implements")
    }));
    findings.extend(
        folder
            .helpers
            .iter()
            .filter(|(helper, _)| !helpers.contains(helper))
            .map(|(helper, _)| format!("{prefix}{helper}.rs is a helper, but not there")),
    );
    findings
}

/// Returns the types that implement a trait, directly or `through` another, and the values of a type.
fn implementors(code: &str, name: &str, through: &[&str]) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let names = [name].into_iter().chain(through.iter().copied());
    let types = names.flat_map(|name| {
        let marker = format!("impl {name} for ");
        let behind: Vec<&str> = code.split(&marker).skip(1).collect();
        behind.into_iter().map(|own| own.split(|c| !is_name(c)).next().unwrap_or_default())
    });
    let marker = format!(": {name} = ");
    let before = code.match_indices(&marker).filter_map(|(at, _)| code[..at].rsplit(' ').next());
    let values = before.filter(|own| code.contains(&format!("static {own}{marker}")));
    types.chain(values).map(str::to_owned).collect()
}

#[cfg(test)]
const SEAM: Folder = Folder {
    place: "src/seam/",
    parent: "mod.rs",
    through: &["Deep"],
    helpers: &[("help", "shared")],
};

#[test]
fn an_implementation_that_is_not_listed_is_found() {
    let parent = "pub const ALL: &[&dyn Seam] = &[\n  &one::One,\n  #[cfg(feature = \"ghost\")]\n  &ghost::Ghost,\n];";
    let sources = [
        Source::new("src/seam/mod.rs", parent),
        Source::new("src/seam/one.rs", "impl Seam for One {}"),
        Source::new("src/seam/two.rs", "impl Deep for Two {}"),
        Source::new("src/seam/stray.rs", "fn f() {}"),
    ];
    let findings = check(&SEAM, &sources);
    assert_eq!(findings.len(), 4, "{findings:#?}");
    assert!(findings[0].contains("stray.rs") || findings[0].contains("two.rs: Two is not in ALL"));
    assert!(findings[2].contains("ghost::Ghost"));
    assert!(findings[3].contains("help.rs is a helper, but not there"));
}

#[test]
fn values_of_a_type_are_listed_as_types_with_a_trait_are() {
    let parent = "pub const ALL: &[&Seam] = &[&one::FIRST, &one::GHOST];";
    let one = "pub static FIRST: Seam = Seam {};\npub static SECOND: Seam = Seam {};";
    let help = Source::new("src/seam/help.rs", "fn f() {}");
    let sources =
        [Source::new("src/seam/mod.rs", parent), Source::new("src/seam/one.rs", one), help];
    let findings = check(&SEAM, &sources);
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert!(findings[0].contains("one.rs: SECOND is not in ALL"), "{findings:#?}");
    assert!(findings[1].contains("one::GHOST"), "{findings:#?}");
}

#[test]
fn a_complete_list_is_fine_and_a_missing_one_is_not() {
    let parent = Source::new("src/seam/mod.rs", "pub const ALL: &[&dyn Seam] = &[&one::One];");
    let one = Source::new("src/seam/one.rs", "impl Seam for One {}");
    let help = Source::new("src/seam/help.rs", "fn f() {}");
    assert!(check(&SEAM, &[parent, one, help]).is_empty());
    assert_eq!(check(&SEAM, &[Source::new("src/seam/mod.rs", "")]).len(), 1);
}
