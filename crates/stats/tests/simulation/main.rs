//! The whole decision procedure, held to its promises on simulated races: planned looks, one kind of
//! interval for all claims, blocks re-planned half-way, stop when everything is decided.
//!
//! Everything is seeded, so a rate here is a fixed number and no test is flaky. Rates are counted per
//! race and at every look taken, not only at the last: stronger than what is promised.
//! `cargo test -p deadheat-stats --test simulation -- --nocapture --test-threads 1` prints the tables of docs/methodology.md.

#![allow(clippy::print_stdout, reason = "the rates are worth reading: --nocapture")]

mod gates;
mod races;
mod runs;
mod unlike;
mod winners;
mod world;

use deadheat_stats::{Better, Claim, Outcome, Slack, resolution, rule, serial};
use races::{LEVEL, MARGIN, Race, Replanning, share, welch, widened_margin};
use world::{NOISES, Noise};

/// Rates of so many races, and what they may be: at a true rate of 5 % more has a probability of 0.5 %
/// (binomial: 22 or more of 240).
const RACES: u64 = 240;
const MOST: f64 = 0.088;

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn two(difference: f64) -> [f64; 2] {
    [0.0, f64::ln_1p(difference)]
}

fn race(truth: &[f64], noise: Noise, blocks: usize) -> Race<'_> {
    let (margin, level) = (MARGIN, LEVEL);
    Race { truth, noise, margin, blocks, replanning: Replanning::None, level }
}

/// The first promise: identical contenders are rarely told apart, even with a margin of nothing, and
/// contenders that differ by the margin are rarely tied.
#[test]
fn errors_stay_at_their_level() {
    println!(
        "| noise, 40 blocks | false ahead, no margin | Welch | false dead heat | widened margin | Welch |"
    );
    println!("|---|---|---|---|---|---|");
    for noise in NOISES {
        let none = Race { margin: 0.0, ..race(&[0.0, 0.0], noise, 40) };
        let truth = two(MARGIN);
        let edge = race(&truth, noise, 40);
        let (false_ahead, false_tie) = (none.rates(RACES, 1_000), edge.rates(RACES, 2_000));
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            noise.name(),
            percent(false_ahead.ahead),
            percent(share(&none, welch, Outcome::Ahead, RACES)),
            percent(false_tie.dead_heat),
            percent(share(&edge, widened_margin, Outcome::DeadHeat, RACES)),
            percent(share(&edge, welch, Outcome::DeadHeat, RACES)),
        );
        assert!(false_ahead.ahead <= MOST, "{noise:?}: {false_ahead:?}");
        assert!(false_tie.dead_heat <= MOST, "{noise:?}: {false_tie:?}");
    }
}

/// The same for several contenders, long and short races. A look at fewer than 40 blocks cannot see a
/// correlation of 0.4 well enough, and a race of fewer than 100 has such looks: docs/methodology.md says
/// so, and the last rows show by how much.
#[test]
fn errors_stay_at_their_level_whatever_the_number_of_contenders_and_blocks() {
    println!("| noise | contenders | blocks | false ahead, no margin | intervals that miss |");
    println!("|---|---|---|---|---|");
    let serial = |r, contenders, blocks| (Noise::Serial(r), contenders, blocks);
    let cases = [
        (Noise::Scatter(0.08), 2, 12, 200, 0.05),
        (Noise::Scatter(0.08), 3, 40, 150, 0.05),
        (Noise::TwoKinds, 3, 20, 150, 0.05),
        (Noise::Heavy, 4, 20, 120, 0.05),
        (Noise::Drift, 4, 12, 150, 0.06),
        (Noise::Regimes(3.0), 3, 40, 150, 0.05),
        (Noise::Skewed, 2, 20, 200, 0.05),
        (Noise::Skewed, 2, 400, 60, 0.1),
        (Noise::TwoKinds, 2, 400, 60, 0.1),
        (Noise::Contaminated, 3, 120, 80, 0.1),
    ];
    let correlated = [
        (serial(0.2, 3, 40), 200, 0.10),
        (serial(0.4, 3, 100), 80, 0.10),
        (serial(0.4, 3, 40), 200, 0.11),
        (serial(0.4, 2, 20), 300, 0.10),
        (serial(0.4, 2, 12), 300, 0.11),
    ]
    .map(|((noise, contenders, blocks), races, most)| (noise, contenders, blocks, races, most));
    for (noise, contenders, blocks, races, most) in cases.into_iter().chain(correlated) {
        let truth = vec![0.0; contenders];
        let rates = Race { margin: 0.0, ..race(&truth, noise, blocks) }.rates(races, 3_000);
        println!(
            "| {} | {contenders} | {blocks} | {} | {} |",
            noise.name(),
            percent(rates.ahead),
            percent(rates.missed)
        );
        assert!(rates.ahead <= most && rates.missed <= most, "{noise:?}: {rates:?}");
    }
}

