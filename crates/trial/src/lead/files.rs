//! Files of trials, on the host where the race runs: sources are read and hashed before a trial, sinks are created
//! before it and compared with the sent content after it. Nothing happens while the clock runs, and nothing on behalf
//! of a remote client.
//!
//! Received content goes to `PATH.partial`. Once it is complete and correct, one rename(2) gives it its name, so that
//! PATH never holds a part of a transfer.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::agent::store::partial;
use deadheat_base::error::{Error, Result};
use deadheat_base::units::hex::hex;
use deadheat_contract::contract::{FileAt, Side};
use deadheat_contract::measurements::{ContentState, Verified, total};
use deadheat_contract::workload::{Content, Origin, Piece, Purpose, SharedTask, Task};
use deadheat_datapath::datapath::buffer::{first_wrong, pattern};
use deadheat_datapath::datapath::file::read_at;

/// Permission to replace an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// Not permitted: the file may hold something that the user needs.
    #[default]
    Refused,
    /// Permitted: the user asked for it with an option.
    Allowed,
}

/// Files of all trials of a race.
#[derive(Debug, Default)]
pub(super) struct TrialFiles {
    overwrite: Overwrite,
    /// Files that earlier trials created, which later ones may replace.
    own: BTreeSet<PathBuf>,
    known: BTreeMap<PathBuf, SourceDigests>,
}

/// Source file with known content.
#[derive(Debug)]
struct SourceDigests {
    state: FileState,
    /// SHA-256 by start and length.
    digests: BTreeMap<(u64, u64), String>,
}

/// Identity and version of a file: device, inode, length, and time of its last change.
type FileState = (u64, u64, u64, i64, i64);

/// Files of one trial, prepared for it.
#[derive(Debug, Default)]
pub(super) struct PreparedFiles {
    source: Option<PathBuf>,
    sink: Option<PathBuf>,
    /// Length of the source, in bytes.
    source_bytes: Option<u64>,
}

/// Result of checking a trial's content.
#[derive(Debug)]
pub(super) struct ContentOutcome {
    pub(super) verified: Verified,
    pub(super) why_invalid: Option<String>,
}

/// Bytes per read.
const CHUNK: usize = 1 << 20;

impl TrialFiles {
    pub(super) fn new(overwrite: Overwrite) -> TrialFiles {
        TrialFiles { overwrite, ..TrialFiles::default() }
    }

    /// Prepares a trial's files: reads the source, so that it is in the page cache as far as memory allows, hashes it
    /// if that was not done before, and creates an empty partial sink.
    ///
    /// # Errors
    /// [`Error::Usage`] if a file exists that may not be replaced, [`Error::Data`] if a file cannot be read or created.
    pub(super) fn ready(&mut self, task: &dyn Task) -> Result<PreparedFiles> {
        let mut ready = PreparedFiles::default();
        for file in &task.info().files {
            let path = PathBuf::from(&file.path);
            match file.purpose {
                Purpose::Read => ready.source = Some(path),
                Purpose::Write => ready.sink = Some(path),
            }
        }
        if let Some(path) = &ready.source {
            let whole = source_length(path)?;
            ready.source_bytes = Some(whole);
            let most = task.info().most_bytes;
            self.learn(path, most.map_or(whole, |most| most.min(whole)))?;
        }
        if let Some(path) = &ready.sink {
            self.make(path)?;
        }
        Ok(ready)
    }

    /// Reads and hashes the first `bytes` of a file, which also brings them into the page cache.
    fn learn(&mut self, path: &Path, bytes: u64) -> Result<()> {
        let state = state(path)?;
        if self.known.get(path).is_none_or(|known| known.state != state) {
            self.known.insert(path.to_owned(), SourceDigests { state, digests: BTreeMap::new() });
        }
        if self.known.get(path).is_some_and(|known| known.digests.contains_key(&(0, bytes))) {
            return each_chunk(path, 0, bytes, |_, _| {});
        }
        self.digest(path, 0, bytes).map(drop)
    }

    /// Returns the hash of a part of the source.
    fn digest(&mut self, path: &Path, start: u64, bytes: u64) -> Result<String> {
        let known = self.known.get_mut(path);
        if let Some(digest) = known.as_ref().and_then(|k| k.digests.get(&(start, bytes))) {
            return Ok(digest.clone());
        }
        let digest = sha256(path, start, bytes)?;
        if let Some(known) = known {
            known.digests.insert((start, bytes), digest.clone());
        }
        Ok(digest)
    }

