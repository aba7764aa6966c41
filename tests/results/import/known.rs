//! Formats that people have from elsewhere (`public/`: files rebuilt after public reports): each is read, or named with what
//! would work, and the commands that are printed work when typed.

use std::process::Command;

use deadheat::import::unread::UNREAD;
use deadheat::measurements::Account;

use super::*;

/// A file rebuilt after a public report.
fn public(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results/import/public").join(name)
}

fn read(name: &str) -> Outcome {
    Import::new([public(name)]).run(None).unwrap()
}

/// Imports a file with this content.
fn read_text(content: &str) -> Outcome {
    let written = Written::new(&[("x.txt", content.as_bytes())]);
    Import::new([written.path("x.txt")]).run(None).unwrap()
}

fn refusal(path: &Path) -> String {
    Import::new([path]).run(None).unwrap_err().to_string()
}

/// Figures of the trial with a number: name and value.
type Figures = &'static [(usize, &'static str, f64)];

/// Public files of which the figures stand behind names: file, format, and figures.
const SUMMARIES: &[(&str, &str, Figures)] = &[
    (
        "h2load-h3.txt",
        "h2load",
        &[
            (0, "transactions_per_s", 1_424.0),
            (0, "request_mean_ns", 70.15e6),
            (0, "connect_mean_ns", 569.44e6),
            (0, "first_byte_mean_ns", 689.34e6),
            (0, "loss_share", 0.0),
        ],
    ),
    (
        "wrk-latency.txt",
        "wrk",
        &[
            (0, "transactions_per_s", 1_344_512.65),
            (0, "request_mean_ns", 2.36e6),
            (0, "request_p50_ns", 1.05e6),
            (0, "request_p99_ns", 17.28e6),
        ],
    ),
    (
        "oha-h2.json",
        "oha",
        &[
            (0, "transactions_per_s", 114.846_114_819_600_33),
            (0, "request_p50_ns", 411_378_375.0),
            (0, "loss_share", 0.0),
        ],
    ),
    // What was under way at the end did not fail.
    ("oha-h3.json", "oha", &[(0, "request_p90_ns", 610e6), (0, "loss_share", 0.0)]),
    (
        "ookla.json",
        "ookla",
        &[
            (0, "goodput_down_bps", 93_593_840.0),
            (0, "goodput_up_bps", 36_098_728.0),
            (0, "rtt_ns", 11_873_000.0),
            (0, "rtt_download_ns", 38.1e6),
            (0, "loss_share", 0.0),
        ],
    ),
    (
        "speedtest-cli.json",
        "speedtest-cli",
        &[(0, "goodput_down_bps", 93_593_840.0), (0, "rtt_ns", 11_873_000.0)],
    ),
    (
        "ndt7.jsonl",
        "ndt7",
        &[
            (0, "goodput_down_bps", 92.54e6),
            (0, "goodput_up_bps", 36.2e6),
            (0, "rtt_min_ns", 12.3e6),
        ],
    ),
    (
        "networkquality-s.txt",
        "networkquality",
        &[
            (0, "goodput_down_bps", 850.825e6),
            (0, "goodput_up_bps", 879.882e6),
            (0, "rtt_ns", 22_159_000.0),
            (0, "rtt_download_ns", 57_423_000.0),
            (0, "round_trips_per_min_upload", 8_308.0),
        ],
    ),
    ("nuttcp-tcp.txt", "nuttcp", &[(0, "goodput_bps", 9_836_404_100.0), (0, "rtt_ns", 100_000.0)]),
    ("quinn-bulk.txt", "quinn-bulk", &[(0, "goodput_bps", 845_403_914.0)]),
    ("secnetperf.txt", "secnetperf", &[(0, "goodput_bps", 1_843_921_000.0)]),
    ("blackbox.prom", "blackbox", &[(0, "probe_ns", 12_873_945.0), (0, "rtt_ns", 11_402_000.0)]),
    (
        "netperf-omni-O-two-rows.txt",
        "netperf",
        &[
            (0, "rtt_p50_ns", 18_000.0),
            (1, "rtt_p50_ns", 19_000.0),
            (0, "rtt_p99_ns", 44_000.0),
            (1, "rtt_p99_ns", 43_000.0),
            (0, "rtt_mean_ns", 20_080.0),
            (0, "rtt_by_rate_ns", 20_211.0),
            (1, "rtt_by_rate_ns", 20_188.0),
            (0, "transactions_per_s", 49_478.929),
            (1, "transactions_per_s", 49_534.434),
        ],
    ),
    ("netperf-O-stream.txt", "netperf", &[(0, "goodput_bps", 9_412_350_000.0)]),
    (
        "netperf-O-seven.txt",
        "netperf",
        &[(0, "rtt_p90_ns", 23_000.0), (0, "rtt_mean_ns", 20_080.0)],
    ),
    (
        "netperf-omni-confidence.csv",
        "netperf",
        &[
            (0, "transactions_per_s", 3_313.49),
            (0, "rtt_p50_ns", 295_000.0),
            (0, "rtt_p90_ns", 330_000.0),
            (0, "rtt_p99_ns", 406_000.0),
        ],
    ),
    (
        "netperf-tcp_rr.txt",
        "netperf",
        &[(0, "transactions_per_s", 12_507.44), (0, "rtt_mean_ns", 1e9 / 12_507.44)],
    ),
];

