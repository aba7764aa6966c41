//! Races of pages: the plan of each, and its trials so far. Their number and their sizes are bounded.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use deadheat_base::origins::{Admission, Shares};
use deadheat_import::browser::{
    BrowserContender, BrowserPlan, BrowserTrial, BrowserWork, PageFacts, PlannedTrial, TrialSpan,
};
use deadheat_result::outcome::Outcome;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::carrier::MessagePromise;
use crate::carriers;
use crate::tickets::fresh_name;
use crate::work::SeededWork;
use deadheat_base::rng;
use deadheat_base::time::{Clock, Monotonic, Nanos, epoch_ms};

/// Largest number of races at once. Beyond it a new race replaces a race that is over or was silent for [`SILENT`], or a
/// race of the origin with most.
const RACES: Shares = Shares { in_all: 32, of_one: 32 };

/// Silence after which a race may be forgotten for another, and after which it is.
const SILENT: Nanos = Nanos::from_secs(60);
const FORGOTTEN: Nanos = Nanos::from_secs(900);

/// Time of a trial beyond that of its work: to connect, and for late messages.
const GRACE: Nanos = Nanos::from_secs(15);

/// Race that a page asks for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskedRace {
    contenders: Vec<String>,
    work: BrowserWork,
    #[serde(default)]
    blocks: Option<u64>,
    #[serde(default)]
    seed: Option<u32>,
    page: PageFacts,
}

/// Race of a page.
struct PageRace {
    /// Address of its browser.
    of: IpAddr,
    plan: BrowserPlan,
    slots: Vec<PlannedTrial>,
    done: Vec<(PlannedTrial, BrowserTrial)>,
    page: PageFacts,
    running: Option<OpenTurn>,
    touched: Nanos,
}

/// Turn of a race's trial that runs.
struct OpenTurn {
    ticket: String,
    /// Its start, in Unix time and by this host's clock.
    started_ms: u64,
    since: Nanos,
}

/// Next trial of a race.
pub(crate) struct NextTrial {
    pub title: String,
    pub work: SeededWork,
    pub span: Nanos,
    /// Ticket of an earlier turn for the same trial, whose answer the page did not receive.
    pub stale: Option<String>,
}

/// Race after a trial was handed in.
pub(crate) struct AfterTrial {
    /// Ticket of the trial that is over, if it had one.
    pub ticket: Option<String>,
    /// Reason why the trial is in no figure, if it is in none.
    pub why_invalid: Option<String>,
    pub left: usize,
    /// Result so far, at the end of a block.
    pub outcome: Option<Outcome>,
}

/// Races by their names, which cannot be guessed.
#[derive(Default)]
pub(crate) struct RaceTable(Mutex<HashMap<String, PageRace>>);

impl RaceTable {
    /// Plans a race for a browser at an address, and returns the plan for the page.
    ///
    /// # Errors
    /// A sentence for the page.
    pub(crate) fn plan(&self, of: IpAddr, text: &[u8]) -> Result<Value, String> {
        let asked: AskedRace =
            deadheat_base::json::read(text).map_err(|e| format!("the race cannot be read: {e}"))?;
        let race = asked.race(of)?;
        let name = fresh_name().map_err(|e| format!("no random bytes: {e}"))?;
        let order: Vec<&str> = race
            .slots
            .iter()
            .filter_map(|slot| race.plan.contenders.get(slot.contender))
            .map(|contender| contender.id.as_str())
            .collect();
        let answer = json!({
            "race": name,
            "seed": race.plan.seed,
            "blocks": race.plan.blocks,
            "work": race.plan.work.headline(),
            "trials": order,
        });
        let mut races = self.lock();
        make_room(&mut races, of)?;
        races.insert(name, race);
        Ok(answer)
    }

    /// Returns the next trial of a race, if its number is the page's.
    ///
    /// # Errors
    /// A sentence for the page.
    pub(crate) fn next(&self, name: &str, number: usize) -> Result<NextTrial, String> {
        let mut races = self.lock();
        let race = races.get_mut(name).ok_or(NO_RACE)?;
        race.touched = Monotonic.now();
        if race.done.len() != number || number >= race.slots.len() {
            return Err(NOT_NEXT.to_owned());
        }
        let stale = race.running.take().map(|turn| turn.ticket);
        let slot = race.slots[number];
        let label = &race.plan.contenders[slot.contender].label;
        let title = format!("{label}, {}, block {}", race.plan.work.headline(), slot.block + 1);
        let span = Nanos::from_millis(race.plan.work.span_ms()) + GRACE;
        // All contenders of a block have the same random times.
        let work = (race.plan.work, race.plan.seed.wrapping_add(slot.block));
        Ok(NextTrial { title, work, span, stale })
    }

    /// Notes that the next trial of a race has its ticket.
    pub(crate) fn begun(&self, name: &str, ticket: &str) {
        if let Some(race) = self.lock().get_mut(name) {
            let started_ms = epoch_ms(SystemTime::now());
            let since = Monotonic.now();
            race.running = Some(OpenTurn { ticket: ticket.to_owned(), started_ms, since });
        }
    }

