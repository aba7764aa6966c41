//! Lists of implementations, which the program hands in once, before anything else. So no crate but the program knows an
//! implementation, and a program of somebody else brings its own.

use std::ops::Deref;
use std::sync::OnceLock;

use crate::error::{Error, Result, unknown};

/// List of the implementations of `T` that this process has; empty until they are handed in.
pub struct HandedIn<T: ?Sized + 'static>(OnceLock<Vec<&'static T>>);

impl<T: ?Sized> HandedIn<T> {
    /// Creates the empty list.
    pub const fn new() -> HandedIn<T> {
        HandedIn(OnceLock::new())
    }

    /// Returns the error of a name that is not in the list, `what` it is of, with the names that are; of an empty list that
    /// nothing was handed in.
    pub fn unknown(&self, what: &str, name: &str, names: &[&str]) -> Error {
        if self.is_empty() {
            return Error::usage(format!(
                "this program has handed in no {what}; begin its main with `deadheat::Program::new().enter()?`"
            ));
        }
        unknown(what, name, names)
    }

    /// Fills the list.
    ///
    /// # Errors
    /// [`Error::Usage`] if it was filled before: what was parsed by then may have been other implementations.
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
