//! Summaries of programs that measure between two hosts, and of probes.

use super::readings::Repeats;
use super::{Format, SUMMARY};

/// Information that the rate of a sender lacks.
const RECEIVER: &[&str] = &["what the receiver had"];

/// These summaries.
pub(super) static FORMATS: &[Format] = &[
    Format {
        id: "nuttcp",
        summary: "what nuttcp prints at its end, and -fparse; TCP and UDP",
        signs: &[&[" MB / ", " sec = ", " Mbps"], &["megabytes=", "rate_Mbps="]],
        lines: &[
            "* MB / <took:s> sec = <goodput:Mbit/s> Mbps * %TX * %RX …",
            "… %RX <retransmits> retrans …",
            "… %RX … <rtt:ms> msRTT",
            "… %RX <failed> / <asked> drop/pkt …",
            "… rate_Mbps=<goodput:Mbit/s> …",
            "… real_seconds=<took:s> …",
            "… retrans=<retransmits> …",
            "… drop=<failed> …",
            "… pkt=<asked> …",
        ],
        ..SUMMARY
    },
    Format {
        id: "ethr",
        summary: "what ethr's client prints of bandwidth (TCP, UDP) and latency",
        signs: &[
            &["Ethr:", "Bits/s"],
            &["[  ID ]   Protocol    Interval      Bits/s"],
            &["   99.99%       Max"],
        ],
        lines: &[
            "[ SUM] * * sec <sent:bit/s> …",
            "[SUM] * * sec <sent:bit/s> …",
            "[ * * * sec <sent_one:bit/s> …",
            "<rtt_mean> * <rtt_p50> <rtt_p90> * <rtt_p99> <rtt_p999> * *",
        ],
        repeats: Repeats::Intervals("Ethr: "),
        unknown: RECEIVER,
        says: &["Its rates are means of its intervals of a second."],
        ..SUMMARY
    },
    Format {
        id: "perftest",
        summary: "perftest: ib_send_bw, ib_write_bw, ib_read_bw, and the same in _lat; each size is a contender",
        signs: &[&["#bytes", "#iterations"]],
        columns: &[
            ("#bytes", "arm"),
            ("#iterations", "samples"),
            ("BW peak[Gb/sec]", ""),
            ("BW peak[MB/sec]", ""),
            ("BW peak[MiB/sec]", ""),
            ("BW average[Gb/sec]", "goodput:Gbit/s"),
            ("BW average[MB/sec]", "goodput:MiB/s"),
            ("BW average[MiB/sec]", "goodput:MiB/s"),
            ("MsgRate[Mpps]", ""),
            ("CPU_Util[%]", ""),
            ("t_min[usec]", ""),
            ("t_max[usec]", ""),
            ("t_typical[usec]", "latency_p50:us"),
            ("t_avg[usec]", "latency_mean:us"),
            ("t_stdev[usec]", ""),
            ("99% percentile[usec]", "latency_p99:us"),
            ("99.9% percentile[usec]", "latency_p999:us"),
            ("tps average", ""),
        ],
        says: &[
            "Its latency of sends and writes is half of a round trip, and of reads a whole one.",
        ],
        ..SUMMARY
    },
    Format {
        id: "qperf",
        summary: "qperf of linux-rdma: tcp_bw, tcp_lat, udp_bw, udp_lat and others; each protocol is a contender",
        signs: &[&["_bw:\n", "bw  = "], &["_lat:\n", "latency  = "]],
        lines: &[
            "<arm>:",
            "bw = <goodput+>",
            "recv_bw = <goodput+>",
            "send_bw = <sent+>",
            "latency = <latency_mean+>",
        ],
        says: &["Its latency is half of a round trip."],
        ..SUMMARY
    },
    Format {
        id: "quinn-bulk",
        summary: "bulk of quinn's benchmarks; flows of clients are added",
        signs: &[&["Transferred ", " streams in "]],
        lines: &["Overall <way> stats:", "Transferred * bytes on * streams in <took> (<goodput+>"],
        repeats: Repeats::Flows("Client 0 stats:"),
        ..SUMMARY
    },
    Format {
        id: "secnetperf",
        summary: "secnetperf of msquic: uploads, downloads and requests",
        signs: &[&["Result: ", " kbps ("], &["Result: ", " RPS"]],
        lines: &[
            "Result: Upload * bytes @ <goodput:kbit/s> kbps (<took+>",
            "Result: Download * bytes @ <goodput:kbit/s> kbps (<took+>",
            "Result: <transactions> RPS, Latency,us … 50th: <request_p50:us>, 90th: <request_p90:us>, 99th: \
             <request_p99:us>, 99.9th: <request_p999:us>, …",
            "Result: <transactions> RPS",
        ],
        says: &["Of an upload its rate counts what was acknowledged."],
        ..SUMMARY
    },
    Format {
        id: "sshping",
        summary: "sshping, alone or of several tunnels in columns (as quictun prints it); each column is a contender",
        signs: &[&["ssh-Login-Time:", "Echo-Count:"]],
        labels: &[
            ("ssh-Login-Time", "login"),
            ("Median-Latency", "rtt_p50"),
            ("Average-Latency", "rtt_mean"),
            ("Upload-Rate", "upload"),
            ("Download-Rate", "download"),
        ],
        ..SUMMARY
    },
    Format {
        id: "lagscope",
        summary: "what lagscope prints at its end",
        signs: &[&["lagscope ", "Average = "]],
        lines: &[
            "… Number of successful Pings: <samples>",
            "… Average = <rtt_mean>",
            "50% <rtt_p50:us>",
            "90% <rtt_p90:us>",
            "99% <rtt_p99:us>",
            "99.9% <rtt_p999:us>",
        ],
        repeats: Repeats::Intervals("lagscope "),
        ..SUMMARY
    },
    Format {
        id: "blackbox",
        summary: "probes of blackbox_exporter, as /probe answers them",
        signs: &[&["probe_success ", "probe_duration_seconds "]],
        lines: &[
            "probe_success <ok>",
            "probe_duration_seconds <probe:s>",
            "probe_dns_lookup_time_seconds <lookup:s>",
            "probe_icmp_duration_seconds{phase=\"rtt\"} <rtt:s>",
            "probe_http_duration_seconds{phase=\"connect\"} <connect:s>",
            "probe_http_duration_seconds{phase=\"processing\"} <first_byte:s>",
        ],
        trial: "a probe",
        ..SUMMARY
    },
];
