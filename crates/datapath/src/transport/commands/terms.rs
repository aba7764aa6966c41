//! Terms of a pair on which both ends must agree: everything that decides what its server command does in a trial.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{CommandPair, ReadySign, SET_IN};
use deadheat_base::foreign::short;
use deadheat_contract::contract::Direction;

/// Terms of a pair: keys of its file that concern the server, with the values that hold. The client's end has the rest for
/// itself: its command, its variables and the figures that it reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairTerms {
    /// Name of the pair.
    pub name: String,
    /// Values by key; a variable is `set.NAME`.
    keys: BTreeMap<String, String>,
}

impl PairTerms {
    /// Returns the terms of a pair.
    pub fn of(pair: &CommandPair) -> PairTerms {
        let ready = match &pair.ready {
            ReadySign::Port(_) => "ready",
            ReadySign::Line(_) => "ready-line",
        };
        let mut keys = BTreeMap::from([
            ("server".to_owned(), pair.server.typed.clone()),
            (ready.to_owned(), pair.ready.word()),
            ("direction".to_owned(), pair.direction.to_string()),
            ("timeout".to_owned(), pair.timeout.to_string()),
            ("stop".to_owned(), pair.stop.name().to_owned()),
        ]);
        if let (Some(file), Direction::Up) = (&pair.received, pair.direction) {
            keys.insert("received".to_owned(), file.clone());
        }
        let used = pair.variables.iter().filter(|(name, _)| pair.server.is_written_with(name));
        keys.extend(used.map(|(name, value)| (format!("{SET_IN}{name}"), value.clone())));
        PairTerms { name: pair.name.clone(), keys }
    }

    /// Returns each difference to the terms of a server, in words: `direction = up, and here it is down`.
    pub fn differences(&self, server: &PairTerms) -> Vec<String> {
        let mut all: Vec<&String> = self.keys.keys().chain(server.keys.keys()).collect();
        all.sort();
        all.dedup();
        let value = |terms: &PairTerms, key: &String| {
            terms
                .keys
                .get(key)
                .map_or_else(|| "nothing".to_owned(), |value| format!("`{}`", short(value)))
        };
        let differs = all.into_iter().filter(|key| self.keys.get(*key) != server.keys.get(*key));
        differs
            .map(|key| {
                let (theirs, ours) = (value(server, key), value(self, key));
                format!("{} = {theirs}, and here it is {ours}", short(key))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::commands::file::{PairCheck, Said, WrittenPair};

    fn terms(keys: &[(&'static str, &str)], variables: &[(&str, &str)]) -> PairTerms {
        let said = |text: &str| Said { text: text.to_owned(), line: None };
        let fixed = [("client", "c {port}"), ("server", "{bin} {port}")];
        let written = WrittenPair {
            keys: fixed.iter().chain(keys).map(|(key, text)| (*key, said(text))).collect(),
            variables: variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            figures: Vec::new(),
        };
        PairTerms::of(&PairCheck { file: "pair.toml", written: &written }.pair().unwrap())
    }

    #[test]
    fn what_concerns_the_server_is_compared_and_the_rest_is_not() {
        let server = terms(&[], &[("bin", "iperf3"), ("own", "1")]);
        let same = [
            terms(&[("client", "other {port}")], &[("bin", "iperf3")]),
            terms(&[("ready", "port"), ("timeout", "60s")], &[("bin", "iperf3")]),
        ];
        for here in same {
            assert_eq!(here, server);
        }
        let here = terms(&[("direction", "down"), ("received", "got")], &[("bin", "iperf3")]);
        assert_eq!(here.differences(&server), ["direction = `up`, and here it is `down`"]);
        let here = terms(&[("received", "got")], &[("bin", "new/iperf3")]);
        assert_eq!(
            here.differences(&server),
            [
                "received = nothing, and here it is `got`",
                "set.bin = `iperf3`, and here it is `new/iperf3`"
            ]
        );
        let here = terms(&[("ready-line", "^up$")], &[("bin", "iperf3")]);
        assert_eq!(here.differences(&server).len(), 2, "one has ready, the other ready-line");
    }
}
