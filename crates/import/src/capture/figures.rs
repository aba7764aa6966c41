//! Trial of a connection: its figures, its series, and what can no longer be concluded from it.

use std::net::SocketAddr;

use super::connection::{Connection, ConnectionState, Tcp, Udp};
use crate::rates::{GOODPUT, metric, rate, time};
use crate::samples::{MetricNaming, SampleBuffer};
use crate::{ImportedTrial, ReaderContext};
use deadheat_contract::measurements::series::rate_bps;
use deadheat_contract::measurements::{Better, Effective, Metric, Outage, Role, Unit};

/// Payload from which a connection has a rate.
const BULK_BYTES: u64 = 64 << 10;
/// Datagrams from which a flow over UDP that is not QUIC is a trial.
const FEWEST_DATAGRAMS: u64 = 20;
/// Share of the round trip that the nearer end is away from the capture, up to which the capture is at that end.
const AT_END: f64 = 0.1;
/// Times before 1973 are of a clock that did not begin in 1970.
const FIRST_DATE_NS: u64 = 100_000_000_000_000_000;

/// Throughput: packets with their headers, repeated ones included.
const THROUGHPUT: &str = "throughput_bps";

impl Connection {
    /// Returns its service: the contender, if deadheat wrote the capture, or protocol, address and port of the server.
    pub(super) fn service(&self) -> String {
        let protocol = match &self.state {
            ConnectionState::Tcp(_) => "tcp",
            ConnectionState::Udp(udp) if udp.quic.is_some() => "quic",
            ConnectionState::Udp(_) => "udp",
        };
        self.title.clone().unwrap_or_else(|| format!("{protocol} {}", shown(self.ends[1])))
    }

