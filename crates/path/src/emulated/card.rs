//! Network card of a host: a rate limit on packets that leave by a device, set with the kernel's HTB (tc-htb(8)).
//!
//! A TUN device takes a packet out of its sender's account at once, and a veth pair soon after, so that neither
//! holds a sender back. A queueing discipline before the device does: a packet that waits there counts against the
//! send buffer of its socket (`sk_wmem_alloc`), and a full buffer blocks the sender or returns EAGAIN, as with the
//! queue of a real card. HTB and no plain token bucket, since it lets a super-packet of any size pass whole and
//! makes the next packet wait for it.

use std::io;

use super::netlink::{Device, Message, NLM_F_CREATE, NLM_F_EXCL, Netlink, nested, u32_at};
use crate::measurements::PathFigures;
use crate::network::{Impairments, Nic};
use deadheat_base::error::{Error, Result};
use deadheat_base::units::BitRate;

// linux/rtnetlink.h and linux/pkt_sched.h.
const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
/// Flag that sends the answer to the requester too, and not only to listeners.
const NLM_F_ECHO: u16 = 8;
const RTM_NEWTCLASS: u16 = 40;
const TC_H_ROOT: u32 = u32::MAX;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const HTB_VERSION: u32 = 3;

/// Handles of the root discipline, and of its only class.
const ROOT: u32 = 1 << 16;
const CLASS: u32 = ROOT | 1;

/// Burst size as a time at the rate, in units of 64 ns: 250 µs, by which timers of a busy virtual machine may be
/// late without loss of rate.
const BURST: u32 = 250_000 / 64;

/// Cards of a network's hosts: by link, that of its first and that of its second host.
#[derive(Debug)]
pub struct Cards(pub(super) Vec<[Card; 2]>);

impl Cards {
    /// Returns the rates of the first and the second host, link by link.
    pub fn rates(&self) -> Vec<[Option<BitRate>; 2]> {
        self.0.iter().map(|pair| [pair[0].rate, pair[1].rate]).collect()
    }

    /// Drops packets that wait for the cards, and counts losses from now on.
    ///
    /// # Errors
    /// [`Error::Setup`] where a device is gone.
    pub fn begin(&mut self) -> Result<()> {
        let done = self.0.iter_mut().flatten().try_for_each(Card::begin);
        done.map_err(|e| Error::setup("empty the network cards of the hosts", e))
    }

    /// Adds the losses at cards and devices since [`Cards::begin`].
    ///
    /// # Errors
    /// As for [`Cards::begin`].
    pub fn account(&mut self, figures: &mut PathFigures) -> Result<()> {
        let failed = |e| Error::setup("read the counters of the hosts' devices", e);
        for (link, [near, far]) in figures.links.iter_mut().zip(&mut self.0) {
            link.up.device_drops += near.drops().map_err(failed)?;
            link.down.device_drops += far.drops().map_err(failed)?;
        }
        Ok(())
    }
}

/// Device of a host on the host's side, with the card before it.
#[derive(Debug)]
pub(super) struct Card {
    /// Netlink socket in the host's namespace.
    netlink: Netlink,
    device: String,
    index: u32,
    rate: Option<BitRate>,
    /// Number of packets lost there before the last [`Cards::begin`].
    missed: u64,
}

impl Card {
    /// Puts the card of `way` before the device by which a host sends in that direction, in the namespace of
    /// `netlink`. If the kernel has no HTB and no card was requested, there is none, and `notes` gets a note of it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the kernel has no HTB, [`Error::Setup`] where something else fails.
    pub(super) fn new(
        mut netlink: Netlink,
        device: &str,
        way: &Impairments,
        notes: &mut Vec<String>,
    ) -> Result<Card> {
        let failed = |e| Error::setup(format!("give {device} a network card"), e);
        let index = netlink.device(device).map_err(failed)?.index;
        let mut rate = way.nic_rate();
        if let Some(wanted) = rate
            && let Err(error) = netlink.limit(index, wanted)
        {
            let has_no_htb = error.raw_os_error() == Some(libc::ENOENT);
            let lacking = "the kernel has no sch_htb";
            match way.nic {
                _ if !has_no_htb => return Err(failed(error)),
                Nic::Usual => notes.push(format!("{device} has no network card: {lacking}")),
                _ => {
                    let what = format!("{lacking}; load that module, or write nic=none");
                    return Err(Error::unsupported("nic", what));
                }
            }
            rate = None;
        }
        Ok(Card { netlink, device: device.to_owned(), index, rate, missed: 0 })
    }

