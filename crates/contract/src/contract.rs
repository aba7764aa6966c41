//! The few words that transports and workloads share, so that neither imports the other.
//!
//! A workload asks for a guarantee and never for a transport by name; a transport carries
//! messages or bulk bytes and never knows what they are for.

use std::fmt;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::time::Nanos;

pub use deadheat_base::ends::{Direction, Side};
pub use deadheat_base::waiting::{GUARD, WaitMode};

/// An independent sequence of messages inside one connection. Transports without streams have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lane(pub u16);

/// Fate of a message that the network loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Sent again until it arrives or the connection fails.
    Reliable,
    /// Sent again until this long after it was handed over, then given up (RFC 3758, 4.1).
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

/// Service of one lane: whether its messages arrive, and in which order.
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
    /// Messages that are given up some time after they were sent, in any order.
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

/// End of a direction, as the peer learns of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Signalled, behind the last message.
    Told,
    /// Not signalled: the transport has no end of its own.
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

/// Kind of peer that answers at the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerKind {
    /// Our far process.
    Process,
    /// The far host's kernel, as for ICMP echo.
    Kernel,
    /// Our far processes, all of which get what one connection of the near end sends.
    Group,
}

/// Distance that a transport covers: a network, one machine or one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Any IP path.
    Network,
    /// Any IP path to a far end that listens itself: a server hands over TCP and UDP only.
    Path,
    /// Within one machine.
    Machine,
    /// Within one process: tests, and models in virtual time.
    Process,
}

/// A service that a lane may have instead of the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The service.
    pub service: Service,
    /// The largest message in bytes; `None` if any length will do.
    pub largest_message: Option<u64>,
}

/// Services that a lane may have instead of the usual one, the most wanted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers([Option<Offer>; Offers::MOST]);

impl Offers {
    /// No other service.
    pub const NONE: Offers = Offers([None; Offers::MOST]);

    /// Most of them: three deliveries in two orders, less the usual one.
    const MOST: usize = 5;

    /// Creates the offers of a list, of which the first five count.
    pub const fn of(list: &[Offer]) -> Offers {
        let mut all = Offers::NONE;
        let mut at = 0;
        while at < list.len() && at < Offers::MOST {
            all.0[at] = Some(list[at]);
            at += 1;
        }
        all
    }

    /// Returns each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Offer> {
        self.0.iter().flatten()
    }
}

/// Properties that a transport promises. Workloads ask for these and never for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarantees {
    /// The service of a lane for which nothing else was asked.
    pub service: Service,
    /// Services that can be asked for instead.
    pub others: Offers,
    /// The most lanes of one connection. Where there are several, none waits for another's losses.
    pub lanes: u16,
    /// Unit that it carries: bytes, or messages whose boundaries are kept.
    pub framing: Framing,
    /// End of a direction, as the peer learns of it.
    pub ending: Ending,
    /// Mechanism that slows the sender down.
    pub congestion: Congestion,
    /// True if bytes are encrypted on the path.
    pub encrypted: bool,
    /// The largest message in bytes; `None` for a byte stream.
    pub largest_message: Option<u64>,
}

/// Lanes that work asks for, as transports see them that share lanes out among several connections.
pub trait AsksLanes {
    /// Returns the names of its lanes, first to last, where a connection has as many as it would use;
    /// none if one is all that it ever uses.
    fn lane_names(&self) -> Vec<String>;

    /// Returns the services that it asks for of a connection with these guarantees, first to last.
    fn lanes(&self, promised: &Guarantees) -> Vec<Service>;
}

