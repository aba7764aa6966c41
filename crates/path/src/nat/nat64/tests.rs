//! Tests of NAT64 by the rules of RFC 7915: a translated packet is, byte for byte, the packet that a host of the other
//! version would have sent.

use super::*;
use crate::nat::tests::{Form, PUBLIC, assert_same, at, built, ip, put};
use crate::nat::{Dependence, Middlebox, Verdict};
use deadheat_base::rng::SplitMix64;

const HOST: &str = "[fd64::1]:5000";
const SERVER: &str = "9.9.9.9:53";

fn nat64() -> Translator {
    let middlebox = Middlebox {
        mapping: Some(Dependence::Independent),
        filtering: Dependence::AddressAndPort,
        timeout: Nanos::from_secs(300),
        hairpin: true,
        is_nat64: true,
    };
    Translator::new(&middlebox, PUBLIC.parse().unwrap(), 1_500)
}

/// Returns the endpoint of IPv6 that stands for one of IPv4.
fn through(endpoint: SocketAddr) -> SocketAddr {
    SocketAddr::new(across(endpoint.ip()).unwrap(), endpoint.port())
}

fn public(port: u16) -> SocketAddr {
    SocketAddr::new(PUBLIC.parse().unwrap(), port)
}

/// Returns a frame of IPv4 with other values of identification and flags.
fn with_field(mut frame: Vec<u8>, id: u16, field: u16) -> Vec<u8> {
    let packet = &mut frame[VNET..];
    for (at, value) in [(4, id), (6, field), (10, 0)] {
        put(packet, at, value);
    }
    let check = !fold(sum(&packet[..20]));
    put(packet, 10, check);
    frame
}

/// Sends a packet of UDP out, for which answers are let in, and returns its length in bytes.
fn open(nat: &mut Translator) -> usize {
    let mut out = built(Form::Udp, at(HOST), through(at(SERVER)), true);
    assert_eq!(nat.leave(Nanos::ZERO, &mut out), Verdict::Passes);
    out.len() - VNET
}

#[test]
fn a_packet_of_one_version_is_the_one_that_a_host_of_the_other_would_have_sent() {
    let mut rng = SplitMix64::new(5);
    let forms = [Form::Udp, Form::UdpLite, Form::UdpPartial, Form::Tcp, Form::TcpSuper, Form::Echo];
    for round in 0..3_000 {
        let form = forms[round % forms.len()];
        let [inside, outside, far] = {
            let mut port = || rng.below(60_000) as u16 + 2_000;
            let (own, far) = (port(), port());
            let inside = SocketAddr::new("fd64::7:1".parse().unwrap(), own);
            [inside, public(own), SocketAddr::new("203.0.113.9".parse().unwrap(), far)]
        };
        let mut nat = nat64();
        let mut out = built(form, inside, through(far), true);
        assert_eq!(nat.leave(Nanos::ZERO, &mut out), Verdict::Passes, "{form:?}");
        assert_same(&out, &with_field(built(form, outside, far, true), 1, 0), form);
        let mut back = built(form, far, outside, false);
        assert!(nat.enter(Nanos::from_secs(50), &mut back), "{form:?}");
        let wanted = built(form, through(far), inside, false);
        assert_eq!(back, wanted, "{form:?}");
        // From another port of the peer, and after the time of the binding, nothing enters.
        if form != Form::Echo {
            let other = SocketAddr::new(far.ip(), 1);
            assert!(!nat.enter(Nanos::ZERO, &mut built(form, other, outside, false)));
        }
        assert!(!nat.enter(Nanos::from_secs(90_000), &mut built(form, far, outside, false)));
    }
}

