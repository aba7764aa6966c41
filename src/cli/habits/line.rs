//! Options of speed tests, iperf3 and ping that are typed at `line`, and the words that do the same.

use super::table::{Habit, habit, plain, with};
use super::value::Value;

const BOUND: &str = "the address or interface from which a survey leaves";
const HOST: &str = "the other host is the first word, and runs a server of yours";

/// Options that are typed at `line`.
pub(super) const LINE: &[Habit] = &[
    habit(
        &["-c", "--client", "--count"],
        "the other host is the first word; the number of messages is part of a race's workload",
        &[
            with(Value::Number, "20", "deadheat race udp --to HOST -w ping:count={}"),
            with(Value::Host, "HOST", "deadheat line {}"),
            plain("deadheat line HOST"),
        ],
    ),
    habit(
        &["-H", "--host", "--to", "--mini"],
        HOST,
        &[with(Value::Host, "HOST", "deadheat line {}")],
    ),
    habit(
        &["-s", "--server", "--server-id"],
        "the other host is the first word, and its server a subcommand there; sizes are of a race",
        &[
            with(Value::Message, "64", "deadheat race udp --to HOST -w ping:size={}"),
            with(Value::Host, "HOST", "deadheat line {}"),
            plain("deadheat serve"),
        ],
    ),
    habit(&["-L", "--list", "--servers"], HOST, &[plain("deadheat serve")]),
    habit(
        &["-p", "--port"],
        "the port stands behind the host",
        &[with(Value::Number, "5210", "deadheat line HOST:{}")],
    ),
    habit(
        &["-t", "--time", "-d", "--duration", "--deadline", "-w"],
        "the time of the whole survey, 15 s at least",
        &[with(Value::Survey, "60s", "--budget {}")],
    ),
    habit(
        &["-i", "--interval", "--ip"],
        "--every is the time between surveys, a race shows each interval, and --source is the address here",
        &[
            with(Value::Address, "192.0.2.7", "--source {}"),
            with(Value::Seconds, "1", "deadheat race udp --to HOST -i {}"),
        ],
    ),
    habit(
        &["-I", "--interface", "-B", "--bind", "--local", "--bind-dev"],
        BOUND,
        &[
            with(Value::Address, "192.0.2.7", "--source {}"),
            with(Value::Device, "eth0", "--device {}"),
        ],
    ),
    habit(
        &["-P", "--parallel", "--single"],
        "a survey has one connection and eight; another number is a race",
        &[with(Value::Number, "4", "deadheat race tcp --to HOST -w bulk:streams={}")],
    ),
    habit(
        &["-R", "--reverse", "--no-upload"],
        "a survey fills the line in each direction and in both; one alone is a race",
        &[plain("deadheat race tcp --to HOST -w bulk:direction=down")],
    ),
    habit(
        &["--no-download"],
        "a survey fills the line in each direction and in both; one alone is a race",
        &[plain("deadheat race tcp --to HOST -w bulk:direction=up")],
    ),
    habit(
        &["--bidir", "--full-duplex"],
        "a survey has both directions, one at a time and at once; leave the option out",
        &[plain("")],
    ),
    habit(
        &["-u", "--udp", "-b", "--bitrate", "--bandwidth"],
        "a survey has paced UDP at 1 Mbit/s; another rate is a race",
        &[with(Value::Rate, "20M", "deadheat race udp --to HOST -w cbr:rate={}")],
    ),
    habit(
        &["-l", "--length", "--len", "--size"],
        "the size of messages is part of a race's workload",
        &[with(Value::Message, "64", "deadheat race udp --to HOST -w ping:size={}")],
    ),
    habit(
        &["-n", "-k"],
        "a survey moves what the line carries in its time; a given amount is a race",
        &[with(Value::Bytes, "100M", "deadheat race tcp --to HOST -w bulk:bytes={}")],
    ),
    habit(
        &["-S", "--tos", "-Q"],
        "a survey tries marks of its own; one on all packets belongs to a contender, by DSCP",
        &[with(Value::Tos, "184", "deadheat race udp:dscp={} --to HOST")],
    ),
    habit(
        &["--dscp"],
        "a survey tries marks of its own; one on all packets belongs to a contender",
        &[with(Value::Dscp, "EF", "deadheat race udp:dscp={} --to HOST")],
    ),
    habit(
        &["-C", "--congestion"],
        "congestion control belongs to a contender of a race",
        &[with(Value::Text, "bbr", "deadheat race tcp:cc={} --to HOST -w bulk")],
    ),
    habit(
        &["-M", "--set-mss"],
        "it belongs to a contender of a race",
        &[with(Value::Number, "1400", "deadheat race tcp:mss={} --to HOST")],
    ),
    habit(
        &["-W", "--timeout"],
        "the time after which an answer counts as lost is part of a race's workload",
        &[with(Value::Seconds, "1", "deadheat race udp --to HOST -w ping:timeout={}")],
    ),
    habit(
        &["-O", "--omit"],
        "each load begins before the figures do; leave the option out",
        &[plain("")],
    ),
    habit(
        &["-f", "--csv", "--simple", "--bytes", "--unit", "--json-stream"],
        "each figure has the unit that fits, and JSON has bits per second and nanoseconds",
        &[plain("--format json")],
    ),
    habit(&["--share"], "a page to pass on, to standard output", &[plain("--format html")]),
    habit(
        &["-v", "-V", "--verbose", "--details", "--selection-details"],
        "all there is to say",
        &[plain("--format markdown")],
    ),
    habit(
        &["--accept-license", "--accept-gdpr", "--secure", "--no-pre-allocate"],
        "there is nothing of the kind here; leave the option out",
        &[plain("")],
    ),
];
