//! Check of the far end's report against facts that this end knows by itself.
//!
//! ```text
//! known here                                    so the far end cannot have
//! bytes and messages sent                       received more than that
//! bytes and messages received                   sent less than that
//! time from the start message to the report     been at work for longer
//! time this end took to send                    received it in far less time
//! the workload                                  sent more than it asks for
//! ```
//!
//! A report that breaks one of these rules is a lie or a defect: the trial does not count, and none of the report's
//! numbers becomes a figure. docs/security.md lists the remaining fakes that a far end can make.

use serde::Serialize;
use serde_json::Value;

use crate::agent::intervals::MOST_DENSE;
use crate::control::AgentReport;
use crate::control::pairs::is_digest;
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::series::Series;
use deadheat_contract::measurements::{ConnStats, Distribution, Quantile, Tally, Unit, total};
use deadheat_contract::workload::{EndpointReport, ReceiveSpan, Task};

/// Upper limit of every count in a trial: 100 Gbit/s take a day to carry as many bytes.
const MOST: f64 = (1u64 << 50) as f64;

/// Largest header that is accepted, in bytes.
const LARGEST_HEADER: u64 = 1024;

/// Latest time of day at which a series may have begun, in nanoseconds since 1970.
const LATEST: u64 = 1 << 62;

/// Largest ratio between two clocks of one rate: crystals are wrong by 0.01 %, virtual machines by
/// more.
const CLOCKS: f64 = 1.01;

/// Longest time between the sending of a control message and its receipt, if both happen at once.
const SOON: Nanos = Nanos::from_millis(1);

/// Time that a host may spend on other things than sending and receiving.
const PAUSE: Nanos = Nanos::from_millis(100);

/// Least ratio of the receiver's span to the sender's span for the same data. Half, because a warm-up that is left out
/// may be slower than the rest.
const LEAST_SHARE: f64 = 0.5;

/// Facts of a trial that this end knows by itself.
pub(super) struct TrialFacts<'a> {
    pub(super) near: &'a AgentReport,
    pub(super) task: &'a dyn Task,
    /// Time from the start message to the far end's report.
    pub(super) took: Nanos,
}

type Checked = Result<(), String>;

const SENT_FOR: &str = "sent for";

/// Returns the words for a claim that cannot be true.
fn impossible(what: String) -> String {
    format!("cannot be true: {what}")
}

/// Returns the words for a claim about one of so many flows.
fn of_flow(flow: usize, flows: usize, what: String) -> String {
    match flows {
        1 => what,
        _ => format!("flow {flow}: {what}"),
    }
}

