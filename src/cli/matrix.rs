//! `deadheat matrix`: every contender beside every other one at one bottleneck. It stands for a race over loads
//! (`race/race/matrix.rs`), with the length of trials that its time allows.

use clap::Parser;

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Spec;
use deadheat_base::time::Nanos;
use deadheat_base::units::parse_span;
use deadheat_contract::label::LabelledText;
use deadheat_path::{PathSpec, grammar};
use deadheat_race::race::request::{DEFAULT_CONFIDENCE, MOST_BLOCKS};
use deadheat_result::analysis::claims::fewest_for;

use super::Verdict;
use super::deciding::share;
use super::form::Form;
use super::race::{self, RaceArgs};

#[derive(Debug, clap::Args)]
#[command(override_usage = "deadheat matrix [OPTIONS] --path PATH CONTENDER CONTENDER...")]
#[command(after_long_help = "\
  deadheat matrix tcp:cc=cubic tcp:cc=bbr quic --path rate=50mbit,delay=10ms,queue=2bdp
  deadheat matrix quic quic:cc=bbr utp --flows 2 --path sim:rate=20mbit,delay=20ms,queue=1bdp

It is a race in which the contenders are the loads, too:
  deadheat race A B -w bulk:load-lead=0s --vary 'load=none|A|B' --path PATH
runs the same with any other work, and its file is that of a race.

Exit: as of deadheat race.")]
pub(super) struct MatrixArgs {
    /// Transports to send beside each other, two or more
    #[arg(value_name = "CONTENDER", required = true, num_args = 2..)]
    contenders: Vec<String>,
    /// Network with a bottleneck: rate=50mbit,delay=10ms,queue=2bdp
    #[arg(long, value_name = "PATH", value_parser = grammar::written_out)]
    path: String,
    /// Flows of each side
    #[arg(long, value_name = "N", default_value_t = 1)]
    flows: u64,
    /// Length of each trial, of which a quarter is for finding the rate [default: as the time allows]
    #[arg(long, value_name = "TIME")]
    trial: Option<String>,
    /// Maximum time [default: 10m, or as long as short trials take]
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// A pair is fair if neither has more than so much more than the other
    #[arg(long, value_name = "SHARE", default_value = "25%")]
    margin: String,
    /// Confidence of all pairs together [default: 95%]
    #[arg(long, value_name = "SHARE", hide_short_help = true)]
    confidence: Option<String>,
    /// Maximum number of blocks, in each of which every pair sends once each way
    #[arg(long, value_name = "N", hide_short_help = true)]
    blocks: Option<u64>,
    /// Seed of the order of trials and of all other random choices
    #[arg(long, value_name = "N", hide_short_help = true)]
    seed: Option<u64>,
    /// The result's file [default: by date and time]
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    /// Also write a page with figures to this file, at the end
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    html: Option<String>,
    #[command(flatten)]
    form: Form,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Command line of the race that a matrix stands for.
#[derive(Parser)]
struct RaceLine {
    #[command(flatten)]
    args: RaceArgs,
}

/// Time of a matrix, unless its trials take longer.
const USUAL_TIME: Nanos = Nanos::from_secs(600);
/// Time of a trial beside its sending: its processes and connections.
const SET_UP: Nanos = Nanos::from_millis(800);
/// Bounds of the length of a trial that is not given.
const TRIAL: [Nanos; 2] = [Nanos::from_secs(3), Nanos::from_secs(20)];
/// Blocks beyond the fewest that decide: for trials before the first one, and for repeated ones.
const SPARE: u64 = 2;

pub(super) fn run(args: MatrixArgs) -> Result<Verdict> {
    check_bottleneck(&args.path)?;
    let words = race_line(&args)?;
    let line = RaceLine::try_parse_from(words).map_err(|error| Error::usage(error.to_string()))?;
    let mut race = line.args;
    (race.form, race.quiet) = (args.form, args.quiet);
    race::run(race)
}

fn check_bottleneck(path: &str) -> Result<()> {
    let network = match PathSpec::parse(path)? {
        PathSpec::Emulated(network) | PathSpec::Simulated(network) => Some(network),
        PathSpec::Loopback => None,
    };
    let links = network.iter().flat_map(|network| &network.links);
    let mut ways = links.flat_map(|link| [&link.up, &link.down]);
    if ways.any(|way| way.rate.mean().is_some()) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "path `{path}` has no bottleneck to share: none of its links has a rate; add one and a queue, such as \
         rate=50mbit,queue=2bdp"
    )))
}

/// Returns the words of the race.
fn race_line(args: &MatrixArgs) -> Result<Vec<String>> {
    let loads = args.contenders.iter().map(|typed| as_load(typed)).collect::<Result<Vec<_>>>()?;
    let (trial, budget) = times(args)?;
    let warm_up = trial.0 / 4;
    let flows = args.flows;
    let work = format!(
        "bulk:streams={flows},load-flows={flows},load-lead=0s,time={}ns,warmup={warm_up}ns",
        trial.0 - warm_up
    );
    let mut words = vec!["matrix".to_owned(), format!("--workload={work}")];
    words.push(format!("--vary=load=none|{}", loads.join("|")));
    words.push(format!("--path={}", args.path));
    words.push(format!("--budget={}ns", budget.0));
    words.push(format!("--margin={}", args.margin));
    let options = [
        ("confidence", args.confidence.clone()),
        ("blocks", args.blocks.map(|n| n.to_string())),
        ("seed", args.seed.map(|n| n.to_string())),
        ("output", args.output.clone()),
        ("html", args.html.clone()),
    ];
    let given = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
    words.extend(given.map(|(name, value)| format!("--{name}={value}")));
    words.push("--".to_owned());
    words.extend(args.contenders.iter().cloned());
    Ok(words)
}

