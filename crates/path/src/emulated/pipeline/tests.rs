use std::net::IpAddr;

use super::*;
use crate::down::DownTimes;
use crate::emulated::testing::{HEADERS, Notes, datagrams};
use crate::nat::{Dependence, Middlebox};
use crate::network::{
    Discipline, Ecn, GilbertElliott, Jitter, Limit, Loss, LossPer, Nic, Order, Queue, Rate,
    Reorder, Shape,
};
use crate::segment::VNET;
use deadheat_base::ends::Direction;
use deadheat_base::rng::SplitMix64;
use deadheat_base::time::Manual;
use deadheat_base::units::BitRate;

const PLACE: Place = Place { seed: 1, link: 0, direction: Direction::Up };
const NONE: Changes = Changes { marked: false, flipped: None };
const MARKED: Changes = Changes { marked: true, flipped: None };

struct Bench {
    clock: Manual,
    port: Notes,
    lane: Pipeline,
}

impl Bench {
    fn new(model: &Impairments, grouping: Grouping, budget: usize) -> Bench {
        let clock = Manual::default();
        let slab = Slab::new(budget, 0).unwrap();
        let lane = Pipeline::new(model, PLACE, grouping, slab, None).unwrap();
        Bench { port: Notes::new(&clock), clock, lane }
    }

    fn delayed(delay: Nanos, grouping: Grouping) -> Bench {
        Bench::new(&Impairments { delay, ..Impairments::default() }, grouping, 16 << 20)
    }

    fn arrive(&mut self, at: Nanos, frame: &[u8]) {
        self.release_until(at);
        self.clock.advance_to(at);
        self.lane.release(at, &self.clock, &self.port).unwrap();
        self.lane.landing()[..frame.len()].copy_from_slice(frame);
        self.lane.arrive(at, frame.len(), &self.port);
    }

    /// Advances to each time that the lane returns, until `until`.
    fn release_until(&mut self, until: Nanos) {
        while let Some(next) = self.lane.next().filter(|next| *next < until) {
            self.clock.advance_to(next);
            self.lane.release(self.clock.now(), &self.clock, &self.port).unwrap();
        }
    }

    /// Stores a frame; the test decides the fates of its packets.
    fn hold(&mut self, frame: &[u8]) -> Slot {
        self.lane.landing()[..frame.len()].copy_from_slice(frame);
        let slot = self.lane.slab.keep(frame.len()).unwrap();
        let seen = GsoFrame::parse(self.lane.slab.frame(slot));
        self.lane.slab.expect(slot, seen, seen.segments);
        slot
    }

    fn deliver(&mut self, slot: Slot, n: u32, changes: Changes, at: u64) {
        let segment = Segment { slot, n };
        self.lane.deliver(segment, changes, Nanos(at), &self.clock, &self.port).unwrap();
    }

    fn close(&mut self) {
        self.lane.close(&self.clock, &self.port).unwrap();
    }
}

#[test]
fn a_frame_leaves_whole_after_exactly_the_delay() {
    let delay = Nanos::from_millis(25);
    let mut bench = Bench::delayed(delay, Grouping::Strict);
    let frames = [datagrams(40, 1_000, 7), datagrams(1, 60, 60), datagrams(2, 1_200, 1_200)];
    let arrivals = [Nanos(5), Nanos(6), Nanos::from_millis(24)];
    for (at, frame) in arrivals.into_iter().zip(&frames) {
        bench.arrive(at, frame);
    }
    assert_eq!(bench.lane.next(), Some(arrivals[0] + delay));
    bench.release_until(Nanos(u64::MAX));
    let wanted: Vec<(Nanos, Vec<u8>)> =
        arrivals.into_iter().map(|at| at + delay).zip(frames).collect();
    assert_eq!(bench.port.take(), wanted);
    let figures = bench.lane.figures();
    assert_eq!((figures.fates.delivered, figures.writes, figures.device_drops), (43, 3, 0));
    let lateness = figures.lateness_ns.unwrap();
    assert_eq!((lateness.n, lateness.max), (3, Some(0)));
    assert_eq!(bench.lane.slab.under_way(), 0);
}

