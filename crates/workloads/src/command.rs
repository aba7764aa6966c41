//! Commands of others, and any figures that they print: each end runs its command once, and a trial is as long as the near
//! one takes.
//!
//! The figures and how they are read stand in the file of the commands. The race hands their names, units and better ends
//! in with `figures`, so that a result is read without that file. Every pair has the figure `time`: from the start of the
//! near command to its end; and `cpu`, the CPU time of both commands.

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Text};
use deadheat_base::spec::{Key, Kind, Settings, Spec, plain};
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::{Action, Guarantees, Lane, PeerFacts, Service};
use deadheat_contract::measurements::{Better, Role};
use deadheat_contract::workload::programs::{FIGURE, FIGURES, FiguresAsked, TIME_TAKEN};
use deadheat_contract::workload::setting::{filled, spoken};
use deadheat_contract::workload::theory::{Conditions, Prediction};
use deadheat_contract::workload::{
    Endpoint, EndpointReport, FlowEvent, Info, Measurements, Part, ProgramFigure, ProgramWork,
    Reports, Setting, Standing, Task, TaskInfo, Workload,
};

/// The workload.
pub(super) struct Command;

static INFO: Info = Info {
    id: "command",
    label: "command",
    summary: "your own programs (cmd:file=PATH): any figure that they print",
    keys: KEYS,
};

const KEYS: &[Key] = &[CLAIM.key(), ALL_FIGURES.key(), TIME.key(), BYTES.key()];

const CLAIM: Text =
    Text::form(FIGURE, Kind::Own { form: "NAME[+…]", check: |_| Ok(()), refers: plain })
        .doc("figures that claims are about; the first where it is not given");

const ALL_FIGURES: Text = Text::form(
    FIGURES,
    Kind::Own {
        form: "NAME:UNIT:higher|lower[+…]",
        check: |typed| all(typed).map(drop),
        refers: plain,
    },
)
.or(TIME_TAKEN)
.doc("figures of the contenders, which a race fills in");

const TIME: Optional<Nanos> =
    Optional::span("time", (1_000_000, 86_400 * 1_000_000_000)).doc("value of {seconds}");

const BYTES: Optional<Bytes> = Optional::size("bytes", (1, 1 << 50)).doc("value of {bytes}");

/// Longest time that a trial may take; a file sets a shorter one.
const LONGEST: Nanos = Nanos::from_secs(86_400);

impl Workload for Command {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn task(&self, spec: &Spec, _: &Setting) -> Result<Box<dyn Task>> {
        let settings = Settings::check(spec, KEYS)?;
        let mut figures = all(settings.text_of(&ALL_FIGURES).unwrap_or(TIME_TAKEN))?;
        let mut claims = 0;
        for claim in settings.text_of(&CLAIM).into_iter().flat_map(|typed| typed.split('+')) {
            let at = figures.iter().position(|figure| figure.name == claim).ok_or_else(|| {
                let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
                deadheat_base::error::unknown("figure", claim, &names)
            })?;
            if at < claims {
                return Err(Error::usage(format!("{FIGURE} names `{claim}` twice")));
            }
            figures[claims..=at].rotate_right(1);
            claims += 1;
        }
        let asked = FiguresAsked {
            time: settings.find(&TIME),
            bytes: settings.find(&BYTES).map(|bytes| bytes.0),
            figures,
        };
        Ok(Box::new(CommandTask { info: facts(&settings, asked, claims.max(1)) }))
    }
}

/// Reads a list of figures.
fn all(typed: &str) -> Result<Vec<ProgramFigure>> {
    let figures: Vec<ProgramFigure> =
        typed.split('+').map(ProgramFigure::parse).collect::<Result<_>>()?;
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, twice)) => Err(Error::usage(format!("two figures have the name `{twice}`"))),
        None => Ok(figures),
    }
}

/// Returns the facts of the work, whose first `claims` figures are claimed.
fn facts(settings: &Settings, asked: FiguresAsked, claims: usize) -> TaskInfo {
    let role = |at| if at < claims { Role::Claim } else { Role::Descriptive };
    let metrics = asked.figures.iter().enumerate().map(|(at, figure)| figure.metric(role(at)));
    let metrics: Vec<_> = metrics.collect();
    let claim = asked.figures.first();
    let better = claim.map_or("", |figure| match figure.better {
        Better::Higher => ", higher is better",
        Better::Lower => "",
    });
    let what: Vec<&str> = metrics.iter().take(claims).map(|metric| metric.label.as_str()).collect();
    let what = what.join(" and ");
    let length = asked.time.map(|time| format!(", {}", spoken(time))).unwrap_or_default();
    let amount = asked.bytes.map(|bytes| format!(", {}", Bytes(bytes))).unwrap_or_default();
    TaskInfo {
        headline: format!("commands, {what} of each run{length}{amount}{better}"),
        spec: filled(INFO.id, settings, [] as [(&str, String); 0]),
        flows: vec![None],
        largest_message: 64,
        longest: LONGEST,
        metrics,
        programs: ProgramWork::Figures(asked),
        ..TaskInfo::default()
    }
}

struct CommandTask {
    info: TaskInfo,
}

impl Task for CommandTask {
    fn info(&self) -> &TaskInfo {
        &self.info
    }

    fn lanes(&self, promised: &Guarantees) -> Vec<Service> {
        vec![promised.service]
    }

