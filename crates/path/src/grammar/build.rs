//! Builder of the impairments of one direction from checked settings, and the checks that take several keys.

use std::sync::Arc;

use super::forms::{self, Burst, PacketList};
use super::keys::{
    AQM, Aqm, BLOCK, BURST, CORRUPT, DELAY, DOWN, DROP, DUPLICATE, ECN, FIREWALL, GE, HAIRPIN,
    INTERVAL, JITTER, JITTER_SHAPE, LOSS, LOSS_PER, NAT, NAT_TIMEOUT, NIC, ORDER, OVERHEAD, QUEUE,
    RATE, REORDER, REORDER_DEPTH, REORDER_PATIENCE, REORDERING, TARGET, TRACE, TRACE_MODE,
};
use crate::block::Block;
use crate::down::DownTimes;
use crate::files::Files;
use crate::nat::{Dependence, Middlebox};
use crate::network::{
    Discipline, Ecn, GilbertElliott, Impairments, Jitter, Limit, Loss, LossPer, Order, Outages,
    Queue, Rate, Reorder, Shape,
};
use crate::trace::{Content, Format, OPPORTUNITY_OVERHEAD, content};
use deadheat_base::error::{Error, Result, nearest, unknown};
use deadheat_base::spec::Settings;
use deadheat_base::time::Nanos;
use deadheat_base::units::span_text;

/// Longest mean time between two outages, for which a round trip through text is exact.
const RAREST: f64 = 86_400e9;

