//! Maps: the leader at each point of a grid over keys of a path, of the work or of its load. Each point is an ordinary
//! race with its own seed, so points can run anywhere and in any order.
//!
//! | file | purpose |
//! |---|---|
//! | [`request`] | the race at a point, and all checks of a map before it runs |
//! | [`mod@merge`] | parts joined to one map; pure |
//! | [`run`] | the races, several at the same time in virtual time |

pub mod merge;
#[cfg(test)]
mod point;
pub mod request;
pub mod run;