#[test]
fn class_and_hops_are_kept_and_options_and_extensions_left_out() {
    let mut nat = nat64();
    let mut out = built(Form::Udp, at(HOST), through(at(SERVER)), true);
    (out[VNET], out[VNET + 1], out[VNET + 7]) = (0x6b, 0x85, 17);
    let plain = out.clone();
    // Options for each hop, and a routing header that is used up.
    let extensions = [[43, 0, 1, 4, 0, 0, 0, 0], [17, 0, 0, 0, 0, 0, 0, 0]].concat();
    out.splice(VNET + 40..VNET + 40, extensions);
    out[VNET + 6] = 0;
    let length = (out.len() - VNET - 40) as u16;
    put(&mut out[VNET..], 4, length);
    let mut routed = out.clone();
    routed[VNET + 40 + 8 + 3] = 1;
    for (id, mut frame) in [(1, plain), (2, out)] {
        assert_eq!(nat.leave(Nanos::ZERO, &mut frame), Verdict::Passes);
        let mut wanted = built(Form::Udp, public(5_000), at(SERVER), true);
        (wanted[VNET + 1], wanted[VNET + 8]) = (0xb8, 17);
        assert_eq!(frame, with_field(wanted, id, 0));
    }
    assert_eq!(nat.leave(Nanos::ZERO, &mut routed), Verdict::Blocked, "segments are left");

    let mut back = built(Form::Udp, at(SERVER), public(5_000), true);
    (back[VNET], back[VNET + 1], back[VNET + 8]) = (0x46, 0xb8, 17);
    back.splice(VNET + 20..VNET + 20, [1, 1, 1, 0]);
    let length = (back.len() - VNET) as u16;
    put(&mut back[VNET..], 2, length);
    let mut routed = back.clone();
    routed[VNET + 20..VNET + 24].copy_from_slice(&[131, 3, 4, 0]);
    assert!(nat.enter(Nanos::ZERO, &mut back));
    let mut wanted = built(Form::Udp, through(at(SERVER)), at(HOST), true);
    (wanted[VNET], wanted[VNET + 1], wanted[VNET + 7]) = (0x6b, 0x80, 17);
    assert_eq!(back, wanted);
    assert!(!nat.enter(Nanos::ZERO, &mut routed), "a source route");
}

#[test]
fn only_its_own_packets_are_translated() {
    let mut nat = nat64();
    let mut native = built(Form::Udp, at(HOST), at("[fd65::2]:9"), true);
    assert_eq!(nat.leave(Nanos::ZERO, &mut native), Verdict::Blocked, "outside there is IPv4");
    assert!(!nat.enter(Nanos::ZERO, &mut built(Form::Udp, at("[fd65::2]:9"), at(HOST), true)));
    let v4 = built(Form::Udp, at("10.0.0.1:1"), at(SERVER), true);
    assert_eq!(nat.leave(Nanos::ZERO, &mut v4.clone()), Verdict::Passes);
    assert!(nat.enter(Nanos::ZERO, &mut v4.clone()));
    let mut sctp = ip(132, at(HOST).ip(), through(at(SERVER)).ip(), &[1; 16]);
    assert_eq!(nat.leave(Nanos::ZERO, &mut sctp), Verdict::Blocked);
    // A host inside is reached by the public address, from the public address.
    open(&mut nat);
    let (other, first) = (at("[fd64::2]:7"), through(public(5_000)));
    let mut hairpin = built(Form::Udp, other, first, true);
    assert_eq!(nat.leave(Nanos::ZERO, &mut hairpin.clone()), Verdict::Blocked, "its filter");
    let mut answer = built(Form::Udp, at(HOST), through(public(7)), true);
    assert_eq!(nat.leave(Nanos::ZERO, &mut answer), Verdict::Returns);
    assert_eq!(answer, built(Form::Udp, first, other, true));
    assert_eq!(nat.leave(Nanos::ZERO, &mut hairpin), Verdict::Returns);
}

/// Builds the packet of an error of ICMP.
fn error(from: IpAddr, to: IpAddr, start: [u8; 8], quote: &[u8]) -> Vec<u8> {
    let mut message = [&start[..], quote].concat();
    let pseudo = pseudo_of_icmp([from, to], message.len()).unwrap_or_default();
    let check = !fold(pseudo + sum(&message));
    put(&mut message, 2, check);
    ip(if from.is_ipv4() { ICMP } else { ICMP_V6 }, from, to, &message)
}

