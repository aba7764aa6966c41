//! Candidates: everything that can carry an application. A candidate is a contender, with services for its lanes if
//! messages may be lost or overtaken; or two contenders side by side, if none carries all traffic. Services and
//! limits follow from guarantees alone, so a new transport is included without further work.

use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_contract::contract::{Delivery, Guarantees, Reach, Service};
use deadheat_contract::workload::{Task, Traffic};
use deadheat_datapath::transport::via::Via;
use deadheat_datapath::transport::{ALL, Contender, Transport, prefers, several};
use deadheat_trial::{misfit, suited};

use deadheat_result::advise::outcome::ExcludedContender;

/// Kind of traffic with the work that represents it.
pub struct CheckedTraffic<'a> {
    /// The traffic.
    pub traffic: &'a Traffic,
    /// Its work.
    pub task: Box<dyn Task>,
    /// Maximum useful age or delay.
    pub limit: Option<Nanos>,
}

/// Contender, or two of them, that may carry an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Display name: the contender as typed, or `udp + tcp for shots`.
    pub name: String,
    /// Contender that carries each traffic, as typed, in the order of the application; `None` if none does.
    pub carries: Vec<Option<String>>,
    /// Number of connections that it needs.
    pub connections: usize,
}

impl Candidate {
    /// Returns true if it carries all traffic.
    pub fn carries_all(&self) -> bool {
        self.carries.iter().all(Option::is_some)
    }
}

