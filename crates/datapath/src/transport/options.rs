//! Meaning of options for a comparison: why it matters when contenders differ in one, and whether one may change
//! while a race runs. Transports share these meanings, and may have one of their own for an option.

use deadheat_contract::recorded::Meaning;

/// Option that names the congestion control.
pub const CC: &str = "cc";

/// Meaning of `nodelay` of the kernel's streams; another protocol has an option of that name with another meaning.
pub const NODELAY: Meaning = Meaning::always(
    "nodelay",
    "without it, small messages may wait for acknowledgements (Nagle, RFC 896)",
);

/// Meanings of the options that transports share.
pub(super) static SHARED: &[Meaning] = &[
    Meaning::always(
        "cc",
        "the congestion control decides throughput and queueing delay more than the transport does",
    ),
    Meaning::where_asked(
        "sndbuf",
        "a send buffer bounds what can be under way, and so throughput over a long path",
    ),
    Meaning::where_asked(
        "rcvbuf",
        "a small receive buffer holds a sender back, or drops datagrams",
    ),
    Meaning::where_asked(
        "mss",
        "smaller segments carry more headers and take more CPU time for each byte",
    ),
    Meaning::where_asked(
        "quickack",
        "a delayed acknowledgement saves a packet and may hold the sender back",
    ),
    Meaning::where_asked("notsent_lowat", "data that waits unsent in the socket delays later data"),
    Meaning::always(
        "fastopen",
        "data in the first packet saves a connection the round trip of the handshake",
    ),
    Meaning::always(
        "thin",
        "it decides how long a message that is lost several times waits to be sent again",
    ),
    Meaning {
        remarks: &[" (", ", ", ": "],
        ..Meaning::always(
            "ecn",
            "a queue that marks packets slows one side down without a loss, and drops those of the other",
        )
    },
    Meaning::always(
        "recovery",
        "it decides how soon a loss is found, and what overtaking is taken for one",
    ),
    Meaning::always(
        "io",
        "how bulk data is sent decides system calls and CPU time, and so goodput on a fast path",
    ),
    Meaning::always(
        "rx",
        "how bulk data is received decides system calls and CPU time, and so goodput on a fast path",
    ),
    Meaning::always(
        "batch",
        "more datagrams a call take fewer system calls, and leave in larger bursts",
    ),
    Meaning::always("connected", "without it the kernel looks up the route for each datagram"),
    Meaning::always(
        "df",
        "a message over the path MTU is refused with it, and may travel in fragments without it",
    ),
    Meaning::always(
        "coverage",
        "what the checksum does not cover arrives damaged where it would have been dropped, and costs no sum",
    ),
    Meaning::where_asked(
        "path_mtu",
        "it decides which messages travel in fragments, of which one lost loses the message",
    ),
    Meaning::always(
        "txqlen",
        "packets that wait for congestion control delay those behind them, and without any it idles",
    ),
    Meaning::always(
        "socket",
        "a raw socket sees every echo of the host, and a ping socket only its own",
    ),
    Meaning::always("after", "a first that is given longer falls back less often, and later"),
    Meaning::always(
        "silence",
        "a shorter one falls back sooner, and also where the first would have come back",
    ),
    Meaning::always(
        "carried_by",
        "one of two transports carried, and its figures are those of that one",
    ),
    Meaning::where_asked(
        "capacity",
        "a pipe that holds more lets its two ends work at once for longer",
    ),
    Meaning::where_asked(
        "subflows",
        "several links carry more than one, and answer at the pace of different ones",
    ),
    Meaning::always(
        "target",
        "a sender that aims at a longer queue holds its share of a link longer, and delays others on the link",
    ),
    Meaning::always("window", "it bounds the bytes under way, and so throughput over a long path"),
    Meaning::always(
        "repair",
        "the data that is sent again after a loss decides how much of the path repairs take",
    ),
    Meaning::always("cipher", "ciphers differ in the CPU time that a byte takes"),
    Meaning::always(
        "key_exchange",
        "it decides how long a handshake computes; what follows is the same",
    ),
    Meaning::always(
        "resume",
        "a handshake that resumes computes less, and one with early data takes a round trip less",
    ),
    Meaning::always(
        "certificate",
        "a chain of certificates takes packets of a handshake, and an RSA key takes CPU time",
    ),
    Meaning::always(
        "offload",
        "the kernel encrypts within the call that sends, and saves a copy; the library may be the faster cipher",
    ),
    Meaning::where_asked(
        "mtu",
        "smaller packets carry more headers, and take more CPU time for each byte",
    ),
    Meaning::always("qlog", "writing down each packet takes CPU time of the end that does"),
    Meaning::always(
        "min-rto",
        "it decides how long the last message of a burst, once lost, waits to be sent again",
    ),
    Meaning::where_asked("mode", "it stands for several of the protocol's settings at once"),
    Meaning::always(
        "interval",
        "timeouts are noticed, and unflushed messages leave, at this pace only",
    ),
    Meaning::always(
        "resend",
        "it decides how soon a lost message is sent again while others follow it",
    ),
    Meaning::always("flush", "without it each message waits for the protocol's own clock"),
    Meaning::always(
        "fec",
        "parity makes up for losses without a round trip, and takes its share of the path whether there are any or not",
    ),
    Meaning::always(
        "throttle",
        "with it, round trips that get slower narrow the window and drop messages of best effort unsent",
    ),
    Meaning::always("rate", "it is what the sender sends at, whether the path carries it or not"),
    Meaning::always("loss", "more loss means fewer messages that arrive"),
    Meaning::always("seed", "it decides which messages are lost"),
];
