//! Contender of a race as it is made and read: with nothing found out yet, running or dropped out.

use super::dropped::DropReason;
use super::outcome::{Cell, Entrant};
use deadheat_base::error::Result;
use deadheat_contract::recorded::{self, RecordedContender};

impl Entrant {
    /// Creates an entrant that takes part, under no conditions of its own, and of which nothing is read back yet. Its transport is
    /// the name in `spec`.
    pub fn new(id: usize, label: impl Into<String>, spec: impl Into<String>) -> Entrant {
        let spec = spec.into();
        Entrant {
            id,
            label: label.into(),
            transport: spec.split(':').next().unwrap_or_default().to_owned(),
            spec,
            ..Entrant::default()
        }
    }

    /// Creates the entrant of a contender, as [`Entrant::new`] does, with the facts of its transport.
    pub fn of(id: usize, label: impl Into<String>, contender: &RecordedContender) -> Entrant {
        Entrant {
            transport: contender.id.to_owned(),
            colour: contender.colour.to_owned(),
            implementation: contender.named.clone(),
            protocol: contender.protocol.map(str::to_owned),
            asked: contender.asked.clone(),
            ..Entrant::new(id, label, contender.spec.to_string())
        }
    }

    /// Reads its contender, with the knobs that the result recorded.
    ///
    /// # Errors
    /// As [`recorded::contender`]; imported results have contenders that this program does not have.
    pub fn recorded(&self) -> Result<RecordedContender> {
        recorded::contender(&self.spec, &self.asked)
    }

    /// Returns the name by which it is found in another race: of what ran, and not of a label.
    pub fn identity(&self) -> &str {
        self.unlabelled.as_deref().unwrap_or(&self.label)
    }

    /// Returns true if it runs: its packets arrive, and its conditions are possible here.
    pub fn is_racing(&self) -> bool {
        self.out().is_none() && self.infeasible().is_none()
    }

    /// Returns the reason why it does not run under any condition, as a word and in full.
    pub fn out(&self) -> Option<(&'static str, &str)> {
        let ways = [
            ("blocked", &self.blocked),
            ("limited", &self.limited),
            ("overload", &self.overload),
            ("failed", &self.failed),
            ("not applicable", &self.not_applicable),
        ];
        ways.into_iter().find_map(|(word, why)| Some((word, why.as_deref()?)))
    }

    /// Returns the reason for which it dropped out, if it did.
    pub fn dropped(&self) -> Option<DropReason> {
        let blocked = self.blocked.clone().map(DropReason::Blocked);
        let limited = || self.limited.clone().map(DropReason::Limited);
        let overload = || self.overload.clone().map(DropReason::Overload);
        let failed = || self.failed.clone().map(DropReason::Failed);
        blocked.or_else(limited).or_else(overload).or_else(failed)
    }

    /// Marks it as dropped out.
    pub fn drop_out(&mut self, dropped: DropReason) {
        match dropped {
            DropReason::Blocked(evidence) => self.blocked = Some(evidence),
            DropReason::Limited(what) => self.limited = Some(what),
            DropReason::Overload(evidence) => self.overload = Some(evidence),
            DropReason::Failed(evidence) => self.failed = Some(evidence),
        }
    }

    /// Returns true if there is a claim about it and another: both compete, under the same conditions.
    pub fn competes_with(&self, other: &Entrant) -> bool {
        !self.floor && !other.floor && self.meets(other)
    }

    /// Returns the reason why its conditions are not possible here, or `None` if they are.
    pub fn infeasible(&self) -> Option<&str> {
        self.cell.as_ref()?.infeasible.as_deref()
    }

    /// Returns true if it ran under the same conditions as another, so that the two can be compared; in a matrix, if each
    /// of both was the load of the other.
    pub fn meets(&self, other: &Entrant) -> bool {
        match (&self.cell, &other.cell) {
            (Some(Cell { rivals: Some(rivals), .. }), Some(_)) => rivals.contains(&other.id),
            (Some(cell), Some(other)) => cell.levels == other.levels,
            (cell, other) => cell.is_none() && other.is_none(),
        }
    }
}
