//! netem where there is one: in a Linux kernel of its own, in user mode, on this machine's files.
//!
//! Needs `linux.uml` (Debian: user-mode-linux), `ip` and `tc`; says so and passes where they are
//! missing. The kernel takes a few seconds to boot, so everything happens in one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout, clippy::print_stderr)] // A test that is skipped says why.

#[path = "../common/uml.rs"]
mod booted;
mod ktls;
mod transports;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use deadheat::path::netem::{Middle, NetemLink, Spaces};
use deadheat::path::network::{
    Backend, Discipline, Ecn, GilbertElliott, Impairments, Jitter, Limit, Link, Loss, Network,
    Order, Queue, Rate, Shape,
};
use deadheat::time::Nanos;
use deadheat::units::BitRate;

use booted::{boot, boots, can};

/// Set where the test runs inside the kernel that it has booted.
const INSIDE: &str = "DEADHEAT_TEST_UML";

const NEAR: [&str; 2] = ["198.18.0.1", "2001:db8::1"];
const FAR: [&str; 2] = ["198.18.0.2", "2001:db8::2"];

#[test]
fn netem_does_what_a_path_says() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    if !can(&["tc"]) || !boots() {
        return;
    }
    again_inside(
        &["sch_codel", "sch_pie"],
        "netem_does_what_a_path_says",
        &["delays", "losses", "rates", "segments", "words", "seeds", "commands"],
    );
}

/// Runs the test `name` once more in a kernel with these modules. Each of its parts says when it is through, so that none
/// can be left out unnoticed.
fn again_inside(modules: &[&str], name: &str, parts: &[&str]) {
    let own = std::env::current_exe().unwrap();
    let variable = format!("{INSIDE}=1");
    let name = format!("uml::{name}");
    let command = ["env", &variable, own.to_str().unwrap(), "--exact", &name, "--nocapture"];
    let said = boot(modules, &command);
    for part in parts {
        assert!(said.contains(&format!("{part} hold")), "{said}");
    }
}

#[test]
fn a_kernel_without_netem_is_told_apart() {
    if !can(&["ip", "tc"]) {
        return;
    }
    let hosts = Hosts::new();
    match hosts.middle(&network(Impairments::default())) {
        Ok(_) => println!("this kernel has netem"),
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("backend=netem: kernel has no sch_netem (tc: "), "{said}");
            assert!(said.contains("backend=tun"), "{said}");
        }
    }
}

fn inside() {
    delays();
    losses();
    rates();
    segments();
    words();
    seeds();
    commands();
}

/// Three namespaces, which end with this value.
struct Hosts([OwnedFd; 3]);

impl Hosts {
    fn new() -> Hosts {
        let namespace = || {
            thread::spawn(|| {
                // SAFETY: unshare(2) takes a number; the thread ends with its namespace.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
                run("ip", "link set lo up");
                // No packets but those of the test: nobody asks for a router.
                let accept = "/proc/sys/net/ipv6/conf/default/accept_ra";
                if std::path::Path::new(accept).exists() {
                    std::fs::write(accept, "0").unwrap();
                }
                std::fs::File::open("/proc/thread-self/ns/net").unwrap().into()
            })
        };
        Hosts([namespace(), namespace(), namespace()].map(|thread| thread.join().unwrap()))
    }

    /// With the network between them, and addresses of both families.
    fn middle(&self, network: &Network) -> deadheat::Result<Middle> {
        let [near, middle, far] = &self.0;
        let spaces = Spaces { near: near.as_fd(), middle: middle.as_fd(), far: far.as_fd() };
        let all = |addresses: [&str; 2]| addresses.map(|a| a.parse().unwrap()).to_vec();
        let line = NetemLink { device: "dh0".into(), near: all(NEAR), far: all(FAR) };
        let middle = Middle::set_up(network, spaces, &[line])?;
        for (space, [v4, v6]) in [(near, NEAR), (far, FAR)] {
            within(space, || {
                run("ip", &format!("addr add {v4}/24 dev dh0"));
                run("ip", &format!("addr add {v6}/64 dev dh0 nodad"));
            });
        }
        Ok(middle)
    }

