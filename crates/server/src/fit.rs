//! Fit of a server's configuration to this host: the descriptors and tasks that it may need at once, compared with the
//! host's limits.

use super::admit::MOST_FLOWS;
use super::config::Config;
use deadheat_host::cgroup::free_tasks;
use deadheat_trial::control::MOST_FAR_ENDS;

/// Number of descriptors for the port, the log, a pipe, agents' channels and libraries.
const OWN_FILES: u64 = 32;

/// Number of descriptors of a client: its connection, and its ticket while it waits.
const FILES_PER_CLIENT: u64 = 3;

/// Number of descriptors of a far end of a running trial: control, hand-over, standard error, each of them for a moment
/// twice.
const FILES_PER_END: u64 = 8;

/// Number of descriptors, and of tasks, of a responder: its clients, and the streams of one test.
const FILES_PER_RESPONDER: u64 = 256;
const TASKS_PER_RESPONDER: u64 = 160;

/// Least number of unauthenticated connections that must fit: with fewer, honest clients push each other out.
const FEWEST_STRANGERS: u64 = 16;

/// Limits of the host for this process; `None` if it sets no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HostLimits {
    files: Option<u64>,
    tasks: Option<u64>,
}

impl HostLimits {
    /// Reads the current limits of the host, after raising the soft limit of descriptors to the hard one.
    pub(super) fn here() -> HostLimits {
        HostLimits { files: raise_files(), tasks: free_tasks() }
    }
}

/// Reduces limits in `config` so that it fits, as far as fewer unauthenticated connections suffice; returns the
/// reductions and the remaining shortages.
pub(super) fn fit(config: &mut Config, allowed: HostLimits) -> Vec<String> {
    let mut said = Vec::new();
    let (room, trials) = (&mut config.room, u64::from(config.limits.concurrent));
    // Each client may have connections beside its first, and all of them as many as there are clients.
    let clients = 2 * room.sessions as u64;
    let ends = trials * u64::from(MOST_FAR_ENDS);
    let responders = config.responders.len() as u64;
    if let Some(files) = allowed.files {
        let others = OWN_FILES
            + FILES_PER_CLIENT * clients
            + FILES_PER_END * ends
            + FILES_PER_RESPONDER * responders;
        let left = files.saturating_sub(others).max(FEWEST_STRANGERS);
        if left < room.unauthenticated as u64 {
            said.push(format!(
                "{files} descriptors are few (ulimit -n): of connections that have not said who they are it \
                 takes {left} at once instead of {}",
                room.unauthenticated
            ));
            room.unauthenticated = usize::try_from(left).unwrap_or(usize::MAX);
        }
        if others + FEWEST_STRANGERS > files {
            said.push(format!(
                "{clients} control connections and {trials} trials at once take up to {others} descriptors, and there \
                 are {files}: some may be turned away; raise the limit (ulimit -n, LimitNOFILE=)"
            ));
        }
    }
    // A thread for each connection, and for each far end a process; the flows, each with a thread, are a trial's.
    let tasks = clients + trials * MOST_FLOWS as u64 + ends * 4 + TASKS_PER_RESPONDER * responders;
    if let Some(free) = allowed.tasks.filter(|free| *free < tasks) {
        said.push(format!(
            "{clients} control connections and {trials} trials of {MOST_FLOWS} flows take up to {tasks} tasks, and {free} are \
             left: some trials may fail; raise the limit (TasksMax=, pids.max)"
        ));
    }
    said
}

fn raise_files() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a pointer to one rlimit, which `limit` is.
    let known = unsafe {
        let known = libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0;
        let wanted = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
        if known && libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) == 0 {
            limit.rlim_cur = limit.rlim_max;
        }
        known
    };
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plenty_changes_nothing() {
        let mut config = Config::default();
        let before = config.room;
        let allowed = HostLimits { files: Some(1 << 20), tasks: Some(4_096) };
        assert!(fit(&mut config, allowed).is_empty());
        assert!(fit(&mut config, HostLimits::default()).is_empty());
        assert_eq!(config.room, before);
    }

    #[test]
    fn few_descriptors_leave_less_room_for_strangers_and_it_is_said() {
        let mut config = Config::default();
        let said = fit(&mut config, HostLimits { files: Some(600), tasks: None });
        assert_eq!(config.room.unauthenticated, 600 - 32 - 3 * 128 - 8 * 16);
        assert!(said[0].contains("600 descriptors") && said.len() == 1, "{said:?}");
        let mut config = Config::default();
        let said = fit(&mut config, HostLimits { files: Some(64), tasks: None });
        assert_eq!(config.room.unauthenticated, 16);
        assert!(said[1].contains("up to 544 descriptors"), "{said:?}");
    }

    #[test]
    fn few_tasks_are_said() {
        let said = fit(&mut Config::default(), HostLimits { files: None, tasks: Some(100) });
        assert!(said[0].contains("up to 320 tasks, and 100 are left"), "{said:?}");
    }
}
