//! Sender of a trial over time, as its congestion control reports it: window, bytes in flight, rate, round trip and
//! phases.

use deadheat_contract::measurements::congestion::CongestionPhase;
use deadheat_contract::measurements::series::{Series, TcpColumns};
use deadheat_result::outcome::Trial;

/// Maximum number of points of a line: the largest value of each group of neighbours.
const MOST_POINTS: usize = 400;

/// Values over time; `None` where there are none.
pub(super) type Values = Vec<(f64, Option<f64>)>;

/// Lines of one flow of a trial: the sender with the most bytes.
#[derive(Default)]
pub(super) struct SenderLines {
    pub(super) window: Values,
    pub(super) in_flight: Values,
    pub(super) rate: Values,
    pub(super) round_trip: Values,
    /// Start, end and name of each phase, except steady ones.
    pub(super) phases: Vec<(u64, u64, CongestionPhase)>,
}

/// Returns the lines of a trial's sender; all are empty if it reports nothing.
pub(super) fn lines(trial: &Trial) -> SenderLines {
    let flows = trial.record.intervals.iter().chain(&trial.record.far_intervals);
    let senders = flows.filter_map(|flow| Some((flow, flow.tcp.as_ref()?)));
    let Some((series, tcp)) = senders.max_by_key(|(flow, _)| flow.sent_bytes.last().copied())
    else {
        return SenderLines::default();
    };
    of_flow(series, tcp)
}

/// Returns the lines of one flow.
pub(super) fn of_flow(series: &Series, tcp: &TcpColumns) -> SenderLines {
    let of = |column: fn(&TcpColumns) -> &Vec<Option<u64>>| thinned(series, column(tcp));
    SenderLines {
        window: of(|tcp| &tcp.cwnd_bytes),
        in_flight: of(|tcp| &tcp.in_flight_bytes),
        rate: of(|tcp| &tcp.delivery_rate_bps),
        round_trip: of(|tcp| &tcp.srtt_ns),
        phases: phases(series),
    }
}

impl SenderLines {
    /// Returns the lines with all times later by `by` nanoseconds.
    pub(super) fn later(mut self, by: u64) -> SenderLines {
        let lines = [&mut self.window, &mut self.in_flight, &mut self.rate, &mut self.round_trip];
        lines.into_iter().flatten().for_each(|(at, _)| *at += by as f64);
        self.phases.iter_mut().for_each(|(from, to, _)| {
            (*from, *to) = (from.saturating_add(by), to.saturating_add(by))
        });
        self
    }
}

fn thinned(series: &Series, column: &[Option<u64>]) -> Values {
    let group = series.at_ns.len().min(column.len()).div_ceil(MOST_POINTS).max(1);
    let groups = series.at_ns.chunks(group).zip(column.chunks(group));
    let largest = |values: &[Option<u64>]| values.iter().flatten().max().map(|most| *most as f64);
    groups.filter_map(|(at, values)| Some((*at.last()? as f64, largest(values)))).collect()
}

fn phases(series: &Series) -> Vec<(u64, u64, CongestionPhase)> {
    let end = series.at_ns.last().copied().unwrap_or(0);
    let next = series.phases.iter().skip(1).map(|change| change.at_ns).chain([end]);
    let all = series.phases.iter().zip(next).map(|(from, to)| (from.at_ns, to, from.phase));
    let is_told =
        |phase| !matches!(phase, CongestionPhase::Avoidance | CongestionPhase::ProbeBandwidth);
    all.filter(|(from, to, phase)| from < to && is_told(*phase)).collect()
}
