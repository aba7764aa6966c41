//! The terminal behind standard error while a view is on it: its modes, its keys, and its state before.
//!
//! It is opened anew, so that its reads and writes fail rather than wait, and no other ones do: a terminal that
//! takes nothing (a slow link, Ctrl-S) costs frames, and no time of the race.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// Alternate screen on, cursor off (xterm's control sequences, DEC private modes 1049 and 25).
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";

/// Styles, cursor and screen as before.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// Longest time for which the end of a view waits for its terminal.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Terminal with a view.
pub(super) struct ViewTerminal {
    file: File,
    before: libc::termios,
    /// Bytes that the terminal has not taken.
    pending: Vec<u8>,
    is_shown: bool,
}

/// Facts by which any thread, and a signal handler, puts the terminal back.
struct SavedTerminal {
    descriptor: RawFd,
    before: libc::termios,
}

/// The terminal to put back; null while there is no view on it.
static SAVED: AtomicPtr<SavedTerminal> = AtomicPtr::new(std::ptr::null_mut());

/// Set by a signal: the process went on after a stop.
static CONTINUED: AtomicBool = AtomicBool::new(false);

/// Puts the terminal back, if there is a view on it. Async-signal-safe: it writes, sets modes, and frees nothing.
pub(in crate::cli) fn put_back() {
    let saved = SAVED.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: the pointer is null or of a box that is never freed.
    let Some(saved) = (unsafe { saved.as_ref() }) else { return };
    // SAFETY: `LEAVE` is valid for its length, `before` is a termios that tcgetattr filled.
    unsafe {
        libc::write(saved.descriptor, LEAVE.as_ptr().cast(), LEAVE.len());
        libc::tcsetattr(saved.descriptor, libc::TCSANOW, &raw const saved.before);
    }
}

