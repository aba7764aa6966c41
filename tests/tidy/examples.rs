//! Documents that show an example's code have the code that runs.

use std::fs;
use std::path::Path;

use crate::docs;

/// Words of lines of the example's `main` that the page leaves out: its workload and report, and the count of allocations.
const BESIDE: [&str; 5] = ["knock", "line", "Alloc", "alloc", "//!"];

/// Most lines of the page's `main`.
const LONGEST_MAIN: usize = 10;

/// Compares the code in the page on transports of one's own with the example's; `UPDATE_GOLDEN=1` writes it.
pub(crate) fn own_transport(root: &Path) {
    let source =
        |file: &str| fs::read_to_string(root.join("examples/stranger/src").join(file)).unwrap();
    let main = shortened(&source("main.rs"));
    assert!(main.lines().count() <= LONGEST_MAIN, "a main of ten lines is promised:\n{main}");
    let fenced = |code: &str| format!("```rust\n{}\n```\n", code.trim_end());
    let parts = [("main", fenced(&main)), ("twice", fenced(&source("twice.rs")))];
    docs::generated(root, "docs/own-transport.md", &parts);
}

/// Returns a `main` without the lines of [`BESIDE`], and without empty lines at its start or behind one another.
fn shortened(main: &str) -> String {
    let mut short = String::new();
    for line in main.lines().filter(|line| !BESIDE.iter().any(|word| line.contains(word))) {
        if !line.is_empty() || !(short.is_empty() || short.ends_with("\n\n")) {
            short.push_str(line);
            short.push('\n');
        }
    }
    short
}

#[test]
fn a_main_is_shortened_to_its_transport() {
    let main = "//! About.\n\nuse std::a;\n\nmod knock;\nmod twice;\n\n/// Counts the Allocations.\n\nfn main() {\n}\n";
    assert_eq!(shortened(main), "use std::a;\n\nmod twice;\n\nfn main() {\n}\n");
}
