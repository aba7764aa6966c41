//! Causes planted in real time.

use super::plants::{Plant, SAME_CORE, between};
use deadheat::result::causes::Cause;

/// Work of the plants of bulk data in real time.
const BULK: &str = "bulk:time=1500ms,warmup=500ms";

/// Plants in kernels' and libraries' transports, in real time over an emulated path.
pub(crate) static REAL_PLANTS: &[Plant] = &[
    Plant {
        cause: Cause::ReceiveWindow,
        contender: "tcp",
        rival: "tcp",
        conditions: |rng| {
            let buffer = between(rng, 16, 64);
            let path = format!("delay={}ms,rate=100mbit,queue=100ms", between(rng, 10, 40));
            [format!("rcvbuf={buffer}kB"), BULK.into(), path]
        },
    },
    Plant {
        cause: Cause::SendBuffer,
        contender: "tcp",
        rival: "tcp",
        conditions: |rng| {
            let buffer = between(rng, 16, 64);
            let path = format!("delay={}ms,rate=100mbit,queue=100ms", between(rng, 10, 40));
            [format!("sndbuf={buffer}kB"), BULK.into(), path]
        },
    },
    Plant {
        cause: Cause::LibraryWindow,
        contender: "quic",
        rival: "quic",
        conditions: |rng| {
            let window = between(rng, 24, 120);
            let path = format!("delay={}ms,rate=100mbit,queue=100ms", between(rng, 15, 40));
            [format!("window={window}kB"), BULK.into(), path]
        },
    },
    Plant {
        cause: Cause::CongestionWindow,
        contender: "tcp",
        rival: "tcp:cc=bbr",
        conditions: |rng| {
            let loss = between(rng, 5, 20) as f64 / 10.0;
            let path = format!("delay={}ms,loss={loss}%,rate=100mbit", between(rng, 10, 40));
            ["cc=reno".into(), BULK.into(), path]
        },
    },
    Plant {
        cause: Cause::CongestionWindow,
        contender: "quic",
        rival: "tcp:cc=bbr",
        conditions: |rng| {
            let loss = between(rng, 5, 20) as f64 / 10.0;
            let path = format!("delay={}ms,loss={loss}%,rate=100mbit", between(rng, 10, 40));
            ["cc=cubic".into(), BULK.into(), path]
        },
    },
    Plant {
        cause: Cause::PathRate,
        contender: "tcp",
        rival: "",
        conditions: |rng| {
            let (delay, rate) = (between(rng, 3, 40), between(rng, 5, 40));
            let path = format!("delay={delay}ms,rate={rate}mbit,queue={}ms", between(rng, 40, 200));
            ["cc=cubic".into(), BULK.into(), path]
        },
    },
    Plant {
        cause: Cause::PathRate,
        contender: "quic",
        rival: "",
        conditions: |rng| {
            let (delay, rate) = (between(rng, 3, 40), between(rng, 5, 40));
            let path = format!("delay={delay}ms,rate={rate}mbit,queue={}ms", between(rng, 40, 200));
            ["".into(), BULK.into(), path]
        },
    },
    Plant {
        cause: Cause::SlowStart,
        contender: "tcp",
        rival: "",
        conditions: |rng| {
            let (kilobytes, delay) = (between(rng, 150, 400), between(rng, 20, 80));
            let path = format!("delay={delay}ms,rate=500mbit");
            ["cc=cubic".into(), format!("bulk:bytes={kilobytes}kB"), path]
        },
    },
    Plant {
        cause: Cause::OneCpu,
        contender: "tcp",
        rival: "",
        conditions: |_| ["".into(), BULK.into(), SAME_CORE.into()],
    },
    Plant {
        cause: Cause::PathDelay,
        contender: "tcp",
        rival: "",
        conditions: |rng| {
            ["".into(), "ping:count=100".into(), format!("delay={}ms", between(rng, 5, 80))]
        },
    },
    Plant {
        cause: Cause::Nagle,
        contender: "tcp",
        rival: "tcp",
        conditions: |rng| {
            let path = format!("delay={}ms", between(rng, 10, 40));
            ["nodelay=off".into(), "ping:interval=5ms,count=300".into(), path]
        },
    },
    Plant {
        cause: Cause::Retransmission,
        contender: "tcp",
        rival: "udp",
        conditions: |rng| {
            let loss = between(rng, 20, 40) as f64 / 10.0;
            let path = format!("delay={}ms,loss={loss}%", between(rng, 10, 40));
            ["".into(), "ping:claim=p90,interval=5ms,count=600".into(), path]
        },
    },
    Plant {
        cause: Cause::Queue,
        contender: "tcp",
        rival: "",
        conditions: |rng| {
            let (delay, rate) = (between(rng, 2, 15), between(rng, 5, 30));
            let path = format!("delay={delay}ms,rate={rate}mbit,queue={}ms", between(rng, 80, 200));
            ["".into(), "ping:count=100,load=tcp:cc=cubic".into(), path]
        },
    },
    Plant {
        cause: Cause::Handshake,
        contender: "tls",
        rival: "tcp",
        conditions: |rng| {
            ["".into(), "connect:count=20".into(), format!("delay={}ms", between(rng, 5, 60))]
        },
    },
    Plant {
        cause: Cause::PathLoss,
        contender: "udp",
        rival: "",
        conditions: |rng| {
            let (loss, rate) = (between(rng, 2, 10), between(rng, 1, 8));
            let path = format!("delay={}ms,loss={loss}%", between(rng, 5, 50));
            ["".into(), format!("cbr:rate={rate}mbit,time=2s"), path]
        },
    },
    Plant {
        cause: Cause::PathRate,
        contender: "udp",
        rival: "",
        conditions: |rng| {
            let rate = between(rng, 2, 8);
            let path = format!("delay={}ms,rate={rate}mbit,queue=50ms", between(rng, 5, 50));
            ["".into(), format!("cbr:rate={}mbit,time=2s", 2 * rate), path]
        },
    },
];
