//! Tables of what the models do under loss, delay and short queues, to the last digit.
//!
//! `UPDATE_GOLDEN=1 cargo test --test program sim::` writes them anew; read the difference.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test helper that fails is a failed test")]

use std::fmt::Write;
use std::path::Path;
use std::thread;

use deadheat::measurements::Quantile;
use deadheat::records::trial::Record;

use super::phases::beside;
use super::{fates, trial, up};

/// State updates before, during and after bulk data behind one bottleneck, by its queue.
fn phases_table() -> String {
    let mut out = String::from(
        "state:direction=up over delay=10ms,rate=10mbit, seed 7, with load-from=2s,load-for=8s,load-lead=400ms\n  \
         load              | queue                    | delay p50 ms: before, during, after and p90 during | \
         lost %: before, during, after | burst max mean | load: Mbit/s Jain\n",
    );
    let fair = "queue=100ms,aqm=fq-codel";
    let crowd = "quic,load-flows=8";
    let cells = [("none", "queue=40pkt"), ("quic", "queue=40pkt"), (crowd, "queue=40pkt")];
    let cells = cells.into_iter().chain([(crowd, "queue=100ms"), (crowd, fair)]);
    for (load, queue) in cells {
        let record = beside(load, queue);
        let of = |name: &str, scale: f64| match record.metrics.get(name) {
            Some(value) => format!("{:.2}", value * scale),
            None => "-".to_owned(),
        };
        let phase = |name: &str, scale| {
            let [before, during, after] =
                ["before", "during", "after"].map(|phase| of(&name.replace('*', phase), scale));
            format!("{before:>5} {during:>6} {after:>5}")
        };
        writeln!(
            out,
            "  {load:17} | {queue:24} | {} {:>6} | {} | {:>5} {:>5} | {:>6} {:>5}",
            phase("delay_p50_*_ns", 1e-6),
            of("delay_p90_during_ns", 1e-6),
            phase("loss_*_share", 100.0),
            of("burst_max_during_count", 1.0),
            of("burst_mean_during_count", 1.0),
            of("load_goodput_bps", 1e-6),
            of("load_jain_share", 1.0),
        )
        .unwrap();
    }
    out
}

/// Milliseconds of a quantile of the round trips; nothing where too few samples lie beyond it.
fn ms(quantile: Option<Quantile>) -> String {
    match quantile {
        None => "-".into(),
        Some(Quantile::Ns(ns)) => format!("{:.3}", ns as f64 / 1e6),
        Some(Quantile::Beyond(ns)) => format!(">{:.0}", ns as f64 / 1e6),
    }
}

fn megabits(record: &Record) -> String {
    format!("{:.3}", record.metrics["goodput_bps"] / 1e6)
}

const RATE: &str = "rate=20mbit";

const DELAYS: [&str; 2] = ["5ms", "40ms"];

const QUEUES: [&str; 2] = ["10ms", "100ms"];

const LOSSES: [&str; 3] = ["0%", "0.1%", "2%"];

/// A line for each combination of loss, delay and queue, with what `cells` says of the path.
fn table(title: &str, columns: &str, cells: impl Fn(&str) -> String) -> String {
    let mut out = format!("{title}, {RATE}, seed 7\n  loss  delay  queue {columns}\n");
    for loss in LOSSES {
        for delay in DELAYS {
            for queue in QUEUES {
                let path = match loss {
                    "0%" => format!("delay={delay},{RATE},queue={queue}"),
                    _ => format!("delay={delay},loss={loss},{RATE},queue={queue}"),
                };
                writeln!(out, "{loss:>6} {delay:>6} {queue:>6} {}", cells(&path)).unwrap();
            }
        }
    }
    out
}

fn ping_table() -> String {
    table(
        "ping:interval=5ms,count=2000",
        " | datagram: p50 ms      p99  lost | ARQ: p50 ms      p99  resent",
        |path| {
            let [datagram, arq] = ["sim-datagram", "arq"]
                .map(|contender| trial(path, contender, "ping:interval=5ms,count=2000"));
            let rtt = |record: &Record| {
                let rtt = record.rtt_ns.clone().unwrap();
                format!("{:>8} {:>8}", ms(rtt.p50), ms(rtt.p99))
            };
            let lost = datagram.ledger.accounts().map(|(_, account)| account.lost_on_path);
            format!(
                " |       {}  {:>4} |    {}  {:>6}",
                rtt(&datagram),
                lost.sum::<u64>(),
                rtt(&arq),
                arq.retransmits.unwrap()
            )
        },
    )
}

