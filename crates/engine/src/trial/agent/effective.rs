//! Options as read back, of several flows.

use crate::transport::Effective;

/// Returns the options of the first flow, and by flow those that it has otherwise.
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
