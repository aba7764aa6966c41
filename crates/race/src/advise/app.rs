//! Reading of the file of an application. Unknown keys are refused.

use std::path::Path as File;

use deadheat_base::error::{Error, Result};
use deadheat_base::spec::outside::Outside;
use deadheat_datapath::transport::Contender;
use deadheat_path::grammar;
use deadheat_result::advise::app::App;

use crate::race::{outside, written};

/// Reads and checks the file of an application that may name files and commands of the `allowed` kinds.
///
/// # Errors
/// [`Error::Setup`] if it cannot be read, [`Error::Data`] with the file and the problem in it, [`Error::Usage`] for
/// files and commands that it names without permission.
pub fn load(file: &File, allowed: &[Outside]) -> Result<App> {
    let name = file.display().to_string();
    let app = parse(&written::text(file, "application")?, &name)?;
    let mut named = app.path.iter().map(|path| grammar::outside(&path.default)).collect::<Vec<_>>();
    named.extend(app.contenders.iter().map(|typed| Contender::outside(typed)));
    outside::check(&name, named.into_iter().collect::<Result<Vec<_>>>()?.concat(), allowed)?;
    Ok(app)
}

/// Checks the application in `text`; `name` is its file, for messages.
///
/// # Errors
/// [`Error::Data`].
pub fn parse(text: &str, name: &str) -> Result<App> {
    let app: App = written::parse(text, name)?;
    app.check().map_err(|what| Error::data(name, what))?;
    Ok(app)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_result::advise::app::Need;

    const SOUND: &str = r#"
format = 1
title = "A game"
needs = ["encrypted"]
[path]
default = "delay=25ms"
[[traffic]]
name = "world"
kind = "state"
per-second = 30
"#;

    #[test]
    fn a_sound_file_is_read() {
        let app = parse(SOUND, "game.toml").unwrap();
        assert_eq!((app.traffic.len(), &app.needs[..]), (1, &[Need::Encrypted][..]));
        assert_eq!(app.path.unwrap().default, "delay=25ms");
    }

    #[test]
    fn every_mistake_is_named() {
        let twice = "[[traffic]]\nname = \"world\"\nkind = \"voice\"\nper-second";
        for (from, to, wanted) in [
            (
                "per-second",
                "per-secnd",
                "line 10: unknown key `per-secnd`; did you mean `per-second`?",
            ),
            ("needs", "neds", "unknown key `neds`; did you mean `needs`?"),
            ("\"state\"", "\"stat\"", "`stat` is none of state, events"),
            ("[\"encrypted\"]", "[\"fast\"]", "`fast` is none of encrypted, congestion-controlled"),
            ("format = 1", "format = 2", "format 2 of an application; this version reads 1"),
            ("format = 1", "", "the key `format` is missing"),
            ("\"A game\"", "\" \"", "`title` is empty"),
            ("name = \"world\"", "name = \"My World\"", "a name has lower-case letters"),
            ("per-second", twice, "traffic `world` is given twice"),
            ("needs", "contenders = [\"tcp\"]\nneeds", "one contender leaves nothing to advise"),
            ("needs", "contenders = [\"tcp\", \"tcp\"]\nneeds", "contender `tcp` is given twice"),
        ] {
            assert!(SOUND.contains(from), "{from}");
            let error = parse(&SOUND.replacen(from, to, 1), "game.toml").expect_err(to);
            let said = error.to_string();
            assert!(said.starts_with("game.toml: ") && said.contains(wanted), "{said}");
        }
        assert!(
            parse("format = 1\ntitle = \"x\"", "x").unwrap_err().to_string().contains("needs a")
        );
    }
}
