//! A matrix: every contender beside every other one at one bottleneck. It is a race of bulk data whose only condition is
//! the load, and whose loads are its contenders:
//!
//! ```text
//! deadheat race A B -w bulk:load-lead=0s --vary 'load=none|A|B' --path rate=50mbit,delay=10ms,queue=2bdp
//!
//! load   none    A           B
//! A      alone   A beside A  A beside B ◄──┐
//! B      alone   B beside A ◄──────────────┘  B beside B
//! ```
//! A verdict is about the goodput of A beside B against that of B beside A: each of both is the measured one in turn, so
//! that the roles cancel out. The other cells have no verdict: they have what a contender gets alone, from which the harm
//! to it follows, and beside itself.

use deadheat_base::spec::Spec;
use deadheat_contract::workload::Task;
use deadheat_contract::workload::load::{self, Observed};
use deadheat_datapath::transport::Contender;
use deadheat_result::outcome::Factor;

/// Rows of the contenders of a matrix, by the level of its load; `None` for the level without a load.
pub(super) struct MatrixLoads(Vec<Option<usize>>);

impl MatrixLoads {
    /// Returns the loads of a matrix; `None` for another race.
    pub(super) fn of(
        factors: &[Factor],
        contenders: &[Contender],
        task: &dyn Task,
    ) -> Option<MatrixLoads> {
        let [factor] = factors else { return None };
        let is_bulk = matches!(task.info().observed, Some(Observed::Bytes(_)));
        if !load::is_key(&factor.name) || !is_bulk || contenders.len() < 2 {
            return None;
        }
        let row = |level: &String| match load::beside(level) {
            None => Some(None),
            Some(typed) => {
                let spec = Spec::parse(&typed).ok()?;
                contenders.iter().position(|one| one.spec == spec).map(Some)
            }
        };
        let rows: Vec<Option<usize>> = factor.levels.iter().map(row).collect::<Option<_>>()?;
        let each_once = |row| rows.iter().filter(|other| **other == Some(row)).count() == 1;
        (0..contenders.len()).all(each_once).then_some(MatrixLoads(rows))
    }

    /// Returns the ids of the cells that the cell of the contender in `row` under `level` competes with. Ids count the
    /// contenders of a level, then the levels.
    pub(super) fn rivals(&self, row: usize, level: usize) -> Vec<usize> {
        let MatrixLoads(rows) = self;
        let Some(load) = rows.get(level).copied().flatten().filter(|load| *load != row) else {
            return Vec::new();
        };
        let contenders = rows.iter().flatten().count();
        let mirrored = rows.iter().position(|other| *other == Some(row));
        mirrored.map(|level| level * contenders + load).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::race::Race;

    const PATH: &str = "sim:rate=20mbit,delay=10ms";

    #[test]
    fn each_pair_of_a_matrix_competes_once_each_way() {
        let race = |levels: &[&str], work: &str| {
            let race = Race::new(["quic", "arq", "kcp"]).workload(work).path(PATH);
            race.vary("load", levels.iter().copied()).check().unwrap().entrants
        };
        let matrix = race(&["none", "quic", "arq", "kcp"], "bulk");
        let rivals = |id: usize| matrix[id].cell.as_ref().unwrap().rivals.clone();
        assert_eq!(matrix[5].label, "kcp · load=quic");
        assert_eq!((rivals(5), rivals(9)), (Some(vec![9]), Some(vec![5])));
        assert_eq!(
            (rivals(0), rivals(3)),
            (Some(vec![]), Some(vec![])),
            "alone, and beside itself"
        );
        let pairs = matrix.iter().flat_map(|a| matrix.iter().map(move |b| (a, b)));
        assert_eq!(pairs.filter(|(a, b)| a.id < b.id && a.competes_with(b)).count(), 3);
        for (levels, work) in [
            (&["none", "quic", "arq"][..], "bulk"),
            (&["none", "quic", "arq", "kcp"], "ping"),
            (&["none", "quic", "arq", "enet"], "bulk"),
        ] {
            let other = race(levels, work);
            assert!(other.iter().all(|one| one.cell.as_ref().unwrap().rivals.is_none()));
        }
    }
}
