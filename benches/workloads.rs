//! What each workload costs per message by itself, and what the driver's loop adds to it: both ends' halves in virtual
//! time, once called as the driver would call them, once with the near one in the real loop ([`Flow`]). Between them lies
//! memory, so that nothing else is in the figures but the driver's reading of the clock, which is real.
//!
//! `cargo bench --bench workloads -- [ping] [state] …` measures what is named, or all.
#![allow(clippy::print_stdout, reason = "a program whose output is its purpose")]

#[path = "workloads/between.rs"]
mod between;
#[path = "../tests/common/handed_in.rs"]
mod handed_in;

use std::error::Error;
use std::time::Instant;

use between::{Between, NearHalf, Through, Virtual};
use deadheat::contract::{
    Congestion, Ending, Framing, Guarantees, LaneSet, Offer, Offers, PeerFacts, Service, Side,
    WaitMode,
};
use deadheat::measurements::Tally;
use deadheat::records::samples::Samples;
use deadheat::time::Nanos;
use deadheat::trial::agent::driver::{Flow, Signal, Watch};
use deadheat::trial::agent::intervals::Sampler;
use deadheat::workload::{self, Endpoint, Part, Task};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Pairs per figure.
const ROUNDS: usize = 7;
/// The most that the driver may add to a message, in nanoseconds.
const MOST_NS: f64 = 1_000.0;
/// The most of one core that 2,000 objects at 60 Hz may take.
const MOST_SHARE: f64 = 1.0;

/// Work with the name under which it is asked for.
const WORK: [(&str, &str); 12] = [
    ("ping", "ping:size=64,interval=1ms,count=100000"),
    ("cbr", "cbr:rate=10000pps,size=1200,count=100000"),
    ("rpc", "rpc:rate=1000pps,count=20000"),
    ("streams", "streams:rate=1000pps,count=50000"),
    ("state", "state:hz=60,count=50000"),
    ("objects", "state:hz=60,objects=2000,count=600"),
    ("inputs", "inputs:hz=60,count=50000"),
    ("events", "events:events=50pps,count=20000"),
    ("voice", "voice:count=20000"),
    ("video", "video:count=3000"),
    ("share", "share:count=20000"),
    ("session", "session:people=2,via=peers,count=20000"),
];

/// Whatever a workload may ask for.
const EVERYTHING: Guarantees = Guarantees {
    service: Service::ORDERED,
    others: Offers::of(&[
        Offer { service: Service::BEST_EFFORT, largest_message: Some(65_507) },
        Offer { service: Service::UNORDERED, largest_message: Some(65_507) },
        Offer { service: Service::EXPIRING, largest_message: Some(65_507) },
    ]),
    lanes: 256,
    framing: Framing::Messages,
    ending: Ending::Silent,
    congestion: Congestion::Uncontrolled,
    encrypted: false,
    largest_message: Some(1 << 20),
};

/// Time that one run took.
#[derive(Clone, Copy)]
struct Ran {
    /// Messages that the near end sent and received.
    messages: u64,
    real_ns: f64,
    virtual_ns: f64,
}

impl Ran {
    fn each_ns(self) -> f64 {
        self.real_ns / self.messages as f64
    }
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        println!("workloads: measures only under `cargo bench`");
        return Ok(());
    }
    let named = |name: &str| words.iter().any(|word| word == name);
    let all = !WORK.iter().any(|(name, _)| named(name));
    println!(
        "| work | messages | both halves, ns a message | with the driver, ns | the driver adds, ns | target | met |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, typed) in WORK.iter().filter(|(name, _)| all || named(name)) {
        let task = workload::parse(typed).map_err(|e| format!("{typed}: {e}"))?;
        if let Some(why) = workload::misfit(&*task, &EVERYTHING, PeerFacts::OURS) {
            return Err(format!("{typed}: {why}").into());
        }
        compare(name, typed, &*task)?;
    }
    Ok(())
}

