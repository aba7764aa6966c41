//! Messages of STUN (RFC 8489) as TURN (RFC 8656) uses them, and its ChannelData.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |0 0|     STUN Message Type     |         Message Length        |   RFC 8489, section 5
//! |                         Magic Cookie                          |
//! |                     Transaction ID (96 bits)                  |
//! |         Type                  |            Length             |   section 14: attributes, filled up to 32 bits
//! |                         Value (variable)                ....
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use flate2::Crc;
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use sha1::Sha1;

/// Length of a message's header.
const HEADER: usize = 20;
/// Magic cookie (RFC 8489, section 5).
const COOKIE: u32 = 0x2112_a442;
/// Constant that is combined with the CRC of a fingerprint (RFC 8489, section 14.7).
const FINGERPRINT_XOR: u32 = 0x5354_554e;
/// Length of HMAC-SHA1.
const MAC: usize = 20;

/// Protocol number of UDP in REQUESTED-TRANSPORT.
pub const UDP: u8 = 17;

/// Identifier of a transaction.
pub type Transaction = [u8; 12];
/// Key of the long-term mechanism: MD5 of name, realm and password (section 9.2.2).
pub type Key = [u8; 16];

/// Method of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Binding: asks for the source address of the request (RFC 8489).
    Binding,
    /// Allocate (RFC 8656, section 7).
    Allocate,
    /// Refresh (section 8).
    Refresh,
    /// ChannelBind (section 12).
    ChannelBind,
}

impl Method {
    const ALL: [Method; 4] =
        [Method::Binding, Method::Allocate, Method::Refresh, Method::ChannelBind];

    fn number(self) -> u16 {
        match self {
            Method::Binding => 0x001,
            Method::Allocate => 0x003,
            Method::Refresh => 0x004,
            Method::ChannelBind => 0x009,
        }
    }

    /// Returns the name in the RFCs.
    pub fn name(self) -> &'static str {
        match self {
            Method::Binding => "Binding",
            Method::Allocate => "Allocate",
            Method::Refresh => "Refresh",
            Method::ChannelBind => "ChannelBind",
        }
    }
}

/// Class of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Request, which is answered.
    Request,
    /// Indication, which is not answered.
    Indication,
    /// Answer that reports success.
    Success,
    /// Answer that reports a failure, with ERROR-CODE.
    Error,
}

impl Class {
    const ALL: [Class; 4] = [Class::Request, Class::Indication, Class::Success, Class::Error];
}

/// Attributes that are sent or read (RFC 8489, section 18.3; RFC 8656, section 18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)] // The names are those of the RFCs.
pub enum Attribute {
    Username = 0x0006,
    MessageIntegrity = 0x0008,
    ErrorCode = 0x0009,
    ChannelNumber = 0x000c,
    Lifetime = 0x000d,
    XorPeerAddress = 0x0012,
    Realm = 0x0014,
    Nonce = 0x0015,
    XorRelayedAddress = 0x0016,
    RequestedAddressFamily = 0x0017,
    RequestedTransport = 0x0019,
    XorMappedAddress = 0x0020,
    Software = 0x8022,
    Fingerprint = 0x8028,
}

