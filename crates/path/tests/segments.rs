//! Frames that the emulator writes equal the result of the kernel's own segmentation of the same data, byte for
//! byte: super-packets go through a router made of two TUN devices, once whole, so that the kernel segments them,
//! and once in runs of segments as `path::segment` writes them.
//!
//! Needs root, `ip` and /dev/net/tun; prints a note and passes where they are missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

use deadheat_base::rng::SplitMix64;
use deadheat_path::impair::packet::Changes;
use deadheat_path::segment::{GsoFrame, Head, VNET};

const IFF_TUN: i16 = 0x1;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;

/// Kind of a random super-packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    TcpV4,
    TcpV6,
    UdpV4,
    UdpV6,
    /// TCP behind a destination options header.
    TcpV6Options,
}

const KINDS: [Kind; 5] = [Kind::TcpV4, Kind::TcpV6, Kind::UdpV4, Kind::UdpV6, Kind::TcpV6Options];

impl Kind {
    fn is_v4(self) -> bool {
        matches!(self, Kind::TcpV4 | Kind::UdpV4)
    }

    fn is_udp(self) -> bool {
        matches!(self, Kind::UdpV4 | Kind::UdpV6)
    }
}

const NO_CHANGES: Changes = Changes { marked: false, flipped: None };

#[test]
fn runs_equal_the_kernels_segmentation() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 || File::open("/dev/net/tun").is_err() {
        println!("skipped: needs root and /dev/net/tun");
        return;
    }
    // A thread of its own, whose network namespace ends with it.
    std::thread::spawn(compare).join().unwrap();
}

fn compare() {
    // SAFETY: the call takes flags only, and concerns this thread alone.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "{}", io::Error::last_os_error());
    let (mut into, mut out) = (tun("in0"), tun("out0"));
    for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{file}"), "1").unwrap();
    }
    for (device, net) in [("in0", 1), ("out0", 2)] {
        ip(&format!("link set {device} up txqueuelen 10000"));
        ip(&format!("addr add 198.18.{net}.1/24 dev {device}"));
        ip(&format!("addr add fd00:{net}::1/64 dev {device} nodad"));
    }
    let mut rng = SplitMix64::new(4);
    let mut many = 0;
    for round in 0..400 {
        let kind = KINDS[round % KINDS.len()];
        let frame = random(kind, &mut rng);
        let seen = GsoFrame::parse(&frame);
        assert!(seen.segments > 1, "{kind:?} {frame:02x?}");
        into.write_all(&frame).unwrap();
        let kernels = collect(&mut out, kind, seen.segments);
        let mut written = Vec::new();
        let mut from = 0;
        while from < seen.segments {
            let to = from + 1 + rng.below(u64::from(seen.segments - from)) as u32;
            let frame = one(&seen, &frame, from, to, &mut rng);
            many += u32::from(to - from > 1);
            into.write_all(&frame).unwrap();
            written.extend(collect(&mut out, kind, to - from));
            from = to;
        }
        assert_eq!(written, kernels, "{kind:?}, {} segments", seen.segments);
    }
    assert!(many > 200, "{many} runs of several segments");
}

/// Segments `from..to` as the emulator would write them: as a run, or a single one as a copy.
fn one(seen: &GsoFrame, frame: &[u8], from: u32, to: u32, rng: &mut SplitMix64) -> Vec<u8> {
    if to - from == 1 && rng.below(2) == 0 {
        let mut room = vec![0; 2_000];
        let len = seen.copy(frame, from, NO_CHANGES, &mut room).unwrap();
        room.truncate(len);
        return room;
    }
    let mut head = Head::default();
    let rest = seen.run(frame, from, to, NO_CHANGES, &mut head);
    [head.bytes(), &frame[rest]].concat()
}

