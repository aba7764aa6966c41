//! Sums of squares of a randomised block factorial, complete or not.
//!
//! The model is `value = block + cell + noise`, where a cell is a combination of levels. Blocks are removed first,
//! because they are conditions of the time and not of the experiment. The variation of the cells is split in two: the
//! additive part, factor by factor, and the rest, the interactions. With every cell in every block this is the
//! classical analysis of variance. If cells are missing, the factors are not orthogonal and each one's sum of squares
//! depends on their order; then it is the average over all orders (Lindeman, Merenda & Gold 1980; Grömping 2007, Am.
//! Stat. 61(2)), which is Shapley's value of the factor. Its degrees of freedom are averaged in the same way, so that
//! for a factor without an effect the expected sum of squares is the noise variance times them.

use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of factors: the number of fits is `2^factors`.
pub(super) const MOST_FACTORS: usize = 8;

/// Least share of a column's length that is independent of the others; with less it is their combination.
const COLLINEAR: f64 = 1e-9;

/// Observations, sorted into blocks and cells.
#[derive(Debug)]
pub(super) struct Factorial {
    /// Columns of the design by factor, one for each level.
    columns: Vec<Range<usize>>,
    /// Number of cells with observations.
    cells: usize,
    blocks: Vec<Block>,
    /// True if not every block has the same cells.
    has_gaps: bool,
}

/// Block: its observations, and the terms of the fit without its mean.
#[derive(Debug)]
struct Block {
    /// Values by cell, minus the block's mean.
    values: Vec<(usize, f64)>,
    /// Mean of the block, minus the mean of the first block.
    mean: f64,
    /// Sum of squares about the mean.
    within: f64,
    /// Gram matrix `X'X` of the design's columns, row by row.
    gram: Vec<f64>,
    /// Moments `X'y`.
    moments: Vec<f64>,
}

/// Sum of squares and its degrees of freedom, which an average over orders makes fractional.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Squares {
    pub(super) sum: f64,
    pub(super) freedom: f64,
}

/// Sums of squares of the whole variation and of its parts, which add up to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sums {
    pub(super) total: f64,
    pub(super) factors: Vec<Squares>,
    pub(super) interactions: Squares,
    pub(super) blocks: Squares,
    pub(super) residual: Squares,
}

