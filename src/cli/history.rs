//! `deadheat history`: the races of a folder over time, or its surveys of a line, and where their level changed.

use deadheat_result::analysis::derived;
use std::path::PathBuf;

use deadheat_base::error::{Result, unknown};
use deadheat_base::foreign::visible;
use deadheat_report as report;
use deadheat_result::analysis::history::{FALSE_ALARM_IN, HistoryEntry, SkippedFile, history};
use deadheat_result::line;
use deadheat_result::line::outcome::{LineOutcome, is_line};

use super::{deliver, folder, stdout_style};

#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    /// The folder with results; folders in it are searched too
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The metric to follow, such as rtt_p99_ns [default: the claimed metrics]
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Number of races in which one false change is accepted, over all series of a kind; 365 are a year of nightly races
    #[arg(long, value_name = "RACES", default_value_t = FALSE_ALARM_IN, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    false_alarm_in: u64,
    #[arg(long, default_value = report::history::FORMATS[0], value_parser = super::form::one_of(report::history::FORMATS), hide_possible_values = true,
          help = report::words::list(report::history::FORMATS))]
    format: String,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &HistoryArgs) -> Result<()> {
    let searched = folder::search(&args.folder)?;
    let name_of =
        |file: &PathBuf| file.strip_prefix(&args.folder).unwrap_or(file).display().to_string();
    let unread = searched.unread.into_iter();
    let mut left_out: Vec<SkippedFile> =
        unread.map(|(folder, why)| SkippedFile { file: name_of(&folder), why }).collect();
    let (mut entries, mut metrics) = (Vec::new(), Vec::new());
    let mut surveyed: Option<LineOutcome> = None;
    for file in searched.results {
        let name = name_of(&file);
        match derived::load(&file) {
            Ok(race) => {
                for metric in &race.metrics {
                    if !metrics.contains(&metric.name) {
                        metrics.push(metric.name.clone());
                    }
                }
                entries.push(HistoryEntry::new(name, race));
            }
            // Surveys of one line are one file of it.
            Err(_) if is_line(&file) && args.metric.is_none() => {
                let line = line::outcome::load(&file)?;
                match &mut surveyed {
                    Some(all) if all.path.spec == line.path.spec => {
                        all.surveys.extend(line.surveys)
                    }
                    Some(all) => left_out.push(SkippedFile {
                        why: format!("surveys of another line than {}", visible(&all.path.spec)),
                        file: name,
                    }),
                    None => surveyed = Some(line),
                }
            }
            Err(error) => {
                left_out.push(SkippedFile { why: folder::reason(&file, &error), file: name })
            }
        }
    }
    match surveyed {
        Some(mut line) if entries.is_empty() => {
            line.surveys.sort_by_key(|survey| survey.started_ms);
            let text = report::line::render(&line, &args.format, &stdout_style())?;
            return deliver(text.as_bytes(), args.output.as_deref());
        }
        Some(line) => left_out.push(SkippedFile {
            file: format!("surveys of {}", visible(&line.path.spec)),
            why: "a history is of races or of surveys; give these a folder of their own".to_owned(),
        }),
        None => {}
    }
    if let Some(metric) = &args.metric
        && !entries.is_empty()
        && !metrics.contains(metric)
    {
        let known: Vec<&str> = metrics.iter().map(String::as_str).collect();
        return Err(unknown("metric", metric, &known));
    }
    let told = history(entries, left_out, args.metric.as_deref(), args.false_alarm_in);
    let folder = args.folder.display().to_string();
    let text = report::history::render(&told, &folder, &args.format, &stdout_style())?;
    deliver(text.as_bytes(), args.output.as_deref())
}