#[test]
fn a_release_that_comes_late_is_on_record() {
    let mut bench = Bench::delayed(Nanos(1_000), Grouping::Strict);
    bench.arrive(Nanos(0), &datagrams(3, 500, 500));
    bench.clock.advance_to(Nanos(1_700));
    assert_eq!(bench.lane.release(Nanos(1_700), &bench.clock, &bench.port).unwrap(), 1);
    assert_eq!(bench.lane.figures().lateness_ns.unwrap().max, Some(700));
}

#[test]
fn the_time_in_the_queue_is_on_record_where_there_is_one() {
    // 1,000 bytes take 80 µs at 100 Mbit/s.
    let rate = Rate::Fixed(BitRate(100_000_000));
    let model = Impairments { rate, delay: Nanos(7), ..Impairments::default() };
    let mut bench = Bench::new(&model, Grouping::Strict, 16 << 20);
    let size = 1_000 - HEADERS as u16;
    bench.arrive(Nanos(0), &datagrams(3, size, size));
    bench.release_until(Nanos(u64::MAX));
    let out = [80_007, 160_007, 240_007];
    assert_eq!(
        bench.port.numbers(),
        (0..).zip(out).map(|(n, at)| (at, vec![n])).collect::<Vec<_>>()
    );
    let queued = bench.lane.figures().queued_ns.unwrap();
    assert_eq!((queued.n, queued.min, queued.max), (3, Some(0), Some(160_000)));
    assert_eq!(Bench::delayed(Nanos(7), Grouping::Strict).lane.figures().queued_ns, None);
}

#[test]
fn an_aggregate_run_is_held_for_neighbours_and_leaves_with_the_last() {
    // 1,000 bytes take 2 µs at 4 Gbit/s, so eight of them leave within 15 µs, and then four.
    let rate = Rate::Fixed(BitRate(4_000_000_000));
    let model = Impairments { rate, ..Impairments::default() };
    let mut bench = Bench::new(&model, Grouping::Aggregate, 16 << 20);
    let size = 1_000 - HEADERS as u16;
    bench.arrive(Nanos(0), &datagrams(12, size, size));
    bench.release_until(Nanos(u64::MAX));
    assert_eq!(
        bench.port.numbers(),
        [(16_000, (0..8).collect::<Vec<u8>>()), (24_000, (8..12).collect::<Vec<u8>>())]
    );
    let figures = bench.lane.figures();
    assert_eq!((figures.fates.delivered, figures.lateness_ns.unwrap().max), (12, Some(0)));
}

#[test]
fn runs_end_where_packets_are_missing_changed_twice_or_elsewhere() {
    let mut bench = Bench::delayed(Nanos::ZERO, Grouping::Strict);
    let (a, b) = (bench.hold(&datagrams(9, 100, 50)), bench.hold(&datagrams(9, 100, 50)));
    // Of the first frame packet 2 is lost, 4 and 5 are marked; then one packet of the second frame; packet 6 of the
    // first arrives twice; 8 overtakes 7.
    bench.lane.slab.departed(a, 1);
    for (slot, n, changes) in [
        (a, 0, NONE),
        (a, 1, NONE),
        (a, 3, NONE),
        (a, 4, MARKED),
        (a, 5, MARKED),
        (b, 0, NONE),
        (a, 6, NONE),
        (a, 6, NONE),
        (a, 8, NONE),
        (a, 7, NONE),
    ] {
        bench.deliver(slot, n, changes, 0);
    }
    bench.close();
    let runs: Vec<Vec<u8>> = bench.port.numbers().into_iter().map(|(_, run)| run).collect();
    let wanted: [&[u8]; 8] = [&[0, 1], &[3], &[4, 5], &[0], &[6], &[6], &[8], &[7]];
    assert_eq!(runs, wanted);
}

#[test]
fn strict_joins_what_departs_at_one_time_and_aggregate_what_departs_within_its_span() {
    let span = AGGREGATE.0;
    let times = [0, 0, 1, span, span + 1, 2 * span, 2 * span + 1, 4 * span];
    for (grouping, wanted) in [
        (Grouping::Strict, vec![vec![0, 1], vec![2], vec![3], vec![4], vec![5], vec![6], vec![7]]),
        (Grouping::Aggregate, vec![vec![0, 1, 2, 3], vec![4, 5, 6], vec![7]]),
    ] {
        let mut bench = Bench::delayed(Nanos::ZERO, grouping);
        let slot = bench.hold(&datagrams(8, 100, 50));
        for (n, at) in (0..).zip(times) {
            bench.deliver(slot, n, NONE, at);
        }
        bench.close();
        let runs: Vec<Vec<u8>> = bench.port.numbers().into_iter().map(|(_, run)| run).collect();
        assert_eq!(runs, wanted, "{grouping:?}");
        assert_eq!(bench.lane.slab.under_way(), 0);
    }
}

