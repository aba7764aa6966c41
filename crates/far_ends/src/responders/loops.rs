//! End of loops: two services that answer each other's datagrams would go on for ever, and the source of the first one can
//! be forged (CERT CA-1996-01).
//!
//! No datagram is answered that comes from a port of a service: a port below 1024, one of those that answer anything, or one
//! of this server's own. A service may stand at any other port, too. So a source that goes on for longer than a test may
//! last, and faster than someone who looks now and then, gets no answer for a pause, in which all datagrams of a loop end.
//!
//! The memory is fixed, and no flood of sources shuts others out: sources whose keyed hashes agree share what is known.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use deadheat_base::time::Nanos;
use deadheat_datapath::datapath::answering::Arrived;
use deadheat_datapath::transport::responder::ResponderHost;

/// Least source port that is answered: services that answer stand below.
const LEAST_PORT: u16 = 1024;

/// Ports from 1024 on whose services answer what nobody asked.
const ANSWERING: [u16; 6] = [1900, 2112, 3702, 5201, 5353, 11211];

/// Number of sources, or of groups of them, that are known apart.
const SLOTS: usize = 4_096;

/// Silence after which a source begins anew, and after which it counts as a new one.
const ANEW: Nanos = Nanos::from_secs(1);
const FORGOTTEN: Nanos = Nanos::from_secs(60);

/// Time without answers that ends a loop: longer than the round trip of any path.
const PAUSE: Nanos = Nanos::from_secs(2);

/// Rate up to which a source may go on for ever, in datagrams a second: that of a monitor.
const SLOW: u64 = 10;

/// Sources of datagrams, as far as loops end by them.
pub(super) struct LoopGuard {
    slots: Box<[SourceStretch]>,
    hasher: RandomState,
}

/// Stretch in which a source has not been silent.
#[derive(Debug, Clone, Copy, Default)]
struct SourceStretch {
    since: Nanos,
    last: Nanos,
    datagrams: u64,
    /// Time until which it gets no answer.
    mute_until: Nanos,
}

impl LoopGuard {
    pub(super) fn new() -> LoopGuard {
        let slots = vec![SourceStretch::default(); SLOTS].into_boxed_slice();
        LoopGuard { slots, hasher: RandomState::new() }
    }

    /// Returns true if a datagram's source is new at `now`; `None` if it gets no answer.
    pub(super) fn judge(
        &mut self,
        arrived: &Arrived,
        host: &dyn ResponderHost,
        now: Nanos,
    ) -> Option<bool> {
        let port = arrived.peer.port();
        let is_service = port < LEAST_PORT || ANSWERING.contains(&port) || host.is_own_port(port);
        if is_service || !arrived.is_unicast() {
            return None;
        }
        self.pass(arrived.peer, host.limits().duration, now)
    }

