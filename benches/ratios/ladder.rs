//! The ladder: every way to move bytes beside the same way with bare system calls, and the best of
//! deadheat beside the best of its peers.

use super::floor::{Cpus, Datagrams, Get, Give, Protocol, Put, Stream, Take};
use super::peers;
use super::race::Race;
use super::table::{Better, Paired, Row, Target};
use super::{Outcome, ROUNDS};

const STREAM: &str = "bulk:time=1s";

/// Each way to send and to receive a stream, beside the floor's same way.
pub(crate) fn streams() -> Outcome<Vec<Row>> {
    let cpus = Cpus::apart()?;
    let mut rows = Vec::new();
    for (io, give, rx, take) in [
        ("write", Give::Write, "read", Take::Read),
        ("writev", Give::Writev, "read", Take::Read),
        ("sendfile", Give::Sendfile, "read", Take::Read),
        ("splice", Give::Splice, "read", Take::Read),
        ("zerocopy", Give::Zerocopy, "read", Take::Read),
        ("write", Give::Write, "trunc", Take::Trunc),
        ("sendfile", Give::Sendfile, "trunc", Take::Trunc),
        ("write", Give::Write, "splice", Take::Splice),
        ("sendfile", Give::Sendfile, "splice", Take::Splice),
    ] {
        let mut floor = Paired::default();
        for _ in 0..ROUNDS {
            let ours = goodput(&format!("tcp:cc=cubic,io={io},rx={rx}"), STREAM, cpus)?;
            let bare = Stream { give, take, call: 128 << 10, cpus, congestion: "cubic" };
            floor.add(ours, bare.run()?);
        }
        let target = Target::Ratio(Better::Higher, 0.95);
        rows.push(Row::paired(
            &format!("tcp io={io},rx={rx}, Gbit/s, beside the floor"),
            &floor,
            gigabits,
            target,
        ));
    }
    Ok(rows)
}

/// Each way to send and to receive datagrams, delivered, beside the floor's same way.
pub(crate) fn datagrams() -> Outcome<Vec<Row>> {
    let cpus = Cpus::apart()?;
    let mut rows = Vec::new();
    for (size, io, put, rx, get, least) in [
        (1400, "send", Put::Send, "recv", Get::Recv, 0.95),
        (1400, "sendmmsg", Put::Sendmmsg, "recvmmsg", Get::Recvmmsg, 0.95),
        (1400, "gso", Put::Gso, "gro", Get::Gro, 0.90),
        (1400, "gso", Put::Gso, "gro+recvmmsg", Get::GroRecvmmsg, 0.90),
        (1400, "gso+sendmmsg", Put::GsoSendmmsg, "gro+recvmmsg", Get::GroRecvmmsg, 0.90),
        (64, "send", Put::Send, "recv", Get::Recv, 0.95),
        (64, "sendmmsg", Put::Sendmmsg, "recvmmsg", Get::Recvmmsg, 0.95),
        (64, "gso", Put::Gso, "gro+recvmmsg", Get::GroRecvmmsg, 0.90),
    ] {
        let (spec, work) = udp(size, io, rx);
        let mut floor = Paired::default();
        for _ in 0..ROUNDS {
            let ours = goodput(&spec, &work, cpus)?;
            floor.add(ours, Datagrams { put, get, size, cpus }.run()?);
        }
        let kpps = |bps: f64| format!("{:.0}", bps / 8e3 / size as f64);
        let figure = format!("udp {size} B io={io},rx={rx}, delivered, beside the floor");
        let target = Target::Ratio(Better::Higher, least);
        rows.push(if size == 64 {
            Row::paired(&format!("{figure}, kpps"), &floor, kpps, target)
        } else {
            Row::paired(&format!("{figure}, Gbit/s"), &floor, gigabits, target)
        });
    }
    Ok(rows)
}

