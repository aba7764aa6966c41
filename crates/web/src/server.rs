//! Connections of browsers, a thread for each within limits, and the trials that run.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::PageReports;
use crate::carrier::CarrierGround;
use crate::carriers::OpenCarriers;
use crate::channel::{Channel, Security, WaitFor};
use crate::names::HostNames;
use crate::races::{NextTrial, RaceTable};
use crate::results::ResultStore;
use crate::tickets::{TicketAccount, TicketBook};
use crate::work::TrialAccount as _;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::responder::{NoGrant, ResponderHost, TestGrant};

/// Longest time for which an answer beside trials waits for its turn.
const LONGEST_WAIT: Nanos = Nanos::from_secs(5);

/// Address of the page, the names by which it is asked for, and the reports on its races.
pub(crate) struct PageGround {
    pub at: SocketAddr,
    pub names: HostNames,
    pub reports: PageReports,
}

/// Server of the page.
pub(crate) struct WebServer<'h> {
    host: &'h dyn ResponderHost,
    pub security: Security,
    pub names: HostNames,
    pub reports: PageReports,
    pub tickets: Arc<TicketBook>,
    pub carriers: OpenCarriers,
    pub races: RaceTable,
    pub store: ResultStore,
    running: Mutex<Vec<RunningTrial<'h>>>,
}

/// Trial that has its turn.
struct RunningTrial<'h> {
    ticket: String,
    title: String,
    account: Arc<TicketAccount>,
    grant: Box<dyn TestGrant + 'h>,
    since: Nanos,
    has_begun: bool,
}

impl<'h> WebServer<'h> {
    /// Creates the server of an address, with the certificate that its operator gave.
    pub(crate) fn new(
        host: &'h dyn ResponderHost,
        store: ResultStore,
        security: Security,
        page: PageGround,
    ) -> WebServer<'h> {
        let tickets = Arc::new(TicketBook::default());
        let own: Arc<TicketBook> = Arc::clone(&tickets);
        let ground = CarrierGround { page: page.at, tickets: own, certificate: security.pair() };
        let carriers = OpenCarriers::open(&ground);
        WebServer {
            host,
            security,
            names: page.names,
            reports: page.reports,
            tickets,
            carriers,
            races: RaceTable::default(),
            store,
            running: Mutex::default(),
        }
    }

    /// Returns the server that it runs in.
    pub(crate) fn host(&self) -> &'h dyn ResponderHost {
        self.host
    }

    /// Returns true if the page comes over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        matches!(self.security, Security::Tls { .. })
    }

    /// Charges bytes beside trials to a browser, and waits as long as it must.
    ///
    /// # Errors
    /// A sentence, if it may not have them soon.
    pub(crate) fn beside(
        &self,
        channel: &Channel<'_>,
        bytes: [usize; 2],
    ) -> std::result::Result<(), &'static str> {
        let patience = Monotonic.now() + LONGEST_WAIT;
        loop {
            let charged = self.host.beside(channel.peer.ip(), bytes.map(|len| len as u64));
            let Err(wait) = charged else { return Ok(()) };
            let wait = wait.ok_or("the operator's allowance of bytes is used up")?;
            let until = Monotonic.now() + wait;
            if until > patience || channel.wait(WaitFor::Time, Some(until)).is_err() {
                return Err("too many bytes in a short time; try again");
            }
        }
    }

    /// Takes the turn of a trial for a browser, and returns its ticket.
    ///
    /// # Errors
    /// The reason why there is no turn now.
    pub(crate) fn begin(
        &self,
        peer: SocketAddr,
        next: NextTrial,
    ) -> std::result::Result<String, NoGrant> {
        let grant = self.host.begin(peer)?;
        let mut limits = grant.limits();
        limits.duration = limits.duration.min(next.span);
        let issued = self.tickets.issue(next.work, limits);
        let (ticket, account) = issued.map_err(|e| NoGrant::Refused(format!("no ticket: {e}")))?;
        let (own, title, since) = (ticket.clone(), next.title, Monotonic.now());
        let trial = RunningTrial { ticket: own, title, account, grant, since, has_begun: false };
        lock(&self.running).push(trial);
        Ok(ticket)
    }

    /// Ends the trial of a ticket, and gives its turn back.
    pub(crate) fn end(&self, ticket: &str, why: Option<&str>) {
        self.tickets.end(ticket);
        let mut running = lock(&self.running);
        let place = running.iter().position(|trial| trial.ticket == ticket);
        let trial = place.map(|place| running.swap_remove(place));
        drop(running);
        if let Some(mut trial) = trial {
            trial.note_begin();
            if let Some(why) = why {
                trial.grant.fail(why);
            }
            trial.grant.charge(Monotonic.now(), trial.account.bytes());
        }
    }

    /// Notes trials that have begun, and ends those whose time is over.
    pub(crate) fn look_at_trials(&self) {
        let now = Monotonic.now();
        let mut over = Vec::new();
        for trial in lock(&self.running).iter_mut() {
            trial.note_begin();
            if now > trial.account.ends() {
                over.push((trial.ticket.clone(), "its time is over"));
            } else if !trial.has_begun && now > trial.since + trial.grant.limits().begin {
                over.push((trial.ticket.clone(), "it did not begin in time"));
            }
        }
        for (ticket, why) in over {
            self.end(&ticket, Some(why));
        }
        self.races.forget_old(now);
    }
}

impl RunningTrial<'_> {
    fn note_begin(&mut self) {
        if !self.has_begun && self.account.has_begun() {
            self.has_begun = true;
            self.grant.begun(&self.title);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
