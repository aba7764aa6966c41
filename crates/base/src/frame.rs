//! Messages between processes: a 32-bit big-endian length, then JSON.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{foreign, json};

/// Largest message in bytes. It is below 2^24, so that the first byte on the wire is 0, and other data is not mistaken
/// for a message.
pub const LARGEST: u32 = 1 << 20;

/// Writes one message: a 32-bit big-endian length, then JSON.
///
/// # Errors
/// The error of the writer.
pub fn write<T: Serialize>(writer: &mut impl Write, message: &T) -> io::Result<()> {
    write_body(writer, &json::line(message)?)
}

fn write_body(writer: &mut dyn Write, body: &[u8]) -> io::Result<()> {
    let len = u32::try_from(body.len())
        .ok()
        .filter(|len| *len <= LARGEST)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "control message too large"))?;
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend(len.to_be_bytes());
    frame.extend(body);
    writer.write_all(&frame)?;
    writer.flush()
}

/// Reads one message.
///
/// # Errors
/// `InvalidData` with the fault in the peer's bytes; `UnexpectedEof` if the peer stopped in the middle; otherwise the
/// error of the reader.
pub fn read<T: DeserializeOwned>(reader: &mut impl Read) -> io::Result<T> {
    parse(&read_frame(reader)?)
}

/// Reads one message's JSON without parsing it, for relays.
///
/// # Errors
/// As [`read`].
pub fn read_frame(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    reader.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len);
    if len == 0 || len > LARGEST {
        return Err(invalid(format!(
            "a control message of {len} bytes (1 to {LARGEST} expected); not a deadheat peer?"
        )));
    }
    let mut body = Vec::new();
    reader.take(u64::from(len)).read_to_end(&mut body)?;
    if body.len() < len as usize {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the peer stopped after {} of {len} bytes of a control message", body.len()),
        ));
    }
    Ok(body)
}

/// Writes a message that is already JSON, for relays.
///
/// # Errors
/// The error of the writer.
pub fn write_frame(writer: &mut impl Write, body: &[u8]) -> io::Result<()> {
    let len = u32::try_from(body.len()).map_err(|_| invalid("control message too large".into()))?;
    writer.write_all(&[&len.to_be_bytes(), body].concat())?;
    writer.flush()
}

/// Reads a message from its JSON.
///
/// # Errors
/// `InvalidData` with the fault.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    json::read(body).map_err(|error| senseless(body, &error))
}

fn senseless(body: &[u8], error: &serde_json::Error) -> io::Error {
    let shown = foreign::around(body, place(body, error));
    invalid(format!(
        "a control message that makes no sense: {}, near `{shown}`",
        foreign::short(&error.to_string())
    ))
}

/// Returns the offset of an error of `serde_json`, which counts lines and columns from 1.
fn place(body: &[u8], error: &serde_json::Error) -> usize {
    let before = body.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    before.map(<[u8]>::len).sum::<usize>() + error.column()
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_its_length_and_json() {
        let mut wire = Vec::new();
        write(&mut wire, &("a", 1)).unwrap();
        assert_eq!(wire, b"\0\0\0\x07[\"a\",1]");
        assert_eq!(read::<(String, u8)>(&mut wire.as_slice()).unwrap(), ("a".to_owned(), 1));
        assert_eq!(read_frame(&mut wire.as_slice()).unwrap(), b"[\"a\",1]");
        let mut again = Vec::new();
        write_frame(&mut again, b"[\"a\",1]").unwrap();
        assert_eq!(again, wire);
        assert!(write(&mut wire, &"x".repeat(LARGEST as usize)).is_err());
    }
}
