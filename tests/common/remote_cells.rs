//! Cells of the table workload × contender with `--to`, as the program judges them without running anything.

#![allow(clippy::unwrap_used, reason = "a fixture that fails is a failed test")]

use deadheat::Error;
use deadheat::contract::Reach;
use deadheat::race::{DEFAULT_BLAST, Race};
use deadheat::transport::{self, Contender};
use deadheat::workload::{self, Setting, SharedTask};

/// Works of the table beside the default of each workload: each takes something else of the far end.
const FURTHER_WORKS: &[&str] = &["ping:load=tcp", "rpc:connect=each", "streams:over=connections"];

/// Contenders of the table beside each transport.
const FURTHER_CONTENDERS: &[&str] = &["udp|tcp", "mix:events=tcp,state=udp"];

/// Returns the works of the table, as typed.
pub(crate) fn works() -> Vec<String> {
    let own = workload::ALL.iter().map(|workload| workload.info().id);
    own.chain(FURTHER_WORKS.iter().copied()).map(str::to_owned).collect()
}

/// Returns the contenders of the table, as typed: of all builds with `all-contenders` the same.
pub(crate) fn contenders() -> Vec<String> {
    let own = transport::ALL.iter().map(|transport| transport.info().id);
    let own = own.filter(|id| !transport::optional::is_apart(id));
    own.chain(FURTHER_CONTENDERS.iter().copied()).map(str::to_owned).collect()
}

/// Cell of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RemoteCell {
    /// It runs.
    Runs,
    /// It runs where the server's operator opens the contender's port.
    RunsWithPort,
    /// It runs if a person allows it to flood the line.
    RunsWithBlast,
    /// It is refused, for this reason.
    Refused(String),
}

/// Returns the cell of a contender and a work.
pub(crate) fn cell(contender: &str, work: &str) -> RemoteCell {
    if let Some(why) = misfit(contender, work) {
        return RemoteCell::Refused(why);
    }
    cell_at("host.example", contender, work)
}

/// Returns the cell of a contender and a work at a far end, as typed after `--to`.
pub(crate) fn cell_at(to: &str, contender: &str, work: &str) -> RemoteCell {
    let race = || Race::new([contender]).workload(work).to(to);
    match race().check() {
        Err(_) if race().blast(DEFAULT_BLAST).check().is_ok() => RemoteCell::RunsWithBlast,
        // A far end of others has its own port.
        Ok(_) if !to.contains("://") && reach(contender) == Some(Reach::OwnPort) => {
            RemoteCell::RunsWithPort
        }
        Ok(_) => RemoteCell::Runs,
        Err(Error::Usage(why)) => RemoteCell::Refused(why),
        Err(other) => RemoteCell::Refused(other.to_string()),
    }
}

fn reach(contender: &str) -> Option<Reach> {
    Contender::parse(contender).ok().map(|contender| contender.transport.info().reach)
}

/// Returns the reason why a contender cannot carry the work on any path.
fn misfit(contender: &str, work: &str) -> Option<String> {
    let task = SharedTask::parse_on(work, &Setting::REMOTE).ok()?;
    let contender = Contender::parse(contender).ok()?;
    match deadheat::trial::suited(contender, &*task) {
        Ok(contender) => deadheat::trial::misfit(&contender, &*task),
        Err(why) => Some(why.to_string()),
    }
}
