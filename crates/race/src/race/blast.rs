//! Floods towards another host: bulk data over a contender that nothing slows down. A person has to allow them.

use std::net::IpAddr;

use super::request::{DEFAULT_BLAST, Request};
use deadheat_base::error::{Error, Result};
use deadheat_base::units::Bytes;
use deadheat_contract::workload::Task;
use deadheat_datapath::transport::{Contender, far_end};
use deadheat_trial::{Pairing, floods};

/// Returns the reason why a contender may not do this work, if it would flood the line to another host: no congestion
/// control slows it down, and no person allowed that.
pub(super) fn refusal(request: &Request, contender: &Contender, task: &dyn Task) -> Option<String> {
    let to = request.asked.to.as_ref().filter(|_| request.blast.is_none())?;
    if to.names().iter().all(|host| is_this_host(host)) {
        return None;
    }
    floods(contender, task).then(|| {
        format!(
            "it has no congestion control, and would flood the line to {to} with all that this host can send; \
             -w cbr:rate=… sends at a rate that you choose, and --blast allows the flood, up to {} a trial",
            Bytes(DEFAULT_BLAST)
        )
    })
}

/// Refuses a load that would flood the line to another host.
///
/// # Errors
/// [`Error::Usage`] with the reason of [`refusal`].
pub(super) fn check_load(request: &Request, load: &Pairing) -> Result<()> {
    match refusal(request, &load.contender, &*load.task) {
        Some(why) => Err(Error::usage(format!("load={}: {why}", load.contender.spec))),
        None => Ok(()),
    }
}

/// Returns true if the name or address of a far end is of the loopback interface, where no line can be flooded.
fn is_this_host(host: &str) -> bool {
    let host = far_end::host_of(host);
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() && !name.contains(':') => name,
        Some((name, _)) if name.ends_with(']') => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
