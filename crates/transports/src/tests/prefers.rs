//! Tests of `transport::prefers` with the transports of this crate.

use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Delivery, Service};
use deadheat_datapath::transport::prefers::*;
use deadheat_datapath::transport::{ALL, Contender};

#[test]
fn every_service_on_offer_can_be_preferred_and_is_typed_as_read() {
    let mut found = 0;
    for transport in ALL.iter() {
        let info = transport.info();
        for offer in info.guarantees.offers() {
            let life = match offer.service.delivery {
                Delivery::Within(_) => Delivery::Within(Nanos::from_millis(80)),
                delivery => delivery,
            };
            let service = Service { delivery: life, ..offer.service };
            let typed = with(info.id, &[service]).unwrap();
            let promised = Contender::parse(&typed).unwrap().promised();
            assert_eq!(
                (promised.service, promised.largest_message),
                (service, offer.largest_message)
            );
            found += usize::from(offer.service != info.guarantees.service);
        }
    }
    assert!(found >= 5, "{found}");
}

#[test]
fn mistakes_are_named() {
    let first = ALL.iter().find(|one| one.info().guarantees.others.iter().count() == 0);
    let alone = first.unwrap().info().id;
    for (value, wanted) in [
        ("best-efort", "did you mean `best-effort`?"),
        ("lifetime", "write lifetime:100ms, say"),
        ("ordered:1s", "write ordered alone"),
        ("ordered/ordered", "given twice"),
        ("lifetime:1s", "it has no lane that is lifetime:1s; it has: "),
    ] {
        let said = Contender::parse(&format!("{alone}:lane={value}")).unwrap_err().to_string();
        assert!(said.contains(wanted), "{said}");
    }
    assert_eq!(with("x:a=1,lane=ordered", &[]).unwrap(), "x:a=1");
}
