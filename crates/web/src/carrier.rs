//! Carriers with ports of their own, beside WebSocket and fetch: each opens ports of its own, and answers the page through the server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::work::Tickets;

/// Ground on which a carrier stands.
#[derive(Clone)]
pub(crate) struct CarrierGround {
    /// Address that the page is served at; its IP address is unspecified for all of this host.
    pub page: SocketAddr,
    pub tickets: Arc<dyn Tickets>,
    /// Certificate of the page, if its operator gave one.
    pub certificate: Option<Arc<PemPair>>,
}

/// Message of a page to a carrier, which came through the server of the page.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "datachannel"), allow(dead_code))] // No other carrier takes signals.
pub(crate) struct PageSignal<'a> {
    /// Up to 64 kB.
    pub text: &'a str,
    /// Address of the browser.
    pub from: IpAddr,
    /// Address of this host that the page reached.
    pub reached: IpAddr,
}

/// Certificate chain and private key in PEM.
pub(crate) struct PemPair {
    pub chain: Vec<u8>,
    pub key: Vec<u8>,
}

/// Carrier that is open.
pub(crate) trait Carrier: Send + Sync {
    /// Facts for the page's script: port, fingerprint of a certificate and their like.
    fn facts(&self) -> Value;

    /// Answers a message of the page: an offer of a session, for example (`POST /signal/ID`).
    ///
    /// # Errors
    /// With a sentence for the page.
    fn signal(&self, signal: &PageSignal<'_>) -> Result<String, String>;
}

/// Carrier that a build may have.
pub(crate) struct CarrierKind {
    /// Name in `POST /signal/ID`, and of its facts in the page's script: `facts.ID`.
    pub id: &'static str,
    /// Opens it, or says in a sentence for the page why it is not here.
    pub open: fn(&CarrierGround) -> Result<Box<dyn Carrier>, String>,
    /// Contenders that it has, in the order in which the page lists them.
    pub contenders: &'static [PageContender],
    /// Script of the page for it: it sets `carriers["ID"]` for each of its contenders.
    pub script: &'static str,
}

/// Contender of the page.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PageContender {
    /// Name in the script and in addresses: `datachannel-unordered`.
    pub id: &'static str,
    /// Name that the page and results show: `WebRTC data channel, unordered`.
    pub label: &'static str,
    /// Protocol that carries it: the page offers one contender of each by default.
    pub over: &'static str,
    pub promise: MessagePromise,
}

/// Promise of a contender about its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MessagePromise {
    /// All arrive, in their order.
    Ordered,
    /// All arrive, in any order.
    Unordered,
    /// Some may be lost; bulk data and events do not run over it.
    #[serde(rename = "best effort")]
    BestEffort,
}
