//! Reader of captures: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng), block by block, with the place
//! of damage in bytes. It stores one block at a time.

use std::io::{BufRead, ErrorKind};

use crate::foreign_file::unreadable;

/// Largest block, in bytes: BIG TCP makes packets of up to 512 KiB.
const LARGEST_BLOCK: u32 = 16 << 20;
/// Largest number of interfaces in a section.
const MOST_INTERFACES: usize = 4_096;
/// Seconds from 1970 to 2200: later times are no times.
const LAST_SECOND: u128 = 7_258_118_400;

/// Types of blocks (sections 4.1 to 4.6).
const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Options of these blocks.
const COMMENT: u16 = 1;
const APPLICATION: u16 = 4;
const DROPPED_BY_INTERFACE: u16 = 5;
const DROPPED_BY_SYSTEM: u16 = 7;
const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;

/// First bytes of captures: of pcap in both byte orders, with times in micro- and nanoseconds, and of pcapng.
pub(crate) const MAGICS: &[&[u8]] = &[
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\xc3\xd4",
    b"\x4d\x3c\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x0a\x0d\x0d\x0a",
];

/// Interface at which packets were captured.
struct Interface {
    link: u32,
    /// Units of its times in a second, and the seconds to add to them.
    per_second: u64,
    offset_s: i64,
    /// Packets that the capture dropped, as it counted them last.
    dropped: u64,
}

/// A captured packet.
pub(super) struct Frame<'a> {
    /// Number of the interface over all sections.
    pub interface: u32,
    /// Number of the section, and its trial if deadheat wrote it.
    pub section: u32,
    pub title: Option<&'a str>,
    /// `LINKTYPE` of its first header.
    pub link: u32,
    /// Time, in nanoseconds since 1970.
    pub at_ns: u64,
    pub bytes: &'a [u8],
    /// Length before it was cut.
    pub len: u64,
    /// True if it was lost, if deadheat noted the outcome.
    pub is_lost: Option<bool>,
}

/// Capture that is read from its beginning to its end.
pub(super) struct CaptureReader<'a> {
    source: &'a mut dyn BufRead,
    /// Position of the block that is read, and of the next one, in bytes.
    begun: u64,
    place: u64,
    is_big_endian: bool,
    /// True for pcapng.
    has_blocks: bool,
    interfaces: Vec<Interface>,
    /// Number of interfaces in earlier sections.
    interfaces_before: u32,
    sections: u32,
    /// Trial of the section, if deadheat wrote it.
    title: Option<String>,
    /// Program that wrote the capture.
    pub application: Option<String>,
    /// Packets that the capture dropped in earlier sections; `None` if it does not say.
    dropped: Option<u64>,
    /// Place of the block in which the file ends, if it ends in one.
    pub cut_at: Option<u64>,
    /// True if the last read returned any byte.
    was_begun: bool,
    body: Vec<u8>,
}

