//! iperf 2: its printed output, at the client and at the server, and its CSV (`-y C`). Each run is a trial; parallel flows
//! are parts of one.

use std::collections::BTreeMap;

use deadheat_base::ends::Direction;

use super::foreign_file::ForeignFile;
use super::rates::{GOODPUT, IperfSide, SENT, bits_of, rate};
use super::samples::MessageCounts;
use super::stalls::{grow, stalls};
use super::{FileContent, Format, ImportedTrial, NONE, ReaderContext};
use deadheat_contract::measurements::series::Series;
use deadheat_contract::measurements::{Metric, Role};

mod csv;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "iperf2",
    summary: "what iperf 2 prints, at either end, or its CSV, -y C; each run is a trial",
    sniff: |head| head.lines().take(200).any(is_own),
    read: Some(read),
    program: "iperf 2",
    implementation: "iperf 2",
    unit: "bit/s",
    trial: "a run of iperf",
    ..NONE
};

fn is_own(line: &str) -> bool {
    let is_flow = line.starts_with('[') && line.contains(" connected with ");
    is_flow || side(line).is_some() || csv::CsvLine::of(line).is_some()
}

fn read(file: &mut ForeignFile, _: &mut ReaderContext<'_>) -> Result<FileContent, String> {
    let (mut log, mut rows) = (Iperf2Log::default(), Vec::new());
    file.each_line(|line| match csv::CsvLine::of(line) {
        Some(row) => rows.push(row),
        None => log.line(line),
    })?;
    log.runs.extend(csv::runs(&rows));
    if log.runs.iter().all(|run| run.flows.is_empty() && run.failure.is_none()) {
        return Err("there is no interval with a rate in it".into());
    }
    let mut content = FileContent { began: csv::began(&rows), ..FileContent::default() };
    log.runs.iter().for_each(|run| content.add("", run.trial()));
    Ok(content)
}

/// Most between the end of an interval and the begin of the next, as rounded: in nanoseconds.
const APART_NS: u64 = 150_000_000;

/// Returns the end that begins with this line.
fn side(line: &str) -> Option<IperfSide> {
    let begins =
        [("Client connecting to ", IperfSide::Client), ("Server listening on ", IperfSide::Server)];
    let begins = begins.into_iter().filter(|_| line.contains(" port "));
    begins.filter(|(begin, _)| line.starts_with(begin)).map(|(_, side)| side).next()
}

/// Returns the first port in a line: `port 5001`.
fn port(line: &str) -> Option<u64> {
    let behind = line.split_once(" port ")?.1;
    behind.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
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
    /// True for data that this end received, or that the server's report has.
    is_received: bool,
    way: Direction,
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
    /// Flows that a client received on its own port, with `-d` or `-r`.
    answering: Vec<String>,
    /// Amounts of each flow over time, by its number and by whether this end received them.
    series: BTreeMap<(String, bool), Series>,
    /// Number of datagrams that it sent.
    sent: u64,
    /// Warnings of iperf, each once.
    warnings: Vec<String>,
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
    /// Port on which this end listens, if its lines say so.
    listening: Option<u64>,
}

