//! Signs of life of a client while its trial is measured. Control is silent then, and the data of the trial is the
//! sign; once nothing has arrived from the client for a while, the kernel asks it over control.

use std::net::TcpStream;
use std::time::Duration;

use deadheat_base::time::Nanos;
use deadheat_datapath::datapath::account::Account;
use deadheat_trial::control::heartbeat;

/// Time without a byte from the client after which it is asked.
const QUIET: Nanos = Nanos::from_secs(1);

/// Time between two looks at the bytes.
const LOOK: Nanos = Nanos::from_millis(250);

/// Longest wait for an answer, from the first question on: of three questions, a second apart.
const ANSWER: Nanos = Nanos::from_millis(2_900);

/// Signs of life of one client.
pub(super) struct Pulse<'a> {
    account: &'a Account,
    /// Bytes that have arrived so far.
    arrived: u64,
    /// Time of the last look at which more had arrived.
    fresh: Nanos,
    /// Time of the last message over control, in either direction.
    spoken: Nanos,
    /// True while the kernel asks.
    asks: bool,
}

impl<'a> Pulse<'a> {
    /// Creates the pulse of a client whose data is added to `account`.
    pub(super) fn new(account: &'a Account, now: Nanos) -> Pulse<'a> {
        Pulse { account, arrived: 0, fresh: now, spoken: now, asks: false }
    }

    /// Notes a message over control.
    pub(super) fn speak(&mut self, now: Nanos) {
        self.spoken = now;
    }

    /// Lets control rest: the measured phase begins.
    pub(super) fn rest(&mut self, control: &TcpStream, now: Nanos) {
        (self.fresh, self.asks) = (now, false);
        // A connection that takes no options any more is gone, which the next message shows.
        drop(heartbeat::rest(control));
    }

    /// Looks for new bytes, and has the client asked if there are none; returns the time of the next look.
    pub(super) fn look(&mut self, control: &TcpStream, now: Nanos) -> Nanos {
        let [_, arrived] = self.account.read();
        if arrived != self.arrived {
            self.arrived = arrived;
            if self.asks {
                self.rest(control, now);
            }
            self.fresh = now;
        } else if !self.asks && now - self.fresh >= QUIET {
            self.asks = true;
            let silence = Duration::from(now - self.spoken + ANSWER);
            drop(heartbeat::ask(control, silence));
        }
        now + LOOK
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::SockRef;

    use super::*;

    #[test]
    fn a_client_is_asked_only_while_nothing_arrives_from_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let control = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let asks = || SockRef::from(&control).keepalive().unwrap();
        let (account, at) = (Account::new().unwrap(), Nanos::from_millis);
        let mut pulse = Pulse::new(&account, at(0));
        pulse.rest(&control, at(0));
        for ms in (0..3_000).step_by(250) {
            account.add([1_000, 40]);
            assert_eq!(pulse.look(&control, at(ms)), at(ms + 250));
            assert!(!asks(), "data is sign enough");
        }
        for (ms, is_asked) in [(3_000, false), (3_500, false), (3_750, true), (4_000, true)] {
            account.add([1_000, 0]);
            pulse.look(&control, at(ms));
            assert_eq!(asks(), is_asked, "at {ms} ms: sent bytes are no sign of the client");
        }
        let timeout = SockRef::from(&control).tcp_user_timeout().unwrap().unwrap();
        assert_eq!(
            timeout,
            Duration::from_millis(3_750 + 2_900),
            "since the last word over control"
        );
        account.add([0, 40]);
        pulse.look(&control, at(4_250));
        assert!(!asks());
    }
}
