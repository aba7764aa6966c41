//! Options that open responders: `--NAME[=PORT]` for each that the program has, and the file with its key.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::secret;
use deadheat_base::error::{Error, Result};
use deadheat_datapath::transport::responder::{ALL, Responder};
use deadheat_server::{ResponderSetup, Secret};

/// Responders as typed.
#[derive(Debug, Clone, Default)]
pub(super) struct ResponderArgs(Vec<TypedResponder>);

#[derive(Debug, Clone)]
struct TypedResponder {
    responder: &'static dyn Responder,
    /// Port, if one was typed.
    port: Option<u16>,
    key_file: Option<PathBuf>,
    is_open: bool,
}

impl Args for ResponderArgs {
    fn augment_args(mut command: Command) -> Command {
        for responder in ALL.iter() {
            let info = responder.info();
            let port = Arg::new(info.id)
                .long(info.id)
                .value_name("PORT")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("")
                .value_parser(port)
                .help(format!("{} [default: {}]", info.summary, info.port));
            command = command.arg(port);
            if let Some(key) = info.key {
                let file = Arg::new(key.option)
                    .long(key.option)
                    .value_name("FILE")
                    .requires(info.id)
                    .hide_short_help(true)
                    .value_parser(value_parser!(PathBuf))
                    .help(format!("Answer {} only with the key in this file: {}", info.clients, key.what))
                    .long_help(format!(
                        "Answer {} only with the key in this file: {}\n\nThe variable {} may hold it instead.",
                        info.clients, key.what, key.variable
                    ));
                command = command.arg(file);
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        ResponderArgs::augment_args(command)
    }
}

impl FromArgMatches for ResponderArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<ResponderArgs, clap::Error> {
        let of = |responder: &&'static dyn Responder| {
            let info = responder.info();
            let port = matches.get_one::<Option<u16>>(info.id).copied();
            let key_file = info.key.and_then(|key| matches.get_one::<PathBuf>(key.option).cloned());
            let (responder, is_open) = (*responder, port.is_some());
            TypedResponder { responder, port: port.flatten(), key_file, is_open }
        };
        Ok(ResponderArgs(ALL.iter().map(of).filter(|typed| typed.is_open).collect()))
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = ResponderArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ResponderArgs {
    /// Returns the responders to open. `variable` reads the environment.
    ///
    /// # Errors
    /// A key that cannot be read, or is empty; two responders at one port.
    pub(super) fn resolve(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<ResponderSetup>> {
        let mut setups: Vec<ResponderSetup> = Vec::new();
        for typed in &self.0 {
            let info = typed.responder.info();
            let port = typed.port.unwrap_or(info.port);
            if let Some(other) = setups.iter().find(|other| other.port == port && port != 0) {
                let other = other.responder.info().id;
                return Err(Error::usage(format!(
                    "`--{other}` and `--{}` have port {port} both; give one another: --{}=PORT",
                    info.id, info.id
                )));
            }
            let variable = info.key.and_then(|key| Some((key, variable(key.variable)?)));
            let key = match (&typed.key_file, variable) {
                (Some(file), _) => Some(secret::in_file(file)?),
                (None, Some((key, text))) => Some(Secret::new(&text, key.variable)?),
                (None, None) => None,
            };
            setups.push(ResponderSetup { responder: typed.responder, port, key });
        }
        Ok(setups)
    }

    /// Returns the files with keys.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter().filter_map(|typed| typed.key_file.as_ref())
    }
}

/// Reads a port; `None` for the usual one.
fn port(typed: &str) -> std::result::Result<Option<u16>, String> {
    match typed {
        "" => Ok(None),
        typed => {
            typed.parse().map(Some).map_err(|_| "a port is a number from 1 to 65535".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &[&str]) -> std::result::Result<ResponderArgs, clap::Error> {
        let command = ResponderArgs::augment_args(Command::new("serve"));
        let matches = command.try_get_matches_from([&["serve"], line].concat())?;
        ResponderArgs::from_arg_matches(&matches)
    }

    #[test]
    fn each_responder_has_an_option_with_a_port_of_its_own() {
        for responder in ALL.iter() {
            let info = responder.info();
            let (bare, with) = (format!("--{}", info.id), format!("--{}=4711", info.id));
            let ports = [(bare.as_str(), info.port), (with.as_str(), 4711)];
            for (option, port) in ports {
                let setups = typed(&[option]).unwrap().resolve(|_| None).unwrap();
                assert_eq!(setups.len(), 1);
                assert_eq!((setups[0].responder.info().id, setups[0].port), (info.id, port));
                assert!(setups[0].key.is_none());
            }
        }
        assert!(typed(&[]).unwrap().resolve(|_| None).unwrap().is_empty());
    }

    #[test]
    fn two_at_one_port_and_a_port_that_is_none_are_refused() {
        let ids: Vec<&str> = ALL.iter().map(|one| one.info().id).take(2).collect();
        if let [one, two] = ids[..] {
            let (one, two) = (format!("--{one}=4711"), format!("--{two}=4711"));
            let why = typed(&[&one, &two]).unwrap().resolve(|_| None).unwrap_err().to_string();
            assert!(why.contains("port 4711 both"), "{why}");
        }
        let first = format!("--{}=99999", ids[0]);
        assert!(typed(&[&first]).is_err());
    }
}
