//! The program: all transports, workloads and formats, handed in before anything else.

use std::process::ExitCode;

use deadheat_race::race::written::BundledFile;
use deadheat_race::registry::Registry;

use crate::cli;
use deadheat_base::error::Result;
use deadheat_contract::workload::Workload;
use deadheat_datapath::transport::Transport;
use deadheat_datapath::transport::far_end::FarEnd;
use deadheat_datapath::transport::responder::Responder;
use deadheat_report::{self as report, Report, browser, html};
use deadheat_trial as trial;
use deadheat_web::{PageReports, WebResponder};

static STUDIES: &[BundledFile] = include!(concat!(env!("OUT_DIR"), "/studies.rs"));
static APPS: &[BundledFile] = include!(concat!(env!("OUT_DIR"), "/apps.rs"));

/// A program that races transports: deadheat itself, or a program of another author with more implementations.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     deadheat::Program::new().run() // .transport(&Mine), .workload(&Mine) and .report(&Mine) go between
/// }
/// ```
pub struct Program {
    registry: Registry,
    reports: Vec<&'static dyn Report>,
}

/// Page for browsers, with the reports of this program.
static WEB: WebResponder = WebResponder {
    reports: PageReports { style: html::STYLE, page: browser::page, answer: browser::answer },
};

impl Program {
    /// Creates a program with everything that this build has.
    pub fn new() -> Program {
        let registry = Registry {
            transports: deadheat_transports::ALL.to_vec(),
            far_ends: deadheat_far_ends::ALL.to_vec(),
            responders: [deadheat_far_ends::responders::ALL, &[&WEB]].concat(),
            optional: deadheat_transports::OPTIONAL.to_vec(),
            workloads: deadheat_workloads::ALL.to_vec(),
            studies: STUDIES.iter().collect(),
            apps: APPS.iter().collect(),
        };
        Program { registry, reports: Vec::new() }
    }

    /// Adds a transport.
    #[must_use]
    pub fn transport(mut self, transport: &'static dyn Transport) -> Program {
        self.registry.transports.push(transport);
        self
    }

    /// Adds a far end of others: what `--to NAME://HOST` reaches.
    #[must_use]
    pub fn far_end(mut self, far_end: &'static FarEnd) -> Program {
        self.registry.far_ends.push(far_end);
        self
    }

    /// Adds a responder to the clients of another program: what `serve --NAME` opens.
    #[must_use]
    pub fn responder(mut self, responder: &'static dyn Responder) -> Program {
        self.registry.responders.push(responder);
        self
    }

    /// Adds a workload.
    #[must_use]
    pub fn workload(mut self, workload: &'static dyn Workload) -> Program {
        self.registry.workloads.push(workload);
        self
    }

    /// Adds a format in which results are shown.
    #[must_use]
    pub fn report(mut self, report: &'static dyn Report) -> Program {
        self.reports.push(report);
        self
    }

    /// Hands in the transports, workloads and formats; names typed later are looked up among them.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) if two have the same name, or on a second call in this process.
    pub fn hand_in(self) -> Result<()> {
        self.registry.hand_in()?;
        report::add(self.reports)
    }

    /// Does the work of [`Program::hand_in`]; then becomes an agent and never returns, if this process was started as
    /// one.
    /// A program that races by the library calls it first in `main`.
    ///
    /// # Errors
    /// As [`Program::hand_in`].
    pub fn enter(self) -> Result<()> {
        self.hand_in()?;
        trial::process::enter();
        Ok(())
    }

    /// Does the work of [`Program::enter`], then runs the command line, and returns the exit code.
    pub fn run(self) -> ExitCode {
        match self.enter() {
            Ok(()) => cli::run(),
            Err(error) => cli::fail(&error),
        }
    }
}

impl Default for Program {
    fn default() -> Program {
        Program::new()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use deadheat_race::advise;
    use deadheat_race::advise::plan::Plan;
    use deadheat_race::study;

    /// Returns the names of the `.toml` files of a folder, sorted.
    fn files(folder: &str) -> Vec<String> {
        let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut there: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned())).collect();
        there.sort();
        there
    }

    #[test]
    fn every_file_of_both_folders_is_in_the_program_in_order() {
        let (studies, apps) = (files("studies"), files("apps"));
        assert!(studies.len() > 20 && apps.len() > 2, "{studies:?} {apps:?}");
        assert_eq!(study::bundled::names().collect::<Vec<_>>(), studies);
        assert_eq!(advise::bundled::names().collect::<Vec<_>>(), apps);
    }

    #[test]
    fn every_study_in_the_program_is_sound() {
        let wrong: Vec<String> = study::bundled::names()
            .filter_map(|name| study::bundled::study(name).err().map(|error| error.to_string()))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_study_that_is_not_there_is_answered_with_those_that_are() {
        let said = study::bundled::text("no-such-study").unwrap_err().to_string();
        assert!(said.starts_with("unknown study `no-such-study`"), "{said}");
        assert!(study::bundled::names().all(|name| said.contains(name)), "{said}");
    }

    #[test]
    fn every_application_in_the_program_can_be_planned_on_its_path() {
        let usual = ["tls", "quic", "quic-datagram", "tcp", "kcp", "enet", "sctp-udp", "udp"];
        for name in advise::bundled::names() {
            let app = advise::bundled::app(name).unwrap_or_else(|error| panic!("{error}"));
            let path = app.path.as_ref().expect(name).default.clone();
            for path in [path.clone(), format!("sim:{path}")] {
                let plan =
                    Plan::make(&app, &path, &usual).unwrap_or_else(|error| panic!("{error}"));
                assert!(plan.eligible().next().is_some(), "{name}");
                assert!(!app.about.is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn two_of_one_name_are_refused_before_anything_is_read() {
        let twice = Program::new().transport(deadheat_transports::ALL[0]);
        let said = twice.hand_in().unwrap_err().to_string();
        assert!(said.contains("two transports are called"), "{said}");
        let again = Program::new().hand_in().unwrap_err().to_string();
        assert!(again.contains("handed in before"), "{again}");
    }
}
