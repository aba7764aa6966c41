//! Maps as they are saved: the leader at each point of a grid over keys of a path, of the work or of its load.
//!
//! | file | content |
//! |---|---|
//! | [`levels`] | levels of a key: a range with a number of steps, or a list; pure |
//! | [`request`] | request for a map: its points, their paths, works and seeds; pure |
//! | [`point`] | the result of the race at a point: its leaders, or the reason why there is none; pure |
//! | [`file`](mod@file) | the saved map, and its reading with checks |
//! | [`shard`] | the share of the points for one of several runs; pure |

pub mod file;
pub mod levels;
pub mod point;
pub mod request;
pub mod shard;
