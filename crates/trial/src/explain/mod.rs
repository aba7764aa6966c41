//! Instrumented trials: their notes, which the driver takes, and the parts of round trips that follow.

pub mod parts;

pub use deadheat_driver::notes::*;
