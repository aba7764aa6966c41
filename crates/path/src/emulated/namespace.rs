//! Namespaces (namespaces(7)) by descriptors: made, entered, and gone once no descriptor is open.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use deadheat_base::error::{Error, Result};

/// Network namespace.
#[derive(Debug)]
pub(super) struct Namespace {
    /// Descriptor that keeps the namespace alive.
    pub fd: OwnedFd,
}

impl Namespace {
    /// Creates a new one and moves the calling thread there.
    ///
    /// # Errors
    /// [`Error::Setup`] naming the restriction.
    pub(super) fn new() -> Result<Namespace> {
        unshare(libc::CLONE_NEWNET).and_then(|()| current()).map_err(|e| {
            Error::setup_advice("make a network namespace for a host of the path", e, advice())
        })
    }

    /// Moves the calling thread there.
    ///
    /// # Errors
    /// The error of setns(2).
    pub(super) fn join(&self) -> io::Result<()> {
        enter(None, self.fd.as_raw_fd())
    }

    /// Runs `work` in this namespace, and moves the thread back.
    ///
    /// # Errors
    /// The error of setns(2) or `work`.
    pub(super) fn within<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let home = current()?;
        self.join()?;
        let done = work();
        home.join()?;
        done
    }
}

/// Returns the network namespace of the calling thread.
fn current() -> io::Result<Namespace> {
    Ok(Namespace { fd: File::open("/proc/thread-self/ns/net")?.into() })
}

/// Moves the calling thread into a user namespace, if one is given, and a network namespace. Only
/// system calls on integers, so it may be called between fork and exec.
///
/// # Errors
/// The error of setns(2).
pub(crate) fn enter(user: Option<RawFd>, net: RawFd) -> io::Result<()> {
    let join = |fd, kind| {
        // SAFETY: the call takes integers.
        if unsafe { libc::setns(fd, kind) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    if let Some(user) = user {
        join(user, libc::CLONE_NEWUSER)?;
    }
    join(net, libc::CLONE_NEWNET)
}

fn unshare(kind: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes an integer.
    if unsafe { libc::unshare(kind) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes sure that this process may make network namespaces: it may already (root), or it moves to a user namespace
/// of its own in which its user is root (user_namespaces(7)), which this function returns.
///
/// # Errors
/// [`Error::Setup`] naming the restriction.
pub(super) fn become_able() -> Result<Option<OwnedFd>> {
    match unshare(libc::CLONE_NEWNET) {
        Ok(()) => return Ok(None),
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => {}
        Err(e) => {
            let what = "make a network namespace for a host of the path";
            return Err(Error::setup_advice(what, e, advice()));
        }
    }
    // SAFETY: both calls take nothing and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let alone = || -> io::Result<OwnedFd> {
        unshare(libc::CLONE_NEWUSER)?;
        // Without this, the kernel allows no group map (user_namespaces(7)).
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
        Ok(File::open("/proc/self/ns/user")?.into())
    };
    let what = "make a user namespace (only root may make network namespaces outside one)";
    alone().map(Some).map_err(|e| Error::setup_advice(what, e, advice()))
}

/// Tests in a child process that makes a few system calls whether [`become_able`] and a network namespace would be
/// allowed.
///
/// # Errors
/// As for [`become_able`].
pub(crate) fn try_out() -> Result<()> {
    let failed = |e| Error::setup_advice("make a network namespace", e, advice());
    let number = |e: io::Error| e.raw_os_error().unwrap_or(libc::EPERM);
    // SAFETY: the child makes system calls on integers and leaves with _exit; it allocates nothing and takes no
    // lock.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    if child == 0 {
        let alone = || unshare(libc::CLONE_NEWUSER).and_then(|()| unshare(libc::CLONE_NEWNET));
        let done = unshare(libc::CLONE_NEWNET).or_else(|_| alone());
        // SAFETY: ends this process, which is the child.
        unsafe { libc::_exit(done.map_or_else(number, |()| 0)) }
    }
    let mut status = 0;
    // SAFETY: `status` is a live integer, and the child is ours to wait for.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(failed(error));
        }
    }
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        number => Err(failed(io::Error::from_raw_os_error(number))),
    }
}

/// Returns advice for this host after it refused a namespace.
fn advice() -> String {
    let setting = |file: &str| {
        std::fs::read_to_string(file).map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let found = [
        ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces", "15000"),
        ("/proc/sys/user/max_net_namespaces", "0", "user.max_net_namespaces", "15000"),
        (
            "/proc/sys/kernel/unprivileged_userns_clone",
            "0",
            "kernel.unprivileged_userns_clone",
            "1",
        ),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns",
            "0",
        ),
    ]
    .into_iter()
    .find(|(file, forbids, ..)| setting(file) == *forbids);
    match found {
        Some((_, is, name, allows)) => format!(
            "{name} is {is} on this host; `sysctl {name}={allows}` as root allows it, or run this as \
             root"
        ),
        None => {
            "run this as root; a container needs the capability SYS_ADMIN, or a seccomp profile \
                 that allows user namespaces"
                .to_owned()
        }
    }
}
