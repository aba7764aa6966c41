//! Surveys of a line: which transports get through, then rounds of trials until the time is over; again at later times
//! if asked.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use super::plan::{BY_IMPORTANCE, CORE, LineCosts};
use crate::race::context::STEP;
use deadheat_base::error::{Error, Result};
use deadheat_base::rng::SplitMix64;
use deadheat_base::time::{Clock, Nanos, epoch_ms};
use deadheat_contract::measurements::series::{Series, goodput_between};
use deadheat_contract::workload::load::GOODPUT;
use deadheat_contract::workload::{Setting, SharedTask};
use deadheat_datapath::transport::Contender;
use deadheat_host::placement::Load;
use deadheat_path::PathKind;
use deadheat_records::placement::Placement;
use deadheat_records::trial::Record;
use deadheat_result::causes::record::of_load;
use deadheat_result::line::figures::{enough_rounds, figures};
use deadheat_result::line::outcome::{
    FORMAT, LineFileKind, LineOutcome, LineTrial, LoadCourse, Reached, Survey,
};
use deadheat_result::line::part::{LinePart, LineTimes, LineWorks};
use deadheat_result::outcome::Program;
use deadheat_result::{date, save};
use deadheat_trial::agent::intervals;
use deadheat_trial::explain::Pass;
use deadheat_trial::{FarLink, Order, Pairing, Reconnection, Runner, TrialOutcome};

mod knock;

/// Time of one survey, unless another is asked for.
pub const SURVEY: Nanos = Nanos::from_secs(55);

/// Least time of a survey: a round takes about 10 s.
pub const SHORTEST: Nanos = Nanos::from_secs(15);

/// Largest number of rounds of a survey: more make intervals no narrower that a minute's drift does not widen.
const MOST_ROUNDS: u64 = 20;

/// Number of failed trials in a row, one of them without a load, that end a survey.
const MOST_FAILED: usize = 3;

/// Parts of a survey's time after which no further transport is tried, and no further mark: the first two transports,
/// one of which carries the small messages, are tried in any case.
const KNOCKING: (f64, f64) = (0.25, 0.3);

/// Part of a survey's time by which it may take longer: a trial that would end later does not begin.
const LATE: f64 = 0.1;

/// Task: a line to survey.
#[derive(Debug, Clone)]
pub struct LineTask<'a> {
    /// Contenders to try at the beginning, as typed. The first is preferred for small messages, the second taken if the
    /// first does not get through.
    pub knock: &'a [&'a str],
    /// Contenders whose packets carry a DSCP, as typed; tried if the first contender of all gets through.
    pub marked: &'a [&'a str],
    /// Works of the trials.
    pub works: &'a LineWorks,
    /// Time of one survey.
    pub survey: Nanos,
    /// Time between the starts of two surveys, and the time of all; a single survey if absent.
    pub every: Option<(Nanos, Nanos)>,
    /// Seed of the order of trials.
    pub seed: u64,
    /// File, written after each round.
    pub file: &'a Path,
}

/// Event in a survey.
#[derive(Debug)]
pub enum LineEvent<'a> {
    /// A transport is tried.
    Trying(&'a str),
    /// A trial of a round begins.
    Trial {
        /// Number of the round, from 1.
        round: u64,
        /// Kind of trial.
        part: LinePart,
        /// Most time left.
        left: Nanos,
    },
    /// A round is complete, and saved.
    Round {
        /// All surveys so far.
        outcome: &'a LineOutcome,
        /// Number of the round, from 1.
        round: u64,
        /// Most time left.
        left: Nanos,
    },
    /// The next survey is waited for.
    Waiting {
        /// Time left until then.
        left: Nanos,
    },
}

/// Means by which a survey runs.
pub struct LineContext<'a> {
    /// Runner of trials.
    pub runner: &'a mut dyn Runner,
    /// Clock of all waits.
    pub clock: &'a dyn Clock,
    /// Callback for events.
    pub on_event: &'a mut dyn FnMut(&LineEvent<'_>),
    /// Flag that Ctrl-C sets.
    pub stop: Arc<AtomicBool>,
}

