//! Sources of an import: files, folders, patterns, archives and standard input, as the files in them.
//!
//! A pattern stands for the files that match, as in a shell. A folder or an archive is one contender, whose files are
//! its trials; alone it stands for the files and folders in it.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use super::foreign_file::{self, ForeignFile, RawBytes};
use deadheat_base::error::{Error, Result};
use deadheat_result::save;

/// Name of standard input, as typed.
const STDIN: &str = "-";
/// Maximum number of files in all.
const MOST_FILES: usize = 100_000;
/// Maximum depth of folders in a folder.
const DEEPEST: usize = 16;
/// Maximum length of a name in an archive, in bytes, and of the extended header that may hold it.
const LONGEST_NAME: usize = 1_000;
const LONGEST_HEADER: u64 = 64 << 10;
/// Maximum size of a file in an archive, unpacked, in bytes: it is stored in memory.
const LARGEST_MEMBER: u64 = 256 << 20;

/// One file to import.
pub(super) struct ForeignSource {
    /// Name for messages and the result.
    pub name: String,
    /// Name without its folder and without endings that only show a format.
    pub stem: String,
    /// Index of the argument, as typed, that it is from.
    pub argument: usize,
    /// Name of the contender of which it is a trial, if it is from a folder or an archive.
    pub group: Option<String>,
    /// Path within its archive, if it is from one.
    inner: Option<String>,
    /// Choice of the user: a file that was named must be readable, a file of a folder may be left out.
    pub choice: SourceChoice,
    place: SourcePlace,
}

/// Choice of a source by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceChoice {
    /// Named as an argument.
    Named,
    /// One of the files of a folder, a pattern or an archive.
    Among,
}

enum SourcePlace {
    File(PathBuf),
    Stdin,
    /// Content of a file in an archive.
    Member(Vec<u8>),
}

impl ForeignSource {
    /// Opens the source.
    ///
    /// # Errors
    /// As [`ForeignFile::open`].
    pub(super) fn open(self) -> Result<ForeignFile> {
        let raw: RawBytes = match self.place {
            SourcePlace::File(path) => Box::new(deadheat_base::foreign::file::open(&path)?),
            SourcePlace::Stdin => Box::new(std::io::stdin()),
            SourcePlace::Member(bytes) => Box::new(std::io::Cursor::new(bytes)),
        };
        ForeignFile::of(&self.name, raw)
    }

    /// Returns true if a pattern of a label matches: the whole name, the name without its folder, or the stem.
    pub(super) fn is_called(&self, pattern: &str) -> bool {
        let own = self.name.rsplit(['/', ' ']).next().unwrap_or_default();
        matches(pattern, &self.name) || matches(pattern, own) || matches(pattern, &self.stem)
    }

    fn of(name: String, stem: String, argument: usize, place: SourcePlace) -> ForeignSource {
        let (group, inner, choice) = (None, None, SourceChoice::Among);
        ForeignSource { name, stem, argument, group, inner, choice, place }
    }

    fn file(path: PathBuf, argument: usize, choice: SourceChoice) -> ForeignSource {
        let (name, stem) = (path.display().to_string(), stem(&path));
        ForeignSource { choice, ..ForeignSource::of(name, stem, argument, SourcePlace::File(path)) }
    }
}

/// Returns true if the name matches a pattern with `*`, `?` and `[…]`, or equals it.
fn matches(pattern: &str, name: &str) -> bool {
    pattern == name || glob::Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(name))
}

/// Returns a file's name without its folder and without endings that only show its format.
pub(super) fn stem(file: &Path) -> String {
    const ENDINGS: [&str; 17] = [
        "gz", "bz2", "zst", "tar", "tgz", "tbz2", "tzst", "json", "jsonl", "txt", "csv", "log",
        "flent", "dat", "out", "pcap", "pcapng",
    ];
    let mut name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    while let Some((before, ending)) = name.rsplit_once('.') {
        if before.is_empty() || !ENDINGS.contains(&ending) {
            break;
        }
        name = before.to_owned();
    }
    name
}

