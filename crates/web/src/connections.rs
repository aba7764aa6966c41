//! Connections of browsers: so many at once, and a thread for each.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::Scope;

use deadheat_base::descriptor::ready;
use deadheat_datapath::datapath::destination::canonical;

use crate::channel::Channel;
use crate::http::Requests;
use crate::places::Places;
use crate::routes;
use crate::server::WebServer;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;

/// Connections at once, of all browsers and of one address. Each costs a thread.
const MOST_CONNECTIONS: usize = 128;
const MOST_OF_ONE: usize = 32;

/// Time between two looks at the trials that run.
const LOOK: Nanos = Nanos::from_millis(250);

/// Answers browsers until `stop` is readable.
///
/// # Errors
/// If it cannot wait for connections.
pub(crate) fn serve(
    server: &WebServer<'_>,
    listener: &TcpListener,
    stop: BorrowedFd<'_>,
) -> Result<()> {
    let places = Places::new(MOST_CONNECTIONS, MOST_OF_ONE);
    std::thread::scope(|scope| {
        loop {
            let fds = [(stop, libc::POLLIN), (listener.as_fd(), libc::POLLIN)];
            let found = ready(fds, Some(LOOK));
            let found = found.map_err(|e| Error::setup("wait for browsers", e))?;
            if found[0] {
                return Ok(());
            }
            while found[1] && accept(server, &places, scope, listener, stop) {}
            server.look_at_trials();
        }
    })
}

/// Accepts a connection; returns false if none waits.
fn accept<'scope>(
    server: &'scope WebServer<'_>,
    places: &Places,
    scope: &'scope Scope<'scope, '_>,
    listener: &TcpListener,
    stop: BorrowedFd<'scope>,
) -> bool {
    let (socket, peer) = match listener.accept() {
        Ok(accepted) => accepted,
        // It may be gone already.
        Err(e) => return e.kind() == io::ErrorKind::ConnectionAborted,
    };
    let peer = canonical(peer);
    let place = match places.take(peer.ip(), Some(&socket)) {
        Ok(place) => place,
        Err(why) => {
            server.host().note(peer, &format!("turned away: {why}"));
            return true;
        }
    };
    let run = move || {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            if let Ok(channel) = Channel::new(socket, peer, &server.security, stop) {
                routes::serve(server, Requests::new(channel));
            }
        }));
        if ran.is_err() {
            server.host().note(peer, "a connection ended by a fault in deadheat; please report it");
        }
        drop(place);
    };
    if let Err(e) = std::thread::Builder::new().name("browser".into()).spawn_scoped(scope, run) {
        server.host().note(peer, &format!("no thread for it: {e}"));
    }
    true
}
