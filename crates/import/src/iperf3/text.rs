//! Runs as iperf3 prints them without -J: `[  5]   0.00-1.00   sec   112 MBytes   941 Mbits/sec    0   1.41 MBytes`.

use std::collections::BTreeMap;

use super::super::rates::{IperfSide, bits_in, bits_of};
use super::super::stalls::grow;
use super::run::{EndSums, Iperf3Run, WaySums};
use super::writers;
use deadheat_contract::measurements::series::Series;
use deadheat_result::date;

/// Lines that iperf3 alone writes.
const MARKS: [&str; 5] = [
    "Connecting to host ",
    "Accepted connection from ",
    "iperf3: error",
    "iperf3: interrupt",
    "iperf Done.",
];

/// Returns true for text with this beginning.
pub(super) fn begins(head: &str) -> bool {
    let is_mark = |line: &str| MARKS.iter().any(|mark| line.starts_with(mark));
    let has_rows = || {
        head.contains("[ ID] Interval")
            && !head.contains("Client connecting to")
            && !head.contains("Server listening on TCP port")
            && !head.contains("Server listening on UDP port")
            && head.lines().any(|line| PrintedRow::of(line).is_some())
    };
    head.lines().any(is_mark)
        || has_rows()
        || writers::of(head).iter().flat_map(|own| &own.lines).any(|line| is_mark(line))
}

/// Returns the runs in a text, by the host that wrote them: its name is empty where lines have none in front.
pub(super) fn runs(text: &str) -> Vec<(String, Vec<Iperf3Run>)> {
    let of = |own: writers::WriterLines<'_>| {
        let mut found = PrintedRuns::default();
        own.lines.iter().for_each(|line| found.line(line));
        (own.name, found.finish())
    };
    writers::of(text).into_iter().map(of).filter(|(_, runs)| !runs.is_empty()).collect()
}

/// Row of figures of a stream, or of all.
#[derive(Debug, PartialEq)]
struct PrintedRow<'a> {
    /// Number of the stream, or `SUM`.
    id: &'a str,
    /// Direction and end under `--bidir`: `TX-C`.
    tag: Option<&'a str>,
    from_s: f64,
    to_s: f64,
    sums: EndSums,
    is_omitted: bool,
    end: Option<RowEnd>,
}

/// End whose count a row of the summary has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RowEnd {
    Sender,
    Receiver,
}

impl PrintedRow<'_> {
    /// Parses a row; with `--timestamps` there is text before the bracket.
    fn of(line: &str) -> Option<PrintedRow<'_>> {
        let begin = line.find('[').filter(|at| *at < 64)?;
        let (id, mut rest) = line[begin + 1..].split_once(']')?;
        let id = id.trim();
        if id != "SUM" && id.parse::<u32>().is_err() {
            return None;
        }
        let mut tag = None;
        if let Some(tagged) = rest.strip_prefix('[') {
            let (own, behind) = tagged.split_once(']')?;
            (tag, rest) = (Some(own), behind);
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [span, "sec", amount, amount_unit, rate, rate_unit, behind @ ..] = &words[..] else {
            return None;
        };
        let (from, to) = span.split_once('-')?;
        let (from_s, to_s) = (from.parse().ok()?, to.parse().ok()?);
        let bytes = amount.parse::<f64>().ok()? * bits_in(amount_unit)? / 8.0;
        let bps = rate.parse::<f64>().ok()? * bits_of(rate_unit)?;
        let mut sums = EndSums {
            seconds: Some(to_s - from_s),
            bytes: Some(bytes),
            bps: Some(bps),
            ..EndSums::default()
        };
        match behind {
            // UDP: jitter, then lost of all.
            [jitter, "ms", lost, ..] => {
                sums.jitter_ms = jitter.parse().ok();
                let (lost, packets) = lost.split_once('/')?;
                (sums.lost, sums.packets) = (lost.parse().ok(), packets.parse().ok());
            }
            [count, ..] => sums.retransmits = count.parse().ok(),
            [] => {}
        }
        let last = behind.last().copied().unwrap_or_default();
        let end = match last {
            "sender" => Some(RowEnd::Sender),
            "receiver" => Some(RowEnd::Receiver),
            _ => None,
        };
        let is_omitted = last == "(omitted)";
        Some(PrintedRow { id, tag, from_s, to_s, sums, is_omitted, end })
    }
}

