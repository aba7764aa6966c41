//! Resources that an end of a trial takes from its host beyond sockets, and permission for them: a file, memory.

use std::io;
use std::sync::Arc;

use super::confine::confine;
use crate::control::{AgentPlan, Limits};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic};
use deadheat_base::units::{BitRate, Bytes};
use deadheat_contract::workload::{ELSEWHERE, NamedFile, Task};
use deadheat_datapath::datapath::account::Account;
use deadheat_datapath::datapath::policer::{self, Policer};
use deadheat_host::{facts, idle};

/// Sets this process's priority, and gives up the privileges that it does not need if it runs for a remote client (its
/// plan then has a server's limits). Its sockets are held to those limits, and its bytes are added to `account`. To be
/// called before any thread is started.
///
/// # Errors
/// Fails if the kernel refuses a step that it supports.
pub(super) fn begin(plan: &AgentPlan, account: Option<Account>) -> Result<()> {
    if plan.goes_first {
        idle::go_first();
    }
    if let Some(limits) = plan.limits {
        let account = account.map_or_else(Account::new, Ok);
        let account = account.map_err(|e| Error::setup("make an account of bytes", e))?;
        let (rate, bytes) = (limits.rate_bps, limits.bytes);
        let policer = Policer::new(rate, bytes, Arc::new(account), Monotonic.now());
        policer::install(policer.blast(plan.blast));
        confine()?;
    } else if plan.blast.is_some() {
        let account = Account::new().map_err(|e| Error::setup("make an account of bytes", e))?;
        let (any, account) = (BitRate(u64::MAX), Arc::new(account));
        policer::install(Policer::new(any, u64::MAX, account, Monotonic.now()).blast(plan.blast));
    }
    Ok(())
}

/// Returns the file that this end is to read or write, if any, after checking the permission for it.
///
/// An end that runs for a remote client (its plan has a server's limits) opens no file, whatever its plan names: access
/// to a server's port must not give access to its disk.
///
/// # Errors
/// [`Error::Usage`] if this end may not open it, or cannot.
pub(super) fn take(plan: &AgentPlan, task: &dyn Task) -> Result<Option<NamedFile>> {
    let need = task.info().memory.of(plan.side);
    check_memory(need, facts::memory(), plan.limits.as_ref())?;
    let own = task.info().files.iter().find(|file| file.side == plan.side).cloned();
    match &own {
        Some(_) if plan.limits.is_some() => Err(Error::usage(NO_FILES)),
        Some(file) if file.path == ELSEWHERE => {
            Err(Error::usage("the end that reads or writes a file is not told which"))
        }
        _ => Ok(own),
    }
}

/// Refusal that a server sends to a client that names one of its files.
pub const NO_FILES: &str = "a server reads and writes no files for its clients; files are those of \
                            the host where the race runs: file= with direction=up, sink= with \
                            direction=down";

/// Checks that all trials that a server runs at once take at most half of the host's memory.
fn check_memory(need: u64, host: Option<u64>, limits: Option<&Limits>) -> Result<()> {
    let trials = limits.map_or(1, |limits| u64::from(limits.concurrent.max(1)));
    match host {
        Some(host) if need > host / 2 / trials => Err(Error::usage(format!(
            "the receiving end would allocate {}, and its host has {} in all, of which a trial may \
             take {}; send less, or leave alloc=ready",
            Bytes(need),
            Bytes(host),
            Bytes(host / 2 / trials)
        ))),
        _ => Ok(()),
    }
}

/// Limits the memory of this process to the share of one end of a trial. A library that allocates without bound then
/// ends its own trial, and not the host.
///
/// # Errors
/// [`Error::Setup`] if the kernel refuses.
pub(super) fn limit(plan: &AgentPlan, task: &dyn Task) -> Result<()> {
    let most = most_memory(task.info().memory.of(plan.side), facts::memory(), plan.limits.as_ref());
    most.map_or(Ok(()), limit_memory)
}

/// Memory that any contender may take beyond the needs of its work, however little the host has.
const LEAST: u64 = 256 << 20;

/// Returns the most memory that this end may have: the needs of its work, plus a quarter of the host's memory, divided
/// by the number of trials that a server runs at once; `None` if the size of the host's memory is unknown.
fn most_memory(need: u64, host: Option<u64>, limits: Option<&Limits>) -> Option<u64> {
    let trials = limits.map_or(1, |limits| u64::from(limits.concurrent.max(1)));
    Some((host? / 4 / trials).max(LEAST).saturating_add(need))
}

