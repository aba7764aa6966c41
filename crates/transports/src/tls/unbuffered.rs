//! Handshake for keys that the kernel uses afterwards: the library's connection without buffers, run record by record,
//! so that no byte behind its last record is read from the socket.

use std::io;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets, HandshakeKind};

use super::process::endless;
use super::{RECORD_HEADER, invalid};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_contract::contract::Patience;
use deadheat_datapath::datapath::stream::CountedSocket;
use deadheat_datapath::transport::step::StepBudget;

/// Longest body of an encrypted record (RFC 8446, 5.2).
const LONGEST: usize = (1 << 14) + 256;

/// Connection of the library, for either end.
pub(super) enum Unbuffered {
    Near(UnbufferedClientConnection),
    Far(UnbufferedServerConnection),
}

/// Part that stays in the library once the kernel encrypts: new keys, and tickets at the near end.
pub(super) enum TrafficKeys {
    Near(KernelConnection<ClientConnectionData>),
    Far(KernelConnection<ServerConnectionData>),
}

impl TrafficKeys {
    /// Returns the next keys for sending.
    pub(super) fn update_sending(&mut self) -> io::Result<(u64, ConnectionTrafficSecrets)> {
        match self {
            TrafficKeys::Near(keeper) => keeper.update_tx_secret(),
            TrafficKeys::Far(keeper) => keeper.update_tx_secret(),
        }
        .map_err(invalid)
    }

    /// Returns the next keys for receiving.
    pub(super) fn update_receiving(&mut self) -> io::Result<(u64, ConnectionTrafficSecrets)> {
        match self {
            TrafficKeys::Near(keeper) => keeper.update_rx_secret(),
            TrafficKeys::Far(keeper) => keeper.update_rx_secret(),
        }
        .map_err(invalid)
    }

    /// Stores a ticket for later connections.
    ///
    /// # Errors
    /// `InvalidData` for a ticket from the near end, or a malformed one.
    pub(super) fn keep_ticket(&mut self, payload: &[u8]) -> io::Result<()> {
        match self {
            TrafficKeys::Near(keeper) => keeper.handle_new_session_ticket(payload).map_err(invalid),
            TrafficKeys::Far(_) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "TLS: the near end sent a ticket, which is the far end's to give",
            )),
        }
    }
}

/// Next step of a handshake.
enum HandshakeStep {
    Go,
    Send,
    Receive,
    Done,
}

/// Result of a handshake.
pub(super) struct HandshakeOutcome {
    pub(super) secrets: ExtractedSecrets,
    pub(super) keeper: TrafficKeys,
    pub(super) kind: Option<HandshakeKind>,
    /// Protocol inside that both ends agreed on (RFC 7301).
    pub(super) protocol: Option<Vec<u8>>,
}

