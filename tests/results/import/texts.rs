//! Texts that tools print for people, in several dialects and languages, with what people put around them.

use deadheat::measurements::Account;

use super::*;

/// What one file with this content becomes.
fn read(content: &str) -> Outcome {
    let written = Written::new(&[("x.txt", content.as_bytes())]);
    Import::new([written.path("x.txt")]).run(None).unwrap()
}

/// Requests, answers and duplicates of each trial.
fn counts(outcome: &Outcome) -> Vec<(u64, u64, u64)> {
    let accounts = outcome.trials.iter().map(|trial| trial.record.ledger.round_trip.clone());
    accounts
        .map(|own| {
            own.map_or((0, 0, 0), |own| (own.sent, own.delivered, own.duplicates.unwrap_or(0)))
        })
        .collect()
}

/// Number of samples of the first trial, and of lost ones among them.
fn samples(outcome: &Outcome) -> (u64, u64) {
    trial(outcome).record.rtt_ns.as_ref().map_or((0, 0), |rtt| (rtt.n, rtt.censored))
}

#[test]
fn pings_of_several_makers_are_read() {
    for (name, sent) in [
        ("ping-six.txt", 5),
        ("ping-stamped.txt", 5),
        ("ping-busybox.txt", 4),
        ("ping-inetutils.txt", 4),
        ("ping-date.txt", 3),
        ("ping-iso.txt", 3),
        ("ping-hping3.txt", 4),
    ] {
        let outcome = import(&[name]);
        assert_eq!(counts(&outcome), [(sent, sent, 0)], "{name}");
        assert_eq!(samples(&outcome), (sent, 0), "{name}");
    }
    assert_eq!(import(&["ping-date.txt"]).started, "2026-11-26T03:18:17Z");
    let program = |name| import(&[name]).imported.unwrap().files[0].program.clone().unwrap();
    assert_eq!((program("ping-hping3.txt"), program("ping.txt")), ("hping3".into(), "ping".into()));
}

#[test]
fn times_in_front_of_lines_are_those_of_samples() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("r.samples");
    Import::new([file("ping-iso.txt")]).run(Some(&kept)).unwrap();
    let chunk = samples::open(&kept).unwrap().next().unwrap().unwrap();
    let seconds: Vec<u64> = chunk
        .samples
        .iter()
        .map(|sample| (sample.intended_ns + 500_000_000) / 1_000_000_000)
        .collect();
    assert_eq!(seconds, [0, 1, 2]);
}

