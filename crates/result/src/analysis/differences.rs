//! Differences in conditions between contenders, and their importance. Conditions are held equal where possible;
//! the rest is listed beside the verdict, so that a difference of conditions is not taken for a difference of
//! protocols.

use std::collections::{BTreeMap, BTreeSet};

use crate::outcome::{Difference, Entrant};
use deadheat_contract::contract::{Congestion, Delivery, Framing, Ordering};
use deadheat_contract::recorded::RecordedContender;
use deadheat_records::commands::ProgramCopy;

/// Returns the differences between `entrants`, promises first, then options by name. `contenders` are the same,
/// parsed; contenders that dropped out do not count. In a race over conditions, the contenders under the first
/// combination are compared: varied conditions are no difference.
pub fn differences(entrants: &[Entrant], contenders: &[RecordedContender]) -> Vec<Difference> {
    let first = entrants.iter().find(|entrant| entrant.is_racing());
    let racing: Vec<(&Entrant, &RecordedContender)> = entrants
        .iter()
        .zip(contenders)
        .filter(|(entrant, _)| entrant.is_racing() && first.is_some_and(|e| e.meets(entrant)))
        .collect();
    let promised = PROMISES.iter().map(|promise| {
        let value = |(entrant, contender): &(&Entrant, &RecordedContender)| {
            (entrant.label.clone(), promised(contender, promise.value))
        };
        difference(promise.what.to_owned(), racing.iter().map(value).collect(), promise.matters)
    });
    let hosts = racing.iter().map(|(one, contender)| (one.label.clone(), far_hosts(contender)));
    let hosts = difference("far host".to_owned(), hosts.collect(), FAR_HOSTS_MATTER);
    let programs = racing.iter().filter_map(|(one, _)| Some((one.label.clone(), programs(one)?)));
    let programs = difference("programs".to_owned(), programs.collect(), COPIES_MATTER);
    promised.chain([hosts, programs]).chain(options(&racing)).flatten().collect()
}

const COPIES_MATTER: &str = "where a file lies in the page cache is part of a program's speed: a copy lies in few large pieces, and the output of a linker in many small ones";

/// Returns where the programs of a contender's commands lie, if it has commands.
fn programs(entrant: &Entrant) -> Option<String> {
    let files = &entrant.commands.as_ref()?.files;
    let is_copied = files.iter().any(|file| file.copy == Some(ProgramCopy::Made));
    Some(if is_copied { "copied for the race" } else { "where their files are" }.to_owned())
}

const FAR_HOSTS_MATTER: &str = "each host has a way and a clock of its own, so a difference may be that of the ways and not of the transports";

/// Formats the far hosts of a contender's parts, if one is at another than the first.
fn far_hosts(contender: &RecordedContender) -> String {
    const FIRST: &str = "the first of --to";
    let parts = &contender.parts;
    if parts.iter().all(|part| part.host.is_none()) {
        return FIRST.to_owned();
    }
    let each = parts.iter();
    let each = each.map(|part| format!("{}: {}", part.name, part.host.as_deref().unwrap_or(FIRST)));
    each.collect::<Vec<_>>().join("; ")
}

/// Formats a promise of a contender; if its parts differ in it, the promise of each part.
fn promised(contender: &RecordedContender, value: fn(&RecordedContender) -> String) -> String {
    let parts = &contender.parts;
    let each: Vec<String> = parts.iter().map(|part| promised(&part.contender, value)).collect();
    match each.first() {
        None => value(contender),
        Some(first) if each.iter().all(|other| other == first) => first.clone(),
        Some(_) => {
            let named =
                parts.iter().zip(&each).map(|(part, value)| format!("{}: {value}", part.name));
            named.collect::<Vec<String>>().join("; ")
        }
    }
}

/// Promise of a transport, and its importance if another contender does not make it.
struct Promise {
    what: &'static str,
    value: fn(&RecordedContender) -> String,
    matters: &'static str,
}

/// Value for conditions that are unknown for external commands.
const UNKNOWN: &str = "unknown between its commands";

/// Returns true if commands move its bytes, of which is not known how.
fn has_commands(contender: &RecordedContender) -> bool {
    contender.carriers.is_some() || contender.is_commands
}

