//! Keys of a path.

use super::forms::{self, HOUR};
use super::host_keys::{FAR, HOST_DOWN, LOAD, NEAR, PEOPLE, RECEIVERS, RELAY, ROUTE};
use super::product;
use crate::Family;
use crate::down::DownTimes;
use crate::nat::Dependence;
use crate::network::{Backend, Grouping, LossPer, Order, ReleaseWait};
use crate::trace::Mode;
use deadheat_base::spec::Key;
use deadheat_base::spec::typed::{Optional, Preset, Text};
use deadheat_base::time::Nanos;
use deadheat_base::units::{BitRate, Bytes};

/// Keys of a link, each of which may begin with `up.` or `down.`, but for [`OF_BOTH`].
pub const LINK: &[Key] = deadheat_base::keys![
    DELAY,
    JITTER,
    REORDERING,
    JITTER_SHAPE,
    ORDER,
    LOSS,
    BURST,
    GE,
    DROP,
    BLOCK,
    DOWN,
    NAT,
    FIREWALL,
    NAT_TIMEOUT,
    HAIRPIN,
    IP,
    LOSS_PER,
    DUPLICATE,
    CORRUPT,
    REORDER,
    REORDER_DEPTH,
    REORDER_PATIENCE,
    NIC,
    RATE,
    TRACE,
    TRACE_MODE,
    OVERHEAD,
    QUEUE,
    AQM,
    TARGET,
    INTERVAL,
    ECN
];

/// Keys of a link that hold for both directions together.
pub const OF_BOTH: &[&str] =
    &[NAT.name(), NAT_TIMEOUT.name(), HAIRPIN.name(), FIREWALL.name(), IP.name()];

/// Keys of a whole path, given once in any of its links.
pub const WHOLE: &[Key] = &[
    SEED.key(),
    MTU.key(),
    BACKEND.key(),
    WAIT.key(),
    MODE.key(),
    NEAR,
    FAR,
    RELAY,
    RECEIVERS,
    LOAD,
    PEOPLE,
    HOST_DOWN,
    ROUTE,
    REROUTE.key(),
];

pub(super) const REROUTE: Optional<Nanos> = Optional::span("reroute", (0, HOUR))
    .doc("so long after a link went down or came back the hosts send by the ways that are best without it, or with it; not \
     set: routes stay");

/// Discipline of a queue, as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aqm {
    DropTail,
    Codel,
    FqCodel,
    Pie,
    Red,
    DualPi2,
}

pub(super) const DELAY: Preset<Nanos> = Optional::span("delay", (0, HOUR))
    .or("0ms")
    .doc("time on the way, in each direction: a round trip takes it twice");

pub(super) const JITTER: Optional<Nanos> = Optional::span("jitter", (0, HOUR))
    .doc("variation of the delay, in which packets keep their order: half the range of `uniform`, the standard deviation of \
     the others");

pub(super) const REORDERING: Optional<Nanos> = Optional::span("reordering-jitter", (0, HOUR)).doc(
    "the same without the order: each packet leaves when its own delay is over, past \
     others, as with netem's jitter",
);

pub(super) const JITTER_SHAPE: Key =
    Key::own("jitter-shape", "uniform|normal|pareto|FILE", forms::shape)
        .referring(forms::shape_refers)
        .or("uniform")
        .doc(
            "distribution of the jitter; FILE has one offset a line, in units of `jitter`, with \
             a mean of 0",
        );

pub(super) const ORDER: Preset<Order> =
    Optional::choice("order", &["kept", "free"], &[Order::Kept, Order::Free])
        .or("kept")
        .doc("`free` makes `jitter` reorder; `reordering-jitter` is the word for it");

pub(super) const LOSS: Optional<f64> = Optional::share("loss", forms::loss)
    .doc("the share of packets lost, each on its own unless `burst` is given; below 100%");

pub(super) const BURST: Key =
    Key::own("burst", "PACKETS|TIME", |typed| forms::burst(typed).map(drop)).doc(
        "loss comes in bursts of this mean length: in packets (Gilbert-Elliott, all lost in \
         the bad state), or in time, whatever is sent",
    );

pub(super) const GE: Key = Key::own("ge", "P/R/1-H/1-K", |typed| forms::chain(typed).map(drop))
    .doc(
        "loss by a Gilbert-Elliott chain in netem's order: into the bad state, out of it, \
         loss in bad (100%), loss in good (0%)",
    );