impl<'a> CaptureReader<'a> {
    /// Begins to read a capture.
    ///
    /// # Errors
    /// If it has another beginning, or cannot be read.
    pub(super) fn new(source: &'a mut dyn BufRead) -> Result<CaptureReader<'a>, String> {
        let mut reader = CaptureReader {
            source,
            begun: 0,
            place: 0,
            is_big_endian: false,
            has_blocks: false,
            interfaces: Vec::new(),
            interfaces_before: 0,
            sections: 0,
            title: None,
            application: None,
            dropped: None,
            cut_at: None,
            was_begun: false,
            body: Vec::new(),
        };
        let mut magic = [0; 4];
        if !reader.fill(&mut magic)? || !MAGICS.contains(&&magic[..]) {
            return Err("it does not begin as a capture, pcap or pcapng".to_owned());
        }
        reader.has_blocks = magic == *b"\x0a\x0d\x0d\x0a";
        if reader.has_blocks {
            reader.section_after_type()?;
        } else {
            reader.pcap_header(magic)?;
        }
        Ok(reader)
    }

    /// Returns the number of packets that the capture dropped, if it says so.
    pub(super) fn dropped(&self) -> Option<u64> {
        let own: u64 = self.interfaces.iter().map(|own| own.dropped).sum();
        if own > 0 { Some(self.dropped.unwrap_or(0).saturating_add(own)) } else { self.dropped }
    }

    /// Returns the next packet; `None` behind the last.
    ///
    /// # Errors
    /// For bytes that are no capture, with their place.
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, String> {
        if !self.has_blocks {
            return self.next_record();
        }
        loop {
            let Some(kind) = self.block()? else { return Ok(None) };
            match kind {
                SECTION => self.section()?,
                INTERFACE => self.interface()?,
                STATISTICS => self.statistics()?,
                PACKET => return self.packet().map(Some),
                SIMPLE_PACKET => {
                    return Err(self.wrong(
                        "packets without times (Simple Packet Blocks), of which nothing follows",
                    ));
                }
                OLD_PACKET => {
                    return Err(self.wrong(
                        "an obsolete Packet Block; `editcap FILE NEW` writes what is read",
                    ));
                }
                _ => {}
            }
        }
    }

    /// Reads the header of a pcap file behind its first four bytes.
    fn pcap_header(&mut self, magic: [u8; 4]) -> Result<(), String> {
        self.is_big_endian = magic[0] == 0xa1;
        let per_second = if magic.contains(&0x3c) { 1_000_000_000 } else { 1_000_000 };
        let mut header = [0; 20];
        if !self.fill(&mut header)? {
            return Err(
                self.wrong("the header of a pcap file has 24 bytes, and the file ends in it")
            );
        }
        // The upper bits are the length of a checksum behind each frame.
        let link = self.word(&header, 16) & 0xffff;
        self.interfaces.push(Interface { link, per_second, offset_s: 0, dropped: 0 });
        self.place = 24;
        Ok(())
    }

    /// Returns the next packet of a pcap file.
    fn next_record(&mut self) -> Result<Option<Frame<'_>>, String> {
        let mut header = [0; 16];
        if !self.begin(&mut header)? {
            return Ok(None);
        }
        let [seconds, part, captured, len] = [0, 4, 8, 12].map(|at| self.word(&header, at));
        if captured > LARGEST_BLOCK {
            return Err(self.wrong(&format!(
                "a packet of {captured} captured bytes; the largest has {LARGEST_BLOCK}"
            )));
        }
        if !self.fill_body(captured as usize)? {
            return Ok(None);
        }
        let per_second = self.interfaces[0].per_second;
        let part_ns = u64::from(part).saturating_mul(1_000_000_000 / per_second);
        let at_ns = u64::from(seconds) * 1_000_000_000 + part_ns;
        self.place += 16 + u64::from(captured);
        Ok(Some(Frame {
            interface: 0,
            section: 0,
            title: None,
            link: self.interfaces[0].link,
            at_ns,
            bytes: &self.body,
            len: u64::from(len.max(captured)),
            is_lost: None,
        }))
    }

    /// Reads the next block of a pcapng file into the body, without its lengths, and returns its type.
    fn block(&mut self) -> Result<Option<u32>, String> {
        let mut head = [0; 4];
        if !self.begin(&mut head)? {
            return Ok(None);
        }
        let kind = self.word(&head, 0);
        if kind == SECTION {
            return Ok(if self.section_after_type()? { Some(SECTION) } else { None });
        }
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let len = self.word(&head, 0);
        Ok(self.rest_of_block(len, 8)?.then_some(kind))
    }

    /// Reads the lengths, the byte order and the rest of a section's header; returns false if the file ends in it.
    fn section_after_type(&mut self) -> Result<bool, String> {
        let mut head = [0; 8];
        if !self.fill(&mut head)? {
            return Ok(false);
        }
        self.is_big_endian = match head[4..] {
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            _ => return Err(self.wrong("a section without its byte order, 0x1A2B3C4D")),
        };
        let len = self.word(&head, 0);
        let is_whole = self.rest_of_block(len, 12)?;
        if is_whole && self.sections == 0 {
            self.section()?;
        }
        Ok(is_whole)
    }

