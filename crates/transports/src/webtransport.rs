//! WebTransport over HTTP/3 (draft-ietf-webtrans-http3): lanes as `quic` has them, in a session that an HTTP/3
//! request opens.
//!
//! It runs on the same QUIC connection as `quic`, with the same windows, packets and congestion control, so the
//! difference between the two is the price of HTTP/3: the ends exchange SETTINGS, the near end requests the session by
//! an extended CONNECT (RFC 9220) and lanes open with the answer. Each stream begins with a type and the session's
//! number, 3 bytes, and each datagram with a quarter of that number (RFC 9297), 1 byte. web-transport-proto writes and
//! reads SETTINGS and requests in buffers; its asynchronous part is unused.

use crate::quic::lanes::Heads;
use crate::quic::layer::Layer;
use crate::quic::{self, CONTROL, OWN_ECN, OWN_PACKET, OWN_WINDOW, PACKET, QLOG, WINDOW};
use deadheat_base::error::Result;
use deadheat_datapath::transport::userspace::{ECN, Opening, Protocol, Userspace};
use deadheat_datapath::transport::{Info, identity};
use session::Http3;

mod session;

/// The transport.
#[derive(Clone, Copy)]
pub(super) struct WebTransport;

static INFO: Info = Info {
    id: "webtransport",
    label: "WebTransport",
    colour: "#1b4f8f",
    implementation: concat!(
        env!("DEADHEAT_WEB_TRANSPORT_PROTO"),
        ", ",
        env!("DEADHEAT_QUINN_PROTO")
    ),
    protocol: None,
    summary: "WebTransport over HTTP/3, as in browsers: byte streams",
    keys: deadheat_base::keys![
        CONTROL,
        identity::CIPHER,
        identity::CERTIFICATE,
        WINDOW,
        PACKET,
        ECN,
        QLOG
    ],
    deployed: &[OWN_WINDOW, OWN_PACKET, OWN_ECN, identity::OWN_CIPHER],
    ..quic::STREAM
};

/// HTTP/3 between QUIC and lanes.
static LAYER: Layer<quinn_proto::Connection> = Layer {
    alpn: "h3",
    streams: session::OWN_STREAMS,
    heads: Heads { stream: session::STREAM_HEAD, datagram: session::DATAGRAM_HEAD },
    session: |side| Some(Box::new(Http3::new(side))),
};

impl Userspace for WebTransport {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Protocol>> {
        quic::open(INFO.id, &LAYER, opening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::Quic;
    use deadheat_base::spec::{Settings, Spec};
    use deadheat_base::time::Nanos;
    use deadheat_contract::contract::Side;
    use deadheat_datapath::transport::hello::Token;
    use deadheat_datapath::transport::userspace::{Received, State};

    fn open(transport: &dyn Userspace, side: Side) -> Box<dyn Protocol> {
        let info = transport.info();
        let knobs = Settings::check(&Spec::parse(info.id).unwrap(), info.keys).unwrap();
        let opening = Opening {
            side,
            token: Token::from_bytes([7; 16]),
            knobs: &knobs,
            lanes: info.guarantees.one_lane(),
            largest_message: 1_000,
            mtu: 1_500,
            ip_header: 20,
            tickets: &deadheat_datapath::transport::Tickets::default(),
        };
        transport.open(&opening).unwrap()
    }

    /// Moves the datagrams that leave.
    fn carry(now: Nanos, from: &mut dyn Protocol, to: &mut dyn Protocol) {
        let mut datagram = Vec::new();
        while from.transmit(now, 1, &mut datagram).is_some() {
            to.handle(Received::plain(now, &datagram));
            datagram.clear();
        }
    }

    /// Returns the round trips until the near end may send.
    fn connecting(transport: &dyn Userspace) -> u64 {
        let [mut near, mut far] = [Side::Near, Side::Far].map(|side| open(transport, side));
        near.on_deadline(Nanos::ZERO);
        for trips in 1..10 {
            let now = Nanos::from_millis(50 * trips);
            carry(now, &mut *near, &mut *far);
            carry(now, &mut *far, &mut *near);
            if near.state() == State::Open {
                return trips;
            }
        }
        panic!("{:?}, {:?}", near.state(), far.state());
    }

    #[test]
    fn a_session_costs_one_round_trip_more_than_its_connection() {
        assert_eq!((connecting(&Quic), connecting(&WebTransport)), (1, 2));
    }
}
