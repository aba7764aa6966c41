//! Socket options that the standard library does not offer (setsockopt(2), socket(7), ip(7)).

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use socket2::Socket;

use deadheat_base::error::{Error, Result};
use deadheat_base::units::Bytes;

/// Connections with data in their SYN that may wait for the end of their handshake at a listening socket
/// (`TCP_FASTOPEN`).
pub const FAST_OPEN_QUEUE: u32 = 128;

/// Buffer of a socket: receive or send.
#[derive(Debug, Clone, Copy)]
pub enum Buffer {
    /// Receive buffer: bytes that arrived and were not read.
    Receive,
    /// Send buffer: bytes that were sent and have not left the host.
    Send,
}

impl Buffer {
    /// Requests a size, past the host's limit where the process may (`CAP_NET_ADMIN`, socket(7)).
    ///
    /// # Errors
    /// Fails if the kernel refuses. A smaller buffer than requested is no error; [`Buffer::describe`] shows it.
    pub fn request(self, socket: &Socket, size: Option<Bytes>) -> Result<()> {
        let Some(size) = size else { return Ok(()) };
        let value = libc::c_int::try_from(size.0).unwrap_or(libc::c_int::MAX);
        let (forced, plain, name) = match self {
            Buffer::Receive => (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, "SO_RCVBUF"),
            Buffer::Send => (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, "SO_SNDBUF"),
        };
        set_int(socket.as_fd(), libc::SOL_SOCKET, forced, value)
            .or_else(|_| set_int(socket.as_fd(), libc::SOL_SOCKET, plain, value))
            .map_err(|e| Error::setup(format!("set {name} to {size}"), e))
    }

    /// Describes the size that the kernel has set (double the requested one), and why it is less where it is.
    pub fn describe(self, socket: &Socket, asked: Option<Bytes>) -> String {
        let (size, limit) = match self {
            Buffer::Receive => (socket.recv_buffer_size(), "net.core.rmem_max"),
            Buffer::Send => (socket.send_buffer_size(), "net.core.wmem_max"),
        };
        match (size, asked) {
            (Ok(size), Some(asked)) if (size as u64) < 2 * asked.0 => {
                format!("{size} ({limit} allows no more)")
            }
            (Ok(size), _) => size.to_string(),
            (Err(error), _) => format!("unknown ({error})"),
        }
    }
}

/// Makes closing the descriptor reset the connection (socket(7), `SO_LINGER` with no time): nothing is sent again
/// after that. Bytes that the peer has not read are lost.
///
/// # Errors
/// The error of setsockopt(2).
pub fn reset_on_close(socket: BorrowedFd<'_>) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the pointer and length describe `linger`.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of_val(&linger) as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns true if the peer has acknowledged everything sent on a TCP socket, the FIN included (tcp(7),
/// `SIOCOUTQ`), or never will, because the connection is gone.
pub fn is_acknowledged(socket: &Socket) -> bool {
    let mut queued: libc::c_int = 0;
    // SAFETY: the kernel writes one integer.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) };
    done < 0 || queued == 0 || socket.peer_addr().is_err()
}

/// Sends an acknowledgement that the kernel delays, for up to 40 ms (tcp(7), `TCP_QUICKACK`); the mode is
/// unchanged.
///
/// # Errors
/// The error of getsockopt(2) or setsockopt(2); sockets other than TCP delay none, and have no such option.
pub fn acknowledge_now(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut mode = [0];
    get(socket, libc::IPPROTO_TCP, libc::TCP_QUICKACK, &mut mode)
        .ok_or_else(io::Error::last_os_error)?;
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1)?;
    set_words(socket, libc::IPPROTO_TCP, libc::TCP_QUICKACK, &mode)
}

/// Sets an integer option.
///
/// # Errors
/// The error of setsockopt(2).
pub fn set_int(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set_words(socket, level, name, &[value.cast_unsigned()])
}

