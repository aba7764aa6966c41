//! Sockets at the limit of what the kernel gives: system calls, batches, buffers and waiting.
//!
//! Nothing in here knows a protocol, a message or a trial. Every call is counted, and none
//! allocates.

pub mod buffer;
mod call;
pub mod datagram;
pub mod file;
pub mod option;
mod patience;
pub mod stream;
pub mod wait;
