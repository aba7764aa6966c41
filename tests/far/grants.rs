//! Trials with several far ends at one server: one turn, one deadline, limits for their sum, and only their own client.

// Clippy's leave for tests ends at functions that are no tests themselves.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use deadheat::server::{Config, RelayTo};
use deadheat::transport::Address;
use deadheat::transport::handover::HandedConnection;
use deadheat::transport::hello::{Hello, Token};
use deadheat::trial::control::announcement::{Announcement, PROOF};
use deadheat::trial::control::{
    AgentPlan, FromAgent, FromServer, GrantPlace, GrantTask, Greeting, OLDEST_PROTOCOL, PROTOCOL,
    RelayPlan, Share, ToAgent,
};
use socket2::{Domain, Socket, Type};

use super::far::{BEHIND, Client, Far, Manner, PATIENCE, Seen, greeting, open, plan};

/// Plans of the far ends of one trial: `nodes` of them, each with a flow of a megabyte.
fn plans(nodes: u16) -> Vec<AgentPlan> {
    let (token, data) = (Token::fresh().unwrap(), Token::fresh().unwrap());
    let place = |node| GrantPlace { token, nodes, node, task: GrantTask::Work };
    let one = |node| AgentPlan {
        workload: format!("fanout:receivers={nodes},bytes=1MB"),
        token: data,
        share: Some(Share { node, nodes }),
        grant: Some(place(node)),
        ..plan()
    };
    (0..nodes).map(one).collect()
}

/// Control connections of one client, and their far ends, each opened with its plan.
fn opened(far: &Far, plans: &[AgentPlan]) -> Vec<Client> {
    let number = Some(Token::fresh().unwrap());
    let enter = |plan: &AgentPlan| {
        let mut client = Client::connect(far.address).enters(number);
        client.say(&open(plan));
        client.ready();
        client
    };
    plans.iter().map(enter).collect()
}

/// From this address of the host, as another host would connect.
fn from(local: &str, to: SocketAddr) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let local: SocketAddr = local.parse().unwrap();
    socket.bind(&local.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    Client(socket.into())
}

#[test]
fn the_far_ends_of_a_trial_have_one_turn_and_one_account() {
    let far = Far::new(Manner::Right);
    let plans = plans(3);
    let mut ends = opened(&far, &plans);
    for asked in &plans {
        let got = far.next_plan();
        assert_eq!((got.share, got.grant), (asked.share, asked.grant));
        let limits = got.limits.unwrap();
        assert_eq!(limits.concurrent, 3, "each may have a third of the memory");
    }
    let mut other = far.client();
    other.say(&open(&plan()));
    assert_eq!(other.hear(), FromServer::Queued { ahead: 1 }, "they are one trial");
    let started = far.line_with("far end 3 of 3");
    assert!(started.contains(" trial 1, far end 3 of 3, udp fanout:receivers=3,bytes=1MB started"));
    let mut last = ends.pop().unwrap();
    for mut client in ends {
        client.finish_trial();
        let done = far.line_with("done");
        assert!(!done.contains("sent"), "the last line has the bytes of all: {done}");
    }
    last.finish_trial();
    let done = far.line_with("sent");
    assert!(done.ends_with("; 90.0 kB sent, 3.60 MB received"), "{done}");
    other.ready();
}

/// Its other connections still live, as those of a client do whose host has lost one.
#[test]
fn a_client_that_vanishes_frees_the_whole_grant() {
    let far = Far::new(Manner::Right);
    let mut ends = opened(&far, &plans(3));
    (0..3).for_each(|_| drop(far.next_plan()));
    let mut other = far.client();
    other.say(&open(&plan()));
    ends[0].say(&ToAgent::Start);
    drop(ends.remove(1));
    for client in &mut ends {
        let why = loop {
            match client.hear_agent() {
                FromAgent::Fault(fault) => break fault.message,
                FromAgent::Finished { .. } => {}
                word => panic!("{word:?}"),
            }
        };
        assert!(why.contains("another far end of the trial ended it for all"), "{why}");
    }
    (0..3).for_each(|_| assert!(matches!(far.next_seen(), Seen::Killed)));
    other.ready();
}

