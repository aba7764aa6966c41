//! Races that a page in a browser runs against a server: their plan, and their result.
//!
//! The plan is as of every race: blocks, in each of them all contenders and a hidden copy of the first in a balanced random
//! order, from one seed. The page has no say in statistics: it hands in the raw figures of each trial (`figures`), and from
//! there on this is the result of a race as any other, but measured by a page, and so with the import section of a result.

use std::time::SystemTime;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::collection::{entrant, path, settle};
use deadheat_base::units::hex::hex;
use deadheat_result::analysis::claims::{alpha, fewest_for};
use deadheat_result::analysis::judgement::DecisionStage;
use deadheat_result::analysis::verdicts::refresh;
use deadheat_result::analysis::{claims, warnings};
use deadheat_result::date;
use deadheat_result::imported::{
    DateSource, ImportOrigin, ImportPairing, ImportedFile, KIND, PairedBy,
};
use deadheat_result::outcome::{
    DEFAULT_MARGIN, Entrant, Outcome, RecordedPlan, RecordedRequest, Status, Trial,
};
use deadheat_result::schedule::{self, SlotRole};
use deadheat_stats::quantile;

mod checks;
pub mod figures;
mod metrics;

pub use checks::TrialSpan;
pub use figures::{BrowserTrial, PostedFigures};

/// Confidence of verdicts, as of a race.
const CONFIDENCE: f64 = 0.95;

/// Largest number of blocks, and of contenders.
pub const MOST_BLOCKS: u64 = 100;
const MOST_CONTENDERS: usize = 8;

/// Contender of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserContender {
    /// Name in a word: `websocket`.
    pub id: String,
    /// Name for people.
    pub label: String,
}

/// Work of a page, in the form in which the page asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum BrowserWork {
    /// Connections, one after the other.
    Connect {
        /// Number of connections in a trial.
        count: u32,
    },
    /// Messages that come back.
    Ping {
        /// Bytes of a message.
        size: usize,
        /// Number of messages in a trial.
        count: u32,
        /// Time between two of them, in milliseconds.
        interval_ms: u32,
    },
    /// Updates from the server.
    State {
        /// Updates in a second.
        hz: u32,
        /// Bytes of an update.
        size: usize,
        /// Number of updates in a trial.
        count: u32,
    },
    /// Messages from the server at random times, all of which must arrive.
    Events {
        /// Messages in a second, on average.
        hz: u32,
        /// Bytes of a message.
        size: usize,
        /// Number of messages in a trial.
        count: u32,
    },
    /// Bulk data to the page.
    Down {
        /// Bytes in a trial.
        bytes: u64,
    },
    /// Bulk data from the page.
    Up {
        /// Bytes in a trial.
        bytes: u64,
    },
}

/// Plan of a page's race, fixed before its first trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserPlan {
    /// Contenders; the first has a hidden copy.
    pub contenders: Vec<BrowserContender>,
    /// Work of each trial.
    pub work: BrowserWork,
    /// Number of blocks.
    pub blocks: u64,
    /// Seed of the order.
    pub seed: u64,
}

/// Slot of a plan: one trial to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedTrial {
    /// Number of the block.
    pub block: u64,
    /// Place within the block.
    pub order: u64,
    /// Index of the contender.
    pub contender: usize,
    /// True for the hidden copy.
    pub control: bool,
}

/// Facts about the page that ran the race, as it describes itself.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageFacts {
    /// Browser, as it names itself.
    pub browser: String,
    /// Step of the page's clock, in milliseconds.
    pub step_ms: f64,
    /// Time that the page takes to answer itself: the mean over many messages from it to itself, in milliseconds.
    pub loopback_ms: f64,
    /// True if the page is isolated from others, so that its clock is finer.
    pub isolated: bool,
}

impl PageFacts {
    /// Returns them with a short name of the browser, and without times that cannot be.
    #[must_use]
    pub fn bounded(self) -> PageFacts {
        let time = |ms: f64| if (0.0..=60_000.0).contains(&ms) { ms } else { 0.0 };
        PageFacts {
            browser: deadheat_base::foreign::short(&self.browser),
            step_ms: time(self.step_ms),
            loopback_ms: time(self.loopback_ms),
            isolated: self.isolated,
        }
    }
}

