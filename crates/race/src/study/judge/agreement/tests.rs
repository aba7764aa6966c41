use super::*;
use crate::race::testing;
use crate::study::check::CheckedStudy;
use crate::study::judge::{Extent, judge};
use crate::study::{plan, read};
use std::collections::BTreeMap;

/// Returns a study of three cells with these published times, and with a claim of agreement.
fn study(blocks: u64, published: [&str; 3], claimed: &str) -> Result<CheckedStudy, String> {
    let mut text = format!(
        "title = \"Echoes\"\nquestion = \"As published?\"\n[[race]]\nid = \"all\"\nvariant = \"as_published\"\n\
         about = \"Echoes.\"\ncontenders = [\"tcp\", \"udp\", \"icmp\"]\nworkload = \"ping:count=200\"\n\
         blocks = {blocks}\nall_blocks = true\nmargin = \"5%\"\n"
    );
    for (contender, more) in ["tcp", "udp", "icmp"].into_iter().zip(published) {
        text.push_str(&format!(
            "[[published]]\nrace = \"all\"\nmetric = \"rtt_p50_ns\"\ncell = {{ contender = \"{contender}\" }}\n{more}\n"
        ));
    }
    text.push_str(&format!(
        "[[claim]]\nid = \"as-published\"\nsays = \"They agree.\"\nagree = {{ within = \"10%\", {claimed} }}\n"
    ));
    read::study(&text, "x.toml").map_err(|error| error.to_string())
}

/// Rules where TCP takes 100 µs, UDP 80 µs and ICMP 60 µs, with scatter of 1 %.
fn ruled(blocks: u64, published: [&str; 3], claimed: &str) -> ClaimRuling {
    let checked = study(blocks, published, claimed).unwrap();
    let request = plan::request(&checked.study.races[0]).unwrap().seed(1);
    let mut rng = deadheat_base::rng::SplitMix64::new(3);
    let outcome = testing::run(&request, |order| {
        let level = match order.contender().as_str() {
            "udp" => 80_000.0,
            "icmp" => 60_000.0,
            _ => 100_000.0,
        };
        testing::ran(order, level * (0.01 * rng.normal()).exp())
    });
    let results = BTreeMap::from([("all".to_owned(), outcome.unwrap())]);
    judge(&checked, &results, Extent::FULL).rulings.remove(0)
}

const SAME: [&str; 3] = ["value = \"102us\"", "value = \"80us\"", "value = \"50us\""];

#[test]
fn figures_agree_within_the_part_that_the_claim_grants_and_are_counted() {
    let ruling = ruled(8, SAME, "at_least = 2");
    let answers: Vec<AnswerKind> = ruling.answers.iter().map(|one| one.answer).collect();
    assert_eq!(answers, [AnswerKind::Yes, AnswerKind::Yes, AnswerKind::No], "{}", ruling.note);
    assert_eq!(ruling.answers[0].test.expect, "91800ns..112200ns");
    assert!(ruling.answers[0].confidence.is_some());
    assert_eq!(ruling.ruling, Ruling::Holds);
    let wanted = "2 of 3 published figures agree within 10% or the range of their trials, 1 do not, and 0 are not decided; \
                  asked for: 2. Other than published: all, icmp: 60";
    assert!(ruling.note.starts_with(wanted), "{}", ruling.note);
    assert_eq!(ruled(8, SAME, "at_least = 3").ruling, Ruling::DoesNotHold);
}

#[test]
fn the_range_of_published_trials_agrees_where_it_is_wider() {
    let wide = [SAME[0], SAME[1], "value = \"50us\"\nrange = \"40us..70us\""];
    let ruling = ruled(8, wide, "at_least = 3");
    assert_eq!(ruling.ruling, Ruling::Holds, "{}", ruling.note);
    assert_eq!(ruling.answers[2].test.expect, "40us..70us");
}

#[test]
fn three_trials_have_a_range_and_no_interval_and_two_decide_nothing() {
    let ruling = ruled(3, SAME, "at_least = 2");
    assert_eq!(ruling.ruling, Ruling::Holds, "{}", ruling.note);
    let seen = ruling.answers[0].seen.unwrap();
    assert!(seen.low < Some(seen.point) && Some(seen.point) < seen.high, "{seen:?}");
    assert_eq!((ruling.answers[0].blocks, ruling.answers[0].confidence), (3, None));
    let ruling = ruled(2, SAME, "at_least = 2");
    assert_eq!(ruling.ruling, Ruling::Open, "{}", ruling.note);
    assert!(ruling.note.contains("3 are not decided"), "{}", ruling.note);
}

#[test]
fn an_interval_across_the_end_of_the_range_is_not_decided() {
    let ruling = ruled(8, [SAME[0], "value = \"88.7us\"", SAME[2]], "at_least = 2");
    assert_eq!(ruling.answers[1].answer, AnswerKind::Open, "{:?}", ruling.answers[1]);
    assert_eq!(ruling.ruling, Ruling::Open, "{}", ruling.note);
}

#[test]
fn an_order_is_counted_over_pairs_that_differ_as_published() {
    let ruling = ruled(8, SAME, "in_order = \"95%\"");
    assert_eq!(ruling.ruling, Ruling::Holds);
    let wanted = "Of 3 pairs of figures that differ as published, 3 are in that order here, 0 in the other, and 0 are not \
                  told apart; asked for: 95 %.";
    assert_eq!(ruling.note, wanted);
    // 80 and 85 us agree within a tenth: that pair has no order.
    let other = ruled(8, ["value = \"85us\"", SAME[1], "value = \"120us\""], "in_order = \"95%\"");
    assert_eq!(other.ruling, Ruling::DoesNotHold);
    assert!(
        other.note.starts_with("Of 2 pairs of figures that differ as published, 0 are"),
        "{}",
        other.note
    );
}

#[test]
fn a_claim_of_agreement_that_asks_for_nothing_possible_is_refused() {
    for (claimed, wanted) in [
        ("at_least = 4", "at_least is from 1 to 3"),
        ("at_least = 0", "at_least is from 1 to 3"),
        ("races = []", "one of at_least"),
        ("at_least = 1, in_order = \"95%\"", "one of at_least"),
        ("in_order = \"most\"", "percent sign"),
        ("at_least = 1, races = [\"al\"]", "did you mean `all`"),
    ] {
        let said = study(8, SAME, claimed).unwrap_err();
        assert!(said.contains(wanted), "{claimed}: {said}");
    }
    let said = study(8, ["value = \"1us\"\nrange = \"2us\"", SAME[1], SAME[2]], "at_least = 1");
    assert!(said.unwrap_err().contains("from the least to the greatest of its trials"));
}