#[test]
fn figures_of_public_files_are_those_that_stand_in_them() {
    for (name, format, figures) in SUMMARIES {
        let outcome = read(name);
        assert_eq!(outcome.imported.as_ref().unwrap().files[0].format, *format, "{name}");
        for (trial, metric, want) in *figures {
            let metrics = &outcome.trials[*trial].record.metrics;
            let got = metrics.get(*metric).copied().unwrap_or(f64::NAN);
            assert!((got - want).abs() <= want * 1e-9, "{name} {metric}: {got}, {metrics:?}");
        }
    }
    assert_eq!(read("nuttcp-tcp.txt").trials.len(), 1, "its intervals are no trials");
    let seven = read("netperf-O-seven.txt");
    assert!(!trial(&seven).record.metrics.contains_key("transactions_per_s"));
    let oha = read("oha-h2.json");
    assert!(unknown(&oha).contains("Its request p99 has fewer than ten"), "{}", unknown(&oha));
    let impossible = read("ib_send_bw-negative-average.txt");
    assert!(!impossible.trials[0].record.valid && trial(&impossible).record.metrics.is_empty());
    assert!(unknown(&impossible).contains("Impossible, and in no figure: goodput of -4070000000"));
}

/// Requests and answers of each trial.
fn counts(outcome: &Outcome) -> Vec<(u64, u64)> {
    let of = |own: &Account| (own.sent, own.delivered);
    let trials = outcome.trials.iter();
    trials.map(|trial| trial.record.ledger.round_trip.as_ref().map_or((0, 0), of)).collect()
}

#[test]
fn pings_of_platforms_routers_and_fpings_json_are_read() {
    let atlas = read("ripe-atlas-ping.json");
    assert_eq!(counts(&atlas), [(3, 2), (3, 0)]);
    assert_eq!(atlas.contenders.len(), 2, "two probes are two hosts");
    assert_eq!(atlas.trials[1].record.network_errors, 1);
    assert_eq!(atlas.started, "2017-11-14T11:46:40Z");
    let globalping = read("globalping.json");
    assert_eq!(counts(&globalping), [(4, 3), (15, 14)]);
    assert_eq!(globalping.trials[1].record.metrics["rtt_mean_ns"], 276_093_000.0);
    let sums = read("fping-J-summary.jsonl");
    assert_eq!(counts(&sums), [(10, 9), (10, 0)]);
    assert_eq!(figure(&sums, "rtt_mean_ns"), 143_000.0);
    let each = read("fping-J-C.jsonl");
    assert_eq!(counts(&each), [(3, 2)]);
    assert_eq!(figure(&each, "rtt_mean_ns"), 57_000.0);
    assert_eq!(trial(&each).record.rtt_ns.as_ref().unwrap().n, 3, "each sample once");
    assert_eq!(counts(&read("ping-sros.txt")), [(5, 5)]);
}

