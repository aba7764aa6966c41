//! Loss before the queue.

use super::draw::{Chance, Model, Stream, unit};
use super::packet::Place;
use super::rate::Steps;
use super::shape::exponential;
use crate::network::{GilbertElliott, Impairments, Loss, Outages, Rate};
use crate::trace::Content;
use deadheat_base::time::Nanos;

/// Shortest good or bad time.
const SHORTEST: u64 = 1_000;

/// Loss model and its state.
#[derive(Debug)]
pub(super) struct Losses {
    kind: LossState,
    trace: Option<TraceLoss>,
}

#[derive(Debug)]
enum LossState {
    Never,
    Chance(Chance, Stream),
    Chain(LossChain),
    Outages(OutageTurns),
    List(Vec<u64>, usize),
    Every(u64),
}

impl Losses {
    pub(super) fn new(model: &Impairments, place: Place) -> Losses {
        let kind = match &model.loss {
            Loss::None => LossState::Never,
            Loss::Bernoulli(p) => {
                LossState::Chance(Chance::new(*p), Stream::new(place, Model::Loss))
            }
            Loss::GilbertElliott(chain) => LossState::Chain(LossChain::new(chain, place)),
            Loss::Outages(outages) => LossState::Outages(OutageTurns::new(*outages, place)),
            Loss::Every(step) => LossState::Every(*step),
            Loss::List(numbers) => {
                let mut numbers = numbers.to_vec();
                numbers.sort_unstable();
                LossState::List(numbers, 0)
            }
        };
        Losses { kind, trace: TraceLoss::new(&model.rate, place) }
    }

    /// Returns true if the packet with this number, from 0, is lost. Called once for each, in order.
    #[inline]
    pub(super) fn take(&mut self, index: u64, now: u64) -> bool {
        let lost = match &mut self.kind {
            LossState::Never => false,
            LossState::Chance(chance, stream) => chance.hits(*stream, index),
            LossState::Chain(chain) => chain.take(index),
            LossState::Outages(turns) => turns.bad_at(now),
            LossState::Every(step) => (index + 1).is_multiple_of(*step),
            LossState::List(numbers, next) => {
                let number = index + 1;
                *next += numbers[*next..].iter().take_while(|listed| **listed < number).count();
                numbers.get(*next) == Some(&number)
            }
        };
        lost || self.trace.as_mut().is_some_and(|trace| trace.take(index, now))
    }
}

/// Gilbert–Elliott chain. Its first state is drawn from the distribution after a long time, so that the first
/// packet is like every other.
#[derive(Debug)]
struct LossChain {
    /// Probabilities of loss and change in the good state, then in the bad one.
    states: [(Chance, Chance); 2],
    bad: usize,
    losses: Stream,
    changes: Stream,
}

impl LossChain {
    fn new(chain: &GilbertElliott, place: Place) -> LossChain {
        let share = if chain.p > 0.0 { chain.p / (chain.p + chain.r) } else { 0.0 };
        let starts_bad = Chance::new(share).hits(Stream::new(place, Model::ChainStart), 0);
        LossChain {
            states: [
                (Chance::new(chain.good), Chance::new(chain.p)),
                (Chance::new(chain.bad), Chance::new(chain.r)),
            ],
            bad: usize::from(starts_bad),
            losses: Stream::new(place, Model::Loss),
            changes: Stream::new(place, Model::Chain),
        }
    }

    /// Returns true if the packet is lost in the current state; then the chain takes its step.
    fn take(&mut self, index: u64) -> bool {
        let (loss, change) = self.states[self.bad];
        if change.hits(self.changes, index) {
            self.bad = 1 - self.bad;
        }
        loss.hits(self.losses, index)
    }
}

/// Good and bad times in turns. Number and length of each follow from the seed alone; the first one is drawn as the
/// state of the link at a random moment.
#[derive(Debug)]
struct OutageTurns {
    means: [u64; 2],
    bad: usize,
    until: u64,
    number: u64,
    lengths: Stream,
}

impl OutageTurns {
    fn new(outages: Outages, place: Place) -> OutageTurns {
        let means = [outages.good.0, outages.bad.0];
        let share = means[1] as f64 / (means[0] as f64 + means[1] as f64);
        let bad = Chance::new(share).hits(Stream::new(place, Model::OutageStart), 0);
        let lengths = Stream::new(place, Model::Outage);
        let mut turns = OutageTurns { means, bad: usize::from(bad), until: 0, number: 0, lengths };
        turns.until = turns.length();
        turns
    }

    /// Draws the length of the period that begins.
    fn length(&mut self) -> u64 {
        let length = exponential(unit(self.lengths.draw(self.number)));
        self.number += 1;
        ((self.means[self.bad] as f64 * length).round() as u64).max(SHORTEST)
    }

    fn bad_at(&mut self, now: u64) -> bool {
        while now >= self.until && self.until < u64::MAX {
            self.bad = 1 - self.bad;
            self.until = self.until.saturating_add(self.length());
        }
        self.bad == 1
    }
}

/// Loss probability of a trace at a time.
#[derive(Debug)]
struct TraceLoss {
    steps: Steps,
    stream: Stream,
}

impl TraceLoss {
    /// Creates the model; `None` where no step loses.
    fn new(rate: &Rate, place: Place) -> Option<TraceLoss> {
        let Rate::Trace(trace) = rate else {
            return None;
        };
        let Content::Steps(steps) = &trace.content else {
            return None;
        };
        steps.iter().any(|step| step.loss.is_some()).then(|| TraceLoss {
            steps: Steps::new(trace),
            stream: Stream::new(place, Model::TraceLoss),
        })
    }

    fn take(&mut self, index: u64, now: u64) -> bool {
        let loss = self.steps.at(Nanos(now)).and_then(|step| step.loss);
        Chance::new(loss.unwrap_or(0.0)).hits(self.stream, index)
    }
}
