//! Survey of a line to another host in a minute: round trips of the idle and of the full line, goodput, loss, and the
//! transports that get through.
//!
//! | file | content |
//! |---|---|
//! | `plan` | the kinds of trials for which there is time; pure |
//! | [`run`] | rounds of trials until the time is over, and again at later times |

mod plan;
pub mod run;
