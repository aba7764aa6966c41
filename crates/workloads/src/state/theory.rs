//! Closed forms of the age of a state.

use deadheat_contract::contract::{Delivery, Ordering, Service};

use crate::paced::Pace;
use deadheat_contract::workload::theory::{Conditions, Prediction, overlap};

/// Predicts the mean age of a state on a lane of this `service`, and the share of lost updates.
pub(super) fn of(pace: &Pace, service: Service, on: &Conditions<'_>) -> Vec<Prediction> {
    let (way, size, period) = (pace.direction, pace.size, pace.period_ns());
    let (delay, lost) = (on.transit(way, size), on.lost(way, size));
    let crowded = on.crowded(way, pace.offered_bps());
    match (service.delivery, service.ordering) {
        (Delivery::BestEffort, _) => vec![
            Prediction {
                metric: "age_mean_ns",
                value: delay + period * (1.0 + lost) / (2.0 * (1.0 - lost)),
                form: "d + T (1 + p) / (2 (1 - p)), for a delay d, a period T and a loss p",
                source: "Kaul, Yates and Gruteser, INFOCOM 2012, with geometric gaps",
                tolerance: 0.05,
                outside: crowded.clone(),
            },
            Prediction {
                metric: super::LOST,
                value: lost,
                form: "1 - (1 - p)^n, for n packets a message",
                source: "independent losses",
                tolerance: 0.1,
                outside: crowded,
            },
        ],
        (Delivery::Reliable, Ordering::Ordered) => {
            let recovery = on.recovery(period);
            vec![Prediction {
                metric: "age_mean_ns",
                value: delay + period / 2.0 + lost * recovery * recovery / (2.0 * period),
                form: "d + T / 2 + p Tr² / (2 T), where a lost update comes Tr later: a round trip and 3 T",
                source: "single losses found by three later messages (RFC 5681)",
                tolerance: 0.2,
                outside: crowded.or(overlap(lost, 1.0 / period, recovery)),
            }]
        }
        _ => Vec::new(),
    }
}
