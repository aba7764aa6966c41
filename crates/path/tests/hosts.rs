//! Programs and tests on an emulated network: sockets of both hosts in one process, for any user.
//!
//! Needs the right to make network namespaces, itself or in a user namespace, and `setpriv` for the ordinary user;
//! prints a note and passes where they are missing. No busy host can break a bound here.
#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, network};
use deadheat_path::{Emulator, gate};
use socket2::{Domain, Protocol, Type};

mod common;

const PROGRAM: &str = env!("CARGO_BIN_EXE_deadheat-path");

/// The numbers of the datagrams that arrive, in order of arrival.
fn sent_and_received(net: &Emulator, count: u16) -> Vec<u16> {
    let far = net.far().udp(0).unwrap();
    let near = net.near().udp(0).unwrap();
    near.connect(far.local_addr().unwrap()).unwrap();
    let expected = {
        (0..count).for_each(|number| assert_eq!(near.send(&number.to_be_bytes()).unwrap(), 2));
        let has_arrived = |net: &Emulator| {
            let up = net.end().unwrap().links[0].up.fates;
            (up.arrived == u64::from(count) && up.waiting == 0).then_some(up.delivered)
        };
        let began = Instant::now();
        loop {
            if let Some(delivered) = has_arrived(net) {
                break delivered;
            }
            assert!(began.elapsed() < PATIENCE, "{:?}", net.end().unwrap());
            thread::yield_now();
        }
    };
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    (0..expected).map(|_| u16::from_be_bytes(received(&far))).collect()
}

fn received(socket: &UdpSocket) -> [u8; 2] {
    let mut bytes = [0; 2];
    assert_eq!(socket.recv(&mut bytes).unwrap(), 2);
    bytes
}

#[test]
fn the_same_seed_loses_the_same_datagrams() {
    let Some(net) = network("loss=20%,delay=1ms") else { return };
    let first = sent_and_received(&net, 200);
    assert!((100..200).contains(&first.len()), "{}", first.len());
    net.begin(7).unwrap();
    assert_eq!(sent_and_received(&net, 200), first);
    net.begin(8).unwrap();
    assert_ne!(sent_and_received(&net, 200), first);
    let network = deadheat_path::Network::parse("loss=20%,delay=1ms").unwrap();
    let account = net.end().unwrap();
    // Lateness of a busy host is no fault of the model.
    let fault = gate::why_invalid(&network, &account).filter(|why| !why.contains("too late"));
    assert_eq!(fault, None, "{account:?}");
}

#[test]
fn a_connection_takes_its_round_trips_and_ports_are_the_hosts_own() {
    let Some(net) = network("delay=10ms") else { return };
    let other = Emulator::with_seed("delay=0", 1).unwrap();
    // Below 1024, for ordinary users, too, and the same in both networks.
    let (listener, _same) = (net.far().listen(80).unwrap(), other.far().listen(80).unwrap());
    assert!(net.far().listen(80).unwrap_err().to_string().starts_with("bind to 198.18.0.2:80"));
    let server = thread::spawn(move || {
        let (mut stream, from) = listener.accept().unwrap();
        stream.write_all(b"hello").unwrap();
        from
    });
    let began = Instant::now();
    let mut client = net.near().connect((net.far().address(), 80)).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(20));
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "hello");
    assert_eq!(server.join().unwrap(), client.local_addr().unwrap());
    assert_eq!(client.local_addr().unwrap().ip(), net.near().address());
    let refused = net.near().connect((net.far().address(), 81)).unwrap_err();
    assert!(refused.to_string().starts_with("connect to 198.18.0.2:81: "), "{refused}");
}

