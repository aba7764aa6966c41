//! Each format, as its tool wrote it. The figures that are expected were read off the tools' own
//! output.

use super::*;

fn label(outcome: &Outcome) -> &str {
    &outcome.imported.as_ref().unwrap().files[0].format
}

fn program(outcome: &Outcome) -> &str {
    outcome.imported.as_ref().unwrap().files[0].program.as_deref().unwrap()
}

#[test]
fn each_format_is_told_by_its_content() {
    for entry in std::fs::read_dir(file("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let want = name.split(['-', '.']).next().unwrap();
        let want = if name.contains("flent") { "flent" } else { want };
        assert_eq!(label(&import(&[&name])), want, "{name}");
    }
}

#[test]
fn iperf3_over_tcp() {
    let outcome = import(&["iperf3-tcp.json"]);
    assert_eq!(program(&outcome), "iperf 3.12");
    assert_eq!(outcome.contenders[0].implementation, "iperf 3.12, TCP, bbr");
    assert_eq!(outcome.started, "2026-11-20T18:02:16Z");
    assert_eq!(figure(&outcome, "goodput_bps"), 15_882_583_116.254_03);
    let record = &trial(&outcome).record;
    assert_eq!((record.delivered_bytes, record.retransmits), (Some(3_971_481_600), Some(22)));
    // Intervals of half a second, the last one short.
    let sent = &record.intervals[0].sent_bytes;
    assert_eq!(sent.last(), Some(&3_971_481_600));
    assert!(sent.len() >= 4 && sent.is_sorted(), "{sent:?}");
    assert!(record.cost.cpu_ns > 1_300_000_000, "66.9 % of two seconds: {:?}", record.cost);
    assert_eq!(import(&["iperf3-tcp-parallel.json"]).trials[0].record.intervals.len(), 2);
}

#[test]
fn iperf3_both_ways_adds_up() {
    let outcome = import(&["iperf3-bidir.json"]);
    let [up, down] = ["goodput_up_bps", "goodput_down_bps"].map(|name| figure(&outcome, name));
    assert_eq!(up, 10_575_693_633.477_69);
    assert_eq!(down, 8_198_017_675.758_376);
    assert_eq!(figure(&outcome, "goodput_bps"), up + down);
}

#[test]
fn iperf3_over_udp_counts_what_the_receiver_had() {
    let outcome = import(&["iperf3-udp-loss.json"]);
    let account = trial(&outcome).record.ledger.up.clone().unwrap();
    assert_eq!((account.sent, account.delivered, account.lost_on_path), (521, 505, 16));
    assert!(account.closes());
    assert_eq!(figure(&outcome, "loss_share"), 16.0 / 521.0);
    assert_eq!(figure(&outcome, "goodput_bps"), 4_834_641.884_473_2);
    assert!(unknown(&outcome).contains("datagrams lost after the last that arrived"));
    let back = import(&["iperf3-udp-reverse.json"]);
    assert!(back.trials[0].record.ledger.down.is_some());
    assert!(back.trials[0].record.ledger.up.is_none());
}

#[test]
fn several_results_of_iperf3_in_one_file_are_trials() {
    let outcome = import(&["iperf3-four.json"]);
    assert_eq!((outcome.contenders.len(), outcome.trials.len()), (1, 4));
    let spread = spread(&outcome, "iperf3-four");
    assert_eq!((spread.n, spread.min <= spread.median.unwrap()), (4, true));
}

#[test]
fn iperf3_that_failed_is_an_invalid_trial_with_its_words() {
    let outcome = import(&["iperf3-error.json"]);
    assert_eq!(outcome.trials.len(), 1);
    let said = why(&outcome, 0);
    assert!(said.starts_with("failed: ") && said.contains("Connection refused"), "{said}");
    let shown = shown(&outcome, "terminal");
    assert!(shown.contains("It is in no verdict: failed: "), "{shown}");
}

#[test]
fn irtt() {
    let outcome = import(&["irtt.json.gz"]);
    assert_eq!(program(&outcome), "irtt 0.9.0");
    assert_eq!(outcome.started, "2026-11-20T18:02:27Z");
    let rtt = trial(&outcome).record.rtt_ns.clone().unwrap();
    // irtt printed: min 76.9 us, mean 124 us, max 265 us, stddev 26.8 us.
    assert_eq!((rtt.n, rtt.censored, rtt.min), (100, 0, Some(76_925)));
    assert_eq!((rtt.mean.unwrap() / 1e3).round(), 124.0);
    assert_eq!((rtt.stddev.unwrap() / 1e2).round(), 268.0);
    assert!(figure(&outcome, "delay_up_p50_ns") > figure(&outcome, "delay_down_p50_ns"));
    assert!(unknown(&outcome).contains("two clocks"));
}

#[test]
fn irtt_of_other_versions() {
    let newer = import(&["irtt-newer.json.gz"]);
    assert_eq!((program(&newer), newer.started.as_str()), ("irtt 0.9.2", "2026-11-26T04:18:40Z"));
    assert_eq!(trial(&newer).record.rtt_ns.as_ref().unwrap().n, 40);
    assert_eq!(figure(&newer, "loss_share"), 0.0);
}

#[test]
fn irtt_knows_which_way_packets_were_lost() {
    let outcome = import(&["irtt-loss.json.gz"]);
    let record = &trial(&outcome).record;
    let lost = |account: &Option<deadheat::measurements::Account>| {
        account.as_ref().filter(|account| account.closes()).unwrap().lost_on_path
    };
    assert_eq!((lost(&record.ledger.up), lost(&record.ledger.down)), (5, 3));
    assert_eq!(lost(&record.ledger.round_trip), 8);
    assert_eq!(figure(&outcome, "loss_share"), 0.08);
    let rtt = record.rtt_ns.clone().unwrap();
    assert_eq!((rtt.n, rtt.censored, rtt.mean), (100, 8, None));
    assert!(rtt.p90.is_some(), "90 of 100 lie among the 92 that came back");
}

#[test]
fn ping_of_iputils() {
    let outcome = import(&["ping.txt"]);
    let rtt = trial(&outcome).record.rtt_ns.clone().unwrap();
    // ping printed: rtt min/avg/max/mdev = 0.026/0.034/0.054/0.006 ms.
    assert_eq!((rtt.n, rtt.min, rtt.max), (30, Some(26_000), Some(54_000)));
    // It cuts the digits after those off.
    assert_eq!((rtt.mean.unwrap() / 1e3).floor(), 34.0);
    assert_eq!(figure(&outcome, "loss_share"), 0.0);
}

#[test]
fn ping_with_losses_duplicates_and_times() {
    let outcome = import(&["ping-lossy.txt"]);
    let account = trial(&outcome).record.ledger.round_trip.clone().unwrap();
    assert_eq!((account.sent, account.delivered, account.duplicates), (60, 56, Some(6)));
    assert_eq!((account.lost_on_path, account.closes()), (4, true));
    let rtt = trial(&outcome).record.rtt_ns.clone().unwrap();
    // ping's summary says 1.359 ms, and its line, which is what is read, 1.36 ms.
    assert_eq!((rtt.n, rtt.censored, rtt.min), (60, 4, Some(1_360_000)));
    assert!(outcome.imported.as_ref().unwrap().is_dated(), "-D tells the time");
}

#[test]
fn ping_of_which_only_the_summary_is_left() {
    for (name, mean) in [("ping-flood.txt", 4_000.0), ("ping-quiet.txt", 34_000.0)] {
        let outcome = import(&[name]);
        assert_eq!(figure(&outcome, "rtt_mean_ns"), mean, "{name}");
        assert!(unknown(&outcome).contains("only sums are there"), "{name}");
        assert!(!trial(&outcome).record.metrics.contains_key("rtt_p50_ns"), "{name}");
    }
    let none = import(&["ping-none.txt"]);
    assert_eq!(figure(&none, "loss_share"), 1.0);
    assert!(none.summary.iter().all(|summary| summary.metric == "loss_share"));
}

#[test]
fn sockperf_halves_round_trips_and_we_do_not() {
    let outcome = import(&["sockperf.csv"]);
    let half = trial(&outcome).record.rtt_ns.clone().unwrap();
    // sockperf printed: <MIN> observation = 6.469, <MAX> 2735.970, both half a round trip.
    assert_eq!((half.n, half.min), (164, Some(12_938)));
    assert!(half.max.unwrap().abs_diff(5_471_940) <= 2_000);
    assert!(unknown(&outcome).contains("half of a round trip"));
    let whole = import(&["sockperf-ul.csv"]);
    assert_eq!(trial(&whole).record.rtt_ns.as_ref().unwrap().min, Some(20_010));
    assert!(!unknown(&whole).contains("half of a round trip"));
}

#[test]
fn what_sockperf_prints_agrees_with_its_full_log() {
    for name in ["sockperf", "sockperf-ul"] {
        let (log, printed) = (import(&[&format!("{name}.csv")]), import(&[&format!("{name}.txt")]));
        for metric in ["rtt_p50_ns", "rtt_p90_ns"] {
            let [log, printed] = [&log, &printed].map(|outcome| figure(outcome, metric));
            // sockperf prints thousandths of a microsecond, and its half of it twice as coarse.
            assert!((log - printed).abs() <= 4.0, "{name} {metric}: {log} {printed}");
        }
        assert!(unknown(&printed).contains("Only sockperf's percentiles"));
    }
    assert_eq!(program(&import(&["sockperf.txt"])), "sockperf 3.7-no.git");
}

#[test]
fn sockperf_with_losses() {
    let outcome = import(&["sockperf-loss.csv"]);
    let account = trial(&outcome).record.ledger.round_trip.clone().unwrap();
    assert!(account.lost_on_path > 0 && account.closes(), "{account:?}");
    let rtt = trial(&outcome).record.rtt_ns.clone().unwrap();
    assert_eq!(rtt.censored, account.lost_on_path);
}

#[test]
fn flent_has_a_metric_for_each_series() {
    let outcome = import(&["ping.flent.gz"]);
    assert_eq!(program(&outcome), "flent 2.1.1");
    let names: Vec<&str> = outcome.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert!(names.contains(&"ping_icmp_p50_ns") && names.contains(&"ping_udp_p50_ns"), "{names:?}");
    let spreads = &outcome.imported.as_ref().unwrap().spreads;
    let what: Vec<&str> = spreads.iter().map(|own| own.what.as_str()).collect();
    assert_eq!(what, ["Ping ICMP", "Ping UDP"]);
    assert!(spreads[1].n >= 100, "ten a second for twelve seconds, as measured: {}", spreads[1].n);
}

#[test]
fn hyperfine_has_a_contender_for_each_command() {
    let outcome = import(&["hyperfine.json"]);
    assert_eq!(outcome.trials.len(), 24);
    let own = spread(&outcome, "sleep 0.01");
    assert_eq!((own.n, own.min, own.max), (12, 11_512_552.0, 16_083_806.0));
    assert_eq!(outcome.verdicts[0].ahead, Some(0));
    let failed = import(&["hyperfine-fail.json"]);
    assert!(failed.trials.iter().all(|trial| !trial.record.valid));
    let why = failed.trials[0].record.why_invalid.as_deref();
    assert_eq!(why, Some("the command ended with exit code 1"));
}
