//! Places for connections and sessions: so many in all, and so many of one origin. Where all are taken, the newest one of the
//! origin with most makes room for an origin that has fewer.

use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadheat_base::origins::{Admission, Shares};

/// Places, and the addresses that have them.
#[derive(Clone)]
pub(crate) struct Places {
    taken: Arc<Mutex<TakenPlaces>>,
    shares: Shares,
}

#[derive(Default)]
struct TakenPlaces {
    next: u64,
    /// Places by their numbers, the oldest first.
    all: Vec<TakenPlace>,
    /// Number of places that were lost to others, and whose holders have not ended yet.
    lost: usize,
}

struct TakenPlace {
    number: u64,
    of: IpAddr,
    /// Connection that ends if the place is lost; a place without one is not lost to others.
    connection: Option<TcpStream>,
}

/// One place; free again once it is dropped.
pub(crate) struct Place {
    places: Places,
    number: u64,
}

impl Places {
    /// Creates places for so many in all, and for so many of one origin.
    pub(crate) fn new(in_all: usize, of_one: usize) -> Places {
        Places { taken: Arc::default(), shares: Shares { in_all, of_one } }
    }

    /// Takes a place for an address. Its connection, if it has one, is shut down if another origin is to have the place.
    ///
    /// # Errors
    /// A sentence for the page, if there is none.
    pub(crate) fn take(&self, of: IpAddr, connection: Option<&TcpStream>) -> Result<Place, String> {
        let full = || "too many browsers are here; try again in a minute".to_owned();
        let connection = connection.map(TcpStream::try_clone).transpose().map_err(|_| full())?;
        let mut taken = self.lock();
        match self.shares.admit(of, taken.all.iter().rev().map(|place| place.of)) {
            Admission::Free => {}
            // Each that is lost has a thread for a moment.
            Admission::Replaces(back) if taken.lost < self.shares.in_all => {
                let at = taken.all.len() - 1 - back;
                let Some(lost) = &taken.all[at].connection else { return Err(full()) };
                // One that is gone already loses nothing.
                let _ = lost.shutdown(Shutdown::Both);
                taken.all.remove(at);
                taken.lost += 1;
            }
            Admission::OwnShare => {
                let most = self.shares.of_one;
                return Err(format!(
                    "{most} connections of this address are open; try again in a minute"
                ));
            }
            Admission::Replaces(_) | Admission::Full => return Err(full()),
        }
        let number = taken.next;
        taken.next += 1;
        taken.all.push(TakenPlace { number, of, connection });
        Ok(Place { places: self.clone(), number })
    }

    fn lock(&self) -> MutexGuard<'_, TakenPlaces> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        let before = taken.all.len();
        taken.all.retain(|place| place.number != self.number);
        if taken.all.len() == before {
            taken.lost -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_places_in_all_and_of_an_address_and_each_is_free_again() {
        let places = Places::new(4, 2);
        let of = |address: u8| places.take([10, 0, 0, address].into(), None);
        let mut taken: Vec<Place> = (0..2).map(|_| of(0).unwrap()).collect();
        assert!(of(0).err().unwrap().contains("2 connections of this address"));
        taken.extend((1..3).map(|address| of(address).unwrap()));
        assert!(of(3).err().unwrap().contains("too many"));
        taken.remove(0);
        assert!(of(0).is_ok());
    }

    /// Connections that say nothing, of as few addresses as can fill all places.
    #[test]
    fn a_crowd_of_a_few_addresses_makes_room_for_another() {
        use std::io::Read;
        use std::net::TcpListener;

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        };
        let places = Places::new(8, 4);
        let take = |address: u8| {
            let (near, far) = connect();
            let place = places.take([10, 0, 0, address].into(), Some(&far));
            (near, place, far)
        };
        let mut crowd: Vec<_> = (0..8).map(|n| take(n % 2)).collect();
        assert!(crowd.iter().all(|(_, place, _)| place.is_ok()));
        assert!(take(0).1.is_err());
        let honest: Vec<_> = (0..2).map(|_| take(9)).collect();
        assert!(honest.iter().all(|(_, place, _)| place.is_ok()), "each is of who has fewest");
        assert!(take(9).1.is_err(), "by now all have alike");
        let lost = crowd.iter_mut().map(|(near, ..)| {
            near.set_nonblocking(true).unwrap();
            matches!(near.read(&mut [0]), Ok(0))
        });
        assert_eq!(lost.filter(|is_lost| *is_lost).count(), 2);
        drop(crowd);
        drop(honest);
        assert!((0..8).map(|n| take(n % 2)).all(|(_, place, _)| place.is_ok()));
        assert_eq!(places.lock().lost, 0);
    }
}
