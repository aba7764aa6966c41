//! Frames and ports for tests.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

use super::port::Port;
use crate::impair::packet::Changes;
use crate::segment::{GsoFrame, Head, VNET};
use deadheat_base::time::{Clock, Manual, Nanos};

/// Bytes of the headers of IPv4 and UDP.
pub(super) const HEADERS: usize = 28;

/// Builds datagrams of `size` bytes, the last one of `last` bytes, as one super-packet of UDP over IPv4. Each byte
/// is its datagram's number.
pub(super) fn datagrams(count: usize, size: u16, last: u16) -> Vec<u8> {
    let payload = (count - 1) * usize::from(size) + usize::from(last);
    let mut frame = vec![0; VNET + HEADERS];
    // NEEDS_CSUM, VIRTIO_NET_HDR_GSO_UDP_L4, and where the checksum is.
    (frame[0], frame[1]) = (1, if count > 1 { 5 } else { 0 });
    let size_now = if count > 1 { size } else { 0 };
    for (at, value) in [(2, HEADERS as u16), (4, size_now), (6, 20), (8, 6)] {
        frame[at..at + 2].copy_from_slice(&u16::to_ne_bytes(value));
    }
    let packet = &mut frame[VNET..];
    let total = (HEADERS + payload) as u16;
    packet[..20]
        .copy_from_slice(&[0x45, 2, 0, 0, 0, 9, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[20..26].copy_from_slice(&[0x10, 0, 0x14, 0x5a, 0, 0]);
    packet[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    frame.extend((0..payload).map(|at| (at / usize::from(size)) as u8));
    frame
}

/// Returns the payload of each packet of a frame.
pub(super) fn payloads(frame: &[u8]) -> Vec<Vec<u8>> {
    let seen = GsoFrame::parse(frame);
    let mut head = Head::default();
    (0..seen.segments)
        .map(|n| {
            let rest = &frame[seen.run(frame, n, n + 1, Changes::default(), &mut head)];
            let whole = [head.bytes(), rest].concat();
            whole.get(VNET + HEADERS..).unwrap_or_default().to_vec()
        })
        .collect()
}

/// Port that records its writes, with their times in virtual time.
pub(super) struct Notes {
    clock: Manual,
    file: File,
    written: Mutex<Vec<(Nanos, Vec<u8>)>>,
    refusal: Mutex<Option<i32>>,
}

impl Notes {
    pub(super) fn new(clock: &Manual) -> Notes {
        let file = File::open("/dev/null").unwrap();
        Notes { clock: clock.clone(), file, written: Mutex::default(), refusal: Mutex::default() }
    }

    /// Makes each write return this error from now on.
    pub(super) fn refuse(&self, code: i32) {
        *self.refusal.lock().unwrap() = Some(code);
    }

    /// Returns the writes since the last call.
    pub(super) fn take(&self) -> Vec<(Nanos, Vec<u8>)> {
        std::mem::take(&mut self.written.lock().unwrap())
    }

    /// Returns the numbers of the datagrams in each write, with its time.
    pub(super) fn numbers(&self) -> Vec<(u64, Vec<u8>)> {
        let first = |payload: Vec<u8>| payload[0];
        let numbers = |frame: &[u8]| payloads(frame).into_iter().map(first).collect();
        self.take().iter().map(|(at, frame)| (at.0, numbers(frame))).collect()
    }
}

impl Port for Notes {
    fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn read(&self, _: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(None)
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        if let Some(code) = *self.refusal.lock().unwrap() {
            return Err(io::Error::from_raw_os_error(code));
        }
        let frame = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        self.written.lock().unwrap().push((self.clock.now(), frame));
        Ok(())
    }

    fn drops(&self) -> u64 {
        0
    }
}
