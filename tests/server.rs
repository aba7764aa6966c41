//! The far end as a service, over real loopback sockets: what an honest client gets, and what
//! everybody else does not.

#[path = "common/handed_in.rs"]
mod handed_in;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Instant;

use deadheat::contract::{Lane, Side};
use deadheat::server::{Bind, Secret};
use deadheat::time::Nanos;
use deadheat::transport::handover::HandedConnection;
use deadheat::transport::hello::{Hello, Token};
use deadheat::transport::{Address, Contender, Dial, Progress};
use socket2::{Domain, Socket, Type};

use deadheat::trial::control::{
    FromAgent, FromServer, OLDEST_PROTOCOL, PROTOCOL, Proof, ToAgent, prove,
};

#[path = "far/attacks.rs"]
mod attacks;
#[path = "far/clocks.rs"]
mod clocks;
#[path = "far/commands.rs"]
mod commands;
#[path = "far/encrypted.rs"]
mod encrypted;
mod far;
#[path = "far/grants.rs"]
mod grants;
#[path = "far/lies.rs"]
mod lies;
#[path = "far/nonsense.rs"]
mod nonsense;
#[path = "far/responders.rs"]
mod responders;

use far::{Client, Far, Manner, PATIENCE, Seen, frame, greeting, open, plan};

#[test]
fn a_trial_is_relayed_from_open_to_report_and_another_may_follow() {
    let far = Far::new(Manner::Right);
    let mut client = far.client();
    for trial in 1..=2 {
        let mut asked = plan();
        asked.samples = Some("/tmp/must-not-be-written".into());
        client.say(&open(&asked));
        assert_eq!(client.ready(), Address::Ip(far.address));
        let got = far.next_plan();
        assert_eq!(got.token, asked.token);
        assert_eq!(got.samples, None, "a client names no file of this host");
        assert_eq!(got.limits.unwrap().duration_ns, Nanos::from_secs(60));
        assert_eq!(got.endpoint, Address::Ip(far.address));
        client.finish_trial();
        let me = client.0.local_addr().unwrap();
        let started = far.line_with("started");
        assert_eq!(started, format!("{me} trial {trial} udp bulk:bytes=1MB started"));
        let done = far.line_with("done");
        assert!(done.starts_with(&format!("{me} trial {trial} ")), "{done}");
        assert!(done.ends_with("; 30.0 kB sent, 1.20 MB received"), "{done}");
    }
}

#[test]
fn a_tcp_data_connection_reaches_its_agent_with_every_byte_behind_its_hello() {
    let far = Far::new(Manner::Receives);
    let mut client = far.client();
    let asked = plan();
    client.say(&open(&asked));
    client.ready();
    far.next_plan();
    let mut data = TcpStream::connect(far.address).unwrap();
    let hello = Hello { token: asked.token, flow: 0 };
    data.write_all(&[&hello.encode()[..], b"and more"].concat()).unwrap();
    let Seen::Handed(HandedConnection::Stream { flow: 0, socket }) = far.next_seen() else {
        panic!("no stream")
    };
    let mut inside = TcpStream::from(socket);
    let mut got = [0; 8];
    inside.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"and more");
    inside.write_all(b"hi").unwrap();
    data.read_exact(&mut got[..2]).unwrap();
    assert_eq!(&got[..2], b"hi");
    assert_eq!(client.hear_agent(), FromAgent::Connected);
    client.finish_trial();
}

