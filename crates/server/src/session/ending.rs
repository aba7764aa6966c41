//! End of a trial in a session: its agent is ended, its turn given back, and its line written into the log.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{ClientSession, SessionEnd, stopping};
use crate::ended_trial::EndedTrial;
use crate::grants::Grant;
use crate::pre_auth::close_with;
use crate::relay::TrialEnd;
use crate::running::RunningAgent;
use crate::wait::until;
use deadheat_base::error::Error;
use deadheat_base::foreign;
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_trial::control::{FromAgent, FromServer, heartbeat};

/// Time that an agent that has reported may take to end, unless the client goes on before.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Trial whose relay has ended.
pub(super) struct RanTrial<'a> {
    pub(super) title: &'a str,
    /// Time at which it was started.
    pub(super) began: Nanos,
    pub(super) grant: Arc<Grant>,
    /// Number of its connections that were dropped.
    pub(super) dropped: u64,
    pub(super) is_counted: bool,
}

impl ClientSession<'_> {
    /// Ends the far end of a trial that has run, and concludes it.
    pub(super) fn end(
        &mut self,
        ran: RanTrial<'_>,
        mut running: RunningAgent,
        end: TrialEnd,
    ) -> Result<(), SessionEnd> {
        let RanTrial { title, began, grant, dropped, is_counted } = ran;
        // A connection that takes no options any more is gone, which the next message shows.
        drop(heartbeat::beat(self.client.stream().tcp()));
        if end.is_for_all() {
            grant.end.pull();
        }
        if matches!(end, TrialEnd::Stopped) {
            // Before its data ends, which the client would take for a failure of the contender.
            close_with(self.client.stream(), &FromServer::Stopped(stopping()));
        }
        if matches!(end, TrialEnd::Done | TrialEnd::Fault(_) | TrialEnd::Crashed(_)) {
            self.see_off(&mut running);
        }
        running.agent.kill();
        if grant.has_begun() {
            self.shared.has_served.store(true, Ordering::Relaxed);
        }
        // The remaining messages need no turn.
        let carried = Grant::leave(grant).filter(|_| is_counted);
        let took = Monotonic.now() - began;
        let ended = EndedTrial { title, took, carried, dropped };
        self.conclude(&ended, running, end)
    }

    /// Writes the log line of a trial that has ended, and informs the client if it does not know yet.
    fn conclude(
        &mut self,
        ended: &EndedTrial<'_>,
        mut running: RunningAgent,
        end: TrialEnd,
    ) -> Result<(), SessionEnd> {
        match end {
            TrialEnd::Done => {
                self.log(&ended.line("done in", ""));
                Ok(())
            }
            TrialEnd::Fault(fault) => {
                self.log(&ended.line("failed after", &fault.to_string()));
                Ok(())
            }
            TrialEnd::Crashed(how) => {
                let words = running.agent.last_words();
                let words = words.map_or_else(String::new, |w| format!("; its last words: {w}"));
                self.fail_trial(ended, format!("the agent crashed: {how}{words}"))
            }
            TrialEnd::Astray(how) => {
                self.fail_trial(ended, format!("the agent went astray: {how}"))
            }
            TrialEnd::Late(what) => self.fail_trial(ended, what),
            TrialEnd::CalledOff => self.fail_trial(ended, "the client called it off".into()),
            TrialEnd::Ended => {
                let what = "another far end of the trial ended it for all of them";
                self.fail_trial(ended, what.into())
            }
            TrialEnd::Vanished(how) => {
                self.log(&ended.line("abandoned after", &format!("the client {how}")));
                Err(SessionEnd)
            }
            TrialEnd::Nonsense(what) => {
                self.log(&ended.line("abandoned after", ""));
                Err(self.close(&Error::peer("server", format!("you sent {what}"))))
            }
            TrialEnd::Stopped => {
                self.log(&ended.line("abandoned after", "told to stop"));
                Err(SessionEnd)
            }
        }
    }

    /// Lets an agent that has sent its last message end. An agent with a protocol in user space stays to answer its
    /// peer, and is not needed any more once the client goes on.
    fn see_off(&self, running: &mut RunningAgent) {
        let fds =
            [running.agent.control().as_fd(), self.client.stream().as_fd(), self.stop.as_fd()];
        let ready = until(&fds, Some(Monotonic.now() + FAREWELL));
        if ready.is_ok_and(|ready| ready[0]) {
            running.agent.ended(FAREWELL);
        }
    }

    fn fail_trial(&mut self, ended: &EndedTrial<'_>, what: String) -> Result<(), SessionEnd> {
        self.log(&ended.line("failed after", &what));
        let fault = Error::peer("far end", foreign::short(&what)).to_fault();
        self.send(&FromAgent::Fault(fault))
    }
}
