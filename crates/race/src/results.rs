//! Tests of deadheat-result on results of whole races, which that crate cannot run.

mod against;
mod command;
mod contests;
mod course;
mod derived;
mod differences;
mod headline;
mod host_use;
mod journal;
mod settings;
mod shares;
mod sweep;
mod theory;
