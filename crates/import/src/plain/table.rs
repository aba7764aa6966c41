//! Lines of numbers: one a line, or a table with a heading, of which one column is read, and one may have times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::foreign_file::ForeignFile;
use super::super::pairs::RowColumns;
use super::super::stamp;
use super::super::text::is_among;
use super::super::unit::{self, Scale};
use super::column::{COUNTED, ColumnSeparator, counts_rows, several};
use deadheat_contract::measurements::Unit;

/// Marks in place of a number that is missing.
const LOST: &[&str] =
    &["*", "-", "--", "nan", "na", "n/a", "null", "none", "timeout", "timed out", "lost", "loss"];

/// Names of columns that count rows.
const COUNTERS: &str = "# no nr n seq icmp_seq index id sample run trial packet";

/// Names of columns with the time of a row.
const CLOCKS: &str = "time timestamp date datetime clock when t at elapsed seconds ts";

/// Reason why a comma is not read where its meaning is not clear.
const COMMA: &str = "a comma may separate two columns, or be that of decimals; write a point, or `;` between columns, or \
                     names above them";

/// Layout of a file of numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TableLayout {
    separator: Option<ColumnSeparator>,
    has_heading: bool,
    /// Column of the numbers, and of their times.
    value: usize,
    clock: Option<usize>,
    /// Unit in the heading.
    scale: Option<Scale>,
    /// Unit of times in the heading; seconds by default.
    clock_scale: Option<Scale>,
    /// Columns with the names of the block and of the contender of a row.
    block: Option<usize>,
    contender: Option<usize>,
    /// Reason why no column can be chosen.
    unclear: Option<String>,
}

impl TableLayout {
    /// Returns the layout of a file with this beginning; `None` if it has no numbers.
    pub(super) fn of(head: &str) -> Option<TableLayout> {
        let mut lines = head.lines().map(content).filter(|line| !line.is_empty());
        let first = lines.next()?;
        let rows: Vec<&str> = lines.take(COUNTED).collect();
        let second = rows.first().copied();
        let separator = separator(first, second);
        let cells = |line| separator.map_or_else(|| vec![line], |by| by.cells(line));
        if separator.is_none() && is_decimal_comma(first) {
            return Some(TableLayout { unclear: Some(COMMA.to_owned()), ..TableLayout::default() });
        }
        if is_row(&cells(first), separator) {
            return Some(TableLayout::bare(separator, &cells(first)));
        }
        let (names, row) = (cells(first), cells(second?));
        let is_heading = names.len() == row.len() && is_row(&row, separator) && is_names(&names);
        let rows: Vec<Vec<&str>> = rows.into_iter().map(cells).collect();
        is_heading.then(|| TableLayout::headed(separator, &names, &rows, &[]))
    }

    /// Returns the layout of a table in which these columns name the block and the contender of each row.
    ///
    /// # Errors
    /// If there are no names above the columns, or none of them is such a name.
    pub(super) fn with_columns(head: &str, columns: &RowColumns) -> Result<TableLayout, String> {
        let mut lines = head.lines().map(content).filter(|line| !line.is_empty());
        let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let is_spaced = || {
            let words = |line: &str| line.split_whitespace().count();
            words(first) > 1 && words(first) == words(second)
        };
        let separator = separator(first, Some(second))
            .or_else(|| is_spaced().then_some(ColumnSeparator::Spaces))
            .ok_or("it has one column, and --block and --contender name columns of a table")?;
        let (names, row) = (separator.cells(first), separator.cells(second));
        if names.len() != row.len() || !is_names(&names) {
            return Err(
                "--block and --contender name columns, and there are no names above the columns of this file".to_owned(),
            );
        }
        let find = |wanted: &Option<String>| {
            let Some(wanted) = wanted else { return Ok(None) };
            let is_own = |name: &str| name.eq_ignore_ascii_case(wanted);
            match names.iter().position(|name| is_own(name)) {
                Some(at) => Ok(Some(at)),
                None => Err(format!(
                    "no column is called `{}`; its columns are {}",
                    short(wanted),
                    names.join(", ")
                )),
            }
        };
        let (block, contender) = (find(&columns.block)?, find(&columns.contender)?);
        let taken: Vec<usize> = [block, contender].into_iter().flatten().collect();
        let layout = TableLayout::headed(Some(separator), &names, &[row], &taken);
        if taken.contains(&layout.value) {
            return Err(
                "there is no column of numbers beside those of --block and --contender".to_owned()
            );
        }
        Ok(TableLayout { block, contender, ..layout })
    }

