//! Trials in virtual time whose packets are observed: the capture and the counts hold what the account holds.

use deadheat::import::Import;
use deadheat::measurements::path::{DirectionFigures, WireEnd};
use deadheat::path::{Family, PathSpec, observe::pcapng};
use deadheat::records::placement::Placement;
use deadheat::records::trial::Record;
use deadheat::time::Nanos;
use deadheat::trial::explain::Pass;
use deadheat::trial::observers::Observers;
use deadheat::trial::sim::Simulation;
use deadheat::trial::{Order, Pairing, Runner, TrialOutcome};

/// Runs trials over a simulated path, all in one capture; returns their records and the capture.
fn observed(path: &str, contenders: &[&str]) -> (Vec<Record>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trials.pcapng");
    pcapng::create(&file).unwrap();
    let PathSpec::Simulated(network) = PathSpec::parse(path).unwrap() else { panic!("{path}") };
    let observers = Observers { wire: true, pcap: Some(file.clone()), trials: 0 };
    let mut simulation = Simulation::new(path, network, Family::Any).unwrap().observe(observers);
    let mut trial = |contender: &&str| {
        let order = Order {
            pairing: Pairing::parse(contender, "bulk:bytes=2MB").unwrap(),
            placement: Placement::Virtual,
            seed: 7,
            samples: None,
            interval: Nanos::from_millis(5),
            pass: Pass::Figures,
        };
        match simulation.run(&order) {
            TrialOutcome::Ran(record) => *record,
            other => panic!("{contender}: {other:?}"),
        }
    };
    let records = contenders.iter().map(&mut trial).collect();
    (records, std::fs::read(file).unwrap())
}

/// Returns how often some text stands in a capture.
fn count(capture: &[u8], text: &str) -> u64 {
    capture.windows(text.len()).filter(|window| *window == text.as_bytes()).count() as u64
}

#[test]
fn every_loss_of_the_account_is_in_the_capture_and_none_more() {
    let path = "sim:delay=10ms,rate=20mbit,queue=10pkt,loss=1%,duplicate=1%,jitter=2ms,order=free";
    let (records, capture) = observed(path, &["quic", "arq"]);
    let ways = || {
        let links = records.iter().flat_map(|record| &record.path.as_ref().unwrap().links);
        links.flat_map(|link| [&link.up, &link.down])
    };
    let sum = |of: fn(&DirectionFigures) -> u64| ways().map(of).sum::<u64>();
    let fates = [
        ("lost: loss model", sum(|way| way.fates.lost)),
        ("lost: queue full", sum(|way| way.fates.full)),
        ("delivered after", sum(|way| way.fates.delivered)),
        ("reordered: overtaken", sum(|way| way.fates.reordered)),
        (", copy", sum(|way| way.fates.duplicated)),
    ];
    for (text, expected) in fates {
        assert!(expected > 0, "{text}: nothing to find");
        assert_eq!(count(&capture, text), expected, "{text}");
    }
    let all = sum(|way| way.fates.arrived + way.fates.duplicated - way.fates.waiting);
    let captured = records.iter().map(|record| record.captured.clone().unwrap());
    assert_eq!(captured.map(|one| one.packets).sum::<u64>(), all);
    assert_eq!(count(&capture, "trial 2: arq"), 1);
    for record in &records {
        let up = &record.path.as_ref().unwrap().links[0].up;
        let wire = up.wire.as_ref().unwrap();
        assert_eq!(wire.data_packets, up.fates.arrived);
        assert_eq!(wire.exit.packets, up.fates.delivered);
    }
    // The window of the start leaves as a train, which the bottleneck spreads: a packet takes it 0.5 ms.
    let up = &records[0].path.as_ref().unwrap().links[0].up;
    let wire = up.wire.as_ref().unwrap();
    let longest = |end: &WireEnd| end.train_packets.max.unwrap();
    assert!(longest(&wire.entrance) >= 6, "{wire:?}");
    assert!(longest(&wire.exit) < longest(&wire.entrance), "{wire:?}");
}

/// The capture of a race, imported: its contenders with what each lost.
#[test]
fn an_imported_capture_has_the_losses_of_each_contender() {
    let path = "sim:delay=10ms,rate=20mbit,queue=10pkt,loss=1%";
    let (records, capture) = observed(path, &["quic", "arq"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("race.pcapng");
    std::fs::write(&file, capture).unwrap();
    let outcome = Import::new([&file]).run(None).unwrap();
    let labels: Vec<&str> = outcome.contenders.iter().map(|own| own.label.as_str()).collect();
    assert_eq!(labels, ["quic", "arq"]);
    for (record, trial) in records.iter().zip(&outcome.trials) {
        let link = &record.path.as_ref().unwrap().links[0];
        let lost: u64 =
            [&link.up, &link.down].map(|way| way.fates.lost + way.fates.full).iter().sum();
        let packets = record.captured.as_ref().unwrap().packets as f64;
        let share = trial.record.metrics["lost_packets_share"];
        assert!(lost > 10 && (share * packets).round() as u64 == lost, "{share} {lost}");
        assert!(trial.record.metrics["throughput_bps"] > 1e6);
    }
    assert!(outcome.trials[0].record.metrics["connect_ns"] >= 2e7);
}

#[test]
fn a_dense_series_has_the_window_what_is_in_flight_and_the_phases() {
    let (records, _) = observed("sim:delay=10ms,rate=20mbit,queue=30pkt", &["quic", "arq"]);
    for record in &records {
        let series = record.intervals.iter().chain(&record.far_intervals);
        let (series, tcp) = series.filter_map(|one| Some((one, one.tcp.as_ref()?))).next().unwrap();
        assert!(series.at_ns.len() > 100, "2 MB take 0.8 s at 20 Mbit/s");
        assert_eq!(series.interval_ns, 5_000_000);
        let windows: Vec<u64> = tcp.cwnd_bytes.iter().flatten().copied().collect();
        assert_eq!(windows.len(), series.at_ns.len());
        // A segment that just fitted may be in flight when the window falls.
        let pairs = tcp.in_flight_bytes.iter().flatten().zip(&windows);
        assert!(pairs.filter(|(flight, window)| flight > window).count() < windows.len() / 10);
    }
    let phases = &records[0].far_intervals.iter().chain(&records[0].intervals);
    let phases: Vec<&str> =
        phases.clone().flat_map(|one| &one.phases).map(|change| change.phase.name()).collect();
    assert_eq!(phases[..2], ["slow_start", "avoidance"], "quinn tells its threshold");
}
