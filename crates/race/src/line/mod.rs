//! Survey of a line to another host in a minute: round trips of the idle and of the full line, goodput, loss, and the
//! transports that get through.
//!
//! | file | content |
//! |---|---|
//! | [`part`] | the kinds of trials, and the work of each |
//! | `plan` | the kinds of trials for which there is time; pure |
//! | [`run`] | rounds of trials until the time is over, and again at later times |
//! | [`figures`] | from the trials of one survey to figures with intervals; pure |
//! | [`compare`] | surveys before and after; pure |
//! | [`hours`] | medians by hour of the day of a line that was surveyed for days; pure |
//! | [`outcome`] | the saved file |

pub mod compare;
pub mod figures;
pub mod hours;
pub mod outcome;
pub mod part;
mod plan;
pub mod run;
