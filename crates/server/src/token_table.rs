//! Token table: maps each token to its trial, and limits the connections of each. A trial may open connections for as
//! long as it is in the table, up to the planned number.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use socket2::SockRef;

use deadheat_base::time::Nanos;
use deadheat_datapath::transport::handover::HandOver;
use deadheat_datapath::transport::hello::{Hello, Token};
use deadheat_trial::control::Share;
use deadheat_trial::control::announcement::{Announcement, PROOF};

/// Largest number of stream connections that may present one number: the first, and a few after failures.
const STREAMS_PER_NUMBER: usize = 4;

/// Largest number of datagram peers that may present one number: the first, and a few if a NAT rebinds.
const PEERS_PER_NUMBER: usize = 4;

/// Largest number of connections that a trial may open per second. A flow opens one after the other, and each takes
/// two exchanges with an agent, so that no flow opens as many; a flood takes a fraction of one CPU here.
const PER_SECOND: u64 = 10_000;

/// Largest number of connections that a trial may open at once.
const AT_ONCE: u64 = 1_000;

/// Number of trials whose tokens are remembered after their end, so that late connections are recognised.
const REMEMBERED: usize = 64;

/// Trials that accept data connections.
#[derive(Default)]
pub(super) struct TokenTable(Mutex<Trials>);

#[derive(Default)]
struct Trials {
    /// Far ends by the token of their work; several far ends share its flows.
    open: HashMap<Token, Vec<FarEntry>>,
    /// Tokens of the trials that ended last, the newest at the end.
    ended: VecDeque<Token>,
    /// Connections that arrived after the end of their trial.
    late: u64,
}

/// Registration of a trial in the token table; removed when dropped.
pub(super) struct Registration<'a> {
    token_table: &'a TokenTable,
    token: Token,
    share: Share,
}

/// Connections that a trial may open.
pub(super) struct TrialDoor {
    /// Channel to the agent that takes them.
    pub(super) door: HandOver,
    /// Proved address of the client.
    pub(super) client: IpAddr,
    /// Source of its data.
    pub(super) source: DataSource,
    /// Number of connections that the trial plans; they have the numbers from 0 on.
    pub(super) planned: usize,
    /// Number of the work's flows, of all its far ends.
    pub(super) flows: usize,
    /// Number of the contender's parts, each of which has the connections of a flow in turn.
    pub(super) parts: usize,
    /// Flows of this far end.
    pub(super) share: Share,
}

/// Hosts from which the data of a trial arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataSource {
    /// The client's own.
    Client,
    /// Relay at a third host, which announces itself.
    Relay,
    /// TURN server of the client's: a host that proves at its far end that it receives there, once it has presented the
    /// token.
    Turn,
}

struct FarEntry {
    trial: TrialDoor,
    /// Proved address of its relay at a third host, once that has announced itself.
    relay: Option<IpAddr>,
    streams: HashMap<u16, usize>,
    peers: HashMap<u16, Vec<SocketAddr>>,
    pace: OpeningPace,
    dropped: u64,
}

/// Limit of the rate at which a trial opens connections: a bucket that fills at [`PER_SECOND`].
struct OpeningPace {
    /// Time at which the bucket is full again.
    full_at: Nanos,
}

impl OpeningPace {
    /// Takes one connection at `now`; returns false if there are too many.
    fn take(&mut self, now: Nanos) -> bool {
        const EACH: Nanos = Nanos(1_000_000_000 / PER_SECOND);
        let full_at = self.full_at.max(now) + EACH;
        if full_at - now > Nanos(EACH.0 * AT_ONCE) {
            return false;
        }
        self.full_at = full_at;
        true
    }
}

impl FarEntry {
    /// Returns true if a connection with this number is of one of its flows: the numbers of one flow differ by
    /// multiples of the number of flows.
    fn has(&self, number: u16) -> bool {
        let TrialDoor { flows, parts, share, .. } = self.trial;
        usize::from(number) / parts.max(1) % flows.max(1) % usize::from(share.nodes)
            == usize::from(share.node)
    }

    /// Returns true if this far end and that of `other` have different flows of one client's work.
    fn is_beside(&self, other: &TrialDoor) -> bool {
        let of = |one: &TrialDoor| (one.client, one.flows, one.share.nodes);
        of(&self.trial) == of(other) && self.trial.share.node != other.share.node
    }

