//! Explicit congestion notification of a connection (RFC 9000, 13.4): it marks its datagrams ECT(0) as long as the
//! peer's acknowledgements confirm the marks.

use deadheat_base::ecn::Codepoint;

/// ECN of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ecn {
    /// Off: marks nothing, and counts no marks for the peer.
    Off,
    /// On, with the codepoint of the connection's last datagrams. The library stops marking for good once an
    /// acknowledgement does not confirm the marks.
    On(Codepoint),
}

impl Ecn {
    /// Returns the ECN of a connection; on if `ecn=on`.
    pub(super) fn new(on: Option<bool>) -> Ecn {
        if on == Some(true) { Ecn::On(Codepoint::NotEct) } else { Ecn::Off }
    }

    /// Returns the codepoint of datagrams for which the library wants this one, and stores it.
    pub(super) fn leaves(&mut self, wanted: Codepoint) -> Codepoint {
        let Ecn::On(last) = self else { return Codepoint::NotEct };
        *last = wanted;
        wanted
    }

    /// Returns the codepoint of a datagram that arrived, as far as the connection reads it.
    pub(super) fn arrives(self, codepoint: Codepoint) -> Codepoint {
        if self == Ecn::Off { Codepoint::NotEct } else { codepoint }
    }

    /// Describes the result, after a number of acknowledgements from the peer.
    pub(super) fn word(self, acknowledgements: u64) -> &'static str {
        match self {
            Ecn::Off => "off",
            Ecn::On(last) if !last.is_capable() && acknowledgements > 0 => {
                "off: the path clears the marks"
            }
            Ecn::On(_) if acknowledgements == 0 => "on, not validated",
            Ecn::On(_) => "on, validated",
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::quic::{KEYS, Quic};
    use deadheat_base::ecn::Codepoint;
    use deadheat_base::spec::{Settings, Spec};
    use deadheat_base::time::Nanos;
    use deadheat_contract::contract::{Lane, Service, Side};
    use deadheat_datapath::transport::Tickets;
    use deadheat_datapath::transport::hello::Token;
    use deadheat_datapath::transport::userspace::{
        Opening, Protocol, Received, Rest, State, Userspace,
    };

    /// Moves 100 kB of content over a path of 10 ms that changes codepoints. Returns the near end, and the codepoint of
    /// its last datagram.
    fn after(change: impl Fn(Codepoint) -> Codepoint) -> (Box<dyn Protocol>, Codepoint) {
        let knobs = Settings::check(&Spec::parse("quic:ecn=on").unwrap(), KEYS).unwrap();
        let open = |side| {
            let opening = Opening {
                side,
                token: Token::from_bytes([9; 16]),
                knobs: &knobs,
                lanes: &[Service::ORDERED],
                largest_message: 1_000,
                mtu: 1_500,
                ip_header: 20,
                tickets: &Tickets::default(),
            };
            Quic.open(&opening).unwrap()
        };
        let mut ends = [Side::Near, Side::Far].map(open);
        let (mut now, mut last) = (Nanos::from_secs(1), [Codepoint::NotEct; 2]);
        ends[0].on_deadline(now);
        let mut left = 100_000;
        for _ in 0..500 {
            for from in [0, 1] {
                let (mut datagram, mut flying) = (Vec::new(), Vec::new());
                while let Some(transmit) = ends[from].transmit(now, 1, &mut datagram) {
                    last[from] = transmit.ecn;
                    flying.push((std::mem::take(&mut datagram), transmit.ecn));
                }
                now += Nanos::from_millis(10);
                for (bytes, ecn) in flying {
                    let arrived = Received { at: now, bytes: &bytes, ecn: change(ecn) };
                    ends[1 - from].handle(arrived);
                }
            }
            for end in &mut ends {
                if end.next_deadline().is_some_and(|due| due <= now) {
                    end.on_deadline(now);
                }
                end.read(now, &mut |_, bytes| bytes.len());
            }
            let piece = ends[0].room(Lane(0)).min(left).min(10_000);
            if ends[0].state() == State::Open && piece > 0 {
                ends[0].write(now, Lane(0), &vec![7; piece], Rest::Kept).unwrap();
                left -= piece;
            }
        }
        let [near, _] = ends;
        assert!(left == 0 && near.is_drained());
        (near, last[0])
    }

    #[test]
    fn marks_are_validated_and_one_that_a_queue_set_is_congestion() {
        let (near, last) = after(|codepoint| codepoint);
        assert_eq!(near.effective()["ecn"], "on, validated");
        assert_eq!(last, Codepoint::Ect0);
        assert_eq!(near.stats().view.unwrap().congestion_events, Some(0));
        let (congested, _) = after(|_| Codepoint::Ce);
        assert_eq!(congested.effective()["ecn"], "on, validated");
        assert!(congested.stats().view.unwrap().congestion_events > Some(0));
        assert!(congested.stats().view.unwrap().cwnd_bytes < near.stats().view.unwrap().cwnd_bytes);
    }

    #[test]
    fn a_path_that_clears_the_marks_ends_them() {
        let (near, last) = after(|_| Codepoint::NotEct);
        assert_eq!(near.effective()["ecn"], "off: the path clears the marks");
        assert_eq!(last, Codepoint::NotEct);
    }
}
