//! Ports of protocols other than TCP and UDP, with the number of the server's own, which the operator opens
//! (`serve --also sctp`). Each has a thread that reads hellos and hands connections to their trials. As at the other
//! ports, a stranger gets no answer.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;

use super::Shared;
use super::stop::Stop;
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::time::{Clock, Monotonic};
use deadheat_contract::contract::Reach;
use deadheat_datapath::transport::own_port::{OwnPort, PresentedConnection};
use deadheat_datapath::transport::{self, Contender, Info, several, unopened};
use deadheat_trial::control::Share;

/// Names of transports whose ports the operator opens.
pub type Also = Vec<&'static str>;

/// Reads the value of `--also`: names of transports with a port of their own, between commas.
///
/// # Errors
/// [`Error::Usage`] with the names that exist.
pub fn parse_also(typed: &str) -> Result<Also> {
    let having = || transport::ALL.iter().filter(|one| one.info().reach == Reach::OwnPort);
    let names: Vec<&'static str> = having().map(|one| one.info().id).collect();
    let mut also = Also::new();
    for name in typed.split(',').map(str::trim) {
        let Some(id) = names.iter().find(|id| **id == name) else {
            return Err(unknown("protocol with a port of its own", name, &names));
        };
        if !also.contains(id) {
            also.push(id);
        }
    }
    Ok(also)
}

/// Refuses a contender of the far node with this share of the flows that needs a port which is not open.
///
/// # Errors
/// [`Error::Limited`] with the option that opens it.
pub(super) fn check(contender: &Contender, share: Option<Share>, also: &[&str]) -> Result<()> {
    let here = here(contender, share);
    let mut all = here.iter().map(|one| one.transport.info());
    let needs = |info: &&Info| info.reach == Reach::OwnPort && !also.contains(&info.id);
    all.find(needs).map_or(Ok(()), |info| Err(Error::limited(unopened(info.id))))
}

/// Returns the parts of a contender that are at the far node with this share of the flows; itself if it has none.
pub(super) fn here(contender: &Contender, share: Option<Share>) -> Vec<&Contender> {
    let parts = contender.transport.parts();
    let node = share.map_or(0, |share| usize::from(share.node));
    let here = several::at_node(parts, node);
    match parts {
        [] => vec![contender],
        _ => parts
            .iter()
            .zip(here)
            .filter(|(_, here)| *here)
            .map(|(part, _)| &part.contender)
            .collect(),
    }
}

/// Open port of a protocol, with the protocol's name for log lines.
struct OpenPort {
    label: &'static str,
    port: Box<dyn OwnPort>,
}

/// Open ports, until they are served.
pub(super) struct OpenPorts(Mutex<Vec<OpenPort>>);

impl OpenPorts {
    /// Opens the ports at the address of the server.
    ///
    /// # Errors
    /// If the kernel lacks a protocol; the failed operation with its address.
    pub(super) fn open(also: &[&'static str], at: SocketAddr) -> Result<OpenPorts> {
        let of = |id: &&'static str| {
            let transport = transport::ALL.iter().find(|one| one.info().id == *id);
            let transport =
                transport.ok_or_else(|| Error::usage(format!("no transport `{id}`")))?;
            let info = transport.info();
            let own_port = info.own_port.ok_or_else(|| {
                Error::usage(format!("`{id}` has no port of its own; leave it out of --also"))
            })?;
            Ok(OpenPort { label: info.label, port: own_port(at)? })
        };
        also.iter().map(of).collect::<Result<_>>().map(|open| OpenPorts(Mutex::new(open)))
    }

    /// Starts a thread for each port, which ends with `stop`.
    ///
    /// # Errors
    /// If this host starts no thread.
    pub(super) fn serve<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        shared: &'scope Shared,
        stop: &'scope Stop,
    ) -> Result<()> {
        let open = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for port in open {
            std::thread::Builder::new()
                .name(format!("port {}", port.label))
                .spawn_scoped(scope, move || port.serve(shared, stop))
                .map_err(|e| Error::setup("start a thread for a port", e))?;
        }
        Ok(())
    }
}

impl OpenPort {
    /// Hands connections to their trials until `stop`, or until the kernel lets it wait for none.
    fn serve(mut self, shared: &Shared, stop: &Stop) {
        let OpenPort { label, port } = &mut self;
        loop {
            let (peer, handed) = match port.next(stop.as_fd()) {
                Ok(Some(PresentedConnection::Stream { hello, peer, socket })) => {
                    let from = (peer.ip(), Monotonic.now());
                    (peer, shared.token_table.hand_stream(label, &hello, socket.as_fd(), from))
                }
                Ok(Some(PresentedConnection::Datagrams { hello, local, peer })) => {
                    let from = (peer, Monotonic.now());
                    (peer, shared.token_table.hand_datagrams(label, &hello, local, from))
                }
                Ok(None) => return,
                Err(e) => {
                    return shared
                        .scribe
                        .line(None, &format!("the port of {label} is closed: {e}"));
                }
            };
            if let Err(why) = handed {
                shared.scribe.stranger_now(peer, &why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_protocols_with_ports_are_taken_and_others_are_refused_with_these() {
        assert_eq!(parse_also("sctp, udplite,sctp").unwrap(), ["sctp", "udplite"]);
        let why = parse_also("udp").unwrap_err().to_string();
        assert!(why.contains("udplite") && why.contains("dccp"), "{why}");
    }

    #[test]
    fn a_contender_is_refused_with_the_option_that_opens_its_port() {
        let refused = |typed, also: &[&str]| {
            check(&Contender::parse(typed).unwrap(), None, also).err().map(|e| e.to_string())
        };
        assert_eq!(refused("sctp", &["sctp"]), None);
        assert_eq!(refused("tcp", &[]), None);
        let why = refused("sctp", &["udplite"]).unwrap();
        assert!(why.contains("`deadheat serve --also sctp`"), "{why}");
        let part = refused("mix:events=tcp,state=udplite", &["sctp"]).unwrap();
        assert!(part.contains("`deadheat serve --also udplite`"), "{part}");
        assert_eq!(refused("mix:events=tcp,state=udplite", &["udplite"]), None);
    }
}
