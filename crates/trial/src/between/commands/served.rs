//! Server command of a pair that an operator allows: the plan of its keeper, for one trial of a client.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::{CommandOrder, NodePlan};
use crate::control::pairs::CommandAsk;
use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::commands::CommandPair;

/// Terms of a server for one trial of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedTerms {
    /// Address of the server as the client reaches it.
    pub at: IpAddr,
    /// Largest file that the command may write, in bytes.
    pub largest_file: u64,
}

/// Server command of a pair that an operator allows, for one trial of a client: the plan of its keeper.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ServedCommand {
    plan: NodePlan,
}

impl ServedCommand {
    /// Creates the command of `pair` for a trial.
    ///
    /// # Errors
    /// [`Error::Usage`] if the pair cannot do the work.
    pub fn new(pair: &CommandPair, ask: &CommandAsk, terms: ServedTerms) -> Result<ServedCommand> {
        let work = ask.work(pair)?;
        // The client command is not of this host, so the values that it lacks are no concern of its.
        let given = [("bytes", ask.bytes.is_some()), ("seconds", ask.time_ns.is_some())];
        let lacks = given.iter().find(|(place, is_given)| !is_given && pair.server.names(place));
        if let Some((place, _)) = lacks {
            return Err(Error::usage(format!(
                "the server command of {} has {{{place}}} in it, and the work gives no {place}",
                pair.name
            )));
        }
        let server = SocketAddr::new(terms.at, 0);
        let order = CommandOrder { pair, work: &work, server, seed: ask.seed };
        let largest_file = Some(terms.largest_file);
        Ok(ServedCommand { plan: NodePlan { largest_file, ..order.plan(Side::Far) } })
    }

    /// Lets it listen at the first of these ports that is free; at any free port if there are none.
    #[must_use]
    pub fn among(mut self, ports: Vec<u16>) -> ServedCommand {
        self.plan.ports = ports;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::pairs::tests::{offer, pair};
    use deadheat_contract::workload::ProgramWork;
    use deadheat_datapath::transport::commands::{CommandValues, CopySet};

    #[test]
    fn a_request_becomes_the_plan_of_the_operators_own_command() {
        let here = pair("");
        let work = ProgramWork::Transfer { bytes: 5, direction: here.direction };
        let ask = CommandAsk::new(&offer(&here), &work, 9, CopySet::Control);
        assert_eq!(ask.title(), "command pair 5 B");
        let terms = || ServedTerms { at: "::1".parse().unwrap(), largest_file: 8 };
        let plan = ServedCommand::new(&here, &ask, terms()).unwrap().among(vec![7]).plan;
        let values = [("bytes", "5"), ("seconds", ""), ("seed", "9")].into_iter();
        let values =
            values.fold(CommandValues::default(), |all, (name, value)| all.with(name, value));
        assert_eq!(plan.values, values.with("pair", here.folder.display()));
        assert_eq!((&plan.command, plan.bytes), (&here.server, Some(5)));
        assert_eq!((plan.ports.as_slice(), plan.largest_file), (&[7][..], Some(8)));
        assert!(plan.figures.is_empty() && plan.transfer.is_some());
        let none = CommandAsk { bytes: None, ..ask.clone() };
        assert!(ServedCommand::new(&here, &none, terms()).is_err());
        let figures = CommandAsk { is_transfer: false, ..ask };
        assert!(ServedCommand::new(&here, &figures, terms()).unwrap().plan.transfer.is_none());
    }
}
