//! Places for connections and sessions: so many in all, and so many of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places, and the addresses that have them.
#[derive(Clone)]
pub(crate) struct Places {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most: usize,
    most_of_one: usize,
}

/// One place; free again once it is dropped.
pub(crate) struct Place {
    places: Places,
    of: IpAddr,
}

impl Places {
    /// Creates places for so many in all, and for so many of one address.
    pub(crate) fn new(most: usize, most_of_one: usize) -> Places {
        Places { taken: Arc::default(), most, most_of_one }
    }

    /// Takes a place for an address.
    ///
    /// # Errors
    /// A sentence for the page, if there is none.
    pub(crate) fn take(&self, of: IpAddr) -> Result<Place, String> {
        let mut taken = self.lock();
        if taken.values().sum::<usize>() >= self.most {
            return Err("too many browsers are here; try again in a minute".to_owned());
        }
        let own = taken.entry(of).or_default();
        if *own >= self.most_of_one {
            let most = self.most_of_one;
            return Err(format!(
                "{most} connections of this address are open; try again in a minute"
            ));
        }
        *own += 1;
        Ok(Place { places: self.clone(), of })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(own) = taken.get_mut(&self.of) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_places_in_all_and_of_an_address_and_each_is_free_again() {
        let places = Places::new(4, 2);
        let of = |address: u8| places.take([10, 0, 0, address].into());
        let mut taken: Vec<Place> = (0..2).map(|_| of(0).unwrap()).collect();
        assert!(of(0).err().unwrap().contains("2 connections of this address"));
        taken.extend((1..3).map(|address| of(address).unwrap()));
        assert!(of(3).err().unwrap().contains("too many"));
        taken.remove(0);
        assert!(of(0).is_ok());
    }
}