    fn near<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.0[0], work)
    }

    fn far<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.0[2], work)
    }

    /// Two datagram sockets that know each other.
    fn sockets(&self, family: usize) -> [UdpSocket; 2] {
        let at = |address: &str| SocketAddr::new(address.parse::<IpAddr>().unwrap(), 7_000);
        let (near, far) = (at(NEAR[family]), at(FAR[family]));
        let a = self.near(|| UdpSocket::bind(near).unwrap());
        let b = self.far(|| UdpSocket::bind(far).unwrap());
        a.connect(far).unwrap();
        b.connect(near).unwrap();
        for socket in [&a, &b] {
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let size: libc::c_int = 8 << 20;
            // SAFETY: the pointer and length are those of an int, as SO_RCVBUFFORCE wants it.
            let done = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_RCVBUFFORCE,
                    (&raw const size).cast(),
                    size_of_val(&size) as libc::socklen_t,
                )
            };
            assert_eq!(done, 0);
        }
        [a, b]
    }
}

fn within<T: Send>(space: &OwnedFd, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: setns(2) takes a descriptor and a number.
            assert_eq!(unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            work()
        });
        thread.join().unwrap()
    })
}

fn run(program: &str, words: &str) {
    let status = Command::new(program).args(words.split(' ')).stdout(Stdio::null()).status();
    assert!(status.unwrap().success(), "{program} {words}");
}

fn network(both: Impairments) -> Network {
    let links = vec![Link { up: both.clone(), down: both, ..Link::default() }];
    Network { backend: Some(Backend::Netem), ..Network::between_two(links) }
}

/// A packet takes the delay each way, over both families, and the account says so many.
fn delays() {
    let delay = Nanos::from_millis(20);
    let hosts = Hosts::new();
    let mut middle =
        hosts.middle(&network(Impairments { delay, ..Impairments::default() })).unwrap();
    for family in [0, 1] {
        middle.begin(1).unwrap();
        let [near, far] = hosts.sockets(family);
        let mut fastest = Duration::MAX;
        for n in 0..10_u8 {
            let start = Instant::now();
            near.send(&[n; 100]).unwrap();
            let mut room = [0; 200];
            assert_eq!(far.recv(&mut room).unwrap(), 100);
            far.send(&room[..100]).unwrap();
            assert_eq!(near.recv(&mut room).unwrap(), 100);
            assert_eq!(room[0], n);
            fastest = fastest.min(start.elapsed());
        }
        assert!(fastest >= Duration::from_millis(40), "{fastest:?}");
        let figures = middle.end().unwrap();
        let bytes = 10 * [128, 148][family];
        for way in [&figures.links[0].up, &figures.links[0].down] {
            assert_eq!((way.fates.arrived, way.fates.delivered, way.fates.lost), (10, 10, 0));
            assert_eq!((way.fates.arrived_bytes, way.fates.delivered_bytes), (bytes, bytes));
            assert_eq!(way.device_drops, 0);
        }
        println!("fastest round trip of family {family}: {fastest:?}");
    }
    println!("delays hold");
}

/// Sends datagrams and counts those that arrive, until none has come for a second; and the time from
/// before the first was sent until the last was there.
fn count(hosts: &Hosts, packets: u32, size: usize) -> (u64, Duration) {
    let [near, far] = hosts.sockets(0);
    let start = Instant::now();
    let receiver = thread::spawn(move || {
        let (mut got, mut last) = (0, start);
        while far.recv(&mut [0; 2_000]).is_ok() {
            last = Instant::now();
            got += 1;
        }
        (got, last - start)
    });
    for _ in 0..packets {
        near.send(&vec![0; size]).unwrap();
    }
    receiver.join().unwrap()
}

