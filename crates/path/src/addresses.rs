//! Addresses of the hosts of a network: a subnet for each link. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::nat::nat64;

/// Number of the end of a link that stands for the public address of a NAT at the first host.
pub const PUBLIC: usize = 2;

/// Subnets of the addresses of all links, of IPv4, of IPv6 and of IPv6 that a NAT64 makes IPv4.
pub(crate) const ALL_ADDRESSES: [(IpAddr, u8); 3] = [
    (IpAddr::V4(Ipv4Addr::new(198, 18, 0, 0)), 16),
    (IpAddr::V6(Ipv6Addr::new(0xfd64, 0x6864, 0x6868, 0, 0, 0, 0, 0)), 48),
    (IpAddr::V6(nat64::mapped(Ipv4Addr::UNSPECIFIED)), 96),
];

/// Returns a link's addresses of IPv4 and IPv6 at its first (0) or second (1) host, and the bits of their subnets.
pub fn addresses(end: usize, link: usize) -> [(IpAddr, u8); 2] {
    let host = end as u8 + 1;
    let v4 = Ipv4Addr::new(198, 18, link as u8, host);
    let v6 = Ipv6Addr::new(0xfd64, 0x6864, 0x6868, link as u16, 0, 0, 0, u16::from(host));
    [(IpAddr::V4(v4), 24), (IpAddr::V6(v6), 64)]
}

/// Returns the address outside of a NAT at a link's first host, one of the link's subnet.
pub fn public_address(link: usize) -> IpAddr {
    addresses(PUBLIC, link)[0].0
}

/// Returns the link of an address of IPv4, and the number of its end there: 0, 1 or [`PUBLIC`].
pub fn place_of(address: Ipv4Addr) -> (usize, usize) {
    let [_, _, link, host] = address.octets();
    (link.into(), usize::from(host).saturating_sub(1))
}
