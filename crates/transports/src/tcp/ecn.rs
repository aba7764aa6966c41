//! Explicit congestion notification of TCP (RFC 3168; accurate: RFC 9768). No option of a socket asks for it:
//! `net.ipv4.tcp_ecn` of the network namespace does, at the moment of the SYN (ip-sysctl.rst). Hosts of an emulated path
//! are this program's, so the setting is made for each connection there, and put back. On other hosts it is only read.

use std::fs;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Variant;
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::Optional;
use deadheat_datapath::datapath::own_host;
use deadheat_datapath::transport::Place;

/// Request of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EcnRequest {
    Off,
    On,
    Accurate,
}

/// Knob of connections that ask for it, or do not.
pub(super) const ECN: Optional<EcnRequest> = Optional::choice("ecn", &["off", "on", "accurate"], &[EcnRequest::Off, EcnRequest::On, EcnRequest::Accurate])
    .doc("on: connections ask for explicit congestion notification (RFC 3168); accurate: for its accurate form (RFC 9768; Linux \
     7.0); sysctl net.ipv4.tcp_ecn, set for each connection on an emulated path, and by you elsewhere; not set: as the \
     host has it");

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
    pub(super) fn of(variant: Variant, asked: Option<EcnRequest>) -> Result<AskedEcn> {
        if !own_host::is_own() {
            return match asked {
                None => Ok(AskedEcn::Host(None)),
                // It may have changed since the race was checked.
                Some(asked) => {
                    needs(variant.id, asked, Place::Remote).map(|()| AskedEcn::Host(None))
                }
            };
        }
        let Some(asked) = asked else {
            let guard = LOCK.read().unwrap_or_else(PoisonError::into_inner);
            return Ok(AskedEcn::Host(Some(guard)));
        };
        let lock = LOCK.write().unwrap_or_else(PoisonError::into_inner);
        let before = fs::read_to_string(SETTING).map_err(|e| refused(variant.id, asked, &e))?;
        let wanted = match asked {
            EcnRequest::Off => "0",
            EcnRequest::On => "1",
            EcnRequest::Accurate => "3",
        };
        fs::write(SETTING, wanted).map_err(|e| refused(variant.id, asked, &e))?;
        Ok(AskedEcn::Set { before, _lock: lock })
    }
}

/// Makes an emulated host accept requests for accurate ECN from now on, if this is one; it asks for no more itself.
///
/// # Errors
/// [`Error::Unsupported`] if its kernel has none.
pub(super) fn accept(variant: Variant, asked: Option<EcnRequest>) -> Result<()> {
    match asked {
        Some(asked @ EcnRequest::Accurate) if own_host::is_own() => {
            fs::write(SETTING, "5").map_err(|e| refused(variant.id, asked, &e))
        }
        _ => Ok(()),
    }
}

fn refused(id: &str, asked: EcnRequest, error: &std::io::Error) -> Error {
    let why = if error.raw_os_error() == Some(libc::EINVAL) {
        "this kernel has no accurate ECN (Linux 7.0 has); ecn=on asks for the other kind".to_owned()
    } else {
        format!(
            "{SETTING} of the emulated host cannot be set: {error}; is /proc/sys read-only in this container?"
        )
    };
    Error::unsupported(knob(id, asked), why)
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
        Place::Loopback | Place::Remote | Place::Server => {
            ECN.read(value).map_or(Ok(()), |asked| needs(id, asked, place))
        }
    }
}

fn needs(id: &str, asked: EcnRequest, place: Place) -> Result<()> {
    let text = fs::read_to_string(SETTING).map_err(|e| {
        Error::unsupported(knob(id, asked), format!("this host does not tell {SETTING}: {e}"))
    })?;
    let lacking = lacks(text.trim(), asked, place);
    lacking.map_or(Ok(()), |why| Err(Error::unsupported(knob(id, asked), why)))
}

/// Returns what a value of the sysctl lacks; `None` if nothing. From Linux 7.0 on, 3 to 5 accept accurate ECN: 3 asks for
/// it, 4 for the other kind, 5 for none.
fn lacks(value: &str, asked: EcnRequest, place: Place) -> Option<String> {
    let (asks, is_accurate) = (matches!(value, "1" | "3" | "4"), matches!(value, "3" | "4" | "5"));
    let (what, wanted) = match (asked, place) {
        (EcnRequest::On, Place::Server) if value == "0" => ("accepts no ECN", "2"),
        (EcnRequest::Accurate, Place::Server) if !is_accurate => ("accepts no accurate ECN", "5"),
        (_, Place::Server) => return None,
        (EcnRequest::Accurate, _) if value != "3" => ("asks for no accurate ECN", "3"),
        (EcnRequest::On, _) if !asks => ("asks for no ECN", "1"),
        (EcnRequest::Off, _) if asks => ("asks for ECN", "2"),
        _ => return None,
    };
    Some(format!(
        "this host {what}: net.ipv4.tcp_ecn is {value}; `sysctl net.ipv4.tcp_ecn={wanted}` as root changes that, and hosts of \
         an emulated path (--path) have it as asked"
    ))
}

fn knob(id: &str, asked: EcnRequest) -> String {
    format!("{id}:ecn={}", ECN.word(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_says_otherwise_is_named_with_a_value_that_would_do() {
        let lacking =
            |value: &str, asked: &str, place| lacks(value, ECN.read(asked).unwrap(), place);
        for place in [Place::Loopback, Place::Remote] {
            assert_eq!(lacking("1", "on", place), None);
            assert_eq!(lacking("2", "off", place), None);
            let said = lacking("2", "on", place).unwrap();
            assert!(
                said.contains(
                    "asks for no ECN: net.ipv4.tcp_ecn is 2; `sysctl net.ipv4.tcp_ecn=1`"
                ),
                "{said}"
            );
            assert!(lacking("1", "off", place).unwrap().contains("asks for ECN"));
        }
        assert_eq!(lacking("2", "on", Place::Server), None);
        assert!(lacking("0", "on", Place::Server).unwrap().contains("accepts no ECN"));
        assert_eq!(lacking("1", "off", Place::Server), None);
        assert_eq!(lacking("3", "accurate", Place::Remote), None);
        assert!(lacking("4", "accurate", Place::Remote).unwrap().contains("tcp_ecn=3"));
        assert_eq!(lacking("4", "accurate", Place::Server), None);
        assert!(lacking("1", "accurate", Place::Server).unwrap().contains("tcp_ecn=5"));
        let said =
            refused("tcp", EcnRequest::Accurate, &std::io::Error::from_raw_os_error(libc::EINVAL));
        assert!(said.to_string().contains("ecn=on asks for the other kind"), "{said}");
        assert!(check("tcp", "on", Place::Emulated).is_ok());
    }
}