    /// Checks that data arrives from an address that TCP has proved: that of the control connection, or of the trial's
    /// relay.
    fn check(&self, peer: IpAddr, what: &str) -> Result<(), String> {
        let (peer, client) = (peer.to_canonical(), self.trial.client);
        let due = match (self.trial.source, self.relay) {
            (DataSource::Client | DataSource::Turn, _) if peer == client => return Ok(()),
            (DataSource::Relay, Some(relay)) if peer == relay => return Ok(()),
            (DataSource::Client | DataSource::Turn, _) => "the address that control comes from",
            (DataSource::Relay, Some(_)) => "the relay that it has announced",
            (DataSource::Relay, None) => "a relay, and none has announced itself",
        };
        Err(format!("{what} hello for a trial of {client}: dropped, as data must come from {due}"))
    }

    /// Checks the number of a connection, of which the trial plans a limited number.
    fn check_number(&self, hello: &Hello, what: &str) -> Result<(), String> {
        if usize::from(hello.flow) < self.trial.planned {
            return Ok(());
        }
        Err(format!(
            "{what} hello of connection {} of a trial that plans {}: dropped",
            hello.flow, self.trial.planned
        ))
    }

    /// Counts one more connection at `now`.
    fn count(&mut self, now: Nanos, what: &str) -> Result<(), String> {
        if self.pace.take(now) {
            return Ok(());
        }
        Err(format!(
            "{what} hello: dropped, its trial opens more than {PER_SECOND} connections a second"
        ))
    }

    fn hand_stream(
        &mut self,
        hello: &Hello,
        socket: BorrowedFd<'_>,
        (peer, what, now): (IpAddr, &str, Nanos),
    ) -> Result<(), String> {
        self.check(peer, what)?;
        self.check_number(hello, what)?;
        let opened = self.streams.get(&hello.flow).copied().unwrap_or_default();
        if opened >= STREAMS_PER_NUMBER {
            return Err(format!(
                "{what} data connection {} with the number {}: dropped, {STREAMS_PER_NUMBER} are enough",
                opened + 1,
                hello.flow
            ));
        }
        self.count(now, what)?;
        self.streams.insert(hello.flow, opened + 1);
        let handed = self.trial.door.give_stream(hello.flow, socket);
        handed.map_err(|e| format!("{what} data connection: its trial does not take it: {e}"))
    }

    fn hand_datagrams(
        &mut self,
        hello: &Hello,
        local: SocketAddr,
        (peer, what, now): (SocketAddr, &str, Nanos),
    ) -> Result<(), String> {
        let is_proved = match self.check(peer.ip(), what) {
            Ok(()) => true,
            // The far end has it proved.
            Err(_) if self.trial.source == DataSource::Turn => false,
            Err(why) => return Err(why),
        };
        self.check_number(hello, what)?;
        let known = self.peers.get(&hello.flow).map_or(&[][..], Vec::as_slice);
        if known.contains(&peer) {
            return Ok(());
        }
        if known.len() >= PEERS_PER_NUMBER {
            return Err(format!(
                "{what} hello with the number {} from one more port: dropped, {PEERS_PER_NUMBER} are enough",
                hello.flow
            ));
        }
        self.count(now, what)?;
        let door = &self.trial.door;
        let handed = if is_proved {
            door.give_datagrams(hello.flow, local, peer)
        } else {
            door.give_unproved(hello.flow, local, peer)
        };
        handed.map_err(|e| format!("{what} hello: its trial does not take it: {e}"))?;
        self.peers.entry(hello.flow).or_default().push(peer);
        Ok(())
    }
}

