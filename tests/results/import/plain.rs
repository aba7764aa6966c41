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

/// Numbers in [0, 1), the same in each run.
fn draws(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Rows of a table of two builds in turns (a b b a), the second 14 % slower, on a host that drifts by ±15 % over some
/// blocks, with noise of 2 % that is skewed.
fn in_turns(seed: u64, blocks: usize) -> Vec<(usize, &'static str, f64)> {
    let mut draw = draws(seed);
    let mut drift = 0.0;
    let mut rows = Vec::new();
    for block in 0..blocks {
        drift = 0.9 * drift + 0.2 * (draw() - 0.5);
        let order = if block % 2 == 0 { ["old", "new"] } else { ["new", "old"] };
        for build in order {
            let slower = if build == "new" { 1.14 } else { 1.0 };
            let skewed = -0.02 * (1.0 - draw()).ln();
            rows.push((block, build, 100.0 * slower * (drift + skewed).exp()));
        }
    }
    rows
}

fn table(rows: &[(usize, &str, f64)]) -> Vec<u8> {
    let rows = rows.iter().map(|(block, build, ms)| format!("{block},{build},{ms}\n"));
    format!("run,build,time (ms)\n{}", rows.collect::<String>()).into_bytes()
}

fn width(outcome: &Outcome) -> f64 {
    let ratio = outcome.verdicts[0].ratio.unwrap();
    (ratio.high / ratio.low).ln()
}

/// The same runs: drift that both met is in the interval of independent samples, and not in that of pairs.
#[test]
fn pairs_leave_out_the_drift_that_both_met() {
    let mut covered = 0;
    for seed in 1..=20 {
        let written = Written::new(&[("runs.csv", &table(&in_turns(seed, 24)))]);
        let runs = || Import::new([written.path("runs.csv")]).contender("build");
        let (paired, unpaired) =
            (runs().paired().block("run").run(None).unwrap(), runs().run(None).unwrap());
        let by_order = runs().paired().run(None).unwrap();
        assert_eq!(paired.verdicts, by_order.verdicts, "rows in turns are the same pairs");
        assert!(width(&paired) < 0.5 * width(&unpaired), "{seed}");
        let verdict = &paired.verdicts[0];
        assert_eq!((verdict.outcome, verdict.blocks, paired.trials.len()), (Ruled::Ahead, 24, 48));
        assert_eq!(paired.contenders[verdict.ahead.unwrap()].label, "old");
        // The table has old over new.
        let ratio = verdict.ratio.unwrap();
        covered += u32::from(ratio.low * 1.14 <= 1.0 && 1.0 <= ratio.high * 1.14);
    }
    assert!(covered >= 18, "{covered} of 20 intervals of 95 % cover");
}

#[test]
fn the_pairing_is_said_and_saved() {
    let written = Written::new(&[("runs.csv", &table(&in_turns(3, 24)))]);
    let runs = || Import::new([written.path("runs.csv")]).contender("build");
    let paired = runs().paired().block("run").run(None).unwrap();
    let said = shown(&paired, "terminal");
    assert!(said.contains("compared in 24 pairs") && said.contains("column of blocks"), "{said}");
    let origin = paired.imported.as_ref().unwrap();
    assert_eq!(origin.pairing.as_ref().unwrap().first, None, "a b b a");
    assert!(!origin.lacks.contains("order of the runs"), "{}", origin.lacks);
    let unpaired = runs().run(None).unwrap();
    assert!(shown(&unpaired, "terminal").contains("independent samples"));
    assert_eq!(unpaired.imported.as_ref().unwrap().pairing, None);
}

#[test]
fn files_are_paired_by_their_order() {
    let rows = in_turns(5, 12);
    let file = |(at, (_, build, ms)): (usize, &(usize, &str, f64))| {
        (
            format!("{at:02}-{build}"),
            format!("# run {at} of the day, by hand, on one host, in turns\n{ms}\n"),
        )
    };
    let files: Vec<(String, String)> = rows.iter().enumerate().map(file).collect();
    let named: Vec<(&str, &[u8])> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
    let written = Written::new(&named);
    let import = |names: &[&str]| {
        let files = Import::new(names.iter().map(|name| written.path(name)));
        let files = files.label("*-old=old").label("*-new=new").unit("ms").unwrap();
        files.each("trial").unwrap().paired().run(None)
    };
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let in_turns = import(&names).unwrap();
    let (mut old, mut new) = (names.clone(), names.clone());
    old.retain(|name| name.ends_with("old"));
    new.retain(|name| name.ends_with("new"));
    let one_by_one = import(&[&old[..], &new[..]].concat()).unwrap();
    assert_eq!(in_turns.verdicts[0].blocks, 12);
    assert_eq!(in_turns.verdicts, one_by_one.verdicts);
    let said = import(&names[1..]).unwrap_err().to_string();
    assert!(said.contains("--paired: the numbers of runs differ: "), "{said}");
}

#[test]
fn options_of_pairs_that_do_nothing_are_refused() {
    let written = Written::new(&[("runs.csv", &table(&in_turns(1, 6))), ("a", &around(100.0))]);
    let runs = || Import::new([written.path("runs.csv")]);
    let said = |import: Import| import.run(None).unwrap_err().to_string();
    assert!(said(runs().block("run")).contains("add --paired"));
    assert!(said(runs().paired().block("run").contender("run")).contains("the same column"));
    assert!(said(runs().contender("build").each("sample").unwrap()).contains("--each sample"));
    assert!(
        said(runs().contender("build").format("irtt").unwrap()).contains("--as irtt reads none")
    );
    assert!(said(runs().contender("biuld")).contains("no column is called `biuld`"));
    let alone = Import::new([written.path("a")]).unit("ms").unwrap().paired();
    assert!(said(alone).contains("there is one contender, a"));
}
