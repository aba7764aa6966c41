//! Clients made by hand, of which most do not keep to the protocol.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::testing::{TestHost, WIDE};
use super::*;
use deadheat_datapath::transport::responder::TestLimits;

/// Runs `client` against a server with `host`; returns the host once the server has ended.
fn against(host: TestHost, client: impl FnOnce(SocketAddr)) -> TestHost {
    let (tcp, udp) = answering::both("127.0.0.1:0".parse().unwrap()).unwrap();
    let local = udp.local_addr().unwrap();
    let mut server = OpenIperf3 { tcp, udp, local };
    let (stop, stopped) = io::pipe().unwrap();
    std::thread::scope(|scope| {
        let host = &host;
        let served = scope.spawn(move || server.serve(host, stop.as_fd()));
        client(local);
        drop(stopped);
        served.join().unwrap().unwrap();
    });
    host
}

/// Connection with the cookie of a test.
struct Near(TcpStream, Cookie);

impl Near {
    fn with(cookie: Cookie, to: SocketAddr) -> Near {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(&cookie).unwrap();
        Near(stream, cookie)
    }

    /// Connection with a cookie of its own.
    fn new(to: SocketAddr) -> Near {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut cookie = [b'a'; COOKIE_LEN];
        cookie[..4].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        Near::with(cookie, to)
    }

    /// Client whose test has begun: the test of a client that has just left may not be over yet, for longer than one waits.
    fn begun(to: SocketAddr) -> Near {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            let mut near = Near::new(to);
            if near.state() == State::PARAM_EXCHANGE {
                return near;
            }
        }
        panic!("the server stays busy");
    }

    /// Stream of this test.
    fn stream(&self, to: SocketAddr) -> Near {
        Near::with(self.1, to)
    }

    fn state(&mut self) -> State {
        let mut byte = [0];
        self.0.read_exact(&mut byte).unwrap();
        State(byte[0] as i8)
    }

    fn expects(&mut self, states: &[State]) {
        for state in states {
            assert_eq!(self.state(), *state);
        }
    }

    fn say(&mut self, state: State) {
        self.0.write_all(&state.0.to_be_bytes()).unwrap();
    }

    fn send_json(&mut self, json: &Value) {
        let text = json.to_string();
        let len = (text.len() as u32).to_be_bytes();
        self.0.write_all(&[&len[..], text.as_bytes()].concat()).unwrap();
    }

    fn json(&mut self) -> Value {
        let mut len = [0; 4];
        self.0.read_exact(&mut len).unwrap();
        let mut text = vec![0; u32::from_be_bytes(len) as usize];
        self.0.read_exact(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// The number of iperf3's with which the server refuses.
    fn refusal(&mut self) -> u32 {
        self.expects(&[State::SERVER_ERROR]);
        let mut numbers = [0; 8];
        self.0.read_exact(&mut numbers).unwrap();
        assert_eq!(self.0.read(&mut [0]).unwrap(), 0, "the server has closed");
        u32::from_be_bytes(*numbers.first_chunk().unwrap())
    }

    /// A client that has sent its parameters.
    fn asking(to: SocketAddr, parameters: &Value) -> Near {
        let mut near = Near::begun(to);
        near.send_json(parameters);
        near
    }
}

/// An upload of so many bytes by one TCP stream; returns the results.
fn upload(to: SocketAddr, bytes: usize) -> Value {
    let mut near = Near::asking(to, &json!({"tcp": true, "time": 5, "get_server_output": 1}));
    near.expects(&[State::CREATE_STREAMS]);
    let mut stream = near.stream(to);
    near.expects(&[State::TEST_START, State::TEST_RUNNING]);
    stream.0.write_all(&vec![7; bytes]).unwrap();
    near.say(State::TEST_END);
    near.expects(&[State::EXCHANGE_RESULTS]);
    near.send_json(&json!({}));
    let results = near.json();
    near.expects(&[State::DISPLAY_RESULTS]);
    near.say(State::IPERF_DONE);
    results
}

#[test]
fn a_whole_test_counts_all_that_arrived_and_returns_the_turn() {
    let host = against(TestHost::new(), |to| {
        let results = upload(to, 100_000);
        assert_eq!(results["streams"][0]["bytes"], 100_000, "{results}");
        let words = results["server_output_text"].as_str().unwrap();
        assert!(words.starts_with("Accepted connection from 127.0.0.1"), "{words}");
    });
    assert!(host.has_said("TCP up, streams: 1, 5.00 s started") && host.has_said("turn returned"));
    let [_, received] = *host.charged.lock().unwrap();
    assert!(received >= 100_000, "with headers: {received}");
}

#[test]
fn another_client_is_turned_away_and_so_is_everyone_while_a_trial_runs() {
    against(TestHost::new(), |to| {
        let mut near = Near::asking(to, &json!({"tcp": true, "time": 5}));
        near.expects(&[State::CREATE_STREAMS]);
        let mut other = Near::new(to);
        other.expects(&[State::ACCESS_DENIED]);
        assert_eq!(other.0.read(&mut [0]).unwrap(), 0);
        let _stream = near.stream(to);
        near.expects(&[State::TEST_START, State::TEST_RUNNING]);
        near.say(State::CLIENT_TERMINATE);
    });
    let host = TestHost { is_busy: true, ..TestHost::new() };
    against(host, |to| Near::new(to).expects(&[State::ACCESS_DENIED]));
}

/// The clock is that of the test: no wait here takes time.
#[test]
fn a_client_waits_a_moment_for_the_end_of_a_test_that_may_be_over() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let (_, udp) = answering::both("127.0.0.1:0".parse().unwrap()).unwrap();
    let (host, (stop, stopped)) = (TestHost::new(), io::pipe().unwrap());
    let running = Mutex::default();
    let stop = stop.as_fd();
    let desk = Desk { udp: &udp, here: to, host: &host, stop, running: &running };
    let since = Monotonic.now();
    let arrive = |order| {
        let near = Near::new(to);
        let (stream, peer) = listener.accept().unwrap();
        let (cookie, have) = (near.1, COOKIE_LEN);
        (near, PendingConnection { stream, peer, since, order, cookie, have })
    };
    let (last, _arrivals) = channel();
    let client = to.ip();
    *desk.lock() = Some(RunningTest { cookie: [0; COOKIE_LEN], client, streams: last });
    std::thread::scope(|scope| {
        let just_before = since + (TURN_TIME - Nanos(1));
        let (mut patient, one) = arrive(0);
        let mut waiting = vec![desk.judge(scope, one, just_before).unwrap()];
        assert_eq!(waiting[0].due(just_before), just_before + GLANCE);
        let (mut late, one) = arrive(1);
        assert!(desk.judge(scope, one, since + TURN_TIME).is_none());
        late.expects(&[State::ACCESS_DENIED]);
        // The test ends, and the next look finds the turn free, however late it is.
        *desk.lock() = None;
        read_cookies(&mut waiting, &mut |one, _| {
            desk.judge(scope, one, since + Nanos::from_secs(9))
        });
        assert!(waiting.is_empty());
        patient.expects(&[State::PARAM_EXCHANGE]);
        drop(stopped);
    });
    let denials = host.said.lock().unwrap().iter().filter(|said| said.contains("away")).count();
    assert_eq!(denials, 1, "{:?}", host.said);
}