impl ViewTerminal {
    /// Opens the terminal behind standard error, and shows an empty screen on it.
    ///
    /// # Errors
    /// If there is no terminal, or if it is another user's or another job's.
    pub(super) fn open() -> io::Result<ViewTerminal> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = options.open(format!("/proc/self/fd/{}", libc::STDERR_FILENO))?;
        // SAFETY: an all-zero termios is valid, and tcgetattr fills it.
        let before = unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(file.as_raw_fd(), &raw mut before) < 0 {
                return Err(io::Error::last_os_error());
            }
            before
        };
        let mut terminal = ViewTerminal { file, before, pending: Vec::new(), is_shown: false };
        if !terminal.is_ours() {
            return Err(io::Error::other("this process is in the background"));
        }
        restore_on_panic();
        catch_stop()?;
        terminal.show()?;
        Ok(terminal)
    }

    /// Returns true if this process is in the foreground of the terminal.
    fn is_ours(&self) -> bool {
        // SAFETY: both take integers or nothing.
        unsafe { libc::tcgetpgrp(self.file.as_raw_fd()) == libc::getpgrp() }
    }

    /// Switches to the alternate screen, with keys one by one and without echo. Ctrl-C and Ctrl-Z stay signals.
    fn show(&mut self) -> io::Result<()> {
        let mut modes = self.before;
        modes.c_lflag &= !(libc::ICANON | libc::ECHO);
        modes.c_cc[libc::VMIN] = 1;
        modes.c_cc[libc::VTIME] = 0;
        // A core dump would leave the terminal as it is.
        modes.c_cc[libc::VQUIT] = 0;
        // SAFETY: `modes` is a whole termios.
        if unsafe { libc::tcsetattr(self.file.as_raw_fd(), libc::TCSANOW, &raw const modes) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let saved = SavedTerminal { descriptor: self.file.as_raw_fd(), before: self.before };
        // A signal handler may read it at any time, so it is never freed.
        SAVED.store(Box::into_raw(Box::new(saved)), Ordering::Release);
        self.is_shown = true;
        self.pending.extend_from_slice(ENTER);
        Ok(())
    }

    /// Shows the view again after a stop, once the process is in the foreground; returns true if it is drawn anew then.
    pub(super) fn come_back(&mut self) -> bool {
        if CONTINUED.swap(false, Ordering::AcqRel) {
            self.is_shown = false;
            self.pending.clear();
        }
        if self.is_shown || !self.is_ours() {
            return false;
        }
        self.show().is_ok()
    }

    /// Returns true if a frame can be drawn: the view is shown, and the terminal took the last frame.
    pub(super) fn is_ready(&mut self) -> bool {
        self.is_shown && self.flush_some().is_ok() && self.pending.is_empty()
    }

    /// Adds bytes, and writes as many as the terminal takes now.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        // The rest is written later.
        let _ = self.flush_some();
    }

    fn flush_some(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            match self.file.write(&self.pending) {
                Ok(0) => return Ok(()),
                Ok(n) => drop(self.pending.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Waits for a key, for the end of `wake`, or until `longest` has passed.
    pub(super) fn wait(&self, wake: RawFd, longest: Duration) -> WaitOutcome {
        let keys = if self.is_shown { libc::POLLIN } else { 0 };
        let entry = |fd, events| libc::pollfd { fd, events, revents: 0 };
        // A terminal in whose background this process is gives no keys, but for an end of file.
        let terminal = if self.is_shown { self.file.as_raw_fd() } else { -1 };
        let mut all = [entry(terminal, keys), entry(wake, libc::POLLIN)];
        let timeout = libc::c_int::try_from(longest.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: `all` has two entries. A signal that ends the wait early is no harm.
        unsafe { libc::poll(all.as_mut_ptr(), 2, timeout) };
        match all.map(|one| one.revents) {
            [_, wake] if wake != 0 => WaitOutcome::Over,
            [keys, _] if keys & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 => {
                WaitOutcome::Gone
            }
            _ => WaitOutcome::Again,
        }
    }

    /// Returns the keys that were pressed. Of a key that sends several bytes (an arrow) nothing is returned.
    pub(super) fn keys(&mut self) -> Vec<u8> {
        let mut bytes = [0; 64];
        let read = if self.is_shown { self.file.read(&mut bytes).unwrap_or(0) } else { 0 };
        let keys = &bytes[..read];
        if keys.contains(&0x1b) { Vec::new() } else { keys.to_vec() }
    }

    /// Returns columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        crate::cli::terminal_size(self.file.as_raw_fd()).unwrap_or((80, 24))
    }

    /// Writes the rest of the last frame if the terminal takes it in time, and puts the terminal back.
    pub(super) fn close(&mut self) {
        let end = Instant::now() + LAST_WAIT;
        while self.is_shown && self.flush_some().is_ok() && !self.pending.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let mut one =
                libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
            // SAFETY: `one` is a single entry.
            unsafe { libc::poll(&raw mut one, 1, left.as_millis() as libc::c_int + 1) };
        }
        if self.is_shown && !self.pending.is_empty() {
            // The report that follows waits for the terminal, too. CAN ends a sequence that was cut off.
            let _ = io::stderr().write_all(&[b"\x18", LEAVE].concat());
        }
        put_back();
        self.is_shown = false;
    }
}

impl Drop for ViewTerminal {
    fn drop(&mut self) {
        self.close();
    }
}

/// Outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    /// A key or a tick.
    Again,
    /// The race has ended.
    Over,
    /// The terminal has gone.
    Gone,
}

/// Puts the terminal back before a panic is printed.
fn restore_on_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            put_back();
            before(panic);
        }));
    });
}

/// Puts the terminal back before Ctrl-Z stops the process, and notes that it went on.
fn catch_stop() -> io::Result<()> {
    extern "C" fn on_stop(_: libc::c_int) {
        put_back();
        // SAFETY: raise(3) may be called from a signal handler. It returns when the process goes on.
        unsafe { libc::raise(libc::SIGSTOP) };
        CONTINUED.store(true, Ordering::Release);
    }
    // SAFETY: an all-zero sigaction is valid, and the handler makes async-signal-safe calls only.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_stop as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGTSTP, &raw const action, std::ptr::null_mut())
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
