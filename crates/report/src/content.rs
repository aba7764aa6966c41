//! Content of the report of one race, in order. Sections that would be empty are omitted.

use super::document::{Document, Section};
use super::{
    answer, arrived, brief, commands, contests, evidence, explain, factors, far_end, highs,
    imported, names, needs, network, outages, over_time, path, results, scatter, sweeps, theory,
    way, why, wire,
};
use deadheat_result::outcome::Outcome;

/// Place of a section in a form that has drawings, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// The answer, and the verdicts behind it.
    Answer,
    /// Figures; drawings follow.
    Results,
    /// Basis of the figures.
    Basis,
    /// Drawings made of letters.
    Letters,
}

/// Returns the report of `outcome`.
pub(super) fn document(outcome: &Outcome) -> Document {
    Document {
        title: names::title(outcome),
        subtitle: format!("deadheat {} · {}", outcome.deadheat.version, brief::subtitle(outcome)),
        sections: sections(outcome).into_iter().map(|(_, section)| section).collect(),
    }
}

/// Returns its sections in the order of text, each with its place beside drawings.
pub(super) fn sections(outcome: &Outcome) -> Vec<(Place, Section)> {
    let sections: [(Place, Option<Section>); 35] = [
        (Place::Answer, answer::section(outcome)),
        (Place::Results, sweeps::section(outcome)),
        (Place::Results, contests::section(outcome)),
        (Place::Results, factors::section(outcome).filter(|_| !contests::is_matrix(outcome))),
        (Place::Results, factors::combinations(outcome)),
        (Place::Results, results::section(outcome)),
        (Place::Results, imported::five_numbers(outcome)),
        (Place::Letters, scatter::section(outcome)),
        (Place::Answer, evidence::verdicts(outcome)),
        (Place::Answer, evidence::unfiltered(outcome)),
        (Place::Basis, why::section(outcome)),
        (Place::Basis, explain::section(outcome)),
        (Place::Basis, theory::section(outcome)),
        (Place::Basis, evidence::control(outcome)),
        (Place::Basis, evidence::regimes(outcome)),
        (Place::Letters, over_time::section(outcome)),
        (Place::Basis, highs::section(outcome)),
        (Place::Basis, outages::section(outcome)),
        (Place::Basis, evidence::accounts(outcome)),
        (Place::Basis, arrived::section(outcome)),
        (Place::Basis, commands::section(outcome)),
        (Place::Basis, needs::section(outcome)),
        (Place::Letters, network::section(outcome)),
        (Place::Basis, network::changed(outcome)),
        (Place::Basis, path::section(outcome)),
        (Place::Basis, wire::section(outcome)),
        (Place::Basis, way::section(outcome)),
        (Place::Basis, far_end::section(outcome)),
        (Place::Basis, evidence::differences(outcome)),
        (Place::Basis, evidence::warnings(outcome)),
        (Place::Basis, imported::files(outcome)),
        (Place::Basis, evidence::excluded(outcome)),
        (Place::Basis, evidence::out(outcome)),
        (Place::Basis, factors::infeasible(outcome)),
        (Place::Basis, evidence::conditions(outcome)),
    ];
    sections.into_iter().filter_map(|(place, section)| Some((place, section?))).collect()
}