/// Sets an option of 32-bit words.
///
/// # Errors
/// The error of setsockopt(2).
pub fn set_words(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    words: &[u32],
) -> io::Result<()> {
    set(socket, level, name, words)
}

/// Sets an option of bytes.
///
/// # Errors
/// The error of setsockopt(2).
pub fn set_bytes(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    bytes: &[u8],
) -> io::Result<()> {
    set(socket, level, name, bytes)
}

fn set<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &[T],
) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            size_of_val(value) as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Path MTU limit that this process knows and its kernel does not; 0 for none.
static PATH_MTU_LIMIT: AtomicU32 = AtomicU32::new(0);

/// Sets the largest path MTU that [`path_mtu`] returns in this process from now on: a relay on this host hides the
/// path behind it, which may have a smaller MTU.
pub fn limit_path_mtu(limit: Option<u32>) {
    PATH_MTU_LIMIT.store(limit.unwrap_or(0), Ordering::Relaxed);
}

/// Returns the path MTU in bytes that the kernel knows for a connected socket (`IP_MTU`, `IPV6_MTU`), or
/// the limit that is set, if that is less.
pub fn path_mtu(socket: &Socket) -> Option<usize> {
    let limit = match PATH_MTU_LIMIT.load(Ordering::Relaxed) {
        0 => usize::MAX,
        limit => limit as usize,
    };
    kernel_path_mtu(socket).map(|mtu| mtu.min(limit))
}

/// Returns the path MTU in bytes that the kernel knows for a connected socket, whatever limit is set here.
pub fn kernel_path_mtu(socket: &Socket) -> Option<usize> {
    let (level, name) = if is_ipv6(socket) {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU)
    } else {
        (libc::IPPROTO_IP, libc::IP_MTU)
    };
    let mut value: [u32; 1] = [0];
    get(socket.as_fd(), level, name, &mut value)?;
    usize::try_from(value[0]).ok()
}

/// Treatment of packets that exceed the path MTU: ip(7) `IP_MTU_DISCOVER`, ipv6(7) `IPV6_MTU_DISCOVER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragmenting {
    /// Fragmented by this host or routers (`IP_PMTUDISC_DONT`).
    Allowed,
    /// Refused (`IP_PMTUDISC_DO`).
    Refused,
    /// Probed: routers may not fragment, and the known path MTU is ignored (`IP_PMTUDISC_PROBE`).
    Probed,
}

impl Fragmenting {
    /// Returns the choice for the knob `df=word`.
    pub fn named(word: &str) -> Option<Fragmenting> {
        let all = [Fragmenting::Allowed, Fragmenting::Refused, Fragmenting::Probed];
        all.into_iter().find(|choice| choice.word() == word)
    }

    /// Returns the word that names it in the knob.
    pub fn word(self) -> &'static str {
        discovery_word(self.value())
    }

    fn value(self) -> libc::c_int {
        match self {
            Fragmenting::Allowed => libc::IP_PMTUDISC_DONT,
            Fragmenting::Refused => libc::IP_PMTUDISC_DO,
            Fragmenting::Probed => libc::IP_PMTUDISC_PROBE,
        }
    }

    /// Sets it on a socket.
    ///
    /// # Errors
    /// The error of setsockopt(2).
    pub fn set(self, socket: &Socket) -> io::Result<()> {
        let (level, name) = discovery(socket);
        set_int(socket.as_fd(), level, name, self.value())
    }

    /// Describes the kernel's setting. `want` is the kernel's default: this host fragments packets that exceed the
    /// path MTU, routers may not.
    pub fn describe(socket: &Socket) -> String {
        let (level, name) = discovery(socket);
        let mut value = [0];
        match get(socket.as_fd(), level, name, &mut value) {
            Some(1) => discovery_word(value[0].cast_signed()).to_owned(),
            _ => "unknown".to_owned(),
        }
    }
}

fn discovery(socket: &Socket) -> (libc::c_int, libc::c_int) {
    if is_ipv6(socket) {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)
    } else {
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)
    }
}

