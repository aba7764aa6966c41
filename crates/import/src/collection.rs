//! Builds a result from the files read: contenders, trials, verdicts, and their basis.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use super::foreign_file::FileDigests;
use super::pairs::{self, RunList, RunPlace};
use super::plain::MOST_TRIALS;
use super::{Arm, FileContent, Import, ImportedTrial, notes};
use deadheat_base::error::{Error, Result};
use deadheat_contract::measurements::{Metric, Role};
use deadheat_path::PathKind;
use deadheat_records::samples::{self, Place};
use deadheat_records::trial::PathFacts;
use deadheat_result::analysis::spread::figures;
use deadheat_result::analysis::{independent, verdicts};
use deadheat_result::causes;
use deadheat_result::date;
use deadheat_result::imported::{
    DateSource, ImportOrigin, ImportPairing, ImportedFile, KIND, Spread, SpreadOver,
};
use deadheat_result::outcome::{
    DEFAULT_MARGIN, Entrant, Outcome, RecordedPlan, RecordedRequest, Status, Trial, Verdict,
    Warning,
};
use deadheat_stats::{self as stats, quantile};

/// Colours of contenders, in turn, from Okabe & Ito (2008), distinguishable with colour blindness.
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6d31", "#666666"];

/// Returns a contender that deadheat did not run.
pub(super) fn entrant(id: usize, label: String, spec: String, implementation: String) -> Entrant {
    Entrant {
        transport: KIND.to_owned(),
        colour: COLOURS[id % COLOURS.len()].to_owned(),
        implementation,
        ..Entrant::new(id, label, spec)
    }
}

/// A file that was read.
pub(super) struct SourceFile {
    pub name: String,
    pub stem: String,
    /// Label given with `--label`.
    pub label: Option<String>,
    /// Folder or archive whose files are trials of one contender.
    pub group: Option<String>,
    pub format: &'static str,
    pub digests: FileDigests,
    pub reading: FileContent,
}

/// File of a folder or an archive that is no measurement.
pub(super) struct LeftOut {
    name: String,
    why: String,
}

impl LeftOut {
    /// Creates the entry of a file that cannot be read for this reason.
    pub(super) fn unreadable(name: &str, error: &Error) -> LeftOut {
        let why = match error {
            Error::Data { what, .. } => what.clone(),
            other => other.to_string(),
        };
        LeftOut { name: name.to_owned(), why }
    }
}

/// Returns the result of the files read.
///
/// # Errors
/// [`Error::Data`] if there are too many trials; [`Error::Setup`] if samples cannot be written.
pub(super) fn outcome(
    read: Vec<SourceFile>,
    left_out: Vec<LeftOut>,
    import: &Import,
    samples: Option<&Path>,
) -> Result<Outcome> {
    if let Some(samples) = samples {
        remove_stale(samples)?;
    }
    let began = read.iter().filter_map(|read| read.reading.began).min();
    let mut gathered = ImportCollection::default();
    for read in read {
        gathered.file(read, samples)?;
    }
    let pairing = if import.is_paired { Some(gathered.pair()?) } else { None };
    if let Some(pairing) = &pairing {
        let names: Vec<String> = left_out.iter().map(|own| own.name.clone()).collect();
        pairs::check_gaps(pairing, &names)?;
    }
    let mut outcome = gathered.outcome(import, began.unwrap_or_else(SystemTime::now));
    if pairing.is_some() {
        verdicts::refresh_imported(&mut outcome);
    } else {
        verdicts::summarise(&mut outcome);
        outcome.verdicts = independent::verdicts(&outcome);
    }
    outcome.plan.claims = outcome.verdicts.len() as u64;
    causes::race::refresh(&mut outcome);
    settle(&mut outcome);
    outcome.warnings = warnings(&left_out);
    let spreads = spreads(&outcome, &gathered.samples);
    let dated = if began.is_some() { DateSource::ByFiles } else { DateSource::ByImport };
    let labels: Vec<&str> = outcome.contenders.iter().map(|own| own.label.as_str()).collect();
    let basis = match &pairing {
        Some(pairing) => pairs::basis(pairing, &labels),
        None => notes::basis(&outcome),
    };
    let lacks = notes::lacks(&outcome, &gathered.files, pairing.as_ref());
    let files = gathered.files;
    outcome.imported = Some(ImportOrigin { dated, files, spreads, pairing, basis, lacks });
    Ok(outcome)
}

/// Marks a result as decided if it has verdicts, none of which is open.
pub(super) fn settle(outcome: &mut Outcome) {
    let is_open = |own: &Verdict| own.outcome == stats::Outcome::Undecided;
    if !outcome.verdicts.is_empty() && !outcome.verdicts.iter().any(is_open) {
        outcome.status = Status::Decided;
    }
}

