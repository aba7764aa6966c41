//! Causes of lost messages, as far as ledgers and the hosts' counters show: full queues and receive buffers, and
//! fragments that were not reassembled.

use crate::outcome::{Entrant, Outcome, Trial};
use deadheat_contract::measurements::{Account, HostCounters, Packets};
use deadheat_path::PathKind;
use deadheat_records::trial::Record;

/// Losses of one contender by cause, over all its trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Losses {
    /// The contender's label.
    pub label: String,
    /// Name of its trials: of the contender, with its hidden copy if that has trials.
    pub whose: String,
    /// Packets of its messages, if known.
    pub packets: Option<Packets>,
    /// Number of messages sent.
    pub sent: u64,
    /// Number of these messages that did not arrive.
    pub lost: u64,
    /// Number of lost messages that the receiver's socket had no room for.
    pub dropped: u64,
    /// Number of lost messages that the sending host's queue had no room for, although the call succeeded.
    pub refused: u64,
    /// Number of lost messages that left in fragments and were not reassembled; 0 if the counters show as many
    /// reassembled as sent.
    pub unassembled: u64,
    /// Number of messages that the receiving host reassembled from fragments, including messages of other programs;
    /// absent if its counters are not known.
    pub reassembled: Option<u64>,
    /// Number of fragments that arrived there.
    pub fragments: u64,
    /// Number of these fragments dropped because the reassembly buffer was full.
    pub without_room: u64,
    /// Size of the receiver's buffer, as reported by the receiver.
    pub buffer: Option<String>,
}

impl Losses {
    /// Returns the losses of one contender; `None` if its transport counts bytes, or sent no message.
    pub fn of(outcome: &Outcome, entrant: &Entrant) -> Option<Losses> {
        let mut losses = Losses {
            label: entrant.label.clone(),
            whose: whose(outcome, entrant),
            packets: None,
            sent: 0,
            lost: 0,
            dropped: 0,
            refused: 0,
            unassembled: 0,
            reassembled: None,
            fragments: 0,
            without_room: 0,
            buffer: None,
        };
        for trial in outcome.trials.iter().filter(|trial| trial.contender == entrant.id) {
            losses.packets = losses.packets.or(trial.record.packets);
            losses.add(trial, outcome.path.kind);
        }
        (losses.sent > 0).then_some(losses)
    }

    fn add(&mut self, trial: &Trial, path: PathKind) {
        let record = &trial.record;
        let ledger = &record.ledger;
        let ends = [
            (&ledger.up, &record.far_effective),
            (&ledger.down, &record.effective),
            (&ledger.round_trip, &record.effective),
        ];
        let (mut sent, mut lost, mut dropped) = (0u64, 0u64, 0u64);
        for (account, receiver) in ends {
            let Some(account) = account.as_ref().filter(|account| counts_messages(account)) else {
                continue;
            };
            sent = sent.saturating_add(account.sent);
            lost = lost.saturating_add(account.sent.saturating_sub(account.delivered));
            dropped = dropped.saturating_add(account.dropped_at_receiver.unwrap_or(0));
            self.buffer = self.buffer.take().or_else(|| receiver.get("rcvbuf").cloned());
        }
        self.sent = self.sent.saturating_add(sent);
        self.lost = self.lost.saturating_add(lost);
        self.dropped = self.dropped.saturating_add(dropped.min(lost));
        let mut left = lost.saturating_sub(dropped);
        if let Some(sender) = counted(trial, path, TransferEnd::Sending) {
            // A message that was fragmented counts as both, a whole one as the second.
            let failed = sender.fragment_failures.max(sender.udp_send_buffer_errors).min(left);
            self.refused = self.refused.saturating_add(failed);
            left -= failed;
        }
        // A round trip is reassembled twice, and the failed half is not known.
        if record.packets.is_none_or(|packets| packets.per_message() == 1)
            || ledger.round_trip.is_some()
        {
            return;
        }
        let Some(receiver) = counted(trial, path, TransferEnd::Receiving) else { return };
        let together = receiver.reassembled;
        self.reassembled = Some(self.reassembled.unwrap_or(0).saturating_add(together));
        self.fragments = self.fragments.saturating_add(receiver.fragments_received);
        // A packet that is given up at the end also counts as a failure.
        let refused = receiver.reassembly_failures.saturating_sub(receiver.reassembly_timeouts);
        self.without_room = self.without_room.saturating_add(refused);
        self.unassembled = self.unassembled.saturating_add(sent.saturating_sub(together).min(left));
    }

    /// Returns the number of lost messages without a known cause.
    pub fn elsewhere(&self) -> u64 {
        let known = self.dropped.saturating_add(self.refused).saturating_add(self.unassembled);
        self.lost.saturating_sub(known)
    }

    /// Returns the packets, and their number per message, if messages travel in fragments.
    pub fn in_fragments(&self) -> Option<(Packets, u64)> {
        let packets = self.packets?;
        let parts = packets.per_message();
        (parts > 1).then_some((packets, parts))
    }
}

/// Returns the name of all trials of a contender: `udp and its copy`.
fn whose(outcome: &Outcome, entrant: &Entrant) -> String {
    let is_copy = |trial: &Trial| trial.contender == entrant.id && trial.control;
    let copy = if outcome.trials.iter().any(is_copy) { " and its copy" } else { "" };
    format!("{}{copy}", entrant.label)
}

fn counts_messages(account: &Account) -> bool {
    account.unit == "messages"
}

/// End of a transfer; its host's counters are read.
#[derive(Clone, Copy)]
enum TransferEnd {
    Sending,
    Receiving,
}

