//! The receiving half: keeps what arrives until it is read in order, and tells the sender how it stands.

use super::terms::{GroupTerms, RepairRule};
use super::wire::{DataPacket, Status, Tag, write_status};
use crate::transport::userspace::InOrder;

/// Packet that waits to be read.
#[derive(Debug, Clone, Copy, Default)]
struct PacketSlot {
    /// Number of the packet in it, plus one; 0 for none.
    holds: u64,
    len: usize,
}

pub(super) struct MulticastReceiver {
    tag: Tag,
    terms: GroupTerms,
    /// Number of this receiver.
    index: u16,
    slots: Box<[PacketSlot]>,
    bytes: Box<[u8]>,
    /// First number that is missing, the first that was not read, and the bytes of that one that were.
    next: u64,
    read: u64,
    taken: usize,
    /// Number behind the last of those that arrived.
    end: u64,
    /// Number behind the stream's last packet, once that is known.
    over: Option<u64>,
    /// Highest serial heard.
    serial: u64,
    /// Room that was last told.
    told: u64,
    owes: bool,
    bitmap: Vec<u8>,
}

impl MulticastReceiver {
    pub(super) fn new(tag: Tag, terms: GroupTerms, index: u16) -> MulticastReceiver {
        let slots = terms.packets as usize;
        MulticastReceiver {
            tag,
            index,
            slots: vec![PacketSlot::default(); slots].into(),
            bytes: vec![0; slots * terms.segment].into(),
            next: 0,
            read: 0,
            taken: 0,
            end: 0,
            over: None,
            serial: 0,
            told: terms.packets,
            owes: false,
            bitmap: Vec::with_capacity(slots.div_ceil(8)),
            terms,
        }
    }

    fn place(&self, number: u64) -> usize {
        (number % self.terms.packets) as usize
    }

    fn has(&self, number: u64) -> bool {
        number < self.next || self.slots[self.place(number)].holds == number + 1
    }

    /// Returns the number before which there is room.
    fn room(&self) -> u64 {
        self.read + self.terms.packets
    }

    /// Answers a sender that calls.
    pub(super) fn called(&mut self) {
        self.owes = true;
    }

    /// Takes a packet.
    pub(super) fn take(&mut self, data: &DataPacket<'_>) {
        if data.bytes.len() > self.terms.segment || data.number >= u64::MAX - self.terms.packets {
            return;
        }
        let had_gap = self.has_gap();
        self.serial = self.serial.max(data.serial);
        self.owes |= data.asks || data.number % self.terms.every() == self.turn();
        if self.has(data.number) {
            return;
        }
        let is_early = data.number > self.next;
        if data.number >= self.room() || (is_early && self.terms.repair == RepairRule::GoBackN) {
            // Nothing of it is kept, and the sender is to know what is missing.
            self.owes = true;
            return;
        }
        let place = self.place(data.number);
        let from = place * self.terms.segment;
        self.bytes[from..from + data.bytes.len()].copy_from_slice(data.bytes);
        self.slots[place] = PacketSlot { holds: data.number + 1, len: data.bytes.len() };
        self.end = self.end.max(data.number + 1);
        if data.ends {
            self.over = Some(data.number + 1);
        }
        while self.next < self.end && self.slots[self.place(self.next)].holds == self.next + 1 {
            self.next += 1;
        }
        // The end may come in a packet without bytes, which nobody reads.
        self.consumed(0);
        // A gap is told of at once, and so is its end, which the sender may wait for.
        self.owes |= self.has_gap() || had_gap;
    }

    fn has_gap(&self) -> bool {
        self.next < self.end
    }

    /// Returns the place in each round of packets at which this receiver answers: all take turns.
    fn turn(&self) -> u64 {
        u64::from(self.index) % self.terms.every()
    }

    /// Appends the answer that is owed, if one is.
    pub(super) fn transmit(&mut self, batch: &mut Vec<u8>) -> bool {
        if !self.owes {
            return false;
        }
        self.owes = false;
        self.bitmap.clear();
        for first in (self.next..self.end).step_by(8).take(self.terms.longest_bitmap()) {
            let bits = (0..8).filter(|bit| {
                let number = first + bit;
                number < self.end && self.has(number)
            });
            self.bitmap.push(bits.fold(0, |byte, bit| byte | 1 << bit));
        }
        self.told = self.room();
        let (next, room, serial) = (self.next, self.told, self.serial);
        let status = Status { receiver: self.index, next, room, serial, bitmap: &self.bitmap };
        write_status(self.tag, &status, batch);
        true
    }

    /// Returns true if all of the stream was read.
    pub(super) fn is_over(&self) -> bool {
        self.over == Some(self.read)
    }
}

impl InOrder for MulticastReceiver {
    fn readable(&self) -> &[u8] {
        if self.read == self.next {
            return &[];
        }
        let place = self.place(self.read);
        let from = place * self.terms.segment;
        &self.bytes[from + self.taken..from + self.slots[place].len]
    }

    fn consumed(&mut self, bytes: usize) {
        self.taken += bytes;
        while self.read < self.next && self.taken >= self.slots[self.place(self.read)].len {
            (self.read, self.taken) = (self.read + 1, 0);
        }
        // Whoever waits for room hears of it before it runs out.
        self.owes |= self.room() - self.told >= self.terms.packets.div_ceil(2);
    }
}