/// Prints a workload's own cost and what the driver adds, from runs taken in turns.
fn compare(name: &str, typed: &str, task: &dyn Task) -> Outcome<()> {
    let (mut own, mut whole, mut added, mut shares) = (vec![], vec![], vec![], vec![]);
    let mut messages = 0;
    for _ in 0..ROUNDS {
        let (alone, driven) = (by_itself(task)?, driven(task)?);
        if alone.messages != driven.messages {
            let (alone, driven) = (alone.messages, driven.messages);
            return Err(format!("{typed}: {alone} messages alone, {driven} by the driver").into());
        }
        messages = alone.messages;
        own.push(alone.each_ns());
        whole.push(driven.each_ns());
        added.push(driven.each_ns() - alone.each_ns());
        shares.push(driven.real_ns / driven.virtual_ns);
    }
    let is_met = middle(&mut added) <= MOST_NS;
    println!(
        "| {typed} | {messages} | {} | {} | {} | at most {MOST_NS:.0} | {} |",
        range(&mut own, 0),
        range(&mut whole, 0),
        range(&mut added, 0),
        met(is_met)
    );
    if name == "objects" {
        let is_met = middle(&mut shares) <= MOST_SHARE;
        println!(
            "| {typed}: CPU seconds a second of the game, both ends on one core | | | {} | | at most {MOST_SHARE:.0} | {} |",
            range(&mut shares, 3),
            met(is_met)
        );
    }
    Ok(())
}

/// Runs both halves by the calls that the driver makes, and nothing else.
fn by_itself(task: &dyn Task) -> Outcome<Ran> {
    let (mut near, mut conn, clock) = ends(task)?;
    let mut out = vec![0; task.info().largest_message];
    let began = Instant::now();
    near.run(&mut conn, &mut out)?;
    Ok(ran(&conn, began, &clock))
}

/// Runs both halves, the near one in the driver's loop.
fn driven(task: &dyn Task) -> Outcome<Ran> {
    struct Unseen;
    impl Watch for Unseen {
        fn sent_all(&mut self, _sent: Tally) {}
    }
    let (near, conn, clock) = ends(task)?;
    let sampler = Sampler::new(Nanos::from_secs(1), 1);
    let mut flow = Flow::new(
        Box::new(conn),
        Box::new(near),
        WaitMode::Spin,
        sampler,
        task.info().largest_message,
    );
    let signal = Signal::default();
    let began = Instant::now();
    flow.run(&clock, &signal, &mut Unseen)?;
    Ok(ran(&flow.conn, began, &clock))
}

fn ran(conn: &Through, began: Instant, clock: &Virtual) -> Ran {
    let real_ns = began.elapsed().as_nanos() as f64;
    Ran { messages: conn.messages(), real_ns, virtual_ns: clock.passed().0 as f64 }
}

/// Makes both halves of the first flow, with memory between them.
fn ends(task: &dyn Task) -> Outcome<(NearHalf, Through, Virtual)> {
    let clock = Virtual::new();
    let half = |side| -> Outcome<Box<dyn Endpoint>> {
        Ok(task.half(Part {
            side,
            flow: 0,
            tag: 7,
            seed: 7,
            transit: Nanos::ZERO,
            guarantees: EVERYTHING,
            peer: PeerFacts::OURS,
            recorder: Box::new(Samples::new(None, task.info().timeout.0)?),
            carried: LaneSet::ALL,
            store: None,
            exchange: None,
        }))
    };
    let between = Between::new(half(Side::Far)?, clock.clone(), task.info().largest_message);
    let conn = Through::new(between.clone());
    Ok((NearHalf::new(half(Side::Near)?, between), conn, clock))
}

fn middle(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn range(figures: &mut [f64], digits: usize) -> String {
    let middle = middle(figures);
    let (least, most) = (figures[0], figures[figures.len() - 1]);
    format!("{middle:.digits$} [{least:.digits$} … {most:.digits$}]")
}

fn met(met: bool) -> &'static str {
    if met { "yes" } else { "**no**" }
}
