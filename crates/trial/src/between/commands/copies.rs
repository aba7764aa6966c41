//! Copies of the programs that commands run, made anew for each race.
//!
//! The speed of a program depends on where its file lies in the page cache. What a linker wrote lies there in many small pieces
//! and a copy in few large ones, so two files of one content differ. Trials cannot average that away: a file stays where it lies
//! for a whole race. So each program is copied in one way, and twice: a set of copies for the contenders, and one for the control,
//! which thereby shows by how much two copies of one file differ.
//!
//! Contenders that run the same file share its copy, and differ by their options alone.

use deadheat_records::commands::ProgramCopy;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::iter::successors;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use super::folder::{CopyFolder, runs_programs};
use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::Side;
use deadheat_datapath::transport::Contender;
use deadheat_datapath::transport::command_line::found;
use deadheat_datapath::transport::commands::{CommandPair, CopyRule, CopySet};

/// Largest program that is copied, in bytes.
const LARGEST: u64 = 256_000_000;
/// Bytes of one write(2). Large ones let the kernel place a file in large pieces.
const PIECE: usize = 4 << 20;
/// Beginning of a file that another program runs.
const SCRIPT: &[u8] = b"#!";
/// Bits of a file that gives the rights of its owner or group (setuid, setgid).
const OWN_RIGHTS: u32 = 0o6000;
/// Bits of permissions.
const PERMISSIONS: u32 = 0o777;
/// Permissions that this user needs to run a file.
const RUN: u32 = 0o500;
/// File by which a Python finds its virtual environment: beside its own path, or one folder above (PEP 405).
const ENVIRONMENT: &str = "pyvenv.cfg";
/// Most symbolic links that the kernel follows in a path (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Copies of the programs of a race's commands, which are removed with it.
#[derive(Debug, Default)]
pub struct ProgramCopies {
    /// Files by the paths that commands have.
    named: BTreeMap<String, PathBuf>,
    programs: BTreeMap<PathBuf, KnownProgram>,
    folder: Option<CopyFolder>,
}

#[derive(Debug)]
struct KnownProgram {
    /// Number of the program in the race, for the names of its copies.
    number: usize,
    /// Obstacle to a copy, if there is one.
    obstacle: Option<ProgramCopy>,
    /// Copies, by [`CopySet`].
    copies: Option<[PathBuf; 2]>,
}

impl ProgramCopies {
    /// Copies the programs of these commands, in their order.
    ///
    /// # Errors
    /// [`Error::Setup`] with the program, if it cannot be copied for want of space.
    pub fn of(commands: &[(&CommandPair, Side)]) -> Result<ProgramCopies> {
        let mut all = ProgramCopies::default();
        let paths = |(pair, side): &(&CommandPair, Side)| pair.program_paths(*side);
        // First the names of all: a file that one of them runs where it is runs there for all.
        commands.iter().flat_map(paths).for_each(|typed| all.name(typed));
        for command in commands {
            for typed in paths(command) {
                all.copy(command.0, &typed)?;
            }
        }
        Ok(all)
    }

    /// Returns the pair with this set of copies in place of its programs.
    pub fn pair(&self, pair: &CommandPair, set: CopySet) -> CommandPair {
        pair.with_paths(&|typed| {
            let program = self.programs.get(self.named.get(typed)?)?;
            let [own, control] =
                program.copies.as_ref().filter(|_| program.is_copied(pair.copy))?;
            let copy = match set {
                CopySet::Contenders => own,
                CopySet::Control => control,
            };
            copy.to_str().map(str::to_owned)
        })
    }

    /// Makes a contender run this set of copies, if it has commands.
    pub fn lend(&self, contender: &mut Contender, set: CopySet) {
        if let Some(commands) = &contender.commands {
            let pair = self.pair(&commands.pair, set);
            contender.commands = Some(Arc::new(commands.running(pair, set)));
        }
    }

