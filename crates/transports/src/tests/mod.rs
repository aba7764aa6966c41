//! Tests that need every transport in the list: of contenders, their parts and their adapters.

mod equal;
mod external;
mod list;
mod optional;
mod preference;
mod prefers;
#[cfg(all(feature = "quic-noq", feature = "quic-s2n"))]
mod quics;
mod several;
mod userspace;
mod via;

use deadheat_everything as _;
