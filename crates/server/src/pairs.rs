//! Pairs of commands that the operator allows (`serve --command FILE`): a client names one, and the server command of the
//! operator's own file runs. Nothing else of a client decides what runs.
//!
//! An offer has a digest of its file's terms and of the files that it runs. A client gives the digest with each trial, so that
//! a file that changes amid a race ends it by name. Files are copied and hashed again only once their stamps differ, whatever
//! clients ask, so that the copies have no more than twice the size of the programs.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use deadheat_base::error::{Error, Result};
use deadheat_base::foreign::short;
use deadheat_base::units::hex::hex;
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::commands::{CommandPair, PairTerms, allowed};
use deadheat_trial::between::commands::{FileStamps, ProgramCopies, builds};
use deadheat_trial::control::pairs::{CommandAsk, PairList, PairOffer};

/// Largest number of bytes of all offers, as a client gets them in one message.
const MOST_BYTES: usize = 256 << 10;

/// Pairs that an operator allows, and the ports of their servers.
#[derive(Debug, Clone, Default)]
pub struct AllowedPairs {
    pairs: Vec<Arc<CommandPair>>,
    /// Ports to choose from; absent for any free one.
    ports: Option<RangeInclusive<u16>>,
}

impl AllowedPairs {
    /// Reads the values of `--command`, each `FILE[,set=NAME=VALUE]`, and of `--command-ports`: `PORT` or `FIRST-LAST`.
    ///
    /// # Errors
    /// As of [`allowed`]; [`Error::Usage`] for two pairs that a client could not tell apart, and for ports that are none.
    pub fn parse(typed: &[String], ports: Option<&str>) -> Result<AllowedPairs> {
        let pairs = typed.iter().map(|typed| allowed(typed)).collect::<Result<Vec<_>>>()?;
        let terms: Vec<PairTerms> = pairs.iter().map(|pair| PairTerms::of(pair)).collect();
        for (at, own) in terms.iter().enumerate() {
            if let Some(other) = terms[..at].iter().position(|other| other == own) {
                return Err(Error::usage(format!(
                    "`--command {}` and `--command {}` have the same name and say the same of the server; leave one out, or give it \
                     a name of its own",
                    typed[other], typed[at]
                )));
            }
        }
        let ports = ports.map(port_range).transpose()?;
        match (&ports, pairs.is_empty()) {
            (Some(_), true) => Err(Error::usage(
                "--command-ports without --command: no command runs that would take one of them",
            )),
            _ => Ok(AllowedPairs { pairs, ports }),
        }
    }

    /// Returns true if any pair is allowed.
    pub fn is_any(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// Checks that trials at once have a port each.
    ///
    /// # Errors
    /// [`Error::Usage`] with both numbers.
    pub fn check_ports(&self, trials: u32) -> Result<()> {
        match &self.ports {
            Some(ports) if ports.len() < trials as usize => Err(Error::usage(format!(
                "--command-ports has {} ports, and --trials {trials} takes one for each trial at once",
                ports.len()
            ))),
            _ => Ok(()),
        }
    }

    /// Returns a sentence on each pair for the operator.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        let ports = match &self.ports {
            Some(ports) => format!("port {} to {}", ports.start(), ports.end()),
            None => "any free port".to_owned(),
        };
        self.pairs.iter().map(move |pair| {
            format!(
                "runs `{}` for clients that ask for {} ({}), at {ports}: in the turn of a trial and within its time; neither \
                 --max-rate nor a number of bytes binds what it sends",
                pair.server.typed, pair.name, pair.file
            )
        })
    }

    /// Returns the ports to try for a trial, in order: at its place of the `trials` at once, so that no two have the same,
    /// and another one first from trial to trial. None for any free port.
    pub(super) fn ports(&self, trials: u32, place: u32, number: u64) -> Vec<u16> {
        let Some(ports) = self.ports.clone() else { return Vec::new() };
        let own = ports.skip(place as usize).step_by(trials.max(1) as usize);
        let mut own: Vec<u16> = own.collect();
        let first = number.checked_rem(own.len() as u64).unwrap_or_default();
        own.rotate_left(first as usize);
        own
    }
}