    /// Creates the partial file of a sink anew.
    fn make(&mut self, path: &Path) -> Result<()> {
        let part = partial(path);
        for file in [path, &part] {
            let is_free = self.overwrite == Overwrite::Allowed || self.own.contains(file);
            if !is_free && fs::symlink_metadata(file).is_ok() {
                return Err(Error::usage(taken(file)));
            }
        }
        // The old file is removed, not truncated, so that neither a link nor another name of the file is followed.
        match fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(&part, "it cannot be replaced", &error));
            }
            _ => {}
        }
        let made = OpenOptions::new().write(true).create_new(true).open(&part);
        made.map_err(|error| failed(&part, "it cannot be made", &error))?;
        self.own.insert(part);
        Ok(())
    }

    /// Removes the empty partial file of a trial that failed before anything arrived.
    pub(super) fn abandon(&self, ready: &PreparedFiles) {
        let Some(part) = ready.sink.as_deref().map(partial) else { return };
        if self.own.contains(&part) && fs::metadata(&part).is_ok_and(|there| there.len() == 0) {
            // An empty file that stays does no harm.
            let _ = fs::remove_file(&part);
        }
    }

    /// Compares the received content with the sent one, and renames a complete and correct file to its final name.
    ///
    /// # Errors
    /// [`Error::Data`] where a file cannot be read, written to disk, or named.
    pub(super) fn settle(
        &mut self,
        ready: &PreparedFiles,
        content: &Content,
    ) -> Result<ContentOutcome> {
        let bytes = total(content.pieces.iter().map(|piece| piece.bytes));
        let arrived = total(content.pieces.iter().map(|piece| piece.report.arrived));
        let mut verified = Verified {
            state: ContentState::NotVerified,
            content: None,
            bytes,
            bytes_missing: bytes.saturating_sub(arrived),
            differs_at: content.pieces.iter().filter_map(|piece| piece.report.differs_at).min(),
            file: None,
        };
        if let Some(source) = &ready.source {
            verified.content = Some(self.digest(source, 0, bytes)?);
        }
        let why_invalid = match &ready.sink {
            Some(sink) => {
                self.settle_sink(ready, sink, content, &mut verified)?;
                None
            }
            None => self.settle_reports(ready, content, &mut verified)?,
        };
        if let Some(digest) = &mut verified.content {
            digest.insert_str(0, "sha256 ");
        }
        let differs = verified.state == ContentState::Differs;
        let place = verified.differs_at.map(|at| format!("content differs from byte {at} on"));
        let why_invalid = why_invalid.or_else(|| place.filter(|_| differs));
        Ok(ContentOutcome { verified, why_invalid })
    }

    /// Judges the trial by the content of the sink.
    fn settle_sink(
        &mut self,
        ready: &PreparedFiles,
        sink: &Path,
        content: &Content,
        verified: &mut Verified,
    ) -> Result<()> {
        let part = partial(sink);
        verified.file = Some(part.display().to_string());
        // Unwritten data would be written during the next trial; and a full disk may show only here.
        let file = File::open(&part).and_then(|file| file.sync_data());
        file.map_err(|error| failed(&part, "it cannot be written to disk", &error))?;
        if verified.bytes_missing > 0 {
            verified.state = ContentState::Partial;
            verified.content = None;
            return Ok(());
        }
        let digest = sha256(&part, 0, verified.bytes)?;
        let length = fs::metadata(&part).map_err(|e| failed(&part, "it cannot be read", &e))?.len();
        let differs_at = match (&ready.source, &verified.content) {
            (Some(_), Some(sent)) if *sent == digest => None,
            (Some(source), _) => first_difference(source, &part, verified.bytes)?,
            (None, _) => first_not_made_up(&part, &content.pieces)?,
        };
        verified.differs_at = differs_at.or((length > verified.bytes).then_some(verified.bytes));
        verified.content = Some(digest);
        if verified.differs_at.is_some() {
            verified.state = ContentState::Differs;
            return Ok(());
        }
        self.name(&part, sink)?;
        verified.state = ContentState::Verified;
        verified.file = Some(sink.display().to_string());
        Ok(())
    }

    /// Judges the trial by the reports of the receiving halves; returns the reason for a difference at an unknown
    /// place.
    fn settle_reports(
        &mut self,
        ready: &PreparedFiles,
        content: &Content,
        verified: &mut Verified,
    ) -> Result<Option<String>> {
        let checked = |piece: &Piece| piece.report.checked == piece.report.arrived;
        if verified.differs_at.is_some() {
            verified.state = ContentState::Differs;
            return Ok(None);
        }
        if !content.pieces.iter().all(checked) || verified.bytes_missing == verified.bytes {
            return Ok(None);
        }
        let is_complete = verified.bytes_missing == 0;
        verified.state = if is_complete { ContentState::Verified } else { ContentState::Partial };
        let (Origin::File, Some(source), true) = (content.origin, &ready.source, is_complete)
        else {
            return Ok(None);
        };
        for piece in &content.pieces {
            let sent = self.digest(source, piece.start, piece.bytes)?;
            if piece.report.sha256.as_deref() != Some(sent.as_str()) {
                verified.state = ContentState::Differs;
                return Ok(Some(format!(
                    "content differs within bytes {} to {}",
                    piece.start,
                    (piece.start + piece.bytes).saturating_sub(1)
                )));
            }
        }
        Ok(None)
    }

    /// Renames the received file to the name that the user asked for.
    fn name(&mut self, part: &Path, sink: &Path) -> Result<()> {
        let is_free = self.overwrite == Overwrite::Allowed || self.own.contains(sink);
        let named = if is_free { fs::rename(part, sink) } else { rename_new(part, sink) };
        match named {
            Ok(()) => {
                self.own.insert(sink.to_owned());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::data(
                sink.display().to_string(),
                format!(
                    "it was not there when the trial began, and is not replaced; what arrived is \
                     in {}",
                    part.display()
                ),
            )),
            Err(error) => Err(failed(sink, "what arrived cannot be given this name", &error)),
        }
    }
}

