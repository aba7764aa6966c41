//! Turn of a test that the client of another program runs: the same queue, limits and allowance as of a trial.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::connection_limits::Permit;
use super::ended_trial::EndedTrial;
use super::paid::AllowanceShare;
use super::queue::Turn;
use super::stop::Stop;
use super::{Shared, stop_after_the_last};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::cpu::hold;
use deadheat_datapath::datapath::policer::{BURST, time_at};
use deadheat_datapath::transport::responder::{Charged, NoGrant, TestGrant, TestLimits};

/// Turn of a test.
pub(super) struct TestTurn<'a> {
    shared: &'a Shared,
    stop: &'a Stop,
    peer: SocketAddr,
    /// Name of the responder.
    id: &'static str,
    number: u64,
    limits: TestLimits,
    began: Nanos,
    share: AllowanceShare,
    state: Mutex<TestState>,
}

struct TestState {
    turn: Option<Turn>,
    permit: Option<Permit>,
    title: Option<String>,
    failure: Option<String>,
}

impl<'a> TestTurn<'a> {
    /// Takes the turn for a test of `peer` if it is free, or will be once its last test has rested.
    pub(super) fn take(
        shared: &'a Shared,
        stop: &'a Stop,
        id: &'static str,
        peer: SocketAddr,
    ) -> Result<TestTurn<'a>, NoGrant> {
        let permit = shared.connections.take_test(peer.ip()).map_err(|_| NoGrant::Busy)?;
        let turn = turn(shared, peer)?;
        let limits = shared.config.limits;
        let share = shared.paid.share(peer.ip(), limits.bytes).map_err(NoGrant::Refused)?;
        let (now, patience) = (Monotonic.now(), &shared.config.patience);
        share.account().begin(now);
        let limits = TestLimits {
            duration: limits.duration_ns,
            bytes: share.bytes,
            rate: limits.rate_bps,
            begin: patience.grace,
        };
        let state =
            TestState { turn: Some(turn), permit: Some(permit), title: None, failure: None };
        let (number, state) = (shared.next_trial(), Mutex::new(state));
        Ok(TestTurn { shared, stop, peer, id, number, limits, began: now, share, state })
    }

    fn lock(&self) -> MutexGuard<'_, TestState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the answer to a client that has no turn now.
pub(super) fn busy(shared: &Shared, now: Nanos) -> NoGrant {
    if shared.queue.is_soon_free(now) { NoGrant::Soon } else { NoGrant::Busy }
}

/// Returns the turn if it is this client's, or will be once the bucket of the last test has filled up.
fn turn(shared: &Shared, peer: SocketAddr) -> Result<Turn, NoGrant> {
    let patience = Monotonic.now() + BURST + BURST;
    loop {
        let now = Monotonic.now();
        if let Some(turn) = shared.queue.ask(peer.ip(), now) {
            return Ok(turn);
        }
        match shared.queue.rested_at(now) {
            Some(at) if at < patience => std::thread::sleep((at - now).into()),
            _ => return Err(busy(shared, now)),
        }
    }
}

impl TestGrant for TestTurn<'_> {
    fn limits(&self) -> TestLimits {
        let is_waited_for = self.shared.queue.is_waited_for(self.peer.ip());
        let most = if is_waited_for { self.shared.config.patience.start } else { Nanos(u64::MAX) };
        TestLimits { begin: self.limits.begin.min(most), ..self.limits }
    }

    fn begun(&self, title: &str) {
        let title = format!("trial {} {} {title}", self.number, self.id);
        self.shared.scribe.line(Some(self.peer), &format!("{title} started"));
        let mut state = self.lock();
        state.turn.as_ref().inspect(|turn| turn.begin());
        state.title = Some(title);
    }

    fn hold(&self) {
        let place = self.lock().turn.as_ref().map_or(0, Turn::place);
        if let Some(cpus) = self.shared.cpu_shares.of_place(place)
            && let Err(e) = hold(0, cpus)
        {
            self.shared.scribe.line(Some(self.peer), &e.to_string());
        }
    }

    fn charge(&self, last: Nanos, bytes: [u64; 2]) -> Charged {
        let account = self.share.account();
        let sums = account.add(bytes);
        let due = account.charge(last, bytes.map(|bytes| time_at(self.limits.rate, bytes)));
        Charged {
            is_within_sum: sums.into_iter().all(|sum| sum <= self.limits.bytes),
            due: due.map(|due| due - BURST),
        }
    }

    fn fail(&self, why: &str) {
        self.lock().failure = Some(why.to_owned());
    }
}

impl Drop for TestTurn<'_> {
    fn drop(&mut self) {
        let carried = self.share.account().read();
        let mut state = self.lock();
        let took = Monotonic.now() - self.began;
        let has_begun = state.title.is_some();
        let title =
            state.title.take().unwrap_or_else(|| format!("trial {} {}", self.number, self.id));
        let line = EndedTrial { title: &title, took, carried: Some(carried), dropped: 0 };
        let line = match &state.failure {
            Some(why) => line.line("failed after", why),
            None if has_begun => line.line("done in", ""),
            None => line.line("ended after", "it did not begin"),
        };
        if let Some(turn) = &mut state.turn {
            let most = carried.into_iter().max().unwrap_or(0);
            turn.rest(time_at(self.limits.rate, most).min(BURST));
        }
        drop((state.turn.take(), state.permit.take()));
        drop(state);
        if has_begun {
            self.shared.scribe.line(Some(self.peer), &line);
            self.shared.has_served.store(true, Ordering::Relaxed);
        } else {
            self.shared.scribe.stranger_now(self.peer, &line);
        }
        if self.shared.config.serves_one {
            stop_after_the_last(self.shared, self.stop);
        }
    }
}
