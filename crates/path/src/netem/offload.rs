//! Segmentation and its opposite, which devices do for the stack: with both switched off, every packet is a packet
//! on the link (ethtool(8), linux/ethtool.h).

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use socket2::{Domain, Socket, Type};

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// Set of strings that holds the names of features.
const ETH_SS_FEATURES: u32 = 4;
/// Bytes for each name.
const NAME: usize = 32;
/// Largest number of features; no kernel has as many.
const MOST: usize = 256;

/// Opens a socket for requests about devices, of the calling thread's network namespace.
///
/// # Errors
/// The error of socket(2).
pub fn control() -> io::Result<OwnedFd> {
    Ok(Socket::new(Domain::IPV4, Type::DGRAM, None)?.into())
}

/// Switches off every offload that makes or takes packets larger than the MTU, of a device in the socket's network
/// namespace.
///
/// # Errors
/// `ENODEV` where there is no such device, `EPERM` without `CAP_NET_ADMIN`.
pub fn switch_off(socket: BorrowedFd<'_>, device: &str) -> io::Result<()> {
    let names = names(socket, device)?;
    // struct ethtool_sfeatures: command, number of blocks, then valid and requested bits of each.
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0_u32; 2 + 2 * blocks];
    words[0] = ETHTOOL_SFEATURES;
    words[1] = blocks as u32;
    for (bit, _) in names.iter().enumerate().filter(|(_, name)| joins(name)) {
        words[2 + 2 * (bit / 32)] |= 1 << (bit % 32);
    }
    ask(socket, device, &mut words)
}

/// Returns the device that has this address, in the socket's network namespace (`SIOCGIFCONF`, netdevice(7)).
///
/// # Errors
/// `NotFound` if none has it.
pub fn device_of(socket: BorrowedFd<'_>, address: Ipv4Addr) -> io::Result<String> {
    // SAFETY: an all-zero ifreq is valid.
    let mut all: [libc::ifreq; MOST] = unsafe { std::mem::zeroed() };
    let mut room = libc::ifconf {
        ifc_len: size_of_val(&all) as libc::c_int,
        ifc_ifcu: libc::__c_anonymous_ifc_ifcu { ifcu_req: all.as_mut_ptr() },
    };
    // SAFETY: the request names live memory and its length.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFCONF as _, &mut room) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let came = usize::try_from(room.ifc_len).unwrap_or(0) / size_of::<libc::ifreq>();
    for request in all.iter().take(came) {
        // SAFETY: the kernel wrote an address of the IPv4 family into each.
        let bytes = unsafe { request.ifr_ifru.ifru_addr.sa_data };
        // A sockaddr_in has the port first.
        let octets = [bytes[2], bytes[3], bytes[4], bytes[5]].map(|byte| byte as u8);
        if Ipv4Addr::from(octets) == address {
            let name: Vec<u8> =
                request.ifr_name.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
            return Ok(String::from_utf8_lossy(&name).into_owned());
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no device has {}", IpAddr::V4(address))))
}

/// Returns true if a feature makes packets larger than the MTU or takes them.
fn joins(name: &str) -> bool {
    name.contains("segmentation")
        || name.starts_with("tx-gso")
        || name.starts_with("rx-gro")
        || name == "rx-lro"
        || name.starts_with("rx-udp-gro")
}

/// Returns the names of all features, by their bits.
fn names(socket: BorrowedFd<'_>, device: &str) -> io::Result<Vec<String>> {
    // struct ethtool_sset_info: command, reserved, the mask in two words, then the count.
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ask(socket, device, &mut info)?;
    let count = (info[4] as usize).min(MOST);
    // struct ethtool_gstrings: command, set, count, then the names.
    let mut words = vec![0_u32; 3 + count * NAME / 4];
    words[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    ask(socket, device, &mut words)?;
    let bytes: Vec<u8> = words[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = |name: &[u8]| {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).into_owned()
    };
    Ok(bytes.chunks_exact(NAME).map(name).collect())
}

/// Calls ioctl(SIOCETHTOOL) with a structure of 32-bit words, which the kernel reads and may write.
fn ask(socket: BorrowedFd<'_>, device: &str, words: &mut [u32]) -> io::Result<()> {
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (slot, byte) in request.ifr_name[..room].iter_mut().zip(device.bytes()) {
        *slot = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request names a live structure, with its length in its own counts.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_joins_packets_is_known_by_name() {
        for name in [
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-tcp-mangleid-segmentation",
            "tx-udp-segmentation",
            "tx-generic-segmentation",
            "tx-sctp-segmentation",
            "tx-gso-list",
            "rx-gro",
            "rx-gro-list",
            "rx-udp-gro-forwarding",
            "rx-lro",
        ] {
            assert!(joins(name), "{name}");
        }
        for name in ["tx-checksum-ip-generic", "tx-scatter-gather", "highdma", "rx-vlan-filter"] {
            assert!(!joins(name), "{name}");
        }
    }

    #[test]
    fn the_kernel_names_its_features_and_a_missing_device() {
        let socket = control().unwrap();
        let names = names(socket.as_fd(), "lo").unwrap();
        for name in ["tx-tcp-segmentation", "rx-gro"] {
            assert!(names.iter().any(|known| known == name), "{names:?}");
        }
        let error = switch_off(socket.as_fd(), "dh-no-such-one").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert_eq!(device_of(socket.as_fd(), Ipv4Addr::LOCALHOST).unwrap(), "lo");
        let error = device_of(socket.as_fd(), Ipv4Addr::new(192, 0, 2, 77)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