/// Returns the path of an import, of which nothing is known.
pub(super) fn path() -> PathFacts {
    PathFacts {
        spec: KIND.to_owned(),
        kind: PathKind::Imported,
        address: String::new(),
        built: None,
        reached: None,
        far_end: None,
    }
}

fn remove_stale(samples: &Path) -> Result<()> {
    match std::fs::remove_file(samples) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::setup(format!("replace {}", samples.display()), e))
        }
        _ => Ok(()),
    }
}

/// Contenders and samples collected so far.
#[derive(Default)]
struct ImportCollection {
    files: Vec<ImportedFile>,
    metrics: Vec<Metric>,
    contenders: Vec<Entrant>,
    trials: Vec<Trial>,
    /// Place of each trial in the files.
    places: Vec<RunPlace>,
    /// Labels of the contenders made of a folder or an archive.
    groups: BTreeMap<String, String>,
    /// Five numbers over the samples of each trial.
    samples: Vec<Spread>,
}

impl ImportCollection {
    fn file(&mut self, read: SourceFile, samples: Option<&Path>) -> Result<()> {
        let SourceFile { name, stem, label, group, format, digests, mut reading } = read;
        let group = group.map(|group| match self.groups.get(&group) {
            Some(label) => label.clone(),
            None => {
                let label = self.unique(&group);
                self.groups.insert(group, label.clone());
                label
            }
        });
        let shared = label.or(group);
        let doubts = notes::doubts(&mut reading);
        let several = reading.arms.len() > 1;
        let mut contenders = Vec::new();
        let (mut trials, mut trials_before) = (0, 0);
        for arm in reading.arms {
            let own = match (&shared, several) {
                (Some(label), true) => format!("{label}: {}", arm.name),
                (Some(label), false) => label.clone(),
                (None, _) if arm.name.is_empty() => self.unique(&stem),
                (None, _) if is_named_by_rows(&arm) => arm.name.clone(),
                (None, _) => self.unique(&arm.name),
            };
            let id = self.contender(own, &name, &arm);
            self.metrics(&arm.metrics);
            contenders.push(id);
            trials += arm.trials.len() as u64;
            for mut taken in arm.trials {
                let (row, block) = taken.row.take().unwrap_or((trials_before, None));
                trials_before += 1;
                self.places.push(RunPlace {
                    file: self.files.len(),
                    name: name.clone(),
                    row,
                    block,
                });
                self.trial(id, taken, samples)?;
            }
        }
        if self.trials.len() > MOST_TRIALS {
            return Err(Error::data(
                name,
                format!("more than {MOST_TRIALS} trials in all; import fewer files at a time"),
            ));
        }
        self.files.push(ImportedFile {
            name,
            sha256: digests.stored,
            format: format.to_owned(),
            program: Some(reading.program).filter(|program| !program.is_empty()),
            unit: reading.unit,
            trial: reading.trial,
            contenders,
            trials,
            unknown: reading.unknown,
            doubts,
        });
        Ok(())
    }

    /// Returns a name that no contender has; only names from the user may be shared.
    fn unique(&self, name: &str) -> String {
        let taken = |label: &str| self.contenders.iter().any(|entrant| entrant.label == label);
        let mut numbered = (2..).map(|number| format!("{name} #{number}"));
        if taken(name) {
            return numbered.find(|label| !taken(label)).unwrap_or_default();
        }
        name.to_owned()
    }

    fn contender(&mut self, label: String, file: &str, arm: &Arm) -> usize {
        if let Some(there) = self.contenders.iter().find(|entrant| entrant.label == label) {
            return there.id;
        }
        let id = self.contenders.len();
        let implementation = arm.implementation.clone();
        self.contenders.push(entrant(id, label, file.to_owned(), implementation));
        id
    }

    /// Removes the claims that no trial has a figure of, such as a percentile of few samples, if there is another claim.
    fn drop_empty_claims(&mut self) {
        let has = |metric: &Metric| {
            self.trials.iter().any(|trial| trial.record.metrics.contains_key(&metric.name))
        };
        if self.metrics.iter().any(|metric| metric.role == Role::Claim && has(metric)) {
            self.metrics.retain(|metric| metric.role != Role::Claim || has(metric));
        }
    }

    /// Adds metrics, claims first, otherwise in file order.
    fn metrics(&mut self, metrics: &[Metric]) {
        for metric in metrics {
            if !self.metrics.iter().any(|known| known.name == metric.name) {
                self.metrics.push(metric.clone());
            }
        }
        self.metrics.sort_by_key(|metric| metric.role != Role::Claim);
    }

