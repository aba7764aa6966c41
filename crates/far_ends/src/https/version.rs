//! Versions of HTTP: requests and answers as bytes on the streams of a connection.

use super::head::Head;
use deadheat_datapath::transport::application::Streams;

/// Part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnswerPart<'a> {
    /// Its header; interim ones are not passed on.
    Head(Head),
    /// Bytes of its body.
    Body(&'a [u8]),
    /// The end of its body.
    End,
}

/// Receiver of the parts of answers, each with the number of its request.
pub(super) type Take<'a> = &'a mut dyn FnMut(u64, AnswerPart<'_>) -> Result<(), String>;

/// Version of HTTP on a connection. Errors are violations of the far end, as sentences.
pub(super) trait Version: Send {
    /// Returns its name, such as `HTTP/3`.
    fn name(&self) -> &'static str;

    /// Sends what begins the connection.
    ///
    /// # Errors
    /// The reason why there can be no requests.
    fn begin(&mut self, streams: &mut dyn Streams) -> Result<(), String>;

    /// Sends a request; returns its number, or `None` if there is no room for it now.
    ///
    /// # Errors
    /// The reason why there can be no more requests on this connection.
    fn request(&mut self, streams: &mut dyn Streams) -> Result<Option<u64>, String>;

    /// Reads what arrived.
    ///
    /// # Errors
    /// A violation of the protocol, or an error of `take`.
    fn read(&mut self, streams: &mut dyn Streams, take: Take<'_>) -> Result<(), String>;
}

/// Hands the bytes that arrived on a stream to `feed`, until it fails; returns true at the end of the stream.
///
/// # Errors
/// As [`Streams::read`], and the error of `feed`.
pub(super) fn feed_arrived(
    streams: &mut dyn Streams,
    stream: u64,
    feed: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<bool, String> {
    let mut fed = Ok(());
    let has_ended = streams.read(stream, &mut |bytes| {
        if fed.is_ok() {
            fed = feed(bytes);
        }
    })?;
    fed.map(|()| has_ended)
}

/// Most bytes of a header.
pub(super) const MOST_HEADER: usize = 64 << 10;
