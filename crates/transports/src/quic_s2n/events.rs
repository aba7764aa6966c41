//! Events that s2n-quic reports while a connection runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use s2n_quic::provider::event::events::{
    Congestion, ConnectionClosed, Frame, FrameSent, MtuUpdated, PacketLost, PacketSent,
    RecoveryMetrics,
};
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber};

/// Sum of the events so far.
#[derive(Debug, Default)]
pub(super) struct ConnectionEvents {
    /// Counts of sent STREAM frames, sent packets of any kind, and lost packets.
    pub(super) frames: u64,
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) congestion_events: u64,
    /// Congestion window in bytes.
    pub(super) window: u64,
    /// Round trips in nanoseconds, once measured.
    pub(super) smoothed_ns: Option<u64>,
    pub(super) variation_ns: Option<u64>,
    pub(super) least_ns: Option<u64>,
    /// Most bytes of a datagram that path MTU discovery has found.
    pub(super) payload: Option<u32>,
    /// Reason why the connection ended.
    pub(super) closed: Option<String>,
}

/// Subscriber to the library's events. Clones share their state.
#[derive(Debug, Clone, Default)]
pub(super) struct EventSubscriber(Arc<Mutex<ConnectionEvents>>);

impl EventSubscriber {
    /// Returns the events so far.
    pub(super) fn lock(&self) -> MutexGuard<'_, ConnectionEvents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for EventSubscriber {
    type ConnectionContext = ();

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo<'_>) {}

    fn on_packet_sent(&mut self, _: &mut (), _: &ConnectionMeta, _: &PacketSent) {
        self.lock().packets += 1;
    }

    fn on_frame_sent(&mut self, _: &mut (), _: &ConnectionMeta, event: &FrameSent) {
        if matches!(event.frame, Frame::Stream { .. }) {
            self.lock().frames += 1;
        }
    }

    fn on_packet_lost(&mut self, _: &mut (), _: &ConnectionMeta, _: &PacketLost<'_>) {
        self.lock().lost += 1;
    }

    fn on_congestion(&mut self, _: &mut (), _: &ConnectionMeta, _: &Congestion<'_>) {
        self.lock().congestion_events += 1;
    }

    fn on_recovery_metrics(&mut self, _: &mut (), _: &ConnectionMeta, now: &RecoveryMetrics<'_>) {
        let mut told = self.lock();
        told.window = now.congestion_window.into();
        told.smoothed_ns = nanoseconds(now.smoothed_rtt);
        told.variation_ns = nanoseconds(now.rtt_variance);
        told.least_ns = nanoseconds(now.min_rtt);
    }

    fn on_mtu_updated(&mut self, _: &mut (), _: &ConnectionMeta, event: &MtuUpdated) {
        self.lock().payload = Some(event.mtu.into());
    }

    fn on_connection_closed(&mut self, _: &mut (), _: &ConnectionMeta, event: &ConnectionClosed) {
        self.lock().closed = Some(event.error.to_string());
    }
}

fn nanoseconds(duration: Duration) -> Option<u64> {
    u64::try_from(duration.as_nanos()).ok()
}
