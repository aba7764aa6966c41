//! Outcome of a test: the counts of its streams, as JSON for the client, and in words as iperf3's server prints them.

use std::fmt::Write;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::asked::{AskedTest, StreamProtocol, TestWay};
use super::course::Course;
use super::tally::DatagramTally;
use deadheat_base::time::Nanos;

const SECOND: u64 = 1_000_000_000;

/// Largest number of lines of intervals in the words.
const MOST_LINES: usize = 600;

/// Counts of one stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StreamTally {
    pub(super) is_sender: bool,
    /// Ends of the stream, in words.
    pub(super) ends: String,
    /// Bytes that count.
    pub(super) bytes: u64,
    /// Bytes by second of the test.
    by_second: Vec<u64>,
    begin: Nanos,
    counts_from: Nanos,
    /// True until the time from which bytes count.
    is_omitting: bool,
    /// Segments that were sent again; `None` where it does not apply.
    pub(super) retransmits: Option<u64>,
    pub(super) datagrams: Option<DatagramTally>,
}

impl StreamTally {
    pub(super) fn new(course: &Course<'_>, is_sender: bool, ends: String) -> StreamTally {
        let (begin, counts_from) = (course.begin, course.counts_from);
        StreamTally {
            is_sender,
            ends,
            bytes: 0,
            by_second: Vec::new(),
            begin,
            counts_from,
            is_omitting: counts_from > begin,
            retransmits: None,
            datagrams: None,
        }
    }

    /// Returns true once, at the time from which bytes count: all before does not.
    pub(super) fn begins_to_count(&mut self, now: Nanos) -> bool {
        let begins = self.is_omitting && now >= self.counts_from;
        if begins {
            self.is_omitting = false;
            self.bytes = 0;
            if let Some(datagrams) = &mut self.datagrams {
                datagrams.omit();
            }
        }
        begins
    }

    /// Adds bytes that passed at `now`.
    pub(super) fn add(&mut self, now: Nanos, bytes: u64) {
        self.bytes += bytes;
        let second = ((now - self.begin).0 / SECOND) as usize;
        // A test lasts no longer than its limits, so neither does this.
        if self.by_second.len() <= second {
            self.by_second.resize(second + 1, 0);
        }
        self.by_second[second] += bytes;
    }
}

/// CPU time of threads: of the program, and of the kernel for it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct CpuTime {
    pub(super) user: Nanos,
    pub(super) system: Nanos,
}

impl CpuTime {
    /// Returns the time of the calling thread so far.
    pub(super) fn of_thread() -> CpuTime {
        // SAFETY: an all-zero rusage is valid, and the call fills it in.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage
        };
        let nanos =
            |time: libc::timeval| Nanos(time.tv_sec as u64 * SECOND + time.tv_usec as u64 * 1_000);
        CpuTime { user: nanos(usage.ru_utime), system: nanos(usage.ru_stime) }
    }

    pub(super) fn beside(self, other: CpuTime) -> CpuTime {
        CpuTime { user: self.user + other.user, system: self.system + other.system }
    }
}

/// Outcome of a test.
pub(super) struct Outcome {
    pub(super) asked: AskedTest,
    /// Streams in the order of their numbers.
    pub(super) streams: Vec<StreamTally>,
    pub(super) cpu: CpuTime,
    /// Time since the begin, and since bytes count.
    pub(super) took: Nanos,
    pub(super) counted: Nanos,
    /// Congestion control of the streams that were sent from here.
    pub(super) congestion: Option<String>,
}

/// Returns the number of a stream: iperf3 leaves out 2.
fn number(at: usize) -> usize {
    if at == 0 { 1 } else { at + 2 }
}

impl Outcome {
    /// Returns the results for the client.
    pub(super) fn to_json(&self, heading: &str) -> Value {
        let share = |time: Nanos| time.0 as f64 * 100.0 / self.took.0.max(1) as f64;
        let has_retransmits = match (self.asked.way, self.asked.over) {
            (TestWay::Up, _) => -1,
            (_, StreamProtocol::Tcp) => 1,
            (_, StreamProtocol::Udp) => 0,
        };
        let mut results = json!({
            "cpu_util_total": share(self.cpu.user + self.cpu.system),
            "cpu_util_user": share(self.cpu.user),
            "cpu_util_system": share(self.cpu.system),
            "sender_has_retransmits": has_retransmits,
        });
        if let Some(congestion) = &self.congestion {
            results["congestion_used"] = congestion.as_str().into();
        }
        if self.asked.wants_output {
            results["server_output_text"] = self.words(heading).into();
        }
        let streams = self.streams.iter().enumerate().map(|(at, stream)| self.stream(at, stream));
        results["streams"] = streams.collect();
        results
    }

    fn stream(&self, at: usize, stream: &StreamTally) -> Value {
        let datagrams = stream.datagrams.clone().unwrap_or_default();
        json!({
            "id": number(at),
            "bytes": stream.bytes,
            "retransmits": stream.retransmits.map_or(-1, |count| count as i64),
            "jitter": datagrams.jitter_s,
            "errors": datagrams.lost,
            "omitted_errors": datagrams.omitted_lost,
            "packets": datagrams.packets,
            "omitted_packets": datagrams.omitted_packets,
            "start_time": 0,
            "end_time": self.counted.0 as f64 / SECOND as f64,
        })
    }