#[test]
fn a_packet_with_a_flipped_bit_travels_alone_and_differs_in_that_bit() {
    let mut bench = Bench::delayed(Nanos::ZERO, Grouping::Strict);
    let slot = bench.hold(&datagrams(4, 100, 100));
    let bit = (HEADERS as u32 + 3) * 8 + 7;
    for n in 0..4 {
        let flipped = (n == 2).then_some(bit);
        bench.deliver(slot, n, Changes { marked: false, flipped }, 0);
    }
    bench.close();
    let written = bench.port.take();
    let lengths: Vec<usize> = written.iter().map(|(_, frame)| frame.len()).collect();
    let one = VNET + HEADERS + 100;
    assert_eq!(lengths, [one + 100, one, one]);
    let flipped = &written[1].1;
    assert_eq!(flipped[..VNET], [0; VNET], "nothing is left to the device");
    assert_eq!(flipped[VNET + HEADERS..][..5], [2, 2, 2, 3, 2]);
}

#[test]
fn what_a_device_does_not_take_is_counted_and_a_device_that_is_gone_ends_it() {
    let mut bench = Bench::delayed(Nanos::ZERO, Grouping::Strict);
    bench.port.refuse(libc::ENOBUFS);
    bench.arrive(Nanos(0), &datagrams(5, 100, 100));
    bench.release_until(Nanos(9));
    assert_eq!((bench.lane.figures().device_drops, bench.lane.slab.under_way()), (5, 0));

    // If the version of a packet is broken, the loss counts for the model alone.
    bench.port.refuse(libc::EINVAL);
    let slot = bench.hold(&datagrams(1, 100, 100));
    bench.deliver(slot, 0, Changes { marked: false, flipped: Some(1) }, 9);
    bench.close();
    assert_eq!(bench.lane.figures().device_drops, 5);

    bench.port.refuse(libc::EBADFD);
    bench.arrive(Nanos(10), &datagrams(5, 100, 100));
    let gone = bench.lane.release(Nanos(10), &bench.clock, &bench.port).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(libc::EBADFD));
}

#[test]
fn frames_without_room_are_counted_by_the_packet() {
    let delayed = Impairments { delay: Nanos(100), ..Impairments::default() };
    let mut bench = Bench::new(&delayed, Grouping::Strict, 1 << 20);
    for n in 0..10 {
        bench.arrive(Nanos(n), &datagrams(30, 1_000, 1_000));
    }
    // Five sixteenths of 1 MiB are four slots of the largest size, one of which is for reading.
    let figures = bench.lane.figures();
    assert_eq!((figures.fates.arrived, figures.device_drops), (3 * 30, 7 * 30));
    bench.release_until(Nanos(1_000));
    bench.arrive(Nanos(1_000), &datagrams(30, 1_000, 1_000));
    assert_eq!(bench.lane.figures().fates.arrived, 4 * 30);
}

#[test]
fn a_beginning_forgets_what_was_under_way() {
    let mut bench = Bench::delayed(Nanos(100), Grouping::Strict);
    bench.arrive(Nanos(0), &datagrams(3, 1_000, 1_000));
    bench.lane.begin(PLACE).unwrap();
    assert_eq!((bench.lane.next(), bench.lane.slab.under_way()), (None, 0));
    assert_eq!(bench.lane.figures().fates.arrived, 0);
    bench.arrive(Nanos(50), &datagrams(2, 1_000, 1_000));
    bench.release_until(Nanos(1_000));
    assert_eq!(bench.port.numbers(), [(150, vec![0, 1])]);
}

