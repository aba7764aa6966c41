//! Candidates for the rule of a race, side by side on simulated races, and what else docs/methodology.md says with figures.
//!
//! The measure was declared before the first run: of the candidates whose false words stay at 5 % in every cell, and which
//! decide no fewer races in any cell than four looks do, but for two points, the one with the fewest blocks (geometric mean
//! over the cells) is taken. A test runs few races of few cells. Tables of all cells, with so many races in each (half as
//! many of 400 blocks), are printed by
//!
//! ```sh
//! RACES=200 cargo test --release -p deadheat-stats --test rules -- --nocapture --test-threads 1
//! ```

#![allow(clippy::print_stdout, reason = "the tables are worth reading: --nocapture")]

#[path = "simulation/world.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod world;

use std::collections::BTreeMap;

use deadheat_stats::eprocess::{self, Evidence, Side};
use deadheat_stats::rng::SplitMix64;
use deadheat_stats::{
    Better, Claim, Look, Outcome, Plan, Ruling, Slack, persistence, resolution, rule, scatter,
    serial,
};
use world::{Noise, World};

const LEVEL: f64 = 0.05;
const MARGIN: f64 = 0.05;
/// Share of a difference from which on a resolution is fine enough for it.
const SHARP: f64 = 0.25;

/// Returns how many races each cell of the full tables has; `None` in an ordinary test.
fn asked() -> Option<u64> {
    std::env::var("RACES").ok()?.parse().ok()
}

const NOISES: [Noise; 7] = [
    Noise::Scatter(0.08),
    Noise::Heavy,
    Noise::Contaminated,
    Noise::Skewed,
    Noise::TwoKinds,
    Noise::Serial(0.2),
    Noise::Serial(0.4),
];

/// A candidate: the level of its e-process, and its looks.
struct Candidate {
    name: &'static str,
    any_time: f64,
    looks: fn(usize, f64) -> Vec<Look>,
}

const CANDIDATES: [Candidate; 5] = [
    Candidate { name: "four looks", any_time: 0.0, looks: four_looks },
    Candidate { name: "geometric looks", any_time: 0.0, looks: geometric_looks },
    Candidate { name: "e-process", any_time: LEVEL, looks: |_, _| Vec::new() },
    Candidate { name: "e-process, geometric looks", any_time: 0.025, looks: geometric_looks },
    Candidate { name: "e-process, two looks", any_time: 0.025, looks: two_looks },
];

fn four_looks(blocks: usize, level: f64) -> Vec<Look> {
    spent(&[0.4, 0.6, 0.8, 1.0].map(|share| at(share, blocks)), level)
}

fn two_looks(blocks: usize, level: f64) -> Vec<Look> {
    spent(&[0.7, 1.0].map(|share| at(share, blocks)), level)
}

/// Looks from the fewest blocks that decide anything, each after a quarter more than the one before.
fn geometric_looks(blocks: usize, level: f64) -> Vec<Look> {
    let shares = (0..).map(|step| 0.8f64.powi(step));
    let mut after: Vec<usize> =
        shares.map(|share| at(share, blocks)).take_while(|at| *at >= 6).collect();
    after.reverse();
    spent(&after, level)
}

fn at(share: f64, blocks: usize) -> usize {
    (share * blocks as f64 - 1e-9).ceil() as usize
}

/// Spends the level by the cube of the share of the blocks; a look that could decide nothing is left out.
fn spent(after: &[usize], level: f64) -> Vec<Look> {
    let whole = after.last().copied().unwrap_or(1) as f64;
    let (mut looks, mut before) = (Vec::new(), 0.0);
    for blocks in after {
        let by_now = level * (*blocks as f64 / whole).powi(3);
        if Plan::fewest_blocks(1, by_now - before) <= *blocks || *blocks as f64 >= whole {
            looks.push(Look { blocks: *blocks, alpha: by_now - before });
            before = by_now;
        }
    }
    looks
}

/// A kind of race, and what is counted in it.
struct Cell {
    name: &'static str,
    difference: f64,
    margin: f64,
    counted: Outcome,
    is_false: bool,
}

