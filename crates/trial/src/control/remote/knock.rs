//! Packets that ask whether a server is back.

use super::RemoteServer;
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Shortest and longest time that a server has to answer one packet, as [`RemoteServer::knock`] sends it.
const KNOCK: Nanos = Nanos::from_millis(100);
const MOST_KNOCK: Nanos = Nanos::from_secs(3);

impl RemoteServer {
    /// Tries for a moment to connect to the server, and says nothing there. Returns the time since the packet that it
    /// answered, or else the evidence that it is away. Each packet has a connection of its own: the kernel repeats those
    /// of one after ever longer pauses.
    pub(crate) fn knock(&self) -> std::result::Result<Nanos, String> {
        let to = self.address;
        let began = Monotonic.now();
        let longest = Nanos(self.round_trip().unwrap_or_default().0 * 3).clamp(KNOCK, MOST_KNOCK);
        let domain = socket2::Domain::for_address(to);
        let connect = || {
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)
                .map_err(|e| e.to_string())?;
            self.origin().bind(&socket, to).map_err(|e| e.to_string())?;
            socket.connect_timeout(&to.into(), longest.into()).map_err(|e| e.to_string())
        };
        let knocked = connect();
        let took = Monotonic.now() - began;
        knocked.map(|()| took).map_err(|why| {
            // A refusal comes at once.
            Monotonic.pass(KNOCK - took);
            format!("connect to {to}: {why}")
        })
    }
}
