//! Request for an import, and the steps from it to a result.

use std::fs;
use std::path::{Path, PathBuf};

use super::collection::{self, LeftOut, SourceFile};
use super::sources::{self, ForeignSource, SourceChoice};
use super::{Format, ReaderContext, RowColumns, capture, duplicates, find, ids, sniff};
use deadheat_base::error::{Error, Result};
use deadheat_result::outcome::Outcome;

use super::unit::Scale;

/// Meaning of a number without context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NumberMeaning {
    /// A sample of one trial, such as a round trip. It is the default, because samples taken for trials would give
    /// meaningless intervals.
    #[default]
    Sample,
    /// A whole trial, such as the time of a transfer.
    Trial,
}

/// Request to combine files of other tools into one result.
#[derive(Default)]
pub struct Import {
    arguments: Vec<PathBuf>,
    /// Labels as typed: `FILE=NAME`, or a name.
    labels: Vec<String>,
    scale: Option<Scale>,
    each: Option<NumberMeaning>,
    reader: Option<&'static Format>,
    pub(super) margin: Option<f64>,
    pub(super) confidence: f64,
    pub(super) title: Option<String>,
    pub(super) is_paired: bool,
    columns: RowColumns,
}

impl Import {
    /// Creates an import of files, folders, archives, patterns, or `-` for standard input. Each file is a contender
    /// under its own name; of a folder and of an archive among several arguments the files are trials of one.
    pub fn new(arguments: impl IntoIterator<Item = impl Into<PathBuf>>) -> Import {
        Import {
            arguments: arguments.into_iter().map(Into::into).collect(),
            confidence: 0.95,
            ..Import::default()
        }
    }

    /// Compares the runs in pairs, block by block. Blocks follow from the column of [`Import::block`], or else from the
    /// order of the runs: the files block after block (a b a b, or a b b a), or all of one contender and then all of the
    /// next.
    pub fn paired(mut self) -> Import {
        self.is_paired = true;
        self
    }

    /// Sets the column of tables that names the block of each row, which is a trial then.
    pub fn block(mut self, column: &str) -> Import {
        self.columns.block = Some(column.to_owned());
        self
    }

    /// Sets the column of tables that names the contender of each row, which is a trial then.
    pub fn contender(mut self, column: &str) -> Import {
        self.columns.contender = Some(column.to_owned());
        self
    }

    /// Returns the argument that stands for an existing file, which a result must not replace.
    pub fn reads(&self, file: &Path) -> Option<&Path> {
        self.arguments.iter().map(PathBuf::as_path).find(|own| sources::covers(own, file))
    }

    /// Sets the unit of numbers without one.
    ///
    /// # Errors
    /// [`Error::Usage`] for an unknown unit.
    pub fn unit(mut self, typed: &str) -> Result<Import> {
        self.scale = Some(Scale::parse(typed)?);
        Ok(self)
    }

    /// Sets the meaning of a plain number: `sample` or `trial`.
    ///
    /// # Errors
    /// [`Error::Usage`] for anything else.
    pub fn each(mut self, typed: &str) -> Result<Import> {
        self.each = Some(match typed {
            "sample" => NumberMeaning::Sample,
            "trial" => NumberMeaning::Trial,
            _ => return Err(deadheat_base::error::unknown("--each", typed, &["sample", "trial"])),
        });
        Ok(self)
    }

    /// Sets the format of all files, instead of detecting it.
    ///
    /// # Errors
    /// [`Error::Usage`] for an unknown format.
    pub fn format(mut self, name: &str) -> Result<Import> {
        self.reader = Some(find(name)?);
        Ok(self)
    }

    /// Sets a contender's name: `FILE=NAME`, or a name alone for the next argument without one. FILE may be a pattern.
    /// Files with the same name are trials of one contender.
    pub fn label(mut self, typed: &str) -> Import {
        self.labels.push(typed.to_owned());
        self
    }

    /// Sets the margin: the largest fraction that does not matter.
    pub fn margin(mut self, share: f64) -> Import {
        self.margin = Some(share);
        self
    }

