//! Token table: maps each token to its trial, and limits the connections of each.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::transport::handover::HandOver;
use crate::transport::hello::{Hello, Token};

/// Largest number of stream connections that one flow may open: the first, and a few after failures.
const STREAMS_PER_FLOW: usize = 4;

/// Largest number of datagram peers that one flow may have: the first, and a few if a NAT rebinds.
const PEERS_PER_FLOW: usize = 4;

/// Trials that accept data connections.
#[derive(Default)]
pub(super) struct TokenTable(Mutex<HashMap<Token, TrialEntry>>);

/// Registration of a trial in the token table; removed when dropped.
pub(super) struct Registration<'a> {
    token_table: &'a TokenTable,
    token: Token,
}

struct TrialEntry {
    door: HandOver,
    client: IpAddr,
    flows: usize,
    streams: HashMap<u16, usize>,
    peers: HashSet<(u16, SocketAddr)>,
}

impl TrialEntry {
    /// Checks that data arrives from the address of the control connection.
    fn check(&self, peer: IpAddr, what: &str) -> Result<(), String> {
        if peer.to_canonical() == self.client {
            return Ok(());
        }
        Err(format!(
            "{what} hello for a trial of {}: dropped, as data must come from the address that control comes from",
            self.client
        ))
    }
}

impl TokenTable {
    /// Registers a trial: connections that present `token` go to `door`. All data must arrive from `client`, the proved
    /// address; `flows` is the number of the trial's flows.
    pub(super) fn register(
        &self,
        token: Token,
        door: HandOver,
        client: IpAddr,
        flows: usize,
    ) -> Result<Registration<'_>, String> {
        never_block(door.as_fd()).map_err(|e| format!("hand-over channel: {e}"))?;
        let mut trials = self.lock();
        if trials.contains_key(&token) {
            return Err(
                "another trial has this token; a token is 128 fresh random bits for each trial"
                    .to_owned(),
            );
        }
        let entry = TrialEntry {
            door,
            client: client.to_canonical(),
            flows,
            streams: HashMap::new(),
            peers: HashSet::new(),
        };
        trials.insert(token, entry);
        Ok(Registration { token_table: self, token })
    }

    /// Hands a connected stream to its trial after reading the hello; the error is the reason why not. It must arrive
    /// from the address of the trial's client: an observer of the path sees the token, but has another address.
    pub(super) fn hand_stream(
        &self,
        hello: &Hello,
        socket: BorrowedFd<'_>,
        peer: IpAddr,
    ) -> Result<(), String> {
        let mut trials = self.lock();
        let entry = find(&mut trials, hello, "TCP")?;
        entry.check(peer, "TCP")?;
        let opened = entry.streams.entry(hello.flow).or_default();
        if *opened >= STREAMS_PER_FLOW {
            return Err(format!(
                "TCP data connection {} of flow {}: dropped, {STREAMS_PER_FLOW} are enough",
                *opened + 1,
                hello.flow
            ));
        }
        *opened += 1;
        entry
            .door
            .give_stream(hello.flow, socket)
            .map_err(|e| format!("TCP data connection: its trial does not take it: {e}"))
    }

    /// Hands a datagram peer that sent a hello to its trial, once; the error is the reason why not. `local` is the
    /// address of this host that it was sent to.
    ///
    /// The token was sent over control to the owner of the client's address. That alone does not prove the source of
    /// this datagram: a client could forge a victim's address and have the agent send there. So the address must be the
    /// address that control's handshake proved.
    pub(super) fn hand_datagrams(
        &self,
        hello: &Hello,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<(), String> {
        let mut trials = self.lock();
        let entry = find(&mut trials, hello, "UDP")?;
        entry.check(peer.ip(), "UDP")?;
        if entry.peers.contains(&(hello.flow, peer)) {
            return Ok(());
        }
        let known = entry.peers.iter().filter(|(flow, _)| *flow == hello.flow);
        if known.count() >= PEERS_PER_FLOW {
            return Err(format!(
                "UDP hello of flow {} from one more port: dropped, {PEERS_PER_FLOW} are enough",
                hello.flow
            ));
        }
        entry
            .door
            .give_datagrams(hello.flow, local, peer)
            .map_err(|e| format!("UDP hello: its trial does not take it: {e}"))?;
        entry.peers.insert((hello.flow, peer));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Token, TrialEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.token_table.lock().remove(&self.token);
    }
}

