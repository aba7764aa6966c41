//! Settings that are accepted, and those that are refused.

use super::*;
use deadheat_base::units::BitRate;
use deadheat_contract::contract::{Offer, Offers, PeerFacts};
use deadheat_contract::workload::{self, Bounds, PathKind};

fn paced(typed: &str) -> Paced<Moving> {
    super::task(Settings::check(&Spec::parse(typed).unwrap(), KEYS).unwrap())
}

#[test]
fn the_service_is_the_transports_own_unless_one_is_asked_for() {
    let why = |typed: &str, promised: &Guarantees| {
        let task = workload::parse(typed).unwrap();
        workload::misfit(&*task, promised, PeerFacts::OURS).unwrap_or_default()
    };
    for promised in [&Guarantees::DATAGRAMS, &Guarantees::BYTE_STREAM] {
        assert_eq!(why("video", promised), "");
    }
    assert!(why("video:service=reliable", &Guarantees::DATAGRAMS).contains("reliable, ordered"));
    let stream = &Guarantees::BYTE_STREAM;
    assert!(why("video:service=unreliable", stream).contains("best effort, unordered"));
    assert!(why("video:service=lifetime", stream).contains("reliable for a lifetime"));
    const OTHERS: &[Offer] = &[Offer { service: Service::EXPIRING, largest_message: None }];
    let expiring = Guarantees { others: Offers::of(OTHERS), ..Guarantees::BYTE_STREAM };
    assert_eq!(why("video:service=lifetime", &expiring), "");
    let lanes = paced("video:service=lifetime,deadline=80ms").work.lanes(&expiring);
    assert_eq!(lanes[0].delivery, Delivery::Within(Nanos::from_millis(80)));
    let small = Guarantees { largest_message: Some(1_000), ..Guarantees::DATAGRAMS };
    assert!(why("video", &small).contains("1000 bytes"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let say = |typed: &str| workload::parse(typed).err().unwrap().to_string();
    assert!(say("video:gop=0").contains("outside"));
    assert!(say("video:mtu=20").contains("outside"));
    assert!(say("video:rate=2").contains("mbit"));
    let on = |typed: &str, setting: Setting| {
        workload::parse_on(typed, &setting).err().unwrap().to_string()
    };
    let elsewhere = Setting { kind: PathKind::Remote, ..Setting::LOOPBACK };
    assert!(workload::parse_on("video", &elsewhere).is_ok(), "clocks of two hosts are compared");
    let narrow = Bounds { delay: None, rate: Some(BitRate(1_999_999)) };
    let narrow = Setting { down: narrow, ..Setting::LOOPBACK };
    assert!(workload::parse_on("video:direction=up", &narrow).is_ok());
    assert!(on("video", narrow).contains("the queue would grow"));
    let long = Bounds { delay: Some(Nanos::from_millis(100)), rate: None };
    let long = Setting { down: long, ..Setting::LOOPBACK };
    assert!(on("video", long).contains("nothing is there in time"), "{}", on("video", long));
    assert!(workload::parse_on("video:deadline=101ms", &long).is_ok());
}

#[test]
fn what_it_says_of_itself_is_the_same_work_again() {
    let task = workload::parse("video:hz=60,service=lifetime").unwrap();
    assert_eq!(
        workload::parse(&task.info().spec.to_string()).unwrap().info().spec,
        task.info().spec
    );
    assert_eq!(task.info().lengths.map(|lengths| lengths.fewest), Some(ENOUGH));
    assert_eq!(task.info().planned, Some(Nanos::from_secs(1)));
}

#[test]
fn frames_are_as_large_as_their_kind_and_the_same_at_both_ends() {
    // 2 Mbit/s at 30 Hz are 8333 bytes a frame; 30 of them are 34 of those that are no keyframe.
    let exact = paced("video:spread=0%,count=60").work.frames;
    let sizes: Vec<u64> = exact.sizes(3).collect();
    assert_eq!((sizes[0], sizes[1], sizes[30]), (36_765, 7_353, 36_765));
    assert_eq!(sizes.iter().sum::<u64>(), 2 * (36_765 + 29 * 7_353));
    assert_eq!(exact.messages(3).count() as u64, 2 * (32 + 29 * 7));
    let frames = paced("video:count=9000").work.frames;
    assert!(frames.sizes(3).eq(frames.sizes(3)));
    let mean = frames.sizes(3).sum::<u64>() as f64 / 9_000.0;
    assert!((mean / 8_333.3 - 1.0).abs() < 0.02, "{mean}");
    assert!((frames.messages(3).count() as u64) < frames.most());
}

#[test]
fn a_frame_is_cut_into_messages_that_together_are_the_frame() {
    let frames = paced("video:mtu=100,count=20").work.frames;
    let mut sums = [0; 20];
    for (frame, len) in frames.messages(5) {
        assert!((21..=100).contains(&len));
        sums[frame as usize] += len as u64 - 20;
    }
    assert!(frames.sizes(5).eq(sums));
    let paced = paced("video:mtu=100,count=20");
    let plan = paced.work.plan(&paced.pace, &[Service::ORDERED], 5).unwrap();
    let count = plan.count;
    let slots: Vec<Slot> = plan.slots.collect();
    assert_eq!(slots.len() as u64, count);
    assert_eq!(slots.last().unwrap().due, Nanos(633_333_333));
    assert_eq!(slots[5].place, Some((5, Lane(0))));
}
