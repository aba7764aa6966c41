//! Pairs of channels, and a source and a sink that record, for tests of engines.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use socket2::{Domain, Socket, Type};

use super::buffer::{PERIOD, pattern};
use super::channel::Channel;
use super::drain::{Drain, ReceiveBy};
use super::pipe::{Pipe, Pipes};
use super::stream::CountedSocket;
use deadheat_contract::contract::{FileAt, Patience, Sink, Source};

pub(super) fn tcp() -> (CountedSocket, CountedSocket) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    (CountedSocket::new(near.into()).unwrap(), CountedSocket::new(far.into()).unwrap())
}

pub(super) fn unix() -> (CountedSocket, CountedSocket) {
    let (near, far) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    (CountedSocket::new(near).unwrap(), CountedSocket::new(far).unwrap())
}

pub(super) fn pipes() -> (Pipes, Pipes) {
    let (up, down) = (Pipe::open().unwrap(), Pipe::open().unwrap());
    let near = Pipes::new(down.reader, up.writer).unwrap();
    (near, Pipes::new(up.reader, down.writer).unwrap())
}

/// Returns the first `len` bytes of made-up content.
pub(super) fn made_up(len: usize) -> Vec<u8> {
    let pattern = pattern();
    assert_eq!(pattern.len(), PERIOD);
    pattern.iter().copied().cycle().take(len).collect()
}

/// Creates a file without a name, with `content` in it.
pub(super) fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file
}

pub(super) fn content(mut file: &File) -> Vec<u8> {
    let mut all = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut all).unwrap();
    all
}

/// Source of a number of bytes, from a file or made up.
pub(super) struct Feed {
    pub(super) left: u64,
    pub(super) file: Option<File>,
    pub(super) sent: u64,
}

impl Feed {
    pub(super) fn made_up(left: u64) -> Feed {
        Feed { left, file: None, sent: 0 }
    }

    pub(super) fn of(bytes: &[u8]) -> Feed {
        Feed { left: bytes.len() as u64, file: Some(file(bytes)), sent: 0 }
    }
}

impl Source for Feed {
    fn budget(&self) -> u64 {
        self.left
    }
    fn message_size(&self) -> usize {
        1
    }
    fn call_size(&self) -> usize {
        1
    }
    fn stamp(&mut self, _message: &mut [u8]) {
        panic!("a byte stream has no messages");
    }
    fn accepted(&mut self, bytes: u64) {
        self.left = self.left.checked_sub(bytes).unwrap();
        self.sent += bytes;
    }
    fn file(&self) -> Option<FileAt<'_>> {
        self.file.as_ref().map(|file| FileAt { file: file.as_fd(), offset: self.sent })
    }
}

/// Sink that stores the bytes that it was shown, and counts the others.
#[derive(Default)]
pub(super) struct Basin {
    pub(super) taken: Vec<u8>,
    pub(super) passed: u64,
    pub(super) file: Option<File>,
    pub(super) room: Option<Box<[u8]>>,
}

impl Sink for Basin {
    fn take(&mut self, bytes: &[u8]) {
        assert!(!bytes.is_empty());
        self.taken.extend_from_slice(bytes);
    }
    fn pass(&mut self, bytes: u64) {
        assert!(bytes > 0);
        self.passed += bytes;
    }
    fn room(&mut self) -> Option<&mut [u8]> {
        self.room.as_deref_mut()
    }
    fn file(&self) -> Option<FileAt<'_>> {
        self.file.as_ref().map(|file| FileAt { file: file.as_fd(), offset: self.passed })
    }
}

/// Receives everything until the peer ends its direction.
pub(super) fn all<C: Channel>(channel: &mut C) -> Vec<u8> {
    let mut drain = Drain::new::<C>(ReceiveBy::Read).unwrap();
    let mut basin = Basin::default();
    while drain.step(channel, Patience::Block, &mut basin).unwrap() != Some(0) {}
    basin.taken
}

/// Receives the bytes that are there now.
pub(super) fn some<C: Channel>(channel: &mut C) -> Vec<u8> {
    let mut drain = Drain::new::<C>(ReceiveBy::Read).unwrap();
    let mut basin = Basin::default();
    while drain.step(channel, Patience::None, &mut basin).unwrap().is_some_and(|got| got > 0) {}
    basin.taken
}
