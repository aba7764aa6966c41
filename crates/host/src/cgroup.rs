//! Limits of this process's control groups: CPU time, tasks, and throttling by a quota.
//!
//! Sources: cgroups(7); kernel documents `admin-guide/cgroup-v2.rst` (cpu.max, cpu.stat, pids.max) and
//! `scheduler/sched-bwc.rst` (version 1: cpu.cfs_quota_us, cpu.stat).

use std::fs;
use std::path::{Path, PathBuf};

use deadheat_contract::measurements::Throttled;

/// Directory where hierarchies are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// Returns the average CPU time that this process may use, in thousandths of a CPU: the least quota of its group and
/// its ancestors; `None` if there is none.
pub(crate) fn cpu_quota_milli() -> Option<u64> {
    groups("cpu").iter().filter_map(|group| quota_of(group)).min()
}

/// Returns the number of tasks that the limits of this process's group and its ancestors still allow.
pub fn free_tasks() -> Option<u64> {
    let free = |group: &PathBuf| {
        let most: u64 = number(group, "pids.max")?;
        Some(most.saturating_sub(number(group, "pids.current")?))
    };
    groups("pids").iter().filter_map(free).min()
}

/// Throttling of this process's groups by quotas so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quotas(Vec<Throttled>);

impl Quotas {
    /// Returns the current reading.
    pub fn read() -> Quotas {
        Quotas(groups("cpu").iter().map(|group| throttled_of(group).unwrap_or_default()).collect())
    }

    /// Returns the increase since an `earlier` reading, for the group that was throttled longest; `None` if none was.
    pub fn since(&self, earlier: &Quotas) -> Option<Throttled> {
        let added = self.0.iter().zip(&earlier.0).map(|(now, then)| Throttled {
            times: now.times.saturating_sub(then.times),
            held_ns: now.held_ns.saturating_sub(then.held_ns),
        });
        added.filter(|added| added.times > 0).max_by_key(|added| added.held_ns)
    }
}

/// Returns the group of this process under `controller`, and its ancestors.
fn groups(controller: &str) -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups_in(&own, controller, Path::new(ROOT))
}

/// Parses `/proc/self/cgroup` for [`groups`]: `4:cpu,cpuacct:/a/b` of version 1, `0::/a/b` of
/// version 2.
fn groups_in(own: &str, controller: &str, root: &Path) -> Vec<PathBuf> {
    let lines = || own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let of_v1 = |(names, _): &(&str, &str)| names.split(',').any(|name| name == controller);
    let (mount, path) = match lines().find(of_v1) {
        Some((names, path)) => ([controller, names].map(|name| root.join(name)).into(), path),
        // Beside hierarchies of version 1, a process has a group of version 2 as well.
        None => match lines().find(|(names, _)| names.is_empty()) {
            Some((_, path)) => (vec![root.join("unified"), root.to_owned()], path),
            None => return Vec::new(),
        },
    };
    let Some(mount) = mount.into_iter().find(|mount: &PathBuf| mount.is_dir()) else {
        return Vec::new();
    };
    // A container may see the path on its host, but has its own group at the mount's root.
    let own = mount.join(path.trim_start_matches('/'));
    let own = if own.is_dir() { own } else { mount.clone() };
    let above = own.ancestors().take_while(|group| group.starts_with(&mount));
    above.map(Path::to_owned).collect()
}

fn text(group: &Path, file: &str) -> Option<String> {
    fs::read_to_string(group.join(file)).ok()
}

fn number<T: std::str::FromStr>(group: &Path, file: &str) -> Option<T> {
    text(group, file)?.trim().parse().ok()
}

fn quota_of(group: &Path) -> Option<u64> {
    if let Some(of_v2) = text(group, "cpu.max") {
        return quota(&of_v2);
    }
    // -1 if there is none.
    let quota: u64 = number(group, "cpu.cfs_quota_us")?;
    quota.saturating_mul(1_000).checked_div(number(group, "cpu.cfs_period_us")?)
}

