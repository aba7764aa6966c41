//! Contenders that consist of others: a mix, in which each lane of the work has a contender of its own, and an
//! order of preference, in which one falls back on another. Their callers use them like any other transport.

use std::os::fd::AsFd;
use std::thread;

use self::form::{is_mix, is_preference};
use super::at_once::{OpenAttempts, OpenTask, at_once};
use super::{Conn, Contender, Info, Listen, Listener};
use crate::transport::Address;
use crate::transport::handover::{ConnectionSource, readable};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{
    Congestion, Delivery, Ending, Framing, Guarantees, Lane, Offers, Ordering as Order, Reach,
    Service,
};

mod agree;
mod form;
mod joined;
mod mix;
mod note;
mod parts_at_server;
mod preference;
mod preferring;

pub use joined::{JoinedConn, MOST, Strand};
use parts_at_server::{PartListener, sources, target};

/// Contender that is a part of another.
#[derive(Debug, Clone)]
pub struct Part {
    /// Name within the whole.
    pub name: String,
    /// The contender.
    pub contender: Contender,
    /// Lanes of the work that it carries, where lanes are shared out; empty before the work is known.
    pub numbers: Vec<Lane>,
    /// Services of the lanes of its connection; empty before the work is known.
    pub lanes: Vec<Service>,
    /// Host of its far end as typed after `--to`; `None` for the first.
    pub host: Option<String>,
}

impl Part {
    /// Returns its name with its contender: `events (udp)`.
    pub fn title(&self) -> String {
        format!("{} ({})", self.name, self.contender.spec)
    }

    fn info(&self) -> &Info {
        self.contender.transport.info()
    }
}

/// Returns the hosts of the far ends of these parts, each once, in order; the far node `n` is at the host `n`.
pub fn hosts(parts: &[Part]) -> Vec<Option<&str>> {
    let mut hosts = Vec::new();
    for part in parts {
        if !hosts.contains(&part.host.as_deref()) {
            hosts.push(part.host.as_deref());
        }
    }
    hosts
}

/// Returns the error of a part of `whole` whose far end is to be at the host `name`, which is none of the far `hosts`.
pub fn no_such_host(whole: &str, name: &str, hosts: &[&str]) -> Error {
    let those = if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") };
    Error::usage(format!(
        "`{whole}` puts a part at {name}, which is no far host of the race ({those}); add --to {name}"
    ))
}

/// Returns for each part whether it is at the far node with this number, one of [`hosts`].
pub fn at_node(parts: &[Part], node: usize) -> Vec<bool> {
    let hosts = hosts(parts);
    let host = hosts.get(node % hosts.len().max(1)).copied().flatten();
    parts.iter().map(|part| part.host.as_deref() == host).collect()
}

/// Forms of contenders that consist of others or of commands, with descriptions, for lists.
pub const FORMS: &[(&str, &str)] =
    &[mix::FORM, preference::FORM, super::external::FORM, super::commands::FORM];

/// Returns true if `typed` has the form of a contender that consists of others.
pub(super) fn is_one(typed: &str) -> bool {
    is_mix(typed) || is_preference(typed)
}

/// Reads a contender that consists of others; `None` if `typed` is none.
///
/// # Errors
/// [`Error::Usage`] naming the mistake and a correct form.
pub(super) fn parse(typed: &str) -> Result<Option<Contender>> {
    if is_mix(typed) {
        return mix::parse(typed).map(Some);
    }
    is_preference(typed).then(|| preference::parse(typed)).transpose()
}

/// Returns a mix as typed, from the names of lanes with their contenders as typed.
pub fn mixed(parts: impl IntoIterator<Item = (String, String)>) -> String {
    mix::typed(parts)
}

/// Returns a contender that consists of others with each of them rewritten; `None` if `typed` is none.
pub fn each(typed: &str, rewrite: impl Fn(&str) -> Result<String>) -> Option<Result<String>> {
    match (is_mix(typed), is_preference(typed)) {
        (true, _) => Some(mix::each(typed, rewrite)),
        (false, true) => Some(preference::each(typed, rewrite)),
        (false, false) => None,
    }
}

