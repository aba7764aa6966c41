//! Roles that hosts of an emulated network have, against the work of a race: a role that no trial uses is a mistake, but for
//! that of people, between whom other work runs as well.

use deadheat_base::error::{Error, Result};
use deadheat_contract::workload::People;
use deadheat_datapath::transport::via::Via;
use deadheat_path::Network;
use deadheat_path::network::{LOAD, PEOPLE, RECEIVERS, RELAY};
use deadheat_trial::Pairing;

/// Checks that trials of these pairings use each role that was given, besides near, far and people.
///
/// # Errors
/// [`Error::Usage`] with the role, and the work that uses it.
pub(super) fn check(network: &Network, pairings: &[&Pairing]) -> Result<()> {
    for (role, hosts) in network.roles() {
        let why = match role {
            RELAY => relay(pairings),
            RECEIVERS => receivers(pairings, hosts.len()),
            LOAD => load(pairings),
            PEOPLE => people(pairings, hosts.len()),
            _ => None,
        };
        if let Some(why) = why {
            let names: Vec<&str> = hosts.iter().map(|host| network.hosts[*host].as_str()).collect();
            let typed = names.join("/");
            return Err(Error::usage(format!("path: `{role}={typed}`: {why}")));
        }
    }
    Ok(())
}

fn relay(pairings: &[&Pairing]) -> Option<String> {
    let all = pairings.iter().flat_map(|one| [Some(*one), one.load.as_deref()]).flatten();
    let is_relayed = |one: &Pairing| matches!(one.contender.via, Via::Relay | Via::Coturn);
    let is_unused = !all.into_iter().any(is_relayed);
    is_unused.then(|| {
        "no contender goes through a relay; add one with via=relay or via=coturn, or leave it out".into()
    })
}

fn receivers(pairings: &[&Pairing], hosts: usize) -> Option<String> {
    let is_group = |one: &&&Pairing| one.contender.transport.info().peer.is_group;
    if let Some(group) = pairings.iter().find(is_group) {
        let spec = &group.contender.spec;
        return Some(format!(
            "`{spec}` sends to a group, which no host passes on; leave one of them out"
        ));
    }
    if let Some(one) = pairings.iter().find(|one| one.task.info().people.is_some()) {
        let name = &one.task.info().spec.name;
        return Some(format!(
            "`{name}` has people; people= names their hosts, and far= its server's"
        ));
    }
    let least = pairings.iter().map(|one| one.task.info()).min_by_key(|info| info.receivers)?;
    (usize::from(least.receivers) < hosts || hosts == 1).then(|| {
        let (name, has) = (&least.spec.name, least.receivers);
        match has {
            1 => format!("`{name}` has one far end, at far=; fanout:receivers={hosts} has as many as hosts"),
            _ if hosts == 1 => "it names one host; far= names the host of all far ends".to_owned(),
            _ => format!("`{name}` has {has} far ends, for {hosts} hosts; name fewer, or ask for receivers={hosts}"),
        }
    })
}

/// Looks for a session with another number of people than hosts. Work without people takes no notice of them.
fn people(pairings: &[&Pairing], hosts: usize) -> Option<String> {
    let mut sessions = pairings.iter().map(|one| one.task.info());
    let (name, count) = sessions.find_map(|info| {
        let count = info.people.as_ref().map(People::count).filter(|count| *count != hosts)?;
        Some((&info.spec.name, count))
    })?;
    Some(format!("`{name}` has {count} people, for {hosts} hosts; ask for people={hosts} there"))
}

fn load(pairings: &[&Pairing]) -> Option<String> {
    let is_unused = pairings.iter().all(|one| one.load.is_none());
    is_unused.then(|| {
        "no load runs beside the work; add one, as in ping:load=tcp, or leave it out".into()
    })
}

#[cfg(test)]
mod tests {
    use crate::race::Race;

    #[test]
    fn a_role_that_no_trial_uses_is_refused_with_the_work_that_does() {
        const PATH: &str = "a--r:delay=1ms + r--b + r--c + r--d,near=a,far=b";
        let race = |contender: &str, work: &str, role: &str| {
            let path = format!("{PATH},{role}");
            Race::new(["udp", contender])
                .workload(work)
                .path(&path)
                .check()
                .map_err(|e| e.to_string())
        };
        for (contender, work, role) in [
            ("udp:via=relay", "ping", "relay=c"),
            ("udp:via=coturn", "ping", "relay=c"),
            ("tcp", "ping:load=tcp", "load=c/d"),
            ("tcp", "fanout:receivers=3,bytes=1MB", "receivers=b/c/d"),
            ("tcp", "fanout:receivers=4,bytes=1MB", "receivers=c/d"),
            ("tcp", "session", "people=a/c/d"),
            ("tcp", "ping", "people=a/c/d"),
        ] {
            race(contender, work, role).unwrap();
        }
        for (contender, work, role, said) in [
            ("tcp", "ping", "relay=c", "`relay=c`: no contender goes through a relay"),
            (
                "tcp",
                "ping",
                "load=c/d",
                "no load runs beside the work; add one, as in ping:load=tcp",
            ),
            ("tcp", "ping", "receivers=c/d", "`ping` has one far end, at far=; fanout:receivers=2"),
            (
                "tcp",
                "fanout:receivers=2,bytes=1MB",
                "receivers=b/c/d",
                "has 2 far ends, for 3 hosts",
            ),
            ("tcp", "fanout:receivers=2,bytes=1MB", "receivers=c", "names one host"),
            (
                "multicast",
                "fanout:receivers=2,bytes=1MB",
                "receivers=b/c",
                "`multicast` sends to a group",
            ),
            ("tcp", "session", "people=a/b", "`session` has 3 people, for 2 hosts"),
            ("tcp", "session", "receivers=c/d", "people= names their hosts"),
        ] {
            let error = race(contender, work, role).map(drop).unwrap_err();
            assert!(error.contains(said), "{role}: {error}");
        }
    }
}