#[test]
fn a_udp_hello_reaches_its_agent_and_strange_datagrams_get_nothing() {
    let far = Far::with(Manner::Receives, |config| config.bind = Bind::Any(0));
    let hosts: &[&str] = if far.address.is_ipv6() {
        &["127.0.0.1", "::1"]
    } else {
        println!("no IPv6 on this host: its half of the test is left out");
        &["127.0.0.1"]
    };
    for host in hosts {
        let to = SocketAddr::new(host.parse().unwrap(), far.address.port());
        let mut client = Client::let_in(to);
        let asked = plan();
        client.say(&open(&asked));
        assert_eq!(client.ready(), Address::Ip(to), "not the wildcard it is bound to");
        far.next_plan();
        let near = UdpSocket::bind(SocketAddr::new(to.ip(), 0)).unwrap();
        let unknown = Hello { token: Token::from_bytes([9; 16]), flow: 0 };
        let known = Hello { token: asked.token, flow: 0 };
        let datagrams: [&[u8]; 6] = [
            b"",
            &unknown.encode(),
            &[0; 1400],
            &[&known.encode()[..], b"x"].concat(),
            &known.encode_welcome(),
            &known.encode(),
        ];
        for datagram in datagrams {
            near.send_to(datagram, to).unwrap();
        }
        let Seen::Handed(HandedConnection::Datagrams { flow, local, peer, .. }) = far.next_seen()
        else {
            panic!("no datagrams")
        };
        assert_eq!((flow, local, peer), (0, to, near.local_addr().unwrap()));
        // All that was sent before has been looked at by now.
        near.set_nonblocking(true).unwrap();
        let answer = near.recv(&mut [0; 64]).unwrap_err();
        assert_eq!(answer.kind(), ErrorKind::WouldBlock);
        far.line_with("UDP hello with a token that no trial here has");
        client.hear_agent();
        client.finish_trial();
    }
}

#[test]
fn real_transports_of_both_families_go_through_the_one_port() {
    let far = Far::with(Manner::Echoes, |config| config.bind = Bind::Any(0));
    let mut hosts = vec!["127.0.0.1"];
    if far.address.is_ipv6() {
        hosts.push("::1");
    } else {
        println!("no IPv6 on this host: its half of the test is left out");
    }
    for (host, id) in hosts.iter().flat_map(|host| [(host, "tcp"), (host, "udp")]) {
        let to = SocketAddr::new(host.parse().unwrap(), far.address.port());
        let mut client = Client::let_in(to);
        let mut asked = plan();
        asked.contender = id.into();
        client.say(&open(&asked));
        let endpoint = client.ready();
        assert_eq!(endpoint, Address::Ip(to));
        let contender = Contender::parse(id).unwrap();
        let dial = Dial {
            to: &endpoint,
            hello: Hello { token: asked.token, flow: 0 },
            knobs: &contender.knobs,
            lanes: contender.transport.info().guarantees.one_lane(),
            largest_message: 64,
            timeout: PATIENCE.into(),
            tickets: &deadheat::transport::Tickets::default(),
        };
        let mut conn = contender.transport.dial(&dial).unwrap();
        assert_eq!(conn.send(Lane(0), b"there and back").unwrap(), Progress::Moved);
        assert_eq!(far::next_message(conn.as_mut()), b"there and back", "{id} to {to}");
        assert_eq!(client.hear_agent(), FromAgent::Connected);
        client.finish_trial();
    }
}

#[test]
fn a_client_that_names_a_file_of_the_server_is_refused_and_no_agent_starts() {
    let far = Far::new(Manner::Right);
    let mut client = far.client();
    for workload in [
        "bulk:file=/etc/passwd,direction=down",
        "bulk:sink=/tmp/deadheat-must-not-be-written,bytes=1MB",
        "bulk:file=/etc/passwd,sink=/tmp/deadheat-must-not-be-written",
        "bulk:file=-,bytes=1MB,direction=down",
    ] {
        let mut asked = plan();
        asked.workload = workload.into();
        client.say(&open(&asked));
        let why = client.refusal();
        assert!(why.contains("a server reads and writes no files for its clients"), "{why}");
        far.line_with("reads and writes no files");
    }
    // The same client may go on, and the first agent to start is that of an honest trial.
    let mut honest = plan();
    honest.workload = "bulk:file=-,bytes=1MB".into();
    client.say(&open(&honest));
    client.ready();
    assert_eq!(far.next_plan().workload, honest.workload);
}