#[test]
fn errors_of_icmp_have_the_types_codes_and_values_of_the_other_version() {
    let router = ["192.0.2.77", "fd64::fe"].map(|text| text.parse::<IpAddr>().unwrap());
    let out4 = with_field(built(Form::Tcp, public(5_000), at(SERVER), true), 0x1234, 0);
    let out6 = built(Form::Tcp, at(HOST), through(at(SERVER)), true);
    let back4 = with_field(built(Form::Tcp, at(SERVER), public(5_000), true), 0, 0);
    let back6 = built(Form::Tcp, through(at(SERVER)), at(HOST), true);
    let mut nat = nat64();
    assert_eq!(nat.leave(Nanos::ZERO, &mut out6.clone()), Verdict::Passes);
    let mtu = |mtu: u16| [0, 0, (mtu >> 8) as u8, mtu as u8];
    // To IPv6 (RFC 7915, section 4.2); `None` where the error is dropped.
    for (kind, code, rest, wanted) in [
        (3, 0, [0; 4], Some((1, 0, [0; 4]))),
        (3, 1, [0; 4], Some((1, 0, [0; 4]))),
        (3, 2, [0; 4], Some((4, 1, [0, 0, 0, 6]))),
        (3, 3, [0; 4], Some((1, 4, [0; 4]))),
        (3, 4, mtu(1_400), Some((2, 0, mtu(1_420)))),
        (3, 4, mtu(0), Some((2, 0, mtu(1_280)))),
        (3, 4, mtu(1_000), Some((2, 0, mtu(1_280)))),
        (3, 9, [0; 4], Some((1, 1, [0; 4]))),
        (3, 13, [0; 4], Some((1, 1, [0; 4]))),
        (3, 14, [0; 4], None),
        (11, 0, [0; 4], Some((3, 0, [0; 4]))),
        (11, 1, [0; 4], Some((3, 1, [0; 4]))),
        (12, 0, [8, 0, 0, 0], Some((4, 0, [0, 0, 0, 7]))),
        (12, 2, [17, 0, 0, 0], Some((4, 0, [0, 0, 0, 24]))),
        (12, 0, [5, 0, 0, 0], None),
        (12, 1, [0; 4], None),
        (4, 0, [0; 4], None),
    ] {
        let start = |(kind, code, [a, b, c, d]): (u8, u8, [u8; 4])| [kind, code, 0, 0, a, b, c, d];
        let told =
            |quote: &[u8]| error(router[0], public(0).ip(), start((kind, code, rest)), quote);
        let mut frame = told(&out4[VNET..VNET + 28]);
        assert_eq!(nat.enter(Nanos::ZERO, &mut frame), wanted.is_some(), "{kind}/{code}");
        if let Some(wanted) = wanted {
            let from = across(router[0]).unwrap();
            let quote = &out6[VNET..VNET + 48];
            assert_eq!(frame, error(from, at(HOST).ip(), start(wanted), quote), "{kind}/{code}");
        }
    }
    // To IPv4 (section 5.2).
    for (kind, code, rest, wanted) in [
        (1, 0, [0; 4], Some((3, 1, [0; 4]))),
        (1, 1, [0; 4], Some((3, 10, [0; 4]))),
        (1, 2, [0; 4], Some((3, 1, [0; 4]))),
        (1, 3, [0; 4], Some((3, 1, [0; 4]))),
        (1, 4, [0; 4], Some((3, 3, [0; 4]))),
        (1, 5, [0; 4], None),
        (2, 0, mtu(1_480), Some((3, 4, mtu(1_460)))),
        (3, 1, [0; 4], Some((11, 1, [0; 4]))),
        (4, 0, [0, 0, 0, 7], Some((12, 0, [8, 0, 0, 0]))),
        (4, 0, [0, 0, 0, 30], Some((12, 0, [16, 0, 0, 0]))),
        (4, 0, [0, 0, 0, 2], None),
        (4, 1, [0; 4], Some((3, 2, [0; 4]))),
        (4, 2, [0; 4], None),
    ] {
        let start = |(kind, code, [a, b, c, d]): (u8, u8, [u8; 4])| [kind, code, 0, 0, a, b, c, d];
        let to = through(at(SERVER)).ip();
        let mut frame = error(router[1], to, start((kind, code, rest)), &back6[VNET..]);
        let passes = nat.leave(Nanos::ZERO, &mut frame) == Verdict::Passes;
        assert_eq!(passes, wanted.is_some(), "{kind}/{code}");
        if let Some(wanted) = wanted {
            let told = error(public(0).ip(), at(SERVER).ip(), start(wanted), &back4[VNET..]);
            assert_eq!(with_field(frame, 0x1234, 0), told, "{kind}/{code}");
        }
    }
}

