//! Mix: each lane of the work has a contender of its own, as the events of a game in TCP beside its state in UDP.
//!
//! ```text
//! mix:events=tcp,state=udp        lane events ──► one connection of tcp
//!                                 lane state  ──► one connection of udp
//!
//! mix:events=tcp,state=udp:to=B   flow 0, lane events ──► one connection of tcp to the first host of --to
//!                                 flow 1, lane state  ──► one connection of udp to B
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::form::{self, MIX as ID};
use super::{
    JoinedConn, MOST, Part, Strand, any_is_kept_up, at_node, open_parts, part_listeners, reach,
    target, weakest,
};
use crate::transport::at_once::OpenTask;
use crate::transport::via::Via;
use crate::transport::{
    Address, Carrier, Conn, Contender, Dial, Info, Listen, Listener, Several, Transport,
};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::spec::typed::Text;
use deadheat_base::spec::{Key, Kind, Settings, Spec, plain};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::{AsksLanes, Ending, Guarantees, Lane};
use deadheat_contract::recorded::OTHER_LANES;

/// Form as typed, and its description.
pub(super) const FORM: (&str, &str) = (
    "mix:LANE=CONTENDER,…",
    "each lane of the work over a contender of its own, whose knobs are joined with +, as \
     mix:events=tcp:cc=bbr+nodelay=on,state=udp; others=CONTENDER carries the lanes that are not named; with to=HOST among \
     its knobs a part has its far end at another host of --to than the first, as mix:events=tcp,state=udp:to=B",
);

/// Keys of a part beside its contender's.
const KEYS: &[Key] = &[TO.key()];

const TO: Text =
    Text::form("to", Kind::Own { form: "HOST[:PORT]", check: |_| Ok(()), refers: plain })
        .doc("host of the part's far end, as after --to (the first)");

/// Takes the host of its far end out of a part as typed.
fn split_host(typed: &str) -> Result<(Spec, Option<String>)> {
    let mut spec = Spec::parse(typed)?;
    let own = spec.split_off(KEYS);
    let host = Settings::check(&own, KEYS)?.text_of(&TO).map(str::to_owned);
    Ok((spec, host))
}

/// Returns a mix as typed, from the names of lanes with their contenders as typed.
pub(super) fn typed(parts: impl IntoIterator<Item = (String, String)>) -> String {
    let options = parts.into_iter().map(|(lane, part)| (lane, part.replace(',', "+"))).collect();
    Spec { name: ID.to_owned(), options }.to_string()
}

/// Returns a mix with the contender of each part rewritten.
pub(super) fn each(typed: &str, rewrite: impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut spec = Spec::parse(typed)?;
    let each = |part: &str| {
        let (contender, host) = split_host(&part.replace('+', ","))?;
        let rewritten = rewrite(&contender.to_string())?;
        let Some(host) = host else { return Ok(rewritten) };
        let mut whole = Spec::parse(&rewritten)?;
        whole.options.push((TO.name().to_owned(), host));
        Ok(whole.to_string())
    };
    for (lane, part) in &mut spec.options {
        let rewritten: Result<String> = each(part);
        let rewritten =
            rewritten.map_err(|why| Error::usage(format!("{ID}:{lane}={part}: {why}")))?;
        *part = rewritten.replace(',', "+");
    }
    Ok(spec.to_string())
}

/// Reads a mix.
pub(super) fn parse(typed: &str) -> Result<Contender> {
    let spec = Spec::parse(typed)?;
    if !(1..=MOST).contains(&spec.options.len()) {
        return Err(Error::usage(format!(
            "`{typed}` names {} contenders, and 1 to {MOST} can be mixed; write {}",
            spec.options.len(),
            FORM.0
        )));
    }
    let part = |(lane, value): &(String, String)| {
        let typed = value.replace('+', ",");
        if form::is_mix(&typed) {
            return Err(Error::usage(format!("{ID}:{lane}={value}: a mix within a mix")));
        }
        if form::is_preference(&typed) {
            return Err(Error::usage(format!(
                "{ID}:{lane}={value}: an order of preference within a mix"
            )));
        }
        let refuse = |why: Error| Error::usage(format!("{ID}:{lane}={value}: {why}"));
        let (own, host) = split_host(&typed).map_err(refuse)?;
        let contender = Contender::listed(&own.to_string()).map_err(refuse)?;
        if contender.via != Via::Direct {
            return Err(Error::usage(format!(
                "{ID}:{lane}={value}: no relay stands before a part of a mix; leave out via"
            )));
        }
        Ok(Part { name: lane.clone(), contender, numbers: Vec::new(), lanes: Vec::new(), host })
    };
    let parts: Vec<Part> = spec.options.iter().map(part).collect::<Result<_>>()?;
    let transport = Carrier::Made(Arc::new(Mix::of(typed, parts)?));
    // It has no options: none of its text is a knob that could be varied.
    let spec = Spec { name: typed.to_owned(), options: Vec::new() };
    Ok(Contender::plain(transport, Settings::default(), spec))
}

