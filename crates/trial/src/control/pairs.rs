//! Pairs whose server command a server runs for its clients: what each end says of a pair.
//!
//! ```text
//! client                                              server
//!   ── Pairs { name } ──────────────────────────────────►   looks at the files of its operator
//!   ◄── offers: terms, programs, a digest of both ──────
//!   compares the terms with those of its own file
//!   ── Command { digest, bytes, seconds, seed } ────────►   starts the keeper of that server command
//! ```
//! A client never sends a command, a path or a variable: it names an offer, and the values of the trial.

use serde::{Deserialize, Serialize};

use deadheat_base::error::{Error, Result};
use deadheat_base::foreign::{short, visible};
use deadheat_base::time::Nanos;
use deadheat_base::units::Bytes;
use deadheat_contract::contract::Side;
use deadheat_contract::workload::ProgramWork;
use deadheat_contract::workload::programs::FiguresAsked;
use deadheat_datapath::transport::commands::{CommandPair, CopySet, PairTerms};
use deadheat_records::commands::ProgramFile;

/// Largest number of files of an offer.
const MOST_FILES: usize = 256;

/// Offer of a server: a pair whose server command it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairOffer {
    /// Terms of the operator's file.
    pub terms: PairTerms,
    /// Program of the server command, and files that its arguments name.
    pub files: Vec<ProgramFile>,
    /// SHA-256 (FIPS 180-4) of both in hexadecimal. It names the offer in a [`CommandAsk`].
    pub digest: String,
}

/// Answer of a server about pairs with a name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PairList {
    /// Offers with that name.
    pub offers: Vec<PairOffer>,
    /// Names of all pairs that the operator allows.
    pub names: Vec<String>,
}

impl PairList {
    /// Returns the offer of a server `who` that has the terms of a pair.
    ///
    /// # Errors
    /// [`Error::Limited`] if its operator allows no pair of that name; [`Error::Peer`] with each difference between the two
    /// files; the same for an offer that makes no sense.
    pub(crate) fn offer_for(self, pair: &CommandPair, who: &str) -> Result<PairOffer> {
        let terms = PairTerms::of(pair);
        let (name, file) = (visible(&terms.name), visible(&pair.file));
        if self.offers.is_empty() {
            let names: Vec<String> = self.names.iter().map(|name| short(name)).collect();
            let others = if names.is_empty() {
                String::new()
            } else {
                format!(", and has {}", short(&names.join(", ")))
            };
            return Err(Error::limited(format!(
                "`{name}`: {who} runs no command of this name{others}; its operator can allow it, with `deadheat serve --command \
                 FILE`, where FILE says the same as {file}"
            )));
        }
        let of = self.offers.len();
        let (differences, offer) = self
            .offers
            .into_iter()
            .map(|offer| (terms.differences(&offer.terms), offer))
            .min_by_key(|(differences, _)| differences.len())
            .ok_or_else(|| Error::peer(who, "it offers nothing"))?;
        if !differences.is_empty() {
            let nearest = if of > 1 { format!(", the nearest of {of},") } else { String::new() };
            return Err(Error::peer(
                who,
                format!(
                    "its {name}{nearest} has {}; {file} and its operator's file have to say the same of the server",
                    short(&differences.join("; "))
                ),
            ));
        }
        offer.checked(who)
    }
}

impl PairOffer {
    /// Returns the offer with texts that are safe to show.
    fn checked(mut self, who: &str) -> Result<PairOffer> {
        let is_fine = |file: &ProgramFile| file.side == Side::Far && is_digest(&file.sha256);
        if self.files.len() > MOST_FILES
            || !self.files.iter().all(is_fine)
            || !is_digest(&self.digest)
        {
            return Err(Error::peer(who, "what it says of its programs makes no sense"));
        }
        for file in &mut self.files {
            file.path = short(&file.path);
        }
        Ok(self)
    }
}

/// Request for one trial of a server command: an offer of the server, and the values of the trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandAsk {
    /// Name of the pair.
    pub name: String,
    /// Digest of the offer.
    pub offer: String,
    /// True if the work is a transfer of these bytes, which are then checked.
    pub is_transfer: bool,
    /// Number of bytes, if the work has one.
    pub bytes: Option<u64>,
    /// Time that the work asks for, if any.
    pub time_ns: Option<Nanos>,
    /// Seed of the trial.
    pub seed: u64,
    /// Set of copies from which its programs run.
    #[serde(default)]
    pub set: CopySet,
}