pub(super) const DROP: Key =
    Key::own("drop", "N/N-N/…|every:N|@FILE", |typed| forms::picked(typed).map(drop))
        .referring(forms::picked_refers)
        .doc(
            "loses just these packets, counted from 1 in order of arrival, or each N-th; FILE \
             has one number or range a line",
        );

pub(super) const BLOCK: Key = Key::own("block", "PROTOCOL[@TIME]/…", forms::block)
    .doc("a firewall drops these protocols of IP (icmp, tcp, udp, dccp, sctp, udplite): always, or from this time \
     on, counted from just before a trial connects");

/// Mapping and filtering of a NAT, and true for a NAT64.
pub(super) type NatKind = (Dependence, Dependence, bool);

const EIM: Dependence = Dependence::Independent;
const ADM: Dependence = Dependence::Address;
const APDM: Dependence = Dependence::AddressAndPort;

/// The words of RFC 3489 come first: they are written where both name the same.
pub(super) const NAT: Optional<NatKind> = Optional::choice("nat", &[
        "full-cone",
        "restricted",
        "port-restricted",
        "symmetric",
        "eim/eif",
        "eim/adf",
        "eim/apdf",
        "adm/eif",
        "adm/adf",
        "adm/apdf",
        "apdm/eif",
        "apdm/adf",
        "apdm/apdf",
        "64",
        "64/adf",
        "64/apdf",
    ], &[
        (EIM, EIM, false),
        (EIM, ADM, false),
        (EIM, APDM, false),
        (APDM, APDM, false),
        (EIM, EIM, false),
        (EIM, ADM, false),
        (EIM, APDM, false),
        (ADM, EIM, false),
        (ADM, ADM, false),
        (ADM, APDM, false),
        (APDM, EIM, false),
        (APDM, ADM, false),
        (APDM, APDM, false),
        (EIM, EIM, true),
        (EIM, ADM, true),
        (EIM, APDM, true),
    ])
    .doc("the link's first host is a NAT (RFC 4787) for what leaves by the link: mapping and filtering are independent of \
     the remote endpoint (eim/eif), or depend on its address (adm/adf) or on address and port (apdm/apdf). With 64 it \
     makes IPv4 of IPv6 (RFC 6146), with the filter behind the slash. Without up. or down.");

pub(super) const NAT_TIMEOUT: Preset<Nanos> =
    Optional::span("nat-timeout", (1_000_000, 24 * HOUR)).or("300s").doc(
        "time without packets after which NAT and firewall forget a binding of UDP (RFC \
         4787, section 4.3)",
    );

pub(super) const HAIRPIN: Preset<bool> = Optional::switch("hairpin")
    .or("on")
    .doc("hosts behind the NAT reach each other by its public address (RFC 4787, section 6)");

pub(super) const FIREWALL: Optional<()> = Optional::choice("firewall", &["stateful"], &[()]).doc(
    "the link's first host lets in over the link only answers to what has left by it. \
     Without up. or down.",
);

pub(super) const IP: Optional<Family> = Optional::choice("ip", &["4", "6"], &[Family::V4, Family::V6])
    .doc("the only version of IP on the link: its hosts have no other addresses there; not set: both, and 4 with nat=64. \
     Without up. or down.");

pub(super) const LOSS_PER: Preset<LossPer> =
    Optional::choice("loss-per", &["packet", "super"], &[LossPer::Packet, LossPer::Super])
        .or("packet")
        .doc(
            "unit of a loss: `super` loses all segments of a super-packet at once, wrongly, as \
             netem does with offloads",
        );

pub(super) const DOWN: Key = Key::own("down", "FROM-TO", |typed| DownTimes::parse(typed).map(drop))
    .doc("times at which the link is down, since the path began: 10s-13s/20s-21s; lost is what arrives, waits in its queue \
     or would leave it then");

pub(super) const DUPLICATE: Optional<f64> =
    Optional::share("duplicate", forms::share).doc("the share of packets that arrive twice");

pub(super) const CORRUPT: Optional<f64> = Optional::share("corrupt", forms::corrupt)
    .doc("the share of packets of which one bit is flipped; below 100%");

pub(super) const REORDER: Optional<f64> = Optional::share("reorder", forms::reorder)
    .doc("the share of packets held back until others have passed; below 100%");

pub(super) const REORDER_DEPTH: Preset<u64> = Optional::count("reorder-depth", (1, 10_000))
    .or("3")
    .doc("packets that pass one held back (RFC 4737's extent); from 3 on TCP takes it for lost");

