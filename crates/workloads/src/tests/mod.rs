//! Tests that need every workload in the list: of contracts, and of the load beside work.

mod list;
mod load;
mod phased;
pub(crate) mod shelf;
mod traffic;

/// Hands everything in before `main`, which the test harness has for itself.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = before_main;

extern "C" fn before_main() {
    let _ = crate::workload::ALL.fill(crate::ALL.to_vec());
}
