//! TLS by the kernel (Documentation/networking/tls.rst): the library does the handshake, and the socket gets its keys,
//! encrypts writes and decrypts reads. Records other than data, such as a change of keys or a ticket, arrive with their
//! type beside them.

use std::io;
use std::os::fd::AsFd;

use rustls::{ConnectionTrafficSecrets, ContentType, HandshakeKind, HandshakeType};
use socket2::Socket;

use super::ULP;
use super::unbuffered::{HandshakeOutcome, TrafficKeys, Unbuffered};
use crate::tcp;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Patience;
use deadheat_datapath::datapath::control::Control;
use deadheat_datapath::datapath::option;
use deadheat_datapath::datapath::policer::Way;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::step::StepBudget;

/// Most bytes of data in a record (RFC 8446, 5.1), which is also the size of the kernel's records.
const RECORD: usize = 1 << 14;

/// Records that may be encrypted with one key of AES-GCM, by the library's limit, somewhat below the bound of RFC 8446,
/// 5.5. ChaCha20-Poly1305 has none.
const MOST_RECORDS: u64 = 1 << 24;

/// Longest handshake message that is accepted after the handshake: the longest possible ticket.
const LONGEST_MESSAGE: usize = 1 << 16;

// include/uapi/linux/tls.h
const TLS_1_3: u16 = 0x0304;
const AES_GCM_128: u16 = 51;
const AES_GCM_256: u16 = 52;
const CHACHA20_POLY1305: u16 = 54;
const SET_RECORD_TYPE: libc::c_int = 1;

/// Socket that encrypts and decrypts.
pub(crate) struct KernelTls {
    wire: CountedSocket,
    keeper: TrafficKeys,
    kind: Option<HandshakeKind>,
    protocol: Option<Vec<u8>>,
    cipher: &'static str,
    /// Records that this key may still encrypt.
    left: u64,
    most: u64,
    /// Start of an incomplete handshake message.
    message: Vec<u8>,
    /// True if the peer has ended its direction.
    is_over: bool,
    /// Duration of the handshake.
    handshake: Nanos,
}

impl KernelTls {
    /// Completes the handshake, and passes the keys to the kernel.
    ///
    /// # Errors
    /// The error of the socket or of TLS; `Unsupported` if the kernel lacks TLS or the cipher.
    pub(super) fn open(
        mut wire: CountedSocket,
        tls: Unbuffered,
        step: StepBudget,
    ) -> io::Result<KernelTls> {
        let began = Monotonic.now();
        let attach = |wire: &CountedSocket| {
            option::set_bytes(wire.as_fd(), libc::IPPROTO_TCP, libc::TCP_ULP, ULP)
        };
        // Before the handshake, because a peer may close right after it, and the kernel attaches TLS to open
        // connections only. With Fast Open the SYN has not been sent, so TLS is attached afterwards; the peer waits for
        // it.
        let attached = attach(&wire);
        let HandshakeOutcome { secrets, keeper, kind, protocol } =
            tls.see_through(&mut wire, step)?;
        match attached {
            Err(e) if e.raw_os_error() == Some(libc::ENOTCONN) => attach(&wire),
            done => done,
        }
        .map_err(|e| io::Error::new(io::ErrorKind::Unsupported, lacking(&e)))?;
        let cipher = match secrets.tx.1 {
            ConnectionTrafficSecrets::Aes128Gcm { .. } => "aes128",
            ConnectionTrafficSecrets::Aes256Gcm { .. } => "aes256",
            ConnectionTrafficSecrets::Chacha20Poly1305 { .. } => "chacha20",
            _ => "unknown",
        };
        let most = match secrets.tx.1 {
            ConnectionTrafficSecrets::Chacha20Poly1305 { .. } => u64::MAX,
            _ => MOST_RECORDS,
        };
        install(&wire, Way::Sent, &secrets.tx)?;
        install(&wire, Way::Received, &secrets.rx)?;
        let handshake = Monotonic.now() - began;
        let (left, message) = (most, Vec::new());
        Ok(KernelTls {
            wire,
            keeper,
            kind,
            protocol,
            cipher,
            left,
            most,
            message,
            is_over: false,
            handshake,
        })
    }