impl TrialFacts<'_> {
    /// Checks a far end's report against all these facts.
    ///
    /// # Errors
    /// Returns the first claim that cannot be true, or is not likely to be, with the reason.
    pub(super) fn check(&self, far: &AgentReport) -> Checked {
        self.check_facts(far).map_err(impossible)?;
        self.check_haste(far)
    }

    fn check_facts(&self, far: &AgentReport) -> Checked {
        let flows = &self.task.info().flows;
        self.check_shape(far, flows.len())?;
        self.check_sizes(far)?;
        for (flow, near, half) in self.halves(far) {
            let at = |what: String| of_flow(flow, flows.len(), what);
            check_counts(near, half).map_err(at)?;
            self.check_times(half, far.series.get(flow)).map_err(at)?;
        }
        self.check_sent(far)?;
        self.check_cost(far)
    }

    /// Returns each flow with the reports of both ends on it.
    fn halves<'a>(
        &'a self,
        far: &'a AgentReport,
    ) -> impl Iterator<Item = (usize, &'a EndpointReport, &'a EndpointReport)> {
        let pairs = self.near.halves.iter().zip(&far.halves).take(self.task.info().flows.len());
        pairs.enumerate().map(|(flow, (near, half))| (flow, near, half))
    }

    fn check_shape(&self, far: &AgentReport, flows: usize) -> Checked {
        let lists = [
            ("flows", far.halves.len(), self.near.halves.len(), flows),
            ("connections", far.conns.len(), 0, flows),
            ("series", far.series.len(), 0, flows),
            ("lists of options", far.effective_by_flow.len(), 0, flows),
        ];
        for (what, count, least, most) in lists {
            if !(least..=most).contains(&count) {
                return Err(format!("it reports {count} {what} of a trial with {flows} flows"));
            }
        }
        for series in &far.series {
            let points = series.at_ns.len();
            let columns = [series.sent_bytes.len(), series.received_bytes.len()];
            let is_even = columns.iter().all(|column| *column == points);
            let is_long = points.max(series.phases.len()) > MOST_DENSE;
            if is_long || !is_even || !series.at_ns.is_sorted() {
                return Err(format!(
                    "its series has {points} points, out of order or not in all columns, where {MOST_DENSE} in \
                     order are the most"
                ));
            }
        }
        Ok(())
    }

    /// Checks that no count is so large that sums of such counts go wrong.
    fn check_sizes(&self, far: &AgentReport) -> Checked {
        for half in &far.halves {
            check_size("a count", &[half.sent, half.received])?;
            check_size("a part's figure", &half.segments)?;
            check_size("its schedule", &half.pacing)?;
            check_size("its warm-up", &half.warmup)?;
            check_size("its late sends", &(half.late_send_share, half.late_effect))?;
            let times = [&half.rtt_ns, &half.send_lateness_ns, &half.delay_variation_ns];
            check_size("a time", &times)?;
            check_size("a figure", &half.figures)?;
            self.check_figures(half)?;
        }
        check_size("a connection's count", &far.conns)?;
        check_size("a count of its network code", &far.counters)?;
        check_size("its cost", &far.cost)?;
        check_size("what a quota took", &far.throttled)?;
        // A time of day is larger than any count, and no sum has one.
        let counted = far.series.iter().map(|one| Series { began_ns: None, ..one.clone() });
        check_size("a series", &counted.collect::<Vec<Series>>())?;
        if far.series.iter().any(|one| one.began_ns > Some(LATEST)) {
            return Err("a series began after the year 2116".to_owned());
        }
        far.conns.iter().try_for_each(check_headers)
    }

    /// Checks that the workload declares these figures, and that their values are within the limits of their units.
    fn check_figures(&self, half: &EndpointReport) -> Checked {
        let metrics = &self.task.info().metrics;
        for (name, figure) in &half.figures {
            let Some(metric) = metrics.iter().find(|metric| metric.name == *name) else {
                return Err(format!("it reports a figure that the workload has not: {name}"));
            };
            let most = match metric.unit {
                Unit::Share => 1.0,
                Unit::Nanos => self.most(self.scheduled()).0 as f64,
                _ => MOST,
            };
            if !(0.0..=most).contains(figure) {
                return Err(format!("it reports a {name} of {figure}"));
            }
        }
        Ok(())
    }

    /// Checks that no time span in the report is longer than the trial.
    fn check_times(&self, half: &EndpointReport, series: Option<&Series>) -> Checked {
        let spans = [
            ("received for", half.receive_span.and_then(length)),
            (SENT_FOR, half.send_span_ns),
            ("kept a series of", series.and_then(|series| series.at_ns.last().copied())),
            ("saw delays differ by", half.delay_variation_ns.as_ref().and_then(greatest)),
            ("saw delays of", half.least_delay_ns.map(|ns| ns.max(0).unsigned_abs())),
            ("was late by", half.send_lateness_ns.as_ref().and_then(greatest)),
            ("measured round trips of", half.rtt_ns.as_ref().and_then(greatest)),
        ];
        if half.receive_span.is_some_and(|span| length(span).is_none()) {
            return Err("it received its last byte before its first".to_owned());
        }
        for (what, span) in spans {
            let span = Nanos(span.unwrap_or(0));
            let most = if what == SENT_FOR { self.scheduled() } else { self.took };
            if span > self.most(most) {
                return Err(format!("it {what} {span} in a trial of {}", self.took));
            }
        }
        Ok(())
    }

    /// Returns the length of the trial, or of its schedule if that is longer: the last slot of a schedule may end after
    /// its message has arrived.
    fn scheduled(&self) -> Nanos {
        self.took.max(self.task.info().planned.unwrap_or_default())
    }

    /// Returns the longest time that another clock may show for `span` of this end's clock.
    fn most(&self, span: Nanos) -> Nanos {
        Nanos((span.0 as f64 * CLOCKS) as u64) + SOON
    }

    /// Checks that data did not arrive in far less time than it was sent in.
    fn check_haste(&self, far: &AgentReport) -> Checked {
        let flows = &self.task.info().flows;
        for (flow, near, half) in self.halves(far) {
            if flows[flow] != Some(Direction::Down) {
                let at = |what: String| of_flow(flow, flows.len(), what);
                self.check_haste_of(flow, near, half).map_err(at)?;
            }
        }
        Ok(())
    }

    /// Checks one flow. Any part of the data may be lost, so only the share that arrived is checked; retransmitted data
    /// began to arrive late. An honest far end breaks this rule if a busy host holds it up before its first receive.
    fn check_haste_of(&self, flow: usize, near: &EndpointReport, far: &EndpointReport) -> Checked {
        let conn = self.near.conns.get(flow);
        let is_clean = conn.is_some_and(|conn| conn.retransmits.unwrap_or(0) == 0);
        let spans = near.send_span_ns.zip(far.receive_span.and_then(length));
        let (Some((sent_in, received_in)), true) = (spans, is_clean && near.sent.bytes > 0) else {
            return Ok(());
        };
        let before = far.receive_span.map_or(0, |span| span.first_bytes + span.warmup_bytes);
        let counted = far.received.bytes.saturating_sub(before);
        let share = counted as f64 / near.sent.bytes as f64;
        let handshake = conn.map_or(0, |conn| 2 * conn.connect_ns);
        let least = Nanos((sent_in as f64 * share * LEAST_SHARE) as u64) - PAUSE;
        if Nanos(received_in.saturating_add(handshake)) < least {
            return Err(format!(
                "says that it received {} in {}, which took {} to send: it is wrong, or its host held it up before the \
                 first of it",
                Bytes(counted),
                Nanos(received_in),
                Nanos(sent_in)
            ));
        }
        Ok(())
    }

    /// Checks that the far end sent exactly the bytes that the workload asks for, apart from completing its last
    /// message and from headers within the messages.
    fn check_sent(&self, far: &AgentReport) -> Checked {
        let Some(most) = self.task.info().most_bytes else { return Ok(()) };
        let flows = &self.task.info().flows;
        let message = self.task.info().largest_message as u64;
        let answers = far.halves.iter().map(|half| &half.received);
        let answers = answers.map(|got| got.messages.saturating_add(got.duplicates));
        let spare = total(answers).max(flows.len() as u64).saturating_mul(message);
        let sent = total(far.halves.iter().map(|half| half.sent.bytes));
        let most = most.saturating_mul(2).saturating_add(spare);
        if sent > most {
            let sent = Bytes(sent);
            return Err(format!("it sent {sent}, and the workload has {} at most", Bytes(most)));
        }
        Ok(())
    }

    fn check_cost(&self, far: &AgentReport) -> Checked {
        let shares = far.halves.iter().filter_map(|half| half.late_send_share);
        for share in shares.chain(far.steal_share) {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("it reports a share of {share}"));
            }
        }
        if let Some(load) = far.load.filter(|load| !(0.0..1e6).contains(load)) {
            return Err(format!("it reports a load of {load}"));
        }
        if far.cost.waiting_ns.is_some_and(|waited| waited > far.cost.cpu_ns) {
            return Err("it waited for longer than it ran".to_owned());
        }
        Ok(())
    }
}

