//! A server that follows a script, in virtual time: what it sends on each stream, and how its direction ends.

use super::bulk::{Download, Upload, Wish};
use super::requests::Requests;
use super::{WISH_LEN, wish};
use crate::steps::{PeerFault, StepRow, run_out};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Direction;
use deadheat_contract::workload::TaskInfo;
use deadheat_contract::workload::header::{DUE_LEN, Header, read_due, write_due};
use deadheat_datapath::transport::application::{Application, Streams, TakesBulk, TakesRequests};

/// Streams by index: what this end wrote, what the far end has sent, and the end of either direction.
#[derive(Default)]
struct Script {
    streams: Vec<ScriptedStream>,
    /// Most streams that the far end allows.
    most: usize,
    /// Most bytes that a write finds room for.
    room: usize,
    acknowledged: u64,
}

#[derive(Default)]
struct ScriptedStream {
    written: Vec<u8>,
    is_finished: bool,
    sent: Vec<u8>,
    has_ended: bool,
    reset: Option<&'static str>,
    stopped: Option<u32>,
}

impl Script {
    fn new() -> Script {
        Script { most: 100, room: usize::MAX, ..Script::default() }
    }

    fn answers(&mut self, stream: usize, bytes: usize) {
        self.streams[stream].sent.resize(bytes, 7);
    }

    fn ends(&mut self, stream: usize) {
        self.streams[stream].has_ended = true;
    }
}

impl Streams for Script {
    fn open(&mut self) -> Option<u64> {
        (self.streams.len() < self.most).then(|| {
            self.streams.push(ScriptedStream::default());
            self.streams.len() as u64 - 1
        })
    }

    fn open_one_way(&mut self) -> Option<u64> {
        None
    }

    fn accept_one_way(&mut self) -> Option<u64> {
        None
    }

