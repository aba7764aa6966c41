//! Links that go down, routes that change and links with a small MTU, by real sockets on an emulated network.
//!
//! Needs the right to make network namespaces, itself or in a user namespace; prints a note and passes without. No busy host
//! can break a bound here.
#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, network};
use deadheat_path::measurements::{DirectionFigures, PathFigures};
use deadheat_path::{Emulator, Network, gate};

mod common;

/// Does a step again and again until `done` is true of the account.
fn until(
    net: &Emulator,
    mut step: impl FnMut(),
    done: impl Fn(&PathFigures) -> bool,
) -> PathFigures {
    let began = Instant::now();
    loop {
        step();
        let figures = net.end().unwrap();
        if done(&figures) {
            return figures;
        }
        assert!(began.elapsed() < PATIENCE, "{figures:?}");
        thread::yield_now();
    }
}

/// Returns a link's account in its first direction.
fn up(figures: &PathFigures, link: usize) -> &DirectionFigures {
    &figures.links[link].up
}

/// Checks the account; lateness of a busy host is no fault of the model.
fn check(path: &str, figures: &PathFigures) {
    let network = Network::parse(path).unwrap();
    let fault = gate::why_invalid(&network, figures).filter(|why| !why.contains("too late"));
    assert_eq!(fault, None, "{figures:?}");
}

/// A way over `b` and a longer one over `c`; `s` and `t` are next to the ends. The link `s--b` is the second.
fn two_ways(of_link: &str, whole: &str) -> String {
    format!(
        "near--s + s--b:{of_link} + b--t + t--far + s--c:delay=1ms + c--t,near=near,far=far{whole}"
    )
}

#[test]
fn hosts_send_around_a_link_that_is_down_and_each_beginning_finds_it_up() {
    for backend in ["", ",backend=packet"] {
        let path = two_ways("down=1s-1h", &format!(",reroute=0ms{backend}"));
        let Some(net) = network(&path) else { return };
        let (near, far) = (net.near().udp(0).unwrap(), net.far().udp(0).unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        for round in 1..=2 {
            let began = Instant::now();
            net.begin(round).unwrap();
            near.send(&[1]).unwrap();
            let figures = until(
                &net,
                || (),
                |all| up(all, 3).fates.delivered == 1 || up(all, 1).fates.down == 1,
            );
            let by = [1, 4].map(|link| up(&figures, link).fates.arrived);
            assert!(by == [1, 0] || began.elapsed() >= Duration::from_secs(1), "{by:?}");
            let send = || assert_eq!(near.send(&[2]).unwrap(), 1);
            let figures = until(&net, send, |all| up(all, 5).fates.delivered > 0);
            assert!(began.elapsed() >= Duration::from_secs(1));
            check(&path, &figures);
        }
        far.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(far.recv(&mut [0; 2]).unwrap(), 1);
    }
}

#[test]
fn without_another_way_and_without_reroute_a_link_that_is_down_loses_all() {
    for path in [
        two_ways("down=0ms-1h", ""),
        "near--s + s--b:down=0ms-1h + b--far,near=near,far=far,reroute=0ms".to_owned(),
        two_ways("mtu=1400", ",host-down=b@0ms-1h"),
    ] {
        let Some(net) = network(&path) else { return };
        let near = net.near().udp(0).unwrap();
        for _ in 0..10 {
            near.send_to(&[1], (net.far().address(), 9)).unwrap();
        }
        let figures = until(&net, || (), |all| up(all, 1).fates.arrived == 10);
        assert_eq!((up(&figures, 1).fates.down, up(&figures, 1).fates.delivered), (10, 0));
        check(&path, &figures);
    }
}

#[test]
fn packets_take_a_route_as_written() {
    let path = "near--r + r--s:delay=1ms + s--t:delay=1ms + r--t + t--far,near=near,far=far,route=near/r/s/t/far";
    let Some(net) = network(path) else { return };
    net.near().udp(0).unwrap().send_to(&[1], (net.far().address(), 9)).unwrap();
    let figures = until(&net, || (), |all| up(all, 4).fates.delivered == 1);
    assert_eq!([1, 2, 3].map(|link| up(&figures, link).fates.arrived), [1, 1, 0]);
}

/// Sets whether datagrams may be fragmented (`IP_MTU_DISCOVER`; ip(7)).
fn may_be_cut(socket: &UdpSocket, may: bool) {
    let how = if may { libc::IP_PMTUDISC_DONT } else { libc::IP_PMTUDISC_DO };
    // SAFETY: the pointer and length describe a live integer.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            (&raw const how).cast(),
            size_of_val(&how) as libc::socklen_t,
        )
    };
    assert_eq!(done, 0);
}

/// Returns a network whose second link takes packets of 1300 bytes; a firewall on the first can keep ICMP from the sender.
fn narrow(firewall: &str) -> String {
    format!("near--r:delay=1ms{firewall} + r--s:mtu=1300 + s--far,near=near,far=far")
}

#[test]
fn a_router_announces_the_mtu_of_a_link() {
    let Some(net) = network(&narrow("")) else { return };
    let (near, far) = (net.near().udp(0).unwrap(), net.far().udp(0).unwrap());
    near.connect(far.local_addr().unwrap()).unwrap();
    // A datagram in two packets: the host does not know the MTU of the second link, and the router cuts it.
    may_be_cut(&near, true);
    assert_eq!(near.send(&[1; 1_472]).unwrap(), 1_472);
    let figures = until(&net, || (), |all| up(all, 1).fates.arrived > 0);
    assert_eq!((up(&figures, 0).fates.arrived, up(&figures, 1).fates.arrived), (1, 2));
    may_be_cut(&near, false);
    let began = Instant::now();
    let refused = loop {
        match near.send(&[2; 1_472]) {
            Ok(_) => assert!(began.elapsed() < PATIENCE, "{:?}", net.end()),
            Err(error) => break error.raw_os_error(),
        }
        thread::yield_now();
    };
    assert_eq!(refused, Some(libc::EMSGSIZE));
    // Announcements that are still to be told of come first.
    while near.send(&[3; 1_272]).is_err() {
        assert!(began.elapsed() < PATIENCE, "{:?}", net.end());
    }
    check(&narrow(""), &net.end().unwrap());
}

/// TCP hands over super-packets of 1460 bytes in each; those do not fit either, and what it sends then does.
#[test]
fn tcp_gets_through_where_the_mtu_is_announced_and_not_where_that_is_swallowed() {
    let send = |net: &Emulator| {
        let listener = net.far().listen(80).unwrap();
        let mut client = net.near().connect((net.far().address(), 80)).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        assert!(client.write(&[7; 100_000]).unwrap() > 10_000);
        (client, server)
    };
    let Some(net) = network(&narrow("")) else { return };
    let (_client, mut server) = send(&net);
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    server.read_exact(&mut [0; 10_000]).unwrap();
    let net = network(&narrow(",down.block=icmp")).unwrap();
    let (_client, server) = send(&net);
    let figures = until(&net, || (), |all| all.links[0].down.fates.blocked > 1);
    // No segment with data has crossed the second link.
    assert!(up(&figures, 1).fates.delivered_bytes < 1_000, "{figures:?}");
    server.set_nonblocking(true).unwrap();
    assert!((&server).read(&mut [0; 10]).is_err());
}

#[test]
fn below_1280_bytes_on_any_link_there_is_no_ipv6() {
    let addresses =
        |mtu| Some(network(&format!("a--r:mtu={mtu} + r--b"))?.far().addresses().count());
    assert!(addresses(1_279).is_none_or(|count| count == 1));
}
