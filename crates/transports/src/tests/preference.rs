//! Orders of preference over loopback: the part that carries, the fallback, and refusals.

use deadheat_base::error::Error;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use std::thread;

use crate::testing::{ConnRig, HELLO, Kept, LONG};
use deadheat_contract::contract::{AsksLanes, Guarantees, Lane, Patience, Service};
use deadheat_contract::measurements::FallbackCause;
use deadheat_datapath::transport::handover::ConnectionSource;
use deadheat_datapath::transport::several::*;
use deadheat_datapath::transport::{Address, Conn, Contender, Listener, Progress, mem};

/// Work of one lane, of any service.
struct Plain;

impl AsksLanes for Plain {
    fn lane_names(&self) -> Vec<String> {
        Vec::new()
    }
    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![promised.service]
    }
    fn node(&self) -> Option<u16> {
        None
    }
}

fn suited(typed: &str) -> Contender {
    let mut contender = Contender::parse(typed).unwrap();
    contender.transport = contender.transport.several().unwrap().suit(&Plain).unwrap();
    contender
}

fn rig(contender: &Contender) -> ConnRig<'_> {
    let lanes = &[];
    ConnRig { lanes, ..ConnRig::ordered(&*contender.transport, &contender.knobs, 1_000) }
}

fn anywhere() -> Address {
    Address::Ip(([127, 0, 0, 1], 0).into())
}

fn listen(contender: &Contender) -> Box<dyn Listener> {
    rig(contender).listen(&anywhere(), ConnectionSource::Own).unwrap()
}

/// Returns both ends; the address of the first does not answer if it is `blocked`.
fn connect(typed: &str, blocked: bool) -> [Box<dyn Conn>; 2] {
    let contender = suited(typed);
    let mut listener = listen(&contender);
    let Address::Several(mut ends) = listener.endpoint() else { panic!("one endpoint") };
    let deaf = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    if blocked {
        ends[0] = Address::Ip(deaf.local_addr().unwrap());
    }
    thread::scope(|scope| {
        let far = scope.spawn(move || listener.accept(LONG).unwrap());
        let near = rig(&contender).dial(&Address::Several(ends), LONG).unwrap();
        let (flow, far) = far.join().unwrap();
        assert_eq!(flow, HELLO.flow);
        [near, far]
    })
}

/// Sends a message from one end, and receives at the other until it has arrived.
fn pass(conns: &mut [Box<dyn Conn>; 2], from: usize, message: &[u8]) {
    let (mut kept, deadline) = (Kept::default(), Monotonic.now() + LONG);
    assert_eq!(conns[from].send(Lane(0), message).unwrap(), Progress::Moved);
    while kept.0.is_empty() {
        assert!(Monotonic.now() < deadline, "it did not come");
        for conn in &mut *conns {
            conn.on_deadline(Monotonic.now()).unwrap();
            if conn.readiness().has_backlog {
                conn.flush().unwrap();
            }
        }
        conns[1 - from].receive(Patience::None, &mut kept).unwrap();
    }
    assert_eq!(kept.0, [message], "one message, and no note");
}

#[test]
fn a_second_that_breaks_down_is_an_error_and_one_that_does_not_answer_is_none() {
    let names = ["first", "second"];
    let first = || {
        let clock = deadheat_base::time::Manual::default();
        let (near, _) = mem::pair(&clock, mem::losing(0, 1), mem::losing(0, 2));
        Box::new(near) as Box<dyn Conn>
    };
    let refused = open_beside(names, first(), || Err(Error::blocked("nobody answers")));
    assert!(refused.unwrap().1.is_none());
    let broken = open_beside(names, first(), || panic!("asked to")).err().unwrap();
    assert!(broken.to_string().starts_with("second: it panicked"), "{broken}");
}

#[test]
fn the_first_carries_where_it_gets_through_and_the_second_otherwise() {
    for (typed, blocked, by) in [
        ("udp|tcp", false, "udp"),
        ("udp|tcp:after=100ms", true, "tcp"),
        ("tcp|udp", false, "tcp"),
        ("quic|tcp", false, "quic"),
        ("quic|tcp:after=100ms", true, "tcp"),
        ("tls|quic:after=100ms", true, "quic"),
    ] {
        let mut conns = connect(typed, blocked);
        for round in 0..20_u8 {
            for from in [0, 1] {
                pass(&mut conns, from, &[round; 500]);
                pass(&mut conns, from, &[round; 24]);
            }
        }
        for conn in &conns {
            assert_eq!(conn.effective()["carried_by"], by, "{typed}");
        }
        let fallback = conns[0].info().stats.fallback;
        assert_eq!(fallback.is_some(), blocked, "{typed}");
        if let Some(fallback) = fallback {
            assert_eq!((fallback.cause, fallback.unheard), (FallbackCause::Start, 0), "{typed}");
            assert_eq!(conns[0].info().stats.connect_ns, fallback.after_ns, "{typed}");
        }
    }
}

