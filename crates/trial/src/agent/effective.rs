//! Options of flows, as read back.

use deadheat_datapath::datapath::origin;
use deadheat_datapath::transport::{Conn, Effective};

/// Returns the options of a connection as read back, with the local address and the interface that its socket is bound to,
/// if the trial has any.
pub(crate) fn of(conn: &dyn Conn) -> Effective {
    let mut all = conn.effective();
    let bound = conn.sockets().first().and_then(|socket| origin::in_force(*socket));
    let Some(bound) = bound else { return all };
    all.extend(bound.source.map(|source| ("source".to_owned(), source.ip().to_string())));
    all.extend(bound.device.map(|device| ("device".to_owned(), device)));
    all
}

/// Returns the options of the first flow, and the options of each flow if they differ.
pub(crate) fn by_flow(all: Vec<Effective>) -> (Effective, Vec<Effective>) {
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
