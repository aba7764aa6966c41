//! DualPI2 and RED against their equations, in virtual time, with arrivals that are not kind: bursts of mixed sizes.

use super::queues::{link, median, queued};
use super::*;
use crate::impair::red::Red;
use crate::network::{Discipline, Ecn, Limit};

const DUAL: Discipline = Discipline::DualPi2 { target: Nanos::from_millis(15) };

/// Sender that ignores drops and marks: a burst of packets of these sizes in each gap.
struct Deaf {
    codepoint: Codepoint,
    sizes: &'static [u32],
    gap: u64,
}

/// Outcome of the packets of one sender.
#[derive(Debug, Default, Clone, Copy)]
struct Fared {
    sent: f64,
    delivered: f64,
    marked: f64,
    waited_ns: f64,
}

impl Fared {
    fn dropped(self) -> f64 {
        1.0 - self.delivered / self.sent
    }
}

/// Runs senders for this time over a link; their handles say whose a packet is. The first fifth is left out.
fn run_deaf(model: &Impairments, senders: &[Deaf], time: Nanos) -> (Vec<Fared>, PacketOutcomes) {
    let mut channel = channel(model);
    let (mut all, mut arrivals) = (Vec::new(), Vec::new());
    for (whose, sender) in senders.iter().enumerate() {
        // Bursts of different senders do not coincide for ever.
        let times = (0..time.0 / sender.gap).map(|n| n * sender.gap + 7_919 * whose as u64);
        arrivals
            .extend(times.flat_map(|at| sender.sizes.iter().map(move |size| (at, whose, *size))));
    }
    arrivals.sort_unstable();
    let mut fared = vec![Fared::default(); senders.len()];
    let from = time.0 / 5;
    for (at, whose, bytes) in arrivals {
        drain(&mut channel, at, &mut all);
        let packet = Packet { bytes, codepoint: senders[whose].codepoint, ..MTU };
        fared[whose].sent += f64::from(u8::from(at >= from));
        channel.arrive(Nanos(at), &packet, at << 2 | whose as u64);
    }
    finish(&mut channel, &mut all);
    for departure in all.iter().filter(|departure| departure.handle >> 2 >= from) {
        let of = &mut fared[(departure.handle & 3) as usize];
        if let End::Delivered(changes) = departure.end {
            of.delivered += 1.0;
            of.marked += f64::from(u8::from(changes.marked));
            of.waited_ns += departure.queued.0 as f64;
        }
    }
    for of in &mut fared {
        of.marked /= of.delivered;
        of.waited_ns /= of.delivered;
    }
    (fared, channel.fates())
}

fn close(value: f64, wanted: f64, within: f64, what: &str) {
    assert!((value / wanted - 1.0).abs() < within, "{what}: {value}, not {wanted}");
}

/// Large and small packets in one burst, 12 080 bytes.
const MIXED: &[u32] = &[1_500, 1_500, 60, 1_500, 1_500, 60, 1_500, 1_500, 1_500, 60, 1_400];

#[test]
fn classic_overload_is_dropped_to_the_target_and_l4s_beside_it_marked_by_the_coupled_share() {
    // 12 Mbit/s are offered 14, and 80 kbit/s of L4S in packets of 200 bytes.
    let classic = |codepoint| Deaf { codepoint, sizes: MIXED, gap: 6_903_000 };
    let low = Deaf { codepoint: Codepoint::Ect1, sizes: &[200], gap: 19_997_000 };
    let model = link(Limit::Packets(1_000), DUAL, Ecn::Ignored);
    let time = Nanos::from_secs(120);
    let (fared, fates) = run_deaf(&model, &[classic(Codepoint::NotEct), low], time);
    let [c, l] = fared[..] else { unreachable!() };
    // What does not fit is dropped: 1 - 11.92/14.
    close(c.dropped(), 1.0 - 11.92 / 14.0, 0.05, "classic drops");
    close(l.marked, 2.0 * c.dropped().sqrt(), 0.05, "coupled marks (RFC 9332, section 2.1)");
    close(c.waited_ns, 15e6, 0.15, "classic delay");
    assert!(l.waited_ns < 1e6 && l.dropped() == 0.0 && c.marked == 0.0, "{fared:?}");
    assert_eq!((fates.l4s.early, fates.l4s.marked), (0, fates.marked));
    // What allows marks is marked up to an overload; these ignore them, so drops must come.
    let low = Deaf { codepoint: Codepoint::Ect1, sizes: &[200], gap: 19_997_000 };
    let (fared, fates) = run_deaf(&model, &[classic(Codepoint::Ect0), low], time);
    assert!(fared[0].marked > 0.0 && fates.early > 0, "{fared:?} {fates:?}");
    assert!(fates.marked > fates.l4s.marked);
}

