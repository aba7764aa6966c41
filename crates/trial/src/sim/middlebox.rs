//! NAT or firewall of a link in virtual time: the machine of emulated networks, on headers of simulated packets.

use super::header::{Endpoint, translated};
use deadheat_base::time::Nanos;
use deadheat_path::addresses::public_address;
use deadheat_path::nat::{Middlebox, Translator, Verdict};
use deadheat_path::segment::VNET;

/// NAT or firewall of a link, with its bindings.
pub(super) struct SimulatedMiddlebox {
    translator: Translator,
    /// Frame of the last packet: its headers, and a byte of content.
    frame: Vec<u8>,
    /// Packets, and bytes of them, that it dropped behind the channel.
    pub(super) refused: (u64, u64),
}

impl SimulatedMiddlebox {
    /// Creates the middlebox at the first host of the link with this number, without bindings.
    pub(super) fn new(middlebox: &Middlebox, link: usize, mtu: u16) -> SimulatedMiddlebox {
        let translator = Translator::new(middlebox, public_address(link), mtu);
        SimulatedMiddlebox { translator, frame: Vec::new(), refused: (0, 0) }
    }

    /// Translates the ends of a packet that leaves; `head` appends its headers.
    pub(super) fn outward(
        &mut self,
        now: Nanos,
        ends: &mut [Endpoint; 2],
        head: impl FnOnce(&mut Vec<u8>),
    ) -> Verdict {
        let mut len = self.write(head);
        let verdict = self.translator.outward(now, &mut self.frame, &mut len);
        if verdict != Verdict::Blocked {
            *ends = translated(&self.frame[VNET..], *ends);
        }
        verdict
    }

    /// Translates the ends of a packet from outside, likewise. Returns false if it is dropped.
    pub(super) fn inward(
        &mut self,
        now: Nanos,
        ends: &mut [Endpoint; 2],
        head: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let mut len = self.write(head);
        let passes = self.translator.inward(now, &mut self.frame, &mut len);
        if passes {
            *ends = translated(&self.frame[VNET..], *ends);
        }
        passes
    }

    /// Writes the frame, and returns its length.
    fn write(&mut self, head: impl FnOnce(&mut Vec<u8>)) -> usize {
        self.frame.clear();
        self.frame.resize(VNET, 0);
        head(&mut self.frame);
        // A byte of content, without which a later fragment is no packet.
        self.frame.push(0);
        self.frame.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::header::PacketHeader;
    use deadheat_base::ecn::Codepoint;
    use deadheat_path::network::Network;

    const INSIDE: Endpoint = Endpoint::new(0, 0, 50_000);
    /// Remote endpoints: the first, another port there, another address.
    const REMOTE: [Endpoint; 3] =
        [Endpoint::new(2, 1, 5_210), Endpoint::new(2, 1, 5_211), Endpoint::new(3, 1, 5_210)];

    fn head(ends: [Endpoint; 2]) -> impl FnOnce(&mut Vec<u8>) {
        let header = PacketHeader {
            ends,
            bytes: 128,
            datagram: 108,
            codepoint: Codepoint::NotEct,
            fragment: None,
        };
        move |room| _ = header.write(20, room)
    }

    /// Sends a packet to a remote endpoint, and returns its endpoint outside.
    fn out(of: &mut SimulatedMiddlebox, at: u64, from: Endpoint, to: Endpoint) -> Endpoint {
        let mut ends = [from, to];
        assert_eq!(of.outward(Nanos::from_secs(at), &mut ends, head([from, to])), Verdict::Passes);
        assert_eq!(ends[1], to);
        ends[0]
    }

    /// Returns the endpoint inside that a packet from outside comes to; `None` if it is dropped.
    fn back(
        of: &mut SimulatedMiddlebox,
        at: u64,
        from: Endpoint,
        to: Endpoint,
    ) -> Option<Endpoint> {
        let mut ends = [from, to];
        of.inward(Nanos::from_secs(at), &mut ends, head([from, to])).then_some(ends[1])
    }

    fn middlebox(typed: &str) -> SimulatedMiddlebox {
        let network = Network::parse(&format!("a--r:delay=1ms + r--s:{typed} + s--b")).unwrap();
        SimulatedMiddlebox::new(&network.links[1].middlebox.unwrap(), 1, 1_500)
    }

    /// RFC 4787, sections 4.1 and 5: the mapping decides which remote endpoints see the same port, the filter which may
    /// answer.
    #[test]
    fn each_class_maps_and_filters_as_its_name_says() {
        for (mapping, shares) in
            [("eim", [true, true]), ("adm", [true, false]), ("apdm", [false; 2])]
        {
            for (filter, lets) in
                [("eif", [true, true]), ("adf", [true, false]), ("apdf", [false; 2])]
            {
                let mut nat = middlebox(&format!("nat={mapping}/{filter}"));
                let outside = out(&mut nat, 1, INSIDE, REMOTE[0]);
                assert!(outside.is_public() && outside.link() == 1, "{outside:?}");
                assert_eq!(back(&mut nat, 1, REMOTE[0], outside), Some(INSIDE));
                let passes =
                    [1, 2].map(|other| back(&mut nat, 1, REMOTE[other], outside).is_some());
                assert_eq!(passes, lets, "{mapping}/{filter}");
                let same = [1, 2].map(|other| out(&mut nat, 1, INSIDE, REMOTE[other]) == outside);
                assert_eq!(same, shares, "{mapping}/{filter}");
            }
        }
    }

    #[test]
    fn a_binding_ends_in_virtual_time_and_a_firewall_changes_no_address() {
        let mut nat = middlebox("nat=symmetric,nat-timeout=2s");
        let outside = out(&mut nat, 1, INSIDE, REMOTE[0]);
        assert_eq!(back(&mut nat, 2, REMOTE[0], outside), Some(INSIDE), "it was renewed");
        assert_eq!(back(&mut nat, 4, REMOTE[0], outside), None);
        let mut wall = middlebox("firewall=stateful");
        assert_eq!(back(&mut wall, 1, REMOTE[0], INSIDE), None);
        assert_eq!(out(&mut wall, 1, INSIDE, REMOTE[0]), INSIDE);
        assert_eq!(back(&mut wall, 1, REMOTE[0], INSIDE), Some(INSIDE));
    }
}