    fn trial(
        &mut self,
        contender: usize,
        taken: ImportedTrial,
        samples: Option<&Path>,
    ) -> Result<()> {
        let own = self.trials.iter().rev().find(|trial| trial.contender == contender);
        let block = own.map_or(0, |last| last.block + 1);
        if let (Some(part), Some(samples)) = (&taken.samples_file, samples) {
            // No import has that many contenders.
            let index = contender as u32;
            let place = Place { block, order: index, contender: index, control: false };
            samples::append(samples, part, place)?;
        }
        self.samples.extend(taken.spreads.into_iter().map(|five| Spread { contender, ..five }));
        self.trials.push(Trial {
            block,
            order: contender as u64,
            contender,
            control: false,
            record: taken.record,
        });
        Ok(())
    }

    /// Numbers the blocks of all trials.
    fn pair(&mut self) -> Result<ImportPairing> {
        let labels: Vec<String> = self.contenders.iter().map(|own| own.label.clone()).collect();
        RunList { trials: &mut self.trials, places: &self.places, labels: &labels }.pair()
    }

    fn outcome(&mut self, import: &Import, began: SystemTime) -> Outcome {
        self.drop_empty_claims();
        let margin = import.margin.unwrap_or(DEFAULT_MARGIN);
        let margin_reason = match import.margin {
            Some(_) => "asked for",
            None => "what hardly anybody would change transports for",
        };
        let most = self.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
        let asked = RecordedRequest {
            contenders: self.contenders.iter().map(|entrant| entrant.label.clone()).collect(),
            workload: KIND.to_owned(),
            path: KIND.to_owned(),
            margin: Some(margin),
            confidence: import.confidence,
            ..RecordedRequest::default()
        };
        let plan = RecordedPlan {
            margin,
            margin_reason: margin_reason.to_owned(),
            blocks_max: most,
            quantile_definition: quantile::DEFINITION.to_owned(),
            ..RecordedPlan::default()
        };
        Outcome {
            title: import.title.clone(),
            started: date::rfc3339(began),
            metrics: std::mem::take(&mut self.metrics),
            contenders: std::mem::take(&mut self.contenders),
            trials: std::mem::take(&mut self.trials),
            status: Status::Budget,
            ..Outcome::new(asked, plan, path())
        }
    }
}

/// Returns true if a column of a table names the arm: the rows of several files with one name are one contender's.
fn is_named_by_rows(arm: &Arm) -> bool {
    arm.trials.iter().any(|trial| trial.row.is_some())
}

/// Returns five-number summaries: over the trials of contenders with several, over the samples of the others.
fn spreads(outcome: &Outcome, samples: &[Spread]) -> Vec<Spread> {
    let mut spreads = Vec::new();
    for entrant in &outcome.contenders {
        if notes::valid_trials(outcome, entrant.id) > 1 {
            let claims = outcome.metrics.iter().filter(|metric| metric.role == Role::Claim);
            spreads.extend(claims.filter_map(|metric| over_trials(outcome, entrant.id, metric)));
        } else {
            spreads.extend(samples.iter().filter(|own| own.contender == entrant.id).cloned());
        }
    }
    spreads
}

fn over_trials(outcome: &Outcome, contender: usize, metric: &Metric) -> Option<Spread> {
    let mut values = figures(outcome, contender, &metric.name);
    values.sort_unstable_by(f64::total_cmp);
    Some(Spread {
        contender,
        what: metric.label.clone(),
        unit: metric.unit,
        over: SpreadOver::Trials,
        n: values.len() as u64,
        lost: 0,
        min: *values.first()?,
        q1: quantile::quantile_sorted(&values, 0.25),
        median: quantile::quantile_sorted(&values, 0.5),
        q3: quantile::quantile_sorted(&values, 0.75),
        max: *values.last()?,
    })
}

/// Maximum number of files left out that are named.
const MOST_NAMED: usize = 5;

fn warnings(left_out: &[LeftOut]) -> Vec<Warning> {
    if left_out.is_empty() {
        return Vec::new();
    }
    let named = left_out.iter().take(MOST_NAMED).map(|own| format!("{} ({})", own.name, own.why));
    let named: Vec<String> = named.collect();
    let rest = match left_out.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    vec![Warning::new(
        "files_left_out",
        format!(
            "Left out, as they are no measurements that can be read: {}{rest}.",
            named.join("; ")
        ),
        "If one is a measurement, give it by its name, which says what does not fit.",
    )]
}