#[test]
fn nobody_joins_a_trial_who_does_not_belong_to_it() {
    let far = Far::new(Manner::Right);
    let all = plans(3);
    let ends = &mut opened(&far, &all[..2]);
    let join = |client: &mut Client, change: &dyn Fn(&mut GrantPlace)| {
        let mut plan = all[2].clone();
        change(plan.grant.as_mut().unwrap());
        client.say(&open(&plan));
        client.refusal()
    };
    let mut client = far.client();
    let unknown = join(&mut client, &|place| place.token = Token::fresh().unwrap());
    assert!(unknown.contains("no trial of yours runs here"), "{unknown}");
    let stolen = join(&mut from("127.0.0.2:0", far.address).enters(None), &|_| {});
    assert_eq!(stolen, unknown, "who guesses a token learns nothing");
    let again = join(&mut client, &|place| place.node = 1);
    assert!(again.contains("far end 2 of this trial is here already"), "{again}");
    let more = join(&mut client, &|place| (place.nodes, place.node) = (4, 3));
    assert!(more.contains("announced with 3 far ends here"), "{more}");
    let many = join(&mut client, &|place| (place.nodes, place.node) = (17, 16));
    assert!(many.contains("far end 17 of 17") && many.contains("--to A --to B"), "{many}");
    let beyond = join(&mut client, &|place| place.node = 3);
    assert!(beyond.contains("far end 4 of 3"), "{beyond}");
    ends[0].say(&ToAgent::Start);
    assert!(matches!(ends[0].hear_agent(), FromAgent::Finished { .. }));
    let late = join(&mut client, &|_| {});
    assert!(late.contains("has begun or ended"), "{late}");
    // Its own token is taken as well.
    let mut taken = all[0].clone();
    taken.token = Token::fresh().unwrap();
    let far_more = Far::with(Manner::Right, |config: &mut Config| config.limits.concurrent = 2);
    let _first = opened(&far_more, &all[..1]);
    let mut second = far_more.client();
    second.say(&open(&taken));
    assert!(second.refusal().contains("another trial has this grant's token"));
}

#[test]
fn limits_hold_for_the_sum_of_the_far_ends_and_refuse_before_the_trial_begins() {
    let far = Far::with(Manner::Right, |config| config.limits.bytes = 2_500_000);
    let plans = plans(3);
    let _ends = opened(&far, &plans[..2]);
    let mut third = far.client();
    third.say(&open(&plans[2]));
    let why = third.refusal();
    assert!(why.contains("with all its far ends here"), "{why}");
    assert!(why.contains("up to 3.00 MB, and this server allows 2.50 MB"), "{why}");
    assert!(why.contains("--max-bytes"), "{why}");
}

/// A load is bounded by the work beside it, and without any by the limits.
#[test]
fn a_load_has_no_length_of_its_own() {
    let far = Far::new(Manner::Right);
    let mut load = plan();
    load.workload = "bulk:time=86400s".into();
    let mut client = far.client();
    client.say(&open(&load));
    assert!(client.refusal().contains("--max-duration"));
    let (token, task) = (Token::fresh().unwrap(), GrantTask::Load);
    load.grant = Some(GrantPlace { token, nodes: 1, node: 0, task });
    client.say(&open(&load));
    client.ready();
    client.finish_trial();
}

/// The relay leads to where the trial's own far end listens: no client says where.
#[test]
fn a_relay_leads_to_the_far_end_of_its_own_trial_and_a_turn_server_is_not_started() {
    let far = Far::new(Manner::Right);
    let mut client = far.client();
    let mut asked = plan();
    asked.contender = "udp:via=coturn".into();
    client.say(&open(&asked));
    let why = client.refusal();
    assert!(why.contains("forwards to wherever its client says"), "{why}");
    asked.contender = "udp:via=relay".into();
    asked.endpoint = Address::Ip("192.0.2.1:53".parse().unwrap());
    client.say(&open(&asked));
    assert_eq!(client.ready(), Address::Ip(far.address));
    let behind = far.next_plan();
    assert_eq!(behind.endpoint, Address::Ip("127.0.0.1:0".parse().unwrap()));
    let Seen::Relay(RelayPlan::Forward(relay)) = far.next_seen() else { panic!("no relay") };
    assert_eq!((relay.to, relay.token), (BEHIND.parse().unwrap(), Some(asked.token)));
    client.finish_trial();
    assert!(matches!(far.next_seen(), Seen::Killed), "the relay ends with its far end");
}

