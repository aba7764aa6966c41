//! Translation of one direction of a link to arguments of tc(8): pure; the error names what netem cannot do.
//!
//! A netem at the root loses, copies, damages and delays. Surviving packets enter, one level down, the qdisc that
//! limits the rate: a second netem where the queue is a number of packets (it serialises exactly), a token bucket
//! (tc-tbf(8)) otherwise, with the queue inside. A queue behind a constant delay has the same effect on every
//! packet as the same queue before it, so the order of the two makes no difference; jitter, however, acts before
//! the queue here and after it in [`super::super::impair`].

use crate::network::{
    Discipline, Ecn, Impairments, Jitter, Limit, Loss, LossPer, Network, Order, Queue, Rate,
    ReleaseWait, Shape,
};
use deadheat_base::ends::Direction;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;

/// Bytes by which a frame is longer than its IP packet, and which a qdisc therefore counts in excess.
const ETHERNET: i64 = 14;

/// Rate that makes netem preserve the order of packets, in bits per second: it delays a packet by less than 0.1 µs,
/// and with any rate netem never lets one overtake another.
const KEEPS_ORDER: u64 = 1_000_000_000_000;

/// Longest jitter that netem computes with, in nanoseconds: twice this value has 32 bits.
const LONGEST_JITTER: Nanos = Nanos(2_147_483_647);

/// Packet rate per second that the delay must have room for. netem drops packets beyond its limit and counts them
/// as lost; the default of 1000 packets is reached at 40 000 packets a second through 25 ms.
const PACKETS_PER_SECOND: u64 = 2_000_000;

/// Least room for delayed packets.
const LEAST_ROOM: u64 = 100_000;

/// Burst of a token bucket besides one packet, as a time at its rate: a timer that is late by less costs no rate.
const TOKENS: Nanos = Nanos::from_micros(250);

/// Least capacity in bytes of a queue given as a time: ten packets of 1500 bytes.
const TEN_PACKETS: u64 = 15_000;

/// Arguments of `tc qdisc add dev DEVICE`, one qdisc after another from the root down.
pub type Qdiscs = Vec<String>;

/// Checks that netem can do all that a network requires.
///
/// # Errors
/// [`Error::Usage`] naming the first thing that it cannot do, the reason, and an alternative.
pub fn check(network: &Network) -> Result<()> {
    if network.grouping.is_some() {
        return Err(refused(
            "group departures",
            "the kernel hands over each packet by itself, so there is nothing to group",
        ));
    }
    if network.wait != ReleaseWait::Hybrid {
        return Err(refused(network.wait.name(), "the kernel's own timers release its packets"));
    }
    for link in &network.links {
        if link.middlebox.is_some() {
            return Err(refused(
                "be a NAT or a stateful firewall",
                "it changes no packet, and the kernel's own would keep no account",
            ));
        }
        for direction in [Direction::Up, Direction::Down] {
            qdiscs(link.toward(direction), link.mtu, None)?;
        }
    }
    Ok(())
}

