//! Segmentation and its opposite, which devices do for the stack: switched off, every packet is one
//! that a link would carry (ethtool(8), linux/ethtool.h).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Whether a device joins and cuts packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// As far as it can.
    On,
    /// Not at all.
    Off,
}

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// The names of features among the sets of strings.
const ETH_SS_FEATURES: u32 = 4;
/// The room for each name.
const NAME: usize = 32;
/// No kernel has as many.
const MOST: usize = 256;

/// Switches every offload that makes or takes packets larger than the MTU, of a device in the
/// calling thread's network namespace.
///
/// # Errors
/// `ENODEV` where there is no such device, `EPERM` without `CAP_NET_ADMIN`.
pub fn switch(device: &str, state: State) -> io::Result<()> {
    // SAFETY: the call takes integers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is fresh and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let names = names(&socket, device)?;
    // struct ethtool_sfeatures: command, number of blocks, then valid and requested bits of each.
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0_u32; 2 + 2 * blocks];
    words[0] = ETHTOOL_SFEATURES;
    words[1] = blocks as u32;
    for (bit, _) in names.iter().enumerate().filter(|(_, name)| joins(name)) {
        words[2 + 2 * (bit / 32)] |= 1 << (bit % 32);
        if state == State::On {
            words[3 + 2 * (bit / 32)] |= 1 << (bit % 32);
        }
    }
    ask(&socket, device, &mut words)
}

/// Whether a feature is one that makes packets larger than the MTU or takes them.
fn joins(name: &str) -> bool {
    name.contains("segmentation")
        || name.starts_with("tx-gso")
        || name.starts_with("rx-gro")
        || name == "rx-lro"
        || name.starts_with("rx-udp-gro")
}

/// The names of all features, by their bits.
fn names(socket: &OwnedFd, device: &str) -> io::Result<Vec<String>> {
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

/// ioctl(SIOCETHTOOL) with a structure of 32-bit words, which the kernel reads and may write.
fn ask(socket: &OwnedFd, device: &str, words: &mut [u32]) -> io::Result<()> {
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (slot, byte) in request.ifr_name[..room].iter_mut().zip(device.bytes()) {
        *slot = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request names a live structure whose own counts say how long it is.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
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
        // SAFETY: the call takes integers.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        // SAFETY: the descriptor is fresh and owned by nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let names = names(&socket, "lo").unwrap();
        for name in ["tx-tcp-segmentation", "rx-gro"] {
            assert!(names.iter().any(|known| known == name), "{names:?}");
        }
        let error = switch("dh-no-such-one", State::Off).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
