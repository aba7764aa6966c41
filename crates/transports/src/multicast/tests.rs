//! A group in virtual time: each receiver loses other packets, and answers are lost, too.

use super::ends::{ReceivingEnd, SendingEnd};
use super::terms::{GroupTerms, MulticastControl, RepairRule};
use super::wire::{self, MulticastDatagram, Tag};
use deadheat_base::rng::SplitMix64;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Lane;
use deadheat_datapath::transport::hello::Token;
use deadheat_datapath::transport::userspace::{Protocol, Received, Rest, State, Transmit};

mod loopback;

const MS: fn(u64) -> Nanos = Nanos::from_millis;
const DELAY: Nanos = Nanos::from_millis(5);
const SEGMENT: usize = 100;

fn tag() -> Tag {
    Tag::of(&Token::from_bytes([7; 16]))
}

fn terms(
    repair: RepairRule,
    control: MulticastControl,
    packets: u64,
    receivers: u16,
) -> GroupTerms {
    let window = packets * SEGMENT as u64;
    GroupTerms {
        repair,
        control,
        packets,
        segment: SEGMENT,
        receivers,
        window,
        mtu: 154,
        message: 104,
    }
}

/// Delays after which the copies of a datagram arrive; empty if it is lost.
type Fate<'a> = &'a mut dyn FnMut(usize, &[u8]) -> Vec<Nanos>;

/// Destination of answers.
const SENDER: usize = usize::MAX;

struct Group {
    now: Nanos,
    sending: SendingEnd,
    receiving: Vec<ReceivingEnd>,
    flying: Vec<(Nanos, u64, usize, Vec<u8>)>,
    carried: u64,
    /// Content that the receivers read, and the most that each takes; `None` for all.
    got: Vec<Vec<u8>>,
    reads: Vec<bool>,
    /// Numbers of the packets that left.
    left: Vec<u64>,
}

impl Group {
    fn new(terms: GroupTerms) -> Group {
        let receivers = terms.receivers;
        Group {
            now: MS(1_000),
            sending: SendingEnd::new(tag(), terms, 9),
            receiving: (0..receivers).map(|index| ReceivingEnd::new(tag(), terms, index)).collect(),
            flying: Vec::new(),
            carried: 0,
            got: vec![Vec::new(); receivers.into()],
            reads: vec![true; receivers.into()],
            left: Vec::new(),
        }
    }

    fn carry(&mut self, to: usize, datagram: &[u8], fate: Fate<'_>) {
        for after in fate(to, datagram) {
            self.carried += 1;
            self.flying.push((self.now + after, self.carried, to, datagram.to_vec()));
        }
    }

    fn send(&mut self, fate: Fate<'_>) {
        let mut batch = Vec::new();
        while let Some(Transmit { segment: len, .. }) =
            self.sending.transmit(self.now, 64, &mut batch)
        {
            for datagram in std::mem::take(&mut batch).chunks(len) {
                if let Some(MulticastDatagram::Data(data)) = wire::read(tag(), datagram) {
                    self.left.push(data.number);
                }
                for to in 0..self.receiving.len() {
                    self.carry(to, datagram, fate);
                }
            }
        }
    }

    fn answer(&mut self, from: usize, fate: Fate<'_>) {
        let Group { receiving, got, reads, now, .. } = self;
        if reads[from] {
            receiving[from].read(*now, &mut |_, bytes| {
                got[from].extend_from_slice(bytes);
                bytes.len()
            });
        }
        let mut answer = Vec::new();
        while self.receiving[from].transmit(self.now, 1, &mut answer).is_some() {
            let answer = std::mem::take(&mut answer);
            self.carry(SENDER, &answer, fate);
        }
    }