    pub(super) fn wire(&self) -> &CountedSocket {
        &self.wire
    }

    pub(super) fn wire_mut(&mut self) -> &mut CountedSocket {
        &mut self.wire
    }

    /// Returns `on` if the handshake resumed an earlier connection, otherwise `off`.
    pub(super) fn resumed(&self) -> &'static str {
        if self.kind == Some(HandshakeKind::Resumed) { "on" } else { "off" }
    }

    /// Returns the protocol inside that both ends agreed on.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.protocol.as_deref()
    }

    /// Returns the cipher that both ends agreed on.
    pub(super) fn cipher(&self) -> Option<&'static str> {
        Some(self.cipher)
    }

    /// Returns `kernel` if the socket reports keys for both directions.
    pub(super) fn offload(&self) -> &'static str {
        let has = |way: Way| {
            let mut info = [0; 1];
            option::get(self.wire.as_fd(), libc::SOL_TLS, option_of(way), &mut info).is_some()
                && info[0].to_ne_bytes()[..2] == TLS_1_3.to_ne_bytes()
        };
        if has(Way::Sent) && has(Way::Received) { "kernel" } else { "unknown" }
    }

    pub(super) fn handshake(&self) -> Nanos {
        self.handshake
    }

    /// Sends by one send(2), which makes records of up to 16 KiB.
    pub(super) fn send(&mut self, bytes: &[u8], patience: Patience) -> io::Result<Option<usize>> {
        if self.left == 0 {
            self.change_key()?;
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).saturating_mul(RECORD);
        let sent = self.wire.send(&bytes[..bytes.len().min(most)], patience)?;
        let records = sent.map_or(0, |sent| sent.div_ceil(RECORD) as u64);
        self.left = self.left.saturating_sub(records);
        Ok(sent)
    }

    /// Receives by one recvmsg(2): data of one or several records, or a record of another type.
    pub(super) fn receive(
        &mut self,
        room: &mut [u8],
        patience: Patience,
    ) -> io::Result<Option<usize>> {
        if self.is_over {
            return Ok(Some(0));
        }
        let kind = (libc::SOL_TLS, libc::TLS_GET_RECORD_TYPE);
        let Some(arrived) = self.wire.receive_beside::<1>(room, kind, patience)? else {
            return Ok(None);
        };
        let record = &room[..arrived.len];
        match arrived.beside.map(|[kind]| ContentType::from(kind)) {
            // End of the byte stream without TLS's close alert, as of a killed process.
            None => return Ok(Some(arrived.len)),
            // An empty record is not the end.
            Some(ContentType::ApplicationData) if record.is_empty() => return Ok(None),
            Some(ContentType::ApplicationData) => return Ok(Some(arrived.len)),
            Some(ContentType::Handshake) => self.handle_handshake(record)?,
            Some(ContentType::Alert) => self.is_over = is_goodbye(record)?,
            Some(other) => return Err(unexpected(&format!("a record of type {other:?}"))),
        }
        Ok(self.is_over.then_some(0))
    }

    /// Handles messages after the handshake (RFC 8446, 4.6).
    fn handle_handshake(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.message.extend_from_slice(bytes);
        while let Some((kind, payload)) = first(&self.message)? {
            let (len, payload) = (4 + payload.len(), payload.to_vec());
            match (kind, &payload[..]) {
                (HandshakeType::NewSessionTicket, ticket) => self.keeper.keep_ticket(ticket)?,
                (HandshakeType::KeyUpdate, [asks @ (0 | 1)]) => {
                    let keys = self.keeper.update_receiving()?;
                    install(&self.wire, Way::Received, &keys).map_err(keeps_its_key)?;
                    if *asks == 1 {
                        self.change_key()?;
                    }
                }
                (other, _) => return Err(unexpected(&format!("a message of type {other:?}"))),
            }
            self.message.drain(..len);
        }
        Ok(())
    }

    /// Announces a new sending key to the peer, and changes it (RFC 8446, 4.6.3).
    fn change_key(&mut self) -> io::Result<()> {
        const UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
        let mut rest = &UPDATE[..];
        while !rest.is_empty() {
            rest = &rest[self.send_record(ContentType::Handshake, rest)?..];
        }
        let keys = self.keeper.update_sending()?;
        install(&self.wire, Way::Sent, &keys).map_err(keeps_its_key)?;
        self.left = self.most;
        Ok(())
    }

    fn send_record(&mut self, kind: ContentType, bytes: &[u8]) -> io::Result<usize> {
        let kind = [u8::from(kind)];
        let beside = Control::new(&[(libc::SOL_TLS, SET_RECORD_TYPE, &kind[..])]);
        Ok(self.wire.send_beside(bytes, &beside, Patience::Block)?.unwrap_or(0))
    }

    /// Sends the close alert (RFC 8446, 6.1), which ends this direction. The socket's direction stays open: encrypted
    /// bytes that wait for room in the kernel would be behind its end.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        const GOODBYE: [u8; 2] = [1, 0];
        if self.send_record(ContentType::Alert, &GOODBYE)? == GOODBYE.len() {
            return Ok(());
        }
        let why = "the end of the direction found no room";
        Err(io::Error::new(io::ErrorKind::WouldBlock, why))
    }
}

