//! CSV of iperf 2, `-y C`: time, both addresses and ports, flow, interval, bytes, bits in a second, and of datagrams
//! jitter, lost, all, loss, and those out of order.

use std::collections::HashSet;
use std::time::SystemTime;

use super::{DatagramCount, Direction, FlowFigures, IperfRun, IperfSide};
use crate::stamp;

/// Port of a server by default.
const PORT: i64 = 5001;

/// Line of the CSV.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CsvLine {
    /// `YYYYMMDDhhmmss`.
    at: u64,
    /// Source and destination address, and the destination's port.
    ends: [String; 3],
    source_port: i64,
    flow: i64,
    from: f64,
    to: f64,
    bps: f64,
    datagrams: Option<DatagramCount>,
}

impl CsvLine {
    /// Parses `20261126030642,127.0.0.1,47766,127.0.0.1,5998,2,0.0-1.0,393276,3137864`.
    pub(super) fn of(line: &str) -> Option<CsvLine> {
        let cells: Vec<&str> = line.trim().split(',').collect();
        let &[at, source, source_port, target, target_port, flow, span, bytes, bps, ref rest @ ..] =
            &cells[..]
        else {
            return None;
        };
        let at = at.get(..14).filter(|at| at.bytes().all(|b| b.is_ascii_digit()))?;
        let (from, to) = span.split_once('-')?;
        bytes.parse::<i64>().ok()?;
        let datagrams = match rest {
            [_, lost, total, ..] => {
                Some(DatagramCount { lost: lost.parse().ok()?, total: total.parse().ok()? })
            }
            _ => None,
        };
        Some(CsvLine {
            at: at.parse().ok()?,
            ends: [source, target, target_port].map(str::to_owned),
            source_port: source_port.parse().ok()?,
            flow: flow.parse().ok()?,
            from: from.parse().ok()?,
            to: to.parse().ok()?,
            bps: bps.parse().ok().filter(|bps: &f64| bps.is_finite() && *bps >= 0.0)?,
            datagrams: datagrams.filter(|count| count.total >= 0),
        })
    }

    /// Returns true for the sum of several flows.
    fn is_sum(&self) -> bool {
        self.flow < 0
    }

    /// Returns true for a row of data that this end received on its own port: other rows have connections to that port of the same
    /// host.
    fn is_answering(&self, targets: &HashSet<&[String; 3]>) -> bool {
        let [source, target, port] = &self.ends;
        let own = self.source_port.to_string();
        own != *port && targets.contains(&[source.clone(), target.clone(), own])
    }

    /// Returns true for a row of a server, by its port.
    fn is_of_server(&self) -> bool {
        self.source_port == PORT && self.ends[2] != PORT.to_string()
    }

    /// Returns true if it is of the same flow, whichever end counted.
    fn is_same_flow(&self, other: &CsvLine) -> bool {
        self.flow == other.flow && self.source_port == other.source_port && self.ends == other.ends
    }
}

/// Returns the runs. Flows of other numbers and ports that ended within two seconds are parts of one run.
pub(super) fn runs(rows: &[CsvLine]) -> Vec<IperfRun> {
    let targets: HashSet<&[String; 3]> = rows.iter().map(|row| &row.ends).collect();
    let mut runs: Vec<Vec<&CsvLine>> = Vec::new();
    for row in rows.iter().filter(|row| !row.is_sum()) {
        let is_part = |run: &Vec<&CsvLine>| {
            let goes_on = run.iter().any(|own| {
                own.is_same_flow(row)
                    && (row.from > 0.0 || row.to > own.to || row.datagrams.is_some())
            });
            let is_beside = run.iter().all(|own| {
                let is_other_way = own.is_answering(&targets) != row.is_answering(&targets)
                    && own.ends[..2] == row.ends[..2];
                own.flow != row.flow
                    && (own.ends == row.ends || is_other_way)
                    && row.at.abs_diff(own.at) <= 2
            });
            goes_on || is_beside
        };
        match runs.last_mut().filter(|run| is_part(run)) {
            Some(run) => run.push(row),
            None => runs.push(vec![row]),
        }
    }
    runs.iter().map(|own| run(own, &targets)).collect()
}