/// Surveys the line, and saves the outcome after each round. Ctrl-C ends it with the rounds so far.
///
/// # Errors
/// If no transport gets through, with the reason of the first; if the file cannot be written; if the host cannot run
/// trials. [`Error::Interrupted`] before the first round is complete.
pub fn run(task: &LineTask<'_>, context: &mut LineContext<'_>) -> Result<LineOutcome> {
    let (host, peer_host) = context.runner.hosts()?;
    let (placement, _) = context.runner.placement(None, Load::Paced)?;
    let mut outcome = LineOutcome {
        kind: LineFileKind::Line,
        format: FORMAT,
        deadheat: Program { version: env!("CARGO_PKG_VERSION").to_owned() },
        started: date::rfc3339(SystemTime::now()),
        seed: task.seed,
        path: context.runner.path(),
        host,
        peer_host,
        works: task.works.clone(),
        every_ns: task.every.map(|(every, _)| every.0),
        surveys: Vec::new(),
    };
    let mut rng = SplitMix64::new(task.seed);
    let began = context.clock.now();
    let mut due = began;
    let mut is_lost = false;
    loop {
        outcome
            .surveys
            .push(Survey { started_ms: epoch_ms(SystemTime::now()), ..Survey::default() });
        let mut surveyor = Surveyor {
            task,
            context,
            outcome: &mut outcome,
            rng: &mut rng,
            placement,
            is_lost: &mut is_lost,
        };
        if let Err(error) = surveyor.survey() {
            let is_first = outcome.surveys.len() == 1;
            match outcome.surveys.last_mut() {
                Some(survey) if survey.rounds > 0 || is_finding(task, survey, &error) => {
                    survey.ended = Some(error.to_string());
                }
                _ if is_first => return Err(error),
                _ => drop(outcome.surveys.pop()),
            }
        }
        save::save(&outcome, task.file)?;
        let Some((every, whole)) = task.every else { return Ok(outcome) };
        due += every;
        if due >= began + whole {
            return Ok(outcome);
        }
        context.wait_until(due);
        if context.is_stopped() {
            return Ok(outcome);
        }
    }
}

/// Returns true if a survey that failed before its first round is part of the outcome: if a transport gets through, and
/// over days, where a line that is down is a finding.
fn is_finding(task: &LineTask<'_>, survey: &Survey, error: &Error) -> bool {
    let is_any = task.every.is_some() || !survey.probe.is_empty();
    is_any && !matches!(error, Error::Interrupted | Error::Usage(_))
}

impl LineContext<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Waits until `at`, or until Ctrl-C.
    fn wait_until(&mut self, at: Nanos) {
        loop {
            let left = at - self.clock.now();
            if left == Nanos::ZERO || self.is_stopped() {
                return;
            }
            (self.on_event)(&LineEvent::Waiting { left });
            self.clock.pass(left.min(STEP));
        }
    }
}

/// One survey under way: the last of the outcome.
struct Surveyor<'a, 'b> {
    task: &'a LineTask<'a>,
    context: &'a mut LineContext<'b>,
    outcome: &'a mut LineOutcome,
    rng: &'a mut SplitMix64,
    placement: Placement,
    /// True if the connection to the far end was lost and is not back.
    is_lost: &'a mut bool,
}

impl Surveyor<'_, '_> {
    fn survey(&mut self) -> Result<()> {
        let began = self.context.clock.now();
        let surveyed = self.rounds(began);
        self.sum_up(began);
        surveyed
    }

    /// Sets what follows from the trials so far.
    fn sum_up(&mut self, began: Nanos) {
        let took = self.context.clock.now() - began;
        let mut left_out = self.possible(&[]);
        let survey = self.current();
        left_out.retain(|part| survey.trials.iter().all(|trial| trial.part != *part));
        survey.figures = figures(&survey.trials);
        survey.took_ns = took.0;
        survey.left_out = if survey.trials.is_empty() { Vec::new() } else { left_out };
    }