/// Returns the name of the option for a direction.
fn option_of(way: Way) -> libc::c_int {
    match way {
        Way::Sent => libc::TLS_TX,
        Way::Received => libc::TLS_RX,
    }
}

/// Passes a key and the number of its next record to the socket.
fn install(
    wire: &CountedSocket,
    way: Way,
    keys: &(u64, ConnectionTrafficSecrets),
) -> io::Result<()> {
    let (number, secrets) = keys;
    let info = crypto_info(*number, secrets).ok_or_else(|| {
        io::Error::new(io::ErrorKind::Unsupported, "a cipher that the kernel lacks")
    })?;
    option::set_bytes(wire.as_fd(), libc::SOL_TLS, option_of(way), &info)
        .map_err(|e| io::Error::new(e.kind(), format!("hand a key over to the kernel's TLS: {e}")))
}

/// Returns `struct tls12_crypto_info_*` of include/uapi/linux/tls.h: version, cipher, IV, key, salt, and the number of
/// the next record. The salt is the first part of the IV, except for ChaCha20, which has none.
fn crypto_info(number: u64, secrets: &ConnectionTrafficSecrets) -> Option<Vec<u8>> {
    let (cipher, key, iv, salt) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (AES_GCM_128, key, iv, 4),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (AES_GCM_256, key, iv, 4),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (CHACHA20_POLY1305, key, iv, 0),
        _ => return None,
    };
    let (salt, iv) = iv.as_ref().split_at(salt);
    let (version, cipher) = (TLS_1_3.to_ne_bytes(), cipher.to_ne_bytes());
    Some([&version[..], &cipher, iv, key.as_ref(), salt, &number.to_be_bytes()].concat())
}

