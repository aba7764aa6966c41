//! Tests that need every transport in the list: of contenders, their parts and their adapters.

mod equal;
mod external;
mod list;
mod optional;
mod preference;
mod prefers;
mod several;
mod userspace;
mod via;

use deadheat_everything as _;
