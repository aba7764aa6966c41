//! Names of a race and of its contenders.

use super::words;
use deadheat_contract::workload::load;
use deadheat_result::analysis::translated::translated;
use deadheat_result::outcome::{Entrant, Outcome};

/// Returns the title of the race: the title that its user gave, or the contenders that ran.
pub(super) fn title(outcome: &Outcome) -> String {
    outcome.title.clone().unwrap_or_else(|| entered(outcome))
}

/// Returns the contenders that ran: `tcp and udp`, `tcp, udp; icmp as the floor`.
pub(super) fn entered(outcome: &Outcome) -> String {
    if vary(outcome) {
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

/// Returns true if conditions were varied.
pub(super) fn vary(outcome: &Outcome) -> bool {
    !outcome.factors.is_empty()
}
