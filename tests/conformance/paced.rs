//! A constant rate over every transport and both fakes: each slot is sent or missed, each message
//! arrives or is lost, and the books close. Nothing is timed.

use std::thread;

use deadheat::contract::{Delivery, Direction, LaneSet, PeerFacts, Side, WaitMode};
use deadheat::measurements::{ConnStats, Tally};
use deadheat::records::samples::Samples;
use deadheat::spec::{Settings, Spec};
use deadheat::time::{Clock, Monotonic, Nanos};
use deadheat::transport::mem::{LossyMem, Mem};
use deadheat::transport::{Address, Carrier, Conn, Contender, Transport};
use deadheat::trial::agent::driver::{Flow, Signal, Watch};
use deadheat::trial::agent::intervals::{self, Sampler};
use deadheat::trial::suited;
use deadheat::workload::{Clocks, EndpointReport, Measurements, Part, Reports, Task, parse};

use deadheat_conformance::Subjects;
use deadheat_conformance::rig::connect_with;

/// The fakes beside the seam, with every transport that reaches a process.
fn all() -> Vec<(Contender, Address)> {
    let fakes: [(&'static dyn Transport, &str); 2] =
        [(&Mem, "mem"), (&LossyMem, "mem-lossy:loss=200")];
    let fakes = fakes.map(|(transport, typed)| {
        let spec = Spec::parse(typed).unwrap();
        let knobs = Settings::check(&spec, transport.info().keys).unwrap();
        (Contender::plain(Carrier::Listed(transport), knobs, spec), Address::Process(0))
    });
    Subjects::all().ours().chain(fakes).collect()
}

/// Tells the other end what was sent.
struct Tell<'a>(&'a Signal);

impl Watch for Tell<'_> {
    fn sent_all(&mut self, sent: Tally) {
        self.0.peer_finished(sent);
    }
}

/// Runs both ends of the only flow to their end. They spin, as nobody is there to nudge them.
fn run(contender: &Contender, at: &Address, typed: &str) -> Measurements {
    let task = parse(typed).unwrap();
    let ends = connect_with(contender, at, task.info().largest_message);
    let guarantees = contender.transport.info().guarantees;
    let signals = [Signal::default(), Signal::default()];
    let end = |side: Side, conn: Box<dyn Conn>, own: usize| {
        let recorder = Box::new(Samples::new(None, 0).unwrap());
        let half = task.half(Part {
            side,
            flow: 0,
            tag: 7,
            seed: 1,
            transit: Nanos::ZERO,
            guarantees,
            peer: PeerFacts::OURS,
            recorder,
            carried: LaneSet::ALL,
            store: None,
            exchange: None,
        });
        let largest_message = task.info().largest_message;
        let sampler = Sampler::new(intervals::DEFAULT, 1);
        let mut flow = Flow::new(conn, half, WaitMode::Spin, sampler, largest_message);
        flow.run(&Monotonic, &signals[own], &mut Tell(&signals[1 - own])).unwrap();
        let report = flow.half.report(Monotonic.now());
        let stats = flow.conn.info().stats;
        (report, stats, flow)
    };
    let (near, far) = thread::scope(|scope| {
        let far = scope.spawn(|| end(Side::Far, ends.far.unwrap(), 1));
        let near = end(Side::Near, ends.near, 0);
        (near, far.join().unwrap())
    });
    findings(&*task, contender, (near.0, near.1), (far.0, far.1))
}

fn findings(
    task: &dyn Task,
    contender: &Contender,
    near: (EndpointReport, ConnStats),
    far: (EndpointReport, ConnStats),
) -> Measurements {
    task.conclude(&Reports {
        near: &[near.0],
        far: &[far.0],
        near_conns: &[near.1],
        far_conns: &[far.1],
        guarantees: &contender.transport.info().guarantees,
        clocks: Clocks::Shared,
    })
}

#[test]
fn a_constant_rate_is_sent_or_missed_and_arrives_or_is_lost() {
    for (contender, at) in all() {
        for (direction, typed) in [
            (Direction::Up, "cbr:rate=4kpps,size=200,count=300"),
            (Direction::Down, "cbr:rate=4kpps,size=1400,count=300,direction=down"),
        ] {
            let found = run(&contender, &at, typed);
            let paced = &found.paced[0];
            assert_eq!(found.paced.len(), 1, "{contender:?}");
            assert_eq!((paced.direction, paced.pacing.slots), (direction, 300), "{contender:?}");
            let pacing = &paced.pacing;
            assert_eq!(
                pacing.slots,
                pacing.sent + pacing.missed_no_room + pacing.missed_no_time,
                "{contender:?}"
            );
            assert_eq!(pacing.lateness_ns.n, pacing.sent, "{contender:?}");
            let (_, account) = found.ledger.accounts().next().unwrap();
            assert!(account.closes(), "{contender:?}: {account:?}");
            assert_eq!((account.sent, account.unit.as_str()), (pacing.sent, "messages"));
            if contender.transport.info().guarantees.service.delivery == Delivery::Reliable {
                assert_eq!(account.delivered, account.sent, "{contender:?}");
            }
            let Some(delays) = &paced.delay_variation_ns else {
                // Of one message alone there is none, as where a busy host let nearly all slots pass.
                assert!(account.delivered < 2, "{contender:?}: {account:?}");
                continue;
            };
            assert_eq!((delays.n, delays.min), (account.delivered, Some(0)), "{contender:?}");
        }
    }
}

#[test]
fn a_blast_arrives_or_is_lost() {
    for (contender, at) in all() {
        let found = run(&contender, &at, "cbr:rate=max,count=500");
        let (_, account) = found.ledger.accounts().next().unwrap();
        assert!(account.closes() && account.sent > 0, "{contender:?}: {account:?}");
        assert!(found.paced.is_empty());
    }
}

/// Events arrive in every mix that promises it for their lane, whatever carries the state beside them.
#[test]
fn events_of_a_mix_all_arrive_and_its_books_close() {
    let at = Address::Ip((std::net::Ipv6Addr::LOCALHOST, 0).into());
    for typed in [
        "mix:events=tcp,state=udp",
        "mix:events=tcp,state=tcp:nodelay=off",
        "mix:events=quic,state=quic-datagram",
        "mix:events=enet,others=udp",
    ] {
        for direction in ["up", "down"] {
            let work = format!("events:events=2kpps,hz=1000,count=200,direction={direction}");
            let contender = suited(Contender::parse(typed).unwrap(), &*parse(&work).unwrap());
            let found = run(&contender.unwrap(), &at, &work);
            assert_eq!(found.metrics["undelivered_share"], 0.0, "{typed}");
            let (way, account) = found.ledger.accounts().next().unwrap();
            assert_eq!(way.to_string(), direction, "{typed}");
            assert!(account.closes() && account.delivered >= 200, "{typed}: {account:?}");
        }
    }
}
