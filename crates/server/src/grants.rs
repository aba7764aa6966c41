//! Grants: the permissions for the trials that run. A grant has the turn, the limits and the share of the allowance of
//! one trial, which all far ends of that trial have together. Its first far end takes them; the others name the grant
//! by its token and join it at once, before the trial begins.
//!
//! A grant ends with its last far end. It ends all of them at once when its client vanishes or calls the trial off, or
//! when its time is up: then the signal [`Grant::end`] wakes the sessions, which kill their agents.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::admit::{AdmittedTrial, Demand};
use super::config::Patience;
use super::paid::{AllowanceShare, Ways};
use super::queue::Turn;
use super::stop::Stop;
use deadheat_base::error::Result;
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_datapath::datapath::account::Account;
use deadheat_datapath::datapath::policer::{BURST, time_at};
use deadheat_datapath::transport::hello::Token;
use deadheat_trial::control::{GrantPlace, Limits};

/// Time by which each further far end of a trial may delay its begin.
const TO_JOIN: Nanos = Nanos::from_millis(250);

/// Grants that several far ends share, by token.
#[derive(Default)]
pub(super) struct Grants(Mutex<HashMap<Token, Weak<Grant>>>);

/// Grant of one trial.
pub(super) struct Grant {
    client: IpAddr,
    /// Number of far ends that were announced.
    nodes: u16,
    limits: Limits,
    /// Number of the trial, for the log.
    pub(super) number: u64,
    /// Signal that ends all far ends.
    pub(super) end: Stop,
    share: AllowanceShare,
    turn: Turn,
    state: Mutex<GrantState>,
}

struct GrantState {
    /// Far ends that have joined, by number.
    joined: Vec<u16>,
    /// Demand of all of them.
    demand: Demand,
    /// Longest duration of any of them, once begun.
    span: Nanos,
    /// Time from which its client is waited for: the begin of the turn, or, with a command, the time at which that is ready or
    /// has to be.
    waits_from: Nanos,
    /// Deadline for the trial's end, once any far end has begun.
    deadline: Option<Nanos>,
}

/// Phase of a trial, with its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialPhase {
    /// No far end has begun: the first must by this time.
    Connects(Nanos),
    /// The far ends run: they must have ended by this time.
    Runs(Nanos),
}

impl TrialPhase {
    /// Returns the deadline.
    pub(super) fn deadline(self) -> Nanos {
        match self {
            TrialPhase::Connects(deadline) | TrialPhase::Runs(deadline) => deadline,
        }
    }
}

/// Size of a far end, as its grant counts it.
#[derive(Debug, Clone)]
pub(super) struct FarEndSize {
    pub(super) demand: Demand,
    /// Longest duration, once started.
    pub(super) span: Nanos,
    /// Place among the trial's far ends here, if there are several.
    pub(super) place: Option<GrantPlace>,
    /// Longest time until it is ready, before a client can begin: of a command, which starts by itself.
    pub(super) until_ready: Nanos,
}

impl AdmittedTrial {
    /// Returns the size of its far end.
    pub(super) fn size(&self) -> FarEndSize {
        let (demand, until_ready) = (self.demand.clone(), Nanos::ZERO);
        FarEndSize { demand, span: self.span, place: self.place, until_ready }
    }
}

/// Terms under which a server makes a grant.
pub(super) struct GrantTerms {
    pub(super) client: IpAddr,
    pub(super) number: u64,
    pub(super) limits: Limits,
    pub(super) turn: Turn,
    pub(super) share: AllowanceShare,
    pub(super) now: Nanos,
}

impl Grants {
    /// Makes the grant for the first far end of a trial; the error is the reason why there is none.
    pub(super) fn make(&self, terms: GrantTerms, size: FarEndSize) -> Result<Arc<Grant>, String> {
        let GrantTerms { client, number, limits, turn, share, now } = terms;
        let FarEndSize { demand, span, place, until_ready } = size;
        enough(demand.most_bytes, share.bytes)?;
        let end = Stop::new().map_err(|e| e.to_string())?;
        let state = GrantState {
            joined: vec![place.map_or(0, |place| place.node)],
            demand,
            span,
            waits_from: now + until_ready,
            deadline: None,
        };
        let nodes = place.map_or(1, |place| place.nodes);
        let (client, state) = (client.to_canonical(), Mutex::new(state));
        let grant = Grant { client, nodes, limits, number, end, share, turn, state };
        let grant = Arc::new(grant);
        if let Some(place) = place {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, grant| grant.strong_count() > 0);
            if all.contains_key(&place.token) {
                return Err("another trial has this grant's token; it is 128 fresh random bits \
                            for each trial"
                    .into());
            }
            all.insert(place.token, Arc::downgrade(&grant));
        }
        Ok(grant)
    }

    /// Joins a far end to the grant that its plan names; the error is the reason why it may not.
    pub(super) fn join(
        &self,
        client: IpAddr,
        place: GrantPlace,
        size: &FarEndSize,
        cpus: &[usize],
    ) -> Result<Arc<Grant>, String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let grant = all.get(&place.token).and_then(Weak::upgrade);
        // The answer to a client does not show whether another client's grant exists.
        let grant = grant.filter(|grant| grant.client == client.to_canonical()).ok_or(
            "no trial of yours runs here that this far end could join; its first far end opens it, and may have \
             been ended",
        )?;
        drop(all);
        grant.join(place, size, cpus)?;
        Ok(grant)
    }
}