    /// Notes a datagram of a source, which may go on for `longest` where it is fast.
    fn pass(&mut self, source: SocketAddr, longest: Nanos, now: Nanos) -> Option<bool> {
        let slot = self.hasher.hash_one(source) as usize % SLOTS;
        let own = &mut self.slots[slot];
        let is_new = own.datagrams == 0 || now - own.last >= FORGOTTEN;
        if is_new || now - own.last >= ANEW {
            *own = SourceStretch { since: now, mute_until: own.mute_until, ..*own };
            own.datagrams = 0;
        }
        own.last = now;
        own.datagrams += 1;
        let took = now - own.since;
        if took >= longest && own.datagrams > SLOW * (1 + took.0 / 1_000_000_000) {
            let mute_until = now + PAUSE;
            *own = SourceStretch { since: mute_until, last: now, datagrams: 1, mute_until };
        }
        (now >= own.mute_until).then_some(is_new)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    use std::io;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::super::ALL;
    use super::super::testing::{OWN_PORT, TestHost};
    use super::*;
    use crate::irtt::wire::{IrttSeal, OPEN};

    const fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn source(last: u8, port: u16) -> SocketAddr {
        ([10, 0, 0, last], port).into()
    }

    fn arrived(peer: SocketAddr) -> Arrived {
        Arrived { len: 44, peer, to: None, ttl: None, field: None, at_ns: None }
    }

    /// Two services that answer all that passes their guards, `packets` forged ones, and a path of `trip` each way.
    /// Returns the time at which the last packet ended, or `None` if some still circle after an hour.
    fn circle(packets: u64, trip: Nanos) -> Option<Nanos> {
        let (mut guards, host) = ([LoopGuard::new(), LoopGuard::new()], TestHost::new());
        let at = [source(1, 8_862), source(2, 9_000)];
        let start = Nanos::from_secs(1_000);
        let mut flying: BinaryHeap<Reverse<(Nanos, usize)>> =
            (0..packets).map(|n| Reverse((start + Nanos(n * 1_000), 0))).collect();
        let mut last = start;
        while let Some(Reverse((now, end))) = flying.pop() {
            if now - start > Nanos::from_secs(3_600) {
                return None;
            }
            last = now;
            if guards[end].judge(&arrived(at[1 - end]), &host, now).is_some() {
                flying.push(Reverse((now + trip, 1 - end)));
            }
        }
        Some(last - start)
    }

    #[test]
    fn loops_of_any_number_of_packets_end_soon_after_the_longest_test() {
        let longest = TestHost::new().limits.duration;
        for (packets, trip) in [(1, ms(1)), (600, ms(500)), (20, ms(20)), (3, Nanos(50_000))] {
            let ended = circle(packets, trip).unwrap();
            assert!(ended <= longest + ms(1_100), "{packets} packets, {trip}: {ended}");
        }
    }

    #[test]
    fn ports_of_services_and_our_own_get_no_answer() {
        let (mut guard, host) = (LoopGuard::new(), TestHost::new());
        let now = Nanos::from_secs(1);
        for port in [1, 7, 19, 53, 862, 1_023, OWN_PORT].into_iter().chain(ANSWERING) {
            assert_eq!(guard.judge(&arrived(source(1, port)), &host, now), None, "{port}");
        }
        let good = arrived(source(1, 1_024));
        assert_eq!(guard.judge(&good, &host, now), Some(true));
        assert_eq!(guard.judge(&good, &host, now), Some(false));
    }

    #[test]
    fn a_slow_source_goes_on_and_a_fast_one_after_a_pause() {
        let longest = Nanos::from_secs(60);
        let answered = |every: Nanos| {
            let mut guard = LoopGuard::new();
            let count = Nanos::from_secs(600).0 / every.0;
            let passes =
                |n: u64| guard.pass(source(1, 4_000), longest, Nanos(n * every.0)).is_some();
            ((1..=count).map(passes).filter(|passes| *passes).count() as f64) / count as f64
        };
        assert_eq!(answered(ms(1_000)), 1.0);
        assert_eq!(answered(ms(100)), 1.0);
        let fast = answered(ms(1));
        assert!((0.95..0.98).contains(&fast), "{fast}");
    }

    /// Sources beyond all bounds cost no memory, and shut nobody out who tests for a while.
    #[test]
    fn a_flood_of_sources_keeps_no_other_out() {
        let (mut guard, host) = (LoopGuard::new(), TestHost::new());
        for n in 0..200_000_u32 {
            let forged = SocketAddr::from((n.to_be_bytes(), 4_000));
            let now = Nanos::from_secs(1_000) + Nanos(u64::from(n) * 100_000);
            let _ = guard.judge(&arrived(forged), &host, now);
            if n % 10 == 0 {
                assert!(guard.judge(&arrived(source(9, 4_000)), &host, now).is_some());
            }
        }
    }

    /// Returns a datagram that the responder with this name answers, at the second time at the latest.
    fn question(id: &str) -> Vec<u8> {
        match id {
            "irtt" => {
                let seal = IrttSeal::new(None);
                let mut packet = vec![0; seal.header_len()];
                seal.begin(OPEN, &mut packet);
                packet.extend([1, 2, 2, 0x80, 0xa8, 0xd6, 0xb9, 7, 3, 0x80, 0xb4, 0x89, 0x13]);
                packet.extend([5, 6, 6, 6, 7, 6]);
                seal.close(&mut packet);
                packet
            }
            _ => vec![0; 44],
        }
    }

    #[test]
    fn no_responder_answers_datagrams_from_a_port_of_its_own_host() {
        let ids = ["irtt", "stamp", "echo"];
        for responder in ALL.iter().filter(|one| ids.contains(&one.info().id)) {
            let id = responder.info().id;
            let mut open = responder.open("127.0.0.1:0".parse().unwrap(), None).unwrap();
            let (at, host) = (open.local_addr(), TestHost::new());
            let (stop, stopped) = io::pipe().unwrap();
            std::thread::scope(|scope| {
                let host = &host;
                scope.spawn(move || open.serve(host, stop.as_fd()).unwrap());
                let near = |port: u16| UdpSocket::bind(("127.0.0.9", port)).unwrap();
                let (service, client) = (near(OWN_PORT), near(0));
                let mut reply = [0; 2_000];
                for from in [&service, &service, &client, &client] {
                    from.send_to(&question(id), at).unwrap();
                }
                client.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
                client.recv(&mut reply).unwrap_or_else(|e| panic!("{id}: {e}"));
                // Its datagrams were taken before the client's.
                service.set_nonblocking(true).unwrap();
                let got = service.recv(&mut reply).map_err(|e| e.kind());
                assert_eq!(got, Err(io::ErrorKind::WouldBlock), "{id}");
                drop(stopped);
            });
        }
    }
}
