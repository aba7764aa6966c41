//! Network of hosts that are namespaces of this machine, emulated packet by packet.
//!
//! Each link has a device at each host, which is a [`port::Port`] for this process. The packets that a host sends
//! leave its port as frames; [`forward::Forwarder`] reads them, a [`super::impair::Channel`] decides the fate of
//! each packet in them, and the forwarder writes the surviving packets to the other port at their departure times.

pub mod card;
pub mod entry;
pub mod forward;
pub mod hosts;
pub(crate) mod lag;
pub(crate) mod namespace;
mod netlink;
mod packet;
mod pipeline;
pub mod port;
pub mod routing;
mod slab;
pub mod socket;
mod sysctl;
#[cfg(test)]
mod testing;
mod tun;
mod wait;