    fn begin(&mut self) -> io::Result<()> {
        if let Some(rate) = self.rate
            && self.netlink.waiting_and_dropped(self.index)?.0 > 0
        {
            self.netlink.unlimit(self.index)?;
            self.netlink.limit(self.index, rate)?;
        }
        self.missed = self.lost()?;
        Ok(())
    }

    fn drops(&mut self) -> io::Result<u64> {
        Ok(self.lost()?.saturating_sub(self.missed))
    }

    fn lost(&mut self) -> io::Result<u64> {
        let Device { tx_dropped, .. } = self.netlink.device(&self.device)?;
        let at_card = match self.rate {
            Some(_) => u64::from(self.netlink.waiting_and_dropped(self.index)?.1),
            None => 0,
        };
        Ok(tx_dropped + at_card)
    }
}

impl Netlink {
    /// Limits the rate at which packets leave by a device.
    fn limit(&mut self, index: u32, rate: BitRate) -> io::Result<()> {
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let mut root = about(RTM_NEWQDISC, flags, index, ROOT, TC_H_ROOT);
        root.text(TCA_KIND, "htb");
        root.nest(TCA_OPTIONS, |options| {
            // struct tc_htb_glob: version, rate2quantum, class of unclassified packets, debug, direct.
            options.words(TCA_HTB_INIT, &[HTB_VERSION, 10, CLASS & 0xFFFF, 0, 0]);
        });
        self.ask(root)?;
        let mut class = about(RTM_NEWTCLASS, flags, index, CLASS, ROOT);
        class.text(TCA_KIND, "htb");
        class.nest(TCA_OPTIONS, |options| {
            let bytes = (rate.0 / 8).max(1);
            // struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, and bytes a second.
            let first = u32::from_ne_bytes([0, TC_LINKLAYER_ETHERNET, 0, 0]);
            let spec = [first, 0, u32::try_from(bytes).unwrap_or(u32::MAX)];
            // struct tc_htb_opt: rate, ceil, buffer, cbuffer, quantum, level, prio.
            let rest = [BURST, BURST, 200_000, 0, 0];
            options.words(TCA_HTB_PARMS, &[&spec[..], &spec, &rest].concat());
            for kind in [TCA_HTB_RATE64, TCA_HTB_CEIL64] {
                options.attribute(kind, &bytes.to_ne_bytes());
            }
        });
        self.ask(class).map(drop)
    }

    /// Removes the rate limit, and drops packets that wait.
    fn unlimit(&mut self, index: u32) -> io::Result<()> {
        self.ask(about(RTM_DELQDISC, 0, index, ROOT, TC_H_ROOT)).map(drop)
    }

    /// Returns the number of packets that wait before a device, and the number that were dropped there.
    fn waiting_and_dropped(&mut self, index: u32) -> io::Result<(u32, u32)> {
        let reply = self.ask(about(RTM_GETQDISC, NLM_F_ECHO, index, ROOT, TC_H_ROOT))?;
        let reply = reply.ok_or(io::ErrorKind::InvalidData)?;
        let stats = nested(reply.get(TCMSG..).unwrap_or_default(), TCA_STATS2)
            .and_then(|stats| nested(stats, TCA_STATS_QUEUE));
        // struct gnet_stats_queue: qlen, backlog, drops.
        let found = stats.and_then(|stats| Some((u32_at(stats, 0)?, u32_at(stats, 8)?)));
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Length of `struct tcmsg`.
const TCMSG: usize = 20;

/// Creates a request about a queueing discipline or class of a device.
fn about(kind: u16, flags: u16, index: u32, handle: u32, parent: u32) -> Message {
    let mut header = [0; TCMSG];
    for (at, word) in [(4, index), (8, handle), (12, parent)] {
        header[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    Message::new(kind, flags, &header)
}