/// Returns a contender as the value of `load`, without its label.
fn as_load(typed: &str) -> Result<String> {
    let spec = Spec::parse(&LabelledText::parse(typed)?.typed)?.to_string();
    if spec.contains(['+', '|']) {
        Err(Error::usage(format!("`{typed}` cannot stand beside others: it has `+` or `|`")))
    } else {
        Ok(spec.replace(',', "+"))
    }
}

/// Returns the length of a trial, and the time of all.
fn times(args: &MatrixArgs) -> Result<(Nanos, Nanos)> {
    let contenders = args.contenders.len() as u64;
    // Each alone and beside each, and the hidden copy of the first.
    let trials = contenders * (contenders + 1) + 1;
    let pairs = (contenders * (contenders - 1) / 2) as usize;
    let confidence = match &args.confidence {
        Some(typed) => share("confidence", typed, "95%")?,
        None => DEFAULT_CONFIDENCE,
    };
    let fewest = fewest_for(pairs, confidence).max(args.blocks.unwrap_or(0));
    let blocks = fewest.min(MOST_BLOCKS) + SPARE;
    let budget = args.budget.as_deref().map(parse_span).transpose()?;
    let all = blocks * trials;
    let room = Nanos(budget.unwrap_or(USUAL_TIME).0 / all.max(1)) - SET_UP;
    let trial = match &args.trial {
        Some(typed) => parse_span(typed)?,
        None => room.clamp(TRIAL[0], TRIAL[1]),
    };
    if trial < Nanos::from_millis(100) {
        return Err(Error::usage(format!(
            "--trial {trial} is too short to find a rate; 100ms at least"
        )));
    }
    let takes = Nanos((trial + SET_UP).0.saturating_mul(all));
    Ok((trial, budget.unwrap_or(takes.max(USUAL_TIME))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct MatrixLine {
        #[command(flatten)]
        args: MatrixArgs,
    }

    fn words(typed: &str) -> Result<Vec<String>> {
        let line = MatrixLine::try_parse_from(typed.split(' '));
        let args = line.map_err(|error| Error::usage(error.to_string()))?.args;
        check_bottleneck(&args.path)?;
        let words = race_line(&args)?;
        let line = RaceLine::try_parse_from(&words).unwrap_or_else(|error| panic!("{error}"));
        race::request(&line.args)?.check()?;
        Ok(words)
    }

    #[test]
    fn it_stands_for_a_race_whose_loads_are_its_contenders() {
        let typed = "matrix quic:label=a quic:cc=bbr,mtu=1400 --flows 2 --path sim:rate=9mbit,delay=9ms --seed 7";
        let words = words(typed).unwrap();
        assert_eq!(words[2], "--vary=load=none|quic|quic:cc=bbr+mtu=1400");
        assert!(words[1].contains("streams=2,load-flows=2,load-lead=0s"), "{words:?}");
        assert_eq!(words[words.len() - 3..], ["--", "quic:label=a", "quic:cc=bbr,mtu=1400"]);
    }

    #[test]
    fn three_contenders_take_ten_minutes_and_six_as_long_as_short_trials_take() {
        let of = |contenders: &[&str]| {
            let line = [&["matrix", "--path=rate=1mbit"], contenders].concat();
            times(&MatrixLine::try_parse_from(line).unwrap().args).unwrap()
        };
        let (trial, budget) = of(&["a", "b", "c"]);
        assert!(trial > TRIAL[0] && trial < TRIAL[1], "{trial}");
        assert_eq!(budget, USUAL_TIME);
        let (trial, budget) = of(&["a", "b", "c", "d", "e", "f"]);
        assert_eq!(trial, TRIAL[0]);
        assert!(budget > USUAL_TIME, "{budget}");
    }

    #[test]
    fn what_cannot_be_shared_is_refused_before_anything_runs() {
        const PATH: &str = "--path=sim:rate=9mbit,delay=9ms";
        for (typed, said) in [
            ("matrix quic arq --path=sim:delay=9ms", "no bottleneck to share"),
            ("matrix quic arq --path=loopback", "no bottleneck to share"),
            (&format!("matrix quic {PATH}"), "2 values required"),
            (&format!("matrix quic quic {PATH}"), "has a level twice"),
            (&format!("matrix quic arq --flows 0 {PATH}"), "1..64"),
            (&format!("matrix quic arq --flows 10000 {PATH}"), "1..64"),
            (&format!("matrix quic arq --trial 1ms {PATH}"), "100ms at least"),
            (&format!("matrix quic arq --blocks 18446744073709551615 {PATH}"), "1 to 10000"),
            (&format!("matrix quic arq --confidence 100% {PATH}"), "50 % to 99.999 %"),
            (&format!("matrix quic tcp {PATH}"), "tcp"),
            (&format!("matrix quic icmp {PATH}"), "icmp"),
            (&format!("matrix quic tpc {PATH}"), "did you mean"),
        ] {
            let error = words(typed).map(drop).unwrap_err().to_string();
            assert!(error.contains(said), "{typed}: {error}");
        }
    }
}