/// Opens a trial at a server that listens on all IPv4 addresses, and returns the address it was reached at and the
/// hello of the trial's data.
fn opened_on_all_addresses() -> (Far, Client, SocketAddr, Hello) {
    let at = Bind::At((Ipv4Addr::UNSPECIFIED, 0).into());
    let far = Far::with(Manner::Receives, |config| config.bind = at);
    let to = (Ipv4Addr::LOCALHOST, far.address.port()).into();
    let mut client = Client::let_in(to);
    let asked = plan();
    client.say(&open(&asked));
    client.ready();
    far.next_plan();
    let hello = Hello { token: asked.token, flow: 0 };
    (far, client, to, hello)
}

#[test]
fn a_udp_hello_from_another_address_than_the_clients_begins_nothing() {
    let (far, _client, to, hello) = opened_on_all_addresses();
    let victim = UdpSocket::bind("127.0.0.2:0").unwrap();
    victim.send_to(&hello.encode(), to).unwrap();
    far.line_with("data must come from the address that control comes from");
    let honest = UdpSocket::bind("127.0.0.1:0").unwrap();
    honest.send_to(&hello.encode(), to).unwrap();
    let Seen::Handed(HandedConnection::Datagrams { peer, .. }) = far.next_seen() else {
        panic!("no datagrams")
    };
    assert_eq!(peer, honest.local_addr().unwrap());
}

/// Who reads the path sees the token, and is at another address.
#[test]
fn a_tcp_data_connection_from_another_address_than_the_clients_begins_nothing() {
    let (far, _client, to, hello) = opened_on_all_addresses();
    let thief = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    thief.bind(&SocketAddr::new("127.0.0.2".parse().unwrap(), 0).into()).unwrap();
    thief.connect(&to.into()).unwrap();
    let mut thief = Client(thief.into());
    thief.0.set_read_timeout(Some(PATIENCE)).unwrap();
    thief.raw(&hello.encode());
    assert_eq!(thief.rest(), b"");
    far.line_with("TCP hello for a trial of 127.0.0.1: dropped");
    let mut honest = TcpStream::connect(to).unwrap();
    honest.write_all(&hello.encode()).unwrap();
    assert!(matches!(far.next_seen(), Seen::Handed(HandedConnection::Stream { .. })));
}

#[test]
fn a_data_connection_with_an_unknown_token_gets_nothing() {
    let far = Far::new(Manner::Right);
    let mut stranger = Client::connect(far.address);
    let hello = Hello { token: Token::from_bytes([9; 16]), flow: 0 };
    stranger.raw(&hello.encode());
    assert_eq!(stranger.rest(), b"");
    far.line_with("TCP hello with a token that no trial here has");
}

/// A trial of twenty connections and the one that it begins with: the numbers 0 to 20.
#[test]
fn connections_come_in_while_their_trial_lasts_up_to_the_planned_number_and_not_after_it() {
    let far = Far::new(Manner::Receives);
    let mut client = far.client();
    let mut asked = plan();
    asked.workload = "connect:count=20".into();
    asked.contender = "tcp".into();
    client.say(&open(&asked));
    client.ready();
    far.next_plan();
    let open = |number| {
        let mut data = TcpStream::connect(far.address).unwrap();
        data.write_all(&Hello { token: asked.token, flow: number }.encode()).unwrap();
        data.set_read_timeout(Some(PATIENCE)).unwrap();
        data
    };
    let is_closed = |mut data: TcpStream| data.read(&mut [0]).is_ok_and(|got| got == 0);
    assert!(is_closed(open(21)), "one more than it has announced");
    far.line_with("hello of connection 21 of a trial that plans 21: dropped");
    let _last = open(20);
    let seen = far.next_seen();
    assert!(matches!(seen, Seen::Handed(HandedConnection::Stream { flow: 20, .. })), "{seen:?}");
    assert_eq!(client.hear_agent(), FromAgent::Connected);
    client.finish_trial();
    let done = far.line_with("done");
    assert!(done.ends_with(" received, hellos dropped: 1"), "{done}");
    assert!(is_closed(open(2)), "too late");
    far.line_with("TCP hello of a trial that has ended: dropped");
}

