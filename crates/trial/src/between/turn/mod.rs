//! TURN: a third-party relay (RFC 8656) between the near end and a far one.
//!
//! ```text
//! near end ──► client ── path ──► TURN server ──► far end
//!              at the near host   at the far host (via=coturn), or an existing one (via=turn:HOST)
//! ```
//! The near end dials the client, a process beside it, which requests an allocation for each of its sockets from the
//! server and forwards its datagrams as ChannelData, four bytes longer. So every contender over UDP goes through TURN
//! without any change.

mod allocation;
mod batch;
mod client;
mod coturn;
pub mod message;
pub(crate) mod way;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use deadheat_base::error::{Error, Result};
use deadheat_datapath::datapath::origin::Origin;

pub(crate) use client::run as carry;
pub(crate) use coturn::run as serve;

/// Bytes that a datagram is longer between client and server: the header of ChannelData (RFC 8656, section 12.4).
pub const OVERHEAD: usize = 4;

/// Environment variable with the user name for a TURN server.
pub const USER_VARIABLE: &str = "DEADHEAT_TURN_USER";
/// Environment variable with the password for it.
pub const PASSWORD_VARIABLE: &str = "DEADHEAT_TURN_PASSWORD";

/// Name and password of the long-term mechanism (RFC 8489, section 9.2); the server chooses the realm. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCredentials {
    /// User name that the server knows.
    pub user: String,
    /// Password in UTF-8, unchanged.
    pub password: String,
}

impl TurnCredentials {
    /// Reads name and password from the environment; `None` if neither is set.
    ///
    /// # Errors
    /// [`Error::Usage`] if only one of them is set, or one is not valid text or too long for the protocol.
    pub fn from_environment() -> Result<Option<TurnCredentials>> {
        let [user, password] = [USER_VARIABLE, PASSWORD_VARIABLE].map(std::env::var_os);
        let text = |name: &str, value: std::ffi::OsString| {
            let fits = |text: &String| (1..=LONGEST).contains(&text.len());
            value.into_string().ok().filter(fits).ok_or_else(|| {
                Error::usage(format!("{name} is no text of 1 to {LONGEST} bytes in UTF-8"))
            })
        };
        match (user, password) {
            (None, None) => Ok(None),
            (Some(user), Some(password)) => Ok(Some(TurnCredentials {
                user: text(USER_VARIABLE, user)?,
                password: text(PASSWORD_VARIABLE, password)?,
            })),
            _ => Err(Error::usage(format!(
                "a TURN server asks for both or neither; set {USER_VARIABLE} and {PASSWORD_VARIABLE}, or unset both"
            ))),
        }
    }
}

impl std::fmt::Debug for TurnCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// Length limit of names (RFC 8489, section 14.3) and passwords, in bytes.
const LONGEST: usize = 508;

/// Plan of a TURN client beside a near end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnPlan {
    /// Address of the TURN server.
    pub server: SocketAddr,
    /// Address of the far end, to which the server relays.
    pub to: SocketAddr,
    /// Name and password, if the server asks for them.
    pub credentials: Option<TurnCredentials>,
    /// Number of allocations to make before the near end dials, one for each of its sockets.
    pub allocations: u16,
    /// Local address and interface of the sockets to the server.
    #[serde(default, skip_serializing_if = "Origin::is_any")]
    pub origin: Origin,
}

/// Plan of a TURN server for one trial, at the far end's host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoturnPlan {
    /// Address to listen at; port 0 for a free one.
    pub at: SocketAddr,
    /// Name and password that it requires.
    pub credentials: TurnCredentials,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_no_text_of_ours() {
        let credentials = TurnCredentials { user: "ann".into(), password: "s3cret".into() };
        let plan = CoturnPlan { at: "127.0.0.1:0".parse().unwrap(), credentials };
        let shown = format!("{plan:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("ann"), "{shown}");
    }
}
