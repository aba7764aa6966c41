//! The program as people run it, on loopback and in virtual time: what it takes, says, saves and shows. One binary, so that it
//! is linked once; a file for each subject.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/handed_in.rs"]
mod handed_in;

mod advise;
mod broken;
mod cli;
mod deployed;
mod documents;
mod explain;
mod far_ends;
mod files;
mod packaging;
mod page;
mod qlog;
mod remote;
#[path = "../common/remote_cells.rs"]
mod remote_cells;
mod session;
mod sim;
mod strangers;
mod study;