/// Mix of contenders, for any work or for a particular one.
struct Mix {
    typed: String,
    info: Info,
    parts: Vec<Part>,
    /// Number of the far node where its connections arrive; 0 where they are dialled.
    node: u16,
}

impl Mix {
    fn of(typed: &str, parts: Vec<Part>) -> Result<Mix> {
        let lanes = parts.iter().fold(0, |sum: u16, part| match part.name.as_str() {
            OTHER_LANES => sum.saturating_add(part.info().guarantees.lanes),
            _ => sum.saturating_add(1),
        });
        let info = Info {
            id: ID,
            label: "mix",
            colour: "#7a6a4f",
            implementation: "several",
            summary: FORM.1,
            guarantees: weakest(&parts, lanes),
            reach: reach(typed, &parts)?,
            framing_bytes: parts.iter().map(|part| part.info().framing_bytes).max().unwrap_or(0),
            is_kept_up: any_is_kept_up(&parts),
            ..Info::KERNEL
        };
        Ok(Mix { typed: typed.to_owned(), info, parts, node: 0 })
    }

    /// Returns the part that carries each of the work's lanes.
    fn carriers(&self, names: &[String]) -> Result<Vec<usize>> {
        let typed = &self.typed;
        if names.len() < 2 {
            return Err(Error::usage(format!(
                "`{typed}` shares out the lanes of the work, and this work has one; a mix needs several, as -w events has them"
            )));
        }
        let known: Vec<&str> = names.iter().map(String::as_str).chain([OTHER_LANES]).collect();
        for part in &self.parts {
            if !known.contains(&part.name.as_str()) {
                return Err(unknown(&format!("lane in `{typed}`"), &part.name, &known));
            }
        }
        let of = |name: &str| self.parts.iter().position(|part| part.name == name);
        let others = of(OTHER_LANES);
        let carriers = names.iter().map(|name| {
            of(name).or(others).ok_or_else(|| {
                Error::usage(format!(
                    "`{typed}` has no contender for the lane `{name}`; add {name}=CONTENDER, or {OTHER_LANES}=CONTENDER \
                     for all that are not named (lanes: {})",
                    names.join(", ")
                ))
            })
        });
        let carriers: Vec<usize> = carriers.collect::<Result<_>>()?;
        match others.filter(|others| !carriers.contains(others)) {
            None => Ok(carriers),
            Some(_) => Err(Error::usage(format!(
                "`{typed}` names a contender for every lane, and so nothing is left for {OTHER_LANES}"
            ))),
        }
    }
}

impl Transport for Mix {
    fn info(&self) -> &Info {
        &self.info
    }

    fn several(&self) -> Option<&dyn Several> {
        Some(self)
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        let parts = self.parts.len();
        let there = at_node(&self.parts, dial.hello.flow.into());
        let targets =
            (0..parts).map(|part| target(dial, parts, part)).collect::<Result<Vec<_>>>()?;
        let all = self.parts.iter().zip(&targets).zip(&there).filter(|(_, there)| **there);
        let opens = all.map(|((part, (to, hello)), _)| {
            let Part { contender, lanes, .. } = part;
            let open = move || {
                let dial = Dial { to, hello: *hello, knobs: &contender.knobs, lanes, ..*dial };
                Ok((dial.hello.flow, contender.transport.dial(&dial)?))
            };
            OpenTask { name: part.title(), open: Box::new(open) }
        });
        let conns = open_parts(opens.collect())?;
        self.joins(&there).join(conns.into_iter().map(|(_, conn)| conn).collect())
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        let here = at_node(&self.parts, self.node.into());
        let listeners = part_listeners(&self.parts, &here, listen.largest_message, listen);
        Ok(Box::new(MixListener {
            listeners: listeners?,
            joins: self.joins(&here),
            waiting: BTreeMap::new(),
        }))
    }
}

