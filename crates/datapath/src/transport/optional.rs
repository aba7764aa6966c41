//! Contenders behind a Cargo feature of their own, off by default: their dependencies are more than most builds
//! need. The feature has the name of the contender. `all-contenders` has them all, except contenders that take more
//! to be built than Rust and a C compiler; packages of a release are built with it. A build without one says so in its
//! messages, and where it is.

use deadheat_base::error::Error;
use deadheat_contract::handed_in::HandedIn;

/// Contender that a build may leave out.
#[derive(Debug, Clone, Copy)]
pub struct Optional {
    /// Name of the contender, and of its feature.
    pub id: &'static str,
    /// Summary in one line, for lists of builds without it.
    pub summary: &'static str,
    /// Presence in this build.
    pub presence: Presence,
    /// Tools that building it takes beside Rust and a C compiler, if any; `all-contenders` then leaves it out.
    pub takes: Option<&'static str>,
}

/// Presence of an optional contender in this build.
#[derive(Debug, Clone, Copy)]
pub enum Presence {
    /// Built with its feature.
    Built,
    /// Left out.
    LeftOut,
    /// In no build; the function returns the reason on this host.
    Nowhere(fn() -> String),
}

impl Presence {
    /// Returns the presence for a feature that is on or off.
    pub const fn of(is_built: bool) -> Presence {
        if is_built { Presence::Built } else { Presence::LeftOut }
    }
}

impl Optional {
    /// Returns the error for racing it in a build without it, with the remedy.
    pub fn missing(&self) -> Error {
        let Optional { id, .. } = self;
        if let Presence::Nowhere(why) = self.presence {
            return Error::unsupported(*id, why());
        }
        let lacks = match self.takes {
            None => format!("this build leaves it out; {}", in_packages(id)),
            Some(tools) => {
                let build = build_with(id);
                format!(
                    "this build leaves it out, as all packages do; {build} has it, and takes {tools}"
                )
            }
        };
        Error::unsupported(*id, lacks)
    }
}

/// Says where a feature is that this build leaves out and packages have.
pub fn in_packages(feature: &str) -> String {
    format!("each package of a release has it, and {}", build_with(feature))
}

fn build_with(feature: &str) -> String {
    format!("`cargo install --locked --path . --features {feature}`")
}

/// Every contender that a build may leave out and that the program knows, in the order of lists.
pub static ALL: HandedIn<Optional> = HandedIn::new();

/// Returns the contenders that this build leaves out.
pub fn left_out() -> impl Iterator<Item = &'static Optional> {
    ALL.iter().copied().filter(|optional| matches!(optional.presence, Presence::LeftOut))
}

/// Returns the contender of this name if it is known, and not in this build.
pub fn absent(id: &str) -> Option<&'static Optional> {
    let absent = |known: &&Optional| known.id == id && !matches!(known.presence, Presence::Built);
    ALL.iter().copied().find(absent)
}

/// Returns true if the contender of this name is behind a feature that `all-contenders` and packages leave out.
pub fn is_apart(id: &str) -> bool {
    ALL.iter().any(|optional| optional.id == id && optional.takes.is_some())
}

/// Returns true if the contender of this name is behind a feature, whether this build has it or not.
pub fn is_one(id: &str) -> bool {
    ALL.iter().any(|optional| optional.id == id)
}
