//! An attack on a server while honest clients race: what all of them have in common.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::honest::{Honest, PING};
use crate::server::{Holdings, Server};
pub(crate) use crate::table::Row;

/// Longer than any attack needs to take up its position.
const SET_UP: Duration = Duration::from_secs(20);

/// The longest that an honest race may take while a server is under attack, where it takes a second without.
const LONGEST: Duration = Duration::from_secs(15);

/// The same on a host on which it takes longer than a second without.
fn longest(without: Duration) -> Duration {
    LONGEST.max(LONGEST * (without.as_millis() as u32) / 1_000)
}

/// Memory in kB that a server may keep beyond a tenth of what it had: what its allocator has not given back, and
/// for a minute a count for each of a thousand origins, so that its log stays short.
const KEPT: u64 = 2 * 1_024;

/// The same where clients send messages of a megabyte: each of the allocator's arenas may keep room for one,
/// and glibc has eight of them for each CPU. It is as much after a thousand messages as after ten thousand.
pub(crate) const KEPT_OF_LARGE: u64 = 8 * 1_024;

/// An attack: throws what it has until it is told to stop, and says what that was. Once it is in position it
/// says so.
pub(crate) type Attack = fn(&Field<'_>) -> String;

/// What an attack sees.
pub(crate) struct Field<'a> {
    stop: &'a AtomicBool,
    ready: Sender<()>,
    faults: &'a Mutex<Vec<String>>,
}

impl Field<'_> {
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Something that the attacker saw and should not have.
    pub(crate) fn fault(&self, what: String) {
        self.faults.lock().unwrap().push(what);
    }

    /// Honest clients may come now.
    pub(crate) fn in_position(&self) {
        let _ = self.ready.send(());
    }
}

/// A server, how it is started, and how long it is attacked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Siege {
    pub(crate) name: &'static str,
    pub(crate) options: &'static [&'static str],
    pub(crate) client: &'static [&'static str],
    pub(crate) files: Option<u64>,
    /// Memory in kB that it may keep, beyond a tenth of what it had.
    pub(crate) kept: u64,
}

/// A server that everybody may use.
pub(crate) const OPEN: Siege =
    Siege { name: "", options: &[], client: &[], files: None, kept: KEPT };

/// A server that only those may use who know the secret, which honest clients do.
pub(crate) const SECRET: Siege = Siege {
    name: "",
    options: &["--secret-file", "secret"],
    client: &["--secret-file", "secret"],
    files: None,
    kept: KEPT,
};

impl Siege {
    /// The attack by itself, with honest clients beside it.
    pub(crate) fn run(self, attack: Attack) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "open sesame").unwrap();
        let server = Server::start(dir.path(), self.options, self.files);
        let idle = server.holds();
        let mut row = Row { name: self.name, ..Row::default() };
        // The second race finds what the first one left warm.
        let mut before = Honest::default();
        for _ in 0..2 {
            before.race(dir.path(), PING, self.client);
        }
        assert_eq!(before.through, 2, "no attack yet: {}\n{}", before.last_words, server.said());
        let warm = Holdings { memory: server.memory(), ..idle };
        let mut honest = Honest::default();
        (row.thrown, row.faults) =
            under(attack, || honest.for_some(crate::seconds(), dir.path(), self.client));
        row.judge_races(&honest, before.longest);
        row.judge_server(&server, warm, self.kept);
        row.still_lives(dir.path(), self.client);
        row.faults.extend(server.end());
        row.conclude();
    }
}

/// Does `what` while `attack` goes on; says what it threw, and what was wrong with what it got.
pub(crate) fn under(attack: Attack, what: impl FnOnce()) -> (String, Vec<String>) {
    let faults = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    let (ready, is_ready) = channel();
    let thrown = std::thread::scope(|scope| {
        let field = Field { stop: &stop, ready, faults: &faults };
        let attacker = scope.spawn(move || attack(&field));
        // An attacker that ended early is no attacker: that shows when it is joined.
        let _ = is_ready.recv_timeout(SET_UP);
        // Set however `what` ends: an attacker that nobody stops would be waited for.
        let over = Over(&stop);
        what();
        drop(over);
        attacker.join().unwrap()
    });
    (thrown, faults.into_inner().unwrap())
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Row {
    /// Holds races under attack to how long one took `without`.
    pub(crate) fn judge_races(&mut self, honest: &Honest, without: Duration) {
        self.honest = format!("{} of {}", honest.through, honest.races);
        self.longest = format!("{:.1} s", honest.longest.as_secs_f64());
        if honest.through < honest.races {
            self.faults.push(format!("honest races shut out ({})", honest.last_words));
        } else if honest.longest > longest(without) {
            self.faults.push(format!("an honest race took {:?}", honest.longest));
        }
    }

    /// Holds what a server has against what it had; it may keep a tenth more memory, and `kept` kB.
    pub(crate) fn judge_server(&mut self, server: &Server, before: Holdings, kept: u64) {
        let limit = before.and_kept(kept);
        let after = server.calm_down(limit);
        self.memory =
            format!("{:.1} to {:.1} MB", before.memory as f64 / 1e3, after.memory as f64 / 1e3);
        if after.files > limit.files {
            self.faults.push(format!("{} descriptors before, {} after", before.files, after.files));
        }
        if after.threads > limit.threads {
            self.faults.push(format!("{} threads before, {} after", before.threads, after.threads));
        }
        if after.memory > limit.memory {
            self.faults.push(format!("{} kB before, {} kB after", before.memory, after.memory));
        }
    }

    fn still_lives(&mut self, dir: &Path, client: &[&str]) {
        let mut after = Honest::default();
        if !after.race(dir, PING, client) {
            self.faults.push(format!("does not serve any more ({})", after.last_words));
        }
    }
}
