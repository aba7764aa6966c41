//! The server under attack: started, looked at from outside, and ended as an operator would.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::ground::wait;

/// Where it listens, in a namespace of its own.
pub(crate) const V4: &str = "127.0.0.1:5210";

/// The same port over IPv6.
pub(crate) const V6: &str = "[::1]:5210";

/// Longer than a stranger is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a login shell has; a server may raise it as far as the host allows.
const FILES: u64 = 1_024;

/// The program under attack.
pub(crate) fn program() -> PathBuf {
    let other = std::env::var_os("DEADHEAT_UNDER_ATTACK");
    other.map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_deadheat")), PathBuf::from)
}

/// What a server holds at one moment. The thread of a connection, and its stack, may outlive its descriptors
/// by a moment.
#[derive(Clone, Copy)]
pub(crate) struct Holdings {
    pub(crate) files: usize,
    pub(crate) threads: usize,
    /// In kB, as [`Server::memory`] says it.
    pub(crate) memory: u64,
}

impl Holdings {
    /// A tenth more memory, and `kept` kB.
    pub(crate) fn and_kept(self, kept: u64) -> Holdings {
        Holdings { memory: self.memory + self.memory / 10 + kept, ..self }
    }

    fn within(self, limit: Holdings) -> bool {
        self.files <= limit.files && self.threads <= limit.threads && self.memory <= limit.memory
    }
}

/// A running `deadheat serve`; killed when dropped.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts it with these options in `dir`, with no more descriptors than `files` if that is said.
    pub(crate) fn start(dir: &Path, options: &[&str], files: Option<u64>) -> Server {
        let log = dir.join("server.log");
        let mut command = Command::new(program());
        command
            .args(["serve", "--bind", "[::]:5210"])
            .args(options)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap());
        // SAFETY: between fork and exec only setrlimit(2) is called.
        unsafe { command.pre_exec(move || limit_files(files)) };
        let server = Server { child: command.spawn().unwrap(), log };
        let until = Instant::now() + PATIENCE;
        while !server.said().contains("listens at") {
            assert!(Instant::now() < until, "it does not listen: {}", server.said());
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Its log so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }

    /// Its memory in kB, without the pages of files (its own code) that it has touched; 0 where it is gone.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(self.proc("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    /// What it holds now.
    pub(crate) fn holds(&self) -> Holdings {
        let count = |what| fs::read_dir(self.proc(what)).map_or(0, Iterator::count);
        Holdings { files: count("fd"), threads: count("task"), memory: self.memory() }
    }

    /// Waits until it holds no more than `limit`, as long as a stranger is waited for; what it holds then.
    pub(crate) fn calm_down(&self, limit: Holdings) -> Holdings {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = self.holds();
            if now.within(limit) || Instant::now() >= until {
                return now;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it with SIGTERM; what was wrong with how it lived and ended.
    pub(crate) fn end(mut self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(status) = self.child.try_wait().unwrap() {
            faults.push(format!("the server was gone: {status}"));
        }
        // SAFETY: kill(2) takes integers, and the process is a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        match wait(&mut self.child, PATIENCE) {
            Some(status) if status.success() => {}
            Some(status) => faults.push(format!("SIGTERM: {status}")),
            None => faults.push("SIGTERM did not end it".into()),
        }
        let said = self.said();
        if !said.lines().last().is_some_and(|line| line.contains("stopped")) {
            faults.push("no summary at the end".into());
        }
        for word in ["panicked", "fault in deadheat", "went astray"] {
            if let Some(line) = said.lines().find(|line| line.contains(word)) {
                faults.push(format!("log: {line}"));
            }
        }
        if said.chars().any(|c| c.is_control() && c != '\n') {
            faults.push("control characters in the log".into());
        }
        faults
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn limit_files(files: Option<u64>) -> std::io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a pointer to one rlimit, which `limit` is.
    let done = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_max = limit.rlim_max.min(files.unwrap_or(limit.rlim_max));
        limit.rlim_cur = limit.rlim_max.min(FILES);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The address of the server that an attacker of this family has to dial.
pub(crate) fn at(source: SocketAddr) -> SocketAddr {
    if source.is_ipv4() { V4 } else { V6 }.parse().unwrap()
}