/// Facts of a trial of commands that this end knows by itself.
pub(super) struct CommandFacts {
    /// True if the server command writes what it receives to a file.
    pub(super) receives: bool,
    /// Bytes of the transfer, if the work is one.
    pub(super) moves: Option<u64>,
}

impl CommandFacts {
    /// Checks what a server reports of its command.
    ///
    /// # Errors
    /// Returns the first claim that cannot be true, with the reason.
    pub(super) fn check(&self, far: &AgentReport) -> Checked {
        self.check_command(far).map_err(impossible)
    }

    fn check_command(&self, far: &AgentReport) -> Checked {
        check_size("its cost", &far.cost)?;
        let Some(command) = &far.command else {
            return Err("it says nothing of its command".to_owned());
        };
        check_size("a figure of its command", command)?;
        let received = match (&command.received, self.receives) {
            (Some(received), true) => received,
            (None, false) => return Ok(()),
            (None, true) => return Err("its command wrote nothing of what it received".to_owned()),
            (Some(_), false) => {
                return Err("its command wrote a file that the pair has not".to_owned());
            }
        };
        if !is_digest(&received.sha256) {
            return Err("its SHA-256 is none".to_owned());
        }
        match self.moves.filter(|moved| *moved != received.bytes) {
            Some(moved) => Err(format!(
                "its command received {} of {} that were moved",
                Bytes(received.bytes),
                Bytes(moved)
            )),
            None => Ok(()),
        }
    }
}