/// Returns the sources that the arguments stand for, in their order; files of a folder by name, numbers by size.
///
/// # Errors
/// [`Error::Usage`] for a pattern that matches nothing, for no argument, or for standard input twice;
/// [`Error::Setup`] for a folder that cannot be read; [`Error::Data`] for too many files, or a damaged archive.
pub(super) fn all(arguments: &[PathBuf]) -> Result<Vec<ForeignSource>> {
    let mut entries = Vec::new();
    for (argument, typed) in arguments.iter().enumerate() {
        entries.extend(matching(typed)?.into_iter().map(|path| (argument, path)));
    }
    if entries.iter().filter(|(_, path)| path.as_os_str() == STDIN).count() > 1 {
        return Err(Error::usage("`-` is standard input, which can be read once only"));
    }
    if let [(argument, only)] = &entries[..]
        && only.is_dir()
    {
        let within = listed(only)?;
        if within.is_empty() {
            return Err(Error::data(only.display().to_string(), "this folder is empty"));
        }
        let within: Vec<(usize, PathBuf)> =
            within.into_iter().map(|path| (*argument, path)).collect();
        return gathered(&within, SourceChoice::Among);
    }
    gathered(&entries, SourceChoice::Named)
}

/// Returns true if an argument stands for an existing file. A result of this program in a folder, or behind a pattern,
/// is no measurement and may be replaced.
pub(super) fn covers(argument: &Path, file: &Path) -> bool {
    let Ok(file) = file.canonicalize() else { return false };
    let is_result = || fs::read(&file).is_ok_and(|text| save::parse(&text).is_ok());
    match argument.canonicalize() {
        Ok(own) if own == file => true,
        Ok(own) => own.is_dir() && file.starts_with(&own) && !is_result(),
        Err(_) => {
            let matching = matching(argument).unwrap_or_default();
            let is_own = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == file);
            matching.iter().any(is_own) && !is_result()
        }
    }
}

/// Returns the paths that an argument stands for.
fn matching(argument: &Path) -> Result<Vec<PathBuf>> {
    let text = argument.to_string_lossy();
    if text == STDIN || argument.exists() || !text.contains(['*', '?', '[']) {
        return Ok(vec![argument.to_owned()]);
    }
    let found = glob::glob(&text)
        .map_err(|error| Error::usage(format!("the pattern `{text}` is wrong: {error}")))?;
    let mut found: Vec<PathBuf> = found.filter_map(std::result::Result::ok).collect();
    found.sort_by(|a, b| by_name(a, b));
    if found.is_empty() {
        return Err(Error::usage(format!("no file matches `{text}`")));
    }
    Ok(found)
}

/// Returns the sources of paths, each with its argument. A folder is a group, and an archive is one unless it is alone.
fn gathered(entries: &[(usize, PathBuf)], choice: SourceChoice) -> Result<Vec<ForeignSource>> {
    let paths: Vec<&Path> = entries.iter().map(|(_, path)| path.as_path()).collect();
    let mut sources = Vec::new();
    for (argument, path) in entries {
        let (argument, from) = (*argument, sources.len());
        if path.as_os_str() == STDIN {
            let (name, stem) = ("standard input".to_owned(), "stdin".to_owned());
            let stdin = ForeignSource::of(name, stem, argument, SourcePlace::Stdin);
            sources.push(ForeignSource { choice, ..stdin });
        } else if path.is_dir() {
            within(path, argument, 0, &mut sources)?;
            group(&mut sources[from..], &group_name(path, &paths));
        } else if let Some(members) = archive(path, argument)? {
            sources.extend(members);
            if paths.len() > 1 {
                group(&mut sources[from..], &group_name(path, &paths));
            } else {
                by_top_folder(&mut sources[from..]);
            }
        } else {
            sources.push(ForeignSource::file(path.clone(), argument, choice));
        }
        if sources.len() > MOST_FILES {
            return Err(Error::data(
                path.display().to_string(),
                format!("more than {MOST_FILES} files; import fewer at a time"),
            ));
        }
    }
    Ok(sources)
}

/// Name of a group: the folder's own, or its path where another one has the same name.
fn group_name(path: &Path, all: &[&Path]) -> String {
    let own = stem(&path.components().collect::<PathBuf>());
    let alike = all.iter().filter(|other| stem(&other.components().collect::<PathBuf>()) == own);
    if own.is_empty() || alike.count() > 1 { path.display().to_string() } else { own }
}

fn group(sources: &mut [ForeignSource], name: &str) {
    for source in sources {
        source.group = Some(name.to_owned());
        source.choice = SourceChoice::Among;
    }
}

/// Groups the files of a lone archive by the first folder in which they differ.
fn by_top_folder(sources: &mut [ForeignSource]) {
    let paths: Vec<String> =
        sources.iter().map(|source| source.inner.clone().unwrap_or_default()).collect();
    let first = |path: &str| path.split_once('/').map(|(folder, _)| folder.to_owned());
    let mut rest: Vec<&str> = paths.iter().map(String::as_str).collect();
    while let Some(shared) = rest.first().and_then(|path| first(path))
        && rest.iter().all(|path| first(path).as_ref() == Some(&shared))
    {
        rest = rest.iter().map(|path| &path[shared.len() + 1..]).collect();
    }
    for (source, path) in sources.iter_mut().zip(rest) {
        source.group = first(path);
    }
}

