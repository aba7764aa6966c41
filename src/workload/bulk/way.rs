//! All flows of one direction, summed up.

use crate::contract::{Direction, Framing};
use crate::measurements::{Account, ConnStats, SEGMENTS, Tally};

use super::super::Reports;
use super::super::header::{account, add};
use super::settings::Connect;
use crate::workload::EndpointReport;

/// A sum of rates that is unknown as soon as one of them is.
#[derive(Debug, Clone, Copy)]
pub(in crate::workload) struct Rate(pub(in crate::workload) Option<f64>);

impl Default for Rate {
    fn default() -> Rate {
        Rate(Some(0.0))
    }
}

impl Rate {
    pub(in crate::workload) fn add(&mut self, more: Option<f64>) {
        self.0 = self.0.zip(more).map(|(sum, more)| sum + more);
    }
}

/// All flows of one direction.
#[derive(Debug, Default)]
pub(in crate::workload) struct OneWay {
    pub(in crate::workload) sent: Tally,
    pub(in crate::workload) received: Tally,
    socket_drops: Option<u64>,
    send_span_ns: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    first_bytes: u64,
    warmup_bytes: u64,
    /// The longest connection set-up, where it counts.
    connect_ns: u64,
}

pub(super) fn gather(
    reports: &Reports<'_>,
    flows: &[Option<Direction>],
    direction: Direction,
    connect: Connect,
) -> OneWay {
    let (senders, receivers, receiver_conns) = reports.of(direction);
    let mut sum = OneWay::default();
    let ours = (0..flows.len()).filter(|flow| flows[*flow] == Some(direction));
    for flow in ours {
        sum.add(senders.get(flow), receivers.get(flow), receiver_conns.get(flow));
        // The near end dials, and its clock has seen the whole of it.
        if let (Connect::Timed, Some(dialled)) = (connect, reports.near_conns.get(flow)) {
            sum.connect_ns = sum.connect_ns.max(dialled.connect_ns);
        }
    }
    sum
}

/// Returns the goodput of all flows together in each part of the trial; empty if one of them has none.
pub(in crate::workload) fn segments(
    reports: &Reports<'_>,
    flows: &[Option<Direction>],
) -> Vec<f64> {
    let mut sum = vec![0.0; SEGMENTS];
    for (flow, direction) in flows.iter().enumerate() {
        let receivers = match direction {
            Some(Direction::Down) => reports.near,
            _ => reports.far,
        };
        let Some(receiver) = receivers.get(flow).filter(|half| half.segments.len() == SEGMENTS)
        else {
            return Vec::new();
        };
        sum.iter_mut().zip(&receiver.segments).for_each(|(sum, part)| *sum += part);
    }
    sum
}

impl OneWay {
    fn add(
        &mut self,
        sender: Option<&EndpointReport>,
        receiver: Option<&EndpointReport>,
        conn: Option<&ConnStats>,
    ) {
        if let Some(sender) = sender {
            add(&mut self.sent, &sender.sent);
            self.send_span_ns = self.send_span_ns.max(sender.send_span_ns.unwrap_or(0));
        }
        if let Some(receiver) = receiver {
            add(&mut self.received, &receiver.received);
            if let Some(span) = receiver.receive_span {
                if self.first_ns.is_none_or(|first| span.first_ns < first) {
                    self.first_ns = Some(span.first_ns);
                    self.first_bytes = span.first_bytes;
                }
                self.warmup_bytes = self.warmup_bytes.saturating_add(span.warmup_bytes);
                self.last_ns = self.last_ns.max(span.last_ns);
            }
        }
        if let Some(drops) = conn.and_then(|conn| conn.socket_drops) {
            self.socket_drops = Some(self.socket_drops.unwrap_or(0).saturating_add(drops));
        }
    }

    /// Returns the time from the first receive to the last, with the connection set-up before it if that
    /// counts; `None` if no time passed.
    pub(in crate::workload) fn span_ns(&self) -> Option<u64> {
        let received = self.last_ns.checked_sub(self.first_ns?)?;
        Some(received.saturating_add(self.connect_ns)).filter(|span| *span > 0)
    }

    /// Bits that arrived in the span, over the span. What the warm-up and the first receive brought
    /// arrived before it; the first receive counts where the span begins with the connection set-up.
    pub(in crate::workload) fn goodput_bps(&self) -> Option<f64> {
        let first = if self.connect_ns > 0 { 0 } else { self.first_bytes };
        let before = first.saturating_add(self.warmup_bytes);
        Some(self.received.bytes.saturating_sub(before) as f64 * 8e9 / self.span_ns()? as f64)
    }

    pub(in crate::workload) fn sent_bps(&self) -> Option<f64> {
        (self.send_span_ns > 0).then(|| self.sent.bytes as f64 * 8e9 / self.send_span_ns as f64)
    }

    pub(in crate::workload) fn account(&self, framing: Framing) -> Account {
        if framing == Framing::Messages {
            return account(self.sent, self.received, self.socket_drops);
        }
        let (sent, delivered) = (self.sent.bytes, self.received.bytes);
        let open_because = match sent.checked_sub(delivered) {
            Some(0) => None,
            Some(missing) => Some(format!("{missing} bytes of a byte stream never arrived")),
            None => Some(format!("{} bytes more arrived than were sent", delivered - sent)),
        };
        Account { unit: "bytes".into(), sent, delivered, open_because, ..Account::default() }
    }
}
