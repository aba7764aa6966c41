//! Far end as a service: `deadheat serve`. One port, TCP and UDP, an ordinary user, and one new process per trial, so
//! that a peer can harm at most one trial.
//!
//! ```text
//!   TCP, port 5210                                            UDP, port 5210
//!        |                                                         |
//!   pre_auth: reads the first bytes of each stranger          datagrams: hellos only, never a reply
//!        |                    |                                    |
//!        | let in             | hello, token known                 | hello, token known, address proved
//!        v                    v                                    v
//!   session: a thread     token_table: token -> trial ----------> HandOver ---> agent (a process)
//!     let in, admit, queue, relay  <------------------------------ control ----------^
//! ```
//! A stranger is a peer that is not yet authenticated.
//! - `pre_auth` costs a stranger no thread, and `let_in` (version, secret) no permit; `datagrams` never answers.
//! - `session` runs the trials of an admitted client, one after the other.
//! - `admit` checks a plan against the limits; `queue` assigns the turns; `relay` carries frames between client and
//!   agent until the trial ends in any way.
//! - `pairs` are the pairs of commands that the operator allows (`--command`): a keeper runs the server command of one in place
//!   of an agent, for the client's turn.
//! - `responders` answer the clients of other programs: `beside` limits what passes beside trials, and `test_turn` is a
//!   turn of such a client.
//! - `own_ports` is the same port number of other protocols, where the operator opens it (`--also`).
//! - `grants` holds the far ends of one trial together: one turn, one share, one deadline, and limits for their sum.
//! - `relay_to` bounds the hosts to which it relays for a client (`--relay-to`); it proves itself to them, and they to it.
//! - `paid` sums up the bytes of trials, and enforces the operator's allowance.
//! - `cpu_shares` gives trials that run at once CPUs of their own.
//! - `fit` compares the needed descriptors and tasks with the host's limits.
//! - `pulse` notices that a client vanished amid its trial.
//! - `probing` answers probes of the path, which an admitted client sends with a token of its own.
//! - `token_table` maps tokens to trials; `log` limits the lines that strangers can cause.
//! - [`AgentStarter`] separates the server from processes; tests start a thread instead.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;

use deadheat_base::error::Result;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::account::Account;
use deadheat_datapath::transport::handover::HandOver;
use deadheat_host::topology::Topology;
use deadheat_records::host::HostFacts;
use deadheat_trial::control::FromServer;
use deadheat_trial::control::stream::ControlStream;

#[cfg(test)]
use deadheat_everything as _;

mod admit;
mod beside;
mod config;
mod connection_limits;
mod cpu_shares;
mod datagrams;
mod echo;
mod ended_trial;
mod fit;
mod framed_stream;
mod grants;
mod let_in;
mod log;
mod own_ports;
mod paid;
mod pairs;
mod pre_auth;
mod probing;
pub mod processes;
mod pulse;
mod queue;
mod relay;
mod relay_to;
mod responders;
mod running;
mod session;
mod socket;
mod stop;
mod test_turn;
mod token_table;
mod wait;

pub use config::{
    Allowance, Bind, Config, DEFAULT_LIMITS, DEFAULT_PORT, Encryption, Patience, ResponderSetup,
    Room,
};
pub use deadheat_trial::control::Secret;
pub use deadheat_trial::control::key::ServerKey;
pub use log::{Backlog, Log};
pub use own_ports::{Also, parse_also};
pub use pairs::AllowedPairs;
pub use relay_to::RelayTo;
pub use stop::Stop;

use crate::connection_limits::{ConnectionLimits, Permit};
use crate::pre_auth::{Arrival, PreAuth};
use crate::token_table::TokenTable;
use beside::Beside;
use cpu_shares::CpuShares;
use fit::HostLimits;
use grants::Grants;
use log::Scribe;
use own_ports::OpenPorts;
use paid::ByteAccount;
use pairs::PairOffers;
use queue::Queue;
use responders::OpenResponders;
use socket::Sockets;

/// Running far end of one trial.
pub trait Agent: Send {
    /// Returns the control channel, which carries [`deadheat_trial::control::ToAgent`] and
    /// [`deadheat_trial::control::FromAgent`].
    fn control(&self) -> &UnixStream;

    /// Waits until it has ended by itself, at most `timeout`; returns true if it has.
    fn ended(&mut self, timeout: Nanos) -> bool;

    /// Lets it run on these CPUs alone, before it gets its plan.
    ///
    /// # Errors
    /// Fails if it has ended, or if this host does not allow the CPUs.
    fn hold_on(&mut self, cpus: &[usize]) -> Result<()>;