/// Checks that no more arrived than was sent.
fn check_counts(near: &EndpointReport, far: &EndpointReport) -> Checked {
    let ways = [
        ("it received", far.received, "this end sent", near.sent),
        ("this end received", near.received, "it sent", far.sent),
    ];
    for (received, got, sent, gave) in ways {
        if got.messages > gave.messages || got.bytes > gave.bytes {
            return Err(format!(
                "{received} {}, and {sent} {}",
                amount(got.messages, got.bytes),
                amount(gave.messages, gave.bytes)
            ));
        }
    }
    if let Some(span) = far.receive_span
        && span.first_bytes.saturating_add(span.warmup_bytes) > far.received.bytes
    {
        return Err("more bytes came before it counted than came in all".to_owned());
    }
    if let Some(content) = &far.content {
        if content.arrived > near.sent.bytes || content.checked > content.arrived {
            return Err(format!("it has {} of the content", Bytes(content.arrived)));
        }
        if !content.sha256.as_ref().is_none_or(|hash| is_digest(hash)) {
            return Err("its SHA-256 is none".to_owned());
        }
    }
    Ok(())
}

fn amount(messages: u64, bytes: u64) -> String {
    match messages {
        0 => Bytes(bytes).to_string(),
        messages => format!("{messages} messages ({})", Bytes(bytes)),
    }
}

fn length(span: ReceiveSpan) -> Option<u64> {
    span.last_ns.checked_sub(span.first_ns)
}

/// Returns the longest of all times in a distribution.
fn greatest(times: &Distribution) -> Option<u64> {
    let quantiles = [times.p50, times.p90, times.p99, times.p999];
    let quantiles = quantiles.into_iter().flatten().map(Quantile::at_least_ns);
    quantiles.chain(times.min).chain(times.max).max()
}

/// Checks the counts that the far end reports as sent; this end gets them before the report.
///
/// # Errors
/// Returns the first count that cannot be true.
pub(super) fn check_tallies(sent: &[Tally]) -> Checked {
    check_size("a count", sent)
}

fn check_headers(conn: &ConnStats) -> Checked {
    let Some(headers) = &conn.headers else { return Ok(()) };
    let parts = [headers.ip_bytes, headers.transport_bytes, headers.framing_bytes];
    match parts.iter().find(|bytes| **bytes > LARGEST_HEADER) {
        Some(bytes) => Err(format!("its packets have headers of {bytes} bytes")),
        None if headers.packets.is_some_and(|packets| packets > 1 << 40) => {
            Err("it sent more packets than fit into a trial".to_owned())
        }
        None => Ok(()),
    }
}

fn check_size(what: &str, of: &(impl Serialize + ?Sized)) -> Checked {
    let value = deadheat_base::json::tree(of).map_err(|e| format!("{what} of it: {e}"))?;
    match largest(&value) {
        Some(number) if number > MOST => Err(format!("{what} is {number:.3e}")),
        _ => Ok(()),
    }
}

