//! Contenders made of others, over loopback: the carriers of lanes, waiting, and refusals.

use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use std::thread;

use crate::testing::{ConnRig, LONG};
use deadheat_contract::contract::{
    AsksLanes, Guarantees, Inbox, Patience, Reach, Service, WaitMode,
};
use deadheat_contract::recorded::RecordedContender;
use deadheat_datapath::datapath::wait::{Interest, Waiter, WakeReason};
use deadheat_datapath::transport::equal::{Terms, on};
use deadheat_datapath::transport::handover::ConnectionSource;
use deadheat_datapath::transport::several::{at_node, hosts};
use deadheat_datapath::transport::{Address, Conn, Contender, Listener, Progress};

/// Work whose lanes have these names, and the usual service of their carrier.
struct Named<'a>(&'a [&'a str]);

impl AsksLanes for Named<'_> {
    fn lane_names(&self) -> Vec<String> {
        self.0.iter().map(|name| (*name).to_owned()).collect()
    }
    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![promised.service; self.0.len().min(promised.lanes.into())]
    }
    fn node(&self) -> Option<u16> {
        None
    }
}

fn suited(typed: &str, names: &[&str]) -> Result<Contender> {
    let mut contender = Contender::parse(typed)?;
    let suited = contender.transport.several().map(|all| all.suit(&Named(names)));
    if let Some(made) = suited.transpose()? {
        contender.transport = made;
    }
    Ok(contender)
}

fn rig(contender: &Contender) -> ConnRig<'_> {
    let lanes = &[];
    ConnRig { lanes, ..ConnRig::ordered(&*contender.transport, &contender.knobs, 9_000) }
}

fn anywhere() -> Address {
    Address::Ip(([127, 0, 0, 1], 0).into())
}

fn listen(contender: &Contender) -> Box<dyn Listener> {
    rig(contender).listen(&anywhere(), ConnectionSource::Own).unwrap()
}

fn connect(contender: &Contender) -> [Box<dyn Conn>; 2] {
    rig(contender).ends(&anywhere())
}

#[derive(Default)]
struct Kept(Vec<(u16, Vec<u8>)>);

impl Inbox for Kept {
    fn message(&mut self, lane: deadheat_contract::contract::Lane, bytes: &[u8]) {
        self.0.push((lane.0, bytes.to_vec()));
    }
}

/// Receives until `count` messages have arrived.
fn receive(conns: &mut [Box<dyn Conn>; 2], at: usize, count: usize) -> Vec<(u16, Vec<u8>)> {
    let (mut kept, deadline) = (Kept::default(), Monotonic.now() + LONG);
    while kept.0.len() < count {
        assert!(Monotonic.now() < deadline, "{} of {count} messages came", kept.0.len());
        for conn in &mut *conns {
            conn.on_deadline(Monotonic.now()).unwrap();
            if conn.readiness().has_backlog {
                conn.flush().unwrap();
            }
        }
        conns[at].receive(Patience::None, &mut kept).unwrap();
    }
    kept.0.sort();
    kept.0
}

fn send(conn: &mut dyn Conn, lane: u16, bytes: &[u8]) -> Progress {
    conn.send(deadheat_contract::contract::Lane(lane), bytes).unwrap()
}

#[test]
fn each_lane_takes_the_connection_of_its_contender_both_ways() {
    let names = ["a", "b", "c", "d"];
    for typed in ["mix:b=tcp,others=quic", "mix:a=kcp,b=udp,c=tcp:nodelay=off,d=tcp"] {
        let contender = suited(typed, &names).unwrap();
        let mut conns = connect(&contender);
        for (from, to) in [(0, 1), (1, 0)] {
            for lane in 0..4 {
                assert_eq!(send(&mut *conns[from], lane, &[lane as u8; 100]), Progress::Moved);
            }
            let want: Vec<_> = (0..4).map(|lane| (lane, vec![lane as u8; 100])).collect();
            assert_eq!(receive(&mut conns, to, 4), want, "{typed}");
        }
        let beyond = conns[0].send(deadheat_contract::contract::Lane(4), b"x").unwrap_err();
        assert_eq!(beyond.kind(), std::io::ErrorKind::InvalidInput);
        assert_eq!(conns[0].sockets().len(), contender.transport.parts().len());
    }
}