    /// Returns whether a file is copied, and a file with its content: the copy, if there is one. No state for a file that a
    /// command does not name by a path, or that is no program.
    pub(super) fn of_file<'a>(
        &'a self,
        pair: &CommandPair,
        path: &'a Path,
    ) -> (Option<ProgramCopy>, &'a Path) {
        let Some(program) = self.programs.get(path) else { return (None, path) };
        match (&program.copies, program.state(pair.copy)) {
            (Some([own, _]), ProgramCopy::Made) => (Some(ProgramCopy::Made), own),
            (_, state) => (Some(state), path),
        }
    }

    /// Returns true if all copies exist: some hosts remove old temporary files.
    pub fn are_there(&self) -> bool {
        self.programs
            .values()
            .flat_map(|program| program.copies.iter().flatten())
            .all(|copy| copy.exists())
    }

    /// Notes the program that a command names by this path, if it is one.
    fn name(&mut self, typed: String) {
        let Some(path) = found(&typed).and_then(|path| path.canonicalize().ok()) else { return };
        let number = self.programs.len();
        let program = self.programs.entry(path.clone()).or_insert_with(|| KnownProgram {
            number,
            obstacle: obstacle(&path),
            copies: None,
        });
        if program.obstacle.is_none() && is_in_environment(Path::new(&typed)) {
            program.obstacle = Some(ProgramCopy::Environment);
        }
        self.named.insert(typed, path);
    }

    /// Copies the program of this name, if it may be copied and is not yet.
    fn copy(&mut self, pair: &CommandPair, typed: &str) -> Result<()> {
        let Some(path) = self.named.get(typed) else { return Ok(()) };
        let Some(program) = self.programs.get_mut(path) else { return Ok(()) };
        if program.copies.is_some() || !program.is_copied(pair.copy) {
            return Ok(());
        }
        let number = program.number;
        if self.folder.is_none() {
            self.folder = Some(CopyFolder::fresh()?);
        }
        let Some(folder) = &self.folder else { return Ok(()) };
        if !runs_programs(folder.path()) {
            program.obstacle = Some(ProgramCopy::Unrunnable);
            return Ok(());
        }
        let made = [0, 1].map(|set| copy(path, &folder.path().join(format!("{number:03}{set}"))));
        let [own, control] = made;
        let failed = |error| {
            Error::setup_advice(
                format!("copy {} to {}", path.display(), folder.path().display()),
                error,
                format!(
                    "TMPDIR names another folder, and copy = \"none\" in {} runs the programs where they are",
                    pair.file
                ),
            )
        };
        program.copies = Some([own.map_err(failed)?, control.map_err(failed)?]);
        Ok(())
    }
}

impl KnownProgram {
    /// Returns its state under the rule of a pair.
    fn state(&self, rule: CopyRule) -> ProgramCopy {
        match (rule, self.obstacle) {
            (CopyRule::None, _) => ProgramCopy::Off,
            (
                CopyRule::All,
                Some(ProgramCopy::Script | ProgramCopy::Beside | ProgramCopy::Environment),
            ) => ProgramCopy::Made,
            (_, obstacle) => obstacle.unwrap_or(ProgramCopy::Made),
        }
    }

    fn is_copied(&self, rule: CopyRule) -> bool {
        self.state(rule) == ProgramCopy::Made
    }
}

/// Returns the obstacle to a copy of a program, if there is one.
fn obstacle(path: &Path) -> Option<ProgramCopy> {
    let Ok(facts) = path.metadata() else { return Some(ProgramCopy::Unreadable) };
    if facts.permissions().mode() & OWN_RIGHTS != 0 || has_capabilities(path) {
        return Some(ProgramCopy::Rights);
    }
    if facts.len() > LARGEST {
        return Some(ProgramCopy::Large);
    }
    let Ok(content) = fs::read(path) else { return Some(ProgramCopy::Unreadable) };
    if content.starts_with(SCRIPT) {
        return Some(ProgramCopy::Script);
    }
    // In the list of a program's folders with libraries (ld.so(8)).
    let has = |name: &[u8]| content.windows(name.len()).any(|piece| piece == name);
    (has(b"$ORIGIN") || has(b"${ORIGIN}")).then_some(ProgramCopy::Beside)
}