impl Grant {
    fn join(&self, place: GrantPlace, size: &FarEndSize, cpus: &[usize]) -> Result<(), String> {
        let mut state = self.lock();
        if place.nodes != self.nodes || place.node >= self.nodes {
            return Err(format!(
                "this trial was announced with {} far ends here; no more may join it",
                self.nodes
            ));
        }
        if state.joined.contains(&place.node) {
            return Err(format!("far end {} of this trial is here already", place.node + 1));
        }
        if self.end.is_pulled() || state.deadline.is_some() {
            return Err("this trial has begun or ended; no far end joins it any more".into());
        }
        let sum = state.demand.beside(&size.demand);
        sum.check(&self.limits, cpus).map_err(|e| format!("with all its far ends here, {e}"))?;
        enough(sum.most_bytes, self.share.bytes)?;
        (state.demand, state.span) = (sum, state.span.max(size.span));
        state.joined.push(place.node);
        Ok(())
    }

    /// Returns the account of all far ends.
    pub(super) fn account(&self) -> &Account {
        self.share.account()
    }

    /// Returns the limits of all far ends together, as an agent gets them: each may use its part of the memory.
    pub(super) fn limits(&self) -> Limits {
        let concurrent = self.limits.concurrent.saturating_mul(self.nodes.into());
        Limits { bytes: self.share.bytes, concurrent, ..self.limits }
    }

    /// Returns the place of its turn among those at once.
    pub(super) fn place(&self) -> u32 {
        self.turn.place()
    }

    /// Returns true if any of its far ends has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.lock().deadline.is_some()
    }

    /// Returns the number of far ends that were announced.
    pub(super) fn nodes(&self) -> u16 {
        self.nodes
    }

    /// Returns the longest duration of the trial, once begun.
    pub(super) fn span(&self) -> Nanos {
        self.lock().span
    }

    /// Returns the time that the trial may take to begin, `grace` for its first far end.
    pub(super) fn to_begin(&self, grace: Nanos) -> Nanos {
        grace + Nanos(TO_JOIN.0 * u64::from(self.nodes - 1))
    }

    /// Returns the time from which its client is waited for.
    pub(super) fn waits_from(&self) -> Nanos {
        self.lock().waits_from
    }

    /// Marks that a command is ready at `now`, so that its client can begin.
    pub(super) fn be_ready(&self, now: Nanos) {
        let mut state = self.lock();
        state.waits_from = state.waits_from.min(now);
    }

    /// Returns the phase of the trial.
    pub(super) fn phase(&self, patience: &Patience) -> TrialPhase {
        let state = self.lock();
        let connects = TrialPhase::Connects(state.waits_from + self.to_begin(patience.grace));
        state.deadline.map_or(connects, TrialPhase::Runs)
    }

    /// Marks that a far end was started at `now`: the first of them sets the deadline of all.
    pub(super) fn begin(&self, now: Nanos, patience: &Patience) {
        let mut state = self.lock();
        let deadline = now + state.span + patience.grace;
        state.deadline.get_or_insert(deadline);
        drop(state);
        self.turn.begin();
    }

    /// Leaves the grant. The last far end gets the bytes of all, and returns turn and share.
    pub(super) fn leave(grant: Arc<Grant>) -> Option<Ways> {
        let grant = Arc::into_inner(grant)?;
        Some(grant.account().read())
    }

    fn lock(&self) -> MutexGuard<'_, GrantState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let most = self.account().read().into_iter().max().unwrap_or(0);
        // So the bursts of successive trials do not add up to more than the rate.
        self.turn.rest(time_at(self.limits.rate_bps, most).min(BURST));
    }
}

/// Checks that the largest number of bytes of a trial fits into its share of the allowance.
fn enough(most: Option<u64>, left: u64) -> Result<(), String> {
    match most {
        Some(most) if most > left => Err(format!(
            "this trial carries up to {}, and only {} are left of what this server's operator allows \
             (--max-total, --max-per-client)",
            Bytes(most),
            Bytes(left)
        )),
        _ => Ok(()),
    }
}