    /// Returns the layout without a heading: of two columns the first has the times.
    fn bare(separator: Option<ColumnSeparator>, row: &[&str]) -> TableLayout {
        let columns = row.len();
        let (value, clock) = if columns == 2 { (1, Some(0)) } else { (0, None) };
        let unclear = separator.filter(|_| columns > 2).map(|by| {
            // The first one may count rows.
            let at = (1..columns).find(|at| is_number(row[*at], separator)).unwrap_or(0);
            format!("{columns} columns without names; leave one of them ({})", by.cut(at))
        });
        TableLayout { separator, value, clock, unclear, ..TableLayout::default() }
    }

    /// Returns the layout by the names of columns; those `taken` have no numbers to read.
    fn headed(
        separator: Option<ColumnSeparator>,
        names: &[&str],
        rows: &[Vec<&str>],
        taken: &[usize],
    ) -> TableLayout {
        let plain: Vec<String> = names.iter().map(|name| name_of(name)).collect();
        let is = |at: usize, list: &str| is_among(&plain[at], list);
        let free = || (0..names.len()).filter(|at| !taken.contains(at));
        let clock = free().find(|at| is(*at, CLOCKS) && names.len() > 1);
        let is_number = |at: &usize| rows.first().is_some_and(|row| is_number(row[*at], separator));
        let is_counter = |at: &usize| {
            is(*at, COUNTERS) || unit_in(names[*at]).is_none() && counts_rows(rows, *at)
        };
        let values: Vec<usize> =
            free().filter(|at| !is_counter(at) && Some(*at) != clock).filter(is_number).collect();
        let counter = free().filter(is_number).find(is_counter).filter(|_| names.len() > 1);
        let unclear = match (&values[..], clock, counter) {
            ([], None, Some(counter)) => Some(format!(
                "its only column of numbers, {}, counts rows: nothing in it is measured",
                names[counter]
            )),
            ([_, _, ..], ..) => separator.map(|by| several(&values, names, by)),
            _ => None,
        };
        let (value, clock) = match values[..] {
            // A counter and a time: the time was measured.
            [] => (clock.unwrap_or(0), None),
            [first, ..] => (first, clock),
        };
        TableLayout {
            separator,
            has_heading: true,
            value,
            clock,
            scale: unit_in(names[value]),
            clock_scale: clock
                .and_then(|at| unit_in(names[at]))
                .filter(|scale| scale.unit == Unit::Nanos),
            unclear,
            ..TableLayout::default()
        }
    }
}

/// Returns a line without its comment and surrounding space.
fn content(line: &str) -> &str {
    line.split_once('#').map_or(line, |(before, _)| before).trim()
}

/// Returns the separator of columns, if there are several. A comma between digits may be that of decimals, unless a
/// heading, a point or a third column says otherwise.
fn separator(first: &str, second: Option<&str>) -> Option<ColumnSeparator> {
    let row = second.unwrap_or(first);
    for c in [';', '\t'] {
        if first.contains(c) || row.contains(c) {
            return Some(ColumnSeparator::Character(c));
        }
    }
    let is_value = |cell: &str| is_lost(cell) || cell.parse::<f64>().is_ok();
    let is_number = |word: &str| is_value(word) || is_decimal_comma(word);
    if row.split_whitespace().count() > 1 && row.split_whitespace().all(is_number) {
        return Some(ColumnSeparator::Spaces);
    }
    // Below one name a comma separates nothing.
    if second.is_some() && !first.contains(',') && is_names(&[first]) && is_decimal_comma(row) {
        return Some(ColumnSeparator::Character(';'));
    }
    let cells: Vec<&str> = row.split(',').map(str::trim).collect();
    let is_heading = first.contains(',') && is_names(&first.split(',').collect::<Vec<_>>());
    let is_clear =
        cells.len() > 2 || cells.iter().any(|cell| cell.contains('.') || !is_value(cell));
    (cells.len() > 1 && (is_heading || is_clear)).then_some(ColumnSeparator::Character(','))
}

