//! The studies that are in the program: every file of `studies/` as `build.rs` finds it.

use super::check::Checked;
use super::read;
use crate::error::Result;
use crate::race::written;

/// Name and text of each, by name.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/studies.rs"));

/// Returns the names of the bundled studies, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// Returns the file of the study of this name.
///
/// # Errors
/// [`crate::Error::Usage`] for another name, with the nearest one and all.
pub fn text(name: &str) -> Result<&'static str> {
    written::bundled(FILES, "study", name)
}

/// Returns the study of this name, checked.
///
/// # Errors
/// As [`text`]; what is wrong in the file.
pub fn study(name: &str) -> Result<Checked> {
    read::study(text(name)?, &format!("studies/{name}.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_study_is_sound() {
        let wrong: Vec<String> =
            names().filter_map(|name| study(name).err().map(|error| error.to_string())).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_file_of_the_folder_is_bundled_in_order() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("studies");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let file = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut there: Vec<String> =
            entries.map(file).filter_map(|f| Some(f.strip_suffix(".toml")?.to_owned())).collect();
        there.sort();
        assert_eq!(names().collect::<Vec<_>>(), there);
    }

    #[test]
    fn a_name_that_means_nothing_is_answered_with_those_that_do() {
        let said = text("no-such-study").unwrap_err().to_string();
        assert!(said.starts_with("unknown study `no-such-study`"), "{said}");
        assert!(names().all(|name| said.contains(name)), "{said}");
    }
}