/// Longest time that one receive call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Return at once if nothing is there.
    None,
    /// Sleep in the kernel until something arrives, at most [`GUARD`].
    Block,
    /// Sleep in the kernel until something arrives or a signal comes. Whoever asks for this sees to
    /// it that one comes every [`GUARD`]; it spares the kernel a timer per call.
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
    /// Send bulk data from this half's [`Source`] until it says stop.
    Pump,
    /// Receive bulk data into this half's [`Sink`].
    Drain,
    /// Wait: there is nothing to send before this time, or before a message arrives (`None`).
    Wait(Option<Nanos>),
    /// Close the connection and open the next, where the work asks for several; for the end that dials.
    Open,
    /// This half has done its part.
    Done,
    /// This half cannot go on, and has the error.
    Fail,
}

/// A place in an open file: the next bytes are read from there, or written there.
#[derive(Debug, Clone, Copy)]
pub struct FileAt<'a> {
    /// The file, or what else can be read or written at an offset.
    pub file: BorrowedFd<'a>,
    /// Bytes from its start.
    pub offset: u64,
}

/// A file that one flow reads or writes, for workloads, which open none. Places in it are counted
/// from its start, whichever part the flow has of it.
pub trait Store: Send {
    /// Returns a place in it, for transports that move bytes between file and socket inside the
    /// kernel.
    fn at(&self, offset: u64) -> FileAt<'_>;
    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// [`crate::error::Error::Data`] naming the file and the place, also where it ends too early.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()>;
    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// [`crate::error::Error::Data`] naming the file and the place, as where the disk is full.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;
}

/// Source of bulk data. Byte streams ask for the budget and the file; message transports have each
/// message stamped.
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
    /// Returns the place of the next byte of a byte stream that is read from a file; `None` for
    /// generated content, which is [`crate::buffer::pattern`] from its start, again and
    /// again.
    fn file(&self) -> Option<FileAt<'_>> {
        None
    }
}

/// Destination of bulk data.
pub trait Sink {
    /// Takes one message, or one chunk of a byte stream, as it arrived.
    fn take(&mut self, bytes: &[u8]);
    /// Notes `bytes` of a byte stream that arrived and that this call does not show: they were put
    /// into [`Sink::room`], moved to [`Sink::file`] inside the kernel, or discarded there.
    fn pass(&mut self, bytes: u64);
    /// Notes the bytes that the path has brought so far, in whatever order: headers, copies and what waits behind a gap
    /// included. Only a protocol in user space knows them.
    fn arrived(&mut self, _bytes: u64) {}
    /// Returns memory that the next bytes of a byte stream are to be received into, where the
    /// workload has its own; what came is then told with [`Sink::pass`].
    fn room(&mut self) -> Option<&mut [u8]> {
        None
    }
    /// Returns the place in a file to which the next byte of a byte stream goes, `None` if it goes
    /// to no file. A transport that moves it there inside the kernel reports it with
    /// [`Sink::pass`], any other hands it to [`Sink::take`].
    fn file(&self) -> Option<FileAt<'_>> {
        None
    }
}

impl Guarantees {
    /// Guarantees of TCP and of other protocols with the same ones.
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

    /// Guarantees of UDP over IPv4 (RFC 768) and of other protocols with the same ones.
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

    /// Returns the lanes of a connection of which nothing was asked: one, of the usual service.
    pub fn one_lane(&self) -> &[Service] {
        std::slice::from_ref(&self.service)
    }

    /// Returns all services that can be asked for, the usual one first.
    pub fn offers(&self) -> impl Iterator<Item = Offer> + '_ {
        let usual = Offer { service: self.service, largest_message: self.largest_message };
        std::iter::once(usual).chain(self.others.iter().copied())
    }

    /// Returns the same with these services as the usual one and the first of the others; the rest follow as they were.
    ///
    /// # Errors
    /// The first of them that is not offered.
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
        // Bytes that may be lost or overtaken are no stream.
        let framing =
            if service.is_like(Service::ORDERED) { self.framing } else { Framing::Messages };
        Ok(Guarantees { service, largest_message, others: Offers::of(others), framing, ..self })
    }

    /// Returns the first service, in the order of preference, on which every message arrives; the usual one if there is none.
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
    /// Takes one whole message.
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