#[test]
fn an_error_about_a_packet_of_nobody_is_dropped_and_a_long_one_is_cut() {
    let router = ["192.0.2.77", "fd64::fe"].map(|text| text.parse::<IpAddr>().unwrap());
    let back6 = built(Form::Tcp, through(at(SERVER)), at(HOST), true);
    let mut nat = nat64();
    let mut out6 = built(Form::Tcp, at(HOST), through(at(SERVER)), true);
    assert_eq!(nat.leave(Nanos::ZERO, &mut out6), Verdict::Passes);
    let stranger = built(Form::Tcp, public(5_001), at(SERVER), true);
    let start = [3, 3, 0, 0, 0, 0, 0, 0];
    let mut frame = error(router[0], public(0).ip(), start, &stranger[VNET..]);
    assert!(!nat.enter(Nanos::ZERO, &mut frame));
    let long = [&back6[VNET..], &[7; 1_100]].concat();
    let mut frame = error(router[1], through(at(SERVER)).ip(), [1, 4, 0, 0, 0, 0, 0, 0], &long);
    assert_eq!(nat.leave(Nanos::ZERO, &mut frame), Verdict::Passes);
    let packet = &frame[VNET..];
    assert_eq!((packet.len(), fold(sum(&packet[20..]))), (576, 0xffff));
}

/// Builds a packet of UDP with so many bytes behind its header, from the server where it goes in.
fn datagram(bytes: usize, goes_in: bool) -> Vec<u8> {
    let (from, to) = match goes_in {
        true => (at(SERVER), public(5_000)),
        false => (at(HOST), through(at(SERVER))),
    };
    let mut payload: Vec<u8> = (0..bytes + 8).map(|n| (n * 3) as u8).collect();
    for (place, value) in [(0, from.port()), (2, to.port()), (4, bytes as u16 + 8), (6, 0)] {
        put(&mut payload, place, value);
    }
    let pseudo = sum_of([from.ip(), to.ip()]) + 17 + payload.len() as u32;
    let check = !fold(pseudo + sum(&payload));
    put(&mut payload, 6, check);
    ip(17, from.ip(), to.ip(), &payload)
}

/// Returns true if the checksum of a packet of UDP over IPv6 without extension headers is right.
fn holds_v6(packet: &[u8]) -> bool {
    let pseudo = sum(&packet[8..40]) + 17 + (packet.len() - 40) as u32;
    fold(pseudo + sum(&packet[40..])) == 0xffff
}

#[test]
fn packets_that_grow_too_long_are_fragmented_unless_they_must_not_be() {
    let mut nat = nat64();
    open(&mut nat);
    // What routers may fragment is at most 1260 bytes of IPv4.
    for (bytes, field) in [(1_232, 0), (1_233, 0x4000)] {
        let mut out = datagram(bytes, false);
        assert_eq!(nat.leave(Nanos::ZERO, &mut out), Verdict::Passes);
        assert_eq!(word(&out, VNET + 6), Some(field), "{bytes}");
    }
    // 1480 bytes of IPv4 just fit; longer ones are split, or left to the next router's error.
    for (bytes, field, lengths) in [
        (1_452, 0, vec![]),
        (1_472, 0x4000, vec![]),
        (1_453, 0, vec![1_496, 61]),
        (1_472, 0, vec![1_496, 80]),
    ] {
        let mut frame = with_field(datagram(bytes, true), 77, field);
        assert!(nat.enter(Nanos::ZERO, &mut frame));
        let parts = fragments(&mut frame, 1_500);
        let all: Vec<usize> = parts.iter().map(|part| part.len() - VNET).collect();
        assert_eq!(all, lengths, "{bytes}");
        if parts.is_empty() {
            assert_eq!(frame.len(), VNET + bytes + 48);
            assert!(holds_v6(&frame[VNET..]));
        } else {
            let fields: Vec<u16> =
                parts.iter().map(|part| word(part, VNET + 42).unwrap()).collect();
            assert_eq!(fields, [1, 1_448]);
            let payload: Vec<u8> =
                parts.iter().flat_map(|part| part[VNET + 48..].to_vec()).collect();
            let mut whole = parts[0][VNET..VNET + 40].to_vec();
            whole[6] = 17;
            assert!(holds_v6(&[whole, payload].concat()));
            assert!(parts.iter().all(|part| part[VNET + 44..VNET + 48] == [0, 0, 0, 77]));
        }
    }
}

#[test]
fn a_datagram_without_a_checksum_gets_one_and_a_fragment_of_one_is_dropped() {
    let mut nat = nat64();
    open(&mut nat);
    let mut bare = built(Form::UdpBare, at(SERVER), public(5_000), true);
    let mut fragment = with_field(bare.clone(), 3, 0x2000);
    assert!(nat.enter(Nanos::ZERO, &mut bare));
    assert_eq!(bare, built(Form::Udp, through(at(SERVER)), at(HOST), true));
    assert!(!nat.enter(Nanos::ZERO, &mut fragment));
}

