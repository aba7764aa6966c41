//! The action for continuous integration: what a stranger types never becomes text of a shell.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns what is wrong with the action: text of a shell with an input in it, inputs that nobody uses, and scripts that are not
/// there.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join("action.yml")).unwrap();
    let is_script = |script: &str| root.join(script).is_file();
    faults(&text, &is_script)
}

fn faults(text: &str, is_script: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let (mut declared, mut used) = (BTreeSet::new(), BTreeSet::new());
    let mut is_inputs = false;
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        let is_top = line.starts_with(|c: char| c.is_ascii_lowercase());
        is_inputs = if is_top { line == "inputs:" } else { is_inputs };
        let key = line.strip_prefix("  ").and_then(|own| own.strip_suffix(':'));
        if let Some(key) = key.filter(|key| is_inputs && !key.starts_with(' ')) {
            declared.insert(key.to_owned());
        }
        let inputs = line.split("inputs.").skip(1);
        used.extend(inputs.map(|rest| rest.split(' ').next().unwrap_or_default().to_owned()));
        if let Some(run) = line.trim_start_matches([' ', '-']).strip_prefix("run: ") {
            if run.contains("${{") {
                found.push(format!("action.yml:{number}: an input is part of a shell's text"));
            }
            let script =
                run.split_once("/scripts/").map(|(_, rest)| rest.trim_end_matches(['"', '\'']));
            if !script.is_some_and(|script| is_script(&format!("scripts/{script}"))) {
                found.push(format!("action.yml:{number}: it runs no script of scripts/"));
            }
        }
    }
    let odd: Vec<&String> = declared.symmetric_difference(&used).collect();
    if !odd.is_empty() {
        found.push(format!("action.yml: inputs that are declared or used alone: {odd:?}"));
    }
    found
}

#[test]
fn faults_of_an_action_are_found() {
    let text = "inputs:\n  pair:\n    required: true\n  spare:\n    default: ''\nruns:\n  steps:\n    - env:\n        \
                PAIR: ${{ inputs.pair }}\n      run: echo ${{ inputs.pair }}\n    - run: '\"$A/scripts/a.sh\"'\n";
    let found = faults(text, &|script| script == "scripts/a.sh");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("action.yml:10: an input is part"), "{found:?}");
    assert!(found[2].contains("[\"spare\"]"), "{found:?}");
}
