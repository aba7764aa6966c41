//! Explicit congestion notification of TCP (RFC 3168). No option of a socket asks for it: `net.ipv4.tcp_ecn` of the
//! network namespace does, at the moment of the SYN (ip-sysctl.rst). Hosts of an emulated path are this program's, so
//! the setting is made for each connection there, and put back. On other hosts it is only read.

use std::fs;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Variant;
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::Optional;
use deadheat_datapath::datapath::own_host;
use deadheat_datapath::transport::Place;

/// Knob of connections that ask for it, or do not.
pub(super) const ECN: Optional<bool> = Optional::choice(
    "ecn",
    &["off", "on"],
    &[false, true],
    "on: connections ask for explicit congestion notification (RFC 3168); sysctl net.ipv4.tcp_ecn, set for each \
     connection on an emulated path, and by you elsewhere; not set: as the host has it",
);

const SETTING: &str = "/proc/sys/net/ipv4/tcp_ecn";

/// Held by connections that the setting of another must not reach: parts of a mix connect at the same time.
static LOCK: RwLock<()> = RwLock::new(());

/// Setting of this host for one connection; the value from before returns when it is dropped.
pub(super) enum AskedEcn {
    /// Not changed. The guard is absent on hosts whose setting is never changed.
    Host(#[allow(dead_code)] Option<RwLockReadGuard<'static, ()>>),
    /// Changed.
    Set { before: String, _lock: RwLockWriteGuard<'static, ()> },
}

impl AskedEcn {
    /// Makes connections of this host ask for ECN or not, from now until this is dropped.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the host's setting is another, and cannot be changed.
    pub(super) fn of(variant: Variant, asked: Option<bool>) -> Result<AskedEcn> {
        if !own_host::is_own() {
            return match asked {
                None => Ok(AskedEcn::Host(None)),
                // It may have changed since the race was checked.
                Some(on) => needs(variant.id, on, Place::Remote).map(|()| AskedEcn::Host(None)),
            };
        }
        let Some(on) = asked else {
            let guard = LOCK.read().unwrap_or_else(PoisonError::into_inner);
            return Ok(AskedEcn::Host(Some(guard)));
        };
        let lock = LOCK.write().unwrap_or_else(PoisonError::into_inner);
        let failed = |e: std::io::Error| {
            Error::unsupported(
                knob(variant.id, on),
                format!(
                    "{SETTING} of the emulated host cannot be set: {e}; is /proc/sys read-only in this container?"
                ),
            )
        };
        let before = fs::read_to_string(SETTING).map_err(failed)?;
        let wanted = if on { "1" } else { "0" };
        fs::write(SETTING, wanted).map_err(failed)?;
        Ok(AskedEcn::Set { before, _lock: lock })
    }
}

impl Drop for AskedEcn {
    fn drop(&mut self) {
        if let AskedEcn::Set { before, .. } = self {
            // The file took a value a moment ago.
            let _ = fs::write(SETTING, before.trim());
        }
    }
}

/// Checks that the hosts' settings permit it.
///
/// # Errors
/// [`Error::Unsupported`] naming the sysctl, its value, and a value that would do.
pub(super) fn check(id: &str, value: &str, place: Place) -> Result<()> {
    match place {
        // It is set there for each connection.
        Place::Emulated => Ok(()),
        Place::Loopback | Place::Remote | Place::Server => needs(id, value == "on", place),
    }
}

fn needs(id: &str, on: bool, place: Place) -> Result<()> {
    let text = fs::read_to_string(SETTING).map_err(|e| {
        Error::unsupported(knob(id, on), format!("this host does not tell {SETTING}: {e}"))
    })?;
    lacks(text.trim(), on, place).map_or(Ok(()), |why| Err(Error::unsupported(knob(id, on), why)))
}

/// Returns what a value of the sysctl lacks; `None` if nothing. From Linux 6.18 on, 3 to 5 are about accurate ECN: 3 and
/// 4 ask for either kind, 5 asks for none.
fn lacks(value: &str, on: bool, place: Place) -> Option<String> {
    let asks = matches!(value, "1" | "3" | "4");
    let (what, wanted) = match (on, place) {
        (true, Place::Server) if value == "0" => ("accepts no ECN", "2"),
        (_, Place::Server) => return None,
        (true, _) if !asks => ("asks for no ECN", "1"),
        (false, _) if asks => ("asks for ECN", "2"),
        _ => return None,
    };
    Some(format!(
        "this host {what}: net.ipv4.tcp_ecn is {value}; `sysctl net.ipv4.tcp_ecn={wanted}` as root changes that, and hosts of \
         an emulated path (--path) have it as asked"
    ))
}

fn knob(id: &str, on: bool) -> String {
    format!("{id}:ecn={}", if on { "on" } else { "off" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_says_otherwise_is_named_with_a_value_that_would_do() {
        let lacking = |value: &str, on: bool, place: Place| lacks(value, on, place);
        for place in [Place::Loopback, Place::Remote] {
            assert_eq!(lacking("1", true, place), None);
            assert_eq!(lacking("2", false, place), None);
            let said = lacking("2", true, place).unwrap();
            assert!(
                said.contains(
                    "asks for no ECN: net.ipv4.tcp_ecn is 2; `sysctl net.ipv4.tcp_ecn=1`"
                ),
                "{said}"
            );
            assert!(lacking("1", false, place).unwrap().contains("asks for ECN"));
        }
        assert_eq!(lacking("2", true, Place::Server), None);
        assert!(lacking("0", true, Place::Server).unwrap().contains("accepts no ECN"));
        assert_eq!(lacking("1", false, Place::Server), None);
        assert!(check("tcp", "on", Place::Emulated).is_ok());
    }
}