    /// Sets the confidence of all verdicts together, as a fraction.
    ///
    /// # Errors
    /// [`Error::Usage`] for a level without intervals.
    pub fn confidence(mut self, share: f64) -> Result<Import> {
        if !(0.5..1.0).contains(&share) {
            return Err(Error::usage("confidence must lie between 50% and 99.99…%, such as 95%"));
        }
        self.confidence = share;
        Ok(self)
    }

    /// Sets the title.
    pub fn title(mut self, title: impl Into<String>) -> Import {
        self.title = Some(title.into());
        self
    }

    /// Reads the files. Samples are written to `samples`, if given, replacing an existing file.
    ///
    /// # Errors
    /// The first file that was named and cannot be read or is not valid; of folders and archives, if no file is valid.
    pub fn run(&self, samples: Option<&Path>) -> Result<Outcome> {
        if self.arguments.is_empty() {
            return Err(Error::usage("name at least one file to import"));
        }
        self.check_columns()?;
        let sources = sources::all(&self.arguments)?;
        let labels = self.labelled(&sources)?;
        let place = samples.map(SamplePartFiles::beside);
        let (mut read, mut left_out, mut first_error) = (Vec::new(), Vec::new(), None);
        for (source, label) in sources.into_iter().zip(labels) {
            let mut next = || place.as_ref().map(SamplePartFiles::next).unwrap_or_default();
            let (name, choice) = (source.name.clone(), source.choice);
            match self.one(source, label, place.as_ref().map(|_| &mut next as _)) {
                Ok(file) => read.push(file),
                Err(error @ (Error::Data { .. } | Error::Setup { .. }))
                    if choice == SourceChoice::Among =>
                {
                    left_out.push(LeftOut::unreadable(&name, &error));
                    first_error.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = first_error.filter(|_| read.is_empty()) {
            return Err(error);
        }
        self.check_used(&read)?;
        duplicates::once(&mut read);
        collection::outcome(read, left_out, self, samples)
    }

    /// Returns the label of each source.
    fn labelled(&self, sources: &[ForeignSource]) -> Result<Vec<Option<String>>> {
        let mut labels: Vec<Option<String>> = vec![None; sources.len()];
        let most = sources.iter().map(|source| source.argument + 1).max().unwrap_or(0);
        let is_of = |source: &ForeignSource, name: &str| {
            let is_typed = self.arguments[source.argument].as_os_str() == name;
            is_typed || source.group.as_deref() == Some(name) || source.is_called(name)
        };
        for typed in &self.labels {
            let mut splits =
                typed.match_indices('=').map(|(at, _)| (&typed[..at], &typed[at + 1..]));
            let named = splits.find(|(name, _)| sources.iter().any(|source| is_of(source, name)));
            if let Some((name, label)) = named {
                for (own, source) in labels.iter_mut().zip(sources) {
                    if is_of(source, name) {
                        *own = Some(label.to_owned());
                    }
                }
                continue;
            }
            if let Some((name, _)) = typed.split_once('=') {
                return Err(Error::usage(format!(
                    "label `{typed}`: no file is called `{name}`; give FILE=NAME with a file of this \
                     import"
                )));
            }
            let is_free = |argument: &usize| {
                let mut own =
                    sources.iter().zip(&labels).filter(|(own, _)| own.argument == *argument);
                own.all(|(_, label)| label.is_none())
            };
            let next = (0..most).find(is_free).ok_or_else(|| {
                Error::usage(format!("label `{typed}`: every file has one already"))
            })?;
            for (own, source) in labels.iter_mut().zip(sources) {
                if source.argument == next {
                    *own = Some(typed.clone());
                }
            }
        }
        Ok(labels)
    }

    fn one(
        &self,
        source: ForeignSource,
        label: Option<String>,
        keep: Option<&mut dyn FnMut() -> PathBuf>,
    ) -> Result<SourceFile> {
        let (name, stem, group) = (source.name.clone(), source.stem.clone(), source.group.clone());
        let mut file = source.open()?;
        let wrong = |what: String| Error::data(name.clone(), what);
        let reader = match self.reader {
            None if file.is_capture() => &capture::FORMAT,
            Some(reader) if file.is_capture() && reader.id() != capture::FORMAT.id => {
                let what = format!(
                    "this is a capture of packets, and not {}; leave --as away",
                    reader.id()
                );
                return Err(wrong(what));
            }
            Some(reader) => reader,
            // Columns are of tables, which words beside their numbers make hard to detect.
            None if self.columns.any() => find(super::plain::FORMAT.id)?,
            None => sniff(file.head()).map_err(|known| {
                wrong(known.map_or_else(|| unlike_any(file.head()), |known| known.refusal(&name)))
            })?,
        };
        // A row with a block or a contender of its own is a run.
        let is_row = self.columns.any().then_some(NumberMeaning::Trial);
        let each = self.each.or(is_row).unwrap_or_default();
        let mut context =
            ReaderContext { scale: self.scale, each, columns: self.columns.clone(), keep };
        let reading = reader.read(&mut file, &mut context).map_err(|what| {
            let number = file.number();
            let is_placed = number == 0 || what.contains("line");
            let place = if is_placed { String::new() } else { format!(" (line {number})") };
            wrong(format!("read as {}: {what}{place}", reader.id()))
        })?;
        Ok(SourceFile {
            name: file.name(),
            stem,
            label,
            group,
            format: reader.id(),
            digests: file.digests()?,
            reading,
        })
    }

    /// Checks that the options about columns fit the others.
    fn check_columns(&self) -> Result<()> {
        let (block, contender) = (&self.columns.block, &self.columns.contender);
        if block.is_some() && !self.is_paired {
            return Err(Error::usage(
                "--block names the column of blocks, which only a comparison in pairs looks at; add --paired",
            ));
        }
        if block.is_some() && block == contender {
            return Err(Error::usage("--block and --contender name the same column; give two"));
        }
        if self.columns.any() && self.each == Some(NumberMeaning::Sample) {
            return Err(Error::usage(
                "--each sample makes one trial of a file, and --block and --contender make one of each row; leave \
                 either out",
            ));
        }
        if let Some(reader) = self.reader
            && self.columns.any()
            && reader.id() != super::plain::FORMAT.id
        {
            return Err(Error::usage(format!(
                "--block and --contender name columns of a table, and --as {} reads none; leave either out",
                reader.id()
            )));
        }
        Ok(())
    }

    /// Checks that options about plain numbers apply to at least one file.
    fn check_used(&self, read: &[SourceFile]) -> Result<()> {
        let is_plain = |read: &SourceFile| read.format == super::plain::FORMAT.id;
        if read.iter().any(is_plain) || read.is_empty() {
            return Ok(());
        }
        let formats: Vec<&str> = read.iter().map(|read| read.format).collect();
        for (given, key) in [(self.scale.is_some(), "--unit"), (self.each.is_some(), "--each")] {
            if given {
                return Err(Error::usage(format!(
                    "{key} is about plain numbers, and these files are {}, which say it themselves; \
                     leave it away",
                    formats.join(", ")
                )));
            }
        }
        Ok(())
    }
}

/// Describes the start of a file that has no known format.
fn unlike_any(head: &str) -> String {
    let start: String = head.trim_start().chars().take(60).collect();
    let start = start.lines().next().unwrap_or_default();
    if head.trim_start().starts_with('{') && head.contains("\"deadheat\"") {
        return "this is a result of deadheat already; `deadheat report` shows it".to_owned();
    }
    format!(
        "no format that is read looks like this; it begins with `{start}`. Formats: {} (--as chooses \
         one)",
        ids().join(", ")
    )
}

/// Names of temporary files for samples, in the folder of the result.
struct SamplePartFiles {
    base: PathBuf,
    next: std::cell::Cell<u32>,
}

impl SamplePartFiles {
    fn beside(samples: &Path) -> SamplePartFiles {
        let name = samples.file_name().unwrap_or_default().to_string_lossy();
        SamplePartFiles { base: samples.with_file_name(format!(".{name}.part")), next: 0.into() }
    }

    fn next(&self) -> PathBuf {
        self.part(self.next.replace(self.next.get() + 1))
    }

    fn part(&self, number: u32) -> PathBuf {
        let mut name = self.base.clone().into_os_string();
        name.push(number.to_string());
        PathBuf::from(name)
    }
}

impl Drop for SamplePartFiles {
    /// Removes samples that did not reach the result because of an error in a later file.
    fn drop(&mut self) {
        for number in 0..self.next.get() {
            let _ = fs::remove_file(self.part(number));
        }
    }
}
