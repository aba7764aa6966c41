//! Tests of the list of transports.

use std::collections::BTreeSet;

use deadheat_datapath::transport::{ALL, UNSAID};

#[test]
fn each_transport_says_for_itself_what_it_is() {
    let mut ids = BTreeSet::new();
    for info in ALL.iter().map(|transport| transport.info()) {
        for word in [info.id, info.label, info.colour, info.summary] {
            assert_ne!(word, UNSAID, "{info:?}");
        }
        assert!(ids.insert(info.id), "{}", info.id);
    }
}
