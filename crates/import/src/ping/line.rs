//! Line of ping, recognised by its structure: numbers with keys and units, addresses, rules. Words differ by language.

use super::super::echo::{EchoSums, EchoTime};
use super::super::text::{
    MILLIS, Pair, address, decimal, number_at, pairs, time_unit, whole_numbers,
};

/// Line of ping.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PingLine<'a> {
    /// First line of a run.
    Start {
        target: &'a str,
        dialect: PingDialect,
    },
    /// Answer to a request.
    Answer(PingAnswer),
    /// A request that has no answer so far, with its number.
    Unanswered(u64),
    /// An error from the network, about the request of this number if that is printed.
    Error(Option<u64>),
    /// A request that this host did not send.
    Unsent,
    /// Wrong data in the last answer.
    Damage,
    /// A step of this host's clock, backwards by so many microseconds.
    ClockStep(u64),
    /// A message of the program itself.
    Message(&'a str),
    /// Rule or heading before the sums.
    Rule,
    /// Requests and answers.
    Counts {
        sent: u64,
        received: u64,
    },
    /// Minimum, mean and maximum.
    Sums(EchoSums),
    /// Other words.
    Words,
    Blank,
}

/// Family of pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PingDialect {
    /// Requests have numbers: iputils, the BSDs, macOS, BusyBox, hping3.
    Numbered,
    /// Requests have none, and each has a line: Windows.
    Ordered,
}

/// Answer as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PingAnswer {
    pub number: Option<u64>,
    pub time: EchoTime,
    /// True if the first answer to a request has a remark, `(BAD CHECKSUM!)`; behind a second one it is `(DUP!)`.
    pub has_remark: bool,
}

impl PingLine<'_> {
    /// Recognises a line without its stamp.
    pub(super) fn of(text: &str) -> PingLine<'_> {
        let text = text.trim();
        if text.is_empty() {
            return PingLine::Blank;
        }
        if let Some(back_us) = clock_step(text) {
            return PingLine::ClockStep(back_us);
        }
        if let Some(words) = message(text) {
            return words;
        }
        // `wrong data byte #20 should be 0x14 but was 0x0`
        if text.contains('#') && text.matches(" 0x").count() >= 2 {
            return PingLine::Damage;
        }
        if let Some(target) = start(text) {
            return PingLine::Start { target, dialect: PingDialect::Numbered };
        }
        if text.starts_with("--") && text.ends_with("--") && text.contains(' ') {
            return PingLine::Rule;
        }
        let pairs = pairs(text);
        let address = address(text);
        if let Some(line) = answer(text, &pairs, address).or_else(|| sums(text, &pairs, address)) {
            return line;
        }
        match address {
            Some((address, end)) => about(text, address, end, &pairs),
            None => unanswered(text, &pairs),
        }
    }
}

/// Returns the microseconds of `Warning: time of day goes back (-1040us), taking countermeasures`.
fn clock_step(text: &str) -> Option<u64> {
    let behind = text.split_once("(-")?.1;
    let number = number_at(behind)?;
    behind[number.len()..].starts_with("us)").then(|| number.parse().ok())?
}

/// Recognises a message of ping itself, on standard error: `ping: sendmsg: Network is unreachable`.
fn message(text: &str) -> Option<PingLine<'_>> {
    let words = ["ping: ", "ping6: ", "ping4: "].iter().find_map(|name| text.strip_prefix(name))?;
    // With -v, iputils tells its sockets.
    let is_verbose = words.starts_with("sock4.fd") || words.starts_with("sock6.fd");
    Some(match words {
        _ if is_verbose => PingLine::Words,
        _ if words.starts_with("send") => PingLine::Unsent,
        _ => PingLine::Message(text),
    })
}

/// Returns the target of `PING h (10.0.0.1) 56(84) bytes of data.`, `PING6(56=40+8+8 bytes) ::1 --> ::1` and
/// `HPING h (lo 127.0.0.1): S set`.
fn start(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('H').unwrap_or(text).strip_prefix("PING")?;
    if let Some((_, target)) = rest.split_once("--> ") {
        return Some(target.trim());
    }
    let rest = rest.strip_prefix(' ')?;
    let end = rest.find([' ', '(', ',']).unwrap_or(rest.len());
    Some(rest[..end].trim_end_matches(':'))
}

