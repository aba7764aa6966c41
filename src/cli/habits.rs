//! Options that people know from iperf3, irtt, ping, tc and speed tests, answered with the words that do the same here.
//! No option is silently accepted with another meaning.

use std::net::IpAddr;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use deadheat_base::foreign::visible;
use deadheat_contract::workload;
use deadheat_datapath::transport;
use deadheat_path::grammar;

mod value;

/// Options of other tools, by the subcommand at which they are typed. Behind an option stand what it is here, and the words
/// that do the same: a part of a command line, or a whole one. Words for a value begin with its kind, and one for the place
/// of `{}` where none was typed; the first that fit are given.
const TABLE: &str = include_str!("habits/habits.txt");

/// Option of other tools, and the words that do the same here.
struct Habit {
    typed: Vec<&'static str>,
    says: &'static str,
    does: Vec<Words>,
}

/// Words that do here what an option does elsewhere.
struct Words {
    kind: &'static str,
    example: &'static str,
    text: &'static str,
}

/// Returns the options of other tools that are typed at a subcommand.
fn habits_of(subcommand: &str) -> Vec<Habit> {
    let words = |text: &'static str| match text
        .split_once(": ")
        .map(|(of, text)| (of.split_once(' '), text))
    {
        Some((Some((kind, example)), text)) => Words { kind, example, text },
        _ => Words { kind: "", example: "", text },
    };
    let habit = |line: &'static str| {
        let mut parts = line.split(" | ");
        let [typed, says] = [(); 2].map(|()| parts.next().unwrap_or_default());
        Habit { typed: typed.split(' ').collect(), says, does: parts.map(words).collect() }
    };
    let heading = format!("[{subcommand}]");
    let own = TABLE.lines().skip_while(|line| *line != heading).skip(1);
    own.take_while(|line| !line.is_empty()).map(habit).collect()
}

/// Prints the fault of the command line, and ends the program.
pub(super) fn refuse(error: &clap::Error) -> ! {
    let typed: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    match answer(error, &typed) {
        Some(answers) => {
            answers.iter().for_each(|answer| tell!("deadheat: {answer}"));
            std::process::exit(2)
        }
        None => error.exit(),
    }
}

/// Returns what to write in the place of a number that was typed where a workload is named: `-w 256K`, a window of
/// iperf3's, or `-w 10`, the deadline of ping; `None` for other text.
pub(super) fn no_workload(typed: &str) -> Option<String> {
    let size = value::window(typed)?;
    let deadline = match typed.parse::<f64>() {
        Ok(_) => format!("; ping's deadline is the time of the workload: -w ping:time={typed}s"),
        Err(_) => String::new(),
    };
    Some(format!(
        "`-w {}`: here -w names the workload; a window is made of the contender's buffers: \
         deadheat race tcp:sndbuf={size},rcvbuf={size} -w bulk{deadline}",
        visible(typed)
    ))
}

/// Returns what to write in the place of a path, a workload, a far end or a result that was typed where a contender is named;
/// `None` for other text.
pub(super) fn no_contender(typed: &str) -> Option<String> {
    let name = typed.split(':').next().unwrap_or(typed);
    let is_named = |(scheme, _): (&str, &str)| scheme.chars().all(|c| c.is_ascii_alphanumeric());
    let is_url = typed.split_once("://").is_some_and(is_named);
    let (kind, right) = if transport::ALL.iter().any(|transport| transport.info().id == name) {
        return None;
    } else if workload::ALL.iter().any(|workload| workload.info().id == name) {
        ("a workload", format!("-w {typed}"))
    } else if grammar::outside(typed).is_ok() {
        ("a path", format!("--path {typed}"))
    } else if is_url || typed.parse::<IpAddr>().is_ok() || is_host(typed) {
        ("a far end", format!("--to {typed}"))
    } else if name == typed && [".json", ".json.gz"].iter().any(|end| typed.ends_with(end)) {
        ("a result", format!("deadheat report {typed}"))
    } else {
        return None;
    };
    Some(visible(&format!("`{typed}` is no contender, but {kind}; write {right}")))
}

/// Endings of names that are files, and no hosts.
const FILES: [&str; 8] = ["json", "gz", "toml", "txt", "csv", "log", "pcap", "html"];

