//! Record of a trial, and facts of the path that it took, as a result has them.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use deadheat_base::time::Nanos;
use deadheat_base::unset::is_unset;
use deadheat_contract::measurements::path::{Captured, PathFigures};
use deadheat_contract::measurements::series::Series;
use deadheat_contract::measurements::{
    ClockEstimate, Cost, Distribution, Effective, Fallback, HostCounters, Ledger, Marks, Metrics,
    Outage, PacedFlow, Packets, Throttled, Verified, WarmUp, Wire,
};
use deadheat_contract::recorded::FarEndFacts;
use deadheat_path::PathKind;

use crate::commands::CommandReport;
use crate::path::{BuiltPath, ReachFacts};
use crate::probed::ProbedPath;

/// The path of a race.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PathFacts {
    /// Path as typed: `loopback`, an emulated path, or the host after `--to`.
    pub spec: String,
    /// Kind of the path.
    pub kind: PathKind,
    /// Address of the far end; empty if it has none.
    pub address: String,
    /// Emulated path that was built for the race, if any.
    pub built: Option<Box<BuiltPath>>,
    /// Way to a far end behind a server; absent for all others, and in results from before it was recorded.
    pub reached: Option<Box<ReachFacts>>,
    /// Far end, if it is one of others: what it counts, and what cannot be known from it.
    pub far_end: Option<Box<FarEndFacts>>,
}

/// Figures and circumstances of a trial that ran.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Record {
    /// True if the trial passed its gate.
    pub valid: bool,
    /// Reason why it is invalid.
    pub why_invalid: Option<String>,
    /// Time at which the far end was lost, in milliseconds since the Unix epoch, if the trial's block was lost with
    /// it; the block then ran anew, and this trial is in no figure.
    pub lost_ms: Option<u64>,
    /// True if the contender lost its connection amid the trial, which has no figures then.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub disconnected: bool,
    /// Transport with its implementation: `tcp/linux-6.18/cubic`.
    pub implementation: String,
    /// Figures by which contenders are compared.
    pub metrics: Metrics,
    /// Metrics censored at the timeout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub censored: Vec<String>,
    /// Round-trip times from the intended send time.
    pub rtt_ns: Option<Distribution>,
    /// Distribution of the generator's lateness.
    pub send_lateness_ns: Option<Distribution>,
    /// Largest effect of that lateness on the claimed figure: the logarithm of the ratio by which it was made worse. 0
    /// if nothing was late; absent if there is no schedule, or if the figure is censored.
    pub late_effect: Option<f64>,
    /// Claimed figure of consecutive parts of the trial, if the parts are known; not in the file.
    #[serde(skip)]
    pub segments: Vec<f64>,
    /// Messages that warmed the trial up; they are in no other figure.
    pub warmup: Option<WarmUp>,
    /// Outcome of the schedule of each paced flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paced: Vec<PacedFlow>,
    /// Far clock in relation to the near one.
    pub clock: Option<ClockEstimate>,
    /// Ledger of the messages: the fate of each.
    pub ledger: Ledger,
    /// Result of checking the content, if it is kept, checked, or read from a file.
    pub verified: Option<Verified>,
    /// Cost of the trial at the near end.
    pub cost: Cost,
    /// Cost of the trial at the far end; absent if the kernel answers.
    pub far_cost: Option<Cost>,
    /// Options of the near end as read back from its first flow.
    pub effective: Effective,
    /// Options of the far end as read back from its first flow.
    #[serde(default, skip_serializing_if = "Effective::is_empty")]
    pub far_effective: Effective,
    /// Options of each flow of the near end; absent if all flows have the same as the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effective_by_flow: Vec<Effective>,
    /// Options of each flow of the far end; absent likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_effective_by_flow: Vec<Effective>,
    /// Longest connection set-up of the flows, in nanoseconds.
    pub connect_ns: u64,
    /// Segments that the transport retransmitted, both ends; absent if unknown.
    pub retransmits: Option<u64>,
    /// Datagrams restored by forward error correction, both ends; absent if there is none.
    pub recovered: Option<u64>,
    /// ECN codepoints of the datagrams that arrived at both ends; absent if the ends do not read them.
    pub marks: Option<Marks>,
    /// Packets that both ends sent, counted at the IP layer; absent if one of the ends cannot count them.
    pub wire: Option<Wire>,
    /// Errors that the network reported back (ICMP unreachable and the like), both ends.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub network_errors: u64,
    /// Fallback to the second of two transports; absent if the contender has no second one, or did not fall back.
    pub fallback: Option<Fallback>,
    /// Application bytes that arrived, both directions together; absent in results of versions that did not record it.
    pub delivered_bytes: Option<u64>,
    /// Packets per message, if each message travels as a datagram and the path MTU is known.
    pub packets: Option<Packets>,
    /// Paths to the far hosts as probes last found them; absent without far hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_mtu: Vec<ProbedPath>,
    /// Counters of the near end's network code over the trial; absent if the kernel exposes none.
    pub counters: Option<HostCounters>,
    /// Counters of the far end's network code; on one machine it reads the near end's counters once more.
    pub far_counters: Option<HostCounters>,
    /// Throttling of the near end's control group by a CPU quota over the trial; absent if it was not throttled.
    pub throttled: Option<Throttled>,
    /// Throttling at the far end; on one machine it is the same group, read once more.
    pub far_throttled: Option<Throttled>,
    /// Figures of the path from its own account; absent if this program did not build the path.
    pub path: Option<PathFigures>,
    /// Reason why the path failed its gate, if it did. It is also the reason in `why_invalid`, unless the ends had one
    /// of their own.
    pub path_invalid: Option<String>,
    /// Packets in the capture of the race (`--pcap`); absent if there is none.
    pub captured: Option<Captured>,
    /// Outages: spans in which nothing arrived, in order of time; absent if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// Series of the near end, by flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Series>,
    /// Series of the far end, by flow; absent if the kernel answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_intervals: Vec<Series>,
    /// Series of the load beside the work at its near end, by flow, counted from the load's own start; absent if there was
    /// no load. Results of before the far end had a list of its own have both ends' here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_intervals: Vec<Series>,
    /// Series of the load at its far end, by flow, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_far_intervals: Vec<Series>,
    /// Share of each flow in the goodput of all, first the work's and then the load's, from the end of the work's warm-up to
    /// its end; absent unless all send bulk data one way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_shares: Vec<f64>,
    /// Command that did the near end's work, if one did.
    pub command: Option<Box<CommandReport>>,
    /// Command that did the far end's work, if one did.
    pub far_command: Option<Box<CommandReport>>,
    /// Share of CPU time that the hypervisor took from the near host during the trial; absent if unknown.
    pub steal_share: Option<f64>,
    /// Load average (1 minute) of the near host at the start; absent if unknown.
    pub load: Option<f64>,
    /// Start time, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// Duration from start to report, in nanoseconds.
    pub took_ns: u64,
    /// Part of it in which the trial waited for its turn, as the far end served others, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub turn_wait_ns: u64,
}

