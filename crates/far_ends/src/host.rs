//! Any host: nothing runs there for us, and its kernel answers what kernels answer (ICMP echo).

use crate::error::{Error, Result};
use crate::transport::far_end::{FarEnd, FarEndInfo};
use crate::transport::plain::PlainTransport;
use crate::transport::{Conn, Dial};
use crate::workload::TaskInfo;

/// Host without a far end.
pub(super) struct Host;

static INFO: FarEndInfo = FarEndInfo {
    id: "host",
    label: "a host alone",
    summary: "any host: what its kernel answers by itself, as ping uses it",
    // No port is dialled.
    port: 7,
    carries: &[],
    counts: None,
    unknown: &[
        "on which of the two ways a message was lost",
        "whether the host limits the rate of its answers: those are then lost, too",
        "delays one way",
    ],
};

impl FarEnd for Host {
    fn info(&self) -> &'static FarEndInfo {
        &INFO
    }

    fn dial(
        &self,
        inside: &dyn PlainTransport,
        dial: &Dial<'_>,
        _task: &TaskInfo,
    ) -> Result<Box<dyn Conn>> {
        Err(Error::usage(format!(
            "no program takes {} at {}; only its kernel answers",
            inside.protocol(),
            dial.to
        )))
    }
}