const CELLS: [Cell; 6] = [
    Cell::of("false ahead", 0.0, 0.0, Outcome::Ahead, true),
    Cell::of("false dead heat", MARGIN, MARGIN, Outcome::DeadHeat, true),
    Cell::of("no difference", 0.0, MARGIN, Outcome::DeadHeat, false),
    Cell::of("10 %", 0.1, MARGIN, Outcome::Ahead, false),
    Cell::of("50 %", 0.5, MARGIN, Outcome::Ahead, false),
    Cell::of("4 times", 3.0, MARGIN, Outcome::Ahead, false),
];

impl Cell {
    const fn of(
        name: &'static str,
        difference: f64,
        margin: f64,
        counted: Outcome,
        is_false: bool,
    ) -> Cell {
        Cell { name, difference, margin, counted, is_false }
    }
}

/// A race under way: its log-ratios, and the evidence of an e-process about 0 and both edges of the margin.
struct Race {
    world: World,
    truth: [f64; 2],
    margin: f64,
    ratios: Vec<f64>,
    differs: [Evidence; 2],
    ties: [Evidence; 2],
}

impl Race {
    fn new(noise: Noise, difference: f64, margin: f64, seed: u64) -> Race {
        let limit = margin.ln_1p();
        Race {
            world: World::new(noise, 2, seed),
            truth: [0.0, difference.ln_1p()],
            margin,
            ratios: Vec::new(),
            differs: [Side::Above, Side::Below].map(|side| Evidence::new(0.0, side)),
            ties: [Evidence::new(-limit, Side::Above), Evidence::new(limit, Side::Below)],
        }
    }

    fn block(&mut self) {
        let figures = self.world.block(&self.truth);
        let ratio = figures[0] - figures[1];
        self.ratios.push(ratio);
        self.differs.iter_mut().chain(&mut self.ties).for_each(|evidence| evidence.add(ratio));
    }

    fn ruled(&self, level: f64) -> Ruling {
        let claim = Claim::on_ratios(&self.ratios, Slack::default());
        rule(&[claim], Better::Lower, self.margin, level)[0]
    }

    /// Returns the decision of an e-process at this level, and whether it is sharp.
    fn at_any_time(&self, level: f64) -> Option<(Outcome, bool)> {
        let reach = |all: &[Evidence], least: f64| all.iter().map(|e| e.ln() >= least).collect();
        let differs: Vec<bool> = reach(&self.differs, (2.0 / level).ln());
        let ties: Vec<bool> = reach(&self.ties, (1.0 / level).ln());
        if !differs.contains(&true) && ties.contains(&false) {
            return None;
        }
        let widening = serial::any_time_inflation(&self.ratios);
        let limit = self.margin.ln_1p();
        let ends = |level: f64| {
            let e = eprocess::interval(&self.ratios, level)?;
            let (low, high) = (e.point - e.low, e.high - e.point);
            Some((e.point - widening * low, e.point, e.point + widening * high))
        };
        let (low, point, high) = ends(level)?;
        let outcome = match ends(2.0 * level)? {
            _ if (low > 0.0 || high < 0.0) && point.abs() > limit => Outcome::Ahead,
            (low, _, high) if low > -limit && high < limit => Outcome::DeadHeat,
            _ => return None,
        };
        let wanted = self.margin.max(SHARP * point.abs().exp_m1());
        let resolved = resolution(scatter(&self.ratios)?, self.ratios.len(), LEVEL)?;
        Some((outcome, resolved <= wanted))
    }

    /// Runs to the end by this rule; returns the outcome.
    fn run(&mut self, candidate: &Candidate, blocks: usize) -> Outcome {
        let looks = (candidate.looks)(blocks, LEVEL - candidate.any_time);
        for done in 1..=blocks {
            self.block();
            if candidate.any_time > 0.0
                && let Some((outcome, is_sharp)) = self.at_any_time(candidate.any_time)
                && (is_sharp || done == blocks)
            {
                return outcome;
            }
            if let Some(look) = looks.iter().find(|look| look.blocks == done) {
                let ruling = self.ruled(look.alpha);
                if ruling.outcome != Outcome::Undecided
                    && (done == blocks || ruling.is_sharp(self.margin))
                {
                    return ruling.outcome;
                }
            }
        }
        Outcome::Undecided
    }
}

