//! Maps: who is ahead where. A grid over keys of a path, and at each of its points an ordinary race with
//! a seed of its own, so that points can be run anywhere and in any order.
//!
//! | file | purpose |
//! |---|---|
//! | [`levels`] | levels of a key: a range of so many steps, or a list; pure |
//! | [`asked`] | request for a map: its points, their paths and seeds, and its checks; pure |
//! | [`point`] | what the race at a point says: who leads there, or why nobody can be said to; pure |
//! | [`file`](mod@file) | the map as it is saved, and its reading with suspicion |
//! | [`shard`] | the part of the points that one of several runs has; pure |
//! | [`mod@merge`] | parts joined to the map that one run would have written; pure |
//! | [`run`] | the races, several at once in virtual time |

pub mod asked;
pub mod file;
pub mod levels;
pub mod merge;
pub mod point;
pub mod run;
pub mod shard;