/// Returns the candidates of a contender as typed, with its usual services first; and the traffic that it cannot
/// carry, with the reason.
///
/// # Errors
/// As [`Contender::parse`].
pub fn of(
    typed: &str,
    works: &[CheckedTraffic<'_>],
) -> Result<(Vec<Candidate>, Vec<ExcludedContender>)> {
    let mut found: Vec<Candidate> = Vec::new();
    let mut excluded = Vec::new();
    for wanted in preferences(&Contender::parse(typed)?, lifetime(works)) {
        let mut carries = Vec::with_capacity(works.len());
        for asked in works {
            let carried = carried(typed, &wanted, asked);
            if let (Err(why), true) = (&carried, found.is_empty()) {
                excluded.push(ExcludedContender {
                    contender: typed.to_owned(),
                    traffic: Some(asked.traffic.name.clone()),
                    why: why.clone(),
                });
            }
            carries.push(carried.ok());
        }
        let usual = found.first();
        let carries_less = usual.is_some_and(|usual| {
            usual
                .carries
                .iter()
                .zip(&carries)
                .any(|(usual, this)| usual.is_some() && this.is_none())
        });
        if carries_less || found.iter().any(|other| other.carries == carries) {
            continue;
        }
        let name = if found.is_empty() { typed.to_owned() } else { prefers::with(typed, &wanted)? };
        found.push(Candidate { name, carries, connections: 1 });
    }
    Ok((found, excluded))
}

/// Returns the time after which a message is useless to the most important traffic that tolerates loss.
fn lifetime(works: &[CheckedTraffic<'_>]) -> Option<Nanos> {
    works.iter().filter(|asked| !asked.traffic.has_to_arrive()).find_map(|asked| asked.limit)
}

/// Returns the orders of preference among the services of a contender: none, each alone, and each pair. A typed
/// preference is left unchanged.
fn preferences(contender: &Contender, lifetime: Option<Nanos>) -> Vec<Vec<Service>> {
    let is_listed = contender.transport.parts().is_empty()
        && contender.external.is_none()
        && contender.commands.is_none();
    if !contender.prefers.is_empty() || !is_listed {
        return vec![contender.prefers.clone()];
    }
    let mut offers = Vec::new();
    for offer in contender.transport.info().guarantees.others.iter() {
        let service = offer.service;
        offers.extend(match (service.delivery, lifetime) {
            (Delivery::Within(_), life) => {
                life.map(|life| Service { delivery: Delivery::Within(life), ..service })
            }
            _ => Some(service),
        });
    }
    let mut all: Vec<Vec<Service>> = vec![Vec::new()];
    all.extend(offers.iter().map(|one| vec![*one]));
    for one in &offers {
        all.extend(offers.iter().filter(|other| *other != one).map(|other| vec![*one, *other]));
    }
    all
}

/// Returns the contender as typed that carries a traffic with these services preferred, as far as the traffic
/// allows them; or the reason why it cannot.
fn carried(typed: &str, wanted: &[Service], asked: &CheckedTraffic<'_>) -> Result<String, String> {
    let say = |error: Error| error.to_string();
    let contender = Contender::parse(typed).map_err(say)?;
    let is_open = contender.transport.parts().is_empty()
        && contender.external.is_none()
        && contender.commands.is_none();
    let is_allowed = |service: &&Service| {
        !asked.traffic.has_to_arrive() || service.delivery == Delivery::Reliable
    };
    let allowed: Vec<Service> = wanted.iter().filter(is_allowed).copied().collect();
    let own = contender.transport.info().guarantees;
    let lanes = |wanted: &[Service]| own.preferring(wanted).ok().map(|own| asked.task.lanes(&own));
    // Use no more services than make a difference.
    let needed = (0..=allowed.len()).find(|n| lanes(&allowed[..*n]) == lanes(&allowed));
    let spec = if is_open {
        prefers::with(typed, &allowed[..needed.unwrap_or_default()]).map_err(say)?
    } else {
        typed.to_owned()
    };
    let contender =
        Contender::parse(&spec).and_then(|one| suited(one, &*asked.task)).map_err(say)?;
    if let Some(why) = misfit(&contender, &*asked.task) {
        return Err(why);
    }
    if asked.traffic.has_to_arrive() && !is_reliable_for(&contender, asked) {
        Err("what it loses stays lost".to_owned())
    } else {
        Ok(spec)
    }
}

/// Returns true if a contender has a reliable lane for this traffic.
fn is_reliable_for(contender: &Contender, asked: &CheckedTraffic<'_>) -> bool {
    let parts = contender.transport.parts();
    let reliable = |lanes: &[Service]| lanes.iter().any(|lane| lane.delivery == Delivery::Reliable);
    if parts.is_empty() {
        reliable(&asked.task.lanes(&contender.promised()))
    } else {
        parts.iter().any(|part| reliable(&part.lanes))
    }
}

/// Returns the pairs of contenders side by side: a contender that cannot carry all traffic, and a second one for
/// the rest. The second has no lane like the first's, because otherwise it would suffice alone.
pub fn pairs(singles: &[Candidate], works: &[CheckedTraffic<'_>]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for one in singles.iter().filter(|one| !one.carries_all()) {
        let Some(service) = usual(&one.name).map(|promised| promised.service) else { continue };
        let is_partner = |other: &&Candidate| {
            other.carries_all()
                && usual(&other.name)
                    .is_some_and(|own| own.offers().all(|offer| !offer.service.is_like(service)))
        };
        let mut partners = singles.iter().filter(is_partner);
        let Some(first) = partners.next() else { continue };
        // Few kernel transports run in virtual time.
        let is_first_real = simulated(&first.name).is_none();
        let further = partners.find(|_| is_first_real).into_iter();
        let further = further.filter(|other| simulated(&other.name).is_some());
        found.extend(
            std::iter::once(first).chain(further).filter_map(|other| pair(one, other, works)),
        );
    }
    found
}

fn pair(one: &Candidate, other: &Candidate, works: &[CheckedTraffic<'_>]) -> Option<Candidate> {
    let lacking = |at: &usize| one.carries[*at].is_none();
    let names: Vec<&str> =
        (0..works.len()).filter(lacking).map(|at| works[at].traffic.name.as_str()).collect();
    if names.len() == works.len() {
        return None;
    }
    let carry = |at: usize| {
        let beside = || beside(&one.name, &other.name, &works[at]);
        one.carries[at].clone().or_else(beside).or_else(|| other.carries[at].clone())
    };
    Some(Candidate {
        name: format!("{} + {} for {}", one.name, other.name, names.join(", ")),
        carries: (0..works.len()).map(carry).collect(),
        connections: 2,
    })
}

/// Returns the mix of two contenders for work with lanes, some of which the first can carry; `None` for other work.
fn beside(one: &str, other: &str, asked: &CheckedTraffic<'_>) -> Option<String> {
    let promised = usual(one)?;
    let names = &asked.task.info().lane_names;
    let lanes = asked.task.lanes(&Guarantees { lanes: names.len() as u16, ..promised });
    let suits = |lane: &Service| promised.offers().any(|offer| offer.service.is_like(*lane));
    if lanes.len() != names.len() || lanes.iter().all(suits) || !lanes.iter().any(suits) {
        return None;
    }
    let part = |(name, lane): (&String, &Service)| {
        let carrier = if suits(lane) { one } else { other };
        (name.clone(), carrier.to_owned())
    };
    let typed = several::mixed(names.iter().zip(&lanes).map(part));
    let fits = Contender::parse(&typed).and_then(|mix| suited(mix, &*asked.task));
    fits.ok().filter(|mix| misfit(mix, &*asked.task).is_none()).map(|_| typed)
}

fn usual(typed: &str) -> Option<Guarantees> {
    Contender::parse(typed).ok().map(|contender| contender.promised())
}

/// Returns the contender as typed that represents another in virtual time: itself, if it is a protocol in user
/// space, or the model with the same promises; `None` if there is none.
pub fn simulated(typed: &str) -> Option<String> {
    let contender = Contender::parse(typed).ok()?;
    let transport = &contender.transport;
    if contender.external.is_some()
        || contender.commands.is_some()
        || contender.via != Via::Direct
        || transport.info().real_time.is_some()
    {
        return None;
    }
    let part = |part: &str| simulated(part).ok_or_else(|| Error::usage("no virtual time"));
    if let Some(whole) = several::each(typed, part) {
        return whole.ok().filter(|whole| Contender::parse(whole).is_ok());
    }
    if transport.userspace().is_some() {
        return Some(typed.to_owned());
    }
    let info = transport.info();
    let is_model = |other: &&&dyn Transport| {
        let of = other.info();
        of.reach == Reach::Process
            && other.userspace().is_some()
            && of.guarantees == info.guarantees
    };
    let plain = contender.spec.options.is_empty() && info.peer.is_process_of_ours();
    ALL.iter().find(is_model).filter(|_| plain).map(|model| model.info().id.to_owned())
}

#[cfg(test)]
mod tests;
