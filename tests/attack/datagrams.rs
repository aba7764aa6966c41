//! Floods of datagrams from addresses that are not the sender's. The interface counts what comes back.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use deadheat::rng::SplitMix64;
use socket2::Type;

use crate::ground::{calm, carried};
use crate::server::at;
use crate::siege::Field;
use crate::wire::{hello, socket, source};

/// Addresses that datagrams come from. Most of them are nobody's: an answer to one would be counted all the same.
const ADDRESSES: u32 = 300;

/// What is sent before honest clients come, when nothing else is on the interface.
const COUNTED: u64 = 20_000;

/// What arrives at the interface for each payload: Ethernet (14), IPv4 (20) or IPv6 (40), and UDP (8).
fn on_the_wire(payload: usize, to: SocketAddr) -> u64 {
    payload as u64 + if to.is_ipv4() { 42 } else { 62 }
}

/// A flood, the first part of which is alone on the interface.
pub(crate) fn flood(field: &Field<'_>) -> String {
    let mut rng = SplitMix64::new(2);
    let sockets: Vec<(UdpSocket, SocketAddr)> = (2..2 + ADDRESSES)
        .map(|i| (socket(source(i), Type::DGRAM).unwrap().into(), at(source(i))))
        .collect();
    let mut send = |i: u64| {
        let (socket, to) = &sockets[i as usize % sockets.len()];
        let payload = payload(&mut rng);
        socket.send_to(&payload, to).map(|sent| on_the_wire(sent, *to)).unwrap_or(0)
    };
    let before = calm();
    let sent: u64 = (0..COUNTED).map(&mut send).sum();
    // What a server answers it answers at once; it reads a datagram whenever it wakes up.
    std::thread::sleep(Duration::from_millis(300));
    let after = carried();
    let back = (after.1 - before.1).saturating_sub(sent);
    let packets = (after.0 - before.0).saturating_sub(COUNTED);
    if (back, packets) != (0, 0) {
        field.fault(format!("{back} bytes, {packets} packets came back for {sent} bytes"));
    }
    field.in_position();
    let mut all = COUNTED;
    let began = Instant::now();
    while !field.is_over() {
        let due = COUNTED + (began.elapsed().as_secs_f64() * 20_000.0) as u64;
        let _: u64 = (all..due).map(&mut send).sum();
        all = all.max(due);
        std::thread::sleep(Duration::from_millis(1));
    }
    format!(
        "{all} datagrams from {ADDRESSES} spoofed addresses; {back} B came back for the first {sent} B"
    )
}

fn payload(rng: &mut SplitMix64) -> Vec<u8> {
    match rng.below(4) {
        0 => hello(rng.next_u64(), rng.next_u64() as u16),
        1 => hello(rng.next_u64(), 0)[..rng.below(24) as usize].to_vec(),
        2 => (0..rng.below(1_400)).map(|_| rng.next_u64() as u8).collect(),
        _ => [hello(rng.next_u64(), 0), vec![0; rng.below(1_000) as usize]].concat(),
    }
}
