//! Any program on an emulated network: `deadheat path run` and `deadheat-path run`.
//!
//! It is for a process of its own rather than for a part of one: it takes the signals of its process, which should
//! have no other thread, describes the network on standard error, and starts the program once more; its `main`
//! must call [`enter`] first.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::course::Course;
use self::signals::TakenSignal;
use self::task::{BesideCommand, Task};
use crate::emulator::{BuiltNetwork, Emulator};
use crate::measurements::Captured;
use crate::nat::nat64;
use crate::network;
use crate::observe::{Capture, Observation, pcapng};
use deadheat_base::ends::Side;
use deadheat_base::error::{Error, Result};
use deadheat_base::rng::fresh_seed;

/// Writes a line to standard error. If that is closed, the commands run all the same.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "deadheat: {}", format_args!($($text)*));
    }};
}

mod account;
mod course;
mod init;
mod keeper;
mod signals;
mod task;

pub use keeper::enter;

/// Request: the commands to run, and the network to run them on.
#[derive(Debug, Clone)]
pub struct Request {
    /// Network as typed: `delay=20ms,loss=1%,rate=20mbit`.
    pub path: String,
    /// Host of the command; the near one if none is named.
    pub host: Option<String>,
    /// Commands at other hosts, in a shell, started in this order before the command and ended with it: the host's
    /// name and the command.
    pub beside: Vec<(String, String)>,
    /// Command on the far host, likewise, started first.
    pub far: Option<String>,
    /// Port at which something on the far host must listen before the next command starts; without one, as at the
    /// other hosts, it starts once anything listens there, or after a second.
    pub far_ready: Option<u16>,
    /// Amount of messages.
    pub talk: Talk,
    /// Time between two lines on what the path does while the commands run; `None` without such lines.
    pub every: Option<Duration>,
    /// File for a capture of all packets, which must not exist; `None` without one.
    pub pcap: Option<PathBuf>,
    /// Command. `$DEADHEAT_FAR` and the like are replaced in it.
    pub command: Vec<OsString>,
}

/// Amount of messages about the network on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Talk {
    /// Errors only.
    Errors,
    /// All messages: the network that was built, and its figures.
    All,
}

/// Builds the network, runs the commands, and removes the network; returns the exit status of the near command as a
/// shell reports it.
///
/// # Errors
/// Fails if the path is invalid or cannot be built here, and if the commands cannot be started.
pub fn run(request: Request) -> Result<u8> {
    signals::hold();
    let talk = request.talk;
    let emulator = Emulator::start(&request.path)?;
    let seed = match emulator.built().seed {
        Some(seed) => seed,
        None => fresh_seed()?,
    };
    let built = emulator.built();
    let (host, beside) = placed(&request, built)?;
    if let Some(file) = &request.pcap {
        observe(&emulator, file, &request.path)?;
    }
    emulator.begin(seed)?;
    say(talk, account::built(built, seed));
    let variables = variables(built);
    let command: Vec<OsString> =
        request.command.into_iter().map(|argument| expand(argument, &variables)).collect();
    let task = Task {
        parent: std::process::id(),
        user: None,
        hosts: Vec::new(),
        host,
        beside,
        names: names(built),
        talk,
    };
    let terminal = Terminal::take_note();
    let keeper = keeper::start(task, emulator.namespaces(), &command, &variables)?;
    let ways: Vec<[String; 2]> = built.links.iter().map(|link| link.ways.clone()).collect();
    let code = wait(keeper, &emulator, Course::new(request.every, ways.clone()))?;
    terminal.take_back();
    say(talk, account::account(&ways, &emulator.end()?));
    let Some(Captured { packets, left_out, failure }) = emulator.capture()? else {
        return Ok(code);
    };
    if let Some(failure) = failure {
        tell!("nothing is captured: {failure}");
    } else if left_out > 0 {
        tell!("{packets} packets captured, and {left_out} left out, which had no room");
    }
    Ok(code)
}

/// Makes the emulator capture all packets to a new file.
fn observe(emulator: &Emulator, file: &Path, path: &str) -> Result<()> {
    let file = std::path::absolute(file)
        .map_err(|e| Error::setup(format!("find the folder of {}", file.display()), e))?;
    pcapng::create(&file)?;
    let capture = Capture { file: file.clone(), title: format!("path run {path}") };
    let observation = Observation { wire: false, capture: Some(capture) };
    emulator.observe(observation).inspect_err(|_| drop(std::fs::remove_file(file)))
}

fn say(talk: Talk, lines: Vec<String>) {
    if talk == Talk::All {
        for line in lines {
            tell!("{line}");
        }
    }
}

/// Waits until the commands have ended, and writes the lines of `course` meanwhile; returns their exit code.
fn wait(mut keeper: Child, emulator: &Emulator, mut course: Course) -> Result<u8> {
    let id = keeper.id().cast_signed();
    loop {
        if course.is_due() {
            match emulator.end() {
                Ok(figures) => tell!("{}", course.line(figures)),
                // The code below finds an emulator that has ended; an emulator without figures may have them at the end.
                Err(_) => course.end(),
            }
        }
        match signals::take(course.left()) {
            TakenSignal::Child => {
                let failed = |e| Error::setup("wait for the commands", e);
                if let Some(status) = keeper.try_wait().map_err(failed)? {
                    use std::os::unix::process::ExitStatusExt;
                    let signal = status.signal().map(|signal| 128 + signal);
                    return Ok(status.code().or(signal).unwrap_or(1) as u8);
                }
                if emulator.is_gone() {
                    let _ = keeper.kill();
                    let _ = keeper.wait();
                    // This error has the emulator's last message.
                    emulator.end()?;
                }
            }
            TakenSignal::Sent(signal) => signals::send(id, signal),
            TakenSignal::FromTerminal | TakenSignal::Nothing => {}
        }
    }
}

