//! From an application and a path to what can be raced: traffic as workloads, contenders that fit, and what each
//! race costs. Nothing runs.

use super::app::App;
use super::axis::Bounds;
use super::outcome::{Considered, Excluded};
use crate::analysis::claims::fewest_for;
use crate::contract::{Delivery, Guarantees, Reach};
use crate::error::{Error, Result};
use crate::measurements::Role;
use crate::path::Path;
use crate::race::plan::SPARE;
use crate::race::request::DEFAULT_CONFIDENCE;
use crate::time::Nanos;
use crate::transport::Contender;
use crate::trial::{misfit, path_time};
use crate::workload::{self, Setting, Task, Traffic};

/// Application on a path, ready to be raced.
#[derive(Debug)]
pub struct Plan {
    /// Path.
    pub path: Path,
    /// The same in virtual time, where the path is emulated and can be simulated.
    pub simulated: Option<Path>,
    /// Traffic, the most important first.
    pub entries: Vec<Entry>,
    /// Contenders that do not fit, and why.
    pub excluded: Vec<Excluded>,
    /// Contenders that carry all traffic, as typed.
    pub eligible: Vec<String>,
}

/// Traffic with its work and the contenders that carry it.
#[derive(Debug)]
pub struct Entry {
    /// As it is saved.
    pub considered: Considered,
    /// Bounds that it sets to a search.
    pub bounds: Bounds,
    /// Approximate duration of a trial in real time.
    pub trial: Nanos,
}

/// Duration of a trial beyond its work: two processes that start, and both ends that part.
const OVERHEAD: Nanos = Nanos::from_millis(150);

/// Round trips of a trial beyond its work: connection, token and the last acknowledgement.
const OVERHEAD_TRIPS: u64 = 2;

/// Duration that is assumed of work which says none.
const UNKNOWN: Nanos = Nanos::from_secs(3);

/// Trials before the first block.
const PILOT: u64 = 2;

impl Plan {
    /// Plans an application on a path. `usual` are the contenders, unless it names its own.
    ///
    /// # Errors
    /// [`Error::Usage`] where path or traffic cannot be read, contradict each other, or nobody fits.
    pub fn make(app: &App, path: &str, usual: &[&str]) -> Result<Plan> {
        let path = Path::parse(path)?;
        let setting = path_time::setting(&path);
        let typed: Vec<String> = match &app.contenders[..] {
            [] => usual.iter().map(|typed| (*typed).to_owned()).collect(),
            named => named.to_vec(),
        };
        let mut excluded = Vec::new();
        let mut fit: Vec<(String, Contender)> = Vec::new();
        for typed in typed {
            let contender = Contender::parse(&typed)?;
            match unfit(app, &contender, &path) {
                Some(why) => excluded.push(Excluded { contender: typed, traffic: None, why }),
                None => fit.push((typed, contender)),
            }
        }
        let mut entries = Vec::new();
        for traffic in &app.traffic {
            entries.push(Entry::of(traffic, app, &setting, &fit, &mut excluded)?);
        }
        let carries_all = |typed: &&String| {
            entries.iter().all(|entry: &Entry| entry.considered.contenders.contains(typed))
        };
        let eligible: Vec<String> =
            fit.iter().map(|(typed, _)| typed).filter(carries_all).cloned().collect();
        if fit.len() < 2 {
            let why: Vec<String> =
                excluded.iter().map(|one| format!("{}: {}", one.contender, one.why)).collect();
            let left = if fit.is_empty() { "no contender is" } else { "one contender alone is" };
            return Err(Error::usage(format!(
                "{left} left, and two are the fewest to compare; {}",
                why.join("; ")
            )));
        }
        let simulated = match &path {
            Path::Emulated(network) if network.links.len() == 1 => {
                let simulated = Path::Simulated(network.clone());
                // Some words mean nothing in virtual time.
                Path::parse(&simulated.to_string()).ok().map(|_| simulated)
            }
            _ => None,
        };
        Ok(Plan { path, simulated, entries, excluded, eligible })
    }

    /// Returns true if the path is in virtual time.
    pub fn is_virtual(&self) -> bool {
        matches!(self.path, Path::Simulated(_))
    }
}

/// Returns the reason why a contender does not fit the application or the path; `None` if it does.
fn unfit(app: &App, contender: &Contender, path: &Path) -> Option<String> {
    let info = contender.transport.info();
    if let Some(why) = app.needs.iter().find_map(|need| need.unmet(&info.guarantees)) {
        return Some(why.to_owned());
    }
    let is_virtual = matches!(path, Path::Simulated(_));
    match info.reach {
        _ if is_virtual => {
            let lacks = contender.transport.userspace().is_none();
            let lacks = lacks.then(|| "a kernel carries it, and none has virtual time".to_owned());
            return contender.transport.needs_real_time().or(lacks);
        }
        Reach::Process => return Some("it is a model for simulated paths only".to_owned()),
        Reach::Machine if *path != Path::Loopback => {
            return Some("it does not leave its host".to_owned());
        }
        _ => {}
    }
    contender.check().err().map(|error| error.to_string())
}

/// Returns true if what is asked of a transport has a lane on which everything arrives.
fn arrives(task: &dyn Task, promised: &Guarantees) -> bool {
    task.lanes(promised).iter().any(|service| service.delivery == Delivery::Reliable)
}