impl BrowserPlan {
    /// Checks and completes a plan: `blocks` of `None` are as many as a verdict on every pair takes, and a few more.
    ///
    /// # Errors
    /// A sentence with the impossible number.
    pub fn new(
        contenders: Vec<BrowserContender>,
        work: BrowserWork,
        blocks: Option<u64>,
        seed: u64,
    ) -> Result<BrowserPlan, String> {
        if contenders.is_empty() || contenders.len() > MOST_CONTENDERS {
            return Err(format!("a race has 1 to {MOST_CONTENDERS} contenders"));
        }
        let is_twice =
            |(at, one): (usize, &BrowserContender)| contenders[..at].iter().any(|own| own == one);
        if contenders.iter().enumerate().any(is_twice) {
            return Err("a contender is in the list twice".to_owned());
        }
        let pairs = contenders.len() * (contenders.len() - 1) / 2;
        let fewest = fewest_for(pairs, CONFIDENCE).max(2);
        let blocks = blocks.unwrap_or_else(|| (fewest + fewest / 2).max(USUAL_BLOCKS));
        if blocks == 0 || blocks > MOST_BLOCKS {
            return Err(format!("a race has 1 to {MOST_BLOCKS} blocks"));
        }
        work.check()?;
        Ok(BrowserPlan { contenders, work, blocks, seed })
    }

    /// Returns all trials in the order in which they run.
    pub fn trials(&self) -> Vec<PlannedTrial> {
        let active: Vec<usize> = (0..self.contenders.len()).collect();
        let of_block = |number| {
            let block = schedule::block(self.seed, number, &active, &[]);
            (0..).zip(block.slots).map(move |(order, slot)| PlannedTrial {
                block: number,
                order,
                contender: slot.contender,
                control: slot.role == SlotRole::Control,
            })
        };
        (0..self.blocks).flat_map(of_block).collect()
    }

    /// Returns the result of the trials so far, in the order of the plan. Blocks that are not whole are in no figure.
    pub fn outcome(&self, done: &[(PlannedTrial, BrowserTrial)], page: &PageFacts) -> Outcome {
        let each = self.contenders.len() + 1;
        let whole = done.len() / each * each;
        let trials: Vec<Trial> =
            done[..whole].iter().map(|(slot, own)| trial(*slot, own)).collect();
        let first = done.first().map_or(0, |(_, own)| own.record.started_ms);
        let began = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(first);
        let mut outcome = Outcome {
            title: Some(format!("{} from a browser", self.work.headline())),
            started: date::rfc3339(began),
            seed: self.seed,
            metrics: self.work.metrics(),
            contenders: self.entrants(done, page),
            trials,
            status: if whole == self.trials().len() { Status::Budget } else { Status::Interrupted },
            ..Outcome::new(self.request(), self.recorded(), path())
        };
        outcome.plan.claims = claims::claims(&outcome.contenders, &outcome.metrics) as u64;
        refresh(&mut outcome, DecisionStage::Look { alpha: alpha(CONFIDENCE), next: None });
        if outcome.status == Status::Budget {
            settle(&mut outcome);
        }
        warnings::refresh(&mut outcome, None);
        outcome.imported = Some(self.origin(&done[..whole], page));
        outcome
    }

    fn request(&self) -> RecordedRequest {
        RecordedRequest {
            contenders: self.contenders.iter().map(|own| own.label.clone()).collect(),
            workload: self.work.text(),
            path: KIND.to_owned(),
            blocks: Some(self.blocks),
            confidence: CONFIDENCE,
            ..RecordedRequest::default()
        }
    }

    fn recorded(&self) -> RecordedPlan {
        RecordedPlan {
            margin: DEFAULT_MARGIN,
            margin_reason: "the default".to_owned(),
            blocks_max: self.blocks,
            quantile_definition: quantile::DEFINITION.to_owned(),
            ..RecordedPlan::default()
        }
    }

