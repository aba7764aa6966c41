//! Results that both ends of a test send each other.

use serde::Deserialize;
use serde_json::{Value, json};

use super::stream_counts::StreamCounts;
use deadheat_base::foreign;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::Tally;

/// Largest count that is believed: 100 Gbit/s take a day to carry as many bytes.
const MOST: f64 = (1_u64 << 50) as f64;

/// Results of a server.
#[derive(Debug, PartialEq)]
pub(super) struct TestResults {
    /// Streams, in the order of their numbers.
    pub(super) streams: Vec<StreamResult>,
    /// Congestion control of its streams, if it says.
    pub(super) congestion: Option<String>,
}

/// Counts of one stream at the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StreamResult {
    pub(super) id: u64,
    /// Bytes that it received, or sent if it is the sender.
    pub(super) bytes: u64,
}

/// Form on the wire. Numbers are read as floating point: 3.12 writes -1 as 18446744073709551615, and others `nan`.
#[derive(Deserialize)]
struct WrittenResults {
    streams: Vec<WrittenStream>,
    congestion_used: Option<String>,
}

#[derive(Deserialize)]
struct WrittenStream {
    id: f64,
    bytes: f64,
}

impl TestResults {
    /// Reads the results of a server.
    ///
    /// # Errors
    /// Returns what is wrong with them, as a sentence.
    pub(super) fn parse(text: &[u8]) -> Result<TestResults, String> {
        let written: WrittenResults = deadheat_base::json::read(text)
            .map_err(|e| format!("its results are not those of iperf3 ({e})"))?;
        let whole = |what: &str, value: f64| match value {
            value if (0.0..=MOST).contains(&value) => Ok(value as u64),
            value => Err(format!("its results have {what} of {value}")),
        };
        let stream = |stream: &WrittenStream| {
            Ok(StreamResult {
                id: whole("a stream's number", stream.id)?,
                bytes: whole("bytes", stream.bytes)?,
            })
        };
        let mut streams =
            written.streams.iter().map(stream).collect::<Result<Vec<StreamResult>, String>>()?;
        streams.sort_by_key(|stream| stream.id);
        let expected = (0..).map(stream_id);
        match streams.iter().zip(expected).find(|(stream, id)| stream.id != *id) {
            None => {
                let congestion = written.congestion_used.map(|cc| foreign::short(&cc));
                Ok(TestResults { streams, congestion })
            }
            Some((stream, id)) => {
                Err(format!("its results have a stream {}, where {id} is the next", stream.id))
            }
        }
    }
}

/// Returns the number of the stream at a place: 1, 3, 4, 5 and so on; 2 is skipped.
fn stream_id(place: u64) -> u64 {
    if place == 0 { 1 } else { place + 2 }
}

/// Returns the results that this end sends, of which it knows what it has sent.
pub(super) fn of_client(sent: &[Tally], streams: StreamCounts) -> Value {
    let stream = |place: usize| {
        let is_up = streams.way(place) == Direction::Up;
        let own = sent.get(place).filter(|_| is_up).copied().unwrap_or_default();
        json!({
            "id": stream_id(place as u64),
            "bytes": own.bytes,
            "retransmits": -1,
            "jitter": 0,
            "errors": 0,
            "omitted_errors": 0,
            "packets": own.messages,
            "omitted_packets": 0,
            "start_time": 0,
            "end_time": 0,
        })
    };
    json!({
        "cpu_util_total": 0,
        "cpu_util_user": 0,
        "cpu_util_system": 0,
        "sender_has_retransmits": -1,
        "streams": (0..streams.up + streams.down).map(stream).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_server_are_read_in_the_order_of_their_streams() {
        // Shortened from what Debian's 3.12 sent.
        let text = br#"{"cpu_util_total":1.5,"sender_has_retransmits":18446744073709551615,"streams":[
            {"id":3,"bytes":20,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1.0},
            {"id":1,"bytes":1.5e3,"retransmits":0,"jitter":0.1,"errors":2,"packets":5}]}"#;
        let found = TestResults::parse(text).unwrap();
        let bytes: Vec<u64> = found.streams.iter().map(|stream| stream.bytes).collect();
        assert_eq!(bytes, [1_500, 20]);
    }

    #[test]
    fn results_that_cannot_be_true_are_refused_with_the_reason() {
        let why = |text: &str| TestResults::parse(text.as_bytes()).unwrap_err();
        for (text, said) in [
            ("", "not those of iperf3"),
            ("[]", "not those of iperf3"),
            ("{}", "missing field `streams`"),
            (r#"{"streams":[{"id":1,"bytes":-1}]}"#, "bytes of -1"),
            (r#"{"streams":[{"id":1,"bytes":1e300}]}"#, "bytes of 1"),
            (r#"{"streams":[{"id":2,"bytes":1}]}"#, "a stream 2, where 1 is the next"),
            (r#"{"streams":[{"id":1,"bytes":1},{"id":1,"bytes":1}]}"#, "a stream 1, where 3"),
        ] {
            assert!(why(text).contains(said), "{text}: {}", why(text));
        }
    }

    #[test]
    fn results_of_this_end_have_the_numbers_that_the_server_gave_its_streams() {
        let sent = [Tally { bytes: 7, messages: 2, ..Tally::default() }];
        let value = of_client(&sent, StreamCounts { up: 3, down: 0 });
        let ids: Vec<_> = (0..3).map(|at| value["streams"][at]["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, [1, 3, 4]);
        assert_eq!(value["streams"][0]["bytes"], 7);
        assert_eq!(of_client(&sent, StreamCounts { up: 0, down: 1 })["streams"][0]["bytes"], 0);
    }
}
