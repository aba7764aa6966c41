//! What measuring costs by itself: time per round trip outside system calls, memory for a day
//! of ping at 1 kHz, and how many packets a second an emulated path decides on one core. The half that measures runs in
//! this process, in virtual time; the clock, read about three times a round trip at some 20 ns, is not in the figure.
#![allow(clippy::print_stdout, reason = "a program whose output is its purpose")]

#[path = "../tests/common/handed_in.rs"]
mod handed_in;
use std::error::Error;
use std::time::Instant;

use deadheat::contract::{
    Action, Congestion, Direction, Ending, Framing, Guarantees, LaneSet, Offers, PeerFacts,
    Service, Side,
};
use deadheat::path::impair::Channel;
use deadheat::path::impair::packet::{Packet, Place};
use deadheat::path::network::{
    Discipline, GilbertElliott, Impairments, Jitter, Loss, Order, Queue, Rate, Shape,
};
use deadheat::records::samples::Samples;
use deadheat::time::Nanos;
use deadheat::units::BitRate;
use deadheat::workload::{self, Endpoint, Part, Task};

type Outcome<T> = Result<T, Box<dyn Error>>;

const TIMEOUT: Nanos = Nanos::from_secs(3);
/// Round trips per timed run.
const COUNT: u64 = 1_000_000;
const RUNS: usize = 7;
/// Round trips of a day at 1 kHz.
const DAY: u64 = 86_400_000;

/// Messages may be lost and reordered, so the halves must keep account of them.
const DATAGRAMS: Guarantees = Guarantees {
    service: Service::BEST_EFFORT,
    others: Offers::NONE,
    lanes: 1,
    framing: Framing::Messages,
    ending: Ending::Silent,
    congestion: Congestion::Uncontrolled,
    encrypted: false,
    largest_message: Some(65_507),
};

/// At most this much per sample.
const MOST_NS: f64 = 50.0;
/// At most this much for a day, the program itself included.
const MOST_MIB: f64 = 64.0;
/// Packets that a channel decides in a timed run, and how many arrive at the same time: a super-packet.
const DECISIONS: u64 = 2_000_000;
const TOGETHER: u64 = 45;
/// At least this many decisions a second with delay and loss, in millions.
const LEAST_DECISIONS: f64 = 3.0;

fn main() -> Outcome<()> {
    if !std::env::args().any(|word| word == "--bench") {
        println!("overhead: measures only under `cargo bench`");
        return Ok(());
    }
    println!("| figure | ours | target | met |\n|---|---|---|---|");
    let task = task(COUNT)?;
    let mut costs = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        round_trips(&*task, COUNT)?;
        costs.push(start.elapsed().as_nanos() as f64 / COUNT as f64);
    }
    costs.sort_by(f64::total_cmp);
    let (least, median, most) = (costs[0], costs[RUNS / 2], costs[RUNS - 1]);
    println!(
        "| cost of measuring per ping sample, outside system calls, ns | {median:.0} [{least:.0} … {most:.0}] | at most {MOST_NS:.0} | {} |",
        met(median <= MOST_NS)
    );
    round_trips(&*self::task(DAY)?, DAY)?;
    let mib = most_memory_kib()? as f64 / 1024.0;
    println!(
        "| memory after a day of 1 kHz ping, MiB | {mib:.1} | at most {MOST_MIB:.0} | {} |",
        met(mib <= MOST_MIB)
    );
    for (name, model, target) in models() {
        let mut rates: Vec<f64> = (0..RUNS).map(|_| decisions(&model)).collect();
        rates.sort_by(f64::total_cmp);
        let (least, median, most) = (rates[0], rates[RUNS / 2], rates[RUNS - 1]);
        let held = match target {
            Some(target) => format!("at least {target:.0} | {}", met(median >= target)),
            None => String::from("|"),
        };
        println!(
            "| decisions of a channel with {name}, million/s | {median:.1} [{least:.1} … {most:.1}] | {held} |"
        );
    }
    Ok(())
}

