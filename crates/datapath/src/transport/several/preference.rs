//! Order of preference: the first of two contenders while it gets through, the second otherwise.
//!
//! ```text
//! udp|tcp      near  tries udp; if it has not connected after `after`: tries tcp
//!              far   accepts both, and continues with the choice of the near end
//! ```
//!
//! Where delivery is not guaranteed, the second stands by, and takes over when the first falls silent.

use std::io;
use std::sync::Arc;

use super::agree::{PreferenceListener, PreferenceTerms, agree};
use super::form::{SIGN, is_mix};
use super::note::{NOTE, Note, NoteKind};
use super::preferring::{Bulk, PreferenceStrand, PreferringConn};
use super::{Part, any_is_kept_up, named, open_beside, part_listeners, reach, target, weakest};
use crate::transport::via::Via;
use crate::transport::{
    Carrier, Conn, Contender, Dial, Effective, Info, Listen, Listener, Several, Transport,
};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::{Optional, Preset};
use deadheat_base::spec::{Key, Kind as Form, Settings, Spec, plain};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::parse_span;
use deadheat_contract::contract::{AsksLanes, Delivery, Ending, Framing, Guarantees, Ordering};

const ID: &str = "preference";

/// Form as typed, and its description.
pub(super) const FORM: (&str, &str) = (
    "FIRST|SECOND",
    "the first contender as long as it gets through, then the second, as 'udp|tcp' (in quotes, for the shell); after=TIME among \
     the second's knobs is how long the first may take to connect (1s), silence=TIME|off how long nothing may come over it then (1s)",
);

/// Knobs of the order itself, typed among the knobs of the second.
const KEYS: &[Key] = &[AFTER.key(), SILENCE.key()];

/// RFC 8305, section 5, has these bounds for the delay before the next attempt.
const AFTER: Preset<Nanos> = Optional::span("after", (10_000_000, 2_000_000_000)).or("1s").doc(
    "how long the first may take to connect before the second is tried; the default is TCP's \
     first retransmission timeout (RFC 6298)",
);

const SILENCE: Optional<Option<Nanos>> = Optional::form(
    "silence",
    Form::Own { form: "10ms..60s|off", check: |typed| silence(typed).map(drop), refers: plain },
    silence,
    None,
)
.doc(
    "how long nothing may come over the first once it is connected; not set: 1s where messages \
     may be lost, and off where none may, since those under way would be",
);

/// Default time of silence: the first retransmission timeout of TCP (RFC 6298, section 2).
const USUAL_SILENCE: Nanos = Nanos::from_secs(1);

fn silence(typed: &str) -> Result<Option<Nanos>> {
    if typed == "off" {
        return Ok(None);
    }
    match parse_span(typed)? {
        span if (10_000_000..=60_000_000_000).contains(&span.0) => Ok(Some(span)),
        _ => Err(Error::usage(format!("`{typed}` is outside 10ms..60s; or write off"))),
    }
}

/// Reads an order of preference.
pub(super) fn parse(typed: &str) -> Result<Contender> {
    let sides: Vec<&str> = typed.split(SIGN).map(str::trim).collect();
    let [first, second] = sides[..] else {
        return Err(Error::usage(format!(
            "`{typed}` names {} contenders, and one falls back on one; write 'udp|tcp'",
            sides.len()
        )));
    };
    if first.is_empty() || second.is_empty() {
        let which = if first.is_empty() { "preferred" } else { "fallen back on" };
        return Err(Error::usage(format!("`{typed}`: no contender is {which}; write 'udp|tcp'")));
    }
    let mut spec = Spec::parse(second)?;
    let knobs = Settings::check(&spec.split_off(KEYS), KEYS)?;
    let parts = [part(typed, first)?, part(typed, &spec.to_string())?];
    let transport = Carrier::Made(Arc::new(Preference::of(typed, parts.into(), &knobs)?));
    // It has no options: none of its text is a knob that could be varied.
    let spec = Spec { name: typed.to_owned(), options: Vec::new() };
    Ok(Contender::plain(transport, knobs, spec))
}