/// Returns the distance that `whole`, which consists of these parts, covers.
fn reach(whole: &str, parts: &[Part]) -> Result<Reach> {
    for part in parts {
        if part.info().peer.is_floor() {
            return Err(Error::usage(format!(
                "`{whole}`: `{}` is answered by the far host's kernel, which carries no part of any work",
                part.contender.spec
            )));
        }
        if part.info().peer.is_group {
            return Err(Error::usage(format!(
                "`{whole}`: `{}` sends to a group of receivers, and the parts of a mix to one; race it by itself",
                part.contender.spec
            )));
        }
    }
    let model = parts.iter().find(|part| part.info().reach == Reach::Process);
    let socket = parts.iter().find(|part| part.contender.transport.userspace().is_none());
    if let (Some(model), Some(socket)) = (model, socket) {
        return Err(Error::usage(format!(
            "`{whole}`: `{}` exists in virtual time only, where nothing carries `{}`",
            model.contender.spec, socket.contender.spec
        )));
    }
    let is = |reach| move |part: &&Part| part.info().reach == reach;
    let inside = parts.iter().find(is(Reach::Machine));
    let outside = parts.iter().find(|part| part.info().reach != Reach::Machine);
    match (inside, outside) {
        (Some(inside), Some(outside)) => Err(Error::usage(format!(
            "`{whole}`: `{}` does not leave its host and `{}` does, and both ends of all parts have to be \
             in the same places",
            inside.contender.spec, outside.contender.spec
        ))),
        (Some(_), None) => Ok(Reach::Machine),
        (None, _) if model.is_some() => Ok(Reach::Process),
        (None, _) => Ok([Reach::Path, Reach::OwnPort]
            .into_iter()
            .find(|least| parts.iter().any(|part| part.info().reach == *least))
            .unwrap_or(Reach::Network)),
    }
}

/// Returns the guarantees of all `parts` together: the weakest of each kind.
fn weakest(parts: &[Part], lanes: u16) -> Guarantees {
    let all = || parts.iter().map(|part| part.contender.promised());
    let delivers = |wanted: fn(Delivery) -> bool| all().any(|one| wanted(one.service.delivery));
    let delivery = match () {
        () if delivers(|one| one == Delivery::BestEffort) => Delivery::BestEffort,
        () if delivers(|one| one != Delivery::Reliable) => Delivery::Within(Nanos::ZERO),
        () => Delivery::Reliable,
    };
    let ordering = if all().all(|one| one.service.ordering == Order::Ordered) {
        Order::Ordered
    } else {
        Order::Unordered
    };
    let framing = if all().all(|one| one.framing == Framing::Messages) {
        Framing::Messages
    } else {
        Framing::ByteStream
    };
    let ending =
        if all().all(|one| one.ending == Ending::Told) { Ending::Told } else { Ending::Silent };
    let congestion = [Congestion::Uncontrolled, Congestion::Backpressure]
        .into_iter()
        .find(|wanted| all().any(|one| one.congestion == *wanted));
    Guarantees {
        service: Service { delivery, ordering },
        others: Offers::NONE,
        lanes,
        framing,
        ending,
        congestion: congestion.unwrap_or(Congestion::Controlled),
        encrypted: all().all(|one| one.encrypted),
        largest_message: all().filter_map(|one| one.largest_message).min(),
    }
}

/// Returns the endpoints of this number of parts.
fn endpoints(of: &Address, parts: usize) -> Result<&[Address]> {
    match of {
        Address::Several(all) if all.len() == parts => Ok(all),
        other => Err(Error::peer(
            other.to_string(),
            format!("{parts} endpoints are needed, one for each part of the contender"),
        )),
    }
}

