//! `deadheat merge`: the parts of a map joined to one.

use std::path::PathBuf;

use deadheat_base::error::Result;
use deadheat_race::map::merge::merge;
use deadheat_result::map::file::load;
use deadheat_result::save;

use super::map::Shape;

#[derive(Debug, clap::Args)]
pub(super) struct MergeArgs {
    /// The files of the parts, in any order
    #[arg(value_name = "PART.json", required = true)]
    parts: Vec<PathBuf>,
    /// The file of the whole map
    #[arg(short, long, value_name = "MAP.json", required = true)]
    output: PathBuf,
    #[command(flatten)]
    shape: Shape,
}

pub(super) fn run(args: &MergeArgs) -> Result<()> {
    args.shape.check()?;
    let part = |file: &PathBuf| Ok((file.display().to_string(), load(file)?));
    let map = merge(args.parts.iter().map(part).collect::<Result<_>>()?)?;
    save::prepare(&args.output)?;
    save::save(&map, &args.output)?;
    args.shape.show(&map)?;
    tell!("saved: {}", args.output.display());
    Ok(())
}
