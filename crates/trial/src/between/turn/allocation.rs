//! Allocation at a TURN server, with a channel to one peer (RFC 8656): a state machine without socket and clock.
//!
//! ```text
//! Allocating ──► Binding ──► Bound ◄─┐  Refresh and ChannelBind in time
//!   401: again with credentials  └───┘
//!   438: again with the new nonce           ──► Closing ──► Closed   Refresh with a lifetime of 0
//! ```

use std::net::SocketAddr;

use deadheat_base::time::Nanos;

use super::message::{
    Attribute, Class, Draft, Key, Message, Method, Transaction, UDP, long_term_key,
};
use super::{TurnCredentials, TurnPlan};

/// Number of the allocation's one channel.
pub(super) const CHANNEL: u16 = 0x4000;

/// Time until a request is retransmitted; it doubles (RFC 8489, section 6.2.1).
const AGAIN: Nanos = Nanos::from_millis(500);
/// Number of times that a request is sent, over 7.5 s, which is within the time of a step; the RFC's 7 would take 40 s.
const SENDS: u32 = 4;
/// Lifetime if a server gives none (RFC 8656, section 3.2).
const LIFETIME: Nanos = Nanos::from_secs(600);
/// Time after which the channel is bound again: its permission lives for 300 s (section 12.1).
const REBIND: Nanos = Nanos::from_secs(240);
/// Challenges in a row after which the server counts as broken.
const CHALLENGES: u32 = 3;

/// End of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// Action of the server, and a remedy.
    pub(super) what: String,
    pub(super) kind: FailureKind,
}

/// Kinds of failures, by the possible remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// No answer arrives.
    Silent,
    /// The server has an allocation for the same local port (437); another port would do.
    Mismatch,
    /// The server refuses.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllocationState {
    Allocating,
    Binding,
    Bound,
    Closing,
    Closed,
}

/// Request that waits for its answer.
#[derive(Debug)]
struct Pending {
    method: Method,
    transaction: Transaction,
    wire: Vec<u8>,
    sent: u32,
    /// Time at which it is retransmitted, or given up.
    due: Nanos,
}

/// Realm and nonce that a server gave, and the key derived from them.
#[derive(Debug)]
struct Challenge {
    realm: String,
    nonce: Vec<u8>,
    key: Key,
}

/// Allocation, from the first request on.
#[derive(Debug)]
pub(super) struct Allocation {
    credentials: Option<TurnCredentials>,
    peer: SocketAddr,
    state: AllocationState,
    challenge: Option<Challenge>,
    /// Challenges since the last success.
    challenges: u32,
    pending: Option<Pending>,
    refresh_at: Nanos,
    rebind_at: Nanos,
    /// Number of datagrams that were no STUN message.
    garbage: u64,
}

impl Allocation {
    pub(super) fn new(plan: &TurnPlan) -> Allocation {
        Allocation {
            credentials: plan.credentials.clone(),
            peer: plan.to,
            state: AllocationState::Allocating,
            challenge: None,
            challenges: 0,
            pending: None,
            refresh_at: Nanos(u64::MAX),
            rebind_at: Nanos(u64::MAX),
            garbage: 0,
        }
    }

    /// Returns true once datagrams may be sent on the channel.
    pub(super) fn is_bound(&self) -> bool {
        self.state == AllocationState::Bound
    }

    /// Returns true once the server has released it, or will do so by itself.
    pub(super) fn is_closed(&self) -> bool {
        self.state == AllocationState::Closed
    }

    /// Starts to release it.
    pub(super) fn close(&mut self) {
        self.pending = None;
        let is_made = matches!(self.state, AllocationState::Binding | AllocationState::Bound);
        self.state = if is_made { AllocationState::Closing } else { AllocationState::Closed };
    }

    /// Returns the time of the next [`Allocation::poll`] that does something.
    pub(super) fn next(&self) -> Nanos {
        match (&self.pending, self.state) {
            (_, AllocationState::Closed) => Nanos(u64::MAX),
            (Some(pending), _) => pending.due,
            (None, AllocationState::Bound) => self.refresh_at.min(self.rebind_at),
            (None, _) => Nanos::ZERO,
        }
    }

