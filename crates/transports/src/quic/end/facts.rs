//! Facts about an end of a connection: its counters, and the options in effect.

use super::super::AROUND;
use super::super::application::Asking;
use super::super::machine::QuicMachine;
use super::super::qlog::Qlog;
use super::{QuicEnd, nanoseconds};
use deadheat_contract::measurements::TcpView;
use deadheat_contract::measurements::congestion::CongestionPhase;
use deadheat_datapath::transport::userspace::ProtocolStats;
use deadheat_datapath::transport::{Effective, effective_options, identity};

impl<M: QuicMachine> QuicEnd<M> {
    /// Returns the current maximum packet size in bytes.
    fn packet(&self) -> u32 {
        match (self.headers, self.machine.look()) {
            (Some(headers), Some(look)) => headers + look.packet as u32,
            _ => self.mtu,
        }
    }

    /// Returns the counters so far, and the current state.
    pub(super) fn counters(&self) -> ProtocolStats {
        let look = self.machine.look();
        let (packets, resent) = look.map_or((0, 0), |look| (look.data_frames, look.lost_packets));
        let resent = (self.lanes.any_reliable() || self.asking.is_some()).then_some(resent);
        let view = look.map(|look| {
            self.held.add_to(TcpView {
                cwnd_bytes: look.cwnd,
                mss_bytes: look.packet,
                phase: look.threshold.map(|least| CongestionPhase::by_threshold(look.cwnd, least)),
                srtt_ns: nanoseconds(look.rtt),
                min_rtt_ns: look.min_rtt.and_then(nanoseconds),
                retransmits: look.lost_packets,
                data_segs_out: Some(look.sent_packets),
                congestion_events: look.congestion_events,
                bytes_acked: look.bytes_acked,
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
        let terms = &self.terms;
        let window = match terms.window {
            Some(window) => format!("{window} B"),
            None => format!("{} B (each stream)", terms.own_window),
        };
        let acknowledgements = self.machine.look().map_or(0, |look| look.acknowledgements);
        let resumed = Asking::resumed(self.asking.as_ref(), terms.resume, self.is_early);
        let mut all = effective_options([
            ("cc", terms.control.to_owned()),
            ("cipher", terms.cipher.to_owned()),
            ("key_exchange", identity::KEY_EXCHANGE.to_owned()),
            (identity::CERTIFICATE.name(), terms.certificate.clone()),
            ("resume", resumed.to_owned()),
            ("ecn", self.ecn.word(acknowledgements).to_owned()),
            ("window", window),
            ("qlog", self.qlog.as_ref().map_or_else(|| "off".to_owned(), Qlog::effective)),
            ("mtu", format!("{} B", self.packet())),
        ]);
        all.extend(self.asking.iter().flat_map(Asking::effective));
        all
    }
}
