//! Commands as contenders of a race: their figures as settings of the work, their files, and what their start costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::block::TrialSettings;
use super::context::RaceContext;
use super::request::Request;
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Spec;
use deadheat_contract::contract::Side;
use deadheat_contract::label::LabelledText;
use deadheat_contract::workload::programs::FIGURES;
use deadheat_contract::workload::setting::set;
use deadheat_contract::workload::{self, ProgramWork, SharedTask};
use deadheat_datapath::transport::commands::CommandPair;
use deadheat_datapath::transport::{Contender, commands};
use deadheat_path::PathKind;
use deadheat_records::commands::ProgramFile;
use deadheat_result::dropped::DropReason;
use deadheat_result::outcome::{Entrant, EntrantCommands};
use deadheat_result::schedule;
use deadheat_trial::TrialOutcome;
use deadheat_trial::between::commands::{ProgramCopies, builds};

/// Number of transfers of one byte by each contender that tell what a start costs.
const STARTS: u64 = 5;

/// Returns the names of contenders for people: as typed, or that of a file of commands, with the variables in which it differs
/// from another contender of that name. Of whole paths it has the part in which they differ.
pub(super) fn names(contenders: &[Contender]) -> Vec<String> {
    let pair =
        |one: &'_ Contender| one.commands.as_ref().map(|commands| Arc::clone(&commands.pair));
    let pairs: Vec<_> = contenders.iter().map(pair).collect();
    let name = |(contender, own): (&Contender, &Option<Arc<CommandPair>>)| match own {
        None => contender.spec.to_string(),
        Some(own) => {
            let mut others = pairs.iter().flatten().filter(|other| other.name == own.name);
            let all: Vec<_> = others.by_ref().collect();
            let differs = |(name, value): &(&String, &String)| {
                all.iter().any(|other| other.variables.get(*name) != Some(value))
            };
            let told = own.variables.iter().filter(differs);
            told.fold(own.name.clone(), |text, (name, value)| {
                let others = all.iter().filter_map(|other| other.variables.get(name));
                let others: Vec<&str> = others.map(String::as_str).collect();
                format!("{text} {name}={}", differing_part(value, &others))
            })
        }
    };
    contenders.iter().zip(&pairs).map(name).collect()
}

/// Returns a whole path without the folders at its beginning that all these have; any other text as it is.
fn differing_part<'a>(value: &'a str, all: &[&str]) -> &'a str {
    if !all.iter().chain([&value]).all(|text| text.starts_with('/')) {
        return value;
    }
    let folders = value.match_indices('/').map(|(at, _)| at + 1);
    let mut shared = folders.filter(|at| all.iter().all(|other| other.starts_with(&value[..*at])));
    let rest = shared.next_back().map_or(value, |at| &value[at..]);
    if rest.is_empty() { value } else { rest }
}

/// Gives the work the figures that all commands have, unless they are typed, or the work takes none.
///
/// # Errors
/// [`Error::Usage`] if there is no such work.
pub(super) fn offer_figures(work: &mut Spec, contenders: &[Contender]) -> Result<()> {
    let takes = workload::keys(&work.name)?.iter().any(|key| key.name == FIGURES);
    let mut pairs = contenders.iter().filter_map(|one| Some(&one.commands.as_ref()?.pair));
    let (Some(first), true, false) = (pairs.next(), takes, is_given(work)) else { return Ok(()) };
    let others: Vec<_> = pairs.collect();
    let common = first.figures.iter().map(|own| &own.figure);
    let common = common.filter(|figure| others.iter().all(|other| other.figure(figure).is_some()));
    let common: Vec<String> = common.map(ToString::to_string).collect();
    set(work, FIGURES, common.join("+"));
    Ok(())
}

/// Returns the settings of the work with the figures of its commands, as results record it.
///
/// # Errors
/// As of [`Contender::parse`].
pub(super) fn with_figures(typed: &str, contenders: &[String]) -> Result<String> {
    let mut work = Spec::parse(typed)?;
    let pairs = contenders.iter().filter(|typed| commands::is_one(typed));
    let pairs: Vec<Contender> = pairs
        .map(|typed| Contender::parse(&LabelledText::without(typed)))
        .collect::<Result<_>>()?;
    offer_figures(&mut work, &pairs)?;
    Ok(work.to_string())
}

fn is_given(work: &Spec) -> bool {
    work.options.iter().any(|(key, _)| key == FIGURES)
}

/// Refuses a race that is not possible with commands.
///
/// # Errors
/// [`Error::Usage`] with an alternative.
pub(super) fn check(request: &Request, contender: &Contender) -> Result<()> {
    if contender.commands.is_none() {
        return Ok(());
    }
    let binds = [("--source", &request.asked.source), ("--device", &request.asked.device)];
    if let Some((option, _)) = binds.iter().find(|(_, value)| value.is_some()) {
        return Err(Error::usage(format!(
            "`{}`: a command opens its own connections, which {option} does not bind; leave it out, or write it into the client \
             command",
            contender.spec
        )));
    }
    if request.asked.explain {
        return Err(Error::usage(format!(
            "`{}`: --explain looks into ends of ours, and a command shows nothing of its inside; leave it out",
            contender.spec
        )));
    }
    Ok(())
}

/// Copies the programs of all commands that run on this machine: at a server the far ones run there.
///
/// # Errors
/// As of [`ProgramCopies::of`].
pub(super) fn copies(
    context: &RaceContext<'_>,
    contenders: &[Contender],
    entrants: &[Entrant],
) -> Result<Arc<ProgramCopies>> {
    let sides = match context.runner.path().kind {
        PathKind::Remote => &[Side::Near][..],
        _ => &[Side::Near, Side::Far][..],
    };
    let racing = contenders.iter().zip(entrants).filter(|(_, entrant)| entrant.is_racing());
    let pairs = racing.filter_map(|(contender, _)| Some(&*contender.commands.as_ref()?.pair));
    let all: Vec<_> = pairs.flat_map(|pair| sides.iter().map(move |side| (pair, *side))).collect();
    ProgramCopies::of(&all).map(Arc::new)
}