#[test]
fn waiting_clients_are_told_their_place_on_each_change() {
    let far = Far::new(Manner::Right);
    let mut clients = [(); 4].map(|()| far.client());
    let [a, b, c, d] = &mut clients;
    a.say(&open(&plan()));
    a.ready();
    b.say(&open(&plan()));
    assert_eq!(b.hear(), FromServer::Queued { ahead: 1 });
    c.say(&open(&plan()));
    assert_eq!(c.hear(), FromServer::Queued { ahead: 2 });
    d.say(&open(&plan()));
    assert_eq!(d.hear(), FromServer::Queued { ahead: 3 });
    c.0.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(d.hear(), FromServer::Queued { ahead: 2 });
    a.finish_trial();
    b.ready();
    assert_eq!(d.hear(), FromServer::Queued { ahead: 1 });
    b.finish_trial();
    d.ready();
    d.finish_trial();
}

#[test]
fn a_full_waiting_room_and_a_crowd_of_clients_are_told_to_come_again() {
    let far = Far::with(Manner::Right, |config| {
        config.room.waiting = 0;
        config.room.per_origin = 2;
    });
    let (mut a, mut b) = (far.client(), far.client());
    a.say(&open(&plan()));
    a.ready();
    b.say(&open(&plan()));
    let why = b.no_room();
    assert!(why.contains("waiting for their turn already"), "{why}");
    let (mut third, _) = Client::greeted(far.address);
    let why = third.no_room();
    assert!(why.contains("2 control connections are open from 127.0.0.1"), "{why}");
    assert_eq!(third.rest(), b"");
    a.finish_trial();
    a.say(&open(&plan()));
    a.ready();
}

#[test]
fn a_secret_lets_in_who_knows_it_and_nobody_learns_of_the_host_without() {
    let secret = Secret::new("open sesame", "test").unwrap();
    let far = Far::with(Manner::Right, |config| config.secret = Some(secret));
    let (mut client, nonce) = Client::greeted(far.address);
    client.say(&prove("open sesame", &nonce.clone().unwrap(), None));
    assert!(matches!(client.hear(), FromServer::Facts(_)));
    client.say(&open(&plan()));
    client.ready();

    let (mut stranger, other) = Client::greeted(far.address);
    assert_ne!(nonce, other, "a proof is worth nothing twice");
    stranger.say(&prove("open sesame", &nonce.unwrap(), None));
    let why = stranger.refusal();
    assert_eq!(why, "server: the shared secret is wrong; give the server's with --secret-file");
    assert_eq!(stranger.rest(), b"");
    far.line_with("the shared secret is wrong");

    let (mut stranger, _) = Client::greeted(far.address);
    stranger.say(&Proof { mac: "x".into() });
    assert!(stranger.refusal().contains("the shared secret is wrong"));

    let (mut stranger, _) = Client::greeted(far.address);
    stranger.say(&open(&plan()));
    assert!(stranger.refusal().contains("the shared secret is wrong"));

    let (mut stranger, _) = Client::greeted(far.address);
    stranger.raw(&[0, 15, 0, 0]);
    assert!(stranger.refusal().contains("983040 bytes (1 to 1024 expected)"));
}

#[test]
fn another_protocol_is_told_what_to_do() {
    let far = Far::new(Manner::Right);
    let mut client = Client::connect(far.address);
    client.say(&greeting(1));
    assert_eq!(
        client.refusal(),
        format!(
            "server: this server speaks protocol {PROTOCOL} down to {OLDEST_PROTOCOL} (deadheat {}), you speak 1 (deadheat \
             0.1.0); use the same version on both ends",
            env!("CARGO_PKG_VERSION")
        )
    );
    assert_eq!(client.rest(), b"");
}