/// Returns true for `12,5`.
fn is_decimal_comma(word: &str) -> bool {
    word.split_once(',').is_some_and(|(whole, decimals)| {
        let is_decimals = !decimals.is_empty() && decimals.bytes().all(|b| b.is_ascii_digit());
        is_decimals && !whole.is_empty() && whole.parse::<f64>().is_ok()
    })
}

fn is_lost(cell: &str) -> bool {
    cell.is_empty() || LOST.contains(&cell.to_ascii_lowercase().as_str())
}

/// Returns true if the cells are a row of numbers, with times or other words beside them.
fn is_row(cells: &[&str], separator: Option<ColumnSeparator>) -> bool {
    let numbers = cells.iter().filter(|cell| is_number(cell, separator)).count();
    let times = cells.iter().filter(|cell| stamp::split(cell).0.is_some()).count();
    numbers > 0 && (cells.len() == 1 || numbers + times > 1)
}

/// Returns true for a number, with its unit or without, and for a mark in place of one.
fn is_number(cell: &str, separator: Option<ColumnSeparator>) -> bool {
    let is_mark = is_lost(cell) && !cell.is_empty();
    is_mark || plain_number(cell, separator).is_some() || split(cell).is_some()
}

/// Returns true if the cells are names of columns.
fn is_names(cells: &[&str]) -> bool {
    cells.iter().all(|cell| {
        let cell = cell.trim().trim_matches('"');
        cell == "#" || cell.len() <= 60 && cell.starts_with(char::is_alphabetic)
    })
}

/// Returns the name of a column without its unit: `rtt (ms)` and `rtt_ms` are `rtt`.
fn name_of(heading: &str) -> String {
    let lower = heading.trim().to_lowercase();
    let name = lower.split(['(', '[']).next().unwrap_or_default().trim();
    match name.rsplit_once(['_', ' ', '.']) {
        Some((before, last)) if Scale::named(last).is_some() => before.to_owned(),
        _ => name.to_owned(),
    }
}

/// Returns the unit in a heading: `rtt (ms)`, `rtt [ms]`, `rtt_ms`, `Mbps`.
fn unit_in(heading: &str) -> Option<Scale> {
    let inside = heading.split(['(', '[']).nth(1).and_then(|rest| rest.split([')', ']']).next());
    let last = heading.rsplit(['_', ' ', '.']).next();
    [inside, last].into_iter().flatten().find_map(|unit| {
        // Single letters stand for many things.
        let is_letter = inside.is_none() && matches!(unit.trim(), "s" | "m" | "h");
        Scale::named(unit.trim()).filter(|_| !is_letter || heading.contains('_'))
    })
}

/// Numbers of a file, in order.
pub(super) struct Numbers {
    /// Nanoseconds or bits in a second; `None` where one is missing.
    pub values: Vec<Option<u64>>,
    /// Times of the numbers, in seconds; empty if there are none.
    pub at_s: Vec<f64>,
    /// Blocks and contenders of the numbers; empty if no column names them.
    pub blocks: Vec<String>,
    pub contenders: Vec<String>,
    pub scale: Scale,
}

