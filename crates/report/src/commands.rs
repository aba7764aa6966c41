//! Commands as contenders: their programs with digests, builds that are the same file, and what a start costs.

use super::document::{Block, Line, Section, Tone};
use super::words;
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::Unit;
use deadheat_path::PathKind;
use deadheat_records::commands::ProgramCopy;
use deadheat_result::outcome::{Entrant, EntrantCommands, Outcome};

/// Hexadecimal digits of a digest that lines show.
const DIGITS: usize = 12;

/// Returns what a reader has to know at once: builds that are the same, programs that ran where they lie, and what a start costs.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let mut all = same_builds(outcome);
    all.extend(uncopied(outcome));
    let starts: Vec<String> = pairs(outcome).filter_map(start).collect();
    if !starts.is_empty() {
        let text = format!("to start, connect, move one byte and end takes: {}", starts.join(", "));
        all.push(Line::new(text, Tone::Plain));
    }
    all
}

/// Returns what the start of a pair takes: its name, the median, and the least and the greatest time.
fn start((entrant, commands): (&Entrant, &EntrantCommands)) -> Option<String> {
    let shown = |ns: u64| words::figure(ns as f64, Unit::Nanos);
    let median = shown(commands.start_ns?);
    let range = commands.start_range_ns.map(|[least, most]| {
        let (least, most) = (shown(least), shown(most));
        // Figures of one unit name it once.
        match (least.split_once(' '), most.split_once(' ')) {
            (Some((least, unit)), Some((_, same))) if unit == same => {
                format!(" ({least} to {most})")
            }
            _ => format!(" ({least} to {most})"),
        }
    });
    Some(format!("{} {median}{}", entrant.label, range.unwrap_or_default()))
}

/// Returns the section with all files.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let mut all = lines(outcome);
    for (entrant, commands) in pairs(outcome) {
        let of = |key: &str| entrant.asked.get(key).map_or("", String::as_str);
        let text =
            format!("{}: client `{}`, server `{}`", entrant.label, of("client"), of("server"));
        all.push(Line::new(text, Tone::Plain));
        let mut shown = Vec::new();
        for file in &commands.files {
            let digest = file.sha256.get(..DIGITS).unwrap_or(&file.sha256);
            let is_there = file.side == Side::Far && outcome.path.kind == PathKind::Remote;
            let at = if is_there { " at the far host" } else { "" };
            let state = file.copy.map_or_else(String::new, |copy| format!("; {}", state(copy)));
            let text = format!(
                "{}{at}: {}, {} bytes, SHA-256 {digest}…{state}",
                entrant.label, file.path, file.bytes
            );
            if !shown.contains(&text) {
                shown.push(text);
            }
        }
        all.extend(shown.into_iter().map(|text| Line::new(text, Tone::Aside)));
    }
    Section::new("Commands", vec![Block::Sentences(all)])
}

fn pairs(outcome: &Outcome) -> impl Iterator<Item = (&Entrant, &EntrantCommands)> {
    outcome.contenders.iter().filter_map(|entrant| Some((entrant, entrant.commands.as_deref()?)))
}

/// Returns a line for each two contenders whose files have the same content: builds under other names, or one program twice with
/// the same arguments.
fn same_builds(outcome: &Outcome) -> Vec<Line> {
    let all: Vec<_> = pairs(outcome).collect();
    let twos = all
        .iter()
        .enumerate()
        .flat_map(|(at, one)| all[at + 1..].iter().map(move |other| (one, other)));
    let same = twos.filter(|((_, ours), (_, theirs))| {
        digests(ours) == digests(theirs) && !ours.files.is_empty()
    });
    same.filter_map(|((one, ours), (other, theirs))| {
        let paths = |commands: &EntrantCommands| -> Vec<String> {
            commands.files.iter().map(|file| file.path.clone()).collect()
        };
        let differs = |of: fn(&Entrant, &str) -> String| {
            ["client", "server"].into_iter().any(|end| of(one, end) != of(other, end))
        };
        let (a, b) = (&one.label, &other.label);
        let text = if differs(program) || paths(ours) != paths(theirs) {
            format!("{a} and {b} are the same build: all their files have the same SHA-256")
        } else if !differs(command) {
            format!(
                "{a} and {b} are one program with the same arguments: what they differ by is chance and this host, and no \
                 difference between programs"
            )
        } else {
            return None;
        };
        Some(Line::new(text, Tone::Bad))
    })
    .collect()
}

/// Returns a line for each of several contenders of commands with a program that could not be copied, unless all run that file:
/// its place is a part of the difference, and the control does not show it.
fn uncopied(outcome: &Outcome) -> Vec<Line> {
    let is_hindered = |copy: ProgramCopy| match copy {
        ProgramCopy::Beside
        | ProgramCopy::Environment
        | ProgramCopy::Large
        | ProgramCopy::Rights
        | ProgramCopy::Unreadable
        | ProgramCopy::Unrunnable => true,
        ProgramCopy::Made | ProgramCopy::Script | ProgramCopy::Off | ProgramCopy::Other => false,
    };
    let is_run_by_all = |path: &str| {
        pairs(outcome).all(|(_, commands)| commands.files.iter().any(|file| file.path == path))
    };
    let found = pairs(outcome).filter_map(|(entrant, commands)| {
        let copies = commands.files.iter().filter_map(|file| Some((file, file.copy?)));
        let mut hindered = copies.into_iter().filter(|(_, copy)| is_hindered(*copy));
        let (file, copy) = hindered.find(|(file, _)| !is_run_by_all(&file.path))?;
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let text = format!(
            "{} ran {name} where it lies ({}): a file's place in the page cache is part of its speed, and the control shows nothing of it",
            entrant.label,
            state(copy)
        );
        Some(Line::new(text, Tone::Bad))
    });
    match pairs(outcome).count() {
        0 | 1 => Vec::new(),
        _ => found.collect(),
    }
}

