//! The documents as a book: every page is in its contents, links lead somewhere, and pages for strangers are short.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

const CONTENTS: &str = "docs/SUMMARY.md";

/// Parts of the book, by how people read.
const PARTS: [&str; 4] = ["# Tutorials", "# How-to", "# Reference", "# Explanation"];

/// Most lines of pages that strangers read first, by the beginning of their path.
const SHORT: [(&str, usize); 2] = [("README.md", 150), ("docs/for-", 80)];

/// Pages outside of docs/ whose links are checked, too.
const BESIDE: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "studies/README.md"];

/// A page with its path from the root of the repository.
struct Page {
    path: String,
    text: String,
}

/// A link of a page.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    line: usize,
    target: String,
}

pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut paths = below(root, "docs");
    paths.extend(BESIDE.map(str::to_owned));
    let read = |path: String| Page { text: fs::read_to_string(root.join(&path)).unwrap(), path };
    let pages: Vec<Page> = paths.into_iter().map(read).collect();
    let mut findings = contents(&pages);
    findings.extend(pages.iter().filter_map(too_long));
    findings.extend(broken(&pages, &|path| root.join(path).exists()));
    findings
}

/// Returns the Markdown files of a folder and of the folders in it.
fn below(root: &Path, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(folder)).unwrap().map(Result::unwrap) {
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(below(root, &path));
        } else if path.ends_with(".md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Finds pages of docs/ that are not in the contents exactly once, and parts that it lacks.
fn contents(pages: &[Page]) -> Vec<String> {
    let Some(summary) = pages.iter().find(|page| page.path == CONTENTS) else {
        return vec![format!("there is no {CONTENTS}")];
    };
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    for link in links(&summary.text) {
        *listed.entry(resolved(CONTENTS, &link.target)).or_default() += 1;
    }
    let mut findings = Vec::new();
    let has = |part: &&&str| summary.text.lines().any(|line| line == **part);
    findings.extend(
        PARTS.iter().filter(|part| !has(part)).map(|part| format!("{CONTENTS} lacks {part}")),
    );
    for page in pages.iter().filter(|page| page.path.starts_with("docs/") && page.path != CONTENTS)
    {
        match listed.get(&page.path) {
            Some(1) => {}
            Some(times) => findings.push(format!("{CONTENTS} has {} {times} times", page.path)),
            None => findings.push(format!("{} is not in {CONTENTS}: add a line for it", page.path)),
        }
    }
    findings
}

fn too_long(page: &Page) -> Option<String> {
    let (_, most) = SHORT.iter().find(|(start, _)| page.path.starts_with(start))?;
    let lines = page.text.lines().count();
    (lines > *most).then(|| format!("{}: {lines} lines, at most {most}", page.path))
}

/// Finds links to files that are not there, and to headings that a page does not have.
fn broken(pages: &[Page], exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&str, Vec<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut findings = Vec::new();
    for page in pages {
        for Link { line, target } in links(&page.text) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { page.path.clone() } else { resolved(&page.path, file) };
            let lacks_anchor = || match anchors.get(file.as_str()) {
                Some(known) => !anchor.is_empty() && !known.iter().any(|one| one == anchor),
                None => false,
            };
            if !exists(&file) {
                findings.push(format!("{}:{line}: there is no {target}", page.path));
            } else if lacks_anchor() {
                findings.push(format!("{}:{line}: no heading is {target}", page.path));
            }
        }
    }
    findings
}

/// Returns the path of a link's file from the root of the repository.
fn resolved(page: &str, file: &str) -> String {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in folder.join(file).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.display().to_string()
}

/// Returns lines of Markdown that are in no fenced block, with their numbers from 1 on.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fence && !is_fenced).then_some((at + 1, line))
    })
}

/// Returns the links within the repository.
fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        // Code between backticks has no links.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        // A title may follow.
        let targets = targets.map(|(target, _)| target.split(" \"").next().unwrap_or(target));
        let inside = targets.filter(|target| !target.contains(':'));
        links.extend(inside.map(|target| Link { line: number, target: target.to_owned() }));
    }
    links
}

/// Returns the anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    let mut anchors: Vec<String> = Vec::new();
    for (_, heading) in headings {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let anchor: String = heading.chars().filter(kept).collect::<String>().replace(' ', "-");
        let same = anchors.iter().filter(|one| **one == anchor).count();
        anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
    }
    anchors
}

#[cfg(test)]
fn page(path: &str, text: &str) -> Page {
    Page { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn a_page_that_is_not_in_the_contents_is_found() {
    let summary = format!("{}\n- [A](a.md)\n- [B](b/c.md)\n- [B](b/c.md)\n", PARTS[..3].join("\n"));
    let pages = ["docs/a.md", "docs/b/c.md", "docs/d.md"].map(|path| page(path, ""));
    let pages: Vec<Page> = pages.into_iter().chain([page(CONTENTS, &summary)]).collect();
    assert_eq!(
        contents(&pages),
        [
            "docs/SUMMARY.md lacks # Explanation",
            "docs/SUMMARY.md has docs/b/c.md 2 times",
            "docs/d.md is not in docs/SUMMARY.md: add a line for it",
        ]
    );
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let text = "# A b: `--c`\n[x](../README.md#one) [y](#a-b---c)\n[z](#nothing), `[code](no.md)`\n```\n[n](no.md)\n```\n\
        [far](https://x.test/) [gone](w/gone.md)\n";
    let pages = [page("docs/a.md", text), page("README.md", "# One\n")];
    let exists = |path: &str| pages.iter().any(|page| page.path == path);
    assert_eq!(
        broken(&pages, &exists),
        ["docs/a.md:3: no heading is #nothing", "docs/a.md:7: there is no w/gone.md"]
    );
}

#[test]
fn a_long_page_for_strangers_is_found() {
    let long = page("docs/for-x.md", &"x\n".repeat(81));
    assert_eq!(too_long(&long).unwrap(), "docs/for-x.md: 81 lines, at most 80");
    assert_eq!(too_long(&page("docs/map.md", &"x\n".repeat(999))), None);
}
