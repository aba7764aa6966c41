//! The program: it hands in its implementations, becomes an agent if it was started as one, otherwise parses the
//! command line, runs the command, and returns an exit code.

use std::process::ExitCode;

use deadheat::host::allocations::CountingAllocator;
use deadheat::transport::spent::Allocator;

/// Counts the allocations of each thread, and times them in the explaining pass.
#[global_allocator]
static ALLOCATOR: Allocator<CountingAllocator> = Allocator(CountingAllocator);

fn main() -> ExitCode {
    deadheat::Program::new().run()
}