fn bulk_table() -> String {
    table(
        "bulk:time=5s",
        " | Reno: Mbit/s  resent   full | window only: Mbit/s  resent   full",
        |path| {
            let cells = ["arq", "arq:cc=none"].map(|contender| {
                let record = trial(path, contender, "bulk:time=5s");
                let full = fates(&record).up.fates.full;
                let resent = record.retransmits.unwrap();
                format!("{:>7}  {resent:>6} {full:>6}", megabits(&record))
            });
            format!(" |      {} |             {}", cells[0], cells[1])
        },
    )
}

/// Bulk data in blasts, at a rate below that of the path, above it, and found.
fn blast_table() -> String {
    let rates = ["18mbit", "25mbit", "probe"];
    let title = "bulk:bytes=8MB, delay=25ms,rate=20mbit,queue=100ms, seed 7";
    let mut out = format!("{title}\n  loss");
    for rate in rates {
        write!(out, " | rate={rate:6}: Mbit/s  resent").unwrap();
    }
    for loss in ["0%", "0.1%", "1%", "5%", "20%"] {
        write!(out, "\n{loss:>6}").unwrap();
        for rate in rates {
            let path = format!("delay=25ms,loss={loss},rate=20mbit,queue=100ms");
            let record = trial(&path, &format!("rbudp:rate={rate}"), "bulk:bytes=8MB");
            let resent = record.retransmits.unwrap();
            write!(out, " |              {:>6}  {resent:>6}", megabits(&record)).unwrap();
        }
    }
    out + "\n"
}

fn cbr_table() -> String {
    table("cbr:time=2s", " | 10 Mbit/s: Mbit/s  lost | 25 Mbit/s: Mbit/s  lost   full", |path| {
        let [fits, exceeds] = ["10mbit", "25mbit"]
            .map(|rate| trial(path, "sim-datagram", &format!("cbr:rate={rate},size=1400,time=2s")));
        format!(
            " |           {:>7}  {:>4} |           {:>7}  {:>4} {:>6}",
            megabits(&fits),
            up(&fits).lost_on_path,
            megabits(&exceeds),
            up(&exceeds).lost_on_path,
            fates(&exceeds).up.fates.full
        )
    })
}

/// Table of the delay that losses of one of eight streams cause to the others.
fn streams_table() -> String {
    let mut out = String::from(
        "streams:count=2000, delay=25ms, seed 7\n  loss contender | delay p50 ms      p99 | wait for others: mean ms  messages\n",
    );
    for loss in ["0.1%", "1%", "5%"] {
        for contender in ["quic", "sctp-udp", "arq", "kcp"] {
            let record = trial(&format!("delay=25ms,loss={loss}"), contender, "streams:count=2000");
            let ms = |name: &str| record.metrics[name] / 1e6;
            let held = record.metrics["held_share"] * 100.0;
            writeln!(
                out,
                "{loss:>6} {contender:9} |     {:>8.3} {:>8.3} |               {:>8.3}   {held:>5.1} %",
                ms("delay_p50_ns"),
                ms("delay_p99_ns"),
                ms("held_mean_ns"),
            )
            .unwrap();
        }
    }
    out
}

/// Table of the age of a state that is sent 60 times a second.
fn state_table() -> String {
    let mut out = String::from(
        "state:count=2000, delay=25ms, seed 7\n  loss contender     | age: mean ms      p99  longest stall ms | error of what is shown | playout ms\n",
    );
    for loss in ["0.1%", "1%", "5%"] {
        for contender in ["sim-datagram", "quic-datagram", "quic", "sctp-udp", "arq", "kcp"] {
            let record = trial(&format!("delay=25ms,loss={loss}"), contender, "state:count=2000");
            let ms = |name: &str| match record.metrics.get(name) {
                Some(ns) => format!("{:.3}", ns / 1e6),
                None => "-".to_owned(),
            };
            let error = record.metrics["error_mean_share"] * 100.0;
            writeln!(
                out,
                "{loss:>6} {contender:13} |      {:>8} {:>8}          {:>8} |                {error:>5.1} % | {:>10}",
                ms("age_mean_ns"),
                ms("age_p99_ns"),
                ms("stall_max_ns"),
                ms("playout_p99_ns"),
            )
            .unwrap();
        }
    }
    out
}

