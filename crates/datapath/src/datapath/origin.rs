//! Origin of connections: the local address and the interface that the sockets of a near end are bound to.
//!
//! An agent is one process per end and trial, so its origin is one value for the whole process: every transport opens
//! its sockets through few functions, and each of these calls [`bind`].

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use socket2::{SockAddr, Socket, Type};

use super::option::{path_mtu, set_int};
use deadheat_base::error::{Error, Result};

/// Longest name of an interface, with the NUL at its end (`IFNAMSIZ` of linux/if.h).
const LONGEST_NAME: usize = 16;

/// Local address and interface that connections leave from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// Address to bind, with port 0; absent if the kernel chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SocketAddr>,
    /// Interface to bind; absent if the routing table chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Origin of the near ends in this process.
static OWN: OnceLock<Origin> = OnceLock::new();

/// Sets the origin of all connections that [`bind`] prepares in this process from now on. The first call decides.
pub fn leave_from(origin: Origin) {
    let _ = OWN.set(origin);
}

/// Binds the socket of a near end to the origin of this process, if it has one. To be called before connect(2), and for
/// sockets towards the far end only.
///
/// # Errors
/// As [`Origin::bind`].
pub fn bind(socket: &Socket, to: SocketAddr) -> Result<()> {
    OWN.get().map_or(Ok(()), |origin| origin.bind(socket, to))
}

/// Returns the address and the interface that a socket is bound to, as the kernel reports them, if this process has an
/// origin.
pub fn in_force(socket: BorrowedFd<'_>) -> Option<Origin> {
    OWN.get().filter(|origin| !origin.is_any()).map(|_| Origin::of(socket))
}

impl Origin {
    /// Reads an address with an optional zone, and the name of an interface, as typed.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the mistake and a correct form.
    pub fn parse(source: Option<&str>, device: Option<&str>) -> Result<Origin> {
        let source = source.map(|typed| match zoned(typed)? {
            Some(SocketAddr::V6(address)) if needs_zone(&address) => Err(Error::usage(format!(
                "--source {typed}: an address of link scope is one of an interface; write {typed}%eth0, say"
            ))),
            Some(address) => Ok(address),
            None => Err(Error::usage(format!(
                "--source {typed}: an address of this host, such as 192.0.2.7 or fe80::1%eth0; for an interface write \
                 --device {typed}"
            ))),
        });
        let device = device.map(|typed| {
            let fits = !typed.is_empty()
                && typed.len() < LONGEST_NAME
                && !typed.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control());
            if fits {
                Ok(typed.to_owned())
            } else {
                Err(Error::usage(format!(
                    "--device {typed:?}: the name of an interface of this host, such as eth0"
                )))
            }
        });
        Ok(Origin { source: source.transpose()?, device: device.transpose()? })
    }

    /// Returns true if it binds nothing.
    pub fn is_any(&self) -> bool {
        *self == Origin::default()
    }

    /// Returns true if a socket of this origin can reach an address: it has the same IP version.
    pub fn reaches(&self, to: &SocketAddr) -> bool {
        self.source.is_none_or(|source| source.is_ipv4() == to.ip().to_canonical().is_ipv4())
    }

    /// Binds a socket to the device and the address, for a connection to `to`.
    ///
    /// # Errors
    /// The failed operation, with a remedy: an address that this host does not have, an interface that does not exist, or
    /// an older kernel that does not allow it.
    pub fn bind(&self, socket: &Socket, to: SocketAddr) -> Result<()> {
        if let Some(device) = &self.device {
            socket.bind_device(Some(device.as_bytes())).map_err(|e| device_failed(device, e))?;
        }
        let Some(source) = self.source else { return Ok(()) };
        if !self.reaches(&to) {
            return Err(Error::usage(format!(
                "--source {}: it is of another IP version than {}, which is dialled",
                source.ip(),
                to.ip()
            )));
        }
        if socket.r#type().is_ok_and(|kind| kind == Type::STREAM) {
            // The port is chosen by connect(2), so that many connections may share one. Optional: older kernels lack it.
            let _ = set_int(socket.as_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
        }
        socket.bind(&source.into()).map_err(|e| source_failed(source, e))
    }

    /// Returns the address and the interface that a socket is bound to.
    fn of(socket: BorrowedFd<'_>) -> Origin {
        let socket = socket2::SockRef::from(&socket);
        let device = socket.device().ok().flatten();
        Origin {
            source: socket.local_addr().ok().and_then(|address| address.as_socket()),
            device: device.map(|name| String::from_utf8_lossy(&name).into_owned()),
        }
    }
}