impl Entry {
    fn of(
        traffic: &Traffic,
        app: &App,
        setting: &Setting,
        fit: &[(String, Contender)],
        excluded: &mut Vec<Excluded>,
    ) -> Result<Entry> {
        let work = traffic.work(&app.traffic, setting)?;
        let workload = work.spec.to_string();
        let task = workload::parse_on(&workload, setting)
            .map_err(|error| Error::usage(format!("traffic `{}`: {error}", traffic.name)))?;
        let mut contenders = Vec::new();
        for (typed, contender) in fit {
            let promised = &contender.transport.info().guarantees;
            let loses = traffic.has_to_arrive() && !arrives(&*task, promised);
            let why = misfit(contender, &*task)
                .or_else(|| loses.then(|| "what it loses stays lost".to_owned()));
            match why {
                None => contenders.push(typed.clone()),
                Some(why) => excluded.push(Excluded {
                    contender: typed.clone(),
                    traffic: Some(traffic.name.clone()),
                    why,
                }),
            }
        }
        let metric = task.metrics().into_iter().find(|metric| metric.role == Role::Claim);
        let none = || Error::usage(format!("`{workload}` has no figure to compare by"));
        let considered = Considered {
            name: traffic.name.clone(),
            metric: metric.ok_or_else(none)?,
            limit_ns: work.limit.map(|limit| limit.0),
            workload,
            contenders,
        };
        let lasts = task.lengths().map(|l| Nanos(l.fewest.saturating_mul(l.unit_ns)));
        let trips = Nanos(OVERHEAD_TRIPS * setting.rtt.unwrap_or_default().0);
        Ok(Entry {
            considered,
            bounds: Bounds { limit: work.limit, offered_bps: work.offered_bps },
            trial: task.planned().or(lasts).unwrap_or(UNKNOWN) + OVERHEAD + trips,
        })
    }

    /// Returns the time that a race of `n` contenders surely takes until its first verdict can be given.
    pub fn costs(&self, n: usize) -> Nanos {
        let claims = n * n.saturating_sub(1) / 2;
        let fewest = fewest_for(claims, DEFAULT_CONFIDENCE);
        let fewest = fewest.saturating_add(fewest.div_ceil(SPARE));
        // The control runs in each block, too.
        let trials = fewest.saturating_mul(n as u64 + 1).saturating_add(PILOT);
        Nanos(self.trial.0.saturating_mul(trials))
    }
}

#[cfg(test)]
mod tests {
    use super::super::app;
    use super::*;

    const GAME: &str = r#"
format = 1
title = "A game"
[[traffic]]
name = "world"
kind = "state"
per-second = 60
stale-after = "100ms"
[[traffic]]
name = "shots"
kind = "events"
per-second = 10
"#;

    const USUAL: &[&str] = &["quic", "quic-datagram", "kcp", "sim-datagram"];

    fn plan(text: &str, path: &str) -> Result<Plan> {
        Plan::make(&app::parse(text, "game.toml").unwrap(), path, USUAL)
    }

    fn why<'a>(plan: &'a Plan, contender: &str, traffic: Option<&str>) -> &'a str {
        let is_it =
            |one: &&Excluded| one.contender == contender && one.traffic.as_deref() == traffic;
        &plan.excluded.iter().find(is_it).expect("excluded").why
    }

    #[test]
    fn those_that_do_not_fit_are_named_with_the_reason() {
        let found = plan(GAME, "delay=25ms").unwrap();
        assert_eq!(found.eligible, ["quic", "kcp"]);
        assert_eq!(found.entries[0].considered.contenders, ["quic", "quic-datagram", "kcp"]);
        assert!(why(&found, "sim-datagram", None).contains("simulated paths only"));
        assert!(why(&found, "quic-datagram", Some("shots")).contains("no lane that is reliable"));
        assert!(found.simulated.is_some() && !found.is_virtual());
        let encrypted =
            GAME.replace("[[traffic]]\nname = \"world\"", "needs = [\"encrypted\"]\n$0");
        let encrypted = encrypted.replace("$0", "[[traffic]]\nname = \"world\"");
        let found = plan(&encrypted, "sim:delay=25ms").unwrap();
        assert_eq!(why(&found, "kcp", None), "it is not encrypted");
        assert!(found.simulated.is_none() && found.is_virtual());
    }

    #[test]
    fn contradictions_are_refused_before_anything_runs() {
        let say = |text: &str, path: &str| plan(text, path).expect_err(path).to_string();
        assert!(say(GAME, "delay=100ms").contains("nothing is ever there in time"));
        let rate = say(GAME, "delay=5ms,rate=50kbit");
        assert!(rate.starts_with("traffic `world`: state: it offers 96.0 kbit/s"), "{rate}");
        assert!(say(GAME, "dely=5ms").contains("did you mean `delay`?"));
        let alone = GAME.replacen("[[", "contenders = [\"quic\", \"pipe\"]\n[[", 1);
        let said = say(&alone, "delay=5ms");
        assert!(said.contains("one contender alone is left") && said.contains("pipe: "), "{said}");
        let unknown = GAME.replacen("[[", "contenders = [\"quic\", \"kpc\"]\n[[", 1);
        assert!(say(&unknown, "delay=5ms").contains("did you mean `kcp`?"));
    }

    #[test]
    fn a_race_costs_its_fewest_blocks() {
        let found = plan(GAME, "delay=25ms").unwrap();
        // Two seconds of state, 150 ms and two round trips; three trials in each of six blocks and of two to spare, and
        // two before.
        assert_eq!(found.entries[0].costs(2), Nanos::from_millis(2_250 * 26));
        assert!(found.entries[0].costs(3) > found.entries[0].costs(2));
    }
}
