//! The rules of the house, as tests. Each rule is a function from sources to findings, and has
//! a test of its own, which shows that it finds something in a small bad input.
#![allow(clippy::unwrap_used, reason = "a test may end where it finds the unexpected")]

mod action;
mod answer;
mod book;
mod docs;
mod examples;
mod facts;
#[path = "../common/handed_in.rs"]
mod handed_in;
mod idioms;
mod layers;
mod lists;
mod names;
mod needs;
mod promises;
mod seeds;
mod sizes;
mod source;
mod types;
mod walks;
mod words;

use std::path::Path;

use source::Source;

fn hold(rule: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the program and the crates that it is made of.
fn members() -> Vec<Source> {
    let mut sources = Source::read_all(root(), &["src", "crates"]);
    // A crate's own tests are no part of the program.
    sources.retain(|source| {
        let mut parts = source.path.split('/').skip(2);
        source.path.starts_with("src/")
            || parts.next() == Some("src") && parts.next() != Some("tests")
    });
    sources
}

fn everything() -> Vec<Source> {
    Source::read_all(root(), &["src", "crates", "tests", "benches", "fuzz/fuzz_targets"])
}

#[test]
fn imports_point_left() {
    hold("imports point left only", layers::imports(&members()));
}

#[test]
fn statistics_models_and_workloads_see_no_socket_and_no_clock() {
    hold("no socket, no clock", layers::absences(&members()));
}

#[test]
fn every_implementation_is_listed() {
    for folder in lists::FOLDERS {
        hold("one explicit list", lists::check(folder, &members()));
    }
}

#[test]
fn each_command_that_is_needed_has_a_package() {
    hold(
        "scripts/need.sh knows a package of each command that it is asked for",
        needs::check(root()),
    );
}

#[test]
fn nobody_names_a_transport_or_workload_but_itself() {
    hold("ask for a guarantee, never for a name", names::check(&members()));
}

#[test]
fn files_and_functions_have_room() {
    let sources = Source::read_all(root(), &["src", "crates", "benches"]);
    hold("a file is one idea", sizes::check(&sources));
}

#[test]
fn doc_comments_are_plain() {
    let sources = Source::read_all(root(), &["src", "crates", "examples"]);
    hold("a doc comment names its subject", idioms::check(&sources));
}

#[test]
fn types_have_names_of_their_own() {
    hold("a name is of one type in a crate", types::check(&members()));
}

#[test]
fn only_the_edges_print() {
    hold("only cli, report and main print", words::prints(&members()));
}

#[test]
fn nothing_is_put_off() {
    hold("nothing is put off", words::put_off(&everything()));
}

#[test]
fn the_reference_is_what_the_program_knows() {
    docs::reference(root());
    docs::imports(root());
    docs::terms(root());
}

#[test]
fn the_table_of_contenders_is_what_the_program_knows() {
    promises::check(root());
}

#[test]
fn exit_codes_in_the_documentation_are_those_of_the_program() {
    docs::exit_codes(root());
    hold("an exit code has one meaning", docs::wrong_exit_codes(root()));
}

#[test]
fn samples_say_what_default_builds_leave_out() {
    hold("samples of default builds", docs::left_out_in_samples(root()));
}

#[test]
fn packages_install_what_the_documentation_names() {
    hold("paths of packages", facts::packages(root()));
}

#[test]
fn commands_in_the_documentation_parse() {
    hold("commands in the documentation parse", docs::commands(root()));
}

#[test]
fn every_page_is_in_the_book_and_its_links_lead_somewhere() {
    hold("the book", book::check(root()));
}

#[test]
fn the_answer_to_the_articles_is_what_the_kept_runs_say() {
    let kept = answer::KeptRuns::read(root());
    hold("figures are those of all runs", answer::figures::check(root(), &kept));
    let mut tables = answer::tables(&kept);
    tables.push(("figures", answer::figures::all_runs(root(), &kept)));
    docs::generated(root(), "docs/answer.md", &tables);
    let count = ("count", format!("{}\n", answer::count(&kept)));
    docs::generated(root(), "studies/runs/README.md", &[count]);
    hold("pictures are drawn from the runs", answer::pictures(root()));
}

#[test]
fn files_and_functions_in_the_documentation_are_there() {
    hold("files and functions that documents name", walks::check(root()));
}

#[test]
fn facts_stand_once() {
    hold("version and toolchain agree", facts::check(root()));
}

#[test]
fn the_fuzzers_seeds_are_understood() {
    hold("seeds are understood", seeds::check(root()));
}

#[test]
fn the_page_on_transports_of_ones_own_has_the_code_of_the_example() {
    examples::own_transport(root());
}

#[test]
fn the_action_runs_scripts_and_puts_no_input_into_a_shell() {
    hold("action.yml", action::check(root()));
}
