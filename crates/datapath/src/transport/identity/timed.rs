//! Cipher suites with timed work on QUIC packets, in the explaining pass ([`spent`]): payload (RFC 9001, 5.3) and
//! header protection (5.4).

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{CipherSuiteCommon, Error, SupportedCipherSuite, Tls13CipherSuite};

use crate::transport::spent::{self, TimedPart};

/// Returns `provider`, with its suites timed if this process times protocols.
pub(super) fn timed(mut provider: CryptoProvider) -> CryptoProvider {
    if spent::is_on() {
        let suites = provider.cipher_suites.into_iter();
        provider.cipher_suites = suites.map(suite).collect();
    }
    provider
}

/// Returns a suite that does the same and is timed. rustls requires a `'static` one; an agent makes a few.
fn suite(of: SupportedCipherSuite) -> SupportedCipherSuite {
    let Some(Tls13CipherSuite { common, hkdf_provider, aead_alg, quic }) = of.tls13() else {
        return of;
    };
    let quic = quic.map(|of| Box::leak(Box::new(TimedCipher(of))) as &dyn Algorithm);
    let common = CipherSuiteCommon { ..*common };
    let suite =
        Tls13CipherSuite { common, hkdf_provider: *hkdf_provider, aead_alg: *aead_alg, quic };
    SupportedCipherSuite::Tls13(Box::leak(Box::new(suite)))
}

/// Cryptographic object with timed calls.
struct TimedCipher<T>(T);

impl Algorithm for TimedCipher<&'static dyn Algorithm> {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        Box::new(TimedCipher(self.0.packet_key(key, iv)))
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        Box::new(TimedCipher(self.0.header_protection_key(key)))
    }

    fn aead_key_len(&self) -> usize {
        self.0.aead_key_len()
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

impl PacketKey for TimedCipher<Box<dyn PacketKey>> {
    fn encrypt_in_place(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        spent::within(TimedPart::Encryption, || {
            self.0.encrypt_in_place(packet_number, header, payload)
        })
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        spent::within(TimedPart::Encryption, || {
            self.0.decrypt_in_place(packet_number, header, payload)
        })
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

impl HeaderProtectionKey for TimedCipher<Box<dyn HeaderProtectionKey>> {
    fn encrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
    ) -> Result<(), Error> {
        spent::within(TimedPart::Encryption, || {
            self.0.encrypt_in_place(sample, first, packet_number)
        })
    }

    fn decrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
    ) -> Result<(), Error> {
        spent::within(TimedPart::Encryption, || {
            self.0.decrypt_in_place(sample, first, packet_number)
        })
    }

    fn sample_len(&self) -> usize {
        self.0.sample_len()
    }
}