    /// Kills it and all its children, at once; a keeper ends its command first. Does nothing if it has ended already.
    fn kill(&mut self);

    /// Returns its last output on standard error, for crash messages.
    fn last_words(&mut self) -> Option<String>;
}

/// Starter of agents. It separates the server from processes.
pub trait AgentStarter: Send + Sync {
    /// Starts a far end that receives its connections from `door`, or without one listens by itself for a relay on this
    /// host, and adds the bytes of its packets to `account`.
    ///
    /// # Errors
    /// Fails with the failed operation on this host.
    fn start(&self, door: Option<HandOver>, account: &Account) -> Result<Box<dyn Agent>>;

    /// Starts the keeper of a server command in place of a far end. Its first message is the
    /// [`deadheat_trial::between::commands::ServedCommand`].
    ///
    /// # Errors
    /// Fails with the failed operation on this host.
    fn start_keeper(&self) -> Result<Box<dyn Agent>>;
}

/// Far end as a service, bound to its port and not yet running.
pub struct Server {
    shared: Shared,
    sockets: Sockets,
    own_ports: OpenPorts,
    responders: OpenResponders,
}

/// State that every session needs.
struct Shared {
    config: Config,
    facts: HostFacts,
    starter: Box<dyn AgentStarter>,
    scribe: Scribe,
    token_table: TokenTable,
    grants: Grants,
    queue: Arc<Queue>,
    connections: Arc<ConnectionLimits>,
    paid: Arc<ByteAccount>,
    beside: Beside,
    pairs: PairOffers,
    trials: AtomicU64,
    cpu_shares: CpuShares,
    /// True once a trial of a client has begun.
    has_served: AtomicBool,
}

impl Server {
    /// Binds the port, TCP and UDP. `facts` are the facts of this host for clients; `log` gets every line that an
    /// operator should see.
    ///
    /// # Errors
    /// Fails with the failed operation, its address and a remedy.
    pub fn bind(
        mut config: Config,
        facts: HostFacts,
        starter: Box<dyn AgentStarter>,
        log: Box<dyn Log>,
    ) -> Result<Server> {
        for said in fit::fit(&mut config, HostLimits::here()) {
            log.line(&said);
        }
        let sockets = Sockets::bind(&config.bind)?;
        let cpu_shares = CpuShares::of(Topology::here(), config.limits.concurrent);
        if let Some(said) = cpu_shares.words() {
            log.line(&said);
        }
        let own_ports = OpenPorts::open(&config.also, sockets.local)?;
        let responders = OpenResponders::open(&config.responders, sockets.local)?;
        let paid = ByteAccount::new(config.allowance);
        let shared = Shared {
            queue: Queue::new(config.limits.concurrent, config.room.waiting),
            connections: ConnectionLimits::new(&config),
            token_table: TokenTable::default(),
            grants: Grants::default(),
            beside: Beside::new(config.limits.rate_bps, Arc::clone(&paid)),
            paid,
            pairs: PairOffers::new(&config.pairs)?,
            scribe: Scribe::new(log),
            trials: AtomicU64::new(0),
            has_served: AtomicBool::new(false),
            cpu_shares,
            config,
            facts,
            starter,
        };
        Ok(Server { shared, sockets, own_ports, responders })
    }

    /// Returns the address of the port.
    pub fn local_addr(&self) -> SocketAddr {
        self.sockets.local
    }

    /// Returns a sentence on each responder: its clients, its port, and its load.
    pub fn responders(&self) -> impl Iterator<Item = String> {
        self.responders.sentences()
    }

    /// Returns the address of each responder, by name.
    pub fn responder_addrs(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        self.responders.addresses()
    }

    /// Returns a summary in words of the bytes that its trials have carried, and of connections that arrived too late.
    pub fn summary(&self) -> String {
        self.shared.beside.settle();
        let mut summary = self.shared.paid.summary();
        let answered = self.responders.summary();
        if !answered.is_empty() {
            summary.push_str(&format!("; answered: {answered}"));
        }
        let late = self.shared.token_table.late();
        if late > 0 {
            summary.push_str(&format!("; {late} connections arrived after the end of their trial"));
        }
        summary
    }

    /// Serves until `stop` is pulled; then ends every session and kills every agent.
    ///
    /// # Errors
    /// Fails if the kernel no longer lets it wait for connections.
    pub fn run(&self, stop: &Stop) -> Result<()> {
        std::thread::scope(|scope| {
            let ran = self
                .own_ports
                .serve(scope, &self.shared, stop)
                .and_then(|()| self.responders.serve(scope, &self.shared, stop))
                .and_then(|()| self.serve(scope, stop));
            // The scope ends with the sessions, so a failure must end them, too.
            stop.pull();
            ran
        })
    }