/// Returns the first complete handshake message: its type and payload (RFC 8446, 4).
fn first(bytes: &[u8]) -> io::Result<Option<(HandshakeType, &[u8])>> {
    let Some(([kind, a, b, c], rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
    if len > LONGEST_MESSAGE {
        return Err(unexpected(&format!("a handshake message of {len} bytes")));
    }
    Ok(rest.get(..len).map(|payload| (HandshakeType::from(*kind), payload)))
}

/// Returns true for the alert that ends a direction.
///
/// # Errors
/// `ConnectionAborted` for any other alert.
fn is_goodbye(alert: &[u8]) -> io::Result<bool> {
    match alert {
        [_, 0] => Ok(true),
        [_, what] => Err(io::Error::new(
            io::ErrorKind::ConnectionAborted,
            format!("TLS: the peer ended the connection with alert {what} (RFC 8446, 6)"),
        )),
        _ => Err(unexpected("an alert that is not two bytes long")),
    }
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: unexpected: {what}"))
}

fn keeps_its_key(error: io::Error) -> io::Error {
    let why = "the kernel's TLS changes keys from Linux 6.14 on";
    io::Error::new(error.kind(), format!("{error}; {why}"))
}

fn lacking(error: &io::Error) -> String {
    format!(
        "the kernel has no TLS ({error}); it takes CONFIG_TLS, `modprobe tls` where that is a module; offload=off works \
         everywhere"
    )
}

/// Checks that the kernel has TLS.
///
/// # Errors
/// [`Error::Unsupported`] with the missing feature.
pub(super) fn check(id: &str) -> Result<()> {
    let socket = tcp::any(tcp::TCP).map_err(|e| Error::setup("open a TCP socket", e))?;
    probe(&socket).map_err(|e| Error::unsupported(format!("{id}:offload=kernel"), lacking(&e)))
}

/// Attaches TLS to a socket without a connection, which a kernel with TLS refuses for that reason alone (`tls_init` of
/// net/tls/tls_main.c).
fn probe(socket: &Socket) -> io::Result<()> {
    match option::set_bytes(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_ULP, ULP) {
        Err(e) if e.raw_os_error() != Some(libc::ENOTCONN) => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::cipher::{AeadKey, Iv};

    use super::*;
    use deadheat_base::error::Error;

    #[test]
    fn keys_have_the_layout_of_the_kernels_structures() {
        let iv = || Iv::from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let key = || AeadKey::from([0xaa; 32]);
        let gcm = ConnectionTrafficSecrets::Aes256Gcm { key: key(), iv: iv() };
        let info = crypto_info(0x0102, &gcm).unwrap();
        assert_eq!(info.len(), 4 + 8 + 32 + 4 + 8);
        assert_eq!(info[..4], [TLS_1_3.to_ne_bytes(), AES_GCM_256.to_ne_bytes()].concat());
        assert_eq!(info[4..12], [5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(info[12..44], [0xaa; 32]);
        assert_eq!(info[44..], [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 1, 2]);
        let chacha = ConnectionTrafficSecrets::Chacha20Poly1305 { key: key(), iv: iv() };
        let info = crypto_info(7, &chacha).unwrap();
        assert_eq!(info.len(), size_of::<libc::tls12_crypto_info_chacha20_poly1305>());
        assert_eq!(info[2..4], CHACHA20_POLY1305.to_ne_bytes());
        assert_eq!((info[4], info[15], info[16]), (1, 12, 0xaa));
        assert_eq!(info[48..], [0, 0, 0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn messages_after_the_handshake_are_told_apart_and_may_come_in_parts() {
        let two = [4, 0, 0, 2, 8, 9, 24, 0, 0, 1, 1];
        for end in 0..6 {
            assert_eq!(first(&two[..end]).unwrap(), None, "{end}");
        }
        let ticket = first(&two).unwrap();
        assert_eq!(ticket, Some((HandshakeType::NewSessionTicket, &[8, 9][..])));
        assert_eq!(first(&two[6..]).unwrap(), Some((HandshakeType::KeyUpdate, &[1][..])));
        assert!(first(&[4, 1, 0, 1]).is_err(), "longer than any");
    }

    #[test]
    fn one_alert_ends_a_direction_and_all_others_are_errors() {
        assert!(is_goodbye(&[1, 0]).unwrap());
        let error = is_goodbye(&[2, 20]).unwrap_err();
        assert!(error.to_string().contains("alert 20"), "{error}");
        assert!(is_goodbye(&[1]).is_err() && is_goodbye(&[]).is_err());
    }

    /// A kernel either accepts the name and requires a connection, or is reported not to have it.
    #[test]
    fn what_the_kernel_lacks_is_named() {
        match check("tls") {
            Ok(()) => assert!(std::fs::exists("/proc/net/tls_stat").unwrap()),
            Err(why) => {
                assert!(matches!(why, Error::Unsupported { .. }), "{why}");
                let said = why.to_string();
                assert!(said.starts_with("tls:offload=kernel: the kernel has no TLS"), "{said}");
                assert!(said.contains("modprobe tls") && said.contains("offload=off"), "{said}");
            }
        }
    }
}