/// Returns the qdiscs of one direction, with netem's seed where the kernel and tc support one (Linux 6.6).
///
/// # Errors
/// As for [`check`].
pub fn qdiscs(model: &Impairments, mtu: u16, seed: Option<u64>) -> Result<Qdiscs> {
    // Taken apart, so that a new field is translated or refused; the hosts have the network cards.
    let Impairments {
        nic: _,
        block,
        down,
        loss: lost,
        loss_per,
        duplicate,
        corrupt,
        rate: _,
        overhead,
        queue: _,
        delay: _,
        jitter: _,
        reorder,
    } = model;
    let overhead = i64::from(*overhead) - ETHERNET;
    let mut root = "root handle 1:".to_owned();
    if overhead != 0 {
        root.push_str(&format!(" stab overhead {overhead}"));
    }
    root.push_str(&format!(" netem limit {}", room(model)));
    root.push_str(&delay(model)?);
    if !down.is_empty() {
        return Err(refused("take a link down at a time", "it does the same at all times"));
    }
    if !block.is_empty() {
        return Err(refused(
            "block a protocol",
            "it sees packets without what they carry, and a filter in front of it would keep no account",
        ));
    }
    if *loss_per == LossPer::Super {
        return Err(refused(
            "lose super-packets here",
            "deadheat switches segmentation off at its devices, so that it sees none",
        ));
    }
    root.push_str(&loss(lost)?);
    if *duplicate > 0.0 {
        root.push_str(&format!(" duplicate {}", percent(*duplicate)));
    }
    if *corrupt > 0.0 {
        root.push_str(&format!(" corrupt {}", percent(*corrupt)));
    }
    if reorder.is_some() {
        return Err(refused(
            "reorder by depth",
            "its `reorder` sends the chosen packets without any delay, past whatever is on the way, \
             and holds none back until so many have passed; jitter that may reorder works",
        ));
    }
    if let Some(seed) = seed {
        root.push_str(&format!(" seed {seed}"));
    }
    let mut all = vec![root];
    all.extend(queue(model, mtu)?);
    Ok(all)
}

/// Returns the number of packets that may be under way at once.
fn room(model: &Impairments) -> u64 {
    let jitter = model.jitter.as_ref().map_or(0, |jitter| jitter.scale.0.saturating_mul(4));
    let span = model.delay.0.saturating_add(jitter).saturating_add(100_000_000);
    let packets = u128::from(span) * u128::from(PACKETS_PER_SECOND) / 1_000_000_000;
    u64::try_from(packets).unwrap_or(u64::MAX).clamp(LEAST_ROOM, u64::from(u32::MAX))
}

fn delay(model: &Impairments) -> Result<String> {
    let Some(Jitter { scale, shape, order }) = &model.jitter else {
        return Ok(if model.delay == Nanos::ZERO {
            String::new()
        } else {
            format!(" delay {}", micros(model.delay))
        });
    };
    if *scale > LONGEST_JITTER {
        return Err(refused(
            "jitter by more than 2.1 s",
            "it computes with 32 bits of nanoseconds",
        ));
    }
    let mut words = format!(" delay {} {}", micros(model.delay), micros(*scale));
    match shape {
        // This is netem's own shape when no distribution is named.
        Shape::Uniform => {}
        Shape::Normal => words.push_str(" distribution normal"),
        Shape::Pareto => words.push_str(" distribution pareto"),
        Shape::Table(_) => {
            return Err(refused(
                "draw jitter from a table",
                "it reads its tables from tc's own folder, in 16 bits, cut off at four times the \
                 scale",
            ));
        }
    }
    if *order == Order::Kept {
        words.push_str(&format!(" rate {KEEPS_ORDER}bit"));
    }
    Ok(words)
}

fn loss(loss: &Loss) -> Result<String> {
    Ok(match loss {
        Loss::None => String::new(),
        Loss::Bernoulli(share) if *share == 0.0 => String::new(),
        Loss::Bernoulli(share) => format!(" loss random {}", percent(*share)),
        Loss::GilbertElliott(chain) => format!(
            " loss gemodel {} {} {} {}",
            percent(chain.p),
            percent(chain.r),
            percent(chain.bad),
            percent(chain.good)
        ),
        Loss::Outages(_) => {
            return Err(refused(
                "lose by the clock",
                "its loss takes a step with each packet, never with time, so outages would differ \
                 from sender to sender",
            ));
        }
        Loss::List(_) | Loss::Every(_) => {
            return Err(refused("lose packets by their number", "it only draws at random"));
        }
    })
}

