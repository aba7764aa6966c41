//! How many control connections there may be, in all and from one origin.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::log::origin;

/// The seats for control connections.
pub(super) struct Seats {
    all: usize,
    each: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One control connection's seat; free again when dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    origin: IpAddr,
}

impl Seats {
    /// `all` seats, of which one origin gets at most `each`.
    pub(super) fn new(all: usize, each: usize) -> Arc<Seats> {
        Arc::new(Seats { all, each, taken: Mutex::default() })
    }

    /// A seat for a control connection from `ip`, or why there is none.
    pub(super) fn take(self: &Arc<Seats>, ip: IpAddr) -> Result<Seat, String> {
        let origin = origin(ip);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.values().sum::<usize>() >= self.all {
            return Err(format!(
                "{} control connections are open already; try again later",
                self.all
            ));
        }
        let mine = taken.entry(origin).or_default();
        if *mine >= self.each {
            return Err(format!(
                "{} control connections are open from {origin} already; end one of those races \
                 first",
                self.each
            ));
        }
        *mine += 1;
        Ok(Seat { seats: Arc::clone(self), origin })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_origin_cannot_take_all_and_seats_come_back() {
        let seats = Seats::new(3, 2);
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = seats.take(a).ok().unwrap();
        let _second = seats.take(a).ok().unwrap();
        let why = seats.take(a).err().unwrap();
        assert!(why.contains("2 control connections are open from 10.0.0.1"), "{why}");
        let _third = seats.take(b).ok().unwrap();
        let why = seats.take(b).err().unwrap();
        assert!(why.contains("3 control connections are open already"), "{why}");
        drop(first);
        assert!(seats.take(a).is_ok());
        assert_eq!(seats.taken.lock().unwrap().len(), 2);
    }
}
