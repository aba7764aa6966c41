//! Count of the bytes that a program of others acknowledges, for libraries of the shape of quinn-proto ([`super::shape`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of packets that the peer acknowledged. A far end of others does not say when bytes arrived there, and the library
/// counts lost packets alone; its congestion control learns of each acknowledged one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acknowledged(Arc<AtomicU64>);

impl Acknowledged {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Defines a congestion control that counts acknowledged bytes and leaves everything else to the one inside, for the library
/// of this name: with the further parameters of its trait in words, and the methods in `own` that others do not have.
macro_rules! counting_of {
    ($library:ident, ack($($number:ident)?), loss($($is_ecn:ident, $largest:ident)?), { $($own:tt)* }) => {
        /// Returns the maker of congestion controllers; they count in `acked` if that is given.
        fn counted(
            inside: Arc<dyn $library::congestion::ControllerFactory + Send + Sync>,
            acked: Option<&Acknowledged>,
        ) -> Arc<dyn $library::congestion::ControllerFactory + Send + Sync> {
            match acked.cloned() {
                Some(acked) => Arc::new(CountingFactory { inside, acked }),
                None => inside,
            }
        }

        struct CountingFactory {
            inside: Arc<dyn $library::congestion::ControllerFactory + Send + Sync>,
            acked: Acknowledged,
        }

        impl $library::congestion::ControllerFactory for CountingFactory {
            fn build(
                self: Arc<Self>,
                now: Instant,
                current_mtu: u16,
            ) -> Box<dyn $library::congestion::Controller> {
                let inside = Arc::clone(&self.inside).build(now, current_mtu);
                Box::new(CountingController { inside, acked: self.acked.clone() })
            }
        }

        struct CountingController {
            inside: Box<dyn $library::congestion::Controller>,
            acked: Acknowledged,
        }

        impl std::fmt::Debug for CountingController {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple("CountingController").field(&self.acked).finish()
            }
        }

        impl $library::congestion::Controller for CountingController {
            $($own)*

            fn on_ack(
                &mut self,
                now: Instant,
                sent: Instant,
                bytes: u64,
                $($number: u64,)?
                app_limited: bool,
                rtt: &$library::RttEstimator,
            ) {
                self.acked.add(bytes);
                self.inside.on_ack(now, sent, bytes, $($number,)? app_limited, rtt);
            }

            fn on_congestion_event(
                &mut self,
                now: Instant,
                sent: Instant,
                is_persistent: bool,
                $($is_ecn: bool,)?
                lost_bytes: u64
                $(, $largest: u64)?
            ) {
                self.inside.on_congestion_event(
                    now, sent, is_persistent, $($is_ecn,)? lost_bytes $(, $largest)?
                );
            }

            fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
                self.inside.on_sent(now, bytes, last_packet_number);
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

            fn on_mtu_update(&mut self, new_mtu: u16) {
                self.inside.on_mtu_update(new_mtu);
            }

            fn window(&self) -> u64 {
                self.inside.window()
            }

            fn metrics(&self) -> $library::congestion::ControllerMetrics {
                self.inside.metrics()
            }

            fn clone_box(&self) -> Box<dyn $library::congestion::Controller> {
                let inside = self.inside.clone_box();
                Box::new(CountingController { inside, acked: self.acked.clone() })
            }

            fn initial_window(&self) -> u64 {
                self.inside.initial_window()
            }

            fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
                self.inside.into_any()
            }
        }
    };
}

pub(crate) use counting_of;
