//! Log for the operator. Lines that unauthenticated peers cause are limited per origin and in total, so that greetings
//! cannot fill a disk. A thread of its own writes them, so that a log that accepts no lines for a while (a stopped
//! terminal, a full pipe) does not block the server: lines that do not fit are dropped, and counted.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use deadheat_base::origins::origin;
use deadheat_base::process::spawn;

use deadheat_base::error::Result;
use deadheat_base::foreign;
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Sink of log lines, which adds the time of day.
pub trait Log: Send + Sync {
    /// Writes one line, without its end; never with control characters.
    fn line(&self, line: &str);
}

impl<F: Fn(&str) + Send + Sync> Log for F {
    fn line(&self, line: &str) {
        self(line);
    }
}

/// Largest number of unwritten lines.
const MOST_WAITING: usize = 1_024;

/// Longest time that a stopping server waits for its last lines to be written.
const LAST_LINES: Nanos = Nanos::from_millis(500);

/// Pause before the next look at a full backlog.
const PAUSE: Nanos = Nanos::from_millis(5);

/// Log with a thread of its own that writes the lines. Clones share the thread.
#[derive(Clone)]
pub struct Backlog {
    lines: SyncSender<LogEntry>,
    left_out: Arc<AtomicU64>,
}

enum LogEntry {
    Line(String),
    /// Mark that all lines before it have been written.
    Mark(Sender<()>),
}

impl Backlog {
    /// Starts the thread that writes to `log`.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Setup`] if the host refuses a thread.
    pub fn new(log: Box<dyn Log>) -> Result<Backlog> {
        let (lines, waiting) = sync_channel(MOST_WAITING);
        let left_out = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&left_out);
        spawn("log", move || write_all(&*log, &waiting, &count))?;
        Ok(Backlog { lines, left_out })
    }

    /// Waits until all lines so far have been written, for half a second at most.
    pub fn flush(&self) {
        let (mark, written) = channel::<()>();
        let (mut entry, until) = (LogEntry::Mark(mark), Monotonic.now() + LAST_LINES);
        while let Err(TrySendError::Full(again)) = self.lines.try_send(entry) {
            if Monotonic.now() >= until {
                return;
            }
            std::thread::sleep(PAUSE.into());
            entry = again;
        }
        // After that time they stay unwritten.
        let _ = written.recv_timeout((until - Monotonic.now()).into());
    }
}