impl Iperf2Log {
    fn line(&mut self, line: &str) {
        if let Some(side) = side(line) {
            self.side = side;
            match side {
                IperfSide::Client => self.begin(),
                IperfSide::Server => self.listening = port(line),
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
        } else if let (Some((_, words)), Some(run)) = (line.split_once("] "), self.runs.last_mut())
        {
            run.words(words.trim());
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
        let (Some((id, _)), Some(run)) = (id, self.runs.last_mut()) else { return };
        let id = || id.trim().trim_start_matches('*').to_owned();
        if line.contains("(reverse)") {
            run.reversed.push(id());
        }
        // A client with -d or -r has a port of its own, to which the server connects.
        if run.side == IperfSide::Client && self.listening.is_some() && port(line) == self.listening
        {
            run.answering.push(id());
        }
    }

    fn flow(&mut self, line: &FlowLine<'_>) {
        let is_report = std::mem::take(&mut self.is_report);
        if self.runs.is_empty() {
            self.begin();
        }
        let Some(run) = self.runs.last_mut() else { return };
        // A sum repeats the flows.
        if line.id.starts_with("SUM") {
            return;
        }
        let is_of = |flows: &[String]| flows.iter().any(|id| id == line.id);
        let is_back = line.has_star || is_of(&run.reversed) || is_of(&run.answering);
        let is_received = match run.side {
            IperfSide::Client => line.has_star || is_of(&run.answering) || is_report,
            IperfSide::Server => !is_back,
        };
        if !is_report {
            run.grow(line, is_received);
        }
        // An interval that does not begin at the start is a part.
        if line.from > 0.0 {
            return;
        }
        run.take(FlowFigures {
            id: line.id.to_owned(),
            is_received,
            way: if is_back { Direction::Down } else { Direction::Up },
            seconds: line.to,
            bps: line.bps,
            datagrams: line.datagrams,
        });
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

    /// Takes an interval that begins where the last one ended.
    fn grow(&mut self, line: &FlowLine<'_>, is_received: bool) {
        let series = self.series.entry((line.id.to_owned(), is_received)).or_default();
        let from = (line.from.max(0.0) * 1e9) as u64;
        let last = series.at_ns.last().copied().unwrap_or(0);
        if from.abs_diff(last) <= APART_NS && line.to > 0.0 {
            let bytes = (line.bps * (line.to - line.from) / 8.0).round().max(0.0);
            grow(series, line.to, line.to, bytes, !is_received);
        }
    }

    /// Takes words about a flow: `Sent 8504 datagrams`, `WARNING: did not receive ack of last datagram after 10 tries.`
    fn words(&mut self, words: &str) {
        if let Some(count) = words.strip_prefix("Sent ") {
            let count = count.split(' ').next().and_then(|count| count.parse::<u64>().ok());
            self.sent = self.sent.saturating_add(count.unwrap_or(0));
        } else if words.starts_with("WARNING: ") {
            let doubt = format!(
                "iperf says: {}.",
                deadheat_base::foreign::short(words.trim_end_matches('.'))
            );
            if !self.warnings.contains(&doubt) {
                self.warnings.push(doubt);
            }
        }
    }

    /// Adds the rates, as received or else as sent. A run in both directions has rates of each, and no sum.
    fn rates(&self, trial: &mut ImportedTrial) {
        let has = |way| self.flows.iter().any(|own| own.way == way);
        let ways: &[_] = if !(has(Direction::Up) && has(Direction::Down)) {
            &[(None, "")]
        } else {
            &[(Some(Direction::Up), "up"), (Some(Direction::Down), "down")]
        };
        for (way, name) in ways {
            let rate_of = |is_received: bool| {
                let flows = self.flows.iter().filter(|own| own.is_received == is_received);
                let flows = flows.filter(|own| way.is_none_or(|way| own.way == way));
                flows.map(|own| own.bps).reduce(|a, b| a + b)
            };
            let (received, handed) = (rate_of(true), rate_of(false));
            let role = if received.is_some() { Role::Descriptive } else { Role::Claim };
            received.into_iter().for_each(|bps| trial.add(of_way(GOODPUT, name, Role::Claim), bps));
            handed.into_iter().for_each(|bps| trial.add(of_way(SENT, name, role), bps));
        }
        let has_goodput = trial.metrics.iter().any(|own| own.name.starts_with("goodput"));
        trial.unknown.extend((!has_goodput).then_some("what the receiver had"));
    }

    fn trial(&self) -> ImportedTrial {
        if self.flows.is_empty() {
            let words = self.failure.as_deref().unwrap_or("there is no interval with a rate");
            return ImportedTrial::failed(words);
        }
        let mut trial = ImportedTrial::complete();
        self.rates(&mut trial);
        trial.doubts.extend(self.warnings.iter().cloned());
        let longest = self.flows.iter().map(|own| own.seconds).fold(0.0, f64::max);
        trial.record.took_ns = (longest * 1e9) as u64;
        let counts = self.flows.iter().filter_map(|own| own.datagrams);
        let counts: Vec<DatagramCount> = counts.filter(|own| own.total >= 0).collect();
        if !counts.is_empty() {
            let sum = |of: fn(&DatagramCount) -> i64| {
                counts.iter().map(of).fold(0_i64, i64::saturating_add)
            };
            let (lost, total) = match (sum(|own| own.lost), sum(|own| own.total)) {
                // A receiver counts up to the last number that it saw.
                (_, 0) => (self.sent as i64, self.sent as i64),
                counted => counted,
            };
            enter_loss(&mut trial, lost, total);
        }
        let series: Vec<Series> = self.series.values().cloned().collect();
        trial.record.outages = stalls(&series, !counts.is_empty() || self.sent > 0);
        trial
    }
}

/// Returns the metric of a rate, in a run in both directions that of one.
fn of_way(name: &str, way: &str, role: Role) -> Metric {
    let mut metric = rate(name, role);
    if !way.is_empty() {
        metric.name = name.replace("_bps", &format!("_{way}_bps"));
        metric.label = format!("{} {way}", metric.label);
    }
    metric
}

/// Adds the loss, unless it is impossible.
fn enter_loss(trial: &mut ImportedTrial, lost: i64, total: i64) {
    let sent = u64::try_from(total).ok();
    let received = sent.zip(u64::try_from(lost).ok()).and_then(|(all, lost)| all.checked_sub(lost));
    match sent.zip(received) {
        Some((sent, received)) => MessageCounts::of(sent, received).enter_one_way(trial),
        None => trial.impossible(&format!("{lost} of {total} datagrams lost")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(text: &str) -> Vec<(Option<f64>, Option<f64>, Option<f64>)> {
        let content = FORMAT.content(text).unwrap();
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
    fn an_interval_file_tells_a_stall() {
        let rows = "[  3]  0.0- 1.0 sec  8.00 MBytes  67.1 Mbits/sec\n\
                    [  3]  1.0- 2.0 sec  0.00 Bytes  0.00 bits/sec\n\
                    [  3]  2.0- 3.0 sec  0.00 Bytes  0.00 bits/sec\n\
                    [  3]  3.0- 4.0 sec  8.00 MBytes  67.1 Mbits/sec\n\
                    [  3]  0.0- 4.1 sec  16.0 MBytes  33.0 Mbits/sec\n";
        let content = FORMAT.content(&[CLIENT, rows].concat()).unwrap();
        let [stall] = content.arms[0].trials[0].record.outages[..] else { panic!() };
        assert_eq!((stall.from_ns, stall.length_ns), (1_000_000_000, 2_000_000_000));
    }

    #[test]
    fn both_ways_of_a_run_are_apart() {
        let both = "Server listening on TCP port 5001\n\
                    Client connecting to 10.0.0.1, TCP port 5001\n\
                    [  5] local 10.0.0.2 port 60270 connected with 10.0.0.1 port 5001\n\
                    [  4] local 10.0.0.2 port 5001 connected with 10.0.0.1 port 2643\n\
                    [  4]  0.0-10.0 sec  76.3 MBytes  63.9 Mbits/sec\n\
                    [  5]  0.0-10.1 sec  1.55 MBytes  1.29 Mbits/sec\n";
        let csv = "20261126030642,10.0.0.2,60270,10.0.0.1,5001,5,0.0-10.1,1625292,1290000\n\
                   20261126030642,10.0.0.2,5001,10.0.0.1,2643,4,0.0-10.0,80006349,63900000\n";
        for text in [both, csv] {
            let content = FORMAT.content(text).unwrap();
            let [trial] = &content.arms[0].trials[..] else { panic!("{text}") };
            let want = [("goodput_down_bps", 63.9e6), ("sent_up_bps", 1.29e6)];
            assert_eq!(trial.record.metrics, want.map(|(name, bps)| (name.to_owned(), bps)).into());
        }
    }

    #[test]
    fn a_report_that_did_not_come_is_told_and_one_of_nothing_is_a_loss_of_all() {
        let sent = "[  3] local 10.0.0.2 port 1 connected with 10.0.0.1 port 5001\n\
                    [  3]  0.0-10.0 sec  12.0 MBytes  10.0 Mbits/sec\n[  3] Sent 8504 datagrams\n";
        let warned = "[  3] WARNING: did not receive ack of last datagram after 10 tries.\n";
        let content = FORMAT.content(&[CLIENT, sent, warned].concat()).unwrap();
        assert!(content.arms[0].trials[0].doubts[0].contains("did not receive ack"));
        let none = "[  3] Server Report:\n\
                    [  3]  0.0-10.0 sec  0.00 Bytes  0.00 bits/sec   0.000 ms    0/    0 (0%)\n";
        assert_eq!(figures(&[CLIENT, sent, none].concat()), [(Some(0.0), Some(1e7), Some(1.0))]);
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
        let text = [CLIENT, "tcp connect failed: Connection refused"].concat();
        let content = FORMAT.content(&text).unwrap();
        let why = content.arms[0].trials[0].record.why_invalid.clone().unwrap();
        assert!(why.contains("tcp connect failed: Connection refused"), "{why}");
    }
}
