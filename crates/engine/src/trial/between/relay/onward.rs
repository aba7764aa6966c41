//! Relay at a third host: near ends come in at the server's port, as at any server, and the far end is at another server.
//!
//! ```text
//! near end ── path ──► server with --relay-to, port 5210 ── path ──► server with the far end, port 5210
//! ```
//! It sends nothing there but its announcement until that server has proved that it knows the trial: the token, which it
//! has from the client over control, and this relay from its own client ([`announcement`]). All that this process sends
//! and receives, on both sides, is held to the limits of its server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::Relay;
use super::handed::Door;
use crate::datapath::account::Account;
use crate::datapath::policer::{self, Policer};
use crate::error::{Error, Result};
use crate::time::{Clock, Monotonic, Nanos};
use crate::transport::Address;
use crate::transport::handover::HandOver;
use crate::transport::hello::Token;
use crate::trial::agent::confine::confine;
use crate::trial::agent::session::{control_failed, send_message};
use crate::trial::control::announcement::{self, Announcement};
use crate::trial::control::{self, FromAgent, OnwardPlan, ToAgent};

/// Longest time for the far end's server to accept the connection, and then to answer: less than a near end waits.
const PATIENCE: Nanos = Nanos::from_secs(3);

/// Waits for the message to connect, announces itself to the far end's server, and relays the connections of `door` until
/// the message to stop, or until the link to the server closes.
///
/// # Errors
/// [`Error::Blocked`] or [`Error::Peer`] if the far end's server does not answer as that of this trial; [`Error::Setup`]
/// if the kernel refuses to confine the process, or to poll.
pub(in crate::trial) fn run(
    plan: &OnwardPlan,
    door: HandOver,
    account: Option<Account>,
    mut control: UnixStream,
) -> Result<()> {
    let account = account.map_or_else(Account::new, Ok);
    let account = account.map_err(|e| Error::setup("make an account of bytes", e))?;
    let (rate, bytes) = (plan.limits.rate_bps, plan.limits.bytes);
    policer::install(Policer::new(rate, bytes, Arc::new(account), Monotonic.now()));
    confine()?;
    send_message(&mut control, &FromAgent::Ready { endpoint: Address::Ip(plan.at) })?;
    let mut door = Door { token: plan.token, door };
    let mut relay = Relay::new(plan.to);
    loop {
        match control::read(&mut control).map_err(control_failed)? {
            ToAgent::Onward => {
                announce(plan.to, plan.token)?;
                send_message(&mut control, &FromAgent::Connected)?;
            }
            ToAgent::Start => {}
            ToAgent::Stop => return send_message(&mut control, &FromAgent::Done(Box::default())),
            _ => return Err(Error::peer("control", "a relay is told to connect, start or stop")),
        }
        relay.forward(&control, &mut door)?;
    }
}

/// Announces this relay at the far end's server, which proves that it has the trial.
fn announce(to: SocketAddr, token: Token) -> Result<()> {
    let blocked = |what: &str, e: std::io::Error| {
        Error::blocked(format!(
            "the relay's host could not {what} the far end's server at {to} over TCP: {e}; is it reached from there, at \
             this address?"
        ))
    };
    let mut stream =
        TcpStream::connect_timeout(&to, PATIENCE.into()).map_err(|e| blocked("connect to", e))?;
    let set = stream.set_read_timeout(Some(PATIENCE.into()));
    set.map_err(|e| Error::setup("set the announcement's timeout", e))?;
    let announcement = Announcement::fresh(token)?;
    stream.write_all(&announcement.encode()).map_err(|e| blocked("announce itself to", e))?;
    let mut proof = [0; announcement::PROOF];
    stream.read_exact(&mut proof).map_err(|e| blocked("hear from", e))?;
    if announcement.is_proved(token, &proof) {
        return Ok(());
    }
    Err(Error::peer(
        format!("{to}"),
        "what answers the relay there is not the server of this trial's far end, so nothing is relayed to it",
    ))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const TOKEN: Token = Token::from_bytes([7; 16]);

    fn announced(answer: impl FnOnce(&Announcement) -> Vec<u8> + Send) -> Result<()> {
        let far = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = far.local_addr().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = far.accept().unwrap();
                let mut got = [0; announcement::LEN];
                stream.read_exact(&mut got).unwrap();
                assert!(!got.windows(16).any(|part| part == TOKEN.bytes()), "the token is there");
                stream.write_all(&answer(&Announcement::decode(&got).unwrap())).unwrap();
            });
            announce(to, TOKEN)
        })
    }

    #[test]
    fn nothing_is_relayed_to_what_does_not_know_the_trial() {
        announced(|got| got.proof(TOKEN).to_vec()).unwrap();
        let other = announced(|got| got.proof(Token::from_bytes([8; 16])).to_vec());
        assert!(other.unwrap_err().to_string().contains("not the server of this trial's far end"));
        // An echo sends all back that it gets.
        assert!(announced(|got| got.encode()[..announcement::PROOF].to_vec()).is_err());
        let closes = announced(|_| Vec::new()).unwrap_err();
        assert!(matches!(closes, Error::Blocked { .. }), "{closes}");
    }
}