/// Ratings of a voice by the E-model.
fn voice_table() -> String {
    let mut out = String::from(
        "voice:count=2000, delay=40ms,jitter=8ms, seed 7\n  loss contender     | rating  gaps %  mouth to ear ms | with the best buffer: rating  ms\n",
    );
    for loss in ["0.1%", "1%", "5%"] {
        for contender in ["sim-datagram", "quic-datagram", "quic", "kcp", "enet", "arq"] {
            let path = format!("delay=40ms,jitter=8ms,loss={loss}");
            let record = trial(&path, contender, "voice:count=2000");
            let percent = |name: &str| record.metrics[name] * 100.0;
            let ms = |name: &str| record.metrics[name] / 1e6;
            writeln!(
                out,
                "{loss:>6} {contender:13} |  {:>5.1}  {:>6.2}           {:>6.1} |                       {:>5.1}  {:>5.1}",
                percent("rating_share"),
                percent("gap_share"),
                ms("mouth_to_ear_ns"),
                percent("best_rating_share"),
                ms("best_mouth_to_ear_ns"),
            )
            .unwrap();
        }
    }
    out
}

/// Delivery times of events beside a state, and their reasons to wait.
fn events_table() -> String {
    let mut out = String::from(
        "events:count=1000, delay=25ms, seed 7; X+dgram is mix:events=X,state=sim-datagram\n  loss contender  service | delivery: mean ms      p99 | wait for events ms  for state ms | mean age of the state ms\n",
    );
    let own = ["quic", "sctp-udp", "enet", "arq", "kcp"].map(|contender| (contender, "own"));
    let more =
        [("quic", "latest"), ("quic+dgram", "own"), ("arq+dgram", "own"), ("kcp+dgram", "own")];
    for loss in ["0.1%", "1%", "5%"] {
        for (contender, service) in own.into_iter().chain(more) {
            let workload = format!("events:count=1000,service={service}");
            let mix = contender.strip_suffix("+dgram");
            let spec = mix.map(|events| format!("mix:events={events},state=sim-datagram"));
            let spec = spec.unwrap_or_else(|| contender.to_owned());
            let record = trial(&format!("delay=25ms,loss={loss}"), &spec, &workload);
            let ms = |name: &str| record.metrics[name] / 1e6;
            writeln!(
                out,
                "{loss:>6} {contender:10} {service:7} |          {:>8.3} {:>8.3} |           {:>8.3}      {:>8.3} |                 {:>8.3}",
                ms("delivery_mean_ns"),
                ms("delivery_p99_ns"),
                ms("held_by_events_mean_ns"),
                ms("held_by_state_mean_ns"),
                ms("state_age_mean_ns"),
            )
            .unwrap();
        }
    }
    out
}

/// Which frames of a moving picture are there in time, and which can be shown.
fn video_table() -> String {
    let mut out = String::from(
        "video:count=900, delay=25ms,rate=20mbit,queue=100ms, seed 7\n  loss contender     service    | late %  never %  frozen %  longest still ms | latency: mean ms      p99\n",
    );
    let own = ["sim-datagram", "quic-datagram", "quic", "sctp-udp", "kcp", "arq"];
    let own = own.map(|contender| (contender, "own"));
    for loss in ["0.1%", "1%", "5%"] {
        for (contender, service) in own.into_iter().chain([("sctp-udp", "lifetime")]) {
            let path = format!("delay=25ms,rate=20mbit,queue=100ms,loss={loss}");
            let record = trial(&path, contender, &format!("video:count=900,service={service}"));
            let percent = |name: &str| record.metrics[name] * 100.0;
            let ms = |name: &str| match record.metrics.get(name) {
                Some(ns) => format!("{:.3}", ns / 1e6),
                None => "-".to_owned(),
            };
            writeln!(
                out,
                "{loss:>6} {contender:13} {service:10} | {:>6.2}   {:>6.2}    {:>6.2}          {:>8} |         {:>8} {:>8}",
                percent("late_share"),
                percent("lost_share"),
                percent("frozen_share"),
                ms("frozen_max_ns"),
                ms("latency_mean_ns"),
                ms("latency_p99_ns"),
            )
            .unwrap();
        }
    }
    out
}

