//! Trials of a session in which the server command of a pair that the operator allows stands in place of a far end.

use std::sync::Arc;

use super::ending::RanTrial;
use super::{ClientSession, SessionEnd};
use crate::admit::Demand;
use crate::ended_trial::numbered;
use crate::grants::{FarEndSize, Grant};
use crate::relay::{FrameRelay, TrialEnd};
use crate::running::AgentSetting;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic};
use deadheat_trial::between::commands::{ServedCommand, ServedTerms, until_ready};
use deadheat_trial::control::FromServer;
use deadheat_trial::control::pairs::CommandAsk;

/// Largest number of requests for pairs in a session. A race needs one for each of its contenders, and one more each time that
/// it connects anew.
const MOST_LISTS: u32 = 256;

impl ClientSession<'_> {
    /// Sends the client the pairs of a name that the operator allows.
    pub(super) fn list_pairs(&mut self, name: &str) -> std::result::Result<(), SessionEnd> {
        self.listed += 1;
        if self.listed > MOST_LISTS {
            let what = format!("you asked more than {MOST_LISTS} times which commands it runs");
            return Err(self.close(&Error::peer("server", what)));
        }
        match self.shared.pairs.list(name) {
            Ok(list) => self.send(&FromServer::Pairs(Box::new(list))),
            Err(why) => self.refuse_trial("pairs of commands", &why),
        }
    }

    /// Runs a trial of a server command that a client asks for, in its turn.
    pub(super) fn open_command(&mut self, ask: &CommandAsk) -> std::result::Result<(), SessionEnd> {
        let title = ask.title();
        let size = match self.admit_command(ask) {
            Ok((_, size)) => size,
            Err(why) => return self.refuse_trial(&title, &why),
        };
        let number = self.shared.next_trial();
        let Some(turn) = self.queue(&format!("trial {number} {title}"))? else {
            return Ok(());
        };
        match self.grant(number, turn, size) {
            Ok(grant) => self.run_command(&title, ask, grant),
            Err(why) => self.refuse_trial(&title, &Error::peer("server", why)),
        }
    }

    /// Checks a request against the operator's files and limits; returns the command to run, and its size for the grant.
    fn admit_command(&self, ask: &CommandAsk) -> Result<(ServedCommand, FarEndSize)> {
        let shared = self.shared;
        let (limits, pair) = (&shared.config.limits, shared.pairs.asked(ask)?);
        let demand = Demand::of_command(ask.bytes, ask.time_ns);
        demand.check(limits, &shared.facts.cpus)?;
        let terms = ServedTerms { at: self.here.ip().to_canonical(), largest_file: limits.bytes };
        let command = ServedCommand::new(&pair, ask, terms)?;
        let (span, until_ready) = (pair.timeout.min(limits.duration_ns), until_ready(&pair));
        Ok((command, FarEndSize { demand, span, place: None, until_ready }))
    }

    fn run_command(
        &mut self,
        title: &str,
        ask: &CommandAsk,
        grant: Arc<Grant>,
    ) -> std::result::Result<(), SessionEnd> {
        let (began, title) = (Monotonic.now(), &numbered(title, &grant, None));
        let config = &self.shared.config;
        let ports = config.pairs.ports(config.limits.concurrent, grant.place(), grant.number);
        let setting = AgentSetting { shared: self.shared, stop: self.stop, grant: &grant };
        // The files may have changed while the trial was queued.
        let started =
            self.admit_command(ask).and_then(|(command, _)| setting.command(&command.among(ports)));
        let mut running = match started {
            Ok(running) => running,
            Err(why) => return self.refuse_trial(title, &why),
        };
        self.log(&format!("{title} started"));
        let end = match running.line.take() {
            Some(keeper) => FrameRelay { has_own_port: true, ..self.relay(keeper, &grant) }.run(),
            None => TrialEnd::Astray("it has no control line".into()),
        };
        let ran = RanTrial { title, began, grant, dropped: 0, is_counted: false };
        self.end(ran, running, end)
    }
}