/// Returns the qdisc that limits the rate, if any does.
fn queue(model: &Impairments, mtu: u16) -> Result<Vec<String>> {
    let rate = match &model.rate {
        Rate::Unlimited => return Ok(Vec::new()),
        Rate::Trace(trace) => {
            return Err(refused(
                &format!("follow the trace {}", trace.file),
                "its rate is one number for good",
            ));
        }
        Rate::Fixed(rate) => rate.0,
    };
    let Queue { limit, discipline, ecn } = model.queue;
    let packets = |what: &str| match limit {
        Limit::Packets(packets) => Ok(packets),
        Limit::Bytes(_) | Limit::Time(_) => Err(refused(
            &format!("limit {what} in bytes or time"),
            "the kernel's counts packets; give the queue as a number of packets",
        )),
    };
    let ecn = if ecn == Ecn::Marks { "ecn" } else { "noecn" };
    let inner = match (discipline, limit) {
        // The packet that is leaving counts here, and a netem that copies tolerates no other below it.
        (Discipline::DropTail, Limit::Packets(packets)) if model.duplicate == 0.0 => {
            let limit = packets.saturating_add(1).min(u64::from(u32::MAX));
            return Ok(vec![format!("parent 1:1 handle 2: netem limit {limit} rate {rate}bit")]);
        }
        (Discipline::DropTail, Limit::Packets(packets)) => format!("pfifo limit {packets}"),
        (Discipline::DropTail, Limit::Bytes(bytes)) => format!("bfifo limit {bytes}"),
        (Discipline::DropTail, Limit::Time(time)) => {
            let bytes = u128::from(time.0) * u128::from(rate) / 8_000_000_000;
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(TEN_PACKETS);
            format!("bfifo limit {bytes}")
        }
        (Discipline::Codel { target, interval }, _) => format!(
            "codel limit {} target {} interval {} {ecn}",
            packets("CoDel")?,
            whole_micros(target),
            whole_micros(interval)
        ),
        (Discipline::FqCodel { target, interval }, _) => format!(
            "fq_codel limit {} target {} interval {} {ecn}",
            packets("FQ-CoDel")?,
            whole_micros(target),
            whole_micros(interval)
        ),
        (Discipline::Red | Discipline::DualPi2 { .. }, _) => {
            return Err(refused(
                "be RED or DualPI2",
                "the kernel's have other parameters, and few kernels have DualPI2",
            ));
        }
        (Discipline::Pie { target }, _) => {
            format!("pie limit {} target {} {ecn}", packets("PIE")?, whole_micros(target))
        }
    };
    let tokens = u128::from(rate) * u128::from(TOKENS.0) / 8_000_000_000;
    let burst = u128::from(mtu) + u128::from(model.overhead) + tokens;
    Ok(vec![
        // Its own limit belongs to a queue that the next line replaces.
        format!("parent 1:1 handle 2: tbf rate {rate}bit burst {burst} limit {TEN_PACKETS}"),
        format!("parent 2:1 handle 3: {inner}"),
    ])
}

/// Formats a share in percent; netem's limit of 32 bits is finer than this rounds.
fn percent(share: f64) -> String {
    let digits = format!("{:.8}", 100.0 * share);
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}%")
}

/// Formats microseconds to the nanosecond, in a form that every version of tc with netem reads correctly.
fn micros(span: Nanos) -> String {
    match (span.0 / 1_000, span.0 % 1_000) {
        (whole, 0) => format!("{whole}us"),
        (whole, rest) => format!("{whole}.{rest:03}us"),
    }
}

/// Formats microseconds, for qdiscs without a finer unit; at least one, since zero switches them off.
fn whole_micros(span: Nanos) -> String {
    format!("{}us", (span.0 / 1_000).max(1))
}

