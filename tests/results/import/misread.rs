//! What files say beside their figures: damage, steps of the clock, stalls, what nobody counted; and runs without figures.

use super::*;

/// Imports one file with this content.
fn read(content: &[u8]) -> Outcome {
    let written = Written::new(&[("x.txt", content)]);
    Import::new([written.path("x.txt")]).run(None).unwrap()
}

/// Figures of the first trial, without the lost share.
fn names(outcome: &Outcome) -> Vec<&str> {
    trial(outcome).record.metrics.keys().map(String::as_str).collect()
}

const STATISTICS: &str = "\n--- h ping statistics ---\n";

#[test]
fn a_damaged_answer_is_none() {
    let checksum = "PING h (10.0.0.1) 56(84) bytes of data.\n\
                    64 bytes from h (10.0.0.1): icmp_seq=1 ttl=64 time=1.00 ms\n\
                    64 bytes from h (10.0.0.1): icmp_seq=2 ttl=64 time=9.00 ms (BAD CHECKSUM!)\n\
                    64 bytes from h (10.0.0.1): icmp_seq=3 ttl=64 time=3.00 ms\n";
    let data = "PING h (10.0.0.1) 56(84) bytes of data.\n\
                64 bytes from h (10.0.0.1): icmp_seq=1 ttl=64 time=1.00 ms\n\
                64 bytes from h (10.0.0.1): icmp_seq=2 ttl=64 time=9.00 ms\n\
                wrong data byte #16 should be 0x10 but was 0x0\n#16\t0 11 12 13 14\n\
                64 bytes from h (10.0.0.1): icmp_seq=3 ttl=64 time=3.00 ms\n";
    let sums = [
        "3 packets transmitted, 2 received, +1 corrupted, 33% packet loss, time 2ms\n",
        "3 packets transmitted, 3 received, 0% packet loss, time 2ms\n",
    ];
    for (text, sum) in [checksum, data].into_iter().zip(sums) {
        for end in [[STATISTICS, sum].concat(), String::new()] {
            let outcome = read(format!("{text}{end}").as_bytes());
            let account = trial(&outcome).record.ledger.round_trip.as_ref().unwrap();
            assert_eq!((account.sent, account.delivered), (3, 2), "{text}{end}");
            assert_eq!(figure(&outcome, "rtt_mean_ns"), 2e6);
            assert!(unknown(&outcome).contains("1 answer damaged, and counts as lost."), "{text}");
            assert!(!unknown(&outcome).contains("not in the file"), "{}", unknown(&outcome));
        }
    }
}

#[test]
fn a_step_of_the_clock_is_told_and_its_0_is_no_round_trip() {
    let warning = "Warning: time of day goes back (-1040us), taking countermeasures";
    let text = format!(
        "PING h (10.0.0.1) 56(84) bytes of data.\n\
         64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=2.00 ms\nping: {warning}\n\
         64 bytes from 10.0.0.1: icmp_seq=2 ttl=64 time=0.000 ms\n{warning}.\n\
         64 bytes from 10.0.0.1: icmp_seq=3 ttl=64 time=0.000 ms\n\
         64 bytes from 10.0.0.1: icmp_seq=4 ttl=64 time=4.00 ms\n{STATISTICS}\
         4 packets transmitted, 4 received, 0% packet loss, time 2ms\n\
         rtt min/avg/max/mdev = 0.000/1.500/4.000/1.600 ms\n"
    );
    let outcome = read(text.as_bytes());
    assert_eq!((outcome.trials.len(), figure(&outcome, "rtt_mean_ns")), (1, 3e6));
    assert_eq!(spread(&outcome, "x").min, 2e6);
    assert_eq!(figure(&outcome, "loss_share"), 0.0);
    let said = unknown(&outcome);
    assert!(said.contains("set back by 2.08 ms in 2 steps"), "{said}");
    assert!(said.contains("2 round trips of 0 ms, in no figure"), "{said}");
    assert!(!said.contains("without a time"), "{said}");
    // Standard error may come first.
    let (first, rest) = (format!("{warning}\n"), text.replace(&format!("ping: {warning}\n"), ""));
    let moved = read(format!("{first}{rest}").as_bytes());
    assert_eq!(moved.trials.len(), 1);
    assert!(unknown(&moved).contains("in 2 steps"), "{}", unknown(&moved));
    // A time of few digits is rounded, and no fault.
    let coarse =
        read(b"PING h (10.0.0.1): 56 data bytes\n64 bytes from 10.0.0.1: icmp_seq=0. time=0. ms\n");
    assert!(!unknown(&coarse).contains("in no figure"), "{}", unknown(&coarse));
}