/// Recognises an answer: `64 bytes from h: icmp_seq=3 ttl=64 time=0.045 ms`, `Antwort von h: Bytes=32 Zeit<1ms TTL=64`.
fn answer<'a>(
    text: &str,
    pairs: &[Pair<'_>],
    address: Option<(&str, usize)>,
) -> Option<PingLine<'a>> {
    let ttl = pairs.iter().position(|pair| pair.is("ttl") || pair.is("hlim"));
    let named = pairs.iter().find(|pair| is_sequence(pair));
    let has_remark = text.ends_with("!)") && !text.to_ascii_uppercase().contains("DUP");
    let body = text.strip_prefix("DUP! ").unwrap_or(text);
    let first = body.split_whitespace().next().unwrap_or_default();
    let is_numbered = first.bytes().all(|b| b.is_ascii_digit()) || first.starts_with("len=");
    if is_numbered {
        // The number stands before the TTL, whatever it is called.
        let number = named.or(pairs.first().filter(|_| ttl.is_some_and(|at| at > 0)))?.whole()?;
        let behind = &pairs[ttl.map_or(0, |at| at + 1)..];
        let with_unit = behind.iter().find(|pair| pair.time_ns().is_some());
        let is_last = |pair: &&Pair<'_>| ttl.is_some() && !pair.unit.is_empty();
        let timed = with_unit.or(behind.first().filter(is_last));
        let is_answer = ttl.is_some() || timed.is_some();
        let time = timed.and_then(time_of).unwrap_or(EchoTime::Unknown);
        let answer = PingAnswer { number: Some(number), time, has_remark };
        return is_answer.then_some(PingLine::Answer(answer));
    }
    // Without numbers: the time stands before the TTL, and is alone where there is none (IPv6).
    address?;
    let timed = match (ttl, pairs) {
        // In a code page that is not known, a unit is no letters.
        (Some(at), _) => pairs.get(at.checked_sub(1)?).filter(|pair| {
            let behind = &text[pair.at + pair.number.len()..];
            !pair.unit.is_empty() || behind.starts_with(|c: char| !c.is_ascii() && c != '\u{a0}')
        })?,
        (None, [.., last]) if named.is_none() => last,
        (None, _) => return None,
    };
    let time =
        if ttl.is_some() { time_of(timed)? } else { exact_or_below(timed, timed.time_ns()?) };
    Some(PingLine::Answer(PingAnswer { number: None, time, has_remark: false }))
}

fn is_sequence(pair: &Pair<'_>) -> bool {
    pair.key.to_ascii_lowercase().ends_with("seq")
}

fn time_of(pair: &Pair<'_>) -> Option<EchoTime> {
    Some(exact_or_below(pair, pair.time_or_ms()?))
}

fn exact_or_below(pair: &Pair<'_>, ns: u64) -> EchoTime {
    let decimals = pair.number.split_once(['.', ',']).map_or(0, |(_, decimals)| decimals.len());
    match (pair.sign, ns) {
        ('<', _) => EchoTime::Below(ns),
        // A time of few digits is rounded.
        (_, 0) if decimals < 3 => EchoTime::Below(1_000_000 / 10_u64.pow(decimals as u32)),
        _ => EchoTime::Exact(ns),
    }
}