/// The next `count` packets of this test's flow that leave the router.
fn collect(out: &mut File, kind: Kind, count: u32) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut room = vec![0; 70_000];
    while packets.len() < count as usize {
        let mut entry =
            libc::pollfd { fd: out.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `entry` is one valid pollfd.
        let ready = unsafe { libc::poll(&raw mut entry, 1, 10_000) };
        assert_eq!(ready, 1, "{kind:?}: {} of {count} packets came", packets.len());
        let len = out.read(&mut room).unwrap();
        let packet = &room[VNET..len];
        let to = if kind.is_v4() { packet[16..20] == [198, 18, 2, 9] } else { packet[39] == 9 };
        // Others are the host's own, such as router solicitations.
        if to {
            packets.push(packet.to_vec());
        }
    }
    packets
}

/// A super-packet with random sizes, options, flags, marks and identification.
fn random(kind: Kind, rng: &mut SplitMix64) -> Vec<u8> {
    let extension: usize = if kind == Kind::TcpV6Options { 8 } else { 0 };
    let network = if kind.is_v4() { 20 } else { 40 + extension };
    let options = if kind.is_udp() { 0 } else { 4 * rng.below(11) as usize };
    let header = if kind.is_udp() { 8 } else { 20 + options };
    let size = 1 + rng.below(1_350) as usize;
    let segments = 2 + rng.below(40) as usize;
    let payload = (size * (segments - 1) + 1 + rng.below(size as u64) as usize).min(60_000);
    let payload = payload.max(size + 1);
    let mut frame = vec![0u8; VNET];
    let cwr = !kind.is_udp() && rng.below(3) == 0;
    frame[0] = 1;
    let gso = if kind.is_udp() {
        5
    } else if kind.is_v4() {
        1
    } else {
        4
    };
    frame[1] = gso | if cwr { 0x80 } else { 0 };
    let fields = [network + header, size, network, if kind.is_udp() { 6 } else { 16 }];
    for (at, value) in (2..).step_by(2).zip(fields) {
        frame[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
    }
    let ecn = rng.below(4) as u8;
    let transport = header + payload;
    let protocol = if kind.is_udp() { 17 } else { 6 };
    if kind.is_v4() {
        frame.extend([0x45, 0x50 | ecn]);
        frame.extend(((20 + transport) as u16).to_be_bytes());
        frame.extend((rng.next_u64() as u16).to_be_bytes());
        frame.extend([0x40, 0, 64, protocol, 0, 0, 198, 18, 1, 9, 198, 18, 2, 9]);
        let check = !fold(sum(&frame[VNET..VNET + 20]));
        frame[VNET + 10..VNET + 12].copy_from_slice(&check.to_be_bytes());
    } else {
        frame.extend([0x60 | 0x05, ecn << 4, 0x12, 0x34]);
        frame.extend(((extension + transport) as u16).to_be_bytes());
        frame.extend([if extension > 0 { 60 } else { protocol }, 64]);
        for net in [1, 2] {
            frame.extend([0xfd, 0, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        }
        if extension > 0 {
            frame.extend([protocol, 0, 1, 4, 0, 0, 0, 0]); // PadN
        }
    }
    let addresses = &frame[VNET + if kind.is_v4() { 12 } else { 8 }..VNET + network - extension];
    let pseudo = fold(sum(addresses) + u32::from(protocol) + transport as u32);
    frame.extend([0x30, 0x39, 0x14, 0x5a]);
    if kind.is_udp() {
        frame.extend((transport as u16).to_be_bytes());
        frame.extend(pseudo.to_be_bytes());
    } else {
        frame.extend((rng.next_u64() as u32).to_be_bytes());
        frame.extend((rng.next_u64() as u32).to_be_bytes());
        let flags = 0x10 | rng.next_u64() as u8 & 0x49 | if cwr { 0x80 } else { 0 };
        frame.extend([(5 + options as u8 / 4) << 4, flags, 0x20, 0]);
        frame.extend(pseudo.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(std::iter::repeat_n(1, options)); // no-operation
    }
    frame.extend((0..payload).map(|_| rng.next_u64() as u8));
    frame
}

fn sum(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// A TUN device whose frames have a virtio header, and for which the kernel segments.
fn tun(name: &str) -> File {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: an all-zero ifreq is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    request.ifr_ifru.ifru_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    assert_eq!(done, 0, "TUNSETIFF {name}: {}", io::Error::last_os_error());
    file
}

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}