fn port_range(typed: &str) -> Result<RangeInclusive<u16>> {
    let port = |text: &str| text.trim().parse().ok().filter(|port| *port > 0);
    let (first, last) = typed.split_once('-').unwrap_or((typed, typed));
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(Error::usage(format!(
            "`--command-ports {typed}`: no ports; write one, as in 5300, or the first and the last of several: 5300-5309"
        ))),
    }
}

/// Offers of a server, each with the stamps of its files.
pub(super) struct PairOffers(Vec<KnownPair>);

struct KnownPair {
    pair: Arc<CommandPair>,
    last: Mutex<LastOffer>,
}

/// Last offer of a pair, with the stamps of the files that it had, and the copies of programs that run.
struct LastOffer {
    stamps: FileStamps,
    offer: PairOffer,
    copies: ProgramCopies,
}

impl PairOffers {
    /// Reads and hashes the files of all pairs.
    ///
    /// # Errors
    /// [`Error::Usage`] if clients could not be sent them.
    pub(super) fn new(allowed: &AllowedPairs) -> Result<PairOffers> {
        let known = |pair: &Arc<CommandPair>| {
            let last = Mutex::new(LastOffer::of(pair)?);
            Ok(KnownPair { pair: Arc::clone(pair), last })
        };
        let offers = PairOffers(allowed.pairs.iter().map(known).collect::<Result<_>>()?);
        let all: Vec<PairOffer> = offers.0.iter().map(KnownPair::offer).collect::<Result<_>>()?;
        match as_sent(&all)?.len() {
            ..MOST_BYTES => Ok(offers),
            bytes => Err(Error::usage(format!(
                "the pairs of --command have {bytes} bytes together, and clients take {MOST_BYTES} of them"
            ))),
        }
    }

    /// Returns the offers of this name.
    ///
    /// # Errors
    /// [`Error::Setup`] if they cannot be written.
    pub(super) fn list(&self, name: &str) -> Result<PairList> {
        let named = self.0.iter().filter(|known| known.pair.name == name);
        let mut names: Vec<String> = self.0.iter().map(|known| known.pair.name.clone()).collect();
        names.sort();
        names.dedup();
        Ok(PairList { offers: named.map(KnownPair::offer).collect::<Result<_>>()?, names })
    }

    /// Returns the pair whose offer a client asks for, with copies of its programs.
    ///
    /// # Errors
    /// [`Error::Limited`] if no pair of that name is allowed; [`Error::Usage`] if what it was offered is gone.
    pub(super) fn asked(&self, ask: &CommandAsk) -> Result<Arc<CommandPair>> {
        let mut is_known = false;
        for known in self.0.iter().filter(|known| known.pair.name == ask.name) {
            is_known = true;
            let last = known.current()?;
            if last.offer.digest == ask.offer {
                return Ok(Arc::new(last.copies.pair(&known.pair, ask.set)));
            }
        }
        let name = short(&ask.name);
        if is_known {
            Err(Error::usage(format!(
                "the server's `{name}` has changed since this race began: its file, or a program that it runs; race anew"
            )))
        } else {
            Err(Error::limited(format!(
                "`{name}`: the server runs no command of this name; its operator can allow it, with `deadheat serve --command FILE`"
            )))
        }
    }
}

impl KnownPair {
    fn offer(&self) -> Result<PairOffer> {
        self.current().map(|last| last.offer.clone())
    }

    /// Returns its offer, made anew if its files have changed, or if the host has removed the copies.
    fn current(&self) -> Result<MutexGuard<'_, LastOffer>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if FileStamps::of(&self.pair, Side::Far) != last.stamps || !last.copies.are_there() {
            *last = LastOffer::of(&self.pair)?;
        }
        Ok(last)
    }
}

impl LastOffer {
    fn of(pair: &CommandPair) -> Result<LastOffer> {
        let stamps = FileStamps::of(pair, Side::Far);
        let copies = ProgramCopies::of(&[(pair, Side::Far)])?;
        let (terms, files) = (PairTerms::of(pair), builds(pair, &[Side::Far], &copies));
        let digest = hex(&Sha256::digest(as_sent(&(&terms, &files))?));
        Ok(LastOffer { stamps, offer: PairOffer { terms, files, digest }, copies })
    }
}

