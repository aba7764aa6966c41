//! External contenders: a pair of commands that forward a port, with a contender of the list inside. So any
//! transport with a tunnel program is raced with the same workloads.
//!
//! ```text
//! near end ── tcp ──► near command ── any protocol, over the path ──► far command ── tcp ──► far end
//! ```
//! This module reads the typed form; `trial::between::commands` runs the processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::command_line::check_program;
use super::commands::{self, CommandTemplate, Port};
use super::via::Via;
use super::{
    Carrier, Conn, Contender, Dial, Info, Listen, Listener, Place, Transport, refuse_server,
};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::typed::Text;
use deadheat_base::spec::{Key, Kind, Settings, Spec, contender};
use deadheat_contract::contract::{Delivery, Guarantees, Reach};

/// Name of such contenders.
pub(super) const ID: &str = "external";

/// Form as typed, and its description.
pub const FORM: (&str, &str) = (
    "external:file=PATH",
    "a pair of commands that forward a TCP or UDP port, such as kcptun: the TOML file names them (near, far) and the contender that goes through them (carries); external:near=COMMAND,far=COMMAND,carries=CONTENDER where they have no comma",
);

/// Keys of an external contender.
pub const KEYS: &[Key] = &[FILE.key(), NEAR.key(), FAR.key(), CARRIES.key()];

const FILE: Text = Text::path("file").doc("file with the keys near, far and carries");
const NEAR: Text = Text::command("near").doc("command at the near end's host");
const FAR: Text = Text::command("far").doc("command at the far end's host");
const CARRIES: Text = Text::form(
    "carries",
    Kind::Own { form: "CONTENDER", check: |typed| Kind::Command.check(typed), refers: contender },
)
.doc("contender that goes through them");

/// Placeholders of commands.
const PLACES: [&str; 9] = [
    "listen",
    "listen_host",
    "listen_port",
    "far",
    "far_host",
    "far_port",
    "target",
    "target_host",
    "target_port",
];

/// Pair of commands, and the contender inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Command at the near end's host.
    pub near: CommandTemplate,
    /// Command at the far end's host.
    pub far: CommandTemplate,
    /// Contender that goes through them, in the form that the ends receive.
    pub carries: String,
    /// Protocol of the port that the near command listens at.
    pub port: Port,
}

/// Pair of commands as in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairFile {
    near: String,
    far: String,
    carries: String,
}

/// Reads an external contender, and the file that it names.
pub fn parse(typed: &str) -> Result<Contender> {
    let spec = Spec::parse(typed)?;
    let asked = Settings::check(&spec, KEYS)?;
    let key = |key: &Text| asked.text_of(key).map(str::to_owned);
    let written = match (key(&FILE), key(&NEAR), key(&FAR), key(&CARRIES)) {
        (Some(file), None, None, None) => read(&file)?,
        (None, Some(near), Some(far), Some(carries)) => {
            PairFile { near, far, carries: carries.replace('+', ",") }
        }
        _ => {
            return Err(Error::usage(format!(
                "`{typed}` needs either file, or all of near, far and carries; write {}",
                FORM.0
            )));
        }
    };
    made(spec, &written)
}

/// Recreates the contender of a result. Its file may be gone or changed by now, and is not opened.
pub fn recorded(typed: &str, asked: &BTreeMap<String, String>) -> Result<Contender> {
    let key = |key: &Text| asked.get(key.name()).cloned();
    let spec = Spec::parse(typed)?;
    match (key(&NEAR), key(&FAR), key(&CARRIES)) {
        (Some(near), Some(far), Some(carries)) => made(spec, &PairFile { near, far, carries }),
        _ if spec.options.iter().any(|(key, _)| key == FILE.name()) => Err(Error::usage(format!(
            "`{typed}`: its commands are not recorded, and no file is opened to read a result"
        ))),
        _ => parse(typed),
    }
}

fn read(file: &str) -> Result<PairFile> {
    let keys = "near and far, the two commands, and carries, the contender that goes through them";
    toml::from_str(&commands::text(file, keys)?).map_err(|error| {
        Error::usage(format!("{file}: {} (keys: {keys})", error.to_string().trim_end()))
    })
}