/// What a channel may have to do to each packet, with a name and how many million a second are wanted.
fn models() -> Vec<(&'static str, Impairments, Option<f64>)> {
    let base = Impairments {
        delay: Nanos::from_millis(25),
        loss: Loss::Bernoulli(0.001),
        ..Impairments::default()
    };
    let chain = GilbertElliott { p: 0.001, r: 0.2, bad: 1.0, good: 0.0 };
    let jitter = |order| {
        let scale = Nanos::from_millis(2);
        Some(Jitter { scale, shape: Shape::Normal, order })
    };
    let rate = Rate::Fixed(BitRate(16_000_000_000));
    let queue = |discipline| Queue { discipline, ..Queue::default() };
    let (target, interval) = (Nanos::from_millis(5), Nanos::from_millis(100));
    let fair = queue(Discipline::FqCodel { target, interval });
    let with = |loss| Impairments { loss, ..base.clone() };
    vec![
        ("delay and loss", base.clone(), Some(LEAST_DECISIONS)),
        ("a Gilbert-Elliott chain", with(Loss::GilbertElliott(chain)), Some(LEAST_DECISIONS)),
        ("a rate", Impairments { rate: rate.clone(), ..base.clone() }, None),
        ("FQ-CoDel", Impairments { rate, queue: fair, ..base.clone() }, None),
        ("normal jitter", Impairments { jitter: jitter(Order::Kept), ..base.clone() }, None),
        (
            "normal jitter in any order",
            Impairments { jitter: jitter(Order::Free), ..base.clone() },
            None,
        ),
    ]
}

/// Decisions a second of one direction at about 17 Gbit/s, in millions.
fn decisions(model: &Impairments) -> f64 {
    let place = Place { seed: 7, link: 0, direction: Direction::Up };
    let packet = Packet { flow: 1, protocol: 6, ..Packet::of_bytes(1_500) };
    let mut channel: Channel<u32> = Channel::new(model, place);
    let turns = DECISIONS / TOGETHER;
    let start = Instant::now();
    for turn in 0..turns {
        let now = Nanos(turn * 32_000);
        while let Some(departure) = channel.depart(now) {
            std::hint::black_box(departure);
        }
        for _ in 0..TOGETHER {
            channel.arrive(now, &packet, turn as u32);
        }
        std::hint::black_box(channel.next());
    }
    (turns * TOGETHER) as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn met(met: bool) -> &'static str {
    if met { "yes" } else { "**no**" }
}

fn task(count: u64) -> Outcome<Box<dyn Task>> {
    Ok(workload::parse(&format!("ping:size=64,interval=1ms,count={count}"))?)
}

fn half(task: &dyn Task, side: Side) -> Outcome<Box<dyn Endpoint>> {
    Ok(task.half(Part {
        side,
        flow: 0,
        tag: 7,
        seed: 7,
        transit: Nanos::ZERO,
        guarantees: DATAGRAMS,
        peer: PeerFacts::OURS,
        recorder: Box::new(Samples::new(None, TIMEOUT.0)?),
        carried: LaneSet::ALL,
        store: None,
        exchange: None,
    }))
}

/// A whole trial of the near half in virtual time, which is where the measuring is done. Each answer
/// carries far stamps and takes from 5 to 70 µs, so that the summary has many values to keep apart.
fn round_trips(task: &dyn Task, count: u64) -> Outcome<()> {
    let mut near = half(task, Side::Near)?;
    let mut request = vec![0; task.info().largest_message];
    let mut now = Nanos::from_secs(1);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    loop {
        match near.poll(now, &mut request) {
            Action::Send { lane, len } => {
                near.on_sent(now);
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let stamp = now.0.to_be_bytes();
                now += Nanos(5_000 + random % 65_536);
                request[12..20].copy_from_slice(&stamp);
                request[20..28].copy_from_slice(&stamp);
                near.on_message(now, lane, &request[..len]);
            }
            Action::Wait(Some(until)) => now = until.max(now + Nanos(1)),
            Action::Done => break,
            other => return Err(format!("the near half asks for {other:?}").into()),
        }
    }
    let seen = near.report(now).rtt_ns.map_or(0, |rtt| rtt.n);
    if seen != count {
        return Err(format!("{seen} of {count} samples").into());
    }
    Ok(())
}

/// The most memory that this process has had in use: `VmHWM` of proc_pid_status(5).
fn most_memory_kib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let figure = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(figure.ok_or("no VmHWM in /proc/self/status")?.trim().parse()?)
}
