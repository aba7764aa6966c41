//! Hosts whose settings belong to this program: the network namespaces of a path that a race emulates. Settings of any
//! other host are its administrator's, and only read.

use std::sync::atomic::{AtomicBool, Ordering};

static OWN: AtomicBool = AtomicBool::new(false);

/// Notes that this process runs on a host of an emulated path.
pub fn set() {
    OWN.store(true, Ordering::Relaxed);
}

/// Returns true if this process may change the settings of its host.
pub fn is_own() -> bool {
    OWN.load(Ordering::Relaxed)
}
