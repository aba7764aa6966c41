//! Trials that run: each has a ticket that cannot be guessed, an account of its bytes, and an end.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadheat_base::units::hex::hex;
use deadheat_datapath::datapath::account::Account;
use deadheat_datapath::datapath::policer::time_at;

use crate::work::{SeededWork, Tickets, TrialAccount};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::responder::{Charged, TestLimits};

/// Connections of one trial: a browser opens six to a server at most, and `connect` some more one after the other.
const MOST_CONNECTIONS: u32 = 64;

/// Bytes of headers in a packet, and of content, by which messages are counted as IP packets.
const HEADERS: u64 = 60;
const CONTENT: u64 = 1_400;

/// Time by which a trial may be ahead of its rate.
const BURST: Nanos = Nanos::from_millis(50);

/// Account of a trial that runs.
pub(crate) struct TicketAccount {
    work: SeededWork,
    limits: TestLimits,
    ends: Nanos,
    connections: AtomicU32,
    /// Bytes of IP packets.
    account: Account,
}

impl TicketAccount {
    fn new(work: SeededWork, limits: TestLimits, now: Nanos) -> io::Result<TicketAccount> {
        let (ends, connections) = (now + limits.duration, AtomicU32::new(0));
        Ok(TicketAccount { work, limits, ends, connections, account: Account::new()? })
    }

    /// Returns its bytes so far, sent and received.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        self.account.read()
    }

    /// Returns true once a connection has shown the ticket.
    pub(crate) fn has_begun(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > 0
    }
}

impl TrialAccount for TicketAccount {
    fn work(&self) -> SeededWork {
        self.work
    }

    fn charge(&self, now: Nanos, bytes: [u64; 2]) -> Charged {
        let packets = bytes.map(|len| match len {
            0 => 0,
            len => len + HEADERS * (len / CONTENT + 1),
        });
        let sums = self.account.add(packets);
        let takes = packets.map(|bytes| time_at(self.limits.rate, bytes));
        Charged {
            is_within_sum: sums.into_iter().all(|sum| sum <= self.limits.bytes),
            due: self.account.charge(now, takes).map(|passed| passed - BURST),
        }
    }

    fn ends(&self) -> Nanos {
        self.ends
    }
}

/// Tickets of the trials that run.
#[derive(Default)]
pub(crate) struct TicketBook {
    running: Mutex<HashMap<String, Arc<TicketAccount>>>,
}

impl TicketBook {
    /// Gives out a ticket for a trial of this work, within these limits.
    ///
    /// # Errors
    /// If the kernel provides no random numbers, or no memory.
    pub(crate) fn issue(
        &self,
        work: SeededWork,
        limits: TestLimits,
    ) -> io::Result<(String, Arc<TicketAccount>)> {
        let ticket = fresh_name().map_err(|e| io::Error::other(e.to_string()))?;
        let account = Arc::new(TicketAccount::new(work, limits, Monotonic.now())?);
        self.lock().insert(ticket.clone(), Arc::clone(&account));
        Ok((ticket, account))
    }

    /// Ends a trial: its ticket admits no connection any more.
    pub(crate) fn end(&self, ticket: &str) {
        self.lock().remove(ticket);
    }

    /// Returns true while the trial of a ticket runs.
    pub(crate) fn is_running(&self, ticket: &str) -> bool {
        self.lock().contains_key(ticket)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<TicketAccount>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tickets for TicketBook {
    fn admit(&self, ticket: &str, now: Nanos) -> Result<Arc<dyn TrialAccount>, String> {
        let account = self.lock().get(ticket).map(Arc::clone);
        let account = account.ok_or("no trial that runs now has this ticket")?;
        if now > account.ends {
            return Err("the time of this trial is over".to_owned());
        }
        if account.connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            return Err(format!("a trial has {MOST_CONNECTIONS} connections at most"));
        }
        Ok(account)
    }
}

/// Returns a name that cannot be guessed: 128 bits.
///
/// # Errors
/// If the kernel provides no random numbers.
pub(crate) fn fresh_name() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::units::BitRate;
    use deadheat_import::browser::BrowserWork;

    const WORK: SeededWork = (BrowserWork::Connect { count: 1 }, 1);

    const LIMITS: TestLimits = TestLimits {
        duration: Nanos::from_secs(10),
        bytes: 10_000,
        rate: BitRate(8_000_000),
        begin: Nanos::from_secs(5),
    };

    #[test]
    fn a_ticket_admits_until_its_trial_ends() {
        let book = TicketBook::default();
        let (ticket, account) = book.issue(WORK, LIMITS).unwrap();
        let now = Monotonic.now();
        assert!(!account.has_begun());
        assert!(book.admit(&ticket, now).is_ok() && account.has_begun());
        assert!(book.admit("guessed", now).is_err());
        assert!(book.admit(&ticket, account.ends() + Nanos(1)).is_err());
        for _ in 0..MOST_CONNECTIONS {
            let _ = book.admit(&ticket, now);
        }
        assert!(book.admit(&ticket, now).err().unwrap().contains("64 connections"));
        book.end(&ticket);
        assert!(!book.is_running(&ticket) && book.admit(&ticket, now).is_err());
    }

    #[test]
    fn bytes_and_rate_are_bounded() {
        let account = TicketAccount::new(WORK, LIMITS, Nanos::from_secs(1)).unwrap();
        let now = Nanos::from_secs(1);
        assert_eq!(account.charge(now, [1_000, 0]).due[0], now + Nanos::from_micros(1_060) - BURST);
        assert!(account.charge(now, [8_000, 9_000]).is_within_sum);
        assert!(!account.charge(now, [1_000, 0]).is_within_sum, "with headers, above 10 kB");
        assert_eq!(account.bytes(), [1_060 + 8_360 + 1_060, 9_420]);
    }
}
