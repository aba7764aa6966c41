//! A race over conditions: every contender under every combination of levels. One contender under one combination
//! is a cell. Each cell is an entrant of its own, runs once in every block, and is compared with the other
//! contenders under the same combination.
//!
//! Without factors there is one cell for each contender.

use std::fmt::Write as _;

use super::matrix::MatrixLoads;
use super::names::{ContenderName, names};
use super::race_path::RacePath;
use super::reach::{reaches, waits_for_turn};
use super::request::{CheckedRequest, Request};
use super::{blast, commands, files, roles};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::spec::{Key, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::{Bytes, range};
use deadheat_contract::contract::Reach;
use deadheat_contract::label::LabelledText;
use deadheat_contract::measurements::{Metric, Role};
use deadheat_contract::workload::{self, SharedTask, Task};
use deadheat_datapath::transport::equal::Terms;
use deadheat_datapath::transport::{Contender, equal, external, header, prefers, unserved};
use deadheat_host::placement::Load;
use deadheat_path::{gate, grammar};
use deadheat_records::placement::Placement;
use deadheat_result::analysis::sweep::is_load;
use deadheat_result::outcome::{Cell, Entrant, Factor};
use deadheat_trial::{Pairing, misfit, sim, suited};

/// Maximum number of cells; a race of more would take too long.
const MOST_CELLS: usize = 256;
const MOST_FACTORS: usize = 4;
const MOST_LEVELS: usize = 16;

/// Name of the factor that is no key of a workload or transport.
const PLACEMENT: &str = "placement";

/// Keys that every contender has beside its own.
const COMMON: [&[Key]; 3] = [equal::KEYS, prefers::KEYS, header::KEYS];

/// Name of a factor that users may try to vary but cannot.
const PATH: &str = "path";

/// Kind of change that a factor makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FactorChange {
    /// Placement of the ends.
    Placement,
    /// A key of the workload.
    Workload,
    /// A knob of the contenders that have it.
    Knob,
}

/// A cell as it will run.
struct RunnableCell {
    pairing: Pairing,
    /// Work with the length of its file.
    task: SharedTask,
    workload: String,
    placement: Option<Placement>,
    /// Reason why the contender cannot carry the work; absent if it can.
    misfit: Option<String>,
}

/// Turns the request into entrants.
///
/// # Errors
/// [`Error::Usage`] if a factor has no meaning here or is given twice, if a level suits no contender, or if a
/// contender cannot run at all.
pub(super) fn check(request: &Request, race_path: &RacePath) -> Result<CheckedRequest> {
    let (mut workload, factors) = factors(request)?;
    let given: Vec<LabelledText> = request
        .asked
        .contenders
        .iter()
        .map(|typed| LabelledText::parse(typed))
        .collect::<Result<_>>()?;
    let contenders: Vec<Contender> =
        given.iter().map(|own| Contender::parse(&own.typed)).collect::<Result<_>>()?;
    let names = names(&contenders, given.into_iter().map(|own| own.label).collect())?;
    commands::offer_figures(&mut workload, &contenders)?;
    let changes = factors
        .iter()
        .map(|factor| changes(factor, &workload, &contenders))
        .collect::<Result<Vec<FactorChange>>>()?;
    check_sizes(request, &factors)?;
    let least_rtt = race_path.network.as_ref().and_then(gate::least_rtt);
    FactorGrid { request, race_path, workload, factors, changes, contenders, names, least_rtt }
        .check()
}

/// Returns the factors: the requested ones, and every offered rate of the workload that is a range. Also returns
/// the workload without these ranges.
pub(super) fn factors(request: &Request) -> Result<(Spec, Vec<Factor>)> {
    let mut workload = Spec::parse(&request.asked.workload)?;
    let mut factors = request.asked.vary.clone();
    let keys = workload::keys(&workload.name)?;
    for (name, value) in std::mem::take(&mut workload.options) {
        if is_load(&keys, &name) && range::is_range(&value) {
            factors.push(Factor { levels: range::expand(&value)?, name });
        } else {
            workload.options.push((name, value));
        }
    }
    Ok((workload, factors))
}

/// Returns a workload without the keys that vary: it would be refused with them, and none of their values holds for
/// all cells. A workload that cannot be parsed is returned unchanged.
pub(super) fn without_varied(workload: &str, factors: &[Factor]) -> String {
    let Ok(mut spec) = Spec::parse(workload) else { return workload.to_owned() };
    spec.options.retain(|(key, _)| factors.iter().all(|factor| factor.name != *key));
    spec.to_string()
}

