//! Netlink (netlink(7), rtnetlink(7)) as far as two hosts with a few links need it: devices, addresses, routes and
//! rules, and the endpoints of multipath TCP.
//!
//! A socket belongs to the network namespace in which it was made, even if its thread moves later.

use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::RawFd;

use socket2::{Domain, Protocol, Socket, Type};

/// Netlink socket of one network namespace.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// Properties of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Device {
    /// Interface index in its namespace.
    pub index: u32,
    /// Hardware address; zero where it has none.
    pub address: [u8; 6],
    /// Number of outgoing packets that were dropped at the device.
    pub tx_dropped: u64,
}

/// Settings of a device to change. `None` leaves a setting unchanged.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settings {
    /// Largest IP packet, in bytes.
    pub mtu: Option<u32>,
    /// Length of the transmit queue, in packets.
    pub queue: Option<u32>,
    /// Largest number of segments in a super-packet; 1 is no segmentation offload.
    pub gso_segments: Option<u32>,
}

const NLMSG_HEADER: usize = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_REPLACE: u16 = 0x100;
pub(super) const NLM_F_EXCL: u16 = 0x200;
pub(super) const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWRULE: u16 = 32;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_STATS64: u16 = 23;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
/// Offset of `tx_dropped` in `struct rtnl_link_stats64` (linux/if_link.h).
const STATS64_TX_DROPPED: usize = 7 * 8;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Address flag that skips duplicate address detection: the address can be used at once.
const IFA_F_NODAD: u8 = 2;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_TABLE: u16 = 15;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FR_ACT_TO_TBL: u8 = 1;

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

// linux/mptcp.h and linux/mptcp_pm.h.
const MPTCP_PM_VERSION: u8 = 1;
const MPTCP_PM_CMD_ADD_ADDR: u8 = 1;
const MPTCP_PM_CMD_SET_LIMITS: u8 = 5;
const MPTCP_PM_ATTR_ADDR: u16 = 1;
const MPTCP_PM_ATTR_RCV_ADD_ADDRS: u16 = 2;
const MPTCP_PM_ATTR_SUBFLOWS: u16 = 3;
const MPTCP_PM_ADDR_ATTR_FAMILY: u16 = 1;
const MPTCP_PM_ADDR_ATTR_ADDR4: u16 = 3;
const MPTCP_PM_ADDR_ATTR_ADDR6: u16 = 4;
const MPTCP_PM_ADDR_ATTR_FLAGS: u16 = 6;
const MPTCP_PM_ADDR_FLAG_SUBFLOW: u32 = 2;

/// Flag of an attribute that holds attributes.
const NESTED: u16 = 0x8000;

impl Netlink {
    /// Opens a socket for devices, addresses and routes, of the calling thread's namespace.
    ///
    /// # Errors
    /// The error of socket(2).
    pub(super) fn route() -> io::Result<Netlink> {
        Netlink::open(libc::NETLINK_ROUTE)
    }

    /// Opens a socket for the families of generic netlink, of the calling thread's namespace.
    ///
    /// # Errors
    /// The error of socket(2).
    pub(super) fn generic() -> io::Result<Netlink> {
        Netlink::open(libc::NETLINK_GENERIC)
    }

    fn open(protocol: libc::c_int) -> io::Result<Netlink> {
        let (domain, protocol) = (Domain::from(libc::AF_NETLINK), Protocol::from(protocol));
        Ok(Netlink { socket: Socket::new(domain, Type::RAW, Some(protocol))?, sequence: 0 })
    }

