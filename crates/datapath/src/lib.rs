//! Sockets at the limit, and what a transport is.
//!
//! | module | contents |
//! |---|---|
//! | [`datapath`] | sockets with system calls, batches, kernel timestamps and waiting; it knows no protocol and no message |
//! | [`transport`] | the promises and methods of a transport; protocols in user space over UDP and over a simulated path |

pub mod datapath;
pub mod transport;

use deadheat_base::{error, figures, foreign, rng, spec, time, units};
use deadheat_contract::{contract, handed_in, measurements};