/// When a game in lockstep stands still.
fn inputs_table() -> String {
    let mut out = String::from(
        "inputs:count=3000, delay=50ms, seed 7\n  loss contender     | standing still %  longest ms  from hitch to hitch s | delay for 1 % ms  for none ms | sent kbit/s\n",
    );
    for loss in ["0.1%", "1%", "5%"] {
        for contender in ["sim-datagram", "quic-datagram", "quic", "sctp-udp", "kcp", "arq"] {
            let record = trial(&format!("delay=50ms,loss={loss}"), contender, "inputs:count=3000");
            let figure = |name: &str, unit: f64| match record.metrics.get(name) {
                Some(figure) => format!("{:.3}", figure / unit),
                None => "-".to_owned(),
            };
            writeln!(
                out,
                "{loss:>6} {contender:13} |         {:>8}    {:>8}               {:>8} |         {:>8}     {:>8} |    {:>8}",
                figure("stalled_share", 0.01),
                figure("stall_max_ns", 1e6),
                figure("between_stalls_ns", 1e9),
                figure("delay_p99_ns", 1e6),
                figure("delay_smooth_ns", 1e6),
                figure("sent_bps", 1e3),
            )
            .unwrap();
        }
    }
    out
}

/// Response times over one connection.
fn rpc_table() -> String {
    let mut out = String::from(
        "rpc:count=1000, delay=25ms,rate=20mbit,queue=100ms, seed 7\n  loss contender | response: mean ms      p50      p99 | first bytes: mean ms      p99\n",
    );
    for loss in ["0.1%", "1%", "5%"] {
        for contender in ["quic", "sctp-udp", "enet", "kcp", "arq"] {
            let path = format!("delay=25ms,rate=20mbit,queue=100ms,loss={loss}");
            let record = trial(&path, contender, "rpc:count=1000");
            let ms = |name: &str| match record.metrics.get(name) {
                Some(ns) => format!("{:.3}", ns / 1e6),
                None => "-".to_owned(),
            };
            writeln!(
                out,
                "{loss:>6} {contender:9} |          {:>8} {:>8} {:>8} |             {:>8} {:>8}",
                ms("response_mean_ns"),
                ms("response_p50_ns"),
                ms("response_p99_ns"),
                ms("first_byte_mean_ns"),
                ms("first_byte_p99_ns"),
            )
            .unwrap();
        }
    }
    out
}

/// Response times where the connection is kept, and where each request has its own.
fn redial_table() -> String {
    let mut out = String::from(
        "rpc:count=500,rate=2pps,response=1kB, delay=25ms, seed 7\n  loss contender        | kept: mean ms      max | each: mean ms      max  first bytes: mean ms\n",
    );
    for loss in ["0%", "2%"] {
        for contender in ["quic", "quic:resume=0rtt", "sctp-udp", "enet", "kcp", "arq"] {
            let path = format!("delay=25ms,loss={loss}");
            let [kept, each] = ["kept", "each"].map(|connect| {
                let workload = format!("rpc:count=500,rate=2pps,response=1kB,connect={connect}");
                trial(&path, contender, &workload)
            });
            let ms = |record: &Record, name: &str| format!("{:.3}", record.metrics[name] / 1e6);
            writeln!(
                out,
                "{loss:>6} {contender:16} |      {:>8} {:>8} |      {:>8} {:>8}              {:>8}",
                ms(&kept, "response_mean_ns"),
                ms(&kept, "response_max_ns"),
                ms(&each, "response_mean_ns"),
                ms(&each, "response_max_ns"),
                ms(&each, "first_byte_mean_ns"),
            )
            .unwrap();
        }
    }
    out
}

/// Time until the first byte of an answer, connection after connection.
fn connect_table() -> String {
    let mut out = String::from(
        "connect:count=200, delay=25ms, seed 7\n  loss contender        | first byte: mean ms      p50      max | set-up p50 ms  asked again\n",
    );
    for loss in ["0%", "2%"] {
        for contender in
            ["sim-datagram", "quic", "quic:resume=0rtt", "sctp-udp", "enet", "kcp", "rbudp", "arq"]
        {
            let path = format!("delay=25ms,loss={loss}");
            let record = trial(&path, contender, "connect:count=200");
            let figure = |name: &str| record.metrics[name];
            let ms = |name: &str| format!("{:.3}", figure(name) / 1e6);
            writeln!(
                out,
                "{loss:>6} {contender:16} |            {:>8} {:>8} {:>8} |      {:>8}      {:>6.3}",
                ms("first_byte_mean_ns"),
                ms("first_byte_p50_ns"),
                ms("first_byte_max_ns"),
                ms("set_up_p50_ns"),
                figure("asked_again_share"),
            )
            .unwrap();
        }
    }
    out
}

