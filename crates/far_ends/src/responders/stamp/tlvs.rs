//! Extensions of STAMP packets (RFC 8972, section 4): each has flags, a type, a length and a value, and returns with the
//! packet. Those that this reflector does not know return with the flag U, and malformed ones with M.

use crate::stamp::layout::{CODE_LEN, EXTENSION_HEAD as HEAD, EXTRA_PADDING, StampKey};

/// Flags: not understood, malformed, not of integrity.
const UNKNOWN: u8 = 0x80;
const MALFORMED: u8 = 0x40;
const WRONG_CODE: u8 = 0x20;

/// Types beside padding (RFC 8972, section 5.1).
const CLASS_OF_SERVICE: u8 = 4;
const DIRECT_MEASUREMENT: u8 = 5;
const CODE: u8 = 8;

/// Packets of a session, received and sent here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SessionCounts {
    pub(super) received: u32,
    pub(super) sent: u32,
}

/// Facts of a packet that extensions ask for.
#[derive(Debug)]
pub(super) struct TlvFacts {
    /// TOS byte or traffic class of the packet on arrival.
    pub(super) field: u8,
    /// Counts of its session with this packet, and before this reply; `None` if it has none.
    pub(super) counts: Option<SessionCounts>,
}

/// Extension in the bytes behind a packet.
struct Extension {
    at: usize,
    kind: u8,
    len: usize,
}

/// Answers the extensions of a packet; returns the TOS byte or traffic class for the reply, if one is asked for. `numbers`
/// are those of the packet and of the reply, which codes cover.
pub(super) fn answer(
    rest: &mut [u8],
    numbers: [[u8; 4]; 2],
    facts: &TlvFacts,
    key: Option<&StampKey>,
) -> Option<u8> {
    let (all, end) = extensions(rest);
    if let Some(key) = key
        && !is_sealed(&all, rest, &numbers[0], key)
    {
        // Section 4.8: processing stops, and each extension says why.
        all.iter().for_each(|one| rest[one.at] = rest[one.at] & !UNKNOWN | WRONG_CODE);
        return None;
    }
    let mut field = None;
    for one in &all {
        let value = one.at + HEAD..one.at + HEAD + one.len;
        let flags = match (one.kind, one.len) {
            (EXTRA_PADDING, _) => 0,
            (CLASS_OF_SERVICE, 4) => {
                field = Some(class_of_service(&mut rest[value], facts.field));
                0
            }
            (DIRECT_MEASUREMENT, 12) => match facts.counts {
                Some(counts) => {
                    let counts = [counts.received, counts.sent].map(u32::to_be_bytes).concat();
                    rest[value][4..].copy_from_slice(&counts);
                    0
                }
                None => UNKNOWN,
            },
            (CODE, CODE_LEN) if key.is_some() => 0,
            (CLASS_OF_SERVICE | DIRECT_MEASUREMENT, _) => MALFORMED,
            _ => UNKNOWN,
        };
        rest[one.at] = flags;
    }
    if let Some(flags) = end.and_then(|at| rest.get_mut(at)) {
        *flags = MALFORMED;
    }
    if let (Some(key), Some(code)) =
        (key, all.iter().find(|one| one.kind == CODE && one.len == CODE_LEN))
    {
        let made = key.code(&[&numbers[1], &rest[..code.at]]);
        rest[code.at + HEAD..code.at + HEAD + CODE_LEN].copy_from_slice(&made);
    }
    field
}

/// Returns the whole extensions, and the place of one that is cut off.
fn extensions(rest: &[u8]) -> (Vec<Extension>, Option<usize>) {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some([_, kind, high, low]) = rest.get(at..at + HEAD) {
        // Zeros to the end are padding of a sender without extensions.
        if *kind == 0 && rest[at..].iter().all(|byte| *byte == 0) {
            break;
        }
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        if at + HEAD + len > rest.len() {
            return (all, Some(at));
        }
        all.push(Extension { at, kind: *kind, len });
        at += HEAD + len;
    }
    (all, None)
}

