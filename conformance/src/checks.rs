//! The checks, one a function.

use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::{io, thread};

use deadheat::Error;
use deadheat::contract::{
    Delivery, Ending, Framing, Inbox, Lane, Ordering, Patience, Reach, Service,
};
use deadheat::time::{Clock, Monotonic, Nanos};
use deadheat::transport::handover::{ConnectionSource, HandOver};
use deadheat::transport::hello::Hello;
use deadheat::transport::own_port::PresentedConnection;
use deadheat::transport::{Address, Contender, Progress};

use crate::rig::*;

/// Checks that a wrong token gets nothing and the right one still gets in.
pub fn a_wrong_token_gets_nothing_and_the_right_one_still_gets_in(subjects: &Subjects) {
    for (contender, at) in subjects.ours().chain(subjects.mixes()) {
        let mut listener = listen(&contender, &at, ConnectionSource::Own).unwrap();
        let to = listener.endpoint();
        thread::scope(|scope| {
            let far = scope.spawn(move || listener.accept(LONG));
            let hello = |token| Hello { token, flow: 0x0102 };
            let refused = dial(&contender, &to, hello(WRONG), SHORT);
            assert!(refused.is_err(), "{contender:?} let a stranger in at {to}");
            let near = dial(&contender, &to, hello(RIGHT), LONG);
            assert!(near.is_ok(), "{contender:?} at {to}: {}", near.err().unwrap());
            assert_eq!(far.join().unwrap().unwrap().0, 0x0102, "{contender:?}");
        });
    }
}

/// Checks that messages of all sizes come back as they went.
pub fn messages_of_all_sizes_come_back_as_they_went(subjects: &Subjects) {
    for (contender, at) in subjects.everyone().into_iter().chain(subjects.mixes()) {
        let mut ends = connect(&contender, &at);
        let most = largest(contender.transport.info());
        let sizes = [1, 2, 3, 4, 5, 63, 64, 65, 1400, 1500, 9000, 32_768, most];
        for (n, size) in sizes.into_iter().filter(|size| *size <= most).enumerate() {
            let back = ends.echo(&content(n as u64, size));
            assert_eq!(back.len(), size, "{contender:?}");
            assert!(back == content(n as u64, size), "{contender:?}: {size} bytes changed");
        }
    }
}

/// Checks that a window of messages arrives whole and in order.
pub fn a_window_of_messages_arrives_whole_and_in_order(subjects: &Subjects) {
    const COUNT: u64 = 3000;
    const WINDOW: u64 = 24;
    for (contender, at) in subjects.everyone().into_iter().chain(subjects.mixes()) {
        let promised = contender.transport.info().guarantees;
        let mut ends = connect(&contender, &at);
        let (mut sent, mut back) = (0, Vec::new());
        let mut quiet = 0;
        let deadline = Deadline::new(&contender);
        // A sender may pace its messages, so only lost ones are not waited for.
        let is_reliable = promised.service.delivery == Delivery::Reliable;
        while (back.len() as u64) < COUNT && (is_reliable || quiet < 3) {
            deadline.check();
            while sent < COUNT && sent - (back.len() as u64) < WINDOW {
                if send(&mut *ends.near, &content(sent, 200)) == Progress::Idle {
                    break;
                }
                sent += 1;
            }
            ends.answer();
            let got = receive(&mut *ends.near, Patience::Block);
            quiet = if got.is_empty() { quiet + 1 } else { 0 };
            back.extend(got);
        }
        let numbers: Vec<u64> = back.iter().map(|message| number(message, 200)).collect();
        if is_reliable {
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..COUNT).collect::<Vec<_>>(), "{contender:?} lost messages");
        }
        if promised.service.ordering == Ordering::Ordered {
            assert!(numbers.is_sorted(), "{contender:?} changed the order");
        }
    }
}

/// What arrived on each lane, as numbers.
struct ByLane(Vec<Vec<u64>>);

impl Inbox for ByLane {
    fn message(&mut self, lane: Lane, bytes: &[u8]) {
        self.0[usize::from(lane.0)].push(number(bytes, 200));
    }
}

