//! Contender: a transport with its knobs, as typed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::commands::{self, CommandContender};
use super::equal::{self, Terms};
use super::external::{self, Pair};
use super::header::{self, HeaderTerms};
use super::identity::{CERTIFICATE, check_certificate};
use super::via::{self, Via};
use super::{ALL, Effective, Part, Place, Transport, optional, prefers, several};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::outside::Named;
use deadheat_base::spec::{Key, Kind, Reference, Settings, Spec};
use deadheat_contract::contract::{Guarantees, Service, Side};
use deadheat_contract::recorded::{RecordedContender, RecordedPart};

/// Transport of a contender: from the list, or made for this contender alone.
#[derive(Clone)]
pub enum Carrier {
    /// Transport from [`ALL`].
    Listed(&'static dyn Transport),
    /// Transport that the copies of this contender share.
    Made(Arc<dyn Transport>),
}

impl Deref for Carrier {
    type Target = dyn Transport;

    fn deref(&self) -> &(dyn Transport + 'static) {
        match self {
            Carrier::Listed(transport) => *transport,
            Carrier::Made(transport) => &**transport,
        }
    }
}

/// Returns the name and the keys of the kind of contenders with commands of others that one as typed is; `None` if it is none.
pub(super) fn with_commands(typed: &str) -> Option<(&'static str, &'static [Key])> {
    let name = typed.split_once(':').map_or(typed, |(name, _)| name);
    let kinds = [(external::ID, external::KEYS), (commands::ID, commands::COMMAND_KEYS)];
    kinds.into_iter().find(|(id, _)| *id == name)
}

/// Transport with its knobs checked: one row of the table.
#[derive(Clone)]
pub struct Contender {
    /// The transport.
    pub transport: Carrier,
    /// Knobs, defaults included.
    pub knobs: Settings,
    /// Relay between it and the far end.
    pub via: Via,
    /// Commands that carry it, if it is an external contender.
    pub external: Option<Arc<Pair>>,
    /// Commands that do the work themselves, if it is a pair of them.
    pub commands: Option<Arc<CommandContender>>,
    /// Services that it prefers for its lanes, the most wanted first; empty for the usual one.
    pub prefers: Vec<Service>,
    /// Source of the values of knobs that were not typed.
    pub terms: Terms,
    /// Specification as typed.
    pub spec: Spec,
}

impl Contender {
    /// Reads a contender such as `tcp:cc=bbr`.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] naming the mistake and a correct form; [`deadheat_base::error::Error::Unsupported`]
    /// for a contender that this build leaves out ([`super::optional`]), with the way to get it.
    pub fn parse(typed: &str) -> Result<Contender> {
        if let Some(made) = several::parse(typed)? {
            return Ok(made);
        }
        match with_commands(typed) {
            Some((external::ID, _)) => external::parse(typed),
            Some(_) => commands::parse(typed),
            None => Contender::one_of_all(typed),
        }
    }

    /// Reads a contender that a peer sent. It refuses a contender that names commands or files.
    ///
    /// # Errors
    /// As for [`Contender::parse`].
    pub fn sent(typed: &str) -> Result<Contender> {
        match several::parse(typed)? {
            Some(made) => Ok(made),
            None => Contender::listed(typed),
        }
    }

    /// Reads the contender of a result, with the knobs that the result recorded.
    ///
    /// # Errors
    /// As for [`Contender::parse`].
    pub fn recorded(typed: &str, asked: &BTreeMap<String, String>) -> Result<Contender> {
        match with_commands(typed) {
            Some((external::ID, _)) => external::recorded(typed, asked),
            Some(_) => commands::recorded(typed, asked),
            None => Contender::parse(typed),
        }
    }

    /// Returns the files and commands that a contender as typed and its parts name. Opens and
    /// runs none. Text that is no contender names nothing; reading it fails later.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] where the text does not have the form of a contender.
    pub fn outside(typed: &str) -> Result<Vec<Named>> {
        let parts = RefCell::new(Vec::new());
        let note = |part: &str| {
            parts.borrow_mut().push(part.to_owned());
            Ok(part.to_owned())
        };
        if let Some(noted) = several::each(typed, note) {
            noted?;
            let parts = parts.into_inner();
            let all = parts.iter().map(|part| Contender::outside(part));
            return Ok(all.collect::<Result<Vec<_>>>()?.concat());
        }
        let spec = Spec::parse(typed)?;
        if let Some((_, keys)) = with_commands(typed) {
            return commands::outside(&spec, keys);
        }
        let found = ALL.iter().find(|transport| transport.info().id == spec.name);
        let keys = found.into_iter().flat_map(|transport| transport.info().keys).chain(via::KEYS);
        spec.outside(keys, &Contender::outside)
    }

