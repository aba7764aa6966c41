//! An application: the data it sends, how often, which messages must arrive, and their maximum age. `docs/advise.md`
//! explains each key of its file.

use serde::{Deserialize, Serialize};

use deadheat_contract::contract::{Congestion, Guarantees};
use deadheat_contract::workload::Traffic;

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

impl App {
    /// Checks what the file of an application must keep to.
    ///
    /// # Errors
    /// A sentence with the key and its problem.
    pub fn check(&self) -> Result<(), String> {
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
