//! Explicit congestion notification of a connection (RFC 9000, 13.4): it marks its datagrams ECT(0) as long as the
//! peer's acknowledgements confirm the marks. quinn knows no other codepoint, and takes a count of ECT(1) for a broken
//! path. So both ends of an L4S connection exchange the two codepoints below the library.

use super::CONTROL;
use deadheat_base::ecn::Codepoint;
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Settings;
use deadheat_base::spec::typed::Optional;
use deadheat_datapath::transport::userspace::{ECN, EQUAL_ECN};

/// Key of QUIC by quinn.
pub(crate) const QUINN_ECN: Optional<Ecn> = Optional::choice(ECN.name(), &["off", "on", "l4s"], &[Ecn::Off, Ecn::On(Codepoint::NotEct), Ecn::L4s(Codepoint::NotEct)])
    .assumed(EQUAL_ECN)
    .doc("on: marks packets as capable of congestion notification (RFC 3168), which queues mark instead of dropping, unless the \
     path clears the marks (RFC 9000, 13.4); l4s: marks them ECT(1) (RFC 9331), with Prague as congestion control");

/// ECN of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ecn {
    /// Off: marks nothing, and counts no marks for the peer.
    Off,
    /// On, with the codepoint of the connection's last datagrams. The library stops marking for good once an
    /// acknowledgement does not confirm the marks.
    On(Codepoint),
    /// On with ECT(1) on the path in place of ECT(0).
    L4s(Codepoint),
}

/// Refuses L4S where it cannot be: beside another congestion control, which would not be scalable (RFC 9331, section 4.3),
/// and to a program of others.
///
/// # Errors
/// [`Error::Usage`] or [`Error::Unsupported`] with what to do instead.
pub(super) fn check(id: &str, knobs: &Settings, to_others: bool) -> Result<()> {
    if !Ecn::of(knobs).is_l4s() {
        return Ok(());
    }
    if to_others {
        let why = "quinn takes acknowledgements of ECT(1) by a program of others for those of a broken path; it \
                   works to a far end of deadheat";
        return Err(Error::unsupported(format!("{id}:ecn=l4s"), why));
    }
    if knobs.given(CONTROL.name()) {
        return Err(Error::usage(format!(
            "`{id}:ecn=l4s` has Prague as its congestion control; leave `{}` out",
            CONTROL.name()
        )));
    }
    Ok(())
}

/// Exchanges ECT(0) and ECT(1).
fn exchanged(codepoint: Codepoint) -> Codepoint {
    match codepoint {
        Codepoint::Ect0 => Codepoint::Ect1,
        Codepoint::Ect1 => Codepoint::Ect0,
        other => other,
    }
}

impl Ecn {
    /// Returns the ECN that the knobs of a contender request.
    pub(crate) fn of(knobs: &Settings) -> Ecn {
        knobs.find(&QUINN_ECN).unwrap_or(Ecn::Off)
    }

    pub(crate) fn is_l4s(self) -> bool {
        matches!(self, Ecn::L4s(_))
    }

    /// Returns the codepoint of datagrams for which the library wants this one, and stores it.
    pub(super) fn leaves(&mut self, wanted: Codepoint) -> Codepoint {
        let (last, wanted) = match self {
            Ecn::Off => return Codepoint::NotEct,
            Ecn::On(last) => (last, wanted),
            Ecn::L4s(last) => (last, exchanged(wanted)),
        };
        *last = wanted;
        wanted
    }

    /// Returns the codepoint of a datagram that arrived, as far as the connection reads it.
    pub(super) fn arrives(self, codepoint: Codepoint) -> Codepoint {
        match self {
            Ecn::Off => Codepoint::NotEct,
            Ecn::On(_) => codepoint,
            Ecn::L4s(_) => exchanged(codepoint),
        }
    }

    /// Describes the result, after a number of acknowledgements from the peer.
    pub(super) fn word(self, acknowledgements: u64) -> &'static str {
        match self {
            Ecn::Off => "off",
            Ecn::On(last) | Ecn::L4s(last) if !last.is_capable() && acknowledgements > 0 => {
                "off: the path clears the marks"
            }
            Ecn::L4s(_) if acknowledgements == 0 => "l4s, not validated",
            Ecn::L4s(_) => "l4s, validated",
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
    fn after(
        typed: &str,
        change: impl Fn(Codepoint) -> Codepoint,
    ) -> (Box<dyn Protocol>, Codepoint) {
        let knobs = Settings::check(&Spec::parse(typed).unwrap(), KEYS).unwrap();
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
        let (near, last) = after("quic:ecn=on", |codepoint| codepoint);
        assert_eq!(near.effective()["ecn"], "on, validated");
        assert_eq!(last, Codepoint::Ect0);
        assert_eq!(near.stats().view.unwrap().congestion_events, Some(0));
        let (congested, _) = after("quic:ecn=on", |_| Codepoint::Ce);
        assert_eq!(congested.effective()["ecn"], "on, validated");
        assert!(congested.stats().view.unwrap().congestion_events > Some(0));
        assert!(congested.stats().view.unwrap().cwnd_bytes < near.stats().view.unwrap().cwnd_bytes);
    }

    #[test]
    fn l4s_is_ect1_on_the_path_both_ways_with_prague() {
        let (near, last) = after("quic:ecn=l4s", |codepoint| {
            assert!(codepoint.is_l4s() || codepoint == Codepoint::NotEct, "{codepoint:?}");
            codepoint
        });
        let effective = near.effective();
        assert_eq!(["ecn", "cc"].map(|key| effective[key].as_str()), ["l4s, validated", "prague"]);
        assert_eq!(last, Codepoint::Ect1);
        let (congested, last) = after("quic:ecn=l4s", |_| Codepoint::Ce);
        assert_eq!(
            (congested.effective()["ecn"].as_str(), last),
            ("l4s, validated", Codepoint::Ect1)
        );
        let window = |end: &dyn Protocol| end.stats().view.unwrap().cwnd_bytes;
        assert!(window(&*congested) < window(&*near) / 2);
        // A router that bleaches it to ECT(0) is found out.
        let (bleached, _) = after("quic:ecn=l4s", |_| Codepoint::Ect0);
        assert_eq!(bleached.effective()["ecn"], "off: the path clears the marks");
    }

    #[test]
    fn l4s_takes_no_other_control_and_no_program_of_others() {
        let refused = |typed: &str, to_others| {
            let knobs = Settings::check(&Spec::parse(typed).unwrap(), KEYS).unwrap();
            super::check("quic", &knobs, to_others).map_err(|error| error.to_string())
        };
        assert_eq!(refused("quic:ecn=l4s", false), Ok(()));
        assert_eq!(refused("quic:ecn=on,cc=cubic", true), Ok(()));
        assert!(refused("quic:ecn=l4s,cc=cubic", false).unwrap_err().contains("leave `cc` out"));
        assert!(refused("quic:ecn=l4s", true).unwrap_err().contains("a far end of deadheat"));
    }

    #[test]
    fn a_path_that_clears_the_marks_ends_them() {
        let (near, last) = after("quic:ecn=on", |_| Codepoint::NotEct);
        assert_eq!(near.effective()["ecn"], "off: the path clears the marks");
        assert_eq!(last, Codepoint::NotEct);
    }
}
