//! Control messages from a hostile peer: nothing panics, and what is understood is written and
//! read back the same.
#![no_main]

#[path = "../../tests/common/handed_in.rs"]
mod handed_in;

use std::fmt::Debug;

use deadheat::trial::control::{
    self, FromAgent, FromServer, Greeting, LARGEST, Proof, ToAgent, proved,
};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fuzz_target!(|data: &[u8]| {
    if let Ok(body) = control::read_frame(&mut &data[..]) {
        assert!(!body.is_empty() && body.len() <= LARGEST as usize);
        all(&body);
    }
    all(data);
});

fn all(body: &[u8]) {
    same::<Greeting>(body);
    same::<FromServer>(body);
    same::<ToAgent>(body);
    same::<FromAgent>(body);
    if let Some(proof) = same::<Proof>(body) {
        assert!(!proved("a secret", "a nonce", None, &proof));
    }
}

fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(body: &[u8]) -> Option<T> {
    let message: T = control::parse(body).ok()?;
    let mut wire = Vec::new();
    // What is read may be longer once its defaults are written out; too long is refused, not cut.
    if control::write(&mut wire, &message).is_ok() {
        let again: T = control::read(&mut wire.as_slice()).expect("own bytes are understood");
        assert_eq!(again, message);
    }
    Some(message)
}
