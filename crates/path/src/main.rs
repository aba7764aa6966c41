//! `deadheat-path`: any program on an emulated network.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::foreign;
use deadheat_base::spec::Key;
use deadheat_path::run::{self, Request, Talk};
use deadheat_path::{grammar, profile};

const HELP: &str = include_str!("help.txt");

fn main() -> ExitCode {
    if let Some(code) = run::enter() {
        return code;
    }
    let typed: Vec<OsString> = std::env::args_os().skip(1).collect();
    match start(&typed) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Standard error may be closed; the exit status shows the failure, too.
            let said = foreign::lines(&error.to_string());
            let _ = writeln!(io::stderr(), "deadheat-path: {said}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs the command as typed; returns the exit code.
fn start(typed: &[OsString]) -> Result<u8> {
    let Some(first) = typed.first() else {
        return Err(Error::usage(format!("which command?\n\n{HELP}")));
    };
    match first.to_string_lossy().as_ref() {
        "run" => match request(&typed[1..])? {
            Some(request) => run::run(request),
            None => print(HELP),
        },
        "list" => print(&list()),
        "-h" | "--help" | "help" => print(HELP),
        "-V" | "--version" => print(concat!("deadheat-path ", env!("CARGO_PKG_VERSION"), "\n")),
        other => Err(unknown("subcommand", other, &["run", "list"])),
    }
}

/// Parses the request of `run`; `None` if help was requested.
fn request(typed: &[OsString]) -> Result<Option<Request>> {
    let text = |typed: &OsString| {
        let wrong = || Error::usage(format!("`{}` is not text (UTF-8)", typed.to_string_lossy()));
        typed.to_str().map(str::to_owned).ok_or_else(wrong)
    };
    let mut request = Request {
        path: String::new(),
        host: None,
        beside: Vec::new(),
        far: None,
        far_ready: None,
        talk: Talk::All,
        every: None,
        pcap: None,
        command: Vec::new(),
    };
    let (mut path, mut words) = (None, typed.iter());
    while let Some(typed) = words.next() {
        let word = text(typed)?;
        let (name, mut value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let mut take = || match value.take().map(Ok).or_else(|| words.next().map(text)) {
            Some(value) => value,
            None => Err(Error::usage(format!("`{name}` needs a value"))),
        };
        match name {
            "-h" | "--help" => return Ok(None),
            "-q" | "--quiet" => request.talk = Talk::Errors,
            "--live" => request.every = Some(std::time::Duration::from_secs(1)),
            "--pcap" => request.pcap = Some(take()?.into()),
            "--host" => request.host = Some(take()?),
            "--on" => request.beside.push(run::beside(&take()?)?),
            "--far" => request.far = Some(take()?),
            "--far-ready" => {
                let port = take()?;
                let wrong = |_| Error::usage(format!("--far-ready `{port}`: no port, 1 to 65535"));
                request.far_ready = Some(port.parse().map_err(wrong)?);
            }
            "--" => {
                request.command = words.by_ref().cloned().collect();
            }
            _ if name.starts_with('-') => {
                let known =
                    ["--host", "--on", "--far", "--far-ready", "--live", "--quiet", "--help"];
                return Err(unknown("option", name, &known));
            }
            _ if path.is_some() => {
                return Err(Error::usage(format!("`{word}`: `--` goes in front of the command")));
            }
            _ => path = Some(word),
        }
    }
    if request.far.is_none() && request.far_ready.is_some() {
        return Err(Error::usage("--far-ready waits for a far command; --far has it"));
    }
    request.path = path
        .ok_or_else(|| Error::usage("which network? `deadheat-path run delay=20ms -- COMMAND`"))?;
    if request.command.is_empty() {
        return Err(Error::usage("no command to run on it; write it behind `--`"));
    }
    Ok(Some(request))
}

/// Lists keys and profiles.
fn list() -> String {
    let mut out = "Keys of a link, or with up. or down. in front of one direction:\n".to_owned();
    put(&mut out, grammar::LINK);
    out += "\nKeys of the whole path, once:\n";
    put(&mut out, grammar::WHOLE);
    out += "\nProfiles of a link; keys that follow one replace its own:\n";
    for profile in profile::ALL {
        out += &format!("  {}: {}\n    {}\n", profile.name, profile.summary, profile.text);
    }
    out
}

fn put(out: &mut String, keys: &[Key]) {
    for key in keys {
        let default = match key.default {
            "" => String::new(),
            default => format!(" [{default}]"),
        };
        *out += &format!("  {}={}{default}\n    {}\n", key.name, key.kind.describe(), key.doc);
    }
}

/// Writes to standard output; a reader that is gone (`| head`) is no error.
fn print(text: &str) -> Result<u8> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::setup("write to standard output", e))
        }
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(typed: &str) -> Result<Option<Request>> {
        request(&typed.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_typed_is_what_is_asked() {
        let request = asked("delay=1ms --far=x --far-ready 80 -q -- ls -l").unwrap().unwrap();
        assert_eq!((request.path.as_str(), request.far.as_deref()), ("delay=1ms", Some("x")));
        assert_eq!((request.far_ready, request.talk), (Some(80), Talk::Errors));
        assert_eq!(request.command, ["ls", "-l"]);
        let several = asked("a--b --host a --on b=x=1 --on a=y -- ls").unwrap().unwrap();
        assert_eq!(several.host.as_deref(), Some("a"));
        let beside = [("b".to_owned(), "x=1".to_owned()), ("a".to_owned(), "y".to_owned())];
        assert_eq!(several.beside, beside);
        assert!(asked("delay=1ms --help").unwrap().is_none());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (typed, said) in [
            ("-- ls", "which network?"),
            ("delay=1ms", "behind `--`"),
            ("delay=1ms ls", "`--` goes in front"),
            ("delay=1ms --fra x -- ls", "did you mean `--far`?"),
            ("delay=1ms --far", "`--far` needs a value"),
            ("a--b --on b -- ls", "HOST=COMMAND"),
            ("delay=1ms --far x --far-ready http -- ls", "no port"),
            ("delay=1ms --far-ready 80 -- ls", "--far has it"),
        ] {
            let error = asked(typed).map(drop).unwrap_err().to_string();
            assert!(error.contains(said), "{typed}: {error}");
        }
    }

    #[test]
    fn the_list_has_every_key_and_profile() {
        let list = list();
        assert!(list.contains("delay=") && list.contains("seed=") && list.contains("lte:"));
    }
}