pub(super) const REORDER_PATIENCE: Preset<Nanos> =
    Optional::span("reorder-patience", (1_000, HOUR))
        .or("50ms")
        .doc("a packet that is held back goes on after this time anyway");

pub(super) const NIC: Key = Key::own("nic", "RATE|none", |typed| forms::nic(typed).map(drop))
    .doc("the rate of the sender's network card, which loses nothing: a full send buffer holds the sender back; not \
     set: 10gbit, or twice `rate` where that is more");

pub(super) const RATE: Optional<BitRate> = Optional::rate("rate", (1, 1_000_000_000_000)).doc(
    "packets leave one after another at this rate; not set: at once. At least a packet an hour",
);

pub(super) const TRACE: Key = Text::path("trace")
    .doc(
        "the rate over time from a file, in mahimahi's, Pensieve's or our format; begins \
         again at its end",
    )
    .key();

pub(super) const TRACE_MODE: Preset<Mode> =
    Optional::choice("trace-mode", &["spread", "burst"], &[Mode::Spread, Mode::Burst])
        .or("spread")
        .doc(
            "of a file in mahimahi's format: opportunities evenly over their millisecond, or at \
             once, as mahimahi does",
        );

pub(super) const OVERHEAD: Optional<Bytes> = Optional::size("overhead", (0, 1_500)).doc(
    "bytes that the link layer adds to each packet, which count for the rate; not set: \
     0B, 4B with a trace of mahimahi's",
);

pub(super) const QUEUE: Key = Key::own("queue", "SIZE|Npkt|TIME|Nbdp", |typed| match product::multiple(typed)? {
            Some(_) => Ok(()),
            None => forms::limit(typed).map(drop),
        })
    .or("100ms")
    .doc("room for packets that wait for the rate; the packet that is leaving does not count; 4bdp: so many products of the \
     rate and the round trip between near and far");

pub(super) const AQM: Preset<Aqm> = Optional::choice(
    "aqm",
    &["droptail", "codel", "fq-codel", "pie", "red", "dualpi2"],
    &[Aqm::DropTail, Aqm::Codel, Aqm::FqCodel, Aqm::Pie, Aqm::Red, Aqm::DualPi2],
)
.or("droptail")
.doc("active queue management (RFC 8289, RFC 8290, RFC 8033, Floyd & Jacobson 1993, RFC 9332)");

pub(super) const TARGET: Optional<Nanos> = Optional::span("target", (1_000, 10_000_000_000)).doc(
    "the delay in the queue that codel, fq-codel (not set: 5ms), pie and dualpi2 (15ms) aim at",
);

pub(super) const INTERVAL: Preset<Nanos> = Optional::span("interval", (1_000, 100_000_000_000))
    .or("100ms")
    .doc("time over which codel and fq-codel judge the queue");

pub(super) const ECN: Preset<bool> = Optional::switch("ecn").or("off").doc(
    "codel, fq-codel, pie and red mark packets that allow it (RFC 3168) instead of \
     dropping them; dualpi2 always does",
);

pub(super) const SEED: Optional<u64> = Optional::count("seed", (0, u64::MAX)).doc(
    "fixes all impairments; not set: a new one for each block, the same for all of its contenders",
);

pub(super) const MTU: Preset<u64> = Optional::count("mtu", (576, 65_535))
    .or("1500")
    .doc("the largest IP packet, of one link where it stands in the words of a link with names of hosts; below 1280 on any link \
     there is no IPv6 (RFC 8200, section 5)");

pub(super) const BACKEND: Optional<Backend> = Optional::choice(
    "backend",
    &["tun", "packet", "netem"],
    &[Backend::Tun, Backend::Packet, Backend::Netem],
)
.doc(
    "TUN devices, veth with packet sockets, or the kernel's netem; not set: the first \
     that works here",
);

pub(super) const WAIT: Preset<ReleaseWait> = Optional::choice("wait", &["hybrid", "spin", "sleep"], &[ReleaseWait::Hybrid, ReleaseWait::Spin, ReleaseWait::Sleep])
    .or("hybrid")
    .doc("waiting for a packet, and for the time of its release: hybrid sleeps, and polls around each; spin takes a core for \
     each direction; sleep never polls, and is late by a wake-up: many networks side by side take few CPUs so");

pub(super) const MODE: Optional<Grouping> =
    Optional::choice("mode", &["strict", "aggregate"], &[Grouping::Strict, Grouping::Aggregate])
        .doc(
            "departures within 15us: each at its time (strict), or together (aggregate), as \
             from a card that moderates its interrupts; not set: by rate",
        );
