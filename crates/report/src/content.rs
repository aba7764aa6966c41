//! Content of the report of one race, in order. Sections that would be empty are omitted.

use super::document::{Document, Section};
use super::{
    answer, arrived, boxes, brief, commands, evidence, explain, factors, far_end, highs, imported,
    needs, outages, over_time, path, results, sweeps, theory, way, words,
};
use deadheat_contract::workload::load;
use deadheat_result::analysis::translated::translated;
use deadheat_result::outcome::{Entrant, Outcome};

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
        title: title(outcome),
        subtitle: format!("deadheat {} · {}", outcome.deadheat.version, brief::subtitle(outcome)),
        sections: sections(outcome).into_iter().map(|(_, section)| section).collect(),
    }
}

/// Returns its sections in the order of text, each with its place beside drawings.
pub(super) fn sections(outcome: &Outcome) -> Vec<(Place, Section)> {
    let sections: [(Place, Option<Section>); 30] = [
        (Place::Answer, answer::section(outcome)),
        (Place::Results, sweeps::section(outcome)),
        (Place::Results, factors::section(outcome)),
        (Place::Results, factors::combinations(outcome)),
        (Place::Results, results::section(outcome)),
        (Place::Results, imported::five_numbers(outcome)),
        (Place::Letters, boxes::section(outcome)),
        (Place::Answer, evidence::verdicts(outcome)),
        (Place::Answer, evidence::unfiltered(outcome)),
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
        (Place::Basis, path::section(outcome)),
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

/// Returns the title of the race: the title that its user gave, or the contenders that ran.
pub(super) fn title(outcome: &Outcome) -> String {
    outcome.title.clone().unwrap_or_else(|| entered(outcome))
}

/// Returns the contenders that ran: `tcp and udp`, `tcp, udp; icmp as the floor`.
pub(super) fn entered(outcome: &Outcome) -> String {
    if factors::vary(outcome) {
        let name = |name: &str| match load::is_key(name) {
            // "over load" would be read as overload.
            true => "loads beside the work".to_owned(),
            false => name.to_owned(),
        };
        let names: Vec<String> = outcome.factors.iter().map(|factor| name(&factor.name)).collect();
        let contenders: Vec<String> =
            (0..outcome.asked.contenders.len()).map(|row| outcome.contender(row)).collect();
        return format!("{} over {}", words::list(&contenders), words::list(&names));
    }
    let labels = |is_floor: bool| -> Vec<&str> {
        let own = outcome.contenders.iter().filter(|one| one.floor == is_floor);
        own.map(|contender| contender.label.as_str()).collect()
    };
    let (racing, floors) = (labels(false), labels(true));
    match (racing.as_slice(), floors.as_slice()) {
        (_, []) => words::list(&racing),
        ([], _) => words::list(&floors),
        // Another host may have answered: this is no floor of the path.
        _ if translated(outcome).is_some() => {
            format!("{}; {} beside them", racing.join(", "), words::list(&floors))
        }
        _ => format!("{}; {} as the floor", racing.join(", "), words::list(&floors)),
    }
}

/// Returns the label of the contender `id`; a damaged file may name a contender that it does not have.
pub(super) fn label(outcome: &Outcome, id: usize) -> String {
    entrant(outcome, id)
        .map_or_else(|| format!("contender {id}"), |contender| contender.label.clone())
}

/// Returns the contender `id`.
pub(super) fn entrant(outcome: &Outcome, id: usize) -> Option<&Entrant> {
    outcome.contenders.iter().find(|contender| contender.id == id)
}

/// Returns the number of blocks that have trials.
pub(super) fn blocks_done(outcome: &Outcome) -> u64 {
    let mut blocks: Vec<u64> = outcome.trials.iter().map(|trial| trial.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.len() as u64
}