/// Runs found so far.
#[derive(Default)]
struct PrintedRuns {
    done: Vec<Iperf3Run>,
    current: Option<PrintedRun>,
    version: Option<String>,
    started_ms: Option<u64>,
}

/// A run in the course of being read.
#[derive(Default)]
struct PrintedRun {
    run: Iperf3Run,
    is_reverse: bool,
    is_udp: bool,
    /// True after a line of dashes: the summary follows if its heading does, and with parallel streams an interval.
    after_dashes: bool,
    in_summary: bool,
    /// Series by stream and direction.
    flows: BTreeMap<(String, usize), Series>,
    /// Rows of the summary, by direction and end: that of all streams, or their sum.
    summary: BTreeMap<(usize, Option<RowEnd>), SummaryRow>,
    most_streams: usize,
    /// True if the heading of its intervals is that of a sender.
    sends: bool,
}

struct SummaryRow {
    sums: EndSums,
    is_of_all: bool,
}

impl PrintedRuns {
    fn line(&mut self, line: &str) {
        let line = line.trim_end();
        if line.contains("Connecting to host ") {
            self.begin(IperfSide::Client);
        } else if line.contains("Accepted connection from ") {
            self.begin(IperfSide::Server);
        } else if let Some((_, said)) = line.split_once("iperf3: error - ") {
            self.error(said);
        } else if let Some((_, said)) = line.split_once("iperf3: interrupt - ") {
            self.error(said);
        } else if let Some(row) = PrintedRow::of(line) {
            self.current().row(&row);
        } else if line.starts_with("iperf 3.") {
            self.version =
                line.split_whitespace().take(2).map(str::to_owned).reduce(|a, b| a + " " + &b);
        } else if let Some(time) = line.trim_start().strip_prefix("Time: ") {
            self.started_ms = date::parse_rfc2822(time);
        } else if let Some(current) = &mut self.current {
            current.other(line);
        }
    }

    fn begin(&mut self, writer: IperfSide) {
        self.done.extend(self.current.take().map(PrintedRun::finish));
        let run = Iperf3Run {
            writer,
            version: self.version.clone(),
            started_ms: self.started_ms.take(),
            streams: 1,
            ..Iperf3Run::default()
        };
        self.current = Some(PrintedRun { run, ..PrintedRun::default() });
    }

    fn current(&mut self) -> &mut PrintedRun {
        self.current.get_or_insert_with(|| PrintedRun {
            run: Iperf3Run { streams: 1, ..Iperf3Run::default() },
            ..PrintedRun::default()
        })
    }

    /// Notes an error: of the current run, or of another run that did not begin.
    fn error(&mut self, said: &str) {
        if self
            .current
            .as_ref()
            .is_some_and(|own| !own.summary.is_empty() || own.run.error.is_some())
        {
            self.done.extend(self.current.take().map(PrintedRun::finish));
        }
        self.current().run.error = Some(said.to_owned());
    }

    fn finish(mut self) -> Vec<Iperf3Run> {
        self.done.extend(self.current.take().map(PrintedRun::finish));
        self.done
    }
}

impl PrintedRun {
    fn row(&mut self, row: &PrintedRow<'_>) {
        self.after_dashes = false;
        let writes = |way: usize| (way == 0) == (self.run.writer == IperfSide::Client);
        let way = match row.tag {
            Some("TX-C" | "RX-S") => 0,
            Some("RX-C" | "TX-S") => 1,
            _ => usize::from(self.is_reverse),
        };
        self.is_udp |= row.sums.packets.is_some();
        if row.end.is_some() || self.in_summary {
            let is_of_all = row.id == "SUM";
            let new = SummaryRow { sums: row.sums, is_of_all };
            match self.summary.get_mut(&(way, row.end)) {
                Some(own) if !is_of_all && own.is_of_all => {}
                Some(own) if !is_of_all => own.sums = own.sums.and(row.sums),
                _ => {
                    self.summary.insert((way, row.end), new);
                }
            }
        } else if row.is_omitted {
            self.run.omitted_s = self.run.omitted_s.max(row.to_s);
        } else if row.id != "SUM" {
            let series = self.flows.entry((row.id.to_owned(), way)).or_default();
            let bytes = row.sums.bytes.unwrap_or(0.0).max(0.0);
            grow(series, row.to_s, row.to_s - row.from_s, bytes, writes(way));
            let streams = self.flows.keys().filter(|(_, own)| *own == way).count();
            self.most_streams = self.most_streams.max(streams);
        }
    }