/// Returns an order of preference with both of its contenders rewritten, and its own knobs unchanged.
pub(super) fn each(typed: &str, rewrite: impl Fn(&str) -> Result<String>) -> Result<String> {
    let Some((first, second)) = typed.split_once(SIGN) else {
        return rewrite(typed);
    };
    let mut spec = Spec::parse(second.trim())?;
    let own = spec.split_off(KEYS);
    let mut spec = Spec::parse(&rewrite(&spec.to_string())?)?;
    spec.options.extend(own.options);
    Ok(format!("{}{SIGN}{spec}", rewrite(first.trim())?))
}

fn part(whole: &str, typed: &str) -> Result<Part> {
    let refuse = |why: String| Error::usage(format!("`{whole}`: {why}"));
    if is_mix(typed) {
        return Err(refuse("no mix takes part in an order of preference".to_owned()));
    }
    if let Some(own) = Spec::parse(typed)?.split_off(KEYS).options.first() {
        return Err(refuse(format!(
            "`{}` goes to the second, as 'udp|tcp:{}={}'",
            own.0, own.0, own.1
        )));
    }
    let contender = Contender::listed(typed).map_err(|why| refuse(why.to_string()))?;
    if contender.via != Via::Direct {
        return Err(refuse("no relay stands before a part of it; leave out via".to_owned()));
    }
    let name = contender.transport.info().id.to_owned();
    Ok(Part { name, contender, numbers: Vec::new(), lanes: Vec::new(), host: None })
}

/// Order of preference, for any work or for a particular one.
struct Preference {
    info: Info,
    parts: Vec<Part>,
    after: Nanos,
    /// Time of silence after which it falls back; `None` if it does so at the start only.
    silence: Option<Nanos>,
}

impl Preference {
    fn of(typed: &str, parts: Vec<Part>, knobs: &Settings) -> Result<Preference> {
        let refuse = |why: String| Err(Error::usage(format!("`{typed}`: {why}")));
        if parts[0].name == parts[1].name {
            return refuse(format!(
                "`{}` would fall back on itself; name two transports",
                parts[0].name
            ));
        }
        let reach = reach(typed, &parts)?;
        let promised = guarantees(&parts);
        let is_reliable = promised.service.delivery == Delivery::Reliable;
        let silence = match knobs.find(&SILENCE) {
            Some(Some(_)) if is_reliable => {
                return refuse(
                    "both promise that everything arrives, and what is under way would be lost in a change \
                     amid the work; it falls back at the start only, so leave out silence"
                        .to_owned(),
                );
            }
            None if is_reliable => None,
            None => Some(USUAL_SILENCE),
            Some(asked) => asked,
        };
        let guarantees = match silence {
            // Late messages of the first may arrive after messages of the second, and neither connection ends by
            // itself.
            Some(_) => Guarantees {
                service: deadheat_contract::contract::Service {
                    ordering: Ordering::Unordered,
                    ..promised.service
                },
                ending: Ending::Silent,
                ..promised
            },
            None => promised,
        };
        let info = Info {
            id: ID,
            label: "order of preference",
            colour: "#5f6f52",
            implementation: "several",
            summary: FORM.1,
            guarantees,
            reach,
            framing_bytes: parts.iter().map(|part| part.info().framing_bytes).max().unwrap_or(0),
            keys: KEYS,
            real_time: Some(
                "an order of preference falls back from one protocol of IP on another, and a simulated path has \
                 UDP only; race it without `sim:`",
            ),
            // Two connections, one on standby, are watched at all times.
            is_kept_up: silence.is_some() || any_is_kept_up(&parts),
            ..Info::KERNEL
        };
        let after = knobs.get(&AFTER);
        Ok(Preference { info, parts, after, silence })
    }

    fn terms(&self, lanes: Guarantees) -> PreferenceTerms {
        let mut asked: Effective =
            [("after".to_owned(), self.after.to_string())].into_iter().collect();
        let silence = self.silence.map_or("off".to_owned(), |span| span.to_string());
        asked.insert("silence".to_owned(), silence);
        let bulk = match lanes.framing {
            Framing::Messages => Bulk::Messages,
            Framing::ByteStream => Bulk::Own,
        };
        let names = [0, 1].map(|at| self.parts[at].name.clone());
        PreferenceTerms { names, silence: self.silence, asked, bulk }
    }