    /// Returns the properties of the device of this name.
    ///
    /// # Errors
    /// `ENODEV` where there is none.
    pub(super) fn device(&mut self, name: &str) -> io::Result<Device> {
        let mut message = Message::new(RTM_GETLINK, 0, &link_header(0, 0, 0));
        message.text(IFLA_IFNAME, name);
        let reply = self.ask(message)?.ok_or(io::ErrorKind::InvalidData)?;
        let mut device =
            Device { index: u32_at(&reply, 4).unwrap_or_default(), ..Device::default() };
        for (kind, value) in attributes(reply.get(16..).unwrap_or_default()) {
            match kind {
                IFLA_ADDRESS => device.address = value.try_into().unwrap_or_default(),
                IFLA_STATS64 => {
                    let field = value.get(STATS64_TX_DROPPED..STATS64_TX_DROPPED + 8);
                    let field = field.and_then(|bytes| bytes.try_into().ok());
                    device.tx_dropped = field.map(u64::from_ne_bytes).unwrap_or_default();
                }
                _ => {}
            }
        }
        Ok(device)
    }

    /// Makes a veth pair: `name` here, `peer` in the namespace `there`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the kernel has no veth.
    pub(super) fn add_veth(&mut self, name: &str, peer: &str, there: RawFd) -> io::Result<()> {
        let header = link_header(0, 0, 0);
        let mut message = Message::new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &header);
        message.text(IFLA_IFNAME, name);
        message.nest(IFLA_LINKINFO, |info| {
            info.text(IFLA_INFO_KIND, "veth");
            info.nest(IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |other| {
                    other.bytes.extend_from_slice(&header);
                    other.text(IFLA_IFNAME, peer);
                    other.word(IFLA_NET_NS_FD, there.cast_unsigned());
                });
            });
        });
        self.ask(message).map(drop)
    }

    /// Changes a device.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(super) fn set(&mut self, index: u32, settings: Settings) -> io::Result<()> {
        let mut message = Message::new(RTM_NEWLINK, 0, &link_header(index, 0, 0));
        let values = [
            (IFLA_MTU, settings.mtu),
            (IFLA_TXQLEN, settings.queue),
            (IFLA_GSO_MAX_SEGS, settings.gso_segments),
        ];
        for (kind, value) in values {
            if let Some(value) = value {
                message.word(kind, value);
            }
        }
        self.ask(message).map(drop)
    }

    /// Clears flags of a device, as of [`Netlink::set_flags`].
    ///
    /// # Errors
    /// The error of the kernel.
    pub(super) fn clear_flags(&mut self, index: u32, flags: libc::c_int) -> io::Result<()> {
        let message = Message::new(RTM_NEWLINK, 0, &link_header(index, 0, flags.cast_unsigned()));
        self.ask(message).map(drop)
    }

    /// Sets flags of a device: `IFF_UP` and the like (netdevice(7)).
    ///
    /// # Errors
    /// The error of the kernel.
    pub(super) fn set_flags(&mut self, index: u32, flags: libc::c_int) -> io::Result<()> {
        let flags = flags.cast_unsigned();
        let message = Message::new(RTM_NEWLINK, 0, &link_header(index, flags, flags));
        self.ask(message).map(drop)
    }

    /// Gives a device an address in a subnet of this many bits; the address can be used at once.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(super) fn add_address(&mut self, index: u32, address: IpAddr, bits: u8) -> io::Result<()> {
        let (family, bytes) = address_bytes(&address);
        let mut header = vec![family, bits, IFA_F_NODAD, 0];
        header.extend(index.to_ne_bytes());
        let mut message = Message::new(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &header);
        message.attribute(IFA_LOCAL, &bytes);
        message.attribute(IFA_ADDRESS, &bytes);
        self.ask(message).map(drop)
    }

    /// Routes packets from `source` by the device alone, whatever their destination: a table of its own with one
    /// route, and a rule that selects it.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(super) fn route_by_source(
        &mut self,
        source: IpAddr,
        index: u32,
        table: u32,
    ) -> io::Result<()> {
        let (family, bytes) = address_bytes(&source);
        // struct rtmsg: to any destination, in the table that RTA_TABLE names.
        let (protocol, scope, unicast) = (3, if family == 2 { 253 } else { 0 }, 1);
        let header = [family, 0, 0, 0, 0, protocol, scope, unicast, 0, 0, 0, 0];
        let mut route = Message::new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &header);
        route.word(RTA_TABLE, table);
        route.word(RTA_OIF, index);
        self.ask(route)?;
        // struct fib_rule_hdr.
        let bits = bytes.len() as u8 * 8;
        let header = [family, 0, bits, 0, 0, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
        let mut rule = Message::new(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &header);
        rule.attribute(FRA_SRC, &bytes);
        rule.word(FRA_TABLE, table);
        rule.word(FRA_PRIORITY, table);
        self.ask(rule).map(drop)
    }

    /// Adds a route to all addresses with the first `bits` of this one, or replaces it, by the device `index`, which has one
    /// host at its other end.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(super) fn route_to(&mut self, address: IpAddr, bits: u8, index: u32) -> io::Result<()> {
        let (family, bytes) = address_bytes(&address);
        // struct rtmsg: the main table, as an administrator's, on the link, unicast.
        let (table, protocol, scope, unicast) = (254, 4, if family == 2 { 253 } else { 0 }, 1);
        let header = [family, bits, 0, 0, table, protocol, scope, unicast, 0, 0, 0, 0];
        let mut route = Message::new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &header);
        route.attribute(RTA_DST, &bytes);
        route.word(RTA_OIF, index);
        self.ask(route).map(drop)
    }

    /// Returns the number of a generic family.
    ///
    /// # Errors
    /// `ENOENT` where the kernel does not have it.
    pub(super) fn family(&mut self, name: &str) -> io::Result<u16> {
        let mut message = Message::new(GENL_ID_CTRL, 0, &[CTRL_CMD_GETFAMILY, 1, 0, 0]);
        message.text(CTRL_ATTR_FAMILY_NAME, name);
        let reply = self.ask(message)?.ok_or(io::ErrorKind::InvalidData)?;
        nested(reply.get(4..).unwrap_or_default(), CTRL_ATTR_FAMILY_ID)
            .and_then(|value| Some(u16::from_ne_bytes(value.get(..2)?.try_into().ok()?)))
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Limits the number of further subflows of a multipath TCP connection of this host; it accepts none of the
    /// addresses that its peer announces.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(super) fn mptcp_limits(&mut self, family: u16, subflows: u32) -> io::Result<()> {
        let header = [MPTCP_PM_CMD_SET_LIMITS, MPTCP_PM_VERSION, 0, 0];
        let mut message = Message::new(family, 0, &header);
        message.word(MPTCP_PM_ATTR_RCV_ADD_ADDRS, 0);
        message.word(MPTCP_PM_ATTR_SUBFLOWS, subflows);
        self.ask(message).map(drop)
    }

    /// Makes every multipath TCP connection from this host open a subflow from this address.
    ///
    /// # Errors
    /// The error of the kernel: `EINVAL` after the eighth.
    pub(super) fn mptcp_subflow(&mut self, family: u16, address: IpAddr) -> io::Result<()> {
        let (version, bytes) = address_bytes(&address);
        let header = [MPTCP_PM_CMD_ADD_ADDR, MPTCP_PM_VERSION, 0, 0];
        let mut message = Message::new(family, 0, &header);
        message.nest(MPTCP_PM_ATTR_ADDR, |inner| {
            inner.attribute(MPTCP_PM_ADDR_ATTR_FAMILY, &u16::from(version).to_ne_bytes());
            let kind = match address {
                IpAddr::V4(_) => MPTCP_PM_ADDR_ATTR_ADDR4,
                IpAddr::V6(_) => MPTCP_PM_ADDR_ATTR_ADDR6,
            };
            inner.attribute(kind, &bytes);
            inner.word(MPTCP_PM_ADDR_ATTR_FLAGS, MPTCP_PM_ADDR_FLAG_SUBFLOW);
        });
        self.ask(message).map(drop)
    }

    /// Sends a request and reads until it is acknowledged; returns the message before the acknowledgement, without
    /// its header.
    pub(super) fn ask(&mut self, mut message: Message) -> io::Result<Option<Vec<u8>>> {
        self.sequence += 1;
        message.finish(self.sequence);
        self.socket.send(&message.bytes)?;
        let mut answer = None;
        let mut room = vec![0; 32_768];
        loop {
            let got = match self.socket.read(&mut room) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                got => got?,
            };
            for (kind, sequence, body) in messages(&room[..got]) {
                if sequence != self.sequence {
                    continue;
                }
                match kind {
                    NLMSG_ERROR => {
                        let code = u32_at(body, 0).unwrap_or_default().cast_signed();
                        return if code == 0 {
                            Ok(answer)
                        } else {
                            Err(io::Error::from_raw_os_error(code.wrapping_neg()))
                        };
                    }
                    NLMSG_DONE => return Ok(answer),
                    _ => answer = Some(body.to_vec()),
                }
            }
        }
    }
}