/// Parses a command that runs beside the main command: `HOST=COMMAND`.
///
/// # Errors
/// [`Error::Usage`] for anything else.
pub fn beside(typed: &str) -> Result<(String, String)> {
    let parts = typed.split_once('=').map(|(host, command)| (host.trim(), command.trim()));
    match parts.filter(|(host, command)| !host.is_empty() && !command.is_empty()) {
        Some((host, command)) => Ok((host.to_owned(), command.to_owned())),
        None => Err(Error::usage(format!(
            "`{typed}` is no HOST=COMMAND, such as 'relay=turnserver -n'"
        ))),
    }
}

/// Returns the host of the command, and the commands beside it with theirs.
fn placed(request: &Request, built: &BuiltNetwork) -> Result<(usize, Vec<BesideCommand>)> {
    let find = |name: &str| built.index(name);
    let near = Ok(built.host(Side::Near));
    let host = request.host.as_deref().map_or(near, find)?;
    let far = request.far.iter().map(|far| (network::FAR, far, request.far_ready));
    let others = request.beside.iter().map(|(name, command)| (name.as_str(), command, None));
    let beside = far.chain(others).map(|(name, command, ready)| {
        Ok(BesideCommand { host: find(name)?, name: name.into(), command: command.clone(), ready })
    });
    Ok((host, beside.collect::<Result<_>>()?))
}

/// Returns lines for /etc/hosts: each host at the addresses by which others know it.
fn names(built: &BuiltNetwork) -> String {
    let line = |(name, host): (&str, usize)| {
        let known = built.known.get(host).into_iter().flatten();
        known.map(|address| format!("{address} {name}\n")).collect::<String>()
    };
    built.names().into_iter().map(line).collect()
}

/// Returns the environment variables for the commands.
fn variables(built: &BuiltNetwork) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (name, host) in built.names() {
        let name = name.to_uppercase().replace('-', "_");
        let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = built.of_host(host).partition(IpAddr::is_ipv6);
        let known = built.known.get(host).into_iter().flatten().copied();
        let mapped = known.filter(|at| nat64::is_mapped(*at)).collect();
        for (version, own) in [("", v4), ("6", v6), ("64", mapped)] {
            for (link, address) in own.into_iter().enumerate() {
                let link = if link == 0 { String::new() } else { format!("_{}", link + 1) };
                variables.push((format!("DEADHEAT_{name}{version}{link}"), address.to_string()));
            }
        }
    }
    variables
}

/// Replaces `$NAME` and `${NAME}` in the argument by the variables' values: the user's shell did not know them yet.
fn expand(argument: OsString, variables: &[(String, String)]) -> OsString {
    let Some(text) = argument
        .to_str()
        .filter(|text| text.contains("$DEADHEAT_") || text.contains("${DEADHEAT_"))
    else {
        return argument;
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let braced = after.strip_prefix('{');
        let from = braced.unwrap_or(after);
        let end =
            from.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(from.len());
        let (name, mut tail) = from.split_at(end);
        let known = variables.iter().find(|(known, _)| known == name);
        let closed = braced.is_none() || tail.starts_with('}');
        match known.filter(|_| closed) {
            Some((_, value)) => {
                out.push_str(value);
                if braced.is_some() {
                    tail = &tail[1..];
                }
                rest = tail;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.into()
}

/// Foreground process group of the terminal, to restore after a shell that changed it.
struct Terminal {
    group: Option<i32>,
}

impl Terminal {
    fn take_note() -> Terminal {
        // SAFETY: the calls take integers or nothing.
        let (group, own) = unsafe { (libc::tcgetpgrp(libc::STDIN_FILENO), libc::getpgrp()) };
        let foreground = std::io::stdin().is_terminal() && group == own;
        Terminal { group: foreground.then_some(own) }
    }

    fn take_back(&self) {
        let Some(group) = self.group else { return };
        // SAFETY: the calls take integers and a set that is made here. With SIGTTOU blocked, a background process
        // may do this (tcsetpgrp(3)).
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTTOU);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            libc::tcsetpgrp(libc::STDIN_FILENO, group);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_variables_are_replaced_and_everything_else_stays() {
        let variables = [("DEADHEAT_FAR", "198.18.0.2"), ("DEADHEAT_FAR_2", "198.18.1.2")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expanded = |text: &str| expand(text.into(), &variables).into_string().unwrap();
        assert_eq!(expanded("$DEADHEAT_FAR"), "198.18.0.2");
        assert_eq!(expanded("tcp://${DEADHEAT_FAR}:80/"), "tcp://198.18.0.2:80/");
        assert_eq!(expanded("$DEADHEAT_FAR:$DEADHEAT_FAR_2$"), "198.18.0.2:198.18.1.2$");
        for same in ["$HOME", "$DEADHEAT_FARTHER", "${DEADHEAT_FAR", "$5 for $DEADHEAT_", "$"] {
            assert_eq!(expanded(same), same);
        }
    }
}
