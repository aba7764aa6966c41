//! Losses behind a NAT after pauses that are longer than many NATs remember a flow.

use std::fmt;
use std::net::IpAddr;

use crate::outcome::{Entrant, Outcome};
use deadheat_base::time::Nanos;

/// Time of silence after which many NATs forget a UDP flow. RFC 4787 (REQ-5) asks for two minutes at least, and home
/// routers are often below that (RFC 4787, section 4.3).
const MEMORY: Nanos = Nanos::from_secs(30);

pub(super) const ADVICE: &str = "ask this work over TCP, which a NAT remembers for two hours (RFC 5382), or let a message pass \
                                 more often than every 30 s";

/// Losses of a contender that a NAT explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForgottenFlow {
    /// Label of the contender.
    pub label: String,
    /// Number of messages lost.
    pub lost: u64,
    /// Number of messages sent.
    pub sent: u64,
    /// Mean time between two messages.
    pub pause: Nanos,
    /// Address that the NAT gave this host.
    pub seen_as: IpAddr,
}

impl fmt::Display for ForgottenFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForgottenFlow { label, lost, sent, pause, seen_as } = self;
        write!(
            f,
            "{label} lost {lost} of {sent} messages with {pause} between them, and this host is behind a NAT (the far end \
             sees {seen_as}), which may forget a silent flow in that time"
        )
    }
}

/// Returns a notice for each contender over UDP whose messages were lost after long pauses behind a NAT.
pub(crate) fn notices(outcome: &Outcome) -> Vec<ForgottenFlow> {
    let translated = outcome.path.reached.as_ref().and_then(|reached| reached.translated());
    let Some(seen_as) = translated else { return Vec::new() };
    let racing = outcome.contenders.iter().filter(|entrant| entrant.is_racing());
    racing.filter_map(|entrant| forgotten(outcome, entrant, seen_as)).collect()
}

fn forgotten(outcome: &Outcome, entrant: &Entrant, seen_as: IpAddr) -> Option<ForgottenFlow> {
    let ours = entrant.recorded().ok()?;
    if !ours.is_over_udp {
        return None;
    }
    let own = outcome.trials.iter().filter(|trial| trial.contender == entrant.id);
    let (mut sent, mut lost, mut took) = (0u64, 0u64, 0u64);
    for record in own.map(|trial| &trial.record) {
        let most = record.ledger.accounts().map(|(_, account)| account).max_by_key(|a| a.sent);
        let Some(account) = most else { continue };
        sent = sent.saturating_add(account.sent);
        lost = lost.saturating_add(account.sent.saturating_sub(account.delivered));
        took = took.saturating_add(record.took_ns);
    }
    let pause = Nanos(took.checked_div(sent)?);
    let label = entrant.label.clone();
    (lost > 0 && pause >= MEMORY).then_some(ForgottenFlow { label, lost, sent, pause, seen_as })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Trial;
    use crate::testing;
    use deadheat_contract::measurements::Account;
    use deadheat_records::path::ReachFacts;
    use deadheat_records::trial::Record;

    /// Returns the notices about UDP, 10 messages of a trial of this length of which `delivered` arrived.
    fn after(seconds: u64, delivered: u64, seen_as: &str) -> Vec<String> {
        let mut outcome = testing::outcome(2);
        outcome.path.reached = Some(Box::new(ReachFacts {
            own_address: "10.0.0.2".parse().unwrap(),
            seen_as: Some(seen_as.parse().unwrap()),
            attempts: Vec::new(),
        }));
        outcome.contenders.truncate(1);
        (outcome.contenders[0].spec, outcome.contenders[0].label) = ("udp".into(), "udp".into());
        outcome.contenders[0].asked.clear();
        let mut record = Record { took_ns: seconds * 1_000_000_000, ..Record::default() };
        record.ledger.round_trip = Some(Account { sent: 10, delivered, ..Account::default() });
        outcome.trials.push(Trial { block: 0, order: 0, contender: 0, control: false, record });
        notices(&outcome).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn losses_after_long_pauses_behind_a_nat_are_named_and_others_are_not() {
        let found = after(400, 1, "203.0.113.9");
        assert!(found[0].contains("40.0 s between them"), "{found:?}");
        assert!(found[0].contains("sees 203.0.113.9"), "{found:?}");
        assert!(after(400, 10, "203.0.113.9").is_empty(), "nothing was lost");
        assert!(after(4, 1, "203.0.113.9").is_empty(), "no NAT forgets that soon");
        assert!(after(400, 1, "10.0.0.2").is_empty(), "no NAT is on the way");
    }
}
