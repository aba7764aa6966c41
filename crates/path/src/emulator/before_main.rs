//! Start of the emulator: as this program once more, and before its `main`.
//!
//! An ordinary user makes network namespaces in a user namespace, which only a process with one thread may enter,
//! and a test has several. After fork(2) such a process may do next to nothing until exec(2) (signal-safety(7)), so
//! the program is executed again. A constructor (`.init_array`, System V ABI) then finds the word in its
//! environment and becomes the emulator, before `main` or any thread; in all other cases it returns at once. No
//! `main` has to call anything.

use std::ffi::CStr;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use deadheat_base::process::{Helper, itself};

use deadheat_base::error::{Error, Result};

/// Environment variable that is set to [`WORD`] in the emulator.
const VARIABLE: &CStr = c"DEADHEAT_EMULATOR";
const WORD: &CStr = c"on descriptor 0";

/// Environment variable of the secret that `deadheat serve` shares with its clients; removed for the emulator.
const SECRET: &str = "DEADHEAT_SECRET";

/// Constructor that the program's loader calls before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = before_main;

/// True once the constructor has run in this process, so that it will run in the emulator.
static WAS_CALLED: AtomicBool = AtomicBool::new(false);

/// Starts the process.
///
/// # Errors
/// [`Error::Unsupported`] where the emulator could not start in it; [`Error::Setup`] where the process cannot be
/// started.
pub(super) fn start() -> Result<Helper> {
    if !WAS_CALLED.load(Ordering::Relaxed) || !is_in_program() {
        return Err(Error::unsupported(
            "an emulated network",
            "its emulator is this program once more, taken over before `main`, and deadheat-path is not in the \
             program itself but in a library that it loads; link it into the program",
        ));
    }
    let mut command = Command::new(itself("the emulator of a network")?);
    let text = |text: &CStr| text.to_string_lossy().into_owned();
    command.arg0("deadheat-emulator").env(text(VARIABLE), text(WORD)).env_remove(SECRET);
    Helper::start("an emulator", command)
}

extern "C" fn before_main() {
    WAS_CALLED.store(true, Ordering::Relaxed);
    if !is_asked_for() {
        return;
    }
    // SAFETY: no other thread runs in this process yet; the string is NUL-terminated. Writing to a pipe without a
    // reader is an error here and does not end the process, as in Rust's own runtime from `main` on.
    unsafe {
        libc::unsetenv(VARIABLE.as_ptr());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    // SAFETY: the parent put one end of a socket pair there, and nothing else owns it.
    let control = unsafe { UnixStream::from_raw_fd(libc::STDIN_FILENO) };
    let code = super::child::run(control);
    // The program's exit handlers are not for this process: the program never began. SAFETY: ends this process.
    unsafe { libc::_exit(code) }
}

/// Returns true if this process was started to be an emulator: by its environment, and by its socket. A program
/// with more rights than its user (setuid) never becomes one.
fn is_asked_for() -> bool {
    // SAFETY: the calls take integers and NUL-terminated strings, write into live integers, and the result of
    // getenv(3) is NUL-terminated or null; nothing changes the environment meanwhile.
    unsafe {
        let value = libc::getenv(VARIABLE.as_ptr());
        if value.is_null() || CStr::from_ptr(value) != WORD {
            return false;
        }
        let (mut domain, mut size) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        let (level, name) = (libc::SOL_SOCKET, libc::SO_DOMAIN);
        let place = (&raw mut domain).cast();
        let found = libc::getsockopt(libc::STDIN_FILENO, level, name, place, &raw mut size);
        libc::getauxval(libc::AT_SECURE) == 0 && found == 0 && domain == libc::AF_UNIX
    }
}

/// Returns true if this code is part of the program, which will be executed again, and not of a library that it
/// loaded: the first object that is reported is the program (dl_iterate_phdr(3)).
fn is_in_program() -> bool {
    unsafe extern "C" fn look(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        found: *mut libc::c_void,
    ) -> libc::c_int {
        let at = before_main as *const () as usize;
        // SAFETY: the loader hands over a live object with its headers, and `found` is the flag below.
        unsafe {
            let object = &*object;
            let headers =
                std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum));
            let is_here = headers.iter().any(|header| {
                let from = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
                header.p_type == libc::PT_LOAD && at.wrapping_sub(from) < header.p_memsz as usize
            });
            found.cast::<bool>().write(is_here);
        }
        1
    }
    let mut found = false;
    // SAFETY: `look` is called before this returns, with the flag that outlives it.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_a_program_that_has_the_constructor() {
        assert!(WAS_CALLED.load(Ordering::Relaxed));
        assert!(is_in_program());
        assert!(!is_asked_for());
    }
}
