//! Frames of a QUIC packet (RFC 9000, section 19; RFC 9221; draft-ietf-quic-ack-frequency), as a log has them
//! (draft-ietf-quic-qlog-quic-events, QuicFrame).

/// Exponent of the delay in an acknowledgement, unless an end announces another one (RFC 9000, 18.2), which quinn-proto
/// does not.
const DELAY_EXPONENT: u32 = 3;

/// Frame that asks for an acknowledgement alone.
const PING: &str = "{\"frame_type\":\"ping\"}";

/// Largest number of ranges of an acknowledgement that are read: a packet has no room for more.
const MOST_RANGES: u64 = 1 << 12;

/// Returns the frames of an unencrypted payload, as the elements of a JSON array. Of what cannot be read there is one
/// element, `unknown`, and nothing behind it.
pub(super) fn frames(payload: &[u8]) -> String {
    let mut reader = FrameReader { bytes: payload, at: 0 };
    let mut all: Vec<String> = Vec::new();
    while reader.at < payload.len() {
        let start = reader.at;
        match reader.frame() {
            Some(frame) => all.push(frame),
            None => {
                let raw = number(payload, &mut start.clone()).unwrap_or_default();
                all.push(format!("{{\"frame_type\":\"unknown\",\"raw_frame_type\":{raw}}}"));
                break;
            }
        }
    }
    all.join(",")
}

/// Position in a payload.
struct FrameReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl FrameReader<'_> {
    fn number(&mut self) -> Option<u64> {
        number(self.bytes, &mut self.at)
    }

    /// Passes `length` bytes.
    fn skip(&mut self, length: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(length).ok()?)?;
        (end <= self.bytes.len()).then(|| self.at = end)
    }

    fn rest(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// Reads a frame; `None` if it is none.
    fn frame(&mut self) -> Option<String> {
        let kind = self.number()?;
        let (name, fields) = match kind {
            0x00 => ("padding", self.padding()),
            0x01 => return Some(PING.to_owned()),
            0x02 | 0x03 => return self.acknowledgement(kind == 0x03),
            0x04 => ("reset_stream", self.fields(&["stream_id", "error_code", "final_size"])?),
            0x05 => ("stop_sending", self.fields(&["stream_id", "error_code"])?),
            0x06 => ("crypto", self.data(&["offset", "length"])?),
            0x07 => ("new_token", self.data(&["length"])?),
            0x08..=0x0f => ("stream", self.stream(kind)?),
            0x10 => ("max_data", self.fields(&["maximum"])?),
            0x11 => ("max_stream_data", self.fields(&["stream_id", "maximum"])?),
            0x12 | 0x13 => ("max_streams", self.of_streams(kind == 0x12, "maximum")?),
            0x14 => ("data_blocked", self.fields(&["limit"])?),
            0x15 => ("stream_data_blocked", self.fields(&["stream_id", "limit"])?),
            0x16 | 0x17 => ("streams_blocked", self.of_streams(kind == 0x16, "limit")?),
            0x18 => ("new_connection_id", self.connection_id()?),
            0x19 => ("retire_connection_id", self.fields(&["sequence_number"])?),
            0x1a | 0x1b => {
                self.skip(8)?;
                (if kind == 0x1a { "path_challenge" } else { "path_response" }, Vec::new())
            }
            0x1c => ("connection_close", self.close("transport")?),
            0x1d => ("connection_close", self.close("application")?),
            0x1e => ("handshake_done", Vec::new()),
            0x1f => ("immediate_ack", Vec::new()),
            0x30 | 0x31 => ("datagram", self.datagram(kind == 0x31)?),
            0xaf => {
                let keys = [
                    "sequence_number",
                    "ack_eliciting_threshold",
                    "request_max_ack_delay",
                    "reordering_threshold",
                ];
                ("ack_frequency", self.fields(&keys)?)
            }
            _ => return None,
        };
        let fields: String = fields.iter().map(|field| format!(",{field}")).collect();
        Some(format!("{{\"frame_type\":\"{name}\"{fields}}}"))
    }

    /// Reads numbers, one for each name.
    fn fields(&mut self, names: &[&str]) -> Option<Vec<String>> {
        names.iter().map(|name| Some(format!("\"{name}\":{}", self.number()?))).collect()
    }

    /// Reads numbers, of which the last is the length of the data behind them, and passes the data.
    fn data(&mut self, names: &[&str]) -> Option<Vec<String>> {
        let (last, before) = names.split_last()?;
        let mut fields = self.fields(before)?;
        let length = self.number()?;
        self.skip(length)?;
        fields.push(format!("\"{last}\":{length}"));
        Some(fields)
    }

    /// Passes the zeros of a padding, of which the first is read.
    fn padding(&mut self) -> Vec<String> {
        let zeros = self.bytes[self.at..].iter().take_while(|byte| **byte == 0).count();
        self.at += zeros;
        vec![format!("\"payload_length\":{}", zeros + 1)]
    }

    fn stream(&mut self, kind: u64) -> Option<Vec<String>> {
        let id = self.number()?;
        let offset = if kind & 4 == 0 { 0 } else { self.number()? };
        let length = if kind & 2 == 0 { self.rest() } else { self.number()? };
        self.skip(length)?;
        let mut fields = vec![
            format!("\"stream_id\":{id}"),
            format!("\"offset\":{offset}"),
            format!("\"length\":{length}"),
        ];
        if kind & 1 != 0 {
            fields.push("\"fin\":true".to_owned());
        }
        Some(fields)
    }

    fn datagram(&mut self, has_length: bool) -> Option<Vec<String>> {
        let length = if has_length { self.number()? } else { self.rest() };
        self.skip(length)?;
        Some(vec![format!("\"length\":{length}")])
    }

    fn of_streams(&mut self, is_both_ways: bool, name: &str) -> Option<Vec<String>> {
        let kind = if is_both_ways { "bidirectional" } else { "unidirectional" };
        let number = self.number()?;
        Some(vec![format!("\"stream_type\":\"{kind}\""), format!("\"{name}\":{number}")])
    }

    /// Reads a connection ID without the ID and its token, which identify a connection to others.
    fn connection_id(&mut self) -> Option<Vec<String>> {
        let fields = self.fields(&["sequence_number", "retire_prior_to"])?;
        let length = u64::from(*self.bytes.get(self.at)?);
        self.skip(1 + length + 16)?;
        Some(fields)
    }

    fn close(&mut self, space: &str) -> Option<Vec<String>> {
        let code = self.number()?;
        if space == "transport" {
            self.number()?;
        }
        let reason = self.number()?;
        self.skip(reason)?;
        Some(vec![format!("\"error_space\":\"{space}\""), format!("\"raw_error_code\":{code}")])
    }

    /// Reads an acknowledgement: ranges from the lowest to the highest number, and the delay in milliseconds.
    fn acknowledgement(&mut self, has_marks: bool) -> Option<String> {
        let (largest, delay, count) = (self.number()?, self.number()?, self.number()?);
        if count > MOST_RANGES {
            return None;
        }
        let mut high = largest;
        let mut low = high.checked_sub(self.number()?)?;
        let mut ranges = vec![(low, high)];
        for _ in 0..count {
            // A gap counts the missing packets but one (RFC 9000, 19.3.1).
            high = low.checked_sub(self.number()?.checked_add(2)?)?;
            low = high.checked_sub(self.number()?)?;
            ranges.push((low, high));
        }
        ranges.reverse();
        let ranges: Vec<String> = ranges
            .iter()
            .map(
                |(low, high)| {
                    if low == high { format!("[{low}]") } else { format!("[{low},{high}]") }
                },
            )
            .collect();
        let us = delay.checked_shl(DELAY_EXPONENT)?;
        let marks = if has_marks {
            self.fields(&["ect0", "ect1", "ce"])?.iter().map(|own| format!(",{own}")).collect()
        } else {
            String::new()
        };
        Some(format!(
            "{{\"frame_type\":\"ack\",\"ack_delay\":{}.{:03},\"acked_ranges\":[{}]{marks}}}",
            us / 1_000,
            us % 1_000,
            ranges.join(",")
        ))
    }
}

