//! Roles of hosts of a simulated network: people, receivers, and a load beside the work.

use super::{seeded, trial};
use deadheat::measurements::path::LinkFigures;
use deadheat::path::PathSpec;
use deadheat::race::Race;
use deadheat::records::trial::Record;

/// Three people, each behind a line, and a server.
const MEETING: &str = "a--r:delay=10ms,up.rate=5mbit,up.queue=100ms + b--r:delay=20ms + c--r:delay=40ms + \
    r--s:delay=5ms,people=a/b/c,far=s";

fn link(record: &Record, at: usize) -> &LinkFigures {
    &record.path.as_ref().unwrap().links[at]
}

#[test]
fn three_people_meet_each_way_and_see_each_other_as_late_as_the_way_is_long() {
    for (via, over_the_server) in [("peers", false), ("server", true), ("mix", true)] {
        let work = format!("session:count=50,picture=50kB,via={via}");
        for contender in ["quic", "mix:picture=quic,pen=quic,voice=sim-datagram,pose=sim-datagram"]
        {
            let record = trial(MEETING, contender, &work);
            let figure = |name: &str| record.metrics[name];
            assert_eq!(figure("pen_undelivered_share"), 0.0, "{via}");
            assert_eq!(figure("picture_unfinished_share"), 0.0, "{via}");
            // Delays of the two lines, and of the way to the server and back.
            for (pair, ms) in
                [("1_to_2", 30.0), ("2_to_1", 30.0), ("1_to_3", 50.0), ("3_to_2", 60.0)]
            {
                let ms = ms + if over_the_server { 10.0 } else { 0.0 };
                let pen = figure(&format!("pen_{pair}_mean_ns")) / 1e6;
                assert!(pen >= ms && pen < ms + 200.0, "{via}, {pair}: {pen} ms");
            }
            let uploads = link(&record, 0).up.fates.arrived_bytes as f64;
            let pictures = uploads / 50_000.0;
            assert!(
                if via == "peers" { pictures > 2.0 } else { (1.0..3.0).contains(&pictures) },
                "{pictures}"
            );
            assert_eq!(link(&record, 3).up.fates.arrived > 0, over_the_server, "{via}");
            let again = trial(MEETING, contender, &work);
            assert_eq!((&again.metrics, again.took_ns), (&record.metrics, record.took_ns));
        }
    }
    let work = "session:count=50,picture=50kB";
    assert_ne!(seeded(MEETING, "quic", work, 1).metrics, seeded(MEETING, "quic", work, 2).metrics);
}

#[test]
fn receivers_and_a_load_run_at_hosts_of_their_own() {
    let path = "a--r:delay=1ms + r--b:delay=2ms + r--c:delay=3ms,near=a,receivers=c/b";
    let record = trial(path, "quic", "fanout:receivers=3,bytes=200kB");
    let bytes = |at: usize| link(&record, at).up.fates.arrived_bytes;
    let (all, b, c) = (bytes(0), bytes(1), bytes(2));
    assert!(all >= 600_000 && (200_000..300_000).contains(&b) && c >= 400_000, "{all}, {b}, {c}");
    let path =
        "a--i:delay=1ms + i--j:delay=5ms,rate=20mbit + j--b + x--i + j--y,near=a,far=b,load=x/y";
    let record = trial(path, "sim-datagram", "ping:count=50,interval=10ms,load=quic");
    let bytes = |at: usize| link(&record, at).up.fates.arrived_bytes;
    assert!(bytes(0) < 50_000 && bytes(2) < 50_000, "the pings'");
    assert!(bytes(3) > 100_000 && bytes(1) > bytes(3), "the load's");
}

#[test]
fn roles_that_no_trial_in_virtual_time_has_are_refused_by_name() {
    let refused = |path: &str, work: &str| {
        Race::new(["quic"]).path(path).workload(work).check().map(drop).unwrap_err().to_string()
    };
    let at_one = "sim:a--r:delay=1ms + r--b + r--c,people=a/b/c,far=c";
    assert!(refused(at_one, "session").contains("name a host for each person"));
    let nat64 = "sim:a--r:delay=1ms + r--b:nat=64,near=a,far=b";
    assert!(refused(nat64, "ping").contains("one version of IP"));
    let relay = PathSpec::parse("sim:a--r:delay=1ms + r--b,near=a,far=b,relay=r").unwrap_err();
    assert!(relay.to_string().contains("no relay stands on a simulated path"), "{relay}");
}
