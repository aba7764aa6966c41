//! Announcement of a relay to the server of the far end, over TCP, which proves the relay's address. It names the trial
//! without its token; the answer proves that the server knows the token. So neither relays to nor takes data from a host
//! that is no part of the trial.
//!
//! ```text
//! 0      4      5      6        8            24              40
//! +------+------+------+--------+------------+---------------+
//! | magic| ver. | kind | 0      | trial      | nonce         |     40 bytes; the answer has 32
//! +------+------+------+--------+------------+---------------+
//! trial   first 16 bytes of HMAC-SHA-256 (RFC 2104) of "deadheat trial" under the token
//! answer  HMAC-SHA-256 of "deadheat far end" and the nonce under the token
//! ```

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use deadheat_base::error::{Error, Result};
use deadheat_datapath::transport::hello::{MAGIC, Token};

/// Length of an announcement in bytes.
pub const LEN: usize = 40;
/// Length of the answer in bytes.
pub const PROOF: usize = 32;
/// Version and kind, behind the magic; a hello has another kind.
const KIND: [u8; 2] = [1, 3];

/// Announcement of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// Name of the trial, as only those know who know its token.
    trial: [u8; 16],
    nonce: [u8; 16],
}

impl Announcement {
    /// Creates an announcement for the trial with this token.
    ///
    /// # Errors
    /// Fails if the kernel gives no random bytes.
    pub fn fresh(token: Token) -> Result<Announcement> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce)
            .map_err(|e| Error::setup("read random bytes", std::io::Error::other(e.to_string())))?;
        Ok(Announcement { trial: name(token), nonce })
    }

    /// Returns its bytes.
    pub fn encode(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&KIND);
        out[8..24].copy_from_slice(&self.trial);
        out[24..].copy_from_slice(&self.nonce);
        out
    }

    /// Reads an announcement; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Announcement> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        if !Announcement::is_begun(&bytes[..8]) {
            return None;
        }
        let part = |from: usize| <[u8; 16]>::try_from(&bytes[from..from + 16]).ok();
        Some(Announcement { trial: part(8)?, nonce: part(24)? })
    }

    /// Returns true if these first bytes of a connection begin an announcement.
    pub fn is_begun(bytes: &[u8]) -> bool {
        bytes.len() >= 8 && bytes[..4] == MAGIC && bytes[4..6] == KIND && bytes[6..8] == [0; 2]
    }

    /// Returns true if it names the trial with this token.
    pub fn is_of(&self, token: Token) -> bool {
        mac(token, &[TRIAL]).verify_truncated_left(&self.trial).is_ok()
    }

    /// Returns the answer of the server that has the trial.
    pub fn proof(&self, token: Token) -> [u8; PROOF] {
        mac(token, &[FAR_END, &self.nonce]).finalize().into_bytes().into()
    }

    /// Returns true if `proof` is the answer of a server that has the trial.
    pub fn is_proved(&self, token: Token, proof: &[u8; PROOF]) -> bool {
        mac(token, &[FAR_END, &self.nonce]).verify_slice(proof).is_ok()
    }
}

const TRIAL: &[u8] = b"deadheat trial";
const FAR_END: &[u8] = b"deadheat far end";

fn name(token: Token) -> [u8; 16] {
    let whole = mac(token, &[TRIAL]).finalize().into_bytes();
    let mut name = [0; 16];
    name.copy_from_slice(&whole[..16]);
    name
}

fn mac(token: Token, parts: &[&[u8]]) -> Hmac<Sha256> {
    // HMAC takes keys of any length, so this cannot fail; an all-zero key would still be safe to refuse.
    let mut mac = Hmac::<Sha256>::new_from_slice(token.bytes())
        .unwrap_or_else(|_| Hmac::<Sha256>::new(&Default::default()));
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_datapath::transport::hello::Hello;

    const TOKEN: Token = Token::from_bytes([7; 16]);

    #[test]
    fn it_is_read_as_it_was_written_and_is_no_hello() {
        let announcement = Announcement::fresh(TOKEN).unwrap();
        let bytes = announcement.encode();
        assert_eq!(bytes[..8], *b"DHT1\x01\x03\x00\x00");
        assert_eq!(Announcement::decode(&bytes), Some(announcement));
        assert_eq!(Announcement::decode(&bytes[..39]), None);
        assert!(!Announcement::is_begun(&Hello { token: TOKEN, flow: 0 }.encode()));
    }

    #[test]
    fn only_who_knows_the_token_is_named_and_can_answer() {
        let (one, two) = (Announcement::fresh(TOKEN).unwrap(), Announcement::fresh(TOKEN).unwrap());
        let other = Token::from_bytes([8; 16]);
        assert!(one.is_of(TOKEN) && !one.is_of(other));
        assert!(one.is_proved(TOKEN, &one.proof(TOKEN)));
        assert!(!one.is_proved(TOKEN, &one.proof(other)));
        assert!(!one.is_proved(TOKEN, &two.proof(TOKEN)), "the answer to another nonce");
    }
}
