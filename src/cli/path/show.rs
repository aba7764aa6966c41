//! `deadheat path show`: a network, drawn.

use std::path::PathBuf;

use clap::Args;

use super::super::{Verdict, deliver, pages, print, stdout_style};
use deadheat_base::error::{Error, Result};
use deadheat_path::PathSpec;
use deadheat_report as report;

/// Options as typed.
#[derive(Debug, Args)]
#[command(after_help = "\
  deadheat path show three-cities
  deadheat path show dumbbell:pairs=4,rate=50mbit,delay=10ms|40ms --picture net.svg")]
pub(super) struct PathShowArgs {
    /// The network, as for `race --path`
    #[arg(value_name = "PATH")]
    spec: String,
    /// Also draw it to this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

/// Prints the network, and draws it to a file if one is given.
///
/// # Errors
/// If the path makes no sense or is none of its own, and if the file cannot be written.
pub(super) fn run(args: &PathShowArgs) -> Result<Verdict> {
    args.picture.as_deref().map_or(Ok(()), |file| pages::prepare(file, "--picture"))?;
    let (PathSpec::Emulated(network) | PathSpec::Simulated(network)) = PathSpec::parse(&args.spec)?
    else {
        return Err(Error::usage(
            "path: `loopback` has no network to show; give one, such as delay=25ms or three-cities",
        ));
    };
    print(&report::network::render(&network, &stdout_style()))?;
    if let Some(file) = &args.picture {
        deliver(report::network::picture(&network).as_bytes(), Some(file))?;
        tell!("picture: {}", file.display());
    }
    Ok(Verdict::Fine)
}
