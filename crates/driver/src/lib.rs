//! Loop of a trial, and the notes that it takes. All code that runs once for each message between a workload and a
//! transport is here, so that a build can make it fast, and can make small the code that plans, starts and judges.
//!
//! | module | contents |
//! |---|---|
//! | [`driver`] | the loop of one flow: the only I/O of a trial |
//! | [`intervals`] | series of a flow over time |
//! | [`notes`] | notes of instrumented trials, and the layer that takes them |

pub mod driver;
pub mod intervals;
pub mod notes;