    /// Reads a contender from the list.
    pub fn listed(typed: &str) -> Result<Contender> {
        if with_commands(typed).is_some() || several::is_one(typed) {
            Err(Error::usage(format!(
                "`{typed}` is no contender of the list, and such a one is needed here"
            )))
        } else {
            Contender::one_of_all(typed)
        }
    }

    fn one_of_all(typed: &str) -> Result<Contender> {
        let spec = Spec::parse(typed)?;
        let found = ALL.iter().find(|transport| transport.info().id == spec.name);
        let Some(transport) = found else {
            if let Some(optional) = optional::absent(&spec.name) {
                return Err(optional.missing());
            }
            match spec.name.split_once([',', '/', ' ']) {
                Some((name, keys)) if keys.contains('=') => {
                    return Err(Error::usage(format!(
                        "`{typed}`: a colon stands in front of the keys; write {name}:{keys}"
                    )));
                }
                Some((one, other)) => {
                    return Err(Error::usage(format!(
                        "`{typed}`: each contender is a word of its own; write {one} {other}"
                    )));
                }
                None => {}
            }
            let ids = ALL.iter().map(|transport| transport.info().id);
            let ids: Vec<&str> = ids.chain(several::FORMS.iter().map(|(form, _)| *form)).collect();
            return Err(ALL.unknown("contender", &spec.name, &ids));
        };
        let mut own = spec.clone();
        let via = Via::take(&mut own, transport.info())?;
        let terms = Terms::take(&mut own)?;
        let prefers = prefers::take(&mut own, &transport.info().guarantees)?;
        let header = HeaderTerms::take(&mut own, transport.info())?;
        let mut knobs = Settings::check(&own, transport.info().keys)?;
        knobs.join(header);
        if terms == Terms::Deployed {
            equal::leave(&mut knobs, *transport)?;
        }
        let plain = Contender::plain(Carrier::Listed(*transport), knobs, spec);
        Ok(Contender { via, prefers, terms, ..plain })
    }

    /// Returns the contender of a transport, without a relay, preferences, or terms of its own.
    pub fn plain(transport: Carrier, knobs: Settings, spec: Spec) -> Contender {
        let (via, prefers, terms) = (Via::Direct, Vec::new(), Terms::Equal);
        Contender { transport, knobs, via, external: None, commands: None, prefers, terms, spec }
    }

    /// Returns the promises of its transport, with the preferred services first.
    pub fn promised(&self) -> Guarantees {
        let own = self.transport.info().guarantees;
        own.preferring(&self.prefers).unwrap_or(own)
    }

    /// Returns the knobs as results carry them, defaults included; a knob of a part has the part's name in front:
    /// `events.cc`.
    pub fn asked(&self) -> BTreeMap<String, String> {
        let own = self.knobs.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let parts = self.transport.parts().iter().flat_map(|part| {
            let asked = part.contender.asked().into_iter();
            asked.map(|(key, value)| (format!("{}.{key}", part.name), value))
        });
        let commands = self.external.iter().flat_map(|pair| {
            let all =
                [("near", &pair.near.typed), ("far", &pair.far.typed), ("carries", &pair.carries)];
            all.map(|(key, value)| (key.to_owned(), value.clone()))
        });
        let pairs = self.commands.iter().flat_map(|one| one.asked.clone());
        own.chain(parts).chain(commands).chain(pairs).collect()
    }

    /// Returns it as typed, without the knobs that name a file: for an end that opens none.
    pub fn without_files(&self) -> String {
        let mut spec = self.spec.clone();
        spec.options.retain(|(name, _)| !self.names_file(name));
        spec.to_string()
    }

    /// Returns the first typed knob that names a file.
    pub fn file(&self) -> Option<&str> {
        let mut own = self.spec.options.iter().map(|(name, _)| name.as_str());
        let of_parts = || self.transport.parts().iter().find_map(|part| part.contender.file());
        own.find(|name| self.names_file(name)).or_else(of_parts)
    }

