//! Faults that programs and people make in files of measurements: what is there is read, what is not possible is said to be
//! so and is in no figure, and nothing unknown becomes a 0.

use super::*;

/// Imports a file with this content.
fn read(name: &str, content: &str) -> Outcome {
    let written = Written::new(&[(name, content.as_bytes())]);
    Import::new([written.path(name)]).run(None).unwrap()
}

fn has(outcome: &Outcome, metric: &str) -> bool {
    trial(outcome).record.metrics.contains_key(metric)
}

#[test]
fn runs_in_one_file_are_trials_and_one_that_found_a_busy_server_is_invalid() {
    let outcome = import(&["iperf3-loop.json"]);
    let valid: Vec<bool> = outcome.trials.iter().map(|trial| trial.record.valid).collect();
    assert_eq!(valid, [true, false, true]);
    assert_eq!(why(&outcome, 1), "failed: the server is busy running a test. try again later");
    let shown = shown(&outcome, "terminal");
    assert!(shown.contains("Run 2 of 3 is in no verdict: failed: the server is busy"), "{shown}");
    let printed = import(&["iperf3-text-busy.txt"]);
    assert_eq!(why(&printed, 0), why(&outcome, 1));
    let spread = &outcome.imported.as_ref().unwrap().spreads[0];
    assert_eq!((spread.n, spread.max), (2, 5_289_092_753.656_502));
}

#[test]
fn a_document_printed_twice_a_file_given_twice_and_both_ends_of_a_run_count_once() {
    let one = text_of("iperf3-tcp.json");
    let twice = read("twice.json", &format!("{one}\n{one}"));
    assert_eq!(twice.trials.len(), 1);
    assert!(unknown(&twice).contains("1 run is in it more than once: each run counts once."));
    let same = import(&["iperf3-tcp.json", "iperf3-udp.json", "iperf3-tcp.json"]);
    assert_eq!((same.contenders.len(), same.trials.len()), (2, 2));
    assert!(unknown(&same).contains("It has the content of iperf3-tcp.json, given before it"));
    // The server of a reversed run does not know what arrived, and its client does.
    let ends = import(&["iperf3-server-reverse.json", "iperf3-client-reverse.json"]);
    assert_eq!((ends.contenders.len(), ends.trials.len()), (1, 1));
    assert_eq!(figure(&ends, "goodput_bps"), 3_116_270_947.488_637);
    assert!(unknown(&ends).contains("1 run is in iperf3-client-reverse.json, too"));
    assert!(shown(&ends, "terminal").contains("1 run is in iperf3-client-reverse.json, too"));
    // Errors have no cookie, and are alike every time.
    let failed = import(&["iperf3-error.json", "iperf3-error.json"]);
    assert_eq!(failed.trials.len(), 2);
}

#[test]
fn a_server_knows_its_own_count_and_the_other_is_absent() {
    let receiver = import(&["iperf3-server.json"]);
    assert_eq!(figure(&receiver, "goodput_bps"), 5_292_281_955.821_294);
    assert!(!has(&receiver, "sent_bps"));
    let sender = import(&["iperf3-server-reverse.json"]);
    assert!(has(&sender, "sent_bps") && !has(&sender, "goodput_bps"));
    assert!(unknown(&sender).contains("the goodput is not known"), "{}", unknown(&sender));
    assert!(sender.trials[0].record.far_cost.is_none(), "the CPU time of the other end");
}

#[test]
fn a_run_that_ended_early_is_unfinished_with_its_intervals() {
    for (name, words) in [
        ("iperf3-killed.json", "unfinished: unable to write to stream socket"),
        ("iperf3-interrupted.json", "unfinished: interrupt - the client has terminated"),
    ] {
        let outcome = import(&[name]);
        assert!(why(&outcome, 0).starts_with(words), "{}", why(&outcome, 0));
        assert!(outcome.trials[0].record.intervals[0].at_ns.len() >= 2, "{name}");
        assert!(has(&outcome, "sent_bps") && !has(&outcome, "goodput_bps"), "{name}");
    }
    // A file that was cut off is one, too, as soon as it has an interval.
    let text = text_of("iperf3-tcp.json");
    let end = text.find("\"end\":\t{").unwrap();
    let cut = read("cut.json", &text[..end]);
    assert_eq!(why(&cut, 0), "unfinished: the text of the run ends in the middle, after 2.0 s");
    assert!(has(&cut, "sent_bps"));
    let two = read("two.json", &format!("{}\n{text}", &text[..end]));
    assert_eq!(two.trials.len(), 1, "it is the same run, and the whole one is worth more");
    assert!(two.trials[0].record.valid);
}