impl Numbers {
    /// Reads all lines.
    ///
    /// # Errors
    /// The line that is no number, with the reason; or why no column can be chosen.
    pub(super) fn read(
        file: &mut ForeignFile,
        layout: &TableLayout,
        given: Option<Scale>,
    ) -> Result<Numbers, String> {
        if let Some(unclear) = &layout.unclear {
            return Err(unclear.clone());
        }
        let mut common: Option<Scale> = None;
        let (mut values, mut at_s) = (Vec::new(), Vec::new());
        let (mut blocks, mut contenders) = (Vec::new(), Vec::new());
        let (mut number, mut is_heading) = (0, layout.has_heading);
        while let Some(line) = file.next_line()? {
            number += 1;
            let line = content(line);
            if line.is_empty() || std::mem::take(&mut is_heading) {
                continue;
            }
            let wrong = |what: String| format!("line {number}: {what}");
            let cells = layout.cells(line);
            let cell = cells.get(layout.value).copied().unwrap_or_default();
            let mut value = None;
            if !is_lost(cell) {
                let given = layout.scale.or(given);
                let (number, scale) = number_of(cell, given, layout.separator).map_err(wrong)?;
                common_of(&mut common, scale).map_err(wrong)?;
                value = Some(number);
            }
            if let Some(clock) = layout.clock {
                let cell = cells.get(clock).copied().unwrap_or_default();
                at_s.push(layout.time(cell, at_s.last().copied()).map_err(wrong)?);
            }
            for (column, names) in
                [(layout.block, &mut blocks), (layout.contender, &mut contenders)]
            {
                if let Some(column) = column {
                    names.push(name_in(&cells, column).map_err(wrong)?);
                }
            }
            values.push(value);
        }
        let scale = common.ok_or("there is no number in it, only comments and blank lines")?;
        Ok(Numbers { values, at_s, blocks, contenders, scale })
    }

    /// Returns the time of the first number, if the times count from 1970.
    pub(super) fn began(&self) -> Option<SystemTime> {
        let first = self.at_s.first().filter(|at| **at > 1e9)?;
        UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(*first).ok()?)
    }

    /// Returns the time of a number in milliseconds after 1970; 0 if it is not known.
    pub(super) fn started_ms(&self, at: usize) -> u64 {
        self.at_s.get(at).filter(|at| **at > 1e9).map_or(0, |at| (at * 1e3) as u64)
    }
}

fn common_of(common: &mut Option<Scale>, scale: Scale) -> Result<(), String> {
    match common {
        None => *common = Some(scale),
        Some(common) if common.unit == scale.unit => {}
        Some(common) => {
            return Err(format!(
                "{} after {}; a time and a rate cannot be put together",
                scale.name, common.name
            ));
        }
    }
    Ok(())
}

/// Returns the name in a column of a row.
fn name_in(cells: &[&str], column: usize) -> Result<String, String> {
    let empty =
        || format!("column {} is empty, and it names the row's block or contender", column + 1);
    let cell = cells.get(column).filter(|cell| !cell.is_empty());
    cell.map(|name| deadheat_base::foreign::short(name)).ok_or_else(empty)
}

impl TableLayout {
    /// Returns the cells of a line.
    fn cells<'a>(&self, line: &'a str) -> Vec<&'a str> {
        self.separator.map_or_else(|| vec![line], |by| by.cells(line))
    }

    /// Parses the time of a row, which is no earlier than the one before unless a heading names it.
    fn time(&self, cell: &str, before: Option<f64>) -> Result<f64, String> {
        let number = plain_number(cell, self.separator)
            .map(|value| value * self.clock_scale.map_or(1.0, |scale| scale.factor / 1e9));
        let stamped = || stamp::split(cell).0.map(|stamp| stamp.seconds);
        let at = number.filter(|at| at.is_finite()).or_else(stamped);
        let at = at.ok_or_else(|| format!("`{}` is not a time", short(cell)))?;
        let falls = before.is_some_and(|before| at < before);
        if falls && !self.has_heading {
            return Err(format!(
                "`{}` is before the time of the line before: the first of two columns without names is read as \
                 times; leave one column ({})",
                short(cell),
                self.separator.map_or_else(String::new, |by| by.cut(self.value))
            ));
        }
        Ok(at)
    }
}