/// Returns true for the name of a host, with its port if there is one: `example.com`, `localhost:5210`. As behind ping
/// and mtr, it stands where a contender belongs.
fn is_host(typed: &str) -> bool {
    let (name, port) = typed.split_once(':').unwrap_or((typed, "0"));
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_domain = name.contains('.') && last.chars().all(|c| c.is_ascii_alphabetic());
    port.parse::<u16>().is_ok()
        && name.split('.').all(is_label)
        && (name == "localhost" || is_domain && last.len() > 1 && !FILES.contains(&last))
}

/// Returns the habits of those who type at the command of this line; `line` has the program's name first.
fn habits(line: &[String]) -> Vec<Habit> {
    match line.get(1).map(String::as_str) {
        Some(word @ ("serve" | "line")) => habits_of(word),
        Some(word) if word == "race" || word.starts_with('-') => habits_of("race"),
        _ => Vec::new(),
    }
}

/// Returns the words that do here the work of the options of other tools in this command line, in their order; `None`
/// if the option that was refused is of none of them.
fn answer(error: &clap::Error, line: &[String]) -> Option<Vec<String>> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(refused)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let refused = refused.split('=').next().unwrap_or(refused);
    let habits = habits(line);
    habits.iter().find(|habit| habit.typed.contains(&refused))?;
    let found = (1..line.len()).filter_map(|at| {
        let typed = TypedOption::at(line, at)?;
        let habit = habits.iter().find(|habit| habit.typed.contains(&typed.option))?;
        Some(visible(&habit.answer(&typed)))
    });
    Some(found.collect())
}

/// An option as typed, and what may be its value.
struct TypedOption<'a> {
    option: &'a str,
    /// Value in the same word: `-P4`, `--loss=1%`.
    attached: Option<&'a str>,
    /// Next word, unless it is an option.
    next: Option<&'a str>,
}

impl<'a> TypedOption<'a> {
    /// Returns the option in a place of the command line; `None` if that is no option.
    fn at(line: &'a [String], at: usize) -> Option<TypedOption<'a>> {
        let word = line.get(at).filter(|word| word.len() > 1 && word.starts_with('-'))?;
        let (option, attached) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            None if word.starts_with("--") => (word.as_str(), None),
            _ => {
                let end = word.char_indices().nth(2).map_or(word.len(), |(end, _)| end);
                let (option, value) = word.split_at(end);
                (option, Some(value.trim_start_matches('=')).filter(|value| !value.is_empty()))
            }
        };
        let next = line.get(at + 1).map(String::as_str).filter(|next| !next.starts_with('-'));
        Some(TypedOption { option, attached, next })
    }
}

impl Habit {
    /// Returns the answer to an option, with its value.
    fn answer(&self, typed: &TypedOption<'_>) -> String {
        let value = typed.attached.or(typed.next);
        let fits = |words: &&Words| value.is_some_and(|v| value::meant(words.kind, v).is_some());
        let chosen = self.does.iter().find(fits);
        let shown = match (typed.attached, chosen) {
            (Some(value), _) => format!("{} {value}", typed.option),
            (None, Some(_)) => format!("{} {}", typed.option, value.unwrap_or_default()),
            (None, None) => typed.option.to_owned(),
        };
        // Without a value that fits: the words that take none, or else those with an example.
        let plain = || self.does.iter().find(|words| words.kind.is_empty());
        let words = match (chosen, value) {
            (Some(words), Some(value)) => Some(words.written(value)),
            _ => plain().or(self.does.first()).map(|words| words.written("")),
        };
        match words {
            Some(words) => format!("`{shown}`: {}: {words}", self.says),
            None => format!("`{shown}`: {}", self.says),
        }
    }
}

