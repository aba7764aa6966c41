//! What a contender goes through on its way to the far end: nothing, or a relay. Every transport over IP with a process
//! at the far end takes the key, so that relayed and direct are raced side by side: `race udp udp:via=relay`.

use crate::contract::{PeerKind, Reach};
use crate::error::{Error, Result};
use crate::spec::{Key, Kind, Settings, Spec};

use super::Info;

/// The key, which contenders have beside their own.
pub const KEYS: &[Key] = &[Key {
    name: "via",
    kind: Kind::Choice(&["none", "relay"]),
    default: "none",
    doc: "relay: through a relay at the far end's host, a process that takes in what comes on one port, over TCP or UDP, and forwards it",
}];

/// What a contender goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Via {
    /// Nothing: the near end dials the far one.
    #[default]
    Direct,
    /// A relay at the far end's host.
    Relay,
}

impl Via {
    /// Takes the key out of what was typed for a contender.
    ///
    /// # Errors
    /// [`Error::Usage`] where the value is none, or where the transport cannot be relayed.
    pub(super) fn take(spec: &mut Spec, info: &Info) -> Result<Via> {
        let ours = Settings::check(&spec.split_off(KEYS), KEYS)?;
        if ours.text("via") != Some("relay") {
            return Ok(Via::Direct);
        }
        if info.reach != Reach::Network || info.peer != PeerKind::Process {
            return Err(Error::usage(format!(
                "{}: a relay forwards TCP and UDP to a process, and this is neither; leave out via=relay",
                info.id
            )));
        }
        Ok(Via::Relay)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Contender;
    use super::*;

    #[test]
    fn the_key_is_every_transport_s_that_can_be_relayed_and_no_knob_of_it() {
        let relayed = Contender::parse("tcp:via=relay,cc=reno").unwrap();
        assert_eq!((relayed.via, relayed.knobs.text("cc")), (Via::Relay, Some("reno")));
        assert_eq!(relayed.spec.to_string(), "tcp:via=relay,cc=reno");
        assert_eq!(Contender::parse("udp").unwrap().via, Via::Direct);
        assert_eq!(Contender::parse("udp:via=none").unwrap().via, Via::Direct);
        for (typed, words) in [
            ("icmp:via=relay", "forwards TCP and UDP"),
            ("unix:via=relay", "forwards TCP and UDP"),
            ("udp:via=turn", "relay"),
        ] {
            let error = Contender::parse(typed).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
