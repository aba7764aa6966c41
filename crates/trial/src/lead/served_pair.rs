//! Pairs of commands whose server command runs at a server: what it offers, before the first trial, and the request for each
//! trial.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::cast::Group;
use super::exchange::{answer, say, who};
use super::far::Far;
use super::link::Link;
use super::served::ServedCast;
use crate::control::pairs::{CommandAsk, PairOffer};
use crate::control::remote::RemoteServer;
use crate::control::{FromServer, ToAgent};
use deadheat_base::error::{Error, Result};
use deadheat_base::foreign::short;
use deadheat_datapath::transport::Address;
use deadheat_datapath::transport::commands::{CommandPair, PairTerms};

/// Offers of the race's server, by the terms of a pair. A race keeps to its first offer, so that a server that starts anew with other
/// programs refuses its trials.
#[derive(Debug, Default)]
pub(super) struct ServedPairs(Vec<(PairTerms, PairOffer)>);

impl ServedPairs {
    /// Returns the server's offer for a pair; asks for it the first time.
    ///
    /// # Errors
    /// As of [`crate::control::pairs::PairList::offer_for`]; fails if the server does not answer.
    pub(super) fn offer(
        &mut self,
        far: &Far,
        pair: &Arc<CommandPair>,
        stop: &AtomicBool,
    ) -> Result<&PairOffer> {
        let terms = PairTerms::of(pair);
        if let Some(at) = self.0.iter().position(|(known, _)| *known == terms) {
            return Ok(&self.0[at].1);
        }
        let server =
            far.first_server().ok_or_else(|| Error::usage("a command without a server"))?;
        let offer = ask(server, pair, stop)?;
        self.0.push((terms, offer));
        Ok(&self.0[self.0.len() - 1].1)
    }

    /// Returns the link to the server that runs the server command of a group, and the request for it.
    ///
    /// # Errors
    /// As of [`ServedPairs::offer`] and [`ServedCast::next`].
    pub(super) fn open(
        &mut self,
        group: &Group,
        served: &mut ServedCast,
        far: &mut Far,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Link, ToAgent)> {
        let typed = group.order.contender();
        let commands = group.contender.commands.as_ref();
        let commands =
            commands.ok_or_else(|| Error::usage(format!("`{typed}` has no commands")))?;
        let offer = self.offer(far, &commands.pair, stop)?;
        let (work, seed) = (&group.task.info().programs, group.order.seed);
        let ask = CommandAsk::new(offer, work, seed, commands.set);
        let (link, _) = served.next(group, 0, far, stop)?;
        Ok((link, ToAgent::Command(Box::new(ask))))
    }
}

/// Returns the address of a command that listens at a server, as this host reaches it; behind a NAT the server knows
/// another one.
pub(super) fn reached_at(server: Option<SocketAddr>, listens: Address) -> Address {
    match (server, listens) {
        (Some(mut at), Address::Ip(own)) => {
            at.set_port(own.port());
            Address::Ip(at)
        }
        (_, listens) => listens,
    }
}

fn ask(server: &RemoteServer, pair: &CommandPair, stop: &AtomicBool) -> Result<PairOffer> {
    let who = who(server);
    if !server.spoken.commands {
        let what = format!(
            "it is deadheat {}, which runs no commands; update it: this is deadheat {}",
            short(&server.spoken.version),
            env!("CARGO_PKG_VERSION")
        );
        return Err(Error::peer(who, what));
    }
    if let SocketAddr::V6(at) = server.address
        && at.scope_id() != 0
    {
        let what = "a command is given an address, and not the interface that a link-local one needs; reach the server at another";
        return Err(Error::usage(format!("{}: {what}", server.address)));
    }
    say(server, &ToAgent::Pairs { name: pair.name.clone() }, "its commands")?;
    // An answer that is still to come would be taken for one to the next trial.
    let answered = answer(server, stop).inspect_err(|_| server.control.lose());
    match answered? {
        FromServer::Pairs(list) => list.offer_for(pair, &who),
        FromServer::Refused(fault) => Err(Error::peer(who, format!("it refused: {fault}"))),
        FromServer::Stopped(fault) => Err(super::link::stopped(&who, &fault)),
        _ => Err(Error::peer(who, "it did not say which commands it runs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_reached_at_the_address_of_control_and_its_own_port() {
        let at = |text: &str| Address::Ip(text.parse().unwrap());
        let server = Some("203.0.113.9:5210".parse().unwrap());
        assert_eq!(reached_at(server, at("10.0.0.5:5300")), at("203.0.113.9:5300"));
        assert_eq!(reached_at(None, at("10.0.0.5:5300")), at("10.0.0.5:5300"));
    }
}
