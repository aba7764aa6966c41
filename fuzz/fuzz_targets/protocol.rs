//! What a peer may send to a protocol in user space: nothing panics, whatever arrives, in whatever order,
//! between handshake and end. The first byte chooses the protocol, whether it corrects errors, where it can, and the end; then each datagram stands
//! behind its length, and between them real ones go back and forth, of which some are changed.
#![no_main]

#[path = "../../tests/common/handed_in.rs"]
mod handed_in;

use deadheat::contract::{Inbox, Lane, Patience, Side};
use deadheat::spec::{Settings, Spec};
use deadheat::time::{Manual, Nanos};
use deadheat::transport::hello::Token;
use deadheat::transport::userspace::{Opening, OverPath, Received, Userspace};
use deadheat::transport::{ALL, Conn};
use libfuzzer_sys::fuzz_target;

struct Ignored;

impl Inbox for Ignored {
    fn message(&mut self, _: Lane, bytes: &[u8]) {
        assert!(bytes.len() <= 65_536);
    }
}

fn open(transport: &dyn Userspace, corrects: bool, side: Side, clock: &Manual) -> OverPath {
    let info = transport.info();
    let mut spec = Spec::parse(info.id).expect("a name");
    if corrects && info.keys.iter().any(|key| key.name == "fec") {
        spec.options.push(("fec".to_owned(), "2+1".to_owned()));
    }
    let knobs = Settings::check(&spec, info.keys).expect("defaults");
    let opening = Opening {
        side,
        token: Token::from_bytes([9; 16]),
        knobs: &knobs,
        lanes: info.guarantees.one_lane(),
        largest_message: 1_000,
        mtu: 1_500,
        ip_header: 20,
        tickets: &deadheat::transport::Tickets::default(),
    };
    OverPath::open(transport, &opening, clock).expect("an end")
}

/// Carries what one end has to say to the other; the first datagram with one byte changed, if so asked.
fn carry(now: Nanos, from: &mut OverPath, to: &mut OverPath, change: Option<(usize, u8)>) {
    let mut datagram = Vec::new();
    let mut change = change;
    for _ in 0..32 {
        datagram.clear();
        if from.transmit(&mut datagram).is_none() {
            return;
        }
        if let Some((at, by)) = change.take() {
            let at = at % datagram.len();
            datagram[at] ^= by;
        }
        to.handle(Received::plain(now, &datagram));
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let all: Vec<&dyn Userspace> =
        ALL.iter().filter_map(|transport| transport.userspace()).collect();
    let number = usize::from(*choice >> 1);
    let (transport, corrects) = (all[number % all.len()], (number / all.len()) % 2 == 1);
    let clock = Manual::default();
    let mut ends = [Side::Near, Side::Far].map(|side| open(transport, corrects, side, &clock));
    let mut now = Nanos(1);
    while let Some((len, tail)) = rest.split_first() {
        let (datagram, tail) = tail.split_at(tail.len().min(usize::from(*len)));
        rest = tail;
        now += Nanos::from_millis(1 + u64::from(*len));
        clock.advance_to(now);
        let [near, far] = &mut ends;
        let change = datagram.first_chunk().map(|[at, by]: &[u8; 2]| (usize::from(*at), *by));
        let (first, second) = if choice & 1 == 0 { (near, far) } else { (far, near) };
        first.handle(Received::plain(now, datagram));
        // A message that finds no room is not sent; whatever the connection then says is no panic.
        let _ = second.send(Lane(0), &[*len; 40]);
        carry(now, second, first, change);
        carry(now, first, second, None);
        for end in [first, second] {
            let _ = end.receive(Patience::None, &mut Ignored);
            let _ = end.on_deadline(now);
        }
    }
});