    fn misfit(&self, _: &Guarantees, peer: PeerFacts) -> Option<String> {
        self.info.programs.misfit(peer)
    }

    fn theory(&self, _: &Conditions<'_>) -> Vec<Prediction> {
        Vec::new()
    }

    fn half(&self, _: Part) -> Box<dyn Endpoint> {
        Box::new(NoEnd)
    }

    fn conclude(&self, reports: &Reports<'_>) -> Measurements {
        let figures = reports.near.first().map(|half| half.figures.clone()).unwrap_or_default();
        let lacking = self.info.metrics.iter().find(|metric| !figures.contains_key(&metric.name));
        Measurements {
            why_invalid: lacking.map(|metric| format!("no {} was reported", metric.label)),
            metrics: figures,
            ..Measurements::default()
        }
    }
}

/// End of work that no connection of ours carries: it only fails.
struct NoEnd;

impl Endpoint for NoEnd {
    fn poll(&mut self, _: Nanos, _: &mut [u8]) -> Action {
        Action::Fail
    }

    fn on_sent(&mut self, _: Nanos) {}

    fn on_message(&mut self, _: Nanos, _: Lane, _: &[u8]) {}

    fn on_event(&mut self, _: Nanos, _: FlowEvent) {}

    fn failure(&mut self) -> Option<Error> {
        Some(Error::usage("commands do this work, and no connection carries it"))
    }

    fn has_sent_all(&self) -> bool {
        true
    }

    fn standing(&mut self, _: Nanos) -> Standing {
        Standing::default()
    }

    fn report(&mut self, _: Nanos) -> EndpointReport {
        EndpointReport::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use deadheat_contract::contract::Guarantees;
    use deadheat_contract::workload::Clocks;

    use super::*;

    fn task(typed: &str) -> Box<dyn Task> {
        let spec = Spec::parse(typed).unwrap();
        Command.task(&spec, &Setting::LOOPBACK).unwrap()
    }

    fn refusal(typed: &str) -> String {
        let spec = Spec::parse(typed).unwrap();
        match Command.task(&spec, &Setting::LOOPBACK) {
            Ok(_) => panic!("{typed} must be refused"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_claim_is_about_the_first_figure_or_the_named_one() {
        let names = |typed: &str| -> Vec<(String, Role)> {
            let task = task(typed);
            let metrics = &task.info().metrics;
            metrics.iter().map(|metric| (metric.name.clone(), metric.role)).collect()
        };
        assert_eq!(names("command"), [("time_ns".to_owned(), Role::Claim)]);
        let both = "figures=rate:Mbit/s:higher+time:s:lower";
        assert_eq!(names(&format!("command:{both}"))[0], ("rate_bps".to_owned(), Role::Claim));
        let named = names(&format!("command:figure=time,{both}"));
        assert_eq!(named[0], ("time_ns".to_owned(), Role::Claim));
        assert_eq!(named[1], ("rate_bps".to_owned(), Role::Descriptive));
        let two =
            names("command:figure=time+cpu,figures=rate:Mbit/s:higher+time:s:lower+cpu:s:lower");
        let claims = [("time_ns", Role::Claim), ("cpu_ns", Role::Claim)];
        assert_eq!(two[..2], claims.map(|(name, role)| (name.to_owned(), role)));
        assert_eq!(two[2], ("rate_bps".to_owned(), Role::Descriptive));
        assert!(refusal(&format!("command:figure=time+time,{both}")).contains("`time` twice"));
        assert!(refusal(&format!("command:figure=tim,{both}")).contains("did you mean `time`?"));
        assert!(refusal("command:figures=a:s:lower+a:ms:lower").contains("two figures"));
    }

    #[test]
    fn what_is_written_down_gives_the_same_work() {
        for typed in
            ["command", "command:figure=time,figures=rate:Mbit/s:higher+time:s:lower,time=2s"]
        {
            let first = task(typed);
            let again = task(&first.info().spec.to_string());
            assert_eq!(again.info().metrics, first.info().metrics);
            assert_eq!(again.info().programs, first.info().programs);
            assert_eq!(again.info().spec, first.info().spec);
        }
    }

    #[test]
    fn only_commands_do_it() {
        let why = task("command").misfit(&Guarantees::BYTE_STREAM, PeerFacts::OURS).unwrap();
        assert!(why.contains("cmd:file=PATH"), "{why}");
        let command = PeerFacts { is_command: true, ..PeerFacts::OTHERS };
        assert_eq!(task("command").misfit(&Guarantees::BYTE_STREAM, command), None);
    }

    #[test]
    fn a_figure_that_is_missing_makes_a_trial_invalid() {
        let task = task("command:figures=rate:Mbit/s:higher");
        let half = |figures: &[(&str, f64)]| EndpointReport {
            figures: figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            ..EndpointReport::default()
        };
        let conclude = |near: &[EndpointReport]| {
            task.conclude(&Reports {
                near,
                far: &[],
                near_conns: &[],
                far_conns: &[],
                guarantees: &Guarantees::BYTE_STREAM,
                clocks: Clocks::Shared,
            })
        };
        let found = conclude(&[half(&[("rate_bps", 5.0)])]);
        assert_eq!(found.metrics, BTreeMap::from([("rate_bps".to_owned(), 5.0)]));
        assert_eq!(found.why_invalid, None);
        assert_eq!(conclude(&[half(&[])]).why_invalid.unwrap(), "no rate was reported");
    }
}
