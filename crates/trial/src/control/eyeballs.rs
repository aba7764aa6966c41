//! Connecting to one of several addresses, over both IP versions at once (RFC 8305, "Happy Eyeballs"): an address that
//! does not answer costs 250 ms and not the time after which a connection is given up.
//!
//! This file decides the order and the times of attempts, and knows neither sockets nor clocks ([`DialNet`]).

use deadheat_records::connect::{AttemptEnd, ConnectAttempt};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use deadheat_base::error::Result;
use deadheat_base::time::Nanos;

/// Time for which IPv4 addresses wait for IPv6 ones, whose lookup is not done (RFC 8305, section 3).
pub const RESOLUTION_DELAY: Nanos = Nanos::from_millis(50);

/// Time after which the next address is dialled beside a silent one (RFC 8305, section 5).
pub const ATTEMPT_DELAY: Nanos = Nanos::from_millis(250);

/// Time after which an attempt is given up.
pub const PATIENCE: Nanos = Nanos::from_secs(5);

/// Event while addresses are looked up and dialled.
#[derive(Debug)]
pub enum DialEvent {
    /// A lookup is done: of IPv6 addresses if `is_v6`. No address is an answer, too.
    Resolved {
        /// True for IPv6.
        is_v6: bool,
        /// Addresses, the most wanted first.
        addresses: Vec<SocketAddr>,
    },
    /// The attempt of this number connected.
    Connected(usize),
    /// The attempt of this number failed.
    Failed(usize, io::Error),
}

/// Lookups, sockets and clock, as [`dial`] uses them.
pub trait DialNet {
    /// Returns the time.
    fn now(&self) -> Nanos;

    /// Starts the attempt `number`. Its failure is an event.
    ///
    /// # Errors
    /// Errors that every other address would have, too: of a source address that this host does not have.
    fn start(&mut self, number: usize, to: SocketAddr) -> Result<()>;

    /// Waits for the next event until `until`; `None` if there was none.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Interrupted`] on Ctrl-C; the error of poll(2).
    fn wait(&mut self, until: Nanos) -> Result<Option<DialEvent>>;
}

/// Lookups that are not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingLookups {
    /// True if the lookup of IPv6 addresses is not done.
    pub v6: bool,
    /// True if the lookup of IPv4 addresses is not done.
    pub v4: bool,
}

/// Dials all addresses that are known, and all that lookups find, until one connects. Returns the attempts in their
/// order, and the number of the attempt that connected; none if all failed.
///
/// # Errors
/// The errors of [`DialNet`].
pub fn dial(
    net: &mut dyn DialNet,
    known: Vec<SocketAddr>,
    lookups: PendingLookups,
) -> Result<(Vec<ConnectAttempt>, Option<usize>)> {
    let began = net.now();
    let mut dialling = Dialling {
        began,
        waiting: [VecDeque::new(), VecDeque::new()],
        lookups,
        v4_since: None,
        next_at: began,
        attempts: Vec::new(),
        ends: Vec::new(),
    };
    known.into_iter().for_each(|address| dialling.add(address));
    loop {
        let now = net.now();
        dialling.give_up(now);
        if dialling.may_start(now)
            && let Some(to) = dialling.take()
        {
            net.start(dialling.attempts.len(), to)?;
            dialling.started(now, to);
            continue;
        }
        let Some(until) = dialling.until(now) else { return Ok((dialling.attempts, None)) };
        match net.wait(until)? {
            None => {}
            Some(DialEvent::Resolved { is_v6, addresses }) => {
                dialling.resolved(net.now(), is_v6, addresses);
            }
            Some(DialEvent::Failed(number, error)) => {
                let now = net.now();
                dialling.end(number, now, AttemptEnd::Failed(error.to_string()));
                // The next one need not wait for an answer of this one.
                dialling.next_at = now;
            }
            Some(DialEvent::Connected(number)) => {
                let now = net.now();
                dialling.end(number, now, AttemptEnd::Connected);
                for other in 0..dialling.attempts.len() {
                    dialling.end(other, now, AttemptEnd::Cancelled);
                }
                return Ok((dialling.attempts, Some(number)));
            }
        }
    }
}

/// State of dialling.
struct Dialling {
    began: Nanos,
    /// Addresses that were not dialled: of IPv6, of IPv4.
    waiting: [VecDeque<SocketAddr>; 2],
    lookups: PendingLookups,
    /// Time at which the first IPv4 address was there.
    v4_since: Option<Nanos>,
    /// Time from which the next address may be dialled.
    next_at: Nanos,
    attempts: Vec<ConnectAttempt>,
    /// Numbers of the attempts under way, with the times at which they are given up.
    ends: Vec<(usize, Nanos)>,
}

impl Dialling {
    fn add(&mut self, address: SocketAddr) {
        self.waiting[usize::from(address.is_ipv4())].push_back(address);
    }

