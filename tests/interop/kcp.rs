//! `kcp` with kcp-go, which is KCP written anew in Go. It comes in kcptun: a tunnel for TCP connections, each of them a stream
//! of smux over one KCP session.
//!
//! kcptun has a header of its own around each datagram, 20 bytes also where it encrypts nothing: a nonce of 16 and a CRC-32.
//! Its client draws the number of its conversation, which ends agree on by other means than KCP; here both are 1.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use deadheat::contract::Service;
use deadheat::transport::userspace::ProtocolStats;
use flate2::Crc;

use crate::content;
use crate::driven::{Driven, Wrapping, free_port};
use crate::other::has;
use crate::ours::LONG;

const LANES: [Service; 1] = [Service::ORDERED];

/// The largest message that is sent here: a frame of smux.
const LARGEST: usize = 20_000;

/// Bytes that go each way.
const WAY: usize = 1_000_000;

/// The header around each datagram: a nonce and a checksum.
const NONCE: usize = 16;
const AROUND: usize = NONCE + 4;

/// The header of a segment, with its length in the last four bytes; our conversation.
const SEGMENT: usize = 24;
const CONVERSATION: u32 = 1;

/// kcptun's header, and its conversation in place of ours.
#[derive(Default)]
struct Tunnel {
    theirs: Option<u32>,
    /// True if the numbers stay as they are, since parity is over them, too.
    corrects: bool,
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

/// Puts a number into each segment of a datagram.
fn renumber(datagram: &mut [u8], conversation: u32) {
    let mut at = 0;
    while at < datagram.len() {
        datagram[at..at + 4].copy_from_slice(&conversation.to_le_bytes());
        at += SEGMENT + word(&datagram[at + SEGMENT - 4..]) as usize;
    }
}

impl Wrapping for Tunnel {
    fn wrap(&mut self, mut datagram: Vec<u8>) -> Vec<u8> {
        if !self.corrects {
            renumber(&mut datagram, self.theirs.unwrap_or(CONVERSATION));
        }
        [&[0; NONCE][..], &checksum(&datagram), &datagram].concat()
    }

    fn unwrap(&mut self, datagram: Vec<u8>) -> Vec<u8> {
        let mut inner = datagram[AROUND..].to_vec();
        assert_eq!(datagram[NONCE..AROUND], checksum(&inner), "kcptun's checksum");
        if self.corrects {
            return inner;
        }
        assert_eq!(*self.theirs.get_or_insert(word(&inner)), word(&inner));
        renumber(&mut inner, CONVERSATION);
        inner
    }
}

/// Commands of smux, version 1.
const OPEN: u8 = 0;
const END: u8 = 1;
const DATA: u8 = 2;

/// The stream that our near end opens: a client has odd numbers.
const STREAM: u32 = 3;

/// A frame of smux: version, command, length, and number of the stream, then the data.
fn frame(command: u8, stream: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u16).to_le_bytes();
    [&[1, command][..], &length, &stream.to_le_bytes(), data].concat()
}

/// Streams of smux as they came.
#[derive(Default)]
struct Frames {
    unread: Vec<u8>,
    /// The stream that the peer opened.
    opened: Option<u32>,
    data: Vec<u8>,
    has_ended: bool,
}

impl Frames {
    /// Reads what came, of which kcp-go keeps no boundaries.
    fn take(&mut self, end: &mut Driven) {
        end.came.drain(..).for_each(|(_, bytes)| self.unread.extend(bytes));
        while let Some((header, rest)) = self.unread.split_first_chunk::<8>() {
            let [version, command, ..] = *header;
            let length = usize::from(u16::from_le_bytes([header[2], header[3]]));
            let Some(data) = rest.get(..length) else { return };
            assert_eq!(version, 1);
            match command {
                OPEN => self.opened = Some(word(&header[4..])),
                END => self.has_ended = true,
                DATA => self.data.extend(data),
                // There is one more, which keeps a session alive.
                _ => {}
            }
            self.unread.drain(..8 + length);
        }
    }
}

/// Sends content in frames.
fn send(end: &mut Driven, stream: u32, bytes: &[u8]) {
    bytes.chunks(LARGEST - 8).for_each(|piece| end.write(0, &frame(DATA, stream, piece)));
}

/// kcptun, which is stopped with the test.
struct Kcptun(Child);

impl Kcptun {
    /// Starts one that encrypts and compresses nothing, with these sizes of a group for forward error correction, and
    /// waits until it listens.
    fn start(program: &str, [data, parity]: [&str; 2], args: &[&str]) -> Kcptun {
        let mut command = Command::new(program);
        command.args(["--crypt", "none", "--datashard", data, "--parityshard", parity, "--nocomp"]);
        let mut child = command.args(args).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let listens = |line: &str| line.to_lowercase().contains("listening on:");
        assert!(log.by_ref().any(|line| listens(&line.unwrap())), "{program} does not listen");
        // A program whose log nobody reads could stop at it.
        thread::spawn(move || log.for_each(drop));
        Kcptun(child)
    }
}

