//! Implementations of one protocol. A figure is of a library; a sentence is about the protocol only where enough of its
//! implementations agree.

use super::document::{Line, Tone};
use super::{names, words};
use deadheat_contract::measurements::Metric;
use deadheat_result::analysis::claims;
use deadheat_result::outcome::{Entrant, Outcome};
use deadheat_stats as stats;

/// Least number of implementations that have to agree for a sentence about their protocol.
const ENOUGH: usize = 3;

/// Place of a contender against another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    Ahead,
    Behind,
    DeadHeat,
    Undecided,
}

impl Rank {
    const ALL: [Rank; 4] = [Rank::Ahead, Rank::Behind, Rank::DeadHeat, Rank::Undecided];

    /// Returns the words in front of the other contender.
    fn words(self) -> &'static str {
        match self {
            Rank::Ahead => "ahead of",
            Rank::Behind => "behind",
            Rank::DeadHeat => "in a dead heat with",
            Rank::Undecided => "undecided against",
        }
    }

    /// Returns the words for it alone.
    fn alone(self) -> &'static str {
        match self {
            Rank::Ahead => "ahead",
            Rank::Behind => "behind",
            Rank::DeadHeat => "in a dead heat",
            Rank::Undecided => "undecided",
        }
    }

    /// Returns the place of `id` against `other` under a metric; `None` without a verdict.
    fn of(outcome: &Outcome, metric: &Metric, id: usize, other: usize) -> Option<Rank> {
        let verdict = outcome.verdicts.iter().find(|verdict| {
            verdict.metric == metric.name
                && [(id, other), (other, id)].contains(&(verdict.a, verdict.b))
        })?;
        Some(match verdict.outcome {
            stats::Outcome::Ahead if verdict.ahead == Some(id) => Rank::Ahead,
            stats::Outcome::Ahead => Rank::Behind,
            stats::Outcome::DeadHeat => Rank::DeadHeat,
            stats::Outcome::Undecided => Rank::Undecided,
        })
    }
}

/// Implementations of a protocol in a race.
struct Implementations<'a> {
    protocol: &'a str,
    entrants: Vec<&'a Entrant>,
    libraries: Vec<&'a str>,
}

/// Returns the implementation of a contender, with whom its figures are of.
pub(super) fn implementation(entrant: &Entrant) -> String {
    match (&entrant.protocol, entrant.implementation.as_str()) {
        (Some(protocol), by) if !by.is_empty() => {
            format!("{by}; its figures are of this library, not of {protocol}")
        }
        (_, by) => by.to_owned(),
    }
}

/// Returns sentences on protocols of which several implementations race: on what they agree, and on what they do not.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    if names::vary(outcome) || claims::is_for_figures(outcome) {
        return Vec::new();
    }
    let racing: Vec<&Entrant> =
        outcome.contenders.iter().filter(|entrant| entrant.is_racing() && !entrant.floor).collect();
    let mut protocols: Vec<&str> =
        racing.iter().filter_map(|one| one.protocol.as_deref()).collect();
    protocols.sort_unstable();
    protocols.dedup();
    let metrics: Vec<&Metric> = claims::claimed(&outcome.metrics).collect();
    let all = protocols.into_iter().map(|protocol| Implementations::of(protocol, &racing));
    let several = all.filter(|all| all.libraries.len() > 1);
    let texts = several.flat_map(|all| {
        let under = |metric: &&Metric| {
            let name =
                if metrics.len() > 1 { format!("{}: ", metric.label) } else { String::new() };
            let found = all.compare(outcome, metric, &racing);
            found.into_iter().map(move |text| format!("{name}{text}")).collect::<Vec<String>>()
        };
        metrics.iter().flat_map(under).collect::<Vec<String>>()
    });
    texts.map(|text| Line::new(text, Tone::Plain)).collect()
}