#[test]
fn what_is_no_greeting_is_refused_in_few_bytes_or_not_answered_at_all() {
    let far = Far::new(Manner::Right);
    let silent: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        &[0xff; 100_000],
    ];
    for bytes in silent {
        let mut stranger = Client::connect(far.address);
        // It may be shown out before it has said everything.
        let _ = stranger.0.write_all(bytes);
        assert_eq!(stranger.rest(), b"");
        far.line_with("does not speak deadheat");
    }
    let refused: [&[u8]; 5] = [
        &[0, 0, 0, 2, b'{', b'}'],
        &[0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff],
        &[0, 0, 0, 0],
        &[0, 0xff, 0xff, 0xff],
        &frame(br#"{"magic":"deadhorse","protocol":1,"version":"0.1"}"#),
    ];
    for bytes in refused {
        let mut stranger = Client::connect(far.address);
        stranger.raw(bytes);
        let answer = stranger.rest();
        assert!((5..=300).contains(&answer.len()), "{} bytes", answer.len());
        let why = String::from_utf8_lossy(&answer[4..]).into_owned();
        assert!(why.contains("your first message") || why.contains("your message"), "{why}");
    }
    let mut client = far.client();
    client.say(&open(&plan()));
    client.ready();
}

#[test]
fn a_flood_is_cut_off_and_costs_nobody_else() {
    let far = Far::new(Manner::Mute);
    let mut flood = Client::connect(far.address);
    flood.say(&greeting(PROTOCOL));
    flood.0.set_nonblocking(true).unwrap();
    // As much as the kernel takes at once, of what no client needs to say.
    let block = [0xa5; 65_536];
    while matches!((&flood.0).write(&block), Ok(n) if n > 0) {}
    far.line_with("refused: server: you sent a control message of 2779096485 bytes");

    let mut chatter = far.client();
    for _ in 0..17 {
        chatter.say(&ToAgent::Start);
    }
    assert!(chatter.refusal().contains("trials that are not open"));
    let mut chatter = far.client();
    chatter.say(&open(&plan()));
    far.next_plan();
    for _ in 0..17 {
        chatter.say(&ToAgent::Start);
    }
    let why = chatter.refusal();
    assert!(why.contains("more than 16 messages in one trial"), "{why}");
    assert!(matches!(far.next_seen(), Seen::Killed));
    let mut client = far.client();
    client.say(&open(&plan()));
    far.next_plan();
}

#[test]
fn who_says_nothing_or_stops_in_the_middle_is_closed() {
    // Each server is short of one kind of patience. What has to be said in time is said before it serves.
    let far = Far::with(Manner::Right, |config| config.patience.first = Nanos::from_millis(50));
    let mut silent = Client::connect(far.address);
    assert_eq!(silent.rest(), b"");
    far.line_with("closed: 0 bytes");

    let (_far, [mut data, mut half]) = Far::after(
        Manner::Right,
        |config| config.patience.first = Nanos::from_millis(50),
        |address| {
            [&b"DHT1\x01"[..], &[0, 0, 0, 99, b'{']].map(|bytes| {
                let mut stranger = Client::connect(address);
                stranger.raw(bytes);
                stranger
            })
        },
    );
    assert_eq!(data.rest(), b"");
    assert!(half.refusal().contains("stopped after 5 bytes"));

    let far = Far::with(Manner::Right, |config| config.patience.partial = Nanos::from_millis(50));
    let mut stuck = far.client();
    stuck.raw(&[0, 0, 9, 0, b'{']);
    assert!(stuck.refusal().contains("stopped in the middle"));

    let far = Far::with(Manner::Right, |config| config.patience.idle = Nanos::from_millis(200));
    let mut idle = far.client();
    assert!(idle.refusal().contains("you said nothing for too long"));
}

#[test]
fn a_slow_drip_does_not_buy_time() {
    let far = Far::with(Manner::Right, |config| {
        config.patience.first = Nanos::from_millis(50);
    });
    let mut drip = Client::connect(far.address);
    let began = Instant::now();
    let mut message = vec![0, 0, 4, 0];
    message.resize(1028, b' ');
    let mut sent = 0;
    drip.0.set_read_timeout(Some(std::time::Duration::from_millis(5))).unwrap();
    // One byte whenever five milliseconds brought no answer: it would take five seconds.
    let answer = loop {
        let mut first = [0; 1];
        match drip.0.read(&mut first) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                let _ = drip.0.write(&message[sent..=sent]);
                sent += 1;
            }
            answer => break answer,
        }
    };
    assert!(answer.is_ok() || sent < message.len());
    assert!(sent < message.len() && began.elapsed() < PATIENCE, "{sent} bytes");
}

