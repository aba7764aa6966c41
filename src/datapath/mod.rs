//! Sockets at the limit: the few system calls that move data, with nothing allocated around them
//! and each of them counted. This layer knows bytes and descriptors, and no transport.

pub mod datagram;
pub mod option;