/// Round trips beside bulk data, behind a queue that it fills.
fn load_table() -> String {
    let mut out = String::from(
        "ping:interval=5ms,count=400 over delay=10ms,rate=20mbit,queue=100ms, seed 7\n  load     | datagram: p50 ms      p99  lost | load: Mbit/s\n",
    );
    for load in ["none", "arq", "quic", "quic:cc=bbr", "kcp"] {
        let workload = format!("ping:interval=5ms,count=400,load={load}");
        let record = trial("delay=10ms,rate=20mbit,queue=100ms", "sim-datagram", &workload);
        let rtt = record.rtt_ns.clone().unwrap();
        let lost: u64 = record.ledger.accounts().map(|(_, account)| account.lost_on_path).sum();
        let beside = record.metrics.get("load_goodput_bps").copied().unwrap_or(0.0) / 1e6;
        let (p50, p99) = (ms(rtt.p50), ms(rtt.p99));
        writeln!(out, "{load:11} |       {p50:>8} {p99:>8}  {lost:>4} | {beside:>8.3}").unwrap();
    }
    out
}

/// A picture, a pen, a voice and a pose: on one connection, and shared out among several.
fn share_table() -> String {
    let mut out = String::from(
        "share:count=1000,pictures=4, delay=25ms,rate=20mbit,queue=100ms, seed 7\n  loss contender                                                      | pen ms: mean      p99      max | pose age ms: mean      p99 | voice R  not played  late | picture ms: mean      max\n",
    );
    for loss in ["0%", "1%", "5%"] {
        for contender in [
            "quic",
            "enet",
            "sctp-udp",
            "kcp",
            "arq",
            "mix:picture=quic,pen=quic,voice=sim-datagram,pose=sim-datagram",
            "mix:picture=arq,pen=kcp,voice=sim-datagram,pose=sim-datagram",
            "mix:picture=arq,voice=arq,pose=arq,pen=arq",
        ] {
            let path = format!("delay=25ms,rate=20mbit,queue=100ms,loss={loss}");
            let record = trial(&path, contender, "share:count=1000,pictures=4");
            let figure = |name: &str, unit: f64, digits: usize| match record.metrics.get(name) {
                Some(figure) => format!("{:.digits$}", figure / unit),
                None => "-".to_owned(),
            };
            let ms = |name: &str| figure(name, 1e6, 3);
            writeln!(
                out,
                "{loss:>6} {contender:62} |     {:>8} {:>8} {:>8} |          {:>8} {:>8} | {:>7}    {:>8} {:>5} |         {:>8} {:>8}",
                ms("pen_mean_ns"),
                ms("pen_p99_ns"),
                ms("pen_max_ns"),
                ms("pose_age_mean_ns"),
                ms("pose_age_p99_ns"),
                figure("voice_rating_share", 0.01, 2),
                figure("voice_gap_share", 1.0, 4),
                figure("voice_late_share", 1.0, 3),
                ms("picture_mean_ns"),
                ms("picture_max_ns"),
            )
            .unwrap();
        }
    }
    out
}

/// Several receivers behind one link.
fn fanout_table() -> String {
    let mut out = String::from(
        "fanout:bytes=500kB, delay=10ms,rate=50mbit,queue=50ms, seed 7\n  receivers  contender | Mbit/s: slowest  fastest      all | last complete ms\n",
    );
    for receivers in [1, 2, 4, 8] {
        for contender in ["quic", "kcp", "arq"] {
            let workload = format!("fanout:receivers={receivers},bytes=500kB");
            let record = trial("delay=10ms,rate=50mbit,queue=50ms", contender, &workload);
            let mbit = |name: &str| format!("{:.3}", record.metrics[name] / 1e6);
            let (slowest, fastest) = (mbit("slowest_goodput_bps"), mbit("fastest_goodput_bps"));
            let (all, ms) = (mbit("goodput_bps"), record.metrics["transfer_ns"] / 1e6);
            writeln!(
                out,
                "{receivers:>11} {contender:>10} |         {slowest:>8} {fastest:>8} {all:>8} |         {ms:>8.3}"
            )
            .unwrap();
        }
    }
    out
}

#[test]
fn tables_are_as_the_golden_file_says() {
    let tables: [fn() -> String; 17] = [
        ping_table,
        bulk_table,
        cbr_table,
        blast_table,
        streams_table,
        state_table,
        events_table,
        voice_table,
        video_table,
        inputs_table,
        rpc_table,
        redial_table,
        connect_table,
        share_table,
        fanout_table,
        load_table,
        phases_table,
    ];
    let tables = thread::scope(|scope| {
        let each = tables.map(|table| scope.spawn(table));
        each.map(|table| table.join().unwrap())
    });
    let text = tables.join("\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sim.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (number, (got, want)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(got, want, "line {}", number + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}
