//! Options of several flows, as read back.

use crate::transport::Effective;

/// Returns the options of the first flow, and the options of each flow if they differ.
pub(in crate::trial) fn by_flow(all: Vec<Effective>) -> (Effective, Vec<Effective>) {
    let first = all.first().cloned().unwrap_or_default();
    let otherwise = |own: Effective| -> Effective {
        own.into_iter().filter(|(name, value)| first.get(name) != Some(value)).collect()
    };
    let mut each: Vec<Effective> = all.into_iter().map(otherwise).collect();
    if each.iter().all(Effective::is_empty) {
        each.clear();
    }
    (first, each)
}
