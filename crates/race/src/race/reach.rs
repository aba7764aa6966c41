//! Checks that a contender reaches the far end, and that connections opened at once do not wait for each other.

use deadheat_base::error::{Error, Result};
use deadheat_base::figures::list;
use deadheat_contract::contract::Reach;
use deadheat_contract::workload::Task;
use deadheat_datapath::transport::{ALL, Contender};

/// Returns the reason why connections of the work that come at the same time would wait for each other on a real path;
/// `None` if they do not. Their response times would then be of the far end's turns.
pub(super) fn waits_for_turn(contender: &Contender, task: &dyn Task) -> Option<String> {
    let info = contender.transport.info();
    let comes_at_once = task.info().reconnects() && task.info().flows.len() > 1;
    (comes_at_once && !info.opens_at_once).then(|| {
        let able = ALL.iter().map(|one| one.info()).filter(|info| info.opens_at_once);
        let able: Vec<&str> = able.map(|info| info.id).collect();
        format!(
            "`{}`: {} opens one connection after the other at its far end, and several come at once in `{}`: they would \
             wait for each other; {} open them at once, and in virtual time (`sim:`) every contender does",
            contender.spec,
            info.label,
            task.info().spec.name,
            list(&able)
        )
    })
}

/// Checks that a contender can reach the far end: on this host, or on the other host that `elsewhere` names, real
/// or emulated.
pub(super) fn reaches(contender: &Contender, elsewhere: Option<&str>) -> Result<()> {
    let (typed, info) = (&contender.spec, contender.transport.info());
    match (elsewhere, info.reach) {
        (_, Reach::Network | Reach::OwnPort | Reach::Path) | (None, Reach::Machine) => Ok(()),
        (Some(_), Reach::Process) => Ok(()),
        (Some(host), Reach::Machine) => Err(Error::usage(format!(
            "`{typed}` does not leave its host and cannot reach {host}; race it on loopback, \
             without --to and --path"
        ))),
        (None, Reach::Process) => Ok(()),
    }
}
