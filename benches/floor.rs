//! The floor program: this kernel's round trips and bulk with bare system calls.
//!
//! `cargo bench --bench floor -- [tcp|udp] [ping|bulk]` measures what is named, or everything.
#![allow(clippy::print_stdout, reason = "a program whose output is its purpose")]

#[path = "floor/mod.rs"]
mod floor;

use std::io;

use floor::{Bulk, Cpus, Flow, Ping, Protocol, Wait};

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        println!("floor: measures only under `cargo bench`");
        return Ok(());
    }
    let wanted = |name: &str, others: &[&str]| {
        words.iter().any(|word| word == name)
            || !others.iter().any(|other| words.iter().any(|w| w == other))
    };
    let (tcp, udp) = (wanted("tcp", &["udp"]), wanted("udp", &["tcp"]));
    if wanted("ping", &["bulk"]) {
        println!("| 64 B round trip | CPUs | waiting | min | p50 | p99 | p99.9 (µs) |");
        println!("|---|---|---|---|---|---|---|");
        for (protocol, asked) in [(Protocol::Tcp, tcp), (Protocol::Udp, udp)] {
            if asked {
                pings(protocol)?;
            }
        }
    }
    if wanted("bulk", &["ping"]) {
        println!("\n| bulk | Gbit/s at the receiver |\n|---|---|");
        for flow in [Flow::Tcp, Flow::Udp, Flow::UdpGso, Flow::UdpGsoGro] {
            if (flow == Flow::Tcp && tcp) || (flow != Flow::Tcp && udp) {
                bulk(flow)?;
            }
        }
    }
    Ok(())
}

fn pings(protocol: Protocol) -> io::Result<()> {
    let (apart, together) = (Cpus::apart()?, Cpus::together()?);
    for (cpus, wait) in [(apart, Wait::Busy), (apart, Wait::Blocking), (together, Wait::Blocking)] {
        let rtt = Ping::new(protocol, cpus, wait).run()?;
        let [min, p50, p99, p999] = [rtt.min, rtt.p50, rtt.p99, rtt.p999].map(|ns| ns as f64 / 1e3);
        println!(
            "| {protocol:?} | {},{} | {wait:?} | {min:.2} | {p50:.2} | {p99:.2} | {p999:.2} |",
            cpus.near, cpus.far
        );
    }
    Ok(())
}

fn bulk(flow: Flow) -> io::Result<()> {
    let cpus = Cpus::apart()?;
    let bps = Bulk { flow, cpus, congestion: "cubic" }.run()?;
    println!("| {flow:?} | {:.1} |", bps / 1e9);
    Ok(())
}
