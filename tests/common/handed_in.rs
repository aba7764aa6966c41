//! Hands in what the program has before `main`, which the test harness has for itself.

/// Constructor that the loader calls (`.init_array`, System V ABI).
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = before_main;

extern "C" fn before_main() {
    // A test that finds nothing handed in says so.
    let _ = deadheat::Program::new().hand_in();
}
