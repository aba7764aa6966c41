//! Options of iperf3, irtt, ping, hyperfine and tc, and the words that do the same here.

use super::value::Value;

/// An option of other tools, and the words that do the same here.
pub(super) struct Habit {
    pub(super) typed: &'static [&'static str],
    pub(super) says: &'static str,
    /// Words, by kind of the typed value; the first that fit are given.
    pub(super) does: &'static [Words],
}

/// Words that do here what an option does elsewhere.
pub(super) struct Words {
    pub(super) value: Value,
    /// Value in the notation of other tools, for the place of `{}` where none was typed.
    pub(super) example: &'static str,
    /// A part of a command line, or a whole one. Empty if there is nothing to write.
    pub(super) text: &'static str,
}

pub(super) const fn habit(
    typed: &'static [&'static str],
    says: &'static str,
    does: &'static [Words],
) -> Habit {
    Habit { typed, says, does }
}

pub(super) const fn plain(text: &'static str) -> Words {
    Words { value: Value::Nothing, example: "", text }
}

pub(super) const fn with(value: Value, example: &'static str, text: &'static str) -> Words {
    Words { value, example, text }
}

const MARK: &str = "a mark belongs to the contender, by DSCP, the upper six bits of the TOS byte";
const BOUND: &str = "the address or interface from which a race leaves";

