//! Bytes that anybody may send on a data connection, first ones and messages, and those of a TURN server: nothing panics,
//! what is taken for a hello is one to the last bit, and no half of a workload counts more than it was given.
#![no_main]

#[path = "../../tests/common/handed_in.rs"]
mod handed_in;

use std::cell::RefCell;

use deadheat::contract::{Lane, LaneSet, PeerFacts, Side};
use deadheat::measurements::{OneWayDelays, Recorder, RoundTripSummary, Sample, SendSummary};
use deadheat::time::Nanos;
use deadheat::transport::Contender;
use deadheat::transport::hello::Hello;
use deadheat::trial::between::turn::message::{Attribute, Message, channel_data};
use deadheat::trial::control::announcement::Announcement;
use deadheat::workload::{self, BulkPart, Endpoint, Part};
use libfuzzer_sys::fuzz_target;

/// Keeps nothing: only counting is under test.
struct Nothing;

impl Recorder for Nothing {
    fn record(&mut self, sample: Sample) {
        assert!(sample.rtt_ns.is_none_or(|rtt| rtt < 3_000_000_000));
    }
    fn record_send(&mut self, _: u64, _: Option<u64>) {}
    fn record_delay(&mut self, _: i64) {}
    fn round_trips(&self, _: u64, _: u64) -> RoundTripSummary {
        RoundTripSummary::default()
    }
    fn sends(&self) -> SendSummary {
        SendSummary::default()
    }
    fn delays(&self) -> OneWayDelays {
        OneWayDelays::default()
    }
}

fn half(workload: &str, side: Side) -> Box<dyn Endpoint> {
    let task = workload::parse(workload).expect("a workload");
    let guarantees = Contender::parse("udp").expect("a contender").transport.info().guarantees;
    let recorder = Box::new(Nothing);
    let transit = Nanos::ZERO;
    task.half(Part {
        side,
        flow: 0,
        tag: 0,
        seed: 1,
        transit,
        guarantees,
        peer: PeerFacts::OURS,
        recorder,
        carried: LaneSet::ALL,
        store: None,
        exchange: None,
    })
}

thread_local! {
    static OUT: RefCell<Vec<u8>> = RefCell::new(vec![0; 70_000]);
}

fuzz_target!(|data: &[u8]| {
    if let Some(announcement) = Announcement::decode(data) {
        assert_eq!(announcement.encode(), data);
    }
    if let Some(hello) = Hello::decode(data) {
        assert_eq!(hello.encode(), data);
        assert_eq!(Hello::decode_welcome(data), None);
    }
    if let Some(welcome) = Hello::decode_welcome(data) {
        assert_eq!(welcome.encode_welcome(), data);
    }
    if let Some(message) = Message::parse(data) {
        assert!(channel_data(data).is_none());
        let _ = (
            message.error(),
            message.address(Attribute::XorRelayedAddress),
            message.is_authentic(b"key"),
        );
    }
    // Messages of up to 255 bytes, each with its length in front, to each receiving half in turn.
    let halves = [
        half("ping:window=8,count=64", Side::Near),
        half("ping", Side::Far),
        half("bulk", Side::Far),
    ];
    for mut half in halves {
        let (mut rest, mut given, mut now) = (data, 0u64, Nanos(1));
        OUT.with_borrow_mut(|out| {
            while let Some((len, tail)) = rest.split_first() {
                let (message, tail) = tail.split_at(tail.len().min(usize::from(*len)));
                rest = tail;
                given += 1;
                now += Nanos(1_000);
                if matches!(half.poll(now, out), deadheat::contract::Action::Send { .. }) {
                    half.on_sent(now);
                }
                match half.bulk() {
                    BulkPart::Receives(sink) => sink.take(message),
                    _ => half.on_message(now, Lane(0), message),
                }
            }
        });
        let got = half.report(now).received;
        assert!(got.messages + got.duplicates + got.foreign <= given);
    }
});
