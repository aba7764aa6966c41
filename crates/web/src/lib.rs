//! A browser as one end of a race, for people who cannot install anything: `deadheat serve --web` gives a page, and the page
//! races the transports that a browser has against this server.
//!
//! ```text
//! page ── /plan ──▶ server: the plan of a race, as deadheat-import draws it
//!      ── /begin ─▶ the turn of a trial, and its ticket
//!      ── WebSocket, fetch, …: the ticket, then the work ──▶ work.rs, one for each connection
//!      ── /trial ─▶ raw figures; the turn is over
//!      ◀── verdict, control, and a result as of every race ── deadheat-result
//! ```
//!
//! | file | content |
//! |---|---|
//! | `work.rs` | far end of a connection, without socket and clock |
//! | `carrier.rs` `carriers.rs` | what a carrier with ports of its own promises; the list of all |
//! | `channel.rs` `http.rs` | a connection, with TLS or without; requests and answers of HTTP/1.1 |
//! | `connections.rs` `routes.rs` | connections within limits, and which request gets which answer |
//! | `server.rs` | what all connections share: trials that run, races, results |
//! | `websocket.rs` `exchange.rs` | carriers of the page's own port |
//! | `http2.rs` | fetch over HTTP/2, at a TCP port of its own |
//! | `requests.rs` `pings.rs` | requests of fetch over either HTTP, and their answers |
//! | `webtransport.rs` `datachannel.rs` | carriers with UDP ports of their own |
//! | `udp.rs` | such a port, and the wait for it |
//! | `names.rs` | names by which the page is asked for |
//! | `places.rs` | connections and sessions, so many in all and of one address |
//! | `tickets.rs` | trials that run, and what they may move |
//! | `races.rs` `results.rs` | races of pages, and their results for people and files |
//! | `page.rs`, `page/` | the page, one file |

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::OnceLock;

use carrier::PemPair;
use channel::Security;
use deadheat_base::error::{Error, Result};
use deadheat_datapath::datapath::answering;
use deadheat_datapath::transport::responder::{
    Answered, OpenResponder, Responder, ResponderHost, ResponderInfo, ResponderLoad,
};
use deadheat_result::outcome::Outcome;
use names::HostNames;
use results::ResultStore;
use serde_json::Value;
use server::PageGround;

#[cfg(test)]
use deadheat_everything as _;

mod carrier;
mod carriers;
mod channel;
mod connections;
#[cfg(feature = "datachannel")]
mod datachannel;
mod exchange;
mod http;
mod http2;
mod names;
mod page;
mod pings;
mod places;
mod races;
mod requests;
mod results;
mod routes;
mod server;
mod tickets;
mod udp;
mod websocket;
mod webtransport;
mod work;

#[cfg(test)]
mod testing;

/// Options of the operator beside the port.
#[derive(Debug, Clone, Default)]
pub struct WebOptions {
    /// Folder for results; they stay in memory without one.
    pub results: Option<PathBuf>,
    /// Files with a certificate chain and its private key, in PEM: the page is then served over TLS.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Names of the host by which browsers may ask, beside its own and its addresses.
    pub names: Vec<String>,
}

static OPTIONS: OnceLock<WebOptions> = OnceLock::new();

/// Sets the options, once, before a server opens.
///
/// # Errors
/// [`Error::Usage`] on a second call in this process.
pub fn set_options(options: WebOptions) -> Result<()> {
    OPTIONS.set(options).map_err(|_| Error::usage("the options of the page were set before"))
}

/// Page for browsers.
pub struct WebResponder {
    /// Reports on its races.
    pub reports: PageReports,
}

/// Reports on races of pages, which the program hands in: no sentence of a verdict is in this crate.
#[derive(Debug, Clone, Copy)]
pub struct PageReports {
    /// Style sheet of reports.
    pub style: &'static str,
    /// Renders the page of a result.
    pub page: fn(&Outcome) -> String,
    /// Returns the answer for the page that ran the race, of as many blocks as this at most.
    pub answer: fn(&Outcome, u64) -> Value,
}

static INFO: ResponderInfo = ResponderInfo {
    id: "web",
    clients: "browsers",
    summary: "Give browsers a page that races against this server",
    port: 5280,
    answers: &[Answered {
        over: "HTTP",
        what: "gives a page, which races what a browser has",
        load: ResponderLoad::Turn,
    }],
    key: None,
};

impl Responder for WebResponder {
    fn info(&self) -> &'static ResponderInfo {
        &INFO
    }

    fn open(&self, at: SocketAddr, _key: Option<&[u8]>) -> Result<Box<dyn OpenResponder>> {
        let options = OPTIONS.get().cloned().unwrap_or_default();
        let pair = options.certificate.as_ref().map(|(chain, key)| PemPair::read(chain, key));
        let security = pair.transpose()?.map_or(Ok(Security::Plain), Security::of)?;
        let listener = answering::listen(at)?;
        let local = listener.local_addr().map_err(|e| Error::setup("read an address", e))?;
        let store = ResultStore::open(options.results)?;
        let names = match security {
            Security::Plain => HostNames::here(&options.names),
            Security::Tls { .. } => HostNames::Any,
        };
        let reports = self.reports;
        Ok(Box::new(OpenWeb { listener, local, security, names, reports, store: Some(store) }))
    }
}

/// Open port of the page.
struct OpenWeb {
    listener: std::net::TcpListener,
    local: SocketAddr,
    security: Security,
    names: HostNames,
    reports: PageReports,
    store: Option<ResultStore>,
}

impl OpenResponder for OpenWeb {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn more(&self) -> Option<String> {
        let scheme = self.security.scheme();
        let (host, other) = match self.local.ip().is_unspecified() {
            true => ("localhost".to_owned(), ", or this host's name from elsewhere"),
            false if self.local.is_ipv6() => (format!("[{}]", self.local.ip()), ""),
            false => (self.local.ip().to_string(), ""),
        };
        Some(format!("open {scheme}://{host}:{}/{other}", self.local.port()))
    }

    fn serve(&mut self, host: &dyn ResponderHost, stop: BorrowedFd<'_>) -> Result<()> {
        let store = self.store.take().unwrap_or_default();
        let security = self.security.clone();
        let names = self.names.clone();
        let page = PageGround { at: self.local, names, reports: self.reports };
        let server = server::WebServer::new(host, store, security, page);
        connections::serve(&server, &self.listener, stop)
    }
}
