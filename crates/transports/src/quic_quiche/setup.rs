//! Configuration of quiche, and of BoringSSL in it.

use boring::pkey::PKey;
use boring::ssl::{
    SslAlert, SslContext, SslContextBuilder, SslMethod, SslOptions, SslRef, SslSignatureAlgorithm,
    SslVerifyError, SslVerifyMode,
};
use boring::x509::X509;
use quiche::{Config, CongestionControlAlgorithm};

use super::CONTROL;
use crate::quic::terms::Configuration;
use crate::quic::{LEAST_PAYLOAD, QuicControl};
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::identity::{self, Cipher, Failure, Identity};

/// Bytes of datagrams that wait to be sent at most, as with the other libraries. quiche counts datagrams.
const WAITING: usize = 1 << 20;

/// Algorithms of signatures that the near end takes. BoringSSL takes no Ed25519 by default, which the trial's own
/// certificate has.
const SIGNATURES: &[SslSignatureAlgorithm] = &[
    SslSignatureAlgorithm::ED25519,
    SslSignatureAlgorithm::ECDSA_SECP256R1_SHA256,
    SslSignatureAlgorithm::ECDSA_SECP384R1_SHA384,
    SslSignatureAlgorithm::RSA_PSS_RSAE_SHA256,
    SslSignatureAlgorithm::RSA_PSS_RSAE_SHA384,
    SslSignatureAlgorithm::RSA_PSS_RSAE_SHA512,
];

/// Creates the configuration of an end.
pub(super) fn config(configuration: &Configuration<'_>) -> Result<Config, Failure> {
    let tls = tls(configuration)?;
    let mut config = Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
    config.set_application_protos(&[configuration.handshake().alpn.as_bytes()])?;
    config.set_cc_algorithm(match configuration.opening.knobs.get(&CONTROL) {
        QuicControl::Cubic => CongestionControlAlgorithm::CUBIC,
        QuicControl::Reno => CongestionControlAlgorithm::Reno,
        QuicControl::Bbr => CongestionControlAlgorithm::Bbr2Gcongestion,
    });
    let payload = usize::from(configuration.payload);
    config.set_max_recv_udp_payload_size(payload);
    config.set_max_send_udp_payload_size(payload);
    config.set_disable_active_migration(true);
    config.set_initial_max_streams_uni(configuration.streams.into());
    // quiche has no windows of its own: without this a peer may send nothing.
    let window = configuration.window.unwrap_or(OWN_WINDOW);
    config.set_initial_max_data(window);
    config.set_initial_max_stream_data_uni(window);
    config.set_max_connection_window(window);
    config.set_max_stream_window(window);
    let least = LEAST_PAYLOAD as usize;
    config.enable_dgram(true, (window as usize).div_ceil(least), WAITING / least);
    Ok(config)
}

/// Returns the context of TLS: one cipher, X25519, and the certificate that both ends know.
fn tls(configuration: &Configuration<'_>) -> Result<SslContextBuilder, Failure> {
    let identity = configuration.handshake().identity()?;
    let mut tls = SslContext::builder(SslMethod::tls())?;
    tls.set_curves_list("X25519")?;
    // Without resumption no ticket is of use.
    tls.set_options(SslOptions::NO_TICKET);
    if let Some(cipher) = configuration.opening.knobs.find(&identity::CIPHER) {
        set_cipher(&mut tls, cipher)?;
    }
    match configuration.opening.side {
        Side::Near => pin(&mut tls, &identity)?,
        Side::Far => show(&mut tls, &identity)?,
    }
    Ok(tls)
}

/// Lets the near end take one certificate and no other.
fn pin(tls: &mut SslContextBuilder, identity: &Identity) -> Result<(), Failure> {
    let expected = identity.chain().next().map(<[u8]>::to_vec);
    let verify = move |ssl: &mut SslRef| {
        let shown = ssl.peer_certificate().and_then(|certificate| certificate.to_der().ok());
        if shown.is_some() && shown == expected {
            Ok(())
        } else {
            Err(SslVerifyError::Invalid(SslAlert::CERTIFICATE_UNKNOWN))
        }
    };
    tls.set_verify_algorithm_prefs(SIGNATURES)?;
    tls.set_custom_verify_callback(SslVerifyMode::PEER, verify);
    Ok(())
}

/// Lets the far end show its certificate and the certificates that vouch for it.
fn show(tls: &mut SslContextBuilder, identity: &Identity) -> Result<(), Failure> {
    for (at, certificate) in identity.chain().enumerate() {
        let certificate = X509::from_der(certificate)?;
        match at {
            0 => tls.set_certificate(&certificate)?,
            _ => tls.add_extra_chain_cert(certificate)?,
        }
    }
    let key = PKey::private_key_from_der(identity.key())?;
    Ok(tls.set_private_key(&key)?)
}

/// Leaves one cipher suite of TLS 1.3. The crate `boring` has no call for it.
fn set_cipher(tls: &mut SslContextBuilder, cipher: Cipher) -> Result<(), Failure> {
    let suite = cipher.number();
    // SAFETY: the context lives as long as its builder, the suite as long as the call, which copies it; the length is
    // that of one suite, and a missing list of flags is allowed.
    let set = unsafe {
        boring_sys::SSL_CTX_set1_tls13_ciphers(tls.as_ptr(), &suite, std::ptr::null(), 1)
    };
    match set {
        1 => Ok(()),
        _ => Err(boring::error::ErrorStack::get().into()),
    }
}

/// Window in bytes where none is set: quiche has none of its own.
pub(super) const OWN_WINDOW: u64 = 1_250_000;