/// Parses a quota, in thousandths of a CPU: `200000 100000` is two CPUs, `max 100000` no quota.
fn quota(cpu_max: &str) -> Option<u64> {
    let (quota, period) = cpu_max.trim().split_once(' ')?;
    let (quota, period) = (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?);
    quota.saturating_mul(1_000).checked_div(period)
}

fn throttled_of(group: &Path) -> Option<Throttled> {
    throttled(&text(group, "cpu.stat")?)
}

/// Parses `cpu.stat`. Version 1 has the time in nanoseconds, version 2 in microseconds.
fn throttled(stat: &str) -> Option<Throttled> {
    let value = |name: &str| -> Option<u64> {
        stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    };
    let of_v2 = value("throttled_usec").map(|us| us.saturating_mul(1_000));
    let held_ns = of_v2.or_else(|| value("throttled_time"))?;
    Some(Throttled { times: value("nr_throttled")?, held_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_read_as_cpus() {
        assert_eq!(quota("150000 100000\n"), Some(1_500));
        assert_eq!(quota("max 100000\n"), None);
        assert_eq!([quota(""), quota("1 0"), quota("x y")], [None; 3]);
    }

    /// Directory with these files in it; each test provides the content of `/proc/self/cgroup`.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn groups_are_found_in_every_layout() {
        let v2 = tree(&[("a/b/cpu.max", "50000 100000\n"), ("a/cpu.max", "20000 100000\n")]);
        let groups = groups_in("0::/a/b\n", "cpu", v2.path());
        assert_eq!(groups, [v2.path().join("a/b"), v2.path().join("a"), v2.path().to_owned()]);
        let quotas: Vec<_> = groups.iter().filter_map(|group| quota_of(group)).collect();
        assert_eq!(quotas, [500, 200]);

        let v1 = tree(&[
            ("cpu/x/cpu.cfs_quota_us", "30000\n"),
            ("cpu/x/cpu.cfs_period_us", "100000\n"),
            ("cpu/cpu.cfs_quota_us", "-1\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
            ("unified/x/y", ""),
        ]);
        let own = "9:name=systemd:/\n4:cpu,cpuacct:/x\n0::/x\n";
        let groups = groups_in(own, "cpu", v1.path());
        assert_eq!(groups, [v1.path().join("cpu/x"), v1.path().join("cpu")]);
        assert_eq!([quota_of(&groups[0]), quota_of(&groups[1])], [Some(300), None]);
        assert_eq!(groups_in(own, "pids", v1.path())[0], v1.path().join("unified/x"));

        // A container without a group namespace: the path is the host's.
        let inside = tree(&[("cpu.max", "100000 100000\n")]);
        let groups = groups_in("0::/system.slice/docker-3f.scope\n", "cpu", inside.path());
        assert_eq!(groups, [inside.path()]);
        assert!(groups_in("", "cpu", inside.path()).is_empty());
    }

    #[test]
    fn being_held_back_is_read_in_both_versions() {
        let v2 = "usage_usec 9\nnr_periods 40\nnr_throttled 12\nthrottled_usec 340000\n";
        let v1 = "nr_periods 40\nnr_throttled 12\nthrottled_time 340000000\n";
        let expected = Throttled { times: 12, held_ns: 340_000_000 };
        assert_eq!([throttled(v2), throttled(v1)], [Some(expected); 2]);
        // The root of version 2 has no quota, and no counters of one.
        assert_eq!([throttled("usage_usec 9\n"), throttled("nr_throttled x\n")], [None; 2]);
    }

    #[test]
    fn the_group_that_was_held_back_longest_counts() {
        let at = |all: &[(u64, u64)]| {
            Quotas(
                all.iter()
                    .map(|(times, held_ns)| Throttled { times: *times, held_ns: *held_ns })
                    .collect(),
            )
        };
        let (then, now) = (at(&[(1, 10), (5, 50)]), at(&[(3, 20), (6, 90)]));
        assert_eq!(now.since(&then), Some(Throttled { times: 1, held_ns: 40 }));
        assert_eq!(now.since(&now), None);
        assert_eq!(Quotas::default().since(&now), None);
    }
}
