//! Formats that are known and not read: the signs of each, and its remedy.

/// Format that is not read.
pub struct UnreadFormat {
    /// Its name for people: `a packet dump of tcpdump`.
    pub name: &'static str,
    /// Signs of such a file: all texts of one of these lists are in its first lines.
    signs: &'static [&'static [&'static str]],
    /// Reason why it is not read, or its remedy.
    pub why: &'static str,
    /// Figures that a command can list for an import; empty if there are none.
    pub figures: &'static str,
    /// The command; `FILE` stands for the file.
    command: &'static str,
    /// Options for their import.
    options: &'static str,
}

/// Format without anything, from which the others differ.
const NONE: UnreadFormat =
    UnreadFormat { name: "", signs: &[], why: "", figures: "", command: "", options: "" };

/// Number of lines in which signs are looked for.
const LINES: usize = 8;

/// All formats that are known and not read.
pub const UNREAD: &[UnreadFormat] = &[
    UnreadFormat {
        name: "what obudpst prints (the UDP speed test of RFC 9097)",
        signs: &[&["UDP Speed Test"], &["Sub-Interval[", "Delivered(%)"]],
        why: "its rates are of IP packets, and of intervals that it steers itself",
        figures: "the rates of its intervals",
        command: "sed -n 's/^Sub-Interval.*IP): *//p' FILE",
        options: "--unit Mbit/s",
    },
    UnreadFormat {
        name: "what bwping prints",
        signs: &[&["Target: ", "transfer speed: "], &["Periodic: pkts tx/rx:"]],
        why: "its means are wrong in some versions",
        figures: "the last round trip of each line",
        command: "sed -n 's|.*max/avg/est: *\\([0-9.]*\\)/.*|\\1|p' FILE",
        options: "--unit ms",
    },
    UnreadFormat {
        name: "what iperf of ESP-IDF prints",
        signs: &[&["Interval Bandwidth\n"], &["Interval       Bandwidth\n"]],
        why: "nothing in it tells a sender from a receiver",
        figures: "the mean in its last line",
        command: "tail -n 1 FILE | awk '{print $(NF-1)}'",
        options: "--unit Mbit/s --each trial",
    },
    UnreadFormat {
        name: "the table of Kubernetes' netperf benchmark",
        signs: &[&["MSS ", ", Maximum,"]],
        why: "each of its rows is another test",
        figures: "the largest rate of each row",
        command: "cut -d, -f2 FILE",
        options: "--unit Mbit/s --each trial",
    },
    UnreadFormat {
        name: "what uperf prints",
        signs: &[
            &["Allocating shared memory", "Txn"],
            &["Txn1 ", "Txn2 "],
            &["Total ", "(s) = ", "op/s"],
        ],
        why: "it does not say what its profile measured",
        figures: "the rate of its total",
        command: "sed -n 's|^Total.*= *\\([0-9.]*\\)Mb/s.*|\\1|p' FILE",
        options: "--unit Mbit/s --each trial",
    },
    UnreadFormat {
        name: "what ntttcp prints",
        signs: &[&["NTTTCP for Linux"], &["#####  Totals:  #####"]],
        why: "it is of one end, and does not say of which",
        figures: "its total",
        command: "sed -n 's/.*throughput[^:]*: *\\([0-9.]*\\)Gbps.*/\\1/p' FILE | tail -n 1",
        options: "--unit Gbit/s --each trial",
    },
    UnreadFormat {
        name: "what the perf client of quinn prints",
        signs: &[&["Upload Duration", "Download Duration"]],
        why: "its percentiles are over streams of all time so far; `bulk` of quinn is read",
        ..NONE
    },
    UnreadFormat {
        name: "the output of curl under names of its user's own",
        signs: &[&["TTFB:"], &["Total time:"], &["total time:"]],
        why: "the names are no names of curl's; `curl -w '%{json}\\n'` writes all times under names that are read",
        figures: "the last number of each line",
        command: "sed -n 's/.*[^0-9.]\\([0-9][0-9.]*\\)[s ]*$/\\1/p' FILE",
        options: "--unit s --each trial",
    },
    UnreadFormat {
        name: "a packet dump of tcpdump",
        signs: &[
            &[" IP ", " > ", ": Flags ["],
            &[" IP ", " > ", ": UDP, length"],
            &[" IP6 ", " > ", ": Flags ["],
        ],
        why: "it lacks half of each header; the capture itself is read, which `tcpdump -w FILE` writes",
        ..NONE
    },
    UnreadFormat {
        name: "a list of packets from Wireshark",
        signs: &[&["\"No.\",\"Time\",\"Source\""]],
        why: "it lacks half of each header; the capture itself is read, as Wireshark saves it",
        ..NONE
    },
    UnreadFormat {
        name: "a qlog of QUIC",
        signs: &[&["\"qlog_version\""], &["\"qlog_format\""]],
        why: "it is a log of events; `latest_rtt` in its metrics are round trips, to import as a list",
        ..NONE
    },
    UnreadFormat {
        name: "an archive of a browser (HAR)",
        signs: &[
            &["\"log\"", "\"creator\"", "\"entries\""],
            &["\"log\"", "\"creator\"", "\"pages\""],
        ],
        why: "its times are of pages with many transfers; `jq '.log.entries[].time' FILE` lists them in milliseconds",
        ..NONE
    },
    UnreadFormat {
        name: "a table of JMeter",
        signs: &[&["timeStamp,elapsed,label"]],
        why: "its requests are of many kinds, by their labels",
        figures: "the time of each request",
        command: "cut -d, -f2 FILE",
        options: "--unit ms",
    },
    UnreadFormat {
        name: "what traceroute prints",
        signs: &[&["traceroute to ", " hops max"], &["Tracing route to "]],
        why: "three answers of each hop say little about the last one; `mtr -r`, `-j` and `--raw` are read, and `ping`",
        ..NONE
    },
    UnreadFormat {
        name: "what ss prints of sockets",
        signs: &[&["State", "Recv-Q", "Send-Q"], &["cubic wscale:"], &["bbr wscale:"]],
        why: "it is the kernel's state of a moment",
        figures: "the smoothed round trips",
        command: "sed -n 's|.* rtt:\\([0-9.]*\\)/.*|\\1|p' FILE",
        options: "--unit ms",
    },
    UnreadFormat {
        name: "a page of metrics for Prometheus",
        signs: &[&["# HELP ", "# TYPE "]],
        why: "those of blackbox_exporter are read, and of others only a person knows which is a measurement; \
              `grep '^NAME ' FILE | awk '{print $2}'` leaves one",
        ..NONE
    },
];

/// Returns the format of a file with this beginning, if it is known and not read.
pub(super) fn recognised(head: &str) -> Option<&'static UnreadFormat> {
    let lines = head.split_inclusive('\n').filter(|line| !line.trim().is_empty());
    let first: String = lines.take(LINES).collect();
    let has_all = |signs: &&[&str]| signs.iter().all(|sign| first.contains(sign));
    UNREAD.iter().find(|format| format.signs.iter().any(&has_all))
}

impl UnreadFormat {
    /// Returns the refusal of a file with this name.
    pub(super) fn refusal(&self, name: &str) -> String {
        let why = self.why.replace("FILE", &typed(name));
        let refusal = format!("this is {}, which is not read: {why}", self.name);
        match self.command(name) {
            Some(command) => format!("{refusal}; to import {}: `{command}`", self.figures),
            None => refusal,
        }
    }

    /// Returns the command that imports figures of a file with this name.
    pub fn command(&self, name: &str) -> Option<String> {
        let command = self.command.replace("FILE", &typed(name));
        let import = format!("{command} | deadheat import - {}", self.options);
        (!self.figures.is_empty()).then_some(import)
    }
}

/// Returns a name as typed in a shell.
fn typed(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_./-+,:@%=".contains(c);
    match name {
        "" | "-" => "FILE".to_owned(),
        _ if name.chars().all(is_plain) => name.to_owned(),
        _ => format!("'{}'", name.replace('\'', "'\\''")),
    }
}