    /// Reads a block behind its first bytes, and checks its lengths; returns false if the file ends in it.
    fn rest_of_block(&mut self, len: u32, read: u32) -> Result<bool, String> {
        if len < read + 4 || !len.is_multiple_of(4) || len > LARGEST_BLOCK {
            return Err(self.wrong(&format!(
                "a block of {len} bytes; its length is a multiple of 4 from {} to {LARGEST_BLOCK}",
                read + 4
            )));
        }
        if !self.fill_body((len - read) as usize)? {
            return Ok(false);
        }
        let behind = self.word(&self.body, self.body.len() - 4);
        if behind != len {
            return Err(self.wrong(&format!("a block of {len} bytes that ends as one of {behind}")));
        }
        self.body.truncate(self.body.len() - 4);
        self.place += u64::from(len);
        Ok(true)
    }

    /// Takes the header of a section, which has its own interfaces.
    fn section(&mut self) -> Result<(), String> {
        self.dropped = self.dropped();
        self.interfaces_before =
            self.interfaces_before.saturating_add(self.interfaces.len() as u32);
        self.interfaces.clear();
        self.sections = self.sections.saturating_add(1);
        // Behind the byte order: two numbers of the version, and the section's length.
        if self.body.len() < 12 {
            return Err(self.wrong("the header of a section that is too short"));
        }
        let text =
            |code| self.option(12, code).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let (comment, application) = (text(COMMENT), text(APPLICATION));
        let is_own = application.as_deref().is_some_and(|name| name.starts_with("deadheat "));
        self.title = comment.filter(|_| is_own).and_then(|comment| contender(&comment));
        self.application = self.application.take().or(application);
        Ok(())
    }

    fn interface(&mut self) -> Result<(), String> {
        if self.body.len() < 8 || self.interfaces.len() >= MOST_INTERFACES {
            return Err(self
                .wrong(&format!("an interface too short, or one of more than {MOST_INTERFACES}")));
        }
        let resolution =
            self.option(8, RESOLUTION).and_then(|bytes| bytes.first()).copied().unwrap_or(6);
        let power = u32::from(resolution & 0x7f);
        let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
        let Some(per_second) = base.checked_pow(power) else {
            return Err(
                self.wrong(&format!("an interface with times in units of {base}^-{power} s"))
            );
        };
        let offset = self.option(8, OFFSET).and_then(|bytes| bytes.first_chunk::<8>()).copied();
        let order = if self.is_big_endian { i64::from_be_bytes } else { i64::from_le_bytes };
        let link = self.word(&self.body, 0);
        let link = if self.is_big_endian { link >> 16 } else { link & 0xffff };
        let offset_s = offset.map_or(0, order);
        self.interfaces.push(Interface { link, per_second, offset_s, dropped: 0 });
        Ok(())
    }

    /// Takes statistics of an interface: what the capture dropped.
    fn statistics(&mut self) -> Result<(), String> {
        if self.body.len() < 12 {
            return Err(self.wrong("statistics of an interface that are too short"));
        }
        let order = if self.is_big_endian { u64::from_be_bytes } else { u64::from_le_bytes };
        let count = |code| {
            self.option(12, code).and_then(|bytes| bytes.first_chunk::<8>()).copied().map(order)
        };
        let counts = [DROPPED_BY_INTERFACE, DROPPED_BY_SYSTEM].map(count);
        let id = self.word(&self.body, 0) as usize;
        if counts.iter().any(Option::is_some) {
            self.dropped.get_or_insert(0);
            let dropped = counts.into_iter().flatten().fold(0, u64::saturating_add);
            if let Some(own) = self.interfaces.get_mut(id) {
                own.dropped = dropped;
            }
        }
        Ok(())
    }