/// Each loss model takes its share, within ten standard deviations, and the account agrees with what
/// arrived.
fn losses() {
    let chain = GilbertElliott { p: 0.02, r: 0.18, bad: 1.0, good: 0.0 };
    for (loss, least, most) in [
        (Loss::Bernoulli(0.1), 700, 1_300),
        // A mean of 0.1 as well, in bursts of 5.6: nine times the variance.
        (Loss::GilbertElliott(chain), 100, 1_900),
    ] {
        let hosts = Hosts::new();
        let model = Impairments { loss, ..Impairments::default() };
        let mut middle = hosts.middle(&network(model)).unwrap();
        middle.begin(2).unwrap();
        let (got, _) = count(&hosts, 10_000, 100);
        let fates = middle.end().unwrap().links[0].up.fates;
        assert_eq!((fates.arrived, fates.delivered), (10_000, got), "{fates:?}");
        assert!((least..most).contains(&fates.lost), "{fates:?}");
        assert_eq!(fates.lost, 10_000 - got);
        println!("{fates:?}");
    }
    println!("losses hold");
}

/// No queue lets more through than its rate, and what finds it full is counted as that.
fn rates() {
    let queue = |limit, discipline| Queue { limit, discipline, ecn: Ecn::Ignored };
    let target = Nanos::from_millis(5);
    let interval = Nanos::from_millis(100);
    for queue in [
        queue(Limit::Packets(50), Discipline::DropTail),
        queue(Limit::Bytes(64_000), Discipline::DropTail),
        queue(Limit::Packets(50), Discipline::Codel { target, interval }),
    ] {
        let hosts = Hosts::new();
        let rate = Rate::Fixed(BitRate(10_000_000));
        let model = Impairments { rate, queue, overhead: 24, ..Impairments::default() };
        let mut middle = hosts.middle(&network(model)).unwrap();
        middle.begin(3).unwrap();
        let (got, span) = count(&hosts, 2_000, 1_000);
        let fates = middle.end().unwrap().links[0].up.fates;
        assert_eq!((fates.arrived, fates.delivered, fates.lost), (2_000, got, 0), "{fates:?}");
        assert_eq!(fates.delivered_bytes, got * 1_028);
        assert!(fates.full + fates.early > 0, "{fates:?}");
        assert_eq!(fates.full + fates.early, 2_000 - got);
        // Two packets and 250 µs may leave at once from a full bucket.
        let took = Duration::from_nanos((got - 2) * 1_052 * 800) - Duration::from_micros(250);
        assert!(span >= took, "{got} packets in {span:?}, expected {took:?}; {queue:?}");
        println!("{queue:?}: {got} packets in {span:?}; {fates:?}");
    }
    println!("rates hold");
}

/// A stream crosses in packets of at most the MTU, although its sender would make them 40 times as
/// large; netem decides for each.
fn segments() {
    let hosts = Hosts::new();
    let loss = Loss::Bernoulli(0.002);
    let mut middle =
        hosts.middle(&network(Impairments { loss, ..Impairments::default() })).unwrap();
    middle.begin(4).unwrap();
    let listener = hosts.far(|| TcpListener::bind((FAR[0], 7_001)).unwrap());
    let receiver = thread::spawn(move || {
        let mut all = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
        all.len()
    });
    let mut stream = hosts.near(|| TcpStream::connect((FAR[0], 7_001)).unwrap());
    stream.write_all(&vec![7; 8 << 20]).unwrap();
    drop(stream);
    assert_eq!(receiver.join().unwrap(), 8 << 20);
    let up = &middle.end().unwrap().links[0].up;
    let fates = up.fates;
    println!("{fates:?}");
    assert!(fates.delivered >= (8 << 20) / 1_460, "{fates:?}");
    assert!(fates.delivered_bytes <= fates.delivered * 1_500, "{fates:?}");
    // 5800 packets: 11.6 are lost in the mean, and none once in 100 000 times.
    assert!(fates.lost > 0, "{fates:?}");
    println!("segments hold");
}