/// Returns the files and folders in a folder, without hidden ones.
fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| Error::setup(format!("list the folder {}", folder.display()), e);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort_by(|a, b| by_name(a, b));
    Ok(paths)
}

/// Collects the files in a folder and in its folders.
fn within(
    folder: &Path,
    argument: usize,
    depth: usize,
    into: &mut Vec<ForeignSource>,
) -> Result<()> {
    if depth > DEEPEST {
        let what = format!("more than {DEEPEST} folders in one another");
        return Err(Error::data(folder.display().to_string(), what));
    }
    for path in listed(folder)? {
        if into.len() > MOST_FILES {
            return Ok(());
        }
        // A link to a folder may lead back to it.
        if path.is_dir() && !path.is_symlink() {
            within(&path, argument, depth + 1, into)?;
        } else if path.is_file() {
            match archive(&path, argument)? {
                Some(members) => into.extend(members),
                None => into.push(ForeignSource::file(path, argument, SourceChoice::Among)),
            }
        }
    }
    Ok(())
}

/// Returns the files in a tar archive, packed or not; `None` for any other file.
fn archive(path: &Path, argument: usize) -> Result<Option<Vec<ForeignSource>>> {
    if !path.is_file() {
        return Ok(None);
    }
    let name = path.display().to_string();
    let raw = Box::new(deadheat_base::foreign::file::open(path)?);
    let Some(content) = foreign_file::archive(&name, raw)? else { return Ok(None) };
    let wrong = |e: std::io::Error| {
        Error::data(
            name.clone(),
            format!("this archive cannot be read: {}", foreign_file::unreadable(&e)),
        )
    };
    let (mut sources, mut long_name) = (Vec::new(), None);
    // The crate would read a name of any length whole.
    for entry in tar::Archive::new(content).entries().map_err(wrong)?.raw(true) {
        let mut entry = entry.map_err(wrong)?;
        let kind = entry.header().entry_type();
        if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
            let named = extended_name(&mut entry, kind).map_err(wrong)?;
            long_name = named.or(long_name);
            continue;
        }
        if !kind.is_file() {
            let is_of_next = kind.is_gnu_longlink() || kind.is_pax_global_extensions();
            long_name = long_name.filter(|_| is_of_next);
            continue;
        }
        let own = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let own = PathBuf::from(OsString::from_vec(own));
        if is_hidden(&own) {
            continue;
        }
        let mut bytes = Vec::new();
        (&mut entry).take(LARGEST_MEMBER + 1).read_to_end(&mut bytes).map_err(wrong)?;
        let own: PathBuf = own.components().filter(|part| *part != Component::CurDir).collect();
        if bytes.len() as u64 > LARGEST_MEMBER || sources.len() >= MOST_FILES {
            let mib = LARGEST_MEMBER >> 20;
            return Err(Error::data(
                name.clone(),
                format!(
                    "{} in this archive is larger than {mib} MiB, or it is one of more than \
                     {MOST_FILES} files; unpack it and give the files",
                    deadheat_base::foreign::short(&own.display().to_string())
                ),
            ));
        }
        let (inner, place) = (own.display().to_string(), SourcePlace::Member(bytes));
        let source = ForeignSource::of(format!("{name}: {inner}"), stem(&own), argument, place);
        sources.push(ForeignSource { inner: Some(inner), ..source });
    }
    sources.sort_by(|a, b| by_text(&a.name, &b.name));
    if sources.is_empty() {
        return Err(Error::data(name, "this archive has no file in it"));
    }
    Ok(Some(sources))
}