impl<'a> Implementations<'a> {
    fn of(protocol: &'a str, racing: &[&'a Entrant]) -> Implementations<'a> {
        let entrants: Vec<&Entrant> = racing
            .iter()
            .filter(|entrant| entrant.protocol.as_deref() == Some(protocol))
            .copied()
            .collect();
        let mut libraries = Vec::new();
        for entrant in &entrants {
            // `quic/quinn-proto 0.11.19/cubic`
            let library = entrant.implementation.split('/').nth(1).unwrap_or_default();
            if !libraries.contains(&library) {
                libraries.push(library);
            }
        }
        Implementations { protocol, entrants, libraries }
    }

    /// Returns the sentences about them against all other contenders under a metric.
    fn compare(&self, outcome: &Outcome, metric: &Metric, racing: &[&Entrant]) -> Vec<String> {
        let mut agreed: Vec<(Rank, &str)> = Vec::new();
        let mut texts = Vec::new();
        let own = |other: &&&Entrant| other.protocol.as_deref() != Some(self.protocol);
        for other in racing.iter().filter(own) {
            let rank = |one: &&Entrant| Rank::of(outcome, metric, one.id, other.id);
            let ranks: Option<Vec<Rank>> = self.entrants.iter().map(rank).collect();
            let Some(ranks) = ranks else { continue };
            match ranks[0] {
                Rank::Undecided if ranks.iter().all(|rank| *rank == Rank::Undecided) => {}
                first if ranks.iter().all(|rank| *rank == first) => {
                    agreed.push((first, &other.label));
                }
                _ => texts.push(self.differ(&ranks, &other.label)),
            }
        }
        if !agreed.is_empty() {
            texts.insert(0, self.agree(&agreed));
        }
        texts
    }

    fn agree(&self, agreed: &[(Rank, &str)]) -> String {
        let against = Rank::ALL.iter().filter_map(|rank| {
            let others = agreed.iter().filter(|(own, _)| own == rank);
            let others: Vec<&str> = others.map(|(_, label)| *label).collect();
            (!others.is_empty()).then(|| format!("{} {}", rank.words(), words::list(&others)))
        });
        let against: Vec<String> = against.collect();
        let (protocol, count) = (self.protocol, self.libraries.len());
        let (all, scope) = if count < ENOUGH {
            ("Both".to_owned(), format!(": what holds of two need not hold of {protocol}"))
        } else {
            (format!("All {count}"), format!("; so is {protocol} here"))
        };
        format!(
            "{all} implementations of {protocol} ({}) are {}{scope}.",
            words::list(&self.libraries),
            words::list(&against)
        )
    }

    fn differ(&self, ranks: &[Rank], other: &str) -> String {
        let by_rank = Rank::ALL.iter().filter_map(|rank| {
            let own = self.entrants.iter().zip(ranks).filter(|(_, own)| *own == rank);
            let labels: Vec<&str> = own.map(|(entrant, _)| entrant.label.as_str()).collect();
            let is = words::is_are(labels.len());
            (!labels.is_empty()).then(|| format!("{} {is} {}", words::list(&labels), rank.alone()))
        });
        format!(
            "Implementations of {} differ against {other}: {}.",
            self.protocol,
            by_rank.collect::<Vec<String>>().join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn implementations<'a>(
        entrants: Vec<&'a Entrant>,
        libraries: &[&'a str],
    ) -> Implementations<'a> {
        Implementations { protocol: "QUIC", entrants, libraries: libraries.to_vec() }
    }

    #[test]
    fn a_protocol_is_named_alone_where_three_of_its_implementations_agree() {
        let agreed = [(Rank::Behind, "tcp"), (Rank::Ahead, "kcp"), (Rank::Behind, "udp")];
        let three = implementations(Vec::new(), &["a 1", "b 2", "c 3"]);
        assert_eq!(
            three.agree(&agreed),
            "All 3 implementations of QUIC (a 1, b 2 and c 3) are ahead of kcp and behind tcp and udp; so is QUIC here."
        );
        let two = implementations(Vec::new(), &["a 1", "b 2"]);
        assert_eq!(
            two.agree(&agreed[..1]),
            "Both implementations of QUIC (a 1 and b 2) are behind tcp: what holds of two need not hold of QUIC."
        );
    }
}