fn made(spec: Spec, written: &PairFile) -> Result<Contender> {
    let (near, far) = (command("near", &written.near)?, command("far", &written.far)?);
    let misses = |key: &str, command: &CommandTemplate, what: &str| {
        let why = format!("{ID}: {key} = `{}` has no {{{what}}} in it, ", command.typed);
        (!has_address(command, what)).then_some(why)
    };
    let wrong = misses("near", &near, "listen")
        .or_else(|| misses("far", &far, "listen"))
        .map(|why| why + "the address that it is to listen at")
        .or_else(|| misses("near", &near, "far").map(|why| why + "the address of the far command"))
        .or_else(|| {
            let why = misses("near", &near, "target").and(misses("far", &far, "target"));
            why.map(|why| why + "and nor has the other: the address that is forwarded to")
        })
        .or_else(|| {
            let why = has_address(&far, "far")
                .then(|| format!("{ID}: far = `{}` has {{far}} in it", far.typed));
            why.map(|why| why + "; its own address is {listen}")
        });
    if let Some(wrong) = wrong {
        return Err(Error::usage(wrong));
    }
    let carries = &written.carries;
    let inside = Contender::listed(carries)
        .map_err(|why| Error::usage(format!("{ID}: carries = `{carries}`: {why}")))?;
    let info = inside.transport.info();
    if info.reach != Reach::Network || !info.peer.is_process_of_ours() || inside.via != Via::Direct
    {
        return Err(Error::usage(format!(
            "{ID}: carries = `{carries}`: the commands forward a TCP or UDP port, and this needs something else; \
             write tcp, udp, or what runs over them"
        )));
    }
    let is_udp = inside.transport.userspace().is_some()
        || info.guarantees.service.delivery == Delivery::BestEffort;
    let port = if is_udp { Port::Udp } else { Port::Tcp };
    let pair = Pair { near, far, carries: carries.clone(), port };
    let knobs = inside.knobs.clone();
    let external = External { info: info_of(info, inside.promised()), pair: pair.clone(), inside };
    let external = Carrier::Made(Arc::new(external));
    Ok(Contender { external: Some(Arc::new(pair)), ..Contender::plain(external, knobs, spec) })
}

fn command(key: &str, typed: &str) -> Result<CommandTemplate> {
    let read = CommandTemplate::new(typed, None, &PLACES, &BTreeMap::new());
    read.map_err(|error| Error::usage(format!("{ID}: {key}: {error}")))
}

/// Returns true if a command has a placeholder of this address.
fn has_address(command: &CommandTemplate, name: &str) -> bool {
    command.names(name) || command.names(&format!("{name}_port"))
}

fn info_of(inside: &Info, guarantees: Guarantees) -> Info {
    Info {
        id: ID,
        label: "external",
        colour: "#5f6b2d",
        implementation: "programs",
        summary: FORM.1,
        guarantees,
        // The far command has a port of its own, which no server hands over.
        reach: Reach::Path,
        framing_bytes: inside.framing_bytes,
        options: inside.options,
        keys: inside.keys,
        is_kept_up: inside.is_kept_up,
        ..Info::KERNEL
    }
}

/// Returns the reason why an external contender cannot be raced to a server, and an alternative.
pub fn unserved(typed: &str) -> String {
    format!(
        "`{typed}`: a server runs no command that a client sends; race it on loopback or with --path, without --to. \
         Or start both commands yourself, the far one with the server's port as its target, and race with --to the near \
         one's address: control then goes through them, too"
    )
}

/// External contender: for the ends it behaves like the contender inside.
struct External {
    info: Info,
    pair: Pair,
    inside: Contender,
}

impl Transport for External {
    fn info(&self) -> &Info {
        &self.info
    }

    fn check(&self) -> Result<()> {
        self.inside.transport.check()?;
        [&self.pair.near, &self.pair.far].into_iter().try_for_each(|command| {
            let place = || format!("{ID}: `{}`", command.typed);
            check_program(&command.program(Path::new("")), place)
        })
    }

    fn check_knob(&self, key: &str, value: &str, place: Place) -> Result<()> {
        self.inside.transport.check_knob(key, value, place)
    }

    fn dial(&self, dial: &Dial<'_>) -> Result<Box<dyn Conn>> {
        self.inside.transport.dial(dial)
    }

    fn listen(&self, listen: Listen<'_>) -> Result<Box<dyn Listener>> {
        refuse_server(&listen.door, ID)?;
        self.inside.transport.listen(listen)
    }
}