    fn serve<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        stop: &'scope Stop,
    ) -> Result<()> {
        let mut pre_auth = PreAuth::new(&self.shared.config);
        let mut arrivals = Vec::new();
        let mut crowd = 0;
        while !stop.is_pulled() {
            let readable = self.wait(&pre_auth, stop)?;
            let now = Monotonic.now();
            datagrams::receive(&self.sockets, &self.shared, now);
            pre_auth.look(&readable, &self.shared.scribe, now, &mut arrivals);
            pre_auth.accept(&self.sockets.tcp, &self.shared.scribe, now);
            crowd = crowd.max(pre_auth.len());
            if pre_auth.len() == 0 && std::mem::take(&mut crowd) > CROWD {
                give_back_memory();
            }
            for arrival in arrivals.drain(..) {
                let Some((client, permit)) = self.shared.permit(arrival, now) else {
                    continue;
                };
                let (shared, peer) = (&self.shared, client.peer);
                let spawned = std::thread::Builder::new()
                    .name("client".into())
                    .spawn_scoped(scope, move || run_session(shared, stop, client, permit));
                if let Err(e) = spawned {
                    shared.scribe.stranger(now, peer, &format!("no thread for it: {e}"));
                }
            }
        }
        Ok(())
    }

    /// Sleeps until an event, a stranger's deadline, or `stop`. Returns which strangers are readable.
    fn wait(&self, pre_auth: &PreAuth, stop: &Stop) -> Result<Vec<bool>> {
        let mut fds = vec![stop.as_fd(), self.sockets.udp.as_fd()];
        if pre_auth.is_open(Monotonic.now()) {
            fds.push(self.sockets.tcp.as_fd());
        }
        let ours = fds.len();
        fds.extend(pre_auth.fds());
        let mut ready = wait::until(&fds, pre_auth.next_deadline())
            .map_err(|e| deadheat_base::error::Error::setup("wait for connections", e))?;
        Ok(ready.split_off(ours))
    }
}

impl Shared {
    /// Hands a data connection to its trial, or takes a permit for an admitted client.
    fn permit(&self, arrival: Arrival, now: Nanos) -> Option<(Client, Permit)> {
        match arrival {
            Arrival::Data { stream, peer, hello } => {
                let handed =
                    self.token_table.hand_stream("TCP", &hello, stream.as_fd(), (peer.ip(), now));
                if let Err(why) = handed {
                    self.scribe.stranger(now, peer, &why);
                }
                None
            }
            Arrival::Announced { stream, peer, announcement } => {
                match self.token_table.announce(&announcement, peer.ip()) {
                    // A relay that is gone needs no answer.
                    Ok(proof) => drop({ stream.tcp() }.write_all(&proof)),
                    Err(why) => self.scribe.stranger(now, peer, &why),
                }
                None
            }
            Arrival::Control { stream, peer, client } => {
                match self.connections.take(peer.ip(), client) {
                    Ok(permit) => Some((Client { stream, peer }, permit)),
                    Err(why) => {
                        self.scribe.stranger(now, peer, &format!("no room: {why}"));
                        let fault = deadheat_base::error::Error::peer("server", why).to_fault();
                        pre_auth::close_with(&stream, &FromServer::Full(fault));
                        None
                    }
                }
            }
        }
    }

    fn next_trial(&self) -> u64 {
        1 + self.trials.fetch_add(1, Ordering::Relaxed)
    }
}

/// Control connection of an admitted client.
struct Client {
    stream: ControlStream,
    peer: SocketAddr,
}

/// Runs one session; a panic in it must end neither the others, nor the scope that holds them.
fn run_session(shared: &Shared, stop: &Stop, client: Client, permit: Permit) {
    let peer = client.peer;
    let ran = catch_unwind(AssertUnwindSafe(|| session::run(shared, stop, client)));
    if ran.is_err() {
        shared.scribe.line(Some(peer), "session ended by a fault in deadheat; please report it");
    }
    drop(permit);
    if shared.connections.are_free() {
        give_back_memory();
    }
    if shared.config.serves_one {
        stop_after_the_last(shared, stop);
    }
}

/// Ends a server that serves one client, once a client that had a trial has left.
fn stop_after_the_last(shared: &Shared, stop: &Stop) {
    if shared.connections.are_free() && shared.has_served.load(Ordering::Relaxed) {
        stop.pull();
    }
}

/// Number of simultaneous strangers after which freed memory is returned to the host.
const CROWD: usize = 32;

/// Returns free memory to the host. A heap that was large once stays large otherwise (malloc_trim(3), glibc).
fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
