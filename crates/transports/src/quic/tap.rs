//! Packets as the keys of a connection see them: quinn-proto hands each packet to its key with its number, unencrypted,
//! before it leaves and after it arrived. So a log has numbers and frames, which are encrypted on the path.
//!
//! Only a connection with a log has its keys wrapped.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use quinn_proto::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

use super::frames::frames;
use deadheat_datapath::datapath::policer::Way;

/// Names of the kinds of packets in a log.
const INITIAL: &str = "initial";
const EARLY: &str = "0RTT";
const HANDSHAKE: &str = "handshake";
const ONE_RTT: &str = "1RTT";

/// Packet that passed a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TappedPacket {
    pub(super) direction: Way,
    /// Kind, by its name in a log.
    pub(super) kind: &'static str,
    pub(super) number: u64,
    /// Length in bytes, with header and tag.
    pub(super) length: usize,
    /// Its frames, as the elements of a JSON array.
    pub(super) frames: String,
}

/// Packets that passed the keys of one end since they were last taken. Copies share them.
#[derive(Debug, Clone, Default)]
pub(super) struct PacketTap(Arc<Mutex<Vec<TappedPacket>>>);

impl PacketTap {
    /// Takes the packets, in their order.
    pub(super) fn take(&self) -> Vec<TappedPacket> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, packet: TappedPacket) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(packet);
    }

    /// Wraps the keys of a near end.
    pub(super) fn client(
        &self,
        inner: Arc<dyn crypto::ClientConfig>,
    ) -> Arc<dyn crypto::ClientConfig> {
        Arc::new(TappedClient { inner, tap: self.clone() })
    }

    /// Wraps the keys of a far end.
    pub(super) fn server(
        &self,
        inner: Arc<dyn crypto::ServerConfig>,
    ) -> Arc<dyn crypto::ServerConfig> {
        Arc::new(TappedServer { inner, tap: self.clone() })
    }

    fn session(&self, inner: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(TappedSession { inner, tap: self.clone(), next: HANDSHAKE })
    }

    fn keys(&self, kind: &'static str, keys: Keys) -> Keys {
        Keys { header: keys.header, packet: self.pair(kind, keys.packet) }
    }

    fn pair(
        &self,
        kind: &'static str,
        pair: KeyPair<Box<dyn PacketKey>>,
    ) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: self.key(kind, pair.local), remote: self.key(kind, pair.remote) }
    }

    fn key(&self, kind: &'static str, inner: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(TappedKey { inner, kind, tap: self.clone() })
    }
}

struct TappedClient {
    inner: Arc<dyn crypto::ClientConfig>,
    tap: PacketTap,
}

impl crypto::ClientConfig for TappedClient {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let session = Arc::clone(&self.inner).start_session(version, server_name, params)?;
        Ok(self.tap.session(session))
    }
}

struct TappedServer {
    inner: Arc<dyn crypto::ServerConfig>,
    tap: PacketTap,
}

impl crypto::ServerConfig for TappedServer {
    fn initial_keys(
        &self,
        version: u32,
        dst_cid: &ConnectionId,
    ) -> Result<Keys, UnsupportedVersion> {
        Ok(self.tap.keys(INITIAL, self.inner.initial_keys(version, dst_cid)?))
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        params: &TransportParameters,
    ) -> Box<dyn Session> {
        self.tap.session(Arc::clone(&self.inner).start_session(version, params))
    }
}

/// Session whose keys are wrapped.
struct TappedSession {
    inner: Box<dyn Session>,
    tap: PacketTap,
    /// Kind of the packets for which the next keys of the handshake are.
    next: &'static str,
}

impl Session for TappedSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.tap.keys(INITIAL, self.inner.initial_keys(dst_cid, side))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let (header, packet) = self.inner.early_crypto()?;
        Some((header, self.tap.key(EARLY, packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        // The first are those of the handshake, the next of what follows it (RFC 9001, 4.1.4).
        Some(self.tap.keys(std::mem::replace(&mut self.next, ONE_RTT), keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(self.tap.pair(ONE_RTT, self.inner.next_1rtt_keys()?))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// Key that notes each packet.
struct TappedKey {
    inner: Box<dyn PacketKey>,
    kind: &'static str,
    tap: PacketTap,
}

impl PacketKey for TappedKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let end = buf.len().saturating_sub(self.inner.tag_len());
        self.tap.note(TappedPacket {
            direction: Way::Sent,
            kind: self.kind,
            number: packet,
            length: buf.len(),
            frames: frames(buf.get(header_len..end).unwrap_or_default()),
        });
        self.inner.encrypt(packet, buf, header_len);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let length = header.len() + payload.len();
        self.inner.decrypt(packet, header, payload)?;
        self.tap.note(TappedPacket {
            direction: Way::Received,
            kind: self.kind,
            number: packet,
            length,
            frames: frames(payload),
        });
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
