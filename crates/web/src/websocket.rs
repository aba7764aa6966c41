//! WebSocket (RFC 6455) at the page's port: the work of a trial, and the clock of this host.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

use crate::channel::{Channel, WaitFor};
use crate::http::{Answer, PATIENCE, RequestHead, Requests};
use crate::server::WebServer;
use crate::work::{LONGEST, Work};
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Messages that are taken before others are sent.
const MOST_AT_ONCE: usize = 64;

/// Time without a message after which a connection to the clock ends.
const IDLE: Nanos = Nanos::from_secs(300);

/// Answers the handshake, and returns the connection as one of WebSocket; `None` if it is none, or if the browser is gone.
fn accept<'a>(mut requests: Requests<'a>, head: &RequestHead) -> Option<WebSocket<Channel<'a>>> {
    let key = head.websocket_key.as_deref().unwrap_or_default();
    // RFC 6455, section 4.2.1: 16 bytes in Base64.
    if STANDARD.decode(key).map_or(true, |bytes| bytes.len() != 16) {
        let _ = requests.answer(&Answer::refusal(400, "this is no handshake of WebSocket"));
        return None;
    }
    let (mut channel, rest) = requests.into_parts();
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    channel.write_until(answer.as_bytes(), Monotonic.now() + PATIENCE).ok()?;
    // What is sent is handed over message by message, and a slow browser holds it back.
    let config = WebSocketConfig::default()
        .read_buffer_size(LONGEST)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * LONGEST)
        .max_message_size(Some(LONGEST))
        .max_frame_size(Some(LONGEST));
    Some(WebSocket::from_partially_read(channel, rest, Role::Server, Some(config)))
}

/// Runs the work of a trial over a connection, until it ends.
pub(crate) fn work(server: &WebServer<'_>, requests: Requests<'_>, head: &RequestHead) {
    let Some(mut socket) = accept(requests, head) else { return };
    let mut work = Work::new(server.tickets.clone());
    let until = Monotonic.now() + PATIENCE;
    while let Ok(is_open) = turn(&mut socket, &mut work, until) {
        if !is_open {
            break;
        }
    }
    // It may be gone already.
    let _ = socket.close(None);
    let _ = socket.flush();
}

/// Takes messages that arrived, sends those due, and waits for more; returns false at the end. A connection that has not shown its
/// ticket ends at `until`.
fn turn(socket: &mut WebSocket<Channel<'_>>, work: &mut Work, until: Nanos) -> Result<bool, Error> {
    let now = Monotonic.now();
    let reads_from = work.reads_from();
    let mut taken = 0;
    while taken < MOST_AT_ONCE && reads_from <= now {
        match socket.read() {
            Ok(Message::Binary(bytes)) => work.received(Monotonic.now(), &bytes),
            Ok(Message::Text(text)) => work.received(Monotonic.now(), text.as_bytes()),
            Ok(Message::Close(_)) => return Ok(false),
            Ok(_) => {}
            Err(e) if would_block(&e) => break,
            Err(e) => return Err(e),
        }
        taken += 1;
    }
    let mut has_room = true;
    while has_room {
        match socket.flush() {
            Ok(()) => {}
            Err(e) if would_block(&e) => {
                has_room = false;
                continue;
            }
            Err(e) => return Err(e),
        }
        let Some(message) = work.next(Monotonic.now()) else { break };
        match socket.write(Message::Binary(message.into())) {
            Ok(()) => {}
            Err(e) if would_block(&e) => has_room = false,
            Err(e) => return Err(e),
        }
    }
    if work.is_over() && has_room {
        return Ok(false);
    }
    let now = Monotonic.now();
    let ends = work.ends().unwrap_or(until);
    if now >= ends {
        return Ok(false);
    }
    if taken < MOST_AT_ONCE {
        let wanted = match (has_room, reads_from > now) {
            (false, _) => WaitFor::BytesOrRoom,
            (true, false) => WaitFor::Bytes,
            (true, true) => WaitFor::Time,
        };
        let due = if has_room { work.due() } else { None };
        let reads = (reads_from > now).then_some(reads_from);
        let next = due.into_iter().chain(reads).chain([ends]).min();
        socket.get_ref().wait(wanted, next).map_err(Error::Io)?;
    }
    Ok(true)
}

/// Answers each message with the time of this host's clock, beside trials.
pub(crate) fn clock(server: &WebServer<'_>, requests: Requests<'_>, head: &RequestHead) {
    let Some(mut socket) = accept(requests, head) else { return };
    let mut idle = Monotonic.now() + IDLE;
    while Monotonic.now() < idle {
        match socket.read() {
            Ok(Message::Close(_)) => break,
            Ok(Message::Binary(_) | Message::Text(_)) => {
                let now = Monotonic.now();
                let answer = now.0.to_string();
                if server.beside(socket.get_ref(), [100, 100]).is_err()
                    || socket.send(Message::text(answer)).is_err()
                {
                    break;
                }
                idle = now + IDLE;
            }
            Ok(_) => {}
            Err(e) if would_block(&e) => {
                if socket.get_ref().wait(WaitFor::Bytes, Some(idle)).is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    let _ = socket.close(None);
    let _ = socket.flush();
}

fn would_block(error: &Error) -> bool {
    matches!(error, Error::Io(e) if e.kind() == io::ErrorKind::WouldBlock)
}
