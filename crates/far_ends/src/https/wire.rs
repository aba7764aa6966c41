//! Parts of HTTP/2 and HTTP/3 that a server shares with this client: numbers, strings, frames and field sections.

pub use super::fields::{number, put_number, put_string, string};
pub use super::frames::{Frame, FrameEvent, Frames, OnFrame, put_varint, varint};
pub use super::qpack::{OnField, read_section};