    fn entrants(&self, done: &[(PlannedTrial, BrowserTrial)], page: &PageFacts) -> Vec<Entrant> {
        let of = |(id, own): (usize, &BrowserContender)| {
            let mut trials = done.iter().filter(|(slot, _)| slot.contender == id);
            let record = trials.next().map(|(_, trial)| &trial.record);
            let implementation = match record.and_then(|own| own.effective.get(PROTOCOL)) {
                Some(protocol) => format!("{}, {protocol}", page.browser),
                None => page.browser.clone(),
            };
            Entrant {
                effective: record.map(|own| own.effective.clone()).unwrap_or_default(),
                ..entrant(id, own.label.clone(), own.id.clone(), implementation)
            }
        };
        self.contenders.iter().enumerate().map(of).collect()
    }

    fn origin(&self, done: &[(PlannedTrial, BrowserTrial)], page: &PageFacts) -> ImportOrigin {
        let mut digest = Sha256::new();
        done.iter().for_each(|(_, own)| digest.update(own.digest));
        let file = ImportedFile {
            name: "the page".to_owned(),
            sha256: hex(&digest.finalize()),
            format: "browser".to_owned(),
            program: Some(page.browser.clone()),
            unit: "ms".to_owned(),
            trial: self.work.headline(),
            contenders: (0..self.contenders.len()).collect(),
            trials: done.len() as u64,
            unknown: UNKNOWN.map(str::to_owned).to_vec(),
            doubts: doubts(done, page),
        };
        let blocks = (done.len() / (self.contenders.len() + 1)) as u64;
        ImportOrigin {
            dated: DateSource::ByFiles,
            files: vec![file],
            spreads: Vec::new(),
            pairing: Some(ImportPairing { by: PairedBy::Plan, blocks, incomplete: 0, first: None }),
            basis: "A page in a browser measured; the server drew the order, with a hidden copy of the first contender in each \
                    block, and deadheat compared the trials as those of a race (Wilcoxon signed-rank, Hodges–Lehmann)."
                .to_owned(),
            lacks: format!("A page cannot know: {}.", UNKNOWN.join("; ")),
        }
    }
}

/// Name of the option with the protocol that the browser reports.
const PROTOCOL: &str = "protocol";

/// Number of blocks unless more are needed: a race of two then takes about half a minute.
const USUAL_BLOCKS: u64 = 10;

/// Information that a page does not have.
const UNKNOWN: [&str; 3] = [
    "when its messages left the host, behind the buffers of the browser",
    "the options of the browser's sockets and of the protocols in it",
    "losses below a protocol that repairs them",
];

/// Returns the sentences about the limits of this page and of its trials.
fn doubts(done: &[(PlannedTrial, BrowserTrial)], page: &PageFacts) -> Vec<String> {
    let why = if page.isolated {
        ""
    } else {
        ", as this page is not isolated (it needs https, or localhost)"
    };
    let mut doubts = vec![
        format!("The clock of the page moves in steps of {}{why}.", ms(page.step_ms)),
        format!(
            "The page takes {} to answer itself (mean of 500 times); its own part in every time is about that.",
            ms(page.loopback_ms)
        ),
    ];
    let lag = done.iter().map(|(_, own)| own.lag_max_ms).fold(0.0, f64::max);
    let late = done.iter().map(|(_, own)| own.late_max_ms).fold(0.0, f64::max);
    doubts.push(format!(
        "Its event loop was busy for {} at most during a trial, and its timers were late by up to {}, so a round trip counts from \
         the call that sends, not from the time at which it was due.",
        ms(lag),
        ms(late)
    ));
    let is_slow = |own: &BrowserTrial| own.lag_max_ms.max(own.late_max_ms) > checks::LONG_TASK_MS;
    let slow = done.iter().filter(|(_, own)| is_slow(own)).count();
    if slow > 0 {
        doubts.push(format!(
            "In {slow} of {} trials that was more than {} ms, a long task: single messages of these waited in the page. Each \
             trial has its own figures of both ({}, {}).",
            done.len(),
            checks::LONG_TASK_MS,
            figures::PAGE_LAG,
            figures::TIMER_LATE
        ));
    }
    doubts
}

/// Formats milliseconds: `0.005 ms`, `12.3 ms`.
fn ms(value: f64) -> String {
    let digits = if value < 0.1 { 3 } else { 1 };
    format!("{value:.digits$} ms")
}

fn trial(slot: PlannedTrial, own: &BrowserTrial) -> Trial {
    Trial {
        block: slot.block,
        order: slot.order,
        contender: slot.contender,
        control: slot.control,
        record: own.record.clone(),
    }
}