/// Texts of programs of which there is no public file: format, text, trials, and a figure of the first.
const TEXTS: &[(&str, &str, usize, &str, f64)] = &[
    (
        "nuttcp",
        "  118.9453 MB /  10.00 sec =   99.7739 Mbps 0 %TX 1 %RX 200 / 121800 drop/pkt 0.16 %loss\n",
        1,
        "loss_share",
        200.0 / 121_800.0,
    ),
    (
        "nuttcp",
        "megabytes=1131.1250 real_seconds=1.00 rate_Mbps=9488.3612 tx_cpu=19 rx_cpu=43 retrans=7 rtt_ms=0.10\n",
        1,
        "goodput_bps",
        9_488_361_200.0,
    ),
    (
        "ethr",
        "Ethr: Comprehensive Network Performance Measurement Tool (Version: v1.0.0)\nUsing destination: h\n\
         [  ID ]   Protocol    Interval      Bits/s\n[    5]     TCP      000-001 sec     4.5G\n\
         [    7]     TCP      000-001 sec     1.5G\n[  SUM]     TCP      000-001 sec     6G\n\
         [    5]     TCP      001-002 sec     5G\n[  SUM]     TCP      001-002 sec     8G\n",
        1,
        "sent_bps",
        7e9,
    ),
    (
        "ethr",
        "Ethr: x\n      Avg       Min       50%       90%       95%       99%     99.9%    99.99%       Max\n\
         \x20 83.28us   72.60us   80.00us   90.00us   95.00us  110.00us  150.00us  200.00us  300.00us\n",
        1,
        "rtt_p99_ns",
        110_000.0,
    ),
    (
        "perftest",
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
         99% percentile[usec]   99.9% percentile[usec] \n 2       10000          0.79           5.11         0.82     \
         0.83      \t0.04\t\t0.95    \t\t2.06   \n",
        1,
        "latency_p99_ns",
        950.0,
    ),
    (
        "perftest",
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 65536      5000           \
         11012.00            11000.50\t\t   0.176008\n 131072     5000           11012.00            11001.50    0.088\n",
        2,
        "goodput_bps",
        11_000.5 * 8.0 * 1_048_576.0,
    ),
    (
        "qperf",
        "tcp_bw:\n    bw  =  1.17 GB/sec\ntcp_lat:\n    latency  =  14.5 us\nudp_lat:\n    latency  =  12 us\n",
        2,
        "goodput_bps",
        9.36e9,
    ),
    (
        "k6",
        "     http_req_duration..............: avg=144.56ms min=104.11ms med=110.47ms max=1.14s p(90)=203.54ms p(95)=215.95ms\n\
         \x20    http_req_failed................: 10.00% ✓ 18 ✗ 162\n     http_reqs......................: 180 4.36938/s\n",
        1,
        "loss_share",
        0.1,
    ),
    (
        "k6",
        "{\"metrics\": {\"http_reqs\": {\"count\": 180, \"rate\": 4.3}, \"http_req_duration\": {\"avg\": 144.5, \"med\": 110.25, \
         \"p(90)\": 203.5}, \"http_req_failed\": {\"passes\": 0, \"fails\": 180, \"value\": 0}}}",
        1,
        "request_p50_ns",
        110_250_000.0,
    ),
    (
        "oha",
        "Summary:\n  Total:\t2.5017 secs\n  Slowest:\t0.0500 secs\n  Average:\t0.0200 secs\n  Requests/sec:\t2000.5\n\n\
         Latency distribution:\n  50% in 0.0180 secs\n  99% in 0.0410 secs\n",
        1,
        "request_p99_ns",
        41e6,
    ),
    (
        "vegeta",
        "Requests      [total, rate, throughput]         1200, 120.00, 65.87\n\
         Latencies     [min, mean, 50, 90, 95, 99, max]  14.4ms, 1.2s, 950ms, 2.1s, 2.5s, 3.1s, 4.2s\n",
        1,
        "request_p90_ns",
        2.1e9,
    ),
    (
        "ab",
        "This is ApacheBench, Version 2.3\nComplete requests:      1000\nFailed requests:        10\n\
         Requests per second:    1234.50 [#/sec] (mean)\nTime per request:       8.100 [ms] (mean)\n\
         Percentage of the requests served within a certain time (ms)\n  50%      5\n  90%     12\n",
        1,
        "request_p50_ns",
        5e6,
    ),
    (
        "librespeed",
        "[{\"timestamp\":\"2024-03-01T10:20:30Z\",\"bytes_sent\":1,\"bytes_received\":1,\"ping\":11,\"jitter\":0.4,\
         \"upload\":36.1,\"download\":93.5,\"share\":\"\"}]",
        1,
        "goodput_down_bps",
        93.5e6,
    ),
    (
        "fast",
        "{\"downloadSpeed\": 93, \"uploadSpeed\": 36, \"downloaded\": 100, \"latency\": 11, \"downloadUnit\": \"Mbps\"}",
        1,
        "goodput_up_bps",
        36e6,
    ),
    (
        "networkquality",
        "{\"base_rtt\": 22.5, \"dl_throughput\": 93593840, \"ul_throughput\": 36098728, \"responsiveness\": 1044}",
        1,
        "round_trips_per_min",
        1_044.0,
    ),
    (
        "sshping",
        "                            QUIC            TCP\nssh-Login-Time:              2.47  s         2.60  s\n\
         Minimum-Latency:             58.3 ms         59.0 ms\nMedian-Latency:              59.5 ms         59.8 ms\n\
         Average-Latency:             60.1 ms         60.1 ms\nEcho-Count:                 1.00 kB         1.00 kB\n\
         Upload-Rate:                 811 kB/s        810 kB/s\nDownload-Rate:              2.45 MB/s       1.80 MB/s\n",
        2,
        "rtt_p50_ns",
        59.5e6,
    ),
    (
        "lagscope",
        "lagscope 1.0.1\n01:13:26 INFO: Ping statistics for 10.0.0.4:\n\
         01:13:26 INFO:    Number of successful Pings: 100000\n\
         01:13:26 INFO:    Minimum = 35.500us, Maximum = 6997.250us, Average = 47.863us\n\n\
         Percentile       Latency(us)\n     50%         39\n   99.9%         530\n",
        1,
        "rtt_p999_ns",
        530_000.0,
    ),
];

