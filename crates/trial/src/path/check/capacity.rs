//! Capacity of a path under full load: for a byte stream, and for single small datagrams.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use socket2::Socket;

use super::measure::SendOutcome;
use crate::path::check::measure::SendPlan;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};

/// Bytes per call.
const CALL: usize = 128 << 10;

/// Longest time to set up a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that a stream carried, and the time span at its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamVolume {
    pub bytes: u64,
    pub span: Nanos,
}

impl StreamVolume {
    /// Returns the rate in bits per second; `None` if nothing arrived.
    pub(super) fn rate(self) -> Option<f64> {
        (self.span > Nanos::ZERO).then(|| 8.0 * self.bytes as f64 / self.span.as_secs_f64())
    }
}

/// Sends as much as the stream accepts for `time`, from one socket to the other.
///
/// # Errors
/// Fails with the operation that failed.
pub(super) fn stream(from: &Socket, to: &Socket, time: Nanos) -> Result<StreamVolume> {
    let failed = |e| Error::setup("send a stream through the path", e);
    let target = to.local_addr().map_err(failed)?;
    to.listen(1).map_err(failed)?;
    match from.connect_timeout(&target, PATIENCE) {
        // A link that loses all.
        Err(e) if e.kind() == io::ErrorKind::TimedOut => {
            return Ok(StreamVolume { bytes: 0, span: Nanos::ZERO });
        }
        done => done.map_err(failed)?,
    }
    let (accepted, _) = to.accept().map_err(failed)?;
    accepted.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut source = TcpStream::from(from.try_clone().map_err(failed)?);
    source.set_write_timeout(Some(Duration::from_millis(100))).map_err(failed)?;
    let over = AtomicBool::new(false);
    let (received, sent) = thread::scope(|scope| {
        let receiving = scope.spawn(|| discard(&accepted));
        let sending = scope.spawn(|| fill(&mut source, &over));
        thread::sleep(time.into());
        over.store(true, Ordering::Release);
        let sent = sending.join();
        // Also after a failed send: it ends the receiver's wait.
        let _ = from.shutdown(std::net::Shutdown::Both);
        (receiving.join(), sent)
    });
    let died = || failed(io::Error::other("a thread died"));
    sent.map_err(|_| died())?.map_err(failed)?;
    received.map_err(|_| died())?.map_err(failed)
}

fn fill(stream: &mut TcpStream, over: &AtomicBool) -> io::Result<()> {
    let content = vec![0x5a; CALL];
    while !over.load(Ordering::Acquire) {
        match stream.write(&content) {
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            done => drop(done?),
        }
    }
    Ok(())
}

/// Counts received bytes without copying them (`MSG_TRUNC`, tcp(7)), until the stream ends.
fn discard(socket: &Socket) -> io::Result<StreamVolume> {
    let mut room = vec![0_u8; CALL];
    let (mut bytes, mut first, mut last) = (0, None, Nanos::ZERO);
    loop {
        // SAFETY: the pointer and length are those of a live buffer, into which nothing is written.
        let got = unsafe {
            libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), CALL, libc::MSG_TRUNC)
        };
        match usize::try_from(got) {
            Ok(0) => break,
            Ok(got) => {
                last = Monotonic.now();
                // The span begins with the arrival of the first bytes, so they do not count.
                match first {
                    None => first = Some(last),
                    Some(_) => bytes += got as u64,
                }
            }
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e if e.kind() == io::ErrorKind::ConnectionReset => break,
                // A link on which nothing comes any more.
                e if e.kind() == io::ErrorKind::WouldBlock => break,
                e => return Err(e),
            },
        }
    }
    Ok(StreamVolume { bytes, span: first.map_or(Nanos::ZERO, |first| last - first) })
}

/// Sends datagrams of 64 bytes, one per call, as fast as possible, and returns the number received per second.
///
/// # Errors
/// Fails with the operation that failed.
pub(super) fn datagrams(
    from: Socket,
    to: Socket,
    packets: usize,
    delay: Nanos,
) -> Result<Option<f64>> {
    let course = SendPlan { packets, size: 64, every: Nanos::ZERO, delay, is_stamped: false };
    Ok(per_second(&course.run(from, to)?))
}

fn per_second(came: &SendOutcome) -> Option<f64> {
    let (span, packets) = came.span()?;
    (span > 0).then(|| packets as f64 * 1e9 / span as f64)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::site::Site;
    use super::*;

    #[test]
    fn a_stream_over_loopback_is_counted() {
        let mut site = Site::here(IpAddr::from([127, 0, 0, 1])).unwrap();
        let (from, to) = (site.stream().unwrap(), site.stream().unwrap());
        let carried = stream(&from, &to, Nanos::from_millis(50)).unwrap();
        assert!(carried.bytes > CALL as u64, "{carried:?}");
        assert!(carried.rate().unwrap() > 1e6, "{carried:?}");
        assert_eq!(StreamVolume { bytes: 0, span: Nanos::ZERO }.rate(), None);
    }

    #[test]
    fn datagrams_over_loopback_are_counted() {
        let mut site = Site::here(IpAddr::from([127, 0, 0, 1])).unwrap();
        let (from, to) = (site.datagrams().unwrap(), site.datagrams().unwrap());
        let rate = datagrams(from, to, 2_000, Nanos::ZERO).unwrap();
        // All that a busy host lets arrive in one moment is no rate.
        assert!(rate.is_none_or(|rate| rate > 1.0), "{rate:?}");
        let every = Nanos::from_millis(1);
        let (packets, size, delay, is_stamped) = (200, 64, Nanos::ZERO, false);
        let paced = SendPlan { packets, size, every, delay, is_stamped };
        let came = paced.run(site.datagrams().unwrap(), site.datagrams().unwrap()).unwrap();
        let rate = per_second(&came);
        assert!(rate.is_some_and(|rate| rate > 1.0), "{rate:?}");
    }
}