/// Options that are typed at `race`, and where no subcommand is named.
pub(super) const RACE: &[Habit] = &[
    habit(&["-u", "--udp"], "name the contender instead", &[plain("deadheat race udp")]),
    habit(
        &["-t", "--time", "-d", "--duration"],
        "the length of a trial is part of the workload, and --budget limits the whole race",
        &[with(Value::Seconds, "5", "-w bulk:time={}")],
    ),
    habit(
        &["-l", "--length", "--len", "--size"],
        "the size of messages is part of the workload",
        &[with(Value::Message, "64", "-w ping:size={}")],
    ),
    habit(
        &["-s"],
        "the size of messages is part of the workload, and the server a subcommand",
        &[with(Value::Message, "64", "-w ping:size={}"), plain("deadheat serve")],
    ),
    habit(&["--server"], "the other end is a subcommand", &[plain("deadheat serve")]),
    habit(
        &["-D", "--daemon"],
        "the server is a subcommand, and stays in the foreground",
        &[plain("deadheat serve")],
    ),
    habit(
        &["-n", "--bytes", "-k", "--blockcount"],
        "the amount is part of the workload",
        &[with(Value::Bytes, "1G", "-w bulk:bytes={}")],
    ),
    habit(
        &["-c", "--count", "--client"],
        "the other host is named by --to, the number of messages by the workload",
        &[
            with(Value::Number, "100", "-w ping:count={}"),
            with(Value::Host, "HOST", "--to {}"),
            plain("--to HOST"),
        ],
    ),
    habit(
        &["-H", "--host"],
        "the other host is named by --to",
        &[with(Value::Host, "HOST", "--to {}")],
    ),
    habit(
        &["-R", "--reverse"],
        "the direction is part of the workload",
        &[plain("-w bulk:direction=down")],
    ),
    habit(
        &["--bidir", "--full-duplex"],
        "the direction is part of the workload",
        &[plain("-w bulk:direction=both")],
    ),
    habit(
        &["-P", "--parallel"],
        "the number of streams is part of the workload",
        &[with(Value::Number, "4", "-w bulk:streams={}")],
    ),
    habit(
        &["-b", "--bitrate", "--bandwidth"],
        "a constant load is a workload; the rate of an emulated path is --path rate=20mbit",
        &[with(Value::Rate, "20M", "-w cbr:rate={}")],
    ),
    habit(
        &["-C", "--congestion"],
        "congestion control belongs to the contender",
        &[with(Value::Text, "bbr", "deadheat race tcp:cc={}")],
    ),
    habit(
        &["-N", "--no-delay", "--nodelay"],
        "it belongs to the contender",
        &[plain("deadheat race tcp:nodelay=on")],
    ),
    habit(
        &["-A", "--affinity"],
        "the CPUs of the two ends",
        &[with(Value::Cpus, "0,1", "--placement {}")],
    ),
    habit(
        &["-p", "--port"],
        "the port stands behind the host",
        &[with(Value::Number, "5210", "--to HOST:{}")],
    ),
    habit(
        &["--cport"],
        "each trial leaves from a port of its own, which the kernel chooses; a firewall has to let the server's port \
         through",
        &[with(Value::Text, "5210", "--to HOST:5210")],
    ),
    habit(&["-S", "--tos", "-Q"], MARK, &[with(Value::Tos, "0xb8", "deadheat race udp:dscp={}")]),
    habit(&["--dscp"], MARK, &[with(Value::Dscp, "ef", "deadheat race udp:dscp={}")]),
    habit(
        &["-B", "--bind", "--local", "-I", "--interface"],
        BOUND,
        &[
            with(Value::Address, "192.0.2.7", "--to HOST --source {}"),
            with(Value::Device, "eth0", "--to HOST --device {}"),
        ],
    ),
    habit(&["--bind-dev"], BOUND, &[with(Value::Device, "eth0", "--to HOST --device {}")]),
    habit(
        &["--ttl"],
        "it belongs to the contender",
        &[with(Value::Number, "64", "deadheat race udp:ttl={}")],
    ),
    habit(
        &["--fq-rate"],
        "pacing by the kernel belongs to the contender",
        &[with(Value::Rate, "20M", "deadheat race tcp:pace={}")],
    ),
    habit(
        &["-Z", "--zerocopy"],
        "it belongs to the contender; this is what iperf3 does, and io=zerocopy is MSG_ZEROCOPY",
        &[plain("deadheat race tcp:io=sendfile -w bulk")],
    ),
    habit(
        &["-M", "--set-mss"],
        "it belongs to the contender",
        &[with(Value::Number, "1400", "deadheat race tcp:mss={}")],
    ),
    habit(
        &["--window"],
        "a window is made of the contender's buffers",
        &[with(Value::Bytes, "256K", "deadheat race tcp:sndbuf={},rcvbuf={} -w bulk")],
    ),
    habit(
        &["-O", "--omit"],
        "the part that is left out at the start belongs to the workload",
        &[with(Value::Seconds, "1", "-w bulk:warmup={}")],
    ),
    habit(
        &["--warmup"],
        "the part that is left out at the start belongs to the workload",
        &[
            with(Value::Number, "20", "-w ping:warmup={}"),
            with(Value::Seconds, "1s", "-w bulk:warmup={}"),
        ],
    ),
    habit(
        &["-W"],
        "the time after which an answer counts as lost is part of the workload",
        &[with(Value::Seconds, "1", "-w ping:timeout={}")],
    ),
    habit(
        &["-f"],
        "each figure has the unit that fits, and CSV has bits per second; a flood is a window of the workload",
        &[with(Value::UnitLetter, "m", "--format csv"), plain("-w ping:window=1")],
    ),
    habit(
        &["--json-stream"],
        "the result is JSON with all intervals, at the end; lines while it runs are text",
        &[plain("-J -i 1s")],
    ),
    habit(&["-T"], "it is written out", &[with(Value::Text, "NAME", "--title {}")]),
    habit(
        &["--logfile"],
        "the result has a file; redirect the output",
        &[with(Value::Text, "run.json", "-o {}")],
    ),
    habit(&["--sctp"], "name the contender instead", &[plain("deadheat race sctp")]),
    habit(&["-m", "--mptcp"], "name the contender instead", &[plain("deadheat race mptcp")]),
    habit(
        &["--hmac"],
        "control is admitted by a secret in a file",
        &[plain("--to HOST --secret-file FILE")],
    ),
    habit(&["--loss"], "loss is part of the path", &[with(Value::Percent, "1", "--path loss={}")]),
    habit(
        &["--delay", "--latency"],
        "delay is part of the path",
        &[with(Value::Millis, "25", "--path delay={}")],
    ),
    habit(
        &["--jitter"],
        "jitter is part of the path",
        &[with(Value::Millis, "2", "--path delay=25ms,jitter={}")],
    ),
    habit(
        &["--rate"],
        "the rate is part of the path",
        &[with(Value::Rate, "20M", "--path rate={}")],
    ),
    habit(
        &["-r", "--runs"],
        "a race runs in blocks of trials",
        &[with(Value::Number, "20", "--blocks {}")],
    ),
    habit(
        &["-v", "--verbose", "-V", "--get-server-output"],
        "all there is to say, of both ends",
        &[plain("--details")],
    ),
    habit(
        &["--no-samples", "--udp-counters-64bit"],
        "it is so without the option; leave it out",
        &[plain("")],
    ),
];

