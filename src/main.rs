//! The program: hand in what it has, become an agent if started as one, otherwise parse, run, and answer an exit code.

use std::process::ExitCode;

use deadheat::host::allocations::Counting;
use deadheat::transport::spent::Allocator;

/// Counts the allocations of each thread, and times them in the explaining pass.
#[global_allocator]
static ALLOCATOR: Allocator<Counting> = Allocator(Counting);

fn main() -> ExitCode {
    deadheat::Program::new().run()
}