#[test]
fn a_client_that_vanishes_takes_its_agent_with_it() {
    let far = Far::new(Manner::Right);
    let mut client = far.client();
    client.say(&open(&plan()));
    client.ready();
    far.next_plan();
    drop(client);
    assert!(matches!(far.next_seen(), Seen::Killed));
    far.line_with("abandoned");
    let mut next = far.client();
    next.say(&open(&plan()));
    next.ready();
}

#[test]
fn nonsense_in_a_trial_ends_it_with_its_agent() {
    let far = Far::new(Manner::Right);
    let nonsense: [&[u8]; 3] =
        [b"\x00\x00\x00\x07\"begin\"", b"GET / HTTP/1.1\r\n\r\n", &[0, 0, 0, 0]];
    for bytes in nonsense {
        let mut client = far.client();
        client.say(&open(&plan()));
        client.ready();
        far.next_plan();
        client.raw(bytes);
        let why = client.refusal();
        assert!(why.contains("you sent a control message"), "{why}");
        assert!(matches!(far.next_seen(), Seen::Killed));
    }
    let mut client = far.client();
    client.say(&open(&plan()));
    client.ready();
    client.say(&open(&plan()));
    assert!(client.refusal().contains("before the last one ended"));
}

#[test]
fn an_agent_that_crashes_is_reported_with_its_last_words() {
    let far = Far::new(Manner::Crashes);
    let mut client = far.client();
    for _ in 0..2 {
        client.say(&open(&plan()));
        let why = client.fault();
        assert!(why.starts_with("far end: the agent crashed"), "{why}");
        assert!(why.contains("panicked at 'boo'"), "{why}");
        far.line_with("the agent crashed");
        // It crosses the fault, and belongs to no trial any more.
        client.say(&ToAgent::Start);
    }
}

#[test]
fn an_agent_that_babbles_costs_one_trial() {
    let far = Far::new(Manner::Babbles);
    let mut client = far.client();
    client.say(&open(&plan()));
    let why = client.fault();
    assert!(why.contains("the agent went astray: it sent a control message"), "{why}");
}

#[test]
fn an_agent_that_does_not_end_is_ended() {
    let far = Far::with(Manner::Mute, |config| {
        config.limits.duration_ns = Nanos::from_millis(20);
        config.patience.grace = Nanos::from_millis(20);
    });
    let mut client = far.client();
    client.say(&open(&plan()));
    far.next_plan();
    let why = client.fault();
    assert!(why.contains("did not begin within 20.0 ms of its turn"), "{why}");
    assert!(matches!(far.next_seen(), Seen::Killed));
}

#[test]
fn each_limit_is_refused_in_a_sentence_and_the_next_trial_may_fit() {
    let far = Far::with(Manner::Right, |config| {
        config.limits.duration_ns = Nanos::from_secs(10);
        config.limits.bytes = 1_000_000_000;
    });
    let mut client = far.client();
    let mut refused = |change: &dyn Fn(&mut deadheat::trial::control::AgentPlan), words: &str| {
        let mut asked = plan();
        change(&mut asked);
        client.say(&open(&asked));
        let why = client.refusal();
        assert!(why.contains(words), "{why}");
    };
    refused(&|plan| plan.workload = "bulk:time=60s".into(), "this server allows 10.0 s");
    refused(&|plan| plan.workload = "bulk:bytes=2GB".into(), "this server allows 1.00 GB");
    refused(&|plan| plan.cpu = Some(9_999), "has no CPU 9999");
    refused(&|plan| plan.side = Side::Near, "runs far ends only");
    refused(&|plan| plan.contender = "unix".into(), "race it without --to");
    refused(&|plan| plan.contender = "carrier-pigeon".into(), "unknown contender");
    refused(&|plan| plan.workload = "pong".into(), "did you mean `ping`?");
    client.say(&open(&plan()));
    client.ready();
    let mut again = plan();
    again.token = far.next_plan().token;
    client.finish_trial();
    client.say(&open(&again));
    client.ready();
}