/// Returns the word for a setting; the numbers are the same for both IP versions.
fn discovery_word(value: libc::c_int) -> &'static str {
    match value {
        libc::IP_PMTUDISC_DONT => "off",
        libc::IP_PMTUDISC_WANT => "want",
        libc::IP_PMTUDISC_DO => "on",
        libc::IP_PMTUDISC_PROBE => "probe",
        libc::IP_PMTUDISC_INTERFACE => "interface",
        libc::IP_PMTUDISC_OMIT => "omit",
        _ => "unknown",
    }
}

/// Options of UDP-Lite sockets (udplite(7)), which the C library does not define.
const SEND_COVERAGE: libc::c_int = 10;
const RECEIVE_COVERAGE: libc::c_int = 11;

/// Sets the checksum coverage of a UDP-Lite socket, in bytes from the start of its header, and requires the same of
/// arriving packets. Without a number the checksum covers everything, and any coverage is accepted.
///
/// # Errors
/// Fails if the kernel refuses.
pub fn cover(socket: &Socket, bytes: Option<Bytes>) -> Result<()> {
    let Some(bytes) = bytes else { return Ok(()) };
    let value = libc::c_int::try_from(bytes.0).unwrap_or(libc::c_int::MAX);
    [SEND_COVERAGE, RECEIVE_COVERAGE]
        .into_iter()
        .try_for_each(|name| set_int(socket.as_fd(), libc::IPPROTO_UDPLITE, name, value))
        .map_err(|e| Error::setup(format!("set the checksum's coverage to {bytes}"), e))
}

/// Describes the checksum coverage in bytes of the packets that a UDP-Lite socket sends.
pub fn coverage(socket: &Socket) -> String {
    let mut value = [0];
    match get(socket.as_fd(), libc::IPPROTO_UDPLITE, SEND_COVERAGE, &mut value) {
        Some(1) if value[0] == 0 => "all".to_owned(),
        Some(1) => format!("{} B", value[0]),
        _ => "unknown".to_owned(),
    }
}

/// Returns true if a socket is of the IPv6 family.
pub fn is_ipv6(socket: &Socket) -> bool {
    socket.local_addr().is_ok_and(|address| address.family() == libc::AF_INET6 as libc::sa_family_t)
}

/// Returns the number of packets that a socket dropped on arrival: `SK_MEMINFO_DROPS` of `SO_MEMINFO` (Linux 4.12,
/// commit a2d133b1d465).
pub fn drops(socket: BorrowedFd<'_>) -> Option<u32> {
    memory(socket, libc::SK_MEMINFO_DROPS)
}

/// Returns the memory in bytes that sent and unacknowledged data takes: `SK_MEMINFO_WMEM_QUEUED` of `SO_MEMINFO`
/// (Linux 4.12). `None` where the kernel does not report it.
pub fn memory_of_unacknowledged(socket: BorrowedFd<'_>) -> Option<u32> {
    memory(socket, libc::SK_MEMINFO_WMEM_QUEUED)
}

/// Returns one of the figures of `SO_MEMINFO`.
fn memory(socket: BorrowedFd<'_>, at: libc::c_int) -> Option<u32> {
    let mut info = [0u32; libc::SK_MEMINFO_DROPS as usize + 1];
    let words = get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut info)?;
    (words == info.len()).then(|| info[at as usize])
}

/// Returns the length of the IP header in bytes, without options: 20 (RFC 791) or 40 (RFC 8200).
pub fn ip_header_bytes(socket: &Socket) -> u64 {
    if is_ipv6(socket) { 40 } else { 20 }
}

/// Reads an option of 32-bit words; returns the number of words read.
pub fn get(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    into: &mut [u32],
) -> Option<usize> {
    let mut len = size_of_val(into) as libc::socklen_t;
    // SAFETY: the pointer and length describe `into`, and any bits are valid words.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, into.as_mut_ptr().cast(), &mut len)
    };
    (done == 0).then_some(len as usize / size_of::<u32>())
}
