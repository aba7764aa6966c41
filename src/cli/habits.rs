//! Options that people know from iperf3, irtt, ping and tc, answered with the options that do the same here.
//! No option is silently accepted with another meaning.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// An option of other tools, and the option that does the same here.
struct Habit {
    typed: &'static [&'static str],
    /// Unit that other tools give a bare number.
    unit: &'static str,
    /// Text in the place of `{}` where no value was typed.
    example: &'static str,
    says: &'static str,
}

const fn habit(
    typed: &'static [&'static str],
    (unit, example): (&'static str, &'static str),
    says: &'static str,
) -> Habit {
    Habit { typed, unit, example, says }
}

/// Unit and example of options with a value of another form here.
const ITS_OWN: (&str, &str) = ("", "");

const HABITS: &[Habit] = &[
    habit(&["-u", "--udp"], ITS_OWN, "name the contender instead: deadheat race udp"),
    habit(
        &["-t", "--time", "-d", "--duration"],
        ("s", "5s"),
        "--budget 60s limits the whole race; -w bulk:time={} sets the length of a trial",
    ),
    habit(
        &["-l", "--length", "--len", "--size", "-s"],
        ("", "64"),
        "the size of messages is part of the workload: -w ping:size={}",
    ),
    habit(
        &["-n", "--bytes"],
        ("", "1GB"),
        "the amount is part of the workload: -w bulk:bytes={}, with its unit",
    ),
    habit(
        &["-c", "--count"],
        ITS_OWN,
        "write --to HOST to race against another host, or -w ping:count=100 for the number of messages",
    ),
    habit(&["--client"], ("", "HOST"), "the other host is named by --to {}"),
    habit(&["--server"], ITS_OWN, "the other end is a subcommand: deadheat serve"),
    habit(
        &["-R", "--reverse"],
        ITS_OWN,
        "the direction is part of the workload: -w bulk:direction=down",
    ),
    habit(
        &["--bidir", "--full-duplex"],
        ITS_OWN,
        "the direction is part of the workload: -w cbr:rate=20mbit,direction=both",
    ),
    habit(
        &["-P", "--parallel"],
        ("", "4"),
        "the number of streams is part of the workload: -w bulk:streams={}",
    ),
    habit(
        &["-b", "--bitrate", "--bandwidth"],
        ITS_OWN,
        "for a constant load, -w cbr:rate=20mbit; for the rate of the path, --path rate=20mbit",
    ),
    habit(
        &["-C", "--congestion"],
        ("", "bbr"),
        "congestion control belongs to the contender: deadheat race tcp:cc={}",
    ),
    habit(
        &["-N", "--no-delay", "--nodelay"],
        ITS_OWN,
        "it belongs to the contender: deadheat race tcp:nodelay=on",
    ),
    habit(&["-A", "--affinity"], ITS_OWN, "the CPUs of the two ends: --placement 0,1"),
    habit(&["-p", "--port"], ("", "5210"), "the port stands behind the host: --to HOST:{}"),
    habit(&["--loss"], ("%", "1%"), "loss is part of the path: --path loss={}"),
    habit(&["--delay", "--latency"], ("ms", "25ms"), "delay is part of the path: --path delay={}"),
    habit(&["--jitter"], ("ms", "2ms"), "jitter is part of the path: --path delay=25ms,jitter={}"),
    habit(&["--rate"], ("", "20mbit"), "the rate is part of the path: --path rate={}"),
    habit(&["-r", "--runs"], ("", "20"), "a race runs in blocks of trials: --blocks {}"),
    habit(&["-v", "--verbose"], ITS_OWN, "--details shows all there is to say"),
    habit(
        &["--no-samples"],
        ITS_OWN,
        "raw samples are kept only where --samples asks for them; leave it out",
    ),
];

/// Prints the fault of the command line, and ends the program.
pub(super) fn refuse(error: &clap::Error) -> ! {
    let typed: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    match answer(error, &typed) {
        Some(answer) => {
            tell!("deadheat: {answer}");
            std::process::exit(2)
        }
        None => error.exit(),
    }
}

/// Returns the option that does here the work of an unknown option of other tools. `line` is the command line with the
/// program's name.
fn answer(error: &clap::Error, line: &[String]) -> Option<String> {
    let is_race = line.get(1).is_some_and(|word| word == "race" || word.starts_with('-'));
    if error.kind() != ErrorKind::UnknownArgument || !is_race {
        return None;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let option = option.split('=').next().unwrap_or(option);
    let habit = HABITS.iter().find(|habit| habit.typed.contains(&option))?;
    let value = value(option, line).filter(|_| habit.says.contains("{}"));
    let shown = value.map_or_else(|| option.to_owned(), |value| format!("{option} {value}"));
    let meant = value.map_or_else(|| habit.example.to_owned(), |value| habit.meant(value));
    Some(crate::foreign::visible(&format!("`{shown}`: {}", habit.says.replace("{}", &meant))))
}

impl Habit {
    /// Returns the value in the notation of this program: a bare number gets its unit.
    fn meant(&self, value: &str) -> String {
        let unit = if value.parse::<f64>().is_ok() { self.unit } else { "" };
        format!("{value}{unit}")
    }
}

/// Returns the value of an option: `--loss=1%`, `-P4`, or the next word.
fn value<'a>(option: &str, line: &'a [String]) -> Option<&'a str> {
    let at = line.iter().position(|word| word.starts_with(option))?;
    let attached = line[at][option.len()..].trim_start_matches('=');
    let next = || line.get(at + 1).map(String::as_str).filter(|next| !next.starts_with('-'));
    if attached.is_empty() { next() } else { Some(attached) }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    fn say(line: &str) -> Option<String> {
        let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
        answer(&Cli::try_parse_from(&line).unwrap_err(), &line)
    }

    #[test]
    fn what_other_tools_call_it_is_answered_with_the_words_that_do_it_here() {
        for (line, wanted) in [
            ("deadheat race -u", "`-u`: name the contender instead: deadheat race udp"),
            (
                "deadheat race tcp --loss 1%",
                "`--loss 1%`: loss is part of the path: --path loss=1%",
            ),
            ("deadheat race --loss=2", "`--loss 2`: loss is part of the path: --path loss=2%"),
            ("deadheat race --delay 5", "--path delay=5ms"),
            ("deadheat race -t 5", "-w bulk:time=5s sets"),
            ("deadheat race tcp -P4", "`-P 4`: the number of streams"),
            ("deadheat -c far.example", "--to HOST"),
            ("deadheat --size 64", "-w ping:size=64"),
            ("deadheat race tcp -R --quick", "direction=down"),
            ("deadheat race tcp -C", "tcp:cc=bbr"),
        ] {
            let said = say(line).unwrap_or_default();
            assert!(said.contains(wanted), "{line}: {said}");
        }
        assert_eq!(say("deadheat race tcp --bugdet 5s"), None);
        assert_eq!(say("deadheat report -u"), None);
    }

    #[test]
    fn no_option_of_a_race_is_answered_as_if_it_were_none() {
        let command = Cli::command();
        let race = command.find_subcommand("race").unwrap();
        let known = race.get_arguments().flat_map(|argument| {
            let long = argument.get_long().map(|long| format!("--{long}"));
            long.into_iter().chain(argument.get_short().map(|short| format!("-{short}")))
        });
        let known: Vec<String> = known.collect();
        for typed in HABITS.iter().flat_map(|habit| habit.typed) {
            assert!(!known.iter().any(|option| option == typed), "{typed} exists");
        }
    }
}