/// Options that are typed at `serve`.
pub(super) const SERVE: &[Habit] = &[
    habit(
        &["-s", "--server", "-u", "--udp"],
        "it is the server, for TCP and UDP alike; leave the option out",
        &[plain("deadheat serve")],
    ),
    habit(
        &["-D", "--daemon"],
        "it stays in the foreground; systemd-run or & puts it into the background",
        &[plain("deadheat serve -q")],
    ),
    habit(
        &["-B"],
        "the address at which it listens; for an interface, that interface's address",
        &[with(Value::Address, "192.0.2.7", "deadheat serve --bind {}")],
    ),
    habit(
        &["--bind-dev"],
        "it listens at addresses, so give the address of that interface",
        &[with(Value::Text, "eth0", "deadheat serve --bind 192.0.2.7")],
    ),
    habit(&["--one-off"], "a server for one client", &[plain("deadheat serve --once")]),
    habit(
        &["-b", "--server-bitrate-limit"],
        "the highest rate, or the address at which it listens",
        &[
            with(Value::Address, "192.0.2.7", "deadheat serve --bind {}"),
            with(Value::Rate, "100M", "deadheat serve --max-rate {}"),
        ],
    ),
    habit(
        &["-d", "--server-max-duration"],
        "the longest trial",
        &[with(Value::Seconds, "60", "deadheat serve --max-duration {}"), plain("deadheat serve")],
    ),
    habit(
        &["-P", "--parallel"],
        "the number of trials at once",
        &[with(Value::Number, "4", "deadheat serve --trials {}")],
    ),
    habit(
        &["-i", "--interval"],
        "each client shows the intervals of both ends",
        &[with(Value::Seconds, "1", "deadheat race --to HOST -i {}")],
    ),
    habit(
        &["-J", "--json", "-f", "--format", "--logfile"],
        "it writes log lines to standard error; each client has the result of both ends",
        &[plain("deadheat race --to HOST -J")],
    ),
    habit(
        &["-v", "-V", "--verbose", "--debug"],
        "it writes a line for each trial, unless -q is given; leave the option out",
        &[plain("deadheat serve")],
    ),
    habit(
        &["-c", "--client", "--to"],
        "it waits for others; the end that measures is `race`",
        &[with(Value::Host, "HOST", "deadheat race --to {}")],
    ),
    habit(
        &["--hmac", "--rsa-private-key-path", "--authorized-users-path"],
        "it admits those who know a secret, which is in a file",
        &[plain("deadheat serve --secret-file FILE")],
    ),
    habit(&["-4"], "the address at which it listens", &[plain("deadheat serve --bind 0.0.0.0")]),
    habit(&["-6"], "the address at which it listens", &[plain("deadheat serve --bind [::]")]),
    habit(
        &["--idle-timeout", "-I", "--pidfile"],
        "nothing here does it: a client that vanishes frees its place, and a shell knows the id of what it starts as $!",
        &[plain("")],
    ),
];
