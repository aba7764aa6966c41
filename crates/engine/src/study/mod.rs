//! Studies: races of one question as a file, with what others published about it, and what was
//! claimed. Running one sets published figures beside measured ones and says which claims hold.
//!
//! | file | content |
//! |---|---|
//! | [`model`] | a study file as plain data |
//! | [`read`] | parsing of a study file, and its checks |
//! | [`check`] | checks of a study, so that nothing of it is found wrong once it runs |
//! | [`expect`] | the claimed range of a figure |
//! | [`bundled`] | the studies that are in the program |
//! | [`plan`] | a race of a study as a request for a race, and as a command |
//! | [`run`] | race after race into a directory, and resuming of a run that was broken off |
//! | `hold` | a directory that one study at a time is run into |
//! | [`judge`], `sentence` | published figures beside measured ones, and claims; pure |
//! | [`again`] | earlier runs, judged by the current rules and claims; pure |
//! | [`outcome`] | the results of a study, as they are saved |
//! | [`save`] | those results to disk and back |

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
pub mod sentence;