impl Several for Mix {
    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn suit(&self, work: &dyn AsksLanes) -> Result<Carrier> {
        let names = work.lane_names();
        let carriers = self.carriers(&names)?;
        let all = names.len() as u16;
        let mut parts = self.parts.clone();
        for (at, part) in parts.iter_mut().enumerate() {
            let mine = (0..all).zip(&carriers).filter(|(_, carrier)| **carrier == at);
            let mine: Vec<Lane> = mine.map(|(lane, _)| Lane(lane)).collect();
            // The services that the work needs on these lanes of a transport with enough of them.
            let asked = work.lanes(&Guarantees { lanes: all, ..part.contender.promised() });
            let of = |lane: &Lane| asked.get(usize::from(lane.0)).copied();
            part.lanes = mine.iter().filter_map(of).collect();
            part.numbers = mine;
        }
        let guarantees = weakest(&parts, all);
        let mix = Mix::of(&self.typed, parts)?;
        let info = Info { guarantees, ..mix.info };
        let node = work.node().unwrap_or_default();
        Ok(Carrier::Made(Arc::new(Mix { info, node, ..mix })))
    }
}

impl Mix {
    /// Returns the rules for the connections of the parts that are at one far host.
    fn joins(&self, there: &[bool]) -> JoinRules {
        let of = |part: &Part| JoinedPart {
            name: part.name.clone(),
            title: part.title(),
            lanes: part.numbers.clone(),
            tells_end: part.info().guarantees.ending == Ending::Told,
        };
        let parts = self.parts.iter().zip(there).filter(|(_, there)| **there);
        JoinRules(parts.map(|(part, _)| of(part)).collect())
    }
}

/// Rules for joining the connections of the parts.
struct JoinRules(Vec<JoinedPart>);

/// Part of a mix, as needed to join its connection.
struct JoinedPart {
    name: String,
    title: String,
    lanes: Vec<Lane>,
    tells_end: bool,
}

impl JoinRules {
    /// Joins a connection of each part into one.
    fn join(&self, conns: Vec<Box<dyn Conn>>) -> Result<Box<dyn Conn>> {
        let strands = self.0.iter().zip(conns).map(|(joint, conn)| Strand {
            name: joint.name.clone(),
            conn,
            lanes: joint.lanes.clone(),
            tells_end: joint.tells_end,
        });
        let joined = JoinedConn::of_some_lanes(strands.collect());
        Ok(Box::new(joined.map_err(|e| Error::setup("join the connections of a mix", e))?))
    }
}

struct MixListener {
    listeners: Vec<Box<dyn Listener>>,
    joins: JoinRules,
    /// Open connections, by flow and part, of flows that miss others.
    waiting: BTreeMap<u16, Vec<Option<Box<dyn Conn>>>>,
}

impl MixListener {
    /// Takes a flow that has a connection of every part.
    fn whole(&mut self) -> Option<(u16, Vec<Box<dyn Conn>>)> {
        let is_whole = |conns: &Vec<Option<_>>| conns.iter().all(Option::is_some);
        let (flow, _) = self.waiting.iter().find(|(_, conns)| is_whole(conns))?;
        let flow = *flow;
        let conns = self.waiting.remove(&flow)?;
        Some((flow, conns.into_iter().flatten().collect()))
    }

    /// Accepts a connection of every part that a flow misses; of each part if no flow has begun.
    fn accept_missing(&mut self, timeout: Nanos) -> Result<()> {
        let waiting = &self.waiting;
        let misses = |at: usize| {
            waiting.is_empty()
                || waiting.values().any(|conns| conns.get(at).is_none_or(Option::is_none))
        };
        let wanted: Vec<usize> = (0..self.listeners.len()).filter(|at| misses(*at)).collect();
        let listeners = self.listeners.iter_mut().enumerate();
        let opens = listeners.filter(|(at, _)| wanted.contains(at)).map(|(at, listener)| {
            let open = Box::new(move || listener.accept(timeout));
            OpenTask { name: self.joins.0[at].title.clone(), open }
        });
        let accepted = open_parts(opens.collect())?;
        for (at, (flow, conn)) in wanted.into_iter().zip(accepted) {
            let parts = self.joins.0.len();
            let conns =
                self.waiting.entry(flow).or_insert_with(|| (0..parts).map(|_| None).collect());
            conns[at] = Some(conn);
        }
        Ok(())
    }
}

impl Listener for MixListener {
    fn endpoint(&self) -> Address {
        Address::Several(self.listeners.iter().map(|listener| listener.endpoint()).collect())
    }

    fn accept(&mut self, timeout: Nanos) -> Result<(u16, Box<dyn Conn>)> {
        let deadline = Monotonic.now() + timeout;
        loop {
            if let Some((flow, conns)) = self.whole() {
                return Ok((flow, self.joins.join(conns)?));
            }
            self.accept_missing(deadline - Monotonic.now())?;
        }
    }

    fn stays(&self) -> bool {
        self.listeners.iter().any(|listener| listener.stays())
    }
}
