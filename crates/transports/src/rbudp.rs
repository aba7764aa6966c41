//! Reliable Blast UDP, after He, Leigh, Yu and DeFanti, "Reliable Blast UDP: Predictable High Performance Bulk Data
//! Transfer", IEEE Cluster 2002: datagrams leave at a given rate, whether lost or not; then the sender asks, the
//! receiver answers with a bitmap of the datagrams that arrived, and the missing ones leave again, until none is
//! missing.
//!
//! In the paper the sender knows the length of the data, blasts all of it, and asks over a separate TCP connection.
//! Here the data is a stream of unknown length, and all datagrams use one UDP socket. Therefore:
//!
//! - A **round** is the data that is ready: first missing datagrams, then new ones, up to a tenth of a second at the
//!   rate, and a quarter of `window=`. Its last datagram asks. The next round does not wait for the answer while the
//!   window has room, so a payload of S bytes at R bit/s takes 8·S/R and one round trip, as one blast of the paper
//!   does, and not one round trip for each window.
//! - An unanswered ask is repeated, by a timer from the round trips of answers (RFC 6298), of 1 ms or more. It repeats
//!   the question and no data. Each ask has a number, which its answer repeats.
//! - A tally too long for a datagram is split into several, each of which is useful alone.
//! - Late datagrams count as missing, as in the paper: if the network reorders, datagrams leave twice.
//!
//! A small message is a round of its own and leaves at once; its loss is detected by the answer to the round after it,
//! or by the timer. [`wire`] has the formats.

use std::io;

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Kind, plain};
use deadheat_base::time::Nanos;
use deadheat_base::units::{BitRate, Bytes, parse_rate, rate_text};
use deadheat_contract::contract::{Congestion, Guarantees, Lane};
use deadheat_datapath::transport::frame::PREFIX;
use deadheat_datapath::transport::userspace::{
    InOrder, MTU, Opening, Protocol, ProtocolStats, Received, Rest, State, Transmit, Userspace,
};
use deadheat_datapath::transport::{Effective, Info, effective_options};
use pace::RateSource;
use receiver::RbudpReceiver;
use sender::{RbudpSender, RbudpTerms};
use wire::{HEADER, RbudpDatagram, TALLY};

mod pace;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod wire;

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct Rbudp;

/// Value of the knob for a rate that is probed.
const PROBE: &str = "probe";

/// Least number of datagrams that may be under way, small messages included.
const LEAST_FLIGHTS: usize = 1_024;

static INFO: Info = Info {
    id: "rbudp",
    label: "RBUDP",
    colour: "#b0662f",
    summary: "a byte stream over UDP in blasts, at a given or probed rate",
    guarantees: Guarantees { congestion: Congestion::Uncontrolled, ..Guarantees::BYTE_STREAM },
    framing_bytes: PREFIX,
    keys: &[RATE.key(), WINDOW.key(), MTU.key()],
    ..Info::IN_USER_SPACE
};

const RATE: Preset<RateSource> = Optional::form(
    "rate",
    Kind::Own { form: "probe|64kbit..1tbit", check: |typed| rate(typed).map(drop), refers: plain },
    rate,
    RateSource::Probe,
)
.or(PROBE)
.doc(
    "the rate at which IP packets leave; probe: twice the rate at which the last round \
     arrived, later 9/8 of the fastest of ten",
);

const WINDOW: Preset<Bytes> = Optional::size("window", (4_096, 1 << 30)).or("8MB").doc(
    "the most bytes under way, and the room for data that arrives behind a gap; a round is a \
     quarter of it at most",
);

fn rate(typed: &str) -> Result<RateSource> {
    if typed == PROBE {
        return Ok(RateSource::Probe);
    }
    let rate = parse_rate(typed)?;
    if (pace::LEAST..=pace::MOST).contains(&rate.0) {
        return Ok(RateSource::Fixed(rate));
    }
    let [least, most] = [pace::LEAST, pace::MOST].map(|rate| rate_text(BitRate(rate)));
    Err(Error::usage(format!("`{typed}` is outside {least}..{most}; `{PROBE}` finds a rate")))
}

