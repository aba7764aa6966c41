//! QUIC of the kernel, which this program knows by name and does not race: no kernel that the program was tested on has it,
//! and a transport that never ran would be a guess.

use socket2::{Domain, Protocol, Socket, Type};

/// IPPROTO_QUIC (include/uapi/linux/quic.h of the module's tree).
const IPPROTO_QUIC: i32 = 261;

/// Returns the reason why the kernel's QUIC does not race on this host, and what does.
pub(crate) fn why_not() -> String {
    match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(IPPROTO_QUIC))) {
        Err(error) => format!(
            "kernel has no QUIC (socket with IPPROTO_QUIC, {IPPROTO_QUIC}: {error}); `quic` (quinn) is QUIC in user space, and \
             `deadheat list transports` has the other implementations"
        ),
        Ok(_) => format!(
            "this kernel has QUIC (IPPROTO_QUIC, {IPPROTO_QUIC}), and deadheat does not race it: it was never tested on one \
             that has; `quic` (quinn) is QUIC in user space"
        ),
    }
}