#[test]
fn what_each_part_was_asked_and_read_back_has_its_name_in_front() {
    let contender = suited("mix:a=tcp:nodelay=off,others=udp", &["a", "b"]).unwrap();
    assert_eq!(contender.asked()["a.nodelay"], "off");
    let own = RecordedContender::from(&contender);
    assert!(own.meaning("others.rcvbuf").is_some());
    let conns = connect(&contender);
    let effective = conns[0].effective();
    assert_eq!(effective["a.nodelay"], "off");
    assert_eq!(effective["others.connected"], "on");
    let by = contender.implementation(Some("6.1"), &effective);
    assert!(
        by.starts_with("mix:a=tcp/linux-6.1/") && by.ends_with(",others=udp/linux-6.1"),
        "{by}"
    );
    let stats = conns[1].info().stats;
    assert!(stats.headers.is_none() && stats.retransmits.is_some() && stats.socket_drops.is_some());
}

#[test]
fn whichever_part_has_something_ends_a_sleep() {
    let contender = suited("mix:a=tcp,b=udp", &["a", "b"]).unwrap();
    let [mut near, mut far] = connect(&contender);
    // Opening may have left a datagram that is no message.
    far.receive(Patience::Block, &mut Kept::default()).unwrap();
    for lane in [0, 1, 1, 0] {
        for patience in [Patience::Block, Patience::UntilNudged] {
            let mut kept = Kept::default();
            thread::scope(|scope| {
                scope.spawn(|| send(&mut *near, lane, b"wake up"));
                while kept.0.is_empty() {
                    far.receive(patience, &mut kept).unwrap();
                }
            });
            assert_eq!(kept.0, [(lane, b"wake up".to_vec())]);
        }
    }
}

/// After `on_deadline`, a protocol in user space has read its datagrams, and no descriptor shows them any more.
#[test]
fn what_was_taken_in_before_is_handed_over_though_nothing_more_arrives() {
    let contender = suited("mix:a=tcp,b=arq", &["a", "b"]).unwrap();
    let [mut near, mut far] = connect(&contender);
    send(&mut *near, 1, b"early");
    let (mut kept, deadline) = (Kept::default(), Monotonic.now() + LONG);
    while kept.0.is_empty() {
        assert!(Monotonic.now() < deadline, "it was taken in and never handed over");
        woke(&*far, Nanos::from_millis(50));
        far.on_deadline(Monotonic.now()).unwrap();
        far.receive(Patience::Block, &mut kept).unwrap();
    }
    assert_eq!(kept.0, [(1, b"early".to_vec())]);
}

fn woke(conn: &dyn Conn, span: Nanos) -> WakeReason {
    let until = Monotonic.now() + span;
    let waiter = Waiter::new(WaitMode::Hybrid);
    waiter.wait(&Monotonic, conn.readiness().fd, Some(until), Interest::Read).unwrap()
}

#[test]
fn one_part_without_room_holds_no_other_back_and_shows_when_it_has_some() {
    let contender = suited("mix:a=tcp,b=udp", &["a", "b"]).unwrap();
    let mut conns = connect(&contender);
    let mut taken = 0;
    while send(&mut *conns[0], 0, &[0; 9_000]) == Progress::Moved {
        taken += 1;
    }
    assert!(conns[0].readiness().has_backlog);
    assert_eq!(conns[0].flush().unwrap(), Progress::Idle);
    assert_eq!(send(&mut *conns[0], 1, b"past it"), Progress::Moved);
    assert_ne!(
        woke(&*conns[0], Nanos::from_millis(2)),
        WakeReason::Readable,
        "there is no room yet"
    );
    let mut kept = Kept::default();
    while woke(&*conns[0], Nanos::from_millis(1)) != WakeReason::Readable {
        conns[1].receive(Patience::None, &mut kept).unwrap();
    }
    assert_eq!(conns[0].readiness().room, Interest::ReadWrite);
    let rest = receive(&mut conns, 1, taken + 1 - kept.0.len());
    assert!(kept.0.iter().chain(&rest).any(|(lane, bytes)| *lane == 1 && bytes == b"past it"));
    assert!(!conns[0].readiness().has_backlog);
}

#[test]
fn the_end_shows_once_every_part_that_tells_it_has_ended_and_all_was_read() {
    let contender = suited("mix:a=tcp,b=udp,c=tcp", &["a", "b", "c"]).unwrap();
    let [mut near, mut far] = connect(&contender);
    for lane in 0..3 {
        send(&mut *near, lane, b"last words");
    }
    near.finish().unwrap();
    let (mut kept, deadline) = (Kept::default(), Monotonic.now() + LONG);
    while far.receive(Patience::Block, &mut kept).unwrap() != Progress::Closed {
        assert!(Monotonic.now() < deadline);
    }
    assert_eq!(kept.0.len(), 3);
    assert_eq!(far.receive(Patience::None, &mut kept).unwrap(), Progress::Closed);
    assert_ne!(woke(&*far, Nanos::from_millis(2)), WakeReason::Readable, "an end is news once");
    assert_eq!(send(&mut *far, 2, b"answer"), Progress::Moved);
    while kept.0.len() < 4 {
        near.receive(Patience::Block, &mut kept).unwrap();
    }
}