impl PreparedFiles {
    /// Returns the work for one end; unchanged if it names no files.
    ///
    /// # Errors
    /// As of [`SharedTask::of`].
    pub(super) fn work_for(&self, task: &SharedTask, side: Side) -> Result<SharedTask> {
        if self.source.is_none() && self.sink.is_none() {
            return Ok(task.clone());
        }
        SharedTask::of(task.info().spec_for(side, self.source_bytes))
    }
}

/// Returns the reason why a file may not be written, with a remedy.
pub fn taken(file: &Path) -> String {
    format!(
        "{} is there already; --force replaces it, or name a file that is not there",
        file.display()
    )
}

/// Returns the length in bytes of a file to be sent.
///
/// # Errors
/// [`Error::Usage`] if it is missing, not a file, unreadable or empty.
pub fn source_length(path: &Path) -> Result<u64> {
    let refuse = |why: String| Err(Error::usage(format!("file={}: {why}", path.display())));
    let length = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return refuse("there is no such file".into());
        }
        Err(error) => return refuse(format!("it cannot be looked at: {error}")),
        Ok(there) if there.is_dir() => {
            return refuse("it is a directory, and one file is sent; pack it first".into());
        }
        Ok(there) if !there.is_file() => {
            return refuse("it is a device or pipe, and a file with a length is sent".into());
        }
        Ok(there) => there.len(),
    };
    if let Err(error) = File::open(path) {
        return refuse(format!("it cannot be read: {error}"));
    }
    if length == 0 { refuse("it is empty, and nothing takes no time".into()) } else { Ok(length) }
}

fn failed(path: &Path, what: &str, error: &io::Error) -> Error {
    Error::data(path.display().to_string(), format!("{what}: {error}"))
}

fn state(path: &Path) -> Result<FileState> {
    let there = fs::metadata(path).map_err(|e| failed(path, "it cannot be looked at", &e))?;
    Ok((there.dev(), there.ino(), there.len(), there.ctime(), there.ctime_nsec()))
}

