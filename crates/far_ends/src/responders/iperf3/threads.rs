//! Threads of a test: one for each TCP stream, and for UDP one that receives and one for each stream that is sent from here.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::thread::{Scope, ScopedJoinHandle};

use super::asked::AskedTest;
use super::course::Course;
use super::datagrams::DatagramStreams;
use super::outcome::{CpuTime, StreamTally, ends};
use super::streams;
use super::tally::DatagramTally;
use deadheat_datapath::datapath::destination::canonical;

/// Stack of a thread with a stream.
const STACK: usize = 256 << 10;

/// Result of one thread: the tallies of its streams, by their place, and its CPU time.
pub(super) type ThreadResult = (Vec<(usize, StreamTally)>, CpuTime);

/// Thread that was started, or the refusal of the host.
pub(super) type Started<'scope> = io::Result<ScopedJoinHandle<'scope, ThreadResult>>;

/// Open streams of a test, those that are received here first.
pub(super) enum OpenStreams<'a> {
    Tcp(Vec<TcpStream>),
    Udp(DatagramStreams<'a>, SocketAddr),
}

impl OpenStreams<'_> {
    /// Returns the congestion control of the streams that are sent from here, or else of all.
    pub(super) fn congestion(&self, asked: &AskedTest) -> Option<String> {
        let OpenStreams::Tcp(open) = self else { return None };
        open.get(asked.receiving_and_sending()[0]).or(open.first()).and_then(streams::congestion)
    }

    /// Starts the threads, which end with the course.
    pub(super) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        asked: &'scope AskedTest,
        course: &'scope Course<'_>,
    ) -> Vec<Started<'scope>> {
        let [receiving, sending] = asked.receiving_and_sending();
        match self {
            OpenStreams::Tcp(open) => {
                let start = |(at, stream)| {
                    let tally = StreamTally::new(course, at >= receiving, tcp_ends(stream));
                    spawn(scope, move || {
                        let (tally, cpu) = streams::run(stream, asked, course, tally);
                        (vec![(at, tally)], cpu)
                    })
                };
                open.iter().enumerate().map(start).collect()
            }
            OpenStreams::Udp(open, local) => {
                let tally = |at: usize| {
                    let ends = open.ends(at, *local);
                    let mut tally = StreamTally::new(course, at >= receiving, ends);
                    tally.datagrams = Some(DatagramTally::default());
                    tally
                };
                let tallies: Vec<StreamTally> = (0..receiving).map(tally).collect();
                let receive = move || {
                    let (tallies, cpu) = open.receive(asked, course, tallies);
                    (tallies.into_iter().enumerate().collect(), cpu)
                };
                let send = |at| {
                    let tally = tally(at);
                    spawn(scope, move || {
                        let (tally, cpu) = open.send(at, asked, course, tally);
                        (vec![(at, tally)], cpu)
                    })
                };
                let senders = (receiving..receiving + sending).map(send);
                std::iter::once(spawn(scope, receive)).chain(senders).collect()
            }
        }
    }
}

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> ThreadResult + Send + 'scope,
) -> Started<'scope> {
    let thread = std::thread::Builder::new().name("iperf3 stream".into());
    thread.stack_size(STACK).spawn_scoped(scope, work)
}

fn tcp_ends(stream: &TcpStream) -> String {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) => ends(canonical(local), canonical(peer)),
        _ => "closed".to_owned(),
    }
}