#[test]
fn fragments_have_the_header_of_the_other_version_and_follow_the_first() {
    let mut nat = nat64();
    let whole = datagram(1_992, false);
    let cut = |from: usize, to: usize, more: u16| {
        let part = &whole[VNET + 40..][from..to];
        let header = [&[17, 0][..], &(from as u16 | more).to_be_bytes(), &[0, 9, 0, 8]].concat();
        ip(44, at(HOST).ip(), through(at(SERVER)).ip(), &[&header, part].concat())
    };
    let (mut first, mut later) = (cut(0, 1_000, 1), cut(1_000, 2_000, 0));
    assert_eq!(nat.leave(Nanos::ZERO, &mut later.clone()), Verdict::Blocked, "it overtook");
    assert_eq!(nat.leave(Nanos::ZERO, &mut first), Verdict::Passes);
    assert_eq!(nat.leave(Nanos::ZERO, &mut later), Verdict::Passes);
    let fields = [&first, &later].map(|frame| [word(frame, VNET + 4), word(frame, VNET + 6)]);
    assert_eq!(fields, [[Some(8), Some(0x2000)], [Some(8), Some(125)]]);
    let udp = [&first[VNET + 20..], &later[VNET + 20..]].concat();
    let pseudo = sum(&first[VNET + 12..VNET + 20]) + 17 + udp.len() as u32;
    assert_eq!(fold(pseudo + sum(&udp)), 0xffff);

    // And back: the very same fragments.
    let whole = datagram(1_992, true);
    let cut = |from: usize, to: usize, field: u16| {
        let part = &whole[VNET + 20..][from..to];
        with_field(ip(17, at(SERVER).ip(), public(0).ip(), part), 8, field)
    };
    let (mut first, mut later) = (cut(0, 1_000, 0x2000), cut(1_000, 2_000, 125));
    assert!(!nat.enter(Nanos::ZERO, &mut later.clone()), "it overtook");
    assert!(nat.enter(Nanos::ZERO, &mut first) && nat.enter(Nanos::ZERO, &mut later));
    let of = |frame: &[u8]| {
        let packet = &frame[VNET..];
        (packet[6], packet[40], word(packet, 42).unwrap(), packet.len())
    };
    assert_eq!([of(&first), of(&later)], [(44, 17, 1, 1_048), (44, 17, 1_000, 1_048)]);
    // The checksum of ICMPv6 covers a length that a fragment does not know.
    let mut echo = built(Form::Echo, at(HOST), through(at(SERVER)), true);
    assert_eq!(nat.leave(Nanos::ZERO, &mut echo), Verdict::Passes);
    let answer = built(Form::Echo, at(SERVER), public(5_000), false);
    assert!(!nat.enter(Nanos::ZERO, &mut with_field(answer.clone(), 4, 0x2000)));
    assert!(nat.enter(Nanos::ZERO, &mut answer.clone()));
}

/// Tests arbitrary input: no panic, and no packet longer than its room.
#[test]
fn garbage_is_dropped() {
    let mut rng = SplitMix64::new(64);
    let mut nat = nat64();
    let mut passed = 0;
    for round in 0..60_000u64 {
        open(&mut nat);
        let goes_in = round % 2 == 0;
        let mut frame = datagram(rng.below(1_500) as usize, goes_in);
        if round % 3 == 0 {
            let [from, to] =
                if goes_in { [at(SERVER), public(0)] } else { [at(HOST), through(at(SERVER))] };
            let kind = if goes_in { 3 } else { 1 };
            let quote = datagram(40, !goes_in);
            frame = error(from.ip(), to.ip(), [kind, 3, 0, 0, 0, 0, 0, 0], &quote[VNET..]);
        }
        for _ in 0..rng.below(4) {
            let at = rng.below(frame.len().min(110) as u64) as usize;
            frame[at] = rng.next_u64() as u8;
        }
        frame.truncate(if round % 5 == 0 { rng.below(110) as usize } else { frame.len() });
        let passes = match goes_in {
            true => nat.enter(Nanos(round), &mut frame),
            false => nat.leave(Nanos(round), &mut frame) == Verdict::Passes,
        };
        passed += u32::from(passes);
        let _ = fragments(&mut frame, 1_280);
    }
    assert!(passed > 10_000, "{passed}");
}
