//! Advice as it is saved: which transport for this application on this path?
//!
//! | file | content |
//! |---|---|
//! | [`app`] | an application |
//! | [`axis`] | a path with another loss, delay or rate; pure |
//! | [`search`] | the point from which another contender is ahead, by bisection; pure |
//! | [`outcome`] | the saved advice |

pub mod app;
pub mod axis;
pub mod outcome;
pub mod search;
