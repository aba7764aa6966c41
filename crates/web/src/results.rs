//! Results of the races of pages: in memory for the links of the page, and in a folder that the operator names.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

use deadheat_result::outcome::Outcome;
use deadheat_result::{date, layout, save};

use deadheat_base::error::{Error, Result};

/// Results that stay in memory; the oldest makes room.
const MOST_RESULTS: usize = 16;

/// Files of one server. Strangers cause them, so their number has an end.
const MOST_FILES: usize = 1_000;

/// Results that wait to be written.
const MOST_WAITING: usize = 16;

/// Results of a server.
#[derive(Default)]
pub(crate) struct ResultStore {
    recent: Mutex<VecDeque<StoredResult>>,
    /// Way to the thread that writes files, if there is a folder.
    files: Option<SyncSender<(PathBuf, Outcome)>>,
    folder: Option<PathBuf>,
    written: Mutex<usize>,
    writer: Option<JoinHandle<()>>,
}

struct StoredResult {
    race: String,
    outcome: Outcome,
    file: Option<PathBuf>,
}

impl ResultStore {
    /// Opens the store. The thread that writes starts here, before the server gives up its rights to files.
    ///
    /// # Errors
    /// [`Error::Setup`] if the folder is none, or if the host refuses a thread.
    pub(crate) fn open(folder: Option<PathBuf>) -> Result<ResultStore> {
        let Some(folder) = folder else { return Ok(ResultStore::default()) };
        if !folder.is_dir() {
            let e = std::io::Error::from(std::io::ErrorKind::NotADirectory);
            let what = format!("save results of browsers to {}", folder.display());
            return Err(Error::setup(what, e));
        }
        let (files, waiting) = sync_channel::<(PathBuf, Outcome)>(MOST_WAITING);
        let write = move || {
            for (file, outcome) in waiting {
                // A full disk loses a file; the result is in memory, too.
                let _ = save::save(&outcome, &file);
            }
        };
        let writer = std::thread::Builder::new()
            .name("web results".into())
            .spawn(write)
            .map_err(|e| Error::setup("start a thread for results", e))?;
        let mut store = ResultStore::default();
        (store.files, store.folder, store.writer) = (Some(files), Some(folder), Some(writer));
        Ok(store)
    }

    /// Stores the result of a race so far, in place of an earlier one of the same race.
    pub(crate) fn put(&self, race: &str, outcome: Outcome) {
        let mut recent = lock(&self.recent);
        let place = recent.iter().position(|own| own.race == race);
        let earlier = place.and_then(|place| recent.remove(place));
        let file = earlier.and_then(|own| own.file).or_else(|| self.fresh_file(race));
        if let (Some(files), Some(file)) = (&self.files, &file) {
            // The thread is slow: a later block has the same trials and more.
            let _ = files.try_send((file.clone(), outcome.clone()));
        }
        if recent.len() >= MOST_RESULTS {
            recent.pop_front();
        }
        recent.push_back(StoredResult { race: race.to_owned(), outcome, file });
    }

    /// Returns the name of a new file for a race, if there may be one more.
    fn fresh_file(&self, race: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let mut written = lock(&self.written);
        *written += 1;
        let start = race.get(..8).unwrap_or_default();
        let name = format!("browser-{}-{start}.json", date::compact(SystemTime::now()));
        (*written <= MOST_FILES).then(|| folder.join(Path::new(&name)))
    }

    /// Returns the result of a race as its file has it.
    pub(crate) fn json(&self, race: &str) -> Option<String> {
        self.with(race, |outcome| layout::text(outcome).unwrap_or_default())
    }

    /// Reads the result of a race; `None` if there is none.
    pub(crate) fn with<T>(&self, race: &str, read: impl FnOnce(&Outcome) -> T) -> Option<T> {
        let recent = lock(&self.recent);
        recent.iter().find(|own| own.race == race).map(|own| read(&own.outcome))
    }
}

impl Drop for ResultStore {
    /// Waits until all is written.
    fn drop(&mut self) {
        self.files = None;
        if let Some(writer) = self.writer.take() {
            // A fault in it has cost its files only.
            let _ = writer.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_import::browser::{
        BrowserContender, BrowserPlan, BrowserTrial, BrowserWork, PageFacts, TrialSpan,
    };

    fn outcome() -> Outcome {
        let work = BrowserWork::Connect { count: 1 };
        let contender = |id: &str| BrowserContender { id: id.to_owned(), label: id.to_owned() };
        let plan =
            BrowserPlan::new(vec![contender("a"), contender("b")], work, Some(6), 1).unwrap();
        let span = TrialSpan { started_ms: 0, lasted_ms: 10.0 };
        let trial = || BrowserTrial::read(work, b"{\"connects_ms\":[3]}", span).unwrap();
        let done: Vec<_> = plan.trials().into_iter().map(|slot| (slot, trial())).collect();
        let page = PageFacts {
            browser: "a test".to_owned(),
            step_ms: 0.1,
            loopback_ms: 0.1,
            isolated: true,
        };
        plan.outcome(&done, &page)
    }

    #[test]
    fn results_are_in_the_folder_once_the_store_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let store = ResultStore::open(Some(folder.path().to_owned())).unwrap();
        store.put("0123456789", outcome());
        store.put("0123456789", outcome());
        assert!(store.with("0123456789", |outcome| outcome.trials.len()).unwrap() > 0);
        assert_eq!(store.json("another"), None);
        drop(store);
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(files.len(), 1, "a later block replaces the file: {files:?}");
        let text = std::fs::read(files[0].path()).unwrap();
        assert!(save::parse(&text).is_ok());
        assert!(ResultStore::open(Some(folder.path().join("none"))).is_err());
    }

    #[test]
    fn memory_has_the_last_results_alone() {
        let store = ResultStore::default();
        for race in 0..=MOST_RESULTS {
            store.put(&race.to_string(), outcome());
        }
        assert!(store.json("0").is_none() && store.json("1").is_some());
    }
}