/// Parses a number without a unit. Where columns have another separator than a comma, a comma is that of decimals.
fn plain_number(cell: &str, separator: Option<ColumnSeparator>) -> Option<f64> {
    let may_have_comma = separator.is_some_and(|by| by != ColumnSeparator::Character(','));
    if may_have_comma && is_decimal_comma(&cell.replace('.', "")) {
        return cell.replace('.', "").replace(',', ".").parse().ok();
    }
    cell.parse().ok()
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Parses a number with its unit, or in the given one.
fn number_of(
    cell: &str,
    given: Option<Scale>,
    separator: Option<ColumnSeparator>,
) -> Result<(u64, Scale), String> {
    let quoted = || format!("`{}`", short(cell));
    let bare = plain_number(cell, separator).map(|value| (value, ""));
    let (value, behind) = bare.or_else(|| split(cell)).ok_or_else(|| {
        let mut words = cell.split([',', ';', '\t', ' ']).filter(|word| !word.is_empty());
        if words.clone().count() > 1 && words.all(|word| word.parse::<f64>().is_ok()) {
            format!(
                "{} has more than one number, or a comma as decimal point; one number a line, with a \
                 point, or a table with names above its columns",
                quoted()
            )
        } else {
            format!("{} is not a number", quoted())
        }
    })?;
    let scale = match (behind, given) {
        ("", None) => {
            return Err(format!(
                "{} has no unit; say --unit with one of {}",
                quoted(),
                unit::list()
            ));
        }
        ("", Some(given)) => given,
        (name, _) => Scale::named(name).ok_or_else(|| {
            format!("{} has the unit `{name}`, which is none of {}", quoted(), unit::list())
        })?,
    };
    let value = scale.whole(value).map_err(|why| format!("{}: {why}", quoted()))?;
    Ok((value, scale))
}

/// Splits a text into its number and the unit behind it.
fn split(line: &str) -> Option<(f64, &str)> {
    if let Ok(value) = line.parse::<f64>() {
        return Some((value, ""));
    }
    let end = line.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c)))?;
    let behind = line[end..].trim_start();
    // The rest must be a unit: letters only.
    let is_unit = behind.chars().all(|c| c.is_alphabetic() || c == '/');
    is_unit.then_some(())?;
    Some((line[..end].parse().ok()?, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_units() {
        let ms = Scale::named("ms");
        let read = |line| number_of(line, ms, None).map(|(value, _)| value);
        assert_eq!(read("12.3"), Ok(12_300_000));
        assert_eq!(read("12.3 us"), Ok(12_300));
        assert_eq!(read("1e3ns"), Ok(1_000));
        assert_eq!(number_of("1.5 Gbit/s", None, None).map(|(value, _)| value), Ok(1_500_000_000));
        for (line, want) in [
            ("abc", "`abc` is not a number"),
            ("1,5", "comma as decimal point"),
            ("1 2 3", "more than one number"),
            ("12 furlongs", "the unit `furlongs`"),
            ("-3", "negative"),
            ("inf", "too large"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(want), "{line}: {said}");
        }
        assert!(number_of("3", None, None).unwrap_err().contains("no unit; say --unit"));
        let semicolon = Some(ColumnSeparator::Character(';'));
        assert_eq!(number_of("1.234,5", ms, semicolon).map(|(ns, _)| ns), Ok(1_234_500_000));
    }

    #[test]
    fn only_numbers_look_like_numbers() {
        for good in [
            "# made by me\n\n12\n",
            "\r\n1.5 ms\r\n",
            "inf\n",
            "*\n12\n",
            "0.0\t1.35\n1.0\t1.1\n",
            "rtt_ms\n12.3\n",
            "time;rtt (ms)\n0,5;12,3\n",
            "date,rtt\n2024-06-26 13:09:01,12.3\n",
        ] {
            assert!(TableLayout::of(good).is_some(), "{good:?}");
        }
        for bad in
            ["hello", "hello world\n", "{\"a\": 1}", "PING host", "", "# nothing\n", "a b\nc d\n"]
        {
            assert!(TableLayout::of(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn the_column_of_numbers_follows_from_the_heading() {
        let of = |head: &str| {
            let layout = TableLayout::of(head).unwrap();
            let scale = layout.scale.map(|scale| scale.name);
            (layout.value, layout.clock, scale, layout.unclear.is_some())
        };
        assert_eq!(of("rtt_ms\n1\n"), (0, None, Some("ms"), false));
        assert_eq!(of("time,rtt (us)\n0,12\n"), (1, Some(0), Some("us"), false));
        assert_eq!(of("seq;time [ms]\n1;12,5\n"), (1, None, Some("ms"), false));
        assert_eq!(
            of("Timestamp;Throughput [Mbps];Host\n1,5;93,4;a\n"),
            (1, Some(0), Some("Mbit/s"), false)
        );
        assert!(of("a_ms,b_ms\n1,2\n").3);
        // Numbers that follow each other count rows.
        assert_eq!(of("Test,Got [ms]\n1,12\n2,9\n3,11\n"), (1, None, Some("ms"), false));
        let said = |head: &str| TableLayout::of(head).unwrap().unclear.unwrap();
        let rows = |name: &str| format!("{name},begun\n1,10:00:01\n2,10:00:02\n3,10:00:03\n");
        assert!(said(&rows("Test")).contains("Test, counts rows"));
        assert!(said(&rows("id")).contains("id, counts rows"));
        assert_eq!(
            of("Test\n1\n2\n3\n"),
            (0, None, None, false),
            "one column is its user's choice"
        );
        assert!(
            said("Distance,Ping,Download\n1,2,3\n").ends_with("such as Download (cut -d, -f3)")
        );
        assert!(said("a b c\n1 2 3\n").ends_with("such as a (awk '{print $1}')"));
        assert!(said("x;1;2\ny;3;4\n").ends_with("(cut -d';' -f2)"));
        assert_eq!(of("0.0 1.5\n"), (1, Some(0), None, false));
        assert!(of("1 2 3\n").3);
    }

    #[test]
    fn named_columns_are_no_numbers() {
        let columns = |block: Option<&str>, contender: Option<&str>| RowColumns {
            block: block.map(str::to_owned),
            contender: contender.map(str::to_owned),
        };
        type Places = (usize, Option<usize>, Option<usize>);
        let of = |head: &str, columns: &RowColumns| -> Result<Places, String> {
            let layout = TableLayout::with_columns(head, columns)?;
            assert_eq!(layout.unclear, None);
            Ok((layout.value, layout.block, layout.contender))
        };
        let both = columns(Some("run"), Some("build"));
        assert_eq!(of("run,build,time_ms\n1,old,12.5\n", &both), Ok((2, Some(0), Some(1))));
        assert_eq!(of("Build;Run;s\nold;1;0,5\n", &both), Ok((2, Some(1), Some(0))));
        let contender = columns(None, Some("build"));
        assert_eq!(of("build ms\nold 12.5\n", &contender), Ok((1, None, Some(0))));
        let said = |head: &str| of(head, &both).unwrap_err();
        assert!(said("12\n13\n").contains("it has one column"));
        assert!(said("1,old,2.5\n2,new,3\n").contains("no names above"));
        assert!(
            said("block,build,ms\n1,old,2.5\n")
                .contains("no column is called `run`; its columns are block")
        );
        assert!(
            said("run,build\n1,old\n").contains("no column of numbers"),
            "{}",
            said("run,build\n1,old\n")
        );
    }

    #[test]
    fn a_comma_may_be_that_of_decimals() {
        let of = |head: &str| TableLayout::of(head).map(|layout| layout.separator);
        let said = TableLayout::of("12,5\n12,6\n").unwrap().unclear.unwrap();
        assert!(said.starts_with("a comma may"), "{said}");
        assert_eq!(of("12,5\n12,6\n"), Some(None), "two columns, or decimals");
        assert_eq!(of("0.0,12\n1.0,13\n"), Some(Some(ColumnSeparator::Character(','))));
        assert_eq!(of("0,0 12,5\n"), Some(Some(ColumnSeparator::Spaces)));
        assert_eq!(of("rtt\n12,5\n"), Some(Some(ColumnSeparator::Character(';'))), "one column");
    }
}
