//! Blocks of trials until every claim is decided or the budget is spent.
//!
//! | file | purpose |
//! |---|---|
//! | [`request`] | the request for a race, and its checks |
//! | `cells` | contenders under every combination of conditions |
//! | [`plan`] | the plan, fixed before the first block: placement, blocks, looks, margin |
//! | [`schedule`] | the order of each block and its seed, from the race's seed alone |
//! | `pilot` | the trials before the first block |
//! | `ends` | runners of trials: agents, or a simulation |
//! | `every` | blocks that begin at their times |
//! | `run` | steps before the first block, and their runner |
//! | `course` | the loop: blocks, looks, saving, the end |
//! | `block` | one block: repeats, blocked and failed trials |
//! | [`analyse`] | from trials to summary and verdicts; pure |
//! | `table` | figures by contender and block, and the log-ratios that they make; pure |
//! | `control` | a contender against its hidden copy; pure |
//! | [`hold`] | one race per file |
//! | `order` | effects of the place in a block; pure |
//! | `exclusions` | differences between contenders in trials taken by gates; pure |
//! | [`shares`] | shares of variation that each condition accounts for, in a race over conditions; pure |
//! | [`pooled`] | pooled round trips of each contender, from raw samples |
//! | [`spread`] | spread of figures, for drawings; pure |
//! | [`sweep`] | the knee of each contender, in a race over offered loads; pure |
//! | [`mod@highs`] | highs and lows of a race over hours or days; pure |
//! | `quiet` | the host between blocks: settling, probing |
//! | `settings` | settings that changed during the race |
//! | `sentence` | verdicts in words |
//! | [`differences`] | differences in conditions between contenders, and why they matter |
//! | [`warnings`], [`notice`], [`host_notice`] | warnings to read before believing a race, found and worded |
//! | [`written`] | files that people write by hand, and what is wrong in them |
//! | [`explain`] | the second, instrumented pass: where the time goes |
//! | [`outcome`] | the result as it is saved |
//! | `derived` | everything derived from the trials, while a race runs and when it is read |
//! | [`save`], [`layout`] | to disk and back; the layout there |
//! | `journal` | blocks of a running race, appended beside it |
//! | [`packed`] | files that may be compressed, and are not larger than they should be |
//! | [`independent`] | verdicts on trials that are no pairs |
//! | [`imported`] | the files that a result was imported from |
//! | [`mod@compare`] | two saved races against each other |
//! | [`gate`] | a race against a baseline: is anything worse? |
//! | [`mod@history`] | the same race again and again: series and changes of level |
//! | [`mod@resume`] | resuming a race, and running one again |
//! | [`keep`] | raw samples beside the saved race |
//! | [`stage`] | surroundings of a race: runner, observer, clock, files |
//! | [`command`] | the command line that asks for a race again |
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
pub mod command;
pub mod compare;
mod control;
mod course;
pub mod date;
mod derived;
pub mod differences;
mod ends;
mod every;
pub mod exclusions;
pub mod explain;
mod files;
pub mod gate;
pub mod highs;
pub mod history;
pub mod hold;
pub mod host_notice;
pub mod imported;
pub mod independent;
mod journal;
pub mod keep;
pub mod layout;
pub mod losses;
pub mod notice;
mod order;
pub mod outcome;
pub mod packed;
mod path_account;
pub mod path_ways;
mod pilot;
pub mod plan;
pub mod pooled;
mod quiet;
pub mod request;
pub mod resume;
mod run;
pub mod save;
pub mod schedule;
mod sentence;
mod settings;
pub mod shares;
pub mod spread;
pub mod stage;
pub mod sweep;
mod table;
pub mod warnings;
pub mod written;

#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use request::{Claims, Request, Request as Race};
pub use resume::{replay, resume};
pub use stage::{Event, Keep, Observer, Place, Stage, Unobserved};
