//! Codec of a far end that has headers of its own in each datagram.

/// Translation between the messages of the work and the datagrams of a far end. Nothing is allocated once it exists.
pub(crate) trait Codec: Send {
    /// Writes the datagram that carries `message` into the start of `packet`, which has room for it; returns its length.
    /// Called again with the same message if the socket had no room.
    fn encode(&mut self, message: &[u8], packet: &mut [u8]) -> usize;

    /// Returns true if the far end's limits allow a datagram now.
    fn has_room(&mut self) -> bool;

    /// Notes that the last encoded datagram was sent.
    fn sent(&mut self);

    /// Overwrites the start of a message of bulk data, which is sent as it is then; each is stamped once, in order.
    fn stamp(&mut self, message: &mut [u8]);

    /// Writes the message that a datagram of the far end carries into the start of `message`, which has room for it;
    /// returns its length, or `None` for a datagram without one.
    fn decode(&mut self, packet: &[u8], message: &mut [u8]) -> Option<usize>;

    /// Writes the datagram that ends the connection at the far end into the start of `packet`; returns its length, or
    /// `None` if there is none.
    fn farewell(&mut self, packet: &mut [u8]) -> Option<usize>;
}
