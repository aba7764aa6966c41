//! Tests of bindings and translations: a translated packet is, byte for byte, the packet that a host with the other
//! endpoint would have sent.

use super::*;
use crate::impair::packet::Changes;
use crate::segment::GsoFrame;
use deadheat_base::checksum::{fold, sum};
use deadheat_base::rng::SplitMix64;

pub(super) const PUBLIC: &str = "198.18.1.3";
const ALL: [Dependence; 3] =
    [Dependence::Independent, Dependence::Address, Dependence::AddressAndPort];

pub(super) fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn nat(mapping: Dependence, filtering: Dependence) -> Translator {
    made(Some(mapping), filtering)
}

fn made(mapping: Option<Dependence>, filtering: Dependence) -> Translator {
    let timeout = Nanos::from_secs(300);
    let middlebox = Middlebox { mapping, filtering, timeout, hairpin: true, is_nat64: false };
    Translator::new(&middlebox, PUBLIC.parse().unwrap(), 1_500)
}

impl Translator {
    /// Translates a frame that leaves.
    pub(super) fn leave(&mut self, now: Nanos, frame: &mut Vec<u8>) -> Verdict {
        let mut len = frame.len();
        frame.resize(len + 64, 0);
        let verdict = self.outward(now, frame, &mut len);
        frame.truncate(len);
        verdict
    }

    /// Translates a frame from outside.
    pub(super) fn enter(&mut self, now: Nanos, frame: &mut Vec<u8>) -> bool {
        let mut len = frame.len();
        frame.resize(len + 64, 0);
        let passes = self.inward(now, frame, &mut len);
        frame.truncate(len);
        passes
    }
}

/// Form of a test packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Udp,
    /// Without a checksum.
    UdpBare,
    UdpLite,
    /// With the sum of its pseudo-header in place of a checksum.
    UdpPartial,
    Tcp,
    /// Super-packet.
    TcpSuper,
    Echo,
}

const FORMS: [Form; 7] = [
    Form::Udp,
    Form::UdpBare,
    Form::UdpLite,
    Form::UdpPartial,
    Form::Tcp,
    Form::TcpSuper,
    Form::Echo,
];

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(super) fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Puts an IP header in front of a payload, and the header for the device in front of both.
pub(super) fn ip(protocol: u8, from: IpAddr, to: IpAddr, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; VNET];
    if from.is_ipv4() {
        let mut header = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0];
        put(&mut header, 2, 20 + payload.len() as u16);
        header.extend([octets(from), octets(to)].concat());
        let check = !fold(sum(&header));
        put(&mut header, 10, check);
        frame.extend(header);
    } else {
        frame.extend([0x60, 0, 0, 0, 0, 0, protocol, 64]);
        put(&mut frame[VNET..], 4, payload.len() as u16);
        frame.extend([octets(from), octets(to)].concat());
    }
    frame.extend(payload);
    frame
}