/// Returns true if a program is in a virtual environment of Python by its path, or by one of the links that lead to its file.
fn is_in_environment(typed: &Path) -> bool {
    let target = |path: &PathBuf| {
        // A relative target begins at the folder of its link.
        fs::read_link(path).ok().map(|target| path.with_file_name(target))
    };
    let paths = successors(absolute(typed).ok(), target).take(MOST_LINKS);
    paths.into_iter().any(|path| {
        let written = path.parent().map(Path::to_owned);
        let real = written.as_ref().and_then(|folder| folder.canonicalize().ok());
        let folders = [written, real].into_iter().flatten();
        folders.into_iter().any(|folder| {
            folder.ancestors().take(2).any(|folder| folder.join(ENVIRONMENT).is_file())
        })
    })
}

/// Returns true if a file has capabilities (capabilities(7)).
fn has_capabilities(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names are live C strings, and no value is to be written.
    let bytes = unsafe {
        libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
    };
    bytes > 0
}

/// Copies a program under its own name into a new folder.
fn copy(from: &Path, folder: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().mode(0o700).create(folder)?;
    let to = folder.join(from.file_name().unwrap_or_default());
    let mode = from.metadata()?.permissions().mode();
    let mode = (mode & PERMISSIONS) | RUN;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&to)?;
    for piece in fs::read(from)?.chunks(PIECE) {
        file.write_all(piece)?;
    }
    // So that no trial shares the disk with it.
    File::sync_data(&file)?;
    fs::set_permissions(&to, fs::Permissions::from_mode(mode))?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;
    use deadheat_datapath::transport::commands::allowed;

    const BINARY: &[u8] = b"\x7fELF of a kind";

    fn write(folder: &Path, name: &str, content: &[u8]) {
        let file = folder.join(name);
        fs::write(&file, content).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns a pair whose server runs `bin` through a shell, and whose client is `client`.
    fn pair(folder: &Path, bin: &str, more: &str) -> Arc<CommandPair> {
        let text = format!(
            "server = 'sh -c \"exec {{bin}} {{port}}\"'\nclient = '{{pair}}/client {{port}} {{bytes}}'\n{more}\n[set]\nbin = '{{pair}}/{bin}'"
        );
        let file = folder.join("pair.toml");
        fs::write(&file, text).unwrap();
        allowed(&file.display().to_string()).unwrap()
    }

    fn both(pair: &CommandPair) -> ProgramCopies {
        ProgramCopies::of(&[(pair, Side::Near), (pair, Side::Far)]).unwrap()
    }

    #[test]
    fn a_program_is_copied_for_contenders_and_for_the_control_and_copies_end_with_the_race() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "server", BINARY);
        write(folder.path(), "client", BINARY);
        let pair = pair(folder.path(), "server", "");
        let copies = both(&pair);
        let [own, control] = [CopySet::Contenders, CopySet::Control].map(|set| {
            let copied = copies.pair(&pair, set);
            assert!(copied.server.is_copy && copied.client.is_copy);
            assert_eq!(
                (&copied.variables, copied.server.typed),
                (&pair.variables, pair.server.typed.clone())
            );
            PathBuf::from(copied.client.program(&pair.folder))
        });
        assert_eq!(own.as_os_str().len(), control.as_os_str().len(), "names of one length");
        for copy in [&own, &control] {
            assert_eq!(fs::read(copy).unwrap(), BINARY);
            assert_eq!(copy.file_name().unwrap(), "client");
            assert_eq!(copy.metadata().unwrap().mode() & 0o777, 0o755);
        }
        assert_ne!(own.metadata().unwrap().ino(), control.metadata().unwrap().ino());
        let server =
            copies.pair(&pair, CopySet::Control).server.fixed_words(&pair.folder)[2].clone();
        assert!(server.starts_with("exec /") && !server.contains(folder.path().to_str().unwrap()));
        assert!(copies.are_there());
        drop(copies);
        assert!(!own.exists() && !control.exists());
    }

    #[test]
    fn a_program_that_needs_the_files_beside_it_is_not_copied_unasked() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "client", b"#!/bin/sh\n");
        write(folder.path(), "server", b"\x7fELF and ${ORIGIN}/../lib in it");
        let states = |rule: &str| {
            let pair = pair(folder.path(), "server", rule);
            let copies = both(&pair);
            ["client", "server"].map(|name| {
                let path = folder.path().canonicalize().unwrap().join(name);
                let (state, content) = copies.of_file(&pair, &path);
                assert_eq!(content == path, state != Some(ProgramCopy::Made));
                state.unwrap()
            })
        };
        assert_eq!(states(""), [ProgramCopy::Script, ProgramCopy::Beside]);
        assert_eq!(states("copy = 'all'"), [ProgramCopy::Made; 2]);
        assert_eq!(states("copy = 'none'"), [ProgramCopy::Off; 2]);
        let program = folder.path().join("server");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(states("copy = 'all'"), [ProgramCopy::Made, ProgramCopy::Rights]);
    }

    #[test]
    fn the_python_of_a_virtual_environment_is_not_copied_unasked() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path();
        for name in ["system", "env/bin", "made/bin"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        for name in ["env/pyvenv.cfg", "made/pyvenv.cfg"] {
            fs::write(folder.join(name), "home = /usr/bin").unwrap();
        }
        for name in ["client", "system/python3.11", "system/other", "made/bin/python"] {
            write(folder, name, BINARY);
        }
        // As python3 -m venv makes them, and one behind them by which a user may start it.
        let link = |to: &str, name: &str| symlink(to, folder.join(name)).unwrap();
        link("../../system/python3.11", "env/bin/python3");
        link("python3", "env/bin/python");
        link("env/bin/python", "start");
        link("env", "same");
        let states = |bins: &[&str], rule: &str| {
            // The file of a pair is read as it is checked, so one folder has several in turn.
            let pairs: Vec<_> = bins.iter().map(|bin| pair(folder, bin, rule)).collect();
            let all: Vec<_> = pairs.iter().map(|pair| (&**pair, Side::Far)).collect();
            let copies = ProgramCopies::of(&all).unwrap();
            let states = bins.iter().zip(&pairs).map(|(bin, pair)| {
                let path = folder.join(bin).canonicalize().unwrap();
                copies.of_file(pair, &path).0.unwrap()
            });
            states.collect::<Vec<_>>()
        };
        for bin in
            ["env/bin/python", "env/bin/python3", "start", "same/bin/python", "made/bin/python"]
        {
            assert_eq!(states(&[bin], ""), [ProgramCopy::Environment], "{bin}");
        }
        assert_eq!(states(&["env/bin/python"], "copy = 'all'"), [ProgramCopy::Made]);
        assert_eq!(states(&["env/bin/python"], "copy = 'none'"), [ProgramCopy::Off]);
        assert_eq!(states(&["system/python3.11", "system/other"], ""), [ProgramCopy::Made; 2]);
        // One file under two names: both contenders run it where it is.
        assert_eq!(
            states(&["system/python3.11", "env/bin/python", "system/other"], ""),
            [ProgramCopy::Environment, ProgramCopy::Environment, ProgramCopy::Made]
        );
    }

    #[test]
    fn what_is_found_by_its_name_is_no_program_of_the_pair() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "client", BINARY);
        fs::write(folder.path().join("data"), BINARY).unwrap();
        let pair = pair(folder.path(), "data", "");
        let copies = both(&pair);
        assert_eq!(
            copies.programs.len(),
            1,
            "neither sh nor a file that nobody can run: {copies:?}"
        );
        assert!(!copies.pair(&pair, CopySet::Contenders).server.is_copy);
    }
}
