//! Causes planted in real time.

use super::plants::{Plant, SAME_CORE, SLOW, drawn, lossy, lost, overload, short, slow, wide};
use deadheat::result::causes::Cause;

/// Work of the plants of bulk data in real time.
const BULK: &str = "bulk:time=1500ms,warmup=500ms";

/// Plants in kernels' and libraries' transports, in real time over an emulated path.
pub(crate) static REAL_PLANTS: &[Plant] = &[
    Plant::new(Cause::ReceiveWindow, "tcp", |rng| {
        let buffer = drawn(rng, (16, 64));
        [format!("rcvbuf={buffer}kB"), BULK.into(), wide(rng, (10, 40), 100)]
    })
    .beside("tcp"),
    Plant::new(Cause::SendBuffer, "tcp", |rng| {
        let buffer = drawn(rng, (16, 64));
        [format!("sndbuf={buffer}kB"), BULK.into(), wide(rng, (10, 40), 100)]
    })
    .beside("tcp"),
    Plant::new(Cause::LibraryWindow, "quic", |rng| {
        let window = drawn(rng, (24, 120));
        [format!("window={window}kB"), BULK.into(), wide(rng, (15, 40), 100)]
    })
    .beside("quic"),
    Plant::new(Cause::CongestionWindow, "tcp", |rng| {
        let path = lossy(rng, (5, 20), (10, 40));
        ["cc=reno".into(), BULK.into(), format!("{path},rate=100mbit")]
    })
    .beside("tcp:cc=bbr"),
    Plant::new(Cause::CongestionWindow, "quic", |rng| {
        let path = lossy(rng, (5, 20), (10, 40));
        ["cc=cubic".into(), BULK.into(), format!("{path},rate=100mbit")]
    })
    .beside("tcp:cc=bbr"),
    Plant::new(Cause::Overhead, "tcp", |rng| {
        let path = slow(rng, [(3, 20), (5, 30), (60, 200)]);
        [format!("cc=cubic,mss={}", drawn(rng, (300, 600))), BULK.into(), path]
    })
    .beside("tcp:cc=cubic"),
    Plant::new(Cause::Pacing, "tcp", |rng| {
        let pace = drawn(rng, (10, 40));
        [format!("cc=cubic,pace={pace}mbit"), BULK.into(), wide(rng, (5, 20), 100)]
    })
    .beside("tcp:cc=cubic"),
    Plant::new(Cause::Timeouts, "tcp", |rng| {
        let path = lossy(rng, (200, 300), (10, 40));
        ["cc=cubic".into(), "bulk:time=4s,warmup=500ms".into(), path]
    }),
    Plant::new(Cause::PathRate, "tcp", |rng| {
        ["cc=cubic".into(), BULK.into(), slow(rng, [SLOW[0], SLOW[1], (40, 200)])]
    }),
    Plant::new(Cause::PathRate, "quic", |rng| {
        ["".into(), BULK.into(), slow(rng, [SLOW[0], SLOW[1], (40, 200)])]
    }),
    Plant::new(Cause::SlowStart, "tcp", |rng| {
        let [work, path] = short(rng);
        ["cc=cubic".into(), work, path]
    }),
    Plant::new(Cause::OneCpu, "tcp", |_| ["".into(), BULK.into(), SAME_CORE.into()]),
    Plant::new(Cause::PathDelay, "tcp", |rng| {
        ["".into(), "ping:count=100".into(), format!("delay={}ms", drawn(rng, (5, 80)))]
    }),
    Plant::new(Cause::Nagle, "tcp", |rng| {
        let path = format!("delay={}ms", drawn(rng, (10, 40)));
        ["nodelay=off".into(), "ping:interval=5ms,count=300".into(), path]
    })
    .beside("tcp"),
    Plant::new(Cause::Retransmission, "tcp", |rng| {
        let path = lossy(rng, (20, 40), (10, 40));
        ["".into(), "ping:claim=p90,interval=5ms,count=600".into(), path]
    })
    .beside("udp"),
    Plant::new(Cause::Queue, "tcp", |rng| {
        let path = slow(rng, [(2, 15), (5, 30), (80, 200)]);
        ["".into(), "ping:count=100,load=tcp:cc=cubic".into(), path]
    }),
    Plant::new(Cause::Handshake, "tls", |rng| {
        ["".into(), "connect:count=20".into(), format!("delay={}ms", drawn(rng, (5, 60)))]
    })
    .beside("tcp"),
    Plant::new(Cause::PathLoss, "udp", |rng| {
        let [work, path] = lost(rng, "2s");
        ["".into(), work, path]
    }),
    Plant::new(Cause::PathRate, "udp", |rng| {
        let [work, path] = overload(rng, "2s");
        ["".into(), work, path]
    }),
];
