//! Blocks of trials until every claim is decided or the budget is spent.
//!
//! | file | purpose |
//! |---|---|
//! | [`request`], `checks` | the request for a race; its checks |
//! | `asked` | the request as results record it |
//! | `cells` | contenders under every combination of conditions |
//! | `names` | names of contenders: their labels, or their specs |
//! | [`plan`] | the plan, fixed before the first block: placement, blocks, looks, margin |
//! | `cost` | duration of blocks, expected and measured |
//! | `pilot` | the trials before the first block |
//! | [`enough`] | the blocks and the time that a race needs, and the check for them |
//! | [`alongside`] | races side by side: which may, and how many |
//! | `race_path` | the path to the far end, parsed once, with its consequences |
//! | `ends` | runners of trials: agents, or a simulation |
//! | `every` | blocks that begin at given times |
//! | `run` | steps before the first block, and their runner |
//! | `block_loop` | the loop: blocks, looks, saving, the end |
//! | `block` | one block: repeats, blocked and failed trials |
//! | `quiet` | the host between blocks: settling, probing |
//! | [`outside`] | files and commands that a request from a file names |
//! | [`written`] | files that people write by hand, and their errors |
//! | [`explain`] | the second, instrumented pass: where the time goes |
//! | [`why`] | tests of causes: a contender against itself with one setting changed |
//! | [`gate`] | a race against a baseline: is a contender worse? |
//! | [`mod@resume`] | resuming a race, and running one again |
//! | [`samples_file`] | raw samples beside the saved race |
//! | [`steering`] | wishes of a person while a race runs: pause, end after the block |
//! | [`context`] | surroundings of a race: runner, observer, clock, files |
//!
//! ```no_run
//! use deadheat_base::error::Result;
//! use deadheat_race::race::{Race, RaceContext, SilentObserver};
//! use deadheat_result::outcome::Outcome;
//! use deadheat_trial::Runner;
//!
//! fn run(runner: &mut dyn Runner) -> Result<Outcome> {
//!     Race::new(["tcp", "udp"])
//!         .workload("ping:count=200")
//!         .blocks(8)
//!         .run_with(RaceContext::new(runner, &mut SilentObserver).save("race.json"))
//! }
//! ```

mod absence;
pub mod alongside;
mod asked;
mod blast;
mod block;
mod block_loop;
mod cells;
mod checks;
mod commands;
pub mod context;
mod cost;
mod ends;
pub mod enough;
mod every;
pub mod explain;
mod files;
pub mod gate;
mod hope;
mod margin;
mod matrix;
mod names;
pub mod outside;
mod pilot;
pub mod plan;
mod quiet;
mod race_path;
mod reach;
pub mod request;
pub mod resume;
mod roles;
mod run;
pub mod samples_file;
pub mod steering;
pub mod why;
pub mod written;

#[cfg(test)]
mod promises;
#[cfg(test)]
mod simulation;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use crate::race::context::{
    Observer, RaceContext, RaceEvent, SampleStore, SilentObserver, TrialPlace,
};
pub use request::{DEFAULT_BLAST, Request, Request as Race};
pub use resume::{replay, resume};
