//! Sending half of an end: decides when to send which segment, and when to send it again.
//!
//! Reno as in RFC 5681 (slow start, congestion avoidance, fast retransmit and recovery) with the partial
//! acknowledgements of RFC 6582, an initial window of ten segments (RFC 6928), and the timer of RFC 6298, which times
//! one segment at a time and no segment that was sent twice (Karn). After a timeout, all unacknowledged bytes are sent
//! again in order.

use super::segment::{ArqSegment, SegmentFlag, write_header};
use deadheat_base::time::Nanos;
use deadheat_contract::measurements::TcpView;
use deadheat_datapath::transport::userspace::{RoundTrip, SendBuffer};

/// Limit on the bytes under way besides the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArqControl {
    /// Congestion window.
    Reno,
    /// No further limit.
    None,
}

/// Parameters of a sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArqTerms {
    pub(super) control: ArqControl,
    /// The most bytes that may be under way.
    pub(super) window: u64,
    /// The largest number of bytes in one segment.
    pub(super) segment: u64,
    /// The shortest time after which the timer fires.
    pub(super) least_timeout: Nanos,
}

pub(super) struct ArqSender {
    terms: ArqTerms,
    pub(super) buffer: SendBuffer,
    /// The first byte that is not acknowledged, the next to send, and the first never sent.
    unacknowledged: u64,
    next: u64,
    fresh: u64,
    congestion_window: u64,
    threshold: u64,
    /// Acknowledgements in a row that acknowledge nothing new.
    repeated: u32,
    /// End of fast recovery, which lasts until all bytes before this offset are acknowledged.
    recovers_to: Option<u64>,
    /// Offset after a loss: segments before it may be copies, so repeated acknowledgements of them show no new loss.
    no_news_before: u64,
    /// True if the first segment is to be sent again.
    resend: bool,
    timed: Option<(u64, Nanos)>,
    round_trip: RoundTrip,
    timer: Option<Nanos>,
    backoff: u32,
    pub(super) resent: u64,
    pub(super) sent: u64,
}

impl ArqSender {
    pub(super) fn new(terms: ArqTerms, buffer: usize) -> ArqSender {
        ArqSender {
            terms,
            buffer: SendBuffer::new(buffer),
            unacknowledged: 0,
            next: 0,
            fresh: 0,
            congestion_window: match terms.control {
                ArqControl::Reno => 10 * terms.segment,
                ArqControl::None => u64::MAX,
            },
            threshold: u64::MAX,
            repeated: 0,
            recovers_to: None,
            no_news_before: 0,
            resend: false,
            timed: None,
            round_trip: RoundTrip::default(),
            timer: None,
            backoff: 0,
            resent: 0,
            sent: 0,
        }
    }

    /// Returns the first number that is never sent: the end of the stream takes one.
    fn limit(&self) -> u64 {
        self.buffer.end() + u64::from(self.buffer.is_finished())
    }

    /// Returns true if the stream ends behind the byte before this number.
    fn ends_with(&self, to: u64) -> bool {
        self.buffer.is_finished() && to == self.buffer.end()
    }