    fn write(&mut self, stream: u64, bytes: &[u8]) -> Result<usize, String> {
        let taken = bytes.len().min(self.room);
        self.streams[stream as usize].written.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn finish(&mut self, stream: u64) {
        self.streams[stream as usize].is_finished = true;
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let stream = &mut self.streams[stream as usize];
        if let Some(why) = stream.reset {
            return Err(why.to_owned());
        }
        let sent = std::mem::take(&mut stream.sent);
        if !sent.is_empty() {
            take(&sent);
        }
        Ok(stream.has_ended)
    }

    fn acknowledged(&mut self) -> u64 {
        self.acknowledged
    }

    fn stop(&mut self, stream: u64, code: u32) {
        self.streams[stream as usize].stopped = Some(code);
    }
}

/// Returns the bytes that are handed over.
fn drain(application: &mut dyn Application, far: &mut Script) -> Result<usize, String> {
    let mut got = 0;
    application.read(far, &mut |bytes| got += bytes.len())?;
    Ok(got)
}

const SEC: Nanos = Nanos::from_secs(1);

fn secs(secs: u64) -> Nanos {
    Nanos::from_secs(secs)
}

#[test]
fn a_download_asks_for_its_bytes_and_ends_with_them() {
    let (mut far, mut near) = (Script::new(), Download::new(Wish::Bytes(1_000)));
    assert!(far.streams.is_empty(), "nothing before the work begins");
    assert_eq!(drain(&mut near, &mut far), Ok(0));
    assert_eq!(far.streams[0].written, 1_000_u64.to_be_bytes());
    assert!(far.streams[0].is_finished && !near.state().has_ended);
    far.answers(0, 400);
    assert_eq!(drain(&mut near, &mut far), Ok(400));
    far.answers(0, 600);
    far.ends(0);
    assert_eq!(drain(&mut near, &mut far), Ok(600));
    assert!(near.state().has_ended && near.state().is_settled);
}

#[test]
fn a_download_for_a_time_is_stopped_after_it() {
    let (mut far, mut near) = (Script::new(), Download::new(Wish::For(SEC)));
    // Waiting for the start takes no part of its time.
    near.on_deadline(SEC, &mut far).unwrap();
    drain(&mut near, &mut far).unwrap();
    assert_eq!(far.streams[0].written, [255; WISH_LEN]);
    near.on_deadline(secs(5), &mut far).unwrap();
    assert_eq!(near.next_deadline(), Some(secs(6)));
    far.answers(0, 99);
    assert_eq!(drain(&mut near, &mut far), Ok(99));
    near.on_deadline(secs(6), &mut far).unwrap();
    assert!(near.state().has_ended);
    assert_eq!((far.streams[0].stopped, near.next_deadline()), (Some(0), None));
    assert_eq!(drain(&mut near, &mut far), Ok(0), "what comes after the end does not count");
}

#[test]
fn a_download_that_ends_or_goes_on_wrongly_is_an_error_with_both_counts() {
    for (wish, sent, ends, what) in [
        (Wish::Bytes(10), 9, true, "sent 9 bytes, and was asked for 10"),
        (Wish::Bytes(10), 11, false, "sent 11 bytes, and was asked for 10"),
        (Wish::For(SEC), 5, true, "ended after 5 bytes what was to go on"),
    ] {
        let (mut far, mut near) = (Script::new(), Download::new(wish));
        drain(&mut near, &mut far).unwrap();
        far.answers(0, sent);
        far.streams[0].has_ended = ends;
        let said = drain(&mut near, &mut far).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
    let (mut far, mut near) = (Script::new(), Download::new(Wish::Bytes(10)));
    drain(&mut near, &mut far).unwrap();
    far.streams[0].reset = Some("the peer reset its stream with code 3");
    assert!(drain(&mut near, &mut far).unwrap_err().contains("code 3"));
    assert_eq!(near.facts().awaits.unwrap(), "before all 10 bytes");
}

#[test]
fn a_download_that_stands_still_is_an_error_and_a_slow_one_is_none() {
    let (mut far, mut near) = (Script::new(), Download::new(Wish::Bytes(100)));
    drain(&mut near, &mut far).unwrap();
    near.on_deadline(SEC, &mut far).unwrap();
    far.answers(0, 1);
    drain(&mut near, &mut far).unwrap();
    let still = |from: u64, near: &mut Download, far: &mut Script| {
        (from..from + 20).find_map(|at| near.on_deadline(secs(at), far).err().map(|why| (at, why)))
    };
    let (at, said) = still(2, &mut near, &mut far).unwrap();
    assert!(
        (11..14).contains(&at) && said == "it did not go on for 10.0 s, after 1 bytes",
        "{said}"
    );
    let (mut far, mut near) = (Script::new(), Download::new(Wish::Bytes(100)));
    drain(&mut near, &mut far).unwrap();
    for at in 1..100 {
        near.on_deadline(secs(at), &mut far).unwrap();
        if at % 8 == 0 {
            far.answers(0, 1);
            drain(&mut near, &mut far).unwrap();
        }
    }
}

#[test]
fn an_upload_is_settled_once_the_answer_has_ended() {
    let (mut far, mut near) = (Script::new(), Upload::default());
    assert_eq!(near.give(b"abc", &mut far), Ok(3));
    far.room = 1;
    assert_eq!(near.give(b"de", &mut far), Ok(1));
    assert_eq!(far.streams[0].written, b"\0\0\0\0\0\0\0\0abcd");
    near.finish(&mut far);
    assert!(far.streams[0].is_finished && !near.state().is_settled);
    assert_eq!(near.facts().awaits.unwrap(), "before it confirmed the upload");
    far.ends(0);
    near.attend(&mut far).unwrap();
    assert!(near.state().is_settled);
    assert_eq!(near.next_deadline(), None);
}

#[test]
fn an_upload_waits_while_acknowledgements_come_and_no_longer() {
    let (mut far, mut near) = (Script::new(), Upload::default());
    near.give(b"abc", &mut far).unwrap();
    assert_eq!(near.next_deadline(), None, "the work sets the pace");
    near.finish(&mut far);
    near.on_deadline(SEC, &mut far).unwrap();
    far.acknowledged += 1;
    near.on_deadline(secs(4), &mut far).unwrap();
    let said = near.on_deadline(secs(7), &mut far).unwrap_err();
    assert!(said.contains("acknowledged nothing more for 2.50 s"), "{said}");
}

#[test]
fn an_upload_that_is_answered_wrongly_is_an_error() {
    let begun = || {
        let (mut far, mut near) = (Script::new(), Upload::default());
        near.give(b"abc", &mut far).unwrap();
        (far, near)
    };
    let (mut far, mut near) = begun();
    far.answers(0, 2);
    assert!(near.attend(&mut far).unwrap_err().contains("answered with 2 bytes"));
    let (mut far, mut near) = begun();
    far.ends(0);
    assert!(near.attend(&mut far).unwrap_err().contains("amid the upload, after 3 bytes"));
    let (mut far, mut near) = begun();
    far.streams[0].reset = Some("the peer reset its stream with code 9");
    assert!(near.attend(&mut far).unwrap_err().contains("code 9"));
}

/// A request as the work sends it.
fn request(number: u64, answer: u64) -> Vec<u8> {
    let mut message = vec![1; 50];
    Header { tag: 3, seq: number }.write(&mut message);
    write_due(&mut message, Nanos(answer));
    message
}

#[test]
fn answers_are_handed_over_in_messages_with_the_number_of_their_request() {
    let (mut far, mut near) = (Script::new(), Requests::new(3, 120));
    for (number, answer) in [(0, 250), (1, 30)] {
        assert_eq!(near.ask(&request(number, answer), &mut far), Ok(true));
    }
    let wish = &far.streams[0].written;
    assert_eq!((&wish[..8], wish.len()), (&250_u64.to_be_bytes()[..], 58));
    far.answers(1, 30);
    far.ends(1);
    far.answers(0, 250);
    let mut handed = Vec::new();
    let mut take = |message: &[u8]| {
        let header = Header::read(message).unwrap();
        handed.push((
            header.tag,
            header.seq,
            read_due(message).unwrap().0,
            message.len() - DUE_LEN,
        ));
    };
    near.read(&mut far, &mut take).unwrap();
    assert_eq!(handed, [(3, 0, 0, 100), (3, 1, 0, 100), (3, 2, 0, 50), (3, 3, 1, 30)]);
    assert_eq!(near.facts().awaits.unwrap(), "before the end of its answer to request 0");
    far.ends(0);
    drain(&mut near, &mut far).unwrap();
    assert_eq!(near.facts().awaits, None);
}

#[test]
fn requests_wait_for_streams_and_for_room() {
    let (mut far, mut near) = (Script { most: 1, ..Script::new() }, Requests::new(3, 120));
    far.room = WISH_LEN;
    assert_eq!(near.ask(&request(0, 9), &mut far), Ok(true));
    assert!(!far.streams[0].is_finished);
    assert_eq!(near.ask(&request(1, 9), &mut far), Ok(false), "no stream is left");
    for _ in 0..10 {
        near.attend(&mut far).unwrap();
    }
    assert_eq!(far.streams[0].written[WISH_LEN..], request(0, 9));
    assert!(far.streams[0].is_finished);
}

#[test]
fn an_answer_of_another_length_or_none_is_an_error_with_its_request() {
    for (sent, ends, what) in [
        (29, true, "to request 5 it sent 29 bytes, and was asked for 30"),
        (31, false, "to request 5 it sent 31 bytes, and was asked for 30"),
    ] {
        let (mut far, mut near) = (Script::new(), Requests::new(3, 120));
        near.ask(&request(5, 30), &mut far).unwrap();
        far.answers(0, sent);
        far.streams[0].has_ended = ends;
        assert_eq!(drain(&mut near, &mut far).unwrap_err(), what);
    }
    let (mut far, mut near) = (Script::new(), Requests::new(3, 120));
    near.ask(&request(5, 30), &mut far).unwrap();
    let old = (0..20).find_map(|second| near.on_deadline(secs(second), &mut far).err());
    assert_eq!(old.unwrap(), "to request 5 it did not go on for 10.0 s");
}

#[test]
fn flows_that_receive_share_the_bytes_of_their_direction() {
    let (up, down) = (Some(Direction::Up), Some(Direction::Down));
    let both = TaskInfo {
        flows: vec![up, up, up, down, down, down],
        most_bytes: Some(10),
        ..TaskInfo::default()
    };
    let wishes: Vec<Wish> = (3..6).map(|flow| wish(flow, &both)).collect();
    assert_eq!(wishes, [Wish::Bytes(3), Wish::Bytes(3), Wish::Bytes(4)]);
    let planned = Some(Nanos::from_secs(2));
    let timed = TaskInfo { flows: vec![down], planned, ..TaskInfo::default() };
    assert_eq!(wish(0, &timed), Wish::For(Nanos::from_secs(2)));
}

/// Returns the rows of all steps, for the table.
pub(crate) fn steps() -> Vec<StepRow> {
    use PeerFault::{Endless, Garbage, LyingLength, Silent};
    let row = |step, fault, doing: Doing, (before, again): (usize, usize)| StepRow {
        protocol: "QUIC perf",
        step,
        fault,
        run: Box::new(move || {
            let mut far = Script::new();
            let mut near: Box<dyn Application> = match doing {
                Doing::Download => Box::new(Download::new(Wish::Bytes(1_000))),
                Doing::Timed => Box::new(Download::new(Wish::For(secs(60)))),
                Doing::Upload => Box::new(Upload::default()),
                Doing::Requests => Box::new(Requests::new(3, 120)),
            };
            match doing {
                Doing::Upload => {
                    near.give(b"abc", &mut far).unwrap();
                    near.finish(&mut far);
                }
                Doing::Requests => assert_eq!(near.ask(&request(0, 250), &mut far), Ok(true)),
                Doing::Download | Doing::Timed => drop(drain(&mut *near, &mut far).unwrap()),
            }
            far.answers(0, before);
            let again = vec![7; again];
            run_out(&mut *near, &mut far, &again, |far, bytes| {
                far.streams[0].sent.extend_from_slice(bytes);
            })
        }),
    };
    vec![
        row("the first byte", Silent, Doing::Download, (0, 0)),
        row("amid a download", Silent, Doing::Download, (500, 0)),
        row("amid a download", Silent, Doing::Timed, (500, 0)),
        row("the end of a download", Endless, Doing::Download, (0, 1)),
        row("the length of a download", LyingLength, Doing::Download, (1_001, 0)),
        row("the answer to a request", Silent, Doing::Requests, (0, 0)),
        row("the answer to a request", Endless, Doing::Requests, (0, 1)),
        row("the length of an answer", LyingLength, Doing::Requests, (251, 0)),
        row("the end of an upload", Silent, Doing::Upload, (0, 0)),
        row("the end of an upload", Garbage, Doing::Upload, (9, 0)),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Doing {
    Download,
    Timed,
    Upload,
    Requests,
}