fn changes(factor: &Factor, workload: &Spec, contenders: &[Contender]) -> Result<FactorChange> {
    let name = factor.name.as_str();
    let keys = workload::keys(&workload.name)?;
    let knobs = |contender: &Contender| contender.transport.info().keys.iter().map(|k| k.name);
    let fixed = |spec: &Spec| spec.options.iter().any(|(key, _)| key == name);
    let mut specs = contenders.iter().map(|contender| &contender.spec).chain([workload]);
    if let Some(twice) = specs.find(|spec| fixed(spec)) {
        return Err(Error::usage(format!(
            "`{name}` is to vary and is fixed in `{twice}`; leave it out there"
        )));
    }
    if name == PLACEMENT {
        return Ok(FactorChange::Placement);
    }
    if keys.iter().any(|key| key.name == name) {
        return Ok(FactorChange::Workload);
    }
    let is_common = COMMON.iter().any(|keys| keys.iter().any(|key| key.name == name));
    if is_common || contenders.iter().any(|contender| knobs(contender).any(|knob| knob == name)) {
        return Ok(FactorChange::Knob);
    }
    let is_of_path = grammar::LINK.iter().any(|key| key.name == name);
    if is_of_path || name == PATH {
        let key = if is_of_path { name } else { "KEY" };
        return Err(Error::usage(format!(
            "a path is not varied within a race; `deadheat map --over {key}=LEVELS` races at each level, or run one race for each path, \
             and compare their results"
        )));
    }
    let mut valid: Vec<&str> = keys.iter().map(|key| key.name).chain([PLACEMENT]).collect();
    valid.extend(contenders.iter().flat_map(knobs));
    valid.sort_unstable();
    valid.dedup();
    Err(unknown("factor to vary", name, &valid))
}

fn check_sizes(request: &Request, factors: &[Factor]) -> Result<()> {
    let refuse = |message: String| Err(Error::usage(message));
    if factors.len() > MOST_FACTORS {
        return refuse(format!("{} factors vary; at most {MOST_FACTORS}", factors.len()));
    }
    for (at, factor) in factors.iter().enumerate() {
        let name = &factor.name;
        if factors[..at].iter().any(|other| other.name == *name) {
            return refuse(format!("`{name}` is varied twice; give all its levels in one place"));
        }
        match factor.levels.len() {
            0 | 1 => {
                return refuse(format!(
                    "`{name}` varies over one level; two or more, as in --vary '{name}=A|B'"
                ));
            }
            2..=MOST_LEVELS => {}
            n => return refuse(format!("`{name}` varies over {n} levels; at most {MOST_LEVELS}")),
        }
        let mut levels = factor.levels.clone();
        levels.sort_unstable();
        levels.dedup();
        if levels.len() < factor.levels.len() {
            return refuse(format!("`{name}` has a level twice: {}", factor.levels.join("|")));
        }
    }
    if request.asked.placement.is_some() && factors.iter().any(|factor| factor.name == PLACEMENT) {
        return refuse("the placement is both given and varied; give one of them".into());
    }
    let cells = factors.iter().map(|f| f.levels.len()).product::<usize>();
    match cells * request.asked.contenders.len() {
        n if n > MOST_CELLS && !factors.is_empty() => refuse(format!(
            "{} contenders under {cells} combinations are {n} cells; at most {MOST_CELLS}",
            request.asked.contenders.len()
        )),
        _ => Ok(()),
    }
}

/// A cell that may be able to run.
struct CandidateCell {
    row: usize,
    levels: Vec<usize>,
    runs: Result<RunnableCell>,
}

/// Checks that at least one of the selected cells can run; otherwise returns the error of the first.
fn runs_somewhere(
    cells: &mut Vec<CandidateCell>,
    belongs: impl Fn(&CandidateCell) -> bool,
) -> Result<()> {
    if cells.iter().any(|cell| belongs(cell) && cell.runs.is_ok()) {
        return Ok(());
    }
    match cells.iter().position(belongs) {
        Some(at) => cells.swap_remove(at).runs.map(drop),
        None => Ok(()),
    }
}

/// Refuses a race in which no contender can carry the work, with the reason for the first.
fn check_misfits(cells: &[CandidateCell]) -> Result<()> {
    let runs = || cells.iter().filter_map(|cell| cell.runs.as_ref().ok());
    match runs().next().and_then(|first| Some((first, first.misfit.as_ref()?))) {
        Some((first, why)) if runs().all(|runs| runs.misfit.is_some()) => {
            Err(cannot_carry(&first.pairing.contender, &first.workload, why))
        }
        _ => Ok(()),
    }
}

