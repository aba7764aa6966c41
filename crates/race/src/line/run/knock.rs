//! Start of a survey: which transports get through, and which marks of packets.

use super::{LineEvent, Surveyor};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::dscp::{ARRIVED_DSCP, DSCP};
use deadheat_contract::measurements::name::RTT_P50;
use deadheat_datapath::transport::{Contender, Effective};
use deadheat_records::trial::Record;
use deadheat_result::line::outcome::{Reached, TriedMark};
use deadheat_stats::quantile::median;

impl Surveyor<'_, '_> {
    /// Tries the transports until `late`, chooses the contender of small messages, and returns its round trip, and the
    /// time that the start and the end of a trial take.
    pub(super) fn knock(&mut self, late: Nanos) -> Result<(Nanos, Nanos)> {
        let mut first_error = None;
        let mut probe: Option<(usize, Nanos)> = None;
        let mut is_udp_blocked = false;
        let mut took = Vec::new();
        for (at, typed) in self.task.knock.iter().enumerate() {
            if self.context.is_stopped() {
                return Err(Error::Interrupted);
            }
            let is_over_udp = Contender::parse(typed)?.transport.info().is_over_udp;
            let now = self.context.clock.now();
            let untried = match (is_over_udp && is_udp_blocked, at > 1 && now > late) {
                (true, _) => Some("not tried: it is over UDP, which does not get through"),
                (false, true) => Some("not tried: no time was left for it"),
                (false, false) => None,
            };
            if let Some(why) = untried {
                let (contender, why_not) = ((*typed).to_owned(), Some(why.to_owned()));
                self.current().reach.push(Reached { contender, why_not, ..Reached::default() });
                continue;
            }
            (self.context.on_event)(&LineEvent::Trying(typed));
            let ran = self.run(typed, &self.task.works.knock);
            took.push((self.context.clock.now() - now).0 as f64);
            let ran = match ran {
                // Nothing can be said of the transports while the far end is away.
                Err(error) if *self.is_lost => return Err(error),
                ran => ran,
            };
            let why_not = match &ran {
                Ok(record) => arrived(record).err(),
                Err(error) => Some(error.to_string()),
            };
            is_udp_blocked |= at == 0 && is_over_udp && why_not.is_some();
            if let (Ok(record), None) = (&ran, &why_not)
                && probe.is_none()
                && at < 2
            {
                let round_trip = record.metrics.get(RTT_P50).copied().unwrap_or(0.0);
                self.current().path_mtu = path_mtu(record);
                probe = Some((at, Nanos(round_trip as u64)));
            }
            let trips = ran.as_ref().ok().and_then(|record| record.rtt_ns.as_ref());
            self.current().reach.push(Reached {
                contender: (*typed).to_owned(),
                why_not,
                sent: trips.map(|trips| trips.n),
                answered: trips.map(|trips| trips.n.saturating_sub(trips.censored)),
            });
            if let Err(error) = ran {
                first_error.get_or_insert(error);
            }
        }
        match (probe, first_error) {
            (Some((at, round_trip)), _) => {
                let typed = self.task.knock.get(at).copied().unwrap_or_default();
                self.current().probe = typed.to_owned();
                let overhead = median(&took).map_or(Nanos::ZERO, |took| Nanos(took as u64));
                Ok((round_trip, overhead))
            }
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::usage("no transport to survey the line with")),
        }
    }

    /// Tries each DSCP until `late`, if datagrams without one get through.
    pub(super) fn mark(&mut self, late: Nanos) -> Result<()> {
        if self.current().reach.first().is_none_or(|reached| reached.why_not.is_some()) {
            return Ok(());
        }
        for typed in self.task.marked {
            if self.context.is_stopped() {
                return Err(Error::Interrupted);
            }
            if self.context.clock.now() > late {
                return Ok(());
            }
            (self.context.on_event)(&LineEvent::Trying(typed));
            let ran = self.run(typed, &self.task.works.knock);
            let record = match ran {
                Ok(record) => record,
                Err(error) if *self.is_lost || matches!(error, Error::Interrupted) => {
                    return Err(error);
                }
                Err(error) => Record::without_figures(error.to_string()),
            };
            let contender = Contender::parse(typed)?;
            let asked = contender.knobs.text(DSCP).unwrap_or_default();
            self.current().marks.push(tried_mark(asked, &record));
        }
        Ok(())
    }
}

/// Returns the size of the largest IP packet that passes both ways: as probes found it, or as the kernel knows it.
fn path_mtu(record: &Record) -> Option<u64> {
    let probed = record.path_mtu.iter().find_map(|path| path.mtu);
    let known = || record.effective.get("path_mtu").and_then(|mtu| mtu.parse().ok());
    probed.map(|mtu| u64::from(mtu.bytes())).or_else(known)
}

/// Returns the DSCP of a trial's packets as they left, and as they arrived at each end.
fn tried_mark(asked: &str, record: &Record) -> TriedMark {
    let of = |end: &Effective, name: &str| end.get(name).cloned();
    TriedMark {
        dscp: of(&record.effective, DSCP).unwrap_or_else(|| asked.to_owned()),
        up: of(&record.far_effective, ARRIVED_DSCP),
        down: of(&record.effective, ARRIVED_DSCP),
        why_not: arrived(record).err(),
    }
}

/// Returns an error with the reason if no message came back.
fn arrived(record: &Record) -> std::result::Result<(), String> {
    let answered = record.rtt_ns.as_ref().is_some_and(|rtt| rtt.n > rtt.censored);
    match (answered, &record.why_invalid) {
        (true, _) => Ok(()),
        (false, Some(why)) => Err(why.clone()),
        (false, None) => Err("no message came back".to_owned()),
    }
}