fn any_model(rng: &mut SplitMix64) -> Impairments {
    let share = |rng: &mut SplitMix64| if rng.below(2) == 0 { 0.0 } else { rng.unit() * 0.3 };
    let loss = match rng.below(4) {
        0 => Loss::None,
        1 => Loss::Bernoulli(rng.unit()),
        2 => Loss::GilbertElliott(GilbertElliott { p: 0.1, r: 0.3, bad: 1.0, good: 0.0 }),
        _ => Loss::List([1, 3, 4, 20].into()),
    };
    let rate = match rng.below(3) {
        0 => Rate::Unlimited,
        1 => Rate::Fixed(BitRate(5_000_000_000)),
        _ => Rate::Fixed(BitRate(50_000_000)),
    };
    let (target, interval) = (Nanos::from_micros(300), Nanos::from_millis(4));
    let discipline = match rng.below(4) {
        0 => Discipline::Codel { target, interval },
        1 => Discipline::FqCodel { target, interval },
        2 => Discipline::Pie { target },
        _ => Discipline::DropTail,
    };
    let limit = if rng.below(2) == 0 { Limit::Packets(20) } else { Limit::Bytes(90_000) };
    let ecn = if rng.below(2) == 0 { Ecn::Marks } else { Ecn::Ignored };
    let jitter = (rng.below(2) == 0).then(|| Jitter {
        scale: Nanos::from_micros(50),
        shape: Shape::Uniform,
        order: if rng.below(2) == 0 { Order::Kept } else { Order::Free },
    });
    let reorder = (rng.below(2) == 0).then(|| Reorder {
        share: rng.unit(),
        depth: 1 + rng.below(4) as u32,
        patience: Nanos::from_micros(900),
    });
    Impairments {
        block: crate::block::Block::parse_all("udp@1s").unwrap(),
        down: [DownTimes::default(), DownTimes::parse("1ms-2ms/2500us-3ms").unwrap()]
            [rng.below(2) as usize]
            .clone(),
        nic: Nic::Usual,
        loss,
        loss_per: if rng.below(2) == 0 { LossPer::Packet } else { LossPer::Super },
        duplicate: share(rng),
        corrupt: share(rng),
        rate,
        overhead: 38,
        queue: Queue { limit, discipline, ecn },
        delay: Nanos::from_micros(rng.below(3) * 100),
        jitter,
        reorder,
    }
}

/// For any model: every packet's slot is freed, and every delivered packet was written on time.
#[test]
fn no_model_leaks_slots_or_packets() {
    let mut rng = SplitMix64::new(4);
    let mut delivered = 0;
    for round in 0..300u64 {
        let model = any_model(&mut rng);
        let grouping = if round % 2 == 0 { Grouping::Strict } else { Grouping::Aggregate };
        let mut bench = Bench::new(&model, grouping, 64 << 20);
        let mut now = Nanos::ZERO;
        for _ in 0..30 {
            now += Nanos(rng.below(200_000));
            let count = 1 + rng.below(30) as usize;
            let size = 100 + rng.below(1_300) as u16;
            bench.arrive(now, &datagrams(count, size, 1 + rng.below(100) as u16));
        }
        bench.release_until(Nanos(u64::MAX));
        let figures = bench.lane.figures();
        assert_eq!(bench.lane.slab.under_way(), 0, "{model:?}");
        assert!(bench.lane.open.is_none());
        let written = bench.port.take();
        let packets: u64 =
            written.iter().map(|(_, frame)| u64::from(GsoFrame::parse(frame).segments)).sum();
        assert_eq!((written.len() as u64, packets), (figures.writes, figures.fates.delivered));
        assert_eq!((figures.device_drops, figures.fates.waiting), (0, 0), "{model:?}");
        // A packet that waits for a neighbour that does not arrive is late by that, and nothing else is.
        let span = if grouping == Grouping::Strict { Nanos::ZERO } else { AGGREGATE };
        let late = figures.lateness_ns.and_then(|lateness| lateness.max).unwrap_or(0);
        assert!(late <= span.0, "{late} ns late: {model:?}");
        delivered += packets;
    }
    assert!(delivered > 30_000, "{delivered}");
}

