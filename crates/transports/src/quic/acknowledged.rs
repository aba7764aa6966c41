//! Count of the bytes that a program of others acknowledges.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

/// Bytes of packets that the peer acknowledged. A far end of others does not say when bytes arrived there, and the library
/// counts lost packets alone; its congestion control learns of each acknowledged one.
#[derive(Debug, Clone, Default)]
pub(super) struct Acknowledged(Arc<AtomicU64>);

impl Acknowledged {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns a factory of the controllers of `inside`, which count.
    pub(super) fn counting(
        &self,
        inside: Arc<dyn ControllerFactory + Send + Sync>,
    ) -> Arc<dyn ControllerFactory + Send + Sync> {
        Arc::new(CountingFactory { inside, acked: self.clone() })
    }
}

struct CountingFactory {
    inside: Arc<dyn ControllerFactory + Send + Sync>,
    acked: Acknowledged,
}

impl ControllerFactory for CountingFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inside = Arc::clone(&self.inside).build(now, current_mtu);
        Box::new(CountingController { inside, acked: self.acked.clone() })
    }
}

/// Congestion control that counts acknowledged bytes and leaves everything else to the one inside.
struct CountingController {
    inside: Box<dyn Controller>,
    acked: Acknowledged,
}

impl Controller for CountingController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inside.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acked.0.fetch_add(bytes, Ordering::Relaxed);
        self.inside.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.inside.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inside.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inside.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inside.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inside.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(CountingController { inside: self.inside.clone_box(), acked: self.acked.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inside.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inside.into_any()
    }
}