fn cannot_carry(contender: &Contender, workload: &str, why: &str) -> Error {
    Error::usage(format!("`{}` cannot carry `{workload}`: {why}", contender.spec))
}

/// Grid of contenders and factors, with the changes that the factors make.
struct FactorGrid<'a> {
    request: &'a Request,
    race_path: &'a RacePath,
    workload: Spec,
    factors: Vec<Factor>,
    changes: Vec<FactorChange>,
    contenders: Vec<Contender>,
    names: Vec<ContenderName>,
    /// Minimum round-trip time, if the path gives it.
    least_rtt: Option<Nanos>,
}

impl FactorGrid<'_> {
    fn check(self) -> Result<CheckedRequest> {
        let combinations = combinations(&self.factors);
        let mut cells: Vec<CandidateCell> = Vec::new();
        for levels in &combinations {
            for row in 0..self.contenders.len() {
                let runs = self.cell(row, levels);
                cells.push(CandidateCell { row, levels: levels.clone(), runs });
            }
        }
        self.check_levels(&mut cells)?;
        check_misfits(&cells)?;
        if let Some(network) = &self.race_path.network {
            let running = cells.iter().filter_map(|cell| cell.runs.as_ref().ok());
            roles::check(network, &running.map(|runs| &runs.pairing).collect::<Vec<_>>())?;
        }
        let mut running = cells.iter().filter_map(|cell| cell.runs.as_ref().ok());
        let first = running.next().ok_or_else(|| Error::usage("no contender to race"))?;
        let load = if first.task.info().is_paced { Load::Paced } else { Load::Bulk };
        let metrics = compared(&*first.task);
        if let Some(other) = running.find(|runs| compared(&*runs.task) != metrics) {
            return Err(Error::usage(format!(
                "`{}` and `{}` measure different things; race each on its own",
                first.workload, other.workload
            )));
        }
        let matrix = MatrixLoads::of(&self.factors, &self.contenders, &*first.task);
        let placement =
            self.request.asked.placement.as_deref().map(Placement::parse).transpose()?;
        let mut entrants = Vec::with_capacity(cells.len());
        let mut parsed = Vec::with_capacity(cells.len());
        let mut pairings = Vec::with_capacity(cells.len());
        for (id, CandidateCell { row, levels, runs }) in cells.into_iter().enumerate() {
            let infeasible = runs.as_ref().err().map(ToString::to_string);
            let (pairing, workload, placement, misfit) = match runs {
                Ok(runs) => (Some(runs.pairing), runs.workload, runs.placement, runs.misfit),
                Err(_) => (None, self.workload.to_string(), None, None),
            };
            let contender = pairing.as_ref().map_or(&self.contenders[row], |one| &one.contender);
            let contender = contender.clone();
            let name = self.names[row].under(&self.suffix(&levels));
            let level = levels.first().copied().unwrap_or(0);
            let rivals = matrix.as_ref().map(|loads| loads.rivals(row, level));
            let cell = Cell { contender: row, levels, workload, placement, infeasible, rivals };
            let cell = (!self.factors.is_empty()).then_some(cell);
            let entrant = entrant(id, name, &contender, cell);
            entrants.push(Entrant { not_applicable: misfit, ..entrant });
            parsed.push(contender);
            pairings.push(pairing);
        }
        let by_kernel = |contender: &Contender| contender.transport.info().peer.is_floor();
        let answered: Vec<bool> = parsed.iter().map(by_kernel).collect();
        mark_floors(&mut entrants, &answered, self.request.claims_at_far_end(&answered)?);
        let factors = self.factors;
        Ok(CheckedRequest {
            load,
            entrants,
            pairings,
            contenders: parsed,
            metrics,
            placement,
            factors,
            network: self.race_path.network.clone(),
        })
    }

    /// Returns one contender under one combination, or an error with the reason why it cannot run.
    fn cell(&self, row: usize, levels: &[usize]) -> Result<RunnableCell> {
        let (mut spec, mut workload) = (self.contenders[row].spec.clone(), self.workload.clone());
        let mut placement = None;
        for ((factor, changes), level) in self.factors.iter().zip(&self.changes).zip(levels) {
            let option = (factor.name.clone(), factor.levels[*level].clone());
            match changes {
                FactorChange::Placement => placement = Some(Placement::parse(&option.1)?),
                FactorChange::Workload => workload.options.push(option),
                FactorChange::Knob if self.changes(row, factor) => spec.options.push(option),
                // A contender without the knob runs the same under each level; that comparison was asked for.
                FactorChange::Knob => {}
            }
        }
        let workload = workload.to_string();
        let to = self.request.asked.to.as_ref().map(ToString::to_string);
        let whole = SharedTask::parse_on(&workload, &self.race_path.setting)?;
        let task = files::check(&whole, to.as_deref(), self.request.overwrite)?;
        if let Some(least) = self.least_rtt.filter(|least| *least >= task.info().timeout)
            && task.info().timeout > Nanos::ZERO
        {
            return Err(Error::usage(format!(
                "a round trip takes at least {least} on this path and counts as lost after {} in \
                 `{workload}`; raise timeout",
                task.info().timeout
            )));
        }
        let is_deployed = self.request.asked.as_deployed;
        let terms = if is_deployed { Terms::Deployed } else { Terms::Equal };
        let typed = equal::on(&spec.to_string(), terms, self.product())?;
        let contender = suited(Contender::parse(&typed)?, &*task)?;
        self.request.check_hosts(&*task, &contender, &self.contenders)?;
        let (contender, refused) = self.request.at_far_end(contender, &*task)?;
        let misfit = refused
            .or_else(|| misfit(&contender, &*task))
            .or_else(|| blast::refusal(self.request, &contender, &*task));
        if let (Some(why), false) = (&misfit, self.may_sit_out()) {
            return Err(cannot_carry(&contender, &workload, why));
        }
        self.check_reachable(&contender, &*task)?;
        let load = self.load(&*task)?.map(Box::new);
        let workload = whole.to_string();
        let pairing = Pairing { contender, task: whole, load };
        Ok(RunnableCell { pairing, task, workload, placement, misfit })
    }

    /// Returns the bandwidth-delay product of the path in its faster direction; `None` if rate or delay is not
    /// known.
    fn product(&self) -> Option<Bytes> {
        let setting = &self.race_path.setting;
        let ways = [setting.up.rate, setting.down.rate, setting.rate];
        let fastest = ways.into_iter().flatten().max()?;
        let bits = u128::from(fastest.0) * u128::from(setting.rtt?.0) / 1_000_000_000;
        Some(Bytes(u64::try_from(bits / 8).unwrap_or(u64::MAX)))
    }

    /// Returns true if a contender that cannot carry the work may be listed without running: there are other
    /// contenders, and no conditions vary.
    fn may_sit_out(&self) -> bool {
        self.factors.is_empty() && self.contenders.len() > 1
    }

    /// Returns the load that the work asks for, or an error if the load is not possible.
    fn load(&self, task: &dyn Task) -> Result<Option<Pairing>> {
        let load = Pairing::load_of(task)?;
        load.iter().try_for_each(|load| blast::check_load(self.request, load))?;
        load.iter().try_for_each(|load| self.check_reachable(&load.contender, &*load.task))?;
        Ok(load)
    }

    /// Checks that a contender can reach the far end: in virtual time, or on a real path.
    fn check_reachable(&self, contender: &Contender, task: &dyn Task) -> Result<()> {
        match &self.race_path.simulation {
            Some(simulation) => simulation.fits(contender, task)?,
            None => {
                let why =
                    sim::needs_simulation(contender).or_else(|| waits_for_turn(contender, task));
                why.map_or(Ok(()), |why| Err(Error::usage(why)))?
            }
        }
        let info = contender.transport.info();
        commands::check(self.request, contender)?;
        if self.request.asked.to.is_some() && contender.external.is_some() {
            return Err(Error::usage(external::unserved(&contender.spec.to_string())));
        }
        let far = self.request.asked.to.as_ref().map(|far| far.names());
        contender.via.check_to(&contender.spec, far)?;
        let is_command = contender.commands.is_some();
        if self.request.asked.to.is_some() && info.reach == Reach::Path && !is_command {
            return Err(Error::usage(unserved(info.id)));
        }
        reaches(contender, self.request.elsewhere().as_deref())
    }

    /// Checks that contenders and levels can run. Without factors every contender must run. With factors every
    /// contender and every level must run in at least one cell; a level that suits no contender is a mistake, not a
    /// condition.
    fn check_levels(&self, cells: &mut Vec<CandidateCell>) -> Result<()> {
        for row in 0..self.contenders.len() {
            runs_somewhere(cells, |cell| cell.row == row)?;
        }
        for (at, factor) in self.factors.iter().enumerate() {
            for level in 0..factor.levels.len() {
                runs_somewhere(cells, |cell| {
                    cell.levels[at] == level && self.changes(cell.row, factor)
                })?;
            }
        }
        Ok(())
    }

    /// Returns true if `factor` changes the contender at `row`: a knob changes only the contenders that have it.
    fn changes(&self, row: usize, factor: &Factor) -> bool {
        let at = self.factors.iter().position(|other| other.name == factor.name);
        let is_knob = at.is_some_and(|at| self.changes[at] == FactorChange::Knob);
        let own = self.contenders[row].transport.info().keys;
        !is_knob
            || own.iter().chain(COMMON.into_iter().flatten()).any(|key| key.name == factor.name)
    }

    /// Returns ` · placement=busy, call=4kB`, or nothing.
    fn suffix(&self, levels: &[usize]) -> String {
        let mut text = String::new();
        for (at, (factor, level)) in self.factors.iter().zip(levels).enumerate() {
            let separator = if at == 0 { " · " } else { ", " };
            let _ = write!(text, "{separator}{}={}", factor.name, factor.levels[*level]);
        }
        text
    }
}