    /// Tries the transports and the marks, then runs as many rounds as fit.
    fn rounds(&mut self, began: Nanos) -> Result<()> {
        let part_of = |share: f64| Nanos((self.task.survey.0 as f64 * share) as u64);
        let [knocked, marked, late] = [KNOCKING.0, KNOCKING.1, 1.0 + LATE].map(part_of);
        let (end, late) = (began + self.task.survey, began + late);
        let (round_trip, overhead) = self.knock(began + knocked)?;
        self.mark(began + marked)?;
        let mut rounds = LineRounds {
            times: LineTimes::on(round_trip),
            costs: LineCosts::new(LineTimes::on(round_trip), overhead),
            failed: Vec::new(),
            in_a_row: Vec::new(),
            end,
            late,
        };
        let mut parts = Vec::new();
        for round in 0..MOST_ROUNDS {
            let left = end - self.context.clock.now();
            let all = self.possible(&rounds.failed);
            let wider = rounds.costs.fitting(&all, left, enough_rounds());
            if round == 0 || (round == 1 && wider.len() > parts.len()) {
                parts = wider;
            } else {
                let current: Vec<LinePart> =
                    all.into_iter().filter(|part| parts.contains(part)).collect();
                let wanted = enough_rounds().saturating_sub(round).max(1);
                parts = rounds.costs.fitting(&current, left, wanted);
                if parts.len() < CORE.min(current.len()) {
                    break;
                }
            }
            if parts.is_empty() || (round > 0 && rounds.costs.round(&parts) > left) {
                break;
            }
            self.round(round, &parts, &mut rounds)?;
            self.current().rounds = round + 1;
            self.sum_up(began);
            save::save(&*self.outcome, self.task.file)?;
            let left = end - self.context.clock.now();
            let done = LineEvent::Round { outcome: self.outcome, round: round + 1, left };
            (self.context.on_event)(&done);
        }
        Ok(())
    }

