//! Results of races: what is saved, and how it is read again.
//!
//! | file | purpose |
//! |---|---|
//! | [`outcome`], `blank` | a race with all of its results, as it is saved: format 1; one before its first trial |
//! | [`explained`], [`path_way`], [`imported`], [`dropped`], [`knee`] | parts of it: where the time went, what a path did, where it was imported from, who dropped out, which load is too much |
//! | [`save`], [`layout`], [`packed`] | to disk and back; the layout there; files that may be compressed |
//! | `journal` | blocks of a running race, appended beside it |
//! | [`hold`] | one race per file |
//! | [`command`] | the command line that asks for a race again |
//! | [`date`] | the time of day in names and results |

mod blank;
pub mod command;
pub mod date;
pub mod dropped;
pub mod explained;
pub mod hold;
pub mod imported;
pub(crate) mod journal;
mod json_path;
pub mod knee;
pub mod layout;
pub mod outcome;
pub mod packed;
pub mod path_way;
pub mod save;
