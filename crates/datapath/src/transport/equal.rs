//! Equal terms: the settings that every contender has alike unless typed otherwise, and the conditions that cannot
//! be alike. Only this module decides it; contenders take the defaults of their knobs from here.
//!
//! `terms=deployed` suspends the rules for a contender: knobs that are not typed then have the implementation's own
//! defaults ([`OwnDefault`]), as in a deployment without tuning. `race --as-deployed` requests that for all
//! contenders.

use deadheat_base::error::Result;
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Kind, Settings, Spec};
use deadheat_base::units::Bytes;

use super::{Contender, Transport, several, userspace};

/// Congestion control of all contenders that can choose: CUBIC (RFC 9438), the default of Linux and of most stacks.
pub const CC: &str = "cubic";

/// Nagle's algorithm (RFC 896): off, so that a small message leaves at once.
pub const NODELAY: &str = "on";

/// Cipher suite of TLS 1.3: TLS_AES_128_GCM_SHA256, which RFC 8446 (9.1) requires of every implementation.
pub const CIPHER: &str = "aes128";

/// Resumption of connections: none, so that every handshake is complete.
pub const RESUME: &str = "off";

/// Multiple of the bandwidth-delay product that a window has room for: one for the data under way, and one for a
/// queue as long (RFC 6349, 3.3.1, on sizing windows by it).
const PRODUCTS: u64 = 2;

/// Condition that is made equal.
#[derive(Debug)]
pub struct Rule {
    /// Condition.
    pub what: &'static str,
    /// Knob that sets it, where a contender has one; empty where the workload or the race sets it for all.
    pub knob: &'static str,
    /// Possible defaults of the knob, the equal one first; empty where it depends on the path, or on the workload.
    pub values: &'static [&'static str],
    /// Value in words.
    pub value: &'static str,
    /// Reason for the value, and for the others of `values`.
    pub why: &'static str,
}

/// All conditions that are made equal.
pub const RULES: &[Rule] = &[
    Rule {
        what: "congestion control",
        knob: "cc",
        values: &[CC, "ccid2", "reno", ""],
        value: "CUBIC, at both ends",
        why: "hosts differ in theirs, and on a fast local path it can matter by a factor of two. `cc=host` leaves it to the \
              host; where the kernel lacks cubic the host's stays, and the result says which. DCCP has none of that name and \
              takes the one like TCP's, ARQ has NewReno, and KCP none unless asked",
    },
    Rule {
        what: "Nagle's algorithm",
        knob: "nodelay",
        values: &[NODELAY, ""],
        value: "off",
        why: "it would hold small messages back (RFC 896). KCP's knob of that name is another thing, and follows its `mode`",
    },
    Rule {
        what: "cipher",
        knob: "cipher",
        values: &[CIPHER],
        value: "AES-128-GCM, with X25519",
        why: "ciphers differ in the CPU time of a byte",
    },
    Rule {
        what: "resumption",
        knob: "resume",
        values: &[RESUME],
        value: "none",
        why: "a handshake that resumes computes less than a whole one",
    },
    Rule {
        what: "early data in the SYN",
        knob: "fastopen",
        values: &["off"],
        value: "none",
        why: "it saves a connection a round trip, and takes a cookie that nobody has at first",
    },
    Rule {
        what: "largest packet",
        knob: "mtu",
        values: &[userspace::EQUAL_MTU],
        value: "1500 bytes, the path's where that is less; with `--to` as large as probes find the path to take",
        why: "smaller packets carry more headers; the kernel's transports take the path's",
    },
    Rule {
        what: "windows",
        knob: "window",
        values: &[],
        value: "the default, and twice the path's bandwidth-delay product where that is more",
        why: "a window below the product is what is measured, and not the protocol. Without rate or delay in `--path` there is \
              no product, and the default stands. The kernel's TCP tunes its windows by itself; QUIC with one lane keeps no \
              more unacknowledged than it would, twice the congestion window",
    },
    Rule {
        what: "socket buffers",
        knob: "sndbuf",
        values: &[""],
        value: "the host's for the kernel's transports, 4 MiB under protocols in user space",
        why: "read back and recorded; the kernel tunes those of TCP while it runs, and a fixed size would switch that off",
    },
    Rule {
        what: "receive buffers",
        knob: "rcvbuf",
        values: &[""],
        value: "as socket buffers",
        why: "as socket buffers",
    },
    Rule {
        what: "pacing",
        knob: "pacing",
        values: &[],
        value: "each sender's own",
        why: "none of them has a knob for it: QUIC paces (CUBIC of quiche does not), CUBIC of the kernel does not without fq, KCP never does",
    },
    Rule {
        what: "ECN",
        knob: "ecn",
        values: &[userspace::EQUAL_ECN, ""],
        value: "off in user space, the host's for TCP (`net.ipv4.tcp_ecn`)",
        why: "a queue that marks spares one side the losses of the other. TCP has no option for it: `tcp:ecn=` \
              sets emulated hosts, and what was agreed is read back, and told where contenders differ",
    },
    Rule {
        what: "message and call size",
        knob: "",
        values: &[],
        value: "the workload's",
        why: "one workload gives all contenders the same messages in calls of the same size",
    },
];

/// Condition that cannot be made equal.
#[derive(Debug)]
pub struct Unequal {
    /// Condition.
    pub what: &'static str,
    /// Reason, and the measure taken instead.
    pub why: &'static str,
}

