//! What the tests of networks share.

use std::time::Duration;

use deadheat_path::Emulator;

/// Longer than any step takes, and shorter than a person waits.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Builds a network; `None` if this host does not let this user.
pub(crate) fn network(path: &str) -> Option<Emulator> {
    match Emulator::possible() {
        Ok(()) => Some(Emulator::with_seed(path, 7).unwrap()),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}
