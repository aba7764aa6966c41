//! Parameters of a test, as the client asks for them, held against the limits of the server. What goes beyond is refused with
//! the number that iperf3 has for it (`iperf_api.h`, 3.1 to 3.21), so that the client says why in its own words.

use std::fmt;

use serde_json::Value;

use super::control::TestFailure;
use deadheat_base::time::Nanos;
use deadheat_base::units::{BitRate, Bytes};
use deadheat_datapath::transport::responder::TestLimits;

/// Numbers of refusals.
const DURATION: u32 = 5;
const STREAMS: u32 = 6;
const BLOCK_SIZE: u32 = 7;
const NO_SCTP: u32 = 18;
const UDP_BLOCK_SIZE: u32 = 20;
pub(super) const TOTAL_RATE: u32 = 27;
/// Duration, for clients that know the limit of a server (3.20 and later).
const SERVERS_DURATION: u32 = 37;
const KNOWS_SERVERS_DURATION: (u32, u32) = (3, 20);
const PARAMETERS: u32 = 114;

/// Values that iperf3 takes.
const MOST_STREAMS: u64 = 128;
const LARGEST_BLOCK: u64 = 1 << 20;
const DATAGRAMS: std::ops::RangeInclusive<u64> = 16..=65_507;
const LONGEST: u64 = 86_400;
/// Length where the client says none.
const USUAL_BLOCK: u64 = 128 << 10;
const USUAL_DATAGRAM: u64 = 1_460;
const USUAL_SECS: u64 = 10;
/// Largest buffer that is asked of the kernel; it has a limit of its own.
const LARGEST_WINDOW: u64 = 512 << 20;

/// Protocol of the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamProtocol {
    Tcp,
    Udp,
}

/// Direction of the streams, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestWay {
    Up,
    Down,
    Both,
}

/// Test that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AskedTest {
    pub(super) over: StreamProtocol,
    pub(super) way: TestWay,
    /// Number of streams in each direction.
    pub(super) streams: usize,
    /// Bytes of a write, or of a datagram.
    pub(super) len: usize,
    /// Time at the beginning that does not count.
    pub(super) omit: Nanos,
    /// Time after that; `None` for a test that ends after a number of bytes.
    pub(super) time: Option<Nanos>,
    /// Rate of each stream that is sent from here; `None` for as much as passes.
    pub(super) rate: Option<BitRate>,
    pub(super) no_delay: bool,
    /// Size of the buffers of sockets; `None` for the kernel's choice.
    pub(super) window: Option<usize>,
    pub(super) segment: Option<u32>,
    /// TOS byte or traffic class.
    pub(super) field: Option<u8>,
    /// Pacing by the kernel, in bits per second.
    pub(super) kernel_rate: Option<u64>,
    pub(super) congestion: Option<String>,
    /// True if numbers of datagrams have 64 bits.
    pub(super) has_wide_numbers: bool,
    /// True if the client wants to show this end's account, too.
    pub(super) wants_output: bool,
}

impl AskedTest {
    /// Reads the parameters, and holds them against `limits`.
    pub(super) fn read(json: &Value, limits: &TestLimits) -> Result<AskedTest, TestFailure> {
        let fields = Fields(json);
        if !json.is_object() {
            return refused(PARAMETERS, "its parameters are no JSON object");
        }
        if fields.is_set("sctp") {
            return refused(NO_SCTP, "it asks for SCTP, which this server does not answer");
        }
        let over = if fields.is_set("udp") { StreamProtocol::Udp } else { StreamProtocol::Tcp };
        let way = match (fields.is_set("reverse"), fields.is_set("bidirectional")) {
            (_, true) => TestWay::Both,
            (true, false) => TestWay::Down,
            (false, false) => TestWay::Up,
        };
        let streams = fields.number("parallel").unwrap_or(1);
        if !(1..=MOST_STREAMS).contains(&streams) {
            return refused(
                STREAMS,
                &format!("it asks for {streams} streams (1 to {MOST_STREAMS})"),
            );
        }
        let asked = AskedTest {
            over,
            way,
            streams: streams as usize,
            len: fields.len(over)?,
            omit: Nanos::from_secs(fields.number("omit").unwrap_or(0).min(LONGEST)),
            time: fields.time(),
            rate: fields.positive("bandwidth").map(BitRate),
            no_delay: fields.is_set("nodelay"),
            window: fields.positive("window").map(|window| window.min(LARGEST_WINDOW) as usize),
            segment: fields.positive("MSS").and_then(|segment| u32::try_from(segment).ok()),
            field: fields.positive("TOS").and_then(|field| u8::try_from(field).ok()),
            kernel_rate: fields.positive("fqrate"),
            congestion: fields.text("congestion"),
            has_wide_numbers: fields.is_set("udp_counters_64bit"),
            wants_output: fields.is_set("get_server_output"),
        };
        asked.check(&fields, limits)?;
        Ok(asked)
    }

