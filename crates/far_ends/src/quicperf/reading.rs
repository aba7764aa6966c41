//! Readers for fuzz targets.

use super::bulk::{Download, Upload, Wish};
use super::requests::Requests;
use crate::readers::datagrams::MESSAGE;
use crate::readers::streams::{FedStreams, look, pieces};
use deadheat_base::time::Nanos;
use deadheat_contract::workload::header::{DUE_LEN, Header, write_due};
use deadheat_datapath::transport::application::Application;

/// Bytes that are wanted of an answer.
const WANTED: u64 = 100;

/// Time from one piece to the next.
const STEP: Nanos = Nanos::from_millis(700);

/// Reads a download of so many bytes, and one for a time.
pub(crate) fn download(bytes: &[u8]) {
    for wish in [Wish::Bytes(WANTED), Wish::For(Nanos::from_secs(3))] {
        let got = answers(&mut Download::new(wish), bytes, Doing::Nothing);
        assert!(wish != Wish::Bytes(WANTED) || got.is_none_or(|got| got <= WANTED), "{got:?}");
    }
}

/// Reads the answer to an upload, which ends after some pieces.
pub(crate) fn upload(bytes: &[u8]) {
    let got = answers(&mut Upload::default(), bytes, Doing::Giving);
    assert!(got.is_none_or(|got| got == 0), "an upload hands nothing over");
}

/// Reads answers to requests.
pub(crate) fn requests(bytes: &[u8]) {
    answers(&mut Requests::new(1, MESSAGE), bytes, Doing::Asking);
}

/// Part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    Giving,
    Asking,
}

/// Pieces after which an upload ends.
const GIVEN: usize = 3;

/// Hands all pieces to an application; returns the bytes that it handed over, or `None` after an error.
fn answers(application: &mut dyn Application, bytes: &[u8], doing: Doing) -> Option<u64> {
    let (mut streams, mut got, mut now) = (FedStreams::default(), 0, STEP);
    application.begin(Some(b"perf"), &mut streams).ok()?;
    let mut message = [7; MESSAGE];
    for (seq, (place, piece)) in pieces(bytes).enumerate() {
        match doing {
            Doing::Giving if seq < GIVEN => drop(application.give(&message, &mut streams).ok()?),
            Doing::Giving if seq == GIVEN => application.finish(&mut streams),
            Doing::Asking => {
                Header { tag: 1, seq: seq as u64 }.write(&mut message);
                write_due(&mut message, Nanos(WANTED));
                application.ask(&message, &mut streams).ok()?;
            }
            Doing::Nothing | Doing::Giving => {}
        }
        streams.feed(place, piece);
        application.attend(&mut streams).ok()?;
        application
            .read(&mut streams, &mut |part| {
                assert!(doing != Doing::Asking || (DUE_LEN..=MESSAGE).contains(&part.len()));
                got += part.len() as u64;
            })
            .ok()?;
        look(application);
        now += STEP;
        application.on_deadline(now, &mut streams).ok()?;
    }
    Some(got)
}
