//! The few types that transports and workloads share, so that neither imports the other.
//!
//! A workload asks for a guarantee and never for a transport by name; a transport carries messages or bulk bytes and
//! never knows their purpose.

use std::fmt;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use deadheat_base::error::Result;
use deadheat_base::time::Nanos;

pub use deadheat_base::ends::{Direction, Side};
pub use deadheat_base::waiting::{GUARD, WaitMode};
pub use peer::{CountSource, PeerFacts};

mod peer;

/// An independent sequence of messages inside one connection. Transports without streams have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lane(pub u16);

/// Set of lanes. Lanes from the 64th on are in it together or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSet(u64);

impl LaneSet {
    /// All lanes.
    pub const ALL: LaneSet = LaneSet(u64::MAX);

    /// Creates the set of these lanes.
    pub fn of(lanes: impl IntoIterator<Item = Lane>) -> LaneSet {
        LaneSet(lanes.into_iter().fold(0, |set, lane| set | LaneSet::bit(lane)))
    }

    /// Returns true if the lane is in it.
    pub fn has(self, lane: Lane) -> bool {
        self.0 & LaneSet::bit(lane) != 0
    }

    fn bit(lane: Lane) -> u64 {
        1 << lane.0.min(63)
    }
}

/// Fate of a message that the network loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Sent again until it arrives or the connection fails.
    Reliable,
    /// Sent again until this time after it was handed over, then given up (RFC 3758, 4.1).
    Within(Nanos),
    /// Not sent again.
    BestEffort,
}

/// Order in which messages arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// Order of sending.
    Ordered,
    /// Any order, as the network delivers them.
    Unordered,
}

/// Service of a lane: the delivery and the order of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// Fate of a message that the network loses.
    pub delivery: Delivery,
    /// Order within the lane.
    pub ordering: Ordering,
}

impl Service {
    /// Every message, in order.
    pub const ORDERED: Service =
        Service { delivery: Delivery::Reliable, ordering: Ordering::Ordered };
    /// Every message, in any order.
    pub const UNORDERED: Service =
        Service { delivery: Delivery::Reliable, ordering: Ordering::Unordered };
    /// Messages that may be lost, in any order.
    pub const BEST_EFFORT: Service =
        Service { delivery: Delivery::BestEffort, ordering: Ordering::Unordered };
    /// Messages that are given up some time after the send, in any order.
    pub const EXPIRING: Service =
        Service { delivery: Delivery::Within(Nanos::ZERO), ordering: Ordering::Unordered };

    /// Returns true if both are the same service, regardless of the lifetime of a message.
    pub fn is_like(self, other: Service) -> bool {
        use std::mem::discriminant;
        self.ordering == other.ordering
            && discriminant(&self.delivery) == discriminant(&other.delivery)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.delivery {
            Delivery::Reliable => f.write_str("reliable")?,
            Delivery::Within(_) => f.write_str("reliable for a lifetime")?,
            Delivery::BestEffort => f.write_str("best effort")?,
        }
        f.write_str(match self.ordering {
            Ordering::Ordered => ", ordered",
            Ordering::Unordered => ", unordered",
        })
    }
}

/// Unit that the transport carries: bytes or messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// Bytes without boundaries; messages need a length in front.
    ByteStream,
    /// Messages that arrive whole or not at all.
    Messages,
}

/// Signal to the peer that a direction has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The transport signals the end, after the last message.
    Told,
    /// The transport has no signal of the end.
    Silent,
}

/// Mechanism that slows the sender down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Congestion {
    /// A congestion controller.
    Controlled,
    /// The receiver's buffer only, inside one machine.
    Backpressure,
    /// No mechanism.
    Uncontrolled,
}

/// Distance that a transport covers: a network, one machine or one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Any IP path.
    Network,
    /// Any IP path, with a port of the protocol's own at the far end. A server has it if its operator opens it.
    OwnPort,
    /// Any IP path to a far end that listens itself, but not a server.
    Path,
    /// Within one machine.
    Machine,
    /// Within one process: tests, and models in virtual time.
    Process,
}

/// A service that a lane may have instead of the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The service.
    pub service: Service,
    /// The largest message in bytes; `None` if any length will do.
    pub largest_message: Option<u64>,
}

/// Services that a lane may have instead of the default, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers([Option<Offer>; Offers::MOST]);

impl Offers {
    /// No other service.
    pub const NONE: Offers = Offers([None; Offers::MOST]);

