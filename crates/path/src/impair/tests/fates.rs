//! Draws at the entrance.

use super::*;
use crate::impair::expected;
use crate::network::{GilbertElliott, Jitter, Order, Reorder, Shape};

const MILLION: u64 = 1_000_000;

fn loses(loss: Loss) -> Impairments {
    Impairments { loss, ..Impairments::default() }
}

fn gilbert(share: f64, burst: f64) -> GilbertElliott {
    let r = 1.0 / burst;
    GilbertElliott { p: r * share / (1.0 - share), r, bad: 1.0, good: 0.0 }
}

/// Returns the fates of a million packets under the model.
fn million(loss: &Loss, seed: u64) -> PacketOutcomes {
    let place = Place { seed, ..PLACE };
    let mut channel: Channel<()> = Channel::new(&loses(loss.clone()), place);
    for i in 0..MILLION {
        channel.arrive(Nanos(i * 1_000), &MTU, ());
        while channel.depart(Nanos(i * 1_000)).is_some() {}
    }
    channel.fates()
}

#[test]
fn a_million_packets_lie_inside_the_exact_interval() {
    for loss in [
        Loss::Bernoulli(0.01),
        Loss::Bernoulli(0.000_1),
        Loss::Bernoulli(0.3),
        Loss::GilbertElliott(gilbert(0.01, 5.0)),
        Loss::GilbertElliott(gilbert(0.02, 20.0)),
        Loss::GilbertElliott(GilbertElliott { p: 0.05, r: 0.3, bad: 0.7, good: 0.001 }),
    ] {
        let interval = expected::losses(&loses(loss.clone()), MILLION, 0.99).unwrap();
        for seed in [1, 2, 3, 4] {
            let lost = million(&loss, seed).lost;
            assert!(interval.contains(&lost), "{loss:?} seed {seed}: {lost} not in {interval:?}");
        }
    }
}

#[test]
fn mean_bursts_are_the_chains_within_three_percent() {
    for loss in [
        Loss::GilbertElliott(gilbert(0.05, 5.0)),
        Loss::GilbertElliott(gilbert(0.2, 20.0)),
        Loss::GilbertElliott(GilbertElliott { p: 0.05, r: 0.3, bad: 0.7, good: 0.001 }),
        Loss::Bernoulli(0.2),
    ] {
        let wanted = expected::mean_burst(&loss).unwrap();
        for seed in [1, 2, 3] {
            let fates = million(&loss, seed);
            let got = fates.lost as f64 / fates.bursts as f64;
            assert!((got / wanted - 1.0).abs() < 0.03, "{loss:?} seed {seed}: {got} for {wanted}");
        }
    }
}

/// Returns a model with everything at the entrance at once.
fn mixed() -> Impairments {
    Impairments {
        loss: Loss::GilbertElliott(gilbert(0.1, 3.0)),
        duplicate: 0.05,
        corrupt: 0.05,
        delay: Nanos::from_millis(10),
        jitter: Some(Jitter {
            scale: Nanos::from_millis(2),
            shape: Shape::Normal,
            order: Order::Free,
        }),
        reorder: Some(Reorder { share: 0.05, depth: 3, patience: Nanos::from_millis(20) }),
        ..Impairments::default()
    }
}

/// A seed stands for these losses for ever and on every machine.
#[test]
fn fates_are_stable() {
    let lost = |loss: Loss| run(&loses(loss), 200, 1_000_000).1.log().to_string();
    assert_eq!(
        lost(Loss::Bernoulli(0.1)),
        "3/19/23/56/63/85/107-108/113/128/131/148/158/179/185/198/200"
    );
    assert_eq!(lost(Loss::GilbertElliott(gilbert(0.1, 5.0))), "27-28/53/64-81/193-195");
    let outages = Outages { good: Nanos::from_millis(20), bad: Nanos::from_millis(5) };
    assert_eq!(lost(Loss::Outages(outages)), "35-37/39-42/55-56/102-103/107/111/124-126");
    assert_eq!(run(&mixed(), 10_000, 1_000).1.fates().digest, 0xf5a5_d04d_e3ef_d9cc);
}

#[test]
fn offsets_are_stable() {
    for (shape, wanted) in [
        (Shape::Uniform, [246_811, 362_948, 705_342, -20_907, -678_577, -158_256, 55_254, 368_811]),
        (
            Shape::Normal,
            [314_437, 471_824, 1_047_957, -26_206, -991_537, -199_664, 69_306, 480_054],
        ),
        (
            Shape::Pareto,
            [-380_354, -419_892, -514_345, -266_937, 391_781, -191_228, -303_068, -421_768],
        ),
        (
            Shape::Table([-1.0, -0.5, 0.25, 1.25].into()),
            [250_000, 250_000, 1_250_000, -500_000, -1_000_000, -500_000, 250_000, 250_000],
        ),
    ] {
        let jitter = Jitter { scale: Nanos::from_millis(1), shape, order: Order::Free };
        let model = Impairments {
            delay: Nanos::from_millis(100),
            jitter: Some(jitter),
            ..Impairments::default()
        };
        let mut all = run(&model, 8, 1_000_000_000).0;
        all.sort_by_key(|departure| departure.handle);
        let offsets: Vec<i64> = all
            .iter()
            .map(|d| d.at.signed_since(Nanos(d.handle * 1_000_000_000 + 100_000_000)))
            .collect();
        assert_eq!(offsets, wanted);
    }
}

