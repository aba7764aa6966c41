//! Tests of `transport::via` with the transports of this crate.

use deadheat_datapath::transport::Contender;
use deadheat_datapath::transport::via::*;

#[test]
fn the_key_is_every_transport_s_that_can_be_relayed_and_no_knob_of_it() {
    let relayed = Contender::parse("tcp:via=relay,cc=reno").unwrap();
    assert_eq!((relayed.via, relayed.knobs.text("cc")), (Via::Relay, Some("reno")));
    assert_eq!(relayed.spec.to_string(), "tcp:via=relay,cc=reno");
    assert_eq!(Contender::parse("udp").unwrap().via, Via::Direct);
    assert_eq!(Contender::parse("udp:via=none").unwrap().via, Via::Direct);
    assert_eq!(Contender::parse("quic:via=coturn").unwrap().via, Via::Coturn);
    for (typed, words) in [
        ("icmp:via=relay", "forwards TCP and UDP"),
        ("unix:via=coturn", "forwards TCP and UDP"),
        ("udp:via=turn", "which server"),
        ("udp:via=rellay", "did you mean `relay`"),
        ("mix:events=udp:via=coturn,state=udp", "no relay stands before a part"),
    ] {
        let error = Contender::parse(typed).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_relay_at_a_third_host_is_named_as_after_to() {
    for host in ["relay.example.org", "192.0.2.1:5211", "[2001:db8::1]", "[2001:db8::1]:80"] {
        let via = Via::RelayAt { host: host.into() };
        assert_eq!(Via::parse(&format!("relay@{host}")).unwrap(), via);
        let typed = format!("udp:via=relay@{host}");
        assert_eq!(Contender::parse(&typed).unwrap().spec.to_string(), typed);
    }
    for typed in ["relay@", "relay@:80", "relay@h:0", "relay@2001:db8::1", "relay@a/b"] {
        let error = Via::parse(typed).unwrap_err().to_string();
        assert!(error.contains("relay@HOST:PORT"), "{typed}: {error}");
    }
}

#[test]
fn a_turn_server_is_named_as_in_its_uri() {
    for (typed, host, port) in [
        ("turn:turn.example.org", "turn.example.org", 3478),
        ("turn:192.0.2.1:5349", "192.0.2.1", 5349),
        ("turn:[2001:db8::1]", "2001:db8::1", 3478),
        ("turn:[2001:db8::1]:80", "2001:db8::1", 80),
    ] {
        assert_eq!(Via::parse(typed).unwrap(), Via::Turn { host: host.into(), port });
    }
    for typed in [
        "turn:",
        "turn::80",
        "turn:h:",
        "turn:h:0",
        "turn:h:65536",
        "turn:2001:db8::1",
        "turn:[h]:1",
        "turn:a/b",
    ] {
        let error = Via::parse(typed).unwrap_err().to_string();
        assert!(error.contains("turn:HOST:PORT"), "{typed}: {error}");
    }
}
