//! Transports, workloads and bundled files of a program.

use deadheat_contract::handed_in::unique;
use deadheat_contract::recorded::READERS;

use crate::advise::bundled as apps;
use crate::race::written::BundledFile;
use crate::study::bundled as studies;
use deadheat_base::error::Result;
use deadheat_contract::workload::{self, Workload};
use deadheat_datapath::transport::far_end::{self, FarEnd};
use deadheat_datapath::transport::optional::{self, Optional};
use deadheat_datapath::transport::responder::{self, Responder};
use deadheat_datapath::transport::{self, Transport};

/// Implementations and files of a program, in the order in which lists show them.
#[derive(Default)]
pub struct Registry {
    /// Transports that can be raced.
    pub transports: Vec<&'static dyn Transport>,
    /// Far ends of others.
    pub far_ends: Vec<&'static FarEnd>,
    /// Responders to the clients of other programs.
    pub responders: Vec<&'static dyn Responder>,
    /// Transports that a build may leave out.
    pub optional: Vec<&'static Optional>,
    /// Workloads; the first is the default.
    pub workloads: Vec<&'static dyn Workload>,
    /// Studies by name, sorted.
    pub studies: Vec<&'static BundledFile>,
    /// Applications by name, sorted.
    pub apps: Vec<&'static BundledFile>,
}

impl Registry {
    /// Hands in all implementations and files; typed text is then parsed as one of these. Both ends of a trial are
    /// processes of this program, so each process calls it at the beginning of `main`.
    ///
    /// # Errors
    /// [`Error::Usage`](deadheat_base::error::Error::Usage) if two have one name, or if it was called before in this process.
    pub fn hand_in(self) -> Result<()> {
        unique("transport", self.transports.iter().map(|one| one.info().id))?;
        unique("workload", self.workloads.iter().map(|one| one.info().id))?;
        unique("far end", self.far_ends.iter().map(|one| one.info.id))?;
        unique("responder", self.responders.iter().map(|one| one.info().id))?;
        transport::ALL.fill(self.transports)?;
        far_end::ALL.fill(self.far_ends)?;
        READERS.fill(vec![&transport::READERS])?;
        responder::ALL.fill(self.responders)?;
        optional::ALL.fill(self.optional)?;
        workload::ALL.fill(self.workloads)?;
        studies::FILES.fill(self.studies)?;
        apps::FILES.fill(self.apps)
    }
}
