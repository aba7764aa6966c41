//! Way to a far end behind a server: the addresses that were dialled, the address of this host as each end sees it, and
//! the hops between them.

use super::document::{Block, Section};
use deadheat_records::path::ReachFacts;
use deadheat_result::outcome::{Entrant, Outcome};

/// Usual initial TTLs of operating systems, in increasing order.
const INITIAL_TTLS: [u32; 4] = [32, 64, 128, 255];

/// Returns the section on the way; `None` where no server is at its end.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let reached = outcome.path.reached.as_deref()?;
    let mut facts = vec![("far end".to_owned(), far(outcome))];
    facts.push(("this host".to_owned(), near(outcome, reached)));
    for attempt in &reached.attempts {
        facts.push((format!("dialled {}", attempt.address), attempt.words()));
    }
    let racing = outcome.contenders.iter().filter(|entrant| entrant.is_racing());
    facts.extend(racing.filter_map(hops));
    Section::new("The way", vec![Block::Facts(facts)])
}

fn far(outcome: &Outcome) -> String {
    let dialled = &outcome.path.address;
    let translated = deadheat_result::analysis::translated::translated(outcome);
    match translated {
        Some(translated) => format!("{dialled}, which reaches {} there", translated.reached),
        None => dialled.clone(),
    }
}

fn near(outcome: &Outcome, reached: &ReachFacts) -> String {
    let mut text = reached.own_address.to_string();
    if let Some(device) = &outcome.asked.device {
        text.push_str(&format!(", by {device}"));
    }
    match (reached.translated(), reached.seen_as) {
        (Some(seen), _) => format!(
            "{text}; the far end sees {seen}: a NAT is on the way, which may forget a flow that is silent for long"
        ),
        (None, Some(_)) => format!("{text}; the far end sees the same"),
        (None, None) => text,
    }
}

/// Returns the number of hops that a contender's packets took to the far end, with the TTL that arrived.
fn hops(entrant: &Entrant) -> Option<(String, String)> {
    let arrived: u32 = entrant.far_effective.get("arrived_ttl")?.parse().ok()?;
    let set = entrant.effective.get("ttl").and_then(|ttl| ttl.parse().ok());
    let usual = INITIAL_TTLS.into_iter().find(|initial| *initial >= arrived);
    let initial = set.or(usual).filter(|initial| *initial >= arrived)?;
    let name = format!("hops of {}", entrant.label);
    Some((
        name,
        format!(
            "{}: its packets left with TTL {initial} and arrived with {arrived}",
            initial - arrived
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_race::race::testing;
    use deadheat_records::connect::{AttemptEnd, ConnectAttempt};

    fn outcome(seen: Option<&str>) -> Outcome {
        let mut outcome = testing::outcome(2);
        outcome.path.address = "192.0.2.7:5210".into();
        let attempt = |address: &str, took_ns, end| ConnectAttempt {
            address: address.parse().unwrap(),
            after_ns: 0,
            took_ns,
            end,
        };
        outcome.path.reached = Some(Box::new(ReachFacts {
            own_address: "10.0.0.2".parse().unwrap(),
            seen_as: seen.map(|seen| seen.parse().unwrap()),
            attempts: vec![
                attempt("[2001:db8::7]:5210", 270_000_000, AttemptEnd::Cancelled),
                attempt("192.0.2.7:5210", 20_000_000, AttemptEnd::Connected),
            ],
        }));
        outcome
    }

    fn text(outcome: &Outcome) -> String {
        format!("{:?}", section(outcome))
    }

    #[test]
    fn what_was_dialled_and_what_a_nat_made_of_it_is_there() {
        let nat = text(&outcome(Some("203.0.113.9")));
        assert!(nat.contains("the far end sees 203.0.113.9: a NAT is on the way"), "{nat}");
        assert!(nat.contains("no answer in 270"), "{nat}");
        assert!(nat.contains("connected in 20"), "{nat}");
        assert!(text(&outcome(Some("10.0.0.2"))).contains("sees the same"));
        assert!(section(&testing::outcome(2)).is_none());
    }

    #[test]
    fn hops_follow_from_the_ttl_that_arrived() {
        let mut outcome = outcome(None);
        let far = &mut outcome.contenders[0].far_effective;
        far.insert("arrived_ttl".into(), "62".into());
        assert!(text(&outcome).contains("2: its packets left with TTL 64 and arrived with 62"));
        outcome.contenders[0].effective.insert("ttl".into(), "63".into());
        assert!(text(&outcome).contains("1: its packets left with TTL 63"));
    }
}
