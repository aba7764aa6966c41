//! Planted causes in virtual time: the judge names each. `cargo bench --bench causes` plants each more often.

use plants::PLANTS;

#[path = "../../../benches/causes/plants.rs"]
mod plants;

#[test]
fn each_planted_cause_is_named_first() {
    let mut wrong = Vec::new();
    for plant in PLANTS {
        for seed in [1, 2] {
            let (cause, said) = plant.run("sim:", seed).unwrap();
            if cause != Some(plant.cause) {
                wrong.push(format!("{:?} planted, {cause:?} named: {said}", plant.cause));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
