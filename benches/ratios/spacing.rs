//! The time between packets as they leave, seen by one and the same observer for every program: a
//! packet socket (packet(7)) on loopback with the kernel's stamps, read only after the run.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::Outcome;

/// Room for some 300,000 small packets that wait to be read.
const ROOM: libc::c_int = 512 << 20;

/// Sees every UDP packet of one payload size that leaves on loopback.
pub(crate) struct Observer {
    socket: OwnedFd,
    payload: usize,
}

impl Observer {
    /// Begins to see packets. Needs root.
    pub(crate) fn begin(payload: usize) -> io::Result<Observer> {
        let protocol = (libc::ETH_P_IP as u16).to_be();
        // SAFETY: a new descriptor, owned by nobody else.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, i32::from(protocol));
            check(fd)?;
            OwnedFd::from_raw_fd(fd)
        };
        let observer = Observer { socket, payload };
        observer.set(libc::SO_RCVBUFFORCE, ROOM)?;
        observer.set(libc::SO_TIMESTAMPNS, 1)?;
        // SAFETY: an all-zero address is valid.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = 1; // the loopback interface is the first of every network namespace
        // SAFETY: the address is a valid sockaddr_ll of the length given.
        check(unsafe {
            libc::bind(
                observer.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        })?;
        Ok(observer)
    }

    fn set(&self, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: `value` is an integer of the size given.
        check(unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        })
    }

    /// How far the gaps between departures were from `period_ns`: the 99th percentile in
    /// nanoseconds. Only packets to the port that most went to count; a gap of a tenth of a second
    /// or more lies between two runs.
    pub(crate) fn gap_error_p99(self, period_ns: f64) -> Outcome<f64> {
        let mut by_port = std::collections::BTreeMap::<u16, Vec<u64>>::new();
        while let Some((port, at_ns)) = self.next()? {
            by_port.entry(port).or_default().push(at_ns);
        }
        // Trials have ports of their own, and answers go to others.
        let most = by_port.values().map(Vec::len).max().unwrap_or(0);
        let mut errors: Vec<f64> = by_port
            .values()
            .filter(|stamps| stamps.len() * 2 > most)
            .flat_map(|stamps| stamps.windows(2).map(|pair| pair[1].abs_diff(pair[0])))
            .filter(|gap| *gap < 100_000_000)
            .map(|gap| (gap as f64 - period_ns).abs())
            .collect();
        if errors.len() < 1_000 {
            return Err(format!("only {} gaps were seen", errors.len()).into());
        }
        errors.sort_by(f64::total_cmp);
        Ok(errors[errors.len() * 99 / 100])
    }

    /// The next packet of the size that left: its destination port and its time.
    fn next(&self) -> io::Result<Option<(u16, u64)>> {
        loop {
            let mut bytes = [0_u8; 28];
            let mut control = [0_u64; 16];
            // SAFETY: all-zero structures are valid and describe nothing.
            let (mut from, mut header): (libc::sockaddr_ll, libc::msghdr) =
                unsafe { (zeroed(), zeroed()) };
            let mut room = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 28 };
            header.msg_name = (&raw mut from).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_iov = &mut room;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control);
            // SAFETY: the header points to live buffers of the lengths given.
            let got = unsafe {
                libc::recvmsg(
                    self.socket.as_raw_fd(),
                    &mut header,
                    libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                )
            };
            if got < 0 {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(None),
                    _ => Err(error),
                };
            }
            let is_udp = bytes[0] == 0x45 && bytes[9] == libc::IPPROTO_UDP as u8;
            // A socket for one protocol sees packets as they come in, which on loopback is when they
            // leave.
            if !is_udp || from.sll_pkttype != libc::PACKET_HOST || got as usize != 28 + self.payload
            {
                continue;
            }
            // SAFETY: the kernel filled in the control buffer, whose first message is the stamp.
            let stamp = unsafe {
                let message = libc::CMSG_FIRSTHDR(&header);
                if message.is_null() {
                    continue;
                }
                libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned()
            };
            let port = u16::from_be_bytes([bytes[22], bytes[23]]);
            return Ok(Some((port, stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64)));
        }
    }
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