impl TokenTable {
    /// Registers a far end of a trial: connections that present `token`, for one of its flows, go to its door.
    pub(super) fn register(
        &self,
        token: Token,
        trial: TrialDoor,
    ) -> Result<Registration<'_>, String> {
        // An agent that does not accept its connections must not block the port for all others.
        SockRef::from(&trial.door)
            .set_nonblocking(true)
            .map_err(|e| format!("hand-over channel: {e}"))?;
        let trial = TrialDoor { client: trial.client.to_canonical(), ..trial };
        let mut trials = self.lock();
        let entries = trials.open.entry(token).or_default();
        if !entries.iter().all(|entry| entry.is_beside(&trial)) {
            return Err(
                "another trial has this token; a token is 128 fresh random bits for each trial"
                    .to_owned(),
            );
        }
        let share = trial.share;
        entries.push(FarEntry {
            trial,
            relay: None,
            streams: HashMap::new(),
            peers: HashMap::new(),
            pace: OpeningPace { full_at: Nanos::ZERO },
            dropped: 0,
        });
        Ok(Registration { token_table: self, token, share })
    }

    /// Takes the announcement of a relay from its proved address, for all far ends of the trial that it names; returns
    /// the answer. The error is the reason why it is no relay of a trial here.
    pub(super) fn announce(
        &self,
        announcement: &Announcement,
        relay: IpAddr,
    ) -> Result<[u8; PROOF], String> {
        let (mut trials, relay) = (self.lock(), relay.to_canonical());
        let named = trials.open.iter_mut().find(|(token, _)| announcement.is_of(**token));
        let Some((token, entries)) = named else {
            return Err("announces itself as the relay of no trial here: closed".into());
        };
        let takes = |entry: &FarEntry| {
            entry.trial.source == DataSource::Relay && entry.relay.is_none_or(|one| one == relay)
        };
        if !entries.iter().all(takes) {
            return Err(
                "announces itself as the relay of a trial that has none, or another: closed".into(),
            );
        }
        entries.iter_mut().for_each(|entry| entry.relay = Some(relay));
        Ok(announcement.proof(*token))
    }

    /// Hands a connected stream of the protocol `what` to its trial after reading the hello; the error is the reason why
    /// not. It must arrive from the address of the trial's client: an observer of the path sees the token, but has
    /// another address.
    pub(super) fn hand_stream(
        &self,
        what: &str,
        hello: &Hello,
        socket: BorrowedFd<'_>,
        (peer, now): (IpAddr, Nanos),
    ) -> Result<(), String> {
        self.lock().hand(hello, what, |entry| entry.hand_stream(hello, socket, (peer, what, now)))
    }

    /// Hands a datagram peer of the protocol `what` that sent a hello to its trial, once; the error is the reason why
    /// not. `local` is the address of this host that it was sent to.
    ///
    /// The token was sent over control to the owner of the client's address. That alone does not prove the source of
    /// this datagram: a client could forge a victim's address and have the agent send there. So the address must be the
    /// address that control's handshake proved.
    pub(super) fn hand_datagrams(
        &self,
        what: &str,
        hello: &Hello,
        local: SocketAddr,
        (peer, now): (SocketAddr, Nanos),
    ) -> Result<(), String> {
        self.lock().hand(hello, what, |entry| entry.hand_datagrams(hello, local, (peer, what, now)))
    }

    /// Returns the number of connections that arrived after the end of their trial.
    pub(super) fn late(&self) -> u64 {
        self.lock().late
    }

    fn lock(&self) -> MutexGuard<'_, Trials> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trials {
    /// Hands a connection to the trial with its token, and counts it if it is dropped.
    fn hand(
        &mut self,
        hello: &Hello,
        what: &str,
        hand: impl FnOnce(&mut FarEntry) -> Result<(), String>,
    ) -> Result<(), String> {
        let entries = self.open.get_mut(&hello.token);
        let entry = entries.and_then(|all| all.iter_mut().find(|one| one.has(hello.flow)));
        if let Some(entry) = entry {
            let handed = hand(entry);
            entry.dropped += u64::from(handed.is_err());
            return handed;
        }
        if self.ended.contains(&hello.token) {
            self.late += 1;
            return Err(format!("{what} hello of a trial that has ended: dropped"));
        }
        Err(format!("{what} hello with a token that no trial here has: dropped"))
    }
}

