//! CPU time of this process's descendants.

use std::fs;

use deadheat_base::time;
use deadheat_contract::measurements::Cost;

/// CPU time so far of all processes below this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeTimes {
    user_ns: u64,
    system_ns: u64,
}

impl TreeTimes {
    /// Returns the current reading: of running descendants, of processes that they have reaped, and of processes that
    /// this one has reaped.
    pub fn read() -> TreeTimes {
        let all = below(std::process::id());
        let each = all.iter().filter_map(|pid| times(*pid));
        each.fold(waited_for(), |sum, one| TreeTimes {
            user_ns: sum.user_ns.saturating_add(one.user_ns),
            system_ns: sum.system_ns.saturating_add(one.system_ns),
        })
    }

    /// Returns the CPU time since an `earlier` reading. System calls of these processes are not counted.
    pub fn since(&self, earlier: &TreeTimes) -> Cost {
        let user_ns = self.user_ns.saturating_sub(earlier.user_ns);
        let system_ns = self.system_ns.saturating_sub(earlier.system_ns);
        Cost { cpu_ns: user_ns.saturating_add(system_ns), user_ns, system_ns, ..Cost::default() }
    }
}

/// Returns the descendants of a process, children first.
pub fn below(process: u32) -> Vec<u32> {
    let mut all = children(process);
    let mut at = 0;
    while let Some(next) = all.get(at).copied() {
        let further = children(next).into_iter().filter(|child| !all.contains(child));
        let further: Vec<u32> = further.collect();
        all.extend(further);
        at += 1;
    }
    all
}

/// Returns the children of all threads of a process (proc_pid_task(5)).
fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let lists = threads.flatten().map(|thread| thread.path().join("children"));
    let lists = lists.filter_map(|list| fs::read_to_string(list).ok());
    lists.flat_map(|list| numbers(&list)).collect()
}

fn numbers(list: &str) -> Vec<u32> {
    list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Returns the CPU time of a process and of the children that it has reaped; `None` if it is gone.
fn times(process: u32) -> Option<TreeTimes> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let [user, system, user_of_gone, system_of_gone] = ticks(&stat)?;
    let cpu_ns = cpu_ns(process)?;
    // The clock is exact but has no user and system parts; coarse ticks give their proportion.
    let share =
        |part: u64| u128::from(cpu_ns) * u128::from(part) / u128::from((user + system).max(1));
    let system_ns = share(system) as u64;
    let tick_ns = 1_000_000_000 / ticks_per_second();
    Some(TreeTimes {
        user_ns: cpu_ns
            .saturating_sub(system_ns)
            .saturating_add(user_of_gone.saturating_mul(tick_ns)),
        system_ns: system_ns.saturating_add(system_of_gone.saturating_mul(tick_ns)),
    })
}

/// Returns utime, stime, cutime and cstime of a line (proc_pid_stat(5)). The process name before them may contain
/// spaces.
fn ticks(stat: &str) -> Option<[u64; 4]> {
    let (_, fields) = stat.rsplit_once(')')?;
    // The first of these is field 3, the state; utime is field 14.
    let mut numbers = fields.split_whitespace().skip(11).map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??, numbers.next()??])
}

pub(crate) fn ticks_per_second() -> u64 {
    // SAFETY: the call takes an integer.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|ticks| *ticks > 0).unwrap_or(100)
}

/// Returns the CPU time of all threads of a process in nanoseconds, ended threads included (clock_getcpuclockid(3)).
pub fn cpu_ns(process: u32) -> Option<u64> {
    let mut id: libc::clockid_t = 0;
    // SAFETY: the call writes to `id`, which is live.
    let is_known = unsafe { libc::clock_getcpuclockid(process.cast_signed(), &raw mut id) == 0 };
    is_known.then(|| time::read(id)).flatten().map(|used| used.0)
}

/// Returns the CPU time of children that this process has reaped, and of their descendants.
fn waited_for() -> TreeTimes {
    // SAFETY: rusage is plain integers, for which all-zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage to write to. The call fails on bad arguments only.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    TreeTimes { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_times_stand_behind_a_name_with_spaces_and_brackets() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 9 8 0 0 11 12 13 14 20 0 1 0 100";
        assert_eq!(ticks(stat), Some([11, 12, 13, 14]));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn children_that_work_cost_and_so_do_those_that_they_waited_for() {
        let before = TreeTimes::read();
        // Process that works in a child of its own, waits for it, prints a line, and stays.
        let work = "(i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done); echo done; read stay";
        let mut shell = Command::new("sh");
        shell.args(["-c", work]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        assert!(below(std::process::id()).contains(&child.id()));
        let while_it_runs = TreeTimes::read().since(&before);
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        child.wait().unwrap();
        let once_it_is_gone = TreeTimes::read().since(&before);
        assert!(while_it_runs.cpu_ns > 1_000_000, "{while_it_runs:?}");
        assert!(once_it_is_gone.cpu_ns > 1_000_000, "{once_it_is_gone:?}");
        assert_eq!(while_it_runs.cpu_ns, while_it_runs.user_ns + while_it_runs.system_ns);
    }
}
