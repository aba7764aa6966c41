//! Kind of a race: the properties that runs of the same thing share.

use std::net::{IpAddr, SocketAddr};

use crate::outcome::Outcome;
use deadheat_contract::label::LabelledText;
use deadheat_path::PathKind;
use deadheat_records::trial::PathFacts;

/// Properties that runs of the same thing share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaceKind {
    /// Contenders as typed, by name: their order decides only which one is copied.
    pub contenders: Vec<String>,
    /// Workload.
    pub workload: String,
    /// Path.
    pub path: String,
    /// Kind of path.
    pub path_kind: PathKind,
    /// IP version; absent if not known.
    pub family: Option<u8>,
    /// Requested placement, if any.
    pub placement: Option<String>,
    /// Varied conditions, as `name=a|b`.
    pub vary: Vec<String>,
    /// Settings of each contender by its identity, as `key=value`: the typed text lacks the settings of commands.
    settings: Vec<(String, Vec<(String, String)>)>,
}

impl RaceKind {
    /// Returns the kind of a race.
    pub fn of(race: &Outcome) -> RaceKind {
        let asked = &race.asked;
        // A label changes nothing that runs.
        let mut contenders: Vec<String> =
            asked.contenders.iter().map(|typed| LabelledText::without(typed)).collect();
        contenders.sort();
        let vary = asked.vary.iter();
        let settings = race.contenders.iter().map(|contender| {
            let settings = contender.asked.iter();
            let settings = settings.map(|(key, value)| (key.clone(), value.clone()));
            (contender.identity().to_owned(), settings.collect())
        });
        RaceKind {
            contenders,
            workload: asked.workload.clone(),
            path: race.path.spec.clone(),
            path_kind: race.path.kind,
            family: family(race),
            placement: asked.placement.clone(),
            vary: vary.map(|f| format!("{}={}", f.name, f.levels.join("|"))).collect(),
            settings: settings.collect(),
        }
    }

    /// Returns the first difference from another kind in words; `None` if both are runs of the same thing.
    pub fn difference(&self, other: &RaceKind) -> Option<String> {
        let or = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        let facts = |kind: &RaceKind| {
            [
                ("contenders", kind.contenders.join(" ")),
                ("workload", kind.workload.clone()),
                ("path", format!("{} ({})", kind.path, kind.path_kind)),
                ("placement asked for", or(&kind.placement)),
                ("varied conditions", kind.vary.join(" ")),
            ]
        };
        let mut pairs = facts(self).into_iter().zip(facts(other));
        if let Some(((what, one), (_, other))) = pairs.find(|((_, a), (_, b))| a != b) {
            return Some(format!("{what}: {one}, and {other}"));
        }
        if let (Some(one), Some(other)) = (self.family, other.family)
            && one != other
        {
            return Some(format!("IP version: {one}, and {other}"));
        }
        self.settings.iter().find_map(|(label, settings)| {
            let (_, others) = other.settings.iter().find(|(known, _)| known == label)?;
            settings.iter().find_map(|(key, value)| {
                // A setting that only one version of the program has is no difference.
                let (_, other) =
                    others.iter().find(|(known, value)| known == key && !value.is_empty())?;
                let differs = !value.is_empty() && value != other;
                differs.then(|| format!("{key} of {label}: {value}, and {other}"))
            })
        })
    }
}

/// Returns the far end's address as it was dialled; `None` if it has none.
pub(crate) fn address(path: &PathFacts) -> Option<IpAddr> {
    let address = &path.address;
    let ip = address.parse::<IpAddr>().ok();
    let ip = ip.or_else(|| address.parse::<SocketAddr>().ok().map(|at| at.ip()));
    ip.map(|ip| ip.to_canonical())
}

/// Returns the IP version of a race, from the far end's address or else from the request.
pub fn family(race: &Outcome) -> Option<u8> {
    match address(&race.path) {
        Some(IpAddr::V4(_)) => Some(4),
        Some(IpAddr::V6(_)) => Some(6),
        None => race.asked.family,
    }
}
