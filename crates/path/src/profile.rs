//! Paths by name: kinds of access and routes, and networks of several hosts, each with the source of its values.
//!
//! A profile has the text of a link as typed, so that it can be read, copied and changed key by key. It is one
//! plausible link of its kind, not the average of all: for a particular link, measure it. Delays are half of a
//! round trip in each direction, since the sources give round trips.

use std::sync::LazyLock;

/// Named link of a particular kind, or named network of several.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Name of the profile.
    pub name: &'static str,
    /// Other names in common use; messages suggest this profile for them.
    pub known_as: Vec<&'static str>,
    /// Keys of the link, or links of the network, as typed.
    pub text: &'static str,
    /// Summary of it, in one line.
    pub summary: &'static str,
    /// Source of the values, and which of them are a judgement.
    pub source: &'static str,
}

impl Profile {
    /// Returns true if it is a network, whose links name their hosts.
    pub fn is_network(&self) -> bool {
        self.text.contains("--")
    }
}

/// Every profile: links, then networks. The file has three lines for each: its name, with other names, and its summary;
/// its text; and its source.
pub static ALL: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let profile = |written: &'static str| {
        let mut lines = written.lines();
        let (names, summary) = lines.next()?.split_once(": ")?;
        let mut names = names.split(", ");
        let (name, text, source) = (names.next()?, lines.next()?, lines.next()?);
        Some(Profile { name, known_as: names.collect(), text, summary, source })
    };
    include_str!("profiles.txt").split("\n\n").filter_map(profile).collect()
});

/// Returns the name of the profile that people also know as `typed`.
pub fn known_as(typed: &str) -> Option<&'static str> {
    let typed = typed.to_lowercase();
    ALL.iter()
        .find(|profile| profile.known_as.contains(&typed.as_str()))
        .map(|profile| profile.name)
}
