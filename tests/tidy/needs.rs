//! What `make` installs on a fresh machine: each command has a package there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the commands that the Makefile or a script needs and that no package of Debian is known for.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut files = vec![root.join("Makefile")];
    let scripts = fs::read_dir(root.join("scripts")).unwrap().map(|entry| entry.unwrap().path());
    files
        .extend(scripts.filter(|path| path.extension().is_some_and(|extension| extension == "sh")));
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let needed: BTreeSet<String> = texts.flat_map(|text| needed(&text)).collect();
    assert!(needed.len() > 30, "{needed:?}");
    unknown(root, needed)
}

fn unknown(root: &Path, needed: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut command = Command::new(root.join("scripts/need.sh"));
    let ended = command.arg("--known").args(needed).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Returns the arguments of each call of need.sh; a variable of the Makefile stands for its words.
fn needed(text: &str) -> Vec<String> {
    let variable = |word: &str| {
        let name = word.strip_prefix("$(")?.strip_suffix(')')?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(":= "))
    };
    let calls = text.lines().filter_map(|line| line.trim_start().strip_prefix("scripts/need.sh "));
    let words = calls.flat_map(str::split_whitespace);
    let all = words.flat_map(|word| variable(word).unwrap_or(word).split_whitespace());
    all.filter(|word| !word.contains(['$', '"', '…'])).map(str::to_owned).collect()
}

#[test]
fn a_command_without_a_package_is_found() {
    let text = "ENDS := socat no-such-command\n\tscripts/need.sh cc $(ENDS)\n";
    assert_eq!(needed(text), ["cc", "socat", "no-such-command"]);
    assert_eq!(unknown(crate::root(), needed(text)), ["no-such-command"]);
}
