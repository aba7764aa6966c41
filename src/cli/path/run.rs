//! `deadheat path run`: any program on an emulated network.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::super::Verdict;
use deadheat_base::error::Result;
use deadheat_path::run::{self, Request, Talk};

/// Options as typed.
#[derive(Debug, Args)]
#[command(after_help = "  deadheat path run delay=20ms -- ping -c 3 198.18.0.2")]
#[command(after_long_help = "\
The hosts are namespaces of this machine; they reach nothing else. Link 1 has the
addresses 198.18.0.1, of the near host of two, which has the name near, too, and
198.18.0.2, of the far host, far; link 2 has 198.18.1.1 and so on. The commands
have these in the variables DEADHEAT_NEAR and DEADHEAT_FAR, those of IPv6 in
DEADHEAT_NEAR6 and DEADHEAT_FAR6, and those of further links in DEADHEAT_FAR_2
and so on. $DEADHEAT_FAR is replaced in COMMAND, too, so quote it. A host of a
larger network has its name and variables of it: DEADHEAT_HAMBURG.

  deadheat path run delay=20ms --far 'iperf3 -s' -- iperf3 -c '$DEADHEAT_FAR'
  deadheat path run delay=20ms -- ping -c 3 far
  deadheat path run rate=5mbit,delay=30ms -- bash
  deadheat path run 'home--isp:delay=5ms,up.rate=10mbit + isp--cloud:delay=20ms' \\
    --on 'cloud=iperf3 -s' --host home -- iperf3 -c cloud")]
pub(super) struct PathRunArgs {
    /// The network, as for `race --path`: delay=20ms,loss=1%,rate=20mbit
    #[arg(value_name = "PATH")]
    path: String,
    /// Run COMMAND on this host [default: the near one]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Run a command on this host, in a shell, started before COMMAND and ended with it; may be
    /// repeated
    ///
    /// The next one starts once anything listens on its host, or after a second. What it prints goes
    /// to standard error.
    #[arg(long, value_name = "HOST=COMMAND", value_parser = run::beside)]
    on: Vec<(String, String)>,
    /// Run this on the far host, as with --on, before all others
    #[arg(long, value_name = "COMMAND")]
    far: Option<String>,
    /// Start COMMAND once something on the far host listens at this port, TCP or UDP [default: once
    /// anything listens at all, or after a second]
    #[arg(long, hide_short_help = true, value_name = "PORT", requires = "far")]
    far_ready: Option<u16>,
    /// Say nothing about the network
    #[arg(short, long)]
    quiet: bool,
    /// Say each second what the path does: rates in and out, packets under way, drops
    ///
    /// The lines go to standard error, so that `2>FILE` separates them from what COMMAND prints.
    #[arg(long, conflicts_with = "quiet")]
    live: bool,
    /// Capture all packets to a new file, in the pcapng format
    ///
    /// Each direction of each link is an interface, with times in nanoseconds. A packet is as it entered the link, cut after
    /// 160 bytes; its comment has its fate. It takes the emulator time and memory; at most 1 GiB is written.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Command to run; its exit status is passed on
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Builds the network, runs the commands, and takes it down.
///
/// # Errors
/// If the path makes no sense or cannot be built here, or the commands cannot be started.
pub(super) fn run(args: PathRunArgs) -> Result<Verdict> {
    let talk = if args.quiet { Talk::Errors } else { Talk::All };
    let every = args.live.then_some(Duration::from_secs(1));
    let PathRunArgs { path, host, on: beside, far, far_ready, pcap, command, .. } = args;
    run::run(Request { path, host, beside, far, far_ready, talk, every, pcap, command })
        .map(Verdict::Ended)
}