#[test]
fn every_truncation_of_a_document_is_read_or_refused_without_a_panic() {
    for name in ["iperf3-tcp.json", "iperf3-udp-loss.json"] {
        let text = text_of(name);
        let whole = text.trim_ascii_end().len();
        // A prime step meets every kind of place.
        for end in (500..whole).step_by(37) {
            let written = Written::new(&[("cut.json", &text.as_bytes()[..end])]);
            let outcome = Import::new([written.path("cut.json")]).run(None).unwrap();
            let record = &trial(&outcome).record;
            let said = record.why_invalid.clone().unwrap_or_else(|| unknown(&outcome));
            assert!(said.contains("ends in the middle"), "{name} {end}: {said}");
            if record.valid {
                let whole = import(&[name]);
                let ratio = figure(&outcome, "goodput_bps") / figure(&whole, "goodput_bps");
                assert!((ratio - 1.0).abs() < 1e-6, "the rate, or its bytes and seconds: {ratio}");
            }
        }
    }
}

#[test]
fn words_around_a_document_are_a_doubt() {
    let outcome = import(&["iperf3-words.json"]);
    assert!(outcome.trials[0].record.valid);
    let doubt = "There are words around the content: `warning: Report format (-f) flag ignored with JSON \
                 output (-J)`.";
    assert!(unknown(&outcome).contains(doubt), "{}", unknown(&outcome));
    let text = text_of("iperf3-tcp.json")
        + "iperf3: error - unable to send control message: Broken pipe\n";
    let after = read("after.json", &text);
    assert!(after.trials[0].record.valid && unknown(&after).contains("Broken pipe"));
    // An array around documents is no word.
    let text = format!("[{},\n{}]\n", text_of("iperf3-tcp.json"), text_of("iperf3-udp.json"));
    let array = read("array.json", &text);
    assert_eq!((array.trials.len(), unknown(&array).contains("words")), (2, false));
    // A document as a member, and as a string, of what another program wrote.
    let own = text_of("iperf3-tcp.json");
    let string = serde_json::json!({"hosts": {"a": {"stdout": own}}}).to_string();
    for text in [format!("{{\"name\": \"a\", \"iperf\": {own}}}"), string] {
        assert_eq!(figure(&read("in.json", &text), "goodput_bps"), 15_882_583_116.254_03);
    }
}

#[test]
fn the_same_keys_twice_are_both_directions() {
    let text = text_of("iperf3-bidir.json");
    let twice = read("dup.json", &text.replace("_bidir_reverse", ""));
    let later = import(&["iperf3-bidir.json"]);
    for metric in ["goodput_up_bps", "goodput_down_bps", "goodput_bps", "sent_bps"] {
        assert_eq!(figure(&twice, metric), figure(&later, metric), "{metric}");
    }
}

#[test]
fn numbers_that_are_none_are_absent_and_the_rest_is_read() {
    let text = text_of("iperf3-tcp.json");
    let unsigned = "18446744073709551615";
    for wrong in ["-1", unsigned, "nan", "-nan"] {
        let retransmits =
            text.replace("\"retransmits\":\t22,", &format!("\"retransmits\":\t{wrong},"));
        assert_ne!(retransmits, text);
        let outcome = read("x.json", &retransmits);
        assert_eq!(trial(&outcome).record.retransmits, None, "{wrong}");
        assert_eq!(figure(&outcome, "goodput_bps"), 15_882_583_116.254_03, "{wrong}");
    }
    // A rate that is no number follows from bytes and seconds, and one with a space in its exponent is itself.
    let rate = "\"bits_per_second\":\t15882583116.25403";
    assert_eq!(text.matches(rate).count(), 2, "of the stream and of the sum");
    let spaced = read("x.json", &text.replace(rate, "\"bits_per_second\":\t1.5e 10"));
    assert_eq!(figure(&spaced, "goodput_bps"), 1.5e10);
    let none = read("x.json", &text.replace(rate, "\"bits_per_second\":\t-nan"));
    assert!((figure(&none, "goodput_bps") / 15_882_583_116.0 - 1.0).abs() < 1e-6);
    let negative = read("x.json", &text.replace(rate, "\"bits_per_second\":\t-15"));
    assert!(!has(&negative, "goodput_bps") && unknown(&negative).contains("Impossible"));
}