    fn names_file(&self, knob: &str) -> bool {
        let value = self.knobs.text(knob).unwrap_or_default();
        let key = self.transport.info().keys.iter().find(|key| key.name == knob);
        key.is_some_and(|key| matches!(key.kind.reference(value), Reference::File(_)))
    }

    /// Names the implementation, on hosts with a kernel of this release if the kernel implements it, with the
    /// congestion control among the effective options: `tcp/linux-6.18.44/cubic`.
    pub fn implementation(&self, kernel: Option<&str>, effective: &Effective) -> String {
        let (info, parts) = (self.transport.info(), self.transport.parts());
        if !parts.is_empty() {
            let of = |part: &Part| {
                let prefix = format!("{}.", part.name);
                let own = effective.iter().filter_map(|(name, value)| {
                    Some((name.strip_prefix(&prefix)?.to_owned(), value.clone()))
                });
                let by = part.contender.implementation(kernel, &own.collect());
                format!("{}={by}", part.name)
            };
            return format!("{}:{}", info.id, parts.iter().map(of).collect::<Vec<_>>().join(","));
        }
        let by = match kernel {
            Some(release) if info.implementation == "linux" => format!("linux-{release}"),
            _ => info.implementation.to_owned(),
        };
        let control = effective.get("cc").map(|cc| format!("/{cc}")).unwrap_or_default();
        format!("{}/{by}{control}", info.id)
    }

    /// Checks that this host has the transport, and supports the typed knobs, on loopback. A default is replaced
    /// where the host does not support it.
    ///
    /// # Errors
    /// As for [`Contender::check_at`].
    pub fn check(&self) -> Result<()> {
        self.check_at(Place::Loopback)
    }

    /// Checks that this host has the transport, and that the typed knobs work at a place.
    ///
    /// # Errors
    /// As for [`Transport::check`] and [`Transport::check_knob`].
    pub fn check_at(&self, place: Place) -> Result<()> {
        match &self.commands {
            // The server runs on another host, which looks for its program itself.
            Some(commands) if place == Place::Remote => commands.pair.check(Side::Near)?,
            _ => self.transport.check()?,
        }
        self.via.check()?;
        self.transport.parts().iter().try_for_each(|part| part.contender.check_at(place))?;
        if let Some(file) = self.knobs.text_of(&CERTIFICATE) {
            check_certificate(file, place)?;
        }
        let keys = self.transport.info().keys.iter();
        let choices = keys.filter(|key| matches!(key.kind, Kind::Choice(_)));
        choices.filter(|key| self.knobs.given(key.name)).try_for_each(|key| {
            let value = self.knobs.text(key.name).unwrap_or_default();
            self.transport.check_knob(key.name, value, place)
        })
    }
}

impl From<&Contender> for RecordedContender {
    fn from(own: &Contender) -> RecordedContender {
        let info = own.transport.info();
        let part = |part: &Part| RecordedPart {
            name: part.name.clone(),
            host: part.host.clone(),
            contender: RecordedContender::from(&part.contender),
        };
        let carriers =
            own.external.as_ref().map(|pair| [&pair.near, &pair.far].map(|one| one.typed.clone()));
        RecordedContender {
            id: info.id,
            spec: own.spec.clone(),
            colour: info.colour,
            named: own.implementation(None, &Effective::new()),
            implementation: info.implementation,
            protocol: info.protocol,
            asked: own.asked(),
            guarantees: info.guarantees,
            promised: own.promised(),
            peer: info.peer,
            framing_bytes: info.framing_bytes,
            is_over_udp: info.is_over_udp,
            is_deployed: own.terms == Terms::Deployed,
            relay: (own.via != Via::Direct).then(|| own.via.title()),
            carriers,
            is_commands: own.commands.is_some(),
            parts: own.transport.parts().iter().map(part).collect(),
            options: [info.meanings(), header::OPTIONS.to_vec()].concat(),
        }
    }
}

impl PartialEq for Contender {
    /// Compares the text as typed, and the commands of a contender that has some.
    fn eq(&self, other: &Contender) -> bool {
        self.spec == other.spec
            && self.external == other.external
            && self.commands == other.commands
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contender({})", self.spec)
    }
}