    /// Maximum number of offers: three deliveries in two orders, without the default.
    const MOST: usize = 5;

    /// Creates the offers of a list; only its first five count.
    pub const fn of(list: &[Offer]) -> Offers {
        let mut all = Offers::NONE;
        let mut at = 0;
        while at < list.len() && at < Offers::MOST {
            all.0[at] = Some(list[at]);
            at += 1;
        }
        all
    }

    /// Iterates over the offers.
    pub fn iter(&self) -> impl Iterator<Item = &Offer> {
        self.0.iter().flatten()
    }
}

/// Properties that a transport promises. Workloads ask for these and never for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarantees {
    /// Default service of a lane.
    pub service: Service,
    /// Services that a workload can ask for instead.
    pub others: Offers,
    /// Maximum number of lanes of a connection. If there are several, no lane waits for another's losses.
    pub lanes: u16,
    /// Unit that it carries: bytes, or messages with their boundaries.
    pub framing: Framing,
    /// Signal to the peer that a direction has ended.
    pub ending: Ending,
    /// Mechanism that slows the sender down.
    pub congestion: Congestion,
    /// True if bytes are encrypted on the path.
    pub encrypted: bool,
    /// The largest message in bytes; `None` for a byte stream.
    pub largest_message: Option<u64>,
}

/// Lanes that work asks for, for transports that distribute lanes over several connections.
pub trait AsksLanes {
    /// Returns the names of its lanes, first to last, on a connection with enough lanes; empty if it uses a single
    /// lane.
    fn lane_names(&self) -> Vec<String>;

    /// Returns the services that it asks for of a connection with these guarantees, first to last.
    fn lanes(&self, promised: &Guarantees) -> Vec<Service>;

    /// Returns the number of the far node where the connections arrive; `None` where they are dialled.
    fn node(&self) -> Option<u16>;
}

/// Longest time that one receive call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Return at once if nothing is there.
    None,
    /// Sleep in the kernel until something arrives, at most [`GUARD`].
    Block,
    /// Sleep in the kernel until data or a signal arrives. The caller makes sure that a signal arrives every [`GUARD`];
    /// so the kernel needs no timer per call.
    UntilNudged,
}

/// Next step of the driver for one half of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send the first `len` bytes of the buffer that was handed to `poll`.
    Send {
        /// The lane to send on.
        lane: Lane,
        /// The message length in bytes.
        len: usize,
    },
    /// Send bulk data from this half's [`Source`] until its budget is used up.
    Pump,
    /// Receive bulk data into this half's [`Sink`].
    Drain,
    /// Wait: there is nothing to send before this time, or before a message arrives (`None`).
    Wait(Option<Nanos>),
    /// Close the connection and open the next, if the work asks for several; for the end that dials.
    Open,
    /// This half is done.
    Done,
    /// This half cannot go on; [`Endpoint::failure`](crate::workload::Endpoint::failure) returns the error.
    Fail,
}

/// A position in an open file, for the next read or write.
#[derive(Debug, Clone, Copy)]
pub struct FileAt<'a> {
    /// File, or another object that can be read or written at an offset.
    pub file: BorrowedFd<'a>,
    /// Bytes from its start.
    pub offset: u64,
}

/// A file that one flow reads or writes, for workloads, which open no files. Offsets count from the start of the file,
/// also if the flow has only a part of it.
pub trait Store: Send {
    /// Returns a position in it, for transports that move bytes between file and socket inside the kernel.
    fn at(&self, offset: u64) -> FileAt<'_>;
    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Data`] with the file and the offset, also if the file ends too early.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()>;
    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Data`] with the file and the offset, for example if the disk is full.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;
}

/// Exchange among the endpoints of one node, each of which sends on what the others receive. Each endpoint has a bounded
/// queue of each class.
pub trait Exchange: Send {
    /// Copies a message into the queue of this class of every other endpoint, and wakes it. A queue without room loses
    /// its oldest messages. Returns the number of messages that were lost.
    fn hand_on(&mut self, class: usize, message: &[u8]) -> u64;
    /// Moves the oldest message of a class for this endpoint into `out`, and returns its length; `None` if there is
    /// none, or if it is longer than `out`.
    fn take(&mut self, class: usize, out: &mut [u8]) -> Option<usize>;
    /// Notes that this endpoint hands nothing on any more, and wakes the others.
    fn leave(&mut self);
    /// Returns true if no other endpoint hands anything on any more.
    fn is_last(&self) -> bool;
}

