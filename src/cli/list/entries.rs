//! Things that exist, in one line each.

use deadheat_base::foreign::visible;
use deadheat_base::spec::Key;
use deadheat_contract::contract::Reach;
use deadheat_contract::workload::{self, load};
use deadheat_datapath::transport::{self, Transport, far_end, header, optional, several, via};
use deadheat_path::{grammar, profile};
use deadheat_race::advise::bundled as apps;
use deadheat_race::study::bundled;

/// A thing that exists.
pub(super) struct ListEntry {
    pub(super) name: String,
    /// Description, or the reason why it does not work here.
    pub(super) says: String,
    pub(super) group: EntryGroup,
}

/// EntryGroup of things that are listed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryGroup {
    /// A thing like any other of its kind.
    Plain,
    /// Works on this host.
    Here,
    /// A model, for paths in virtual time alone.
    Simulated,
    /// Does not work on this host.
    Lacking,
    /// Left out of this build; packages have it.
    Packed,
    /// Left out of this build, and of packages.
    LeftOut,
    /// Made of other contenders, or of commands.
    Composed,
    /// Keys that all of a kind have.
    Shared,
    /// Real, emulated and simulated paths.
    Way,
    /// Keys of a path.
    PathKey,
    /// Links with a name.
    Profile,
}

impl EntryGroup {
    /// Groups in the order of lists.
    pub(super) const ALL: [EntryGroup; 11] = [
        EntryGroup::Plain,
        EntryGroup::Way,
        EntryGroup::Profile,
        EntryGroup::PathKey,
        EntryGroup::Here,
        EntryGroup::Simulated,
        EntryGroup::Lacking,
        EntryGroup::Packed,
        EntryGroup::LeftOut,
        EntryGroup::Composed,
        EntryGroup::Shared,
    ];

    /// Returns its title; empty for a group that needs none.
    pub(super) fn title(self) -> &'static str {
        match self {
            EntryGroup::Plain | EntryGroup::Way => "",
            EntryGroup::Here => "work here",
            EntryGroup::Simulated => "virtual time only",
            EntryGroup::Lacking => "need something",
            EntryGroup::Packed => "only in packages",
            EntryGroup::LeftOut => "not in this build",
            EntryGroup::Composed => "made of others",
            EntryGroup::Shared => "keys of all",
            EntryGroup::PathKey => "keys",
            EntryGroup::Profile => "profiles",
        }
    }
}

impl ListEntry {
    fn new(name: impl Into<String>, says: impl Into<String>, group: EntryGroup) -> ListEntry {
        ListEntry { name: name.into(), says: says.into(), group }
    }
}

pub(super) fn transports() -> Vec<ListEntry> {
    let entry = |transport: &&dyn Transport| {
        let info = transport.info();
        match transport.check() {
            Ok(()) if info.reach == Reach::Process => {
                ListEntry::new(info.id, info.summary, EntryGroup::Simulated)
            }
            Ok(()) => ListEntry::new(info.id, info.summary, EntryGroup::Here),
            Err(why) => {
                ListEntry::new(info.id, reason(info.id, &why.to_string()), EntryGroup::Lacking)
            }
        }
    };
    let mut all: Vec<ListEntry> = transport::ALL.iter().map(entry).collect();
    all.extend(optional::left_out().map(|one| {
        let group = if one.takes.is_none() { EntryGroup::Packed } else { EntryGroup::LeftOut };
        ListEntry::new(one.id, one.summary, group)
    }));
    let forms = several::FORMS.iter();
    all.extend(forms.map(|(form, what)| ListEntry::new(*form, *what, EntryGroup::Composed)));
    all.extend(shared(via::KEYS));
    all.extend(shared(header::KEYS));
    all
}

/// Returns a reason without the name in front of it, which stands beside it already.
fn reason(id: &str, why: &str) -> String {
    why.strip_prefix(id).and_then(|why| why.strip_prefix(": ")).unwrap_or(why).to_owned()
}

pub(super) fn workloads() -> Vec<ListEntry> {
    let infos = workload::ALL.iter().map(|workload| workload.info());
    let mut all: Vec<ListEntry> =
        infos.map(|info| ListEntry::new(info.id, info.summary, EntryGroup::Plain)).collect();
    all.extend(shared(load::KEYS));
    all
}

/// Kinds of paths.
pub(super) const PATHS: [(&str, &str); 4] = [
    ("loopback", "this machine: both ends are processes on it (the default)"),
    ("--to HOST", "another host: `deadheat serve`, or iperf3://HOST, https://HOST/…"),
    ("LINK + LINK", "an emulated network; each link is [PROFILE,]key=value,…"),
    ("sim:LINK", "the same in virtual time, for protocols in user space"),
];

pub(super) fn paths() -> Vec<ListEntry> {
    let ways = PATHS.iter().map(|(name, what)| ListEntry::new(*name, *what, EntryGroup::Way));
    let keys = grammar::LINK.iter().chain(grammar::WHOLE);
    let keys = keys.map(|key| ListEntry::new(key.name, key.doc, EntryGroup::PathKey));
    let profiles = profile::ALL.iter().map(|one| (one.name, one.summary));
    let forms = grammar::FORMS.iter().map(|form| (form.name, form.summary));
    let named = profiles.chain(forms);
    let named = named.map(|(name, about)| ListEntry::new(name, about, EntryGroup::Profile));
    ways.chain(named).chain(keys).collect()
}

pub(super) fn far_ends() -> Vec<ListEntry> {
    let infos = far_end::ALL.iter().map(|end| &end.info);
    infos.map(|info| ListEntry::new(info.id, info.summary, EntryGroup::Plain)).collect()
}

pub(super) fn studies() -> Vec<ListEntry> {
    let says = |name: &str| match bundled::study(name) {
        Ok(checked) => visible(&checked.study.question),
        Err(error) => visible(&error.to_string()),
    };
    bundled::names().map(|name| ListEntry::new(name, says(name), EntryGroup::Plain)).collect()
}

pub(super) fn applications() -> Vec<ListEntry> {
    let says = |name: &str| {
        visible(&apps::app(name).map(|app| app.about).unwrap_or_else(|error| error.to_string()))
    };
    apps::names().map(|name| ListEntry::new(name, says(name), EntryGroup::Plain)).collect()
}

/// Returns the keys that each thing of a kind has.
fn shared(keys: &[Key]) -> impl Iterator<Item = ListEntry> {
    keys.iter().map(|key| ListEntry::new(format!("…:{}=", key.name), key.doc, EntryGroup::Shared))
}
