//! Advice: which transport for this application on this path? A short file describes the application. Races run
//! within a time limit, and their verdicts alone decide the ranking.
//!
//! | file | content |
//! |---|---|
//! | [`app`] | the file of an application, and its checks |
//! | [`bundled`] | the applications in the program |
//! | [`candidate`] | candidates: contenders with services for their lanes, and pairs of contenders; pure |
//! | [`length`] | length of a trial; pure |
//! | [`plan`] | traffic as workloads, and the candidates that carry it; runs no race |
//! | [`run`] | the races, one after another, within the time limit |
//! | [`rank`] | places from pairwise verdicts; pure |
//! | [`axis`] | a path with another loss, delay or rate; pure |
//! | [`search`] | the point from which another contender is ahead, by bisection; pure |
//! | [`outcome`] | the saved advice |
//!
//! On an emulated path, all contenders that run in virtual time are compared there first, in trials as long as the
//! figure needs; the leaders then race against the kernel's transports on the path itself.

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
