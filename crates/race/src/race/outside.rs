//! Files and commands that the text of a request names, if the text is from a file: a saved result, a study, an
//! application. They are shown, and no file is opened and no command is run until a person allows it.

use super::request::{Request, RequestFile, RequestOrigin};
use deadheat_base::error::{Error, Result};
use deadheat_base::spec::Spec;
use deadheat_base::spec::outside::{Named, Outside};
use deadheat_contract::workload;
use deadheat_datapath::transport::{ALL, Contender, via};
use deadheat_path as path;
use deadheat_path::files::{self, ReadFile};
use deadheat_result::outcome::Outcome;

impl Request {
    /// Records that the text of this request is from `file`, and which kinds of files and commands a person allows.
    /// [`Request::check`] refuses other files and commands.
    pub fn written_in(mut self, file: impl Into<String>, allowed: &[Outside]) -> Request {
        let (file, allowed) = (file.into(), allowed.to_vec());
        self.origin = RequestOrigin::Written(match self.origin {
            RequestOrigin::Written(before) => RequestFile { file, allowed, ..before },
            RequestOrigin::Typed => {
                RequestFile { file, allowed, contenders: Vec::new(), workloads: Vec::new() }
            }
        });
        self
    }

    /// Records that the text of this request is from a result; the text of its trials is checked too.
    pub(super) fn written_by(mut self, outcome: &Outcome) -> Request {
        let entrants = || outcome.contenders.iter();
        let cells = entrants().filter_map(|entrant| Some(entrant.cell.as_ref()?.workload.clone()));
        self.origin = RequestOrigin::Written(RequestFile {
            file: "the result".to_owned(),
            allowed: Vec::new(),
            contenders: entrants().map(|entrant| entrant.spec.clone()).collect(),
            workloads: cells.chain(outcome.plan.workload.clone()).collect(),
        });
        self
    }

    /// Refuses a request from a file that names files or commands, unless they are allowed. Opens no file and runs
    /// no command.
    ///
    /// # Errors
    /// [`Error::Usage`] with each of them, and the option that allows them.
    pub(super) fn check_outside(&self) -> Result<()> {
        let RequestOrigin::Written(written) = &self.origin else { return Ok(()) };
        check(&written.file, self.outside(written)?, &written.allowed)
    }

    /// Returns the path with the contents of the files that it names; it refuses files that another file names
    /// without permission.
    ///
    /// # Errors
    /// As [`path::PathSpec::parse`]; [`Error::Usage`] for a file that is not allowed.
    pub(super) fn parsed_path(&self) -> Result<path::PathSpec> {
        let refuse: ReadFile<'_> = &mut |_| {
            self.check_outside()?;
            Err(Error::usage(format!(
                "`{}` names a file, and none is opened here",
                self.asked.path
            )))
        };
        match &self.origin {
            RequestOrigin::Written(written) if !written.allowed.contains(&Outside::Files) => {
                path::PathSpec::parse_with(&self.asked.path, refuse)
            }
            _ => path::PathSpec::parse_with(&self.asked.path, &mut files::read),
        }
    }

    fn outside(&self, written: &RequestFile) -> Result<Vec<Named>> {
        let mut all = match self.asked.to {
            Some(_) => Vec::new(),
            None => path::grammar::outside(&self.asked.path)?,
        };
        for typed in self.asked.contenders.iter().chain(&written.contenders) {
            all.extend(Contender::outside(typed)?);
        }
        for typed in written.workloads.iter().chain([&self.asked.workload]) {
            let spec = Spec::parse(typed)?;
            all.extend(spec.outside(workload::keys(&spec.name)?, &Contender::outside)?);
        }
        for factor in &self.asked.vary {
            for level in &factor.levels {
                all.extend(level_outside(&factor.name, level)?);
            }
        }
        Ok(all)
    }
}

/// Returns the files and commands in a level of a factor, for every contender or workload that has a key of that
/// name.
fn level_outside(name: &str, level: &str) -> Result<Vec<Named>> {
    let spec = Spec { name: "vary".to_owned(), options: vec![(name.to_owned(), level.to_owned())] };
    let knobs = ALL.iter().flat_map(|transport| transport.info().keys).chain(via::KEYS);
    spec.outside(knobs.chain(workload::all_keys()), &Contender::outside)
}