fn find<'a>(
    trials: &'a mut HashMap<Token, TrialEntry>,
    hello: &Hello,
    what: &str,
) -> Result<&'a mut TrialEntry, String> {
    let entry = trials
        .get_mut(&hello.token)
        .ok_or_else(|| format!("{what} hello with a token that no trial here has: dropped"))?;
    if usize::from(hello.flow) >= entry.flows {
        return Err(format!(
            "{what} hello of flow {} of a trial that has {}: dropped",
            hello.flow, entry.flows
        ));
    }
    Ok(entry)
}

/// Makes a descriptor nonblocking: an agent that does not accept its connections must not block the port for all
/// others.
fn never_block(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: fcntl on a live descriptor, without pointers.
    let done = unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;
    use crate::transport::handover::HandedConnection;

    const TOKEN: Token = Token::from_bytes([7; 16]);

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn hello(flow: u16) -> Hello {
        Hello { token: TOKEN, flow }
    }

    #[test]
    fn a_hello_that_is_sent_again_is_handed_over_once() {
        let (token_table, (server, agent)) = (TokenTable::default(), HandOver::pair().unwrap());
        let client = at("10.0.0.1:1").ip();
        let _trial = token_table.register(TOKEN, server, client, 1).unwrap();
        let (local, peer) = (at("10.0.0.9:5210"), at("10.0.0.1:4000"));
        token_table.hand_datagrams(&hello(0), local, peer).unwrap();
        token_table.hand_datagrams(&hello(0), local, peer).unwrap();
        let got = agent.take(Nanos::ZERO).unwrap();
        assert!(
            matches!(got, Some(HandedConnection::Datagrams { flow: 0, peer: p, .. }) if p == peer)
        );
        assert!(agent.take(Nanos::ZERO).unwrap().is_none());
    }

    #[test]
    fn datagrams_to_another_address_than_the_clients_are_not_begun() {
        let (token_table, (server, agent)) = (TokenTable::default(), HandOver::pair().unwrap());
        let client = at("10.0.0.1:1").ip();
        let _trial = token_table.register(TOKEN, server, client, 1).unwrap();
        let why = token_table
            .hand_datagrams(&hello(0), at("10.0.0.9:5210"), at("10.0.0.66:53"))
            .unwrap_err();
        assert!(why.contains("the address that control comes from"), "{why}");
        assert!(agent.take(Nanos::ZERO).unwrap().is_none());
    }

    #[test]
    fn unknown_tokens_flows_and_too_many_peers_are_turned_away() {
        let (token_table, (server, agent)) = (TokenTable::default(), HandOver::pair().unwrap());
        let local = at("10.0.0.9:5210");
        let client = at("10.0.0.1:1");
        let say = |token_table: &TokenTable, flow, port| {
            let peer = SocketAddr::new(client.ip(), port);
            token_table.hand_datagrams(&hello(flow), local, peer)
        };
        assert!(say(&token_table, 0, 1).unwrap_err().contains("no trial here has"));
        let trial = token_table.register(TOKEN, server, client.ip(), 2).unwrap();
        assert!(say(&token_table, 2, 1).unwrap_err().contains("flow 2 of a trial that has 2"));
        for port in 1..=4 {
            say(&token_table, 0, port).unwrap();
        }
        assert!(say(&token_table, 0, 5).unwrap_err().contains("4 are enough"));
        say(&token_table, 1, 5).unwrap();
        let again = token_table.register(TOKEN, HandOver::pair().unwrap().0, client.ip(), 1);
        assert!(again.err().unwrap().contains("another trial has this token"));
        drop(trial);
        assert!(say(&token_table, 0, 1).is_err());
        assert!(agent.take(Nanos::ZERO).unwrap().is_some(), "what was handed over stays so");
    }

    #[test]
    fn an_agent_that_takes_nothing_does_not_block_the_desk() {
        let (token_table, (server, _agent)) = (TokenTable::default(), HandOver::pair().unwrap());
        let client = at("10.0.0.1:1");
        let _trial = token_table.register(TOKEN, server, client.ip(), 60_000).unwrap();
        let full = (0..60_000).find_map(|flow| {
            token_table.hand_datagrams(&hello(flow), at("10.0.0.9:5210"), client).err()
        });
        assert!(full.unwrap().contains("its trial does not take it"));
    }
}