#[test]
fn several_runs_of_ping_are_trials_and_several_targets_contenders() {
    let outcome = import(&["ping-three.txt"]);
    assert_eq!(counts(&outcome), [(3, 3, 0); 3]);
    assert_eq!(outcome.contenders.len(), 1);
    let own = |host: &str| {
        format!(
            "PING {host} ({host}) 56(84) bytes of data.\n64 bytes from {host}: icmp_seq=1 ttl=64 time=1.5 ms\n\n\
             --- {host} ping statistics ---\n1 packets transmitted, 1 received, 0% packet loss, time 0ms\n"
        )
    };
    let outcome = read(&[own("10.0.0.1"), own("10.0.0.2"), own("10.0.0.1")].concat());
    let labels: Vec<&str> = outcome.contenders.iter().map(|one| one.label.as_str()).collect();
    assert_eq!(labels, ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(outcome.trials.iter().filter(|trial| trial.contender == 0).count(), 2);
    let refused = format!("ping: connect: Network is unreachable\n{}", own("10.0.0.1"));
    let outcome = read(&refused);
    assert_eq!(why(&outcome, 0), "failed: ping: connect: Network is unreachable");
    assert!(outcome.trials[1].record.valid);
}

#[test]
fn answers_without_a_time_are_answers() {
    let outcome = import(&["ping-untimed.txt"]);
    assert_eq!(counts(&outcome), [(3, 3, 0)]);
    assert!(unknown(&outcome).contains("3 answers without a time"), "{}", unknown(&outcome));
    assert!(!trial(&outcome).record.metrics.contains_key("rtt_p50_ns"));
}

/// Windows in German, with a request that timed out.
const WINDOWS: &str = "\r\nPing wird ausgeführt für 10.0.0.1 mit 32 Bytes Daten:\r\n\
    Antwort von 10.0.0.1: Bytes=32 Zeit<1ms TTL=64\r\nAntwort von 10.0.0.1: Bytes=32 Zeit=3ms TTL=64\r\n\
    Zeitüberschreitung der Anforderung.\r\nAntwort von 10.0.0.1: Bytes=32 Zeit=2ms TTL=64\r\n\r\n\
    Ping-Statistik für 10.0.0.1:\r\n    Pakete: Gesendet = 4, Empfangen = 3, Verloren = 1\r\n    (25% Verlust),\r\n\
    Ca. Zeitangaben in Millisek.:\r\n    Minimum = 0ms, Maximum = 3ms, Mittelwert = 1ms\r\n";

#[test]
fn windows_is_read_in_its_code_pages_and_less_than_a_millisecond_is_no_zero() {
    // ü is 0x81 in code page 850, 0xfc in Latin-1; PowerShell writes UTF-16.
    let bytes = |code: u8| -> Vec<u8> {
        WINDOWS.chars().map(|c| if c == 'ü' { code } else { u8::try_from(c).unwrap() }).collect()
    };
    let wide: Vec<u8> = "\u{feff}"
        .encode_utf16()
        .chain(WINDOWS.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    for content in [WINDOWS.as_bytes().to_vec(), bytes(0x81), bytes(0xfc), wide] {
        let written = Written::new(&[("x.txt", &content)]);
        let outcome = Import::new([written.path("x.txt")]).run(None).unwrap();
        assert_eq!(counts(&outcome), [(4, 3, 0)]);
        assert_eq!(samples(&outcome), (4, 1));
        let said = unknown(&outcome);
        assert!(said.contains("they lie below 1 ms"), "{said}");
        assert!(said.contains("parts of a millisecond"), "{said}");
    }
}

#[test]
fn windows_counts_errors_as_answers_and_we_do_not() {
    let text = "Pinging 10.0.0.9 with 32 bytes of data:\nReply from 10.0.0.2: Destination host unreachable.\n\
                Request timed out.\nReply from 10.0.0.2: Destination host unreachable.\n\
                Reply from 10.0.0.9: bytes=32 time=5ms TTL=64\n\nPing statistics for 10.0.0.9:\n\
                \x20   Packets: Sent = 4, Received = 3, Lost = 1 (25% loss),\n";
    let outcome = read(text);
    assert_eq!(counts(&outcome), [(4, 1, 0)]);
    assert_eq!(trial(&outcome).record.network_errors, 2);
    assert!(unknown(&outcome).contains("2 errors came back instead of answers"));
}

#[test]
fn time_outs_are_losses_and_unreachable_is_an_error() {
    let text = "PING 10.0.0.24 (10.0.0.24): 56 data bytes\nRequest timeout for icmp_seq 0\n\
                92 bytes from gw.example (10.0.0.1): Destination Host Unreachable\n\
                Vr HL TOS  Len   ID Flg  off TTL Pro  cks      Src      Dst\n\
                \x204  5  00 5400 567b   0 0000  3f  01 a024 10.0.0.4  10.0.0.24 \n\n\
                64 bytes from 10.0.0.24: icmp_seq=2 ttl=64 time=5.2 ms\nRequest timeout for icmp_seq 3\n\
                64 bytes from 10.0.0.24: icmp_seq=3 ttl=64 time=1205.2 ms\n\n--- 10.0.0.24 ping statistics ---\n\
                5 packets transmitted, 2 packets received, 60.0% packet loss\n\
                round-trip min/avg/max/stddev = 5.200/605.2/1205.200/600.0 ms\n";
    let outcome = read(text);
    assert_eq!(counts(&outcome), [(5, 2, 0)]);
    assert_eq!(samples(&outcome), (5, 3));
    assert_eq!(trial(&outcome).record.network_errors, 1);
}

#[test]
fn other_languages_and_second_answers_are_read_by_structure() {
    let french = "PING 10.0.0.1 (10.0.0.1) 56(84) octets de données.\n\
                  64 octets de 10.0.0.1 : icmp_seq=1 ttl=64 temps=1,20 ms\n\
                  64 octets de 10.0.0.1 : icmp_seq=1 ttl=64 temps=9,90 ms (DUPLIQUÉ !)\n\
                  encore aucune réponse pour icmp_seq=2\n\
                  64 octets de 10.0.0.1 : icmp_seq=3 ttl=64 temps=1,22 ms\n\n\
                  --- statistiques ping 10.0.0.1 ---\n\
                  4 paquets transmis, 2 reçus, +1 dupliqués, 50 % paquets perdus, temps 3003 ms\n\
                  rtt min/moy/max/mdev = 1,200/4,107/9,900/3,762 ms\n";
    let outcome = read(french);
    assert_eq!(counts(&outcome), [(4, 2, 1)]);
    assert_eq!(samples(&outcome), (4, 2));
    assert_eq!(trial(&outcome).record.network_errors, 0);
    assert_eq!(figure(&outcome, "rtt_mean_ns"), 1_210_000.0, "each answer once");
    let quiet = "PING 10.0.0.1 (10.0.0.1) 56(84) octets de données.\n\n--- statistiques ping 10.0.0.1 ---\n\
                 100 paquets transmis, 100 reçus, 0 % paquets perdus, temps 99143 ms\n\
                 rtt min/moy/max/mdev = 9,812/10,204/14,771/0,612 ms\n";
    assert_eq!(figure(&read(quiet), "rtt_mean_ns"), 10_204_000.0);
    let japanese = "PING h (10.0.0.1) 56(84) バイトのデータ\n64 バイト応答 送信元 h (10.0.0.1): icmp_seq=1 ttl=64 時間=182 ミリ秒\n\n\
                    --- h ping 統計 ---\n送信パケット数 2, 受信パケット数 1, パケット損失 50%, 時間 1001ミリ秒\n";
    assert_eq!(counts(&read(japanese)), [(2, 1, 0)]);
}

#[test]
fn fping_has_a_contender_for_each_host() {
    let outcome = import(&["fping.txt"]);
    let labels: Vec<&str> = outcome.contenders.iter().map(|one| one.label.as_str()).collect();
    assert_eq!(labels, ["127.0.0.1", "127.0.0.2"]);
    assert_eq!(counts(&outcome), [(5, 5, 0); 2]);
    for (name, sent) in [("fping-stamped.txt", 4), ("fping-times.txt", 5), ("fping-sums.txt", 5)] {
        assert_eq!(counts(&import(&[name])), [(sent, sent, 0)], "{name}");
    }
    assert_eq!(samples(&import(&["fping-times.txt"])), (5, 0));
    let lossy = "h : [0], 64 bytes, 14.2 ms (14.2 avg, 0% loss)\nh : [1], timed out (14.2 avg, 50% loss)\n\
                 h : duplicate for [0], 64 bytes, 30.1 ms\n\
                 \nh : xmt/rcv/%loss = 2/1/50%, min/avg/max = 14.2/14.2/14.2\n";
    let lossy = read(lossy);
    assert_eq!((counts(&lossy), samples(&lossy)), (vec![(2, 1, 1)], (2, 1)));
}

#[test]
fn mtr_is_the_far_end_in_each_of_its_forms() {
    let text = import(&["mtr.txt"]);
    assert_eq!(counts(&text), [(3, 3, 0); 3]);
    assert_eq!(figure(&text, "rtt_mean_ns"), 100_000.0);
    assert!(unknown(&text).contains("printed as 0"), "{}", unknown(&text));
    assert_eq!(text.started, "2026-11-26T03:18:24Z");
    for name in ["mtr.csv", "mtr.json"] {
        let outcome = import(&[name]);
        assert_eq!(counts(&outcome), [(3, 3, 0)], "{name}");
        assert!(figure(&outcome, "rtt_mean_ns") < 1e6, "{name}");
    }
}

#[test]
fn iperf2_tells_what_was_sent_and_what_was_received() {
    let sent = |name: &str| figure(&import(&[name]), "sent_bps");
    assert_eq!(sent("iperf2-parallel.txt"), 6.02e6);
    assert_eq!(sent("iperf2-parallel.csv"), 3_137_864.0 + 3_126_054.0);
    let udp = import(&["iperf2-udp.txt"]);
    assert_eq!((figure(&udp, "goodput_bps"), figure(&udp, "loss_share")), (1.08e6, 0.0));
    let server = import(&["iperf2-server.txt"]);
    assert_eq!(server.trials.len(), 5, "one for each client, parallel flows in one");
    let said = import(&["iperf2-refused.txt"]);
    assert!(why(&said, 0).contains("Connection refused"));
}

#[test]
fn transfers_of_curl_and_wget_are_trials() {
    let times = import(&["curl.txt"]);
    let all: Vec<f64> =
        times.trials.iter().map(|own| own.record.metrics["time_total_ns"]).collect();
    assert_eq!(all, [96_067_000.0, 2_357_000.0, 1_267_000.0]);
    assert_eq!(import(&["curl-line.txt"]).trials.len(), 3);
    let json = import(&["curl.json"]);
    let valid: Vec<bool> = json.trials.iter().map(|own| own.record.valid).collect();
    assert_eq!(valid, [true, true, false, false]);
    assert!(why(&json, 2).contains("404") && why(&json, 3).contains("connect"));
    let wget = import(&["wget.txt"]);
    let rates: Vec<f64> = wget.trials.iter().map(|own| own.record.metrics["goodput_bps"]).collect();
    assert_eq!(rates, [272.0, 518.0, 580.0].map(|rate| rate * 8.0 * 1_048_576.0));
}

#[test]
fn netperf_is_read_with_and_without_its_headings() {
    // After `send_tcp_stream` and `send_udp_stream` of netperf's nettest_bsd.c.
    let stream = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.1 () port 0 AF_INET\n\
                  Recv   Send    Send                          \nSocket Socket  Message  Elapsed              \n\
                  Size   Size    Size     Time     Throughput  \nbytes  bytes   bytes    secs.    10^6bits/sec  \n\n\
                  131072  16384  16384    10.00      94.10   \n";
    let outcome = read(&stream.repeat(2));
    assert_eq!((outcome.trials.len(), figure(&outcome, "goodput_bps")), (2, 94.1e6));
    let bare = read(" 131072  16384  16384    10.00      94.10   \n");
    assert_eq!(bare.imported.as_ref().unwrap().files[0].format, "netperf");
    assert!(unknown(&bare).contains("taken as 10^6 bit/s"));
}

#[test]
fn tables_have_headings_units_marks_and_decimal_commas() {
    let table = "Zeit;RTT (ms)\n0,0;12,5\n0,5;*\n1,0;13,5\n1,5;timeout\n";
    let outcome = read(&table.replace("Zeit", "time"));
    let summed = trial(&outcome);
    assert_eq!(summed.record.metrics["loss_share"], 0.5);
    let own = spread(&outcome, "x");
    assert_eq!((own.n, own.lost, own.min, own.max), (2, 2, 12_500_000.0, 13_500_000.0));
    let written = Written::new(&[("marks.txt", b"12.31\n*\n12.40\nnan\n-\n12.29\n")]);
    let marks = Import::new([written.path("marks.txt")]).unit("ms").unwrap();
    let own = marks.run(None).unwrap();
    assert_eq!((spread(&own, "marks").n, spread(&own, "marks").lost), (3, 3));
    let written = Written::new(&[("rates.txt", b"0.0 93.1\n1.0 nan\n2.0 92.9\n")]);
    let rates = Import::new([written.path("rates.txt")]).unit("Mbit/s").unwrap();
    let own = rates.each("trial").unwrap().run(None).unwrap();
    let valid: Vec<bool> = own.trials.iter().map(|trial| trial.record.valid).collect();
    assert_eq!(valid, [true, false, true]);
    let several = Written::new(&[("t.csv", b"a_ms,b_ms\n1,2\n")]);
    let said = Import::new([several.path("t.csv")]).run(None).unwrap_err().to_string();
    assert!(said.contains("several columns of numbers (a_ms, b_ms)"), "{said}");
}

#[test]
fn what_irtts_client_prints_is_read_as_its_json_is() {
    let outcome = import(&["irtt.txt"]);
    let record = &trial(&outcome).record;
    let ledger = |way: &Option<Account>| way.as_ref().map(|own| (own.sent, own.delivered));
    assert_eq!(ledger(&record.ledger.round_trip), Some((100, 93)));
    assert_eq!(ledger(&record.ledger.up), Some((100, 98)));
    assert_eq!(ledger(&record.ledger.down), Some((98, 93)));
    assert_eq!(samples(&outcome), (100, 7));
    let p50 = |name: &str| (record.metrics[name] / 1e4).round() / 100.0;
    assert_eq!([p50("rtt_p50_ns"), p50("delay_up_p50_ns")], [20.22, 10.09], "as its own sums say");
    let quiet = import(&["irtt-quiet.txt"]);
    let record = &trial(&quiet).record;
    assert_eq!(ledger(&record.ledger.up), Some((39, 20)));
    assert_eq!((record.metrics["rtt_mean_ns"], record.rtt_ns.clone()), (272.6e6, None));
    // A client that was killed has no sums.
    let cut = "[Connecting] connecting to far\nseq=0 rtt=20.24ms rd=10.15ms sd=10.09ms ipdv=n/a\n";
    let killed = read(cut);
    assert!(trial(&killed).record.why_invalid.as_ref().unwrap().contains("did not end"));
}

#[test]
fn events_of_mtr_are_round_trips_to_the_last_hop() {
    let outcome = import(&["mtr-raw.txt"]);
    // The eleventh request was open when it ended, and the second hop was the first one again.
    assert_eq!(counts(&outcome), [(9, 9, 0)]);
    assert_eq!(trial(&outcome).record.metrics["rtt_mean_ns"].round(), 20_187_222.0);
    let lossy = "x 0 1\nh 0 10.0.0.1\np 0 100 1\nx 1 2\nh 1 10.0.0.9\np 1 5000 2\nx 1 3\nx 1 4\np 1 5200 4\n";
    assert_eq!(counts(&read(lossy)), [(3, 2, 0)]);
}
