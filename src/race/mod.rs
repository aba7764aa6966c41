//! Blocks of trials until every claim is decided or the budget is spent.
//!
//! | file | what it does |
//! |---|---|
//! | [`request`] | what is asked, and whether it can be meant |
//! | `cells` | contenders under every combination of conditions |
//! | [`plan`] | what is fixed before the first block: placement, blocks, looks, margin |
//! | [`schedule`] | the order of each block and its seed, from the race's seed alone |
//! | `pilot` | the trials before the first block |
//! | `ends` | who runs the trials: agents, or a simulation |
//! | `run` | the loop: blocks, looks, saving, the end |
//! | `block` | one block: repeats, blocked and failed trials |
//! | [`analyse`] | from trials to summary, verdicts and control; pure |
//! | [`shares`] | what each condition accounts for, in a race over conditions; pure |
//! | [`sweep`] | the knee of each contender, in a race over offered loads; pure |
//! | `sentence` | verdicts in words |
//! | [`differences`] | what was not equal, and why it matters |
//! | [`warnings`], [`notice`] | what to know before believing it, found and worded |
//! | [`explain`] | the second, instrumented pass: where the time goes |
//! | [`outcome`] | the result as it is saved |
//! | [`save`], [`layout`] | to disk and back; how it looks there |
//! | [`mod@compare`] | two saved races against each other |
//! | [`mod@resume`] | going on, and running again |
//! | [`keep`] | raw samples beside the saved race |
//! | [`stage`] | what a race touches outside itself |
//! | [`date`] | the time of day in names and results |
//!
//! ```no_run
//! use deadheat::race::{Race, Stage, Unobserved, outcome::Outcome};
//! use deadheat::trial::Runner;
//!
//! fn run(runner: &mut dyn Runner) -> deadheat::Result<Outcome> {
//!     Race::new(["tcp", "udp"])
//!         .workload("ping:count=200")
//!         .blocks(8)
//!         .run_with(Stage::new(runner, &mut Unobserved).save("race.json"))
//! }
//! ```

pub mod analyse;
mod block;
mod cells;
pub mod compare;
pub mod date;
pub mod differences;
mod ends;
pub mod explain;
mod files;
pub mod keep;
pub mod layout;
pub mod losses;
pub mod notice;
pub mod outcome;
mod path_account;
pub mod path_ways;
mod pilot;
pub mod plan;
pub mod request;
pub mod resume;
mod run;
pub mod save;
pub mod schedule;
mod sentence;
pub mod shares;
pub mod stage;
pub mod sweep;
pub mod warnings;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use request::{Request, Request as Race};
pub use resume::{replay, resume};
pub use stage::{Event, Keep, Observer, Place, Stage, Unobserved};