    fn resolved(&mut self, now: Nanos, is_v6: bool, addresses: Vec<SocketAddr>) {
        if is_v6 {
            self.lookups.v6 = false
        } else {
            self.lookups.v4 = false;
            self.v4_since = Some(now);
        }
        addresses.into_iter().for_each(|address| self.add(address));
    }

    /// Returns the time until which IPv4 addresses wait for the lookup of IPv6 ones, before the first attempt.
    fn held_until(&self) -> Option<Nanos> {
        let waits = self.attempts.is_empty() && self.lookups.v6 && self.waiting[0].is_empty();
        self.v4_since.filter(|_| waits).map(|since| since + RESOLUTION_DELAY)
    }

    fn may_start(&self, now: Nanos) -> bool {
        now >= self.next_at && self.held_until().is_none_or(|until| now >= until)
    }

    /// Returns the next address: of IPv6 first, then of the other version than the one before (RFC 8305, section 4).
    fn take(&mut self) -> Option<SocketAddr> {
        let last_was_v6 = self.attempts.last().is_some_and(|last| last.address.is_ipv6());
        let [first, second] = if last_was_v6 { [1, 0] } else { [0, 1] };
        self.waiting[first].pop_front().or_else(|| self.waiting[second].pop_front())
    }

    fn started(&mut self, now: Nanos, address: SocketAddr) {
        self.ends.push((self.attempts.len(), now + PATIENCE));
        self.next_at = now + ATTEMPT_DELAY;
        let after_ns = (now - self.began).0;
        // The end is set once it is known.
        let end = AttemptEnd::Silent;
        self.attempts.push(ConnectAttempt { address, after_ns, took_ns: 0, end });
    }

    /// Notes the end of an attempt that is under way.
    fn end(&mut self, number: usize, now: Nanos, end: AttemptEnd) {
        let Some(at) = self.ends.iter().position(|(other, _)| *other == number) else { return };
        self.ends.remove(at);
        if let Some(attempt) = self.attempts.get_mut(number) {
            attempt.took_ns = (now - self.began).0.saturating_sub(attempt.after_ns);
            attempt.end = end;
        }
    }

    /// Ends the attempts whose time is over.
    fn give_up(&mut self, now: Nanos) {
        let over: Vec<usize> =
            self.ends.iter().filter(|(_, by)| now >= *by).map(|(number, _)| *number).collect();
        over.into_iter().for_each(|number| self.end(number, now, AttemptEnd::Silent));
    }