fn refused(what: &str, why: &str) -> Error {
    Error::usage(format!("backend=netem cannot {what}: {why}; backend=tun can"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::network::{GilbertElliott, Link, Outages, Reorder};
    use crate::trace::{Content, Trace};
    use deadheat_base::units::BitRate;

    fn words(model: &Impairments) -> Vec<String> {
        qdiscs(model, 1_500, None).unwrap()
    }

    fn refusal(model: &Impairments) -> String {
        let error = qdiscs(model, 1_500, None).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    fn limited(discipline: Discipline, limit: Limit, ecn: Ecn) -> Impairments {
        Impairments {
            rate: Rate::Fixed(BitRate(20_000_000)),
            queue: Queue { limit, discipline, ecn },
            ..Impairments::default()
        }
    }

    #[test]
    fn nothing_asked_is_a_netem_with_room() {
        let want = "root handle 1: stab overhead -14 netem limit 200000";
        assert_eq!(words(&Impairments::default()), [want]);
        let model = Impairments { overhead: 14, ..Impairments::default() };
        assert_eq!(words(&model), ["root handle 1: netem limit 200000"]);
    }

    #[test]
    fn a_firewall_is_refused_with_what_can() {
        let block = crate::block::Block::parse_all("udp@3s").unwrap();
        let said = refusal(&Impairments { block, ..Impairments::default() });
        assert!(
            said.contains("cannot block a protocol") && said.contains("backend=tun can"),
            "{said}"
        );
    }

    #[test]
    fn a_link_that_goes_down_is_refused_with_what_can() {
        let down = crate::down::DownTimes::parse("1s-2s").unwrap();
        let said = refusal(&Impairments { down, ..Impairments::default() });
        assert!(said.contains("cannot take a link down at a time"), "{said}");
    }

    #[test]
    fn every_accident_has_its_words() {
        let model = Impairments {
            delay: Nanos(25_000_500),
            loss: Loss::Bernoulli(0.001),
            duplicate: 0.02,
            corrupt: 1e-6,
            ..Impairments::default()
        };
        let want = "root handle 1: stab overhead -14 netem limit 250001 delay 25000.500us \
                    loss random 0.1% duplicate 2% corrupt 0.0001% seed 7";
        assert_eq!(qdiscs(&model, 1_500, Some(7)).unwrap(), [want]);
        let chain = GilbertElliott { p: 0.01, r: 0.25, bad: 1.0, good: 0.0 };
        let model = Impairments { loss: Loss::GilbertElliott(chain), ..Impairments::default() };
        assert!(words(&model)[0].ends_with(" loss gemodel 1% 25% 100% 0%"));
        let model = Impairments { loss: Loss::Bernoulli(0.0), ..Impairments::default() };
        assert!(!words(&model)[0].contains("loss"));
    }

    #[test]
    fn jitter_keeps_order_by_a_rate() {
        let jitter = |shape, order| Impairments {
            delay: Nanos::from_millis(20),
            jitter: Some(Jitter { scale: Nanos::from_millis(2), shape, order }),
            ..Impairments::default()
        };
        for (shape, order, want) in [
            (Shape::Uniform, Order::Free, "delay 20000us 2000us"),
            (Shape::Normal, Order::Free, "delay 20000us 2000us distribution normal"),
            (
                Shape::Pareto,
                Order::Kept,
                "delay 20000us 2000us distribution pareto rate 1000000000000bit",
            ),
        ] {
            let words = words(&jitter(shape, order));
            assert_eq!(
                words,
                [format!("root handle 1: stab overhead -14 netem limit 256000 {want}")]
            );
        }
    }

    #[test]
    fn queues_of_packets_are_netems_and_others_sit_in_a_token_bucket() {
        let bucket = "parent 1:1 handle 2: tbf rate 20000000bit burst 2125 limit 15000";
        let (ms5, ms100) = (Nanos::from_millis(5), Nanos::from_millis(100));
        let codel = Discipline::Codel { target: ms5, interval: ms100 };
        let fq = Discipline::FqCodel { target: ms5, interval: ms100 };
        let pie = Discipline::Pie { target: Nanos::from_millis(15) };
        for (discipline, limit, ecn, want) in [
            (
                Discipline::DropTail,
                Limit::Packets(100),
                Ecn::Ignored,
                &["parent 1:1 handle 2: netem limit 101 rate 20000000bit"][..],
            ),
            (
                Discipline::DropTail,
                Limit::Bytes(64_000),
                Ecn::Ignored,
                &[bucket, "parent 2:1 handle 3: bfifo limit 64000"],
            ),
            (
                Discipline::DropTail,
                Limit::Time(Nanos::from_millis(50)),
                Ecn::Marks,
                &[bucket, "parent 2:1 handle 3: bfifo limit 125000"],
            ),
            (
                Discipline::DropTail,
                Limit::Time(Nanos::from_millis(1)),
                Ecn::Ignored,
                &[bucket, "parent 2:1 handle 3: bfifo limit 15000"],
            ),
            (
                codel,
                Limit::Packets(1_000),
                Ecn::Marks,
                &[
                    bucket,
                    "parent 2:1 handle 3: codel limit 1000 target 5000us interval 100000us ecn",
                ],
            ),
            (
                fq,
                Limit::Packets(1_000),
                Ecn::Ignored,
                &[
                    bucket,
                    "parent 2:1 handle 3: fq_codel limit 1000 target 5000us interval 100000us noecn",
                ],
            ),
            (
                pie,
                Limit::Packets(200),
                Ecn::Ignored,
                &[bucket, "parent 2:1 handle 3: pie limit 200 target 15000us noecn"],
            ),
        ] {
            assert_eq!(words(&limited(discipline, limit, ecn))[1..], *want);
        }
        let copying = Impairments {
            duplicate: 0.01,
            ..limited(Discipline::DropTail, Limit::Packets(100), Ecn::Ignored)
        };
        assert_eq!(words(&copying)[1..], [bucket, "parent 2:1 handle 3: pfifo limit 100"]);
    }

    #[test]
    fn what_netem_cannot_do_is_refused_by_name_with_the_reason() {
        let none = Impairments::default;
        let outages = Outages { good: Nanos::from_secs(1), bad: Nanos::from_millis(10) };
        let trace = Trace {
            file: "lte.trace".into(),
            sha256: String::new(),
            length: Nanos::from_secs(1),
            content: Content::Steps(Vec::new()),
        };
        let table = Shape::Table(Arc::from([-1.0, 1.0]));
        let jitter = |scale, shape| Some(Jitter { scale, shape, order: Order::Free });
        let reorder = Reorder { share: 0.01, depth: 3, patience: Nanos::from_millis(10) };
        let ms5 = Nanos::from_millis(5);
        let codel = Discipline::Codel { target: ms5, interval: ms5 };
        for (model, want) in [
            (Impairments { loss: Loss::Outages(outages), ..none() }, "lose by the clock"),
            (
                Impairments { loss: Loss::List(Arc::from([5, 6])), ..none() },
                "lose packets by their number",
            ),
            (limited(Discipline::Red, Limit::Bytes(64_000), Ecn::Ignored), "be RED or DualPI2"),
            (
                Impairments { rate: Rate::Trace(Arc::new(trace)), ..none() },
                "follow the trace lte.trace",
            ),
            (Impairments { jitter: jitter(ms5, table), ..none() }, "draw jitter from a table"),
            (
                Impairments { jitter: jitter(Nanos::from_secs(3), Shape::Normal), ..none() },
                "jitter by more than 2.1 s",
            ),
            (Impairments { reorder: Some(reorder), ..none() }, "reorder by depth"),
            (limited(codel, Limit::Bytes(64_000), Ecn::Ignored), "limit CoDel in bytes or time"),
        ] {
            let said = refusal(&model);
            assert!(said.starts_with(&format!("backend=netem cannot {want}: ")), "{said}");
        }
    }

    #[test]
    fn a_network_is_held_to_all_of_it() {
        let network =
            |down: Impairments| Network::between_two(vec![Link { down, ..Link::default() }]);
        assert!(check(&network(Impairments::default())).is_ok());
        let list = Impairments { loss: Loss::List(Arc::from([1])), ..Impairments::default() };
        assert!(check(&network(list)).is_err());
        let spins = Network { wait: ReleaseWait::Spin, ..network(Impairments::default()) };
        assert!(check(&spins).unwrap_err().to_string().contains("cannot spin"));
        let groups = Network {
            grouping: Some(crate::network::Grouping::Strict),
            ..network(Impairments::default())
        };
        assert!(check(&groups).unwrap_err().to_string().contains("group departures"));
    }
}