#[test]
fn impossible_counts_are_said_and_in_no_figure() {
    let text = text_of("iperf3-udp-loss.json");
    for (lost, said) in [("940", "940 datagrams lost of 521"), ("-3", "-3 datagrams lost of 521")] {
        let changed =
            text.replace("\"lost_packets\":\t16,", &format!("\"lost_packets\":\t{lost},"));
        let outcome = read("x.json", &changed);
        assert!(!has(&outcome, "loss_share"), "{lost}");
        assert!(trial(&outcome).record.ledger.up.is_none(), "nothing was delivered, it would say");
        assert_eq!(figure(&outcome, "goodput_bps"), 4_834_641.884_473_2, "by bytes, not by counts");
        let want = format!("Impossible, and in no figure: {said}.");
        assert!(unknown(&outcome).contains(&want), "{}", unknown(&outcome));
        assert!(shown(&outcome, "terminal").contains(&want));
    }
    // The last count of bytes is that of the receiver.
    let text = text_of("iperf3-tcp.json");
    let (before, after) = text.rsplit_once("3971481600").unwrap();
    let more = format!("{before}3999999999999{after}");
    let outcome = read("x.json", &more);
    assert!(!has(&outcome, "goodput_bps"));
    let said = unknown(&outcome);
    assert!(
        said.contains("Impossible, and in no figure: 3999999999999 bytes received of"),
        "{said}"
    );
}

#[test]
fn one_sum_of_udp_has_the_bytes_of_the_sender_and_the_losses_of_the_receiver() {
    let mut json: serde_json::Value =
        serde_json::from_str(&text_of("iperf3-udp-loss.json")).unwrap();
    let end = json["end"].as_object_mut().unwrap();
    let (sent, received) = (end.remove("sum_sent").unwrap(), end.remove("sum_received").unwrap());
    end.insert("sum".into(), sent.clone());
    for key in ["lost_packets", "packets", "jitter_ms"] {
        end["sum"][key] = received[key].clone();
    }
    let outcome = read("old.json", &json.to_string());
    let arrived = sent["bits_per_second"].as_f64().unwrap() * (505.0 / 521.0);
    assert!((figure(&outcome, "goodput_bps") / arrived - 1.0).abs() < 1e-12);
    assert_eq!(figure(&outcome, "loss_share"), 16.0 / 521.0);
    json["end"]["sum"]["lost_packets"] = 600.into();
    let outcome = read("old.json", &json.to_string());
    assert!(!has(&outcome, "goodput_bps") && has(&outcome, "sent_bps"));
}

#[test]
fn a_stream_of_events_is_the_document_that_it_is_a_stream_of() {
    let json: serde_json::Value = serde_json::from_str(&text_of("iperf3-tcp.json")).unwrap();
    let event = |name: &str, data: &serde_json::Value| {
        serde_json::json!({"event": name, "data": data}).to_string() + "\n"
    };
    let mut text = event("start", &json["start"]);
    for interval in json["intervals"].as_array().unwrap() {
        text += &event("interval", interval);
    }
    let unfinished =
        read("s.jsonl", &(text.clone() + &event("error", &"control socket has closed".into())));
    assert_eq!(why(&unfinished, 0), "unfinished: control socket has closed, after 2.0 s");
    let cut = read("s.jsonl", &text);
    assert_eq!(why(&cut, 0), "unfinished: it has no sums at its end, after 2.0 s");
    text += &event("end", &json["end"]);
    let stream = read("s.jsonl", &text);
    let whole = import(&["iperf3-tcp.json"]);
    assert_eq!(trial(&stream).record, trial(&whole).record);
    // With --json-stream-full-output the document follows.
    let full = read("full.jsonl", &(text + &json.to_string()));
    assert_eq!(full.trials.len(), 1);
}

