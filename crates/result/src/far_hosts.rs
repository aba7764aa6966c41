//! Far hosts of a request: one as a rule, several where the work has several far ends.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names of the far hosts as typed after `--to`, in order; at least one. In a result one host is a text, and several
/// are a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "OneOrSeveral", into = "OneOrSeveral")]
pub struct FarHosts(Vec<String>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum OneOrSeveral {
    One(String),
    Several(Vec<String>),
}

impl FarHosts {
    /// Adds another host.
    pub fn push(&mut self, host: impl Into<String>) {
        self.0.push(host.into());
    }

    /// Returns the hosts in order.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl From<&str> for FarHosts {
    fn from(host: &str) -> FarHosts {
        FarHosts(vec![host.to_owned()])
    }
}

impl From<String> for FarHosts {
    fn from(host: String) -> FarHosts {
        FarHosts(vec![host])
    }
}

impl fmt::Display for FarHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl TryFrom<OneOrSeveral> for FarHosts {
    type Error = String;

    fn try_from(hosts: OneOrSeveral) -> Result<FarHosts, String> {
        match hosts {
            OneOrSeveral::One(host) => Ok(FarHosts(vec![host])),
            OneOrSeveral::Several(hosts) if hosts.is_empty() => {
                Err("a list of far hosts has one at least".into())
            }
            OneOrSeveral::Several(hosts) => Ok(FarHosts(hosts)),
        }
    }
}

impl From<FarHosts> for OneOrSeveral {
    fn from(FarHosts(mut hosts): FarHosts) -> OneOrSeveral {
        match hosts.pop() {
            Some(host) if hosts.is_empty() => OneOrSeveral::One(host),
            last => {
                hosts.extend(last);
                OneOrSeveral::Several(hosts)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_is_a_text_and_several_are_a_list() {
        let mut hosts = FarHosts::from("a.example");
        let json = |hosts: &FarHosts| serde_json::to_string(hosts).unwrap();
        assert_eq!(json(&hosts), r#""a.example""#);
        hosts.push("b.example:5211");
        assert_eq!(json(&hosts), r#"["a.example","b.example:5211"]"#);
        assert_eq!(hosts.to_string(), "a.example, b.example:5211");
        for text in [r#""a""#, r#"["a","b"]"#] {
            assert_eq!(json(&serde_json::from_str(text).unwrap()), text);
        }
        assert!(serde_json::from_str::<FarHosts>("[]").is_err());
    }
}
