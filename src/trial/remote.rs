//! The client's side of a server's control connection: greet, prove the secret, learn the host.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::path::{DEFAULT_PORT, Family};

use super::control::{self, FromServer, Greeting, Limits, MAGIC, PROTOCOL, Secret};
use super::host::HostFacts;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that let us in.
#[derive(Debug)]
pub struct RemoteServer {
    /// Its address.
    pub address: SocketAddr,
    /// The control connection.
    pub control: TcpStream,
    /// Its host.
    pub facts: HostFacts,
    /// What it allows.
    pub limits: Limits,
}

impl RemoteServer {
    /// Connects to `host`, which is `NAME`, `NAME:PORT`, `ADDRESS` or `[ADDRESS]:PORT`.
    ///
    /// # Errors
    /// Naming the address and what would help, where it cannot be reached, speaks another protocol,
    /// or wants a secret that is missing or wrong.
    pub fn connect(host: &str, family: Family, secret: Option<&Secret>) -> Result<RemoteServer> {
        let addresses = resolve(host, family)?;
        let control = connect_any(&addresses)?;
        let failed = |e| Error::setup(format!("set up the control connection to {host}"), e);
        control.set_nodelay(true).map_err(failed)?;
        control.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
        let address = control.peer_addr().map_err(failed)?;
        let mut line = Line { who: format!("server {address}"), stream: control };
        let (nonce, limits) = line.greet()?;
        line.prove(nonce.as_deref(), secret)?;
        let facts = line.facts(secret.is_some())?;
        Ok(RemoteServer { address, control: line.stream, facts, limits })
    }
}

struct Line {
    who: String,
    stream: TcpStream,
}

impl Line {
    fn greet(&mut self) -> Result<(Option<String>, Limits)> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let greeting = Greeting { magic: MAGIC.into(), protocol: PROTOCOL, version };
        self.write(&greeting)?;
        match self.read()? {
            FromServer::Welcome { protocol, version, .. } if protocol != PROTOCOL => {
                Err(self.peer(format!(
                    "it speaks protocol {protocol} (deadheat {version}) and this is protocol {PROTOCOL} \
                     (deadheat {}); use the same version on both ends",
                    env!("CARGO_PKG_VERSION")
                )))
            }
            FromServer::Welcome { nonce, limits, .. } => Ok((nonce, limits)),
            other => Err(self.unexpected(other)),
        }
    }

    fn prove(&mut self, nonce: Option<&str>, secret: Option<&Secret>) -> Result<()> {
        match (nonce, secret) {
            (None, _) => Ok(()),
            (Some(nonce), Some(secret)) => self.write(&control::prove(secret.text(), nonce)),
            (Some(_), None) => Err(Error::usage(format!(
                "{} wants a shared secret; give it with --secret-file FILE or in DEADHEAT_SECRET",
                self.who
            ))),
        }
    }

    fn facts(&mut self, gave_secret: bool) -> Result<HostFacts> {
        match self.read() {
            Ok(FromServer::Facts(facts)) => Ok(*facts),
            Ok(other) => Err(self.unexpected(other)),
            Err(error) if !gave_secret => Err(error),
            Err(error) => Err(self.peer(format!("{error} (is the shared secret right?)"))),
        }
    }

    fn write<T: serde::Serialize>(&mut self, word: &T) -> Result<()> {
        control::write(&mut self.stream, word)
            .map_err(|e| Error::setup(format!("talk to {}", self.who), e))
    }

    fn read<T: DeserializeOwned>(&mut self) -> Result<T> {
        control::read(&mut self.stream).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => {
                self.peer(format!("{e}; is `deadheat serve` what listens there?"))
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.peer(format!(
                "no answer for {} s; is `deadheat serve` what listens there?",
                ANSWER_TIMEOUT.as_secs()
            )),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => self
                .peer("it closed the connection; is `deadheat serve` what listens there?".into()),
            _ => Error::setup(format!("hear from {}", self.who), e),
        })
    }

    fn unexpected(&self, word: FromServer) -> Error {
        match word {
            FromServer::Refused(fault) => self.peer(format!("it refused: {fault}")),
            _ => self.peer("it answered out of turn; use the same version on both ends".into()),
        }
    }

    fn peer(&self, what: String) -> Error {
        Error::peer(&self.who, what)
    }
}

fn resolve(host: &str, family: Family) -> Result<Vec<SocketAddr>> {
    let resolved = if let Ok(ip) = host.parse::<IpAddr>() {
        Ok(vec![SocketAddr::new(ip, DEFAULT_PORT)])
    } else if host.contains(':') {
        host.to_socket_addrs().map(Iterator::collect)
    } else {
        (host, DEFAULT_PORT).to_socket_addrs().map(Iterator::collect)
    };
    let all: Vec<SocketAddr> = resolved.map_err(|e| {
        Error::setup_advice(
            format!("look up {host}"),
            e,
            "write NAME, NAME:PORT, ADDRESS or [ADDRESS]:PORT",
        )
    })?;
    let fitting: Vec<SocketAddr> =
        all.iter().copied().filter(|address| family.has(address)).collect();
    if fitting.is_empty() {
        let version = if family == Family::V4 { "IPv4" } else { "IPv6" };
        return Err(Error::usage(format!("{host} has no {version} address; leave out -4 or -6")));
    }
    Ok(fitting)
}

fn connect_any(addresses: &[SocketAddr]) -> Result<TcpStream> {
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some((address, error)),
        }
    }
    let Some((address, error)) = last else {
        return Err(Error::usage("no address to connect to"));
    };
    let advice = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there; start `deadheat serve` on that host, or give its port as HOST:PORT"
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "no answer at all: a firewall, or the wrong address; TCP port 5210 must be open"
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "there is no route to it from here"
        }
        _ => "",
    };
    Err(Error::setup_advice(format!("connect to {address}"), error, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_in_every_form() {
        let one = |host, family| resolve(host, family).map(|all| all[0].to_string());
        assert_eq!(one("127.0.0.1", Family::Any).unwrap(), "127.0.0.1:5210");
        assert_eq!(one("127.0.0.1:99", Family::V4).unwrap(), "127.0.0.1:99");
        assert_eq!(one("::1", Family::V6).unwrap(), "[::1]:5210");
        assert_eq!(one("[::1]:99", Family::Any).unwrap(), "[::1]:99");
        let error = one("127.0.0.1", Family::V6).unwrap_err().to_string();
        assert!(error.contains("no IPv6 address"), "{error}");
        assert!(one("127.0.0.1:port", Family::Any).unwrap_err().to_string().contains("NAME:PORT"));
    }

    #[test]
    fn a_port_where_nobody_listens_is_named() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = RemoteServer::connect(&free.to_string(), Family::Any, None).unwrap_err();
        assert!(error.to_string().contains("start `deadheat serve` on that host"), "{error}");
    }

    #[test]
    fn another_kind_of_server_is_recognised() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            use std::io::Write;
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        });
        let error = RemoteServer::connect(&address, Family::Any, None).unwrap_err().to_string();
        assert!(error.contains("is `deadheat serve` what listens there?"), "{error}");
        server.join().unwrap();
    }
}