/// Reads the name of the next file from an extended header, GNU's or that of POSIX; `None` if there is no name in it.
fn extended_name(entry: &mut impl Read, kind: tar::EntryType) -> std::io::Result<Option<Vec<u8>>> {
    let wrong = |what: String| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    let mut bytes = Vec::new();
    entry.take(LONGEST_HEADER + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_HEADER {
        let what = format!("a name, or a header, has more than {LONGEST_HEADER} bytes");
        return Err(wrong(what));
    }
    let name = if kind.is_gnu_longname() {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        Some(bytes)
    } else {
        let all = tar::PaxExtensions::new(&bytes).filter_map(std::result::Result::ok);
        let path = all.filter(|one| one.key_bytes() == b"path").last();
        path.map(|path| path.value_bytes().to_vec())
    };
    if name.as_ref().is_some_and(|name| name.len() > LONGEST_NAME) {
        Err(wrong(format!("a file has a name of more than {LONGEST_NAME} bytes")))
    } else {
        Ok(name)
    }
}

/// Returns true for files that begin with a dot, or are in such a folder.
fn is_hidden(path: &Path) -> bool {
    let begins = |part: Component<'_>| match part {
        Component::Normal(name) => name.as_encoded_bytes().starts_with(b"."),
        _ => false,
    };
    path.components().any(begins)
}

fn by_name(a: &Path, b: &Path) -> Ordering {
    by_text(&a.to_string_lossy(), &b.to_string_lossy())
}

/// Compares names; numbers in them by size, so that run 10 follows run 9.
fn by_text(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let (Some(left), Some(right)) = (a.chars().next(), b.chars().next()) else {
            return a.len().cmp(&b.len());
        };
        if left.is_ascii_digit() && right.is_ascii_digit() {
            let (first, second) = (digits(a), digits(b));
            let sizes = |text: &str| text.trim_start_matches('0').len();
            let order = sizes(first)
                .cmp(&sizes(second))
                .then_with(|| first.trim_start_matches('0').cmp(second.trim_start_matches('0')));
            if order != Ordering::Equal {
                return order;
            }
            (a, b) = (&a[first.len()..], &b[second.len()..]);
        } else if left != right {
            return left.cmp(&right);
        } else {
            (a, b) = (&a[left.len_utf8()..], &b[right.len_utf8()..]);
        }
    }
}

fn digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_in_order() {
        let mut names = ["run10", "run9", "run09b", "a", "run1/2", "run"];
        names.sort_by(|a, b| by_text(a, b));
        assert_eq!(names, ["a", "run", "run1/2", "run9", "run09b", "run10"]);
    }

    #[test]
    fn endings_of_formats_are_no_part_of_a_name() {
        let names = ["a/tcp.json.gz", "x.tar.zst", ".hidden", "v1.2", "b.txt"];
        let stems = names.map(|name| stem(Path::new(name)));
        assert_eq!(stems, ["tcp", "x", ".hidden", "v1.2", "b"]);
    }

    #[test]
    fn a_label_may_name_files_by_a_pattern() {
        let source = ForeignSource::file("runs/tcp-1.json".into(), 0, SourceChoice::Named);
        for pattern in ["runs/tcp-1.json", "tcp-1.json", "tcp-1", "tcp-*", "tcp-[0-9]", "runs/*"] {
            assert!(source.is_called(pattern), "{pattern}");
        }
        assert!(!source.is_called("udp-*") && !source.is_called("tcp"));
    }

    /// Returns an archive with one file of this name, as GNU tar and as POSIX write it.
    fn named(name: &[u8], is_posix: bool) -> Vec<u8> {
        let mut out = tar::Builder::new(Vec::new());
        let mut add = |path: &str, kind, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            header.set_path(path).unwrap();
            header.set_cksum();
            out.append(&header, content).unwrap();
        };
        if is_posix {
            let record = |len: usize| [format!("{len} path=").as_bytes(), name, b"\n"].concat();
            let len = (name.len()..).find(|len| record(*len).len() == *len).unwrap();
            add("pax", tar::EntryType::XHeader, &record(len));
        } else {
            add("././@LongLink", tar::EntryType::GNULongName, &[name, b"\0"].concat())
        }
        add("short", tar::EntryType::Regular, b"1\n2\n");
        out.into_inner().unwrap()
    }

    #[test]
    fn a_name_in_an_archive_is_whole_or_refused_without_being_read_or_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.tar");
        for is_posix in [false, true] {
            let name = format!("runs/{}", "x".repeat(LONGEST_NAME - 5));
            fs::write(&file, named(name.as_bytes(), is_posix)).unwrap();
            let members = archive(&file, 0).unwrap().unwrap();
            assert_eq!(members[0].inner.as_deref(), Some(name.as_str()));
            for len in [LONGEST_NAME + 1, 60_000, 1 << 20] {
                fs::write(&file, named(&vec![b'x'; len], is_posix)).unwrap();
                let why = archive(&file, 0).err().unwrap().to_string();
                assert!(why.contains("has") && why.contains("bytes") && why.len() < 300, "{why}");
            }
        }
    }
}