const PROMISES: &[Promise] = &[
    Promise {
        what: "terms",
        value: |contender| {
            if contender.is_deployed {
                "the implementation's own, where not typed".into()
            } else {
                "equal, where not typed".into()
            }
        },
        matters: "one side has the settings that every contender has, and the other those that its \
                  implementation comes with",
    },
    Promise {
        what: "delivery",
        value: |contender| match contender.promised.service.delivery {
            Delivery::Reliable => "lost messages are sent again".into(),
            Delivery::Within(_) => "lost messages are sent again for a while".into(),
            Delivery::BestEffort => "lost messages are gone".into(),
        },
        matters: "a loss costs one side time and the other side data, so compare latency together \
                  with the ledger",
    },
    Promise {
        what: "ordering",
        value: |contender| match contender.promised.service.ordering {
            Ordering::Ordered => "as sent".into(),
            Ordering::Unordered => "as they arrive".into(),
        },
        matters: "a transport that keeps order holds later messages back until an earlier one has \
                  arrived (head-of-line blocking)",
    },
    Promise {
        what: "lanes",
        value: |contender| match contender.guarantees.lanes {
            1 => "one order for all messages of a connection".into(),
            most => format!("up to {most} in a connection, each with its own order"),
        },
        matters: "messages of several streams wait for each other's losses where they share an order; \
                  work that has one stream only is not concerned",
    },
    Promise {
        what: "framing",
        value: |contender| match (contender.guarantees.framing, contender.framing_bytes) {
            (Framing::Messages, _) => "keeps messages whole".into(),
            (Framing::ByteStream, 0) => "byte stream".into(),
            (Framing::ByteStream, n) => format!("byte stream, {n} bytes in front of a message"),
        },
        matters: "on a byte stream each message carries its length and may arrive in pieces or \
                  together with others",
    },
    Promise {
        what: "congestion",
        value: |contender| match contender.guarantees.congestion {
            _ if has_commands(contender) => UNKNOWN.into(),
            Congestion::Controlled => "controlled".into(),
            Congestion::Backpressure => "back-pressure of the receiver".into(),
            Congestion::Uncontrolled => "none".into(),
        },
        matters: "without congestion control a sender fills queues and takes bandwidth from \
                  others; it may lose this gain on a shared network",
    },
    Promise {
        what: "encryption",
        value: |contender| match contender.guarantees.encrypted {
            _ if has_commands(contender) => UNKNOWN.into(),
            true => "encrypted".into(),
            false => "plain".into(),
        },
        matters: "encryption costs CPU time per byte and round trips at the start; an application \
                  that needs it must add it to the plain ones",
    },
    Promise {
        what: "relay",
        value: |contender| contender.relay.clone().unwrap_or_else(|| "none in between".into()),
        matters: "a relay takes in and forwards each packet once more, and ends TCP's connections; with TURN a process beside \
                  the near end puts 4 bytes in front of each datagram, and takes part in the way, too",
    },
    Promise {
        what: "carried by",
        value: |contender| match &contender.carriers {
            None => "the ends themselves".into(),
            Some([near, far]) => format!("`{near}` and `{far}`"),
        },
        matters: "two more programs take in and pass on each byte, on CPUs that the ends want, too; connecting reaches the first of them, and their work on the path is not seen",
    },
    Promise {
        what: "work",
        value: |contender| {
            if contender.is_commands {
                "done by commands, from their start to their end".into()
            } else {
                "done by ends that run before it begins".into()
            }
        },
        matters: "a command's time has in it what its program takes to start, to connect and to end, which the transfer of one \
                  byte shows; the time of the others begins as they connect",
    },
    Promise {
        what: "far end",
        value: |contender| {
            if contender.peer.is_kernel { "the kernel".into() } else { "a process".into() }
        },
        matters: "the kernel answers without waking a process, so its round trip is less than what an application would \
                  see",
    },
    Promise {
        what: "implementation",
        value: |contender| match contender.implementation {
            _ if contender.carriers.is_some() => UNKNOWN.into(),
            "linux" => "the kernel's".into(),
            "deadheat" => "this program's own".into(),
            library => match contender.protocol {
                Some(protocol) => format!("{library}, one of several of {protocol}"),
                None => library.into(),
            },
        },
        matters: "a figure is one of an implementation, and two of one protocol may differ by more than two protocols do; \
                  a finding on one library is none on its protocol",
    },
    Promise {
        what: "recipients",
        value: |contender| {
            if contender.peer.is_group {
                "all, of one connection".into()
            } else {
                "one for each connection".into()
            }
        },
        matters: "data that is sent once for all receivers crosses the shared part of a path once, and connections carry it once for each receiver",
    },
];

/// Returns the differences in requested knobs, and in options as read back at either end.
fn options(racing: &[(&Entrant, &RecordedContender)]) -> Vec<Option<Difference>> {
    let kinds: [(&str, Source); 3] = [
        ("asked", |entrant| &entrant.asked),
        ("effective", |entrant| &entrant.effective),
        ("effective at the far end", |entrant| &entrant.far_effective),
    ];
    let mut all = Vec::new();
    let mut listed = BTreeSet::new();
    // An effective value says more than a requested one, and the near end represents both.
    for (kind, source) in [kinds[1], kinds[2], kinds[0]] {
        let names: BTreeSet<&String> =
            racing.iter().flat_map(|(entrant, _)| source(entrant).keys()).collect();
        for name in names {
            let values: BTreeMap<String, String> = racing
                .iter()
                .filter_map(|(entrant, _)| {
                    Some((entrant.label.clone(), source(entrant).get(name)?.clone()))
                })
                .collect();
            // An option that only some contenders have is a difference of kind, listed above.
            let found = difference(format!("{name} ({kind})"), values, why(racing, name));
            if found.is_some() && listed.insert(name.clone()) {
                all.push(found);
            }
        }
    }
    all
}

type Source = fn(&Entrant) -> &BTreeMap<String, String>;

/// Returns the importance of an option, from the first transport that has it.
fn why<'a>(racing: &[(&Entrant, &'a RecordedContender)], option: &str) -> &'a str {
    let meaning = racing.iter().find_map(|(_, c)| c.meaning(option));
    meaning.map_or(
        "the contenders ran with different settings, so the verdict is about these settings",
        |meaning| meaning.matters,
    )
}

/// Returns a difference; `None` if all values are equal, or only one contender has the value.
fn difference(what: String, values: BTreeMap<String, String>, matters: &str) -> Option<Difference> {
    let distinct: BTreeSet<&String> = values.values().collect();
    (distinct.len() > 1).then(|| Difference { what, values, matters: matters.to_owned() })
}
