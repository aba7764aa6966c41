//! Discard (RFC 863): a port that takes every byte and answers nothing. inetd and xinetd have it built in.
//!
//! Nobody counts at the far end. What its kernel acknowledged over time is known here, and makes the goodput.

use deadheat_base::error::Result;
use deadheat_contract::contract::{CountSource, PeerFacts};
use deadheat_contract::workload::TaskInfo;
use deadheat_datapath::transport::far_end::{FarEnd, FarEndInfo, Locator};
use deadheat_datapath::transport::plain::{PlainProtocol, PlainTransport};
use deadheat_datapath::transport::{Conn, Dial};

/// Discard port.
pub(super) static FAR_END: FarEnd = FarEnd {
    info: FarEndInfo {
        id: "discard",
        label: "a discard port",
        summary: "a discard port (RFC 863), as of inetd and xinetd; drops what it receives, and counts nothing",
        port: 9,
        takes_path: false,
        over: &[PlainProtocol::TCP, PlainProtocol::MPTCP],
        peer: PeerFacts {
            takes_data: true,
            counts: CountSource::Acknowledgements,
            ..PeerFacts::OTHERS
        },
        counts: None,
        unknown: &[
            "what the far program read: delivered is what the far kernel acknowledged to this one",
            "cost and options of the far end",
        ],
        variables: None,
    },
    misfit: None,
    dial,
    remarks: None,
    session: None,
};

fn dial(
    inside: &PlainTransport,
    dial: &Dial<'_>,
    _task: &TaskInfo,
    _locator: &Locator,
) -> Result<Box<dyn Conn>> {
    inside.open(dial, &|_, _, _| Ok(()))
}