    /// Lets both sides send and runs the next event; returns false if there is none.
    fn step(&mut self, fate: Fate<'_>) -> bool {
        self.send(fate);
        (0..self.receiving.len()).for_each(|from| self.answer(from, fate));
        let arrivals = self.flying.iter().map(|(at, ..)| *at);
        let Some(next) = arrivals.chain(self.sending.next_deadline()).min() else { return false };
        self.now = self.now.max(next);
        if self.sending.next_deadline().is_some_and(|due| due <= self.now) {
            self.sending.on_deadline(self.now);
        }
        self.flying.sort_by_key(|(at, order, ..)| (*at, *order));
        while self.flying.first().is_some_and(|(at, ..)| *at <= self.now) {
            let (_, _, to, datagram) = self.flying.remove(0);
            if to == SENDER {
                self.sending.handle(Received::plain(self.now, &datagram));
                self.send(fate);
            } else {
                self.receiving[to].handle(Received::plain(self.now, &datagram));
                self.answer(to, fate);
            }
        }
        true
    }

    /// Runs until all receivers are members.
    fn gather(&mut self, fate: Fate<'_>) {
        for _ in 0..10_000 {
            if self.sending.state() == State::Open {
                return;
            }
            self.step(fate);
        }
        panic!("they do not come together");
    }

    /// Sends `stream` until every receiver has all of it.
    fn run(&mut self, stream: &[u8], fate: Fate<'_>) {
        self.gather(fate);
        let mut at = 0;
        for _ in 0..1_000_000 {
            let len = self.sending.room(Lane(0)).min(stream.len() - at);
            self.sending.write(self.now, Lane(0), &stream[at..at + len], Rest::Kept).unwrap();
            at += len;
            if at == stream.len() {
                self.sending.finish(self.now, Lane(0));
            }
            self.step(fate);
            let over = self.receiving.iter().all(|receiving| receiving.has_ended(Lane(0)));
            if over && self.sending.is_drained() {
                return;
            }
            assert_eq!(self.sending.state(), State::Open, "at {}", self.now);
        }
        panic!("it does not end");
    }

    fn resent(&self) -> u64 {
        self.sending.stats().resent.unwrap()
    }
}