/// Source of bulk data. Byte streams ask for the budget and the file; message transports ask for a stamp on each
/// message.
pub trait Source {
    /// Returns the number of bytes that may still be handed over in this call; zero ends it.
    fn budget(&self) -> u64;
    /// Returns the application message size in bytes, for transports that keep boundaries.
    fn message_size(&self) -> usize;
    /// Returns the number of bytes that the application hands over per call.
    fn call_size(&self) -> usize;
    /// Writes the workload's header, and its content if it has any, into the next message. Called
    /// once per message, in order.
    fn stamp(&mut self, message: &mut [u8]);
    /// Notes that the transport accepted `bytes`.
    fn accepted(&mut self, bytes: u64);
    /// Returns the position of the next byte of a byte stream from a file; `None` for generated content, which repeats
    /// [`crate::buffer::pattern`] from its start.
    fn file(&self) -> Option<FileAt<'_>> {
        None
    }
}

/// Destination of bulk data.
pub trait Sink {
    /// Receives one message, or one chunk of a byte stream, as it arrived.
    fn take(&mut self, bytes: &[u8]);
    /// Notes `bytes` of a byte stream that arrived elsewhere: in [`Sink::room`], in [`Sink::file`] inside the kernel,
    /// or discarded by the kernel.
    fn pass(&mut self, bytes: u64);
    /// Notes the amount that has arrived so far in any order, with copies and data behind a gap, in a unit of the
    /// transport: bytes with headers, or packets; `None` if nothing has overtaken anything, or if it is unknown.
    fn arrived(&mut self, _amount: Option<u64>) {}
    /// Returns true if the next call of [`Sink::arrived`] is worth a system call. A drain asks as it begins, and after
    /// each read.
    fn wants_arrived(&self) -> bool {
        false
    }
    /// Notes that the flow is stopped amid its data; a last drain follows, and data behind a gap is never handed on.
    fn stopped(&mut self) {}
    /// Returns memory for the next bytes of a byte stream, if the workload has its own; the transport then reports
    /// arrivals with [`Sink::pass`].
    fn room(&mut self) -> Option<&mut [u8]> {
        None
    }
    /// Returns the position in a file for the next byte of a byte stream; `None` without a file. A transport that moves
    /// bytes there inside the kernel reports them with [`Sink::pass`], any other passes them to [`Sink::take`].
    fn file(&self) -> Option<FileAt<'_>> {
        None
    }
}

impl Guarantees {
    /// Guarantees of TCP and of similar protocols.
    pub const BYTE_STREAM: Guarantees = Guarantees {
        service: Service::ORDERED,
        others: Offers::NONE,
        lanes: 1,
        framing: Framing::ByteStream,
        ending: Ending::Told,
        congestion: Congestion::Controlled,
        encrypted: false,
        largest_message: None,
    };

    /// Guarantees of UDP over IPv4 (RFC 768) and of similar protocols.
    pub const DATAGRAMS: Guarantees = Guarantees {
        service: Service::BEST_EFFORT,
        others: Offers::NONE,
        lanes: 1,
        framing: Framing::Messages,
        ending: Ending::Silent,
        congestion: Congestion::Uncontrolled,
        encrypted: false,
        largest_message: Some(65_507),
    };

    /// Returns the default lanes of a connection: one, with the default service.
    pub fn one_lane(&self) -> &[Service] {
        std::slice::from_ref(&self.service)
    }

