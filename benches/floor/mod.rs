//! The floor: what this kernel gives to bare system calls and nothing else. Whatever a program
//! adds to these figures is its own.
//!
//! Both ends are processes made with fork(2), each pinned; the caller only waits for them, so that
//! its own affinity stays as it was and a peer that hangs is killed instead of waited for.

mod datagrams;
mod library;
mod ping;
mod span;
mod streams;
mod sys;

use std::io;

pub(crate) use datagrams::{Datagrams, Get, Put};
pub(crate) use library::{Library, Quic};
pub(crate) use ping::Ping;
pub(crate) use streams::{Give, Stream, Take};

/// Which socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// `SOCK_STREAM` with `TCP_NODELAY`.
    Tcp,
    /// `SOCK_DGRAM`.
    Udp,
}

/// How a receiver waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Polls with `MSG_DONTWAIT`.
    Busy,
    /// Sleeps in recv(2).
    Blocking,
}

/// The CPUs of the near and the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// The end that sends first.
    pub(crate) near: usize,
    /// The end that answers or receives.
    pub(crate) far: usize,
}

impl Cpus {
    /// The first two CPUs that this process may use; the same one twice where it has only one.
    pub(crate) fn apart() -> io::Result<Cpus> {
        let allowed = sys::allowed_cpus()?;
        let near = *allowed.first().unwrap_or(&0);
        let far = *allowed.get(1).unwrap_or(&near);
        Ok(Cpus { near, far })
    }

    /// Both ends on the first CPU.
    pub(crate) fn together() -> io::Result<Cpus> {
        let Cpus { near, .. } = Cpus::apart()?;
        Ok(Cpus { near, far: near })
    }
}
