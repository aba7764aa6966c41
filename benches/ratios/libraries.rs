//! Protocols in user space beside the same library in the smallest program, QUIC beside its peers, what a protocol costs a
//! message, and MPTCP over several links.

use super::floor::{Cpus, Library, Quic};
use super::peers;
use super::race::Race;
use super::table::{Better, Paired, Row, Target};
use super::{Outcome, ROUNDS};

const BULK: &str = "bulk:time=2s";
const PING: &str = "ping:size=64,window=1,count=20000";

/// QUIC by each library beside the same library in the smallest program, and quinn's beside other implementations.
pub(crate) fn quic() -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (contender, library) in QUIC {
        rows.extend(beside_the_library(contender, *library)?);
    }
    rows.extend(beside_peers()?);
    Ok(rows)
}

/// Contenders on QUIC, with their libraries; `None` where this build leaves the contender out.
const QUIC: &[(&str, Option<Quic>)] = &[
    ("quic", Some(Quic::Quinn)),
    ("quic-noq", if cfg!(feature = "quic-noq") { Some(Quic::Noq) } else { None }),
    #[cfg(feature = "quic-quiche")]
    ("quic-quiche", Some(Quic::Quiche)),
    #[cfg(not(feature = "quic-quiche"))]
    ("quic-quiche", None),
];

/// The least share of the library's own goodput, and of its speed.
const SHARE: f64 = 0.95;

/// Goodput, and the round trip of a small message with both ends awake.
fn beside_the_library(contender: &str, library: Option<Quic>) -> Outcome<Vec<Row>> {
    let cpus = Cpus::apart()?;
    let (mut bulk, mut turn, mut missing) = (Paired::default(), Paired::default(), None);
    match library {
        Some(library) => {
            for _ in 0..ROUNDS {
                bulk.add(goodput(contender, cpus)?, Library::Quic(library).run(cpus)?);
                turn.add(round_trip(contender)?, library.round_trip(cpus)?);
            }
        }
        None => missing = Some(format!("built without the feature {contender}")),
    }
    let named =
        |what: &str| format!("{contender} {what}, beside its library in the smallest program");
    let faster = Target::Ratio(Better::Higher, SHARE);
    let sooner = Target::Ratio(Better::Lower, 1.0 / SHARE);
    Ok(vec![
        Row::paired_or(&named("goodput, Gbit/s"), &bulk, gigabits, faster, missing.clone()),
        Row::paired_or(&named("64 B round trip p50, busy, µs"), &turn, micros, sooner, missing),
    ])
}

/// QUIC by quinn beside other implementations.
fn beside_peers() -> Outcome<Vec<Row>> {
    let cpus = Cpus::apart()?;
    let peers = ["quic-peer-s2n", "quic-peer-quic-go", "xfr"];
    let mut beside = peers.map(|_| (Paired::default(), None));
    for _ in 0..ROUNDS {
        if beside.iter().all(|(_, missing)| missing.is_some()) {
            break;
        }
        let ours = goodput("quic", cpus)?;
        for (peer, (pairs, missing)) in peers.iter().zip(&mut beside) {
            if missing.is_some() {
                continue;
            }
            let ran = match *peer {
                "xfr" => peers::xfr(cpus),
                _ => peers::quic(peer, cpus),
            };
            match ran {
                Ok(theirs) => pairs.add(ours, theirs),
                Err(why) => *missing = Some(why.to_string()),
            }
        }
    }
    let mut rows = Vec::new();
    for (peer, (pairs, missing)) in peers.iter().zip(beside) {
        let figure = format!("quic goodput, Gbit/s, beside {peer}");
        let target = Target::Ratio(Better::Higher, 1.0);
        rows.push(Row::paired_or(&figure, &pairs, gigabits, target, missing));
    }
    Ok(rows)
}

/// What each protocol in user space adds to a round trip of plain UDP, half of it for each message.
pub(crate) fn prices() -> Outcome<Vec<Row>> {
    let contenders = ["quic", "quic-datagram", "kcp", "enet", "sctp-udp", "rbudp", "arq"];
    let mut prices = contenders.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (contender, prices) in contenders.iter().zip(&mut prices) {
            let plain = round_trip("udp")?;
            prices.push((round_trip(contender)? - plain) / 2.0);
        }
    }
    let row = |(contender, prices): (&&str, &Vec<f64>)| {
        let figure = format!("price of {contender} a message over plain udp, 64 B, busy, µs");
        Row::alone(&figure, prices, micros, Target::Value(Better::Lower, 15_000.0))
    };
    Ok(contenders.iter().zip(&prices).map(row).collect())
}

/// Protocols in user space beside the same library with one call for each datagram.
pub(crate) fn libraries() -> Outcome<Vec<Row>> {
    let cpus = Cpus::apart()?;
    let mut rows = Vec::new();
    for (id, library) in
        [("kcp", Library::Kcp), ("enet", Library::Enet), ("sctp-udp", Library::Sctp)]
    {
        let mut pairs = Paired::default();
        for _ in 0..ROUNDS {
            pairs.add(goodput(id, cpus)?, library.run(cpus)?);
        }
        rows.push(Row::paired(
            &format!("{id} goodput, Gbit/s, beside the library with a call for each datagram"),
            &pairs,
            gigabits,
            Target::Ratio(Better::Higher, 1.5),
        ));
    }
    Ok(rows)
}

/// MPTCP over two links beside the same over one, and over one link beside TCP.
pub(crate) fn links() -> Outcome<Vec<Row>> {
    let link = "rate=20mbit,delay=10ms";
    let both = format!("{link}+{link}");
    let (mut gain, mut price) = (Paired::default(), Paired::default());
    for _ in 0..ROUNDS {
        let over = |contender: &str, path: &str| {
            Race::new(contender, "bulk:time=5s").path(path).run()?.metric("goodput_bps")
        };
        let one = over("mptcp", link)?;
        gain.add(over("mptcp", &both)?, one);
        price.add(one, over("tcp", link)?);
    }
    let megabits = |bps: f64| format!("{:.1}", bps / 1e6);
    let figure = |beside: &str| format!("mptcp goodput, Mbit/s, links of 20 Mbit/s, {beside}");
    Ok(vec![
        Row::paired(&figure("two beside one"), &gain, megabits, Target::Ratio(Better::Higher, 1.8)),
        Row::paired(
            &figure("one, beside tcp"),
            &price,
            megabits,
            Target::Ratio(Better::Higher, 0.95),
        ),
    ])
}

/// The median over the trials of a race of one.
fn goodput(contender: &str, cpus: Cpus) -> Outcome<f64> {
    let placement = format!("{},{}", cpus.near, cpus.far);
    Race::new(contender, BULK).placement(&placement).run()?.metric("goodput_bps")
}

/// The median round trip of a small message in nanoseconds, both ends awake.
fn round_trip(contender: &str) -> Outcome<f64> {
    Race::new(contender, PING).placement("busy").run()?.rtt_p50()
}

fn gigabits(bps: f64) -> String {
    format!("{:.2}", bps / 1e9)
}

fn micros(ns: f64) -> String {
    format!("{:.2}", ns / 1e3)
}
