//! A Linux kernel in user mode, for features that this host's kernel lacks.
#![allow(dead_code, reason = "each test binary uses some of it")]
#![allow(clippy::print_stdout)] // A skipped test prints the reason.

use std::process::Command;

/// Modules of the kernel's TLS, and of the ciphers that it finds by their names.
pub(crate) const KTLS: &[&str] = &[
    "tls",
    "ctr",
    "gcm",
    "ghash-generic",
    "chacha_generic",
    "poly1305_generic",
    "chacha20poly1305",
];

/// Returns true if a program is installed.
fn has(program: &str) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    path.split(':').any(|folder| std::path::Path::new(folder).join(program).exists())
}

/// Returns true for root, if all of these programs are installed.
pub(crate) fn can(programs: &[&str]) -> bool {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: network namespaces need root");
        return false;
    }
    let missing = programs.iter().find(|program| !has(program));
    if let Some(missing) = missing {
        println!("skipped: `{missing}` is not installed (make test installs it where it can)");
    }
    missing.is_none()
}

/// Returns true if this CPU has the tile registers of AMX, which Linux 6.1 in user mode cannot keep: it ends in
/// `put_fp_registers` before its first process runs.
pub(crate) fn has_large_registers() -> bool {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = cpus.split_whitespace().any(|flag| flag == "amx_tile");
    if has {
        println!("skipped: a kernel in user mode cannot keep this CPU's AMX registers");
    }
    has
}

/// Returns true if a kernel can be booted here.
pub(crate) fn boots() -> bool {
    can(&["linux.uml", "ip", "modinfo"]) && !has_large_registers()
}

/// Runs a command in a kernel of its own with these modules; returns its output. Panics if the command fails.
pub(crate) fn boot(modules: &[&str], command: &[&str]) -> String {
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/uml.sh"))
        .args(["-t", "240"])
        .args(modules.iter().flat_map(|module| ["-m", module]))
        .args(command)
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}\n{out}\n{err}", output.status.code());
    format!("{out}{err}")
}
