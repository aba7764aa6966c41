//! All flows of one direction, summed up.

use deadheat_contract::contract::{Direction, Framing};
use deadheat_contract::measurements::{Account, ConnStats, SEGMENTS, Tally};

use super::settings::{Extent, SetUp};
use deadheat_contract::workload::header::{account, add};
use deadheat_contract::workload::{Clocks, EndpointReport, Reports};

/// A sum of rates; unknown if one of them is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate(pub(crate) Option<f64>);

impl Default for Rate {
    fn default() -> Rate {
        Rate(Some(0.0))
    }
}

impl Rate {
    pub(crate) fn add(&mut self, more: Option<f64>) {
        self.0 = self.0.zip(more).map(|(sum, more)| sum + more);
    }
}

/// All flows of one direction.
#[derive(Debug, Default)]
pub(crate) struct OneWay {
    pub(crate) sent: Tally,
    pub(crate) received: Tally,
    socket_drops: Option<u64>,
    send_span_ns: u64,
    /// Time of the first send of all, on the clock of the sender.
    began_ns: Option<u64>,
    first_ns: Option<u64>,
    last_ns: u64,
    first_bytes: u64,
    warmup_bytes: u64,
    /// Longest connection set-up, if it counts.
    connect_ns: u64,
    begin: Begin,
    clocks: Clocks,
}

/// Event at which the span of a direction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Begin {
    /// The first receive after the warm-up; its bytes arrived before the span.
    #[default]
    Receive,
    /// The first send, for a transfer of given bytes: its user waits from then on.
    Send,
}

impl Begin {
    /// Returns the beginning for a transfer of this extent.
    pub(super) fn of(extent: Extent) -> Begin {
        match extent {
            Extent::Time(_) => Begin::Receive,
            Extent::Bytes(_) | Extent::WholeFile => Begin::Send,
        }
    }
}

pub(super) fn gather(
    reports: &Reports<'_>,
    flows: &[Option<Direction>],
    direction: Direction,
    connect: SetUp,
    begin: Begin,
) -> OneWay {
    let (senders, receivers, receiver_conns) = reports.of(direction);
    let mut sum = OneWay { begin, clocks: reports.clocks, ..OneWay::default() };
    let ours = (0..flows.len()).filter(|flow| flows[*flow] == Some(direction));
    for flow in ours {
        sum.add(senders.get(flow), receivers.get(flow), receiver_conns.get(flow));
        // The near end dials, so its clock covers the whole set-up.
        if let (SetUp::Timed, Some(dialled)) = (connect, reports.near_conns.get(flow)) {
            sum.connect_ns = sum.connect_ns.max(dialled.connect_ns);
        }
    }
    sum
}

/// Returns the goodput of all flows together in each part of the trial; empty if a flow has no parts.
pub(crate) fn segments(reports: &Reports<'_>, flows: &[Option<Direction>]) -> Vec<f64> {
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
            self.began_ns = self.began_ns.into_iter().chain(sender.send_began_ns).min();
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

    /// Returns the time from the beginning of the span to the last receive, and the bytes that arrived before the span;
    /// `None` if no time passed.
    ///
    /// After a relay that stores a whole transfer before it forwards anything, all bytes arrive at once, so a transfer
    /// of given bytes begins with the first send. With a clock at each end, it takes at least as long as either end was
    /// busy.
    fn span(&self) -> Option<(u64, u64)> {
        let received = self.last_ns.checked_sub(self.first_ns?)?;
        let before = self.first_bytes.saturating_add(self.warmup_bytes);
        let (span, before) = match (self.begin, self.clocks, self.began_ns) {
            (Begin::Send, Clocks::Shared, Some(began)) => (self.last_ns.checked_sub(began)?, 0),
            (Begin::Send, ..) if self.send_span_ns > received => (self.send_span_ns, 0),
            _ => (received, before),
        };
        // The bytes of the first receive count if the span begins with the connection set-up.
        let before = if self.connect_ns > 0 { before.min(self.warmup_bytes) } else { before };
        Some((span.saturating_add(self.connect_ns), before)).filter(|(span, _)| *span > 0)
    }

    /// Returns the span of the goodput in nanoseconds, with the connection set-up if that counts; `None` if no time
    /// passed.
    pub(crate) fn span_ns(&self) -> Option<u64> {
        self.span().map(|(span, _)| span)
    }

    /// Returns the goodput: the bits that arrived in the span, divided by the span.
    pub(crate) fn goodput_bps(&self) -> Option<f64> {
        let (span, before) = self.span()?;
        Some(self.received.bytes.saturating_sub(before) as f64 * 8e9 / span as f64)
    }

    pub(crate) fn sent_bps(&self) -> Option<f64> {
        (self.send_span_ns > 0).then(|| self.sent.bytes as f64 * 8e9 / self.send_span_ns as f64)
    }

    pub(crate) fn account(&self, framing: Framing) -> Account {
        if framing == Framing::Messages {
            return account(self.sent, self.received, self.socket_drops);
        }
        let (sent, delivered) = (self.sent.bytes, self.received.bytes);
        let open_because = match sent.checked_sub(delivered) {
            Some(0) => None,
            Some(missing) => Some(format!("{missing} bytes of a byte stream never arrived")),
            None => Some(format!("{} bytes more arrived than were sent", delivered - sent)),
        };
        Account { unit: "bytes".into(), sent, delivered, open_because, ..Account::COUNTED }
    }
}