/// Recognises counts and sums.
fn sums<'a>(
    text: &str,
    pairs: &[Pair<'_>],
    address: Option<(&str, usize)>,
) -> Option<PingLine<'a>> {
    if let Some(sums) = slashed(text) {
        return Some(PingLine::Sums(sums));
    }
    if address.is_some() {
        return None;
    }
    if let [first, second, third, ..] = pairs {
        // Windows: sent, received, lost; minimum, maximum, mean.
        let [a, b, c] = [first, second, third].map(|pair| pair.whole());
        let (a, b, c) = (a?, b?, c?);
        if a > 0 && b.checked_add(c) == Some(a) {
            return Some(PingLine::Counts { sent: a, received: b });
        }
        let is_time = !first.unit.is_empty() && first.unit == second.unit;
        let ns = [first, third, second].map(|pair| pair.time_or_ms());
        return is_time.then_some(PingLine::Sums([ns[0]?, ns[1]?, ns[2]?]));
    }
    let numbers = whole_numbers(text);
    let is_counts = pairs.is_empty() && text.contains(['%', '％']);
    match numbers[..] {
        [sent, received, _, ..] if is_counts => Some(PingLine::Counts { sent, received }),
        _ => None,
    }
}

/// Parses `rtt min/avg/max/mdev = 0.026/0.034/0.054/0.006 ms, ipg/ewma …`, `round-trip …`, in any language.
fn slashed(text: &str) -> Option<EchoSums> {
    let (_, behind) = text.split_once('=')?;
    let mut rest = behind.trim_start();
    let mut values = Vec::new();
    loop {
        let number = number_at(rest)?;
        values.push(decimal(number)?);
        rest = &rest[number.len()..];
        match rest.strip_prefix('/') {
            Some(next) if values.len() < 4 => rest = next,
            _ => break,
        }
    }
    let rest = rest.trim_start();
    let unit = &rest[..rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())];
    let scale = time_unit(unit).unwrap_or(MILLIS);
    let ns = |at: usize| scale.whole(*values.get(at)?).ok();
    Some([ns(0)?, ns(1)?, ns(2)?])
}

/// Recognises a line with an address that is no answer: Windows' headings, errors from the network.
fn about<'a>(text: &'a str, address: &'a str, end: usize, pairs: &[Pair<'_>]) -> PingLine<'a> {
    if let Some(pair) = pairs.iter().find(|pair| is_sequence(pair)) {
        return PingLine::Error(pair.whole());
    }
    // A line of Czech has a word of its own for the number.
    if let [only] = pairs
        && let Some(number) = only.whole().filter(|_| only.at > end)
    {
        return PingLine::Error(Some(number));
    }
    let behind = &text[end..];
    if text.ends_with([':', '：']) && pairs.is_empty() {
        let scope = behind
            .strip_prefix('%')
            .map_or(behind, |zone| zone.trim_start_matches(|c: char| c.is_alphanumeric()));
        let before = &text[..end - address.len()];
        let has_size =
            [before, scope].iter().any(|part| part.contains(|c: char| c.is_ascii_digit()));
        if !has_size {
            return PingLine::Rule;
        }
        let name =
            before.strip_suffix('[').and_then(|before| before.split_whitespace().next_back());
        return PingLine::Start { target: name.unwrap_or(address), dialect: PingDialect::Ordered };
    }
    match behind.split_once([':', '：']) {
        Some((_, words)) if !words.trim().is_empty() && pairs.is_empty() => PingLine::Error(None),
        _ => PingLine::Words,
    }
}

