//! Far end of others: what it counts, and what cannot be known from it.

use super::document::{Block, Section};
use deadheat_result::outcome::Outcome;

/// Returns the section on the far end; `None` where it is one of ours.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let far_end = outcome.path.far_end.as_deref()?;
    let mut facts = vec![
        ("far end".to_owned(), format!("{} at {}", far_end.label, outcome.path.address)),
        ("it counts".to_owned(), far_end.counts.clone().unwrap_or_else(|| "nothing".to_owned())),
    ];
    facts.extend(far_end.unknown.iter().map(|what| ("not known".to_owned(), what.clone())));
    Section::new("The far end", vec![Block::Facts(facts)])
}