    /// Runs a trial of each of these kinds, in random order. A kind that fails is not tried again.
    fn round(&mut self, round: u64, parts: &[LinePart], rounds: &mut LineRounds) -> Result<()> {
        let mut parts = parts.to_vec();
        self.rng.shuffle(&mut parts);
        for part in parts {
            if self.context.is_stopped() {
                return Err(Error::Interrupted);
            }
            let now = self.context.clock.now();
            let is_first = self.current().trials.is_empty();
            if now + rounds.costs.of(part) > rounds.late && !is_first {
                continue;
            }
            let left = rounds.end - now;
            (self.context.on_event)(&LineEvent::Trial { round: round + 1, part, left });
            let failed = self.trial(round, part, &rounds.times)?;
            let Some(error) = failed else {
                rounds.costs.add(part, self.context.clock.now() - now);
                rounds.in_a_row.clear();
                continue;
            };
            rounds.failed.push(part);
            rounds.in_a_row.push(part);
            let is_idle_too = rounds.in_a_row.iter().any(|part| part.load().is_none());
            let is_over = rounds.in_a_row.len() >= MOST_FAILED && is_idle_too;
            if is_over || self.possible(&rounds.failed).is_empty() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the contender of a kind of trials, if it gets through.
    fn contender(&self, part: LinePart) -> Option<&str> {
        let survey = self.outcome.surveys.last()?;
        let typed = match part {
            LinePart::Paced => &self.task.works.paced_over,
            _ => &survey.probe,
        };
        let is_through =
            |reached: &Reached| reached.contender == *typed && reached.why_not.is_none();
        survey.reach.iter().any(is_through).then_some(typed)
    }

    /// Returns the kinds of trials whose contender gets through and that have not failed, the most important first.
    fn possible(&self, failed: &[LinePart]) -> Vec<LinePart> {
        let is_possible =
            |part: &LinePart| !failed.contains(part) && self.contender(*part).is_some();
        BY_IMPORTANCE.into_iter().filter(is_possible).collect()
    }

    fn current(&mut self) -> &mut Survey {
        if self.outcome.surveys.is_empty() {
            self.outcome.surveys.push(Survey::default());
        }
        let last = self.outcome.surveys.len() - 1;
        &mut self.outcome.surveys[last]
    }

    /// Runs a trial of a round. Returns the reason if it failed.
    ///
    /// # Errors
    /// [`Error::Interrupted`] on Ctrl-C; the reason if the far end is away.
    fn trial(&mut self, round: u64, part: LinePart, times: &LineTimes) -> Result<Option<Error>> {
        let workload = part.work(self.task.works, times);
        let Some(typed) = self.contender(part).map(str::to_owned) else { return Ok(None) };
        let started_ms = epoch_ms(SystemTime::now());
        let ran = self.run(&typed, &workload);
        let (mut record, error) = match ran {
            Ok(record) => (record, None),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => (Record::without_figures(error.to_string()), Some(error)),
        };
        let load = part.load().and_then(|_| course(&record, times));
        if let Some(LoadCourse { halves_bps: [first, second], .. }) = load {
            record.metrics.insert(GOODPUT.to_owned(), (first + second) / 2.0);
        }
        let load_causes = part.load().map_or_else(Vec::new, |_| of_load(&record));
        self.current().trials.push(LineTrial {
            round,
            part,
            workload,
            why_invalid: record.why_invalid,
            started_ms,
            took_ns: record.took_ns,
            metrics: record.metrics,
            censored: record.censored,
            load,
            load_causes,
            ledger: record.ledger,
            clock: record.clock,
        });
        match error {
            Some(error) if *self.is_lost => Err(error),
            error => Ok(error),
        }
    }

    fn run(&mut self, contender: &str, workload: &str) -> Result<Record> {
        let setting = match self.outcome.path.kind {
            PathKind::Remote => Setting::REMOTE,
            _ => Setting::LOOPBACK,
        };
        let task = SharedTask::parse_on(workload, &setting)?;
        let order = Order {
            pairing: Pairing::new(Contender::parse(contender)?, task)?,
            placement: self.placement,
            seed: self.rng.next_u64(),
            samples: None,
            interval: intervals::DEFAULT,
            pass: Pass::Figures,
        };
        if *self.is_lost {
            let link = self.context.runner.far_link();
            match link.map_or(Ok(Reconnection::Back), FarLink::reconnect)? {
                Reconnection::Back => *self.is_lost = false,
                Reconnection::Away(why) => return Err(self.away(why)),
            }
        }
        match self.context.runner.run(&order) {
            TrialOutcome::Ran(record) => Ok(*record),
            TrialOutcome::Blocked(evidence) => Err(Error::blocked(evidence)),
            TrialOutcome::Limited(what) => Err(Error::limited(what)),
            TrialOutcome::Broke(what) => Err(Error::broken("trial", what)),
            TrialOutcome::Disconnected(what) => Err(Error::disconnected(what)),
            TrialOutcome::Lost(why) => {
                *self.is_lost = true;
                Err(self.away(why))
            }
            TrialOutcome::Failed(error) => Err(error),
        }
    }

    fn away(&self, why: String) -> Error {
        Error::peer(&self.outcome.path.spec, why)
    }
}

/// State of the rounds of a survey.
struct LineRounds {
    times: LineTimes,
    costs: LineCosts,
    /// Kinds of trials that failed.
    failed: Vec<LinePart>,
    /// Kinds of the last trials, as far as they failed one after the other.
    in_a_row: Vec<LinePart>,
    /// End of the survey's time.
    end: Nanos,
    /// Time by which every trial is over.
    late: Nanos,
}

/// Returns the course of the load beside a trial, from the end of its lead on; `None` if its counters do not reach so
/// far.
fn course(record: &Record, times: &LineTimes) -> Option<LoadCourse> {
    let (from, half) = (times.lead.0, times.window().0 / 2);
    let all = || record.load_intervals.iter().chain(&record.load_far_intervals);
    let of = |from: u64| goodput_between(all(), (from, from + half));
    let halves_bps = [of(from)?, of(from + half)?];
    let to_ns = from + 2 * half;
    let sent_again = |series: &Series| {
        let column = series.tcp.as_ref().map_or(&[][..], |tcp| &tcp.retransmits);
        let by = |at: u64| {
            let so_far = series.at_ns.iter().zip(column).take_while(|(point, _)| **point <= at);
            so_far.filter_map(|(_, count)| *count).last().unwrap_or(0)
        };
        by(to_ns).saturating_sub(by(from))
    };
    let retransmits = all().map(sent_again).sum();
    Some(LoadCourse { from_ns: from, to_ns, halves_bps, retransmits })
}
#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::time::Manual;
    use deadheat_contract::measurements::{Account, Distribution, Ledger};
    use deadheat_contract::workload::load;
    use deadheat_datapath::transport::Effective;
    use deadheat_result::line::figures::few_rounds;
    use deadheat_result::line::outcome;
    use deadheat_result::testing::record;
    use deadheat_trial::sim::fake::Fake;

    const KNOCKED: &[&str] = &["udp", "tcp", "kcp"];

    /// Runs surveys against `answer` on a virtual clock; each trial takes two seconds.
    fn surveyed(
        every: Option<(Nanos, Nanos)>,
        answer: impl FnMut(&Order) -> TrialOutcome,
    ) -> Result<LineOutcome> {
        surveyed_in(Nanos::from_secs(2), every, answer)
    }

    fn surveyed_in(
        trial: Nanos,
        every: Option<(Nanos, Nanos)>,
        mut answer: impl FnMut(&Order) -> TrialOutcome,
    ) -> Result<LineOutcome> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("line.json");
        let clock = Manual::default();
        let mut runner = Fake(|order: &Order| {
            clock.pass(trial);
            answer(order)
        });
        let works = LineWorks {
            small: "ping:count=60".into(),
            paced: "cbr:rate=1mbit,direction=both,time=1s".into(),
            paced_over: "udp".into(),
            load: "tcp".into(),
            knock: "ping:count=20".into(),
        };
        let task = LineTask {
            knock: KNOCKED,
            marked: &["udp:dscp=EF"],
            works: &works,
            survey: SURVEY,
            every,
            seed: 1,
            file: &file,
        };
        let mut context = LineContext {
            runner: &mut runner,
            clock: &clock,
            on_event: &mut |_| {},
            stop: Arc::default(),
        };
        let ran = run(&task, &mut context)?;
        assert_eq!(outcome::load(&file).unwrap(), ran, "the file has what was returned");
        assert!(outcome::is_line(&file));
        Ok(ran)
    }

