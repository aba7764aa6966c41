//! Requests of browsers, as far as they matter here, and answers to them (RFC 9114, 4; RFC 9220).

use deadheat_far_ends::http3::{put_number, put_string, put_varint, read_section};

/// Type of the frame with a header (RFC 9114, 7.2.2).
pub(super) const HEADERS: u64 = 0x1;

/// Protocols that a request for a session names; the second since draft-ietf-webtrans-http3-15.
const PROTOCOLS: [&[u8]; 2] = [b"webtransport", b"webtransport-h3"];

/// Version of the draft that browsers of its time want to read in an answer.
const DRAFT: (&str, &str) = ("sec-webtransport-http3-draft", "draft02");

/// Answer to a request, by its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrowserAnswer {
    /// The session is open.
    Opened,
    /// There is no such document here.
    NotFound,
    /// The connection has a session.
    Busy,
}

/// Returns true if the field section of a request asks for a session, by an extended CONNECT.
///
/// # Errors
/// The violation, as a sentence.
pub(super) fn is_for_session(section: &[u8]) -> Result<bool, String> {
    let (mut connects, mut speaks) = (None, false);
    read_section(section, &mut |name, value| {
        match name {
            b":method" if connects.is_some() => {
                return Err("its header has two methods".to_owned());
            }
            b":method" => connects = Some(value == b"CONNECT"),
            b":protocol" => speaks = PROTOCOLS.contains(&value),
            _ => {}
        }
        Ok(())
    })?;
    match connects {
        None => Err("its header has no method".to_owned()),
        Some(connects) => Ok(connects && speaks),
    }
}

impl BrowserAnswer {
    /// Returns its frame.
    pub(super) fn frame(self) -> Vec<u8> {
        // No entry of a dynamic table is needed, and the base is 0; then an entry of the static table (RFC 9204, appendix A).
        let mut section = vec![0, 0];
        let status = match self {
            BrowserAnswer::Opened => 25,
            BrowserAnswer::NotFound => 27,
            BrowserAnswer::Busy => 28,
        };
        put_number(&mut section, 0b1100_0000, 6, status);
        if self == BrowserAnswer::Opened {
            put_number(&mut section, 0b0010_0000, 3, DRAFT.0.len() as u64);
            section.extend_from_slice(DRAFT.0.as_bytes());
            put_string(&mut section, DRAFT.1);
        }
        let mut frame = Vec::new();
        put_varint(&mut frame, HEADERS);
        put_varint(&mut frame, section.len() as u64);
        [frame, section].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field section with these fields as literals, and a method of the static table.
    fn section(method: u64, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut out = vec![0, 0];
        put_number(&mut out, 0b1100_0000, 6, method);
        for (name, value) in fields {
            put_number(&mut out, 0b0010_0000, 3, name.len() as u64);
            out.extend_from_slice(name.as_bytes());
            put_string(&mut out, value);
        }
        out
    }

    #[test]
    fn a_request_for_a_session_is_told_from_others() {
        let read = is_for_session;
        for protocol in ["webtransport", "webtransport-h3"] {
            let asked = section(15, &[(":path", "/"), (":protocol", protocol)]);
            assert_eq!(read(&asked), Ok(true));
        }
        for other in [
            section(17, &[(":path", "/")]),
            section(15, &[(":protocol", "connect-udp")]),
            section(17, &[(":protocol", "webtransport")]),
            section(15, &[]),
        ] {
            assert_eq!(read(&other), Ok(false));
        }
        assert!(read(&[0, 0]).unwrap_err().contains("no method"));
        assert!(read(&[0, 0, 0xcf, 0xcf]).unwrap_err().contains("two methods"));
        assert!(read(&[1, 0]).unwrap_err().contains("dynamic table"));
    }

    #[test]
    fn an_answer_reads_back() {
        for (answer, status) in [
            (BrowserAnswer::Opened, "200"),
            (BrowserAnswer::NotFound, "404"),
            (BrowserAnswer::Busy, "503"),
        ] {
            let frame = answer.frame();
            assert_eq!((frame[0], usize::from(frame[1])), (1, frame.len() - 2));
            let mut statuses = Vec::new();
            read_section(&frame[2..], &mut |name, value| {
                if name == b":status" {
                    statuses.push(String::from_utf8_lossy(value).into_owned());
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(statuses, [status]);
        }
    }
}