fn stream(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn on_time(_to: usize, _datagram: &[u8]) -> Vec<Nanos> {
    vec![DELAY]
}

/// Returns number and serial of a packet; `None` for any other datagram.
fn packet(datagram: &[u8]) -> Option<(u64, u64)> {
    match wire::read(tag(), datagram) {
        Some(MulticastDatagram::Data(data)) => Some((data.number, data.serial)),
        _ => None,
    }
}

#[test]
fn every_receiver_gets_everything_in_order_whatever_each_one_s_path_does() {
    let all = stream(30_050);
    for repair in [RepairRule::Selective, RepairRule::GoBackN] {
        for control in [MulticastControl::Reno, MulticastControl::None] {
            for (receivers, packets, seed) in [(1, 1, 1), (1, 16, 2), (4, 24, 3), (9, 100, 4)] {
                let mut rng = SplitMix64::new(seed);
                let mut fate = |_to: usize, _: &[u8]| match rng.below(20) {
                    0 | 1 => vec![],
                    2 => vec![DELAY, DELAY + MS(1)],
                    3 => vec![DELAY, DELAY + MS(300)],
                    4 => vec![DELAY + MS(3)],
                    _ => vec![DELAY],
                };
                let mut group = Group::new(terms(repair, control, packets, receivers));
                group.run(&all, &mut fate);
                let case = format!("{repair:?} {control:?}, {receivers} of {packets}");
                assert!(group.got.iter().all(|got| *got == all), "{case}");
                assert!(group.resent() > 0, "{case}");
            }
        }
    }
}

#[test]
fn each_packet_leaves_once_if_none_is_lost() {
    let all = stream(10_000);
    let mut group = Group::new(terms(RepairRule::Selective, MulticastControl::None, 16, 8));
    group.run(&all, &mut on_time);
    let expected: Vec<u64> = (0..100).collect();
    assert_eq!((group.left.clone(), group.resent()), (expected, 0));
    // One answer to the call, and then one to about every fourth packet: a quarter of the window.
    let answers = group.carried - 8 - 100 * 8;
    assert!((8 * 25..8 * 45).contains(&answers), "{answers}");
}

/// Receiver `r` loses the first transmission of the packets `50 n + 5 r + 7`.
fn loses(to: usize, datagram: &[u8], again: &mut Vec<(usize, u64)>) -> Vec<Nanos> {
    let lost = packet(datagram).is_some_and(|(number, _)| {
        let is_due = to != SENDER && number % 50 == 5 * to as u64 + 7;
        is_due && !again.contains(&(to, number)) && {
            again.push((to, number));
            true
        }
    });
    if lost { vec![] } else { vec![DELAY] }
}

#[test]
fn selective_repair_sends_again_what_is_missing_and_no_more() {
    for receivers in [1, 4, 8] {
        let (all, mut lost) = (stream(40_000), Vec::new());
        let mut group =
            Group::new(terms(RepairRule::Selective, MulticastControl::None, 40, receivers));
        group.run(&all, &mut |to, datagram| loses(to, datagram, &mut lost));
        // Of 400 packets each receiver loses eight of its own.
        assert_eq!(
            (lost.len() as u64, group.resent()),
            (8 * u64::from(receivers), 8 * u64::from(receivers))
        );
    }
}

#[test]
fn what_all_of_them_miss_leaves_again_once() {
    let all = stream(20_000);
    let mut group = Group::new(terms(RepairRule::Selective, MulticastControl::None, 16, 8));
    group.run(&all, &mut |to, datagram| match packet(datagram) {
        Some((20, serial)) if to != SENDER && serial == 21 => vec![],
        _ => vec![DELAY],
    });
    assert_eq!(group.resent(), 1);
}

#[test]
fn going_back_sends_a_window_again_for_each_loss() {
    const WINDOW: u64 = 16;
    for receivers in [1, 4] {
        let all = stream(40_000);
        let mut lost = Vec::new();
        let terms = terms(RepairRule::GoBackN, MulticastControl::None, WINDOW, receivers);
        let mut group = Group::new(terms);
        group.run(&all, &mut |to, datagram| match packet(datagram) {
            Some((number, _)) if to == 0 && number % 100 == 50 && !lost.contains(&number) => {
                lost.push(number);
                vec![]
            }
            _ => vec![DELAY],
        });
        let losses = lost.len() as u64;
        assert_eq!(losses, 4);
        // The window begins at the lost packet, or before it by up to a receiver's turn to answer.
        let most = losses * WINDOW;
        let least = losses * (WINDOW - (terms.every() - 1));
        assert!((least..=most).contains(&group.resent()), "{receivers}: {}", group.resent());
    }
}

#[test]
fn a_receiver_that_falls_silent_ends_it_and_is_named() {
    let all = stream(100_000);
    let mut group = Group::new(terms(RepairRule::Selective, MulticastControl::None, 16, 4));
    group.gather(&mut on_time);
    let mut at = 0;
    let dies = group.now + MS(100);
    let mut died = None;
    while group.sending.state() == State::Open {
        let len = group.sending.room(Lane(0)).min(all.len() - at);
        group.sending.write(group.now, Lane(0), &all[at..at + len], Rest::Kept).unwrap();
        at += len;
        let now = group.now;
        let is_dead = now >= dies;
        if is_dead {
            died.get_or_insert(group.got[0].len());
        }
        group.step(&mut |to, _| if is_dead && to == 2 { vec![] } else { vec![DELAY] });
        group.reads[2] = !is_dead;
    }
    let State::Closed(why) = group.sending.state() else { unreachable!() };
    assert!(why.contains("receiver 2 of 4") && why.contains("10"), "{why}");
    let took = group.now - dies;
    assert!((MS(10_000)..MS(12_000)).contains(&took), "{took}");
    // The others have the packets that the window allowed, and are ahead by no more than it.
    let ahead = group.got[0].len() - died.unwrap();
    assert!(ahead <= 2 * 16 * SEGMENT, "{ahead}");
    assert_eq!(group.got[0], all[..group.got[0].len()]);
    assert!(group.sending.transmit(group.now, 64, &mut Vec::new()).is_none());
}

#[test]
fn a_receiver_that_does_not_read_holds_all_back_and_lost_word_of_room_does_no_harm() {
    let all = stream(20_000);
    let mut group = Group::new(terms(RepairRule::Selective, MulticastControl::None, 16, 3));
    group.gather(&mut on_time);
    group.reads[1] = false;
    group.sending.write(group.now, Lane(0), &all[..3_200], Rest::Kept).unwrap();
    let until = group.now + MS(3_000);
    while group.now < until && group.step(&mut on_time) {}
    assert_eq!([group.got[0].len(), group.got[1].len()], [16 * SEGMENT, 0]);
    group.reads[1] = true;
    let lost_until = group.now + MS(2_000);
    while group.got[0].len() < 3_200 {
        let is_lost = group.now < lost_until;
        let is_word = |to| to == SENDER && is_lost;
        assert!(group.step(&mut |to, _| if is_word(to) { vec![] } else { vec![DELAY] }));
        assert_eq!(group.sending.state(), State::Open);
    }
    assert_eq!(group.got[1].len().min(3_200), 3_200.min(group.got[1].len()));
    assert_eq!(group.got[0], all[..3_200]);
}

#[test]
fn reno_begins_with_ten_doubles_and_halves_once_for_a_loss() {
    let all = stream(100_000);
    let mut group = Group::new(terms(RepairRule::Selective, MulticastControl::Reno, 400, 2));
    group.gather(&mut on_time);
    group.sending.write(group.now, Lane(0), &all[..80_000], Rest::Kept).unwrap();
    let began = group.now;
    let window = |group: &Group| group.sending.stats().view.unwrap().cwnd_bytes / SEGMENT as u64;
    group.send(&mut on_time);
    assert_eq!(group.left.len(), 10);
    while group.now < began + MS(11) {
        group.step(&mut on_time);
    }
    assert!((18..=21).contains(&window(&group)), "{}", window(&group));
    let before = window(&group);
    // Both lose the same two packets.
    let from = *group.left.last().unwrap();
    let mut lossy = |to: usize, datagram: &[u8]| match packet(datagram) {
        Some((number, serial))
            if to != SENDER && serial == number + 1 && [from + 2, from + 4].contains(&number) =>
        {
            vec![]
        }
        _ => vec![DELAY],
    };
    while group.resent() < 2 {
        group.step(&mut lossy);
    }
    let after = window(&group);
    assert!(after >= before / 2 && after <= 3 * before / 2, "{before} {after}");
}

#[test]
fn what_strangers_send_changes_nothing() {
    let all = stream(20_000);
    let mut group = Group::new(terms(RepairRule::Selective, MulticastControl::None, 16, 2));
    group.gather(&mut on_time);
    let other = Tag::of(&Token::from_bytes([8; 16]));
    let mut rng = SplitMix64::new(3);
    let mut forged = Vec::new();
    let status = wire::Status {
        receiver: 1,
        next: u64::MAX,
        room: u64::MAX,
        serial: u64::MAX,
        bitmap: &[255],
    };
    wire::write_status(tag(), &status, &mut forged);
    let mut from_other = Vec::new();
    let data =
        wire::DataPacket { number: 0, serial: 1, asks: false, ends: true, bytes: b"not this" };
    wire::write_data(other, &data, &mut from_other);
    let mut too_far = Vec::new();
    let far = wire::DataPacket { number: u64::MAX - 1, serial: 1, ..data };
    wire::write_data(tag(), &far, &mut too_far);
    let mut too_long = Vec::new();
    wire::write_data(
        tag(),
        &wire::DataPacket { number: 3, serial: 1, bytes: &[1; 101], ..data },
        &mut too_long,
    );
    for _ in 0..200 {
        let noise: Vec<u8> = (0..rng.below(80)).map(|_| rng.below(256) as u8).collect();
        for bytes in [&forged, &from_other, &too_far, &too_long, &noise] {
            group.sending.handle(Received::plain(group.now, bytes));
            for receiving in &mut group.receiving {
                receiving.handle(Received::plain(group.now, bytes));
            }
        }
    }
    group.run(&all, &mut on_time);
    assert!(group.got.iter().all(|got| *got == all));
}