#[test]
fn limits_are_refused_by_iperf3s_own_numbers_before_and_amid_a_test() {
    let limits = TestLimits { bytes: 500_000, ..WIDE };
    let host = against(TestHost { limits, ..TestHost::new() }, |to| {
        let refused = |parameters: Value| Near::asking(to, &parameters).refusal();
        assert_eq!(refused(json!({"tcp": true, "time": 3_600, "client_version": "3.12"})), 5);
        assert_eq!(refused(json!({"tcp": true, "num": 1_000_000})), 27);
        let mut near = Near::asking(to, &json!({"tcp": true, "time": 5}));
        near.expects(&[State::CREATE_STREAMS]);
        let mut stream = near.stream(to);
        near.expects(&[State::TEST_START, State::TEST_RUNNING]);
        // The server may close the stream amid this.
        let _ = stream.0.write_all(&vec![7; 4_000_000]);
        assert_eq!(near.refusal(), 27);
    });
    assert!(host.has_said("--max-bytes"), "{:?}", host.said);
}

/// Whatever a client does in a state, the next one has its test.
#[test]
fn garbage_and_an_end_in_any_state_cost_that_test_alone() {
    let at_each_state: [&[u8]; 5] =
        [b"", b"\x04", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 200], &[0; 64]];
    against(TestHost::new(), |to| {
        for garbage in at_each_state {
            // Instead of a cookie: cut, and another text.
            let _ = TcpStream::connect(to).unwrap().write_all(garbage);
            // Instead of parameters.
            let mut near = Near::begun(to);
            let _ = near.0.write_all(garbage);
            drop(near);
            // Instead of streams.
            let mut near = Near::asking(to, &json!({"tcp": true, "time": 5, "parallel": 2}));
            near.expects(&[State::CREATE_STREAMS]);
            let _ = near.0.write_all(garbage);
            drop(near);
            // Instead of the end of the test, and of results.
            for is_ended in [false, true] {
                let mut near = Near::asking(to, &json!({"tcp": true, "time": 5}));
                near.expects(&[State::CREATE_STREAMS]);
                let _stream = near.stream(to);
                near.expects(&[State::TEST_START, State::TEST_RUNNING]);
                if is_ended {
                    near.say(State::TEST_END);
                    near.expects(&[State::EXCHANGE_RESULTS]);
                }
                let _ = near.0.write_all(garbage);
            }
        }
        assert_eq!(upload(to, 10_000)["streams"][0]["bytes"], 10_000);
    });
}

