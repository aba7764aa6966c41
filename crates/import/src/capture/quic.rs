//! Visible parts of a flow over UDP: sizes and times, and of QUIC its handshake, connection IDs and spin bit (RFC 9000, 17;
//! RFC 9312).

/// Number of changes of a spin bit from which it is one, and the largest share of them out of turn: a bit that is drawn for
/// each packet has half of them there.
const FEWEST_SPINS: u64 = 8;
const MOST_OUT_OF_TURN: f64 = 0.1;

/// Bits of the first byte of a packet.
const LONG_HEADER: u8 = 0x80;
const SPIN: u8 = 0x20;

/// Long header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LongHeader<'a> {
    pub version: u32,
    pub is_initial: bool,
    pub destination: &'a [u8],
    pub source: &'a [u8],
}

impl LongHeader<'_> {
    /// Returns the long header of a packet of QUIC versions 1 and 2 (RFC 9369) and of the drafts.
    pub(super) fn of(bytes: &[u8]) -> Option<LongHeader<'_>> {
        let (&first, rest) = bytes.split_first()?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let version = u32::from_be_bytes(*version);
        let kind = first >> 4 & 3;
        let is_initial = match version {
            1 | 0xff00_0000..=0xff00_00ff => kind == 0,
            0x6b33_43cf => kind == 1,
            _ => return None,
        };
        let (destination, rest) = id(rest)?;
        let (source, _) = id(rest)?;
        // The second bit may be drawn (RFC 9287).
        (first & LONG_HEADER != 0).then_some(LongHeader {
            version,
            is_initial,
            destination,
            source,
        })
    }
}

/// Splits a connection ID with its length off.
fn id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    (len <= 20).then(|| rest.split_at_checked(len.into()))?
}

/// State of a QUIC connection.
#[derive(Debug, Default)]
pub(super) struct Quic {
    pub version: u32,
    /// Connection ID by which the client names its peer first, and the choice of the server.
    pub first_id: Vec<u8>,
    pub server_id: Vec<u8>,
    /// Times of the first packets of client and server, and of the client's answer to the server.
    first: [Option<u64>; 2],
    pub connected: Option<u64>,
    spin: [Option<(bool, u64)>; 2],
    spins: u64,
    out_of_turn: u64,
}

impl Quic {
    /// Returns a connection that begins with this packet of a client; `None` if it is no first packet of QUIC.
    pub(super) fn begin(bytes: &[u8]) -> Option<Quic> {
        let header = LongHeader::of(bytes).filter(|header| header.is_initial)?;
        let first_id = header.destination.to_vec();
        Some(Quic { version: header.version, first_id, ..Quic::default() })
    }

    /// Returns true if a client's packet begins another connection between the same ports.
    pub(super) fn is_other(&self, bytes: &[u8]) -> bool {
        let header = LongHeader::of(bytes).filter(|header| header.is_initial);
        self.connected.is_some()
            && header.is_some_and(|header| {
                header.destination != self.first_id && header.destination != self.server_id
            })
    }

    /// Takes a packet of the client (0) or the server (1), and returns a round trip if its spin bit ends one.
    pub(super) fn take(&mut self, at: u64, side: usize, bytes: &[u8]) -> Option<u64> {
        self.first[side].get_or_insert(at);
        if side == 0
            && let ([Some(first), Some(_)], None) = (self.first, self.connected)
        {
            self.connected = Some(at.saturating_sub(first));
        }
        let first = *bytes.first()?;
        if first & LONG_HEADER != 0 {
            if let Some(header) =
                LongHeader::of(bytes).filter(|_| side == 1 && self.server_id.is_empty())
            {
                self.server_id = header.source.to_vec();
            }
            return None;
        }
        self.turn(at, side, first & SPIN != 0)
    }

    fn turn(&mut self, at: u64, side: usize, bit: bool) -> Option<u64> {
        let (before, since) = *self.spin[side].get_or_insert((bit, at));
        if before == bit {
            return None;
        }
        self.spin[side] = Some((bit, at));
        self.spins += 1;
        // The server repeats the client's bit, and the client inverts the server's.
        let others = self.spin[1 - side].map(|(bit, _)| bit);
        let is_in_turn = others.is_none_or(|other| other == if side == 1 { bit } else { !bit });
        self.out_of_turn += u64::from(!is_in_turn);
        (side == 0 && is_in_turn && self.spins > 2).then(|| at.saturating_sub(since))
    }

    /// Returns true if the bit that changes is a spin bit.
    pub(super) fn spins(&self) -> bool {
        let share = self.out_of_turn as f64 / self.spins.max(1) as f64;
        self.spins >= FEWEST_SPINS && share <= MOST_OUT_OF_TURN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: u8 = 0x40;
    const INITIAL: &[u8] = b"\xc3\0\0\0\x01\x08abcdefgh\x02xy\0";

    #[test]
    fn the_beginning_of_a_connection_is_read_and_nothing_else() {
        let header = LongHeader::of(INITIAL).unwrap();
        assert_eq!((header.version, header.is_initial), (1, true));
        assert_eq!((header.destination, header.source), (&b"abcdefgh"[..], &b"xy"[..]));
        for cut in 0..INITIAL.len() - 1 {
            assert_eq!(LongHeader::of(&INITIAL[..cut]), None, "{cut}");
        }
        assert!(Quic::begin(b"\x40abcdefghijklmnop").is_none());
        assert!(Quic::begin(b"\xc3\0\0\0\x02\x08abcdefgh\x02xy\0").is_none());
    }

    /// A client that spins its bit, and a client that draws it for each packet.
    #[test]
    fn a_spin_bit_gives_round_trips_and_a_drawn_one_none() {
        let mut spinning = Quic::begin(INITIAL).unwrap();
        let mut drawn = Quic::begin(INITIAL).unwrap();
        let mut round_trips = Vec::new();
        for turn in 0..40_u64 {
            let bit = if turn % 2 == 0 { SPIN } else { 0 };
            for packet in 0..4 {
                let at = turn * 50 + packet;
                round_trips.extend(spinning.take(at, 0, &[FIXED | bit]));
                spinning.take(at + 25, 1, &[FIXED | bit]);
                let random = |n: u64| if (n * 2_654_435_761) >> 13 & 1 == 0 { SPIN } else { 0 };
                drawn.take(at, 0, &[FIXED | random(at)]);
                drawn.take(at + 25, 1, &[FIXED | random(at + 7)]);
            }
        }
        assert!(spinning.spins() && !drawn.spins());
        assert!(
            round_trips.len() > 30 && round_trips.iter().all(|ns| *ns == 50),
            "{round_trips:?}"
        );
    }
}