/// Checks that every service on offer is had on several lanes at once.
pub fn every_service_on_offer_is_had_on_several_lanes_at_once(subjects: &Subjects) {
    const EACH: u64 = 100;
    for (contender, at) in subjects.ours() {
        let promised = contender.transport.info().guarantees;
        if promised.lanes == 1 && promised.offers().count() == 1 {
            continue;
        }
        let offered: Vec<Service> = promised
            .offers()
            .map(|offer| match offer.service.delivery {
                Delivery::Within(_) => {
                    Service { delivery: Delivery::Within(LONG), ..offer.service }
                }
                _ => offer.service,
            })
            .collect();
        let lanes: Vec<Service> = offered.iter().flat_map(|service| [*service; 2]).collect();
        let lanes = &lanes[..lanes.len().min(promised.lanes.into())];
        let mut ends = connect_lanes(&contender, &at, lanes, 200);
        let far = ends.far.as_mut().unwrap();
        let mut arrived = ByLane(vec![Vec::new(); lanes.len()]);
        let deadline = Deadline::new(&contender);
        // What may be given up is, where a busy host lets a timer fire.
        let whole = |arrived: &ByLane| {
            let mut lanes = arrived.0.iter().zip(lanes);
            lanes.all(|(lane, service)| {
                service.delivery != Delivery::Reliable || lane.len() as u64 == EACH
            })
        };
        for sent in 0..EACH {
            for lane in 0..lanes.len() as u16 {
                while ends.near.send(Lane(lane), &content(sent, 200)).unwrap() == Progress::Idle {
                    deadline.check();
                    tend(&mut *ends.near);
                    tend(&mut **far);
                    far.receive(Patience::None, &mut arrived).unwrap();
                }
            }
            tend(&mut **far);
            far.receive(Patience::None, &mut arrived).unwrap();
        }
        while !whole(&arrived) {
            deadline.check();
            tend(&mut *ends.near);
            tend(&mut **far);
            far.receive(Patience::None, &mut arrived).unwrap();
        }
        for (lane, service) in arrived.0.iter_mut().zip(lanes) {
            if service.ordering == Ordering::Unordered {
                lane.sort_unstable();
            }
            if service.delivery == Delivery::Reliable {
                assert_eq!(*lane, (0..EACH).collect::<Vec<_>>(), "{contender:?}: {service}");
            }
            let once = lane.is_sorted_by(|a, b| a < b);
            assert!(once && lane.last() < Some(&EACH), "{contender:?}: {service}: {lane:?}");
            assert!(!lane.is_empty(), "{contender:?}: nothing came as {service}");
        }
        let error = ends.near.send(Lane(lanes.len() as u16), &content(0, 200)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{contender:?}: {error}");
    }
}

/// Checks that what a full transport took arrives once there is room.
pub fn what_a_full_transport_took_arrives_once_there_is_room(subjects: &Subjects) {
    for (contender, at) in subjects.ours().chain(subjects.mixes()) {
        if contender.transport.info().guarantees.service.delivery != Delivery::Reliable {
            continue;
        }
        let mut ends = connect(&contender, &at);
        let size = largest(contender.transport.info());
        let deadline = Deadline::new(&contender);
        let mut taken = 0;
        while ends.near.send(Lane(0), &content(taken, size)).unwrap() == Progress::Moved {
            taken += 1;
            deadline.check();
        }
        assert!(taken > 0, "{contender:?} took nothing");
        let far = ends.far.as_mut().unwrap();
        let mut arrived = Vec::new();
        while (arrived.len() as u64) < taken {
            deadline.check();
            tend(&mut *ends.near);
            arrived.extend(receive(&mut **far, Patience::None));
        }
        assert!(!ends.near.readiness().has_backlog, "{contender:?}");
        for (n, message) in arrived.iter().enumerate() {
            assert_eq!(number(message, size), n as u64, "{contender:?}");
        }
        assert_eq!(ends.echo(b"still there"), b"still there", "{contender:?}");
    }
}

/// Checks that bulk arrives as sent both ways.
pub fn bulk_arrives_as_sent_both_ways(subjects: &Subjects) {
    for (contender, at) in subjects.ours() {
        let Ends { near, far } = connect(&contender, &at);
        let mut far = far.unwrap();
        let mut near = near;
        bulk(&contender, &mut *near, &mut *far, a_lot());
        bulk(&contender, &mut *far, &mut *near, a_lot());
    }
}

/// Checks that every byte arrives as sent whichever engines move it.
pub fn every_byte_arrives_as_sent_whichever_engines_move_it(subjects: &Subjects) {
    for (plain, at) in subjects.ours() {
        for contender in engines(&plain) {
            if let Some(why) = lacking(&contender, &at) {
                println!("skipped: {why}");
                continue;
            }
            let Ends { mut near, far } = connect(&contender, &at);
            let mut far = far.unwrap();
            bulk(&contender, &mut *near, &mut *far, BULK_PER_ENGINE);
            bulk(&contender, &mut *far, &mut *near, BULK_PER_ENGINE);
        }
    }
}

/// Checks that an ended direction shows and the other one still works.
pub fn an_ended_direction_shows_and_the_other_one_still_works(subjects: &Subjects) {
    for (contender, at) in subjects.ours() {
        if contender.transport.info().guarantees.ending != Ending::Told {
            continue;
        }
        let mut ends = connect(&contender, &at);
        let far = ends.far.as_mut().unwrap();
        assert_eq!(send(&mut *ends.near, b"last words"), Progress::Moved);
        ends.near.finish().unwrap();
        let mut inbox = Kept::default();
        let deadline = Deadline::new(&contender);
        while far.receive(patience(&**far), &mut inbox).unwrap() != Progress::Closed {
            tend(&mut *ends.near);
            deadline.check();
        }
        assert_eq!(inbox.0, [b"last words"], "{contender:?}");
        assert_eq!(send(&mut **far, b"answer"), Progress::Moved);
        assert_eq!(ends.hear(), b"answer", "{contender:?}");
    }
}

/// Checks that the last bytes arrive after the application has finished.
pub fn the_last_bytes_arrive_after_the_application_has_finished(subjects: &Subjects) {
    const COUNT: u64 = 20;
    for (contender, at) in subjects.ours().chain(subjects.mixes()) {
        let info = contender.transport.info();
        if info.guarantees.service.delivery != Delivery::Reliable {
            continue;
        }
        let Ends { mut near, far } = connect_with(&contender, &at, 1_000);
        let (mut far, deadline) = (far.unwrap(), Deadline::new(&contender));
        let mut sent = 0;
        while sent < COUNT && send(&mut *near, &content(sent, 1_000)) == Progress::Moved {
            sent += 1;
        }
        near.finish().unwrap();
        thread::scope(|scope| {
            // The application is gone; only the connection's own work is done.
            let parting = scope.spawn(move || {
                while !near.is_drained() {
                    deadline.check();
                    tend(&mut *near);
                }
            });
            let deadline = Deadline::new(&contender);
            let mut inbox = Kept::default();
            loop {
                deadline.check();
                tend(&mut *far);
                let progress = far.receive(patience(&*far), &mut inbox).unwrap();
                let is_all = inbox.0.len() as u64 >= sent;
                if progress == Progress::Closed
                    || (is_all && info.guarantees.ending == Ending::Silent)
                {
                    break;
                }
            }
            assert_eq!(inbox.0.len() as u64, sent, "{contender:?}");
            for (n, message) in inbox.0.iter().enumerate() {
                assert_eq!(number(message, 1_000), n as u64, "{contender:?}");
            }
            // The last acknowledgements.
            while !parting.is_finished() {
                deadline.check();
                tend(&mut *far);
            }
        });
    }
}

/// Checks that timers fire though the window is full and nobody answers.
pub fn timers_fire_though_the_window_is_full_and_nobody_answers(subjects: &Subjects) {
    for (contender, at) in subjects.ours() {
        let info = contender.transport.info();
        if contender.transport.userspace().is_none()
            || info.guarantees.service.delivery != Delivery::Reliable
        {
            continue;
        }
        let mut ends = connect(&contender, &at);
        let deadline = Deadline::new(&contender);
        while send(&mut *ends.near, &content(0, largest(info).min(9_000))) == Progress::Moved {
            deadline.check();
        }
        assert!(ends.near.next_deadline().is_some(), "{contender:?} waits for nothing");
        let before = ends.near.info().stats.send_calls;
        while ends.near.info().stats.send_calls == before {
            deadline.check();
            tend(&mut *ends.near);
        }
        assert!(!ends.near.is_drained(), "{contender:?}");
    }
}

/// Checks that knobs that were asked for are read back at both ends.
pub fn knobs_that_were_asked_for_are_read_back_at_both_ends(subjects: &Subjects) {
    for (plain, at) in subjects.ours() {
        let info = plain.transport.info();
        for key in info.keys {
            for value in values(&key.kind) {
                let typed = format!("{}:{}={value}", info.id, key.name);
                let contender = Contender::parse(&typed).unwrap();
                if let Some(why) = lacking(&contender, &at) {
                    println!("skipped: {why}");
                    continue;
                }
                let ends = connect_with(&contender, &at, 1000);
                let far = ends.far.as_ref().unwrap();
                for (end, effective) in [("near", ends.near.effective()), ("far", far.effective())]
                {
                    assert!(effective.contains_key(key.name), "{typed}, {end}: {effective:?}");
                }
            }
        }
    }
}

/// Checks that calls are counted.
pub fn calls_are_counted(subjects: &Subjects) {
    for (contender, at) in subjects.everyone() {
        let mut ends = connect(&contender, &at);
        ends.echo(b"ping");
        for conn in [Some(&ends.near), ends.far.as_ref()].into_iter().flatten() {
            let stats = conn.info().stats;
            if conn.readiness().fd.is_some() {
                assert!(stats.send_calls > 0, "{contender:?}: {stats:?}");
                assert!(stats.receive_calls > 0, "{contender:?}: {stats:?}");
            }
        }
    }
}

/// Checks that a peer that vanishes hangs nobody.
pub fn a_peer_that_vanishes_hangs_nobody(subjects: &Subjects) {
    for (contender, at) in subjects.ours().chain(subjects.mixes()) {
        let promised = contender.transport.info().guarantees;
        let mut ends = connect(&contender, &at);
        ends.echo(b"ping");
        drop(ends.far.take());
        let deadline = Deadline::new(&contender);
        let mut noticed = false;
        for _ in 0..5 {
            deadline.check();
            noticed |= !matches!(
                ends.near.receive(Patience::Block, &mut Kept::default()),
                Ok(Progress::Moved | Progress::Idle)
            );
            noticed |= ends.near.send(Lane(0), &content(0, 1000)).is_err();
            // A protocol in user space goes on trying, and the host answers that nobody is there.
            noticed |= ends.near.info().stats.network_errors > 0;
        }
        if promised.service.delivery == Delivery::Reliable {
            assert!(noticed, "{contender:?} noticed nothing");
        }
        // Whatever comes of it, it comes back.
        let _ = ends.near.finish();
    }
}

/// Checks that nobody at home is an error in time.
pub fn nobody_at_home_is_an_error_in_time(subjects: &Subjects) {
    for (contender, at) in subjects.ours() {
        let mut listener = listen(&contender, &at, ConnectionSource::Own).unwrap();
        let error = listener.accept(Nanos::from_millis(20)).err().unwrap();
        assert!(matches!(error, Error::Blocked { .. }), "{contender:?}: {error}");
        let to = listener.endpoint();
        drop(listener);
        let began = Monotonic.now();
        let hello = Hello { token: RIGHT, flow: 0 };
        let error = dial(&contender, &to, hello, SHORT).err().unwrap();
        assert!(error.to_string().contains(&to.to_string()), "{contender:?}: {error}");
        assert!(Monotonic.now() - began < LONG, "{contender:?}");
    }
}

/// Checks that messages that cannot be are refused.
pub fn messages_that_cannot_be_are_refused(subjects: &Subjects) {
    for (contender, at) in subjects.everyone() {
        let info = contender.transport.info();
        let mut ends = connect(&contender, &at);
        let most = info.guarantees.largest_message.map_or(LARGEST, |most| most as usize);
        let error = ends.near.send(Lane(0), &vec![0; most + 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{contender:?}: {error}");
        assert_eq!(ends.echo(b"fine"), b"fine", "{contender:?}");
    }
}

/// Checks that a silent stranger holds nobody up.
pub fn a_silent_stranger_holds_nobody_up(subjects: &Subjects) {
    for (contender, at) in subjects.ours() {
        let info = contender.transport.info();
        let accepts_streams = (info.reach, info.guarantees.framing)
            == (Reach::Network, Framing::ByteStream)
            && contender.transport.userspace().is_none();
        if !accepts_streams {
            continue;
        }
        let mut listener = listen(&contender, &at, ConnectionSource::Own).unwrap();
        let to = listener.endpoint();
        let Address::Ip(address) = to else { panic!("{to}") };
        let silent: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        let began = Monotonic.now();
        thread::scope(|scope| {
            let far = scope.spawn(move || listener.accept(LONG));
            let hello = Hello { token: RIGHT, flow: 9 };
            dial(&contender, &to, hello, LONG).unwrap();
            assert_eq!(far.join().unwrap().unwrap().0, 9);
        });
        // Each of them is waited for much longer.
        assert!(Monotonic.now() - began < Nanos::from_secs(9), "{contender:?}");
        drop(silent);
    }
}

/// Checks that a transport of one machine takes nothing from a server.
pub fn a_transport_of_one_machine_takes_nothing_from_a_server(subjects: &Subjects) {
    for (contender, at) in subjects.ours().chain(subjects.mixes()) {
        if matches!(contender.transport.info().reach, Reach::Network | Reach::OwnPort) {
            continue;
        }
        let (_server, agent) = HandOver::pair().unwrap();
        let error = listen(&contender, &at, ConnectionSource::Handed(agent)).err().unwrap();
        assert!(matches!(error, Error::Unsupported { .. }), "{contender:?}: {error}");
    }
}

/// Ports of `serve --also`, without its server: the port reads hellos, and an agent's listener gets the connections.
pub fn connections_at_a_port_of_its_own_reach_the_agent_that_they_are_handed_to(
    subjects: &Subjects,
) {
    for (contender, at) in subjects.ours() {
        if contender.transport.info().reach != Reach::OwnPort {
            continue;
        }
        let contender = &contender;
        let Address::Ip(any) = at else { panic!("{at}") };
        let free = UdpSocket::bind(any).unwrap().local_addr().unwrap();
        let mut port = contender.transport.info().own_port.unwrap()(free).unwrap();
        let (server, agent) = HandOver::pair().unwrap();
        let to = Address::Ip(free);
        let mut listener = listen(contender, &to, ConnectionSource::Handed(agent)).unwrap();
        let (stop, pull) = UnixStream::pair().unwrap();
        let contender = &contender;
        thread::scope(|scope| {
            scope.spawn(move || {
                while let Some(presented) = port.next(stop.as_fd()).unwrap() {
                    let (hello, handed) = match presented {
                        PresentedConnection::Stream { hello, socket, .. } => {
                            (hello, server.give_stream(hello.flow, socket.as_fd()))
                        }
                        PresentedConnection::Datagrams { hello, local, peer } => {
                            (hello, server.give_datagrams(hello.flow, local, peer))
                        }
                    };
                    // A repeated hello may come after the agent has taken the flow and closed its end.
                    drop(handed);
                    assert_eq!((hello.token, hello.flow), (RIGHT, 9), "{contender:?}");
                }
            });
            let far = scope.spawn(move || listener.accept(LONG).unwrap());
            let hello = Hello { token: RIGHT, flow: 9 };
            let near = dial(contender, &to, hello, LONG).unwrap();
            let (flow, far) = far.join().unwrap();
            assert_eq!(flow, 9, "{contender:?}");
            let mut ends = Ends { near, far: Some(far) };
            assert_eq!(ends.echo(b"through the port"), b"through the port", "{contender:?}");
            drop(pull);
        });
    }
}

/// Checks that a byte stream says how many bytes mark the messages in it (`Info::framing_bytes`): without them the bytes on the
/// wire that a race shows for each message are wrong.
pub fn a_byte_stream_says_what_marks_its_messages(subjects: &Subjects) {
    for (contender, _) in subjects.everyone() {
        let info = contender.transport.info();
        if info.guarantees.framing == Framing::ByteStream {
            assert!(info.framing_bytes > 0, "{contender:?}: framing_bytes of its Info is 0");
        }
    }
}
