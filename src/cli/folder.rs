//! The results in a folder, and in the folders in it.

use std::fs;
use std::path::{Path, PathBuf};

use deadheat_base::error::{Error, Result};

/// Maximum number of files and folders that are visited.
const MOST_LOOKED_AT: usize = 100_000;

/// Maximum depth of folders in folders.
const DEEPEST: usize = 32;

/// Maximum number of results that are read: a few KiB of each stay in memory.
const MOST_READ: usize = 10_000;

/// Contents of a folder.
#[derive(Debug, Default)]
pub(super) struct FolderContents {
    /// Files that may be results, by name: they end in `.json` or `.json.gz`.
    pub(super) results: Vec<PathBuf>,
    /// Folders in it that cannot be read, and why.
    pub(super) unread: Vec<(PathBuf, String)>,
}

/// Searches a folder and the folders in it. Links to folders are not followed: they may lead back here.
///
/// # Errors
/// If the folder itself cannot be read, or holds more than [`MOST_LOOKED_AT`] files and folders or [`MOST_READ`]
/// results.
pub(super) fn search(root: &Path) -> Result<FolderContents> {
    let mut searched = FolderContents::default();
    let mut folders = vec![(root.to_path_buf(), 0)];
    let mut looked_at = 0;
    while let Some((folder, depth)) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(_) if folder == root && root.is_file() => {
                return Err(Error::usage(format!(
                    "{} is a file; name the folder with the results",
                    root.display()
                )));
            }
            Err(error) if folder == root => {
                return Err(Error::setup(format!("read the folder {}", folder.display()), error));
            }
            Err(error) => {
                searched.unread.push((folder, error.to_string()));
                continue;
            }
        };
        for entry in entries.flatten() {
            looked_at += 1;
            if looked_at > MOST_LOOKED_AT || searched.results.len() > MOST_READ {
                return Err(too_many(looked_at));
            }
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = entry.path();
            if is_folder && depth < DEEPEST {
                folders.push((path, depth + 1));
            } else if !is_folder && is_result(&path) && path.is_file() {
                searched.results.push(path);
            }
        }
    }
    searched.results.sort();
    Ok(searched)
}

/// Returns the fault of a file without its name, which is shown beside it.
pub(super) fn reason(file: &Path, error: &Error) -> String {
    let said = error.to_string();
    let own_name = format!("{}: ", file.display());
    said.strip_prefix(&own_name).unwrap_or(&said).to_owned()
}

fn too_many(looked_at: usize) -> Error {
    let what = if looked_at > MOST_LOOKED_AT {
        format!("more than {MOST_LOOKED_AT} files")
    } else {
        format!("more than {MOST_READ} results")
    };
    Error::usage(format!("this folder has {what}; name a folder with fewer"))
}

fn is_result(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".json") || name.ends_with(".json.gz")
}