#[test]
fn figures_of_other_programs_are_read_by_their_names() {
    for (format, text, trials, metric, want) in TEXTS {
        let outcome = read_text(text);
        assert_eq!(outcome.imported.as_ref().unwrap().files[0].format, *format, "{text}");
        assert_eq!(outcome.trials.len(), *trials, "{format}: {text}");
        let got = figure(&outcome, metric);
        assert!((got - want).abs() <= want * 1e-9, "{format} {metric}: {got}");
    }
    let labels = |text: &str| -> Vec<String> {
        read_text(text).contenders.into_iter().map(|own| own.label).collect()
    };
    let text_of = |format: &str| TEXTS.iter().rfind(|(own, ..)| *own == format).unwrap().1;
    assert_eq!(labels(text_of("sshping")), ["QUIC", "TCP"]);
    assert_eq!(labels(text_of("qperf")), ["tcp", "udp"]);
    assert_eq!(labels(text_of("perftest")), ["65536 bytes", "131072 bytes"]);
    // The same run again is the next trial.
    for (format, text, trials, ..) in TEXTS {
        let both = read_text(&format!("{text}\n{text}"));
        assert!(both.trials.len() > *trials, "{format}");
    }
}

/// Texts of formats that are known and not read, and of which there is no public file.
const UNREAD_TEXTS: &[(&str, &str)] = &[
    (
        "uperf.txt",
        "Starting 1 threads running profile:x ...   0.00 seconds\nTxn1          0 /   1.00(s) =            0 \n\
                   Txn2     1.10GB /  10.01(s) =   943.99Mb/s       28807op/s \n\
                   Total    1.10GB /  10.01(s) =   943.00Mb/s       28807op/s \n",
    ),
    (
        "ntttcp.txt",
        "NTTTCP for Linux 1.4.0\n13:05:12 INFO: #####  Totals:  #####\n13:05:12 INFO: \t throughput\t:9.42Gbps\n",
    ),
    (
        "jmeter.csv",
        "timeStamp,elapsed,label,responseCode\n1709288430123,12,home,200\n1709288430200,15,home,200\n",
    ),
    (
        "ss of two.txt",
        "State Recv-Q Send-Q Local Address:Port Peer Address:Port\nESTAB 0 0 192.0.2.1:22 192.0.2.2:40000\n\
                       \t cubic wscale:7,7 rto:204 rtt:1.25/0.5 ato:40 mss:1448\n",
    ),
    (
        "trace.txt",
        "traceroute to h (192.0.2.1), 30 hops max, 60 byte packets\n 1  192.0.2.9  1.0 ms  1.1 ms  1.2 ms\n",
    ),
    ("quinn-perf.txt", "Stream metrics:\n\n      │ Upload Duration │ Download Duration │ FBL\n"),
    ("x.qlog", "{\"qlog_version\": \"0.3\", \"traces\": []}\n"),
    ("x.har", "{\"log\": {\"version\": \"1.2\", \"creator\": {}, \"entries\": []}}\n"),
    (
        "wireshark.csv",
        "\"No.\",\"Time\",\"Source\",\"Destination\"\n\"1\",\"0.000000\",\"a\",\"b\"\n",
    ),
    ("node.prom", "# HELP node_load1 1m load average.\n# TYPE node_load1 gauge\nnode_load1 0.21\n"),
];