    fn check(&self, fields: &Fields<'_>, limits: &TestLimits) -> Result<(), TestFailure> {
        let longest = limits.duration;
        let takes = self.time.map(|time| time + self.omit);
        if let Some(takes) = takes.filter(|takes| *takes > longest) {
            let number = match fields.version() {
                Some(version) if version >= KNOWS_SERVERS_DURATION => SERVERS_DURATION,
                _ => DURATION,
            };
            let why =
                format!("it asks for {takes}, and a test may last {longest} (--max-duration)");
            return refused(number, &why);
        }
        // Each direction has its own limit, so both at once need no more than one.
        let rate = self.rate.map(|rate| BitRate(rate.0.saturating_mul(self.streams as u64)));
        if let Some(rate) = rate.filter(|rate| *rate > limits.rate) {
            let most = limits.rate;
            return refused(TOTAL_RATE, &format!("it asks for {rate}, of {most} (--max-rate)"));
        }
        let by_rate = rate.zip(takes).map(|(rate, takes)| {
            u64::try_from(u128::from(rate.0) * u128::from(takes.0) / 8_000_000_000)
                .unwrap_or(u64::MAX)
        });
        let blocks = fields.positive("blockcount");
        let blocks = blocks.map(|blocks| blocks.saturating_mul(self.len as u64));
        let bytes = fields.positive("num").or(blocks).or(by_rate).unwrap_or(0);
        if bytes > limits.bytes {
            let (bytes, most) = (Bytes(bytes), Bytes(limits.bytes));
            let options = "--max-bytes, --max-total or --max-per-client";
            return refused(TOTAL_RATE, &format!("it asks for {bytes}, of {most} ({options})"));
        }
        Ok(())
    }

    /// Returns the number of streams that send to this host, and of those that it sends to.
    pub(super) fn receiving_and_sending(&self) -> [usize; 2] {
        match self.way {
            TestWay::Up => [self.streams, 0],
            TestWay::Down => [0, self.streams],
            TestWay::Both => [self.streams; 2],
        }
    }
}

impl fmt::Display for AskedTest {
    /// Writes the test in words, for the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = match self.over {
            StreamProtocol::Tcp => "TCP",
            StreamProtocol::Udp => "UDP",
        };
        let way = match self.way {
            TestWay::Up => "up",
            TestWay::Down => "down",
            TestWay::Both => "both ways",
        };
        write!(f, "{over} {way}, streams: {}", self.streams)?;
        match self.time {
            Some(time) => write!(f, ", {}", time + self.omit),
            None => f.write_str(", by bytes"),
        }
    }
}

fn refused<T>(number: u32, why: &str) -> Result<T, TestFailure> {
    Err(TestFailure::Refused(number, why.to_owned()))
}

/// Fields of the client's JSON. A field of another type counts as absent, as iperf3 has it.
struct Fields<'a>(&'a Value);

