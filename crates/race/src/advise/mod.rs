//! Advice: which transport for this application on this path? A short file describes the application. Races run
//! within a time limit, and their verdicts alone decide the ranking.
//!
//! | file | content |
//! |---|---|
//! | [`app`] | reading of the file of an application |
//! | [`bundled`] | the applications in the program |
//! | [`candidate`] | candidates: contenders with services for their lanes, and pairs of contenders; pure |
//! | [`length`] | length of a trial; pure |
//! | [`plan`] | traffic as workloads, and the candidates that carry it; runs no race |
//! | [`course`], `comparison`, `steps` | the races, one after another, within the time limit; which comes next |
//! | [`run`], `standings` | all of it; the places by the verdicts so far |
//! | [`rank`] | places from pairwise verdicts; pure |
//!
//! On an emulated path, all contenders that run in virtual time are compared there first, in trials as long as the
//! figure needs; the leaders then race against the kernel's transports on the path itself.

pub mod app;
pub mod bundled;
pub mod candidate;
mod comparison;
pub mod course;
pub mod length;
pub mod plan;
pub mod rank;
pub mod run;
mod standings;
mod steps;
