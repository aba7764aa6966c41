//! Differentiated services codepoint (RFC 2474) of the IP header: its names, and its place among the options read back.

use std::fmt;

use deadheat_base::error::{Error, Result};

/// Name of the option, as a knob and as read back.
pub const DSCP: &str = "dscp";

/// Name of the DSCP that arrived, among the options read back.
pub const ARRIVED_DSCP: &str = "arrived_dscp";

/// Differentiated services codepoint, 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dscp(u8);

/// Names of codepoints, the usual one first: RFC 2474 (CS), 2597 (AF), 3246 (EF), 5865 (VA), 8622 (LE).
const NAMES: [(&str, u8); 25] = [
    ("CS0", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
    ("DF", 0),
    ("BE", 0),
];

impl Dscp {
    /// Codepoint of packets for which nothing is asked.
    pub const DEFAULT: Dscp = Dscp(0);

    /// Reads a name, in any case, or a number.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the forms; for a number of a whole TOS byte with the DSCP in it.
    pub fn parse(typed: &str) -> Result<Dscp> {
        if let Some((_, value)) = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(typed)) {
            return Ok(Dscp(*value));
        }
        match typed.parse::<u16>() {
            Ok(value @ 0..=63) => Ok(Dscp(value as u8)),
            Ok(value @ 64..=255) => Err(Error::usage(format!(
                "`{typed}` is no DSCP, 0 to 63; as a TOS byte it has the DSCP {}",
                Dscp((value >> 2) as u8)
            ))),
            _ => Err(Error::usage(format!(
                "`{typed}` is no DSCP; write a number from 0 to 63, or one of {}",
                NAMES.map(|(name, _)| name).join(", ")
            ))),
        }
    }

    /// Returns the codepoint in a TOS byte or a traffic class.
    pub fn of(field: u8) -> Dscp {
        Dscp(field >> 2)
    }

    /// Returns the TOS byte or traffic class with this codepoint, and these ECN bits.
    pub fn field(self, ecn: u8) -> u8 {
        self.0 << 2 | (ecn & 0b11)
    }
}

impl fmt::Display for Dscp {
    /// Writes the name, or else the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, value)| *value == self.0) {
            Some((name, _)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_have_names_and_numbers_and_a_tos_byte_is_recognised() {
        for (typed, shown) in
            [("EF", "EF"), ("ef", "EF"), ("46", "EF"), ("af41", "AF41"), ("0", "CS0"), ("63", "63")]
        {
            assert_eq!(Dscp::parse(typed).unwrap().to_string(), shown);
        }
        let say = |typed| Dscp::parse(typed).unwrap_err().to_string();
        assert!(say("184").contains("it has the DSCP EF"), "{}", say("184"));
        assert!(say("EFF").contains("0 to 63") && say("-1").contains("AF41"));
    }
}