/// Returns the greatest absolute value of all numbers in `value`.
fn largest(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64().map(f64::abs),
        Value::Array(values) => values.iter().filter_map(largest).reduce(f64::max),
        Value::Object(fields) => fields.values().filter_map(largest).reduce(f64::max),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::measurements::{Cost, Headers, Pacing};
    use deadheat_records::commands::{CommandReport, ReceivedContent};

    const SECOND: u64 = 1_000_000_000;

    fn tally(bytes: u64) -> Tally {
        Tally { messages: bytes / 1000, bytes, ..Tally::default() }
    }

    /// 1 MB that this end sent in a second.
    fn near() -> AgentReport {
        let half = EndpointReport {
            sent: tally(1_000_000),
            send_span_ns: Some(SECOND),
            ..EndpointReport::default()
        };
        let conn = ConnStats { connect_ns: 1_000_000, ..ConnStats::default() };
        AgentReport { halves: vec![half], conns: vec![conn], ..AgentReport::default() }
    }

    /// Returns the report of an honest far end on that.
    fn far() -> AgentReport {
        let span =
            ReceiveSpan { first_ns: 7, last_ns: 7 + SECOND, first_bytes: 1000, warmup_bytes: 0 };
        let half = EndpointReport {
            received: tally(990_000),
            receive_span: Some(span),
            ..EndpointReport::default()
        };
        let conn = ConnStats {
            headers: Some(Headers {
                ip_bytes: 20,
                transport_bytes: 8,
                framing_bytes: 0,
                mtu: Some(1500),
                packets: None,
            }),
            ..ConnStats::default()
        };
        AgentReport { halves: vec![half], conns: vec![conn], ..AgentReport::default() }
    }

    fn doubt(change: impl FnOnce(&mut AgentReport)) -> Option<String> {
        let task = deadheat_contract::workload::parse("bulk:time=1s").unwrap();
        let (near, mut far) = (near(), far());
        change(&mut far);
        let took = Nanos(SECOND + SECOND / 10);
        TrialFacts { near: &near, task: &*task, took }.check(&far).err()
    }

    #[test]
    fn an_honest_report_is_believed() {
        assert_eq!(doubt(|_| {}), None);
        // All but a tenth was lost, and that in one piece.
        let lossy = |far: &mut AgentReport| {
            far.halves[0].received = tally(100_000);
            far.halves[0].receive_span.as_mut().unwrap().last_ns = 7 + SECOND / 10;
        };
        assert_eq!(doubt(lossy), None);
    }

    #[test]
    fn each_lie_is_named() {
        type Lie = fn(&mut AgentReport);
        let lies: [(Lie, &str); 18] = [
            (|far| far.halves[0].received = tally(1_001_000), "it received 1001 messages"),
            (|far| far.halves[0].received.bytes = 1_000_001, "this end sent 1000 messages"),
            (|far| far.halves.clear(), "0 flows of a trial with 1 flows"),
            (|far| far.conns.resize(9, ConnStats::default()), "9 connections"),
            (
                |far| far.halves[0].receive_span.as_mut().unwrap().last_ns = 7 + SECOND / 5,
                "says that it received 989 kB in 200 ms, which took 1.00 s to send: it is wrong, or its host",
            ),
            (
                |far| far.halves[0].receive_span.as_mut().unwrap().last_ns = 5 * SECOND,
                "received for",
            ),
            (
                |far| far.halves[0].receive_span.as_mut().unwrap().last_ns = 1,
                "last byte before its first",
            ),
            (
                |far| far.halves[0].receive_span.as_mut().unwrap().warmup_bytes = u64::MAX,
                "before it counted",
            ),
            (|far| far.halves[0].received.duplicates = u64::MAX, "a count is"),
            (|far| far.conns[0].retransmits = Some(u64::MAX), "a connection's count is"),
            (|far| far.conns[0].headers.as_mut().unwrap().ip_bytes = 4000, "headers of 4000 bytes"),
            (|far| far.halves[0].segments = vec![1e300], "a part's figure is"),
            (
                |far| far.halves[0].pacing = Some(Pacing { slots: u64::MAX, ..Pacing::default() }),
                "its schedule is",
            ),
            (|far| far.steal_share = Some(1.5), "a share of 1.5"),
            (|far| far.load = Some(-1.0), "a load of -1"),
            (
                |far| far.cost = Cost { cpu_ns: 1, waiting_ns: Some(2), ..Cost::default() },
                "longer than it ran",
            ),
            (
                |far| {
                    far.halves[0].delay_variation_ns = Some(Distribution {
                        p99: Some(Quantile::Ns(9 * SECOND)),
                        ..Distribution::default()
                    });
                },
                "saw delays differ by",
            ),
            (|far| far.halves[0].least_delay_ns = Some(9 * SECOND as i64), "saw delays of"),
        ];
        for (lie, named) in lies {
            let said = doubt(lie).unwrap_or_else(|| panic!("`{named}` was believed"));
            assert!(said.contains(named), "{said}");
            // A host that is busy makes no liar.
            assert_eq!(said.starts_with("cannot be true: "), !named.starts_with("says"), "{said}");
        }
    }

    #[test]
    fn a_far_end_sends_what_it_was_asked_for() {
        let task = deadheat_contract::workload::parse("bulk:bytes=1MB,direction=down").unwrap();
        let got = EndpointReport { received: tally(1_000_000), ..EndpointReport::default() };
        let near = AgentReport { halves: vec![got], ..AgentReport::default() };
        let check = |bytes| {
            let gave = EndpointReport { sent: tally(bytes), ..EndpointReport::default() };
            let far = AgentReport { halves: vec![gave], ..AgentReport::default() };
            TrialFacts { near: &near, task: &*task, took: Nanos(SECOND) }.check(&far)
        };
        assert_eq!(check(1_000_000), Ok(()));
        assert!(check(999_000).unwrap_err().contains("this end received 1000 messages"));
        assert!(check(9_000_000).unwrap_err().contains("it sent 9.00 MB"));
    }

    /// Twenty messages a tenth of a second apart are sent for 2 s, and the last is there after 1.9.
    #[test]
    fn a_schedule_may_last_until_the_end_of_its_last_slot() {
        let task = deadheat_contract::workload::parse("state:hz=10,count=20,size=1000").unwrap();
        let check = |span: u64| {
            let sent = tally(20_000);
            let far =
                EndpointReport { sent, send_span_ns: Some(span), ..EndpointReport::default() };
            let far = AgentReport {
                halves: vec![far],
                conns: vec![ConnStats::default()],
                ..AgentReport::default()
            };
            let half = EndpointReport { received: sent, ..EndpointReport::default() };
            let near = AgentReport { halves: vec![half], ..AgentReport::default() };
            TrialFacts { near: &near, task: &*task, took: Nanos(1_900_000_000) }.check(&far)
        };
        assert_eq!(check(2 * SECOND), Ok(()));
        assert!(check(3 * SECOND).unwrap_err().contains("sent for 3.00 s"));
    }

    #[test]
    fn a_series_is_of_one_length_and_in_order() {
        let series = |at_ns: &[u64]| Series {
            at_ns: at_ns.to_vec(),
            sent_bytes: vec![0; 2],
            received_bytes: vec![0; 2],
            ..Series::default()
        };
        assert_eq!(doubt(|far| far.series = vec![series(&[1, SECOND])]), None);
        let began = |began_ns| Series { began_ns: Some(began_ns), ..series(&[1, SECOND]) };
        assert_eq!(doubt(|far| far.series = vec![began(1_800_000_000 * SECOND)]), None);
        assert!(doubt(|far| far.series = vec![began(u64::MAX)]).unwrap().contains("2116"));
        for bad in [&[1][..], &[2, 1], &[1, 2, 3]] {
            assert!(doubt(|far| far.series = vec![series(bad)]).unwrap().contains("its series"));
        }
        let late = doubt(|far| far.series = vec![series(&[1, 9 * SECOND])]).unwrap();
        assert!(late.contains("kept a series of 9.00 s"), "{late}");
    }

    #[test]
    fn a_lie_about_a_command_is_named() {
        let report = |bytes, sha256: &str| {
            let received = Some(ReceivedContent { bytes, sha256: sha256.to_owned() });
            let command = CommandReport { received, ..CommandReport::default() };
            AgentReport { command: Some(Box::new(command)), ..AgentReport::default() }
        };
        let facts = CommandFacts { receives: true, moves: Some(7) };
        let hash = "0".repeat(64);
        facts.check(&report(7, &hash)).unwrap();
        let none = AgentReport { command: Some(Box::default()), ..AgentReport::default() };
        let costly = Cost { cpu_ns: 1 << 60, ..Cost::default() };
        for (far, why) in [
            (report(8, &hash), "received 8 B of 7 B"),
            (report(7, "\u{1b}"), "SHA-256 is none"),
            (none.clone(), "wrote nothing"),
            (AgentReport::default(), "nothing of its command"),
            (AgentReport { cost: costly, ..report(7, &hash) }, "its cost is"),
        ] {
            let said = facts.check(&far).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        CommandFacts { receives: false, moves: None }.check(&none).unwrap();
    }
}
