//! Parts of HTTP/3 that a server shares with this client: numbers, frames and field sections.

pub use super::fields::{put_number, put_string};
pub use super::frames::{Frame, FrameEvent, Frames, OnFrame, put_varint, varint};
pub use super::qpack::{OnField, read_section};