    /// Returns a trial whose round trip is `ms`, and whose datagrams all arrived.
    fn answered(ms: u64) -> TrialOutcome {
        let rtt = ms as f64 * 1e6;
        let metrics = [("rtt_p50_ns".to_owned(), rtt), (load::GOODPUT.to_owned(), 20e6)];
        let mut ran = record(metrics.into_iter().collect());
        ran.rtt_ns = Some(Distribution { n: 20, ..Distribution::default() });
        let account = Account { sent: 100, delivered: 100, ..Account::default() };
        ran.ledger = Ledger { up: Some(account), ..Ledger::default() };
        TrialOutcome::Ran(Box::new(ran))
    }

    fn blocked() -> TrialOutcome {
        TrialOutcome::Blocked("no answer".into())
    }

    #[test]
    fn rounds_of_what_matters_run_until_the_next_would_not_fit() {
        let line = surveyed(None, |_| answered(20)).unwrap();
        let [survey] = &line.surveys[..] else { panic!("{} surveys", line.surveys.len()) };
        // Three transports and a DSCP take 8 s, a round of the four first kinds 8: five rounds fit into 55.
        assert_eq!((survey.rounds, survey.trials.len()), (5, 20));
        assert_eq!(survey.probe, "udp");
        for part in LinePart::ALL {
            let n = survey.trials.iter().filter(|trial| trial.part == part).count();
            assert_eq!(n, if survey.left_out.contains(&part) { 0 } else { 5 }, "{part:?}");
        }
        assert_eq!(survey.left_out, [LinePart::Down1, LinePart::Up1, LinePart::Both8]);
        let order = |round: usize| survey.trials[4 * round..][..4].iter().map(|trial| trial.part);
        assert!((1..5).any(|round| order(0).ne(order(round))), "the order is random");
        assert_eq!(survey.figure("rtt_idle_ns").unwrap().point, 20e6);
        assert_eq!(survey.figure("goodput_up_8_bps").unwrap().rounds, 5);
        assert!(few_rounds(survey).unwrap().starts_with("5 rounds;"));
        let one = Survey { rounds: 1, ..Survey::default() };
        assert!(few_rounds(&one).unwrap().starts_with("1 round;"));
    }

