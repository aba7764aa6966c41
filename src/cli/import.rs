//! `deadheat import`: measurements of other tools as a result file.

use std::path::PathBuf;

use deadheat_base::error::{Error, Result};
use deadheat_import::Import;
use deadheat_report::{ReportInput, Samples};
use deadheat_result::save;

use super::deciding::share;
use super::form::Form;
use super::{deliver, stdout_style};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The format is detected from the content; --help has examples.",
    after_long_help = "\
Each file is a contender. Files of the same --label are trials of one, and so
are the files of a folder or an archive (tar) among several. A folder alone
stands for the files in it, and - for standard input. The format is detected
from the content, whatever the name: docs/import.md lists all formats. Files may
be packed by gzip, bzip2 or zstd.
  deadheat import tcp.txt udp.txt --unit ms --each trial    a number: a transfer
  deadheat import rtt.txt --unit us              a number: a round trip
  deadheat import monday/ tuesday/               a folder: trials of a contender
  deadheat import 'tcp-*.json' 'udp-*.json' --label tcp --label udp
  deadheat import --paired a1.json b1.json b2.json a2.json --label 'a*=old' \
      --label 'b*=new'
  deadheat import runs.csv --paired --block run --contender build --unit ms
  iperf3 -c host -J | deadheat import -"
)]
pub(super) struct ImportArgs {
    /// Files, folders, archives, patterns, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The unit of plain numbers, such as ms or Mbit/s
    ///
    /// One of ns us ms s, bit/s kbit/s Mbit/s Gbit/s, B/s kB/s MB/s GB/s MiB/s.
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    /// Meaning of a plain number [default: sample]
    ///
    /// It is one sample of a trial, or the figure of a whole trial.
    #[arg(long, value_name = "sample|trial")]
    each: Option<String>,
    /// Compare runs in pairs, by block, as in a race
    ///
    /// Blocks follow from the column of --block, or from the order of the runs: block after block with each contender
    /// once (a b a b, or a b b a), or all of one and then all of the other. Runs that make no pairs are refused.
    #[arg(long)]
    paired: bool,
    /// The column of a table that names its blocks
    #[arg(long, value_name = "COLUMN", hide_short_help = true)]
    block: Option<String>,
    /// The column of a table that names contenders
    #[arg(long, value_name = "COLUMN")]
    contender: Option<String>,
    /// A contender's name
    ///
    /// FILE=NAME, or NAME for the next argument in order; may be given again. FILE may be a pattern: 'tcp-*=tcp'.
    #[arg(long, value_name = "[FILE=]NAME")]
    label: Vec<String>,
    /// The format of all files [default: detected]
    #[arg(long = "as", value_name = "FORMAT")]
    reader: Option<String>,
    /// Differences up to this do not matter [default: 5%]
    #[arg(long, value_name = "SHARE")]
    margin: Option<String>,
    /// Confidence of all verdicts together [default: 95%]
    #[arg(long, value_name = "SHARE", hide_short_help = true)]
    confidence: Option<String>,
    /// A title for the result
    #[arg(long)]
    title: Option<String>,
    /// The result's file [default: by date and time]
    ///
    /// It is deadheat-DATE-TIME.json unless given.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep the samples beside the result
    ///
    /// They are in a file that ends in .samples. Without this they are kept only where --html or --format needs them.
    #[arg(long)]
    samples: bool,
    #[command(flatten)]
    form: Form,
    /// Write the report as a page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(args: ImportArgs) -> Result<()> {
    // A format that does not exist is refused before anything is read.
    let report = args.form.find()?;
    let page = args.html.as_ref().map(|_| deadheat_report::find("html")).transpose()?;
    let import = request(&args)?;
    let target = super::Target::of(args.output.as_ref(), "deadheat")?;
    let file = target.file();
    refuse_to_replace(&import, &args, file)?;
    save::prepare(file)?;
    let kept = file.with_extension("samples");
    let is_kept = args.samples || page.is_some() || report.samples() != Samples::Unused;
    if !is_kept && kept.is_file() {
        // Samples of an earlier result would be mistaken for samples of this one.
        std::fs::remove_file(&kept)
            .map_err(|e| Error::setup(format!("remove old samples, {}", kept.display()), e))?;
    }
    let outcome = import.run(is_kept.then_some(&kept))?;
    save::save(&outcome, file)?;
    let samples = save::samples_of(file);
    let shown = ReportInput { outcome: &outcome, samples: samples.as_deref() };
    deliver(&report.render(&shown, &args.form.style())?, None)?;
    if let (Some(page), Some(html)) = (page, &args.html) {
        deliver(&page.render(&shown, &stdout_style())?, Some(html))?;
    }
    tell!("saved: {}", file.display());
    Ok(())
}

/// Refuses to replace an input file by the result.
fn refuse_to_replace(import: &Import, args: &ImportArgs, file: &std::path::Path) -> Result<()> {
    let targets = [Some(file.to_owned()), Some(file.with_extension("samples")), args.html.clone()];
    for target in targets.into_iter().flatten() {
        if import.reads(&target).is_some() {
            return Err(Error::usage(format!(
                "{} is one of the files to import and would be replaced; choose another with -o",
                target.display()
            )));
        }
    }
    Ok(())
}

fn request(args: &ImportArgs) -> Result<Import> {
    let mut import = Import::new(args.files.iter().cloned());
    if let Some(unit) = &args.unit {
        import = import.unit(unit)?;
    }
    if let Some(each) = &args.each {
        import = import.each(each)?;
    }
    if args.paired {
        import = import.paired();
    }
    if let Some(block) = &args.block {
        import = import.block(block);
    }
    if let Some(contender) = &args.contender {
        import = import.contender(contender);
    }
    for label in &args.label {
        import = import.label(label);
    }
    if let Some(reader) = &args.reader {
        import = import.format(reader)?;
    }
    if let Some(margin) = &args.margin {
        import = import.margin(share("margin", margin, "5%")?);
    }
    if let Some(confidence) = &args.confidence {
        import = import.confidence(share("confidence", confidence, "95%")?)?;
    }
    if let Some(title) = &args.title {
        import = import.title(title);
    }
    Ok(import)
}
