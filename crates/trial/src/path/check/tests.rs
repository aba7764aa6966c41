use super::*;
use deadheat_contract::measurements::path::LinkFigures;
use deadheat_path::network::{Jitter, Link, Loss, Order, Outages, Shape};

/// The loopback interface as every link of a network that does nothing and says so.
#[derive(Default)]
struct Loopback {
    seeds: Vec<u64>,
}

impl Bed for Loopback {
    fn begin(&mut self, seed: u64) -> Result<()> {
        self.seeds.push(seed);
        Ok(())
    }

    fn end(&mut self) -> Result<PathFigures> {
        Ok(PathFigures { links: vec![LinkFigures::default(); 4] })
    }

    fn sites(&self, _: usize) -> Result<[Site; 2]> {
        let here = || Site::here(IpAddr::from([127, 0, 0, 1]));
        Ok([here()?, here()?])
    }

    fn made_of(&self) -> (Backend, String) {
        (Backend::Packet, "a test".into())
    }
}

fn over(model: &Impairments) -> Network {
    Network::between_two(vec![Link { up: model.clone(), ..Link::default() }])
}

fn way(network: &Network) -> CheckDirection<'_> {
    CheckDirection { network, link: 0, direction: Direction::Up }
}

#[test]
fn a_direction_is_checked_over_loopback() {
    let network = over(&Impairments::default());
    let mut bed = Loopback::default();
    let (check, all) = way(&network).delay(&mut bed).unwrap();
    let errors = check.errors;
    assert!(errors.n > 900 && errors == DelayErrors::of(&all), "{errors:?}");
    // No packet comes before it left.
    assert!(errors.min_ns.unwrap() >= 0 && errors.p50_ns >= errors.min_ns, "{errors:?}");
    assert_eq!(way(&network).rate(&mut bed).unwrap(), None);
    assert_eq!(bed.seeds, [SEED]);
}

#[test]
fn what_a_rate_takes_is_known() {
    let rate = Rate::Fixed(BitRate(1_000_000));
    let mut network = over(&Impairments { rate, overhead: 22, ..Impairments::default() });
    // 100 + 28 + 22 bytes.
    assert_eq!(way(&network).serialisation(100), Nanos::from_micros(1_200));
    network.links[0].family = Family::V6;
    assert_eq!(way(&network).serialisation(100), Nanos::from_micros(1_360));
    assert_eq!(way(&over(&Impairments::default())).serialisation(100), Nanos::ZERO);
}

#[test]
fn delays_are_judged_by_median_and_tail() {
    let limits = (Nanos::from_micros(10), Nanos::from_micros(50));
    let judged = |sorted: &[i64], open| DelayCheck::of(sorted, Nanos::ZERO, limits, open).judged;
    let mut sorted = vec![9_000; 1_000];
    assert_eq!(judged(&sorted, false), LimitVerdict::Within);
    sorted[989] = 51_000;
    sorted.sort_unstable();
    // One in a thousand is beyond the 99th percentile.
    assert_eq!(judged(&sorted, false), LimitVerdict::Within);
    sorted[980..].fill(51_000);
    assert_eq!(judged(&sorted, false), LimitVerdict::Outside);
    assert_eq!(judged(&sorted, true), LimitVerdict::Open);
    // Too early is as wrong as too late, and no packet at all is, too.
    assert_eq!(judged(&[-11_000; 1_000], false), LimitVerdict::Outside);
    assert_eq!(judged(&[], false), LimitVerdict::Outside);
    let few = DelayCheck::of(&[1_000; 50], Nanos::ZERO, limits, false);
    let DelayErrors { p90_ns, p99_ns, .. } = few.errors;
    assert_eq!((few.judged, p99_ns, p90_ns), (LimitVerdict::Within, None, None));
}

