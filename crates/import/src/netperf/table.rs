//! Rows of numbers, as netperf's classic tests print them, with or without a heading.

/// Kind of a test, by its heading or by the shape of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestKind {
    /// Bytes one way.
    Stream,
    /// Datagrams one way: a row of the sender, and one of the receiver.
    Datagrams,
    /// Transactions, which are round trips if one is under way at a time.
    Transactions,
}

/// Rows of a test.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TestRows {
    /// Seconds, and the rate.
    Stream { seconds: f64, rate: f64 },
    /// Messages and rate of the sender, and of the receiver if it answered.
    Datagrams { seconds: f64, sent: f64, rate: f64, received: Option<(f64, f64)> },
    /// Seconds, and transactions in a second.
    Transactions { seconds: f64, rate: f64 },
}

/// Returns the kind of a test from its heading: `MIGRATED TCP STREAM TEST from 0.0.0.0 … to 10.0.0.1 …`.
pub(super) fn heading(line: &str) -> Option<TestKind> {
    let (name, ends) = line.split_once(" TEST ")?;
    if !["from ", "to "].iter().any(|word| ends.starts_with(word)) || name.len() > 60 {
        return None;
    }
    let name = name.to_ascii_uppercase();
    Some(if name.contains("REQUEST") || name.contains("CONNECT") {
        TestKind::Transactions
    } else if name.starts_with("UDP") || name.contains(" UDP") || name.starts_with("DG ") {
        TestKind::Datagrams
    } else {
        TestKind::Stream
    })
}

/// Returns the numbers of a row; `None` if it has other words before them.
pub(super) fn row(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number = |word: &&&str| word.parse::<f64>().is_ok_and(f64::is_finite);
    let numbers = words.iter().take_while(is_number).count();
    // A word behind them is a tag of the user.
    (numbers > 0 && numbers + 1 >= words.len()).then(|| words[..numbers].to_vec())
}

/// Width of a size in the rows of classic tests (`%6d`, `%-6d`).
const WIDTH: usize = 6;

/// Returns true if the sizes at the beginning of a row stand as classic tests print them: right in their columns if
/// they are of a stream, left if of transactions. The columns of omni's tables are wider.
fn stand(row: &[&str], kind: TestKind) -> bool {
    let place = |word: &str| word.as_ptr() as usize - row[0].as_ptr() as usize;
    row[..3].windows(2).all(|pair| {
        let gap = place(pair[1]) - place(pair[0]) - pair[0].len();
        match kind {
            TestKind::Transactions => gap + pair[0].len() == pair[0].len().max(WIDTH) + 1,
            TestKind::Stream | TestKind::Datagrams => {
                gap + pair[1].len() == pair[1].len().max(WIDTH) + 1
            }
        }
    })
}

/// Returns the kind of a test without a heading, by its first row: its numbers, and how they stand.
pub(super) fn shape(row: &[&str]) -> Option<TestKind> {
    let whole = |range: std::ops::Range<usize>| {
        row.get(range).is_some_and(|part| part.iter().all(|word| word.parse::<u64>().is_ok()))
    };
    let decimals = |at: usize| {
        row.get(at).and_then(|word| word.split_once('.')).is_some_and(|(_, after)| after.len() == 2)
    };
    match row.len() {
        5 | 9 if whole(0..3) && decimals(3) && decimals(4) => {
            Some(TestKind::Stream).filter(|kind| stand(row, *kind))
        }
        6 | 10 if whole(0..4) && decimals(4) && decimals(5) => {
            Some(TestKind::Transactions).filter(|kind| stand(row, *kind))
        }
        6 | 8 if whole(0..2) && decimals(2) && whole(3..5) && decimals(5) => {
            Some(TestKind::Datagrams)
        }
        _ => None,
    }
}

/// Reads a row of a test, which may be the second one of the test before.
pub(super) fn take(kind: TestKind, row: &[&str], rows: &mut Vec<TestRows>) {
    let number = |at: usize| row.get(at).and_then(|word| word.parse::<f64>().ok());
    match (kind, row.len()) {
        (TestKind::Stream, 5..) => {
            let read = number(3).zip(number(4));
            rows.extend(read.map(|(seconds, rate)| TestRows::Stream { seconds, rate }));
        }
        (TestKind::Transactions, 6..) => {
            let read = number(4).zip(number(5));
            rows.extend(read.map(|(seconds, rate)| TestRows::Transactions { seconds, rate }));
        }
        (TestKind::Datagrams, 6..) => {
            let read = number(2).zip(number(3)).zip(number(5));
            rows.extend(read.map(|((seconds, sent), rate)| TestRows::Datagrams {
                seconds,
                sent,
                rate,
                received: None,
            }));
        }
        (TestKind::Datagrams, 4) => {
            if let Some(TestRows::Datagrams { received, .. }) = rows.last_mut() {
                *received = number(2).zip(number(3));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: TestKind, lines: &[&str]) -> Vec<TestRows> {
        let mut rows = Vec::new();
        for line in lines {
            take(kind, &row(line).unwrap(), &mut rows);
        }
        rows
    }

    #[test]
    fn rows_are_told_by_their_shape_where_there_is_no_heading() {
        let of = |line| shape(&row(line).unwrap());
        assert_eq!(of("131072  16384  16384    1.00     23456.78   "), Some(TestKind::Stream));
        assert_eq!(
            of("16384  131072 1        1       1.00     25000.12   "),
            Some(TestKind::Transactions)
        );
        assert_eq!(
            of("212992   65507   1.00       50000      0    26200.00"),
            Some(TestKind::Datagrams)
        );
        for other in [
            "1 2 3 4 5",
            "12.3",
            "1 2",
            "1.00 2.00 3.00 4.00 5.00",
            "87040       131072      16384       9412.35    10.00",
            "131072 16384 16384 10.00 94.10",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(row("a 1 2"), None);
        assert_eq!(row("94.10 my-tag").unwrap(), ["94.10"]);
    }

    #[test]
    fn the_second_row_of_a_test_belongs_to_the_first() {
        let udp = read(
            TestKind::Datagrams,
            &[
                "212992   65507   1.00       50000      0    26200.00",
                "212992           1.00       49000           25700.00",
            ],
        );
        let received = Some((49_000.0, 25_700.0));
        assert_eq!(
            udp,
            [TestRows::Datagrams { seconds: 1.0, sent: 50_000.0, rate: 26_200.0, received }]
        );
        let rr =
            read(TestKind::Transactions, &["16384  131072 1  1  1.00  25000.12", "16384  131072"]);
        assert_eq!(rr, [TestRows::Transactions { seconds: 1.0, rate: 25_000.12 }]);
    }

    #[test]
    fn headings_name_the_test() {
        for (line, want) in [
            (
                "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0",
                Some(TestKind::Stream),
            ),
            ("TCP MAERTS TEST to h", Some(TestKind::Stream)),
            (
                "MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h ()",
                Some(TestKind::Datagrams),
            ),
            ("UDP UNIDIRECTIONAL SEND TEST to h", Some(TestKind::Datagrams)),
            (
                "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 to h : first burst 0",
                Some(TestKind::Transactions),
            ),
            (
                "OMNI Send TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h ()",
                Some(TestKind::Stream),
            ),
            ("THIS IS A TEST of something", None),
        ] {
            assert_eq!(heading(line), want, "{line}");
        }
    }
}