/// Recognises `no answer yet for icmp_seq=11` and `Request timeout for icmp_seq 0`.
fn unanswered<'a>(text: &str, pairs: &[Pair<'_>]) -> PingLine<'a> {
    let spaced = || {
        let (_, behind) = text.split_once("icmp_seq ")?;
        number_at(behind)?.parse().ok()
    };
    let number = match pairs {
        [only] => only.whole(),
        [] => spaced(),
        _ => None,
    };
    number.map_or(PingLine::Words, PingLine::Unanswered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(line: &str) -> (Option<u64>, EchoTime) {
        match PingLine::of(line) {
            PingLine::Answer(answer) => (answer.number, answer.time),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn answers_are_found_in_any_dialect_and_language() {
        use EchoTime::{Below, Exact, Unknown};
        for (line, number, time) in [
            ("64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0.028 ms", Some(1), Exact(28_000)),
            (
                "64 bytes from h (10.0.0.1): icmp_seq=2 ident=7 ttl=64 time=12 ms (DUP!)",
                Some(2),
                Exact(12_000_000),
            ),
            ("64 bytes from 127.0.0.1: seq=0 ttl=64 time=0.043 ms", Some(0), Exact(43_000)),
            ("16 bytes from ::1, icmp_seq=3 hlim=64 time=0.064 ms", Some(3), Exact(64_000)),
            ("64 bytes from h (10.0.0.1): icmp_seq=0. time=1.5 ms", Some(0), Exact(1_500_000)),
            ("64 Bytes von 10.0.0.1: icmp_seq=7 ttl=64 Zeit=0,5 ms", Some(7), Exact(500_000)),
            ("64 bajtů od h: pořadí=4 TTL=64 čas=1,25 ms", Some(4), Exact(1_250_000)),
            ("64 バイト応答 送信元 h: icmp_seq=5 ttl=64 時間=3 ミリ秒", Some(5), Exact(3_000_000)),
            ("64 ბაიტი h: icmp_seq=6 ttl =64 დრო=2.5 მწმ", Some(6), Exact(2_500_000)),
            ("64 n itamḍanen: icmp_seq=6 ttl=64 akud=2.5 mts", Some(6), Exact(2_500_000)),
            ("76 bytes from 10.0.0.1: icmp_seq=1 ttl=117 (truncated)", Some(1), Unknown),
            ("16 bytes from 10.0.0.1: icmp_seq=1 ttl=117", Some(1), Unknown),
            ("64 bytes from 10.0.0.1: icmp_seq=9 ttl=64 time<1 ms", Some(9), Below(1_000_000)),
            (
                "len=46 ip=10.0.0.1 ttl=64 DF id=0 sport=0 flags=RA seq=8 win=0 rtt=7.9 ms",
                Some(8),
                Exact(7_900_000),
            ),
            ("Reply from 10.0.0.1: bytes=32 time=87ms TTL=51", None, Exact(87_000_000)),
            ("Antwort von 10.0.0.1: Bytes=32 Zeit<1ms TTL=64", None, Below(1_000_000)),
            ("Réponse de 10.0.0.1 : octets=32 temps=3 ms TTL=64", None, Exact(3_000_000)),
            ("Ответ от 8.8.8.8: число байт=32 время=25мс TTL=56", None, Exact(25_000_000)),
            ("8.8.8.8 からの応答: バイト数 =32 時間 =3ms TTL=55", None, Exact(3_000_000)),
            ("8.8.8.8의 응답: 바이트=32 시간=32ms TTL=116", None, Exact(32_000_000)),
            ("Απάντηση από: 8.8.8.8: bytes=32 χρόνος=9χλ TTL=57", None, Exact(9_000_000)),
            ("Reply from 2001:db8::1: time=14ms", None, Exact(14_000_000)),
            ("Reply from ::1: time<1ms", None, Below(1_000_000)),
        ] {
            assert_eq!(answered(line), (number, time), "{line}");
        }
    }

    #[test]
    fn lines_that_are_no_answers_are_told_apart() {
        use PingDialect::{Numbered, Ordered};
        use PingLine::{Error, Rule, Start, Unanswered, Unsent, Words};
        let start = |target, dialect| Start { target, dialect };
        for (line, want) in [
            ("PING h.example (10.0.0.1) 56(84) bytes of data.", start("h.example", Numbered)),
            ("PING ::1(::1) 56 data bytes", start("::1", Numbered)),
            ("PING6(56=40+8+8 bytes) ::1 --> ::2", start("::2", Numbered)),
            ("HPING h (lo 127.0.0.1): S set, 40 headers", start("h", Numbered)),
            ("Pinging h.example [10.0.0.1] with 32 bytes of data:", start("h.example", Ordered)),
            ("Ping wird ausgeführt für 10.0.0.1 mit 32 Bytes Daten:", start("10.0.0.1", Ordered)),
            ("8.8.8.8 に ping を送信しています 32 バイトのデータ:", start("8.8.8.8", Ordered)),
            ("Pinging fe80::1%12 with 32 bytes of data:", start("fe80::1", Ordered)),
            ("Ping-Statistik für 10.0.0.1:", Rule),
            ("Ping statistics for fe80::1%12:", Rule),
            ("--- h ping statistics ---", Rule),
            ("-- h ping-tilastot --", Rule),
            ("From 10.0.0.1 icmp_seq=1 Destination Host Unreachable", Error(Some(1))),
            ("Od 10.0.0.1 pořadí=1 Cílový počítač je nedostupný", Error(Some(1))),
            ("92 bytes from h (10.0.0.1): Destination Host Unreachable", Error(None)),
            ("Reply from 10.0.0.1: Destination host unreachable.", Error(None)),
            (" 4  5  00 5400 567b   0 0000  3f  01 a024 10.0.0.1  10.0.0.2 ", Words),
            ("Vr HL TOS  Len   ID Flg  off TTL Pro  cks      Src      Dst", Words),
            ("Zeitüberschreitung der Anforderung.", Words),
            ("no answer yet for icmp_seq=11", Unanswered(11)),
            ("žádná odpověď pro pořadí=11", Unanswered(11)),
            ("icmp_seq=11 が未応答です", Unanswered(11)),
            ("Request timeout for icmp_seq 0", Unanswered(0)),
            ("ping: sendmsg: Network is unreachable", Unsent),
            ("ping: sock4.fd: 3 (socktype: SOCK_RAW), hints.ai_family: AF_INET", Words),
            (
                "ping: h: Name or service not known",
                PingLine::Message("ping: h: Name or service not known"),
            ),
        ] {
            assert_eq!(PingLine::of(line), want, "{line}");
        }
    }

    #[test]
    fn counts_and_sums_are_found_in_any_order_of_words() {
        use PingLine::{Counts, Error, Sums, Words};
        for (line, want) in [
            (
                "6 packets transmitted, 4 received, 33% packet loss, time 5ms",
                Counts { sent: 6, received: 4 },
            ),
            (
                "已发送 6 个包， 已接收 4 个包, 33.3% packet loss, time 5024ms",
                Counts { sent: 6, received: 4 },
            ),
            (
                "送信パケット数 20, 受信パケット数 20, パケット損失 0%, 時間 19ミリ秒",
                Counts { sent: 20, received: 20 },
            ),
            (
                "3 paket iletildi, 3 alındı, %0 paket kaybı, zaman 2003ms",
                Counts { sent: 3, received: 3 },
            ),
            (
                "Packets: Sent = 4, Received = 3, Lost = 1 (25% loss),",
                Counts { sent: 4, received: 3 },
            ),
            (
                "パケット数: 送信 = 4、受信 = 4、損失 = 0 (0% の損失)、",
                Counts { sent: 4, received: 4 },
            ),
            (
                "Minimum = 1ms, Maximum = 4ms, Average = 2ms",
                Sums([1_000_000, 2_000_000, 4_000_000]),
            ),
            (
                "rtt min/moy/max/mdev = 9,812/10,204/14,771/0,612 ms",
                Sums([9_812_000, 10_204_000, 14_771_000]),
            ),
            (
                "rtt min/avg/max/mdev = 0.003/0.004/0.039/0.002 ms, ipg/ewma 0.01/0.05 ms",
                Sums([3_000, 4_000, 39_000]),
            ),
            (
                "round-trip min/avg/max/stddev = 14.1/15.0/16.2/0.8 ms",
                Sums([14_100_000, 15_000_000, 16_200_000]),
            ),
            ("round-trip (ms)  min/avg/max = 14/15/16", Sums([14_000_000, 15_000_000, 16_000_000])),
            // Shift-JIS, read as another code page.
            ("ƃPƃb: æùÉM = 4üAÄ¾ÉM = 3üAæ╣Ä© = 1 (25% é╠)üA", Counts { sent: 4, received: 3 }),
            ("(25% Verlust),", Words),
            ("rtt min/avg/max/mdev = x/y/z ms", Words),
            (
                "SENT (0.04s) ICMP [10.0.0.1 > 10.0.0.2 (type=8) id=1 seq=1] IP [ttl=64 id=1]",
                Error(Some(1)),
            ),
            ("", PingLine::Blank),
        ] {
            assert_eq!(PingLine::of(line), want, "{line}");
        }
    }
}