/// Returns the files that both commands of a pair run, the ones of the client first. At a server they are its own, and its
/// file has to say the same as the one here.
///
/// # Errors
/// As of [`deadheat_trial::FarLink::far_files`].
fn files(
    context: &mut RaceContext<'_>,
    pair: &Arc<CommandPair>,
    copies: &ProgramCopies,
) -> Result<Vec<ProgramFile>> {
    Ok(match context.runner.far_link().map(|link| link.far_files(pair)).transpose()?.flatten() {
        Some(far) => [builds(pair, &[Side::Near], copies), far].concat(),
        None => builds(pair, &[Side::Near, Side::Far], copies),
    })
}

/// Refuses to go on with a race whose programs have changed since.
///
/// # Errors
/// [`Error::Usage`] with the file; as of [`deadheat_trial::FarLink::far_files`].
pub(super) fn check_unchanged(
    context: &mut RaceContext<'_>,
    contender: &Contender,
    entrant: &Entrant,
    copies: &ProgramCopies,
) -> Result<()> {
    let (Some(ours), Some(before)) = (&contender.commands, &entrant.commands) else {
        return Ok(());
    };
    let now = files(context, &ours.pair, copies)?;
    let is_gone = |file: &&ProgramFile| !now.iter().any(|now| now.is_same(file));
    let changed = before.files.iter().find(is_gone);
    changed.map_or(Ok(()), |file: &ProgramFile| {
        Err(Error::usage(format!(
            "`{}`: {} has changed since the blocks that are done; restore it, or race anew",
            contender.spec, file.path
        )))
    })
}

/// Notes the files of commands with their digests, before any trial. A contender whose server command the operator of the far
/// end does not allow drops out.
///
/// # Errors
/// [`Error::Peer`] if the operator's file says something else of the server than the file here.
pub(super) fn meet(
    context: &mut RaceContext<'_>,
    contenders: &[Contender],
    entrants: &mut [Entrant],
    copies: &ProgramCopies,
) -> Result<()> {
    for (entrant, contender) in entrants.iter_mut().zip(contenders) {
        let Some(commands) = contender.commands.as_ref().filter(|_| entrant.is_racing()) else {
            continue;
        };
        match files(context, &commands.pair, copies) {
            Ok(files) => {
                entrant.commands =
                    Some(Box::new(EntrantCommands { files, ..EntrantCommands::default() }));
            }
            Err(Error::Limited { what }) => entrant.drop_out(DropReason::Limited(what)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Notes what the start of commands costs where they move bytes: the median time of transfers of one byte, with the least and
/// the greatest. To another host it has the path's round trips in it. The contenders take turns, forward and backward, so that
/// a host that changes meanwhile changes for all of them.
///
/// # Errors
/// [`Error::Interrupted`] on Ctrl-C. A transfer that fails only leaves the cost unknown: a program may refuse one byte.
pub(super) fn describe(
    context: &mut RaceContext<'_>,
    common: &TrialSettings,
    entrants: &mut [Entrant],
) -> Result<()> {
    let is_pair = |entrant: &&Entrant| entrant.is_racing() && entrant.commands.is_some();
    let mut turns: Vec<usize> = entrants.iter().filter(is_pair).map(|entrant| entrant.id).collect();
    let mut took: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for number in 0..STARTS {
        let mut failed = Vec::new();
        for id in &turns {
            match start_ns(context, common, &entrants[*id], number)? {
                Some(ns) => took.entry(*id).or_default().push(ns),
                None => failed.push(*id),
            }
        }
        turns.retain(|id| !failed.contains(id));
        turns.reverse();
    }
    for (id, mut all) in took {
        all.sort_unstable();
        if let (Some(commands), [least, .., most]) = (&mut entrants[id].commands, &all[..]) {
            commands.start_ns = Some(all[all.len() / 2]);
            commands.start_range_ns = Some([*least, *most]);
        }
    }
    Ok(())
}

/// Returns the time of a transfer of one byte; `None` if the work is no transfer, or if it fails.
fn start_ns(
    context: &mut RaceContext<'_>,
    common: &TrialSettings,
    entrant: &Entrant,
    number: u64,
) -> Result<Option<u64>> {
    let mut order = common.order(entrant, schedule::pilot_seed(0, number))?;
    let info = order.pairing.task.info();
    if !matches!(info.programs, ProgramWork::Transfer { .. }) {
        return Ok(None);
    }
    order.pairing.task = SharedTask::of(info.spec_of_bytes(1))?;
    match context.runner.run(&order) {
        TrialOutcome::Ran(record) => Ok(record.command.and_then(|command| command.took_ns)),
        TrialOutcome::Failed(Error::Interrupted) => Err(Error::Interrupted),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_of_paths_what_differs() {
        let part = |value, other| differing_part(value, &[value, other]);
        assert_eq!(part("/w/base", "/w/head"), "base");
        assert_eq!(part("/w/base/bin/x", "/w/bash/bin/x"), "base/bin/x");
        assert_eq!(part("/w/old", "/w/old/new"), "old");
        assert_eq!(part("/w/x/", "/w/x/y"), "/w/x/");
        assert_eq!(part("old/x", "/w/x"), "old/x");
        assert_eq!(part("cubic", "reno"), "cubic");
    }
}
