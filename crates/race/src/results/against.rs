//! Tests of `analysis/against.rs` of deadheat-result, on results of whole races.

use crate::race::Request;
use crate::race::testing::{noisy, run};
use deadheat_result::analysis::against::*;
use deadheat_result::analysis::compare::Change;

#[test]
fn the_ratio_is_of_the_contender_to_the_base_whichever_is_named_first() {
    let request = Request::new(["tcp", "udp", "tcp"]).blocks(12).seed(1);
    let level = |contender: &str| if contender.starts_with("udp") { 120.0 } else { 100.0 };
    let race = run(&request, noisy(1, 0.002, level)).unwrap();
    let one = |base, contender| -> AgainstClaim<'_> {
        against(&race, base, contender).into_iter().next().unwrap()
    };
    let (slower, faster, same) = (one(0, 1), one(1, 0), one(0, 2));
    assert_eq!(slower.change, Change::ChangedWorse);
    assert_eq!((slower.base.id, slower.contender.id), (0, 1));
    assert!((slower.ratio.unwrap().point - 1.2).abs() < 0.01, "{:?}", slower.ratio);
    assert!(slower.worst().unwrap() > 1.2 && faster.worst().is_none());
    assert_eq!((faster.change, same.change), (Change::ChangedBetter, Change::Same));
    assert!((faster.ratio.unwrap().point * 1.2 - 1.0).abs() < 0.01, "{:?}", faster.ratio);
    assert!(against(&race, 0, 3).is_empty());
}
