//! External contenders: a pair of commands that forward a port, with a contender of the list inside. So any
//! transport with a tunnel program is raced with the same workloads.
//!
//! ```text
//! near end ── tcp ──► near command ── any protocol, over the path ──► far command ── tcp ──► far end
//! ```
//! This module reads the typed form; `trial::between::external` runs the processes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::command_line::{Piece, check_program, pieces, words};
use super::commands::{self, Port};
use super::via::Via;
use super::{
    Carrier, Conn, Contender, Dial, Info, Listen, Listener, Place, Transport, refuse_server,
};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::foreign;
use deadheat_base::spec::outside::Named;
use deadheat_base::spec::typed::Text;
use deadheat_base::spec::{Key, Kind, Settings, Spec, contender};
use deadheat_contract::contract::{Delivery, Guarantees, Reach};

const ID: &str = "external";

/// Form as typed, and its description.
pub const FORM: (&str, &str) = (
    "external:file=PATH",
    "a pair of commands that forward a TCP or UDP port, such as kcptun: the TOML file names them (near, far) and the contender that goes through them (carries); external:near=COMMAND,far=COMMAND,carries=CONTENDER where they have no comma",
);

/// Keys of an external contender.
pub const KEYS: &[Key] = &[FILE.key(), NEAR.key(), FAR.key(), CARRIES.key()];

const FILE: Text = Text::path("file", "file with the keys near, far and carries");
const NEAR: Text = Text::command("near", "command at the near end's host");
const FAR: Text = Text::command("far", "command at the far end's host");
const CARRIES: Text = Text::form(
    "carries",
    Kind::Own { form: "CONTENDER", check: |typed| Kind::Command.check(typed), refers: contender },
    "contender that goes through them",
);

/// Largest size of a file in bytes.
const LONGEST: u64 = 64 << 10;

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

/// Addresses that placeholders of a command stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Address for the command to listen at.
    pub listen: SocketAddr,
    /// Address that the far command listens at; absent for the far command itself.
    pub far: Option<SocketAddr>,
    /// Address that the far end listens at.
    pub target: SocketAddr,
}

impl Places {
    fn get(&self, name: &str) -> Option<String> {
        let (of, part) = name.split_once('_').unwrap_or((name, ""));
        let at = match of {
            "listen" => self.listen,
            "far" => self.far?,
            _ => self.target,
        };
        Some(match part {
            "host" => at.ip().to_string(),
            "port" => at.port().to_string(),
            _ => at.to_string(),
        })
    }
}

/// Program with its arguments, with placeholders for addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Text as typed.
    pub typed: String,
    words: Vec<String>,
}

impl Command {
    /// Reads the command of the end `key`.
    ///
    /// # Errors
    /// [`Error::Usage`] where it is no command, or lacks a placeholder.
    pub fn parse(key: &str, typed: &str) -> Result<Command> {
        let words = words(typed)
            .filter(|words| words.first().is_some_and(|program| !program.is_empty()))
            .ok_or_else(|| {
                Error::usage(format!(
                    "{ID}: {key} = `{typed}` is no command; write a program and its arguments, with ' or \" around \
                     those with spaces"
                ))
            })?;
        let command = Command { typed: typed.to_owned(), words };
        match command.places().into_iter().find(|place| !PLACES.contains(&place.as_str())) {
            Some(place) => Err(unknown(&format!("placeholder in {key}"), &place, &PLACES)),
            None => Ok(command),
        }
    }

    /// Returns the program.
    pub fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Returns the words of the command with the addresses filled in.
    pub fn words(&self, places: &Places) -> Vec<String> {
        let fill = |piece: Piece<'_>| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Place(name) => places.get(name).unwrap_or_default(),
        };
        self.words.iter().map(|word| pieces(word).map(fill).collect()).collect()
    }

    fn places(&self) -> Vec<String> {
        let all = self.words.iter().flat_map(|word| pieces(word));
        all.filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Place(name) => Some(name.to_owned()),
        })
        .collect()
    }

    /// Returns true if it has a placeholder of this address.
    fn names(&self, what: &str) -> bool {
        let port = format!("{what}_port");
        self.places().iter().any(|place| *place == what || *place == port)
    }

    /// Checks that this host has its program.
    fn check(&self) -> Result<()> {
        check_program(self.program(), || format!("{ID}: `{}`", self.typed))
    }
}

/// Pair of commands, and the contender inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Command at the near end's host.
    pub near: Command,
    /// Command at the far end's host.
    pub far: Command,
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

/// Returns true if `typed` has the form of an external contender.
pub fn is_one(typed: &str) -> bool {
    typed.strip_prefix(ID).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
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

/// Returns the files and commands that an external contender names. Does not open the file, so commands in it are
/// missing.
pub fn outside(spec: &Spec, contender: &dyn Fn(&str) -> Result<Vec<Named>>) -> Result<Vec<Named>> {
    commands::outside_with(ID, KEYS, spec, contender)
}

fn read(file: &str) -> Result<PairFile> {
    toml::from_str(&text(file)?).map_err(|error| {
        Error::usage(format!(
            "{file}: {} (keys: near and far, the two commands, and carries, the contender that goes through them)",
            error.to_string().trim_end()
        ))
    })
}

fn text(file: &str) -> Result<String> {
    let wrong = |what: String| Error::usage(format!("{ID}:file={file}: {what}"));
    let bytes = foreign::file::read(Path::new(file), LONGEST).map_err(|e| wrong(e.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not text (UTF-8)".to_owned()))?;
    Ok(foreign::file::unmarked(&text).to_owned())
}

fn made(spec: Spec, written: &PairFile) -> Result<Contender> {
    let (near, far) =
        (Command::parse("near", &written.near)?, Command::parse("far", &written.far)?);
    let misses = |key: &str, command: &Command, what: &str| {
        let why = format!("{ID}: {key} = `{}` has no {{{what}}} in it, ", command.typed);
        (!command.names(what)).then_some(why)
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
            let why =
                far.names("far").then(|| format!("{ID}: far = `{}` has {{far}} in it", far.typed));
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
        below: inside.below,
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
        [&self.pair.near, &self.pair.far].into_iter().try_for_each(Command::check)
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