impl Record {
    /// Iterates over the series of the load beside the work, of both its ends.
    pub fn load_series(&self) -> impl Iterator<Item = &Series> {
        self.load_intervals.iter().chain(&self.load_far_intervals)
    }

    /// Returns true if the trial ran to its end, so that it has figures or accounts, even if it is invalid.
    pub fn ran(&self) -> bool {
        self.lost_ms.is_none()
            && (!self.metrics.is_empty() || self.ledger.accounts().next().is_some())
    }

    /// Sets the trial's start, in milliseconds since the Unix epoch, and shifts outages to count from it: ends report
    /// them from the start of their flows, which is `after` the trial's start.
    pub fn start_at(&mut self, started_ms: u64, after: Nanos) {
        self.started_ms = started_ms;
        for outage in &mut self.outages {
            outage.from_ns = outage.from_ns.saturating_add(after.0);
        }
    }

    /// Notes the clocks of both hosts, with the reason why the trial is invalid if one was not steady. An estimate of the
    /// work itself is of the clock that it was given, and stays where it is the better one.
    pub fn on_clock(&mut self, estimate: Option<ClockEstimate>, why: Option<String>) {
        if let Some(mut estimate) = estimate {
            if let Some(own) = &self.clock
                && own.error_bound_ns < estimate.error_bound_ns
            {
                estimate.offset_ns = estimate.offset_ns.saturating_add(own.offset_ns);
                estimate.error_bound_ns = own.error_bound_ns;
                estimate.round_trip_ns = own.round_trip_ns;
                estimate.source = own.source;
            }
            estimate.n += self.clock.as_ref().map_or(0, |own| own.n);
            self.clock = Some(estimate);
        }
        self.why_invalid = self.why_invalid.take().or(why);
        self.valid = self.why_invalid.is_none();
    }

    /// Creates the record of a trial without figures; `why` is the reason.
    pub fn without_figures(why: String) -> Record {
        Record { why_invalid: Some(why), ..Record::default() }
    }
}
