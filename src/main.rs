//! The program: become an agent if started as one, otherwise parse, run, and answer an exit code.

use std::process::ExitCode;

/// Times what the explaining pass asks for, and nothing else.
#[global_allocator]
static ALLOCATOR: deadheat::transport::spent::Allocator = deadheat::transport::spent::Allocator;

fn main() -> ExitCode {
    deadheat::trial::process::enter();
    deadheat::cli::run()
}
