//! Results of races: the saved format, and how to read it.
//!
//! | file | purpose |
//! |---|---|
//! | [`outcome`], `blank`, `entrant` | a race with all of its results, as it is saved: format 1; one before its first trial; what its contenders do |
//! | [`explained`], [`path_way`], [`imported`] | parts of it: breakdown of time, account of a path, origin of an import |
//! | `trust` | the reasons that speak against a race |
//! | [`dropped`], [`knee`] | parts of it: contenders that dropped out, knees under rising load |
//! | [`causes`] | what held a contender back: a table of causes, and the judge over the signs of trials |
//! | [`save`], [`layout`], [`packed`] | writing and reading; JSON and its layout; files that may be compressed |
//! | `journal` | blocks of a running race, appended beside it |
//! | [`lock`] | one race per file |
//! | [`command`] | the command line that repeats a race |
//! | [`date`] | the time of day in names and results |
//! | [`schedule`] | the order of each block and its seed, from the race's seed alone |

#[cfg(test)]
use deadheat_everything as _;

pub mod advise;
pub mod analysis;
mod blank;
pub mod causes;
pub mod command;
pub mod contest;
pub mod date;
pub mod dropped;
mod entrant;
pub mod explained;
pub mod far_hosts;
pub mod imported;
pub mod journal;
mod json_path;
pub mod knee;
pub mod line;
pub mod lock;
pub mod map;
pub mod outcome;
pub mod packed;
pub mod path_way;
pub mod save;
pub mod schedule;
pub mod study;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trial_members;
mod trust;

pub use deadheat_base::json as layout;