#[test]
fn windows_in_russian_keeps_its_times() {
    let text = "Ответ от 10.0.0.1: число байт=32 время=10мс TTL=56\n\
                Ответ от 10.0.0.1: число байт=32 время=14мс TTL=56\n\
                Превышен интервал ожидания для запроса.\n\n\
                Статистика Ping для 10.0.0.1:\n    Пакетов: отправлено = 3, получено = 2, потеряно = 1\n\
                \x20   (33% потерь)\nПриблизительное время приема-передачи в мс:\n\
                \x20   Минимальное = 10мсек, Максимальное = 14 мсек, Среднее = 12 мсек\n";
    // Code page 866, that of the console.
    let byte = |c: char| match u32::from(c) {
        own @ 0x410..=0x43f => (own - 0x410 + 0x80) as u8,
        own @ 0x440..=0x44f => (own - 0x440 + 0xe0) as u8,
        own => own as u8,
    };
    let console: Vec<u8> = text.chars().map(byte).collect();
    for content in [text.as_bytes(), &console] {
        let outcome = read(content);
        assert_eq!(figure(&outcome, "rtt_mean_ns"), 12e6);
        let own = spread(&outcome, "x");
        assert_eq!((own.n, own.lost, own.min, own.max), (2, 1, 10e6, 14e6));
    }
}

/// What iperf3 prints of a run over UDP: the first line, the heading of the intervals, and rows.
fn printed(first: &str, heading: &str, rows: &str, summary: &str) -> String {
    let head = "[ ID] Interval           Transfer     Bitrate         ";
    let dashes = if summary.is_empty() { "" } else { "- - - - - - - - - - - - -\n" };
    let behind = match summary {
        "" => String::new(),
        rows => format!("{head}Jitter    Lost/Total Datagrams\n{rows}"),
    };
    format!("{first}\n{head}{heading}\n{rows}{dashes}{behind}")
}

const SENT_ROWS: &str = "[  5]   0.00-1.00   sec   129 KBytes  1.05 Mbits/sec  91  \n\
                         [  5]   1.00-2.00   sec   127 KBytes  1.04 Mbits/sec  90  \n";

#[test]
fn udp_of_which_nothing_arrived_has_no_jitter_and_has_lost_all() {
    let summary = "[  5]   0.00-2.00   sec   256 KBytes  1.05 Mbits/sec  0.000 ms  0/181 (0%)  sender\n\
                   [  5]   0.00-2.06   sec  0.00 Bytes  0.00 bits/sec  0.000 ms  0/0 (0%)  receiver\n";
    let text = printed("Connecting to host h, port 5201", "Total Datagrams", SENT_ROWS, summary);
    let outcome = read(text.as_bytes());
    assert_eq!(names(&outcome), ["goodput_bps", "loss_share", "sent_bps"]);
    assert_eq!((figure(&outcome, "loss_share"), figure(&outcome, "goodput_bps")), (1.0, 0.0));
    assert_eq!(trial(&outcome).record.ledger.up.as_ref().unwrap().sent, 181);
    let said = shown(&outcome, "terminal");
    assert!(said.contains("Nothing arrived of 181 datagrams."), "{said}");
    assert!(said.contains("lost: x 100 %"), "{said}");
}

