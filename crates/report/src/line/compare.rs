//! Surveys of a line before and after, as a table with a verdict on each figure.

use super::{label, with_interval};
use crate::compare::FORMATS;
use crate::document::{Block, Cell, Column, Document, Line, Section, Table, Tone};
use crate::{Style, markdown, terminal, words};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_result::layout;
use deadheat_result::line::compare::{FigureChange, LineComparison, LineReplicate, SurveyedPair};

/// Renders a comparison of surveys in the form called `format`; with a newline at its end.
///
/// # Errors
/// [`Error::Usage`] for a format that a comparison does not have.
pub fn render(comparison: &LineComparison, format: &str, style: &Style) -> Result<String> {
    match format {
        "terminal" => Ok(terminal::render(&document(comparison), style)),
        "markdown" => Ok(markdown::render(&document(comparison))),
        "json" => layout::text(comparison)
            .map(|text| text + "\n")
            .map_err(|e| Error::data("comparison", e.to_string())),
        other => Err(unknown("format", other, FORMATS)),
    }
}

fn document(comparison: &LineComparison) -> Document {
    let LineComparison { before, after, surveys: [old, new], .. } = comparison;
    let title = if before == after {
        format!("The line to {after}, before and after")
    } else {
        format!("The line to {before}, and the one to {after}")
    };
    let sections = [
        Section::new("", vec![Block::Sentences(answer(comparison))]),
        Section::new("", vec![Block::Table(table(&comparison.figures))]),
    ];
    Document {
        title,
        subtitle: format!("{} before, {new} after", words::count(*old, "survey")),
        sections: sections.into_iter().flatten().collect(),
    }
}

fn answer(comparison: &LineComparison) -> Vec<Line> {
    let of = |change: FigureChange| {
        let figures = comparison.figures.iter().filter(move |pair| pair.change == change);
        figures.map(|pair| label(&pair.after.name)).collect::<Vec<String>>()
    };
    let (changed, unknown) = (of(FigureChange::Changed), of(FigureChange::Unknown));
    let mut lines = vec![if changed.is_empty() {
        Line::new("No figure is shown to have changed.", Tone::Plain)
    } else {
        Line::new(format!("Changed: {}.", changed.join("; ")), Tone::Plain)
    }];
    if !unknown.is_empty() {
        let text = format!(
            "{} of {} figures have too few rounds or surveys to say: six each take a longer --budget.",
            unknown.len(),
            comparison.figures.len()
        );
        lines.push(Line::new(text, Tone::Open));
    }
    if comparison.replicate == LineReplicate::Rounds {
        let text = "A single survey on a side shows its own minutes: what differs may be the time of day. Several on each side \
                    (--every, or more files) tell.";
        lines.push(Line::new(text, Tone::Aside));
    }
    lines
}

fn table(figures: &[SurveyedPair]) -> Table {
    let cells = |of: fn(&SurveyedPair) -> Cell| figures.iter().map(of).collect::<Vec<Cell>>();
    Table {
        columns: vec![
            Column::new("figure", cells(|pair| Cell::text(label(&pair.after.name)))),
            Column::new("before", cells(|pair| with_interval(&pair.before))),
            Column::new("after", cells(|pair| with_interval(&pair.after))),
            Column::new("", cells(|pair| Cell::text(verdict(pair)))),
        ],
        legend: String::new(),
    }
}

fn verdict(pair: &SurveyedPair) -> String {
    match pair.change {
        FigureChange::Changed if pair.before.point > 0.0 => {
            words::change(pair.after.point / pair.before.point)
        }
        FigureChange::Changed => "changed".to_owned(),
        FigureChange::Open => String::new(),
        FigureChange::Unknown => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::{line, survey};
    use deadheat_result::line::compare::compare;

    #[test]
    fn before_and_after_are_a_table_with_what_changed() {
        let mut slower = survey(3_600_000);
        for figure in slower.figures.iter_mut().filter(|one| one.name.starts_with("rtt_idle")) {
            (figure.point, figure.low, figure.high) = (41e6, 40e6, 42e6);
        }
        let found = compare(&[line(vec![survey(0)])], &[line(vec![slower])]).unwrap();
        let text = render(&found, "terminal", &Style::default()).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("Changed: round trip, idle."), "{text}");
        assert!(text.contains("41.0 ms") && text.contains("may be the time of day"), "{text}");
        assert!(text.contains("2.00 times") || text.contains("100 % higher"), "{text}");
        let json = render(&found, "json", &Style::default()).unwrap();
        assert!(json.contains("\"change\": \"changed\""), "{json}");
    }
}
