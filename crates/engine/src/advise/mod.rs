//! Advice: which transport for this application on this path? An application is described in a short file; the
//! races that answer are run within a time, and the answer is ranked by their verdicts and nothing else.
//!
//! | file | content |
//! |---|---|
//! | [`app`] | the file of an application, and its checks |
//! | [`bundled`] | the applications that are in the program |
//! | [`candidate`] | everything that can carry an application: contenders with services of their lanes, and pairs; pure |
//! | [`length`] | how long a trial is; pure |
//! | [`plan`] | traffic as workloads, and the candidates that carry it; nothing runs |
//! | [`run`] | the races, one after the other, in the time there is |
//! | [`rank`] | places from pairwise verdicts; pure |
//! | [`axis`] | a path with another loss, delay or rate; pure |
//! | [`search`] | where another contender takes over, by bisection; pure |
//! | [`outcome`] | the advice, as it is saved |
//!
//! On an emulated path, all that runs in virtual time is compared there first, in trials as long as the figure needs; the
//! leaders meet the kernel's transports on the path itself.

pub mod app;
pub mod axis;
pub mod bundled;
pub mod candidate;
mod course;
pub mod length;
pub mod outcome;
pub mod plan;
pub mod rank;
pub mod run;
pub mod search;
mod steps;
