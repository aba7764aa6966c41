//! The same tests for transports that this host's kernel has not, in one that has them.

use deadheat::contract::Reach;
use deadheat::transport::ALL;

use crate::rig::ONLY;
use crate::uml::{boot, boots};

/// Those that a kernel must have, with the modules that they are in one that we can boot. One that this
/// kernel has is tested with the others.
const MODULES: &[&str] = &["hmac", "sctp", "dccp_ipv4", "dccp_ipv6"];

#[test]
fn transports_that_this_kernel_lacks_are_tested_in_one_that_has_them() {
    if std::env::var_os(ONLY).is_some() {
        return;
    }
    let lacking = ALL
        .iter()
        .filter(|transport| transport.info().reach == Reach::Path && transport.check().is_err());
    let lacking: Vec<&str> = lacking.map(|transport| transport.info().id).collect();
    if lacking.is_empty() || !boots() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let variable = format!("{ONLY}={}", lacking.join(","));
    let said = boot(
        MODULES,
        &["env", &variable, own.to_str().unwrap(), "--test-threads=1", "--nocapture"],
    );
    for id in lacking {
        assert!(!said.contains(&format!("skipped: {id}: ")), "{said}");
    }
}
