//! Registers every transport, workload and far end of this repository before `main`, for test binaries and benches, which have
//! no `main` of their own: `use deadheat_everything as _;`. A program registers its own.

use deadheat_datapath::transport::{self, far_end, optional, responder};

/// Constructor that the loader calls before `main` (`.init_array`, System V ABI).
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = before_main;

extern "C" fn before_main() {
    // Nothing was registered before in this process, so no registry is filled twice.
    let _ = deadheat_contract::workload::ALL.fill(deadheat_workloads::ALL.to_vec());
    let _ = transport::ALL.fill(deadheat_transports::ALL.to_vec());
    let _ = deadheat_contract::recorded::READERS.fill(vec![&transport::READERS]);
    let _ = far_end::ALL.fill(deadheat_far_ends::ALL.to_vec());
    let _ = responder::ALL.fill(deadheat_far_ends::responders::ALL.to_vec());
    let _ = optional::ALL.fill(deadheat_transports::OPTIONAL.to_vec());
}