/// Runs a command in a folder, as a person types it; answers with what it printed.
fn typed(command: &str, folder: &Path) -> String {
    let own = Path::new(env!("CARGO_BIN_EXE_deadheat")).parent().unwrap();
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default());
    let ran = Command::new("sh")
        .args(["-c", command])
        .env("PATH", path)
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{command}: {said}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn what_is_not_read_is_named_with_a_command_that_works_when_typed() {
    let written = Written::new(&[]);
    let mut names: Vec<String> = Vec::new();
    for name in [
        "obudpst.txt",
        "bwping.txt",
        "esp-iperf.txt",
        "k8s-netperf.csv",
        "curl-oneline.txt",
        "tcpdump.txt",
    ] {
        std::fs::copy(public(name), written.path(name)).unwrap();
        names.push(name.to_owned());
    }
    for (name, text) in UNREAD_TEXTS {
        std::fs::write(written.path(name), text).unwrap();
        names.push((*name).to_owned());
    }
    let mut met = Vec::new();
    for name in &names {
        let said = refusal(&written.path(name));
        let known = UNREAD
            .iter()
            .find(|format| said.contains(&format!("this is {}, which is not read", format.name)));
        let known = known.unwrap_or_else(|| panic!("{name}: {said}"));
        met.push(known.name);
        if known.command(name).is_some() {
            let (_, command) = said.trim_end_matches('`').rsplit_once('`').unwrap();
            let shown = typed(command, written.0.path());
            assert!(shown.contains("imported from 1 file"), "{command}: {shown}");
        }
    }
    for format in UNREAD.iter() {
        assert!(met.contains(&format.name), "{} has no example", format.name);
    }
    let list = |name: &str, want: &str| {
        let said = refusal(&written.path(name));
        let command = said.rsplit('`').nth(1).unwrap().to_owned() + " --format csv";
        let shown = typed(&command, written.0.path());
        assert!(shown.contains(want), "{command}: {shown}");
    };
    list("curl-oneline.txt", "115344000");
    list("esp-iperf.txt", "11820000");
    list("ntttcp.txt", "9420000000");
    // A read format is not taken for one of these.
    for folder in [file(""), public("")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if !names.contains(&name)
                && let Err(error) = Import::new([&path]).run(None)
            {
                assert!(!error.to_string().contains("which is not read"), "{error}");
            }
        }
    }
}

#[test]
fn advice_about_columns_works_when_typed() {
    let csv = std::fs::read(public("speedtest-cli.csv")).unwrap();
    let tables: [(&str, &[u8], &str, &str); 5] = [
        ("speedtest.csv", &csv, "bit/s", "93593840"),
        ("semicolons.csv", b"host;hops;rtt\na;3;12,5\nb;4;13,5\n", "ms", "12500000"),
        ("tabs.tsv", b"host\thops\trtt\na\t3\t12.5\nb\t4\t13.5\n", "ms", "12500000"),
        ("spaces.txt", b"12.5 13.5 14.5\n12.6 13.6 14.6\n", "ms", "13500000"),
        ("bare.csv", b"265,308,371\n", "us", "308000"),
    ];
    for (name, content, unit, want) in tables {
        let written = Written::new(&[(name, content)]);
        let said = refusal(&written.path(name));
        let (_, command) = said.trim_end_matches(')').rsplit_once('(').unwrap();
        let import =
            format!("{command} {name} | deadheat import - --unit {unit} --each trial --format csv");
        let shown = typed(&import, written.0.path());
        assert!(shown.contains(want), "{import}: {shown}");
    }
    let rows = Written::new(&[("rows.csv", b"id,begun\n1,10:00:01\n2,10:00:02\n")]);
    let said = refusal(&rows.path("rows.csv"));
    assert!(said.contains("id, counts rows") && !said.contains("--unit"), "{said}");
}

#[test]
fn cut_and_changed_files_of_others_are_read_or_refused_without_a_panic() {
    for entry in std::fs::read_dir(public("")).unwrap() {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        for at in (0..text.len()).step_by(97) {
            let mut changed = text.clone();
            changed[at] = b'9';
            for content in [&text[..at], &changed] {
                let written = Written::new(&[("x.txt", content)]);
                if let Err(error) = Import::new([written.path("x.txt")]).run(None) {
                    assert!(error.to_string().contains("x.txt"), "{error}");
                }
            }
        }
    }
}