    /// Returns the datagram that is to be sent now, if any.
    pub(super) fn poll(&mut self, now: Nanos) -> Result<Option<&[u8]>, Failure> {
        if self.next() > now {
            return Ok(None);
        }
        if self.pending.is_none() {
            self.pending = Some(self.request()?);
        }
        let silence = self.silence();
        let Some(pending) = &mut self.pending else { return Ok(None) };
        if pending.sent == SENDS {
            if self.state == AllocationState::Closing {
                self.state = AllocationState::Closed;
                return Ok(None);
            }
            return Err(silence);
        }
        pending.due = now + Nanos(AGAIN.0 << pending.sent);
        pending.sent += 1;
        Ok(Some(&pending.wire))
    }

    fn silence(&self) -> Failure {
        let method = self.pending.as_ref().map_or("request", |pending| pending.method.name());
        let came = match self.garbage {
            0 => "nothing came back".to_owned(),
            count => format!("{count} datagrams came back that are no answers in STUN"),
        };
        let took = Nanos((AGAIN.0 << SENDS) - AGAIN.0);
        Failure {
            what: format!(
                "{SENDS} {method} requests in {took}, and {came}; is a TURN server there, over UDP?"
            ),
            kind: FailureKind::Silent,
        }
    }

    /// Returns the next request of its current state.
    fn request(&self) -> Result<Pending, Failure> {
        let mut transaction = Transaction::default();
        getrandom::fill(&mut transaction)
            .map_err(|why| refused(format!("no random numbers for a request: {why}")))?;
        let method = match self.state {
            AllocationState::Allocating => Method::Allocate,
            AllocationState::Binding => Method::ChannelBind,
            AllocationState::Bound if self.rebind_at <= self.refresh_at => Method::ChannelBind,
            AllocationState::Bound | AllocationState::Closing | AllocationState::Closed => {
                Method::Refresh
            }
        };
        let mut draft = Draft::new(method, Class::Request, &transaction);
        match method {
            Method::Allocate => {
                draft = draft.put(Attribute::RequestedTransport, &[UDP, 0, 0, 0]);
                if self.peer.is_ipv6() {
                    draft = draft.put(Attribute::RequestedAddressFamily, &[2, 0, 0, 0]);
                }
            }
            Method::ChannelBind => {
                let [high, low] = CHANNEL.to_be_bytes();
                draft = draft
                    .put(Attribute::ChannelNumber, &[high, low, 0, 0])
                    .put_address(Attribute::XorPeerAddress, self.peer);
            }
            Method::Refresh if self.state == AllocationState::Closing => {
                draft = draft.put(Attribute::Lifetime, &[0; 4]);
            }
            Method::Refresh | Method::Binding => {}
        }
        if let (Some(challenge), Some(credentials)) = (&self.challenge, &self.credentials) {
            draft = draft
                .put(Attribute::Username, credentials.user.as_bytes())
                .put(Attribute::Realm, challenge.realm.as_bytes())
                .put(Attribute::Nonce, &challenge.nonce)
                .authenticate(&challenge.key);
        }
        Ok(Pending { method, transaction, wire: draft.finish(), sent: 0, due: Nanos::ZERO })
    }

    /// Handles a datagram that is not ChannelData.
    pub(super) fn on_datagram(&mut self, now: Nanos, datagram: &[u8]) -> Result<(), Failure> {
        let Some(message) = Message::parse(datagram) else {
            self.garbage += 1;
            return Ok(());
        };
        let is_answer = |pending: &Pending| {
            pending.transaction == message.transaction() && pending.method == message.method
        };
        if !self.pending.as_ref().is_some_and(is_answer) {
            // An answer to a request that was answered before, or was retransmitted.
            return Ok(());
        }
        let key = self.challenge.as_ref().map(|challenge| challenge.key);
        let proof = key.and_then(|key| message.is_authentic(&key));
        // An answer with a wrong proof is ignored (RFC 8489, section 9.2.5); errors may have none.
        let counts = match message.class {
            Class::Success => key.is_none() || proof == Some(true),
            Class::Error => proof != Some(false),
            Class::Request | Class::Indication => false,
        };
        if !counts {
            self.garbage += 1;
            return Ok(());
        }
        match (message.class, message.error()) {
            (Class::Success, _) => self.on_success(now, &message),
            (_, Some((code, reason))) => self.on_error(code, &reason, &message),
            (_, None) => Err(refused("an error without its code came back".into())),
        }
    }