#[test]
fn l4s_overload_is_dropped_and_the_classic_queue_does_not_starve() {
    // 16 Mbit/s of L4S that ignore their marks, and 0.5 Mbit/s of classic bursts, on 12.
    let low = Deaf { codepoint: Codepoint::Ect1, sizes: MIXED, gap: 6_040_000 };
    let classic =
        Deaf { codepoint: Codepoint::NotEct, sizes: &[1_500, 60, 1_500], gap: 48_961_000 };
    let model = link(Limit::Packets(1_000), DUAL, Ecn::Ignored);
    let (fared, fates) = run_deaf(&model, &[low, classic], Nanos::from_secs(100));
    let [l, c] = fared[..] else { unreachable!() };
    assert!(l.marked > 0.999, "{fared:?}");
    // Both queues drop with the same probability, as much as does not fit.
    close(l.dropped(), 1.0 - 12.0 / 16.5, 0.05, "L4S drops");
    close(c.dropped(), 1.0 - 12.0 / 16.5, 0.10, "classic drops");
    close(l.waited_ns, 15e6, 0.15, "L4S delay under overload");
    assert!(c.waited_ns < 25e6 && fates.full == 0 && fates.l4s.early > 0, "{fared:?} {fates:?}");
}

#[test]
fn both_queues_full_share_nine_to_one_and_no_classic_burst_waits_before_l4s() {
    // Without a target in reach nothing is dropped but by the full queue.
    let far = Discipline::DualPi2 { target: Nanos::from_secs(10) };
    let model = link(Limit::Packets(20_000), far, Ecn::Ignored);
    let mut channel = channel(&model);
    let mut all = Vec::new();
    for n in 0..4_000 {
        let (codepoint, bytes) = [(Codepoint::NotEct, 1_500), (Codepoint::Ect1, 300)][n % 2];
        channel.arrive(Nanos::ZERO, &Packet { codepoint, bytes, ..MTU }, n as u64 % 2);
    }
    // While both wait: 2000 × 300 bytes of L4S are a ninth of what leaves beside them.
    drain(&mut channel, 400_000_000, &mut all);
    let sent = |whose| delivered(&all).iter().filter(|handle| **handle == whose).count() as f64;
    close(sent(0) * 1_500.0 / (sent(1) * 300.0), 1.0 / 9.0, 0.08, "classic share");
    // CE on arrival is L4S as well (RFC 9331, section 5.1), and only it passes 50 classic packets at once.
    let waits = |codepoint| {
        let mut channel = self::channel(&model);
        (0..50).for_each(|n| {
            channel.arrive(Nanos::ZERO, &MTU, n);
        });
        channel.arrive(Nanos::ZERO, &Packet { codepoint, ..MTU }, 50);
        let mut all = Vec::new();
        finish(&mut channel, &mut all);
        all.iter().find(|departure| departure.handle == 50).unwrap().queued.0
    };
    assert_eq!([Codepoint::Ect1, Codepoint::Ce].map(waits), [1_000_000; 2]);
    assert_eq!([Codepoint::Ect0, Codepoint::NotEct].map(waits), [50_000_000; 2]);
}

/// Sender with a window: Reno, or DCTCP's law for L4S.
struct Windowed {
    codepoint: Codepoint,
    window: f64,
    flying: f64,
    alpha: f64,
    acked: f64,
    marked: f64,
    round: u64,
    calm: u64,
}

impl Windowed {
    fn new(codepoint: Codepoint) -> Windowed {
        let (window, flying, alpha) = (10.0, 0.0, 1.0);
        Windowed { codepoint, window, flying, alpha, acked: 0.0, marked: 0.0, round: 0, calm: 0 }
    }

    fn answer(&mut self, now: u64, rtt: u64, is_hit: bool) {
        self.flying -= 1.0;
        self.acked += 1.0;
        self.marked += f64::from(u8::from(is_hit));
        if now >= self.round {
            self.alpha += (self.marked / self.acked - self.alpha) / 16.0;
            (self.acked, self.marked, self.round) = (0.0, 0.0, now + rtt);
        }
        if !is_hit {
            self.window += 1.0 / self.window;
        } else if now >= self.calm {
            let cut = if self.codepoint.is_l4s() { self.alpha / 2.0 } else { 0.5 };
            self.window = (self.window * (1.0 - cut)).max(2.0);
            self.calm = now + rtt;
        }
    }
}