    /// Reads a line that is no row.
    fn other(&mut self, line: &str) {
        let own = line.trim_start();
        if own.starts_with("- - -") {
            self.after_dashes = true;
        } else if own.starts_with("[ ID]") {
            self.in_summary |= self.after_dashes;
            // A server does not print that a run is reversed.
            let of_sender = ["Retr", "Total Datagrams"].iter().any(|word| own.contains(word));
            self.sends |= !self.in_summary && of_sender && !own.contains("Lost/Total");
            self.is_udp |= own.contains("Lost/Total") || own.contains("Total Datagrams");
        } else if own.starts_with("Reverse mode") {
            self.is_reverse = true;
        } else if let Some(cookie) = own.strip_prefix("Cookie: ") {
            self.run.cookie = Some(cookie.trim().to_owned());
        } else if let Some(name) = own.strip_prefix("snd_tcp_congestion ") {
            self.run.congestion = Some(name.trim().to_owned());
        } else if let Some(test) = own.strip_prefix("Starting Test: ") {
            let number = |after: &str| -> Option<f64> {
                let rest = test.split_once(after)?.1;
                rest.split_whitespace().next()?.parse().ok()
            };
            self.run.omitted_s = number("omitting ").unwrap_or(0.0);
            self.run.asked_s = number("seconds, ");
            self.is_udp |= test.contains("protocol: UDP");
        }
    }

