//! Studies and their results: files with the races of one question, the figures that others published about it, and
//! their claims.
//!
//! | file | content |
//! |---|---|
//! | [`model`] | a study file as plain data |
//! | `plan` | a race of it at a setting, and as a command |
//! | [`expect`] | the claimed range of a figure |
//! | [`sentence`] | sentences on claims; pure |
//! | [`outcome`] | the saved results of a study |

pub mod expect;
pub mod model;
pub mod outcome;
mod plan;
pub mod sentence;
