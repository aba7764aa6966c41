//! iperf 2: what it prints, at the client and at the server, and its CSV (`-y C`). Each run is a trial; parallel flows
//! are parts of one.

use super::foreign::ForeignFile;
use super::rates::{GOODPUT, SENT, TrialFigures, bits_of, push, rate};
use super::{Arm, FileContent, FormatReader, ImportedTrial, ReaderContext};
use crate::measurements::{Metric, Role};

mod csv;

/// The format.
pub(super) struct Iperf2;

impl FormatReader for Iperf2 {
    fn id(&self) -> &'static str {
        "iperf2"
    }

    fn summary(&self) -> &'static str {
        "what iperf 2 prints, at either end, or its CSV, -y C; each run is a trial"
    }

    fn sniff(&self, head: &str) -> bool {
        head.lines().take(200).any(|line| {
            let is_flow = line.starts_with('[') && line.contains(" connected with ");
            is_flow || side(line).is_some() || csv::CsvLine::of(line).is_some()
        })
    }

    fn read(
        &self,
        file: &mut ForeignFile,
        _: &mut ReaderContext<'_>,
    ) -> Result<FileContent, String> {
        let mut log = Iperf2Log::default();
        let mut rows = Vec::new();
        while let Some(line) = file.next_line()? {
            match csv::CsvLine::of(line) {
                Some(row) => rows.push(row),
                None => log.line(line),
            }
        }
        log.runs.extend(csv::runs(&rows));
        log.content(csv::began(&rows))
    }
}

/// End at which iperf ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum IperfSide {
    #[default]
    Client,
    Server,
}

/// Returns the end that begins with this line.
fn side(line: &str) -> Option<IperfSide> {
    let is_port = line.contains(" port ");
    if is_port && line.starts_with("Client connecting to ") {
        Some(IperfSide::Client)
    } else if is_port && line.starts_with("Server listening on ") {
        Some(IperfSide::Server)
    } else {
        None
    }
}

/// Datagrams by the receiver's count. Less than none are lost if more copies than losses were received.
#[derive(Debug, Clone, Copy, PartialEq)]
struct DatagramCount {
    lost: i64,
    total: i64,
}

/// Figures of one flow over the longest span from its start.
#[derive(Debug, Clone, PartialEq)]
struct FlowFigures {
    id: String,
    /// True for what this end received.
    is_received: bool,
    seconds: f64,
    bps: f64,
    datagrams: Option<DatagramCount>,
}

/// One run.
#[derive(Debug, Default, PartialEq)]
struct IperfRun {
    side: IperfSide,
    flows: Vec<FlowFigures>,
    /// Flows whose direction was turned around.
    reversed: Vec<String>,
    /// Words of a failure.
    failure: Option<String>,
}

/// Line about an interval of a flow.
#[derive(Debug, PartialEq)]
struct FlowLine<'a> {
    id: &'a str,
    has_star: bool,
    from: f64,
    to: f64,
    bps: f64,
    datagrams: Option<DatagramCount>,
}

impl FlowLine<'_> {
    /// Parses `[  1] 0.0000-1.0169 sec   134 KBytes  1.08 Mbits/sec   0.005 ms 0/93 (0%)`.
    fn of(line: &str) -> Option<FlowLine<'_>> {
        let (id, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
        let id = id.trim();
        let (span, rest) = rest.split_once(" sec ")?;
        let (from, to) = span.split_once('-')?;
        let mut words = rest.split_whitespace();
        let value: f64 = words.nth(2)?.parse().ok()?;
        let bits = bits_of(words.next()?)?;
        let _jitter = words.next();
        let is_udp = words.next() == Some("ms");
        let behind: String = words.collect();
        let datagrams = if is_udp { datagrams(&behind) } else { None };
        Some(FlowLine {
            id: id.trim_start_matches('*'),
            has_star: id.starts_with('*'),
            from: from.trim().parse().ok()?,
            to: to.trim().parse().ok()?,
            bps: value * bits,
            datagrams,
        })
    }
}

/// Parses `0/93(0%)`.
fn datagrams(text: &str) -> Option<DatagramCount> {
    let (lost, rest) = text.split_once('/')?;
    let (total, _) = rest.split_once('(')?;
    Some(DatagramCount { lost: lost.parse().ok()?, total: total.parse().ok()? })
}

/// Runs read so far.
#[derive(Default)]
struct Iperf2Log {
    side: IperfSide,
    runs: Vec<IperfRun>,
    is_report: bool,
}

