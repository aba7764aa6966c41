//! Firewall in front of a link: from a time on, all packets of some protocols of IP are dropped.
//!
//! It acts before everything else on the link. A packet that it drops is no loss of the link: the loss model does
//! not see it, counts it in no burst and gives it no number.

use std::fmt;

use super::impair::packet::Packet;
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::time::Nanos;
use deadheat_base::units::{parse_span, span_text};

/// Latest time from which a protocol may be blocked.
const LATEST: Nanos = Nanos::from_secs(3_600);

/// Protocol of IP that can be blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedProtocol {
    /// ICMP, of either version of IP (RFC 792, RFC 4443).
    Icmp,
    /// TCP (RFC 9293).
    Tcp,
    /// UDP (RFC 768).
    Udp,
    /// DCCP (RFC 4340).
    Dccp,
    /// SCTP (RFC 9260); inside UDP (RFC 6951) it is UDP.
    Sctp,
    /// UDP-Lite (RFC 3828).
    UdpLite,
}

impl BlockedProtocol {
    /// All of them.
    pub const ALL: [BlockedProtocol; 6] = [
        BlockedProtocol::Icmp,
        BlockedProtocol::Tcp,
        BlockedProtocol::Udp,
        BlockedProtocol::Dccp,
        BlockedProtocol::Sctp,
        BlockedProtocol::UdpLite,
    ];

    /// Returns its name in a path.
    pub fn name(self) -> &'static str {
        match self {
            BlockedProtocol::Icmp => "icmp",
            BlockedProtocol::Tcp => "tcp",
            BlockedProtocol::Udp => "udp",
            BlockedProtocol::Dccp => "dccp",
            BlockedProtocol::Sctp => "sctp",
            BlockedProtocol::UdpLite => "udplite",
        }
    }

    /// Returns true if this number in an IP header stands for it (IANA, Assigned Internet Protocol Numbers).
    #[inline]
    fn has(self, number: u8) -> bool {
        match self {
            BlockedProtocol::Icmp => number == 1 || number == 58,
            BlockedProtocol::Tcp => number == 6,
            BlockedProtocol::Udp => number == 17,
            BlockedProtocol::Dccp => number == 33,
            BlockedProtocol::Sctp => number == 132,
            BlockedProtocol::UdpLite => number == 136,
        }
    }
}

/// Rule of a firewall: all packets of a protocol are dropped, from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Protocol.
    pub protocol: BlockedProtocol,
    /// Time from which it is blocked, since the start of the path.
    pub from: Nanos,
}

impl Block {
    /// Returns true if it drops a packet that arrives at `now`.
    #[inline]
    pub fn takes(&self, packet: &Packet, now: Nanos) -> bool {
        now >= self.from && self.protocol.has(packet.protocol)
    }

    /// Parses rules such as `udp`, `udp@3s` or `udp@3s/icmp`.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the mistake and a correct form.
    pub fn parse_all(typed: &str) -> Result<Vec<Block>> {
        let mut all: Vec<Block> = Vec::new();
        for part in typed.split('/') {
            let (name, from) = match part.split_once('@') {
                Some((name, from)) => (name, parse_span(from)?),
                None => (part, Nanos::ZERO),
            };
            let Some(protocol) = BlockedProtocol::ALL.into_iter().find(|one| one.name() == name)
            else {
                let names: Vec<&str> = BlockedProtocol::ALL.iter().map(|one| one.name()).collect();
                return Err(unknown("protocol of IP", name, &names));
            };
            if from > LATEST {
                return Err(Error::usage(format!(
                    "`{part}` is blocked later than an hour after the path began, when no trial lasts; write at \
                     most {name}@1h"
                )));
            }
            if all.iter().any(|one| one.protocol == protocol) {
                return Err(Error::usage(format!(
                    "`{name}` is blocked twice; what is blocked stays so, and the earlier time would do"
                )));
            }
            all.push(Block { protocol, from });
        }
        Ok(all)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.protocol.name())?;
        if self.from > Nanos::ZERO { write!(f, "@{}", span_text(self.from)) } else { Ok(()) }
    }
}

/// Returns the text of rules, as [`Block::parse_all`] reads it.
pub fn text(rules: &[Block]) -> String {
    rules.iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impair::Channel;
    use crate::impair::packet::{Cause, End, Place};
    use crate::network::{Impairments, Loss};
    use deadheat_base::ends::Direction;

    fn of(protocol: u8) -> Packet {
        Packet { protocol, ..Packet::of_bytes(100) }
    }

    #[test]
    fn rules_are_read_and_written_back() {
        for typed in ["udp", "tcp@250ms", "udp@3s/icmp/sctp@1.5s/dccp/udplite/tcp@1h"] {
            let rules = Block::parse_all(typed).unwrap();
            assert_eq!(text(&rules).replace("1500ms", "1.5s").replace("3600s", "1h"), typed);
        }
        let said = |typed: &str| Block::parse_all(typed).unwrap_err().to_string();
        assert!(said("upd").contains("did you mean `udp`?"), "{}", said("upd"));
        assert!(said("").contains("protocol of IP"));
        assert!(said("udp/udp@1s").contains("twice"));
        assert!(said("udp@").contains("``") || said("udp@").contains("time"), "{}", said("udp@"));
        assert!(said("udp@2h").contains("udp@1h"));
    }

    #[test]
    fn a_protocol_is_dropped_from_its_time_on_and_no_other_is() {
        let rules = Block::parse_all("udp@3s/icmp").unwrap();
        let takes = |number, at| rules.iter().any(|rule| rule.takes(&of(number), at));
        let late = Nanos::from_secs(3);
        assert!(!takes(17, late - Nanos(1)) && takes(17, late) && takes(17, late + late));
        assert!(takes(1, Nanos::ZERO) && takes(58, Nanos::ZERO));
        assert!(!takes(6, late) && !takes(132, late) && !takes(0, late) && !takes(136, late));
    }

    /// Blocked packets have a counter of their own, and the loss model's numbers skip them.
    #[test]
    fn what_is_blocked_is_no_loss_and_has_no_number() {
        let model = Impairments {
            block: Block::parse_all("udp@50ns").unwrap(),
            loss: Loss::List([60, 61].into()),
            ..Impairments::default()
        };
        let place = Place { seed: 1, link: 0, direction: Direction::Up };
        let mut channel: Channel<u64> = Channel::new(&model, place);
        // Two packets each nanosecond, of UDP and of TCP; the 50 UDP packets from 50 on are blocked.
        for at in 0..100 {
            for protocol in [17, 6] {
                channel.arrive(Nanos(at), &of(protocol), at);
            }
        }
        let ends: Vec<End> = channel.rest().map(|departure| departure.end).collect();
        let count = |cause| ends.iter().filter(|end| **end == End::Dropped(cause)).count();
        assert_eq!((count(Cause::Blocked), count(Cause::Lost)), (50, 2));
        let fates = channel.fates();
        assert_eq!((fates.arrived, fates.blocked, fates.lost, fates.bursts), (200, 50, 2, 1));
        assert_eq!((fates.delivered, channel.log().to_string()), (148, "60-61".into()));
    }
}