    /// Returns true for a few datagrams of a name look-up, a clock or a search for devices.
    pub(super) fn is_short_exchange(&self) -> bool {
        let is_plain = matches!(&self.state, ConnectionState::Udp(udp) if udp.quic.is_none());
        is_plain && self.title.is_none() && self.packets.iter().sum::<u64>() < FEWEST_DATAGRAMS
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self.state, ConnectionState::Tcp(_))
    }

    /// Returns the trial. `rates` is the role of throughputs.
    ///
    /// # Errors
    /// If its round trips cannot be stored.
    pub(super) fn trial(
        &self,
        rates: Role,
        context: &mut ReaderContext<'_>,
    ) -> Result<ImportedTrial, String> {
        let mut trial = self.round_trips(context)?;
        let took = self.last_ns - self.first_ns;
        trial.record.took_ns = took;
        trial.record.started_ms =
            if self.first_ns < FIRST_DATE_NS { 0 } else { self.first_ns / 1_000_000 };
        let bytes: u64 = self.bytes.iter().sum();
        if bytes >= BULK_BYTES {
            let throughput = metric(THROUGHPUT, "throughput", Unit::BitRate, rates);
            trial.add(throughput, rate_bps(bytes as f64, took).unwrap_or(f64::NAN));
        }
        match &self.state {
            ConnectionState::Tcp(tcp) => self.tcp(tcp, rates, &mut trial),
            ConnectionState::Udp(udp) => self.udp(udp, &mut trial),
        }
        for (side, effective) in
            [&mut trial.record.effective, &mut trial.record.far_effective].into_iter().enumerate()
        {
            effective.insert("largest_packet".into(), self.largest[side].to_string());
        }
        let [near, far] = self.points.series(self.is_tcp());
        (trial.record.intervals, trial.record.far_intervals) = (vec![near], vec![far]);
        if self.is_stepped {
            trial.record.valid = false;
            trial.record.why_invalid = Some("the clock of the capture was set back amid it".into());
        }
        Ok(trial)
    }

    /// Returns a trial with the round trips alone.
    fn round_trips(&self, context: &mut ReaderContext<'_>) -> Result<ImportedTrial, String> {
        let (values, thinned, is_partial) = match &self.state {
            ConnectionState::Tcp(tcp) => {
                // Of the direction with the most.
                let [near, far] = &tcp.ways;
                let most = if far.round_trips.len() > near.round_trips.len() { far } else { near };
                let whole = most.round_trip.unwrap_or(0) as f64;
                let is_away = most.least_answer.unwrap_or(0) as f64 > AT_END * whole;
                (&most.round_trips, most.thinned(), is_away && !most.has_answers)
            }
            ConnectionState::Udp(udp) => (&udp.round_trips, 1, false),
        };
        let spins = match &self.state {
            ConnectionState::Udp(udp) => udp.quic.as_ref().is_some_and(|quic| quic.spins()),
            ConnectionState::Tcp(_) => true,
        };
        if values.is_empty() || !spins {
            return Ok(ImportedTrial::complete());
        }
        let mut samples = SampleBuffer::default();
        values.iter().try_for_each(|ns| samples.push(*ns))?;
        let mut trial = samples.trial(&MetricNaming::rtt(), context)?;
        // Round trips may rise all the time, and times of a capture are not coarse.
        trial.doubts.clear();
        if is_partial {
            trial.doubts.push(
                "It has no time stamps: of the way between the capture and the sender its round trips have the least \
                 time."
                    .into(),
            );
        }
        if thinned > 1 {
            trial.doubts.push(format!("Of its round trips, one in {thinned} is in the figures."));
        }
        Ok(trial)
    }

    fn tcp(&self, tcp: &Tcp, rates: Role, trial: &mut ImportedTrial) {
        trial.record.effective = tcp.options(0);
        trial.record.far_effective = tcp.options(1);
        trial.record.connect_ns = tcp.connect_ns.unwrap_or(0);
        let sum = |of: fn(&super::way::Way) -> u64| -> u64 { tcp.ways.iter().map(of).sum() };
        if let Some(ns) = tcp.connect_ns {
            trial.add(time("connect", "connect", Role::Descriptive), ns as f64);
        }
        if let Some(ns) = tcp.ways[0].round_trip {
            trial.add(time("rtt_min", "RTT min", Role::Descriptive), ns as f64);
        }
        let arrived = sum(super::way::Way::arrived);
        trial.record.delivered_bytes = Some(arrived);
        self.goodput(tcp, rates, trial);
        // The figure of bulk data stands before that of messages.
        trial.metrics.sort_by_key(|own| own.name != GOODPUT);
        let segments = sum(|way| way.segments);
        // A packet that the capture dropped may have been sent again, or not.
        let unseen = sum(|way| way.unseen);
        if unseen > 0 {
            trial.doubts.push(
                "Acknowledged bytes are not in the capture, which lacks packets: no losses are concluded.".into(),
            );
        } else if segments > 0 {
            trial.record.retransmits = Some(sum(|way| way.repeated + way.lost_before));
            let share = |count: u64| count as f64 / segments as f64;
            let sent_again = sum(|way| way.repeated + way.lost_before);
            for (name, label, count) in [
                ("lost_segments_share", "segments lost", sum(super::way::Way::lost)),
                ("sent_again_share", "segments sent again", sent_again),
            ] {
                trial.add(metric(name, label, Unit::Share, Role::Descriptive), share(count));
            }
        }
        for (name, label, value) in [
            ("timeouts_count", "retransmission time-outs", sum(|way| way.timeouts)),
            ("reordered_count", "segments reordered", sum(|way| way.reordered)),
            ("zero_windows_count", "zero windows", sum(|way| way.zero_windows)),
            ("delayed_acks_count", "delayed acknowledgements", sum(|way| way.delayed_acks)),
            (
                "nagle_waits_count",
                "Nagle waits for delayed acknowledgements",
                sum(|way| way.nagle_waits),
            ),
        ] {
            trial.add(count(name, label), value as f64);
        }
        for (name, label, value) in [
            ("nagle_waits_ns", "time in Nagle waits", sum(|way| way.nagle_ns)),
            ("zero_windows_ns", "time of zero windows", sum(|way| way.zero_ns)),
        ] {
            trial.add(metric(name, label, Unit::Nanos, Role::Descriptive), value as f64);
        }
        let since = |mut outage: Outage| {
            outage.from_ns = outage.from_ns.saturating_sub(self.first_ns);
            outage
        };
        let outages = tcp.ways.iter().flat_map(|way| way.outages.iter().copied().map(since));
        trial.record.outages = Outage::joined(outages.collect());
        self.ended(tcp, trial);
    }

    /// Adds the goodput of a connection that had data in flight for most of its time, and the limits of its larger direction.
    fn goodput(&self, tcp: &Tcp, rates: Role, trial: &mut ImportedTrial) {
        let [near, far] = &tcp.ways;
        let way = if far.arrived() > near.arrived() { far } else { near };
        let Some(first) = way.first_data else { return };
        let span = way.last_progress.saturating_sub(first);
        let (busy, limited) = way.busy_and_limited(self.last_ns);
        if way.arrived() < BULK_BYTES || span == 0 {
            return;
        }
        let share = |part: u64, whole: u64| part.min(whole) as f64 / whole.max(1) as f64;
        let of_time = |name, label| metric(name, label, Unit::Share, Role::Descriptive);
        trial.add(of_time("busy_share", "time with data in flight"), share(busy, span));
        if way.window.is_some() {
            let label = "of it, limited by the receive window";
            trial.add(of_time("rwnd_limited_share", label), share(limited, busy));
            trial.add(
                count("receive_window_bytes", "widest receive window, bytes"),
                way.widest_window as f64,
            );
        }
        trial.add(count("in_flight_bytes", "most in flight, bytes"), way.most_flight as f64);
        if busy.saturating_mul(2) >= span {
            let role = if rates == Role::Claim { Role::Descriptive } else { Role::Claim };
            trial
                .add(rate(GOODPUT, role), rate_bps(way.arrived() as f64, span).unwrap_or(f64::NAN));
        }
    }

    /// Notes how the connection began and ended.
    fn ended(&self, tcp: &Tcp, trial: &mut ImportedTrial) {
        let [near, far] = tcp.ways.each_ref().map(|way| way.syn.is_some());
        let has_data = tcp.ways.iter().any(|way| way.bytes > 0);
        let mut note = |text: &str| trial.doubts.push(text.to_owned());
        if has_data && !(near && far) {
            note(
                "It began before the capture: scale of the receive window, segment sizes and handshake are not \
                 known.",
            );
        }
        if tcp.ways.iter().any(|way| way.super_segments > 0) {
            note(
                "Packets were captured before they were cut into segments, or after they were put together (offload): \
                 their sizes and numbers are not those of the path.",
            );
        }
        for (side, name) in ["client", "server"].into_iter().enumerate() {
            if tcp.resets[side] && has_data {
                note(&format!("The {name} reset it."));
            }
        }
        if tcp.syns > 1 && near && far {
            note("Its SYN was sent again.");
        }
        if !has_data {
            let why = match (tcp.resets, near, far) {
                ([_, true], _, false) => "the server refused the connection",
                (_, true, false) => "no answer to its SYN",
                _ => "no data was sent",
            };
            trial.record.valid = false;
            trial.record.why_invalid = Some(format!("failed: {why}"));
        }
        if let [Some(near), Some(far)] = tcp.ways.each_ref().map(|way| way.least_answer) {
            let share = near as f64 / near.saturating_add(far).max(1) as f64;
            let place = match share {
                share if share <= AT_END => "at the client",
                share if share >= 1.0 - AT_END => "at the server",
                _ => "between the ends",
            };
            trial.record.effective.insert("captured".into(), place.into());
        }
        // Numbers of both SYNs tell a run that was captured at both ends.
        if let [Some(near), Some(far)] = tcp.ways.each_ref().map(|way| way.syn) {
            trial.identity = Some(format!("tcp {:?} {} {}", self.ends, near.seq, far.seq));
        }
    }

    fn udp(&self, udp: &Udp, trial: &mut ImportedTrial) {
        let packets: u64 = self.packets.iter().sum();
        if let Some(quic) = &udp.quic {
            if let Some(ns) = quic.connected {
                trial.record.connect_ns = ns;
                trial.add(time("connect", "connect", Role::Descriptive), ns as f64);
            }
            let id = |bytes: &[u8]| deadheat_base::units::hex::hex(bytes);
            trial.record.effective.insert("connection_id".into(), id(&quic.first_id));
            trial.record.far_effective.insert("connection_id".into(), id(&quic.server_id));
            trial.record.effective.insert("version".into(), format!("{:#x}", quic.version));
            trial.unknown.push("what QUIC sent again, and its windows, which are encrypted");
            if !quic.spins() {
                trial.unknown.push("round trips of QUIC without a spin bit");
            }
        }
        if self.has_outcomes && packets > 0 {
            let lost: u64 = self.lost.iter().sum();
            let share = lost as f64 / packets as f64;
            trial.add(
                metric("lost_packets_share", "packets lost", Unit::Share, Role::Descriptive),
                share,
            );
        }
    }
}

impl Tcp {
    /// Returns the options of an end's SYN.
    fn options(&self, side: usize) -> Effective {
        let Some(syn) = self.ways[side].syn else { return Effective::new() };
        let known = [
            ("mss", syn.mss.map(|bytes| bytes.to_string())),
            ("window_scale", syn.scale.map(|bits| bits.to_string())),
            ("timestamps", Some(if syn.stamps.is_some() { "on" } else { "off" }.to_owned())),
        ];
        known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Returns the metric of a number of which less is better.
fn count(name: &str, label: &str) -> Metric {
    Metric { better: Better::Lower, ..metric(name, label, Unit::Count, Role::Descriptive) }
}

/// Returns an address without the form of IPv4 in IPv6.
fn shown(end: SocketAddr) -> String {
    SocketAddr::new(end.ip().to_canonical(), end.port()).to_string()
}