#[test]
fn a_scalable_and_a_classic_flow_get_the_shares_of_their_response_functions() {
    const BASE: u64 = 20_000_000;
    let mut model = link(Limit::Packets(2_000), DUAL, Ecn::Ignored);
    model.rate = fixed(40);
    let mut channel = channel(&model);
    let mut flows = [Windowed::new(Codepoint::NotEct), Windowed::new(Codepoint::Ect1)];
    let (mut now, mut all, mut seen, mut got) = (0, Vec::new(), 0, [0.0; 2]);
    let mut answers: VecDeque<(u64, usize, u64, bool)> = VecDeque::new();
    while now < 150_000_000_000 {
        for (whose, flow) in flows.iter_mut().enumerate() {
            while flow.flying < flow.window {
                let packet = Packet { codepoint: flow.codepoint, ..MTU };
                channel.arrive(Nanos(now), &packet, whose as u64);
                flow.flying += 1.0;
            }
        }
        let next = channel.next().map_or(u64::MAX, |next| next.0);
        now = now.max(next.min(answers.front().map_or(u64::MAX, |(at, ..)| *at)));
        drain(&mut channel, now, &mut all);
        for departure in &all[seen..] {
            let whose = departure.handle as usize;
            let fine = departure.end == End::Delivered(Changes::default());
            answers.push_back((departure.at.0 + BASE, whose, BASE + departure.queued.0, !fine));
            let counts = now > 50_000_000_000 && matches!(departure.end, End::Delivered(_));
            got[whose] += f64::from(u8::from(counts));
        }
        seen = all.len();
        while let Some((_, whose, rtt, is_hit)) = answers.pop_front_if(|(at, ..)| *at <= now) {
            flows[whose].answer(now, rtt, is_hit);
        }
    }
    let from = Nanos::from_secs(50);
    let of = |whose: u64| {
        let own: Vec<_> = all.iter().filter(|d| d.handle == whose).copied().collect();
        median(queued(&own, from))
    };
    let (classic, low) = (of(0), of(1));
    assert!((8_000_000..22_000_000).contains(&classic) && low < 1_000_000, "{classic} {low}");
    // Windows of 1.31 / √p_C and 2.24 / p_L where hits are random, with p_L = 2 √p_C, over the round trips (RFC 9332,
    // section 2.1). A single sawtooth makes p swing, which costs the classic flow some more.
    let wanted = (2.24 / 2.0 / 1.31) * (BASE + classic) as f64 / (BASE + low) as f64;
    close(got[1] / got[0], wanted, 0.4, "share of L4S to classic");
    assert!(channel.fates().busy_ns > 140_000_000_000);
}

#[test]
fn red_hits_evenly_between_its_thresholds_and_everything_above() {
    let mut red = Red::new(PLACE);
    // Half-way between the thresholds: p = 1 %, so the gaps are uniform on 1 to 100 (section VII of the paper).
    let hits: Vec<u64> = (0..200_000).filter(|n| red.hits(*n, 1.0 / 6.0, 0)).skip(50).collect();
    let gaps: Vec<u64> = hits.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
    close(mean, 50.5, 0.05, "mean gap");
    assert!(gaps.iter().all(|gap| *gap <= 101), "{:?}", gaps.iter().max());
    assert!((0..5_000).filter(|n| red.hits(*n, 0.5, 0)).count() > 4_500);
    // An idle time in which the average queue could have left many times over forgets it.
    assert!(!red.hits(0, 0.0, 10_000_000));
    let mut calm = Red::new(PLACE);
    assert!((0..100_000).all(|n| !calm.hits(n, 0.08, 0)));
}

#[test]
fn red_marks_what_allows_it_and_drops_the_rest() {
    for (codepoint, ecn) in [(Codepoint::Ect1, Ecn::Marks), (Codepoint::Ect1, Ecn::Ignored)] {
        let senders = [Deaf { codepoint, sizes: MIXED, gap: 6_903_000 }];
        let model = link(Limit::Packets(400), Discipline::Red, ecn);
        let (fared, fates) = run_deaf(&model, &senders, Nanos::from_secs(60));
        if ecn == Ecn::Marks {
            assert!(fared[0].marked > 0.5 && fates.early == 0 && fates.full > 0, "{fates:?}");
        } else {
            close(fared[0].dropped(), 1.0 - 12.0 / 14.0, 0.1, "drops");
            assert_eq!((fates.full, fates.marked, fates.l4s.early), (0, 0, fates.early));
        }
    }
}
