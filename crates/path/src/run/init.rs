//! First process of the commands' process namespace: starts them, passes signals on, reaps processes, and ends with
//! the near command.

use std::ffi::OsString;
use std::io;
use std::iter;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use deadheat_base::ports::SocketTable;

use super::Talk;

use super::signals::{self, TakenSignal};
use super::task::{Task, VARIABLE};
use crate::emulated::namespace;

/// Longest wait for a far command without a given port.
const UNTIL_LISTENING: Duration = Duration::from_secs(1);
/// Longest wait for a far command with a given port to listen at.
const UNTIL_READY: Duration = Duration::from_secs(10);
/// Time between two checks.
const LOOK: Duration = Duration::from_millis(2);
/// Time that the far command has to end after SIGTERM.
const UNTIL_ENDED: Duration = Duration::from_secs(2);
/// Exit codes of shells for a missing command, and for a command without permission.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Runs the commands; returns the near one's exit code, or the code for the reason why it did not run.
pub(super) fn run(task: &Task, command: &[OsString]) -> u8 {
    if has_own_mounts() {
        show_own_processes();
        // Where that is not allowed, the hosts have addresses and no names.
        let _ = name_hosts(&task.names);
    }
    let far = match task.far_command.as_deref().map(|far| start_far(far, task)) {
        None => None,
        Some(Ok(far)) => far,
        Some(Err(code)) => return code,
    };
    match start_near(command, task.near) {
        Ok(near) => wait(near, far, task.talk),
        Err(code) => code,
    }
}

/// Makes later mounts visible to the commands alone; returns true if that worked.
fn has_own_mounts() -> bool {
    let (none, private) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: the string is NUL-terminated, and the rest are integers and null.
    unsafe { libc::mount(none, c"/".as_ptr(), none, private, none.cast()) == 0 }
}

/// Gives this process namespace a /proc of its own. Where that is not allowed (in some containers) the
/// commands see the processes of the host, by other numbers than their own.
fn show_own_processes() {
    let (kind, at) = (c"proc".as_ptr(), c"/proc".as_ptr());
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: the strings are NUL-terminated, and the rest are integers and null.
    unsafe { libc::mount(kind, at, kind, flags, std::ptr::null()) };
}

/// Puts these lines in front of the content of /etc/hosts, for this mount namespace alone: a file of a private
/// filesystem in memory is mounted over it.
fn name_hosts(lines: &str) -> io::Result<()> {
    let text = std::fs::read("/etc/hosts")?;
    let (none, nowhere) = (std::ptr::null::<libc::c_char>(), c"/tmp".as_ptr());
    let done = |code| if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: the strings are NUL-terminated, and the rest are integers and null.
    done(unsafe {
        libc::mount(c"tmpfs".as_ptr(), nowhere, c"tmpfs".as_ptr(), flags, none.cast())
    })?;
    let bound = std::fs::write("/tmp/hosts", [lines.as_bytes(), &text].concat()).and_then(|()| {
        let (from, to) = (c"/tmp/hosts".as_ptr(), c"/etc/hosts".as_ptr());
        // SAFETY: as above.
        done(unsafe { libc::mount(from, to, none, libc::MS_BIND, none.cast()) })
    });
    // The file stays as long as it is bound. SAFETY: as above.
    done(unsafe { libc::umount2(nowhere, libc::MNT_DETACH) }).and(bound)
}

/// Starts the far command and waits until it listens, or its time to do so is over. `None` if it has ended
/// successfully.
fn start_far(far: &str, task: &Task) -> Result<Option<i32>, u8> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(far).env_remove(VARIABLE).stdin(Stdio::null()).process_group(0);
    // Standard output belongs to the near command.
    shell.stdout(io::stderr());
    // SAFETY: the closure makes one system call on a value of its own.
    unsafe { shell.pre_exec(signals::let_through) };
    let child = shell.spawn().map_err(|e| {
        tell!("cannot run `sh` for the far command: {e}");
        if e.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
    })?;
    let child = child.id().cast_signed();
    let patience = if task.far_ready.is_some() { UNTIL_READY } else { UNTIL_LISTENING };
    let began = Instant::now();
    while !is_ready(task.far_ready) {
        if began.elapsed() > patience {
            let Some(port) = task.far_ready else { break };
            let seconds = patience.as_secs();
            tell!("the far command `{far}` did not listen at port {port} within {seconds} s");
            return Err(1);
        }
        match signals::take(Some(LOOK)) {
            TakenSignal::Child => {
                let ended = iter::from_fn(signals::reap).find(|(ended, _)| *ended == child);
                match ended {
                    // A command that only prepares something may end successfully, and earlier.
                    Some((_, 0)) if task.far_ready.is_none() => return Ok(None),
                    Some((_, code)) => {
                        tell!(
                            "the far command `{far}` ended with status {code} before the \
                             near one was started"
                        );
                        return Err(code.max(1));
                    }
                    None => {}
                }
            }
            TakenSignal::Sent(signal) => return Err(128 + signal as u8),
            TakenSignal::FromTerminal => return Err(128 + libc::SIGINT as u8),
            TakenSignal::Nothing => {}
        }
    }
    Ok(Some(child))
}

/// Returns true if a socket listens in this network namespace, the far one: at this port, or at any.
fn is_ready(port: Option<u16>) -> bool {
    [SocketTable::Tcp, SocketTable::Udp, SocketTable::Raw, SocketTable::Packet]
        .iter()
        .any(|table| table.has(port))
}

fn start_near(command: &[OsString], near: RawFd) -> Result<i32, u8> {
    let Some((program, arguments)) = command.split_first() else { return Err(NOT_FOUND) };
    let mut near_command = Command::new(program);
    near_command.args(arguments).env_remove(VARIABLE);
    let prepare = move || {
        namespace::enter(None, near)?;
        signals::let_through()
    };
    // SAFETY: the closure only makes async-signal-safe calls.
    unsafe { near_command.pre_exec(prepare) };
    near_command.spawn().map(|child| child.id().cast_signed()).map_err(|e| {
        tell!("cannot run `{}`: {e}", program.to_string_lossy());
        if e.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
    })
}

/// Waits for the near command, and then ends the far one; returns the near one's exit code.
fn wait(near: i32, far: Option<i32>, talk: Talk) -> u8 {
    let mut far_lives = far;
    let code = loop {
        match signals::take(None) {
            TakenSignal::Child => {
                let ended: Vec<(i32, u8)> = iter::from_fn(signals::reap).collect();
                let code_of =
                    |child| ended.iter().find(|(one, _)| *one == child).map(|(_, code)| *code);
                if let Some(code) = far_lives.and_then(code_of) {
                    far_lives = None;
                    if code != 0 && talk == Talk::All {
                        tell!("the far command ended with status {code}");
                    }
                }
                if let Some(code) = code_of(near) {
                    break code;
                }
            }
            TakenSignal::Sent(signal) => signals::send(near, signal),
            TakenSignal::FromTerminal | TakenSignal::Nothing => {}
        }
    };
    if let Some(far) = far_lives {
        end(far);
    }
    code
}

/// Sends SIGTERM to the far command's process group, and gives it time to end; any remaining process ends with this
/// one.
fn end(far: i32) {
    signals::send(-far, libc::SIGTERM);
    let began = Instant::now();
    loop {
        if iter::from_fn(signals::reap).any(|(ended, _)| ended == far) {
            return;
        }
        let left = UNTIL_ENDED.saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        signals::take(Some(left));
    }
}