impl Registration<'_> {
    /// Returns the number of its connections that were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        let trials = self.token_table.lock();
        let mut entries = trials.open.get(&self.token).into_iter().flatten();
        entries.find(|entry| entry.trial.share == self.share).map_or(0, |entry| entry.dropped)
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut trials = self.token_table.lock();
        let Some(entries) = trials.open.get_mut(&self.token) else { return };
        entries.retain(|entry| entry.trial.share != self.share);
        if !entries.is_empty() {
            return;
        }
        trials.open.remove(&self.token);
        if trials.ended.len() == REMEMBERED {
            trials.ended.pop_front();
        }
        trials.ended.push_back(self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_datapath::transport::handover::HandedConnection;

    const TOKEN: Token = Token::from_bytes([7; 16]);
    const NOW: Nanos = Nanos::from_secs(1);

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn register(
        token_table: &TokenTable,
        door: HandOver,
        planned: usize,
    ) -> Result<Registration<'_>, String> {
        register_from(token_table, DataSource::Client, door, planned)
    }

    fn register_from(
        token_table: &TokenTable,
        source: DataSource,
        door: HandOver,
        planned: usize,
    ) -> Result<Registration<'_>, String> {
        let (client, share) = (at("10.0.0.1:1").ip(), Share::WHOLE);
        let trial = TrialDoor { door, client, source, planned, flows: planned, parts: 1, share };
        token_table.register(TOKEN, trial)
    }

    fn hello(flow: u16) -> Hello {
        Hello { token: TOKEN, flow }
    }

    #[test]
    fn a_hello_that_is_sent_again_is_handed_over_once() {
        let (token_table, (server, agent)) = (TokenTable::default(), HandOver::pair().unwrap());
        let _trial = register(&token_table, server, 1).unwrap();
        let (local, peer) = (at("10.0.0.9:5210"), at("10.0.0.1:4000"));
        token_table.hand_datagrams("UDP", &hello(0), local, (peer, NOW)).unwrap();
        token_table.hand_datagrams("UDP", &hello(0), local, (peer, NOW)).unwrap();
        let got = agent.take(Nanos::ZERO).unwrap();
        assert!(
            matches!(got, Some(HandedConnection::Datagrams { flow: 0, peer: p, .. }) if p == peer)
        );
        assert!(agent.take(Nanos::ZERO).unwrap().is_none());
    }

    #[test]
    fn datagrams_to_another_address_than_the_clients_are_not_begun() {
        let (token_table, (server, agent)) = (TokenTable::default(), HandOver::pair().unwrap());
        let _trial = register(&token_table, server, 1).unwrap();
        let why = token_table
            .hand_datagrams("UDP", &hello(0), at("10.0.0.9:5210"), (at("10.0.0.66:53"), NOW))
            .unwrap_err();
        assert!(why.contains("the address that control comes from"), "{why}");
        assert!(agent.take(Nanos::ZERO).unwrap().is_none());
    }

    #[test]
    fn data_through_a_relay_come_from_the_one_that_announced_itself() {
        let (token_table, (server, agent)) = (TokenTable::default(), HandOver::pair().unwrap());
        let (relay, other) = (at("10.0.0.5:4000"), at("10.0.0.6:4000"));
        let announcement = Announcement::fresh(TOKEN).unwrap();
        let announce = |from: SocketAddr| token_table.announce(&announcement, from.ip());
        let say =
            |from| token_table.hand_datagrams("UDP", &hello(0), at("10.0.0.9:5210"), (from, NOW));
        assert!(announce(relay).unwrap_err().contains("no trial here"));
        let trial = register_from(&token_table, DataSource::Relay, server, 1).unwrap();
        for from in [relay, at("10.0.0.1:4000")] {
            assert!(say(from).unwrap_err().contains("none has announced itself"));
        }
        let stranger = Announcement::fresh(Token::from_bytes([8; 16])).unwrap();
        assert!(token_table.announce(&stranger, relay.ip()).is_err());
        assert!(announcement.is_proved(TOKEN, &announce(relay).unwrap()));
        announce(relay).unwrap();
        assert!(announce(other).unwrap_err().contains("has none, or another"));
        say(relay).unwrap();
        for from in [other, at("10.0.0.1:4000")] {
            assert!(say(from).unwrap_err().contains("the relay that it has announced"));
        }
        let got = agent.take(Nanos::ZERO).unwrap();
        assert!(matches!(got, Some(HandedConnection::Datagrams { is_proved: true, .. })));
        drop(trial);
        let _direct = register(&token_table, HandOver::pair().unwrap().0, 1).unwrap();
        assert!(announce(relay).unwrap_err().contains("has none, or another"));
    }

    #[test]
    fn an_address_of_a_turn_server_is_handed_over_to_be_proved() {
        let (token_table, (server, agent)) = (TokenTable::default(), HandOver::pair().unwrap());
        let _trial = register_from(&token_table, DataSource::Turn, server, 1).unwrap();
        for (from, proved) in [("10.0.0.5:4000", false), ("10.0.0.1:4000", true)] {
            let local = at("10.0.0.9:5210");
            token_table.hand_datagrams("UDP", &hello(0), local, (at(from), NOW)).unwrap();
            let got = agent.take(Nanos::ZERO).unwrap();
            let Some(HandedConnection::Datagrams { is_proved, .. }) = got else { panic!() };
            assert_eq!(is_proved, proved, "{from}");
        }
    }

    #[test]
    fn unknown_tokens_flows_and_too_many_peers_are_turned_away() {
        let (token_table, (server, agent)) = (TokenTable::default(), HandOver::pair().unwrap());
        let local = at("10.0.0.9:5210");
        let client = at("10.0.0.1:1");
        let say = |token_table: &TokenTable, flow, port| {
            let peer = SocketAddr::new(client.ip(), port);
            token_table.hand_datagrams("UDP", &hello(flow), local, (peer, NOW))
        };
        assert!(say(&token_table, 0, 1).unwrap_err().contains("no trial here has"));
        let trial = register(&token_table, server, 2).unwrap();
        assert!(
            say(&token_table, 2, 1).unwrap_err().contains("connection 2 of a trial that plans 2")
        );
        for port in 1..=4 {
            say(&token_table, 0, port).unwrap();
        }
        assert!(say(&token_table, 0, 5).unwrap_err().contains("4 are enough"));
        say(&token_table, 1, 5).unwrap();
        let again = register(&token_table, HandOver::pair().unwrap().0, 1);
        assert!(again.err().unwrap().contains("another trial has this token"));
        assert_eq!(trial.dropped(), 2);
        drop(trial);
        assert!(say(&token_table, 0, 1).unwrap_err().contains("a trial that has ended"));
        assert_eq!(token_table.late(), 1);
        assert!(agent.take(Nanos::ZERO).unwrap().is_some(), "what was handed over stays so");
    }

    #[test]
    fn an_agent_that_takes_nothing_does_not_block_the_desk() {
        let (token_table, (server, _agent)) = (TokenTable::default(), HandOver::pair().unwrap());
        let client = at("10.0.0.1:1");
        let _trial = register(&token_table, server, 60_000).unwrap();
        let full = (0..60_000).find_map(|flow| {
            let now = NOW + Nanos::from_secs(u64::from(flow));
            let from = at("10.0.0.9:5210");
            token_table.hand_datagrams("UDP", &hello(flow), from, (client, now)).err()
        });
        assert!(full.unwrap().contains("its trial does not take it"));
    }

    #[test]
    fn a_trial_opens_a_thousand_connections_at_once_and_then_ten_thousand_a_second() {
        let mut pace = OpeningPace { full_at: Nanos::ZERO };
        let mut take = |now: Nanos| (0..).take_while(|_| pace.take(now)).count();
        assert_eq!(take(NOW), 1_000);
        assert_eq!(take(NOW + Nanos::from_millis(10)), 100);
        assert_eq!(take(NOW + Nanos::from_secs(9)), 1_000, "no more after a pause");
    }

    /// Flow 1 goes to the second of two far ends, and is dropped without it.
    #[test]
    fn each_far_end_gets_its_own_flows() {
        let (token_table, local) = (TokenTable::default(), at("10.0.0.9:5210"));
        let client = at("10.0.0.1:4000");
        let of = |door, client: SocketAddr, node| {
            let (client, share) = (client.ip(), Share { node, nodes: 2 });
            let (source, planned) = (DataSource::Client, 8);
            token_table.register(
                TOKEN,
                TrialDoor { door, client, source, planned, flows: 4, parts: 1, share },
            )
        };
        let [(one, first), (other, second)] = [(); 2].map(|()| HandOver::pair().unwrap());
        let _first = of(one, client, 0).unwrap();
        let say = |flow| {
            let hello = Hello { token: TOKEN, flow };
            token_table.hand_datagrams("UDP", &hello, local, (client, NOW))
        };
        assert!(say(1).unwrap_err().contains("no trial here has"));
        let registered = of(other, client, 1).unwrap();
        let again = |client, node| of(HandOver::pair().unwrap().0, client, node).is_err();
        assert!(again(client, 1) && again(at("10.0.0.2:1"), 1));
        (0..5).for_each(|number| say(number).unwrap());
        let got = |door: &HandOver| match door.take(Nanos::ZERO).unwrap() {
            Some(HandedConnection::Datagrams { flow, .. }) => Some(flow),
            _ => None,
        };
        assert_eq!([got(&first), got(&first), got(&first)], [Some(0), Some(2), Some(4)]);
        assert_eq!([got(&second), got(&second), got(&second)], [Some(1), Some(3), None]);
        drop(registered);
        assert!(say(1).is_err());
    }
}