    /// Returns the next number to be sent.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    fn under_way(&self) -> u64 {
        self.next - self.unacknowledged
    }

    /// Returns true if all bytes and the end of the stream are acknowledged.
    pub(super) fn is_drained(&self) -> bool {
        self.unacknowledged >= self.limit()
    }

    /// Returns congestion control and round-trip times.
    pub(super) fn view(&self) -> TcpView {
        let segment = self.terms.segment.max(1);
        TcpView {
            cwnd_bytes: self.congestion_window.min(self.terms.window),
            mss_bytes: segment,
            in_flight_bytes: Some(self.under_way()),
            unacked_segments: (self.fresh - self.unacknowledged).div_ceil(segment),
            ..self.round_trip.view(self.sent, self.resent)
        }
    }

    /// Writes the next segment that may leave at `now`, with `acknowledged` of the other stream; returns false if there
    /// is none.
    pub(super) fn transmit(&mut self, now: Nanos, acknowledged: u64, room: &mut Vec<u8>) -> bool {
        if std::mem::take(&mut self.resend) && self.unacknowledged < self.fresh {
            let len = self.terms.segment.min(
                self.fresh.min(self.buffer.end()) - self.unacknowledged.min(self.buffer.end()),
            );
            self.write(now, self.unacknowledged, len, acknowledged, room);
            return true;
        }
        if self.next >= self.limit() {
            return false;
        }
        let window = self.congestion_window.min(self.terms.window);
        let left = self.buffer.end().saturating_sub(self.next);
        let len = left.min(self.terms.segment).min(window.saturating_sub(self.under_way()));
        // Sends no empty segment, and none below full size while more is waiting (RFC 1122, 4.2.3.4).
        let too_small = len < left.min(self.terms.segment);
        if (too_small && self.under_way() > 0) || (len == 0 && left > 0) {
            return false;
        }
        let from = self.next;
        self.next += len + u64::from(self.ends_with(from + len));
        self.write(now, from, len, acknowledged, room);
        self.fresh = self.fresh.max(self.next);
        true
    }

    fn write(&mut self, now: Nanos, from: u64, len: u64, acknowledged: u64, room: &mut Vec<u8>) {
        let then = if self.ends_with(from + len) { SegmentFlag::End } else { SegmentFlag::More };
        write_header(from, acknowledged, then, room);
        self.buffer.append(from, len, room);
        if from < self.fresh {
            self.resent += 1;
            self.timed = None;
        } else {
            self.sent += 1;
            self.timed.get_or_insert((from + len, now));
        }
        self.timer.get_or_insert(now + self.timeout());
    }

    /// Handles the acknowledgement of this stream in a segment of the other end.
    pub(super) fn acknowledge(&mut self, now: Nanos, segment: &ArqSegment<'_>) {
        let acknowledged = segment.acknowledged;
        if acknowledged > self.fresh {
            return;
        }
        if acknowledged > self.unacknowledged {
            self.advance(now, acknowledged);
        } else if acknowledged == self.unacknowledged
            && segment.is_empty()
            && self.unacknowledged < self.fresh
        {
            self.repeat();
        }
    }

    fn advance(&mut self, now: Nanos, acknowledged: u64) {
        let news = acknowledged - self.unacknowledged;
        self.unacknowledged = acknowledged;
        self.buffer.acknowledge(acknowledged.min(self.buffer.end()));
        self.next = self.next.max(acknowledged);
        (self.repeated, self.backoff) = (0, 0);
        if let Some((end, sent)) = self.timed
            && acknowledged >= end
        {
            self.round_trip.note(now - sent);
            self.timed = None;
        }
        let is_all = self.unacknowledged >= self.fresh;
        self.timer = (!is_all).then(|| now + self.timeout());
        match self.recovers_to {
            Some(to) if acknowledged >= to => {
                self.recovers_to = None;
                if self.terms.control == ArqControl::Reno {
                    self.congestion_window = self.threshold;
                }
            }
            Some(_) => {
                // The bytes behind the closed gap are missing, too.
                self.resend = true;
                if self.terms.control == ArqControl::Reno {
                    let deflated = self.congestion_window.saturating_sub(news);
                    self.congestion_window = deflated + self.terms.segment;
                }
            }
            None => self.grow(news),
        }
    }

    fn grow(&mut self, news: u64) {
        let segment = self.terms.segment;
        if self.terms.control == ArqControl::None {
            return;
        }
        let more = if self.congestion_window < self.threshold {
            news.min(segment)
        } else {
            (segment * segment / self.congestion_window.max(1)).max(1)
        };
        // More than `window` is of no use, and would hide a later loss.
        self.congestion_window = (self.congestion_window + more).min(self.terms.window);
    }

    /// Handles an acknowledgement that acknowledges nothing new.
    fn repeat(&mut self) {
        self.repeated += 1;
        if self.recovers_to.is_some() {
            if self.terms.control == ArqControl::Reno {
                self.congestion_window += self.terms.segment;
            }
        } else if self.repeated == 3 && self.unacknowledged >= self.no_news_before {
            self.lost();
            if self.terms.control == ArqControl::Reno {
                self.congestion_window = self.threshold + 3 * self.terms.segment;
            }
            self.recovers_to = Some(self.fresh);
            self.resend = true;
        }
    }

    /// Reacts to a loss: halves the window, since the path takes no more than that.
    fn lost(&mut self) {
        let under_way = self.fresh - self.unacknowledged;
        self.threshold = (under_way / 2).max(2 * self.terms.segment);
        self.no_news_before = self.fresh;
    }

    pub(super) fn timer(&self) -> Option<Nanos> {
        self.timer
    }

    /// Sends again if the retransmission timer has fired.
    pub(super) fn on_timer(&mut self, now: Nanos) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        // A second timeout for the same loss shows nothing new about the path.
        if self.backoff == 0 {
            self.lost();
        }
        if self.terms.control == ArqControl::Reno {
            self.congestion_window = self.terms.segment;
        }
        self.recovers_to = None;
        self.resend = false;
        self.timed = None;
        self.next = self.unacknowledged;
        self.repeated = 0;
        self.backoff += 1;
        self.timer = Some(now + self.timeout());
    }

    fn timeout(&self) -> Nanos {
        self.round_trip.timeout(self.terms.least_timeout, self.backoff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn sender(control: ArqControl) -> ArqSender {
        let terms = ArqTerms { control, window: 1 << 20, segment: 100, least_timeout: MS(200) };
        let mut sender = ArqSender::new(terms, 1 << 16);
        sender.buffer.put(&[7; 50_000]);
        sender
    }

    /// Returns the offsets of all segments that may leave now.
    fn leaves(sender: &mut ArqSender, now: Nanos) -> Vec<u64> {
        let mut offsets = Vec::new();
        let mut room = Vec::new();
        while sender.transmit(now, 0, &mut room) {
            offsets.push(ArqSegment::read(&room).unwrap().offset);
            room.clear();
        }
        offsets
    }

    fn answer(sender: &mut ArqSender, now: Nanos, acknowledged: u64) {
        let segment = ArqSegment { offset: 0, acknowledged, then: SegmentFlag::More, bytes: &[] };
        sender.acknowledge(now, &segment);
    }

    #[test]
    fn it_starts_with_ten_segments_and_doubles_each_round_trip() {
        let mut sender = sender(ArqControl::Reno);
        assert_eq!(leaves(&mut sender, MS(0)).len(), 10);
        for n in 1..=10 {
            answer(&mut sender, MS(50), 100 * n);
        }
        assert_eq!(leaves(&mut sender, MS(50)).len(), 20);
        // RFC 6298: 50 ms and a variation of half of it, and no less than was asked for.
        assert_eq!(sender.timeout(), MS(200));
        let terms = ArqTerms { least_timeout: MS(1), ..sender.terms };
        sender.terms = terms;
        assert_eq!(sender.timeout(), MS(150));
    }

    #[test]
    fn three_repeats_send_one_segment_again_and_halve_the_window() {
        let mut sender = sender(ArqControl::Reno);
        assert_eq!(leaves(&mut sender, MS(0)).len(), 10);
        answer(&mut sender, MS(50), 100);
        assert_eq!(leaves(&mut sender, MS(50)), [1000, 1100]);
        for _ in 0..2 {
            answer(&mut sender, MS(51), 100);
            assert!(leaves(&mut sender, MS(51)).is_empty());
        }
        answer(&mut sender, MS(51), 100);
        // 1100 bytes were under way.
        assert_eq!((sender.threshold, sender.congestion_window), (550, 850));
        assert_eq!(leaves(&mut sender, MS(51)), [100]);
        // A partial acknowledgement: the next gap is closed at once.
        answer(&mut sender, MS(100), 400);
        assert_eq!(leaves(&mut sender, MS(100))[0], 400);
        answer(&mut sender, MS(150), 1200);
        assert_eq!((sender.recovers_to, sender.congestion_window), (None, 550));
        assert_eq!(sender.resent, 2);
    }

    #[test]
    fn a_timeout_goes_back_to_the_first_gap_and_waits_twice_as_long() {
        let mut sender = sender(ArqControl::Reno);
        leaves(&mut sender, MS(0));
        assert_eq!(sender.timer(), Some(MS(1000)));
        sender.on_timer(MS(999));
        assert!(leaves(&mut sender, MS(999)).is_empty());
        sender.on_timer(MS(1000));
        assert_eq!(sender.timer(), Some(MS(3000)));
        assert_eq!(leaves(&mut sender, MS(1000)), [0]);
        answer(&mut sender, MS(1050), 100);
        assert_eq!(leaves(&mut sender, MS(1050)), [100, 200]);
        // A segment that was sent twice is not timed (Karn).
        assert_eq!(sender.round_trip.smoothed, None);
        answer(&mut sender, MS(1100), 1000);
        assert_eq!(sender.timer(), None);
        assert_eq!(leaves(&mut sender, MS(1100))[0], 1000);
    }

    #[test]
    fn without_control_only_the_window_holds_it_back() {
        let mut sender = sender(ArqControl::None);
        sender.terms.window = 2_000;
        assert_eq!(leaves(&mut sender, MS(0)).len(), 20);
        for _ in 0..3 {
            answer(&mut sender, MS(50), 0);
        }
        assert_eq!(leaves(&mut sender, MS(50)), [0]);
        answer(&mut sender, MS(100), 2_000);
        assert_eq!(leaves(&mut sender, MS(100)).len(), 20);
    }

    #[test]
    fn the_end_takes_a_number_and_is_sent_again_like_bytes() {
        let mut sender = sender(ArqControl::None);
        let mut room = Vec::new();
        sender.buffer.finish();
        assert_eq!(leaves(&mut sender, MS(0)).len(), 500);
        answer(&mut sender, MS(50), 50_000);
        assert_eq!(sender.buffer.room(), 1 << 16);
        sender.on_timer(MS(5_000));
        assert!(sender.transmit(MS(5_000), 0, &mut room));
        let last = ArqSegment::read(&room).unwrap();
        assert_eq!((last.offset, last.then, last.bytes.len()), (50_000, SegmentFlag::End, 0));
        answer(&mut sender, MS(5_050), 50_001);
        assert_eq!(sender.timer(), None);
    }
}
