//! First bytes of a data connection from anybody: nothing panics, and what is taken for a hello or
//! a welcome is one, to the last bit.
#![no_main]

use deadheat::transport::hello::Hello;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(hello) = Hello::decode(data) {
        assert_eq!(hello.encode(), data);
        assert_eq!(Hello::decode_welcome(data), None);
    }
    if let Some(welcome) = Hello::decode_welcome(data) {
        assert_eq!(welcome.encode_welcome(), data);
    }
});