#[test]
fn a_loss_per_super_packet_takes_all_of_its_segments_or_none() {
    let loss = Loss::Bernoulli(0.5);
    let of = |loss_per| {
        let model = Impairments { loss: loss.clone(), loss_per, ..Impairments::default() };
        let mut bench = Bench::new(&model, Grouping::Strict, 16 << 20);
        for at in 0..200 {
            bench.arrive(Nanos(at * 1_000), &datagrams(10, 100, 100));
        }
        bench.release_until(Nanos(u64::MAX));
        let figures = bench.lane.figures();
        assert_eq!(figures.fates.arrived, 2_000);
        let whole = bench.port.take().iter().all(|(_, frame)| *frame == datagrams(10, 100, 100));
        (figures.fates.lost, whole)
    };
    let (lost, whole) = of(LossPer::Super);
    assert!(lost % 10 == 0 && (500..1_500).contains(&lost), "{lost}");
    assert!(whole);
    let (lost, whole) = of(LossPer::Packet);
    assert!((850..1_150).contains(&lost), "{lost}");
    assert!(!whole);
}

/// A NAT acts in front of the channel on what leaves, and behind it on what enters, copies included.
#[test]
fn a_nat_translates_both_lanes_of_its_link_and_its_drops_are_in_the_account() {
    let middlebox = Middlebox {
        mapping: Some(Dependence::Independent),
        filtering: Dependence::AddressAndPort,
        timeout: Nanos::from_secs(1),
        hairpin: true,
        is_nat64: false,
    };
    let public = IpAddr::from([198, 18, 0, 3]);
    let shared = Arc::new(Mutex::new(Translator::new(&middlebox, public, 1_500)));
    let model = Impairments { delay: Nanos(1_000), duplicate: 0.5, ..Impairments::default() };
    let lane = |direction| {
        let mut bench = Bench::new(&model, Grouping::Strict, 16 << 20);
        let (place, slab) = (Place { direction, ..PLACE }, Slab::new(16 << 20, 0).unwrap());
        bench.lane =
            Pipeline::new(&model, place, Grouping::Strict, slab, Some(Arc::clone(&shared)))
                .unwrap();
        bench
    };
    let (mut up, mut down) = (lane(Direction::Up), lane(Direction::Down));
    up.arrive(Nanos(5), &datagrams(40, 1_000, 7));
    up.release_until(Nanos(u64::MAX));
    let written = up.port.take();
    assert!(!written.is_empty());
    for (_, frame) in written {
        assert_eq!(frame[VNET + 12..VNET + 20], [198, 18, 0, 3, 198, 18, 0, 2]);
    }
    // An answer, and the same packet from another port, which the host inside has not sent to.
    let turned = |port: u8| {
        let mut frame = datagrams(40, 1_000, 7);
        let packet = &mut frame[VNET..];
        packet[12..20].copy_from_slice(&[198, 18, 0, 2, 198, 18, 0, 3]);
        packet[20..24].copy_from_slice(&[0x14, port, 0x10, 0]);
        frame
    };
    down.arrive(Nanos(2_000), &turned(0x5a));
    down.arrive(Nanos(2_001), &turned(0x5b));
    down.release_until(Nanos(u64::MAX));
    for (_, frame) in down.port.take() {
        assert_eq!(frame[VNET + 12..VNET + 20], [198, 18, 0, 2, 198, 18, 0, 1]);
    }
    let fates = down.lane.figures().fates;
    assert!(fates.blocked >= 40 && fates.delivered >= 40, "{fates:?}");
    assert_eq!(fates.arrived + fates.duplicated, fates.delivered + fates.blocked);
    // After the time of the binding, even an answer is dropped.
    down.arrive(Nanos::from_secs(2), &turned(0x5a));
    down.release_until(Nanos(u64::MAX));
    assert_eq!(down.port.take(), []);
    // Packets to the public address go back to the host that sent them.
    let mut inside = datagrams(1, 60, 60);
    inside[VNET + 16..VNET + 20].copy_from_slice(&[198, 18, 0, 3]);
    inside[VNET + 20..VNET + 24].copy_from_slice(&[0x10, 0, 0x10, 0]);
    up.arrive(Nanos::from_secs(3), &inside);
    let back = up.port.take();
    assert_eq!(back.len(), 1);
    assert_eq!(back[0].1[VNET + 12..VNET + 20], [198, 18, 0, 3, 198, 18, 0, 1]);
    assert_eq!(up.lane.figures().fates.arrived, 40);
}
