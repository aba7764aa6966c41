//! Setting of idle CPUs while trials run.

use deadheat_base::error::{Result, unknown};

/// Behaviour of idle CPUs while trials run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// Idle CPUs wait in the kernel's idle loop, and wake up at once.
    Awake,
    /// Idle CPUs sleep by the host's own setting.
    Host,
}

const NAMES: &[&str] = &["awake", "host"];

impl Idle {
    /// Parses `awake` or `host`.
    ///
    /// # Errors
    /// [`deadheat_base::error::Error::Usage`] with the error and the valid values.
    pub fn parse(typed: &str) -> Result<Idle> {
        match typed {
            "awake" => Ok(Idle::Awake),
            "host" => Ok(Idle::Host),
            _ => Err(unknown("idle", typed, NAMES)),
        }
    }

    /// Returns its name as typed.
    pub fn name(self) -> &'static str {
        match self {
            Idle::Awake => "awake",
            Idle::Host => "host",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for idle in [Idle::Awake, Idle::Host] {
            assert_eq!(Idle::parse(idle.name()).unwrap(), idle);
        }
        let said = Idle::parse("awoke").unwrap_err().to_string();
        assert!(said.contains("awake"), "{said}");
    }
}
