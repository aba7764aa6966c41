//! Heartbeat of a control connection: TCP's keepalive (RFC 9293, section 3.8.4; tcp(7)). The kernel of the peer
//! answers it, so that a peer of any version has one, and a peer whose program is busy does not count as gone.
//!
//! Outside of measured phases a peer that does not answer is gone after `SILENCE`. Within one, control is silent,
//! so that it disturbs nothing: the length of the trial bounds it then, and the wait for an acknowledgement of its end.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// Longest silence of a peer outside of measured phases: three questions, a second apart, without an answer.
pub(crate) const SILENCE: Duration = Duration::from_millis(3_900);

/// Time between two questions.
const BEAT: Duration = Duration::from_secs(1);

/// Longest time in a measured phase until the peer acknowledges a message: a path whose queue holds seconds of data
/// delays control as well.
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);

/// Asks the peer every second whether it is there; reads and writes fail once it has not answered for `SILENCE`.
///
/// # Errors
/// Fails if the kernel refuses the options.
pub fn beat(stream: &TcpStream) -> io::Result<()> {
    ask(stream, SILENCE)
}

/// Asks nothing from now on, as a measured phase begins.
///
/// # Errors
/// Fails if the kernel refuses the options.
pub fn rest(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_keepalive(false)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))
}

/// Asks every second, and gives the peer up once nothing came from it for `silence`.
pub fn ask(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    // The kernel compares the silence with the user timeout where there is one, and not the number of questions with
    // the retries.
    socket.set_tcp_user_timeout(Some(silence))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(BEAT).with_interval(BEAT))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn control_beats_between_trials_and_rests_within() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = SockRef::from(&stream);
        beat(&stream).unwrap();
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), BEAT);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(SILENCE));
        rest(&stream).unwrap();
        assert!(!socket.keepalive().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED));
        beat(&stream).unwrap();
        assert!(socket.keepalive().unwrap());
    }
}
