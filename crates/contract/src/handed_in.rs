//! Registries of implementations, which the program fills once, before anything else. So no crate but the program knows
//! an implementation, and another program can bring its own.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::OnceLock;

use deadheat_base::error::{Error, Result, unknown};

/// Registry of the implementations of `T` in this process; empty until the program fills it.
pub struct HandedIn<T: ?Sized + 'static>(OnceLock<Vec<&'static T>>);

impl<T: ?Sized> HandedIn<T> {
    /// Creates an empty registry.
    pub const fn new() -> HandedIn<T> {
        HandedIn(OnceLock::new())
    }

    /// Returns the error of an unknown name of a `what`, with the known names; for an empty registry, that it was not filled.
    pub fn unknown(&self, what: &str, name: &str, names: &[&str]) -> Error {
        if self.is_empty() {
            return Error::usage(format!(
                "this program has handed in no {what}; begin its main with `deadheat::Program::new().enter()?`"
            ));
        }
        unknown(what, name, names)
    }

    /// Fills the registry.
    ///
    /// # Errors
    /// [`Error::Usage`] if it was filled before: names parsed since may refer to other implementations.
    pub fn fill(&self, all: Vec<&'static T>) -> Result<()> {
        let twice = |_| {
            Error::usage("the implementations of this program were handed in before; do it once")
        };
        self.0.set(all).map_err(twice)
    }
}

impl<T: ?Sized> Default for HandedIn<T> {
    fn default() -> HandedIn<T> {
        HandedIn::new()
    }
}

impl<T: ?Sized> Deref for HandedIn<T> {
    type Target = [&'static T];

    fn deref(&self) -> &[&'static T] {
        self.0.get().map(Vec::as_slice).unwrap_or_default()
    }
}

/// Checks that no two implementations, `what` they are, have the same name.
///
/// # Errors
/// [`Error::Usage`] naming the first that two have.
pub fn unique(what: &str, ids: impl Iterator<Item = &'static str>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(Error::usage(format!(
                "two {what}s are called `{id}`; give one another name"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_empty_until_it_is_filled_once() {
        let list: HandedIn<str> = HandedIn::new();
        assert!(list.is_empty());
        assert!(list.unknown("word", "x", &[]).to_string().contains("handed in no word"));
        list.fill(vec!["a", "b"]).unwrap();
        assert_eq!(*list, ["a", "b"]);
        assert!(list.unknown("word", "ab", &["abc"]).to_string().contains("did you mean `abc`?"));
        assert!(list.fill(vec!["c"]).is_err());
        assert_eq!(*list, ["a", "b"]);
    }
}