    fn on_success(&mut self, now: Nanos, message: &Message<'_>) -> Result<(), Failure> {
        self.pending = None;
        self.challenges = 0;
        if self.state == AllocationState::Closing {
            self.state = AllocationState::Closed;
            return Ok(());
        }
        match message.method {
            Method::ChannelBind => {
                self.rebind_at = now + REBIND;
                self.state = AllocationState::Bound;
            }
            Method::Allocate | Method::Refresh => {
                let lifetime = message.number(Attribute::Lifetime);
                let lifetime = lifetime.map_or(LIFETIME, |s| Nanos::from_secs(s.into()));
                if lifetime == Nanos::ZERO {
                    return Err(refused("it grants an allocation of no time".into()));
                }
                self.refresh_at = now + Nanos(lifetime.0 / 2);
                if message.method == Method::Allocate {
                    if message.address(Attribute::XorRelayedAddress).is_none() {
                        return Err(refused("it allocates, and does not say which address".into()));
                    }
                    self.state = AllocationState::Binding;
                }
            }
            Method::Binding => {}
        }
        Ok(())
    }

    fn on_error(&mut self, code: u16, reason: &str, message: &Message<'_>) -> Result<(), Failure> {
        if self.state == AllocationState::Closing && code != 438 {
            self.state = AllocationState::Closed;
            return Ok(());
        }
        let is_stale = code == 438;
        let is_first = code == 401 && self.challenge.is_none();
        if (is_stale || is_first) && self.credentials.is_some() && self.challenges < CHALLENGES {
            return self.on_challenge(code, message);
        }
        let kind = match code {
            437 if self.state == AllocationState::Allocating => FailureKind::Mismatch,
            _ => FailureKind::Refused,
        };
        let mut what = format!("{code}");
        // Control characters are removed for the terminal; the datagram bounds the length.
        let reason: String = reason.chars().filter(|c| !c.is_control()).take(128).collect();
        if !reason.is_empty() {
            what = format!("{what} ({reason})");
        }
        Err(Failure { what: format!("it answers {what}: {}", self.remedy(code)), kind })
    }

    /// Stores realm and nonce, and prepares the same request again.
    fn on_challenge(&mut self, code: u16, message: &Message<'_>) -> Result<(), Failure> {
        let nonce = message.get(Attribute::Nonce);
        let before = self.challenge.as_ref().map(|challenge| challenge.realm.as_str());
        let realm = message.text(Attribute::Realm).or(before);
        let (Some(nonce), Some(realm), Some(own)) = (nonce, realm, &self.credentials) else {
            return Err(refused(format!("it answers {code} without realm or nonce")));
        };
        self.challenge = Some(Challenge {
            realm: realm.to_owned(),
            nonce: nonce.to_vec(),
            key: long_term_key(&own.user, realm, &own.password),
        });
        self.challenges += 1;
        self.pending = None;
        Ok(())
    }

    /// Returns the meaning of an error, and a remedy (RFC 8489, section 14.8; RFC 8656, section 19).
    fn remedy(&self, code: u16) -> String {
        let peer = self.peer;
        match code {
            300 => "another server is to be asked; name that one".into(),
            401 if self.credentials.is_none() => format!(
                "it wants a name and a password; set {} and {}",
                super::USER_VARIABLE,
                super::PASSWORD_VARIABLE
            ),
            401 => format!(
                "it knows no such name and password in the realm `{}`; look at {} and {}",
                self.challenge.as_ref().map_or("", |challenge| challenge.realm.as_str()),
                super::USER_VARIABLE,
                super::PASSWORD_VARIABLE
            ),
            403 => format!("it does not relay to {peer}; its configuration has to allow that peer"),
            437 => "it has no such allocation, or another for the same port".into(),
            438 => "its nonces are stale as soon as it gives them".into(),
            440 | 443 => format!("it does not relay to the IP version of {peer}"),
            441 => "the allocation is another user's".into(),
            442 => "it does not relay over UDP".into(),
            486 => "this user has all allocations that it may have; wait until they end, or raise the quota".into(),
            508 => "it has no relayed address left; its range of ports may be too small".into(),
            _ => "it does not relay".into(),
        }
    }
}

