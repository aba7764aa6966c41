//! Studies: races of one question as a file, with what others published about it, and what was
//! claimed. Running one sets published figures beside measured ones and says which claims hold.
//!
//! | file | what it holds |
//! |---|---|
//! | [`model`] | a study file as plain data |
//! | [`read`] | from the text of a file to a study that was checked |
//! | [`check`] | what a study must be, so that nothing of it is found wrong once it runs |
//! | [`expect`] | where a claim wants a figure to be |
//! | [`bundled`] | the studies that are in the program |
//! | [`plan`] | a race of a study as what is asked of a race, and as a command |
//! | [`run`] | race after race into a directory, and going on with what was broken off |
//! | `hold` | a directory that one study at a time is run into |
//! | [`judge`], `sentence` | published figures beside measured ones, and claims; pure |
//! | [`again`] | what was run before, judged by the rules and claims of now; pure |
//! | [`outcome`] | what came of one, as it is saved |
//! | [`save`] | that to disk and back |

pub mod again;
pub mod bundled;
pub mod check;
pub mod expect;
mod hold;
pub mod judge;
pub mod model;
pub mod outcome;
pub mod plan;
pub mod read;
pub mod run;
pub mod save;
pub(crate) mod sentence;