/// Reads a number of variable length (RFC 9000, 16).
pub(super) fn number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    let len = 1 << (first >> 6);
    let all = bytes.get(*at..*at + len)?;
    *at += len;
    Some(all[1..].iter().fold(u64::from(first & 0x3f), |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_in_their_order() {
        // ACK of 10, 8 to 6 and 3, after 2 µs << 3; PING; padding of three.
        let ack = [0x02, 10, 2, 2, 0, 0, 2, 1, 0, 0x01, 0, 0, 0];
        assert_eq!(
            frames(&ack),
            "{\"frame_type\":\"ack\",\"ack_delay\":0.016,\"acked_ranges\":[[3],[6,8],[10]]},{\"frame_type\":\"ping\"},\
             {\"frame_type\":\"padding\",\"payload_length\":3}"
        );
        let marked = [0x03, 0, 0, 0, 0, 5, 0, 1];
        assert!(frames(&marked).contains("\"acked_ranges\":[[0]],\"ect0\":5,\"ect1\":0,\"ce\":1"));
        // A stream with offset and length, and its end; one up to the packet's end.
        let streams = [0x0f, 4, 9, 2, 7, 7, 0x08, 8, 1, 1, 1];
        assert_eq!(
            frames(&streams),
            "{\"frame_type\":\"stream\",\"stream_id\":4,\"offset\":9,\"length\":2,\"fin\":true},\
             {\"frame_type\":\"stream\",\"stream_id\":8,\"offset\":0,\"length\":3}"
        );
    }

    /// The elements of any payload are JSON, and reading it ends.
    #[test]
    fn what_is_no_frame_is_unknown_and_no_panic() {
        assert_eq!(frames(&[0x21]), "{\"frame_type\":\"unknown\",\"raw_frame_type\":33}");
        assert_eq!(frames(&[0x06, 0, 9, 1]), "{\"frame_type\":\"unknown\",\"raw_frame_type\":6}");
        // An acknowledgement of numbers below 0.
        assert!(frames(&[0x02, 1, 0, 0, 2]).contains("unknown"));
        let mut state = 7u32;
        for length in 0..200 {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8 & 0x3f
                })
                .collect();
            let text = format!("[{}]", frames(&bytes));
            serde_json::from_str::<serde_json::Value>(&text)
                .unwrap_or_else(|e| panic!("{text}: {e}"));
        }
    }
}