fn run(rows: &[&CsvLine], targets: &HashSet<&[String; 3]>) -> IperfRun {
    let mut run = IperfRun { side: IperfSide::Client, ..IperfRun::default() };
    for row in rows.iter().filter(|row| row.from <= 0.0) {
        let is_back = row.is_answering(targets);
        run.take(FlowFigures {
            id: format!("{}:{}", row.flow, row.source_port),
            is_received: row.datagrams.is_some() || is_back || row.is_of_server(),
            way: if is_back { Direction::Down } else { Direction::Up },
            seconds: row.to,
            bps: row.bps,
            datagrams: row.datagrams,
        });
    }
    run
}

/// Returns the time of the first line, in the time zone of that host, which is taken as UTC. 1970 stands for none.
pub(super) fn began(rows: &[CsvLine]) -> Option<SystemTime> {
    let at = rows.first()?.at.to_string();
    let part = |from: usize| at.get(from..from + 2);
    let (month, day) = (part(4)?, part(6)?);
    let (hour, minute, second) = (part(8)?, part(10)?, part(12)?);
    let year = at.get(..4).filter(|year| *year > "1970")?;
    let text = format!("{year}-{month}-{day} {hour}:{minute}:{second}");
    stamp::split(&text).0?.at()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<IperfRun> {
        runs(&text.lines().filter_map(CsvLine::of).collect::<Vec<_>>())
    }

    #[test]
    fn parallel_flows_are_one_run_and_runs_behind_each_other_several() {
        let parallel = "20261126030642,127.0.0.1,47766,127.0.0.1,5998,2,0.0-0.5,131132,2098112\n\
                        20261126030642,127.0.0.1,47756,127.0.0.1,5998,1,0.0-0.5,131132,2098112\n\
                        20261126030642,127.0.0.1,47766,127.0.0.1,5998,2,0.5-1.0,131072,2097152\n\
                        20261126030642,127.0.0.1,47756,127.0.0.1,5998,1,0.5-1.0,131072,2097152\n\
                        20261126030642,127.0.0.1,47766,127.0.0.1,5998,2,0.0-1.0,393276,3137864\n\
                        20261126030642,127.0.0.1,47756,127.0.0.1,5998,1,0.0-1.0,393276,3126054\n";
        let seen = read(parallel);
        assert_eq!(seen.len(), 1);
        let rates: Vec<f64> = seen[0].flows.iter().map(|flow| flow.bps).collect();
        assert_eq!(rates, [3_137_864.0, 3_126_054.0]);
        let serial = "20261126030642,10.0.0.2,1001,10.0.0.1,5001,3,0.0-10.0,1250000,1000000\n\
                      20261126030653,10.0.0.2,1002,10.0.0.1,5001,3,0.0-10.0,1250000,1000000\n";
        assert_eq!(read(serial).len(), 2);
    }

    #[test]
    fn counts_of_minus_one_are_not_known() {
        let row = CsvLine::of(
            "19700101000000,127.0.0.1,43054,127.0.0.1,5999,1,0.0-1.0,136710,1071544,0.000,0,-1,-0.000,0",
        );
        let row = row.unwrap();
        assert_eq!((row.datagrams, began(std::slice::from_ref(&row))), (None, None));
        let report =
            "20261126030642,10.0.0.2,1,10.0.0.1,5001,3,0.0-1.0,1250000,1000000,0.010,4,893,0.448,0";
        assert_eq!(
            CsvLine::of(report).unwrap().datagrams,
            Some(DatagramCount { lost: 4, total: 893 })
        );
        for line in ["1,2,3", "a,b,c,d,e,f,g,h,i", "20261126030642,a,1,b,2,3,0.0,1,2"] {
            assert_eq!(CsvLine::of(line), None, "{line}");
        }
    }
}