/// Returns true if the extensions need no code or have a right one, behind all but padding.
fn is_sealed(all: &[Extension], rest: &[u8], number: &[u8], key: &StampKey) -> bool {
    let mut others = all.iter().filter(|one| one.kind != EXTRA_PADDING);
    let Some(last) = others.next_back() else { return all.len() <= 1 };
    let code = rest.get(last.at + HEAD..last.at + HEAD + last.len).unwrap_or_default();
    last.kind == CODE
        && last.len == CODE_LEN
        && others.all(|one| one.kind != CODE)
        && key.is_code(&[number, &rest[..last.at]], code)
}

/// Answers a class of service (section 4.4): the DSCP and ECN that arrived; returns the field with the DSCP that is asked
/// for.
fn class_of_service(value: &mut [u8], arrived: u8) -> u8 {
    let asked = value[0] >> 2;
    let word = u16::from(asked) << 10 | u16::from(arrived >> 2) << 4 | u16::from(arrived & 3) << 2;
    value[..2].copy_from_slice(&word.to_be_bytes());
    asked << 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: TlvFacts =
        TlvFacts { field: 0xb9, counts: Some(SessionCounts { received: 8, sent: 6 }) };

    fn answered(mut rest: Vec<u8>) -> (Vec<u8>, Option<u8>) {
        let field = answer(&mut rest, [[0, 0, 0, 1]; 2], &FACTS, None);
        (rest, field)
    }

    #[test]
    fn known_extensions_are_filled_in_and_unknown_ones_flagged() {
        let padding = [0x80, 1, 0, 2, 7, 7];
        let class = [0x80, 4, 0, 4, 10 << 2, 0, 0, 0];
        let counts = [0x80, 5, 0, 12, 0, 0, 0, 9, 1, 1, 1, 1, 1, 1, 1, 1];
        let strange = [0, 200, 0, 1, 5];
        let (rest, field) = answered([&padding[..], &class, &counts, &strange].concat());
        assert_eq!(rest[..6], [0, 1, 0, 2, 7, 7]);
        // DSCP 10 asked for, EF (46) and ECN 1 arrived.
        assert_eq!(rest[6..14], [0, 4, 0, 4, 10 << 2 | 46 >> 4, (46 & 15) << 4 | 1 << 2, 0, 0]);
        assert_eq!(field, Some(10 << 2));
        assert_eq!(rest[14..30], [0, 5, 0, 12, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 6]);
        assert_eq!(rest[30..], [0x80, 200, 0, 1, 5]);
    }

    #[test]
    fn malformed_extensions_are_flagged_and_padding_of_zeros_is_left() {
        assert_eq!(answered(vec![0x80, 4, 0, 1, 9]).0, [0x40, 4, 0, 1, 9]);
        assert_eq!(answered(vec![0x80, 1, 0, 9, 9]).0, [0x40, 1, 0, 9, 9]);
        assert_eq!(answered(vec![0; 17]).0, [0; 17]);
        for cut in 0..4 {
            assert_eq!(answered([0x80, 1, 0][..cut.min(3)].to_vec()).1, None);
        }
    }

    #[test]
    fn a_code_covers_the_extensions_before_it_and_padding_stands_behind() {
        let (key, number, own) = (StampKey::new(b"sesame").unwrap(), [0, 0, 0, 9], [0, 0, 0, 2]);
        let class = [0x80, 4, 0, 4, 10 << 2, 0, 0, 0];
        let code = key.code(&[&number, &class]);
        let whole = [&class[..], &[0x80, 8, 0, 16], &code, &[0x80, 1, 0, 1, 5]].concat();
        let mut rest = whole.clone();
        assert_eq!(answer(&mut rest, [number, own], &FACTS, Some(&key)), Some(10 << 2));
        assert!(key.is_code(&[&own, &rest[..8]], &rest[12..28]), "sealed anew");
        assert_eq!((rest[0], rest[8], rest[28]), (0, 0, 0));
        for at in [4, 12, 9] {
            let mut rest = whole.clone();
            rest[at] ^= 1;
            assert_eq!(answer(&mut rest, [number, own], &FACTS, Some(&key)), None);
            assert_eq!((rest[0], rest[8] & WRONG_CODE), (WRONG_CODE, WRONG_CODE), "{at}");
        }
        let mut padding = vec![0x80, 1, 0, 1, 5];
        answer(&mut padding, [number, own], &FACTS, Some(&key));
        assert_eq!(padding[0], 0, "padding alone takes no code");
    }
}
