//! Debian's coturn as the TURN server of one trial, at the far end's host. It ends with this process.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use deadheat_base::process::die_with_parent;

use super::CoturnPlan;
use super::message::{Class, Draft, Message, Method, Transaction};
use crate::agent::session::send_message;
use crate::control::FromAgent;
use crate::process::AgentProcess;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::transport::Address;
use deadheat_datapath::transport::via::COTURN;

/// Realm of its credentials.
const REALM: &str = "deadheat";
/// Longest time until it answers.
const START: Nanos = Nanos::from_secs(15);
/// Time to wait for an answer before the next request.
const ASK: Duration = Duration::from_millis(20);
/// Ports to try: a free port may be taken before the server binds it.
const TRIES: usize = 3;

/// Runs a server until the link to the race has a message, or closes.
///
/// # Errors
/// [`Error::Unsupported`] if coturn is not installed; [`Error::Peer`] with its output if it does not start.
pub(crate) fn run(plan: &CoturnPlan, mut control: UnixStream) -> Result<()> {
    let mut tries = 0;
    let (server, at) = loop {
        tries += 1;
        match start(plan) {
            Err(_) if tries < TRIES => {}
            started => break started?,
        }
    };
    send_message(&mut control, &FromAgent::Ready { endpoint: Address::Ip(at) })?;
    // The race sends nothing more; its link closes.
    let _ = io::Read::read(&mut control, &mut [0]);
    drop(server);
    Ok(())
}

/// Starts a server, and waits until it answers.
fn start(plan: &CoturnPlan) -> Result<(AgentProcess, SocketAddr)> {
    let asking = |e| Error::setup(format!("ask for a free port at {}", plan.at), e);
    let free = UdpSocket::bind(plan.at).and_then(|socket| socket.local_addr());
    let at = free.map_err(asking)?;
    let mut server = AgentProcess::start(COTURN, command(plan, at)).map_err(missing)?;
    let from = UdpSocket::bind(SocketAddr::new(at.ip(), 0)).map_err(asking)?;
    from.set_read_timeout(Some(ASK)).map_err(asking)?;
    let deadline = Monotonic.now() + START;
    while !answers(&from, at) {
        let has_ended = server.ended(Nanos::ZERO);
        if has_ended || Monotonic.now() >= deadline {
            let did = if has_ended { "it ended" } else { "it does not answer" };
            let words = server.last_words().unwrap_or_default();
            let last: Vec<&str> = words.lines().rev().take(3).collect();
            return Err(Error::peer(COTURN, format!("{did}, and says: {}", last.join(" / "))));
        }
    }
    Ok((server, at))
}

/// Returns the command that starts it, for this address only, over UDP only, without any configuration of the host.
fn command(plan: &CoturnPlan, at: SocketAddr) -> Command {
    let mut command = Command::new(COTURN);
    let ip = at.ip();
    command.args([
        "-n",
        &format!("--listening-ip={ip}"),
        &format!("--relay-ip={ip}"),
        &format!("--listening-port={}", at.port()),
        "--lt-cred-mech",
        &format!("--user={}:{}", plan.credentials.user, plan.credentials.password),
        &format!("--realm={REALM}"),
        // The far end is on the same host, and on loopback its address is a loopback address.
        "--allow-loopback-peers",
        "--no-cli",
        "--no-tls",
        "--no-dtls",
        "--no-tcp",
        "--no-tcp-relay",
        "--relay-threads=1",
        "--log-file=/dev/stderr",
        "--simple-log",
        "--pidfile=/dev/null",
        "--userdb=:memory:",
    ]);
    // SAFETY: the closure makes one async-signal-safe call.
    unsafe {
        command.pre_exec(|| {
            die_with_parent();
            Ok(())
        })
    };
    command
}

fn missing(error: Error) -> Error {
    match error {
        Error::Setup { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            deadheat_datapath::transport::via::no_coturn()
        }
        other => other,
    }
}

/// Sends a Binding request (RFC 8489), and returns true if an answer arrives.
fn answers(from: &UdpSocket, at: SocketAddr) -> bool {
    let transaction: Transaction = *b"are-you-here";
    let request = Draft::new(Method::Binding, Class::Request, &transaction).finish();
    let _ = from.send_to(&request, at);
    let mut into = [0; 2048];
    let Ok((len, _)) = from.recv_from(&mut into) else { return false };
    Message::parse(&into[..len]).is_some_and(|message| message.transaction() == transaction)
}
