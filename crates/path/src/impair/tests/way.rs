//! Delay, jitter and order.

use super::*;
use crate::network::{Order, Reorder, Shape};

fn jittery(shape: Shape, order: Order) -> Impairments {
    let jitter = Some(Jitter { scale: Nanos::from_millis(2), shape, order });
    Impairments { delay: Nanos::from_millis(10), jitter, ..Impairments::default() }
}

fn in_time(all: &[Departure<u64>]) -> bool {
    all.is_sorted_by_key(|departure| departure.at)
}

#[test]
fn order_is_kept_or_free() {
    for shape in [Shape::Uniform, Shape::Normal, Shape::Pareto] {
        let (all, channel) = run(&jittery(shape.clone(), Order::Kept), 10_000, 100_000);
        assert!(in_time(&all));
        assert_eq!(delivered(&all), (0..10_000).collect::<Vec<u64>>());
        assert_eq!(channel.fates().reordered, 0);
        let (all, channel) = run(&jittery(shape.clone(), Order::Free), 10_000, 100_000);
        assert!(in_time(&all));
        assert!(channel.fates().reordered > 3_000, "{shape:?}: {}", channel.fates().reordered);
        let mut handles = delivered(&all);
        handles.sort_unstable();
        assert_eq!(handles, (0..10_000).collect::<Vec<u64>>());
    }
}

#[test]
fn a_delay_is_never_below_zero() {
    let model = Impairments { delay: Nanos(0), ..jittery(Shape::Normal, Order::Free) };
    let (all, _) = run(&model, 1_000, 10_000_000);
    let early = all.iter().filter(|d| d.at.0 < d.handle * 10_000_000).count();
    let at_once = all.iter().filter(|d| d.at.0 == d.handle * 10_000_000).count();
    assert_eq!(early, 0);
    assert!((400..600).contains(&at_once), "{at_once}");
}

#[test]
fn as_many_pass_as_the_depth_says() {
    for depth in [1, 3, 10] {
        let reorder = Some(Reorder { share: 0.01, depth, patience: Nanos::from_secs(1) });
        let model = Impairments { delay: Nanos::from_millis(5), reorder, ..Impairments::default() };
        let (all, channel) = run(&model, 100_000, 100_000);
        assert!(in_time(&all));
        let share = channel.fates().reordered as f64 / 100_000.0;
        assert!((share - 0.01).abs() < 0.001, "{share}");
        // Number of packets that arrived later and left first (RFC 4737, section 4.2: without duplicates, the
        // packets between a late packet and its place, all of them in their turn).
        let mut greatest = 0;
        let mut since = 0;
        for handle in delivered(&all) {
            if handle < greatest {
                let passed = greatest - handle;
                assert!(passed >= u64::from(depth) && passed <= u64::from(depth) + 3, "{passed}");
                since += 1;
            }
            greatest = greatest.max(handle);
        }
        assert_eq!(since, channel.fates().reordered);
    }
}

#[test]
fn patience_has_an_end() {
    let reorder = Some(Reorder { share: 0.1, depth: 5, patience: Nanos::from_millis(3) });
    let model = Impairments { delay: Nanos::from_millis(5), reorder, ..Impairments::default() };
    let (all, channel) = run(&model, 1_000, 10_000_000);
    assert_eq!(channel.fates().reordered, 0);
    let late = all.iter().filter(|d| d.at.0 == d.handle * 10_000_000 + 8_000_000).count();
    let punctual = all.iter().filter(|d| d.at.0 == d.handle * 10_000_000 + 5_000_000).count();
    assert_eq!(late + punctual, 1_000);
    assert!((60..140).contains(&late), "{late}");
}

#[test]
fn all_that_is_held_back_comes_out() {
    let reorder = Some(Reorder { share: 1.0, depth: 2, patience: Nanos::from_millis(3) });
    let model = Impairments { reorder, ..jittery(Shape::Uniform, Order::Free) };
    let (all, channel) = run(&model, 1_000, 100_000);
    assert!(in_time(&all));
    assert_eq!((all.len(), channel.fates().delivered), (1_000, 1_000));
}