/// One look at the full level under serial dependence: the coverage of the 95 % interval, and the
/// mean widening that it takes.
#[test]
fn intervals_hold_under_serial_dependence() {
    println!("| blocks | AR(1) 0 | 0.2 | 0.4 | mean widening where independent |");
    println!("|---|---|---|---|---|");
    // The least coverage allowed: 95 % less three standard errors from 40 blocks on.
    for (blocks, races, least) in
        [(12, 1_000, 0.90), (20, 800, 0.905), (40, 600, 0.923), (100, 200, 0.90), (200, 80, 0.87)]
    {
        let cover = |r: f64| {
            let race = race(&[0.0, 0.0], Noise::Serial(r), blocks);
            let (mut hits, mut widening) = (0, 0.0);
            for seed in 0..races {
                let columns = race.trials(10_000 * blocks as u64 + seed);
                let ratios: Vec<f64> =
                    columns[0].iter().zip(&columns[1]).map(|(a, b)| a - b).collect();
                let claim = Claim::on_ratios(&ratios, Slack::default());
                let ruling = rule(&[claim], Better::Lower, 0.0, LEVEL)[0];
                hits += u64::from(!ruling.ratio.excludes(1.0));
                widening += serial::inflation(&ratios);
            }
            (hits as f64 / races as f64, widening / races as f64)
        };
        let seen = [0.0, 0.2, 0.4].map(cover);
        let [none, some, much] = seen.map(|(covered, _)| covered);
        let shown = [none, some, much].map(percent).join(" | ");
        println!("| {blocks} | {shown} | {:.2} |", seen[0].1);
        assert!(none >= 0.93 && some.min(much) >= least, "{blocks}: {seen:?}");
    }
}