/// Builds the impairments of one direction, and lists the keys that have no effect in it, each with the reason.
pub(super) fn impairments(
    settings: &Settings,
    mtu: u16,
    files: &mut Files<'_>,
) -> Result<(Impairments, Vec<(&'static str, String)>)> {
    let mut unused = Vec::new();
    let (rate, usual) = rate(settings, files)?;
    let overhead = settings.find(&OVERHEAD).and_then(|bytes| u32::try_from(bytes.0).ok());
    let overhead = overhead.unwrap_or(usual);
    slow(&rate, u64::from(mtu) + u64::from(overhead))?;
    let queue = queue(settings, u64::from(mtu) + u64::from(overhead))?;
    let delay = settings.get(&DELAY);
    let recorded = recorded_delay(&rate);
    if recorded.is_some() && settings.given(DELAY.name()) {
        unused.push(("delay", "every line of the trace has a delay of its own".to_owned()));
    }
    let share = |key| settings.find(key).unwrap_or(0.0);
    let loss = loss(settings, files)?;
    if matches!(loss, Loss::Outages(_)) && settings.given(LOSS_PER.name()) {
        unused.push(("loss-per", "outages take whatever comes meanwhile".to_owned()));
    }
    let loss_per = match loss {
        Loss::None | Loss::Outages(_) => LossPer::Packet,
        _ => settings.get(&LOSS_PER),
    };
    let built = Impairments {
        nic: settings.text(NIC.name).map(forms::nic).transpose()?.unwrap_or_default(),
        block: settings.text(BLOCK.name).map_or(Ok(Vec::new()), Block::parse_all)?,
        down: settings.text(DOWN.name).map_or(Ok(DownTimes::default()), DownTimes::parse)?,
        loss,
        loss_per,
        duplicate: share(&DUPLICATE),
        corrupt: share(&CORRUPT),
        rate,
        overhead,
        queue,
        // A delay that never counts is 0, so that equal networks have one text.
        delay: if recorded.is_some() { Nanos::ZERO } else { delay },
        jitter: jitter(settings, recorded.unwrap_or(delay), files)?,
        reorder: Some(share(&REORDER)).filter(|share| *share > 0.0).map(|share| Reorder {
            share,
            depth: u32::try_from(settings.get(&REORDER_DEPTH)).unwrap_or(u32::MAX),
            patience: settings.get(&REORDER_PATIENCE),
        }),
    };
    Ok((built, unused))
}

/// Builds the NAT or the firewall of a link.
pub(super) fn middlebox(settings: &Settings) -> Option<Middlebox> {
    let (mapping, filtering, is_nat64) = match (settings.find(&NAT), settings.find(&FIREWALL)) {
        (Some((mapping, filtering, is_nat64)), _) => (Some(mapping), filtering, is_nat64),
        (None, Some(())) => (None, Dependence::AddressAndPort, false),
        (None, None) => return None,
    };
    let (timeout, hairpin) = (settings.get(&NAT_TIMEOUT), settings.get(&HAIRPIN));
    Some(Middlebox { mapping, filtering, timeout, hairpin, is_nat64 })
}

fn usage(what: impl std::fmt::Display) -> Error {
    Error::usage(format!("path: {what}"))
}

fn loss(settings: &Settings, files: &mut Files<'_>) -> Result<Loss> {
    if let Some(typed) = settings.text(GE.name) {
        let [p, r, bad, good] = forms::chain(typed)?;
        return Ok(Loss::GilbertElliott(GilbertElliott { p, r, bad, good }));
    }
    if let Some(typed) = settings.text(DROP.name) {
        return Ok(match forms::picked(typed)? {
            PacketList::Here(numbers) => Loss::List(numbers.into()),
            PacketList::In(file) => Loss::List(forms::picked_in(file, files)?),
            PacketList::Every(step) => Loss::Every(step),
        });
    }
    let share = settings.find(&LOSS).unwrap_or(0.0);
    match settings.text(BURST.name).map(forms::burst).transpose()? {
        _ if share == 0.0 => Ok(Loss::None),
        None => Ok(Loss::Bernoulli(share)),
        Some(Burst::Packets(mean)) => chain_of(share, mean).map(Loss::GilbertElliott),
        Some(Burst::Time(mean)) => outages_of(share, mean).map(Loss::Outages),
    }
}

/// Returns the chain that loses `share` in bursts of `mean` packets: all packets in the bad state and none in the
/// good one, so that 1/r is the mean burst and p/(p+r) the share.
pub(super) fn chain_of(share: f64, mean: f64) -> Result<GilbertElliott> {
    let r = 1.0 / mean;
    let odds = share / (1.0 - share);
    let p = r * odds;
    if p > 1.0 {
        return Err(usage(format!(
            "loss of {:.4} % in bursts of {mean} packets is impossible, even with single packets between \
             the bursts; burst is at least {:.4}",
            share * 100.0,
            odds
        )));
    }
    Ok(GilbertElliott { p, r, bad: 1.0, good: 0.0 })
}

/// Returns outages with a mean length of `mean` that take `share` of the time.
pub(super) fn outages_of(share: f64, mean: Nanos) -> Result<Outages> {
    let good = mean.0 as f64 * (1.0 - share) / share;
    if !(1.0..=RAREST).contains(&good) {
        return Err(usage(format!(
            "with loss of {} % in bursts of {mean}, the mean time between bursts is {:.3e} s; it lies \
             between 1 ns and a day",
            share * 100.0,
            good / 1e9
        )));
    }
    Ok(Outages { good: Nanos(good.round() as u64), bad: mean })
}

/// Returns the rate, and the default overhead that belongs to it.
fn rate(settings: &Settings, files: &mut Files<'_>) -> Result<(Rate, u32)> {
    if let Some(rate) = settings.find(&RATE) {
        return Ok((Rate::Fixed(rate), 0));
    }
    let Some(file) = settings.text(TRACE.name) else { return Ok((Rate::Unlimited, 0)) };
    let mode = settings.given(TRACE_MODE.name()).then(|| settings.get(&TRACE_MODE));
    let (trace, format) = files.trace(file, mode)?;
    let overhead = match format {
        Format::Mahimahi => OPPORTUNITY_OVERHEAD,
        Format::Ours | Format::Columns => 0,
    };
    Ok((Rate::Trace(trace), overhead))
}

/// Refuses a rate at which a packet of `largest` bytes would take more than an hour.
fn slow(rate: &Rate, largest: u64) -> Result<()> {
    let bits = largest as f64 * 8.0;
    let Some(mean) = rate.mean() else { return Ok(()) };
    let what = if matches!(rate, Rate::Trace(_)) { "the trace's mean rate" } else { "rate" };
    if mean * 3_600.0 < bits {
        return Err(usage(format!(
            "{what} of {mean:.1} bit/s is less than one packet of {largest} B an hour; at least {:.0}bit",
            (bits / 3_600.0).ceil()
        )));
    }
    Ok(())
}

fn queue(settings: &Settings, largest: u64) -> Result<Queue> {
    let limit = forms::limit(settings.text(QUEUE.name).unwrap_or(QUEUE.default))?;
    if let Limit::Bytes(bytes) = limit
        && bytes < largest
    {
        return Err(usage(format!(
            "a queue of {bytes} B does not hold one packet of {largest} B (MTU and overhead)"
        )));
    }
    let target = |usual: u64| settings.find(&TARGET).unwrap_or(Nanos::from_millis(usual));
    let interval = settings.get(&INTERVAL);
    let discipline = match settings.get(&AQM) {
        Aqm::Codel => Discipline::Codel { target: target(5), interval },
        Aqm::FqCodel => Discipline::FqCodel { target: target(5), interval },
        Aqm::Pie => Discipline::Pie { target: target(15) },
        Aqm::Red => Discipline::Red,
        Aqm::DualPi2 => Discipline::DualPi2 { target: target(15) },
        Aqm::DropTail => Discipline::DropTail,
    };
    if let Discipline::Codel { target, interval } | Discipline::FqCodel { target, interval } =
        discipline
        && target >= interval
    {
        return Err(usage(format!(
            "target of {target} with an interval of {interval}; the target is shorter (RFC 8289 advises \
             5 to 10 % of the interval)"
        )));
    }
    let ecn = if settings.get(&ECN) { Ecn::Marks } else { Ecn::Ignored };
    Ok(Queue { limit, discipline, ecn })
}

/// Returns the least delay of a trace in which every step has a delay.
fn recorded_delay(rate: &Rate) -> Option<Nanos> {
    let Rate::Trace(trace) = rate else { return None };
    let Content::Steps(steps) = &trace.content else { return None };
    steps.iter().map(|step| step.delay).min().flatten()
}

fn jitter(settings: &Settings, delay: Nanos, files: &mut Files<'_>) -> Result<Option<Jitter>> {
    let (key, scale, order) = match settings.find(&REORDERING) {
        Some(scale) => (REORDERING.name(), Some(scale), Order::Free),
        None => (JITTER.name(), settings.find(&JITTER), settings.get(&ORDER)),
    };
    let Some(scale) = scale.filter(|scale| *scale > Nanos::ZERO) else {
        return Ok(None);
    };
    let shape = match settings.text(JITTER_SHAPE.name) {
        None | Some("uniform") => Shape::Uniform,
        Some("normal") => Shape::Normal,
        Some("pareto") => Shape::Pareto,
        Some(typed) => Shape::Table(table(typed, files)?),
    };
    // Distance below the mean that a packet can reach, where there is such a bound.
    let reach = match &shape {
        Shape::Uniform => Some(scale.0 as f64),
        Shape::Table(table) => table.first().map(|lowest| -lowest * scale.0 as f64),
        Shape::Normal | Shape::Pareto => None,
    };
    let (jitter, delay_text) = (span_text(scale), span_text(delay));
    match reach {
        Some(reach) if reach > delay.0 as f64 => Err(usage(format!(
            "{key}={jitter} would make the delay of {delay_text} negative; delay is at least {}",
            span_text(Nanos(reach.ceil() as u64))
        ))),
        None if scale > delay && order == Order::Kept => Err(usage(format!(
            "jitter={jitter} is above the delay of {delay_text}, which cannot be while packets keep their \
             order; raise the delay or write {}={jitter}",
            REORDERING.name()
        ))),
        _ => Ok(Some(Jitter { scale, shape, order })),
    }
}

fn table(typed: &str, files: &mut Files<'_>) -> Result<Arc<[f64]>> {
    if forms::is_table(typed) {
        return forms::offsets(typed.split('/')).map_err(|(_, what)| usage(what));
    }
    let text = files.text(typed).map_err(|error| match error {
        // A misspelt name is read as a file.
        Error::Setup { .. } if nearest(typed, forms::SHAPES.iter().copied()).is_some() => {
            unknown("shape of jitter", typed, forms::SHAPES)
        }
        error => error,
    })?;
    let lines: Vec<(usize, &str)> = content(&text).collect();
    forms::offsets(lines.iter().map(|(_, line)| *line)).map_err(|(nth, what)| {
        let line = lines.get(nth).map_or(1, |(line, _)| *line);
        Error::data(typed, format!("line {line}: {what}"))
    })
}