    #[test]
    fn a_minute_of_quick_trials_has_six_rounds_of_every_kind() {
        let line = surveyed_in(Nanos::from_millis(500), None, |_| answered(20)).unwrap();
        let survey = line.last().unwrap();
        assert_eq!((few_rounds(survey), &survey.left_out[..]), (None, &[][..]));
        for part in LinePart::ALL {
            let n = survey.trials.iter().filter(|trial| trial.part == part).count();
            assert!(n >= 6, "{part:?}: {n}");
        }
        assert!(survey.took_ns <= SURVEY.0, "{}", survey.took_ns);
    }

    /// On a path that takes 94 s for the trials of a round, as far as anyone knows beforehand, the survey is over in time.
    #[test]
    fn no_trial_begins_that_would_end_after_the_time() {
        for trial in [5, 9, 20].map(Nanos::from_secs) {
            let line = surveyed_in(trial, None, |_| answered(600)).unwrap();
            let survey = line.last().unwrap();
            // Two transports are tried in any case, and one trial.
            let most = (SURVEY.0 as f64 * (1.0 + LATE)) as u64;
            assert!(survey.took_ns <= most.max(3 * trial.0), "{trial}: {}", survey.took_ns);
            assert!(!survey.trials.is_empty() && !survey.left_out.is_empty());
            let untried = survey.reach.iter().filter_map(|one| one.why_not.as_deref());
            assert!(untried.clone().all(|why| why.contains("no time was left")), "{untried:?}");
        }
    }

    /// Large packets vanish on the way, and small ones do not: every load fails.
    #[test]
    fn a_black_hole_leaves_what_passes() {
        let line = surveyed(None, |order| {
            let has_load = order.pairing.load.is_some();
            if has_load { blocked() } else { answered(20) }
        });
        let survey = &line.unwrap().surveys[0];
        assert!(survey.rounds > 1 && survey.ended.is_none(), "{:?}", survey.ended);
        assert_eq!(survey.figure("rtt_idle_ns").unwrap().point, 20e6);
        assert!(survey.figure("loss_up_share").is_some());
        let failed: Vec<&LineTrial> =
            survey.trials.iter().filter(|trial| trial.why_invalid.is_some()).collect();
        assert!(failed.iter().all(|trial| trial.part.load().is_some()), "{failed:?}");
        for part in LinePart::ALL {
            let n = failed.iter().filter(|trial| trial.part == part).count();
            assert!(n <= 1, "{part:?} is not tried again");
        }
    }

    #[test]
    fn without_udp_small_messages_go_over_tcp_and_no_other_transport_over_udp_is_tried() {
        let mut asked = Vec::new();
        let line = surveyed(None, |order| {
            asked.push(order.contender());
            if order.contender() == "udp" { blocked() } else { answered(30) }
        });
        let line = line.unwrap();
        let survey = line.last().unwrap();
        assert_eq!(survey.probe, "tcp");
        assert!(!asked.contains(&"kcp".to_owned()), "{asked:?}");
        let why: Vec<_> = survey.reach.iter().map(|one| one.why_not.as_deref()).collect();
        assert!(why[0].unwrap().contains("no answer"), "{why:?}");
        assert_eq!(why[1], None);
        assert!(why[2].unwrap().starts_with("not tried: it is over UDP"), "{why:?}");
        assert!(survey.trials.iter().all(|trial| trial.part != LinePart::Paced));
        assert_eq!(survey.figure("rtt_up_8_ns").unwrap().point, 30e6);
    }