fn as_sent(of: &impl serde::Serialize) -> Result<Vec<u8>> {
    deadheat_base::json::line(of)
        .map_err(|e| Error::setup("write an offer", std::io::Error::other(e)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use deadheat_datapath::transport::commands::CopySet;

    fn pairs(folder: &Path, more: &[&str]) -> Result<AllowedPairs> {
        let program = folder.join("program");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        let text = format!(
            "server = 'sh {} {{port}} {{how}}'\nclient = 'nowhere {{port}} {{bytes}}'\n[set]\nhow = 'a'",
            program.display()
        );
        let file = folder.join("pair.toml");
        std::fs::write(&file, text).unwrap();
        let typed: Vec<String> =
            more.iter().map(|more| format!("{}{more}", file.display())).collect();
        AllowedPairs::parse(&typed, None)
    }

    fn ask(name: &str, offer: &str) -> CommandAsk {
        let (name, offer) = (name.to_owned(), offer.to_owned());
        let set = CopySet::Contenders;
        CommandAsk { name, offer, is_transfer: true, bytes: Some(1), time_ns: None, seed: 1, set }
    }

    #[test]
    fn a_client_gets_the_pair_whose_offer_it_names_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let offers = PairOffers::new(&pairs(folder.path(), &["", ",set=how=b"]).unwrap()).unwrap();
        let list = offers.list("pair").unwrap();
        assert_eq!((list.offers.len(), &list.names[..]), (2, &["pair".to_owned()][..]));
        let second = &list.offers[1];
        assert_eq!(second.files.len(), 2, "shell and script: {:?}", second.files);
        let found = offers.asked(&ask("pair", &second.digest)).unwrap();
        assert_eq!(found.variables["how"], "b");
        for (name, offer) in [("other", &*second.digest), ("pair", "00"), ("", "")] {
            let why = offers.asked(&ask(name, offer)).unwrap_err();
            assert_eq!(matches!(why, Error::Limited { .. }), name != "pair", "{why}");
        }
        assert!(offers.list("other").unwrap().offers.is_empty());
    }

    #[test]
    fn a_program_that_changes_is_another_offer() {
        let folder = tempfile::tempdir().unwrap();
        let offers = PairOffers::new(&pairs(folder.path(), &[""]).unwrap()).unwrap();
        let before = offers.list("pair").unwrap().offers[0].digest.clone();
        offers.asked(&ask("pair", &before)).unwrap();
        std::fs::write(folder.path().join("program"), "#!/bin/sh\nexit 1\n").unwrap();
        let why = offers.asked(&ask("pair", &before)).unwrap_err().to_string();
        assert!(why.contains("has changed since"), "{why}");
        let after = offers.list("pair").unwrap().offers[0].digest.clone();
        offers.asked(&ask("pair", &after)).unwrap();
    }

    #[test]
    fn mistakes_of_an_operator_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let why = pairs(folder.path(), &["", ""]).unwrap_err().to_string();
        assert!(why.contains("have the same name"), "{why}");
        for typed in ["0", "x", "9-8", "5300-70000", ""] {
            assert!(port_range(typed).is_err(), "{typed}");
        }
        let why = AllowedPairs::parse(&[], Some("5300")).unwrap_err().to_string();
        assert!(why.contains("without --command"), "{why}");
        let pairs = pairs(folder.path(), &[""]).unwrap();
        let pairs = AllowedPairs { ports: Some(5300..=5302), ..pairs };
        assert!(pairs.check_ports(3).is_ok() && pairs.check_ports(4).is_err());
    }

    #[test]
    fn trials_at_once_have_ports_of_their_own_and_each_begins_with_another() {
        let pairs = AllowedPairs { ports: Some(10..=15), ..AllowedPairs::default() };
        assert_eq!(pairs.ports(1, 0, 2), [12, 13, 14, 15, 10, 11]);
        let (first, second) = (pairs.ports(2, 0, 7), pairs.ports(2, 1, 8));
        assert_eq!((&first[..], &second[..]), (&[12, 14, 10][..], &[15, 11, 13][..]));
        assert!(AllowedPairs::default().ports(1, 0, 1).is_empty());
    }
}
