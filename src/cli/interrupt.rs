//! Ctrl-C and termination: the first sets a flag and lets the work end cleanly, the second ends it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use deadheat_base::error::{Error, Result};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Returns the flag that SIGINT and SIGTERM set.
///
/// # Errors
/// If the handler cannot be installed.
pub(super) fn flag() -> Result<Arc<AtomicBool>> {
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        install(signal)
            .map_err(|e| Error::setup("prepare for Ctrl-C (install a signal handler)", e))?;
    }
    Ok(Arc::clone(flag))
}

fn install(signal: libc::c_int) -> io::Result<()> {
    extern "C" fn on_signal(signal: libc::c_int) {
        // Only async-signal-safe calls: an atomic store, and _exit for the impatient.
        match FLAG.get() {
            Some(flag) if !flag.swap(true, Ordering::AcqRel) => {}
            _ => {
                super::live::put_back();
                // SAFETY: _exit may be called from a signal handler.
                unsafe { libc::_exit(128 + signal) }
            }
        }
    }
    // SAFETY: an all-zero sigaction is valid, and the handler makes async-signal-safe calls only.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
