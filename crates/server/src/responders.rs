//! Responders that the operator opens: sockets, a thread without privileges for each, and the limits that they are kept
//! within. A fault in one ends that responder, and is logged.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;

use super::Shared;
use super::config::ResponderSetup;
use super::stop::Stop;
use super::test_turn::{TestTurn, busy};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::responder::{
    NoGrant, OpenResponder, ResponderHost, ResponderInfo, ResponderLoad, TestGrant, TestLimits,
};
use deadheat_trial::agent::confine::confine;
use deadheat_trial::control::Secret;

/// Open responders of a server.
pub(super) struct OpenResponders {
    /// Responders until they are served.
    open: Mutex<Vec<Box<dyn OpenResponder>>>,
    tallies: Vec<ResponderTally>,
    /// Ports of the server and of all of them.
    own_ports: Vec<u16>,
}

/// Clients of one responder.
struct ResponderTally {
    info: &'static ResponderInfo,
    at: SocketAddr,
    is_keyed: bool,
    /// Facts for clients beside the address, as the end of a sentence.
    more: Option<String>,
    clients: AtomicU64,
}

impl OpenResponders {
    /// Opens responders at the address of the server.
    ///
    /// # Errors
    /// The failed operation with its address.
    pub(super) fn open(setups: &[ResponderSetup], server: SocketAddr) -> Result<OpenResponders> {
        let (mut open, mut tallies) = (Vec::new(), Vec::new());
        for ResponderSetup { responder, port, key } in setups {
            let key = key.as_ref().map(Secret::text);
            let opened =
                responder.open(SocketAddr::new(server.ip(), *port), key.map(str::as_bytes))?;
            let (info, at) = (responder.info(), opened.local_addr());
            let clients = AtomicU64::new(0);
            let (is_keyed, more) = (key.is_some(), opened.more());
            tallies.push(ResponderTally { info, at, is_keyed, more, clients });
            open.push(opened);
        }
        let ports = tallies.iter().map(|tally: &ResponderTally| tally.at.port());
        let own_ports = ports.chain([server.port()]).collect();
        Ok(OpenResponders { open: Mutex::new(open), tallies, own_ports })
    }

    /// Returns a sentence on each: its clients, its port, and its answers.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> {
        self.tallies.iter().map(|tally| {
            let ResponderTally { info, at, is_keyed, more, .. } = tally;
            let more = more.as_ref().map_or_else(String::new, |more| format!("; {more}"));
            let answers = info.answers.iter();
            let turn = answers.clone().any(|one| one.load == ResponderLoad::Turn);
            let over: Vec<&str> = answers.map(|one| one.over).collect();
            format!(
                "{} are answered at {at}, {}{}{}{more}",
                info.clients,
                over.join(" and "),
                if turn {
                    ": each test takes the turn of a trial"
                } else {
                    ": beside trials, at a trickle"
                },
                if *is_keyed { "; only those with the key" } else { "" },
            )
        })
    }

    /// Returns the number of clients of each, in words; empty if there are no responders.
    pub(super) fn summary(&self) -> String {
        let of = |tally: &ResponderTally| {
            format!("{} {}", tally.clients.load(Ordering::Relaxed), tally.info.clients)
        };
        self.tallies.iter().map(of).collect::<Vec<_>>().join(", ")
    }

    /// Returns the address of each, by name.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        self.tallies.iter().map(|tally| (tally.info.id, tally.at))
    }

    /// Starts a thread for each, which answers until `stop`.
    ///
    /// # Errors
    /// If the host refuses a thread.
    pub(super) fn serve<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        shared: &'scope Shared,
        stop: &'scope Stop,
    ) -> Result<()> {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for (open, tally) in open.into_iter().zip(&self.tallies) {
            let host = Host { shared, stop, tally, own_ports: &self.own_ports };
            std::thread::Builder::new()
                .name(tally.info.id.into())
                .spawn_scoped(scope, move || host.run(open))
                .map_err(|e| Error::setup("start a thread for a responder", e))?;
        }
        Ok(())
    }
}

/// Server, as one responder sees it.
struct Host<'a> {
    shared: &'a Shared,
    stop: &'a Stop,
    tally: &'a ResponderTally,
    /// Ports of the server and of all responders.
    own_ports: &'a [u16],
}

impl Host<'_> {
    /// Gives up privileges and answers until the end; a panic must end neither trials nor other responders.
    fn run(&self, mut open: Box<dyn OpenResponder>) {
        let id = self.tally.info.id;
        let line = |what: &str| self.shared.scribe.line(None, what);
        match confine() {
            Ok(true) => {}
            Ok(false) => line(&format!(
                "{id}: this kernel has no Landlock: files that the server may read are in its reach"
            )),
            Err(e) => return line(&format!("{id}: it does not run with privileges: {e}")),
        }
        let ran = catch_unwind(AssertUnwindSafe(|| open.serve(self, self.stop.as_fd())));
        match ran {
            Ok(Ok(())) => {}
            Ok(Err(e)) => line(&format!("{id} clients are answered no more: {e}")),
            Err(_) => line(&format!(
                "{id} clients are answered no more: a fault in deadheat; please report it"
            )),
        }
    }
}

impl ResponderHost for Host<'_> {
    fn limits(&self) -> TestLimits {
        let limits = self.shared.config.limits;
        TestLimits {
            duration: limits.duration_ns,
            bytes: limits.bytes,
            rate: limits.rate_bps,
            begin: self.shared.config.patience.grace,
        }
    }

    fn beside(&self, peer: IpAddr, bytes: [u64; 2]) -> std::result::Result<(), Option<Nanos>> {
        self.shared.beside.charge(peer, bytes)
    }

    fn greet(&self, peer: SocketAddr, what: &str) {
        self.tally.clients.fetch_add(1, Ordering::Relaxed);
        self.note(peer, what);
    }

    fn note(&self, peer: SocketAddr, what: &str) {
        self.shared.scribe.stranger_now(peer, &format!("{}: {what}", self.tally.info.id));
    }

    fn is_own_port(&self, port: u16) -> bool {
        self.own_ports.contains(&port)
    }

    fn knock(&self, peer: SocketAddr) -> NoGrant {
        let now = Monotonic.now();
        self.shared.queue.knock(peer.ip(), now);
        busy(self.shared, now)
    }

    fn begin(&self, peer: SocketAddr) -> std::result::Result<Box<dyn TestGrant + '_>, NoGrant> {
        TestTurn::take(self.shared, self.stop, self.tally.info.id, peer)
            .map(|turn| Box::new(turn) as _)
    }
}
