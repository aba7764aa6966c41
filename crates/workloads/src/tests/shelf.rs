//! A store in memory, for tests of endpoints.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use deadheat_base::error::{Error, Result};
use deadheat_contract::contract::*;

/// An offset and the bytes that were written at it.
type Written = (u64, Vec<u8>);

/// Written and readable content of a store.
#[derive(Default, Clone)]
pub(crate) struct Shelf {
    content: Arc<Vec<u8>>,
    written: Arc<Mutex<Vec<Written>>>,
    full_from: Option<u64>,
}

impl Shelf {
    pub(crate) fn of(content: &[u8]) -> Shelf {
        Shelf { content: Arc::new(content.to_vec()), ..Shelf::default() }
    }

    pub(crate) fn full_from(offset: u64) -> Shelf {
        Shelf { full_from: Some(offset), ..Shelf::default() }
    }

    pub(crate) fn store(&self) -> Box<dyn Store> {
        Box::new(self.clone())
    }

    pub(crate) fn written(&self) -> Vec<Written> {
        self.written.lock().unwrap().clone()
    }
}

impl Store for Shelf {
    fn at(&self, offset: u64) -> FileAt<'_> {
        // SAFETY: descriptor 0 is never touched; only the offset is looked at.
        let file = unsafe { BorrowedFd::borrow_raw(0) };
        FileAt { file, offset }
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        let from = offset as usize;
        match self.content.get(from..from + into.len()) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => return Err(Error::data("shelf", format!("ends before {offset}"))),
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.full_from.is_some_and(|full| offset >= full) {
            return Err(Error::data("shelf", format!("no room at {offset}")));
        }
        self.written.lock().unwrap().push((offset, bytes.to_vec()));
        Ok(())
    }
}