/// Received message with complete attributes.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Method of the message.
    pub method: Method,
    /// Class of the message.
    pub class: Class,
    bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// Parses a message; `None` if it is not a STUN message, if its fingerprint is wrong, or if its method is not
    /// supported.
    pub fn parse(bytes: &'a [u8]) -> Option<Message<'a>> {
        let (head, rest) = bytes.split_first_chunk::<HEADER>()?;
        let kind = u16::from_be_bytes([head[0], head[1]]);
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if kind & 0xc000 != 0 || len != rest.len() || !len.is_multiple_of(4) {
            return None;
        }
        if head[4..8] != COOKIE.to_be_bytes() {
            return None;
        }
        let of_kind = |(method, class): &(Method, Class)| message_type(*method, *class) == kind;
        let all = Method::ALL.iter().flat_map(|m| Class::ALL.iter().map(move |c| (*m, *c)));
        let (method, class) = all.clone().find(of_kind)?;
        let message = Message { method, class, bytes };
        let mut at = HEADER;
        while at < bytes.len() {
            (_, _, at) = message.attribute_at(at)?;
        }
        message.has_valid_fingerprint().then_some(message)
    }

    /// Returns the identifier of its transaction.
    pub fn transaction(&self) -> Transaction {
        let mut transaction = Transaction::default();
        transaction.copy_from_slice(&self.bytes[8..HEADER]);
        transaction
    }

    /// Returns the attribute that begins at an offset: its type, its value, and the offset of the next.
    fn attribute_at(&self, at: usize) -> Option<(u16, &'a [u8], usize)> {
        let (head, rest) = self.bytes.get(at..)?.split_first_chunk::<4>()?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let filled = len.next_multiple_of(4);
        (filled <= rest.len())
            .then(|| (u16::from_be_bytes([head[0], head[1]]), &rest[..len], at + 4 + filled))
    }

    /// Returns its attributes with their offsets.
    fn attributes(&self) -> impl Iterator<Item = (usize, u16, &'a [u8])> + use<'a> {
        let (message, mut at) = (*self, HEADER);
        std::iter::from_fn(move || {
            let (kind, value, next) = message.attribute_at(at)?;
            let found = (at, kind, value);
            at = next;
            Some(found)
        })
    }

    /// Returns the value of an attribute, the first of several. Attributes behind MESSAGE-INTEGRITY are ignored (RFC
    /// 8489, section 14.5).
    pub fn get(&self, attribute: Attribute) -> Option<&'a [u8]> {
        self.attributes()
            .take_while(|(_, kind, _)| *kind != Attribute::MessageIntegrity as u16)
            .find(|(_, kind, _)| *kind == attribute as u16)
            .map(|(_, _, value)| value)
    }

    /// Returns the value of a text attribute.
    pub fn text(&self, attribute: Attribute) -> Option<&'a str> {
        std::str::from_utf8(self.get(attribute)?).ok()
    }

    /// Returns the value of a 32-bit attribute.
    pub fn number(&self, attribute: Attribute) -> Option<u32> {
        Some(u32::from_be_bytes(self.get(attribute)?.try_into().ok()?))
    }

    /// Returns the value of an address attribute, combined with cookie and transaction (section 14.2).
    pub fn address(&self, attribute: Attribute) -> Option<SocketAddr> {
        read_address(self.get(attribute)?, &self.transaction())
    }

    /// Returns code and reason of a failure (section 14.8).
    pub fn error(&self) -> Option<(u16, String)> {
        let (head, reason) = self.get(Attribute::ErrorCode)?.split_first_chunk::<4>()?;
        let (class, number) = (u16::from(head[2] & 7), u16::from(head[3]));
        let fits = (3..=6).contains(&class) && number < 100;
        fits.then(|| (100 * class + number, String::from_utf8_lossy(reason).into_owned()))
    }

    /// Returns true if MESSAGE-INTEGRITY matches `key`; `None` if there is none. Takes the same time wherever they
    /// differ.
    pub fn is_authentic(&self, key: &[u8]) -> Option<bool> {
        let is_mac = |kind: u16| kind == Attribute::MessageIntegrity as u16;
        let (at, _, mac) = self.attributes().find(|(_, kind, _)| is_mac(*kind))?;
        // The length counts up to and with this attribute (section 14.5).
        let len = (at + 4 + MAC - HEADER) as u16;
        Some(keyed(key, &self.bytes[..at], len).verify_slice(mac).is_ok())
    }

    /// Returns true if it has no fingerprint, or the right one in the last place (section 14.7).
    fn has_valid_fingerprint(&self) -> bool {
        let is_it = |kind: u16| kind == Attribute::Fingerprint as u16;
        let Some((at, _, value)) = self.attributes().find(|(_, kind, _)| is_it(*kind)) else {
            return true;
        };
        at + 8 == self.bytes.len() && value == fingerprint(&self.bytes[..at]).to_be_bytes()
    }
}

