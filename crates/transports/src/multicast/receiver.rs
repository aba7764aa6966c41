//! Receiving half: buffers packets until they are read in order, and reports its state to the sender.

use super::terms::{GroupTerms, RepairRule};
use super::wire::{DataPacket, Status, Tag, write_status};
use deadheat_datapath::transport::userspace::InOrder;

/// Packet that waits to be read.
#[derive(Debug, Clone, Copy, Default)]
struct PacketSlot {
    /// Number of the stored packet, plus one; 0 if the slot is empty.
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
    /// First missing number, first unread number, and the bytes read of that packet.
    next: u64,
    read: u64,
    taken: usize,
    /// Number after the last packet that arrived.
    end: u64,
    /// Number after the stream's last packet, once known.
    over: Option<u64>,
    /// Highest serial received.
    serial: u64,
    /// Room in the last status.
    announced: u64,
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
            announced: terms.packets,
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

    /// Returns the number before which packets are accepted.
    fn room(&self) -> u64 {
        self.read + self.terms.packets
    }

    /// Answers a call of the sender.
    pub(super) fn called(&mut self) {
        self.owes = true;
    }

    /// Stores a packet.
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
            // The packet is dropped, and the sender must learn what is missing.
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
        // The end may arrive in a packet without bytes, which is never read.
        self.consumed(0);
        // The start of a gap is reported at once, and so is its end, for which the sender may wait.
        self.owes |= self.has_gap() || had_gap;
    }

    fn has_gap(&self) -> bool {
        self.next < self.end
    }

    /// Returns the place in each round of packets at which this receiver answers: all take turns.
    fn turn(&self) -> u64 {
        u64::from(self.index) % self.terms.every()
    }

    /// Appends the status that is due; returns false if none is.
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
        self.announced = self.room();
        let (next, room, serial) = (self.next, self.announced, self.serial);
        let status = Status { receiver: self.index, next, room, serial, bitmap: &self.bitmap };
        write_status(self.tag, &status, batch);
        true
    }

    /// Returns true if the whole stream was read.
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
        // A sender without room must learn of new room before it runs out.
        self.owes |= self.room() - self.announced >= self.terms.packets.div_ceil(2);
    }
}