impl Factorial {
    /// Sorts the observations; `None` without observations, with values that are not finite, with observations that
    /// do not name one level for each of the `factors`, or with more than [`MOST_FACTORS`].
    pub(super) fn new(observations: &[Observation], factors: usize) -> Option<Factorial> {
        let fits = |o: &Observation| o.levels.len() == factors && o.value.is_finite();
        if observations.is_empty() || !observations.iter().all(fits) || factors > MOST_FACTORS {
            return None;
        }
        let mut blocks: BTreeMap<u64, Vec<&Observation>> = BTreeMap::new();
        let mut cells: BTreeMap<&[usize], usize> = BTreeMap::new();
        // Levels in order of occurrence: a level without observations has no column.
        let mut levels: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); factors];
        for observation in observations {
            blocks.entry(observation.block).or_default().push(observation);
            let next = cells.len();
            cells.entry(&observation.levels).or_insert(next);
            for (known, level) in levels.iter_mut().zip(&observation.levels) {
                let next = known.len();
                known.entry(*level).or_insert(next);
            }
        }
        let mut columns: Vec<Range<usize>> = Vec::with_capacity(factors);
        for known in &levels {
            let start = columns.last().map_or(0, |last| last.end);
            columns.push(start..start + known.len());
        }
        let origin = blocks.values().next().map_or(0.0, |first| mean(first));
        let of = |observed: &Vec<&Observation>| {
            let row = |o: &Observation| -> Vec<usize> {
                let found = levels.iter().zip(&o.levels).zip(&columns);
                found.filter_map(|((known, at), to)| Some(to.start + known.get(at)?)).collect()
            };
            let cell = |o: &Observation| cells.get(o.levels.as_slice()).copied();
            Block::new(observed, columns.last().map_or(0, |last| last.end), origin, row, cell)
        };
        let blocks: Vec<Block> = blocks.values().map(of).collect();
        let alike = blocks.windows(2).all(|pair| pair[0].cells().eq(pair[1].cells()));
        let has_gaps = !alike;
        Some(Factorial { columns, cells: cells.len(), blocks, has_gaps })
    }

    /// Returns the number of blocks with observations.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the sums of squares with each block counted `weights` times: 1 for the data as they are, whole numbers
    /// for a resample of blocks.
    pub(super) fn sums(&self, weights: &[f64]) -> Sums {
        let drawn: Vec<(&Block, f64)> =
            self.blocks.iter().zip(weights.iter().copied()).filter(|(_, w)| *w > 0.0).collect();
        let over = |f: &dyn Fn(&Block) -> f64| drawn.iter().map(|(b, w)| w * f(b)).sum::<f64>();
        let count = over(&|b| b.values.len() as f64);
        let centre = over(&|b| b.values.len() as f64 * b.mean) / count;
        let between = over(&|b| b.values.len() as f64 * (b.mean - centre).powi(2));
        let within = over(&|b| b.within);
        let number = over(&|_| 1.0);

        let (factors, additive) = self.factors(&drawn);
        let cells = self.cells(&drawn);
        // Rounding alone could make either negative.
        let interactions = Squares {
            sum: (cells.sum - additive.sum).max(0.0),
            freedom: (cells.freedom - additive.freedom).max(0.0),
        };
        let residual = Squares {
            sum: (within - additive.sum - interactions.sum).max(0.0),
            freedom: (count - number - cells.freedom).max(0.0),
        };
        let blocks = Squares { sum: between, freedom: number - 1.0 };
        Sums { total: between + within, factors, interactions, blocks, residual }
    }

    /// Returns the part of each factor, and the part of all together.
    fn factors(&self, drawn: &[(&Block, f64)]) -> (Vec<Squares>, Squares) {
        let width = self.columns.last().map_or(0, |last| last.end);
        let (mut gram, mut moments) = (vec![0.0; width * width], vec![0.0; width]);
        for (block, weight) in drawn {
            add(&mut gram, &block.gram, *weight);
            add(&mut moments, &block.moments, *weight);
        }
        let k = self.columns.len();
        let fits: Vec<Squares> = (0..1usize << k)
            .map(|set| {
                let chosen = (0..k).filter(|factor| set >> factor & 1 == 1);
                let columns: Vec<usize> =
                    chosen.flat_map(|factor| self.columns[factor].clone()).collect();
                explained(&gram, &moments, width, &columns)
            })
            .collect();
        // Share of the k! orders with a given set of `before` factors first, then this one.
        let orders = |before: usize| 1.0 / (k as f64 * binomial(k - 1, before));
        let part = |factor: usize| {
            let mut part = Squares::default();
            for set in (0..fits.len()).filter(|set| set >> factor & 1 == 0) {
                let (with, without) = (fits[set | 1 << factor], fits[set]);
                let share = orders(set.count_ones() as usize);
                part.sum += share * (with.sum - without.sum);
                part.freedom += share * (with.freedom - without.freedom);
            }
            part.sum = part.sum.max(0.0);
            part
        };
        ((0..k).map(part).collect(), fits.last().copied().unwrap_or_default())
    }

    /// Returns the sum of squares of the cells, beyond the blocks.
    ///
    /// Without gaps that is the sum of squares of the cells' means. Else it solves the normal equations with the blocks
    /// eliminated, by conjugate gradients (Hestenes & Stiefel 1952) scaled by the cells' counts: a few missing trials
    /// cost a few steps.
    fn cells(&self, drawn: &[(&Block, f64)]) -> Squares {
        let mut counts = vec![0.0; self.cells];
        let mut rest = vec![0.0; self.cells];
        for (block, weight) in drawn {
            for (cell, value) in &block.values {
                counts[*cell] += weight;
                rest[*cell] += weight * value;
            }
        }
        let scaled = |rest: &[f64]| -> Vec<f64> {
            rest.iter().zip(&counts).map(|(r, n)| if *n > 0.0 { r / n } else { 0.0 }).collect()
        };
        if !self.has_gaps {
            let freedom = counts.iter().filter(|n| **n > 0.0).count().saturating_sub(1);
            return Squares { sum: dot(&rest, &scaled(&rest)), freedom: freedom as f64 };
        }
        let moments = rest.clone();
        let mut solution = vec![0.0; self.cells];
        let mut preferred = scaled(&rest);
        let mut way = preferred.clone();
        let mut size = dot(&rest, &preferred);
        let small = size * 1e-24;
        for _ in 0..2 * self.cells {
            if size <= small {
                break;
            }
            let image = eliminated(drawn, &way);
            let curvature = dot(&way, &image);
            if curvature <= 0.0 {
                break;
            }
            let step = size / curvature;
            add(&mut solution, &way, step);
            add(&mut rest, &image, -step);
            preferred = scaled(&rest);
            let next = dot(&rest, &preferred);
            way.iter_mut().zip(&preferred).for_each(|(w, p)| *w = p + next / size * *w);
            size = next;
        }
        Squares { sum: dot(&solution, &moments).max(0.0), freedom: self.contrasts(drawn) }
    }

    /// Returns the number of differences between cells that can be estimated within blocks: the number of cells minus
    /// the number of groups of cells that no block connects.
    fn contrasts(&self, drawn: &[(&Block, f64)]) -> f64 {
        let mut parent: Vec<usize> = (0..self.cells).collect();
        let root = |parent: &mut Vec<usize>, mut cell: usize| {
            while parent[cell] != cell {
                parent[cell] = parent[parent[cell]];
                cell = parent[cell];
            }
            cell
        };
        let mut contrasts = 0.0;
        for (block, _) in drawn {
            let Some((first, _)) = block.values.first() else { continue };
            for (cell, _) in &block.values[1..] {
                let (a, b) = (root(&mut parent, *first), root(&mut parent, *cell));
                if a != b {
                    parent[a] = b;
                    contrasts += 1.0;
                }
            }
        }
        contrasts
    }
}

