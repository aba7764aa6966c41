//! UDP streams of a test. All of them have the socket of the port: one thread takes what arrives for any of them, and each
//! stream that is sent from here has a thread of its own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use deadheat_base::waiting::set_timer_slack;

use super::asked::{AskedTest, TOTAL_RATE};
use super::control::TestFailure;
use super::course::Course;
use super::outcome::{CpuTime, StreamTally, ends};
use super::tally::DatagramHeader;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::answering::{AnswerSocket, Arrived};
use deadheat_datapath::datapath::policer::time_at;

/// Answer to the first datagram of a stream, as its bytes are on the wire; no more than it had.
const REPLY: [u8; FIRST_LEN] = [0x36, 0x37, 0x38, 0x39];
const FIRST_LEN: usize = 4;

/// Number of datagrams that are taken between two looks at the end of the test.
const AT_ONCE: usize = 64;

/// Time by which a stream may be behind its rate and catch up.
const BEHIND: Nanos = Nanos::from_millis(100);

/// Datagrams of one test at the socket of the port.
pub(super) struct DatagramStreams<'a> {
    pub(super) udp: &'a AnswerSocket,
    /// Client, whose address its control connection has proved.
    pub(super) client: IpAddr,
    /// First datagram of each stream, in order.
    pub(super) streams: Vec<Arrived>,
}

impl<'a> DatagramStreams<'a> {
    /// Drops what arrived before the test, and expects streams of `client`.
    pub(super) fn expect(udp: &'a AnswerSocket, client: IpAddr) -> DatagramStreams<'a> {
        let mut dropped = [0; 1];
        // Not without an end, should a flood go on.
        for _ in 0..1 << 16 {
            if matches!(udp.receive(&mut dropped), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
            {
                break;
            }
        }
        DatagramStreams { udp, client, streams: Vec::new() }
    }

    /// Takes the first datagrams of streams, and answers each.
    pub(super) fn accept(&mut self, most: usize) {
        let mut bytes = [0; FIRST_LEN + 1];
        for _ in 0..AT_ONCE {
            let arrived = match self.udp.receive(&mut bytes) {
                Ok(arrived) => arrived,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => continue,
            };
            if arrived.len != FIRST_LEN || arrived.peer.ip() != self.client {
                continue;
            }
            let is_known = self.streams.iter().any(|stream| stream.peer == arrived.peer);
            if !is_known && self.streams.len() < most {
                self.streams.push(arrived);
            }
            if is_known || self.streams.last().is_some_and(|last| last.peer == arrived.peer) {
                // Where it is lost the client gives up: its protocol sends the first datagram once.
                let _ = self.udp.answer(&REPLY, &arrived, None);
            }
        }
    }

    /// Takes the datagrams of streams until the course is over; `tallies` are those of the first streams.
    pub(super) fn receive(
        &self,
        asked: &AskedTest,
        course: &Course<'_>,
        mut tallies: Vec<StreamTally>,
    ) -> (Vec<StreamTally>, CpuTime) {
        let mut datagram = vec![0; 1 << 16];
        let mut last = course.begin;
        loop {
            let is_over = course.is_over();
            for _ in 0..AT_ONCE {
                let arrived = match self.udp.receive(&mut datagram) {
                    Ok(arrived) => arrived,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        if is_over {
                            return (tallies, CpuTime::of_thread());
                        }
                        course.wait_for(self.udp.as_fd(), libc::POLLIN);
                        break;
                    }
                    Err(_) => continue,
                };
                let now = Monotonic.now();
                let is_of = |stream: &Arrived| stream.peer == arrived.peer;
                let Some(at) = self.streams.iter().position(is_of) else { continue };
                let due = course.charge(last, [0, arrived.packet(arrived.len)]);
                last = now;
                if due[1] > now && !is_over {
                    let why = "its datagrams came faster than --max-rate";
                    course.fail(TestFailure::Refused(TOTAL_RATE, why.to_owned()));
                }
                let Some(tally) = tallies.get_mut(at) else { continue };
                tally.begins_to_count(now);
                tally.add(now, arrived.len as u64);
                if let Some(datagrams) = &mut tally.datagrams {
                    datagrams.note(&datagram[..arrived.len], asked.has_wide_numbers, now);
                }
            }
            if is_over && last + BEHIND < Monotonic.now() {
                return (tallies, CpuTime::of_thread());
            }
        }
    }

    /// Sends the datagrams of the stream `at` until the course is over.
    pub(super) fn send(
        &self,
        at: usize,
        asked: &AskedTest,
        course: &Course<'_>,
        mut tally: StreamTally,
    ) -> (StreamTally, CpuTime) {
        set_timer_slack(Nanos(1));
        let Some(to) = self.streams.get(at) else { return (tally, CpuTime::default()) };
        let mut datagram = vec![0; asked.len];
        let (mut number, mut next, mut last) = (0, course.begin, course.begin);
        while !course.is_over() {
            let now = Monotonic.now();
            tally.begins_to_count(now);
            if next > now {
                course.sleep_until(next);
                continue;
            }
            let header = DatagramHeader { sent: now, number: number + 1 };
            header.write(&mut datagram, asked.has_wide_numbers);
            match self.udp.answer(&datagram, to, asked.field) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    course.wait_for(self.udp.as_fd(), libc::POLLOUT);
                    continue;
                }
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => {
                    let why = format!("datagrams of {} bytes do not leave: {e}", asked.len);
                    course.fail(TestFailure::Gone(why));
                    break;
                }
                // Answers of ICMP to earlier datagrams; a full queue: this one is lost.
                Err(_) => {}
            }
            number += 1;
            if let Some(datagrams) = &mut tally.datagrams {
                datagrams.packets = number;
            }
            tally.add(now, datagram.len() as u64);
            let due = course.charge(last, [to.packet(datagram.len()), 0]);
            last = now;
            if let Some(rate) = asked.rate {
                next = next.max(now - BEHIND) + time_at(rate, datagram.len() as u64);
            }
            next = next.max(due[0]);
        }
        (tally, CpuTime::of_thread())
    }

    /// Returns the ends of the stream `at`, in words; `local` is the address of the port.
    pub(super) fn ends(&self, at: usize, local: SocketAddr) -> String {
        let Some(stream) = self.streams.get(at) else { return "closed".to_owned() };
        let ip = stream.to.map_or(local.ip(), |to| to.ip.to_canonical());
        ends(SocketAddr::new(ip, local.port()), stream.peer)
    }
}
