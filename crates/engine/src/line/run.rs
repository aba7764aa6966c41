//! Surveys of a line: which transports get through, then rounds of trials until the time is over; again at later times
//! if asked.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use super::figures::{enough_rounds, figures};
use super::outcome::{FORMAT, LineFileKind, LineOutcome, LineTrial, Reached, Survey, TriedMark};
use super::part::{LinePart, LineWorks};
use crate::error::{Error, Result};
use crate::host::placement::{Load, Placement};
use crate::path::PathKind;
use crate::race::context::STEP;
use crate::result::outcome::Program;
use crate::result::{date, save};
use crate::rng::SplitMix64;
use crate::time::{Clock, Nanos, epoch_ms};
use crate::transport::header::{ARRIVED_DSCP, DSCP};
use crate::transport::{Contender, Effective};
use crate::trial::agent::intervals;
use crate::trial::explain::Pass;
use crate::trial::{Order, Pairing, Reconnection, Record, Runner, TrialOutcome};
use crate::workload::{Setting, SharedTask};

/// Time of one survey, unless another is asked for.
pub const SURVEY: Nanos = Nanos::from_secs(55);

/// Least time of a survey: a round takes about 10 s.
pub const SHORTEST: Nanos = Nanos::from_secs(15);

/// Largest number of rounds of a survey: more make intervals no narrower that a minute's drift does not widen.
const MOST_ROUNDS: u64 = 20;