    /// Returns all services that a workload can ask for, the default first.
    pub fn offers(&self) -> impl Iterator<Item = Offer> + '_ {
        let usual = Offer { service: self.service, largest_message: self.largest_message };
        std::iter::once(usual).chain(self.others.iter().copied())
    }

    /// Returns the same guarantees with the first of `wanted` as the default service and the rest of `wanted` before
    /// the other services.
    ///
    /// # Errors
    /// The first service that is not offered.
    pub fn preferring(self, wanted: &[Service]) -> std::result::Result<Guarantees, Service> {
        let offers: Vec<Offer> = self.offers().collect();
        let mut ordered: Vec<Offer> = Vec::with_capacity(offers.len());
        for service in wanted {
            let is_it = |offer: &&Offer| offer.service.is_like(*service);
            let offer = offers.iter().find(is_it).ok_or(*service)?;
            ordered.push(Offer { service: *service, ..*offer });
        }
        let is_new = |offer: &&Offer| !wanted.iter().any(|one| one.is_like(offer.service));
        ordered.extend(offers.iter().filter(is_new));
        let Some((usual, others)) = ordered.split_first() else { return Ok(self) };
        let Offer { service, largest_message } = *usual;
        // A byte stream cannot lose or reorder bytes.
        let framing =
            if service.is_like(Service::ORDERED) { self.framing } else { Framing::Messages };
        Ok(Guarantees { service, largest_message, others: Offers::of(others), framing, ..self })
    }

    /// Returns the first service, in order of preference, that delivers every message; the default if there is none.
    pub fn arriving(&self) -> Service {
        let mut all = self.offers().map(|offer| offer.service);
        all.find(|service| service.delivery == Delivery::Reliable).unwrap_or(self.service)
    }

    /// Returns the reason why connections cannot have `lanes` with messages of `bytes`; `None` if
    /// they can.
    pub fn misfit(&self, lanes: &[Service], bytes: u64) -> Option<String> {
        if lanes.len() > usize::from(self.lanes) {
            let has = match self.lanes {
                1 => "has no lanes within a connection".to_owned(),
                most => format!("has {most} lanes at most"),
            };
            return Some(format!("{} lanes are asked for, and it {has}", lanes.len()));
        }
        lanes.iter().find_map(|asked| {
            let Some(offer) = self.offers().find(|offer| offer.service.is_like(*asked)) else {
                let offered: Vec<_> = self.offers().map(|o| o.service.to_string()).collect();
                return Some(format!(
                    "it has no lane that is {asked}; it has: {}",
                    offered.join("; ")
                ));
            };
            let largest = offer.largest_message.filter(|largest| bytes > *largest)?;
            Some(format!(
                "its largest message has {largest} bytes, and messages of {bytes} are asked for"
            ))
        })
    }
}

/// Destination of received messages.
pub trait Inbox {
    /// Receives one whole message.
    fn message(&mut self, lane: Lane, bytes: &[u8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_transport_lacks_is_said_with_what_it_has() {
        let others =
            Offers::of(&[Offer { service: Service::BEST_EFFORT, largest_message: Some(1_400) }]);
        let promised = Guarantees { lanes: 4, others, ..Guarantees::BYTE_STREAM };
        let misfit = |lanes: &[Service], bytes| promised.misfit(lanes, bytes).unwrap_or_default();
        assert_eq!(misfit(&[Service::ORDERED; 4], 1 << 30), "");
        assert_eq!(misfit(&[Service::ORDERED, Service::BEST_EFFORT], 1_400), "");
        assert!(misfit(&[Service::ORDERED; 5], 1).contains("4 lanes at most"));
        let why = misfit(&[Service::UNORDERED], 1);
        assert!(why.contains("no lane that is reliable, unordered"), "{why}");
        assert!(why.contains("reliable, ordered; best effort, unordered"), "{why}");
        assert!(
            misfit(&[Service::BEST_EFFORT], 1_401).contains("1400 bytes, and messages of 1401")
        );
        let one = Guarantees::BYTE_STREAM.misfit(&[Service::ORDERED; 2], 1).unwrap();
        assert!(one.contains("has no lanes"), "{one}");
    }

    #[test]
    fn a_preference_moves_services_and_loses_none() {
        let lossy = Offer { service: Service::BEST_EFFORT, largest_message: Some(1_400) };
        let loose = Offer { service: Service::UNORDERED, largest_message: None };
        let own = Guarantees { others: Offers::of(&[loose, lossy]), ..Guarantees::BYTE_STREAM };
        let services = |promised: &Guarantees| -> Vec<Service> {
            promised.offers().map(|offer| offer.service).collect()
        };
        let lossy = own.preferring(&[Service::BEST_EFFORT]).unwrap();
        assert_eq!((lossy.service, lossy.largest_message), (Service::BEST_EFFORT, Some(1_400)));
        assert_eq!(services(&lossy)[1..], [Service::ORDERED, Service::UNORDERED]);
        assert_eq!(lossy.arriving(), Service::ORDERED);
        let both = own.preferring(&[Service::BEST_EFFORT, Service::UNORDERED]).unwrap();
        assert_eq!(both.arriving(), Service::UNORDERED);
        assert_eq!(services(&both).len(), 3);
        assert_eq!(own.preferring(&[]), Ok(own));
        assert_eq!(own.preferring(&[Service::EXPIRING]), Err(Service::EXPIRING));
        assert_eq!(Guarantees::DATAGRAMS.arriving(), Service::BEST_EFFORT);
    }
}
