//! The keys of a path.

use super::forms::{self, HOUR};
use crate::spec::{Key, Kind, plain};

/// The keys of a link, each of which may begin with `up.` or `down.`.
pub const LINK: &[Key] = &[
    Key {
        name: "delay",
        kind: Kind::Span(0, HOUR),
        default: "0ms",
        doc: "time on the way, in each direction: a round trip takes it twice",
    },
    Key {
        name: "jitter",
        kind: Kind::Span(0, HOUR),
        default: "",
        doc: "how much the delay varies: half the range of `uniform`, the standard deviation of the others; not set: not at all",
    },
    Key {
        name: "jitter-shape",
        kind: Kind::Own {
            form: "uniform|normal|pareto|FILE",
            check: forms::shape,
            refers: forms::shape_refers,
        },
        default: "uniform",
        doc: "how jitter is distributed; FILE has one offset a line, in units of `jitter`, with a mean of 0",
    },
    Key {
        name: "order",
        kind: Kind::Choice(&["kept", "free"]),
        default: "kept",
        doc: "whether jitter lets packets overtake: `free` sends each when its own delay is over",
    },
    Key {
        name: "loss",
        kind: Kind::Narrow(&Kind::Share, forms::loss),
        default: "",
        doc: "the share of packets lost, each on its own unless `burst` is given; below 100%",
    },
    Key {
        name: "burst",
        kind: Kind::Own {
            form: "PACKETS|TIME",
            check: |typed| forms::burst(typed).map(drop),
            refers: plain,
        },
        default: "",
        doc: "loss comes in bursts of this mean length: in packets (Gilbert-Elliott, all lost in the bad state), or in time, whoever sends",
    },
    Key {
        name: "ge",
        kind: Kind::Own {
            form: "P/R/1-H/1-K",
            check: |typed| forms::chain(typed).map(drop),
            refers: plain,
        },
        default: "",
        doc: "loss by a Gilbert-Elliott chain in netem's order: into the bad state, out of it, loss in bad (100%), loss in good (0%)",
    },
    Key {
        name: "drop",
        kind: Kind::Own {
            form: "N/N-N/…|@FILE",
            check: |typed| forms::picked(typed).map(drop),
            refers: forms::picked_refers,
        },
        default: "",
        doc: "loses just these packets, counted from 1 in order of arrival; FILE has one number or range a line",
    },
    Key {
        name: "block",
        kind: Kind::Own { form: "PROTOCOL[@TIME]/…", check: forms::block, refers: plain },
        default: "",
        doc: "a firewall drops all packets of these protocols of IP (icmp, tcp, udp, dccp, sctp, udplite): always, or from this time on, counted from just before a trial connects",
    },
    Key {
        name: "loss-per",
        kind: Kind::Choice(&["packet", "super"]),
        default: "packet",
        doc: "what a loss decides on: `super` loses all segments of a super-packet at once, which is wrong and what netem does with offloads",
    },
    Key {
        name: "duplicate",
        kind: Kind::Narrow(&Kind::Share, forms::share),
        default: "",
        doc: "the share of packets that arrive twice",
    },
    Key {
        name: "corrupt",
        kind: Kind::Narrow(&Kind::Share, forms::corrupt),
        default: "",
        doc: "the share of packets of which one bit is flipped; below 100%",
    },
    Key {
        name: "reorder",
        kind: Kind::Narrow(&Kind::Share, forms::reorder),
        default: "",
        doc: "the share of packets that are held back until others have passed; below 100%",
    },
    Key {
        name: "reorder-depth",
        kind: Kind::Count(1, 10_000),
        default: "3",
        doc: "how many pass one that is held back (RFC 4737's extent); from 3 on TCP takes it for lost",
    },
    Key {
        name: "reorder-patience",
        kind: Kind::Span(1_000, HOUR),
        default: "50ms",
        doc: "after this time one that is held back goes anyway",
    },
    Key {
        name: "nic",
        kind: Kind::Own {
            form: "RATE|none",
            check: |typed| forms::nic(typed).map(drop),
            refers: plain,
        },
        default: "",
        doc: "the rate of the sending host's network card, which loses nothing: a full send buffer holds the sender back; not set: 10gbit, or twice `rate` where that is more",
    },
    Key {
        name: "rate",
        kind: Kind::Rate(1, 1_000_000_000_000),
        default: "",
        doc: "packets leave one after another at this rate; not set: at once. At least a packet an hour",
    },
    Key {
        name: "trace",
        kind: Kind::Path,
        default: "",
        doc: "the rate over time as recorded in a file, mahimahi's or our own format; begins again at its end",
    },
    Key {
        name: "trace-mode",
        kind: Kind::Choice(&["spread", "burst"]),
        default: "spread",
        doc: "of a file in mahimahi's format: opportunities evenly over their millisecond, or at once as mahimahi does",
    },
    Key {
        name: "overhead",
        kind: Kind::Size(0, 1_500),
        default: "",
        doc: "what the link layer adds to each packet, in what the rate counts; not set: 0B, 4B with a trace of mahimahi's",
    },
    Key {
        name: "queue",
        kind: Kind::Own {
            form: "SIZE|Npkt|TIME",
            check: |typed| forms::limit(typed).map(drop),
            refers: plain,
        },
        default: "100ms",
        doc: "how much waits for the rate, the packet that is leaving not counted",
    },
    Key {
        name: "aqm",
        kind: Kind::Choice(&["droptail", "codel", "fq-codel", "pie"]),
        default: "droptail",
        doc: "what keeps the queue short before it is full (RFC 8289, RFC 8290, RFC 8033)",
    },
    Key {
        name: "target",
        kind: Kind::Span(1_000, 10_000_000_000),
        default: "",
        doc: "the delay in the queue that codel, fq-codel (not set: 5ms) and pie (15ms) aim at",
    },
    Key {
        name: "interval",
        kind: Kind::Span(1_000, 100_000_000_000),
        default: "100ms",
        doc: "over which time codel and fq-codel judge the queue",
    },
    Key {
        name: "ecn",
        kind: Kind::Switch,
        default: "off",
        doc: "codel, fq-codel and pie mark packets that allow it (RFC 3168) instead of dropping them",
    },
];

/// The keys of a whole path, given once in any of its links.
pub const WHOLE: &[Key] = &[
    Key {
        name: "seed",
        kind: Kind::Count(0, u64::MAX),
        default: "",
        doc: "fixes all impairments; not set: a new one for each block, the same for all of its contenders",
    },
    Key {
        name: "mtu",
        kind: Kind::Count(576, 65_535),
        default: "1500",
        doc: "the largest IP packet; below 1280 there is no IPv6 (RFC 8200, section 5)",
    },
    Key {
        name: "backend",
        kind: Kind::Choice(&["tun", "packet", "netem"]),
        default: "",
        doc: "what builds it: TUN devices, veth with packet sockets, or the kernel's netem; not set: the first that works here",
    },
    Key {
        name: "wait",
        kind: Kind::Choice(&["hybrid", "spin"]),
        default: "hybrid",
        doc: "how it waits for the time of a release: spin burns a core for each direction",
    },
    Key {
        name: "mode",
        kind: Kind::Choice(&["strict", "aggregate"]),
        default: "",
        doc: "whether departures within 15us go together, as from a card that moderates its interrupts; not set: by rate",
    },
];
