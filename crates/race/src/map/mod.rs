//! Maps: the leader at each point of a grid over keys of a path, of the work or of its load. Each point is an ordinary
//! race with its own seed, so points can run anywhere and in any order.
//!
//! | file | purpose |
//! |---|---|
//! | [`levels`] | levels of a key: a range with a number of steps, or a list; pure |
//! | [`request`] | request for a map: its points, their paths and seeds, and its checks; pure |
//! | [`point`] | the result of the race at a point: its leaders, or the reason why there is none; pure |
//! | [`file`](mod@file) | the saved map, and its reading with checks |
//! | [`shard`] | the share of the points for one of several runs; pure |
//! | [`mod@merge`] | parts joined to one map; pure |
//! | [`run`] | the races, several at the same time in virtual time |

pub mod file;
pub mod levels;
pub mod merge;
pub mod point;
pub mod request;
pub mod run;
pub mod shard;
