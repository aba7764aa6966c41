//! Control over TLS with a pinned key: who may read it, and who is talked to.

// Clippy's leave for tests ends at functions that are no tests themselves.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};

use deadheat::server::{Encryption, Secret, ServerKey};
use deadheat::trial::control::key::Pin;
use deadheat::trial::control::reach::Route;
use deadheat::trial::control::remote::{Credentials, RemoteServer, ServerWait};

use super::far::{Far, Manner};

const SECRET: &str = "open sesame";

/// A relay to `to`, and every byte that it carried, either way, once both sides have closed.
fn overhear(to: SocketAddr) -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, heard) = channel();
    std::thread::spawn(move || {
        let near = listener.accept().unwrap().0;
        let far = TcpStream::connect(to).unwrap();
        let ways = [(&near, &far), (&far, &near)].map(|(from, to)| {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || copy(from, to))
        });
        let _ = tell.send(ways.into_iter().flat_map(|way| way.join().unwrap()).collect());
    });
    (address, heard)
}

fn copy(mut from: TcpStream, mut to: TcpStream) -> Vec<u8> {
    let (mut carried, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(got @ 1..) = from.read(&mut buffer) {
        carried.extend_from_slice(&buffer[..got]);
        if to.write_all(&buffer[..got]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    carried
}

fn far(encryption: Encryption) -> Far {
    Far::with(Manner::Right, |config| {
        config.encryption = encryption;
        config.secret = Some(Secret::new(SECRET, "a test").unwrap());
    })
}

fn connect(to: SocketAddr, pin: Option<Pin>) -> deadheat::Result<RemoteServer> {
    connect_with(to, Some(SECRET), pin)
}

fn connect_with(
    to: SocketAddr,
    secret: Option<&str>,
    pin: Option<Pin>,
) -> deadheat::Result<RemoteServer> {
    let secret = secret.map(|secret| Secret::new(secret, "a test")).transpose()?;
    let credentials = Credentials { secret, pin };
    let mut waiting = ServerWait { stop: &AtomicBool::new(false), on_full: &mut |_| {} };
    RemoteServer::connect(&to.to_string(), &Route::default(), &credentials, &mut waiting)
}

fn holds(bytes: &[u8], words: &str) -> bool {
    bytes.windows(words.len()).any(|part| part == words.as_bytes())
}

#[test]
fn who_reads_on_the_way_learns_nothing_of_an_encrypted_connection() {
    let key = ServerKey::fresh().unwrap();
    let server = far(Encryption::Offered(key.clone()));
    let open = Far::with(Manner::Right, |config| {
        config.encryption = Encryption::Offered(key.clone());
    });
    // What the same reader sees of a connection that is not encrypted, as neither a pin nor a secret is given.
    let cases = [(&open, None, None, true), (&server, Some(SECRET), None, false)];
    let pinned = (&server, Some(SECRET), Some(key.pin()), false);
    for (server, secret, pin, is_seen) in cases.into_iter().chain([pinned]) {
        let (relay, heard) = overhear(server.address);
        let let_in = connect_with(relay, secret, pin).unwrap();
        let kernel = let_in.facts.kernel.clone();
        drop(let_in);
        let heard = heard.recv().unwrap();
        for words in ["deadheat", "limits", &kernel] {
            assert_eq!(holds(&heard, words), is_seen, "{words}");
        }
    }
}

#[test]
fn a_trial_runs_over_an_encrypted_connection() {
    let said = super::attacks::isolated(&format!(
        r#"{}
        serve --require-tls --key-file made.pem
        pin=$(grep -o 'sha256:[0-9a-f]*' log)
        "$DEADHEAT" race tcp udp quic -w ping:count=30,interval=1ms --to 127.0.0.1 --blocks 1 -q --pin $pin -o a.json || test $? = 3
        "$DEADHEAT" race tcp -w ping:count=30,interval=1ms --to 127.0.0.1 --blocks 1 -q -o b.json && exit 1 || true
        test -s a.json
        test ! -e b.json
        kill $server; wait $server
        serve --key-file made.pem
        DEADHEAT_PIN=$pin "$DEADHEAT" race tcp -w ping:count=30,interval=1ms --to 127.0.0.1 --blocks 1 -q -o c.json || test $? = 3
        test -s c.json
        kill $server; wait $server
        "#,
        super::attacks::SERVE,
    ));
    assert!(said.contains("it speaks encrypted only"), "{said}");
}

#[test]
fn only_the_server_with_the_pinned_key_is_talked_to() {
    let (key, other) = (ServerKey::fresh().unwrap(), ServerKey::fresh().unwrap());
    let server = far(Encryption::Offered(key.clone()));
    let error = connect(server.address, Some(other.pin())).unwrap_err().to_string();
    assert!(error.contains(&format!("its key is {} and not", key.pin())), "{error}");
    // A server that knows nothing of encryption closes.
    let server = far(Encryption::Off);
    let error = connect(server.address, Some(other.pin())).unwrap_err().to_string();
    assert!(error.contains("is `deadheat serve` what listens there?"), "{error}");
}

#[test]
fn a_server_may_insist_on_encryption() {
    let key = ServerKey::fresh().unwrap();
    let server = far(Encryption::Required(key.clone()));
    let error = connect_with(server.address, None, None).unwrap_err().to_string();
    assert!(error.contains("give the pin that it printed at its start with --pin"), "{error}");
    assert!(connect(server.address, Some(key.pin())).is_ok());
    assert!(connect(server.address, None).is_ok(), "a secret is proved encrypted");
}