impl Log for Backlog {
    fn line(&self, line: &str) {
        if self.lines.try_send(LogEntry::Line(line.to_owned())).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_all(log: &dyn Log, waiting: &Receiver<LogEntry>, left_out: &AtomicU64) {
    for entry in waiting {
        match entry {
            LogEntry::Line(line) => log.line(&line),
            LogEntry::Mark(mark) => drop(mark.send(())),
        }
        let lines = left_out.swap(0, Ordering::Relaxed);
        if lines > 0 {
            log.line(&format!("{lines} lines are left out: the log took none for a while"));
        }
    }
}

/// Writer of log lines: without limit about trials, which cost a process each, and limited about unauthenticated peers.
pub(super) struct Scribe {
    log: Box<dyn Log>,
    meter: Mutex<Meter>,
}

impl Scribe {
    pub(super) fn new(log: Box<dyn Log>) -> Scribe {
        Scribe { log, meter: Mutex::new(Meter::default()) }
    }

    /// Writes a line about an event that is limited by itself, such as a trial.
    pub(super) fn line(&self, peer: Option<SocketAddr>, what: &str) {
        let what = foreign::short(what);
        match peer {
            Some(peer) => self.log.line(&format!("{peer} {what}")),
            None => self.log.line(&what),
        }
    }

    /// Writes a line that a peer can cause at will.
    pub(super) fn stranger(&self, now: Nanos, peer: SocketAddr, what: &str) {
        let verdict =
            self.meter.lock().unwrap_or_else(PoisonError::into_inner).judge(origin(peer.ip()), now);
        match verdict {
            LineVerdict::Write => self.line(Some(peer), what),
            LineVerdict::Last => self.line(
                Some(peer),
                &format!("{what} (further lines about this origin are left out for a minute)"),
            ),
            LineVerdict::LeaveOut => {}
        }
    }

    /// Writes like [`Scribe::stranger`] at the current time, for threads without a time at hand.
    pub(super) fn stranger_now(&self, peer: SocketAddr, what: &str) {
        self.stranger(Monotonic.now(), peer, what);
    }
}

/// Largest number of lines per origin and window, and in total.
const PER_ORIGIN: u32 = 10;
const IN_ALL: u32 = 200;
const WINDOW: Nanos = Nanos::from_secs(60);

#[derive(Debug, PartialEq, Eq)]
enum LineVerdict {
    Write,
    Last,
    LeaveOut,
}

/// Counter of lines in windows of a minute. Restarting each minute also bounds its memory: it holds no more origins
/// than lines are written.
#[derive(Default)]
struct Meter {
    began: Nanos,
    written: u32,
    by_origin: HashMap<IpAddr, u32>,
}

impl Meter {
    fn judge(&mut self, origin: IpAddr, now: Nanos) -> LineVerdict {
        if now - self.began >= WINDOW {
            *self = Meter { began: now, ..Meter::default() };
        }
        if self.written >= IN_ALL {
            return LineVerdict::LeaveOut;
        }
        let count = self.by_origin.entry(origin).or_default();
        if *count >= PER_ORIGIN {
            return LineVerdict::LeaveOut;
        }
        *count += 1;
        self.written += 1;
        if *count == PER_ORIGIN || self.written == IN_ALL {
            LineVerdict::Last
        } else {
            LineVerdict::Write
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_origin_gets_ten_lines_a_minute_and_others_still_get_theirs() {
        let mut meter = Meter::default();
        let now = Nanos::from_secs(100);
        let got: Vec<LineVerdict> = (0..12).map(|_| meter.judge(ip("10.0.0.1"), now)).collect();
        assert!(got[..9].iter().all(|verdict| *verdict == LineVerdict::Write));
        assert_eq!(got[9], LineVerdict::Last);
        assert_eq!(got[11], LineVerdict::LeaveOut);
        assert_eq!(meter.judge(ip("10.0.0.2"), now), LineVerdict::Write);
        let later = now + WINDOW;
        assert_eq!(meter.judge(ip("10.0.0.1"), later), LineVerdict::Write);
    }

    #[test]
    fn all_origins_together_are_bounded_in_lines_and_memory() {
        let mut meter = Meter::default();
        let written = (0..10_000u32)
            .filter(|n| meter.judge(IpAddr::V4((*n).into()), Nanos(1)) != LineVerdict::LeaveOut)
            .count();
        assert_eq!(written, IN_ALL as usize);
        assert!(meter.by_origin.len() <= IN_ALL as usize);
    }

    /// Log that accepts no line until it is released; writers are not blocked meanwhile.
    #[test]
    fn a_log_that_stalls_blocks_nobody_and_says_what_it_left_out() {
        let (held, hold) = channel::<()>();
        let (wrote, written) = channel();
        let hold = Mutex::new(hold);
        let slow = move |line: &str| {
            // The sender is dropped without a message, so later calls return at once.
            let _ = hold.lock().unwrap().recv();
            wrote.send(line.to_owned()).unwrap();
        };
        let backlog = Backlog::new(Box::new(slow)).unwrap();
        const LINES: usize = 10 * MOST_WAITING;
        for line in 0..LINES {
            backlog.line(&line.to_string());
        }
        drop(held);
        // Its thread ends with the last line.
        drop(backlog);
        let all: Vec<String> = written.iter().collect();
        let said = all.iter().find_map(|line| {
            line.strip_suffix(" lines are left out: the log took none for a while")
        });
        let left_out: usize = said.unwrap().parse().unwrap();
        assert_eq!(all.len() - 1 + left_out, LINES, "every line is written or counted");
        assert!(left_out >= LINES - MOST_WAITING - 2, "{left_out}");
    }
}