/// Returns the counters of the hosts that sent, or received, messages of a trial.
fn counted(trial: &Trial, path: PathKind, end: TransferEnd) -> Option<HostCounters> {
    let Record { ledger, counters: near, far_counters: far, .. } = &trial.record;
    // On one machine both ends read the same counters.
    if path == PathKind::Loopback {
        return far.or(*near);
    }
    // A round trip begins and ends here; the counters do not separate the far end's received and sent messages.
    let (first, second) = match (end, &ledger.round_trip) {
        (_, Some(_)) => (near, &None),
        (TransferEnd::Sending, None) => (near, far),
        (TransferEnd::Receiving, None) => (far, near),
    };
    let one_way = ledger.up.is_some() || ledger.round_trip.is_some();
    let first = first.filter(|_| one_way);
    let second = second.filter(|_| ledger.down.is_some());
    [first, second].into_iter().flatten().reduce(|a, b| a.plus(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use deadheat_contract::measurements::{Ledger, Metrics};

    const CUT: Packets = Packets { message_bytes: 32_768, header_bytes: 28, path_mtu: 1_500 };

    fn account(sent: u64, delivered: u64, dropped: u64) -> Account {
        Account {
            unit: "messages".into(),
            sent,
            delivered,
            dropped_at_receiver: Some(dropped),
            lost_on_path: sent - delivered - dropped,
            ..Account::default()
        }
    }

    fn reassembled(reassembled: u64, failures: u64) -> Option<HostCounters> {
        Some(HostCounters {
            reassembled,
            fragments_received: 23 * 1_000,
            reassembly_failures: failures,
            reassembly_timeouts: failures / 7,
            ..HostCounters::default()
        })
    }

    /// Returns the losses of the first contender of a race between two hosts in one trial.
    fn losses(packets: Option<Packets>, ledger: Ledger, far: Option<HostCounters>) -> Losses {
        losses_between(packets, ledger, None, far)
    }

    fn losses_between(
        packets: Option<Packets>,
        ledger: Ledger,
        near: Option<HostCounters>,
        far: Option<HostCounters>,
    ) -> Losses {
        let mut outcome = testing::outcome(2);
        outcome.path.kind = PathKind::Remote;
        let mut record = testing::record(Metrics::new());
        (record.packets, record.ledger, record.far_counters) = (packets, ledger, far);
        record.counters = near;
        record.far_effective.insert("rcvbuf".into(), "212992".into());
        outcome.trials.push(Trial { block: 0, order: 0, contender: 0, control: false, record });
        Losses::of(&outcome, &outcome.contenders[0]).unwrap()
    }

    #[test]
    fn what_was_not_put_together_and_what_found_no_room_are_told_apart() {
        let up = Ledger { up: Some(account(1_000, 100, 300)), ..Ledger::default() };
        let found = losses(Some(CUT), up, reassembled(450, 7_000));
        assert_eq!((found.sent, found.lost, found.dropped), (1_000, 900, 300));
        assert_eq!((found.unassembled, found.elsewhere()), (550, 50));
        assert_eq!(
            (found.reassembled, found.fragments, found.without_room),
            (Some(450), 23_000, 6_000)
        );
        assert_eq!(found.buffer.as_deref(), Some("212992"));
        assert_eq!(found.in_fragments(), Some((CUT, 23)));
    }

    #[test]
    fn what_the_senders_own_queue_refused_did_not_travel() {
        let up = Ledger { up: Some(account(1_000, 100, 300)), ..Ledger::default() };
        let queue = |fragment_failures, udp_send_buffer_errors| {
            Some(HostCounters { fragment_failures, udp_send_buffer_errors, ..Default::default() })
        };
        let found = losses_between(Some(CUT), up.clone(), queue(200, 200), reassembled(450, 0));
        assert_eq!((found.refused, found.unassembled, found.elsewhere()), (200, 400, 0));
        let whole = losses_between(None, up.clone(), queue(0, 9_999), None);
        assert_eq!((whole.refused, whole.unassembled, whole.elsewhere()), (600, 0, 0));
        // The other end's queue is not this direction's.
        assert_eq!(losses(None, up, queue(0, 50)).refused, 0);
        let down = Ledger { down: Some(account(1_000, 900, 0)), ..Ledger::default() };
        assert_eq!(losses(None, down, queue(0, 50)).refused, 50);
    }

    #[test]
    fn nothing_is_put_down_to_fragments_without_evidence() {
        let up = Ledger { up: Some(account(1_000, 100, 300)), ..Ledger::default() };
        let unseen = losses(Some(CUT), up.clone(), None);
        assert_eq!((unseen.unassembled, unseen.reassembled, unseen.elsewhere()), (0, None, 600));
        let whole = Packets { message_bytes: 1_400, ..CUT };
        let found = losses(Some(whole), up.clone(), reassembled(0, 5));
        assert_eq!((found.unassembled, found.in_fragments()), (0, None));
        // The same host reassembled packets of others.
        let busy = losses(Some(CUT), up, reassembled(5_000, 5));
        assert_eq!(busy.unassembled, 0);
        let there_and_back =
            Ledger { round_trip: Some(account(1_000, 100, 0)), ..Ledger::default() };
        assert_eq!(losses(Some(CUT), there_and_back, reassembled(5, 5)).unassembled, 0);
    }

    #[test]
    fn bytes_of_a_stream_are_not_messages() {
        let mut outcome = testing::outcome(2);
        let mut record = testing::record(Metrics::new());
        record.ledger.up = Some(Account { unit: "bytes".into(), ..account(10, 5, 0) });
        outcome.trials.push(Trial { block: 0, order: 0, contender: 0, control: false, record });
        assert_eq!(Losses::of(&outcome, &outcome.contenders[0]), None);
    }
}
