//! First bytes of every data connection: a token that control gave out, so that an address is verified before
//! anything larger than the request is sent to it, and strangers get no answer.
//!
//! ```text
//! 0      4      5      6        8                 24
//! +------+------+------+--------+-----------------+
//! | magic| ver. | kind | flow   | token           |     24 bytes, big-endian
//! +------+------+------+--------+-----------------+
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use deadheat_base::error::{Error, Result};
use deadheat_base::units::hex::{hex, unhex};

/// Length of a hello in bytes. The welcome that answers it is exactly as long.
pub const LEN: usize = 24;

/// First four bytes. A control connection starts with a length below 2^24, so its first byte is 0 and the two
/// cannot be confused.
pub const MAGIC: [u8; 4] = *b"DHT1";

const VERSION: u8 = 1;
const HELLO: u8 = 1;
const WELCOME: u8 = 2;
/// Kind 3 is the announcement of a relay to a server.
const CHALLENGE: u8 = 4;
const PROOF: u8 = 5;

/// Token of a trial: 128 random bits that its data connections share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Token([u8; 16]);

impl Token {
    /// Creates a fresh token from the kernel's generator.
    ///
    /// # Errors
    /// Fails if the kernel gives no random bytes.
    pub fn fresh() -> Result<Token> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|e| Error::setup("read random bytes", std::io::Error::other(e.to_string())))?;
        Ok(Token(bytes))
    }

    /// Creates a token for tests.
    pub const fn from_bytes(bytes: [u8; 16]) -> Token {
        Token(bytes)
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns four bytes of it that mark each message of the trial, to recognise strays.
    pub fn tag(&self) -> u32 {
        u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }
}

impl fmt::Debug for Token {
    /// Writes its first bytes only: a token is a capability, and they are enough for a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:08x}…)", self.tag())
    }
}

impl From<Token> for String {
    fn from(token: Token) -> String {
        hex(&token.0)
    }
}

impl TryFrom<String> for Token {
    type Error = String;
    fn try_from(text: String) -> Result<Token, String> {
        unhex(&text).map(Token).ok_or_else(|| "a token is 32 hexadecimal digits".to_owned())
    }
}

/// Message that a near end presents, and a far end echoes as a welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The trial's token.
    pub token: Token,
    /// Number of this connection's flow in the trial.
    pub flow: u16,
}

impl Hello {
    /// Returns the bytes that a near end sends first.
    pub fn encode(&self) -> [u8; LEN] {
        self.bytes(HELLO)
    }

    /// Returns the bytes that a far end answers with.
    pub fn encode_welcome(&self) -> [u8; LEN] {
        self.bytes(WELCOME)
    }

    /// Reads a hello; `None` for anything else, whatever its length.
    pub fn decode(bytes: &[u8]) -> Option<Hello> {
        read(bytes, HELLO)
    }

    /// Reads a welcome; `None` for anything else, whatever its length.
    pub fn decode_welcome(bytes: &[u8]) -> Option<Hello> {
        read(bytes, WELCOME)
    }

    /// Returns the head of a longer datagram of this kind, which is neither a hello nor a welcome.
    pub(super) fn head(&self, kind: u8) -> [u8; LEN] {
        self.bytes(kind)
    }

    /// Returns the kind of a longer datagram of this connection, and the bytes after its head; `None` for any other.
    pub(super) fn of_longer<'a>(&self, bytes: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let (head, rest) = bytes.split_at_checked(LEN)?;
        let kind = head[5];
        (head == self.bytes(kind)).then_some((kind, rest))
    }

    fn bytes(&self, kind: u8) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = kind;
        out[6..8].copy_from_slice(&self.flow.to_be_bytes());
        out[8..].copy_from_slice(&self.token.0);
        out
    }
}

/// Question to an address that a hello came from and that nothing has proved: only who receives there can repeat its
/// random bits. It is as long as the hello, so that it cannot amplify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge(Hello);

impl Challenge {
    /// Creates the question for the flow of this number.
    ///
    /// # Errors
    /// Fails if the kernel gives no random bytes.
    pub fn fresh(flow: u16) -> Result<Challenge> {
        Ok(Challenge(Hello { token: Token::fresh()?, flow }))
    }

    /// Returns its bytes.
    pub fn encode(&self) -> [u8; LEN] {
        self.0.bytes(CHALLENGE)
    }

    /// Reads a challenge of this flow; `None` for anything else.
    pub fn decode(bytes: &[u8], flow: u16) -> Option<Challenge> {
        read(bytes, CHALLENGE).filter(|asked| asked.flow == flow).map(Challenge)
    }

    /// Returns the bytes that answer it.
    pub fn answer(&self) -> [u8; LEN] {
        self.0.bytes(PROOF)
    }
}

fn read(bytes: &[u8], kind: u8) -> Option<Hello> {
    let bytes: &[u8; LEN] = bytes.try_into().ok()?;
    if bytes[..4] != MAGIC || bytes[4] != VERSION || bytes[5] != kind {
        return None;
    }
    let mut token = [0; 16];
    token.copy_from_slice(&bytes[8..]);
    Some(Hello { token: Token(token), flow: u16::from_be_bytes([bytes[6], bytes[7]]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HI: Hello = Hello { token: Token([7; 16]), flow: 258 };

    #[test]
    fn golden_bytes() {
        let mut want = b"DHT1\x01\x01\x01\x02".to_vec();
        want.extend([7; 16]);
        assert_eq!(HI.encode().to_vec(), want);
    }

    #[test]
    fn a_hello_is_no_welcome_and_a_length_off_by_one_is_neither() {
        assert_eq!(Hello::decode(&HI.encode()), Some(HI));
        assert_eq!(Hello::decode_welcome(&HI.encode_welcome()), Some(HI));
        assert_eq!(Hello::decode(&HI.encode_welcome()), None);
        assert_eq!(Hello::decode(&HI.encode()[..23]), None);
    }

    #[test]
    fn a_challenge_is_answered_with_its_own_bits() {
        let [one, two] = [(); 2].map(|()| Challenge::fresh(258).unwrap());
        assert_eq!(Challenge::decode(&one.encode(), 258), Some(one));
        assert_eq!(Challenge::decode(&one.encode(), 2), None);
        assert_eq!(Challenge::decode(&HI.encode(), 258), None);
        assert!(one.answer() != two.answer() && one.answer() != one.encode());
    }

    #[test]
    fn a_token_survives_json_and_hides_in_logs() {
        let json = serde_json::to_string(&HI.token).unwrap();
        assert_eq!(serde_json::from_str::<Token>(&json).unwrap(), HI.token);
        assert!(serde_json::from_str::<Token>("\"zz\"").is_err());
        assert_eq!(format!("{:?}", HI.token), "Token(07070707…)");
    }
}
