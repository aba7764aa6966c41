//! Configuration of quinn-proto.

use std::sync::Arc;
use std::time::Instant;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ClientConfig, ServerConfig};

use super::acknowledged::{Acknowledged, counting_of};
use super::quinn::QuinnMachine;
use super::shape::configurations_of;
use super::tap::PacketTap;
use super::terms::{Configuration, OwnSizes, initial_suite};
use super::{CONTROL, QuicControl};
use crate::transport::identity::Failure;

/// Defaults of `TransportConfig` and `EndpointConfig`.
pub(super) const OWN: OwnSizes = OwnSizes { stream_window: 1_250_000, payload: 1_472 };

configurations_of!(quinn_proto);

counting_of!(quinn_proto, ack(), loss(), {});

/// Creates an end.
pub(super) fn machine(configuration: &Configuration<'_>) -> Result<QuinnMachine, Failure> {
    let acked = configuration.others.map(|_| Acknowledged::default());
    let factory = counted(controllers(configuration.opening.knobs.get(&CONTROL)), acked.as_ref());
    let transport = Arc::new(transport_of(configuration, factory)?);
    let endpoint = endpoint_of(configuration)?;
    let mut client = None;
    if let Some(near) = configuration.client()? {
        let near = QuicClientConfig::with_initial(near, initial_suite()?)?;
        let mut config = client_of(near, configuration.tap.as_ref());
        config.transport_config(Arc::clone(&transport));
        client = Some(config);
    }
    let mut server = None;
    if let Some(far) = configuration.server()? {
        let far = QuicServerConfig::with_initial(far, initial_suite()?)?;
        let mut config = server_of(far, configuration.tap.as_ref());
        config.transport_config(transport).migration(false);
        server = Some(config);
    }
    Ok(QuinnMachine::of(endpoint, client, server, acked))
}

fn controllers(control: QuicControl) -> Arc<dyn ControllerFactory + Send + Sync> {
    match control {
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
