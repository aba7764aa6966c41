//! Honest clients: races as anybody would run them, one after the other, while the attack goes on.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ground::wait;
use crate::server::{V4, program};

/// Who is not through after so long was shut out. A turn that somebody lets hang takes five seconds, and a
/// server without room is asked again every second. How long it took is judged apart from that.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two blocks of one contender and its hidden copy.
const TRIALS: usize = 4;

/// A short race.
pub(crate) const PING: &[&str] = &["udp", "-w", "ping:count=30,interval=1ms"];

/// What became of honest races.
#[derive(Debug, Default)]
pub(crate) struct Honest {
    pub(crate) races: usize,
    pub(crate) through: usize,
    pub(crate) longest: Duration,
    /// What the last one that did not come through said.
    pub(crate) last_words: String,
}

impl Honest {
    /// Runs `race` once more in `dir`, with `options`; whether it came through.
    pub(crate) fn race(&mut self, dir: &Path, race: &[&str], options: &[&str]) -> bool {
        let began = Instant::now();
        let output = dir.join("honest.json");
        let _ = fs::remove_file(&output);
        let said = dir.join("honest.log");
        let mut child = Command::new(program())
            .args(["race", "--idle", "host"])
            .args(race)
            .args(["--blocks", "2", "-q", "-o", "honest.json", "--to", V4])
            .args(options)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let status = wait(&mut child, PATIENCE);
        let _ = child.kill();
        let _ = child.wait();
        self.races += 1;
        self.longest = self.longest.max(began.elapsed());
        // 3: it ran, and does not trust a host that is under attack.
        let ran =
            status.and_then(|status| status.code()).is_some_and(|code| [0, 3].contains(&code));
        let is_through = ran && trials(&output) >= TRIALS;
        if is_through {
            self.through += 1;
        } else {
            let words = fs::read_to_string(&said).unwrap_or_default();
            let words = words.lines().last().unwrap_or("no word").to_owned();
            self.last_words =
                format!("{}: {words}", status.map_or("shut out".into(), |s| s.to_string()));
        }
        is_through
    }

    /// Runs short races in `dir` for so long; at least one.
    pub(crate) fn for_some(&mut self, time: Duration, dir: &Path, options: &[&str]) {
        let until = Instant::now() + time;
        while self.races == 0 || Instant::now() < until {
            self.race(dir, PING, options);
        }
    }
}

fn trials(file: &Path) -> usize {
    read(file).and_then(|race| Some(race["trials"].as_array()?.len())).unwrap_or(0)
}

/// A saved race; nothing where there is none, or half of one.
pub(crate) fn read(file: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}