    /// Opens a connection of one of the two contenders.
    fn open(&self, dial: &Dial<'_>, at: usize, timeout: Nanos) -> Result<Box<dyn Conn>> {
        let (to, hello) = target(dial, self.parts.len(), at)?;
        let Part { contender, lanes, .. } = &self.parts[at];
        let largest_message = dial.largest_message.max(NOTE);
        let (to, knobs) = (&to, &contender.knobs);
        let dial = Dial { to, hello, knobs, lanes, largest_message, timeout, ..*dial };
        contender.transport.dial(&dial).map_err(|error| named(&self.parts[at].name, error))
    }
}

/// Returns the guarantees that both give.
fn guarantees(parts: &[Part]) -> Guarantees {
    let each = || parts.iter().map(|part| part.contender.promised());
    let lanes = each().map(|one| one.lanes).min().unwrap_or(1);
    let framing = if each().all(|one| one.framing == Framing::ByteStream) {
        Framing::ByteStream
    } else {
        // A length prefix makes messages of a byte stream.
        Framing::Messages
    };
    Guarantees { framing, ..weakest(parts, lanes) }
}

impl Transport for Preference {
    fn info(&self) -> &Info {
        &self.info
    }

    fn several(&self) -> Option<&dyn Several> {
        Some(self)
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let terms = self.terms(self.info.guarantees);
        let note = Note::of(&dial.hello);
        let began = Monotonic.now();
        let patience = self.after.min(dial.timeout);
        let (mut conn, second, fell_back) = match self.open(dial, 0, patience) {
            Ok(first) if self.silence.is_some() => {
                let names = [0, 1].map(|at| self.parts[at].name.as_str());
                let open = || self.open(dial, 1, patience);
                let (first, second) = open_beside(names, first, open)?;
                (first, second, None)
            }
            Ok(first) => (first, None, None),
            Err(first) => {
                let second =
                    self.open(dial, 1, dial.timeout).map_err(|second| both(&first, second))?;
                (second, None, Some(Monotonic.now() - began))
            }
        };
        let kind = if second.is_some() { NoteKind::Both } else { NoteKind::Alone };
        let name = &terms.names[usize::from(fell_back.is_some())];
        agree(&mut *conn, &note, kind, dial.timeout).map_err(|error| named(name, error))?;
        let made = terms.conn(usize::from(fell_back.is_some()), conn, second, note)?;
        Ok(Box::new(match fell_back {
            Some(after) => made.fell_back(after),
            None => made,
        }))
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let token = listen.token;
        let listeners =
            part_listeners(&self.parts, &[true; 2], listen.largest_message.max(NOTE), listen)?;
        let terms = self.terms(self.info.guarantees);
        Ok(Box::new(PreferenceListener::open(listeners, token, terms)?))
    }
}

impl Several for Preference {
    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn suit(&self, work: &dyn AsksLanes) -> Result<Carrier> {
        let mut parts = self.parts.clone();
        for part in &mut parts {
            let own = part.contender.promised();
            part.lanes = work.lanes(&Guarantees { lanes: self.info.guarantees.lanes, ..own });
        }
        let Preference { after, silence, .. } = *self;
        let info = Info { ..self.info };
        Ok(Carrier::Made(Arc::new(Preference { info, parts, after, silence })))
    }
}

/// Returns the error if neither could be opened.
fn both(first: &Error, second: Error) -> Error {
    match second {
        Error::Blocked { evidence } => Error::blocked(format!("{first}; {evidence}")),
        other => other,
    }
}

impl PreferenceTerms {
    /// Makes the connection out of the carrier and the one on standby.
    pub(super) fn conn(
        &self,
        at: usize,
        conn: Box<dyn Conn>,
        second: Option<Box<dyn Conn>>,
        note: Note,
    ) -> Result<PreferringConn> {
        let strand = |at: usize, conn| PreferenceStrand {
            name: self.names[at].clone(),
            conn,
            is_over: false,
        };
        let alone = PreferringConn::alone(strand(at, conn), note, self.asked.clone(), self.bulk);
        match (second, self.silence) {
            (Some(second), Some(silence)) => alone
                .with(strand(1, second), silence)
                .map_err(|e: io::Error| Error::setup("wait for two connections at once", e)),
            _ => Ok(alone),
        }
    }
}
