//! Relay between a contender and the far end, or none. Every transport over IP with a process at the far end takes
//! the key, so that relayed and direct race each other: `race udp udp:via=relay`.

use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::spec::typed::Preset;
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_contract::contract::Reach;

use super::Info;

/// Command name of Debian's TURN server.
pub const COTURN: &str = "turnserver";

/// Default port of a TURN server (RFC 8656, section 3.1).
const PORT: u16 = 3478;

/// Values of the key; the form of a TURN server is its URI (RFC 7065).
const FORM: &str = "none|relay|relay@HOST[:PORT]|coturn|turn:HOST[:PORT]";

/// Key for the relay, which contenders take beside their own.
pub const KEYS: &[Key] = &[KEY];

const KEY: Key = Key::own("via", FORM, |value| Via::parse(value).map(drop))
    .or("none")
    .doc("relay: a process that forwards everything from one port, over TCP or UDP, at the far end's host or, in an \
     emulated network, at that of relay=. relay@HOST: one at a third host, where `deadheat serve --relay-to` runs, \
     with --to. coturn: Debian's TURN server, started where relay would be for the trial, without --to. turn:HOST: a \
     TURN server of yours, with --to");

const VIA: Preset<Via> = Preset::form(KEY, Via::parse, Via::Direct);

/// Relay that a contender goes through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Via {
    /// Nothing: the near end dials the far one.
    #[default]
    Direct,
    /// Relay of our own at the far end's host.
    Relay,
    /// Relay of our own at a third host, which has a server.
    RelayAt {
        /// The host, with its port if it is not the usual one, as typed.
        host: String,
    },
    /// coturn, started at the far end's host for the trial.
    Coturn,
    /// External TURN server.
    Turn {
        /// Name or address of its host.
        host: String,
        /// Port over UDP.
        port: u16,
    },
}

impl Via {
    /// Removes the key from the options that were typed for a contender.
    ///
    /// # Errors
    /// [`Error::Usage`] where the value is invalid, or where the transport cannot be relayed.
    pub fn take(spec: &mut Spec, info: &Info) -> Result<Via> {
        let via = Settings::check(&spec.split_off(KEYS), KEYS)?.get(&VIA);
        let is_relayed = info.reach == Reach::Network && info.peer.is_process_of_ours();
        if via != Via::Direct && !is_relayed {
            return Err(Error::usage(format!(
                "{}: a relay forwards TCP and UDP to a process, and this is neither; leave out via",
                info.id
            )));
        }
        Ok(via)
    }

    /// Reads `none`, `relay`, `relay@HOST`, `coturn`, or the URI of a TURN server (RFC 7065).
    ///
    /// # Errors
    /// [`Error::Usage`] naming the forms.
    pub fn parse(value: &str) -> Result<Via> {
        if let Some(server) = value.strip_prefix("turn:") {
            let (host, port) = server_of(server, PORT).ok_or_else(|| {
                Error::usage(format!(
                    "`{server}` is no TURN server; write turn:HOST, turn:HOST:PORT or turn:[IPv6]:PORT"
                ))
            })?;
            return Ok(Via::Turn { host, port });
        }
        if let Some(host) = value.strip_prefix("relay@") {
            server_of(host, 1).ok_or_else(|| {
                Error::usage(format!(
                    "`{host}` is no host of a relay; write relay@HOST, relay@HOST:PORT or relay@[IPv6]:PORT"
                ))
            })?;
            return Ok(Via::RelayAt { host: host.to_owned() });
        }
        match value {
            "none" => Ok(Via::Direct),
            "relay" => Ok(Via::Relay),
            "coturn" => Ok(Via::Coturn),
            "turn" => Err(Error::usage(
                "turn: which server? write turn:HOST, or coturn to have one started for each trial",
            )),
            _ => Err(unknown(
                "value",
                value,
                &["none", "relay", "relay@HOST", "coturn", "turn:HOST"],
            )),
        }
    }

    /// Returns true if it speaks TURN, which relays UDP alone.
    pub fn is_turn(&self) -> bool {
        matches!(self, Via::Coturn | Via::Turn { .. })
    }

    /// Returns it in words.
    pub fn title(&self) -> String {
        match self {
            Via::Direct => "none in between".into(),
            Via::Relay => "through a relay".into(),
            Via::RelayAt { host } => format!("through a relay at {host}"),
            Via::Coturn => "through coturn, by TURN".into(),
            Via::Turn { host, port } => format!("through the TURN server {host}:{port}"),
        }
    }

    /// Checks that it leads to the far hosts of a race, by their names; `None` if both ends are on this machine.
    ///
    /// # Errors
    /// [`Error::Usage`] with the way that leads there.
    pub fn check_to(&self, typed: &Spec, far: Option<&[String]>) -> Result<()> {
        let why = match (self, far) {
            (Via::Coturn, Some(_)) => unserved_coturn(typed),
            (Via::RelayAt { host }, None) => format!(
                "{typed}: this relay stands between this host and a far one, and here both ends are on one machine; name \
                 the far host with --to, or use via=relay, with relay={host} where an emulated network has this host"
            ),
            (Via::RelayAt { host }, Some(far)) if far.contains(host) => format!(
                "{typed}: {host} is the far host itself; via=relay is a relay there, in front of the far end"
            ),
            _ => return Ok(()),
        };
        Err(Error::usage(why))
    }

    /// Checks that this host has the necessary program.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where coturn is not installed.
    pub fn check(&self) -> Result<()> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = || std::env::split_paths(&path).any(|at| at.join(COTURN).is_file());
        if *self != Via::Coturn || is_there() { Ok(()) } else { Err(no_coturn()) }
    }
}

/// Returns the reason why a server starts no TURN server for a client, and alternatives.
pub fn unserved_coturn(typed: &Spec) -> String {
    format!(
        "{typed}: a TURN server forwards to wherever its client says, so a server starts none for its clients; via=relay \
         leads to the trial's own far end there, and via=turn:HOST through a TURN server of yours"
    )
}

/// Returns the error of a host without coturn.
pub fn no_coturn() -> Error {
    Error::unsupported(
        "via=coturn",
        format!(
            "there is no `{COTURN}` on the PATH; install coturn (Debian's package has that name, and its service need not \
             run), or use via=relay"
        ),
    )
}

/// Returns host and port of `HOST`, `HOST:PORT`, `[IPv6]` or `[IPv6]:PORT`; `None` for any other form.
fn server_of(typed: &str, default: u16) -> Option<(String, u16)> {
    let (host, port) = match typed.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port)
        }
        None => {
            let at = typed.find(':').unwrap_or(typed.len());
            let (host, port) = typed.split_at(at);
            let fits = |c: char| c.is_alphanumeric() || "._-".contains(c);
            host.chars().all(fits).then_some((host, port))?
        }
    };
    let port = match port {
        "" => default,
        port => port.strip_prefix(':')?.parse().ok().filter(|port| *port != 0)?,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}
