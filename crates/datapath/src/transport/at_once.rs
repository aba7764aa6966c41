//! Opening of several connections at once. Each open connection runs its timers until all others are open, too: the
//! last packet of a handshake may be lost, and the peer then waits for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

use deadheat_base::panics::contained;

use deadheat_base::error::{Error, Result};

/// Number of attempts that are not over.
#[derive(Debug)]
pub struct OpenAttempts(AtomicUsize);

/// Attempt to open a connection. It is over when this is dropped: with a connection, with an error, or by a panic
/// in a library.
#[derive(Debug)]
struct Attempt<'a>(&'a OpenAttempts);

impl OpenAttempts {
    /// Returns true while any attempt is not over.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    fn attempt(&self) -> Attempt<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Attempt(self)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Work that opens one of several connections, with a name for errors.
pub struct OpenTask<'a, T> {
    /// Name of the connection.
    pub name: String,
    /// Work that opens it.
    pub open: Box<dyn FnOnce() -> Result<T> + Send + 'a>,
}

/// Opens connections at once, and calls `keep_up` on each open one while others are missing. Returns them in their
/// order, or their errors.
pub fn at_once<T: Send>(
    opens: Vec<OpenTask<'_, T>>,
    keep_up: &(dyn Fn(&mut T, &OpenAttempts) + Sync),
) -> Vec<Result<T>> {
    let missing = OpenAttempts(AtomicUsize::new(0));
    thread::scope(|scope| {
        let missing = &missing;
        // All of them count as missing before the first attempt begins.
        let attempts: Vec<_> = opens.into_iter().map(|open| (missing.attempt(), open)).collect();
        let threads: Vec<_> = attempts
            .into_iter()
            .map(|(attempt, OpenTask { name, open })| {
                // The closure owns the attempt, which is therefore over even if no thread can be started.
                let run = move || {
                    contained(&name, || {
                        let mut opened = open();
                        drop(attempt);
                        if let Ok(conn) = &mut opened {
                            keep_up(conn, missing);
                        }
                        opened
                    })
                };
                Builder::new().spawn_scoped(scope, run)
            })
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let thread = thread.map_err(|e| Error::setup("start a thread for a connection", e))?;
            thread.join().unwrap_or_else(|_| {
                Err(Error::broken("a connection", "the thread that opened it panicked"))
            })
        });
        ended.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(
        name: &str,
        run: impl FnOnce() -> Result<u8> + Send + 'static,
    ) -> OpenTask<'static, u8> {
        OpenTask { name: name.to_owned(), open: Box::new(run) }
    }

    fn wait(_: &mut u8, missing: &OpenAttempts) {
        while missing.any() {
            thread::yield_now();
        }
    }

    #[test]
    fn an_attempt_that_panics_keeps_no_other_waiting() {
        let opens = vec![
            open("first", || Ok(1)),
            open("second", || panic!("asked to")),
            open("third", || Err(Error::blocked("nobody answers"))),
        ];
        let ended = at_once(opens, &wait);
        assert_eq!(*ended[0].as_ref().unwrap(), 1);
        let Err(broken @ Error::Broken { .. }) = &ended[1] else { panic!("{:?}", ended[1]) };
        assert!(broken.to_string().starts_with("second: it panicked at "), "{broken}");
        assert!(matches!(ended[2], Err(Error::Blocked { .. })));
    }

    #[test]
    fn a_panic_while_it_is_kept_up_is_an_error_of_its_own() {
        let opens = vec![open("first", || Ok(1)), open("second", || Ok(2))];
        let ended = at_once(opens, &|conn, missing| match conn {
            1 => panic!("asked to"),
            _ => wait(conn, missing),
        });
        assert!(matches!(ended[0], Err(Error::Broken { .. })));
        assert!(ended[1].is_ok());
    }
}
