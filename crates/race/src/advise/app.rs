//! File of an application: the data it sends, how often, which messages must arrive, and their maximum age. Unknown
//! keys are refused. `docs/advise.md` explains each key.

use std::path::Path as File;

use serde::{Deserialize, Serialize};

use crate::race::{outside, written};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::outside::Outside;
use deadheat_contract::contract::{Congestion, Guarantees};
use deadheat_contract::workload::Traffic;
use deadheat_datapath::transport::Contender;
use deadheat_path::grammar;

/// File format that this version reads.
pub const FORMAT: u32 = 1;

const MOST_TRAFFIC: usize = 8;
const MOST_CONTENDERS: usize = 12;
const LONGEST_NAME: usize = 40;

/// Application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// File format: 1.
    pub format: u32,
    /// Title in one line.
    pub title: String,
    /// Description of the application, in a sentence or two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Path if the command gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<DefaultPath>,
    /// Properties that a transport must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// Contenders to consider; the usual ones if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contenders: Vec<String>,
    /// Traffic, the most important first.
    #[serde(default)]
    pub traffic: Vec<Traffic>,
}

/// The `[path]` of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultPath {
    /// Path as typed: `delay=25ms,loss=1%,rate=20mbit`.
    pub default: String,
}

/// Property that a transport must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// Encryption of all bytes on the path.
    Encrypted,
    /// Congestion control, as shared networks require.
    CongestionControlled,
}

impl Need {
    /// Returns the reason why these guarantees do not satisfy the need; `None` if they do.
    pub fn unmet(self, promised: &Guarantees) -> Option<&'static str> {
        match self {
            Need::Encrypted => (!promised.encrypted).then_some("it is not encrypted"),
            Need::CongestionControlled => (promised.congestion == Congestion::Uncontrolled)
                .then_some("it has no congestion control"),
        }
    }
}

/// Reads and checks the file of an application that may name files and commands of the `allowed` kinds.
///
/// # Errors
/// [`Error::Setup`] if it cannot be read, [`Error::Data`] with the file and the problem in it, [`Error::Usage`] for
/// files and commands that it names without permission.
pub fn load(file: &File, allowed: &[Outside]) -> Result<App> {
    let name = file.display().to_string();
    let app = parse(&written::text(file, "application")?, &name)?;
    let mut named = app.path.iter().map(|path| grammar::outside(&path.default)).collect::<Vec<_>>();
    named.extend(app.contenders.iter().map(|typed| Contender::outside(typed)));
    outside::check(&name, named.into_iter().collect::<Result<Vec<_>>>()?.concat(), allowed)?;
    Ok(app)
}

/// Checks the application in `text`; `name` is its file, for messages.
///
/// # Errors
/// [`Error::Data`].
pub fn parse(text: &str, name: &str) -> Result<App> {
    let app: App = written::parse(text, name)?;
    app.check().map_err(|what| Error::data(name, what))?;
    Ok(app)
}

impl App {
    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!(
                "format {} of an application; this version reads {FORMAT}",
                self.format
            ));
        }
        if self.title.trim().is_empty() {
            return Err("`title` is empty".into());
        }
        match (self.traffic.len(), self.contenders.len()) {
            (0, _) => return Err("an application needs a [[traffic]]".into()),
            (n @ MOST_TRAFFIC.., _) if n > MOST_TRAFFIC => {
                return Err(format!("{n} kinds of traffic; at most {MOST_TRAFFIC}"));
            }
            (_, 1) => return Err("one contender leaves nothing to advise; name two".into()),
            (_, n) if n > MOST_CONTENDERS => {
                return Err(format!("{n} contenders; at most {MOST_CONTENDERS}"));
            }
            _ => {}
        }
        for (at, typed) in self.contenders.iter().enumerate() {
            if self.contenders[..at].contains(typed) {
                return Err(format!("contender `{typed}` is given twice"));
            }
        }
        for (at, traffic) in self.traffic.iter().enumerate() {
            let name = &traffic.name;
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let is_name = (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(plain);
            if !is_name || name.starts_with('-') || name.ends_with('-') {
                return Err(format!(
                    "traffic `{name}`: a name has lower-case letters, digits and dashes between them, at \
                     most {LONGEST_NAME}"
                ));
            }
            if self.traffic[..at].iter().any(|other| other.name == *name) {
                return Err(format!("traffic `{name}` is given twice"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"
format = 1
title = "A game"
needs = ["encrypted"]
[path]
default = "delay=25ms"
[[traffic]]
name = "world"
kind = "state"
per-second = 30
"#;

    #[test]
    fn a_sound_file_is_read() {
        let app = parse(SOUND, "game.toml").unwrap();
        assert_eq!((app.traffic.len(), &app.needs[..]), (1, &[Need::Encrypted][..]));
        assert_eq!(app.path.unwrap().default, "delay=25ms");
    }

    #[test]
    fn every_mistake_is_named() {
        let twice = "[[traffic]]\nname = \"world\"\nkind = \"voice\"\nper-second";
        for (from, to, wanted) in [
            (
                "per-second",
                "per-secnd",
                "line 10: unknown key `per-secnd`; did you mean `per-second`?",
            ),
            ("needs", "neds", "unknown key `neds`; did you mean `needs`?"),
            ("\"state\"", "\"stat\"", "`stat` is none of state, events"),
            ("[\"encrypted\"]", "[\"fast\"]", "`fast` is none of encrypted, congestion-controlled"),
            ("format = 1", "format = 2", "format 2 of an application; this version reads 1"),
            ("format = 1", "", "the key `format` is missing"),
            ("\"A game\"", "\" \"", "`title` is empty"),
            ("name = \"world\"", "name = \"My World\"", "a name has lower-case letters"),
            ("per-second", twice, "traffic `world` is given twice"),
            ("needs", "contenders = [\"tcp\"]\nneeds", "one contender leaves nothing to advise"),
            ("needs", "contenders = [\"tcp\", \"tcp\"]\nneeds", "contender `tcp` is given twice"),
        ] {
            assert!(SOUND.contains(from), "{from}");
            let error = parse(&SOUND.replacen(from, to, 1), "game.toml").expect_err(to);
            let said = error.to_string();
            assert!(said.starts_with("game.toml: ") && said.contains(wanted), "{said}");
        }
        assert!(
            parse("format = 1\ntitle = \"x\"", "x").unwrap_err().to_string().contains("needs a")
        );
    }
}