impl Drop for Kcptun {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Content of each way.
fn ways() -> (Vec<u8>, Vec<u8>) {
    (content(1, WAY), content(2, WAY))
}

/// Bytes that come until the peer ends, or as many as were asked for.
fn read(from: &mut TcpStream, most: usize) -> Vec<u8> {
    from.set_read_timeout(Some(LONG.into())).unwrap();
    let mut bytes = Vec::new();
    from.take(most as u64).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Has a server of kcp-go answer `contender` over a lossy path, with this correction; returns the counts of ours.
fn answered(contender: &str, shards: [&str; 2], more: &[&str]) -> (ProtocolStats, Kcptun) {
    let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free_port();
    let at = [
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--target",
        &target.local_addr().unwrap().to_string(),
    ];
    let server = Kcptun::start("kcptun-server", shards, &[&at, more].concat());
    let (there, back) = ways();
    let counts = thread::scope(|scope| {
        let behind = scope.spawn(|| {
            let mut stream = target.accept().unwrap().0;
            let came = read(&mut stream, WAY);
            stream.write_all(&back).unwrap();
            came
        });
        let corrects = shards != ["0", "0"];
        let mut near =
            Driven::open(contender, &LANES, LARGEST, Some(([127, 0, 0, 1], port).into()))
                .lossy()
                .wrapped(Tunnel { corrects, ..Tunnel::default() });
        let mut frames = Frames::default();
        near.write(0, &frame(OPEN, STREAM, &[]));
        send(&mut near, STREAM, &there);
        near.until(|near| {
            frames.take(near);
            frames.has_ended
        });
        near.until(|near| near.protocol.is_drained());
        assert!(frames.data == back, "{} bytes came", frames.data.len());
        assert!(behind.join().unwrap() == there);
        near.protocol.stats()
    });
    (counts, server)
}

#[test]
fn kcp_go_answers_us() {
    if !has("kcptun-server", "kcptun") {
        return;
    }
    let (counts, _) = answered("kcp", ["0", "0"], &[]);
    assert!(counts.resent > Some(0));
    assert_eq!(counts.recovered, None);
}

/// Each end makes up for what the other sent and the path lost. How often is a matter of the clock: a repetition may come
/// before the parity does.
#[test]
fn kcp_go_corrects_what_we_sent_and_we_what_it_did() {
    if !has("kcptun-server", "kcptun") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("counts");
    for shards in [["10", "3"], ["3", "1"], ["70", "30"]] {
        let contender = format!("kcp:fec={}+{}", shards[0], shards[1]);
        let more = ["--snmplog", log.to_str().unwrap(), "--snmpperiod", "1"];
        let (counts, _server) = answered(&contender, shards, &more);
        assert!(counts.recovered > Some(0), "{contender}: {counts:?}");
        let deadline = Instant::now() + Duration::from(LONG);
        while corrected(&log) == 0 {
            assert!(Instant::now() < deadline, "{contender}: kcp-go corrected nothing");
            thread::sleep(Duration::from_millis(100));
        }
        std::fs::remove_file(&log).unwrap();
    }
}

/// Returns the datagrams that kcp-go made up for, from the table of counts that it writes.
fn corrected(log: &Path) -> u64 {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default();
    let Some(column) = names.split(',').position(|name| name == "FECRecovered") else { return 0 };
    let last = lines.next_back().unwrap_or_default();
    last.split(',').nth(column).and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[test]
fn kcp_go_is_answered_by_us() {
    if !has("kcptun-client", "kcptun") {
        return;
    }
    let mut far = Driven::open("kcp", &LANES, LARGEST, None).lossy().wrapped(Tunnel::default());
    let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let ends =
        ["--localaddr", &door.to_string(), "--remoteaddr", &format!("127.0.0.1:{}", far.port())];
    let _client = Kcptun::start("kcptun-client", ["0", "0"], &ends);
    let (there, back) = ways();
    thread::scope(|scope| {
        let before = scope.spawn(|| {
            let mut stream = TcpStream::connect(door).unwrap();
            stream.write_all(&there).unwrap();
            read(&mut stream, usize::MAX)
        });
        let mut frames = Frames::default();
        far.until(|far| {
            frames.take(far);
            frames.data.len() >= WAY
        });
        assert!(frames.data == there);
        let stream = frames.opened.unwrap();
        send(&mut far, stream, &back);
        far.write(0, &frame(END, stream, &[]));
        far.until(|far| far.protocol.is_drained());
        assert!(before.join().unwrap() == back);
    });
}
