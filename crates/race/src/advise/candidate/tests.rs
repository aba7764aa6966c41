use super::super::app;
use super::*;
use deadheat_contract::workload;
use deadheat_path::PathSpec;
use deadheat_trial::path::model_time;

/// Checks the candidates that `typed` gives for an application with this traffic.
fn made(traffic: &str, typed: &[&str], check: impl Fn(&[Candidate], &[CheckedTraffic<'_>])) {
    let app =
        app::parse(&format!("format = 1\ntitle = \"A game\"\n{traffic}"), "game.toml").unwrap();
    let setting = model_time::setting(&PathSpec::parse("delay=25ms").unwrap());
    let asked = |traffic| {
        let work = Traffic::work(traffic, &app.traffic, &setting).unwrap();
        let task = workload::parse_on(&work.spec.to_string(), &setting).unwrap();
        CheckedTraffic { traffic, task, limit: work.limit }
    };
    let works: Vec<CheckedTraffic<'_>> = app.traffic.iter().map(asked).collect();
    let singles: Vec<Candidate> =
        typed.iter().flat_map(|typed| of(typed, &works).unwrap().0).collect();
    check(&singles, &works);
}

fn names(all: &[Candidate]) -> Vec<&str> {
    all.iter().map(|one| one.name.as_str()).collect()
}

const STATE: &str =
    "[[traffic]]\nname = \"world\"\nkind = \"state\"\nper-second = 30\nstale-after = \"90ms\"\n";
const SHOTS: &str = "[[traffic]]\nname = \"shots\"\nkind = \"events\"\nper-second = 10\n";

#[test]
fn lanes_that_may_lose_stand_beside_reliable_ones_of_the_same_transport() {
    let both = format!("{STATE}{SHOTS}in-order = true\n");
    made(&both, &["tcp", "kcp", "enet", "sctp-udp", "quic"], |found, _| {
        let wanted = [
            "tcp",
            "kcp",
            "enet",
            "enet:lane=best-effort",
            "sctp-udp",
            "sctp-udp:lane=unordered",
            "sctp-udp:lane=lifetime:90ms",
            "sctp-udp:lane=best-effort",
            "quic",
            "quic:lane=unordered",
            "quic:lane=best-effort",
        ];
        assert_eq!(names(found), wanted);
        // Ordered traffic is carried as usual, whatever the state prefers.
        let carries: Vec<&str> = found[3].carries.iter().flatten().map(String::as_str).collect();
        assert_eq!(carries, ["enet:lane=best-effort", "enet"]);
    });
}

#[test]
fn who_needs_no_order_may_take_a_transport_with_one() {
    made(&format!("{SHOTS}in-order = false\n"), &["tcp", "kcp", "quic"], |found, _| {
        assert_eq!(names(found), ["tcp", "kcp", "quic", "quic:lane=unordered"]);
        assert!(found.iter().all(Candidate::carries_all));
    });
}

#[test]
fn what_has_to_arrive_never_takes_a_lane_that_loses() {
    let must = STATE.replace("stale-after = \"90ms\"", "must-arrive = true");
    made(&must, &["udp", "enet", "quic"], |found, _| {
        assert_eq!(names(found), ["udp", "enet", "quic", "quic:lane=unordered"]);
        assert_eq!(found[0].carries, [None]);
    });
}

#[test]
fn one_that_loses_goes_beside_one_that_does_not() {
    let both = format!("{STATE}{SHOTS}");
    made(&both, &["tcp", "kcp", "enet", "udp"], |found, works| {
        let pairs = pairs(found, works);
        // enet itself has such a lane.
        assert_eq!(names(&pairs), ["udp + tcp for shots", "udp + kcp for shots"]);
        let carries = |at: usize| pairs[0].carries[at].as_deref();
        assert_eq!((carries(0), carries(1)), (Some("udp"), Some("tcp")));
    });
    // Both kinds in the same direction are raced on one path, as a mix.
    made(&format!("{STATE}direction = \"up\"\n{SHOTS}"), &["kcp", "udp"], |found, works| {
        let pairs = pairs(found, works);
        assert_eq!(pairs[0].carries[1].as_deref(), Some("mix:state=udp,events=kcp"));
        assert_eq!(
            simulated("mix:state=udp,events=kcp").as_deref(),
            Some("mix:state=sim-datagram,events=kcp")
        );
    });
}

#[test]
fn a_model_of_the_same_promises_stands_for_datagrams() {
    assert_eq!(simulated("udp").as_deref(), Some("sim-datagram"));
    assert_eq!(simulated("enet:lane=best-effort").as_deref(), Some("enet:lane=best-effort"));
    for real in ["tcp", "tls", "icmp", "udp:df=on", "enet:via=relay"] {
        assert_eq!(simulated(real), None, "{real}");
    }
}