    /// Returns the account of this end in words.
    fn words(&self, heading: &str) -> String {
        let mut words = format!("{heading}\n");
        for (at, stream) in self.streams.iter().enumerate() {
            let _ = writeln!(words, "[{:3}] {}", number(at), stream.ends);
        }
        words.push_str("[ ID] Interval           Transfer     Bitrate\n");
        let lines = self.streams.iter().map(|stream| stream.by_second.len()).max().unwrap_or(0);
        let lines = lines.min(MOST_LINES / self.streams.len().max(1));
        for second in 0..lines {
            let to = (self.took.0 as f64 / SECOND as f64).min(second as f64 + 1.0);
            let span = (second as f64, to);
            for (at, stream) in self.streams.iter().enumerate() {
                let bytes = stream.by_second.get(second).copied().unwrap_or(0);
                line(&mut words, number(at), span, bytes);
                words.push('\n');
            }
        }
        words.push_str("- - - - - - - - - - - - - - - - - - - - - - - - -\n");
        let span = (0.0, self.counted.0 as f64 / SECOND as f64);
        for (at, stream) in self.streams.iter().enumerate() {
            line(&mut words, number(at), span, stream.bytes);
            if let Some(datagrams) = &stream.datagrams {
                let lost = datagrams.lost.saturating_sub(datagrams.omitted_lost);
                let packets = datagrams.packets.saturating_sub(datagrams.omitted_packets);
                let share = lost as f64 * 100.0 / packets.max(1) as f64;
                let jitter_ms = datagrams.jitter_s * 1e3;
                let _ = write!(words, "  {jitter_ms:.3} ms  {lost}/{packets} ({share:.2}%)");
            }
            let _ = writeln!(words, "  {}", if stream.is_sender { "sender" } else { "receiver" });
        }
        words
    }
}

/// Writes a line of an interval, from and to these seconds.
fn line(words: &mut String, number: usize, (from, to): (f64, f64), bytes: u64) {
    let rate = bytes as f64 * 8.0 / (to - from).max(1e-9);
    let (transfer, rate) = (scaled(bytes as f64, 1024.0), scaled(rate, 1000.0));
    let _ = write!(words, "[{number:3}] {from:6.2}-{to:<6.2} sec  {transfer}Bytes  {rate}bits/sec");
}

/// Returns a figure of three digits or so, with its unit's letter, in steps of `step`.
fn scaled(mut figure: f64, step: f64) -> String {
    let mut letters = ["", "K", "M", "G", "T"].into_iter();
    let mut letter = letters.next().unwrap_or_default();
    for next in letters {
        if figure < step {
            break;
        }
        (figure, letter) = (figure / step, next);
    }
    let digits = if figure < 9.995 { 2 } else { usize::from(figure < 99.95) };
    format!("{figure:.digits$} {letter}")
}

/// Returns both ends of a stream in words, as iperf3 has them.
pub(super) fn ends(local: SocketAddr, peer: SocketAddr) -> String {
    format!(
        "local {} port {} connected to {} port {}",
        local.ip(),
        local.port(),
        peer.ip(),
        peer.port()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(over: StreamProtocol, way: TestWay) -> Outcome {
        let limits = super::super::super::testing::WIDE;
        let asked = AskedTest::read(&json!({"get_server_output": 1}), &limits).unwrap();
        let stream = StreamTally {
            is_sender: way == TestWay::Down,
            ends: "local a connected to b".into(),
            bytes: 1_500_000,
            by_second: vec![1_000_000, 500_000],
            begin: Nanos(0),
            counts_from: Nanos(0),
            is_omitting: false,
            retransmits: (way == TestWay::Down).then_some(3),
            datagrams: None,
        };
        Outcome {
            asked: AskedTest { over, way, ..asked },
            streams: vec![stream.clone(), stream],
            cpu: CpuTime { user: Nanos::from_millis(150), system: Nanos::from_millis(300) },
            took: Nanos::from_millis(1_500),
            counted: Nanos::from_millis(1_500),
            congestion: Some("cubic".into()),
        }
    }

    /// Members that `get_results` of iperf3 requires.
    #[test]
    fn results_have_all_that_a_client_requires() {
        let results = outcome(StreamProtocol::Tcp, TestWay::Down).to_json("heading");
        assert_eq!(results["cpu_util_total"], 30.0);
        assert_eq!(results["sender_has_retransmits"], 1);
        let ids: Vec<u64> = results["streams"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_u64().unwrap())
            .collect();
        assert_eq!(ids, [1, 3], "2 is left out");
        let stream = &results["streams"][1];
        for member in
            ["bytes", "retransmits", "jitter", "errors", "packets", "start_time", "end_time"]
        {
            assert!(stream[member].is_number(), "{member}: {stream}");
        }
        assert_eq!((&stream["retransmits"], &stream["end_time"]), (&json!(3), &json!(1.5)));
        let up = outcome(StreamProtocol::Udp, TestWay::Up).to_json("heading");
        assert_eq!(
            (&up["sender_has_retransmits"], &up["streams"][0]["retransmits"]),
            (&json!(-1), &json!(-1))
        );
    }

    #[test]
    fn words_have_each_second_and_the_sum() {
        let words = outcome(StreamProtocol::Tcp, TestWay::Up).words("Accepted connection");
        let lines: Vec<&str> = words.lines().collect();
        assert_eq!(lines[0], "Accepted connection");
        assert_eq!(lines[4], "[  1]   0.00-1.00   sec  977 KBytes  8.00 Mbits/sec");
        assert_eq!(lines[6], "[  1]   1.00-1.50   sec  488 KBytes  8.00 Mbits/sec");
        assert_eq!(lines[9], "[  1]   0.00-1.50   sec  1.43 MBytes  8.00 Mbits/sec  receiver");
    }
}
