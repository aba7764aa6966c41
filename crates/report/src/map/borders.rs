//! Changes of the lead: row by row, equal rows together.

use super::sheet::{MapPanel, Sheet, outcome_text};
use deadheat_result::map::file::Map;
use deadheat_result::map::point::MapPoint;

/// Maximum number of lines. With more borders the map itself is easier to read.
const MOST: usize = 24;

/// Returns a line for each group of equal neighbouring rows.
pub(super) fn borders(map: &Map, sheet: &Sheet<'_>) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> =
        sheet.panels.iter().flat_map(|panel| of_panel(map, sheet, panel)).collect();
    if lines.len() > MOST {
        let more = lines.len() - MOST;
        lines.truncate(MOST);
        lines.push((format!("{more} more lines"), "--format markdown has every point".to_owned()));
    }
    lines
}

fn of_panel(map: &Map, sheet: &Sheet<'_>, panel: &MapPanel<'_>) -> Vec<(String, String)> {
    let begun = sheet.rows.iter().zip(&panel.rows);
    let begun = begun.filter(|(_, points)| points.iter().any(Option::is_some));
    let rows: Vec<(&String, String)> =
        begun.map(|(name, points)| (name, of_row(map, sheet, points))).collect();
    let line = |rows: &[(&String, String)]| {
        let (first, text) = rows.first()?;
        let (last, _) = rows.last()?;
        let levels = match rows.len() {
            1 => (*first).clone(),
            _ => format!("{first} to {last}"),
        };
        let row = match sheet.y {
            "" => sheet.x.to_owned(),
            y => format!("{y} {levels}"),
        };
        let comma = if panel.title.is_empty() { "" } else { ", " };
        Some((format!("{}{comma}{row}", panel.title), text.clone()))
    };
    rows.chunk_by(|a, b| a.1 == b.1).filter_map(line).collect()
}

/// Returns the leads of a row: `kcp up to 7.96ms; dead heat of kcp and quic at 13.4ms; quic from 22.4ms`.
fn of_row(map: &Map, sheet: &Sheet<'_>, row: &[Option<&MapPoint>]) -> String {
    let said: Vec<(String, &String)> =
        row.iter().map(|point| outcome_text(map, *point)).zip(sheet.columns).collect();
    let stretches: Vec<&[(String, &String)]> = said.chunk_by(|a, b| a.0 == b.0).collect();
    let last = stretches.len().saturating_sub(1);
    let words = stretches.iter().enumerate().filter_map(|(at, stretch)| {
        let ((what, from), (_, to)) = (stretch.first()?, stretch.last()?);
        Some(match (at, stretch.len()) {
            _ if last == 0 => format!("{what} throughout"),
            (_, 1) => format!("{what} at {from}"),
            (0, _) => format!("{what} up to {to}"),
            (at, _) if at == last => format!("{what} from {from}"),
            _ => format!("{what} {from} to {to}"),
        })
    });
    words.collect::<Vec<_>>().join("; ")
}
