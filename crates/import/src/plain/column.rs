//! Columns of a table: their separator, columns that count rows, and the command that leaves one.

/// Words in the names of columns that people measure, those looked for first.
const MEASURED: &str =
    "goodput throughput bandwidth bitrate download rate speed rtt latency ping delay time duration";

/// Number of rows by which a column is known that counts them.
pub(super) const COUNTED: usize = 3;

/// Separator of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnSeparator {
    Character(char),
    Spaces,
}

impl ColumnSeparator {
    /// Returns the cells of a line.
    pub(super) fn cells(self, line: &str) -> Vec<&str> {
        match self {
            ColumnSeparator::Character(c) => {
                line.split(c).map(|cell| cell.trim().trim_matches('"').trim()).collect()
            }
            ColumnSeparator::Spaces => line.split_whitespace().collect(),
        }
    }

    /// Returns a command that leaves the column at this place, from 0.
    pub(super) fn cut(self, at: usize) -> String {
        let number = at + 1;
        match self {
            ColumnSeparator::Character(',') => format!("cut -d, -f{number}"),
            ColumnSeparator::Character(';') => format!("cut -d';' -f{number}"),
            ColumnSeparator::Character(_) => format!("cut -f{number}"),
            ColumnSeparator::Spaces => format!("awk '{{print ${number}}}'"),
        }
    }
}

/// Returns the sentence about several columns of numbers, with a command that leaves the most likely one.
pub(super) fn several(values: &[usize], names: &[&str], by: ColumnSeparator) -> String {
    let named: Vec<&str> = values.iter().map(|at| names[*at]).collect();
    let has = |at: &usize, word: &str| names[*at].to_lowercase().contains(word);
    let measured = |word: &str| values.iter().copied().find(|at| has(at, word));
    let at = MEASURED.split(' ').find_map(measured).unwrap_or(values[0]);
    format!(
        "several columns of numbers ({}); leave one of them, such as {} ({})",
        named.join(", "),
        names[at],
        by.cut(at)
    )
}

/// Returns true if the numbers of a column follow each other by 1.
pub(super) fn counts_rows(rows: &[Vec<&str>], at: usize) -> bool {
    let numbers: Option<Vec<i64>> = rows.iter().map(|row| row.get(at)?.parse().ok()).collect();
    let is_next = |pair: &[i64]| pair[0].checked_add(1) == Some(pair[1]);
    numbers.is_some_and(|numbers| numbers.len() >= COUNTED && numbers.windows(2).all(is_next))
}