/// Number of failed trials in a row that end a survey.
const MOST_FAILED: u32 = 3;

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
                Some(survey) if survey.rounds > 0 || is_finding(task, &error) => {
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

/// Returns true if a survey that failed before its first round is part of the outcome: over days, a line that is down is
/// a finding.
fn is_finding(task: &LineTask<'_>, error: &Error) -> bool {
    task.every.is_some() && !matches!(error, Error::Interrupted | Error::Usage(_))
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
        let end = began + self.task.survey;
        let round_trip = self.knock()?;
        self.mark()?;
        let mut longest = Nanos::ZERO;
        let mut failed = 0;
        for round in 0..MOST_ROUNDS {
            let start = self.context.clock.now();
            if round > 0 && start + longest > end {
                break;
            }
            let mut parts = LinePart::ALL;
            self.rng.shuffle(&mut parts);
            for part in parts {
                if self.context.is_stopped() {
                    return Err(Error::Interrupted);
                }
                let left = end - self.context.clock.now();
                (self.context.on_event)(&LineEvent::Trial { round: round + 1, part, left });
                match self.trial(round, part, round_trip)? {
                    None => failed = 0,
                    Some(error) => {
                        failed += 1;
                        if failed == MOST_FAILED {
                            return Err(error);
                        }
                    }
                }
            }
            let now = self.context.clock.now();
            longest = longest.max(now - start);
            let survey = self.current();
            survey.rounds = round + 1;
            survey.figures = figures(&survey.trials);
            survey.took_ns = (now - began).0;
            save::save(&*self.outcome, self.task.file)?;
            let left = end - now;
            let done = LineEvent::Round { outcome: self.outcome, round: round + 1, left };
            (self.context.on_event)(&done);
        }
        Ok(())
    }

    fn current(&mut self) -> &mut Survey {
        if self.outcome.surveys.is_empty() {
            self.outcome.surveys.push(Survey::default());
        }
        let last = self.outcome.surveys.len() - 1;
        &mut self.outcome.surveys[last]
    }

    /// Tries every transport, chooses the contender of small messages, and returns its round trip.
    fn knock(&mut self) -> Result<Nanos> {
        let mut first_error = None;
        let mut probe: Option<(usize, Nanos)> = None;
        let mut is_udp_blocked = false;
        for (at, typed) in self.task.knock.iter().enumerate() {
            if self.context.is_stopped() {
                return Err(Error::Interrupted);
            }
            let is_over_udp = Contender::parse(typed)?.transport.info().is_over_udp;
            if is_over_udp && is_udp_blocked {
                let why_not = Some("not tried: it is over UDP, which does not get through".into());
                let contender = (*typed).to_owned();
                self.current().reach.push(Reached { contender, why_not, ..Reached::default() });
                continue;
            }
            (self.context.on_event)(&LineEvent::Trying(typed));
            let ran = self.run(typed, &self.task.works.knock);
            let ran = match ran {
                // Nothing can be said of the transports while the far end is away.
                Err(error) if *self.is_lost => return Err(error),
                ran => ran,
            };
            let why_not = match &ran {
                Ok(record) => arrived(record).err(),
                Err(error) => Some(error.to_string()),
            };
            is_udp_blocked |= at == 0 && is_over_udp && why_not.is_some();
            if let (Ok(record), None) = (&ran, &why_not)
                && probe.is_none()
                && at < 2
            {
                let round_trip = record.metrics.get("rtt_p50_ns").copied().unwrap_or(0.0);
                self.current().path_mtu =
                    record.effective.get("path_mtu").and_then(|mtu| mtu.parse().ok());
                probe = Some((at, Nanos(round_trip as u64)));
            }
            let trips = ran.as_ref().ok().and_then(|record| record.rtt_ns.as_ref());
            self.current().reach.push(Reached {
                contender: (*typed).to_owned(),
                why_not,
                sent: trips.map(|trips| trips.n),
                answered: trips.map(|trips| trips.n.saturating_sub(trips.censored)),
            });
            if let Err(error) = ran {
                first_error.get_or_insert(error);
            }
        }
        match (probe, first_error) {
            (Some((at, round_trip)), _) => {
                let typed = self.task.knock.get(at).copied().unwrap_or_default();
                self.current().probe = typed.to_owned();
                Ok(round_trip)
            }
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::usage("no transport to survey the line with")),
        }
    }

    /// Tries each DSCP, if datagrams without one get through.
    fn mark(&mut self) -> Result<()> {
        if self.current().reach.first().is_none_or(|reached| reached.why_not.is_some()) {
            return Ok(());
        }
        for typed in self.task.marked {
            if self.context.is_stopped() {
                return Err(Error::Interrupted);
            }
            (self.context.on_event)(&LineEvent::Trying(typed));
            let ran = self.run(typed, &self.task.works.knock);
            let record = match ran {
                Ok(record) => record,
                Err(error) if *self.is_lost || matches!(error, Error::Interrupted) => {
                    return Err(error);
                }
                Err(error) => Record::without_figures(error.to_string()),
            };
            let contender = Contender::parse(typed)?;
            let asked = contender.knobs.text(DSCP.name()).unwrap_or_default();
            self.current().marks.push(tried_mark(asked, &record));
        }
        Ok(())
    }

    /// Runs a trial of a round. Returns the reason if it failed.
    ///
    /// # Errors
    /// [`Error::Interrupted`] on Ctrl-C.
    fn trial(&mut self, round: u64, part: LinePart, round_trip: Nanos) -> Result<Option<Error>> {
        let workload = part.work(self.task.works, round_trip);
        let typed = match part {
            LinePart::Paced => self.task.works.paced_over.clone(),
            _ => self.current().probe.clone(),
        };
        let is_through =
            |reached: &Reached| reached.contender == typed && reached.why_not.is_none();
        if !self.current().reach.iter().any(is_through) {
            return Ok(None);
        }
        let started_ms = epoch_ms(SystemTime::now());
        let ran = self.run(&typed, &workload);
        let (record, error) = match ran {
            Ok(record) => (record, None),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => (Record::without_figures(error.to_string()), Some(error)),
        };
        self.current().trials.push(LineTrial {
            round,
            part,
            workload,
            why_invalid: record.why_invalid,
            started_ms,
            took_ns: record.took_ns,
            metrics: record.metrics,
            censored: record.censored,
            ledger: record.ledger,
            clock: record.clock,
        });
        Ok(error)
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
            match self.context.runner.reconnect()? {
                Reconnection::Back => *self.is_lost = false,
                Reconnection::Away(why) => return Err(self.away(why)),
            }
        }
        match self.context.runner.run(&order) {
            TrialOutcome::Ran(record) => Ok(*record),
            TrialOutcome::Blocked(evidence) => Err(Error::blocked(evidence)),
            TrialOutcome::Limited(what) => Err(Error::limited(what)),
            TrialOutcome::Broke(what) => Err(Error::broken("trial", what)),
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

/// Returns the DSCP of a trial's packets as they left, and as they arrived at each end.
fn tried_mark(asked: &str, record: &Record) -> TriedMark {
    let of = |end: &Effective, name: &str| end.get(name).cloned();
    TriedMark {
        dscp: of(&record.effective, DSCP.name()).unwrap_or_else(|| asked.to_owned()),
        up: of(&record.far_effective, ARRIVED_DSCP),
        down: of(&record.effective, ARRIVED_DSCP),
        why_not: arrived(record).err(),
    }
}

/// Returns an error with the reason if no message came back.
fn arrived(record: &Record) -> std::result::Result<(), String> {
    let answered = record.rtt_ns.as_ref().is_some_and(|rtt| rtt.n > rtt.censored);
    match (answered, &record.why_invalid) {
        (true, _) => Ok(()),
        (false, Some(why)) => Err(why.clone()),
        (false, None) => Err("no message came back".to_owned()),
    }
}

/// Returns a note if the rounds of a survey are too few for intervals of full confidence.
pub fn few_rounds(survey: &Survey) -> Option<String> {
    (survey.rounds < enough_rounds()).then(|| {
        let (rounds, s) = (survey.rounds, if survey.rounds == 1 { "" } else { "s" });
        format!(
            "{rounds} round{s}; intervals of 95 % need {}: a longer --budget has more",
            enough_rounds()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::outcome;
    use crate::measurements::{Account, Distribution, Ledger};
    use crate::time::Manual;
    use crate::trial::sim::fake::{Fake, record};
    use crate::workload::load;

    const KNOCKED: &[&str] = &["udp", "tcp", "kcp"];

    /// Runs surveys against `answer` on a virtual clock; each trial takes two seconds.
    fn surveyed(
        every: Option<(Nanos, Nanos)>,
        mut answer: impl FnMut(&Order) -> TrialOutcome,
    ) -> Result<LineOutcome> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("line.json");
        let clock = Manual::default();
        let mut runner = Fake(|order: &Order| {
            clock.pass(Nanos::from_secs(2));
            answer(order)
        });
        let works = LineWorks {
            small: "ping:count=60,interval=10ms".into(),
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
    fn rounds_run_whole_until_the_next_would_not_fit() {
        let line = surveyed(None, |_| answered(20)).unwrap();
        let [survey] = &line.surveys[..] else { panic!("{} surveys", line.surveys.len()) };
        // Three transports and a DSCP take 8 s, a round 14: three rounds fit into 55.
        assert_eq!((survey.rounds, survey.trials.len()), (3, 21));
        assert_eq!(survey.probe, "udp");
        for part in LinePart::ALL {
            assert_eq!(survey.trials.iter().filter(|trial| trial.part == part).count(), 3);
        }
        let order = |round: usize| survey.trials[7 * round..][..7].iter().map(|trial| trial.part);
        assert!(order(0).ne(order(1)) || order(1).ne(order(2)), "the order is random");
        assert_eq!(survey.figure("rtt_idle_ns").unwrap().point, 20e6);
        assert_eq!(survey.figure("goodput_both_8_bps").unwrap().rounds, 3);
        assert!(few_rounds(survey).unwrap().starts_with("3 rounds;"));
        let one = Survey { rounds: 1, ..Survey::default() };
        assert!(few_rounds(&one).unwrap().starts_with("1 round;"));
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
        let line = surveyed(None, |order| match order.contender().starts_with("udp") {
            true => blocked(),
            false => answered(30),
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
        assert_eq!((survey.rounds, survey.trials.len(), survey.valid()), (1, 12, 9));
        assert!(survey.ended.as_ref().unwrap().contains("no answer"));
        assert_eq!(survey.figure("rtt_idle_ns").unwrap().rounds, 1);
    }

    /// The link goes down in the second round, and the server is back for the third survey.
    #[test]
    fn a_far_end_that_is_away_costs_its_trials_and_not_the_surveys_after() {
        let hour = Nanos::from_secs(3_600);
        let mut trials = 0;
        let line = surveyed(Some((hour, Nanos(2 * hour.0))), |_| {
            trials += 1;
            let is_down = (14..17).contains(&trials);
            if is_down { TrialOutcome::Lost("no answer for 5 s".into()) } else { answered(20) }
        });
        let line = line.unwrap();
        let rounds: Vec<u64> = line.surveys.iter().map(|survey| survey.rounds).collect();
        assert_eq!(rounds, [1, 3]);
        let ended = line.surveys[0].ended.as_ref().unwrap();
        assert!(ended.contains("no answer for 5 s"), "{ended}");
        assert_eq!(line.last().unwrap().figure("rtt_idle_ns").unwrap().rounds, 3);
    }

    #[test]
    fn over_days_a_survey_without_an_answer_is_a_finding() {
        let hour = Nanos::from_secs(3_600);
        let mut trials = 0;
        let line = surveyed(Some((hour, Nanos(3 * hour.0))), |_| {
            trials += 1;
            // The second survey: neither UDP nor TCP gets through, and no other is tried over UDP.
            if (25..27).contains(&(trials - 1)) { blocked() } else { answered(20) }
        });
        let line = line.unwrap();
        let rounds: Vec<u64> = line.surveys.iter().map(|survey| survey.rounds).collect();
        assert_eq!(rounds, [3, 0, 3]);
        assert!(line.surveys[1].ended.as_ref().unwrap().contains("no answer"));
        assert_eq!(line.every_ns, Some(hour.0));
    }
}
