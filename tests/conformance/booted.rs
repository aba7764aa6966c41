//! The same tests for transports that this host's kernel has not, in one that has them.

use deadheat::contract::Reach;
use deadheat::transport::{ALL, Contender};

use crate::uml::{KTLS, boot, boots};
use deadheat_conformance::rig::ONLY;

/// The modules that they are in, in a kernel that we can boot. One that this kernel has is tested with the others.
const MODULES: &[&str] = &["hmac", "sctp", "dccp_ipv4", "dccp_ipv6"];

/// Contenders with a knob that takes the kernel.
const KNOBS: &[&str] = &[
    "tls:offload=kernel",
    "tls:offload=kernel,cipher=aes256",
    "wss:offload=kernel,cipher=chacha20",
];

#[test]
fn transports_that_this_kernel_lacks_are_tested_in_one_that_has_them() {
    if std::env::var_os(ONLY).is_some() {
        return;
    }
    let lacking = ALL
        .iter()
        .filter(|transport| transport.info().reach == Reach::OwnPort && transport.check().is_err());
    let lacking: Vec<&str> = lacking.map(|transport| transport.info().id).collect();
    test_in_another(&lacking, MODULES);
}

#[test]
fn knobs_that_this_kernel_lacks_are_tested_in_one_that_has_them() {
    if std::env::var_os(ONLY).is_some() {
        return;
    }
    let lacks = |typed: &&&str| Contender::parse(typed).unwrap().check().is_err();
    let lacking: Vec<&str> = KNOBS.iter().filter(lacks).copied().collect();
    test_in_another(&lacking, KTLS);
}

/// Runs the tests of this program for some contenders in a kernel with these modules.
fn test_in_another(lacking: &[&str], modules: &[&str]) {
    if lacking.is_empty() || !boots() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let variable = format!("{ONLY}={}", lacking.join(";"));
    let said = boot(
        modules,
        &["env", &variable, own.to_str().unwrap(), "--test-threads=1", "--nocapture"],
    );
    // Of a contender with knobs, the one that takes the kernel is named.
    for typed in lacking {
        let named = typed.split(',').next().unwrap_or(typed);
        assert!(!said.contains(&format!("skipped: {named}: ")), "{said}");
    }
}