/// Passes `bytes` of a file from `start` on to `show`, chunk by chunk with their offsets, in order; ends early if the
/// file does.
fn each_chunk(path: &Path, start: u64, bytes: u64, mut show: impl FnMut(u64, &[u8])) -> Result<()> {
    let cannot = |error| failed(path, "it cannot be read", &error);
    let file = File::open(path).map_err(cannot)?;
    let mut room = vec![0; CHUNK];
    let mut at = start;
    let end = start.saturating_add(bytes);
    while at < end {
        let len = CHUNK.min(usize::try_from(end - at).unwrap_or(CHUNK));
        let place = FileAt { file: file.as_fd(), offset: at };
        let got = read_at(place, &mut room[..len]).map_err(cannot)?;
        show(at, &room[..got]);
        at += got as u64;
        if got < len {
            break;
        }
    }
    Ok(())
}

fn sha256(path: &Path, start: u64, bytes: u64) -> Result<String> {
    let mut hash = Sha256::new();
    each_chunk(path, start, bytes, |_, chunk| hash.update(chunk))?;
    Ok(hex(&hash.finalize()))
}

/// Returns the offset of the first difference within `bytes` of two files; if one is shorter, its length.
fn first_difference(a: &Path, b: &Path, bytes: u64) -> Result<Option<u64>> {
    let cannot = |error| failed(b, "it cannot be read", &error);
    let other = File::open(b).map_err(cannot)?;
    let mut room = vec![0; CHUNK];
    let (mut found, mut trouble, mut seen) = (None, None, 0);
    each_chunk(a, 0, bytes, |at, chunk| {
        seen = at + chunk.len() as u64;
        if found.is_some() || trouble.is_some() {
            return;
        }
        match read_at(FileAt { file: other.as_fd(), offset: at }, &mut room[..chunk.len()]) {
            Ok(got) => {
                let wrong = chunk.iter().zip(&room[..got]).position(|(a, b)| a != b);
                let wrong = wrong.or((got < chunk.len()).then_some(got));
                found = wrong.map(|place| at + place as u64);
            }
            Err(error) => trouble = Some(error),
        }
    })?;
    match trouble {
        Some(error) => Err(cannot(error)),
        None => Ok(found.or((seen < bytes).then_some(seen))),
    }
}