    /// Takes the figures of the trial that runs. The same figures once more have the same answer: the page repeats them where it
    /// did not receive the first.
    ///
    /// # Errors
    /// A sentence for the page; the trial is in the race without figures then, if it was the next one.
    pub(crate) fn enter(
        &self,
        name: &str,
        number: usize,
        text: &[u8],
    ) -> Result<AfterTrial, String> {
        let mut races = self.lock();
        let race = races.get_mut(name).ok_or(NO_RACE)?;
        race.touched = Monotonic.now();
        let last = race.done.last().filter(|_| race.done.len() == number.saturating_add(1));
        if last.is_some_and(|(_, trial)| trial.is_of(text)) {
            return Ok(race.after(None));
        }
        if race.done.len() != number || number >= race.slots.len() {
            return Err(NOT_NEXT.to_owned());
        }
        let turn = race.running.take();
        let span = TrialSpan {
            started_ms: turn
                .as_ref()
                .map_or_else(|| epoch_ms(SystemTime::now()), |own| own.started_ms),
            lasted_ms: turn.as_ref().map_or(0.0, |own| (race.touched - own.since).0 as f64 / 1e6),
        };
        let trial = match BrowserTrial::read(race.plan.work, text, span) {
            Ok(trial) if turn.is_some() || trial.why_invalid().is_some() => trial,
            Err(why) if turn.is_some() => BrowserTrial::failed(&why, text, span),
            Ok(_) | Err(_) => BrowserTrial::failed("it had no turn at the server", text, span),
        };
        race.done.push((race.slots[number], trial));
        Ok(race.after(turn.map(|turn| turn.ticket)))
    }

    /// Returns the ticket of the trial that runs in a race whose page is closed.
    pub(crate) fn leave(&self, name: &str) -> Option<String> {
        Some(self.lock().get_mut(name)?.running.take()?.ticket)
    }

    /// Forgets races that were silent for long.
    pub(crate) fn forget_old(&self, now: Nanos) {
        self.lock().retain(|_, race| now - race.touched < FORGOTTEN);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PageRace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageRace {
    /// Returns the state of the race after its last trial so far, which had this ticket.
    fn after(&self, ticket: Option<String>) -> AfterTrial {
        let last = self.done.last();
        let why_invalid = last.and_then(|(_, trial)| trial.why_invalid()).map(str::to_owned);
        let is_whole = self.done.len().is_multiple_of(self.plan.contenders.len() + 1);
        let outcome = is_whole.then(|| self.plan.outcome(&self.done, &self.page));
        AfterTrial { ticket, why_invalid, left: self.slots.len() - self.done.len(), outcome }
    }

    fn is_over(&self) -> bool {
        self.done.len() == self.slots.len()
    }
}

const NOT_NEXT: &str = "this trial is not the next one of its race";
const NO_RACE: &str = "there is no such race, or the server has forgotten it; start a new one";

/// Makes room for one more race of an address.
fn make_room(races: &mut HashMap<String, PageRace>, of: IpAddr) -> Result<(), String> {
    let now = Monotonic.now();
    let mut order: Vec<(&String, &PageRace)> = races.iter().collect();
    order.sort_by_key(|(_, race)| (!race.is_over(), race.running.is_some(), race.touched));
    let gone = match RACES.admit(of, order.iter().map(|(_, race)| race.of)) {
        Admission::Free => return Ok(()),
        Admission::Replaces(at) => Some(order[at]),
        Admission::OwnShare | Admission::Full => None,
    };
    let is_idle = |race: &&(&String, &PageRace)| race.1.is_over() || now - race.1.touched > SILENT;
    let Some(name) = order.iter().find(is_idle).copied().or(gone).map(|(name, _)| name.clone())
    else {
        return Err(format!("{} races run here now; try again later", RACES.in_all));
    };
    races.remove(&name);
    Ok(())
}

impl AskedRace {
    fn race(&self, of: IpAddr) -> Result<PageRace, String> {
        let work = self.work;
        let mut contenders = Vec::new();
        for id in &self.contenders {
            let known = carriers::contenders().find(|(known, _)| known.id == *id);
            let (known, _) = known.ok_or("there is no such contender here")?;
            let needs_all = matches!(
                work,
                BrowserWork::Events { .. } | BrowserWork::Down { .. } | BrowserWork::Up { .. }
            );
            if needs_all && known.promise == MessagePromise::BestEffort {
                return Err(format!("{} may lose messages, and this work needs all", known.label));
            }
            contenders
                .push(BrowserContender { id: known.id.to_owned(), label: known.label.to_owned() });
        }
        let seed = match self.seed {
            Some(seed) => u64::from(seed),
            None => rng::fresh_seed().map_err(|e| e.to_string())?,
        };
        let plan = BrowserPlan::new(contenders, work, self.blocks, seed)?;
        let slots = plan.trials();
        let page = self.page.clone().bounded();
        let touched = Monotonic.now();
        Ok(PageRace { of, plan, slots, done: Vec::new(), page, running: None, touched })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RACE: &[u8] = br#"{"contenders":["websocket","fetch"],"work":{"ping":{"size":64,"count":20,"interval_ms":1}},
        "blocks":2,"seed":7,"page":{"browser":"a test","step_ms":0.1,"loopback_ms":0.05,"isolated":true}}"#;

    #[test]
    fn one_origin_cannot_take_all_races() {
        let races = RaceTable::default();
        let plan = |address: u8| races.plan([10, 0, 0, address].into(), RACE);
        for _ in 0..RACES.in_all {
            plan(1).unwrap();
        }
        let why = plan(1).unwrap_err();
        assert!(why.contains("32 races run here now"), "{why}");
        let honest: Vec<Value> = (0..15).map(|_| plan(2).unwrap()).collect();
        assert!((0..50).all(|_| plan(1).is_err()), "the crowd has more");
        for plan in honest {
            assert!(races.next(plan["race"].as_str().unwrap(), 0).is_ok(), "it is still there");
        }
    }
}