fn refused(what: String) -> Failure {
    Failure { what, kind: FailureKind::Refused }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_datapath::datapath::origin::Origin;
    use deadheat_datapath::transport::step::STEP;

    const REALM: &str = "example.org";
    const ADDRESS: &str = "192.0.2.9:5000";

    fn plan() -> TurnPlan {
        TurnPlan {
            server: "192.0.2.1:3478".parse().unwrap(),
            to: ADDRESS.parse().unwrap(),
            credentials: Some(TurnCredentials { user: "ann".into(), password: "pw".into() }),
            allocations: 1,
            origin: Origin::default(),
        }
    }

    /// Answer of a server, with the attributes of a challenge or a success.
    fn answer(request: &[u8], code: Option<u16>, nonce: &[u8]) -> Vec<u8> {
        let request = Message::parse(request).unwrap();
        let key = long_term_key("ann", REALM, "pw");
        let class = if code.is_some() { Class::Error } else { Class::Success };
        let mut draft = Draft::new(request.method, class, &request.transaction());
        match code {
            Some(code) => {
                draft = draft
                    .put(Attribute::ErrorCode, &[0, 0, (code / 100) as u8, (code % 100) as u8])
                    .put(Attribute::Realm, REALM.as_bytes())
                    .put(Attribute::Nonce, nonce);
            }
            None => {
                assert_eq!(request.is_authentic(&key), Some(true));
                assert_eq!(request.get(Attribute::Nonce), Some(nonce));
                draft = draft
                    .put(Attribute::Lifetime, &600u32.to_be_bytes())
                    .put_address(Attribute::XorRelayedAddress, ADDRESS.parse().unwrap())
                    .authenticate(&key);
            }
        }
        draft.finish()
    }

    /// Returns the next request, which has this method.
    #[track_caller]
    fn sent(allocation: &mut Allocation, now: Nanos, method: Method) -> Vec<u8> {
        let wire = allocation.poll(now).unwrap().expect("a request").to_vec();
        assert_eq!(Message::parse(&wire).unwrap().method, method);
        wire
    }

    /// Creates an allocation that is bound at `now`.
    fn bound(now: Nanos) -> Allocation {
        let mut allocation = Allocation::new(&plan());
        let first = sent(&mut allocation, now, Method::Allocate);
        assert!(Message::parse(&first).unwrap().get(Attribute::Username).is_none());
        allocation.on_datagram(now, &answer(&first, Some(401), b"one")).unwrap();
        let second = sent(&mut allocation, now, Method::Allocate);
        allocation.on_datagram(now, &answer(&second, None, b"one")).unwrap();
        assert!(!allocation.is_bound());
        let bind = sent(&mut allocation, now, Method::ChannelBind);
        let peer = Message::parse(&bind).unwrap().address(Attribute::XorPeerAddress);
        assert_eq!(peer, Some(ADDRESS.parse().unwrap()));
        allocation.on_datagram(now, &answer(&bind, None, b"one")).unwrap();
        assert!(allocation.is_bound());
        allocation
    }

    #[test]
    fn it_is_kept_for_an_hour_and_given_back() {
        let mut now = Nanos::from_secs(1);
        let mut allocation = bound(now);
        let (mut refreshed, mut bound_again) = (now, now);
        while now < Nanos::from_secs(3600) {
            now = allocation.next();
            let wire = allocation.poll(now).unwrap().expect("it is due").to_vec();
            match Message::parse(&wire).unwrap().method {
                Method::Refresh => refreshed = now,
                Method::ChannelBind => bound_again = now,
                other => panic!("{other:?}"),
            }
            allocation.on_datagram(now, &answer(&wire, None, b"one")).unwrap();
            assert!(now - refreshed < Nanos::from_secs(600), "{refreshed} at {now}");
            assert!(now - bound_again < Nanos::from_secs(300), "{bound_again} at {now}");
            assert!(allocation.is_bound());
        }
        allocation.close();
        let last = sent(&mut allocation, now, Method::Refresh);
        assert_eq!(Message::parse(&last).unwrap().number(Attribute::Lifetime), Some(0));
        allocation.on_datagram(now, &answer(&last, None, b"one")).unwrap();
        assert!(allocation.is_closed());
    }

    #[test]
    fn a_stale_nonce_is_replaced_and_not_for_ever() {
        let mut allocation = bound(Nanos(1));
        let now = allocation.next();
        let wire = allocation.poll(now).unwrap().unwrap().to_vec();
        allocation.on_datagram(now, &answer(&wire, Some(438), b"two")).unwrap();
        let wire = allocation.poll(now).unwrap().unwrap().to_vec();
        allocation.on_datagram(now, &answer(&wire, None, b"two")).unwrap();
        let now = allocation.next();
        for _ in 0..CHALLENGES {
            let wire = allocation.poll(now).unwrap().unwrap().to_vec();
            allocation.on_datagram(now, &answer(&wire, Some(438), b"three")).unwrap();
        }
        let wire = allocation.poll(now).unwrap().unwrap().to_vec();
        let failure = allocation.on_datagram(now, &answer(&wire, Some(438), b"four")).unwrap_err();
        assert!(failure.what.contains("stale"), "{failure:?}");
    }

    #[test]
    fn what_a_server_refuses_is_said_with_its_remedy() {
        for (code, words, kind) in [
            (401, "`example.org`", FailureKind::Refused),
            (437, "another for the same port", FailureKind::Mismatch),
            (486, "quota", FailureKind::Refused),
            (508, "range of ports", FailureKind::Refused),
            (442, "over UDP", FailureKind::Refused),
        ] {
            let mut allocation = Allocation::new(&plan());
            let first = sent(&mut allocation, Nanos(1), Method::Allocate);
            allocation.on_datagram(Nanos(1), &answer(&first, Some(401), b"one")).unwrap();
            let second = sent(&mut allocation, Nanos(1), Method::Allocate);
            let error = answer(&second, Some(code), b"one");
            let failure = allocation.on_datagram(Nanos(1), &error).unwrap_err();
            assert!(failure.what.contains(words), "{failure:?}");
            assert_eq!(failure.kind, kind);
            assert!(!failure.what.contains("pw"), "{failure:?}");
        }
        let mut allocation = Allocation::new(&TurnPlan { credentials: None, ..plan() });
        let first = sent(&mut allocation, Nanos(1), Method::Allocate);
        let failure =
            allocation.on_datagram(Nanos(1), &answer(&first, Some(401), b"one")).unwrap_err();
        assert!(failure.what.contains("DEADHEAT_TURN_USER"), "{failure:?}");
    }

    #[test]
    fn a_server_that_is_silent_or_babbles_is_given_up() {
        for garbage in [None, Some(&b"HTTP/1.1 400 Bad Request\r\n"[..])] {
            let mut allocation = Allocation::new(&plan());
            let mut now = Nanos(1);
            let mut sends = 0;
            let failure = loop {
                match allocation.poll(now) {
                    Ok(Some(_)) => sends += 1,
                    Ok(None) => panic!("nothing was due"),
                    Err(failure) => break failure,
                }
                if let Some(garbage) = garbage {
                    allocation.on_datagram(now, garbage).unwrap();
                }
                now = allocation.next();
            };
            assert_eq!((sends, failure.kind), (SENDS, FailureKind::Silent));
            assert!(now <= STEP, "a step has its time: {now}");
            let words = if garbage.is_some() { "no answers in STUN" } else { "nothing came back" };
            assert!(failure.what.contains(words), "{failure:?}");
        }
    }

    #[test]
    fn an_answer_that_somebody_forged_is_as_one_that_did_not_come() {
        let mut allocation = Allocation::new(&plan());
        let first = sent(&mut allocation, Nanos(1), Method::Allocate);
        allocation.on_datagram(Nanos(1), &answer(&first, Some(401), b"one")).unwrap();
        let second = sent(&mut allocation, Nanos(1), Method::Allocate);
        let request = Message::parse(&second).unwrap();
        for key in [None, Some(b"guessed")] {
            let draft = Draft::new(Method::Allocate, Class::Success, &request.transaction())
                .put_address(Attribute::XorRelayedAddress, ADDRESS.parse().unwrap());
            let draft = match key {
                Some(key) => draft.authenticate(key),
                None => draft,
            };
            allocation.on_datagram(Nanos(1), &draft.finish()).unwrap();
        }
        // No answer arrives: the same request is due again.
        let again = sent(&mut allocation, Nanos(1) + AGAIN, Method::Allocate);
        assert_eq!(again, second);
    }
}
