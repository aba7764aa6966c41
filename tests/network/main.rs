//! Hosts with a network between them: emulated paths, namespaces, and kernels that are booted for it. A binary of its own, as its
//! tests need rights and tools that those of the program do not.

#[path = "../common/handed_in.rs"]
mod handed_in;

mod answers;
mod away;
mod browser;
mod captured;
mod check;
#[allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, dead_code)] // Other tests use the rest of it.
#[path = "../common/browser.rs"]
mod chromium;
mod commands;
mod emulated;
mod external;
mod hosts;
mod mtu;
mod nat;
mod ndt7;
mod net;
mod others;
mod path;
#[allow(clippy::unwrap_used)] // A test fails by panicking.
#[path = "../common/pem.rs"]
mod pem;
mod people;
#[path = "../common/python.rs"]
mod python;
mod quicperf;
mod remote;
#[path = "../common/remote_cells.rs"]
mod remote_cells;
mod roles;
mod series;
mod spread;
mod uml;
mod ways;
mod web;
mod why;

/// True if every case runs, as in `make soak`; otherwise one of each kind does.
fn runs_all() -> bool {
    std::env::var_os("DEADHEAT_ALL_CELLS").is_some()
}
