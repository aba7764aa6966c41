//! Files and commands in specs. Text that a person types may name any; text from a file may name none unless a person
//! allows it. Each key declares the references of its values (`Kind::reference`), so that no key can be forgotten.

use super::{Key, Reference, Spec};
use crate::error::{Result, unknown};

/// Kind of thing outside of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outside {
    /// Commands, which are run.
    Commands,
    /// Files, which are read or written.
    Files,
}

impl Outside {
    /// All kinds.
    pub const ALL: [Outside; 2] = [Outside::Commands, Outside::Files];

    /// Returns its name on a command line.
    pub fn word(self) -> &'static str {
        match self {
            Outside::Commands => "commands",
            Outside::Files => "files",
        }
    }

    /// Parses a name.
    ///
    /// # Errors
    /// [`crate::error::Error::Usage`] with all names.
    pub fn parse(typed: &str) -> Result<Outside> {
        let found = Outside::ALL.into_iter().find(|kind| kind.word() == typed);
        found.ok_or_else(|| unknown("thing to allow", typed, &Outside::ALL.map(Outside::word)))
    }
}

/// Thing outside of the program that a spec names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Kind of thing.
    pub kind: Outside,
    /// Name of the file, or the command.
    pub name: String,
    /// Place of the name: `far of external`.
    pub place: String,
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            Outside::Commands => "the command",
            Outside::Files => "the file",
        };
        write!(f, "{kind} `{}` ({})", self.name, self.place)
    }
}

/// Returns the things that a value refers to, if any. `place` is the position of the value, and `contender` collects
/// the things that a contender names.
///
/// # Errors
/// As `contender`.
pub fn named(
    reference: Reference<'_>,
    place: impl FnOnce() -> String,
    contender: &dyn Fn(&str) -> Result<Vec<Named>>,
) -> Result<Vec<Named>> {
    let one = |kind, name: &str| Ok(vec![Named { kind, name: name.to_owned(), place: place() }]);
    match reference {
        Reference::Nothing => Ok(Vec::new()),
        Reference::File(name) => one(Outside::Files, name),
        Reference::Command(command) => one(Outside::Commands, command),
        Reference::Contender(typed) => contender(&typed.replace('+', ",")),
    }
}

impl Spec {
    /// Returns the things that its options name, by the declarations of `keys`. Options without a declaration name
    /// nothing: the check of the spec refuses them.
    ///
    /// # Errors
    /// As `contender`, which collects the things that a contender among the values names.
    pub fn outside<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k Key>,
        contender: &dyn Fn(&str) -> Result<Vec<Named>>,
    ) -> Result<Vec<Named>> {
        let mut all = Vec::new();
        for key in keys {
            for (name, value) in self.options.iter().filter(|(name, _)| name == key.name) {
                let place = || format!("{name} of {}", self.name);
                all.extend(named(key.kind.reference(value), place, contender)?);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, contender, plain};
    use super::*;

    const KEYS: &[Key] = &[
        Key { name: "log", kind: Kind::Path, default: "", doc: "" },
        Key { name: "run", kind: Kind::Command, default: "", doc: "" },
        Key { name: "size", kind: Kind::Count(0, 9), default: "", doc: "" },
        Key {
            name: "beside",
            kind: Kind::Own { form: "CONTENDER", check: |_| Ok(()), refers: contender },
            default: "",
            doc: "",
        },
        Key {
            name: "form",
            kind: Kind::Own { form: "FORM", check: |_| Ok(()), refers: plain },
            default: "",
            doc: "",
        },
    ];

    fn collect(typed: &str) -> Result<Vec<Named>> {
        Spec::parse(typed)?.outside(KEYS, &collect)
    }

    #[test]
    fn files_and_commands_are_collected_by_the_kind_of_their_keys() {
        let all = collect("tcp:size=1,form=/etc,log=/etc/x,run=touch y,unknown=/z").unwrap();
        let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["the file `/etc/x` (log of tcp)", "the command `touch y` (run of tcp)"]);
        let inside = collect("ping:beside=udp:log=a+run=b").unwrap();
        assert_eq!(inside.len(), 2);
        assert_eq!(inside[1].place, "run of udp");
        assert_eq!(collect("tcp").unwrap(), []);
    }

    #[test]
    fn an_unknown_word_is_refused_with_all() {
        assert_eq!(Outside::parse("files").unwrap(), Outside::Files);
        let said = Outside::parse("file").unwrap_err().to_string();
        assert!(said.contains("did you mean `files`?"), "{said}");
    }
}
