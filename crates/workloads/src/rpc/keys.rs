//! The options of requests and responses.

use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Kind, plain};

use super::{
    Connections, ENOUGH, ENOUGH_FOR_P95, ENOUGH_FOR_P99, MOST_AT_ONCE, answers, law, per_second,
};
use crate::draw::{SizeLaw, Spread, arrivals_key};
use crate::paced::{Claim, DUE_LEN};

pub(super) const KEYS: &[Key] = deadheat_base::keys![
    RATE, ARRIVALS, REQUEST, RESPONSE, MTU, LANES, CONNECT, AT_ONCE, COUNT, CLAIM
];

pub(super) const RATE: Preset<u64> = Optional::form(
    "rate",
    Kind::Own { form: "..1Mpps", check: |typed| per_second(typed).map(drop), refers: plain },
    per_second,
    0,
)
.or("50pps")
.doc("requests per second on average, whatever is answered");

pub(super) const ARRIVALS: Preset<Spread> =
    arrivals_key("requests at random times (a Poisson process), or equally far apart");

pub(super) const REQUEST: Preset<usize> = Optional::length("request", (DUE_LEN as u64, 65_507))
    .or("200")
    .doc("one request, in one message");

pub(super) const RESPONSE: Preset<SizeLaw> = Optional::form("response", Kind::Own { form: "SIZE|SIZE..SIZE|P5~P95", check: |typed| law(typed).map(drop), refers: plain }, law, SizeLaw::between(0, 0))
    .or("1kB..10kB")
    .doc("one response: of one size, from a range with a uniform logarithm (1kB..100kB: as many below 10 kB as above), or log-normal \
     with these percentiles (66kB~2MB)");

pub(super) const MTU: Preset<usize> = Optional::length("mtu", (2 * DUE_LEN as u64, 65_507))
    .or("1200")
    .doc("the largest message into which a response is cut, its header of 20 bytes included");

pub(super) const LANES: Preset<u64> = Optional::count("lanes", (1, 256)).or("8").doc(
    "lanes that requests and responses take in turns, where the transport has them; \
     else all share its order",
);

pub(super) const CONNECT: Preset<Connections> = Optional::choice("connect", &["kept", "each"], &[Connections::Kept, Connections::Each])
    .or("kept")
    .doc("one connection for all requests, or a new one for each, opened when it is due and the one before has its \
     response; its handshake counts");

pub(super) const AT_ONCE: Optional<u64> = Optional::count("at-once", (1, MOST_AT_ONCE))
    .doc("with connect=each: connections that may be open at a time, in turns; a request whose turn is not over yet waits, and \
     that counts (1)");

pub(super) const COUNT: Optional<u64> = Optional::count("count", (20, 1_000_000))
    .doc("requests (as many as the claim needs: 100, 200 for p95, or 1000 for p99)");

pub(super) const CLAIM: Preset<Claim> = Optional::choice(
    "claim",
    &["mean", "geomean", "p50", "p95", "p99"],
    &[
        Claim::new("response_mean_ns", ENOUGH),
        Claim::new(answers::GEOMEAN, ENOUGH),
        Claim::new("response_p50_ns", ENOUGH),
        Claim::new("response_p95_ns", ENOUGH_FOR_P95),
        Claim::new("response_p99_ns", ENOUGH_FOR_P99),
    ],
)
.or("mean")
.doc("the figure of the response time for verdicts");