impl Iperf2Log {
    fn line(&mut self, line: &str) {
        if let Some(side) = side(line) {
            self.side = side;
            if side == IperfSide::Client {
                self.begin();
            }
        } else if line.contains(" connected with ") {
            self.connected(line);
        } else if line.trim_end().ends_with("Server Report:") {
            self.is_report = true;
        } else if let Some(flow) = FlowLine::of(line) {
            self.flow(&flow);
        } else if line.contains(" failed: ")
            && !line.starts_with("read failed")
            && let Some(run) = self.runs.last_mut()
        {
            run.failure.get_or_insert_with(|| line.to_owned());
        }
    }

    fn begin(&mut self) {
        self.runs.push(IperfRun { side: self.side, ..IperfRun::default() });
    }

    /// Takes the connection of a flow. At a server, one behind figures is of another client.
    fn connected(&mut self, line: &str) {
        let is_done = self.runs.last().is_none_or(|run| !run.flows.is_empty());
        if self.runs.is_empty() || (is_done && self.side == IperfSide::Server) {
            self.begin();
        }
        let id = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
        if let (Some((id, _)), Some(run)) = (id, self.runs.last_mut())
            && line.contains("(reverse)")
        {
            run.reversed.push(id.trim().trim_start_matches('*').to_owned());
        }
    }

    fn flow(&mut self, line: &FlowLine<'_>) {
        let is_report = std::mem::take(&mut self.is_report);
        if self.runs.is_empty() {
            self.begin();
        }
        let Some(run) = self.runs.last_mut() else { return };
        // A sum repeats the flows, and an interval that does not begin at the start is a part.
        if line.id.starts_with("SUM") || line.from > 0.0 {
            return;
        }
        let is_reversed = run.reversed.iter().any(|id| id == line.id);
        let is_received = match run.side {
            IperfSide::Client => line.has_star || is_report,
            IperfSide::Server => !(line.has_star || is_reversed),
        };
        run.take(FlowFigures {
            id: line.id.to_owned(),
            is_received,
            seconds: line.to,
            bps: line.bps,
            datagrams: line.datagrams,
        });
    }

    fn content(self, began: Option<std::time::SystemTime>) -> Result<FileContent, String> {
        if self.runs.iter().all(|run| run.flows.is_empty() && run.failure.is_none()) {
            return Err("there is no interval with a rate in it".into());
        }
        let mut arm = Arm { implementation: "iperf 2".into(), ..Arm::default() };
        let mut unknown = Vec::new();
        for run in &self.runs {
            let (trial, metrics) = run.trial();
            if trial.record.valid && !trial.record.metrics.contains_key(GOODPUT) {
                unknown.push("what the receiver had".to_owned());
            }
            push(&mut arm, trial, metrics);
        }
        unknown.dedup();
        Ok(FileContent {
            program: Some("iperf 2".into()),
            began,
            unit: "bit/s".into(),
            trial: "a run of iperf".into(),
            arms: vec![arm],
            unknown,
            ..FileContent::default()
        })
    }
}

impl IperfRun {
    /// Takes figures of a flow; those over the longest span count.
    fn take(&mut self, figures: FlowFigures) {
        let same =
            |own: &&mut FlowFigures| own.id == figures.id && own.is_received == figures.is_received;
        match self.flows.iter_mut().find(same) {
            Some(own) if own.seconds <= figures.seconds => *own = figures,
            Some(_) => {}
            None => self.flows.push(figures),
        }
    }

    fn trial(&self) -> (ImportedTrial, Vec<Metric>) {
        if self.flows.is_empty() {
            let words = self.failure.as_deref().unwrap_or("there is no interval with a rate");
            return (ImportedTrial::failed(words), Vec::new());
        }
        let mut figures = TrialFigures::new();
        let of =
            |is_received: bool| self.flows.iter().filter(move |own| own.is_received == is_received);
        let sum = |is_received| of(is_received).map(|own| own.bps).sum::<f64>();
        let has_goodput = of(true).next().is_some();
        if has_goodput {
            figures.add(rate(GOODPUT, Role::Claim), sum(true));
        }
        if of(false).next().is_some() {
            let role = if has_goodput { Role::Descriptive } else { Role::Claim };
            figures.add(rate(SENT, role), sum(false));
        }
        let longest = self.flows.iter().map(|own| own.seconds).fold(0.0, f64::max);
        figures.record.took_ns = (longest * 1e9) as u64;
        let mut impossible = None;
        let counts: Vec<DatagramCount> = self
            .flows
            .iter()
            .filter_map(|own| own.datagrams)
            .filter(|own| own.total >= 0)
            .collect();
        if !counts.is_empty() {
            let sum = |of: fn(&DatagramCount) -> i64| {
                counts.iter().map(of).fold(0_i64, i64::saturating_add)
            };
            let (lost, total) = (sum(|own| own.lost), sum(|own| own.total));
            impossible = loss(&mut figures, lost, total);
        }
        let mut trial = ImportedTrial::complete(figures.record);
        impossible.iter().for_each(|figure| trial.impossible(figure));
        (trial, figures.metrics)
    }
}

