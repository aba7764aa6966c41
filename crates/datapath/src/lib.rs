//! Sockets at the limit of the kernel, and the contract of a transport.
//!
//! | module | contents |
//! |---|---|
//! | [`datapath`] | sockets with system calls, batches, kernel timestamps and waiting; no protocol, no message |
//! | [`transport`] | promises and methods of a transport; protocols in user space over UDP and a simulated path |

pub mod datapath;
pub mod transport;
