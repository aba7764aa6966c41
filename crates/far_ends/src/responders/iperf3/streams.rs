//! TCP streams of a test: a thread each, which sends or receives until the course is over.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;

use socket2::SockRef;

use super::asked::AskedTest;
use super::course::Course;
use super::outcome::{CpuTime, StreamTally};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::ip_header::set_field;
use deadheat_datapath::datapath::option;
use deadheat_datapath::datapath::policer::{StreamMeter, Way, time_at};

/// Bytes that are read at once, and sent at once at most.
const CHUNK: usize = 128 << 10;

/// Most bytes that are still read once the test is over: those that have arrived.
const MOST_LEFT: usize = 16 << 20;

/// Time by which a stream may be behind its rate and catch up.
const BEHIND: Nanos = Nanos::from_millis(100);

/// Word of `struct tcp_info` (include/uapi/linux/tcp.h) with the segments that were sent again.
const TOTAL_RETRANS: usize = 25;

/// Sets a stream up as the client asks; what the kernel refuses stays as it is.
pub(super) fn set_up(stream: &TcpStream, asked: &AskedTest) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_nodelay(asked.no_delay);
    if let Some(window) = asked.window {
        let _ = socket.set_send_buffer_size(window);
        let _ = socket.set_recv_buffer_size(window);
    }
    if let Some(segment) = asked.segment {
        let _ = socket.set_tcp_mss(segment);
    }
    if let Some(field) = asked.field {
        let _ = set_field(&socket, |_| field);
    }
    if let Some(rate) = asked.kernel_rate {
        let words = (rate / 8).to_ne_bytes();
        let level = libc::SOL_SOCKET;
        let _ = option::set_bytes(socket.as_fd(), level, libc::SO_MAX_PACING_RATE, &words);
    }
    if let Some(congestion) = &asked.congestion {
        let _ = socket.set_tcp_congestion(congestion.as_bytes());
    }
    Ok(())
}

/// Returns the congestion control of a stream.
pub(super) fn congestion(stream: &TcpStream) -> Option<String> {
    let name = SockRef::from(stream).tcp_congestion().ok()?;
    let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).ok()
}

/// Runs a stream until the course is over.
pub(super) fn run(
    stream: &TcpStream,
    asked: &AskedTest,
    course: &Course<'_>,
    mut tally: StreamTally,
) -> (StreamTally, CpuTime) {
    let meter = StreamMeter::of_tcp(&SockRef::from(stream));
    let last = course.begin;
    let mut flow = StreamFlow { stream, course, meter, last };
    if tally.is_sender {
        flow.send(asked, &mut tally);
    } else {
        flow.receive(&mut tally);
    }
    (tally, CpuTime::of_thread())
}

/// Stream with its charges.
struct StreamFlow<'a> {
    stream: &'a TcpStream,
    course: &'a Course<'a>,
    meter: StreamMeter,
    last: Nanos,
}

impl StreamFlow<'_> {
    /// Receives, and no faster than the rate: what is not read stays in the kernel, and slows the sender down.
    fn receive(&mut self, tally: &mut StreamTally) {
        let mut buffer = vec![0; CHUNK];
        let (mut left, mut due) = (MOST_LEFT, Nanos::ZERO);
        loop {
            let is_over = self.course.is_over();
            // What has arrived is read to the end, unless the rate forbids it.
            if is_over && due > Monotonic.now() {
                return;
            }
            match self.stream.try_read(&mut buffer) {
                // The client has ended the stream.
                Moved::Ended => return,
                Moved::Bytes(len) => {
                    let now = Monotonic.now();
                    tally.begins_to_count(now);
                    tally.add(now, len as u64);
                    due = self.charge(Way::Received, len, now);
                    left = left.saturating_sub(if is_over { len } else { 0 });
                    if is_over && left == 0 {
                        return;
                    }
                    self.course.sleep_until(due);
                }
                Moved::Nothing if is_over => return,
                Moved::Nothing => self.course.wait_for(self.stream.as_fd(), libc::POLLIN),
            }
        }
    }

    /// Sends at the rate that is asked for, and no faster than the rate that is allowed.
    fn send(&mut self, asked: &AskedTest, tally: &mut StreamTally) {
        let buffer = vec![0x61; asked.len.min(CHUNK)];
        let before = retransmits(self.stream);
        let (mut omitted, mut next) = (0, self.course.begin);
        while !self.course.is_over() {
            let now = Monotonic.now();
            if tally.begins_to_count(now) {
                omitted = retransmits(self.stream).saturating_sub(before);
            }
            if next > now {
                self.course.sleep_until(next);
                continue;
            }
            match self.stream.try_write(&buffer) {
                Moved::Ended => break,
                Moved::Bytes(len) => {
                    tally.add(now, len as u64);
                    let due = self.charge(Way::Sent, len, now);
                    if let Some(rate) = asked.rate {
                        next = next.max(now - BEHIND) + time_at(rate, len as u64);
                    }
                    next = next.max(due);
                }
                Moved::Nothing => self.course.wait_for(self.stream.as_fd(), libc::POLLOUT),
            }
        }
        tally.retransmits = Some(retransmits(self.stream).saturating_sub(before + omitted));
        // A client that waits for the rest of a block would otherwise wait for ever. It may be gone.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Charges bytes of a call; returns the time of the next.
    fn charge(&mut self, way: Way, len: usize, now: Nanos) -> Nanos {
        let bytes = self.meter.count(way, len as u64, &SockRef::from(self.stream));
        let due = self.course.charge(std::mem::replace(&mut self.last, now), bytes);
        due[way as usize]
    }
}

/// Result of a call that moves bytes.
enum Moved {
    Bytes(usize),
    Nothing,
    Ended,
}

/// Calls without waiting.
trait Tries {
    fn try_read(&self, into: &mut [u8]) -> Moved;
    fn try_write(&self, bytes: &[u8]) -> Moved;
}

impl Tries for TcpStream {
    fn try_read(&self, into: &mut [u8]) -> Moved {
        moved({ self }.read(into))
    }

    fn try_write(&self, bytes: &[u8]) -> Moved {
        moved({ self }.write(bytes))
    }
}

fn moved(done: io::Result<usize>) -> Moved {
    match done {
        Ok(0) => Moved::Ended,
        Ok(len) => Moved::Bytes(len),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Moved::Nothing
        }
        Err(_) => Moved::Ended,
    }
}

fn retransmits(stream: &TcpStream) -> u64 {
    let mut info = [0; TOTAL_RETRANS + 1];
    let words = option::get(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut info);
    words.map_or(0, |_| info[TOTAL_RETRANS].into())
}