#[test]
fn datagrams_of_the_client_alone_open_streams_and_are_answered_by_as_many_bytes() {
    against(TestHost::new(), |to| {
        let parameters = json!({"udp": true, "time": 5, "len": 100, "udp_counters_64bit": 1});
        let mut near = Near::asking(to, &parameters);
        near.expects(&[State::CREATE_STREAMS]);
        let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        own.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stranger.send_to(&[0x39, 0x38, 0x37, 0x36], to).unwrap();
        own.send_to(&[0; 5], to).unwrap();
        own.send_to(&[0x39, 0x38, 0x37, 0x36], to).unwrap();
        let mut reply = [0; 9];
        assert_eq!(own.recv_from(&mut reply).unwrap(), (4, to));
        assert_eq!(reply[..4], [0x36, 0x37, 0x38, 0x39]);
        near.expects(&[State::TEST_START, State::TEST_RUNNING]);
        stranger.set_nonblocking(true).unwrap();
        assert_eq!(stranger.recv(&mut reply).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        for number in [1_u64, 2, 5] {
            let datagram = [&[0; 8][..], &number.to_be_bytes(), &[0; 84]].concat();
            own.send_to(&datagram, to).unwrap();
            stranger.send_to(&datagram, to).unwrap();
        }
        near.say(State::TEST_END);
        near.expects(&[State::EXCHANGE_RESULTS]);
        near.send_json(&json!({}));
        let stream = &near.json()["streams"][0];
        assert_eq!((&stream["packets"], &stream["errors"]), (&json!(5), &json!(2)), "{stream}");
        assert_eq!(stream["bytes"], 300);
    });
}

/// iperf3's client reads whole blocks, and waits for the rest of one before it looks at anything else.
#[test]
fn a_download_ends_with_the_test_though_the_client_waits_for_a_whole_block() {
    against(TestHost::new(), |to| {
        let mut near = Near::asking(to, &json!({"tcp": true, "time": 5, "reverse": true}));
        near.expects(&[State::CREATE_STREAMS]);
        let mut stream = near.stream(to);
        near.expects(&[State::TEST_START, State::TEST_RUNNING]);
        stream.0.read_exact(&mut [0; 100_000]).unwrap();
        near.say(State::TEST_END);
        let rest = io::copy(&mut stream.0, &mut io::sink()).unwrap();
        near.expects(&[State::EXCHANGE_RESULTS]);
        near.send_json(&json!({}));
        let results = near.json();
        assert_eq!(results["streams"][0]["bytes"], 100_000 + rest, "{results}");
        assert!(results["streams"][0]["retransmits"].is_number(), "{results}");
    });
}

#[test]
fn a_server_that_stops_says_so_in_the_protocols_own_words() {
    let (tcp, udp) = answering::both("127.0.0.1:0".parse().unwrap()).unwrap();
    let local = udp.local_addr().unwrap();
    let mut server = OpenIperf3 { tcp, udp, local };
    let (host, (stop, stopped)) = (TestHost::new(), io::pipe().unwrap());
    std::thread::scope(|scope| {
        let host = &host;
        let served = scope.spawn(move || server.serve(host, stop.as_fd()));
        let mut near = Near::asking(local, &json!({"tcp": true, "time": 5, "reverse": true}));
        near.expects(&[State::CREATE_STREAMS]);
        let mut stream = near.stream(local);
        near.expects(&[State::TEST_START, State::TEST_RUNNING]);
        stream.0.read_exact(&mut [0; 100_000]).unwrap();
        drop(stopped);
        near.expects(&[State::SERVER_TERMINATE]);
        drop((near, stream));
        served.join().unwrap().unwrap();
    });
    let [sent, _] = *host.charged.lock().unwrap();
    assert!(sent >= 100_000);
}

/// Connections that say nothing, of as few addresses as can fill all places.
#[test]
fn a_crowd_that_says_nothing_makes_room_at_once() {
    let listener = answering::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = listener.local_addr().unwrap();
    let since = Monotonic.now() - STALE;
    let silent = |order: usize| {
        let (near, far) = io_pair();
        let peer = SocketAddr::from(([10, 0, 0, (order % 4) as u8], 4_000));
        let cookie = [0; COOKIE_LEN];
        let order = order as u64;
        (near, PendingConnection { stream: far, peer, since, order, cookie, have: 0 })
    };
    let (_crowd, mut pending): (Vec<_>, Vec<_>) = (0..PENDING.in_all).map(silent).unzip();
    let mut order = 1_000;
    let _honest: Vec<TcpStream> = (0..9).map(|_| TcpStream::connect(to).unwrap()).collect();
    while order < 1_009 {
        // The kernel may hand a connection over a moment later.
        accept(&listener, &mut pending, &mut order);
    }
    assert_eq!(pending.len(), PENDING.in_all);
    let honest = pending.iter().filter(|one| one.peer.ip() == to.ip()).count();
    assert_eq!(honest, 9);
}

/// Returns both ends of a TCP connection.
fn io_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}