/// Returns the offset of the first byte that differs from the generated content of its piece; if the file is shorter,
/// its length.
fn first_not_made_up(path: &Path, pieces: &[Piece]) -> Result<Option<u64>> {
    let pattern = pattern();
    for piece in pieces {
        let (mut wrong, mut seen) = (None, piece.start);
        each_chunk(path, piece.start, piece.bytes, |at, chunk| {
            seen = at + chunk.len() as u64;
            if wrong.is_none() {
                let place = first_wrong(&pattern, at - piece.start, chunk);
                wrong = place.map(|place| at + place as u64);
            }
        })?;
        let ended = (seen < piece.start + piece.bytes).then_some(seen);
        if let Some(at) = wrong.or(ended) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Renames a file, but never replaces one (renameat2(2), `RENAME_NOREPLACE`).
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let [from_name, to_name] = [from, to].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (from_name, to_name) = (from_name?, to_name?);
    // SAFETY: both pointers are to NUL-terminated strings that outlive the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            from_name.as_ptr(),
            libc::AT_FDCWD,
            to_name.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if done == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // This file system does not support such a rename (vfat, some network ones).
        Some(libc::EINVAL | libc::ENOSYS) if fs::symlink_metadata(to).is_err() => {
            fs::rename(from, to)
        }
        Some(libc::EINVAL | libc::ENOSYS) => Err(io::ErrorKind::AlreadyExists.into()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_contract::workload::ContentReport;
    use deadheat_datapath::datapath::buffer::PERIOD;

    struct Folder {
        dir: tempfile::TempDir,
    }

    impl Folder {
        fn new() -> Folder {
            Folder { dir: tempfile::tempdir().unwrap() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn put(&self, name: &str, content: &[u8]) {
            fs::write(self.path(name), content).unwrap();
        }

        fn task(&self, settings: &str) -> Box<dyn Task> {
            let dir = self.dir.path().display().to_string();
            deadheat_contract::workload::parse(&format!(
                "bulk:{}",
                settings.replace('@', &format!("{dir}/"))
            ))
            .unwrap()
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.dir.path()).unwrap();
            let mut names: Vec<String> =
                entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    fn content(origin: Origin, pieces: &[(u64, u64, u64)]) -> Content {
        let piece = |&(start, bytes, arrived): &(u64, u64, u64)| Piece {
            start,
            bytes,
            report: ContentReport { arrived, ..ContentReport::default() },
        };
        Content { origin, pieces: pieces.iter().map(piece).collect() }
    }

    #[test]
    fn what_is_complete_and_right_gets_its_name_and_the_next_trial_replaces_it() {
        let folder = Folder::new();
        folder.put("in", b"hello");
        let task = folder.task("file=@in,sink=@out");
        let mut files = TrialFiles::default();
        for _ in 0..2 {
            let ready = files.ready(&*task).unwrap();
            assert_eq!(ready.source_bytes, Some(5));
            fs::write(folder.path("out.partial"), b"hello").unwrap();
            let settled = files.settle(&ready, &content(Origin::File, &[(0, 5, 5)])).unwrap();
            assert_eq!(settled.verified.state, ContentState::Verified);
            assert_eq!(settled.why_invalid, None);
            let hash = "sha256 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
            assert_eq!(settled.verified.content.as_deref(), Some(hash));
            assert_eq!(folder.names(), ["in", "out"]);
        }
    }

    #[test]
    fn what_is_not_complete_stays_partial() {
        let folder = Folder::new();
        folder.put("in", b"hello");
        let task = folder.task("file=@in,sink=@out");
        let mut files = TrialFiles::default();
        let ready = files.ready(&*task).unwrap();
        fs::write(folder.path("out.partial"), b"he").unwrap();
        let settled =
            files.settle(&ready, &content(Origin::File, &[(0, 3, 2), (3, 2, 0)])).unwrap();
        let Verified { state, bytes_missing, file, content, .. } = settled.verified;
        assert_eq!((state, bytes_missing, content), (ContentState::Partial, 3, None));
        assert!(file.unwrap().ends_with("/out.partial"));
        assert_eq!(settled.why_invalid, None, "loss is a result");
        assert_eq!(folder.names(), ["in", "out.partial"]);
    }

    #[test]
    fn the_first_wrong_byte_is_told_and_the_file_stays_partial() {
        let folder = Folder::new();
        folder.put("in", b"hello");
        let say = |settings: &str, origin, arrived: &[u8]| {
            let mut files = TrialFiles::new(Overwrite::Allowed);
            let ready = files.ready(&*folder.task(settings)).unwrap();
            fs::write(folder.path("out.partial"), arrived).unwrap();
            let settled = files.settle(&ready, &content(origin, &[(0, 2, 2), (2, 3, 3)])).unwrap();
            assert_eq!(settled.verified.state, ContentState::Differs);
            assert!(!folder.path("out").exists());
            settled.why_invalid.unwrap()
        };
        let file = |arrived| say("file=@in,sink=@out", Origin::File, arrived);
        assert_eq!(file(b"heLlo"), "content differs from byte 2 on");
        assert_eq!(file(b"hel"), "content differs from byte 3 on");
        assert_eq!(file(b"hello!"), "content differs from byte 5 on");
        let pattern = pattern();
        let mut made_up = [&pattern[..2], &pattern[..3]].concat();
        made_up[4] ^= 1;
        let why = say("sink=@out,bytes=5", Origin::MadeUp, &made_up);
        assert_eq!(why, "content differs from byte 4 on");
    }

    #[test]
    fn made_up_content_in_a_file_begins_anew_with_each_stream() {
        let folder = Folder::new();
        let mut files = TrialFiles::default();
        let ready = files.ready(&*folder.task("sink=@out,bytes=300000,streams=2")).unwrap();
        let pattern = pattern();
        let stream = [&pattern[..], &pattern[..150_000 - PERIOD]].concat();
        fs::write(folder.path("out.partial"), [&stream[..], &stream].concat()).unwrap();
        let pieces = [(0, 150_000, 150_000), (150_000, 150_000, 150_000)];
        let settled = files.settle(&ready, &content(Origin::MadeUp, &pieces)).unwrap();
        assert_eq!(settled.verified.state, ContentState::Verified);
        assert_eq!(folder.names(), ["out"]);
    }

    #[test]
    fn what_was_hashed_on_the_way_is_held_against_each_part_of_the_file() {
        let folder = Folder::new();
        folder.put("in", b"hello");
        let mut files = TrialFiles::default();
        let ready = files.ready(&*folder.task("file=@in,verify=on,streams=2")).unwrap();
        let mut arrived = content(Origin::File, &[(0, 2, 2), (2, 3, 3)]);
        for (piece, part) in arrived.pieces.iter_mut().zip(["he", "llo"]) {
            piece.report.checked = piece.bytes;
            folder.put("part", part.as_bytes());
            piece.report.sha256 = Some(sha256(&folder.path("part"), 0, 9).unwrap());
        }
        let settled = files.settle(&ready, &arrived).unwrap();
        assert_eq!(settled.verified.state, ContentState::Verified);
        arrived.pieces[1].report.sha256 = arrived.pieces[0].report.sha256.clone();
        let settled = files.settle(&ready, &arrived).unwrap();
        assert_eq!(settled.verified.state, ContentState::Differs);
        assert_eq!(settled.why_invalid.unwrap(), "content differs within bytes 2 to 4");
        arrived.pieces[0].report.checked = 0;
        let settled = files.settle(&ready, &arrived).unwrap();
        assert_eq!(settled.verified.state, ContentState::NotVerified, "nobody saw all of it");
    }

    #[test]
    fn a_file_that_is_there_is_replaced_on_demand_only() {
        let folder = Folder::new();
        let task = folder.task("sink=@out,bytes=5");
        for name in ["out", "out.partial"] {
            folder.put(name, b"precious");
            let why = TrialFiles::default().ready(&*task).unwrap_err();
            assert_eq!(why.exit_code(), 2);
            let why = why.to_string();
            assert!(why.contains(&format!("/{name} is there already; --force")), "{why}");
            assert_eq!(fs::read(folder.path(name)).unwrap(), b"precious");
            TrialFiles::new(Overwrite::Allowed).ready(&*task).unwrap();
            assert_eq!(fs::read(folder.path("out.partial")).unwrap(), b"");
            folder.names().iter().for_each(|name| fs::remove_file(folder.path(name)).unwrap());
        }
    }

    #[test]
    fn a_file_that_appears_during_the_trial_is_not_replaced() {
        let folder = Folder::new();
        let mut files = TrialFiles::default();
        let ready = files.ready(&*folder.task("sink=@out,bytes=5")).unwrap();
        folder.put("out", b"precious");
        fs::write(folder.path("out.partial"), &pattern()[..5]).unwrap();
        let why = files.settle(&ready, &content(Origin::MadeUp, &[(0, 5, 5)])).unwrap_err();
        assert!(why.to_string().contains("is not replaced; what arrived is in"), "{why}");
        assert_eq!(fs::read(folder.path("out")).unwrap(), b"precious");
    }

    #[test]
    fn a_source_that_changes_between_trials_is_hashed_again() {
        let folder = Folder::new();
        folder.put("in", b"hello");
        let task = folder.task("file=@in");
        let mut files = TrialFiles::default();
        files.ready(&*task).unwrap();
        let hash = |files: &mut TrialFiles| files.digest(&folder.path("in"), 0, 5).unwrap();
        let before = hash(&mut files);
        fs::remove_file(folder.path("in")).unwrap();
        folder.put("in", b"world");
        files.ready(&*task).unwrap();
        assert_ne!(hash(&mut files), before);
    }

    #[test]
    fn a_trial_that_failed_at_once_leaves_nothing() {
        let folder = Folder::new();
        let mut files = TrialFiles::default();
        let ready = files.ready(&*folder.task("sink=@out,bytes=5")).unwrap();
        assert_eq!(folder.names(), ["out.partial"]);
        files.abandon(&ready);
        assert!(folder.names().is_empty());
    }

    #[test]
    fn sources_that_cannot_be_sent_are_named() {
        let folder = Folder::new();
        folder.put("empty", b"");
        let say = |name: &str| {
            let error = source_length(&folder.path(name)).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        };
        assert!(say("missing").contains("/missing: there is no such file"));
        assert!(say("").contains("it is a directory"));
        assert!(say("empty").contains("it is empty"));
        assert!(source_length(Path::new("/dev/null")).unwrap_err().to_string().contains("device"));
    }
}