/// Adds the loss; answers with the words of an impossible one.
fn loss(figures: &mut TrialFigures, lost: i64, total: i64) -> Option<String> {
    let counts = u64::try_from(lost).ok().zip(u64::try_from(total).ok());
    let Some((sent, delivered)) =
        counts.and_then(|(lost, sent)| Some((sent, sent.checked_sub(lost)?)))
    else {
        return Some(format!("{lost} of {total} datagrams lost"));
    };
    figures.one_way(sent, delivered);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(text: &str) -> Vec<(Option<f64>, Option<f64>, Option<f64>)> {
        let mut log = Iperf2Log::default();
        text.lines().for_each(|line| log.line(line));
        let content = log.content(None).unwrap();
        let of = |trial: &ImportedTrial, name: &str| trial.record.metrics.get(name).copied();
        let trials = content.arms[0].trials.iter();
        trials.map(|one| (of(one, GOODPUT), of(one, SENT), of(one, "loss_share"))).collect()
    }

    const CLIENT: &str = "Client connecting to 10.0.0.1, TCP port 5001\n";
    const SERVER: &str = "Server listening on TCP port 5001\n";

    #[test]
    fn a_client_knows_what_it_sent_and_by_a_report_what_was_received() {
        let tcp = "[  1] local 10.0.0.2 port 1 connected with 10.0.0.1 port 5001\n\
                   [ ID] Interval       Transfer     Bandwidth\n\
                   [  1] 0.0000-0.5000 sec   128 KBytes  2.10 Mbits/sec\n\
                   [  1] 0.5000-1.0000 sec   128 KBytes  2.10 Mbits/sec\n\
                   [  1] 0.0000-1.0437 sec   384 KBytes  3.01 Mbits/sec\n";
        assert_eq!(figures(&[CLIENT, tcp].concat().repeat(2)), [(None, Some(3.01e6), None); 2]);
        let udp = "[  3]  0.0- 1.0 sec   134 KBytes  1.07 Mbits/sec\n[  3] Sent 94 datagrams\n\
                   [  3] Server Report:\n\
                   [  3]  0.0- 1.0 sec   131 KBytes  1.05 Mbits/sec   0.005 ms    3/   93 (3.2%)\n";
        assert_eq!(
            figures(&[CLIENT, udp].concat()),
            [(Some(1.05e6), Some(1.07e6), Some(3.0 / 93.0))]
        );
        let reverse = "[  1] local 10.0.0.2 port 1 connected with 10.0.0.1 port 5001 (reverse)\n\
                       [ *1] 0.0000-1.5000 sec   384 KBytes  2.10 Mbits/sec\n";
        assert_eq!(figures(&[CLIENT, reverse].concat()), [(Some(2.1e6), None, None)]);
    }

    #[test]
    fn parallel_flows_are_parts_of_a_run_and_clients_of_a_server_runs() {
        let server = "[  1] local 10.0.0.1 port 5001 connected with 10.0.0.2 port 1\n\
                      [  1] 0.0000-1.0472 sec   384 KBytes  3.00 Mbits/sec\n\
                      [  2] local 10.0.0.1 port 5001 connected with 10.0.0.2 port 2\n\
                      [  3] local 10.0.0.1 port 5001 connected with 10.0.0.2 port 3\n\
                      [  3] 0.0000-1.0268 sec   384 KBytes  3.06 Mbits/sec\n\
                      [  2] 0.0000-1.0305 sec   384 KBytes  3.05 Mbits/sec\n\
                      [SUM] 0.0000-1.0305 sec   768 KBytes  6.11 Mbits/sec\n\
                      [  6] local 10.0.0.1 port 5001 connected with 10.0.0.2 port 4 (reverse)\n\
                      [  6] 0.0000-1.5069 sec   384 KBytes  2.09 Mbits/sec\n";
        let seen = figures(&[SERVER, server].concat());
        assert_eq!(
            seen,
            [(Some(3e6), None, None), (Some(6.11e6), None, None), (None, Some(2.09e6), None)]
        );
    }

    #[test]
    fn a_run_that_failed_says_why() {
        let mut log = Iperf2Log::default();
        [CLIENT, "tcp connect failed: Connection refused"]
            .iter()
            .for_each(|line| log.line(line.trim()));
        let content = log.content(None).unwrap();
        let why = content.arms[0].trials[0].record.why_invalid.clone().unwrap();
        assert!(why.contains("tcp connect failed: Connection refused"), "{why}");
    }
}