/// What is found, by scatter and true difference. Theory: a race of 40 or 100 blocks resolves what
/// [`resolution`] says for √2 times the scatter of a trial.
#[test]
fn power() {
    println!(
        "| scatter | blocks | used | resolution | true difference | ahead | dead heat | direction known | \
         widened margin: ahead | dead heat | Welch: ahead | dead heat |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (scatter, blocks, races) in
        [(0.025, 40, 150), (0.08, 40, 150), (0.08, 100, 50), (0.2, 100, 50)]
    {
        for difference in [0.0, 0.05, 0.1, 0.2] {
            let truth = two(difference);
            let race = race(&truth, Noise::Scatter(scatter), blocks);
            let rates = race.rates(races, 4_000);
            let by = |decide| {
                [Outcome::Ahead, Outcome::DeadHeat].map(|o| percent(share(&race, decide, o, races)))
            };
            println!(
                "| {} % | {blocks} | {:.0} | ±{} % | {} % | {} | {} | {} | {} | {} |",
                percent(scatter),
                rates.blocks,
                percent(rates.resolution),
                percent(difference),
                percent(rates.ahead),
                percent(rates.dead_heat),
                percent(rates.direction),
                by(widened_margin).join(" | "),
                by(welch).join(" | "),
            );
            check_power(scatter, difference, blocks, &rates);
        }
    }
}

fn check_power(scatter: f64, difference: f64, blocks: usize, rates: &races::Rates) {
    let case = format!("scatter {scatter}, {difference}, {blocks} blocks: {rates:?}");
    let theory = resolution(scatter * 2.0f64.sqrt(), blocks, LEVEL).unwrap_or(0.0);
    let used = rates.blocks.round() as usize;
    let here = resolution(scatter * 2.0f64.sqrt(), used, LEVEL).unwrap_or(0.0);
    // What is said to be resolved is what theory says for the blocks used, with the looks and the allowance for
    // serial dependence on top.
    assert!((0.95..2.0).contains(&(rates.resolution / here)), "{here}, {case}");
    if difference == 0.0 {
        assert!(rates.ahead <= LEVEL, "{case}");
        // Both edges have to be excluded, which takes a margin of nearly two resolutions.
        assert!(rates.dead_heat >= 0.95 || MARGIN < 2.0 * theory, "{case}");
    }
    if difference >= 0.1 {
        assert!(rates.dead_heat <= 0.01, "{case}");
        assert!(rates.direction >= 0.78 || difference < 1.3 * theory, "{case}");
    }
    if difference > 2.0 * theory && difference >= 0.1 {
        assert!(rates.ahead >= 0.95, "{case}");
    }
}

/// The printed resolution is a promise: at a true difference of that size four races of five know
/// the direction.
#[test]
fn a_difference_of_the_resolution_is_found_four_times_in_five() {
    for (noise, blocks) in
        [(Noise::Scatter(0.08), 20), (Noise::Scatter(0.08), 60), (Noise::Serial(0.4), 60)]
    {
        let printed = Race { margin: 0.0, ..race(&[0.0, 0.0], noise, blocks) }.rates(100, 5_000);
        let truth = two(printed.resolution);
        let rates = Race { margin: 0.0, ..race(&truth, noise, blocks) }.rates(200, 6_000);
        println!(
            "{}, {blocks} blocks, ±{} %: {}",
            noise.name(),
            percent(printed.resolution),
            rates.direction
        );
        assert!((0.75..0.93).contains(&rates.direction), "{noise:?}: {rates:?}");
    }
}

/// Blocks re-planned half-way by scatter alone keep both levels, and decide what the first plan left open.
#[test]
fn replanning_keeps_the_level_and_decides_more() {
    println!(
        "| noise, 20 blocks planned | up to | false ahead, no margin | false dead heat | decided at 10 % | blocks |"
    );
    println!("|---|---|---|---|---|---|");
    for noise in [Noise::Scatter(0.08), Noise::Heavy, Noise::Regimes(3.0), Noise::Serial(0.2)] {
        let (edge, tenth) = (two(MARGIN), two(0.1));
        let up_to =
            |truth, most| Race { replanning: Replanning::UpTo(most), ..race(truth, noise, 20) };
        let mut decided = Vec::new();
        for most in [20, 120] {
            // A margin of a thousandth protects nobody, and asks for every block there is.
            let none = Race { margin: 0.001, ..up_to(&[0.0, 0.0], most) }.rates(150, 7_000);
            let tie = up_to(&edge, most).rates(150, 8_000);
            let tenth = up_to(&tenth, most).rates(80, 9_000);
            println!(
                "| {} | {most} | {} | {} | {} | {:.0} |",
                noise.name(),
                percent(none.ahead),
                percent(tie.dead_heat),
                percent(tenth.ahead),
                tenth.blocks
            );
            // 16 of 150 or more happen with probability 0.4 % at a true rate of 5 % (binomial).
            assert!(none.ahead <= 0.1 && tie.dead_heat <= 0.1, "{noise:?}: {none:?} {tie:?}");
            decided.push(tenth.ahead);
        }
        // Where slow trials fall on one contender by chance, the mean is left open.
        assert!(decided[1] >= decided[0].max(0.85), "{noise:?}: {decided:?}");
    }
}