#[test]
fn printed_text_is_read_with_the_digits_that_it_has() {
    let parallel = import(&["iperf3-text-parallel.txt"]);
    assert_eq!(figure(&parallel, "goodput_bps"), 7.43e9);
    assert_eq!(figure(&parallel, "sent_bps"), 7.49e9);
    let record = &trial(&parallel).record;
    assert_eq!((record.retransmits, record.intervals.len()), (Some(7), 2));
    assert_eq!(record.intervals[0].at_ns.len(), 2);
    assert!(unknown(&parallel).contains("digits beyond those that iperf3 prints"));
    assert_eq!(parallel.contenders[0].implementation, "iperf3, TCP, 2 streams");
    assert_eq!(figure(&import(&["iperf3-text-server.txt"]), "goodput_bps"), 7.43e9);
    let both = import(&["iperf3-text-bidir.txt"]);
    assert_eq!(figure(&both, "goodput_up_bps"), 8.92e9);
    assert_eq!(figure(&both, "goodput_down_bps"), 3.41e9);
    let udp = import(&["iperf3-text-udp.txt"]);
    assert_eq!((figure(&udp, "goodput_bps"), figure(&udp, "loss_share")), (19.2e6, 0.0));
    assert_eq!(udp.started, "2026-11-26T03:07:05Z");
    assert_eq!(trial(&udp).record.retransmits, None, "the number behind a rate is of datagrams");
    let cut = text_of("iperf3-text-parallel.txt");
    let cut = read(
        "cut.txt",
        &cut[..cut.find("[ ID] Interval           Transfer     Bitrate         Retr\n").unwrap()],
    );
    assert_eq!(why(&cut, 0), "unfinished: it has no sums at its end, after 1.1 s");
}

#[test]
fn a_rate_of_0_does_not_prevent_a_verdict() {
    let rates = |centre: f64, zeros: usize| -> String {
        let value = |i: usize| if i < zeros { 0.0 } else { centre + (i * 7 % 10) as f64 / 10.0 };
        (0..10).map(|i| format!("{}\n", value(i))).collect()
    };
    let verdict = |zeros| {
        let [a, b] = [rates(93.0, 0), rates(41.0, zeros)];
        let a = format!("# ten transfers of the first of two paths, in Mbit/s\n{a}");
        let written = Written::new(&[("a.txt", a.as_bytes()), ("b.txt", b.as_bytes())]);
        let files = Import::new(["a.txt", "b.txt"].map(|name| written.path(name)));
        let files = files.unit("Mbit/s").unwrap().each("trial").unwrap();
        let outcome = files.run(None).unwrap();
        let saved = serde_json::to_vec(&outcome).unwrap();
        assert_eq!(save::parse(&saved).unwrap(), outcome);
        outcome.verdicts[0].clone()
    };
    let one = verdict(1);
    assert_eq!((one.outcome, one.ahead), (Ruled::Ahead, Some(0)));
    let ratio = one.ratio.unwrap();
    assert!(ratio.low > 2.2 && ratio.high < 2.3, "{ratio:?}");
    assert!(
        one.note.ends_with(
            "The figure is 0 in 1 of 10 trials of b: such a trial has no ratio, and counts by its rank, \
             below all others."
        ),
        "{}",
        one.note
    );
    let most = verdict(9);
    assert_eq!((most.outcome, most.ahead, most.ratio), (Ruled::Ahead, Some(0), None));
    let want = "a is ahead of b: rate is 93.4 Mbit/s higher (";
    assert!(most.note.starts_with(want), "{}", most.note);
    assert!(most.note.contains("no ratio exists, and the verdict is by ranks"), "{}", most.note);
}
