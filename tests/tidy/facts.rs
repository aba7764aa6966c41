//! Facts that are in more than one file agree.

use std::fs;
use std::path::Path;

pub(crate) fn check(root: &Path) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let manifest = read("Cargo.toml");
    let mut findings = changelog(&manifest, &read("CHANGELOG.md"));
    findings.extend(toolchain(&manifest, "README.md", &read("README.md")));
    findings.extend(
        toolchain(&manifest, "CONTRIBUTING.md", &read("CONTRIBUTING.md"))
            .into_iter()
            .filter(|finding| !finding.ends_with(SAYS_NONE)),
    );
    findings
}

/// Finds paths that docs/install.md or the unit name and that no script of packages lays out, and a unit that runs its program
/// from one folder alone.
pub(crate) fn packages(root: &Path) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let laid_out = read("scripts/dist/tree.sh") + &read("packaging/install/after-install.sh");
    let unit = read("packaging/deadheat.service");
    let install = read("docs/install.md");
    let table = install.lines().filter(|line| line.starts_with("| `/"));
    let in_table = table.filter_map(|line| line.split('`').nth(1));
    let in_unit = unit.lines().filter_map(|line| line.strip_prefix("EnvironmentFile=-"));
    let mut findings = Vec::new();
    for path in in_table.chain(in_unit) {
        if !laid_out.contains(path.trim_start_matches('/')) {
            findings.push(format!("{path}: scripts/dist/tree.sh does not lay it out"));
        }
    }
    if unit.lines().any(|line| line.starts_with("ExecStart=/")) {
        findings.push("packaging/deadheat.service: packages and builds install elsewhere".into());
    }
    findings
}

const SAYS_NONE: &str = "does not say which Rust it needs";

/// Returns a string field of `[package]`.
fn field<'a>(manifest: &'a str, name: &str) -> &'a str {
    manifest
        .lines()
        .filter_map(|line| line.split_once('='))
        .find(|(key, _)| key.trim() == name)
        .map_or("", |(_, value)| value.trim().trim_matches('"'))
}

fn changelog(manifest: &str, changelog: &str) -> Vec<String> {
    let version = field(manifest, "version");
    let heading = format!("## [{version}]");
    if changelog.lines().any(|line| line.starts_with(&heading)) {
        return Vec::new();
    }
    vec![format!("CHANGELOG.md has no `{heading}`, the version in Cargo.toml")]
}

/// Finds each `Rust 1.N` in a text that differs from the manifest, and a text without any.
fn toolchain(manifest: &str, name: &str, text: &str) -> Vec<String> {
    let wanted = field(manifest, "rust-version");
    let said: Vec<String> = text
        .match_indices("Rust 1.")
        .map(|(at, _)| {
            text[at + "Rust ".len()..]
                .chars()
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect::<String>()
                .trim_end_matches('.')
                .to_owned()
        })
        .collect();
    if said.is_empty() {
        return vec![format!("{name} {SAYS_NONE}")];
    }
    said.iter()
        .filter(|version| *version != wanted)
        .map(|version| format!("{name} says Rust {version}, Cargo.toml {wanted}"))
        .collect()
}

#[cfg(test)]
const MANIFEST: &str = "version = \"1.2.3\"\nrust-version = \"1.88\"\n";

#[test]
fn a_forgotten_changelog_is_found() {
    assert!(changelog(MANIFEST, "# Changelog\n## [1.2.3] - unreleased\n").is_empty());
    assert_eq!(changelog(MANIFEST, "## [1.2.2]\n").len(), 1);
}

#[test]
fn another_toolchain_is_found() {
    assert!(toolchain(MANIFEST, "README.md", "needs Rust 1.88.").is_empty());
    let findings = toolchain(MANIFEST, "README.md", "needs Rust 1.80 or later");
    assert_eq!(findings, ["README.md says Rust 1.80, Cargo.toml 1.88"]);
    assert_eq!(toolchain(MANIFEST, "README.md", "").len(), 1);
}
