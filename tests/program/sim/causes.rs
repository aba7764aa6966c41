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

#[test]
fn alike_contenders_have_no_cause_that_makes_a_difference() {
    for plant in PLANTS {
        let (cause, said) = plant.run_alike("sim:", 1).unwrap();
        assert_eq!(cause, None, "{said}");
    }
}