    fn packet(&self) -> Result<Frame<'_>, String> {
        if self.body.len() < 20 {
            return Err(self.wrong("a packet's block that is too short"));
        }
        let [id, high, low, captured, len] = [0, 4, 8, 12, 16].map(|at| self.word(&self.body, at));
        let Some(own) = self.interfaces.get(id as usize) else {
            return Err(self
                .wrong(&format!("a packet of interface {id}, which is not described before it")));
        };
        let Some(bytes) = self.body.get(20..).and_then(|rest| rest.get(..captured as usize)) else {
            return Err(
                self.wrong(&format!("a packet of {captured} captured bytes in a shorter block"))
            );
        };
        let units = u128::from(high) << 32 | u128::from(low);
        let ns = (units * 1_000_000_000 / u128::from(own.per_second)) as i128
            + i128::from(own.offset_s) * 1_000_000_000;
        let at_ns =
            u64::try_from(ns).ok().filter(|ns| u128::from(*ns) < LAST_SECOND * 1_000_000_000);
        let Some(at_ns) = at_ns else {
            return Err(self.wrong("a packet whose time is before 1970 or after 2200"));
        };
        let outcome = self
            .title
            .as_ref()
            .and_then(|_| self.option(20 + (captured as usize).next_multiple_of(4), COMMENT));
        Ok(Frame {
            interface: self.interfaces_before.saturating_add(id),
            section: self.sections,
            title: self.title.as_deref(),
            link: own.link,
            at_ns,
            bytes,
            len: u64::from(len.max(captured)),
            is_lost: outcome.map(|text| text.starts_with(b"lost") || text.starts_with(b"blocked")),
        })
    }

    /// Returns an option of the block whose options begin at `from`.
    fn option(&self, from: usize, code: u16) -> Option<&[u8]> {
        let mut rest = self.body.get(from..)?;
        loop {
            let half = |at: usize| {
                let two = [*rest.get(at)?, *rest.get(at + 1)?];
                Some(if self.is_big_endian {
                    u16::from_be_bytes(two)
                } else {
                    u16::from_le_bytes(two)
                })
            };
            let (own, len) = (half(0)?, usize::from(half(2)?));
            let value = rest.get(4..4 + len)?;
            match own {
                _ if own == code => return Some(value),
                0 => return None,
                _ => rest = rest.get(4 + len.next_multiple_of(4)..)?,
            }
        }
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let four =
            bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default();
        if self.is_big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    }

    /// Describes bytes that are wrong in this block.
    fn wrong(&self, what: &str) -> String {
        format!("at byte {}: {what}", self.begun)
    }

    fn fill_body(&mut self, len: usize) -> Result<bool, String> {
        let mut body = std::mem::take(&mut self.body);
        body.resize(len, 0);
        let is_whole = self.fill(&mut body);
        self.body = body;
        is_whole
    }

    /// Reads the first bytes of a block; returns false if the file ends before them.
    fn begin(&mut self, into: &mut [u8]) -> Result<bool, String> {
        self.begun = self.place;
        let is_whole = self.fill(into)?;
        // Nothing is cut where no block has begun.
        self.cut_at = self.cut_at.filter(|_| is_whole || self.was_begun);
        Ok(is_whole)
    }

    /// Reads bytes; returns false if the file ends before the last of them, and notes the place.
    fn fill(&mut self, mut into: &mut [u8]) -> Result<bool, String> {
        self.was_begun = false;
        while !into.is_empty() {
            match self.source.read(into) {
                Ok(0) => {
                    self.cut_at = Some(self.begun);
                    return Ok(false);
                }
                Ok(got) => {
                    self.was_begun = true;
                    into = &mut into[got..];
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(unreadable(&e)),
            }
        }
        Ok(true)
    }
}

/// Returns the contender of a trial by the comment of its section: `trial 2: quic, bulk:bytes=2MB`.
fn contender(comment: &str) -> Option<String> {
    let (_, rest) = comment.strip_prefix("trial ")?.split_once(": ")?;
    let name = rest.split([';']).next()?.split(", ").next()?;
    Some(deadheat_base::foreign::short(name))
}
