//! Plain numbers: units, what one of them is, and what the numbers themselves no longer tell.

use super::*;

/// A number a line.
fn lines(numbers: impl IntoIterator<Item = f64>) -> Vec<u8> {
    numbers.into_iter().map(|number| format!("{number}\n")).collect::<String>().into_bytes()
}

/// 60 numbers in no order, around 100 and up to 10 % off it.
fn around(centre: f64) -> Vec<u8> {
    lines((0..60).map(|i| centre * (0.9 + 0.2 * f64::from(i * 37 % 60) / 60.0)))
}

#[test]
fn numbers_are_samples_of_one_trial_unless_said_otherwise() {
    let written = Written::new(&[("a.txt", &around(100.0)), ("b.txt", &around(200.0))]);
    let files = || Import::new(["a.txt", "b.txt"].map(|name| written.path(name)));
    let samples = files().unit("us").unwrap().run(None).unwrap();
    assert_eq!((samples.trials.len(), samples.verdicts.len()), (2, 0));
    let basis = &samples.imported.as_ref().unwrap().basis;
    assert!(basis.starts_with("No verdict: a, b have one trial."), "{basis}");
    let said = shown(&samples, "markdown");
    assert!(said.contains("each number is a sample"), "{said}");
    assert!(
        samples.summary.iter().all(|summary| summary.low.is_none()),
        "no interval over samples"
    );
    let trials = files().unit("us").unwrap().each("trial").unwrap().run(None).unwrap();
    assert_eq!((trials.trials.len(), trials.verdicts.len()), (120, 1));
    assert_eq!((trials.verdicts[0].outcome, trials.verdicts[0].ahead), (Ruled::Ahead, Some(0)));
    assert!(trials.summary.iter().all(|summary| summary.low.is_some()));
    let lacks = &trials.imported.as_ref().unwrap().lacks;
    assert!(lacks.starts_with("Not known from the files: the order of the runs; "), "{lacks}");
}

#[test]
fn equal_contenders_are_a_dead_heat_and_few_trials_undecided() {
    let numbers = around(100.0);
    let few = lines([100.0, 101.0]);
    // Equal numbers in another text, as the same text twice counts once.
    let same = [b"# b\n", &numbers[..]].concat();
    let written = Written::new(&[("a", &numbers), ("b", &same), ("c", &few), ("d", &few)]);
    let trials = |names: [&str; 2]| {
        let files = Import::new(names.map(|name| written.path(name)));
        files.unit("ms").unwrap().each("trial").unwrap().run(None).unwrap()
    };
    let tie = trials(["a", "b"]);
    assert_eq!(tie.verdicts[0].outcome, Ruled::DeadHeat);
    assert!(tie.verdicts[0].note.contains("dead heat"), "{}", tie.verdicts[0].note);
    let few = trials(["c", "d"]);
    assert_eq!((few.verdicts[0].outcome, few.verdicts[0].ratio), (Ruled::Undecided, None));
    let note = &few.verdicts[0].note;
    assert!(note.contains("2 and 2 trials are too few for an interval of 95 %"), "{note}");
}

#[test]
fn the_margin_decides_between_a_tie_and_a_lead() {
    let written = Written::new(&[("a", &around(100.0)), ("b", &around(112.0))]);
    let ruled = |margin| {
        let files = Import::new(["a", "b"].map(|name| written.path(name)));
        let files = files.unit("ms").unwrap().each("trial").unwrap().margin(margin);
        files.run(None).unwrap().verdicts[0].outcome
    };
    assert_eq!((ruled(0.05), ruled(0.3)), (Ruled::Ahead, Ruled::DeadHeat));
}

#[test]
fn comments_blank_lines_units_and_marks_of_other_systems_do_no_harm() {
    let text = b"\xef\xbb\xbf# what I measured\r\n\r\n12.5 ms\r\n 13000us # slow\r\n0.014 s\r\n";
    let written = Written::new(&[("a.txt", text)]);
    let outcome = Import::new([written.path("a.txt")]).each("trial").unwrap().run(None).unwrap();
    let values: Vec<f64> =
        outcome.trials.iter().map(|trial| trial.record.metrics["time_ns"]).collect();
    assert_eq!(values, [12_500_000.0, 13_000_000.0, 14_000_000.0]);
}

#[test]
fn rates_win_by_being_higher() {
    let written = Written::new(&[("a", &around(100.0)), ("b", &around(200.0))]);
    let files = Import::new(["a", "b"].map(|name| written.path(name)));
    let outcome = files.unit("MB/s").unwrap().each("trial").unwrap().run(None).unwrap();
    assert_eq!(outcome.verdicts[0].ahead, Some(1));
    assert_eq!(outcome.metrics[0].name, "rate_bps");
    assert_eq!(spread(&outcome, "b").min, 200.0 * 0.9 * 8e6);
}

#[test]
fn sorted_and_coarse_numbers_are_said_to_be_so() {
    let sorted = lines((0..100).map(|i| f64::from(i / 5)));
    let written = Written::new(&[("a", &sorted)]);
    let outcome = Import::new([written.path("a")]).unit("ms").unwrap().run(None).unwrap();
    let said = unknown(&outcome);
    assert!(said.contains("The order is lost: the numbers are sorted."), "{said}");
    assert!(said.contains("20 distinct values among 100, in steps of 1 ms"), "{said}");
}

#[test]
fn a_million_numbers_packed_come_out_exact() {
    use std::io::Write;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Every number from 1 to 1,000,000 once, in no order: 7 and a million have no common divisor.
    for i in 0..1_000_000u64 {
        writeln!(packed, "{}", i * 700_001 % 1_000_000 + 1).unwrap();
    }
    let written = Written::new(&[("many.txt.gz", &packed.finish().unwrap())]);
    let kept = written.path("many.samples");
    let import = Import::new([written.path("many.txt.gz")]).unit("ns").unwrap();
    let outcome = import.run(Some(&kept)).unwrap();
    let own = spread(&outcome, "many");
    let five = [Some(own.min), own.q1, own.median, own.q3, Some(own.max)];
    assert_eq!(five, [1.0, 250_000.0, 500_000.0, 750_000.0, 1_000_000.0].map(Some));
    assert_eq!(figure(&outcome, "time_p999_ns"), 999_000.0);
    let chunk = samples::open(&kept).unwrap().next().unwrap().unwrap();
    assert_eq!(chunk.samples.len(), 1_000_000);
    assert_eq!(chunk.samples[1].rtt_ns, Some(700_002));
}
