//! Options that look closer at the trials of a race, and cost them time.

use std::path::{Path, PathBuf};

use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units;
use deadheat_path::PathSpec;
use deadheat_path::network::Backend;
use deadheat_path::observe::pcapng;
use deadheat_race::race::Request;
use deadheat_report::words;
use deadheat_result::outcome::Trial;
use deadheat_trial::agent::intervals::{LONGEST, SHORTEST, SHORTEST_DENSE};
use deadheat_trial::observers::Observers;

#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ObserveOptions {
    /// Look at window, bytes in flight, rates and round trips of each flow every TIME, 1ms to 9ms
    ///
    /// The result has up to 1000 points for each end of a trial, and the page draws them. Each point costs the ends
    /// some microseconds.
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    series: Option<String>,
    /// Count trains, gaps and acknowledgements where packets enter and leave each link of an emulated path
    #[arg(long, hide_short_help = true)]
    wire: bool,
    /// Capture the packets of all trials on an emulated path to a new file, in the pcapng format
    ///
    /// Each trial is a section, each direction of each link an interface, with times in nanoseconds. A packet is as it
    /// entered the link, cut after 160 bytes; its comment has its fate. It costs the emulator time and memory; at most
    /// 1 GiB is written.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pcap: Option<PathBuf>,
}

impl ObserveOptions {
    /// Returns the request with the interval of the series.
    pub(super) fn ask(&self, request: Request) -> Result<Request> {
        let Some(typed) = &self.series else { return Ok(request) };
        if request.asked().interval_ns.is_some() {
            return Err(Error::usage(format!(
                "--series {typed}: -i has a time already, and the series has one interval; leave one of the two out"
            )));
        }
        let every =
            units::parse_span(typed).map_err(|e| Error::usage(format!("--series {typed}: {e}")))?;
        if !(SHORTEST_DENSE..SHORTEST).contains(&every) {
            return Err(Error::usage(format!(
                "--series {typed}: from {SHORTEST_DENSE} to below {SHORTEST}; longer intervals, which cost nothing, are asked for by -i"
            )));
        }
        Ok(request.interval(every))
    }

    /// Returns the observers of the trials of a race, for which an empty capture was created.
    pub(super) fn observers(&self, request: &Request) -> Result<Observers> {
        if !self.wire && self.pcap.is_none() {
            return Ok(Observers::default());
        }
        let asked = request.asked();
        let option = if self.wire { "--wire" } else { "--pcap" };
        let elsewhere = match asked.to {
            Some(_) => "leave out --to, or run tcpdump on one of the hosts",
            None if asked.path == "loopback" => "give a --path, or run `tcpdump -i lo`",
            None if is_kernels(&asked.path) => {
                "leave out backend=netem, with which the kernel moves them"
            }
            None => "",
        };
        if !elsewhere.is_empty() {
            return Err(Error::usage(format!(
                "{option}: packets are observed where deadheat moves them, on an emulated or simulated path; {elsewhere}"
            )));
        }
        let file = |file: &PathBuf| {
            let whole = std::path::absolute(file)
                .map_err(|e| Error::setup(format!("find the folder of {}", file.display()), e))?;
            pcapng::create(&whole).map(|()| whole)
        };
        let pcap = self.pcap.as_ref().map(file).transpose()?;
        Ok(Observers { wire: self.wire, pcap, trials: 0 })
    }

    /// Removes a capture without packets, of a race that did not start.
    pub(super) fn clear(&self) {
        if let Some(file) = &self.pcap
            && std::fs::metadata(file).is_ok_and(|file| file.len() == 0)
        {
            let _ = std::fs::remove_file(file);
        }
    }

    /// Says what a capture has of the `trials` of a run.
    pub(super) fn tell(&self, trials: &[Trial]) {
        if let Some(file) = &self.pcap {
            tell!("{}", captured(file, trials));
        }
    }
}

/// Returns true for a path whose packets the kernel moves.
fn is_kernels(path: &str) -> bool {
    matches!(
        PathSpec::parse(path),
        Ok(PathSpec::Emulated(network)) if network.backend == Some(Backend::Netem)
    )
}

fn captured(file: &Path, trials: &[Trial]) -> String {
    let all: Vec<_> = trials.iter().filter_map(|trial| trial.record.captured.as_ref()).collect();
    let packets = words::count(all.iter().map(|one| one.packets).sum(), "packet");
    let left_out: u64 = all.iter().map(|one| one.left_out).sum();
    let trials = words::count(all.len() as u64, "trial");
    let mut text = format!("pcap: {}: {packets} of {trials}", file.display());
    if let Some(failure) = all.iter().find_map(|one| one.failure.as_ref()) {
        text.push_str(&format!(", until a write failed: {failure}"));
    }
    if left_out > 0 {
        text.push_str(&format!("; {left_out} packets are left out, which had no room"));
    }
    text
}

/// Parses the interval at which trials are shown.
pub(super) fn parse_interval(time: &str) -> Result<Nanos> {
    let wrong = |e: Error| match time.parse::<f64>() {
        Ok(_) => Error::usage(format!(
            "-i {time}: it has no unit; write -i {time}s for seconds, in which iperf3 and ping count"
        )),
        Err(_) => {
            Error::usage(format!("-i {time}: {e}; to give no time, put -i after the contenders"))
        }
    };
    let every = units::parse_span(time).map_err(wrong)?;
    if !(SHORTEST..=LONGEST).contains(&every) {
        return Err(Error::usage(format!(
            "an interval of {every}; {SHORTEST} to {LONGEST} make sense, such as 500ms; --series has shorter ones, and costs"
        )));
    }
    Ok(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_deadheat_does_not_move_are_not_observed() {
        let options = ObserveOptions { wire: true, ..ObserveOptions::default() };
        let race = || Request::new(["tcp"]);
        for (request, said) in [
            (race(), "give a --path"),
            (race().to("host.example"), "leave out --to"),
            (race().path("delay=5ms,backend=netem"), "leave out backend=netem"),
        ] {
            let error = options.observers(&request).unwrap_err().to_string();
            assert!(error.contains("--wire") && error.contains(said), "{error}");
        }
        assert!(options.observers(&race().path("delay=5ms")).unwrap().wire);
    }

    #[test]
    fn a_dense_series_has_an_interval_that_i_does_not_take() {
        let asked = |typed: &str, request| {
            let series = Some(typed.to_owned());
            ObserveOptions { series, ..ObserveOptions::default() }.ask(request)
        };
        let race = || Request::new(["tcp"]);
        assert_eq!(asked("5ms", race()).unwrap().asked().interval_ns, Some(5_000_000));
        for (typed, said) in [("10ms", "asked for by -i"), ("999us", "from 1"), ("5", "no unit")] {
            let error = asked(typed, race()).map(drop).unwrap_err().to_string();
            assert!(error.contains(said), "{typed}: {error}");
        }
        let twice = race().interval(Nanos::from_millis(20));
        assert!(asked("5ms", twice).map(drop).unwrap_err().to_string().contains("leave one"));
        assert!(parse_interval("9ms").unwrap_err().to_string().contains("--series"));
    }
}