#[test]
fn offsets_have_their_mean_and_scale() {
    for (shape, mean, deviation) in [
        (Shape::Uniform, 10.0, 577.35),
        (Shape::Normal, 10.0, 1_000.0),
        (Shape::Pareto, 20.0, 1_000.0),
    ] {
        let jitter = Jitter { scale: Nanos(1_000_000), shape, order: Order::Free };
        let stream = Stream::new(PLACE, Model::Jitter);
        let offsets: Vec<f64> =
            (0..200_000).map(|i| shape::offset(&jitter, stream.draw(i)) as f64 / 1e3).collect();
        let n = offsets.len() as f64;
        let got = offsets.iter().sum::<f64>() / n;
        let square = offsets.iter().map(|x| (x - got) * (x - got)).sum::<f64>() / n;
        assert!(got.abs() < mean, "{:?}: {got}", jitter.shape);
        // The fourth moment of this Pareto is infinite, so its deviation settles slowly.
        let within = if jitter.shape == Shape::Pareto { 0.25 } else { 0.01 };
        let ratio = square.sqrt() / deviation;
        assert!((ratio - 1.0).abs() < within, "{:?}: {ratio}", jitter.shape);
    }
}

#[test]
fn fates_do_not_depend_on_times_or_on_others() {
    let model = mixed();
    let slow = run(&model, 5_000, 3_000_000).1;
    let fast = run(&model, 5_000, 10).1;
    assert_eq!(slow.fates().digest, fast.fates().digest);
    assert_eq!(slow.log(), fast.log());
    // A further model changes nothing about the losses.
    let alone = run(&loses(model.loss.clone()), 5_000, 10).1;
    assert_eq!(alone.log(), fast.log());
    // Another seed, link or direction does.
    for place in [
        Place { seed: 8, ..PLACE },
        Place { link: 1, ..PLACE },
        Place { direction: Direction::Down, ..PLACE },
    ] {
        let mut other: Channel<u64> = Channel::new(&model, place);
        for i in 0..5_000 {
            other.arrive(Nanos(i), &MTU, i);
        }
        assert_ne!(other.log(), fast.log());
        assert_ne!(other.fates().digest, fast.fates().digest);
    }
}

#[test]
fn a_log_replays_its_losses() {
    let first = run(&loses(Loss::GilbertElliott(gilbert(0.1, 4.0))), 20_000, 1_000).1;
    let again = run(&loses(first.log().replay()), 20_000, 777).1;
    assert_eq!(first.log(), again.log());
    assert_eq!(first.fates().bursts, again.fates().bursts);
    assert_eq!(first.fates().digest, again.fates().digest);
}

#[test]
fn a_list_takes_just_its_packets() {
    let (all, channel) = run(&loses(Loss::List([40, 1, 5, 6, 5].into())), 50, 1_000);
    let gone: Vec<u64> =
        all.iter().filter(|d| d.end == End::Dropped(Cause::Lost)).map(|d| d.handle + 1).collect();
    assert_eq!(gone, [1, 5, 6, 40]);
    assert_eq!(channel.log().to_string(), "1/5-6/40");
    assert_eq!((channel.fates().lost, channel.fates().bursts), (4, 3));
}

#[test]
fn outages_are_the_same_whoever_sends() {
    let outages = Outages { good: Nanos::from_millis(50), bad: Nanos::from_millis(10) };
    let model = loses(Loss::Outages(outages));
    let state = |gap: u64| -> Vec<bool> {
        let (all, _) = run(&model, 10_000_000_000 / gap, gap);
        // Losses in each whole millisecond.
        let every = (1_000_000 / gap) as usize;
        all.iter().step_by(every).map(|d| matches!(d.end, End::Dropped(_))).collect()
    };
    let (sparse, dense) = (state(1_000_000), state(50_000));
    assert_eq!(sparse, dense);
    let bad = sparse.iter().filter(|bad| **bad).count() as f64 / sparse.len() as f64;
    // About 167 turns in ten seconds.
    assert!((bad - 1.0 / 6.0).abs() < 0.06, "{bad}");
}

#[test]
fn a_copy_follows_its_original_and_meets_its_own_fate() {
    let model = Impairments { duplicate: 1.0, corrupt: 0.5, ..Impairments::default() };
    let (all, channel) = run(&model, 1_000, 1_000);
    assert_eq!(delivered(&all), (0..1_000).flat_map(|i| [i, i]).collect::<Vec<u64>>());
    let flips = |d: &Departure<u64>| matches!(d.end, End::Delivered(c) if c.flipped.is_some());
    let differing = all.chunks(2).filter(|pair| flips(&pair[0]) != flips(&pair[1])).count();
    assert!((400..600).contains(&differing), "{differing}");
    let fates = channel.fates();
    assert_eq!((fates.duplicated, fates.delivered, fates.reordered), (1_000, 2_000, 0));
    assert!(fates.corrupted.abs_diff(1_000) < 120, "{}", fates.corrupted);
}

#[test]
fn flipped_bits_lie_inside_the_packet() {
    let model = Impairments { corrupt: 1.0, ..Impairments::default() };
    let (all, _) = run(&model, 20_000, 1_000);
    let mut bytes = vec![0u32; 1_500];
    for departure in &all {
        let End::Delivered(Changes { flipped: Some(bit), .. }) = departure.end else {
            panic!("{departure:?}");
        };
        bytes[bit as usize / 8] += 1;
    }
    // Every byte about 13 times.
    assert!(bytes.iter().all(|n| *n < 45) && bytes.iter().filter(|n| **n == 0).count() < 3);
}