/// Refuses files and commands in the text of `file`, unless their kind is allowed.
///
/// # Errors
/// [`Error::Usage`] with each of them, and the option that allows them.
pub fn check(file: &str, mut all: Vec<Named>, allowed: &[Outside]) -> Result<()> {
    all.retain(|named| !allowed.contains(&named.kind));
    all.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    all.dedup_by(|a, b| (a.kind, &a.name) == (b.kind, &b.name));
    if all.is_empty() {
        return Ok(());
    }
    let mut kinds: Vec<&str> = all.iter().map(|named| named.kind.word()).collect();
    kinds.extend(allowed.iter().map(|kind| kind.word()));
    kinds.sort_unstable();
    kinds.dedup();
    let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
    Err(Error::usage(format!(
        "{file} names {}; a file runs no command and opens no other file unasked. If you mean all of that, add --allow {}",
        shown.join(", "),
        kinds.join(",")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::{replay, testing};
    use deadheat_base::spec::{Key, Reference};
    use deadheat_datapath::transport::{commands, external};
    use deadheat_path::grammar::{LINK, WHOLE};
    use deadheat_result::outcome::Factor;

    /// Values for keys that refer to something outside.
    const VALUES: [&str; 2] = ["no/such", "@no/such"];

    fn knobs() -> impl Iterator<Item = &'static Key> {
        let listed = ALL.iter().flat_map(|transport| transport.info().keys);
        listed.chain(via::KEYS).chain(external::KEYS).chain(commands::COMMAND_KEYS)
    }

    fn refers(key: &Key) -> bool {
        VALUES.iter().any(|value| key.kind.reference(value) != Reference::Nothing)
    }

    /// The form of a key shows if it names a file, a command or a contender. Keys whose description mentions one,
    /// but which have another form, are listed here with the reason.
    #[test]
    fn every_key_whose_value_names_something_is_declared_to_do_so() {
        const OTHERWISE: [(&str, &str); 6] = [
            ("trace-mode", "how the file of `trace` is read"),
            ("bytes", "how much of `file` is sent"),
            ("verify", "what is done with the content"),
            ("load-flows", "how many connections the contender of `load` has"),
            ("io", "how a file is sent"),
            ("rx", "how the file of `sink` is written"),
        ];
        let mut found = Vec::new();
        for key in knobs().chain(workload::all_keys()).chain(LINK).chain(WHOLE) {
            let form = key.kind.describe();
            let is_formal =
                ["PATH", "FILE", "COMMAND", "CONTENDER"].iter().any(|word| form.contains(word));
            assert_eq!(refers(key), is_formal, "{}={form}", key.name);
            let is_spoken_of =
                [" file", "command"].iter().any(|word| key.doc.to_lowercase().contains(word));
            let is_known = OTHERWISE.iter().any(|(name, _)| *name == key.name);
            assert!(!is_spoken_of || is_formal || is_known, "{}: {}", key.name, key.doc);
            if is_formal && !found.contains(&key.name) {
                found.push(key.name);
            }
        }
        found.sort_unstable();
        let known = [
            "carries",
            "certificate",
            "drop",
            "far",
            "file",
            "jitter-shape",
            "load",
            "near",
            "qlog",
            "sink",
            "trace",
        ];
        assert_eq!(found, known);
    }

    fn refused(request: &Request) -> String {
        let error = request.clone().written_in("r.json", &[]).check().unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        let said = error.to_string();
        assert!(said.starts_with("r.json names the ") && said.contains("add --allow "), "{said}");
        said
    }

    #[test]
    fn each_of_them_is_refused_and_shown_where_a_file_brings_it() {
        let value = |key: &Key| {
            let refers = |value: &&str| key.kind.reference(value) != Reference::Nothing;
            VALUES.into_iter().find(refers).unwrap()
        };
        for transport in ALL.iter() {
            let info = transport.info();
            for key in info.keys.iter().filter(|key| refers(key)) {
                let typed = format!("{}:{}={}", info.id, key.name, value(key));
                for typed in [typed.clone(), format!("mix:a={typed},b=udp"), format!("{typed}|tcp")]
                {
                    let said = refused(&Request::new(["tcp", &typed]));
                    assert!(said.contains("the file `no/such`"), "{typed}: {said}");
                }
            }
        }
        for name in ["ping", "bulk"] {
            for key in workload::keys(name).unwrap().into_iter().filter(|key| refers(key)) {
                let inner = if key.name == "load" { "quic:qlog=no/such" } else { value(key) };
                let typed = format!("{name}:{}={inner}", key.name);
                let said = refused(&Request::new(["tcp"]).workload(&typed));
                assert!(said.contains("the file `no/such`"), "{typed}: {said}");
                let said =
                    refused(&Request::new(["tcp"]).workload(name).vary(key.name, [inner, "x"]));
                assert!(said.contains("the file `no/such`"), "vary {typed}: {said}");
            }
        }
        for key in LINK.iter().filter(|key| refers(key)) {
            for start in ["delay=1ms,", "sim:delay=1ms,", "lte + up."] {
                let typed = format!("{start}{}={}", key.name, value(key));
                let said = refused(&Request::new(["quic"]).path(&typed));
                assert!(said.contains("the file `no/such`"), "{typed}: {said}");
            }
        }
    }

    #[test]
    fn commands_and_files_are_allowed_apart() {
        let typed = "external:near=touch {listen} {far},far=touch {listen} {target},carries=tls:certificate=no/such";
        let ask = |allowed: &[Outside]| {
            let request = Request::new(["tcp", typed]).written_in("r.json", allowed);
            request.check_outside().err().map(|error| error.to_string())
        };
        let said = ask(&[]).unwrap();
        for shown in ["`touch {listen} {far}`", "`touch {listen} {target}`", "`no/such`"] {
            assert!(said.contains(shown), "{said}");
        }
        assert!(said.ends_with("add --allow commands,files"), "{said}");
        let said = ask(&[Outside::Commands]).unwrap();
        assert!(!said.contains("touch") && said.contains("`no/such`"), "{said}");
        assert!(said.ends_with("add --allow commands,files"), "{said}");
        assert_eq!(ask(&Outside::ALL), None);
        let file = Request::new(["external:file=no/such.toml"]).written_in("r.json", &[]);
        let said = file.check().err().unwrap().to_string();
        assert!(said.contains("the command `those in no/such.toml`"), "{said}");
        assert!(Request::new(["tcp", typed]).check_outside().is_ok(), "a person typed it");
    }

    /// Orders for trials contain more than the request: the text of each entrant in the result, and the text of the
    /// plan.
    #[test]
    fn a_result_acts_by_none_of_its_words() {
        type Change = fn(&mut Outcome);
        let changes: [(&str, Change); 6] = [
            ("asked.contenders", |race| {
                let far = "touch {listen} {target}";
                race.asked.contenders[0] =
                    format!("external:near=touch {{listen}} {{far}},far={far},carries=tcp");
            }),
            ("contenders.spec", |race| race.contenders[0].spec = "quic:qlog=no/such".into()),
            ("plan.workload", |race| race.plan.workload = Some("bulk:sink=no/such".into())),
            ("asked.workload", |race| race.asked.workload = "bulk:file=no/such".into()),
            ("asked.path", |race| race.asked.path = "trace=no/such".into()),
            ("asked.vary", |race| {
                let levels = vec!["no/such".to_owned(), "x".to_owned()];
                race.asked.vary = vec![Factor { name: "certificate".into(), levels }];
            }),
        ];
        for (field, change) in changes {
            let mut race = testing::outcome(2);
            change(&mut race);
            let said = replay(&race).unwrap().check().unwrap_err().to_string();
            let is_shown = said.contains("no/such") || said.contains("`touch {listen} {far}`");
            assert!(said.starts_with("the result names the ") && is_shown, "{field}: {said}");
        }
    }

    #[test]
    fn a_path_from_a_file_opens_no_file_however_it_is_asked_about() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("trace");
        std::fs::write(&trace, "1\n2\n").unwrap();
        let typed = format!("trace={}", trace.display());
        let request = Request::new(["tcp"]).path(typed);
        assert!(request.parsed_path().is_ok());
        let written = request.clone().written_in("r.json", &[Outside::Commands]);
        assert!(written.parsed_path().unwrap_err().to_string().contains("--allow"));
        assert!(written.asked().budget_ns.is_some() && written.race_path().is_err());
        assert!(request.written_in("r.json", &[Outside::Files]).parsed_path().is_ok());
    }
}
