//! Checks of the files that a race reads and writes, before anything runs.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::Side;
use deadheat_contract::workload::{ELSEWHERE, Purpose, SharedTask};
use deadheat_trial::agent::store::partial;
use deadheat_trial::lead::files::{Overwrite, source_length, taken};

/// Returns the work with the length of its source filled in, after checking its files. Writes no file.
///
/// # Errors
/// [`Error::Usage`] with the file, the problem and a remedy.
pub(super) fn check(
    task: &SharedTask,
    to: Option<&str>,
    overwrite: Overwrite,
) -> Result<SharedTask> {
    let mut source = None;
    let mut sink = None;
    for file in &task.info().files {
        if file.path == ELSEWHERE {
            return Err(Error::usage(format!(
                "`{ELSEWHERE}` names no file; a file of that name is ./{ELSEWHERE}"
            )));
        }
        if let (Side::Far, Some(host)) = (file.side, to) {
            return Err(Error::usage(elsewhere(file.purpose, &file.path, host)));
        }
        match file.purpose {
            Purpose::Read => source = Some(PathBuf::from(&file.path)),
            Purpose::Write => sink = Some(PathBuf::from(&file.path)),
        }
    }
    if let Some(sink) = &sink {
        check_sink(sink, overwrite)?;
    }
    let Some(source) = source else { return Ok(task.clone()) };
    let length = source_length(&source)?;
    if let Some(sink) = &sink {
        check_apart(&source, sink)?;
    }
    SharedTask::of(task.info().spec_for(Side::Near, Some(length)))
}

fn elsewhere(purpose: Purpose, path: &str, host: &str) -> String {
    match purpose {
        Purpose::Read => format!(
            "{path} would be read on {host}, and a server reads no files for its clients; with \
             --to, file= takes direction=up, and direction=down takes bytes="
        ),
        Purpose::Write => format!(
            "{path} would be written on {host}, and a server writes no files for its clients; with \
             --to, sink= takes direction=down, and verify=on checks what goes up"
        ),
    }
}

fn check_sink(sink: &Path, overwrite: Overwrite) -> Result<()> {
    let refuse = |why: String| Err(Error::usage(format!("sink={}: {why}", sink.display())));
    if sink.file_name().is_none() {
        return refuse("it names a directory; give the name of a file".into());
    }
    for file in [sink, &partial(sink)] {
        match fs::symlink_metadata(file) {
            Ok(there) if there.is_dir() => {
                let name = file.display();
                return refuse(format!("{name} is a directory; give the name of a file"));
            }
            Ok(there) if !there.is_file() => {
                let name = file.display();
                return refuse(format!(
                    "{name} is no plain file, and is not replaced; name another"
                ));
            }
            Ok(_) if overwrite == Overwrite::Refused => return Err(Error::usage(taken(file))),
            _ => {}
        }
    }
    let directory = match sink.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !directory.is_dir() {
        return refuse(format!("there is no directory {}; make it first", directory.display()));
    }
    if !is_writable(directory) {
        return refuse(format!("files cannot be made in {}", directory.display()));
    }
    Ok(())
}

/// Refuses to send and write the same file, even under two names.
fn check_apart(source: &Path, sink: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().ok();
    let one = real(source);
    let is_same = |other: &Path| one.is_some() && one == real(other);
    if is_same(sink) || is_same(&partial(sink)) {
        return Err(Error::usage(format!(
            "{} would be sent and written at once; give another sink",
            source.display()
        )));
    }
    Ok(())
}

fn is_writable(directory: &Path) -> bool {
    let Ok(name) = CString::new(directory.as_os_str().as_bytes()) else { return false };
    // SAFETY: the pointer is to a NUL-terminated string that outlives the call.
    unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn check(&self, settings: &str, to: Option<&str>, overwrite: Overwrite) -> Result<u64> {
            let settings = settings.replace('@', &format!("{}/", self.0.path().display()));
            let task = SharedTask::parse(&format!("bulk:{settings}")).unwrap();
            check(&task, to, overwrite).map(|task| task.info().most_bytes.unwrap())
        }

        fn say(&self, settings: &str) -> String {
            let error = self.check(settings, None, Overwrite::Refused).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{settings}");
            error.to_string()
        }
    }

    #[test]
    fn the_length_is_that_of_the_file_or_of_the_part_asked_for() {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.0.path().join("in"), [0; 1000]).unwrap();
        let bytes = |settings| folder.check(settings, None, Overwrite::Refused).unwrap();
        assert_eq!(bytes("file=@in"), 1000);
        assert_eq!(bytes("file=@in,bytes=300"), 300);
        assert_eq!(bytes("file=@in,bytes=3kB"), 1000);
        assert_eq!(bytes("sink=@out,bytes=3kB"), 3000);
        fs::write(folder.0.path().join("tiny"), "abc").unwrap();
        assert!(folder.say("file=@tiny,streams=4").contains("too few for 4 streams"));
    }

    #[test]
    fn files_that_will_not_do_are_named_before_anything_runs() {
        let folder = Folder(tempfile::tempdir().unwrap());
        let put = |name: &str| fs::write(folder.0.path().join(name), "x").unwrap();
        put("in");
        put("old");
        put("half.partial");
        std::os::unix::fs::symlink("nowhere", folder.0.path().join("link")).unwrap();
        for (settings, wanted) in [
            ("file=@missing", "/missing: there is no such file"),
            ("file=@", "is a directory"),
            ("file=-,bytes=64", "./-"),
            ("sink=@old,bytes=64", "/old is there already; --force replaces it"),
            ("sink=@half,bytes=64", "/half.partial is there already; --force"),
            ("sink=@in/x,bytes=64", "there is no directory"),
            ("sink=@no/x,bytes=64", "there is no directory"),
            ("sink=@link,bytes=64", "no plain file"),
            ("sink=/dev/null,bytes=64", "no plain file"),
            ("sink=/tmp,bytes=64", "is a directory"),
        ] {
            let said = folder.say(settings);
            assert!(said.contains(wanted), "{settings}: {said}");
        }
        let forced = |settings| folder.check(settings, None, Overwrite::Allowed);
        assert!(forced("sink=@old,bytes=64").is_ok());
        assert!(forced("sink=@half,bytes=64").is_ok());
        for settings in
            ["file=@in,sink=@in", "file=@in,sink=@./in", "file=@half.partial,sink=@half"]
        {
            let said = forced(settings).unwrap_err().to_string();
            assert!(said.contains("sent and written at once"), "{settings}: {said}");
        }
        assert!(forced("sink=/dev/null,bytes=64").is_err(), "a device is never replaced");
        assert!(forced("sink=@link,bytes=64").is_err());
    }

    #[test]
    fn with_a_server_files_are_those_of_this_host() {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.0.path().join("in"), "x").unwrap();
        let ask = |settings| folder.check(settings, Some("far.example"), Overwrite::Refused);
        assert!(ask("file=@in").is_ok());
        assert!(ask("sink=@out,bytes=64,direction=down").is_ok());
        for (settings, wanted) in [
            ("file=@in,direction=down", "would be read on far.example"),
            ("sink=@out,bytes=64", "would be written on far.example"),
            ("file=@in,sink=@out", "would be written on far.example"),
        ] {
            let said = ask(settings).unwrap_err().to_string();
            assert!(said.contains(wanted), "{said}");
        }
    }
}
