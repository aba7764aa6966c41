//! First process of the commands' process namespace: starts them, passes signals on, reaps processes, and ends with
//! the main command.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, iter};

use deadheat_base::ports::SocketTable;

use super::Talk;
use super::signals::{self, TakenSignal};
use super::task::{BesideCommand, Task, VARIABLE};
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
    let mut beside = Vec::new();
    for one in &task.beside {
        match start_beside(one, task) {
            Ok(Some(id)) => beside.push((id, one.name.as_str())),
            Ok(None) => {}
            Err(code) => return code,
        }
    }
    match start(command, task.hosts[task.host]) {
        Ok(id) => wait(id, beside, task.talk),
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

/// Starts a command at its host, to which this process moves, and waits until it listens, or its time to do so is over.
/// `None` if it has ended successfully.
fn start_beside(beside: &BesideCommand, task: &Task) -> Result<Option<i32>, u8> {
    let BesideCommand { host, name, command, ready } = beside;
    namespace::enter(None, task.hosts[*host]).map_err(|e| {
        tell!("enter the host {name}: {e}");
        1
    })?;
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).env_remove(VARIABLE).stdin(Stdio::null()).process_group(0);
    // Standard output belongs to the main command.
    shell.stdout(io::stderr());
    // SAFETY: the closure makes one system call on a value of its own.
    unsafe { shell.pre_exec(signals::let_through) };
    let child = shell.spawn().map_err(|e| {
        tell!("cannot run `sh` for the {name} command: {e}");
        if e.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
    })?;
    let child = child.id().cast_signed();
    let patience = if ready.is_some() { UNTIL_READY } else { UNTIL_LISTENING };
    let began = Instant::now();
    while !is_ready(*ready) {
        if began.elapsed() > patience {
            let Some(port) = ready else { break };
            let seconds = patience.as_secs();
            tell!(
                "the {name} command `{command}` did not listen at port {port} within {seconds} s"
            );
            return Err(1);
        }
        match signals::take(Some(LOOK)) {
            TakenSignal::Child => {
                let ended = iter::from_fn(signals::reap).find(|(ended, _)| *ended == child);
                match ended {
                    // A command that only prepares something may end successfully, and earlier.
                    Some((_, 0)) if ready.is_none() => return Ok(None),
                    Some((_, code)) => {
                        tell!(
                            "the {name} command `{command}` ended with status {code} before it listened"
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

/// Returns true if a socket listens in the network namespace of this process: at this port, or at any.
fn is_ready(port: Option<u16>) -> bool {
    [SocketTable::Tcp, SocketTable::Udp, SocketTable::Raw, SocketTable::Packet]
        .iter()
        .any(|table| table.has(port))
}

fn start(command: &[OsString], host: RawFd) -> Result<i32, u8> {
    let Some((program, arguments)) = command.split_first() else { return Err(NOT_FOUND) };
    let mut command = Command::new(program);
    command.args(arguments).env_remove(VARIABLE);
    let prepare = move || {
        namespace::enter(None, host)?;
        signals::let_through()
    };
    // SAFETY: the closure only makes async-signal-safe calls.
    unsafe { command.pre_exec(prepare) };
    command.spawn().map(|child| child.id().cast_signed()).map_err(|e| {
        tell!("cannot run `{}`: {e}", program.to_string_lossy());
        if e.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
    })
}

/// Waits for a command, and then ends those beside it; returns its exit code.
fn wait(id: i32, mut beside: Vec<(i32, &str)>, talk: Talk) -> u8 {
    let code = loop {
        match signals::take(None) {
            TakenSignal::Child => {
                let ended: Vec<(i32, u8)> = iter::from_fn(signals::reap).collect();
                let code_of =
                    |child| ended.iter().find(|(one, _)| *one == child).map(|(_, code)| *code);
                beside.retain(|(id, name)| {
                    let code = code_of(*id);
                    if let Some(code) = code.filter(|code| *code != 0 && talk == Talk::All) {
                        tell!("the {name} command ended with status {code}");
                    }
                    code.is_none()
                });
                if let Some(code) = code_of(id) {
                    break code;
                }
            }
            TakenSignal::Sent(signal) => signals::send(id, signal),
            TakenSignal::FromTerminal | TakenSignal::Nothing => {}
        }
    };
    end(beside.into_iter().map(|(id, _)| id).collect());
    code
}

/// Sends SIGTERM to the process groups of commands, and gives them time to end; any remaining process ends with this
/// one.
fn end(mut groups: Vec<i32>) {
    groups.iter().for_each(|group| signals::send(-group, libc::SIGTERM));
    let began = Instant::now();
    loop {
        let ended: Vec<i32> = iter::from_fn(signals::reap).map(|(ended, _)| ended).collect();
        groups.retain(|group| !ended.contains(group));
        if groups.is_empty() {
            return;
        }
        let left = UNTIL_ENDED.saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        signals::take(Some(left));
    }
}