    fn finish(mut self) -> Iperf3Run {
        for ((way, end), row) in self.summary {
            let sums = self.run.ways[way].get_or_insert_with(WaySums::default);
            match end {
                Some(RowEnd::Sender) => sums.sent = Some(row.sums),
                Some(RowEnd::Receiver) => sums.received = Some(row.sums),
                // Before 3.7 the row of a UDP run has the sender's bytes and the receiver's losses.
                None if self.is_udp => sums.joint = Some(row.sums),
                None => {}
            }
        }
        for way in self.run.ways.iter_mut().flatten() {
            // The number behind a rate of UDP is one of datagrams.
            let counted = [&mut way.sent, &mut way.received].into_iter().flatten();
            counted.filter(|_| self.is_udp).for_each(|sums| sums.retransmits = None);
            if way.sent.is_some() || way.received.is_some() {
                way.joint = None;
            }
        }
        // A server does not print that the run was reversed: it printed its own count alone.
        let own_alone = |way: WaySums| {
            let bytes = |end: Option<EndSums>| end.and_then(|own| own.bytes).unwrap_or(0.0);
            bytes(way.sent) > 0.0 && bytes(way.received) == 0.0
        };
        if self.run.writer == IperfSide::Server
            && self.run.ways[1].is_none()
            && self.flows.keys().all(|(_, way)| *way == 0)
            && (self.sends || self.run.ways[0].is_some_and(own_alone))
        {
            self.run.ways.swap(0, 1);
            for series in self.flows.values_mut() {
                std::mem::swap(&mut series.sent_bytes, &mut series.received_bytes);
            }
        }
        let protocol = if self.is_udp { "UDP" } else { "TCP" };
        let has_rows = !self.flows.is_empty() || self.run.has_sums();
        Iperf3Run {
            protocol: has_rows.then(|| protocol.to_owned()),
            streams: self.most_streams.max(1) as u64,
            series: self.flows.into_values().collect(),
            ..self.run
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_all_kinds_are_read() {
        let row = |line| PrintedRow::of(line).unwrap();
        let tcp =
            row("[  5]   0.00-2.00   sec   224 MBytes   939 Mbits/sec   12             sender");
        assert_eq!(
            (tcp.id, tcp.end, tcp.sums.retransmits),
            ("5", Some(RowEnd::Sender), Some(12.0))
        );
        assert_eq!(tcp.sums.bytes, Some(224.0 * 1_048_576.0));
        assert_eq!(tcp.sums.bps, Some(939e6));
        let udp = row(
            "[SUM]   0.00-1.00   sec  2.38 MBytes  20.0 Mbits/sec  0.012 ms  3/1724 (0.17%)  receiver",
        );
        assert_eq!((udp.sums.lost, udp.sums.packets), (Some(3.0), Some(1724.0)));
        assert_eq!(udp.sums.jitter_ms, Some(0.012));
        let both = row(
            "[  7][RX-C]   0.00-1.00   sec   112 KBytes   1.5 MBytes/sec                  (omitted)",
        );
        assert_eq!((both.tag, both.is_omitted), (Some("RX-C"), true));
        assert_eq!(both.sums.bps, Some(8.0 * 1.5 * 1_048_576.0));
        let stamped = row(
            "Fri Nov 20 18:02:22 2026 [  5]   1.00-2.00   sec  0.00 Bytes  0.00 bits/sec    1   1.41 KBytes",
        );
        assert_eq!((stamped.sums.bytes, stamped.sums.bps), (Some(0.0), Some(0.0)));
        for line in
            ["", "[ ID] Interval", "[  5] local 1.2.3.4 port 5 connected to 5.6.7.8 port 9", "[x"]
        {
            assert!(PrintedRow::of(line).is_none(), "{line}");
        }
        // iperf2 has one space less, and no word of its own.
        assert!(!begins(
            "Client connecting to h, TCP port 5001\n[ ID] Interval Transfer Bandwidth\n"
        ));
    }

    #[test]
    fn parallel_streams_and_both_directions_are_summed_up_once() {
        let text = "\
Connecting to host h, port 5201
[  5]   0.00-1.00   sec   10.0 MBytes  80 Mbits/sec    0   1.41 MBytes
[  7]   0.00-1.00   sec   20.0 MBytes  160 Mbits/sec    0   1.41 MBytes
[SUM]   0.00-1.00   sec   30.0 MBytes  240 Mbits/sec    0
- - - - - - - - - - - - - - - - - - - - - - - - -
[  5]   0.00-1.00   sec   10.0 MBytes  80 Mbits/sec    1             sender
[  5]   0.00-1.00   sec   9.0 MBytes  72 Mbits/sec                  receiver
[  7]   0.00-1.00   sec   20.0 MBytes  160 Mbits/sec    2             sender
[  7]   0.00-1.00   sec   19.0 MBytes  152 Mbits/sec                  receiver
[SUM]   0.00-1.00   sec   30.0 MBytes  240 Mbits/sec    3             sender
[SUM]   0.00-1.00   sec   28.0 MBytes  224 Mbits/sec                  receiver
iperf Done.
iperf3: error - the server is busy running a test. try again later
Connecting to host h, port 5201
[  5][TX-C]   0.00-1.00   sec   1.0 MBytes  8 Mbits/sec    0    sender
[  5][TX-C]   0.00-1.00   sec   1.0 MBytes  7 Mbits/sec         receiver
[  7][RX-C]   0.00-1.00   sec   2.0 MBytes  17 Mbits/sec    0    sender
[  7][RX-C]   0.00-1.00   sec   2.0 MBytes  16 Mbits/sec         receiver
";
        let (_, found) = runs(text).remove(0);
        assert_eq!(found.len(), 3);
        let up = found[0].ways[0].unwrap();
        assert_eq!((found[0].streams, found[0].series.len(), found[0].ways[1]), (2, 2, None));
        assert_eq!(up.sent.unwrap().bps, Some(240e6));
        assert_eq!(up.received.unwrap().bps, Some(224e6));
        assert!(found[1].error.as_deref().unwrap().contains("busy"));
        assert!(!found[1].has_sums());
        let received = |way: usize| found[2].ways[way].unwrap().received.unwrap().bps;
        assert_eq!([received(0), received(1)], [Some(7e6), Some(16e6)]);
    }
}