#[test]
fn a_part_that_does_not_get_through_is_named() {
    let contender = suited("mix:a=tcp,b=udp", &["a", "b"]).unwrap();
    let mut listener = listen(&contender);
    let Address::Several(mut ends) = listener.endpoint() else { panic!("one endpoint") };
    let deaf = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    ends[1] = Address::Ip(deaf.local_addr().unwrap());
    let ends = Address::Several(ends);
    thread::scope(|scope| {
        let far = scope.spawn(|| listener.accept(Nanos::from_secs(3)).err().unwrap());
        let error = rig(&contender).dial(&ends, Nanos::from_secs(2)).err().unwrap();
        assert!(matches!(error, Error::Blocked { .. }), "{error}");
        assert!(error.to_string().contains("b (udp): sent "), "{error}");
        let error = far.join().unwrap().to_string();
        assert!(error.contains("b (udp): no UDP hello"), "{error}");
    });
    let one = Address::Several(vec![Address::Ip(deaf.local_addr().unwrap())]);
    let error = rig(&contender).dial(&one, LONG).err().unwrap().to_string();
    assert!(error.contains("2 endpoints are needed"), "{error}");
}

#[test]
fn what_cannot_be_mixed_is_refused_with_what_could() {
    let say = |typed: &str, names: &[&str]| suited(typed, names).err().unwrap().to_string();
    let two = &["state", "events"][..];
    assert!(say("mix:evnts=tcp,state=udp", two).contains("did you mean `events`?"));
    assert!(say("mix:events=tcp", two).contains("no contender for the lane `state`"));
    assert!(say("mix:events=tcp,state=udp,others=udp", two).contains("nothing is left for others"));
    assert!(say("mix:events=tcp,state=udp", &[]).contains("this work has one"));
    assert!(say("mix", two).contains("write mix:LANE=CONTENDER"));
    assert!(say("mix:events=tpc,state=udp", two).contains("did you mean `tcp`?"));
    assert!(say("mix:events=tcp:nodlay=on,state=udp", two).contains("did you mean `nodelay`?"));
    assert!(say("mix:events=mix:a=tcp,state=udp", two).contains("a mix within a mix"));
    assert!(say("mix:events=icmp,state=udp", two).contains("carries no part"));
    assert!(say("mix:events=unix,state=udp", two).contains("does not leave its host"));
    assert!(say("mix:events=tcp,state=sim-datagram", two).contains("in virtual time only"));
    let all: Vec<String> = (0..17).map(|lane| format!("{lane}=udp")).collect();
    assert!(say(&format!("mix:{}", all.join(",")), two).contains("17 contenders"));
    let server = suited("mix:events=tcp,state=udp", two).unwrap();
    assert_eq!(server.transport.info().reach, Reach::Network);
    let own = suited("mix:events=sctp,state=udp", two).unwrap();
    assert_eq!(own.transport.info().reach, Reach::OwnPort);
    assert_eq!(server.spec.to_string(), "mix:events=tcp,state=udp");
}

#[test]
fn the_host_of_a_part_is_no_knob_of_it_and_stays_with_it() {
    let typed = "mix:a=tcp:nodelay=off+to=h.example,b=udp:to=[2001:db8::2]:5211,c=udp";
    let contender = suited(typed, &["a", "b", "c"]).unwrap();
    let parts = contender.transport.parts();
    let first = [Some("h.example"), Some("[2001:db8::2]:5211"), None];
    assert_eq!(hosts(parts), first);
    assert_eq!(parts[0].contender.spec.to_string(), "tcp:nodelay=off");
    let read = RecordedContender::from(&contender);
    assert_eq!((read.host_of_lane("b"), read.host_of_lane("c")), (first[1], None));
    for node in 0..3 {
        let here = [0, 1, 2].map(|part| part == node);
        assert_eq!(at_node(parts, node), here);
    }
    let deployed = on(typed, Terms::Deployed, None).unwrap();
    assert_eq!(hosts(Contender::parse(&deployed).unwrap().transport.parts()), first);
    let shared = Contender::parse("mix:a=tcp:to=h,others=udp:to=h").unwrap();
    assert_eq!(hosts(shared.transport.parts()), [Some("h")]);
    let say = |typed| Contender::parse(typed).err().unwrap().to_string();
    assert!(say("mix:a=tcp:to=,b=udp").contains("lacks its value"));
    assert!(say("udp:to=h").contains("`to`"));
}