/// Builds the packet that one endpoint sends to another; `asks` is true for the request of an echo.
pub(super) fn built(form: Form, from: SocketAddr, to: SocketAddr, asks: bool) -> Vec<u8> {
    let (protocol, head, check) = match form {
        Form::Udp | Form::UdpBare | Form::UdpPartial => (17, 8, 6),
        Form::UdpLite => (136, 8, 6),
        Form::Tcp | Form::TcpSuper => (6, 20, 16),
        Form::Echo => (if from.is_ipv4() { 1 } else { 58 }, 8, 2),
    };
    let data = if form == Form::TcpSuper { 2_500 } else { 33 };
    let mut payload: Vec<u8> = vec![0; head];
    payload.extend((0..data).map(|n: usize| (n * 7) as u8));
    let length = payload.len() as u16;
    if form == Form::Echo {
        payload[0] = match (from.is_ipv4(), asks) {
            (true, true) => 8,
            (true, false) => 0,
            (false, _) => 129 - u8::from(asks),
        };
        put(&mut payload, 4, if asks { from.port() } else { to.port() });
    } else {
        put(&mut payload, 0, from.port());
        put(&mut payload, 2, to.port());
    }
    match protocol {
        6 => (payload[12], payload[13]) = (0x50, 0x10),
        17 | 136 => put(&mut payload, 4, length),
        _ => {}
    }
    let pseudo = sum(&[octets(from.ip()), octets(to.ip())].concat())
        + u32::from(protocol)
        + u32::from(length);
    let whole = sum(&payload);
    let complete = match (!fold(pseudo + whole), form) {
        (_, Form::UdpBare) => 0,
        (_, Form::UdpPartial | Form::TcpSuper) => fold(pseudo),
        (_, Form::Echo) if from.is_ipv4() => !fold(whole),
        (0, Form::Udp | Form::UdpLite) => 0xffff,
        (check, _) => check,
    };
    put(&mut payload, check, complete);
    let mut frame = ip(protocol, from.ip(), to.ip(), &payload);
    if matches!(form, Form::UdpPartial | Form::TcpSuper) {
        let transport = (frame.len() - VNET - payload.len()) as u16;
        let kind = if from.is_ipv4() { 1 } else { 4 };
        let gso = if form == Form::TcpSuper { (kind, 1_000) } else { (0, 0) };
        (frame[0], frame[1]) = (1, gso.0);
        for (at, value) in
            [(2, transport + head as u16), (4, gso.1), (6, transport), (8, check as u16)]
        {
            frame[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
    }
    frame
}

/// Builds an error of ICMP from a router about the packet of a frame.
fn error(from: &str, to: IpAddr, about: &[u8], quoted: usize) -> Vec<u8> {
    let quote = &about[VNET..about.len().min(VNET + quoted)];
    let mut payload = [&[3, 4, 0, 0, 0, 0, 5, 0], quote].concat();
    let check = !fold(sum(&payload));
    put(&mut payload, 2, check);
    ip(1, from.parse().unwrap(), to, &payload)
}

/// Sends a UDP packet out and returns the endpoint outside, if it passes.
fn sent(nat: &mut Translator, now: u64, from: &str, to: &str) -> Option<SocketAddr> {
    let mut frame = built(Form::Udp, at(from), at(to), true);
    let verdict = nat.leave(Nanos::from_secs(now), &mut frame);
    (verdict == Verdict::Passes).then(|| source(&frame))
}

fn source(frame: &[u8]) -> SocketAddr {
    let packet = PacketView::of(&frame[VNET..]).unwrap();
    packet.flow(&frame[VNET..], PacketEnd::Source, true).local
}

/// Returns true if a UDP packet from outside passes.
fn lets_in(nat: &mut Translator, now: u64, from: &str, to: SocketAddr) -> bool {
    nat.enter(Nanos::from_secs(now), &mut built(Form::Udp, at(from), to, true))
}

#[test]
fn each_class_maps_and_filters_as_it_is_called() {
    let host = "10.0.0.1:5000";
    for (m, mapping) in ALL.into_iter().enumerate() {
        for (f, filtering) in ALL.into_iter().enumerate() {
            let mut nat = nat(mapping, filtering);
            let first = sent(&mut nat, 0, host, "9.9.9.1:1").unwrap();
            assert_eq!(first, at("198.18.1.3:5000"), "the port is kept");
            let passed = ["9.9.9.1:1", "9.9.9.1:2", "9.9.9.2:1"]
                .map(|from| lets_in(&mut nat, 1, from, first));
            assert_eq!(passed, [true, f < 2, f < 1], "{filtering:?}");
            let other =
                ["9.9.9.1:2", "9.9.9.2:1"].map(|to| sent(&mut nat, 2, host, to) == Some(first));
            assert_eq!(other, [m < 2, m < 1], "{mapping:?}");
            assert!(
                !lets_in(&mut nat, 2, "9.9.9.1:1", at("198.18.1.3:5001")),
                "nobody asked there"
            );
            assert!(!lets_in(&mut nat, 2, "9.9.9.1:1", at(host)), "the address inside");
        }
    }
}

#[test]
fn a_translated_packet_is_that_of_the_other_endpoint() {
    let mut rng = SplitMix64::new(3);
    for round in 0..4_000 {
        let form = FORMS[round % FORMS.len()];
        let mut port = || rng.below(60_000) as u16 + 2_000;
        let host = port();
        let [inside, other] =
            ["10.1.2.3", "10.9.9.9"].map(|ip| SocketAddr::new(ip.parse().unwrap(), host));
        let mut outside = SocketAddr::new(PUBLIC.parse().unwrap(), inside.port());
        let far = SocketAddr::new("203.0.113.9".parse().unwrap(), port());
        let mut nat = nat(ALL[round % 3], ALL[round / 3 % 3]);
        if rng.below(2) == 0 {
            assert_eq!(nat.leave(Nanos::ZERO, &mut built(form, other, far, true)), Verdict::Passes);
            outside.set_port(1_024);
        }
        let mut out = built(form, inside, far, true);
        assert_eq!(nat.leave(Nanos::ZERO, &mut out), Verdict::Passes);
        assert_same(&out, &built(form, outside, far, true), form);
        let mut back = built(form, far, outside, false);
        assert!(nat.enter(Nanos::from_secs(50), &mut back), "{form:?}");
        assert_same(&back, &built(form, far, inside, false), form);

        // Errors about both, of which as much is quoted as a router wishes.
        let quoted = 28 + 2 * (round % 20);
        let router = "192.0.2.77";
        let form = match form {
            // A router quotes what it has, and a checksum that is not made yet is none.
            Form::UdpPartial => Form::Udp,
            Form::TcpSuper => Form::Tcp,
            form => form,
        };
        let mut told = error(router, outside.ip(), &built(form, outside, far, true), quoted);
        assert!(nat.enter(Nanos::ZERO, &mut told), "{form:?}");
        assert_same(
            &told,
            &error(router, inside.ip(), &built(form, inside, far, true), quoted),
            form,
        );
        let mut tells = error("10.1.2.254", far.ip(), &built(form, far, inside, false), quoted);
        assert_eq!(nat.leave(Nanos::ZERO, &mut tells), Verdict::Passes, "{form:?}");
        assert_same(
            &tells,
            &error(PUBLIC, far.ip(), &built(form, far, outside, false), quoted),
            form,
        );
    }
}

/// Asserts that two frames are equal, and that the segments of a super-packet have right checksums.
pub(super) fn assert_same(ours: &[u8], wanted: &[u8], form: Form) {
    let differ: Vec<usize> = (0..wanted.len()).filter(|at| ours[*at] != wanted[*at]).collect();
    assert!(ours.len() == wanted.len() && differ.is_empty(), "{form:?} differs at {differ:?}");
    let seen = GsoFrame::parse(ours);
    let mut room = vec![0; 4_096];
    for n in 0..seen.segments.min(if form == Form::TcpSuper { 3 } else { 0 }) {
        let len = seen.copy(ours, n, Changes::default(), &mut room).unwrap();
        let packet = &room[VNET..len];
        let covered = sum(&packet[12..20]) + 6 + (packet.len() - 20) as u32 + sum(&packet[20..]);
        assert_eq!((fold(sum(&packet[..20])), fold(covered)), (0xffff, 0xffff), "segment {n}");
    }
}

#[test]
fn a_taken_port_is_replaced_and_there_is_room_for_so_many() {
    let mut nat = nat(Dependence::Independent, Dependence::Address);
    let far = "9.9.9.9:53";
    assert_eq!(sent(&mut nat, 0, "10.0.0.1:80", far), Some(at("198.18.1.3:80")));
    assert_eq!(sent(&mut nat, 0, "10.0.0.2:80", far), Some(at("198.18.1.3:1024")));
    assert_eq!(sent(&mut nat, 0, "10.0.0.3:80", far), Some(at("198.18.1.3:1025")));
    assert_eq!(sent(&mut nat, 1, "10.0.0.1:80", far), Some(at("198.18.1.3:80")));
    let answered = |nat: &mut Translator, port: u16| {
        let mut frame =
            built(Form::Udp, at(far), SocketAddr::new(PUBLIC.parse().unwrap(), port), true);
        nat.enter(Nanos::from_secs(1), &mut frame).then(|| {
            PacketView::of(&frame[VNET..]).unwrap().address(PacketEnd::Destination).to_string()
        })
    };
    assert_eq!(answered(&mut nat, 1_025).as_deref(), Some("10.0.0.3"));
    // The ports of ICMP are others.
    let mut echo = built(Form::Echo, at("10.0.0.4:80"), at("9.9.9.9:0"), true);
    assert_eq!(nat.leave(Nanos::from_secs(1), &mut echo), Verdict::Passes);
    assert_eq!(source(&echo).port(), 80);

    let of = |n: u32| format!("10.1.{}.{}:7", n >> 8 & 255, n & 255);
    let passed = (0..40_000).filter(|n| sent(&mut nat, 2, &of(*n), far).is_some()).count();
    assert_eq!(passed, 32_768 - 4);
    // Once the bindings are over, there is room again.
    assert!(sent(&mut nat, 3, "10.2.0.1:7", far).is_none());
    assert!(sent(&mut nat, 400, "10.2.0.1:7", far).is_some());
}

#[test]
fn bindings_end_after_their_time_without_packets() {
    let mut nat = nat(Dependence::Independent, Dependence::AddressAndPort);
    let outside = sent(&mut nat, 0, "10.0.0.1:9", "9.9.9.1:1").unwrap();
    assert!(lets_in(&mut nat, 299, "9.9.9.1:1", outside));
    assert!(lets_in(&mut nat, 598, "9.9.9.1:1", outside), "a packet keeps it");
    assert!(!lets_in(&mut nat, 898, "9.9.9.1:1", outside));
    // The way for one peer ends, though another keeps the binding.
    let outside = sent(&mut nat, 1_000, "10.0.0.1:9", "9.9.9.1:1").unwrap();
    for now in [1_200, 1_400] {
        assert_eq!(sent(&mut nat, now, "10.0.0.1:9", "9.9.9.2:2"), Some(outside));
    }
    assert!(lets_in(&mut nat, 1_500, "9.9.9.2:2", outside));
    assert!(!lets_in(&mut nat, 1_500, "9.9.9.1:1", outside));

    let (host, far, outside) = (at("10.0.0.1:9"), at("9.9.9.1:1"), at("198.18.1.3:9"));
    let mut tcp = |now: u64, flags: u8, out: bool| {
        let (from, to) = if out { (host, far) } else { (far, outside) };
        let mut frame = built(Form::Tcp, from, to, true);
        frame[VNET + 33] = flags;
        let now = Nanos::from_secs(now);
        if out { nat.leave(now, &mut frame) == Verdict::Passes } else { nat.enter(now, &mut frame) }
    };
    assert!(tcp(0, 0x02, true), "SYN");
    assert!(!tcp(240, 0x12, false), "the answer to it is late");
    assert!(tcp(300, 0x02, true) && tcp(301, 0x12, false) && tcp(302, 0x10, true));
    assert!(tcp(302 + 7_439, 0x10, false), "an open connection has two hours");
    assert!(tcp(8_000, 0x11, true) && tcp(8_000, 0x10, false), "FIN");
    assert!(!tcp(8_240, 0x10, false), "and one that ends four minutes");
    let mut echo = |now: u64, out: bool| {
        let (from, to) = if out { (host, far) } else { (far, outside) };
        let mut frame = built(Form::Echo, from, to, out);
        let now = Nanos::from_secs(now);
        if out { nat.leave(now, &mut frame) == Verdict::Passes } else { nat.enter(now, &mut frame) }
    };
    assert!(echo(0, true) && echo(59, false) && !echo(119, false));
}

#[test]
fn hosts_inside_reach_each_other_by_the_public_address() {
    let mut nat = nat(Dependence::Independent, Dependence::Address);
    let (first, second) = ("10.0.0.1:1", "10.0.0.2:2");
    assert!(sent(&mut nat, 0, second, "9.9.9.9:9").is_some());
    let mut frame = built(Form::Udp, at(first), at("198.18.1.3:2"), true);
    let was = frame.clone();
    assert_eq!(
        nat.leave(Nanos::ZERO, &mut frame),
        Verdict::Blocked,
        "the filter holds inside, too"
    );
    assert!(
        sent(&mut nat, 0, second, "198.18.1.3:1").is_none(),
        "it returns or ends, and never leaves"
    );
    frame.clone_from(&was);
    assert_eq!(nat.leave(Nanos::ZERO, &mut frame), Verdict::Returns);
    assert_eq!(frame, built(Form::Udp, at("198.18.1.3:1"), at(second), true));
    nat.hairpin = false;
    frame.clone_from(&was);
    assert_eq!(nat.leave(Nanos::ZERO, &mut frame), Verdict::Blocked);
}

#[test]
fn a_firewall_and_ipv6_change_no_packet() {
    let mut wall = made(None, Dependence::AddressAndPort);
    let mut nat = nat(Dependence::AddressAndPort, Dependence::Address);
    let v4 = [at("10.0.0.1:5"), at("9.9.9.9:9"), at("9.9.9.9:8")];
    let v6 = [at("[fd00::1]:5"), at("[fd00:1::9]:9"), at("[fd00:1::9]:8")];
    for (is_nat, [host, far, other], passes) in
        [(false, v4, false), (false, v6, false), (true, v6, true)]
    {
        let middlebox = if is_nat { &mut nat } else { &mut wall };
        let (out, back) = (built(Form::Udp, host, far, true), built(Form::Udp, far, host, true));
        assert!(!middlebox.enter(Nanos::ZERO, &mut back.clone()), "before anything left");
        let (mut sent, mut answer) = (out.clone(), back.clone());
        assert_eq!(middlebox.leave(Nanos::ZERO, &mut sent), Verdict::Passes);
        assert!(middlebox.enter(Nanos::ZERO, &mut answer));
        assert_eq!((sent, answer), (out, back));
        let by_port = middlebox.enter(Nanos::ZERO, &mut built(Form::Udp, other, host, true));
        assert_eq!(by_port, passes);
    }
    // SCTP has neither ports at a known place nor a checksum that a NAT could correct.
    let [host, far] = ["10.0.0.1", "9.9.9.9"].map(|ip| ip.parse().unwrap());
    let (mut out, mut back) = (ip(132, host, far, &[1; 16]), ip(132, far, host, &[1; 16]));
    assert_eq!(nat.leave(Nanos::ZERO, &mut out), Verdict::Blocked);
    assert!(!wall.enter(Nanos::ZERO, &mut back));
    assert_eq!(wall.leave(Nanos::ZERO, &mut out), Verdict::Passes);
    assert!(wall.enter(Nanos::ZERO, &mut back));
}

#[test]
fn fragments_follow_the_first_of_their_packet() {
    let mut nat = nat(Dependence::Independent, Dependence::AddressAndPort);
    let (host, far) = (at("10.0.0.1:5"), at("9.9.9.9:9"));
    let fragment = |from, to, field: u16| {
        let mut frame = built(Form::Udp, from, to, true);
        put(&mut frame[VNET..], 6, field);
        put(&mut frame[VNET..], 10, 0);
        let check = !fold(sum(&frame[VNET..VNET + 20]));
        put(&mut frame[VNET..], 10, check);
        frame
    };
    let public = at("198.18.1.3:5");
    let (mut first, mut later) = (fragment(host, far, 0x2000), fragment(host, far, 5));
    let was = later.clone();
    assert_eq!(nat.leave(Nanos::ZERO, &mut later), Verdict::Blocked, "it came before the first");
    assert_eq!(nat.leave(Nanos::ZERO, &mut first), Verdict::Passes);
    assert_eq!(nat.leave(Nanos::ZERO, &mut later), Verdict::Passes);
    assert_eq!(first, fragment(public, far, 0x2000));
    assert_eq!(later[VNET..VNET + 20], fragment(public, far, 5)[VNET..VNET + 20]);
    assert_eq!(later[VNET + 20..], was[VNET + 20..], "its first bytes are no ports");
    let mut back = [fragment(far, public, 0x2000), fragment(far, public, 5)];
    assert!(back.iter_mut().all(|frame| nat.enter(Nanos::ZERO, frame)));
    assert_eq!(back[0], fragment(far, host, 0x2000));
    assert_eq!(nat.leave(FRAGMENTS, &mut was.clone()), Verdict::Blocked, "it came too late");
}

/// Tests arbitrary input: no panic, and nothing that grows without bound.
#[test]
fn garbage_and_floods_end_within_bounds() {
    let mut rng = SplitMix64::new(8);
    let mut nat = nat(Dependence::Independent, Dependence::AddressAndPort);
    for round in 0..100_000u64 {
        let mut port = || rng.next_u64() as u16;
        let (from, to) =
            (SocketAddr::new([10, 0, 0, 1].into(), port()), SocketAddr::new([9; 4].into(), port()));
        let mut frame = built(FORMS[round as usize % FORMS.len()], from, to, true);
        if round % 2 == 0 {
            frame = error("192.0.2.1", to.ip(), &frame, 28 + round as usize % 40);
        }
        for _ in 0..rng.below(3) {
            let at = rng.below(frame.len().min(90) as u64) as usize;
            frame[at] = rng.next_u64() as u8;
        }
        frame.truncate(if round % 3 == 0 { rng.below(90) as usize } else { frame.len() });
        let now = Nanos::from_micros(round);
        if round % 5 == 0 {
            nat.enter(now, &mut frame);
        } else {
            nat.leave(now, &mut frame);
        }
    }
    assert!(nat.fragments.len() <= MOST_FRAGMENTED);
}
