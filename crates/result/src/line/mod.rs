//! Results of surveys of a line to another host.
//!
//! | file | content |
//! |---|---|
//! | [`part`] | the kinds of trials, and the work of each |
//! | [`figures`] | from the trials of one survey to figures with intervals; pure |
//! | [`compare`] | surveys before and after; pure |
//! | [`hours`] | medians by hour of the day of a line that was surveyed for days; pure |
//! | [`outcome`] | the saved file |

pub mod compare;
pub mod figures;
pub mod hours;
pub mod outcome;
pub mod part;
