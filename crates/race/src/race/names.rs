//! Names of contenders in a race: labels that users gave, or else their specs.

use super::commands;
use deadheat_base::error::{Error, Result};
use deadheat_datapath::transport::Contender;

/// Name of a contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContenderName {
    /// Name in reports.
    pub(super) label: String,
    /// Label that it would have without the typed one; absent if none was typed.
    pub(super) unlabelled: Option<String>,
}

impl ContenderName {
    /// Returns the name with the conditions of a cell behind it.
    pub(super) fn under(&self, conditions: &str) -> ContenderName {
        let with = |name: &String| format!("{name}{conditions}");
        ContenderName { label: with(&self.label), unlabelled: self.unlabelled.as_ref().map(with) }
    }
}

/// Returns the names: the labels that were given, or the specs; the second and later copies of a spec get a number:
/// `udp`, `udp #2`.
///
/// # Errors
/// [`Error::Usage`] if two contenders have the same name.
pub(super) fn names(
    contenders: &[Contender],
    given: Vec<Option<String>>,
) -> Result<Vec<ContenderName>> {
    let specs = commands::names(contenders);
    let own = |(id, spec): (usize, &String)| match specs[..id]
        .iter()
        .filter(|other| *other == spec)
        .count()
    {
        0 => spec.clone(),
        before => format!("{spec} #{}", before + 1),
    };
    let own = specs.iter().enumerate().map(own);
    let names: Vec<ContenderName> = own
        .zip(given)
        .map(|(own, given)| match given {
            Some(label) => ContenderName { label, unlabelled: Some(own) },
            None => ContenderName { label: own, unlabelled: None },
        })
        .collect();
    for (at, name) in names.iter().enumerate() {
        if let Some(other) = names[..at].iter().position(|other| other.label == name.label) {
            return Err(Error::usage(format!(
                "`{}` and `{}` have the same label, `{}`; give each its own",
                specs[other], specs[at], name.label
            )));
        }
    }
    Ok(names)
}