/// The best of what each peer's options reach, beside the best of deadheat's; and UDP beside
/// iperf3's.
pub(crate) fn best() -> Outcome<Vec<Row>> {
    let cpus = Cpus::apart()?;
    let ours =
        ["io=write,rx=read", "io=write,rx=trunc", "io=sendfile,rx=read", "io=splice,rx=read"];
    let theirs: [(&str, &[&[&str]]); 2] = [
        ("iperf3", &[&[], &["-Z"], &["--skip-rx-copy"], &["-Z", "--skip-rx-copy"]]),
        ("riperf3", &[&[], &["-Z"], &["--skip-rx-copy"], &["-Z", "--skip-rx-copy"]]),
    ];
    let mut rows = Vec::new();
    for (program, ways) in theirs {
        let (mut pairs, mut missing) = (Paired::default(), None);
        for _ in 0..ROUNDS {
            let mut best = [0.0_f64; 2];
            for way in ours {
                let figure = goodput(&format!("tcp:cc=cubic,{way}"), STREAM, cpus)?;
                best[0] = best[0].max(figure);
            }
            // An option that a version lacks is not among its options.
            let tried: Vec<Outcome<f64>> =
                ways.iter().map(|way| peers::iperf3(program, Protocol::Tcp, cpus, way)).collect();
            best[1] = tried.iter().flatten().copied().fold(0.0, f64::max);
            match tried.into_iter().next() {
                Some(Err(why)) => missing = Some(why.to_string()),
                _ => pairs.add(best[0], best[1]),
            }
        }
        let figure = format!("tcp, the best way, Gbit/s, beside {program}'s best way");
        let target = Target::Ratio(Better::Higher, 1.0);
        rows.push(Row::paired_or(&figure, &pairs, gigabits, target, missing));
    }
    for (program, io, rx, options, least) in [
        ("iperf3", "send", "recv", &["-l", "1400"][..], 1.0),
        ("iperf3", "gso", "gro+recvmmsg", &["-l", "1400"], 10.0),
        ("iperf3", "gso", "gro+recvmmsg", &["-l", "1400", "--gsro"], 1.0),
        ("riperf3", "send", "recv", &["-l", "1400"], 1.0),
        ("riperf3", "gso", "gro+recvmmsg", &["-l", "1400", "--gsro"], 1.0),
    ] {
        let (spec, work) = udp(1400, io, rx);
        let (mut pairs, mut missing) = (Paired::default(), None);
        for _ in 0..ROUNDS {
            let ours = goodput(&spec, &work, cpus)?;
            match peers::iperf3(program, Protocol::Udp, cpus, options) {
                Ok(theirs) => pairs.add(ours, theirs),
                Err(why) => missing = Some(why.to_string()),
            }
        }
        let options = options.join(" ");
        let figure =
            format!("udp 1400 B io={io},rx={rx}, delivered, Gbit/s, beside {program} {options}");
        let target = Target::Ratio(Better::Higher, least);
        rows.push(Row::paired_or(&figure, &pairs, gigabits, target, missing));
    }
    rows.extend(batching(cpus)?);
    Ok(rows)
}

/// What batching gains for small datagrams, beside one call each.
fn batching(cpus: Cpus) -> Outcome<Vec<Row>> {
    let (single, work) = udp(64, "send", "recv");
    let mut rows = Vec::new();
    for (io, rx) in [("sendmmsg", "recvmmsg"), ("gso", "gro+recvmmsg")] {
        let (batched, _) = udp(64, io, rx);
        let mut pairs = Paired::default();
        for _ in 0..ROUNDS {
            pairs.add(goodput(&batched, &work, cpus)?, goodput(&single, &work, cpus)?);
        }
        let kpps = |bps: f64| format!("{:.0}", bps / 8e3 / 64.0);
        let figure = format!("udp 64 B io={io},rx={rx}, delivered, kpps, beside one call each");
        rows.push(Row::paired(&figure, &pairs, kpps, Target::Ratio(Better::Higher, 1.0)));
    }
    Ok(rows)
}

fn udp(size: usize, io: &str, rx: &str) -> (String, String) {
    (format!("udp:rcvbuf=8MiB,io={io},rx={rx}"), format!("bulk:time=1s,size={size}"))
}

/// The median over the trials of a race of one.
fn goodput(spec: &str, work: &str, cpus: Cpus) -> Outcome<f64> {
    let placement = format!("{},{}", cpus.near, cpus.far);
    Race::new(spec, work).placement(&placement).run()?.metric("goodput_bps")
}

fn gigabits(bps: f64) -> String {
    format!("{:.1}", bps / 1e9)
}