impl BrowserWork {
    /// Returns the work as text, in the form of a workload.
    pub fn text(&self) -> String {
        match self {
            BrowserWork::Connect { count } => format!("connect:count={count}"),
            BrowserWork::Ping { size, count, interval_ms } => {
                format!("ping:size={size},count={count},interval={interval_ms}ms")
            }
            BrowserWork::State { hz, size, count } => {
                format!("state:hz={hz},size={size},count={count}")
            }
            BrowserWork::Events { hz, size, count } => {
                format!("events:events={hz}pps,hz=0,size={size},count={count},direction=down")
            }
            BrowserWork::Down { bytes } => format!("bulk:direction=down,bytes={bytes}B"),
            BrowserWork::Up { bytes } => format!("bulk:direction=up,bytes={bytes}B"),
        }
    }

    /// Returns the work in words, with its numbers.
    pub fn headline(&self) -> String {
        match self {
            BrowserWork::Connect { count } => format!("{count} connections, one after the other"),
            BrowserWork::Ping { size, count, interval_ms } => {
                format!("{count} pings of {size} bytes, one each {interval_ms} ms")
            }
            BrowserWork::State { hz, size, count } => {
                format!("{count} state updates of {size} bytes at {hz} Hz, server to page")
            }
            BrowserWork::Events { hz, size, count } => {
                format!("{count} events of {size} bytes, {hz} a second at random, server to page")
            }
            BrowserWork::Down { bytes } => format!("{bytes} bytes, server to page"),
            BrowserWork::Up { bytes } => format!("{bytes} bytes, page to server"),
        }
    }

    /// Returns the longest time that a trial of the work should take on a path that is not broken, in milliseconds.
    pub fn span_ms(&self) -> u64 {
        match *self {
            BrowserWork::Connect { count } => 2_000 * u64::from(count),
            BrowserWork::Ping { count, interval_ms, .. } => {
                u64::from(count) * u64::from(interval_ms)
            }
            BrowserWork::State { hz, count, .. } | BrowserWork::Events { hz, count, .. } => {
                1_000 * u64::from(count) / u64::from(hz.max(1))
            }
            // 1 Mbit/s.
            BrowserWork::Down { bytes } | BrowserWork::Up { bytes } => bytes / 125,
        }
    }

    /// Returns the number of messages or connections of a trial; 1 for bulk data.
    fn count(&self) -> u32 {
        match *self {
            BrowserWork::Connect { count }
            | BrowserWork::Ping { count, .. }
            | BrowserWork::State { count, .. }
            | BrowserWork::Events { count, .. } => count,
            BrowserWork::Down { .. } | BrowserWork::Up { .. } => 1,
        }
    }

    /// Refuses numbers outside their bounds.
    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, least: u64, most: u64| match value {
            value if (least..=most).contains(&value) => Ok(()),
            value => Err(format!("{name} is {value}, and may be {least} to {most}")),
        };
        let count = |count: u32| within("count", count.into(), FEWEST_MESSAGES, MOST_MESSAGES);
        match *self {
            BrowserWork::Connect { count } => within("count", u64::from(count), 1, 20)?,
            BrowserWork::Ping { size, count: n, interval_ms } => {
                within("size", size as u64, 12, 16_384)?;
                count(n)?;
                within("interval", u64::from(interval_ms), 1, 1_000)?;
            }
            BrowserWork::State { hz, size, count: n }
            | BrowserWork::Events { hz, size, count: n } => {
                count(n)?;
                within("hz", u64::from(hz), 1, 1_000)?;
                within("size", size as u64, 20, 1_100)?;
            }
            BrowserWork::Down { bytes } | BrowserWork::Up { bytes } => {
                within("bytes", bytes, 1_000, 1_000_000_000)?;
            }
        }
        within("time of a trial in ms", self.span_ms(), 0, 60_000_000)
    }
}

/// Largest number of messages in a trial: a page posts a number or two for each.
const MOST_MESSAGES: u64 = 5_000;

/// Fewest messages in a trial, for a median with ten on each side.
const FEWEST_MESSAGES: u64 = 20;

#[cfg(test)]
mod tests;