/// Request under construction.
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn new(kind: u16, flags: u16, header: &[u8]) -> Message {
        let mut bytes = vec![0; NLMSG_HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        bytes.extend_from_slice(header);
        Message { bytes }
    }

    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let len = 4 + value.len() as u16;
        self.bytes.extend(len.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.align();
    }

    fn word(&mut self, kind: u16, value: u32) {
        self.words(kind, &[value]);
    }

    pub(super) fn words(&mut self, kind: u16, values: &[u32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.attribute(kind, &bytes);
    }

    pub(super) fn text(&mut self, kind: u16, value: &str) {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat());
    }

    pub(super) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend((kind | NESTED).to_ne_bytes());
        fill(self);
        let len = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(&mut self, sequence: u32) {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    }
}

/// Encodes a `struct ifinfomsg`.
fn link_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

/// Returns the address family and the bytes of an address.
fn address_bytes(address: &IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

/// Iterates over the messages of one read: kind, sequence number, body.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let len = u32_at(bytes, 0)? as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let sequence = u32_at(bytes, 8)?;
        let body = bytes.get(NLMSG_HEADER..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, sequence, body))
    })
}

/// Returns the attribute of this kind in these bytes.
pub(super) fn nested(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// Iterates over the attributes in these bytes: kind and value.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & !NESTED;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_laid_out_as_the_kernel_reads_it() {
        let mut message = Message::new(RTM_NEWLINK, NLM_F_CREATE, &link_header(7, 1, 1));
        message.text(IFLA_IFNAME, "dh0");
        message.nest(IFLA_LINKINFO, |info| info.text(IFLA_INFO_KIND, "veth"));
        message.finish(3);
        let (kind, sequence, body) = messages(&message.bytes).next().unwrap();
        assert_eq!((kind, sequence, u32_at(body, 4)), (RTM_NEWLINK, 3, Some(7)));
        let found: Vec<(u16, &[u8])> = attributes(&body[16..]).collect();
        assert_eq!(found[0], (IFLA_IFNAME, &b"dh0\0"[..]));
        assert_eq!(found[1].0, IFLA_LINKINFO);
        // Nine bytes of an inner attribute, rounded up to twelve.
        assert_eq!(found[1].1.len(), 12);
        assert_eq!(message.bytes.len() % 4, 0);
    }

    #[test]
    fn answers_that_stop_in_the_middle_end_the_reading() {
        let mut message = Message::new(RTM_GETLINK, 0, &link_header(1, 0, 0));
        message.word(IFLA_MTU, 1_500);
        message.finish(1);
        for len in 0..message.bytes.len() {
            assert_eq!(messages(&message.bytes[..len]).count(), 0);
        }
        let body = &message.bytes[NLMSG_HEADER..];
        for len in 0..body.len() - 16 {
            assert_eq!(attributes(&body[16..16 + len]).count(), 0);
        }
        // A length of zero must not loop for ever.
        assert_eq!(attributes(&[0; 64]).count(), 0);
    }

    /// Any user may read devices, and every namespace has this one.
    #[test]
    fn the_loopback_device_is_number_one_and_an_unknown_one_is_named() {
        let mut netlink = Netlink::route().unwrap();
        assert_eq!(netlink.device("lo").unwrap().index, 1);
        let error = netlink.device("no-such-device").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert!(Netlink::generic().unwrap().family("no-such-family").is_err());
    }
}
