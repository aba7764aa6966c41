//! The floor program: this kernel's round trips and bulk with bare system calls.
//!
//! `cargo bench --bench floor -- [tcp|udp] [ping|bulk|libraries]` measures what is named, or everything.
#![allow(clippy::print_stdout, reason = "a program whose output is its purpose")]

#[path = "floor/mod.rs"]
mod floor;

use std::io;

use floor::{Cpus, Datagrams, Get, Give, Library, Ping, Protocol, Put, Quic, Stream, Take, Wait};

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
    if wanted("ping", &["bulk", "libraries"]) {
        println!("| 64 B round trip | CPUs | waiting | min | p50 | p99 | p99.9 (µs) |");
        println!("|---|---|---|---|---|---|---|");
        for (protocol, asked) in [(Protocol::Tcp, tcp), (Protocol::Udp, udp)] {
            if asked {
                pings(protocol)?;
            }
        }
    }
    if wanted("libraries", &["ping", "bulk"]) {
        println!(
            "\n| bulk by a library in the smallest program | Gbit/s at the receiver |\n|---|---|"
        );
        let others = [Library::Kcp, Library::Enet, Library::Sctp];
        for library in Quic::ALL.iter().map(|quic| Library::Quic(*quic)).chain(others) {
            println!("| {library:?} | {:.2} |", library.run(Cpus::apart()?)? / 1e9);
        }
        println!(
            "\n| 64 B there and back by a library in the smallest program | p50, µs |\n|---|---|"
        );
        for quic in Quic::ALL {
            println!("| {quic:?} | {:.2} |", quic.round_trip(Cpus::apart()?)? / 1e3);
        }
    }
    if wanted("bulk", &["ping", "libraries"]) {
        println!("\n| bulk | Gbit/s at the receiver |\n|---|---|");
        if tcp {
            streams()?;
        }
        if udp {
            datagrams()?;
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

fn streams() -> io::Result<()> {
    let cpus = Cpus::apart()?;
    for give in [Give::Write, Give::Writev, Give::Sendfile, Give::Splice, Give::Zerocopy] {
        for take in [Take::Read, Take::Trunc, Take::Splice] {
            let stream = Stream { give, take, call: 128 << 10, cpus, congestion: "cubic" };
            println!("| TCP {give:?}, {take:?} | {:.1} |", stream.run()? / 1e9);
        }
    }
    Ok(())
}

fn datagrams() -> io::Result<()> {
    let cpus = Cpus::apart()?;
    for size in [1400, 64] {
        for (put, get) in [
            (Put::Send, Get::Recv),
            (Put::Send, Get::Recvmmsg),
            (Put::Sendmmsg, Get::Recvmmsg),
            (Put::Gso, Get::Recv),
            (Put::Gso, Get::Gro),
            (Put::Gso, Get::GroRecvmmsg),
            (Put::GsoSendmmsg, Get::GroRecvmmsg),
        ] {
            let bps = Datagrams { put, get, size, cpus }.run()?;
            println!(
                "| UDP {size} B, {put:?}, {get:?} | {:.2} ({:.0} kpps) |",
                bps / 1e9,
                bps / 8e3 / size as f64
            );
        }
    }
    Ok(())
}