/// At a server that does not relay, and at one that does.
#[test]
fn a_server_relays_where_its_operator_says_and_holds_the_relay_to_its_limits() {
    let mut asked = plan();
    asked.contender = "udp:via=relay@relay.example".into();
    asked.onward = Some("192.0.2.7:5210".parse().unwrap());
    let far = Far::new(Manner::Right);
    let mut client = far.client();
    client.say(&open(&asked));
    let why = client.refusal();
    assert!(why.contains("`deadheat serve --relay-to 192.0.2.7`"), "{why}");
    let far = Far::with(Manner::Right, |config| {
        config.relay_to = RelayTo::parse("192.0.2.0/24,127.0.0.0/8").unwrap();
        config.limits.bytes = 3_000_000;
    });
    let mut client = far.client();
    let refused = |client: &mut Client, change: &dyn Fn(&mut AgentPlan)| {
        let mut other = asked.clone();
        change(&mut other);
        client.say(&open(&other));
        client.refusal()
    };
    let direct = refused(&mut client, &|plan| plan.contender = "udp".into());
    assert!(direct.contains("goes through none"), "{direct}");
    let elsewhere = refused(&mut client, &|plan| plan.onward = Some("9.9.9.9:53".parse().unwrap()));
    assert!(elsewhere.contains("--relay-to 9.9.9.9"), "{elsewhere}");
    let itself = refused(&mut client, &|plan| plan.onward = Some(far.address));
    assert!(itself.contains("relay and far end are one server"), "{itself}");
    let large = |plan: &mut AgentPlan| plan.workload = "bulk:bytes=2MB,direction=both".into();
    assert!(refused(&mut client, &large).contains("carries up to 4.00 MB"), "it sends both ways");
    client.say(&open(&asked));
    assert_eq!(client.ready(), Address::Ip(far.address));
    let Seen::Relay(RelayPlan::Onward(relay)) = far.next_seen() else { panic!("no relay") };
    assert_eq!((Some(relay.to), relay.token), (asked.onward, asked.token));
    assert_eq!((relay.at, relay.limits.bytes), (far.address, 3_000_000));
    client.say(&ToAgent::Onward);
    assert_eq!(client.hear_agent(), FromAgent::Connected);
    client.finish_trial();
    assert!(
        far.line_with("done in").contains("relay to 192.0.2.7:5210, udp:via=relay@relay.example")
    );
}

/// Whoever knows the token announces itself, and gets the proof of who has the trial; nobody else gets a byte.
#[test]
fn a_relay_is_taken_for_a_trial_that_has_one() {
    let far = Far::new(Manner::Receives);
    let mut asked = plan();
    asked.contender = "udp:via=relay@relay.example".into();
    let mut client = far.client();
    client.say(&open(&asked));
    client.ready();
    let announcement = Announcement::fresh(asked.token).unwrap();
    let announce = |announcement: &Announcement| {
        let mut relay = from("127.0.0.2:0", far.address);
        relay.raw(&announcement.encode());
        relay.rest()
    };
    let stranger = Announcement::fresh(Token::fresh().unwrap()).unwrap();
    assert_eq!(announce(&stranger), b"");
    let proof: [u8; PROOF] = announce(&announcement).try_into().unwrap();
    assert!(announcement.is_proved(asked.token, &proof));
    let say = |from: &str| {
        let socket = std::net::UdpSocket::bind(from).unwrap();
        let hello = Hello { token: asked.token, flow: 0 };
        socket.send_to(&hello.encode(), far.address).unwrap();
        socket.local_addr().unwrap()
    };
    say("127.0.0.1:0");
    let refused = far.line_with("UDP hello for a trial of 127.0.0.1");
    assert!(refused.contains("must come from the relay that it has announced"), "{refused}");
    let relayed = say("127.0.0.2:0");
    assert!(matches!(far.next_seen(), Seen::Plan(_)));
    let Seen::Handed(HandedConnection::Datagrams { peer, is_proved, .. }) = far.next_seen() else {
        panic!("nothing was handed over")
    };
    assert_eq!((peer, is_proved), (relayed, true));
}

#[test]
fn a_client_of_the_last_version_is_served() {
    let far = Far::new(Manner::Right);
    for (protocol, newest, common) in
        [(OLDEST_PROTOCOL, None, OLDEST_PROTOCOL), (OLDEST_PROTOCOL, Some(PROTOCOL + 1), PROTOCOL)]
    {
        let mut client = Client::connect(far.address);
        client.say(&Greeting { newest, ..greeting(protocol) });
        match client.hear() {
            FromServer::Welcome { protocol, .. } => assert_eq!(protocol, common),
            word => panic!("{word:?}"),
        }
        assert!(matches!(client.hear(), FromServer::Facts(_)));
        client.say(&open(&plan()));
        client.ready();
        client.finish_trial();
    }
}