/// Returns the state of a program in words.
fn state(copy: ProgramCopy) -> &'static str {
    match copy {
        ProgramCopy::Made => "a copy ran",
        ProgramCopy::Script => {
            "no copy, as a script may look for files beside itself; copy = \"all\""
        }
        ProgramCopy::Beside => "no copy, as it looks for libraries beside itself; copy = \"all\"",
        ProgramCopy::Environment => {
            "no copy, as it finds its virtual environment of Python by its own path"
        }
        ProgramCopy::Large => "no copy, as it has more than 256 MB",
        ProgramCopy::Rights => "no copy, as it would lose the rights of the file",
        ProgramCopy::Unreadable => "no copy, as this user may not read it",
        ProgramCopy::Unrunnable => "no copy, as no program may run from the folder TMPDIR",
        ProgramCopy::Off => "no copy, as its file says copy = \"none\"",
        ProgramCopy::Other => "no copy",
    }
}

fn digests(commands: &EntrantCommands) -> Vec<&str> {
    commands.files.iter().map(|file| file.sha256.as_str()).collect()
}

/// Returns the program of a command, with the variables filled in.
fn program(entrant: &Entrant, end: &str) -> String {
    let typed = entrant.asked.get(end).map_or("", String::as_str);
    filled(entrant, typed.split_whitespace().next().unwrap_or_default())
}

/// Returns a whole command, likewise.
fn command(entrant: &Entrant, end: &str) -> String {
    filled(entrant, entrant.asked.get(end).map_or("", String::as_str))
}

fn filled(entrant: &Entrant, typed: &str) -> String {
    let variables =
        entrant.asked.iter().filter_map(|(key, value)| Some((key.strip_prefix("set.")?, value)));
    variables
        .fold(typed.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use deadheat_race::race::testing;
    use deadheat_records::commands::ProgramFile;

    fn with(outcome: &mut Outcome, at: usize, bin: &str, sha256: &str) {
        let entrant = &mut outcome.contenders[at];
        entrant.label = format!("pair bin={bin}");
        let asked = [("client", "{bin} -c"), ("server", "{bin} -s"), ("set.bin", bin)];
        entrant.asked =
            BTreeMap::from(asked.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let file = ProgramFile {
            side: Side::Near,
            path: bin.to_owned(),
            bytes: 7,
            sha256: sha256.repeat(64),
            copy: Some(ProgramCopy::Made),
        };
        entrant.commands = Some(Box::new(EntrantCommands {
            files: vec![file],
            start_ns: Some(2_500_000),
            start_range_ns: Some([2_100_000, 4_000_000]),
        }));
    }

    fn shown(outcome: &Outcome) -> String {
        lines(outcome).into_iter().map(|line| line.text + "\n").collect()
    }

    #[test]
    fn two_builds_that_are_one_file_are_named_and_a_start_has_its_cost() {
        let mut outcome = testing::outcome(3);
        assert_eq!(shown(&outcome), "");
        with(&mut outcome, 0, "old", "a");
        with(&mut outcome, 1, "new", "b");
        let said = shown(&outcome);
        assert!(!said.contains("same build"), "{said}");
        assert!(
            said.contains("pair bin=old 2.50 ms (2.10 to 4.00 ms), pair bin=new 2.50 ms ("),
            "{said}"
        );
        with(&mut outcome, 1, "new", "a");
        let said = shown(&outcome);
        assert!(said.contains("pair bin=old and pair bin=new are the same build"), "{said}");
        let commands = outcome.contenders[1].commands.as_mut().unwrap();
        commands.files[0].copy = Some(ProgramCopy::Beside);
        let said = shown(&outcome);
        assert!(
            said.contains("pair bin=new ran new where it lies (no copy, as it looks for"),
            "{said}"
        );
        // The place of a file that both run is no part of their difference.
        let commands = outcome.contenders[0].commands.clone();
        outcome.contenders[1].commands.clone_from(&commands);
        for entrant in &mut outcome.contenders[..2] {
            entrant.commands.as_mut().unwrap().files[0].copy = Some(ProgramCopy::Environment);
        }
        assert!(!shown(&outcome).contains("where it lies"), "{}", shown(&outcome));
        let same = outcome.contenders[0].clone();
        outcome.contenders[1].asked.clone_from(&same.asked);
        outcome.contenders[1].commands = same.commands;
        let said = shown(&outcome);
        assert!(said.contains("are one program with the same arguments"), "{said}");
        // The same program with another option is another contender.
        outcome.contenders[1].asked.insert("client".into(), "{bin} -c -x".into());
        let said = shown(&outcome);
        assert!(!said.contains("same build") && !said.contains("one program"), "{said}");
    }
}
