//! TCP Fast Open (RFC 7413): the first data of a connection travels in its SYN, once a connection before has fetched
//! the cookie that proves the address. Here that data is the hello of 24 bytes, in the place of a request.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use socket2::Socket;

use super::{Variant, unreached};
use crate::pending::send_hello;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::option::{self, FAST_OPEN_QUEUE};
use deadheat_datapath::datapath::tcp_info::{self, HandshakeFacts};
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::{Dial, Place};

/// File of the sysctl that permits it.
const SETTING: &str = "/proc/sys/net/ipv4/tcp_fastopen";

/// Bits of the sysctl (ip-sysctl.rst): connections that are opened, and connections that are accepted.
const CLIENT: u32 = 1;
const SERVER: u32 = 2;

/// Connections with data that may wait for the end of their handshake.
const QUEUE: u32 = FAST_OPEN_QUEUE;

/// Returns the value of the option, as a connection reads it back.
pub(super) fn word(asked: bool, state: HandshakeFacts) -> String {
    match (asked, state.syn_data) {
        (_, true) => "on",
        (true, false) => {
            "off (no data in the SYN was acknowledged; a trial's first connection fetches the cookie)"
        }
        (false, false) => "off",
    }
    .to_owned()
}

/// Checks that the hosts' settings permit it.
///
/// # Errors
/// [`Error::Unsupported`] naming the sysctl, its value, and a value that would do.
pub(super) fn check(id: &str, place: Place) -> Result<()> {
    match place {
        Place::Loopback => allows(id, CLIENT | SERVER),
        // Emulated namespaces have settings of their own.
        Place::Emulated => Ok(()),
        Place::Remote => allows(id, CLIENT),
        Place::Server => allows(id, SERVER),
    }
}

/// Checks that this thread's network namespace has these bits of the sysctl.
fn allows(id: &str, bits: u32) -> Result<()> {
    let text = std::fs::read_to_string(SETTING).map_err(|e| {
        Error::unsupported(knob(id), format!("this host does not tell {SETTING}: {e}"))
    })?;
    lacks(text.trim(), bits).map_or(Ok(()), |why| Err(Error::unsupported(knob(id), why)))
}

/// Returns the missing bits of a sysctl's value, and a value that has them; `None` if none is missing.
fn lacks(value: &str, bits: u32) -> Option<String> {
    // It may be written in hexadecimal, but is read in decimal (proc_dointvec).
    let has = value.parse::<u32>().unwrap_or(0);
    let which = match bits & !has {
        0 => return None,
        CLIENT => "opens no connections with it",
        SERVER => "lets no connections with it in",
        _ => "has it switched off",
    };
    Some(format!(
        "this host {which}: net.ipv4.tcp_fastopen is {value}; `sysctl net.ipv4.tcp_fastopen={}` as root allows it, \
         and hosts of an emulated path (--path) always have it",
        has | bits
    ))
}

fn knob(id: &str) -> String {
    format!("{id}:fastopen=on")
}

/// Makes a listening socket accept data in the SYN, with cookies of this trial only: a cookie from an earlier trial is
/// refused, so that each trial's first connection fetches one (`TCP_FASTOPEN_KEY`, Linux 4.15).
///
/// # Errors
/// [`Error::Unsupported`] if the host's settings forbid it; the error of setsockopt(2).
pub(super) fn offer(id: &str, socket: &Socket, token: Token) -> Result<()> {
    allows(id, SERVER)?;
    let set = |name, words: &[u32]| {
        option::set_words(socket.as_fd(), libc::IPPROTO_TCP, name, words)
            .map_err(|e| Error::setup("offer TCP Fast Open on a listening socket", e))
    };
    set(libc::TCP_FASTOPEN, &[QUEUE])?;
    let (words, _) = token.bytes().as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    set(libc::TCP_FASTOPEN_KEY, &words)
}

/// Makes a socket delay its SYN until the first data, if a cookie is known (`TCP_FASTOPEN_CONNECT`, Linux 4.11).
///
/// # Errors
/// [`Error::Unsupported`] if the host's settings forbid it; the error of setsockopt(2).
pub(super) fn delay_syn(id: &str, socket: &Socket) -> Result<()> {
    let on = option::set_int(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1);
    on.map_err(|e| match allows(id, CLIENT) {
        Err(why) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => why,
        _ => Error::setup("ask for TCP Fast Open", e),
    })
}

/// Sends the hello on a socket for which connect(2) has returned after `connect_ns`; returns the time that connecting
/// took.
///
/// If the hello travelled in the SYN and was accepted, nothing waited: a request of an application would have left with
/// the first packet, so only the calls count. Otherwise it is the time until the end of the handshake.
///
/// # Errors
/// As [`deadheat_datapath::transport::Transport::dial`].
pub(super) fn open(
    variant: Variant,
    dial: &Dial<'_>,
    socket: &Socket,
    connect_ns: u64,
    deadline: Nanos,
) -> Result<u64> {
    let began = Monotonic.now();
    let is_through = || tcp_info::read(socket).map(|info| info.negotiated.established);
    let set_up = |e| Error::setup(format!("connect to {}", dial.to), e);
    if is_through().map_err(set_up)? {
        // Without a cookie, connect(2) has completed the handshake.
        send_hello(socket, &dial.hello, dial.to)?;
        return Ok(connect_ns);
    }
    send_hello(socket, &dial.hello, dial.to)?;
    let said_ns = (Monotonic.now() - began).0;
    if !writable(socket, deadline).map_err(set_up)? {
        return Err(unreached(variant, dial, io::ErrorKind::TimedOut.into()));
    }
    let through_ns = (Monotonic.now() - began).0;
    if let Some(e) = socket.take_error().map_err(set_up)? {
        return Err(unreached(variant, dial, e));
    }
    let is_taken = tcp_info::read(socket).map_err(set_up)?.negotiated.syn_data;
    Ok(connect_ns + if is_taken { said_ns } else { through_ns })
}

/// Waits until a socket is connected or has failed; returns false at the deadline.
fn writable(socket: &Socket, deadline: Nanos) -> io::Result<bool> {
    loop {
        let left = deadline - Monotonic.now();
        let ms = i32::try_from(left.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
        let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: the pointer is to one live pollfd.
        match unsafe { libc::poll(&raw mut entry, 1, ms) } {
            0 if left == Nanos::ZERO => return Ok(false),
            0 => {}
            1.. => return Ok(true),
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_lacks_is_named_with_a_value_that_would_do() {
        assert_eq!(lacks("3", CLIENT | SERVER), None);
        assert_eq!(lacks("1027", SERVER), None);
        let say = |value, bits| lacks(value, bits).unwrap();
        let far = say("1", CLIENT | SERVER);
        assert!(
            far.contains("lets no connections with it in: net.ipv4.tcp_fastopen is 1"),
            "{far}"
        );
        assert!(far.contains("`sysctl net.ipv4.tcp_fastopen=3`"), "{far}");
        assert!(say("2", CLIENT).contains("opens no connections with it"));
        assert!(say("1536", CLIENT | SERVER).contains("=1539`"));
        check("tcp", Place::Emulated).unwrap();
    }
}
