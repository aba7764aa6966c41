//! Packs the files of `studies/` and those of `apps/`, and lists them for `src/program.rs`, so that adding one is adding a
//! file.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::{Compression, GzBuilder};

/// Folders whose files are put into the program.
const FOLDERS: &[&str] = &["studies", "apps"];

fn main() -> io::Result<()> {
    for folder in FOLDERS {
        println!("cargo:rerun-if-changed={folder}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let root = variable("CARGO_MANIFEST_DIR")?;
    let out = variable("OUT_DIR")?;
    for folder in FOLDERS {
        let mut files = files(&root.join(folder))?;
        files.sort_by_key(|file| file.file_stem().map(OsStr::to_owned));
        fs::create_dir_all(out.join(folder))?;
        let mut entries = String::new();
        for file in &files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let packed = out.join(folder).join(format!("{name}.gz"));
            pack(file, &packed)?;
            entries += &format!("    BundledFile::new({name:?}, include_bytes!({packed:?})),\n");
        }
        fs::write(out.join(format!("{folder}.rs")), format!("&[\n{entries}]\n"))?;
    }
    Ok(())
}

/// Packs a file, without a name or a time of it.
fn pack(file: &Path, into: &Path) -> io::Result<()> {
    let mut packed = GzBuilder::new().write(Vec::new(), Compression::best());
    packed.write_all(&fs::read(file)?)?;
    fs::write(into, packed.finish()?)
}

/// The files themselves; folders, such as that of runs, are none.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_file() && path.extension().is_some_and(|ending| ending == "toml") {
            files.push(path);
        }
    }
    Ok(files)
}

fn variable(name: &str) -> io::Result<PathBuf> {
    let missing = || io::Error::other(format!("cargo does not set {name}"));
    env::var_os(name).map(PathBuf::from).ok_or_else(missing)
}
