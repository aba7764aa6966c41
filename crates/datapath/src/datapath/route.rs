//! Path MTU towards an address that the kernel learned some time ago, and the MTU of the first link (rtnetlink(7), netdevice(7)).

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, Socket, Type};

use super::option;

/// Path MTU that a message of the network taught the kernel before, for minutes (`net.ipv4.route.mtu_expires`): the path
/// may be wider by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnedMtu {
    /// The path MTU, in bytes.
    pub bytes: u32,
    /// MTU of the first link, in bytes.
    pub link_bytes: u32,
}

/// Length of the heads `nlmsghdr` and `rtmsg`, and the place of the first attribute.
const HEADS: usize = 16 + 12;

/// Returns the path MTU that the kernel has learned towards the peer of a connected socket; `None` if it has learned none,
/// so that what it knows is the route's, or the link's.
pub fn learned_mtu(socket: &Socket) -> Option<LearnedMtu> {
    let bytes = u32::try_from(option::kernel_path_mtu(socket)?).ok()?;
    let peer = socket.peer_addr().ok()?.as_socket()?;
    let device = learned_by(peer.ip()).ok()??;
    let link_bytes = link_mtu(socket, device)?;
    (link_bytes > bytes).then_some(LearnedMtu { bytes, link_bytes })
}

/// Returns the number of the device of the route to an address, if the route has an MTU that expires.
fn learned_by(to: IpAddr) -> io::Result<Option<u32>> {
    let family = Domain::from(libc::AF_NETLINK);
    let socket = Socket::new(family, Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
    (&socket).write_all(&question(to))?;
    let mut answer = [0; 1_024];
    let len = (&socket).read(&mut answer)?;
    Ok(read(answer.get(..len).unwrap_or_default(), to.is_ipv6()))
}

/// Returns the request `RTM_GETROUTE` for an address.
fn question(to: IpAddr) -> Vec<u8> {
    let (family, address) = match to.to_canonical() {
        IpAddr::V4(ip) => (libc::AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6, ip.octets().to_vec()),
    };
    let attribute = 4 + address.len();
    let mut bytes = Vec::with_capacity(HEADS + attribute);
    bytes.extend(((HEADS + attribute) as u32).to_ne_bytes());
    bytes.extend(libc::RTM_GETROUTE.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family as u8, 8 * address.len() as u8]);
    bytes.extend([0; 10]);
    bytes.extend((attribute as u16).to_ne_bytes());
    bytes.extend(libc::RTA_DST.to_ne_bytes());
    bytes.extend(address);
    bytes
}

/// Returns the number of the device in an answer whose route has an MTU that expires. Of IPv6, routes that a router
/// announces expire, too; routes of a single address are clones.
fn read(answer: &[u8], is_ipv6: bool) -> Option<u32> {
    let word =
        |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let half =
        |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    if half(answer, 4)? != libc::RTM_NEWROUTE {
        return None;
    }
    let is_clone = word(answer, 24)? & libc::RTM_F_CLONED != 0;
    let mut rest = answer.get(HEADS..word(answer, 0)? as usize)?;
    let (mut device, mut expires) = (None, 0);
    while let (Some(len), Some(kind)) = (half(rest, 0), half(rest, 2)) {
        let len = usize::from(len);
        let value = rest.get(4..len)?;
        match kind {
            libc::RTA_OIF => device = word(value, 0),
            // `rta_expires` of `rta_cacheinfo`.
            libc::RTA_CACHEINFO => expires = word(value, 8)?,
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    device.filter(|_| expires != 0 && (is_clone || !is_ipv6))
}

/// Returns the MTU of a device, by its number.
fn link_mtu(socket: &Socket, device: u32) -> Option<u32> {
    // SAFETY: all bytes zero are a value of this type.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: the name has room for IF_NAMESIZE bytes, as the call asks for.
    let name = unsafe { libc::if_indextoname(device, request.ifr_name.as_mut_ptr()) };
    if name.is_null() {
        return None;
    }
    // SAFETY: the request is valid, and the call writes its MTU.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) };
    // SAFETY: the call has set this member.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    (done == 0).then(|| u32::try_from(mtu).ok())?
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_route_without_a_message_of_the_network_has_learned_nothing() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect("127.0.0.1:9").unwrap();
        let socket = Socket::from(socket);
        assert_eq!(learned_by("127.0.0.1".parse().unwrap()).unwrap(), None);
        assert_eq!(learned_mtu(&socket), None);
        assert_eq!(link_mtu(&socket, 1), Some(65_536), "the loopback device");
        assert_eq!(link_mtu(&socket, 4_000_000), None);
    }

    #[test]
    fn an_answer_of_the_kernel_is_read() {
        let attribute = |kind: u16, value: &[u8]| {
            let len = 4 + value.len() as u16;
            [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
        };
        let answer = |kind: u16, flags: u32, expires: u32| {
            let cache: Vec<u8> =
                [0, 0, expires, 0].iter().flat_map(|n: &u32| n.to_ne_bytes()).collect();
            let attributes = [
                attribute(libc::RTA_DST, &[198, 18, 2, 2]),
                attribute(libc::RTA_OIF, &7u32.to_ne_bytes()),
                attribute(libc::RTA_CACHEINFO, &cache),
            ]
            .concat();
            let len = (HEADS + attributes.len()) as u32;
            let head =
                [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 18], &flags.to_ne_bytes()]
                    .concat();
            [head, attributes].concat()
        };
        let new = libc::RTM_NEWROUTE;
        assert_eq!(read(&answer(new, 0, 58_900), false), Some(7));
        assert_eq!(read(&answer(new, 0, 0), false), None);
        assert_eq!(read(&answer(new, 0, 58_900), true), None, "announced by a router");
        assert_eq!(read(&answer(new, libc::RTM_F_CLONED, 58_900), true), Some(7));
        assert_eq!(read(&answer(2, 0, 58_900), false), None, "an error");
        for len in 0..60 {
            let _ = read(&answer(new, 0, 58_900)[..len], false);
        }
    }
}