impl Words {
    /// Returns the words with a value, or with the example.
    fn written(&self, value: &str) -> String {
        let typed = if value.is_empty() { self.example } else { value };
        let meant =
            value::meant(self.kind, typed).or_else(|| value::meant(self.kind, self.example));
        self.text.replace("{}", &meant.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::race::request;
    use crate::cli::{Cli, Command};
    use deadheat_base::error::Error;

    fn say(line: &str) -> Vec<String> {
        let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
        answer(&Cli::try_parse_from(&line).unwrap_err(), &line).unwrap_or_default()
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
            ("deadheat race -t 5", "`-t 5`: the length of a trial is part"),
            ("deadheat race -t 5", "whole race: -w bulk:time=5s"),
            ("deadheat race tcp -P4", "`-P 4`: the number of streams"),
            ("deadheat -c far.example", "by the workload: --to far.example"),
            ("deadheat race -c 20", "-w ping:count=20"),
            ("deadheat --size 64", "-w ping:size=64"),
            ("deadheat -s", "a subcommand: deadheat serve"),
            ("deadheat race tcp -R --quick", "direction=down"),
            ("deadheat race tcp -C", "tcp:cc=bbr"),
            ("deadheat race tcp -S 0xb8", "`-S 0xb8`: a mark belongs"),
            ("deadheat race tcp -S 0xb8", "udp:dscp=46"),
            ("deadheat race tcp --tos=32", "udp:dscp=8"),
            ("deadheat race tcp --dscp EF", "udp:dscp=ef"),
            ("deadheat race tcp -B 192.0.2.7", "--to HOST --source 192.0.2.7"),
            ("deadheat race tcp -B wlan0", "--to HOST --device wlan0"),
            ("deadheat race tcp -B 192.0.2.7%wlan0", "--source 192.0.2.7 --device wlan0"),
            ("deadheat race tcp --bind-dev wlan0", "--device wlan0"),
            ("deadheat race icmp -I wlan0", "--device wlan0"),
            ("deadheat race tcp -O 3", "-w bulk:warmup=3s"),
            ("deadheat race tcp --ttl 9", "udp:ttl=9"),
            (
                "deadheat race tcp --cport 5000",
                "`--cport 5000`: each trial leaves from a port of its own",
            ),
            ("deadheat race tcp --fq-rate 50M", "tcp:pace=50mbit"),
            ("deadheat race tcp -Z", "deadheat race tcp:io=sendfile -w bulk"),
            ("deadheat race tcp -M 1200", "tcp:mss=1200"),
            ("deadheat race tcp --window 64K", "tcp:sndbuf=64KiB,rcvbuf=64KiB"),
            ("deadheat race tcp -V", "--details"),
            ("deadheat race tcp -f m", "--format csv"),
            ("deadheat race icmp -f", "-w ping:window=1"),
            ("deadheat race icmp -W 2", "-w ping:timeout=2s"),
            ("deadheat race tcp -b 10M", "-w cbr:rate=10mbit"),
            ("deadheat serve -s", "leave the option out"),
            ("deadheat serve -D", "systemd-run"),
            ("deadheat serve -B 192.0.2.7", "deadheat serve --bind 192.0.2.7"),
            ("deadheat serve --one-off", "deadheat serve --once"),
            ("deadheat serve -P 3", "deadheat serve --trials 3"),
            ("deadheat serve -d 10", "deadheat serve --max-duration 10s"),
            ("deadheat serve -i 1", "deadheat race --to HOST -i 1s"),
            ("deadheat line -c far.example", "`-c far.example`: the other host is the first word"),
            ("deadheat line -c far.example", "race's workload: deadheat line far.example"),
            ("deadheat line --to far.example", "deadheat line far.example"),
            ("deadheat line far.example -t 30", "15 s at least: --budget 30s"),
            ("deadheat line far.example -t 10", "15 s at least: --budget 15s"),
            ("deadheat line far.example -w 1m", "--budget 1m"),
            ("deadheat line far.example -p 5201", "deadheat line HOST:5201"),
            ("deadheat line far.example -I wlan0", "--device wlan0"),
            ("deadheat line far.example -B 192.0.2.7", "--source 192.0.2.7"),
            ("deadheat line far.example -i 192.0.2.7", "--source 192.0.2.7"),
            ("deadheat line far.example -i 1", "deadheat race udp --to HOST -i 1s"),
            ("deadheat line far.example -P 4", "-w bulk:streams=4"),
            ("deadheat line far.example --no-upload", "direction=down"),
            ("deadheat line far.example -Q 184", "udp:dscp=46 --to HOST"),
            ("deadheat line far.example --simple", "--format json"),
            ("deadheat line --accept-license", "leave the option out"),
        ] {
            let said = say(line).join("\n");
            assert!(said.contains(wanted), "{line}: {said}");
        }
        assert!(say("deadheat race tcp --bugdet 5s").is_empty());
        assert!(say("deadheat report -u").is_empty());
    }

    #[test]
    fn all_options_of_a_line_are_answered_at_once() {
        assert_eq!(
            say("deadheat race udp -i 10ms -d 1m -l 172 --dscp 0xb8"),
            [
                "`-d 1m`: the length of a trial is part of the workload, and --budget limits the whole race: \
                 -w bulk:time=1m",
                "`-l 172`: the size of messages is part of the workload: -w ping:size=172",
                "`--dscp 0xb8`: a mark belongs to the contender, by DSCP, the upper six bits of the TOS byte: \
                 deadheat race udp:dscp=46",
            ]
        );
        let iperf3 = say("deadheat -c far.example -t 10 -P 8 -R -O 2");
        assert_eq!(iperf3.len(), 5, "{iperf3:#?}");
        assert_eq!(say("deadheat serve -s -D -p 5000").len(), 2);
    }

    #[test]
    fn a_number_is_no_workload() {
        let window = no_workload("256K").unwrap();
        assert!(window.contains("tcp:sndbuf=256KiB,rcvbuf=256KiB"), "{window}");
        assert!(!window.contains("deadline"), "{window}");
        assert!(no_workload("10").unwrap().ends_with("-w ping:time=10s"));
        assert_eq!(no_workload("ping"), None);
    }

    #[test]
    fn a_word_that_is_no_contender_is_answered_with_its_place() {
        for (typed, right) in [
            ("lte", "but a path; write --path lte"),
            ("delay=5ms,loss=1%", "write --path delay=5ms,loss=1%"),
            ("ping:count=20", "but a workload; write -w ping:count=20"),
            ("192.0.2.1", "but a far end; write --to 192.0.2.1"),
            ("https://far.example/x", "write --to https://far.example/x"),
            ("old.json", "write deadheat report old.json"),
        ] {
            let said = no_contender(typed).unwrap();
            assert!(said.ends_with(right), "{said}");
        }
        for contender in [
            "tcp",
            "tcp:cc=bbr",
            "udp|tcp",
            "mix:pose=udp",
            "cmd:file=a.json",
            "external:near=a b://c",
            "tpc",
        ] {
            assert_eq!(no_contender(contender), None, "{contender}");
        }
    }

    /// Each answer is a command line that works, but for names of hosts and files.
    #[test]
    fn the_words_of_every_answer_are_accepted() {
        let (mut wrong, mut tried) = (Vec::new(), 0);
        let tables = [("race", "race tcp"), ("serve", "race tcp"), ("line", "line far.example")];
        let all = tables.into_iter().flat_map(|(habits, command)| {
            let words = habits_of(habits).into_iter().flat_map(|habit| habit.does);
            words.map(move |words| (words, command))
        });
        for (words, command) in all {
            let is_kind =
                words.kind.is_empty() || value::meant(words.kind, words.example).is_some();
            assert!(is_kind, "{} {}", words.kind, words.example);
            let text =
                words.written("").replace("HOST", "far.example").replace("FILE", "secret.txt");
            let line = match text.strip_prefix("deadheat ") {
                Some(_) => text,
                None => format!("deadheat {command} {text}"),
            };
            tried += 1;
            let checked = match Cli::try_parse_from(line.split(' ')) {
                Err(error) => Err(Error::usage(error.to_string())),
                Ok(Cli { command: Command::Race(args), .. }) => {
                    request(&args).and_then(|request| request.check().map(|_| ()))
                }
                Ok(_) => Ok(()),
            };
            match checked {
                // This host lacks it, and says so.
                Ok(()) | Err(Error::Unsupported { .. }) => {}
                Err(error) => wrong.push(format!("{line}: {error}")),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(tried > 50, "{tried}");
    }

    #[test]
    fn no_option_that_exists_is_answered_as_if_it_were_none() {
        let command = Cli::command();
        for name in ["race", "serve", "line"] {
            let own = command.find_subcommand(name).unwrap();
            let known = own.get_arguments().flat_map(|argument| {
                let long = argument.get_long().map(|long| format!("--{long}"));
                long.into_iter().chain(argument.get_short().map(|short| format!("-{short}")))
            });
            let known: Vec<String> = known.collect();
            for typed in habits_of(name).into_iter().flat_map(|habit| habit.typed) {
                assert!(!known.iter().any(|option| *option == typed), "{name} {typed} exists");
            }
        }
    }

    #[test]
    fn no_option_is_answered_twice() {
        for name in ["race", "serve", "line"] {
            let habits = habits_of(name).into_iter();
            let mut typed: Vec<&str> = habits.flat_map(|habit| habit.typed).collect();
            let n = typed.len();
            typed.sort_unstable();
            typed.dedup();
            assert_eq!(typed.len(), n);
        }
    }
}