impl Userspace for Rbudp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        Ok(Box::new(RbudpEnd::open(opening)?))
    }
}

/// End of a connection.
struct RbudpEnd {
    sender: RbudpSender,
    receiver: RbudpReceiver,
    /// Longest datagram in bytes.
    datagram: usize,
    window: u64,
    mtu: u32,
}

impl RbudpEnd {
    fn open(opening: &Opening<'_>) -> Result<RbudpEnd> {
        // A tally has the longer header, and covers nothing without a byte of a bitmap.
        let datagram = opening.payload(INFO.id, TALLY as u32 + 1)?;
        let headers = opening.headers() + HEADER as u32;
        let segment = u64::from(datagram - HEADER as u32).min(u16::MAX.into());
        let knobs = opening.knobs;
        let window = knobs.get(&WINDOW).0.max(segment);
        // The buffer takes messages whole, so it has room for the largest.
        let message = PREFIX + opening.largest_message;
        let buffer = message.max(window as usize);
        let most = (2 * buffer / segment as usize).max(LEAST_FLIGHTS);
        let rate = knobs.get(&RATE);
        let terms = RbudpTerms { buffer, message, most, segment, headers: headers.into(), rate };
        Ok(RbudpEnd {
            sender: RbudpSender::new(terms),
            receiver: RbudpReceiver::new(buffer, most),
            datagram: datagram as usize,
            window,
            mtu: opening.mtu,
        })
    }
}

impl Protocol for RbudpEnd {
    /// Returns [`State::Open`] from the start: the ends have nothing to agree on.
    fn state(&self) -> State {
        State::Open
    }

    fn handle(&mut self, Received { at: now, bytes: datagram, .. }: Received<'_>) {
        match wire::read(datagram) {
            Some(RbudpDatagram::Data(data)) => self.receiver.take(now, &data),
            Some(RbudpDatagram::Ask(round)) => self.receiver.on_ask(round),
            Some(RbudpDatagram::Tally(tally)) => self.sender.answered(now, &tally),
            None => {}
        }
    }

    fn transmit(&mut self, now: Nanos, most: usize, batch: &mut Vec<u8>) -> Option<Transmit> {
        let from = batch.len();
        if self.receiver.transmit(self.datagram, batch) {
            return Some(Transmit::plain(batch.len() - from));
        }
        self.sender.transmit(now, most, batch).map(Transmit::plain)
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.sender.next_deadline()
    }

    fn on_deadline(&mut self, now: Nanos) {
        self.sender.on_timer(now);
    }

    fn room(&self, _lane: Lane) -> usize {
        self.sender.room() as usize
    }

    fn write(&mut self, _now: Nanos, _lane: Lane, bytes: &[u8], _: Rest) -> io::Result<usize> {
        self.sender.buffer.put(bytes);
        Ok(bytes.len())
    }

    fn read(&mut self, _now: Nanos, take: &mut dyn FnMut(Lane, &[u8]) -> usize) {
        self.receiver.hand_over(&mut |bytes| take(Lane(0), bytes));
    }

    fn finish(&mut self, _now: Nanos, _lane: Lane) {
        self.sender.buffer.finish();
    }

    fn has_ended(&self, _lane: Lane) -> bool {
        self.receiver.is_over()
    }

    fn is_drained(&self) -> bool {
        self.sender.is_drained()
    }

    fn stats(&self) -> ProtocolStats {
        let stats = ProtocolStats::of(self.sender.sent, self.sender.resent, HEADER as u64);
        stats.seen(self.sender.view())
    }

    fn effective(&self) -> Effective {
        let rate = match self.sender.pace().origin() {
            RateSource::Fixed(rate) => rate_text(rate),
            RateSource::Probe => PROBE.to_owned(),
        };
        effective_options([
            ("cc", "none".to_owned()),
            ("rate", rate),
            ("window", format!("{} B", self.window)),
            ("mtu", format!("{} B", self.mtu)),
        ])
    }
}
