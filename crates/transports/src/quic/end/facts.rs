//! Facts about an end of a connection: its counters, and the options in effect.

use quinn_proto::ConnectionStats;

use super::super::AROUND;
use super::super::acknowledged::Acknowledged;
use super::super::application::Asking;
use super::super::qlog::Qlog;
use super::super::setup::OWN_STREAM_WINDOW;
use super::{QuicEnd, nanoseconds};
use crate::measurements::TcpView;
use crate::transport::identity;
use crate::transport::userspace::ProtocolStats;
use crate::transport::{Effective, effective_options};

impl QuicEnd {
    /// Returns the current maximum packet size in bytes.
    fn packet(&self) -> u32 {
        match (self.headers, &self.connection) {
            (Some(headers), Some((_, connection))) => {
                headers + u32::from(connection.stats().path.current_mtu)
            }
            _ => self.mtu,
        }
    }

    /// Returns the counters so far, and the current state.
    pub(super) fn counters(&self) -> ProtocolStats {
        let stats = self.connection.as_ref().map(|(_, connection)| connection.stats());
        let (packets, resent) = stats.map_or((0, 0), |stats| {
            (stats.frame_tx.stream + stats.frame_tx.datagram, stats.path.lost_packets)
        });
        let resent = (self.lanes.any_reliable() || self.asking.is_some()).then_some(resent);
        let view = stats.map(|ConnectionStats { path, .. }| {
            self.held.add_to(TcpView {
                cwnd_bytes: path.cwnd,
                mss_bytes: u64::from(path.current_mtu),
                srtt_ns: nanoseconds(path.rtt),
                min_rtt_ns: nanoseconds(path.min_rtt),
                retransmits: path.lost_packets,
                data_segs_out: Some(path.sent_packets),
                congestion_events: Some(path.congestion_events),
                bytes_acked: self.acked.as_ref().map(Acknowledged::bytes),
                ..TcpView::default()
            })
        });
        ProtocolStats {
            packets: Some(packets.saturating_sub(resent.unwrap_or(0))),
            resent,
            header_bytes: AROUND,
            view,
            ..ProtocolStats::default()
        }
    }

    /// Returns the options in effect.
    pub(super) fn options(&self) -> Effective {
        let window = match self.window {
            Some(window) => format!("{window} B"),
            None => format!("{OWN_STREAM_WINDOW} B (each stream)"),
        };
        let acknowledgements =
            self.connection.as_ref().map_or(0, |(_, connection)| connection.stats().frame_rx.acks);
        let mut all = effective_options([
            ("cc", self.control.to_owned()),
            ("cipher", self.cipher.to_owned()),
            ("key_exchange", identity::KEY_EXCHANGE.to_owned()),
            (identity::CERTIFICATE.name(), self.certificate.clone()),
            (
                "resume",
                Asking::resumed(self.asking.as_ref(), self.resume, self.is_early).to_owned(),
            ),
            ("ecn", self.ecn.word(acknowledgements).to_owned()),
            ("window", window),
            ("qlog", self.qlog.as_ref().map_or_else(|| "off".to_owned(), Qlog::effective)),
            ("mtu", format!("{} B", self.packet())),
        ]);
        all.extend(self.asking.iter().flat_map(Asking::effective));
        all
    }
}
