//! Sending half: one window over all receivers, which advances once all of them have its first packet.

use std::collections::VecDeque;

use super::terms::{GroupTerms, MulticastControl, RepairRule};
use super::wire::{DataPacket, HEADER, Status, Tag, write_data};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::TcpView;
use deadheat_datapath::transport::userspace::{RoundTrip, SendBuffer};

/// Shortest timeout after which the first packet of the window is sent again: receivers are processes, which take time
/// to wake.
const LEAST_TIMEOUT: Nanos = Nanos::from_millis(10);

/// Longest such timeout: a receiver that is alive answers the next packet.
const LONGEST_TIMEOUT: Nanos = Nanos::from_secs(1);

/// Silence of a receiver, while it is asked all the time, after which it counts as gone.
pub(super) const SILENCE: Nanos = Nanos::from_secs(10);

/// Initial congestion window in packets (RFC 6928).
const INITIAL: f64 = 10.0;

/// Packet of the window.
#[derive(Debug, Clone, Copy)]
struct WindowPacket {
    offset: u64,
    len: usize,
    ends: bool,
    /// Serial of its last transmission.
    serial: u64,
    /// True if its retransmission is pending.
    is_listed: bool,
}

/// State of a receiver as the sender knows it.
#[derive(Debug, Clone, Copy, Default)]
struct Member {
    joined: bool,
    /// First missing number, the number before which it has room, and the highest serial that it received.
    next: u64,
    room: u64,
    serial: u64,
    last_status: Nanos,
}

pub(super) struct MulticastSender {
    tag: Tag,
    terms: GroupTerms,
    pub(super) buffer: SendBuffer,
    members: Box<[Member]>,
    /// Number of the first packet that some receiver misses, and the packets from it on.
    base: u64,
    window: VecDeque<WindowPacket>,
    /// Numbers to retransmit: single ones, and all from one number on.
    missing: VecDeque<u64>,
    rewind: Option<u64>,
    /// Serial of the last transmission, and the serial up to which all were reported or given up.
    serial: u64,
    settled: u64,
    congestion_window: f64,
    threshold: f64,
    /// Serial from which on a loss is a new one.
    recovers_to: u64,
    timed: Option<(u64, Nanos)>,
    round_trip: RoundTrip,
    timer: Option<Nanos>,
    backoff: u32,
    /// Time of the first timeout since the last news of any receiver.
    asked: Option<Nanos>,
    /// True if the next packet asks for answers, whatever follows it.
    asks: bool,
    /// True if receivers must be asked for their state.
    pub(super) calls: bool,
    pub(super) sent: u64,
    pub(super) resent: u64,
}

impl MulticastSender {
    pub(super) fn new(tag: Tag, terms: GroupTerms) -> MulticastSender {
        let window = terms.packets as usize * terms.segment;
        let member = Member { room: terms.packets, ..Member::default() };
        MulticastSender {
            tag,
            buffer: SendBuffer::new(2 * window.max(terms.message)),
            members: vec![member; terms.receivers.into()].into(),
            base: 0,
            window: VecDeque::with_capacity(terms.packets as usize),
            missing: VecDeque::new(),
            rewind: None,
            serial: 0,
            settled: 0,
            congestion_window: INITIAL,
            threshold: f64::INFINITY,
            recovers_to: 0,
            timed: None,
            round_trip: RoundTrip::default(),
            timer: None,
            backoff: 0,
            asked: None,
            asks: false,
            calls: false,
            sent: 0,
            resent: 0,
            terms,
        }
    }

    /// Returns true if every receiver has answered.
    pub(super) fn is_complete(&self) -> bool {
        self.members.iter().all(|member| member.joined)
    }

    /// Returns true if every receiver has all bytes and the end of the stream.
    pub(super) fn is_drained(&self) -> bool {
        self.window.is_empty() && !self.buffer.has_new()
    }

    /// Returns the number after the last packet.
    fn next_number(&self) -> u64 {
        self.base + self.window.len() as u64
    }

    /// Returns the maximum number of transmissions under way.
    fn limit(&self) -> u64 {
        match self.terms.control {
            MulticastControl::Reno => (self.congestion_window as u64).min(self.terms.packets),
            MulticastControl::None => self.terms.packets,
        }
    }

    fn under_way(&self) -> u64 {
        self.serial - self.settled
    }