fn percent(count: f64, of: f64) -> String {
    format!("{:.1}", 100.0 * count / of.max(1.0))
}

/// The rule taken is that of two looks and an e-process: its errors stay at their level, it finds as much as four looks, and
/// needs fewer blocks.
#[test]
fn the_rule_taken_is_fast_and_holds_its_level() {
    let (races, noises, lengths) = match asked() {
        Some(races) => (races, &NOISES[..], &[40, 120, 400][..]),
        None => (40, &NOISES[..3], &[40, 120][..]),
    };
    let names = CANDIDATES.map(|candidate| candidate.name).join(" | ");
    println!("| noise | blocks | race | {names} |\n|---|---|---|{}", "---|".repeat(5));
    let mut sums = [(0.0, 0.0f64, 0.0f64); 5];
    let mut cells = 0.0;
    for noise in noises {
        for &blocks in lengths {
            for cell in &CELLS {
                let races = if blocks > 200 { races / 2 } else { races };
                let seen = CANDIDATES
                    .each_ref()
                    .map(|candidate| seen(candidate, *noise, blocks, cell, races));
                let shown = seen.map(|(share, mean)| {
                    if cell.is_false {
                        percent(share, 1.0)
                    } else {
                        format!("{} ({mean:.0})", percent(share, 1.0))
                    }
                });
                println!("| {} | {blocks} | {} | {} |", noise.name(), cell.name, shown.join(" | "));
                for (sum, (share, mean)) in sums.iter_mut().zip(seen) {
                    if cell.is_false {
                        sum.1 = sum.1.max(share);
                    } else {
                        sum.0 += mean.ln();
                        sum.2 = sum.2.max(seen[0].0 - share);
                    }
                }
                cells += f64::from(u8::from(!cell.is_false));
            }
        }
    }
    println!(
        "\n| rule | blocks, geometric mean | most false words | most power lost |\n|---|---|---|---|"
    );
    for (candidate, (logs, most, lost)) in CANDIDATES.iter().zip(sums) {
        let mean = f64::exp(logs / cells);
        println!(
            "| {} | {mean:.1} | {} | {} |",
            candidate.name,
            percent(most, 1.0),
            percent(lost, 1.0)
        );
    }
}

/// Returns the share of races that end as the cell counts, and their mean blocks.
fn seen(candidate: &Candidate, noise: Noise, blocks: usize, cell: &Cell, races: u64) -> (f64, f64) {
    let (mut count, mut sum) = (0.0, 0.0);
    for seed in 0..races {
        let mut race = Race::new(noise, cell.difference, cell.margin, 77_000 + seed);
        let outcome = race.run(candidate, blocks);
        count += f64::from(u8::from(outcome == cell.counted));
        sum += race.ratios.len() as f64;
    }
    (count / races as f64, sum / races as f64)
}

/// Blocks that should decide a claim do so in four races of five, over true differences on both sides of the margin.
#[test]
fn blocks_that_should_decide_a_claim_do() {
    const MOST: u64 = 800;
    let races = asked().unwrap_or(6);
    let mut all: BTreeMap<(usize, &str), (f64, f64, Vec<u64>)> = BTreeMap::new();
    let noises = NOISES.into_iter().filter(|noise| *noise != Noise::Serial(0.4));
    let truths = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.15];
    for (noise, blocks) in noises.flat_map(|noise| [6, 8, 12, 20, 40].map(|blocks| (noise, blocks)))
    {
        for (difference, seed) in
            truths.iter().flat_map(|truth| (0..races).map(move |s| (truth, s)))
        {
            let mut race = Race::new(noise, *difference, MARGIN, 31_000 + seed);
            (0..blocks).for_each(|_| race.block());
            let missing = race.ruled(LEVEL).missing;
            let Some(more) = missing.blocks().filter(|more| *more <= MOST) else { continue };
            (0..more).for_each(|_| race.block());
            let kept = race.ruled(LEVEL).outcome != Outcome::Undecided;
            let word = match missing {
                deadheat_stats::Missing::Blocks(_) => "should",
                _ => "may",
            };
            let (said, decided, mores) = all.entry((blocks, word)).or_default();
            *said += 1.0;
            *decided += f64::from(u8::from(kept));
            mores.push(more);
        }
    }
    println!(
        "| blocks | said | more blocks (median) | came true, % | races |\n|---|---|---|---|---|"
    );
    let (mut promised, mut kept) = (0.0, 0.0);
    for ((blocks, word), (said, decided, mut more)) in all {
        if word == "should" {
            (promised, kept) = (promised + said, kept + decided);
        }
        more.sort_unstable();
        println!(
            "| {blocks} | {word} | {} | {} | {said} |",
            more[more.len() / 2],
            percent(decided, said)
        );
    }
    assert!(kept >= 0.8 * promised, "{kept} of {promised}");
}