impl Fields<'_> {
    fn is_set(&self, name: &str) -> bool {
        match &self.0[name] {
            Value::Bool(value) => *value,
            Value::Number(value) => value.as_f64().is_some_and(|value| value != 0.0),
            _ => false,
        }
    }

    /// Returns a number; iperf3 may write it as a float, and -1 as a large one.
    fn number(&self, name: &str) -> Option<u64> {
        let value = &self.0[name];
        value
            .as_u64()
            .or_else(|| value.as_f64().filter(|value| *value >= 0.0).map(|value| value as u64))
    }

    fn positive(&self, name: &str) -> Option<u64> {
        self.number(name).filter(|value| *value > 0)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0[name].as_str().filter(|text| text.len() < 64).map(str::to_owned)
    }

    /// Returns the time of the test; a client that ends by bytes says 0, or sends its usual time beside them.
    fn time(&self) -> Option<Nanos> {
        let by_bytes = self.positive("num").or(self.positive("blockcount")).is_some();
        let secs = self.number("time").unwrap_or(USUAL_SECS);
        (!by_bytes && secs > 0).then(|| Nanos::from_secs(secs))
    }

    fn len(&self, over: StreamProtocol) -> Result<usize, TestFailure> {
        let asked = self.positive("len");
        let (usual, number, range) = match over {
            StreamProtocol::Tcp => (USUAL_BLOCK, BLOCK_SIZE, 1..=LARGEST_BLOCK),
            StreamProtocol::Udp => (USUAL_DATAGRAM, UDP_BLOCK_SIZE, DATAGRAMS),
        };
        let len = asked.unwrap_or(usual);
        if !range.contains(&len) {
            return refused(number, &format!("it asks for blocks of {len} bytes"));
        }
        Ok(len as usize)
    }

    /// Returns the version of the client: `3.12` of `3.12` or `3.17.1+`.
    fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.0["client_version"].as_str()?.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::WIDE;
    use super::*;

    fn asked(json: Value) -> Result<AskedTest, TestFailure> {
        AskedTest::read(&json, &TestLimits { rate: BitRate(10_000_000), ..WIDE })
    }

    fn number(json: Value) -> u32 {
        match asked(json) {
            Err(TestFailure::Refused(number, _)) => number,
            other => panic!("{other:?}"),
        }
    }

    /// What Debian's iperf3 3.12 sends for `-u -b 1M -R -P 2 -O 1 -t 3`.
    #[test]
    fn the_parameters_of_a_client_are_read() {
        let test = asked(json!({
            "udp": true, "omit": 1, "time": 3, "num": 0, "blockcount": 0, "parallel": 2, "reverse": true, "len": 1448,
            "bandwidth": 1_000_000, "pacing_timer": 1000, "client_version": "3.12", "udp_counters_64bit": 1
        }))
        .unwrap();
        assert_eq!((test.over, test.way), (StreamProtocol::Udp, TestWay::Down));
        assert_eq!((test.streams, test.len, test.has_wide_numbers), (2, 1448, true));
        assert_eq!((test.omit, test.time), (Nanos::from_secs(1), Some(Nanos::from_secs(3))));
        assert_eq!(test.rate, Some(BitRate(1_000_000)));
        assert_eq!(test.to_string(), "UDP down, streams: 2, 4.00 s");
        let by_bytes = asked(json!({"tcp": true, "time": 0, "num": 1_000_000})).unwrap();
        assert_eq!((by_bytes.time, by_bytes.len), (None, 131_072));
    }

    #[test]
    fn what_goes_beyond_a_limit_has_the_number_of_iperf3() {
        assert_eq!(number(json!({"tcp": true, "time": 61, "client_version": "3.12"})), 5);
        assert_eq!(
            number(json!({"tcp": true, "time": 50, "omit": 11, "client_version": "3.20.1+"})),
            37
        );
        assert_eq!(number(json!({"udp": true, "bandwidth": 6_000_000, "parallel": 2})), 27);
        assert_eq!(number(json!({"tcp": true, "num": 200_000_000_000_u64})), 27);
        assert_eq!(number(json!({"tcp": true, "blockcount": u64::MAX, "len": 1 << 20})), 27);
        assert_eq!(number(json!({"tcp": true, "parallel": 129})), 6);
        assert_eq!(number(json!({"tcp": true, "parallel": 0})), 6);
        assert_eq!(number(json!({"tcp": true, "len": 2 << 20})), 7);
        assert_eq!(number(json!({"udp": true, "len": 12})), 20);
        assert_eq!(number(json!({"sctp": true})), 18);
        assert_eq!(number(json!([1, 2])), 114);
    }

    #[test]
    fn strange_values_are_as_if_they_were_absent() {
        let strange = json!({
            "tcp": 7, "time": "long", "parallel": 1.0, "len": null, "bandwidth": -1, "TOS": 999, "congestion": [1],
            "client_version": 3.12, "window": 1e30, "omit": -5
        });
        let test = asked(strange).unwrap();
        assert_eq!((test.time, test.omit), (Some(Nanos::from_secs(10)), Nanos::ZERO));
        assert_eq!((test.rate, test.field, test.congestion), (None, None, None));
        assert_eq!(test.window, Some(512 << 20));
    }
}