#[test]
fn an_end_that_hears_nothing_falls_back_and_its_peer_follows() {
    let mut conns = connect("udp|tcp:silence=200ms", false);
    pass(&mut conns, 0, b"over udp");
    assert_eq!(conns[0].effective()["carried_by"], "udp");
    // The far end does nothing, and so sends no beacons; only time passes.
    let deadline = Monotonic.now() + LONG;
    for _ in 0..3 {
        conns[0].send(Lane(0), b"in vain").unwrap();
    }
    while conns[0].info().stats.fallback.is_none() {
        assert!(Monotonic.now() < deadline);
        conns[0].on_deadline(Monotonic.now()).unwrap();
        thread::yield_now();
    }
    let fell = conns[0].info().stats.fallback.unwrap();
    assert_eq!((fell.cause, fell.unheard), (FallbackCause::Silence, 4));
    assert!(fell.after_ns >= 200_000_000, "{fell:?}");
    let (mut kept, mut far) = (Kept::default(), conns[1].info().stats.fallback);
    while far.is_none() {
        assert!(Monotonic.now() < deadline);
        conns[1].receive(Patience::None, &mut kept).unwrap();
        far = conns[1].info().stats.fallback;
    }
    assert_eq!(far.unwrap().cause, FallbackCause::Peer);
    assert_eq!(kept.0.len(), 3, "what was only late is handed over");
    for from in [0, 1] {
        pass(&mut conns, from, b"over tcp");
    }
    assert!(conns.iter().all(|conn| conn.effective()["carried_by"] == "tcp"));
}

#[test]
fn ends_that_are_attended_stay_with_the_first_however_quiet_they_are() {
    // Where a busy host attends to neither for so long, there is silence.
    let mut conns = connect("udp|tcp:silence=600ms", false);
    let until = Monotonic.now() + Nanos::from_millis(1_500);
    while Monotonic.now() < until {
        for conn in &mut conns {
            conn.on_deadline(Monotonic.now()).unwrap();
        }
        thread::sleep(std::time::Duration::from_millis(1));
    }
    pass(&mut conns, 0, b"still");
    assert!(conns.iter().all(|conn| conn.info().stats.fallback.is_none()));
}

#[test]
fn it_promises_what_both_do() {
    use deadheat_contract::contract::{Delivery, Ending, Framing};
    let of = |typed: &str| Contender::parse(typed).unwrap().transport.info().guarantees;
    let udp_tcp = of("udp|tcp");
    assert_eq!(udp_tcp.service.delivery, Delivery::BestEffort);
    assert_eq!((udp_tcp.framing, udp_tcp.ending), (Framing::Messages, Ending::Silent));
    assert_eq!(udp_tcp.largest_message, Some(65_507));
    let reliable = of("quic|tcp");
    assert_eq!((reliable.service.delivery, reliable.lanes), (Delivery::Reliable, 1));
    assert!(!reliable.encrypted && of("quic|tls").encrypted);
    let asked = Contender::parse("udp|tcp:cc=reno,after=300ms").unwrap().asked();
    assert_eq!((&*asked["after"], &*asked["tcp.cc"]), ("300ms", "reno"));
}

#[test]
fn what_is_no_order_of_preference_is_refused_with_what_would_be() {
    let say = |typed: &str| Contender::parse(typed).err().unwrap().to_string();
    assert!(say("udp|udp").contains("fall back on itself"));
    assert!(say("udp|udp:rcvbuf=1MB").contains("fall back on itself"));
    assert!(say("udp|").contains("no contender is fallen back on"));
    assert!(say("|tcp").contains("no contender is preferred"));
    assert!(say("udp|tcp|ws").contains("names 3 contenders"));
    assert!(say("udp|mix:a=tcp").contains("no mix"));
    assert!(say("mix:a=udp|tcp").contains("within a mix"));
    assert!(say("udp:after=1s|tcp").contains("'udp|tcp:after=1s'"));
    assert!(say("udp|tcp:after=5s").contains("10ms..2s"));
    assert!(say("udp|tcp:silence=1ms").contains("10ms..60s"));
    assert!(say("quic|tcp:silence=1s").contains("falls back at the start only"));
    assert!(say("upd|tcp").contains("did you mean `udp`?"));
    assert!(say("udp|tcp:nodlay=on").contains("did you mean `nodelay`?"));
    assert!(say("udp:via=relay|tcp").contains("leave out via"));
    assert!(say("udp|icmp").contains("carries no part"));
    assert!(say("udp|unix").contains("does not leave its host"));
    assert!(Contender::parse("quic|tcp:silence=off").is_ok());
}
