//! Explicit congestion notification (RFC 3168): the codepoint in the two low bits of IPv4's TOS field and of IPv6's
//! traffic class.

/// Codepoint of a datagram (RFC 3168, section 5), as the two bits of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Codepoint {
    /// Not-ECT: a queue may only drop it.
    #[default]
    NotEct = 0b00,
    /// ECT(1): a queue may mark it; for experiments (RFC 8311).
    Ect1 = 0b01,
    /// ECT(0): a queue may mark it.
    Ect0 = 0b10,
    /// CE: a queue has marked it instead of dropping it.
    Ce = 0b11,
}

impl Codepoint {
    /// Returns the codepoint in a TOS field or a traffic class.
    pub fn of(field: u8) -> Codepoint {
        match field & 0b11 {
            0b00 => Codepoint::NotEct,
            0b01 => Codepoint::Ect1,
            0b10 => Codepoint::Ect0,
            _ => Codepoint::Ce,
        }
    }

    /// Returns true if the datagram belongs to L4S: ECT(1), and CE, which may have been it (RFC 9331, section 5.1).
    pub fn is_l4s(self) -> bool {
        self as u8 & 1 == 1
    }

    /// Returns true if a queue may mark the datagram instead of dropping it, or has already.
    pub fn is_capable(self) -> bool {
        self != Codepoint::NotEct
    }
}
