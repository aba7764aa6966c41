//! Bytes of far ends of others: no reader of them panics, whatever a server or a reflector sends in whatever state. The
//! first byte chooses the reader.
#![no_main]

use deadheat_far_ends::readers;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    (readers::ALL[usize::from(*choice) % readers::ALL.len()].read)(bytes);
});
