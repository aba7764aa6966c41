//! Tests that need every transport in the list: of contenders, their parts and their adapters.

mod equal;
mod external;
mod list;
mod optional;
mod preference;
mod prefers;
mod several;
mod userspace;
mod via;

/// Registers everything before `main`, which belongs to the test harness.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = before_main;

extern "C" fn before_main() {
    let _ = crate::transport::ALL.fill(crate::ALL.to_vec());
    let _ = crate::transport::optional::ALL.fill(crate::OPTIONAL.to_vec());
}
