//! deadheat's own figures: the binary is run as a user would run it, and its result file read.

use deadheat::result::outcome::{Outcome, Status, Trial};
use deadheat::stats;

use crate::race_file::race;
use crate::table::median;

/// The command line of a race.
pub(crate) struct Race(Vec<String>);

impl Race {
    /// Contenders, separated by blanks, under a workload; one block where none other is asked for.
    pub(crate) fn new(contenders: &str, workload: &str) -> Race {
        let mut words: Vec<String> = contenders.split(' ').map(str::to_owned).collect();
        // With a margin given, one trial warms up instead of six that would find one.
        words.extend(["--margin", "5%", "--workload", workload].map(str::to_owned));
        Race(words)
    }

    /// A quick race as a user would ask for one, placement left to the program.
    pub(crate) fn quick(contenders: &str) -> Race {
        let mut words: Vec<String> = contenders.split(' ').map(str::to_owned).collect();
        words.push("--quick".to_owned());
        Race(words)
    }

    /// Where both ends run.
    pub(crate) fn placement(self, placement: &str) -> Race {
        self.with("--placement", placement)
    }

    /// Path between both ends.
    pub(crate) fn path(self, path: &str) -> Race {
        self.with("--path", path)
    }

    fn blocks(self, blocks: usize) -> Race {
        self.with("--blocks", &blocks.to_string())
    }

    /// The seed of the order.
    pub(crate) fn seed(self, seed: usize) -> Race {
        self.with("--seed", &seed.to_string())
    }

    fn with(mut self, option: &str, value: &str) -> Race {
        self.0.extend([option.to_owned(), value.to_owned()]);
        self
    }

    /// Runs it. A race that is not trusted still has figures.
    pub(crate) fn run(mut self) -> crate::Outcome<Saved> {
        if !self.0.iter().any(|word| word == "--blocks" || word == "--quick") {
            self = self.blocks(1);
        }
        let words: Vec<&str> = self.0.iter().map(String::as_str).collect();
        let ran = race(&words)?;
        match ran.code {
            Some(0 | 3) => Ok(Saved(serde_json::from_slice(&ran.text)?)),
            code => {
                Err(format!("deadheat race {}: it ended with {code:?}", words.join(" ")).into())
            }
        }
    }
}

/// A race that ran.
pub(crate) struct Saved(Outcome);

impl Saved {
    /// The median over trials of the round trip's median, in nanoseconds.
    pub(crate) fn rtt_p50(&self) -> crate::Outcome<f64> {
        self.figure("a median round trip", |trial| {
            let p50 = trial.record.rtt_ns.as_ref()?.p50?;
            Some(p50.at_least_ns() as f64)
        })
    }

    /// The median over trials of the send lateness's 99th percentile, in nanoseconds.
    pub(crate) fn lateness_p99(&self) -> crate::Outcome<f64> {
        self.figure("a 99th percentile of send lateness", |trial| {
            let p99 = trial.record.send_lateness_ns.as_ref()?.p99?;
            Some(p99.at_least_ns() as f64)
        })
    }

    /// The median over trials of the mean send lateness, in nanoseconds.
    pub(crate) fn lateness_mean(&self) -> Option<f64> {
        self.figure("a mean", |trial| trial.record.send_lateness_ns.as_ref()?.mean).ok()
    }

    /// The median over trials of a metric.
    pub(crate) fn metric(&self, name: &str) -> crate::Outcome<f64> {
        self.figure(name, |trial| trial.record.metrics.get(name).copied())
    }

    /// The median over trials of the mean rate sent over the one asked for.
    pub(crate) fn rate_kept(&self) -> crate::Outcome<f64> {
        self.figure("a rate", |trial| {
            let metric = |name: &str| trial.record.metrics.get(name).copied();
            Some(metric("sent_bps")? / metric("offered_bps")?)
        })
    }

    /// Whether any verdict says that one is ahead.
    pub(crate) fn says_ahead(&self) -> bool {
        let mut verdicts = self.0.verdicts.iter();
        verdicts.any(|verdict| verdict.outcome == stats::Outcome::Ahead)
    }

    /// Whether every claim was decided.
    pub(crate) fn is_decided(&self) -> bool {
        self.0.status == Status::Decided
    }

    /// The median over every trial that ran, hidden copies and late generators included: what is
    /// measured here is the program, and to leave out its bad trials would flatter it.
    fn figure(&self, what: &str, of: impl Fn(&Trial) -> Option<f64>) -> crate::Outcome<f64> {
        let figures: Vec<f64> = self.0.trials.iter().filter_map(of).collect();
        if figures.is_empty() {
            return Err(format!("no trial of {:?} has {what}", self.0.asked.contenders).into());
        }
        Ok(median(&figures))
    }
}
