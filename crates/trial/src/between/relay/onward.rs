//! Relay at a third host: near ends come in at the server's port, as at any server, and the far end is at another server.
//!
//! ```text
//! near end ── path ──► server with --relay-to, port 5210 ── path ──► server with the far end, port 5210
//! ```
//! It sends nothing there but its announcement until that server has proved that it knows the trial: the token, which it
//! has from the client over control, and this relay from its own client ([`announcement`]). All that this process sends
//! and receives, on both sides, is held to the limits of its server.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use deadheat_base::descriptor::fill;

use super::Relay;
use super::handed::Door;
use crate::agent::confine::confine;
use crate::agent::session::{control_failed, send_message};
use crate::control::announcement::{self, Announcement};
use crate::control::{self, FromAgent, OnwardPlan, ToAgent};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_datapath::datapath::account::Account;
use deadheat_datapath::datapath::policer::{self, Policer};
use deadheat_datapath::transport::Address;
use deadheat_datapath::transport::handover::HandOver;
use deadheat_datapath::transport::hello::Token;

/// Time for the far end's server to accept the connection and to answer: less than a near end waits.
const PATIENCE: Nanos = Nanos::from_secs(3);

/// Waits for the message to connect, announces itself to the far end's server, and relays the connections of `door` until
/// the message to stop, or until the link to the server closes.
///
/// # Errors
/// [`Error::Blocked`] if the far end's server does not answer as that of this trial; [`Error::Setup`]
/// if the kernel refuses to confine the process, or to poll.
pub(crate) fn run(
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
                announce(plan.to, plan.token, PATIENCE)?;
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
///
/// # Errors
/// One and the same, after the same time, for every host that does not: a client learns nothing of the ports of hosts to which
/// the operator lets this server relay.
fn announce(to: SocketAddr, token: Token, patience: Nanos) -> Result<()> {
    let until = Monotonic.now() + patience;
    if prove(to, token, until)?.is_some() {
        return Ok(());
    }
    std::thread::sleep((until - Monotonic.now()).into());
    Err(Error::blocked(format!(
        "no server that has the far end of this trial proved itself to the relay's host at {to} over TCP, within {patience}; \
         is it reached from there, at this address?"
    )))
}

/// Asks for the proof until a time; `None` if there is none.
fn prove(to: SocketAddr, token: Token, until: Nanos) -> Result<Option<()>> {
    let announcement = Announcement::fresh(token)?;
    let connect = || {
        let stream = TcpStream::connect_timeout(&to, (until - Monotonic.now()).into())?;
        (&stream).write_all(&announcement.encode())?;
        stream.set_nonblocking(true)?;
        let mut proof = [0; announcement::PROOF];
        let have = fill(&stream, &mut proof, until)?;
        std::io::Result::Ok((have == proof.len()).then_some(proof))
    };
    let proof = connect().ok().flatten();
    Ok(proof.filter(|proof| announcement.is_proved(token, proof)).map(drop))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const TOKEN: Token = Token::from_bytes([7; 16]);

    /// Announces itself at a server that answers so.
    fn announced(
        answer: impl FnOnce(&Announcement) -> Vec<u8> + Send,
        patience: Nanos,
    ) -> Result<()> {
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
            announce(to, TOKEN, patience)
        })
    }

    #[test]
    fn a_server_that_proves_the_trial_is_relayed_to() {
        announced(|got| got.proof(TOKEN).to_vec(), Nanos::from_secs(20)).unwrap();
    }

    #[test]
    fn what_is_no_server_of_the_trial_has_one_error_after_one_time_whatever_it_is() {
        let patience = Nanos::from_millis(300);
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let other = |got: &Announcement| got.proof(Token::from_bytes([8; 16])).to_vec();
        // An echo sends all back that it gets.
        let echo = |got: &Announcement| got.encode()[..announcement::PROOF].to_vec();
        let cases: [&dyn Fn() -> Result<()>; 5] = [
            &|| announce(closed, TOKEN, patience),
            &|| announce(silent.local_addr().unwrap(), TOKEN, patience),
            &|| announced(|_| Vec::new(), patience),
            &|| announced(other, patience),
            &|| announced(echo, patience),
        ];
        for (case, attempt) in cases.iter().enumerate() {
            let began = Monotonic.now();
            let error = attempt().unwrap_err();
            assert!(Monotonic.now() - began >= patience, "{case}: {error}");
            let said = error.to_string();
            let (before, after) = said.split_once("127.0.0.1:").unwrap();
            assert!(before.ends_with("proved itself to the relay's host at "), "{case}: {said}");
            let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
            assert!(after.starts_with(" over TCP, within 300 ms"), "{case}: {said}");
        }
    }
}