/// All conditions that matter and cannot be made equal.
pub const CANNOT: &[Unequal] = &[
    Unequal {
        what: "delivery, ordering, lanes, boundaries, encryption",
        why: "they are what the contenders are; listed with each result",
    },
    Unequal {
        what: "the congestion control of SCTP, KCP, ENet, RBUDP, uTP and ARQ",
        why: "each has its own or none; listed with each result",
    },
    Unequal {
        what: "acknowledgements and retransmission timers",
        why: "each protocol has its own rules; `min-rto`, `thin`, `interval` and `resend` where there is a knob",
    },
    Unequal {
        what: "the kernel and user space",
        why: "a protocol in user space costs system calls and copies of its own; both ends of it have one datapath, which is \
              this program's, however it is deployed",
    },
    Unequal {
        what: "ECN of TCP, and pacing",
        why: "TCP's ECN is the host's unless `ecn=` sets it on an emulated path, QUIC has `ecn`, others none in user space; \
              and nobody here has a knob for pacing",
    },
];

/// Key for the terms, which every contender takes beside its own keys.
pub const KEYS: &[Key] = &[TERMS.key()];

const TERMS: Preset<Terms> =
    Optional::choice("terms", &["equal", "deployed"], &[Terms::Equal, Terms::Deployed])
        .or("equal")
        .doc(
            "options that are not typed: the same for every contender (equal), or the \
             implementation's own (deployed)",
        );

/// Source of the values of knobs that are not typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Terms {
    /// The same for every contender, by [`RULES`].
    #[default]
    Equal,
    /// The implementation's own defaults.
    Deployed,
}

impl Terms {
    /// Removes the key from the options that were typed for a contender.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] where the value is invalid.
    pub fn take(spec: &mut Spec) -> Result<Terms> {
        Ok(Settings::check(&spec.split_off(KEYS), KEYS)?.get(&TERMS))
    }
}

/// Default of an implementation that differs from the equal one.
#[derive(Debug, Clone, Copy)]
pub struct OwnDefault {
    /// Knob.
    pub knob: &'static str,
    /// Value, as it would be typed; empty where the implementation chooses.
    pub value: &'static str,
    /// Place at which the implementation defines it.
    pub source: &'static str,
}

/// Sets the knobs that were not typed to the defaults of a transport's implementation.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] where a value is invalid for its knob.
pub fn leave(knobs: &mut Settings, transport: &dyn Transport) -> Result<()> {
    let keys = transport.info().keys;
    transport.info().deployed.iter().try_for_each(|own| {
        let key = keys.iter().find(|key| key.name == own.knob);
        key.map_or(Ok(()), |key| knobs.assume(key, own.value))
    })
}

/// Returns a contender as typed, on the terms of its race (an external contender unchanged, since its commands have
/// their own): with `terms=deployed` where the race has these terms and no others were typed, or, on equal terms,
/// with a window that has room for `product`, the path's bandwidth-delay product. Agents then need not know the
/// path.
///
/// # Errors
/// [`deadheat_base::error::Error::Usage`] naming the mistake and a correct form.
pub fn on(typed_as: &str, terms: Terms, product: Option<Bytes>) -> Result<String> {
    if let Some(whole) = several::each(typed_as, |part| on(part, terms, product)) {
        return whole;
    }
    let contender = Contender::parse(typed_as)?;
    if contender.external.is_some() || contender.commands.is_some() {
        return Ok(typed_as.to_owned());
    }
    let mut spec = contender.spec.clone();
    let are_typed = spec.options.iter().any(|(name, _)| name == TERMS.name());
    if terms == Terms::Deployed && !are_typed {
        spec.options.push((TERMS.name().to_owned(), TERMS.word(terms).to_owned()));
    } else if let Some(window) = product.and_then(|product| window(&contender, product)) {
        spec.options.push(window);
    }
    Ok(spec.to_string())
}

/// Returns a contender as typed, with packets of `bytes` where the path was found to take larger ones than [`userspace::EQUAL_MTU`], and
/// the contender has the knob, up to its limit.
///
/// # Errors
/// As of [`on`].
pub fn with_packets(typed_as: &str, bytes: u32) -> Result<String> {
    if let Some(whole) = several::each(typed_as, |part| with_packets(part, bytes)) {
        return whole;
    }
    let contender = Contender::parse(typed_as)?;
    let key = contender.transport.info().keys.iter().find(|key| key.name == userspace::MTU.name());
    let assumed = contender.knobs.find(&userspace::MTU).filter(|_| {
        !contender.knobs.given(userspace::MTU.name()) && contender.terms == Terms::Equal
    });
    let mut spec = contender.spec.clone();
    if let (Some(Key { name, kind: Kind::Size(_, most), .. }), Some(assumed)) = (key, assumed) {
        let packet = u64::from(bytes).min(*most);
        if packet > assumed.0 {
            spec.options.push(((*name).to_owned(), format!("{packet}B")));
        }
    }
    Ok(spec.to_string())
}

/// Returns the window that a contender needs for a bandwidth-delay product; `None` where its default has room,
/// where it was typed, or where the contender has no window to set.
fn window(contender: &Contender, product: Bytes) -> Option<(String, String)> {
    let rule = RULES.iter().find(|rule| rule.what == "windows")?;
    if contender.terms == Terms::Deployed || contender.knobs.given(rule.knob) {
        return None;
    }
    let key = contender.transport.info().keys.iter().find(|key| key.name == rule.knob)?;
    let wanted = product.0.saturating_mul(PRODUCTS);
    let (now, wanted, most) = match key.kind {
        Kind::Size(_, most) => (contender.knobs.size(key.name)?.0, wanted, most),
        // The unit is packets.
        Kind::Count(_, most) => {
            let packet = contender.knobs.find(&userspace::MTU).map_or(1_500, |mtu| mtu.0.max(1));
            (contender.knobs.count(key.name)?, wanted.div_ceil(packet), most)
        }
        _ => return None,
    };
    (wanted > now).then(|| (key.name.to_owned(), wanted.min(most).to_string()))
}
