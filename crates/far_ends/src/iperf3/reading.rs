//! Readers for fuzz targets.

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;

use socket2::Socket;

use super::control::Control;
use super::datagrams::Datagrams;
use super::results::TestResults;
use super::session;
use crate::blocks::{Blocks, CuttingSink};
use crate::readers::datagrams::{MESSAGE, decode};
use deadheat_base::spec::{Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Direction, Inbox, Lane, Sink};
use deadheat_contract::workload::TaskInfo;
use deadheat_datapath::transport::Info;
use deadheat_datapath::transport::far_end::{FarSession, SessionOrder};
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::plain::PlainProtocol;

/// Reads what a server says in a test up.
pub(crate) fn control_up(bytes: &[u8]) {
    control(bytes, PlainProtocol::TCP, &[Direction::Up]);
}

/// Reads what a server says in a test both ways.
pub(crate) fn control_both(bytes: &[u8]) {
    control(bytes, PlainProtocol::UDP, &[Direction::Up, Direction::Down]);
}

/// Runs a whole test with a server that says all of `bytes` at once, and then nothing more.
fn control(bytes: &[u8], over: PlainProtocol, ways: &[Direction]) {
    let Ok((ours, mut theirs)) = UnixStream::pair() else { return };
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 5201));
    let said = theirs.set_nonblocking(true).and_then(|()| theirs.write_all(bytes));
    let (Ok(()), Ok(())) = (said, theirs.shutdown(Shutdown::Write)) else { return };
    let Ok(knobs) = Spec::parse("x").and_then(|spec| Settings::check(&spec, &[])) else { return };
    let task = TaskInfo {
        flows: ways.iter().map(|way| Some(*way)).collect(),
        planned: Some(Nanos::from_secs(1)),
        largest_message: MESSAGE,
        ..TaskInfo::default()
    };
    let token = Token::from_bytes([3; 16]);
    let (transport, knobs, patience) = (&Info::KERNEL, &knobs, Nanos::from_secs(5));
    let order = SessionOrder { to, token, over, transport, knobs, task: &task, patience };
    let control = Control::over(Socket::from(ours), to, patience);
    let Ok(Some(control)) = control.admit(&super::cookie(&token)) else { return };
    let Ok(mut test) = session::begun(control, &order, None) else { return };
    test.settles_in = Nanos::ZERO;
    if test.start().is_ok() {
        let ended = test.end(&[]).map(|counts| counts.halves.len());
        assert!(ended.is_err() || ended.is_ok_and(|halves| halves == ways.len()));
    }
}

/// Reads the results of a server.
pub(crate) fn results(bytes: &[u8]) {
    if let Ok(results) = TestResults::parse(bytes) {
        assert!(results.streams.iter().all(|stream| stream.bytes <= 1 << 50));
    }
}

/// Reads datagrams of a server.
pub(crate) fn datagrams(bytes: &[u8]) {
    decode(&mut Datagrams::new(7), bytes);
}

struct Ignored;

impl Inbox for Ignored {
    fn message(&mut self, _lane: Lane, bytes: &[u8]) {
        assert_eq!(bytes.len(), MESSAGE);
    }
}

/// Reads blocks of a stream, and those of a transport with boundaries.
pub(crate) fn blocks(bytes: &[u8]) {
    let mut blocks = Blocks::new(7, MESSAGE);
    let mut sink = CuttingSink { inbox: &mut Ignored, blocks: &mut blocks };
    sink.take(bytes);
    decode(&mut Blocks::new(7, MESSAGE), bytes);
}
