//! Advice: which transport for this application on this path? An application is described in a short file; the
//! races that answer are run within a time, and the answer is ranked by their verdicts and nothing else.
//!
//! | file | content |
//! |---|---|
//! | [`app`] | the file of an application, and its checks |
//! | [`bundled`] | the applications that are in the program |
//! | [`plan`] | traffic as workloads, and the contenders that fit it; nothing runs |
//! | [`run`] | the races, one after the other, in the time there is |
//! | [`rank`] | places from pairwise verdicts; pure |
//! | [`axis`] | a path with another loss, delay or rate; pure |
//! | [`search`] | where another contender takes over, by bisection; pure |
//! | [`outcome`] | the advice, as it is saved |
//!
//! On an emulated path, protocols in user space are screened in virtual time first, which costs no time worth
//! mentioning; the best of them meets the kernel's transports on the path itself.

pub mod app;
pub mod axis;
pub mod bundled;
mod course;
pub mod outcome;
pub mod plan;
pub mod rank;
pub mod run;
pub mod search;
