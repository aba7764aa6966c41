//! A client of a reliable protocol that says of each byte that it never came, and that all came at once: the far end
//! sends everything again, faster each time. A server's limits are about bytes that leave it, repairs included; the
//! interface counts them.

use std::io::Write;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use serde_json::json;
use socket2::Type;

use crate::ground::{calm, carried};
use crate::server::at;
use crate::siege::Field;
use crate::wire::{hear, hello, let_in, open, patient, plan, protocol, said, socket, source};

/// Limits of the server, and the same as numbers.
pub(crate) const LIMITS: &[&str] = &["--max-rate", "10mbit", "--max-total", "1GB"];
const RATE_BPS: u64 = 10_000_000;

/// Time of a trial. Honest clients wait for its end, in their turn.
const TRIAL: Duration = Duration::from_secs(1);

/// Longer than anything here takes; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time without a datagram after which a trial has ended. A host under attack may let its far end wait for some of it.
const LULL: Duration = Duration::from_millis(500);

/// Trials that are counted, before honest clients come.
const COUNTED: u64 = 3;

/// Asks for data, says that all of it is missing, and that the path is as fast as a sender can wish for.
pub(crate) fn all(field: &Field<'_>) -> String {
    let protocol = protocol();
    let (mut trials, mut answers, mut received) = (0, 0, 0);
    let before = calm();
    let began = Instant::now();
    let mut left = 0;
    while trials < COUNTED || !field.is_over() {
        let (said, came) = drain(trials, protocol);
        trials += 1;
        (answers, received) = (answers + said, received + came);
        if trials == COUNTED {
            left = carried().1 - before.1;
            judge(field, left, began.elapsed());
            field.in_position();
        }
    }
    if answers < COUNTED {
        field.fault(format!("{answers} lies in {trials} trials: no trial got as far as that"));
    }
    format!(
        "{answers} times all missing in {trials} trials; {left} B on the interface in the first {COUNTED}"
    )
}

/// Holds what the interface carried against the limit: both ends of it, as the client's own words are few.
fn judge(field: &Field<'_>, carried: u64, took: Duration) {
    // A burst of a tenth of a second goes ahead in each trial, and control takes a little.
    let bursts = RATE_BPS / 8 / 10 * COUNTED;
    let most = RATE_BPS / 8 * took.as_millis() as u64 / 1_000 + bursts + 200_000;
    if carried > most {
        field.fault(format!("{carried} B left in {took:?}, and the limit allows {most}"));
    }
}

/// One trial; how often it lied, and the bytes that it received.
fn drain(trial: u64, protocol: u64) -> (u64, u64) {
    let from = source(2);
    let mut control = patient(let_in(from, protocol).unwrap());
    let token = 1_000 + trial;
    let mut plan = plan(token);
    plan["contender"] = json!("rbudp");
    plan["workload"] = json!(format!(
        "cbr:rate=8mbit,size=1200,count={},direction=down",
        TRIAL.as_millis() * 8_000_000 / 8 / 1_200 / 1_000
    ));
    control.write_all(&open(&plan)).unwrap();
    let mut word = hear(&mut control).unwrap();
    while word.get("queued").is_some() {
        word = hear(&mut control).unwrap();
    }
    assert!(word.get("ready").is_some(), "{word}");
    let data: UdpSocket = socket(from, Type::DGRAM).unwrap().into();
    data.connect(at(from)).unwrap();
    data.set_read_timeout(Some(PATIENCE)).unwrap();
    data.send(&hello(token, 0)).unwrap();
    let mut room = [0; 65_536];
    let welcome = data.recv(&mut room).unwrap();
    data.send(&room[..welcome]).unwrap();
    let word = hear(&mut control).unwrap();
    assert_eq!(word, json!("connected"));
    control.write_all(&said(&json!("start"))).unwrap();
    let (mut lies, mut received) = (0, 0);
    data.set_read_timeout(Some(LULL)).unwrap();
    let (until, at_last) = (Instant::now() + 2 * TRIAL, Instant::now() + PATIENCE);
    loop {
        let came = data.recv(&mut room);
        if let Ok(len) = came {
            received += len as u64;
            if let Some(round) = asked(&room[..len]) {
                data.send(&all_missing(round)).unwrap();
                lies += 1;
            }
        }
        // A far end that a busy host holds up has not asked yet.
        let now = Instant::now();
        if now > at_last || lies > 0 && (came.is_err() || now > until) {
            return (lies, received);
        }
    }
}

/// The round that a datagram of RBUDP asks about: the last one of data, or an ask.
fn asked(datagram: &[u8]) -> Option<u64> {
    let asks = matches!(datagram, [1, flags, ..] if flags & 2 != 0) || datagram.first() == Some(&2);
    let round = datagram.get(2..8).filter(|_| asks)?;
    Some(round.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The tally that says: nothing is here, nothing came behind it, and a megabyte took a microsecond.
fn all_missing(round: u64) -> Vec<u8> {
    let mut tally = vec![3, 1];
    tally.extend_from_slice(&round.to_be_bytes()[2..]);
    // The first datagram that is missing, and the one that the bitmap begins with.
    tally.extend_from_slice(&[0; 16]);
    // Of this round: datagrams, their bytes, and nanoseconds from the first to the last.
    tally.extend_from_slice(&round.to_be_bytes());
    tally.extend_from_slice(&700_u32.to_be_bytes());
    tally.extend_from_slice(&1_000_000_u64.to_be_bytes());
    tally.extend_from_slice(&1_000_u64.to_be_bytes());
    tally.extend_from_slice(&[0; 4]);
    tally
}