/// Returns every combination of levels, the last factor varying fastest; one empty combination without factors.
fn combinations(factors: &[Factor]) -> Vec<Vec<usize>> {
    factors.iter().fold(vec![Vec::new()], |so_far, factor| {
        let with = |before: &Vec<usize>, level| [before.as_slice(), &[level]].concat();
        so_far
            .iter()
            .flat_map(|before| (0..factor.levels.len()).map(move |level| with(before, level)))
            .collect()
    })
}

/// Returns the metrics in the order of results: claims first.
fn compared(task: &dyn Task) -> Vec<Metric> {
    let mut metrics = task.info().metrics.clone();
    metrics.sort_by_key(|metric| metric.role != Role::Claim);
    metrics
}

fn entrant(id: usize, name: ContenderName, contender: &Contender, cell: Option<Cell>) -> Entrant {
    Entrant { unlabelled: name.unlabelled, cell, ..Entrant::of(id, name.label, &contender.into()) }
}

/// Marks the reference rows: contenders that the far kernel answers, if a program answers others.
fn mark_floors(entrants: &mut [Entrant], answered: &[bool], claims_all: bool) {
    if claims_all || answered.iter().all(|by_kernel| *by_kernel) {
        return;
    }
    for (entrant, by_kernel) in entrants.iter_mut().zip(answered) {
        entrant.floor = *by_kernel;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(request: &Request) -> Vec<String> {
        let checked = request.check().unwrap();
        let show = |entrant: &Entrant| {
            let why = entrant.infeasible().map(|why| format!(" ({why})"));
            format!("{}{}", entrant.label, why.unwrap_or_default())
        };
        checked.entrants.iter().map(show).collect()
    }

    fn refusal(request: &Request) -> String {
        let error = request.check().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn without_factors_a_contender_is_an_entrant() {
        assert_eq!(cells(&Request::new(["udp", "tcp", "udp"])), ["udp", "tcp", "udp #2"]);
        let checked = Request::new(["udp"]).check().unwrap();
        assert_eq!(checked.entrants[0].cell, None);
    }

    #[test]
    fn a_label_names_a_contender_and_changes_nothing_else() {
        let request = Request::new(["tcp:cc=cubic,label=old", "tcp:label=new,cc=cubic", "tcp"]);
        assert_eq!(cells(&request), ["old", "new", "tcp"]);
        let checked = request.check().unwrap();
        let plain = Request::new(["tcp:cc=cubic", "tcp:cc=cubic", "tcp"]).check().unwrap();
        for (own, plain) in checked.entrants.iter().zip(&plain.entrants) {
            assert_eq!((&own.spec, &own.asked), (&plain.spec, &plain.asked));
            assert_eq!(own.identity(), plain.label);
            assert_eq!(plain.unlabelled, None);
        }
        assert_eq!(request.asked().contenders[0], "tcp:cc=cubic,label=old");
        let varied = Request::new(["tcp:label=a", "udp"]).vary("size", ["64", "128"]);
        assert_eq!(cells(&varied)[0], "a · size=64");
        let said = refusal(&Request::new(["tcp:label=a", "udp:label=a"]));
        assert!(said.contains("`tcp` and `udp` have the same label, `a`"), "{said}");
        let said = refusal(&Request::new(["tcp:label=udp", "udp"]));
        assert!(said.contains("same label, `udp`"), "{said}");
    }

    #[test]
    fn every_contender_meets_every_combination() {
        let request = Request::new(["tcp", "udp"])
            .vary("placement", ["same-core", "busy"])
            .vary("size", ["64", "1kB"]);
        let found = cells(&request);
        assert_eq!(found.len(), 8);
        assert_eq!(found[0], "tcp · placement=same-core, size=64");
        assert_eq!(found[7], "udp · placement=busy, size=1kB");
        let checked = request.check().unwrap();
        let last = checked.entrants[7].cell.as_ref().unwrap();
        assert_eq!((last.contender, last.levels.as_slice()), (1, &[1, 1][..]));
        assert_eq!(last.placement, Some(Placement::Busy));
        assert!(last.workload.starts_with("ping:") && last.workload.contains("size=1kB"));
    }

    #[test]
    fn a_knob_changes_who_has_it_and_leaves_the_others_as_they_are() {
        let request = Request::new(["tcp", "udp"]).vary("cc", ["cubic", "reno"]);
        let checked = request.check().unwrap();
        let specs: Vec<&str> = checked.entrants.iter().map(|e| e.spec.as_str()).collect();
        assert_eq!(specs, ["tcp:cc=cubic", "udp", "tcp:cc=reno", "udp"]);
    }

    #[test]
    fn what_cannot_run_is_named_and_the_rest_runs() {
        let request =
            Request::new(["tcp", "icmp"]).workload("ping").vary("size", ["64", "65507", "12"]);
        assert!(cells(&request).iter().all(|cell| !cell.contains('(')), "{:?}", cells(&request));
        let request = Request::new(["tcp", "unixgram"]).workload("bulk");
        let request = request.vary("size", ["1400", "65507"]);
        let infeasible = |e: &Entrant| e.infeasible().is_some();
        let none = request.check().unwrap().entrants.iter().filter(|e| infeasible(e)).count();
        assert_eq!(none, 0);
    }

    #[test]
    fn a_range_of_rates_is_a_factor() {
        let request = Request::new(["udp"]).workload("cbr:rate=1mbit..100mbit/3,size=200");
        let found = cells(&request);
        assert_eq!(found, ["udp · rate=1mbit", "udp · rate=10mbit", "udp · rate=100mbit"]);
        let checked = request.check().unwrap();
        let last = checked.entrants[2].cell.as_ref().unwrap();
        assert!(last.workload.contains("rate=100mbit,size=200,time=300ms"), "{}", last.workload);
        assert_eq!(request.asked().workload, "cbr:rate=1mbit..100mbit/3,size=200");
        let odd = Request::new(["udp"]).workload("cbr:rate=1mbit..100mbit");
        assert!(refusal(&odd).contains("LOW..HIGH/STEPS"));
    }

    #[test]
    fn work_that_offers_too_much_at_one_of_its_rates_is_told_beforehand() {
        let note = |workload: &str| {
            let request = Request::new(["udp"]).workload(workload).path("delay=5ms,rate=20mbit");
            request.beforehand(&request.check().unwrap())
        };
        assert_eq!(note("cbr:rate=1mbit..10mbit/2,size=200"), None);
        let varied = note("cbr:rate=1mbit..100mbit/3,size=200").unwrap();
        assert_eq!(Some(varied), note("cbr:rate=100mbit,size=200"));
    }

    #[test]
    fn factors_that_mean_nothing_are_refused_by_name() {
        let ask = || Request::new(["tcp", "udp"]);
        let say = |request: Request| refusal(&request);
        assert!(say(ask().vary("placment", ["busy", "host"])).contains("`placement`"));
        assert!(say(ask().vary("placement", ["busy"])).contains("one level"));
        assert!(say(ask().vary("placement", ["busy", "busy"])).contains("a level twice"));
        assert!(say(ask().vary("placement", ["busy", "hots"])).contains("host"));
        assert!(say(ask().vary("size", ["64", "moon"])).contains("moon"));
        assert!(say(ask().vary("cc", ["cubic", "a/b"])).contains("a/b"));
        let twice = ask().workload("ping:size=64").vary("size", ["64", "128"]);
        assert!(say(twice).contains("leave it out"));
        let both = ask().placement("busy").vary("placement", ["busy", "host"]);
        assert!(say(both).contains("both given and varied"));
        let many: Vec<String> = (64..81).map(|size| size.to_string()).collect();
        assert!(say(ask().vary("size", many)).contains("at most 16"));
    }
}