    /// Returns the time of the next step without an event; `None` if nothing is left to wait for.
    fn until(&self, now: Nanos) -> Option<Nanos> {
        let is_waiting = self.waiting.iter().any(|addresses| !addresses.is_empty());
        let next = is_waiting.then(|| self.next_at.max(self.held_until().unwrap_or_default()));
        let ends = self.ends.iter().map(|(_, by)| *by);
        // A resolver has timeouts of its own, and its answer is an event.
        let lookups = (self.lookups.v4 || self.lookups.v6).then(|| now + PATIENCE);
        ends.chain(next).chain(lookups).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;
    const BOTH: PendingLookups = PendingLookups { v6: true, v4: true };
    const NONE: PendingLookups = PendingLookups { v6: false, v4: false };

    /// Behaviour of an address: the time to its answer, if it has one.
    type Behaviour = fn(SocketAddr) -> Option<(Nanos, bool)>;

    /// Network in virtual time, with a log of what was dialled when.
    struct VirtualNet {
        now: Nanos,
        events: Vec<(Nanos, DialEvent)>,
        behaviour: Behaviour,
        dialled: Vec<(u64, SocketAddr)>,
    }

    impl DialNet for VirtualNet {
        fn now(&self) -> Nanos {
            self.now
        }

        fn start(&mut self, number: usize, to: SocketAddr) -> Result<()> {
            self.dialled.push((self.now.0 / 1_000_000, to));
            if let Some((after, connects)) = (self.behaviour)(to) {
                let event = if connects {
                    DialEvent::Connected(number)
                } else {
                    DialEvent::Failed(number, io::ErrorKind::ConnectionRefused.into())
                };
                self.events.push((self.now + after, event));
            }
            Ok(())
        }

        fn wait(&mut self, until: Nanos) -> Result<Option<DialEvent>> {
            self.events.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
            match self.events.pop_if(|(at, _)| *at <= until) {
                Some((at, event)) => {
                    self.now = self.now.max(at);
                    Ok(Some(event))
                }
                None => {
                    self.now = self.now.max(until);
                    Ok(None)
                }
            }
        }
    }

    fn at(ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), 5210)
    }

    fn answers(at_ms: u64, is_v6: bool, ips: &[&str]) -> (Nanos, DialEvent) {
        let addresses = ips.iter().map(|ip| at(ip)).collect();
        (MS(at_ms), DialEvent::Resolved { is_v6, addresses })
    }

    fn run(
        events: Vec<(Nanos, DialEvent)>,
        known: &[&str],
        behaviour: Behaviour,
    ) -> (Vec<(u64, SocketAddr)>, Vec<ConnectAttempt>, Option<usize>) {
        let lookups = if events.is_empty() { NONE } else { BOTH };
        let mut net = VirtualNet { now: Nanos::ZERO, events, behaviour, dialled: Vec::new() };
        let known = known.iter().map(|ip| at(ip)).collect();
        let (attempts, winner) = dial(&mut net, known, lookups).unwrap();
        (net.dialled, attempts, winner)
    }

    #[test]
    fn a_dead_ipv6_address_costs_one_attempt_delay() {
        let lookups = vec![answers(3, true, &["2001:db8::9"]), answers(3, false, &["192.0.2.7"])];
        let (dialled, attempts, winner) =
            run(lookups, &[], |to| to.is_ipv4().then_some((MS(20), true)));
        assert_eq!(dialled, [(3, at("2001:db8::9")), (253, at("192.0.2.7"))]);
        assert_eq!(winner, Some(1));
        assert_eq!(attempts[0].end, AttemptEnd::Cancelled);
        assert_eq!(Nanos(attempts[0].took_ns), MS(270));
        assert_eq!(attempts[1].end, AttemptEnd::Connected);
        assert_eq!(Nanos(attempts[1].took_ns), MS(20));
        assert!(attempts[0].words().contains("no answer in 270 ms"), "{}", attempts[0].words());
    }

    #[test]
    fn ipv6_is_first_and_an_answer_in_time_dials_nothing_else() {
        let lookups = vec![answers(1, false, &["192.0.2.7"]), answers(40, true, &["2001:db8::9"])];
        let (dialled, _, winner) = run(lookups, &[], |_| Some((MS(200), true)));
        assert_eq!(dialled, [(40, at("2001:db8::9"))], "IPv4 waits for the other lookup");
        assert_eq!(winner, Some(0));
    }

    #[test]
    fn a_slow_ipv6_lookup_holds_ipv4_up_for_50_ms() {
        let lookups = vec![answers(1, false, &["192.0.2.7"]), answers(900, true, &["2001:db8::9"])];
        let (dialled, _, winner) = run(lookups, &[], |_| Some((MS(5), true)));
        assert_eq!(dialled, [(51, at("192.0.2.7"))]);
        assert_eq!(winner, Some(0));
    }

    /// The lookup of IPv4 addresses ends long after the attempt over IPv6 began, and that attempt gets no answer.
    #[test]
    fn addresses_that_are_found_late_are_dialled() {
        let lookups = vec![answers(1, true, &["2001:db8::9"]), answers(900, false, &["192.0.2.7"])];
        let (dialled, _, winner) = run(lookups, &[], |to| to.is_ipv4().then_some((MS(5), true)));
        assert_eq!(dialled, [(1, at("2001:db8::9")), (900, at("192.0.2.7"))]);
        assert_eq!(winner, Some(1));
    }

    #[test]
    fn all_addresses_are_dialled_in_turns_of_the_two_versions() {
        let known = ["2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"];
        let (dialled, attempts, winner) =
            run(Vec::new(), &known, |to| (to == at("192.0.2.2")).then_some((MS(10), true)));
        let order = [(0, known[0]), (250, known[2]), (500, known[1]), (750, known[3])];
        assert_eq!(dialled, order.map(|(ms, ip)| (ms, at(ip))));
        assert_eq!(winner, Some(3));
        assert!(attempts[..3].iter().all(|attempt| attempt.end == AttemptEnd::Cancelled));
    }

    #[test]
    fn a_refusal_dials_the_next_at_once_and_failures_of_all_are_all_there() {
        let known = ["2001:db8::1", "192.0.2.1", "192.0.2.2"];
        let (dialled, attempts, winner) =
            run(Vec::new(), &known, |to| (to != at("192.0.2.2")).then_some((MS(2), false)));
        assert_eq!(dialled, [(0, at(known[0])), (2, at(known[1])), (4, at(known[2]))]);
        assert_eq!(winner, None);
        assert!(matches!(&attempts[1].end, AttemptEnd::Failed(why) if why.contains("refused")));
        assert_eq!(attempts[2].end, AttemptEnd::Silent);
        assert_eq!(Nanos(attempts[2].took_ns), PATIENCE);
    }

    #[test]
    fn a_name_without_addresses_ends_without_an_attempt() {
        let lookups = vec![answers(1, true, &[]), answers(7, false, &[])];
        let (dialled, attempts, winner) = run(lookups, &[], |_| None);
        assert_eq!((dialled.len(), attempts.len(), winner), (0, 0, None));
    }
}
