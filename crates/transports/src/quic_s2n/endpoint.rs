//! s2n-quic's endpoint without sockets and clock: its I/O provider stores it instead of running it, and the owner
//! passes it datagrams and the time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use s2n_quic::provider::io;
use s2n_quic_core::endpoint::Endpoint;
use s2n_quic_core::inet::{ExplicitCongestionNotification, SocketAddress, datagram};
use s2n_quic_core::io::{rx, tx};
use s2n_quic_core::path::{Handle, Tuple, mtu};
use s2n_quic_core::time::Timestamp;

use deadheat_base::time::Nanos;

/// Address of the peer. The state machine only compares it; the socket below has the real one.
pub(super) const PEER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 5210);

/// Endpoint as a state machine, for both ends and all congestion controls.
pub(super) trait Machine: Send {
    /// Handles a datagram that arrived. Its bytes are decrypted in place.
    fn take(&mut self, now: Timestamp, datagram: &mut [u8]);

    /// Handles the application's requests, and writes the datagrams that leave.
    fn write(&mut self, now: Timestamp, leaving: &mut OutboundDatagrams<'_>);

    /// Returns the time of the next timer.
    fn due(&self) -> Option<Timestamp>;
}

impl<E: Endpoint<PathHandle = Tuple>> Machine for E {
    fn take(&mut self, now: Timestamp, datagram: &mut [u8]) {
        self.receive(&mut InboundDatagram(Some(datagram)), &now);
    }

    fn write(&mut self, now: Timestamp, leaving: &mut OutboundDatagrams<'_>) {
        // An error means that the endpoint is closed and unused.
        let _ = self.poll_wakeups(&mut Context::from_waker(Waker::noop()), &now);
        self.transmit(leaving, &now);
    }

    fn due(&self) -> Option<Timestamp> {
        self.timeout()
    }
}

/// Converts a time to the library's clock, which counts microseconds.
pub(super) fn timestamp(now: Nanos) -> Timestamp {
    // SAFETY: only a time source may call it, and this is one.
    unsafe { Timestamp::from_duration(Duration::from(now)) }
}

/// Converts a time of the library's clock.
pub(super) fn nanos(timestamp: Timestamp) -> Nanos {
    // SAFETY: as above.
    let since = unsafe { timestamp.as_duration() };
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// I/O provider that stores the endpoint for its owner. Clones share one slot.
#[derive(Clone)]
pub(super) struct EndpointSlot {
    place: Arc<Mutex<Option<Box<dyn Machine>>>>,
    mtu: mtu::Config,
}

impl EndpointSlot {
    /// Creates an empty slot for an endpoint with packets of these sizes.
    pub(super) fn new(mtu: mtu::Config) -> EndpointSlot {
        EndpointSlot { place: Arc::default(), mtu }
    }

    /// Removes the endpoint, once it is stored.
    pub(super) fn endpoint(&self) -> Option<Box<dyn Machine>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl io::Provider for EndpointSlot {
    type PathHandle = Tuple;
    type Error = std::convert::Infallible;

    fn start<E: Endpoint<PathHandle = Tuple>>(
        self,
        mut endpoint: E,
    ) -> Result<SocketAddress, Self::Error> {
        endpoint.set_mtu_config(self.mtu);
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(endpoint));
        Ok(SocketAddress::default())
    }
}

/// Datagram that arrived.
struct InboundDatagram<'a>(Option<&'a mut [u8]>);

impl rx::Queue for InboundDatagram<'_> {
    type Handle = Tuple;

    fn for_each<F: FnMut(datagram::Header<Tuple>, &mut [u8])>(&mut self, mut take: F) {
        let path = Tuple::from_remote_address(SocketAddress::from(PEER).into());
        let ecn = ExplicitCongestionNotification::NotEct;
        if let Some(datagram) = self.0.take() {
            take(datagram::Header { path, ecn }, datagram);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Datagrams that leave together, all of one length except the last.
pub(super) struct OutboundDatagrams<'a> {
    batch: &'a mut Vec<u8>,
    most: usize,
    /// Most bytes of a datagram.
    longest: usize,
    size: Option<usize>,
    count: usize,
    /// True if a datagram was shorter, so that it is the last.
    has_ended: bool,
}

impl<'a> OutboundDatagrams<'a> {
    /// Creates a queue that appends at most `most` datagrams of at most `longest` bytes to `batch`.
    pub(super) fn new(
        batch: &'a mut Vec<u8>,
        most: usize,
        longest: usize,
    ) -> OutboundDatagrams<'a> {
        OutboundDatagrams { batch, most, longest, size: None, count: 0, has_ended: false }
    }

    /// Returns the length of each datagram; `None` if there is none.
    pub(super) fn size(&self) -> Option<usize> {
        self.size
    }
}

impl tx::Queue for OutboundDatagrams<'_> {
    type Handle = Tuple;

    fn push<M: tx::Message<Handle = Tuple>>(
        &mut self,
        mut message: M,
    ) -> Result<tx::Outcome, tx::Error> {
        let longest = self.size.unwrap_or(self.longest);
        if self.capacity() == 0 || (self.count > 0 && !message.can_gso(longest, self.count)) {
            return Err(tx::Error::AtCapacity);
        }
        let start = self.batch.len();
        self.batch.resize(start + longest, 0);
        let buffer = tx::PayloadBuffer::new(&mut self.batch[start..]);
        let written = message.write_payload(buffer, self.count);
        self.batch.truncate(start + written.as_ref().map_or(0, |len| *len));
        let len = written?;
        self.has_ended = len < *self.size.get_or_insert(len);
        self.count += 1;
        Ok(tx::Outcome { len, index: self.count - 1 })
    }

    fn capacity(&self) -> usize {
        if self.has_ended { 0 } else { self.most - self.count }
    }
}