impl Unbuffered {
    /// Completes the handshake.
    ///
    /// # Errors
    /// The error of the socket or of TLS; `TimedOut` if the peer takes too long.
    pub(super) fn see_through(
        mut self,
        wire: &mut CountedSocket,
        mut step: StepBudget,
    ) -> io::Result<HandshakeOutcome> {
        let deadline = step.deadline(Monotonic.now());
        let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
        loop {
            match self.turn(&mut incoming, &mut outgoing)? {
                HandshakeStep::Go => {}
                HandshakeStep::Send => send_all(wire, &mut outgoing, deadline)?,
                HandshakeStep::Receive => {
                    let before = incoming.len();
                    receive_record(wire, &mut incoming, deadline)?;
                    step.take(incoming.len() - before).map_err(endless)?;
                }
                HandshakeStep::Done => break,
            }
        }
        if !incoming.is_empty() {
            let why = "TLS: a record of the handshake goes on behind its end";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        self.hand_over()
    }

    /// Has the library read the received bytes, and collects the bytes that it sends.
    fn turn(
        &mut self,
        incoming: &mut Vec<u8>,
        outgoing: &mut Vec<u8>,
    ) -> io::Result<HandshakeStep> {
        let (discard, step) = match self {
            Unbuffered::Near(tls) => step(tls.process_tls_records(incoming), outgoing)?,
            Unbuffered::Far(tls) => step(tls.process_tls_records(incoming), outgoing)?,
        };
        incoming.drain(..discard);
        Ok(step)
    }

    fn hand_over(self) -> io::Result<HandshakeOutcome> {
        match self {
            Unbuffered::Near(tls) => {
                let kind = tls.handshake_kind();
                let protocol = tls.alpn_protocol().map(<[u8]>::to_vec);
                let (secrets, keeper) = tls.dangerous_into_kernel_connection().map_err(invalid)?;
                Ok(HandshakeOutcome { secrets, keeper: TrafficKeys::Near(keeper), kind, protocol })
            }
            Unbuffered::Far(tls) => {
                let kind = tls.handshake_kind();
                let protocol = tls.alpn_protocol().map(<[u8]>::to_vec);
                let (secrets, keeper) = tls.dangerous_into_kernel_connection().map_err(invalid)?;
                Ok(HandshakeOutcome { secrets, keeper: TrafficKeys::Far(keeper), kind, protocol })
            }
        }
    }
}

/// Handles the library's state; returns the number of consumed bytes, and the next step.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
) -> io::Result<(usize, HandshakeStep)> {
    let UnbufferedStatus { discard, state } = status;
    let step = match state.map_err(invalid)? {
        ConnectionState::EncodeTlsData(mut record) => {
            let needed = match record.encode(&mut []) {
                Ok(_) => 0,
                Err(EncodeError::InsufficientSize(least)) => least.required_size,
                Err(e) => return Err(io::Error::other(e)),
            };
            let from = outgoing.len();
            outgoing.resize(from + needed, 0);
            if needed > 0 {
                record.encode(&mut outgoing[from..]).map_err(io::Error::other)?;
            }
            HandshakeStep::Go
        }
        ConnectionState::TransmitTlsData(records) => {
            records.done();
            HandshakeStep::Send
        }
        ConnectionState::BlockedHandshake => HandshakeStep::Receive,
        ConnectionState::WriteTraffic(_) => HandshakeStep::Done,
        ConnectionState::PeerClosed | ConnectionState::Closed => {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        other => {
            let why = format!("TLS: a handshake ended in an unexpected state, {other:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
    };
    Ok((discard, step))
}

fn in_time(deadline: Nanos) -> io::Result<()> {
    if Monotonic.now() < deadline {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake did not end"))
}

fn send_all(wire: &mut CountedSocket, bytes: &mut Vec<u8>, deadline: Nanos) -> io::Result<()> {
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        in_time(deadline)?;
        let sent = wire.send(rest, Patience::Block)?.unwrap_or(0);
        rest = &rest[sent..];
    }
    bytes.clear();
    Ok(())
}

/// Receives one whole record, and no byte behind it: the kernel may have to decrypt that.
fn receive_record(wire: &mut CountedSocket, into: &mut Vec<u8>, deadline: Nanos) -> io::Result<()> {
    let mut header = [0; RECORD_HEADER];
    receive_exactly(wire, &mut header, deadline)?;
    let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if len > LONGEST {
        let why = format!("TLS: a record of {len} bytes, where {LONGEST} are the most");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    into.extend_from_slice(&header);
    let from = into.len();
    into.resize(from + len, 0);
    receive_exactly(wire, &mut into[from..], deadline)
}

fn receive_exactly(
    wire: &mut CountedSocket,
    mut room: &mut [u8],
    deadline: Nanos,
) -> io::Result<()> {
    while !room.is_empty() {
        in_time(deadline)?;
        match wire.receive(room, Patience::Block)? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(got) => room = &mut room[got..],
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;

    use socket2::Socket;

    use super::super::process::ProcessTls;
    use super::super::{KEYS, TlsFlavour};
    use super::*;
    use crate::stream::Flavour;
    use crate::testing::pair;
    use deadheat_base::spec::{Settings, Spec};
    use deadheat_contract::contract::Side;
    use deadheat_datapath::transport::Tickets;
    use deadheat_datapath::transport::hello::Token;

    fn encrypted(typed: &str) -> TlsFlavour {
        let knobs = Settings::check(&Spec::parse(typed).unwrap(), KEYS).unwrap();
        TlsFlavour::new("tls", &knobs, Token::from_bytes([7; 16]), &Tickets::default()).unwrap()
    }

    /// With the library's own peer at either end: its bytes behind the handshake stay in the socket.
    #[test]
    fn nothing_behind_the_handshake_is_taken_from_the_socket() {
        for cipher in ["aes128", "aes256", "chacha20"] {
            for (side, other) in [(Side::Near, Side::Far), (Side::Far, Side::Near)] {
                let [ours, theirs] = pair();
                let mut rest = ours.try_clone().unwrap();
                let peer = encrypted(&format!("tls:cipher={cipher}"));
                let peer = thread::spawn(move || {
                    let tls = peer.connection(other).unwrap();
                    let wire = CountedSocket::new(Socket::from(theirs)).unwrap();
                    let mut peer = ProcessTls::open(wire, tls, StepBudget::default()).unwrap();
                    assert_eq!(peer.send(&[9; 100], Patience::Block).unwrap(), Some(100));
                    peer
                });
                let tls = encrypted(&format!("tls:offload=kernel,cipher={cipher}"));
                let mut wire = CountedSocket::new(Socket::from(ours)).unwrap();
                let step = StepBudget::default();
                let done = tls.unbuffered(side).unwrap().see_through(&mut wire, step).unwrap();
                assert_eq!(done.kind, Some(HandshakeKind::Full));
                // No record was encrypted with these keys yet, in either direction.
                assert_eq!((done.secrets.tx.0, done.secrets.rx.0), (0, 0));
                let _peer = peer.join().unwrap();
                let mut record = [0; 5 + 100 + 1 + 16];
                rest.read_exact(&mut record).unwrap();
                assert_eq!(record[..5], [23, 3, 3, 0, 117], "{cipher}, {side:?}");
                rest.set_nonblocking(true).unwrap();
                assert!(rest.read(&mut [0]).is_err(), "nothing more");
            }
        }
    }

    #[test]
    fn nonsense_is_no_handshake() {
        use std::io::Write;
        let say = |bytes: &[u8]| {
            let [ours, mut theirs] = pair();
            theirs.write_all(bytes).unwrap();
            drop(theirs);
            let tls = encrypted("tls:offload=kernel").unbuffered(Side::Far).unwrap();
            let mut wire = CountedSocket::new(Socket::from(ours)).unwrap();
            tls.see_through(&mut wire, StepBudget::default()).err().unwrap()
        };
        let long = say(&[22, 3, 3, 0xff, 0xff, 0]);
        assert!(long.to_string().contains("a record of 65535 bytes"), "{long}");
        assert_eq!(say(&[22, 3, 3]).kind(), io::ErrorKind::UnexpectedEof);
        let other = say(&[&b"GET / "[..], &[b'.'; 9_000]].concat());
        assert_eq!(other.kind(), io::ErrorKind::InvalidData, "{other}");
    }

    /// By either party, and whatever comes in place of the handshake: it ends within its bytes and its time.
    #[test]
    fn a_peer_that_does_not_shake_hands_is_given_up() {
        use std::io::Write;

        let short = Nanos::from_millis(200);
        // Records that change nothing (RFC 8446, 5), messages that are longer than any, and none.
        let again: [(&str, &[u8], bool); 6] = [
            ("silence", &[], false),
            ("half a record", &[22, 3, 3, 0, 100, 2], false),
            ("records without a message", &[20, 3, 3, 0, 1, 1], true),
            ("a message without an end", &[22, 3, 3, 0, 4, 2, 0xff, 0xff, 0xff], true),
            ("a lying length", &[22, 3, 3, 0xff, 0xff, 0], true),
            ("garbage", b"HTTP/1.1 400 Bad Request\r\n", true),
        ];
        for (what, bytes, is_endless) in again {
            for typed in ["tls", "tls:offload=kernel"] {
                let [ours, theirs] = pair();
                let sending = thread::spawn(move || {
                    let mut sent = 0;
                    while (&theirs).write_all(bytes).is_ok() && is_endless && sent < 64 << 20 {
                        sent += bytes.len();
                    }
                    theirs
                });
                let flavour = TlsFlavour { step: StepBudget::of(short), ..encrypted(typed) };
                let began = Monotonic.now();
                let error = flavour.open(Socket::from(ours), Side::Near).err().unwrap();
                if error.kind() == io::ErrorKind::TimedOut {
                    assert!(Monotonic.now() - began >= short, "{what}, {typed}: {error}");
                }
                drop(sending.join().unwrap());
            }
        }
    }
}
