//! Privileges that the agent of a server gives up before it reads anything that a client sent: capabilities, programs,
//! files.
//!
//! An agent needs only its sockets, its CPUs and the kernel's information about them under `/proc` and `/sys`. A client
//! that finds a fault in it can reach nothing else. Confining cannot be undone, and threads that start later inherit
//! it; so it is done before any of them starts.
//!
//! | privilege | given up by | which prevents |
//! |---|---|---|
//! | all capabilities | capabilities(7) | the rights of a server that runs as root |
//! | files, except reading `/proc` and `/sys` | Landlock, Linux 5.13 | access to the host's disk and others' secrets |
//! | system calls that no agent makes | seccomp(2) | starting programs, tracing, mounting, loading kernel code |

use std::collections::BTreeMap;
use std::io;

use caps::CapSet;
use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    path_beneath_rules,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use deadheat_base::error::{Error, Result};

/// Directories that an agent reads: its own costs, the network code's counters, the CPUs.
const READ: [&str; 2] = ["/proc", "/sys"];

/// Newest version of Landlock that is requested; an older kernel applies the version it has.
const LANDLOCK: ABI = ABI::V5;

/// Calls that are refused with `EPERM`.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    // Requests through io_uring are system calls that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
];

/// Confines the calling thread, and the threads that it starts from now on. Returns true if all access to files except
/// reading `/proc` and `/sys` is refused, and false where the kernel has no Landlock.
///
/// # Errors
/// [`Error::Setup`] if the kernel refuses a step that it supports.
pub fn confine() -> Result<bool> {
    drop_capabilities()?;
    let files = keep_from_files()?;
    refuse_calls()?;
    Ok(files)
}

fn drop_capabilities() -> Result<()> {
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set)
            .map_err(|e| failed("give up capabilities", io::Error::other(e.to_string())))?;
    }
    Ok(())
}

fn keep_from_files() -> Result<bool> {
    let restrict = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(LANDLOCK))?
            .create()?
            .add_rules(path_beneath_rules(READ, AccessFs::ReadFile | AccessFs::ReadDir))?
            .restrict_self()
    };
    let status = restrict()
        .map_err(|e| failed("give up files (Landlock)", io::Error::other(e.to_string())))?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn refuse_calls() -> Result<()> {
    let compile = || -> std::result::Result<BpfProgram, seccompiler::BackendError> {
        let arch: TargetArch = std::env::consts::ARCH.try_into()?;
        let rules: BTreeMap<i64, _> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
        let refuse = SeccompAction::Errno(libc::EPERM as u32);
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
    };
    let program =
        compile().map_err(|e| failed("write a seccomp filter", io::Error::other(e.to_string())))?;
    seccompiler::apply_filter(&program)
        .map_err(|e| failed("give up system calls (seccomp)", io::Error::other(e.to_string())))
}

fn failed(op: &str, source: io::Error) -> Error {
    Error::setup(op, source)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::UdpSocket;
    use std::process::Command;

    use super::*;

    /// On a thread of its own, as it cannot be undone.
    fn confined<T: Send>(run: impl FnOnce(bool) -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(|| run(confine().unwrap())).join().unwrap())
    }

    #[test]
    fn no_program_starts_and_no_capability_is_left() {
        confined(|_| {
            let error = Command::new("/bin/true").status().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(caps::read(None, CapSet::Effective).unwrap().is_empty());
            assert!(caps::read(None, CapSet::Permitted).unwrap().is_empty());
        });
    }

    #[test]
    fn files_are_out_of_reach_and_what_is_measured_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (own, new) = (dir.path().join("own"), dir.path().join("new"));
        fs::write(&own, "secret").unwrap();
        confined(|is_confined| {
            if !is_confined {
                println!("skipped: this kernel has no Landlock");
                return;
            }
            assert!(fs::read(&own).is_err() && fs::write(&own, "x").is_err());
            assert!(fs::write(&new, "x").is_err() && fs::read_dir("/").is_err());
            assert!(fs::read("/proc/stat").is_ok());
            // Another process's environment may hold a secret; the kernel counts reading it as tracing.
            assert!(fs::read("/proc/1/environ").is_err());
        });
        assert_eq!(fs::read_to_string(&own).unwrap(), "secret");
    }

    #[test]
    fn sockets_and_threads_still_work() {
        confined(|_| {
            let near = UdpSocket::bind("127.0.0.1:0").unwrap();
            let far = UdpSocket::bind("127.0.0.1:0").unwrap();
            near.send_to(b"x", far.local_addr().unwrap()).unwrap();
            assert_eq!(far.recv(&mut [0; 8]).unwrap(), 1);
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        });
    }
}
