//! Description and figures of an emulated network, in lines for people.

use deadheat_base::figures::list;

use crate::emulator::{BuiltNetwork, Rights};
use crate::measurements::{DirectionFigures, PathFigures, Quantile};
use deadheat_base::ends::Side;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;

/// Describes the network that was built: one line, and one more for each setting that could not be made.
pub(super) fn built(built: &BuiltNetwork, seed: u64) -> Vec<String> {
    let joined = |addresses: Vec<String>| list(&addresses);
    let of_first = |side| {
        let host = built.host(side);
        let addresses = joined(built.on_first_link(host).iter().map(ToString::to_string).collect());
        match built.hosts.len() {
            2 => addresses,
            _ => format!("{} {addresses}", built.hosts[host]),
        }
    };
    let links = built.pings.len();
    let devices = built.backend.devices();
    let rights = match built.rights {
        Rights::Own => "",
        Rights::UserNamespace => ", in a user namespace",
    };
    let grouping = built.grouping.name();
    let pings: Vec<String> = built.pings.iter().map(ToString::to_string).collect();
    let cards: Vec<String> = built.nics.iter().map(|pair| cards(*pair)).collect();
    let mut lines = vec![format!(
        "near {}, far {}; an idle ping takes {}; network cards {}; {devices} ({}){rights}; {grouping}; \
         MTU {}; seed {seed}",
        of_first(Side::Near),
        of_first(Side::Far),
        pings.join("; "),
        cards.join("; "),
        built.why,
        built.mtu,
    )];
    if built.hosts.len() > 2 {
        let names = built.links.iter().map(|link| link.name.clone()).collect();
        lines.push(format!("hosts {}; links {}", joined(built.hosts.clone()), joined(names)));
    } else if links > 1 {
        let near = built.of_host(built.host(Side::Near));
        lines.push(format!(
            "{links} links; the near address says which one a packet takes ({})",
            joined(near.map(|address| address.to_string()).collect())
        ));
    }
    lines.extend(built.notes.iter().cloned());
    lines
}

/// Describes the rates of a link's network cards.
fn cards(rates: [Option<BitRate>; 2]) -> String {
    let text = |rate: Option<BitRate>| rate.map_or("none".to_owned(), |rate| rate.to_string());
    let [near, far] = rates.map(text);
    if near == far { near } else { format!("{near} (near), {far} (far)") }
}

/// Describes the account of each direction of each link.
pub(super) fn account(names: &[[String; 2]], figures: &PathFigures) -> Vec<String> {
    let links = names.iter().zip(&figures.links);
    let ways = links.flat_map(|([up, down], had)| [(up, &had.up), (down, &had.down)]);
    ways.map(|(name, had)| format!("{:<5} {}", format!("{name}:"), way(had))).collect()
}

fn way(way: &DirectionFigures) -> String {
    let fates = &way.fates;
    let mut parts = vec![format!("{} packets in, {} out", fates.arrived, fates.delivered)];
    let share = |n: u64| percent(n as f64 / fates.arrived.max(1) as f64);
    let counts = [
        (fates.blocked, "blocked by the firewall"),
        (fates.lost, "lost"),
        (fates.down, "lost while the link was down"),
        (fates.full, "dropped by a full queue"),
        (fates.early, "dropped early"),
        (fates.l4s.early, "of them L4S"),
        (fates.marked, "marked"),
        (fates.l4s.marked, "of them L4S"),
        (fates.duplicated, "duplicated"),
        (fates.corrupted, "corrupted"),
        (fates.reordered, "reordered"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        parts.push(format!("{count} {what} ({})", share(count)));
    }
    if fates.waiting > 0 {
        parts.push(format!("{} under way at the end", fates.waiting));
    }
    let shown = |quantile: Quantile| Nanos(quantile.at_least_ns());
    // Too few releases have no median, and some have no tail.
    let late = way.lateness_ns.as_ref().and_then(|late| Some((late.p50?, late.p99)));
    if let Some((p50, p99)) = late {
        let tail = p99.map_or(String::new(), |p99| format!(", {} (99th percentile)", shown(p99)));
        parts.push(format!("released {} late (median){tail}", shown(p50)));
    }
    if way.device_drops > 0 {
        parts.push(format!(
            "{} dropped by devices, outside the model: this host was too slow",
            way.device_drops
        ));
    }
    parts.join("; ")
}

/// Formats a share in percent, with three digits at most: `1 %`, `0.125 %`.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let digits = match percent {
        ..0.1 => 4,
        ..1.0 => 3,
        ..10.0 => 2,
        _ => 1,
    };
    let text = format!("{percent:.digits$}");
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::{Distribution, LinkFigures, PacketOutcomes};

    #[test]
    fn an_account_names_what_happened_and_nothing_else() {
        let fates = PacketOutcomes {
            arrived: 1_000,
            delivered: 989,
            lost: 10,
            waiting: 1,
            ..PacketOutcomes::default()
        };
        let lateness = Distribution {
            n: 989,
            p50: Some(Quantile::Ns(4_200)),
            p99: Some(Quantile::Ns(38_000)),
            ..Distribution::default()
        };
        let up =
            DirectionFigures { fates, lateness_ns: Some(lateness), ..DirectionFigures::default() };
        let down = DirectionFigures { device_drops: 3, ..DirectionFigures::default() };
        let link = LinkFigures { up, down };
        let names = |names: [&str; 2]| names.map(str::to_owned);
        let one = [names(["up", "down"])];
        let one = account(&one, &PathFigures { links: vec![link.clone()] });
        assert_eq!(
            one,
            [
                "up:   1000 packets in, 989 out; 10 lost (1 %); 1 under way at the end; released \
                 4.20 µs late (median), 38.0 µs (99th percentile)",
                "down: 0 packets in, 0 out; 3 dropped by devices, outside the model: this host was \
                 too slow",
            ]
        );
        let two = [names(["a to r", "r to a"]), names(["r to b", "b to r"])];
        let two = account(&two, &PathFigures { links: vec![link.clone(), link] });
        assert_eq!(two.len(), 4);
        assert!(two[2].starts_with("r to b: 1000 packets"), "{two:?}");
    }

    #[test]
    fn shares_have_the_digits_that_they_need() {
        let shown = [0.01, 0.0123, 0.00125, 0.00001, 0.5, 0.123_4, 1.0].map(percent);
        assert_eq!(shown, ["1 %", "1.23 %", "0.125 %", "0.001 %", "50 %", "12.3 %", "100 %"]);
    }
}