/// Returns the 14 bits of method and class, which alternate (RFC 8489, section 5).
fn message_type(method: Method, class: Class) -> u16 {
    let (method, class) = (method.number(), class as u16);
    (method & 0xf80) << 2
        | (method & 0x070) << 1
        | (method & 0x00f)
        | (class & 2) << 7
        | (class & 1) << 4
}

/// Begins HMAC-SHA1 over a message up to its MESSAGE-INTEGRITY, with the length that it then has.
fn keyed(key: &[u8], bytes: &[u8], len: u16) -> Hmac<Sha1> {
    // HMAC takes keys of any length, so this cannot fail; a key of zeros would still be safe to refuse.
    let mut mac = Hmac::<Sha1>::new_from_slice(key)
        .unwrap_or_else(|_| Hmac::<Sha1>::new(&Default::default()));
    mac.update(&bytes[..2]);
    mac.update(&len.to_be_bytes());
    mac.update(&bytes[4..]);
    mac
}

/// Returns the fingerprint of the bytes before it; the length in their header includes it already.
fn fingerprint(before: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(before);
    crc.sum() ^ FINGERPRINT_XOR
}

/// Returns the key of the long-term mechanism.
pub fn long_term_key(user: &str, realm: &str, password: &str) -> Key {
    Md5::digest(format!("{user}:{realm}:{password}")).into()
}

