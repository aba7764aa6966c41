//! Readers for fuzz targets.

use super::{LARGEST, MESSAGE, Measurements};
use deadheat_base::ends::Direction;
use deadheat_datapath::transport::application::MessageApplication;

/// Reads measurements of a server, one a line, amid a test in each direction.
pub(crate) fn measurements(bytes: &[u8]) {
    for way in [Direction::Up, Direction::Down] {
        let (mut application, mut sent) = (of(way), 0);
        for line in String::from_utf8_lossy(bytes).lines() {
            let len = application.next_len(sent);
            assert!((MESSAGE[0]..=MESSAGE[1]).contains(&len), "a message of {len} bytes");
            sent += len as u64;
            if application.text(line, sent).is_err() {
                break;
            }
        }
        let _ = (application.awaits(), application.effective());
    }
}

/// Returns the application of a test in this direction.
pub(crate) fn of(way: Direction) -> Box<dyn MessageApplication> {
    Box::new(Measurements { way, last: None })
}

/// Length of the largest message of a server.
pub(crate) const LARGEST_OF_SERVER: usize = LARGEST;
