//! Connections of browsers at a TCP port: so many at once, and a thread for each.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use deadheat_base::descriptor::ready;
use deadheat_base::panics::contained;
use deadheat_datapath::datapath::destination::canonical;

use crate::channel::{Channel, Security};
use crate::http::Requests;
use crate::places::{Place, Places};
use crate::routes;
use crate::server::WebServer;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;

/// Connections at once of the page's port, of all browsers and of one address. Each costs a thread.
const MOST: (usize, usize) = (128, 32);

/// Time between two looks at the trials that run.
const LOOK: Nanos = Nanos::from_millis(250);

/// Port that browsers connect to.
pub(crate) struct Port<'a> {
    pub listener: &'a TcpListener,
    pub security: &'a Security,
    /// Connections at once, in all and of one address.
    pub most: (usize, usize),
    /// Time between two calls of [`Service::look`]; `None` for none.
    pub looks: Option<Nanos>,
    pub stop: BorrowedFd<'a>,
}

/// Service at a port.
pub(crate) trait Service: Sync {
    /// Serves a connection until it ends.
    fn carry(&self, channel: Channel<'_>);

    /// Notes a fault about a browser, for the operator.
    fn note(&self, peer: SocketAddr, what: &str);

    /// Acts between connections.
    fn look(&self);
}

impl Port<'_> {
    /// Serves browsers until `stop` is readable.
    ///
    /// # Errors
    /// If it cannot wait for connections.
    pub(crate) fn serve(&self, service: &dyn Service) -> Result<()> {
        let places = Places::new(self.most.0, self.most.1);
        std::thread::scope(|scope| {
            loop {
                let fds = [(self.stop, libc::POLLIN), (self.listener.as_fd(), libc::POLLIN)];
                let found = ready(fds, self.looks);
                let found = found.map_err(|e| Error::setup("wait for browsers", e))?;
                if found[0] {
                    return Ok(());
                }
                while found[1]
                    && let Some((socket, peer)) = self.accept()
                {
                    let run = match places.take(peer.ip(), Some(&socket)) {
                        Ok(place) => move || self.run(service, (socket, peer), place),
                        Err(why) => {
                            service.note(peer, &format!("turned away: {why}"));
                            continue;
                        }
                    };
                    let thread = std::thread::Builder::new().name("browser".into());
                    if let Err(e) = thread.spawn_scoped(scope, run) {
                        service.note(peer, &format!("no thread for it: {e}"));
                    }
                }
                service.look();
            }
        })
    }

    /// Accepts a connection that may be gone already; `None` if none waits.
    fn accept(&self) -> Option<(TcpStream, SocketAddr)> {
        loop {
            match self.listener.accept() {
                Ok((socket, peer)) => return Some((socket, canonical(peer))),
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => return None,
            }
        }
    }

    /// Carries a connection; a fault in it costs this one alone.
    fn run(&self, service: &dyn Service, (socket, peer): (TcpStream, SocketAddr), _place: Place) {
        let carried = contained("a connection", || {
            if let Ok(channel) = Channel::new(socket, peer, self.security, self.stop) {
                service.carry(channel);
            }
            Ok(())
        });
        if let Err(e) = carried {
            service.note(peer, &format!("a fault in deadheat, which please report: {e}"));
        }
    }
}

/// Answers browsers at the page's port until `stop` is readable.
///
/// # Errors
/// If it cannot wait for connections.
pub(crate) fn serve(
    server: &WebServer<'_>,
    listener: &TcpListener,
    stop: BorrowedFd<'_>,
) -> Result<()> {
    Port { listener, security: &server.security, most: MOST, looks: Some(LOOK), stop }.serve(server)
}

impl Service for WebServer<'_> {
    fn carry(&self, channel: Channel<'_>) {
        routes::serve(self, Requests::new(channel));
    }

    fn note(&self, peer: SocketAddr, what: &str) {
        self.host().note(peer, what);
    }

    fn look(&self) {
        self.look_at_trials();
    }
}