/// Listens for the parts that are `here`: each at a port of its own, or all at a server's.
fn part_listeners(
    parts: &[Part],
    here: &[bool],
    largest_message: usize,
    listen: Listen<'_>,
) -> Result<Vec<Box<dyn Listener>>> {
    let is_served = matches!(listen.door, ConnectionSource::Handed(_));
    let count = parts.len();
    let doors = sources(listen.door, count)?;
    let all = parts.iter().zip(doors).zip(here).filter(|(_, here)| **here);
    let listeners = all.map(|((part, door), _)| {
        let listener = part.contender.transport.listen(Listen {
            at: listen.at,
            token: listen.token,
            knobs: &part.contender.knobs,
            lanes: &part.lanes,
            largest_message,
            door,
            tickets: listen.tickets.clone(),
        })?;
        let parts = if is_served { count as u16 } else { 1 };
        Ok(Box::new(PartListener { listener, parts }) as Box<dyn Listener>)
    });
    listeners.collect()
}

/// Returns true if the timers of any part's connections must run while no flow runs on them.
fn any_is_kept_up(parts: &[Part]) -> bool {
    parts.iter().any(|part| part.info().is_kept_up)
}

/// Longest time without running the timers of an open connection while others are being opened.
const SOON: Nanos = Nanos::from_millis(10);

/// Connection of a part, with the number of its flow.
type FlowConn = (u16, Box<dyn Conn>);

/// Opens the connections of parts at once, each named for its errors.
fn open_parts(opens: Vec<OpenTask<'_, FlowConn>>) -> Result<Vec<FlowConn>> {
    let names: Vec<String> = opens.iter().map(|open| open.name.clone()).collect();
    let opened = at_once(opens, &|(_, conn), missing| keep_up(&mut **conn, missing));
    let named = opened.into_iter().zip(&names).map(|(opened, name)| {
        // The error of a breakdown has the name already.
        opened.map_err(|error| named(name, error))
    });
    named.collect()
}

/// Open connection, and a second one if there is one.
type WithSpare = (Box<dyn Conn>, Option<Box<dyn Conn>>);

/// Opens a second connection beside `first`, and runs the timers of `first` meanwhile; both have names for errors.
/// Returns `first`, and the second if it could be opened.
///
/// # Errors
/// [`Error::Broken`] where a library breaks down, which is different from a peer that does not answer.
pub fn open_beside(
    names: [&str; 2],
    first: Box<dyn Conn>,
    open: impl FnOnce() -> Result<Box<dyn Conn>> + Send,
) -> Result<WithSpare> {
    let opens = vec![
        OpenTask { name: names[0].to_owned(), open: Box::new(|| Ok(first)) },
        OpenTask { name: names[1].to_owned(), open: Box::new(open) },
    ];
    let mut opened = at_once(opens, &|conn, missing| keep_up(&mut **conn, missing)).into_iter();
    let first = opened.next().transpose()?;
    let first = first.ok_or_else(|| Error::broken(names[0], "it was not opened"))?;
    match opened.next() {
        Some(Ok(second)) => Ok((first, Some(second))),
        Some(Err(broken @ Error::Broken { .. })) => Err(broken),
        Some(Err(_)) | None => Ok((first, None)),
    }
}

/// Runs the timers of a connection while others are missing.
fn keep_up(conn: &mut dyn Conn, missing: &OpenAttempts) {
    while missing.any() {
        let span = conn.next_deadline().map_or(SOON, |due| (due - Monotonic.now()).min(SOON));
        match conn.readiness().fd.map(|fd| readable(fd.as_fd(), span)) {
            Some(Ok(false)) => {}
            // Messages that arrive at a connection of the kernel stay there, and its descriptor shows them.
            Some(_) | None => thread::sleep(Nanos::from_millis(1).into()),
        }
        // An error here recurs in the flow, which reports it.
        let _ = conn.on_deadline(Monotonic.now());
    }
}

/// Puts the name of a part in front of an error; the kind of error is unchanged.
fn named(name: &str, error: Error) -> Error {
    match error {
        Error::Blocked { evidence } => Error::blocked(format!("{name}: {evidence}")),
        Error::Usage(what) => Error::usage(format!("{name}: {what}")),
        Error::Peer { who, what } => Error::peer(format!("{name}: {who}"), what),
        Error::Setup { op, source, advice } => {
            Error::setup_advice(format!("{name}: {op}"), source, advice)
        }
        other => other,
    }
}
