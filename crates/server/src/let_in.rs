//! Check of clients: the version of a greeting, and the proof of a shared secret.
//!
//! All of it happens before authentication: until a client has proved that it knows the secret it costs no thread and
//! no permit, only a descriptor, which the next unauthenticated connection may replace.

use super::config::{Config, Encryption};
use deadheat_base::error::{Error, Result};
use deadheat_base::foreign::short;
use deadheat_base::units::hex::hex;
use deadheat_datapath::transport::hello::Token;
use deadheat_trial::control::key::ServerKey;
use deadheat_trial::control::stream::Binding;
use deadheat_trial::control::{
    self, FromServer, Greeting, Limits, MAGIC, OLDEST_PROTOCOL, PROTOCOL, Proof, Secret,
};

/// Conditions for admitting a client.
#[derive(Debug)]
pub(super) struct LetIn {
    secret: Option<Secret>,
    limits: Limits,
    encryption: Encryption,
}

/// Result of a greeting.
#[derive(Debug)]
pub(super) struct GreetingAnswer {
    /// Answer to the client.
    pub(super) welcome: FromServer,
    /// Nonce for the proof of the secret; absent if there is no secret.
    pub(super) nonce: Option<String>,
    /// Number that the client gives on all its connections; absent if it has one only.
    pub(super) client: Option<Token>,
}

impl LetIn {
    pub(super) fn new(config: &Config) -> LetIn {
        LetIn {
            secret: config.secret.clone(),
            limits: config.limits,
            encryption: config.encryption.clone(),
        }
    }

    /// Returns the key that encrypts a client's connection, if the client asks for encryption.
    pub(super) fn key(&self) -> Option<&ServerKey> {
        self.encryption.key()
    }

    /// Answers a greeting; `is_encrypted` describes its connection.
    ///
    /// # Errors
    /// Fails with a sentence for the client about its error.
    pub(super) fn greet(&self, frame: &[u8], is_encrypted: bool) -> Result<GreetingAnswer> {
        if let (Encryption::Required(_), false) = (&self.encryption, is_encrypted) {
            let what = "it speaks encrypted only; give the pin that it printed at its start with --pin, or \
                        its secret";
            return Err(Error::peer("server", what));
        }
        let greeting = match control::parse::<Greeting>(frame) {
            Ok(greeting) if greeting.magic == MAGIC => greeting,
            _ => return Err(Error::peer("server", "your first message is no greeting")),
        };
        let Some(protocol) = greeting.common() else {
            return Err(Error::peer("server", mismatch(&greeting)));
        };
        let nonce = self.secret.as_ref().map(|_| fresh_nonce()).transpose()?;
        let welcome = FromServer::Welcome {
            protocol,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            nonce: nonce.clone(),
            limits: self.limits,
            echoes: true,
            answers_probes: true,
            relays: true,
            commands: true,
        };
        Ok(GreetingAnswer { welcome, nonce, client: greeting.client })
    }

    /// Checks a proof against the nonce that was sent, and the connection over which it arrived. A server that can
    /// encrypt accepts no proof over a plain connection: another server could have requested it from the client, and
    /// passed it on.
    ///
    /// # Errors
    /// Fails if the proof shows no knowledge of the secret.
    pub(super) fn check(&self, frame: &[u8], nonce: &str, binding: Option<Binding>) -> Result<()> {
        if binding.is_none() && self.key().is_some() {
            let what = "it takes the proof of its secret over an encrypted connection only; use the \
                        same version on both ends";
            return Err(Error::peer("server", what));
        }
        let is_proved = match (control::parse::<Proof>(frame), &self.secret) {
            (Ok(proof), Some(secret)) => control::proved(secret.text(), nonce, binding, &proof),
            _ => false,
        };
        if is_proved {
            return Ok(());
        }
        Err(Error::peer(
            "server",
            "the shared secret is wrong; give the server's with --secret-file",
        ))
    }
}

fn mismatch(theirs: &Greeting) -> String {
    format!(
        "this server speaks protocol {PROTOCOL} down to {OLDEST_PROTOCOL} (deadheat {}), you speak {} (deadheat {}); use the \
         same version on both ends",
        env!("CARGO_PKG_VERSION"),
        theirs.protocol,
        short(&theirs.version)
    )
}

fn fresh_nonce() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::setup("read random bytes", std::io::Error::other(e.to_string())))?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use deadheat_trial::control::stream::ControlStream;

    const SECRET: &str = "open sesame";

    /// Returns both ends of an encrypted connection, after its handshake.
    fn encrypted(key: &ServerKey) -> (ControlStream, ControlStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = ControlStream::plain(listener.accept().unwrap().0);
        let near = ControlStream::encrypted(near, None).unwrap();
        far.encrypt(key, &[]).unwrap();
        let hear = |mut stream: &ControlStream| loop {
            match control::read_frame(&mut stream) {
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                heard => return heard.unwrap(),
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                hear(&far);
                control::write_frame(&mut &far, b"there").unwrap();
            });
            control::write_frame(&mut &near, b"hello").unwrap();
            hear(&near);
        });
        (near, far)
    }

    /// A server passes a client the nonce of another server.
    #[test]
    fn a_proof_is_worth_nothing_on_another_connection() {
        let (key, other) = (ServerKey::fresh().unwrap(), ServerKey::fresh().unwrap());
        let secret = Some(Secret::new(SECRET, "a test").unwrap());
        let encryption = Encryption::Offered(key.clone());
        let let_in = LetIn::new(&Config { secret, encryption, ..Config::default() });
        let nonce = fresh_nonce().unwrap();
        let (client, between) = encrypted(&other);
        let (passes_on, server) = encrypted(&key);
        let check = |proved_on: &ControlStream| {
            let proof = control::prove(SECRET, &nonce, proved_on.binding().unwrap());
            let frame = serde_json::to_vec(&proof).unwrap();
            let_in.check(&frame, &nonce, server.binding().unwrap())
        };
        assert_eq!(client.binding().unwrap(), between.binding().unwrap());
        assert!(check(&client).unwrap_err().to_string().contains("the shared secret is wrong"));
        check(&passes_on).unwrap();
        let proof = serde_json::to_vec(&control::prove(SECRET, &nonce, None)).unwrap();
        let why = let_in.check(&proof, &nonce, None).unwrap_err().to_string();
        assert!(why.contains("over an encrypted connection only"), "{why}");
    }
}