fn read_address(value: &[u8], transaction: &Transaction) -> Option<SocketAddr> {
    let (head, address) = value.split_first_chunk::<4>()?;
    let port = u16::from_be_bytes([head[2], head[3]]) ^ (COOKIE >> 16) as u16;
    let mask = mask(transaction);
    let ip = match (head[1], address.len()) {
        (1, 4) => {
            let bytes: [u8; 4] = address.try_into().ok()?;
            IpAddr::V4(Ipv4Addr::from(std::array::from_fn(|at| bytes[at] ^ mask[at])))
        }
        (2, 16) => {
            let bytes: [u8; 16] = address.try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(std::array::from_fn(|at| bytes[at] ^ mask[at])))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn mask(transaction: &Transaction) -> [u8; 16] {
    let mut mask = [0; 16];
    mask[..4].copy_from_slice(&COOKIE.to_be_bytes());
    mask[4..].copy_from_slice(transaction);
    mask
}

/// Message that is being written.
#[derive(Debug)]
pub struct Draft {
    bytes: Vec<u8>,
}

impl Draft {
    /// Starts a message.
    pub fn new(method: Method, class: Class, transaction: &Transaction) -> Draft {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend(message_type(method, class).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(COOKIE.to_be_bytes());
        bytes.extend(transaction);
        Draft { bytes }
    }

    /// Adds an attribute, padded with zeros.
    pub fn put(mut self, attribute: Attribute, value: &[u8]) -> Draft {
        self.bytes.extend((attribute as u16).to_be_bytes());
        self.bytes.extend((value.len() as u16).to_be_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let len = self.len();
        self.bytes[2..4].copy_from_slice(&len.to_be_bytes());
        self
    }

    /// Adds an address, combined with cookie and transaction.
    pub fn put_address(self, attribute: Attribute, address: SocketAddr) -> Draft {
        let mut transaction = Transaction::default();
        transaction.copy_from_slice(&self.bytes[8..HEADER]);
        let mask = mask(&transaction);
        let port = (address.port() ^ (COOKIE >> 16) as u16).to_be_bytes();
        let mut value = vec![0, if address.is_ipv4() { 1 } else { 2 }, port[0], port[1]];
        let mixed = |bytes: &[u8]| bytes.iter().zip(mask).map(|(b, m)| b ^ m).collect::<Vec<u8>>();
        match address.ip() {
            IpAddr::V4(ip) => value.extend(mixed(&ip.octets())),
            IpAddr::V6(ip) => value.extend(mixed(&ip.octets())),
        }
        self.put(attribute, &value)
    }

    /// Adds MESSAGE-INTEGRITY.
    pub fn authenticate(self, key: &[u8]) -> Draft {
        let mac = keyed(key, &self.bytes, self.len() + 4 + MAC as u16).finalize().into_bytes();
        self.put(Attribute::MessageIntegrity, &mac)
    }

    /// Adds the fingerprint and returns the message.
    pub fn finish(mut self) -> Vec<u8> {
        let len = self.len() + 8;
        self.bytes[2..4].copy_from_slice(&len.to_be_bytes());
        let crc = fingerprint(&self.bytes);
        self.put(Attribute::Fingerprint, &crc.to_be_bytes()).bytes
    }

    fn len(&self) -> u16 {
        (self.bytes.len() - HEADER) as u16
    }
}

/// Returns number and length of ChannelData, and its content; `None` if it is not ChannelData (RFC 8656, section 12.4).
/// Over UDP it may be padded.
pub fn channel_data(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    let number = u16::from_be_bytes([head[0], head[1]]);
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    // 0x4000 to 0x4FFF; others are reserved (section 12).
    if !(0x4000..0x5000).contains(&number) {
        return None;
    }
    Some((number, rest.get(..len)?))
}

/// Returns the header of ChannelData with content of this length.
pub fn channel_header(number: u16, len: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (number.to_be_bytes(), len.to_be_bytes());
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: String = hex.split_whitespace().collect();
        (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
            .collect()
    }

    /// Password of the vectors with a short-term credential (RFC 5769, section 2).
    const PASSWORD: &[u8] = b"VOkJxbRl1RmTxUk/WvJxBt";

    /// RFC 5769, section 2.1.
    const REQUEST: &str = "00010058 2112a442 b7e7a701 bc34d686 fa87dfae
        80220010 5354554e 20746573 7420636c 69656e74  00240004 6e0001ff  80290008 932ff9b1 51263b36
        00060009 6576746a 3a683676 59202020
        00080014 9aeaa70c bfd8cb56 781ef2b5 b2d3f249 c1b571a2  80280004 e57a3bcf";

    /// RFC 5769, section 2.2.
    const RESPONSE_V4: &str = "0101003c 2112a442 b7e7a701 bc34d686 fa87dfae
        8022000b 74657374 20766563 746f7220  00200008 0001a147 e112a643
        00080014 2b91f599 fd9e90c3 8c7489f9 2af9ba53 f06be7d7  80280004 c07d4c96";

    /// RFC 5769, section 2.3.
    const RESPONSE_V6: &str = "01010048 2112a442 b7e7a701 bc34d686 fa87dfae
        8022000b 74657374 20766563 746f7220  00200014 0002a147 0113a9fa a5d3f179 bc25f4b5 bed2b9d9
        00080014 a382954e 4be67bf1 1784c97c 8292c275 bfe3ed41  80280004 c8fb0b4c";

    /// RFC 5769, section 2.4.
    const LONG_TERM: &str = "00010060 2112a442 78ad3433 c6ad72c0 29da412e
        00060012 e3839ee3 8388e383 aae38383 e382afe3 82b90000
        0015001c 662f2f34 39396b39 35346436 4f4c3334 6f4c3946 53547679 36347341
        0014000b 6578616d 706c652e 6f726700
        00080014 f6702465 6dd64a3e 02b8e071 2e85c9a2 8ca89666";

    #[test]
    fn the_vectors_of_rfc_5769_are_understood() {
        for (vector, class) in [
            (REQUEST, Class::Request),
            (RESPONSE_V4, Class::Success),
            (RESPONSE_V6, Class::Success),
        ] {
            let wire = bytes(vector);
            let message = Message::parse(&wire).unwrap();
            assert_eq!((message.method, message.class), (Method::Binding, class));
            assert_eq!(message.is_authentic(PASSWORD), Some(true));
            assert_eq!(message.is_authentic(b"another"), Some(false));
        }
        let wire = bytes(REQUEST);
        let message = Message::parse(&wire).unwrap();
        assert_eq!(message.text(Attribute::Username), Some("evtj:h6vY"));
        assert_eq!(message.text(Attribute::Software), Some("STUN test client"));
        let wire = bytes(RESPONSE_V4);
        let at = Message::parse(&wire).unwrap().address(Attribute::XorMappedAddress);
        assert_eq!(at, Some("192.0.2.1:32853".parse().unwrap()));
        let wire = bytes(RESPONSE_V6);
        let at = Message::parse(&wire).unwrap().address(Attribute::XorMappedAddress);
        assert_eq!(at, Some("[2001:db8:1234:5678:11:2233:4455:6677]:32853".parse().unwrap()));
    }

    #[test]
    fn the_vector_with_a_long_term_credential_is_written_to_the_byte() {
        let wire = bytes(LONG_TERM);
        let message = Message::parse(&wire).unwrap();
        let key = long_term_key("マトリックス", "example.org", "TheMatrIX");
        assert_eq!(message.is_authentic(&key), Some(true));
        let nonce = "f//499k954d6OL34oL9FSTvy64sA";
        assert_eq!(message.text(Attribute::Nonce), Some(nonce));
        let written = Draft::new(Method::Binding, Class::Request, &message.transaction())
            .put(Attribute::Username, "マトリックス".as_bytes())
            .put(Attribute::Nonce, nonce.as_bytes())
            .put(Attribute::Realm, b"example.org")
            .authenticate(&key);
        assert_eq!(written.bytes, wire);
    }

    #[test]
    fn fingerprints_are_written_as_in_the_vectors() {
        let mut draft = Draft { bytes: bytes(RESPONSE_V4) };
        let wire = draft.bytes.clone();
        draft.bytes.truncate(wire.len() - 8);
        let len = draft.len();
        draft.bytes[2..4].copy_from_slice(&len.to_be_bytes());
        assert_eq!(draft.finish(), wire);
    }

    #[test]
    fn addresses_come_back_as_they_were_put() {
        for address in ["198.51.100.7:443", "[2001:db8::7]:65535"] {
            let address: SocketAddr = address.parse().unwrap();
            let wire = Draft::new(Method::ChannelBind, Class::Request, &[7; 12])
                .put_address(Attribute::XorPeerAddress, address)
                .finish();
            let message = Message::parse(&wire).unwrap();
            assert_eq!(message.address(Attribute::XorPeerAddress), Some(address));
            assert_eq!(message.is_authentic(b"key"), None);
        }
    }

    #[test]
    fn what_is_changed_has_no_proof_and_what_is_cut_is_no_message() {
        let wire = bytes(REQUEST);
        for at in 0..wire.len() {
            let mut changed = wire.clone();
            changed[at] ^= 0x20;
            // A length that covers the fingerprint leaves a message without one, which has no proof either.
            let is_proven = |message: Message<'_>| message.is_authentic(PASSWORD) == Some(true);
            assert!(
                at >= wire.len() - 8 || !Message::parse(&changed).is_some_and(is_proven),
                "byte {at}"
            );
            assert!(Message::parse(&wire[..at]).is_none(), "{at} bytes");
        }
    }

    #[test]
    fn an_attribute_behind_the_proof_does_not_count() {
        let wire = Draft::new(Method::Allocate, Class::Error, &[1; 12])
            .authenticate(b"key")
            .put(Attribute::ErrorCode, &[0, 0, 4, 1])
            .finish();
        let message = Message::parse(&wire).unwrap();
        assert_eq!(message.is_authentic(b"key"), Some(true));
        assert_eq!(message.error(), None);
    }

    #[test]
    fn channel_data_is_told_from_messages() {
        let mut wire = channel_header(0x4000, 3).to_vec();
        wire.extend(b"abc");
        assert_eq!(channel_data(&wire), Some((0x4000, &b"abc"[..])));
        wire.push(0);
        assert_eq!(channel_data(&wire), Some((0x4000, &b"abc"[..])), "filled up");
        assert_eq!(channel_data(&wire[..6]), None, "cut");
        assert_eq!(channel_data(&bytes(REQUEST)), None);
        assert!(Message::parse(&wire).is_none());
    }
}