    /// Returns the number of the next packet to send, if one may leave.
    fn pick(&mut self) -> Option<u64> {
        if self.under_way() >= self.limit() {
            return None;
        }
        while let Some(number) = self.missing.front().copied() {
            if self.packet(number).is_some_and(|packet| packet.is_listed) {
                return Some(number);
            }
            self.missing.pop_front();
        }
        if let Some(number) = self.rewind {
            let number = number.max(self.base);
            if number < self.next_number() {
                return Some(number);
            }
            self.rewind = None;
        }
        let number = self.next_number();
        let room = self.members.iter().map(|member| member.room).min().unwrap_or(0);
        let fits = (self.window.len() as u64) < self.terms.packets && number < room;
        let left = self.buffer.uncut();
        // A partial packet waits for more bytes while others are under way (as in RFC 896).
        let is_whole = left >= self.terms.segment as u64;
        let may = is_whole || self.buffer.is_finished() || self.window.is_empty();
        (fits && may && self.buffer.has_new()).then_some(number)
    }

    fn packet(&mut self, number: u64) -> Option<&mut WindowPacket> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.window.get_mut(at)
    }

    /// Returns the number of bytes in the next new packet.
    fn next_len(&self) -> usize {
        self.buffer.uncut().min(self.terms.segment as u64) as usize
    }

    /// Makes the next packet from the buffered bytes.
    fn cut_one(&mut self) {
        let len = self.next_len();
        let offset = self.buffer.cut(len as u64);
        let ends = self.buffer.is_at_end();
        if ends {
            self.buffer.cut_end();
        }
        let packet = WindowPacket { offset, len, ends, serial: 0, is_listed: false };
        self.window.push_back(packet);
    }

    /// Appends up to `most` packets that leave at `now`, all of the returned length except the last, which may be
    /// shorter.
    pub(super) fn transmit(
        &mut self,
        now: Nanos,
        most: usize,
        batch: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut length = None;
        for _ in 0..most.max(1) {
            let Some(number) = self.pick() else { break };
            let at = (number - self.base) as usize;
            let len =
                HEADER + self.window.get(at).map_or_else(|| self.next_len(), |packet| packet.len);
            if length.is_some_and(|length| len > length) {
                break;
            }
            if number == self.next_number() {
                self.cut_one();
            }
            self.send(now, number, at, batch);
            if *length.get_or_insert(len) != len {
                break;
            }
        }
        length
    }

    fn send(&mut self, now: Nanos, number: u64, at: usize, batch: &mut Vec<u8>) {
        let is_again = self.window[at].serial > 0;
        if is_again {
            self.resent += 1;
            if self.window[at].is_listed {
                self.missing.pop_front();
            } else {
                self.rewind = Some(number + 1);
            }
        } else {
            self.sent += 1;
        }
        self.serial += 1;
        let packet = &mut self.window[at];
        (packet.serial, packet.is_listed) = (self.serial, false);
        let WindowPacket { offset, len, ends, serial, .. } = *packet;
        // No packet follows that would cause answers, or too few for each receiver to have its turn.
        let has_little = self.next_len() < self.terms.segment;
        let is_last = self.pick().is_none();
        let asks = std::mem::take(&mut self.asks)
            || (is_last && (has_little || self.limit() < 2 * self.terms.every()));
        let data = DataPacket { number, serial, asks, ends, bytes: &[] };
        write_data(self.tag, &data, batch);
        self.buffer.append(offset, len as u64, batch);
        self.timed.get_or_insert((serial, now));
        self.timer.get_or_insert(now + self.timeout());
    }

    /// Handles the status of a receiver.
    pub(super) fn on_status(&mut self, now: Nanos, status: &Status<'_>) {
        let most = self.next_number();
        let Some(member) = self.members.get_mut(usize::from(status.receiver)) else { return };
        let is_sane = status.next <= most && status.serial <= self.serial;
        if !is_sane || status.room < status.next || status.room > most + self.terms.packets {
            return;
        }
        (member.joined, member.last_status) = (true, now);
        member.next = member.next.max(status.next);
        member.room = member.room.max(status.room);
        member.serial = member.serial.max(status.serial);
        self.settle(now);
        self.advance();
        // A status that a later one has overtaken has no news.
        if status.next >= self.members[usize::from(status.receiver)].next {
            self.list_missing(status);
        }
        if self.window.is_empty() {
            // While a receiver has no room, its report of new room may be lost.
            self.timer = self.buffer.has_new().then(|| now + self.timeout());
        }
    }

    /// Notes the transmissions for which every receiver has reported this serial or a later one.
    fn settle(&mut self, now: Nanos) {
        let heard = self.members.iter().map(|member| member.serial).min().unwrap_or(0);
        if heard <= self.settled {
            return;
        }
        let news = heard - self.settled;
        self.settled = heard;
        (self.backoff, self.asked) = (0, None);
        if let Some((serial, sent)) = self.timed
            && heard >= serial
        {
            self.round_trip.note(now - sent);
            self.timed = None;
        }
        self.timer = Some(now + self.timeout());
        // RFC 5681, 3.1; a window that is not used shows nothing about the path.
        let is_used = self.under_way() + news >= self.limit();
        if is_used && self.recovers_to <= heard {
            let more = if self.congestion_window < self.threshold {
                news as f64
            } else {
                news as f64 / self.congestion_window
            };
            self.congestion_window = (self.congestion_window + more).min(self.terms.packets as f64);
        }
    }

    /// Removes the packets that every receiver has.
    fn advance(&mut self) {
        let have = self.members.iter().map(|member| member.next).min().unwrap_or(0);
        while self.base < have {
            let Some(packet) = self.window.pop_front() else { return };
            self.base += 1;
            self.buffer.acknowledge(packet.offset + packet.len as u64);
        }
    }

    /// Lists the packets that the receiver misses: a transmission that a later one has overtaken is lost. A
    /// transmission that left since then may still arrive, so several reports of one loss cause one repair.
    fn list_missing(&mut self, status: &Status<'_>) {
        let mut found = None;
        // A bitmap that fills its datagram covers none of the packets that follow.
        let is_cut = status.bitmap.len() >= self.terms.longest_bitmap();
        let end = if is_cut { status.end() } else { u64::MAX };
        for number in status.next..self.next_number().min(end) {
            let in_bitmap = number < status.end();
            if status.has(number) {
                continue;
            }
            let repair = self.terms.repair;
            let Some(packet) = self.packet(number) else { continue };
            let is_lost = packet.serial <= status.serial;
            if is_lost {
                found = found.max(Some(packet.serial));
                match repair {
                    RepairRule::GoBackN => {
                        self.rewind = Some(self.rewind.map_or(number, |from| from.min(number)));
                    }
                    RepairRule::Selective if packet.is_listed => {}
                    RepairRule::Selective => {
                        packet.is_listed = true;
                        self.missing.push_back(number);
                    }
                }
            }
            // Packets behind the bitmap left in order, so if this one is not lost, no later one is.
            if repair == RepairRule::GoBackN || (!is_lost && !in_bitmap) {
                break;
            }
        }
        if found.is_some_and(|serial| serial > self.recovers_to) {
            self.slow_down();
        }
    }

    /// Halves the congestion window, once for all losses of a window (RFC 5681, RFC 6582).
    fn slow_down(&mut self) {
        self.threshold = (self.congestion_window / 2.0).max(2.0);
        self.congestion_window = self.threshold;
        self.recovers_to = self.serial;
    }

    pub(super) fn timer(&self) -> Option<Nanos> {
        self.timer
    }

    fn timeout(&self) -> Nanos {
        self.round_trip.timeout(LEAST_TIMEOUT, self.backoff).min(LONGEST_TIMEOUT)
    }

    /// Retransmits the first packet, and asks for answers, if the timer has fired: no receiver has reported news.
    pub(super) fn on_timer(&mut self, now: Nanos) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        self.backoff += 1;
        self.settled = self.serial;
        self.timed = None;
        if self.backoff == 1 {
            self.threshold = (self.congestion_window / 2.0).max(2.0);
        }
        self.congestion_window = 1.0;
        self.recovers_to = self.serial;
        self.asked.get_or_insert(now);
        self.asks = true;
        self.timer = (!self.is_drained()).then(|| now + self.timeout());
        let base = self.base;
        match (self.terms.repair, self.window.front_mut()) {
            (RepairRule::GoBackN, Some(_)) => self.rewind = Some(base),
            (RepairRule::Selective, Some(packet)) if !packet.is_listed => {
                packet.is_listed = true;
                self.missing.push_front(base);
            }
            (_, None) => self.calls = self.buffer.has_new(),
            _ => {}
        }
    }

    /// Returns a receiver that misses packets and has been silent for too long.
    pub(super) fn silent(&self, now: Nanos) -> Option<usize> {
        let (asked, most) = (self.asked?, self.next_number());
        let is_silent = |member: &Member| now - member.last_status.max(asked) >= SILENCE;
        self.members.iter().position(|member| member.next < most && is_silent(member))
    }

    /// Returns round-trip time, window, and packets under way.
    pub(super) fn view(&self) -> TcpView {
        let segment = self.terms.segment as u64;
        TcpView {
            cwnd_bytes: self.limit() * segment,
            mss_bytes: segment,
            unacked_segments: self.window.len() as u64,
            bytes_acked: Some(self.buffer.begin()),
            notsent_bytes: Some(self.buffer.uncut()),
            ..self.round_trip.view(self.sent, self.resent)
        }
    }
}