#[test]
fn a_server_that_sends_over_udp_has_no_count_of_the_receiver() {
    let sum = r#"{"seconds":1,"bytes":131072,"bits_per_second":1048576,"jitter_ms":0,"lost_packets":0,"packets":91}"#;
    let start = r#""start":{"version":"iperf 3.1.3","accepted_connection":{"host":"h","port":1},"test_start":{"protocol":"UDP","num_streams":1,"reverse":1,"duration":1}},"intervals":[]"#;
    let old = format!("{{{start},\"end\":{{\"sum\":{sum}}}}}");
    let both = format!("{{{start},\"end\":{{\"sum_sent\":{sum},\"sum_received\":{sum}}}}}");
    let accepted = "Accepted connection from h, port 5201";
    let joint = "[  5]   0.00-2.00   sec   256 KBytes  1.05 Mbits/sec  0.000 ms  0/181 (0%)\n";
    let sender = joint.replace("(0%)", "(0%)  sender");
    let printed_joint = printed(accepted, "Total Datagrams", SENT_ROWS, joint);
    let printed_sender = printed(accepted, "Total Datagrams", SENT_ROWS, &sender);
    for text in [old, both, printed_joint, printed_sender] {
        let outcome = read(text.as_bytes());
        assert_eq!(names(&outcome), ["sent_bps"], "{text}");
        assert!(unknown(&outcome).contains("the goodput is not known"), "{text}");
        assert!(trial(&outcome).record.ledger.accounts().next().is_none(), "{text}");
    }
    // One that was ended before its summary has intervals alone.
    let cut = read(printed(accepted, "Total Datagrams", SENT_ROWS, "").as_bytes());
    assert_eq!(names(&cut), ["sent_bps"]);
    let stream = "[  5]   0.00-1.00   sec  10.0 MBytes  83.9 Mbits/sec    0   1.41 MBytes\n";
    let cut = read(printed(accepted, "Retr  Cwnd", stream, "").as_bytes());
    assert_eq!(
        names(&cut),
        ["sent_bps"],
        "the receiver of a stream has no column for retransmissions"
    );
}

#[test]
fn one_message_of_sockperf_is_a_figure_of_one_message() {
    let text = "sockperf: == version #3.3 == \n\
                sockperf: [Valid Duration] RunTime=0.000 sec; SentMessages=1; ReceivedMessages=1\n\
                sockperf: ====> avg-lat=121.880 (std-dev=0.000)\n\
                sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0\n\
                sockperf: Total 1 observations; each percentile contains 0.01 observations\n\
                sockperf: ---> <MAX> observation =  121.880\nsockperf: ---> percentile 50.000 =  121.880\n\
                sockperf: ---> <MIN> observation =  121.880\n";
    let outcome = read(text.as_bytes());
    assert_eq!(figure(&outcome, "rtt_mean_ns"), 243_760.0);
    let said = shown(&outcome, "terminal");
    assert!(said.contains("244") && said.contains("1 message is too few"), "{said}");
}

#[test]
fn runs_that_hold_only_an_error_are_failed_trials() {
    let nulls = r#"{"version":{"irtt":"0.9.1","json_format":1},"stats":null,"round_trips":null,"send_err":"no route to host"}"#;
    let event =
        "{\"event\":\"error\",\"data\":\"unable to connect to server: Connection refused\"}\n";
    for (text, format, words) in
        [(nulls, "irtt", "no route to host"), (event, "iperf3", "Connection refused")]
    {
        let outcome = read(text.as_bytes());
        assert_eq!(outcome.imported.as_ref().unwrap().files[0].format, format);
        assert!(why(&outcome, 0).contains(words), "{}", why(&outcome, 0));
        assert!(shown(&outcome, "terminal").contains(words));
    }
}

