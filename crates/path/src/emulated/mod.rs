//! A network between two hosts that are namespaces of this machine, emulated packet by packet.
//!
//! Each link has a device at each host, a [`port::Port`] seen from here. What a host sends comes out of
//! its port as frames; [`forward::Forwarder`] reads them, has a [`super::impair::Channel`] decide what
//! becomes of each packet in them, and writes what survives to the other port at the time at which it
//! departs.

pub mod card;
pub mod forward;
pub mod hosts;
mod lag;
pub(crate) mod namespace;
mod netlink;
mod packet;
mod pipeline;
pub mod port;
mod slab;
pub mod socket;
mod sysctl;
#[cfg(test)]
mod testing;
mod tun;
mod wait;