#[test]
fn two_trials_at_once_cannot_share_a_token() {
    let far = Far::with(Manner::Right, |config| config.limits.concurrent = 2);
    let (mut a, mut b) = (far.client(), far.client());
    let asked = plan();
    a.say(&open(&asked));
    a.ready();
    b.say(&open(&asked));
    assert!(b.refusal().contains("another trial has this token"));
    b.say(&open(&plan()));
    b.ready();
}

#[test]
fn two_hundred_strangers_do_not_stop_a_trial() {
    let far = Far::with(Manner::Receives, |config| config.room.unauthenticated = 32);
    let strangers: Vec<Client> = (0..200)
        .map(|n| {
            let mut stranger = Client::connect(far.address);
            // Half of them say nothing, a quarter begins a greeting, a quarter a hello.
            match n % 4 {
                0 => stranger.raw(&[0, 0]),
                1 => stranger.raw(b"DHT"),
                _ => {}
            }
            stranger
        })
        .collect();
    let mut client = far.client();
    let asked = plan();
    client.say(&open(&asked));
    client.ready();
    let hello = Hello { token: asked.token, flow: 0 };
    let mut data = Client::connect(far.address);
    data.raw(&hello.encode());
    assert_eq!(client.hear_agent(), FromAgent::Connected);
    client.finish_trial();
    far.line_with("further lines about this origin are left out");
    drop(strangers);
}

#[test]
fn a_server_that_stops_kills_its_agents_and_says_so() {
    let mut far = Far::new(Manner::Right);
    let (mut busy, mut waiting, mut idle) = (far.client(), far.client(), far.client());
    busy.say(&open(&plan()));
    busy.ready();
    waiting.say(&open(&plan()));
    assert_eq!(waiting.hear(), FromServer::Queued { ahead: 1 });
    far.next_plan();
    far.stop();
    assert!(matches!(far.next_seen(), Seen::Killed));
    for client in [&mut busy, &mut waiting, &mut idle] {
        let FromServer::Stopped(fault) = client.hear() else { panic!("no last word") };
        assert_eq!(fault.message, "its operator stopped it");
    }
    assert!(TcpStream::connect(far.address).is_err(), "the port is free");
}

/// An agent whose client takes none of its messages, with the patience of a far end that has all the time there is.
fn flooded(change: impl FnOnce(&mut deadheat::server::Config)) -> (Far, Client) {
    let far = Far::with(Manner::Floods, |config| {
        config.patience.partial = Nanos::from_secs(1_000);
        change(config);
    });
    let mut client = far.client();
    let mut asked = plan();
    asked.workload = "bulk:time=500ms".into();
    client.say(&open(&asked));
    client.ready();
    far.next_plan();
    client.say(&ToAgent::Start);
    (far, client)
}

#[test]
fn a_client_that_takes_no_messages_holds_no_place_beyond_its_trial() {
    let (far, client) = flooded(|config| {
        config.limits.duration_ns = Nanos::from_secs(8);
        // For the beginning, and then for a report, which the client does not take.
        config.patience.grace = Nanos::from_secs(3);
    });
    let mut next = far.client();
    next.say(&open(&plan()));
    next.ready();
    far.line_with("does not take its messages");
    drop(client);
}

#[test]
fn a_stop_waits_for_no_client_that_takes_no_messages() {
    let (mut far, client) = flooded(|config| config.patience.grace = Nanos::from_secs(1_000));
    assert!(matches!(far.next_seen(), Seen::Stuffed));
    let began = Instant::now();
    far.stop();
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    assert!(matches!(far.next_seen(), Seen::Killed));
    drop(client);
}

