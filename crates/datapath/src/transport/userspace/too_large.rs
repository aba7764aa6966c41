//! Datagrams that exceed the path MTU.

use std::io;

use crate::datapath::option;
use crate::transport::udp_handshake;

/// Returns the error of a call on a socket that sent datagrams of `len` bytes, with the sizes where they were too
/// large: a hop with a smaller MTU than the first link shows only once packets have been lost there, and any later
/// call then fails (icmp(7), `EMSGSIZE`).
pub(super) fn with_sizes(
    error: io::Error,
    socket: &socket2::Socket,
    len: Option<usize>,
) -> io::Error {
    if error.raw_os_error() != Some(libc::EMSGSIZE) {
        return error;
    }
    let path_mtu = option::path_mtu(socket).map(|mtu| mtu as u64);
    let headers = udp_handshake::headers(socket, path_mtu).in_each_packet();
    too_large(len, headers, path_mtu, &error)
}

/// Returns the error of a datagram of `len` bytes, after headers of this size, that exceeds the path MTU.
fn too_large(
    len: Option<usize>,
    headers: u64,
    path_mtu: Option<u64>,
    error: &io::Error,
) -> io::Error {
    let packets = match len {
        Some(len) => format!("its packets of {} B are", len as u64 + headers),
        None => "its packets are".to_owned(),
    };
    let path = match path_mtu {
        Some(mtu) => format!("the path MTU is {mtu} B"),
        None => "the path takes less".to_owned(),
    };
    let what = format!(
        "{packets} too large for the path: {path}, which showed only after the connection was open; give the device or \
         the route here that MTU (`ip route change … mtu`), from which the protocol takes it ({error})"
    );
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_the_path_does_not_take_is_told_with_the_sizes() {
        let error = io::Error::from_raw_os_error(libc::EMSGSIZE);
        let told = too_large(Some(1_400), 28, Some(1_280), &error).to_string();
        assert!(told.starts_with("its packets of 1428 B are too large"), "{told}");
        assert!(
            told.contains("the path MTU is 1280 B") && told.contains("Message too long"),
            "{told}"
        );
        let unknown = too_large(None, 28, None, &error).to_string();
        assert!(unknown.contains("the path takes less"), "{unknown}");
    }
}