/// Limits the private writable memory of this process (`RLIMIT_DATA`, getrlimit(2)). An allocation beyond the limit
/// fails and ends the process.
fn limit_memory(most: u64) -> Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call takes a pointer to one rlimit, which `limit` is.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_DATA, &mut limit) == 0 };
    limit.rlim_cur = most.min(if known { limit.rlim_max } else { most });
    // SAFETY: as above.
    match unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) } {
        0 => Ok(()),
        _ => Err(Error::setup("limit the memory of an agent", io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::time::Nanos;
    use deadheat_base::units::BitRate;
    use deadheat_contract::contract::{Side, WaitMode};
    use deadheat_contract::workload;
    use deadheat_datapath::datapath::origin::Origin;
    use deadheat_datapath::transport::Address;
    use deadheat_datapath::transport::hello::Token;

    const LIMITS: Limits = Limits {
        duration_ns: Nanos::from_secs(60),
        bytes: 1 << 40,
        rate_bps: BitRate(1_000_000_000),
        concurrent: 2,
    };

    fn plan(side: Side, workload: &str, limits: Option<Limits>) -> AgentPlan {
        AgentPlan {
            emulated: None,
            further: Vec::new(),
            share: None,
            mtu: None,
            origin: Origin::default(),
            hole: None,
            goes_first: false,
            grant: None,
            clock: None,
            far_end: None,
            onward: None,
            far_pin: None,
            side,
            contender: String::new(),
            workload: workload.into(),
            endpoint: Address::Process(0),
            token: Token::from_bytes([1; 16]),
            seed: 0,
            cpu: None,
            wait: WaitMode::Hybrid,
            samples: None,
            interval_ns: Nanos::from_millis(100),
            live: false,
            pass: Default::default(),
            limits,
            blast: None,
        }
    }

    fn ask(side: Side, typed: &str, limits: Option<Limits>) -> Result<Option<NamedFile>> {
        take(&plan(side, typed, limits), &*workload::parse(typed).unwrap())
    }

    #[test]
    fn an_end_of_a_server_opens_no_file_whatever_it_is_told() {
        for typed in [
            "bulk:file=/etc/passwd,direction=down",
            "bulk:sink=/tmp/x,bytes=1MB",
            "bulk:file=/etc/passwd,sink=/tmp/x,direction=up",
            "bulk:file=-,bytes=64,direction=down",
        ] {
            let why = ask(Side::Far, typed, Some(LIMITS)).unwrap_err().to_string();
            assert!(why.contains("reads and writes no files"), "{typed}: {why}");
        }
        assert_eq!(
            ask(Side::Far, "bulk:sink=-,bytes=64,direction=down", Some(LIMITS)).unwrap(),
            None
        );
    }

    #[test]
    fn an_end_takes_its_own_file_only() {
        let typed = "bulk:file=a,sink=b";
        assert_eq!(ask(Side::Near, typed, None).unwrap().unwrap().path, "a");
        assert_eq!(ask(Side::Far, typed, None).unwrap().unwrap().path, "b");
        assert!(ask(Side::Near, "bulk:file=-,bytes=64", None).is_err());
    }

    #[test]
    fn memory_is_limited_to_half_of_the_hosts_by_all_trials_at_once() {
        let say = |need, host, limits: Option<&Limits>| check_memory(need, host, limits);
        assert!(say(50, Some(100), None).is_ok());
        assert!(say(26, Some(100), Some(&LIMITS)).unwrap_err().to_string().contains("send less"));
        assert!(say(25, Some(100), Some(&LIMITS)).is_ok());
        assert!(say(51, Some(100), None).is_err());
        assert!(say(u64::MAX, None, None).is_ok(), "a host that tells nothing refuses nothing");
    }

    #[test]
    fn an_end_has_what_its_work_needs_and_its_share_of_a_quarter_of_the_host() {
        let gib = |n: u64| n << 30;
        let most = |need, host, limits| most_memory(need, host, limits);
        assert_eq!(most(0, Some(gib(24)), None), Some(gib(6)));
        assert_eq!(most(gib(12), Some(gib(24)), None), Some(gib(18)));
        assert_eq!(most(0, Some(gib(24)), Some(&LIMITS)), Some(gib(3)));
        assert_eq!(most(0, Some(gib(1) / 2), Some(&LIMITS)), Some(LEAST));
        assert_eq!(most(0, None, None), None);
    }
}