fn device_failed(device: &str, error: io::Error) -> Error {
    let advice = match error.raw_os_error() {
        Some(libc::ENODEV) => "this host has no such interface; `ip link` lists them",
        Some(libc::EPERM) => {
            "Linux before 5.7 lets only root bind to an interface (CAP_NET_RAW); give --source ADDR instead, or grant \
             it: setcap cap_net_raw+ep on the program"
        }
        _ => "",
    };
    Error::setup_advice(format!("bind to the interface {device} (SO_BINDTODEVICE)"), error, advice)
}

fn source_failed(source: SocketAddr, error: io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            "no interface of this host has it; `ip address` lists what they have"
        }
        _ => "",
    };
    Error::setup_advice(format!("bind to the address {}", source.ip()), error, advice)
}

/// Reads an IP address with an optional zone (RFC 4007, section 11): `fe80::1%eth0`. The port is 0. `None` if the text
/// is no address.
///
/// # Errors
/// [`Error::Usage`] if this host has no interface of that name, or if the address takes no zone.
pub fn zoned(typed: &str) -> Result<Option<SocketAddr>> {
    let Some((address, zone)) = typed.split_once('%') else {
        return Ok(typed.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0)));
    };
    let Ok(address) = address.parse::<Ipv6Addr>() else { return Ok(None) };
    let index = zone.parse().ok().filter(|index| *index > 0).or_else(|| interface(zone));
    let Some(index) = index else {
        return Err(Error::usage(format!(
            "`{typed}`: this host has no interface `{zone}`; `ip link` lists them"
        )));
    };
    Ok(Some(SocketAddrV6::new(address, 0, 0, index).into()))
}

/// Returns true for an address that means something only on one link, without that link: it needs a zone.
pub fn needs_zone(address: &SocketAddrV6) -> bool {
    address.ip().is_unicast_link_local() && address.scope_id() == 0
}

/// Returns the number of an interface (if_nametoindex(3)).
fn interface(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the pointer is to a string with a NUL at its end.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index > 0).then_some(index)
}

/// Returns the path MTU in bytes that the kernel knows towards an address, for a socket that is not connected.
pub fn path_mtu_to(to: &SockAddr) -> Option<usize> {
    let asking = Socket::new(to.domain(), Type::DGRAM, None).ok()?;
    bind(&asking, to.as_socket()?).ok()?;
    asking.connect(to).ok()?;
    path_mtu(&asking)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::Domain;

    #[test]
    fn addresses_zones_and_names_are_read_and_mistakes_are_named() {
        let at =
            |typed: &str| Origin::parse(Some(typed), None).map(|origin| origin.source.unwrap());
        assert_eq!(at("192.0.2.7").unwrap(), "192.0.2.7:0".parse().unwrap());
        let SocketAddr::V6(zoned) = at("fe80::1%lo").unwrap() else { panic!("IPv6") };
        assert_eq!(zoned.scope_id(), interface("lo").unwrap());
        for (typed, said) in [
            ("fe80::1", "write fe80::1%eth0"),
            ("fe80::1%nosuch0", "no interface `nosuch0`"),
            ("eth0", "--device eth0"),
            ("1.2.3.4:5", "an address of this host"),
        ] {
            let error = at(typed).unwrap_err().to_string();
            assert!(error.contains(said), "{typed}: {error}");
        }
        assert!(Origin::parse(None, Some("lo")).is_ok());
        for typed in ["", "a b", "sixteen-and-more", "a/b"] {
            assert!(Origin::parse(None, Some(typed)).is_err(), "{typed}");
        }
    }

    #[test]
    fn a_socket_is_bound_to_both_and_reports_them() {
        let origin = Origin::parse(Some("127.0.0.7"), Some("lo")).unwrap();
        for kind in [Type::STREAM, Type::DGRAM] {
            let socket = Socket::new(Domain::IPV4, kind, None).unwrap();
            origin.bind(&socket, "127.0.0.1:9".parse().unwrap()).unwrap();
            let found = Origin::of(socket.as_fd());
            assert_eq!(found.source.unwrap().ip(), IpAddr::from([127, 0, 0, 7]));
            assert_eq!(found.device.as_deref(), Some("lo"));
        }
    }

    #[test]
    fn what_cannot_be_bound_is_named_with_a_remedy() {
        let bind = |source, device, to: &str| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
            let origin = Origin::parse(source, device).unwrap();
            origin.bind(&socket, to.parse().unwrap()).unwrap_err().to_string()
        };
        let error = bind(Some("192.0.2.77"), None, "127.0.0.1:9");
        assert!(error.contains("no interface of this host has it"), "{error}");
        let error = bind(None, Some("nosuch0"), "127.0.0.1:9");
        assert!(error.contains("no such interface"), "{error}");
        let error = bind(Some("127.0.0.1"), None, "[::1]:9");
        assert!(error.contains("another IP version"), "{error}");
    }
}
