//! Path of a trial: the emulated path that a race starts, its facts in results, the time that it takes by its own model,
//! and the check of the emulator against that model.

pub mod check;
pub(super) mod emulated;
pub mod model_time;