/// The kernel takes every word that the translation can say.
fn words() {
    let ms = Nanos::from_millis;
    let jitter = |shape, order| Some(Jitter { scale: ms(2), shape, order });
    let base = Impairments { delay: ms(10), ..Impairments::default() };
    let mut all = vec![
        Impairments { duplicate: 0.01, corrupt: 0.000_01, ..base.clone() },
        Impairments { jitter: jitter(Shape::Uniform, Order::Free), ..base.clone() },
        Impairments { jitter: jitter(Shape::Normal, Order::Kept), ..base.clone() },
        Impairments { jitter: jitter(Shape::Pareto, Order::Free), ..base.clone() },
    ];
    let (target, interval) = (ms(5), ms(100));
    for discipline in [
        Discipline::DropTail,
        Discipline::Codel { target, interval },
        Discipline::FqCodel { target, interval },
        Discipline::Pie { target },
    ] {
        for (ecn, duplicate) in [(Ecn::Ignored, 0.0), (Ecn::Marks, 0.01)] {
            let queue = Queue { limit: Limit::Packets(100), discipline, ecn };
            let rate = Rate::Fixed(BitRate(5_000_000));
            all.push(Impairments { queue, rate, duplicate, ..base.clone() });
        }
    }
    for model in all {
        let hosts = Hosts::new();
        let mut middle = hosts.middle(&network(model.clone())).unwrap();
        for seed in [5, 6] {
            middle.begin(seed).unwrap();
            let [near, far] = hosts.sockets(0);
            // The datagram arrives however busy the host of this kernel is, and with hardly a chance to be damaged.
            far.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            near.send(&[0; 100]).unwrap();
            assert_eq!(far.recv(&mut [0; 200]).unwrap(), 100, "{model:?}");
            let fates = middle.end().unwrap().links[0].up.fates;
            assert_eq!(fates.arrived, 1, "{model:?}: {fates:?}");
            assert_eq!(
                fates.delivered + fates.waiting,
                1 + fates.duplicated,
                "{model:?}: {fates:?}"
            );
        }
    }
    println!("words hold");
}

/// A kernel before 6.6 has no seed, and that is known; a newer one repeats its losses.
fn seeds() {
    let hosts = Hosts::new();
    let loss = Loss::Bernoulli(0.3);
    let mut middle =
        hosts.middle(&network(Impairments { loss, ..Impairments::default() })).unwrap();
    let seeded = middle.is_seeded();
    let lost = [7, 7, 8].map(|seed| {
        middle.begin(seed).unwrap();
        count(&hosts, 2_000, 100).0
    });
    if seeded {
        assert_eq!(lost[0], lost[1]);
    } else {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        println!("no seed with Linux {release}");
        assert!(lost.iter().all(|lost| (1_200..1_600).contains(lost)), "{lost:?}");
    }
    println!("seeds hold");
}

/// The program builds such paths, and its own measurement of one finds what was asked for.
fn commands() {
    let deadheat = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_deadheat")).arg("path").args(words).output().unwrap()
    };
    let ran = deadheat(&["run", "backend=netem,delay=20ms", "--", "sh", "-c", "exit 7"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(7), "{said}");
    assert!(said.contains("netem"), "{said}");
    let checked =
        deadheat(&["check", "backend=netem,delay=5ms,rate=5mbit,queue=100pkt", "--format", "json"]);
    // How exact a kernel in user mode is depends on the host, so either answer is right.
    assert!(matches!(checked.status.code(), Some(0 | 3)), "{checked:?}");
    let answer: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let check = &answer["checks"][0];
    assert_eq!(check["backend"], "netem");
    let up = &check["ways"][0];
    // 128 bytes at 5 Mbit/s besides; no packet is early.
    assert_eq!(up["delay"]["expected_ns"], 5_204_800);
    assert!(up["delay"]["min_ns"].as_i64().unwrap() > -10_000, "{check:#}");
    assert!(up["rate"]["achieved_bps"].as_f64().unwrap() < 5.1e6, "{check:#}");
    assert_eq!(up["loss"]["by_own_account"], 0, "{check:#}");
    let refused = deadheat(&["check", "backend=netem,drop=5"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("backend=netem cannot lose packets by their number: "), "{said}");
    assert_eq!(refused.status.code(), Some(2), "{said}");
    println!("commands hold");
}
