//! deadheat with a transport, a workload and a report of our own:
//!
//! ```text
//! cargo run -p deadheat-stranger -- race udp twice -w knock --path sim:loss=10% --blocks 4 --format line
//! ```

use std::process::ExitCode;

use deadheat::host::allocations::CountingAllocator;
use deadheat::transport::spent::Allocator;

mod knock;
mod line;
mod twice;

/// Counts the allocations of each thread, as deadheat itself does. Without it the column is absent.
#[global_allocator]
static ALLOCATOR: Allocator<CountingAllocator> = Allocator(CountingAllocator);

fn main() -> ExitCode {
    deadheat::Program::new()
        .transport(&twice::Twice)
        .workload(&knock::Knock)
        .report(&line::Line)
        .run()
}
