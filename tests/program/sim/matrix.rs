//! Contenders that share one bottleneck in virtual time.

use std::path::Path;

use super::races::deadheat;
use super::trial;
use deadheat::analysis::derived;
use deadheat::result::contest::Contest;
use deadheat::stats::Outcome as Ruled;

const PATH: &str = "delay=10ms,rate=10mbit,queue=2bdp";

/// Both sides are measured over the same time, and together they fill the bottleneck.
#[test]
fn quic_beside_quic_has_about_a_half_and_beside_three_flows_a_quarter() {
    for (flows, fair) in [(1, 0.5), (3, 0.25)] {
        let work = format!("bulk:time=20s,warmup=5s,load=quic,load-flows={flows},load-lead=0s");
        let metrics = trial(PATH, "quic", &work).metrics;
        let share = 1.0 - metrics["load_goodput_share"];
        assert!((share - fair).abs() < 0.1, "{flows}: {metrics:?}");
        let both = metrics["goodput_bps"] + metrics["load_goodput_bps"];
        assert!((0.9..0.98).contains(&(both / 10e6)), "{flows}: {metrics:?}");
        assert!(metrics["flows_jain_share"] > 0.9, "{flows}: {metrics:?}");
        assert!(metrics["flow_least_share"] <= share + 1e-9, "{flows}: {metrics:?}");
    }
    let work = "bulk:time=20s,warmup=5s,load=quic,load-lead=0s";
    let fair = trial("delay=10ms,rate=10mbit,aqm=fq-codel", "quic", work).metrics;
    assert!(fair["shares_stay_ns"] < 5e9, "{fair:?}");
    // Against the direction of the load there is nothing to share.
    let work = "bulk:time=2s,load=quic,load-direction=down,load-lead=0s";
    assert!(!trial(PATH, "quic", work).metrics.contains_key("load_goodput_share"));
}

#[test]
fn a_matrix_has_a_verdict_for_each_pair_and_its_table_is_golden() {
    let dir = tempfile::tempdir().unwrap();
    let path = format!("--path=sim:{PATH}");
    let typed = ["matrix", "quic", "quic:cc=bbr", &path, "--trial=2s", "--blocks=8", "--seed=1"];
    let output = deadheat(&[&typed[..], &["-q", "-o", "m.json"]].concat(), dir.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let outcome = derived::load(&dir.path().join("m.json")).unwrap();
    let [verdict] = outcome.verdicts.as_slice() else { panic!("{:?}", outcome.verdicts) };
    assert_eq!(verdict.outcome, Ruled::Ahead, "{}", verdict.note);
    let label = |contest: &Contest| outcome.contenders[contest.contender].label.clone();
    let labels: Vec<String> = outcome.contests.iter().map(label).collect();
    let beside = |load: &str| ["quic", "quic:cc=bbr"].map(|one| format!("{one} · load={load}"));
    assert_eq!(labels, [beside("quic"), beside("quic:cc=bbr")].concat());
    assert!(outcome.contests.iter().all(|contest| contest.harms.len() == 1));
    let report = |form: &[&str]| {
        let shown = deadheat(&[&["report", "m.json"], form].concat(), dir.path());
        String::from_utf8(shown.stdout).unwrap()
    };
    let brief = report(&[]);
    let details = report(&["--details"]);
    let table = details.split("At one bottleneck").nth(1).unwrap();
    let table = table.split("\nUnder each combination").next().unwrap();
    let text = format!("{brief}\n# --details\n{table}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/matrix.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap());
    let page = report(&["--format", "html"]);
    assert!(page.contains("Not fair: quic:cc=bbr has"), "{}", &page[..2000.min(page.len())]);
}