impl CommandAsk {
    /// Returns the request for work of an offered pair.
    pub(crate) fn new(
        offer: &PairOffer,
        work: &ProgramWork,
        seed: u64,
        set: CopySet,
    ) -> CommandAsk {
        let (is_transfer, bytes, time_ns) = match work {
            ProgramWork::Transfer { bytes, .. } => (true, Some(*bytes), None),
            ProgramWork::Figures(asked) => (false, asked.bytes, asked.time),
            ProgramWork::None | ProgramWork::Refused(_) => (false, None, None),
        };
        let (name, offer) = (offer.terms.name.clone(), offer.digest.clone());
        CommandAsk { name, offer, is_transfer, bytes, time_ns, seed, set }
    }

    /// Returns the title of the trial for a log: `command iperf3 10.0 MB`.
    pub fn title(&self) -> String {
        let bytes = self.bytes.map(|bytes| format!(" {}", Bytes(bytes)));
        let time = self.time_ns.map(|time| format!(" {time}"));
        format!(
            "command {}{}{}",
            short(&self.name),
            bytes.unwrap_or_default(),
            time.unwrap_or_default()
        )
    }

    /// Returns the work of the trial, as far as the server command knows it.
    pub(crate) fn work(&self, pair: &CommandPair) -> Result<ProgramWork> {
        match (self.is_transfer, self.bytes) {
            (true, Some(bytes)) => Ok(ProgramWork::Transfer { bytes, direction: pair.direction }),
            (true, None) => Err(Error::usage("a transfer of no number of bytes")),
            // Figures are read where the client command runs.
            (false, bytes) => {
                let time = self.time_ns;
                Ok(ProgramWork::Figures(FiguresAsked { figures: Vec::new(), time, bytes }))
            }
        }
    }
}

/// Returns true if a text is a SHA-256 in hexadecimal.
pub(crate) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use deadheat_datapath::transport::commands::allowed;

    pub(crate) fn pair(set: &str) -> std::sync::Arc<CommandPair> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pair.toml");
        let text = "server = 'sh {port} {how}'\nclient = 'sh {port} {bytes}'\n[set]\nhow = 'a'";
        std::fs::write(&file, text).unwrap();
        allowed(&format!("{}{set}", file.display())).unwrap()
    }

    pub(crate) fn offer(pair: &CommandPair) -> PairOffer {
        let sha256 = "0".repeat(64);
        let (side, path) = (Side::Far, "/bin/\u{1b}sh".into());
        let file = ProgramFile { side, path, bytes: 1, sha256, copy: None };
        let digest = "1".repeat(64);
        PairOffer { terms: PairTerms::of(pair), files: vec![file], digest }
    }

    fn list(offers: Vec<PairOffer>) -> PairList {
        PairList { offers, names: vec!["other".into()] }
    }

    #[test]
    fn an_offer_with_the_same_terms_is_taken_and_others_are_refused_by_what_differs() {
        let (here, other) = (pair(""), pair(",set=how=b"));
        let found = list(vec![offer(&other), offer(&here)]).offer_for(&here, "server x").unwrap();
        assert_eq!(found.terms, PairTerms::of(&here));
        assert_eq!(found.files[0].path, "/bin/\\u{1b}sh", "a path is shown and not obeyed");
        let why = list(vec![offer(&other)]).offer_for(&here, "server x").unwrap_err().to_string();
        assert!(why.contains("its pair has set.how = `b`, and here it is `a`"), "{why}");
        let none = list(Vec::new()).offer_for(&here, "server x").unwrap_err();
        assert!(matches!(none, Error::Limited { .. }), "the others race on: {none}");
        assert!(none.to_string().contains("and has other; its operator can allow it"), "{none}");
    }

    #[test]
    fn an_offer_that_makes_no_sense_is_refused() {
        let here = pair("");
        let wrong: [fn(&mut PairOffer); 4] = [
            |offer| offer.digest = "x".into(),
            |offer| offer.files[0].sha256 = "é".repeat(32),
            |offer| offer.files[0].side = Side::Near,
            |offer| offer.files = vec![offer.files[0].clone(); MOST_FILES + 1],
        ];
        for change in wrong {
            let mut offer = offer(&here);
            change(&mut offer);
            let why = list(vec![offer]).offer_for(&here, "server x").unwrap_err().to_string();
            assert!(why.contains("makes no sense"), "{why}");
        }
    }
}
