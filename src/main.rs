//! The program: become an agent if started as one, otherwise parse, run, and answer an exit code.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: deadheat::host::allocations::Counting = deadheat::host::allocations::Counting;

fn main() -> ExitCode {
    deadheat::trial::process::enter();
    deadheat::cli::run()
}
