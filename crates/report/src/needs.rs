//! Needs of each contender beside CPU time: bytes on the wire around its data, memory, and allocations.

use super::document::{Block, Cell, Column, Section, Table};
use super::results::{names, rows};
use super::totals::{Cost, Work};
use super::words;
use deadheat_base::units::Bytes;
use deadheat_contract::measurements;
use deadheat_records::trial::Record;
use deadheat_result::analysis::spread::valid_trials;
use deadheat_result::outcome::Outcome;

/// Returns the section; `None` if no need of any contender is known.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let rows = rows(outcome);
    let costs: Vec<Option<Cost>> = rows.iter().map(|id| Cost::of(outcome, *id)).collect();
    let mut columns = vec![overhead(&costs), memory(outcome, &rows), allocations(&costs)];
    columns.retain(Column::has_content);
    if columns.is_empty() {
        return None;
    }
    columns.insert(0, names(outcome, &rows));
    let legend = "Overhead: bytes that both ends sent as IP packets, acknowledgements, repeats and handshakes included, less \
                  the application's that arrived. Memory: the most that an end's process had, the program and the samples \
                  in it; the median over trials. Allocations: calls of the threads that run flows.";
    let table = Table { columns, legend: legend.to_owned() };
    Section::new("Wire and memory", vec![Block::Table(table)])
}

/// Returns the bytes on the wire for each message, or for each thousand bytes of a byte stream, beside the data.
fn overhead(costs: &[Option<Cost>]) -> Column {
    let cell = |cost: &Option<Cost>| {
        let around = cost.as_ref().and_then(|cost| Some((cost.overhead_bytes?, cost.work)));
        around.map_or_else(Cell::default, |(bytes, work)| {
            let per = match work {
                Work::Message => "B/message",
                Work::Gigabyte => "B/kB",
            };
            Cell::number(words::significant(bytes / scale(work, 1e6)), per)
        })
    };
    Column::new("overhead", costs.iter().map(cell).collect())
}

/// Returns the divisor of an amount for a unit of work: 1 for a message, and for 10⁹ bytes the units in them.
fn scale(work: Work, units_per_gb: f64) -> f64 {
    match work {
        Work::Message => 1.0,
        Work::Gigabyte => units_per_gb,
    }
}

fn memory(outcome: &Outcome, rows: &[usize]) -> Column {
    let peak = |id: usize, of: fn(&Record) -> Option<&measurements::Cost>| {
        let known = valid_trials(outcome, id)
            .filter_map(|trial| of(&trial.record).and_then(|cost| cost.peak_memory_bytes));
        let mut known: Vec<u64> = known.collect();
        known.sort_unstable();
        known.get(known.len() / 2).map(|bytes| Bytes(*bytes).to_string())
    };
    let cell = |id: &usize| match peak(*id, |record| Some(&record.cost)) {
        None => Cell::default(),
        Some(near) => {
            let far = peak(*id, |record| record.far_cost.as_ref());
            Cell::number(near, format!("+ {}", far.unwrap_or_else(|| "kernel".to_owned())))
        }
    };
    Column::new("memory, near + far", rows.iter().map(cell).collect())
}

/// Returns the allocations of both ends for each message, or for each MB.
fn allocations(costs: &[Option<Cost>]) -> Column {
    let cell = |cost: &Option<Cost>| {
        let known = cost.as_ref().and_then(|cost| Some((cost.allocations?, cost.work)));
        known.map_or_else(Cell::default, |((near, far), work)| {
            let show = |calls: f64| words::significant(calls / scale(work, 1e3));
            let per = match work {
                Work::Message => "message",
                Work::Gigabyte => "MB",
            };
            let far = far.map_or_else(|| "kernel".to_owned(), show);
            Cell::number(show(near), format!("+ {far} a {per}"))
        })
    };
    Column::new("allocations, near + far", costs.iter().map(cell).collect())
}
