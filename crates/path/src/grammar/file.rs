//! Network in a file: TOML with the links and what holds for all of them. It becomes the text of a path, so that a file can
//! have nothing that a path as typed has not.

use std::fmt::Write;

use serde::Deserialize;

use super::hosts;
use super::short::{key_of, overruled};
use crate::files::Files;
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::foreign::short;

/// Beginning of a path that stands in a file.
pub(super) const FILE: &str = "file=";

/// Network as it stands in a file.
#[derive(Deserialize)]
struct NetworkFile {
    #[serde(default)]
    link: Vec<FileLink>,
    /// Keys of the whole network.
    #[serde(flatten)]
    whole: toml::Table,
}

/// Link as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    /// Names of its two hosts.
    between: [String; 2],
    /// Words of the link: `lte`, `delay=5ms,up.rate=10mbit`; none for a link without impairments.
    #[serde(default)]
    path: String,
}

/// Splits `file=NAME,key=value,…` into the name and the keys behind it.
pub(super) fn split(typed: &str) -> Option<(&str, &str)> {
    let rest = typed.strip_prefix(FILE)?;
    Some(rest.split_once(',').unwrap_or((rest, "")))
}

/// Reads the text of a network from its file. Keys of the whole network in `typed` take the place of the file's.
///
/// # Errors
/// [`Error::Data`] with the file, the place and the mistake; as for [`crate::files::read`] and [`overruled`].
pub(super) fn text(name: &str, typed: &str, files: &mut Files<'_>) -> Result<String> {
    let network: NetworkFile = toml::from_str(&files.text(name)?)
        .map_err(|error| Error::data(name, short(error.to_string().trim())))?;
    let mut text = String::new();
    for (at, link) in network.link.iter().enumerate() {
        let [a, b] = &link.between;
        let words = link.path.trim();
        let wrong = |what: String| Error::data(name, format!("[[link]] {}: {what}", at + 1));
        if words.contains('+') {
            return Err(wrong(format!("`{words}`: each link is a [[link]] of its own")));
        }
        let named = if words.is_empty() { Ok(Vec::new()) } else { super::outside(words) };
        if !named.map_err(|error| wrong(error.to_string()))?.is_empty() {
            return Err(wrong(format!(
                "`{words}` names a file; a network's file opens no other, so type this network as a --path"
            )));
        }
        let sign = if at > 0 { " + " } else { "" };
        let colon = if words.is_empty() { "" } else { ":" };
        let _ = write!(text, "{sign}{a}--{b}{colon}{words}");
    }
    if network.link.is_empty() {
        return Err(Error::data(
            name,
            "has no [[link]]; each has between = [\"a\", \"b\"] and a path",
        ));
    }
    let is_typed = |key: &str| typed.split(',').any(|word| key_of(word) == key);
    let mut own: Vec<String> = Vec::new();
    for (key, value) in &network.whole {
        if !super::WHOLE.iter().any(|whole| whole.name == key) {
            let names: Vec<&str> = super::WHOLE.iter().map(|key| key.name).collect();
            return Err(Error::data(name, unknown("key", key, &names).to_string()));
        }
        if is_typed(key) {
            continue;
        }
        let value = match value {
            toml::Value::String(word) => word.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Array(all)
                if hosts::between(key).is_some() && all.iter().all(toml::Value::is_str) =>
            {
                let all: Vec<&str> = all.iter().filter_map(toml::Value::as_str).collect();
                all.join(hosts::between(key).unwrap_or_default())
            }
            other => {
                let what = format!("{key}: {} is no word or number", other.type_str());
                return Err(Error::data(name, what));
            }
        };
        own.push(format!("{key}={value}"));
    }
    overruled(&overruled(&text, &own.join(","))?, typed)
}