#[test]
fn losses_must_be_what_was_asked_and_what_was_told() {
    let model = Impairments { loss: Loss::Bernoulli(0.01), ..Impairments::default() };
    let came = |got, full| SendOutcome { sent: 10_000, got, full, ..SendOutcome::default() };
    let figures = |lost, bursts| DirectionFigures {
        fates: PacketOutcomes { lost, bursts, ..PacketOutcomes::default() },
        ..DirectionFigures::default()
    };
    let check = LossCheck::of(&model, &came(9_900, 0), &figures(100, 98));
    assert_eq!(check.judged, LimitVerdict::Within);
    assert_eq!(
        (check.lost, check.expected, check.expected_share),
        (100, Some([75, 127]), Some(0.01))
    );
    assert!((check.mean_burst.unwrap() - 100.0 / 98.0).abs() < 1e-9);
    // A full socket is not the path's fault.
    assert_eq!(
        LossCheck::of(&model, &came(9_890, 10), &figures(100, 98)).judged,
        LimitVerdict::Within
    );
    // Nor is what its queue dropped a loss of the model.
    let mut queued = figures(100, 98);
    queued.fates.full = 7;
    let check = LossCheck::of(&model, &came(9_893, 0), &queued);
    assert_eq!((check.judged, check.dropped_by_queue, check.lost), (LimitVerdict::Within, 7, 100));
    // It lost what it does not know of; too many; and some in a device.
    assert_eq!(
        LossCheck::of(&model, &came(9_890, 0), &figures(100, 98)).judged,
        LimitVerdict::Outside
    );
    assert_eq!(
        LossCheck::of(&model, &came(9_800, 0), &figures(200, 98)).judged,
        LimitVerdict::Outside
    );
    let dropped = DirectionFigures { device_drops: 1, ..figures(100, 98) };
    assert_eq!(LossCheck::of(&model, &came(9_900, 0), &dropped).judged, LimitVerdict::Outside);
}

#[test]
fn what_a_number_of_packets_does_not_decide_stays_open() {
    let with = |loss| Impairments { loss, ..Impairments::default() };
    let none = |model: &Impairments| expected_losses(model, 1_000).is_none();
    let outages = Outages { good: Nanos::from_secs(9), bad: Nanos::from_secs(1) };
    assert!(none(&with(Loss::Outages(outages))));
    assert!(none(&Impairments { corrupt: 0.1, ..Impairments::default() }));
    assert_eq!(expected_losses(&with(Loss::None), 1_000), Some(0..=0));
    let jitter = Jitter { scale: Nanos::from_millis(1), shape: Shape::Normal, order: Order::Kept };
    let model = Impairments { jitter: Some(jitter), ..Impairments::default() };
    let (delay, _) = way(&over(&model)).delay(&mut Loopback::default()).unwrap();
    assert_eq!(delay.judged, LimitVerdict::Open);
}

#[test]
fn a_check_is_fine_unless_something_judged_is_outside() {
    let link = Link::default();
    let limits = (Nanos::from_micros(10), Nanos::from_micros(50));
    let mut check = PathCheck {
        path: "delay=0".into(),
        backend: Backend::Tun,
        why: String::new(),
        ways: vec![WayCheck {
            way: "up".into(),
            direction: Direction::Up,
            delay: DelayCheck::of(&[0; 1_000], Nanos::ZERO, limits, false),
            rate: None,
            loss: LossCheck::of(&link.up, &SendOutcome::default(), &DirectionFigures::default()),
        }],
        unchecked: Vec::new(),
        delay_errors: DelayErrors::default(),
        capacity: None,
        took_ns: Nanos::ZERO,
    };
    assert!(check.is_fine());
    check.ways[0].loss.judged = LimitVerdict::Open;
    assert!(check.is_fine());
    check.ways[0].delay.judged = LimitVerdict::Outside;
    assert!(!check.is_fine());
}

/// Every direction of a network is checked or named with the reason, and two hosts are no other case.
#[test]
fn each_link_is_checked_or_named() {
    let network = "a--b:up.drop=every:2 + b--c:nat=symmetric + c--d:down.block=udp,ip=6 + d--e:down=1s-2s + \
                   b--d,near=a,far=e,route=a/b/c/d";
    let network = Network::parse(network).unwrap();
    let (checked, refused) = CheckDirection::all(&network);
    let names: Vec<String> = checked.iter().map(CheckDirection::name).collect();
    assert_eq!(names, ["a to b", "b to a", "c to d"]);
    // IPv6 alone has no check of its capacity.
    assert!([true, false, false].into_iter().eq(checked.iter().map(CheckDirection::is_free)));
    let says =
        [("b to c", "nat="), ("d to c", "block=udp"), ("d to e", "down="), ("b to d", "route=")];
    assert_eq!(refused.len(), says.len());
    for ((way, error), (name, says)) in refused.iter().zip(says) {
        assert!(way.name() == name && error.to_string().contains(says), "{name}: {error}");
    }
    for (typed, says) in [
        ("delay=1ms,nat=symmetric", "nat="),
        ("delay=1ms,down=1s-2s", "down="),
        ("a--r:delay=9ms,block=udp + r--b:block=udp", "block=udp"),
    ] {
        let network = Network::parse(typed).unwrap();
        let bed = &mut Loopback::default();
        let error = PathCheck::measure(typed, &network, bed, &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
