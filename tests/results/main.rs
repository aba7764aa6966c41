//! Results and what is made of them: their file and its schema, reports, comparisons, gates, histories, imports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test helper that fails is a failed test")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/handed_in.rs"]
mod handed_in;
#[path = "../common/hostile.rs"]
mod hostile;

mod compare;
mod gate;
mod history;
mod hlog;
mod import;
mod plots;
mod reports;
mod schema;
mod silent;
