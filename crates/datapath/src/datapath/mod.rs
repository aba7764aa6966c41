//! Data path: sockets at the limits of the kernel, with system calls, batches, buffers and waiting.
//!
//! It knows no protocol, message or trial. Every call is counted, and none allocates.

pub mod account;
pub mod answering;
mod call;
pub mod channel;
pub mod control;
pub mod datagram;
pub mod destination;
pub mod drain;
pub mod ecn;
pub mod epoll;
pub mod file;
pub mod ip_header;
pub mod memory;
pub mod option;
pub mod origin;
pub mod own_host;
mod patience;
pub mod pipe;
pub mod policer;
pub mod pump;
pub mod route;
pub mod stamps;
pub mod stream;
pub mod tcp_info;
#[cfg(test)]
mod testing;
pub mod uring;
pub mod wait;
pub mod zerocopy;

pub use deadheat_base::{checksum, cpu};
pub use deadheat_contract::buffer;