/// Five trials that are called off once they run, each with 1.2 MB of packets; what they might have carried is a
/// hundred times that.
#[test]
fn a_trial_that_is_called_off_costs_what_it_carried_and_not_what_it_might_have() {
    let far = Far::with(Manner::Right, |config| config.allowance.total = Some(6_000_000));
    let mut client = far.client();
    for _ in 0..5 {
        let mut asked = plan();
        asked.workload = "bulk:time=1s".into();
        client.say(&open(&asked));
        client.ready();
        far.next_plan();
        client.say(&ToAgent::CallOff);
        assert!(client.fault().contains("called it off"));
        let line = far.line_with("called it off");
        assert!(line.contains("; 30.0 kB sent, 1.20 MB received: "), "{line}");
        assert!(matches!(far.next_seen(), Seen::Killed));
    }
    client.say(&open(&plan()));
    let why = client.refusal();
    assert!(
        why.contains("6.00 MB per direction in all, and that is used up (--max-total)"),
        "{why}"
    );
}

#[test]
fn who_waits_again_and_again_does_not_fill_the_log() {
    let mut far = Far::with(Manner::Right, |config| config.room.per_origin = 64);
    let mut running = far.client();
    running.say(&open(&plan()));
    running.ready();
    for _ in 0..15 {
        let mut waits = far.client();
        waits.say(&open(&plan()));
        assert!(matches!(waits.hear(), FromServer::Queued { .. }));
    }
    let lines = far.all_lines();
    let waits = lines.iter().filter(|line| line.contains(" waits, ")).count();
    assert!((1..=10).contains(&waits), "{lines:#?}");
}

#[test]
fn a_server_for_one_client_ends_once_that_has_had_its_race_and_left() {
    let mut far = Far::with(Manner::Right, |config| config.serves_one = true);
    // One that looks and leaves is not yet the client.
    drop(far.client());
    let mut client = far.client();
    for _ in 0..2 {
        client.say(&open(&plan()));
        client.ready();
        client.finish_trial();
    }
    assert!(!far.is_over(), "its client is still there");
    drop(client);
    far.await_end();
}

#[test]
fn trials_that_run_at_once_have_cpus_of_their_own() {
    let far = Far::with(Manner::Right, |config| config.limits.concurrent = 2);
    let said = far.line_with("trials at once");
    if !said.contains("CPUs of its own") {
        println!("skipped: this host has one CPU");
        return;
    }
    let mut both = [far.client(), far.client()];
    let mut held: Vec<Vec<usize>> = Vec::new();
    for client in &mut both {
        client.say(&open(&plan()));
        client.ready();
        held.push(far.next_held());
        far.next_plan();
    }
    assert!(held[0].iter().all(|cpu| !held[1].contains(cpu)), "{held:?}");
    // A place that is free again has the same CPUs.
    both[0].finish_trial();
    both[0].say(&open(&plan()));
    both[0].ready();
    assert_eq!(far.next_held(), held[0]);
    let mut choosy = plan();
    choosy.cpu = Some(held[0][0]);
    let mut third = far.client();
    third.say(&open(&choosy));
    assert!(third.refusal().contains("chooses the CPUs"));
}

/// The greeting and the plan are as version 0.1.0 with protocol 3 sent them, to the byte.
#[test]
fn a_client_of_the_last_version_is_served() {
    const GREETING: &str = r#"{"magic":"deadheat","protocol":3,"version":"0.1.0"}"#;
    const OPEN: &str = concat!(
        r#"{"open":{"side":"far","contender":"tcp","workload":"ping:claim=p50,count=30,interval=20ms,size=64,"#,
        r#"think=0,timeout=3000ms,warmup=20","endpoint":{"ip":"127.0.0.1:5210"},"#,
        r#""token":"1047eee89e6afea03d23314bf2d359f1","seed":1464314040462394652,"cpu":null,"wait":"hybrid","#,
        r#""samples":null,"limits":null,"interval_ns":100000000,"live":false,"goes_first":false}}"#
    );
    let far = Far::new(Manner::Right);
    let mut client = Client::connect(far.address);
    client.raw(&frame(GREETING.as_bytes()));
    let FromServer::Welcome { protocol, .. } = client.hear() else { panic!("no welcome") };
    assert_eq!(protocol, 3, "it takes no other answer");
    assert!(matches!(client.hear(), FromServer::Facts(_)));
    client.raw(&frame(OPEN.as_bytes()));
    client.ready();
    assert_eq!(far.next_plan().contender, "tcp");
    client.finish_trial();
}
