//! Sockets and threads at the limit: what every transport and the driver stand on.

pub mod wait;