    /// Something on the way takes the mark off packets to the far host.
    #[test]
    fn a_mark_that_is_rewritten_one_way_is_part_of_the_survey() {
        let line = surveyed(None, |order| {
            let TrialOutcome::Ran(mut record) = answered(20) else { panic!("no record") };
            if order.contender() == "udp:dscp=EF" {
                let own = |arrived: &str| -> Effective {
                    let both = [("dscp", "EF"), ("arrived_dscp", arrived)];
                    both.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
                };
                (record.effective, record.far_effective) = (own("EF"), own("CS0"));
            }
            TrialOutcome::Ran(record)
        });
        let line = line.unwrap();
        let [mark] = &line.last().unwrap().marks[..] else { panic!("{:?}", line.last()) };
        let arrived = (mark.up.as_deref(), mark.down.as_deref());
        assert_eq!((mark.dscp.as_str(), arrived), ("EF", (Some("CS0"), Some("EF"))));
        assert!(!mark.is_kept());
        let reached = &line.last().unwrap().reach[0];
        assert_eq!((reached.sent, reached.answered), (Some(20), Some(20)));
    }

    #[test]
    fn marks_are_not_tried_where_no_datagram_gets_through() {
        let line = surveyed(None, |order| {
            if order.contender().starts_with("udp") { blocked() } else { answered(30) }
        });
        assert!(line.unwrap().last().unwrap().marks.is_empty());
    }

    #[test]
    fn a_line_on_which_nothing_gets_through_is_the_error_of_the_first() {
        let error = surveyed(None, |_| blocked()).unwrap_err().to_string();
        assert!(error.contains("no answer"), "{error}");
    }

    #[test]
    fn a_line_that_goes_down_leaves_its_rounds_and_the_reason() {
        let mut trials = 0;
        let line = surveyed(None, |_| {
            trials += 1;
            if trials > 4 + 7 + 2 { blocked() } else { answered(20) }
        });
        let line = line.unwrap();
        let survey = line.last().unwrap();
        assert_eq!((survey.rounds, survey.valid()), (2, 9));
        assert!(survey.ended.as_ref().unwrap().contains("no answer"));
        assert!(survey.figure("rtt_idle_ns").unwrap().rounds >= 2);
    }

    /// The link goes down in the second round, and the server is back for the third survey.
    #[test]
    fn a_far_end_that_is_away_costs_its_trials_and_not_the_surveys_after() {
        let hour = Nanos::from_secs(3_600);
        let mut trials = 0;
        let line = surveyed(Some((hour, Nanos(2 * hour.0))), |_| {
            trials += 1;
            let is_down = trials == 14;
            if is_down { TrialOutcome::Lost("no answer for 5 s".into()) } else { answered(20) }
        });
        let line = line.unwrap();
        let rounds: Vec<u64> = line.surveys.iter().map(|survey| survey.rounds).collect();
        assert_eq!(rounds, [2, 5]);
        let ended = line.surveys[0].ended.as_ref().unwrap();
        assert!(ended.contains("no answer for 5 s"), "{ended}");
        assert_eq!(line.last().unwrap().figure("rtt_idle_ns").unwrap().rounds, 5);
    }

    #[test]
    fn over_days_a_survey_without_an_answer_is_a_finding() {
        let hour = Nanos::from_secs(3_600);
        let mut trials = 0;
        let line = surveyed(Some((hour, Nanos(3 * hour.0))), |_| {
            trials += 1;
            // The second survey, after 4 + 20 trials: neither UDP nor TCP gets through, and no other is tried over UDP.
            if (24..26).contains(&(trials - 1)) { blocked() } else { answered(20) }
        });
        let line = line.unwrap();
        let rounds: Vec<u64> = line.surveys.iter().map(|survey| survey.rounds).collect();
        assert_eq!(rounds, [5, 0, 5]);
        assert!(line.surveys[1].ended.as_ref().unwrap().contains("no answer"));
        assert_eq!(line.every_ns, Some(hour.0));
    }
}
