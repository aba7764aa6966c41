//! Panics of foreign code, converted into errors.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::error::{Error, Result};

thread_local! {
    static CONTAINS: Cell<bool> = const { Cell::new(false) };
    static WORDS: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `run`. If it panics, nothing is printed, and the result is the error of `who`.
///
/// # Errors
/// The error of `run`; [`Error::Broken`] if it panics, with the position in the code and the message.
pub fn contained<T>(who: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    keep_words();
    let outer = CONTAINS.replace(true);
    // State that a panic leaves inconsistent is dropped with `run`, and never used again.
    let ran = catch_unwind(AssertUnwindSafe(run));
    CONTAINS.set(outer);
    ran.unwrap_or_else(|_| {
        let words = WORDS.take().unwrap_or_else(|| "panicked".to_owned());
        Err(Error::broken(who, format!("it {words}")))
    })
}

/// Installs a hook with which threads inside [`contained`] store the message of a panic, and all others print it as
/// before.
fn keep_words() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if CONTAINS.get() {
                WORDS.set(Some(panic.to_string().replace(":\n", ": ")));
            } else {
                usual(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_place_and_words() {
        let error = contained::<()>("kcp", || panic!("index {} of 3", 7)).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("kcp: it panicked at "), "{said}");
        assert!(said.contains("panics.rs:") && said.ends_with(": index 7 of 3"), "{said}");
        assert!(matches!(error, Error::Broken { .. }));
    }

    #[test]
    fn what_does_not_panic_is_as_it_was() {
        assert_eq!(contained("kcp", || Ok(3)).unwrap(), 3);
        let error = contained::<()>("kcp", || Err(Error::usage("no"))).unwrap_err();
        assert!(matches!(error, Error::Usage(_)));
    }
}