/// A run of iperf3 over TCP at this rate, each line behind `name`.
fn run_behind(name: &str, mbit: u32) -> String {
    let text = format!(
        "Connecting to host iperf3-server, port 5201\n\
         [  5] local 10.244.3.75 port 34776 connected to 10.96.235.239 port 5201\n\
         [ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n\
         [  5]   0.00-1.00   sec   113 MBytes   {mbit} Mbits/sec    0    653 KBytes\n\
         - - - - - - - - - - - - - - - - - - - - - - - - -\n\
         [ ID] Interval           Transfer     Bitrate         Retr\n\
         [  5]   0.00-1.00   sec   113 MBytes   {mbit} Mbits/sec    0             sender\n\
         [  5]   0.00-1.04   sec   113 MBytes   {mbit} Mbits/sec                  receiver\n\n\
         iperf Done.\n"
    );
    text.lines().map(|line| format!("{name}{line}\n")).collect()
}

#[test]
fn lines_of_several_hosts_in_one_log_are_several_contenders() {
    for (names, labels) in [
        (
            ["Client on 192.0.2.3:  ", "Client on 192.0.2.4:  "],
            ["Client on 192.0.2.3", "Client on 192.0.2.4"],
        ),
        (["client-1  | ", "client-2  | "], ["client-1", "client-2"]),
        (
            ["[pod/client-1/iperf3] ", "[pod/client-2/iperf3] "],
            ["pod/client-1/iperf3", "pod/client-2/iperf3"],
        ),
    ] {
        let both = names.map(|name| run_behind(name, if name == names[0] { 900 } else { 300 }));
        // Hosts that run at the same time write their lines in turns.
        let turns: String =
            both[0].lines().zip(both[1].lines()).map(|(a, b)| format!("{a}\n{b}\n")).collect();
        for text in [both.concat(), turns] {
            let outcome = read(text.as_bytes());
            let found: Vec<&str> =
                outcome.contenders.iter().map(|own| own.label.as_str()).collect();
            assert_eq!(found, labels);
            let rates: Vec<f64> =
                outcome.trials.iter().map(|own| own.record.metrics["goodput_bps"]).collect();
            assert_eq!(rates, [900e6, 300e6]);
        }
        // Of one host there is one, and its runs are trials.
        let alone = read(run_behind(names[0], 900).repeat(2).as_bytes());
        assert_eq!((alone.contenders.len(), alone.trials.len()), (1, 2));
    }
    // The time of its first line is no name.
    let stamps = run_behind("", 900)
        .lines()
        .enumerate()
        .map(|(at, line)| format!("at {at:02}.5 s {line}\n"))
        .collect::<String>();
    assert_eq!(read(stamps.as_bytes()).contenders[0].label, "x");
}

#[test]
fn a_stall_of_seconds_is_told_as_an_outage_is() {
    let row = |at: u32, amount: &str| {
        format!(
            "[  5]   {at}.00-{}.00   sec  {amount} MBytes  66.2 Mbits/sec    0   43.9 KBytes\n",
            at + 1
        )
    };
    let amounts = ["7.89", "0.00", "0.00", "0.00", "0.00", "10.7", "0.00"];
    let rows: String = amounts.iter().zip(0..).map(|(amount, at)| row(at, amount)).collect();
    let text = format!(
        "Time: Wed, 02 Jun 2021 15:22:20 UTC\nConnecting to host h, port 5201\n\
         [ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n{rows}\
         - - - - - - - - - - - - -\n[ ID] Interval           Transfer     Bitrate         Retr\n\
         [  5]   0.00-7.00   sec  26.6 MBytes  31.9 Mbits/sec    0             sender\n\
         [  5]   0.00-7.04   sec  26.5 MBytes  31.6 Mbits/sec                  receiver\n"
    );
    let outcome = read(text.as_bytes());
    let said = "Outage: nothing came for 4.00 s from 15:22:21 UTC on, in the 1st trial of x";
    assert_eq!(trial(&outcome).record.outages.len(), 2, "what moved between them parts them");
    for format in ["terminal", "markdown", "html"] {
        let text = shown(&outcome, format).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(said), "{format}: {text}");
    }
    let steady = import(&["iperf3-tcp.json"]);
    assert!(trial(&steady).record.outages.is_empty());
}
