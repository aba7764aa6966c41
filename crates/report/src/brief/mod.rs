//! First screen: the answer in a sentence per claim, the claimed figures, and one line on whether to
//! trust them. Everything that does not fit on it is one option away.

mod figures;
mod head;
mod trust;

use super::document::{Block, Document, Line, Section, Tone};
use super::{Colour, Style, answer, commands, explain, names, terminal, words};
use deadheat_result::outcome::Outcome;

pub(super) use figures::claimed;
pub use head::place;
pub(super) use head::subtitle;
pub(super) use trust::{lines as trust, losses};

/// Maximum number of lines. With the line that names the saved file they fit on a screen of 25.
const MOST_LINES: usize = 24;

/// Width for which lines are counted. A wider terminal is shown no more, and a narrower one no less.
const WIDTH: usize = 80;

/// Maximum number of each kind of content.
#[derive(Debug, Clone, Copy)]
struct Limits {
    warnings: usize,
    tables: usize,
    rows: usize,
    sentences: usize,
    /// Maximum number of sentences on the breakdown of time.
    explained: usize,
}

/// Limits from the most generous to the strictest. The first that fits is used.
const LIMITS: [Limits; 8] = [
    Limits { warnings: 2, tables: 6, rows: 12, sentences: 12, explained: 4 },
    Limits { warnings: 1, tables: 6, rows: 12, sentences: 12, explained: 4 },
    Limits { warnings: 1, tables: 1, rows: 12, sentences: 12, explained: 4 },
    Limits { warnings: 0, tables: 1, rows: 12, sentences: 12, explained: 4 },
    Limits { warnings: 0, tables: 1, rows: 12, sentences: 12, explained: 1 },
    Limits { warnings: 0, tables: 1, rows: 12, sentences: 12, explained: 0 },
    Limits { warnings: 0, tables: 1, rows: 8, sentences: 4, explained: 0 },
    Limits { warnings: 0, tables: 1, rows: 5, sentences: 2, explained: 0 },
];

/// Renders the first screen as text, with a newline at its end.
pub(super) fn render(outcome: &Outcome, style: &Style) -> String {
    let judged = Style { width: WIDTH, colour: Colour::Never, ..*style };
    let lines = |room: &Limits| {
        terminal::render(&document(outcome, *room, &judged), &judged).lines().count()
    };
    let [rooms @ .., least] = &LIMITS;
    let room = rooms.iter().find(|room| lines(room) <= MOST_LINES).unwrap_or(least);
    terminal::render(&document(outcome, *room, style), style)
}

fn document(outcome: &Outcome, room: Limits, style: &Style) -> Document {
    let tables = figures::tables(outcome, style.width.min(WIDTH));
    let mut cut = CutCounts::default();
    let answer = cut.sentences(outcome, room.sentences);
    let mut shown = Vec::new();
    for table in tables.into_iter() {
        if shown.len() < room.tables {
            shown.push(Block::Table(cut.rows(table, room.rows)));
        } else {
            cut.tables += 1;
        }
    }
    let mut explained = explain::lines(outcome);
    cut.sentences += explained.len().saturating_sub(room.explained);
    explained.truncate(room.explained);
    let sections = [
        Section::new("", vec![Block::Sentences(answer)]),
        Section::new("", shown),
        Section::new("", vec![Block::Sentences(explained)]),
        Section::new("", vec![Block::Sentences(last(outcome, room, &cut))]),
    ];
    Document {
        title: names::title(outcome),
        subtitle: head::subtitle(outcome),
        sections: sections.into_iter().flatten().collect(),
    }
}

/// Counts of content that was cut for lack of room.
#[derive(Debug, Default)]
struct CutCounts {
    sentences: usize,
    tables: usize,
    rows: usize,
}

impl CutCounts {
    /// Returns the sentences of the answer. Doubts about it, and contenders that dropped out, are never cut.
    fn sentences(&mut self, outcome: &Outcome, most: usize) -> Vec<Line> {
        let all = answer::lines(outcome);
        let bad = all.iter().filter(|line| line.tone == Tone::Bad).count();
        let mut room = most.saturating_sub(bad);
        let before = all.len();
        let mut kept = Vec::new();
        for line in all {
            if line.tone == Tone::Bad {
                kept.push(line);
            } else if room > 0 {
                room -= 1;
                kept.push(line);
            }
        }
        self.sentences = before - kept.len();
        kept
    }

    fn rows(&mut self, mut table: super::document::Table, most: usize) -> super::document::Table {
        self.rows = self.rows.max(table.rows().saturating_sub(most));
        table.columns.iter_mut().for_each(|column| column.cells.truncate(most));
        table
    }
}

/// Returns the last lines: trust, warnings, and the commands that show the rest.
fn last(outcome: &Outcome, room: Limits, cut: &CutCounts) -> Vec<Line> {
    let mut lines = commands::lines(outcome);
    lines.extend(trust::lines(outcome));
    let (warnings, others) = trust::warnings(outcome, room.warnings);
    lines.extend(warnings);
    let rest: Vec<String> = [
        (cut.sentences, "more sentence"),
        (cut.tables, "more claimed figure"),
        (cut.rows, if names::vary(outcome) { "more combination" } else { "more contender" }),
        (others, "more note"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, noun)| words::count(n as u64, noun))
    .collect();
    let rest = if rest.is_empty() { "everything".to_owned() } else { words::list(&rest) };
    let text = format!("{rest}: deadheat report FILE --details · as a page: --format html");
    lines.push(Line::new(text, Tone::Aside));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_race::race::testing;
    use deadheat_result::outcome::Status;

    #[test]
    fn who_dropped_out_is_told_with_the_reason_and_never_cut() {
        let mut outcome = testing::outcome(3);
        outcome.status = Status::Interrupted;
        for contender in &mut outcome.contenders[1..] {
            contender.blocked = Some("5 UDP hellos were answered by nobody".into());
        }
        let mut cut = CutCounts::default();
        let kept = cut.sentences(&outcome, 0);
        let texts: Vec<&str> = kept.iter().map(|line| line.text.as_str()).collect();
        let labels = [&outcome.contenders[1].label, &outcome.contenders[2].label];
        let expected = format!(
            "{} and {} blocked: 5 UDP hellos were answered by nobody.",
            labels[0], labels[1]
        );
        assert_eq!(texts, [expected.as_str()]);
        assert!(cut.sentences > 0);
    }

    #[test]
    fn a_reason_of_its_own_has_a_line_of_its_own() {
        let mut outcome = testing::outcome(3);
        outcome.contenders[1].blocked = Some("silence".into());
        outcome.contenders[2].failed = Some("a panic".into());
        let lines = answer::lines(&outcome);
        let bad = lines.iter().filter(|line| line.tone == Tone::Bad);
        let bad: Vec<&str> = bad.map(|line| line.text.as_str()).collect();
        assert_eq!(bad.len(), 2, "{bad:?}");
        assert!(
            bad[0].ends_with("blocked: silence.") && bad[1].ends_with("dropped out: a panic."),
            "{bad:?}"
        );
    }
}
