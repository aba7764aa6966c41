//! Configuration of quinn-proto.

use std::sync::Arc;
use std::time::Instant;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ClientConfig, ServerConfig, crypto};

use super::acknowledged::{Acknowledged, counting_of};
use super::ecn::Ecn;
use super::prague::PragueFactory;
use super::shape::configurations_of;
use super::tap::PacketTap;
use super::terms::{Configuration, OwnSizes};
use super::{CONTROL, QuicControl};
use deadheat_base::spec::Settings;
use deadheat_datapath::transport::identity::Failure;

/// Defaults of `TransportConfig` and `EndpointConfig`.
pub(super) const OWN: OwnSizes = OwnSizes { stream_window: 1_250_000, payload: 1_472 };

configurations_of!(quinn_proto);

counting_of!(quinn_proto, ack(), loss(), {});

/// Returns the configuration of an end.
pub(super) fn parts(configuration: &Configuration<'_>) -> Result<EndParts, Failure> {
    let controllers = controllers(configuration.opening.knobs);
    let tap = configuration.tap.as_ref();
    parts_of(configuration, controllers, |near| client_of(near, tap), |far| server_of(far, tap))
}

fn controllers(knobs: &Settings) -> Arc<dyn ControllerFactory + Send + Sync> {
    if Ecn::of(knobs).is_l4s() {
        return Arc::new(PragueFactory);
    }
    match knobs.get(&CONTROL) {
        QuicControl::Cubic => Arc::new(CubicConfig::default()),
        QuicControl::Reno => Arc::new(NewRenoConfig::default()),
        QuicControl::Bbr => Arc::new(BbrConfig::default()),
    }
}

fn client_of(crypto: QuicClientConfig, tap: Option<&PacketTap>) -> ClientConfig {
    let crypto: Arc<dyn crypto::ClientConfig> = Arc::new(crypto);
    ClientConfig::new(match tap {
        Some(tap) => tap.client(crypto),
        None => crypto,
    })
}

fn server_of(crypto: QuicServerConfig, tap: Option<&PacketTap>) -> ServerConfig {
    let crypto: Arc<dyn crypto::ServerConfig> = Arc::new(crypto);
    ServerConfig::with_crypto(match tap {
        Some(tap) => tap.server(crypto),
        None => crypto,
    })
}

#[cfg(test)]
mod tests {
    use quinn_proto::{EndpointConfig, TransportConfig};

    use super::*;

    #[test]
    fn what_is_said_of_the_library_s_defaults_is_what_it_has() {
        let defaults = format!("{:?}", TransportConfig::default());
        let window = format!("stream_receive_window: {},", OWN.stream_window);
        assert!(defaults.contains(&window), "{defaults}");
        assert!(defaults.contains("initial_mtu: 1200,"), "{defaults}");
        let endpoint = format!("{:?}", EndpointConfig::default());
        let payload = format!("max_udp_payload_size: {},", OWN.payload);
        assert!(endpoint.contains(&payload), "{endpoint}");
    }
}
