//! Tests of what is shared, with everything that is registered.

mod equal;
mod external;
mod list;
mod optional;
mod preference;
mod prefers;
mod several;
mod userspace;
mod via;

/// Hands everything in before `main`, which the test harness has for itself.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = before_main;

extern "C" fn before_main() {
    let _ = crate::transport::ALL.fill(crate::ALL.to_vec());
    let _ = crate::transport::optional::ALL.fill(crate::OPTIONAL.to_vec());
}