/// Two contenders that each stay in a state of their own, beside a copy: most false `ahead` are named for what they are,
/// and little else is.
#[test]
fn states_of_ones_own_are_named() {
    let races = asked().unwrap_or(60);
    println!(
        "| trials | blocks | false ahead | of these not named | named |\n|---|---|---|---|---|"
    );
    for blocks in [20, 40, 100] {
        for noise in NOISES {
            let columns = |seed| {
                let mut world = World::new(noise, 3, seed);
                let rows: Vec<Vec<f64>> = (0..blocks).map(|_| world.block(&[0.0; 3])).collect();
                [0, 1, 2].map(|at| rows.iter().map(|row| row[at]).collect::<Vec<f64>>())
            };
            let (_, _, named) = states_of(&noise.name(), blocks, races, columns);
            let is_alike = matches!(noise, Noise::Serial(_));
            assert!(is_alike || named <= 0.05, "{noise:?} {blocks}: {named}");
        }
        for stay in [3.0, 10.0, 30.0, 100.0] {
            let columns = |seed| {
                let mut rng = SplitMix64::new(7 * seed + 1);
                [(); 3].map(|()| in_states(&mut rng, stay, blocks))
            };
            let name = format!("half as slow again for {stay} blocks");
            let (ahead, left, _) = states_of(&name, blocks, races, columns);
            assert!(blocks < 40 || stay > 10.0 || left <= 0.05, "{name} {blocks}: {ahead} {left}");
        }
    }
}

/// Returns figures that are 50 % more in half of the time, for so many blocks on average.
fn in_states(rng: &mut SplitMix64, stay: f64, blocks: usize) -> Vec<f64> {
    let mut slow = rng.unit() < 0.5;
    let mut next = || {
        if rng.unit() < 1.0 / stay {
            slow = !slow;
        }
        0.405 * f64::from(u8::from(slow)) + 0.03 * rng.normal()
    };
    (0..blocks).map(|_| next()).collect()
}

/// Returns the shares of races with a false `ahead`, with one in which no state is named, and in which one is.
fn states_of(
    name: &str,
    blocks: usize,
    races: u64,
    columns: impl Fn(u64) -> [Vec<f64>; 3],
) -> (f64, f64, f64) {
    let (mut ahead, mut left, mut named) = (0.0, 0.0, 0.0);
    for seed in 0..races {
        let [a, b, copy] = columns(seed);
        let ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        let claim = Claim::on_ratios(&ratios, Slack::default());
        let ruling = rule(&[claim], Better::Lower, MARGIN, LEVEL)[0];
        let less = |one: &[f64], two: &[f64], three: &[f64]| -> Vec<f64> {
            one.iter().zip(two).zip(three).map(|((x, y), z)| x - 0.5 * (y + z)).collect()
        };
        let residuals = [less(&a, &b, &copy), less(&b, &a, &copy), less(&copy, &a, &b)];
        let is_state = residuals
            .iter()
            .filter_map(|residuals| persistence(residuals))
            .any(|found| found.p <= 0.1 * LEVEL / 3.0 && found.correlation > 0.5);
        let is_ahead = ruling.outcome == Outcome::Ahead;
        ahead += f64::from(u8::from(is_ahead));
        left += f64::from(u8::from(is_ahead && !is_state));
        named += f64::from(u8::from(is_state));
    }
    let shown = [ahead, left, named].map(|count| percent(count, races as f64)).join(" | ");
    println!("| {name} | {blocks} | {shown} |");
    let races = races as f64;
    (ahead / races, left / races, named / races)
}