#[test]
fn every_kind_of_socket_and_any_program_is_at_home() {
    let Some(net) = network("delay=0 + delay=0") else { return };
    let near = net.near();
    assert_eq!(near.address().to_string(), "198.18.0.1");
    assert!(near.addresses().count() >= 2);
    let raw = near.socket(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
    raw.connect(&SocketAddr::new(net.far().address(), 0).into()).unwrap();
    let second = SocketAddr::new(near.addresses().nth(near.addresses().count() / 2).unwrap(), 0);
    let bound = near.bound(Type::DGRAM, second).unwrap();
    assert_eq!(bound.local_addr().unwrap().as_socket().unwrap().ip(), second.ip());
    let mut command = near.command("cat").unwrap();
    let output = command.arg("/proc/self/net/dev").output().unwrap();
    let devices = String::from_utf8_lossy(&output.stdout);
    assert!(devices.contains("dh0:") && devices.contains("dh1:"), "{devices}");
}

#[test]
fn a_network_outlives_the_thread_that_made_it_and_nothing_outlives_it() {
    if network("delay=0").is_none() {
        return;
    }
    let net = thread::spawn(|| Emulator::with_seed("delay=0", 1).unwrap()).join().unwrap();
    assert_eq!(sent_and_received(&net, 1), [0]);
    let process = format!("/proc/{}", net.id());
    assert!(std::fs::exists(&process).unwrap());
    drop(net);
    assert!(!std::fs::exists(&process).unwrap());
}

#[test]
fn what_makes_no_sense_is_said_by_the_emulator() {
    if network("delay=0").is_none() {
        return;
    }
    for (path, said) in [
        ("delay=20", "unit"),
        ("loopback", "is there already"),
        ("sim:delay=1ms", "without `sim:` it is built"),
    ] {
        let error = Emulator::start(path).map(drop).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

/// These tests again, as a user without any rights. Cargo's own folders may be closed to that user, so a copy runs.
#[test]
fn an_ordinary_user_has_networks_too() {
    const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let as_nobody = |words: &[&str]| {
        let words = [&NOBODY, words].concat();
        Command::new(words[0]).args(&words[1..]).current_dir("/").output()
    };
    let works = |words: &[&str]| as_nobody(words).is_ok_and(|done| done.status.success());
    if !works(&["unshare", "-Urn", "true"]) {
        println!("skipped: no setpriv, not root, or no user namespaces for ordinary users");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), all.clone()).unwrap();
    let copy = directory.path().join("hosts");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    std::fs::set_permissions(&copy, all).unwrap();
    let ran = as_nobody(&[copy.to_str().unwrap(), "--skip", "ordinary", "--skip", "the_program"]);
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", text(&ran.stdout));
    assert!(!text(&ran.stdout).contains("skipped: "), "{}", text(&ran.stdout));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn program(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).output().unwrap()
}

#[test]
fn the_program_runs_a_command_and_answers_its_status() {
    if network("delay=0").is_none() {
        return;
    }
    let script = "cat /proc/self/net/dev; echo $0; exit 7";
    let ran = program(&["run", "delay=1ms", "--", "sh", "-c", script, "$DEADHEAT_FAR"]);
    let (out, said) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(ran.status.code(), Some(7), "{said}");
    assert!(out.contains("dh0:") && out.contains("198.18.0.2"), "{out}");
    assert!(said.contains("near 198.18.0.1") && said.contains("up:   "), "{said}");
    let quiet = program(&["run", "delay=1ms", "-q", "--far", "true", "--", "true"]);
    assert_eq!((quiet.status.code(), text(&quiet.stderr)), (Some(0), String::new()));
}

#[test]
fn the_program_says_what_it_can_and_what_makes_no_sense() {
    assert!(text(&program(&["--help"]).stdout).contains("deadheat path check"));
    assert!(text(&program(&["list"]).stdout).contains("loss="));
    for words in [&["rn"][..], &[], &["run", "delay=1", "--", "true"]] {
        assert_eq!(program(words).status.code(), Some(2), "{words:?}");
    }
}

/// A home and a friend's home, both behind one router, and a server behind that.
const SEVERAL: &str =
    "home--isp:delay=5ms + isp--cloud:delay=20ms + friend--isp:delay=2ms,near=home,far=cloud";

#[test]
fn hosts_between_others_pass_packets_on_and_each_link_counts_its_own() {
    for backend in ["", ",backend=packet"] {
        let Some(net) = network(&format!("{SEVERAL}{backend}")) else { return };
        let [home, friend, cloud] = ["home", "friend", "cloud"].map(|name| net.host(name).unwrap());
        assert_eq!((home.address(), cloud.address()), (net.near().address(), net.far().address()));
        for version_6 in [false, true] {
            let of = |host: &deadheat_path::Host<'_>| {
                let mut own = host.addresses().filter(|address| address.is_ipv6() == version_6);
                own.next().unwrap()
            };
            for (from, least_ms) in [(&home, 50), (&friend, 44)] {
                let bound = |host| {
                    let at = SocketAddr::new(of(host), 0);
                    UdpSocket::from(host.bound(Type::DGRAM, at).unwrap())
                };
                let (near, far) = (bound(from), bound(&cloud));
                far.set_read_timeout(Some(PATIENCE)).unwrap();
                near.set_read_timeout(Some(PATIENCE)).unwrap();
                let began = Instant::now();
                near.send_to(&[1, 2], far.local_addr().unwrap()).unwrap();
                let mut bytes = [0; 2];
                let (_, back) = far.recv_from(&mut bytes).unwrap();
                assert_eq!(back, near.local_addr().unwrap());
                far.send_to(&[3, 4], back).unwrap();
                assert_eq!(received(&near), [3, 4]);
                let took = began.elapsed();
                assert!(took >= Duration::from_millis(least_ms), "{backend}: {took:?}");
            }
        }
        let figures = net.end().unwrap();
        let counts =
            figures.links.iter().map(|link| [&link.up, &link.down].map(|way| way.fates.arrived));
        assert_eq!(counts.collect::<Vec<_>>(), [[2, 2], [4, 4], [2, 2]], "{backend}");
    }
}

#[test]
fn what_others_send_changes_no_fate_on_a_link() {
    let fates = |others: bool| -> Option<Vec<u16>> {
        let net =
            network("home--isp:loss=30% + isp--cloud + friend--isp:loss=30%,near=home,far=cloud")?;
        if others {
            let friend = net.host("friend").unwrap().udp(0).unwrap();
            for _ in 0..100 {
                friend.send_to(&[0], (net.far().address(), 9)).unwrap();
            }
        }
        let (near, far) = (net.near().udp(0).unwrap(), net.far().udp(0).unwrap());
        for number in 0..200u16 {
            near.send_to(&number.to_be_bytes(), far.local_addr().unwrap()).unwrap();
        }
        let began = Instant::now();
        let delivered = loop {
            let up = net.end().unwrap().links[0].up.fates;
            if up.arrived == 200 && up.waiting == 0 {
                break up.delivered;
            }
            assert!(began.elapsed() < PATIENCE, "{up:?}");
            thread::yield_now();
        };
        far.set_read_timeout(Some(PATIENCE)).unwrap();
        Some((0..delivered).map(|_| u16::from_be_bytes(received(&far))).collect())
    };
    let (Some(alone), Some(beside)) = (fates(false), fates(true)) else { return };
    assert!(alone.len() < 180, "{}", alone.len());
    assert_eq!(alone, beside);
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let Some(net) = network(SEVERAL) else { return };
    let said = net.host("cluod").unwrap_err().to_string();
    assert!(said.contains("did you mean `cloud`?"), "{said}");
    let run = |arguments: &[&str]| {
        let output =
            Command::new(PROGRAM).arg("run").arg(SEVERAL).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&["--host", "cluod", "--", "true"]);
    assert!(code == Some(2) && said.contains("unknown host `cluod`"), "{code:?}: {said}");
    let (code, said) = run(&["--on", "nobody=true", "--", "true"]);
    assert!(code == Some(2) && said.contains("unknown host `nobody`"), "{code:?}: {said}");
    let there =
        "cat /etc/hosts; test $DEADHEAT_FRIEND = 198.18.2.1 && test $DEADHEAT_FAR = 198.18.1.2";
    let (code, said) = run(&["--host", "friend", "--", "sh", "-c", there]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("hosts home, isp, cloud and friend"), "{said}");
    assert!(said.contains("friend to isp: "), "{said}");
}
