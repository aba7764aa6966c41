//! Tests of `transport::equal` with the transports of this crate.

use deadheat_base::units::Bytes;
use deadheat_contract::contract::Congestion;
use deadheat_datapath::transport::equal::*;
use deadheat_datapath::transport::{ALL, Contender};

fn knob(typed_as: &str, key: &str) -> Option<String> {
    Contender::parse(typed_as).unwrap().knobs.text(key).map(str::to_owned)
}

#[test]
fn every_default_is_what_the_rules_say() {
    for transport in ALL.iter() {
        let info = transport.info();
        for key in info.keys {
            let Some(rule) = RULES.iter().find(|rule| rule.knob == key.name) else { continue };
            let is_one = rule.values.is_empty() || rule.values.contains(&key.default);
            assert!(is_one, "{}:{}={}, against {rule:?}", info.id, key.name, key.default);
        }
        let cc = info.keys.iter().find(|key| key.name == "cc");
        if let Some(cc) = cc.filter(|_| info.guarantees.congestion == Congestion::Controlled) {
            assert!(!cc.default.is_empty(), "{}: nobody says its congestion control", info.id);
        }
    }
}

#[test]
fn what_is_deployed_is_a_knob_of_the_transport_with_a_value_of_its_kind_and_differs() {
    let mut found = 0;
    for transport in ALL.iter() {
        let info = transport.info();
        for own in transport.info().deployed {
            let key = info.keys.iter().find(|key| key.name == own.knob).unwrap();
            assert!(own.value.is_empty() || key.kind.check(own.value).is_ok(), "{own:?}");
            assert_ne!(own.value, key.default, "{}: {own:?}", info.id);
            assert!(!own.source.is_empty());
            found += 1;
        }
    }
    assert!(found > 10);
}

#[test]
fn typed_knobs_win_over_either_terms() {
    assert_eq!(knob("tcp", "cc").as_deref(), Some("cubic"));
    assert_eq!(knob("tcp:terms=equal", "cc").as_deref(), Some("cubic"));
    assert_eq!(knob("tcp:terms=deployed", "cc").as_deref(), Some("host"));
    assert_eq!(knob("tcp:terms=deployed,cc=reno", "cc").as_deref(), Some("reno"));
    assert_eq!(knob("tcp:terms=deployed", "nodelay").as_deref(), Some("off"));
    assert_eq!(knob("quic:terms=deployed", "window"), None);
    assert_eq!(knob("quic:terms=deployed,window=2MB", "window").as_deref(), Some("2MB"));
    let error = Contender::parse("tcp:terms=fair").unwrap_err().to_string();
    assert!(error.contains("deployed"), "{error}");
}

#[test]
fn terms_of_a_race_are_those_of_each_contender_that_has_none_of_its_own() {
    let deployed = |typed_as: &str| on(typed_as, Terms::Deployed, None).unwrap();
    assert_eq!(deployed("tcp:cc=reno"), "tcp:cc=reno,terms=deployed");
    assert_eq!(deployed("quic:terms=equal"), "quic:terms=equal");
    let whole = deployed("mix:events=tcp,others=quic:cc=bbr+mtu=1400");
    assert_eq!(whole, "mix:events=tcp:terms=deployed,others=quic:cc=bbr+mtu=1400+terms=deployed");
    assert_eq!(
        deployed("udp|tcp:cc=reno,after=300ms"),
        "udp:terms=deployed|tcp:cc=reno,terms=deployed,after=300ms"
    );
    assert_eq!(Contender::parse(&whole).unwrap().asked()["events.cc"], "host");
    assert_eq!(on("tcp", Terms::Equal, None).unwrap(), "tcp");
    assert!(on("tpc", Terms::Deployed, None).is_err());
}

#[test]
fn windows_have_room_for_twice_the_product() {
    let on = |typed_as: &str, product| on(typed_as, Terms::Equal, Some(Bytes(product))).unwrap();
    // 20 Mbit/s and 50 ms are less than the defaults.
    for typed_as in ["quic", "rbudp", "utp", "sctp-udp", "arq:window=4096", "kcp:window=16"] {
        assert_eq!(on(typed_as, 125_000), typed_as);
    }
    assert_eq!(on("quic", 12_500_000), "quic:window=25000000");
    assert_eq!(on("kcp", 1_250_000), "kcp:window=1667");
    assert_eq!(on("kcp:window=128", 1_250_000), "kcp:window=128");
    assert_eq!(on("kcp:terms=deployed", 1_250_000), "kcp:terms=deployed");
    assert_eq!(on("quic", u64::MAX), "quic:window=1073741824");
    assert_eq!(on("tcp", 12_500_000), "tcp");
    for typed_as in ["quic", "kcp", "arq", "rbudp", "utp", "sctp-udp"] {
        Contender::parse(&on(typed_as, 12_500_000)).unwrap();
    }
}