impl Block {
    fn new(
        observed: &[&Observation],
        width: usize,
        origin: f64,
        row: impl Fn(&Observation) -> Vec<usize>,
        cell: impl Fn(&Observation) -> Option<usize>,
    ) -> Block {
        let (count, centre) = (observed.len() as f64, mean(observed));
        let mut block = Block {
            values: Vec::with_capacity(observed.len()),
            mean: centre - origin,
            within: 0.0,
            gram: vec![0.0; width * width],
            moments: vec![0.0; width],
        };
        let mut means = vec![0.0; width];
        for observation in observed {
            let value = observation.value - centre;
            block.within += value * value;
            block.values.extend(cell(observation).map(|cell| (cell, value)));
            let columns = row(observation);
            for a in &columns {
                means[*a] += 1.0 / count;
                block.moments[*a] += value;
                columns.iter().for_each(|b| block.gram[a * width + b] += 1.0);
            }
        }
        for a in 0..width {
            for b in 0..width {
                block.gram[a * width + b] -= count * means[a] * means[b];
            }
        }
        block.values.sort_unstable_by_key(|(cell, _)| *cell);
        block
    }

    fn cells(&self) -> impl Iterator<Item = usize> {
        self.values.iter().map(|(cell, _)| *cell)
    }
}

/// Returns the image of cell effects under the normal equations, with the blocks eliminated.
fn eliminated(drawn: &[(&Block, f64)], effects: &[f64]) -> Vec<f64> {
    let mut image = vec![0.0; effects.len()];
    for (block, weight) in drawn {
        let sum: f64 = block.values.iter().map(|(cell, _)| effects[*cell]).sum();
        let centre = sum / block.values.len() as f64;
        for (cell, _) in &block.values {
            image[*cell] += weight * (effects[*cell] - centre);
        }
    }
    image
}

/// Returns the sum of squares of some columns, and their rank: elimination on the normal equations, with the column
/// with the largest remainder first (Cholesky with diagonal pivoting).
fn explained(gram: &[f64], moments: &[f64], width: usize, columns: &[usize]) -> Squares {
    let m = columns.len();
    let mut left: Vec<f64> =
        columns.iter().flat_map(|a| columns.iter().map(move |b| gram[a * width + b])).collect();
    let mut rest: Vec<f64> = columns.iter().map(|a| moments[*a]).collect();
    let length: Vec<f64> = (0..m).map(|i| left[i * m + i]).collect();
    let mut open: Vec<usize> = (0..m).filter(|i| length[*i] > COLLINEAR).collect();
    let mut result = Squares::default();
    loop {
        let kept = |i: usize| left[i * m + i] / length[i];
        let best = open.iter().enumerate().max_by(|a, b| kept(*a.1).total_cmp(&kept(*b.1)));
        let Some((at, pivot)) = best.map(|(at, pivot)| (at, *pivot)) else { break };
        if kept(pivot) < COLLINEAR {
            break;
        }
        open.swap_remove(at);
        let divisor = left[pivot * m + pivot];
        result.sum += rest[pivot] * rest[pivot] / divisor;
        result.freedom += 1.0;
        for i in &open {
            let factor = left[i * m + pivot] / divisor;
            rest[*i] -= factor * rest[pivot];
            for j in &open {
                left[i * m + j] -= factor * left[pivot * m + j];
            }
        }
    }
    result
}

fn mean(observed: &[&Observation]) -> f64 {
    observed.iter().map(|o| o.value).sum::<f64>() / observed.len() as f64
}

/// Computes `to += by * from`.
fn add(to: &mut [f64], from: &[f64], by: f64) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += by * from);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

/// Figure of a trial under a combination of levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Block of the trial.
    pub block: u64,
    /// Levels of the factors, one for each, by index.
    pub levels: Vec<usize>,
    /// Natural logarithm of the figure.
    pub value: f64,
}
